"""Hard attention: normalizers that choose one position instead of averaging over all.

In training each query draws a position `z` from `p = softmax(scores)`; at inference it
takes the most probable one. Drawing has no derivative, so each class estimates one:

    name               gradient of the scores                    bias      variance
    straight_through   as if the weights were `p`                biased    low
    gumbel             as if they were a softmax of noisy        biased    low, grows as the
                       scores                                              temperature falls
    reinforce          `(loss - baseline) * grad log p(z)`       none      high
    marginal           of the loss, averaged over all choices    none      none

The first two work in every model. The others need the loss, so they need a model of
`keras_attention.hard_training` around them: `HardAttentionModel(inputs, outputs)`.
"""

import keras
import numpy as np
from keras import ops

from keras_attention.choices import (
    choose,
    current_choices,
    is_choice,
    log_softmax,
    probabilities,
    straight_through,
)
from keras_attention.normalizers import Normalizer, possible, register

__all__ = ["Gumbel", "Marginal", "Reinforce", "StraightThrough"]

WHEN = ("training", "always", "never")


class HardNormalizer(Normalizer):
    """Base class: draws one position for each query, and never a masked one.

    A subclass defines `estimate(log_probs, noisy, mask, draws)`: weights whose values
    are the choice of the largest of `noisy`, which is `log_probs` unless the layer draws,
    and whose derivatives are an estimate. Where all is masked, weights are 0.

    Args:
        sample: `"training"`: draws in training and takes the most probable position at
            inference; `"always"`, `"never"`: draws in both, in neither.
        seed: integer for the draws.
    """

    is_random = True

    def __init__(self, sample="training", seed=None, **kwargs):
        super().__init__(**kwargs)
        if sample not in WHEN:
            raise ValueError(f"Expected `sample` to be one of {WHEN}. Received: {sample!r}")
        self.sample = sample
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)

    def call(self, scores, mask=None, training=None):
        scores, mask = self.in_float32(scores), possible(scores, mask)
        log_probs = log_softmax(scores, mask)
        noisy = log_probs
        draws = self.sample == "always" or (training and self.sample == "training")
        if draws:
            noisy = log_probs + self._gumbel_noise(log_probs)
        if training:
            weights = self.estimate(log_probs, noisy, mask, draws)
        else:
            weights = choose(noisy, mask)
        return ops.cast(weights, self.compute_dtype)

    def estimate(self, log_probs, noisy, mask, draws):
        """Weights in training, with a subclass's own estimate of their derivatives."""
        raise NotImplementedError

    def _gumbel_noise(self, like):
        """`argmax(log p + noise)` is distributed as `p`."""
        smallest = float(np.finfo("float32").tiny)
        uniform = keras.random.uniform(ops.shape(like), smallest, seed=self.seed_generator)
        return ops.cast(-ops.log(-ops.log(uniform)), like.dtype)


@register("straight_through")
class StraightThrough(HardNormalizer):
    """`w = z` with the derivatives of `p = softmax(scores)`: one position, drawn from `p`.

    Biased: the derivatives are those of the average, at the value of a single choice.

    Args:
        sample: when to draw: `"training"`, `"always"` or `"never"`, which takes the most
            probable position in training too.
        seed: integer for the draws.

    Call arguments:
        scores: `(..., Tq, Tk)`.
        mask: booleans that broadcast to it, `True` = may be attended.
        training: whether to draw and to have derivatives.

    Returns:
        Weights of the shape of `scores`: one 1 in each row, or none if all is masked.

    Raises:
        ValueError: for an unknown `sample`.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from keras_attention import StraightThrough
    >>> print(keras.ops.convert_to_numpy(StraightThrough()(np.array([[1.0, 3.0, 2.0]]))))
    [[0. 1. 0.]]

    Reference: Bengio, Leonard and Courville, 2013 (arXiv:1308.3432).
    """

    def estimate(self, log_probs, noisy, mask, draws):
        return straight_through(choose(noisy, mask), probabilities(log_probs, mask))


@register("gumbel")
class Gumbel(HardNormalizer):
    """`w = z` with the derivatives of `y = softmax((scores + g) / temperature)`.

    `z` is the largest of `y`, and `g` is Gumbel noise, so that `z` is distributed as
    `softmax(scores)` at every temperature. Biased; the bias falls with
    the temperature, and the variance grows.

    Args:
        temperature: positive number to start from. It is kept in the variable
            `current_temperature`, which a callback may lower in the course of training.
        sample: when to draw: `"training"`, `"always"` or `"never"`, which is without noise.
        seed: integer for the draws.

    Call arguments:
        scores: `(..., Tq, Tk)`.
        mask: booleans that broadcast to it, `True` = may be attended.
        training: whether to draw and to have derivatives.

    Returns:
        Weights of the shape of `scores`: one 1 in each row, or none if all is masked.

    Raises:
        ValueError: if `temperature` is not positive, or for an unknown `sample`.

    Example:

    >>> import keras
    >>> from keras_attention import Gumbel
    >>> normalizer = Gumbel(temperature=2.0)
    >>> class Anneal(keras.callbacks.Callback):
    ...     def on_epoch_begin(self, epoch, logs=None):
    ...         normalizer.current_temperature.assign(max(0.5, 2.0 * 0.8**epoch))
    >>> Anneal().on_epoch_begin(3)
    >>> round(float(normalizer.current_temperature), 3)
    1.024

    Reference: Jang, Gu and Poole, 2017 (arXiv:1611.01144); Maddison, Mnih and Teh, 2017
    (arXiv:1611.00712).
    """

    def __init__(self, temperature=1.0, sample="training", seed=None, **kwargs):
        super().__init__(sample, seed, **kwargs)
        if not temperature > 0:
            raise ValueError(
                f"Expected a positive `temperature`. Received: {temperature!r}"
            )
        self.temperature = temperature
        self.current_temperature = self.add_weight(
            name="temperature",
            shape=(),
            initializer=keras.initializers.Constant(temperature),
            trainable=False,
            dtype="float32",
        )

    def estimate(self, log_probs, noisy, mask, draws):
        cooled = noisy / ops.cast(self.current_temperature, noisy.dtype)
        relaxed = probabilities(log_softmax(cooled, mask), mask)
        return straight_through(choose(noisy, mask), relaxed)


@register("reinforce")
class Reinforce(HardNormalizer):
    """`w = z`, drawn from `p = softmax(scores)`; `grad E[loss] = E[loss * grad log p(z)]`.

    Needs a model of `keras_attention.hard_training`, which adds to the loss of each sample
    `(loss - baseline) * log p(z)`, in its derivatives alone; in any other model the scores
    are not trained. What the weights are multiplied with gets no derivative through them.

    Unbiased for a choice of each query. With `expected_rate`, a share of the queries
    averages as softmax does, for which the derivatives are exact.

    Args:
        expected_rate: share of the queries that use `p` itself in training.
        entropy: factor of the entropy of `p`, which is to be large.
        baseline_decay: of the moving average of losses that is subtracted from each.
        sample: when to draw: `"training"`, `"always"` or `"never"`.
        seed: integer for the draws.

    Call arguments:
        scores: `(..., Tq, Tk)`.
        mask: booleans that broadcast to it, `True` = may be attended.
        training: whether to draw.

    Returns:
        Weights of the shape of `scores`: one 1 in each row, or none if all is masked. In
        training, the derivative of a row's 1 is that of `log p(z)`, and the sum of the
        derivatives of its zeros is that of the entropy.

    Raises:
        ValueError: for numbers that are no shares, or an unknown `sample`.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from keras_attention import AttentionPooling, HardAttentionModel, Reinforce
    >>> inputs = keras.Input((None, 4))
    >>> pooled = AttentionPooling(8, normalizer=Reinforce(seed=1))(inputs)
    >>> model = HardAttentionModel(inputs, keras.layers.Dense(1)(pooled))
    >>> model.compile("adam", "mse")
    >>> history = model.fit(np.ones((6, 5, 4)), np.ones((6, 1)), verbose=0)

    Reference: Williams, 1992 (doi:10.1007/BF00992696), as in Xu et al., 2015
    (arXiv:1502.03044).
    """

    def __init__(
        self,
        expected_rate=0.5,
        entropy=0.002,
        baseline_decay=0.9,
        sample="training",
        seed=None,
        **kwargs,
    ):
        super().__init__(sample, seed, **kwargs)
        if not (0 <= expected_rate <= 1 and 0 <= baseline_decay < 1):
            raise ValueError(
                "Expected `expected_rate` from 0 to 1, and `baseline_decay` from 0 to "
                f"below 1. Received: expected_rate={expected_rate}, "
                f"baseline_decay={baseline_decay}"
            )
        self.expected_rate = expected_rate
        self.entropy = entropy
        self.baseline_decay = baseline_decay
        # A decaying sum of losses, and that of as many ones: no average before the first.
        self.moments = self.add_weight(
            name="moments",
            shape=(2,),
            dtype="float32",  # As losses are, whatever the model's dtype.
            initializer="zeros",
            trainable=False,
        )

    def estimate(self, log_probs, noisy, mask, draws):
        p, choice = probabilities(log_probs, mask), choose(noisy, mask)
        entropy = -ops.sum(p * log_probs, axis=-1, keepdims=True)
        others = ops.cast(mask, p.dtype) * (1 - choice)
        count = ops.maximum(ops.sum(others, axis=-1, keepdims=True), 1.0)
        slopes = ops.where(choice > 0, log_probs, others * entropy / count)
        hard = straight_through(choice, slopes)
        if not (draws and self.expected_rate):
            return hard
        coin = keras.random.uniform(ops.shape(entropy), seed=self.seed_generator)
        return ops.where(coin < self.expected_rate, p, hard)

    def as_used(self, weights):
        return ops.where(is_choice(weights), ops.stop_gradient(weights), weights)

    def baseline(self):
        """The moving average of the losses so far; 0 before the first."""
        total, count = self.moments[0], self.moments[1]
        return total / ops.where(count > 0, count, 1.0)

    def remember(self, losses):
        """Takes losses `(B,)` into the baseline."""
        new = ops.stack([ops.mean(losses), ops.ones(())])
        decay = self.baseline_decay
        self.moments.assign(decay * self.moments + (1 - decay) * ops.stop_gradient(new))


@register("marginal")
class Marginal(HardNormalizer):
    """`grad E[loss]` itself, `E[loss] = sum_z p(z) loss(z)` over all choices `z`.

    Needs a model of `keras_attention.hard_training`, which runs once for every choice of
    all its queries together: for small problems, and to check the others against. In any
    other model the scores are not trained.

    Exact. `n` queries over `T` positions are `T ** n` runs; more than 256 are refused.

    Args:
        sample: when to draw: `"training"`, `"always"` or `"never"`.
        seed: integer for the draws.

    Call arguments:
        scores: `(..., Tq, Tk)`.
        mask: booleans that broadcast to it, `True` = may be attended.
        training: whether to draw.

    Returns:
        Weights of the shape of `scores`: one 1 in each row, or none if all is masked.

    Raises:
        ValueError: for an unknown `sample`.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from keras_attention import AttentionPooling, HardAttentionModel
    >>> inputs = keras.Input((5, 4))
    >>> pooled = AttentionPooling(8, normalizer="marginal")(inputs)
    >>> model = HardAttentionModel(inputs, keras.layers.Dense(1)(pooled))
    >>> model.compile("adam", "mse")
    >>> history = model.fit(np.ones((6, 5, 4)), np.ones((6, 1)), verbose=0)

    Reference: Xu et al., 2015 (arXiv:1502.03044), equation 10, without sampling.
    """

    def estimate(self, log_probs, noisy, mask, draws):
        choices = current_choices()
        if choices is None or choices.forced is None:
            return choose(noisy, mask)
        return choices.force(probabilities(log_probs, mask), mask)


def check_stepwise(normalizers):
    """Raises `ValueError` for one that cannot be trained within a loop over steps."""
    if any(isinstance(normalizer, Marginal) for normalizer in normalizers):
        raise ValueError(
            "Expected the normalizer 'reinforce' in a decoder whose steps depend on what "
            "was attended to; with order='luong' and without input feeding, 'marginal' "
            "works too. Received: 'marginal'"
        )
