"""`KeyValueMemory` and `position_code`: hand-worked numbers, masks, saving, backends."""

import json

import keras
import numpy as np
import pytest
from contract import compiled, gradients, to_numpy
from keras import ops

from keras_attention import KeyValueMemory, position_code

B, S, D, DK, HOPS = 3, 5, 4, 4, 2
NAN = np.nan


def data(slots=S, seed=0):
    rng = np.random.default_rng(seed)
    shapes = {"query": (B, D), "value": (B, slots, D), "key": (B, slots, DK)}
    return {k: rng.normal(size=s).astype("float32") for k, s in shapes.items()}


def read(layer, x, **options):
    options = {"return_attention_scores": True} | options
    return layer(x["query"], x["value"], x["key"], **options)


def numpy_softmax(scores, mask):
    powers = np.where(mask, np.exp(scores), 0.0)
    return powers / powers.sum(-1, keepdims=True)


def test_worked_example_with_an_empty_slot():
    """cases.md 16: p = softmax(u . m), o = sum p c, u' = u + o."""
    keys = np.array([[[1.0, 0], [0, 1], [1, 0], [NAN, 7]]], "float32")
    values = np.array([[[1.0, 0], [0, 2], [3, 0], [NAN, NAN]]], "float32")
    state, weights = KeyValueMemory()(
        np.array([[1.0, 0.0]], "float32"),
        values,
        keys,
        value_mask=np.array([[True, True, True, False]]),
        return_attention_scores=True,
    )
    np.testing.assert_allclose(
        to_numpy(weights), [[[0.42232, 0.15536, 0.42232, 0.0]]], atol=1e-5
    )
    assert to_numpy(weights)[0, 0, 3] == 0
    np.testing.assert_allclose(to_numpy(state), [[2.68928, 0.31073]], atol=1e-5)


def test_two_hops_by_hand():
    """u = 0 weighs both alike: o = 2, u' = 2; then the scores are 2 and -2."""
    keys, values = np.array([[[1.0], [-1.0]]]), np.array([[[4.0], [0.0]]])
    state, weights = KeyValueMemory(hops=2)(
        np.array([[0.0]]), values, keys, return_attention_scores=True
    )
    first = np.exp(2) / (np.exp(2) + np.exp(-2))
    expected = [[[0.5, 0.5], [first, 1 - first]]]
    np.testing.assert_allclose(to_numpy(weights), expected, atol=1e-6)
    np.testing.assert_allclose(to_numpy(state), [[2 + 4 * first]], atol=1e-5)


@pytest.mark.parametrize("update", ["sum", "per_hop", "shared"])
def test_hops_equal_a_second_way_of_counting(update):
    layer, x = KeyValueMemory(3, update=update), data()
    mask = np.array([[1, 1, 0, 1, 0], [1, 1, 1, 1, 1], [0, 1, 0, 0, 0]], bool)
    state, weights = read(layer, x, key_mask=mask)
    kernels = [to_numpy(k) for k in layer.kernels]
    assert len(kernels) == {"sum": 0, "per_hop": 3, "shared": 1}[update]
    u = x["query"].astype("float64")
    for hop in range(3):
        w = numpy_softmax(np.einsum("bd,bsd->bs", u, x["key"]), mask)
        np.testing.assert_allclose(to_numpy(weights)[:, hop], w, atol=1e-5)
        o = np.einsum("bs,bsd->bd", w, x["value"])
        if update == "per_hop":
            u = (u + o) @ kernels[hop]
        else:
            u = (u @ kernels[0] if update == "shared" else u) + o
    np.testing.assert_allclose(to_numpy(state), u, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("update", ["per_hop", "shared"])
@pytest.mark.parametrize("places", [[0, 1, 2, 3, 4], [2, 3, 4, 5, 6], [0, 2, 3, 5, 6]])
def test_empty_slots_have_no_influence(update, places):
    layer, x = KeyValueMemory(HOPS, "cosine", update=update), data()
    read(layer, x)
    padded = x | {n: np.full((B, 7, D), NAN, "float32") for n in ("value", "key")}
    mask = np.zeros((B, 7), bool)
    mask[:, places] = True
    for name in ("value", "key"):
        padded[name][:, places] = x[name]
    rng = np.random.default_rng(1)
    slopes = [rng.normal(size=(B, D)), rng.normal(size=(B, HOPS, S))]
    outputs, wanted = gradients(layer, lambda t: read(layer, t), x, slopes)
    wide = np.zeros((B, HOPS, 7))
    wide[..., places] = slopes[1]
    actual, found = gradients(
        layer, lambda t: read(layer, t, value_mask=mask), padded, [slopes[0], wide]
    )
    np.testing.assert_allclose(actual[0], outputs[0], atol=1e-5)
    np.testing.assert_allclose(actual[1][..., places], outputs[1], atol=1e-6)
    assert (actual[1][:, :, ~mask[0]] == 0).all()
    for name in ("value", "key"):
        assert (found[name][~mask] == 0).all()
        found[name] = found[name][:, places]
    for name, gradient in wanted.items():
        np.testing.assert_allclose(found[name], gradient, atol=1e-4, err_msg=name)


def test_an_empty_memory_leaves_the_query():
    x = data()
    mask = np.array([[True] * S, [False] * S, [True] * S])
    state, weights = read(KeyValueMemory(HOPS), x, value_mask=mask)
    np.testing.assert_array_equal(to_numpy(state)[1], x["query"][1])
    assert (to_numpy(weights)[1] == 0).all()


def test_order_of_slots_does_not_matter():
    layer, x = KeyValueMemory(HOPS), data()
    turned = x | {n: x[n][:, ::-1] for n in ("value", "key")}
    state, weights = read(layer, x)
    other, moved = read(layer, turned)
    np.testing.assert_allclose(to_numpy(other), to_numpy(state), atol=1e-6)
    np.testing.assert_allclose(to_numpy(moved)[..., ::-1], to_numpy(weights), atol=1e-6)


def test_any_number_of_slots_symbolic_shapes_and_carried_masks():
    ids, query = keras.Input((None,), dtype="int32"), keras.Input((D,))
    slots = keras.layers.Embedding(9, D, mask_zero=True)(ids)
    layer = KeyValueMemory(HOPS, update="per_hop")
    state, weights = layer(query, slots, return_attention_scores=True)
    assert state.shape == (None, D)
    assert weights.shape == (None, HOPS, None)
    model = keras.Model([query, ids], [state, weights])
    assert all(None not in w.shape and B not in w.shape for w in model.weights)
    x = data()["query"]
    for slots in (1, 6):
        numbers = np.random.default_rng(0).integers(1, 9, (B, slots))
        short = [to_numpy(y) for y in model([x, numbers])]
        long = [to_numpy(y) for y in model([x, np.pad(numbers, ((0, 0), (2, 1)))])]
        np.testing.assert_allclose(long[0], short[0], atol=1e-6)
        np.testing.assert_allclose(long[1][..., 2 : slots + 2], short[1], atol=1e-6)


@pytest.mark.skipif(
    keras.backend.backend() == "torch", reason="PyTorch does not compile with XLA"
)
def test_compiled_equals_plain():
    layer, x = KeyValueMemory(HOPS, update="shared"), data()
    plain = [to_numpy(y) for y in read(layer, x)]
    for one, other in zip(compiled(lambda t: read(layer, t), x), plain, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision(dtype):
    layer, x = KeyValueMemory(HOPS, update="per_hop", dtype=dtype), data()
    state, weights = read(layer, x)
    assert keras.backend.standardize_dtype(state.dtype) == dtype
    assert keras.backend.standardize_dtype(weights.dtype) == dtype
    same = KeyValueMemory(HOPS, update="per_hop")
    read(same, x)
    same.set_weights(layer.get_weights())
    np.testing.assert_allclose(to_numpy(state), to_numpy(same(*x.values())), atol=0.1)


def test_config_and_saving(tmp_path, fresh_process):
    options = {
        "hops": 3,
        "score": "additive",
        "normalizer": "sparsemax",
        "update": "shared",
        "kernel_initializer": keras.initializers.RandomNormal(stddev=0.3, seed=5),
        "kernel_regularizer": keras.regularizers.L2(0.125),
        "kernel_constraint": keras.constraints.MaxNorm(3.5),
    }
    inputs = [keras.Input((D,)), keras.Input((None, D)), keras.Input((None, 6))]
    layer = KeyValueMemory(**options)
    again = KeyValueMemory.from_config(json.loads(json.dumps(layer.get_config())))
    assert again.get_config() == layer.get_config()
    model = keras.Model(inputs, layer(*inputs, return_attention_scores=True))
    model.save(tmp_path / "memory.keras")
    rng = np.random.default_rng(3)
    x = [rng.normal(size=s).astype("float32") for s in ((B, D), (B, S, D), (B, S, 6))]
    np.savez(tmp_path / "x.npz", *x)
    fresh_process(
        """
        import numpy as np
        folder = sys.argv[1]
        model = keras.models.load_model(folder + "/memory.keras")
        x = np.load(folder + "/x.npz")
        y = model([x[n] for n in x.files])
        np.savez(folder + "/y.npz", *(keras.ops.convert_to_numpy(v) for v in y))
        """,
        tmp_path,
    )
    loaded = np.load(tmp_path / "y.npz")
    for wanted, name in zip(model(x), loaded.files, strict=True):
        np.testing.assert_allclose(loaded[name], to_numpy(wanted), atol=1e-6)


def test_frozen_and_unseeded():
    layer = KeyValueMemory(2, update="per_hop", trainable=False)
    read(layer, data())
    assert layer.trainable_weights == []
    first, second = (to_numpy(kernel) for kernel in layer.kernels)
    assert (first != second).any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"update": "twice"}, "Expected `update` in"),
        ({"hops": 0}, "Expected `hops` to be a positive integer"),
        ({"score": "nearest"}, "Expected the name of a score"),
    ],
)
def test_bad_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        KeyValueMemory(**options)


def test_bad_calls():
    x = data()
    with pytest.raises(ValueError, match="Expected tensors as separate arguments"):
        KeyValueMemory()([x["query"], x["value"]])
    for query in (x["query"][:, :3], x["query"][:, None]):
        with pytest.raises(ValueError, match=r"Expected query .* of one depth"):
            KeyValueMemory()(query, x["value"], x["key"])
    with pytest.raises(ValueError, match="Expected `value_mask` of shape"):
        KeyValueMemory()(x["query"], x["value"], value_mask=np.ones((B, S + 1), bool))
    with pytest.raises(ValueError, match="Expected query and key of one depth"):
        KeyValueMemory()(x["query"], x["value"], x["key"][..., :3])


def test_position_code_by_hand():
    """cases.md 16: J = d = 2; padding, wherever, changes nothing."""
    wanted = np.array([[0.5, 0.5], [0.5, 1.0]])
    for mask, places in (([1, 1], [0, 1]), ([1, 1, 0], [0, 1]), ([0, 1, 0, 1], [1, 3])):
        code = to_numpy(position_code(np.array(mask, bool), 2))
        np.testing.assert_allclose(code[places], wanted, atol=1e-6)
        assert (code[np.array(mask) == 0] == 0).all()


def test_position_code_is_the_papers():
    mask = np.arange(6) < np.array([[4], [1], [0]])
    code = to_numpy(position_code(mask, 3))
    assert code.shape == (3, 6, 3)
    for row, length in enumerate([4, 1, 0]):
        for j in range(1, length + 1):
            for k in range(1, 4):
                wanted = (1 - j / length) - (k / 3) * (1 - 2 * j / length)
                assert code[row, j - 1, k - 1] == pytest.approx(wanted, abs=1e-6)
    assert np.isfinite(to_numpy(ops.sum(position_code(mask, 3))))
