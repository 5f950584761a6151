"""--result of every command, optimize --start: what a search found in place of what the file says."""
import json
import signal
import subprocess
import time

import numpy as np
import pytest

ARM = """<mujoco model="arm">
  <option timestep="0.005"/>
  <worldbody>
    <body name="upper" pos="0 0 1"><joint name="shoulder" axis="0 1 0" damping="0.2"/>
      <geom name="rod" type="capsule" fromto="0 0 0 .3 0 0" size=".03"/>
      <body name="lower" pos=".3 0 0"><joint name="elbow" axis="0 1 0" damping="0.1"/>
        <geom type="capsule" fromto="0 0 0 .25 0 0" size=".025"/><site name="tip" pos=".25 0 0"/></body></body>
  </worldbody>
  <actuator><motor name="m" joint="shoulder" gear="2"/></actuator>
</mujoco>"""
TASK = {"model": "arm.xml", "steps": 40, "init": {"joints": {"elbow": {"qpos": 0.5}}}, "controls": [0.3],
        "variables": [{"parameter": "dof_damping:shoulder", "transform": "log", "start": 0.3, "lower": 0.01},
                      {"name": "mass", "parameter": "body_mass:lower", "lower": 0.1, "upper": 3, "scale": 0.7},
                      {"state": "qvel", "joint": "shoulder"}, {"control": "m", "knots": 3},
                      {"name": "reach", "start": 0.25, "sets": {"site_pos:tip:0": "reach"}}],
        "loss": [{"site": "tip", "target": [0.4, 0, 0.9]}, {"qvel": "shoulder", "target": [0.3], "weight": 0.1}],
        "optimizer": {"method": "gauss-newton", "iterations": 4}}


@pytest.fixture
def found(run, tmp_path):
    """A search, and its result."""
    (tmp_path / "arm.xml").write_text(ARM)
    (tmp_path / "task.json").write_text(json.dumps(TASK))
    run("optimize", tmp_path / "task.json", "-q", "-o", tmp_path / "r.json", code=(0, 1))
    return json.loads((tmp_path / "r.json").read_text())


def parameters(text):
    return {p["name"]: p for p in json.loads(text)["params"]}


def test_the_result_names_its_parameters(found):
    values = {v["name"]: v["value"] for v in found["variables"]}
    assert found["parameters"] == {"dof_damping:shoulder": values["dof_damping:shoulder"][0], "body_mass:lower": values["mass"][0],
                                   "site_pos:tip:0": values["reach"][0]}


def test_every_command_has_the_answer(run, found, tmp_path):
    """The run of the task with the result is the trajectory that optimize wrote, to the bit; a model has the found parameters."""
    task, model, result = tmp_path / "task.json", tmp_path / "arm.xml", ("--result", tmp_path / "r.json")
    run("simulate", task, *result, "-o", tmp_path / "run.npz", "-q")
    with np.load(tmp_path / "run.npz") as a, np.load(tmp_path / "r.trajectory.npz") as b:
        assert (a["qpos"] == b["qpos"]).all() and (a["control"] == b["control"]).all()

    mass = found["parameters"]["body_mass:lower"]
    for what in (task, model):
        run("inspect", what, *result, "-o", tmp_path / "i.npz")
        with np.load(tmp_path / "i.npz") as i:
            assert i["model/body_mass"][2] != mass  # fields are the model's own
            crb = i["M"][1, 1]
        run("inspect", what, "--param", f"body_mass:lower={mass!r}", "-o", tmp_path / "i.npz")
        with np.load(tmp_path / "i.npz") as i:
            assert i["M"][1, 1] == crb
        text = run("info", what, *result, "--json").stdout
        assert parameters(text)["body_mass"]["value"][2] == mass
        for command in (("gradient", "--cotangent", tmp_path / "cot.npz", "-o", tmp_path / "g.npz"), ("jacobian", "-o", tmp_path / "j.npz"),
                        ("check", "--horizon", "3"), ("view", "-o", tmp_path / "v.html")):
            np.savez(tmp_path / "cot.npz", qpos=[1., 0])
            run(command[0], what, *result, *command[1:])

    # options go before it
    text = run("info", model, *result, "--param", "body_mass:lower=0.5", "--json").stdout
    assert parameters(text)["body_mass"]["value"][2] == 0.5


def test_gradient_of_the_loss_at_the_answer(run, found, tmp_path):
    task = tmp_path / "task.json"
    for k, options in enumerate(((), ("--result", tmp_path / "r.json"))):
        run("gradient", task, "--loss", task, *options, "-o", tmp_path / f"g{k}.npz", "-q")
    losses = [json.loads(str(np.load(tmp_path / f"g{k}.npz")["meta"]))["loss"] for k in (0, 1)]
    assert losses[0] == found["start_loss"] and losses[1] == found["loss"]


def test_a_search_begins_where_another_ended(run, found, tmp_path):
    run("optimize", tmp_path / "task.json", "-q", "--start", tmp_path / "r.json", "-o", tmp_path / "again.json", code=(0, 1))
    again = json.loads((tmp_path / "again.json").read_text())
    assert again["start_loss"] == found["loss"] and again["loss"] <= found["loss"]
    assert [v["start"] for v in again["variables"]] == [v["value"] for v in found["variables"]]


def test_constants_follow_where_the_task_says_so(run, tmp_path):
    (tmp_path / "arm.xml").write_text(ARM)
    for constants in ("keep", "recompute"):
        (tmp_path / "task.json").write_text(json.dumps({**TASK, "constants": constants, "optimizer": {"iterations": 1}}))
        run("optimize", tmp_path / "task.json", "-q", "-o", tmp_path / "r.json", code=(0, 1))
        texts = [run("info", tmp_path / "arm.xml", *more, "--json").stdout
                 for more in ((), ("--result", tmp_path / "r.json"), ("--result", tmp_path / "r.json", "--constants", "keep"))]
        without, follow, keep = (parameters(t)["dof_invweight0"]["value"] for t in texts)
        assert keep == without and (follow != without) == (constants == "recompute")


@pytest.mark.parametrize("change, said", [
    (lambda r: r["parameters"].update({"body_mass:none": 1}), "parameters.body_mass:none"),
    (lambda r: r["parameters"].update({"body_mass": 1}), "expected the name of one number"),
    (lambda r: r["parameters"].update({"body_mass:lower": "a"}), "parameters.body_mass:lower: expected a number"),
    (lambda r: r["parameters"].update({"body_mass:lower": None}), "parameters.body_mass:lower: expected a number"),
    (lambda r: r["parameters"].update({"body_mass:lower": -1}), "body_mass:lower is -1"),
    (lambda r: r.update(parameters=[1]), "no result"),
    (lambda r: r.pop("parameters"), "parameters: is missing"),
    (lambda r: r.pop("variables"), "no result")])
def test_a_result_of_something_else(run, found, tmp_path, change, said):
    change(found)
    (tmp_path / "bad.json").write_text(json.dumps(found))
    done = run("info", tmp_path / "arm.xml", "--result", tmp_path / "bad.json", code=3)
    assert said in done.stderr, done.stderr


def test_a_result_of_another_task(run, found, tmp_path):
    found["variables"][1]["value"] = [5.]
    (tmp_path / "bad.json").write_text(json.dumps(found))
    for command in (("simulate", tmp_path / "task.json", "--result"), ("optimize", tmp_path / "task.json", "--start")):
        done = run(*command, tmp_path / "bad.json", "-o", tmp_path / ("o.npz" if command[0] == "simulate" else "o.json"), code=3)
        assert "mass is 5, above its bound 3" in done.stderr, done.stderr
    found["variables"][1]["name"] = "other"
    (tmp_path / "bad.json").write_text(json.dumps(found))
    done = run("info", tmp_path / "task.json", "--result", tmp_path / "bad.json", code=3)
    assert "'other', which the task does not vary" in done.stderr
    done = run("info", tmp_path / "task.json", "--result", tmp_path / "gone.json", code=5)
    assert "gone.json" in done.stderr


def test_a_run_that_began_elsewhere_is_not_gone_on_with(pullback, run, found, tmp_path):
    """What an interrupted search has left is of its start, too."""
    task = {**TASK, "steps": 400, "optimizer": {"method": "cmaes", "iterations": 100000}}
    (tmp_path / "task.json").write_text(json.dumps(task))
    state = tmp_path / "long.state"
    search = subprocess.Popen([pullback, "optimize", tmp_path / "task.json", "-q", "--start", tmp_path / "r.json", "-o", tmp_path / "long.json"],
                              stderr=subprocess.DEVNULL)
    for _ in range(600):
        if state.exists():
            break
        time.sleep(0.1)
    search.send_signal(signal.SIGINT)
    assert search.wait(60) == 130 and state.exists()
    done = run("optimize", tmp_path / "task.json", "-q", "-o", tmp_path / "long.json", code=3)
    assert "holds a run that read other files" in done.stderr
    found["variables"][1]["value"] = [1.5]
    (tmp_path / "other.json").write_text(json.dumps(found))
    (tmp_path / "other.json").rename(tmp_path / "r.json")
    done = run("optimize", tmp_path / "task.json", "-q", "--start", tmp_path / "r.json", "-o", tmp_path / "long.json", code=3)
    assert "r.json was changed" in done.stderr
