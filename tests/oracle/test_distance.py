"""Sensors of distance, normal and nearest points: exact pairs against MuJoCo, convex ones by what makes them right; derivatives; refusals."""
import itertools

import mujoco
import numpy as np
import pytest

import derivatives
import oracle
import inside

rows = lambda a: " ".join(repr(float(x)) for x in np.ravel(a))
KINDS = ["plane", "sphere", "capsule", "ellipsoid", "cylinder", "box", "mesh"]
EXACT = {("plane", k) for k in KINDS[1:]} | {("sphere", "sphere"), ("sphere", "capsule"), ("sphere", "cylinder"), ("sphere", "box"), ("capsule", "capsule"), ("capsule", "box")}
PAIRS = [p for p in itertools.combinations_with_replacement(KINDS, 2) if p != ("plane", "plane")]
VALUE, RIGHT, SLOPE = 1e-10, 1e-9, 1e-6
REACH = 5


def unit(r, n=4):
    q = r.standard_normal(n)
    return q / np.linalg.norm(q)


def geom(r, kind, name):
    shape = f'mesh="m{name}"' if kind == "mesh" else f'size="{rows(r.uniform(.2, .6, 3))}"'
    return f'<geom name="{name}" type="{kind}" {shape} contype="0" conaffinity="0" pos="{rows(.05 * r.standard_normal(3))}" quat="{rows(unit(r))}"/>'


def body(r, kind, name, place):
    if kind == "plane":
        return geom(r, kind, name)
    return f'<body name="B{name}" pos="{rows(place)}"><freejoint/><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>{geom(r, kind, name)}</body>'


def scene(r, pair, sensors, apart):
    mesh = lambda name: f'<mesh name="m{name}" vertex="{rows(r.standard_normal((12, 3)) * .3)}" refpos=".01 .02 .03" refquat="1 .1 .2 .1" scale="1 .9 1.1"/>'
    bodies = body(r, pair[0], "a", np.zeros(3)) + body(r, pair[1], "b", apart * unit(r, 3))
    return f'<mujoco><option gravity="0 0 0"/><asset>{mesh("a")}{mesh("b")}</asset><worldbody>{bodies}</worldbody><sensor>{sensors}</sensor></mujoco>'


SENSORS = f"""<distance geom1="a" geom2="b" cutoff="{REACH}"/><normal geom1="a" geom2="b" cutoff="{REACH}"/><fromto geom1="a" geom2="b" cutoff="{REACH}"/>
<distance geom1="b" geom2="a" cutoff="{REACH}"/><normal geom1="b" geom2="a" cutoff="{REACH}"/><fromto geom1="b" geom2="a" cutoff="{REACH}"/>"""


def both(path, qpos=None):
    m, ours = mujoco.MjModel.from_xml_path(str(path)), inside.Model(str(path))
    d = mujoco.MjData(m)
    d.qpos[:] = m.qpos0 if qpos is None else qpos
    mujoco.mj_forward(m, d)
    _, mine, _ = ours.step_recorded(ours.state(d.qpos, np.zeros(m.nv)), np.zeros(m.nu))
    return m, d, ours, mine, d.sensordata.copy()


def support(m, d, ours, g, n):
    """How far the geom reaches along a direction."""
    R, size, kind = d.geom_xmat[g].reshape(3, 3), m.geom_size[g], m.geom_type[g]
    u, at = R.T @ n, d.geom_xpos[g] @ n
    if kind == mujoco.mjtGeom.mjGEOM_MESH:
        f = ours.fields()
        k = int(f["geom_dataid"].ravel()[g])
        v = f["mesh_vert"][f["mesh_vertadr"].ravel()[k]:][:f["mesh_vertnum"].ravel()[k]]
        return at + (v @ u).max()
    across = np.hypot(u[0], u[1])
    return at + {2: lambda: size[0], 3: lambda: size[0] + size[1] * abs(u[2]), 4: lambda: np.linalg.norm(size * u),
                 5: lambda: size[0] * across + size[1] * abs(u[2]), 6: lambda: size @ np.abs(u)}[int(kind)]()


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_distances(tmp_path, pair):
    r, path, deeper = np.random.default_rng(PAIRS.index(pair)), tmp_path / "m.xml", 0
    for k in range(12):
        path.write_text(scene(r, pair, SENSORS, [.2, .7, 1.3, 3][k % 4]))
        m, d, ours, mine, theirs = both(path)
        distance, normal, at, to = mine[0], mine[1:4], mine[4:7], mine[7:10]
        if pair in EXACT:
            assert np.abs(mine - theirs).max() < (VALUE if "mesh" not in pair else 1e-6)
        else:
            # Inside of round shapes MuJoCo's polytope is within the difference, so that its depth is too small.
            assert abs(distance - theirs[0]) < (1e-5 if distance > 0 else 1e-2 * abs(distance))
        assert mine[10] == pytest.approx(distance, abs=1e-12) and np.abs(mine[11:14] + normal).max() < 1e-9
        assert np.abs(mine[14:17] - to).max() < 1e-9 and np.abs(mine[17:20] - at).max() < 1e-9
        if distance == REACH:
            assert not normal.any() and not at.any()
            continue
        assert np.abs(to - at - distance * np.sign(distance) * normal).max() < 1e-12 + 1e-9 * abs(distance)
        if pair[0] != "plane" and ("mesh" not in pair or pair not in EXACT):
            n = np.sign(distance) * normal
            assert abs(distance + support(m, d, ours, 0, n) + support(m, d, ours, 1, -n)) < RIGHT or pair in EXACT


@pytest.mark.parametrize("apart", [.35, 1.5])
@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_slopes_are_those_of_differences(tmp_path, pair, apart):
    r, path = np.random.default_rng((PAIRS.index(pair), int(10 * apart))), tmp_path / "m.xml"
    path.write_text(scene(r, pair, SENSORS, apart))
    m, d, ours, value, _ = both(path)
    fields = ["geom_pos", "geom_quat", "geom_size", "sensor_cutoff"] + ["mesh_scale", "mesh_refpos", "mesh_refquat"] * ("mesh" in pair)
    theta, motion, bar = ours.theta, r.standard_normal(m.nv), r.standard_normal(ours.nsensordata)
    ways = {f: .3 * r.standard_normal(ours.param(theta, f).shape) for f in fields}

    def at(field, e):
        moved, t = m.qpos0.copy(), theta.copy()
        if field is None:
            mujoco.mj_integratePos(m, moved, motion, e)
        else:
            ours.param(t, field)[...] += e * ways[field]
        return ours.step(ours.state(moved, np.zeros(m.nv)), np.zeros(m.nu), theta=t)[1]

    _, _, record = ours.step_recorded(ours.state(m.qpos0, np.zeros(m.nv)), np.zeros(m.nu))
    left_out = 0
    for field in [None, *fields]:
        value, error = oracle.quotient(lambda e: at(field, e), (1e-3, 1e-4, 1e-5, 1e-6))
        steady = error < SLOPE / 5 * (1 + np.abs(value))
        left_out += (~steady).sum()
        pulled = ours.vjp(record, sensordata=bar * steady, ctrl=np.zeros(m.nu))
        got = pulled["x"][:m.nv] @ motion if field is None else (ours.param(pulled["theta"], field) * ways[field]).sum()
        assert abs(got - (bar * steady * value).sum()) < SLOPE * (1 + np.abs(bar * value).sum()), field
        way = dict(x=np.r_[motion, np.zeros(m.nv)]) if field is None else dict(d_theta=np.zeros(ours.ntheta))
        if field:
            ours.param(way["d_theta"], field)[...] = ways[field]
        pushed = ours.jvp(record, ctrl=np.zeros(m.nu), **way)[1]
        assert abs((bar * steady) @ pushed - got) < 1e-10 * (1 + np.abs(bar * pushed).sum() + abs(got)), field
    assert left_out <= 20


def test_what_is_refused(tmp_path):
    path = tmp_path / "m.xml"
    world = '<asset><hfield name="h" nrow="2" ncol="2" size="1 1 1 1"/></asset><worldbody><geom name="f" type="hfield" hfield="h"/><body name="b"><geom name="g" size="1"/><geom name="k" size="1"/></body></worldbody>'
    for sensor, words in [('<distance geom1="g"/>', "'geom2' or 'body2'"), ('<distance geom1="g" body1="b" geom2="k"/>', "'geom1' or 'body1'"),
                          ('<normal geom1="g" geom2="g"/>', "both are the same"), ('<fromto body1="b" body2="b"/>', "both are the same"),
                          ('<distance geom1="g" geom2="f"/>', "height fields"), ('<distance body1="world" body2="b"/>', "height fields"),
                          ('<distance geom1="absent" geom2="g"/>', "absent")]:
        path.write_text(f"<mujoco>{world}<sensor>{sensor}</sensor></mujoco>")
        with pytest.raises(inside.Error, match=words):
            inside.Model(str(path))


def test_meshes_that_only_a_sensor_looks_at(tmp_path):
    """By the name of their body, too; they have hulls."""
    path = tmp_path / "m.xml"
    path.write_text("""<mujoco><asset><mesh name="m" vertex="0 0 0  1 0 0  0 1 0  0 0 1"/></asset><worldbody><body name="a"><joint/><geom size=".1" pos="5 0 0"/>
<geom type="mesh" mesh="m" contype="0" conaffinity="0" mass="0"/></body><body name="b" pos="3 .1 .1"><geom size=".5"/></body></worldbody>
<sensor><distance body1="a" body2="b" cutoff="9"/></sensor></mujoco>""")
    _, _, _, mine, theirs = both(path)
    assert abs(mine[0] - theirs[0]) < 1e-6 and 1 < mine[0] < 2


@pytest.mark.parametrize("shape", ['type="capsule" size=".02 .1" euler="0 90 0"', 'type="box" size=".2 .2 .01"'])
def test_check_leaves_ties_out_by_name(tmp_path, run, shape):
    """Several points are as near: a turn of the shape makes another the nearest to either side. All else is tested."""
    path = tmp_path / "m.xml"
    path.write_text(f"""<mujoco><worldbody><geom name="f" type="plane" size="1 1 1"/><geom name="c" {shape} pos="0 0 .2"/>
<body pos="0 0 1"><freejoint/><geom size=".1"/></body></worldbody><sensor><distance geom1="c" geom2="f" cutoff="1"/></sensor></mujoco>""")
    told = run("check", path, "--horizon", 5).stdout
    assert "left out: geom_quat at a tie of what a sensor looks at" in told and "geom_pos at a tie" not in told
