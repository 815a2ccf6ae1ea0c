"""The behaviour cases of people who use attention layers in Keras, by number.

Case 12 (a fresh process) is in test_saving.py, 13 of decoders and searches, 14, 15 and 18
of decoders in test_decoder.py, test_generation.py and test_seq2seq.py, 16 in
test_memory.py. Cases 11 and 17 speak of parts that the package does not have yet.
"""

import functools

import keras
import numpy as np
import pytest
import references
from contract import gradients, randomise, to_numpy
from keras import layers, ops

import keras_attention as ka
from keras_attention import normalizers, scores

BACKEND = keras.backend.backend()
tensorflow_only = pytest.mark.skipif(
    BACKEND != "tensorflow", reason="this is TensorFlow's own"
)
has_xla = pytest.mark.skipif(
    BACKEND == "torch", reason="XLA is TensorFlow's and JAX's compiler"
)
IDS = np.array([[1, 2, 3, 0, 0], [4, 5, 0, 0, 0]])


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def close(actual, desired, atol=1e-5):
    np.testing.assert_allclose(to_numpy(actual), to_numpy(desired), atol=atol)


def score_of(name):
    return scores.get(name, **({"max_length": 50} if name == "location" else {}))


# 1. Masked pooling, exact numbers.

QUERY = np.array([[[1.0, 0.0]]], "float32")
VALUE = np.array([[[0, 10], [np.log(2), 20], [5, 99]]], "float32")
WEIGHTS, CONTEXT = [1 / 3, 2 / 3, 0], [0.462098, 16.66667]


def test_case_01_masked_attention_exact_numbers():
    layer = ka.Attention("dot")
    context, weights = layer(
        QUERY, VALUE, value_mask=[[1, 1, 0]], return_attention_scores=True
    )
    close(weights, [[WEIGHTS]])
    assert to_numpy(weights)[0, 0, 2] == 0
    assert abs(to_numpy(weights).sum() - 1) < 1e-6
    close(context, [[CONTEXT]])
    close(context, layer(QUERY, VALUE[:, :2]))


@pytest.mark.parametrize("score", ["dot", "feed_forward"])
def test_case_01_masked_pooling_exact_numbers(score):
    layer = ka.AttentionPooling(score=score)
    value = VALUE.copy()
    if score == "dot":
        layer.build(value.shape)
        layer.set_weights([np.array([[1, 0]])])
    else:
        # v . tanh(W x): the first column is made so that the scores are the same.
        layer = ka.AttentionPooling(1)
        layer.build(value.shape)
        value[0, :, 0] = np.arctanh(np.array([0, np.log(2), 5]) / 8)
        weights = {"kernel": [[1], [0]], "bias": [0], "query": [[8]]}
        for variable in layer.trainable_weights:
            variable.assign(np.array(weights[variable.name], "float32"))
    context, weights = layer(value, mask=[[1, 1, 0]], return_attention_scores=True)
    close(weights, [WEIGHTS])
    assert to_numpy(weights)[0, 2] == 0
    close(context, np.array(WEIGHTS, "float32")[None] @ value[0])
    close(context, layer(value[:, :2]))


# 2. Padding changes nothing, wherever it is.


@pytest.mark.parametrize("score", scores.names())
def test_case_02_padding_changes_nothing(score):
    query, value = normal(2, 4, 6), normal(2, 3, 6, seed=1)
    attention = ka.Attention(score_of(score))
    pooling = ka.AttentionPooling(score=score_of(score))
    desired = attention(query, value, return_attention_scores=True)
    pooled = pooling(value, return_attention_scores=True)
    places = [[0, 1, 2], [4, 5, 6], [1, 3, 6]]
    for places_of in places[: 1 if references.score_of(score).position_aware else 3]:
        longer, mask = normal(2, 7, 6, seed=9), np.zeros((2, 7), bool)
        longer[:, places_of], mask[:, places_of] = value, True
        for (output, weights), (one, its_weights) in (
            (
                attention(query, longer, value_mask=mask, return_attention_scores=True),
                desired,
            ),
            (pooling(longer, mask=mask, return_attention_scores=True), pooled),
        ):
            close(output, one)
            weights = to_numpy(weights)
            close(weights[..., places_of], its_weights)
            assert not np.delete(weights, places_of, axis=-1).any()


# 3. One mixed_float16 training step.


def test_case_03_training_in_mixed_float16():
    rows = np.array([[1, 2, 3, 4, 5], [4, 5, 0, 0, 0], [0, 0, 0, 0, 0]])
    targets = np.array([[1.0], [0], [1]])

    def model():
        ids = keras.Input((None,), dtype="int32")
        embedded = layers.Embedding(6, 8, mask_zero=True)(ids)
        steps = layers.LSTM(8, return_sequences=True)(embedded)
        mask = ops.not_equal(ids, 0)
        parts = [
            ka.Attention(score_of(name), name=name)(steps, steps) for name in scores.names()
        ]
        pooled, weights = ka.AttentionPooling(5)(
            layers.Concatenate()(parts), mask=mask, return_attention_scores=True
        )
        probability = layers.Dense(1, "sigmoid", dtype="float32")(pooled)
        return keras.Model(ids, [probability, *parts, pooled, weights])

    keras.config.set_dtype_policy("mixed_float16")
    half = model()
    trained = keras.Model(half.inputs, half.outputs[0])
    # XLA on the CPU has no float16 matrix product with float16 sums.
    trained.compile("adam", "binary_crossentropy", jit_compile=False)
    history = trained.fit(rows, targets, epochs=2, batch_size=1, verbose=0)
    assert np.isfinite(history.history["loss"]).all()
    for variable in trained.variables:
        if "seed" not in variable.path:
            assert variable.dtype == "float32"
            assert np.isfinite(to_numpy(variable)).all()
    outputs = half(rows)
    for part in outputs[1:]:
        assert keras.backend.standardize_dtype(part.dtype) == "float16"
    assert not to_numpy(outputs[-1])[rows == 0].any()
    for part in outputs[1:-1]:
        assert not to_numpy(part)[2].any()
    keras.config.set_dtype_policy("float32")
    full = model()
    full.set_weights(half.get_weights())
    for part, wide in zip(outputs, full(rows), strict=True):
        close(part, wide, 5e-3)


# 4. The mask comes by itself.


def reader(kind, inputs, steps, **mask):
    if kind == "pooling":
        return ka.AttentionPooling(5)(steps, return_attention_scores=True, **mask)
    mask = {"value_mask": mask["mask"], "query_mask": mask["mask"]} if mask else {}
    return ka.Attention("additive", units=5)(
        steps, steps, return_attention_scores=True, **mask
    )


@pytest.mark.parametrize("by_hand", [False, True])
@pytest.mark.parametrize("kind", ["pooling", "attention"])
def test_case_04_the_mask_of_an_embedding(kind, by_hand):
    ids = keras.Input((None,), dtype="int32")
    embedded = layers.Embedding(6, 4, mask_zero=True)(ids)
    steps = layers.Bidirectional(layers.LSTM(3, return_sequences=True))(embedded)
    mask = {"mask": ops.not_equal(ids, 0)} if by_hand else {}
    model = keras.Model(ids, reader(kind, ids, steps, **mask))
    context, weights = model.predict(IDS, verbose=0)
    alone, alone_weights = model.predict(IDS[:1, :3], verbose=0)
    real = IDS != 0
    if kind == "pooling":
        assert not weights[~real].any()
        close(weights.sum(-1), [1, 1])
        close(context[:1], alone)
        close(weights[:1, :3], alone_weights)
    else:
        pairs = real[:, :, None] & real[:, None]
        assert not weights[~pairs].any()
        assert not context[~real].any()
        close(weights.sum(-1), real.astype("f"))
        close(context[:1, :3], alone)


@pytest.mark.parametrize("kind", ["pooling", "attention"])
def test_case_04_the_mask_of_a_masking_layer(kind):
    x = normal(2, 5, 4)
    x[IDS == 0] = 0
    inputs = keras.Input((None, 4))
    carrying = layers.Masking()(inputs)
    model = keras.Model(inputs, reader(kind, inputs, carrying))
    context, weights = model.predict(x, verbose=0)
    alone, _ = model.predict(x[:1, :3], verbose=0)
    close(context[0, :3] if kind == "attention" else context[0], alone[0])
    weights = weights if kind == "pooling" else weights[:, 0]
    assert not weights[IDS == 0].any()


def test_case_04_an_explicit_mask_wins():
    x = layers.Embedding(6, 4, mask_zero=True)(IDS)
    mask = np.array([[0, 1, 0, 1, 0], [1, 1, 1, 1, 1]], bool)
    layer = ka.AttentionPooling(5)
    _, weights = layer(x, mask=mask, return_attention_scores=True)
    assert ((to_numpy(weights) > 0) == mask).all()
    attention = ka.Attention("dot")
    _, weights = attention(
        x, x, value_mask=mask, key_mask=mask, return_attention_scores=True
    )
    seen = to_numpy(weights) > 0
    assert (seen == mask[:, None] & (IDS != 0)[:, :, None]).all()


# 5. What mask leaves the layer.


def leaving(x):
    return getattr(x, "_keras_mask", None)


def test_case_05_pooling_lets_no_mask_out():
    ids = keras.Input((None,), dtype="int32")
    embedded = layers.Embedding(6, 4, mask_zero=True)(ids)
    pooled = ka.AttentionPooling()(embedded)
    assert leaving(pooled) is None
    output, weights = ka.AttentionPooling()(embedded, return_attention_scores=True)
    assert leaving(output) is None
    assert leaving(weights) is None
    dense = layers.Dense(4)(pooled)
    again = layers.LSTM(3)(layers.Reshape((2, 2))(dense))
    assert keras.Model(ids, again).predict(IDS, verbose=0).shape == (2, 3)


@pytest.mark.parametrize("with_weights", [False, True])
def test_case_05_attention_lets_the_querys_mask_out(with_weights):
    query_ids = keras.Input((3,), dtype="int32")
    value_ids = keras.Input((5,), dtype="int32")
    embedding = layers.Embedding(6, 4, mask_zero=True)
    attended = ka.Attention("dot")(
        embedding(query_ids),
        embedding(value_ids),
        return_attention_scores=with_weights,
    )
    output = attended[0] if with_weights else attended
    assert leaving(output).shape == (None, 3)
    outputs = [output, leaving(output)]
    model = keras.Model([query_ids, value_ids], outputs)
    found, mask = model([np.array([[1, 2, 0]]), IDS[:1]])
    assert to_numpy(mask).tolist() == [[1, 1, 0]]
    assert not to_numpy(found)[0, 2].any()
    if with_weights:
        both = keras.Model([query_ids, value_ids], attended)
        found, weights = both.predict([np.array([[1, 2, 0]]), IDS[:1]], verbose=0)
        assert found.shape == (1, 3, 4)
        assert weights.shape == (1, 3, 5)


def test_case_05_without_a_query_mask_none_leaves():
    embedding = layers.Embedding(6, 4, mask_zero=True)
    output = ka.Attention("dot")(normal(2, 3, 4), embedding(IDS))
    assert leaving(output) is None


@pytest.mark.filterwarnings("ignore:Layer '(functional|sequential):UserWarning")
def test_case_05_inside_nested_models():
    """A mean after the nested model shows which mask came out of it.

    Keras warns that a nested model destroys masks, while it hands them on.
    """
    embedding = layers.Embedding(6, 4, mask_zero=True)
    embedded = embedding(IDS)
    attention = ka.Attention("dot")
    inner = keras.Input((None, 4))
    functional = keras.Model(inner, attention(inner, inner))
    attended = attention(embedded, embedded)
    real = (IDS != 0)[..., None]
    expected = (to_numpy(attended) * real).sum(1) / real.sum(1)
    mean = layers.GlobalAveragePooling1D()
    outer = keras.Input((None,), dtype="int32")
    model = keras.Model(outer, mean(functional(embedding(outer))))
    close(model.predict(IDS, verbose=0), expected)

    pooling = ka.AttentionPooling(3)
    sequential = keras.Sequential([layers.Identity(), pooling, layers.Dense(2)])
    nested = keras.Sequential([embedding, sequential])
    found = nested.predict(IDS, verbose=0)
    expected = sequential.layers[-1](pooling(embedded))
    close(found, expected)
    close(nested.predict(IDS[:1, :3], verbose=0), found[:1])


# 6. None steps.


def test_case_06_trained_at_one_length_used_at_others():
    inputs = keras.Input((None, 4))
    x = inputs
    for name in scores.names():
        x = ka.Attention(score_of(name), name=name)(x, x)
    assert x.shape == (None, None, 4)
    pooled = [
        ka.AttentionPooling(score=score_of(name), name=f"pool_{name}")(x)
        for name in scores.names()
    ]
    assert all(p.shape == (None, 4) for p in pooled)
    pooled.append(ka.AttentionPooling(5, gated=True, num_queries=2)(x))
    merged = layers.Concatenate()([*pooled[:-1], layers.Flatten()(pooled[-1])])
    model = keras.Model(inputs, layers.Dense(1)(merged))
    model.compile("sgd", "mse")
    model.fit(normal(3, 7, 4), normal(3, 1), batch_size=3, verbose=0)
    for variable in model.variables:
        # No number of steps and no batch size.
        assert not {7, 3, 11} & set(variable.shape), variable.path
    for steps in (1, 3, 50):
        found = model.predict(normal(11, steps, 4), verbose=0)
        assert found.shape == (11, 1)
        assert np.isfinite(found).all()


# 7. Several copies, shared copies, clones.


def test_case_07_shared_and_separate_copies(tmp_path):
    first, second = keras.Input((5, 4)), keras.Input((9, 4))
    shared, own = ka.AttentionPooling(3), ka.AttentionPooling(3)
    outputs = [shared(first), shared(second), own(second)]
    model = keras.Model([first, second], outputs)
    assert len(model.trainable_variables) == 2 * len(own.trainable_variables)
    assert len({v.path for v in model.trainable_variables}) == 6
    data = [normal(2, 5, 4), normal(2, 9, 4, seed=1)]
    expected = model.predict(data, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    for copy in (loaded, clone):
        for found, desired in zip(copy.predict(data, verbose=0), expected, strict=True):
            close(found, desired, 1e-6)


def test_case_07_a_shared_layers_gradient_is_the_sum():
    shared = ka.AttentionPooling(3)
    data = {"a": normal(2, 5, 4), "b": normal(2, 9, 4, seed=1)}
    shared(data["a"])
    randomise(shared)
    target = normal(2, 4, seed=2)
    _, both = gradients(
        shared, lambda d: [shared(d["a"]), shared(d["b"])], data, [target, target]
    )
    _, first = gradients(shared, lambda d: [shared(d["a"])], data, [target])
    _, second = gradients(shared, lambda d: [shared(d["b"])], data, [target])
    for variable in shared.trainable_variables:
        name = variable.name
        close(both[name], first[name] + second[name])


# 8. Different lengths and depths; who is query, who is value.


def test_case_08_lengths_and_depths():
    query, value, key = normal(2, 4, 6), normal(2, 9, 10), normal(2, 9, 6)
    layer = ka.Attention("additive")
    output, weights = layer(query, value, return_attention_scores=True)
    assert output.shape == (2, 4, 10)
    assert weights.shape == (2, 4, 9)
    close(to_numpy(weights).sum(-1), np.ones((2, 4)))
    low, high = value.min(1, keepdims=True), value.max(1, keepdims=True)
    assert (to_numpy(output) >= low - 1e-5).all()
    assert (to_numpy(output) <= high + 1e-5).all()

    symbolic = layer(
        keras.Input(batch_shape=query.shape),
        keras.Input(batch_shape=value.shape),
        return_attention_scores=True,
    )
    assert [y.shape for y in symbolic] == [(2, 4, 10), (2, 4, 9)]
    with pytest.raises(ValueError, match=r"6 and 10"):
        ka.Attention("dot")(query, value)
    output, weights = ka.Attention("dot")(query, value, key, return_attention_scores=True)
    expected = references.normalise("softmax", query @ key.swapaxes(1, 2))
    close(weights, expected)
    close(output, expected @ value)


# 9. Scores against numpy. (test_contract.py has every option of every score.)


@pytest.mark.parametrize("normalizer", normalizers.names())
@pytest.mark.parametrize("score", scores.names())
def test_case_09_weights_from_get_weights(score, normalizer):
    depth = 6 if not references.score_of(score).any_query_depth else 5
    query, key = normal(2, 4, depth), normal(2, 9, 6, seed=1)
    layer = ka.Attention(score_of(score), normalizer)
    _, weights = layer(query, key, return_attention_scores=True)
    own = dict(zip([w.name for w in layer.weights], layer.get_weights(), strict=True))
    expected = references.score_of(score).formula(
        query.astype("float64"), key.astype("float64"), own
    )
    expected = np.broadcast_to(expected[..., :9], (2, 4, 9))
    close(weights, references.normalise(normalizer, expected))
    if normalizer != "sigmoid":
        close(to_numpy(weights).sum(-1), np.ones((2, 4)))


# 10. Small and large ranks.


def test_case_10_one_step_of_one_example():
    context, weights = ka.AttentionPooling(3)(normal(1, 1, 4), return_attention_scores=True)
    assert context.shape == (1, 4)
    assert to_numpy(weights).tolist() == [[1]]
    close(context, normal(1, 1, 4)[0])


def test_case_10_an_image():
    image = normal(2, 3, 4, 5)
    layer = ka.AttentionPooling(3, axis=(1, 2))
    context, weights = layer(image, return_attention_scores=True)
    flat = ka.AttentionPooling(3)
    flat.build((2, 12, 5))
    flat.set_weights(layer.get_weights())
    close(context, flat(image.reshape(2, 12, 5)))
    assert weights.shape == (2, 3, 4)
    close(to_numpy(weights).sum((1, 2)), [1, 1])


# 13. Export.


@tensorflow_only
@pytest.mark.filterwarnings("ignore")  # TensorFlow's exporters warn of their own future
def test_case_13_saved_model_and_tflite(tmp_path):
    import tensorflow as tf

    ids = keras.Input((None,), dtype="int32")
    embedded = layers.Embedding(9, 4, mask_zero=True)(ids)
    attended = ka.Attention("additive", units=5)(embedded, embedded)
    pooled = ka.AttentionPooling(3)(attended)
    model = keras.Model(ids, layers.Dense(2)(pooled))
    folder = str(tmp_path / "exported")
    model.export(folder, verbose=False)
    served = tf.saved_model.load(folder)
    five = np.array([[1, 2, 3, 0, 0], [4, 5, 6, 7, 8]], "int32")
    eight = np.pad(five, ((0, 0), (0, 3)))
    expected = model.predict(five, verbose=0)
    close(served.serve(five).numpy(), expected)
    close(served.serve(eight).numpy(), model.predict(eight, verbose=0))
    close(served.serve(eight).numpy(), expected)

    converter = tf.lite.TFLiteConverter.from_saved_model(folder)
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
    interpreter = tf.lite.Interpreter(model_content=converter.convert())
    for row, ids in enumerate(five):
        place = interpreter.get_input_details()[0]["index"]
        interpreter.resize_tensor_input(place, (1, 5))
        interpreter.allocate_tensors()
        interpreter.set_tensor(place, ids[None])
        interpreter.invoke()
        found = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
        close(found, expected[row : row + 1], 1e-4)


# 18. jit, traces, replicas.


def two_readers():
    """A model with both layers; the same numbers each time."""
    keras.utils.set_random_seed(3)
    ids = keras.Input((None,), dtype="int32")
    x = layers.Embedding(9, 4, mask_zero=True)(ids)
    x = ka.Attention("additive", units=5)(x, x)
    x = ka.AttentionPooling(3)(x)
    return keras.Model(ids, layers.Dense(1)(x))


@has_xla
def test_case_18_a_compiled_step_is_the_plain_step():
    ids = np.array([[1, 2, 3, 0, 0], [4, 5, 6, 7, 8], [0, 0, 0, 0, 0]])
    targets = normal(3, 1)
    found = []
    for compiled in (False, True):
        model = two_readers()
        model.compile("sgd", "mse", jit_compile=compiled)
        losses = [model.train_on_batch(ids, targets) for _ in range(3)]
        assert np.isfinite(losses).all()
        found.append([losses, *model.get_weights()])
    for plain, fast in zip(*found, strict=True):
        close(np.array(fast), np.array(plain))


@tensorflow_only
def test_case_18_few_traces_over_many_lengths(monkeypatch):
    traces = {}
    for layer in (ka.Attention, ka.AttentionPooling):
        original = layer.call

        @functools.wraps(original)
        def counted(self, *args, _original=original, **kwargs):
            traces[type(self)] = traces.get(type(self), 0) + 1
            return _original(self, *args, **kwargs)

        monkeypatch.setattr(layer, "call", counted)
    model = two_readers()
    traces.clear()
    for steps in range(3, 15):
        model.predict(np.ones((2, steps)), verbose=0)
    assert min(traces.values()) >= 1
    assert max(traces.values()) <= 3


@tensorflow_only
def test_case_18_two_replicas_learn_what_one_learns(fresh_process):
    fresh_process(
        """
        import numpy as np, tensorflow as tf
        from keras import layers
        import keras_attention as ka

        cpu = tf.config.list_physical_devices("CPU")[0]
        two = [tf.config.LogicalDeviceConfiguration()] * 2
        tf.config.set_logical_device_configuration(cpu, two)
        ids = np.random.default_rng(0).integers(0, 9, (32, 5)).astype("int32")
        targets = ids[:, :1] / 9.0
        data = tf.data.Dataset.from_tensor_slices((ids, targets)).batch(8)

        def train(scope):
            with scope:
                keras.utils.set_random_seed(3)
                inputs = keras.Input((None,), dtype="int32")
                x = layers.Embedding(9, 4, mask_zero=True)(inputs)
                x = ka.Attention("additive", units=5)(x, x)
                x = ka.AttentionPooling(3)(x)
                model = keras.Model(inputs, layers.Dense(1)(x))
                model.compile("sgd", "mse")
            model.fit(data, epochs=2, verbose=0)
            return model.get_weights()

        strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
        assert strategy.num_replicas_in_sync == 2
        pairs = zip(train(strategy.scope()), train(tf.device("CPU:0")), strict=True)
        for two, one in pairs:
            np.testing.assert_allclose(two, one, atol=1e-5)
        """
    )
