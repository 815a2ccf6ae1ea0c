"""How the models of the recipes are trained."""

import keras

from keras_attention import recipes
from keras_attention.recipes import portable

LABEL_SMOOTHING = 0.1


def fit(model, training, development, epochs, file, learning_rate, verbose):
    """Trains a `Seq2Seq`, and leaves it with its averaged weights.

    The learning rate rises, then falls to 0 as a cosine.

    Args:
        model: A `Seq2Seq` that is built.
        training: `Batches` to train on.
        development: `Batches` to watch.
        epochs: How often to go through the training batches.
        file: Written after every epoch, so that a training that breaks off leaves a model.
        learning_rate: The greatest one.
        verbose: As in `keras.Model.fit`.
    """
    steps = epochs * len(training)
    # Over 500 steps, or fewer in a short training: the first weights must not count.
    momentum = min(0.998, 1 - 20 / max(steps, 40))
    optimizer = averaging_adam(learning_rate, steps, 400, momentum)
    model.compile_for_training(
        optimizer, label_smoothing=LABEL_SMOOTHING, jit_compile=False
    )
    fit_and_save(
        model,
        training,
        file=file,
        validation_data=development,
        epochs=epochs,
        shuffle=False,
        verbose=verbose,
    )


def averaging_adam(learning_rate, steps, warm_up, momentum):
    """Adam with averaged weights; its rate rises, then falls to 0 as a cosine.

    Args:
        learning_rate: The greatest one.
        steps: How many steps there will be.
        warm_up: For how many of them the rate rises; a tenth of all at most.
        momentum: Of the average.
    """
    warm_up = min(warm_up, steps // 10)
    schedule = keras.optimizers.schedules.CosineDecay(
        0.0, steps - warm_up, warmup_target=learning_rate, warmup_steps=warm_up
    )
    return keras.optimizers.Adam(
        schedule, clipnorm=1.0, use_ema=True, ema_momentum=momentum
    )


def fit_and_save(model, *data, file, **options):
    """`model.fit(*data, **options)`, which leaves averaged weights, also in `file`.

    The file is written after every epoch, so that a training that breaks off leaves one.
    """

    def save(epoch, logs):
        portable.save(recipes.without_optimizer(model), file)

    model.fit(
        *data,
        callbacks=[
            keras.callbacks.SwapEMAWeights(swap_on_epoch=True),
            keras.callbacks.LambdaCallback(on_epoch_end=save),
        ],
        **options,
    )
