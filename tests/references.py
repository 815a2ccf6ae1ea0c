"""The NumPy definition, in float64, of every score and of every normaliser.

Written from the formulas alone. A newly registered score or normaliser needs an
entry here and nothing else: `test_contract.py` then covers it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Array = np.ndarray
Weights = dict[str, Array]


@dataclass(frozen=True)
class ScoreReference:
    """A formula `(query, key, weights by name) -> (..., Tq, Tk)` and its facts."""

    formula: Callable[[Array, Array, Weights], Array]
    any_query_depth: bool = False  # query and key may differ in depth
    position_aware: bool = False  # depends on where a key stands


SCORES: dict[str, ScoreReference] = {}
# Two independent definitions each, of one row without any masked position.
NORMALIZERS: dict[str, tuple[Callable[..., Array], Callable[..., Array]]] = {}


def score_reference(*names: str, **facts: bool) -> Callable:
    def add(formula: Callable) -> Callable:
        SCORES.update(dict.fromkeys(names, ScoreReference(formula, **facts)))
        return formula

    return add


def score_of(name: str) -> ScoreReference:
    if name not in SCORES:
        raise AssertionError(
            f"The score {name!r} has no NumPy definition: add one to "
            "tests/references.py with @score_reference."
        )
    return SCORES[name]


def pairs(query: Array, key: Array) -> tuple[Array, Array]:
    """Shapes that broadcast to (..., Tq, Tk, depth)."""
    return query[..., :, None, :], key[..., None, :, :]


def inner(query: Array, key: Array) -> Array:
    q, k = pairs(query, key)
    return (q * k).sum(-1)


def logistic(x: Array) -> Array:
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x))


@score_reference("dot")
def dot(query: Array, key: Array, w: Weights) -> Array:
    return w.get("scale", 1.0) * inner(query, key)


@score_reference("scaled_dot")
def scaled_dot(query: Array, key: Array, w: Weights) -> Array:
    return inner(query, key) / np.sqrt(query.shape[-1])


@score_reference("cosine")
def cosine(query: Array, key: Array, w: Weights) -> Array:
    lengths = np.sqrt(inner(query**2, np.ones_like(key)))
    return w.get("scale", 1.0) * (
        inner(query, key) / lengths / np.sqrt(inner(np.ones_like(query), key**2))
    )


@score_reference("bilinear", "general", any_query_depth=True)
def bilinear(query: Array, key: Array, w: Weights) -> Array:
    scores = np.einsum("...qa,ab,...kb->...qk", query, w["kernel"], key)
    return w.get("scale", 1.0) * scores + w.get("bias", 0.0)


@score_reference("additive", "bahdanau", any_query_depth=True)
def additive(query: Array, key: Array, w: Weights) -> Array:
    q, k = pairs(query @ w["query_kernel"], key @ w["key_kernel"])
    v = w["v"]
    if "g" in w:
        v = w["g"] * v / np.sqrt((v**2).sum())
    return np.tanh(q + k + w.get("bias", 0.0)) @ v


@score_reference("concat", any_query_depth=True)
def concat(query: Array, key: Array, w: Weights) -> Array:
    q, k = pairs(query, key)
    steps = np.broadcast_shapes(q.shape[:-1], k.shape[:-1])
    both = [np.broadcast_to(x, (*steps, x.shape[-1])) for x in (q, k)]
    hidden = np.concatenate(both, axis=-1) @ w["kernel"] + w.get("bias", 0.0)
    return np.tanh(hidden) @ w["v"]


@score_reference("location", any_query_depth=True, position_aware=True)
def location(query: Array, key: Array, w: Weights) -> Array:
    return (query @ w["kernel"])[..., : key.shape[-2]]


@score_reference("trilinear")
def trilinear(query: Array, key: Array, w: Weights) -> Array:
    q, k = pairs(query, key)
    q, k = np.broadcast_arrays(q, k)
    kernel = [w["query_kernel"], w["key_kernel"], w["product_kernel"]]
    features = np.concatenate([q, k, q * k], axis=-1)
    return features @ np.concatenate(kernel) + w.get("bias", 0.0)


@score_reference("feed_forward")
def feed_forward(query: Array, key: Array, w: Weights) -> Array:
    hidden = np.tanh(key @ w["kernel"] + w.get("bias", 0.0))
    if "gate_kernel" in w:
        hidden = hidden * logistic(key @ w["gate_kernel"] + w.get("gate_bias", 0.0))
    return inner(query, hidden)


def softmax(z: Array, temperature: float = 1.0) -> Array:
    e = np.exp((z - z.max()) / temperature)
    return e / e.sum()


def softmax_by_logarithms(z: Array, temperature: float = 1.0) -> Array:
    z = z.astype(np.longdouble) / np.longdouble(temperature)
    total = z.max() + np.log(np.exp(z - z.max()).sum())
    return np.exp(z - total).astype(np.float64)


def sparsemax_by_sorting(z: Array) -> Array:
    """Martins and Astudillo 2016, algorithm 1."""
    z = z - z.max()
    ordered = np.sort(z)[::-1]
    sums, sizes = ordered.cumsum(), np.arange(1, z.size + 1)
    size = sizes[1 + sizes * ordered > sums].max()
    return np.maximum(z - (sums[size - 1] - 1) / size, 0)


def entmax15_by_sorting(z: Array) -> Array:
    """Peters, Niculae and Martins 2019, algorithm 2: p = [z/2 - tau]+ ^ 2."""
    z = (z - z.max()) / 2
    ordered = np.sort(z)[::-1]
    for size in range(1, z.size + 1):
        top = ordered[:size]
        spread = size * (top**2).mean() - size * top.mean() ** 2
        if spread > 1:
            break
        tau = top.mean() - np.sqrt((1 - spread) / size)
        if size == z.size or ordered[size] <= tau:
            break
    return np.maximum(z - tau, 0) ** 2


def _bisect(z: Array, power: float) -> Array:
    """p = [z - tau]+ ^ power with tau between max(z) - 1 and max(z)."""
    low, high = z.max() - 1.0, z.max()
    for _ in range(200):
        tau = (low + high) / 2
        if (np.maximum(z - tau, 0) ** power).sum() > 1:
            low = tau
        else:
            high = tau
    return np.maximum(z - tau, 0) ** power


def sparsemax_by_bisection(z: Array) -> Array:
    return _bisect(z - z.max(), 1)


def entmax15_by_bisection(z: Array) -> Array:
    return _bisect((z - z.max()) / 2, 2)


def sigmoid(z: Array) -> Array:
    return logistic(z)


def sigmoid_by_tanh(z: Array) -> Array:
    return (1 + np.tanh(z / 2)) / 2


def most_probable(z: Array, **training: object) -> Array:
    """What hard attention chooses at inference, whatever estimates its derivatives."""
    return np.eye(z.size)[z.argmax()]


def most_probable_by_sorting(z: Array, **training: object) -> Array:
    weights = np.zeros(z.size)
    weights[sorted(range(z.size), key=lambda place: (-z[place], place))[0]] = 1
    return weights


HARD = ("straight_through", "gumbel", "reinforce", "marginal")
NORMALIZERS |= dict.fromkeys(HARD, (most_probable, most_probable_by_sorting))
NORMALIZERS |= {
    "softmax": (softmax, softmax_by_logarithms),
    "sparsemax": (sparsemax_by_sorting, sparsemax_by_bisection),
    "entmax15": (entmax15_by_sorting, entmax15_by_bisection),
    "sigmoid": (sigmoid, sigmoid_by_tanh),
}
DISTRIBUTIONS = ("softmax", "sparsemax", "entmax15", *HARD)  # their weights sum to 1


def normalise(
    name: str, scores: Array, mask: Array | None = None, which: int = 0, **config: float
) -> Array:
    """Drop what is masked, compute, put zeros back: that is the mask rule."""
    if name not in NORMALIZERS:
        raise AssertionError(
            f"The normaliser {name!r} has no NumPy definition: add two to "
            "NORMALIZERS in tests/references.py."
        )
    one_row = NORMALIZERS[name][which]
    scores = np.asarray(scores, np.float64)
    keep = np.ones(scores.shape, bool)
    if mask is not None:
        keep = np.broadcast_to(np.asarray(mask, bool), scores.shape).copy()
    keep &= scores != -np.inf  # minus infinity is how others say "masked"
    weights = np.zeros(scores.shape)
    for row in np.ndindex(scores.shape[:-1]):
        if keep[row].any():
            weights[row][keep[row]] = one_row(scores[row][keep[row]], **config)
    return weights


def attend(
    score: str,
    normalizer: str,
    query: Array,
    value: Array,
    key: Array,
    weights: Weights,
    mask: Array | None = None,
    **config: float,
) -> tuple[Array, Array]:
    """score -> mask -> normalise -> aggregate; `mask` broadcasts to (..., Tq, Tk)."""
    scores = score_of(score).formula(query, key, weights)
    # A score that looks at one of the two alone has the shape of that one.
    leading = np.broadcast_shapes(query.shape[:-2], key.shape[:-2])
    scores = np.broadcast_to(scores, (*leading, query.shape[-2], key.shape[-2]))
    alignment = normalise(normalizer, scores, mask, **config)
    return alignment @ value, alignment
