"""Design of a walking robot: lengths, radius, gains, masses

A quadruped whose design is six unknowns, each of which many parameters follow by formulas: gradients of a trot by them, against differences.
Lengths of femur and tibia, radius of the feet, gain of the servos, masses of limbs and trunk set 72 numbers of the model; that they are the model
which these sizes describe is a row of its own."""
import os

import numpy as np

from common import EXAMPLES, below, reported, row, slope
from tasks import Task

LEGS = [f"{end}_{side}" for end in ("front", "hind") for side in ("left", "right")]
DESIGN = {"femur": 0.2, "tibia": 0.15, "radius": 0.05, "gain": 50.0, "limbs": 1.0, "trunk": 21.0}
STEPS, W = 320, 0.05  # 0.4 s; width of the limbs
FEMUR, TIBIA = "0.5*limbs", "0.375*limbs"  # masses


def foot(r):
    return f"1000*4/3*pi*({r})^3"


def quadruped():
    with open(os.path.join(EXAMPLES, "quadruped", "quadruped.xml"), encoding="utf-8") as f:
        return f.read()


def written(d):
    """The model with another design, as somebody would write it."""
    text = quadruped()
    for old, new in (('size="0.025 0.025 0.1" pos="0 0 -0.1" mass="0.5"', f'size="0.025 0.025 {d["femur"] / 2!r}" pos="0 0 {-d["femur"] / 2!r}" mass="{0.5 * d["limbs"]!r}"'),
                     ('size="0.025 0.025 0.075" pos="0 0 -0.075" mass="0.375"', f'size="0.025 0.025 {d["tibia"] / 2!r}" pos="0 0 {-d["tibia"] / 2!r}" mass="{0.375 * d["limbs"]!r}"'),
                     ('size="0.05" pos="0 0 -0.15" density', f'size="{d["radius"]!r}" pos="0 0 {-d["tibia"]!r}" density'),
                     ('pos="0 0 -0.2"', f'pos="0 0 {-d["femur"]!r}"'), ('kp="50"', f'kp="{d["gain"]!r}"'), ('mass="21"', f'mass="{d["trunk"]!r}"')):
        assert old in text
        text = text.replace(old, new)
    return text


def sets():
    """What follows each unknown: {unknown: {parameter: formula}}."""
    out = {name: {} for name in DESIGN}
    tibia = f"m = {TIBIA}; b = {foot('radius')}; c = (m*tibia/2 + b*tibia)/(m + b)"  # c: how far below the knee the middle of its mass is
    across = f"{tibia}; m*({W}^2 + tibia^2)/12 + m*(c - tibia/2)^2 + 0.4*b*radius^2 + b*(tibia - c)^2"
    for leg in LEGS:
        f, t = f"{leg}_femur", f"{leg}_tibia"
        out["femur"] |= {f"body_pos:{t}:2": "-z", f"body_ipos:{f}:2": "-z/2"} | {f"body_inertia:{f}:{k}": f"{FEMUR}*({W}^2 + z^2)/12" for k in (0, 1)}
        out["limbs"] |= {f"body_mass:{f}": FEMUR, f"body_inertia:{f}:2": f"{FEMUR}*{W}^2/6"}
        out["tibia"] |= {f"geom_pos:{leg}_foot:2": "-z", f"body_mass:{t}": f"{tibia}; m + b", f"body_ipos:{t}:2": f"{tibia}; -c",
                         f"body_inertia:{t}": [across, across, f"{tibia}; m*{W}^2/6 + 0.4*b*radius^2"]}
        out["radius"] |= {f"geom_size:{leg}_foot:0": "z"}
        for joint in ("hip", "knee"):
            out["gain"] |= {f"actuator_gainprm:{leg}_{joint}:0": "z", f"actuator_biasprm:{leg}_{joint}:1": "-z"}
    belly = foot("0.05")  # moments about the principal axes, the largest first
    box = lambda a, b: f"z*({a}^2 + {b}^2)/12 + 4*{belly}*(0.4*0.05^2 + "
    out["trunk"] = {"body_mass:trunk": f"z + 4*{belly}", "body_inertia:trunk": [box(0.7, 0.3) + "0.1^2 + 0.3^2)", box(0.7, 0.1) + "0.3^2)", box(0.3, 0.1) + "0.1^2)"]}
    return out


def task(model, variables):
    """A trot: how far the trunk comes and how it turns, over some steps."""
    t = (np.arange(STEPS) + 1) * 0.00125
    swing = 0.3 * np.sin(2 * np.pi * 1.5 * t)[:, None] * [1, -1, -1, 1]  # diagonal legs together
    lift = 0.35 * np.cos(2 * np.pi * 1.5 * t)[:, None] * [1, -1, -1, 1] - 0.2
    return {"model": model, "constants": "recompute", "steps": STEPS, "controls": np.hstack([lift, swing]).tolist(), "variables": variables,
            "init": {"joints": {"root": {"qpos": [0, 0, 0.403, 1, 0, 0, 0], "qvel": [0.2, 0.05, -0.1, 0.1, 0.2, -0.1]}}},
            "loss": [{"formula": "-3*p.x + (p.z - 0.4)^2 + dot(w, w)/50 + p.x*p.y", "at": "all", "mean": True, "discount": 0.5,
                      "inputs": {"p": {"body": "trunk"}, "w": {"qvel": "root", "components": [3, 4, 5]}}},
                     {"body": "trunk", "components": [2], "type": "below", "target": 0.39, "at": {"every": 0.02}}]}


def rows():
    ties = sets()
    design = Task(task(quadruped(), [{"name": k, "start": v, "sets": ties[k]} for k, v in DESIGN.items()]))
    count = sum(len(v) if isinstance(v, list) else 1 for s in ties.values() for v in s.values())
    names, at, other = list(DESIGN), design.start, np.array([0.21, 0.16, 0.047, 55, 1.2, 19])
    whole = max(abs(design.loss(z) - fixed(z, names)) / abs(design.loss(z)) for z in (at, other))
    out = [reported("numbers of the model that follow the six unknowns", count),
           below("loss of the tied design against the model written with these sizes, two designs, relative", whole, 1e-10)]
    for z, words in ((at, "the design of the example"), (other, "another")):
        value, g = design.loss(z, True)
        for k, name in enumerate(names):
            # contacts that begin a step earlier make the loss jump: of several moves the one between two jumps
            error = min(abs(slope(lambda s: design.loss(z + s * np.eye(6)[k]), h * z[k]) / g[k] - 1) for h in (1e-4, 1e-5, 1e-6))
            out.append(below(f"{words}: derivative by {name} ({g[k]:.6g}) against differences, relative", error, 1e-6))
        out.append(row(f"{words}: every unknown moves the trot, least |z dL/dz|", float(np.min(np.abs(g * z))), "> 1e-4", np.min(np.abs(g * z)) > 1e-4))
    return out


def fixed(z, names):
    """The loss of a model that was written for the design, with nothing tied."""
    t = task(written(dict(zip(names, map(float, z)))), [{"parameter": "geom_margin:floor", "start": 0}])
    return Task(t).loss(np.zeros(1))
