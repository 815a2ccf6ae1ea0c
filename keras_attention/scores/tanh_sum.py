"""`sum_d v_d tanh(q_id + k_jd)` for all pairs `i, j`, without a hidden layer per pair.

`tanh(a + b) = 1 - 2 / (1 + e^{2a} e^{2b})` needs exponentials once for each query and each
key; a pair costs a product, a sum and its share of a division, as several fractions are
brought to one denominator. The sum runs in the outermost loop, so that the compiler (XLA)
makes each chunk of it one pass over an array `(Tq, Tk)`. The slope needs no tanh either:
`1 - tanh(a + b)^2 = 4 / (2 + e^{2a} e^{2b} + e^{-2a} e^{-2b})`.
"""

import functools
import math

import keras
from keras import ops

from keras_attention.axes import batch_size

# A hidden layer of fewer numbers than this is quicker computed as it stands.
SMALL = 2**22
# Beyond it e^{2a} is not a float32 any more (44.4), or no precise one (-43.6).
RANGE = 43.0
# A larger e^{2a} e^{2b} makes tanh 1 in float32; four such still multiply to a float32.
LARGEST = 4e8
FRACTIONS = 4
CHUNK = 16


def tanh_sum(query, key, vector):
    """`sum_d vector_d tanh(query_id + key_jd)`.

    Args:
        query: `(..., Tq, D)`.
        key: `(..., Tk, D)`.
        vector: `(D,)`.

    Returns:
        Sums `(..., Tq, Tk)`.
    """
    dtype = query.dtype
    if not _is_compiled(dtype):
        return plain(query, key, vector)
    lengths = query.shape[-2], key.shape[-2]
    if None in lengths or min(lengths) < 2:
        return plain(query, key, vector)
    rows = batch_size((query[..., 0, 0] + key[..., 0, 0]).shape)
    small = rows * math.prod(lengths) * query.shape[-1] < SMALL
    return (plain if small else _folded)(query, key, vector)


def numbers_per_pair(dtype, depth):
    """How many numbers `tanh_sum` keeps for each pair."""
    return 1 if _is_compiled(dtype) else depth


def _is_compiled(dtype):
    dtype = keras.backend.standardize_dtype(dtype)
    return keras.backend.backend() != "torch" and dtype != "float64"


def plain(query, key, vector):
    """The formula as it stands."""
    hidden = ops.tanh(ops.expand_dims(query, -2) + ops.expand_dims(key, -3))
    # A matrix product: half the time of multiplying by `vector` and adding up.
    *axes, depth = ops.shape(hidden)
    vector = ops.expand_dims(vector, -1)
    return ops.reshape(ops.matmul(ops.reshape(hidden, (-1, depth)), vector), axes)


def _folded(query, key, vector):
    """With one axis of batches, in float32."""
    dtype, queries, keys = query.dtype, query.shape[-2], key.shape[-2]
    lead = ops.shape(query[..., 0, 0] + key[..., 0, 0])
    query, key = (_fold(x, lead) for x in (query, key))
    vector = ops.cast(vector, "float32")
    sums = _sums(query, key, vector)
    return ops.cast(ops.reshape(sums, (*lead, queries, keys)), dtype)


def _fold(x, lead):
    *_, length, depth = x.shape
    x = ops.broadcast_to(ops.cast(x, "float32"), (*lead, length, depth))
    return ops.reshape(x, (-1, length, depth))


def _compiler():
    if keras.backend.backend() == "tensorflow":
        from keras_attention import tensorflow_gradients

        return tensorflow_gradients
    from keras_attention import jax_gradients

    return jax_gradients


@functools.cache
def _compiled(function):
    return _compiler().compiled(function)


def _choose(quick, exact):
    """The quick function of `(query, key, ...)` while powers are in range, or the exact."""

    def run(query, key, *others):
        in_range = [ops.all(ops.abs(x) < RANGE) for x in (query, key)]
        return ops.cond(
            ops.logical_and(*in_range),
            lambda: _compiled(quick)(query, key, *others),
            lambda: _compiled(exact)(query, key, *others),
        )

    return run


def _sums(query, key, vector):
    forward = _choose(_quick_sums, _exact_sums)
    backward = _choose(_quick_gradients, _exact_gradients)
    return _compiler().differentiable(forward, backward)(query, key, vector)


# The four functions that are compiled.


def _quick_sums(query, key, vector):
    products = ops.exp(2 * _as_rows(query)), ops.exp(2 * _as_columns(key))
    weights = ops.reshape(vector, (-1, 1, 1, 1))
    total = _contract(weights, [products], _add_fractions(_one_more))
    return ops.sum(vector) - 2 * total


def _exact_sums(query, key, vector):
    pair = _as_rows(query), _as_columns(key)
    weights = ops.reshape(vector, (-1, 1, 1, 1))
    return _contract(weights, [pair], _add_terms(ops.tanh))


def _quick_gradients(query, key, vector, upstream):
    def powers(x):
        return ops.exp(2 * x), ops.exp(-2 * x)

    def slopes(x, other, upstream):
        pairs = list(zip(powers(_steps_first(x)), powers(_steps_last(other)), strict=True))
        return _contract(_outermost(upstream), pairs, _add_fractions(_cosh))

    per_query = slopes(key, query, ops.swapaxes(upstream, 1, 2))
    per_key = slopes(query, key, upstream)
    pair = ops.exp(2 * _steps_first(query)), ops.exp(2 * _steps_last(key))
    halves = _contract(_outermost(upstream), [pair], _add_fractions(_one_more))
    per_depth = ops.sum(upstream) - 2 * ops.sum(halves, axis=(1, 2))
    return _as_gradients(4 * per_query, 4 * per_key, per_depth, vector)


def _exact_gradients(query, key, vector, upstream):
    def contract(x, other, upstream, function):
        pair = _steps_first(x), _steps_last(other)
        return _contract(_outermost(upstream), [pair], _add_terms(function))

    def slope(x):
        return 1 - ops.square(ops.tanh(x))

    per_query = contract(key, query, ops.swapaxes(upstream, 1, 2), slope)
    per_key = contract(query, key, upstream, slope)
    per_depth = ops.sum(contract(query, key, upstream, ops.tanh), axis=(1, 2))
    return _as_gradients(per_query, per_key, per_depth, vector)


def _as_gradients(per_query, per_key, per_depth, vector):
    """From `(D, B, T)`, before the multiplication by `vector`."""
    back = [ops.transpose(x, (1, 2, 0)) * vector for x in (per_query, per_key)]
    return *back, per_depth


# Layouts of `(B, T, D)`. First comes the axis that is summed over: the depth for the
# sums themselves, the steps of one side for the gradients of the other.


def _as_rows(query):
    return ops.expand_dims(ops.transpose(query, (2, 0, 1)), 3)


def _as_columns(key):
    return ops.expand_dims(ops.transpose(key, (2, 0, 1)), 2)


def _steps_first(x):
    return ops.expand_dims(ops.transpose(x, (1, 2, 0)), 3)


def _steps_last(x):
    return ops.expand_dims(ops.transpose(x, (2, 0, 1)), 0)


def _outermost(upstream):
    return ops.expand_dims(ops.transpose(upstream, (1, 0, 2)), 1)


def _contract(weights, pairs, add):
    """A sum over the first axis, some terms at a time.

    Args:
        weights: one for each term.
        pairs: factors of each term; a first axis of 1 stands for all terms.
        add: takes the sum so far, and lists of weights and of tuples of pairs.
    """
    count = weights.shape[0]
    size = min(CHUNK, count + -count % FRACTIONS)
    chunks = -(-count // size)
    shapes = [ops.shape(x)[1:] for pair in [(weights,), *pairs] for x in pair]
    start = ops.zeros([_longest(sizes) for sizes in zip(*shapes, strict=True)])
    # Further terms weigh nothing.
    weights = _lengthen(weights, chunks * size)
    pairs = [
        [x if x.shape[0] == 1 else _lengthen(x, chunks * size) for x in pair]
        for pair in pairs
    ]

    def step(i, total):
        parts = [[_chunk(x, i * size, size) for x in pair] for pair in pairs]
        terms = zip(*(zip(*part, strict=True) for part in parts), strict=True)
        return add(total, _chunk(weights, i * size, size), list(terms))

    return ops.fori_loop(0, chunks, step, start)


def _longest(sizes):
    """The size that the others, which are 1, broadcast to."""
    return next((size for size in sizes if not isinstance(size, int) or size > 1), 1)


def _lengthen(x, length):
    return ops.pad(x, [[0, length - x.shape[0]], *([0, 0] for _ in x.shape[1:])])


def _chunk(x, start, size):
    """`size` entries along the first axis, as a list."""
    if x.shape[0] == 1:
        return [x[0]] * size
    rest = ops.shape(x)[1:]
    part = ops.slice(x, ops.stack([start, *(0 for _ in rest)]), (size, *rest))
    return [part[j] for j in range(size)]


def _add_terms(function):
    """Adds `weight * function(a + b)`."""

    def add(total, weights, terms):
        for weight, ((a, b),) in zip(weights, terms, strict=True):
            total = total + weight * function(a + b)
        return total

    return add


def _add_fractions(denominator):
    """Adds `weight / denominator(pairs)`, a few at a time with a single division."""

    def add(total, weights, terms):
        for j in range(0, len(terms), FRACTIONS):
            tops = weights[j : j + FRACTIONS]
            bottoms = [denominator(*pairs) for pairs in terms[j : j + FRACTIONS]]
            while len(tops) > 1:
                tops = [
                    tops[i] * bottoms[i + 1] + tops[i + 1] * bottoms[i]
                    for i in range(0, len(tops), 2)
                ]
                bottoms = [bottoms[i] * bottoms[i + 1] for i in range(0, len(bottoms), 2)]
            total = total + tops[0] / bottoms[0]
        return total

    return add


def _one_more(product):
    """`1 + e^{2x}`, from two factors of the power."""
    return 1 + ops.minimum(product[0] * product[1], LARGEST)


def _cosh(product, inverse):
    """`2 + 2 cosh(2x)`, from two factors of either power."""
    both = product[0] * product[1] + (2 + inverse[0] * inverse[1])
    return ops.minimum(both, LARGEST)
