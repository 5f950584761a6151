"""Newton's method by conjugate gradients, by the program: beside scipy's with our gradients; killed at drawn moments it ends
with the same bits; fewer iterations than L-BFGS; limits, constraints, stages; differences where nothing is exact, and what is refused."""
import json
import os
import random
import signal
import subprocess
import time

import numpy as np
import pytest
import scipy.optimize

CART = """<mujoco><option timestep="0.02"/><worldbody><body name="cart"><joint name="x" type="slide" axis="1 0 0"/>
<geom type="box" size=".2 .1 .1" mass="1" contype="0" conaffinity="0"/><body name="pole"><joint name="angle" axis="0 1 0"/>
<geom type="capsule" size=".02" fromto="0 0 0 0 0 -.6" mass=".1" contype="0" conaffinity="0"/></body></body></worldbody>
<actuator><motor name="force" joint="x"/></actuator></mujoco>"""
# A ball that slides and rolls.
PUSH = """<mujoco><option timestep="0.005"/><worldbody><geom name="floor" type="plane" size="5 5 1" solref=".1 1"/>
<body name="puck" pos="0 0 .09"><freejoint name="root"/><geom type="sphere" size=".1" mass="1" friction=".2" solref=".1 1"/></body>
</worldbody><actuator><motor name="push" joint="root" gear="1 0 0 0 0 0"/></actuator></mujoco>"""
# Two carts, springs and dampers: linear.
CARTS = """<mujoco><option timestep="0.05" gravity="0 0 0"/><default><geom size=".1" contype="0" conaffinity="0"/></default>
<worldbody><body><joint name="x" type="slide" axis="1 0 0" stiffness="2" damping=".3"/><geom mass="1.5"/>
<body><joint name="y" type="slide" axis=".8 0 .6" stiffness="1" damping=".2"/><geom mass=".7"/></body></body></worldbody>
<actuator><motor name="a" joint="x"/><motor name="b" joint="y" gear="10"/></actuator></mujoco>"""
SWING = {"model": CART, "steps": 75, "variables": [{"name": "force", "control": True, "start": .5}],
         "loss": [{"name": "upright", "qpos": "angle", "target": 3.14159265, "weight": 100}, {"qvel": True, "weight": 10},
                  {"qpos": "x", "weight": 10}, {"control": True, "at": "all", "weight": .01}],
         "optimizer": {"method": "newton-cg", "iterations": 300}}


def found(run, tmp_path, task, *more, code=(0, 1)):
    (tmp_path / "task.json").write_text(json.dumps(task))
    done = run("optimize", tmp_path / "task.json", "--fresh", "-o", tmp_path / "r.json", *more, code=code)
    return json.loads((tmp_path / "r.json").read_text()), done.stdout + done.stderr


class Task:
    """Loss and gradient of a task for scipy."""

    def __init__(self, lib, context, path):
        self.lib, self.task, self.calls = lib, lib.handle(), 0
        lib.pbTask_Load(context, str(path).encode(), None, self.task)
        self.n = lib.pbTask_Size(self.task)
        self.start = lib.array(lib.pbTask_Start(self.task), self.n,).copy()

    def __call__(self, z):
        value, g = self.lib.double(), np.zeros(self.n)
        self.calls += 1
        self.lib.pbTask_Loss(self.task, np.ascontiguousarray(z), value, g)
        return value.value, g

    def product(self, z, v):
        e = 1e-5 * (1 + np.linalg.norm(z)) / np.linalg.norm(v)
        return (self(z + e * v)[1] - self(z - e * v)[1]) / (2 * e)


@pytest.mark.parametrize("world", ["swing", "push"])
def test_beside_scipy(run, lib, context, tmp_path, world):
    task = SWING if world == "swing" else {
        "model": PUSH, "steps": 60, "init": {"qvel": [2, .5, 0, 0, 5, 0]},
        "variables": [{"control": True, "knots": 6}, {"state": "qvel", "joint": "root"}],
        "loss": [{"body": "puck", "target": [.5, .2, .1], "weight": 10}, {"qvel": True, "weight": .01},
                 {"control": True, "at": "all", "weight": 1e-4}],
        "optimizer": {"method": "newton-cg", "iterations": 300}}
    ours, said = found(run, tmp_path, task)
    assert ours["outcome"] == "converged" and ours["hessian"]["differences"] == 0, ours["reason"]
    assert ours["hessian"]["why_differences"] is None
    assert f"products with the Hessian: {ours['hessian']['products']} exact, 0 by differences" in said

    of = Task(lib, context, tmp_path / "task.json")
    z = np.concatenate([v["value"] for v in ours["variables"]])
    value, g = of(z)
    assert abs(value - ours["loss"]) <= 1e-12 * abs(value) and np.abs(g).max() <= 1e-8

    # scipy from our answer stays there, from the start it comes to no less
    newton = {"jac": True, "hessp": of.product, "method": "trust-ncg"}
    stays = scipy.optimize.minimize(of, z, **newton, options={"gtol": 1e-7})
    theirs = scipy.optimize.minimize(of, of.start, **newton, options={"gtol": 1e-6, "maxiter": 2000})
    print(f"{world}: {ours['iterations']} iterations, loss {ours['loss']:.12g}; scipy's trust-ncg {theirs.nit}, {theirs.fun:.12g}")
    assert stays.fun >= value * (1 - 1e-12) and np.abs(stays.x - z).max() < 1e-6
    assert ours["loss"] <= theirs.fun * (1 + 1e-9) + 1e-12
    H = np.array([of.product(z, e) for e in np.eye(of.n)])
    assert np.linalg.eigvalsh((H + H.T) / 2).min() > 0
    lib.pbTask_Destroy(of.task)


def test_closed_form(run, lib, context, tmp_path):
    """A linear system with squared terms whose unknowns are far from equally felt: the answer of the normal equations."""
    task = {"model": CARTS, "steps": 40, "init": {"qpos": [1, -.5], "qvel": [.3, 1]}, "variables": [{"control": True}],
            "loss": [{"qpos": True, "at": "all", "target": [.4, .2], "weight": 2}, {"qpos": True, "weight": 100},
                     {"control": True, "at": "all", "weight": .01}],
            "optimizer": {"method": "newton-cg", "gradient_tolerance": 1e-11}}
    ours, _ = found(run, tmp_path, task)
    of = Task(lib, context, tmp_path / "task.json")
    m = lib.pbTask_ResidualCount(of.task)
    r, J = np.zeros(m), np.zeros((m, of.n))
    lib.pbTask_Residuals(of.task, of.start, r, J)
    exact, z = of.start - np.linalg.lstsq(J, r, rcond=None)[0], np.concatenate([v["value"] for v in ours["variables"]])
    error = np.abs(z - exact).max()
    print(f"condition {np.linalg.cond(J.T @ J):.1e}: {ours['iterations']} iterations, {ours['hessian']['products']} products, error {error:.1e}")
    # rounding of the loss decides which of the last two points is the answer: the one before has a gradient of 4e-11
    assert error < 1e-8 * (1 + np.abs(exact).max())
    lib.pbTask_Destroy(of.task)


@pytest.mark.parametrize("hessian", ["exact", "differences"])
def test_killed_at_drawn_moments(pullback, tmp_path, hessian):
    task = SWING | {"optimizer": {"method": "newton-cg", "iterations": 200, "hessian": hessian}, "steps": 150,
                    "variables": [{"name": "force", "control": True, "start": .5, "lower": -9, "upper": 9}, {"state": "qvel", "joint": "x"}],
                    "stages": [{"name": "short", "steps": 75, "optimizer": {"iterations": 30}}, {"name": "whole"}]}
    (tmp_path / "task.json").write_text(json.dumps(task))
    command = [pullback, "optimize", "task.json", "-o", "r.json"]

    def result():
        r = json.loads((tmp_path / "r.json").read_text())
        return {k: v for k, v in r.items() if k not in ("seconds", "resumed")}

    begun = time.time()
    whole = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    took = time.time() - begun
    assert whole.returncode in (0, 1), whole.stderr
    expected = result()
    done, other = ("products", "differences") if hessian == "exact" else ("differences", "products")
    assert expected["hessian"][done] > 10 and expected["hessian"][other] == 0

    rng, kills = random.Random(os.environ.get("SEED", "0") + "newton" + hessian), 0
    for _ in range(3):
        (tmp_path / "r.json").unlink()
        for life in range(60):
            p = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            try:
                p.communicate(timeout=took * rng.uniform(.2, .9) + life * .5)  # a kill loses a second at most
                break
            except subprocess.TimeoutExpired:
                p.send_signal(signal.SIGKILL if rng.random() < .7 else signal.SIGINT)
                p.communicate(timeout=60)
                kills += 1
        assert p.returncode == whole.returncode
        assert result() == expected
    assert kills > 0


def test_fewer_iterations(run, tmp_path):
    """Than L-BFGS has to the same loss, with limits that hold, and by differences; the numbers are printed."""
    for limits in {}, {"lower": -5, "upper": 5}:
        variables = [SWING["variables"][0] | limits]
        runs = {}
        lbfgs = {"method": "lbfgs", "iterations": 2000}
        for name, optimizer in ("newton-cg", {}), ("differences", {"hessian": "differences"}), ("lbfgs", lbfgs):
            runs[name], _ = found(run, tmp_path, SWING | {"variables": variables, "optimizer": SWING["optimizer"] | optimizer})
        print(limits, {k: (r["iterations"], r["gradients"], r["loss"]) for k, r in runs.items()})
        assert runs["newton-cg"]["iterations"] < runs["lbfgs"]["iterations"]
        assert runs["newton-cg"]["outcome"] == "converged"
        assert runs["differences"]["hessian"]["why_differences"] == "the task asks for them"
        for r in runs.values():
            assert r["loss"] <= runs["lbfgs"]["loss"] * (1 + 1e-8)
            assert np.abs(r["variables"][0]["value"]).max() <= limits.get("upper", np.inf)


def test_constraints(run, tmp_path):
    """A wall by multipliers, as of other methods."""
    wall = {"name": "wall", "qpos": "x", "at": "all", "type": "below", "target": .3, "constraint": True, "tolerance": 1e-4}
    r, _ = found(run, tmp_path, SWING | {"loss": SWING["loss"] + [wall], "optimizer": {"method": "newton-cg", "iterations": 600}})
    assert max(t["deviation"] for t in r["terms"] if t["name"] == "wall") <= 1e-4, (r["outcome"], r["reason"])


def test_unknowns_without_second_derivatives(run, tmp_path):
    """Parameters: by differences of gradients, which is said; refused where the task insists on exact ones."""
    fit = {"model": CART, "steps": 60, "init": {"qpos": [0, 1]}, 
           "variables": [{"parameter": "dof_damping:angle", "start": .1, "lower": 0}, {"control": True, "knots": 3}],
           "loss": [{"qpos": True, "at": "all", "target": [.1, .5]}, {"control": True, "at": "all", "weight": .01}],
           "optimizer": {"method": "newton-cg", "iterations": 100}}
    r, said = found(run, tmp_path, fit)
    why = "variable 'dof_damping:angle', a parameter, has none"
    assert r["outcome"] == "converged" and r["hessian"]["products"] == 0 and r["hessian"]["differences"] > 0
    assert r["hessian"]["why_differences"] == why and why in said
    by, _ = found(run, tmp_path, fit | {"optimizer": {"method": "lbfgs", "iterations": 500}})
    assert r["loss"] <= by["loss"] * (1 + 1e-9) and "hessian" not in by


@pytest.mark.parametrize("change, message", [
    ({"optimizer": {"method": "newton-cg", "hessian": "exact"}, "variables": [{"parameter": "dof_damping"}]},
     "optimizer.hessian: no exact second derivatives: variable 'dof_damping', a parameter, has none"),
    ({"optimizer": {"method": "newton-cg", "hessian": "exakt"}}, 'optimizer.hessian: expected "auto", "exact" or "differences"'),
    ({"optimizer": {"method": "lbfgs", "hessian": "exact"}}, 'optimizer.hessian: method "lbfgs" has none: newton-cg does'),
    ({"optimizer": {"method": "newton-gc"}}, "unknown method 'newton-gc', did you mean 'newton-cg'?"),
    ({"optimizer": {"method": "newton-cg"}, "gradient": {"window": .1}}, "newton-cg needs gradients of a function"),
])
def test_refused(run, tmp_path, change, message):
    (tmp_path / "task.json").write_text(json.dumps(SWING | change))
    done = run("optimize", tmp_path / "task.json", "-o", tmp_path / "r.json", code=3)
    assert message in done.stderr and not (tmp_path / "r.json").exists(), done.stderr
