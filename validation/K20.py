"""One step of Gauss-Newton corrects a robot arm

A two-link arm moves under torques that are not known beforehand to be right: the tip ends 1 cm beside where it should. One step of Gauss-Newton
over the torques of both joints at all 200 steps, by the exact derivative of the tip's place with respect to each, must correct it. The errors
have eight directions in each of five movements away from singular positions; what is left is the second order of the way, so larger errors are
corrected by less, which is reported."""
import math

import numpy as np

from common import Bench, reported, row

ARM = """<mujoco><option timestep="0.005" gravity="0 0 -9.81"/><worldbody><body name="upper" pos="0 0 1">
<joint name="shoulder" type="hinge" axis="0 1 0" damping=".2"/><geom type="capsule" size=".03" fromto="0 0 0 .4 0 0" mass="2"/>
<body name="lower" pos=".4 0 0"><joint name="elbow" type="hinge" axis="0 1 0" damping=".1"/>
<geom type="capsule" size=".025" fromto="0 0 0 .35 0 0" mass="1.2"/><site name="tip" pos=".35 0 0"/></body></body></worldbody>
<actuator><motor name="shoulder" joint="shoulder"/><motor name="elbow" joint="elbow"/></actuator></mujoco>"""
STEPS, DIRECTIONS = 200, 8
# positions of both joints at the start, amplitudes and frequencies of the torques about what holds them there
MOVEMENTS = [((-0.4, 1.1), (1.5, 0.6), (1.0, 1.5)), ((0.3, -1.3), (-2.0, 0.5), (0.7, 1.2)), ((-1.0, 1.6), (1.0, -0.8), (1.4, 0.8)),
             ((0.8, 0.9), (-1.2, 0.9), (0.5, 2.0)), ((-0.2, -1.0), (2.2, 0.3), (1.2, 0.4))]


def holding(q):
    """Torques against gravity at rest (sign of MJCF: a positive rotation about y lowers the tip)."""
    c1, c12 = math.cos(q[0]), math.cos(q[0] + q[1])
    elbow = -1.2 * 9.81 * 0.175 * c12
    return np.array([-2 * 9.81 * 0.2 * c1 - 1.2 * 9.81 * 0.4 * c1 + elbow, elbow])


def torques(q, amplitude, frequency):
    t = np.arange(STEPS)[:, None] * 0.005
    return holding(q) + np.array(amplitude) * np.sin(2 * np.pi * np.array(frequency) * t)


def task(movement, target, iterations):
    q, amplitude, frequency = movement
    return {"model": ARM, "steps": STEPS, "init": {"qpos": list(q)},
            "variables": [{"name": "torque", "control": True, "start": torques(q, amplitude, frequency).tolist()}],
            "loss": [{"name": "tip", "site": "tip", "components": [0, 2], "target": list(target)}],
            "optimizer": {"method": "gauss-newton", "iterations": iterations, "gradient_tolerance": 0}}


def error(result):
    return next(t["deviation"] for t in result["terms"] if t["name"] == "tip")


def reached(bench, movement):
    """Where the tip ends under the torques as they are: from the distances to three points."""
    at = [np.array(p, float) for p in ((0, 0), (1, 0), (0, 1))]
    d = [error(bench.optimize(bench.write("at.json", task(movement, p, 0)))) for p in at]
    return np.array([(d[0] ** 2 - d[1] ** 2 + 1) / 2, (d[0] ** 2 - d[2] ** 2 + 1) / 2])


def factors(bench, size):
    out = []
    for movement in MOVEMENTS:
        tip = reached(bench, movement)
        for k in range(DIRECTIONS):
            angle = 2 * math.pi * k / DIRECTIONS
            target = tip + size * np.array([math.cos(angle), math.sin(angle)])
            before = error(bench.optimize(bench.write("before.json", task(movement, target, 0))))
            after = error(bench.optimize(bench.write("after.json", task(movement, target, 1))))
            assert abs(before - size) < 1e-6
            out.append(before / after)
    return out


def rows():
    with Bench() as bench:
        least = {size: factors(bench, size) for size in (0.01, 0.02, 0.05)}
        out = [row("error of 1 cm before by that after one step, least of 40", min(least[0.01]), ">= 10", min(least[0.01]) >= 10)]
        return out + [reported(f"least, median at {100 * size:g} cm", f"{min(f):.1f}, {np.median(f):.1f}") for size, f in least.items()]
