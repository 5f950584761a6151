"""Volume and inertia of generated solids

Volume, centre and inertia tensor of solids bounded by triangles against closed forms (boxes, regular prisms, a tetrahedron) and, of dented
spheres, an L and rings that no plane cuts in one piece, against rational arithmetic; of what is scaled, moved and turned, too."""

import numpy as np

from common import below, inside
import test_solids as solids


def prism(corners, radius, height):
    """A regular prism about z, and its volume and inertia."""
    angle = 2 * np.pi * np.arange(corners) / corners
    rim = radius * np.c_[np.cos(angle), np.sin(angle)]
    point = np.concatenate([np.c_[rim, np.full(corners, z)] for z in (-height / 2, height / 2)])
    flat = [(0, k, k + 1) for k in range(1, corners - 1)]
    sides = [t for i in range(corners) for j in [(i + 1) % corners] for t in ((i, j, j + corners), (i, j + corners, i + corners))]
    triangle = [t[::-1] for t in flat] + [tuple(k + corners for k in t) for t in flat] + sides
    area = corners / 2 * radius**2 * np.sin(2 * np.pi / corners)
    across = area / 12 * radius**2 * (2 + np.cos(2 * np.pi / corners))  # second moment of the area about an axis in its plane
    side = height * across + area * height**3 / 12
    return point, np.array(triangle, np.int32), area * height, np.diag([side, side, 2 * height * across])


def ring(around=17, across=9, radius=.3, thick=.1):
    """A torus of quadrangles, each cut in two, with uneven rings."""
    r = np.random.default_rng(2)
    u, v = np.meshgrid(2 * np.pi * np.arange(around) / around, 2 * np.pi * np.arange(across) / across, indexing="ij")
    t = thick * (1 + .2 * r.random(u.shape))
    point = np.stack([(radius + t * np.cos(v)) * np.cos(u), (radius + t * np.cos(v)) * np.sin(u), t * np.sin(v)], -1).reshape(-1, 3)
    at = lambda i, j: (i % around) * across + j % across
    triangle = [c for i in range(around) for j in range(across) for c in ((at(i, j), at(i + 1, j), at(i + 1, j + 1)), (at(i, j), at(i + 1, j + 1), at(i, j + 1)))]
    return point, np.array(triangle, np.int32)


def errors(properties, volume, center, inertia, size):
    """Of volume, centre and tensor, relative."""
    return [abs(properties.volume / volume - 1), np.abs(np.array(properties.center) - center).max() / size,
            np.abs(solids.tensor(properties.tensor) - inertia).max() / np.abs(inertia).max()]


def rows():
    ctx = inside.native.pbContext_Create(None)
    closed, exact, moved = [], [], []
    for corners in (3, 4, 6, 24, 64):
        for mode in ("exact", "legacy", "convex"):
            point, triangle, volume, inertia = prism(corners, .2, .7)
            closed.append(errors(solids.properties(ctx, solids.solid(point, triangle, mode)), volume, 0, inertia, 1))
    corner = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], float)  # of the unit cube
    faces = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]], np.int32)
    closed.append(errors(solids.properties(ctx, solids.solid(corner, faces)), 1 / 6, np.full(3, .25), np.full((3, 3), 1 / 480) + np.eye(3) * (1 / 80 + 1 / 480 - 1 / 240), 1))
    shapes = [solids.pebble(seed, 3) for seed in range(5)] + [solids.angle(), ring()]
    for point, triangle in shapes:
        exact.append(errors(solids.properties(ctx, solids.solid(point, triangle)), *solids.rational(point, triangle), np.ptp(point, axis=0).max()))
        to = (point - [.1, -.2, .3]) * [2, .5, 3]
        given = solids.properties(ctx, solids.solid(point, triangle, scale=[2, .5, 3], refpos=[.1, -.2, .3]))
        moved.append(errors(given, *solids.rational(to, triangle), np.ptp(to, axis=0).max()))
    inside.native.pbContext_Destroy(ctx)
    return [below(f"{what} of {which}, relative, largest of {len(found)}", float(np.max(np.array(found)[:, k])), 1e-12)
            for which, found in (("prisms of 3 to 64 corners in three ways and a corner of a cube, closed forms", closed),
                                 ("dented spheres, an L and a ring, rational arithmetic", exact), ("the same moved and scaled", moved))
            for k, what in enumerate(("volume", "centre", "inertia"))]
