"""A soft biped learns to walk

A body of triangles with 19 muscles in the plane learns to walk from what its points do and how its muscles are tensed: gradients of windows of 64
decisions through the physics. A network changes activations by at most 0.3 a step of 33 ms, within 0.25 to 1; the clip's derivative is the projected
one, since the exact one never lets a muscle go that starts at its bound. First at that step, then at half of it (decisions at the same times), where
the result is judged, and again at half of that. Beside it PPO and ES on the same task, with the settings that were best in a small grid on another
seed. Energies are those of the scenes of 2019 (soft.py), the mesh ours, of their size; the floor's friction is per second, so that half the step
means the same floor."""
import csv
import json
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from common import Bench, below, reported, row
import kept
import soft
from soft import H

LONG = "some minutes"
GOES_ON = True  # trainings, in build/
SIZE, DECISIONS, SEEDS = 2.5, 303, range(5)  # m; 10 s
LIMIT, LOW, HIDDEN, START = 0.3, 0.25, 32, 0.02  # of activations: change a decision, least; units; m by which points of a start are moved
SPEED, MOST, ABOUT, LEAD, STARTS = 0.5, 100_000, 0.3, 10, 4

# outside of the policy's range, for noise on activations: PPO learns from nothing else
MUSCLE = "s = min(1.05, max(0.2, 1 + a)); l = norm(x0 - x1); 0.5*k*(l/(s*norm(X0 - X1)) - 1)^2"
RUB = "k/tau*(x0.x - y0.x)^2/h*max(0, 0.01 - y0.y)"  # as soft.RUB where h is tau

# eight cells wide, legs two high; soft.quadruped, with legs of one, reached a third of its speed
QUADRUPED = soft.Body([(i, j) for i in (0, 2, 5, 7) for j in (0, 1)] + [(i, 2) for i in range(8)], [], [], 38)

COARSE = {"method": "bptt", "updates": 110, "worlds": 4, "window": 64, "noise": 0, "discount": 1, "rate": 0.01,
          "evaluate": {"every": 5, "starts": 1}}
FINE = {**COARSE, "updates": 60, "rate": 0.003, "evaluate": {"every": 10, "starts": 1}}
# the best of noise 0.1, 0.3 x rate 3e-4, 1e-3 and of sigma 0.03, 0.1 x rate 0.01, 0.05, each with 130 000 steps on seed 100
PPO = {"method": "ppo", "updates": 325, "worlds": 8, "window": 64, "noise": 0.3, "rate": 3e-4, "evaluate": {"every": 20, "starts": 1}}
ES = {"method": "es", "updates": 104, "worlds": 1, "window": 20, "population": 16, "sigma": 0.03, "rate": 0.05, "evaluate": {"every": 6, "starts": 1}}
# with the seconds of an episode: ES pays for whole ones, so it has shorter ones
BASELINES = {"PPO": (PPO, DECISIONS * H), "ES": (ES, 3.3)}


def scene(body, part, seed, train, seconds):
    """The task: steps of H / part, decisions every H."""
    n, m = len(body.x), len(body.muscles)
    x = body.x * (SIZE / np.ptp(body.x[:, 0]))
    plane = [3 * k + a for k in range(n) for a in (0, 1)]
    center = int(np.argmin(np.sum((x - x.mean(axis=0))**2, axis=1)))
    energy = lambda name, formula, on, **parameters: {"name": name, "formula": formula, "on": on, "parameters": parameters}
    muscle = {**energy("muscle", MUSCLE, body.muscles.tolist(), k=soft.MUSCLE, a={"each": [0.0] * m}), "controls": ["a"]}
    flesh = energy("flesh", soft.FLESH.replace("lambda", "lam"), "triangles", mu=soft.MU, lam=soft.LAMBDA)
    floor = [energy("floor", soft.FLOOR, "points", k=soft.COLLISION), energy("rub", RUB, "points", k=soft.FRICTION, tau=H)]
    mesh = {"points": [[*map(float, p), 0] for p in x], "triangles": body.triangles.tolist()}
    dense = lambda size, gain: {"dense": size, "gain": gain}
    last = [{"formula": [f"x{4 * n + k}" for k in range(m)]}]
    change = [{**dense(HIDDEN, 1), "activation": "relu"}, {**dense(m, 0.1), "activation": "tanh"}, {"scale": LIMIT}]
    return {"deformables": {"planar": True, "bodies": [{"name": "body", "mesh": mesh, "mass": float(n), "sets": {"center": center},
                                                        "energies": [flesh, muscle, *floor]}]},
            "options": {"timestep": H / part, "gravity": [0, -soft.GRAVITY, 0]},
            "policy": {"every": part, "seed": seed,
                       "observe": [{"points": "body", "as": "offset", "components": plane},
                                   {"point_velocity": "body", "components": plane, "scale": 0.2}, {"last": True}],
                       "layers": [{"sum": [last, change]}, {"clip": [LOW - 1, 0], "projected": True}]},
            "sample": {"init": [{"state": "points", "points": "body", "components": plane, "uniform": [-START, START]}]},
            "loss": [{"point_velocity": "body_center", "components": [0], "type": "linear", "weight": -1 / SIZE, "target": 0, "at": "all"}],
            "episode": {"seconds": seconds}, "gradient": {"clip": 20}, "train": train}


class Runs(Bench):
    """A folder that stays until all is measured: what is interrupted goes on, and trainings that are done are not done again."""

    def __enter__(self):
        self.folder = kept.folder("E6")
        return self

    def __exit__(self, error, *_):
        if not error:
            kept.forget("E6")

    def train(self, name, task, seed):
        """Rows of (robot-steps, speed of an episode without noise)."""
        # the policy comes first, the page last
        if not os.path.exists(self.path(f"{name}.html")):
            self.write(f"{name}.json", task)
            self.run("train", f"{name}.json", "--seed", seed, "--threads", 1, "-o", f"{name}.npz", "-q")
        return [(float(r["robot_steps"]), -float(r["evaluated"])) for r in csv.DictReader(self.read(f"{name}.csv").splitlines()) if r["evaluated"]]

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as f:
            return f.read()


def every(bench, policy, part):
    """A policy that decides every `part` steps."""
    with np.load(bench.path(policy)) as f:
        arrays = dict(f)
    arrays["policy"] = np.array(json.dumps({**json.loads(str(arrays["policy"])), "every": part}))
    name = f"{policy[:-4]}-{part}.npz"
    bench.write(name, arrays)
    return name


def learn(bench, body, seed):
    """Rows of the coarse part, steps of both, and the policy."""
    coarse = bench.train(f"coarse-{seed}", scene(body, 1, seed, COARSE, DECISIONS * H), seed)
    task = {**scene(body, 2, seed, FINE, DECISIONS * H), "policy": every(bench, f"coarse-{seed}.npz", 2)}
    fine = bench.train(f"fine-{seed}", task, seed)
    return coarse, coarse[-1][0] + fine[-1][0], f"fine-{seed}.npz"


def walk(bench, body, policy, part, seed):
    """Over 10 s of a start that no training saw, at steps of H / part: lengths a second, slip of what is near the floor by the
    speed, deviation of activations in time."""
    task = scene(body, part, 0, None, 1)
    name, n = f"{policy[:-4]}-walk-{part}", len(body.x)
    del task["train"], task["episode"], task["policy"], task["sample"], task["gradient"], task["loss"]
    start = np.zeros((n, 3))
    start[:, :2] = body.x * (SIZE / np.ptp(body.x[:, 0])) + np.random.default_rng(1000 + seed).uniform(-START, START, (n, 2))
    bench.write(f"{name}.json", task)
    bench.write(f"{name}-start.npz", {"points": start.ravel()})
    bench.run("simulate", f"{name}.json", "-q", "--policy", every(bench, policy, part), "--steps", DECISIONS * part,
              "--init", f"{name}-start.npz", "-o", f"{name}.npz")
    with np.load(bench.path(f"{name}.npz")) as f:
        x, v, held = (f[k] for k in ("points", "point_velocity", "policy_held"))
    x, v = x.reshape(len(x), n, 3)[1:], v.reshape(len(v), n, 3)[1:]
    center = int(np.argmin(np.sum((body.x - body.x.mean(axis=0))**2, axis=1)))
    speed = v[:, center, 0].mean()
    return speed / SIZE, np.abs(v[..., 0][x[..., 1] < 0]).mean() / abs(speed), held[part:].std(axis=0).mean()


def first(rows, speed):
    """Robot-steps to the first evaluation at that speed, or None."""
    return next((steps for steps, found in rows if found >= speed), None)


def baseline(bench, body, name, seed):
    """Rows of a training without gradients of the physics, and the speed of its best policy over 10 s, mean of the starts."""
    settings, seconds = BASELINES[name]
    rows = bench.train(f"{name}-{seed}", scene(body, 1, seed, settings, seconds), seed)
    return rows, np.mean([walk(bench, body, f"{name}-{seed}.npz", 1, k)[0] for k in range(STARTS)])


def judge(bench, body, policy):
    """Means over starts at half the step and at a quarter: speeds; slip and deviation at half."""
    at = {part: np.mean([walk(bench, body, policy, part, k) for k in range(STARTS)], axis=0) for part in (2, 4)}
    return at[2][0], at[4][0], at[2][1], at[2][2]


def told(name, found):
    """Rows about a baseline: steps of each seed to the speed, or all it had where its best policy has not got it over 10 s."""
    reached = [first(rows, ABOUT) if speed >= ABOUT else None for rows, speed in found]
    steps = np.median([at or rows[-1][0] for at, (rows, _) in zip(reached, found)])
    text = ", ".join(f"{at:.0f}" if at else f"none in {rows[-1][0]:.0f} ({speed:.2f})" for at, (rows, speed) in zip(reached, found))
    return reported(f"the same by {name} (in brackets what its best policy does over 10 s)", text), steps


def everything(bench):
    body, workers = soft.biped(), ThreadPoolExecutor(os.cpu_count())
    ours = [workers.submit(learn, bench, body, seed) for seed in SEEDS]
    others = {name: [workers.submit(baseline, bench, body, name, seed) for seed in SEEDS] for name in BASELINES}
    quadruped = workers.submit(bench.train, "quadruped-0", scene(QUADRUPED, 1, 0, COARSE, DECISIONS * H), 0)
    ours = [f.result() for f in ours]
    judged = [judge(bench, body, policy) for _, _, policy in ours]
    return ours, judged, {k: [f.result() for f in v] for k, v in others.items()}, quadruped.result()


def rows():
    with Runs() as bench:
        ours, judged, others, quadruped = everything(bench)
    out, good = [], 0
    for seed, (_, steps, _), (speed, finer, _, _) in zip(SEEDS, ours, judged):
        walks = speed >= SPEED and abs(finer / speed - 1) <= .1
        good += walks
        out.append(reported(f"seed {seed}: lengths a second over 10 s, mean of {STARTS} starts; at half the step; robot-steps of training",
                            f"{speed:.3f}; {finer:.3f}; {steps:.0f}"))
    fast = sum(j[0] >= SPEED for j in judged)
    out += [row(f"seeds of {len(judged)} with {SPEED} body lengths a second over 10 s", fast, ">= 4", fast >= 4),
            row("seeds that also are within 10 % of it at half the step", good, ">= 4", good >= 4),
            below("robot-steps of a training, both parts with their evaluations, the longest of the seeds", max(steps for _, steps, _ in ours), MOST)]
    out += [below("mean speed of points on the floor by the body's (1: it slides), the largest of the seeds", max(j[2] for j in judged), 0.25),
            row("deviation of activations in time, mean over muscles, the least of the seeds", min(j[3] for j in judged), ">= 0.05",
                min(j[3] for j in judged) >= 0.05),
            reported("quadruped with legs of two cells, seed 0, the first part alone: lengths a second, the best evaluation (it does not walk)",
                     max(speed for _, speed in quadruped))]
    own = [first(coarse, ABOUT) or np.inf for coarse, _, _ in ours]
    out.append(reported(f"robot-steps to {ABOUT} lengths a second by gradients, seed by seed", ", ".join(f"{at:.0f}" for at in own)))
    for name, found in others.items():
        text, steps = told(name, found)
        lead = steps / np.median(own)
        out += [text, row(f"{name}: median of its steps (all it had where it did not get there) by that of gradients", lead, f">= {LEAD}",
                          lead >= LEAD)]
    return out
