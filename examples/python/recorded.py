"""Friction and mass of a real pendulum from two logs of it (../recorded/README.md), and what they say of a third that the fit has not seen.

Logs go in as they come: pb.identify finds the columns by their names, meets the times between the steps, and finds where each log begins.
"""
import os

import numpy as np

import pullback as pb

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "recorded")
UNKNOWNS = {"dof_frictionloss:hinge": (0, 2), "dof_damping:hinge": (0, 2), "body_mass:arm": (.1, 2), "body_ipos:arm:2": (-1, -.1)}


def first(name, seconds):
    """The columns of a log up to a time."""
    log = pb.recording(os.path.join(HERE, name))
    return {column: numbers[log["time"] <= seconds] for column, numbers in log.items()}


def off(model, log):
    """Root of the mean square of a model's angle less the recorded one, run from rest under the recorded torque."""
    steps = int(log["time"][-1] / model.timestep) + 1
    torque = np.interp((np.arange(steps) + .5) * model.timestep, log["time"], log["motor"])
    r = model.rollout(model.init(), torque[:, None])
    return float(np.sqrt(np.mean((np.interp(log["time"], np.arange(steps + 1) * model.timestep, r.qpos[:, 0]) - log["hinge"]) ** 2)))


def main():
    guess = pb.load(os.path.join(HERE, "pendulum.xml"))
    held_out = first("held_out.csv", 2.9)
    fit = pb.identify(guess, [first("swing_up.csv", 2), first("second.csv", 2)], UNKNOWNS, test=held_out)
    print(fit)
    found = guess.with_result(fit)
    before, after = off(guess, held_out), off(found, held_out)
    print(f"on a run that was held out {before:.3f} rad off before, {after:.3f} after; along the fitted ones {fit['uncertainty']['residual']:.3f}")
    assert .1 < fit.values["dof_frictionloss:hinge"] < .25 and .65 < fit.values["body_mass:arm"] < .8
    assert after < .55 * before
    return after


if __name__ == "__main__":
    main()
