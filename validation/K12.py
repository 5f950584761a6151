"""Identification from noisy motion

System identification by the program's tasks, from noisy motion alone, beside the Cramer-Rao bound, which is taken here from differences of
simulations: length, damping and gravity of the pendulum of G1 over many seeds, and the mass of the chain of L3 from a ball that strikes it. The
tossed cube, with what is measured of a real one, is PDJ4."""
import json
import os

import numpy as np

from common import EXAMPLES, Bench, below, reported, row
import chain
import G1

import pullback as pb

SEEDS, LEVEL = 40, .002  # m of noise
LINKS, MASS, FRAMES, SUBSTEPS, PIXELS, THROWN, CHAINS = 10, 7., 90, 2, 1., 150., 20


# ---- the pendulum ---------------------------------------------------------------------------------------------------------------
def pendulum_task(bench, times, data):
    with open(os.path.join(EXAMPLES, "pendulum", "identify.json"), encoding="utf-8") as f:
        task = json.load(f)
    task["model"] = bench.path("pendulum.xml")
    task["loss"] = [{"name": "marker", "sensor": "marker", "at": times.tolist(), "target": data.tolist()}]
    return task


def pendulum():
    with Bench() as bench:
        with open(G1.PENDULUM, encoding="utf-8") as f:
            bench.write("pendulum.xml", f.read())
        times, clean = G1.record(bench, G1.TRUTH)
        ways = np.diag(1e-4 * np.abs(G1.TRUTH))
        J = np.stack([np.ravel(G1.record(bench, G1.TRUTH + d)[1] - G1.record(bench, G1.TRUTH - d)[1]) / (2 * d.sum()) for d in ways])
        least = LEVEL * np.sqrt(np.diag(np.linalg.inv(J @ J.T)))
        found = []
        for seed in range(SEEDS):
            noisy = clean + LEVEL * np.random.default_rng(seed).standard_normal(clean.shape)
            result = pb.optimize(pendulum_task(bench, times, noisy), allow_root=bench.folder)
            found.append([(v["value"][0], v["deviation"][0], *v["interval"][0]) for v in result["variables"]])
    return least, np.array(found)


# ---- the chain ------------------------------------------------------------------------------------------------------------------
CONTACT = {"method": "cones", "erp": .5, "cfm": 1e-12, "restitution": .5, "mixing": "mean"}
NOISE = [PIXELS, PIXELS, .02] * (LINKS + 1)  # of x, y and angle of each body: pixels, rad


class Struck:
    """The chain, and the ball that flies at it."""

    def __init__(self):
        self.text = chain.model([MASS / LINKS] * LINKS, h=chain.H / SUBSTEPS)
        self.model = pb.loads(self.text, contact=CONTACT)
        self.start = self.model.init()
        self.start.qvel[-3] = THROWN

    def seen(self, mass):
        """Places and angles at each frame."""
        params = {"geom_restitution:ball": 1.}
        for k in range(LINKS):
            params |= {f"body_mass:link{k}": mass / LINKS, f"body_inertia:link{k}": [chain.link_inertia(mass / LINKS)] * 3}
        return np.asarray(self.model.rollout(self.start, steps=FRAMES * SUBSTEPS, params=params).qpos)[SUBSTEPS::SUBSTEPS]

    def task(self, data, start):
        each = "z*c", ["z*c*d"] * 3
        sets = {f"{field}:link{k}": formula for k in range(LINKS) for field, formula in zip(("body_mass", "body_inertia"), each)}
        unknown = {"name": "mass", "start": start, "lower": .1, "upper": 100, "transform": "log", "sets": sets,
                   "constants": {"c": 1 / LINKS, "d": chain.link_inertia(1.)}}
        term = {"qpos": True, "at": [(k + 1) * chain.H for k in range(FRAMES)], "target": data.tolist(), "sigma": NOISE}
        return {"model": self.text, "contact": CONTACT, "parameters": {"geom_restitution:ball": 1}, "steps": FRAMES * SUBSTEPS,
                "init": {"qvel": self.start.qvel.tolist()}, "variables": [unknown], "loss": [term], "optimizer": {"method": "gauss-newton"}}


def chains():
    """(bound of the logarithm of the mass, [(start, found, deviation told)])."""
    struck = Struck()
    clean, step = struck.seen(MASS), 1e-4 * MASS
    column = (struck.seen(MASS + step) - struck.seen(MASS - step)) / (2e-4 * np.array(NOISE))
    found = []
    for seed in range(CHAINS):
        rng = np.random.default_rng(seed)
        start, data = float(rng.uniform(.5, 2)), clean + np.array(NOISE) * rng.standard_normal(clean.shape)
        result = pb.optimize(struck.task(data, start))
        mass = result["variables"][0]
        found.append((start, mass["value"][0], mass["deviation"][0], result["iterations"]))
    return 1 / np.linalg.norm(column), found


def rows():
    least, found = pendulum()
    out = []
    for k, (name, truth, bound) in enumerate(zip(("length", "damping", "gravity"), G1.TRUTH, least)):
        error, told = (found[:, k, 0] - truth) / bound, found[:, k, 1] / bound
        spread = float(np.sqrt((error**2).mean()))
        out += [below(f"pendulum, {name}: mean error over {SEEDS} seeds, in deviations of the Cramer-Rao bound", abs(float(error.mean())), .5),
                row(f"pendulum, {name}: root mean square of errors by the bound", spread, "0.7 to 1.3", .7 <= spread <= 1.3),
                below(f"pendulum, {name}: deviation told by the bound, mean over seeds, less one", abs(float(told.mean()) - 1), .02),
                reported(f"pendulum, {name}: of {SEEDS} truths in their intervals of 95 %", int(((found[:, k, 2] <= truth) & (truth <= found[:, k, 3])).sum()))]

    bound, masses = chains()
    off = np.array([(np.log(mass / MASS) / bound, deviation / mass / bound) for _, mass, deviation, _ in masses])
    spread = float(np.sqrt((off[:, 0]**2).mean()))
    out += [reported(f"chain: starts of the mass, {MASS:g} in truth", ", ".join(f"{m[0]:.2f}" for m in masses)),
            reported(f"chain: deviation of the logarithm of its mass by the Cramer-Rao bound, at a noise of {PIXELS:g} pixel", bound),
            below(f"chain: relative error of the mass, worst of {CHAINS} seeds", float(max(abs(m[1] / MASS - 1) for m in masses)), .01),
            row("chain: root mean square of errors by the bound", spread, "0.5 to 1.5", .5 <= spread <= 1.5),
            below("chain: deviation told by the bound, less one, worst of the seeds", float(np.abs(off[:, 1] - 1).max()), .02),
            reported("chain: iterations, most", max(m[3] for m in masses))]
    return out
