"""Searches that follow one sequence: greedy search and sampling."""

import keras
from keras import ops

from keras_attention.axes import argmax
from keras_attention.config import as_list, check_positive_integer
from keras_attention.generation.common import Search, Sequences, draw, unlist, write


def greedy_search(
    step, states, start_tokens, end_token, *, max_length, min_length=0, context=None
):
    """Takes the most probable token at each step.

    Args:
        step: see `keras_attention.generation`.
        states: the states before the first step.
        start_tokens: `(B,)` integers.
        end_token: the token that ends a sequence.
        max_length: length of the longest sequence, end token included.
        min_length: fewest tokens before the end token.
        context: what `step` gets at each step.

    Returns:
        `Sequences`, without the axis of beams.

    Raises:
        ValueError: if `max_length` is not greater than `min_length`.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from keras_attention import greedy_search
    >>> def count_down(tokens, states, context):
    ...     return keras.ops.one_hot(tokens - 1, 4), None, states
    >>> found = greedy_search(count_down, [], np.array([3, 2]), 0, max_length=4)
    >>> print(keras.ops.convert_to_numpy(found.tokens))
    [[2 1 0 0]
     [1 0 0 0]]
    """
    search = Search(step, start_tokens, end_token, max_length, min_length)
    return _follow(search, states, context, lambda log_probs, t: argmax(log_probs))


def sample(
    step,
    states,
    start_tokens,
    end_token,
    *,
    max_length,
    min_length=0,
    context=None,
    temperature=1.0,
    top_k=None,
    top_p=None,
    seed=None,
):
    """Draws each token from its distribution.

    Args:
        step, states, start_tokens, end_token, max_length, min_length, context: as in
            `greedy_search`.
        temperature: divides the logits; below 1 makes probable tokens more probable.
        top_k: draw among the `top_k` most probable tokens only.
        top_p: draw among the most probable tokens that together reach this probability.
        seed: integer or `keras.random.SeedGenerator`.

    Returns:
        `Sequences`, without the axis of beams. Their `log_probs` are the model's, before
        `temperature`, `top_k` and `top_p`.

    Raises:
        ValueError: for numbers out of range.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from keras_attention import sample
    >>> def coin(tokens, states, context):
    ...     return keras.ops.zeros((tokens.shape[0], 2)), None, states
    >>> found = sample(coin, [], np.zeros(1, int), 1, max_length=9, seed=0)
    >>> tuple(found.tokens.shape)
    (1, 9)

    Reference: top-p: Holtzman et al., 2020 (arXiv:1904.09751).
    """
    if not temperature > 0 or (top_p is not None and not 0 < top_p <= 1):
        raise ValueError(
            "Expected `temperature` above 0, and `top_p` above 0 and at most 1. "
            f"Received: temperature={temperature}, top_p={top_p}"
        )
    if top_k is not None:
        check_positive_integer("top_k", top_k)
    search = Search(step, start_tokens, end_token, max_length, min_length)
    # Drawn before the loop: a generator has no place in a compiled one.
    noise = keras.random.uniform((max_length, search.batch), seed=seed)

    def choose(log_probs, t):
        logits = _keep_top(log_probs / temperature, top_k, top_p)
        return draw(logits, ops.take(noise, t, axis=0))

    return _follow(search, states, context, choose)


def _follow(search, states, context, choose):
    tokens, looked = search.blank(states, context)
    carry = {
        "t": ops.zeros((), "int32"),
        "last": search.tokens,
        "states": [] if states is None else states,
        "tokens": tokens,
        "looked": looked,
        "lengths": ops.zeros((search.batch,), "int32"),
        "log_probs": ops.zeros((search.batch,), "float32"),
        "finished": ops.zeros((search.batch,), "bool"),
    }

    def body(carry):
        t, running = carry["t"], ops.logical_not(carry["finished"])
        logits, alignments, states = search.step(carry["last"], carry["states"], context)
        log_probs = search.log_probs(logits, t)
        token = ops.cast(choose(log_probs, t), "int32")
        token = ops.where(running, token, search.end_token)
        gained = ops.take_along_axis(log_probs, ops.expand_dims(token, -1), axis=-1)
        columns = [token, *(as_list(alignments) if carry["looked"] else [])]
        tokens, *looked = write([carry["tokens"], *carry["looked"]], t, columns, running)
        return {
            "t": t + 1,
            "last": token,
            "states": states,
            "tokens": tokens,
            "looked": looked,
            "lengths": carry["lengths"] + ops.cast(running, "int32"),
            "log_probs": carry["log_probs"] + ops.where(running, gained[:, 0], 0.0),
            "finished": ops.logical_or(carry["finished"], token == search.end_token),
        }

    carry = search.run(body, carry)
    return Sequences(
        carry["tokens"],
        carry["lengths"],
        carry["log_probs"],
        carry["log_probs"],
        unlist(carry["looked"]),
    )


def _keep_top(logits, top_k, top_p):
    """`logits`, minus infinity for what `top_k` and `top_p` leave out."""
    if top_k is not None:
        largest, _ = ops.top_k(logits, min(top_k, logits.shape[-1]))
        logits = ops.where(logits < largest[:, -1:], -float("inf"), logits)
    if top_p is not None:
        ordered = -ops.sort(-logits, axis=-1)
        probabilities = ops.softmax(ordered, axis=-1)
        before = ops.cumsum(probabilities, axis=-1) - probabilities
        smallest = ops.min(ops.where(before < top_p, ordered, float("inf")), axis=-1)
        logits = ops.where(logits < ops.expand_dims(smallest, -1), -float("inf"), logits)
    return logits
