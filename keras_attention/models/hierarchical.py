"""A document classifier that looks at words, then at sentences."""

import keras
import numpy as np
from keras import ops

from keras_attention import cells, masks, text
from keras_attention.config import Configurable
from keras_attention.pooling import AttentionPooling


@keras.saving.register_keras_serializable("keras_attention")
class MeanPooling(Configurable, keras.layers.Layer):
    """`output = sum_t m_t x_t / sum_t m_t`: what attention pooling is measured against.

    Takes the mask and gives the weights (`1 / n` each) as `AttentionPooling` does, so
    that one stands in the other's place. A fully masked row pools to zeros.

    Call arguments:
        inputs: `(B, T, D)`.
        mask: `(B, T)`, `True` = counts.
        return_attention_scores: Whether to return the weights too.

    Returns:
        `(B, D)`; with `return_attention_scores` the pair of it and `(B, T)` weights.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from keras_attention.models import MeanPooling
    >>> x = np.array([[[1.0], [3.0], [99.0]]])
    >>> pooled = MeanPooling()(x, mask=np.array([[True, True, False]]))
    >>> print(keras.ops.convert_to_numpy(pooled))
    [[2.]]
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(self, inputs, mask=None, *, return_attention_scores=False):
        if mask is None:
            mask = ops.ones(ops.shape(inputs)[:-1], "bool")
        mask = ops.cast(mask, "bool")
        count = ops.sum(ops.cast(mask, "float32"), axis=-1, keepdims=True)
        weights = ops.cast(mask, "float32") / ops.maximum(count, 1)
        weights = ops.cast(weights, self.compute_dtype)
        kept = masks.hide(inputs, mask)
        output = ops.squeeze(ops.matmul(ops.expand_dims(weights, -2), kept), -2)
        return (output, weights) if return_attention_scores else output

    def compute_mask(self, inputs, previous_mask):
        return None


@keras.saving.register_keras_serializable("keras_attention")
class HierarchicalAttention(Configurable, keras.Model):
    """A text classifier of two levels: `document = pool(GRU(pool(GRU(words))))`.

    A bidirectional GRU reads the words of every sentence and attention pools them to a
    vector; a second pair does the same with the sentences. Documents may have any
    number of sentences of any number of words.

    Args:
        vocabulary: Distinct words. It is kept in the saved file, so that a loaded model
            takes texts.
        num_classes: 1 gives the probability of label 1 (sigmoid), more give one
            probability each (softmax).
        embedding_dim: Depth of the words' vectors.
        word_units: Units of the words' GRU, in each direction.
        sentence_units: Units of the sentences' GRU, in each direction.
        attention_units: Depth of the hidden layer of both attentions.
        pooling: `"attention"`, or `"mean"` for the same model without attention.
        dropout: Share of the embedding's and of the document's features that are
            dropped in training.
        word_dropout: Share of the words that become unknown in training.
        seed: Integer for the dropout.
        **kwargs: `name`, `dtype` and so on, as in every Keras model.

    Call arguments:
        inputs: Integers `(B, S, W)`, 0 = padding, 1 = unknown, word `i` is `i + 2`:
            what `encode(texts)` returns.
        return_attention_scores: Whether to return the weights too.
        training: Whether to drop.

    Returns:
        Probabilities `(B, num_classes)`. With `return_attention_scores` the tuple of
        them, weights of words `(B, S, W)` and weights of sentences `(B, S)`. Padding
        has no influence, and its weight is 0.

    Raises:
        ValueError: If `pooling` is unknown, or the vocabulary is no list of distinct
            words.

    Example:

    >>> from keras_attention.models import HierarchicalAttention
    >>> model = HierarchicalAttention(["a", "good", "film"])
    >>> ids = model.encode(["A film. Good!", "A good film."])
    >>> probabilities, words, sentences = model(ids, return_attention_scores=True)
    >>> tuple(probabilities.shape), tuple(words.shape), tuple(sentences.shape)
    ((2, 1), (2, 2, 3), (2, 2))

    Reference: Yang et al., 2016 (NAACL N16-1174).
    """

    def __init__(
        self,
        vocabulary,
        num_classes=1,
        embedding_dim=50,
        word_units=50,
        sentence_units=50,
        attention_units=100,
        pooling="attention",
        dropout=0.0,
        word_dropout=0.0,
        seed=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.vocabulary = _checked_vocabulary(vocabulary)
        self.num_classes = num_classes
        self.embedding_dim = embedding_dim
        self.word_units = word_units
        self.sentence_units = sentence_units
        self.attention_units = attention_units
        self.pooling = pooling
        self.dropout = dropout
        self.word_dropout = word_dropout
        self.seed = seed

        policy = self.dtype_policy
        rows = len(self.vocabulary) + text.FIRST_WORD
        self.embedding = keras.layers.Embedding(rows, embedding_dim, dtype=policy)
        self.word_features = keras.layers.SpatialDropout1D(dropout, seed, dtype=policy)
        self.word_encoder = _encoder(word_units, policy)
        self.word_pooling = _pooling(pooling, attention_units, policy)
        self.sentence_encoder = _encoder(sentence_units, policy)
        self.sentence_pooling = _pooling(pooling, attention_units, policy)
        self.document_features = keras.layers.Dropout(dropout, seed=seed, dtype=policy)
        activation = "sigmoid" if num_classes == 1 else "softmax"
        self.classifier = keras.layers.Dense(num_classes, activation, dtype="float32")
        self.seed_generator = keras.random.SeedGenerator(seed)

    def build(self, input_shape):
        batch, sentences, words = input_shape
        self.embedding.build((None, words))
        self.word_encoder.build((None, words, self.embedding_dim))
        self.word_pooling.build((None, words, 2 * self.word_units))
        self.sentence_encoder.build((batch, sentences, 2 * self.word_units))
        self.sentence_pooling.build((batch, sentences, 2 * self.sentence_units))
        self.classifier.build((batch, 2 * self.sentence_units))

    def call(self, inputs, *, return_attention_scores=False, training=None):
        inputs = ops.cast(inputs, "int32")
        sentences, words = ops.shape(inputs)[1:]
        # Every sentence is a row of its own; TimeDistributed would loop over them.
        ids = ops.reshape(inputs, (-1, words))
        vectors, word_weights = self._encode_sentences(ids, training)
        vectors = ops.reshape(vectors, (-1, sentences, 2 * self.word_units))

        mask = ops.any(ops.not_equal(inputs, text.PADDING), axis=-1)
        vectors = self.sentence_encoder(vectors, mask=mask, training=training)
        document, sentence_weights = self.sentence_pooling(
            vectors, mask=mask, return_attention_scores=True
        )
        document = self.document_features(document, training=training)
        probabilities = self.classifier(document)
        if not return_attention_scores:
            return probabilities
        word_weights = ops.reshape(word_weights, (-1, sentences, words))
        return probabilities, word_weights, sentence_weights

    def encode(self, texts, **limits):
        """Encodes texts for this model.

        Args:
            texts: A list of strings.
            **limits: `max_sentences` and `max_words` of `text.encode_documents`.

        Returns:
            An int32 array `(B, S, W)`.
        """
        return text.encode_documents(texts, self.vocabulary, **limits)

    def predict_texts(self, texts):
        """Predicts from a list of strings.

        Returns:
            A float32 array `(B, num_classes)`.
        """
        if len(texts) == 0:
            return np.zeros((0, self.num_classes), "float32")
        return self.predict(self.encode(texts), verbose=0)

    def _encode_sentences(self, ids, training):
        mask = ops.not_equal(ids, text.PADDING)
        if training and self.word_dropout:
            noise = keras.random.uniform(ops.shape(ids), seed=self.seed_generator)
            forget = ops.logical_and(mask, noise < self.word_dropout)
            ids = ops.where(forget, text.UNKNOWN, ids)
        vectors = self.word_features(self.embedding(ids), training=training)
        vectors = self.word_encoder(vectors, mask=mask, training=training)
        return self.word_pooling(vectors, mask=mask, return_attention_scores=True)


def _checked_vocabulary(vocabulary):
    if isinstance(vocabulary, str):
        raise ValueError(f"Expected a list of distinct words. Received: {vocabulary!r}")
    return text.check_vocabulary(vocabulary)


def _encoder(units, policy):
    # cuDNN's kernel refuses sentences that are all padding, and padding on the left.
    gru = keras.layers.GRU(units, return_sequences=True, use_cudnn=False, dtype=policy)
    return cells.bidirectional(gru, dtype=policy)


def _pooling(pooling, units, policy):
    if pooling == "attention":
        return AttentionPooling(units, dtype=policy)
    if pooling == "mean":
        return MeanPooling(dtype=policy)
    raise ValueError(
        f"Expected `pooling` to be 'attention' or 'mean'. Received: {pooling!r}"
    )
