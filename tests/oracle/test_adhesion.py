"""Adhesion: forces beside MuJoCo's over gaps, cones and many contacts, what holds a body on a wall, refusals, memory budgets; slider-cranks."""
import mujoco
import numpy as np
import pytest

import oracle
import inside


def crawler(gap, more=""):
    return f"""<mujoco><option tolerance="0" iterations="300" timestep="2e-3"/><worldbody><geom name="wall" type="plane" size="4 4 1" euler="0 100 0" condim="4" friction="1 .1 .01"/>
<body name="climber" pos=".11 0 0" euler="0 90 0"><freejoint/><geom type="box" size=".1 .15 .1" gap="{gap}"/>
<body name="foot" pos="0 .2 -.03"><joint axis="1 0 0" stiffness="4" damping=".2"/><geom type="capsule" size=".08" fromto="-.1 0 0 .1 0 0" margin=".003" gap="{gap}"/></body></body></worldbody>
<actuator><adhesion name="grip" body="climber" ctrlrange="0 1" gain="150"/><adhesion body="foot" ctrlrange="0 1" gain="60"/>{more}</actuator>
<sensor><actuatorvel actuator="grip"/></sensor></mujoco>"""


@pytest.mark.parametrize("gap", [0, .02])
@pytest.mark.parametrize("cone", ["pyramidal", "elliptic"])
def test_a_climber_is_mujocos(tmp_path, gap, cone):
    """Step by step along MuJoCo's own path: held, let go, held again."""
    path = tmp_path / "m.xml"
    path.write_text(crawler(gap).replace("<option", f'<option cone="{cone}"'))
    m, ours, counts = mujoco.MjModel.from_xml_path(str(path)), inside.Model(str(path)), set()
    d = mujoco.MjData(m)
    for k in range(160):
        d.ctrl[:] = [.9, .5] if k < 70 or k > 76 else [0, .2]
        mine, sensed = ours.step(ours.state(d.qpos, d.qvel, warmstart=d.qacc), d.ctrl)[:2]
        mujoco.mj_step(m, d)
        counts.add(d.ncon)
        q, v = ours.parts(mine)[:2]
        scale = 1 + np.abs(d.qvel).max()
        assert np.abs(q - d.qpos).max() < 1e-9 * scale and np.abs(v - d.qvel).max() < 1e-7 * scale and np.abs(sensed - d.sensordata).max() < 1e-9 * scale, k
    assert len(counts) > 2


def test_what_holds_on_a_wall(tmp_path):
    """Friction carries the weight while mu times the force is more; in the gap alone nothing does."""
    path, fallen = tmp_path / "m.xml", []
    for force in (5, 40):
        path.write_text(f"""<mujoco><option cone="elliptic" impratio="100"/><worldbody><geom type="box" size=".1 1 1" pos="-.1 0 0"/><body name="b" pos=".0999 0 0"><freejoint/><geom type="box" size=".1 .1 .1" mass="1"/></body></worldbody>
<actuator><adhesion body="b" ctrlrange="0 1" gain="{force}"/></actuator></mujoco>""")
        m = inside.Model(str(path))
        x = m.state([.0999, 0, 0, 1, 0, 0, 0], np.zeros(6))
        for _ in range(250):
            x = m.step(x, [1])[0]
        fallen.append(-m.parts(x)[0][2])
    assert fallen[0] > .3 and abs(fallen[1]) < .01


@pytest.mark.parametrize("method", ["soft", "penalty", "cones"])
def test_gradient_of_a_held_climber(tmp_path, method):
    """Over 20 steps by the start and by theta, against differences, with the same bits for every budget of memory."""
    path = tmp_path / "m.xml"
    path.write_text(crawler(.02))
    m = mujoco.MjModel.from_xml_path(str(path))
    ours = inside.Model(str(path), contact={"method": method})
    x, r, u, steps = ours.state(m.qpos0, np.zeros(m.nv)), np.random.default_rng(0), np.array([.9, .5]), 20
    for _ in range(30):
        x = ours.step(x, u)[0]
    bar, way, motion = r.standard_normal(m.nv), {"actuator_gainprm": 1., "geom_size": 1e-2, "body_mass": 1e-1}, .1 * r.standard_normal(2 * m.nv)
    way = {f: s * r.standard_normal(ours.param(ours.theta, f).shape) for f, s in way.items()}

    def pulled(budget):
        run = inside.Rollout(ours, steps, budget)
        run.forward(x, u)
        return run.vjp(qvel=bar)[:2]

    def end(e):
        theta = ours.theta.copy()
        for f in way:
            ours.param(theta, f)[...] += e * way[f]
        return bar @ ours.parts(inside.Rollout(ours, steps).forward(ours.move(x, motion, e), u, theta))[1]

    (by_x, by_theta), lean = pulled(0), pulled(1 << 14)
    assert (by_x == lean[0]).all() and (by_theta == lean[1]).all()
    value, error = oracle.quotient(lambda e: np.array([end(e)]), (1e-3, 1e-4, 1e-5, 1e-6, 1e-7))
    got = by_x @ motion + sum((ours.param(by_theta, f) * way[f]).sum() for f in way)
    assert error[0] < 1e-6 * (1 + abs(value[0])) and abs(got - value[0]) < 2e-6 * (1 + abs(value[0]))


@pytest.mark.parametrize("actuator,words", [
    ('<adhesion body="absent" ctrlrange="0 1"/>', "absent"), ('<adhesion body="foot" ctrlrange="0 1" gain="-1"/>', "negative"), ('<adhesion body="foot"/>', "ctrlrange"),
    ('<adhesion body="foot" ctrlrange="-1 1"/>', "negative"), ('<general body="foot" biastype="affine"/>', "length or velocity"), ('<motor cranksite="s" slidersite="s"/>', "cranklength"),
    ('<motor cranksite="s" slidersite="s" cranklength="1e200"/>', "square finite"), ('<motor cranksite="s" cranklength="1"/>', "slider"), ('<motor joint="j" cranklength="1"/>', "'cranksite' only"), ('<motor cranksite="s" slidersite="none" cranklength="1"/>', "none")])
def test_what_is_refused(tmp_path, actuator, words):
    path = tmp_path / "m.xml"
    path.write_text(crawler(0, actuator).replace('<body name="foot"', '<site name="s"/><body name="foot"').replace("<joint ", '<joint name="j" '))
    with pytest.raises(inside.Error, match=words):
        inside.Model(str(path))


def test_contact_method_impact_and_events_refuse_it(tmp_path):
    path = tmp_path / "m.xml"
    path.write_text(crawler(0))
    path.write_text(crawler(0).replace('condim="4"', ""))
    flying = inside.Model(str(path), contact={"method": "impact"})
    with pytest.raises(inside.Error, match="adhesion"):
        flying.step(flying.state(flying.fields()["qpos0"].ravel(), np.zeros(7)), np.zeros(2))
    rollout = inside.Rollout(inside.Model(str(path)), 2)
    with pytest.raises(inside.Error, match="adhesion"):
        rollout._kind("event")
