"""Questions about countries: a key-value memory beside a memory network of sentences.

    python benchmarks/countries.py [--epochs N] [--seeds N] [--split SEED]

The facts are those of the PyPI package countryinfo, a slot for each object: the key is the
sum of subject and relation, the value the object (Miller et al., 2016, arXiv:1606.03126).
A question comes with the facts about its country and those of the same relation about
others, 60 slots. No question about a test question's fact is trained on, though the fact
stands in the memories. The memory network (Sukhbaatar et al., 2015) has the same slots,
each a sentence of subject, relation and object. Printed is how often the answer is one of
the objects, of all words there are. Settings were chosen on the split of seed 0; split 1,
the default here, has other facts to test on.
"""

import argparse
import statistics
import time

import keras
import numpy as np
from keras import ops

from keras_attention import KeyValueMemory, text
from keras_attention.datasets import countries
from keras_attention.models import MemoryNetwork

SLOTS, DEPTH, HOPS = 60, 64, 1
# Words far apart from the start: those that no question asks for keep their places.
DEVIATION = 0.5


class KeyValueReader(keras.Model):
    """A table of words for questions and keys, another for values and answers."""

    def __init__(self, words):
        super().__init__()
        rows = words + text.FIRST_WORD
        self.tables = [
            keras.layers.Embedding(
                rows, DEPTH, keras.initializers.RandomNormal(0, DEVIATION)
            )
            for _ in range(2)
        ]
        self.memory = KeyValueMemory(HOPS, update="per_hop", kernel_initializer="identity")

    def build(self, input_shape):
        for table in self.tables:
            table.build((None, None))
        self.memory.build((None, DEPTH), (None, None, DEPTH))

    def call(self, inputs):
        facts, question = inputs
        asked, said = self.tables
        word = ops.cast(ops.not_equal(question, text.PADDING), "float32")
        state = self.memory(
            ops.sum(word[..., None] * asked(question), axis=-2),
            said(facts[..., 2]),
            ops.sum(asked(facts[..., :2]), axis=-2),
            value_mask=ops.any(ops.not_equal(facts, text.PADDING), axis=-1),
        )
        answers = said.embeddings[text.FIRST_WORD :]
        return ops.matmul(state, ops.transpose(answers))


MODELS = {
    "key-value": lambda words: KeyValueReader(len(words)),
    "sentences": lambda words: MemoryNetwork(words, DEPTH, HOPS, memory_size=None),
}


def vocabulary_of(facts):
    """All words of questions, keys and values, in alphabetical order."""
    found = {word for one in countries.questions_about(facts) for word in one.words}
    for subject, relation, objects in facts:
        found.update((subject, relation, *objects))
    return sorted(found)


def slots_of(fact, facts, generator):
    """The facts about a subject, then some of the same relation, a slot per object."""
    own = [one for one in facts if one.subject == fact.subject]
    others = [
        one
        for one in facts
        if one.relation == fact.relation and one.subject != fact.subject
    ]
    drawn = [others[place] for place in generator.permutation(len(others))]
    slots = [(s, r, o) for s, r, objects in own + drawn for o in objects]
    return slots[:SLOTS]


def encode(questions, facts, vocabulary, seed):
    """`(slots (B, S, 3), questions (B, W)), targets (B,)`; a target is any right one."""
    generator = np.random.default_rng(seed)
    places = {word: place for place, word in enumerate(vocabulary)}
    slots = np.zeros((len(questions), SLOTS, 3), "int32")
    for row, (_, fact) in enumerate(questions):
        found = text.encode(slots_of(fact, facts, generator), vocabulary)
        slots[row, : len(found)] = found
    asked = text.encode([question.words for question in questions], vocabulary)
    targets = [places[generator.choice(fact.objects)] for _, fact in questions]
    return (slots, asked), np.array(targets, "int32")


def hits(model, inputs, questions, vocabulary):
    """Of each relation and of `all`, the share of right answers in percent."""
    said = model.predict(inputs, 100, verbose=0).argmax(axis=-1)
    right = {}
    for place, (_, fact) in zip(said, questions, strict=True):
        for name in ("all", fact.relation):
            right.setdefault(name, []).append(vocabulary[place] in fact.objects)
    return {name: 100 * statistics.fmean(found) for name, found in right.items()}


def run(kind, train, test, facts, seed, epochs):
    """A trained model's `hits` on the test questions."""
    keras.utils.set_random_seed(seed)
    vocabulary = vocabulary_of(facts)
    model = MODELS[kind](vocabulary)
    jit = keras.backend.backend() == "jax"
    if kind == "sentences":
        model.compile_for_training(jit_compile=jit)
    else:
        # Adam moves all words far, also those that are only ever wrong answers.
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.SGD(0.03, momentum=0.9), loss, jit_compile=jit)
    inputs, targets = encode(train, facts, vocabulary, seed)
    model.fit(inputs, targets, batch_size=32, epochs=epochs, verbose=0)
    return hits(model, encode(test, facts, vocabulary, 1000)[0], test, vocabulary)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", help="other files than the package's")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--split", type=int, default=1)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    options = parser.parse_args(arguments)
    if options.folder:
        loaded = countries.load_folder(options.folder, seed=options.split)
    else:
        loaded = countries.load(options.split)
    facts, train, test = loaded
    print(f"{len(facts)} facts, {len(train)} questions to train, {len(test)} to test")
    for kind in options.models:
        start, found = time.monotonic(), []
        for seed in range(options.seeds):
            found.append(run(kind, train, test, facts, seed, options.epochs))
        seconds = time.monotonic() - start
        print(f"{kind}, mean of {options.seeds} seeds, {seconds:.0f} s:", flush=True)
        for name in found[0]:
            share = statistics.fmean(one[name] for one in found)
            print(f"  {name:12} {share:5.1f}%", flush=True)


if __name__ == "__main__":
    main()
