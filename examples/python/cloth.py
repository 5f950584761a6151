"""A flag in the wind: how stiff the cloth is and how the wind blows, from a noisy recording of a few of its points.

The flag hangs from its mast by one edge. Its energies are a built-in membrane, built-in bending and, as a formula, the wind: a pressure
of the flow through the triangles as they are turned now. What is recorded are nine points; the gradient is checked against differences.
"""
import numpy as np

import pullback as pb

CELLS, STEPS, NOISE = 8, 60, 2e-3
MAST = {"box": [[0, None, None], [0, None, None]]}
# Force on a triangle: density times area times the flow's normal component squared, along the normal; frozen while energies are derived.
WIND = ("n = freeze(cross(x1 - x0, x2 - x0)/2); u = wind - freeze((x0 + x1 + x2 - y0 - y1 - y2)/(3*h)); p = freeze(dot(n, u)/norm(n));"
        "-0.6*p*abs(p)*dot(n/norm(n), (x0 + x1 + x2)/3)*norm(n)")
START = {"flag_membrane_stvk.young": 2e4, "flag_wind.wind": np.array([3., 1., 0.])}
TRUE = {"flag_membrane_stvk.young": 6e3, "flag_wind.wind": np.array([5., 2.5, .5])}


def flag():
    body = {"name": "flag", "mesh": {"grid": {"u": [1, 0, 0], "v": [0, 0, 1], "cells": [CELLS, CELLS], "pattern": "alternating"}}, "mass": .15,
            "pins": [{"points": MAST}],
            "energies": [{"energy": "membrane_stvk", "parameters": {"young": 2e4, "poisson": .3, "thickness": 1e-3}},
                         {"energy": "bending_quadratic", "parameters": {"bending": 1e-4}},
                         {"formula": WIND, "name": "wind", "on": "triangles", "parameters": {"wind": [3, 1, 0]}}]}
    return pb.loads("<mujoco><option timestep='.02'/></mujoco>", deformables={"bodies": [body]})


def main():
    model = flag()
    seen = np.add.outer(3 * np.add.outer(np.arange(0, CELLS + 1, CELLS // 2) * (CELLS + 1), np.arange(0, CELLS + 1, CELLS // 2)), np.arange(3)).ravel()
    run = lambda x, steps=STEPS: model.rollout(model.init(), steps=steps, params={"flag_membrane_stvk.young": [np.exp(x[0])], "flag_wind.wind": x[None, 1:]})
    pack = lambda values: np.concatenate([[np.log(values["flag_membrane_stvk.young"])], values["flag_wind.wind"]])
    clean = run(pack(TRUE)).points[:, seen]
    recorded = clean + NOISE * np.random.default_rng(0).normal(size=clean.shape)

    def loss(x):
        r = run(x)
        off = r.points[:, seen] - recorded
        bar = np.zeros((STEPS + 1, len(model.tangent_names)))
        bar[:, seen] = off / NOISE**2
        g = r.vjp(state=bar).params
        return .5 * np.sum(off**2) / NOISE**2, np.concatenate([g["flag_membrane_stvk.young"] * np.exp(x[0]), g["flag_wind.wind"][0]])

    x = pack(START)
    along, size = np.array([.5, 1, -1, .5]), 1e-5
    difference = (loss(x + size * along)[0] - loss(x - size * along)[0]) / (2 * size)
    apart = abs(loss(x)[1] @ along / difference - 1)
    print(f"gradient against differences: {apart:.1e}")
    assert apart < 1e-6

    ways = [lambda x: {"flag_membrane_stvk.young": [np.exp(x[0])]}, *(lambda x, row=row: {"flag_wind.wind": row[None]} for row in np.eye(3))]
    damping = 1.
    for steps, rounds in (10, 7), (20, 3), (40, 3), (STEPS, 3):  # from the first instants to all of it: flags flutter
        off = lambda r: (recorded[:steps + 1] - r.points[:, seen]).ravel() / NOISE
        r = run(x, steps)
        for _ in range(rounds):  # Levenberg and Marquardt
            slope = np.stack([r.jvp(params=way(x)).x[:, seen].ravel() for way in ways], axis=1) / NOISE
            normal = slope.T @ slope
            step = np.linalg.solve(normal + damping * np.diag(np.diag(normal)), slope.T @ off(r))
            tried = run(x + step, steps)
            better = np.sum(off(tried)**2) < np.sum(off(r)**2)
            x, r, damping = (x + step, tried, damping / 5) if better else (x, r, damping * 5)
    deviation = np.sqrt(np.diag(np.linalg.inv(slope.T @ slope)))
    print(f"mean squared difference {np.mean(off(r)**2):.3f} of the noise's")
    for name, found, sigma, true in zip(("log of young", "wind x", "wind y", "wind z"), x, deviation, pack(TRUE)):
        print(f"{name:14} {found:8.4f} +- {sigma:.4f}   plant {true:8.4f}")
    errors = np.abs(x - pack(TRUE)) / deviation
    assert errors.max() < 4 and .8 < np.mean(off(r)**2) < 1.2, errors
    return apart, errors.max()


if __name__ == "__main__":
    main()
