"""Scores: how well a key answers a query.

`base` says what a score is, `inner` holds inner products, `hidden` scores with a hidden
layer, `location` the one that looks at the query alone, `function` plain functions.
"""

from keras_attention.scores.base import Score, aliases, names, register, unregister
from keras_attention.scores.function import FunctionScore, get
from keras_attention.scores.hidden import AdditiveScore, ConcatScore, FeedForwardScore
from keras_attention.scores.inner import (
    BilinearScore,
    CosineScore,
    DotScore,
    ScaledDotScore,
    TrilinearScore,
)
from keras_attention.scores.location import LocationScore

__all__ = [
    "AdditiveScore",
    "BilinearScore",
    "ConcatScore",
    "CosineScore",
    "DotScore",
    "FeedForwardScore",
    "FunctionScore",
    "LocationScore",
    "ScaledDotScore",
    "Score",
    "TrilinearScore",
    "aliases",
    "get",
    "names",
    "register",
    "unregister",
]
