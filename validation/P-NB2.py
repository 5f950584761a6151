"""A catapult throws a ball to a place

An arm of three links, each with a motor within its limits, carries a ball in a tray and shall throw it so that it is 2.2 m
ahead and 2.2 m up after half a second: 50 steps, 150 torques, and nothing says when the ball leaves. The search begins at
torques that are drawn, pieces of .05 s of up to 30 % of the limits, from which many throws drop the ball. It has stages:
contacts that act from 10 cm away, then nearer and sharper ones, then MuJoCo's own, first by smooth derivatives, at last by
exact ones with restarts where the loss jumps, since the ball may touch the tray's rim or not. The last stage is iLQR, which
knows nothing of the moment of release, or Gauss-Newton in mode `event`, which differentiates that moment, too. Stages were chosen
at the first thirty starts, five of which are asked for; others are told beside them. Beside it: the last stage alone."""
import numpy as np

from common import Bench, below, deviation, reported, row

LIMIT = 60, 40, 20  # N m
STARTS, OTHERS, MISS, ITERATIONS = range(5), range(1000, 1020), .05, 100
TRAY = '<geom type="box" size="{} .1 {}" pos="{} 0 {}" mass="{}" contype="1" conaffinity="2"/>'
MODEL = f"""<mujoco><option timestep="0.01"/><default><geom contype="0" conaffinity="0"/></default><worldbody>
<body name="upper"><joint name="base" axis="0 -1 0" damping=".2"/>
<geom type="capsule" size=".03" fromto="0 0 0 -.5 0 .1" mass=".8"/>
<body name="middle" pos="-.5 0 .1"><joint name="elbow" axis="0 -1 0" damping=".2"/>
<geom type="capsule" size=".025" fromto="0 0 0 -.5 0 .1" mass=".5"/>
<body name="hand" pos="-.5 0 .1"><joint name="wrist" axis="0 -1 0" damping=".2"/>
<geom type="capsule" size=".02" fromto="0 0 0 -.3 0 0" mass=".2"/>
{TRAY.format(.1, .01, -.4, 0, .05)}
{TRAY.format(.01, .03, -.5, .03, .02)}{TRAY.format(.01, .03, -.3, .03, .02)}</body></body></body>
<body name="ball" pos="-1.4 0 .26"><joint name="x" type="slide" axis="1 0 0"/><joint name="z" type="slide" axis="0 0 1"/>
<joint name="spin" axis="0 1 0"/>
<geom name="ball" type="sphere" size=".05" mass=".1" contype="2" conaffinity="1"/></body></worldbody><actuator>
{"".join(f'<motor joint="{j}" ctrlrange="-{m} {m}" ctrllimited="true"/>'
         for j, m in zip(("base", "elbow", "wrist"), LIMIT, strict=True))}
</actuator></mujoco>"""


def stage(iterations, mode="smooth", contact=None, **optimizer):
    return {"mode": mode, "contact": contact or {}, "optimizer": {"iterations": iterations, **optimizer}}


FELT = (20, 1000, .1), (15, 100, .05), (15, 10, .02)  # iterations, kappa, onset in m
NEARER = [stage(n, contact={"kappa": kappa, "onset": onset}) for n, kappa, onset in FELT] + [stage(20)]
AGAIN = {"restarts": 5, "restart_size": .02}
LAST = {"iLQR, exact": stage(30, "exact", **AGAIN), "Gauss-Newton, event": stage(30, "event", method="gauss-newton", **AGAIN)}


def task(start, **more):
    drawn = np.random.default_rng(start).uniform(-.3, .3, (10, 3)) * LIMIT
    return {"model": MODEL, "steps": 50, "controls": np.repeat(drawn, 5, axis=0).tolist(),
            "variables": [{"name": "torque", "control": True}],
            "loss": [{"name": "miss", "body": "ball", "components": [0, 2], "target": [2.2, 2.2]},
                     {"name": "effort", "control": True, "at": "all", "weight": 1e-6}],
            "optimizer": {"method": "ilqr", "iterations": ITERATIONS}, **more}


def throw(bench, start, stages):
    """How far the ball is from its place, m, and iterations of all stages."""
    result = bench.optimize(bench.write("throw.json", task(start, stages=stages, stop={"terms": {"miss": .03}})))
    return deviation(result["terms"], "miss"), result["iterations"]


def rows():
    out = []
    with Bench() as bench:
        for name, last in LAST.items():
            thrown = np.array([throw(bench, start, [*NEARER, last]) for start in STARTS])
            near, most = int((thrown[:, 0] <= MISS).sum()), int(thrown[:, 1].max())
            out.append(row(f"{name}: within 5 cm, of {len(STARTS)} starts", near, f"{len(STARTS)}", near == len(STARTS)))
            out.append(below(f"{name}: largest miss, m", thrown[:, 0].max(), MISS))
            out.append(below(f"{name}: iterations of all stages, most", most, ITERATIONS))
            other = [throw(bench, start, [*NEARER, last])[0] for start in OTHERS]
            out.append(reported(f"{name}: within 5 cm, of {len(OTHERS)} other starts", sum(miss <= MISS for miss in other)))
        alone = [throw(bench, start, [stage(ITERATIONS, "exact")])[0] for start in [*STARTS, *OTHERS]]
        near = sum(miss <= MISS for miss in alone)
        out.append(reported(f"iLQR, exact, without the stages before: within 5 cm, of all {len(alone)}", near))
    return out
