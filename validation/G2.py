"""Projectile: closed forms and aiming

A projectile: closed forms of the rollout and its derivative, a target hit by one Newton step, and one through drag."""
import numpy as np

from common import Bench, apart, below, row, slope

MODEL = """<mujoco><option timestep="0.01" gravity="0 0 -9.81" %s/><worldbody><body name="b"><joint type="slide" axis="1 0 0"/>
<joint type="slide" axis="0 1 0"/><joint type="slide" axis="0 0 1"/><geom type="sphere" size="0.1" mass="1" contype="0"/></body>
</worldbody></mujoco>"""


def task(model, iterations):
    return {"model": model, "steps": 100, "variables": [{"state": "qvel", "start": [1, 1, 1]}],
            "loss": [{"name": "hit", "body": "b", "target": [7, 3, 2]}], "stop": {"terms": {"hit": 1e-6}},
            "optimizer": {"method": "gauss-newton", "iterations": iterations, "damping": 1e-12}}


def rows():
    n, h, v = 100, 0.01, np.array([3.0, -1.0, 7.0])
    with Bench() as bench:
        bench.write("free.xml", MODEL % "")
        bench.write("drag.xml", MODEL % 'density="20"')
        end = bench.simulate("free.xml", "--steps", n, init={"qvel": v})["qpos"][-1]
        exact = n * h * v - np.array([0, 0, 9.81]) * h * h * n * (n + 1) / 2
        J = np.stack([bench.gradient("free.xml", {"qpos": e}, "--steps", n, "--wrt", "qvel", init={"qvel": v})["qvel"] for e in np.eye(3)])
        one = bench.optimize(bench.write("free.json", task("free.xml", 10)))
        final = lambda w: bench.simulate("drag.xml", "--steps", n, init={"qvel": w})["qpos"][-1]
        JD = np.stack([bench.gradient("drag.xml", {"qpos": e}, "--steps", n, "--wrt", "qvel", init={"qvel": v})["qvel"] for e in np.eye(3)])
        FD = np.stack([slope(lambda t: final(v + t * d), 1e-2) for d in np.eye(3)], 1)
        drag = bench.optimize(bench.write("drag.json", task("drag.xml", 30)))
        free_path = float(np.linalg.norm(final(v) - end))
    return [
        below("place after 100 steps against N h v - g h^2 N (N + 1) / 2, relative", apart(end, exact), 1e-13),
        below("d(place)/d(velocity) against N h, relative", apart(J, n * h * np.eye(3)), 1e-13),
        row("Jacobians to a hit within 1e-6 m", one["gradients"], "1 (one Newton step)", one["met"] and one["gradients"] == 1),
        row("with drag: place moved by it [m]", free_path, "> 0.1", free_path > 0.1),
        below("with drag: gradient against differences, relative", apart(JD, FD), 1e-9),
        row("with drag: gradient steps to a hit within 1e-6 m", drag["iterations"], "<= 30", drag["met"]),
    ]
