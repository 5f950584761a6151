"""Arm reaches wherever it is told

A network of the source's sizes is told a place and gives four set-points of servos, which turn the arm there within their limits of
speed and torque. It learns by gradients through 16 worlds at a time, of new places every update, from a task whose loss sees what
the network was told, and is tested on 10 000 others of the whole domain that can be reached: the elbow bends to 90 degrees, so that is
0.7071 <= |p| <= 1 about the shoulder. A second network also sees angles and speeds of the joints, five times a second. Set-points are
absolute and servos are there within a decision, so speeds that are seen as they are make the loop unstable, and its gradient with it:
it sees a fifth of them, and cotangents are clipped. R4L has a network of 2.1 million weights. Runs that are interrupted go on where
they were."""
import json
import os
import subprocess

import numpy as np

import arm
import kept
from common import PROGRAM, below, reported

import pullback as pb

LONG = "ten minutes"
GOES_ON = True  # trainings, in build/
TORQUE, SEED, SOURCE = 200, 0, 2563  # N m; updates of the source
WORLDS, UPDATES, RATE, SECONDS, EVERY = 16, 1500, 1e-2, 5, 20  # the arm needs 4 s from side to side
NETWORKS = {"small": (128, 128), "large": (1024, 1024, 1024), "closed": (128, 128)}
SPEEDS, CLIP = 0.2, 0.3  # of the closed loop: scale of the speeds that it sees; of cotangents, in what one decision's cost is in the mean
GIVEN, TESTED, PART = 20_000, 10_000, 500  # places to learn from, to be tested on, and at once
LAST = arm.STEPS - 100  # errors are means of the last second of 8
SHELL = .7071**.5  # the source draws |p|^2 from .7071 to 1


def places(random, count, least=.7071):
    """Uniform in the domain: |p| from `least` to 1, z >= 0, p from the arm's middle."""
    p = random.standard_normal((count, 3))
    p *= (random.uniform(least**3, 1, count) ** (1 / 3) / np.linalg.norm(p, axis=1))[:, None]
    p[:, 2] = abs(p[:, 2])
    return p + arm.MIDDLE


def policy(name):
    """What is told alone is decided on once; the distance is then that at the end, and else that after every decision."""
    closed = name == "closed"
    hidden = [{"dense": n, "activation": "relu", "gain": 2**.5} for n in NETWORKS[name]]
    seen = [{"qpos": True}, {"qvel": True, "scale": SPEEDS}] if closed else []
    return {"every": EVERY if closed else round(SECONDS / arm.H), "seed": SEED, "observe": [{"command": 3}, *seen],
            "layers": [*hidden, {"dense": 4, "init": "zero"}]}


def task(name, updates):
    network, given = policy(name), places(np.random.default_rng(SEED), GIVEN)
    return {
        "model": arm.model(TORQUE), "options": {"servo": "all"}, "contact": {"method": "cones"},
        "parameters": {"actuator_speed": [arm.SPEED] * 4}, "policy": network, "seed": SEED,
        "sample": {"command": [{"list": given.tolist()}]}, "episode": {"seconds": SECONDS},
        "loss": [{"name": "distance", "formula": "norm(hand - told)", "at": "all", "inputs": {"hand": {"site": "hand"}, "told": {"command": True}}}],
        "gradient": {"clip": CLIP} if name == "closed" else {},
        "train": {"method": "bptt", "updates": updates, "worlds": WORLDS, "window": round(SECONDS / arm.H / network["every"]), "rate": RATE,
                  "last_rate": .01, "beta1": .9, "beta2": .999, "noise": 0, "discount": 1, "evaluate": {"every": updates}}}


def learn(folder, name, updates=UPDATES):
    """The file of the trained policy."""
    path = os.path.join(folder, name)
    if not os.path.exists(path + ".npz"):
        with open(path + ".json", "w", encoding="utf-8") as f:
            json.dump(task(name, updates), f)
        subprocess.run([PROGRAM, "train", path + ".json", "--threads", "1", "-o", path + ".npz", "-q"], check=True)
    return path + ".npz"


def load(network):
    """The arm with a policy: a description, or a trained one's file."""
    return pb.loads(arm.model(TORQUE), options={"servo": "all"}, contact={"method": "cones"}, policy=network)


def errors(network, targets):
    """Mean distance over the last second, target by target."""
    m, out = load(network), []
    for k in range(0, len(targets), PART):
        told = targets[k:k + PART, None]
        run = m.rollout(m.init(batch=len(told)), steps=arm.STEPS, command=np.repeat(told, arm.STEPS, 1), outputs="site_xpos", keep=False,
                        params={"actuator_speed": np.full(4, arm.SPEED)}, threads=1)
        out.append(np.linalg.norm(run.site_xpos[:, LAST + 1:, 0] - told, axis=2).mean(1))
    return np.concatenate(out)


def judged(case, name):
    """Mean error of a trained network on places that it has not seen, and rows that say how near it brings the hand."""
    targets = places(np.random.default_rng(99), TESTED)
    found = np.array(kept.once(case, f"{name}, errors", lambda: errors(learn(kept.folder(case), name), targets).tolist()))
    inside = np.linalg.norm(targets - arm.MIDDLE, axis=1) >= SHELL
    return found.mean(), [
        below(f"{name}: mean error on {TESTED} places after {UPDATES} updates of {WORLDS} (the source: {SOURCE} of 128), m", found.mean(), .05),
        reported(f"{name}: 95th percentile, and mean in the source's shell, m", f"{np.percentile(found, 95):.3g}, {found[inside].mean():.3g}")]


def rows():
    small, out = judged("R4", "small")
    closed, seeing = judged("R4", "closed")
    kept.forget("R4")
    return out + seeing + [below("closed, which sees the joints: mean error by that of small, after as many updates", closed / small, 1.1)]
