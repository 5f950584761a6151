"""A beam's stiffnesses from the shape it takes

A thousand stiffnesses chosen so that a loaded beam takes a prescribed shape (K42: optimization of materials): two soft bends where
a uniform beam curves evenly."""
import time

import numpy as np
from scipy.optimize import minimize

from common import below, row, timing
import deform
import soft

LENGTH, DEPTH, YOUNG, POISSON, DENSITY = 1.0, 0.05, 1e5, 0.3, 8.0
CELLS = (125, 4)


def wanted(s):
    """Places of the middle line at arc lengths s: the beam bends at .25 and .6 of its length, by .3 and .25 rad."""
    t = np.linspace(0, 1, 4001)
    angle = -0.3 / (1 + np.exp(-(t - 0.25) / 0.03)) - 0.25 / (1 + np.exp(-(t - 0.6) / 0.04))
    step = LENGTH * np.diff(t)
    x, y = (np.concatenate([[0], np.cumsum(step * f(0.5 * (angle[1:] + angle[:-1])))]) for f in (np.cos, np.sin))
    return np.stack([np.interp(s, LENGTH * t, x), np.interp(s, LENGTH * t, y) + DEPTH / 2], axis=1)


class Design:
    def __init__(self):
        x, self.cells = soft.sheet(*CELLS, LENGTH, DEPTH)
        w = self.w = deform.World(0.01, (0, -9.81, 0))
        w.points(x)
        self.count = len(self.cells)
        w.material("beam", "neo_hookean_log_triangle", self.cells, per_element=("young",), young=np.full(self.count, YOUNG), poisson=POISSON)
        w.material("weight", "mass_triangle", self.cells, density=DENSITY)
        w.fix(np.flatnonzero(x[:, 0] < 1e-9))
        w.freeze("static")
        self.middle = np.flatnonzero(np.abs(x[:, 1] - DEPTH / 2) < 1e-9)
        self.target = wanted(x[self.middle, 0])
        self.rollout, self.seconds = deform.Rollout(w, 1), {"solve": [], "gradient": []}

    def apart(self, p):
        w, begin = self.w, time.process_time()
        state = self.rollout.forward(w.start(), theta=w.with_params(beam__young=YOUNG * np.exp(p[:, None])))
        self.seconds["solve"].append(time.process_time() - begin)
        return w.x(state)[self.middle, :2] - self.target

    def rmse(self, p):
        return np.sqrt(np.mean(np.sum(self.apart(p)**2, axis=1)))

    def loss(self, p):
        w, gap = self.w, self.apart(p)
        bar = np.zeros((w.n, 3))
        bar[self.middle, :2] = gap
        begin = time.process_time()
        g = self.rollout.pull(bar)["theta"]
        self.seconds["gradient"].append(time.process_time() - begin)
        return 0.5 * np.sum(gap**2), w.param(g, "beam.young").ravel() * YOUNG * np.exp(p)


def rows():
    d = Design()
    start = np.zeros(d.count)
    rng = np.random.default_rng(5)
    way, at = rng.standard_normal(d.count), 0.3 * rng.standard_normal(d.count)
    g, quotient = d.loss(at)[1], (d.loss(at + 1e-5 * way)[0] - d.loss(at - 1e-5 * way)[0]) / 2e-5
    uniform = d.rmse(start)
    found = minimize(d.loss, start, jac=True, method="L-BFGS-B", bounds=[(-4, 4)] * d.count, options={"maxiter": 100, "ftol": 1e-9})
    solve, gradient = (np.median(d.seconds[k][5:]) for k in ("solve", "gradient"))
    tip = np.linalg.norm(d.apart(start)[-1] + d.target[-1] - [LENGTH, DEPTH / 2])
    return [row("stiffnesses", d.count, ">= 1000", d.count >= 1000),
            row("deflection of the tip by the span, uniform beam", tip / LENGTH, "reported", True),
            row("gradient along a random direction against a difference quotient, relative", abs(way @ g / quotient - 1), "<= 1e-06", abs(way @ g / quotient - 1) <= 1e-6),
            row("uniform beam: distance to the wanted shape, root mean square by span", uniform / LENGTH, "> 0.03", uniform / LENGTH > 0.03),
            below(f"after {found.nit} iterations of L-BFGS ({found.nfev} gradients): the same", d.rmse(found.x) / LENGTH, 0.01),
            row("stiffnesses found, least to largest by the start", f"{np.exp(found.x.min()):.3g} to {np.exp(found.x.max()):.3g}", "reported", True),
            timing(f"time of a gradient by that of a solve ({1e3 * solve:.3g} ms, large deflections, from rest), medians", gradient / solve, "<= 0.3",
                   gradient <= 0.3 * solve)]
