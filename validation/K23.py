"""Cost of gradients

What gradients cost: nothing if none is computed, a stated factor if one is."""
import os
import time

import numpy as np

from common import Bench, EXAMPLES, reported, spent, timing
import inside

HOPPER = os.path.join(EXAMPLES, "hopper", "hopper.xml")


def rows():
    m = inside.Model(HOPPER)
    l, x = inside.native, m.init()
    x[m.slots["qpos"]] = [0, -0.1, 0, -0.55, 1.1, -0.55]
    for _ in range(60):
        x, _ = m.step(x, [-0.5, 1.0, -0.5])
    u, y = np.array([-0.5, 1.0, -0.5]), x.copy()
    inputs = m._input(u, None, None)

    def steps(n=200):
        """One step, the same each time."""
        for _ in range(n):
            y[:] = x
            l.pbStep_Forward(m.ptr, m.theta, y, inputs, m._scratch(), None)

    ratios = []  # of neighbors in time: the machine's clock changes more than what is looked for
    _, _, record = m.step_recorded(x, u)
    for _ in range(200):
        before = spent(steps)
        m.vjp(record, np.ones(m.nt), ctrl=u)
        ratios.append(spent(steps) / before)
    ratio = float(np.median(ratios))
    with Bench() as bench:
        n, best = 20000, {}
        bench.write("u.npy", u)
        bench.write("cotangent.npz", {"qpos": np.ones(6)})
        bench.write("init.npz", {"qpos": x[m.slots["qpos"]], "qvel": x[m.slots["qvel"]]})
        common = [HOPPER, "--control", "u.npy", "--init", "init.npz", "-q", "-o", "o.npz"]
        jobs = {"simulate": ["simulate", *common], "gradient": ["gradient", *common, "--cotangent", "cotangent.npz", "--memory", "1GiB"]}
        for name, words in jobs.items():
            for count in (n // 10, n):
                times = []
                for _ in range(4):
                    begin = time.perf_counter()
                    bench.run(*words, "--steps", count)
                    times.append(time.perf_counter() - begin)
                best[name, count] = min(times)
    each = {name: (best[name, n] - best[name, n // 10]) / (n - n // 10) for name in jobs}
    return [
        timing("a step where no gradient is taken, after one was / before any, median of 200 pairs", ratio, "1 +- 0.05", abs(ratio - 1) <= 0.05),
        reported("rollout with the gradient by everything / rollout alone, hopper in contact", each["gradient"] / each["simulate"]),
        reported("the same, microseconds a step", f"{1e6 * each['gradient']:.3g} / {1e6 * each['simulate']:.3g}"),
    ]
