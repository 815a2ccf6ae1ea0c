"""Several starts of one memory network, trained at once: JAX only.

The network is so small that calling operations costs more than their work. On JAX a Keras
model's `train_step` is a pure function of its state, so `jax.vmap` runs ten starts in one
call. The starts see the same batches in the same order, and differ in their first weights
and in the noise.
"""

import operator

import jax
import jax.numpy as jnp
import keras
import numpy as np

from keras_attention.recipes import babi as recipe


def fit_restarts(model, questions, seeds, epochs, after_each):
    """What `recipe.fit_restarts` does, with all starts in one training."""
    model.build(None)
    inputs, targets = recipe.encode(model, questions)
    batches = recipe.Batches(inputs, targets, seed=min(seeds))
    linear = recipe.compile_as_published(model, len(batches), epochs)
    model.optimizer.build(model.trainable_variables)
    states = train(model, batches, seeds, linear, epochs)
    errors = []
    for place in range(len(seeds)):
        assign(model, jax.tree.map(operator.itemgetter(place), states))
        errors.append(recipe.error_on(model, inputs, targets))
        after_each(model)
    return errors


def train(model, batches, seeds, linear, epochs):
    """The states of all starts behind `linear + epochs` epochs, along a first axis."""
    keras.utils.set_random_seed(min(seeds))
    starts = [start(model, seed) for seed in seeds]
    states = jax.tree.map(lambda *numbers: jnp.stack(numbers), *starts)
    step = jax.jit(jax.vmap(model.train_step, in_axes=(0, None)), donate_argnums=0)
    for epoch in range(linear + epochs):
        batches.on_epoch_end()  # as Keras does, before the first epoch too
        states = switch(model, states, epoch < linear)
        for index in range(len(batches)):
            _, states = step(states, batches[index])
    return switch(model, states, False)


def start(model, seed):
    """What `train_step` takes, before the first step."""
    recipe.start_anew(model, seed)
    model.seed_generator.state.assign(keras.random.SeedGenerator(seed).state)
    return tuple([x.value for x in group] for group in variables_of(model))


def variables_of(model):
    return (
        model.trainable_variables,
        model.non_trainable_variables,
        model.optimizer.variables,
        model.metrics_variables,
    )


def switch(model, states, is_linear):
    """The states with every network made linear, or not."""
    trained, rest, *others = states
    (place,) = (
        i
        for i, variable in enumerate(model.non_trainable_variables)
        if variable is model.normalizer.linear
    )
    rest = [*rest]
    rest[place] = jnp.full_like(rest[place], is_linear)
    return trained, rest, *others


def assign(model, state):
    for group, values in zip(variables_of(model), state, strict=True):
        for variable, value in zip(group, values, strict=True):
            variable.assign(np.asarray(value))
