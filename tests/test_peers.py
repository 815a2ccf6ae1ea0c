"""The table beside other packages: whole, and made of what the checks answered."""

import sys

from conftest import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))
import peers


def test_the_page_has_every_peer_and_every_check():
    page = (ROOT / "docs" / "peers.md").read_text()
    table = page.partition(peers.MARKS[0])[2].partition(peers.MARKS[1])[0]
    titles = [peer.title for peer in peers.PEERS.values()]
    rows = [f"| {title} |" for title in peers.CHECKS]
    assert [text for text in (*titles, *rows) if text not in table] == []


def test_answers_become_a_table():
    answers = {title: [True, ""] for title in peers.CHECKS}
    answers["weights returned"] = [None, "one query"]
    versions = {"peer": "9.1", "keras": "3.99"}
    columns = {
        "ours": {**answers, "here": [True, ""], "versions": versions, "backends": ["jax"]},
        "tfa": {"here": [False, "ImportError: no"], "versions": {}},
    }
    text = peers.render(columns)
    assert "| weights returned | - | ? |" in text
    assert "| runs on Keras 3.99 | yes | no |" in text
    assert "| version | 9.1 | ? |" in text
    assert "* `keras_attention`, weights returned: one query" in text
    assert "* `tfa.seq2seq`, runs on Keras 3.99: ImportError: no" in text


def test_an_error_is_named_in_one_line():
    trace = (
        "Traceback:\n  x\nkeras.errors.SomeError: first\nValueError: second " + "x" * 200
    )
    assert peers.last_line(trace).startswith("ValueError: second")
    assert len(peers.last_line(trace)) == 150
    assert peers.last_line("nothing") == "no error named"
