"""Friction coefficient of a sliding block

Friction from sliding: how far a block slides, by the coefficient, and the coefficient from watching the slide of L9."""
import numpy as np

from common import Bench, below, near, row, slope, values
from L9 import G as GRAVITY, H, box

V, MU, G = 5.0, 0.5, 9.81
BLOCK = """<mujoco><option timestep="{h!r}" gravity="0 0 -9.81" cone="elliptic"/><worldbody><geom type="plane" size="0 0 1" friction="0 0 0"/><body
pos="0 0 .0999999"><freejoint/><geom name="block" type="box" size=".1 .1 .1" mass="1" friction="{mu!r} 0 0"/></body></worldbody></mujoco>"""
# The ramp has no friction of its own: that of the box is the pair's.
SLIDE = """<mujoco><option timestep="{h!r}" gravity="0 {g} 0" cone="elliptic"/><worldbody><geom type="box" size="450 5 20" pos="500 400 0"
euler="0 0 5.625" friction="0 0 0" condim="3"/>{box}</worldbody></mujoco>"""
HARD = ("--contact", "method=cones")


def stop(bench, h, mu=MU, gradient=True, v=V):
    """Distance until the block rests, and its derivative by the coefficient."""
    model, start, steps = bench.write("block.xml", BLOCK.format(h=h, mu=mu)), {"qvel": [v, 0, 0, 0, 0, 0]}, round(1.2 * V / (MU * G) / h)
    run = bench.simulate(model, "--steps", steps, *HARD, init=start)
    rest = float(np.abs(run["qvel"][-1]).max())
    g = bench.gradient(model, {"qpos": np.eye(6)[0]}, "--steps", steps, "--wrt", "geom_friction", *HARD, init=start)["param/geom_friction"][1, 0] if gradient else None
    return float(run["qpos"][-1, 0]), g, rest


def rows():
    exact = V * V / (2 * MU * G)
    with Bench() as bench:
        d, g, rest = stop(bench, 1e-3)
        errors = {}
        for h in (8e-3, 4e-3, 2e-3, 1e-3):  # where in a step it comes to rest matters: the worst of eight
            speeds = V + MU * G * h * np.arange(8) / 8
            errors[h] = max(abs(stop(bench, h, v=v)[1] / (-v * v / (2 * MU * G) / MU) - 1) for v in speeds)
        by = float(slope(lambda t: stop(bench, 1e-3, MU + t, False)[0], 1e-6))
        order = np.polyfit(np.log(list(errors)), np.log(list(errors.values())), 1)[0]
        path = bench.write("slide.xml", SLIDE.format(h=H, g=GRAVITY, box=box("box", (100.0, 300.0), (60, 60))))
        seen = bench.simulate(path, "--steps", 120, *HARD, params={"geom_friction:box": [0.05, 0, 0]})
        bench.write("seen.npz", {"time": seen["time"], "qpos": seen["qpos"]})
        task = {"model": "slide.xml", "steps": 120, "contact": {"method": "cones"}, "parameters": {"geom_friction:box": [0.02, 0, 0]},
                "variables": [{"name": "mu", "parameter": "geom_friction:box", "components": [0], "start": 0.02, "lower": 0.001, "upper": 0.09}],
                "loss": [{"name": "place", "qpos": True, "target": {"file": "seen.npz", "array": "qpos", "time": "time"}}],
                "optimizer": {"method": "gauss-newton", "iterations": 60, "restarts": 4}, "stop": {"loss": 1e-12}}
        result = bench.optimize(bench.write("task.json", task))
        mu = values(result)["mu"][0]
    return [
        below("rest at the end [m/s]", rest, 1e-6),
        near("stopping distance at v = 5 m/s, mu = .5, h = 1e-3 [m]", d, exact, 5e-3),
        row("d(distance)/d(mu) over -d/mu", g / (-exact / MU), "1 within 1e-3", abs(g / (-exact / MU) - 1) <= 1e-3),
        below("... worst of eight speeds 5 .. 5.005 m/s", errors[1e-3], 1e-3),
        row("... order of its error in the step", float(order), "1 +- 0.1", abs(order - 1) <= 0.1),
        below("... against differences, relative", abs(g / by - 1), 1e-6),
        row("coefficient from watching a box fall on a ramp and slide, from .02, truth .05", mu, "0.05 within 1 %", abs(mu / 0.05 - 1) <= 0.01),
        row("... simulations", result["simulations"], "reported", True),
    ]
