"""Swing-up learned by short horizons

A cart-pole learns to swing up and balance from gradients of half-second windows with a critic behind them (SHAC), from three seeds."""
import csv
import os
import resource
import shutil

import numpy as np

from common import EXAMPLES, Bench, below, reported, row

FOLDER = os.path.join(EXAMPLES, "cartpole")
SEEDS, STARTS, UPDATES = (0, 1, 2), 20, 500


def angles(bench, policy, rng):
    """Angle from upright over 6 s of one start that no training saw: hanging within 90 degrees, up to half a unit of speed."""
    start = {"qpos": [0, rng.uniform(-np.pi / 2, np.pi / 2)], "qvel": rng.uniform(-.5, .5, 2)}
    found = bench.simulate(os.path.join(FOLDER, "cartpole.xml"), "--policy", policy, "--steps", 1440, init=start)
    return np.abs(found["qpos"][:, 1] % (2 * np.pi) - np.pi), np.abs(found["qpos"][:, 0]).max()


def learn(bench, seed):
    """Processor time, updates, robot-steps, and how many of the starts end upright: over 6 s, and over 4 s, the length of episodes."""
    name = f"swing-{seed}.npz"
    spent = lambda: sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    begun = spent()
    bench.run("train", "swing-up.json", "--seed", seed, "--threads", 1, "-o", name, "-q", "--fresh")
    seconds = spent() - begun
    with open(bench.path(f"swing-{seed}.csv"), encoding="utf-8") as f:
        table = list(csv.DictReader(f))
    rng = np.random.default_rng(100 + seed)
    runs = [angles(bench, name, rng) for _ in range(STARTS)]
    late, early = (sum((a[end - 480:end + 1] < .2).all() for a, _ in runs) for end in (1440, 960))
    return seconds, int(table[-1]["update"]), float(table[-1]["robot_steps"]), late, early, max(x for _, x in runs)


def rows():
    with Bench() as bench:
        for name in ("cartpole.xml", "swing-up.json"):
            shutil.copy(os.path.join(FOLDER, name), bench.path(name))
        found = [learn(bench, seed) for seed in SEEDS]
    out = []
    for seed, (_, _, steps, late, early, far) in zip(SEEDS, found):
        out += [row(f"seed {seed}: starts within 0.2 rad of upright through the last 2 s of 6 s, of {STARTS}", late, f"{STARTS}", late == STARTS),
                reported(f"seed {seed}: within the last 2 s of the 4 s that episodes last in training", early),
                reported(f"seed {seed}: robot-steps, evaluations included", steps),
                below(f"seed {seed}: farthest place of the cart on its 8 m of rail [m]", far, 4.05)]
    return out + [below("updates", max(f[1] for f in found), UPDATES),
                  reported("processor time of a training on one core, the longest of the seeds (60 wanted) [s]", max(f[0] for f in found))]
