"""Searches that are killed two hundred times

Three searches by the program, each some seconds long: by CMA-ES, by iLQR beside walls (constraints, with multipliers), and in three
stages with another method in the middle. They are killed at drawn moments, two in three by SIGKILL, which leaves no time for
anything, and begun again by the same command until they end, over and over until there were two hundred kills. Every one of them
must end with the bits of the search that nobody disturbed: loss, answer, history, verdict, and the motion written beside them. A
kill loses the running iteration and a second at most, which is why lives shorter than that get nowhere and later ones are longer."""
import json
import os
import random
import signal
import subprocess
import time

from common import PROGRAM, Bench, reported, row

KILLS = 200
CART = """<mujoco><option timestep="0.02"/><worldbody><geom type="plane" size="5 5 1"/><body name="cart" pos="0 0 1">
<joint name="x" type="slide" axis="1 0 0"/><geom type="box" size=".2 .1 .1" mass="1"/>
<body name="pole"><joint name="angle" axis="0 1 0"/><geom type="capsule" size=".02" fromto="0 0 0 0 0 -.6" mass=".1"/></body></body>
<body name="ball" pos=".6 0 .1"><freejoint/><geom type="sphere" size=".1" mass=".3"/></body></worldbody>
<actuator><motor name="force" joint="x"/></actuator></mujoco>"""
LOSS = [{"name": "upright", "qpos": "angle", "target": 3.14159265, "weight": 100}, {"qvel": "angle", "weight": 10},
        {"name": "effort", "control": True, "at": "all", "weight": .001}]
WALL = {"name": "wall", "qpos": "x", "at": "all", "type": "below", "target": .6, "constraint": True, "tolerance": 1e-6, "weight": 10}
ON = {"gradient_tolerance": 0, "step_tolerance": 0}


def tasks():
    """Their lengths: the second goes on looking at its wall for as long as it may."""
    force = {"name": "force", "control": True, "lower": -10, "upper": 10}
    base = {"model": CART, "seed": 3, "variables": [force]}
    sampled = base | {"steps": 150, "variables": [force | {"knots": 15}], "loss": LOSS,
                      "optimizer": {"method": "cmaes", "sigma": .3, "iterations": 600}}
    walled = base | {"steps": 400, "loss": [*LOSS, WALL], "optimizer": {"method": "ilqr", "iterations": 250, **ON}}
    staged = base | {"steps": 200, "loss": [*LOSS, WALL], "optimizer": {"method": "ilqr", "iterations": 150, **ON},
                     "stages": [{"name": "smooth", "steps": 120, "contact": {"kappa": 10, "onset": .02}, "mode": "smooth"},
                                {"name": "by samples", "optimizer": {"method": "sep-cma", "sigma": .3, "iterations": 150}, "steps": 160},
                                {"name": "sharp"}]}
    return {"CMA-ES": sampled, "iLQR beside a wall": walled, "in stages": staged}


def outcome(folder):
    """What a search has written, but for times and how often it was begun."""
    with open(os.path.join(folder, "r.json"), encoding="utf-8") as f:
        result = {k: v for k, v in json.load(f).items() if k not in ("seconds", "resumed")}
    with open(os.path.join(folder, "r.trajectory.npz"), "rb") as f:
        return result, f.read()


def search(folder, seconds=None):
    """One life; None: killed after so many seconds."""
    process = subprocess.Popen([PROGRAM, "optimize", "task.json", "-q", "-o", "r.json"], cwd=folder, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True)
    try:
        said = process.communicate(timeout=seconds)[1]
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT if random.random() < 1 / 3 else signal.SIGKILL)
        process.communicate()
        return None
    assert process.returncode in (0, 1), said
    return process.returncode


def killed(bench, name, task, kills):
    """Searches that ended with other bits, searches, lives, of so many kills and more; seconds of one that nobody disturbs."""
    bench.write("task.json", task)
    begun = time.time()
    code = search(bench.folder)
    took, expected, wrong, ended, lives, done = time.time() - begun, outcome(bench.folder), 0, 0, 0, 0
    while done < kills:
        os.remove(bench.path("r.json"))
        code_now = None
        while code_now is None:
            code_now = search(bench.folder, random.uniform(.1, 2.2) if done < kills else None)
            lives, done = lives + 1, done + (code_now is None)
        ended += 1
        wrong += code_now != code or outcome(bench.folder) != expected
    return wrong, ended, lives, done, took


def rows():
    random.seed(20261130)
    out, total = [], 0
    for name, task in tasks().items():
        with Bench() as bench:
            wrong, ended, lives, done, took = killed(bench, name, task, KILLS // 3 + 1)
        total += done
        out += [row(f"{name}: searches with other bits, of {ended} in {lives} lives", wrong, "0", wrong == 0),
                reported(f"{name}: seconds without a kill", f"{took:.1f}")]
    return [row("kills", total, f">= {KILLS}", total >= KILLS), *out]
