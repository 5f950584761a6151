#!/usr/bin/env python3
"""Recordings of real robots (data/README.md): what cases read of them, and how far a model is off.

A recording is read only as the manifest has it: without its file, or with other bytes, a case that asks for it fails. Run by itself it prints
how far the published parameters are off, in this engine, on the runs that are held out: the tables of data/README.md.
"""
import hashlib
import json
import os
import sys
from typing import NamedTuple

import numpy as np
from scipy.signal import butter, filtfilt

HERE = os.path.dirname(os.path.abspath(__file__))
MANIFEST = "data/manifest.json"  # a case's hash has it, and so the checksums of all recordings
MODELS = {"acrobot_A0": "data/models/acrobot_A0.xml", "pendubot_C0": "data/models/pendubot_C0.xml", "pendulum": "data/models/pendulum.xml",
          "cube": "data/models/cube.xml"}
JOINTS = {"acrobot_A0": ("shoulder", "elbow"), "acrobot_A0_second_day": ("shoulder", "elbow"), "pendubot_C0": ("shoulder", "elbow"),
          "pendulum": ("hinge",)}
# Kept out of fits: every third run by name; of the pendulum the two longest, which are of controllers that no other run has.
HELD_OUT = {"acrobot_A0": ("run_02", "run_05", "run_13"), "pendubot_C0": ("run_02", "run_05", "run_13"), "pendulum": ("energy_shaping", "sac"),
            "cube": tuple(f"toss_{k:02}" for k in range(40, 60))}
OTHER_ROBOT = ("energy_shaping_1kg",)  # of the pendulum's recordings: with another weight
STEP, WINDOW, EVERY, CUT = .002, 1., .25, 20.  # s, s, s, Hz


def path(name):
    return os.path.join(HERE, name)


def manifest():
    with open(path(MANIFEST), encoding="utf-8") as f:
        return {row["file"]: row for row in json.load(f)["files"]}


def load(name):
    """{column: numbers} of a recording, "cube/toss_00"; columns without their units, which are SI throughout."""
    file = f"{name}.csv"
    row = manifest()[file]
    with open(path(f"data/{file}"), "rb") as f:
        data = f.read()
    if hashlib.sha256(data).hexdigest() != row["sha256"]:
        raise ValueError(f"data/{file} is not the recording that data/manifest.json has")
    lines = data.decode().splitlines()
    numbers = np.array([line.split(",") for line in lines[1:]], float)
    return {title.rpartition(" [")[0]: numbers[:, k] for k, title in enumerate(lines[0].split(","))}


def names(robot, held_out=None):
    """Runs of a robot: all, those held out (True) or those to fit (False); without those of OTHER_ROBOT."""
    found = sorted(file[:-4] for file in manifest() if file.startswith(f"{robot}/"))
    found = [name for name in found if name.split("/")[1] not in OTHER_ROBOT]
    return [name for name in found if held_out is None or (name.split("/")[1] in HELD_OUT.get(robot, ())) == held_out]


class Log(NamedTuple):
    """A run of a robot with joints on the grid of steps: angles (as recorded, and smoothed), rates, and when which torque was noted."""
    angles: np.ndarray
    smooth: np.ndarray
    rates: np.ndarray
    time: np.ndarray
    torque: np.ndarray
    held: bool  # the torque keeps its value until the next row

    def controls(self, delay=0.):
        """Torques of each step, `delay` seconds after they were noted, in the middle of the step."""
        at = (np.arange(len(self.angles) - 1) + .5) * STEP - delay
        if self.held:
            return self.torque[np.clip(np.searchsorted(self.time, at, side="right") - 1, 0, None)]
        return np.stack([np.interp(at, self.time, one) for one in self.torque.T], axis=1)


def log(name, torque="command"):
    """A run as a Log; torque: "command", kept from row to row, or "torque", as measured and interpolated."""
    columns, joints = load(name), JOINTS[name.split("/")[0]]
    time = columns["time"]
    grid = np.arange(0, time[-1], STEP)
    angles = np.stack([np.interp(grid, time, columns[joint]) for joint in joints], axis=1)
    smooth = filtfilt(*butter(3, CUT * 2 * STEP), angles, axis=0)
    torques = np.stack([columns[f"{joint}_{torque}"] for joint in joints], axis=1)
    return Log(angles, smooth, np.gradient(smooth, STEP, axis=0), time, torques, torque == "command")


def windows(logs, delay=0., window=WINDOW, every=EVERY):
    """(angles and rates at the start, controls, angles as recorded) of all windows of some runs, one behind the other."""
    steps, starts, controls, angles = round(window / STEP), [], [], []
    for one in logs:
        torques = one.controls(delay)
        for k in range(0, len(one.angles) - steps, round(every / STEP)):
            starts.append(np.r_[one.smooth[k], one.rates[k]])
            controls.append(torques[k:k + steps])
            angles.append(one.angles[k:k + steps + 1])
    return np.array(starts), np.array(controls), np.array(angles)


def follow(model, starts, controls, params=None, **options):
    """The rollout of all windows from their starts."""
    state = model.state(np.tile(model.init().flat, (len(starts), 1)))
    state.qpos[:], state.qvel[:] = starts[:, :model.nq], starts[:, model.nq:]
    return model.rollout(state, controls, params=params, outputs=(), **options)


class Off(NamedTuple):
    """Errors in rad: root of the mean square over all windows, times and joints; mean and median of each window's root."""
    rms: float
    mean: float
    median: float


def off(angles, recorded):
    squares = ((angles - recorded) ** 2).mean(axis=(1, 2))
    return Off(float(np.sqrt(squares.mean())), float(np.sqrt(squares).mean()), float(np.median(np.sqrt(squares))))


def error(model, logs, params=None, delay=0.):
    """How far a model is off over a second, open loop, from each window's start."""
    starts, controls, recorded = windows(logs, delay)
    return off(follow(model, starts, controls, params, keep=False).qpos, recorded)


# ---- tosses of the cube -----------------------------------------------------------------------------------------------------
class Toss(NamedTuple):
    """Positions and unit quaternions at samples `step` seconds apart."""
    position: np.ndarray
    quaternion: np.ndarray
    step: float


def toss(name):
    columns = load(name)
    quaternion = np.stack([columns[f"q{k}"] for k in "wxyz"], axis=1)
    return Toss(np.stack([columns[k] for k in "xyz"], axis=1), quaternion / np.linalg.norm(quaternion, axis=1)[:, None],
                1 / 148 if name.startswith("cube/") else .0068)


def turned(before, after):
    """Rotation vectors, in the frame of `before`, from quaternions to others."""
    w, v, x, y = before[..., :1], -before[..., 1:], after[..., :1], after[..., 1:]
    real = w * x - (v * y).sum(-1, keepdims=True)
    vector = w * y + x * v + np.cross(v, y)
    sine = np.linalg.norm(vector, axis=-1, keepdims=True)
    return np.where(real < 0, -1, 1) * vector * np.where(sine > 1e-9, 2 * np.arctan2(sine, np.abs(real)) / np.maximum(sine, 1e-9), 2)


def stretches(tosses, steps, every=1, first=1):
    """(states at the start, positions, quaternions as recorded) of stretches of `steps` samples. Velocities are the differences from the sample
    before, which is what a step of a semi-implicit integrator of that length ends with."""
    states, positions, quaternions = [], [], []
    for one in tosses:
        velocity = np.diff(one.position, axis=0) / one.step
        spin = turned(one.quaternion[:-1], one.quaternion[1:]) / one.step
        for k in range(first, len(one.position) - steps, every):
            states.append(np.concatenate([one.position[k], one.quaternion[k], velocity[k - 1], spin[k - 1]]))
            positions.append(one.position[k:k + steps + 1])
            quaternions.append(one.quaternion[k:k + steps + 1])
    return np.array(states), np.array(positions), np.array(quaternions)


def toss_error(model, tosses, steps, params=None, every=1):
    """(m, rad): roots of the mean squares of what positions and rotations are off, over all samples of all stretches but the first."""
    states, positions, quaternions = stretches(tosses, steps, every)
    state = model.state(np.tile(model.init().flat, (len(states), 1)))
    state.qpos[:], state.qvel[:] = states[:, :7], states[:, 7:]
    found = model.rollout(state, steps=steps, params=params, outputs=(), keep=False).qpos[:, 1:]
    off_place, off_turn = found[..., :3] - positions[:, 1:], turned(quaternions[:, 1:], found[..., 3:])
    return tuple(float(np.sqrt((x ** 2).sum(-1).mean())) for x in (off_place, off_turn))


# ---- what was published -----------------------------------------------------------------------------------------------------
PENDULUMS = {  # inertia about the hinge, mass times distance of the center, damping, frictionloss
    "sp_parameters_energy.yaml": (.6755 * .5 ** 2, .6755 * .5, .35, 0), "the same, friction .19 of main.py": (.6755 * .5 ** 2, .6755 * .5, .35, .19),
    "sp_parameters_trajectory.yaml": (.6755 * .5 ** 2, .6755 * .5, .35, 1.3), "sp_parameters_sac.yaml, _ddpg.yaml": (.139625, .6755 * .5, .1, 1.3),
    "sp_parameters_gravity.yaml": (.139625, .546 * .4, .1, 1.3), "sp_parameters_lqr.yaml": (.139625, .5, .1, 1.3),
    "sp_parameters_ilqr.yaml": (.6755 * .4 ** 2, .6755 * .4, .35, 1.3), "system_identification.txt": (.06259, .1022, .04707, np.pi / 2 * .1839)}
CUBES = {"dair_pll: edge .1048, friction .15": (.1048, .15), "dojo: edge 2 half edges, friction .16": (.1048, .16),
         "contact-nets: edge .1048, friction .18": (.1048, .18), "dojo's first guess: edge 4 half edges, friction .4": (.2096, .4)}


def pendulum_params(inertia, moment, damping, friction):
    """Parameters of models/pendulum.xml: a body of this inertia about the hinge and this mass times distance."""
    distance = .9 * inertia / moment
    return {"body_mass:arm": [moment / distance], "body_ipos:arm": [0, 0, -distance], "body_inertia:arm": [.1 * inertia] * 3,
            "dof_damping": [damping], "dof_frictionloss": [friction]}


def cube_params(edge, friction):
    return {"geom_size:cube": [edge / 2] * 3, "geom_friction:board": [friction, 0, 0]}


def main():
    sys.path.insert(0, os.path.join(os.path.dirname(HERE), "tests", "oracle"))
    import inside
    sys.path.insert(0, os.path.join(inside.build_dir(), "python"))
    import pullback as pb

    def show(words, found):
        print(f"{words:66} {found.rms:.4f} {found.mean:.4f} {found.median:.4f}", flush=True)

    for robot in ("acrobot_A0", "pendubot_C0"):
        model = pb.load(path(MODELS[robot]))
        for torque, delay in (("command", 0.), ("command", .004), ("torque", 0.)):
            show(f"{robot}, {torque}, {1e3 * delay:.0f} ms late", error(model, [log(n, torque) for n in names(robot, True)], delay=delay))
    model = pb.load(path(MODELS["acrobot_A0"]))
    for name in names("acrobot_A0_second_day"):
        show(f"{name}, command, 4 ms late", error(model, [log(name)], delay=.004))

    model, held = pb.load(path(MODELS["pendulum"])), [log(n, "torque") for n in names("pendulum", True)]
    for words, numbers in PENDULUMS.items():
        show(f"pendulum, measured torque, {words}", error(model, held, pendulum_params(*numbers)))

    tosses = [toss(n) for n in names("cube", True)]
    for method in ("soft", "cones"):
        model = pb.load(path(MODELS["cube"]), contact={"method": method})
        for words, numbers in CUBES.items():
            one, many = (toss_error(model, tosses, steps, cube_params(*numbers), every) for steps, every in ((1, 1), (60, 1000)))
            print(f"cube, {method}, {words:50} {1e3 * one[0]:.3f} mm {np.degrees(one[1]):.3f} deg a step, "
                  f"{1e3 * many[0]:.1f} mm {np.degrees(many[1]):.1f} deg over 60", flush=True)


if __name__ == "__main__":
    main()
