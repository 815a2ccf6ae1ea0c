"""Attention layers for Keras: every score, every normalizer, one mask rule.

    attention = score -> mask -> normalize -> aggregate

Each stage has its file, and a file imports only files of a lower level:

    config          0  constructor arguments as configuration, parts looked up by name
    masks           0  making and combining masks; what is masked has no influence
    axes            0  folding pooled axes
    text            0  words, sentences, vocabularies
    visualization   0  pictures of weights
    datasets        0  real data to train on
    normalizers     1  softmax, sparsemax, entmax15, sigmoid
    scores          1  dot, scaled dot, cosine, bilinear, additive, concat, ...
    functional      2  attend: the four stages, once
    attention       3  Attention(query, value, key)
    pooling         4  AttentionPooling: sequence to vector
    models          6  whole models
    recipes         7  how the shipped models were trained and are measured
    __main__        8  the command line
"""

from keras_attention import masks, normalizers, scores
from keras_attention.attention import Attention
from keras_attention.functional import attend
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

__version__ = "0.1.0"

__all__ = [
    "AdditiveScore",
    "Attention",
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
    "Sigmoid",
    "Softmax",
    "Sparsemax",
    "TrilinearScore",
    "attend",
    "causal_mask",
    "masks",
    "normalizers",
    "padding_mask",
    "scores",
    "window_mask",
]
