"""An interactive page: choose a word, a head, a layer, and see where it looks."""

import html
import json
from importlib import resources
from pathlib import Path

import keras
import numpy as np

from keras_attention.visualization.words import check_weights


class AttentionView:
    """A page of weights, shown in a notebook or written into a file of its own.

    Args:
        document: The page.

    >>> AttentionView("<p>weights</p>").document
    '<p>weights</p>'
    """

    def __init__(self, document: str):
        self.document = document

    def save_html(self, path) -> None:
        """Writes the page: one file that loads nothing else."""
        Path(path).write_text(self.document, "utf-8")

    def _repr_html_(self) -> str:
        # In a frame, where neither the notebook's styles nor the page's reach the other.
        return (
            f'<iframe srcdoc="{html.escape(self.document)}" title="Attention" '
            'sandbox="allow-scripts" '
            'style="width: 100%; height: 24rem; border: 0"></iframe>'
        )


def attention_view(weights, sources, targets=None) -> AttentionView:
    """An interactive page: hover a word, or move with the arrow keys, and see its weights.

    Args:
        weights: For one example, `(sources,)` as pooling has them, `(targets, sources)`, or
            `(heads, targets, sources)`; or a dict of those by name, to choose a layer from.
            Surplus rows and columns, the padding's, are left out if the columns are 0.
        sources: A list of strings: what is looked at.
        targets: A list of strings: what looks. `None` means the sources themselves.

    Returns:
        An `AttentionView`: the last line of a notebook cell shows it, and
        `.save_html("page.html")` writes it into a single file.

    Raises:
        ValueError: If weights and tokens do not fit each other.

    >>> page = attention_view([[0.9, 0.1], [0.2, 0.8]], ["le", "chat"], ["the", "cat"])
    >>> "chat" in page.document
    True
    """
    by_name = weights if isinstance(weights, dict) else {"attention": weights}
    if not by_name:
        raise ValueError("Expected weights of one layer at least. Received: none")
    layers = [_layer(*item, sources, targets) for item in by_name.items()]
    template = resources.files(__package__).joinpath("page.html").read_text("utf-8")
    # No token can end the element that holds the data.
    data = json.dumps(layers).replace("<", "\\u003c")
    return AttentionView(template.replace("__DATA__", data))


def _layer(name, weights, sources, targets):
    for tokens in (sources, targets):
        if isinstance(tokens, str):
            raise ValueError(f"Expected a list of tokens. Received: the string {tokens!r}")
    weights = np.asarray(keras.ops.convert_to_numpy(weights), "float64")
    pooled = weights.ndim == 1
    asking = [""] if pooled else list(sources if targets is None else targets)
    rank = weights.ndim
    weights = weights.reshape((1,) * (3 - rank) + weights.shape) if rank < 3 else weights
    kept = weights[..., : len(asking), : len(sources)]
    fits = weights.ndim == 3 and kept.shape[1:] == (len(asking), len(sources))
    if not fits or not kept.size or weights[:, : len(asking), len(sources) :].any():
        raise ValueError(
            f"Expected weights of {name!r} of shape (sources,), (targets, sources) or "
            "(heads, targets, sources), and 0 behind the last source. Received: shape "
            f"{weights.shape[3 - rank :]}, {len(asking)} targets and {len(sources)} sources"
        )
    check_weights(kept)
    return {
        "name": str(name),
        "weights": kept.round(4).tolist(),
        "sources": [str(token) for token in sources],
        "targets": None if pooled else [str(token) for token in asking],
    }
