"""Derivatives of derivatives: right, or refused, never silently wrong."""

import keras
import numpy as np
import pytest

import keras_attention as ka
from keras_attention.scores import tanh_sum

tf = pytest.importorskip("tensorflow")

pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="uses TensorFlow's tapes"
)


def gradient(layer, x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = tf.reduce_sum(tf.sin(3 * layer(x, x)))
    return tape.gradient(loss, x)


def along(layer, x, direction):
    """`direction . Hessian . direction`, by a tape around a tape."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        slope = tf.reduce_sum(gradient(layer, x) * direction)
    return float(tf.reduce_sum(tape.gradient(slope, x) * direction))


def check(layer, step=1e-4):
    rng = np.random.default_rng(5)
    x, direction = (tf.constant(rng.normal(size=(2, 3, 4))) for _ in range(2))
    apart = gradient(layer, x + step * direction) - gradient(layer, x - step * direction)
    expected = float(tf.reduce_sum(apart * direction)) / (2 * step)
    assert abs(expected) > 0.1
    np.testing.assert_allclose(along(layer, x, direction), expected, rtol=1e-4)


@pytest.mark.parametrize("score", ["dot", "cosine", "bilinear", "additive", "concat"])
def test_scores(score):
    keras.utils.set_random_seed(1)
    check(ka.Attention(score, dtype="float64"))


@pytest.mark.parametrize("normalizer", ["softmax", "sparsemax", "entmax15", "sigmoid"])
def test_normalizers(normalizer):
    check(ka.Attention("scaled_dot", normalizer, dtype="float64"))


@pytest.mark.parametrize("normalizer", ["softmax", "sparsemax"])
def test_blocks_refuse(normalizer):
    layer = ka.Attention("scaled_dot", normalizer, block_size=2)
    x = tf.ones((2, 3, 4))
    assert gradient(layer, x) is not None
    with pytest.raises(NotImplementedError, match="second derivative"):
        along(layer, x, x)


def test_large_additive_scores_refuse(monkeypatch):
    monkeypatch.setattr(tanh_sum, "SMALL", 1)
    layer = ka.Attention("additive", units=5)
    x = tf.ones((2, 3, 4))
    assert gradient(layer, x) is not None
    with pytest.raises(NotImplementedError, match="second derivative"):
        along(layer, x, x)
