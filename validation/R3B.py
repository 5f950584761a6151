"""Arm reaches a point, without gradients

What a search without gradients (sep-CMA) makes of case R3: the same network, arm and objective, its values alone, 60 000 of them. An
interrupted run goes on where it was."""
import os

import numpy as np

from common import ROOT, below, reported
import inside
from R3 import TORQUES, Reach, Search, learn

LONG = "ten minutes"
GOES_ON = True  # state in build/
EVALUATIONS = 60_000


def without_gradients(torque, evaluations=EVALUATIONS, each=1000):
    """Least distance in the last second after each thousand evaluations; goes on from what an earlier run left."""
    path, reach = os.path.join(ROOT, "build", f"R3.{torque}.npz"), Reach(torque, 0)
    search, found, done = Search(reach, inside.native.pb_methodSepCma, sigma=.05), np.zeros(0), 0
    if os.path.exists(path):
        with np.load(path) as kept:
            search.restore(kept["state"])
            found, done = kept["found"], int(kept["done"])
    while len(found) < evaluations // each:
        some = each * (len(found) + 1)
        while done < some:
            before = len(reach.found)
            search.iterate()
            done += len(reach.found) - before
        found = np.append(found, min([*reach.found, *found[-1:]]))
        reach.found.clear()
        np.savez(path + ".part.npz", state=search.state(), found=found, done=done)
        os.replace(path + ".part.npz", path)
    return found, done


def rows():
    found, _ = without_gradients(TORQUES[0])
    reach, _ = learn(TORQUES[0], 0)
    out = [reported(f"sep-CMA: distance in the last second after {k} thousand evaluations, m", found[k - 1]) for k in (1, 2, 5, 10, 30, 60)]
    reached = np.flatnonzero(found <= .01)
    return [*out, reported("sep-CMA: thousands of evaluations to 1 cm", reached[0] + 1 if len(reached) else f"not in {EVALUATIONS // 1000}"),
            below("by gradients: evaluations to what sep-CMA has found in all", next(k + 1 for k, d in enumerate(reach.found) if d <= found[-1]), 150)]
