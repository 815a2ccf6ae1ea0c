"""See where attention looks: shaded words in a terminal or a notebook, and pictures.

Every function takes words and their weights, wherever the weights came from.
matplotlib is imported only when something is plotted.
"""

from keras_attention.visualization.alignment import plot_alignment, shade_alignment
from keras_attention.visualization.animation import animate_decoding
from keras_attention.visualization.captions import plot_captions, plot_regions
from keras_attention.visualization.heads import plot_heads
from keras_attention.visualization.hops import plot_hops
from keras_attention.visualization.markup import ShadedText, document_html, words_html
from keras_attention.visualization.page import AttentionView, attention_view
from keras_attention.visualization.pictures import plot_document, plot_words, save_plot
from keras_attention.visualization.terminal import shade_document, shade_words

__all__ = [
    "AttentionView",
    "ShadedText",
    "animate_decoding",
    "attention_view",
    "document_html",
    "plot_alignment",
    "plot_captions",
    "plot_document",
    "plot_heads",
    "plot_hops",
    "plot_regions",
    "plot_words",
    "save_plot",
    "shade_alignment",
    "shade_document",
    "shade_words",
    "words_html",
]
