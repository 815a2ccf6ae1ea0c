"""Faults of softmax, of blocks and of searches that people found: each was wrong once."""

import contract
import keras
import numpy as np
import pytest
from keras import ops

import keras_attention as ka
from keras_attention.axes import argmax
from keras_attention.normalizers import Softmax

tensorflow_only = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="about TensorFlow's graphs"
)
RNG = np.random.default_rng(8)
HUGE = np.array([[1e30]], "float32")


def random(*shape):
    return RNG.normal(size=shape).astype("float32")


def attended(data, block_size, score="dot", upstream=None, **options):
    """The output of attention and its gradients, in blocks or, with `None`, at once."""
    score = ka.scores.get(score)
    score.build(data["query"].shape, data["key"].shape)
    at_once = block_size is None

    def call(d):
        found = ka.attend(
            *(d["query"], d["value"], d["key"]),
            score=score,
            block_size=block_size,
            return_attention_scores=at_once,
            **options,
        )
        return found[:1]

    lead = np.broadcast_shapes(*(x.shape[:-2] for x in data.values()))
    shape = (*lead, data["query"].shape[-2], data["value"].shape[-1])
    if upstream is None:
        upstream = np.arange(np.prod(shape), dtype="float32").reshape(shape)
    (output,), slopes = contract.gradients(score, call, data, [upstream])
    return {"output": output, **slopes}


def assert_alike(found, expected):
    for name, array in expected.items():
        scale = max(1, np.abs(array).max(initial=0))
        np.testing.assert_allclose(found[name], array, 1e-4, 1e-5 * scale, err_msg=name)


@pytest.mark.parametrize("score", ["dot", "additive", "bilinear"])
@pytest.mark.parametrize("leads", [((2,), (1,), (1,)), ((1,), (1,), (2,)), ((), (2,), ())])
def test_axes_that_only_one_of_the_three_has(score, leads):
    sizes = {"query": (5, 3), "key": (6, 3), "value": (6, 4)}
    data = {
        name: random(*lead, *size)
        for lead, (name, size) in zip(leads, sizes.items(), strict=True)
    }
    found = {}
    for block_size in (None, 2):
        keras.utils.set_random_seed(1)
        found[block_size] = attended(data, block_size, score)
    assert_alike(found[2], found[None])


@pytest.mark.parametrize("mask", [None, np.array([[True, False]])])
def test_scores_that_overflow_leave_nothing_to_attend_to(mask):
    data = {
        "query": np.concatenate([HUGE, HUGE, HUGE**0]),
        "key": np.concatenate([-HUGE, -HUGE]),
        "value": np.array([[1], [2]], "float32"),
    }
    for block_size in (None, 1):
        found = attended(data, block_size, mask=mask)
        np.testing.assert_allclose(
            found["output"][:, 0], [0, 0, 1 if mask is not None else 1.5]
        )
        assert all(np.isfinite(array).all() for array in found.values())
        assert not found["query"][:2].any()


@pytest.mark.parametrize("block_size", [None, 1])
@pytest.mark.parametrize("score", ["dot", "additive"])
@pytest.mark.parametrize("normalizer", ["softmax", "sparsemax", "entmax15", "sigmoid"])
def test_a_hidden_value_does_not_overflow_into_gradients(block_size, score, normalizer):
    keras.utils.set_random_seed(0)
    data = {"query": random(2, 1), "key": random(2, 1), "value": np.array([[1], [1e38]])}
    upstream = np.array([[100], [0]], "float32")
    options = dict(use_causal_mask=True, normalizer=normalizer)
    found = attended(data, block_size, score, upstream, **options)
    assert all(np.isfinite(array).all() for array in found.values())
    if normalizer != "sigmoid":  # whose weight of a single key may change
        assert not found["query"][0].any()


@pytest.mark.parametrize("block_size", [0, -1, 2.0, True])
def test_a_block_of_no_positive_number_is_refused(block_size):
    with pytest.raises(ValueError, match=r"block_size.*Received"):
        ka.attend(random(2, 3), random(4, 3), block_size=block_size)


@tensorflow_only
def test_a_mask_made_outside_of_a_branch():
    import tensorflow as tf

    mask = tf.constant([[True, False]])

    @tf.function
    def slope(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.cond(x[0, 0] > 0, lambda: x[:, :1] * Softmax()(x, mask=mask), lambda: x)
        return tape.gradient(y, x)

    np.testing.assert_allclose(slope(tf.constant([[3.0, 2.0]])), [[1, 0]])


@tensorflow_only
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("mask", [None, np.array([[False, True]])])
def test_no_number_shows_in_a_compiled_softmax_too(compiled, mask):
    import tensorflow as tf

    softmax = tf.function(lambda x: Softmax()(x, mask=mask), jit_compile=compiled)
    assert np.isnan(softmax(tf.constant([[np.nan, np.nan]]))[0, 1])


@tensorflow_only
@pytest.mark.parametrize("score", ["dot", "additive"])
def test_no_steps_under_a_causal_mask_in_a_graph(score):
    import tensorflow as tf

    layer = ka.Attention(score, block_size=2)
    layer(random(2, 5, 4), random(2, 6, 4))
    any_length = [tf.TensorSpec((None, None, 4))] * 2

    @tf.function(input_signature=any_length)
    def graph(query, value):
        return layer(query, value, use_causal_mask=True)

    for queries, keys in ((0, 6), (5, 0), (5, 6)):
        query, value = random(2, queries, 4), random(2, keys, 4)
        found = graph(query, value)
        assert found.shape == (2, queries, 4)
        np.testing.assert_allclose(found, layer(query, value, use_causal_mask=True), 1e-5)


@pytest.mark.parametrize("words", [1, 2, 5, 50])
def test_of_equal_numbers_the_first_is_the_largest(words):
    assert not ops.convert_to_numpy(argmax(np.zeros((2, 3, words)))).any()
    assert ops.convert_to_numpy(argmax([[False, True]])) == [1]
    accuracy = ka.TokenAccuracy(padding=-1)(np.zeros((2, 3)), np.zeros((2, 3, words)))
    assert float(accuracy) == 1

    def equal(tokens, states, context):
        return ops.zeros((1, words)), None, states

    found = ka.greedy_search(equal, [], np.zeros(1, int), 0, max_length=4)
    assert ops.convert_to_numpy(found.lengths) == [1]
