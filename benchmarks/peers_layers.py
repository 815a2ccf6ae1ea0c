"""The layers that benchmarks/peers.py compares, each called the way its own docs say.

Imports stand inside functions: a process has one peer only.
"""

import importlib
import importlib.metadata
from typing import ClassVar

import numpy as np

UNITS = 4


def softmax(scores):
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def additive_weights(query, key, query_kernel, key_kernel, v, bias=0.0):
    """Bahdanau's formula in NumPy."""
    hidden = (query @ query_kernel)[:, :, None] + (key @ key_kernel)[:, None] + bias
    return softmax(np.tanh(hidden) @ np.ravel(v))


class Peer:
    """What the checks need to know of a layer; here, one of Keras's own."""

    title = ""
    distribution = "keras"
    setup = "import keras"
    pools = False
    gives_weights = True
    additive = None
    additive_note = ""
    sparse = None
    beam_search = None
    leaves_out: ClassVar[dict[str, str]] = {}

    def keras(self):
        import keras

        return keras

    def package(self):
        return self.keras().layers

    def versions(self):
        version = importlib.metadata.version
        return {"peer": version(self.distribution), "keras": version("keras")}

    def make(self, weights=False):
        """A layer; `weights` where that is said to its constructor."""
        raise NotImplementedError

    def call(self, layer, x, mask=None, weights=False):
        """`[output]` or `[output, weights]` of a sequence that attends to itself."""
        raise NotImplementedError


def as_list(found):
    return list(found) if isinstance(found, (list, tuple)) else [found]


class Ours(Peer):
    title = "`keras_attention`"
    setup = "import keras, keras_attention"

    def versions(self):
        return super().versions() | {"peer": self.package().__version__}

    def package(self):
        return importlib.import_module("keras_attention")

    def make(self, weights=False):
        return self.package().Attention("additive", units=UNITS)

    def call(self, layer, x, mask=None, weights=False):
        masks = {} if mask is None else {"query_mask": mask, "value_mask": mask}
        return as_list(layer(x, x, return_attention_scores=weights, **masks))

    def additive(self, x):
        layer = self.make()
        _, found = self.call(layer, x, weights=True)
        return found, additive_weights(x, x, *layer.get_weights())

    def sparse(self, x):
        layer = self.package().Attention("dot", normalizer="sparsemax")
        return self.call(layer, x, weights=True)[1]

    def beam_search(self):
        """The path that greedy search misses: 0.6 * 0.4 against 0.4 * 0.9."""
        keras = self.keras()
        table = np.log(
            [[1e-9, 0.6, 0.4, 1e-9], [0.4, 0.3, 0.3, 1e-9], [0.9, 0.05, 0.05, 1e-9]]
        )

        def step(tokens, states, context):
            return keras.ops.take(table.astype("float32"), tokens % 3, axis=0), None, states

        start, search = np.array([3]), self.package().beam_search
        found = search(step, [], start, 0, max_length=2, width=2)
        return np.asarray(found.tokens)[0, 0].tolist() == [2, 0]


class KerasDot(Peer):
    title = "`keras.layers.Attention`"

    def make(self, weights=False):
        return self.keras().layers.Attention()

    def call(self, layer, x, mask=None, weights=False):
        masks = None if mask is None else [mask, mask]
        return as_list(layer([x, x], mask=masks, return_attention_scores=weights))


class KerasAdditive(KerasDot):
    title = "`keras.layers.AdditiveAttention`"
    additive_note = "its weights are one vector"

    def make(self, weights=False):
        return self.keras().layers.AdditiveAttention()


class KerasHeads(Peer):
    title = "`keras.layers.MultiHeadAttention`"

    def make(self, weights=False):
        return self.keras().layers.MultiHeadAttention(1, UNITS)

    def call(self, layer, x, mask=None, weights=False):
        masks = {} if mask is None else {"query_mask": mask, "value_mask": mask}
        return as_list(layer(x, x, return_attention_scores=weights, **masks))


class SelfAttention(Peer):
    title = "`keras-self-attention`"
    distribution = "keras-self-attention"
    setup = "from tensorflow import keras\nimport keras_self_attention"

    def keras(self):
        from tensorflow import keras

        return keras

    def package(self):
        return importlib.import_module("keras_self_attention")

    def make(self, weights=False):
        return self.package().SeqSelfAttention(UNITS, return_attention=weights)

    def call(self, layer, x, mask=None, weights=False):
        masks = {} if mask is None else {"mask": self.tensor(mask)}
        return as_list(layer(self.tensor(x), **masks))

    def tensor(self, x):
        import tensorflow as tf

        return tf.constant(x) if isinstance(x, np.ndarray) else x

    def additive(self, x):
        layer = self.make(weights=True)
        _, found = self.call(layer, x)
        query_kernel, key_kernel, bias, v, _ = layer.get_weights()
        return found, additive_weights(x, x, query_kernel, key_kernel, v, bias)


class Pooling(SelfAttention):
    title = "`attention`"
    distribution = "attention"
    setup = "from tensorflow import keras\nimport attention"
    pools = True
    gives_weights = False

    def package(self):
        return importlib.import_module("attention")

    def make(self, weights=False):
        return self.package().Attention(UNITS)

    def additive(self, x):
        layer = self.package().Attention(UNITS, score="bahdanau")
        found = self.call(layer, x)[0]
        kernels = (layer.bahdanau_w1, layer.bahdanau_w2, layer.bahdanau_v)
        query_kernel, key_kernel, v = (layer.get_weights()[0] for layer in kernels)
        last = x[:, -1:]
        context = additive_weights(last, x, query_kernel, key_kernel, v) @ x
        both = np.concatenate([context[:, 0], last[:, 0]], -1)
        return found, np.tanh(both @ layer.w_c.get_weights()[0])


class KerasAttention(Pooling):
    title = "`keras-attention`"
    distribution = "keras-attention"
    setup = "import keras\nimport keras_attention"
    additive = None  # type: ignore[assignment]  # has none

    def keras(self):
        import keras

        return keras

    def package(self):
        return importlib.import_module("keras_attention")

    def make(self, weights=False):
        return self.package().SelfAttention()


class Tfa(SelfAttention):
    title = "`tfa.seq2seq`"
    distribution = "tensorflow-addons"
    leaves_out: ClassVar = {
        "runs_in_model": "for decoders",
        "stack": "for decoders",
        "saving": "not checked",
        "memory": "one query a step",
    }

    def package(self):
        return importlib.import_module("tensorflow_addons").seq2seq

    def make(self, weights=False):
        return self.package().BahdanauAttention(UNITS)

    def call(self, layer, x, mask=None, weights=False):
        import tensorflow as tf

        x = self.tensor(x)
        lengths = None if mask is None else tf.reduce_sum(tf.cast(mask, "int32"), -1)
        layer.setup_memory(x, memory_sequence_length=lengths)
        empty = tf.zeros(x.shape[:2])
        steps = [layer([x[:, t], empty])[0] for t in range(x.shape[1])]
        found = tf.stack(steps, axis=1)
        return [found @ layer.values, found]

    def additive(self, x):
        layer = self.make()
        found = self.call(layer, x)[1]
        parts = (layer.query_layer, layer.memory_layer)
        kernels = (part.get_weights()[0] for part in parts)
        return found, additive_weights(x, x, *kernels, layer.attention_v.numpy())

    def sparse(self, x):
        layer = self.package().BahdanauAttention(UNITS, probability_fn="sparsemax")
        return self.call(layer, x)[1]

    def beam_search(self):
        import tensorflow as tf

        seq2seq, batch, width = self.package(), 2, 3
        memory = seq2seq.tile_batch(tf.random.normal((batch, 5, UNITS)), width)
        cell = seq2seq.AttentionWrapper(
            self.keras().layers.LSTMCell(UNITS), seq2seq.BahdanauAttention(UNITS, memory)
        )
        state = cell.get_initial_state(batch_size=batch * width, dtype=tf.float32)
        search = seq2seq.BeamSearchDecoder(
            cell, width, output_layer=self.keras().layers.Dense(7), maximum_iterations=4
        )
        table, start = tf.random.normal((7, UNITS)), tf.zeros(batch, tf.int32)
        found, _, _ = search(table, start_tokens=start, end_token=1, initial_state=state)
        return found.predicted_ids.shape[-1] == width


PEERS = {
    "ours": Ours,
    "keras.Attention": KerasDot,
    "keras.AdditiveAttention": KerasAdditive,
    "keras.MultiHeadAttention": KerasHeads,
    "tfa": Tfa,
    "keras-self-attention": SelfAttention,
    "attention": Pooling,
    "keras-attention": KerasAttention,
}
