"""Everything registered x every property: a new score needs no line here.

Each property takes a case: a layer, a score and a normaliser. With `--some-pairs` a
normaliser meets two scores, and all of them where padding must have no influence. The last
test registers a score of its own and puts it through all of them.
"""

import dataclasses
import json

import contract
import keras
import numpy as np
import pytest
import references
from contract import (
    BATCH,
    KEYS,
    LAYERS,
    QUERIES,
    VALUE_DEPTH,
    AttentionCase,
    PoolingCase,
)
from keras import ops

from keras_attention import normalizers, scores

CASES = [
    layer(score, normalizer)
    for layer in LAYERS.values()
    for score in scores.names()
    for normalizer in normalizers.names()
]
GARBAGE = np.array([2.5, np.nan, np.inf, -np.inf, 1e30], "float32")  # one a row
PLACES = [[0, 1, 2, 3, 4], [3, 4, 5, 6, 7], [0, 2, 3, 5, 7]]  # padded right, left, both
HOLES = np.random.default_rng(1).random((BATCH, KEYS)) < 0.6


def close(actual, desired, atol=1e-5, rtol=1e-5):
    np.testing.assert_allclose(actual, desired, atol=atol, rtol=rtol)


def cotangents(case, outputs, seed=3):
    rng = case.rng(seed)
    return [rng.normal(size=y.shape).astype("float32") for y in outputs]


def equals_the_reference(case):
    for variant in (case, case.other(options=())):
        layer, data = contract.built(variant), variant.data()
        weights = contract.weights_of(layer)
        for mask in (None, HOLES):
            output, alignment = contract.run(variant, layer, data, mask)
            expected, expected_alignment = variant.expected(weights, data, mask)
            close(output, expected)
            close(alignment, expected_alignment)
            if mask is not None:
                hidden = np.broadcast_to(_as_weights(mask, alignment), alignment.shape)
                assert not alignment[~hidden].any()
        if case.normalizer in references.DISTRIBUTIONS:
            close(alignment.sum(-1), np.ones(alignment.shape[:-1]))


def _as_weights(mask, alignment):
    """A mask (B, Tk) with the axis of the queries, where the weights have one."""
    return mask if alignment.ndim == mask.ndim else mask[..., None, :]


def padding_has_no_influence(case):
    """Outputs, weights and gradients, whatever stands in the gaps and wherever.

    Outputs are those of the input without its gaps, gradients those with ones in them.
    """
    layer, weights = contract.built(case), contract.weights_of(contract.built(case))
    places = PLACES[:1] if case.reference.position_aware else PLACES
    for steps in places:
        gaps = {name: np.delete(np.arange(KEYS), steps) for name in case.with_keys}
        masks = {case.mask_name: _mask(KEYS, gaps[case.with_keys[0]])}
        if "query" in case.names:
            gaps["query"] = np.array([1])
            masks["query_mask"] = _mask(QUERIES, gaps["query"])
        clean, dirty = case.data(), case.data()
        for name, places_of in gaps.items():
            clean[name][:, places_of] = 1
            dirty[name][:, places_of] = GARBAGE[:, None, None]
        short = {n: x[:, steps] if n in case.with_keys else x for n, x in clean.items()}
        output, alignment = case.expected(weights, short)
        if "query" in gaps:
            output[:, gaps["query"]] = alignment[:, gaps["query"]] = 0

        def call(d, masks=masks):
            return case.call(layer, d, **masks)

        targets = cotangents(case, contract.run(case, layer, clean, **masks))
        (found, found_alignment), slopes = contract.gradients(layer, call, dirty, targets)
        close(found, output)
        close(found_alignment[..., steps], alignment)
        assert not np.delete(found_alignment, steps, axis=-1).any()
        if "query" in gaps:
            assert not found[:, gaps["query"]].any()
        _, expected = contract.gradients(layer, call, clean, targets)
        for name, slope in slopes.items():
            close(slope, expected[name])
            if name in gaps and name in case.names:
                assert not slope[:, gaps[name]].any(), name


def _mask(steps, gaps):
    mask = np.ones((BATCH, steps), bool)
    mask[:, gaps] = False
    return mask


def nothing_to_attend_is_zero(case):
    layer, data, clean = contract.built(case), case.data(), case.data()
    mask, empty = np.ones((BATCH, KEYS), bool), [0, 3]
    mask[empty] = False
    for name in case.with_keys:
        data[name][empty] = np.nan
    plain = contract.run(case, layer, clean)
    targets = cotangents(case, plain)
    outputs, found = contract.gradients(
        layer, lambda d: case.call(layer, d, mask), data, targets
    )
    for target, actual, desired in zip(targets, outputs, plain, strict=True):
        target[empty] = 0
        assert not actual[empty].any()
        close(np.delete(actual, empty, 0), np.delete(desired, empty, 0))
    _, expected = contract.gradients(layer, lambda d: case.call(layer, d), clean, targets)
    for name, gradient in found.items():
        if name in case.names:
            assert not gradient[empty].any(), name
        close(gradient, expected[name])


def gradients_equal_numeric_differences(case):
    layer, data = contract.built(case), case.data()
    weights = contract.weights_of(layer)
    targets = cotangents(case, case.expected(weights, data, HOLES))
    _, found = contract.gradients(
        layer, lambda d: case.call(layer, d, HOLES), data, targets
    )

    def loss(variables):
        inputs = {name: variables[name] for name in case.names}
        own = {name: variables[f"own {name}"] for name in weights}
        outputs = case.expected(own, inputs, HOLES)
        return sum((y * t).sum() for y, t in zip(outputs, targets, strict=True))

    # An input and a weight may have one name ("query").
    variables = {f"own {name}": x for name, x in weights.items()}
    variables |= {name: x.astype("float64") for name, x in data.items()}
    found = {n if n in data else f"own {n}": g for n, g in found.items()}
    assert max(np.abs(g).max() for g in found.values()) > 0.01
    rng = case.rng(7)
    directions = {n: rng.normal(size=x.shape) for n, x in variables.items()}
    slopes = contract.numeric_slopes(loss, variables, directions)
    for name, slope in slopes.items():
        close((found[name] * directions[name]).sum(), slope, 1e-4, 1e-4)


def order_of_keys_does_not_matter(case):
    if case.reference.position_aware:
        return
    layer, data = contract.built(case), case.data()
    order = [3, 0, 4, 7, 2, 1, 6, 5]
    shuffled = data | {name: data[name][:, order] for name in case.with_keys}
    output, alignment = contract.run(case, layer, data, HOLES)
    moved, moved_alignment = contract.run(case, layer, shuffled, HOLES[:, order])
    close(moved, output)
    close(moved_alignment, alignment[..., order])


def symbolic_shapes_equal_real_ones(case):
    layer, data = contract.built(case), case.data()
    real = [y.shape for y in contract.run(case, layer, data)]
    mask = keras.Input(batch_shape=(BATCH, KEYS), dtype="bool")
    inputs = {n: keras.Input(batch_shape=x.shape) for n, x in data.items()}
    assert [tuple(y.shape) for y in case.call(layer, inputs, mask)] == real
    alone = case.call(layer, inputs, mask, return_attention_scores=False)
    assert tuple(alone.shape) == real[0]

    inputs = contract.symbolic(data)
    output, alignment = case.call(layer, inputs)
    assert output.shape == (*(None for _ in real[0][:-1]), real[0][-1])
    assert alignment.shape == tuple(None for _ in real[1])
    model = keras.Model(inputs, [output, alignment])
    for other in (case.data(batch=1, keys=1), data):
        for y, expected in zip(model(other), case.call(layer, other), strict=True):
            close(contract.to_numpy(y), contract.to_numpy(expected))


def config_gives_the_layer_back(case):
    """Every argument of layer, score and normaliser, none at its default."""
    score = contract.registered_class(scores, case.score)
    score = score(**contract.every_argument(score), name="my_score")
    normalizer = contract.registered_class(normalizers, case.normalizer)
    normalizer = normalizer(**contract.every_argument(normalizer))
    layer_class = type(case.make())
    arguments = contract.every_argument(layer_class, score=score, normalizer=normalizer)
    if "units" in contract.parameters(type(score)):
        assert score.units == arguments["units"]  # they have to agree
    else:
        del arguments["units"]
    if "gated" in arguments and "gated" not in contract.parameters(type(score)):
        del arguments["gated"]
    standard = {"name": "mine", "dtype": "float16", "trainable": False}
    layer = layer_class(**arguments, **standard)
    text = json.dumps(keras.saving.serialize_keras_object(layer))
    again = keras.saving.deserialize_keras_object(json.loads(text))
    assert json.dumps(keras.saving.serialize_keras_object(again)) == text
    assert type(layer).from_config(layer.get_config()).get_config() == (layer.get_config())
    assert (again.name, again.dtype, again.trainable) == ("mine", "float16", False)
    for part, copy in (
        (layer, again),
        (layer.score, again.score),
        (layer.normalizer, again.normalizer),
    ):
        config, copied = part.get_config(), copy.get_config()
        for name in contract.parameters(type(part)):
            assert config[name] == copied[name], name
    for part, copy in ((score, again.score), (normalizer, again.normalizer)):
        for name, value in contract.every_argument(type(part)).items():
            if isinstance(value, int | float | str | bool):
                assert getattr(copy, name) == value, name


def clones_and_copies_compute_the_same(case):
    data = case.data()
    inputs = contract.symbolic(data)
    mask = keras.Input((None,), dtype="bool")
    layer = case.make()
    model = keras.Model([inputs, mask], case.call(layer, inputs, mask))
    contract.randomise(layer)
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    copy = type(layer).from_config(layer.get_config())
    case.call(copy, data)
    copy.set_weights(layer.get_weights())
    expected = contract.run(case, layer, data, HOLES)
    for outputs in (model([data, HOLES]), clone([data, HOLES])):
        for y, desired in zip(outputs, expected, strict=True):
            close(contract.to_numpy(y), desired, 1e-6)
    for y, desired in zip(contract.run(case, copy, data, HOLES), expected, strict=True):
        close(y, desired, 1e-6)


def low_precision(case):
    """float16, bfloat16 and mixed_float16 near float32; finite past 65504."""
    # A hard choice is the same where scores are far apart.
    scale = 2.0 if case.normalizer in references.HARD else 0.5
    data = {n: x.astype("float16") for n, x in case.data(scale=scale).items()}
    garbage = {n: x.copy() for n, x in data.items()}
    for name in case.with_keys:
        garbage[name][~HOLES] = np.nan
    for dtype, tolerance in (
        ("float16", 5e-3),
        ("mixed_float16", 5e-3),
        ("bfloat16", 5e-2),
    ):
        half = case.other(dtype=dtype)
        layer = contract.built(half)
        compute = layer.compute_dtype
        inputs = {n: ops.cast(x, compute) for n, x in data.items()}
        expected = half.expected(
            contract.weights_of(layer),
            {n: contract.to_numpy(x) for n, x in inputs.items()},
            HOLES,
        )
        padded = {n: ops.cast(x, compute) for n, x in garbage.items()}
        outputs = half.call(layer, padded, HOLES)
        rows = _rows_without_ties(half, contract.weights_of(layer), inputs)
        for y, desired in zip(outputs, expected, strict=True):
            assert keras.backend.standardize_dtype(y.dtype) == compute
            close(contract.to_numpy(y)[rows], desired[rows], tolerance, 0)


def _rows_without_ties(case, weights, inputs):
    """Where rounding cannot change which score is the largest, if that matters.

    That may be no row: where a layer starts with scores that are all but equal.
    """
    if case.normalizer not in references.HARD:
        return ...
    data = {n: contract.to_numpy(x) for n, x in inputs.items()}
    _, soft = case.other(normalizer="softmax").expected(weights, data, HOLES)
    second, first = np.moveaxis(np.sort(soft, -1)[..., -2:], -1, 0)
    rounding = 0.03 if case.dtype == "bfloat16" else 0.005
    return first > (1 + rounding) * second


def large_products_stay_finite_in_float16(case):
    half = case.other(dtype="float16")
    layer, data = contract.built(half), half.data()
    data = {
        name: (x if name == "value" else 200 * x).astype("float16")
        for name, x in data.items()
    }
    mask = HOLES.copy()
    mask[0] = False
    ones = [np.ones(y.shape, "float32") for y in contract.run(half, layer, data)]
    outputs, found = contract.gradients(
        layer, lambda d: half.call(layer, d, mask), data, ones
    )
    for y in outputs:
        assert np.isfinite(y).all()
        assert not y[0].any()
    for name in data:
        assert np.isfinite(found[name]).all(), name
    if case.normalizer in references.DISTRIBUTIONS:
        close(outputs[1][1].sum(-1), np.ones(outputs[1].shape[1:-1]), 1e-2)


def compiles(case):
    """XLA gives what eager execution gives, masked garbage included."""
    layer, data = contract.built(case), case.data()
    for name in case.with_keys:
        data[name][~HOLES] = np.nan
    outputs = contract.compiled(lambda d: case.call(layer, d, HOLES), data)
    for y, expected in zip(outputs, contract.run(case, layer, data, HOLES), strict=True):
        close(y, expected)


def returned_weights_are_those_used(case):
    """output = weights @ values; with dropout, what is returned is before it."""
    layer, data = contract.built(case), case.data()
    values = data.get("value", data.get("inputs"))
    output, alignment = contract.run(case, layer, data)
    rows = alignment if alignment.ndim == 3 else alignment[:, None]
    close(output, (rows @ values).reshape(output.shape))
    alone = case.call(layer, data, return_attention_scores=False)
    close(contract.to_numpy(alone), output, 1e-6)

    dropping = case.make(dropout=0.5, seed=7)
    case.call(dropping, data)
    dropping.set_weights(layer.get_weights())
    close(contract.run(case, dropping, data)[0], output, 1e-6)
    dropped, returned = contract.run(case, dropping, data, training=True)
    close(returned, alignment, 1e-6)
    assert np.abs(dropped - output).max() > 1e-3


def leading_axes_are_independent(case):
    """(B, S, ...) equals a loop over S, masks included."""
    layer = contract.built(case)
    slices = [case.data(seed=seed) for seed in range(4)]
    rng = case.rng(9)
    masks = [rng.random((BATCH, KEYS)) < 0.6 for _ in slices]
    masks[2][:] = False
    data = {n: np.stack([s[n] for s in slices], axis=1) for n in case.names}
    mask = np.stack(masks, axis=1)
    outputs = contract.run(case, layer, data, mask)
    for i, (one, one_mask) in enumerate(zip(slices, masks, strict=True)):
        expected = contract.run(case, layer, one, one_mask)
        for y, desired in zip(outputs, expected, strict=True):
            close(y[:, i], desired)


def carried_masks_equal_explicit_ones(case):
    """... an explicit one wins, and inputs keep their numbers and their masks."""
    layer, data = contract.built(case), case.data()
    masks = {}
    for name in case.names:
        steps = HOLES if name in case.with_keys else HOLES[:, -QUERIES:]
        data[name][~steps] = 0
        masks[name] = steps
    attach = keras.layers.Masking(0.0)
    tensors = {n: ops.convert_to_tensor(x) for n, x in data.items()}
    carrying = {n: attach(x) for n, x in tensors.items()}
    own = {"query_mask": masks["query"]} if "query" in masks else {}
    expected = contract.run(case, layer, tensors, HOLES, **own)
    means = {n: keras.layers.GlobalAveragePooling1D()(x) for n, x in carrying.items()}
    for _ in range(2):
        for y, desired in zip(contract.run(case, layer, carrying), expected, strict=True):
            close(y, desired, 1e-6)
    for name, x in carrying.items():
        np.testing.assert_array_equal(contract.to_numpy(x), data[name])
        mean = keras.layers.GlobalAveragePooling1D()(x)
        close(contract.to_numpy(mean), contract.to_numpy(means[name]), 0)
    if "query" in masks:
        assert not expected[0][~masks["query"]].any()
        # What leaves is the query's mask: a mean over the output leaves the rest out.
        steps = masks["query"].sum(1, keepdims=True)
        for output in (
            case.call(layer, carrying)[0],
            case.call(layer, tensors, HOLES, **own)[0],
        ):
            mean = keras.layers.GlobalAveragePooling1D()(output)
            close(contract.to_numpy(mean) * steps, expected[0].sum(1))
        own["key_mask"] = np.ones_like(HOLES)
    everything = np.ones_like(HOLES)
    for y, desired in zip(
        contract.run(case, layer, carrying, everything, **own),
        contract.run(case, layer, tensors, everything, **own),
        strict=True,
    ):
        close(y, desired, 1e-6)


def blocks_of_queries_change_nothing(case):
    """Outputs and gradients, with and without masks, a block that fits and one that not."""
    if "query" not in case.names:
        return
    whole, data = contract.built(case), case.data()
    rng = case.rng(13)
    pairs = rng.random((BATCH, QUERIES, KEYS)) < 0.6
    pairs[2, 1] = False
    data["query"][2, 1] = np.nan
    for block, masks in ((2, {"attention_mask": pairs, "key_mask": HOLES}), (1, {})):
        if not masks:
            data = case.data()
        layer = case.make(block_size=block)
        case.call(layer, data)
        layer.set_weights(whole.get_weights())
        target = [rng.normal(size=(BATCH, QUERIES, VALUE_DEPTH)).astype("float32")]
        results = []
        for one in (whole, layer):

            def call(d, one=one, masks=masks):
                return [case.call(one, d, return_attention_scores=False, **masks)]

            results.append(contract.gradients(one, call, data, target))
        ((expected,), slopes), ((found,), found_slopes) = results
        close(found, expected)
        for name, slope in slopes.items():
            close(found_slopes[name], slope)
        assert not masks or not found[2, 1].any()
        rows = case.call(
            layer, data, return_attention_scores=False, attention_rows=[2, 0], **masks
        )[1]
        alignment = contract.run(case, whole, data, **masks)[1]
        close(contract.to_numpy(rows), alignment[:, [2, 0]], 1e-6)


PROPERTIES = [
    blocks_of_queries_change_nothing,
    equals_the_reference,
    padding_has_no_influence,
    nothing_to_attend_is_zero,
    gradients_equal_numeric_differences,
    order_of_keys_does_not_matter,
    symbolic_shapes_equal_real_ones,
    config_gives_the_layer_back,
    clones_and_copies_compute_the_same,
    low_precision,
    large_products_stay_finite_in_float16,
    compiles,
    returned_weights_are_those_used,
    leading_axes_are_independent,
    carried_masks_equal_explicit_ones,
]
if keras.backend.backend() == "torch":
    PROPERTIES.remove(compiles)  # XLA is TensorFlow's and JAX's compiler


def _name(part):
    if isinstance(part, contract.Case):
        layer = "pooling" if isinstance(part, PoolingCase) else "attention"
        return f"{layer}-{part.score}-{part.normalizer}"
    return part.__name__


def pytest_generate_tests(metafunc):
    if metafunc.function is not test_contract:
        return
    some_pairs = metafunc.config.getoption("some_pairs")
    runs = [
        pytest.param(has_property, case, id=f"{_name(has_property)}-{_name(case)}")
        for has_property in PROPERTIES
        for case in CASES
        if not some_pairs or has_property is padding_has_no_influence or _is_central(case)
    ]
    metafunc.parametrize(("has_property", "case"), runs)


def _is_central(case):
    return case.normalizer == "softmax" or case.score in ("dot", "additive")


def test_contract(has_property, case):
    with contract.quick_compilation():
        has_property(case)


def test_every_part_has_a_reference():
    for name in scores.names():
        references.score_of(name)
    missing = set(normalizers.names()) - set(references.NORMALIZERS)
    assert not missing, f"Add two definitions each to tests/references.py: {missing}"


def test_a_missing_reference_says_so():
    with pytest.raises(AssertionError, match=r"'nobody'.*tests/references.py"):
        references.score_of("nobody")
    with pytest.raises(AssertionError, match=r"'nobody'.*tests/references.py"):
        references.normalise("nobody", np.zeros(3))


@pytest.fixture
def manhattan(monkeypatch):
    """A score registered in one place, with its reference in another."""

    @scores.register("manhattan", "city_block")
    class ManhattanScore(scores.Score):
        def __init__(self, use_bias=False, **kwargs):
            super().__init__(**kwargs)
            self.use_bias = use_bias

        def build(self, query_shape, key_shape):
            super().build(query_shape, key_shape)
            self.kernel = self.add_weight(
                name="kernel", shape=(query_shape[-1], key_shape[-1])
            )
            self.bias = self.add_weight(name="bias") if self.use_bias else None

        def project_query(self, query):
            return ops.matmul(query, self.kernel)

        def compare(self, query, key):
            q, k = ops.expand_dims(query, -2), ops.expand_dims(key, -3)
            result = -ops.sum(ops.abs(q - k), axis=-1)
            if self.bias is None:
                return result
            return result + ops.cast(self.bias, result.dtype)

    def formula(query, key, w):
        q, k = references.pairs(query @ w["kernel"], key)
        return w.get("bias", 0.0) - np.abs(q - k).sum(-1)

    monkeypatch.setitem(
        references.SCORES,
        "manhattan",
        references.ScoreReference(formula, any_query_depth=True),
    )
    yield "manhattan"
    scores.unregister("manhattan")


def test_a_new_score_comes_under_the_contract(manhattan):
    assert manhattan in scores.names()
    for layer in (AttentionCase, PoolingCase):
        for has_property in PROPERTIES:
            test_contract(has_property, layer(manhattan, "softmax"))


def test_a_wrong_layer_breaks_the_contract(manhattan, monkeypatch):
    """A test that cannot fail is worse than none: another formula is noticed."""
    wrong = dataclasses.replace(
        references.SCORES[manhattan], formula=lambda q, k, w: references.inner(q, q)
    )
    monkeypatch.setitem(references.SCORES, manhattan, wrong)
    with pytest.raises((AssertionError, ValueError)):
        equals_the_reference(PoolingCase(manhattan, "softmax"))
