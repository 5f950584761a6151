"""Size of a tape

The size of a tape is known before a run; the process then takes that much."""
import json
import os
import subprocess
import sys

import numpy as np

from common import EXAMPLES, PROGRAM, Bench, row

HOPPER = os.path.join(EXAMPLES, "hopper", "hopper.xml")


# A small process starts the program: what its parent holds would count as the child's largest size otherwise.
MEASURE = """import os, sys
child = os.spawnv(os.P_NOWAIT, sys.argv[1], sys.argv[1:])
_, status, usage = os.wait4(child, 0)
print(status, usage.ru_maxrss * 1024)"""


def peak(words, folder):
    """Largest resident size of one run in bytes."""
    done = subprocess.run([sys.executable, "-I", "-S", "-c", MEASURE, PROGRAM, *words], cwd=folder, capture_output=True, text=True, check=True)
    status, size = map(int, done.stdout.split())
    if status:
        raise RuntimeError(done.stderr)
    return size


def rows():
    n = 200000
    with Bench() as bench:
        bench.write("cot.npz", {"qpos": np.ones(6)})
        bench.write("init.npz", {"qpos": [0, -0.1, 0, -0.55, 1.1, -0.55]})
        words = ["gradient", HOPPER, "--steps", str(n), "--cotangent", "cot.npz", "--init", "init.npz", "--wrt", "qpos", "-o", "g.npz", "-q"]
        sizes = {}
        for memory in ("1GiB", "4MiB"):
            resident = peak([*words, "--memory", memory], bench.folder)
            with np.load(bench.path("g.npz")) as g:
                sizes[memory] = resident, json.loads(str(g["meta"]))["certificate"]["tape_bytes"]
    planned = sizes["1GiB"][1] - sizes["4MiB"][1]
    taken = sizes["1GiB"][0] - sizes["4MiB"][0]
    return [row(f"{n} steps: memory taken / predicted (full tape of {sizes['1GiB'][1] / 1e6:.0f} MB against one of {sizes['4MiB'][1] / 1e6:.1f} MB)",
                taken / planned, "1 +- 0.05", abs(taken / planned - 1) <= 0.05)]
