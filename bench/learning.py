"""Tasks of the benchmarks of training (training.py, windows.py), and one training that goes on after a kill.

Ant, swing-up and quadruped are the tasks of examples/. Hopper, cheetah and walker are models of Gymnasium, read from where it
is installed, with its rewards, starts and ends as terms of a loss; what a policy is worth is told by Gymnasium's own code
(`gymnasium_return`). `muscles` is the soft biped of case E6, whose 19 muscles move it."""
import csv
import glob
import json
import os
import re
import resource
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(ROOT, "build", "release")
PROGRAM = os.environ.get("PULLBACK", os.path.join(BUILD, "pullback"))
FOLDER = os.path.join(ROOT, "build", "training")  # of trainings and their pages
THOUSAND = {"ant", "hopper", "cheetah", "walker"}  # told as the reward of 1000 decisions, as it is published (of some with a cost of leaning)


# ---- tasks -----------------------------------------------------------------------------------------------------------------
def example(folder, name):
    """A task of examples/, with the text of its model."""
    folder = os.path.join(ROOT, "examples", folder)
    with open(os.path.join(folder, name), encoding="utf-8") as f:
        task = json.load(f)
    with open(os.path.join(folder, task["model"]), encoding="utf-8") as f:
        task["model"] = f.read()
    return task


def asset(name):
    """The text of a model of Gymnasium."""
    packages = os.path.join(ROOT, "build", "frameworks", "lib", "python3*", "site-packages")
    found = glob.glob(os.path.join(packages, "gymnasium", "envs", "mujoco", "assets", name))
    if not found:
        sys.exit(f"{name} of Gymnasium is not installed: make python-env")
    with open(found[0], encoding="utf-8") as f:
        return f.read()


def hidden(sizes):
    """Layers with the norm of their entries and SiLU."""
    return [layer for n in sizes for layer in ({"dense": n, "gain": 1.41}, {"layernorm": True}, {"activation": "silu"})]


CRITIC = {"layers": [*hidden((64, 64)), {"dense": 1, "gain": 0.1}], "count": 2, "rounds": 8}


def planar(model, joints, every, alive, action, angle, height, noise):
    """A robot in a plane that runs along x: alive + speed - action * |u|^2 in a decision, over 1000 of them.

    every: steps of a decision; angle, height: beyond and below which it has fallen, or None; noise: half width of a start. A fall
    has no slope, so that leaning has a cost besides, which no published reward has."""
    step = float(re.search(r'timestep="([\d.]+)"', model).group(1))
    upright = (("below", angle), ("above", -angle)) if angle else ()
    done = [{"qpos": "rooty", "type": way, "target": target} for way, target in upright]
    done += [{"qpos": "rootz", "type": "above", "target": height}] if height else []
    lean = [{"name": "lean", "qpos": "rooty", "type": "squared", "weight": 0.8 / angle**2, "at": "all"}] if angle else []
    return {
        "model": model,
        "policy": {"every": every,
                   "observe": [{"qpos": ["rootz", "rooty", *joints]}, {"qvel": ["rootx", "rootz", "rooty", *joints]}],
                   "layers": [{"normalize": True}, *hidden((128, 64)), {"dense": len(joints), "gain": 0.01},
                              {"activation": "tanh"}]},
        "loss": [{"name": "speed", "qvel": "rootx", "type": "linear", "weight": -1, "at": "all"},
                 {"name": "alive", "formula": f"{-alive} + 0*v", "inputs": {"v": {"qvel": "rootx"}}, "at": "all"},
                 {"name": "action", "decision": True, "type": "squared", "weight": action, "at": "all"}, *lean],
        "episode": {"seconds": 1000 * every * step, "spread": {"qpos": noise, "qvel": noise}, **({"done": done} if done else {})},
        "train": {"worlds": 64, "window": {"most": 32, "agree": 0.5}, "noise": 0.1, "last_noise": 0.05,
                  "rate": 2e-3, "critic": CRITIC},
        "audit": {"torque": {"actuator": 1, "joint": 200},
                  "loss": [{"name": "speed", "qvel": "rootx", "type": "linear", "weight": -1, "at": "all", "mean": True}]}}


def hopper():
    return planar(asset("hopper.xml"), ["thigh_joint", "leg_joint", "foot_joint"], 4, 1, 1e-3, 0.2, 0.7, 5e-3)


def cheetah():
    return planar(asset("half_cheetah.xml"), ["bthigh", "bshin", "bfoot", "fthigh", "fshin", "ffoot"], 5, 0, 0.1, None, None, 0.1)


def walker():
    joints = [f"{part}{side}_joint" for side in ("", "_left") for part in ("thigh", "leg", "foot")]
    return planar(asset("walker2d_v5.xml"), joints, 4, 1, 1e-3, 1.0, 0.8, 5e-3)


def muscles():
    sys.path.insert(0, os.path.join(ROOT, "validation"))
    import E6
    import soft
    task = E6.scene(soft.biped(), 1, 0, {**E6.COARSE, "worlds": 16, "discount": 0.99}, E6.DECISIONS * E6.H)
    return task


TASKS = {"ant": lambda: example("ant", "run.json"), "hopper": hopper, "cheetah": cheetah, "walker": walker,
         "quadruped": lambda: example("quadruped", "walk.json"), "swing": lambda: example("cartpole", "swing-up.json"),
         "muscles": muscles}
PPO = {"rate": 3e-4, "noise": 0.4, "last_noise": 0.2, "rounds": 5, "batches": 4, "window": 32}  # window: as DFlex's trainings
GRADIENT = ("shac", "bptt")


def told(name, loss):
    """What is told of a mean loss of a decision: the reward of 1000 decisions where that is published, else the loss."""
    return -1000 * loss if name in THOUSAND else loss


# ---- one training ----------------------------------------------------------------------------------------------------------
def longest(window):
    return window["most"] if isinstance(window, dict) else window


def settings(task, method, window, decisions, evaluations):
    """The settings of a training: as many updates as make these decisions in all worlds together."""
    train = {**task["train"], "method": method}
    if method == "ppo":
        for key in ("beta1", "beta2", "clip", "last_rate"):
            train.pop(key, None)
        train |= PPO
    if window is not None:
        train["window"] = window
    updates = max(1, round(decisions / train["worlds"] / longest(train["window"])))
    starts = train.get("evaluate", {}).get("starts", 8)
    return {**train, "updates": updates, "evaluate": {"every": max(1, updates // evaluations), "starts": starts}}


def learn(name, method, seed, decisions, window=None, evaluations=20):
    """One training, which goes on where it was; what it has done is done. window: None is the task's own. What it says is in a log.

    Returns {"decisions", "seconds" (of the processor; "": it went on after a kill), "best" (told), "first" (decisions of the best
    evaluation), "agreement" (median over the updates), "window" (of an automatic one the share of the decisions of each), "path"}."""
    task = TASKS[name]()
    said = "own" if window is None else f"auto{window['most']}" if isinstance(window, dict) else str(window)
    path = os.path.join(FOLDER, f"{name}-{method}-{said}-{decisions}-{seed}")
    os.makedirs(FOLDER, exist_ok=True)
    task |= {"seed": seed, "policy": {**task["policy"], "seed": seed}}
    task["train"] = settings(task, method, window, decisions, evaluations)
    if method not in GRADIENT:
        task.pop("gradient", None)
    with open(f"{path}.json", "w", encoding="utf-8") as f:
        json.dump(task, f, indent=1)
    spent = lambda: sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    begun, whole = spent(), not os.path.exists(f"{path}.state")
    if not os.path.exists(f"{path}.html"):  # which is written last
        command = [PROGRAM, "train", f"{path}.json", "-o", f"{path}.npz", "--threads", "1"]
        with open(f"{path}.log", "a", encoding="utf-8") as log:
            subprocess.run(command, check=True, stdout=log, stderr=log)
    return {**read(name, path, task["train"]), "seconds": round(spent() - begun) if whole else "", "path": path}


def read(name, path, train):
    """What the CSV of a training says."""
    with open(f"{path}.csv", encoding="utf-8") as f:
        rows = list(csv.DictReader(f))
    used = [int(float(r["window"])) for r in rows]
    made, done = [], 0
    for k, r in enumerate(rows):
        done = round(done + (used[k] or 0) * train["worlds"])
        made.append(done)
    total = train["updates"] * longest(train["window"]) * train["worlds"]
    judged = [(float(r["evaluated"]), m) for r, m in zip(rows, made) if r["evaluated"]]
    best, at = min(judged)
    agreement = sorted(float(r["agreement"]) for r in rows if r["agreement"])
    shares = {w: round(sum(u for u in used if u == w) / sum(used), 2) for w in sorted(set(used))}
    return {"decisions": total, "best": round(told(name, best), 4), "first": min(at, total),
            "agreement": round(agreement[len(agreement) // 2], 2) if agreement else "",
            "window": used[-1] if len(shares) == 1 else " ".join(f"{w}:{s}" for w, s in shares.items())}


def audit(path):
    """The verdict on a training's policy: "confirmed", or why it is not."""
    command = [PROGRAM, "audit", f"{path}.json", "--policy", f"{path}.npz", "--page", f"{path}.audit.html", "-q"]
    found = subprocess.run(command, capture_output=True, text=True, check=False, cwd=FOLDER)
    if found.returncode not in (0, 1):
        return f"failed: {found.stderr.strip()}"
    return found.stdout.split("\n", 1)[0].strip()


# ---- results ---------------------------------------------------------------------------------------------------------------
class Table:
    """A CSV of runs, a row appended as soon as it is known: what a run that was killed had finished stays."""

    def __init__(self, path, columns, key):
        self.path, self.columns, self.key = path, columns, key
        self.rows = []
        if os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                self.rows = list(csv.DictReader(f))

    def has(self, **wanted):
        return any(all(r[k] == str(wanted[k]) for k in self.key) for r in self.rows)

    def add(self, row):
        new = not os.path.exists(self.path)
        with open(self.path, "a", encoding="utf-8", newline="") as f:
            writer = csv.DictWriter(f, self.columns, extrasaction="ignore", lineterminator="\n")
            if new:
                writer.writeheader()
            writer.writerow(row)
        self.rows.append({k: str(row.get(k, "")) for k in self.columns})


# ---- Gymnasium's own words -------------------------------------------------------------------------------------------------
def acting(path):
    """A planar robot's policy as a function of qpos and qvel, from the file of its training."""
    import numpy as np
    with np.load(f"{path}.npz") as f:
        arrays = dict(f)
    layers = json.loads(str(arrays["policy"]))["layers"]

    def apply(k, layer, x):
        own = lambda name: arrays[f"policy.{k}.{name}"]
        if "normalize" in layer:
            return (x - own("mean")) / own("deviation")
        if "dense" in layer:
            return own("weight").reshape(layer["dense"], -1) @ x + own("bias")
        if "layernorm" in layer:
            return own("gain") * (x - x.mean()) / np.sqrt(x.var() + 1e-5) + own("bias")
        return {"silu": lambda: x / (1 + np.exp(-x)), "tanh": lambda: np.tanh(x)}[layer["activation"]]()

    def act(qpos, qvel):
        x = np.concatenate([qpos[1:], qvel])
        for k, layer in enumerate(layers):
            x = apply(k, layer, x)
        return x
    return act


def gymnasium_return(path, environment, episodes=20):
    """Mean return and its deviation over episodes of an environment of Gymnasium on our physics: reward, start and end are its own."""
    sys.path.insert(0, os.path.join(BUILD, "python"))
    import numpy as np
    import pullback as pb
    import pullback.gym
    act, env, returns = acting(path), pb.gym.make(environment), []
    for k in range(episodes):
        env.reset(seed=1000 + k)
        total, over = 0, False
        while not over:
            data = env.unwrapped.data
            _, reward, ended, late, _ = env.step(act(data.qpos, data.qvel))
            total, over = total + reward, ended or late
        returns.append(total)
    env.close()
    return float(np.mean(returns)), float(np.std(returns))
