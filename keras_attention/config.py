"""Constructor arguments as configuration, and parts looked up by name."""

import difflib
import inspect
import numbers

import keras


def constructor_arguments(cls):
    """Names of all arguments that `cls(...)` takes, those behind `**kwargs` included."""
    names = []
    for base in cls.__mro__:
        if base is Configurable:
            break
        if "__init__" not in vars(base):
            continue
        parameters = inspect.signature(base.__init__).parameters.values()
        names += [
            p.name
            for p in parameters
            if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
        ]
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            break
    return [name for name in dict.fromkeys(names) if name != "self"]


def required_arguments(cls):
    """Names of the arguments without which `cls(...)` fails."""
    _, *parameters = inspect.signature(cls.__init__).parameters.values()
    named = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    return [p.name for p in named if p.default is p.empty]


class Configurable:
    """Writes `get_config` from the signature of `__init__`.

    A class that inherits from it (before the Keras class) keeps each constructor argument
    in an attribute of the same name; nested objects are serialized by Keras. Arguments
    behind `**kwargs` are found in the base classes.
    """

    trainable: bool  # Keras's

    def get_config(self):
        config = super().get_config()  # type: ignore[misc]  # a mixin: Keras's own
        for name in constructor_arguments(type(self)):
            value = getattr(self, name)
            value = list(value) if isinstance(value, tuple) else value
            config[name] = keras.saving.serialize_keras_object(value)
        return config

    def pass_on_trainable(self):
        """At the end of `build`: what is made with `trainable=False` is so in its parts."""
        if not self.trainable:
            # TensorFlow skips the setter where the value is the one already there.
            self.trainable = True
            self.trainable = False


def check_positive_integer(name, value):
    """Raises `ValueError` unless `value` is an integer of at least 1."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 1:
        raise ValueError(f"Expected `{name}` to be a positive integer. Received: {value!r}")


def check_parts(inputs, *names):
    """Raises `ValueError` unless `inputs` is a tuple or list, an entry for each name."""
    if not isinstance(inputs, (list, tuple)) or len(inputs) != len(names):
        number = len(inputs) if isinstance(inputs, (list, tuple)) else "a single one"
        raise ValueError(
            f"Expected the inputs {', '.join(names)}, as one tuple. Received: {number}"
        )


def as_list(x):
    """`x` as a list: itself if it is one, else the only entry."""
    return list(x) if isinstance(x, (list, tuple)) else [x]


class Registry:
    """Names of interchangeable parts: what `score="additive"` is looked up in.

    Args:
        kind: what the parts are called in error messages, e.g. `"score"`.
        base: the class that all of them inherit from.
    """

    def __init__(self, kind, base):
        self.kind = kind
        self.base = base
        self._classes = {}
        self._aliases = {}

    def register(self, name, *aliases):
        """Class decorator: look-up by name, and serialization by Keras.

        Args:
            name: what the part is called.
            aliases: other names for it.

        Returns:
            A decorator.

        Raises:
            ValueError: if another class has one of the names.

        Example:

        >>> import keras
        >>> from keras_attention import normalizers
        >>> @normalizers.register("squares")
        ... class Squares(normalizers.Normalizer):
        ...     def normalize(self, scores, mask):
        ...         scores = scores if mask is None else keras.ops.where(mask, scores, 0.0)
        ...         squares = keras.ops.square(scores)
        ...         return squares / keras.ops.sum(squares, axis=-1, keepdims=True)
        >>> "squares" in normalizers.names()
        True
        >>> normalizers.unregister("squares")
        """

        def decorate(cls):
            for key in (name, *aliases):
                self._claim(key, cls)
            self._classes[name] = cls
            self._aliases.update(dict.fromkeys(aliases, name))
            package = cls.__module__.partition(".")[0]
            return keras.saving.register_keras_serializable(package)(cls)

        return decorate

    def unregister(self, name):
        """Forgets a name and its aliases; the class stays as it is.

        Args:
            name: a registered name, no alias.

        Example: see `register`.

        >>> from keras_attention import normalizers
        >>> normalizers.unregister("nobody")
        Traceback (most recent call last):
        KeyError: 'nobody'
        """
        del self._classes[name]
        self._aliases = {a: n for a, n in self._aliases.items() if n != name}

    def names(self):
        """The registered names, without aliases.

        Returns:
            A list of strings.

        Example:

        >>> from keras_attention import normalizers
        >>> normalizers.names()
        ['softmax', 'sparsemax', 'entmax15', 'sigmoid', 'straight_through', ...]
        """
        return list(self._classes)

    def aliases(self):
        """Other names of registered parts.

        Returns:
            A dict from alias to registered name.

        Example:

        >>> from keras_attention import scores
        >>> scores.aliases()["bahdanau"]
        'additive'
        """
        return dict(self._aliases)

    def find(self, name):
        """The class registered as `name`."""
        cls = self._classes.get(self._aliases.get(name, name))
        if cls is None:
            known = [*self._classes, *self._aliases]
            close = difflib.get_close_matches(name, known, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise ValueError(
                f"Expected the name of a {self.kind}, one of {known}. "
                f"Received: {name!r}.{hint}"
            )
        return cls

    def get(self, identifier, dtype=None, **options):
        """Makes a part from a name, a config or an instance.

        Args:
            identifier: a name, an instance or a config.
            dtype: dtype policy for a part made from a name.
            options: constructor arguments for a part made from a name; an instance has to
                agree with them. `None` means not given.

        Returns:
            The part.

        Raises:
            ValueError: for an unknown name, or an option that the part does not have.

        Example:

        >>> from keras_attention import normalizers
        >>> normalizers.get("softmax", temperature=0.5).temperature
        0.5
        """
        options = {k: v for k, v in options.items() if v is not None}
        if isinstance(identifier, str):
            return self._create(identifier, dtype, options)
        part = identifier
        if isinstance(identifier, dict):
            part = keras.saving.deserialize_keras_object(identifier)
        if not isinstance(part, self.base):
            raise ValueError(
                f"Expected a {self.kind}: a name, an instance or a config. "
                f"Received: {identifier!r}"
            )
        for option, value in options.items():
            if getattr(part, option, None) != value:
                self._refuse_beside(part, option, value)
        return part

    def _refuse_beside(self, part, option, value):
        name = type(part).__name__
        if option in constructor_arguments(type(part)):
            raise ValueError(
                f"Expected `{option}` in the {self.kind}, as an instance was given: "
                f"{name}({option}={value!r}). Received: {option}={value!r} beside "
                f"{name}({option}={getattr(part, option, None)!r})"
            )
        raise ValueError(
            f"Expected no `{option}` beside {name}, which has no such argument: leave it "
            f"out. Received: {option}={value!r}"
        )

    def _create(self, name, dtype, options):
        cls = self.find(name)
        unknown = set(options) - set(constructor_arguments(cls))
        if unknown:
            raise ValueError(
                f"Expected no {sorted(unknown)} with {self.kind} {name!r}, which has no "
                f"such argument: leave it out. Received: {options}"
            )
        missing = [a for a in required_arguments(cls) if a not in options]
        if missing:
            raise ValueError(
                f"Expected the {self.kind} {name!r} as an instance, since it needs more "
                f"than its name: {cls.__name__}({', '.join(f'{a}=...' for a in missing)}). "
                f"Received: {name!r}"
            )
        return cls(dtype=dtype, **options)

    def _claim(self, key, cls):
        owner = self._classes.get(self._aliases.get(key, key))
        # Running a notebook cell again defines the same class again: that replaces it.
        if owner is not None and owner.__qualname__ != cls.__qualname__:
            raise ValueError(
                f"Expected a new name for the {self.kind} {cls.__name__}. Received: "
                f"{key!r}, which is {owner.__name__}'s"
            )
