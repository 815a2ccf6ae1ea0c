"""`MemoryNetwork`: the paper's formulas, empty words and slots, time, linear start."""

import json

import keras
import numpy as np
import pytest
from contract import to_numpy

from keras_attention.datasets import babi
from keras_attention.models import LinearStart, MemoryNetwork

WORDS = ["mary", "went", "to", "the", "garden", "kitchen", "where", "is"]
B, S, W, WQ, D, ROWS = 2, 4, 5, 3, 6, len(WORDS) + 2
STORY = np.array(
    [
        [[2, 3, 4, 5, 6], [2, 3, 4, 5, 7], [2, 3, 0, 0, 0], [6, 0, 0, 0, 0]],
        [[7, 5, 0, 0, 0], [0, 0, 0, 0, 0], [2, 3, 4, 1, 6], [0, 0, 0, 0, 0]],
    ],
    "int32",
)
QUESTION = np.array([[8, 9, 2], [8, 9, 0]], "int32")


def small(**options):
    options = {"embedding_dim": D, "hops": 2, "memory_size": 7, "seed": 1} | options
    model = MemoryNetwork(WORDS, **options)
    model.build(None)
    rng = np.random.default_rng(2)
    for weight in model.trainable_weights:
        weight.assign(0.5 * rng.normal(size=weight.shape))
    return model


def outputs(model, story=STORY, question=QUESTION, **options):
    found = model((story, question), return_attention_scores=True, **options)
    return [to_numpy(y) for y in found]


def assert_same(actual, desired, atol=1e-5):
    for one, other in zip(actual, desired, strict=True):
        np.testing.assert_allclose(one, other, atol=atol)


def code(length):
    """Twice the paper's, so that its weights are 1 on average."""
    j = np.arange(1, length + 1)[:, None] / length
    k = np.arange(1, D + 1) / D
    return 2 * ((1 - j) - k * (1 - 2 * j))


def reference(model, story, question):
    """One example, counted by the paper's formulas in NumPy: logits and weights."""
    tables = [to_numpy(t.embeddings) for t in model.embeddings]
    ages = [to_numpy(t.embeddings) for t in model.ages]
    empty = [to_numpy(t.embeddings) for t in model.empty] or np.zeros((9, 0, D))

    def vector(table, ids):
        ids = ids[ids > 0]
        weights = code(len(ids)) if model.position_encoding else 1.0
        return (weights * table[ids]).sum(axis=0)

    sentences = [ids for ids in story if ids.any()]
    hops = range(model.hops)
    adjacent = model.tying == "adjacent"
    u, found = vector(tables[0], question), []
    for hop in hops:
        first = hop if adjacent else 0
        m, c = (
            np.array(
                [
                    vector(tables[k], ids)
                    + (ages[k][len(sentences) - 1 - i] if ages else 0.0)
                    for i, ids in enumerate(sentences)
                ]
                + [*empty[k]]
            )
            for k in (first, first + 1)
        )
        powers = np.exp(m @ u)
        w = powers / powers.sum()
        found.append(w[: len(sentences)])
        if not adjacent:
            u = u @ to_numpy(model.memory.kernels[0])
        u = u + w @ c
    return u @ tables[-1][2:].T, np.array(found)


@pytest.mark.parametrize("tying", ["adjacent", "layer_wise"])
@pytest.mark.parametrize("position_encoding", [True, False])
@pytest.mark.parametrize(("memory_size", "empty_slots"), [(7, 0), (None, 0), (7, 2)])
def test_equals_the_papers_formulas(tying, position_encoding, memory_size, empty_slots):
    model = small(
        tying=tying,
        position_encoding=position_encoding,
        memory_size=memory_size,
        empty_slots=empty_slots,
    )
    logits, weights = outputs(model)
    assert weights.shape == (B, 2, S)
    assert logits.shape == (B, len(WORDS))
    for row in range(B):
        filled = STORY[row].any(axis=-1)
        wanted, hops = reference(model, STORY[row], QUESTION[row])
        np.testing.assert_allclose(logits[row], wanted, atol=1e-4)
        np.testing.assert_allclose(weights[row][:, filled], hops, atol=1e-5)
        assert (weights[row][:, ~filled] == 0).all()
    np.testing.assert_allclose(to_numpy(model((STORY, QUESTION))), logits, atol=1e-6)


def test_a_hop_can_look_at_nothing():
    """Empty slots take weight, and add what they hold; a story of none is all theirs."""
    model = small(hops=1, empty_slots=2)
    _, weights = outputs(model)
    assert (weights.sum(axis=-1) < 0.99).all()
    logits, weights = outputs(model, np.zeros_like(STORY))
    assert (weights == 0).all()
    question = outputs(small(hops=1), np.zeros_like(STORY))[0]
    assert np.abs(logits - question).max() > 0.1


@pytest.mark.parametrize(
    ("tying", "hops", "tables"),
    [("adjacent", 1, 2), ("adjacent", 3, 4), ("layer_wise", 1, 2), ("layer_wise", 3, 2)],
)
def test_how_many_embeddings(tying, hops, tables):
    """cases.md 16: K + 1 of them, or 2; the size of a batch stands in no weight."""
    model = small(tying=tying, hops=hops)
    shapes = [tuple(w.shape) for w in model.trainable_weights]
    assert shapes.count((ROWS, D)) == tables
    assert shapes.count((7, D)) == tables
    assert shapes.count((D, D)) == (tying == "layer_wise")
    assert len(shapes) == 2 * tables + (tying == "layer_wise")


@pytest.mark.parametrize("tying", ["adjacent", "layer_wise"])
@pytest.mark.parametrize(
    ("slots", "places", "asked"),
    [
        ([0, 1, 2, 3], [0, 1, 2, 3, 4], [0, 1, 2]),
        ([2, 3, 4, 5], [3, 4, 5, 6, 7], [1, 2, 3]),
        ([0, 2, 4, 5], [0, 2, 3, 6, 7], [0, 2, 3]),
    ],
    ids=["right", "left", "scattered"],
)
def test_empty_words_and_slots_have_no_influence(tying, slots, places, asked):
    """The length J is a sentence's own, and an empty slot takes no time."""
    model = small(tying=tying)
    story = np.zeros((B, 6, 8), "int32")
    story[:, np.array(slots)[:, None], places] = STORY
    question = np.zeros((B, 4), "int32")
    question[:, asked] = QUESTION
    logits, weights = outputs(model)
    padded, wide = outputs(model, story, question)
    assert_same([padded, wide[..., slots]], [logits, weights])
    assert (wide[:, :, ~story[0].any(-1)] == 0).all()


def test_time_is_what_makes_order_matter():
    turned = STORY[:1, ::-1]
    for memory_size, same in ((None, True), (7, False)):
        model = small(memory_size=memory_size)
        straight = outputs(model, STORY[:1], QUESTION[:1])[0]
        other = outputs(model, turned, QUESTION[:1])[0]
        assert np.allclose(straight, other, atol=1e-5) is same


@pytest.mark.parametrize("slots", [1, 3, 9])
def test_any_number_of_slots(slots):
    rng = np.random.default_rng(0)
    story = rng.integers(1, ROWS, (B, slots, W))
    logits, weights = outputs(small(memory_size=None), story)
    assert weights.shape == (B, 2, slots)
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-6)
    assert np.isfinite(logits).all()


def test_of_a_longer_story_the_latest_sentences_are_seen():
    story = np.random.default_rng(0).integers(1, ROWS, (B, 9, W))
    model = small(memory_size=4)
    logits, weights = outputs(model, story)
    latest, seen = outputs(model, story[:, 5:])
    assert_same([logits, weights[..., 5:]], [latest, seen])
    assert (weights[..., :5] == 0).all()


def test_noise_moves_sentences_back_in_training_only():
    story = np.full((1, 4, W), 3)
    model = small(noise=0.5, memory_size=30)
    plain = small(memory_size=30)
    assert_same(outputs(model, story, QUESTION[:1]), outputs(plain, story, QUESTION[:1]))
    filled = np.ones((200, 4), bool)
    ages, seen = (to_numpy(x) for x in model._count_back(filled, True))
    assert seen.all()
    assert (np.diff(ages) <= -1).all()  # the order stays
    # Behind the last sentence one slot at most, 0.5 of one on average, and so on.
    np.testing.assert_allclose(ages.mean(axis=0), [5, 3.5, 2, 0.5], atol=0.3)
    assert set(ages[:, -1]) == {0, 1}
    # At the end of the table sentences share its last row rather than vanish.
    short = small(noise=0.9, memory_size=4)
    ages, seen = (to_numpy(x) for x in short._count_back(filled, True))
    assert ages.max() == 3
    assert seen.all()


def test_linear_start_removes_the_softmaxes():
    model = small(hops=1, memory_size=None)
    model.normalizer.linear.assign(1.0)
    _, weights = outputs(model)
    tables = [to_numpy(t.embeddings) for t in model.embeddings]
    u = (code(3) * tables[0][QUESTION[0]]).sum(0)
    m = [(code((s > 0).sum()) * tables[0][s[s > 0]]).sum(0) for s in STORY[0]]
    np.testing.assert_allclose(weights[0, 0], np.array(m) @ u, atol=1e-5)
    assert (weights[1, :, [1, 3]] == 0).all()


class Watch(keras.callbacks.Callback):
    """Whether the softmaxes were gone, at the end of each epoch."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def on_epoch_end(self, epoch, logs=None):
        self.seen.append(float(to_numpy(self.model.normalizer.linear)))


def test_fit_with_linear_start_leaves_a_right_model(tmp_path):
    model = small()
    model.compile_for_training()
    before = [to_numpy(w).copy() for w in model.trainable_weights]
    watch = Watch()
    targets = np.array([3, 4])
    options = {"epochs": 3, "verbose": 0, "callbacks": [LinearStart(2), watch]}
    model.fit((STORY, QUESTION), targets, **options)
    assert watch.seen == [1, 1, 0]
    for weight, old in zip(model.trainable_weights, before, strict=True):
        assert (to_numpy(weight) != old).any(), weight.path
    logits, weights = outputs(model)
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-6)
    # One that breaks off in its linear epochs has softmaxes as well.
    model.fit((STORY, QUESTION), targets, epochs=1, verbose=0, callbacks=[LinearStart(5)])
    assert float(to_numpy(model.normalizer.linear)) == 0
    logits, weights = outputs(model)
    model.save(tmp_path / "model.keras")
    assert_same(
        outputs(keras.models.load_model(tmp_path / "model.keras")), [logits, weights]
    )


def test_the_loss_is_summed_over_a_batch():
    model = small()
    model.compile_for_training()
    targets = np.array([3, 4])
    logits = outputs(model)[0].astype("float64")
    logs = np.log(np.exp(logits).sum(-1)) - logits[[0, 1], targets]
    loss = model.loss(targets, logits)
    assert float(to_numpy(loss)) == pytest.approx(logs.sum(), rel=1e-5)
    assert model.optimizer.global_clipnorm == 40


def test_learns_where_people_are_and_answers_in_words(tmp_path, fresh_process):
    train, test = babi.generate(1500), babi.generate(60, seed=1)
    vocabulary = ["anna", "ben", "clara", "david", *babi.PLACES, *babi.WALKED]
    vocabulary += ["to", "the", "where", "is"]
    model = MemoryNetwork(vocabulary, 16, hops=1, memory_size=8, noise=0.1, seed=3)
    model.compile_for_training(keras.optimizers.Adam(0.02))
    stories, questions, answers, _ = zip(*train, strict=True)
    model.fit(
        model.encode(stories, questions),
        model.encode_answers(answers),
        batch_size=50,
        epochs=12,
        verbose=0,
    )
    stories, questions, answers, _ = zip(*test, strict=True)
    said = model.answer(stories, questions)
    assert np.mean(np.array(said) == answers) > 0.9
    model.save(tmp_path / "model.keras")
    story = ["Anna walked to the kitchen.", "Ben ran to the garden."]
    printed = fresh_process(
        """
        model = keras.models.load_model(sys.argv[1])
        print(*model.answer([sys.argv[2:4]] * 2, ["Where is Anna?", "Where is Ben?"]))
        """,
        tmp_path / "model.keras",
        *story,
    )
    assert printed.split()[-2:] == ["kitchen", "garden"]
    assert model.answer([], []) == []


def test_encoding():
    model = small()
    story, question = model.encode(
        [["Mary went.", "Who?"], ["The garden is THE kitchen!"]], ["Where?", "Is Mary?"]
    )
    assert story.tolist() == [
        [[2, 3, 0, 0, 0], [1, 0, 0, 0, 0]],
        [[5, 6, 9, 5, 7], [0, 0, 0, 0, 0]],
    ]
    assert question.tolist() == [[8, 0], [9, 2]]
    assert model.encode_answers(["Kitchen", "mary"]).tolist() == [5, 0]
    with pytest.raises(ValueError, match="Expected a story as a list of sentences"):
        model.encode(["Mary."], ["Who?"])
    with pytest.raises(ValueError, match="Expected a story, a list of sentences"):
        model.encode([["Mary."]], [])
    for wrong in (["cellar"], [["kitchen"]]):
        with pytest.raises(ValueError, match="Expected answers out of the vocabulary"):
            model.encode_answers(wrong)
    with pytest.raises(ValueError, match="Expected answers as a list"):
        model.encode_answers("kitchen")
    with pytest.raises(ValueError, match="Expected a story, a list of sentences"):
        model.answer([["Mary."]], [])
    with pytest.raises(ValueError, match="Expected the inputs stories, questions"):
        model(story)


def test_config_and_errors():
    options = {
        "embedding_dim": D,
        "hops": 4,
        "tying": "layer_wise",
        "memory_size": 9,
        "position_encoding": False,
        "noise": 0.2,
        "seed": 5,
        "empty_slots": 2,
    }
    model = MemoryNetwork(WORDS, **options)
    config = json.loads(json.dumps(model.get_config()))
    assert {name: config[name] for name in options} == options
    assert MemoryNetwork.from_config(config).get_config() == model.get_config()
    with pytest.raises(ValueError, match="Expected `tying` in"):
        MemoryNetwork(WORDS, tying="loose")
    with pytest.raises(ValueError, match="distinct words"):
        MemoryNetwork(["a", "a"])
    with pytest.raises(ValueError, match="positive integer"):
        MemoryNetwork(WORDS, hops=0)
    with pytest.raises(ValueError, match="`empty_slots` to be a positive integer"):
        MemoryNetwork(WORDS, empty_slots=-1)


def test_seeds():
    same = [MemoryNetwork(WORDS, seed=seed, tying="layer_wise") for seed in (1, 1, 2)]
    for model in same:
        model.build(None)
    first, again, other = ([to_numpy(w) for w in model.trainable_weights] for model in same)
    assert_same(first, again, atol=0)
    tables = [*first[:2], other[0]]
    assert all((a != b).any() for i, a in enumerate(tables) for b in tables[:i])
    deviations = [w.std() for w in first[:2]]
    np.testing.assert_allclose(deviations, 0.1, atol=0.02)
