"""Adding two marked numbers of a long sequence, without any recurrence.

A step is a number and a mark: 1 at the two steps whose numbers are asked for, else 0, -1 at
the first and last step; the first of the two is one of the first ten steps, the other one
of the first half. A sequence has T0 to 1.1 T0 steps. Sums are of numbers from -1 to 1 and
scaled, 0.5 + (a + b) / 4; products are of numbers from 0 to 1 (Hochreiter and Schmidhuber,
1997). What is right is within .04 (Raffel and Ellis, 2015, arXiv:1512.08756).

The model that is kept was trained on 50 to 1,100 steps, any number of them in every batch:
in its section on variable lengths the paper has 50 to 10,000.
"""

import keras
import numpy as np

from keras_attention import recipes, visualization
from keras_attention.models import FeedForwardAttention

FILE = "addition.keras"
SEED = 0
UNITS = 100
LENGTHS, TESTED = (50, 1100), (50, 100, 200, 500, 1000)
EPOCHS, STEPS, BATCH_SIZE, LEARNING_RATE = 10, 1_000, 100, 0.01
TEST_SEQUENCES, SOLVED = 1_000, 0.04


class Batches(keras.utils.PyDataset):
    """Fresh sequences for each of `number` batches.

    Args:
        number: How many batches.
        seed: Integer.
        task: `"addition"` or `"multiplication"`.
        shortest: Number of steps.
        longest: Number of steps.
    """

    def __init__(self, number, seed, task, shortest, longest):
        super().__init__()
        self.number, self.what = number, (task, shortest, longest)
        self.generator = np.random.default_rng(seed)

    def __len__(self):
        return self.number

    def __getitem__(self, index):
        task, shortest, longest = self.what
        return sequences(self.generator, task, BATCH_SIZE, shortest, longest)


@keras.saving.register_keras_serializable("keras_attention")
class OneByOne(FeedForwardAttention):
    """The same model, a sequence at a time, for JAX.

    The features of one sequence stay in the processor's cache, those of a batch of 100 do
    not: a step at T0 = 500 takes a fourth of the time.
    """

    def call(self, inputs):  # type: ignore[override]  # it is only ever trained
        one = keras.remat(lambda inputs: super(OneByOne, self).call(inputs))
        batches_of_one = tuple(keras.ops.expand_dims(x, 1) for x in inputs)
        return keras.ops.squeeze(keras.ops.map(one, batches_of_one), 1)


def train(output, epochs=EPOCHS, steps=STEPS, lengths=LENGTHS, verbose=2):
    """Trains the model to add and measures it.

    Args:
        output: The folder for `addition.keras` and `addition.json`.
        epochs: How many epochs.
        steps: Batches in an epoch.
        lengths: Of the shortest and the longest sequence.
        verbose: As in `keras.Model.fit`.

    Returns:
        The figures: what `evaluate` returns.
    """
    written = recipes.Output("addition", output)
    keras.utils.set_random_seed(SEED)
    model = create()
    schedule = keras.optimizers.schedules.CosineDecay(LEARNING_RATE, epochs * steps)
    compile_model(model, schedule)
    batches = Batches(steps, SEED, "addition", *lengths)
    model.fit(batches, epochs=epochs, shuffle=False, verbose=verbose)
    written.save(plain(model))
    figures = evaluate(directory=output)
    written.describe(
        f"FeedForwardAttention (Raffel and Ellis, 2015): {model.count_params():,} weights",
        f"random sequences of {lengths[0]} to {lengths[1]} numbers, two of them marked",
        figures,
        epochs=epochs,
        seed=SEED,
    )
    return figures


def range_of(length):
    """The shortest and the longest sequence: T0 and 1.1 T0 steps."""
    return length, round(1.1 * length)


def create(pooling="attention"):
    """A model that is quick to train on this backend, not trained yet."""
    kind = OneByOne if keras.backend.backend() == "jax" else FeedForwardAttention
    return kind(UNITS, pooling=pooling)


def compile_model(model, rate):
    """For training with Adam at a learning rate, or at one that falls."""
    jit = keras.backend.backend() == "jax"
    model.compile(keras.optimizers.Adam(rate), "mse", jit_compile=jit)


def plain(model):
    """The same weights in a model that loads without this module."""
    copy = FeedForwardAttention.from_config(model.get_config())
    copy.build(((None, None, 2), (None, None)))
    copy.set_weights(model.get_weights())
    return copy


def sequences(generator, task, number, shortest, longest):
    """Random sequences, and their sums or products.

    Args:
        generator: Of NumPy.
        task: `"addition"` or `"multiplication"`.
        number: How many, B.
        shortest: Number of steps.
        longest: Number of steps, T.

    Returns:
        `((steps (B, T, 2), mask (B, T)), targets (B, 1))`.
    """
    lengths = generator.integers(shortest, longest + 1, number)
    low = -1.0 if task == "addition" else 0.0
    values = generator.uniform(low, 1.0, (number, longest))
    marks = np.zeros((number, longest))
    rows = np.arange(number)
    marks[:, 0] = marks[rows, lengths - 1] = -1
    first = generator.integers(0, 10, number)
    # The second is drawn from one place fewer, and moved on past the first.
    second = generator.integers(0, lengths // 2 - 1)
    second += second >= first
    marks[rows, first] = marks[rows, second] = 1
    a, b = values[rows, first], values[rows, second]
    targets = 0.5 + (a + b) / 4 if task == "addition" else a * b
    steps = np.stack([values, marks], axis=-1).astype("float32")
    mask = np.arange(longest) < lengths[:, None]
    return (steps, mask), targets[:, None].astype("float32")


def evaluate(limit=None, directory=None):
    """Measures the model on sequences of several lengths.

    Args:
        limit: Use only so many of the 1,000 sequences of each length.
        directory: Another folder than `saved_models`.

    Returns:
        A dict: `accuracy`, the share of sums that are right within .04, in percent, by T0.
    """
    model = keras.models.load_model(recipes.path(FILE, directory))
    number = limit or TEST_SEQUENCES
    shares = {
        str(length): np.mean(
            errors_of(model, "addition", range_of(length), number) < SOLVED
        )
        for length in TESTED
    }
    return {"accuracy": {name: round(100 * float(x), 2) for name, x in shares.items()}}


def errors_of(model, task, lengths, number=TEST_SEQUENCES):
    """The errors of so many sequences, `lengths` the shortest and the longest."""
    generator = np.random.default_rng(1)
    inputs, targets = sequences(generator, task, number, *lengths)
    return np.abs(model.predict(inputs, BATCH_SIZE, verbose=0) - targets)


def show(numbers, plot=None, html=None, directory=None):
    """Prints the sum of two marked numbers, and which steps the model looked at.

    Args:
        numbers: Numbers from -1 to 1, two of them with a star: "0.1 0.5* -0.9 0.25* 0.3".
        plot: A file name, such as `"addition.png"`, for the same as a picture.
        html: A file name, such as `"addition.html"`, for a page.
        directory: Another folder than `saved_models`.

    Raises:
        ValueError: If it is not that.
    """
    said, weights = look(numbers, directory)
    words = numbers.split()
    right = sum(float(word[:-1]) for word in words if word.endswith("*"))
    title = f"sum {said:.2f} (right: {right:.2f})"
    print(title)
    print(visualization.shade_words(words, weights))
    if plot:
        visualization.save_plot(visualization.plot_words(words, weights, title=title), plot)
    if html:
        visualization.words_html(words, weights, title=title).save_html(html)


def look(numbers, directory=None):
    """The sum of two marked numbers, and the weight of each step.

    Args:
        numbers: As for `show`.
        directory: Another folder than `saved_models`.

    Returns:
        A number, and weights `(T,)`.

    Raises:
        ValueError: If two numbers from -1 to 1 are not marked, or something is no number.
    """
    words = numbers.split()
    try:
        values = [float(word.removesuffix("*")) for word in words]
    except ValueError:
        values = []
    marks = np.array([word.endswith("*") for word in words], "float32")
    # Neither is NaN in this range.
    inside = all(abs(value) <= 1 for value in values)
    if not values or marks.sum() != 2 or not inside:
        raise ValueError(
            "Expected numbers from -1 to 1, two of them with a star, such as '0.1 0.5* "
            f"-0.9 0.25* 0.3'. Received: {numbers!r}"
        )
    for end in (0, -1):
        marks[end] = marks[end] or -1
    model = keras.models.load_model(recipes.path(FILE, directory))
    steps = np.stack([values, marks], axis=-1).astype("float32")
    output, weights = model(steps[None], return_attention_scores=True)
    said = 4 * (float(keras.ops.convert_to_numpy(output)[0, 0]) - 0.5)
    return said, keras.ops.convert_to_numpy(weights)[0]
