"""Elastic bar that hits a wall

An elastic bar that hits a wall along its length: it stays for 2 L/c, whatever its speed, and leaves with it; derivatives of the duration."""
import numpy as np

from common import below, row
import deform

L, AXIAL, DENSITY, SPEED = 1.0, 1e4, 1.0, 0.5  # m, N, kg/m, m/s
DURATION = 2 * L * np.sqrt(DENSITY / AXIAL)
NAMES, POWERS = ("axial stiffness", "density", "length", "speed"), np.array([-0.5, 0.5, 1, 0])


class Bar:
    """n links along z; the barrier begins at the end. Step and barrier shrink with the links."""

    def __init__(self, n):
        self.n, self.h, gap = n, DURATION / (4 * n), 0.1 * SPEED * L / np.sqrt(AXIAL / DENSITY) / n
        self.X = np.zeros((n + 1, 3))
        self.X[:, 2] = gap + L * np.arange(n + 1) / n
        w = deform.World(float(self.h))
        w.points(self.X, velocity=np.tile([0, 0, -SPEED], (n + 1, 1)))
        edges = np.stack([np.arange(n), np.arange(1, n + 1)], 1)
        w.material("links", "rod_stretch", edges, axial=AXIAL)
        w.material("mass", "mass_edge", edges, density=DENSITY)
        w.fix(np.arange(n + 1), "xy")
        w.surface(points=[0])
        w.plane()
        w.contact(gap, SPEED * np.sqrt(AXIAL * DENSITY) / (4.33 * gap))
        self.w = w.freeze("bdf2", tolerance=1e-13)
        self.steps = int(1.5 * DURATION / self.h)
        self.rollout = deform.Rollout(w, self.steps)
        self.mass = DENSITY * L / n * np.ones(n + 1)
        self.mass[[0, -1]] /= 2

    def duration(self):
        """Twice the time at which the wall's push has its center, from the momentum p: t = sum t dp/sum dp; and its derivatives by
        NAMES, each times quantity/duration."""
        w, X, M = self.w, self.X, self.mass
        s = self.rollout.run()
        v = w.v(s)[:, :self.n + 1, 2]
        p = v @ M
        t = self.h * np.arange(self.steps + 1)
        push = np.diff(p)
        at = t[:-1] + self.h / 2
        center = at @ push / push.sum()
        bar_push = 2 * (at - center) / push.sum()
        bar_p = np.concatenate([-bar_push, [0]]) + np.concatenate([[0], bar_push])
        bar = np.zeros((self.steps + 1, w.n, 3))
        bar[:, :self.n + 1, 2] = bar_p[:, None] * M
        g = self.rollout.pull(velocity=bar)
        of = lambda name: w.param(g["theta"], name)
        x, rest = g["x"][:self.n + 1, 2], of("point_rest")[:self.n + 1, 2]
        masses = of("mass.density").item() * DENSITY  # momentum is of the same masses: no more of it by scaling
        long = (x + rest) @ (X[:, 2] - X[0, 2])
        fast = -SPEED * g["v"][:self.n + 1, 2].sum()
        self.rebound = p[-1] / (SPEED * DENSITY * L)
        self.held = 2 * center
        return 2 * center, np.array([of("links.axial").item() * AXIAL, masses, long, fast]) / (2 * center)


def rows():
    gaps, wrong, bounce = [], [], []
    for n in (25, 50, 100):
        b = Bar(n)
        T, powers = b.duration()
        gaps.append(abs(T / DURATION - 1))
        wrong.append(np.abs(powers - POWERS))
        bounce.append(abs(b.rebound - 1))
    text = lambda a: ", ".join(f"{g:.1e}" for g in a)
    out = [below("100 links: time at the wall against 2 L/c, relative", gaps[-1], 0.02),
           row("... of 25, 50, 100 links", text(gaps), "shrinks", np.all(np.diff(gaps) < 0)),
           below("momentum it leaves with against that it came with, relative", bounce[-1], 0.02),
           row("... of 25, 50, 100 links", text(bounce), "shrinks", np.all(np.diff(bounce) < 0))]
    for name, power, found in zip(NAMES, POWERS, np.transpose(wrong)):
        out.append(row(f"d(time)/d({name}) over time/{name} against {power:g}; 25, 50, 100 links", text(found), "<= 0.05, shrinks", found[-1] <= 0.05 and found[-1] < found[0]))
    return out
