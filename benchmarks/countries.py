"""Questions about countries: a key-value memory beside a memory network of sentences.

    python benchmarks/countries.py [--epochs N] [--seeds N] [--split SEED]

Data, key-value network and training are those of `recipes.countries`: a question comes with
the facts about its country and those of the same relation about others, 60 slots. The
memory network (Sukhbaatar et al., 2015) has the same slots, each a sentence of subject,
relation and object. Printed is how often the answer is one of the objects, of all words
there are. Settings were chosen on the split of seed 0; split 1, the default here, has other
facts to test on.
"""

import argparse
import statistics
import time

import keras
import numpy as np

from keras_attention import text
from keras_attention.models import MemoryNetwork
from keras_attention.recipes import countries as recipe


class Sentences(MemoryNetwork):
    """A memory network that takes facts and lists of words."""

    def encode(self, memories, questions):
        longest = max([1, *map(len, memories)])
        story = np.zeros((len(memories), longest, 3), "int32")
        for row, memory in zip(story, memories, strict=True):
            row[: len(memory)] = text.encode(
                [[*key, value] for key, value in memory], self.vocabulary
            )
        return story, text.encode(questions, self.vocabulary)

    def encode_answers(self, answers):
        return text.places_of(answers, self.vocabulary)


MODELS = {
    "key-value": recipe.create,
    "sentences": lambda words: Sentences(
        words, recipe.DEPTH, recipe.HOPS, memory_size=None
    ),
}


def run(kind, train, test, facts, seed, epochs):
    """A trained model's `hits` on the test questions."""
    keras.utils.set_random_seed(seed)
    model = MODELS[kind](recipe.vocabulary_of(facts))
    recipe.fit(model, train, facts, seed, epochs)
    return recipe.hits(model.answer(*recipe.memories_of(test, facts, 1000)), test)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", help="other files than the package's")
    parser.add_argument("--epochs", type=int, default=recipe.EPOCHS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--split", type=int, default=recipe.SPLIT)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    options = parser.parse_args(arguments)
    facts, train, test = recipe.load(options.folder, options.split)
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
