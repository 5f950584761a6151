"""Springs stepped by minimization

Inertia as one more energy: springs stepped by minimization. Energies against independently measured ones, the adjoint against
difference quotients and against the derivative of an unrolled solver in NumPy."""
import numpy as np

from common import apart, below, near, row, slope
import deform
import springs
from springs import ENDS, REST, X

H = 0.033
BACKWARD = {("hookean", 8): (0.540458312, 1.406059e-4), ("hookean", 80): (1.169978e-3, 6.951495e-4),
            ("stvk", 8): (0.09655909, 0.07121621), ("stvk", 80): (0.42141174, 0.20408150)}
START = {("hookean", 8): 1.8830556461, ("hookean", 80): 18.8305564612, ("stvk", 8): 21.7508, ("stvk", 80): 217.508}
SYMPLECTIC = {("hookean", 8): 1.9864191757, ("hookean", 80): 22.671422354, ("stvk", 8): 21.538679560}
AVF = {("hookean", 8): 1.8830556762, ("hookean", 80): 18.830214866}


def energies(kind, k, scheme, steps):
    """H at every step."""
    w = springs.world(kind, k, scheme)
    s = deform.Rollout(w, steps).run()
    return springs.energy(kind, k, w.x(s)) + 0.5 * np.sum(w.v(s)**2, axis=(-1, -2))


def blow_up():
    """The first step whose energy is above 1e6."""
    w = springs.world("stvk", 80, "symplectic_euler")
    s = w.start()
    for step in range(1, 1001):
        s, _ = w.step(s)
        if not springs.energy("stvk", 80, w.x(s)) + 0.5 * np.sum(w.v(s)**2) < 1e6:
            return step
    return 0


class Gradients:
    """w . x_100 and its derivatives by (k, l0, m, x0, v0), 19 numbers."""
    def __init__(self, kind, k, scheme, method="newton", steps=100):
        self.kind, self.scheme, self.steps = kind, scheme, steps
        self.size = 5e-6 if k == 80 else 1e-4  # of differences: trajectories of stiff springs are close to chaos
        tight = {} if method == "newton" else {"residual": 1e-10}
        self.world = springs.world(kind, k, scheme, method, H, **tight)
        noise = np.random.default_rng(4)
        self.weights = noise.standard_normal((3, 2))
        self.at = np.concatenate([[k], REST, 1 + 0.3 * noise.uniform(size=3), X.ravel(), 0.3 * noise.standard_normal(6)])

    def inputs(self, p):
        return p[0], p[1:4], p[4:7], p[7:13].reshape(3, 2), p[13:].reshape(3, 2)

    def run(self, p):
        w = self.world
        k, rest, mass, x, v = self.inputs(p)
        self.rollout = deform.Rollout(w, self.steps)
        s = self.rollout.run(w.start(x, v), theta=w.with_params(springs__k=k, springs__l0=rest[:, None], point_mass=mass[:, None]))
        return np.sum(self.weights * w.x(s[-1])[:, :2])

    def adjoint(self):
        w = self.world
        self.run(self.at)
        g = self.rollout.pull(np.pad(self.weights, ((0, 0), (0, 1))))
        of = lambda name: np.ravel(w.param(g["theta"], name))
        return np.concatenate([of("springs.k"), of("springs.l0"), of("point_mass"), g["x"][:, :2].ravel(), g["v"][:, :2].ravel()])

    def differences(self):
        return np.array([slope(lambda t: self.run(self.at + t * d), self.size * max(1, abs(a))) for a, d in zip(self.at, np.eye(19))])

    def unrolled(self, most=60):
        p = self.at + 1e-100j * np.eye(19)
        k, rest, mass, x, v = p[:, :1], p[:, 1:4], p[:, 4:7], p[:, 7:13].reshape(19, 3, 2), p[:, 13:].reshape(19, 3, 2)
        last = springs.unrolled(self.kind, self.scheme, H, self.steps, x, v, k, rest, mass, most=most)
        return np.sum(self.weights * last, axis=(1, 2)).imag / 1e-100


def rows():
    out = []
    for (kind, k), start in START.items():
        label, e = f"{kind} springs, k = {k}", energies(kind, k, "implicit_euler", 1000)
        out.append(below(f"{label}: energy at the start against {start}, relative", abs(e[0] / start - 1), 1e-10))
        for at, wanted in zip((100, 1000), BACKWARD[kind, k]):
            out.append(below(f"{label}: implicit Euler, energy after {at} steps against {wanted:g}, relative", abs(e[at] / wanted - 1), 1e-6))
        if (kind, k) in SYMPLECTIC:
            found = energies(kind, k, "symplectic_euler", 100)[-1]
            out.append(below(f"{label}: symplectic Euler, energy after 100 steps against {SYMPLECTIC[kind, k]}, relative", abs(found / SYMPLECTIC[kind, k] - 1), 1e-6))
        e = energies(kind, k, "avf4", 1000)
        if kind == "stvk":
            out.append(below(f"{label}: AVF4, drift of the energy over 1000 steps, relative", np.max(np.abs(e / e[0] - 1)), 1e-9))
        else:
            out.append(below(f"{label}: AVF4, energy after 100 steps against {AVF[kind, k]}, relative", abs(e[100] / AVF[kind, k] - 1), 1e-6))
    e = energies("hookean", 8, "symplectic_euler", 1000)
    out += [near(f"hookean springs, k = 8: symplectic Euler, {n} energy of 1000 steps", v, w, 5e-5) for n, v, w in (("least", e.min(), 1.7508), ("largest", e.max(), 2.0304))]
    e = energies("hookean", 8, "avf4", 1000)
    out += [near(f"hookean springs, k = 8: AVF4, {n} energy of 1000 steps", v, w, 5e-8) for n, v, w in (("least", e.min(), 1.8830548), ("largest", e.max(), 1.8830576))]
    step = blow_up()
    out.append(row("stvk springs, k = 80: symplectic Euler, first step with an energy above 1e6", step, 11, step == 11))
    for kind, k, scheme, method in [(kind, k, s, "newton") for kind, k in (("hookean", 8), ("hookean", 80), ("stvk", 8))
                                    for s in ("implicit_euler", "bdf2", "trapezoid", "avf4")] + [
                                        ("hookean", 80, "implicit_euler", m) for m in ("newton_cg", "lbfgs", "gradient")]:
        g = Gradients(kind, k, scheme, method)
        found, label = g.adjoint(), f"{kind}, k = {k}, {scheme}" + (f", {method}" if method != "newton" else "")
        out.append(below(f"{label}: d(x100)/d(k, l0, m, x0, v0) against the unrolled solver, relative", apart(found, g.unrolled()), 1e-8))
        out.append(below(f"{label}: ... against difference quotients, relative", apart(found, g.differences()), 1e-6))
    short = Gradients("hookean", 80, "implicit_euler", steps=10)
    exact = short.adjoint()
    gaps = [apart(short.unrolled(n), exact) for n in range(1, 8)]
    good = all(b <= max(0.5 * a, 1e-12) for a, b in zip(gaps, gaps[1:])) and gaps[0] > 0.01 and gaps[-1] <= 1e-12
    return out + [row("10 steps: solver stopped after 1, 2, ... 7 iterations a step and unrolled: gap of its gradient to the implicit one", ", ".join(f"{g:.1e}" for g in gaps),
                      "> 0.01, falls at least by half each, <= 1e-12", good)]
