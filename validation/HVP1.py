"""Hessian-vector products of rollouts

The product of a loss's Hessian and a direction through contact, limits and actuators (`Rollout.hvp`): half the squares of all
velocities of 60 steps, by the initial state and all controls. It must be that of extrapolated differences of the gradient,
symmetric, and cost at most six gradients: a gradient is a rollout and its pullback; a product is a rollout, its tangents, which
the loss's own second derivatives need, and the pullback along the direction. The models are one of the examples' hopper and
quadruped, Gymnasium's hopper, ant and humanoid, and a humanoid of 62 degrees of freedom; each has come to rest on its feet or
fallen."""
import os

import gymnasium
import numpy as np

from common import EXAMPLES, ROOT, below, ratio, timing

import pullback as pb

ASSETS = os.path.join(os.path.dirname(gymnasium.__file__), "envs", "mujoco", "assets")
MODELS = {"hopper of the examples": os.path.join(EXAMPLES, "hopper", "hopper.xml"),
          "quadruped": os.path.join(EXAMPLES, "quadruped", "quadruped.xml"),
          "hopper": os.path.join(ASSETS, "hopper.xml"), "ant": os.path.join(ASSETS, "ant.xml"),
          "humanoid": os.path.join(ASSETS, "humanoid.xml"),
          "humanoid of 62 dof": os.path.join(ROOT, "tests", "oracle", "models", "humanoid62.xml")}
STEPS, BEFORE, PAIRS = 60, 150, 15
BASES = np.geomspace(1e-3, 1e-7, 25)  # moves of differences


class Product:
    """A loss about a state and controls; points are x0 exp(w) and the controls, side by side."""

    def __init__(self, path):
        self.m = m = pb.load(path)
        rng, self.n = np.random.default_rng(0), len(m.tangent_names)
        with m.rollout(m.init(), .2 * rng.normal(size=(BEFORE, m.nu)), keep=False) as r:
            self.start = r.final
        self.ctrl = .2 * rng.normal(size=(STEPS, m.nu))
        self.ways = rng.normal(size=(2, self.n + self.ctrl.size))
        self.ways[:, :self.n] *= .1

        # rotations, three places each
        kinds, at = m._field("jnt_type"), m._field("jnt_dofadr")
        self.turns = [a + (3 if k == 0 else 0) for k, a in zip(kinds, at) if k in (0, 1)]

    def gradient(self, way=None, h=0.0):
        m, x, u = self.m, self.start, self.ctrl
        if way is not None:
            x, u = m.integrate(x, h * way[:self.n]), u + h * way[self.n:].reshape(u.shape)
        with m.rollout(x, u) as r:
            g = r.vjp(qvel=r.qvel, check=False)
        by_state = np.array(g.state)
        for k in self.turns if way is not None else ():
            by_state[k:k + 3] += np.cross(h * way[k:k + 3], by_state[k:k + 3]) / 2
        return np.concatenate([by_state, g.ctrl.ravel()])

    def product(self, way):
        with self.m.rollout(self.start, self.ctrl) as r:
            along = {"state": way[:self.n], "ctrl": way[self.n:].reshape(self.ctrl.shape)}
            g = r.hvp(along, {"qvel": r.qvel}, lambda t: {"qvel": t.qvel})
        return np.concatenate([g.state, g.ctrl.ravel()])

    def off(self, product):
        """Of the largest number, where it is least: over a kink differences say nothing, and of short moves rounding is more."""
        least = np.inf
        for base in BASES:
            ahead, behind = ([self.gradient(self.ways[0], sign * base * 2**k) for k in range(4)] for sign in (1, -1))
            quotients = [(a - b) / (2 * base * 2**k) for k, (a, b) in enumerate(zip(ahead, behind))]
            for order in 2, 4, 6:  # what is left goes with the next power
                quotients = [a + (a - b) / (2**order - 1) for a, b in zip(quotients, quotients[1:])]
                least = min(least, np.abs(product - quotients[0]).max() / np.abs(product).max())
        return least


def rows():
    out = []
    for name, path in MODELS.items():
        p = Product(path)
        one, other = p.product(p.ways[0]), p.product(p.ways[1])
        terms = np.abs(p.ways[1] * one).sum()
        out += [below(f"{name}: off from differences of gradients, of the largest number", p.off(one), 1e-9),
                below(f"{name}: not symmetric, of the sum of terms", abs(p.ways[1] @ one - p.ways[0] @ other) / terms, 1e-12)]
        p.gradient()
        cost = ratio(p.gradient, lambda: p.product(p.ways[0]), PAIRS)
        what = f"{name}, {p.m.nv} dof, {len(p.m.contacts(p.start))} contacts: a product by a gradient, time"
        out += [timing(what, cost, "<= 6", cost <= 6)]
    return out
