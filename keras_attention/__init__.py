"""Attention layers for Keras: every score, every normalizer, one mask rule.

    attention = score -> mask -> normalize -> aggregate

Each stage has its file, and a file imports only files of a lower level:

    config              0  constructor arguments as configuration, parts looked up by name
    masks               0  making and combining masks; what is masked has no influence
    axes                0  folding pooled axes, the largest along one
    cells               0  what is to know about Keras's RNN cells and layers
    text                0  words, sentences, vocabularies
    extras              0  packages that only some users need
    tensorflow_loops    0  loops over time steps, for TensorFlow
    tensorflow_softmax  0  softmax with a gradient of few passes, for TensorFlow
    tensorflow_gradients  0  gradients of compiled functions, for TensorFlow
    jax_gradients       0  gradients of compiled functions, for JAX
    mask_parts          1  all masks of one call, apart until a block of them is read
    tensorflow_blocks   1  attention for blocks of queries, for TensorFlow
    tensorflow_groups   1  softmax attention for groups of heads, for TensorFlow
    visualization       1  pictures of weights
    datasets            1  real data to train on
    loops               1  loops over time steps
    normalizers         1  softmax, sparsemax, entmax15, sigmoid
    scores              1  dot, scaled dot, cosine, bilinear, additive, concat, ...
    sequence_losses     1  loss and accuracies in which padding does not count
    state_bridge        1  from an encoder's last states to a decoder's first
    attentional_vector  1  what a decoder makes of its output and its contexts
    blockwise           2  attention of blocks of queries, in bounded memory
    choices             2  choosing one position of many
    functional          3  attend: the four stages, once
    hard                3  normalizers that choose one position
    addressing          4  how the heads of a neural Turing machine find their places
    attention           4  Attention(query, value, key)
    hard_training       4  models whose fit trains hard attention
    pooling             5  AttentionPooling: sequence to vector
    turing_machine      5  NTMCell: an RNN cell with a memory to read and write
    decoder             5  AttentionDecoder: any RNN cell, a pure step
    inspection          5  the weights of every attention layer of a model
    memory              5  key-value memories in hops, codes of words' places
    generation          5  greedy search, sampling and beam search over a pure step
    models              6  whole models
    recipes             7  how the shipped models were trained and are measured
    __main__            8  the command line
"""

from keras_attention import (
    addressing,
    masks,
    models,
    normalizers,
    scores,
    visualization,
)
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
from keras_attention.hard import Gumbel, Marginal, Reinforce, StraightThrough
from keras_attention.hard_training import HardAttentionModel, HardAttentionTraining
from keras_attention.inspection import attention_scores
from keras_attention.masks import causal_mask, padding_mask, window_mask
from keras_attention.memory import KeyValueMemory, position_code
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
from keras_attention.turing_machine import NTMCell

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
    "Gumbel",
    "HardAttentionModel",
    "HardAttentionTraining",
    "KeyValueMemory",
    "LocationScore",
    "Marginal",
    "NTMCell",
    "Normalizer",
    "Reinforce",
    "ScaledDotScore",
    "Score",
    "SequenceAccuracy",
    "SequenceCrossentropy",
    "Sequences",
    "Sigmoid",
    "Softmax",
    "Sparsemax",
    "StateBridge",
    "StraightThrough",
    "TokenAccuracy",
    "TrilinearScore",
    "addressing",
    "attend",
    "attention_scores",
    "beam_search",
    "causal_mask",
    "greedy_search",
    "masks",
    "models",
    "normalizers",
    "padding_mask",
    "position_code",
    "sample",
    "scheduled_sampling",
    "scores",
    "sequence_crossentropy",
    "visualization",
    "window_mask",
]
