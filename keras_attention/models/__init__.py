"""Whole models out of the papers, built from the package's layers."""

from keras_attention.models.captioner import ImageCaptioner
from keras_attention.models.feed_forward import FeedForwardAttention
from keras_attention.models.hierarchical import HierarchicalAttention, MeanPooling
from keras_attention.models.key_value_network import KeyValueMemoryNetwork
from keras_attention.models.linear_start import LinearStart
from keras_attention.models.memory_network import MemoryNetwork
from keras_attention.models.multiple_instance import MultipleInstance
from keras_attention.models.seq2seq import Seq2Seq

__all__ = [
    "FeedForwardAttention",
    "HierarchicalAttention",
    "ImageCaptioner",
    "KeyValueMemoryNetwork",
    "LinearStart",
    "MeanPooling",
    "MemoryNetwork",
    "MultipleInstance",
    "Seq2Seq",
]
