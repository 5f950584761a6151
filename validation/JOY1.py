"""A quadruped that follows a joystick

Twelve position servos, 12 kg. What it is told, a forward speed of -0.5 to 1 m/s and a rate of turning of -1 to 1 rad/s, is drawn again every 2 to 5 s;
in each episode its mass (+-20 %) and the friction of its feet (0.4 to 1.2) are others, it is pushed by 0.5 m/s every 2 to 4 s, and what it observes is noisy
(examples/joystick). It learns by gradients of a third of a second with a critic behind them (SHAC). The policy is then tried in 200 episodes of draws that no
training has seen, with pushes and noise: root mean square errors over all decisions, those just after a new command and a push included. The
audit asks whether the same errors come out at a half and a quarter of the step. PPO with as many decisions is beside it.

Published samples of other robots in other simulators stand beside it and judge nothing: legged_gym (Rudin et al., CoRL 2021, arXiv 2109.11978), a quadruped of
12 joints that is told speeds and turns, 1 500 updates of 4 096 robots and 24 decisions; nanoG1, a humanoid of 29 joints that walks, both by PPO on a GPU.

An interrupted run goes on where it was: trainings are kept in build/JOY1."""
import csv
import json
import os
import resource
import shutil
import subprocess

import numpy as np

from common import EXAMPLES, PROGRAM, ROOT, reported, row

LONG = "seven minutes"
SEEDS, EPISODES, ERROR, FALLS, DECISIONS = range(5), 200, 0.15, 0.1, 10e6
FOLDER = os.path.join(ROOT, "build", "JOY1")
# Its own defaults, but for less noise of set-points in radians, and as much faster a rate.
PPO = {"method": "ppo", "updates": 300, "worlds": 32, "window": 32, "rate": 1e-3, "noise": 0.1}


def task(seed, method):
    with open(os.path.join(EXAMPLES, "joystick", "joystick.json"), encoding="utf-8") as f:
        out = json.load(f)
    out["policy"]["seed"] = out["seed"] = seed
    if method == "ppo":
        out["train"] = {**{k: out["train"][k] for k in ("evaluate", "critic")}, **PPO}
        out["train"]["evaluate"] = {**out["train"]["evaluate"], "every": 50}
    return out


def call(name, *words):
    """The program in the case's folder; what it says goes into a file, kept for the next time."""
    if not os.path.exists(name):
        done = subprocess.run([PROGRAM, *words, "-q", "-o", name], cwd=FOLDER, capture_output=True, text=True)
        if done.returncode not in (0, 1):
            raise RuntimeError(done.stderr)
    with open(name, encoding="utf-8") as f:
        return json.load(f)


def learn(seed, method):
    """Name of the policy's files, decisions with those of evaluations, processor time."""
    name, text = os.path.join(FOLDER, f"{method}-{seed}"), json.dumps(task(seed, method))
    if not (os.path.exists(name + ".json") and open(name + ".json", encoding="utf-8").read() == text):
        for end in (".npz", ".state", ".evaluated.json", ".audit.json", ".seconds"):
            if os.path.exists(name + end):
                os.remove(name + end)
        with open(name + ".json", "w", encoding="utf-8") as f:
            f.write(text)
    if not os.path.exists(name + ".npz"):
        spent = lambda: sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
        begun = spent()
        subprocess.run([PROGRAM, "train", name + ".json", "--threads", "1", "-o", name + ".npz", "-q"], check=True, cwd=FOLDER)
        with open(name + ".seconds", "w", encoding="utf-8") as f:
            f.write(str(spent() - begun))
    with open(name + ".csv", encoding="utf-8") as f, open(name + ".seconds", encoding="utf-8") as g:
        return name, float(list(csv.DictReader(f))[-1]["robot_steps"]) / task(seed, method)["policy"]["every"], float(g.read())


def judge(name, seed):
    """Share of episodes that end early, errors of speed and turn, the audit's report."""
    found = call(name + ".evaluated.json", "evaluate", name + ".json", "--policy", name + ".npz", "--starts", str(EPISODES), "--seed", str(100 + seed))
    terms = {t["name"]: t["rms"] for t in found["terms"]}
    report = call(name + ".audit.json", "audit", name + ".json", "--policy", name + ".npz")
    return found["ended"] / found["starts"], terms["speed"], terms["turn"], report


def measure(seed, method):
    name, decisions, seconds = learn(seed, method)
    falls, speed, turn, report = judge(name, seed)
    good = falls <= FALLS and max(speed, turn) <= ERROR and report["confirmed"]
    said = f"{speed:.3f} m/s, {turn:.3f} rad/s, {100 * falls:.3g} %"
    return decisions, seconds, good, said, report


def rows():
    os.makedirs(FOLDER, exist_ok=True)
    shutil.copy(os.path.join(EXAMPLES, "joystick", "quadruped.xml"), FOLDER)
    found = [measure(seed, "shac") for seed in SEEDS]
    out = []
    for seed, (_, _, _, said, report) in zip(SEEDS, found):
        errors = ", ".join(f"{r['mean']:.4f}" for r in report["runs"][:3])
        out += [reported(f"seed {seed}: root mean square errors of speed and turn, episodes of {EPISODES} that end in a fall", said),
                reported(f"seed {seed}: sum of both mean square errors without pushes and noise as trained, at h/2, at h/4", errors),
                reported(f"seed {seed}: audit", report["verdict"][:100])]
    good, decisions = sum(f[2] for f in found), max(f[0] for f in found)
    ppo = measure(0, "ppo")
    words = f"seeds, of five, with both errors <= {ERROR:g}, falls in <= {100 * FALLS:.0f} % of the episodes, and confirmed"
    return out + [row(words, good, ">= 4", good >= 4),
                  row("decisions of a training, its evaluations included [million]", decisions / 1e6, f"<= {DECISIONS / 1e6:g}", decisions <= DECISIONS),
                  reported("processor time of a training, median of the seeds [min]", float(np.median([f[1] for f in found])) / 60),
                  reported(f"the same by PPO, {ppo[0] / 1e6:.2f} million decisions, {ppo[1] / 60:.2g} min of processor time", ppo[3]),
                  reported("decisions that are published: legged_gym, a quadruped on a GPU; nanoG1, a humanoid on a GPU [million]", "147, 75")]
