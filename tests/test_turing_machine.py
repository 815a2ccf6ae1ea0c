"""Addressing by content and place, and `NTMCell` in `keras.layers.RNN`."""

import json

import keras
import numpy as np
import pytest
from contract import compiled, gradients, to_numpy

from keras_attention import NTMCell, addressing

B, T, D, H, N, M = 3, 7, 5, 2, 6, 4


def rng(seed=0):
    return np.random.default_rng(seed)


def simplex(*shape, seed=0):
    x = rng(seed).random(shape)
    return (x / x.sum(-1, keepdims=True)).astype("float32")


def test_content_by_a_second_way():
    key, memory = rng(1).normal(size=(B, H, M)), rng(2).normal(size=(B, N, M))
    strength = np.exp(rng(3).normal(size=(B, H, 1)))
    dots = np.einsum("bhm,bnm->bhn", key, memory)
    norms = (
        np.linalg.norm(key, axis=-1)[:, :, None] * np.linalg.norm(memory, axis=-1)[:, None]
    )
    powers = np.exp(strength * dots / norms)
    x = (y.astype("float32") for y in (key, memory, strength))
    found = addressing.content_weights(*x)
    np.testing.assert_allclose(
        to_numpy(found), powers / powers.sum(-1, keepdims=True), atol=1e-5
    )


def test_content_of_masked_slots_has_no_influence():
    key, memory = rng(1).normal(size=(B, H, M)), rng(2).normal(size=(B, N, M))
    strength = np.full((B, H, 1), 5.0)
    mask = np.arange(N) < 4
    memory[:, 4:] = np.nan
    found = to_numpy(addressing.content_weights(key, memory, strength, mask[None, None]))
    short = to_numpy(addressing.content_weights(key, memory[:, :4], strength))
    np.testing.assert_allclose(found[..., :4], short, atol=1e-6)
    assert (found[..., 4:] == 0).all()


@pytest.mark.parametrize("width", [1, 3, 5])
def test_shift_is_a_circular_convolution(width):
    weights, steps = simplex(B, H, N), simplex(B, H, width, seed=1)
    wanted = np.zeros((B, H, N))
    for i in range(N):
        for j in range(N):
            for k in range(width):
                if (i - j - (k - width // 2)) % N == 0:
                    wanted[..., i] += weights[..., j] * steps[..., k]
    np.testing.assert_allclose(
        to_numpy(addressing.shift(weights, steps)), wanted, atol=1e-6
    )


def test_sharpening():
    weights = np.array([[[0.2, 0.3, 0.5, 0.0]]], "float32")
    for power in (1.0, 3.0):
        wanted = weights**power / (weights**power).sum()
        found = to_numpy(addressing.sharpen(weights, np.full((1, 1, 1), power, "float32")))
        np.testing.assert_allclose(found, wanted, atol=1e-6)
    # Powers that would leave nothing in float32, and numbers that already have.
    found = addressing.sharpen(weights, np.full((1, 1, 1), 500.0, "float32"))
    np.testing.assert_allclose(to_numpy(found), [[[0, 0, 1, 0]]], atol=1e-6)


def test_reading_and_writing_by_hand():
    memory = np.array([[[1.0, 2.0], [3.0, 4.0]]], "float32")
    weights = np.array([[[1.0, 0.0], [0.5, 0.5]]], "float32")
    erase = np.array([[[1.0, 0.0], [0.0, 1.0]]], "float32")
    add = np.array([[[10.0, 0.0], [0.0, 2.0]]], "float32")
    np.testing.assert_allclose(
        to_numpy(addressing.read(weights, memory)), [[[1, 2], [2, 3]]], atol=1e-6
    )
    # Head 1 empties place 1's first column and adds 10; head 2 halves both second columns
    # and adds 1 to each.
    found = addressing.write(memory, weights, erase, add)
    np.testing.assert_allclose(to_numpy(found), [[[10, 2], [3, 3]]], atol=1e-6)


def test_an_address_is_a_distribution_with_finite_slopes():
    data = {
        "previous": np.eye(N, dtype="float32")[[0, 3]][None].repeat(B, 0),
        "memory": np.zeros((B, N, M), "float32"),
        "key": rng(1).normal(size=(B, H, M)).astype("float32"),
        "strength": np.full((B, H, 1), 2.0, "float32"),
        "gate": np.zeros((B, H, 1), "float32"),
        "steps": np.array([0.0, 1, 0], "float32") + np.zeros((B, H, 3), "float32"),
        "power": np.full((B, H, 1), 50.0, "float32"),
    }
    cotangent = [rng(2).normal(size=(B, H, N))]
    layer = keras.layers.Dense(1)
    (found,), slopes = gradients(
        layer, lambda x: [addressing.address(**x)], data, cotangent
    )
    np.testing.assert_allclose(found, data["previous"], atol=1e-6)
    for name, slope in slopes.items():
        assert np.isfinite(slope).all(), name


def test_even_numbers_of_steps_are_refused():
    with pytest.raises(ValueError, match="Expected an odd number of steps"):
        addressing.shift(simplex(1, 1, N), simplex(1, 1, 2))


def cell(controller=None, **options):
    options = {"slots": N, "depth": M, "read_heads": 2, "write_heads": 3} | options
    return NTMCell(controller or keras.layers.LSTMCell(8, seed=1), 9, **options)


def test_one_step_by_the_functions():
    """The cell's output and states, put together from its parts."""
    machine = cell(keras.layers.GRUCell(8), max_step=2)
    x = rng().normal(size=(B, D)).astype("float32")
    layer = keras.layers.RNN(machine, return_state=True)
    output, *states = (to_numpy(y) for y in layer(x[:, None]))
    own, read, weights, memory = states
    assert own.shape == (B, 8)
    start = [to_numpy(y) for y in machine.get_initial_state(batch_size=B)]
    hidden, _ = machine.controller(np.concatenate([x, start[1]], -1), [start[0]])
    np.testing.assert_allclose(to_numpy(hidden), own, atol=1e-6)
    numbers = to_numpy(machine.steering(hidden))
    heads = numbers[:, : 5 * (M + 8)].reshape(B, 5, M + 8)
    changes = numbers[:, 5 * (M + 8) :].reshape(B, 3, 2 * M)

    def softplus(z):
        return np.log1p(np.exp(z))

    def sigmoid(z):
        return 1 / (1 + np.exp(-z))

    powers = np.exp(heads[..., M + 2 : M + 7])
    before = np.full((B, N, M), 1e-2, "float32")
    wanted = addressing.address(
        np.eye(N, dtype="float32")[[0] * 5][None].repeat(B, 0),
        before,
        np.tanh(heads[..., :M]),
        softplus(heads[..., M : M + 1]),
        sigmoid(heads[..., M + 1 : M + 2]),
        powers / powers.sum(-1, keepdims=True),
        1 + softplus(heads[..., M + 7 :]),
    )
    wanted = to_numpy(wanted)
    np.testing.assert_allclose(weights.reshape(B, 5, N), wanted, atol=1e-5)
    found = np.einsum("bhn,bnm->bhm", wanted[:, :2], before).reshape(B, -1)
    np.testing.assert_allclose(read, found, atol=1e-5)
    after = addressing.write(
        before, wanted[:, 2:], sigmoid(changes[..., :M]), np.tanh(changes[..., M:])
    )
    np.testing.assert_allclose(memory.reshape(B, N, M), to_numpy(after), atol=1e-5)
    joined = np.concatenate([own, found], -1).astype("float32")
    np.testing.assert_allclose(output, to_numpy(machine.reporting(joined)), atol=1e-5)


@pytest.mark.parametrize("heads", [1, 2])
def test_padding_has_no_influence(heads):
    machine = cell(read_heads=heads, write_heads=heads)
    # Without this, Keras on JAX takes the first state for the output before.
    options = dict(return_sequences=True, zero_output_for_mask=True)
    layer = keras.layers.RNN(machine, **options)
    x = rng().normal(size=(B, T, D)).astype("float32")
    short = to_numpy(layer(x))
    padded = np.full((B, T + 3, D), 99.0, "float32")
    places = [0, 2, 3, 5, 6, 7, 9]
    padded[:, places] = x
    mask = np.isin(np.arange(T + 3), places)[None].repeat(B, 0)
    long = to_numpy(layer(padded, mask=mask))
    np.testing.assert_allclose(long[:, places], short, atol=1e-5)


def test_stacked_controller_and_another_memory():
    stack = [keras.layers.LSTMCell(6), keras.layers.GRUCell(8)]
    x = rng().normal(size=(B, T, D)).astype("float32")
    layer = keras.layers.RNN(cell(stack), return_sequences=True)
    assert layer(x).shape == (B, T, 9)
    shapes = [tuple(w.shape) for w in layer.trainable_weights]
    larger = keras.layers.RNN(cell(stack, slots=50), return_sequences=True)
    larger(x)
    larger.set_weights(layer.get_weights())
    assert [tuple(w.shape) for w in larger.trainable_weights] == shapes
    assert larger(x).shape == (B, T, 9)


@pytest.mark.skipif(keras.backend.backend() == "torch", reason="XLA's compiler")
def test_compiled_equals_plain():
    layer = keras.layers.RNN(cell(), return_sequences=True)
    x = {"inputs": rng().normal(size=(B, T, D)).astype("float32")}
    plain = to_numpy(layer(x["inputs"]))
    (fast,) = compiled(lambda data: [layer(data["inputs"])], x)
    np.testing.assert_allclose(fast, plain, atol=1e-5)


def test_config_and_saving(tmp_path, fresh_process):
    options = {"slots": 11, "depth": 3, "read_heads": 2, "write_heads": 3, "max_step": 2}
    machine = NTMCell(keras.layers.GRUCell(8), 9, **options)
    config = json.loads(json.dumps(machine.get_config()))
    assert {name: config[name] for name in options} == options
    assert NTMCell.from_config(config).get_config() == machine.get_config()
    inputs = keras.Input((None, D))
    model = keras.Model(inputs, keras.layers.RNN(machine)(inputs))
    x = rng().normal(size=(B, T, D)).astype("float32")
    model.save(tmp_path / "ntm.keras")
    np.save(tmp_path / "x.npy", x)
    fresh_process(
        """
        import numpy as np
        model = keras.models.load_model(sys.argv[1] + "/ntm.keras")
        y = model(np.load(sys.argv[1] + "/x.npy"))
        np.save(sys.argv[1] + "/y.npy", keras.ops.convert_to_numpy(y))
        """,
        tmp_path,
    )
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), to_numpy(model(x)), atol=1e-6)


def test_bad_arguments():
    with pytest.raises(ValueError, match="Expected an RNN cell"):
        NTMCell(keras.layers.Dense(3), 4)
    with pytest.raises(ValueError, match="Expected `slots` to be a positive integer"):
        NTMCell(keras.layers.GRUCell(3), 4, slots=0)
