"""Scores: published and hand-worked numbers, arguments, look-up, errors."""

import json
import math
from pathlib import Path

import keras
import numpy as np
import pytest
import references
from contract import to_numpy
from keras import ops

import keras_attention as ka
from keras_attention import scores

DATA = Path(__file__).parent / "data"


def numbers(score, query, key, weights=()):
    """Scores of plain lists, with `weights` in the layer's order."""
    query, key = np.array(query, "float32"), np.array(key, "float32")
    if not score.built:
        score.build(query.shape, key.shape)
    if len(weights):
        score.set_weights([np.array(w, "float32") for w in weights])
    return ops.convert_to_numpy(score(query, key))


def close(actual, desired, atol=1e-5):
    np.testing.assert_allclose(actual, desired, atol=atol, rtol=1e-5)


# The worked examples that AllenNLP published, before normalising.


def test_additive_worked_example():
    query = [[[0.7, -0.8]], [[0.4, 0.9]]]
    key = [
        [[1, -1, 3], [0.5, -0.3, 0], [0.2, -1, 1], [0.7, 0.8, -1]],
        [[-2, 3, -3], [0.6, 0.2, 2], [0.5, -0.4, -1], [0.2, 0.2, 0]],
    ]
    weights = [
        [[-0.2, 0.3], [-0.5, 0.5]],
        [[0, 1], [1, 1], [1, -1]],
        [1, -1],
    ]
    expected = [
        [[1.975072, -0.04997836, 1.2176098, -0.9205586]],
        [[-1.4851665, 1.489604, -1.890285, -1.0672251]],
    ]
    close(numbers(ka.AdditiveScore(units=2), query, key, weights), expected, 1e-6)


def test_bilinear_worked_example():
    score = ka.BilinearScore(use_bias=True)
    weights = [[[-0.3, 0.5], [2, -1]], 0.1]
    close(numbers(score, [[1, 1]], [[1, 0], [0, 1]], weights), [[1.8, -0.4]])


def test_dot_and_cosine_worked_example():
    query, key = [[1, 1, 1]], [[7, 8, 9], [10, 11, 12]]
    close(numbers(ka.DotScore(), query, key), [[24, 33]])
    close(numbers(ka.ScaledDotScore(), query, key), np.array([[24, 33]]) / 3**0.5)
    close(numbers(ka.CosineScore(), query, key), [[0.9948, 0.9973]], 5e-5)


def test_linear_part_of_trilinear_worked_example():
    score = ka.TrilinearScore(use_bias=True)
    weights = [[-0.3, 0.5, 2], [-1, 1, 1], [0, 0, 0], 0.1]
    found = numbers(score, [[-7, -8, -9]], [[1, 2, 3], [4, 5, 6]], weights)
    close(found, [[-19.9 + 4.1 - 0.1 + 0.1, -19.9 + 7.1 - 0.1 + 0.1]])
    close(references.normalise("softmax", found), [[0.0474, 0.9526]], 5e-5)


def test_scaled_dot_of_two_depths():
    query, key = np.ones((2, 16), "float32"), np.ones((3, 16), "float32")
    close(ops.convert_to_numpy(ka.ScaledDotScore()(query, key)), np.full((2, 3), 4.0))


def test_cosine_ignores_lengths_and_a_zero_vector_has_none():
    query, key = np.eye(3)[:2], np.array([[5, 0, 0], [1e-3, 1e-3, 0], [0, 0, 0]])
    expected = [[1, 2**-0.5, 0], [0, 2**-0.5, 0]]
    close(numbers(ka.CosineScore(use_scale=False), query, key), expected, 1e-4)


def test_scales_start_at_one():
    query, key = np.eye(3)[:2], np.eye(3)
    for score in (ka.DotScore(use_scale=True), ka.CosineScore()):
        close(numbers(score, query, key), np.eye(3)[:2])
        assert score.count_params() == 1
        close(numbers(score, query, key, [2.5]), 2.5 * np.eye(3)[:2])


def test_concat_equals_additive_with_one_matrix_on_top_of_the_other():
    rng = np.random.default_rng(0)
    query, key = rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 5, 6))
    top, bottom, bias, v = (rng.normal(size=s) for s in ((4, 10), (6, 10), (10,), (10,)))
    concat = ka.ConcatScore(units=10, use_bias=True)
    additive = ka.AdditiveScore(units=10, use_bias=True)
    found = numbers(concat, query, key, [np.concatenate([top, bottom]), bias, v])
    close(found, numbers(additive, query, key, [top, bottom, bias, v]))
    w = {"kernel": np.concatenate([top, bottom]), "bias": bias, "v": v}
    close(found, references.concat(query, key, w))


def test_concat_is_no_sum_of_query_and_key():
    """The built-in AdditiveAttention adds: a matrix each makes the difference."""
    rng = np.random.default_rng(0)
    query, key = rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 5, 4))
    score = ka.ConcatScore(units=7)
    first = numbers(score, query, key)
    swapped = ops.convert_to_numpy(score(key.astype("f"), query.astype("f")))
    assert np.abs(first - np.swapaxes(swapped, -1, -2)).max() > 1e-3


def test_location_depends_on_the_query_alone():
    rng = np.random.default_rng(0)
    query, key = rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 5, 6))
    score = ka.LocationScore(max_length=9)
    found = numbers(score, query, key)
    close(numbers(score, query, -7 * key), found)
    close(found, (query @ score.get_weights()[0])[..., :5])


def test_feed_forward_is_the_tutorials_pooling_score():
    rng = np.random.default_rng(0)
    kernel, bias, v = rng.normal(size=(6, 10)), rng.normal(size=10), rng.normal(size=10)
    key = rng.normal(size=(2, 5, 6))
    found = numbers(ka.FeedForwardScore(), v[None], key, [kernel, bias])
    close(found[:, 0], np.tanh(key @ kernel + bias) @ v)
    assert ka.FeedForwardScore(units=10).query_depth(6) == 10
    gated = ka.FeedForwardScore(gated=True)
    weights = [kernel, bias, kernel + 1, bias - 1]
    gate = references.logistic(key @ (kernel + 1) + bias - 1)
    found = numbers(gated, v[None], key, weights)
    close(found[:, 0], (np.tanh(key @ kernel + bias) * gate) @ v)


def test_units_none_means_the_depth_of_the_key():
    for score in (ka.AdditiveScore(), ka.ConcatScore()):
        numbers(score, np.ones((2, 4)), np.ones((3, 6)))
        assert score.v.shape == (6,)


def test_normalized_additive_depends_on_the_direction_of_v_alone():
    score = ka.AdditiveScore(units=8, normalize=True)
    rng = np.random.default_rng(0)
    query, key = rng.normal(size=(3, 4)), rng.normal(size=(5, 6))
    first = numbers(score, query, key)
    weights = {w.name: w for w in score.weights}
    weights["v"].assign(3 * weights["v"].value)
    close(ops.convert_to_numpy(score(query, key)), first)
    weights["g"].assign(2 * weights["g"].value)
    close(ops.convert_to_numpy(score(query, key)), 2 * first)


def test_every_score_differs_from_every_other():
    """No score is quietly the same as another one."""
    rng = np.random.default_rng(0)
    query = rng.normal(size=(2, 3, 6)).astype("float32")
    key = rng.normal(size=(2, 5, 6)).astype("float32")
    found = {}
    for name in scores.names():
        options = {"max_length": 9} if name == "location" else {}
        keras.utils.set_random_seed(1)
        found[name] = ops.convert_to_numpy(scores.get(name, **options)(query, key))
    for one in found:
        for other in found:
            if one < other:
                assert np.abs(found[one] - found[other]).max() > 1e-3, (one, other)


# TensorFlow Addons' numbers: see the fixtures' README for the formulas.


def fixture(name):
    with np.load(DATA / f"{name}.npz", allow_pickle=False) as z:
        arrays = {k: z[k] for k in z.files}
    config = json.loads(str(arrays.pop("config_json")))
    if "memory_mask" in arrays:
        mask = arrays["memory_mask"]
    else:
        steps = np.arange(arrays["memory"].shape[1])
        mask = steps < arrays["memory_lengths"][:, None]
    return config, arrays, mask


def check_fixture(arrays, mask, score, key=None):
    layer = ka.Attention(score=score)
    context, weights = layer(
        arrays["queries"],
        arrays["memory"],
        arrays["memory"] if key is None else key,
        value_mask=mask,
        return_attention_scores=True,
    )
    close(ops.convert_to_numpy(context), arrays["contexts"])
    close(ops.convert_to_numpy(weights), arrays["alignments"])
    assert not ops.convert_to_numpy(weights)[~np.repeat(mask[:, None], 4, 1)].any()
    found = score(arrays["queries"], arrays["memory"] if key is None else key)
    real = np.broadcast_to(mask[:, None], arrays["scores"].shape)
    close(ops.convert_to_numpy(found)[real], arrays["scores"][real])


@pytest.mark.parametrize("name", ["plain", "normalized", "holes_in_mask"])
def test_additive_fixtures(name):
    config, arrays, mask = fixture(f"k1_bahdanau_{name}")
    normalize = config["normalize"]
    score = ka.AdditiveScore(config["units"], use_bias=normalize, normalize=normalize)
    score.build(arrays["queries"].shape, arrays["memory"].shape)
    names = {
        "query_kernel": "query_kernel",
        "memory_kernel": "key_kernel",
        "v": "v",
        "b": "bias",
        "g": "g",
    }
    weights = {w.name: w for w in score.weights}
    for theirs, ours in names.items():
        if theirs in arrays:
            weights.pop(ours).assign(arrays[theirs])
    assert not weights
    check_fixture(arrays, mask, score)


@pytest.mark.parametrize("name", ["plain", "scaled", "holes_in_mask"])
def test_dot_fixtures(name):
    config, arrays, mask = fixture(f"k2_luong_{name}")
    score = ka.DotScore(use_scale=config["scale"])
    key = arrays["memory"] @ arrays["memory_kernel"]
    score.build(arrays["queries"].shape, key.shape)
    if config["scale"]:
        score.set_weights([arrays["scale"]])
    check_fixture(arrays, mask, score, key)


@pytest.mark.parametrize("name", ["plain", "scaled", "holes_in_mask"])
def test_bilinear_gives_the_dot_fixtures_in_one_layer(name):
    config, arrays, mask = fixture(f"k2_luong_{name}")
    score = ka.BilinearScore(use_scale=config["scale"])
    score.build(arrays["queries"].shape, arrays["memory"].shape)
    weights = [arrays["memory_kernel"].T]
    score.set_weights([*weights, arrays["scale"]] if config["scale"] else weights)
    check_fixture(arrays, mask, score)


# Types, weights, look-up.


@pytest.mark.parametrize("dtype", ["float16", "mixed_float16"])
@pytest.mark.parametrize("name", ["dot", "scaled_dot", "bilinear", "trilinear"])
def test_products_of_float16_are_summed_in_float32(name, dtype):
    """300 * 300 * 6 is past 65504, the largest float16."""
    query = np.full((1, 2, 6), 300, "float16")
    key = np.full((1, 3, 6), 300, "float16")
    score = scores.get(name, dtype=dtype)
    score.build(query.shape, key.shape)
    score.set_weights([np.ones(w.shape) for w in score.weights])
    found = score(query, key)
    assert keras.backend.standardize_dtype(found.dtype) == "float32"
    w = {v.name: np.ones(v.shape) for v in score.weights}
    wide = references.score_of(name).formula(
        query.astype("float64"), key.astype("float64"), w
    )
    np.testing.assert_allclose(ops.convert_to_numpy(found), wide, rtol=2e-3)


def test_initializer_regularizer_and_constraint_work_as_in_dense():
    def unused(shape, dtype=None):
        return ops.full(shape, 2.0, dtype)

    score = ka.AdditiveScore(
        units=3,
        use_bias=True,
        kernel_initializer=unused,
        bias_initializer="ones",
        kernel_regularizer=keras.regularizers.L2(0.5),
        kernel_constraint=keras.constraints.NonNeg(),
    )
    numbers(score, np.ones((2, 4)), np.ones((5, 6)))
    by_name = {w.name: w for w in score.weights}
    assert (to_numpy(by_name["query_kernel"]) == 2).all()
    assert (to_numpy(by_name["key_kernel"]) == 2).all()
    assert (to_numpy(by_name["bias"]) == 1).all()
    kernels = [by_name[n] for n in ("query_kernel", "key_kernel", "v")]
    squares = sum(4 * math.prod(w.shape) for w in kernels)
    close(sum(to_numpy(loss) for loss in score.losses), 0.5 * squares)
    assert isinstance(by_name["query_kernel"].constraint, keras.constraints.NonNeg)


def test_kernels_of_one_score_start_with_different_numbers():
    score = ka.AdditiveScore(units=6)
    numbers(score, np.ones((2, 6)), np.ones((3, 6)))
    query_kernel, key_kernel, _ = score.get_weights()
    assert np.abs(query_kernel - key_kernel).max() > 1e-3


@pytest.mark.parametrize(
    ("alias", "name"), [("general", "bilinear"), ("bahdanau", "additive")]
)
def test_aliases(alias, name):
    assert type(scores.get(alias)) is type(scores.get(name))


def test_get_takes_names_instances_and_configs():
    score = ka.AdditiveScore(units=64)
    assert scores.get(score) is score
    assert scores.get("additive", units=64).units == 64
    config = json.loads(json.dumps(keras.saving.serialize_keras_object(score)))
    again = scores.get(config)
    assert isinstance(again, ka.AdditiveScore)
    assert again.units == 64


@keras.saving.register_keras_serializable("keras_attention_tests")
def negative_distance(query, key):
    apart = ops.expand_dims(query, -2) - ops.expand_dims(key, -3)
    return -ops.sum(ops.square(apart), axis=-1)


def test_a_registered_function_is_a_score():
    rng = np.random.default_rng(0)
    query, key = rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 5, 4))
    layer = ka.Attention(score=negative_distance)
    _, weights = layer(query.astype("f"), key.astype("f"), return_attention_scores=True)
    q, k = references.pairs(query, key)
    expected = references.normalise("softmax", -((q - k) ** 2).sum(-1))
    close(ops.convert_to_numpy(weights), expected)
    again = ka.Attention.from_config(layer.get_config())
    _, copied = again(query.astype("f"), key.astype("f"), return_attention_scores=True)
    close(ops.convert_to_numpy(copied), expected)


def test_a_lambda_is_refused_with_the_reason():
    with pytest.raises(ValueError, match=r"(?s)[Rr]egister.*[Ll]ambda|lambda.*register"):
        ka.Attention(score=lambda query, key: query @ key)


def test_an_unregistered_function_is_refused_with_the_way_out():
    def mine(query, key):
        return negative_distance(query, key)

    with pytest.raises(ValueError, match="register_keras_serializable"):
        scores.get(mine)


def test_an_unknown_name_lists_the_names():
    with pytest.raises(ValueError, match="aditive") as error:
        scores.get("aditive")
    for name in [*scores.names(), "general", "bahdanau"]:
        assert name in str(error.value)


@pytest.mark.parametrize("units", [0, -3, 2.5, True, "many"])
@pytest.mark.parametrize("score", [ka.AdditiveScore, ka.ConcatScore, ka.FeedForwardScore])
def test_bad_units(score, units):
    with pytest.raises(ValueError, match=r"units.*Received"):
        score(units=units)


@pytest.mark.parametrize("length", [0, -3, 2.5])
def test_bad_max_length(length):
    with pytest.raises(ValueError, match=r"max_length.*Received"):
        ka.LocationScore(max_length=length)


@pytest.mark.parametrize("name", ["dot", "scaled_dot", "cosine", "trilinear"])
def test_unequal_depths_name_both(name):
    with pytest.raises(ValueError, match=r"depth.*13.*17"):
        scores.get(name)(np.ones((2, 3, 13)), np.ones((2, 5, 17)))


def test_a_query_that_does_not_fit_feed_forward_names_both():
    with pytest.raises(ValueError, match=r"10.*4"):
        ka.FeedForwardScore(units=10)(np.ones((2, 3, 4)), np.ones((2, 5, 6)))


def test_more_keys_than_max_length():
    with pytest.raises(ValueError, match=r"5.*6|6.*5"):
        ka.LocationScore(max_length=5)(np.ones((2, 3, 4)), np.ones((2, 6, 4)))


def test_a_taken_name_is_refused():
    with pytest.raises(ValueError, match="additive"):

        @scores.register("additive")
        class OtherScore(scores.Score):
            pass


def test_options_that_a_score_does_not_have_are_refused():
    with pytest.raises(ValueError, match="units"):
        scores.get("dot", units=4)


@pytest.mark.parametrize("layer", [ka.Attention, ka.AttentionPooling])
def test_a_name_alone_is_refused_where_the_score_needs_more(layer):
    with pytest.raises(ValueError, match=r"LocationScore\(max_length=\.\.\.\)"):
        layer(score="location")
