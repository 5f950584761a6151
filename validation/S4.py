"""Hanging chain of elastic links

A hanging chain of elastic links: forces and shape against the chain of finitely many links and the elastic catenary, both in closed
form, with their gradients."""
import numpy as np

from common import below, near
import deform
import solids

SPAN, LENGTH, WEIGHT, AXIAL = 1.0, 1.4, 3.0, 40.0  # m, m, N/m, N
NAMES = ("weight", "axial stiffness", "span")


def links(n, weight, axial, span):
    """Horizontal force and sag of n links, each under the weight of its half: two equations in closed form, the first solved for the force."""
    l, up = LENGTH / n, weight * LENGTH * (0.5 - (np.arange(n) + 0.5) / n)  # vertical force in each link
    wide = lambda H: np.sum(l * H * (1 / np.sqrt(H * H + up * up) + 1 / axial))
    H = 1.0 + 0j
    for _ in range(60):
        H = H - (wide(H) - span) / (wide(H + 1e-200j).imag / 1e-200 if not np.imag(H) else slope(wide, H))
    deep = np.sum((l * up * (1 / np.sqrt(H * H + up * up) + 1 / axial))[:n // 2])
    return H, deep


def slope(f, at):
    return (f(at + 1e-5) - f(at - 1e-5)) / 2e-5


def catenary(weight, axial, span):
    """The same of the continuous chain: span = 2 H/w asinh(w L/2H) + H L/EA, sag by the same integral of the vertical force."""
    W = weight * LENGTH / 2
    wide = lambda H: 2 * H / weight * np.arcsinh(W / H) + H * LENGTH / axial
    H = 1.0 + 0j
    for _ in range(60):
        H = H - (wide(H) - span) / slope(wide, H)
    return H, (np.sqrt(H * H + W * W) - H) / weight + weight * LENGTH**2 / (8 * axial)


def derivatives(f):
    """f and its derivatives by NAMES."""
    p = np.array([WEIGHT, AXIAL, SPAN])
    at = np.array([f(*(p + 1e-30j * e)) for e in np.eye(3)])
    return at[0].real, at.imag.T / 1e-30


class Chain:
    """Links on end points that are held; half a link's weight at each end does not matter."""

    def __init__(self, n):
        self.n = n
        s = np.linspace(0, 1, n + 1)
        w = deform.World(0.01, (0, -1, 0))
        rest = np.stack([LENGTH * s, 0 * s], 1)
        w.points(rest, start=np.stack([SPAN * s, -2 * s * (1 - s)], 1))
        edges = np.stack([np.arange(n), np.arange(1, n + 1)], 1)
        w.material("links", "rod_stretch", edges, axial=AXIAL)
        w.material("mass", "mass_edge", edges, density=WEIGHT)  # gravity is 1 m/s^2
        w.fix([0, n])
        self.solve = solids.Equilibrium(w)
        self.x = self.solve()

    def force(self):
        """Horizontal force at the left end, and its derivatives."""
        d, l = self.x[1] - self.x[0], LENGTH / self.n
        r = np.linalg.norm(d)
        along = (r / l - 1) * d / r
        bar = np.zeros_like(self.x)
        bar[1] = AXIAL * (np.array([1, 0, 0]) / l - (np.array([1, 0, 0]) / r - d * d[0] / r**3))
        bar[0] = -bar[1]
        g = self.solve.pull(bar)
        return AXIAL * along[0], np.array([g("mass.density").item(), g("links.axial").item() + along[0], g("x")[self.n, 0]])

    def sag(self):
        bar = np.zeros_like(self.x)
        bar[self.n // 2, 1] = -1
        g = self.solve.pull(bar)
        return -self.x[self.n // 2, 1], np.array([g("mass.density").item(), g("links.axial").item(), g("x")[self.n, 0]])


def rows():
    out, gaps, wrong = [], [], []
    smooth, by = derivatives(catenary)
    for n in (20, 40):
        c = Chain(n)
        (H, dH), (deep, ddeep) = c.force(), c.sag()
        exact, slopes = derivatives(lambda *p: links(n, *p))
        gaps.append(np.abs([H - smooth[0], deep - smooth[1]]))
        wrong.append(np.abs([dH - by[0], ddeep - by[1]]))
        if n == 20:
            out += [below("20 links: horizontal force against its closed form, relative", abs(H / exact[0] - 1), 1e-9),
                    below("20 links: sag", abs(deep / exact[1] - 1), 1e-9)]
            for k, name in enumerate(NAMES):
                out += [below(f"20 links: d(force)/d({name}) against its closed form, relative", abs(dH[k] / slopes[0][k] - 1), 1e-8),
                        below(f"20 links: d(sag)/d({name})", abs(ddeep[k] / slopes[1][k] - 1), 1e-8)]
    order, orders = np.log2(gaps[0] / gaps[1]), np.log2(wrong[0] / wrong[1])
    out += [below("40 links: force against the catenary's, relative", gaps[1][0] / smooth[0], 2e-3), near("... order", order[0], 2, 0.1),
            below("40 links: sag against the catenary's, relative", gaps[1][1] / smooth[1], 2e-3), near("... order", order[1], 2, 0.1)]
    for k, name in enumerate(NAMES):
        out += [below(f"40 links: d(force, sag)/d({name}) against the catenary's, relative", np.max(wrong[1][:, k] / np.abs(by[:, k])), 5e-3),
                near("... order, of the force", orders[0, k], 2, 0.2), near("... of the sag", orders[1, k], 2, 0.2)]
    return out
