"""Loaders of text data; the texts themselves are never part of the package."""

from keras_attention.datasets import movie_reviews

__all__ = ["movie_reviews"]
