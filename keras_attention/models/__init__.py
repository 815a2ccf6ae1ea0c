"""Whole models out of the papers, built from the package's layers."""

from keras_attention.models.captioner import ImageCaptioner
from keras_attention.models.hierarchical import HierarchicalAttention, MeanPooling
from keras_attention.models.seq2seq import Seq2Seq

__all__ = ["HierarchicalAttention", "ImageCaptioner", "MeanPooling", "Seq2Seq"]
