"""The demo: train, save, load in a fresh process, see which words were looked at.

An embedding, a bidirectional GRU, `AttentionPooling` and a `Dense` layer classify
sentences, beside the same model with mean and with max pooling.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
from keras import ops

from keras_attention import text, visualization
from keras_attention.datasets import movie_reviews
from keras_attention.normalizers import Softmax
from keras_attention.pooling import AttentionPooling

SEED = 2015
SAMPLE = (
    "The plot is predictable, but the actors are wonderful and the ending is deeply moving."
)
VOCABULARY_SIZE = 8_000
MAX_WORDS = 200
EPOCHS = 3
SENTIMENT = ("negative", "positive")

# What a user's program does to load the model: two imports and nothing else.
FRESH_PROCESS = """
import json, sys
import keras
import keras_attention
model = keras.models.load_model(sys.argv[1])
ids = keras.ops.array(json.load(sys.stdin), "int32")
print(json.dumps(model.predict(ids, batch_size=256, verbose=0).tolist()))
"""


class _MaxPooling(keras.layers.Layer):
    """Max pooling that honours the mask; `GlobalMaxPooling1D` does not."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def compute_mask(self, inputs, previous_mask):
        return None

    def call(self, inputs, mask=None):
        # Nothing that a GRU puts out is below -1.
        return ops.max(ops.where(mask[..., None], inputs, -1.0), axis=1)


def _attention():
    # After few epochs softmax is still nearly even; a low temperature lets it choose.
    return AttentionPooling(32, normalizer=Softmax(temperature=0.2), name="attention")


POOLINGS = {
    "attention": _attention,
    "mean": keras.layers.GlobalAveragePooling1D,
    "max": _MaxPooling,
}


def run(sample=SAMPLE, output="demo_output", data="rotten_tomatoes", epochs=EPOCHS):
    """Runs the whole demo and prints what it does.

    Args:
        sample: The text to show the weights of.
        output: The folder for `attention.keras`, `vocabulary.txt` and `words.png`.
        data: `"rotten_tomatoes"`, `"imdb"` (needs a network) or the path of a CSV
            file with the columns `text` and `label`.
        epochs: How often to go over the training data at most.

    Returns:
        A dict of accuracies on held-out data in percent, one per pooling.

    Raises:
        ValueError: If the sample has no word in it or the data cannot be used.
        ImportError: If a package of the extra `demo` is missing.
    """
    words = text.tokenize(sample)
    if not words:
        raise ValueError(f"Expected a text with words in it. Received: {sample!r}")
    train, test = load(data)
    vocabulary = text.build_vocabulary(train[0], VOCABULARY_SIZE)
    train, test = (_encode(part, vocabulary) for part in (train, test))
    sizes = f"{len(train[0]):,} texts to train on, {len(test[0]):,} held out"
    print(f"Data: {data}, {sizes}")

    model, figures = _compare(vocabulary, train, test, epochs)
    output = Path(output)
    output.mkdir(parents=True, exist_ok=True)
    (output / "vocabulary.txt").write_text("\n".join(vocabulary) + "\n", "utf-8")
    file = output / "attention.keras"
    model.save(file)
    print(f"\nSaved {file} ({file.stat().st_size / 1e6:.1f} MB)")
    difference = _largest_difference(model, file, test[0])
    if not difference <= 1e-6:
        raise RuntimeError(f"Expected equal predictions. Received: {difference=}")
    print(f"Loaded in a fresh process, it predicts the same (to {difference:.0e})")

    reloaded = keras.models.load_model(file)
    names = {"rotten_tomatoes": SENTIMENT, "imdb": SENTIMENT}.get(data)
    _show(reloaded, vocabulary, words, names, output / "words.png")
    return figures


def load(data):
    """The data by name or CSV file: `(token lists, labels)` to train and to test on.

    Texts without a word are left out.
    """
    if data == "rotten_tomatoes":
        parts = movie_reviews.load()
    elif data == "imdb":
        parts = movie_reviews.load_keras_imdb()
    elif str(data).endswith(".csv"):
        parts = movie_reviews.load_csv(data)
    else:
        raise ValueError(
            f"Expected rotten_tomatoes, imdb or a .csv file as data. Received: {data}"
        )
    train, test = (_tokenized(*part) for part in parts)
    if len(set(train[1].tolist())) < 2 or not test[0]:
        raise ValueError(
            "Expected texts with at least two different labels to train on, and some "
            f"to test on. Received: {len(train[0])} and {len(test[0])} texts in {data}"
        )
    return train, test


def build(vocabulary_size, num_classes, pooling="attention"):
    """The model, a plain functional one: ids `(B, T)` to probabilities.

    >>> build(100, 2).output_shape
    (None, 2)
    """
    inputs = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(vocabulary_size, 64, mask_zero=True)(inputs)
    x = keras.layers.SpatialDropout1D(0.5)(x)
    gru = keras.layers.GRU(16, return_sequences=True)
    x = keras.layers.Bidirectional(gru, name="encoder")(x)
    x = POOLINGS[pooling]()(x)
    x = keras.layers.Dropout(0.5)(x)
    outputs = keras.layers.Dense(num_classes, activation="softmax")(x)
    return keras.Model(inputs, outputs, name=f"{pooling}_pooling")


def attention_weights(model, ids):
    """The weights `(B, T)` that a trained or reloaded model's pooling layer uses.

    The model is run up to the pooling layer, and this layer once more, now with
    `return_attention_scores=True`. The model itself stays as it is.
    """
    encoder = keras.Model(model.input, model.get_layer("encoder").output)
    pooling = model.get_layer("attention")
    _, weights = pooling(encoder(ids), return_attention_scores=True)
    return ops.convert_to_numpy(weights)


def _tokenized(texts, labels):
    tokens = [text.tokenize(one) for one in texts]
    kept = [index for index, one in enumerate(tokens) if one]
    return [tokens[index] for index in kept], labels[kept]


def _encode(part, vocabulary):
    tokens, labels = part
    return text.encode(tokens, vocabulary, MAX_WORDS), labels


def _compare(vocabulary, train, test, epochs):
    """Trains one model per pooling; returns the one with attention and the figures."""
    num_classes = 1 + int(max(train[1].max(), test[1].max()))
    models, figures = {}, {}
    for pooling in POOLINGS:
        print(f"\nTraining with {pooling} pooling")
        keras.utils.set_random_seed(SEED)
        models[pooling] = build(len(vocabulary) + text.FIRST_WORD, num_classes, pooling)
        figures[pooling] = 100 * _fit(models[pooling], train, test, epochs)
    print("\nAccuracy on held-out texts")
    for pooling, accuracy in figures.items():
        print(f"  {pooling + ' pooling':18}{accuracy:5.1f}%")
    return models["attention"], figures


def _fit(model, train, test, epochs):
    """Trains, keeps the epoch that does best on a tenth of the training data."""
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    best = keras.callbacks.EarlyStopping(
        "val_accuracy", patience=1, mode="max", restore_best_weights=True
    )
    model.fit(
        *train,
        batch_size=32,
        epochs=epochs,
        validation_split=0.1,
        callbacks=[best],
        verbose=1 if sys.stdout.isatty() else 2,
    )
    _, accuracy = model.evaluate(*test, batch_size=256, verbose=0)
    return accuracy


def _largest_difference(model, file, ids):
    """Compares predictions with those of a fresh process that loads `file`."""
    package = str(Path(__file__).resolve().parents[2])
    paths = [package, *filter(None, [os.environ.get("PYTHONPATH")])]
    finished = subprocess.run(
        [sys.executable, "-c", FRESH_PROCESS, str(file)],
        input=json.dumps(ids.tolist()),
        capture_output=True,
        text=True,
        env=os.environ
        | {
            "PYTHONPATH": os.pathsep.join(paths),
            "KERAS_BACKEND": keras.backend.backend(),
        },
    )
    if finished.returncode:
        raise RuntimeError(f"The fresh process failed:\n{finished.stderr}")
    expected = model.predict(ids, batch_size=256, verbose=0)
    return np.abs(np.array(json.loads(finished.stdout)) - expected).max()


def _show(model, vocabulary, words, names, picture):
    ids = text.encode([words], vocabulary)
    probabilities = model.predict(ids, verbose=0)[0]
    label = int(probabilities.argmax())
    name = names[label] if names else f"label {label}"
    title = f"{name}, {100 * probabilities[label]:.1f}%"
    weights = attention_weights(model, ids)[0]
    print(f"\n{title}")
    print(visualization.shade_words(words, weights))
    ax = visualization.plot_words(words, weights, title=title)
    visualization.save_plot(ax, picture)
    print(f"Picture: {picture}")
