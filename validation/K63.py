"""Two rigid fingers take a box and keep it

A hand with two rigid fingers hangs above a box of .2 kg on the floor and touches nothing; friction is .5. A plan finds how to
close, squeeze and lift: its first stage has smooth derivatives of contacts that act from 2 cm away, its second smooth
derivatives of the sharp motion, its third is sharp. Terms draw the fingers to the box, slowly, and ask for some force of them,
beside a height of the box of 6 cm. What was found is run at a quarter of the time step, its last controls held on: the box is
lifted, pulled down by 2 N for a second, and kept. Numbers of knots and starts, which are drawn, vary; all of them must hold.
Answers are audited, too."""
import json
import subprocess

import numpy as np

from common import PROGRAM, Bench, below, reported, row

import pullback as pb

H, SECONDS, PULL, LIFTED, HALF = .004, 1.0, 2.0, .04, .025
MODEL = """<mujoco><option timestep="{}" integrator="implicitfast"/><default><geom friction=".5 .005 .0001" solref=".01 1"/>
<default class="finger"><joint damping="5"/>
<geom type="box" size=".01 .015 .05" mass=".1" contype="1" conaffinity="2"/></default></default><worldbody>
<geom name="floor" type="plane" size="1 1 .1" contype="2" conaffinity="1"/>
<body name="hand" pos="0 0 .12"><joint name="lift" type="slide" axis="0 0 1" damping="5"/>
<geom type="box" size=".08 .02 .01" mass=".3" contype="0" conaffinity="0"/>
<body name="left" pos="-.06 0 -.06" childclass="finger"><joint name="left" type="slide" axis="1 0 0"/><geom/></body>
<body name="right" pos=".06 0 -.06" childclass="finger"><joint name="right" type="slide" axis="-1 0 0"/><geom/></body>
</body>
<body name="box" pos="0 0 .025"><freejoint name="box"/>
<geom type="box" size=".025 .025 .025" mass=".2" contype="3" conaffinity="3"/></body>
</worldbody><actuator><position name="lift" joint="lift" kp="400" kv="20" forcerange="-30 30"/>
<motor name="close left" joint="left" ctrlrange="-10 10" ctrllimited="true" forcerange="-10 10"/>
<motor name="close right" joint="right" ctrlrange="-10 10" ctrllimited="true" forcerange="-10 10"/>
</actuator></mujoco>"""
FINGERS = ["close left", "close right"]
STAGES = [{"mode": "smooth", "contact": {"kappa": 10, "onset": .02}, "optimizer": {"iterations": 20}},
          {"mode": "smooth", "optimizer": {"iterations": 15}}, {"optimizer": {"iterations": 10}}]
TRIED = [(knots, seed) for seed in range(2) for knots in (6, 8, 11, 16, 21)]


def task(knots, seed, stages):
    held, lifted = ({"from": t, "to": SECONDS, "every": .02} for t in (.3, .6))
    path = {"knots": knots, "interpolation": "linear"}
    return {"model": MODEL.format(H), "duration": SECONDS, "stages": stages, "optimizer": {"method": "ilqr"}, "variables": [
        {"name": "lift", "control": "lift", "lower": -.02, "upper": .1, "start": 0, **path},
        {"name": "grip", "control": FINGERS, "start": list(np.random.default_rng(seed).uniform(-.3, .3, 2)), **path}], "loss": [
        {"name": "height", "body": "box", "components": [2], "target": [.085], "at": lifted, "mean": True, "weight": 300},
        {"name": "place", "body": "box", "components": [0, 1], "at": "all", "mean": True, "weight": 100},
        {"name": "reach", "formula": "dot(l - b, l - b) + dot(r - b, r - b)",
         "inputs": {"l": {"body": "left"}, "r": {"body": "right"}, "b": {"body": "box"}}, "at": held, "mean": True, "weight": 2},
        {"name": "force", "control": FINGERS, "target": [6, 6], "at": held, "mean": True, "weight": 3e-3},
        {"name": "gentle", "qvel": ["left", "right", "box"], "at": "all", "mean": True, "weight": .05}],
        "audit": {"objective": "height", "spread": {"qpos": .001}}}


def find(bench, knots, seed, stages):
    """Each step's controls of the answer, and the iterations of all stages."""
    result = bench.optimize(bench.write("lift.json", task(knots, seed, stages)))
    with np.load(bench.path("result.trajectory.npz")) as found:
        return found["control"], result["iterations"]


def audit(bench):
    """Verdict on what was found last."""
    done = subprocess.run([PROGRAM, "audit", bench.path("lift.json"), "--result", bench.path("result.json"), "--json"],
                          capture_output=True, text=True, check=False)
    return json.loads(done.stdout)["verdict"]


def replay(controls, quarter=4, pull=PULL):
    """Height of the box above the floor at the end of the plan and the least in a second of pulling at the last controls, m;
    overlap of geoms, m."""
    plant = pb.loads(MODEL.format(H / quarter))
    held = np.concatenate([controls, np.repeat(controls[-1:], round(1 / H), axis=0)])
    force = np.zeros((quarter * len(held), plant.nbody, 6))
    force[quarter * len(controls):, -1, 2] = -pull
    run = plant.rollout(plant.init(), np.repeat(held, quarter, axis=0), xfrc_applied=force)
    height, state, depth = run.qpos[:, 5] - HALF, plant.init(), 0
    for q in run.qpos[::25]:
        state.qpos = q
        depth = max([depth, *-plant.contacts(state).dist])
    return height[quarter * len(controls)], height[quarter * len(controls):].min(), depth


def rows():
    with Bench() as bench:
        found, verdicts = [], []
        for knots, seed in TRIED:
            controls, iterations = find(bench, knots, seed, STAGES)
            found.append((*replay(controls), iterations))
            if seed == 0:
                verdicts.append(audit(bench))
        lifted, kept, depth, iterations = np.transpose(found)
        confirmed = sum(v.startswith("confirmed") for v in verdicts)
        good = int(((lifted >= LIFTED) & (kept >= LIFTED)).sum())
        out = [row(f"lifted by 4 cm and kept through the pull, at h/4, of {len(TRIED)} plans", good, f"{len(TRIED)}",
                   good == len(TRIED)),
               row("height after the plan, least of these, m", lifted.min(), ">= 0.04", lifted.min() >= LIFTED),
               row("height in the second of the pull, least of these, m", kept.min(), ">= 0.04", kept.min() >= LIFTED),
               below("overlap of two geoms at a quarter of the step, largest, m", depth.max(), .005),
               reported("iterations of all stages: least, most", f"{iterations.min():.0f}, {iterations.max():.0f}"),
               row(f"audits that confirm, of {len(verdicts)}", confirmed, f"{len(verdicts)}", confirmed == len(verdicts)),
               reported("audit of the plan with the fewest knots", verdicts[0])]
        alone = [replay(find(bench, knots, 0, [{"optimizer": {"iterations": 45}}])[0]) for knots in (6, 11, 21)]
        said = ", ".join(f"{r[1]:.3f}" for r in alone)
        return [*out, reported("the sharp stage alone: height in the pull, with 6, 11 and 21 knots, m", said)]
