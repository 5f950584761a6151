"""Steps to a threshold beside tuned baselines

SHAC learns three tasks from gradients of the physics, and PPO, an evolution strategy and sep-CMA without: the same worlds, observations, losses,
starts and networks, the same count of physics steps, five seeds, and settings of all of them from grids that are part of the case (K59, K66;
motor torques, K61, are those of the arm; long-term reward, K13, is the swing-up, which case P-SHAC1 learns in 4 million steps).

A task is learned when whole episodes without noise, from 8 starts, cost at most the threshold in the mean of their decisions. Steps are those
a method learns from; the evaluations that show how far it is are not counted, of none. Settings were chosen by the least number of steps at a
seed that is none of the five; what that came to is kept in tuning.csv, and settings that it lacks are tried first."""
import concurrent.futures
import copy
import csv
import itertools
import json
import os

import numpy as np

from common import EXAMPLES, Bench, reported, row
from K64 import TASK as BALANCE

LONG = "three minutes"
TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tuning.csv")
SEEDS, TUNING_SEED, FACTOR = range(5), 100, 10
EVERY, STARTS, LOOKS = 4, 8, 40  # steps of a decision; starts of an evaluation; evaluations of a training
WORLDS, JOBS = 4, 4

ARM = """<mujoco model="reach">
  <option timestep="0.005"/>
  <default><geom contype="0" conaffinity="0" density="500"/><joint damping="0.5" armature="0.02"/></default>
  <worldbody>
    <body><joint name="turn" axis="0 0 1"/><joint name="lift" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0 0 .4" size=".05"/>
      <body pos="0 0 .4"><joint name="bend" axis="0 1 0"/><joint name="swivel" axis="0 0 1"/><geom type="capsule" fromto="0 0 0 0 0 .4" size=".04"/>
        <body pos="0 0 .4"><joint name="nod" axis="0 1 0"/><joint name="tilt" axis="1 0 0"/><geom type="capsule" fromto="0 0 0 0 0 .2" size=".03"/>
          <site name="hand" pos="0 0 .2"/></body></body></body>
  </worldbody>
  <actuator>
    <motor joint="turn" gear="20" ctrlrange="-1 1"/><motor joint="lift" gear="40" ctrlrange="-1 1"/><motor joint="bend" gear="20" ctrlrange="-1 1"/>
    <motor joint="swivel" gear="5" ctrlrange="-1 1"/><motor joint="nod" gear="5" ctrlrange="-1 1"/><motor joint="tilt" gear="5" ctrlrange="-1 1"/>
  </actuator>
</mujoco>"""

# Of each task: what it is, its threshold, and the most steps of the methods.
HIDDEN = [{"dense": 32, "activation": "elu"}, {"dense": 32, "activation": "elu"}]
TASKS = {
    "balance": (0.01, {"shac": 60e3, "ppo": 150e3, "es": 600e3, "sep-cma": 600e3}),
    "swing-up": (0.15, {"shac": 300e3, "bptt": 300e3, "ppo": 800e3, "es": 3e6, "sep-cma": 3e6}),
    "reach": (0.05, {"shac": 80e3, "ppo": 200e3, "es": 600e3, "sep-cma": 600e3})}
REACH = {"model": ARM, "init": {"qpos": [0, .6, .6, 0, .6, 0]},
         "policy": {"every": EVERY, "observe": [{"qpos": True}, {"site_position": "hand"}, {"qvel": True}],
                    "layers": [{"normalize": True}, *HIDDEN, {"dense": 6, "gain": 0.01}, {"activation": "tanh"}]},
         "loss": [{"name": "hand", "site": "hand", "target": [.3, .4, .5], "at": "all"},
                  {"name": "slow", "qvel": True, "type": "squared", "target": 0, "weight": 0.0005, "at": "all"}],
         "episode": {"seconds": 2.4, "spread": {"qpos": .5, "qvel": .5}}}

# The settings that are tried.
GRIDS = {
    "shac": {"window": (10, 30), "rate": (.005, .01), "noise": (.2, .5)},
    "ppo": {"worlds": (16, 4), "rate": (.001, .003), "rounds": (4, 10), "ratio": (.2, .3)},
    "es": {"sigma": (.02, .05), "rate": (.1, .3), "population": (8, 16)},
    "sep-cma": {"sigma": (.1, .5), "population": (8, 16)}}
FIXED = {"shac": {"last_noise": .05}, "bptt": {"last_noise": .05}, "ppo": {"window": 60, "noise": .5, "last_noise": .1, "batches": 4},
         "es": {"window": 30}, "sep-cma": {"window": 30}}


def description(task):
    """A task without "train"; swing-up with the smaller network of the others."""
    if task == "reach":
        return copy.deepcopy(REACH)
    with open(os.path.join(EXAMPLES, "cartpole", "swing-up.json"), encoding="utf-8") as f:
        swing = json.load(f)
    made = swing if task == "swing-up" else BALANCE
    whole = {"model": os.path.join(EXAMPLES, "cartpole", "cartpole.xml"), **{k: made[k] for k in ("policy", "loss", "episode", "init") if k in made}}
    whole = copy.deepcopy(whole)
    whole["policy"]["layers"][1:3] = HIDDEN
    return whole


def episode(task):
    """Physics steps of a whole one; windows divide it, so that none is run beyond its end."""
    return round(description(task)["episode"]["seconds"] / (.005 if task == "reach" else 1 / 240))


def training(task, method, setting):
    """(description of a training, steps that an update learns from)"""
    train = {"method": method, "worlds": WORLDS, **FIXED[method], **setting}
    each = train["worlds"] * (train["population"] * episode(task) if method in ("es", "sep-cma") else train["window"] * EVERY)
    train["updates"] = round(TASKS[task][1][method] / each)
    train["evaluate"] = {"every": max(1, train["updates"] // LOOKS), "starts": STARTS}
    if method in ("shac", "ppo"):
        train["critic"] = {"layers": [*HIDDEN, {"dense": 1}], "rounds": 8}
    return {**description(task), "train": train}, each


def learn(bench, task, method, setting, seed):
    """(steps to the threshold, inf where it was not reached; all steps; least cost)"""
    name = "-".join(map(str, (task, method, seed, *setting.values())))
    text, each = training(task, method, setting)
    bench.write(name + ".json", text)
    bench.run("train", name + ".json", "--seed", seed, "--threads", 1, "-o", name + ".npz", "-q", "--fresh", "--allow-root", EXAMPLES)
    with open(bench.path(name + ".csv"), encoding="utf-8") as f:
        found = [(float(r["update"]) * each, float(r["evaluated"])) for r in csv.DictReader(f) if r["evaluated"]]
    steps = next((s for s, cost in found if cost <= TASKS[task][0]), np.inf)
    return steps, found[-1][0], min(cost for _, cost in found)


# ---- the grids --------------------------------------------------------------------------------------------------------------
def settings(method):
    """All combinations of two numbers; of three and more every other one, in which each pair of values meets as often."""
    grid = GRIDS[method]
    which = [k for k in itertools.product((0, 1), repeat=len(grid)) if len(grid) < 3 or sum(k) % 2 == 0]
    return [{name: values[i] for (name, values), i in zip(grid.items(), k)} for k in which]


def tuned():
    """{(task, method): [(setting, steps to the threshold, least cost)]}"""
    found = {}
    if os.path.exists(TABLE):
        with open(TABLE, encoding="utf-8", newline="") as f:
            for r in csv.DictReader(f):
                found.setdefault((r["task"], r["method"]), []).append((json.loads(r["setting"]), float(r["steps"]), float(r["least"])))
    return found


def tune():
    """The table, after what it lacks has been measured."""
    there = tuned()
    todo = [(t, m, s) for t in TASKS for m in GRIDS for s in settings(m) if s not in [x[0] for x in there.get((t, m), [])]]
    with Bench() as bench, concurrent.futures.ThreadPoolExecutor(JOBS) as pool, open(TABLE, "a", encoding="utf-8", newline="") as f:
        out = csv.writer(f, lineterminator="\n")
        if not there:
            out.writerow(["task", "method", "setting", "steps", "least"])
        for (t, m, s), (steps, _, least) in zip(todo, pool.map(lambda x: learn(bench, *x, TUNING_SEED), todo)):
            out.writerow([t, m, json.dumps(s), f"{steps:g}", f"{least:.4g}"])
            f.flush()
    return tuned()


def best(tried):
    """Of a grid: the setting with the least steps, or the least cost where none arrives."""
    return min(tried, key=lambda x: (x[1], x[2]))[0]


# ---- five seeds -------------------------------------------------------------------------------------------------------------
def told(steps, most):
    """In thousands; what was not reached as a bound."""
    return f"{steps / 1e3:.4g}k" if np.isfinite(steps) else f"> {most / 1e3:.4g}k"


def measure(grids):
    """{(task, method): (setting, array (seeds, 2): steps to the threshold, all steps)} with the best of each grid; bptt has that of shac."""
    chosen = {key: best(tried) for key, tried in grids.items()}
    chosen["swing-up", "bptt"] = chosen["swing-up", "shac"]
    with Bench() as bench, concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        runs = {key: [pool.submit(learn, bench, *key, setting, seed) for seed in SEEDS] for key, setting in chosen.items()}
        return {key: (chosen[key], np.array([run.result()[:2] for run in of])) for key, of in runs.items()}


def of_grid(task, method, tried):
    words = ", ".join(f"{name} {values[0]:g} {values[1]:g}" for name, values in GRIDS[method].items())
    steps, most = sorted(x[1] for x in tried), TASKS[task][1][method]
    arrived = sum(map(np.isfinite, steps))
    return reported(f"{task}: {method}: grid of {len(tried)} ({words}): settings that arrive, steps of the best and of the median",
                    f"{arrived} of {len(tried)}: {told(steps[0], most)}, {told(np.median(steps), most)}")


def compared(task, method, ours, theirs):
    """The ratio of medians over seeds; where the other method's median did not arrive, its whole run is a bound."""
    quantity, own = f"{task}: steps of {method} for one of shac, medians", np.median(ours[:, 0])
    if not np.isfinite(own):
        return row(quantity, "shac does not arrive", f">= {FACTOR}", False)
    median, whole = np.median(theirs[:, 0]), theirs[:, 1].max()
    ratio, bound = min(median, whole) / own, "" if np.isfinite(median) else "> "
    return row(quantity, f"{bound}{ratio:.2g}", f">= {FACTOR}", ratio >= FACTOR)


def of_seeds(task, method, setting, runs):
    words = ", ".join(f"{name} {value:g}" for name, value in setting.items()) + (", without a critic" if method == "bptt" else "")
    return reported(f"{task}: {method} ({words}): steps to a cost of {TASKS[task][0]:g}, seeds 0 to {len(SEEDS) - 1}",
                    ", ".join(told(steps, whole) for steps, whole in runs))


def rows():
    grids, out = tune(), []
    found = measure(grids)
    for task in TASKS:
        ours = found[task, "shac"][1]
        arrived = int(np.isfinite(ours[:, 0]).sum())
        out += [of_grid(task, method, grids[task, method]) for method in GRIDS]
        out += [of_seeds(task, method, *value) for (of, method), value in found.items() if of == task]
        within = f" within {TASKS[task][1]['shac'] / 1e3:.0f}k steps" + (" (P-SHAC1: 4.27 million)" if task == "swing-up" else "")
        out.append(row(f"{task}: seeds of shac that arrive{within}, of {len(SEEDS)}", arrived, f"{len(SEEDS)}", arrived == len(SEEDS)))
        out += [compared(task, method, ours, found[task, method][1]) for method in GRIDS if method != "shac"]
    return out
