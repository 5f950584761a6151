"""Energy of unforced runs by backward Euler

Energy of unforced runs by backward Euler: where it is convex it never grows, whatever the step; where it is not, a ledger says to the
last digits what came and went."""
import numpy as np

from common import below, row
import deform
from elements import cube, with_middles

STEPS = 40


class Body:
    """A cube of tetrahedra, thrown about: strained, turning, two points held. Gravity is off."""

    def __init__(self, law, h, quadratic=False, stretch=0.4, spin=3.0, young=1e4):
        X, cells = cube(2)
        self.X, self.cells = with_middles(X, cells) if quadratic else (X, cells)
        kind = "tetrahedron10" if quadratic else "tetrahedron"
        rng = np.random.default_rng(7)
        start = self.X + 0.05 * rng.normal(size=self.X.shape) * (0.3 if quadratic else 1)
        start[:, 2] += stretch * self.X[:, 2]
        velocity = spin * np.cross([0.3, 1, 0.2], self.X - 0.5) + 0.5 * rng.normal(size=self.X.shape)
        held = [0, len(X) - 1]
        start[held], velocity[held] = self.X[held], 0
        self.w = w = deform.World(float(h))
        w.points(self.X, start=start, velocity=velocity)
        w.material("flesh", f"{law}_{kind}", self.cells, young=young, poisson=0.3)
        w.material("mass", f"mass_{kind}", self.cells, density=100.0)
        w.fix(held)
        w.freeze(tolerance=1e-13)
        formula, self.values = deform.material(f"{law}_{kind}")
        self.values.update(young=young, poisson=0.3)
        self.energy = deform.Energy(formula, self.cells.shape[1], **{k: () for k in self.values})
        D = self.X[self.cells[:, 1:4]] - self.X[self.cells[:, :1]]
        self.mass = np.zeros(len(self.X))
        np.add.at(self.mass, self.cells, 100 * np.abs(np.linalg.det(D))[:, None] / 6 / self.cells.shape[1])
        s = deform.Rollout(w, STEPS).run()
        self.x, self.v = w.x(s), w.v(s)

    def potential(self, x):
        value, each, _ = self.energy.evaluate(x, self.cells, self.X, **self.values)
        force = np.zeros_like(x)
        np.add.at(force, self.cells, each)
        return value.sum(), force

    def ledger(self):
        """Energy at every step, and in each step: what the scheme takes, |dv|^2_M/2, and what the energy's shape adds: V+ - V - V'+ dx,
        which is never positive where V is convex."""
        V, G = zip(*(self.potential(x) for x in self.x))
        kinetic = 0.5 * np.sum(self.mass[:, None] * self.v**2, axis=(1, 2))
        taken = 0.5 * np.sum(self.mass[:, None] * np.diff(self.v, axis=0)**2, axis=(1, 2))
        shape = np.diff(V) - np.sum(np.array(G)[1:] * np.diff(self.x, axis=0), axis=(1, 2))
        return np.array(V) + kinetic, taken, shape


def well(h, k=20.0):
    """(energies, ledger's gap) of a point rolling over the hill between two wells, k/4 (x^2 - 1)^2: not convex on the hill."""
    w = deform.World(h)
    w.points(np.array([[-1.2, 0, 0]]), 1.0, velocity=[[4.0, 0, 0]])
    w.energy("well", "0.25*k*(dot(x0, x0) - 1)^2", [[0]], k=k)
    w.freeze(tolerance=1e-14)
    s = deform.Rollout(w, STEPS).run()
    x, v = w.x(s)[:, 0, 0], w.v(s)[:, 0, 0]
    V, slope = 0.25 * k * (x * x - 1)**2, k * x * (x * x - 1)
    E = V + 0.5 * v * v
    return E, np.abs(np.diff(E) + 0.5 * np.diff(v)**2 - (np.diff(V) - slope[1:] * np.diff(x))).max() / E[0]


def rows():
    out = []
    for quadratic in (False, True):
        worst, closes = -np.inf, 0
        for h in (1e-3, 1e-2, 1e-1, 1.0):
            E, taken, shape = Body("linear", h, quadratic).ledger()
            worst = max(worst, np.max(np.diff(E)) / E[0])
            closes = max(closes, np.max(np.abs(np.diff(E) + taken - shape)) / E[0])
        name = "quadratic" if quadratic else "linear"
        out += [below(f"linear law, {name} tetrahedra, h = .001 to 1: largest growth of the energy in a step over that at the start", worst, 1e-12),
                below("... ledger: change + |dv|^2/2 - (V+ - V - V'+ dx) over the energy at the start", closes, 1e-9)]
    for law in ("neo_hookean", "stvk", "corotated"):
        closes, grown, bent = 0, [], 0
        for h in (1e-3, 1e-2, 1e-1):
            E, taken, shape = Body(law, h, stretch=-0.3, spin=6.0).ledger()
            closes = max(closes, np.max(np.abs(np.diff(E) + taken - shape)) / E[0])
            grown.append(f"{np.sum(np.diff(E) > 0)}")
            bent += int(np.sum(shape > 0))
            last = E[-1] / E[0]
        out += [below(f"{law}, h = .001 to .1: ledger, over the energy at the start", closes, 1e-9),
                row(f"... steps of {STEPS} in which the energy grew, h = .001, .01, .1 (not convex in {bent} of {3 * STEPS})", ", ".join(grown), "reported", True),
                row("... energy left at the end of the last", last, "<= 1", last <= 1)]
    E, gap = well(0.01)
    grown = np.diff(E) > 0
    return out + [row(f"a point over the hill between two wells: steps of {STEPS} in which the energy grew", int(grown.sum()), "> 0: not convex there", grown.any()),
                  row("... the largest growth in a step over the energy at the start", np.max(np.diff(E)) / E[0], "reported", True), below("... ledger", gap, 1e-12)]
