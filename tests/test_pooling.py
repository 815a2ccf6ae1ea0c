"""`AttentionPooling`: axes, several queries, gates, masks, errors."""

import keras
import numpy as np
import pytest
import references
from contract import randomise, to_numpy, weights_of

import keras_attention as ka

B, S, T, D, UNITS = 2, 3, 5, 6, 10
NAN = np.float32("nan")


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def close(actual, desired, atol=1e-5):
    np.testing.assert_allclose(to_numpy(actual), desired, atol=atol, rtol=1e-5)


def made(x, **options):
    layer = ka.AttentionPooling(**options)
    layer.build(x.shape)
    randomise(layer)
    return layer


def both(layer, x, mask=None):
    return [to_numpy(y) for y in layer(x, mask=mask, return_attention_scores=True)]


def expected(layer, x, mask=None):
    """The tutorials' formula, written out: v . tanh(W x + b)."""
    w = weights_of(layer)
    hidden = np.tanh(x @ w["kernel"] + w["bias"])
    weights = references.normalise("softmax", hidden @ w["query"][0], mask)
    return (weights[..., None] * x).sum(-2), weights


def test_the_formula_and_the_order_of_weights():
    x = normal(B, T, D)
    layer = made(x, units=UNITS)
    assert [w.name for w in layer.weights][:3] == ["query", "kernel", "bias"]
    assert [w.shape for w in layer.trainable_weights] == [
        (1, UNITS),
        (D, UNITS),
        (UNITS,),
    ]
    for actual, desired in zip(both(layer, x), expected(layer, x), strict=True):
        close(actual, desired)
    assert to_numpy(layer(x)).shape == (B, D)


def test_units_is_the_first_argument_and_none_means_the_inputs_depth():
    x = normal(B, T, D)
    layer = ka.AttentionPooling(64)
    layer(x)
    assert layer.score.units == 64
    assert weights_of(made(x))["kernel"].shape == (D, D)


@pytest.mark.parametrize("shape", [(B, T, D), (B, S, T, D), (B, 4, S, T, D)])
def test_the_default_axis_is_the_last_but_one(shape):
    x = normal(*shape)
    mask = normal(*shape[:-1], seed=4) > -0.3
    layer = made(x, units=UNITS)
    for keep in (None, mask):
        output, weights = both(layer, x, keep)
        desired, desired_weights = expected(layer, x, keep)
        assert weights.shape == shape[:-1]
        close(output, desired)
        close(weights, desired_weights)


def test_axis_one_of_four():
    x = normal(B, S, T, D)
    mask = normal(B, S, T, seed=4) > -0.3
    layer = made(x, units=UNITS, axis=1)
    for axis in (1, -3, (1,), [1]):
        same = ka.AttentionPooling(UNITS, axis=axis)
        same.build(x.shape)
        same.set_weights(layer.get_weights())
        output, weights = both(same, x, mask)
        desired, desired_weights = expected(
            layer, np.swapaxes(x, 1, 2), np.swapaxes(mask, 1, 2)
        )
        assert output.shape == (B, T, D)
        assert weights.shape == (B, S, T)
        close(output, desired)
        close(weights, np.swapaxes(desired_weights, 1, 2))


@pytest.mark.parametrize("axis", [(1, 2), (2, 1), (-3, -2), [1, 2]])
def test_a_map_is_pooled_whole(axis):
    """(B, H, W, C) equals its reshape to (B, H*W, C); weights are (B, H, W)."""
    height, width = 3, 5
    x = normal(B, height, width, D)
    mask = normal(B, height, width, seed=4) > -0.3
    layer = made(x, units=UNITS, axis=axis)
    for keep in (None, mask):
        output, weights = both(layer, x, keep)
        flat = None if keep is None else keep.reshape(B, -1)
        desired, desired_weights = expected(layer, x.reshape(B, -1, D), flat)
        assert output.shape == (B, D)
        assert weights.shape == (B, height, width)
        close(output, desired)
        close(weights, desired_weights.reshape(B, height, width))
        close(weights.sum((1, 2)), np.ones(B))


def test_axes_that_are_no_neighbours():
    x = normal(B, S, T, 4, D)
    mask = normal(B, S, T, 4, seed=4) > -0.3
    layer = made(x, units=UNITS, axis=(1, 3))
    moved, moved_mask = np.moveaxis(x, 1, 2), np.moveaxis(mask, 1, 2)
    output, weights = both(layer, x, mask)
    desired, desired_weights = expected(
        layer, moved.reshape(B, T, -1, D), moved_mask.reshape(B, T, -1)
    )
    close(output, desired)
    assert weights.shape == (B, S, T, 4)
    close(np.moveaxis(weights, 1, 2).reshape(B, T, -1), desired_weights)


def test_several_queries():
    x = normal(B, T, D)
    mask = normal(B, T, seed=4) > -0.3
    layer = made(x, units=UNITS, num_queries=4)
    output, weights = both(layer, x, mask)
    assert output.shape == (B, 4, D)
    assert weights.shape == (B, 4, T)
    w = weights_of(layer)
    for i in range(4):
        one = made(x, units=UNITS)
        for variable in one.trainable_weights:
            number = w[variable.name]
            variable.assign(number[i : i + 1] if variable.name == "query" else number)
        for actual, desired in zip((output, weights), both(one, x, mask), strict=True):
            close(actual[:, i], desired)
    single = made(x, units=UNITS, num_queries=1)
    output, weights = both(single, x, mask)
    assert output.shape == (B, 1, D)
    assert weights.shape == (B, 1, T)


def test_several_queries_stand_before_the_first_pooled_axis():
    x = normal(B, S, T, D)
    layer = made(x, units=UNITS, num_queries=4)
    output, weights = both(layer, x)
    assert output.shape == (B, S, 4, D)
    assert weights.shape == (B, S, 4, T)
    close(output[:, 1], both(layer, x[:, 1])[0])

    whole = made(x, units=UNITS, num_queries=4, axis=(1, 2))
    output, weights = both(whole, x)
    assert output.shape == (B, 4, D)
    assert weights.shape == (B, 4, S, T)
    close(np.einsum("bnst,bstd->bnd", weights, x), output)

    first = made(x, units=UNITS, num_queries=4, axis=1)
    output, weights = both(first, x)
    assert output.shape == (B, 4, T, D)
    assert weights.shape == (B, 4, S, T)
    close(np.einsum("bnst,bstd->bntd", weights, x), output)


@pytest.mark.parametrize("axis", [-2, 1, (1, 2)])
@pytest.mark.parametrize("num_queries", [None, 4])
def test_symbolic_shapes_of_all_axes(axis, num_queries):
    x = normal(B, S, T, D)
    layer = made(x, units=UNITS, axis=axis, num_queries=num_queries)
    real = [y.shape for y in both(layer, x)]
    fixed = layer(keras.Input(batch_shape=x.shape), return_attention_scores=True)
    assert [tuple(y.shape) for y in fixed] == real
    assert tuple(layer.compute_output_shape(x.shape)) == real[0]
    inputs = keras.Input((None, None, D))
    outputs = layer(inputs, return_attention_scores=True)
    for y, shape in zip(outputs, real, strict=True):
        assert len(y.shape) == len(shape)
        for symbolic, size in zip(y.shape, shape, strict=True):
            assert symbolic == (size if size in (D, num_queries) else None)
    model = keras.Model(inputs, outputs)
    wider = normal(1, 4, 8, D)
    for actual, desired in zip(model(wider), both(layer, wider), strict=True):
        close(actual, desired)


def test_gated():
    x = normal(B, T, D)
    layer = made(x, units=UNITS, gated=True)
    w = weights_of(layer)
    gate = references.logistic(x @ w["gate_kernel"] + w["gate_bias"])
    hidden = np.tanh(x @ w["kernel"] + w["bias"]) * gate
    desired = references.normalise("softmax", hidden @ w["query"][0])
    output, weights = both(layer, x)
    close(weights, desired)
    close(output, (desired[..., None] * x).sum(1))
    assert layer.count_params() == 2 * (D * UNITS + UNITS) + UNITS


def test_a_fully_masked_row_pools_to_zeros():
    x = normal(B, S, T, D)
    mask = np.ones((B, S, T), bool)
    mask[0, 1] = False
    x[0, 1] = NAN
    output, weights = both(made(x, units=UNITS), x, mask)
    assert not output[0, 1].any()
    assert not weights[0, 1].any()
    assert np.isfinite(output).all()


def test_no_mask_leaves():
    """What follows sees vectors; with one query per row there is nothing to mask."""
    ids = np.array([[1, 2, 0], [0, 0, 0]])
    embedded = keras.layers.Embedding(5, 4, mask_zero=True)(ids)
    pooled = ka.AttentionPooling()(embedded)
    assert getattr(pooled, "_keras_mask", None) is None
    symbolic = keras.Input((None,), dtype="int32")
    pooled = ka.AttentionPooling()(keras.layers.Embedding(5, 4, mask_zero=True)(symbolic))
    assert getattr(pooled, "_keras_mask", None) is None
    keras.layers.LSTM(3)(keras.layers.Reshape((2, 2))(pooled))


@pytest.mark.parametrize("dtype", ["bool", "int32", "float32"])
def test_masks_of_any_dtype(dtype):
    x = normal(B, T, D)
    mask = np.array([[1, 0, 1, 1, 0], [0, 1, 0, 1, 1]])
    layer = made(x, units=UNITS)
    desired = both(layer, x, mask.astype(bool))
    for actual, want in zip(both(layer, x, mask.astype(dtype)), desired, strict=True):
        close(actual, want)


@pytest.mark.parametrize("shape", [(B, T, D), (B, T + 1), (T,), (1, T), (B, 1, T)])
def test_a_wrong_mask_names_both_shapes(shape):
    x = normal(B, T, D)
    with pytest.raises(ValueError, match="mask") as error:
        ka.AttentionPooling()(x, mask=np.ones(shape, bool))
    assert str(shape) in str(error.value)
    assert str((B, T)) in str(error.value)


def test_an_additive_mask_is_refused():
    mask = np.array([[0, -1e9, 0, 0, 0]] * B, "float32")
    with pytest.raises(ValueError, match=r"mask.*additive"):
        ka.AttentionPooling()(normal(B, T, D), mask=mask)


@pytest.mark.parametrize("axis", [3, -4, 2, -1, 0, -3, (1, 1), (1, -2), (1, 2), ()])
def test_axes_that_cannot_be_pooled(axis):
    """The first axis is the batch, the last one the features."""
    with pytest.raises(ValueError, match=r"axis.*Received"):
        ka.AttentionPooling(axis=axis)(normal(B, T, D))


def test_vectors_are_no_sequence():
    with pytest.raises(ValueError, match=r"axis.*Received"):
        ka.AttentionPooling()(normal(T, D))


@pytest.mark.parametrize("num_queries", [0, -2, 1.5])
def test_bad_num_queries(num_queries):
    with pytest.raises(ValueError, match=r"num_queries.*Received"):
        ka.AttentionPooling(num_queries=num_queries)


@pytest.mark.parametrize("units", [0, -2, 1.5])
def test_bad_units(units):
    with pytest.raises(ValueError, match=r"units.*Received"):
        ka.AttentionPooling(units)


@pytest.mark.parametrize("kind", [list, tuple])
def test_a_list_is_refused(kind):
    x = normal(B, T, D)
    with pytest.raises(ValueError, match=r"mask=mask"):
        ka.AttentionPooling()(kind([x, x]))


def test_gated_is_for_scores_that_have_a_gate():
    with pytest.raises(ValueError, match="gated"):
        ka.AttentionPooling(score="dot", gated=True)


def test_query_initializer_regularizer_and_constraint():
    layer = ka.AttentionPooling(
        units=UNITS,
        query_initializer="ones",
        query_regularizer=keras.regularizers.L2(0.5),
        query_constraint="non_neg",
    )
    layer(normal(B, T, D))
    query = next(w for w in layer.trainable_weights if w.name == "query")
    assert (to_numpy(query) == 1).all()
    close(sum(layer.losses), 0.5 * UNITS)
    assert isinstance(query.constraint, keras.constraints.NonNeg)


def test_dropout_returns_the_whole_weights():
    x = normal(B, 40, D)
    layer = made(x, units=UNITS, dropout=0.5, seed=2)
    output, weights = both(layer, x)
    dropped, same = layer(x, return_attention_scores=True, training=True)
    close(same, weights)
    assert np.abs(to_numpy(dropped) - output).max() > 1e-3


def test_a_fully_masked_row_under_dropout():
    x = normal(B, T, D)
    x[0] = NAN
    mask = np.array([[0] * T, [1] * T], bool)
    layer = made(x, units=UNITS, dropout=0.5, seed=2)
    output = to_numpy(layer(x, mask=mask, training=True))
    assert not output[0].any()
    assert np.isfinite(output).all()
