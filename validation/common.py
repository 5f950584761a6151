"""What the cases share: the program, the library, differences, times, and the row they return."""
import json
import os
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(ROOT, "tests", "oracle"), os.path.join(ROOT, "tools")]
import inside  # noqa: E402  (PULLBACK_BUILD chooses the build)
import plot  # noqa: E402

sys.path.insert(0, os.path.join(inside.build_dir(), "python"))  # the package pullback
PROGRAM = os.path.join(inside.build_dir(), "pullback")
EXAMPLES = os.path.join(ROOT, "examples")


class Row(NamedTuple):
    quantity: str
    measured: object
    required: str
    holds: bool
    time: bool = False  # a requirement on time, which depends on the machine


def row(quantity, measured, required, holds):
    return Row(quantity, measured, required, bool(holds))


def timing(quantity, measured, required, holds):
    """A requirement on time: a ratio of medians of interleaved pairs, with room for a machine that is at work."""
    return Row(quantity, measured, required, bool(holds), True)


def reported(quantity, measured):
    return Row(quantity, measured, "reported", True)


def figure(name, title, xlabel, ylabel, curves):
    """validation/img/NAME.svg of curves by name, one value for each 0, 1, ...; NAME begins with the case's, so that the report shows it."""
    lines = [(words, range(len(y)), y, "line") for words, y in curves.items()]
    with open(os.path.join(ROOT, "validation", "img", name + ".svg"), "w", encoding="utf-8") as f:
        f.write(plot.svg(title, xlabel, ylabel, lines) + "\n")


def spent(f):
    """Processor time of a call."""
    begin = time.process_time()
    f()
    return time.process_time() - begin


def ratio(first, second, count):
    """Processor time of `second` by that of `first`: median of pairs run side by side, each the first in half of them."""
    found = []
    for k in range(count):
        if k % 2:
            after, before = spent(second), spent(first)
        else:
            before, after = spent(first), spent(second)
        found.append(after / before)
    return float(np.median(found))


def below(quantity, measured, limit):
    return row(quantity, measured, f"<= {limit:g}", measured <= limit)


def near(quantity, measured, value, tolerance):
    return row(quantity, measured, f"{value:.10g} +- {tolerance:g}", abs(measured - value) <= tolerance)


class Bench:
    """A folder of its own, gone at the end, and the program run in it."""

    def __enter__(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = self.temporary.name
        return self

    def __exit__(self, *_):
        self.temporary.cleanup()

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, content):
        """Text, or a dictionary of arrays for an NPZ, or an array for an NPY."""
        if isinstance(content, str):
            with open(self.path(name), "w", encoding="utf-8") as f:
                f.write(content)
        elif name.endswith(".json"):
            self.write(name, json.dumps(content))
        elif isinstance(content, dict):
            np.savez(self.path(name), **content)
        else:
            np.save(self.path(name), content)
        return self.path(name)

    def run(self, *words, measure=None, codes=(0,)):
        done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, cwd=self.folder)
        if done.returncode not in codes:
            raise RuntimeError(f"pullback {' '.join(map(str, words))}: {done.stderr}")

    def simulate(self, model, *words, init=None, params=None, options=None):
        return self._arrays("simulate", model, words, init, params, options)

    def gradient(self, model, cotangent, *words, init=None, params=None, options=None):
        self.write("cotangent.npz", cotangent)
        return self._arrays("gradient", model, (*words, "--cotangent", "cotangent.npz"), init, params, options)

    def _arrays(self, command, model, words, init, params, options):
        words = [*words]
        if init is not None:
            words += ["--init", init if isinstance(init, str) else self.write("init.npz", init)]
        for k, v in (params or {}).items():
            words += ["--param", f"{k}={','.join(repr(float(x)) for x in np.ravel(v))}"]
        for k, v in (options or {}).items():
            words += ["--option", f"{k}={v}"]
        self.run(command, model, "-q", "-o", "out.npz", *words)
        with np.load(self.path("out.npz")) as f:
            return {k: f[k] for k in f.files}

    def optimize(self, task):
        self.run("optimize", task, "--fresh", "-q", "-o", "result.json", codes=(0, 1))  # 1: its stop criteria were not met
        with open(self.path("result.json"), encoding="utf-8") as f:
            return json.load(f)


def contact(m, **settings):
    """A loaded model with settings of contacts (before anything is computed with it)."""
    for name, value in settings.items():
        inside.native.pbModel_SetContact(m.ptr, name.encode(), str(value).encode())
    return m


def slope(f, size):
    """Derivative of t -> f(t) at 0: central differences, Richardson's extrapolation to fourth order."""
    once = lambda s: (np.asarray(f(s)) - np.asarray(f(-s))) / (2 * s)
    return (4 * once(size / 2) - once(size)) / 3


def values(result):
    return {v["name"]: v["value"] for v in result["variables"]}


def deviation(terms, name):
    return next(t["deviation"] for t in terms if t["name"] == name)


def apart(a, b):
    """Relative distance of two arrays."""
    return float(np.linalg.norm(np.subtract(a, b)) / max(np.linalg.norm(b), 1e-300))
