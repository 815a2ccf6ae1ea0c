"""Words, sentences, vocabularies and ids."""

import numpy as np
import pytest

from keras_attention import text


@pytest.mark.parametrize(
    ("written", "tokens"),
    [
        ("", []),
        (" -- ,;. ", []),
        ("I DON'T like it!?", ["i", "don't", "like", "it", "!", "?"]),
        ("don\u2019t", ["don't"]),
        ("'quoted' rock'n'roll", ["quoted", "rock'n'roll"]),
        ("well-made, 7/10 ...", ["well", "made", "7/10", "..."]),
        ("wait\u2026", ["wait", "..."]),
        ("good<br /><br/>bad<BR>end", ["good", "bad", "end"]),
        (
            "\u00c9t\u00e9 na\u00efve snake_case",
            ["\u00e9t\u00e9", "na\u00efve", "snake", "case"],
        ),
    ],
)
def test_tokens(written, tokens):
    assert text.tokenize(written) == tokens


@pytest.mark.parametrize(
    ("written", "sentences"),
    [
        ("", []),
        (" \n\n <br /> ", []),
        ("No end", ["No end"]),
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("all lower case. no capital", ["all lower case.", "no capital"]),
        (
            "Mr. Ford met J. R. Smith etc. there.",
            ["Mr. Ford met J. R. Smith etc. there."],
        ),
        ("At U.S. customs. So did I. Yes.", ["At U.S. customs.", "So did I.", "Yes."]),
        ("Well... maybe. So... What?!", ["Well... maybe.", "So...", "What?!"]),
        ('He said "no." She left.', ['He said "no."', "She left."]),
        ("(Bad.) Good", ["(Bad.)", "Good"]),
        ("A line\nanother<br /><br />a third", ["A line", "another", "a third"]),
        ("Version 3.5 costs 4.99.", ["Version 3.5 costs 4.99."]),
        ("!!! ... ?", ["!!!", "...", "?"]),
    ],
)
def test_sentences(written, sentences):
    assert text.split_sentences(written) == sentences


def test_no_word_is_lost_between_sentences():
    written = 'A "B." c... D! e? Mr. F. (g.) h\ni 7/10. U.S. j<br />k...'
    joined = " ".join(text.split_sentences(written))
    assert text.tokenize(joined) == text.tokenize(written)


def test_a_long_line_of_stops_takes_no_time():
    assert text.split_sentences("." * 50_000 + "a") == ["." * 50_000 + "a"]
    assert len(text.split_sentences("a" * 50_000)) == 1


def test_vocabulary_is_the_most_frequent_whatever_the_order():
    documents = [["b", "a", "c"], ["a", "b"], ["a"]]
    assert text.build_vocabulary(documents, 2) == ["a", "b"]
    assert text.build_vocabulary([["z", "y", "x"]], 2) == ["x", "y"]
    assert text.build_vocabulary(reversed(documents), 9) == ["a", "b", "c"]
    assert text.build_vocabulary([], 9) == []
    with pytest.raises(ValueError, match="Received: 0"):
        text.build_vocabulary(documents, 0)


def test_encoded_lists():
    ids = text.encode([["a", "new", "b"], ["b"], []], ["a", "b"])
    assert ids.dtype == np.int32
    np.testing.assert_array_equal(ids, [[2, 1, 3], [3, 0, 0], [0, 0, 0]])
    assert text.encode([["a"] * 9], ["a"], max_words=4).shape == (1, 4)
    assert text.encode([[]], ["a"]).tolist() == [[0]]
    assert text.encode([], ["a"]).shape == (0, 1)


def test_encoded_documents():
    ids = text.encode_documents(["A film. New!", "", "film"], ["a", "film"])
    assert ids.dtype == np.int32
    np.testing.assert_array_equal(
        ids, [[[2, 3], [1, 1]], [[0, 0], [0, 0]], [[3, 0], [0, 0]]]
    )
    assert text.encode_documents([], ["a"]).shape == (0, 1, 1)
    assert text.encode_documents(["..,", ""], []).tolist() == [[[0]], [[0]]]


def test_long_sentences_go_on_and_long_documents_lose_their_middle():
    written = "1 2 3 4 5. 6. 7 8. 9."
    rows = text.split_document(written, max_words=3)
    assert rows == [["1", "2", "3"], ["4", "5"], ["6"], ["7", "8"], ["9"]]
    assert text.split_document(written, 3, 3) == [rows[0], rows[1], rows[4]]
    assert text.split_document(written, 1, 3) == [rows[0]]
    assert text.encode_documents([written], [], 3, 3).shape == (1, 3, 3)


def test_rows_and_ids_are_of_one_shape():
    written = "Good film! I don't know...<br />Why? " * 30
    rows = text.split_document(written)
    ids = text.encode_documents([written], ["film"])[0]
    assert [len(row) for row in rows] == (ids > 0).sum(axis=1).tolist()


def test_a_single_text_is_refused():
    with pytest.raises(ValueError, match="list of strings"):
        text.encode_documents("A film.", ["a"])
