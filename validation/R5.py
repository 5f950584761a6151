"""Gait of a quadruped, open loop

Eight position servos follow a network of the time alone, 17 952 weights, learned by gradients through 8 s of physics: 500 evaluations, from
nothing. What it finds is audited as it is; K62, that few parameters of a gait are searched as well without gradients, is here, too: the same
number of evaluations by CMA-ES and by gradients on the 24 linear weights."""
import json
import os
import subprocess

from common import EXAMPLES, PROGRAM, Bench, reported, row
from K109 import trot
from tasks import Task

LONG = "five minutes"
H, SECONDS, EVALUATIONS, SEEDS = 0.005, 8, 500, range(5)
NETWORK = [{"clock": [1.5]}, {"sum": [[{"dense": 128, "activation": "relu", "gain": 1.4142135623730951}, {"dense": 128, "activation": "relu", "gain": 1.4142135623730951},
                                       {"dense": 8, "init": "zero"}], [{"dense": 8, "init": "zero"}]]}]
LINEAR = [{"clock": [1.5]}, {"dense": 8, "init": "zero"}]
ADAM = {"method": "adam", "rate": 1e-3, "clip": 1, "iterations": EVALUATIONS - 1, "gradient_tolerance": -1, "step_tolerance": -1}

CMAES = {"method": "cmaes", "sigma": 0.3, "iterations": EVALUATIONS // 13 - 1}
ES = {"method": "es", "sigma": 0.1, "rate": 0.05, "population": 12, "iterations": EVALUATIONS // 12 - 1}


def quadruped(torque):
    with open(os.path.join(EXAMPLES, "quadruped", "quadruped.xml"), encoding="utf-8") as f:
        text = f.read().replace('timestep="0.00125"', f'timestep="{H}"').replace('forcerange="-40 40"', f'forcerange="{-torque} {torque}"')
    return text[text.index("<mujoco"):]


def task(layers, optimizer, seed=0, torque=40):
    return {"model": quadruped(torque), "duration": SECONDS, "seed": seed, "policy": {"every": 1, "observe": [{"time": True}], "layers": layers, "seed": seed},
            "variables": [{"parameter": "policy"}], "gradient": {"decay": 10},
            "loss": [{"name": "speed", "qvel": "root", "components": [0], "type": "linear", "weight": -1, "at": "all", "mean": True}], "optimizer": optimizer,
            "audit": {"objective": "speed", "factor": -1, "unit": "m/s"}}


def learn(bench, layers, optimizer, seed=0, torque=40):
    """Speed that was found, and with how many evaluations."""
    bench.write("task.json", task(layers, optimizer, seed, torque))
    result = bench.optimize("task.json")
    return -result["loss"], result["simulations"]


def audit(bench):
    done = subprocess.run([PROGRAM, "audit", bench.path("task.json"), "--result", bench.path("result.json"), "--json"], capture_output=True, text=True, check=False)
    return json.loads(done.stdout)["verdict"]


def rows():
    with Bench() as bench:
        hand = trot(H)
        by_hand = -Task(hand).loss(Task(hand).start)
        out = [reported("speed of the trot made by hand [m/s]", by_hand)]
        speeds = []
        for seed in SEEDS:
            speed, count = learn(bench, NETWORK, ADAM, seed)
            speeds.append(speed)
            out += [row(f"seed {seed}: evaluations", count, f"<= {EVALUATIONS}", count <= EVALUATIONS), reported(f"seed {seed}: speed [m/s]", speed),
                    reported(f"seed {seed}: its audit", audit(bench))]
        enough = sum(v >= 1.4 * by_hand for v in speeds)
        out.append(row("seeds, of five, of at least 1.4 times the speed of the trot", enough, ">= 3", enough >= 3))
        for torque in (4, 160):
            out += [reported(f"servos of {torque} N m: speed [m/s]", learn(bench, NETWORK, ADAM, 0, torque)[0]), reported(f"servos of {torque} N m: its audit", audit(bench))]
        searched = []
        for seed in SEEDS:
            speed, count = learn(bench, LINEAR, CMAES, seed)
            searched.append(speed)
            out.append(reported(f"24 linear weights, CMA-ES, seed {seed}: speed [m/s] in {count} evaluations", speed))
        out += [reported("24 linear weights, CMA-ES: seeds, of five, of at least 1.4 times the speed of the trot", sum(v >= 1.4 * by_hand for v in searched)),
                reported("24 linear weights, CMA-ES: audit of the last", audit(bench))]
        for name, optimizer in (("gradients", ADAM), ("gradients, ten times the rate", {**ADAM, "rate": 1e-2}), ("evolution strategy", ES)):
            speed, count = learn(bench, LINEAR, optimizer)
            out += [reported(f"24 linear weights, {name}: speed [m/s] in {count} evaluations", speed), reported(f"24 linear weights, {name}: its audit", audit(bench))]
    return out
