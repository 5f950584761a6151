"""Logs as they come: a walker in flight

A walker with eight servos tumbles through the air; joint angles, attitude and angular velocity come as a CSV at 60 Hz with jitter, 3 % of the
samples and 10 % of the rows missing, and go in unprocessed. Five parameters are found over 100 seeds, with how sure they are; the same logs
resampled to an even rate first are biased by many standard deviations. Between the states of the truth the joints go on as cubics by their
velocities, so that the straight lines of the fit are not those of the data."""
import json
import math
import os
import tempfile

import numpy as np

from common import ROOT, below, reported, row
import pullback as pb

H, T, RATE, JITTER, LOST_ROWS, LOST = 0.002, 0.7, 60, 3e-3, 0.1, 0.03
SIGMA = {"joints": 3e-3, "attitude": 2e-3, "gyro": 2e-2}
SIDES, SEEDS, RESAMPLED, CLEAN = ("left", "right"), 100, 10, 5
JOINTS = [f"{side}_{joint}" for side in SIDES for joint in ("roll", "hip", "knee", "ankle")]
COLUMNS = {"joints": JOINTS, "attitude": [f"attitude.{c}" for c in "wxyz"], "gyro": [f"gyro.{c}" for c in "xyz"]}
TUMBLING = os.path.join(ROOT, "validation", "tumbling.xml")


class Flight:
    """The motion that is recorded."""

    def __init__(self, height=3.0):
        self.model = pb.load(TUMBLING)
        self.steps = round(T / H)
        t = np.arange(self.steps) * H
        self.control = np.stack([0.35 * np.sin(2 * np.pi * (1.3 + 0.37 * k) * t + k) for k in range(8)], axis=1)
        self.start = self.model.init()
        self.start.qpos[2] = height
        self.start.qpos[7:] = [0.1, 0.3, -0.6, 0.2, -0.1, -0.2, -0.3, 0.1]
        self.start.qvel[:] = np.concatenate([[0.4, 0.1, 2.0, 1.0, -1.5, 0.7], 0.8 * np.cos(np.arange(8))])
        r = self.model.rollout(self.start, ctrl=self.control)
        self.qpos, self.qvel, self.sensors = (np.asarray(a) for a in (r.qpos, r.qvel, r.sensordata))

    def at(self, times):
        """Columns at any times: cubics of the joints, lines of the sensors."""
        k = np.minimum((times / H).astype(int), self.steps - 1)
        f = (times / H - k)[:, None]
        a, b, va, vb = self.qpos[k][:, 7:], self.qpos[k + 1][:, 7:], self.qvel[k][:, 6:], self.qvel[k + 1][:, 6:]
        joints = (1 + 2 * f) * (1 - f)**2 * a + f * (1 - f)**2 * H * va + f * f * (3 - 2 * f) * b + f * f * (f - 1) * H * vb
        sensors = (1 - f) * self.sensors[k] + f * self.sensors[k + 1]
        return {"joints": joints, "attitude": sensors[:, :4], "gyro": sensors[:, 4:7]}

    def log(self, seed, noise=1):
        rng = np.random.default_rng(seed)
        even = np.arange(0, T, 1 / RATE)
        times = np.sort(np.clip(even + rng.uniform(-JITTER, JITTER, len(even)), 0, T - 1e-6))
        times = times[rng.random(len(times)) > LOST_ROWS]
        data = {name: values + noise * SIGMA[name] * rng.standard_normal(values.shape) for name, values in self.at(times).items()}
        for values in data.values():
            values[rng.random(values.shape) < LOST] = np.nan
        return times, data


def resampled(times, data):
    """As one would do before: every column interpolated to an even rate of whole steps."""
    grid = np.round(np.arange(times[0] + H, times[-1], 1 / RATE) / H) * H
    known = lambda c: ~np.isnan(c)
    return grid, {name: np.stack([np.interp(grid, times[known(c)], c[known(c)]) for c in values.T], axis=1) for name, values in data.items()}


def write(path, times, data):
    names = ["time [s]", *(c for name in SIGMA for c in COLUMNS[name])]
    rows = np.column_stack([times, *(data[name] for name in SIGMA)])
    with open(path, "w", encoding="utf-8") as f:
        f.write(",".join(names) + "\n")
        f.writelines(",".join("" if math.isnan(x) else repr(float(x)) for x in one) + "\n" for one in rows)


def task():
    tie = lambda field, joints, entry="", formula="z": {f"{field}:{side}_{joint}{entry}": formula for side in SIDES for joint in joints}
    term = lambda name, of: {"name": name, **of, "target": {"file": "log.csv"}, "sigma": SIGMA[name]}
    return {"model": "tumbling.xml", "steps": round(T / H), "controls": {"file": "control.npy"}, "init": {"file": "start.npz"},
            "variables": [{"name": "torso mass", "parameter": "body_mass:torso", "start": 15, "scale": 10},
                          {"name": "hip damping", "start": 0.3, "lower": 0, "sets": tie("dof_damping", ["hip"])},
                          {"name": "knee damping", "start": 0.3, "lower": 0, "sets": tie("dof_damping", ["knee"])},
                          {"name": "foot mass", "start": 0.4, "lower": 0.01, "sets": tie("body_mass", ["foot"])},
                          {"name": "servo gain", "start": 35, "scale": 40, "sets": {**tie("actuator_gainprm", ["hip", "knee"], ":0"),
                                                                                    **tie("actuator_biasprm", ["hip", "knee"], ":1", "-z")}}],
            "loss": [term("joints", {"qpos": JOINTS}), term("attitude", {"sensor": "attitude"}), term("gyro", {"sensor": "gyro"})],
            "optimizer": {"method": "gauss-newton"}}


def fit(folder, times, data):
    write(os.path.join(folder, "log.csv"), times, data)
    return pb.optimize(os.path.join(folder, "task.json"))


def rows():
    flight, found, biased, clean, squares = Flight(), [], [], [], []
    model = flight.model
    truth = np.ravel([model.params["body_mass:torso"], 0.4, 0.25, model.params["body_mass:left_foot"], 40.0])
    with tempfile.TemporaryDirectory() as folder:
        with open(TUMBLING, encoding="utf-8") as f, open(os.path.join(folder, "tumbling.xml"), "w", encoding="utf-8") as copy:
            copy.write(f.read())
        np.save(os.path.join(folder, "control.npy"), flight.control)
        np.savez(os.path.join(folder, "start.npz"), qpos=flight.start.qpos, qvel=flight.start.qvel)
        with open(os.path.join(folder, "task.json"), "w", encoding="utf-8") as f:
            json.dump(task(), f)
        scores = lambda r: [(v["value"][0] - t) / v["deviation"][0] for v, t in zip(r["variables"], truth)]
        for seed in range(SEEDS):
            times, data = flight.log(seed)
            result = fit(folder, times, data)
            found.append(scores(result))
            squares.append(result["uncertainty"]["chi_square"])
            if seed < CLEAN:
                clean.append(scores(fit(folder, *flight.log(seed, noise=0))))
            if seed < RESAMPLED:
                biased.append(scores(fit(folder, *resampled(times, data))))
        names = [v["name"] for v in result["variables"]]
        share = [v["deviation"][0] / abs(t) for v, t in zip(result["variables"], truth)]

    found, out = np.array(found), []
    for k, name in enumerate(names):
        out.append(below(f"{name}: mean error over {SEEDS} seeds, in standard deviations told", abs(found[:, k].mean()), 0.3))
        rms = float(np.sqrt((found[:, k]**2).mean()))
        out.append(row(f"{name}: root mean square of error / standard deviation", rms, "0.85 to 1.15", 0.85 <= rms <= 1.15))
    worst = float(np.abs(np.mean(biased, axis=0)).max())
    words = f"the same logs resampled first ({RESAMPLED} seeds): largest mean error of a parameter, in standard deviations told"
    out.append(row(words, worst, ">= 3", worst >= 3))
    lines = ", ".join(f"{x:.2f}" for x in np.mean(clean, axis=0))
    out.append(reported(f"what lines between states do, without noise ({CLEAN} seeds): mean error in standard deviations told", lines))
    out.append(reported("chi-square for each degree of freedom, mean", float(np.mean(squares))))
    out.append(reported("standard deviations relative to the values", ", ".join(f"{100 * s:.2g} %" for s in share)))
    return out
