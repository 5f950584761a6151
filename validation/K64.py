"""Balance learned by a network

A network that was never told a gain learns to balance a pole on a cart (SHAC, a few seconds), and then does so for a minute from starts that
no training saw, at the step of training and at a quarter of it."""
import csv
import json
import os

import numpy as np

from common import EXAMPLES, Bench, below, reported, row

STARTS, SECONDS, STEP, EVERY, UPDATES = 20, 60, 1 / 240, 4, 100
LEAN, PLACE, SPEED = 0.3, 1, 0.5  # half widths of starts: rad, m, m/s and rad/s

TASK = {"init": {"qpos": [0, np.pi]},
        "policy": {"every": EVERY, "observe": [{"qpos": "rail"}, {"site_rotation": "tip", "components": [0, 2]}, {"qvel": True}],
                   "layers": [{"normalize": True}, {"dense": 32, "activation": "elu"}, {"dense": 32, "activation": "elu"},
                              {"dense": 1, "gain": 0.01}, {"activation": "tanh"}]},
        "loss": [{"name": "upright", "formula": "atan2(p.x - c.x, p.z - c.z)", "inputs": {"p": {"site": "tip"}, "c": {"body": "cart"}},
                  "type": "squared", "target": 0, "weight": 0.05, "at": "all"},
                 {"name": "slow", "type": "squared", "qvel": "hinge", "target": 0, "weight": 0.005, "at": "all"},
                 {"name": "middle", "type": "squared", "qpos": "rail", "target": 0, "weight": 0.0025, "at": "all"},
                 {"name": "rest", "type": "squared", "qvel": "rail", "target": 0, "weight": 0.005, "at": "all"}],
        "episode": {"seconds": 2, "spread": {"joints": {"hinge": {"qpos": LEAN, "qvel": SPEED}, "rail": {"qpos": PLACE, "qvel": SPEED}}}},
        "train": {"method": "shac", "updates": UPDATES, "worlds": 64, "window": 32, "rate": 0.01, "noise": 0.1, "last_noise": 0.02}}


def finer(bench, policy, factor, share=1):
    """Model and policy at a fraction of the step, decisions at the same times; the last layer's weights times a share."""
    with open(os.path.join(EXAMPLES, "cartpole", "cartpole.xml"), encoding="utf-8") as f:
        model = bench.write(f"fine-{factor}.xml", f.read().replace('timestep="0.0041666666666666667"', f'timestep="{STEP / factor!r}"'))
    with np.load(bench.path(policy)) as f:
        arrays = dict(f)
    text = json.loads(str(arrays["policy"]))
    text["every"] = EVERY * factor
    arrays["policy"] = np.array(json.dumps(text))
    arrays["policy.3.weight"], arrays["policy.3.bias"] = share * arrays["policy.3.weight"], share * arrays["policy.3.bias"]
    return model, bench.write(f"fine-{factor}.npz", arrays)


def balance(bench, model, policy, factor, rng):
    """Farthest from upright after 2 s, and over the last 10 s; farthest place of the cart."""
    start = {"qpos": [rng.uniform(-PLACE, PLACE), np.pi + rng.uniform(-LEAN, LEAN)], "qvel": rng.uniform(-SPEED, SPEED, 2)}
    found = bench.simulate(model, "--policy", policy, "--steps", round(SECONDS / STEP) * factor, init=start)["qpos"][::EVERY * factor]
    lean = np.abs(found[:, 1] - np.pi)
    return lean[120:].max(), lean[-600:].max(), np.abs(found[:, 0]).max()


def trials(bench, factor, share=1):
    model, policy = finer(bench, "balance.npz", factor, share)
    rng = np.random.default_rng(64)
    return np.array([balance(bench, model, policy, factor, rng) for _ in range(STARTS)])


def rows():
    out = []
    with Bench() as bench:
        task = {"model": os.path.join(EXAMPLES, "cartpole", "cartpole.xml"), **TASK}
        bench.write("balance.json", task)
        bench.run("train", "balance.json", "--threads", 1, "-o", "balance.npz", "-q", "--fresh", "--allow-root", EXAMPLES)
        with open(bench.path("balance.csv"), encoding="utf-8") as f:
            steps = float(list(csv.DictReader(f))[-1]["robot_steps"])
        silent = int((trials(bench, 1, share=0)[:, 0] < 0.2).sum())
        out.append(row(f"without a network, its last layer at zero: starts that stay upright, of {STARTS}", silent, "0", silent == 0))
        for factor in (1, 4):
            runs = trials(bench, factor)
            name, held = f"at h/{factor}" if factor > 1 else "at the step of training", int((runs[:, 0] < 0.2).sum())
            out += [row(f"{name}: starts within 0.2 rad of upright from 2 s to {SECONDS} s, of {STARTS}", held, f"{STARTS}", held == STARTS),
                    below(f"{name}: farthest from upright in the last 10 s [rad]", float(runs[:, 1].max()), 0.05),
                    below(f"{name}: farthest place of the cart on its 8 m of rail [m]", float(runs[:, 2].max()), 4.0)]
    return out + [reported("robot-steps of the training, evaluations included", steps)]
