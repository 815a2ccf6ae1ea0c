"""From text to padded integer arrays: words, sentences, a vocabulary.

Pure Python and NumPy, so that the same code runs before training and after loading.

Ids: 0 is padding, 1 is an unknown word, word `i` of the vocabulary is `i + 2`.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

PADDING = 0
UNKNOWN = 1
FIRST_WORD = 2

MAX_SENTENCES = 48
MAX_WORDS = 24

# In order: marks out of ten ("7/10"), words ("don't" is one, "well-made" two), an
# ellipsis, and the two signs that carry a tone. All other signs are left out.
TOKEN = re.compile(r"\d+/\d+|[^\W_]+(?:'[^\W_]+)*|\.\.\.|[!?]")

# A word, or any other sign by itself.
WORD_OR_SIGN = re.compile(r"[^\W_]+(?:'[^\W_]+)*|[^\w\s]")

LINE_BREAK = re.compile(r"(?:<br\s*/?>|[\r\n])+", re.IGNORECASE)
INITIALS = re.compile(r"(?![iI]$)[^\W\d_](?:\.[^\W\d_])*")
ABBREVIATIONS = frozenset(
    "mr mrs ms dr prof st jr sr vs etc vol lt sgt capt gen rev".split()
)


def tokenize(text: str) -> list[str]:
    """Splits a text into lower-case words and the tokens `!`, `?` and `...`.

    A word is a run of letters and digits, with apostrophes inside (`don't`); a mark
    such as `7/10` is one token; HTML line breaks and all other signs are left out.

    Args:
        text: A string.

    Returns:
        A list of tokens.

    >>> tokenize("I don't like it!<br />Well-made, though: 7/10...")
    ['i', "don't", 'like', 'it', '!', 'well', 'made', 'though', '7/10', '...']
    """
    text = LINE_BREAK.sub(" ", text).replace("\u2019", "'").replace("\u2026", "...")
    return TOKEN.findall(text.lower())


def split_signs(text: str) -> list[str]:
    """Splits a text into lower-case words and signs, for translation: no sign is lost.

    A word is a run of letters and digits, with apostrophes inside.

    Args:
        text: A string.

    Returns:
        A list of tokens.

    >>> split_signs("\u00bfQui\u00e9n es? The LORD's servant.")
    ['\u00bf', 'qui\u00e9n', 'es', '?', 'the', "lord's", 'servant', '.']
    """
    return WORD_OR_SIGN.findall(text.lower().replace("\u2019", "'"))


def split_sentences(text: str) -> list[str]:
    """Splits a text into sentences by a rule that needs no model.

    A sentence ends at `.`, `!` or `?` (or several, and closing quotes) before white
    space, and at a line break, an HTML `<br />` included. A full stop after single
    letters ("J. Ford", "U.S.") or a common abbreviation ("Mr.", "etc.") ends none, and
    neither does an ellipsis before a lower-case letter.

    Args:
        text: A string.

    Returns:
        A list of strings, white space in them one blank each; empty for no text.

    >>> split_sentences('Mr. Ford is back... again. "Why?" Nobody knows<br />The end')
    ['Mr. Ford is back... again.', '"Why?"', 'Nobody knows', 'The end']
    """
    sentences = []
    for line in LINE_BREAK.split(text):
        words, start = line.split(), 0
        for end, word in enumerate(words, start=1):
            if end == len(words) or _ends_sentence(word, words[end]):
                sentences.append(" ".join(words[start:end]))
                start = end
    return sentences


def _ends_sentence(word: str, following: str) -> bool:
    word = word.strip("\"'()[]")
    bare = word.rstrip(".!?")
    stops = word[len(bare) :]
    if stops == ".":
        return not INITIALS.fullmatch(bare) and bare.lower() not in ABBREVIATIONS
    if set(stops) == {"."}:
        return not following[0].islower()
    return bool(stops)


def build_vocabulary(documents: Iterable[Iterable[str]], size: int) -> list[str]:
    """Returns the `size` most frequent tokens, the most frequent first.

    Tokens of equal frequency come in alphabetical order, so that the same documents
    give the same vocabulary whatever their order.

    Args:
        documents: Lists of tokens.
        size: The greatest number of words kept.

    Returns:
        A list of distinct strings.

    Raises:
        ValueError: If `size` is not positive.

    >>> build_vocabulary([["a", "good", "film"], ["a", "bad", "film"]], size=3)
    ['a', 'film', 'bad']
    """
    if size < 1:
        raise ValueError(f"Expected `size` to be at least 1. Received: {size}")
    counts = Counter(token for tokens in documents for token in tokens)
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [token for token, _ in ranked[:size]]


def encode(
    documents: Sequence[Sequence[str]],
    vocabulary: Sequence[str],
    max_words: int | None = None,
) -> np.ndarray:
    """Encodes lists of tokens as one padded array of ids.

    Args:
        documents: B lists of tokens.
        vocabulary: Distinct words; word `i` gets the id `i + 2`.
        max_words: Tokens after this number are left out. `None` keeps all.

    Returns:
        An int32 array (B, W), W the length of the longest list, at least 1.
        0 is padding, 1 an unknown word.

    >>> encode([["a", "good", "film"], []], ["a", "film"]).tolist()
    [[2, 1, 3], [0, 0, 0]]
    """
    ids = _word_ids(vocabulary)
    rows = [[ids.get(token, UNKNOWN) for token in doc[:max_words]] for doc in documents]
    encoded = np.full((len(rows), max([1, *map(len, rows)])), PADDING, "int32")
    for target, row in zip(encoded, rows, strict=True):
        target[: len(row)] = row
    return encoded


def places_of(answers: Sequence[str], vocabulary: Sequence[str]) -> np.ndarray:
    """The places of words in a vocabulary, counted from 0: the targets of a classifier.

    Args:
        answers: B words.
        vocabulary: Distinct words.

    Returns:
        An int32 array (B,).

    Raises:
        ValueError: If a word is not in the vocabulary, or `answers` is a string.

    >>> places_of(["film", "a"], ["a", "film"]).tolist()
    [1, 0]
    """
    if isinstance(answers, str):
        raise ValueError(f"Expected answers as a list of words. Received: {answers!r}")
    answers = list(answers)
    places = {word: place for place, word in enumerate(vocabulary)}
    for answer in answers:
        if not isinstance(answer, str) or answer not in places:
            raise ValueError(
                f"Expected answers out of the vocabulary. Received: {answer!r}"
            )
    return np.array([places[answer] for answer in answers], "int32")


def split_document(
    text: str, max_sentences: int = MAX_SENTENCES, max_words: int = MAX_WORDS
) -> list[list[str]]:
    """Splits a text into rows of tokens: what `encode_documents` encodes.

    A row is a sentence. One of more than `max_words` tokens goes on in the next row,
    so that no word is lost. Of a text with more than `max_sentences` rows the first
    and the last are kept and the middle is left out.

    Args:
        text: A string.
        max_sentences: The greatest number of rows.
        max_words: The greatest number of tokens in a row.

    Returns:
        At least one list of tokens; `[[]]` for a text without words.

    >>> split_document("A very long sentence. Short.", max_words=3)
    [['a', 'very', 'long'], ['sentence'], ['short']]
    """
    rows = []
    for sentence in split_sentences(text):
        tokens = tokenize(sentence)
        rows += [tokens[i : i + max_words] for i in range(0, len(tokens), max_words)]
    if len(rows) > max_sentences:
        tail = max_sentences // 2
        rows = rows[: max_sentences - tail] + rows[len(rows) - tail :]
    return rows or [[]]


def encode_documents(
    texts: Iterable[str],
    vocabulary: Sequence[str],
    max_sentences: int = MAX_SENTENCES,
    max_words: int = MAX_WORDS,
) -> np.ndarray:
    """Encodes texts as one padded array of sentences of words.

    Args:
        texts: B strings. A single string is refused.
        vocabulary: Distinct words; word `i` gets the id `i + 2`.
        max_sentences: See `split_document`.
        max_words: See `split_document`.

    Returns:
        An int32 array (B, S, W), S and W as small as the texts allow, at least 1.
        A text without words is padding only.

    Raises:
        ValueError: If `texts` is a string.

    >>> encode_documents(["Good. A film!", ""], ["a", "film"]).tolist()
    [[[1, 0, 0], [2, 3, 1]], [[0, 0, 0], [0, 0, 0]]]
    """
    if isinstance(texts, str):
        raise ValueError(f"Expected `texts` to be a list of strings. Received: {texts!r}")
    ids = _word_ids(vocabulary)
    documents = [split_document(text, max_sentences, max_words) for text in texts]
    sentences = max([1, *map(len, documents)])
    words = max([1, *(len(row) for document in documents for row in document)])
    encoded = np.full((len(documents), sentences, words), PADDING, "int32")
    for document, rows in zip(encoded, documents, strict=True):
        for target, row in zip(document, rows, strict=False):
            target[: len(row)] = [ids.get(token, UNKNOWN) for token in row]
    return encoded


def check_vocabulary(vocabulary: Sequence[str], reserved: Sequence[str] = ()) -> list[str]:
    """`vocabulary` as a list, if its words are distinct and none of them is reserved.

    Raises:
        ValueError: If it is a string of several words, has a word twice, or a reserved one.
    """
    if not isinstance(vocabulary, Iterable):
        raise ValueError(f"Expected a list of distinct words. Received: {vocabulary!r}")
    words = list(vocabulary)
    twice = [word for word, count in Counter([*words, *reserved]).items() if count > 1]
    if twice:
        raise ValueError(
            "Expected a vocabulary of distinct words"
            + (f", without {', '.join(reserved)}" if reserved else "")
            + f". Received: {twice[0]!r} twice"
        )
    return words


def check_tokens(vocabulary: list[str]) -> list[str]:
    """`vocabulary`, if its words can stand in texts that `tokenize` has lower-cased.

    Raises:
        ValueError: If a word has a capital letter, a space, or nothing in it.
    """
    for word in vocabulary:
        if word != word.lower() or word.split() != [word]:
            raise ValueError(
                "Expected a vocabulary of lower-case words without spaces, as texts are "
                f"lower-cased and split. Received: {word!r}"
            )
    return vocabulary


def _word_ids(vocabulary: Sequence[str]) -> dict[str, int]:
    return {word: FIRST_WORD + i for i, word in enumerate(vocabulary)}
