"""Billiards

Billiards: the cue ball breaks a triangle of ten; the last ball's distance to a goal by the position and velocity of the cue ball."""
import time

import numpy as np

from common import Bench, below, near, row, slope

RADIUS, END, GOAL = 0.03, 3.069, np.array([0.9, 0.75])
PLACES = [(0.1, 0.5)] + [(i * 2 * RADIUS + 0.5, j * 2 * RADIUS + 0.5 - i * RADIUS * 0.7) for i in range(4) for j in range(i + 1)]
BODY = '<body pos="{:.17g} {:.17g} 0"><joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 1 0"/><geom size="{}" mass="1" condim="1"/></body>'
TABLE = '<mujoco><option timestep="{:.17g}" gravity="0 0 0"/><worldbody>' + "".join(BODY.format(*p, RADIUS) for p in PLACES) + "</worldbody></mujoco>"
LOSS, GRADIENT = 0.045655631, np.array([-0.044722577, 0.938739323, -0.137253590, 1.063904566])
IMPACT = ("--contact", "method=impact", "--contact", "restitution=0.8")


def start(move=np.zeros(4)):
    q, v = np.zeros(22), np.zeros(22)
    q[:2], v[:2] = move[:2], np.array([0.3, 0]) + move[2:]
    return {"qpos": q, "qvel": v}


def last_ball(bench, h, move=np.zeros(4)):
    run = bench.simulate(bench.write("table.xml", TABLE.format(h)), "--steps", round(END / h), *IMPACT, init=start(move))
    return PLACES[-1] + run["qpos"][-1, -2:] - GOAL


def loss(bench, h, move=np.zeros(4)):
    return float(np.sum(last_ball(bench, h, move)**2))


def gradient(bench, h):
    bar = np.zeros(22)
    bar[-2:] = 2 * last_ball(bench, h)
    g = bench.gradient(bench.path("table.xml"), {"qpos": bar}, "--steps", round(END / h), "--wrt", "qpos,qvel", *IMPACT, init=start())
    return np.concatenate([g["qpos"][:2], g["qvel"][:2]])


def descend(bench, h, iterations=200, rate=0.01):
    move, begin = np.zeros(4), time.monotonic()
    least = np.inf
    for _ in range(iterations):
        bar = np.zeros(22)
        gap = last_ball(bench, h, move)
        least = min(least, float(gap @ gap))
        bar[-2:] = 2 * gap
        g = bench.gradient(bench.path("table.xml"), {"qpos": bar}, "--steps", round(END / h), "--wrt", "qpos,qvel", *IMPACT, init=start(move))
        move = move - rate * np.concatenate([g["qpos"][:2], g["qvel"][:2]])
    return least, time.monotonic() - begin


def rows():
    out = []
    with Bench() as bench:
        for h in (0.003, END / 100):
            out.append(near(f"h = {h:.4g}: loss", loss(bench, h), LOSS, 1e-9))
            gap = np.abs(gradient(bench, h) - GRADIENT).max()
            out.append(below(f"h = {h:.4g}: gradient by the cue's place and velocity, largest error", gap, 2e-9))
        found = gradient(bench, 0.003)
        differences = [slope(lambda t: loss(bench, 0.003, t * e), 1e-6) for e in np.eye(4)]
        out.append(below("the same against differences of the motion, largest error", np.abs(found - differences).max(), 1e-6))
        least, seconds = descend(bench, END / 100)
        out.append(row("200 iterations of gradient descent, rate 0.01: least loss", least, "reported", True))
    return out
