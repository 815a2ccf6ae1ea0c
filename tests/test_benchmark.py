"""What the benchmark's figures stand on."""

import sys

import numpy as np
import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))
import contestants
import run

MEGABYTES = 96


def take_memory():
    return np.ones(MEGABYTES * 2**20, "uint8").sum()


def test_memory_of_a_call_is_the_same_when_repeated():
    """Also in pieces that an allocator keeps for later, and where nothing is left."""

    def in_pieces():
        pieces = [np.ones(2**14, "uint8") for _ in range(MEGABYTES * 2**6)]
        return len(pieces)

    for function in (take_memory, in_pieces):
        for _ in range(3):
            taken = contestants.extra_memory(function) / 2**20
            assert MEGABYTES * 0.95 < taken < MEGABYTES * 1.2
    assert contestants.extra_memory(lambda: None) < 2**22


def test_names_of_cases():
    case = contestants.parse("additive-b4-t512-d128-forward")
    assert case == ("additive", 4, 512, 1, 128, True)
    assert contestants.parse("heads-b1-t8-h2x16") == ("heads", 1, 8, 2, 16, False)
    with pytest.raises(ValueError, match="Expected a case"):
        contestants.parse("additive")


def test_each_peer_has_a_row_with_the_same_formula():
    """A pooling of one unit is held against the tutorials' of one."""
    figures = {"wall": 0.002, "cpu": 0.004, "bytes": 3e6, "first": 8e6}
    found = {
        "ours": figures,
        "ours.narrow": {**figures, "wall": 0.001, "first": 4e6},
        "usual.pooling": {**figures, "wall": 0.004},
        "usual.hidden_pooling": {**figures, "wall": 0.001},
    }
    peers = ("usual.pooling", "usual.hidden_pooling")
    rows = [run.compared(found, peer, found[peer]) for peer in peers]
    assert [row["time_ratio"] for row in rows] == [0.25, 2.0]
    assert [row["memory_ratio_first"] for row in rows] == [0.5, 1.0]
    rows = [
        {"case": "x", "peer": peer, **row} for peer, row in zip(peers, rows, strict=True)
    ]
    lines = run.table(rows)
    assert lines[2] == "| `x` | usual.pooling | 0.25 | 1.00 | 0.50 | 1 / 4 | 3 / 3 |"
    assert lines[3].startswith("|  | usual.hidden_pooling | 2.00 |")
