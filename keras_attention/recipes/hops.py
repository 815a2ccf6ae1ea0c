"""Showing which slots of a memory each hop looked at."""

from keras_attention import visualization
from keras_attention.visualization.alignment import shade_alignment


def show_hops(title, weights, slots, plot=None, html=None):
    """Prints the weights of each hop, and writes files.

    Args:
        title: A line above them.
        weights: `(hops, slots)`.
        slots: A text for each.
        plot: A file name, such as `"story.png"`, for a picture.
        html: A file name, such as `"story.html"`, for an interactive page.
    """
    print(title)
    numbers = [str(hop + 1) for hop in range(len(weights))]
    print(shade_alignment(weights.T, numbers, slots))
    if plot:
        ax = visualization.plot_hops(weights, slots, title=title)
        visualization.save_plot(ax, plot)
    if html:
        hops = [f"hop {number}" for number in numbers]
        visualization.attention_view(weights, slots, hops).save_html(html)
