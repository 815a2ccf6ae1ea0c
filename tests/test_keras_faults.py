"""Faults that Keras's own attention layers were seen to have, and ours have not.

Numbers are those of the list the package was made from. Number 2, 16 and 17 aside, each
has a test here; the contract tests ask the same of every score and normaliser.
"""

import keras
import numpy as np
import pytest
import references
from contract import LAYERS, gradients, parameters, to_numpy
from keras import layers, ops

import keras_attention as ka

IDS = np.array([[1, 2, 3, 0, 0], [4, 5, 0, 0, 0]])
REAL = IDS != 0


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def close(actual, desired, atol=1e-5):
    np.testing.assert_allclose(to_numpy(actual), to_numpy(desired), atol=atol)


def test_01_ours_after_a_built_in_one_with_the_mask_passed():
    """MultiHeadAttention takes the mask off its inputs for all that follow."""
    embedding = layers.Embedding(6, 4, mask_zero=True)
    built_in = layers.MultiHeadAttention(2, 3)
    ours, pooling = ka.Attention("additive", units=5), ka.AttentionPooling(5)
    x = embedding(IDS)
    built_in(x, x)
    output, weights = ours(
        x, x, query_mask=REAL, value_mask=REAL, return_attention_scores=True
    )
    _, shares = pooling(x, mask=REAL, return_attention_scores=True)
    assert not to_numpy(weights)[~(REAL[:, :, None] & REAL[:, None])].any()
    assert not to_numpy(shares)[~REAL].any()
    fresh = embedding(IDS)
    close(output, ours(fresh, fresh))
    close(pooling(x, mask=REAL), pooling(fresh))


def test_01_a_deep_encoder_decoder_does_not_move_with_padding():
    source, target = keras.Input((None,), dtype="int32"), keras.Input((3, 4))
    encoded = layers.Embedding(6, 4, mask_zero=True)(source)
    for _ in range(2):
        attended = ka.Attention("bilinear")(encoded, encoded)
        encoded = layers.LayerNormalization()(layers.Add()([encoded, attended]))
    decoded, seen = target, []
    for _ in range(3):
        attended, weights = ka.Attention("bilinear")(
            decoded, encoded, return_attention_scores=True
        )
        decoded = layers.LayerNormalization()(layers.Add()([decoded, attended]))
        seen.append(weights)
    model = keras.Model([source, target], [decoded, *seen])
    queries = normal(2, 3, 4)
    padded = model.predict([IDS, queries], verbose=0)
    more = model.predict([np.pad(IDS, ((0, 0), (4, 2))), queries], verbose=0)
    alone = model.predict([IDS[:1, :3], queries[:1]], verbose=0)
    close(padded[0], more[0])
    close(padded[0][:1], alone[0])
    for weights in padded[1:]:
        assert not weights[np.broadcast_to(~REAL[:, None], weights.shape)].any()


def test_02_an_explicit_query_mask_is_as_good_as_a_carried_one():
    x = layers.Embedding(6, 4, mask_zero=True)(IDS)
    plain = ops.convert_to_tensor(to_numpy(x))
    layer = ka.Attention("dot")
    close(layer(plain, plain, query_mask=REAL, value_mask=REAL), layer(x, x))
    assert not to_numpy(layer(plain, plain, query_mask=REAL))[~REAL].any()


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("with_weights", [False, True])
def test_03_a_fully_masked_row_is_zero_on_every_path(training, causal, with_weights):
    value = normal(2, 5, 4)
    mask = np.array([[0] * 5, [1, 1, 0, 1, 0]])
    for dropout in (0.0, 0.5):
        layer = ka.Attention("dot", dropout=dropout, seed=1)
        found = layer(
            normal(2, 3, 4),
            value,
            value_mask=mask,
            training=training,
            use_causal_mask=causal,
            return_attention_scores=with_weights,
        )
        for part in found if with_weights else [found]:
            assert not to_numpy(part)[0].any()
            assert to_numpy(part)[1].any()


@pytest.mark.parametrize("dtype", ["float16", "mixed_float16", "bfloat16"])
def test_04_an_empty_row_with_low_scores_in_float16(dtype):
    layer = ka.Attention(ka.DotScore(use_scale=True, dtype=dtype), dtype=dtype)
    query = np.full((2, 3, 4), 100, layer.compute_dtype)
    value = np.full((2, 5, 4), -100, layer.compute_dtype)
    mask = np.array([[0] * 5, [1, 1, 0, 1, 0]])
    data = {"query": query, "value": value}
    data = {name: np.asarray(x, "float32") for name, x in data.items()}

    def call(d):
        d = {name: ops.cast(x, layer.compute_dtype) for name, x in d.items()}
        return layer(d["query"], d["value"], value_mask=mask, return_attention_scores=True)

    call(data)
    # The sample with the empty row is left out of the loss.
    targets = [np.ones((2, 3, 4), "float32"), np.ones((2, 3, 5), "float32")]
    for target in targets:
        target[0] = 0
    outputs, found = gradients(layer, call, data, targets)
    for output in outputs:
        assert np.isfinite(output).all()
        assert not output[0].any()
    for name, gradient in found.items():
        assert np.isfinite(gradient).all(), name


def test_05_the_product_of_query_and_key_passes_65504():
    query = np.full((1, 3, 64), 60, "float16")
    key = np.full((1, 5, 64), 60, "float16")
    key[:, 2] = 61
    value = normal(1, 5, 7).astype("float16")
    layer = ka.Attention("scaled_dot", dtype="mixed_float16")
    output, weights = layer(query, value, key, return_attention_scores=True)
    close(weights, np.eye(5)[[2, 2, 2]][None])
    close(output, np.repeat(value[:, 2:3].astype("f"), 3, 1))


def test_06_a_mask_on_the_key_counts():
    key = layers.Embedding(6, 4, mask_zero=True)(IDS)
    value = normal(2, 5, 7)
    layer = ka.Attention("dot")
    output, weights = layer(normal(2, 3, 4), value, key, return_attention_scores=True)
    hidden = np.broadcast_to(~REAL[:, None], (2, 3, 5))
    assert not to_numpy(weights)[hidden].any()
    close(output, to_numpy(weights) @ value)


def test_07_symbolic_weights_between_two_lengths():
    query, value = keras.Input((3, 4)), keras.Input((5, 4))
    _, weights = ka.Attention()(query, value, return_attention_scores=True)
    assert weights.shape == (None, 3, 5)


def test_08_a_float_additive_mask_is_refused_not_inverted():
    x = normal(2, 5, 4)
    additive = np.where(REAL, 0, -1e9).astype("float32")
    with pytest.raises(ValueError, match="value_mask"):
        ka.Attention()(x, x, value_mask=additive)
    with pytest.raises(ValueError, match="attention_mask"):
        ka.Attention()(x, x, attention_mask=np.repeat(additive[:, None], 5, 1))


def test_09_masks_of_four_axes_go_by_meaning():
    """With all sizes equal a wrong axis is silent."""
    x = normal(3, 3, 3, 4)
    mask = normal(3, 3, 3, seed=1) > -0.5
    layer = ka.Attention("dot")
    for found in (
        layer(x, x, value_mask=mask),
        layer(x, x, key_mask=mask),
        layer(x, x, attention_mask=np.repeat(mask[:, :, None], 3, 2)),
    ):
        for i in range(3):
            close(found[:, i], layer(x[:, i], x[:, i], value_mask=mask[:, i]))


@pytest.mark.parametrize("garbage", [np.nan, np.inf, 1e30])
def test_10_nan_in_a_masked_value_stays_there(garbage):
    x = normal(2, 5, 4)
    layer, pooling = ka.Attention("dot"), ka.AttentionPooling(3)
    clean = [layer(x, x, value_mask=REAL, query_mask=REAL), pooling(x, mask=REAL)]
    x[~REAL] = garbage
    dirty = [layer(x, x, value_mask=REAL, query_mask=REAL), pooling(x, mask=REAL)]
    for one, other in zip(dirty, clean, strict=True):
        close(one, other)


@pytest.mark.parametrize("case", LAYERS.values(), ids=LAYERS)
def test_11_every_argument_survives_the_config(case):
    layer = case("dot", "softmax").make()
    assert set(parameters(type(layer))) <= set(layer.get_config())


def test_11_what_cannot_work_is_refused_at_construction():
    for make in (
        lambda: ka.Attention("dot", units=4),
        lambda: ka.Attention(dropout=2),
        lambda: ka.Attention("no such score"),
        lambda: ka.Attention(normalizer="no such normalizer"),
        lambda: ka.AttentionPooling(score="dot", gated=True),
        lambda: ka.AttentionPooling(num_queries=0),
        lambda: ka.AdditiveScore(units=-1),
        lambda: ka.Softmax(temperature=0),
    ):
        with pytest.raises(ValueError, match=r"."):
            make()


def test_12_causal_the_last_query_sees_every_key():
    _, weights = ka.Attention()(
        normal(1, 2, 4),
        normal(1, 5, 4),
        use_causal_mask=True,
        return_attention_scores=True,
    )
    seen = to_numpy(weights)[0] > 0
    assert seen.tolist() == [[True] * 4 + [False], [True] * 5]


def test_12_one_query_after_a_cache_equals_the_last_row():
    x = normal(1, 5, 4)
    layer = ka.Attention()
    whole = layer(x, x, use_causal_mask=True)
    close(layer(x[:, -1:], x, use_causal_mask=True), whole[:, -1:])


def test_13_weights_are_those_before_dropout():
    layer = ka.Attention(dropout=0.5, seed=2)
    _, weights = layer(
        normal(2, 3, 4),
        normal(2, 5, 4, seed=1),
        training=True,
        return_attention_scores=True,
    )
    close(to_numpy(weights).sum(-1), np.ones((2, 3)))
    assert (to_numpy(weights) > 0).all()


def test_14_learned_projections_and_depths_of_their_own():
    query, value = normal(2, 3, 4), normal(2, 5, 6)
    shapes = {}
    for name in ("bilinear", "additive", "concat"):
        layer = ka.Attention(name)
        assert layer(query, value).shape == (2, 3, 6)
        shapes[name] = sorted(tuple(w.shape) for w in layer.trainable_weights)
    assert shapes == {
        "bilinear": [(4, 6)],
        "additive": [(4, 6), (6,), (6, 6)],
        "concat": [(6,), (10, 6)],
    }


def test_14_concat_concatenates():
    query, key = normal(2, 3, 4), normal(2, 5, 4, seed=1)
    score = ka.ConcatScore(units=4)
    found = score(query, key)
    kernel, v = score.get_weights()
    q, k = references.pairs(query, key)
    added = np.tanh(q + k).sum(-1)
    assert np.abs(to_numpy(found) - added).max() > 0.1
    both = np.concatenate(np.broadcast_arrays(q, k), axis=-1)
    close(found, np.tanh(both @ kernel) @ v)


def test_15_helpful_words_for_tuples_and_single_masks():
    x = normal(2, 5, 4)
    for wrong in ([x, x], (x, x)):
        with pytest.raises(ValueError, match=r"\(query, value\)"):
            ka.Attention()(wrong)
    with pytest.raises(ValueError, match=r"value_mask"):
        ka.Attention()(x, x, mask=REAL)


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="TensorFlow has ragged tensors"
)
def test_15_helpful_words_for_ragged_tensors():
    import tensorflow as tf

    ragged = tf.RaggedTensor.from_row_lengths(normal(5, 4), [3, 2])
    for call in (
        lambda: ka.Attention()(ragged, ragged),
        lambda: ka.Attention()(normal(2, 5, 4), ragged),
        lambda: ka.AttentionPooling()(ragged),
    ):
        with pytest.raises(ValueError, match=r"mask.*Received.*[Rr]agged"):
            call()
