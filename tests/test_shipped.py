"""Every trained model loads, on the oldest Keras as well, and says what it said."""

import zipfile

import keras
import numpy as np
import pytest
from conftest import ROOT

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
