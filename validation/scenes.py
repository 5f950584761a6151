"""Scenes with contact, as several cases use them: meshes, built-in energies, surfaces, and an exact test for intersections."""
from fractions import Fraction

import numpy as np

from common import inside  # noqa: F401  (puts the library's wrappers on the path)


# ---- meshes ---------------------------------------------------------------------------------------------------------
def grid(nx, ny, lx, ly):
    """Flat sheet in the plane z = 0 around the origin, diagonals alternating: points, triangles."""
    i, j = np.meshgrid(np.arange(nx + 1), np.arange(ny + 1), indexing="ij")
    X = np.stack([lx * (i / nx - .5), ly * (j / ny - .5), 0. * i], -1).reshape(-1, 3)
    at = lambda a, b: a * (ny + 1) + b
    t = []
    for a in range(nx):
        for b in range(ny):
            c = [at(a, b), at(a + 1, b), at(a + 1, b + 1), at(a, b + 1)]
            t += [[c[0], c[1], c[2]], [c[0], c[2], c[3]]] if (a + b) % 2 else [[c[0], c[1], c[3]], [c[1], c[2], c[3]]]
    return X, np.array(t)


def torus(radius, tube, around, across):
    """Around the z axis: points, outward triangles."""
    u, v = np.meshgrid(2 * np.pi * np.arange(around) / around, 2 * np.pi * np.arange(across) / across, indexing="ij")
    r = radius + tube * np.cos(v)
    X = np.stack([r * np.cos(u), r * np.sin(u), tube * np.sin(v)], -1).reshape(-1, 3)
    at = lambda a, b: a % around * across + b % across
    t = []
    for a in range(around):
        for b in range(across):
            t += [[at(a, b), at(a + 1, b), at(a + 1, b + 1)], [at(a, b), at(a + 1, b + 1), at(a, b + 1)]]
    return X, np.array(t)


def ball(radius, rings, around):
    """A sphere by latitude and longitude: points, outward triangles."""
    X = [[0, 0, radius]]
    for k in range(1, rings):
        a = np.pi * k / rings
        X += [[radius * np.sin(a) * np.cos(b), radius * np.sin(a) * np.sin(b), radius * np.cos(a)] for b in 2 * np.pi * np.arange(around) / around]
    X.append([0, 0, -radius])
    at, t = lambda k, j: 1 + (k - 1) * around + j % around, []
    for j in range(around):
        t += [[0, at(1, j), at(1, j + 1)], [at(rings - 1, j + 1), at(rings - 1, j), len(X) - 1]]
        for k in range(1, rings - 1):
            t += [[at(k, j), at(k + 1, j), at(k + 1, j + 1)], [at(k, j), at(k + 1, j + 1), at(k, j + 1)]]
    return np.array(X), np.array(t)


def edges_of(triangles):
    e = np.sort(np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [2, 0]]]), axis=1)
    return np.unique(e, axis=0)


def hinges_of(triangles):
    """a, b of an edge that two triangles share, c, d opposite."""
    seen, out = {}, []
    for t in triangles:
        for k in range(3):
            a, b, c = t[k], t[(k + 1) % 3], t[(k + 2) % 3]
            if (b, a) in seen:
                out.append([b, a, seen[b, a], c])
            seen[a, b] = c
    return np.array(out)


def faces_of(tetrahedra):
    """Outward triangles that belong to one tetrahedron."""
    f = np.concatenate([tetrahedra[:, k] for k in ([0, 2, 1], [0, 1, 3], [1, 2, 3], [0, 3, 2])])
    _, first, count = np.unique(np.sort(f, axis=1), axis=0, return_index=True, return_counts=True)
    return f[first[count == 1]]


# ---- exact test -------------------------------------------------------------------------------------------------------
def _sides(a, b, c, d):
    """Sign of det(b - a, c - a, d - a) for rows of points, exact: where rounding could turn it, in fractions."""
    u, v, w = b - a, c - a, d - a
    n = np.cross(v, w)
    det = np.sum(u * n, axis=1)
    big = np.sum(np.abs(u) * (np.abs(v)[:, [1, 2, 0]] * np.abs(w)[:, [2, 0, 1]] + np.abs(v)[:, [2, 0, 1]] * np.abs(w)[:, [1, 2, 0]]), axis=1)
    sign = np.sign(det).astype(int)
    for k in np.flatnonzero(np.abs(det) <= 1e-14 * big):
        p, q, r, s = ([Fraction(float(z)) for z in m[k]] for m in (a, b, c, d))
        e, f, g = ([y - x for x, y in zip(p, o)] for o in (q, r, s))
        exact = (e[0] * (f[1] * g[2] - f[2] * g[1]) + e[1] * (f[2] * g[0] - f[0] * g[2]) + e[2] * (f[0] * g[1] - f[1] * g[0]))
        sign[k] = (exact > 0) - (exact < 0)
    return sign


def crossings(x, triangles, edges=None):
    """How many edges meet triangles that they have no point in common with. Decided without rounding; touching counts, edges within
    the plane of a triangle are left to their crossing of other triangles."""
    edges = edges_of(triangles) if edges is None else edges
    tlo, thi, elo, ehi = x[triangles].min(1), x[triangles].max(1), x[edges].min(1), x[edges].max(1)
    order, count = np.argsort(tlo[:, 0]), 0
    triangles, tlo, thi = triangles[order], tlo[order], thi[order]
    width = np.max(thi[:, 0] - tlo[:, 0])
    first, last = np.searchsorted(tlo[:, 0], elo[:, 0] - width), np.searchsorted(tlo[:, 0], ehi[:, 0], "right")
    many = last - first
    e = np.repeat(np.arange(len(edges)), many)
    t = np.arange(len(e)) - np.repeat(np.cumsum(many) - many, many) + np.repeat(first, many)
    near = np.all((tlo[t] <= ehi[e]) & (elo[e] <= thi[t]), axis=1)
    e, t = edges[e[near]], triangles[t[near]]
    apart = np.all(e[:, :, None] != t[:, None, :], axis=(1, 2))
    e, t = x[e[apart]], x[t[apart]]
    p, q, a, b, c = e[:, 0], e[:, 1], t[:, 0], t[:, 1], t[:, 2]
    through = _sides(a, b, c, p) * _sides(a, b, c, q) <= 0
    p, q, a, b, c = (m[through] for m in (p, q, a, b, c))
    s = np.stack([_sides(p, q, a, b), _sides(p, q, b, c), _sides(p, q, c, a)])
    flat = np.all(s == 0, axis=0)
    return int(np.sum((np.all(s >= 0, axis=0) | np.all(s <= 0, axis=0)) & ~flat))


# ---- worlds -----------------------------------------------------------------------------------------------------------
def cloth(w, name, triangles, young=1e5, thickness=1e-3, density=200.0, bending=1e-5):
    """Membrane, bending and mass of a sheet whose points are there."""
    w.material(f"{name}", "membrane_stvk_triangle", triangles, young=young, poisson=.3, thickness=thickness)
    w.material(f"{name}_bend", "bending_quadratic", hinges_of(triangles), bending=bending)
    w.material(f"{name}_mass", "mass_triangle", triangles, density=density, thickness=thickness)


def solid(w, name, tetrahedra, young, poisson=.4, density=1000.0):
    w.material(name, "neo_hookean_tetrahedron", tetrahedra, young=young, poisson=poisson)
    w.material(f"{name}_mass", "mass_tetrahedron", tetrahedra, density=density)
