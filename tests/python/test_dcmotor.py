"""DC motors, LuGre's friction: random attributes against MuJoCo, closed forms, slopes where users stand, what is refused."""
import mujoco
import numpy as np
import pytest

import pullback as pb

HEAD = """<mujoco><option timestep="0.002" integrator="{integrator}" gravity="0 0 {gravity}"/>
<default><default class="fit">{default}</default></default>
<worldbody><body><joint name="j" axis="0 1 0" damping=".02"/>
<geom type="capsule" size=".03" fromto="0 0 0 0 0 -.3" mass="1"/>
<body pos="0 0 -.3"><joint name="k" axis="0 1 0"/><geom type="capsule" size=".02" fromto="0 0 0 .2 0 0"/></body></body></worldbody>
<actuator>{actuators}</actuator></mujoco>"""
FRICTION = """<general name="f" joint="j" dyntype="dcmotor" gaintype="dcmotor" biastype="dcmotor" actearly="true" gainprm="1 0"
dynprm="0 0 0 0 0 {stiffness} {damping}" biasprm="0 0 0 {coulomb} {static} {stribeck}"/>"""


def model(tmp_path, actuators, integrator="Euler", default="", gravity=-9.81):
    path = tmp_path / "motor.xml"
    path.write_text(HEAD.format(integrator=integrator, actuators=actuators, default=default, gravity=gravity))
    return path


def attributes(r):
    """A motor at random: each group of numbers may be there."""
    number = lambda low, high: f"{r.uniform(low, high):.4g}"
    ways = ['motorconst="{a}" resistance="{b}"', 'motorconst="{a} {c}" resistance="{b}"', 'nominal="{v} {t} {w}"',
            'nominal="{v} 0 {w}" resistance="{b}"', 'nominal="{v} {t} {w}" damping="{d}"', 'nominal="{v} 0 {w}" resistance="{b}" damping="{d}"']
    words = [r.choice(ways).format(a=number(.2, .6), b=number(.5, 3), c=number(.1, .5), v=number(6, 24), t=number(.5, 3), w=number(10, 80),
                                   d=number(1e-4, 1e-2))]
    more = {"inductance": [f"{number(.001, .05)} 0", f"0 {number(.001, .05)}", f"{number(.001, .05)} {number(.001, .05)}"],
            "thermal": [f"{number(.5, 3)} {number(.05, 1)} 0 {number(0, .02)} 25 {number(10, 40)}", f"{number(.5, 3)} 0 {number(.1, 2)} .004 20 25",
                        f"0 {number(.05, 1)} {number(.1, 2)} .004 20 25"],
            "lugre": [f"{number(5, 60)} {number(0, .2)} {number(.05, .5)} {number(.1, .8)} {number(.02, .5)}"],
            "cogging": [f"{number(.01, .3)} {r.integers(1, 9)} {number(-3, 3)}"],
            "saturation": [f"{number(.1, 2)} 0 0", f"0 {number(1, 6)} 0", f"{number(.1, 2)} {number(1, 6)} {number(20, 400)}"],
            "gear": [number(-2, 2)], "ctrlrange": [f"-{number(2, 12)} {number(2, 12)}"]}
    words += [f'{name}="{r.choice(values)}"' for name, values in more.items() if r.random() < .5]
    return " ".join(words)


@pytest.mark.parametrize("integrator", ["Euler", "implicitfast"])
def test_random_motors_are_mujocos(tmp_path, integrator):
    """Numbers, states and forces to 1e-12 over 60 steps; half of what a motor is stands in a class."""
    worst, states = 0, set()
    for seed in range(40):
        r = np.random.default_rng(seed)
        default = "".join(f"<dcmotor {attributes(r)}/>" for _ in range(seed % 2))
        motors = "".join(f'<dcmotor joint="{joint}" {attributes(r)}/>' for joint in "jk")
        motors += f'<dcmotor class="fit" joint="k" {"" if default else attributes(r)}/>'
        path = model(tmp_path, motors, integrator, default)
        m, ours = mujoco.MjModel.from_xml_path(str(path)), pb.load(path)
        for name in ("actuator_dynprm", "actuator_gainprm", "actuator_biasprm", "actuator_forcerange"):
            np.testing.assert_allclose(np.ravel(ours.params[name]), np.ravel(getattr(m, name)), rtol=1e-14, err_msg=motors)
        d, ctrl = mujoco.MjData(m), 6 * r.standard_normal((60, m.nu))
        d.qvel[:] = r.standard_normal(2)
        states |= set(m.actuator_actnum)
        run = ours.rollout(pb.State.from_mujoco(ours, d), ctrl)
        for k in range(60):
            d.ctrl[:] = ctrl[k]
            mujoco.mj_step(m, d)
            got, want = np.concatenate([run.qpos[k + 1], run.qvel[k + 1], run.act[k + 1]]), np.concatenate([d.qpos, d.qvel, d.act])
            worst = max(worst, np.max(np.abs(got - want) / np.maximum(1, np.abs(want))))
    print(f"{integrator}: {worst:.1e}")
    assert worst < 1e-12 and states == {0, 1, 2, 3}


@pytest.mark.parametrize("change", [
    "", 'inductance="0"', 'inductance="0 .3"', 'inductance=".3"', 'saturation="0"', 'saturation="0 0 3"', 'saturation="0 2"', 'saturation="-1"',
    'saturation="1 -1 -1"', 'lugre="5"', 'lugre="0"', 'cogging=".5 7"', 'thermal="2"', 'thermal="2 0 4"', 'motorconst="4"', 'motorconst="0 4"',
    'nominal="12 1 30"', 'nominal="12"'])
def test_an_element_changes_a_part_of_its_class(tmp_path, change):
    default = ('<dcmotor motorconst="2 3" resistance="1.5" saturation="5 6 7" inductance=".1 .2" lugre="10 1 .2 .3 .4" cogging=".1 2 3"'
               ' thermal="1 2 3 .1 25 26"/>')
    path = model(tmp_path, f'<dcmotor class="fit" joint="j" {change}/>', default=default)
    m, ours = mujoco.MjModel.from_xml_path(str(path)), pb.load(path)
    for name in ("actuator_dynprm", "actuator_gainprm", "actuator_biasprm", "actuator_forcerange"):
        np.testing.assert_allclose(np.ravel(ours.params[name]), np.ravel(getattr(m, name)), rtol=1e-14)
    d = mujoco.MjData(m)
    d.ctrl[:] = 50
    mujoco.mj_step(m, d)
    s = ours.step(ours.init(), [50.])
    np.testing.assert_allclose(np.concatenate([s.qpos, s.qvel, s.act]), np.concatenate([d.qpos, d.qvel, d.act]), rtol=1e-12, atol=1e-15)


def test_friction_before_and_while_it_slips(tmp_path):
    """A torque below the static force deflects bristles by torque / stiffness; at a steady speed the force is g(speed), exactly."""
    numbers = dict(stiffness=50, damping=1, coulomb=.3, static=.5, stribeck=.2)
    ours = pb.load(model(tmp_path, '<motor joint="j"/>' + FRICTION.format(**numbers), "implicitfast", gravity=0))
    still = ours.rollout(ours.init(), np.tile([.2, 0], (2000, 1)))
    np.testing.assert_allclose(still.act[-1, 0], .2 / 50, rtol=1e-6)  # of the way a part is slipped
    assert .2 / 50 < still.qpos[-1, 0] < .01 and abs(still.qvel[-1, 0]) < 1e-7
    slips = ours.rollout(ours.init(), np.tile([.55, 0], (300, 1)))
    assert abs(slips.qvel[-1, 0]) > 1

    # Led at a speed: the bristles come to rest at z = g / stiffness.
    for v in (.05, .1, -.4, 2):
        led, s = [0.], ours.init()
        for _ in range(3000):
            s.qvel[:] = [v, 0]
            s = ours.step(s, np.zeros(2))
            s.qpos[:] = 0
            led.append(s.act[0])
        np.testing.assert_allclose(led[-1], np.sign(v) * (.3 + .2 * np.exp(-(v / .2)**2)) / 50, rtol=1e-9)


@pytest.mark.parametrize("integrator", ["Euler", "implicitfast"])
@pytest.mark.parametrize("case", ["at rest", "stretched at rest", "saturated", "rate held", "slow", "fast"])
def test_slopes_where_users_stand(tmp_path, integrator, case):
    """Gradients by the start, controls and all numbers of a motor beside differences, one-sided where there is a kink."""
    motor = 'joint="j" motorconst=".4" resistance="2" thermal="2 .1 0 .02 25 30" lugre="30 .4 .2 .35 .3" cogging=".1 5 .3"'
    more = {"saturated": 'saturation=".3"', "rate held": 'inductance=".02 0" saturation="0 0 30"', "fast": 'inductance=".02 0"'}.get(case, "")
    ours = pb.load(model(tmp_path, f"<dcmotor {motor} {more}/>", integrator))
    s, ctrl = ours.init(), np.full((4, 1), {"saturated": 12., "rate held": 12.}.get(case, 1.5))
    s.qvel[0] = {"slow": 1e-3, "fast": 5., "saturated": .4, "rate held": .4}.get(case, 0)
    if case != "at rest":
        s.act[:] = .002 * np.arange(1, ours.na + 1)
    if case == "stretched at rest":
        ctrl[:] = 0
    run = ours.rollout(s, ctrl, constants="keep")
    weight = np.random.default_rng(3).standard_normal(ours.nq + ours.nv + ours.na)

    def loss(state=None, controls=None, **params):
        last = ours.rollout(s if state is None else state, ctrl if controls is None else controls, params=params, constants="keep").final
        return weight @ np.concatenate([last.qpos, last.qvel, last.act])

    g = run.vjp(qpos=weight[:ours.nq], qvel=weight[ours.nq:ours.nq + ours.nv], act=weight[ours.nq + ours.nv:],
                wrt=["ctrl", "actuator_gainprm", "actuator_dynprm", "actuator_biasprm", "actuator_forcerange"])
    ways = {}
    for name in ("actuator_gainprm", "actuator_dynprm", "actuator_biasprm", "actuator_forcerange"):
        value = np.array(ours.params[name], float)
        for k in range(value.size):  # zeros, too: what is not there is not switched on
            e = np.zeros_like(value)
            e.ravel()[k] = abs(value.ravel()[k]) or .01
            ways[f"{name}:{k}"] = (np.ravel(g.params[name])[k] * e.ravel()[k], lambda t, name=name, value=value, e=e: loss(**{name: value + t * e}))
    for name in ("qpos", "qvel", "act"):
        for k in range(getattr(s, name).size):
            def at(t, name=name, k=k):
                moved = s.copy()
                getattr(moved, name)[k] += t
                return loss(moved)
            ways[f"{name}:{k}"] = (getattr(g, name)[k], at)
    ways["ctrl"] = (g.ctrl.sum(), lambda t: loss(controls=ctrl + t))
    for name, (slope, at) in ways.items():
        e = 1e-6
        right, left = ((at(2 * sign * e) - 4 * at(sign * e) + 3 * at(0)) / (-2 * sign * e) for sign in (1, -1))
        low, high = min(left, right), max(left, right)
        assert low - 1e-6 - 1e-6 * abs(low) <= slope <= high + 1e-6 + 1e-6 * abs(high), (name, slope, left, right)
        if abs(right - left) < 1e-6 * (1 + abs(slope)):
            assert abs(slope - (left + right) / 2) <= 2e-6 * (1 + abs(slope)), (name, slope, left, right)


def test_friction_is_found_from_a_log(tmp_path):
    """Five numbers of LuGre's friction, from positions without noise."""
    true = dict(stiffness=30, damping=.3, coulomb=.2, static=.35, stribeck=.3)
    guess = dict(stiffness=20, damping=.2, coulomb=.15, static=.3, stribeck=.2)
    t = np.arange(800) * .002
    torque = .6 * np.sin(2 * np.pi * 1.3 * t) + .2 * np.sin(2 * np.pi * 6 * t)
    ctrl = np.column_stack([torque, np.zeros_like(t)])
    ours = pb.load(model(tmp_path, '<motor name="m" joint="j"/>' + FRICTION.format(**true), "implicitfast"))
    run = ours.rollout(ours.init(), ctrl)
    log = {"time": run.time, "j": run.qpos[:, 0], "k": run.qpos[:, 1], "control:m": np.append(torque, 0), "control:f": np.zeros(len(run.time))}
    path = model(tmp_path, '<motor name="m" joint="j"/>' + FRICTION.format(**guess), "implicitfast")
    at = {"stiffness": "dynprm:f:5", "damping": "dynprm:f:6", "coulomb": "biasprm:f:3", "static": "biasprm:f:4", "stribeck": "biasprm:f:5"}
    fit = pb.identify(path, log, [{"name": name, "parameter": f"actuator_{field}", "lower": 1e-3} for name, field in at.items()])
    for name, value in true.items():
        assert abs(fit.values[name] - value) < 1e-4 * value, (name, fit.values[name])


@pytest.mark.parametrize("actuator, words", [
    ('<dcmotor joint="j" motorconst=".1" resistance="1" input="pos"/>', "input"),
    ('<dcmotor joint="j" motorconst=".1" resistance="1" controller="1 0 0"/>', "controller"),
    ('<dcmotor joint="j" resistance="1"/>', "motor constant is not positive"),
    ('<dcmotor joint="j" motorconst=".1"/>', "resistance is not positive"),
    ('<dcmotor joint="j" motorconst=".1" resistance="1" inductance="-1"/>', "'inductance' is negative"),
    ('<dcmotor joint="j" motorconst=".1" resistance="1" thermal="1"/>', "two of resistance"),
    ('<dcmotor joint="j" motorconst=".1" resistance="1" thermal="-1 4 5"/>', "is negative"),
    ('<dcmotor joint="j" motorconst="-1 4" resistance="1"/>', "'motorconst' is negative"),
    ('<dcmotor joint="j" motorconst=".1" resistance="1" lugre="10 1 -.1 .2 .1"/>', "must not be negative"),
    ('<dcmotor joint="j" motorconst=".1" resistance="1" forcerange="-1 1"/>', "forcerange"),
    ('<general joint="j" dyntype="dcmotor"/>', "go together"), ('<general joint="j" input="voltage"/>', "of a dcmotor"),
    ('<general joint="j" dyntype="dcmotor" gaintype="dcmotor" biastype="dcmotor" input="pos vel" actearly="true"/>', "pos vel"),
    ('<general joint="j" dyntype="dcmotor" gaintype="dcmotor" biastype="dcmotor" gainprm="1 .1"/>', "actearly"),
    ('<general joint="j" dyntype="dcmotor" gaintype="dcmotor" biastype="dcmotor" gainprm="1 .1" actearly="true" actdim="2"/>', "actdim is 2"),
    ('<general joint="j" dyntype="dcmotor" gaintype="dcmotor" biastype="dcmotor" gainprm="1 .1" actearly="true" actrange="-1 1"/>', "actrange"),
    ('<general joint="j" dyntype="dcmotor" gaintype="dcmotor" biastype="dcmotor" gainprm="1 .1 0 0 5" actearly="true"/>', "controller"),
])
def test_what_is_refused(tmp_path, actuator, words):
    with pytest.raises(pb.Error, match=r"motor\.xml:\d+:\d+: .*") as refused:
        pb.load(model(tmp_path, actuator))
    assert words in str(refused.value)


def test_stages_have_no_velocity(tmp_path):
    with pytest.raises(pb.UnsupportedError, match="actuator 0 'm': .* does not go with integrator RK4"):
        pb.load(model(tmp_path, '<dcmotor name="m" joint="j" motorconst=".1" resistance="1" lugre="10 1 .1 .2 .1"/>', "RK4"))
    ours = pb.load(model(tmp_path, '<dcmotor joint="j" motorconst=".1" resistance="1"/>', "RK4"))
    ours.step(ours.init())


@pytest.mark.parametrize("inputs, count", [("none", 0), ("ff voltage", 2), ("pos vel", 2)])
def test_motors_of_mujoco_with_other_inputs(tmp_path, inputs, count):
    controller = 'controller="1 0 .1"' if "pos" in inputs else ""
    path = model(tmp_path, f'<motor joint="k"/><dcmotor name="m" joint="j" motorconst=".1" resistance="1" input="{inputs}" {controller}/>')
    with pytest.raises(pb.UnsupportedError, match=f"actuator 1 'm' has {count} inputs; expected one"):
        pb.from_mujoco(mujoco.MjModel.from_xml_path(str(path)))
