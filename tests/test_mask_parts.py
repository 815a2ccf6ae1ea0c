"""Masks that are not made whole, and attention in blocks under all kinds of them."""

import contract
import keras
import numpy as np
import pytest
from keras import ops

from keras_attention import Attention, blockwise, mask_parts, masks, window_mask
from keras_attention.mask_parts import Masks

tensorflow_only = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="this is TensorFlow's own"
)


def draw(seed):
    """Random sizes and parts of a mask `(batch, heads, queries, keys)`."""
    rng = np.random.default_rng(seed)
    batch, heads, queries, keys = (int(rng.integers(1, n)) for n in (4, 4, 12, 12))
    full = (batch, heads, queries, keys)
    shapes = {
        "queries": (batch, 1, queries, 1),
        "keys": (batch, 1, 1, keys),
        "some": (1, heads, 1, keys),
        "pairs": (queries, keys),
        "all pairs": full,
    }
    chosen = [n for n in shapes if rng.random() < (0.2 if "pairs" in n else 0.4)]
    parts = [rng.random(shapes[n]) < 0.7 for n in chosen]
    return full, parts, bool(rng.random() < 0.5), rng


def whole_mask(full, parts, causal):
    mask = np.ones(full, bool)
    for part in parts:
        mask = mask & part
    queries, keys = full[-2:]
    later = np.arange(keys) > np.arange(queries)[:, None] + keys - queries
    return mask & ~later if causal else mask


@pytest.mark.parametrize("seed", range(12))
def test_parts_come_to_the_whole(seed, monkeypatch):
    monkeypatch.setattr(mask_parts, "LOOK_THROUGH", 30)
    full, parts, causal, rng = draw(seed)
    expected = whole_mask(full, parts, causal)
    made = Masks(tuple(map(ops.convert_to_tensor, parts)), causal, full[-2:])

    def check(found, expected):
        found = np.broadcast_to(ops.convert_to_numpy(found), expected.shape)
        np.testing.assert_array_equal(found, expected)

    if parts or causal:
        check(made.whole(), expected)
        rows = rng.integers(-full[2], full[2], 5)
        check(made.take(rows), np.take(expected, rows, axis=-2))
    check(made.sees(), expected.any(-1))
    check(made.seen(), expected.any(-2))
    flags = rng.random((full[0], 1, full[3])) < 0.3
    check(made.sees(ops.convert_to_tensor(flags)), (expected & flags[..., None, :]).any(-1))


@pytest.mark.parametrize("seed", range(12))
def test_blocks_and_groups_of_it(seed):
    full, parts, causal, rng = draw(seed)
    if not parts and not causal:
        parts = [np.ones((1, full[-1]), bool)]
    expected = whole_mask(full, parts, causal).reshape(-1, *full[-2:])
    made = Masks(tuple(map(ops.convert_to_tensor, parts)), causal, full[-2:])
    block, group = int(rng.integers(1, full[2] + 1)), int(rng.integers(1, 4))
    in_groups = made.in_groups(block, list(full[:2]), group)
    for place in range(len(expected) // group):
        heads = slice(place * group, (place + 1) * group)
        for i in range(full[2] // block):
            here = expected[heads, i * block : (i + 1) * block]
            found = ops.convert_to_numpy(in_groups(place, i))
            np.testing.assert_array_equal(np.broadcast_to(found, here.shape), here)


def attention_masks(rng, batch, queries, keys):
    """Padding, a window, pairs: some of them."""
    found = {}
    if rng.random() < 0.5:
        found["value_mask"] = np.arange(keys) < rng.integers(0, keys + 1, (batch, 1))
    if rng.random() < 0.4:
        found["query_mask"] = rng.random((batch, queries)) < 0.8
    kind = rng.integers(4)
    if kind == 1:
        found["attention_mask"] = window_mask(queries, keys, before=2, after=1)
    if kind == 2:
        found["attention_mask"] = rng.random((batch, queries, keys)) < 0.6
    found["use_causal_mask"] = bool(rng.random() < 0.6)
    return found


@pytest.mark.parametrize("seed", range(16))
def test_blocks_change_nothing(seed, monkeypatch):
    """Random sizes, heads, blocks, masks; NaN where nobody looks; large scores."""
    rng = np.random.default_rng(seed)
    score, normalizer = [("dot", "softmax"), ("scaled_dot", "softmax")][seed % 2]
    if seed % 4 == 3:
        score, normalizer = [("additive", "softmax"), ("cosine", "sparsemax")][
            seed % 8 // 4
        ]
    batch, heads, queries, keys = (int(rng.integers(2, n)) for n in (4, 4, 9, 9))
    lead = (batch, heads) if rng.random() < 0.5 else (batch,)
    scale = 8.0 if seed % 5 == 0 else 1.0  # scores of hundreds
    data = {
        name: (scale * rng.normal(size=(*lead, n, 5))).astype("float32")
        for name, n in (("query", queries), ("value", keys), ("key", keys))
    }
    options = attention_masks(rng, batch, queries, keys)
    if len(lead) == 2:
        for name in ("value_mask", "query_mask"):
            if name in options:
                mask = options[name][:, None]
                options[name] = np.broadcast_to(mask, (*lead, mask.shape[-1]))
    if "value_mask" in options:
        hidden = ~options["value_mask"]
        data["value"][hidden] = np.nan
        data["key"][hidden] = np.inf
    block = int(rng.integers(1, queries))
    monkeypatch.setattr(blockwise, "BLOCK_BYTES", 4 * 2 * block * keys)
    whole = Attention(score, normalizer)
    blocks = Attention(score, normalizer, block_size=block)
    whole(data["query"], data["value"], data["key"])
    blocks(data["query"], data["value"], data["key"])
    blocks.set_weights(whole.get_weights())
    target = [rng.normal(size=(*lead, queries, 5)).astype("float32")]

    def results(layer):
        def call(d):
            return [layer(d["query"], d["value"], d["key"], **options)]

        return contract.gradients(layer, call, data, target)

    ((expected,), slopes), ((found,), found_slopes) = results(whole), results(blocks)
    assert np.isfinite(expected).all()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * scale)
    for name, slope in slopes.items():
        # A difference of products of two such numbers, times one more.
        tolerance = 1e-5 * max(scale**2, np.abs(slope).max())
        np.testing.assert_allclose(found_slopes[name], slope, rtol=1e-4, atol=tolerance)


@tensorflow_only
def test_a_long_causal_mask_is_never_made():
    """No tensor of a graph has queries and keys for its last two sizes."""
    import tensorflow as tf

    length = 4096
    layer = Attention("dot")

    @tf.function
    def run(x, keep):
        with tf.GradientTape() as tape:
            tape.watch(x)
            output = layer(x, x, value_mask=keep, query_mask=keep, use_causal_mask=True)
        return tape.gradient(output, x)

    specs = tf.TensorSpec((2, length, 3)), tf.TensorSpec((2, length), "bool")
    graph = run.get_concrete_function(*specs).graph
    graphs = [graph, *(f.graph for f in graph._functions.values() if hasattr(f, "graph"))]
    shapes = [
        output.shape
        for each in graphs
        for operation in each.get_operations()
        for output in operation.outputs
    ]
    assert len(shapes) > 100
    assert not [s for s in shapes if s.rank and (s.num_elements() or 0) >= length**2]


def test_causal_rows():
    rows = ops.convert_to_numpy(masks.causal_rows(ops.convert_to_tensor([0, 2]), 3, 4))
    assert rows.tolist() == [[True, True, False, False], [True] * 4]
