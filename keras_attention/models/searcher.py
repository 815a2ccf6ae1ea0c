"""A search as a model of its own: from source tokens to what was found."""

import keras
from keras import ops

from keras_attention.generation import beam_search, greedy_search


class _Searcher(keras.Model):
    """Integers `(B, Ts)` to a dict with the fields of `keras_attention.Sequences`.

    Args:
        model: a `Seq2Seq`, or what has its `encode`, `decoder` and `step`.
        start_token, end_token: the signs around a target.
        beam_width: 1 for greedy search.
        max_length: length of the longest target, end sign included.
        **options: more arguments of the search.
    """

    def __init__(self, model, start_token, end_token, beam_width, max_length, **options):
        super().__init__(name="searcher")
        self.model = model
        self.start_token = start_token
        self.end_token = end_token
        self.beam_width = beam_width
        self.max_length = max_length
        self.options = options

    def build(self, input_shape):
        if not self.model.built:
            self.model.build()

    def call(self, source):
        model = self.model
        memory, mask, states = model.encode(source)
        decoder = model.decoder
        batch = ops.shape(source)[0]
        arguments = dict(
            step=model.step,
            states=decoder.complete_states(states, batch),
            start_tokens=ops.full((batch,), self.start_token, "int32"),
            end_token=self.end_token,
            max_length=self.max_length,
            context=decoder.prepare_memory(memory, mask),
            **self.options,
        )
        if self.beam_width > 1:
            return beam_search(width=self.beam_width, **arguments)._asdict()
        found = greedy_search(**arguments)._asdict()
        return {name: ops.expand_dims(x, 1) for name, x in found.items()}


class Searchers:
    """Searchers made before, so that each compiles once.

    No layer, so that a model may keep it: a searcher holds its model.
    """

    def __init__(self):
        self._made = {}

    def get(self, model, **options):
        key = tuple(sorted(options.items()))
        if key not in self._made:
            self._made[key] = _Searcher(model, **options)
        return self._made[key]
