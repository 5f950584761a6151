"""A quadruped is pushed, and stands by plans

The quadruped of R5 with torque motors of 40 N m in place of its servos, so that nothing but plans holds it. Plans of .2 s in
steps of 5 ms are made by iLQR every 20 ms from the state that has been reached, two iterations each; their feedback is asked
every 1.25 ms. That is the plant's step, and the plant has elliptic cones by an exact solve in place of the plan's soft
pyramids, and another integrator. It stands for 10 s and is pushed in each second from the first to the eighth: once from each
of 8 directions in an order that is drawn, each time by .3 m/s times its mass. It stands if its trunk is where it was, to 5 cm
in height and 15 degrees, and never was lower than half of that. Beside it the first plan replayed without feedback, and plans
made again whose feedback is left out."""
import os
import re
import time

import numpy as np

from common import EXAMPLES, reported, row, timing

import pullback as pb

PLAN, STEPS, PLANT, INTERVAL, SECONDS, TRIALS, PUSH = .005, 40, .00125, .02, 10, 20, .3
INNER = round(INTERVAL / PLANT)
JOINTS = [f"{end}_{side}_{joint}" for end in ("front", "hind") for side in ("left", "right") for joint in ("hip", "knee")]
BEND = .5  # rad: of thighs, to the front; knees twice that, to the back
HEIGHT = .35 * np.cos(BEND) + .05
POSE = [0, 0, HEIGHT, 1, 0, 0, 0] + [BEND, -2 * BEND] * 4


def model(timestep, options=""):
    with open(os.path.join(EXAMPLES, "quadruped", "quadruped.xml"), encoding="utf-8") as f:
        text = f.read()
    for old, new in (('timestep="0.00125" integrator="implicitfast" cone="elliptic"', f'timestep="{timestep}" {options}'),
                     (r'<default class="servo">.*?</default>', ""),
                     (r'<position name="(\w+)" class="servo" joint="\w+"/>',
                      r'<motor name="\1" joint="\1" gear="40" ctrlrange="-1 1" ctrllimited="true"/>')):
        text, count = re.subn(old, new, text, flags=re.DOTALL)
        assert count
    return text[text.index("<mujoco"):]


def task():
    place, turn = ({"qpos": "root", "target": POSE[:7], "components": c} for c in ([0, 1, 2], [3, 4, 5]))
    always = [{**place, "weight": 20}, {**turn, "weight": 20}, {"qpos": JOINTS, "target": POSE[7:], "weight": 10},
              {"qvel": "root", "weight": .5}, {"qvel": JOINTS, "weight": .1}, {"control": True, "weight": .05}]
    last = [{**place, "weight": 200}, {**turn, "weight": 200}, {"qvel": "root", "weight": 20}]
    return {"model": model(PLAN), "steps": STEPS, "init": {"qpos": POSE},
            "variables": [{"control": True, "lower": -1, "upper": 1}], "loss": [{**term, "at": "all"} for term in always] + last}


def stands(state):
    return abs(state.qpos[2] - HEIGHT) < .05 and 1 - 2 * (state.qpos[4] ** 2 + state.qpos[5] ** 2) > np.cos(np.radians(15))


def trial(seed, plant, replay=False, gains=True, times=None, largest=None):
    """Seconds until it falls; None where it stands at the end."""
    mpc, state = pb.Mpc(task()), plant.init()
    state.qpos = POSE
    turns = 2 * np.pi * np.random.default_rng(seed).permutation(8) / 8
    for k in range(round(SECONDS / INTERVAL)):
        second, rest = divmod(k, round(1 / INTERVAL))
        if rest == 0 and 1 <= second <= 8:
            state.qvel[:2] += PUSH * np.array([np.cos(turns[second - 1]), np.sin(turns[second - 1])])
        if not (replay and k):
            begun = time.thread_time()
            try:
                mpc.plan(state, elapsed=INTERVAL if k else 0, iterations=2 if k else 30)
            except pb.StepError:
                pass  # the last plan goes on
            if times is not None and k:
                times.append(time.thread_time() - begun)
        for i in range(INNER):
            at = (k * INTERVAL if replay else 0) + i * PLANT
            u = mpc.control(state, time=i * PLANT) if gains else mpc.ctrl[min(int(at / PLAN + 1e-9), STEPS - 1)]
            if largest is not None:
                largest.append(np.abs(u).max())
            try:
                plant.step_into(state, u)
            except pb.StepError:
                return k * INTERVAL
        if not state.qpos[2] > HEIGHT / 2:
            return k * INTERVAL
    return None if stands(state) else SECONDS


def rows():
    plant = pb.loads(model(PLANT, 'integrator="implicitfast" cone="elliptic"'), contact={"method": "cones"})
    times, largest = [], []
    fallen = [trial(seed, plant, times=times, largest=largest) for seed in range(TRIALS)]
    stood = fallen.count(None)
    falls = [f"{t:.2f}" for t in fallen if t is not None]
    out = [row(f"pushed from 8 directions within {SECONDS} s: stands, of {TRIALS}", stood, f"{TRIALS}", stood == TRIALS),
           reported("times of falls, s", ", ".join(falls) or "none"),
           row("torques within 40 N m, all", max(largest) <= 1, "True", max(largest) <= 1)]
    late = np.percentile(times, 99) / INTERVAL
    name = f"processor time of a plan, 99th percentile of {len(times)}, by the interval of {1e3 * INTERVAL:g} ms"
    said = "{:.2f}, {:.2f}, {:.2f}".format(*(1e3 * np.percentile(times, (50, 99, 100))))
    out += [timing(name, late, "<= 0.5", late <= .5), reported("the same in ms: median, 99th percentile, largest", said)]
    replayed = sum(trial(seed, plant, replay=True, gains=False) is None for seed in range(TRIALS))
    out.append(row(f"the first plan without feedback: stands, of {TRIALS}", replayed, "<= 5", replayed <= 5))
    open_loop = sum(trial(seed, plant, gains=False) is None for seed in range(5))
    return [*out, reported("plans made again every 20 ms, their feedback left out: stands, of 5", open_loop)]
