"""Every trained model loads, on the oldest Keras as well, and says what it said."""

import gc
import weakref
import zipfile

import keras
import numpy as np
import pytest
from conftest import ROOT

from keras_attention.models import HierarchicalAttention, Seq2Seq
from keras_attention.recipes import portable

FILES = sorted((ROOT / "saved_models").glob("*.keras"))


@pytest.mark.skipif(not FILES, reason="needs the shipped models")
def test_all_load_with_nothing_but_the_package_and_are_small(fresh_process):
    """In a fresh process: another test may have imported what a class is found in."""
    printed = fresh_process(
        "for file in sys.argv[1:]: print(keras.models.load_model(file).count_params())",
        *FILES,
    )
    counts = [int(line) for line in printed.splitlines()[-len(FILES) :]]
    assert min(counts) > 10_000
    assert max(file.stat().st_size for file in FILES) < 5_000_000


@pytest.mark.parametrize(
    "make",
    [
        lambda: HierarchicalAttention(["a", "b"], word_units=3, sentence_units=2),
        lambda: Seq2Seq("ab", "cd", encoder_units=3, encoder_layers=2),
    ],
)
def test_no_layer_gets_the_id_of_another_while_loading(make, monkeypatch):
    """Keras took two layers of one id for one: now and then a file did not load."""
    made, gru = [], keras.layers.GRU

    def noted(*arguments, **options):
        layer = gru(*arguments, **options)
        made.append(weakref.ref(layer))
        return layer

    monkeypatch.setattr(keras.layers, "GRU", noted)
    model = make()
    gc.collect()
    assert len(made) >= 2
    assert all(layer() is not None for layer in made)
    del model


def test_what_older_versions_do_not_know_is_left_out(tmp_path):
    model = keras.Sequential(
        [keras.Input((4, 4, 2)), keras.layers.Conv2D(3, 2), keras.layers.Dense(5)]
    )
    portable.save(model, tmp_path / "model.keras")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["model.keras"]
    again = keras.models.load_model(tmp_path / "model.keras")
    with zipfile.ZipFile(tmp_path / "model.keras") as archive:
        words = set(archive.read("config.json").decode().split('"'))
    assert "GlorotUniform" in words
    assert not words & set(portable.NEWER)
    x = np.random.default_rng(0).normal(size=(3, 4, 4, 2))
    np.testing.assert_array_equal(again.predict(x, verbose=0), model.predict(x, verbose=0))
