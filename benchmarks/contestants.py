"""What `run.py` measures: one contestant, in a process of its own.

    python benchmarks/contestants.py CONTESTANT CASE

Answers in JSON, one object a line: the bytes of the first call and of a later one, or
`{"skip": why}`; then, for each line that it reads, the time of one call more.
"""

import ctypes
import gc
import json
import os
import re
import resource
import statistics
import sys
import time
from typing import NamedTuple

import decoder_contestants
import numpy as np
import torch_decoders

# Seconds that a measurement of time takes at least.
LEAST = 0.1


class Case(NamedTuple):
    """`additive-b4-t512-d128-forward`; `h8x16` in place of `d128` for 8 heads of 16.

    `decoder`, `greedy` and `beam`: see `decoder_contestants.py`.
    """

    kind: str
    batch: int
    length: int
    heads: int
    depth: int
    forward: bool


def parse(name):
    """The `Case` of a name."""
    pattern = r"(\w+)-b(\d+)-t(\d+)-(?:d|h(\d+)x)(\d+)(-forward)?"
    found = re.fullmatch(pattern, name)
    if not found:
        raise ValueError(f"Expected a case such as dot-b4-t2048-d128. Received: {name}")
    kind, *numbers, forward = found.groups()
    batch, length, heads, depth = (int(n or 1) for n in numbers)
    return Case(kind, batch, length, heads, depth, bool(forward))


def arrays(case):
    """Query, key and value; target and memory of a decoder; or the one input."""
    rng = np.random.default_rng(0)
    heads = (case.heads,) if case.kind == "heads" else ()
    width = case.depth * (case.heads if case.kind == "mha" else 1)
    shape = (case.batch, *heads, case.length, width)
    count = {"pooling": 1, "greedy": 1, "beam": 1, "decoder": 2}.get(case.kind, 3)
    return [0.3 * rng.normal(size=shape).astype("float32") for _ in range(count)]


def heads_around(case, attention):
    """A layer like `keras.layers.MultiHeadAttention` around `(B, H, T, D)` attention."""
    import keras
    from keras import ops

    width = case.heads * case.depth
    into = [keras.layers.Dense(width) for _ in range(3)]
    out = keras.layers.Dense(width)
    shape = (case.batch, case.length, case.heads, case.depth)

    def call(*inputs):
        parts = [layer(x) for layer, x in zip(into, inputs, strict=True)]
        parts = [ops.swapaxes(ops.reshape(x, shape), 1, 2) for x in parts]
        output = ops.swapaxes(attention(*parts), 1, 2)
        return out(ops.reshape(output, (case.batch, case.length, width)))

    return call, [*into, out]


def ours(case):
    from keras_attention import Attention, AttentionPooling, attend

    if case.kind in ("decoder", *decoder_contestants.SEARCHES):
        return decoder_contestants.ours(case)
    if case.kind == "pooling":
        layer = AttentionPooling(case.depth)
        return layer, [layer]
    if case.kind in ("heads", "mha"):

        def heads(query, key, value):
            return attend(query, value, key, return_attention_scores=False)[0]

        return heads_around(case, heads) if case.kind == "mha" else (heads, [])
    layer = Attention(case.kind)
    return (lambda query, key, value: layer(query, value, key)), [layer]


def our_narrow_pooling(case):
    from keras_attention import AttentionPooling

    layer = AttentionPooling(1)
    return layer, [layer]


def keras_layer(name):
    def make(case):
        import keras

        layer = getattr(keras.layers, name)()
        return (lambda query, key, value: layer([query, value, key])), [layer]

    return make


def keras_heads(case):
    import keras

    layer = keras.layers.MultiHeadAttention(case.heads, case.depth)
    return (lambda query, key, value: layer(query, value, key)), [layer]


def keras_function(case):
    from keras import ops

    def attention(*inputs):
        parts = [ops.swapaxes(x, 1, 2) for x in inputs]
        return ops.swapaxes(ops.nn.dot_product_attention(*parts), 1, 2)

    return attention, []


def usual_pooling(case):
    """What tutorials write: `tanh(x W + b)`, one score a step, softmax, weighted sum."""
    import keras
    from keras import ops

    class Pooling(keras.layers.Layer):
        def build(self, shape):
            self.kernel = self.add_weight(shape=(shape[-1], 1))
            self.bias = self.add_weight(shape=(shape[1], 1))

        def call(self, x):
            scores = ops.tanh(ops.dot(x, self.kernel) + self.bias)
            return ops.sum(x * ops.softmax(scores, axis=1), axis=1)

    layer = Pooling()
    return layer, [layer]


def usual_hidden_pooling(case):
    """The same formula with a hidden layer as wide as ours: `v . tanh(W x + b)`."""
    import keras
    from keras import ops

    hidden = keras.layers.Dense(case.depth, activation="tanh")
    score = keras.layers.Dense(1, use_bias=False)

    def call(x):
        return ops.sum(x * ops.softmax(score(hidden(x)), axis=1), axis=1)

    return call, [hidden, score]


def torch_sdpa(case):
    import torch

    scale = 1.0 if case.kind == "dot" else None
    attention = torch.nn.functional.scaled_dot_product_attention
    return lambda query, key, value: attention(query, key, value, scale=scale)


def torch_plain(case):
    import torch

    if case.kind == "additive":
        vector = torch.ones(case.depth, requires_grad=True)
        layers = [torch.nn.Linear(case.depth, case.depth, bias=False) for _ in range(2)]

        def scores(query, key):
            query, key = layers[0](query), layers[1](key)
            return torch.tanh(query.unsqueeze(-2) + key.unsqueeze(-3)) @ vector
    else:
        scale = 1.0 if case.kind == "dot" else case.depth**-0.5

        def scores(query, key):
            return scale * query @ key.transpose(-1, -2)

    return lambda query, key, value: torch.softmax(scores(query, key), -1) @ value


# The kinds of cases that each takes part in, and what makes its function.
KERAS = {
    "ours": ("additive dot heads mha pooling decoder greedy beam", ours),
    "keras.Attention": ("dot", keras_layer("Attention")),
    "keras.AdditiveAttention": ("additive", keras_layer("AdditiveAttention")),
    "keras.MultiHeadAttention": ("mha", keras_heads),
    "keras.ops.dot_product_attention": ("heads", keras_function),
    "ours.narrow": ("pooling", our_narrow_pooling),
    "usual.pooling": ("pooling", usual_pooling),
    "usual.hidden_pooling": ("pooling", usual_hidden_pooling),
    **decoder_contestants.KERAS,
}
TORCH = {
    "torch.sdpa": ("dot heads", torch_sdpa),
    "torch.plain": ("additive dot heads", torch_plain),
    **torch_decoders.TORCH,
}


# Whom a peer is compared with, where it is not "ours": the same formula.
OPPONENTS = {"usual.pooling": "ours.narrow"}


def takes_part(contestant, case):
    return case.kind in (KERAS | TORCH)[contestant][0].split()


def prepare(contestant, case):
    """A function without arguments that computes the case once."""
    if contestant in TORCH:
        return _prepare_torch(TORCH[contestant][1](case), case)
    function, layers = KERAS[contestant][1](case)
    return _prepare_keras(function, layers, case)


def _prepare_keras(function, layers, case):
    import tensorflow as tf

    inputs = [tf.constant(x) for x in arrays(case)]
    ready = ("heads", "mha", *decoder_contestants.SEARCHES)
    if case.kind not in ready:  # makes the weights
        function(*(x[:1] if case.kind == "pooling" else x[:1, :2] for x in inputs))
    weights = [w.value for layer in layers for w in layer.trainable_weights]

    @tf.function(autograph=False)
    def run(*inputs):
        if case.forward:
            return tf.nest.flatten(function(*inputs))
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            loss = tf.reduce_sum(tf.square(function(*inputs)))
        return tape.gradient(loss, [*inputs, *weights])

    return lambda: run(*inputs)


def _prepare_torch(function, case):
    import torch

    torch.set_num_threads(os.cpu_count() or 1)
    inputs = [torch.tensor(x, requires_grad=not case.forward) for x in arrays(case)]

    def run():
        if case.forward:
            with torch.no_grad():
                return function(*inputs)
        function(*inputs).square().sum().backward()
        gradients = [x.grad for x in inputs]
        for x in inputs:  # what one call leaves is not there before the next
            x.grad = None
        return gradients

    return run


def timed(run):
    """Wall and processor seconds of a call: the mean of as many as take `LEAST`."""
    cpu, start, calls = _processor(), time.perf_counter(), 0
    while time.perf_counter() - start < LEAST:
        run()
        calls += 1
    wall = time.perf_counter() - start
    return {"wall": wall / calls, "cpu": (_processor() - cpu) / calls}


def _processor():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def extra_memory(run):
    """Bytes that a call takes at its peak, beyond what the process held before."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the peak starts anew
    before = _status("VmRSS")
    run()
    return _status("VmHWM") - before


def later_memory(contestant, case):
    """`extra_memory` of a call that others came before, in a process of its own.

    TensorFlow keeps what it freed for its next call, whose own memory then does not show:
    here it gives all back to the system. That costs time, so time is not taken here.
    """
    receiving, sending = os.pipe()
    child = os.fork()
    if child:
        os.close(sending)
        os.waitpid(child, 0)
        with os.fdopen(receiving) as file:
            return int(file.read() or 0)
    os.environ["TF_ONEDNN_USE_SYSTEM_ALLOCATOR"] = "true"
    run = prepare(contestant, case)
    for _ in range(2):
        run()
    taken = statistics.median(extra_memory(run) for _ in range(3))
    os.write(sending, str(taken).encode())
    os._exit(0)


def _status(field):
    with open("/proc/self/status") as file:
        lines = [line for line in file if line.startswith(field)]
    return 1024 * int(lines[0].split()[1])


def serve(contestant, case, commands, answer):
    """Obeys commands until there are no more."""
    later = later_memory(contestant, case)
    if not later:
        answer({"skip": "its process ended"})
        return
    run = prepare(contestant, case)
    answer({"first": extra_memory(run), "bytes": later})
    for _ in commands:
        answer(timed(run))


def main(contestant, name):
    # Only answers go to the real standard output.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(content):
        print(json.dumps(content), file=answers, flush=True)

    try:
        __import__("torch" if contestant in TORCH else "keras_attention")
    except ImportError as error:
        answer({"skip": str(error)})
        return
    serve(contestant, parse(name), sys.stdin, answer)


if __name__ == "__main__":
    main(*sys.argv[1:])
