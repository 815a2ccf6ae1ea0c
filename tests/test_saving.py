"""Case 12: what one process saves, a fresh one loads with two imports and predicts."""

import json

import contract
import keras
import numpy as np
import pytest
from contract import to_numpy
from keras import layers, ops

import keras_attention as ka
from keras_attention import normalizers, scores

DEPTH = contract.UNITS  # so that self-attention suits every score
PAIRS = [(s, n) for s in scores.names() for n in normalizers.names()]


def data(steps=5):
    x = np.random.default_rng(0).normal(size=(2, steps, DEPTH)).astype("float32")
    x[0, 3:] = 0
    return x


def model(score, normalizer):
    """Both layers, every option of score and normaliser away from its default."""
    inputs = keras.Input((None, DEPTH))
    steps = layers.Masking()(inputs)
    attention = contract.AttentionCase(score, normalizer, dropout=0.25).make(seed=3)
    pooling = contract.PoolingCase(score, normalizer).make(num_queries=2)
    attended, weights = attention(steps, steps, return_attention_scores=True)
    pooled, shares = pooling(attended, return_attention_scores=True)
    made = keras.Model(inputs, [layers.Dense(3)(pooled), weights, shares])
    contract.randomise(made)
    return made


def test_every_score_and_normalizer_in_a_fresh_process(tmp_path, fresh_process):
    np.save(tmp_path / "x.npy", data())
    for score, normalizer in PAIRS:
        model(score, normalizer).save(tmp_path / f"{score}-{normalizer}.keras")
    fresh_process(
        """
        import pathlib, numpy
        folder = pathlib.Path(sys.argv[1])
        x = numpy.load(folder / "x.npy")
        for path in folder.glob("*.keras"):
            outputs = keras.models.load_model(path)(x)
            outputs = [keras.ops.convert_to_numpy(y) for y in outputs]
            numpy.savez(path.with_suffix(".npz"), *outputs)
        """,
        tmp_path,
    )
    for score, normalizer in PAIRS:
        expected = model(score, normalizer)(data())
        with np.load(tmp_path / f"{score}-{normalizer}.npz") as found:
            for desired, name in zip(expected, found.files, strict=True):
                np.testing.assert_allclose(
                    found[name], to_numpy(desired), atol=1e-6, err_msg=score
                )


@keras.saving.register_keras_serializable("keras_attention_tests.saving")
def negative_distance(query, key):
    apart = ops.expand_dims(query, -2) - ops.expand_dims(key, -3)
    return -ops.sum(ops.square(apart), axis=-1)


def test_no_config_holds_code():
    for score, normalizer in [*PAIRS, (negative_distance, "softmax")]:
        if callable(score):
            text = json.dumps(ka.Attention(score).get_config())
        else:
            text = model(score, normalizer).to_json()
        assert "Lambda" not in text
        assert "__lambda__" not in text
        assert "keras_attention" in text


def whole_model():
    """Every public layer with arguments away from their defaults, and a shared one."""
    ids = keras.Input((None,), dtype="int32")
    x = layers.Embedding(9, 4, mask_zero=True)(ids)
    shared = ka.Attention(
        ka.AdditiveScore(5, use_bias=True, normalize=True, kernel_regularizer="l2"),
        ka.Softmax(temperature=0.5),
        dropout=0.0,
        seed=4,
        name="reader",
    )
    x = layers.Add()([x, shared(x, x)])
    x = shared(x, x, use_causal_mask=True)
    pooled = [
        ka.AttentionPooling(
            3,
            normalizer="entmax15",
            gated=True,
            query_initializer="ones",
            query_constraint="max_norm",
        )(x),
        layers.Flatten()(ka.AttentionPooling(3, num_queries=2, name="two")(x)),
        ka.AttentionPooling(score=ka.BilinearScore(use_bias=True))(x),
    ]
    x = layers.Dense(1)(layers.Concatenate()(pooled))
    made = keras.Model(ids, x)
    made.compile(keras.optimizers.Adam(0.01), "mse")
    return made


IDS = np.array([[1, 2, 3, 0, 0], [4, 5, 6, 7, 8], [8, 0, 0, 0, 0]])
TARGETS = np.array([[1.0], [-1.0], [0.5]])


def test_case_12_model_weights_and_json_and_training_goes_on(tmp_path, fresh_process):
    made = whole_model()
    made.fit(IDS, TARGETS, epochs=3, verbose=0)
    made.save(tmp_path / "m.keras")
    made.save_weights(tmp_path / "m.weights.h5")
    (tmp_path / "m.json").write_text(made.to_json())
    np.savez(tmp_path / "data.npz", ids=IDS, targets=TARGETS)
    fresh_process(
        """
        import pathlib, numpy
        folder = pathlib.Path(sys.argv[1])
        data = numpy.load(folder / "data.npz")
        model = keras.models.load_model(folder / "m.keras")
        twin = keras.models.model_from_json((folder / "m.json").read_text())
        twin.load_weights(folder / "m.weights.h5")
        found = {
            "keras": model.predict(data["ids"], verbose=0),
            "json": twin.predict(data["ids"], verbose=0),
            "steps": int(model.optimizer.iterations),
        }
        model.fit(data["ids"], data["targets"], epochs=2, verbose=0)
        found["later"] = model.predict(data["ids"], verbose=0)
        numpy.savez(folder / "found.npz", **found)
        """,
        tmp_path,
    )
    expected = made.predict(IDS, verbose=0)
    made.fit(IDS, TARGETS, epochs=2, verbose=0)
    later = made.predict(IDS, verbose=0)
    assert np.abs(later - expected).max() > 1e-3
    with np.load(tmp_path / "found.npz") as found:
        np.testing.assert_allclose(found["keras"], expected, atol=1e-6)
        np.testing.assert_allclose(found["json"], expected, atol=1e-6)
        assert found["steps"] == 3
        np.testing.assert_allclose(found["later"], later, atol=1e-5)


@pytest.mark.filterwarnings("ignore")  # Keras calls .h5 a legacy format
def test_case_12_h5_of_a_sequential_model(tmp_path):
    made = keras.Sequential(
        [keras.Input((None, DEPTH)), ka.AttentionPooling(3), layers.Dense(2)]
    )
    made.save(tmp_path / "m.h5")
    loaded = keras.models.load_model(tmp_path / "m.h5")
    np.testing.assert_allclose(
        loaded.predict(data(), verbose=0), made.predict(data(), verbose=0), atol=1e-6
    )


def test_case_12_a_registered_function(tmp_path):
    inputs = keras.Input((None, DEPTH))
    made = keras.Model(inputs, ka.Attention(negative_distance)(inputs, inputs))
    made.save(tmp_path / "m.keras")
    loaded = keras.models.load_model(tmp_path / "m.keras")
    np.testing.assert_allclose(to_numpy(loaded(data())), to_numpy(made(data())), atol=1e-6)


def test_loaded_layers_have_as_many_weights_as_saved(tmp_path):
    """A sub-layer built late would be loaded with fresh numbers, or twice."""
    made = model("additive", "softmax")
    made.save(tmp_path / "m.keras")
    loaded = keras.models.load_model(tmp_path / "m.keras")
    assert [w.shape for w in loaded.weights] == [w.shape for w in made.weights]
    for one, other in zip(loaded.get_weights(), made.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
