"""Where gradients are noise

Of chaotic motion derivatives go on growing while moves end up anywhere: the time from which on a gradient is noise, beside bundles of 64 forward
runs that know nothing of derivatives; searches that converge are not called noise; and what is proposed instead reaches losses that were written
down beforehand, where gradients through all of the motion do not with as many simulations.

A bundle moves the start along 32 random directions to both sides. What comes of both, half their difference, is what a derivative can foresee;
half their sum is what it cannot. Its horizon is where the second has grown to half of the first."""
import importlib.util
import json
import os
import re
import warnings

import numpy as np

from common import EXAMPLES, Bench, reported, row

import pullback as pb

MOVE, PAIRS, GROWTH = 1e-3, 32, 30
LONG = "four minutes"
# Contacts as stiff as their steps are long: where in a step one begins shifts the rates after it, and the derivative ends before the motion.
STIFF = "three balls on a table, stiff contacts"

# ---- scenes: (model, start, controls, steps, contact decides) ---------------------------------------------------------------
LINK = """<body pos="0 0 {z}"><joint name="j{k}" axis="0 1 0" damping="{damping}"/><geom type="capsule" fromto="0 0 0 0 0 -.3" size=".02" contype="0"
 conaffinity="0"/>"""


def chain(count, h=.004, damping=0.0, rest=""):
    text = "".join(LINK.format(z=-.3 if k else 0, k=k, damping=damping) for k in range(count)) + '<site name="tip" pos="0 0 -.3"/>'
    return f'<mujoco><option timestep="{h}"/><worldbody>{text}{"</body>" * count}</worldbody>{rest}</mujoco>'


def pose(model, qpos=None, qvel=None):
    state = model.init()
    if qpos is not None:
        state.qpos[:] = qpos
    if qvel is not None:
        state.qvel[:] = qvel
    return state


def links(qpos, steps):
    model = pb.loads(chain(len(qpos)))
    return model, pose(model, qpos), None, steps, False


def driven():
    """Baker and Gollub's pendulum: damping of 1/2, a torque of 1.15 at 2/3 of its own frequency, in its own units."""
    model = pb.loads("""<mujoco><option timestep=".02" gravity="0 0 -1"/><worldbody><body><joint name="j" axis="0 1 0" damping=".5"/>
        <inertial pos="0 0 -1" mass="1" diaginertia="1e-9 1e-9 1e-9"/></body></worldbody><actuator><motor joint="j"/></actuator></mujoco>""")
    steps = 5000
    return model, pose(model, [.8], [.8]), 1.15 * np.cos(2 / 3 * .02 * np.arange(steps))[:, None], steps, False


BALL = '<body pos="{:.17g} {:.17g} 0"><joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 1 0"/><geom size="{}" mass="1" condim="1"/></body>'
WALLS = "".join(f'<geom type="plane" size="5 5 .1" pos="{x} {y} 0" zaxis="{-x} {-y} 0" condim="1"/>' for x, y in ((.6, 0), (-.6, 0), (0, .35), (0, -.35)))


def billiard(contact, h, steps, soft="", decides=False):
    """Three balls between four walls, without friction or loss."""
    balls = "".join(BALL.format(x, y, .04) for x, y in ((-.3, .05), (.1, -.1), (.3, .12)))
    model = pb.loads(f'<mujoco><option timestep="{h}" gravity="0 0 0"/><default><geom {soft}/></default><worldbody>{WALLS}{balls}</worldbody></mujoco>', contact=contact)
    return model, pose(model, None, [1, .35, 0, 0, 0, 0]), None, steps, decides


def triangle():
    """The break of P-DT1: eleven balls, impacts that lose a fifth of the speed."""
    from PDT1 import TABLE, start
    model = pb.loads(TABLE.format(.003), contact={"method": "impact", "restitution": .8})
    return model, pose(model, **start()), None, 1023, False


STADIUM_WALL = [f"-2000*max(0, sqrt(max(0, abs(x0) - 0.5)^2 + x1^2) - 0.5)*{along}/sqrt((x0 - min(max(x0, -0.5), 0.5))^2 + x1^2 + 1e-12)"
                for along in ("(x0 - min(max(x0, -0.5), 0.5))", "x1")]
STADIUM = """<mujoco><option timestep=".0005" integrator="RK4" gravity="0 0 0"/><worldbody><body><joint name="x" type="slide" axis="1 0 0"/>
 <joint name="y" type="slide" axis="0 1 0"/><geom size=".01" mass="1" contype="0"/></body></worldbody><actuator><motor joint="x"/><motor joint="y"/></actuator></mujoco>"""


def stadium():
    """A ball in a stadium: 1 m straight between half circles of 0.5 m, whose wall is a field."""
    model = pb.loads(STADIUM, policy={"every": 1, "observe": [{"qpos": "x"}, {"qpos": "y"}], "layers": [{"formula": STADIUM_WALL}]})
    return model, pose(model, [.1, .05], [1, .7]), None, 16000, False


def gymnasium(name, every, steps, h=.005, qpos=None):
    """A robot of Gymnasium by a random policy."""
    package = importlib.util.find_spec("gymnasium").submodule_search_locations[0]
    with open(os.path.join(package, "envs", "mujoco", "assets", name), encoding="utf-8") as f:
        text = re.sub(r'(<option[^>]*?) timestep="[^"]*"', r"\1", f.read())
    text = re.sub(r' integrator="[^"]*"', "", text).replace("<option", f'<option timestep="{h}" integrator="implicitfast"')
    count = pb.loads(text).nu
    model = pb.loads(text, policy={"every": every, "seed": 1, "observe": [{"qpos": True}, {"qvel": True}] if name != "ant.xml" else
                     [{"body_rotation": "torso"}, {"qvel": True}], "layers": [
        {"dense": 32, "activation": "tanh", "gain": 1.0}, {"dense": count, "gain": 1.0}, {"activation": "tanh"}]})
    return model, pose(model, qpos), None, steps, True


def quadruped():
    """R5's trot, open loop, 8 s."""
    with open(os.path.join(EXAMPLES, "quadruped", "quadruped.xml"), encoding="utf-8") as f:
        text = f.read().replace('timestep="0.00125"', 'timestep="0.005"')
    model = pb.loads(text[text.index("<mujoco"):])
    t = 2 * np.pi * 1.5 * .005 * (np.arange(1600) + 1)
    gait = -np.array([[0.5] * 4 + [0] * 4, [0.8, -0.8, -0.8, 0.8, 0, 0, 0, 0], [0, 0, 0, 0, 0.5, -0.5, -0.5, 0.5]])
    ctrl = np.clip(np.stack([np.ones(1600), np.sin(t), np.cos(t)], 1) @ gait, -np.pi / 4, np.pi / 4)
    return model, model.rollout(model.init(), ctrl[:200], keep=False).final, ctrl[200:], 1400, True


def flag():
    """A cloth of 0.6 m, held at two corners, that falls from the side and swings without air."""
    cloth = {"scheme": "avf4", "bodies": [{"name": "flag", "mesh": {"grid": {"u": [.6, 0, 0], "v": [0, .6, 0], "cells": [5, 5], "pattern": "alternating"}}, "pos": [0, 0, 1],
             "pins": [{"points": [{"nearest": [0, 0, 0]}, {"nearest": [0.6, 0, 0]}]}],
             "energies": [{"energy": "membrane_stvk", "parameters": {"young": 5e4, "poisson": 0.3, "thickness": 1e-3, "density": 200}},
                          {"energy": "bending_quadratic", "parameters": {"bending": 1e-4}}]}]}
    model = pb.loads('<mujoco><option timestep=".005"/><worldbody/></mujoco>', deformables=cloth)
    return model, model.init(), None, 320, False


def hull_bodies():
    draw = np.random.default_rng(5)
    text = ""
    for k in range(2):
        p = draw.normal(size=(12, 3))
        p *= np.array([.12, .09, .07]) / np.linalg.norm(p, axis=1, keepdims=True)
        text += f'<mesh name="m{k}" vertex="{" ".join(f"{x:.6f}" for x in p.ravel())}"/>'
    bodies = "".join(f'<body name="hull{k}" pos="{.03 * k} 0 {.4 + .3 * k}"><freejoint/><geom type="mesh" mesh="m{k}" density="800"/></body>' for k in range(2))
    return bodies, text


def hulls():
    """Two hulls of twelve points each that fall onto a plane and each other, with friction."""
    bodies, text = hull_bodies()
    model = pb.loads(f'<mujoco><option timestep=".002"/><asset>{text}</asset><worldbody><geom type="plane" size="5 5 .1"/>{bodies}</worldbody></mujoco>')
    return model, pose(model, None, [.2, 0, 0, 3, 5, 1, -.1, .1, 0, -4, 2, 3]), None, 1000, True


SCENES = {"double pendulum": lambda: links([2.2, .8], 2000), "triple pendulum": lambda: links([2.0, .5, -.4], 1500),
          "chain of five links": lambda: links([1.8, .3, .3, -.2, .4], 1000), "driven pendulum": driven,
          "three balls on a table, impact": lambda: billiard({"method": "impact", "restitution": 1}, .003, 3000),
          "three balls on a table, soft contacts": lambda: billiard(None, .00025, 16000, 'solref="-10000 0" solimp="0.98 0.98 0.001"', True),
          STIFF: lambda: billiard(None, .0005, 8000, 'solref="-100000 0" solimp="0.98 0.98 0.001"'),
          "P-DT1": triangle, "ball in a stadium": stadium, "walker by policy": lambda: gymnasium("walker2d_v5.xml", 4, 1000, qpos=[0, 1.3, .05, -.3, -.6, .1, -.6, -.4, -.1]),
          "ant by policy": lambda: gymnasium("ant.xml", 4, 1000), "R5's quadruped": quadruped, "cloth flag": flag, "two tumbling hulls": hulls}


# ---- horizons -----------------------------------------------------------------------------------------------------------------
def bundle(model, start, ctrl, steps, seed=7):
    """The first state at which what no derivative can foresee is half of what it can, or more, where moves have grown by a factor of 30, as it is at
    three quarters of the states within the next quarter of the time, and of those to the end; None: there is none."""
    n = len(model.tangent_names)
    moved = [i for i, name in enumerate(model.tangent_names) if not name.startswith("policy")]
    d = np.zeros((PAIRS, n))
    d[:, moved] = np.random.default_rng(seed).normal(size=(PAIRS, len(moved)))
    d *= MOVE / np.linalg.norm(d, axis=1, keepdims=True)
    length = {} if ctrl is not None else {"steps": steps}
    many = model.rollout(model.integrate(start, np.concatenate([d, -d])), ctrl, **length, keep=False, on_failure="mask")
    one = model.rollout(start, ctrl, **length, keep=False)
    last = int(many.steps_done.min())
    apart = np.stack([model.difference(one.states[k], many.states[:, k])[:, moved] for k in range(last + 1)])
    odd, even = apart[:, :PAIRS] - apart[:, PAIRS:], apart[:, :PAIRS] + apart[:, PAIRS:]
    size = lambda a: np.sqrt((a**2).sum(axis=(1, 2)))
    grown = np.maximum(size(odd), size(even)) >= GROWTH * 2 * MOVE * np.sqrt(PAIRS)
    beyond = (size(even) >= .5 * size(odd)) & grown
    most = lambda k, to: beyond[k:to + 1].mean() >= .75
    return next((k for k in range(1, last + 1) if beyond[k] and most(k, min(k + k // 4, last)) and most(k, last)), None)


def horizon(name):
    """(steps by the bundle, the verdict, seconds of a step, whether contact decides)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, start, ctrl, steps, contact = SCENES[name]()
        with model.rollout(start, ctrl, **({} if ctrl is not None else {"steps": steps}), outputs=()) as r:
            found = r.noise()
        return bundle(model, start, ctrl, steps), found, model.timestep, contact


# ---- searches that converge -----------------------------------------------------------------------------------------------------
CALM = ["ball/launch", "beam/identify", "chain/carry", "cloth/drape", "hopper/identify", "pendulum/identify", "slide/friction"]


def told(bench, task, *options):
    """Outcome of a search, and where its gradient is called noise."""
    bench.run("optimize", bench.write("task.json", task), "--fresh", "-q", "-o", "result.json", *options, codes=(0, 1))
    with open(bench.path("result.json"), encoding="utf-8") as f:
        return json.load(f)


def example(bench, name):
    """An example's search without criteria, which would end it before anybody looks for noise; its files by their whole paths."""
    folder = os.path.join(EXAMPLES, os.path.dirname(name))
    with open(os.path.join(EXAMPLES, name + ".json"), encoding="utf-8") as f:
        text = f.read()
    for file in os.listdir(folder):
        text = text.replace(f'"{file}"', json.dumps(os.path.join(folder, file)))
    task = json.loads(text)
    task.pop("stop", None)
    return told(bench, task, "--allow-root", EXAMPLES)


def cartpole(bench, k):
    import SADDLE1
    task = {**SADDLE1.scene(k)[0], "optimizer": {"method": "lbfgs", "iterations": 1000}}
    del task["stop"]
    return told(bench, task)


def calm_rows(bench):
    found = {name: example(bench, name) for name in CALM} | {f"SADDLE1, cart-pole {k}": cartpole(bench, k) for k in range(20)}
    converged = {name: r for name, r in found.items() if r["outcome"] == "converged"}
    noisy = [name for name, r in converged.items() if r["noise"]]
    return [reported("searches that converge", ", ".join(converged)),
            row("searches that converge, looked at", len(converged), ">= 20", len(converged) >= 20),
            row("of these called noise", ", ".join(noisy) or "none", "none", not noisy),
            reported("searches that end otherwise: outcome, and where their gradient is called noise",
                     ", ".join(f"{name}: {r['outcome']}, {r['noise'] and r['noise']['time']}" for name, r in found.items() if name not in converged) or "none")]


# ---- what is proposed ---------------------------------------------------------------------------------------------------------
def swing(qpos, seconds, target):
    return {"model": chain(len(qpos), .005), "duration": seconds, "init": {"qpos": qpos}, "variables": [{"state": "qvel"}],
            "loss": [{"name": "tip", "site": "tip", "target": target}]}


def drive():
    model = """<mujoco><option timestep=".02" gravity="0 0 -1"/><worldbody><body><joint name="j" axis="0 1 0" damping=".5"/>
        <inertial pos="0 0 -1" mass="1" diaginertia="1e-9 1e-9 1e-9"/><site name="tip" pos="0 0 -1"/></body></worldbody><actuator><motor joint="j"/></actuator></mujoco>"""
    return {"model": model, "steps": 3500, "init": {"qpos": [.8], "qvel": [.8]}, "variables": [{"state": "qpos"}, {"state": "qvel"}],
            "controls": (1.15 * np.cos(2 / 3 * .02 * np.arange(3500)))[:, None].tolist(),
            "loss": [{"name": "up", "site": "tip", "target": [0, 0, 1]}, {"name": "rest", "qvel": "j", "target": 0, "weight": .1}]}


def mark_last(text):
    """A site on the last ball."""
    head, tail = text.rsplit("</body>", 1)
    return f'{head}<site name="last"/></body>{tail}'


def carom():
    balls = "".join(BALL.format(x, y, .04) for x, y in ((-.3, .05), (.1, -.1), (.3, .12)))
    return {"model": mark_last(f'<mujoco><option timestep=".003" gravity="0 0 0"/><worldbody>{WALLS}{balls}</worldbody></mujoco>'), "steps": 3000,
            "contact": {"method": "impact", "restitution": 1}, "init": {"qvel": [1, .35, 0, 0, 0, 0]}, "variables": [{"state": "qvel", "components": [0, 1]}],
            "loss": [{"name": "goal", "site": "last", "target": [-.3, -.2, 0]}]}


def cue():
    from PDT1 import TABLE
    return {"model": mark_last(TABLE.format(.003)), "steps": 1023, "contact": {"method": "impact", "restitution": .8}, "init": {"qvel": [.3] + [0] * 21},
            "variables": [{"state": "qpos", "components": [0, 1]}, {"state": "qvel", "components": [0, 1]}],
            "loss": [{"name": "goal", "site": "last", "target": [.9, .75, 0]}]}


# Tasks and the loss that is to be reached. The losses were written down with another seed than SEED.
SEED, SIMULATIONS = 2, 420
GOALS = {"double pendulum, 8 s": (lambda: swing([2.0, .5], 8, [.2, 0, .2]), .005), "triple pendulum, 6 s": (lambda: swing([2.0, .5, -.4], 6, [.3, 0, .45]), .1),
         "chain of five links, 5 s": (lambda: swing([2.0, .5, -.4, .3, .2], 5, [.5, 0, .6]), .2), "driven pendulum, 70 s": (drive, .018),
         "three balls on a table, 9 s": (carom, .002), "P-DT1, 3.07 s": (cue, .0005)}


def attempt(bench, make, optimizer):
    return told(bench, {**make(), "seed": SEED, "optimizer": optimizer})


def proposal_rows(bench):
    out, reached, alone = [], 0, 0
    for name, (make, goal) in GOALS.items():
        plain = [attempt(bench, make, {"method": m, "iterations": SIMULATIONS, **o}) for m, o in (("lbfgs", {}), ("adam", {"rate": .03}))]
        free = attempt(bench, make, {"method": "cmaes", "sigma": .5, "iterations": SIMULATIONS // 7, "population": 6})
        reached += free["loss"] <= goal
        alone += free["loss"] <= goal < min(r["loss"] for r in plain)
        said = ", ".join(f"{r['loss']:.3g} ({r['simulations']} simulations, {r['outcome']}, " +
                         (f"noise beyond {r['noise']['time']:.3g} s)" if r["noise"] else "no noise told)") for r in plain)
        out.append(reported(f"{name}: loss {goal:g} is wanted; by lbfgs, adam; by cmaes", f"{said}; {free['loss']:.3g} ({free['simulations']} simulations)"))
    out.append(row(f"of {len(GOALS)} tasks told to be noise: reached without gradients, as is proposed", reached, f">= {len(GOALS) - 1}", reached >= len(GOALS) - 1))
    out.append(reported("... and by neither gradient method in as many simulations (10 of 12 are asked for)", f"{alone} of {len(GOALS)}"))
    return out


# ---- rows ---------------------------------------------------------------------------------------------------------------------
def horizon_rows():
    out, within = [], 0
    for name in SCENES:
        seen, found, h, contact = horizon(name)
        limit = 2 if contact else 1.2
        if seen is None or found["step"] < 0:
            out.append(row(f"{name}: bundle, verdict [s]", f"{seen and seen * h}, {found['time']:.4g}", "both or none", (seen is None) == (found["step"] < 0)))
            continue
        ratio = found["step"] / seen
        if name == STIFF:
            out.append(reported(f"{name}: bundle, verdict [s]; verdict by bundle (where contacts are a few steps long the derivative ends first)",
                                f"{seen * h:.4g}, {found['time']:.4g}; {ratio:.3f}"))
            continue
        near = 1 / limit <= ratio <= limit or abs(found["step"] - seen) == 1
        out.append(row(f"{name}: bundle, verdict [s]; verdict by bundle", f"{seen * h:.4g}, {found['time']:.4g}; {ratio:.3f}", f"1/{limit:g} to {limit:g}", near))
    return out


def rows():
    with Bench() as bench:
        return horizon_rows() + calm_rows(bench) + proposal_rows(bench)
