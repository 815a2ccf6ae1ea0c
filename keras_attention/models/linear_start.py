"""Linear start: a memory network that is trained without its softmaxes first."""

import keras
from keras import ops

from keras_attention import normalizers


@keras.saving.register_keras_serializable("keras_attention")
class SwitchedSoftmax(normalizers.Softmax):
    """Softmax, or with the weight `linear` set to 1 the scores themselves.

    A memory network without its softmaxes is nearly linear and easier to start with.

    Call arguments:
        scores: `(..., Tq, Tk)`.
        mask: booleans that broadcast to it, `True` = may be attended.

    Returns:
        Weights of the shape of `scores`, 0 where masked.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from keras_attention.models.linear_start import SwitchedSoftmax
    >>> normalizer = SwitchedSoftmax()
    >>> switched = normalizer.linear.assign(1)
    >>> print(keras.ops.convert_to_numpy(normalizer(np.array([[3.0, -1.0]]))))
    [[ 3. -1.]]

    Reference: Sukhbaatar et al., 2015 (arXiv:1503.08895), section 4.2.
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.linear = self.add_weight(
            name="linear", shape=(), initializer="zeros", dtype="float32", trainable=False
        )

    def normalize(self, scores, mask):
        kept = scores if mask is None else ops.where(mask, scores, 0.0)
        return ops.where(self.linear > 0, kept, super().normalize(scores, mask))


class LinearStart(keras.callbacks.Callback):
    """Trains a `MemoryNetwork` without its softmaxes for the first epochs.

    Args:
        epochs: how many. With the next epoch, or at the end, the softmaxes come back.

    Example:

    >>> import numpy as np
    >>> from keras_attention.models import LinearStart, MemoryNetwork
    >>> model = MemoryNetwork(["a", "b"])
    >>> model.compile_for_training()
    >>> inputs = np.ones((4, 3, 2)), np.ones((4, 2))
    >>> history = model.fit(
    ...     inputs, np.zeros(4), epochs=2, callbacks=[LinearStart(1)], verbose=0
    ... )
    >>> float(model.normalizer.linear.numpy())
    0.0

    Reference: Sukhbaatar et al., 2015 (arXiv:1503.08895), section 4.2.
    """

    def __init__(self, epochs):
        super().__init__()
        self.epochs = epochs

    def on_epoch_begin(self, epoch, logs=None):
        self.model.normalizer.linear.assign(float(epoch < self.epochs))

    def on_train_end(self, logs=None):
        self.model.normalizer.linear.assign(0.0)
