"""Multi30k's loader and benchmark, on a made-up folder of the same format."""

import gzip

import pytest

from benchmarks import multi30k as benchmark
from keras_attention.datasets import multi30k

GERMAN = ["Ein Hund läuft.", "Eine Frau\x85 liest!"]
ENGLISH = ["A dog runs.", "A woman reads!"]


def write(folder, repeat=1):
    for part in multi30k.PARTS:
        for language, texts in zip(multi30k.LANGUAGES, (GERMAN, ENGLISH), strict=True):
            content = "".join(f"{one}\n" for one in texts * repeat).encode()
            if part == "val":
                (folder / f"{part}.{language}").write_bytes(content)
            else:
                (folder / f"{part}.{language}.gz").write_bytes(gzip.compress(content))
    return folder


def test_files_are_read_packed_or_not(tmp_path):
    assert multi30k.load(write(tmp_path)) == ((GERMAN, ENGLISH),) * 3


def test_files_are_downloaded(tmp_path, monkeypatch):
    write(tmp_path)
    (tmp_path / "val.de.gz").write_bytes(gzip.compress(b"x\n"))
    (tmp_path / "val.en.gz").write_bytes(gzip.compress(b"y\n"))
    asked = []

    def get_file(name, origin, cache_subdir):
        asked.append(origin)
        return str(tmp_path / name)

    monkeypatch.setattr(multi30k.keras.utils, "get_file", get_file)
    assert multi30k.load()[1] == (["x"], ["y"])
    assert asked[0].startswith("https://")
    assert asked[0].endswith("/multi30k/dataset/master/data/task1/raw/train.de.gz")
    assert len(asked) == 6


def test_what_is_wrong_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"train\.de or train\.de\.gz"):
        multi30k.load(tmp_path)
    write(tmp_path)
    (tmp_path / "val.en").write_text("one line\n")
    with pytest.raises(ValueError, match=r"val\.de as in val\.en. Received: 2 and 1"):
        multi30k.load(tmp_path)


def test_words_that_stand_once_are_unknown():
    assert benchmark.vocabulary(["A dog.", "A cat."]) == [".", "a"]


def test_benchmark_prints_its_figures(tmp_path, capsys):
    pytest.importorskip("sacrebleu")
    folder = write(tmp_path, repeat=4)
    arguments = ["--epochs", "1", "--units", "4", "--embedding", "3"]
    arguments += ["--data", str(folder), "--output", str(tmp_path / "model.keras")]
    benchmark.main(arguments)
    printed = capsys.readouterr().out
    assert "8 captions to train on" in printed
    assert "test_2016_flickr: BLEU " in printed
    assert (tmp_path / "model.keras").exists()


def test_errors_are_one_line(tmp_path):
    with pytest.raises(SystemExit, match=r"^Expected train\.de .* Received: .*$"):
        benchmark.main(["--data", str(tmp_path)])
