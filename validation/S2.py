"""Bending frequency of a beam

A clamped beam that vibrates freely: its first bending frequency, from a run, against Euler and Bernoulli's, with its gradient."""
import numpy as np

from common import below, row
import deform
import solids

E, NU, RHO, L, D = 1e7, 0.3, 1000.0, 1.0, 0.02
ROOT, H, STEPS = 1.8751040687119611, 0.02, 160
EXACT = ROOT**2 * np.sqrt(E / (1 - NU**2) * D**2 / 12 / RHO) / L**2  # rad/s: ROOT^2 sqrt(EI/(rho A L^4)), plane strain
NAMES, POWERS = ("young", "density", "length", "depth"), np.array([0.5, -0.5, -2, 1])


def first_mode(X, cells, held):
    """(shape, masses) by inverse iteration, masses lumped as the library does it."""
    d = X[cells[:, 1:3]] - X[cells[:, :1]]
    mass = np.zeros(len(X))
    np.add.at(mass, cells, (RHO * np.cross(d[:, 0], d[:, 1])[:, 2] / 12)[:, None])
    formula, values = deform.material("linear_triangle6")
    values.update(young=E, poisson=NU)
    each = deform.Energy(formula, 6, **{k: () for k in values}).evaluate(X, cells, X, hessian=True, **values)[2]
    at = (3 * cells[:, :, None] + np.arange(3)).reshape(len(cells), -1)
    K = np.zeros((X.size, X.size))
    np.add.at(K, (at[:, :, None], at[:, None, :]), each)
    free = np.flatnonzero(np.repeat(~held, 3) & (np.arange(X.size) % 3 < 2))
    inverse, phi = np.linalg.inv(K[np.ix_(free, free)]), np.tile([0, 1.0, 0], len(X))[free]
    for _ in range(15):
        phi = inverse @ (np.repeat(mass, 3)[free] * phi)
        phi /= np.abs(phi).max()
    shape = np.zeros(X.size)
    shape[free] = phi
    return shape.reshape(X.shape), mass


class Beam:
    def __init__(self, nx):
        self.X, cells = solids.strip(nx, 2, L, D)
        held = self.X[:, 0] < 1e-9
        shape, mass = first_mode(self.X, cells, held)
        self.watch = shape * mass[:, None]  # other modes do not show in it
        w = deform.World(H)
        w.points(self.X[:, :2], start=(self.X + 0.01 * shape)[:, :2])
        w.material("flesh", "linear_triangle6", cells, young=E, poisson=NU)
        w.material("mass", "mass_triangle6", cells, density=RHO)
        w.fix(np.flatnonzero(held))
        self.rollout = deform.Rollout(w.freeze("trapezoid"), STEPS)
        x = w.x(self.rollout.run())
        self.q = np.tensordot(x - self.X, self.watch, 2)

    def frequency(self):
        """(rad/s, its derivatives by NAMES over frequency/quantity): cos(w~ h) fits q+ + q- = 2 cos(w~ h) q; the trapezoid turns by
        tan(w~ h/2) = w h/2."""
        q = self.q
        above, under = np.sum((q[2:] + q[:-2]) * q[1:-1]), 2 * np.sum(q[1:-1]**2)
        c = above / under
        turn = np.arccos(c)
        bar = np.zeros_like(q)
        bar[1:-1] += q[2:] + q[:-2] - 4 * c * q[1:-1]
        bar[2:] += q[1:-1]
        bar[:-2] += q[1:-1]
        bar *= -1 / (H * np.sin(turn) * np.cos(turn / 2)**2) / under
        g = self.rollout.pull(bar[:, None, None] * self.watch)
        w, omega = self.rollout.m, 2 / H * np.tan(turn / 2)
        of = lambda name: w.param(g["theta"], name)
        bar_X = of("point_rest") + g["x"] - bar.sum() * self.watch  # the body and where it starts
        return omega, np.array([of("flesh.young").item() * E, of("mass.density").item() * RHO, bar_X[:, 0] @ self.X[:, 0], bar_X[:, 1] @ self.X[:, 1]]) / omega


def rows():
    gaps, out = [], []
    for nx in (20, 40, 80):
        omega, powers = Beam(nx).frequency()
        gaps.append([omega / EXACT - 1, *(powers / POWERS - 1)])
    gaps = np.abs(gaps)
    out.append(below("first bending frequency, L/D = 50, 320 quadratic triangles, against 1.8751^2 sqrt(EI/(rho A L^4)), relative", gaps[-1, 0], 2e-3))
    out.append(row("... with 80, 160, 320 triangles", ", ".join(f"{g:.1e}" for g in gaps[:, 0]), "shrinks", np.all(np.diff(gaps[:, 0]) < 0)))
    for name, found, limit in zip(NAMES, gaps[-1, 1:], (1e-8, 1e-8, 2e-3, 2e-3)):
        out.append(below(f"d(frequency)/d({name}) against {POWERS[NAMES.index(name)]:g} frequency/{name}, relative", found, limit))
    return out
