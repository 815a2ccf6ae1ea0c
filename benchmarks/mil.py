"""Is there a 9 in the bag? Attention over instances beside the paper's figures.

    python benchmarks/mil.py [--bags N ...] [--seeds N] [--methods NAME ...]

Data, encoder and training are those of `recipes.bags` (Ilse et al., 2018, arXiv:1802.04712,
section 4.2). Printed is the area under the ROC curve. With KERAS_BACKEND=jax a size of bag
is compiled once for all seeds if JAX_COMPILATION_CACHE_DIR names a folder.
"""

import argparse
import statistics
import time

import keras

from keras_attention.recipes import bags as recipe

# At 50 training bags of about 10 digits, as figure 4's table says: mean AUC.
PAPER = {50: {"attention": 0.768, "instance + max": 0.553}}


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
    "attention": lambda: recipe.create(gated=False),
    "gated attention": lambda: recipe.create(gated=True),
    "instance + max": lambda: Instances(recipe.lenet(), "max"),
    "instance + mean": lambda: Instances(recipe.lenet(), "mean"),
}


def run(method, training, test, seed, epochs=recipe.EPOCHS):
    """The area under the curve of a model trained anew."""
    keras.utils.set_random_seed(seed)
    model = METHODS[method]()
    recipe.fit(model, training, seed, epochs)
    return recipe.area(model.predict(test[0], recipe.WIDEST, verbose=0), test[1])


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--bags", type=int, nargs="+", default=[50, 100, 200])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--epochs", type=int, default=recipe.EPOCHS)
    options = parser.parse_args(arguments)
    train_digits, test_digits = recipe.load()
    test = recipe.draw_bags(*test_digits, recipe.TEST_BAGS, seed=1)
    for number in options.bags:
        for method in options.methods:
            start, areas = time.monotonic(), []
            for seed in range(options.seeds):
                training = recipe.draw_bags(*train_digits, number, seed=100 + seed)
                areas.append(run(method, training, test, seed, options.epochs))
            spread = statistics.stdev(areas) if len(areas) > 1 else 0.0
            known = PAPER.get(number, {}).get(method)
            print(
                f"{number} bags, {method}: AUC {statistics.fmean(areas):.3f} "
                f"(deviation {spread:.3f}, {len(areas)} seeds)"
                + (f", paper {known}" if known else "")
                + f", {time.monotonic() - start:.0f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
