"""Verses: markup, links between words, and modules of the same format made here."""

import struct
import sys
import zlib

import pytest

from keras_attention import text
from keras_attention.datasets import verses

SPANISH = (
    '<w lemma="strong:H0430">Y Dios</w> <w lemma="strong:H07200">vió</w>'
    '<transChange type="added">la</transChange> <w lemma="strong:H0216">luz</w>: '
)
ENGLISH = (
    '\xb6 And <divineName><w lemma="strong:H0430" morph="x">God</w></divineName> '
    '<w lemma="strong:H07200 strong:H0853">saw</w> the <w lemma="strong:H0216">light</w>'
    '<note placement="foot"><reference type="annotateRef">1.4 </reference>the '
    '<w lemma="strong:H0216">light…</w></note>.<div eID="gen3" type="x-p"/>'
)


def test_markup_is_read():
    assert verses.read_words(SPANISH) == [
        ("y", {"H430"}),
        ("dios", {"H430"}),
        ("vió", {"H7200"}),
        ("la", set()),
        ("luz", {"H216"}),
        (":", set()),
    ]
    assert verses.read_words(ENGLISH) == [
        ("and", set()),
        ("god", {"H430"}),
        ("saw", {"H7200", "H853"}),
        ("the", set()),
        ("light", {"H216"}),
        (".", set()),
    ]
    assert verses.read_words("") == []
    # An empty note hides nothing; a word in a word keeps the outer one's numbers.
    nested = '<note/>a <w lemma="strong:G1">b <w lemma="strong:G2">c</w> d</w> e &amp;'
    numbers = [set(), {"G1"}, {"G2"}, {"G1"}, set(), set()]
    assert verses.read_words(nested) == list(zip("abcde&", numbers, strict=True))


def test_words_are_linked():
    verse = verses.link(verses.read_words(SPANISH), verses.read_words(ENGLISH))
    assert verse.source == ["y", "dios", "vió", "la", "luz", ":"]
    assert verse.target == ["and", "god", "saw", "the", "light", "."]
    assert verse.links == {(1, 0), (1, 1), (2, 2), (4, 4)}
    # Two Spanish words have H430: which of them is "God" cannot be known for sure.
    assert verse.sure == {(2, 2), (4, 4)}


@pytest.mark.parametrize(
    ("written", "tokens"),
    [
        ("", []),
        ("¿Quién, pues?", ["¿", "quién", ",", "pues", "?"]),
        ("the LORD\u2019s 'house' - x_y", ["the", "lord's", "'", "house", "'", "-", *"xy"]),
    ],
)
def test_no_sign_is_lost(written, tokens):
    assert text.split_signs(written) == tokens
    assert text.split_signs(" ".join(tokens)) == tokens


def write_module(folder, name, texts):
    """A compressed SWORD module with the verses `{(book, chapter, verse): markup}`."""
    from pysword.books import BibleStructure

    data = folder / "modules" / name
    data.mkdir(parents=True)
    (folder / "mods.d").mkdir(exist_ok=True)
    (folder / "mods.d" / f"{name}.conf").write_text(
        f"[{name}]\nDataPath=./modules/{name}/\nModDrv=zText\nEncoding=UTF-8\n"
        "SourceType=OSIS\nCompressType=ZIP\nBlockType=BOOK\nVersification=KJV\n"
    )
    structure = BibleStructure("kjv")
    places = {"ot": {}, "nt": {}}
    for (book, chapter, verse), markup in texts.items():
        found = structure.ref_to_indicies([book], [chapter], [verse])
        ((testament, (place,)),) = found.items()
        places[testament][place] = markup.encode()
    for testament, found in places.items():
        block = b"".join(found.values())
        packed, records, start = zlib.compress(block), b"", 0
        for place in range(max(found, default=0) + 1):
            size = len(found.get(place, b""))
            records += struct.pack("<IIH", 0, start, size)
            start += size
        (data / f"{testament}.bzv").write_bytes(records)
        (data / f"{testament}.bzs").write_bytes(struct.pack("<III", 0, len(packed), start))
        (data / f"{testament}.bzz").write_bytes(packed)


@pytest.fixture
def modules(tmp_path):
    pytest.importorskip("pysword")
    one = {
        ("Genesis", 1, 4): SPANISH,
        ("Genesis", 1, 5): "palabra " * 26,
        ("Genesis", 1, 6): "no está en inglés",
        ("Ruth", 1, 1): "del libro de Ruth",
        ("Esther", 10, 3): "del libro de Ester",
        ("Jude", 1, 25): "el fin",
    }
    other = one | {("Genesis", 1, 4): ENGLISH, ("Genesis", 1, 6): ""}
    for name, texts in zip(verses.MODULES, (one, other), strict=True):
        write_module(tmp_path, name, texts)
    return tmp_path


def test_whole_books_are_held_out(modules, monkeypatch):
    train, development, test = verses.load(modules)
    assert [v.target for v in train] == [
        ["and", "god", "saw", "the", "light", "."],
        ["el", "fin"],
    ]
    assert [v.source[-1] for v in development] == ["ester"]
    assert [v.source[-1] for v in test] == ["ruth"]
    monkeypatch.setenv("SWORD_PATH", str(modules))
    assert verses.load_test() == test


def test_no_book_is_in_two_parts():
    assert not set(verses.TEST_BOOKS) & set(verses.DEVELOPMENT_BOOKS)


def test_what_is_missing_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pysword.modules", None)
    with pytest.raises(ImportError, match=r"keras-attention-layers\[translate\]"):
        verses.load(tmp_path)
    monkeypatch.undo()
    pytest.importorskip("pysword")
    with pytest.raises(FileNotFoundError, match=r"sword-text-sparv.*SWORD_PATH.*nowhere"):
        verses.load(tmp_path / "nowhere")


def test_the_modules():
    """The real ones, where they are installed."""
    pytest.importorskip("pysword")
    try:
        test = verses.load_test()
    except FileNotFoundError:
        pytest.skip("needs sword-text-sparv and sword-text-kjv")
    assert len(test) == 1_066
    assert all(len(v.source) <= 25 and len(v.target) <= 25 for v in test)
    assert all(v.sure <= v.links for v in test)
