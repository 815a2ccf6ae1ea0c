"""Generating sequences from a pure step: greedy search, sampling, beam search.

All take the same step, `step(tokens, states, context) -> (logits, alignments, states)`:

* `tokens`: `(N,)` integers, the tokens put out last;
* `states`: any structure of tensors `(N, ...)`, what changes from step to step;
* `context`: any structure of tensors `(N, ...)`, what does not (a memory and its mask);
* `logits`: `(N, V)`; `alignments`: `(N, Tk)`, a list of such, or `None`.

A sequence ends with its first end token, or at `max_length`. On TensorFlow a search is one
graph, and compiles with `jit_compile=True`.
"""

from keras_attention.generation.beam import beam_search
from keras_attention.generation.common import Sequences
from keras_attention.generation.single import greedy_search, sample
from keras_attention.generation.teaching import scheduled_sampling

__all__ = ["Sequences", "beam_search", "greedy_search", "sample", "scheduled_sampling"]
