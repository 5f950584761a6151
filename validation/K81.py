"""Checkpointing

Checkpointing: the same bits for every memory, recomputation by the binomial optimum, memory as planned."""
import json
import math
import os

import numpy as np

from common import EXAMPLES, Bench, below, row

HOPPER = os.path.join(EXAMPLES, "hopper", "hopper.xml")


def least_forward(steps, slots):
    """Steps computed by the best schedule with so many records held at one time (Griewank & Walther 2000, theorem 1): the reverse
    sweep takes a step's record as it is, so a record is both what the theorem calls a snapshot and what it calls a tape."""
    r = 0
    while math.comb(slots + r, slots) < steps:
        r += 1
    return r * steps - math.comb(slots + r, slots + 1)


def rows():
    n, out = 10000, []
    with Bench() as bench:
        cotangent = {"qpos": np.ones(6), "qvel": np.ones(6)}
        bench.write("wobble.npy", 0.2 * np.sin(np.arange(n)[:, None] * [0.01, 0.013, 0.017]) + [-0.5, 1.0, -0.5])
        runs = {}
        for memory in ("1GiB", "200KiB", "40KiB", "9KiB"):
            g = bench.gradient(HOPPER, cotangent, "--control", "wobble.npy", "--memory", memory, init={"qpos": [0, -0.1, 0, -0.55, 1.1, -0.55]})
            runs[memory] = (g, json.loads(str(g["meta"]))["certificate"])
        full, certificate = runs["1GiB"]
        record = certificate["full_tape_bytes"] / n
        for memory, (g, c) in runs.items():
            if g is full:
                continue
            same = all(np.array_equal(g[k], full[k]) for k in full if k != "meta")
            out.append(row(f"{n} steps in {memory}: every bit of the gradient as with the full tape", "same" if same else "other", "same", same))
            slots = max(1, round(c["tape_bytes"] / record))
            factor, best = (n + c["recomputed"]) / n, least_forward(n, slots) / n
            out.append(row(f"{n} steps in {memory} ({slots} records): steps computed / steps", factor, f"<= 1.05 x {best:.4g} (binomial)", factor <= 1.05 * best))
            limit = float(memory[:-3]) * 1024
            out.append(row(f"{n} steps in {memory}: bytes held", c["tape_bytes"], f"<= {limit:.0f}", c["tape_bytes"] <= limit))
    return out
