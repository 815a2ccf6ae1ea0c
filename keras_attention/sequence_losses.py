"""Cross-entropy and accuracies of padded sequences, in which padding does not count."""

import keras
from keras import ops

from keras_attention.axes import argmax
from keras_attention.config import Configurable

AXES = {"batch": 0, "time": 1}


def sequence_crossentropy(
    targets, logits, weights, average=("batch", "time"), by="weights"
):
    """`sum w_bt * -log softmax(logits_bt)[target_bt] / sum w_bt`, over the axes averaged.

    Args:
        targets: `(B, T)` integers.
        logits: `(B, T, V)`.
        weights: `(B, T)`, 0 for padding.
        average: the axes to average over, of `"batch"` and `"time"`; none for `(B, T)`
            losses.
        by: `"weights"` divides by the sum of the weights, `"count"` by the number of
            those that are not 0. Where that is 0, the loss is 0.

    Returns:
        The loss, with the axes that are not averaged.

    Example:

    >>> import numpy as np
    >>> from keras_attention import sequence_crossentropy
    >>> loss = sequence_crossentropy([[1, 0]], np.zeros((1, 2, 4)), [[1.0, 0.0]])
    >>> round(float(loss), 4)  # log 4
    1.3863
    """
    weights = ops.cast(weights, "float32")
    losses = weights * _token_losses(targets, logits, weights != 0)
    if not average:
        return losses
    axes = tuple(AXES[axis] for axis in average)
    counted = weights if by == "weights" else ops.cast(weights != 0, "float32")
    total = ops.sum(counted, axis=axes)
    return ops.sum(losses, axis=axes) / ops.where(total == 0, 1.0, total)


def losses_per_sample(loss, y_true, y_pred, sample_weight=None):
    """Losses `(B,)` whose mean is the loss.

    Args:
        loss: what `compile` took: the name of a Keras loss, a function, or a Keras loss
            that averages over the batch; `SequenceCrossentropy`.
        y_true: what is right, `(B, ...)`.
        y_pred: one tensor, `(B, ...)`.
        sample_weight: `(B,)` or `(B, ...)`.

    Raises:
        ValueError: for several losses or outputs, or a loss that is not an average.

    Example:

    >>> import numpy as np
    >>> y = np.array([[1.0, 2.0], [0.0, 0.0]])
    >>> print(keras.ops.convert_to_numpy(losses_per_sample("mse", 0 * y, y)))
    [2.5 0. ]
    """
    structures = (list, tuple, dict)
    if isinstance(loss, structures) or isinstance(y_pred, structures):
        raise ValueError(
            f"Expected one output and one loss. Received: loss={loss!r} and an output "
            f"of type {type(y_pred).__name__}"
        )
    if hasattr(loss, "per_sample"):
        return loss.per_sample(y_true, y_pred, sample_weight)
    function = keras.losses.get(loss)
    if isinstance(function, keras.losses.Loss):
        if function.reduction not in ("sum_over_batch_size", "mean"):
            raise ValueError(
                "Expected a loss that is averaged over the batch. Received: "
                f"{type(function).__name__}(reduction={function.reduction!r})"
            )
        function = function.call
    mask = getattr(y_pred, "_keras_mask", None)
    y_true, y_pred = ops.convert_to_tensor(y_true), ops.convert_to_tensor(y_pred)
    if len(y_true.shape) == len(y_pred.shape) - 1 and y_pred.shape[-1] == 1:
        y_true = ops.expand_dims(y_true, -1)  # As Keras does with labels `(B,)`.
    losses = function(y_true, y_pred)
    if mask is not None:
        # As Keras does: what the output's mask leaves out does not count in the mean.
        mask = ops.cast(mask, losses.dtype)
        losses = losses * _with_axes_of(losses, mask / ops.mean(mask))
    if sample_weight is not None:
        losses = losses * _with_axes_of(losses, ops.cast(sample_weight, losses.dtype))
    return ops.mean(ops.reshape(losses, (ops.shape(losses)[0], -1)), axis=-1)


def _with_axes_of(losses, weights):
    missing = len(losses.shape) - len(weights.shape)
    return ops.reshape(weights, (*ops.shape(weights), *[1] * missing))


def _token_losses(targets, logits, counts, label_smoothing=0.0):
    """Losses `(B, T)`; what does not count is 0, whatever stands there."""
    targets = ops.where(counts, ops.cast(targets, "int32"), 0)
    logits = ops.where(ops.expand_dims(counts, -1), ops.cast(logits, "float32"), 0.0)
    losses = ops.sparse_categorical_crossentropy(targets, logits, from_logits=True)
    if label_smoothing:
        even = -ops.mean(ops.log_softmax(logits, axis=-1), axis=-1)
        losses = (1 - label_smoothing) * losses + label_smoothing * even
    return ops.where(counts, losses, 0.0)


@keras.saving.register_keras_serializable("keras_attention")
class SequenceCrossentropy(Configurable, keras.losses.Loss):
    """Cross-entropy of sequences of tokens, in which padding does not count.

    Args:
        padding: the token that does not count.
        average: `"tokens"`: each token counts the same; `"sequences"`: each sequence does.
        label_smoothing: share of the target's probability that is spread over all tokens.

    Call arguments:
        y_true: `(B, T)` tokens.
        y_pred: `(B, T, V)` logits.
        sample_weight: `(B,)` or `(B, T)`.

    Returns:
        A scalar.

    Raises:
        ValueError: for an unknown `average`.

    Example:

    >>> import numpy as np
    >>> from keras_attention import SequenceCrossentropy
    >>> round(float(SequenceCrossentropy()(np.array([[1, 0]]), np.zeros((1, 2, 4)))), 4)
    1.3863
    """

    def __init__(
        self,
        padding=0,
        average="tokens",
        label_smoothing=0.0,
        name="crossentropy",
        **kwargs,
    ):
        super().__init__(name=name, **kwargs)
        if average not in ("tokens", "sequences"):
            raise ValueError(
                f"Expected `average` to be 'tokens' or 'sequences'. Received: {average!r}"
            )
        self.padding = padding
        self.average = average
        self.label_smoothing = label_smoothing

    def __call__(self, y_true, y_pred, sample_weight=None):
        return ops.sum(self._shares(y_true, y_pred, sample_weight))

    def per_sample(self, y_true, y_pred, sample_weight=None):
        """Losses `(B,)`, whose mean is the loss."""
        shares = self._shares(y_true, y_pred, sample_weight)
        return ops.cast(ops.shape(shares)[0], shares.dtype) * ops.sum(shares, axis=1)

    def _shares(self, y_true, y_pred, sample_weight):
        """What each token adds to the loss, `(B, T)`."""
        real = ops.not_equal(y_true, self.padding)
        losses = _token_losses(y_true, y_pred, real, self.label_smoothing)
        weights = ops.cast(real, "float32")
        if sample_weight is not None:
            sample_weight = ops.cast(sample_weight, "float32")
            if len(sample_weight.shape) == 1:
                sample_weight = ops.expand_dims(sample_weight, -1)
            weights = weights * sample_weight
        if self.average == "sequences":
            # Every real token of a sequence has an equal share in the sequence's weight.
            length = ops.sum(ops.cast(real, "float32"), axis=1, keepdims=True)
            weights = weights / ops.maximum(length, 1.0)
        total = ops.sum(weights)
        return losses * weights / ops.where(total == 0, 1.0, total)


class _PaddedMean(Configurable, keras.metrics.Mean):
    """A mean over what is not padding, of `measure(y_true, y_pred, real)`."""

    def __init__(self, padding=0, name=None, dtype=None):
        super().__init__(name=name, dtype=dtype)
        self.padding = padding

    def update_state(self, y_true, y_pred, sample_weight=None):
        y_true = ops.cast(y_true, "int32")
        real = ops.not_equal(y_true, self.padding)
        right = ops.equal(argmax(y_pred), y_true)
        # Flat: Keras weighs rows by their mean, which depends on how far they are padded.
        right, real = self.measure(right, real)
        super().update_state(ops.reshape(right, (-1,)), ops.reshape(real, (-1,)))


@keras.saving.register_keras_serializable("keras_attention")
class TokenAccuracy(_PaddedMean):
    """Share of the tokens, padding left out, that are the most probable ones.

    Args:
        padding: the token that does not count.
        name: its name in logs.

    Call arguments:
        y_true: `(B, T)` tokens.
        y_pred: `(B, T, V)` logits or probabilities.

    Returns:
        A scalar.

    Example:

    >>> import numpy as np
    >>> from keras_attention import TokenAccuracy
    >>> float(TokenAccuracy()(np.array([[1, 2, 0]]), np.eye(3)[None, [1, 1, 1]]))
    0.5
    """

    def __init__(self, padding=0, name="token_accuracy", dtype=None):
        super().__init__(padding, name, dtype)

    def measure(self, right, real):
        return right, real


@keras.saving.register_keras_serializable("keras_attention")
class SequenceAccuracy(_PaddedMean):
    """Share of the sequences in which every token is right, padding left out.

    Args:
        padding: the token that does not count.
        name: its name in logs.

    Call arguments:
        y_true: `(B, T)` tokens.
        y_pred: `(B, T, V)` logits or probabilities.

    Returns:
        A scalar.

    Example:

    >>> import numpy as np
    >>> from keras_attention import SequenceAccuracy
    >>> float(SequenceAccuracy()(np.array([[1, 0], [2, 2]]), np.eye(3)[[[1, 2], [2, 1]]]))
    0.5
    """

    def __init__(self, padding=0, name="sequence_accuracy", dtype=None):
        super().__init__(padding, name, dtype)

    def measure(self, right, real):
        right = ops.logical_or(right, ops.logical_not(real))
        return ops.all(right, axis=-1), ops.any(real, axis=-1)
