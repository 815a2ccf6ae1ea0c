"""From Spanish to English: Bible verses, and how well attention finds the linked words.

A bidirectional GRU reads, a GRU with Luong's attention writes. Nobody tells the model
which words belong together; the data's links only measure what it found out.
See `datasets.verses`.
"""

import time
from pathlib import Path

import keras

from keras_attention import recipes, text
from keras_attention.datasets import verses
from keras_attention.decoder import AttentionDecoder
from keras_attention.models.seq2seq import Seq2Seq
from keras_attention.recipes import translation
from keras_attention.recipes.batches import Batches
from keras_attention.recipes.training import fit

FILE = "verses.keras"
SEED = 0
# Before all verses, short ones: there attention finds out sooner what it is for.
SHORT = 15
# The most tokens in a verse, and epochs; the learning rate falls to 0 in each round.
ROUNDS = ((SHORT, 6), (None, 14), (None, 6), (None, 6), (None, 6), (None, 6))
LEARNING_RATE = 2e-3
BATCH_SIZE = 32
# Words that stand at least four and five times in the verses to train on.
SOURCE_WORDS, TARGET_WORDS = 3_500, 2_650
# Numbers of tokens, of the target with the end sign, that batches are padded to.
SIZES = ((15, 16), (20, 21), (25, 26))
BEAM = 5
LENGTH_PENALTY = 1.0
# A verse has up to 25 tokens; one that the model never ends is cut here.
MAX_LENGTH = 30


def train(output, rounds=ROUNDS, limit=None, verbose=1):
    """Trains the model and measures it on the held-out books.

    Args:
        output: The folder for `verses.keras` and `verses.json`. `verses.keras` is written
            after every epoch, so that a training that breaks off leaves a model.
        rounds: Pairs: verses of how many tokens at most (`None` for all), and how often
            to go through them.
        limit: Use only so many of the verses of each part.
        verbose: As in `keras.Model.fit`.

    Returns:
        The figures: what `evaluate` returns.
    """
    output = Path(output)
    output.mkdir(parents=True, exist_ok=True)
    parts = [part[:limit] for part in verses.load()]
    start = time.monotonic()
    model = learn(parts, output / FILE, rounds, verbose=verbose)
    minutes = round((time.monotonic() - start) / 60, 1)
    figures = measure(model, parts[2])
    sizes = [len(part) for part in parts]
    description = _description(model, sizes, rounds, minutes, figures)
    recipes.write_description("verses", output, description)
    return figures


def learn(parts, file, rounds=ROUNDS, score="bilinear", verbose=1):
    """A model trained on the first part, watched on the second, written to `file`."""
    keras.utils.set_random_seed(SEED)
    training, development, _ = parts
    vocabularies = (
        text.build_vocabulary([verse.source for verse in training], SOURCE_WORDS),
        text.build_vocabulary([verse.target for verse in training], TARGET_WORDS),
    )
    model = create(*vocabularies, score)
    for longest, epochs in rounds:
        pairs, chosen_on = (
            encode(model, [verse for verse in part if fits(verse, longest)])
            for part in (training, development)
        )
        batches = Batches(pairs, SIZES, BATCH_SIZE, SEED)
        watched = Batches(chosen_on, sizes=[()])
        fit(model, batches, watched, epochs, file, LEARNING_RATE, verbose)
    return model


def fits(verse, longest):
    """Whether a verse has at most so many tokens in each language; `None` for any."""
    return longest is None or max(len(verse.source), len(verse.target)) <= longest


def create(sources, targets, score="bilinear", units=192, embedding_dim=80):
    """The model, built, not trained yet.

    Args:
        sources: The Spanish words that it knows.
        targets: The English ones.
        score: What attention compares with, by name.
        units: Units of the decoder; half of them in each direction of the encoder, and in
            the attentional vector.
        embedding_dim: Depth of the words' vectors.
    """
    half = units // 2
    decoder = AttentionDecoder(
        keras.layers.GRUCell(units), score, order="luong", attention_units=half
    )
    model = Seq2Seq(
        sources,
        targets,
        decoder,
        embedding_dim=embedding_dim,
        encoder_units=half,
        dropout=0.2,
        source_split="signs",
        target_split="signs",
        seed=SEED,
    )
    model.build()
    # Keras's vectors, of a length below 1, leave the model at the words' frequencies.
    for embedding in (model.source_embedding, model.target_embedding):
        weights = embedding.embeddings
        weights.assign(keras.random.normal(weights.shape, stddev=0.5))
    return model


def encode(model, part):
    """A part of the data as `Batches` and the measures take it."""
    sources, targets = ([" ".join(verse[side]) for verse in part] for side in (0, 1))
    return model.encode_pairs(sources, targets)


def evaluate(limit=None, directory=None):
    """Measures the model on the held-out books.

    Args:
        limit: Use only so many of the verses.
        directory: Another folder than `saved_models`.

    Returns:
        What `measure` returns.
    """
    part = verses.load_test()[:limit]
    return measure(keras.models.load_model(recipes.path(FILE, directory)), part)


def measure(model, part):
    """The figures of a model on verses that it was not trained on.

    Args:
        model: A `Seq2Seq`.
        part: A list of verses.

    Returns:
        A dict: `bleu` of greedy search and `bleu_beam5`; `alignment_accuracy`, the share
        of linked words at which the largest weight stands at a word linked to them, with
        the right translation given; `alignment_diagonal`, the same of guesses on the
        diagonal; `alignment_error_rate`.
    """
    sources = [" ".join(verse.source) for verse in part]
    references = [verse.target for verse in part]
    greedy, _ = translation.translate(model, sources, 1, MAX_LENGTH)
    beam, _ = translation.translate(
        model, sources, BEAM, MAX_LENGTH, length_penalty=LENGTH_PENALTY
    )
    links, sure = [verse.links for verse in part], [verse.sure for verse in part]
    places = translation.attention_places(model, encode(model, part))
    diagonal = [
        translation.diagonal_places(len(verse.source), len(verse.target)) for verse in part
    ]
    return {
        "bleu": translation.bleu(greedy, references),
        "bleu_beam5": translation.bleu(beam, references),
        "alignment_accuracy": translation.alignment_accuracy(places, links),
        "alignment_diagonal": translation.alignment_accuracy(diagonal, links),
        "alignment_error_rate": translation.alignment_error_rate(places, sure, links),
    }


def show(sentence, plot=None, html=None, directory=None):
    """Prints a translation, and which Spanish words each English one looked at.

    Args:
        sentence: A Spanish text.
        plot: A file name, such as `"verse.png"`, for the same as a picture.
        html: A file name, such as `"verse.html"`, for an interactive page.
        directory: Another folder than `saved_models`.

    Raises:
        ValueError: If there is no word in it.
    """
    weights, words, said = look(sentence, directory)
    print(" ".join(said))
    translation.show_alignment(weights, words, said, plot, html, title=" ".join(said))


def look(sentence, directory=None):
    """A sentence's words, its translation's, and which words each of these looked at.

    Args:
        sentence: A Spanish text.
        directory: Another folder than `saved_models`.

    Returns:
        `(weights, words, translation)`, the weights `(translation, words)`.

    Raises:
        ValueError: If there is no word in it.
    """
    words = text.split_signs(sentence)
    if not words:
        raise ValueError(f"Expected a text with words in it. Received: {sentence!r}")
    model = keras.models.load_model(recipes.path(FILE, directory))
    options = dict(length_penalty=LENGTH_PENALTY, min_length=1)
    (said,), (weights,) = translation.translate(
        model, [" ".join(words)], BEAM, MAX_LENGTH, **options
    )
    return weights, words, said


def _description(model, sizes, rounds, minutes, figures):
    trained, chosen, tested = sizes
    return {
        "model": (
            f"Seq2Seq: a bidirectional GRU, Luong's attention, "
            f"{model.count_params():,} weights"
        ),
        "data": (
            "verses of up to 25 tokens of Debian's sword-text-sparv and sword-text-kjv: "
            f"{trained:,} to train, {chosen:,} for validation, {tested:,} to test "
            f"({', '.join(verses.TEST_BOOKS)})"
        ),
        "figures": figures,
        "training": {"rounds": rounds, "minutes": minutes, "seed": SEED},
        "command": "python -m keras_attention train verses --output saved_models",
    }
