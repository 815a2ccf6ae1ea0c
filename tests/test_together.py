"""Several starts of a memory network in one training are the same as one by one."""

import sys

import keras
import numpy as np
import pytest
from conftest import ROOT

from keras_attention.datasets import babi
from keras_attention.recipes import babi as recipe

sys.path.insert(0, str(ROOT / "benchmarks"))


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="vmap is JAX's")
def test_starts_together_are_those_one_by_one():
    import together

    questions = babi.generate(70)
    found: dict[str, list] = {"together": [], "one by one": []}

    def train(how, seeds):
        model = recipe.create(recipe.vocabulary_of(questions), 6, hops=2, noise=0.0)
        return how(
            model,
            questions,
            seeds,
            5,
            after_each=lambda model: found[name].append(model.get_weights()),
        )

    name = "together"
    errors = train(together.fit_restarts, [3, 4, 5])
    name = "one by one"
    # The batches of a training together are those of the first seed.
    alone = train(recipe.fit_restarts, [3])
    assert errors[0] == alone[0]
    for ours, theirs in zip(found["together"][0], found["one by one"][0], strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-4)
    assert np.abs(found["together"][1][0] - found["together"][0][0]).max() > 0.1
