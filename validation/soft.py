"""Bodies of triangles in the plane, as E5 and E7 use them: the energies of the engine of 2019, meshes, a ledger of energies."""
import numpy as np

from common import inside  # noqa: F401  (puts the library's wrappers on the path)
import deform

MU, LAMBDA, MUSCLE, GRAVITY, COLLISION, FRICTION, H = 500.0, 50.0, 90.0, 9.8, 14000.0, 300.0, 0.033

_F = """p = x1 - x0; q = x2 - x0; P = X1 - X0; Q = X2 - X0
D = [[P.x, P.y], [Q.x, Q.y]]; F = [[p.x, p.y], [q.x, q.y]]*inverse(D)
J = det(F); I = trace(transpose(F)*F); j = {log}
{weight}*(0.5*mu*(I - 2) - mu*j + 0.5*lambda*j^2)"""
# log J as its expansion: finite and smooth where elements turn over; every triangle counts alike
FLESH = _F.format(log="-1.5 + 2*J - 0.5*J^2", weight="1")
SOLID = _F.format(log="log(J)", weight="0.5*det(D)")  # neo-Hookean, by area
TENDON = "l = norm(x0 - x1); 0.5*k*(l/(a*norm(X0 - X1)) - 1)^2"
FLOOR = "select(x0.y < 0, k*x0.y^2, 0)"
RUB = "k*((x0.x - y0.x)/h)^2*max(0, 0.01 - y0.y)"


def sheet(nx, ny, width=1.0, height=1.0, jitter=0.0, seed=3):
    """(points, triangles) of a rectangle; points within moved by jitter times the cells' size."""
    x = np.stack(np.meshgrid(np.linspace(0, width, nx + 1), np.linspace(0, height, ny + 1)), axis=-1).reshape(-1, 2)
    i = (np.arange(nx)[None, :] + (nx + 1) * np.arange(ny)[:, None]).ravel()
    triangles = np.concatenate([np.stack([i, i + 1, i + nx + 2], 1), np.stack([i, i + nx + 2, i + nx + 1], 1)])
    inner = (x[:, 0] > 1e-9) & (x[:, 0] < width - 1e-9) & (x[:, 1] > 1e-9) & (x[:, 1] < height - 1e-9)
    x[inner] += jitter * np.random.default_rng(seed).uniform(-1, 1, (inner.sum(), 2)) * [width / nx, height / ny]
    return x, triangles


def quadratic(x, triangles):
    """The same with nodes in the middle of edges: (points, cells of six: corners, then 01 12 20)."""
    sides = np.sort(triangles[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
    edges, which = np.unique(sides, axis=0, return_inverse=True)
    return np.concatenate([x, x[edges].mean(axis=1)]), np.concatenate([triangles, len(x) + which.reshape(-1, 3)], axis=1)


def end_load(x, at, force, order):
    """(points, forces) of a uniform traction on the edge x = at: `force` in all, shared as elements of that order do."""
    nodes = np.flatnonzero(np.abs(x[:, 0] - at) < 1e-9)
    nodes = nodes[np.argsort(x[nodes, 1])]
    y, share = x[nodes, 1], np.zeros(len(nodes))
    for k in range(0, len(nodes) - 1, order):
        share[k:k + order + 1] += (y[k + order] - y[k]) * (np.array([1, 4, 1]) / 6 if order == 2 else np.array([1, 1]) / 2)
    return nodes, np.outer(share / share.sum(), [*force, 0])


LOAD = "-dot(f, x0)"


class Body:
    """A body of square cells, cut in four around a middle point or in two, and single triangles; muscles along its lowest edges."""

    def __init__(self, crossed, plain, corners, muscles):
        number, self.triangles, edges = {}, [], []
        at = lambda *p: number.setdefault(p, len(number))
        for i, j in crossed:
            c = [at(i, j), at(i + 1, j), at(i + 1, j + 1), at(i, j + 1)]
            middle = at(i + 0.5, j + 0.5)
            self.triangles += [[c[k], c[(k + 1) % 4], middle] for k in range(4)]
            edges += [(c[k], c[(k + 1) % 4]) for k in range(4)]
        for i, j in plain:
            a, b, c, d = at(i, j), at(i + 1, j), at(i + 1, j + 1), at(i, j + 1)
            self.triangles += [[a, b, c], [a, c, d]]
            edges += [(a, b), (b, c), (c, d), (d, a)]
        self.triangles += [[at(*p) for p in corner] for corner in corners]
        self.x = np.array(list(number), dtype=float)
        edges = sorted({tuple(sorted(e)) for e in edges}, key=lambda e: (self.x[list(e), 1].sum(), e))
        self.muscles = np.array(edges[:muscles])
        self.triangles = np.array(self.triangles)


def biped():
    return Body([(0, 0), (0, 1), (0, 2), (1, 2), (2, 2), (3, 2), (3, 1), (3, 0)], [(1, 3)], [[(1, 1), (2, 2), (1, 2)]], 19)


def quadruped():
    return Body([(i, 0) for i in (0, 2, 5, 7)] + [(i, j) for j in (1, 2) for i in range(8)] + [(5, 3), (6, 3), (7, 3)], [],
                [[(5, 3), (5, 4), (4, 3)], [(3, 0), (4, 1), (3, 1)], [(5, 0), (5, 1), (4, 1)]], 38)


def walker(body, method="newton", flesh=FLESH, **options):
    """A body with muscles that follow controls, on a floor."""
    w = deform.World(H, (0, -GRAVITY, 0))
    w.points(body.x, 1.0)
    w.energy("flesh", flesh, body.triangles, mu=MU, **{"lambda": LAMBDA})
    w.energy("muscle", TENDON, body.muscles, per_element=("a",), control=("a",), k=MUSCLE, a=np.ones(len(body.muscles)))
    every = np.arange(len(body.x))[:, None]
    w.energy("floor", FLOOR, every, k=COLLISION)
    w.energy("rub", RUB, every, k=FRICTION)
    return w.freeze("implicit_euler", method, **options)


def areas(x, triangles):
    p, q = (x[..., triangles[:, k], :2] - x[..., triangles[:, 0], :2] for k in (1, 2))
    return 0.5 * (p[..., 0] * q[..., 1] - p[..., 1] * q[..., 0])


def signals(steps, count, seed=8):
    """Activations in [.25, 1] that change at random by up to .3 a step."""
    noise, a = np.random.default_rng(seed), np.ones((steps, count))
    for k in range(1, steps):
        a[k] = np.clip(a[k - 1] + noise.uniform(-0.3, 0.3, count), 0.25, 1)
    return a
