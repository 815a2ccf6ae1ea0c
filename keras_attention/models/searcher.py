"""A search as a model of its own: from source tokens to what was found."""

import keras
from keras import ops

from keras_attention.config import check_positive_integer
from keras_attention.generation import beam_search, greedy_search, sample
from keras_attention.models.signs import END_ID, START_ID
from keras_attention.text import PADDING


class _Searcher(keras.Model):
    """Integers `(B, Ts)` to a dict with the fields of `keras_attention.Sequences`.

    Args:
        model: a `Generating` model, with `encode`, `decoder`, `step` and `source_spec`.
        start_token, end_token: the signs around a target.
        beam_width: 1 for greedy search or sampling.
        max_length: length of the longest target, end sign included.
        sampling: whether to draw tokens.
        seed: integer for what is drawn.
        **options: more arguments of the search.
    """

    def __init__(
        self,
        model,
        start_token,
        end_token,
        beam_width,
        max_length,
        sampling=False,
        seed=None,
        **options,
    ):
        super().__init__(name="searcher")
        self.model = model
        self.start_token = start_token
        self.end_token = end_token
        self.beam_width = beam_width
        self.max_length = max_length
        self.sampling = sampling
        self.options = options
        if sampling:
            self.seed = seed
            # A variable, so that an exported search draws anew at each call.
            self.seed_generator = keras.random.SeedGenerator(seed)

    def build(self, input_shape):
        if not self.model.built:
            self.model.build()

    def call(self, source):
        model = self.model
        memory, mask, states = model.encode(source)
        decoder = model.decoder
        batch = ops.shape(source)[0]
        arguments = dict(
            step=self.step,
            states=decoder.complete_states(states, batch),
            start_tokens=ops.full((batch,), self.start_token, "int32"),
            end_token=self.end_token,
            max_length=self.max_length,
            context=decoder.prepare_memory(memory, mask),
            **self.options,
        )
        if self.beam_width > 1:
            return beam_search(width=self.beam_width, **arguments)._asdict()
        if self.sampling:
            found = sample(seed=self.seed_generator, **arguments)
        else:
            found = greedy_search(**arguments)
        return {name: ops.expand_dims(x, 1) for name, x in found._asdict().items()}

    def step(self, tokens, states, context):
        """The model's, without signs that say nothing: a target has them nowhere."""
        logits, alignments, states = self.model.step(tokens, states, context)
        numbers = ops.arange(logits.shape[-1])
        silent = ops.logical_or(numbers == PADDING, numbers == self.start_token)
        return ops.where(silent, -float("inf"), logits), alignments, states

    def start_anew(self):
        """With a seed, draws the same again from here on."""
        if self.sampling and self.seed is not None:
            fresh = keras.random.SeedGenerator(self.seed)
            self.seed_generator.state.assign(fresh.state)

    def export(self, filepath, format="tf_saved_model", verbose=True, **kwargs):
        """As every Keras model's; takes any number of sources of any length."""
        if not self.built:
            self.build(None)
        signature = kwargs.pop("input_signature", [self.model.source_spec])
        if format != "tf_saved_model" or keras.backend.backend() != "tensorflow":
            options = dict(format=format, verbose=verbose, input_signature=signature)
            super().export(filepath, **options, **kwargs)
            return
        # Keras would trace the model in this one too, whose inputs it has not seen.
        archive = keras.export.ExportArchive()
        archive.add_endpoint("serve", lambda source: self(source), signature)
        archive.write_out(filepath, verbose=verbose)


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
    decoder's first states, a `decoder`, a `step`, a `source_spec` (the `keras.InputSpec`
    of sources), and `_searchers`.
    """

    _searchers: Searchers

    def searcher(self, beam_width=1, max_length=64, sampling=False, **options):
        """A model from sources to `keras_attention.Sequences`.

        It predicts in one graph, and on TensorFlow `searcher().export(path)` writes a
        SavedModel that works where neither this package nor Keras is installed.

        Args:
            beam_width: 1 for greedy search or sampling.
            max_length: length of the longest target, end sign included.
            sampling: whether to draw tokens, as `keras_attention.sample` does.
            **options: more arguments of `beam_search`, `greedy_search` or `sample`.

        Raises:
            ValueError: for a beam that samples.
        """
        check_positive_integer("beam_width", beam_width)
        if sampling and beam_width > 1:
            raise ValueError(
                "Expected beam_width=1 for sampling. Received: "
                f"beam_width={beam_width}, sampling={sampling}"
            )
        return self._searchers.get(
            self,
            start_token=START_ID,
            end_token=END_ID,
            beam_width=beam_width,
            max_length=max_length,
            sampling=sampling,
            **options,
        )

    def generate(self, source, beam_width=1, max_length=64, batch_size=64, **options):
        """`Sequences` in NumPy, with the axis of beams also for one beam.

        Args:
            source: what `encode` takes, e.g. integers `(B, Ts)`.
            beam_width: 1 for greedy search or sampling.
            max_length: length of the longest target, end sign included.
            batch_size: how many are searched for at a time.
            **options: `sampling`, and more arguments of `beam_search`, `greedy_search` or
                `sample`. With `seed=` each call draws the same.
        """
        searcher = self.searcher(beam_width, max_length, **options)
        searcher.start_anew()
        return searcher.predict(source, batch_size=batch_size, verbose=0)
