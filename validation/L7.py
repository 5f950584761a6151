"""A pole is balanced with learned parameters, and with wrong ones

The plant is Gymnasium's CartPole-v1, unmodified, in a process of its own (validation/plant_cartpole.py); its integrator is
explicit. Two hundred steps under random forces of 10 N are seen, and masses and length of a rigid-body model (a cart on a
slider, a pole on a hinge, both starting up to three times wrong) are fitted to what each step does to the velocities; a fit of
whole rollouts takes the plant's integrator for mass, which is shown. The pole's width is fixed: it is not identifiable beside
its length. Then plans by iLQR over 30 steps from every state that is reached, each the guess of the next, with limits on the
force, through the engine's own derivatives: episodes of 500 steps, with any force in the limits and with the environment's two
actions (what they cannot do is carried to the next step), and with parameters wrong by factors of 1.2 to 3 in all combinations
of sign: by 3 not all plans hold. At last a swing-up of the same model from rest, hanging."""
import csv
import itertools
import json
import os
import subprocess
import sys
import time

import numpy as np

from common import Bench, below, figure, reported, row

import pullback as pb

TRUE = {"cart": 1.0, "pole": .1, "length": .5}
WIDTH, FORCE, STEPS, HORIZON = .02, 10.0, 500, 30
MODEL = """<mujoco><compiler inertiafromgeom="false"/><option timestep="0.02" gravity="0 0 -9.8"/>
<worldbody><body name="cart"><inertial mass="{cart}" pos="0 0 0" diaginertia="1 1 1"/><joint name="x" type="slide" axis="1 0 0"/>
<body name="pole"><inertial mass="{pole}" pos="0 0 {length}" diaginertia="{across} {across} {along}"/><joint name="angle" axis="0 1 0"/>
</body></body></worldbody><actuator><motor name="force" joint="x"/></actuator></mujoco>"""


def model(cart, pole, length):
    across, along = pole * (4 * length ** 2 + WIDTH ** 2) / 12, pole * WIDTH ** 2 / 6
    return MODEL.format(cart=cart, pole=pole, length=length, across=across, along=along)


PLANT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "plant_cartpole.py")


class Plant:
    """The other process. States are x, v, angle, speed."""

    def __enter__(self):
        self.process = subprocess.Popen([sys.executable, PLANT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert json.loads(self.process.stdout.readline())["timestep"] == .02
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()

    def ask(self, **what):
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        said = json.loads(self.process.stdout.readline())
        return np.array([said["qpos"][0], said["qvel"][0], said["qpos"][1], said["qvel"][1]]), said["reward"], said["done"]


def halves(x):
    return [x[0], x[2]], [x[1], x[3]]


def random_steps(plant, count, seed):
    """(state, force, next state) of so many steps under forces of +-10 N, in episodes as they end."""
    rng, seen, done = np.random.default_rng(seed), [], True
    while len(seen) < count:
        if done:
            x, _, done = plant.ask(reset=seed + len(seen))
        force = float(rng.choice([-FORCE, FORCE]))
        after, _, done = plant.ask(t=0, u=[force])
        seen.append((x, force, after))
        x = after
    return seen


# ---- learning -------------------------------------------------------------------------------------------------------
def variables(wrong):
    across = f"pole*(4*length^2 + {WIDTH ** 2})/12"
    return [{"name": "cart", "parameter": "body_mass:cart", "start": wrong[0] * TRUE["cart"], "lower": .01},
            {"name": "pole", "parameter": "body_mass:pole", "start": wrong[1] * TRUE["pole"], "lower": .001},
            {"name": "length", "start": wrong[2] * TRUE["length"], "lower": .05,
             "sets": {"body_ipos:pole:2": "length", "body_inertia:pole": [across, across, f"pole*{WIDTH ** 2}/6"]}}]


def fit(seen, wrong, length):
    """Parameters from pieces of `length` steps; of one step from velocities alone, which no integrator of positions enters."""
    pieces = [seen[k:k + length] for k in range(0, len(seen) - length + 1, length)]
    whole = [p for p in pieces if all(np.array_equal(a[2], b[0]) for a, b in itertools.pairwise(p))]
    trajectories = []
    for piece in whole:
        q, v = halves(piece[0][0])
        after = [halves(s[2]) for s in piece]
        at = [.02 * (k + 1) for k in range(length)]
        loss = [{"qvel": True, "at": at, "target": [a[1] for a in after]}]
        loss += [{"qpos": True, "at": at, "target": [a[0] for a in after]}] if length > 1 else []
        trajectories.append({"steps": length, "init": {"qpos": q, "qvel": v}, "controls": [[s[1]] for s in piece], "loss": loss})
    result = pb.optimize({"model": model(*TRUE.values()), "trajectories": trajectories, "variables": variables(wrong),
                          "uncertainty": False, "optimizer": {"method": "gauss-newton", "iterations": 60}})
    return {v["name"]: np.ravel(v["value"])[0] for v in result["variables"]}


def wrong_by(found):
    ratio = (found["pole"] / found["cart"]) / (TRUE["pole"] / TRUE["cart"]) - 1
    return abs(ratio), abs(found["length"] / TRUE["length"] - 1)


# ---- control --------------------------------------------------------------------------------------------------------
def balance(cart, pole, length):
    always = [{"qpos": "angle", "weight": 20}, {"qpos": "x"}, {"qvel": True, "weight": .1}, {"control": True, "weight": .001}]
    last = [{"qpos": "angle", "weight": 200}, {"qvel": True, "weight": 10}, {"qpos": "x", "weight": 20}]
    return {"model": model(cart, pole, length), "steps": HORIZON, "loss": [{**term, "at": "all"} for term in always] + last,
            "variables": [{"control": True, "lower": -FORCE, "upper": FORCE}]}


def controller(cart, pole, length):
    return pb.Mpc(balance(cart, pole, length))


def by_command(parameters, seed, *how):
    """Steps and seconds of the plans of an episode by `pullback control`."""
    with Bench() as bench:
        bench.write("balance.json", {**balance(**parameters), "control": {"duration": 100, "silence": 20}})
        bench.run("control", "balance.json", "-q", "--seed", seed, "--plant", " ".join(["exec", sys.executable, PLANT, *how]), "-o", "run.npz")
        with np.load(bench.path("run.npz")) as record, open(bench.path("run.csv"), newline="", encoding="utf-8") as table:
            return len(record["control"]), [float(row["seconds"]) for row in csv.DictReader(table)]


def episode(plant, mpc, seed, times=None, two_actions=False):
    """Reward of an episode: its steps."""
    x, reward, done = plant.ask(reset=seed)
    carried, first = 0.0, True
    while not done:
        q, v = halves(x)
        begun = time.perf_counter()
        mpc.plan({"qpos": q, "qvel": v}, elapsed=0 if first else .02)
        force, first = float(mpc.control({"qpos": q, "qvel": v})[0]), False
        if times is not None:
            times.append(time.perf_counter() - begun)
        if two_actions:
            carried += force
            force = FORCE if carried > 0 else -FORCE
            carried -= force
        x, reward, done = plant.ask(t=0, u=[force])
    return reward


def wrong_models(factor):
    """Parameters wrong by a factor, each to either side."""
    for signs in itertools.product((1, -1), repeat=3) if factor > 1 else [(1, 1, 1)]:
        yield {name: value * factor ** sign for (name, value), sign in zip(TRUE.items(), signs, strict=True)}


def swing_up():
    """Iterations to within a thousandth of the least loss, and how far the pole ends from upright."""
    task = {"model": model(*TRUE.values()), "steps": 150, "init": {"qpos": [0, np.pi]},
            "variables": [{"control": True, "lower": -FORCE, "upper": FORCE}],
            "loss": [{"name": "angle", "qpos": "angle", "weight": 100}, {"qvel": True, "weight": 10}, {"qpos": "x", "weight": 10},
                     {"control": True, "at": "all", "weight": .001}]}
    found = {}
    for second in (False, True):
        found[second] = pb.optimize({**task, "optimizer": {"method": "ilqr", "second_order": second, "iterations": 400}})
    least = min(r["loss"] for r in found.values())
    counts = [next((int(h[0]) for h in r["history"] if h[2] <= 1.001 * least), None) for r in found.values()]
    off = max(t["deviation"] for r in found.values() for t in r["terms"] if t["name"] == "angle")
    return counts, off, [r["loss"] for r in found.values()]


def rows():
    out, factors, episodes = [], (1, 1.2, 1.5, 2, 3), 2
    with Plant() as plant:
        seen = random_steps(plant, 200, 11)
        starts = [(2.5, .4, 1.8), (.4, 2.5, .6), (.35, .35, 2.8)]
        fits = [fit(seen, wrong, 1) for wrong in starts]
        out.append(below(f"mass of the pole by that of the cart, learned from {len(seen)} steps, relative error, worst of three starts",
                         max(wrong_by(f)[0] for f in fits), .01))
        out.append(below("length, likewise", max(wrong_by(f)[1] for f in fits), .01))
        for length in (5, 20):
            rollouts = fit(seen, (1, 1, 1), length)
            out.append(reported(f"by rollouts of {length} steps from the truth: relative error of the pole's mass, of its length",
                                f"{rollouts['pole'] / TRUE['pole'] - 1:.3f}, {rollouts['length'] / TRUE['length'] - 1:.3f}"))

        times = []
        learned = [episode(plant, controller(**fits[0]), 100 + k, times) for k in range(20)]
        out.append(row("episodes of 500 of 500 steps with what was learned, of 20", learned.count(STEPS), "20", min(learned) == STEPS))
        two = [episode(plant, controller(**fits[0]), 100 + k, two_actions=True) for k in range(20)]
        out.append(row("likewise with the two actions of the environment", two.count(STEPS), "20", min(two) == STEPS))
        out.append(reported(f"a plan over {HORIZON} steps with its control, from Python, ms: median, 99th percentile",
                            "{:.2f}, {:.2f}".format(*(1e3 * np.percentile(times, (50, 99))))))

        runs = [by_command(fits[0], 100 + k, *how) for k in range(3) for how in ((), ("two",))]
        out.append(row("by `pullback control` with the same plant, of 3 with any force and 3 with two actions", sum(r[0] == STEPS for r in runs), "6",
                       all(r[0] == STEPS for r in runs)))
        out.append(reported("a plan there, ms: median, 99th percentile",
                            "{:.2f}, {:.2f}".format(*(1e3 * np.percentile(np.concatenate([r[1] for r in runs]), (50, 99))))))

        several = lambda f: [episode(plant, controller(**m), 300 + k) for m in wrong_models(f) for k in range(episodes)]
        rewards = {f: several(f) for f in factors}
        worst = min(min(rewards[f]) for f in factors if 1 < f < 3)
        out.append(row("least reward with parameters wrong by factors of 1.2, 1.5 and 2 in all combinations of sign", worst, ">= 475",
                       worst >= 475))
        out += [reported(f"parameters wrong by a factor of {f}: least, mean reward of {len(r)} episodes", f"{min(r):g}, {np.mean(r):.1f}")
                for f, r in rewards.items()]
        figure("L7-reward", "Reward with wrong parameters (factors 1, 1.2, 1.5, 2, 3)", "number of the factor", "steps of 500",
               {"least": [min(rewards[f]) for f in factors], "mean": [float(np.mean(rewards[f])) for f in factors]})

    (first, second), off, losses = swing_up()
    out.append(row("iterations of iLQR to swing up, to a thousandth of the least loss; with second derivatives", f"{first}, {second}", "<= 150",
                   None not in (first, second) and max(first, second) <= 150))
    out.append(below("distance from upright at the end, rad", off, .05))
    out.append(reported("losses of both", ", ".join(f"{v:.9g}" for v in losses)))
    return out
