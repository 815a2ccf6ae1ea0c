"""Blocks of queries, the sum of a hidden layer, and when they are chosen."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention import Attention, attend, blockwise
from keras_attention.scores import tanh_sum

BACKEND = keras.backend.backend()
tensorflow_only = pytest.mark.skipif(
    BACKEND != "tensorflow", reason="this is TensorFlow's own"
)
compiled_only = pytest.mark.skipif(BACKEND == "torch", reason="PyTorch has no XLA")


def numbers(*shape, scale=1.0, seed=0):
    rng = np.random.default_rng([seed, *shape])
    return (scale * rng.normal(size=shape)).astype("float32")


def plain_sums(query, key, vector, upstream):
    """In float64: the sums, and their gradients by query, key and vector."""
    arrays = (query, key, vector, upstream)
    query, key, vector, upstream = (x.astype("float64") for x in arrays)
    hidden = np.tanh(query[:, :, None] + key[:, None])
    slopes = upstream[..., None] * (1 - hidden**2) * vector
    by_vector = np.einsum("bqk,bqkd->d", upstream, hidden)
    return hidden @ vector, slopes.sum(2), slopes.sum(1), by_vector


def sums_and_gradients(query, key, vector, upstream):
    if BACKEND == "tensorflow":
        import tensorflow as tf

        inputs = [tf.constant(x) for x in (query, key, vector)]
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            sums = tanh_sum.tanh_sum(*inputs)
        return [sums.numpy(), *(g.numpy() for g in tape.gradient(sums, inputs, upstream))]
    import jax

    sums, pull = jax.vjp(tanh_sum.tanh_sum, query, key, vector)
    return [np.asarray(x) for x in (sums, *pull(upstream))]


@compiled_only
@pytest.mark.parametrize(
    ("scale", "shift"),
    [
        (1.0, 0.0),  # an everyday layer
        (10.0, 0.0),  # saturated, products of powers past the largest float32
        (1.0, 60.0),  # powers past the largest float32: the exact formula
        (1.0, 42.5),  # some just in range, the others not
    ],
)
def test_sums_of_a_hidden_layer(scale, shift, monkeypatch):
    """Few steps, many or one; depths that fill no chunk; far from 0 on either side."""
    monkeypatch.setattr(tanh_sum, "SMALL", 0)
    for batch, queries, keys, depth in ((2, 19, 5, 7), (3, 2, 1, 33)):
        query = numbers(batch, queries, depth, scale=scale) + np.float32(shift)
        key = numbers(batch, keys, depth, scale=scale, seed=1) - np.float32(shift)
        arrays = query, key, numbers(depth), numbers(batch, queries, keys)
        found = sums_and_gradients(*arrays)
        for actual, desired in zip(found, plain_sums(*arrays), strict=True):
            # a + b itself is rounded where a and b are large.
            tolerance = 2e-5 if shift == 0 else 2e-4
            np.testing.assert_allclose(actual, desired, rtol=tolerance, atol=tolerance)


@compiled_only
def test_nan_and_infinity_stay_where_they_are(monkeypatch):
    monkeypatch.setattr(tanh_sum, "SMALL", 0)
    query, key = numbers(1, 3, 4), numbers(1, 5, 4)
    query[0, 1, 2], key[0, 4, 0] = np.nan, np.inf
    vector = np.ones(4, "float32")
    sums = tanh_sum.tanh_sum(*map(ops.convert_to_tensor, (query, key, vector)))
    sums = ops.convert_to_numpy(sums)
    expected = np.tanh(query[:, :, None] + key[:, None]).sum(-1)
    np.testing.assert_allclose(sums, expected, rtol=1e-5, atol=1e-6)
    assert np.isnan(sums[0, 1]).all()


def test_sizes_choose_the_block():
    whole, block = blockwise.WHOLE_BYTES, blockwise.BLOCK_BYTES
    keys = whole // 4 // 100
    assert blockwise.choose((1, 100, keys), 1) is None
    most = block // (4 * keys)
    assert most == 25
    assert blockwise.choose((1, 101, keys), 1) == 21  # five even blocks
    assert blockwise.choose((2, 100, keys), 1) == 12
    assert blockwise.choose((1, 100, keys), 2) == 12
    assert blockwise.choose((1, 100, 10**9), 1) == 1
    assert blockwise.choose((None, 1024, 1024), 1) == block // (32 * 4 * 1024)
    assert blockwise.choose((1, None, keys), 1) is None
    # The more heads, the more groups of them, not the smaller blocks.
    assert blockwise.choose((64, 512, 1024), 1, grouped=True) == 512
    assert blockwise.choose((1, 4096, 4096), 1, grouped=True) == 512


def test_many_scores_are_taken_in_blocks(monkeypatch):
    """Of 100 queries and keys, no more than 20 x 100 scores at a time."""
    seen = []

    @keras.saving.register_keras_serializable("test_blockwise")
    def product(query, key):
        seen.append(query.shape[-2])
        return ops.matmul(query, ops.swapaxes(key, -1, -2))

    x = numbers(1, 100, 3)
    expected = Attention(product)(x, x)
    assert set(seen) == {100}
    monkeypatch.setattr(blockwise, "WHOLE_BYTES", 4 * 100 * 99)
    monkeypatch.setattr(blockwise, "BLOCK_BYTES", 4 * 100 * 20)
    seen.clear()
    output = Attention(product)(x, x)
    assert set(seen) == {20}
    np.testing.assert_allclose(
        *map(ops.convert_to_numpy, (output, expected)), rtol=1e-5, atol=1e-6
    )
    seen.clear()
    Attention(product)(x, x, return_attention_scores=True)
    assert set(seen) == {100}


@pytest.mark.parametrize("normalizer", ["softmax", "sparsemax"])
def test_the_same_is_dropped_in_both_passes(normalizer):
    """The output is linear in the values: it is their gradient times them."""
    query, value, target = numbers(2, 7, 4), numbers(2, 9, 5), numbers(2, 7, 5)
    key = numbers(2, 9, 4)
    layer = Attention(normalizer=normalizer, dropout=0.5, seed=3, block_size=3)
    output, slope = output_and_slope(
        lambda v: layer(query, v, key, training=True), value, target
    )
    np.testing.assert_allclose((output * target).sum(), (slope * value).sum(), rtol=1e-4)
    again = ops.convert_to_numpy(layer(query, value, key, training=True))
    assert np.abs(again - output).max() > 1e-3  # each call draws anew
    blocks = output[:, :3], output[:, 3:6]
    assert np.abs(blocks[0] - blocks[1]).max() > 1e-3


def output_and_slope(function, x, target):
    if BACKEND == "tensorflow":
        import tensorflow as tf

        x = tf.constant(x)
        with tf.GradientTape() as tape:
            tape.watch(x)
            output = function(x)
        return output.numpy(), tape.gradient(output, x, target).numpy()
    if BACKEND == "jax":
        import jax

        output, pull = jax.vjp(function, x)
        return np.asarray(output), np.asarray(pull(target)[0])
    import torch

    x = torch.tensor(x, requires_grad=True)
    output = function(x)
    output.backward(torch.tensor(target))
    return output.detach().numpy(), x.grad.numpy()


def test_queries_without_axes_before_them_are_taken_in_blocks():
    query, value = numbers(7, 4), numbers(2, 3, 9, 4)
    whole = attend(query, value)[0]
    blocks = attend(query, value, return_attention_scores=False, block_size=3)[0]
    np.testing.assert_allclose(*map(ops.convert_to_numpy, (blocks, whole)), atol=1e-6)


@tensorflow_only
@pytest.mark.parametrize("score", ["dot", "additive"])
def test_unknown_lengths(score):
    """Blocks that divide the length or not, in one graph."""
    import tensorflow as tf

    layer = Attention(score, block_size=3)
    layer(numbers(1, 2, 4), numbers(1, 2, 4))

    @tf.function(input_signature=[tf.TensorSpec((None, None, 4))] * 2)
    def run(query, value):
        with tf.GradientTape() as tape:
            tape.watch([query, value])
            output = layer(query, value, use_causal_mask=True)
        return output, *tape.gradient(output, [query, value])

    for queries, keys in ((6, 5), (7, 9), (2, 4)):
        query, value = map(tf.constant, (numbers(1, queries, 4), numbers(1, keys, 4)))
        with tf.GradientTape() as tape:
            tape.watch([query, value])
            options = dict(use_causal_mask=True, return_attention_scores=True)
            output, _ = layer(query, value, **options)
        expected = output, *tape.gradient(output, [query, value])
        for actual, desired in zip(run(query, value), expected, strict=True):
            np.testing.assert_allclose(actual, desired, atol=1e-5)


@tensorflow_only
def test_a_second_derivative_is_right_or_refused():
    import tensorflow as tf

    def second(layer):
        x = tf.constant(numbers(1, 5, 4))
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                loss = tf.reduce_sum(tf.square(layer(x, x)))
            loss = tf.reduce_sum(inner.gradient(loss, x)[0, 1])
        return outer.gradient(loss, x).numpy()

    found = second(Attention("dot"))
    expected = second(lambda x, _: keras.layers.Attention()([x, x]))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    with pytest.raises(NotImplementedError, match="second derivative"):
        second(Attention(block_size=2))


def test_a_wrong_block_size_is_refused():
    with pytest.raises(ValueError, match=r"Expected `block_size`.*Received: 0"):
        Attention(block_size=0)
