"""Pendulum: identification and sensitivities

A pendulum's length, damping and gravity from its motion; sensitivities against closed forms."""
import os
import shutil

import numpy as np
from scipy.special import ellipj, ellipk

from common import EXAMPLES, Bench, below, row

PENDULUM = os.path.join(EXAMPLES, "pendulum", "pendulum.xml")
TRUTH = np.array([-1.7, 0.15, -9.81])
SIGMA = 1e-3


def by_length(bench, angle, h, seconds=5.0):
    """d(angle at the end)/d(length), undamped, by the adjoint."""
    g = bench.gradient(PENDULUM, {"qpos": np.ones(1)}, "--steps", round(seconds / h), "--wrt", "body_ipos", init={"qpos": [angle]},
                       params={"dof_damping:hinge": 0}, options={"timestep": h})
    return -g["param/body_ipos"][1, 2]


def exact_by_length(angle, seconds=5.0, length=1.7, gravity=9.81, inertia=1e-6):
    """The same by elliptic functions: the angle depends on t sqrt(g / l), l the length of the equal mathematical pendulum."""
    equal = length + inertia / length
    rate, k = np.sqrt(gravity / equal), np.sin(angle / 2)
    u = ellipk(k * k) - rate * seconds
    sn, cn, dn, _ = ellipj(u, k * k)
    velocity = -rate * 2 * k * cn * dn / np.sqrt(1 - (k * sn)**2)
    return -seconds / (2 * equal) * velocity * (1 - inertia / length**2)


def record(bench, truth):
    run = bench.simulate(PENDULUM, "--steps", 5000, init={"qpos": [0.5]}, params={
        "body_ipos:bob": [0, 0, truth[0]], "dof_damping:hinge": truth[1], "gravity": [0, 0, truth[2]]})
    return run["time"][::10], run["sensordata"][::10]


def identify(bench, times, data):
    shutil.copy(PENDULUM, bench.folder)
    shutil.copy(os.path.join(EXAMPLES, "pendulum", "identify.json"), bench.folder)
    bench.write("recording.npz", {"time": times, "sensordata": data})
    result = bench.optimize("identify.json")
    return np.array([v["value"][0] for v in result["variables"]]), result


def rows():
    out = []
    with Bench() as bench:
        small, w = 1e-3, np.sqrt(9.81 / 1.7)
        closed = small * w * 5 * np.sin(w * 5) / (2 * 1.7)
        out.append(below("small angle: d(angle)/d(length) against its closed form, relative", abs(by_length(bench, small, 1e-3) / closed - 1), 1e-4))
        exact, steps = exact_by_length(0.5), [0.04, 0.02, 0.01]
        gaps = [abs(by_length(bench, 0.5, h) / exact - 1) for h in steps]
        out.append(below("large angle: against elliptic functions at h = 0.001, relative", abs(by_length(bench, 0.5, 1e-3) / exact - 1), 1e-6))
        order = np.log2(gaps[0] / gaps[2]) / 2
        out.append(row("large angle: order of that gap", order, "4 +- 0.2", abs(order - 4) <= 0.2))
        times, clean = record(bench, TRUTH)
        found, _ = identify(bench, times, clean)
        out += [below(f"{n} without noise, relative error", abs(f / t - 1), 1e-4) for n, f, t in zip(("length", "damping", "gravity"), found, TRUTH)]
        noisy = clean + SIGMA * np.random.default_rng(7).standard_normal(clean.shape)
        found, result = identify(bench, times, noisy)
        J = np.stack([np.ravel(record(bench, TRUTH + d)[1] - record(bench, TRUTH - d)[1]) / (2 * d.sum()) for d in np.diag(1e-4 * np.abs(TRUTH))])
        least = np.sqrt(np.diag(np.linalg.inv(J @ J.T))) * SIGMA
        out += [below(f"{n} with 1 mm of noise, error in Cramer-Rao deviations", abs(f - t) / s, 2)
                for n, f, t, s in zip(("length", "damping", "gravity"), found, TRUTH, least)]
        told = np.array([v["deviation"][0] for v in result["variables"]])
        out += [below(f"{n}: the deviation that the program tells beside the Cramer-Rao bound, relative", abs(d / s - 1), 0.05)
                for n, d, s in zip(("length", "damping", "gravity"), told, least)]
        out.append(row("iterations from length 1.0, gravity 8, no damping", result["iterations"], "reported", True))
        lengths = np.linspace(0.3, 6, 58)
        loss = [float(np.sum((record(bench, [-v, *TRUTH[1:]])[1] - clean)**2)) for v in lengths]
        minima = [f"{lengths[k]:.1f}" for k in range(1, 57) if loss[k] < min(loss[k - 1], loss[k + 1])]
        out.append(row("minima of the raw squared error over lengths 0.3 .. 6 [m]", " ".join(minima), "reported", True))
    return out
