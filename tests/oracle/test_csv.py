"""Recordings in CSV on the command line: controls, initial states and poses by names of columns, as the same numbers in NPY and NPZ files."""
import json
import re
import subprocess

import numpy as np
import pytest

MODEL = """<mujoco><option timestep="0.01"/><worldbody>
<body name="hand" mocap="true"><geom size=".1" contype="0" conaffinity="0"/></body>
<body name="upper"><joint name="shoulder" axis="0 1 0" damping="1"/><geom type="capsule" size=".02" fromto="0 0 0 .3 0 0"/>
<body name="lower" pos=".3 0 0"><joint name="elbow" axis="0 1 0" damping="1"/><geom type="capsule" size=".02" fromto="0 0 0 .3 0 0"/></body></body>
</worldbody><actuator><motor name="m1" joint="shoulder"/><motor name="m2" joint="elbow"/></actuator></mujoco>"""
STEPS = 30


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "arm.xml").write_text(MODEL)
    return tmp_path


def simulate(run, folder, *words):
    run("simulate", folder / "arm.xml", *words, "-o", folder / "out.npz")
    with np.load(folder / "out.npz") as file:
        return dict(file)


def write(path, names, rows, separator=","):
    lines = [separator.join(names)] + [separator.join("" if np.isnan(x) else repr(float(x)) for x in row) for row in rows]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_controls_by_name(run, folder):
    u = np.random.default_rng(1).normal(size=(STEPS, 2))
    np.save(folder / "u.npy", u)
    write(folder / "u.csv", ["m2 [N m]", "other", "control:m1"], np.stack([u[:, 1], u[:, 0] * 7, u[:, 0]], 1))
    write(folder / "t.csv", ["time [s]", "m2", "m1"], np.stack([np.arange(STEPS) * .01, u[:, 1], u[:, 0]], 1), ";")
    expected = simulate(run, folder, "--control", folder / "u.npy")
    for name in "u.csv", "t.csv":
        found = simulate(run, folder, "--control", folder / name)
        assert all(found[k].tobytes() == expected[k].tobytes() for k in ("qpos", "qvel", "control")), name


def test_controls_of_another_rate(run, folder):
    """Each sample is held; steps take means over their time. Columns have samples at times of their own."""
    times = np.sort(np.random.default_rng(2).uniform(0, .3, 40))
    times[0] = 0
    u = np.random.default_rng(3).normal(size=(40, 2))
    u[5:35:3, 0] = np.nan
    u[7:30:2, 1] = np.nan
    write(folder / "u.csv", ["time [ms]", "m1", "m2"], np.column_stack([times * 1000, u]))
    found = simulate(run, folder, "--control", folder / "u.csv", "--steps", 30)["control"]
    fine = (np.arange(30 * 4000) + .5) / 4000 * .01
    for i in range(2):
        there = ~np.isnan(u[:, i])
        held = u[there, i][np.searchsorted(times[there], fine, "right") - 1]
        assert np.allclose(found[:, i], held.reshape(30, -1).mean(1), atol=4e-3)


def test_states_by_name(run, folder):
    log = write(folder / "log.csv", ["time", "elbow [deg]", "qvel:shoulder", "temperature"], [[0, 10, 1, 3], [.5, -20, 2, np.nan], [1, 30, 3, 5]])
    last, second = simulate(run, folder, "--init", log, "--steps", 1), simulate(run, folder, "--init", log, "--init-row", 1, "--steps", 1)
    assert np.array_equal(last["qpos"][0], [0, np.pi / 6]) and np.array_equal(last["qvel"][0], [3, 0]) and last["time"][0] == 1
    assert np.array_equal(second["qpos"][0], [0, np.deg2rad(-20)]) and np.array_equal(second["qvel"][0], [2, 0])


def test_poses_by_name(run, folder):
    path = np.random.default_rng(4).normal(size=(STEPS, 3))
    np.savez(folder / "path.npz", mocap_pos=path[:, None])
    write(folder / "path.csv", ["hand.x [mm]", "hand.y", "hand.z"], path * [1000, 1, 1])
    expected, found = (simulate(run, folder, "--mocap", folder / name) for name in ("path.npz", "path.csv"))
    assert np.allclose(found["mocap_pos"], expected["mocap_pos"], rtol=1e-15) and found["mocap_pos"].shape == (STEPS, 1, 3)


def test_a_log_is_seen(run, folder):
    """A page of the recorded motion: that of the trajectory with the same rows."""
    angle = np.linspace(0, 1, 20)
    log = write(folder / "log.csv", ["time", "elbow [deg]", "other"], np.column_stack([angle, np.rad2deg(angle), angle]))
    np.savez(folder / "log.npz", time=angle, qpos=np.column_stack([0 * angle, np.deg2rad(np.rad2deg(angle))]))
    run("view", folder / "arm.xml", log, "-o", folder / "log.html")
    run("view", folder / "arm.xml", folder / "log.npz", "-o", folder / "npz.html")
    assert (folder / "log.html").read_text().replace("log.csv", "log.npz") == (folder / "npz.html").read_text()


TASK = {"model": "arm.xml", "variables": [{"parameter": "dof_damping:elbow", "start": 0.5, "lower": 0.01}], "steps": STEPS,
        "optimizer": {"method": "gauss-newton", "iterations": 10}}


def solve(run, folder, name, task):
    (folder / f"{name}.json").write_text(json.dumps({**TASK, **task}))
    run("optimize", folder / f"{name}.json", "-o", folder / f"{name}.result.json", "-q")
    return json.loads((folder / f"{name}.result.json").read_text())


def test_a_task_with_logs(run, folder):
    """Controls, start and targets by names of columns: the task of the same arrays, to the last bit; the truth is found."""
    u = np.random.default_rng(5).normal(size=(STEPS, 2))
    np.save(folder / "u.npy", u)
    start = write(folder / "start.csv", ["shoulder", "elbow"], [[.3, -.2]])
    truth = simulate(run, folder, "--control", folder / "u.npy", "--init", start)
    write(folder / "u.csv", ["m2", "m1"], u[:, ::-1])
    names = ["time [s]", "elbow [rad]", "ignored", "qvel:shoulder", "other"]
    write(folder / "log.csv", names, np.column_stack([truth["time"], truth["qpos"][:, 1], truth["time"] * np.nan, truth["qvel"][:, 0], truth["time"] ** 2]))
    np.savez(folder / "log.npz", time=truth["time"], qpos=truth["qpos"], qvel=truth["qvel"])
    of = lambda kind, log: {"controls": {"file": f"u.{kind}"}, "init": {"qpos": [.3, -.2]} if log == "log.npz" else {"file": "start.csv"},
                            "loss": [{"qpos": "elbow", "target": {"file": log}}, {"qvel": "shoulder", "target": {"file": log}}]}
    arrays, columns = solve(run, folder, "arrays", of("npy", "log.npz")), solve(run, folder, "columns", of("csv", "log.csv"))
    assert arrays["loss"] == columns["loss"] and arrays["variables"] == columns["variables"]
    assert abs(columns["variables"][0]["value"][0] - 1) < 1e-6


def test_a_delay_of_logged_controls(run, folder):
    """Controls of 55 Hz that act 13.7 ms late at steps of 10 ms: the delay is found from nothing, beside a damping."""
    times = np.arange(20) / 55
    u = np.random.default_rng(6).normal(size=(20, 2))
    write(folder / "u.csv", ["t [ms]", "m1", "m2"], np.column_stack([times * 1000, u]))
    task = {"controls": {"file": "u.csv", "delay": 0.0137}, "loss": [{"qvel": "elbow"}]}
    (folder / "truth.json").write_text(json.dumps({**TASK, **task, "variables": [{"parameter": "dof_damping:elbow"}]}))
    run("simulate", folder / "truth.json", "-o", folder / "truth.npz")
    with np.load(folder / "truth.npz") as file:
        truth = dict(file)
    write(folder / "log.csv", ["time", "qvel:elbow"], np.column_stack([truth["time"], truth["qvel"][:, 1]])[::3])
    found = solve(run, folder, "fit", {"controls": {"file": "u.csv"}, "loss": [{"qvel": "elbow", "target": {"file": "log.csv"}}], "variables": [
        {"delay": "controls", "upper": 0.05}, *TASK["variables"]], "optimizer": {"method": "gauss-newton", "iterations": 50}})
    assert [v["name"] for v in found["variables"]] == ["delay", "dof_damping:elbow"]
    assert np.allclose([v["value"][0] for v in found["variables"]], [0.0137, 1], atol=1e-6), found["variables"]


REFUSED = {
    "text": ("--control", "m1,m2\n1,2\n3,fast\n", r"u\.csv:3: column 2 'm2': expected a number, found 'fast'"),
    "another robot": ("--control", "time,j1,j2\n0,1,2\n",
                      r"--control .*u\.csv: no column is the control of actuator 'm1': looked for 'control:m1'.* time, j1, j2"),
    "no state": ("--init", "time,j1\n0,1\n", r"u\.csv: no column is a position, velocity or activation of this model.* time, j1"),
    "units": ("--init", "elbow [mm]\n1\n", r"u\.csv:1: column 1 'elbow': units do not fit: the column is in m, qpos of joint 'elbow' in rad"),
    "times": ("--control", "time,m1,m2\n0,1,2\n0.1,1,2\n0.05,1,2\n", r"u\.csv:4: column 1 'time': 0\.05 s is not later than the row before it"),
    "twice": ("--control", "m1,m2,m1\n1,2,3\n", r"u\.csv:1: column 3: the name 'm1' is that of column 1 already"),
    "missing": ("--control", "m1,m2\n1,\n", r"u\.csv:2: column 2 'm2': a missing sample"),
    "a row that is not there": ("--init", "elbow\n1\n", r"--init-row: .*"),
    "too short": ("--control", "time,m1,m2\n0,1,2\n0.01,2,3\n", r"--control .*u\.csv: the controls end at 0\.01 s; the trajectory has 99 steps"),
    "rows of poses": ("--mocap", "time,hand.x,hand.y,hand.z\n0,1,2,3\n0.02,1,2,3\n", r"u\.csv:3: column 1 'time': 0\.02 s; poses have a row for each step"),
    "forces": ("--qfrc", "a,b\n1,2\n", r"--qfrc .*u\.csv: is a CSV, expected NPY or NPZ"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(pullback, folder, name):
    option, text, message = REFUSED[name]
    (folder / "u.csv").write_text(text)
    words = {"too short": ["--steps", "99"], "a row that is not there": ["--init-row", "5"]}.get(name, [])
    done = subprocess.run([pullback, "simulate", folder / "arm.xml", option, folder / "u.csv", *words, "-o", folder / "out.npz"],
                          capture_output=True, text=True)
    assert done.returncode in (2, 3) and re.search(message, done.stderr), done.stderr
    assert not (folder / "out.npz").exists()
