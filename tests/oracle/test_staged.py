"""Searches in stages by the program: killed at drawn moments they end with the same bits; what is said, and the page."""
import json
import os
import random
import signal
import subprocess
import time

import numpy as np

CART = """<mujoco><option timestep="0.02"/><worldbody><geom type="plane" size="5 5 1"/><body name="cart" pos="0 0 1">
<joint name="x" type="slide" axis="1 0 0"/><geom type="box" size=".2 .1 .1" mass="1"/>
<body name="pole"><joint name="angle" axis="0 1 0"/><geom type="capsule" size=".02" fromto="0 0 0 0 0 -.6" mass=".1"/></body></body>
<body name="ball" pos=".6 0 .1"><freejoint/><geom type="sphere" size=".1" mass=".3"/></body></worldbody>
<actuator><motor name="force" joint="x"/></actuator></mujoco>"""
TASK = {"model": CART, "steps": 100, "variables": [{"name": "force", "control": True, "lower": -10, "upper": 10}],
        "loss": [{"name": "upright", "qpos": "angle", "target": 3.14159265, "weight": 100}, {"qvel": "angle", "weight": 10},
                 {"name": "wall", "qpos": "x", "at": "all", "type": "below", "target": .6, "constraint": True,
                  "tolerance": 1e-3, "weight": 10},
                 {"name": "effort", "control": True, "at": "all", "weight": .001}],
        "optimizer": {"method": "ilqr", "iterations": 40}, "seed": 3,
        "stages": [{"name": "short & smooth", "steps": 60, "contact": {"kappa": 10, "onset": .02}, "mode": "smooth"},
                   {"name": "by samples", "optimizer": {"method": "sep-cma", "sigma": .3, "iterations": 30}, "steps": 80},
                   {"name": "sharp"}]}


def result(path):
    r = json.loads(path.read_text())
    for name in "seconds", "resumed":
        del r[name]
    return r


def test_killed_at_drawn_moments(pullback, tmp_path):
    (tmp_path / "task.json").write_text(json.dumps(TASK))
    command = [pullback, "optimize", "task.json", "-o", "r.json"]
    begun = time.time()
    whole = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    took = time.time() - begun
    assert whole.returncode in (0, 1), whole.stderr
    assert "short & smooth: loss" in whole.stderr and "of 60 steps, iteration limit" in whole.stderr, whole.stderr
    expected = result(tmp_path / "r.json")
    motion = (tmp_path / "r.trajectory.npz").read_bytes()
    assert [s["steps"] for s in expected["stages"]] == [60, 80, 100]
    assert expected["iterations"] == sum(s["iterations"] for s in expected["stages"]) == expected["history"][-1][0]

    rng, kills = random.Random(os.environ.get("SEED", "0") + "stages"), 0
    for _ in range(3):
        (tmp_path / "r.json").unlink()
        for life in range(40):
            p = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            try:
                p.communicate(timeout=took * rng.uniform(.2, .9) + life * .5)  # a kill loses a second at most
                break
            except subprocess.TimeoutExpired:
                p.send_signal(signal.SIGKILL if rng.random() < .5 else signal.SIGINT)
                p.communicate(timeout=60)
                kills += 1
        assert p.returncode == whole.returncode
        assert result(tmp_path / "r.json") == expected
        assert (tmp_path / "r.trajectory.npz").read_bytes() == motion
    assert kills > 0


def test_the_last_stage_is_the_task(run, tmp_path):
    """Commands that take a task as a run take the last stage's settings; the page has each stage."""
    task = TASK | {"stages": [{"steps": 20, "optimizer": {"iterations": 2}},
                              {"name": "longer", "steps": 30, "contact": {"kappa": 7}, "optimizer": {"iterations": 3}}]}
    (tmp_path / "task.json").write_text(json.dumps(task))
    run("optimize", tmp_path / "task.json", "-q", "-o", tmp_path / "r.json", "--page", tmp_path / "r.html", code=(0, 1))
    alone = {k: v for k, v in task.items() if k != "stages"} | {"steps": 30, "contact": {"kappa": 7}}
    (tmp_path / "alone.json").write_text(json.dumps(alone))
    for name in "task", "alone":
        run("simulate", tmp_path / f"{name}.json", "--result", tmp_path / "r.json", "-o", tmp_path / f"{name}.npz")
    one, other = np.load(tmp_path / "task.npz"), np.load(tmp_path / "alone.npz")
    assert one["qpos"].shape[0] == 31 and np.array_equal(one["qpos"], other["qpos"])
    page = (tmp_path / "r.html").read_text()
    assert '"name": "longer"' in page or '"name":"longer"' in page

    # a search goes on where another ended, from the first stage on: there the values of its moments
    run("optimize", tmp_path / "task.json", "-q", "--start", tmp_path / "r.json", "-o", tmp_path / "again.json", code=(0, 1))
    r, again = (json.loads((tmp_path / f"{n}.json").read_text()) for n in ("r", "again"))
    assert again["stages"][0]["start_loss"] != r["stages"][0]["start_loss"]


def test_the_time_of_a_formula_by_the_time_step(run, tmp_path):
    """A loss alone: its gradient by the time step has what formulas of the time have by it."""
    model = CART.replace('pos=".6 0 .1"', 'pos=".6 0 3"')  # nothing touches
    loss = [{"formula": "t^2*(1 + a)", "inputs": {"a": {"qpos": "angle"}}, "at": "all"}, {"qpos": "x", "target": .3}]
    task = {"model": model, "steps": 40, "controls": [1.5], "variables": [{"control": True}], "loss": loss}
    (tmp_path / "task.json").write_text(json.dumps(task))

    def at(h, name):
        path = tmp_path / "task.json"
        run("gradient", path, "--loss", path, "--wrt", "param", "--param", f"timestep={h!r}", "-o", tmp_path / name)
        return np.load(tmp_path / name)

    low, here, high = (at(h, f"{k}.npz") for k, h in enumerate((.02 - 1e-6, .02, .02 + 1e-6)))
    quotient = float(high["loss"] - low["loss"]) / 2e-6
    assert abs(here["param/timestep"] - quotient) <= 1e-6 * abs(quotient), (here["param/timestep"], quotient)
