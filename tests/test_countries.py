"""Facts about countries: reading, splitting, and the benchmark on a small world."""

import json
import sys

import numpy as np
import pytest
from conftest import ROOT
from contract import to_numpy

from keras_attention.datasets import countries

sys.path.insert(0, str(ROOT / "benchmarks"))
import countries as benchmark

PERU = {
    "name": "Peru",
    "ISO": {"alpha2": "PE", "alpha3": "PER"},
    "capital": "Lima",
    "borders": ["CHL", "XYZ"],
    "currencies": ["PEN", "PEN"],
    "callingCodes": [51],
    "region": "",
}
CHILE = {"name": "Chile", "ISO": {"alpha3": "CHL"}, "borders": ["PER"], "tld": [".cl"]}


def write_world(folder, number):
    """Files of countries, each next to the one before it."""
    for i in range(number):
        country = {
            "name": f"Land {i}",
            "ISO": {"alpha3": f"L{i}"},
            "capital": f"City {i}",
            "borders": [f"L{i - 1}"] * (i > 0),
            "currencies": [f"C{i}", f"D{i}"],
        }
        (folder / f"land_{i}.json").write_text(json.dumps(country))


@pytest.fixture
def world(tmp_path):
    write_world(tmp_path, 12)
    return tmp_path


def test_reading():
    assert countries.read([PERU, CHILE]) == [
        ("Peru", "capital", ("Lima",)),
        ("Peru", "border", ("Chile",)),
        ("Peru", "currency", ("PEN",)),
        ("Peru", "calling code", ("51",)),
        ("Chile", "border", ("Peru",)),
        ("Chile", "domain", (".cl",)),
    ]


def test_questions_of_a_fact_are_on_one_side(world):
    facts, train, test = countries.load_folder(world, test_fraction=0.25)
    assert len(facts) == 35
    assert (len(train), len(test)) == (2 * 26, 2 * 9)
    asked = [question.fact for question in train + test]
    assert sorted(asked) == sorted(2 * facts)
    assert not {q.fact for q in train} & {q.fact for q in test}
    assert train[0].fact.subject in train[0].words
    assert train[0].words != train[1].words
    assert countries.load_folder(world, 0.25)[2] == test
    assert countries.load_folder(world, 0.25, seed=1)[2] != test


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "countryinfo", None)
    with pytest.raises(ImportError, match=r"keras-attention-layers\[countries\]"):
        countries.load()


def test_slots_of_the_benchmark(world):
    facts, train, _ = countries.load_folder(world)
    vocabulary = benchmark.vocabulary_of(facts)
    (slots, asked), targets = benchmark.encode(train, facts, vocabulary, seed=0)
    assert slots.shape == (len(train), benchmark.SLOTS, 3)
    assert asked.shape[0] == len(train)
    for row, (_, fact) in enumerate(train):
        filled = slots[row][slots[row].any(-1)]
        said = [[vocabulary[i - 2] for i in slot] for slot in filled]
        answers = [o for s, r, o in said if (s, r) == fact[:2]]
        assert tuple(answers) == fact.objects
        assert vocabulary[targets[row]] in answers
        # All that is known of the country, and the same relation of the others.
        known = [f for f in facts if f.subject == fact.subject or f.relation == fact[1]]
        assert len(said) == sum(len(f.objects) for f in known)


@pytest.mark.parametrize("kind", benchmark.MODELS)
def test_empty_slots_have_no_influence(kind):
    model = benchmark.MODELS[kind](["a", "b", "c", "d"])
    slots = np.random.default_rng(0).integers(2, 6, (3, 5, 3))
    question = np.array([[2, 3], [4, 0], [5, 2]])
    padded = np.pad(slots, ((0, 0), (0, 2), (0, 0)))
    y = to_numpy(model((slots, question)))
    assert y.shape == (3, 4)
    np.testing.assert_allclose(to_numpy(model((padded, question))), y, atol=1e-6)
    longer = np.pad(question, ((0, 0), (0, 2)))
    np.testing.assert_allclose(to_numpy(model((slots, longer))), y, atol=1e-6)


def test_the_memory_learns_its_questions(tmp_path):
    write_world(tmp_path, 40)
    facts, train, _ = countries.load_folder(tmp_path)
    found = benchmark.run("key-value", train, train, facts, seed=0, epochs=20)
    assert found.keys() == {"all", "capital", "border", "currency"}
    assert found["all"] > 90


def test_the_benchmark_prints_its_figures(world, capsys):
    benchmark.main(f"--folder {world} --seeds 1 --epochs 1".split())
    first, second, everything, *rest = capsys.readouterr().out.splitlines()
    assert first == "35 facts, 56 questions to train, 14 to test"
    assert second.startswith("key-value, mean of 1 seeds, ")
    assert 0 <= float(everything.split()[1].rstrip("%")) <= 100
    assert any(line.startswith("sentences, mean of 1 seeds") for line in rest)
