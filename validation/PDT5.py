"""Bounce on the floor at any time step

A bounce on the floor without gravity: the height at the end by the height at the start, at any time step."""
import numpy as np

from common import Bench, below, near

BALL = """<mujoco><option timestep="{h:.17g}" gravity="0 0 0"/><worldbody><geom type="plane" size="5 5 .1" pos="0 0 .1" condim="1"/>
<body><joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 0 1"/><geom size="{r}" mass="1" condim="1"/></body></worldbody></mujoco>"""
RADIUS = 0.01
IMPACT = ("--contact", "method=impact", "--contact", "restitution=1")


def bounce(bench, h, steps, height, *words):
    """(height at the end, its derivative by the height at the start)"""
    model = bench.write("ball.xml", BALL.format(h=h, r=RADIUS))
    start = {"qpos": [0, height + RADIUS], "qvel": [-1, -2]}
    end = bench.simulate(model, "--steps", steps, *words, init=start)["qpos"][-1, 1] - RADIUS
    g = bench.gradient(model, {"qpos": np.array([0.0, 1.0])}, "--steps", steps, "--wrt", "qpos", *words, init=start)
    return end, g["qpos"][1]


def rows():
    out = []
    with Bench() as bench:
        end, slope = bounce(bench, 0.002, 203, 0.5137, *IMPACT)
        out.append(near("h = 0.002, 203 steps, y0 = 0.5137: height at the end", end, 0.4983, 1e-9))
        out.append(near("h = 0.002: d(height at the end)/d(height at the start)", slope, -1, 1e-9))
        for h, steps in ((0.01, 40), (0.0137, 30), (0.1, 4), (0.4, 1)):
            out.append(near(f"h = {h:g}: the same", bounce(bench, h, steps, 0.5137, *IMPACT)[1], -1, 1e-9))
        heights = np.linspace(0.45, 0.55, 11)
        worst = max(abs(bounce(bench, 0.002, 203, y, *IMPACT)[1] + 1) for y in heights)
        out.append(below("h = 0.002, eleven heights: largest error", worst, 1e-9))
    return out
