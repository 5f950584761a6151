"""Energies through the library, element by element and assembled; meshes without a preferred direction."""
import itertools

import numpy as np

from common import inside

INTERNAL, STRESS_FREE, DISSIPATIVE, PLANAR, MASS = (getattr(inside.native, "pb_material" + word) for word in ("Internal", "StressFree", "Dissipative", "Planar", "Mass"))


def materials():
    """Names of all built-in energies."""
    names = []
    for i in itertools.count():
        m = inside.native.pbMaterial_At(i)
        if not m:
            return names
        names.append(m.contents.name.decode())


class Energy:
    """A built-in energy on `cells` (elements x points). Parameters are numbers, or one row an element."""

    def __init__(self, name, cells, **parameters):
        l = inside.native
        self.ctx = l.pbContext_Create(None)
        m = next(l.pbMaterial_At(i).contents for i, n in enumerate(materials()) if n == name)
        self.name, self.traits, self.points, self.work, self.ptr = name, m.traits, m.def_.points, None, inside.native.handle()
        l.pbEnergy_Create(self.ctx, m.def_, self.ptr)
        self.work = np.zeros(l.pbEnergy_WorkSize(self.ptr), np.uint8)
        self.cells = np.ascontiguousarray(cells, np.int32).reshape(-1, self.points)
        self.parameter, self.start, at = {}, {}, 0
        for k in range(m.def_.parameter_count):
            p = m.def_.parameters[k]
            size, key = p.rows * p.cols, p.name.decode()
            self.start[key] = np.array(m.start[at:at + size])
            self.parameter[key] = np.ascontiguousarray(np.reshape(parameters.pop(key, self.start[key]), (-1, size)), float)
            at += size
        if parameters:
            raise KeyError(f"{name} has no {', '.join(parameters)}")

    def __del__(self):
        if getattr(self, "ptr", None):
            inside.native.pbEnergy_Destroy(self.ptr)
        if getattr(self, "ctx", None):
            inside.native.pbContext_Destroy(self.ctx)

    def _elements(self, x, rest, previous, h):
        x, rest, previous = (inside.real(a) for a in (x, rest, rest if previous is None else previous))
        values = list(self.parameter.values())
        return inside.native.pbElements(count=len(self.cells), vertex=self.cells, x=x, rest=rest, previous=previous, parameter=values,
                                        stride=[0 if len(v) == 1 else v.shape[1] for v in values], timestep=h)

    def __call__(self, x, rest, previous=None, h=1.0, hessian=False):
        """Values, gradients (elements x 3 points), Hessians or None."""
        n, k = len(self.cells), 3 * self.points
        value, gradient, H = np.zeros(n), np.zeros((n, k)), np.zeros((n, k, k)) if hessian else None
        out, fault = inside.native.pbElementsOut(value=value, gradient=gradient, hessian=H), inside.native.pbEnergyFault()
        if not inside.native.pbEnergy_Evaluate(self.ptr, self._elements(x, rest, previous, h), out, self.work, fault):
            raise ArithmeticError(f"{self.name}, element {fault.element}: {fault.what.decode()}")
        return value, gradient, H

    def pullback(self, w, x, rest, previous=None, h=1.0):
        """Derivatives of w . gradient: by x, by the rest positions, by each parameter."""
        x_bar, rest_bar = np.zeros_like(inside.real(x)), np.zeros_like(inside.real(x))
        bars = [np.zeros_like(v) for v in self.parameter.values()]
        kept, fault = inside.real(w), inside.native.pbEnergyFault()
        bar = inside.native.pbElementsBar(x=x_bar, rest=rest_bar, parameter=bars)
        if not inside.native.pbEnergy_Pullback(self.ptr, self._elements(x, rest, previous, h), kept, bar, self.work, fault):
            raise ArithmeticError(f"{self.name}, element {fault.element}: {fault.what.decode()}")
        return x_bar, rest_bar, dict(zip(self.parameter, bars))

    # ---- assembled ----------------------------------------------------------------------------------------------------
    def force(self, x, rest):
        """Gradient by all points."""
        g = np.zeros_like(x)
        np.add.at(g, self.cells, self(x, rest)[1].reshape(-1, self.points, 3))
        return g

    def matrix(self, x, rest):
        """Dense Hessian by all points."""
        n = x.size
        H = np.zeros((n, n))
        at = (3 * self.cells[:, :, None] + np.arange(3)).reshape(len(self.cells), -1)
        np.add.at(H, (at[:, :, None], at[:, None, :]), self(x, rest, hessian=True)[2])
        return H

    def equilibrium(self, x, rest, free, tolerance=1e-14):
        """Newton's method for the coordinates that are free (points x 3), until it goes no further."""
        x, free = x.copy(), np.flatnonzero(np.ravel(free))
        before = np.inf
        for _ in range(50):
            g = np.ravel(self.force(x, rest))[free]
            step = np.linalg.solve(self.matrix(x, rest)[np.ix_(free, free)], g)
            x.reshape(-1)[free] -= step
            size = np.abs(step).max(initial=0)
            if size <= tolerance or (size < 1e-10 and size >= before):
                return x
            before = size
        raise ArithmeticError(f"{self.name}: no equilibrium, last change {size:g}")


# ---- meshes -------------------------------------------------------------------------------------------------------------------
def cube(n, quadratic=False, seed=1, flat=False, moved=0.2):
    """Unit cube (or square) of simplices, n or (n, m, l) along its edges; points inside and along faces moved about. Points, cells."""
    rng, d = np.random.default_rng(seed), 2 if flat else 3
    n = np.broadcast_to(n, d)
    grid = np.array(list(itertools.product(*(range(k + 1) for k in n))))
    number = {tuple(g): k for k, g in enumerate(grid)}
    points = np.zeros((len(grid), 3))
    points[:, :d] = grid / n + np.where((grid == 0) | (grid == n), 0, rng.uniform(-moved, moved, grid.shape) / n)
    cells = []
    for low in itertools.product(*map(range, n)):
        for order in itertools.permutations(range(d)):
            walk = [np.array(low)]
            for axis in order:
                walk.append(walk[-1] + np.eye(d, dtype=int)[axis])
            cells.append([number[tuple(w)] for w in walk])
    cells = np.array(cells)
    e = points[cells[:, 1:]] - points[cells[:, :1]]
    turned = (np.cross(e[:, 0], e[:, 1])[:, 2] if flat else np.linalg.det(e)) < 0
    cells[turned, :2] = cells[turned, 1::-1]
    return with_middles(points, cells) if quadratic else (points, cells)


def with_middles(points, cells):
    """Quadratic cells: triangle6 has 01 12 20 after its corners, tetrahedron10 01 12 02 03 13 23."""
    pairs = [(0, 1), (1, 2), (2, 0)] if cells.shape[1] == 3 else [(0, 1), (1, 2), (0, 2), (0, 3), (1, 3), (2, 3)]
    number, extra, out = {}, [], []
    for c in cells:
        row = list(c)
        for a, b in pairs:
            key = (min(c[a], c[b]), max(c[a], c[b]))
            if key not in number:
                number[key] = len(points) + len(extra)
                extra.append((points[key[0]] + points[key[1]]) / 2)
            row.append(number[key])
        out.append(row)
    return np.vstack([points, extra]), np.array(out)


def hinges(triangles):
    """Pairs of triangles across an edge: a, b of the edge, c, d opposite."""
    at = {}
    for t in triangles:
        for a, b, c in (t, (t[1], t[2], t[0]), (t[2], t[0], t[1])):
            at.setdefault((min(a, b), max(a, b)), []).append((a, b, c))
    return np.array([(*v[0], v[1][2]) for v in at.values() if len(v) == 2])


def equilateral(n):
    """A sheet of equilateral triangles, some 1 x 1 m."""
    rows, h = int(n / (np.sqrt(3) / 2)), 1 / n
    at = lambda i, j: j * (n + 1) + i
    points = np.array([(i * h + (j % 2) * h / 2, j * h * np.sqrt(3) / 2, 0) for j in range(rows + 1) for i in range(n + 1)])
    cells = []
    for j in range(rows):
        for i in range(n):
            a, b, c, d = at(i, j), at(i + 1, j), at(i, j + 1), at(i + 1, j + 1)
            cells += [(a, b, c), (b, d, c)] if j % 2 == 0 else [(a, b, d), (a, d, c)]
    return points, np.array(cells)
