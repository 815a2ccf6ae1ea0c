"""Normalisers against two independent references each, values and gradients."""

import contract
import keras
import numpy as np
import pytest
import references
from keras import ops

import keras_attention as ka
from keras_attention import normalizers

NAMES = normalizers.names()
OPTIONS = {name: [{}] for name in NAMES} | {
    "softmax": [{}, {"temperature": 0.4}, {"temperature": 3.0}]
}
CASES = [(name, options) for name in NAMES for options in OPTIONS[name]]
KEEP = np.random.default_rng(5).random((2, 3, 7)) < 0.6
KEEP[1, 2] = False


def scores_like(shape=(2, 3, 7), seed=0, scale=1.5):
    rng = np.random.default_rng(seed)
    return (scale * rng.normal(size=shape)).astype("float32")


def weights(name, scores, mask=None, dtype="float32", **options):
    layer = normalizers.get(name, dtype=dtype, **options)
    return ops.convert_to_numpy(ops.cast(layer(scores, mask=mask), "float32"))


def close(actual, desired, atol=1e-6):
    np.testing.assert_allclose(actual, desired, atol=atol, rtol=1e-5)


@pytest.mark.parametrize("mask", [None, KEEP, KEEP[:, :1], KEEP[0, 0]])
@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize(("name", "options"), CASES)
def test_equals_both_references(name, options, which, mask):
    scores = scores_like()
    found = weights(name, scores, mask, **options)
    close(found, references.normalise(name, scores, mask, which, **options))
    if mask is not None:
        assert not found[~np.broadcast_to(mask, found.shape)].any()


@pytest.mark.parametrize("name", NAMES)
def test_the_two_references_agree(name):
    for scale in (0.1, 1.5, 30):
        first, second = (
            references.normalise(name, scores_like(scale=scale), KEEP, which)
            for which in (0, 1)
        )
        np.testing.assert_allclose(first, second, atol=1e-12)


@pytest.mark.parametrize("garbage", [np.nan, np.inf, -np.inf, 1e30])
@pytest.mark.parametrize("name", NAMES)
def test_masked_equals_truncated(name, garbage):
    scores = scores_like()
    dirty = np.where(KEEP, scores, np.float32(garbage))
    found = weights(name, dirty, KEEP)
    close(found, weights(name, scores, KEEP))
    for row in np.ndindex(2, 3):
        assert not found[row][~KEEP[row]].any()
        if KEEP[row].any():
            close(found[row][KEEP[row]], weights(name, scores[row][KEEP[row]]))


@pytest.mark.parametrize("name", references.DISTRIBUTIONS)
@pytest.mark.parametrize("scale", [0.01, 1, 100])
def test_rows_sum_to_one(name, scale):
    found = weights(name, scores_like((4, 50), scale=scale))
    assert (found >= 0).all()
    close(found.sum(-1), np.ones(4), 1e-5)


@pytest.mark.parametrize("name", ["sparsemax", "entmax15"])
def test_zeros_are_exact(name):
    scores = scores_like((5, 40))
    found = weights(name, scores)
    expected = references.normalise(name, scores)
    assert ((found == 0) == (expected == 0)).all()
    assert (found == 0).any()


def test_worked_numbers():
    close(weights("softmax", np.log([[1, 2, 5.0]])), [[1 / 8, 2 / 8, 5 / 8]])
    close(weights("softmax", np.array([[0, 1.0]]), temperature=1e-3), [[0, 1]])
    close(weights("sparsemax", np.array([[1, 0.5, -1]])), [[0.75, 0.25, 0]])
    # t = 0: 0.8^2 + 0.6^2 = 1.
    close(weights("entmax15", np.array([[1.6, 1.2, -0.1]])), [[0.64, 0.36, 0]])
    close(weights("sigmoid", np.log([[1, 3.0]])), [[0.5, 0.75]])


SHARING = [n for n in references.DISTRIBUTIONS if n not in references.HARD]


@pytest.mark.parametrize("name", SHARING)
def test_huge_scores(name):
    """The largest wins, equal ones share, and a low score is not a masked one."""
    rows = np.array(
        [[1e30, -1e30, 0], [1e30, 1e30, 3], [-1e30, -1e30, -np.inf], [3e38, -3e38, 1]]
    )
    expected = [[1, 0, 0], [0.5, 0.5, 0], [0.5, 0.5, 0], [1, 0, 0]]
    close(weights(name, rows.astype("float32")), expected)
    mask = np.array([[1, 1, 0]] * 4, bool)
    rows[:, 2] = np.nan
    close(weights(name, rows.astype("float32"), mask), expected)


@pytest.mark.parametrize("name", references.DISTRIBUTIONS)
def test_a_low_score_alone_gets_all_the_weight(name):
    """No constant stands in for minus infinity in a way that a score could beat."""
    for low in (-1e9, -1e30, -3.3e38, np.finfo("float32").min):
        scores = np.array([[low, 7, 1e30]], "float32")
        mask = np.array([[True, False, False]])
        assert weights(name, scores, mask).tolist() == [[1, 0, 0]]


def test_sigmoid_of_huge_scores():
    scores = np.array([[1e30, -1e30, np.inf, -np.inf]], "float32")
    assert weights("sigmoid", scores).tolist() == [[1, 0, 1, 0]]


@pytest.mark.parametrize("name", NAMES)
def test_minus_infinity_is_no_weight_and_alone_it_is_nothing_to_attend(name):
    scores = np.array([[1, -np.inf, 0.5], [-np.inf] * 3], "float32")
    mask = np.ones((2, 3), bool)
    expected = references.normalise(name, scores)
    assert not expected[1].any()
    for kept in (None, mask):
        found = weights(name, scores, kept)
        close(found, expected)
        assert not found[1].any()
        assert found[0, 1] == 0


@pytest.mark.parametrize("name", NAMES)
def test_gradients_stay_finite(name):
    """Huge, infinite, masked: the gradient is a number everywhere."""
    scores = np.array(
        [
            [1e30, -1e30, 0, 2],
            [-np.inf, 1, 2, np.nan],
            [-np.inf, -np.inf, -np.inf, 5],
            [np.nan, np.inf, -np.inf, 1e30],
        ],
        "float32",
    )
    mask = np.array([[1, 1, 1, 1], [1, 1, 1, 0], [1, 1, 1, 0], [0, 0, 0, 0]], bool)
    layer = normalizers.get(name)
    target = scores_like(scores.shape)
    _, found = contract.gradients(
        layer, lambda d: [layer(d["scores"], mask=mask)], {"scores": scores}, [target]
    )
    assert np.isfinite(found["scores"]).all()
    assert not found["scores"][~mask].any()
    assert not found["scores"][3].any()


def jacobian(name, p, temperature=1.0):
    """The closed form, by the weights `p` of one row."""
    if name == "softmax":
        return (np.diag(p) - np.outer(p, p)) / temperature
    if name == "sigmoid":
        return np.diag(p * (1 - p))
    s = (p > 0).astype(float) if name == "sparsemax" else np.sqrt(p)
    return np.diag(s) - np.outer(s, s) / s.sum()


@pytest.mark.parametrize("mask", [None, KEEP])
@pytest.mark.parametrize(("name", "options"), CASES)
def test_gradient_is_the_exact_one(name, options, mask):
    scores, target = scores_like(), scores_like(seed=8)
    layer = normalizers.get(name, **options)
    _, found = contract.gradients(
        layer, lambda d: [layer(d["scores"], mask=mask)], {"scores": scores}, [target]
    )
    p = references.normalise(name, scores, mask, **options)
    for row in np.ndindex(2, 3):
        expected = np.zeros(7)
        keep = slice(None) if mask is None else mask[row]
        if p[row].any():
            own = jacobian(name, p[row][keep], **options)
            expected[keep] = own @ target[row][keep]
        close(found["scores"][row], expected, 1e-5)


@pytest.mark.parametrize("name", ["sparsemax", "entmax15"])
def test_ties_share(name):
    """At a tie the support is one choice of several; the weights are not."""
    for scores in ([[1, 1, 1, 1.0]], [[2, 2, 0.5, 0.5]], [[0, -1, -1, -2.0]]):
        scores = np.array(scores, "float32")
        close(weights(name, scores), references.normalise(name, scores))


@pytest.mark.parametrize("name", NAMES)
def test_one_score(name):
    found = weights(name, np.array([[[3.0]]], "float32"))
    close(found, [[[1 if name in references.DISTRIBUTIONS else 0.9525741]]])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "mixed_float16"])
@pytest.mark.parametrize("name", NAMES)
def test_low_precision_counts_in_float32(name, dtype):
    """Sums over long rows in float16 would drift: 1 + 2^-11 is 1 there."""
    scores = scores_like((2, 5000), scale=0.5)
    layer = normalizers.get(name, dtype=dtype)
    half = ops.cast(scores, layer.compute_dtype)
    found = layer(half)
    assert keras.backend.standardize_dtype(found.dtype) == layer.compute_dtype
    exact = references.normalise(
        name, ops.convert_to_numpy(ops.cast(half, "float32")).astype("float64")
    )
    step = 2**-8 if dtype == "bfloat16" else 2**-11
    found = ops.convert_to_numpy(ops.cast(found, "float32"))
    np.testing.assert_allclose(found, exact, rtol=2 * step, atol=6e-8)
    wide = layer(ops.convert_to_tensor(1e5 * scores))  # float32 scores past 65504
    assert np.isfinite(ops.convert_to_numpy(ops.cast(wide, "float32"))).all()


@pytest.mark.parametrize("name", NAMES)
def test_a_long_row_stays_exact(name):
    """A prefix sum over 3000 scores must not lose the threshold."""
    scores = scores_like((1, 3000), scale=1.0)
    close(weights(name, scores), references.normalise(name, scores), 2e-6)


@pytest.mark.parametrize("temperature", [0, -1.0, float("nan")])
def test_bad_temperature(temperature):
    with pytest.raises(ValueError, match=r"temperature.*Received"):
        ka.Softmax(temperature=temperature)


def test_unknown_name_lists_the_names():
    with pytest.raises(ValueError, match="sofmax") as error:
        ka.Attention(normalizer="sofmax")
    for name in NAMES:
        assert name in str(error.value)


def test_get_takes_names_instances_and_configs():
    layer = ka.Softmax(temperature=0.3)
    assert normalizers.get(layer) is layer
    assert normalizers.get("softmax", temperature=0.3).temperature == 0.3
    config = keras.saving.serialize_keras_object(layer)
    assert normalizers.get(config).temperature == 0.3


def test_a_new_normaliser_is_one_class():
    @normalizers.register("half")
    class Half(normalizers.Normalizer):
        def normalize(self, scores, mask):
            half = ops.full_like(scores, 0.5)
            return half if mask is None else ops.where(mask, half, 0.0)

    try:
        layer = ka.Attention(normalizer="half")
        query, value = np.ones((2, 3, 4), "float32"), np.ones((2, 5, 4), "float32")
        _, found = layer(query, value, return_attention_scores=True)
        assert (ops.convert_to_numpy(found) == 0.5).all()
    finally:
        normalizers.unregister("half")
    assert "half" not in normalizers.names()
