"""Servos on rotations: setpoints are the same by whole turns of 2 pi |gear|. Steps against MuJoCo, gradients against differences."""
import mujoco
import numpy as np
import pytest

import inside
import oracle

DYNAMICS = ("none", "integrator", "filter", "filterexact")


def scene(r, dyntype, integrator, site, early=False, limits=""):
    """A ball joint with a servo, by the joint itself or by a site against the world's."""
    gear = ("0 0 0 " if site else "") + " ".join(str(round(g, 4)) for g in r.uniform(-.6, .6, 3))
    on = 'site="tip" refsite="root"' if site else 'joint="ball"'
    return f"""<mujoco><option timestep=".004" integrator="{integrator}"/><worldbody><site name="root"/><body>
<joint name="ball" type="ball" damping=".02"/><geom type="box" size=".1 .2 .15" mass="1"/><site name="tip" euler="5 10 -7"/></body></worldbody>
<actuator><general {on} gear="{gear}" dyntype="{dyntype}" dynprm=".06" actearly="{str(early).lower()}" gainprm="3" biastype="affine" biasprm="0 -3 -.1" {limits}/></actuator></mujoco>"""


def start(r, model):
    x = model.init()
    x[model.slots["qpos"]] = np.array([.9, .2, -.3, .1]) / np.linalg.norm([.9, .2, -.3, .1])
    x[model.slots["qvel"]] = r.standard_normal(3)
    x[model.slots["act"]] = r.uniform(-6, 6, model.na)
    return x


def misfit(parts, d, period, integrator):
    """Of states; where a stage of RK4 crosses half a turn, the setpoint may be another of those that are the same."""
    q, v, act = parts[0] - d.qpos, parts[1] - d.qvel, parts[2] - d.act
    if integrator == "RK4":
        act = act - period * np.round(act / period)
    return max(np.abs(e).max(initial=0) for e in (q, v, act))


@pytest.mark.parametrize("integrator", oracle.INTEGRATORS)
@pytest.mark.parametrize("dyntype", DYNAMICS)
def test_steps_and_gradients(tmp_path, dyntype, integrator):
    path, worst, turned, kept = tmp_path / "m.xml", 0, 0, 0
    for seed in range(8):
        r = np.random.default_rng((seed, 5))
        early = bool(seed & 2) and dyntype != "none"
        path.write_text(scene(r, dyntype, integrator, seed & 1, early, 'ctrlrange="-4 4"' if seed & 4 else ""))
        model, m = inside.Model(str(path)), oracle.load(str(path))
        d, x = mujoco.MjData(m), start(r, model)
        d.qpos[:], d.qvel[:], d.act[:] = model.parts(x)

        for k in range(40):
            u, w = r.uniform(-6, 6, 1), r.standard_normal(model.nt)
            y, _, record = model.step_recorded(x, u)
            d.ctrl[:] = u
            mujoco.mj_step(m, d)
            worst = max(worst, misfit(model.parts(y), d, 2 * np.pi * np.linalg.norm(m.actuator_gear), integrator))
            turned += abs(u[0]) > np.pi * np.linalg.norm(m.actuator_gear)
            if k % 20 == 7:
                kept += check_gradient(model, x, y, record, u, w, r)
            x = y
    print(f"{dyntype} {integrator}: states {worst:.1e}, {turned} controls beyond half a turn, {kept} gradients")
    assert worst < 1e-10 and turned > 100 and kept >= 12


def check_gradient(model, x, y, record, u, w, r):
    """True if differences settle: by the gear, and by everything else that the servo has."""
    way = np.zeros(model.ntheta)
    for name in ("actuator_gear", "actuator_dynprm"):
        v = model.param(way, name)
        v[model.param(model.theta, name) != 0] = r.standard_normal(np.count_nonzero(model.param(model.theta, name)))
    way_x = r.standard_normal(model.nt)
    bar = model.vjp(record, w, ctrl=u)
    exact = bar["theta"] @ way + bar["x"] @ way_x
    pushed = w @ model.jvp(record, way_x, d_theta=way, ctrl=u)[0]
    assert abs(pushed - exact) < 1e-9 * (1 + np.abs(bar["theta"] * way).sum())
    value, error = oracle.quotient(lambda e: np.array([w @ model.difference(y, model.step(model.move(x, way_x, e), u, theta=model.theta + e * way)[0])]))
    if error[0] > 1e-6 * (1 + abs(exact)):
        return False
    assert abs(value[0] - exact) < 1e-6 * (1 + abs(exact)), (value, exact, error)
    return True


def test_poses_before_any_evaluation_are_zero(tmp_path):
    """Of a scratch that has not seen a state, nor one that could be evaluated."""
    (tmp_path / "m.xml").write_text(scene(np.random.default_rng(1), "none", "Euler", True))
    model = inside.Model(str(tmp_path / "m.xml"))
    for _ in range(2):
        assert not model.field("geom_xpos").any() and not model.field("site_xpos").any()
        with pytest.raises(inside.Error):
            model.observe(model.init(), theta=model.theta * np.nan)
    model.observe(model.init())
    assert model.field("geom_xmat").any()
