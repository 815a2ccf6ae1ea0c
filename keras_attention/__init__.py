"""Attention layers for Keras: every score, every normalizer, one mask rule.

    attention = score -> mask -> normalize -> aggregate

Each stage has its file, and a file imports only files of a lower level:

    config              0  constructor arguments as configuration, parts looked up by name
    masks               0  making and combining masks; what is masked has no influence
    axes                0  folding pooled axes
    cells               0  what a decoder needs to know about a Keras RNN cell
    text                0  words, sentences, vocabularies
    visualization       0  pictures of weights
    datasets            0  real data to train on
    tensorflow_loops    0  loops over time steps, for TensorFlow
    tensorflow_softmax  0  softmax with a gradient of few passes
    tensorflow_gradients 0  gradients of compiled functions and of blocks computed anew
    jax_gradients       0  gradients of compiled functions
    loops               1  loops over time steps
    normalizers         1  softmax, sparsemax, entmax15, sigmoid
    scores              1  dot, scaled dot, cosine, bilinear, additive, concat, ...
    sequence_losses     1  loss and accuracies in which padding does not count
    state_bridge        1  from an encoder's last states to a decoder's first
    attentional_vector  1  what a decoder makes of its output and its contexts
    blockwise           1  attention of blocks of queries, in bounded memory
    functional          2  attend: the four stages, once
    attention           3  Attention(query, value, key)
    pooling             4  AttentionPooling: sequence to vector
    decoder             5  AttentionDecoder: any RNN cell, a pure step
    generation          5  greedy search, sampling and beam search over a pure step
    models              6  whole models
    recipes             7  how the shipped models were trained and are measured
    __main__            8  the command line
"""

from keras_attention import masks, models, normalizers, scores
from keras_attention.attention import Attention
from keras_attention.decoder import AttentionDecoder
from keras_attention.functional import attend
from keras_attention.generation import (
    Sequences,
    beam_search,
    greedy_search,
    sample,
    scheduled_sampling,
)
from keras_attention.masks import causal_mask, padding_mask, window_mask
from keras_attention.normalizers import (
    Entmax15,
    Normalizer,
    Sigmoid,
    Softmax,
    Sparsemax,
)
from keras_attention.pooling import AttentionPooling
from keras_attention.scores import (
    AdditiveScore,
    BilinearScore,
    ConcatScore,
    CosineScore,
    DotScore,
    FeedForwardScore,
    FunctionScore,
    LocationScore,
    ScaledDotScore,
    Score,
    TrilinearScore,
)
from keras_attention.sequence_losses import (
    SequenceAccuracy,
    SequenceCrossentropy,
    TokenAccuracy,
    sequence_crossentropy,
)
from keras_attention.state_bridge import StateBridge

__version__ = "0.1.0"

__all__ = [
    "AdditiveScore",
    "Attention",
    "AttentionDecoder",
    "AttentionPooling",
    "BilinearScore",
    "ConcatScore",
    "CosineScore",
    "DotScore",
    "Entmax15",
    "FeedForwardScore",
    "FunctionScore",
    "LocationScore",
    "Normalizer",
    "ScaledDotScore",
    "Score",
    "SequenceAccuracy",
    "SequenceCrossentropy",
    "Sequences",
    "Sigmoid",
    "Softmax",
    "Sparsemax",
    "StateBridge",
    "TokenAccuracy",
    "TrilinearScore",
    "attend",
    "beam_search",
    "causal_mask",
    "greedy_search",
    "masks",
    "models",
    "normalizers",
    "padding_mask",
    "sample",
    "scheduled_sampling",
    "scores",
    "sequence_crossentropy",
    "window_mask",
]
