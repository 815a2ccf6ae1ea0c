"""Facts, questions about them, and a memory of them that is found by keys."""

import keras
import numpy as np
from keras import ops

from keras_attention import masks, text
from keras_attention.config import Configurable, check_parts, check_positive_integer
from keras_attention.memory import KeyValueMemory

# Words far apart from the start: those that no question asks for keep their places.
DEVIATION = 0.5


@keras.saving.register_keras_serializable("keras_attention")
class KeyValueMemoryNetwork(Configurable, keras.Model):
    """Answers questions about facts: `u' = R_j (u + sum_i softmax(u . k_i) v_i)`, in hops.

    A slot of the memory is a fact: `k_i = sum_w A x_iw` over the words that it is found by,
    such as subject and relation, `v_i = C y_i` of the word that is read, the object. A
    question is `u = sum_w A q_w`; the answer is the word `a` with the largest `u . C_a`.

    Args:
        vocabulary: distinct words, those of keys, values and questions. It is kept in the
            saved file, so that a loaded model takes words.
        embedding_dim: depth of the words' vectors.
        hops: how often the memory is read.
        seed: integer for the weights' first numbers.
        **kwargs: `name`, `dtype` and so on, as in every Keras model.

    Call arguments:
        inputs: keys, integers `(B, S, W)`, values `(B, S)` and questions `(B, Wq)`: what
            `encode` returns. 0 = no word, 1 = unknown, word `i` is `i + 2`. A word of 0
            and a slot whose value is 0 have no influence, wherever they stand.
        return_attention_scores: whether to return the weights too.

    Returns:
        Logits `(B, V)` of the words of the vocabulary; with `return_attention_scores` the
        pair of them and the weights `(B, hops, S)`.

    Raises:
        ValueError: for a vocabulary that is no list of distinct words.

    Example:

    >>> from keras_attention.models import KeyValueMemoryNetwork
    >>> model = KeyValueMemoryNetwork("Peru Chile capital Lima Santiago".split())
    >>> facts = [(["Peru", "capital"], "Lima"), (["Chile", "capital"], "Santiago")]
    >>> inputs = model.encode([facts], [["capital", "Peru"]])
    >>> logits, weights = model(inputs, return_attention_scores=True)
    >>> tuple(logits.shape), tuple(weights.shape)
    ((1, 5), (1, 1, 2))

    Reference: Miller et al., 2016 (arXiv:1606.03126).
    """

    def __init__(self, vocabulary, embedding_dim=64, hops=1, seed=None, **kwargs):
        super().__init__(**kwargs)
        check_positive_integer("embedding_dim", embedding_dim)
        self.vocabulary = text.check_vocabulary(vocabulary)
        self.embedding_dim = int(embedding_dim)
        self.hops = hops
        self.seed = seed
        self.asked, self.said = self._table(0), self._table(1)
        self.memory = KeyValueMemory(
            hops,
            update="per_hop",
            kernel_initializer="identity",
            dtype=self.dtype_policy,
        )

    def build(self, input_shape):
        for table in (self.asked, self.said):
            table.build((None, None))
        if not self.memory.built:
            depth = self.embedding_dim
            self.memory.build((None, depth), (None, None, depth))

    def call(self, inputs, *, return_attention_scores=False):
        check_parts(inputs, "keys", "values", "questions")
        keys, values, question = (ops.cast(x, "int32") for x in inputs)
        state, weights = self.memory(
            self._sum_words(question),
            self.said(values),
            self._sum_words(keys),
            value_mask=ops.not_equal(values, text.PADDING),
            return_attention_scores=True,
        )
        # By a call, as a quantized layer's table is not its vectors.
        numbers = text.FIRST_WORD + ops.arange(len(self.vocabulary), dtype="int32")
        answers = ops.cast(self.said(numbers), state.dtype)
        logits = ops.cast(ops.matmul(state, ops.transpose(answers)), "float32")
        return (logits, weights) if return_attention_scores else logits

    def compile_for_training(self, optimizer=None, **kwargs):
        """`compile` with cross-entropy over all words.

        Args:
            optimizer: `None` for plain descent with momentum. Adam moves all words far,
                also those that are only ever wrong answers.
            **kwargs: others of `keras.Model.compile`.
        """
        self.compile(
            optimizer or keras.optimizers.SGD(0.03, momentum=0.9),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
            **kwargs,
        )

    def encode(self, memories, questions):
        """Encodes facts and questions for this model.

        Args:
            memories: a list of memories, each a list of facts: the pair of a list of words
                to be found by and the word to be read.
            questions: a list of as many lists of words.

        Returns:
            Three int32 arrays, `(B, S, W)`, `(B, S)` and `(B, Wq)`. The last is 0 wherever
            it is not a word, the others where there is no fact.

        Raises:
            ValueError: if something is not that, or there are more memories than questions
                or fewer.
        """
        memories = [[_fact(fact) for fact in memory] for memory in memories]
        questions = [_words("a question", question) for question in questions]
        facts = [fact for memory in memories for fact in memory]
        if len(memories) != len(questions):
            raise ValueError(
                "Expected a memory, a list of facts, for each question. Received: "
                f"{len(memories)} memories for {len(questions)} questions"
            )
        keys = text.encode([key for key, _ in facts], self.vocabulary)
        values = text.encode([[value] for _, value in facts], self.vocabulary)
        sizes = np.array([len(memory) for memory in memories], "int64")
        filled = np.arange(max([1, *sizes])) < sizes[:, None]
        slots = np.zeros((*filled.shape, keys.shape[-1]), "int32")
        read = np.zeros(filled.shape, "int32")
        if facts:
            slots[filled], read[filled] = keys, values[:, 0]
        return slots, read, text.encode(questions, self.vocabulary)

    def encode_answers(self, answers):
        """The places of answers in the vocabulary, the targets of `fit`: int32 `(B,)`.

        Raises:
            ValueError: if an answer is not in the vocabulary.
        """
        return text.places_of(answers, self.vocabulary)

    def answer(self, memories, questions, batch_size=250):
        """Answers questions about facts.

        Args:
            memories: as for `encode`.
            questions: as for `encode`.
            batch_size: questions answered at a time.

        Returns:
            A list of words.
        """
        inputs = self.encode(memories, questions)
        if len(inputs[0]) == 0:
            return []
        logits = self.predict(inputs, batch_size, verbose=0)
        return [self.vocabulary[place] for place in logits.argmax(axis=-1)]

    def _sum_words(self, ids):
        """`sum_w A x_w`: ids `(..., W)` to vectors `(..., D)`."""
        word = ops.not_equal(ids, text.PADDING)
        return ops.sum(masks.hide(self.asked(ids), word), axis=-2)

    def _table(self, number):
        # Far apart, so that models of neighbouring seeds have no table in common.
        seed = None if self.seed is None else 100 * self.seed + number
        return keras.layers.Embedding(
            len(self.vocabulary) + text.FIRST_WORD,
            self.embedding_dim,
            keras.initializers.RandomNormal(stddev=DEVIATION, seed=seed),
            dtype=self.dtype_policy,
        )


def _fact(fact):
    if (
        not isinstance(fact, (list, tuple))
        or len(fact) != 2
        or not isinstance(fact[1], str)
    ):
        raise ValueError(
            f"Expected a fact as a pair, a list of words and a word. Received: {fact!r}"
        )
    return _words("a key", fact[0]), fact[1]


def _words(name, words):
    several = isinstance(words, (list, tuple))
    if not several or not all(isinstance(word, str) for word in words):
        raise ValueError(f"Expected {name} as a list of words. Received: {words!r}")
    return words
