"""Mistakes and what is said to them: the place, the reason, what was probably meant."""
import json

import numpy as np
import pytest

MODEL = """<mujoco><worldbody><body name="torso"><freejoint name="root"/><geom name="foot" size=".1"/></body></worldbody>
  <sensor><framepos name="height" objtype="body" objname="torso"/></sensor></mujoco>"""


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "robot.xml"
    path.write_text(MODEL)
    np.savez(tmp_path / "recording.npz", time=np.zeros(3), sensordata=np.zeros((3, 3)))
    return path


@pytest.mark.parametrize("code, words, said", [
    (2, "simulate M -o run.csv", "'simulate' writes .npz files"),
    (2, "gradient M --cotangent c.npz -o g.npy", "'gradient' writes .npz files"),
    (2, "view M run.npz -o run.json", "'view' writes .html files"),
    (2, "simulate M --duration 1 -o run.npz", "--steps N is a duration"),
    (2, "check M --steps 5", "--horizon N says how many"),
    (2, "simulate M --contact method=hard -o run.npz", "there are soft, lcp, cones, sweeps, impact, penalty"),
    (3, "simulate M --option integrator=implicit -o run.npz", "there are Euler, RK4, implicitfast"),
    (2, "simulate M --option foo=1 -o run.npz", "there are integrator, cone"),
    (2, "simulate M --param friction:foot=1 -o run.npz", "did you mean 'geom_friction'?"),
    (2, "gradient M --cotangent c.npz --wrt ctrl -o g.npz", "did you mean 'control'?"),
    (2, "gradient M --cotangent c.npz --wrt mass -o g.npz", "did you mean 'body_mass'?"),
    (3, "simulate M --init recording.npz -o run.npz", "recording.npz: holds no state"),
    (3, "optimize robot.xml", "a task file in JSON"),
])
def test_command_lines(run, tmp_path, model, code, words, said):
    assert said in run(*words.replace("M", "robot.xml", 1).split(), cwd=tmp_path, code=code).stderr


@pytest.mark.parametrize("text, said", [
    ("<mujoco><option timestep='0'/></mujoco>", "wrong.xml: timestep is 0"),
    ("<mujoco><option timestep='-1'/></mujoco>", "wrong.xml: timestep is -1"),
    ("<mujoco><worldbody><geom size='.1' friction='-1'/></worldbody></mujoco>", "wrong.xml: geom_friction"),
    ("<mujoco><worldbody><replicate count='100000'><replicate count='100000'><geom size='.1'/></replicate></replicate></worldbody></mujoco>", "wrong.xml: "),
    ("<robot name='arm'/>", "wrong.xml:1:1: robot 'arm': has no links"),
])
def test_mistakes_in_models_name_the_file(run, tmp_path, text, said):
    (tmp_path / "wrong.xml").write_text(text)
    for command in ("info",), ("simulate", "-o", "run.npz"):
        assert said in run(command[0], "wrong.xml", *command[1:], cwd=tmp_path, code=3).stderr


def test_a_folder_is_no_model(run, tmp_path):
    assert "expected a file, found a folder" in run("info", tmp_path, code=3).stderr


@pytest.mark.parametrize("change, said", [
    ({"variables": []}, "the list of variables is empty"),
    ({"loss": [{"qpos": True, "at": "end"}]}, 'did you mean "final"?'),
    ({"loss": [{"sensor": "speed", "target": [0, 0, 0]}]}, "there are height"),
    ({"loss": [{"qpos": True, "at": {"from": 0.0071, "to": 0.02}}]}, "the nearest is 0.008"),
])
def test_mistakes_in_tasks(run, tmp_path, model, change, said):
    task = {"model": "robot.xml", "steps": 10, "variables": [{"state": "qvel"}], "loss": [{"qvel": True}], "optimizer": {"iterations": 0}}
    (tmp_path / "task.json").write_text(json.dumps(task | change))
    assert said in run("optimize", tmp_path / "task.json", cwd=tmp_path, code=3).stderr


def test_elements_have_kinds(run, tmp_path):
    task = {"steps": 2, "deformables": {"scheme": "implicit_euler", "bodies": [
        {"name": "toy", "mesh": {"box": {"size": [1, 1, 1], "cells": [1, 1, 1]}}, "mass": 1,
         "energies": [{"energy": "neo_hookean", "on": "tets", "parameters": {"young": 1e5, "poisson": 0.4}}]}]}}
    (tmp_path / "toy.json").write_text(json.dumps(task))
    assert "tetrahedra, triangles, hinges" in run("simulate", tmp_path / "toy.json", "-o", tmp_path / "r.npz", code=3).stderr


def test_barriers_are_no_kinks(run, tmp_path):
    task = {"steps": 20, "options": {"timestep": 0.01}, "deformables": {
        "scheme": "implicit_euler", "contact": {"distance": 0.01, "stiffness": 1e3, "planes": [{"name": "floor", "normal": [0, 0, 1]}]},
        "bodies": [{"name": "toy", "mesh": {"box": {"size": [.2, .2, .2], "cells": [1, 1, 1]}}, "pos": [0, 0, 0.02], "mass": 1,
                    "energies": [{"energy": "neo_hookean", "parameters": {"young": 1e5, "poisson": 0.4}}]}]}}
    (tmp_path / "toy.json").write_text(json.dumps(task))
    text = run("check", tmp_path / "toy.json").stdout
    assert "contact onset" not in text and "mode event" not in text
