"""Image captioning: each word looks at its part of the picture."""

import keras
import numpy as np
from keras import ops

from keras_attention import text
from keras_attention.attention import Attention
from keras_attention.config import Configurable
from keras_attention.decoder import AttentionDecoder
from keras_attention.hard_training import HardAttentionTraining
from keras_attention.models.gated_cell import DeepOutput, GatedContextCell
from keras_attention.models.searcher import Generating, Searchers
from keras_attention.models.signs import END, START, add_signs, strip_signs
from keras_attention.models.small_encoder import small_encoder
from keras_attention.normalizers import Normalizer
from keras_attention.scores import AdditiveScore
from keras_attention.sequence_losses import (
    SequenceAccuracy,
    SequenceCrossentropy,
    TokenAccuracy,
)
from keras_attention.state_bridge import StateBridge


@keras.saving.register_keras_serializable("keras_attention")
class Mean(Normalizer):
    """The same weight for every position: no attention, to measure attention against."""

    def normalize(self, scores, mask):
        ones = ops.ones_like(scores)
        ones = ones if mask is None else ops.where(mask, ones, 0.0)
        return ones / ops.maximum(ops.sum(ones, axis=-1, keepdims=True), 1.0)


@keras.saving.register_keras_serializable("keras_attention")
class ImageCaptioner(HardAttentionTraining, Generating, Configurable, keras.Model):
    """Says what is in a picture, with attention to one region or several at each word.

    A convolutional encoder turns the picture into a map of `H * W` regions with features
    `a_i`. An LSTM cell with attention writes the caption:

    * `h_0, c_0 = tanh(W [mean_i a_i])`;
    * `z_t = beta_t * attention(h_{t-1}, a)`, with a gate `beta_t = sigmoid(w . h_{t-1})`;
    * `h_t = LSTM([E y_{t-1}; z_t], h_{t-1})`;
    * `P(y_t) = softmax(L_o(E y_{t-1} + L_h h_t + L_z z_t))`.

    With a hard normalizer (`"reinforce"`, `"gumbel"`, `"straight_through"`) each word looks
    at one region, and `fit` trains it like every other model.

    Args:
        vocabulary: distinct words. They are kept in the saved file, so that a loaded model
            takes and gives captions.
        encoder: a `keras.Model` from pictures to `(B, H, W, C)` with a known `C`, such as
            one of `keras.applications` with `include_top=False` behind its own
            preprocessing; by default a small one, for which `image_shape` is needed.
        image_shape: shape of the pictures for the default encoder, `(height, width,
            channels)`; their numbers are 0 to 255.
        normalizer: of the attention, a name or a `Normalizer`.
        units: units of the LSTM cell.
        embedding_dim: depth of the words' vectors.
        attention_units: depth of the hidden layer of the attention.
        doubly_stochastic: factor of `mean_b sum_i (1 - sum_t w_ti)^2`, which is added to
            the loss in training so that every region is looked at. Hard choices get no
            derivative from it.
        dropout: share of the features that are dropped in training.
        seed: integer for the dropout.
        **kwargs: `name`, `dtype` and so on, as in every Keras model.

    Call arguments:
        inputs: pair of pictures `(B, height, width, channels)` and integers `(B, T)`, the
            caption behind its start sign: what `encode_pairs` returns first.
        return_attention_scores: whether to return the weights too.
        training: whether to drop and to draw.

    Returns:
        Logits `(B, T, V)`, with `return_attention_scores` the pair of them and the weights
        `(B, T, H * W)`.

    Raises:
        ValueError: without an encoder and an image shape, or for an encoder that does not
            give such a map.

    Example:

    >>> import numpy as np
    >>> from keras_attention.models import ImageCaptioner
    >>> model = ImageCaptioner(["a", "red", "square"], image_shape=(24, 36, 3), units=16)
    >>> model.compile_for_training("adam")
    >>> images = np.zeros((2, 24, 36, 3), "uint8")
    >>> pairs = model.encode_pairs(images, ["a red square", "a square"])
    >>> history = model.fit(*pairs, verbose=0)
    >>> found = model.generate(images, max_length=5)
    >>> found["tokens"].shape, found["alignments"].shape, model.grid(images.shape)
    ((2, 1, 5), (2, 1, 5, 6), (2, 3))

    Reference: Xu et al., 2015 (arXiv:1502.03044).
    """

    def __init__(
        self,
        vocabulary,
        encoder=None,
        image_shape=None,
        normalizer="softmax",
        units=256,
        embedding_dim=64,
        attention_units=128,
        doubly_stochastic=1.0,
        dropout=0.0,
        seed=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.vocabulary = text.check_vocabulary(vocabulary, (START, END))
        if isinstance(encoder, dict):
            encoder = keras.saving.deserialize_keras_object(encoder)
        self.image_shape = None if image_shape is None else tuple(image_shape)
        self.encoder = encoder or small_encoder(self.image_shape, self.dtype_policy)
        self.units = units
        self.embedding_dim = embedding_dim
        self.attention_units = attention_units
        self.doubly_stochastic = doubly_stochastic
        self.dropout = dropout
        self.seed = seed

        policy = self.dtype_policy
        depth = _map_depth(self.encoder)
        attention = Attention(
            AdditiveScore(attention_units, dtype=policy), normalizer, dtype=policy
        )
        self.normalizer = attention.normalizer
        cell = GatedContextCell(
            keras.layers.LSTMCell(units, dtype=policy), depth, dtype=policy
        )
        self.decoder = AttentionDecoder(cell, attention, dtype=policy)
        self.bridge = StateBridge([units, units], dtype=policy)
        rows = len(self.vocabulary) + text.FIRST_WORD + 2
        self.embedding = keras.layers.Embedding(rows, embedding_dim, dtype=policy)
        self.drop = keras.layers.Dropout(dropout, seed=seed, dtype=policy)
        self.classifier = DeepOutput(rows, dtype=policy)
        self._searchers = Searchers()

    def build(self, input_shape=None):
        depth = _map_depth(self.encoder)
        vectors, memory = (None, None, self.embedding_dim), (None, None, depth)
        self.embedding.build((None, None))
        self.bridge.build([(None, depth)])
        if not self.decoder.built:
            self.decoder.build(vectors, memory)
        output = self.decoder.compute_output_shape(vectors, memory)
        self.classifier.build(vectors, output)

    def call(self, inputs, *, return_attention_scores=False, training=None):
        images, words = inputs
        memory, _, states = self.encode(images, training=training)
        vectors = self.embedding(words)
        real = ops.not_equal(words, text.PADDING)
        output, weights = self.decoder(
            self.drop(vectors, training=training),
            memory,
            initial_state=states,
            inputs_mask=real,
            return_attention_scores=True,
            training=training,
        )
        if training and self.doubly_stochastic:
            seen = ops.sum(self.normalizer.as_used(weights), axis=1)
            unseen = ops.sum(ops.square(1 - ops.cast(seen, "float32")), axis=-1)
            self.add_loss(self.doubly_stochastic * ops.mean(unseen))
        logits = self.classifier(vectors, self.drop(output, training=training))
        return (logits, weights) if return_attention_scores else logits

    def encode(self, source, training=None):
        """Regions `(B, H * W, C)`, no mask, and the decoder's first states."""
        options = {} if training is None else {"training": training}
        features = self.encoder(source, **options)
        batch, _, _, depth = ops.shape(features)
        regions = ops.reshape(features, (batch, -1, depth))
        regions = self.drop(ops.cast(regions, self.compute_dtype), **options)
        return regions, None, self.bridge([ops.mean(regions, axis=1)])

    @property
    def source_spec(self):
        """Pictures as an exported search takes them."""
        shape = (None, *self.encoder.input_shape[1:])
        return keras.InputSpec(shape=shape, dtype="float32", name="source")

    def step(self, tokens, states, context):
        """One step for the searches of `keras_attention.generation`."""
        vectors = self.embedding(tokens)
        output, weights, states = self.decoder.step(vectors, states, context)
        return self.classifier(vectors, output), weights, states

    def grid(self, images_shape):
        """`(H, W)`: how many regions down and across pictures of a shape have."""
        shape = (None, *images_shape[1:])
        return tuple(self.encoder.compute_output_shape(shape)[1:3])

    def compile_for_training(self, optimizer, label_smoothing=0.0, **kwargs):
        """`compile` with a loss and accuracies in which padding does not count."""
        self.compile(
            optimizer,
            SequenceCrossentropy(label_smoothing=label_smoothing),
            metrics=[TokenAccuracy(), SequenceAccuracy()],
            **kwargs,
        )

    def encode_pairs(self, images, captions):
        """What `fit` takes: `((images, words behind a start sign), words with an end)`."""
        if len(images) != len(captions):
            raise ValueError(
                f"Expected a caption for each picture. Received: {len(images)} pictures "
                f"and {len(captions)} captions"
            )
        text.check_tokens(self.vocabulary)
        words = [text.tokenize(caption) for caption in captions]
        before, after = add_signs(words, self.vocabulary)
        return (images, before), after

    def caption(self, images, beam_width=1, max_length=24, **options):
        """Captions for pictures.

        Args:
            images: `(B, height, width, channels)`.
            beam_width: 1 for greedy search.
            max_length: number of words of the longest caption, end sign included.
            **options: more arguments of `generate`.

        Returns:
            A list of strings.
        """
        captions, _ = self.look(images, beam_width, max_length, **options)
        return captions

    def look(self, images, beam_width=1, max_length=24, **options):
        """Captions for pictures, and where each of their words looked.

        Args:
            images: `(B, height, width, channels)`.
            beam_width: 1 for greedy search.
            max_length: number of words of the longest caption, end sign included.
            **options: more arguments of `generate`.

        Returns:
            A list of strings, and a list of arrays `(words, H, W)`.
        """
        if len(images) == 0:
            return [], []
        found = self.generate(images, beam_width, max_length, **options)
        captions = strip_signs(found["tokens"][:, 0], self.vocabulary)
        weights = found["alignments"][:, 0]
        weights = weights.reshape(*weights.shape[:2], *self.grid(np.shape(images)))
        pairs = zip(captions, weights, strict=True)
        return captions, [w[: len(caption.split())] for caption, w in pairs]


def _map_depth(encoder):
    shape = getattr(encoder, "output_shape", None)
    if not isinstance(shape, tuple) or len(shape) != 4 or shape[-1] is None:
        raise ValueError(
            "Expected an `encoder` that is a keras.Model with an output (B, H, W, C) of "
            f"known depth. Received: {encoder} with output shape {shape}"
        )
    return shape[-1]
