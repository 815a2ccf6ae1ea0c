"""A search as a model of its own: from source tokens to what was found."""

import keras
from keras import ops

from keras_attention.config import check_positive_integer
from keras_attention.generation import beam_search, greedy_search
from keras_attention.models.signs import END_ID, START_ID


class _Searcher(keras.Model):
    """Integers `(B, Ts)` to a dict with the fields of `keras_attention.Sequences`.

    Args:
        model: a `Generating` model, with `encode`, `decoder` and `step`.
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


class Generating:
    """What a model of sources and targets inherits from to search for targets.

    The model has `encode(source)`, which returns a memory, its mask (or `None`) and the
    decoder's first states, a `decoder`, a `step`, and `_searchers`.
    """

    _searchers: Searchers

    def searcher(self, beam_width=1, max_length=64, **options):
        """A model from sources to `keras_attention.Sequences`.

        It predicts in one graph, and `searcher().export(path)` writes a SavedModel that
        works where this package is not installed.

        Args:
            beam_width: 1 for greedy search.
            max_length: length of the longest target, end sign included.
            **options: more arguments of `beam_search` or `greedy_search`.
        """
        check_positive_integer("beam_width", beam_width)
        return self._searchers.get(
            self,
            start_token=START_ID,
            end_token=END_ID,
            beam_width=beam_width,
            max_length=max_length,
            **options,
        )

    def generate(self, source, beam_width=1, max_length=64, batch_size=64, **options):
        """`Sequences` in NumPy, with the axis of beams also for one beam.

        Args:
            source: what `encode` takes, e.g. integers `(B, Ts)`.
            beam_width: 1 for greedy search.
            max_length: length of the longest target, end sign included.
            batch_size: how many are searched for at a time.
            **options: more arguments of `beam_search` or `greedy_search`.
        """
        searcher = self.searcher(beam_width, max_length, **options)
        return searcher.predict(source, batch_size=batch_size, verbose=0)
