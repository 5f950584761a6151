"""Stresses and their gradients

Stresses: uniform strain gives uniform Cauchy stress on irregular meshes of every kind of cell, and the largest von Mises stress in a pulled
plate has the gradient by its shape that differences have."""
import numpy as np

from common import below, row
from elements import Energy, cube

E, NU = 1e5, 0.3
MU, LAMBDA = E / (2 * (1 + NU)), E * NU / ((1 + NU) * (1 - 2 * NU))
STRAIN = np.array([(.08, .05, 0), (-.03, -.04, 0), (0, 0, 0)])


def cauchy(e, x, X):
    """Mean Cauchy stress of each element, from its forces and places; forces too."""
    f = e(x, X)[1].reshape(-1, e.points, 3)
    return f.transpose(0, 2, 1) @ x[e.cells], f


def volumes(x, cells, flat):
    d = x[cells[:, 1:3 if flat else 4]] - x[cells[:, :1]]
    return (np.cross(d[:, 0], d[:, 1])[:, 2] / 2) if flat else np.linalg.det(d) / 6


def by_hand(law, F):
    if law == "linear":  # of small strains: stress on the area at rest, turned by F as a force is
        e = (F + F.T) / 2 - np.eye(3)
        P = 2 * MU * e + LAMBDA * np.trace(e) * np.eye(3)
    elif law == "neo_hookean_log":
        P = MU * (F - np.linalg.inv(F).T) + LAMBDA * np.log(np.linalg.det(F)) * np.linalg.inv(F).T
    else:
        G = (F.T @ F - np.eye(3)) / 2
        P = F @ (2 * MU * G + LAMBDA * np.trace(G) * np.eye(3))
    return P @ F.T / np.linalg.det(F)


def patch(law, kind):
    """Boundary moved by F, the inside set off its place and free: farthest stress of an element, over the stress; and its moduli's."""
    flat = kind.startswith("triangle")
    quadratic = kind.endswith(("6", "10"))
    X, cells = cube(3 if flat else 2, quadratic, flat=flat)
    F = np.eye(3) + STRAIN + (np.zeros((3, 3)) if flat else np.diag([0, 0, .06]))
    free = np.repeat(~((np.abs(X) < 1e-12) | (np.abs(X - 1) < 1e-12))[:, :2 if flat else 3].any(1)[:, None], 3, 1)
    if flat:
        free[:, 2] = False
    e = Energy(f"{law}_{kind}", cells, young=E, poisson=NU)
    x = X @ F.T
    x = e.equilibrium(x + np.where(free, .005 * np.random.default_rng(2).normal(size=x.shape), 0), X, free)
    # quadratic cells with straight edges: corners give the volume
    stress = cauchy(e, x, X)[0] / volumes(x, cells, flat)[:, None, None]
    wanted = by_hand(law, F)
    if flat:
        stress, wanted = stress[:, :2, :2], wanted[:2, :2]
    return np.abs(stress - wanted).max() / np.abs(wanted).max()


# ---- a plate with a hole, pulled ------------------------------------------------------------------------------------------------
def plate(n=12):
    """A quarter of a square plate with a round hole; points in polar rows."""
    angle, depth = np.meshgrid(np.linspace(0, np.pi / 2, n + 1), np.linspace(0, 1, n + 1)**1.5, indexing="ij")
    inner = .3 * np.stack([np.cos(angle), np.sin(angle)], -1)
    outer = np.stack([np.cos(angle), np.sin(angle)], -1) / np.maximum(np.cos(angle), np.sin(angle))[..., None]
    X = np.zeros(((n + 1)**2, 3))
    X[:, :2] = (inner + depth[..., None] * (outer - inner)).reshape(-1, 2)
    at = lambda i, j: i * (n + 1) + j
    return X, np.array([c for i in range(n) for j in range(n) for c in ((at(i, j), at(i, j + 1), at(i + 1, j + 1)), (at(i, j), at(i + 1, j + 1), at(i + 1, j)))])


def von_mises(s):
    """Of a plane state and the stress across it that plane strain makes; Hooke's in the small."""
    zz = NU * (s[..., 0, 0] + s[..., 1, 1])
    return np.sqrt(((s[..., 0, 0] - s[..., 1, 1])**2 + (s[..., 1, 1] - zz)**2 + (zz - s[..., 0, 0])**2) / 2 + 3 * s[..., 0, 1]**2)


class Plate:
    def __init__(self):
        self.X, self.cells = plate()
        self.e = Energy("stvk_triangle", self.cells, young=E, poisson=NU)
        self.free = np.ones_like(self.X, bool)
        self.free[:, 2] = False
        self.free[np.abs(self.X[:, 1]) < 1e-9, 1] = False
        self.free[np.abs(self.X[:, 0]) < 1e-9, 0] = False
        self.right = np.abs(self.X[:, 0] - 1) < 1e-9
        self.free[self.right, 0] = False

    def solve(self, X):
        x = X.copy()
        x[self.right, 0] *= 1.01
        return self.e.equilibrium(x, X, self.free)

    def largest(self, X, at=None):
        """Largest von Mises stress (in element `at`), that element, the state."""
        x = self.solve(X)
        vm = von_mises(cauchy(self.e, x, X)[0] / volumes(x, self.cells, True)[:, None, None])
        at = int(np.argmax(vm)) if at is None else at
        return vm[at], at, x

    def gradient(self, X):
        """By all rest positions. Stress s = sum f x' / area: its derivative by f goes back through the element's forces, that by x through
        the equilibrium."""
        vm, at, x = self.largest(X)
        cell = self.cells[at]
        one = Energy("stvk_triangle", [[0, 1, 2]], young=E, poisson=NU)
        size = 1e-30
        local = lambda f, y: von_mises(f.T @ y / volumes(y, np.array([[0, 1, 2]]), True)[0])
        y, f = x[cell].astype(complex), one(x[cell], X[cell])[1].reshape(3, 3).astype(complex)
        by_f, by_y = np.zeros((3, 3)), np.zeros((3, 3))
        for k in range(3):
            for j in range(2):
                d = np.zeros((3, 3), complex)
                d[k, j] = size * 1j
                by_f[k, j], by_y[k, j] = local(f + d, y).imag / size, local(f, y + d).imag / size
        x_bar, rest_bar, _ = one.pullback(by_f, x[cell], X[cell])
        g, out = np.zeros_like(X), np.zeros_like(X)
        g[cell] += by_y + x_bar
        out[cell] += rest_bar
        out[self.right, 0] += 1.01 * g[self.right, 0]  # pulled points go where their rest place says
        free = np.flatnonzero(self.free)
        w = np.zeros(X.size)
        K = self.e.matrix(x, X)
        w[free] = np.linalg.solve(K[np.ix_(free, free)], np.ravel(g)[free])
        moved, rest, _ = self.e.pullback(w.reshape(X.shape), x, X)
        out -= rest
        out[self.right, 0] -= 1.01 * moved[self.right, 0]
        # points held on an axis stay at their rest place
        held = ~self.free & ~np.stack([self.right, np.zeros_like(self.right), np.ones_like(self.right)], 1)
        held[:, 2] = False
        out[held] += (g - moved)[held]
        out[:, 2] = 0
        return vm, at, out


def rows():
    out = []
    for law in ("linear", "stvk", "neo_hookean_log"):
        for kind in ("triangle", "triangle6", "tetrahedron", "tetrahedron10"):
            out.append(below(f"{law}, {kind}: patch test, largest error of an element's Cauchy stress, relative", patch(law, kind), 1e-12))
    p = Plate()
    vm, at, g = p.gradient(p.X)
    rng = np.random.default_rng(4)
    moves = [g / np.linalg.norm(g)] + [np.where(np.arange(3) < 2, rng.normal(size=p.X.shape), 0) for _ in range(3)]
    worst = []
    for d in moves:
        d = d / np.linalg.norm(d)
        once = lambda s: (p.largest(p.X + s * d, at)[0] - p.largest(p.X - s * d, at)[0]) / (2 * s)
        slope = (4 * once(5e-5) - once(1e-4)) / 3
        worst.append(abs(slope - np.sum(g * d)) / np.linalg.norm(g))
    hole = np.argmin(np.linalg.norm(p.X[p.cells].mean(1)[:, :2] - np.array([0, .3]), axis=1))
    out += [
        row("plate with a hole, pulled by 1 %: largest von Mises stress [Pa]", vm, "reported", True),
        row("... in the element", at, f"{hole}: at the hole, across the pull", at == hole),
        below("d(largest von Mises stress)/d(shape) along itself against differences, relative", worst[0], 1e-6),
        below("... along three random changes of all points", max(worst[1:]), 1e-6),
    ]
    return out
