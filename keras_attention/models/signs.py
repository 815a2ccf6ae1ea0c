"""The signs around a target, which say where it starts and where it ends."""

from keras_attention import text

START, END = "<start>", "<end>"
START_ID, END_ID = text.FIRST_WORD, text.FIRST_WORD + 1


def add_signs(token_lists, vocabulary):
    """Integers `(B, T)` twice: what a decoder gets, and what it has to put out.

    Args:
        token_lists: a list of lists of tokens.
        vocabulary: distinct tokens.

    Returns:
        The tokens behind a start sign, and the tokens before an end sign.

    >>> before, after = add_signs([["a", "b"], ["b"]], ["a", "b"])
    >>> before.tolist(), after.tolist()
    ([[2, 4, 5], [2, 5, 0]], [[4, 5, 3], [5, 3, 0]])
    """
    signed = [[START, *_without_signs(tokens), END] for tokens in token_lists]
    ids = text.encode(signed, [START, END, *vocabulary])
    return ids[:, :-1] * (ids[:, 1:] != text.PADDING), ids[:, 1:]


def strip_signs(tokens, vocabulary, between=" "):
    """Texts for integers `(B, T)`, each up to its end sign.

    >>> import numpy as np
    >>> strip_signs(np.array([[4, 5, 3, 3], [5, 3, 0, 0]]), ["a", "b"])
    ['a b', 'b']
    """
    words = ["", "<unknown>", START, END, *vocabulary]
    texts = []
    for row in tokens.tolist():
        row = row[: row.index(END_ID)] if END_ID in row else row
        texts.append(between.join(words[token] for token in row))
    return texts


def _without_signs(tokens):
    """A sign that stands in a text is an unknown word, not a sign."""
    return ["" if token in (START, END) else token for token in tokens]
