"""What all searches share: their result, their start, and what they write down."""

from typing import Any, NamedTuple

from keras import ops, tree

from keras_attention.config import as_list


class Sequences(NamedTuple):
    """What a search found; the axis `W` of beams is missing without beams.

    Attributes:
        tokens: `(B, W, T)`, with the end token in all places behind the first one.
        lengths: `(B, W)`, the end token included.
        log_probs: `(B, W)`, logarithms of the sequences' probabilities.
        scores: `(B, W)`, what beams are ordered by: `log_probs` after the penalties.
        alignments: `(B, W, T, Tk)`, 0 behind the end; a list of such, or `None`.

    Example:

    >>> from keras_attention import Sequences
    >>> Sequences._fields
    ('tokens', 'lengths', 'log_probs', 'scores', 'alignments')
    """

    tokens: Any
    lengths: Any
    log_probs: Any
    scores: Any
    alignments: Any


class Search:
    """The task of a search: where it starts, where it ends.

    Args:
        step: see `keras_attention.generation`.
        start_tokens: `(B,)` integers.
        end_token: the token that ends a sequence.
        max_length: length of the longest sequence, end token included.
        min_length: fewest tokens before the end token.
    """

    def __init__(self, step, start_tokens, end_token, max_length, min_length):
        if not 0 <= min_length < max_length:
            raise ValueError(
                "Expected 0 <= min_length < max_length. Received: "
                f"min_length={min_length}, max_length={max_length}"
            )
        self.step = _keeping_states(step)
        self.tokens = ops.cast(ops.convert_to_tensor(start_tokens), "int32")
        if len(self.tokens.shape) != 1:
            raise ValueError(
                "Expected `start_tokens` of shape (B,). Received: shape "
                f"{tuple(self.tokens.shape)}"
            )
        self.batch = ops.shape(self.tokens)[0]
        self.end_token = end_token
        self.max_length = max_length
        self.min_length = min_length

    def log_probs(self, logits, t):
        """Log-probabilities of the next token, in float32; too early an end has none."""
        log_probs = ops.log_softmax(ops.cast(logits, "float32"), axis=-1)
        if not self.min_length:
            return log_probs
        is_end = ops.arange(log_probs.shape[-1]) == self.end_token
        too_early = ops.logical_and(is_end, t < self.min_length)
        return ops.where(too_early, -float("inf"), log_probs)

    def run(self, body, carry):
        """`carry = body(carry)` until all sequences have ended or are full."""

        def goes_on(carry):
            going = ops.logical_not(ops.all(carry["finished"]))
            return ops.logical_and(carry["t"] < self.max_length, going)

        (carry,) = ops.while_loop(
            goes_on, lambda carry: (body(carry),), (carry,), self.max_length
        )
        return carry

    def blank(self, states, context, repeats=1):
        """Tokens and alignments before anything is written: `(N, T)`, `(N, T, Tk)`."""
        rows = self.batch * repeats
        tokens = ops.full((rows, self.max_length), self.end_token, "int32")
        last = ops.repeat(self.tokens, repeats, axis=0)
        # One step only tells how many places there are to look at.
        _, alignments, _ = self.step(last, states, context)
        alignments = [] if alignments is None else as_list(alignments)
        return tokens, [
            ops.zeros((rows, self.max_length, ops.shape(a)[-1]), a.dtype)
            for a in alignments
        ]


def _keeping_states(step):
    """A step without states may return `None` for them."""

    def keeping(tokens, states, context):
        logits, alignments, new = step(tokens, states, context)
        return logits, alignments, states if new is None else new

    return keeping


def write(buffers, t, columns, running):
    """Writes `columns[i]` to place `t` of `buffers[i]`, in rows that are running."""
    place = ops.expand_dims(ops.arange(buffers[0].shape[1]) == t, 0)
    place = ops.logical_and(place, ops.expand_dims(running, 1))
    written = []
    for buffer, column in zip(buffers, columns, strict=True):
        here = ops.reshape(place, (*ops.shape(place), *[1] * (len(buffer.shape) - 2)))
        written.append(ops.where(here, ops.expand_dims(column, 1), buffer))
    return written


def draw(logits, noise):
    """Tokens `(N,)` drawn from `logits` `(N, V)` by uniform `noise` `(N,)`."""
    reached = ops.cumsum(ops.softmax(logits, axis=-1), axis=-1)
    passed = reached <= ops.expand_dims(noise, -1) * reached[:, -1:]
    return ops.sum(ops.cast(passed, "int32"), axis=-1)


def map_tensors(function, structure):
    """`function` of every tensor in a structure that may hold `None`."""
    return tree.map_structure(lambda x: x if x is None else function(x), structure)


def unlist(alignments):
    """`None`, the one, or the list: as a step returned them."""
    if len(alignments) < 2:
        return alignments[0] if alignments else None
    return alignments
