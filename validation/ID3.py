"""Logs as they come: landing and walking, by windows

A walker falls to the ground and steps for 1.2 s; what its joints, its trunk's place and attitude and a gyroscope show comes as in ID2: at 60 Hz with
jitter, 10 % of the rows missing. Through the contacts of the whole motion no loss is smooth: it is fitted by windows of .1 s first, from
parameters that are 13 to 25 % off, each with its own beginning, and from what these found by windows of .4 s. Contacts begin without a jump of
their force (solimp .0001 .95 .005): with MuJoCo's own (.9 .95 .001) the loss jumps wherever a foot touches the ground within one step, and
fits stall there."""
import os
import warnings

import numpy as np

from common import ROOT, below, reported, row
import pullback as pb

H, T, RATE, JITTER, LOST_ROWS = 0.002, 1.2, 60, 3e-3, 0.1
SIGMA = {"qpos": 2e-3, "gyro": 2e-2}
SIDES, SEEDS, WINDOWS = ("left", "right"), 40, ((0.1, 15), (0.4, 40))
JOINTS = [f"{side}_{joint}" for side in SIDES for joint in ("roll", "hip", "knee", "ankle")]
WALKING = os.path.join(ROOT, "validation", "walking.xml")
TURN = [f"root.q{c}" for c in "wxyz"]


def set_points():
    """Each leg in turn is drawn up and put down."""
    t = np.arange(round(T / H)) * H
    out = np.zeros((len(t), 8))
    for k, side in enumerate((1, -1)):
        lift = 0.2 * np.clip(side * np.sin(2 * np.pi * 1.7 * t), 0, None)**2
        out[:, 4 * k + 1:4 * k + 4] = np.stack([-0.2 - lift, 0.4 + 2 * lift, -0.2 - lift], axis=1)
    return out


class Walk:
    """The motion that is recorded."""

    def __init__(self):
        self.model, self.control = pb.load(WALKING), set_points()
        start = self.model.init()
        start.qpos[2], start.qpos[7:] = 1.14, self.control[0]
        r = self.model.rollout(start, ctrl=self.control)
        self.time, self.qpos, self.gyro = np.asarray(r.time), np.asarray(r.qpos), np.asarray(r.sensordata)[:, 4:7]
        self.given = {"time": self.time[:-1], **{f"control:{j}": self.control[:, k] for k, j in enumerate(JOINTS)}}

    def log(self, seed):
        rng = np.random.default_rng(seed)
        even = np.arange(0, T, 1 / RATE)
        times = np.sort(np.clip(even + rng.uniform(-JITTER, JITTER, len(even)), 0, T - 1e-6))
        times = times[rng.random(len(times)) > LOST_ROWS]
        at = lambda rows: np.stack([np.interp(times, self.time, c) for c in rows.T], axis=1)
        noise = lambda width, size: size * rng.standard_normal((len(times), width))
        qpos, gyro = at(self.qpos), at(self.gyro) + noise(3, SIGMA["gyro"])
        place, joints = qpos[:, :3] + noise(3, SIGMA["qpos"]), qpos[:, 7:] + noise(8, SIGMA["qpos"])
        turn = turned(qpos[:, 3:7], noise(3, SIGMA["qpos"]))
        return {"time": times, **dict(zip(("root.x", "root.y", "root.z"), place.T)), **dict(zip(TURN, turn.T)),
                **{f"qpos:{j}": c for j, c in zip(JOINTS, joints.T)}, **dict(zip(("gyro.x", "gyro.y", "gyro.z"), gyro.T))}


def turned(quaternion, small):
    """Quaternions after small rotations, by their rotation vectors in the body's frame."""
    w, x, y, z = quaternion.T / np.linalg.norm(quaternion, axis=1)
    a, b, c = small.T / 2
    out = np.stack([w - x * a - y * b - z * c, w * a + x + y * c - z * b, w * b - x * c + y + z * a, w * c + x * b - y * a + z], axis=1)
    return out / np.linalg.norm(out, axis=1, keepdims=True)


def unknowns(mass, damping, gain):
    legs = lambda field, joints, entry="", formula="z": {f"{field}:{side}_{joint}{entry}": formula for side in SIDES for joint in joints}
    return [{"name": "torso mass", "parameter": "body_mass:torso", "start": mass, "lower": 1},
            {"name": "hip damping", "start": damping, "lower": 0, "sets": legs("dof_damping", ["hip"])},
            {"name": "servo gain", "start": gain, "scale": 800, "lower": 1, "sets": {**legs("actuator_gainprm", ["hip", "knee"], ":0"),
                                                                                     **legs("actuator_biasprm", ["hip", "knee"], ":1", "-z")}}]


def fit(walk, log):
    """Windows of one length after the other, each from what those before have found."""
    values = (15., 3., 700.)
    for window, iterations in WINDOWS:
        found = pb.identify(WALKING, log, unknowns(*values), sigma=SIGMA, window=window, controls=walk.given, threads=2, optimizer={"iterations": iterations})
        values = tuple(found.values.values())
    return found


def rows():
    walk = Walk()
    truth = {"torso mass": float(walk.model.params["body_mass:torso"]), "hip damping": 4., "servo gain": 800.}
    scores, squares, deviations, outcomes, warned = [], [], [], [], 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of fits that end at their limit of iterations
        for seed in range(SEEDS):
            found = fit(walk, walk.log(seed))
            scores.append([(found.values[k] - truth[k]) / found.deviations[k] for k in truth])
            squares.append(found["uncertainty"]["chi_square"])
            deviations.append([found.deviations[k] / truth[k] for k in truth])
            outcomes.append(found["outcome"])
            warned += found["uncertainty"]["warning"] is not None

    out, scores = [], np.array(scores)
    for k, name in enumerate(truth):
        out.append(below(f"{name}: mean error over {SEEDS} seeds, in standard deviations told", abs(scores[:, k].mean()), 0.5))
        out.append(below(f"{name}: root mean square of error / standard deviation", float(np.sqrt((scores[:, k]**2).mean())), 1.5))
    out.append(row("fits that are warned of, though the model is right", warned, "<= 2", warned <= 2))
    out.append(reported("chi-square for each degree of freedom, mean", float(np.mean(squares))))
    out.append(reported("standard deviations relative to the values", ", ".join(f"{100 * s:.2g} %" for s in np.mean(deviations, axis=0))))
    out.append(reported("how the searches end", ", ".join(f"{outcomes.count(o)} {o}" for o in sorted(set(outcomes)))))
    return out
