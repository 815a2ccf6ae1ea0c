"""See where attention looks: shaded words in a terminal, and pictures.

Every function takes words and their weights, wherever the weights came from.
matplotlib is imported only when something is plotted.
"""

from keras_attention.visualization.alignment import plot_alignment as plot_alignment
from keras_attention.visualization.alignment import shade_alignment as shade_alignment
from keras_attention.visualization.captions import plot_captions as plot_captions
from keras_attention.visualization.pictures import plot_document as plot_document
from keras_attention.visualization.pictures import plot_words as plot_words
from keras_attention.visualization.pictures import save_plot as save_plot
from keras_attention.visualization.terminal import shade_document as shade_document
from keras_attention.visualization.terminal import shade_words as shade_words
