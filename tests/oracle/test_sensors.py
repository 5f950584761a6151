"""Contact sensors, energies and cameras: against MuJoCo over choices that the models do not have, slopes against differences, refusals."""
import itertools

import mujoco
import numpy as np
import pytest

import oracle
import inside

VALUE, SLOPE = 1e-9, 1e-6
FIELDS = "found force torque dist pos normal tangent linvel angvel".split()
SIDES = ["", 'geom1="{a}"', 'body1="A"', 'subtree1="root"', 'site="zone"', 'geom2="{a}"', 'body2="A"', 'subtree2="root"', 'geom1="{a}" geom2="floor"', 'body1="world" body2="A"',
         'subtree1="root" subtree2="root"', 'site="zone" body2="B"', 'body1="A" body2="B"', 'body1="B" body2="A"']


def scene(cone, sensors, gap=".03"):
    return f"""<mujoco><option cone="{cone}" tolerance="0" iterations="300"/><worldbody><geom name="floor" type="plane" size="4 4 1" euler="2 1 0" condim="3"/>
<site name="zone" type="ellipsoid" size=".4 .5 .3" pos=".1 .1 .1" euler="10 20 30"/>
<body name="root" pos="0 0 .29"><freejoint/><geom name="a0" size=".1" pos="-.3 0 0"/>
<body name="A"><joint axis="1 .2 0" damping=".1"/><geom name="a" type="capsule" size=".3 .2" euler="80 5 0" condim="6" friction="1 .02 .01"/></body></body>
<body name="B" pos=".1 .02 .83"><freejoint/><geom name="b" size=".25" condim="4" friction=".8 .02 .01"/></body>
<body name="C" pos="1 0 .21"><freejoint/><geom name="c" size=".2" gap="{gap}" margin=".002"/></body></worldbody><sensor>{sensors}</sensor></mujoco>"""


def both(path, steps=0, contact=None):
    m, ours = mujoco.MjModel.from_xml_path(str(path)), inside.Model(str(path), contact=contact)
    d = mujoco.MjData(m)
    for _ in range(steps):
        mujoco.mj_step(m, d)
    mujoco.mj_forward(m, d)
    x = ours.state(d.qpos, d.qvel)
    _, mine, record = ours.step_recorded(x, np.zeros(m.nu))
    return m, d, ours, x, mine, record


def every_sensor():
    """All sides, with data and reductions in turn; those that do not choose have room for one contact more than there are."""
    for k, (side, reduce) in enumerate(itertools.product(SIDES, ["mindist", "maxforce", "netforce"])):
        words = FIELDS[:7] if reduce == "netforce" else FIELDS
        data = [w for i, w in enumerate(words) if (i + k) % 3 or k % 4 == 0]
        yield f'<contact {side.format(a="a")} data="{" ".join(data)}" reduce="{reduce}" num="{1 + k % 3}"/>'


@pytest.mark.parametrize("cone", ["pyramidal", "elliptic"])
@pytest.mark.parametrize("steps", [0, 7, 60, 200])
def test_contact_sensors_are_mujocos(tmp_path, cone, steps):
    path = tmp_path / "m.xml"
    path.write_text(scene(cone, "".join(every_sensor())))
    m, d, _, _, mine, _ = both(path, steps)
    assert d.ncon
    scale = max(1, np.abs(d.efc_force).max(initial=0))
    for i in range(m.nsensor):
        part = slice(m.sensor_adr[i], m.sensor_adr[i] + m.sensor_dim[i])
        assert np.abs(mine[part] - d.sensordata[part]).max() < VALUE * scale, (i, mine[part], d.sensordata[part])


def test_contacts_of_a_pair_come_in_mujocos_order(tmp_path):
    """Where a sensor does not choose, its first contacts are the first found."""
    path = tmp_path / "m.xml"
    path.write_text("""<mujoco><worldbody><geom type="plane" size="1 1 1" name="f"/><body pos="0 0 .098" euler="1 2 0"><freejoint/><geom type="box" size=".1 .1 .1"/></body>
<body pos="1 0 .09" euler="88 3 0"><freejoint/><geom type="capsule" size=".1 .2"/></body></worldbody><sensor><contact geom1="f" num="5" data="found dist pos"/></sensor></mujoco>""")
    _, d, _, _, mine, _ = both(path)
    assert d.ncon > 3 and np.abs(mine - d.sensordata).max() < 1e-12


@pytest.mark.parametrize("steps", [3, 60])
@pytest.mark.parametrize("method", ["soft", "penalty", "cones"])
def test_slopes_of_contact_sensors(tmp_path, method, steps):
    r, path = np.random.default_rng(steps), tmp_path / "m.xml"
    path.write_text(scene("elliptic", "".join(every_sensor())))
    m, d, ours, x, _, record = both(path, steps, {"method": method})
    motion, bar = r.standard_normal(2 * m.nv), r.standard_normal(m.nsensordata)
    ways = {None: motion} | {f: 1e-2 * r.standard_normal(ours.param(ours.theta, f).shape) for f in ("geom_pos", "geom_size", "body_mass", "geom_friction")}
    for field, way in ways.items():
        theta = ours.theta.copy()

        def at(e):
            t = theta.copy()
            if field:
                ours.param(t, field)[...] += e * way
            return ours.step(ours.move(x, motion, e) if field is None else x, np.zeros(m.nu), theta=t)[1]

        value, error = oracle.quotient(at, (1e-3, 1e-4, 1e-5, 1e-6, 1e-7))
        steady = error < SLOPE / 5 * (1 + np.abs(value))
        assert steady.mean() > .8
        pulled = ours.vjp(record, sensordata=bar * steady, ctrl=np.zeros(m.nu))
        got = pulled["x"] @ motion if field is None else (ours.param(pulled["theta"], field) * way).sum()
        assert abs(got - (bar * steady * value).sum()) < SLOPE * (1 + np.abs(bar * steady * value).sum()), field


def test_energies_in_closed_form(tmp_path):
    """A pendulum with a spring, and what is conserved along a swing."""
    path = tmp_path / "m.xml"
    path.write_text("""<mujoco><option timestep="1e-4" integrator="RK4"/><worldbody><body pos="0 0 2"><joint axis="0 1 0" stiffness="3 .4 .5" armature=".2" springref="10"/>
<inertial pos=".5 0 0" mass="2" diaginertia=".1 .3 .2"/></body></worldbody><sensor><e_potential/><e_kinetic/></sensor></mujoco>""")
    m = inside.Model(str(path))
    x = m.state([.3], [1.7])
    (angle, speed), stretch = (.3, 1.7), .3 - np.deg2rad(10)
    potential = 2 * 9.81 * (2 - .5 * np.sin(angle)) + 3 * stretch**2 / 2 + .4 * stretch**3 / 3 + .5 * stretch**4 / 4
    y = m.step(x, [])[1]
    assert np.abs(y - [potential, (.3 + 2 * .25 + .2) * speed**2 / 2]).max() < 1e-12
    for _ in range(2000):
        x, after = m.step(x, [])[:2]
    assert abs(after.sum() - y.sum()) < 1e-9 and abs(after[1] - y[1]) > .1


@pytest.mark.parametrize("sensor,words", [
    ('<contact body1="A" geom1="a"/>', "both 'geom1' and 'body1'"), ('<contact num="0"/>', "at least 1, found 0"), ('<contact data="pos dist"/>', "in the order"),
    ('<contact data="size"/>', "expected words of found"), ('<contact data="linvel" reduce="netforce"/>', "netforce"), ('<contact geom1="absent"/>', "absent"),
    ('<contact reduce="all"/>', "reduce"), ('<rangefinder/>', "'site' or 'camera'"), ('<rangefinder site="zone" camera="eye"/>', "both"), ('<rangefinder camera="follows"/>', "not fixed"),
    ('<rangefinder camera="none"/>', "resolution"), ('<camprojection site="zone" camera="flat"/>', "orthographic"), ('<camprojection site="zone"/>', "camera"),
    ('<rangefinder camera="blind"/>', "focal"), ('<rangefinder camera="huge"/>', "3600000000 numbers; at most 10000000"), ('<contact num="2000000000" data="pos"/>', "numbers; at most")])
def test_what_is_refused(tmp_path, sensor, words):
    path, cameras = tmp_path / "m.xml", """<camera name="eye"/><camera name="follows" mode="track"/><camera name="none" resolution="0 2"/>
<camera name="flat" projection="orthographic"/><camera name="blind" sensorsize="1 1"/><camera name="huge" resolution="60000 60000"/></worldbody>"""
    path.write_text(scene("pyramidal", sensor).replace("</worldbody>", cameras))
    with pytest.raises(inside.Error, match=words):
        inside.Model(str(path))


@pytest.mark.parametrize("shape", ['type="sphere" size=".1"', 'type="capsule" size=".1 .1" euler="90 0 0"', 'type="box" size=".1 .1 .1"'])
@pytest.mark.parametrize("margin,gap", [(.02, -.01), (0, -.005), (.02, .01)])
def test_gaps_of_either_sign(tmp_path, shape, margin, gap):
    """Where it is negative contacts come later than at their margin, without a sensor as well."""
    path = tmp_path / "m.xml"
    path.write_text(f"""<mujoco><option tolerance="0" iterations="300"/><worldbody><geom type="plane" size="1 1 1"/>
<body pos="0 0 .098" euler="1 2 3"><freejoint/><geom {shape} margin="{margin}" gap="{gap}"/></body></worldbody></mujoco>""")
    m, d, ours, x, _, _ = both(path)
    mine = ours.step(x, np.zeros(0))[0]
    mujoco.mj_step(m, d)
    assert np.abs(ours.parts(mine)[1] - d.qvel).max() < 1e-10
