"""What trains faster on JAX trains the same: several starts, a sequence at a time."""

import sys

import keras
import numpy as np
import pytest
from conftest import ROOT
from contract import to_numpy

from keras_attention.datasets import babi
from keras_attention.models import FeedForwardAttention
from keras_attention.recipes import addition
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


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="only JAX is faster so")
@pytest.mark.parametrize("pooling", ["attention", "mean"])
def test_one_by_one_is_the_same(pooling):
    inputs, targets = addition.sequences(np.random.default_rng(0), "addition", 7, 22, 30)
    models = [
        kind(5, pooling=pooling) for kind in (FeedForwardAttention, addition.OneByOne)
    ]
    for model in models:
        model.build([x.shape for x in inputs])
    models[1].set_weights(models[0].get_weights())
    losses = []
    for model in models:
        addition.compile_model(model, 0.1)
        losses += model.fit(inputs, targets, 7, epochs=2, verbose=0).history["loss"]
    np.testing.assert_allclose(losses[2:], losses[:2], rtol=1e-5)
    plain = addition.plain(models[1])
    assert type(plain) is FeedForwardAttention
    wanted, found = (to_numpy(model(inputs)) for model in (models[0], plain))
    np.testing.assert_allclose(found, wanted, atol=1e-5)
