"""Greedy search, sampling and beam search, beside searches in plain Python.

Most tests search a random table: the distribution of the next token depends on
all tokens before it, so that a state, a table or an alignment of another beam shows.
"""

import functools
import itertools
from types import SimpleNamespace

import keras
import numpy as np
import pytest
from contract import to_numpy
from keras import layers, ops, tree

import keras_attention as ka

BACKEND = keras.backend.backend()
tensorflow_only = pytest.mark.skipif(
    BACKEND != "tensorflow", reason="this is TensorFlow's own"
)
has_xla = pytest.mark.skipif(
    BACKEND == "torch", reason="XLA is TensorFlow's and JAX's compiler"
)
END = 1  # neither the first nor the last token


def close(actual, desired, atol=1e-5):
    np.testing.assert_allclose(to_numpy(actual), desired, atol=atol)


def tensor(x):
    return None if x is None else ops.convert_to_tensor(x)


def equal(actual, desired):
    np.testing.assert_array_equal(ops.convert_to_numpy(actual), desired)


def log_softmax(x):
    x = x.astype("float64")
    top = x.max(-1, keepdims=True)
    return x - top - np.log(np.exp(x - top).sum(-1, keepdims=True))


class Table:
    """Random logits and alignments for each sequence of up to `depth` tokens.

    A state is the number of a node, and the tables are the context, one for each item.
    """

    def __init__(self, batch=3, vocabulary=4, depth=4, places=5, seed=0, end_bias=0.0):
        rng = np.random.default_rng(seed)
        self.vocabulary, self.depth = vocabulary, depth
        nodes = sum(vocabulary**d for d in range(depth))
        self.logits = 2 * rng.normal(size=(batch, nodes, vocabulary)).astype("float32")
        self.logits[..., END] += end_bias
        looks = rng.gamma(0.4, size=(batch, nodes, places))
        self.looks = (looks / looks.sum(-1, keepdims=True)).astype("float32")
        self.log_probs = log_softmax(self.logits)
        # The first step takes it to node 0.
        self.start = np.full(batch, vocabulary - 1, "int32")

    def __len__(self):
        return len(self.logits)

    def step(self, tokens, states, context):
        node = states["node"] * self.vocabulary + ops.expand_dims(tokens, 1) + 1
        last = context["logits"].shape[1] - 1
        here = ops.expand_dims(ops.minimum(node, last), -1)
        logits = ops.take_along_axis(context["logits"], here, axis=1)[:, 0]
        looks = ops.take_along_axis(context["looks"][0], here, axis=1)[:, 0]
        return logits, looks, {"node": node}

    def search(self, function, rows=slice(None), step=None, **options):
        start = ops.convert_to_tensor(self.start[rows])
        tables = {"logits": self.logits[rows], "looks": [self.looks[rows], None]}
        return function(
            step or self.step,
            {"node": ops.expand_dims(ops.full_like(start, -1), 1)},
            start,
            END,
            context=tree.map_structure(tensor, tables),
            **{"max_length": self.depth} | options,
        )

    def walk(self, tokens):
        """Nodes of a sequence, from the first to that of its last token."""
        node, nodes = 0, []
        for token in tokens:
            nodes.append(node)
            node = node * self.vocabulary + int(token) + 1
        return nodes

    def log_prob(self, row, tokens):
        nodes = self.walk(tokens)
        return sum(self.log_probs[row, n, k] for n, k in zip(nodes, tokens, strict=True))

    def alignments(self, row, tokens):
        return self.looks[row, self.walk(tokens)]

    def sequences(self, depth, min_length=0):
        """All that a search can find, as tuples that end with the end token or are full."""
        found = []
        for length in range(1, depth + 1):
            for tokens in itertools.product(range(self.vocabulary), repeat=length):
                ends = tokens.index(END) if END in tokens else None
                full = length == depth and ends is None
                if full or (ends == length - 1 and ends >= min_length):
                    found.append(tokens)
        return found

    def score(self, row, tokens, alpha=0.0):
        return self.log_prob(row, tokens) / ((5 + len(tokens)) / 6) ** alpha

    def coverage(self, row, tokens):
        seen = self.alignments(row, tokens).astype("float64").sum(0)
        return np.log(np.minimum(seen[seen > 0], 1)).sum()


def plain_beam_search(table, row, width, max_length, min_length, alpha, beta):
    """Wu et al. 2016 with lists: the reference.

    While others go on, a hypothesis competes with its coverage penalty from the step
    after its end on, as in TensorFlow Addons. In the end all that have ended have it.
    """
    beams = [SimpleNamespace(tokens=(), score=0.0, ended=False)]

    def extensions(beam, t):
        if beam.ended:
            score = beam_score(beam.tokens)
            return [SimpleNamespace(tokens=beam.tokens, score=score, ended=True)]
        tokens = [(*beam.tokens, token) for token in range(table.vocabulary)]
        return [
            SimpleNamespace(tokens=x, score=table.score(row, x, alpha), ended=x[-1] == END)
            for x in tokens
            if x[-1] != END or t >= min_length
        ]

    def beam_score(tokens):
        return table.score(row, tokens, alpha) + beta * table.coverage(row, tokens)

    for t in range(max_length):
        if all(beam.ended for beam in beams):
            break
        candidates = [new for beam in beams for new in extensions(beam, t)]
        beams = sorted(candidates, key=lambda beam: -beam.score)[:width]
    for beam in beams:
        if beam.ended:
            beam.score = beam_score(beam.tokens)
    return sorted(beams, key=lambda beam: -beam.score)


def padded(tokens, length):
    return [*tokens, *[END] * (length - len(tokens))]


def check_beams(table, found, expected, rows=None):
    """Every number of a result, for the hypotheses expected: `[row][beam]`."""
    length = found.tokens.shape[-1]
    rows = range(len(table)) if rows is None else rows
    equal(found.tokens, [[padded(b.tokens, length) for b in beams] for beams in expected])
    equal(found.lengths, [[len(b.tokens) for b in beams] for beams in expected])
    close(found.scores, [[b.score for b in beams] for beams in expected])
    together = list(zip(rows, expected, strict=True))
    close(
        found.log_probs,
        [[table.log_prob(row, b.tokens) for b in beams] for row, beams in together],
    )
    alignments = to_numpy(found.alignments)
    for i, (row, beams) in enumerate(together):
        for j, beam in enumerate(beams):
            steps = len(beam.tokens)
            close(alignments[i, j, :steps], table.alignments(row, beam.tokens))
            assert not alignments[i, j, steps:].any()


# Case 15: the best first word is not the best start.


def case_15(tokens, states, context):
    """Words A and B, the end, the start, and one word more."""
    table = [
        [0, 0, 0.4, 0.3, 0.3],
        [0, 0, 0.9, 0.05, 0.05],
        [0, 0, 1, 0, 0],
        [0.6, 0.4, 0, 0, 0],
        [0, 0, 1, 0, 0],
    ]
    logits = np.log(np.maximum(np.array(table, "float32"), 1e-30))
    return ops.take(ops.convert_to_tensor(logits), tokens, axis=0), None, states


def test_case_15_exact_numbers():
    start = np.array([3])
    greedy = ka.greedy_search(case_15, [], start, 2, max_length=4)
    one = ka.beam_search(case_15, [], start, 2, max_length=4, width=1)
    two = ka.beam_search(case_15, [], start, 2, max_length=4, width=2)
    equal(greedy.tokens, [[0, 2, 2, 2]])
    equal(one.tokens, [[[0, 2, 2, 2]]])
    equal(two.tokens, [[[1, 2, 2, 2], [0, 2, 2, 2]]])
    close(greedy.log_probs, [-1.42712])
    close(one.log_probs, [[-1.42712]])
    close(two.log_probs, [[-1.02165, -1.42712]])
    equal(greedy.lengths, [2])
    equal(two.lengths, [[2, 2]])
    assert greedy.alignments is None
    assert two.alignments is None


# With a decoder.

SENTENCES = np.array([[5, 2, 3, 6, 4], [6, 3, 0, 0, 0], [2, 4, 6, 0, 0]], "int32")
END_BIAS = 2.0  # so that some sequences end early
START = np.random.default_rng(1).normal(size=(2, 3, 8)).astype("float32")


class Translator:
    """A decoder between embeddings and an output layer."""

    def __init__(self, order="bahdanau"):
        self.words, self.sources = layers.Embedding(7, 5), layers.Embedding(7, 6)
        self.speak = layers.Dense(7)
        self.decoder = ka.AttentionDecoder(
            layers.LSTMCell(8),
            order=order,
            input_feeding=True,
            attention_units=9,
            output_attention=True,
        )
        found = self.speak(self.decoder(self.words(SENTENCES), self.sources(SENTENCES)))
        assert found.shape == (3, 5, 7)
        rng = np.random.default_rng(5)
        for layer in (self.words, self.sources, self.decoder, self.speak):
            for variable in layer.weights:
                variable.assign(0.9 * rng.normal(size=variable.shape))
        self.speak.bias.assign(np.eye(7)[2] * END_BIAS)

    def step(self, tokens, states, context):
        output, weights, states = self.decoder.step(self.words(tokens), states, context)
        return self.speak(output), weights, states

    def search(self, function, ids, rows=slice(None), **options):
        ids = ops.convert_to_tensor(ids)
        batch = ops.shape(ids)[0]
        states = [ops.convert_to_tensor(state[rows]) for state in START]
        fed = self.decoder.get_initial_state(batch)[len(states) :]
        return function(
            self.step,
            [*states, *fed],
            ops.ones((batch,), "int32"),
            2,
            max_length=7,
            context=self.decoder.prepare_memory(self.sources(ids), ids != 0),
            **options,
        )

    def forced(self, ids, tokens):
        """Log-probabilities and weights of given tokens, by teacher forcing."""
        inputs = np.concatenate([np.ones((len(ids), 1), int), tokens[:, :-1]], axis=1)
        output, weights = self.decoder(
            self.words(inputs),
            self.sources(ids),
            memory_mask=ids != 0,
            initial_state=list(START),
            return_attention_scores=True,
        )
        log_probs = log_softmax(to_numpy(self.speak(output)))
        return np.take_along_axis(log_probs, tokens[..., None], -1)[..., 0], to_numpy(
            weights
        )


@functools.lru_cache(maxsize=2)
def translator(order="bahdanau"):
    return Translator(order)


BEAMS = {"width": 4, "length_penalty": 0.7, "coverage_penalty": 0.3}
SEARCHES = {
    "greedy": (ka.greedy_search, {}),
    "beams": (ka.beam_search, BEAMS),
    "sample": (ka.sample, {"seed": 3, "temperature": 0.9, "top_k": 5, "top_p": 0.95}),
}


def numbers(found):
    return [ops.convert_to_numpy(x) for x in tree.flatten(tuple(found)) if x is not None]


def same(found, expected):
    for one, other in zip(numbers(found), numbers(expected), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.parametrize("order", ["bahdanau", "luong"])
def test_beams_are_what_teacher_forcing_says_of_them(order):
    model = translator(order)
    found = model.search(ka.beam_search, SENTENCES, **BEAMS)
    tokens, lengths = numbers(found)[:2]
    assert len(np.unique(lengths)) > 2
    alignments = to_numpy(found.alignments)
    for beam in range(BEAMS["width"]):
        log_probs, weights = model.forced(SENTENCES, tokens[:, beam])
        real = np.arange(7) < lengths[:, beam, None]
        close(found.log_probs[:, beam], np.where(real, log_probs, 0).sum(1), 1e-4)
        close(alignments[:, beam], np.where(real[..., None], weights, 0), 1e-4)
        assert (tokens[:, beam][~real] == 2).all()
    assert not alignments[1, ..., 2:].any()
    assert (np.diff(to_numpy(found.scores), axis=1) < 0).all()


@pytest.mark.parametrize("name", ["greedy", "beams"])
def test_case_15_a_batch_is_its_items_one_by_one(name):
    """Also without their padding: memory, mask and states are repeated item by item."""
    function, options = SEARCHES[name]
    model = translator()
    together = numbers(model.search(function, SENTENCES, **options))
    for row, ids in enumerate(SENTENCES):
        length = (ids != 0).sum()
        rows = slice(row, row + 1)
        alone = model.search(function, ids[None, :length], rows, **options)
        alone = numbers(alone)
        for one, other in zip(together[:-1], alone[:-1], strict=True):
            np.testing.assert_allclose(one[row], other[0], atol=1e-5)
        close(together[-1][row][..., :length], alone[-1][0])
        assert not together[-1][row][..., length:].any()


@pytest.mark.parametrize("order", ["bahdanau", "luong"])
def test_a_beam_of_one_is_greedy_with_a_decoder(order):
    greedy = translator(order).search(ka.greedy_search, SENTENCES)
    beam = translator(order).search(ka.beam_search, SENTENCES, width=1)
    for one, other in zip(numbers(greedy), numbers(beam), strict=True):
        np.testing.assert_allclose(one, other[:, 0], atol=1e-5)


def jitted(function):
    if BACKEND == "tensorflow":
        import tensorflow as tf

        return tf.function(function, jit_compile=True)
    import jax

    return jax.jit(function)


@has_xla
@pytest.mark.parametrize("name", ["greedy", "beams"])
def test_a_compiled_search_is_the_plain_one(name):
    function, options = SEARCHES[name]
    model = translator()

    def search(ids):
        return model.search(function, ids, **options)

    same(jitted(search)(SENTENCES), search(SENTENCES))


@has_xla
def test_compiled_sampling():
    """XLA draws other numbers than TensorFlow for a seed, but from the same chain."""

    def search(start):
        return ka.sample(chain, [], start, END, max_length=2, seed=2)

    found = jitted(search)(np.zeros(ROWS, "int32"))
    frequent(found.tokens, CHAIN[0][:, None] * CHAIN)
    close(found.log_probs, chain_log_probs(found.tokens), 1e-4)


@tensorflow_only
@pytest.mark.parametrize("name", SEARCHES)
def test_one_graph_for_every_batch_size_and_length(name):
    import tensorflow as tf

    function, options = SEARCHES[name]
    model = translator()
    traces = []

    @tf.function(
        input_signature=[
            tf.TensorSpec((None, None), tf.int32),
            tf.TensorSpec((2, None, 8), tf.float32),
        ]
    )
    def search(ids, start):
        traces.append(ids)
        batch = tf.shape(ids)[0]
        fed = model.decoder.get_initial_state(batch)[2:]
        return function(
            model.step,
            [start[0], start[1], *fed],
            tf.ones((batch,), tf.int32),
            2,
            max_length=7,
            context=model.decoder.prepare_memory(model.sources(ids), ids != 0),
            **options,
        )

    for ids in (SENTENCES, SENTENCES[:1], SENTENCES[:2, :3]):
        found = search(ids, START[:, : len(ids)])
        same(found, model.search(function, ids, slice(len(ids)), **options))
    assert len(traces) == 1


# Greedy search.


@pytest.mark.parametrize("min_length", [0, 2])
@pytest.mark.parametrize("seed", range(3))
def test_greedy_takes_the_best_token(seed, min_length):
    table = Table(seed=seed, end_bias=1.0)
    found = table.search(ka.greedy_search, min_length=min_length)
    expected = [
        plain_beam_search(table, row, 1, table.depth, min_length, 0, 0)
        for row in range(len(table))
    ]
    beams = ka.Sequences(*(ops.expand_dims(x, 1) for x in found))
    check_beams(table, beams, expected)
    same([found.scores], [found.log_probs])


@pytest.mark.parametrize("min_length", [0, 2])
def test_a_beam_of_one_is_greedy(min_length):
    for seed in range(4):
        table = Table(seed=seed, end_bias=1.0)
        greedy = table.search(ka.greedy_search, min_length=min_length)
        beam = table.search(ka.beam_search, min_length=min_length, width=1)
        for one, other in zip(numbers(greedy), numbers(beam), strict=True):
            np.testing.assert_allclose(one, other[:, 0], atol=1e-6)


# Beam search.


PENALTIES = [(0.0, 0.0), (0.6, 0.0), (1.5, 0.0), (0.0, 0.4), (0.8, 1.0), (-0.5, 0.0)]


@pytest.mark.parametrize("penalties", PENALTIES, ids=str)
@pytest.mark.parametrize("width", [2, 3, 5])
def test_beams_are_those_of_a_plain_search(width, penalties):
    alpha, beta = penalties
    for seed, min_length in ((0, 0), (1, 0), (2, 1)):
        table = Table(seed=seed, end_bias=0.5)
        found = table.search(
            ka.beam_search,
            width=width,
            min_length=min_length,
            length_penalty=alpha,
            coverage_penalty=beta,
        )
        expected = [
            plain_beam_search(table, row, width, table.depth, min_length, alpha, beta)
            for row in range(len(table))
        ]
        check_beams(table, found, expected)


def test_each_penalty_changes_what_is_found():
    """Otherwise the tests above would say nothing about it."""
    table = Table(batch=8, end_bias=0.5)
    plain, long, covered, late = (
        ops.convert_to_numpy(table.search(ka.beam_search, width=3, **options).tokens)
        for options in (
            {},
            {"length_penalty": 1.5},
            {"coverage_penalty": 1.0},
            {"min_length": 2},
        )
    )
    for other in (long, covered, late):
        assert (plain != other).any()


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.5])
@pytest.mark.parametrize("min_length", [0, 1])
def test_wide_beams_find_the_best_of_all_sequences(alpha, min_length):
    table = Table(vocabulary=3, depth=3, seed=4)
    sequences = table.sequences(3, min_length)
    width = 27
    assert len(sequences) == (15 if min_length == 0 else 14)
    found = table.search(
        ka.beam_search, width=width, min_length=min_length, length_penalty=alpha
    )
    best = [
        sorted(sequences, key=lambda tokens, row=row: -table.score(row, tokens, alpha))
        for row in range(len(table))
    ]
    expected = [
        [
            SimpleNamespace(tokens=tokens, score=table.score(row, tokens, alpha))
            for tokens in tokens_of_row
        ]
        for row, tokens_of_row in enumerate(best)
    ]
    cut = ka.Sequences(*(x[:, : len(sequences)] for x in found))
    check_beams(table, cut, expected)
    # There are no more: what is left over is impossible, and says so.
    assert (to_numpy(found.log_probs)[:, len(sequences) :] == -np.inf).all()


def test_more_beams_than_words():
    table = Table(vocabulary=3, depth=4, seed=6)
    found = table.search(ka.beam_search, width=7, length_penalty=0.5)
    expected = [plain_beam_search(table, row, 7, 4, 0, 0.5, 0) for row in range(3)]
    check_beams(table, found, expected)
    assert np.isfinite(to_numpy(found.scores)).all()


def test_more_beams_than_words_and_one_step():
    table = Table(vocabulary=3, seed=6)
    found = table.search(ka.beam_search, width=5, max_length=1)
    order = np.argsort(-table.log_probs[:, 0])
    equal(found.tokens[:, :3, 0], order)
    close(found.log_probs[:, :3], np.take_along_axis(table.log_probs[:, 0], order, 1))
    assert (to_numpy(found.log_probs)[:, 3:] == -np.inf).all()
    assert not np.isnan(to_numpy(found.scores)).any()


@pytest.mark.parametrize("name", ["greedy", "beams"])
def test_a_batch_of_tables_is_its_rows_one_by_one(name):
    """A row that has ended is not changed by rows that go on."""
    function, options = SEARCHES[name]
    options = options | {"width": 2, "coverage_penalty": 0.3} if options else options
    table = Table(batch=8, end_bias=2.0)
    together = numbers(table.search(function, **options))
    assert len(np.unique(together[1].max(-1))) > 1 or name == "greedy"
    for row in range(8):
        alone = table.search(function, rows=slice(row, row + 1), **options)
        for one, other in zip(together, numbers(alone), strict=True):
            np.testing.assert_allclose(one[row], other[0], atol=1e-6)


@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize("min_length", [1, 2])
def test_lengths_within_bounds(name, min_length):
    function, options = SEARCHES[name]
    table = Table(batch=6, end_bias=3.0)
    short = table.search(function, **options)
    assert (ops.convert_to_numpy(short.lengths) == 1).any()
    found = table.search(function, min_length=min_length, **options)
    lengths = ops.convert_to_numpy(found.lengths)
    assert (lengths > min_length).all()
    assert (lengths == min_length + 1).any()
    tokens = ops.convert_to_numpy(found.tokens)
    assert not (tokens[..., :min_length] == END).any()
    capped = table.search(function, max_length=2, **options)
    assert capped.tokens.shape[-1] == 2
    assert ops.convert_to_numpy(capped.lengths).max() <= 2


@pytest.mark.parametrize("name", SEARCHES)
def test_ended_sequences_are_frozen(name):
    """Whatever the step returns for them: nothing of it is seen."""
    function, options = SEARCHES[name]
    table = Table(batch=4, end_bias=2.0)

    def poisoned(tokens, states, context):
        logits, looks, states = table.step(tokens, states, context)
        ended = ops.expand_dims(tokens == END, 1)
        return ops.where(ended, np.nan, logits), ops.where(ended, np.nan, looks), states

    expected = table.search(function, **options)
    lengths = ops.convert_to_numpy(expected.lengths)
    assert lengths.min() < lengths.max()
    same(table.search(function, step=poisoned, **options), expected)


@pytest.mark.parametrize("name", SEARCHES)
def test_a_longer_search_changes_nothing_once_all_have_ended(name):
    function, options = SEARCHES[name]
    table = Table(batch=4, end_bias=9.0)
    options = options | {"width": 2} if name == "beams" else options
    found = numbers(table.search(function, max_length=3, **options))
    longer = numbers(table.search(function, max_length=4, **options))
    assert found[1].max() < 3
    if name != "sample":  # more numbers are drawn for a longer search
        np.testing.assert_array_equal(longer[0][..., :3], found[0])
        for one, other in zip(longer[1:4], found[1:4], strict=True):
            np.testing.assert_allclose(one, other, atol=1e-6)
    assert (longer[0][..., 3:] == END).all()


@pytest.mark.parametrize("name", ["greedy", "beams"])
def test_several_alignments(name):
    """A list in, a list out; coverage counts the places of all memories."""
    function, options = SEARCHES[name]
    table = Table(end_bias=0.5)

    def split(tokens, states, context):
        logits, looks, states = table.step(tokens, states, context)
        return logits, [looks[:, :2], looks[:, 2:]], states

    found = table.search(function, step=split, **options)
    assert isinstance(found.alignments, list)
    assert [a.shape[-1] for a in found.alignments] == [2, 3]
    joined = ops.concatenate(found.alignments, axis=-1)
    if name == "greedy":
        same(found._replace(alignments=joined), table.search(function, **options))


def test_coverage_over_several_memories():
    """For each memory by itself, so that sums over both are not cut together."""
    table = Table(end_bias=0.5)

    def split(tokens, states, context):
        logits, looks, states = table.step(tokens, states, context)
        return logits, [looks, looks], states

    twice = table.search(ka.beam_search, step=split, width=3, coverage_penalty=0.4)
    once = table.search(ka.beam_search, width=3, coverage_penalty=0.8)
    same([*twice[:4], twice.alignments[1]], [*once])


def test_half_precision_is_summed_in_float32():
    table = Table(batch=2, end_bias=0.5)

    def half(tokens, states, context):
        logits, looks, states = table.step(tokens, states, context)
        return ops.cast(logits, "float16"), ops.cast(looks, "float16"), states

    for function, options in SEARCHES.values():
        found = table.search(function, step=half, **options)
        assert keras.backend.standardize_dtype(found.log_probs.dtype) == "float32"
        assert keras.backend.standardize_dtype(found.scores.dtype) == "float32"
        assert keras.backend.standardize_dtype(found.alignments.dtype) == "float16"
        whole = table.search(function, **options)
        close(found.log_probs, to_numpy(whole.log_probs), 2e-2)


def test_tokens_are_int32():
    for function, options in SEARCHES.values():
        found = Table().search(function, **options)
        for x in (found.tokens, found.lengths):
            assert keras.backend.standardize_dtype(x.dtype) == "int32"


# Sampling.

ROWS = 4000
CHAIN = np.array(
    [[0.5, 0.2, 0.25, 0.05], [0, 1, 0, 0], [0.1, 0.3, 0.2, 0.4], [0.4, 0.1, 0.2, 0.3]],
    "float32",
)


def chain(tokens, states, context):
    """Each token depends on the one before it."""
    logits = np.log(np.maximum(CHAIN, 1e-30))
    return ops.take(ops.convert_to_tensor(logits), tokens, axis=0), None, states


def draw(length=2, rows=ROWS, start=0, seed=1, **options):
    start = np.full(rows, start)
    return ka.sample(chain, [], start, END, max_length=length, seed=seed, **options)


def chain_log_probs(tokens):
    """After the end all is certain, in the table as in a search."""
    tokens = ops.convert_to_numpy(tokens)
    before = np.concatenate([np.zeros((len(tokens), 1), int), tokens[:, :-1]], axis=1)
    return np.log(CHAIN[before, tokens]).sum(1)


def frequent(tokens, expected):
    """Frequencies of tuples of tokens, within 4 standard deviations."""
    tokens = ops.convert_to_numpy(tokens)
    counts = np.zeros(expected.shape)
    np.add.at(counts, tuple(tokens.T), 1)
    bound = 4 * np.sqrt(expected * (1 - expected) / len(tokens))
    assert (np.abs(counts / len(tokens) - expected) <= bound + 1e-9).all()
    assert (counts[expected == 0] == 0).all()


def test_frequencies_of_pairs():
    """Rows and steps are drawn independently."""
    frequent(draw().tokens, CHAIN[0][:, None] * CHAIN)


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_temperature(temperature):
    sharpened = CHAIN ** (1 / temperature)
    sharpened /= sharpened.sum(1, keepdims=True)
    found = draw(temperature=temperature)
    frequent(found.tokens, sharpened[0][:, None] * sharpened)


def test_a_low_temperature_is_greedy():
    greedy = ka.greedy_search(chain, [], np.array([0, 2]), END, max_length=3)
    found = ka.sample(
        chain, [], np.array([0, 2]), END, max_length=3, temperature=1e-3, seed=0
    )
    equal(found.tokens, ops.convert_to_numpy(greedy.tokens))


# What is kept of the first row: 0.5, 0.25, 0.2, 0.05 by size.
KEPT = {
    "top_k-1": ({"top_k": 1}, [1, 0, 0, 0]),
    "top_k-2": ({"top_k": 2}, [0.5, 0, 0.25, 0]),
    "top_k-3": ({"top_k": 3}, [0.5, 0.2, 0.25, 0]),
    "top_p-0.01": ({"top_p": 0.01}, [1, 0, 0, 0]),
    "top_p-0.49": ({"top_p": 0.49}, [1, 0, 0, 0]),
    "top_p-0.7": ({"top_p": 0.7}, [0.5, 0, 0.25, 0]),
    "top_p-0.8": ({"top_p": 0.8}, [0.5, 0.2, 0.25, 0]),
    "top_p-0.97": ({"top_p": 0.97}, [0.5, 0.2, 0.25, 0.05]),
    "both": ({"top_k": 3, "top_p": 0.7}, [0.5, 0, 0.25, 0]),
    "other": ({"top_k": 2, "top_p": 0.97}, [0.5, 0, 0.25, 0]),
    "hot": ({"top_k": 2, "temperature": 0.5}, [0.25, 0, 0.0625, 0]),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_is_drawn_from(name):
    options, expected = KEPT[name]
    expected = np.array(expected)
    frequent(draw(1, **options).tokens, expected / expected.sum())


@pytest.mark.parametrize("options", [{"top_k": 4}, {"top_k": 99}, {"top_p": 1.0}], ids=str)
def test_keeping_everything(options):
    same([draw(3, 50, **options).tokens], [draw(3, 50).tokens])


def test_log_probs_are_the_models():
    found = draw(3, 50, temperature=0.5, top_k=3)
    close(found.log_probs, chain_log_probs(found.tokens), 1e-4)
    close(found.scores, to_numpy(found.log_probs), 0)


def test_ended_rows_stay_ended():
    found = draw(6, 300)
    tokens = ops.convert_to_numpy(found.tokens)
    ended = np.cumsum(tokens == END, axis=1) > 0
    assert ended.any(1).any()
    assert (tokens[ended] == END).all()
    equal(found.lengths, np.minimum((~ended).sum(1) + 1, 6))


def test_seeds():
    first, again, other = draw(seed=1), draw(seed=1), draw(seed=2)
    equal(again.tokens, ops.convert_to_numpy(first.tokens))
    assert (ops.convert_to_numpy(other.tokens) != ops.convert_to_numpy(first.tokens)).any()
    generators = [keras.random.SeedGenerator(5) for _ in range(2)]
    one, two = draw(seed=generators[0]), draw(seed=generators[0])
    equal(draw(seed=generators[1]).tokens, ops.convert_to_numpy(one.tokens))
    assert (ops.convert_to_numpy(one.tokens) != ops.convert_to_numpy(two.tokens)).any()
    free = [ops.convert_to_numpy(draw(seed=None).tokens) for _ in range(2)]
    assert (free[0] != free[1]).any()


# Scheduled sampling: training on the model's own tokens.


def counting(tokens, states, context):
    """Says the number after the token it got: the logits show which that was."""
    return 99.0 * ops.one_hot((tokens + 1) % 20, 20), None, states


def mixed(tokens, rate, seed=0, step=counting, words=20):
    logits = ka.scheduled_sampling(step, [], tokens, words, rate=rate, seed=seed)
    assert tuple(logits.shape) == (*tokens.shape, words)
    return to_numpy(logits)


def test_a_rate_of_0_is_teacher_forcing():
    tokens = np.random.default_rng(0).integers(0, 20, (5, 7))
    said = mixed(tokens, 0.0).argmax(-1)
    np.testing.assert_array_equal(said, (tokens + 1) % 20)


def test_a_rate_of_1_follows_the_model():
    tokens = np.random.default_rng(0).integers(0, 20, (5, 7))
    said = mixed(tokens, 1.0).argmax(-1)
    np.testing.assert_array_equal(said, (tokens[:, :1] + 1 + np.arange(7)) % 20)


@pytest.mark.parametrize("rate", [0.25, 0.7])
def test_a_share_of_the_tokens_is_the_models_own(rate):
    """Drawn for each step and row by itself, never for the first step."""
    tokens = np.full((400, 11), 5)
    tokens[:, 0] = 8  # a count from there neither meets 5 nor starts anew
    got = mixed(tokens, rate).argmax(-1) - 1
    own = got != tokens
    assert not own[:, 0].any()
    share = own[:, 1:].mean()
    assert abs(share - rate) < 4 * np.sqrt(rate * (1 - rate) / 4000)
    assert (got[:, 1:][own[:, 1:]] == (got[:, :-1] + 1)[own[:, 1:]]).all()
    assert 0 < own[:, 1].mean() < 1
    assert 0 < own[0, 1:].mean() < 1
    scalar = mixed(tokens, ops.convert_to_tensor(rate)).argmax(-1)
    np.testing.assert_array_equal(scalar - 1, got)
    other = mixed(tokens, rate, seed=1).argmax(-1)
    assert (other - 1 != got).any()


def test_own_tokens_are_drawn_from_the_models_distribution():
    start = np.zeros((ROWS, 2), int)
    logits = mixed(start, 1.0, step=chain, words=4)
    rows = np.log(np.maximum(CHAIN, 1e-30))
    got = np.abs(logits[:, 1, None] - rows).sum(-1).argmin(-1)
    frequent(got[:, None], CHAIN[0])


@pytest.mark.parametrize("order", ["bahdanau", "luong"])
@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_scheduled_sampling_of_a_decoder(order, rate):
    model = translator(order)
    tokens = np.array([[1, 3, 5, 4], [1, 2, 2, 6], [1, 4, 3, 3]])
    logits = ka.scheduled_sampling(
        model.step,
        [*map(tensor, START), *model.decoder.get_initial_state(3)[2:]],
        tokens,
        7,
        rate=rate,
        context=model.decoder.prepare_memory(model.sources(SENTENCES), SENTENCES != 0),
        seed=4,
    )
    output = model.decoder(
        model.words(tokens),
        model.sources(SENTENCES),
        memory_mask=SENTENCES != 0,
        initial_state=list(START),
    )
    forced = to_numpy(model.speak(output))
    close(logits[:, 0], forced[:, 0])
    if rate == 0:
        close(logits, forced)
    else:
        assert np.abs(to_numpy(logits) - forced)[:, 1:].max() > 1e-2


@tensorflow_only
@pytest.mark.parametrize("jit_compile", [False, True])
def test_no_gradient_passes_through_the_draw(jit_compile):
    import tensorflow as tf

    weights = tf.Variable(np.log(CHAIN.clip(1e-3)))

    def step(tokens, states, context):
        return tf.gather(weights, tokens), None, states

    @tf.function(jit_compile=jit_compile)
    def slopes(tokens):
        with tf.GradientTape() as tape:
            logits = ka.scheduled_sampling(step, [], tokens, 4, rate=1.0, seed=3)
            loss = tf.reduce_sum(logits[:, 1, 2])
        return tape.gradient(loss, weights), logits

    found, logits = slopes(tf.zeros((6, 2), tf.int32))
    rows = np.abs(logits.numpy()[:, 1, None] - weights.numpy()).sum(-1).argmin(-1)
    expected = np.zeros((4, 4))
    np.add.at(expected, (rows, 2), 1)
    close(found, expected)


# Errors.


@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize(("low", "high"), [(0, 0), (3, 3), (4, 3), (-1, 3)])
def test_bad_lengths(name, low, high):
    function, options = SEARCHES[name]
    with pytest.raises(ValueError, match=rf"min_length={low}, max_length={high}"):
        Table().search(function, min_length=low, max_length=high, **options)


@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize("tokens", [np.zeros((2, 1), int), np.array(3)])
def test_bad_start_tokens(name, tokens):
    function, options = SEARCHES[name]
    with pytest.raises(ValueError, match=r"start_tokens.*\(B,\).*Received"):
        function(chain, [], tokens, END, max_length=3, **options)


@pytest.mark.parametrize("width", [0, -1, 2.5, True, None])
def test_bad_widths(width):
    with pytest.raises(ValueError, match="Expected `width`"):
        Table().search(ka.beam_search, width=width)


def test_coverage_of_nothing():
    with pytest.raises(ValueError, match=r"alignments.*coverage"):
        ka.beam_search(chain, [], np.array([0]), END, max_length=3, coverage_penalty=0.1)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"temperature": 0.0}, "temperature"),
        ({"temperature": -1.0}, "temperature"),
        ({"top_p": 0.0}, "top_p"),
        ({"top_p": 1.1}, "top_p"),
        ({"top_k": 0}, "top_k"),
        ({"top_k": 1.5}, "top_k"),
    ],
)
def test_bad_options_of_sampling(options, name):
    with pytest.raises(ValueError, match=rf"Expected.*`{name}`.*Received"):
        draw(**options)
