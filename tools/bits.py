#!/usr/bin/env python3
"""Do two builds give the same bits? Hashes of what the program writes of many models with each contact method.   make bits

    tools/bits.py [--build NAME] PROGRAM...      stores the column NAME of bench/results/bits.csv
    tools/bits.py [--share N --seed S] PROGRAM...      compares with the first column: exit status 1 where a hash is another

PROGRAM may have words before it, behind -- (-- qemu-aarch64 -L ROOT build/arm/pullback). Models: those of tests/oracle/models, of a few other
folders and of Gymnasium's package. Of each: 60 steps, and a gradient over 30, by every contact method; hashed are the names,
shapes and bytes of all arrays but the text `meta`. The table has the hash of its first build; another build's column says
"same", or its own hash.
"""
import argparse
import concurrent.futures
import csv
import hashlib
import importlib.util
import io
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = ROOT / "bench" / "results" / "bits.csv"
METHODS = ("soft", "cones", "lcp", "sweeps")
OTHERS = ("conformance/hills.xml", "conformance/hulls.xml", "conformance/wraps.xml", "hostile/mesh.xml")
SIMULATED, PULLED = 60, 30  # steps


def models():
    """{name: path}; Gymnasium's lie in its package, and are not loaded."""
    package = pathlib.Path(importlib.util.find_spec("gymnasium").origin).parent / "envs" / "mujoco" / "assets"
    paths = [*sorted((ROOT / "tests" / "oracle" / "models").glob("*.xml")), *(ROOT / "tests" / name for name in OTHERS),
             ROOT / "examples" / "quadruped" / "quadruped.xml", *sorted(package.glob("*.xml"))]
    return {("gymnasium/" if package in p.parents else "") + p.stem: p for p in paths}


def arrays_of(path):
    with np.load(path) as file:
        return {k: file[k] for k in file.files if k != "meta"}


def digest(*sets):
    """Of names, shapes and bytes."""
    h = hashlib.sha256()
    for arrays in sets:
        for name, values in sorted(arrays.items()):
            h.update(f"{name} {values.dtype.str} {values.shape}\n".encode())
            h.update(np.ascontiguousarray(values).tobytes())
    return h.hexdigest()[:16]


def outcome(program, model, method):
    """The hash of what the program writes, or "exit N" where it refuses."""
    with tempfile.TemporaryDirectory() as folder:
        out, last = os.path.join(folder, "o.npz"), os.path.join(folder, "last.npz")
        sets = []
        info = json.loads(subprocess.run([*program, "info", model, "--json"], capture_output=True, text=True, check=True).stdout)
        nv = info["sizes"]["nv"]
        np.savez(last, qpos=np.linspace(1, 2, nv), qvel=np.linspace(-1, 1, nv))
        commands = [["simulate", "--steps", SIMULATED]]
        if nv:
            commands.append(["gradient", "--steps", PULLED, "--cotangent", last, "--spot-check", "none"])
        for command, *options in commands:
            words = [command, model, *options, "--contact", f"method={method}", "-o", out, "-q"]
            done = subprocess.run([*program, *map(str, words)], capture_output=True, text=True)
            if done.returncode not in (0, 1):
                return f"exit {done.returncode}"
            sets.append(arrays_of(out))
            os.remove(out)
        return digest(*sets)


def drawn(known, share, seed):
    """Rows (model, method) of the table: all, or a share."""
    rows = [(m, method) for m in known for method in METHODS]
    return random.Random(seed).sample(rows, share) if share else rows


def outcomes(program, chosen, known):
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip(chosen, pool.map(lambda row: outcome(program, known[row[0]], row[1]), chosen)))


def read():
    """Names of builds, and {(model, method): hashes}."""
    if not TABLE.exists():
        return [], {}
    with TABLE.open(newline="", encoding="utf-8") as f:
        head, *rows = csv.reader(f)
    return head[2:], {(r[0], r[1]): r[2:] for r in rows}


def write(builds, table):
    text = io.StringIO()
    out = csv.writer(text, lineterminator="\n")
    out.writerow(["model", "method", *builds])
    out.writerows([*key, *table[key]] for key in sorted(table))
    TABLE.write_text(text.getvalue(), encoding="utf-8")


def store(name, found):
    builds, table = read()
    column = builds.index(name) if name in builds else len(builds)
    first = {key: hashes[0] for key, hashes in table.items()} if column else {}
    for key, value in found.items():
        hashes = table.setdefault(key, [""] * len(builds))
        hashes[column:column + 1] = ["same" if value == first.get(key) else value]
    builds[column:column + 1] = [name]
    write(builds, table)
    differ = [key for key in found if column and table[key][column] != "same"]
    print(f"{name}: {len(found)} hashes, {len(differ)} are not those of {builds[0]}")
    for model, method in differ:
        print(f"  {model} {method}")


def compare(found):
    builds, table = read()
    wrong = [key for key in found if found[key] != table.get(key, [""])[0]]
    for key in wrong:
        print(f"  {' '.join(key)}: {found[key]}, expected {table.get(key, ['nothing'])[0]}")
    print(f"{len(found)} hashes, {len(wrong)} are not those of {builds[0]}")
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description="Hashes of what the program writes of many models.")
    parser.add_argument("program", nargs="+")
    parser.add_argument("--build", help="the column to store")
    parser.add_argument("--share", type=int, default=0, help="so many rows, drawn; 0: all")
    parser.add_argument("--seed", default="0")
    asked = parser.parse_args()
    known = models()
    found = outcomes(asked.program, drawn(known, asked.share, asked.seed), known)
    if asked.build:
        return store(asked.build, found)
    return compare(found)


if __name__ == "__main__":
    sys.exit(main())
