"""Batches of equal size, of pairs of sequences of about the same length."""

import keras
import numpy as np

from keras_attention import recipes, text


class Batches(keras.utils.PyDataset):
    """Batches of equal size, of pairs of about the same length.

    Args:
        pairs: What `Seq2Seq.encode_pairs` returns.
        sizes: Pairs of lengths, of source and target, that batches are cut to: few, since
            each is compiled on its own. What is longer than the last is left whole.
        batch_size: Pairs in a batch. The last one of a size is filled up with pairs
            of the batches before.
        seed: Integer to draw other batches in every epoch; `None` for none.
    """

    def __init__(self, pairs, sizes, batch_size=256, seed=None):
        super().__init__()
        (self.source, self.before), self.target = pairs
        longest = (self.source.shape[1], self.target.shape[1])
        self.sizes = [*(np.minimum(size, longest) for size in sizes[:-1]), longest]
        self.batch_size = batch_size
        lengths = [(x != text.PADDING).sum(axis=1) for x in (self.source, self.target)]
        fits = [(lengths[0] <= s) & (lengths[1] <= t) for s, t in self.sizes]
        self.size_of = np.argmax(fits, axis=0)
        self.generator = None if seed is None else np.random.default_rng(seed)
        self.on_epoch_end()

    def __len__(self):
        return len(self.batches)

    def __getitem__(self, index):
        size, chosen = self.batches[index]
        sources, targets = self.sizes[size]
        inputs = self.source[chosen, :sources], self.before[chosen, :targets]
        return inputs, self.target[chosen, :targets]

    def on_epoch_end(self):
        self.batches = []
        for size in np.unique(self.size_of):
            (pairs,) = np.nonzero(self.size_of == size)
            if self.generator is not None:
                self.generator.shuffle(pairs)
            number = -(-len(pairs) // self.batch_size)
            rows = np.resize(pairs, (number, self.batch_size))
            self.batches += [(size, row) for row in rows]
        if self.generator is not None:
            self.generator.shuffle(self.batches)
        sizes = [size for size, _ in self.batches]
        self.batches = recipes.extremes_first(self.batches, sizes)
