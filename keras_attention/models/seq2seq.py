"""Encoder-decoder with attention: one sequence of tokens to another."""

from collections.abc import Callable

import keras
from keras import ops

from keras_attention import cells, text
from keras_attention.config import Configurable
from keras_attention.decoder import AttentionDecoder
from keras_attention.generation import scheduled_sampling
from keras_attention.models.searcher import Generating, Searchers
from keras_attention.models.signs import END, END_ID, START, add_signs, strip_signs
from keras_attention.sequence_losses import (
    SequenceAccuracy,
    SequenceCrossentropy,
    TokenAccuracy,
)
from keras_attention.state_bridge import StateBridge

SPLITS: dict[str, Callable[[str], list[str]]] = {
    "characters": list,
    "words": str.split,
    "text": text.tokenize,
    "signs": text.split_signs,
}


@keras.saving.register_keras_serializable("keras_attention")
class Seq2Seq(Generating, Configurable, keras.Model):
    """Translates: `P(target | source)`, with attention to the source at every step.

    A bidirectional GRU encodes the source, `StateBridge` turns its last states into the
    decoder's first, and a dense layer turns what the decoder puts out into logits.

    Args:
        source_vocabulary: distinct tokens. Both vocabularies are kept in the saved file,
            so that a loaded model takes texts.
        target_vocabulary: distinct tokens.
        decoder: an `AttentionDecoder`; by default a GRU cell with additive attention.
        embedding_dim: depth of the tokens' vectors.
        encoder_units: units of each GRU of the encoder, in each direction.
        encoder_layers: how many of them are stacked.
        dropout: share of the features that are dropped in training: embeddings, and what
            goes from layer to layer.
        source_split: how a source text becomes tokens: `"characters"`, `"words"` (at white
            space), `"text"` (`keras_attention.text.tokenize`) or `"signs"`
            (`keras_attention.text.split_signs`).
        target_split: the same for targets.
        seed: integer for the dropout and for what is drawn.
        sampling_rate: share of the target tokens that are replaced in training by what the
            model itself draws there, as when it generates (scheduled sampling). Then only
            the encoder drops. The rate starts here and is `model.sampling`, a variable:
            a callback may let it grow.
        **kwargs: `name`, `dtype` and so on, as in every Keras model.

    Call arguments:
        inputs: pair of integers `(B, Ts)`, the source, and `(B, Tt)`, the target behind
            its start sign: what `encode_pairs` returns first. 0 is padding.
        return_attention_scores: whether to return the weights too.
        training: whether to drop.

    Returns:
        Logits `(B, Tt, V)`, with `return_attention_scores` the pair of them and the
        weights `(B, Tt, Ts)`.

    Raises:
        ValueError: for an unknown split, a vocabulary with a word twice, or a sampling
            rate with a cell that drops.

    Example:

    >>> from keras_attention.models import Seq2Seq
    >>> model = Seq2Seq("abc", "abc", source_split="characters",
    ...                 target_split="characters", embedding_dim=8, encoder_units=8)
    >>> model.compile_for_training("adam")
    >>> pairs = model.encode_pairs(["abc", "ca"], ["cba", "ac"])
    >>> history = model.fit(*pairs, verbose=0)
    >>> found = model.generate(model.encode_sources(["abc", "ca"]), max_length=5)
    >>> found["tokens"].shape, found["alignments"].shape
    ((2, 1, 5), (2, 1, 5, 3))

    Reference: Bahdanau et al., 2015 (arXiv:1409.0473); Luong et al., 2015
    (arXiv:1508.04025); scheduled sampling: Bengio et al., 2015 (arXiv:1506.03099).
    """

    def __init__(
        self,
        source_vocabulary,
        target_vocabulary,
        decoder=None,
        embedding_dim=128,
        encoder_units=128,
        encoder_layers=1,
        dropout=0.0,
        source_split="words",
        target_split="words",
        seed=None,
        sampling_rate=0.0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        for split in (source_split, target_split):
            if split not in SPLITS:
                raise ValueError(f"Expected a split of {list(SPLITS)}. Received: {split!r}")
        self.source_vocabulary = text.check_vocabulary(source_vocabulary)
        self.target_vocabulary = text.check_vocabulary(target_vocabulary, (START, END))
        self.embedding_dim = embedding_dim
        self.encoder_units = encoder_units
        self.encoder_layers = encoder_layers
        self.dropout = dropout
        self.source_split = source_split
        self.target_split = target_split
        self.seed = seed
        self.sampling_rate = sampling_rate

        policy = self.dtype_policy
        if isinstance(decoder, dict):
            decoder = keras.saving.deserialize_keras_object(decoder)
        if decoder is None:
            cell = keras.layers.GRUCell(encoder_units, dtype=policy)
            decoder = AttentionDecoder(cell, "additive", dtype=policy)
        self.decoder = decoder
        self.source_embedding = self._embedding(self.source_vocabulary)
        self.target_embedding = self._embedding([START, END, *self.target_vocabulary])
        self.encoders = [self._encoder() for _ in range(encoder_layers)]
        self.bridge = StateBridge(cells.state_widths(decoder.cell), dtype=policy)
        self.drop = keras.layers.Dropout(dropout, seed=seed, dtype=policy)
        rows = len(self.target_vocabulary) + END_ID + 1
        self.classifier = keras.layers.Dense(rows, dtype=policy)
        self._searchers = Searchers()
        if sampling_rate:
            cells.require_no_dropout(decoder.cell, "sampling_rate")
            self.seed_generator = keras.random.SeedGenerator(seed)

    def build(self, input_shape=None):
        self.source_embedding.build((None, None))
        self.target_embedding.build((None, None))
        width = self.embedding_dim
        for encoder in self.encoders:
            encoder.build((None, None, width))
            width = 2 * self.encoder_units
        self.bridge.build([(None, self.encoder_units)] * 2)
        vectors, memory = (None, None, self.embedding_dim), (None, None, width)
        if not self.decoder.built:
            self.decoder.build(vectors, memory)
        self.classifier.build(self.decoder.compute_output_shape(vectors, memory))
        if self.sampling_rate:
            self.sampling = self.add_weight(
                name="sampling",
                shape=(),
                initializer=keras.initializers.Constant(self.sampling_rate),
                trainable=False,
            )

    def call(self, inputs, *, return_attention_scores=False, training=None):
        source, target = inputs
        memory, mask, states = self.encode(source, training=training)
        if training and self.sampling_rate and not return_attention_scores:
            return self._partly_on_its_own(target, memory, mask, states)
        vectors = self.drop(self.target_embedding(target), training=training)
        output, weights = self.decoder(
            vectors,
            memory,
            initial_state=states,
            inputs_mask=ops.not_equal(target, text.PADDING),
            memory_mask=mask,
            return_attention_scores=True,
            training=training,
        )
        logits = self.classifier(self.drop(output, training=training))
        return (logits, weights) if return_attention_scores else logits

    def _partly_on_its_own(self, target, memory, mask, states):
        return scheduled_sampling(
            self.step,
            self.decoder.complete_states(states, ops.shape(target)[0]),
            target,
            self.classifier.units,
            rate=self.sampling,
            context=self.decoder.prepare_memory(memory, mask),
            seed=self.seed_generator,
        )

    def encode(self, source, training=None):
        """Memory `(B, Ts, 2 * encoder_units)`, its mask and the decoder's first states."""
        mask = ops.not_equal(source, text.PADDING)
        memory, states = self.source_embedding(source), []
        for encoder in self.encoders:
            memory = self.drop(memory, training=training)
            memory, *states = encoder(memory, mask=mask, training=training)
        return self.drop(memory, training=training), mask, self.bridge(states)

    @property
    def source_spec(self):
        """Sources as an exported search takes them."""
        return keras.InputSpec(shape=(None, None), dtype="int32", name="source")

    def step(self, tokens, states, context):
        """One step for the searches of `keras_attention.generation`."""
        vectors = self.target_embedding(tokens)
        output, weights, states = self.decoder.step(vectors, states, context)
        return self.classifier(output), weights, states

    def compile_for_training(self, optimizer, label_smoothing=0.0, **kwargs):
        """`compile` with a loss and accuracies in which padding does not count."""
        self.compile(
            optimizer,
            SequenceCrossentropy(label_smoothing=label_smoothing),
            metrics=[TokenAccuracy(), SequenceAccuracy()],
            **kwargs,
        )

    def encode_sources(self, texts):
        """Integers `(B, Ts)` for a list of source texts."""
        split = SPLITS[self.source_split]
        return text.encode([split(t) for t in texts], self.source_vocabulary)

    def encode_pairs(self, sources, targets):
        """What `fit` takes: `((source, target with start sign), target with end sign)`."""
        if len(sources) != len(targets):
            raise ValueError(
                f"Expected a target for each source. Received: {len(sources)} sources and "
                f"{len(targets)} targets"
            )
        split = SPLITS[self.target_split]
        before, after = add_signs([split(t) for t in targets], self.target_vocabulary)
        return (self.encode_sources(sources), before), after

    def decode_targets(self, tokens):
        """Texts for integers `(B, T)`, each up to its end sign."""
        between = "" if self.target_split == "characters" else " "
        return strip_signs(tokens, self.target_vocabulary, between)

    def translate(self, texts, beam_width=1, max_length=64, **options):
        """Target texts for a list of source texts."""
        if isinstance(texts, str):
            raise ValueError(f"Expected a list of texts. Received: {texts!r}")
        if len(texts) == 0:
            return []
        found = self.generate(self.encode_sources(texts), beam_width, max_length, **options)
        return self.decode_targets(found["tokens"][:, 0])

    def _embedding(self, vocabulary):
        rows = len(vocabulary) + text.FIRST_WORD
        return keras.layers.Embedding(rows, self.embedding_dim, dtype=self.dtype_policy)

    def _encoder(self):
        # cuDNN's kernel refuses rows that are all padding.
        gru = keras.layers.GRU(
            self.encoder_units,
            return_sequences=True,
            return_state=True,
            use_cudnn=False,
            dtype=self.dtype_policy,
        )
        return cells.bidirectional(gru, dtype=self.dtype_policy)
