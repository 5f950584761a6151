#!/usr/bin/env python3
"""Plants every fault of an adjoint (tools/plant_faults.py) and sees which spot check of `pullback gradient` finds it.

  build/venv/bin/python tools/sweep_certificate.py [WORD]   all, or those whose file or reason contains WORD

Of each fault: the check of steps finds it ("steps"); it does not, but that of the whole rollout does ("full"); no gradient of these scenes
differs in a bit ("inactive"); one does, and neither check tells ("MISSED"). Without a fault no scene may be called off. Ends with 1
where a fault is found by the check of the whole rollout alone, or by neither, and KNOWN does not say so.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import plant_faults as faults  # noqa: E402

ADJOINTS = re.compile(r"adjoint|vjp|/event|src/impact/|/sphere|/clock|geometry/jacobian")
SEEDS = 3

# Faults, by their reasons, that the check of steps cannot see though they act: what sees them instead, and why.
EVENTS = ("MISSED", "a correction by events is one text for both derivatives, and no difference of steps is its truth; unit/test_event")
KNOWN = {
    "directions: what a gradient held is lost": ("full", "each step is right, and their sum is not"),
    "an onset corrected the wrong way": EVENTS,
    "penalty contacts have events": EVENTS,
    "the rate after an impact has the forces of the velocity before it": EVENTS,
}

ARM = """<mujoco><option timestep='.002' {options}/><worldbody><body pos='0 0 1'><joint name='a' axis='0 1 0' damping='.1'/>
  <geom type='capsule' size='.03' fromto='0 0 0 .3 0 0'/><body pos='.3 0 0'><joint name='b' axis='0 1 0'/>
  <geom type='capsule' size='.03' fromto='0 0 0 .2 0 .1'/><site name='e' pos='.1 0 .03'/></body></body>
  <body pos='1 0 1'><joint name='s' type='slide' range='-.1 0' limited='true'/><geom size='.1'/></body><site name='w' pos='.1 0 1.4'/></worldbody>
  <tendon><spatial name='t' stiffness='20'><site site='w'/><site site='e'/></spatial>
  <fixed name='f'><joint joint='a' coef='1'/><joint joint='b' coef='.5'/></fixed></tendon>
  <sensor><force site='e'/><clock/></sensor></mujoco>"""
BALL = """<mujoco><option timestep='.002' cone='{cone}'/><default><geom friction='.4 .01 .001'/></default><worldbody>
  <geom type='plane' size='9 9 1' {floor}/><body pos='0 0 .0995'><freejoint/><geom size='.1' mass='1' {ball}/><site name='s' size='.12'/></body>
  </worldbody><sensor><touch site='s'/><accelerometer site='s'/></sensor></mujoco>"""
DROPPED = """<mujoco><option timestep='.002' density='5' viscosity='.5'/><default><geom friction='.4' margin='{margin}'/></default><worldbody>
  <geom type='plane' size='9 9 1'/><body pos='0 0 .13' euler='0 5 0'><freejoint/><geom type='box' size='.1 .08 .1' mass='1'/></body>
  <body pos='1 0 .12'><freejoint/><geom size='.1' mass='1'/></body></worldbody></mujoco>"""
RESTING = """<mujoco><option timestep='.005'/><default><geom friction='.6' density='800'/></default><worldbody><geom type='plane' size='9 9 1'/>
  <body pos='0 0 .0999'><freejoint/><geom type='box' size='.1 .1 .1'/></body></worldbody></mujoco>"""
COIN = """<mujoco><option density='20' viscosity='.5' gravity='0 0 -1'/><worldbody><body pos='0 0 1'><freejoint/><geom
  type='ellipsoid' size='.1 .08 .02' mass='.1' fluidshape='ellipsoid'/><geom type='box' size='.1 .02 .05' pos='.1 0 0' mass='.1'/>
  </body></worldbody></mujoco>"""
WELD = """<mujoco><worldbody><body name='p' pos='0 0 1'><freejoint/><geom type='box' size='.1 .05 .02' mass='1'/></body>
  <body name='q' pos='.3 0 1'><joint type='ball' pos='.1 0 0'/><geom type='box' size='.1 .05 .02' mass='1'/></body></worldbody>
  <equality><weld body1='p' body2='q' torquescale='{scale}' relpose='.3 0 0 1 .1 .2 0'/></equality></mujoco>"""
FLOATING = """<mujoco><option gravity='0 0 {gravity}'/><worldbody><body gravcomp='.5'><joint type='slide' axis='0 0 1'/>
  <geom size='.1' mass='2'/></body></worldbody></mujoco>"""
MOTOR = """<mujoco><worldbody><body><joint name='j' type='slide' axis='1 0 0' actuatorfrcrange='0 5'/><geom size='.1' mass='2'/></body>
  </worldbody><actuator><motor joint='j' gear='2'/></actuator></mujoco>"""
NET = """{{"options": {{"timestep": 0.01}}, "deformables": {{"scheme": "{scheme}", "bodies": [{{"name": "net", "mass": 0.5,
  "mesh": {{"grid": {{"u": [1, 0, 0], "v": [0, 1, 0], "cells": [4, 4]}}}}, "sets": {{"left": {{"box": [[0, null, null], [0, null, null]]}}}},
  "pins": [{{"points": "left"}}], "energies": [
  {{"name": "thread", "formula": "0.5*k*(norm(x0 - x1) - norm(X0 - X1))^2", "on": "edges", "parameters": {{"k": 200}}}},
  {{"name": "push", "formula": "-a*sin(3*t)*x0.x", "on": "points", "parameters": {{"a": 2}}}},
  {{"energy": "drag", "on": "points", "parameters": {{"damping": 0.1}}}}]}}]}}, "steps": 12}}"""


def scenes(folder):
    """(name, file, options of the program): each small, together nearly every term of the step."""
    found = []

    def add(name, text, *options):
        path = folder / f"{re.sub('[^a-z0-9]', '_', name)}.{'json' if text.startswith('{') else 'xml'}"
        path.write_text(text, encoding="utf-8")
        found.append((name, path, options))
    for path in sorted((faults.ROOT / "tests" / "oracle" / "models").glob("*.xml")):
        found.append((path.stem, path, ()))
    for integrator in ("Euler", "implicitfast", "RK4"):
        add(f"arm {integrator}", ARM.format(options=f"integrator='{integrator}'"))
    for method in ("soft", "lcp", "cones", "sweeps", "penalty", "impact"):
        settings = ["--contact", f"method={method}"]
        if method in ("lcp", "cones", "impact"):
            settings += ["--contact", "restitution=0.5"]
        if method == "sweeps":
            settings += ["--contact", "sweeps=3000"]
        if method != "impact":
            add(f"ball {method}", BALL.format(cone="elliptic", floor="condim='6'", ball=""), *settings)
        for margin in (0, .004) if method != "sweeps" else ():
            text = DROPPED.format(margin=margin)
            add(f"dropped {method} {margin}", text, *settings)
            if method != "impact":
                add(f"dropped {method} {margin} event", text, *settings, "--mode", "event")
    add("dropped capped", DROPPED.format(margin=0), "--contact", "method=impact", "--contact", "restitution=0.5", "--contact",
        "restitution_law=capped")
    add("dropped smooth", DROPPED.format(margin=0), "--mode", "smooth")
    add("deep rigid", BALL.format(cone="elliptic", floor="", ball="").replace(".0995", ".098"), "--contact", "method=cones", "--contact", "erp=0.8",
        "--contact", "cfm=0")
    for method in ("cones", "lcp"):
        add(f"resting {method}", RESTING, "--contact", f"method={method}")
    add("dropped bouncing event", DROPPED.format(margin=0), "--contact", "method=cones", "--contact", "restitution=0.8", "--mode", "event")
    add("dropped penalty stiff event", DROPPED.format(margin=0), "--contact", "method=penalty", "--contact", "stiffness=1e5", "--mode", "event")
    add("turned", WELD.format(scale=1), "--param", "body_quat:q=1.3,0.2,0.1,0", "--param", "body_iquat:p=0.6,0.2,0.1,0")
    add("deep", BALL.format(cone="elliptic", floor="", ball="").replace(".0995", ".09"), "--contact", "method=cones")
    add("ball smoothed", BALL.format(cone="elliptic", floor="", ball=""), "--contact", "kappa=1")
    add("ball direct", BALL.format(cone="pyramidal", floor="solref='-5000 -40'", ball="solref='-5000 -40'"))
    add("ball slow", BALL.format(cone="pyramidal", floor="solref='.004 1'", ball="priority='1' solref='.004 1'"))
    add("coin", COIN)
    for scale in (0, 1):
        add(f"weld {scale}", WELD.format(scale=scale))
    for gravity in (0, -9.81):
        add(f"floating {gravity}", FLOATING.format(gravity=gravity))
    add("motor", MOTOR)
    for scheme in ("implicit_euler", "bdf2", "trapezoid", "avf4"):
        add(f"net {scheme}", NET.format(scheme=scheme))
    return found


def sizes(program, path, options):
    said = subprocess.run([program, "info", path, "--json"], capture_output=True, text=True, check=True).stdout
    told = json.loads(said)
    return told["sizes"] | {s["name"]: s["size"] for s in told["state"]}


class Scene:
    """A rollout with random velocities, controls and cotangents of every state; the same for every fault."""
    STEPS = 24

    def __init__(self, program, folder, number, name, path, options):
        self.name, self.path, self.options = name, path, options
        rng, n = np.random.default_rng(number), sizes(program, path, options)
        self.out, rows = folder / f"{number}.npz", self.STEPS + 1
        seen = {"qpos": n["nv"], "qvel": n["nv"], "act": n["na"], "sensordata": n["nsensordata"], "points": n.get("points", 0)}
        np.savez(folder / f"seen{number}.npz", **{k: rng.normal(size=(rows, w)) for k, w in seen.items() if w})
        self.inputs = ["--cotangent", folder / f"seen{number}.npz", "--steps", str(self.STEPS)]
        if n["nv"]:
            velocity = (.01 if name.startswith("resting") else .3) * rng.normal(size=n["nv"])
            if name.startswith("dropped"):
                velocity[2::6] = -.8
            np.savez(folder / f"start{number}.npz", qvel=velocity)
            self.inputs += ["--init", folder / f"start{number}.npz"]
        if n["nu"]:
            np.save(folder / f"control{number}.npy", (name != "motor") * .3 * rng.normal(size=(self.STEPS, n["nu"])))
            self.inputs += ["--control", folder / f"control{number}.npy"]
        self.gradient = None

    def run(self, program, check, seed):
        """Exit status, what was said, the gradient."""
        done = subprocess.run([program, "gradient", self.path, *self.inputs, *self.options, "--spot-check", check, "--seed", str(seed), "--strict",
                               "-q", "-o", self.out], capture_output=True, text=True)
        return done.returncode, done.stderr, dict(np.load(self.out)) if done.returncode in (0, 1) else {}

    def differs(self, gradient):
        return any(k != "meta" and not np.array_equal(v, gradient.get(k), equal_nan=True) for k, v in self.gradient.items())


def baseline(program, all_scenes):
    """Without a fault nothing is called off. Scenes that are, or do not run, by name."""
    bad = []
    for s in all_scenes:
        for check in ("steps", "full"):
            for seed in range(SEEDS):
                code, said, s.gradient = s.run(program, check, seed)
                if code:
                    bad.append(s)
                    print(f"without a fault: {s.name}, {check}, seed {seed}: exit {code}: {said.strip()[:300]}", flush=True)
                    break
    return bad


def verdict(program, all_scenes):
    """What finds the fault that was built, and in which scene."""
    active = []
    for s in all_scenes:
        code, said, gradient = s.run(program, "steps", 0)
        if code:
            return "steps", s.name
        if s.differs(gradient):
            active.append(s)
    for s in active:
        if any(s.run(program, "steps", seed)[0] for seed in range(1, 4 * SEEDS)):
            return "steps", s.name
    for s in active:
        if any(s.run(program, "full", seed)[0] for seed in range(SEEDS)):
            return "full", s.name
    return ("MISSED", ", ".join(s.name for s in active)) if active else ("inactive", "")


def plant(copy, fault, all_scenes):
    path = copy.source / fault[0]
    text = path.read_text(encoding="utf-8")
    if text.count(fault[1]) != 1:
        return "STALE", f"its text occurs {text.count(fault[1])} times"
    path.write_text(text.replace(fault[1], fault[2]), encoding="utf-8")
    try:
        made = copy.make(["pytest:"], 2)
        return ("STALE", "it does not compile") if made.returncode else verdict(copy.build / "pullback", all_scenes)
    finally:
        path.write_text(text, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description="Sees which spot check finds each planted fault of an adjoint.")
    parser.add_argument("word", nargs="?", default="", help="only faults whose file or reason contains this")
    asked = parser.parse_args()
    chosen = [f for f in faults.FAULTS if ADJOINTS.search(f[0]) and (asked.word in f[0] or asked.word in f[4])]
    copy, wrong = faults.Copy(0), 0
    configured, made = copy.fill(), copy.make(["pytest:"], 2)
    if configured.returncode or made.returncode:
        sys.exit(configured.stderr[-3000:] + made.stdout[-3000:])
    with tempfile.TemporaryDirectory() as folder:
        folder, program = pathlib.Path(folder), copy.build / "pullback"
        all_scenes = [Scene(program, folder, k, *s) for k, s in enumerate(scenes(folder))]
        bad = baseline(program, all_scenes)
        sound = [s for s in all_scenes if s not in bad]
        for fault in chosen:
            found, where = plant(copy, fault, sound)
            wrong += found == "STALE" or (found in ("full", "MISSED") and KNOWN.get(fault[4], ("",))[0] != found)
            print(f"{found:9} {fault[0]:32} {fault[4]}{': ' if where else ''}{where}", flush=True)
    print(f"{len(chosen)} faults, {wrong} not found where they should be; {len(bad)} scenes called off without a fault")
    return 1 if wrong or bad else 0


if __name__ == "__main__":
    sys.exit(main())
