"""Faults that people who tried the package found: each was wrong once."""

import warnings

import contract
import keras
import numpy as np
import pytest
from keras import ops

import keras_attention as ka
from keras_attention import visualization
from keras_attention.models import ImageCaptioner, MemoryNetwork

tensorflow_only = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="about TensorFlow's graphs"
)
RNG = np.random.default_rng(6)


def random(*shape):
    return RNG.normal(size=shape).astype("float32")


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32"])
def test_additive_masks_of_any_dtype_are_refused(dtype):
    mask = np.triu(np.full((3, 3), -(10**9)), 1).astype(dtype)
    with pytest.raises(ValueError, match="additive mask"):
        ka.Attention("dot")(random(2, 3, 4), random(2, 3, 4), attention_mask=mask)


@pytest.mark.parametrize("score", ["dot", "cosine", "additive"])
@pytest.mark.parametrize("batch", [0, 2])
def test_blocks_of_nothing(score, batch):
    """An empty batch, and no queries: the shape that there would be, and gradients."""
    layer = ka.Attention(score, block_size=2)
    layer(random(2, 5, 4), random(2, 6, 4))
    data = {"query": random(batch, 5 if batch == 0 else 0, 4), "value": random(batch, 6, 4)}
    mask = np.ones((batch, 6), bool)

    def call(d):
        return [layer(d["query"], d["value"], value_mask=mask, use_causal_mask=True)]

    outputs, slopes = contract.gradients(layer, call, data, [np.zeros(data["query"].shape)])
    assert outputs[0].shape == data["query"].shape
    assert not any(slope.any() for slope in slopes.values())


@tensorflow_only
@pytest.mark.parametrize("score", ["dot", "additive"])
def test_blocks_of_nothing_that_a_graph_did_not_expect(score):
    import tensorflow as tf

    layer = ka.Attention(score, block_size=2)
    layer(random(2, 5, 4), random(2, 6, 4))
    graph = tf.function(
        lambda x: layer(x, x), input_signature=[tf.TensorSpec((None, None, 4))]
    )
    for shape in ((0, 5, 4), (2, 0, 4), (3, 7, 4)):
        assert graph(tf.zeros(shape)).shape == shape


@pytest.mark.parametrize("rows", [3, [[1, 2]], [5], [-6]])
def test_rows_that_are_no_list_of_queries_are_refused(rows):
    x = random(3, 5, 4)
    with pytest.raises(ValueError, match="Expected `attention_rows`"):
        ka.Attention("dot")(x, x, attention_rows=rows)
    inputs = keras.Input((5, 4))
    with pytest.raises(ValueError, match="Expected `attention_rows`"):
        ka.Attention("dot")(inputs, inputs, attention_rows=rows)


@pytest.mark.parametrize("normalizer", ["reinforce", "marginal"])
def test_hard_attention_takes_labels_without_a_second_axis(normalizer):
    inputs = keras.Input((4, 3))
    pooled = ka.AttentionPooling(2, normalizer=normalizer)(inputs)
    output = keras.layers.Dense(1, activation="sigmoid")(pooled)
    model = ka.HardAttentionModel(inputs, output)
    model.compile("sgd", "binary_crossentropy", run_eagerly=True)
    losses = [
        model.fit(random(6, 4, 3), labels, verbose=0).history["loss"][0]
        for labels in (
            np.array([0, 1, 0, 1, 1, 0.0]),
            np.array([[0], [1], [0], [1], [1], [0]]),
        )
    ]
    assert np.isfinite(losses).all()


@pytest.mark.parametrize("dtype", ["float16", "mixed_float16", "float64"])
def test_hard_attention_is_trained_in_every_dtype(dtype):
    inputs = keras.Input((4, 3), dtype="float32")
    pooled = ka.AttentionPooling(2, normalizer="reinforce", dtype=dtype)(inputs)
    model = ka.HardAttentionModel(inputs, keras.layers.Dense(1, dtype=dtype)(pooled))
    model.compile("sgd", "mse", run_eagerly=True)
    history = model.fit(random(6, 4, 3), random(6, 1), verbose=0).history
    assert np.isfinite(history["loss"]).all()


def test_losses_of_labels_without_a_second_axis_are_those_with_one():
    from keras_attention.sequence_losses import losses_per_sample

    labels, answers = np.array([0.0, 1, 1]), np.array([[0.2], [0.9], [0.4]], "float32")
    losses = [
        contract.to_numpy(losses_per_sample("binary_crossentropy", y, answers))
        for y in (labels, labels[:, None])
    ]
    np.testing.assert_allclose(losses[0], -np.log([0.8, 0.9, 0.4]), rtol=1e-5)
    np.testing.assert_array_equal(*losses)


@tensorflow_only
@pytest.mark.parametrize("built", [False, True])
def test_weights_out_of_a_model_whose_call_is_a_graph(built):
    import tensorflow as tf

    class Graphed(keras.Model):
        def __init__(self):
            super().__init__()
            self.pooling = ka.AttentionPooling(3, name="look")

        @tf.function
        def call(self, x):
            return self.pooling(x)

    model, x = Graphed(), random(2, 5, 4)
    if built:
        model(x)
    weights = ka.attention_scores(model, x)["look"]
    _, expected = model.pooling(x, return_attention_scores=True)
    np.testing.assert_allclose(weights, contract.to_numpy(expected), atol=1e-6)
    assert not tf.config.functions_run_eagerly()


def test_a_score_of_the_wrong_shape_says_so():
    @keras.saving.register_keras_serializable("test_found_in_use")
    def elementwise(query, key):
        return ops.sum(query * key, axis=-1)

    with pytest.raises(ValueError, match=r"Expected scores .* 3, 3\).*shape \(2, 3\)"):
        ka.Attention(score=elementwise)(random(2, 3, 4), random(2, 3, 4))


def test_units_that_a_score_does_not_have_are_to_be_left_out():
    for score in ("dot", ka.DotScore()):
        with pytest.raises(ValueError, match="leave it out"):
            ka.AttentionPooling(4, score=score)


def test_a_layer_of_keras_is_no_attention_of_a_decoder():
    with pytest.raises(
        ValueError, match=r"Expected a keras_attention.Attention.*Received: <AdditiveAtt"
    ):
        ka.AttentionDecoder(keras.layers.GRUCell(8), keras.layers.AdditiveAttention())


@pytest.mark.parametrize("word", ["Kitchen", "living room", ""])
def test_words_that_no_text_can_hold_are_refused(word):
    network = MemoryNetwork(["garden", word])
    with pytest.raises(ValueError, match="lower-case words without spaces"):
        network.encode([["A garden."]], ["Where?"])
    captioner = ImageCaptioner(["garden", word], image_shape=(24, 24, 1))
    with pytest.raises(ValueError, match="lower-case words without spaces"):
        captioner.encode_pairs(np.zeros((1, 24, 24, 1)), ["a garden"])


def test_strings_in_place_of_lists_of_sentences_are_named():
    model = MemoryNetwork(["a", "b"])
    with pytest.raises(ValueError, match=r"Expected a story .* the string 'a b\.'"):
        model.encode(["a b."], ["a?"])
    with pytest.raises(ValueError, match=r"Expected questions .* the string 'a\?'"):
        model.encode([["a b."]], "a?")


@tensorflow_only
def test_a_quantized_memory_network_answers_as_before():
    model = MemoryNetwork("mary went to the garden where is".split())
    inputs = model.encode([["Mary went to the garden."]], ["Where is Mary?"])
    before = contract.to_numpy(model(inputs))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Of layers without weights, which Keras leaves.
        model.quantize("int8")
    np.testing.assert_allclose(contract.to_numpy(model(inputs)), before, atol=0.05)


def test_joined_letters_and_spaces_that_do_not_break_are_shown():
    words = ["mi\u200ckhaham", "10\u00a0000", "👩\u200d👩", np.int64(7)]
    shown = visualization.shade_words(words, [0.5, 0.3, 0.1, 0.1])
    assert all(str(word) in shown for word in words)
    assert "\x1b[31m" not in visualization.shade_words(["\x1b[31m"], [1.0])
