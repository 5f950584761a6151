"""Real pendulums: what a part of the runs tells of the others

An acrobot, a pendubot and a pendulum, as recorded by the laboratories that built them (data/README.md). Centers of mass, moments of inertia, rotors,
damping and dry friction of each joint and the delay of the torque are found by Gauss-Newton on exact Jacobians over windows of a second, begun at
the published parameters; runs that are held out are then predicted open loop over a second, beside the published parameters in the same engine.
Masses stay: of each body the angles tell its moment of inertia and mass times distance alone. Of A.0, commands of another day are predicted, too."""
import numpy as np
from scipy.optimize import least_squares

import recordings
from common import below, reported

import pullback as pb

STRIDE, ROBUST, DELAY = 10, .05, .004  # every tenth state counts; errors beyond .05 rad count less (soft L1); s
DOUBLE = {  # parameter: (unit of the search, smallest); moments of inertia about all axes are one unknown, of which one axis is felt
    "body_ipos:upper:2": (.1, -np.inf), "body_ipos:lower:2": (.1, -np.inf), "body_inertia:upper": (.01, 1e-5), "body_inertia:lower": (.01, 1e-5),
    "tendon_armature:rotor": (1e-4, 0), "dof_damping:shoulder": (.01, 0), "dof_damping:elbow": (.01, 0), "dof_frictionloss:shoulder": (.05, 0),
    "dof_frictionloss:elbow": (.05, 0)}
SINGLE = {"body_ipos:arm:2": (.1, -np.inf), "body_inertia:arm": (.01, 1e-7), "dof_damping:hinge": (.05, 0), "dof_frictionloss:hinge": (.1, 0)}
UNKNOWNS = {"acrobot_A0": DOUBLE, "pendubot_C0": DOUBLE, "pendulum": SINGLE}
TORQUE = {"acrobot_A0": "command", "pendubot_C0": "command", "pendulum": "torque"}


class Fit:
    """Unknowns of a robot, in units of the search; the last is the torque's delay."""

    def __init__(self, robot):
        self.model = pb.load(recordings.path(recordings.MODELS[robot]))
        self.names = list(UNKNOWNS[robot])
        self.units = np.array([unit for unit, _ in UNKNOWNS[robot].values()] + [DELAY])
        self.lower = np.array([least for _, least in UNKNOWNS[robot].values()] + [-DELAY * 3]) / self.units
        self.start = np.array([np.ravel(self.model.params[name])[0] for name in self.names] + [DELAY]) / self.units
        self.logs = [recordings.log(name, TORQUE[robot]) for name in recordings.names(robot, False)]

    def params(self, z):
        out = {name: np.full(np.size(self.model.params[name]), value) for name, value in zip(self.names, z * self.units)}
        if "tendon_armature:rotor" in out:  # the shoulder's rotor is like the elbow's, behind a gear of 6
            out["dof_armature:shoulder"] = 36 * out["tendon_armature:rotor"]
        return out

    def run(self, z, keep):
        starts, controls, angles = recordings.windows(self.logs, z[-1] * DELAY)
        return recordings.follow(self.model, starts, controls, self.params(z), keep=keep), angles

    def off(self, z):
        r, angles = self.run(z, False)
        return (r.qpos - angles)[:, ::STRIDE].ravel()

    def jacobian(self, z):
        r, angles = self.run(z, True)
        here = (r.qpos - angles)[:, ::STRIDE]
        by = {name: slope[:, ::STRIDE].reshape(here.size, -1).sum(1) for name, slope in r.jacobian("qpos", list(self.params(z)), at="all").items()}
        columns = [by[name] * unit for name, unit in zip(self.names, self.units)]
        if "dof_armature:shoulder" in by:
            k = self.names.index("tendon_armature:rotor")
            columns[k] = columns[k] + 36 * self.units[k] * by["dof_armature:shoulder"]
        later = z + .25 * np.eye(len(z))[-1]  # commands are held between rows: their delay is felt row by row
        columns.append((self.off(later) - here.ravel()) / .25)
        return np.stack(columns, axis=1)

    def find(self):
        start = np.maximum(self.start, self.lower + 1e-3)
        found = least_squares(self.off, start, self.jacobian, bounds=(self.lower, np.inf), loss="soft_l1", f_scale=ROBUST, x_scale="jac", max_nfev=30)
        return found.x, found.nfev


def published(robot, model):
    """Errors of the published parameters by what torque they are given, the least by the first measure in front."""
    if robot == "pendulum":
        logs = [recordings.log(name, "torque") for name in recordings.names(robot, True)]
        return sorted((recordings.error(model, logs, recordings.pendulum_params(*numbers)), words) for words, numbers in recordings.PENDULUMS.items())
    given = [(torque, delay) for torque, delay in (("command", 0), ("command", DELAY), ("torque", 0))]
    return sorted((recordings.error(model, [recordings.log(name, torque) for name in recordings.names(robot, True)], delay=delay), f"{torque}, {delay:g} s")
                  for torque, delay in given)


def rows():
    out = []
    for robot in UNKNOWNS:
        fit = Fit(robot)
        z, evaluations = fit.find()
        found, delay = fit.params(z), z[-1] * DELAY
        held = recordings.error(fit.model, [recordings.log(name, TORQUE[robot]) for name in recordings.names(robot, True)], found, delay)
        least, words = published(robot, fit.model)[0]
        out += [reported(f"{robot}: published, held-out error over 1 s, rad (all, mean, median of windows)",
                         ", ".join(f"{x:.4f}" for x in least) + f": {words}"),
                reported(f"{robot}: found, the same", ", ".join(f"{x:.4f}" for x in held)),
                below(f"{robot}: root of the mean square, by the best of the published", held.rms / least.rms, .8),
                below(f"{robot}: mean of the windows' errors, by that of the same", held.mean / least.mean, .8),
                reported(f"{robot}: evaluations", evaluations),
                reported(f"{robot}: found", ", ".join(f"{name} {float(value[0]):.4g}" for name, value in found.items()) + f", delay {1e3 * delay:.1f} ms")]
        if robot == "acrobot_A0":
            for name in recordings.names("acrobot_A0_second_day"):
                logs = [recordings.log(name)]
                before, after = (recordings.error(fit.model, logs, params, late).rms for params, late in ((None, DELAY), (found, delay)))
                out.append(reported(f"{name}: found, by published", after / before))
    return out
