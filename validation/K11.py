"""Forces on a beam from its noisy motion

Unknown forces on a beam, varying in time, from its motion with noise. They follow controls (parameters of a load energy); the
truth runs with a quarter of the time step and another integrator. Regularized by a Gaussian process: f = K^(1/2) z, K a covariance
with a length of time, and |z|^2 is added to the misfit, as Bayes has it."""
import numpy as np
from scipy.optimize import minimize

from common import apart, below, row, slope
import deform
import soft

H, STEPS, LENGTH, DEPTH = 0.01, 100, 1.0, 0.1
NOISE, STRENGTH, CORRELATION = 0.01, 0.3, 0.06  # by the root mean square of the displacement; N; s


def beam(h, scheme):
    x, cells = soft.sheet(12, 2, LENGTH, DEPTH)
    w = deform.World(h)
    w.points(x)
    w.material("beam", "neo_hookean_log_triangle", cells, young=2e4, poisson=0.3)
    w.material("weight", "mass_triangle", cells, density=10.0)
    pushed = [int(np.argmin(np.sum((x - p)**2, axis=1))) for p in ((LENGTH, DEPTH), (LENGTH / 2, DEPTH))]
    w.energy("force", soft.LOAD, [[p] for p in pushed], per_element=("f",), control=("f",), f=np.zeros((2, 3)))
    w.fix(np.flatnonzero(x[:, 0] < 1e-9))
    w.rest = x
    return w.freeze(scheme)


def truth(t):
    """Two forces across the beam at times t: pulses and swings without a common form."""
    f = np.zeros((len(t), 2, 3))
    f[:, 0, 1] = 0.25 * np.sin(11 * t) + 0.2 * np.exp(-((t - 0.62) / 0.08)**2)
    f[:, 1, 1] = -0.4 * np.exp(-((t - 0.45) / 0.1)**2) + 0.15 * np.sin(7 * t + 1)
    return f


class Inverse:
    def __init__(self):
        fine, w = beam(H / 4, "bdf2"), beam(H, "trapezoid")
        self.times = H * (0.5 + np.arange(STEPS))  # controls hold over a step
        every = H / 4 * (1 + np.arange(4 * STEPS))
        states = deform.Rollout(fine, 4 * STEPS).run(ctrl=truth(every).reshape(4 * STEPS, -1))
        self.clean = fine.x(states)[4::4]
        moved = self.clean - np.pad(fine.rest, ((0, 0), (0, 1)))
        self.sigma = NOISE * np.sqrt(np.mean(moved[:, :, :2]**2))
        noise = np.random.default_rng(2).standard_normal(self.clean.shape)
        self.data = self.clean + self.sigma * noise * [1, 1, 0]
        self.w, self.rollout, self.truth = w, deform.Rollout(w, STEPS), truth(self.times)
        K = np.exp(-0.5 * ((self.times[:, None] - self.times) / CORRELATION)**2)
        value, vector = np.linalg.eigh(K)
        self.root = STRENGTH * vector * np.sqrt(np.maximum(value, 0))

    def forces(self, z):
        f = np.zeros((STEPS, 2, 3))
        f[:, :, 1] = self.root @ z.reshape(STEPS, 2)
        return f

    def loss(self, z):
        """Misfit by the noise, and |z|^2."""
        w = self.w
        gap = w.x(self.rollout.run(ctrl=self.forces(z).reshape(STEPS, 6)))[1:] - self.data
        gap[:, :, 2] = 0
        g = self.rollout.pull(np.concatenate([np.zeros((1, w.n, 3)), gap]) / self.sigma**2)["ctrl"].reshape(STEPS, 2, 3)
        self.misfit = np.sum(gap**2) / self.sigma**2 / (gap.size * 2 / 3)
        return 0.5 * np.sum(gap**2) / self.sigma**2 + 0.5 * z @ z, (self.root.T @ g[:, :, 1]).ravel() + z


def rows():
    p = Inverse()
    z0 = np.zeros(2 * STEPS)
    way = np.random.default_rng(7).standard_normal(z0.size)
    g = p.loss(z0)[1]
    gap = abs(way @ g / slope(lambda s: p.loss(s * way)[0], 1e-4) - 1)
    found = minimize(p.loss, z0, jac=True, method="L-BFGS-B", options={"maxiter": 150, "maxcor": 30, "ftol": 1e-10})
    f, t = p.forces(found.x)[:, :, 1], p.truth[:, :, 1]
    tip, middle = (apart(f[:, i], t[:, i]) for i in (0, 1))
    return [row("unknown forces: numbers; numbers seen; noise by the root mean square of displacements", f"{found.x.size}; {p.data.size * 2 // 3}; {NOISE:g}", "reported", True),
            below("gradient along a random direction against difference quotients, relative", gap, 1e-6),
            below(f"forces reconstructed ({found.nit} iterations of L-BFGS), relative L2 error", apart(f, t), 0.05),
            row("... at the tip, in the middle", f"{tip:.4f}, {middle:.4f}", "reported", True),
            row("misfit by the noise, mean square (1: as large as it)", p.misfit, "reported", True)]
