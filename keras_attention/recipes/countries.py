"""Questions about countries, answered out of a memory of facts.

The facts are those of the PyPI package countryinfo. A slot of the memory is one of them: it
is found by subject and relation, and read is the object (Miller et al., 2016,
arXiv:1606.03126). Nothing that the tests ask for was asked for in training: the network
has learnt what the words of a question mean, not the answers.
"""

import statistics

import keras
import numpy as np

from keras_attention import recipes
from keras_attention.datasets import countries
from keras_attention.models import KeyValueMemoryNetwork
from keras_attention.recipes.hops import show_hops

FILE = "countries.keras"
SEED = 0
# Settings were chosen on split 0; this one has other facts to test on.
SPLIT = 1
EPOCHS = 20
SLOTS, DEPTH, HOPS = 60, 64, 1
# How many of the facts `show` prints.
SHOWN = 12


def train(output, epochs=EPOCHS, data=None, verbose=2):
    """Trains the network and measures it on questions about other facts.

    Args:
        output: The folder for `countries.keras` and `countries.json`.
        epochs: How often to go through the questions.
        data: The folder of files of the package's format, in place of the package's.
        verbose: As in `keras.Model.fit`.

    Returns:
        The figures: what `evaluate` returns.
    """
    written = recipes.Output("countries", output)
    facts, training, _ = load(data)
    keras.utils.set_random_seed(SEED)
    model = create(vocabulary_of(facts))
    fit(model, training, facts, SEED, epochs, verbose)
    written.save(recipes.without_optimizer(model))
    figures = evaluate(directory=output, data=data)
    written.describe(
        f"KeyValueMemoryNetwork (Miller et al., 2016): {HOPS} hop, dimension {DEPTH}, "
        f"{model.count_params():,} weights",
        f"{len(facts):,} facts of the PyPI package countryinfo, {len(training):,} "
        "questions to train",
        figures,
        epochs=epochs,
        seed=SEED,
        split=SPLIT,
    )
    return figures


def load(data=None, split=SPLIT):
    """`(facts, training questions, test questions)`; see `datasets.countries`."""
    if data is None:
        return countries.load(split)
    return countries.load_folder(data, seed=split)


def vocabulary_of(facts):
    """All words of questions, keys and values, in alphabetical order."""
    found = {word for one in countries.questions_about(facts) for word in one.words}
    for subject, relation, objects in facts:
        found.update((subject, relation, *objects))
    return sorted(found)


def create(vocabulary):
    """The network, not trained yet."""
    return KeyValueMemoryNetwork(vocabulary, DEPTH, HOPS)


def fit(model, questions, facts, seed, epochs=EPOCHS, verbose=0):
    """Trains a network whose inputs are keys, values and questions.

    Args:
        model: What `create` returns.
        questions: What to train on.
        facts: All facts.
        seed: Integer: which facts are in a memory, which of several answers is taught.
        epochs: As in `train`.
        verbose: As in `keras.Model.fit`.
    """
    model.compile_for_training(jit_compile=keras.backend.backend() == "jax")
    inputs = model.encode(*memories_of(questions, facts, seed))
    targets = model.encode_answers(taught(questions, seed))
    model.fit(inputs, targets, batch_size=32, epochs=epochs, verbose=verbose)


def memories_of(questions, facts, seed):
    """The memory of each question, and its words.

    Args:
        questions: A list of them.
        facts: All facts.
        seed: Integer.

    Returns:
        `(memories, words)`: what `KeyValueMemoryNetwork.encode` takes.
    """
    generator = np.random.default_rng(seed)
    memories = [slots_of(question.fact, facts, generator) for question in questions]
    return memories, [question.words for question in questions]


def slots_of(fact, facts, generator):
    """The facts about a subject, then some of the same relation, a slot per object."""
    own = [one for one in facts if one.subject == fact.subject]
    others = [
        one
        for one in facts
        if one.relation == fact.relation and one.subject != fact.subject
    ]
    drawn = [others[place] for place in generator.permutation(len(others))]
    return slots(own + drawn)[:SLOTS]


def slots(facts):
    """A slot of each object, by subject and relation.

    >>> slots([countries.Fact("Chad", "language", ("fr", "ar"))])
    [(('Chad', 'language'), 'fr'), (('Chad', 'language'), 'ar')]
    """
    return [((s, relation), o) for s, relation, objects in facts for o in objects]


def taught(questions, seed):
    """One right answer of each question."""
    generator = np.random.default_rng(seed)
    return [str(generator.choice(question.fact.objects)) for question in questions]


def evaluate(limit=None, directory=None, data=None):
    """Measures the network on questions about facts that training did not ask for.

    Args:
        limit: Use only so many of the test questions.
        directory: Another folder than `saved_models`.
        data: The folder of files of the package's format, in place of the package's.

    Returns:
        A dict of shares of right answers in percent: `accuracy` and `by_relation`.
    """
    facts, _, test = load(data)
    model = keras.models.load_model(recipes.path(FILE, directory))
    test = test[:limit]
    said = model.answer(*memories_of(test, facts, seed=1000))
    shares = hits(said, test)
    return {"accuracy": shares.pop("all"), "by_relation": shares}


def hits(answers, questions):
    """The share of right answers in percent, of `all` questions and by relation.

    >>> fact = countries.Fact("Chad", "language", ("fr", "ar"))
    >>> asked = countries.Question(["what", "is", "spoken"], fact)
    >>> hits(["ar", "en"], [asked, asked])
    {'all': 50.0, 'language': 50.0}
    """
    right: dict[str, list[bool]] = {"all": []}
    for answer, (_, fact) in zip(answers, questions, strict=True):
        for name in ("all", fact.relation):
            right.setdefault(name, []).append(answer in fact.objects)
    return {name: round(100 * statistics.fmean(each), 1) for name, each in right.items()}


def show(question, plot=None, html=None, directory=None):
    """Prints the answer to a question, and which facts the network looked at.

    Args:
        question: Such as "what is the capital of Peru". It has to name a country; what the
            memory holds are the facts about the countries that it names.
        plot: A file name, such as `"facts.png"`, for the same as a picture.
        html: A file name, such as `"facts.html"`, for an interactive page.
        directory: Another folder than `saved_models`.

    Raises:
        ValueError: If it names no country.
    """
    title, weights, facts = look(question, countries.load(SPLIT)[0], directory)
    shown = np.sort(np.argsort(-weights.max(axis=0), kind="stable")[:SHOWN])
    show_hops(title, weights[:, shown], [facts[place] for place in shown], plot, html)


def look(question, facts, directory=None):
    """The answer to a question, and which facts each hop looked at.

    Args:
        question: As for `show`.
        facts: A list of them.
        directory: Another folder than `saved_models`.

    Returns:
        `(title, weights, slots)`, the weights `(hops, slots)`.

    Raises:
        ValueError: If it names no country.
    """
    words = split(question, {fact.subject for fact in facts})
    memory = slots([fact for fact in facts if fact.subject in words])
    if not memory:
        raise ValueError(
            "Expected a question that names a country, such as 'what is the capital of "
            f"Peru'. Received: {question!r}"
        )
    model = keras.models.load_model(recipes.path(FILE, directory))
    inputs = model.encode([memory], [words])
    logits, weights = model(inputs, return_attention_scores=True)
    answer = model.vocabulary[int(keras.ops.argmax(logits[0]))]
    weights = keras.ops.convert_to_numpy(weights)[0]
    named = [f"{subject}, {relation}: {value}" for (subject, relation), value in memory]
    return f"{question} {answer}", weights, named


def split(question, names):
    """The words of a question, in small letters, a country's name being one as it is.

    >>> split("Who, pray, lives in south Korea's hills?", ["Korea", "South Korea"])
    ['who', 'pray', 'lives', 'in', 'South Korea', 'hills']
    """
    signs = "?!.,;:\"'()"
    words = [word.strip(signs).removesuffix("'s") for word in question.lower().split()]
    named = {tuple(name.lower().split()): name for name in names}
    longest = max(map(len, named), default=0)
    found, place = [], 0
    while place < len(words):
        spans = [tuple(words[place : place + size]) for size in range(longest, 0, -1)]
        span = next((span for span in spans if span in named), None)
        found.append(named[span] if span else words[place])
        place += len(span or [0])
    return found
