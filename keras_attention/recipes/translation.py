"""Measuring translations: BLEU, perplexity, and alignments beside known ones."""

import math

import numpy as np
from keras import ops

from keras_attention import extras, text, visualization

UNKNOWN = "<unknown>"


def translate(model, texts, beam_width=1, max_length=30, **options):
    """Translations of tokenized texts; unknown words are copied from the source.

    Where the model says a word that it does not know, the source word that it looked at
    most stands instead (Luong et al., 2015b, arXiv:1410.8206): most of them are names.

    Args:
        model: A `Seq2Seq` that splits at white space.
        texts: B strings.
        beam_width: 1 for greedy search.
        max_length: Length of the longest translation, end sign included.
        **options: More arguments of `Seq2Seq.generate`.

    Returns:
        `(translations, weights)`: B lists of tokens, and the weights of each, an array
        `(target tokens, source tokens)`.
    """
    found = model.generate(model.encode_sources(texts), beam_width, max_length, **options)
    translations, weights = [], []
    said = model.decode_targets(found["tokens"][:, 0])
    for source, target, looked in zip(texts, said, found["alignments"][:, 0], strict=True):
        sources, targets = source.split(), target.split()
        looked = looked[: len(targets), : len(sources)]
        translations.append(copy_unknown(sources, targets, looked))
        weights.append(looked)
    return translations, weights


def copy_unknown(source, target, weights):
    """The target with the source word looked at most in place of each unknown one.

    >>> weights = [[0.9, 0.1], [0.2, 0.8]]
    >>> copy_unknown(["hijo", "caleb"], ["son", "<unknown>"], np.array(weights))
    ['son', 'caleb']
    """
    return [
        source[int(row.argmax())] if word == UNKNOWN else word
        for word, row in zip(target, weights, strict=True)
    ]


def show_alignment(weights, sources, targets, plot=None, html=None, title=None):
    """Prints which source token each target token looked at, and writes files.

    Args:
        weights: `(target tokens, source tokens)`.
        sources: A list of strings.
        targets: A list of strings.
        plot: A file name, such as `"alignment.png"`, for a picture.
        html: A file name, such as `"alignment.html"`, for an interactive page.
        title: A line above the picture.
    """
    print(visualization.shade_alignment(weights, sources, targets))
    if plot:
        ax = visualization.plot_alignment(weights, sources, targets, title=title)
        visualization.save_plot(ax, plot)
    if html:
        visualization.attention_view(weights, sources, targets).save_html(html)


def bleu(translations, references):
    """BLEU of tokenized texts, by sacrebleu, its tokenizer off.

    Args:
        translations: B lists of tokens.
        references: B lists of tokens, one right translation each.
    """
    sacrebleu = extras.load("sacrebleu", "sacrebleu", "translate")
    said, right = ([" ".join(one) for one in x] for x in (translations, references))
    # It warns of tokenized texts unless told that they are meant to be.
    score = sacrebleu.corpus_bleu(said, [right], tokenize="none", force=True).score
    return round(score, 2)


def perplexity(model, pairs, batch_size=250):
    """`exp` of the mean cross-entropy of the right tokens, end signs included.

    Args:
        model: A `Seq2Seq`.
        pairs: What `Seq2Seq.encode_pairs` returns.
        batch_size: How many pairs are looked at together.
    """
    (source, before), after = pairs
    losses = count = 0.0
    for start in range(0, len(after), batch_size):
        chosen = slice(start, start + batch_size)
        logits = model((source[chosen], before[chosen]), training=False)
        right = after[chosen]
        each = ops.sparse_categorical_crossentropy(right, logits, from_logits=True)
        real = right != text.PADDING
        losses += float(np.sum(ops.convert_to_numpy(each) * real))
        count += int(real.sum())
    return math.exp(losses / count)


def attention_places(model, pairs, batch_size=250):
    """Where the weights of each target step are largest, with the right words given.

    Args:
        model: A `Seq2Seq`.
        pairs: What `Seq2Seq.encode_pairs` returns.
        batch_size: How many pairs are looked at together.

    Returns:
        Integers `(B, Tt)`, places in the source.
    """
    inputs, _ = pairs
    places = []
    for start in range(0, len(inputs[0]), batch_size):
        chosen = tuple(x[start : start + batch_size] for x in inputs)
        _, weights = model(chosen, return_attention_scores=True, training=False)
        places.append(np.argmax(ops.convert_to_numpy(weights), axis=-1))
    return np.concatenate(places)


def diagonal_places(source_length, target_length):
    """The source places that target words would look at if both went in step.

    >>> diagonal_places(6, 3)
    [1, 3, 5]
    """
    return [int((t + 0.5) * source_length / target_length) for t in range(target_length)]


def alignment_accuracy(places, links):
    """Share in percent of the linked target words that look at a word linked to them.

    Args:
        places: For each sentence the source place that each target word looks at.
        links: For each sentence the pairs `(target place, source place)`.

    >>> alignment_accuracy([[0, 2, 1]], [{(0, 0), (1, 1), (1, 0)}])
    50.0
    """
    guesses = [_guesses(*pair) for pair in zip(places, links, strict=True)]
    right = sum(len(g & set(one)) for g, one in zip(guesses, links, strict=True))
    return round(100 * right / max(1, sum(map(len, guesses))), 2)


def alignment_error_rate(places, sure, links):
    """`1 - (|A and S| + |A and P|) / (|A| + |S|)` in percent (Och and Ney, 2003).

    `A` are the guesses for target words with a link, `S` the sure links, `P` all of them.

    Args:
        places: As for `alignment_accuracy`.
        sure: As `links`, those that are beyond doubt.
        links: As for `alignment_accuracy`.

    >>> alignment_error_rate([[0, 2]], [{(0, 0)}], [{(0, 0), (1, 1)}])
    33.33
    """
    agreed = size = 0
    for row, certain, possible in zip(places, sure, links, strict=True):
        guesses = _guesses(row, possible)
        agreed += len(guesses & set(certain)) + len(guesses & set(possible))
        size += len(guesses) + len(certain)
    return round(100 * (1 - agreed / max(1, size)), 2)


def _guesses(row, links):
    return {(target, int(row[target])) for target, _ in links}
