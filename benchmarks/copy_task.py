"""The copy task: a neural Turing machine, and what it does with longer sequences.

    python benchmarks/copy_task.py [--steps N] [--slots N] [--save FILE.keras]
        [--plot FILE.png]

The machine sees 1 to 20 random vectors of 8 bits, then a sign to begin, and has to say them
again. It is tested on longer ones than it was trained on, beside an LSTM (Graves et al.,
2014, arXiv:1410.5401, section 4.1: "NTM continues to copy as the length increases, while
LSTM rapidly degrades beyond length 20"). Errors are wrong bits per sequence.

No weight of the machine has the size of its memory. So it is trained with a small one, in
a fraction of the time, and then, with --start and --slots 128, for a little while with the
one it is always tested with, the paper's 128 slots.

On the CPU, KERAS_BACKEND=jax is several times faster than TensorFlow.
"""

import argparse
import time

import keras
import numpy as np
from keras import ops

from keras_attention import NTMCell, visualization

BITS, LONGEST, BATCH = 8, 20, 16
SLOTS, DEPTH = 128, 20
TESTED = (10, 20, 30, 50, 120)
SEED = 0


def sequences(generator, lengths, longest):
    """Inputs `(B, 2 L + 1, bits + 1)`, targets and weights of the steps that answer.

    The last column of the input is the sign to begin; behind the answer all is 0.
    """
    batch, steps = len(lengths), 2 * longest + 1
    inputs = np.zeros((batch, steps, BITS + 1), "float32")
    targets = np.zeros((batch, steps, BITS), "float32")
    weights = np.zeros((batch, steps), "float32")
    for row, length in enumerate(lengths):
        bits = generator.integers(0, 2, (length, BITS))
        inputs[row, :length, :BITS] = bits
        inputs[row, length, BITS] = 1
        targets[row, length + 1 : 2 * length + 1] = bits
        weights[row, length + 1 : 2 * length + 1] = 1
    return inputs, targets, weights


class Batches(keras.utils.PyDataset):
    """Fresh sequences for each of `steps` batches."""

    def __init__(self, steps, longest, seed):
        super().__init__()
        self.steps, self.longest = steps, longest
        self.generator = np.random.default_rng(seed)

    def __len__(self):
        return self.steps

    def __getitem__(self, index):
        lengths = self.generator.integers(1, self.longest + 1, BATCH)
        inputs, targets, weights = sequences(self.generator, lengths, self.longest)
        # The loss is a mean over all steps; that of a batch is to be one over its bits.
        return inputs, targets, weights * (weights.size / weights.sum())


def create(kind, slots=SLOTS):
    """A model of any number of steps; with `weights` it gives the heads' as well."""
    inputs = keras.Input((None, BITS + 1))
    if kind == "NTM":
        cell = NTMCell(keras.layers.LSTMCell(100), BITS, slots, DEPTH)
        outputs = keras.layers.RNN(cell, return_sequences=True)(inputs)
    else:
        hidden = keras.layers.LSTM(256, return_sequences=True)(inputs)
        outputs = keras.layers.Dense(BITS)(hidden)
    return keras.Model(inputs, outputs)


def fit(model, steps, longest, rate, report):
    """Trains with Adam; `report(line)` after every twentieth part of the steps."""
    optimizer = keras.optimizers.Adam(
        keras.optimizers.schedules.CosineDecay(rate, steps), global_clipnorm=0.5
    )
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    jit = keras.backend.backend() == "jax"
    model.compile(optimizer, loss, jit_compile=jit)

    class Report(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            report(f"  {(epoch + 1) * (steps // 20)} steps, loss {logs['loss']:.4f}")

    batches = Batches(steps // 20, longest, SEED)
    model.fit(batches, epochs=20, shuffle=False, verbose=0, callbacks=[Report()])


def enlarged(model):
    """The same machine with a memory of the paper's size."""
    larger = create("NTM")
    larger.set_weights(model.get_weights())
    return larger


def wrong_bits(model, length, number=64):
    """Wrong bits per sequence, over sequences of one length."""
    generator = np.random.default_rng(length)
    inputs, targets, _ = sequences(generator, [length] * number, length)
    said = ops.convert_to_numpy(model(inputs)) > 0
    answer = slice(length + 1, None)
    return (said[:, answer] != targets[:, answer]).sum() / number


def plot_heads(model, length, file):
    """A picture of where the writing and the reading head stood at each step."""
    inputs = sequences(np.random.default_rng(0), [length], length)[0]
    (layer,) = (one for one in model.layers if isinstance(one, keras.layers.RNN))
    cell = layer.cell
    states = cell.get_initial_state(batch_size=1)
    found = []
    for step in range(inputs.shape[1]):
        _, states = cell(inputs[:, step], states)
        weights = ops.convert_to_numpy(states[-2]).reshape(2, cell.slots)
        found.append(weights)
    reads, writes = np.moveaxis(np.array(found), 1, 0)
    both = np.concatenate([writes[:length], reads[length + 1 :]])
    used = both.max(axis=0) > 0.05
    names = [f"write {i + 1}" for i in range(length)]
    names += [f"read {i + 1}" for i in range(length)]
    places = [str(i) for i in np.flatnonzero(used)]
    ax = visualization.plot_alignment(both[:, used], places, names, title="slots")
    visualization.save_plot(ax, file)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=3_000)
    parser.add_argument("--slots", type=int, default=32, help="of the memory in training")
    parser.add_argument("--longest", type=int, default=LONGEST)
    parser.add_argument("--rate", type=float, default=1.5e-3)
    parser.add_argument("--models", nargs="+", default=["NTM", "LSTM"])
    parser.add_argument("--start", metavar="FILE", help="go on with a machine kept before")
    parser.add_argument("--save", metavar="FILE", help="keep the trained NTM")
    parser.add_argument("--plot", metavar="FILE", help="draw where its heads stood")
    options = parser.parse_args(arguments)
    for kind in options.models:
        keras.utils.set_random_seed(SEED)
        model, start = create(kind, options.slots), time.monotonic()
        if kind == "NTM" and options.start:
            model.set_weights(keras.models.load_model(options.start).get_weights())
        print(f"{kind}, {model.count_params():,} weights", flush=True)
        fit(
            model,
            options.steps,
            options.longest,
            options.rate,
            lambda line: print(line, flush=True),
        )
        print(f"  {time.monotonic() - start:.0f} s; wrong bits per sequence:")
        if kind == "NTM":
            model = enlarged(model)
        lengths = (options.longest, *(n for n in TESTED if n != options.longest))
        for length in sorted(lengths):
            print(f"  length {length:3}: {wrong_bits(model, length):.2f}", flush=True)
        if kind == "NTM" and options.save:
            model.save(options.save)
        if kind == "NTM" and options.plot:
            plot_heads(model, options.longest, options.plot)


if __name__ == "__main__":
    main()
