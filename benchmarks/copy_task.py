"""The copy task: a neural Turing machine and an LSTM on sequences longer than trained on.

    python benchmarks/copy_task.py [--models NAME ...] [--steps N] [--longest N]

Both see the same 1 to 20 random vectors of 8 bits and have to say them again, and are then
tested on longer ones. "NTM continues to copy as the length increases, while LSTM rapidly
degrades beyond length 20" (Graves et al., 2014, arXiv:1410.5401, section 4.1). Printed are
wrong bits per sequence. The machine is that of `recipes.copying`, after each of its stages,
but always with the last one's memory.
"""

import argparse
import time

import keras

from keras_attention.recipes import copying

LSTM_UNITS = 256


def lstm():
    """The LSTM beside the machine."""
    inputs = keras.Input((None, copying.BITS + 1))
    hidden = keras.layers.LSTM(LSTM_UNITS, return_sequences=True)(inputs)
    return keras.Model(inputs, keras.layers.Dense(copying.BITS)(hidden))


def stages_of(kind):
    """Yields `(model, steps, rate)` to train next; the NTM takes its last weights along."""
    model = None if kind == "NTM" else lstm()
    for slots, steps, rate in copying.STAGES:
        if kind == "NTM":
            model = copying.with_slots(slots, model)
        yield model, steps, rate


def report(model, lengths):
    """Prints the wrong bits per sequence of each length."""
    for length in sorted(lengths):
        print(f"  length {length:3}: {copying.wrong_bits(model, length):.2f}", flush=True)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", nargs="+", default=["NTM", "LSTM"])
    parser.add_argument("--steps", type=int, help="fewer batches for each stage")
    parser.add_argument("--longest", type=int, default=copying.LONGEST)
    options = parser.parse_args(arguments)
    for kind in options.models:
        keras.utils.set_random_seed(copying.SEED)
        start = time.monotonic()
        for model, steps, rate in stages_of(kind):
            steps = min(steps, options.steps or steps)
            copying.fit(model, steps, options.longest, rate)
            seconds = time.monotonic() - start
            print(f"{kind}, {model.count_params():,} weights, after {seconds:.0f} s:")
            tested = model
            if kind == "NTM":
                tested = copying.with_slots(copying.STAGES[-1][0], model)
            report(tested, {*copying.TESTED, options.longest})


if __name__ == "__main__":
    main()
