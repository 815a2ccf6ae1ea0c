"""Bible verses in Spanish (1909) and English (1769), with their words linked.

Every word carries the Strong's numbers of the Hebrew or Greek words that it renders, so
that words of both languages with a number in common are known to belong together.
"""

import html
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from keras_attention import extras, text

MODULES = ("spaRV1909eb", "engKJV2006eb")
MAX_TOKENS = 25
# Chosen before anything was trained: narrative, wisdom, prophets, a gospel, letters.
TEST_BOOKS = (
    "Judges",
    "Ruth",
    "Ecclesiastes",
    "Daniel",
    "Amos",
    "Mark",
    "Romans",
    "Galatians",
    "James",
)
DEVELOPMENT_BOOKS = (
    "Esther",
    "Lamentations",
    "Joel",
    "Philippians",
    "I Peter",
    "I John",
)

NUMBER = re.compile(r"\b[GH]\d+")
# An element's start or end, or the text between two of them.
PIECE = re.compile(r"<(?P<end>/?)(?P<name>\w+)(?P<rest>[^>]*)>|(?P<text>[^<]+)")
# Where verses are cited and explained; not part of what is translated.
LEFT_OUT = ("note",)

Words = list[tuple[str, frozenset[str]]]


class Verse(NamedTuple):
    """A verse in both languages, and its links `(target place, source place)`.

    `sure` are those links whose number stands once in each language; the number of the
    others stands several times, so that some of them may be wrong.
    """

    source: list[str]
    target: list[str]
    links: frozenset[tuple[int, int]]
    sure: frozenset[tuple[int, int]]


Part = list[Verse]


def load(folder: str | Path | None = None) -> tuple[Part, Part, Part]:
    """Loads verses of up to 25 tokens in each language, whole books held out.

    `TEST_BOOKS` and `DEVELOPMENT_BOOKS` are held out. Parallels between a held-out book and
    one to train on (Mark and the other gospels) stay where they are.

    Args:
        folder: Where the SWORD modules are, the folder with `mods.d` in it. `None` means
            the environment variable `SWORD_PATH`, `~/.sword` or `/usr/share/sword`.

    Returns:
        `(train, development, test)`: about 11,900, 300 and 1,050 verses.

    Raises:
        ImportError: If the package `pysword` is missing.
        FileNotFoundError: If the modules are missing.
    """
    bibles = _open(folder)
    held_out = {*TEST_BOOKS, *DEVELOPMENT_BOOKS}
    to_train = [book for book in _chapters(bibles[0]) if book not in held_out]
    train, development, test = (
        list(_verses(bibles, books)) for books in (to_train, DEVELOPMENT_BOOKS, TEST_BOOKS)
    )
    return train, development, test


def load_test(folder: str | Path | None = None) -> Part:
    """The last part of `load` alone, in a fraction of the time."""
    return list(_verses(_open(folder), TEST_BOOKS))


def read_words(markup: str) -> Words:
    """The tokens of a verse, lower-case, each with its Strong's numbers.

    Notes are left out; headings of psalms are part of the verse.

    Args:
        markup: A verse in OSIS, the markup of the SWORD modules.

    >>> read_words('<w lemma="strong:H0430">De Dios</w>.')
    [('de', frozenset({'H430'})), ('dios', frozenset({'H430'})), ('.', frozenset())]
    """
    words: Words = []
    open_numbers: list[frozenset[str]] = [frozenset()]
    hidden = 0
    for piece in PIECE.finditer(markup.replace("\N{PILCROW SIGN}", " ")):
        if piece["text"]:
            tokens = [] if hidden else text.split_signs(html.unescape(piece["text"]))
            words += [(token, open_numbers[-1]) for token in tokens]
        elif piece["name"] in LEFT_OUT:
            hidden += -1 if piece["end"] else not piece["rest"].endswith("/")
        elif piece["name"] == "w" and piece["end"]:
            open_numbers.pop()
        elif piece["name"] == "w":
            found = NUMBER.findall(piece["rest"])
            open_numbers.append(frozenset(n[0] + n[1:].lstrip("0") for n in found))
    return words


def link(source: Words, target: Words) -> Verse:
    """Links every two words of both languages that have a number in common.

    >>> one, two = frozenset(["H1"]), frozenset(["H2"])
    >>> verse = link([("un", one), ("rey", one), ("vio", two)], [("saw", two), ("a", one)])
    >>> sorted(verse.links), sorted(verse.sure)
    ([(0, 2), (1, 0), (1, 1)], [(0, 2)])
    """
    counts = [Counter(n for _, own in words for n in own) for words in (source, target)]
    once = frozenset(n for n in counts[0] if counts[0][n] == counts[1][n] == 1)
    shared = {
        (t, s): numbers & others
        for t, (_, numbers) in enumerate(target)
        for s, (_, others) in enumerate(source)
        if numbers & others
    }
    return Verse(
        [word for word, _ in source],
        [word for word, _ in target],
        frozenset(shared),
        frozenset(pair for pair, numbers in shared.items() if numbers & once),
    )


def _verses(bibles, books: Iterable[str]) -> Iterator[Verse]:
    """The verses of some books that are in both languages and not too long."""
    chapters = _chapters(bibles[0])
    for book in books:
        for chapter, length in enumerate(chapters[book], start=1):
            for verse in range(1, length + 1):
                words = []
                for bible in bibles:
                    markup = bible.get(book, [chapter], [verse], clean=False)
                    words.append(read_words(markup))
                    # Reading takes long; what is too long need not be read twice.
                    if not 0 < len(words[-1]) <= MAX_TOKENS:
                        break
                else:
                    yield link(*words)


def _chapters(bible) -> Mapping[str, Sequence[int]]:
    """The numbers of verses of all chapters of each book."""
    testaments = bible.get_structure().get_books().values()
    return {book.name: book.chapter_lengths for books in testaments for book in books}


def _open(folder):
    pysword = extras.load("pysword.modules", "pysword", "translate")
    given = folder or os.environ.get("SWORD_PATH")
    usual = [Path.home() / ".sword", Path("/usr/share/sword")]
    folders = [Path(given)] if given else usual
    for place in folders:
        if all((place / "mods.d" / f"{name}.conf").exists() for name in MODULES):
            modules = pysword.SwordModules(str(place))
            modules.parse_modules()
            return [modules.get_bible_from_module(name) for name in MODULES]
    raise FileNotFoundError(
        f"Expected the SWORD modules {' and '.join(MODULES)}, Debian's packages "
        "sword-text-sparv and sword-text-kjv; SWORD_PATH may name their folder. "
        f"Received: {', '.join(map(str, folders))}"
    )
