"""Weights out of any model: this package's layers and Keras's own."""

import keras
import numpy as np
import pytest
import references
from keras import ops

import keras_attention as ka
from keras_attention import models

BATCH, STEPS, DEPTH = 5, 7, 4
IDS = np.array(
    [
        [3, 1, 4, 1, 5, 9, 2],
        [6, 5, 3, 0, 0, 0, 0],
        [0, 0, 0, 5, 8, 9, 7],
        [9, 3, 0, 2, 0, 3, 8],
        [4, 6, 2, 6, 4, 3, 0],
    ]
)
KEEP = IDS != 0


def embedded(ids, name="embedding"):
    return keras.layers.Embedding(10, DEPTH, mask_zero=True, name=name)(ids)


def additive_weights(layer, vectors, keep):
    query_kernel, key_kernel, v = (np.asarray(w, "float64") for w in layer.get_weights())
    hidden = np.tanh(
        (vectors @ query_kernel)[:, :, None] + (vectors @ key_kernel)[:, None, :]
    )
    return references.normalise("softmax", hidden @ v, keep[:, None, :])


def test_a_nested_plain_reloaded_model_equals_numpy(tmp_path):
    ids = keras.Input((None,), dtype="int32")
    vectors = embedded(ids)
    looked = ka.Attention("additive", units=3, name="look")(vectors, vectors)
    inner = keras.Model(ids, looked, name="inner")
    outside = keras.Input((None,), dtype="int32")
    pooled = ka.AttentionPooling(6, name="pool")(inner(outside))
    model = keras.Model(outside, keras.layers.Dense(1)(pooled))
    model.compile("adam", "mse")
    model.fit(IDS, np.ones((BATCH, 1)), epochs=1, verbose=0)
    before = model.predict(IDS, verbose=0)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    found = ka.attention_scores(again, IDS, verbose=0)
    assert list(found) == ["look", "pool"]

    inner = again.get_layer("inner")
    vectors = inner.get_layer("embedding").get_weights()[0][IDS].astype("float64")
    expected = additive_weights(inner.get_layer("look"), vectors, KEEP)
    shown = found["look"] * KEEP[:, :, None]  # rows of padded queries say nothing
    np.testing.assert_allclose(shown, expected * KEEP[:, :, None], atol=1e-6)
    context = (expected @ vectors) * KEEP[:, :, None]
    query, kernel, bias = again.get_layer("pool").get_weights()
    score = np.tanh(context @ kernel + bias) @ query[0]
    np.testing.assert_allclose(
        found["pool"], references.normalise("softmax", score, KEEP), atol=1e-6
    )
    np.testing.assert_array_equal(again.predict(IDS, verbose=0), before)


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (lambda: keras.layers.Attention(name="look"), (BATCH, STEPS, STEPS)),
        (lambda: keras.layers.AdditiveAttention(name="look"), (BATCH, STEPS, STEPS)),
    ],
)
def test_built_in_layers_that_take_lists(layer, shape):
    ids = keras.Input((None,), dtype="int32")
    vectors = embedded(ids)
    model = keras.Model(ids, layer()([vectors, vectors]))
    weights = ka.attention_scores(model, IDS, verbose=0)["look"]
    assert weights.shape == shape
    assert not (weights * ~KEEP[:, None, :]).any()
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)


def test_built_in_multi_head_attention():
    ids = keras.Input((None,), dtype="int32")
    vectors = embedded(ids)
    layer = keras.layers.MultiHeadAttention(3, 2, name="look")
    model = keras.Model(ids, layer(vectors, vectors))
    before = model.predict(IDS, verbose=0)
    weights = ka.attention_scores(model, IDS, verbose=0)["look"]
    assert weights.shape == (BATCH, 3, STEPS, STEPS)
    seen = weights * KEEP[:, None, :, None]
    assert np.abs(seen * ~KEEP[:, None, None, :]).max() < 1e-6
    np.testing.assert_array_equal(model.predict(IDS, verbose=0), before)


def test_built_in_grouped_query_attention():
    vectors = keras.Input((STEPS, DEPTH))
    layer = keras.layers.GroupQueryAttention(2, 4, 2, name="look")
    model = keras.Model(vectors, layer(vectors, vectors))
    weights = ka.attention_scores(model, np.ones((2, STEPS, DEPTH)), verbose=0)["look"]
    assert weights.shape == (2, 4, STEPS, STEPS)


def test_batches_are_joined_and_shown(capsys):
    model = keras.Sequential(
        [keras.layers.Embedding(10, DEPTH, mask_zero=True), ka.AttentionPooling(3)]
    )
    whole = ka.attention_scores(model, IDS)
    assert capsys.readouterr().out == ""
    parts = ka.attention_scores(model, IDS, batch_size=2)
    assert "3/3" in capsys.readouterr().out
    (name,) = whole
    np.testing.assert_allclose(parts[name], whole[name], atol=1e-6)


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.embedding = keras.layers.Embedding(10, DEPTH, mask_zero=True)
        self.looks = [ka.Attention(name="look"), ka.Attention(name="look")]
        self.pool = ka.AttentionPooling(3, name="pool")

    def call(self, inputs):
        left = self.embedding(inputs["left"])
        right = self.embedding(inputs["right"])
        for look in self.looks:
            left = look(left, right)
        return self.pool(left) + self.pool(right)


def test_a_subclassed_model_with_a_dict_shared_layers_and_equal_names():
    found = ka.attention_scores(Subclassed(), {"left": IDS[:, :3], "right": IDS}, verbose=0)
    first, second = (name for name in found if "look" in name)
    assert found[first].shape == found[second].shape == (BATCH, 3, STEPS)
    left, right = found["pool"]
    assert (left.shape, right.shape) == ((BATCH, 3), (BATCH, STEPS))


def test_whole_models_and_decoders_give_their_layers_weights():
    model = models.Seq2Seq("abc", "ab", embedding_dim=4, encoder_units=3)
    inputs, _ = model.encode_pairs(["a b c", "b"], ["b a", "a"])
    found = ka.attention_scores(model, inputs, verbose=0)
    _, expected = model(inputs, return_attention_scores=True)
    (weights,) = found.values()
    np.testing.assert_allclose(weights, ops.convert_to_numpy(expected), atol=1e-6)

    document = models.HierarchicalAttention(["good", "film"], embedding_dim=4)
    ids = document.encode(["good film. film", "good"])
    words, sentences = ka.attention_scores(document, ids, verbose=0).values()
    _, *expected = document(ids, return_attention_scores=True)
    np.testing.assert_allclose(
        words, ops.convert_to_numpy(expected[0]).reshape(4, 2), atol=1e-6
    )
    np.testing.assert_allclose(sentences, ops.convert_to_numpy(expected[1]), atol=1e-6)


def test_a_decoder_of_two_memories_has_two_arrays():
    target, one, other = (keras.Input((None, d)) for d in (4, 5, 6))
    decoder = ka.AttentionDecoder(
        keras.layers.GRUCell(3), ["bilinear", "additive"], name="say"
    )
    model = keras.Model([target, one, other], decoder(target, [one, other]))
    arrays = [np.ones((2, n, d), "float32") for n, d in ((7, 4), (8, 5), (9, 6))]
    first, second = ka.attention_scores(model, arrays, verbose=0)["say"]
    assert (first.shape, second.shape) == ((2, 7, 8), (2, 7, 9))


def test_a_layer_that_is_asked_for_weights_still_gives_them():
    vectors = keras.Input((None, DEPTH))
    output, weights = ka.Attention(name="look")(
        vectors, vectors, return_attention_scores=True
    )
    model = keras.Model(vectors, [output, weights])
    x = np.random.default_rng(0).normal(size=(2, 3, DEPTH)).astype("float32")
    found = ka.attention_scores(model, x, verbose=0)["look"]
    np.testing.assert_array_equal(found, model(x)[1])


def test_chosen_layers_and_what_is_unknown():
    model = Subclassed()
    inputs = {"left": IDS[:, :3], "right": IDS}
    assert list(ka.attention_scores(model, inputs, "pool", verbose=0)) == ["pool"]
    with pytest.raises(ValueError, match=r"pool.*Received: \['pol'\]"):
        ka.attention_scores(model, inputs, "pol")


def test_a_model_without_attention_is_refused_by_the_names_of_its_layers():
    model = keras.Sequential([keras.layers.Dense(2, name="plain")])
    with pytest.raises(ValueError, match="plain"):
        ka.attention_scores(model, np.ones((2, 3)))


def test_a_layer_that_is_not_called_is_named():
    model = Subclassed()
    model.unused = ka.Attention(name="unused")
    model.unused.build((None, 3, DEPTH), (None, 3, DEPTH))
    inputs = {"left": IDS[:, :3], "right": IDS}
    assert "unused" not in ka.attention_scores(model, inputs, verbose=0)
    with pytest.raises(ValueError, match=r"\['unused'\], which it does not call"):
        ka.attention_scores(model, inputs, ["unused"], verbose=0)


@pytest.mark.parametrize("inputs", [5, [[1, 2, 3]], []])
def test_inputs_that_are_no_arrays_are_refused(inputs):
    with pytest.raises(ValueError, match="with the batch as first axis"):
        ka.attention_scores(Subclassed(), inputs)


def test_a_call_that_fails_leaves_the_layer_as_it_was():
    model = Subclassed()
    model({"left": IDS, "right": IDS})
    with pytest.raises(KeyError):
        ka.attention_scores(model, {"left": IDS}, verbose=0)
    assert all("call" not in vars(look) for look in model.looks)
