"""pullback evaluate: a policy in episodes that no training has seen, against closed forms; commands in audits."""
import json

import numpy as np
import pytest

# two sliders without gravity, each at its own constant speed; a free ball beside them
MODEL = """<mujoco><option timestep="0.01" gravity="0 0 0"/><worldbody>
  <body name="ball"><freejoint name="ball"/><geom size=".1" mass="1" contype="0" conaffinity="0"/></body>
  <body><joint name="x" type="slide" axis="1 0 0"/><geom size=".1" mass="1" contype="0" conaffinity="0"/></body></worldbody>
  <actuator><motor name="m" joint="x"/></actuator></mujoco>"""
TASK = {
    "model": MODEL, "policy": {"every": 5, "observe": [{"qvel": "x"}], "layers": [{"dense": 1, "init": "zero"}]},
    "init": {"qvel": [0.3, 0.4, 5, 0, 0, 0, 0]},
    "sample": {"init": [{"state": "qvel", "joint": "x", "list": [[0.5], [1.5]]}]},
    "loss": [{"name": "speed", "qvel": "x", "target": 0, "weight": 3, "at": "all"}, {"name": "level", "qvel": "ball", "components": [0, 1], "at": "all"},
             {"name": "beyond", "qpos": "ball", "components": [2], "type": "below", "target": 100, "at": "all"},
             {"name": "plain", "qvel": "x", "type": "linear", "at": "all"}],
    "episode": {"seconds": 1, "done": [{"name": "far", "qpos": "x", "type": "below", "target": 0.98, "at": "all"},
                                       {"name": "never", "qpos": "x", "type": "above", "target": -9, "at": "all"}],
                "success": [{"qpos": "x", "type": "below", "target": 9, "at": "all"}]},
    "train": {"method": "shac", "updates": 1, "worlds": 2, "window": 4}}


def write(folder, task):
    (folder / "task.json").write_text(json.dumps(task))
    return folder / "task.json"


def evaluated(run, task, *words):
    return json.loads(run("evaluate", task, "--json", *words).stdout)


def test_what_is_told_is_what_happened(run, tmp_path):
    """Speeds are constant, so all numbers follow from how many of the episodes were fast: these end at .98 m, in the 14th of 20 decisions."""
    found = evaluated(run, write(tmp_path, TASK), "--starts", "50", "--seed", "3")
    fast = found["ended"]
    assert found["starts"] == 50 and found["seed"] == 3 and found["seconds"] == 1 and 10 < fast < 40 and found["diverged"] == 0
    assert found["done"] == [{"name": "far", "episodes": fast}, {"name": "never", "episodes": 0}]
    made = 14 * fast + 20 * (50 - fast)
    assert found["length"] == pytest.approx(made * 0.05 / 50, rel=1e-12) and found["success"] == pytest.approx(1 - fast / 50, rel=1e-12)
    assert found["distance"] == pytest.approx(0.5 * found["length"], rel=1e-12)  # of the ball, at .3 and .4 m/s
    square, mean = (14 * fast * 2.25 + 20 * (50 - fast) * 0.25) / made, (14 * fast * 1.5 + 20 * (50 - fast) * 0.5) / made
    terms = {t["name"]: t for t in found["terms"]}
    assert list(terms) == ["speed", "level", "beyond", "plain"]
    assert terms["speed"]["cost"] == pytest.approx(3 * square, rel=1e-12) and terms["speed"]["rms"] == pytest.approx(np.sqrt(square), rel=1e-12)
    assert terms["level"]["rms"] == pytest.approx(0.5, rel=1e-12) and terms["beyond"]["rms"] == 0
    assert terms["plain"]["cost"] == pytest.approx(mean, rel=1e-12) and terms["plain"]["rms"] is None


def test_episodes_are_those_of_the_seed_alone(run, tmp_path):
    task = write(tmp_path, TASK)
    by = {n: evaluated(run, task, "--starts", "33", "--seed", n, "--threads", t) for n, t in (("1", "1"), ("2", "2"))}
    assert by["1"] == evaluated(run, task, "--starts", "33", "--seed", "1", "--threads", "2") and by["1"]["ended"] != by["2"]["ended"]


def test_they_are_not_those_that_chose_the_policy(run, tmp_path):
    """Of the same seed, and as many: another share of fast ones than in the evaluations of the training."""
    more = {**TASK, "train": {**TASK["train"], "evaluate": {"starts": 200}}}
    task = write(tmp_path, more)
    run("train", task, "-o", tmp_path / "p.npz", "-q")
    rows = np.genfromtxt(tmp_path / "p.csv", delimiter=",", names=True)
    found = evaluated(run, task, "--policy", tmp_path / "p.npz")
    assert found["starts"] == 200 and round(200 * (1 - float(rows["alive"]))) != found["ended"]


def test_words_are_for_people(run, tmp_path):
    task = write(tmp_path, TASK)
    said = run("evaluate", task, "--starts", "20", "-o", tmp_path / "out.json").stdout
    numbers = json.loads((tmp_path / "out.json").read_text())
    assert "20 episodes of 1 s that no training has seen (seed 0)" in said
    assert f"{numbers['ended']} ({5 * numbers['ended']} %); far: {numbers['ended']}, never: 0" in said and "0.5\n" in said
    assert "expected" in run("evaluate", task, "--starts", "0", code=2).stderr
    assert '"train" is missing' in run("evaluate", write(tmp_path, {k: v for k, v in TASK.items() if k != "train"}), code=3).stderr


def test_what_diverges_is_told(run, tmp_path):
    wild = {**TASK, "init": {"qvel": [1e300, 1e300, 0, 0, 0, 0, 0]}}
    found = evaluated(run, write(tmp_path, wild), "--starts", "9")
    assert found["diverged"] == found["ended"] == 9 and found["loss"] is None and found["terms"][0]["cost"] is None


# ---- commands in an audit -----------------------------------------------------------------------------------------------------
FOLLOWER = """<mujoco><option timestep="0.01" integrator="implicitfast"/><worldbody><body><joint name="x" type="slide" axis="1 0 0" damping="1"/>
  <geom size=".1" mass="1e-6" contype="0" conaffinity="0"/></body></worldbody><actuator><motor name="m" joint="x" ctrlrange="-9 9"/></actuator>
  <keyframe><key name="pushed" ctrl="5"/></keyframe></mujoco>"""


def follower(objective):
    """A slide that has the speed of its control after one step; the control is the command, which is drawn again each tenth of a second."""
    inputs = {"v": {"qvel": "x"}, "c": {"command": True}}
    return {"model": FOLLOWER, "init": {"keyframe": 0}, "policy": {"every": 1, "observe": [{"command": 1}], "layers": [{"dense": 1, "init": "uniform"}]},
            "loss": [{"formula": "(v - c)^2", "inputs": inputs, "at": "all"}], "sample": {"command": [{"list": [[1], [-1]], "every": 0.1}]},
            "episode": {"seconds": 10}, "train": {"method": "bptt", "updates": 1, "worlds": 2, "window": 2},
            "audit": {"torque": 9, "ledger": 9, "objective": "it", "loss": [{"name": "it", "inputs": inputs, "mean": True, **objective}]}}


def test_an_audit_sees_commands_that_change(run, tmp_path):
    """A state has the command under which it was reached, at the step that was trained and at finer ones; what a keyframe controls is not added."""
    def audited(objective):
        task = write(tmp_path, follower(objective))
        weights = tmp_path / "p.npz"
        run("train", task, "-o", weights, "-q")
        with np.load(weights) as f:
            kept = {k: f[k] for k in f.files}
        kept["policy.0.weight"], kept["policy.0.bias"] = np.array([[1.0]]), np.array([0.0])
        np.savez(weights, **kept)
        return json.loads(run("audit", task, "--policy", weights, "--json", code=(0, 1)).stdout)

    every = {"from": 0.01, "to": 10, "every": 0.01}
    followed = audited({"formula": "(v - c)^2", "at": every})
    assert followed["runs"][0]["mean"] < 1e-6 and followed["runs"][1]["mean"] < 1e-6 and followed["runs"][2]["mean"] < 1e-6
    assert followed["runs"][6]["mean"] == pytest.approx(1, rel=1e-12)  # a policy that puts out zeros
    # a hundred draws of -1 and 1 in each start
    drawn = audited({"formula": "c + 0*v", "at": every})["runs"][0]
    assert 0.01 < drawn["deviation"] < 0.3 and abs(drawn["mean"]) < 0.2


def test_other_commands_refuse_to_see_them(run, tmp_path):
    task = follower({"formula": "(v - c)^2", "at": "all"})
    del task["train"], task["episode"]
    task.update(steps=5, variables=[{"parameter": "policy"}], optimizer={"method": "adam"})
    assert "only terms of a training see it" in run("optimize", write(tmp_path, task), code=3).stderr
