"""Plans of a catapult and of a standing figure in time

The catapult of P-NB2 has a throw, and its target moves: by up to 2 cm to all sides every 20 ms, while the arm waits at rest.
Each plan is of ten iterations of 50 steps through the ball's contacts, by smooth derivatives, begun at the last one; what is
asked is whether it is there in time, on one core. How near the throws come is reported: a ball that leaves a step earlier or
later is a jump, and a target often moves beyond one. The figure of K9, 23 torques and a free pelvis in contact, stands by plans
of 64 steps of 10 ms, of two iterations every 20 ms, and is pushed by .1 m/s in each second."""
import importlib
import time

import numpy as np

from common import Bench, reported, row, timing

import pullback as pb

import K9

INTERVAL, THROWS, HORIZON, SECONDS = .02, 250, 64, 3
CATAPULT = importlib.import_module("P-NB2")


def throws():
    """Misses of throws at targets that move, m, and processor times of their plans, s."""
    with Bench() as bench:
        CATAPULT.throw(bench, 0, [*CATAPULT.NEARER, CATAPULT.LAST["iLQR, exact"]])
        with np.load(bench.path("result.trajectory.npz")) as found:
            first = found["control"].tolist()
    mpc, rng = pb.Mpc(CATAPULT.task(0) | {"controls": first, "mode": "smooth"}), np.random.default_rng(58)
    state, target, misses, times = pb.loads(CATAPULT.MODEL).init(), np.array([2.2, 2.2]), [], []
    x, z = (pb.loads(CATAPULT.MODEL).names("joint").index(j) for j in "xz")
    for _ in range(THROWS):
        target = np.clip(target + rng.uniform(-.02, .02, 2), 1.9, 2.5)
        mpc.set(targets={"miss": target})
        begun = time.thread_time()
        mpc.plan(state, elapsed=0, iterations=10)
        times.append(time.thread_time() - begun)
        end = mpc.states["qpos"][-1]
        misses.append(np.hypot(end[x] - 1.4 - target[0], end[z] + .26 - target[1]))
    return np.array(misses), np.array(times)


def stand():
    """Whether the figure stands at the end, and processor times of its plans, s."""
    clip = K9.Clip()
    begin = K9.task(clip)["init"]["qpos"]
    loss = [{"qpos": K9.JOINTS, "target": K9.KEYS[0].tolist(), "weight": 10},
            {"body": "pelvis", "target": begin[:3], "weight": 20},
            {"qpos": "root", "components": [3, 4, 5], "weight": 5},
            {"qvel": True, "weight": .01}, {"control": True, "weight": .05}]
    mpc = pb.Mpc({"model": K9.model(K9.PLAN), "steps": HORIZON, "init": {"qpos": begin},
                  "loss": [{**t, "at": "all"} for t in loss], "variables": [{"control": True, "lower": -1, "upper": 1}]})
    plant, times = pb.loads(K9.model(K9.PLANT, 'cone="elliptic"')), []
    state = plant.init()
    state.qpos = begin
    for k in range(round(SECONDS / INTERVAL)):
        if k and k % round(1 / INTERVAL) == 0:
            state.qvel[k // round(1 / INTERVAL) % 2] += .1
        begun = time.thread_time()
        mpc.plan(state, elapsed=INTERVAL if k else 0, iterations=2 if k else 50)
        times.append(time.thread_time() - begun)
        for i in range(round(INTERVAL / K9.PLANT)):
            plant.step_into(state, mpc.control(state, time=i * K9.PLANT))
    return bool(abs(state.qpos[2] - begin[2]) < .1), np.array(times[1:])


def said(times):
    return "{:.1f}, {:.1f}; {:.0f}".format(*(1e3 * np.percentile(times, (50, 99))), 1 / np.median(times))


def rows():
    misses, times = throws()
    late = np.percentile(times, 99) / INTERVAL
    out = [timing(f"catapult: processor time of a plan, 99th percentile of {THROWS}, by 20 ms", late, "<= 1", late <= 1),
           reported("catapult: a plan, median and 99th percentile in ms; plans in a second by the median", said(times)),
           reported("catapult: throws within 5 cm of a target that moves, of all; median miss, m",
                    f"{(misses <= .05).mean():.2f}; {np.median(misses):.3f}")]
    up, times = stand()
    return [*out, row(f"figure: stands after {SECONDS} s and two pushes", up, "True", up),
            reported(f"figure, {HORIZON} steps: a plan, median and 99th percentile in ms; plans in a second by the median",
                     said(times))]
