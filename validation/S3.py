"""Time integration schemes on an oscillator

One mass on a spring: what each scheme does to amplitude and phase in closed form, state and gradient; orders of both under refinement,
for a spring that hardens too."""
import numpy as np

from common import below, near, slope
import deform

K, M = 25.0, 1.0  # 5 rad/s
SCHEMES = {"implicit_euler": 1, "bdf2": 2, "trapezoid": 2, "avf4": 2, "symplectic_euler": 1}


class Oscillator:
    def __init__(self, scheme, h, steps, cubic=0.0):
        self.w = w = deform.World(float(h))
        w.points(np.zeros((1, 3)), M)
        w.energy("spring", "0.5*k*dot(x0, x0) + 0.25*c*dot(x0, x0)^2", [[0]], k=K, c=cubic)
        w.freeze(scheme)
        self.rollout = deform.Rollout(w, steps)

    def run(self, x=1.0, v=0.0):
        s = self.rollout.run(self.w.start([[x, 0, 0]], [[v, 0, 0]]))
        return self.w.x(s)[:, 0, 0], self.w.v(s)[:, 0, 0]

    def pull(self):
        """d x_n / d(k, c, m, x0)"""
        g = self.rollout.pull([[1, 0, 0]])
        of = lambda name: self.w.param(g["theta"], name).item()
        return np.array([of("spring.k"), of("spring.c"), of("point_mass"), g["x"][0, 0]])


def closed(scheme, z, n):
    """x_n of a start at 1 and at rest, z = omega h."""
    if scheme == "symplectic_euler":  # x+ = 2 x - x- - z^2 x, its start at rest
        turn = np.arccos(1 - z * z / 2)
        return np.cos(n * turn) - z * z / 2 / np.sin(turn) * np.sin(n * turn)
    if scheme == "implicit_euler":  # x + i v / omega turns by a complex factor
        return ((1 + 1j * z)**-n).real
    if scheme == "bdf2":  # two of them, begun by a step of implicit Euler
        root = np.sqrt(1 - 2j * z)
        r, p = (2 + root) / (3 + 2j * z), (2 - root) / (3 + 2j * z)
        a = (1 / (1 + 1j * z) - p) / (r - p)
        return (a * r**n + (1 - a) * p**n).real
    return np.cos(n * 2 * np.arctan(z / 2))  # Simpson's rule makes of linear forces what the trapezoid does


def factor(scheme, z):
    """Amplitude over amplitude a step before."""
    if scheme == "implicit_euler":
        return (1 + z * z)**-0.5
    return abs((2 + np.sqrt(1 - 2j * z)) / (3 + 2j * z)) if scheme == "bdf2" else 1.0


def damping(scheme, z):
    """The same as measured: of x + i v / omega, the parasitic root long gone; by the determinant where the scheme is no rotation."""
    omega = np.sqrt(K / M)
    runs = [Oscillator(scheme, z / omega, 41).run(*s) for s in ((1, 0), (0, omega))]
    u = np.array([[x[-2:], v[-2:] / omega] for x, v in runs])  # start, x or v, step
    return np.sqrt(abs(np.linalg.det(u[:, :, 1]) / np.linalg.det(u[:, :, 0])))


def duffing(T, steps=20000):
    """x(T) and its derivative by (k, c, m, x0) from the classical method of Runge and Kutta in dual numbers, a step of 2.5e-5 s."""
    p = np.array([K, 40.0, M, 1.0]) + 1e-100j * np.vstack([np.zeros(4), np.eye(4)])
    k, c, m, x = p.T
    f = lambda s: np.array([s[1], -(k * s[0] + c * s[0]**3) / m])
    s, h = np.array([x, 0 * x]), T / steps
    for _ in range(steps):
        a = f(s)
        b = f(s + h / 2 * a)
        d = f(s + h / 2 * b)
        s = s + h / 6 * (a + 2 * b + 2 * d + f(s + h * d))
    return s[0, 0].real, s[0, 1:].imag / 1e-100


def rows():
    out, omega, n = [], np.sqrt(K / M), 60
    for scheme in SCHEMES:
        worst = max(abs(damping(scheme, z) / factor(scheme, z) - 1) for z in (0.05, 0.3, 1.0))
        out.append(below(f"{scheme}: damping factor of a step against its closed form (omega h = .05, .3, 1), relative", worst, 1e-12))
        state, gradient = [], []
        for z in (0.05, 0.3, 1.0):
            o = Oscillator(scheme, z / omega, n)
            state.append(abs(o.run()[0][-1] - closed(scheme, z, n)))
            wanted = slope(lambda t: closed(scheme, z + t, n), 1e-4) * z / 2 * np.array([1 / K, -1 / M])
            gradient.append(np.max(np.abs(o.pull()[[0, 2]] - wanted)) / np.max(np.abs(wanted)))
        out += [below(f"{scheme}: x after {n} steps against its closed form", max(state), 1e-10),
                below(f"{scheme}: ... d/d(stiffness, mass) of it, relative", max(gradient), 1e-9)]
    T = 0.5
    exact, by = duffing(T)
    for scheme, order in SCHEMES.items():
        errors = []
        for steps in (400, 800):
            o = Oscillator(scheme, T / steps, steps, 40.0)
            errors.append([abs(o.run()[0][-1] - exact), *np.abs(o.pull() - by)])
        found = np.log2(np.array(errors[0]) / errors[1])
        out.append(near(f"{scheme}, hardening spring: order of x", found[0], order, 0.1))
        for name, f in zip(("stiffness", "hardening", "mass", "start"), found[1:]):
            out.append(near(f"{scheme}, hardening spring: order of dx/d({name})", f, order, 0.15))
    return out
