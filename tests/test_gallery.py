"""The picture at the top of README, of made-up weights."""

import sys

import numpy as np
import pytest
from conftest import ROOT

pytest.importorskip("matplotlib")
sys.path.insert(0, str(ROOT / "docs"))
import gallery


@pytest.fixture
def models(monkeypatch, tmp_path):
    """What the models would say; there is no captioner yet."""
    monkeypatch.setattr(gallery.recipes, "SAVED_MODELS", tmp_path)
    said = {
        "reviews": ("negative, 99%", [["bad", "film"]], [[0.9, 0.1]], [1.0]),
        "verses": (np.eye(2), ["la", "luz"], ["the", "light"]),
        "g2p": (np.eye(3, 4), list("tone"), ["T", "OW", "N"]),
        "babi": ("Where? here", np.ones((2, 1)), ["Mary is here."]),
        "captioner": (np.ones((6, 8), "uint8"), ["a", "bag"], np.ones((2, 2, 3))),
    }
    for name, result in said.items():
        monkeypatch.setattr(getattr(gallery, name), "look", lambda _, r=result: r)
    return tmp_path


def texts(figure):
    found = [text.get_text() for text in figure.texts]
    for ax in figure.axes:
        found += [text.get_text() for text in ax.texts]
        found += [label.get_text() for label in (*ax.get_xticklabels(), ax.title)]
    gallery.pyplot.close(figure)
    return found


def test_every_model_has_its_panel(models):
    found = texts(gallery.draw())
    for text in ("negative, 99%", "film", "luz", "tone", "Where? here", "hop 2", "Mary"):
        assert text in found
    assert "bag" not in found


def test_the_captioner_has_one_when_it_is_there(models):
    (models / "captioner.keras").touch()
    figure = gallery.draw()
    pictures = [ax for ax in figure.axes if len(ax.images) == 2]
    assert [ax.get_title() for ax in pictures] == ["a", "bag"]
    assert "bag" in texts(figure)


def test_the_picture_is_wide_and_small():
    picture = (ROOT / "docs" / "gallery.png").read_bytes()
    assert int.from_bytes(picture[16:20], "big") == 1600
    assert len(picture) < 600_000
