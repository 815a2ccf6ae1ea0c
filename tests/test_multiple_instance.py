"""`MultipleInstance`: bags of any size, which instance it was, saving; its benchmark."""

import json
import sys

import keras
import numpy as np
import pytest
from conftest import ROOT
from contract import gradients, to_numpy

from keras_attention.models import MultipleInstance

sys.path.insert(0, str(ROOT / "benchmarks"))
import mil as benchmark

B, N, H, W = 3, 5, 4, 6


def bags():
    return np.random.default_rng(0).normal(size=(B, N, H, W)).astype("float32")


def encoder():
    return keras.Sequential(
        [keras.Input((H, W)), keras.layers.Flatten(), keras.layers.Dense(7, "tanh")]
    )


@pytest.mark.parametrize("gated", [False, True])
def test_equals_the_papers_formula(gated):
    model = MultipleInstance(encoder(), attention_units=8, gated=gated)
    x = bags()
    y, w = (to_numpy(z) for z in model(x, return_attention_scores=True))
    h = to_numpy(model.encoder(x.reshape(B * N, H, W))).reshape(B, N, 7)
    score = model.pool.score
    hidden = np.tanh(h @ to_numpy(score.kernel) + to_numpy(score.bias))
    if gated:
        gate = h @ to_numpy(score.gate_kernel) + to_numpy(score.gate_bias)
        hidden = hidden / (1 + np.exp(-gate))
    powers = np.exp(hidden @ to_numpy(model.pool.query)[0])
    weights = powers / powers.sum(-1, keepdims=True)
    np.testing.assert_allclose(w, weights, atol=1e-5)
    pooled = np.einsum("bn,bnd->bd", weights, h)
    logits = pooled @ to_numpy(model.classifier.kernel)
    np.testing.assert_allclose(y, 1 / (1 + np.exp(-logits)), atol=1e-5)


def test_padding_has_no_influence():
    model, x = MultipleInstance(encoder(), 8, gated=True), bags()
    model(x)
    places = [1, 2, 4, 5, 6]
    padded = np.full((B, 8, H, W), np.nan, "float32")
    padded[:, places] = x
    mask = np.isin(np.arange(8), places)[None].repeat(B, 0)
    # The names of weights are those of several layers, so gradients are of the inputs.
    model.trainable = False
    cotangent = [np.ones((B, 1))]
    (short,), wanted = gradients(model, lambda z: [model(z["x"])], {"x": x}, cotangent)
    (long,), found = gradients(
        model, lambda z: [model((z["x"], mask))], {"x": padded}, cotangent
    )
    np.testing.assert_allclose(long, short, atol=1e-6)
    np.testing.assert_allclose(found["x"][:, places], wanted["x"], atol=1e-6)
    assert (found["x"][~mask] == 0).all()


def test_finds_the_instance_and_is_saved(tmp_path, fresh_process):
    """A bag is positive if an instance has a large first number."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 6, 3)).astype("float32")
    mask = np.arange(6) < rng.integers(2, 7, (400, 1))
    x[..., 0] = np.minimum(x[..., 0], 0.5)
    y = np.arange(400) % 2
    x[y == 1, 0, 0] = 3
    model = MultipleInstance(keras.layers.Dense(8, "tanh"), attention_units=4)
    model.compile(keras.optimizers.Adam(0.02), "binary_crossentropy")
    model.fit((x, mask), y[:, None], epochs=8, verbose=0)
    probability, weights = model((x, mask), return_attention_scores=True)
    assert ((to_numpy(probability)[:, 0] > 0.5) == y).mean() > 0.95
    assert to_numpy(weights)[y == 1, 0].mean() > 0.6
    model.save(tmp_path / "model.keras")
    np.savez(tmp_path / "x.npz", x=x[:9], mask=mask[:9])
    fresh_process(
        """
        import numpy as np
        model = keras.models.load_model(sys.argv[1] + "/model.keras")
        x = np.load(sys.argv[1] + "/x.npz")
        y = model((x["x"], x["mask"]))
        np.save(sys.argv[1] + "/y.npy", keras.ops.convert_to_numpy(y))
        """,
        tmp_path,
    )
    found = np.load(tmp_path / "y.npy")
    np.testing.assert_allclose(found, to_numpy(probability)[:9], atol=1e-5)


def test_config():
    model = MultipleInstance(encoder(), 9, gated=True, num_classes=3)
    config = json.loads(json.dumps(model.get_config()))
    assert (config["attention_units"], config["gated"], config["num_classes"]) == (
        9,
        True,
        3,
    )
    again = MultipleInstance.from_config(config)
    assert again(bags()).shape == (B, 3)


def test_bags_of_the_benchmark():
    labels = np.arange(300) % 10
    pictures = (labels[:, None, None, None] + np.ones((1, 28, 28, 1))).astype("float32")
    (x, mask), targets, digits = benchmark.draw_bags(pictures, labels, 40, seed=0)
    assert x.shape == (40, benchmark.WIDEST, 28, 28, 1)
    assert targets[:, 0].tolist() == [0, 1] * 20
    np.testing.assert_array_equal((digits == 9).any(-1), targets[:, 0])
    np.testing.assert_array_equal(x[..., 0, 0, 0], np.where(mask, digits + 1, 0))
    assert 8 < mask.sum(-1).mean() < 12


def test_area_under_the_curve():
    assert benchmark.area([0.9, 0.2, 0.5, 0.1], [1, 0, 1, 0]) == 1
    assert benchmark.area([0.5, 0.5], [1, 0]) == 0.5
    # Of four pairs, 0.3 is above 0.2 alone, 0.9 above both.
    assert benchmark.area([0.3, 0.2, 0.9, 0.4], [1, 0, 1, 0]) == 0.75


@pytest.mark.parametrize("method", benchmark.METHODS)
def test_methods_run_and_draw(method, tmp_path):
    labels = np.arange(60) % 10
    pictures = np.random.default_rng(0).random((60, 28, 28, 1)).astype("float32")
    part = benchmark.draw_bags(pictures, labels, 4, seed=0)
    model, found = benchmark.run(method, part, part, seed=0, epochs=1)
    assert 0 <= found <= 1
    if method == "attention":
        benchmark.plot_bag(model, part, tmp_path / "bag.png")
        assert (tmp_path / "bag.png").stat().st_size > 1_000
