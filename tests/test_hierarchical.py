"""`HierarchicalAttention`: weights at both levels, padding, shapes, saving, training."""

import json

import keras
import numpy as np
import pytest
from contract import to_numpy

from keras_attention.models import HierarchicalAttention, MeanPooling

WORDS = ["a", "good", "bad", "film", "!"]
B, S, W = 3, 4, 5
IDS = np.array(
    [
        [[2, 3, 5, 6, 0], [2, 4, 0, 0, 0], [1, 0, 0, 0, 0], [0, 0, 0, 0, 0]],
        [[4, 5, 1, 1, 2], [0, 0, 0, 0, 0], [0, 0, 0, 0, 0], [0, 0, 0, 0, 0]],
        np.zeros((S, W)),
    ],
    "int32",
)


def small(**options):
    sizes = {
        "embedding_dim": 6,
        "word_units": 9,
        "sentence_units": 8,
        "attention_units": 7,
        "seed": 1,
    }
    return HierarchicalAttention(WORDS, **{**sizes, **options})


def outputs(model, ids):
    return [to_numpy(y) for y in model(ids, return_attention_scores=True)]


def assert_same(actual, desired):
    np.testing.assert_allclose(actual, desired, atol=1e-6)


@pytest.mark.parametrize("pooling", ["attention", "mean"])
@pytest.mark.parametrize("num_classes", [1, 3])
def test_shapes_and_sums(pooling, num_classes):
    model = small(pooling=pooling, num_classes=num_classes)
    probabilities, words, sentences = outputs(model, IDS)
    assert probabilities.shape == (B, num_classes)
    assert words.shape == (B, S, W)
    assert sentences.shape == (B, S)
    assert (words[IDS == 0] == 0).all()
    filled = (IDS > 0).any(axis=-1)
    assert_same(words.sum(axis=-1), filled)
    assert (sentences[~filled] == 0).all()
    assert_same(sentences.sum(axis=-1), [1, 1, 0])
    assert_same(to_numpy(model(IDS)), probabilities)
    if num_classes == 3:
        assert_same(probabilities.sum(axis=-1), [1, 1, 1])


@pytest.mark.parametrize("pooling", ["attention", "mean"])
@pytest.mark.parametrize(
    ("rows", "columns", "shape"),
    [
        ([0, 1, 2, 3], [0, 1, 2, 3, 4], (6, 9)),
        ([2, 3, 4, 5], [4, 5, 6, 7, 8], (6, 9)),
        ([0, 2, 3, 5], [0, 2, 3, 5, 8], (6, 9)),
    ],
    ids=["right", "left", "scattered"],
)
def test_more_padding_changes_nothing(pooling, rows, columns, shape):
    model = small(pooling=pooling)
    padded = np.zeros((B, *shape), "int32")
    padded[:, np.array(rows)[:, None], columns] = IDS
    desired, words, sentences = outputs(model, IDS)
    actual, padded_words, padded_sentences = outputs(model, padded)
    assert_same(actual, desired)
    assert_same(padded_words[:, np.array(rows)[:, None], columns], words)
    assert_same(padded_sentences[:, rows], sentences)
    assert (padded_words[padded == 0] == 0).all()


@pytest.mark.parametrize("pooling", ["attention", "mean"])
def test_a_document_does_not_depend_on_its_batch(pooling):
    model = small(pooling=pooling)
    assert_same(to_numpy(model(IDS))[:2], to_numpy(model(IDS[:2])))
    # One sentence without any padding beside the same in a padded batch.
    assert_same(to_numpy(model(IDS[1:2, :1])), to_numpy(model(IDS))[1:2])


def test_the_order_of_words_and_sentences_matters():
    ids = IDS[[0, 0, 0, 0]]
    ids[1, 0, :2] = ids[1, 0, 1::-1]
    ids[2, [0, 1]] = ids[2, [1, 0]]
    predicted = to_numpy(small()(ids))[:, 0]
    assert predicted[0] == predicted[3]
    assert len(set(predicted)) == 3


def test_trains_on_one_shape_and_reads_any():
    model = small(dropout=0.3, word_dropout=0.3)
    model.compile("adam", "binary_crossentropy")
    model.build(IDS.shape)
    before = [to_numpy(weight).copy() for weight in model.trainable_weights]
    model.fit(IDS, np.array([[1], [0], [1]]), verbose=0)
    for weight, old in zip(model.trainable_weights, before, strict=True):
        assert np.isfinite(to_numpy(weight)).all(), weight.path
        assert (to_numpy(weight) != old).any(), weight.path
    assert not {B, S, W} & {n for weight in model.weights for n in weight.shape}
    for ids in (IDS[:, :1], IDS[:, :, :1], np.tile(IDS, (1, 2, 2))):
        probabilities, words, sentences = outputs(model, ids)
        assert np.isfinite(probabilities).all()
        assert (words.shape, sentences.shape) == (ids.shape, ids.shape[:2])


def test_learns_which_word_matters():
    count, sentences, words = 96, 2, 3
    generator = np.random.default_rng(0)
    ids = generator.choice([2, 5, 6], size=(count, sentences, words)).astype("int32")
    labels = generator.integers(0, 2, count)
    places = (
        np.arange(count),
        generator.integers(0, sentences, count),
        generator.integers(0, words, count),
    )
    ids[places] = np.where(labels, 3, 4)
    model = small()
    model.compile(keras.optimizers.Adam(0.03), "binary_crossentropy")
    model.fit(ids, labels[:, None], batch_size=32, epochs=12, verbose=0)
    probabilities, word_weights, sentence_weights = outputs(model, ids)
    assert ((probabilities[:, 0] > 0.5) == labels).mean() > 0.95
    # More than an even share.
    assert word_weights[places].mean() > 1 / words
    assert sentence_weights[places[:2]].mean() > 1 / sentences


def test_words_are_dropped_in_training_only():
    model = small(word_dropout=1.0)
    unknown = np.where(IDS > 0, 1, 0)
    assert_same(to_numpy(model(IDS, training=True)), to_numpy(model(unknown)))
    assert (to_numpy(model(IDS)) != to_numpy(model(unknown)))[:2].all()
    half = small(word_dropout=0.5)
    first, second = (to_numpy(half(IDS, training=True)) for _ in range(2))
    assert (first != second).any()


def test_symbolic_shapes():
    inputs = keras.Input((None, None), dtype="int32")
    probabilities, words, sentences = small()(inputs, return_attention_scores=True)
    assert probabilities.shape == (None, 1)
    assert (len(words.shape), len(sentences.shape)) == (3, 2)
    model = keras.Model(inputs, [probabilities, words, sentences])
    assert [y.shape for y in model.predict(IDS, verbose=0)] == [
        (B, 1),
        (B, S, W),
        (B, S),
    ]


def test_mixed_float16():
    model = small(dtype="mixed_float16")
    plain = small()
    plain.build((None, None, None))
    model.build((None, None, None))
    model.set_weights(plain.get_weights())
    halves = outputs(model, IDS)
    for half, full in zip(halves, outputs(plain, IDS), strict=True):
        np.testing.assert_allclose(half.astype("float32"), full, atol=5e-3)
    assert {w.dtype for w in model.trainable_weights} == {"float32"}
    assert halves[0].dtype == np.float32


def test_texts():
    model = small()
    texts = ["A good film! Bad film.", "", "Unheard of"]
    np.testing.assert_array_equal(
        model.encode(texts),
        [
            [[2, 3, 5, 6], [4, 5, 0, 0]],
            [[0, 0, 0, 0], [0, 0, 0, 0]],
            [[1, 1, 0, 0], [0, 0, 0, 0]],
        ],
    )
    assert model.encode(texts[:1], max_words=3).shape == (1, 3, 3)
    predicted = model.predict_texts(texts)
    assert_same(predicted, to_numpy(model(model.encode(texts))))
    assert model.predict_texts([]).shape == (0, 1)


def test_config_keeps_every_argument():
    options = {
        "num_classes": 3,
        "embedding_dim": 5,
        "word_units": 2,
        "sentence_units": 3,
        "attention_units": 4,
        "pooling": "mean",
        "dropout": 0.1,
        "word_dropout": 0.2,
        "seed": 9,
        "name": "reader",
    }
    config = HierarchicalAttention(WORDS, **options).get_config()
    assert {**options, "vocabulary": WORDS}.items() <= json.loads(
        json.dumps(config)
    ).items()
    assert HierarchicalAttention.from_config(config).get_config() == config


@pytest.mark.parametrize("pooling", ["attention", "mean"])
def test_saved_and_loaded_in_a_fresh_process(pooling, tmp_path, fresh_process):
    model = small(pooling=pooling, dropout=0.2, word_dropout=0.2)
    texts = ["A good film! Bad film.", "", "Unheard of"]
    expected = model.predict_texts(texts)
    model.save(tmp_path / "model.keras")
    code = """
    import json
    model = keras.models.load_model(sys.argv[1])
    texts = json.loads(sys.argv[2])
    _, words, _ = model(model.encode(texts), return_attention_scores=True)
    print(json.dumps([model.predict_texts(texts).tolist(), list(words.shape)]))
    """
    printed = fresh_process(code, tmp_path / "model.keras", json.dumps(texts))
    predicted, shape = json.loads(printed.splitlines()[-1])
    assert_same(predicted, expected)
    assert shape == [3, 2, 4]


def test_wrong_arguments():
    with pytest.raises(ValueError, match=r"'mean'\. Received: 'max'"):
        small(pooling="max")
    with pytest.raises(ValueError, match="distinct words"):
        HierarchicalAttention(["a", "b", "a"])
    with pytest.raises(ValueError, match="Received: 'abc'"):
        HierarchicalAttention("abc")


def test_mean_pooling():
    x = np.random.default_rng(0).normal(size=(3, 4, 2)).astype("float32")
    mask = np.array([[1, 1, 0, 0], [0, 1, 0, 1], [0, 0, 0, 0]], bool)
    masked = np.where(mask[..., None], x, np.float32("nan"))
    pooled, weights = MeanPooling()(masked, mask=mask, return_attention_scores=True)
    expected = [x[0, :2].mean(axis=0), x[1, [1, 3]].mean(axis=0), [0, 0]]
    assert_same(to_numpy(pooled), expected)
    assert_same(to_numpy(weights), mask / [[2], [2], [1]])
    assert_same(to_numpy(MeanPooling()(x)), x.mean(axis=1))
