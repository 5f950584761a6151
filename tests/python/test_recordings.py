"""Tasks whose recordings are CSV, from Python: the same answers as with arrays, a delay of controls, errors with line and column."""
import numpy as np
import pytest

import pullback as pb

ARM = """<mujoco><option timestep="0.01"/><worldbody><body name="arm"><joint name="elbow" axis="0 1 0" damping="0.7"/>
<geom type="capsule" size=".02" fromto="0 0 0 .3 0 0"/></body></worldbody><actuator><motor name="motor" joint="elbow"/></actuator></mujoco>"""
STEPS = 40


@pytest.fixture
def log(tmp_path):
    """A run under controls that act 8 ms late, as a log: angles in degrees, controls in a column of their own, a row a step."""
    u = np.random.default_rng(1).normal(size=STEPS + 1)
    late = np.concatenate([[u[0]], .8 * u[:-2] + .2 * u[1:-1]])
    model = pb.loads(ARM)
    r = model.rollout(model.init(), late[:, None])
    rows = [f"{10 * k},{float(np.rad2deg(q))!r},{float(x)!r}" for k, (q, x) in enumerate(zip(r.qpos[:, 0], u))]
    (tmp_path / "log.csv").write_text("\n".join(["time [ms],elbow [deg],motor", *rows]) + "\n")
    return tmp_path


def task(**more):
    return {"model": ARM, "steps": STEPS, "controls": {"file": "log.csv"}, "loss": [{"qpos": "elbow", "target": {"file": "log.csv"}}],
            "optimizer": {"method": "gauss-newton", "iterations": 50}, **more}


def test_a_delay_and_a_damping(log, monkeypatch):
    monkeypatch.chdir(log)
    found = pb.optimize(task(variables=[{"delay": "controls", "upper": 0.05}, {"parameter": "dof_damping:elbow", "start": 0.2, "lower": 0}]))
    assert np.allclose([v["value"][0] for v in found["variables"]], [0.008, 0.7], atol=1e-6)


def test_another_robot(log, monkeypatch):
    monkeypatch.chdir(log)
    (log / "log.csv").write_text((log / "log.csv").read_text().replace("elbow", "hip"))
    with pytest.raises(pb.InputError, match=r"log\.csv: no column is the qpos of joint 'elbow'.*time, hip, motor"):
        pb.optimize(task(variables=[{"parameter": "dof_damping:elbow"}]))


def test_a_row_is_named(log, monkeypatch):
    monkeypatch.chdir(log)
    lines = (log / "log.csv").read_text().split("\n")
    (log / "log.csv").write_text("\n".join([*lines[:3], "30,1", *lines[4:]]))
    with pytest.raises(pb.InputError, match=r"log\.csv:4: 2 fields, the header has 3"):
        pb.optimize(task(variables=[{"parameter": "dof_damping:elbow"}]))


def test_rows_beyond_the_run(log, monkeypatch):
    """An error that says how they are left out, and without an effect where "start" does so."""
    monkeypatch.chdir(log)
    told = {"variables": [{"parameter": "dof_damping:elbow"}], "optimizer": {"method": "gauss-newton", "iterations": 0}}
    with pytest.raises(pb.InputError, match=r'target: time 0\.4 is outside of the trajectory \(0 to 0\.3\); with "start"'):
        pb.optimize(task(steps=30, **told))
    short = pb.optimize(task(steps=30, loss=[{"qpos": "elbow", "target": {"file": "log.csv", "start": 0}}], **told))
    assert short["terms"][0]["samples"] == 31
