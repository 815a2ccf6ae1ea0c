"""Questions about countries, and the facts that answer them.

A fact is a subject, a relation and its objects; a question is a list of words, one of
which is the subject as it stands in the facts, such as `"New Zealand"`.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from keras_attention.datasets.common import package_data, shuffled_places

SEED = 0
TEST_FRACTION = 0.2

# Of each relation: its name in the files, and ways to ask for it, "_" the country.
RELATIONS = {
    "capital": ("capital", "what is the capital of _", "from where is _ governed"),
    "border": ("borders", "which country is next to _", "what does _ share a border with"),
    "currency": ("currencies", "what is the currency of _", "how do people pay in _"),
    "demonym": ("demonym", "what is a person from _ called", "who lives in _"),
    "language": ("languages", "which language has _", "what do people speak in _"),
    "region": ("region", "on which continent is _", "which part of the world has _"),
    "subregion": ("subregion", "where on its continent is _", "in which subregion is _"),
    "domain": ("tld", "what is the domain of _", "how do addresses from _ end"),
    "calling code": ("callingCodes", "what is the calling code of _", "how to phone _"),
}


class Fact(NamedTuple):
    """What stands in the objects, in any order, is all that is known."""

    subject: str
    relation: str
    objects: tuple[str, ...]


class Question(NamedTuple):
    """A question's words, and the fact that answers it: any of its objects is right."""

    words: list[str]
    fact: Fact


def load(seed: int = SEED) -> tuple[list[Fact], list[Question], list[Question]]:
    """Loads the countries of the PyPI package `countryinfo`.

    Args:
        seed: An integer, for which facts are to test on.

    Returns:
        All facts, about 2,000; questions to train on; and questions about other facts to
        test on, a fifth of all facts. See `split`.

    Raises:
        ImportError: If the package is missing.
    """
    folder = package_data("countryinfo", "countryinfo", "countries")
    return load_folder(folder, TEST_FRACTION, seed)


def load_folder(
    folder: str | Path, test_fraction: float = TEST_FRACTION, seed: int = SEED
) -> tuple[list[Fact], list[Question], list[Question]]:
    """Loads a folder of files of the package's format, `NAME.json` for each country.

    Args:
        folder: A path.
        test_fraction: The part of the facts to test on.
        seed: An integer.

    Returns:
        `(facts, train, test)`, as in `load`.

    Raises:
        ValueError: If it holds no such files, or too few facts for both parts.
    """
    files = sorted(Path(folder).glob("*.json"))
    if not files:
        raise ValueError(
            "Expected a folder of files NAME.json, one for each country. Received: "
            f"{folder}"
        )
    facts = read(map(_country, files))
    train, test = split(facts, test_fraction, seed)
    if not train or not test:
        raise ValueError(
            "Expected facts to train on and others to test on. Received: "
            f"{len(facts)} in {folder}"
        )
    return facts, train, test


def _country(file: Path) -> Mapping:
    try:
        country = json.loads(file.read_text("utf-8"))
    except ValueError as error:
        raise ValueError(f"Expected JSON in {file}. Received: {error}") from error
    if not isinstance(country, dict) or not isinstance(country.get("name"), str):
        raise ValueError(
            f"Expected a country, an object with a `name`, in {file}. Received: "
            f"{str(country)[:60]}"
        )
    return country


def read(countries: Iterable[Mapping]) -> list[Fact]:
    """The facts about countries; borders are by name, not by sign.

    >>> alone = {"name": "Malta", "ISO": {"alpha3": "MLT"}, "capital": "Valletta"}
    >>> read([{**alone, "borders": [], "region": ""}])
    [Fact(subject='Malta', relation='capital', objects=('Valletta',))]
    """
    by_name = {country["name"]: country for country in countries}
    names = {
        country["ISO"]["alpha3"]: name
        for name, country in by_name.items()
        if "alpha3" in country.get("ISO", {})
    }
    facts = []
    for subject, country in by_name.items():
        for relation, (field, *_) in RELATIONS.items():
            found = country.get(field) or []
            found = [found] if isinstance(found, str) else found
            if relation == "border":
                found = [names[sign] for sign in found if sign in names]
            objects = tuple(dict.fromkeys(str(one) for one in found if one))
            if objects:
                facts.append(Fact(subject, relation, objects))
    return facts


def split(
    facts: list[Fact], test_fraction: float, seed: int = SEED
) -> tuple[list[Question], list[Question]]:
    """Questions about some facts to train on, about the others to test on.

    Args:
        facts: What `read` returns.
        test_fraction: The part of the facts to test on.
        seed: An integer.

    Returns:
        `(train, test)`, each with every way of asking for each of its facts.

    >>> facts = [Fact("Malta", "region", ("Europe",)), Fact("Peru", "border", ("Chile",))]
    >>> train, test = split(facts, 0.5)
    >>> len(train), len(test)
    (2, 2)
    """
    order = [facts[place] for place in shuffled_places(len(facts), seed)]
    cut = round(test_fraction * len(facts))
    return questions_about(order[cut:]), questions_about(order[:cut])


def questions_about(facts: Iterable[Fact]) -> list[Question]:
    """Every way of asking for each fact."""
    return [
        Question([fact.subject if w == "_" else w for w in asked.split()], fact)
        for fact in facts
        for asked in RELATIONS[fact.relation][1:]
    ]
