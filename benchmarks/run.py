"""Time and memory of attention, beside the layers that others offer.

    python benchmarks/run.py [--quick] [--json] [--cases NAME ...] [--repeats N]
                             [--torch-python PATH] [--plot FILE] [--rows FILE] [--readme]

Every contestant runs in a process of its own, in turns with the others; times are medians.
`time_ratio`, `cpu_ratio` and the memory ratios are ours over theirs; of processor time:
where others use the machine, it says more. `memory_ratio` is of what a call takes at its
peak beyond what the process held before, when earlier calls have made what they keep;
`memory_ratio_first` is the same for the very first call, in which graphs are made and XLA
compiles. The floor is the operations and bytes of a case over rates that this run measured.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path

import contestants
import decoder_contestants
import numpy as np

ROOT = Path(__file__).parent.parent
SMALL = "b32-t64-d64"
QUICK = [
    "additive-b4-t512-d128",
    "dot-b4-t2048-d128",
]
CASES = [
    *QUICK,
    f"pooling-{SMALL}",
    "additive-b4-t512-d128-forward",
    "heads-b4-t2048-h8x16",
    f"additive-{SMALL}",
    f"dot-{SMALL}",
    "mha-b4-t512-h8x16",
    "additive-b1-t4096-d128",
    "additive-b1-t16384-d128-forward",
    "decoder-b64-t32-d256",
    "greedy-b64-t32-d256-forward",
    "beam-b64-t32-d256-forward",
]
# Contestants that would need more than this are not asked.
MOST_BYTES = 6e9
LENGTHS = [128, 512, 2048, 8192]
MARKS = "<!-- made by benchmarks/run.py -->", "<!-- end -->"


class Process:
    """One contestant at one case, started."""

    def __init__(self, contestant, case, torch_python):
        self.name = contestant
        python = torch_python if contestant in contestants.TORCH else sys.executable
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        settings = {"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3"}
        script = Path(__file__).with_name("contestants.py")
        self.process = subprocess.Popen(
            [python, str(script), contestant, case],
            env={**os.environ, **settings, "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def answer(self):
        line = self.process.stdout.readline()  # type: ignore[union-attr]  # a pipe
        return json.loads(line) if line else {"skip": "its process ended"}

    def run(self):
        print("run", file=self.process.stdin, flush=True)
        return self.answer()

    def stop(self):
        self.process.stdin.close()  # type: ignore[union-attr]
        self.process.wait()
        self.process.stdout.close()  # type: ignore[union-attr]


def measure(name, wanted, options):
    """By contestant: median wall and processor seconds, bytes of a call, of the first."""
    found: dict[str, dict] = {}
    processes = [Process(one, name, options.torch_python) for one in wanted]
    try:
        for p in processes:
            answer = p.answer()
            if "skip" in answer:
                print(f"{name}: left out {p.name}, {answer['skip']}", file=sys.stderr)
            else:
                taken = {figure: max(answer[figure], 1) for figure in ("first", "bytes")}
                found[p.name] = {**taken, "runs": []}
        running = [p for p in processes if p.name in found]
        # In another order each time: threads that wait busily take time from the next.
        order = random.Random(0)
        for _ in range(options.repeats):
            for p in order.sample(running, len(running)):
                found[p.name]["runs"].append(p.run())
    finally:
        for p in processes:
            p.stop()
    for figures in found.values():
        runs = figures.pop("runs")
        for clock in ("wall", "cpu"):
            figures[clock] = statistics.median(run[clock] for run in runs)
    return found


def bytes_of_plain_formula(case):
    """A rough figure of what the formula takes as it stands: what not to ask for."""
    pairs = 4 * case.batch * case.heads * case.length**2
    if case.kind == "pooling":
        return 0
    hidden = case.depth if case.kind == "additive" else 1
    return pairs * (hidden * (1 if case.forward else 5) + 3)


def rates():
    """Operations a second of a matrix product, bytes a second of a copy.

    The best of many short tries: others that use the machine leave some alone.
    """
    size = 768
    a = np.ones((size, size), "float32")
    big = np.ones(2**24, "float32")
    into = np.empty_like(big)
    products, copies = [], []
    for _ in range(40):
        start = time.perf_counter()
        a @ a
        products.append(time.perf_counter() - start)
        start = time.perf_counter()
        np.copyto(into, big)
        copies.append(time.perf_counter() - start)
    return 2 * size**3 / min(products), 2 * big.nbytes / min(copies)


def floor(case, operations_rate, bytes_rate):
    """Seconds below which no way of computing a case as we do can come.

    Per pair of steps and number of depth, additive: product, sum, weighted fraction, 4
    operations forward and 12 for three sums backward. Inner products: 2 of 2 operations
    forward, 5 backward. Bytes: inputs, output and their gradients, once.
    """
    pairs = case.batch * case.heads * case.length**2 * case.depth
    steps = case.batch * case.heads * case.length * case.depth
    if case.kind == "additive":
        operations = pairs * (4 if case.forward else 16)
    elif case.kind == "pooling":
        operations = steps * case.depth * (2 if case.forward else 6)
    elif case.kind in ("decoder", *decoder_contestants.SEARCHES):
        operations = decoder_contestants.operations(case)
    else:
        operations = 2 * pairs * (2 if case.forward else 7)
    return operations / operations_rate + 4 * steps * 8 / bytes_rate


def run_case(name, options, speeds):
    """Yields one row for each peer."""
    case = contestants.parse(name)
    able = bytes_of_plain_formula(case) < MOST_BYTES
    names = contestants.KERAS | contestants.TORCH
    taking = [one for one in names if contestants.takes_part(one, case)]
    taking = [one for one in taking if able or one in ("ours", "torch.sdpa")]
    if options.quick:  # starting a contestant takes longer than measuring it
        taking = [one for one in taking if one in contestants.KERAS]
    found = measure(name, taking, options)
    if "ours" not in found:
        print(f"{name}: ours did not run", file=sys.stderr)
        return
    for peer, theirs in found.items():
        if not peer.startswith("ours"):
            yield {"case": name, "peer": peer, **compared(found, peer, theirs)}
    least = floor(case, *speeds)
    theirs = {"wall": least, "cpu": least, "bytes": None, "first": None}
    yield {"case": name, "peer": "floor", **compared(found, "floor", theirs)}


def compared(found, peer, theirs):
    """Ratios of ours to a peer's, and both in milliseconds and megabytes."""
    mine = found[contestants.OPPONENTS.get(peer, "ours")]
    names = {
        "time_ratio": "wall",
        "cpu_ratio": "cpu",
        "memory_ratio": "bytes",
        "memory_ratio_first": "first",
    }
    row = {}
    for name, figure in names.items():
        row[name] = None if theirs[figure] is None else mine[figure] / theirs[figure]
    for whose, figures in (("ours", mine), ("peer", theirs)):
        row[f"{whose}_ms"] = 1e3 * figures["wall"]
        for figure, unit in (("bytes", "mb"), ("first", "mb_first")):
            taken = figures[figure]
            row[f"{whose}_{unit}"] = None if taken is None else taken / 1e6
    return row


def table(rows):
    """Lines of Markdown."""
    lines = [
        "| case | beside | time | memory | memory of the first call | ms | extra MB |",
        "|---|---|---|---|---|---|---|",
    ]
    last = None
    for row in rows:
        case = "" if row["case"] == last else f"`{row['case']}`"
        last = row["case"]
        ratios = [row[n] for n in ("time_ratio", "memory_ratio", "memory_ratio_first")]
        cells = ["" if ratio is None else f"{ratio:.2f}" for ratio in ratios]
        for unit in ("ms", "mb"):
            both = (row[f"ours_{unit}"], row[f"peer_{unit}"])
            cells.append(" / ".join(shortened(x) for x in both if x is not None))
        lines.append(" | ".join([f"| {case} | {row['peer']}", *cells]) + " |")
    return lines


def shortened(number):
    """Three digits that say something.

    >>> shortened(0.1234), shortened(12.34), shortened(1234.5)
    ('0.123', '12.3', '1234')
    """
    return f"{number:.3g}" if number < 1000 else f"{number:.0f}"


def write_readme(lines):
    """Puts the table where README keeps it."""
    path = ROOT / "README.md"
    before, rest = path.read_text().split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    path.write_text("\n".join([before + MARKS[0], *lines, MARKS[1] + after]))


def costs(options):
    """`{score: {contestant: {length: (milliseconds, megabytes)}}}`."""
    found: dict[str, dict] = {}
    for kind in ("additive", "dot"):
        of_kind = found.setdefault(kind, {})
        for length in LENGTHS:
            for row in run_case(f"{kind}-b1-t{length}-d64", options, (1.0, 1.0)):
                mine = row["ours_ms"], row["ours_mb"]
                of_kind.setdefault("keras_attention", {})[length] = mine
                if row["peer"] != "floor":
                    theirs = row["peer_ms"], row["peer_mb"]
                    of_kind.setdefault(row["peer"], {})[length] = theirs
    return found


def plot(path, options):
    """Time and memory against length, a row for each score."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, rows = plt.subplots(
        2, 2, figsize=(9, 6.4), sharex=True, sharey="col", layout="constrained"
    )
    for axes, (kind, lines) in zip(rows, costs(options).items(), strict=True):
        for j, name in enumerate(("milliseconds", "extra megabytes")):
            axis = axes[j]
            for label, points in lines.items():
                ours_ = label == "keras_attention"
                heights = [max(point[j], 0.1) for point in points.values()]
                style = {"linewidth": 2.6, "zorder": 3} if ours_ else {"linestyle": "--"}
                axis.loglog(list(points), heights, marker="o", label=label, **style)
            axis.set_title(f"{kind} score, forward and backward: {name}", fontsize=10)
            axis.set_xticks(LENGTHS, [str(n) for n in LENGTHS])
            axis.minorticks_off()
            axis.grid(alpha=0.3)
        axes[0].legend(fontsize=9)
    for axis in rows[-1]:
        axis.set_xlabel("queries and keys (1 sequence, depth 64)")
    figure.savefig(path, dpi=110)


def read_options(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument(
        "--quick", action="store_true", help="few cases and repeats, no PyTorch"
    )
    parser.add_argument("--json", action="store_true", help="one object a line")
    parser.add_argument("--cases", nargs="+", metavar="NAME")
    parser.add_argument("--repeats", type=int, help="how often each runs")
    parser.add_argument("--torch-python", default=sys.executable, metavar="PATH")
    parser.add_argument("--plot", metavar="FILE", help="cost against length, as a picture")
    parser.add_argument("--rows", metavar="FILE", help="what --json printed, not measured")
    parser.add_argument("--readme", action="store_true", help="put the table into README")
    options = parser.parse_args(arguments)
    options.repeats = options.repeats or (3 if options.quick else 7)
    options.cases = options.cases or (QUICK if options.quick else CASES)
    return options


def measured(options):
    """Yields the rows of all cases."""
    speeds = rates()
    for name in options.cases:
        for row in run_case(name, options, speeds):
            yield {**row, "load": os.getloadavg()[0]}


def main(arguments=None):
    options = read_options(arguments)
    if options.plot:
        plot(options.plot, options)
        return
    rows = []
    found = measured(options)
    if options.rows:
        found = map(json.loads, Path(options.rows).read_text().splitlines())
    for row in found:
        rows.append(row)
        if options.json:
            print(json.dumps(row), flush=True)
    if not options.json:
        print("\n".join(table(rows)))
    if options.readme:
        write_readme(table(rows))


if __name__ == "__main__":
    main()
