"""Losses of tasks that are Python functions: the program's own terms to rounding, in all methods, on threads, and what is refused."""
import json
import os
import subprocess

import numpy as np
import pytest

import pullback as pb
from conftest import PROGRAMS, ROOT

TEXT = """<mujoco><option timestep=".01" integrator="implicitfast"/>
<worldbody><geom name="floor" type="plane" size="9 9 1"/>
<body name="puck" pos="0 0 .3"><freejoint name="root"/><geom size=".1 .06 .05" type="box" mass="1"/><site name="top" pos="0 0 .05"/>
<body name="arm" pos=".1 0 0"><joint name="hinge" axis="0 1 0" damping=".02"/><geom type="capsule" size=".02" fromto="0 0 0 .2 0 0" mass=".2"/></body></body>
</worldbody>
<actuator><motor joint="hinge" gear=".3" forcerange="-9 9"/></actuator><sensor><gyro site="top"/></sensor></mujoco>"""
GOAL = np.array([.4, .1, .3])


def task(loss, method="lbfgs", **more):
    return {"model": TEXT, "steps": 30, "init": {"qvel": [.5, 0, 1, .3, .2, .1, 0]}, "constants": "recompute",
            "variables": [{"state": "qvel", "joint": "root", "start": [.5, 0, 1, .3, .2, .1], "lower": -5, "upper": 5},
                          {"control": True, "knots": 3, "start": .1}, {"parameter": "body_mass:puck", "transform": "log"}],
            "loss": loss, "optimizer": {"method": method, "iterations": 4, **more}}


# The same loss as terms of the program: place of the body, its spin in all states, the sensor, controls.
TERMS = [{"body": "puck", "target": list(GOAL), "weight": 2}, {"qvel": "root", "components": [3, 4, 5], "at": "all", "weight": .01},
         {"sensor": True, "at": {"from": .1, "to": .3, "every": .1}}, {"control": True, "at": "all", "weight": .1}]


def place(seen):
    away = seen.xpos[-1, 1] - GOAL
    bar = np.zeros(seen.xpos.shape[1:])
    bar[1] = 2 * away
    return away @ away, {"xpos": bar}


def rest(seen):
    spin = np.zeros_like(seen.qvel)
    spin[:, 3:6] = .02 * seen.qvel[:, 3:6]
    return .01 * np.sum(seen.qvel[:, 3:6] ** 2) + .1 * np.sum(seen.ctrl ** 2), {"qvel": spin, "ctrl": .2 * seen.ctrl}


def gyro(seen):
    assert np.allclose(seen.time, [.1, .2, .3]) and seen.sensordata.shape == (3, 3)
    return np.sum(seen.sensordata ** 2), {"sensordata": 2 * seen.sensordata}


FUNCTIONS = [{"function": place, "sees": ["xpos"], "weight": 2}, {"function": rest},
             {"function": gyro, "at": {"from": .1, "to": .3, "every": .1}}]


@pytest.mark.parametrize("method", ["lbfgs", "adam", "cmaes", "es"])
def test_functions_are_terms(method):
    more = {} if method in ("lbfgs", "adam") else {"sigma": .1}
    ours, theirs = pb.optimize(task(FUNCTIONS, method, **more), seed=4), pb.optimize(task(TERMS, method, **more), seed=4)
    assert ours["loss"] < ours["start_loss"] and np.isclose(ours["loss"], theirs["loss"], rtol=1e-9)
    for a, b in zip(ours["variables"], theirs["variables"], strict=True):
        assert np.allclose(a["value"], b["value"], rtol=1e-6, atol=1e-7), (a, b)
    assert ours["certificates"][0]["spot_error"] < ours["certificates"][0]["spot_limit"]


def test_one_function_is_the_whole_loss():
    whole = task(lambda seen: (sum(f(seen)[0] for f in (rest,)), rest(seen)[1]))
    assert np.isclose(pb.optimize(whole)["loss"], pb.optimize(task([{"function": rest}]))["loss"], rtol=0, atol=0)


def test_several_trajectories_on_threads():
    def of(seen):
        return (seen.trajectory + 1) * np.sum(seen.qpos[-1, :3] ** 2), {"qpos": (seen.trajectory + 1) * 2 * np.r_[seen.qpos[-1, :3], np.zeros(4)]}

    many = task(of)
    many["trajectories"] = [{"init": {"qvel": [.1 * k] * 7}} for k in range(4)]
    del many["variables"][0]
    one, two = pb.optimize(many, threads=1), pb.optimize(many, threads=2)
    assert one["loss"] == two["loss"] and one["variables"] == two["variables"]


def test_rotations_are_pulled_back_in_the_tangent_space():
    """The gradient of 1 - w^2 of a quaternion, whose slope by a rotation r (q exp(r)) is w times its vector part."""
    def upright(seen):
        w, v = seen.qpos[-1, 3], seen.qpos[-1, 4:7]
        bar = np.zeros(seen.qvel.shape[1])
        bar[3:6] = w * v
        return 1 - w * w, {"qpos": bar}

    ours = task([{"function": upright}], iterations=30)
    ours["variables"] = [{"state": "qvel", "joint": "root", "components": [3, 4, 5], "start": [2, -1, .5]}]
    ours["init"] = {"qvel": [0, 0, 4, 0, 0, 0, 0]}
    found = pb.optimize(ours)
    assert found["loss"] < 1e-10, found


def test_audits_and_confirms():
    ours = {**task(FUNCTIONS), "confirm": 4, "audit": {"tolerance": .2}}
    theirs = {**task(TERMS), "confirm": 4, "audit": {"tolerance": .2}}
    assert np.isclose(pb.optimize(ours)["confirm"]["loss"], pb.optimize(theirs)["confirm"]["loss"], rtol=1e-6)
    a, b = (pb.audit(t, starts=8, seed=2) for t in (ours, theirs))
    assert a.ok == b.ok and np.isclose(a["runs"][0]["mean"], b["runs"][0]["mean"], rtol=1e-9), a


def test_a_run_that_goes_on(tmp_path):
    """Interrupted by its own progress, it goes on to the bits of one that was not."""
    def stop(what, done, all, note):
        if done >= 2:
            raise Stop

    ours = task([{"function": rest}], "adam")
    with pytest.raises(Stop):
        pb.optimize(ours, output=tmp_path / "r.json", progress=stop)
    went_on = pb.optimize(ours, output=tmp_path / "r.json")
    assert went_on["resumed"] in (True, False) and went_on["loss"] == pb.optimize(ours)["loss"]


def test_a_file_names_functions(tmp_path):
    path = tmp_path / "task.json"
    path.write_text(json.dumps(task([{"function": "mine"}])))
    assert pb.optimize(path, functions={"mine": rest})["loss"] == pb.optimize(task([{"function": rest}]))["loss"]
    with pytest.raises(pb.ArgumentError, match="names the function 'mine'; given are yours"):
        pb.optimize(path, functions={"yours": rest})
    with pytest.raises(pb.ArgumentError, match="expected a function, found int"):
        pb.optimize(path, functions={"mine": 3})
    with pytest.raises(pb.ArgumentError, match="names the function 'mine'; given are none"):
        pb.optimize(path)

    done = subprocess.run([os.path.join(PROGRAMS, "pullback"), "optimize", path, "-o", tmp_path / "r.json"], capture_output=True, text=True)
    assert done.returncode == 2 and "term 'mine': it is a function of the program that runs the task, which gives none" in done.stderr
    done = subprocess.run([os.path.join(PROGRAMS, "pullback"), "gradient", path, "--loss", path, "-o", tmp_path / "g.npz"], capture_output=True, text=True)
    assert done.returncode == 3 and "only optimizations and audits take them" in done.stderr


class Stop(Exception):
    pass


def test_what_a_function_raises_ends_the_run():
    def fails(seen):
        raise Stop("here")

    with pytest.raises(Stop, match="here"):
        pb.optimize(task(fails))
    assert pb.optimize(task([{"function": rest}]))["loss"] >= 0  # the next one runs


def test_where_there_is_no_value_the_search_steps_back():
    def logarithm(seen):
        x = seen.qpos[-1, 0] + .05
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.log(x) ** 2, {"qpos": np.r_[2 * np.log(x) / x, np.zeros(6)]}

    ours = task([{"function": logarithm}], iterations=30)
    assert pb.optimize(ours)["loss"] < 1e-6
    with pytest.raises(pb.StepError, match="its value is NaN"):
        pb.optimize(task(lambda seen: (np.nan, {})))


@pytest.mark.parametrize("answer, message", [
    (lambda seen: 3., r"expected \(value, cotangents by name\), found 3.0"),
    (lambda seen: (1., {"qpos": np.zeros(8)}), r"cotangent of qpos: expected shape \(31, 7\), or \(7,\) of the last state, found \(8,\)"),
    (lambda seen: (1., {"speed": 1}), "a cotangent of speed, which it does not see; it sees qpos, qvel, sensordata, ctrl"),
    (lambda seen: (1., {"qvel": np.full(7, np.nan)}), r"cotangent of qvel: entry \(0,\) is nan"),
    (lambda seen: (seen.xpos, {}), "a loss sees no 'xpos'; it sees qpos, qvel, sensordata, ctrl")])
def test_answers_that_are_refused(answer, message):
    with pytest.raises((pb.ArgumentError, AttributeError), match=message):
        pb.optimize(task(answer))


@pytest.mark.parametrize("term, message", [
    ({"sees": ["qpso"]}, r"loss\[0\].sees: 'qpso' is no quantity, did you mean 'qpos'"),
    ({"sees": []}, r"loss\[0\].sees: expected a list of quantities"),
    ({"type": "norm"}, "type"),
    ({"at": [.015]}, r"loss\[0\].at: time 0.015 is not a multiple")])
def test_terms_that_are_refused(term, message):
    with pytest.raises(pb.InputError, match=message):
        pb.optimize(task([{"function": rest, **term}]))
    with pytest.raises(pb.InputError, match="gauss-newton needs"):
        pb.optimize(task([{"function": rest}], "gauss-newton"))


def test_odd_tasks_leave_no_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for odd, message in (({"loss": (t for t in [{"function": rest}])}, "expected what JSON can hold, found generator"),
                         ({"steps": rest}, "expected what JSON can hold, found function")):
        with pytest.raises(TypeError, match=message):
            pb.optimize({**task([]), **odd})
    with pytest.raises(pb.ArgumentError, match="functions: expected a dict of functions by name, found list"):
        pb.optimize(task([]), functions=[rest])
    with pytest.raises(pb.ArgumentError, match="functions: expected names, found 3"):
        pb.optimize(task([]), functions={3: rest})
    with pytest.raises(pb.ArgumentError, match="expected a path or a dict, found int"):
        pb.optimize(3)
    assert not list(tmp_path.iterdir())


def test_functions_of_one_name_are_told_apart():
    one, two = (lambda seen, k=k: (k, {}) for k in (1., 2.))
    own = one.__qualname__
    found = pb.optimize(task([{"function": own}, {"function": f"{own} 2"}, {"function": two}]), functions={own: one, f"{own} 2": one})
    assert [t["value"] for t in found["terms"]] == [1, 1, 2]
