"""Young's modulus and Poisson's ratio of a beam

Young's modulus and Poisson's ratio of a beam from its noisy deflection under an oblique pull. The truth comes from a finer mesh
than the fit, so that the answer is not in the question."""
import numpy as np
from scipy.optimize import least_squares

from common import apart, below, row, slope
import deform
import soft

LENGTH, DEPTH, YOUNG, POISSON, FORCE = 1.0, 0.25, 2e5, 0.35, (5000.0, -400.0)
NOISE = 0.002  # of the largest deflection


def beam(nx, ny, order):
    x, cells = soft.sheet(nx, ny, LENGTH, DEPTH)
    if order == 2:
        x, cells = soft.quadratic(x, cells)
    w = deform.World(0.01)
    w.points(x, 1.0)
    w.material("beam", "neo_hookean_log_triangle6" if order == 2 else "neo_hookean_log_triangle", cells, young=YOUNG, poisson=POISSON)
    nodes, f = soft.end_load(x, LENGTH, FORCE, order)
    w.energy("load", soft.LOAD, nodes[:, None], per_element=("f",), f=f)
    w.fix(np.flatnonzero(x[:, 0] < 1e-9))
    w.freeze("static")
    w.rest = x
    return w


def seen(w, places):
    """Points at these places of the rest shape."""
    return np.array([np.argmin(np.sum((w.rest - p)**2, axis=1)) for p in places])


class Fit:
    def __init__(self):
        self.places = np.array([[a, b] for a in np.linspace(0.05, 1, 20) for b in (0, DEPTH)]) * [LENGTH, 1]
        truth = beam(60, 16, 2)
        s = deform.Rollout(truth, 1).run()[-1]
        self.clean = truth.x(s)[seen(truth, self.places), :2]
        self.deflection = np.max(np.abs(self.clean - self.places))
        self.w = beam(20, 4, 2)
        self.points, self.rollout = seen(self.w, self.places), deform.Rollout(self.w, 1)

    def theta(self, p):
        return self.w.with_params(beam__young=np.exp(p[0]), beam__poisson=p[1])

    def shape(self, p):
        return self.w.x(self.rollout.forward(self.w.start(), theta=self.theta(p)))[self.points, :2]

    def loss(self, p, data):
        return 0.5 * np.sum((self.shape(p) - data)**2)

    def gradient(self, p, data):
        bar = np.zeros((self.w.n, 3))
        bar[self.points, :2] = self.shape(p) - data
        g = self.rollout.pull(bar)["theta"]
        return np.array([self.w.param(g, "beam.young")[0, 0] * np.exp(p[0]), self.w.param(g, "beam.poisson")[0, 0]])

    def jacobian(self, p):
        """By forward derivatives."""
        columns = []
        self.shape(p)
        for name, factor in (("beam.young", np.exp(p[0])), ("beam.poisson", 1)):
            way = np.zeros(self.w.ntheta)
            self.w.param(way, name)[:] = factor
            columns.append(self.rollout.jvp(theta=way)[-1][:3 * self.w.n].reshape(-1, 3)[self.points, :2].ravel())
        return np.stack(columns, axis=1)

    def solve(self, data, start):
        found = least_squares(lambda p: (self.shape(p) - data).ravel() / self.deflection, start, jac=lambda p: self.jacobian(p) / self.deflection, method="lm", xtol=1e-12)
        return found.x, found.nfev


def rows():
    fit, noise = Fit(), np.random.default_rng(3)
    start = np.array([np.log(YOUNG / 3), 0.1])
    truth = np.array([np.log(YOUNG), POISSON])
    data = fit.clean
    g = fit.gradient(start, data)
    quotient = [slope(lambda s: fit.loss(start + s * e, data), 1e-3) for e in np.eye(2)]
    out = [row("deflection of the tip by the span", fit.deflection / LENGTH, "reported", True),
           below("gradient by both at the start against difference quotients, relative", apart(g, quotient), 1e-7)]
    p, n = fit.solve(data, start)
    out += [below("without noise: Young's modulus off by, relative (what the meshes differ by)", abs(np.exp(p[0]) / YOUNG - 1), 0.002),
            below("without noise: Poisson's ratio off by, relative", abs(p[1] / POISSON - 1), 0.005)]
    sigma = NOISE * fit.deflection
    J = fit.jacobian(truth)
    least = sigma * np.sqrt(np.diag(np.linalg.inv(J.T @ J)))
    trials = np.array([fit.solve(data + sigma * noise.standard_normal(data.shape), start)[0] for _ in range(10)])
    young, poisson = np.abs(np.exp(trials[:, 0]) / YOUNG - 1), np.abs(trials[:, 1] / POISSON - 1)
    return out + [
        row("noise, by the largest deflection; points seen", f"{NOISE:g}, {len(fit.places)}", "reported", True),
        row("Cramer-Rao deviation of Young's modulus, Poisson's ratio, relative", f"{least[0]:.2e}, {least[1] / POISSON:.2e}", "reported", True),
        row("of 10 recordings: Young's modulus off by, relative, root mean square (largest %.2g)" % young.max(), np.sqrt(np.mean(young**2)), "<= 0.01", np.sqrt(np.mean(young**2)) <= 0.01),
        row("of 10 recordings: Poisson's ratio off by, relative, root mean square (largest %.2g)" % poisson.max(), np.sqrt(np.mean(poisson**2)), "<= 0.01", np.sqrt(np.mean(poisson**2)) <= 0.01)]
