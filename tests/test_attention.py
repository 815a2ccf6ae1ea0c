"""`Attention` and `attend`: self, cross and key-value attention, masks, errors."""

import keras
import numpy as np
import pytest
import references
from contract import to_numpy
from keras import ops

import keras_attention as ka

B, TQ, TK, DQ, DV = 2, 3, 5, 4, 7


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def close(actual, desired, atol=1e-5):
    np.testing.assert_allclose(to_numpy(actual), desired, atol=atol, rtol=1e-5)


def dot(query, value, key=None, mask=None):
    key = value if key is None else key
    scores = query @ np.swapaxes(key, -1, -2)
    weights = references.normalise("softmax", scores, mask)
    return weights @ value, weights


@pytest.fixture
def qkv():
    return normal(B, TQ, DQ), normal(B, TK, DV, seed=1), normal(B, TK, DQ, seed=2)


def test_self_attention():
    x = normal(B, TQ, DQ)
    output, weights = ka.Attention("dot")(x, x, return_attention_scores=True)
    expected, expected_weights = dot(x, x)
    close(output, expected)
    close(weights, expected_weights)


def test_attention_between_two_sequences(qkv):
    query, _, memory = qkv
    output, weights = ka.Attention("dot")(query, memory, return_attention_scores=True)
    expected, expected_weights = dot(query, memory)
    close(output, expected)
    close(weights, expected_weights)
    close(ka.Attention("dot")(query, memory, memory), expected)


def test_key_value_attention(qkv):
    query, value, key = qkv
    output, weights = ka.Attention("dot")(query, value, key, return_attention_scores=True)
    expected, expected_weights = dot(query, value, key)
    assert output.shape == (B, TQ, DV)
    close(output, expected)
    close(weights, expected_weights)


def test_attend_is_the_layer_as_a_function(qkv):
    query, value, key = qkv
    output, weights = ka.attend(query, value, key, score="dot")
    expected, expected_weights = dot(query, value, key)
    close(output, expected)
    close(weights, expected_weights)
    mask = normal(B, TQ, TK, seed=5) > 0
    output, weights = ka.attend(query, value, key, score="dot", mask=mask)
    expected, expected_weights = dot(query, value, key, mask)
    close(output, expected)
    close(weights, expected_weights)


def test_attend_default_is_scaled_dot_and_softmax(qkv):
    query, value, key = qkv
    close(ka.attend(query, value, key)[0], dot(query / 2, value, key)[0])
    close(ka.Attention()(query, value, key), dot(query / 2, value, key)[0])


# Masks.


def test_all_masks_are_anded(qkv):
    query, value, key = qkv
    rng = np.random.default_rng(3)
    query_mask = np.array([[1, 0, 1], [1, 1, 1]], bool)
    value_mask, key_mask = rng.random((2, B, TK)) < 0.8
    pair_mask = rng.random((B, TQ, TK)) < 0.8
    causal = np.tril(np.ones((TQ, TK)), TK - TQ).astype(bool)
    together = (
        query_mask[:, :, None]
        & value_mask[:, None]
        & key_mask[:, None]
        & pair_mask
        & causal
    )
    output, weights = ka.Attention("dot")(
        query,
        value,
        key,
        query_mask=query_mask,
        value_mask=value_mask,
        key_mask=key_mask,
        attention_mask=pair_mask,
        use_causal_mask=True,
        return_attention_scores=True,
    )
    expected, expected_weights = dot(query, value, key, together)
    close(output, expected)
    close(weights, expected_weights)
    assert not to_numpy(weights)[~together].any()
    assert not to_numpy(output)[~query_mask].any()


@pytest.mark.parametrize("dtype", ["bool", "int32", "uint8", "int64", "float32"])
def test_any_dtype_of_mask_nonzero_keeps(qkv, dtype):
    query, value, key = qkv
    mask = np.array([[1, 0, 1, 1, 0], [0, 1, 0, 1, 1]])
    numbers = (3 * mask).astype(dtype)
    output = ka.Attention("dot")(query, value, key, value_mask=numbers)
    close(output, dot(query, value, key, mask[:, None])[0])
    listed = ka.Attention("dot")(query, value, key, value_mask=numbers.tolist())
    close(listed, output)


def test_positive_integers_keep_and_negative_ones_are_refused(qkv):
    query, value, key = qkv
    mask = np.array([[9, 0, 1, 2, 0], [0, 1, 0, 1, 7]])
    output = ka.Attention("dot")(query, value, key, value_mask=mask)
    close(output, dot(query, value, key, mask[:, None] != 0)[0])
    with pytest.raises(ValueError, match="additive mask"):
        ka.Attention("dot")(query, value, key, value_mask=-mask)


def test_attention_mask_of_two_and_three_axes(qkv):
    query, value, key = qkv
    pairs = normal(B, TQ, TK, seed=5) > -0.3
    layer = ka.Attention("dot")
    for mask in (pairs, pairs[0], pairs[:1], pairs[:, :1], pairs[:, :, :1]):
        output = layer(query, value, key, attention_mask=mask)
        close(output, dot(query, value, key, mask)[0])


def test_attention_mask_on_four_axes_goes_by_meaning():
    """With B = S = Tq = Tk a wrong axis would not be noticed by its size."""
    x = normal(3, 3, 3, DQ)
    pairs = normal(3, 3, 3, seed=5) > -0.5
    every = normal(3, 3, 3, 3, seed=6) > -0.5
    layer = ka.Attention("dot")
    close(layer(x, x, attention_mask=pairs), dot(x, x, None, pairs[:, None])[0])
    close(layer(x, x, attention_mask=pairs[0]), dot(x, x, None, pairs[0])[0])
    close(layer(x, x, attention_mask=every), dot(x, x, None, every)[0])
    steps = pairs
    close(layer(x, x, value_mask=steps), dot(x, x, None, steps[:, :, None])[0])


@pytest.mark.parametrize(("queries", "keys"), [(3, 5), (5, 3), (4, 4), (1, 6)])
def test_causal_the_last_query_sees_every_key(queries, keys):
    query, value = normal(B, queries, DQ), normal(B, keys, DQ, seed=1)
    causal = np.array(
        [[j - i <= keys - queries for j in range(keys)] for i in range(queries)]
    )
    output, weights = ka.Attention("dot")(
        query, value, use_causal_mask=True, return_attention_scores=True
    )
    expected, expected_weights = dot(query, value, mask=causal)
    close(output, expected)
    close(weights, expected_weights)
    assert (to_numpy(weights)[:, -1] > 0).all()


@pytest.mark.parametrize("garbage", [np.nan, np.inf, 1e30])
@pytest.mark.parametrize("score", ["dot", "additive", "cosine", "trilinear"])
def test_the_future_has_no_influence_on_the_past(score, garbage):
    """The last step is an input for the last query and garbage for the others."""
    x = normal(B, TK, DQ)
    layer = ka.Attention(score)
    expected = to_numpy(layer(x, x, use_causal_mask=True))[:, :-1]
    x[:, -1] = garbage
    output = to_numpy(layer(x, x, use_causal_mask=True))
    close(output[:, :-1], expected)


@pytest.mark.parametrize("garbage", [np.nan, np.inf, 1e30])
def test_pair_mask_keeps_garbage_from_those_who_may_not_see_it(qkv, garbage):
    query, value, key = qkv
    layer = ka.Attention("dot")
    mask = np.ones((B, TQ, TK), bool)
    mask[:, :2, 3] = False
    clean = to_numpy(layer(query, value, key, attention_mask=mask))
    value[:, 3] = garbage
    key[:, 3] = garbage
    dirty = to_numpy(layer(query, value, key, attention_mask=mask))
    close(dirty[:, :2], clean[:, :2])


def test_a_nan_that_is_not_masked_is_not_hidden(qkv):
    """Only what is masked has no influence: a bug upstream has to show."""
    query, value, key = qkv
    layer = ka.Attention("dot")
    value[0, 1, 2] = np.nan
    mask = np.ones((B, TK), bool)
    pair = np.ones((B, TQ, TK), bool)
    for masks in ({}, {"value_mask": mask}, {"attention_mask": pair}):
        output = to_numpy(layer(query, value, key, **masks))
        assert np.isnan(output[0, :, 2]).all()
        assert not np.isnan(output[1]).any()


def test_masked_by_key_alone_and_by_value_alone(qkv):
    query, value, key = qkv
    key_mask = np.array([[1, 1, 1, 0, 1]] * B, bool)
    value_mask = np.array([[1, 0, 1, 1, 1]] * B, bool)
    both = (key_mask & value_mask)[:, None]
    expected = dot(query, value, key, both)[0]
    for steps in (1, 3):
        key[:, steps] = value[:, steps] = np.nan
    output = ka.Attention("dot")(
        query, value, key, key_mask=key_mask, value_mask=value_mask
    )
    close(output, expected)


def test_a_garbage_query_that_is_masked(qkv):
    query, value, key = qkv
    expected = dot(query, value, key)[0]
    query[:, 1] = np.nan
    mask = np.array([[1, 0, 1]] * B, bool)
    output, weights = ka.Attention("dot")(
        query, value, key, query_mask=mask, return_attention_scores=True
    )
    close(to_numpy(output)[:, [0, 2]], expected[:, [0, 2]])
    assert not to_numpy(output)[:, 1].any()
    assert not to_numpy(weights)[:, 1].any()


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("query_mask", (B, TK)),
        ("value_mask", (B, TQ)),
        ("key_mask", (B, TK, 1)),
        ("value_mask", (TK,)),
        ("value_mask", (1, TK)),
        ("key_mask", (B + 1, TK)),
        ("attention_mask", (B, TK, TQ)),
        ("attention_mask", (B, TK)),
        ("attention_mask", (TK,)),
        ("attention_mask", (B, 1, TQ, TK)),
    ],
)
def test_a_wrong_shape_names_the_mask_and_both_shapes(qkv, name, shape):
    query, value, key = qkv
    with pytest.raises(ValueError, match=name) as error:
        ka.Attention("dot")(query, value, key, **{name: np.ones(shape, bool)})
    assert str(shape) in str(error.value)
    steps = {"query_mask": (B, TQ), "attention_mask": (B, TQ, TK)}
    assert str(steps.get(name, (B, TK))) in str(error.value)


@pytest.mark.parametrize("name", ["query_mask", "value_mask", "key_mask"])
def test_an_additive_mask_is_refused_by_name(qkv, name):
    query, value, key = qkv
    steps = TQ if name == "query_mask" else TK
    mask = np.where(normal(B, steps) > 0, 0, -1e9).astype("float32")
    with pytest.raises(ValueError, match=rf"{name}.*additive"):
        ka.Attention("dot")(query, value, key, **{name: mask})


def test_an_additive_attention_mask_is_refused_by_name(qkv):
    query, value, key = qkv
    mask = np.where(normal(B, TQ, TK) > 0, 0, -np.inf).astype("float32")
    with pytest.raises(ValueError, match=r"attention_mask.*additive"):
        ka.Attention("dot")(query, value, key, attention_mask=mask)


def test_masks_from_the_package(qkv):
    query, value, key = qkv
    lengths = np.array([5, 2])
    close(
        ka.Attention("dot")(query, value, key, value_mask=ka.padding_mask(lengths, TK)),
        dot(query, value, key, (np.arange(TK) < lengths[:, None])[:, None])[0],
    )


# What else can be asked for.


def test_dropout_drops_weights_and_returns_them_whole():
    query, key = normal(B, TQ, DQ), normal(B, 40, DQ, seed=1)
    value = np.repeat(np.eye(40, dtype="float32")[None], B, 0)
    layer = ka.Attention("dot", dropout=0.25, seed=4)
    used, weights = layer(query, value, key, return_attention_scores=True, training=True)
    _, expected = dot(query, value, key)
    close(weights, expected)
    used = to_numpy(used)  # the values are unit vectors
    dropped = used == 0
    assert 0.1 < dropped.mean() < 0.45
    close(used[~dropped], (expected / 0.75)[~dropped])
    close(layer(query, value, key), expected)
    close(layer(query, value, key, training=False), expected)


def test_dropout_under_a_mask_leaves_empty_rows_zero(qkv):
    query, value, key = qkv
    mask = np.array([[0] * TK, [1, 1, 0, 0, 0]], bool)
    value[~mask] = key[~mask] = np.nan
    layer = ka.Attention("dot", dropout=0.5, seed=1)
    output = to_numpy(layer(query, value, key, value_mask=mask, training=True))
    assert not output[0].any()
    assert np.isfinite(output).all()


def test_the_same_seed_drops_the_same(qkv):
    query, value, key = qkv
    first, second = (
        ka.Attention("dot", dropout=0.5, seed=3)(query, value, key, training=True)
        for _ in range(2)
    )
    close(first, to_numpy(second))


def test_units_by_layer_or_by_score(qkv):
    layer = ka.Attention("additive", units=8)
    layer(*qkv)
    assert layer.score.units == 8
    assert ka.Attention(ka.AdditiveScore(8)).score.units == 8
    with pytest.raises(ValueError, match="units"):
        ka.Attention("dot", units=8)
    with pytest.raises(ValueError, match="units"):
        ka.Attention(ka.AdditiveScore(8), units=9)


@pytest.mark.parametrize("dropout", [-0.1, 1.5])
def test_bad_dropout(dropout):
    with pytest.raises(ValueError, match=r"rate|dropout"):
        ka.Attention(dropout=dropout)


def test_two_axes_are_one_example():
    query, value = normal(TQ, DQ), normal(TK, DQ, seed=1)
    close(ka.Attention("dot")(query, value), dot(query, value)[0])


def test_length_one(qkv):
    output, weights = ka.Attention("additive")(
        normal(1, 1, DQ), normal(1, 1, DV), return_attention_scores=True
    )
    close(output, normal(1, 1, DV))
    close(weights, np.ones((1, 1, 1)))


@pytest.mark.parametrize("kind", [list, tuple])
def test_a_list_shows_the_right_call(qkv, kind):
    query, value, _ = qkv
    with pytest.raises(ValueError, match=r"\(query, value\)"):
        ka.Attention("additive")(kind([query, value]))
    symbolic = kind([keras.Input((None, DQ)), keras.Input((None, DV))])
    with pytest.raises(ValueError, match=r"\(query, value\)"):
        ka.Attention("additive")(symbolic)


def test_a_list_as_value_is_refused(qkv):
    query, value, key = qkv
    with pytest.raises(ValueError, match=r"Expected query.*value.*Received"):
        ka.Attention("additive")(query, [value, key])


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="TensorFlow has ragged tensors"
)
def test_ragged_says_what_to_do():
    import tensorflow as tf

    ragged = tf.ragged.constant([[[1.0, 2.0]], [[1.0, 2.0], [3.0, 4.0]]], ragged_rank=1)
    with pytest.raises(ValueError, match="to_tensor"):
        ka.Attention("dot")(ragged, ragged)
    with pytest.raises(ValueError, match="to_tensor"):
        ka.Attention("dot")(normal(2, 3, 2), ragged)
    with pytest.raises(ValueError, match="to_tensor"):
        ka.AttentionPooling()(ragged)


@pytest.mark.parametrize(
    "shapes",
    [
        ((B, TQ, DQ), (B, TK, DQ), (B, TK + 1, DQ)),
        ((B, TQ, DQ), (B + 1, TK, DQ)),
        ((B, DQ), (B, TK, DQ)),
        ((B, 3, TQ, DQ), (B, TK, DQ)),
    ],
)
def test_shapes_that_do_not_fit_are_named(shapes):
    with pytest.raises(ValueError, match="Expected") as error:
        ka.Attention("dot")(*(normal(*s) for s in shapes))
    for shape in shapes:
        assert str(shape) in str(error.value)


def test_the_querys_mask_leaves_with_the_output():
    query = keras.layers.Masking()(np.array([[[1, 1], [0, 0], [2, 1.0]]]))
    value = keras.layers.Masking()(np.array([[[1, 1], [2, 0], [0, 0], [1, 3.0]]]))
    output = ka.Attention("dot")(query, value)
    pooled = keras.layers.GlobalAveragePooling1D()(output)
    close(pooled, to_numpy(output)[:, [0, 2]].mean(1))


def test_use_in_a_functional_and_a_subclassed_model(qkv):
    query, value, _ = qkv
    inputs = [keras.Input((None, DQ)), keras.Input((None, DV))]
    layer = ka.Attention("additive", units=8)
    model = keras.Model(inputs, layer(*inputs))
    expected = to_numpy(layer(query, value))

    class Reader(keras.Model):
        def __init__(self):
            super().__init__()
            self.attention = layer

        def call(self, inputs):
            return self.attention(*inputs)

    close(model.predict([query, value], verbose=0), expected)
    close(Reader().predict([query, value], verbose=0), expected)


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow",
    reason="Keras's matmul makes float32 of float64 on PyTorch, JAX does by default",
)
@pytest.mark.parametrize("score", ["dot", "additive"])
def test_float64_keeps_its_precision(score):
    query, value = normal(B, TQ, DQ), normal(B, TK, DQ, seed=1)
    query, value = query.astype("float64"), value.astype("float64")
    layer = ka.Attention(score, dtype="float64")
    output = layer(query, value)
    assert keras.backend.standardize_dtype(output.dtype) == "float64"
    w = dict(zip([v.name for v in layer.weights], layer.get_weights(), strict=True))
    expected, _ = references.attend(score, "softmax", query, value, value, w)
    np.testing.assert_allclose(ops.convert_to_numpy(output), expected, atol=1e-12)
