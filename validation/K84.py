"""Truncated gradients

Truncated gradients of a linear system are the closed forms of their bias, whatever the memory: decay, windows, clipping.

Of a trotting quadruped (examples/quadruped, at 5 ms) the gradient of its speed by the 24 numbers of its gait is shown for windows from
0.05 to 8 s: its length, and the speed gained by the best of some steps along it."""
import os

import numpy as np

from common import Bench, EXAMPLES, below, reported, row
import inside
from rollouts import Rollout

# x'' = -d x' / m + u / m: v[k+1] = a v[k] + b u[k], the damper implicit.
SLIDE = """<mujoco><option timestep="{h}" gravity="0 0 0"/><worldbody><body><joint name="x" type="slide" axis="1 0 0" damping="{d}"/>
<geom size=".1" mass="{m}"/></body></worldbody><actuator><motor joint="x"/></actuator></mujoco>"""
M, D, STEPS = 2.0, 3.0, 800


def closed(a, b, w, q, window):
    """Shares of the controls by cotangents w (states 0 .. N) of the velocity, as sums of powers: no recursion over steps."""
    n, g = len(w) - 1, np.zeros(len(w) - 1)
    for k in range(n):
        last = n - window * ((n - k - 1) // window)  # the end of the window that step k is in
        j = np.arange(k + 1, last + 1)
        g[k] = b * np.sum(w[j] * q ** (j - k) * a ** (j - 1 - k))
    return g


def measured(m, w, budget=0, **options):
    r = Rollout(m, STEPS, budget)
    r.forward()
    return r.pull(qvel=w[:, None], **options)[:, 0]


class Quadruped:
    """Set-points of knees and hips: a constant, a sine and a cosine of 1.5 Hz each; starts as a trot made by hand."""
    H, SECONDS = 0.005, 8.0

    def __init__(self, bench):
        with open(os.path.join(EXAMPLES, "quadruped", "quadruped.xml"), encoding="utf-8") as f:
            text = f.read().replace('timestep="0.00125"', f'timestep="{self.H}"')
        self.steps = round(self.SECONDS / self.H)
        self.roll = Rollout(inside.Model(bench.write("quadruped.xml", text)), self.steps)
        t = 2 * np.pi * 1.5 * self.H * (np.arange(self.steps) + 1)
        self.basis = np.stack([np.ones(self.steps), np.sin(t), np.cos(t)], 1)
        self.trot = -np.array([[0.5] * 4 + [0] * 4, [0.8, -0.8, -0.8, 0.8, 0, 0, 0, 0], [0, 0, 0, 0, 0.5, -0.5, -0.5, 0.5]])

    def speed(self, gait):
        self.roll.ctrl[:] = self.basis @ gait
        self.roll.forward()
        return self.roll.states[-1, 1] / self.SECONDS

    def gradient(self, gait, window):
        self.speed(gait)
        bar = np.zeros((self.steps + 1, self.roll.m.nv))
        bar[1:, 0] = self.H / self.SECONDS
        return self.basis.T @ self.roll.pull(bar, window=window), self.roll.certificate

    def gained(self, gait, gradient):
        direction = gradient / np.linalg.norm(gradient)
        return max(self.speed(gait + size * direction) for size in (0.003, 0.01, 0.03, 0.1)) - self.speed(gait)


def curve(bench):
    robot = Quadruped(bench)
    out = [reported("quadruped: speed of the trot [m/s]", robot.speed(robot.trot))]
    found = {}
    for window in (0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8):
        g, certificate = robot.gradient(robot.trot, window)
        found[window] = g
        out.append(reported(f"quadruped: window {window} s: norm of the gradient, largest costate, speed gained [m/s]",
                            f"{np.linalg.norm(g):.3g}, {certificate.costate_worst:.2g}, {robot.gained(robot.trot, g):+.3f}"))
    plain = robot.gradient(robot.trot, 0)[0]
    out.append(row("quadruped: the window of the whole run", "equal bits" if (found[8] == plain).all() else "other bits", "equal bits", (found[8] == plain).all()))
    return out


def rows():
    out, rng = [], np.random.default_rng(0)
    with Bench() as bench:
        for h in (0.01, 0.0025):
            a, b = 1 / (1 + h * D / M), h / M / (1 + h * D / M)
            m = inside.Model(bench.write("slide.xml", SLIDE.format(h=h, d=D, m=M)))
            w, only = rng.standard_normal(STEPS + 1), np.zeros(STEPS + 1)
            only[-1] = 5.0
            exact, size = measured(m, w), b / (1 - a)
            out.append(below(f"h = {h} s: without truncation, error by the closed form", np.abs(exact - closed(a, b, w, 1, STEPS)).max() / size, 1e-10))
            for decay, window, clip, given in ((5.1, 0, 0, w), (0, 0.25, 0, w), (5.1, 0.25, 0, w), (2.0, 0, 0.5, only)):
                # one cotangent at the end is clipped there, and shrinks from then on
                start = np.clip(given, -clip, clip) if clip else given
                want = closed(a, b, start, np.exp(-decay * h), int(round(window / h)) or STEPS)
                got = measured(m, given, decay=decay, window=window, clip=clip)
                out.append(below(f"h = {h} s: decay {decay} /s, window {window} s, clip {clip}: error by the closed form", np.abs(got - want).max() / size, 1e-10))
                small = measured(m, given, budget=20000, decay=decay, window=window, clip=clip)
                out.append(row(f"h = {h} s: decay {decay} /s, window {window} s, clip {clip}: from a small tape", "equal bits" if (small == got).all() else "other bits", "equal bits", (small == got).all()))
            # what acts in one second at the end has the same weight at every time step
            bias = measured(m, only, decay=5.1)[-int(round(1 / h))] / measured(m, only)[-int(round(1 / h))]
            out.append(below(f"h = {h} s: weight of what acts 1 s before the end, relative error by exp(-5.1)", abs(bias / np.exp(-5.1) - 1), 1e-10))
            idle = measured(m, w, window=np.inf, clip=np.inf)
            out.append(row(f"h = {h} s: an infinite window and clip", "equal bits" if (idle == exact).all() else "other bits", "equal bits", (idle == exact).all()))
        out += curve(bench)
    return out
