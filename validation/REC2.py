"""A real acrobot on two days: what is found, and how sure it may be

The recordings of REC1's acrobot go in as they are: pb.identify cuts them into windows of a second, whose beginnings are unknown, too, and finds centers of
mass, moments of inertia, rotors, damping and dry friction of each joint and the delay of the torque, from the published parameters on. Runs that are held out
are predicted open loop over a second. Then the same unknowns are found from another day alone. What the model misses goes on within a run, so that samples,
taken as independent, promise far too much; runs are what is drawn anew. Intervals by runs (clusters of pb.identify: the sandwich of slopes summed by run,
Student's with a degree of freedom less than runs; of the difference by Welch) hold the other day's values, of each unknown by itself as often as
95 % ask for, of all together by Bonferroni's."""
import numpy as np
from scipy import stats

import recordings
from common import below, reported, row

import pullback as pb

DELAY, ITERATIONS = .004, 40  # s
HELD = 9  # of ten, as often as 95 % ask for
PATH, JOINTS = recordings.path(recordings.MODELS["acrobot_A0"]), recordings.JOINTS["acrobot_A0"]


def unknowns():
    """Variables of the model, as pb.identify takes them, and that of the delay."""
    model = pb.load(PATH)
    first = lambda name: float(np.ravel(model.params[name])[0])
    one = lambda name, scale, **more: {"name": name, "parameter": name, "scale": scale, **more}
    # of a moment of inertia about all axes one axis is felt
    ball = lambda body: {"name": f"moment of inertia: {body}", "start": first(f"body_inertia:{body}"), "lower": 1e-5, "scale": .01,
                         "sets": {f"body_inertia:{body}:{k}": "z" for k in range(3)}}
    # the shoulder's rotor is like the elbow's, behind a gear of 6
    rotor = {"name": "rotor", "start": first("tendon_armature:rotor"), "lower": 0, "scale": 1e-4,
             "sets": {"tendon_armature:rotor": "z", "dof_armature:shoulder": "36*z"}}
    losses = [one(f"dof_{what}:{joint}", scale, lower=0) for what, scale in (("damping", .01), ("frictionloss", .05)) for joint in JOINTS]
    delay = {"name": "delay", "delay": "controls", "start": DELAY, "lower": -3 * DELAY, "scale": DELAY}
    return [one("body_ipos:upper:2", .1), one("body_ipos:lower:2", .1), ball("upper"), ball("lower"), rotor, *losses, delay]


def log(name):
    columns = recordings.load(name)
    return {"time": columns["time"], **{j: columns[j] for j in JOINTS}, **{f"control:{j}": columns[f"{j}_command"] for j in JOINTS}}


class Day:
    """What some runs tell."""

    def __init__(self, names):
        self.names, self.unknowns = names, unknowns()
        by_samples, self.fit = (pb.identify(PATH, [log(name) for name in names], self.unknowns, window=recordings.WINDOW, clusters=clusters,
                                            optimizer={"iterations": ITERATIONS}, threads=1) for clusters in (False, True))
        self.model, self.delay = pb.load(PATH, result=self.fit), self.fit.values["delay"]
        self.values = np.array([self.fit.values[v["name"]] for v in self.unknowns])
        # of an unknown at its bound none
        self.by_runs, self.by_samples = (np.nan_to_num([fit.deviations[v["name"]] for v in self.unknowns]) for fit in (self.fit, by_samples))

    def error(self, names):
        return recordings.error(self.model, [recordings.log(name) for name in names], delay=self.delay)


def rows():
    fitted, held, other = (recordings.names(*which) for which in (("acrobot_A0", False), ("acrobot_A0", True), ("acrobot_A0_second_day",)))
    first, second, published = Day(fitted), Day(other), pb.load(PATH)
    least = min(recordings.error(published, [recordings.log(name, torque) for name in held], delay=late)
                for torque, late in (("command", 0), ("command", DELAY), ("torque", 0)))
    found = first.error(held)
    out = [reported("held-out error over 1 s, rad (all, mean, median of windows): published, found",
                    "; ".join(", ".join(f"{x:.4f}" for x in of) for of in (least, found))),
           below("root of the mean square, by the published", found.rms / least.rms, .8),
           below("mean of the windows' errors, by the published", found.mean / least.mean, .8)]

    by_runs, other_runs = first.by_runs, second.by_runs
    variances = np.stack([by_runs ** 2, other_runs ** 2])
    freedom = variances.sum(axis=0) ** 2 / (variances ** 2 / np.array([[len(fitted) - 1], [len(other) - 1]])).sum(axis=0)
    apart, width = second.values - first.values, np.sqrt(variances.sum(axis=0))
    for k, v in enumerate(first.unknowns):
        out.append(reported(f"{v['name']}: first day, second day, difference by its 95 % interval by runs",
                            f"{first.values[k]:.4g} +- {by_runs[k]:.2g}, {second.values[k]:.4g} +- {other_runs[k]:.2g}, "
                            f"{apart[k] / width[k] / stats.t.ppf(.975, freedom[k]):.2f}"))
    number = len(apart)
    covered = int((np.abs(apart) <= width * stats.t.ppf(.975, freedom)).sum())
    together = float((np.abs(apart) / width / stats.t.ppf(1 - .025 / number, freedom)).max())
    samples = np.abs(apart) / np.hypot(first.by_samples, second.by_samples) / 1.96
    return [*out, row(f"unknowns, of {number}, whose 95 % interval by runs holds the second day's value", covered, f">= {HELD}", covered >= HELD),
            below("largest difference by its interval by runs, of all together 95 % (Bonferroni)", together, 1),
            row("largest difference by its 95 % interval of independent samples", float(samples.max()), ">= 3", samples.max() >= 3),
            reported("unknowns whose interval of independent samples holds the second day's value", int((samples <= 1).sum()))]
