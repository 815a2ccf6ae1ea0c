"""The copy task: its sequences, a short training of its recipe, its benchmark."""

import sys

import keras
import numpy as np
import pytest
from conftest import ROOT, assert_recipe_wrote

from keras_attention import __main__, recipes
from keras_attention.recipes import copying

sys.path.insert(0, str(ROOT / "benchmarks"))
import copy_task

# Slots of the memory, batches, the greatest learning rate: one stage, to compile once.
STAGES = ((7, 20, 0.01),)


def test_sequences_of_the_copy_task():
    inputs, targets, weights = copying.sequences(np.random.default_rng(0), [2, 4], 4)
    assert inputs.shape == (2, 9, 9)
    assert targets.shape == (2, 9, 8)
    np.testing.assert_array_equal(inputs[0, :2, :8], targets[0, 3:5])
    np.testing.assert_array_equal(inputs[1, :4, :8], targets[1, 5:9])
    assert inputs[..., 8].argmax(-1).tolist() == [2, 4]
    assert inputs[..., 8].sum() == 2
    assert weights.tolist() == [[0, 0, 0, 1, 1, 0, 0, 0, 0], [0] * 5 + [1] * 4]
    assert not inputs[0, 3:].any()


def test_training_measuring_and_showing(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(copying, "TESTED", (2, 5))
    output = tmp_path / "models"
    figures = copying.train(output, STAGES, longest=3, verbose=0)
    assert figures["wrong_bits"].keys() == {"2", "5"}
    assert all(0 < share < 100 for share in figures["wrong_bits"].values())
    assert_recipe_wrote("copy", output, figures, capsys)

    where = ["--directory", str(output)]
    files = ["--plot", str(tmp_path / "x.png"), "--html", str(tmp_path / "x.html")]
    assert __main__.main(["show", "copy", "a bé", *files, *where]) == 0
    _, head, *_ = capsys.readouterr().out.splitlines()
    assert head.split() == ["a", "\u2423", "b", "c3", "a9", "|"]
    assert (tmp_path / "x.png").stat().st_size > 1_000
    assert "c3" in (tmp_path / "x.html").read_text("utf-8")
    with pytest.raises(ValueError, match="Expected a text to copy"):
        copying.show("", directory=output)


def test_what_the_heads_did_is_what_the_model_says(tmp_path):
    """Step by step the machine says what it says in the layer, and its weights sum to 1."""
    machine = copying.with_slots(6)
    inputs = copying.asked(np.random.default_rng(0).integers(0, 2, (3, 8)))
    logits, heads = copying.run(machine, inputs)
    assert heads.shape == (7, 2, 6)
    np.testing.assert_allclose(heads.sum(-1), 1, atol=1e-5)
    said = keras.ops.convert_to_numpy(machine(inputs[None]))[0]
    np.testing.assert_allclose(logits, said, atol=1e-5)
    machine.save(tmp_path / "copy.keras")
    weights, given, said = copying.look("abc", tmp_path)
    assert weights.shape == (3, 4)
    assert (given, len(said)) == (b"abc", 3)


def test_a_machine_takes_its_weights_to_another_memory():
    machine = copying.with_slots(6)
    larger = copying.with_slots(9, machine)
    for one, other in zip(machine.get_weights(), larger.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert copying.wrong_bits(larger, 4, number=3) <= 32


@pytest.mark.skipif(
    not (recipes.SAVED_MODELS / copying.FILE).exists(), reason="needs the shipped model"
)
def test_the_shipped_machine_copies():
    weights, given, said = copying.look("Attention!")
    assert said == given
    # It writes a byte a step after it has seen it.
    late = np.arange(1, len(given))
    np.testing.assert_array_equal(weights.argmax(axis=-1)[1:], late + 1)
    assert recipes.path(copying.FILE).stat().st_size < 5_000_000


def test_the_benchmark_prints_wrong_bits(capsys, monkeypatch):
    monkeypatch.setattr(copying, "TESTED", (3,))
    fitted = []
    monkeypatch.setattr(copying, "fit", lambda *arguments: fitted.append(arguments))
    copy_task.main("--steps 2 --longest 2".split())
    lines = capsys.readouterr().out.splitlines()
    names = [line.split(",")[0] for line in lines if "weights" in line]
    assert names == ["NTM", "NTM", "LSTM", "LSTM"]
    assert [steps for _, steps, _, _ in fitted] == [2] * 4
    assert fitted[2][0] is fitted[3][0]
    tested = [line for line in lines if line.startswith("  length ")]
    assert [int(line.split()[1].rstrip(":")) for line in tested] == [2, 3] * 4
