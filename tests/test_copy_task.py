"""The copy task: its data, and a short training of its benchmark."""

import sys

import keras
import numpy as np
from conftest import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))
import copy_task


def test_sequences_of_the_copy_task():
    inputs, targets, weights = copy_task.sequences(np.random.default_rng(0), [2, 4], 4)
    assert inputs.shape == (2, 9, 9)
    assert targets.shape == (2, 9, 8)
    np.testing.assert_array_equal(inputs[0, :2, :8], targets[0, 3:5])
    np.testing.assert_array_equal(inputs[1, :4, :8], targets[1, 5:9])
    assert inputs[..., 8].argmax(-1).tolist() == [2, 4]
    assert inputs[..., 8].sum() == 2
    assert weights.tolist() == [[0, 0, 0, 1, 1, 0, 0, 0, 0], [0] * 5 + [1] * 4]
    assert not inputs[0, 3:].any()


def test_the_copy_task_trains_and_draws(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(copy_task, "TESTED", (3,))
    arguments = "--steps 20 --longest 2 --rate 0.01 --save x.keras --plot x.png"
    monkeypatch.chdir(tmp_path)
    copy_task.main(arguments.split())
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("  length   3:")]
    assert (tmp_path / "x.png").stat().st_size > 1_000
    model = keras.models.load_model(tmp_path / "x.keras")
    assert 0 <= copy_task.wrong_bits(model, 5, number=3) <= 40
