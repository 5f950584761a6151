"""Sweeps against slip (noslip_iterations): the same as MuJoCo's, step by step, and their way back."""
import itertools

import numpy as np
import pytest

import mujoco as mj
import oracle
import inside

# a slope with a pile, a sphere, arms and a cart with dry friction of joints and of a tendon with armature: islands of several kinds
SCENE = """<mujoco><option noslip_iterations="{sweeps}" noslip_tolerance="{tolerance}" cone="{cone}" integrator="{integrator}"/><worldbody>
<geom type="plane" size="3 3 .1" euler="8 5 0" friction=".6 .02 .003" condim="{condim}"/>
<body pos="0 0 .12"><freejoint/><geom type="box" size=".1 .1 .1" friction=".5 .01 .002" condim="{condim}"/></body>
<body pos=".02 .01 .33"><freejoint/><geom type="box" size=".1 .08 .1" friction=".4" condim="{condim}"/><site name="top" pos="0 0 .1"/></body>
<body pos="1 .5 .1"><freejoint/><geom type="sphere" size=".1" friction=".5 .1 .01" condim="{condim}"/></body>
<body name="arm" pos="-1 0 .5"><joint type="hinge" axis="0 1 0" frictionloss=".7" damping=".1"/><site name="wrist"/>
<geom type="capsule" fromto="0 0 0 .5 0 0" size=".05" condim="{condim}"/><body pos=".5 0 0"><joint name="e" type="hinge" axis="0 1 0" frictionloss=".2"
range="-60 60"/><geom name="tip" type="capsule" fromto="0 0 0 .3 0 -.2" size=".05" condim="{condim}"/></body></body>
<body pos="0 1 .3"><joint name="cart" type="slide" axis="1 0 0" frictionloss=".3"/><joint name="rock" type="hinge" axis="0 1 0" frictionloss=".1"/>
<geom type="box" size=".1 .1 .1"/><geom type="sphere" pos="0 0 -.2" size=".1" condim="{condim}"/></body></worldbody>
<tendon><fixed name="t" frictionloss=".2" armature=".05"><joint joint="e" coef="1.5"/></fixed></tendon>
<actuator><motor joint="cart"/><position joint="e" kp="3" forcerange="-2 2"/></actuator>
<sensor><accelerometer site="top"/><force site="wrist"/><torque site="wrist"/><actuatorfrc actuator="t"/></sensor></mujoco>"""
SCENE = SCENE.replace('<actuatorfrc actuator="t"/>', '<framelinacc objtype="geom" objname="tip"/>')
ALL = list(itertools.product(("pyramidal", "elliptic"), (3, 4, 6), ((1, "Euler"), (3, "implicitfast"), (5, "RK4"), (20, "Euler"))))
NAMES = [f"{cone}-{condim}-{sweeps}-{integrator}" for cone, condim, (sweeps, integrator) in ALL]


def write(folder, cone, condim, sweeps, integrator, tolerance=1e-6):
    path = folder / "scene.xml"
    path.write_text(SCENE.format(cone=cone, condim=condim, sweeps=sweeps, integrator=integrator, tolerance=tolerance))
    return str(path)


def apart(path, options, steps=100):
    """(largest difference of positions and velocities in one step, in all)."""
    m, model, rng = oracle.load(path, options), inside.Model(path, options=options), np.random.default_rng(1)
    d = mj.MjData(m)
    d.qvel[:] = 0.3 * rng.normal(size=m.nv)
    x = model.state(d.qpos, d.qvel)
    one = whole = 0
    for k in range(steps):
        d.ctrl[:] = u = 0.5 * rng.normal(size=m.nu)
        y, _ = model.step(model.state(d.qpos, d.qvel), u)
        x, _ = model.step(x, u)
        mj.mj_step(m, d)
        far = lambda z: max(np.abs(a - b).max() for a, b in zip(model.parts(z)[:2], (d.qpos, d.qvel)))
        one, whole = max(one, far(y)), max(whole, far(x))
    return one, whole


@pytest.mark.parametrize("cone, condim, how", ALL, ids=NAMES)
def test_steps_are_mujocos(tmp_path, cone, condim, how):
    one, whole = apart(write(tmp_path, cone, condim, *how), dict(integrator=how[1], cone=cone))
    assert one < 1e-8 and whole < 1e-6, (one, whole)


def test_islands_end_by_themselves_or_together(tmp_path):
    path = write(tmp_path, "elliptic", 3, 20, "Euler")
    assert max(apart(path, dict(cone="elliptic", island="disable"), 60)) < 1e-8
    assert max(apart(write(tmp_path, "pyramidal", 4, 20, "Euler", tolerance=1e-2), {}, 60)) < 1e-8


def test_without_sweeps_it_is_another_motion(tmp_path):
    """What is compared here is not what it would be without."""
    ends = []
    for sweeps in (0, 3, 20):
        model = inside.Model(write(tmp_path, "elliptic", 3, sweeps, "Euler", tolerance=0))
        x = model.init()
        for k in range(200):
            x, _ = model.step(x, np.zeros(2))
        ends.append(x)
    assert np.abs(ends[0] - ends[1]).max() > 1e-5 and np.abs(ends[1] - ends[2]).max() > 1e-12


# ---- derivatives ------------------------------------------------------------------------------------------------------------
def directions(model, rng):
    theta = 0.1 * np.abs(model.theta) * rng.normal(size=model.ntheta)
    return {"x": rng.normal(size=model.nt), "theta": theta, "qfrc": rng.normal(size=model.nv), "ctrl": rng.normal(size=model.nu)}


@pytest.mark.parametrize("cone, condim, how", ALL, ids=NAMES)
def test_way_back(tmp_path, cone, condim, how):
    """The pullback of a step with sensors against the forward derivative, and against Richardson differences."""
    model, rng = inside.Model(write(tmp_path, cone, condim, *how)), np.random.default_rng(5)
    x, u, away = model.init(), 0.5 * rng.normal(size=model.nu), []
    x[model.slots["qvel"]] = 0.3 * rng.normal(size=model.nv)
    for k in range(25):
        x, _ = model.step(x, u)

    y, s, record = model.step_recorded(x, u)
    next_bar, sensor_bar = rng.normal(size=model.nt), 1e-3 * rng.normal(size=model.nsensordata)
    bar = model.vjp(record, next_bar=next_bar, sensordata=sensor_bar, ctrl=u)
    for kind, v in directions(model, rng).items():
        by = bar[kind] @ v
        name = "x" if kind == "x" else "d_" + kind
        t = model.jvp(record, ctrl=u, **{name: v})
        assert next_bar @ t[0] + sensor_bar @ t[1] == pytest.approx(by, rel=1e-10), kind

        def moved(e):
            start = model.move(x, v, e) if kind == "x" else x
            given = dict(theta=model.theta + e * v) if kind == "theta" else {}
            given.update(qfrc=e * v) if kind == "qfrc" else None
            end, seen = model.step(start, u + e * v if kind == "ctrl" else u, **given)
            return next_bar @ model.difference(y, end) + sensor_bar @ (seen - s)

        slope = lambda h: (moved(h) - moved(-h)) / (2 * h)
        away.append(min(abs((4 * slope(h / 2) - slope(h)) / 3 - by) / abs(by) for h in (1e-4, 1e-5, 1e-6)))
    assert sorted(away)[-2] < 1e-6, away  # one of four may meet a kink
