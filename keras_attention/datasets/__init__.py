"""Loaders of text data; the texts themselves are never part of the package."""

from keras_attention.datasets import cmudict, movie_reviews, verses

__all__ = ["cmudict", "movie_reviews", "verses"]
