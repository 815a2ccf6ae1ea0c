"""Facts about countries: reading, splitting, recipe and benchmark on a small world."""

import json
import sys

import pytest
from conftest import ROOT, assert_recipe_wrote

from keras_attention import __main__, recipes
from keras_attention.datasets import countries
from keras_attention.recipes import countries as recipe

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


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "Expected a folder of files NAME.json"),
        ("[1, 2]", "Expected a country, an object with a `name`, in .*a.json"),
        ('{"x": 1}', "Expected a country, an object with a `name`, in .*a.json"),
        ("x", "Expected JSON in .*a.json"),
        ('{"name": "Malta", "capital": "Valletta"}', "Expected facts to train on"),
    ],
)
def test_other_folders_are_refused(tmp_path, content, message):
    if content:
        (tmp_path / "a.json").write_text(content)
    output = tmp_path / "models"
    with pytest.raises(ValueError, match=message):
        recipe.train(output, data=tmp_path, verbose=0)
    assert not (output / recipe.FILE).exists()


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "countryinfo", None)
    with pytest.raises(ImportError, match=r"keras-attention-layers\[countries\]"):
        countries.load()


def test_memories_hold_all_that_is_known(world):
    facts, train, _ = countries.load_folder(world)
    memories, asked = recipe.memories_of(train, facts, seed=0)
    assert asked == [question.words for question in train]
    taught = recipe.taught(train, seed=0)
    for memory, (_, fact), answer in zip(memories, train, taught, strict=True):
        answers = [value for key, value in memory if key == fact[:2]]
        assert tuple(answers) == fact.objects
        assert answer in answers
        # All that is known of the country, and the same relation of the others.
        known = [f for f in facts if f.subject == fact.subject or f.relation == fact[1]]
        assert len(memory) == sum(len(f.objects) for f in known)


def test_training_measuring_and_showing(tmp_path, capsys, monkeypatch):
    world = tmp_path / "world"
    world.mkdir()
    write_world(world, 60)
    output = tmp_path / "models"
    figures = recipe.train(output, data=world, verbose=0)
    assert figures["by_relation"].keys() == {"capital", "border", "currency"}
    # Of more than 200 words.
    assert figures["accuracy"] > 30
    assert_recipe_wrote("countries", output, figures, capsys, "--data", str(world))

    where = ["--directory", str(output)]
    monkeypatch.setattr(countries, "load", lambda seed: countries.load_folder(world))
    files = ["--plot", str(tmp_path / "x.png"), "--html", str(tmp_path / "x.html")]
    question = "What, pray, is the capital of land 7's people?"
    assert __main__.main(["show", "countries", question, *files, *where]) == 0
    title, _, *rows = capsys.readouterr().out.splitlines()
    assert title == f"{question} City 7"
    assert [row.split("  ")[0].rstrip(" 1234567890") for row in rows] == [
        "Land 7, capital: City",
        "Land 7, border: Land",
        "Land 7, currency: C",
        "Land 7, currency: D",
    ]
    assert (tmp_path / "x.png").stat().st_size > 1_000
    assert "City 7" in (tmp_path / "x.html").read_text("utf-8")
    with pytest.raises(ValueError, match="Expected a question that names a country"):
        recipe.show("what is the capital of nowhere", directory=output)


@pytest.mark.skipif(
    not (recipes.SAVED_MODELS / recipe.FILE).exists(), reason="needs the shipped model"
)
def test_the_shipped_network_answers():
    """With made-up facts: it was never asked about them, and knows none of the values."""
    facts = [
        countries.Fact("Peru", "capital", ("Oslo",)),
        countries.Fact("Peru", "demonym", ("Danish",)),
    ]
    title, weights, _ = recipe.look("what is the capital of Peru", facts)
    assert title == "what is the capital of Peru Oslo"
    assert weights.shape == (1, 2)
    assert recipe.look("who lives in Peru", facts)[0] == "who lives in Peru Danish"
    assert recipes.path(recipe.FILE).stat().st_size < 5_000_000


def test_the_benchmark_prints_its_figures(world, capsys):
    benchmark.main(f"--folder {world} --seeds 1 --epochs 1".split())
    first, second, everything, *rest = capsys.readouterr().out.splitlines()
    assert first == "35 facts, 56 questions to train, 14 to test"
    assert second.startswith("key-value, mean of 1 seeds, ")
    assert 0 <= float(everything.split()[1].rstrip("%")) <= 100
    assert any(line.startswith("sentences, mean of 1 seeds") for line in rest)
