"""The weights of every attention layer of a model, whatever the model is made of."""

import collections
import contextlib
import inspect

import keras
import numpy as np
from keras import ops, tree

__all__ = ["attention_scores"]

FLAG = "return_attention_scores"


def attention_scores(model, inputs, layers=None, batch_size=32, verbose=1):
    """The weights that a model's attention layers use for `inputs`.

    Works on functional, sequential, subclassed and nested models, trained a minute ago or
    loaded from a file, however their layers are called. It finds this package's layers,
    Keras's own (`Attention`, `AdditiveAttention`, `MultiHeadAttention`,
    `GroupedQueryAttention`) and every other layer that can be called with
    `return_attention_scores=True`. The model runs as in `model(inputs, training=False)`,
    with its masks, and is the same afterwards.

    Args:
        model: a Keras model.
        inputs: what the model takes: an array, or a list, tuple or dict of arrays, all with
            the batch as first axis.
        layers: names of layers, or one name; `None` for all attention layers.
        batch_size: how many examples are run at a time.
        verbose: 1 for a progress bar where there are several batches, 0 for none.

    Returns:
        A dict from the layer's name to its weights as a NumPy array `(N, ...)`, in the
        order of the first calls. A layer that the model calls several times has a list of
        arrays. Where layers share a name the keys are paths, such as `"encoder/attention"`.

    Raises:
        ValueError: if there is no such layer, or a layer is not called for these inputs.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from keras_attention import AttentionPooling, attention_scores
    >>> model = keras.Sequential([
    ...     keras.layers.Embedding(10, 4, mask_zero=True), AttentionPooling(3, name="look")
    ... ])
    >>> weights = attention_scores(model, np.array([[5, 2, 7, 0, 0]]))["look"]
    >>> weights.shape, float(weights[0, 3:].sum())
    ((1, 5), 0.0)

    Reference: Bahdanau et al., 2015 (arXiv:1409.0473), figure 3.
    """
    chosen = _choose(_attention_layers(model), layers, model)
    found: dict[str, list] = {}
    for batch in _batches(inputs, batch_size, verbose):
        if not model.built:
            model(batch, training=False)  # Keras builds by a call without numbers.
        with contextlib.ExitStack() as stack:
            records: dict[str, list] = {}
            for name, layer in chosen.items():
                stack.enter_context(_recording(layer, name, records))
            stack.enter_context(_eagerly())
            model(batch, training=False)
        for name, calls in records.items():
            found.setdefault(name, []).append(calls)
    idle = [name for name in chosen if name not in found]
    if not found or (layers is not None and idle):
        raise ValueError(
            f"Expected attention layers that {model.name!r} calls for these inputs. "
            f"Received: {idle}, which it does not call"
        )
    return {name: _joined(batches) for name, batches in found.items()}


def _eagerly():
    """A model's own `tf.function` would hand out a graph's tensors, or its old graph."""
    if keras.backend.backend() != "tensorflow":
        return contextlib.nullcontext()
    from keras_attention import tensorflow_loops

    return tensorflow_loops.eagerly()


def _attention_layers(model):
    """All layers that can return weights, by names that differ."""
    found: dict[int, tuple] = {}
    for path, layer in _walk(model, ()):
        if FLAG in inspect.signature(layer.call).parameters:
            found.setdefault(id(layer), (path, layer))
    paths = [path for path, _ in found.values()]
    return dict(zip(_names(paths), (layer for _, layer in found.values()), strict=True))


def _names(paths):
    """The last part of each path where it is the only one, else as much as it takes.

    >>> _names([("a", "look"), ("b", "look"), ("b", "pool"), ("b", "look")])
    ['a/look', 'b/look', 'pool', 'b/look:2']
    """
    last = collections.Counter(path[-1] for path in paths)
    names = [path[-1] if last[path[-1]] == 1 else "/".join(path) for path in paths]
    counts = [names[: place + 1].count(name) for place, name in enumerate(names)]
    pairs = zip(names, counts, strict=True)
    return [f"{name}:{count}" if count > 1 else name for name, count in pairs]


def _walk(layer, path):
    # Keras has no public way to the layers within a layer.
    for inner in layer._flatten_layers(include_self=False, recursive=False):
        at = (*path, inner.name)
        # Of a model with the flag, such as `Seq2Seq`, the layers are what is looked for.
        if not isinstance(inner, keras.Model):
            yield at, inner
        yield from _walk(inner, at)


def _choose(available, layers, model):
    if not available:
        raise ValueError(
            f"Expected a model with attention layers. Received: {model.name!r}, of whose "
            f"layers none can return weights: {[layer.name for layer in model.layers]}"
        )
    if layers is None:
        return available
    wanted = [layers] if isinstance(layers, str) else list(layers)
    unknown = [name for name in wanted if name not in available]
    if unknown:
        raise ValueError(
            f"Expected names of attention layers of {model.name!r}: {list(available)}. "
            f"Received: {unknown}"
        )
    return {name: available[name] for name in wanted}


@contextlib.contextmanager
def _recording(layer, name, records):
    """Within it, each call of `layer` leaves its weights in `records[name]`."""
    call = layer.call
    # Some of Keras's layers note there how they were called last.
    noted = {key: value for key, value in vars(layer).items() if key.endswith(FLAG)}

    def recorded(*args, **kwargs):
        asked = kwargs.pop(FLAG, False)
        output, weights, *rest = call(*args, **kwargs, **{FLAG: True})
        records.setdefault(name, []).append(_numbers(weights))
        if asked:
            return (output, weights, *rest)
        return (output, *rest) if rest else output

    # Past Keras's own `__setattr__`, which would track what is set.
    vars(layer)["call"] = recorded
    try:
        yield
    finally:
        del vars(layer)["call"]
        vars(layer).update(noted)


def _numbers(weights):
    return tree.map_structure(ops.convert_to_numpy, weights)


def _batches(inputs, batch_size, verbose):
    arrays = tree.flatten(inputs)
    if not arrays or any(np.ndim(x) == 0 for x in arrays):
        raise ValueError(
            "Expected an array, or a list, tuple or dict of arrays with the batch as first "
            f"axis. Received: {inputs!r}"
        )
    starts = range(0, len(arrays[0]), batch_size)
    bar = keras.utils.Progbar(len(starts)) if verbose and len(starts) > 1 else None
    for number, start in enumerate(starts, start=1):
        yield tree.map_structure(lambda x, at=start: x[at : at + batch_size], inputs)
        if bar:
            bar.update(number)


def _joined(batches):
    """One array, or one for each call of the layer (or for each of its memories)."""
    joined = [
        tree.map_structure(lambda *parts: np.concatenate(parts), *calls)
        for calls in zip(*batches, strict=True)
    ]
    return joined[0] if len(joined) == 1 else joined
