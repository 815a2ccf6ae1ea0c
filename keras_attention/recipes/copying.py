"""Copying: a neural Turing machine says again what it was told.

It sees 1 to 20 random vectors of 8 bits, then a sign to begin, and has to say them again
(Graves et al., 2014, arXiv:1410.5401, section 4.1). What it has learnt is to write down
and to read, so that it copies sequences far longer than any it was trained on.

No weight of the machine has the size of its memory. So it is trained with a small one, in
a fraction of the time, and then for a little while with the paper's 128 slots. On the CPU,
KERAS_BACKEND=jax is several times faster than TensorFlow.
"""

import keras
import numpy as np
from keras import ops

from keras_attention import recipes
from keras_attention.recipes import translation
from keras_attention.turing_machine import NTMCell

FILE = "copy.keras"
SEED = 0
BITS, LONGEST, BATCH_SIZE = 8, 20, 16
UNITS, DEPTH = 100, 20
# Slots of the memory, batches to train on and the greatest learning rate.
STAGES = ((32, 3_000, 1.5e-3), (128, 900, 3e-4))
TESTED = (10, 20, 30, 50, 120)
TEST_SEQUENCES = 64
REPORTS = 20
# What `show` calls the sign to begin.
BEGIN = "|"


class Batches(keras.utils.PyDataset):
    """Fresh sequences for each of `steps` batches.

    Args:
        steps: How many batches.
        longest: The greatest length.
        seed: Integer.
    """

    def __init__(self, steps, longest, seed):
        super().__init__()
        self.steps, self.longest = steps, longest
        self.generator = np.random.default_rng(seed)

    def __len__(self):
        return self.steps

    def __getitem__(self, index):
        lengths = self.generator.integers(1, self.longest + 1, BATCH_SIZE)
        inputs, targets, weights = sequences(self.generator, lengths, self.longest)
        # The loss is a mean over all steps; that of a batch is to be one over its bits.
        return inputs, targets, weights * (weights.size / weights.sum())


def sequences(generator, lengths, longest):
    """Random sequences to copy.

    Args:
        generator: Of NumPy.
        lengths: B integers.
        longest: The length to pad to, L.

    Returns:
        Inputs `(B, 2 L + 1, bits + 1)`, the last column the sign to begin; targets
        `(B, 2 L + 1, bits)`; weights `(B, 2 L + 1)`, 1 for the steps that answer.
    """
    batch, steps = len(lengths), 2 * longest + 1
    inputs = np.zeros((batch, steps, BITS + 1), "float32")
    targets = np.zeros((batch, steps, BITS), "float32")
    weights = np.zeros((batch, steps), "float32")
    for row, length in enumerate(lengths):
        bits = generator.integers(0, 2, (length, BITS))
        inputs[row, : 2 * length + 1] = asked(bits)
        answer = slice(length + 1, 2 * length + 1)
        targets[row, answer], weights[row, answer] = bits, 1
    return inputs, targets, weights


def asked(bits):
    """What the machine sees: the bits `(L, 8)`, the sign, then nothing while it answers.

    >>> asked(np.ones((1, 8), int))[:, 6:].tolist()
    [[1.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    """
    length = len(bits)
    inputs = np.zeros((2 * length + 1, BITS + 1), "float32")
    inputs[:length, :BITS] = bits
    inputs[length, BITS] = 1
    return inputs


def train(output, stages=STAGES, longest=LONGEST, verbose=1):
    """Trains the machine and measures it.

    Args:
        output: The folder for `copy.keras` and `copy.json`.
        stages: Of each stage the slots of the memory, how many batches to train on and the
            greatest learning rate. The machine is kept with the last one's slots.
        longest: The length of the longest sequence to train on.
        verbose: 0 for no output.

    Returns:
        The figures: what `evaluate` returns.
    """
    written = recipes.Output("copy", output)
    keras.utils.set_random_seed(SEED)
    model = None
    for slots, steps, rate in stages:
        model = with_slots(slots, model)
        fit(model, steps, longest, rate, verbose)
    # Without the optimizer's state.
    model = with_slots(stages[-1][0], model)
    written.save(model)
    figures = evaluate(directory=output)
    written.describe(
        f"NTMCell (Graves et al., 2014): an LSTM of {UNITS} with {stages[-1][0]} slots, "
        f"{model.count_params():,} weights",
        f"random sequences of 1 to {longest} vectors of {BITS} bits",
        figures,
        stages=stages,
    )
    return figures


def with_slots(slots, model=None):
    """A machine with so many slots, not compiled.

    Args:
        slots: Rows of the memory.
        model: Another machine whose weights to take.
    """
    inputs = keras.Input((None, BITS + 1))
    cell = NTMCell(keras.layers.LSTMCell(UNITS), BITS, slots, DEPTH)
    machine = keras.Model(inputs, keras.layers.RNN(cell, return_sequences=True)(inputs))
    if model is not None:
        machine.set_weights(model.get_weights())
    return machine


def fit(model, steps, longest, rate, verbose=1):
    """Trains with Adam; its rate falls to 0 as a cosine.

    Args:
        model: From `(B, T, bits + 1)` to logits `(B, T, bits)`.
        steps: How many batches to train on.
        longest: The length of the longest sequence.
        rate: The greatest learning rate.
        verbose: 0 for no output.
    """
    optimizer = keras.optimizers.Adam(
        keras.optimizers.schedules.CosineDecay(rate, steps), global_clipnorm=0.5
    )
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    model.compile(optimizer, loss, jit_compile=keras.backend.backend() == "jax")
    reports = min(REPORTS, steps)
    batches = Batches(steps // reports, longest, SEED)
    # A line for each of these "epochs": a bar would be redrawn at each small batch.
    model.fit(batches, epochs=reports, shuffle=False, verbose=2 if verbose else 0)


def evaluate(limit=TEST_SEQUENCES, directory=None):
    """Measures the machine on sequences of several lengths.

    Args:
        limit: How many sequences of each length.
        directory: Another folder than `saved_models`.

    Returns:
        A dict: `wrong_bits`, the share of wrong bits in percent, by length.
    """
    model = keras.models.load_model(recipes.path(FILE, directory))
    number = limit or TEST_SEQUENCES
    shares = {str(n): 100 * wrong_bits(model, n, number) / (n * BITS) for n in TESTED}
    return {"wrong_bits": {length: round(share, 2) for length, share in shares.items()}}


def wrong_bits(model, length, number=TEST_SEQUENCES):
    """Wrong bits per sequence, over so many sequences of one length."""
    generator = np.random.default_rng(length)
    inputs, targets, _ = sequences(generator, [length] * number, length)
    said = ops.convert_to_numpy(model(inputs)) > 0
    answer = slice(length + 1, None)
    return (said[:, answer] != targets[:, answer]).sum() / number


def show(sentence, plot=None, html=None, directory=None):
    """Prints a text as the machine copied it, and when what it read had been written.

    The shipped machine writes each byte a step after it has seen it, the last one when the
    sign to begin comes.

    Args:
        sentence: A text; its bytes are what is copied.
        plot: A file name, such as `"copy.png"`, for the same as a picture.
        html: A file name, such as `"copy.html"`, for an interactive page.
        directory: Another folder than `saved_models`.

    Raises:
        ValueError: If the text is empty.
    """
    weights, given, said = look(sentence, directory)
    title = said.decode("utf-8", "replace")
    print(title)
    seen = [*signs(given), BEGIN]
    translation.show_alignment(weights, seen, signs(said), plot, html, title)


def look(sentence, directory=None):
    """What was said, and how far each reading was of the slots of each writing.

    Args:
        sentence: A text.
        directory: Another folder than `saved_models`.

    Returns:
        `(weights, given, said)`: L bytes each, and `(L, L + 1)` numbers, for each step of
        the answer and each step before it the sum over the slots of the reading head's
        weight then times the writing head's.

    Raises:
        ValueError: If the text is empty.
    """
    given = sentence.encode("utf-8")
    if not given:
        raise ValueError("Expected a text to copy. Received: ''")
    model = keras.models.load_model(recipes.path(FILE, directory))
    bits = np.unpackbits(np.frombuffer(given, "uint8")).reshape(-1, BITS)
    logits, heads = run(model, asked(bits))
    said = np.packbits(logits[len(given) + 1 :] > 0).tobytes()
    reading, writing = heads[len(given) + 1 :, 0], heads[: len(given) + 1, 1]
    return reading @ writing.T, given, said


def run(model, inputs):
    """The machine's logits and the weights of its heads, step by step.

    Args:
        model: What `with_slots` returns.
        inputs: `(T, bits + 1)`.

    Returns:
        `(T, bits)`, and `(T, heads, slots)`, readers first.
    """
    (layer,) = (one for one in model.layers if isinstance(one, keras.layers.RNN))
    cell = layer.cell
    states = cell.get_initial_state(batch_size=1)
    logits, heads = [], []
    for step in inputs:
        output, states = cell(step[None], states)
        logits.append(ops.convert_to_numpy(output)[0])
        heads.append(ops.convert_to_numpy(states[-2]).reshape(cell.heads, cell.slots))
    return np.array(logits), np.array(heads)


def signs(given):
    """A name for each byte: its number in hexadecimal where it is no visible sign.

    >>> signs(b"a \\n")
    ['a', '\u2423', '0a']
    """
    names = {ord(" "): "\u2423", **{one: chr(one) for one in range(33, 127)}}
    return [names.get(one, f"{one:02x}") for one in given]
