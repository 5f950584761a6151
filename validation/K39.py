"""Hanging and moving cloth

Cloth of 50 x 50 points: it hangs at a minimum of its energy, its bending stiffness is found from where a noisy camera sees it hang, and it
meets itself without passing through when its corners are drawn together."""
import numpy as np

from common import below, row, slope
import deform
import scenes

SIDE, SIZE = 49, 0.5
TRUTH, NOISE = 2e-4, 2e-3  # N m; m
CLOTH = {"young": 2e4, "density": 200.0, "thickness": 1e-3}


def sheet():
    return deform.World(.02, (0, 0, -9.81)), *scenes.grid(SIDE, SIDE, SIZE, SIZE)


class Clamped:
    """Two rows of points held level, as over the edge of a table: what is free hangs down by its own weight."""

    def __init__(self):
        self.w, X, self.triangles = sheet()
        self.X = X
        self.w.points(X)
        scenes.cloth(self.w, "cloth", self.triangles, bending=TRUTH, **CLOTH)
        self.w.fix(np.flatnonzero(X[:, 0] < -SIZE / 2 + 1.5 * SIZE / SIDE))
        self.w.freeze("static", tolerance=1e-9)
        self.rollout = deform.Rollout(self.w, 1)

    def hang(self, bending, start=None):
        w = self.w
        return w.x(self.rollout.run(w.start(start), theta=w.with_params(cloth_bend__bending=bending))[-1])

    def potential(self, x):
        value, gradient = self.w.evaluate(x, self.X)
        m = CLOTH["density"] * CLOTH["thickness"] * self.share()
        return value + 9.81 * m @ x[:, 2], gradient + 9.81 * np.outer(m, [0, 0, 1])

    def share(self):
        """Area of each point."""
        a = np.zeros(len(self.X))
        np.add.at(a, self.triangles, (SIZE / SIDE)**2 / 6)
        return a


def minimum():
    c = Clamped()
    x = c.hang(TRUTH)
    value, gradient = c.potential(x)
    free = c.X[:, 0] >= -SIZE / 2 + 1.5 * SIZE / SIDE
    r, rises = np.random.default_rng(1), []
    for size in (1e-5, 1e-4, 1e-3):
        for _ in range(5):
            d = r.standard_normal(x.shape) * free[:, None]
            rises.append(c.potential(x + size * d)[0] - value)
    weight = 9.81 * CLOTH["density"] * CLOTH["thickness"] * SIZE**2
    return c, x, [below("hanging: largest force left over, by the weight of the sheet", np.max(np.abs(gradient[free])) / weight, 1e-8),
                  row("hanging: least rise of the energy by 15 random moves of 10 um to 1 mm [J]", min(rises), "> 0", min(rises) > 0),
                  row("hanging: drop of the lowest point [m]", d := -x[:, 2].min(), ">= 0.25", d >= .25)]


def identify(c, truth):
    """Bending stiffness from noisy positions of a tenth of the points, beginning a factor of five off."""
    r = np.random.default_rng(2)
    seen = r.choice(np.flatnonzero(c.X[:, 0] > -SIZE / 4), 250, replace=False)
    measured = truth[seen] + NOISE * r.standard_normal((250, 3))

    def look(log, x):
        x = c.hang(np.exp(log), x)
        gap = x[seen] - measured
        bar = np.zeros_like(x)
        bar[seen] = 2 * gap
        g = c.rollout.pull(bar)
        return np.sum(gap * gap), np.exp(log) * c.w.param(g["theta"], "cloth_bend.bending").item(), x

    at, x, before, solves = np.log(5 * TRUTH), None, None, 0
    value, g, x = look(at, x)
    differences = slope(lambda e: np.sum((c.hang(np.exp(at + e), x)[seen] - measured)**2), 1e-3)
    error = abs(g / differences - 1)
    step = -.3 * np.sign(g)
    for solves in range(1, 21):  # secants of the slope
        at, old = at + step, (at, g)
        value, g, x = look(at, x)
        step = np.clip(-g * (at - old[0]) / (g - old[1]), -.6, .6)
        if abs(step) < 1e-4:
            break
    return [below("d(misfit)/d(bending) against differences, relative", error, 1e-5),
            below(f"bending stiffness from 250 points seen with 2 mm noise ({solves} solves), relative", abs(np.exp(at) / TRUTH - 1), .03)]


def gathered():
    """Corners of the upper edge drawn together: the sheet falls into folds that touch."""
    w, X, t = sheet()
    X = X[:, [0, 2, 1]]
    corners = np.flatnonzero((np.abs(X[:, 0]) > SIZE / 2 - 1e-9) & (X[:, 2] > SIZE / 2 - 1e-9))
    start, velocity = X + np.stack([0 * X[:, 0], 2e-3 * np.cos(40 * X[:, 0]), 0 * X[:, 0]], 1), np.zeros_like(X)
    velocity[corners, 0] = -np.sign(X[corners, 0]) * .9
    w.points(X, start=start, velocity=velocity)
    scenes.cloth(w, "cloth", t, bending=1e-5, **CLOTH)
    w.fix(corners)
    w.surface(t, radius=5e-4, own=True)
    w.contact(.003, 1, .3, .02, "lagged")
    w.freeze(tolerance=1e-7)
    x, edges, met, most = w.start(), scenes.edges_of(t), 0, 0
    for _ in range(13):
        x, _ = w.step(x)
        most = max(most, w.report().contacts)
        met += scenes.crossings(w.x(x), t, edges)
    return [row(f"gathered, {most} contacts of its own at most: edges through triangles, 13 steps of 20 ms", met, "0", met == 0),
            row("gathered: contacts of its own", most, ">= 100", most >= 100)]


def rows():
    c, x, out = minimum()
    return out + identify(c, x) + gathered()
