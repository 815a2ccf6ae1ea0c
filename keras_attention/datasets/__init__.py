"""Loaders of text data; the texts themselves are never part of the package."""

from keras_attention.datasets import cmudict, movie_reviews, multi30k, verses

__all__ = ["cmudict", "movie_reviews", "multi30k", "verses"]
