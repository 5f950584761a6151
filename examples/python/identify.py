"""Masses and friction of a two-link arm on a floor from a noisy recording of joint angles: Gauss-Newton on exact derivatives.

The plant has masses and joint damping that the model does not; 2 s of angles at 100 Hz are recorded with noise of 1 mrad. The
derivatives of the whole trajectory by each parameter are one forward sweep each.
"""
import os

import numpy as np

import pullback as pb

HERE = os.path.dirname(os.path.abspath(__file__))
NAMES = ("body_mass:femur", "body_mass:tibia", "dof_damping:elbow_bend")
TRUE = np.array([1.3, 0.75, 4.0])  # what the plant has, by the model's value; of the damping in N m s/rad
STEPS, NOISE = 200, 1e-3


def residuals(model, ctrl, values, recorded):
    """Differences of angles from the recording, and their derivatives by the parameters."""
    r = model.rollout(model.init(), ctrl, params=dict(zip(NAMES, values)))
    ways = [r.jvp(params={name: np.ones_like(v)}).qpos for name, v in zip(NAMES, values)]
    return (r.qpos - recorded).ravel() / NOISE, np.stack([w.ravel() for w in ways], axis=1) / NOISE


def main():
    model = pb.load(os.path.join(HERE, "..", "arm", "arm.xml"))
    start = [np.array(model.params[name]) for name in NAMES]
    true = [start[0] * TRUE[0], start[1] * TRUE[1], np.full_like(start[2], TRUE[2])]
    t = np.arange(STEPS) * model.timestep
    ctrl = np.stack([.6 * np.sin(3 * t + k) * (1 + .5 * np.cos(7 * t)) for k in range(model.nu)], axis=1)
    clean = model.rollout(model.init(), ctrl, params=dict(zip(NAMES, true))).qpos
    recorded = clean + NOISE * np.random.default_rng(0).normal(size=clean.shape)

    x = np.array([float(v) for v in start])
    for steps in (25, 50, 100, STEPS, STEPS, STEPS):  # from a short piece to all of it: long motions forget how they began
        for _ in range(6):
            error, slope = residuals(model, ctrl[:steps], [np.full_like(s, v) for s, v in zip(start, x)], recorded[:steps + 1])
            step = np.linalg.lstsq(slope, -error, rcond=None)[0]
            x = np.maximum(x + step, [.1, .1, 0])
    deviation = np.sqrt(np.diag(np.linalg.inv(slope.T @ slope)))
    for name, found, expected, sigma in zip(NAMES, x, map(float, true), deviation):
        print(f"{name:24} {found:9.5f} +- {sigma:.5f}   plant {expected:9.5f}")
    off = np.abs(x - [float(v) for v in true]) / deviation
    assert off.max() < 4, off
    return off.max()


if __name__ == "__main__":
    main()
