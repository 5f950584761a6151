"""Answers that exploit the simulator

Answers that live on a time step, a resonance of the integrator or a missed contact are told "not confirmed", honest ones "confirmed"."""
import json
import math
import os
import subprocess

import numpy as np

from common import Bench, EXAMPLES, PROGRAM, row

WALL = """<mujoco><option timestep="{h}"/><worldbody><geom name="wall" type="box" size=".01 1 .2" pos=".5 0 .2"/><body pos="0 0 .1">
<joint name="x" type="slide" axis="1 0 0"/><geom size=".03" mass="1"/></body></worldbody><actuator><motor name="push" joint="x" gear="40"
ctrlrange="-1 1" ctrllimited="true" forcerange="-1 1" forcelimited="true"/></actuator></mujoco>"""
SERVO = """<mujoco><option timestep="{h}" gravity="0 0 0"/><worldbody><body><joint name="x" type="slide" axis="1 0 0" damping="{d}"/>
<geom size=".1" mass="1"/></body></worldbody><actuator><position name="servo" joint="x" kp="{k}" forcerange="-5000 5000" forcelimited="true"/>
</actuator></mujoco>"""
FLOOR = """<mujoco><option timestep="{h}"/><worldbody><geom type="plane" size="5 5 .1"/><body pos="0 0 .1">
<joint name="z" type="slide" axis="0 0 1"/><geom size=".1" mass="1"/></body></worldbody><actuator><motor name="press" joint="z" gear="400"
forcerange="-1 1" forcelimited="true"/></actuator></mujoco>"""
SPIN = """<mujoco><option timestep="{h}" gravity="0 0 0"/><worldbody><body><freejoint name="root"/><geom type="box" size=".3 .1 .02" mass="2"/>
</body></worldbody></mujoco>"""
ARM = """<mujoco><option timestep="{h}"/><worldbody><geom type="plane" size="5 5 .1" pos="0 0 -.6"/><body><joint name="j" axis="0 1 0" damping=".5"/>
<geom type="capsule" size=".03" fromto="0 0 0 0 0 -.5"/></body></worldbody><actuator><motor name="m" joint="j" gear="3" ctrlrange="-2 2"
ctrllimited="true" forcerange="-2 2" forcelimited="true"/></actuator></mujoco>"""
STOP = """<mujoco><option timestep="{h}" gravity="0 0 0"/><worldbody><body><joint name="hinge" axis="0 1 0" range="-45 45" damping="1" solreflimit="{soft}"/>
<geom type="capsule" size=".02" fromto="0 0 0 0 0 .5" mass=".2" contype="0"/></body></worldbody><actuator><motor joint="hinge" gear="1"
forcerange="-40 40" ctrlrange="-40 40"/></actuator></mujoco>"""
THIN = """<mujoco><option timestep="{h}" gravity="0 0 0"/><worldbody><geom name="wall" type="box" size=".005 1 1" pos="1.03 0 0"/><body>
<joint name="x" type="slide" axis="1 0 0"/><geom name="ball" type="sphere" size=".01" mass=".1"/></body></worldbody><actuator>
<motor joint="x" forcerange="-1 1"/></actuator></mujoco>"""
ROPE = """<mujoco><option timestep="{h}" gravity="0 0 0"/><worldbody><site name="a"/><body pos=".3 0 0"><joint name="x" type="slide" axis="1 0 0" damping="1"/>
<geom size=".05" mass="1"/><site name="b"/></body></worldbody><tendon><spatial name="rope" limited="true" range="0 .5" solreflimit=".1 1"><site site="a"/>
<site site="b"/></spatial></tendon><actuator><motor joint="x" forcerange="-50 50"/></actuator></mujoco>"""
HANDS = """<mujoco><option timestep="{h}" gravity="0 0 0"/><worldbody><body name="left" pos="-.1 0 0"><joint name="l" type="slide" axis="1 0 0"/><geom size=".02" mass="1"/></body>
<body name="right" pos=".1 0 0"><joint name="r" type="slide" axis="1 0 0" damping="5"/><geom size=".02" mass="1"/></body></worldbody><equality>
<joint name="hold" joint1="l" joint2="r" solref=".2 1"/></equality><actuator><motor joint="r" forcerange="-50 50"/></actuator></mujoco>"""
GEAR = """<mujoco><option timestep="{h}" gravity="0 0 0"/><worldbody><body><joint name="hinge" axis="0 1 0" damping="5"/>
<geom type="capsule" size=".05" fromto="0 0 0 0 0 .5" mass="20"/></body></worldbody><actuator><motor joint="hinge" gear="200"/></actuator></mujoco>"""
POLE = """<mujoco><option timestep="{h}"/><worldbody><body><joint name="j" axis="0 1 0" damping=".5"/><geom type="capsule" size=".03" fromto="0 0 0 0 0 .5"/></body>
</worldbody><actuator><motor joint="j" gear="3" ctrlrange="-2 2" forcerange="-2 2"/></actuator></mujoco>"""


def wall(h):
    """As far as it gets: at a large step a ball is on the other side of a thin wall before it was seen to touch."""
    return {"model": WALL.format(h=h), "duration": .6, "variables": [{"control": True, "start": 1}],
            "loss": [{"name": "way", "qpos": "x", "type": "linear", "weight": -1}], "contact": {"method": "cones"},
            "audit": {"objective": "way", "factor": -1, "unit": "m", "spread": {"qvel": 0.002}}}


def resonance(h):
    """A servo of 2 Hz, driven at the frequency that its oscillation has at this very step."""
    w, damping = 2 * math.pi * 2, 0.002
    numeric = math.acos(1 - (w * h)**2 / 2) / h
    drive = [0.05 * math.sin(numeric * (i + 0.5) * h) for i in range(round(20 / h))]
    return {"model": SERVO.format(h=h, d=2 * damping * w, k=w * w), "steps": len(drive), "variables": [{"control": True, "start": drive}],
            "loss": [{"name": "swing", "qpos": "x", "weight": -1, "at": "all", "mean": True}],
            "audit": {"objective": "swing", "factor": -1, "unit": "m2"}}


def press(h):
    """Rewarded for a low center: at a large step contacts are softer (solref is at least two steps) and the floor gives way."""
    return {"model": FLOOR.format(h=h), "duration": .4, "variables": [{"control": True, "start": -0.2}],
            "loss": [{"name": "depth", "qpos": "z", "type": "linear", "weight": 1}],
            "audit": {"objective": "depth", "factor": -1, "unit": "m", "penetration": 0.02}}


def spin(h):
    """Rewarded for its spin, without any force: explicit gyroscopic forces make energy."""
    return {"model": SPIN.format(h=h), "duration": 2, "init": {"qvel": [0, 0, 0, .3, 8, .3]}, "variables": [{"state": "qvel", "components": [4]}],
            "loss": [{"name": "spin", "qvel": "root", "components": [3, 4, 5], "weight": -1, "at": [2.0]}],
            "audit": {"objective": "spin", "factor": -1, "unit": "rad2/s2"}}


def arm(h):
    """Swung up by all that its motor has, clear of the floor."""
    return {"model": ARM.format(h=h), "duration": 1, "variables": [{"control": True, "knots": 1, "start": 2}],
            "loss": [{"name": "angle", "qpos": "j", "type": "linear", "weight": -1}], "audit": {"objective": "angle", "factor": -1, "unit": "rad"}}


def trot(h):
    """A gait made by hand, open loop, of a quadruped with soft feet (examples/quadruped): most of its speed is the step's."""
    with open(os.path.join(EXAMPLES, "quadruped", "quadruped.xml"), encoding="utf-8") as f:
        model = f.read().replace('timestep="0.00125"', f'timestep="{h}"')
    steps = round(8 / h)
    t = 2 * np.pi * 1.5 * h * (np.arange(steps) + 1)
    gait = -np.array([[0.5] * 4 + [0] * 4, [0.8, -0.8, -0.8, 0.8, 0, 0, 0, 0], [0, 0, 0, 0, 0.5, -0.5, -0.5, 0.5]])
    points = np.clip(np.stack([np.ones(steps), np.sin(t), np.cos(t)], 1) @ gait, -0.7853981634, 0.7853981634)
    return {"model": model[model.index("<mujoco"):], "steps": steps, "variables": [{"control": True, "start": points.ravel().tolist()}],
            "loss": [{"name": "speed", "qpos": "root", "components": [0], "type": "linear", "weight": -1 / 8}],
            "audit": {"objective": "speed", "factor": -1, "unit": "m/s", "penetration": 0.03}}


def chase(h):
    """A policy that runs for a place behind the wall."""
    task = wall(h)
    del task["variables"]
    task["model"] = task["model"].replace('gear="40"', 'gear="60"')
    task["policy"] = {"every": 1, "observe": [{"qpos": "x"}, {"qvel": "x"}], "layers": [{"formula": ["4*(1.5 - x0) - 0.2*x1"]}]}
    return task


def balance(h):
    """A pole that is held upright by feedback from what is observed at 50 Hz."""
    every = round(0.02 / h)
    return {"model": ARM.format(h=h).replace("0 0 -.6", "0 0 -1.2"), "duration": 3, "init": {"qpos": [3.0]},
            "policy": {"every": every, "observe": [{"qpos": "j"}, {"qvel": "j"}], "layers": [{"formula": ["5*(3.14159265 - x0) - 0.7*x1"]}]},
            "loss": [{"name": "upright", "qpos": "j", "type": "linear"}], "audit": {"objective": "upright", "unit": "rad", "spread": {"qvel": 0.2}}}


def far(term):
    """The trot with its speed told beside a constant: what it gains over standing is small beside that."""
    def make(h):
        task = trot(h)
        task["loss"] = [{"name": "speed"} | term]
        task["audit"] = {"objective": "speed", "penetration": 0.03}
        return task
    return make


def driven(model, joint, force, seconds, limits=None, **more):
    """Driven along a joint as far as it goes."""
    def make(h):
        return {"model": model.format(h=h, **more), "duration": seconds, "variables": [{"control": True, "knots": 1, "start": force}],
                "loss": [{"name": "way", "qpos": joint, "type": "linear", "weight": -1}],
                "audit": {"objective": "way", "factor": -1, "spread": {"qvel": 0.05}} | (limits or {})}
    return make


def bullet(v):
    """A ball of 1 cm, shot at a wall of 1 cm: at no step it is seen to touch."""
    def make(h):
        return {"model": THIN.format(h=h), "duration": 0.1, "init": {"qvel": [v]}, "variables": [{"control": True, "knots": 1}],
                "loss": [{"name": "way", "qpos": "x", "type": "linear", "weight": -1}],
                "audit": {"objective": "way", "factor": -1, "unit": "m", "spread": {"qvel": 0.05}}}
    return make


def balanced(kind):
    """A pole that feedback holds upright to 1e-10 rad: all that is left of its loss is rounding."""
    def make(h):
        return {"model": POLE.format(h=h), "duration": 3, "policy": {"every": round(0.02 / h), "observe": [{"qpos": "j"}, {"qvel": "j"}],
                "layers": [{"formula": ["-5*x0 - 0.7*x1"]}]}, "loss": [{"name": "tilt", "qpos": "j", "type": kind}], "audit": {"spread": {"qvel": 0.2}}}
    return make


CASES = [("through a wall", wall, 0.02, False, "m at h/"), ("to its end at a wall", wall, 0.0005, True, ""),
         ("a servo's resonance", resonance, 0.05, False, "m2 at h/4"), ("a servo's resonance, fine", resonance, 0.002, True, ""),
         ("pressed into the floor", press, 0.02, False, "m at h/2"), ("pressed onto the floor", press, 0.001, True, ""),
         ("spinning up by itself", spin, 0.02, False, "of the work unaccounted for"), ("spinning", spin, 0.0005, True, ""),
         ("a quadruped's trot, open loop", trot, 0.005, False, "m/s at h/4"), ("an arm swung up", arm, 0.01, True, ""),
         ("a policy beyond a wall", chase, 0.02, False, "m at h/"), ("a policy at a wall", chase, 0.0005, True, ""),
         ("a policy that balances", balance, 0.005, True, ""),
         ("a trot, told as (x - 100)^2", far({"qpos": "root", "components": [0], "target": 100}), 0.005, False, "at h/4"),
         ("a trot, told as 10 - v", far({"formula": "10 - v.x", "inputs": {"v": {"qvel": "root", "components": [0, 1, 2]}}, "at": "all", "mean": True}),
          0.005, False, "at h/4"),
         ("a bullet of 50 m/s through a wall", bullet(50), 0.005, False, "between two steps"),
         ("a bullet of 100 m/s through a wall", bullet(100), 0.005, False, "between two steps"),
         ("a ball of 5 m/s, which the wall is too far for", bullet(5), 0.005, True, ""),
         ("a soft stop driven through", driven(STOP, "hinge", 40, 1, soft="0.1 1"), 0.001, False, "limit of joint 'hinge' gives way"),
         ("a stop driven into", driven(STOP, "hinge", 40, 1, soft="0.02 1"), 0.001, False, "limit of joint 'hinge' gives way"),
         ("a stop leaned on", driven(STOP, "hinge", 2, 1, soft="0.02 1"), 0.001, True, ""),
         ("a rope stretched", driven(ROPE, "x", 50, 1), 0.001, False, "limit of tendon 'rope' gives way"),
         ("hands pulled apart", driven(HANDS, "r", 50, 1, {"ledger": 1}), 0.001, False, "equality 'hold' gives way"),
         ("200 N m behind a gear of 200, 50 allowed", driven(GEAR, "hinge", 1, 0.2, {"torque": 50}), 0.001, False, "force 200 at joint 'hinge'"),
         ("200 N m behind a gear of 200, as allowed", driven(GEAR, "hinge", 1, 0.2, {"torque": 200}), 0.001, True, ""),
         ("a pole balanced, squared", balanced("squared"), 0.005, True, ""), ("a pole balanced, plain", balanced("linear"), 0.005, True, "")]


def report(bench, task, *options, name="task.json"):
    path = bench.write(name, task)
    done = subprocess.run([PROGRAM, "audit", path, "--json", *options], capture_output=True, text=True, check=False)
    return json.loads(done.stdout), done.returncode


def rows():
    out = []
    with Bench() as bench:
        for name, make, h, honest, reason in CASES:
            r, code = report(bench, make(h))
            expected = "confirmed" if honest else f"not confirmed: ... {reason}"
            right = r["confirmed"] == honest and code == (0 if honest else 1) and reason in r["verdict"]
            out.append(row(f"{name}, h = {h} s", r["verdict"], expected, right))
        # the verdict is that of the means over the starts, which differ
        r, _ = report(bench, arm(0.01))
        trained = r["runs"][0]
        out.append(row("an arm swung up: deviation over 8 starts [rad]", trained["deviation"], "> 0", trained["deviation"] > 0 and trained["ran"] == 8))
        gaps = np.array([x["ledger"]["gap"] for x in r["runs"][:3]])
        order = np.log2(gaps[:2] / gaps[1:])
        out.append(row("an arm swung up: order in which what is left over falls with h", ", ".join(f"{x:.3f}" for x in order), "0.9 to 1.1",
                       (np.abs(order - 1) < 0.1).all()))
    return out
