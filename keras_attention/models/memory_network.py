"""Stories, questions about them, and a memory that is read several times for the answer."""

import itertools

import keras
import numpy as np
from keras import ops

from keras_attention import text
from keras_attention.config import Configurable, check_parts, check_positive_integer
from keras_attention.memory import KeyValueMemory, position_code
from keras_attention.models.linear_start import SwitchedSoftmax

DEVIATION = 0.1
# The code's weights are 1/2 on average. As published implementations do, they are doubled,
# to 1: with half of that the same learning rates teach far more slowly.
CODE_SCALE = 2.0
TYINGS = ("adjacent", "layer_wise")


@keras.saving.register_keras_serializable("keras_attention")
class MemoryNetwork(Configurable, keras.Model):
    """Answers questions about stories: `u' = u + sum_i softmax(u . m_i) c_i`, in hops.

    A slot of the memory is a sentence. `m_i = sum_j l_j * A x_ij + T_A(i)` and
    `c_i = sum_j l_j * C x_ij + T_C(i)`, with `l` twice the `position_code` of the words and
    `T` the code of how many sentences ago it was said. After the last hop the answer is the
    word `a` with the largest `u . W_a`.

    Args:
        vocabulary: distinct words, answers included. It is kept in the saved file, so that
            a loaded model takes texts.
        embedding_dim: depth of the words' vectors.
        hops: how often the memory is read.
        tying: `"adjacent"`, hop `k`'s `C` is hop `k + 1`'s `A`: `hops + 1` embeddings; or
            `"layer_wise"`, all hops have one `A` and one `C`, and `u' = H u + o`: 2
            embeddings. In both the question's is the first `A`, the answers' the last `C`.
        memory_size: rows of the code `T`. Of a longer story the latest `memory_size`
            sentences are seen and the others are not, as in the paper. `None` for no such
            code: then the order of sentences does not matter, and all are seen.
        position_encoding: whether words have an order; else a sentence is their plain sum.
        empty_slots: how many slots of learned vectors each memory has besides the
            sentences: where nothing fits, that is where a hop can look, so that it can tell
            "no" from "yes". Implementations that pad stories without a mask have such
            slots wherever a story is short; these here do not depend on padding.
        noise: in training, how many empty slots for each sentence are put at random
            between them, so that `T` does not learn by heart how long ago things were said.
        seed: integer for the noise and for the weights' first numbers.
        **kwargs: `name`, `dtype` and so on, as in every Keras model.

    Call arguments:
        inputs: the pair of stories, integers `(B, S, W)`, and questions `(B, Wq)`, what
            `encode` returns. 0 = no word, 1 = unknown, word `i` is `i + 2`. Neither such a
            word nor a sentence of none has any influence, wherever it stands. The last
            sentence is the latest.
        return_attention_scores: whether to return the weights too.
        training: whether to add noise.

    Returns:
        Logits `(B, V)` of the words of the vocabulary; with `return_attention_scores` the
        pair of them and the weights `(B, hops, S)`, whose sums lack what went to
        `empty_slots`.

    Raises:
        ValueError: for an unknown `tying`, or a vocabulary that is no list of distinct
            words.

    Example:

    >>> from keras_attention.models import MemoryNetwork
    >>> model = MemoryNetwork(["mary", "went", "to", "the", "garden", "where", "is"])
    >>> inputs = model.encode([["Mary went to the garden."]], ["Where is Mary?"])
    >>> logits, weights = model(inputs, return_attention_scores=True)
    >>> tuple(logits.shape), tuple(weights.shape)
    ((1, 7), (1, 3, 1))

    Reference: Sukhbaatar et al., 2015 (arXiv:1503.08895).
    """

    def __init__(
        self,
        vocabulary,
        embedding_dim=20,
        hops=3,
        tying="adjacent",
        memory_size=50,
        position_encoding=True,
        noise=0.0,
        seed=None,
        empty_slots=0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_positive_integer("hops", hops)
        if empty_slots != 0:
            check_positive_integer("empty_slots", empty_slots)
        if tying not in TYINGS:
            raise ValueError(f"Expected `tying` in {TYINGS}. Received: {tying!r}")
        self.vocabulary = text.check_vocabulary(vocabulary)
        self.embedding_dim = embedding_dim
        self.hops = hops
        self.tying = tying
        self.memory_size = memory_size
        self.position_encoding = position_encoding
        self.noise = noise
        self.seed = seed
        self.empty_slots = empty_slots

        number = hops + 1 if tying == "adjacent" else 2
        rows = len(self.vocabulary) + text.FIRST_WORD
        self.embeddings = [self._table(rows, k) for k in range(number)]
        self.ages = []
        if memory_size is not None:
            self.ages = [self._table(memory_size, number + k) for k in range(number)]
        self.empty = []
        if empty_slots:
            first = 2 * number + 1
            self.empty = [self._table(empty_slots, first + k) for k in range(number)]
        self.normalizer = SwitchedSoftmax(dtype=self.dtype_policy)
        self.memory = KeyValueMemory(
            hops=1 if tying == "adjacent" else hops,
            normalizer=self.normalizer,
            update="sum" if tying == "adjacent" else "shared",
            kernel_initializer=self._normal(2 * number),
            dtype=self.dtype_policy,
        )
        self.seed_generator = keras.random.SeedGenerator(seed)

    def build(self, input_shape):
        for table in [*self.embeddings, *self.ages, *self.empty]:
            table.build((None, None))
        if not self.memory.built:
            depth = self.embedding_dim
            self.memory.build((None, depth), (None, None, depth))

    def call(self, inputs, *, return_attention_scores=False, training=None):
        check_parts(inputs, "stories", "questions")
        story, question = (ops.cast(x, "int32") for x in inputs)
        filled = ops.any(ops.not_equal(story, text.PADDING), axis=-1)
        ages, seen = self._count_back(filled, training)
        state = self._sum_words(self.embeddings[:1], question)[0]
        slots = self._sum_words(self.embeddings, story)
        if self.ages:
            pairs = zip(slots, self.ages, strict=True)
            slots = [slot + table(ages) for slot, table in pairs]
        if self.empty:
            slots, seen = self._with_empty(slots, seen)
        found = []
        for key, value in itertools.pairwise(slots):
            state, weights = self.memory(
                state, value, key, value_mask=seen, return_attention_scores=True
            )
            found.append(weights[..., self.empty_slots :])
        # By a call, as a quantized layer's table is not its vectors.
        numbers = text.FIRST_WORD + ops.arange(len(self.vocabulary), dtype="int32")
        answers = self.embeddings[-1](numbers)
        logits = ops.matmul(state, ops.transpose(ops.cast(answers, state.dtype)))
        logits = ops.cast(logits, "float32")
        if not return_attention_scores:
            return logits
        return logits, ops.concatenate(found, axis=-2)

    def compile_for_training(self, optimizer=None, **kwargs):
        """`compile` as in the paper: the loss is summed over a batch, not averaged.

        Args:
            optimizer: `None` for the paper's: plain descent at a rate of .01, gradients
                cut to a norm of 40.
            **kwargs: others of `keras.Model.compile`.
        """
        self.compile(
            optimizer or keras.optimizers.SGD(0.01, global_clipnorm=40.0),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="sum"),
            metrics=["accuracy"],
            **kwargs,
        )

    def encode(self, stories, questions):
        """Encodes texts for this model.

        Args:
            stories: a list of stories, each a list of sentences.
            questions: a list of as many strings.

        Returns:
            Two int32 arrays, `(B, S, W)` and `(B, Wq)`.

        Raises:
            ValueError: if a story is a string, or there are more of one than of the other,
                or the vocabulary has words that no text has.
        """
        text.check_tokens(self.vocabulary)
        for name, given in (("questions", questions), *(("a story", s) for s in stories)):
            if isinstance(given, str):
                raise ValueError(
                    f"Expected {name} as a list of sentences. Received: the string "
                    f"{given!r}"
                )
        if len(stories) != len(questions):
            raise ValueError(
                "Expected a story, a list of sentences, for each question. Received: "
                f"{len(stories)} stories for {len(questions)} questions"
            )
        longest = max([1, *map(len, stories)])
        sentences = [words(s) for story in stories for s in story]
        ids = text.encode(sentences, self.vocabulary)
        encoded = np.zeros((len(stories), longest, ids.shape[1]), "int32")
        start = 0
        for target, story in zip(encoded, stories, strict=True):
            target[: len(story)] = ids[start : start + len(story)]
            start += len(story)
        return encoded, text.encode([words(q) for q in questions], self.vocabulary)

    def encode_answers(self, answers):
        """The places of answers in the vocabulary, the targets of `fit`: int32 `(B,)`.

        Raises:
            ValueError: if an answer is not in the vocabulary.
        """
        if not isinstance(answers, str):
            answers = [a.lower() if isinstance(a, str) else a for a in answers]
        return text.places_of(answers, self.vocabulary)

    def answer(self, stories, questions, batch_size=250):
        """Answers questions about stories.

        Args:
            stories: a list of stories, each a list of sentences.
            questions: a list of as many strings.
            batch_size: questions answered at a time.

        Returns:
            A list of words.
        """
        inputs = self.encode(stories, questions)
        if len(questions) == 0:
            return []
        logits = self.predict(inputs, batch_size, verbose=0)
        return [self.vocabulary[place] for place in logits.argmax(axis=-1)]

    def _count_back(self, filled, training):
        """How many filled slots come after each, and which slots are seen."""
        if self.memory_size is None:
            return None, filled
        counts = ops.cast(filled, "int32")
        ages = ops.sum(counts, axis=-1, keepdims=True) - ops.cumsum(counts, axis=-1)
        seen = ops.logical_and(filled, ages < self.memory_size)
        if training and self.noise:
            drawn = keras.random.uniform(ops.shape(filled), seed=self.seed_generator)
            added = ops.cast(ops.logical_and(filled, drawn < self.noise), "int32")
            earlier = ops.cumsum(added, axis=-1) - added
            ages = ages + ops.sum(added, axis=-1, keepdims=True) - earlier
        return ops.clip(ages, 0, self.memory_size - 1), seen

    def _with_empty(self, slots, seen):
        """Slots `(B, S, D)`, and which are seen, with the empty ones before them."""
        shape = (ops.shape(seen)[0], self.empty_slots)
        places = ops.broadcast_to(ops.arange(self.empty_slots, dtype="int32"), shape)
        pairs = zip(self.empty, slots, strict=True)
        joined = [ops.concatenate([table(places), x], axis=1) for table, x in pairs]
        seen = ops.concatenate([ops.ones(shape, "bool"), seen], axis=1)
        return joined, seen

    def _sum_words(self, tables, ids):
        """`sum_j l_j * E x_j` for each table `E`: ids `(..., W)` to vectors `(..., D)`."""
        mask = ops.not_equal(ids, text.PADDING)
        if self.position_encoding:
            code = CODE_SCALE * position_code(mask, self.embedding_dim)
        else:
            code = ops.expand_dims(ops.cast(mask, "float32"), -1)
        code = ops.cast(code, self.compute_dtype)
        return [ops.sum(code * table(ids), axis=-2) for table in tables]

    def _table(self, rows, number):
        return keras.layers.Embedding(
            rows,
            self.embedding_dim,
            embeddings_initializer=self._normal(number),
            dtype=self.dtype_policy,
        )

    def _normal(self, number):
        # Far apart, so that models of neighbouring seeds have no table in common.
        seed = None if self.seed is None else 100 * self.seed + number
        return keras.initializers.RandomNormal(stddev=DEVIATION, seed=seed)


def words(sentence):
    """The words of a sentence, in small letters, without signs.

    >>> words("Where is Mary?")
    ['where', 'is', 'mary']
    """
    return [token for token in text.tokenize(sentence) if token[0].isalnum()]
