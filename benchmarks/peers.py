"""Who does what: every cell of the table in docs/peers.md is the outcome of a check here.

    python benchmarks/peers.py [--peers NAME ...] [--keras2 PYTHON] [--path NAME=FOLDER ...]
                               [--answers FILE] [--write]

Each peer is checked in a process of its own, as installed from PyPI:
`pip install --no-deps tensorflow-addons typeguard==2.13.3 keras-self-attention attention`.
What does not run on the Keras at hand is checked with that of `--keras2`, the Python of an
environment with `tensorflow-cpu==2.15.*`. `--path` names a folder to import a peer from
(`keras-attention` shares our import name). `--answers` keeps answers in a file, and asks
only peers that are not in it. `--write` puts the table into docs/peers.md.
"""

import argparse
import datetime
import inspect
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from contestants import extra_memory
from peers_layers import PEERS

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "peers.md"
MARKS = "<!-- made by benchmarks/peers.py -->", "<!-- end -->"
LENGTH = 6144  # its scores take 151 MB
BACKENDS = "tensorflow", "jax", "torch"
KEPT, STEPS, DEPTH = 3, 5, 4


def sequence(seed=0):
    return np.random.default_rng(seed).normal(size=(2, STEPS, DEPTH)).astype("float32")


def mask():
    return np.arange(STEPS)[None].repeat(2, 0) < KEPT


def numbers(tensor):
    return np.asarray(tensor.detach() if hasattr(tensor, "detach") else tensor)


def kept(peer, output):
    output = numbers(output)
    return output if peer.pools else output[:, :KEPT]


def difference(one, other):
    return float(np.max(np.abs(one - other), initial=0.0))


def model_of(peer):
    inputs = peer.keras().Input((STEPS, DEPTH))
    return peer.keras().Model(inputs, peer.call(peer.make(), inputs)[0])


def runs(peer):
    output = numbers(peer.call(peer.make(), sequence())[0])
    return bool(np.isfinite(output).all()), ""


def runs_in_model(peer):
    model = model_of(peer)
    return bool(np.isfinite(model.predict(sequence(), verbose=0)).all()), ""


def padding(peer, filling):
    layer, x, spoilt = peer.make(), sequence(), sequence()
    spoilt[:, KEPT:] = filling
    clean = kept(peer, peer.call(layer, x, mask())[0])
    apart = difference(kept(peer, peer.call(layer, spoilt, mask())[0]), clean)
    moved = "the output is NaN" if np.isnan(apart) else f"the output moves by {apart:.2g}"
    return apart < 1e-5, "" if apart < 1e-5 else moved


def finite_padding(peer):
    return padding(peer, 3.0)


def nan_padding(peer):
    return padding(peer, np.nan)


def stack(peer):
    """Embedding(mask_zero), two layers: does padding move what stands before it?"""
    keras = peer.keras()
    ids = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(9, DEPTH, mask_zero=True)(ids)
    for _ in range(1 if peer.pools else 2):
        found = peer.call(peer.make(), x)[0]
        x = found if peer.pools else keras.layers.Add()([x, found])
    model = keras.Model(ids, x)
    alone = model.predict(np.array([[3, 1, 4]]), verbose=0)
    padded = model.predict(np.array([[3, 1, 4, 0, 0]]), verbose=0)
    apart = difference(kept(peer, padded), alone)
    return apart < 1e-5, "" if apart < 1e-5 else f"padding moves the output by {apart:.2g}"


def weights(peer):
    """Does a call give weights that sum to 1?"""
    if not peer.gives_weights:
        return False, ""
    found = numbers(peer.call(peer.make(weights=True), sequence(), weights=True)[1])
    return difference(found.sum(-1), 1) < 1e-3, ""


LOAD = """
import sys, numpy as np
{setup}
model = keras.models.load_model({path!r})
np.save({path!r} + ".npy", model.predict(np.ones((2, 5, 4), "float32"), verbose=0))
"""


def saving(peer):
    """Saves, and loads in a fresh process that imports the peer and nothing else."""
    model = model_of(peer)
    before = model.predict(np.ones((2, STEPS, DEPTH), "float32"), verbose=0)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model.keras"
        model.save(path)
        code = LOAD.format(path=path, setup=peer.setup)
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
        if done.returncode:
            return False, last_line(done.stderr)
        return difference(np.load(path + ".npy"), before) < 1e-5, ""


def first_words(message):
    """An error's message on one line, without the colours that Keras gives it."""
    return " ".join(re.sub(r"\x1b\[\d+m", "", message).split())[:150]


def last_line(text):
    """What an error says first: the line that names it, shortened."""
    lines = re.findall(r"^(?:\w+\.)*(\w+(?:Error|Exception).*)$", text, re.MULTILINE)
    return (lines[-1:] or ["no error named"])[0][:150]


def additive(peer):
    """Is there an additive score with a matrix for the query and one for the key?"""
    if peer.additive is None:
        return False, peer.additive_note
    found, wanted = peer.additive(sequence())
    return difference(numbers(found), wanted) < 1e-4, ""


def sparse(peer):
    """Can weights be exactly 0 where nothing is masked?"""
    if peer.sparse is None:
        return False, ""
    found = numbers(peer.sparse(10 * sequence()))
    return bool((found == 0).any()), ""


def beams(peer):
    if peer.beam_search is None:
        public = [name for name in dir(peer.package()) if "beam" in name.lower()]
        assert not public, public
        return False, ""
    return peer.beam_search(), ""


def memory(peer):
    """Does a long sequence take less than its scores do? (Linux)"""
    if peer.pools:
        return None, "one query"
    layer = peer.make()
    peer.call(layer, sequence())
    x = np.random.default_rng(0).normal(size=(1, LENGTH, DEPTH)).astype("float32")
    share = extra_memory(lambda: peer.call(layer, x)) / (4 * LENGTH**2)
    return share < 1, f"{share:.1f} times the scores' bytes"


CHECKS = {
    "padding of finite numbers has no influence": finite_padding,
    "padding of NaN has no influence": nan_padding,
    "a carried mask holds through a stack of two": stack,
    "weights returned": weights,
    "saved, and loaded without `custom_objects`": saving,
    "additive score, matrices for query and key": additive,
    "sparse weights (sparsemax, entmax)": sparse,
    "decoder with beam search": beams,
    "memory bounded at long length": memory,
}


def answer(check, peer):
    """`[True, False or None, a note]`; an error is a no."""
    if check.__name__ in peer.leaves_out:
        return None, peer.leaves_out[check.__name__]
    try:
        return check(peer)
    except Exception as error:
        return False, f"{type(error).__name__}: {first_words(str(error))}"


def examine(name, only_runs):
    """In a peer's own process: all answers as JSON on the last line."""
    peer = PEERS[name]()
    found = {"runs": answer(runs, peer)}
    if found["runs"][0] and not only_runs:
        found["runs"] = answer(runs_in_model, peer)
        if found["runs"][0] is not False:
            found |= {title: answer(check, peer) for title, check in CHECKS.items()}
    found["versions"] = peer.versions()
    print("\n" + json.dumps(found))


def ask(name, options, python=sys.executable, backend="tensorflow", only_runs=False):
    """The answers of a process for one peer."""
    folders = [*options.paths.get(name, []), *([str(ROOT)] if name == "ours" else [])]
    path = os.pathsep.join([*folders, os.environ.get("PYTHONPATH", "")]).strip(os.pathsep)
    settings = {"KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": path}
    command = [python, __file__, "--examine", name, *["--only-runs"] * only_runs]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **settings}
    )
    if done.returncode:
        return {"runs": [False, last_line(done.stderr)], "versions": {}}
    return json.loads(done.stdout.splitlines()[-1])


def gather(name, options):
    """One column: the answers, where they were found, the backends."""
    found = ask(name, options)
    column = {"here": found["runs"], **found}
    if not found["runs"][0] and options.keras2:
        column |= ask(name, options, python=options.keras2)
    elif found["runs"][0]:
        works = [
            b
            for b in BACKENDS
            if b == "tensorflow" or ask(name, options, backend=b, only_runs=True)["runs"][0]
        ]
        column["backends"] = works
    print(f"{name}: {column['versions']}", file=sys.stderr, flush=True)
    return column


def cell(found):
    return {True: "yes", False: "no", None: "-"}[found[0]] if found else "?"


def render(columns):
    """The table, and under it what a no or a dash is about."""
    titles = {name: PEERS[name].title for name in columns}
    here = next(c["versions"]["keras"] for c in columns.values() if c["versions"])
    rows = [["", *titles.values()], ["---"] * (1 + len(columns))]
    rows.append(["version", *(c["versions"].get("peer", "?") for c in columns.values())])
    rows.append([f"runs on Keras {here}", *(cell(c["here"]) for c in columns.values())])
    rows.append(
        ["checked on Keras", *(c["versions"].get("keras", "?") for c in columns.values())]
    )
    for title in CHECKS:
        rows.append([title, *(cell(c.get(title)) for c in columns.values())])
    works = [", ".join(c.get("backends", ["tensorflow"])) for c in columns.values()]
    rows.append(["backends", *works])
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    notes = []
    for title in ["here", *CHECKS]:
        for name, column in columns.items():
            if column.get(title) and column[title][1]:
                row = f"runs on Keras {here}" if title == "here" else title
                notes.append(f"* {titles[name]}, {row}: {column[title][1]}")
    day = datetime.datetime.now(datetime.UTC).date()
    return f"Checked on {day}, on CPU.\n\n{table}\n\nIn detail:\n\n" + "\n".join(notes)


def write(text):
    page = PAGE.read_text()
    before, after = page.partition(MARKS[0])[0], page.partition(MARKS[1])[2]
    PAGE.write_text(f"{before}{MARKS[0]}\n\n{text}\n\n{MARKS[1]}{after}")


def main():
    parser = argparse.ArgumentParser(description=inspect.getdoc(sys.modules[__name__]))
    parser.add_argument("--peers", nargs="+", default=list(PEERS), choices=list(PEERS))
    parser.add_argument("--keras2", metavar="PYTHON")
    parser.add_argument("--path", nargs="+", default=[], metavar="NAME=FOLDER")
    parser.add_argument("--answers", metavar="FILE", type=Path)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--examine", choices=list(PEERS), help=argparse.SUPPRESS)
    parser.add_argument("--only-runs", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.examine:
        examine(options.examine, options.only_runs)
        return
    pairs = [pair.split("=", 1) for pair in options.path]
    options.paths = {name: [folder] for name, folder in pairs}
    kept = options.answers and options.answers.exists()
    columns = json.loads(options.answers.read_text()) if kept else {}
    for name in options.peers:
        if name not in columns:
            columns[name] = gather(name, options)
            if options.answers:
                options.answers.write_text(json.dumps(columns, indent=1))
    text = render({name: columns[name] for name in options.peers})
    print(text)
    if options.write:
        write(text)


if __name__ == "__main__":
    main()
