"""A real acrobot on two days: what is found, and how sure it may be

The recordings of REC1's acrobot go in as they are: pb.identify cuts them into windows of a second, whose beginnings are unknown, too, and finds centers of
mass, moments of inertia, rotors, damping and dry friction of each joint and the delay of the torque, from the published parameters on. Runs that are held out
are predicted open loop over a second. Then the same unknowns are found from another day alone. What the model misses goes on within a run, so that samples,
taken as independent, promise far too much; runs are what is drawn anew. Intervals by runs (the sandwich of slopes summed by run, Student's with a degree of
freedom less than runs, of the difference by Welch) hold the other day's values, of each unknown by itself as often as 95 % ask for, of all together by
Bonferroni's."""
import numpy as np
from scipy import stats

import recordings
from common import below, reported, row

import pullback as pb

STRIDE, DELAY, ITERATIONS = 10, .004, 40  # intervals look at every tenth state; s
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
        self.fit = pb.identify(PATH, [log(name) for name in names], self.unknowns, window=recordings.WINDOW, optimizer={"iterations": ITERATIONS}, threads=1)
        self.model, self.delay = pb.load(PATH, result=self.fit), self.fit.values["delay"]
        self.values = np.array([self.fit.values[v["name"]] for v in self.unknowns])

    def error(self, names):
        return recordings.error(self.model, [recordings.log(name) for name in names], delay=self.delay)

    def window(self, start, controls, angles, later):
        """(residuals, their Jacobian by the unknowns) along a window, its beginning eliminated; later: controls that come 1 ms later."""
        r = recordings.follow(self.model, start[None], controls[None], keep=True)
        seen = lambda q: q[0][STRIDE::STRIDE].ravel()
        fields = ["body_ipos", "body_inertia", "tendon_armature", "dof_armature", "dof_damping", "dof_frictionloss"]
        by = {name: slope[0][STRIDE::STRIDE] for name, slope in r.jacobian("qpos", ["state", *fields], at="all").items()}
        column = lambda slope: slope.reshape(angles[STRIDE::STRIDE].size)
        upper, lower = 1, 2  # bodies
        columns = [by["body_ipos"][..., upper, 2], by["body_ipos"][..., lower, 2], by["body_inertia"][..., upper, :].sum(-1),
                   by["body_inertia"][..., lower, :].sum(-1), by["tendon_armature"][..., 0] + 36 * by["dof_armature"][..., 0],
                   *(by[f"dof_{what}"][..., k] for what in ("damping", "frictionloss") for k in range(2))]
        moved = seen(recordings.follow(self.model, start[None], later[None], keep=False).qpos) - seen(r.qpos)
        q, _ = np.linalg.qr(by["state"].reshape(moved.size, -1))
        free = lambda x: x - q @ (q.T @ x)
        return free(seen(r.qpos) - seen(angles[None])), free(np.stack([*map(column, columns), moved / 1e-3], axis=1))

    def deviations(self):
        """Standard deviations by runs, and as if samples were independent; of unknowns at a bound zero."""
        steps, starts = round(recordings.WINDOW / recordings.STEP), {v["name"]: np.ravel(v["value"]) for v in self.fit["variables"]}
        normal, scores, squares, count, number = 0, [], 0, 0, 0
        for name in self.names:
            run, score = recordings.log(name), 0
            now, later = run.controls(self.delay), run.controls(self.delay + 1e-3)
            for k in range(0, len(run.angles) - 1, steps):
                if f"qpos@{number}" not in starts:  # what is left of the last run is shorter than a step of the fit's windows
                    break
                start = np.r_[starts[f"qpos@{number}"], starts[f"qvel@{number}"]]
                off, by = self.window(start, now[k:k + steps], run.angles[k:k + steps + 1], later[k:k + steps])
                normal, score, squares, count, number = normal + by.T @ by, score + by.T @ off, squares + off @ off, count + len(off), number + 1
            scores.append(score)
        inside, out = np.flatnonzero(self.values > [v.get("lower", -np.inf) + 1e-9 for v in self.unknowns]), np.zeros((2, len(self.values)))
        inverse, runs = np.linalg.inv(normal[np.ix_(inside, inside)]), len(scores)
        summed = np.array(scores)[:, inside] - np.mean(scores, axis=0)[inside]
        out[0, inside] = np.sqrt(np.diag(inverse @ summed.T @ summed @ inverse) * runs / (runs - 1))
        out[1, inside] = np.sqrt(np.diag(inverse) * squares / (count - len(inside)))
        return out


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

    (by_runs, by_samples), (other_runs, other_samples) = first.deviations(), second.deviations()
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
    samples = np.abs(apart) / np.hypot(by_samples, other_samples) / 1.96
    return [*out, row(f"unknowns, of {number}, whose 95 % interval by runs holds the second day's value", covered, f">= {HELD}", covered >= HELD),
            below("largest difference by its interval by runs, of all together 95 % (Bonferroni)", together, 1),
            row("largest difference by its 95 % interval of independent samples", float(samples.max()), ">= 3", samples.max() >= 3),
            reported("unknowns whose interval of independent samples holds the second day's value", int((samples <= 1).sum()))]
