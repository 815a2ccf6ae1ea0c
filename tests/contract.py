"""What the contract tests share: cases, their data, and gradients on each backend."""

import contextlib
import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import keras
import numpy as np
import references
from keras import ops

import keras_attention as ka
from keras_attention import normalizers, scores

Arrays = dict[str, np.ndarray]

BATCH, QUERIES, KEYS = 5, 3, 8  # all sizes differ, so that none can stand for another
QUERY_DEPTH, KEY_DEPTH, VALUE_DEPTH, UNITS, MAX_LENGTH = 4, 6, 7, 10, 9

# A value that is not the default, for each constructor argument by its name.
ARGUMENTS = {
    "units": UNITS,
    "max_length": MAX_LENGTH,
    "temperature": 0.75,
    "num_queries": 2,
    "dropout": 0.25,
    "seed": 11,
    "axis": (1, 2),
    "sample": "never",
    "expected_rate": 0.25,
    "entropy": 0.125,
    "baseline_decay": 0.5,
    "block_size": 2,
}


def non_default(parameter: inspect.Parameter) -> object:
    """A value for a constructor argument that is not its default."""
    name, default = parameter.name, parameter.default
    if name in ARGUMENTS:
        return ARGUMENTS[name]
    if name.endswith("_initializer"):
        return keras.initializers.RandomNormal(stddev=0.3, seed=5)
    if name.endswith("_regularizer"):
        return keras.regularizers.L2(0.125)
    if name.endswith("_constraint"):
        return keras.constraints.MaxNorm(3.5)
    if isinstance(default, bool):
        return not default
    raise AssertionError(
        f"No value is known for the argument {name!r}: add one to ARGUMENTS in "
        "tests/contract.py."
    )


def parameters(cls: type) -> dict[str, inspect.Parameter]:
    """The arguments of a class that are its own, not Keras's."""
    found = {}
    for base in cls.__mro__:
        if base is keras.layers.Layer or "__init__" not in vars(base):
            continue
        if base.__module__.startswith("keras."):
            break
        for name, parameter in inspect.signature(base.__init__).parameters.items():
            if parameter.kind not in (
                inspect.Parameter.VAR_KEYWORD,
                inspect.Parameter.VAR_POSITIONAL,
            ):
                found.setdefault(name, parameter)
    found.pop("self", None)
    return found


def every_argument(cls: type, **given: object) -> dict[str, object]:
    """All arguments of a class, those not given away from their defaults."""
    return {
        name: given[name] if name in given else non_default(parameter)
        for name, parameter in parameters(cls).items()
    }


def formula_arguments(cls: type) -> dict[str, object]:
    """The arguments that change what is computed: no initializers and the like."""
    others = ("_initializer", "_regularizer", "_constraint")
    return {n: v for n, v in every_argument(cls).items() if not n.endswith(others)}


def registered_class(registry, name: str) -> type:
    return type(registry.get(name, **required(registry, name)))


def required(registry, name: str) -> dict[str, object]:
    """The arguments without which a part cannot be made."""
    try:
        registry.get(name)
    except ValueError as error:
        return {k: v for k, v in ARGUMENTS.items() if f"{k}=..." in str(error)}
    return {}


@dataclass(frozen=True)
class Case:
    """One layer with one score and one normaliser, all their options switched on."""

    score: str
    normalizer: str
    dtype: str = "float32"
    dropout: float = 0.0
    options: tuple | None = None  # of the score; None switches all of them on
    names: ClassVar[tuple] = ()

    @property
    def reference(self) -> references.ScoreReference:
        return references.score_of(self.score)

    @property
    def temperature(self) -> dict[str, object]:
        return every_argument(registered_class(normalizers, self.normalizer))

    def make_score(self):
        if self.options is None:
            cls = registered_class(scores, self.score)
            options = formula_arguments(cls)
        else:
            options = required(scores, self.score) | dict(self.options)
        return scores.get(self.score, dtype=self.dtype, **options)

    def make_normalizer(self):
        return normalizers.get(self.normalizer, dtype=self.dtype, **self.temperature)

    def other(self, **changes):
        fields = {k: getattr(self, k) for k in ("score", "normalizer", "options")}
        return type(self)(**{**fields, **changes})

    def rng(self, seed: int = 0) -> np.random.Generator:
        return np.random.default_rng([seed, *map(ord, self.score + self.normalizer)])


class AttentionCase(Case):
    """`Attention`: query, value and key all given, each with its own depth."""

    names = ("query", "value", "key")
    with_keys = ("value", "key")
    mask_name = "value_mask"

    def make(self, **options):
        parts = dict(score=self.make_score(), normalizer=self.make_normalizer())
        options = dict(dtype=self.dtype, dropout=self.dropout) | options
        return ka.Attention(**(parts | options))

    def data(self, seed=0, batch=BATCH, keys=KEYS, scale=1.0) -> Arrays:
        score = self.make_score()
        depth = score.query_depth(KEY_DEPTH)
        if self.reference.any_query_depth:
            depth = QUERY_DEPTH
        rng = self.rng(seed)
        shapes = {
            "query": (batch, QUERIES, depth),
            "value": (batch, keys, VALUE_DEPTH),
            "key": (batch, keys, KEY_DEPTH),
        }
        return {
            n: (scale * rng.normal(size=s)).astype("float32") for n, s in shapes.items()
        }

    def call(self, layer, data, mask=None, **options):
        masks = {} if mask is None else {"value_mask": mask}
        options = {"return_attention_scores": True} | masks | options
        return layer(data["query"], data["value"], data["key"], **options)

    def expected(self, weights, data, mask=None):
        return references.attend(
            self.score,
            self.normalizer,
            *(np.asarray(data[n], np.float64) for n in self.names),
            weights,
            None if mask is None else np.asarray(mask, bool)[..., None, :],
            **self.temperature,
        )


class PoolingCase(Case):
    """`AttentionPooling`: a learned query over one sequence."""

    names = ("inputs",)
    with_keys = ("inputs",)
    mask_name = "mask"

    def make(self, **options):
        parts = dict(score=self.make_score(), normalizer=self.make_normalizer())
        options = dict(dtype=self.dtype, dropout=self.dropout) | options
        return ka.AttentionPooling(**(parts | options))

    def data(self, seed=0, batch=BATCH, keys=KEYS, scale=1.0) -> Arrays:
        shape = (batch, keys, KEY_DEPTH)
        return {"inputs": (scale * self.rng(seed).normal(size=shape)).astype("float32")}

    def call(self, layer, data, mask=None, **options):
        options = {"return_attention_scores": True} | options
        return layer(data["inputs"], mask=mask, **options)

    def expected(self, weights, data, mask=None):
        inputs = np.asarray(data["inputs"], np.float64)
        output, alignment = references.attend(
            self.score,
            self.normalizer,
            weights["query"],
            inputs,
            inputs,
            weights,
            None if mask is None else np.asarray(mask, bool)[..., None, :],
            **self.temperature,
        )
        return output[..., 0, :], alignment[..., 0, :]


LAYERS = {"attention": AttentionCase, "pooling": PoolingCase}


def weights_of(layer) -> Arrays:
    """The weights by name, in float64."""
    names = [variable.name for variable in layer.trainable_variables]
    assert len(set(names)) == len(names), names
    return {
        v.name: ops.convert_to_numpy(ops.cast(v, "float32")).astype("float64")
        for v in layer.trainable_variables
    }


def randomise(layer, seed: int = 1) -> None:
    """Random numbers in every weight, the zeros of a fresh bias included."""
    rng = np.random.default_rng(seed)
    for variable in layer.trainable_variables:
        variable.assign(0.6 * rng.normal(size=variable.shape) + 0.1)


@functools.cache
def built(case: Case):
    """A built layer with random weights. Shared: a test may not change it."""
    layer = case.make()
    case.call(layer, case.data())
    randomise(layer)
    return layer


def to_numpy(x) -> np.ndarray:
    return ops.convert_to_numpy(ops.cast(x, "float32"))


def run(case: Case, layer, data: Arrays, mask=None, **options) -> list[np.ndarray]:
    """Outputs and weights as NumPy arrays."""
    return [to_numpy(y) for y in case.call(layer, data, mask, **options)]


def gradients(
    layer, call: Callable, data: Arrays, cotangents: list[np.ndarray]
) -> tuple[list[np.ndarray], Arrays]:
    """Outputs, and gradients of `sum(output * cotangent)` by input and weight name."""
    backend = keras.backend.backend()
    differentiate = {"tensorflow": _tape, "jax": _jax_grad, "torch": _autograd}[backend]

    def loss_of(tensors):
        outputs = call(tensors)
        terms = [
            ops.sum(ops.cast(y, "float32") * ops.convert_to_tensor(c, "float32"))
            for y, c in zip(outputs, cotangents, strict=True)
        ]
        return functools.reduce(ops.add, terms), outputs

    outputs, found = differentiate(layer, loss_of, data)
    names = [*data, *(v.name for v in layer.trainable_variables)]
    found = {n: to_numpy(g) for n, g in zip(names, found, strict=True)}
    return [to_numpy(y) for y in outputs], found


def _tape(layer, loss_of, data):
    import tensorflow as tf

    tensors = {name: tf.convert_to_tensor(x) for name, x in data.items()}
    sources = [*tensors.values(), *(v.value for v in layer.trainable_variables)]
    with tf.GradientTape() as tape:
        tape.watch(sources)
        loss, outputs = loss_of(tensors)
    return outputs, tape.gradient(loss, sources, unconnected_gradients="zero")


def _jax_grad(layer, loss_of, data):
    import jax

    variables = layer.trainable_variables

    def stateless(tensors, values):
        with keras.StatelessScope(list(zip(variables, values, strict=True))):
            return loss_of(tensors)

    found, outputs = jax.grad(stateless, argnums=(0, 1), has_aux=True)(
        {name: jax.numpy.asarray(x) for name, x in data.items()},
        [v.value for v in variables],
    )
    return outputs, [*(found[0][n] for n in data), *found[1]]


def _autograd(layer, loss_of, data):
    import torch

    tensors = {name: torch.tensor(x, requires_grad=True) for name, x in data.items()}
    sources = [*tensors.values(), *(v.value for v in layer.trainable_variables)]
    loss, outputs = loss_of(tensors)
    found = [None] * len(sources)
    if loss.requires_grad:  # a choice has no derivatives
        found = torch.autograd.grad(loss, sources, allow_unused=True)
    zeros = [torch.zeros_like(s) for s in sources]
    found = [z if g is None else g for g, z in zip(found, zeros, strict=True)]
    return [y.detach() for y in outputs], found


def compiled(call: Callable, data: Arrays) -> list[np.ndarray]:
    """The outputs of `call`, compiled by XLA (TensorFlow and JAX)."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        outputs = tf.function(call, jit_compile=True)(data)
    else:
        import jax

        with quick_compilation(False):
            outputs = jax.jit(call)(data)
    return [to_numpy(y) for y in outputs]


@contextlib.contextmanager
def quick_compilation(quick: bool = True):
    """JAX compiles each operation for each shape: here that takes most of the time."""
    if keras.backend.backend() != "jax":
        yield
        return
    import jax

    jax.config.update("jax_disable_most_optimizations", quick)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


def numeric_slopes(
    function: Callable[[Arrays], float],
    variables: Arrays,
    directions: Arrays,
    step: float = 1e-6,
) -> dict[str, float]:
    """Slopes of a float64 function along one direction for each of its variables."""
    found = {}
    for name, start in variables.items():
        ends = [
            function(variables | {name: start + sign * step * directions[name]})
            for sign in (1, -1)
        ]
        found[name] = (ends[0] - ends[1]) / (2 * step)
    return found


def symbolic(data: Arrays) -> dict[str, keras.KerasTensor]:
    """Inputs like `data`, of any batch size and any number of steps."""
    return {n: keras.Input((None, x.shape[-1]), name=n) for n, x in data.items()}
