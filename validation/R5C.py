"""Gait of a quadruped, closed loop

A quadruped whose policy looks 50 times a second learns to run by gradients of 0.32 s of physics with a critic behind them (SHAC), within the
simulated time of 500 evaluations of 8 s; its feet are soft at first and stiff in the end (`ramps`). What it has learned is audited at a half and
a quarter of its step of 1.25 ms; the same learned at 5 ms is not confirmed.

An interrupted run goes on where it was: trainings are kept in build/R5C."""
import csv
import json
import os
import subprocess
import sys

from common import EXAMPLES, PROGRAM, ROOT, below, reported, row

LONG = "ten minutes"
SEEDS, H, SPEED, SECONDS, SIMULATED = range(5), 0.00125, 1.17, 8, 500 * 8
SOFT, STIFF = 0.02, 0.0027  # s: time constant of contacts
LEGS = [f"{end}_{side}" for end in ("front", "hind") for side in ("left", "right")]
FEET = [f"{leg}_foot" for leg in LEGS]
FOLDER = os.path.join(ROOT, "build", "R5C")


def example(name):
    with open(os.path.join(EXAMPLES, "quadruped", name), encoding="utf-8") as f:
        return f.read()


def model(h):
    """The example's, with stiff contacts. Set-points are limited by the policy alone: at a range of the servos noise would have no derivative."""
    text = example("quadruped.xml")
    for old, new in (('timestep="0.00125"', f'timestep="{h}"'), ('<geom friction="0.5 0.005 0.0001"/>', f'<geom friction="0.5 0.005 0.0001" solref="{STIFF} 1"/>'),
                     (' ctrlrange="-0.7853981634 0.7853981634"', "")):
        assert old in text
        text = text.replace(old, new)
    return text[text.index("<mujoco"):]


def task(seed, h):
    out = json.loads(example("walk.json"))
    del out["comment"]
    out |= {"model": model(h), "seed": seed, "audit": {"objective": "way", "factor": -1, "unit": "m/s", "loss": [
        {"name": "way", "qpos": "root", "components": [0], "type": "linear", "weight": -1 / SECONDS}]}}
    out["policy"] |= {"every": round(0.02 / h), "seed": seed}
    out["loss"].append({"name": "gentle", "qvel": [f"{leg}_{j}" for leg in LEGS for j in ("hip", "knee")], "target": 0, "weight": 1e-4, "at": "all"})
    out["train"] |= {"updates": 80, "window": 16, "rate": 4e-3, "last_rate": 0.58, "evaluate": {"every": 2, "starts": 3}, "ramps": [
        {"parameters": [f"geom_solref:{g}:0" for g in ["floor", *FEET]], "from": SOFT, "begin": 0.75}]}
    return out


def learn(seed, h):
    """Name of the policy's files, and the simulated time."""
    os.makedirs(FOLDER, exist_ok=True)
    name, text = os.path.join(FOLDER, f"{seed}-{h}"), json.dumps(task(seed, h))
    if not same(name + ".json", text):  # of another task
        for end in (".npz", ".state", ".audit.json"):
            if os.path.exists(name + end):
                os.remove(name + end)
        with open(name + ".json", "w", encoding="utf-8") as f:
            f.write(text)
    if not os.path.exists(name + ".npz"):
        subprocess.run([PROGRAM, "train", name + ".json", "--threads", "1", "-o", name + ".npz", "-q"], check=True, cwd=FOLDER)
    with open(name + ".csv", encoding="utf-8") as f:
        return name, float(list(csv.DictReader(f))[-1]["robot_steps"]) * h


def same(path, text):
    if not os.path.exists(path):
        return False
    with open(path, encoding="utf-8") as f:
        return f.read() == text


def audit(name):
    if not os.path.exists(name + ".audit.json"):
        subprocess.run([PROGRAM, "audit", name + ".json", "--policy", name + ".npz", "-o", name + ".audit.json", "-q"], check=False, cwd=FOLDER)
    with open(name + ".audit.json", encoding="utf-8") as f:
        return json.load(f)


def rows():
    out, good = [], 0
    for seed in SEEDS:
        name, seconds = learn(seed, H)
        found = audit(name)
        trained, half, quarter = found["runs"][:3]
        good += found["confirmed"] and min(trained["mean"], half["mean"], quarter["mean"]) >= SPEED
        out += [below(f"seed {seed}: simulated time of the training, its evaluations included [s]", seconds, SIMULATED),
                reported(f"seed {seed}: speed, mean and deviation of 8 starts over 8 s [m/s]", f"{trained['mean']:.3f}, {trained['deviation']:.3f}"),
                reported(f"seed {seed}: penetration as trained, at h/2 and at h/4 [mm]", ", ".join(f"{1e3 * r['penetration']:.2f}" for r in (trained, half, quarter))),
                reported(f"seed {seed}: largest torque of a servo [N m], work unaccounted for", f"{trained['torque']:.6g}, {trained['ledger']['gap']:.2g}"),
                reported(f"seed {seed}: audit", found["verdict"])]
    out.append(row(f"seeds, of five, of at least {SPEED} m/s as trained, at h/2 and at h/4, and confirmed", good, ">= 3", good >= 3))
    coarse = audit(learn(0, 0.005)[0])
    return out + [row("the same learned at 5 ms: audit", coarse["verdict"], "not confirmed", not coarse["confirmed"])]


if __name__ == "__main__":  # one training alone: SEED H
    print(learn(int(sys.argv[1]), float(sys.argv[2])))
