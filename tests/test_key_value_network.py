"""`KeyValueMemoryNetwork`: the paper's formula, empty slots, words in and out, saving."""

import json

import keras
import numpy as np
import pytest
from contract import to_numpy

from keras_attention.models import KeyValueMemoryNetwork

WORDS = "Peru Chile Chad capital border Lima N'Djamena which what next".split()
B, S, W, WQ, D, HOPS = 2, 5, 3, 4, 6, 3
KEYS = np.array(
    [
        [[2, 5, 0], [3, 5, 6], [0, 0, 0], [4, 2, 0], [9, 9, 9]],
        [[2, 0, 5], [0, 0, 0], [8, 3, 1], [0, 7, 0], [2, 2, 2]],
    ],
    "int32",
)
VALUES = np.array([[7, 8, 0, 2, 3], [7, 0, 11, 4, 0]], "int32")
QUESTION = np.array([[10, 5, 2, 0], [9, 0, 6, 0]], "int32")


def small(**options):
    model = KeyValueMemoryNetwork(WORDS, D, HOPS, seed=1, **options)
    model.build(None)
    rng = np.random.default_rng(0)
    for kernel in model.memory.kernels:
        kernel.assign(np.eye(D) + 0.3 * rng.normal(size=(D, D)))
    return model


def outputs(model, keys=KEYS, values=VALUES, question=QUESTION):
    inputs = keys, values, question
    return [to_numpy(x) for x in model(inputs, return_attention_scores=True)]


def test_equals_the_papers_formula():
    model = small()
    logits, weights = outputs(model)
    assert logits.shape == (B, len(WORDS))
    assert weights.shape == (B, HOPS, S)
    asked, said = (to_numpy(t.embeddings) for t in (model.asked, model.said))
    for row in range(B):
        filled = VALUES[row] > 0
        u = asked[QUESTION[row][QUESTION[row] > 0]].sum(axis=0)
        k = np.array([asked[ids[ids > 0]].sum(axis=0) for ids in KEYS[row][filled]])
        v = said[VALUES[row][filled]]
        for hop, kernel in enumerate(map(to_numpy, model.memory.kernels)):
            powers = np.exp(k @ u)
            w = powers / powers.sum()
            np.testing.assert_allclose(weights[row, hop, filled], w, atol=1e-5)
            assert (weights[row, hop, ~filled] == 0).all()
            u = (u + w @ v) @ kernel
        np.testing.assert_allclose(logits[row], said[2:] @ u, atol=1e-4)
    only = to_numpy(model((KEYS, VALUES, QUESTION)))
    np.testing.assert_allclose(only, logits, atol=1e-6)


def test_empty_words_and_slots_have_no_influence():
    model = small()
    logits, weights = outputs(model)
    places = [1, 2, 4, 6, 7]
    keys, values = np.zeros((B, 9, W + 2), "int32"), np.zeros((B, 9), "int32")
    keys[:, places, 1:-1], values[:, places] = KEYS, VALUES
    # What would be found in an empty slot.
    keys[:, 0] = 5
    question = np.pad(QUESTION, ((0, 0), (2, 1)))
    longer, spread = outputs(model, keys, values, question)
    np.testing.assert_allclose(longer, logits, atol=1e-5)
    np.testing.assert_allclose(spread[..., places], weights, atol=1e-6)
    for table in (model.asked, model.said):
        numbers = to_numpy(table.embeddings).copy()
        numbers[0] = np.nan
        table.embeddings.assign(numbers)
    np.testing.assert_allclose(outputs(model)[0], logits, atol=1e-5)


def test_an_empty_memory_reads_nothing():
    logits, weights = outputs(small(), values=np.zeros_like(VALUES))
    assert np.isfinite(logits).all()
    assert (weights == 0).all()


def test_learns_to_look_up_what_it_was_never_asked(tmp_path, fresh_process):
    """A quarter of the subjects is asked about in the test alone."""
    names = [f"land{i}" for i in range(60)]
    relations = ("capital", "river", "sign")
    facts = {
        (name, relation): f"{relation}{i}"
        for i, name in enumerate(names)
        for relation in relations
    }
    vocabulary = [*names, *relations, *facts.values(), "what", "is"]
    rng = np.random.default_rng(0)

    def asked(subjects):
        questions = [(s, r) for s in subjects for r in relations for _ in range(4)]
        memories = []
        for subject, _ in questions:
            near = {subject, *rng.choice(names, 3)}
            memories.append([(key, v) for key, v in facts.items() if key[0] in near])
        words = [["what", "is", relation, subject] for subject, relation in questions]
        return memories, words, [facts[question] for question in questions]

    model = KeyValueMemoryNetwork(vocabulary, seed=2)
    model.compile_for_training()
    memories, words, answers = asked(names[:45])
    targets = model.encode_answers(answers)
    model.fit(model.encode(memories, words), targets, epochs=10, verbose=0)
    memories, words, answers = asked(names[45:])
    said = model.answer(memories, words)
    assert np.mean(np.array(said) == answers) > 0.8
    model.save(tmp_path / "model.keras")
    printed = fresh_process(
        """
        model = keras.models.load_model(sys.argv[1])
        facts = [(["land50", "capital"], "capital50"), (["land51", "river"], "river51")]
        print(*model.answer([facts], [["what", "is", "river", "land51"]]))
        """,
        tmp_path / "model.keras",
    )
    assert printed.split()[-1] == "river51"
    assert model.answer([], []) == []


def test_encoding():
    model = small()
    facts = [(["Peru", "capital"], "Lima"), (["Chad", "border", "Peru"], "nowhere")]
    keys, values, question = model.encode(
        [facts, [], facts[:1]], [["what"], ["which", "capital"], []]
    )
    assert keys.tolist() == [
        [[2, 5, 0], [4, 6, 2]],
        [[0, 0, 0], [0, 0, 0]],
        [[2, 5, 0], [0, 0, 0]],
    ]
    assert values.tolist() == [[7, 1], [0, 0], [7, 0]]
    assert question.tolist() == [[10, 0], [9, 5], [0, 0]]
    assert model.encode_answers(["Lima", "Peru"]).tolist() == [5, 0]
    assert [x.shape for x in model.encode([[]], [["what"]])] == [(1, 1, 1), (1, 1), (1, 1)]
    with pytest.raises(ValueError, match="Expected a key as a list of words"):
        model.encode([[("Peru", "Lima")]], [["what"]])
    with pytest.raises(ValueError, match="Expected a question as a list of words"):
        model.encode([facts], ["what"])
    with pytest.raises(ValueError, match="Expected a memory, a list of facts"):
        model.encode([facts], [])
    with pytest.raises(ValueError, match="Expected a memory, a list of facts"):
        model.answer([facts], [])
    for wrong in ("ab", ("a", "b", "c"), (["Peru"], ["Lima"]), ["Peru"]):
        with pytest.raises(ValueError, match="Expected a fact as a pair"):
            model.encode([[wrong]], [["what"]])
    for wrong in (None, [b"what"], (word for word in ["what"])):
        with pytest.raises(ValueError, match="Expected a question as a list of words"):
            model.encode([facts], [wrong])
    streamed = model.encode((fact for fact in [facts]), iter([["what"]]))
    assert streamed[1].tolist() == [[7, 1]]
    assert len(model.answer(iter([facts]), iter([["what"]]))) == 1
    assert model.encode_answers(word for word in ["Lima"]).tolist() == [5]
    for wrong in ("Lima", [["Lima"]]):
        with pytest.raises(ValueError, match="Expected answers"):
            model.encode_answers(wrong)
    with pytest.raises(ValueError, match="Expected the inputs keys, values, questions"):
        model((KEYS, VALUES))
    with pytest.raises(ValueError, match="Expected answers out of the vocabulary"):
        model.encode_answers(["lima"])


def test_config_and_errors():
    options = {"embedding_dim": D, "hops": 4, "seed": 5}
    model = KeyValueMemoryNetwork(WORDS, **options)
    config = json.loads(json.dumps(model.get_config()))
    assert {name: config[name] for name in options} == options
    assert KeyValueMemoryNetwork.from_config(config).get_config() == model.get_config()
    for wrong in ({"hops": 0}, {"embedding_dim": 2.5}):
        with pytest.raises(ValueError, match="to be a positive integer"):
            KeyValueMemoryNetwork(WORDS, **wrong)
    with pytest.raises(ValueError, match="distinct words"):
        KeyValueMemoryNetwork(["a", "a"])


NOT_ON_JAX = pytest.mark.skipif(
    keras.backend.backend() == "jax", reason="JAX has float64 only if it is switched on"
)


@pytest.mark.parametrize(
    "policy", ["mixed_float16", "mixed_bfloat16", pytest.param("float64", marks=NOT_ON_JAX)]
)
def test_other_dtypes(policy):
    model, other = small(), small(dtype=policy)
    # In float64 other first numbers are drawn.
    other.set_weights(model.get_weights())
    logits, weights = outputs(model)
    lower, spread = outputs(other)
    np.testing.assert_allclose(lower, logits, atol=0.15)
    np.testing.assert_allclose(spread, weights, atol=0.03)


def test_the_same_numbers_in_a_graph():
    model = small()
    inputs = [keras.Input(x.shape[1:], dtype="int32") for x in (KEYS, VALUES, QUESTION)]
    graph = keras.Model(inputs, model(inputs))
    found = graph.predict([KEYS, VALUES, QUESTION], verbose=0)
    np.testing.assert_allclose(found, outputs(model)[0], atol=1e-5)
