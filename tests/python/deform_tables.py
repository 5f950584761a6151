"""The tables of docs/deformables.md: energy that schemes keep, and locking.

  python tests/python/deform_tables.py      with the package of a build on PYTHONPATH
"""
import numpy as np

import pullback as pb

YOUNG, NU, DENSITY = 1e5, .3, 1000.


def grid(cells, size):
    """Points and tetrahedra of a box, six a cell."""
    from itertools import permutations
    n = np.array(cells) + 1
    index = lambda c: (c[0] * n[1] + c[1]) * n[2] + c[2]
    points = np.array([[i, j, k] for i in range(n[0]) for j in range(n[1]) for k in range(n[2])]) * np.array(size) / cells
    tetrahedra = []
    for corner in np.ndindex(*cells):
        for order in permutations(range(3)):
            at, one = list(corner), [index(corner)]
            for axis in order:
                at[axis] += 1
                one.append(index(at))
            edges = points[one[1:]] - points[one[0]]
            tetrahedra.append(one if np.linalg.det(edges) > 0 else [one[0], one[1], one[3], one[2]])
    return points, np.array(tetrahedra)


def stored(rest, points, tetrahedra):
    """neo_hookean as documented."""
    mu, lam = YOUNG / 2 / (1 + NU), YOUNG * NU / (1 + NU) / (1 - 2 * NU)
    s, l = 4 / 3 * mu, lam + 5 / 6 * mu
    edges = lambda x: (x[tetrahedra[:, 1:]] - x[tetrahedra[:, :1]]).transpose(0, 2, 1)
    F = edges(points) @ np.linalg.inv(edges(rest))
    I, J = (F**2).sum((1, 2)), np.linalg.det(F)
    W = s / 2 * (I - 3) - s / 2 * np.log((I + 1) / 4) + l / 2 * (J - 1)**2 - .75 * s * (J - 1)
    return W @ np.linalg.det(edges(rest)) / 6


def spin(scheme, h, seconds=10):
    rest, tetrahedra = grid((4, 2, 1), (.2, .1, .05))
    mass = np.zeros(len(rest))
    np.add.at(mass, tetrahedra.ravel(), np.repeat(np.linalg.det(rest[tetrahedra[:, 1:]] - rest[tetrahedra[:, :1]]) / 24 * DENSITY, 4))
    body = {"name": "b", "mesh": {"points": rest.tolist(), "tetrahedra": tetrahedra.tolist()},
            "energies": [{"energy": "neo_hookean", "parameters": {"young": YOUNG, "poisson": NU, "density": DENSITY}}]}
    model = pb.loads(f"<mujoco><option timestep='{h}' gravity='0 0 0'/></mujoco>", deformables={"scheme": scheme, "bodies": [body]})
    start, steps = model.init(), round(seconds / h)
    start.point_velocity[:] = np.cross([2., 5, 10], rest - mass @ rest / mass.sum()).ravel()
    run = model.rollout(start, steps=steps, keep=False)

    def invariants(k):
        x, v = run.points[k].reshape(-1, 3), run.point_velocity[k].reshape(-1, 3)
        return .5 * mass @ (v**2).sum(1) + stored(rest, x, tetrahedra), (mass[:, None] * np.cross(x - mass @ x / mass.sum(), v)).sum(0)
    (e, l), (e1, _), (e10, l10) = invariants(0), invariants(steps // 10), invariants(steps)
    return e1 / e, e10 / e, np.linalg.norm(l10 - l) / np.linalg.norm(l)


def bend(cells, quadratic, nu, length=1., width=.05, young=1e6, density=1e-3):
    """Tip of a cantilever under its weight over Euler and Bernoulli's."""
    body = {"name": "b", "mesh": {"box": {"size": [length, width, width], "cells": cells}}, "quadratic": quadratic, "pins": [{"points": {"box": [[0, None, None], [0, None, None]]}}],
            "energies": [{"energy": "stvk", "parameters": {"young": young, "poisson": nu, "density": density}}]}
    model = pb.loads("<mujoco><option gravity='0 0 -9.81'/></mujoco>", deformables={"scheme": "static", "bodies": [body]})
    rest, bent = (p.reshape(-1, 3) for p in model.rollout(model.init(), steps=1, keep=False).points)
    tip = np.abs(rest[:, 0] - length) < 1e-9
    expected = density * 9.81 * width**2 * length**4 / (8 * young * width**4 / 12)
    return (rest[tip, 2] - bent[tip, 2]).mean() / expected


if __name__ == "__main__":
    for scheme, h in (("implicit_euler", .01), ("implicit_euler", .005), ("implicit_euler", .001), ("bdf2", .01), ("bdf2", .005), ("trapezoid", .005), ("avf4", .005), ("symplectic_euler", .0005)):
        print(f"| `{scheme}` | {h} | %.4f | %.4f | %.1e |" % spin(scheme, h), flush=True)
    for nu in (0, .3, .45, .49, .499):
        row = [bend(c, False, nu) for c in ([20, 1, 1], [40, 2, 2], [80, 4, 4])] + [bend(c, True, nu) for c in ([10, 1, 1], [20, 1, 1], [40, 2, 2])]
        print(f"| {nu} |", " | ".join(f"{x:.3f}" for x in row), "|", flush=True)
