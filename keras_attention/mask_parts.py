"""All masks of one call of attention, apart until some rows of them are read.

Padding is a row of booleans and a causal mask a rule. Only a mask of pairs that somebody
gave has `(Tq, Tk)` numbers; the others get them for a block of queries at a time.
"""

import math
from typing import Any, NamedTuple

from keras import ops

from keras_attention import masks
from keras_attention.axes import count_blocks, is_known

# Booleans of a mask of pairs that are looked through at a time.
LOOK_THROUGH = 2**22


class Masks(NamedTuple):
    """Masks that are AND-ed.

    Args:
        parts: booleans that each broadcast to `(..., Tq, Tk)`, with two axes or more.
        causal: whether a key that is later than the query is hidden too, as
            `keras_attention.causal_mask` says.
        lengths: `(Tq, Tk)`, each a number or, where a graph does not know it, a tensor.
    """

    parts: tuple
    causal: bool
    lengths: tuple[Any, Any]

    @property
    def same_for_all_queries(self):
        return not self.causal and all(part.shape[-2] == 1 for part in self.parts)

    def whole(self):
        """Booleans that broadcast to `(..., Tq, Tk)`."""
        causal = [masks.causal_mask(*self.lengths)] if self.causal else []
        return masks.all_of([*self.parts, *causal])

    def take(self, rows):
        """The masks of the queries `rows`, integers `(R,)`."""
        parts = [p if p.shape[-2] == 1 else ops.take(p, rows, -2) for p in self.parts]
        if self.causal:
            rows = ops.convert_to_tensor(rows, "int32")
            rows = ops.where(rows < 0, rows + self.lengths[0], rows)
            parts.append(masks.causal_rows(rows, *self.lengths))
        return masks.all_of(parts)

    def isolate(self, query, key, value):
        """`masks.isolate`, without numbers for each pair."""
        if self.same_for_all_queries:
            return masks.isolate(query, key, value, self.whole())
        seeing, seen = self.sees(), self.seen()
        return masks.isolate_where(query, key, value, seeing, seen, self.sees)

    def sees(self, keys=None):
        """Booleans `(..., Tq)`: who sees any key (where `keys`, `(..., Tk)`, holds)."""
        if self._pairs:
            hits = self._look_through(lambda mask: ops.any(_and_keys(mask, keys), -1))
            hits = ops.moveaxis(hits, 0, -2)
            return ops.reshape(hits, (*ops.shape(hits)[:-2], -1))[..., : self.lengths[0]]
        every = ops.ones((self.lengths[1],), "bool") if keys is None else keys
        there = masks.all_of([every, *(p[..., 0, :] for p in self._of_keys)])
        any_there = ops.any(there, -1, keepdims=True)
        if self.causal:
            last = ops.arange(self.lengths[0], dtype="int32") + self._ahead
            any_there = _up_to(ops.cumsum(ops.cast(there, "int32"), -1), last) > 0
        return masks.all_of([any_there, *(p[..., 0] for p in self._of_queries)])

    def seen(self):
        """Booleans `(..., Tk)`: whether any query sees the key."""
        if self._pairs:
            return ops.any(self._look_through(lambda mask: ops.any(mask, -2)), 0)
        every = ops.ones((self.lengths[0],), "bool")
        looking = masks.all_of([every, *(p[..., 0] for p in self._of_queries)])
        any_looking = ops.any(looking, -1, keepdims=True)
        if self.causal:
            earlier = ops.arange(self.lengths[1], dtype="int32") - self._ahead - 1
            ones = ops.cast(looking, "int32")
            before = _up_to(ops.cumsum(ones, -1), earlier)
            any_looking = ops.sum(ones, -1, keepdims=True) > before
        return masks.all_of([any_looking, *(p[..., 0, :] for p in self._of_keys)])

    def in_blocks(self, block):
        """From the index of a block of queries to booleans `(..., block, Tk)`."""
        parts = [_in_rows(p, self.lengths[0], block) for p in self.parts]

        def at(index):
            found = [p if p.shape[-2] == 1 else _rows(p, index, block) for p in parts]
            return masks.all_of([*found, *self._causal(index, block)])

        return at

    def in_groups(self, block, lead, group):
        """From the indices of a group and of a block to booleans `(group, block, Tk)`.

        Args:
            block: number of queries of a block.
            lead: sizes of the axes before the last two, which a group numbers in one.
            group: how many of these make a group.
        """
        parts = [_in_rows(p, self.lengths[0], block) for p in self.parts]
        readers = [_grouped(p, block, lead, group) for p in parts]

        def at(place, index):
            found = [read(place, index) for read in readers]
            return masks.all_of([*found, *self._causal(index, block)])

        return at

    @property
    def _ahead(self):
        return self.lengths[1] - self.lengths[0]

    @property
    def _pairs(self):
        return [p for p in self.parts if 1 not in p.shape[-2:]]

    @property
    def _of_keys(self):
        return [p for p in self.parts if p.shape[-2] == 1]

    @property
    def _of_queries(self):
        return [p for p in self.parts if p.shape[-2] != 1]

    def _causal(self, index, block):
        if not self.causal:
            return []
        rows = index * block + ops.arange(block, dtype="int32")
        return [masks.causal_rows(rows, *self.lengths)]

    def _look_through(self, function):
        """`function` of the mask of each block of queries, one after another."""
        queries, keys = self.lengths
        block = 64
        if isinstance(queries, int) and isinstance(keys, int):
            block = max(1, min(queries, LOOK_THROUGH // max(1, keys)))
        at = self.in_blocks(block)
        blocks = count_blocks(queries, block)
        return ops.map(lambda i: function(at(i)), ops.arange(blocks, dtype="int32"))


def _and_keys(mask, keys):
    return mask if keys is None else ops.logical_and(mask, ops.expand_dims(keys, -2))


def _up_to(counts, last):
    """`counts` at the places `last`, 0 at those before the first."""
    counts = ops.pad(counts, [*([0, 0] for _ in counts.shape[:-1]), [1, 0]])
    return ops.take(counts, ops.maximum(last + 1, 0), -1)


def lengthen(x, length, block):
    """Zeros (`False`) behind the rows, up to a multiple of `block`."""
    gap = count_blocks(length, block) * block - length
    if is_known(gap, 0):
        return x
    return ops.pad(x, [*([0, 0] for _ in x.shape[:-2]), [0, gap], [0, 0]])


def shorten(x, length):
    """The first rows: what `lengthen` got."""
    return x if is_known(length, x.shape[-2]) else x[..., :length, :]


def _in_rows(part, length, block):
    """`part` with a row for each query of whole blocks, or one row for all."""
    if part.shape[-2] == 1:
        return part
    if part.shape[-2] is None:
        *lead, _, keys = ops.shape(part)
        part = ops.broadcast_to(part, (*lead, length, keys))
    return lengthen(part, length, block)


def _rows(part, index, block):
    *lead, _, keys = ops.shape(part)
    start = [0] * len(lead) + [index * block, 0]
    return ops.slice(part, start, (*lead, block, keys))


def _grouped(part, block, lead, group):
    """Reads blocks of groups from a part that may be the same for several of them."""
    *own, rows, keys = ops.shape(part)
    own = [1] * (len(lead) - len(own)) + own
    count, alike = math.prod(own), part.shape[-2] == 1
    blocks = 1 if alike else rows // block
    part = ops.reshape(part, (count * blocks, rows // blocks, keys))
    missing = (count_blocks(count, 1) - count) * blocks  # Of an empty batch's one group.
    if not is_known(missing, 0):
        part = ops.pad(part, [[0, missing], [0, 0], [0, 0]])
    which = ops.reshape(ops.arange(count, dtype="int32"), own)
    which = ops.reshape(ops.broadcast_to(which, lead), (-1, 1))
    which = lengthen(which, ops.shape(which)[0], group)[:, 0]

    def read(place, index):
        places = ops.slice(which, [place * group], (group,))
        # What is the same for all is not repeated.
        places = places[:1] if is_known(count, 1) else places
        return ops.take(part, places * blocks + (0 if alike else index), 0)

    return read
