#!/usr/bin/env python3
"""Contact methods and gradient modes side by side, on scenes with a known answer: table, and bench/results/contacts.csv.

    bench/contacts.py [--build DIR]

Each scene is run from PHASES starts that differ within a time step, as the moment of touch within a step is nobody's choice.
forward         root mean square of the error of what is seen at the end, of the truth's size
gradient        error of the mean gradient over the starts, of the truth's size
scatter         root mean square of the gradients' distances from their mean, of the truth's size
cost            processor time of a run and one pullback, by that of method soft in mode exact
found           starts, of 20, from which Gauss-Newton (`pullback optimize`) meets a target within 1 %
"""
import argparse
import csv
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests/oracle"), str(ROOT / "tools")]
import inside  # noqa: E402
import plot_contacts  # noqa: E402

G, H, PHASES, STARTS = 9.81, 1e-3, 16, 20
COLUMNS = ["scene", "method", "mode", "forward", "gradient", "scatter", "cost", "found", "note"]
HEAD = '<mujoco><option timestep="{h!r}" gravity="0 0 -9.81" cone="elliptic" integrator="{integrator}"><flag refsafe="disable"/></option>'
BALL = HEAD + """<default><geom friction="{mu} 0 0"/></default><worldbody><geom type="plane" size="0 0 1" friction="0 0 0" euler="0 {tilt} 0"/>
<body><freejoint/><geom name="thing" size=".1" mass="1"/></body></worldbody></mujoco>"""
BLOCK = BALL.replace('size=".1" mass', 'type="box" size=".1 .1 .1" mass')
DROP = HEAD + """<default><geom condim="1" solref="-1e4 0" solimp=".95 .95 .001"/></default><worldbody><geom type="plane" size="0 0 1"/>
<body pos="0 0 .1"><joint type="slide" axis="0 0 1"/><geom size=".1" mass="1"/></body></worldbody></mujoco>"""

# settings of the contact, gradient modes
METHODS = {
    "soft": ({}, ("exact", "event", "smooth")),
    "relaxed": ({"kappa": 1, "onset": 0.01}, ("exact",)),
    "penalty": ({"method": "penalty"}, ("exact",)),
    "lcp": ({"method": "lcp"}, ("exact", "event")),
    "cones": ({"method": "cones"}, ("exact", "event")),
    "sweeps": ({"method": "sweeps"}, ("exact", "event")),
    "impact": ({"method": "impact"}, ("exact",)),
}
SPRINGS, RIGID = ("soft", "relaxed", "penalty"), ("lcp", "cones", "sweeps", "impact")
NOTES = {
    "rest": "rests on the ground: method impact has no resting contact",
    "restitution": "has no coefficient of restitution",
    "spring": "truth: the same bounce on its own spring",
    "own": "truth: its own motion at a tenth of the step, gradients by differences of 16 mm and 0.2 m/s",
    "RK4": "flies by RK4, the others by Euler",
}


# ---- truths: what is seen at the end, by the inputs; analytic, so that a complex step differentiates them ------------------------
def roll(p, seconds):
    """Dropped, touches without bouncing, slides, rolls."""
    v, z, mu = p
    return np.array([5 / 7 * v * seconds + 2 * v * v / (49 * mu * G) + mu * z])


def stop(p, _):
    return np.array([p[0] ** 2 / (2 * p[1] * G)])


def bounces(e, lasts=lambda u: 0.0):
    """Height and speed at the end; a touch at the speed u lasts so long, and leaves with e u."""
    def truth(p, seconds):
        (z, v), t = p, seconds
        while True:
            u = np.sqrt(v * v + 2 * G * z)
            fall = (v + u) / G
            if np.real(t) <= np.real(fall):
                return np.array([z + v * t - G * t * t / 2, v - G * t])
            z, v, t = 0, e * u, t - fall - lasts(u)
    return truth


def spring(g):
    """Time on a spring of 1e4 N/m under 1 kg that weighs g there."""
    return lambda u: 2 * (np.pi - np.arctan(u * 100 / g)) / 100


def tilted(e, mu, angle, radius, spin):
    """A spinning ball on a tilted plane: flight, one impact with restitution and Coulomb's friction, flight."""
    n, t = np.array([np.sin(angle), np.cos(angle)]), np.array([np.cos(angle), -np.sin(angle)])  # in x, z

    def truth(p, seconds):
        z, vx = p
        fall, along = G * n[1], n[0] * vx  # gap = n.(x, z) - radius
        gap = n[1] * z - radius
        tau = (along + np.sqrt(along * along + 2 * fall * gap)) / fall
        at, v = np.array([vx * tau, z - G * tau * tau / 2]), np.array([vx, -G * tau])
        vn, slip = n @ v, t @ v - radius * spin
        jn, jt = -(1 + e) * vn, -slip * 2 / 7
        if abs(jt) > mu * np.real(jn):
            jt = -mu * jn * np.sign(np.real(slip))
        v, w = v + jn * n + jt * t, spin - jt / (0.4 * radius)
        s = seconds - tau
        return np.array([at[0] + v[0] * s, at[1] + v[1] * s - G * s * s / 2, v[0], w])
    return truth


class Scene:
    """What is run, by inputs p; what of the tangent of the last state is seen; how the starts differ; a search."""

    def __init__(self, xml, seconds, inputs, start, seen, size, shift, truth, widths, search, settings=None, **words):
        self.xml, self.seconds, self.inputs, self.start, self.seen = xml, seconds, np.array(inputs, float), start, seen
        self.size, self.shift, self.truth, self.widths = np.array(size), np.array(shift, float), truth, widths
        self.search = search  # components of the initial velocity, their ranges, coordinates of the target
        self.settings, self.words = settings or {}, {"tilt": 0, "mu": 0, **words}

    def starts(self, h):
        return [self.inputs + (k / PHASES - 0.5) * h * self.shift for k in range(PHASES)]

    def contact(self, method):
        return {**METHODS[method][0], **self.settings.get(method, {})}

    def model(self, method, h=H):
        return self.xml.format(h=h, integrator="RK4" if method == "impact" else "Euler", **self.words)


FREE = lambda x, z, vx, wy: ([x, 0, z, 1, 0, 0, 0], [vx, 0, 0, 0, wy, 0])
E8 = {m: {"restitution": 0.8} for m in RIGID}
E1 = {m: {"restitution": 1} for m in RIGID}
E5 = {m: {"restitution": 0.5} for m in RIGID}
OVERLAP = 1e-7  # of the block at first: what does not touch falls for a step
SCENES = {
    # p: (speed, height, friction); sees x
    "throw": Scene(BALL, 1.5, (3, 0.05, 0.3), lambda p: FREE(0, 0.1 + p[1], p[0], 0), [0], [1], (0, 1, 0),
                   {m: roll for m in METHODS if m != "impact"}, None, ([0], [(1, 8)], [0]), {"penalty": {"damping": 200, "slip": 0.02, "width": 0.002}}),
    # p: (speed, friction); sees x
    "slide": Scene(BLOCK, 1.2, (3, 0.5), lambda p: FREE(0, 0.1 - OVERLAP, p[0], 0), [0], [1], (5, 0), {m: stop for m in METHODS if m != "impact"},
                   None, ([0], [(0.5, 5)], [0]), {"penalty": {"damping": 200, "slip": 0.02}}),
    # p: (height, speed); sees height, speed
    "bounce": Scene(DROP, 2.75, (1, 0), lambda p: ([p[0]], [p[1]]), [0, 1], [1, 4.43], (4.43, 0), {m: bounces(0.8) for m in RIGID},
                    None, ([0], [(-0.5, 0.5)], [0]), E8),
    "elastic": Scene(DROP, 1.0, (1, 0), lambda p: ([p[0]], [p[1]]), [0, 1], [1, 4.43], (4.43, 0),
                     {**{m: bounces(1) for m in RIGID}, **{m: bounces(1, spring(0.05 * G)) for m in ("soft", "relaxed")},
                      "penalty": bounces(1, spring(G))}, None, ([0], [(-1, 1)], [0]), {**E1, "penalty": {"damping": 0, "width": 0.005}}),
    # p: (height, speed along x); sees x, z, vx, wy
    "plane": Scene(BALL, 0.45, (0.6, 1), lambda p: FREE(0, p[0], p[1], 3), [0, 2, 6, 10], [1, 1, 1, 10], (3.1, 0),
                   {m: tilted(0.5, 0.5, np.radians(8), 0.1, 3) for m in RIGID}, (0.008, 0.1), ([0, 2], [(-2, 2), (-1, 1)], [0, 2]),
                   {**E5, "penalty": {"width": 0.005}}, tilt=8, mu=0.5),
}


def why_not(scene, method):
    if scene in ("throw", "slide") and method == "impact":
        return "rest"
    if scene == "bounce" and method in SPRINGS:
        return "restitution"
    return None


# ---- measuring -----------------------------------------------------------------------------------------------------------
class Runs:
    """A scene with a method, at a time step."""

    def __init__(self, folder, scene, method, h=H):
        self.scene, self.h = SCENES[scene], h
        path = pathlib.Path(folder) / "scene.xml"
        path.write_text(self.scene.model(method, h))
        self.m = inside.Model(str(path), contact=self.scene.contact(method))
        self.r = inside.Rollout(self.m, round(self.scene.seconds / h))
        friction = self.m.params["geom_friction"]
        self.thing = friction.offset + friction.cols  # the moving geom's, the second
        self.ambient = [k if k < self.m.nv or self.m.nq == self.m.nv else k + 1 for k in self.scene.seen]
        self.first = self.m.slots["qpos"].start

    def begin(self, p):
        qpos, qvel = self.scene.start(p)
        theta = self.m.theta.copy()
        if self.scene.xml in (BALL, BLOCK) and not self.scene.words["mu"]:
            theta[self.thing] = p[-1]
        return self.m.state(qpos, qvel), theta

    def forward(self, p):
        x, theta = self.begin(p)
        return self.r.forward(x, theta=theta)[self.first + np.array(self.ambient)]

    def pull(self, seen, mode):
        """Gradient by (qpos, qvel, friction) of one thing seen at the end of the last run."""
        bar = np.zeros(2 * self.m.nv)
        bar[seen] = 1
        x0, theta, _ = self.r.vjp(mode, qpos=bar[:self.m.nv], qvel=bar[self.m.nv:])
        return np.append(x0[:2 * self.m.nv], theta[self.thing])

    def gradient(self, p, mode):
        """d seen / d p, at the last run's."""
        e, moves = 1e-6, []
        for k in range(len(p)):  # starts are linear in p
            up, down = (self.begin(p + s * e * np.eye(len(p))[k]) for s in (1, -1))
            moves.append(np.append(self.m.difference(down[0], up[0])[:2 * self.m.nv], up[1][self.thing] - down[1][self.thing]) / (2 * e))
        return np.array([self.pull(s, mode) @ np.transpose(moves) for s in self.scene.seen])


def analytic(truth, p, seconds):
    """(seen, d seen / d p)"""
    columns = [truth(np.asarray(p) + 1e-30j * e, seconds) for e in np.eye(len(p))]
    return np.real(columns[0]), np.imag(columns).T / 1e-30


def own_truth(folder, name, method):
    """(seen, d seen / d p): means over the starts of the motion at a tenth of the step, and wide differences of these."""
    scene, fine = SCENES[name], Runs(folder, name, method, H / 10)
    mean = lambda move: np.mean([fine.forward(p + move) for p in scene.starts(H)], axis=0)
    columns = [(mean(w * e) - mean(-w * e)) / (2 * w) for w, e in zip(scene.widths, np.eye(len(scene.widths)))]
    return mean(0), np.transpose(columns)


def accuracy(folder, name, method, modes, h=H):
    """forward error; by mode (gradient error, scatter)."""
    scene, runs = SCENES[name], Runs(folder, name, method, h)
    own = own_truth(folder, name, method) if method not in scene.truth else None
    starts, ends, slopes, errors = scene.starts(h), [], [], {mode: [] for mode in modes}
    for p in starts:
        end = runs.forward(p)
        seen, slope = own or analytic(scene.truth[method], p, scene.seconds)
        ends.append((end - seen) / scene.size)
        slopes.append(slope / scene.size[:, None])
        for mode in modes:
            errors[mode].append(runs.gradient(p, mode) / scene.size[:, None] - slopes[-1])
    if own:  # the mean over the starts is what is known
        ends = [np.mean(ends, axis=0)]
    size = np.linalg.norm(np.mean(slopes, axis=0))
    rms = lambda v: float(np.sqrt(np.mean([np.sum(np.square(x)) for x in v])))
    of = lambda v: (float(np.linalg.norm(np.mean(v, axis=0)) / size), rms(v - np.mean(v, axis=0)) / float(size))
    return rms(ends) / float(np.linalg.norm(seen / scene.size)), {mode: of(np.array(v)) for mode, v in errors.items()}


def cost(folder, name, method, mode):
    """Processor time of a run and a pullback, least of some, by that of method soft in mode exact, measured in turns."""
    p, seen = SCENES[name].inputs, SCENES[name].seen[0]
    both = [(Runs(folder, name, "soft"), "exact"), (Runs(folder, name, method), mode)]
    best = [np.inf, np.inf]
    for k in range(20):
        runs, kind = both[k % 2]
        begin = time.process_time()
        runs.forward(p)
        runs.pull(seen, kind)
        best[k % 2] = min(best[k % 2], time.process_time() - begin)
    return best[1] / best[0]


def aim(runs, answer):
    """Where the method itself gets with an initial velocity: the target of the search."""
    velocity, _, place = runs.scene.search
    x, theta = runs.begin(runs.scene.inputs)
    x[runs.m.slots["qvel"].start + np.array(velocity)] = answer
    return runs.r.forward(x, theta=theta)[runs.first + np.array(place)]


def found(folder, name, method, mode):
    """From how many of the starts a search for the initial velocity meets the target."""
    scene = SCENES[name]
    velocity, ranges, place = scene.search
    qpos, qvel = scene.start(scene.inputs)
    target = [float(t) for t in aim(Runs(folder, name, method), [0.4 * lo + 0.6 * hi for lo, hi in ranges])]
    rng, met = np.random.default_rng(1), 0
    folder = pathlib.Path(folder)
    for _ in range(STARTS):
        start = [float(rng.uniform(lo, hi)) for lo, hi in ranges]
        parameters = {} if scene.words["mu"] or scene.xml is DROP else {"geom_friction:thing:0": float(scene.inputs[-1])}
        task = {"model": "scene.xml", "steps": round(scene.seconds / H), "contact": scene.contact(method), "mode": mode, "parameters": parameters,
                "init": {"qpos": [float(x) for x in qpos], "qvel": [float(x) for x in qvel]},
                "variables": [{"state": "qvel", "components": velocity, "start": start}],
                "loss": [{"name": "place", "qpos": True, "components": place, "target": target}],
                "optimizer": {"method": "gauss-newton", "iterations": 30},
                "stop": {"terms": {"place": 0.01 * float(np.linalg.norm(target))}}}
        (folder / "task.json").write_text(json.dumps(task))
        done = subprocess.run([os.path.join(inside.build_dir(), "pullback"), "optimize", "task.json", "--fresh", "-q", "-o", "result.json"],
                              cwd=folder, capture_output=True, text=True)
        if done.returncode not in (0, 1) or not (folder / "result.json").exists():
            sys.exit(f"{name}, {method}, {mode}: {done.stderr}")
        met += json.loads((folder / "result.json").read_text())["met"]
    return met


def note(name, method):
    words = ["RK4"] if method == "impact" else []
    if name == "elastic" and method in SPRINGS:
        words.append("spring")
    if method not in SCENES[name].truth:
        words.append("own")
    return "; ".join(NOTES[w] for w in words)


def table():
    """Rows of the table, as they come."""
    with tempfile.TemporaryDirectory() as folder:
        for name in SCENES:
            for method, (_, modes) in METHODS.items():
                missing = why_not(name, method)
                if missing:
                    yield [name, method, "-", "-", "-", "-", "-", "-", NOTES[missing]]
                    continue
                ahead, errors = accuracy(folder, name, method, modes)
                for mode in modes:
                    yield [name, method, mode, f"{ahead:.2g}", *(f"{x:.2g}" for x in errors[mode]), f"{cost(folder, name, method, mode):.2f}",
                           f"{found(folder, name, method, mode)}/{STARTS}", note(name, method)]


def main():
    ask = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ask.add_argument("--build", default=str(ROOT / "build/release"))
    os.environ["PULLBACK_BUILD"] = os.path.abspath(ask.parse_args().build)
    line = "{:<9}{:<9}{:<8}{:>9}{:>10}{:>9}{:>7}{:>7}  {}"
    print(line.format(*COLUMNS))
    rows = []
    for row in table():
        rows.append(row)
        print(line.format(*row), flush=True)
    with open(ROOT / "bench/results/contacts.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([COLUMNS] + rows)
    (ROOT / "docs/img/contacts.svg").write_text(plot_contacts.svg(plot_contacts.read()) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
