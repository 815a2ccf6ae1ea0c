"""See where attention looks: shaded words in a terminal, and pictures.

Every function takes words and their weights, wherever the weights came from.
matplotlib is imported only when something is plotted.
"""

from keras_attention.visualization.alignment import plot_alignment, shade_alignment
from keras_attention.visualization.captions import plot_captions
from keras_attention.visualization.page import AttentionView, attention_view
from keras_attention.visualization.pictures import plot_document, plot_words, save_plot
from keras_attention.visualization.terminal import shade_document, shade_words

__all__ = [
    "AttentionView",
    "attention_view",
    "plot_alignment",
    "plot_captions",
    "plot_document",
    "plot_words",
    "save_plot",
    "shade_alignment",
    "shade_document",
    "shade_words",
]
