"""Elastic bodies of triangles and rods, as several cases use them: meshes, loads, an equilibrium with its gradient."""
import numpy as np

from common import inside  # noqa: F401  (puts the library's wrappers on the path)
import deform
from elements import with_middles


def strip(nx, ny, length, depth, quadratic=True):
    """(points, cells) of a rectangle [0, length] x [-depth/2, depth/2], diagonals alternating; flat points of three coordinates."""
    i, j = np.meshgrid(np.arange(nx + 1), np.arange(ny + 1), indexing="ij")
    X = np.stack([length * i / nx, depth * (j / ny - 0.5), 0 * i], -1).reshape(-1, 3)
    at = lambda a, b: a * (ny + 1) + b
    cells = []
    for a in range(nx):
        for b in range(ny):
            c = [at(a, b), at(a + 1, b), at(a + 1, b + 1), at(a, b + 1)]
            cells += [[c[0], c[1], c[2]], [c[0], c[2], c[3]]] if (a + b) % 2 else [[c[0], c[1], c[3]], [c[1], c[2], c[3]]]
    return with_middles(X, np.array(cells)) if quadratic else (X, np.array(cells))


def slab(nx, ny, length, depth, width, quadratic=True):
    """The same as one layer of tetrahedra, [0, width] across: three a prism, cut alike on both sides of every face."""
    X, cells = strip(nx, ny, length, depth, False)
    n = len(X)
    cells = np.sort(cells, axis=1)
    tets = np.concatenate([np.stack([cells[:, 0], cells[:, 1], cells[:, 2], cells[:, 2] + n], 1),
                           np.stack([cells[:, 0], cells[:, 1], cells[:, 2] + n, cells[:, 1] + n], 1),
                           np.stack([cells[:, 0], cells[:, 1] + n, cells[:, 2] + n, cells[:, 0] + n], 1)])
    X = np.vstack([X, X + [0, 0, width]])
    d = X[tets[:, 1:]] - X[tets[:, :1]]
    turned = np.linalg.det(d) < 0
    tets[turned, :2] = tets[turned, 1::-1]
    return with_middles(X, tets) if quadratic else (X, tets)


def edge_load(X, nodes, traction):
    """Forces of a traction t(y) [N/m of edge, out of 2] on the nodes (corners and middles) of a straight edge along y: n x 3."""
    nodes = nodes[np.argsort(X[nodes, 1])]
    f = np.zeros((len(nodes), 3))
    at, weight = np.polynomial.legendre.leggauss(4)
    for k in range(0, len(nodes) - 2, 2):
        a, b = X[nodes[[k, k + 2]], 1]
        for s, w in zip(at, weight):
            shape = np.array([s * (s - 1) / 2, 1 - s * s, s * (s + 1) / 2])
            f[k:k + 3, :2] += np.outer(shape, traction((a + b) / 2 + s * (b - a) / 2)) * w * (b - a) / 2
    return nodes, f


class Equilibrium:
    """One step of the static scheme: positions, and the gradient of any function of them by its cotangent."""

    def __init__(self, world, **options):
        self.world = world.freeze("static", **options)
        self.rollout = deform.Rollout(self.world, 1)

    def __call__(self, start=None, theta=None):
        w = self.world
        return w.x(self.rollout.run(w.start() if start is None else w.start(start), theta=theta)[-1])

    def pull(self, cotangent):
        g = self.rollout.pull(cotangent)
        return lambda name: g[name] if name in ("x", "v") else self.world.param(g["theta"], name)
