"""Hard attention: what is drawn, and whether the derivatives are right on average."""

import itertools

import keras
import numpy as np
import pytest
from contract import to_numpy
from keras import layers, ops
from test_decoder import tensorflow_only

import keras_attention as ka
from keras_attention import normalizers
from keras_attention.choices import Choices, collect
from keras_attention.hard_training import score_term
from keras_attention.sequence_losses import losses_per_sample

BACKEND = keras.backend.backend()
NAMES = ["straight_through", "gumbel", "reinforce", "marginal"]
ONE_HOT = {"reinforce": {"expected_rate": 0.0}}  # the others always are

SCORES = np.array([0.5, -1.0, 2.0, 1.0], "float32")
MASK = np.array([True, True, False, True])
P = np.exp(SCORES) * MASK / (np.exp(SCORES) * MASK).sum()


def make(name, **options):
    return normalizers.get(name, seed=3, **ONE_HOT.get(name, {}), **options)


def gradient(function, x):
    """The gradient of a scalar function of one array."""
    if BACKEND == "tensorflow":
        import tensorflow as tf

        x = tf.convert_to_tensor(x)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        found = tape.gradient(y, x)
        return np.zeros(x.shape) if found is None else found.numpy()
    if BACKEND == "jax":
        import jax

        return np.asarray(jax.grad(function)(jax.numpy.asarray(x)))
    import torch

    x = torch.tensor(x, requires_grad=True)
    y = function(x)
    if y.grad_fn is None:
        return np.zeros(x.shape)
    (found,) = torch.autograd.grad(y, [x], allow_unused=True)
    return np.zeros(x.shape) if found is None else found.numpy()


@pytest.mark.parametrize("name", NAMES)
def test_draws_are_one_hot_and_as_frequent_as_probable(name):
    n = 20_000
    weights = to_numpy(
        make(name)(np.tile(SCORES, (n, 1)), mask=np.tile(MASK, (n, 1)), training=True)
    )
    assert set(np.unique(weights)) == {0.0, 1.0}
    np.testing.assert_array_equal(weights.sum(-1), 1)
    found = weights.mean(0)
    assert found[2] == 0
    error = np.sqrt(P * (1 - P) / n)
    assert (np.abs(found - P) <= 4 * error).all()


@pytest.mark.parametrize("name", NAMES)
def test_the_most_probable_position_is_taken_at_inference(name):
    for options in ({"training": False}, {}):
        weights = make(name)(SCORES[None], mask=MASK[None], **options)
        np.testing.assert_array_equal(to_numpy(weights), [[0, 0, 0, 1]])
    always = make(name, sample="always")
    drawn = to_numpy(always(np.tile(SCORES, (400, 1))))
    assert set(drawn.argmax(-1)) == {0, 1, 2, 3}
    never = make(name, sample="never")
    drawn = to_numpy(never(np.tile(SCORES, (9, 1)), training=True))
    assert set(drawn.argmax(-1)) == {2}


@pytest.mark.parametrize("name", NAMES)
def test_nothing_to_see_gives_zeros_and_minus_infinity_is_masked(name):
    scores = np.array([[np.nan, 1, 2], [0, -np.inf, 0], [-np.inf] * 3], "float32")
    mask = np.array([[False] * 3, [True] * 3, [True] * 3])
    for training in (False, True):
        weights = to_numpy(make(name)(scores, mask=mask, training=training))
        np.testing.assert_array_equal(weights.sum(-1), [0, 1, 0])
        assert weights[1, 1] == 0
    slopes = gradient(
        lambda s: ops.sum(make(name)(s, mask=mask, training=True) ** 2), scores
    )
    assert np.isfinite(slopes).all()
    assert not slopes[[0, 2]].any()


@pytest.mark.parametrize("name", NAMES)
def test_draws_are_seeded_and_differ_from_call_to_call(name):
    scores = np.zeros((30, 9), "float32")
    one, other = make(name), make(name)
    first = to_numpy(one(scores, training=True))
    np.testing.assert_array_equal(to_numpy(other(scores, training=True)), first)
    assert (to_numpy(one(scores, training=True)) != first).any()


def test_straight_through_has_exactly_the_gradient_of_softmax():
    scores = np.random.default_rng(0).normal(size=(3, 5)).astype("float32")
    mask, values = scores < 1.2, np.arange(15.0, dtype="float32").reshape(3, 5)
    found, expected = (
        gradient(
            lambda s, name=name: ops.sum(
                normalizers.get(name)(s, mask=mask, training=True) * values
            ),
            scores,
        )
        for name in ("straight_through", "softmax")
    )
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert np.abs(found).max() > 0.1


def test_gumbel_has_the_gradient_of_softmax_of_noisy_scores():
    """The noise is found again from a second normalizer of the same seed."""
    values = np.array([1.0, 3.0, -2.0, 5.0], "float32")
    for temperature in (1.0, 0.25):
        normalizer = make("gumbel", temperature=temperature)
        twin = make("gumbel", temperature=temperature)
        noise = to_numpy(twin._gumbel_noise(ops.convert_to_tensor(SCORES[None])))[0]
        y = np.exp((SCORES + noise) / temperature)
        y /= y.sum()
        expected = y * (values - y @ values) / temperature
        found = gradient(
            lambda s, n=normalizer: ops.sum(n(s[None], training=True) * values), SCORES
        )
        np.testing.assert_allclose(found, expected, rtol=2e-4, atol=1e-5)


def test_temperature_is_annealed_and_saved(tmp_path):
    inputs = keras.Input((4, 3))
    layer = ka.AttentionPooling(5, normalizer=ka.Gumbel(temperature=2.0))
    model = keras.Model(inputs, layer(inputs))
    layer.normalizer.current_temperature.assign(0.5)
    model.save(tmp_path / "m.keras")
    loaded = keras.models.load_model(tmp_path / "m.keras").layers[-1].normalizer
    assert loaded.temperature == 2.0
    assert float(loaded.current_temperature) == 0.5


# REINFORCE against the exact gradient, on a loss that is not linear in the choice.

LOSSES = np.array([3.0, -1.0, 100.0, 2.0], "float32") + 5
EXACT = P * (LOSSES - P @ LOSSES)  # d/ds sum_j p_j l_j


def estimates(baseline, n=40_000):
    """The estimate of every draw: `n` samples of one batch do not touch each other."""
    normalizer = make("reinforce", entropy=0.0, baseline_decay=0.0)
    normalizer.moments.assign([baseline, 1.0])

    def added(scores):
        weights = normalizer(scores, mask=np.tile(MASK, (n, 1)), training=True)
        weights = weights[:, None]
        return n * score_term(normalizer, weights, ops.sum(weights * LOSSES, (1, 2)))

    return gradient(added, np.tile(SCORES, (n, 1)))


def test_reinforce_is_right_on_average_and_a_baseline_cuts_its_variance():
    plain, based = estimates(0.0), estimates(float(P @ LOSSES))
    for found in (plain, based):
        error = found.std(0) / np.sqrt(len(found))
        assert (np.abs(found.mean(0) - EXACT) <= 3 * error + 1e-6).all()
        assert not found[:, 2].any()
    assert (based.var(0)[MASK] < 0.5 * plain.var(0)[MASK]).all()


def test_entropy_has_its_exact_gradient_in_choices_and_in_averages():
    logs = np.log(np.where(MASK, P, 1))
    entropy = -(P * logs).sum()
    expected = -P * (logs + entropy)
    for rate in (0.0, 1.0):
        normalizer = ka.Reinforce(expected_rate=rate, entropy=-1.0, seed=4)

        def added(scores, normalizer=normalizer):
            weights = normalizer(scores[None], mask=MASK[None], training=True)
            return score_term(normalizer, weights, ops.zeros((1,)))

        np.testing.assert_allclose(gradient(added, SCORES), expected, atol=1e-5)


def test_expected_rate_is_the_share_of_averages():
    normalizer = ka.Reinforce(expected_rate=0.25, seed=5)
    weights = to_numpy(normalizer(np.tile(SCORES, (4000, 1)), training=True))
    assert abs((weights.max(-1) < 1).mean() - 0.25) < 0.03


def test_the_baseline_is_the_decaying_mean_of_losses():
    normalizer = ka.Reinforce(baseline_decay=0.5)
    assert float(normalizer.baseline()) == 0
    normalizer.remember(ops.convert_to_tensor([1.0, 3.0]))
    assert float(normalizer.baseline()) == 2  # of one batch: its mean
    normalizer.remember(ops.convert_to_tensor([8.0]))
    np.testing.assert_allclose(float(normalizer.baseline()), (0.5 * 2 + 8) / 1.5)


# Models.


def lookup(batch, steps=6, seed=0):
    """Which of the steps is marked, and what stands there is the answer."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(batch, steps, 4)).astype("float32")
    x[..., 0] = 0
    marked = rng.integers(steps, size=batch)
    x[np.arange(batch), marked, 0] = 1
    return x, x[np.arange(batch), marked, 1:2]


def pooling_model(normalizer, steps=6):
    inputs = keras.Input((steps, 4))
    pooled = ka.AttentionPooling(8, normalizer=normalizer, name="look")(inputs)
    return ka.HardAttentionModel(inputs, layers.Dense(1)(pooled))


def mean_loss(model, x, y):
    return float(np.mean((model.predict(x, verbose=0) - y) ** 2))


@pytest.mark.parametrize("name", NAMES)
def test_fit_lowers_the_loss_with_each_estimator(name):
    options = {"seed": 1} | ({"temperature": 0.7} if name == "gumbel" else {})
    model = pooling_model(normalizers.get(name, **options))
    model.compile(keras.optimizers.Adam(0.02), "mse")
    x, y = lookup(1024)
    before = mean_loss(model, x, y)
    model.fit(x, y, batch_size=64, epochs=32, verbose=0)
    after = mean_loss(model, x, y)
    assert after < 0.25 * before, (before, after)
    weights = model.get_layer("look")(x, return_attention_scores=True)[1]
    right = to_numpy(weights).argmax(-1) == x[..., 0].argmax(-1)
    assert right.mean() > 0.9


def added_gradient(model, x, y):
    """The gradient of the loss of one training step, by SGD at a rate of 1."""
    before = model.get_weights()
    model.compile(keras.optimizers.SGD(1.0), "mse")
    model.train_on_batch(x, y)
    found = [b - a for b, a in zip(before, model.get_weights(), strict=True)]
    model.set_weights(before)
    return found


def trainable(model, found):
    paths = [v.path for v in model.weights]
    keep = {v.path for v in model.trainable_weights}
    return {p: g for p, g in zip(paths, found, strict=True) if p in keep}


def test_marginal_is_the_mean_over_all_choices():
    """The loss of every choice by hand; the gradient by numeric differences."""
    model = pooling_model("marginal", steps=3)
    x, y = lookup(5, 3)
    pooling, dense = model.layers[1], model.layers[2]
    soft = ka.AttentionPooling(8)
    soft(x)

    def loss():
        soft.set_weights(pooling.get_weights())
        p = to_numpy(soft(x, return_attention_scores=True)[1])
        kernel, bias = (to_numpy(w) for w in dense.weights)
        losses = (x @ kernel + bias - y[:, None])[..., 0] ** 2
        return float((p * losses).sum(-1).mean())

    start = loss()
    model.compile("sgd", "mse")
    np.testing.assert_allclose(model.train_on_batch(x, y), start, rtol=1e-4)
    found = trainable(model, added_gradient(model, x, y))
    assert len(found) == 5
    for variable in model.trainable_weights:
        value, slope = to_numpy(variable), found[variable.path]
        direction = np.sign(slope)
        ends = []
        for step in (1e-2, -1e-2):
            variable.assign(value + step * direction)
            ends.append(loss())
        variable.assign(value)
        numeric = (ends[0] - ends[1]) / 2e-2
        np.testing.assert_allclose((slope * direction).sum(), numeric, rtol=0.02, atol=1e-4)


def test_reinforce_in_a_model_agrees_with_marginal_on_average():
    """Whole models, `fit`'s own training step: within 3 standard errors."""
    x, y = lookup(1, 3, seed=2)
    exact_model = pooling_model("marginal", steps=3)
    model = pooling_model(ka.Reinforce(0.0, 0.0, seed=1), steps=3)
    pairs = zip(model.trainable_weights, exact_model.trainable_weights, strict=True)
    for variable, value in pairs:
        variable.assign(to_numpy(value))
    exact = list(trainable(exact_model, added_gradient(exact_model, x, y)).values())
    # A batch of many copies of one sample is a mean over as many draws.
    draws = []
    start = model.get_weights()
    model.compile(keras.optimizers.SGD(1.0), "mse")
    n = 500
    for _ in range(12):
        model.train_on_batch(np.tile(x, (n, 1, 1)), np.tile(y, (n, 1)))
        after = model.get_weights()
        found = [b - a for b, a in zip(start, after, strict=True)]
        draws.append(list(trainable(model, found).values()))
        model.set_weights(start)
    for place, expected in enumerate(exact):
        found = np.stack([draw[place] for draw in draws])
        error = found.std(0, ddof=1) / np.sqrt(len(draws))
        gap = np.abs(found.mean(0) - expected)
        # Of some 60 numbers with an estimated error, one may be further out than 3.
        assert (gap <= 3 * error + 1e-4).mean() > 0.95
        assert (gap <= 6 * error + 1e-4).all()


def test_each_sample_is_charged_its_own_loss():
    """Another sample's loss and choice do not touch a sample's gradient."""
    normalizer = make("reinforce", entropy=0.0)
    losses = np.array([5.0, 0.0], "float32")
    found = gradient(
        lambda s: score_term(normalizer, normalizer(s, training=True)[:, None], losses),
        np.stack([SCORES, SCORES]),
    )
    assert np.abs(found[0]).max() > 0.1
    assert not found[1].any()


def decoder_model(normalizer, order="bahdanau", feeding=False):
    target, memory = keras.Input((None, 2)), keras.Input((None, 4))
    decoder = ka.AttentionDecoder(
        layers.GRUCell(12),
        ka.Attention("additive", normalizer=normalizer),
        order=order,
        input_feeding=feeding,
        attention_units=6 if feeding or order == "luong" else None,
        output_attention=True if feeding or order == "luong" else None,
    )
    hidden = decoder(layers.Masking()(target), memory)
    return ka.HardAttentionModel([target, memory], layers.Dense(1)(hidden))


def copying(batch=256, steps=4):
    """Say what stands at the marked place, at each step again."""
    memory, answer = lookup(batch, 5)
    target = np.ones((batch, steps, 2), "float32")
    return [target, memory], np.tile(answer[:, None], (1, steps, 1))


@pytest.mark.parametrize(
    ("name", "order", "feeding"),
    [
        ("straight_through", "bahdanau", True),
        ("reinforce", "bahdanau", False),
        ("reinforce", "luong", False),
    ],
)
def test_fit_lowers_the_loss_of_a_decoder(name, order, feeding):
    model = decoder_model(normalizers.get(name, seed=1), order, feeding)
    model.compile(keras.optimizers.Adam(0.02), "mse")
    data, targets = copying()
    before = mean_loss(model, data, targets)
    model.fit(data, targets, batch_size=64, epochs=12, verbose=0)
    assert mean_loss(model, data, targets) < 0.7 * before


@pytest.mark.parametrize("order", ["bahdanau", "luong"])
def test_every_step_of_a_decoder_draws_anew(order):
    """Equal steps of a cell that stands still: only the draws differ."""
    cell = layers.SimpleRNNCell(
        4, kernel_initializer="zeros", recurrent_initializer="zeros"
    )
    attention = ka.Attention("additive", normalizer=make("gumbel"), dropout=0.3, seed=2)
    decoder = ka.AttentionDecoder(
        cell, attention, order=order, input_feeding=True, output_attention=True
    )
    x, memory = np.ones((40, 6, 2), "float32"), np.ones((40, 9, 3), "float32")
    calls = []
    for _ in range(2):
        _, weights = decoder(x, memory, return_attention_scores=True, training=True)
        calls.append(to_numpy(weights).argmax(-1))
    for steps in np.swapaxes(calls[0], 0, 1), np.stack([c[:, 0] for c in calls]):
        for one, other in itertools.pairwise(steps):
            assert (one != other).mean() > 0.6


def test_a_decoder_is_charged_for_the_choices_of_real_steps_only():
    model = decoder_model(make("reinforce", entropy=0.0))
    data, _ = copying(8)
    data[0][:, 2:] = 0  # masked
    with collect(Choices()) as choices:
        model(data, training=True)
    ((normalizer, weights),) = choices.handed_in
    assert normalizer.expected_rate == 0
    np.testing.assert_array_equal(to_numpy(weights).sum(-1), [[1, 1, 0, 0]] * 8)


def test_marginal_cannot_run_inside_a_loop():
    data, targets = copying(4, 2)
    model = decoder_model("marginal")
    with pytest.raises(ValueError, match=r"Expected the normalizer 'reinforce'.*luong"):
        model(data, training=True)
    model = decoder_model("marginal", "luong")
    model.compile("sgd", "mse", run_eagerly=BACKEND != "jax")
    assert np.isfinite(model.train_on_batch([data[0], data[1][:, :2]], targets))


@tensorflow_only
def test_marginal_needs_known_lengths():
    model = decoder_model("marginal", "luong")
    model.compile("sgd", "mse")
    (target, memory), answers = copying(4, 2)
    memory = memory[:, :2]
    model.train_on_batch([target, memory], answers)
    with pytest.raises(ValueError, match="Expected known lengths"):
        model.train_on_batch([target[:, :1], memory], answers[:, :1])  # retraced


def test_too_many_choices_are_refused():
    inputs = keras.Input((9, 4))
    seen = ka.Attention("dot", normalizer="marginal")(inputs, inputs)
    model = ka.HardAttentionModel(inputs, layers.Dense(1)(seen))
    model.compile("sgd", "mse")
    with pytest.raises(ValueError, match=r"at most 256 choices.*387420489"):
        model.train_on_batch(np.ones((2, 9, 4)), np.ones((2, 9, 1)))


def test_both_kinds_in_a_model_are_refused():
    inputs = keras.Input((3, 4))
    both = [ka.AttentionPooling(4, normalizer=n)(inputs) for n in NAMES[2:]]
    model = ka.HardAttentionModel(inputs, layers.Dense(1)(layers.Add()(both)))
    model.compile("sgd", "mse")
    with pytest.raises(ValueError, match="Received: both"):
        model.train_on_batch(np.ones((2, 3, 4)), np.ones((2, 1)))


@tensorflow_only
def test_a_compiled_fit_draws_and_learns():
    model = decoder_model(ka.Reinforce(seed=1))
    model.compile(keras.optimizers.Adam(0.02), "mse", jit_compile=True)
    data, targets = copying()
    before = mean_loss(model, data, targets)
    model.fit(data, targets, batch_size=32, epochs=5, verbose=0)
    assert mean_loss(model, data, targets) < 0.9 * before


def test_without_hard_attention_the_model_is_a_plain_one():
    losses = []
    for kind in (ka.HardAttentionModel, keras.Model):
        keras.utils.set_random_seed(3)
        inputs = keras.Input((6, 4))
        model = kind(inputs, layers.Dense(1)(ka.AttentionPooling(8)(inputs)))
        model.compile("sgd", "mse")
        losses.append(model.fit(*lookup(64), epochs=2, verbose=0).history["loss"])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-6)


def test_saved_and_loaded_in_a_fresh_process(tmp_path, fresh_process):
    model = pooling_model(ka.Reinforce(0.25, 0.1, 0.8, seed=1))
    model.compile("sgd", "mse")
    x, y = lookup(8)
    model.fit(x, y, verbose=0)
    model.save(tmp_path / "m.keras")
    np.save(tmp_path / "x.npy", x)
    printed = fresh_process(
        """
        import numpy as np
        model = keras.models.load_model(sys.argv[1])
        normalizer = model.get_layer("look").normalizer
        print(type(model).__name__, normalizer.expected_rate, normalizer.entropy)
        print(float(normalizer.baseline()), *model.predict(np.load(sys.argv[2])).ravel())
        model.fit(np.load(sys.argv[2]), np.ones((8, 1)), verbose=0)
        """,
        tmp_path / "m.keras",
        tmp_path / "x.npy",
    )
    named = [line for line in printed.splitlines() if line.startswith("Hard")]
    assert named == ["HardAttentionModel 0.25 0.1"]
    numbers = [float(n) for n in printed.splitlines()[-1].split()]
    expected = model.predict(x, verbose=0).ravel()
    np.testing.assert_allclose(numbers[1:], expected, atol=1e-6)
    baseline = float(model.get_layer("look").normalizer.baseline())
    np.testing.assert_allclose(numbers[0], baseline, rtol=1e-6)


# What each sample is charged.


def test_losses_per_sample_have_the_loss_as_their_mean():
    rng = np.random.default_rng(0)
    y, guess = rng.normal(size=(2, 5, 2)).astype("float32")
    weights = rng.random((5,)).astype("float32")
    for sample_weight in (None, weights):
        losses = to_numpy(losses_per_sample("mse", y, guess, sample_weight))
        assert losses.shape == (5,)
        desired = keras.losses.MeanSquaredError()(y, guess, sample_weight)
        np.testing.assert_allclose(losses.mean(), to_numpy(desired), rtol=1e-5)
    tokens = rng.integers(0, 3, (5, 3))
    tokens[:, 0] = 1
    logits = rng.normal(size=(5, 3, 4)).astype("float32")
    for average in ("tokens", "sequences"):
        loss = ka.SequenceCrossentropy(average=average)
        losses = to_numpy(losses_per_sample(loss, tokens, logits, weights))
        np.testing.assert_allclose(
            losses.mean(), to_numpy(loss(tokens, logits, weights)), rtol=1e-5
        )


def test_losses_per_sample_count_the_output_s_mask():
    y, guess = np.zeros((2, 3, 1), "float32"), np.ones((2, 3, 1), "float32")
    carrying = layers.Masking(0.0)(ops.convert_to_tensor(guess * [[[1], [1], [0]]] * 2))
    losses = to_numpy(losses_per_sample("mse", y, carrying))
    desired = to_numpy(keras.losses.MeanSquaredError()(y, carrying))
    np.testing.assert_allclose(losses.mean(), desired, rtol=1e-6)
    assert desired == 4


@pytest.mark.parametrize(
    ("loss", "guess"),
    [
        (["mse", "mse"], np.ones((2, 1))),
        ("mse", [np.ones((2, 1))] * 2),
        (keras.losses.MeanSquaredError(reduction="sum"), np.ones((2, 1))),
    ],
)
def test_losses_that_cannot_be_shared_out_are_refused(loss, guess):
    with pytest.raises(ValueError, match=r"Expected .* Received: "):
        losses_per_sample(loss, np.ones((2, 1)), guess)


@pytest.mark.parametrize(
    "make_it",
    [
        lambda: ka.StraightThrough(sample="sometimes"),
        lambda: ka.Gumbel(temperature=0.0),
        lambda: ka.Reinforce(expected_rate=1.5),
        lambda: ka.Reinforce(baseline_decay=1.0),
    ],
)
def test_arguments_out_of_range_are_refused(make_it):
    with pytest.raises(ValueError, match=r"Expected .* Received: "):
        make_it()
