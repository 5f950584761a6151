"""Thrown cloth: implicit against explicit steps

A sheet of 16 x 16 squares thrown, tumbling, so that its middle is at a target after 2 s: 120 implicit steps against 1920 explicit ones
of the same sheet (as Newton's example of a differentiable cloth takes them), in time, memory and error of the gradient."""
import time

import numpy as np

from common import apart, below, inside, row, slope, timing
import deform
import scenes

TARGET, MIDDLE, SECONDS = np.array([0, 6., 0]), 8 * 17 + 8, 2.0


class Throw:
    """By the velocity the whole sheet starts with, and how fast it turns."""

    def __init__(self, scheme, steps):
        X, t = scenes.grid(16, 16, 1.6, 1.6)
        self.w = w = deform.World(SECONDS / steps, (0, 0, -9.81))
        w.points(X + [0, 0, 2])
        scenes.cloth(w, "cloth", t, young=2e4, density=500, bending=1e-3)
        w.freeze(scheme)
        self.plan = inside.native.pbRolloutPlan()
        inside.native.pbRollout_Plan(w.ctx, w.ptr, steps, 0, self.plan)
        self.rollout, self.spin = deform.Rollout(w, steps), np.cross([.5, 1., 1.], X) * (1 + X[:, :1])

    def loss(self, p):
        """(loss, gap): gap of the middle to the target."""
        w = self.w
        begin = time.process_time()
        gap = w.x(self.rollout.run(w.start(v=p[:3] + p[3] * self.spin))[-1])[MIDDLE] - TARGET
        self.forward = time.process_time() - begin
        return gap @ gap, gap

    def gradient(self, p):
        _, gap = self.loss(p)
        bar = np.zeros((self.w.n, 3))
        bar[MIDDLE] = 2 * gap
        begin = time.process_time()
        v = self.rollout.pull(bar)["v"]
        self.backward = time.process_time() - begin
        return np.append(v.sum(0), np.sum(v * self.spin))


def search(throw, p, most=30):
    """BFGS with halved steps."""
    B, value, g = np.eye(4) / 8, throw.loss(p)[0], throw.gradient(p)
    for k in range(most):
        step = -B @ g
        for _ in range(12):
            trial = throw.loss(p + step)[0]
            if trial < value + 1e-4 * g @ step:
                break
            step = step / 2
        p, before = p + step, g
        value, g = trial, throw.gradient(p)
        if value < 1e-8:
            return p, k + 1
        y = g - before
        if y @ step > 0:
            V = np.eye(4) - np.outer(step, y) / (y @ step)
            B = V @ B @ V.T + np.outer(step, step) / (y @ step)
    return p, most


def rows():
    out, cost, share, p = [], {}, {}, np.array([.3, 1., 6., 1.])
    for name, scheme, steps in (("120 implicit steps", "implicit_euler", 120), ("1920 explicit steps", "symplectic_euler", 1920)):
        throw = Throw(scheme, steps)
        found = throw.gradient(p)
        times = [(throw.forward, throw.backward)]  # of neighbors in time
        for _ in range(6):
            throw.gradient(p)
            times.append((throw.forward, throw.backward))
        forward, backward = np.median(times, axis=0)
        share[steps] = float(np.median([b / f for f, b in times]))
        wanted = np.array([slope(lambda e: throw.loss(p + e * d)[0], 1e-3) for d in np.eye(4)])
        cost[steps] = forward, backward, throw.plan.full_bytes
        out += [row(f"{name}: forward", f"{forward:.3f} s", "reported", True), row(f"{name}: gradient", f"{backward:.3f} s", "reported", True),
                row(f"{name}: tape, and room for factors kept beside it at will", f"{cost[steps][2] / 1e6:.1f} MB, {throw.plan.cached_bytes / 1e6:.1f} MB", "reported", True),
                below(f"{name}: gradient against differences, relative", apart(found, wanted), 1e-6)]
        best, taken = search(throw, p)
        out.append(below(f"{name}: distance of the middle from the target [m], found by gradient", np.linalg.norm(throw.loss(best)[1]), 1e-3))
        out.append(row(f"{name}: iterations of BFGS", taken, "<= 30", taken <= 30))
    out.append(timing("gradient by the gradient of 120 implicit steps over its forward run, median of pairs", share[120], "<= 0.3", share[120] <= 0.3))
    out.append(below("tape of the implicit steps by that of the explicit ones", cost[120][2] / cost[1920][2], 0.1))
    out.append(row("time of forward and gradient, implicit by explicit", sum(cost[120][:2]) / sum(cost[1920][:2]), "reported", True))
    return out
