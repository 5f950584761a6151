"""Energy of a pendulum over a million steps

Energy of an undamped pendulum over a million steps, by integrator."""
import os

import numpy as np

from common import EXAMPLES, Bench, row

PENDULUM = os.path.join(EXAMPLES, "pendulum", "pendulum.xml")


def ledger(bench, integrator, chunks=10, steps=100000):
    """Energy (from the lowest point) at the ends of chunks and its span, relative to the start."""
    init, ends, low, high = {"qpos": [0.5]}, [], np.inf, -np.inf
    for _ in range(chunks):
        run = bench.simulate(PENDULUM, "--steps", steps, init=init, params={"dof_damping:hinge": 0}, options={"integrator": integrator})
        q, v = run["qpos"][:, 0], run["qvel"][:, 0]
        energy = (1.7**2 + 1e-6) * v * v / 2 + 9.81 * 1.7 * (1 - np.cos(q))
        first = energy[0] if not ends else first
        ends.append(np.average(energy, weights=np.hanning(len(energy))) / first - 1)
        low, high = min(low, energy.min() / first - 1), max(high, energy.max() / first - 1)
        init = {"qpos": q[-1:], "qvel": v[-1:]}
    return ends, low, high


def rows():
    out = []
    with Bench() as bench:
        for integrator in ("Euler", "implicitfast", "RK4"):
            ends, low, high = ledger(bench, integrator)
            trend = abs(ends[-1] - ends[0])
            limit = 1e-6
            out.append(row(f"{integrator}: drift of the mean energy (Hann window) from the first to the last of 10 x 100000 steps, relative", trend, f"<= {limit:g}", trend <= limit))
            out.append(row(f"{integrator}: span of the energy, relative", f"{low:.3g} .. {high:.3g}", "within 0.01 (bounded)", max(-low, high) <= 0.01))
    return out
