"""Hanging cart-poles, searched from rest

Twenty random cart-poles that hang at rest with controls of zero, where every gradient is zero: the search looks sideways, leaves, and swings them up."""
import math
import random

import numpy as np

from common import Bench, reported, row

CART = """<mujoco><option timestep="0.01" integrator="{integrator}"/><worldbody><body name="cart">
<joint name="slider" type="slide" axis="1 0 0" damping="{drag}"/><geom type="box" size=".15 .1 .08" mass="{cart}" contype="0"/>
<body name="pole"><joint name="hinge" type="hinge" axis="0 1 0" damping="{damping}"/>
<geom type="capsule" size=".02" fromto="0 0 0 0 0 -{length}" mass="{pole}" contype="0"/><site name="tip" pos="0 0 -{length}"/></body></body></worldbody>
<actuator><motor name="push" joint="slider" ctrllimited="true" ctrlrange="-{force} {force}"/></actuator></mujoco>"""
METHODS = {"gauss-newton": {"iterations": 200}, "lbfgs": {"iterations": 600}, "adam": {"iterations": 600, "rate": 0.3}}
SCENES, NEAR = 20, 0.05  # upright: the tip within this part of its length


def scene(k):
    """(task without a method, length): forces of one to two times g for cart and pole, and four to six of half its slowest period."""
    draw = random.Random(k)
    u = lambda a, b, digits=3: round(draw.uniform(a, b), digits)
    length, cart, pole = u(0.3, 1), u(0.5, 2), u(0.05, 0.5)
    model = CART.format(length=length, cart=cart, pole=pole, drag=u(0, 0.2), damping=u(0, 0.01, 4), force=round((cart + pole) * u(10, 20), 2),
                        integrator=draw.choice(["Euler", "RK4", "implicitfast"]))
    components = draw.choice([[0, 2], [2]])
    loss = [{"name": "up", "site": "tip", "components": components, "target": [0, length][-len(components):], "weight": 10},
            {"name": "effort", "control": True, "at": "all", "weight": 1e-5}]
    rest = [{"name": "rest", "qvel": True, "weight": 0.1}] if k % 2 else []
    return {"model": model, "duration": round(2 * u(4, 6) * math.sqrt(length / 9.81), 2), "loss": loss + rest, "stop": {"terms": {"up": NEAR * length}},
            "variables": [{"name": "force", "control": "push", "knots": draw.choice([15, 30, 50]), "interpolation": "linear"}]}, length


def loss_at(bench, task, force):
    most = float(task["model"].split('ctrlrange="-')[1].split()[0])
    start = {**task["variables"][0], "start": np.clip(force, -most, most).tolist()}
    return bench.optimize(bench.write("beside.json", {**task, "variables": [start], "optimizer": {"iterations": 0, "saddle": "report"}}))["loss"]


def least_beside(bench, task, result, count=12):
    """Least loss to both sides of an answer, along smooth and rough changes of the force: what fell to both sides would be a saddle."""
    draw, force = np.random.default_rng(3), np.array(result["variables"][0]["value"])
    least, t = math.inf, np.linspace(0, np.pi, len(force))
    for k in range(count):
        way = np.sin((k + 1) * t / 2 + draw.uniform(0, np.pi)) if k < count - 3 else draw.normal(size=len(force))
        least = min(least, max(loss_at(bench, task, force + s * 0.3 * way) for s in (-1, 1)))
    return least


def attempt(bench, method, k, saddle):
    task, length = scene(k)
    task["optimizer"] = {"method": method, "saddle": saddle, **METHODS[method]}
    result = bench.optimize(bench.write("task.json", task))
    up = next(t["deviation"] for t in result["terms"] if t["name"] == "up") / length
    return task, result, up


def to_the_end(bench):
    """Without criteria to stop by: outcomes, and how many that converged lie above the loss to both sides."""
    outcomes, high = {}, 0
    for k in range(SCENES):
        task = {**scene(k)[0], "optimizer": {"method": "lbfgs", "iterations": 1000}}
        del task["stop"]
        result = bench.optimize(bench.write("task.json", task))
        outcomes[result["outcome"]] = outcomes.get(result["outcome"], 0) + 1
        if result["outcome"] == "converged":
            high += least_beside(bench, task, result) < result["loss"] * (1 - 1e-9)
    said = ", ".join(f"{name} {count}" for name, count in sorted(outcomes.items()))
    return [reported("lbfgs without criteria to stop by", said), row("of these 'converged' above the loss to both sides", high, "0", high == 0),
            row("of these told a saddle, or stalled at one", outcomes.get("saddle", 0), "0", "saddle" not in outcomes)]


def rows():
    out, passed = [], 0
    with Bench() as bench:
        for method in METHODS:
            told = [attempt(bench, method, k, "report")[1] for k in range(SCENES)]
            saddles = sum(r["outcome"] == "saddle" and r["iterations"] == 1 for r in told)
            out.append(row(f"{method}: hanging at rest is told a saddle", f"{saddles} of {SCENES}", f"{SCENES} of {SCENES}", saddles == SCENES))

            found, high = [], 0
            for k in range(SCENES):
                task, result, up = attempt(bench, method, k, "leave")
                found.append((result["outcome"], up, result["saddles_left"]))
                if result["outcome"] == "converged":
                    high += least_beside(bench, task, result) < result["loss"] * (1 - 1e-9)
            out.append(row(f"{method}: 'converged' above the loss to both sides", high, "0", high == 0))
            upright = sum(up <= NEAR for _, up, _ in found)
            passed += upright >= 18
            out.append(reported(f"{method}: upright", f"{upright} of {SCENES}"))
            out.append(reported(f"{method}: distance of the tip by its length, and outcome where that is more than {NEAR:g}",
                                ", ".join(f"{up:.3f}" + (f" ({outcome})" if up > NEAR else "") for outcome, up, _ in found)))
        out.append(row(f"methods by which 18 of {SCENES} stand upright", passed, ">= 2", passed >= 2))
        return out + to_the_end(bench)
