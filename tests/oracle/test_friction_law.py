"""Friction of joints by velocity and load: a fit from noisy recordings finds its numbers."""
import json
import subprocess

import numpy as np

import inside

ARM = """<mujoco><option timestep="0.002"/><worldbody><body><joint name="hinge" axis="0 1 0" damping=".02" armature=".01"
frictionloss=".05"/><inertial pos="0 0 -.15" mass=".5" diaginertia="1e-4 1e-4 1e-4"/></body></worldbody>
<actuator><motor name="motor" joint="hinge"/></actuator></mujoco>"""
TRUTH = {"loss": .06, "viscous": .03, "stiction": .05, "stribeck": .35, "power": 1.6, "load": .12, "stictionload": .15}
# Model M4: both forces alike.
SETS = {"load": {"dof_frictionload:hinge": ["z", "z"]}, "stictionload": {"dof_stictionload:hinge": ["z", "z"]}}
FIELDS = {"loss": "dof_frictionloss:hinge", "viscous": "dof_damping:hinge", "stiction": "dof_stiction:hinge",
          "stribeck": "dof_stribeck:hinge", "power": "dof_stribeckpower:hinge"}
STEPS, RUNS, SIGMA = 400, 12, 1e-3


def runs():
    """Torques that drive the arm fast and slowly, with and against its weight, and noisy angles."""
    model = inside.Model("arm.xml")
    theta = model.theta.copy()
    for name, value in TRUTH.items():
        for field in [FIELDS[name]] if name in FIELDS else [next(iter(SETS[name]))]:
            model.param(theta, field.split(":")[0])[:] = value
    r, t = np.random.default_rng(3), .002 * np.arange(STEPS)
    for _ in range(RUNS):
        start = np.array([r.uniform(-2, 2), r.uniform(-4, 4)])
        u = r.uniform(.1, .8) * np.sin(2 * np.pi * r.uniform(.5, 3) * t + r.uniform(0, 6)) + r.uniform(-.3, .3)
        x, angles = model.state(start[:1], start[1:]), []
        for k in range(STEPS):
            x = model.step(x, u[k:k + 1], theta=theta)[0]
            angles.append(x[model.slots["qpos"]][0])
        yield start, u, np.array(angles) + SIGMA * r.standard_normal(STEPS)


def test_a_fit_finds_the_law(tmp_path, monkeypatch):
    """The seven numbers of model M4, each within four of its standard deviations, which are small; of a law without stiction
    and load the same recordings say that it cannot be right."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "arm.xml").write_text(ARM)
    rows = range(10, STEPS + 1, 10)
    trajectories = [{"init": {"qpos": [q], "qvel": [v]}, "controls": [[x] for x in u],
                     "loss": [{"qpos": "hinge", "at": [.002 * k for k in rows], "target": [[float(angles[k - 1])] for k in rows],
                               "sigma": SIGMA}]}
                    for (q, v), u, angles in runs()]
    starts = {"loss": .03, "viscous": .05, "stiction": .02, "stribeck": .2, "power": 2, "load": .05, "stictionload": .05}
    law = [{"name": n, "start": s, "lower": 1e-4} | ({"parameter": FIELDS[n]} if n in FIELDS else {"sets": SETS[n]})
           for n, s in starts.items()]
    law[4].update(lower=1, upper=4)
    task = {"model": "arm.xml", "steps": STEPS, "trajectories": trajectories, "variables": law,
            "optimizer": {"method": "gauss-newton", "iterations": 60}}
    found = fit(task)
    assert found["outcome"] == "converged" and .85 < found["uncertainty"]["chi_square"] < 1.15
    for v in found["variables"]:
        truth = TRUTH[v["name"]]
        assert abs(v["value"][0] - truth) < 4 * v["deviation"][0] and v["deviation"][0] < .05 * truth, v

    plain = fit(task | {"variables": law[:2]})["uncertainty"]
    assert plain["chi_square"] > 100 and "cannot be right" in plain["warning"]


def fit(task):
    with open("task.json", "w", encoding="utf-8") as f:
        json.dump(task, f)
    command = [f"{inside.build_dir()}/pullback", "optimize", "task.json", "-o", "found.json"]
    subprocess.run(command, capture_output=True, check=False)
    with open("found.json", encoding="utf-8") as f:
        return json.load(f)
