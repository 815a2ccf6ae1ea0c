"""Models that train `Reinforce` and `Marginal` attention with plain `fit`.

For each sample `b` of a batch, with choices `z_b` drawn by all its hard attention:

    loss = mean_b l_b
    added, to the derivatives only:  mean_b (l_b - baseline) * log p(z_b)  -  entropy
"""

import itertools
import math
from typing import Any

import keras
from keras import ops

from keras_attention.choices import (
    Choices,
    collect,
    current_choices,
    is_choice,
    moving,
)
from keras_attention.hard import Marginal, Reinforce
from keras_attention.sequence_losses import losses_per_sample

__all__ = ["HardAttentionModel", "HardAttentionTraining"]

MOST_RUNS = 256


class HardAttentionTraining:
    """What a `keras.Model` inherits from, first, so that `fit` trains hard attention.

    Every `Attention`, `AttentionPooling` and `AttentionDecoder` in the model hands in its
    weights in a training step. With the normalizer `Reinforce`, the loss of each sample,
    less a moving average, weighs the log-probability of that sample's own choices; with
    `Marginal`, the loss is the average over all choices. Nothing changes without them.

    The model has to have one output and one loss: a Keras loss that is averaged over the
    batch, or `SequenceCrossentropy`. `sample_weight` counts.

    Raises:
        ValueError: in `fit`, for several outputs or losses, for `Marginal` with too many
            choices or unknown lengths, or for both kinds in one model.

    Example:

    >>> import keras
    >>> from keras_attention import AttentionPooling, HardAttentionTraining
    >>> class Model(HardAttentionTraining, keras.Model):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.pooling = AttentionPooling(8, normalizer="reinforce")
    ...         self.classifier = keras.layers.Dense(1)
    ...     def call(self, inputs):
    ...         return self.classifier(self.pooling(inputs))
    >>> Model().compile("adam", "mse")

    Reference: Xu et al., 2015 (arXiv:1502.03044), section 4.1.
    """

    loss: Any  # Keras's

    def train_step(self, *args):
        # A training step and its loss are traced together, on every backend.
        with collect(Choices()):
            return super().train_step(*args)  # type: ignore[misc]  # a mixin

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        own = super().compute_loss  # type: ignore[misc]  # a mixin: Keras's own
        loss = own(x, y, y_pred, sample_weight, training)
        choices = current_choices()
        handed_in = choices.handed_in if training and choices is not None else []
        drawn = [pair for pair in handed_in if isinstance(pair[0], Reinforce)]
        averaged = [pair for pair in handed_in if isinstance(pair[0], Marginal)]
        if not drawn and not averaged:
            return loss
        losses = losses_per_sample(self.loss, y, y_pred, sample_weight)
        if averaged:
            if drawn:
                raise ValueError(
                    "Expected 'reinforce' or 'marginal' in a model. Received: both"
                )
            everything = self._loss_of_all_choices(averaged, x, y, sample_weight)
            return loss + everything - ops.mean(losses)
        for normalizer, weights in drawn:
            loss = loss + score_term(normalizer, weights, losses)
        return loss

    def _loss_of_all_choices(self, handed_in, x, y, sample_weight):
        """The mean over the batch of `sum_z p(z) loss(z)`."""
        shapes = [tuple(weights.shape) for _, weights in handed_in]
        if any(None in shape[1:] for shape in shapes):
            raise ValueError(
                "Expected known lengths, to run 'marginal' for every choice. Received: "
                f"weights of shapes {shapes}"
            )
        queries = [(shape[1:-1], shape[-1]) for shape in shapes]
        runs = math.prod(length ** math.prod(shape) for shape, length in queries)
        if runs > MOST_RUNS:
            raise ValueError(
                f"Expected at most {MOST_RUNS} choices of all queries together with "
                f"'marginal'. Received: {runs}, of weights of shapes {shapes}"
            )
        ranges = [
            range(length) for shape, length in queries for _ in range(math.prod(shape))
        ]
        total = 0.0
        for combination in itertools.product(*ranges):
            forced = iter(combination)
            positions = [
                ops.reshape([next(forced) for _ in range(math.prod(shape))], shape)
                for shape, _ in queries
            ]
            with collect(Choices(iter(positions))) as choices:
                y_pred = self(x, training=True)  # type: ignore[operator]  # Keras's
            chance = math.prod(_product(chances) for chances in choices.chances)
            losses = losses_per_sample(self.loss, y, y_pred, sample_weight)
            total = total + ops.mean(chance * losses)
        return total


@keras.saving.register_keras_serializable("keras_attention")
class HardAttentionModel(HardAttentionTraining, keras.Model):
    """`keras.Model(inputs, outputs)` whose `fit` trains hard attention of every kind.

    See `HardAttentionTraining`, which does it for models that are classes.

    Args:
        inputs, outputs: what `keras.Model` takes.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from keras_attention import AttentionPooling, HardAttentionModel
    >>> inputs = keras.Input((None, 4))
    >>> pooled = AttentionPooling(8, normalizer="reinforce")(inputs)
    >>> model = HardAttentionModel(inputs, keras.layers.Dense(1)(pooled))
    >>> model.compile("adam", "mse")
    >>> history = model.fit(np.ones((6, 5, 4)), np.ones((6, 1)), verbose=0)

    Reference: Xu et al., 2015 (arXiv:1502.03044), section 4.1.
    """


def score_term(normalizer, weights, losses):
    """0, with the derivatives that `Reinforce` adds to the mean of `losses` `(B,)`.

    Args:
        normalizer: the `Reinforce` that drew `weights`.
        weights: `(B, ..., Tk)`, as it returned them.
        losses: `(B,)`, what each sample is charged.
    """
    weights = ops.cast(weights, "float32")
    losses = ops.stop_gradient(ops.cast(losses, "float32"))
    hard = is_choice(weights)
    one = ops.logical_and(hard, weights == 1)
    log_prob = moving(ops.where(one, weights, 0.0))
    # A choice carries its entropy's derivatives in its zeros; an average is what it is.
    zeros = ops.logical_and(hard, ops.logical_not(one))
    positive = ops.where(weights > 0, weights, 1.0)
    own = ops.where(hard, 0.0, -weights * ops.log(positive))
    entropy = moving(ops.where(zeros, weights, own))
    advantage = losses - normalizer.baseline()
    normalizer.remember(losses)
    return ops.mean(advantage * _sum(log_prob) - normalizer.entropy * _sum(entropy))


def _sum(x):
    """Over all axes but the first."""
    return ops.sum(ops.reshape(x, (ops.shape(x)[0], -1)), axis=-1)


def _product(x):
    return ops.prod(ops.reshape(x, (ops.shape(x)[0], -1)), axis=-1)
