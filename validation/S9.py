"""Derivatives through Newton's iterations and at the minimum

Derivatives through Newton's iterations and at the minimum: the same where they converge; stopped early, unrolling lags one iteration
behind the implicit derivative, whose error follows the residual."""
import numpy as np

from common import apart, below, row
import springs

H, STIFF = 0.1, {"hookean": 80.0, "stvk": 8.0}
X0 = springs.X + np.array([[0.1, -0.05], [-0.05, 0.1], [0.05, 0.15]])


class Step:
    """One step of springs in the plane, Newton's method stopped after some iterations; 1 + 3 + 3 + 6 + 6 inputs."""

    def __init__(self, kind):
        self.kind, noise = kind, np.random.default_rng(1)
        self.at = np.concatenate([[STIFF[kind]], springs.REST, 1 + 0.3 * noise.uniform(size=3), X0.ravel(), 0.3 * noise.standard_normal(6)])
        self.weights = noise.standard_normal((3, 2))

    def unrolled(self, iterations):
        """(positions, derivative of w . positions) with every iteration differentiated."""
        p = self.at + 1e-100j * np.eye(19)
        k, rest, mass, x, v = p[:, :1], p[:, 1:4], p[:, 4:7], p[:, 7:13].reshape(19, 3, 2), p[:, 13:].reshape(19, 3, 2)
        m, hat, z = mass[:, :, None], x + H * v, x
        for _ in range(iterations):
            f, D = springs.forces(self.kind, k, z, springs.ENDS, rest)
            A = H * H * D.reshape(19, 6, 6) + np.einsum("bi,ij->bij", np.repeat(mass, 2, axis=1), np.eye(6))
            z = z - np.linalg.solve(A, (m * (z - hat) - H * H * f).reshape(19, 6, 1)).reshape(19, 3, 2)
        return z[0].real, np.sum(self.weights * z, axis=(1, 2)).imag / 1e-100

    def library(self, iterations):
        """(positions, pullback of w there) of the library's step, stopped likewise."""
        w = springs.world(self.kind, STIFF[self.kind], h=H, x=X0, iterations=iterations, approximate=True, tolerance=1e-15)
        p = self.at
        theta = w.with_params(springs__k=p[0], springs__l0=p[1:4, None], point_mass=p[4:7, None])
        s, _, record = w.step_recorded(w.start(X0, p[13:].reshape(3, 2)), theta=theta)
        bar = np.zeros(w.nt)
        bar[-18:-9] = np.pad(self.weights, ((0, 0), (0, 1))).ravel()
        g = w.vjp(record, bar, theta=theta)
        of = lambda name: w.param(g["theta"], name).ravel()
        x, v = g["x"][-18:-9].reshape(3, 3)[:, :2], g["x"][-9:].reshape(3, 3)[:, :2]
        return w.x(s)[:, :2], np.concatenate([of("springs.k"), of("springs.l0"), of("point_mass"), x.ravel(), v.ravel()])


def rows():
    out = []
    text = lambda a: ", ".join(f"{v:.1e}" for v in a)
    for kind in ("hookean", "stvk"):
        step = Step(kind)
        x, exact = step.unrolled(40)
        found, gradient = step.library(40)
        out += [below(f"{kind}: positions at convergence [m]", np.max(np.abs(found - x)), 1e-12),
                below(f"{kind}: implicit gradient against the unrolled one, relative", apart(gradient, exact), 1e-8)]
        state, implicit, unrolled, same = [], [], [], 0
        for n in range(1, 4):
            (here, by), (there, g) = step.unrolled(n), step.library(n)
            same = max(same, np.max(np.abs(here - there)))
            state.append(np.linalg.norm(there - x))
            implicit.append(apart(g, exact))
            unrolled.append(apart(by, exact))
        state, implicit, unrolled = map(np.array, (state, implicit, unrolled))
        first, second = implicit / state, unrolled[1:] / (unrolled[:-1] * state[:-1])
        out += [below(f"{kind}, stopped after 1 to 3 iterations: positions of both programs apart [m]", same, 1e-12),
                row("... their errors [m]", text(state), "reported", True),
                row("... errors of the implicit gradient, relative", text(implicit), "reported", True),
                row("... errors of the unrolled gradient, relative", text(unrolled), "reported", True),
                below("... implicit: error over that of the positions, greatest over least", first.max() / first.min(), 4),
                below("... unrolled: error over (its own times that of the positions, an iteration before), greatest over least", second.max() / second.min(), 4),
                row("... error of the unrolled gradient over that of the implicit one, least", np.min(unrolled / implicit), ">= 2", np.min(unrolled / implicit) >= 2)]
    return out
