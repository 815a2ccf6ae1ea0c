"""`FeedForwardAttention`: the paper's formula, masks, saving; recipe, benchmark."""

import json
import sys

import numpy as np
import pytest
from conftest import ROOT, assert_recipe_wrote
from contract import gradients, to_numpy

from keras_attention import __main__, recipes
from keras_attention.models import FeedForwardAttention
from keras_attention.recipes import addition as recipe

sys.path.insert(0, str(ROOT / "benchmarks"))
import feed_forward as benchmark

B, T, D, UNITS = 3, 5, 4, 6


def data():
    return np.random.default_rng(0).normal(size=(B, T, D)).astype("float32")


def made(**options):
    model = FeedForwardAttention(UNITS, 2, **options)
    model.build((None, None, D))
    rng = np.random.default_rng(1)
    for weight in model.trainable_weights:
        weight.assign(rng.normal(size=weight.shape))
    return model


def numpy_leaky(x):
    return np.where(x > 0, x, 0.01 * x)


@pytest.mark.parametrize("pooling", ["attention", "mean"])
def test_equals_the_papers_formula(pooling):
    model, x = made(pooling=pooling), data()
    y, w = (to_numpy(z) for z in model(x, return_attention_scores=True))

    def dense(layer, z):
        return numpy_leaky(z @ to_numpy(layer.kernel) + to_numpy(layer.bias))

    h = dense(model.features, x)
    weights = np.full((B, T), 1 / T)
    if pooling == "attention":
        score = model.pool.score
        e = np.tanh(h @ to_numpy(score.kernel) + to_numpy(score.bias))[..., 0]
        powers = np.exp(to_numpy(model.pool.query)[0, 0] * e)
        weights = powers / powers.sum(-1, keepdims=True)
    np.testing.assert_allclose(w, weights, atol=1e-5)
    c = np.einsum("bt,btd->bd", weights, h)
    wanted = dense(model.predictor, dense(model.hidden, c))
    np.testing.assert_allclose(y, wanted, atol=1e-4)
    np.testing.assert_allclose(to_numpy(model(x)), y, atol=1e-6)


def test_the_query_starts_as_in_the_paper():
    model = FeedForwardAttention(UNITS)
    model(data())
    assert to_numpy(model.pool.query).tolist() == [[1.0]]


@pytest.mark.parametrize("pooling", ["attention", "mean"])
def test_padding_has_no_influence(pooling):
    model, x = made(pooling=pooling), data()
    places = [0, 2, 3, 5, 6]
    padded = np.full((B, 7, D), np.nan, "float32")
    padded[:, places] = x
    mask = np.isin(np.arange(7), places)[None].repeat(B, 0)
    cotangent = [np.random.default_rng(2).normal(size=(B, 2))]
    (short,), wanted = gradients(model, lambda z: [model(z["x"])], {"x": x}, cotangent)
    (long,), found = gradients(
        model, lambda z: [model((z["x"], mask))], {"x": padded}, cotangent
    )
    np.testing.assert_allclose(long, short, atol=1e-5)
    assert (found["x"][~mask] == 0).all()
    found["x"] = found["x"][:, places]
    # Weights of several layers share a name, so the gradients' dict holds the last ones.
    for name, gradient in wanted.items():
        np.testing.assert_allclose(found[name], gradient, atol=1e-4, err_msg=name)
    by_argument = to_numpy(model(padded, mask=mask))
    np.testing.assert_allclose(by_argument, short, atol=1e-5)
    _, weights = model((padded, mask), return_attention_scores=True)
    assert (to_numpy(weights)[~mask] == 0).all()


def test_saving_and_config(tmp_path, fresh_process):
    options = {"units": UNITS, "output_dim": 2, "pooling": "mean", "negative_slope": 0.3}
    model = FeedForwardAttention(**options)
    config = json.loads(json.dumps(model.get_config()))
    assert {name: config[name] for name in options} == options
    with pytest.raises(ValueError, match="Expected `pooling` in"):
        FeedForwardAttention(pooling="max")
    model = made()
    x, mask = data(), np.arange(T) < np.array([[5], [3], [1]])
    y = to_numpy(model((x, mask)))
    model.save(tmp_path / "model.keras")
    np.savez(tmp_path / "x.npz", x=x, mask=mask)
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
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), y, atol=1e-5)


@pytest.mark.parametrize("task", ["addition", "multiplication"])
def test_sequences_of_the_benchmark(task):
    rng = np.random.default_rng(0)
    (steps, mask), targets = recipe.sequences(rng, task, 300, 30, 33)
    assert steps.shape == (300, 33, 2)
    lengths = mask.sum(-1)
    assert set(lengths) == {30, 31, 32, 33}
    values, marks = steps[..., 0], steps[..., 1]
    for row, length in enumerate(lengths):
        first, second = sorted(np.flatnonzero(marks[row] == 1))
        assert first < 10
        assert second < length // 2
        a, b = values[row, [first, second]]
        wanted = 0.5 + (a + b) / 4 if task == "addition" else a * b
        assert targets[row, 0] == pytest.approx(wanted, abs=1e-6)
        ends = {0, length - 1} - {first, second}
        assert (marks[row, list(ends)] == -1).all()
        assert np.abs(marks[row]).sum() == 2 + len(ends)


def test_the_benchmark_learns_and_prints(capsys, monkeypatch):
    monkeypatch.setattr(benchmark, "RATES", (0.003,))
    options = "--lengths 12 --tasks addition --steps 20 --epochs 1"
    benchmark.main(options.split())
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("addition, attention, T0 = 12: ours ")
    assert lines[1].startswith("addition, mean, T0 = 12: ours ")
    benchmark.main([*options.split(), "--variable", "--lengths", "60"])
    assert "50 to 60" in capsys.readouterr().out
    _, errors = benchmark.train("addition", "attention", (12, 13), 0.003, 1, 60, False)
    assert errors.mean() < 0.1


def test_training_measuring_and_showing(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(recipe, "TESTED", (20, 40))
    output = tmp_path / "models"
    figures = recipe.train(output, epochs=1, steps=30, lengths=(22, 31), verbose=0)
    assert figures["accuracy"].keys() == {"20", "40"}
    assert_recipe_wrote("addition", output, figures, capsys)

    where = ["--directory", str(output)]
    files = ["--plot", str(tmp_path / "x.png"), "--html", str(tmp_path / "x.html")]
    assert __main__.main(["show", "addition", "0.1* -.5 1 -1* 0", *files, *where]) == 0
    title, shaded = capsys.readouterr().out.splitlines()
    assert title.startswith("sum ")
    assert title.endswith(" (right: -0.90)")
    words = [word.partition("(")[0] for word in shaded.split()]
    assert words == ["0.1*", "-.5", "1", "-1*", "0"]
    assert (tmp_path / "x.png").stat().st_size > 1_000
    assert "-1*" in (tmp_path / "x.html").read_text("utf-8")
    for wrong in ("", "0.1 0.2*", "a* 0.2*", "1.5* 0.2*", "nan* 0* 1", "0* 0* nan"):
        with pytest.raises(ValueError, match="Expected numbers from -1 to 1"):
            recipe.show(wrong, directory=output)


@pytest.mark.skipif(
    not (recipes.SAVED_MODELS / recipe.FILE).exists(), reason="needs the shipped model"
)
def test_the_shipped_model_adds():
    figures = recipe.evaluate(limit=40)["accuracy"]
    assert min(figures.values()) > 90
    assert recipes.path(recipe.FILE).stat().st_size < 5_000_000
