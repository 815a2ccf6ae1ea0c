"""Captions for scenes of garments, soft attention against hard against none.

Three models with one encoder, one decoder and one budget, which differ in the normalizer of
their attention alone: softmax, REINFORCE, and equal weights, which is the mean of all
regions. See `datasets.fashion_scenes` for the scenes. `captioner.keras` is the soft one.
"""

import time
from pathlib import Path

import keras
import numpy as np

from keras_attention import recipes, visualization
from keras_attention.datasets import fashion_scenes
from keras_attention.hard import Reinforce
from keras_attention.models.captioner import ImageCaptioner, Mean
from keras_attention.recipes import translation
from keras_attention.recipes.training import averaging_adam, fit_and_save
from keras_attention.visualization.captions import plot_captions

SEED = fashion_scenes.SEED
EPOCHS = 8
BATCH = 32
LEARNING_RATE = 3e-3
MAX_LENGTH = 24
FILES = {
    "soft": "captioner.keras",
    "hard": "captioner_hard.keras",
    "mean": "captioner_mean.keras",
}


def train(output, epochs=EPOCHS, limit=None, verbose=1, kinds=tuple(FILES)):
    """Trains the models and measures them on the test scenes.

    Args:
        output: The folder for the models and `captioner.json`. A model's file is written
            after every epoch, so that a training that breaks off leaves a model.
        epochs: How often to go through the scenes.
        limit: Use only so many of the scenes of each part.
        verbose: As in `keras.Model.fit`.
        kinds: Which to train; the others have to be there.

    Returns:
        The figures: what `evaluate` returns.
    """
    output = Path(output)
    output.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    training, development, _ = _scenes(limit)
    for kind in kinds:
        keras.utils.set_random_seed(SEED)
        file = output / FILES[kind]
        fit(create(kind), training, development, epochs, file, verbose)
    minutes = round((time.monotonic() - start) / 60, 1)
    figures = evaluate(limit, output)
    description = _description(output, _sizes(limit), epochs, minutes, figures)
    recipes.write_description("captioner", output, description)
    return figures


def create(kind="soft"):
    """A model, not trained yet: 209,000 weights."""
    normalizers = {
        "soft": "softmax",
        "hard": Reinforce(entropy=0.01, seed=SEED),
        "mean": Mean(),
    }
    side = fashion_scenes.CANVAS
    return ImageCaptioner(
        fashion_scenes.WORDS,
        image_shape=(side, side, 1),
        normalizer=normalizers[kind],
        units=96,
        embedding_dim=48,
        attention_units=48,
        doubly_stochastic=0.0,
        dropout=0.1,
        seed=SEED,
    )


def fit(model, training, development, epochs, file, verbose):
    """Trains, and leaves the model with its averaged weights."""
    pairs = model.encode_pairs(training.images, training.captions)
    steps = epochs * -(-len(training.captions) // BATCH)
    optimizer = averaging_adam(LEARNING_RATE, steps, 100, 0.99)
    model.compile_for_training(optimizer, jit_compile=False)
    fit_and_save(
        model,
        *pairs,
        file=file,
        validation_data=model.encode_pairs(development.images, development.captions),
        batch_size=BATCH,
        epochs=epochs,
        verbose=verbose,
    )


def evaluate(limit=None, directory=None):
    """Measures the models on the test scenes.

    Args:
        limit: Use only so many of them.
        directory: Another folder than `saved_models`.

    Returns:
        A dict of figures in percent, of greedy captions: `exact`, the share of captions
        that are right word for word; `bleu4`; `pointing`, the share of garments whose word
        looks most at a region on them when the right words before it are given, and
        `pointing_chance`, that of a region drawn at random. Those behind `hard_` and
        `mean_` are of the other two models.
    """
    _, _, scenes = _scenes(limit, test_only=True)
    figures = {}
    for kind, file in FILES.items():
        model = keras.models.load_model(recipes.path(file, directory))
        lead = "" if kind == "soft" else f"{kind}_"
        captions = model.caption(scenes.images, 1, MAX_LENGTH, batch_size=250)
        right = [said == real for said, real in zip(captions, scenes.captions, strict=True)]
        figures[f"{lead}exact"] = round(100 * float(np.mean(right)), 2)
        figures[f"{lead}bleu4"] = bleu(captions, scenes.captions)
        if kind != "mean":
            hits, chances = pointing(model, scenes)
            figures[f"{lead}pointing"] = round(100 * float(hits.mean()), 2)
            figures["pointing_chance"] = round(100 * float(chances.mean()), 2)
    return figures


def bleu(captions, references):
    """BLEU-4 of whole texts, in percent, one reference each."""
    return translation.bleu(*([one.split() for one in x] for x in (captions, references)))


def pointing(model, scenes):
    """For every garment of the captions, whether the largest weight lies on it.

    Args:
        model: An `ImageCaptioner`.
        scenes: `Scenes`.

    Returns:
        Booleans, and the probabilities that a region drawn at random lies on it.
    """
    (images, before), _ = model.encode_pairs(scenes.images, scenes.captions)
    looker = _Looker(model)
    weights = looker.predict([images, before], batch_size=250, verbose=0)
    height, width = model.grid(images.shape)
    rows, columns = (
        (np.arange(n) + 0.5) * side / n
        for n, side in zip((height, width), images.shape[1:3], strict=True)
    )
    names = [name.replace("-", "") for name in fashion_scenes.GARMENTS]
    hits, chances = [], []
    for caption, corners, looked in zip(
        scenes.captions, scenes.corners, weights, strict=True
    ):
        steps = [t for t, word in enumerate(caption.split()) if word in names]
        for t, (row, column) in zip(steps, corners, strict=True):
            down = (rows >= row) & (rows < row + fashion_scenes.GARMENT)
            across = (columns >= column) & (columns < column + fashion_scenes.GARMENT)
            on_it = (down[:, None] & across).ravel()
            hits.append(on_it[looked[t].argmax()])
            chances.append(on_it.mean())
    return np.array(hits), np.array(chances)


class _Looker(keras.Model):
    """A captioner's weights for given words."""

    def __init__(self, model):
        super().__init__(name="looker")
        self.model = model

    def call(self, inputs):
        return self.model(inputs, return_attention_scores=True)[1]


def show(picture, plot=None, html=None, directory=None):
    """Prints a picture's caption, and where in the picture each word looked.

    Args:
        picture: The file of a picture, or the number of a test scene.
        plot: A file name, such as `"out.png"`, for the picture once per word with its
            weights over it.
        html: A file name, such as `"out.html"`, for an interactive page of the regions.
        directory: Another folder than `saved_models`.

    Raises:
        ValueError: If there is no such scene.
    """
    image, words, weights = look(picture, directory)
    print(" ".join(words))
    height, width = weights.shape[1:]
    for word, looked in zip(words, weights, strict=True):
        row, column = divmod(int(looked.argmax()), width)
        print(
            f"  {word:10}{100 * looked.max():4.0f}% at row {row + 1} of {height}, "
            f"column {column + 1} of {width}"
        )
    if plot:
        axes = plot_captions(image, words, weights)
        visualization.save_plot(axes[0], plot)
    if html:
        regions = [f"{i + 1}/{j + 1}" for i in range(height) for j in range(width)]
        looks = weights.reshape(len(weights), -1)
        page = visualization.attention_view(looks, regions, words)
        page.save_html(html)


def look(picture, directory=None):
    """A picture, the words of its caption, and where in the picture each word looked.

    Args:
        picture: As for `show`.
        directory: Another folder than `saved_models`.

    Returns:
        `(image, words, weights)`, the weights `(words, H, W)`.

    Raises:
        ValueError: If there is no such scene.
    """
    model = keras.models.load_model(recipes.path(FILES["soft"], directory))
    image = _picture(picture)
    (caption,), (weights,) = model.look(image[None], 1, MAX_LENGTH)
    return image, caption.split(), weights


def _picture(picture):
    side = fashion_scenes.CANVAS
    if not str(picture).isdecimal():
        image = keras.utils.load_img(
            picture, color_mode="grayscale", target_size=(side,) * 2
        )
        return keras.utils.img_to_array(image, dtype="uint8")
    number = int(picture)
    _, _, scenes = _scenes(number + 1, test_only=True)
    if number >= len(scenes.images):
        raise ValueError(
            f"Expected a file, or the number of one of {len(scenes.images)} test scenes. "
            f"Received: {picture}"
        )
    return scenes.images[number]


def _sizes(limit):
    return [min(size, limit or size) for size in fashion_scenes.SIZES]


def _scenes(limit=None, test_only=False):
    sizes = _sizes(limit)
    if test_only:
        sizes[:2] = [0, 0]
    return fashion_scenes.load(sizes)


def _description(output, sizes, epochs, minutes, figures):
    model = keras.models.load_model(output / FILES["soft"])
    trained, chosen, tested = sizes
    rows, columns = model.grid((None, fashion_scenes.CANVAS, fashion_scenes.CANVAS, 1))
    return {
        "model": (
            f"ImageCaptioner: a small CNN, an LSTM with soft attention to {rows * columns} "
            f"regions, {model.count_params():,} weights"
        ),
        "data": (
            f"made scenes of 2 to 4 photographs of Fashion-MNIST: {trained:,} to train, "
            f"{chosen:,} for validation, {tested:,} of other photographs to test"
        ),
        "figures": figures,
        "training": {"epochs": epochs, "minutes": minutes, "seed": SEED},
        "command": "python -m keras_attention train captioner --output saved_models",
    }
