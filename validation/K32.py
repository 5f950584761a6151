"""Bouncing ball: derivatives through impacts

A ball bouncing five times under gravity: derivatives through the impacts against products of saltation matrices. Two elastic balls."""
import numpy as np

from common import Bench, below, row

BALL = """<mujoco><option timestep="{h:.17g}" integrator="{integrator}" gravity="0 0 -9.81"/><worldbody><geom type="plane" size="5 5 .1"/>
<body pos="0 0 {r}"><joint type="slide" axis="0 0 1"/><geom size="{r}" mass="1"/></body></worldbody></mujoco>"""
# restitution: time, d(height, speed at the end)/d(height, speed at the start), from a drop of 1 m
EXACT = {0.8: (2.75, np.array([[0.34704658846584, 0.01788463123226], [13.4010258838058, 1]])),
         1.0: (4.2, np.array([[-5.98161472052958, -0.31523640985731], [22.1472345903501, 1]]))}


def derivative(bench, e, h, integrator):
    model = bench.write("ball.xml", BALL.format(h=h, integrator=integrator, r=0.1))
    words = ("--steps", round(EXACT[e][0] / h), "--wrt", "qpos,qvel", "--contact", "method=impact", "--contact", f"restitution={e}")
    g = [bench.gradient(model, {k: np.ones(1)}, *words, init={"qpos": [1.0]}) for k in ("qpos", "qvel")]
    return np.array([[r["qpos"][0], r["qvel"][0]] for r in g])

RAIL = '<mujoco><option timestep="{:.17g}" gravity="0 0 0"/><worldbody>' + "".join(
    f'<body pos="{x} 0 0"><joint type="slide" axis="1 0 0"/><geom size="0.1" mass="1" condim="1"/></body>' for x in (0, 1)) + "</worldbody></mujoco>"


def two_balls(bench, h):
    """d(places after 1 s)/d(x1, x2, v1, v2), the first ball running into the second at 2 m/s."""
    words = ("--steps", round(1 / h), "--wrt", "qpos,qvel", "--contact", "method=impact", "--contact", "restitution=1")
    model = bench.write("rail.xml", RAIL.format(h))
    g = [bench.gradient(model, {"qpos": e}, *words, init={"qvel": [2, 0]}) for e in np.eye(2)]
    return np.array([[*r["qpos"], *r["qvel"]] for r in g])


def rows():
    out = []
    with Bench() as bench:
        for e, (_, exact) in EXACT.items():
            for h in (0.01, 0.05):
                gap = np.abs(derivative(bench, e, h, "RK4") - exact).max()
                out.append(below(f"e = {e:g}, RK4, h = {h:g}: largest error of the four derivatives", gap, 1e-10))
            steps = (2.5e-4, 1.25e-4, 6.25e-5)
            gaps = [np.abs(derivative(bench, e, h, "Euler") - exact).max() for h in steps]
            order = np.log2(gaps[0] / gaps[-1]) / (len(steps) - 1)
            out.append(row(f"e = {e:g}, semi-implicit Euler: order of that error", order, "1 +- 0.1", abs(order - 1) <= 0.1))
        for h in (0.01, 0.125):
            gap = np.abs(two_balls(bench, h) - [[0, 1, 0, 1], [1, 0, 1, 0]]).max()
            out.append(below(f"two elastic balls, h = {h:g}: d(places after 1 s)/d(x1, x2, v1, v2), error against (0,1,0,1), (1,0,1,0)", gap, 1e-12))
    return out
