"""The loss and the accuracies of padded sequences."""

from types import SimpleNamespace

import contract
import keras
import numpy as np
import pytest
from contract import to_numpy
from keras import layers

import keras_attention as ka

BACKEND = keras.backend.backend()
tensorflow_only = pytest.mark.skipif(
    BACKEND != "tensorflow", reason="this is TensorFlow's own"
)
B, T, V = 3, 5, 7
TARGETS = np.array([[3, 1, 6, 2, 0], [4, 5, 0, 0, 0], [1, 0, 0, 0, 0]])
REAL = TARGETS != 0


def logits(seed=0, steps=T):
    return (2 * np.random.default_rng(seed).normal(size=(B, steps, V))).astype("float32")


def close(actual, desired, atol=1e-6):
    np.testing.assert_allclose(to_numpy(actual), desired, atol=atol, rtol=1e-5)


def log_softmax(x):
    x = x.astype("float64")
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def losses(x, targets=TARGETS, smoothing=0.0):
    """`-sum_k q_k log p_k`, with the target's probability spread by the smoothing."""
    log_probs = log_softmax(x)
    wanted = np.eye(V)[targets] * (1 - smoothing) + smoothing / V
    return -(wanted * log_probs).sum(-1)


def mean(values, weights):
    return (values * weights).sum() / weights.sum()


# The function.


def test_by_hand():
    """Probabilities 1/2 and 1/4 of the right token; the third does not count."""
    x = np.log(np.array([[[2, 1, 1], [1, 1, 2], [1, 98, 1]]], "float32"))
    targets, weights = [[0, 1, 0]], [[1.0, 1.0, 0.0]]
    each = ka.sequence_crossentropy(targets, x, weights, average=())
    close(each, [[np.log(2), np.log(4), 0]])
    close(ka.sequence_crossentropy(targets, x, weights), np.log(8) / 2)
    close(ka.sequence_crossentropy(targets, x, [[3.0, 1.0, 0.0]]), np.log(32) / 4)
    by_count = ka.sequence_crossentropy(targets, x, [[3.0, 1.0, 0.0]], by="count")
    close(by_count, np.log(32) / 2)


def test_axes_that_are_averaged():
    weights = REAL.astype("float32")
    each = losses(logits()) * weights
    options = {
        (): each,
        ("time",): each.sum(1) / REAL.sum(1),
        ("batch",): each.sum(0) / np.maximum(REAL.sum(0), 1),
        ("batch", "time"): each.sum() / REAL.sum(),
    }
    for average, expected in options.items():
        found = ka.sequence_crossentropy(TARGETS, logits(), weights, average=average)
        assert tuple(found.shape) == expected.shape
        close(found, expected)


def test_nothing_to_average_is_zero():
    nothing = np.zeros((B, T), "float32")
    for average in (("batch", "time"), ("time",), ("batch",), ()):
        for by in ("weights", "count"):
            found = ka.sequence_crossentropy(TARGETS, logits(), nothing, average, by)
            assert not to_numpy(found).any()


def test_half_precision_logits():
    """Sums of float16 would lose digits: the loss is float32."""
    x = logits().astype("float16")
    found = ka.sequence_crossentropy(TARGETS, x, REAL.astype("float16"))
    assert keras.backend.standardize_dtype(found.dtype) == "float32"
    close(found, mean(losses(x.astype("float32")), REAL))


# The loss.


@pytest.mark.parametrize("average", ["tokens", "sequences"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.6])
def test_equals_numpy(average, smoothing):
    each = losses(logits(), smoothing=smoothing)
    if average == "tokens":
        expected = mean(each, REAL)
    else:
        expected = ((each * REAL).sum(1) / REAL.sum(1)).mean()
    loss = ka.SequenceCrossentropy(average=average, label_smoothing=smoothing)
    found = loss(TARGETS, logits())
    assert tuple(found.shape) == ()
    close(found, expected)


def test_the_two_averages_differ():
    values = [
        float(ka.SequenceCrossentropy(average=average)(TARGETS, logits()))
        for average in ("tokens", "sequences")
    ]
    assert abs(values[0] - values[1]) > 1e-3


@pytest.mark.parametrize("average", ["tokens", "sequences"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("garbage", [1e9, np.inf, -np.inf, np.nan])
def test_padding_has_no_influence(average, smoothing, garbage):
    """Neither on the loss nor on its gradients, and none flows into padding."""
    loss = ka.SequenceCrossentropy(average=average, label_smoothing=smoothing)
    dirty = logits()
    dirty[~REAL] = garbage
    nothing = SimpleNamespace(trainable_variables=[])

    def slopes(x):
        def call(data):
            return [loss(TARGETS, data["logits"])]

        return contract.gradients(nothing, call, {"logits": x}, [np.ones(())])

    (expected,), clean = slopes(logits())
    (found,), gradients = slopes(dirty)
    close(found, expected)
    close(gradients["logits"], clean["logits"])
    assert gradients["logits"][REAL].any(-1).all()
    assert not gradients["logits"][~REAL].any()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_more_padding_changes_nothing(smoothing):
    loss = ka.SequenceCrossentropy(label_smoothing=smoothing)
    wider = np.pad(TARGETS, [(0, 0), (0, 3)])
    longer = logits(steps=T + 3, seed=1)
    longer[:, :T] = logits()
    close(loss(wider, longer), to_numpy(loss(TARGETS, logits())))


@pytest.mark.parametrize("padding", [2, -1, V + 3])
def test_another_padding(padding):
    """Also one that is no token: it may stand outside the vocabulary."""
    targets = np.where(REAL, TARGETS, padding)
    targets[0, 3] = 5
    found = ka.SequenceCrossentropy(padding=padding)(targets, logits())
    expected = losses(logits(), np.where(REAL, targets, 0))
    close(found, mean(expected, REAL))


def test_only_padding_is_zero():
    for average in ("tokens", "sequences"):
        loss = ka.SequenceCrossentropy(average=average, label_smoothing=0.1)
        assert float(loss(np.zeros((B, T), int), logits())) == 0


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_sample_weights(smoothing):
    loss = ka.SequenceCrossentropy(label_smoothing=smoothing)
    each = losses(logits(), smoothing=smoothing)
    by_row = np.array([1.0, 0.5, 3.0])
    found = loss(TARGETS, logits(), sample_weight=by_row)
    close(found, mean(each, REAL * by_row[:, None]))
    by_token = np.random.default_rng(2).uniform(size=(B, T))
    found = loss(TARGETS, logits(), sample_weight=by_token)
    close(found, mean(each, REAL * by_token))


def test_sample_weights_of_sequences():
    """Not lost in the mean over a sequence's own tokens."""
    loss = ka.SequenceCrossentropy(average="sequences")
    by_row = np.array([1.0, 0.5, 3.0])
    found = loss(TARGETS, logits(), sample_weight=by_row)
    rows = (losses(logits()) * REAL).sum(1) / REAL.sum(1)
    close(found, mean(rows, by_row))


def test_an_unknown_average():
    with pytest.raises(ValueError, match=r"'tokens' or 'sequences'.*Received: 'steps'"):
        ka.SequenceCrossentropy(average="steps")


def test_configs():
    loss = ka.SequenceCrossentropy(
        padding=4, average="sequences", label_smoothing=0.25, name="mine"
    )
    config = keras.saving.serialize_keras_object(loss)
    again = keras.saving.deserialize_keras_object(config)
    assert again.get_config() == loss.get_config()
    assert (again.padding, again.average, again.name) == (4, "sequences", "mine")
    assert again.label_smoothing == 0.25
    targets = np.where(REAL, TARGETS, 4)
    close(again(targets, logits()), to_numpy(loss(targets, logits())))
    for cls in (ka.TokenAccuracy, ka.SequenceAccuracy):
        metric = cls(padding=4, name="mine")
        config = keras.saving.serialize_keras_object(metric)
        again = keras.saving.deserialize_keras_object(config)
        assert type(again) is cls
        assert (again.padding, again.name) == (4, "mine")


# The metrics.


def predicted(tokens):
    return np.eye(V, dtype="float32")[np.array(tokens)]


RIGHT_ROW = [[3, 1, 6, 2, 5], [4, 4, 0, 0, 0], [2, 0, 0, 0, 0]]  # row 0 is all right


@pytest.mark.parametrize(
    ("cls", "expected"), [(ka.TokenAccuracy, 5 / 7), (ka.SequenceAccuracy, 1 / 3)]
)
def test_accuracies(cls, expected):
    metric = cls()
    close(metric(TARGETS, predicted(RIGHT_ROW)), expected)
    garbage = predicted(RIGHT_ROW)
    garbage[~REAL] = np.nan
    close(cls()(TARGETS, garbage), expected)


@pytest.mark.parametrize(
    ("cls", "expected"), [(ka.TokenAccuracy, 5 / 8), (ka.SequenceAccuracy, 1 / 4)]
)
def test_accuracies_over_several_batches(cls, expected):
    """Sums over all batches: not means of the batches' means; empty rows do not count."""
    metric = cls()
    metric.update_state(TARGETS, predicted(RIGHT_ROW))
    metric.update_state(np.array([[3, 0], [0, 0]]), predicted([[2, 0], [0, 0]]))
    close(metric.result(), expected)
    metric.reset_state()
    assert float(metric.result()) == 0
    metric.update_state(np.array([[3, 0]]), predicted([[3, 5]]))
    close(metric.result(), 1)


@pytest.mark.parametrize("cls", [ka.TokenAccuracy, ka.SequenceAccuracy])
def test_accuracies_with_another_padding(cls):
    metric = cls(padding=-1, name="right")
    targets = np.array([[0, 2, -1], [1, -1, -1]])
    close(metric(targets, predicted([[0, 2, 5], [1, 0, 0]])), 1)
    close(
        metric(targets, predicted([[3, 2, 5], [1, 0, 0]])),
        {"t": 5 / 6, "s": 3 / 4}["t" if cls is ka.TokenAccuracy else "s"],
    )


# In `fit`.


SENTENCES = np.array([[1, 2, 3, 4, 0], [5, 6, 0, 0, 0], [2, 0, 0, 0, 0]])


def model():
    """Says each token in other words."""
    inputs = keras.Input((None,), dtype="int32")
    made = keras.Model(inputs, layers.Dense(V)(layers.Embedding(V, 12)(inputs)))
    made.compile(
        keras.optimizers.Adam(0.1),
        ka.SequenceCrossentropy(label_smoothing=0.1),
        metrics=[ka.TokenAccuracy(), ka.SequenceAccuracy()],
        jit_compile=BACKEND == "jax",
    )
    return made


def test_fit_and_evaluate():
    made = model()
    x = SENTENCES
    history = made.fit(x, TARGETS, epochs=15, verbose=0).history
    assert history["loss"][-1] < history["loss"][0] / 2
    assert history["token_accuracy"][-1] == 1
    assert history["sequence_accuracy"][-1] == 1
    found = made.evaluate(x, TARGETS, batch_size=3, verbose=0, return_dict=True)
    x_logits = made.predict(x, verbose=0)
    close(found["loss"], mean(losses(x_logits, smoothing=0.1), REAL), 1e-5)
    right = x_logits.argmax(-1) == TARGETS
    close(found["token_accuracy"], right[REAL].mean())
    one_by_one = made.evaluate(x, TARGETS, batch_size=1, verbose=0, return_dict=True)
    close(one_by_one["token_accuracy"], found["token_accuracy"])
    weights = np.array([1.0, 0.0, 2.0])
    weighted = made.evaluate(x, TARGETS, sample_weight=weights, verbose=0, return_dict=True)
    by_row = REAL * weights[:, None]
    close(weighted["loss"], mean(losses(x_logits, smoothing=0.1), by_row), 1e-5)


def test_saved_with_a_model(tmp_path):
    made = model()
    x = SENTENCES
    made.fit(x, TARGETS, verbose=0)
    made.save(tmp_path / "m.keras")
    loaded = keras.models.load_model(tmp_path / "m.keras")
    for one in (made, loaded):
        one.fit(x, TARGETS, epochs=2, verbose=0)
    expected = made.evaluate(x, TARGETS, verbose=0, return_dict=True)
    found = loaded.evaluate(x, TARGETS, verbose=0, return_dict=True)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        close(found[name], value, 1e-5)


@tensorflow_only
@pytest.mark.parametrize("jit_compile", [False, True])
def test_compiled_with_lengths_unknown(jit_compile):
    import tensorflow as tf

    @tf.function(
        jit_compile=jit_compile,
        input_signature=[
            tf.TensorSpec((None, None), tf.int64),
            tf.TensorSpec((None, None, V), tf.float32),
        ],
    )
    def loss(targets, x):
        return ka.SequenceCrossentropy(label_smoothing=0.1)(targets, x)

    close(loss(TARGETS, logits()), mean(losses(logits(), smoothing=0.1), REAL))
