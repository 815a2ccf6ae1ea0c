"""Small stories with questions: the bAbI tasks, and stories of our own of the same kind.

A part of the data is a list of `Question`.
"""

import gzip
import os
import random
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import keras

ORIGIN = "https://s3.amazonaws.com/text-datasets/babi_tasks_1-20_v1-2.tar.gz"
FOLDER = "KERAS_ATTENTION_BABI"
# Where the data may lie beside a checkout.
BESIDE = ("data/babi", "../shared/data/babi")

TASKS = {
    1: "1 supporting fact",
    2: "2 supporting facts",
    3: "3 supporting facts",
    4: "2 argument relations",
    5: "3 argument relations",
    6: "yes/no questions",
    7: "counting",
    8: "lists/sets",
    9: "simple negation",
    10: "indefinite knowledge",
    11: "basic coreference",
    12: "conjunction",
    13: "compound coreference",
    14: "time reasoning",
    15: "basic deduction",
    16: "basic induction",
    17: "positional reasoning",
    18: "size reasoning",
    19: "path finding",
    20: "agent's motivation",
}
LIMIT = 1_000


class Question(NamedTuple):
    """A question, what was said before it, its answer, and where that is said.

    `supporting` holds places in `story`, counted from 0.
    """

    story: list[str]
    question: str
    answer: str
    supporting: list[int]


def load(
    task: int, folder: str | Path | None = None, limit: int | None = LIMIT
) -> tuple[list[Question], list[Question]]:
    """Loads one task, with 1,000 questions to train and as many to test on.

    Args:
        task: 1 to 20, see `TASKS`.
        folder: Where the files are, see `find`.
        limit: The first so many questions of each part. `None` for all.

    Returns:
        `(train, test)`.

    Raises:
        ValueError: If there is no such task.
        FileNotFoundError: If its files are missing.
    """
    if task not in TASKS:
        raise ValueError(f"Expected a task from 1 to 20. Received: {task!r}")
    folder = find(folder)
    parts = []
    for part in ("train", "test"):
        files = sorted(folder.glob(f"qa{task}_*{part}.txt*"))
        if not files:
            raise FileNotFoundError(
                f"Expected a file qa{task}_..._{part}.txt or .txt.gz in {folder}"
            )
        with _open(files[0]) as file:
            parts.append(read(file)[:limit])
    train, test = parts
    return train, test


def tasks(folder: str | Path | None = None) -> list[int]:
    """The tasks whose files are in a folder, see `find`."""
    folder = find(folder)
    return [task for task in TASKS if any(folder.glob(f"qa{task}_*train.txt*"))]


def find(folder: str | Path | None = None) -> Path:
    """The folder of the files `qa1_..._train.txt` and so on.

    Args:
        folder: That folder, or `None` for the one that the environment variable
            `KERAS_ATTENTION_BABI` names, or `data/babi` or `../shared/data/babi` beside
            this package's folder, or else the published archive's 1k setting, downloaded
            by Keras.

    Returns:
        A path.

    Raises:
        FileNotFoundError: If the folder has no such files.
        OSError: If there is none and the archive cannot be downloaded.
    """
    folder = folder or os.environ.get(FOLDER)
    if folder is not None:
        if not any(Path(folder).glob("qa*_*train.txt*")):
            raise FileNotFoundError(f"Expected files qa1_..._train.txt in {folder}")
        return Path(folder)
    checkout = Path(__file__).resolve().parents[2]
    for place in BESIDE:
        if any((checkout / place).glob("qa*_*train.txt*")):
            return checkout / place
    return _downloaded()


def read(lines: Iterable[str]) -> list[Question]:
    """The questions in a file of the published format.

    A line is a number and a sentence, or a number and, between tabs, a question, its
    answer and the numbers of the sentences that say so. The number 1 starts a new story.

    >>> (found,) = read(["1 Mary sat.", "2 Who sat? \\tmary\\t1", "1 John ran."])
    >>> found.story, found.question, found.answer, found.supporting
    (['Mary sat.'], 'Who sat?', 'mary', [0])
    """
    questions: list[Question] = []
    story: list[str] = []
    places: dict[str, int] = {}
    for line in lines:
        number, _, rest = line.strip().partition(" ")
        if number == "1":
            story, places = [], {}
        if "\t" not in rest:
            places[number] = len(story)
            story.append(rest)
            continue
        question, answer, *numbers = rest.split("\t")
        supporting = [places[n] for n in " ".join(numbers).split()]
        questions.append(Question(story[:], question.strip(), answer.lower(), supporting))
    return questions


def generate(number: int, seed: int = 0) -> list[Question]:
    """Stories of our own, like those of task 1: people walk about, where is one of them?

    Args:
        number: How many questions.
        seed: An integer.

    Returns:
        A list of `Question`, about stories of 2 to 6 sentences.

    >>> generate(1)[0].question.endswith("?")
    True
    """
    generator = random.Random(seed)
    made = []
    for _ in range(number):
        walks = [
            (_choose(generator, PEOPLE), _choose(generator, PLACES))
            for _ in range(2 + int(5 * generator.random()))
        ]
        person = _choose(generator, [who for who, _ in walks])
        last = max(i for i, (who, _) in enumerate(walks) if who == person)
        story = [
            f"{who} {_choose(generator, WALKED)} to the {where}." for who, where in walks
        ]
        made.append(Question(story, f"Where is {person}?", walks[last][1], [last]))
    return made


PEOPLE = ["Anna", "Ben", "Clara", "David"]
PLACES = ["garden", "kitchen", "library", "station"]
WALKED = ["walked", "went", "ran"]


def _choose(generator: random.Random, options):
    # Python promises these numbers for ever; those of `choice` it does not.
    return options[int(len(options) * generator.random())]


def _open(file: Path):
    if file.suffix == ".gz":
        return gzip.open(file, "rt", encoding="utf-8")
    return file.open(encoding="utf-8")


def _downloaded() -> Path:
    try:
        unpacked = keras.utils.get_file(origin=ORIGIN, extract=True)
    except Exception as error:  # Whatever it is that a network lacks.
        raise OSError(
            f"Could not download {ORIGIN}. With the files at hand, name their folder: "
            f"{FOLDER}=FOLDER"
        ) from error
    for file in sorted(Path(unpacked).rglob("qa1_*train.txt")):
        if file.parent.name == "en":
            return file.parent
    raise FileNotFoundError(f"Expected tasks_1-20_v1-2/en in {unpacked}")
