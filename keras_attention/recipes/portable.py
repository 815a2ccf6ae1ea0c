"""Model files that older versions of Keras load as well."""

import json
import zipfile
from pathlib import Path

# Arguments of Keras's own classes that Keras 3.10 does not know, and their defaults.
NEWER = {
    "input_axes": None,
    "output_axes": None,
    "quantization_config": None,
    "renorm": False,
    "renorm_clipping": None,
    "renorm_momentum": 0.99,
}


def save(model, file):
    """Saves a model, without the defaults of arguments that only a newer Keras knows.

    Args:
        model: A Keras model.
        file: A path that ends in `.keras`.
    """
    model.save(file)
    make_portable(file)


def make_portable(file):
    """Writes a `.keras` file anew, its config as `older` has it."""
    file = Path(file)
    written = file.with_suffix(".part")
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(written, "w") as new:
        for entry in old.infolist():
            content = old.read(entry)
            if entry.filename == "config.json":
                content = json.dumps(older(json.loads(content))).encode()
            new.writestr(entry, content)
    written.replace(file)


def older(config):
    """A config without the arguments in `NEWER` that have their defaults.

    >>> older({"config": {"seed": None, "input_axes": None, "renorm": True}})
    {'config': {'seed': None, 'renorm': True}}
    """
    if isinstance(config, list):
        return [older(part) for part in config]
    if not isinstance(config, dict):
        return config
    return {
        name: older(part)
        for name, part in config.items()
        if name not in NEWER or part != NEWER[name]
    }
