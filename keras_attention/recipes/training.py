"""How the encoder-decoders of the recipes are trained."""

import keras

from keras_attention import recipes

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
    warm_up = min(400, steps // 10)
    schedule = keras.optimizers.schedules.CosineDecay(
        0.0, steps - warm_up, warmup_target=learning_rate, warmup_steps=warm_up
    )
    # Over 500 steps, or fewer in a short training: the first weights must not count.
    momentum = min(0.998, 1 - 20 / max(steps, 40))
    optimizer = keras.optimizers.Adam(
        schedule, clipnorm=1.0, use_ema=True, ema_momentum=momentum
    )
    model.compile_for_training(
        optimizer, label_smoothing=LABEL_SMOOTHING, jit_compile=False
    )

    def save(epoch, logs):
        recipes.without_optimizer(model).save(file)

    model.fit(
        training,
        validation_data=development,
        epochs=epochs,
        shuffle=False,
        verbose=verbose,
        callbacks=[
            keras.callbacks.SwapEMAWeights(swap_on_epoch=True),
            keras.callbacks.LambdaCallback(on_epoch_end=save),
        ],
    )
