"""ImageCaptioner: its formulas, its searches, hard attention in it, saving."""

import keras
import numpy as np
import pytest
from contract import to_numpy
from keras import layers, ops

import keras_attention as ka
from keras_attention.models import ImageCaptioner
from keras_attention.models.gated_cell import DeepOutput, GatedContextCell
from keras_attention.models.small_encoder import Coordinates

WORDS = ["a", "red", "square", "left", "of"]
SHAPE = (24, 36, 3)  # a grid of 2 x 3 regions


def model_of(normalizer="softmax", **options):
    options = dict(units=9, embedding_dim=7, attention_units=5, seed=1) | options
    model = ImageCaptioner(WORDS, image_shape=SHAPE, normalizer=normalizer, **options)
    model.build()
    return model


def pictures(batch=4, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (batch, *SHAPE)).astype("uint8")


def pairs_of(model, images):
    captions = ["a square", "a red square left of a square", "red", "a red square"]
    return model.encode_pairs(images, captions[: len(images)])


def test_logits_are_those_of_the_paper():
    """A NumPy decoder of Xu et al., step after step, on the encoder's features."""
    model = model_of()
    rng = np.random.default_rng(3)
    for variable in model.trainable_variables:
        variable.assign(0.4 * rng.normal(size=variable.shape))
    (images, before), _ = pairs_of(model, pictures(2))
    logits, weights = model((images, before), return_attention_scores=True)

    def named(part):
        return {v.name: to_numpy(v) for v in part.weights}

    a = to_numpy(model.encoder(images)).reshape(2, 6, 96)
    cell, score = model.decoder.cell, named(model.decoder.attention.score)
    lstm, gate = named(cell.cell), named(cell.gate)
    deep, top = named(model.classifier.hidden), named(model.classifier.logits)
    states = [named(dense) for dense in model.bridge._denses]
    h, c = (np.tanh(a.mean(1) @ s["kernel"] + s["bias"]) for s in states)
    table = to_numpy(model.embedding.weights[0])

    def sigmoid(x):
        return 1 / (1 + np.exp(-x))

    for t in range(3):
        y = table[before[:, t]]
        hidden = (h @ score["query_kernel"])[:, None] + a @ score["key_kernel"]
        e = np.exp(np.tanh(hidden + score.get("bias", 0)) @ score["v"])
        w = e / e.sum(-1, keepdims=True)
        z = sigmoid(h @ gate["kernel"] + gate["bias"]) * (w[..., None] * a).sum(1)
        x = np.concatenate([y, z], -1) @ lstm["kernel"] + h @ lstm["recurrent_kernel"]
        i, f, g, o = np.split(x + lstm["bias"], 4, axis=-1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        out = np.concatenate([h, z], -1) @ deep["kernel"] + deep["bias"]
        expected = (y + out) @ top["kernel"] + top["bias"]
        np.testing.assert_allclose(to_numpy(weights[:, t]), w, atol=1e-5)
        np.testing.assert_allclose(to_numpy(logits[:, t]), expected, atol=1e-4)


def test_coordinates_are_rows_and_columns_from_minus_one_to_one():
    features = np.random.default_rng(1).normal(size=(4, 3, 5, 2)).astype("float32")
    found = to_numpy(Coordinates()(features))
    np.testing.assert_array_equal(found[..., :2], features)
    np.testing.assert_array_equal(found[2, :, 4, 2], [-1, 0, 1])
    np.testing.assert_array_equal(found[3, 1, :, 3], [-1, -0.5, 0, 0.5, 1])
    inputs = keras.Input((None, None, 2))
    model = keras.Model(inputs, Coordinates()(inputs))
    assert model.output_shape == (None, None, None, 4)
    np.testing.assert_array_equal(to_numpy(model(features)), found)
    assert to_numpy(model(features[:, :1])).shape == (4, 1, 5, 4)


def test_padding_of_captions_has_no_influence():
    model = model_of()
    (images, before), _ = pairs_of(model, pictures())
    longer = np.pad(before, ((0, 0), (0, 4)))
    logits, weights = model((images, before), return_attention_scores=True)
    more, looked = model((images, longer), return_attention_scores=True)
    real = before != 0
    steps = before.shape[1]
    assert not to_numpy(looked[:, steps:]).any()
    np.testing.assert_allclose(to_numpy(weights)[~real], 0)
    np.testing.assert_allclose(
        to_numpy(more[:, :steps])[real], to_numpy(logits)[real], atol=1e-5
    )


def test_the_doubly_stochastic_penalty_by_hand():
    """Twice the factor adds the penalty once more: 1 step of even weights, 6 regions."""
    model = model_of(doubly_stochastic=0.5)
    model.decoder.attention.score.v.assign(np.zeros(5))  # even weights
    images, before = pictures(2), np.array([[2, 4, 5], [2, 0, 0]])
    model((images, before), training=True)
    (penalty,) = model.losses
    three, one = 6 * (1 - 3 / 6) ** 2, 6 * (1 - 1 / 6) ** 2
    np.testing.assert_allclose(float(penalty), 0.5 * (three + one) / 2, rtol=1e-5)
    model((images, before))
    assert model.losses == []


@pytest.mark.parametrize("normalizer", ["softmax", "reinforce"])
def test_it_learns_captions_by_heart(normalizer):
    """Two pictures, two captions: the logits tell them apart, in greedy search and beam."""
    images = np.zeros((2, *SHAPE), "uint8")
    images[0, :12, :12], images[1, 12:, 24:] = 255, 255
    captions = ["a red square", "square left of a square"]
    model = model_of(normalizer, units=16, doubly_stochastic=0.01)
    model.compile_for_training(keras.optimizers.Adam(0.03), jit_compile=False)
    pairs = model.encode_pairs(images, captions)
    losses = model.fit(*pairs, epochs=45, verbose=0).history["loss"]
    assert losses[-1] < 0.3 * losses[0]
    beam_width = 2 if normalizer == "softmax" else 1
    assert model.caption(images, beam_width, max_length=9) == captions
    _, weights = model.look(images, beam_width, max_length=9)
    assert [w.shape for w in weights] == [(3, 2, 3), (5, 2, 3)]
    for w in weights:
        np.testing.assert_allclose(w.sum((1, 2)), 1, rtol=1e-4)
        if normalizer != "softmax":
            assert set(np.unique(w)) == {0, 1}


def test_saved_and_loaded_in_a_fresh_process(tmp_path, fresh_process):
    model = model_of(ka.Reinforce(0.25, seed=3), dropout=0.1)
    images = pictures()
    model.save(tmp_path / "m.keras")
    np.save(tmp_path / "x.npy", images)
    printed = fresh_process(
        """
        import numpy as np
        model = keras.models.load_model(sys.argv[1])
        print(model.normalizer.expected_rate, model.dropout, model.vocabulary)
        print(*model.caption(np.load(sys.argv[2]), 2, 5), sep="|")
        """,
        tmp_path / "m.keras",
        tmp_path / "x.npy",
    ).splitlines()
    assert printed[0] == f"0.25 0.1 {WORDS}"
    assert printed[1].split("|") == model.caption(images, 2, 5)


def test_any_encoder_with_a_map_will_do():
    inputs = keras.Input((None, None, 3))
    encoder = keras.Model(inputs, layers.Conv2D(8, 3, strides=4, padding="same")(inputs))
    encoder.trainable = False
    model = ImageCaptioner(WORDS, encoder, units=9, embedding_dim=7, attention_units=5)
    again = ImageCaptioner.from_config(model.get_config())
    images = np.ones((2, 8, 20, 3), "float32")
    for one in (model, again):
        assert one.grid(images.shape) == (2, 5)
        assert one.generate(images, max_length=3)["alignments"].shape == (2, 1, 3, 10)
    assert not model.encoder.trainable_variables


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"Expected an `encoder`.*neither"):
        ImageCaptioner(WORDS)
    flat = keras.Sequential([keras.Input((4, 4, 1)), layers.Flatten()])
    with pytest.raises(ValueError, match=r"\(B, H, W, C\).*\(None, 16\)"):
        ImageCaptioner(WORDS, flat)
    with pytest.raises(ValueError, match=r"2 pictures and 1 captions"):
        model_of().encode_pairs(pictures(2), ["a"])
    with pytest.raises(ValueError, match="distinct words"):
        ImageCaptioner(["a", "a"], image_shape=SHAPE)
    assert model_of().caption(pictures(0)) == []


def test_the_gate_scales_the_context():
    cell = GatedContextCell(layers.GRUCell(3), 2)
    states = cell.get_initial_state(batch_size=4)
    x = np.ones((4, 5), "float32")
    output, _ = cell(x, [states] if ops.is_tensor(states) else states)
    assert tuple(output.shape) == (4, 5) == (4, cell.output_size)
    np.testing.assert_allclose(to_numpy(output)[:, 3:], 0.5)  # sigmoid(0) of zero states
    copy = GatedContextCell.from_config(cell.get_config())
    assert (copy.context_dim, copy.cell.units) == (2, 3)


def test_deep_output_by_hand():
    layer = DeepOutput(2)
    y, out = np.ones((1, 3), "float32"), np.full((1, 4), 2.0, "float32")
    layer(y, out)
    layer.set_weights(
        [np.ones((3, 2)), np.array([0.0, 1.0]), np.ones((4, 3)), np.zeros(3)]
        if layer.weights[0].shape == (3, 2)
        else [np.ones((4, 3)), np.zeros(3), np.ones((3, 2)), np.array([0.0, 1.0])]
    )
    np.testing.assert_allclose(to_numpy(layer(y, out)), [[27, 28]])  # 3 * (1 + 4 * 2)


def test_half_precision():
    keras.config.set_dtype_policy("mixed_float16")
    model = model_of()
    (images, before), _ = pairs_of(model, pictures())
    logits = model((images, before))
    assert keras.backend.standardize_dtype(logits.dtype) == "float16"
    assert np.isfinite(to_numpy(logits)).all()
