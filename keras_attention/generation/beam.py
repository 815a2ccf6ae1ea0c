"""Beam search."""

from keras import ops

from keras_attention.config import as_list, check_positive_integer
from keras_attention.generation.common import Search, Sequences, map_tensors, unlist, write


def beam_search(
    step,
    states,
    start_tokens,
    end_token,
    *,
    max_length,
    min_length=0,
    context=None,
    width=5,
    length_penalty=0.0,
    coverage_penalty=0.0,
):
    """Keeps the `width` best sequences at each step.

    `score = log P / ((5 + length) / 6)^length_penalty`, where the end token counts, and
    for ended sequences `+ coverage_penalty * sum_j log(min(sum_t alignment_tj, 1))`. An
    ended sequence keeps its probability and competes with those that go on.

    Args:
        step, states, start_tokens, end_token, max_length, min_length, context: as in
            `greedy_search`, for one sequence each: they are repeated here.
        width: number of beams.
        length_penalty: alpha; above 0 favours long sequences.
        coverage_penalty: beta; above 0 favours sequences that looked at everything.

    Returns:
        `Sequences`, best beam first.

    Raises:
        ValueError: if `width` is not a positive integer, or there are no alignments for a
            coverage penalty.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from keras_attention import beam_search
    >>> def count_down(tokens, states, context):
    ...     return 9.0 * keras.ops.one_hot(tokens - 1, 4), None, states
    >>> found = beam_search(count_down, [], np.array([3]), 0, max_length=4, width=2)
    >>> print(keras.ops.convert_to_numpy(found.tokens)[0, 0])
    [2 1 0 0]

    Reference: Wu et al., 2016 (arXiv:1609.08144).
    """
    check_positive_integer("width", width)
    search = Search(step, start_tokens, end_token, max_length, min_length)
    beams = _Beams(search, width, length_penalty, coverage_penalty)
    carry = beams.start(*(map_tensors(beams.repeat, x) for x in (states, context)))
    return beams.result(search.run(beams.advance, carry))


class _Beams:
    """The state of a beam search and its step, for `width` beams of each row."""

    def __init__(self, search, width, length_penalty, coverage_penalty):
        self.search = search
        self.width = width
        self.length_penalty = length_penalty
        self.coverage_penalty = coverage_penalty
        self.shape = (search.batch, width)

    def repeat(self, x):
        """Item by item: `[a, b] -> [a, a, b, b]`."""
        return ops.repeat(ops.convert_to_tensor(x), self.width, axis=0)

    def start(self, states, context):
        self.context = context
        tokens, looked = self.search.blank(states, context, repeats=self.width)
        if self.coverage_penalty and not looked:
            raise ValueError(
                "Expected `step` to return alignments for a coverage penalty. "
                "Received: None"
            )
        # The beams of a row start equal: all but the first are impossible, and ended.
        first = ops.broadcast_to(ops.arange(self.width) == 0, self.shape)
        log_probs = ops.where(first, 0.0, -float("inf"))
        return {
            "t": ops.zeros((), "int32"),
            "last": self.repeat(self.search.tokens),
            "states": [] if states is None else states,
            "tokens": tokens,
            "looked": looked,
            "lengths": ops.zeros(self.shape, "int32"),
            "log_probs": log_probs,
            "finished": ops.logical_not(first),
        }

    def advance(self, carry):
        t, finished = carry["t"], carry["finished"]
        logits, alignments, states = self.search.step(
            carry["last"], carry["states"], self.context
        )
        running = ops.logical_not(finished)
        lengths = carry["lengths"] + ops.cast(running, "int32")
        looked = carry["looked"]
        if looked:
            looked = write(looked, t, as_list(alignments), ops.reshape(running, (-1,)))
        log_probs, tokens = self._candidates(logits, carry)
        totals = log_probs + ops.expand_dims(carry["log_probs"], -1)
        scores = self._scores(totals, lengths, looked, finished)

        count = log_probs.shape[-1]
        totals, scores, tokens = (
            ops.reshape(x, (self.shape[0], self.width * count))
            for x in (totals, scores, tokens)
        )
        _, best = ops.top_k(scores, self.width)
        parents = best // count
        tokens = ops.take_along_axis(tokens, best, axis=1)
        rows = ops.expand_dims(ops.arange(self.shape[0]) * self.width, 1) + parents
        rows = ops.reshape(rows, (-1,))

        def follow(x):
            return ops.take(x, rows, axis=0)

        ended = ops.logical_or(
            ops.take_along_axis(finished, parents, axis=1), tokens == self.search.end_token
        )
        last = ops.reshape(tokens, (-1,))
        everywhere = ops.ones_like(last, dtype="bool")
        written = write([follow(carry["tokens"])], t, [last], everywhere)
        return {
            "t": t + 1,
            "last": last,
            "states": map_tensors(follow, states),
            "tokens": written[0],
            "looked": [follow(x) for x in looked],
            "lengths": ops.take_along_axis(lengths, parents, axis=1),
            "log_probs": ops.take_along_axis(totals, best, axis=1),
            "finished": ended,
        }

    def _candidates(self, logits, carry):
        """The best next tokens of each beam: log-probabilities and tokens `(B, W, C)`.

        What a beam's score adds to them, or divides by, is the same for all: no others
        can be among the best of all beams.
        """
        count = min(self.width, logits.shape[-1])
        shape = (*self.shape, count)
        log_probs, tokens = ops.top_k(self.search.log_probs(logits, carry["t"]), count)
        log_probs, tokens = ops.reshape(log_probs, shape), ops.reshape(tokens, shape)
        only_end = ops.where(ops.arange(count) == 0, 0.0, -float("inf"))
        finished = ops.expand_dims(carry["finished"], -1)
        tokens = ops.where(finished, self.search.end_token, ops.cast(tokens, "int32"))
        return ops.where(finished, only_end, log_probs), tokens

    def _scores(self, totals, lengths, looked, finished):
        length = (5.0 + ops.cast(lengths, "float32")) / 6.0
        scores = totals / ops.expand_dims(length**self.length_penalty, -1)
        if not self.coverage_penalty:
            return scores
        covered = ops.reshape(sum(map(_log_coverage, looked)), self.shape)
        covered = ops.where(finished, self.coverage_penalty * covered, 0.0)
        return scores + ops.expand_dims(covered, -1)

    def _rescored(self, carry):
        """What ended in the last step gets its coverage penalty, like what ended before.

        Otherwise a row's result would depend on how long other rows go on.
        """
        totals = ops.expand_dims(carry["log_probs"], -1)
        scores = self._scores(totals, carry["lengths"], carry["looked"], carry["finished"])
        scores, order = ops.top_k(scores[..., 0], self.width)
        rows = ops.expand_dims(ops.arange(self.shape[0]) * self.width, 1) + order
        rows = ops.reshape(rows, (-1,))
        return {
            "tokens": ops.take(carry["tokens"], rows, axis=0),
            "looked": [ops.take(x, rows, axis=0) for x in carry["looked"]],
            "lengths": ops.take_along_axis(carry["lengths"], order, axis=1),
            "log_probs": ops.take_along_axis(carry["log_probs"], order, axis=1),
            "scores": scores,
        }

    def result(self, carry):
        carry = self._rescored(carry)

        def by_beam(x):
            return ops.reshape(x, (*self.shape, *ops.shape(x)[1:]))

        return Sequences(
            by_beam(carry["tokens"]),
            carry["lengths"],
            carry["log_probs"],
            carry["scores"],
            unlist([by_beam(x) for x in carry["looked"]]),
        )


def _log_coverage(alignments):
    """`sum_j log(min(sum_t alignment_tj, 1))` of `(N, T, Tk)`, over places seen at all."""
    seen = ops.sum(ops.cast(alignments, "float32"), axis=1)
    log_seen = ops.log(ops.where(seen > 0, ops.minimum(seen, 1.0), 1.0))
    return ops.sum(log_seen, axis=-1)
