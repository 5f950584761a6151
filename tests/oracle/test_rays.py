"""Rangefinders: rays against MuJoCo on every shape, what they do not meet, meshes that are only seen, derivatives, policies."""
import mujoco
import numpy as np
import pytest

import derivatives
import oracle
import inside

rows = lambda a: " ".join(repr(float(x)) for x in np.ravel(a))
DATA = "dist dir origin point normal depth"
VALUE, SLOPE = 1e-10, 1e-6


def unit(r, n=4):
    q = r.standard_normal(n)
    return q / np.linalg.norm(q)


def star(r, points=40):
    """A closed surface about 0 that is not convex: the hull of directions, each at its own distance."""
    u = r.standard_normal((points, 3))
    u /= np.linalg.norm(u, axis=1)[:, None]
    m = mujoco.MjModel.from_xml_string(f'<mujoco><asset><mesh name="m" vertex="{rows(u)}"/></asset><worldbody><geom type="mesh" mesh="m"/></worldbody></mujoco>')
    return m.mesh_vert * r.uniform(.3, 1, (len(m.mesh_vert), 1)), m.mesh_face


def geom(r, kind, name="g", more=""):
    size = {"plane": r.choice(["0 0 1", "1 .6 1"]), "hfield": None, "mesh": None}.get(kind, rows(r.uniform(.4, .9, 3)))
    shape = f'size="{size}"' if size else f'{kind}="shape"'
    moving = "" if kind == "plane" else f'pos="{rows(.1 * r.standard_normal(3))}" quat="{rows(unit(r))}"'
    return f'<geom name="{name}" type="{kind}" {shape} {moving} contype="0" conaffinity="0" {more}/>'


def assets(r):
    vertex, face = star(r)
    return f"""<asset><mesh name="shape" vertex="{rows(vertex)}" face="{" ".join(map(str, face.ravel()))}" scale="1 {r.choice([1, -1])} .8"/>
<hfield name="shape" nrow="7" ncol="5" size=".8 .7 .5 .2" elevation="{rows(r.uniform(0, 1, 35))}"/></asset>"""


def scene(r, kind, sites=40, data=DATA, cutoff=0):
    """A geom on a body that can move, and sites around it and within it on another body that look at it, mostly."""
    text = []
    for k in range(sites):
        place = r.standard_normal(3) * r.choice([.15, 1, 2])
        aim = .2 * r.standard_normal(3) - place if k % 4 else r.standard_normal(3)
        text.append(f'<site name="s{k}" pos="{rows(place)}" zaxis="{rows(aim)}"/>')
    sensors = "".join(f'<rangefinder site="s{k}" data="{data}" cutoff="{cutoff}"/>' for k in range(sites))
    joint = "" if kind == "plane" else "<freejoint/>"
    return f"""<mujoco><option gravity="0 0 0"/>{assets(r)}<worldbody><geom type="sphere" size=".3" pos="0 0 -3"/>
<body>{joint}<inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>{geom(r, kind)}</body>
<body><freejoint/><geom size=".1"/>{"".join(text)}</body></worldbody><sensor>{sensors}</sensor></mujoco>"""


KINDS = ["plane", "sphere", "capsule", "ellipsoid", "cylinder", "box", "mesh", "hfield"]


def turned(m, r, size=.1):
    """A configuration near the reference."""
    q = m.qpos0.copy()
    mujoco.mj_integratePos(m, q, size * r.standard_normal(m.nv), 1)
    return q


def both(path, qpos, m=None):
    m, ours = m or mujoco.MjModel.from_xml_path(str(path)), inside.Model(str(path))
    d = mujoco.MjData(m)
    d.qpos[:] = qpos
    mujoco.mj_forward(m, d)
    _, sensors, _ = ours.step_recorded(ours.state(qpos, np.zeros(m.nv)), np.zeros(m.nu))
    return m, ours, sensors, d.sensordata.copy()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_rays_are_those_of_mujoco(tmp_path, kind, seed):
    r, path = np.random.default_rng((seed, KINDS.index(kind))), tmp_path / "m.xml"
    path.write_text(scene(r, kind, cutoff=[0, 0, 0, .7][seed]))
    m = mujoco.MjModel.from_xml_path(str(path))
    m, ours, mine, theirs = both(path, turned(m, r), m)
    for name in ("sensor_intprm", "sensor_dim", "sensor_adr", "sensor_type", "sensor_needstage", "sensor_objid"):
        assert (ours.fields()[name].ravel() == np.ravel(getattr(m, name))).all(), name
    hits = (theirs.reshape(40, -1)[:, 0] >= 0).sum()
    assert hits >= 3
    assert np.abs(mine - theirs).max() < (VALUE if kind != "mesh" else 1e-6), np.abs(mine - theirs).max()


@pytest.mark.parametrize("seed", range(4))
def test_rays_at_canonical_meshes(tmp_path, seed):
    """A mesh in its own frame has the same floats in both programs: then its rays are as exact as those of other shapes."""
    r, path = np.random.default_rng((seed, 11)), tmp_path / "m.xml"
    asset = lambda v, f: f'<asset><mesh name="shape" vertex="{rows(v)}" face="{" ".join(map(str, f.ravel()))}"/></asset>'
    vertex, face = star(r)
    for _ in range(6):
        m = mujoco.MjModel.from_xml_string(f'<mujoco>{asset(vertex, face)}<worldbody><geom type="mesh" mesh="shape"/></worldbody></mujoco>')
        vertex, face = m.mesh_vert.copy(), m.mesh_face.copy()
    text = scene(r, "mesh")
    path.write_text(text[:text.index("<asset>")] + asset(vertex, face) + text[text.index("</asset>") + 8:])
    m = mujoco.MjModel.from_xml_path(str(path))
    m, ours, mine, theirs = both(path, turned(m, r), m)
    assert (ours.fields()["mesh_vert"] == m.mesh_vert).all() and (theirs.reshape(40, -1)[:, 0] >= 0).sum() >= 10
    assert np.abs(mine - theirs).max() < VALUE, np.abs(mine - theirs).max()


def slopes(ours, x, bar):
    """Pullback of the sensors' sum with weights, by state and theta."""
    _, _, record = ours.step_recorded(x, np.zeros(ours.nu))
    return ours.vjp(record, sensordata=bar, ctrl=np.zeros(ours.nu))


@pytest.mark.parametrize("kind", KINDS)
def test_slopes_are_those_of_differences(tmp_path, kind):
    r, path = np.random.default_rng((7, KINDS.index(kind))), tmp_path / "m.xml"
    path.write_text(scene(r, kind, sites=20))
    m = mujoco.MjModel.from_xml_path(str(path))
    ours, q = inside.Model(str(path)), turned(m, r)
    ways = [(f, derivatives.field_direction(m, f, r)) for f in ("site_pos", "site_quat", "geom_pos", "geom_quat", "geom_size")]
    ways += [(f, .3 * r.standard_normal(ours.param(ours.theta, f).shape)) for f in ("mesh_scale", "mesh_refpos", "mesh_refquat") if kind == "mesh"]
    motion, bar, theta = r.standard_normal(m.nv), r.standard_normal((20, 14)), ours.theta

    def at(field, way, e):
        moved, t = q.copy(), theta.copy()
        if field is None:
            mujoco.mj_integratePos(m, moved, motion, e)
        else:
            ours.param(t, field)[...] += e * way.reshape(ours.param(t, field).shape)
        return ours.step(ours.state(moved, np.zeros(m.nv)), np.zeros(m.nu), theta=t)[1].reshape(20, 14)

    for field, way in [(None, None), *ways]:
        value, error = oracle.quotient(lambda e: at(field, way, e), (1e-3, 1e-4, 1e-5, 1e-6))
        steady = (error < SLOPE / 5 * (1 + np.abs(value))).all(1)  # not where the ray passes from one part to another
        assert steady.sum() >= 10
        weights = bar * steady[:, None]
        pulled = slopes(ours, ours.state(q, np.zeros(m.nv)), weights.ravel())
        got = pulled["x"][:m.nv] @ motion if field is None else (ours.param(pulled["theta"], field).ravel() * way.ravel()).sum()
        assert abs(got - (weights * value).sum()) < SLOPE * (1 + np.abs(weights * value).sum()), field


# ---- what is met ----------------------------------------------------------------------------------------------------------
BALL = '<geom type="sphere" size=".2" pos="0 0 {z}" contype="0" conaffinity="0" {more}/>'


@pytest.mark.parametrize("more", ["", 'rgba="1 1 1 0"', 'material="air"', 'material="air" rgba="1 1 1 1"', 'material="stone"', 'material="stone" rgba="1 1 1 0"',
                                  'group="5"', 'mass="0"'])
@pytest.mark.parametrize("place", ["world", "own", "other"])
def test_what_rays_pass_through(tmp_path, more, place):
    at = {name: BALL.format(z=1, more=more) if name == place else "" for name in ("world", "own", "other")}
    path = tmp_path / "m.xml"
    path.write_text(f"""<mujoco><asset><material name="air" rgba="1 0 0 0"/><material name="stone" rgba="1 0 0 1"/></asset><worldbody>{at["world"]}
<body><joint/><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>{at["own"]}<site name="s"/><body>{at["other"]}<geom size=".1" pos="1 0 0"/></body></body>
{BALL.format(z=3, more="")}</worldbody><sensor><rangefinder site="s"/></sensor></mujoco>""")
    m, _, mine, theirs = both(path, np.zeros(1))
    assert mine[0] == pytest.approx(theirs[0], abs=1e-14) and mine[0] in (pytest.approx(.8), pytest.approx(2.8))


def test_meshes_that_are_only_seen_are_met(tmp_path):
    """By all their faces, also where the file has none, and in the frame of the geom; without a ray they are not read."""
    r = np.random.default_rng(3)
    vertex, face = star(r)
    text = f"""<mujoco><asset><mesh name="a" vertex="{rows(vertex)}" face="{" ".join(map(str, face.ravel()))}" inertia="exact"/>
<mesh name="b" vertex="{rows(vertex)}"/></asset><worldbody><body pos="0 0 2"><joint/><geom size=".1"/>
<geom type="mesh" mesh="a" contype="0" conaffinity="0" mass="0" group="2" pos=".1 .2 .3" quat="1 .1 .2 .3"/></body>
<body pos="2 0 2"><geom type="mesh" mesh="b" contype="0" conaffinity="0"/></body>
<site name="s" zaxis=".05 .1 1"/><site name="t" pos="2 0 0" zaxis="-.02 .1 1"/></worldbody><sensor><rangefinder site="s"/><rangefinder site="t"/></sensor></mujoco>"""
    path, blind = tmp_path / "m.xml", tmp_path / "blind.xml"
    path.write_text(text)
    blind.write_text(text[:text.index("<sensor>")] + "</mujoco>")
    m, ours, mine, theirs = both(path, np.zeros(1))
    assert (theirs > 0).all() and np.abs(mine - theirs).max() < 1e-6
    assert len(ours.fields()["mesh_face"]) == m.nmeshface and len(inside.Model(str(blind)).fields()["mesh_face"]) == 0
    path.write_text(text.replace('name="a" ', 'name="a" file="absent.stl" ', 1).replace(f'vertex="{rows(vertex)}"', "").replace(f'face="{" ".join(map(str, face.ravel()))}"', ""))
    with pytest.raises(inside.Error, match="absent.stl"):
        inside.Model(str(path))


@pytest.mark.parametrize("data, words", [("far", "'data'.*found 'far'"), ("point dist", "'data'.*order"), ("dist dist", "'data'.*once")])
def test_data_that_mujoco_refuses(tmp_path, data, words):
    path = tmp_path / "m.xml"
    path.write_text(f'<mujoco><worldbody><site name="s"/></worldbody><sensor><rangefinder site="s" data="{data}"/></sensor></mujoco>')
    with pytest.raises(ValueError):
        mujoco.MjModel.from_xml_path(str(path))
    with pytest.raises(inside.Error, match=words):
        inside.Model(str(path))


# ---- the program ----------------------------------------------------------------------------------------------------------
WALK = """<mujoco><option timestep=".01"/><worldbody><geom name="wall" type="box" size=".2 .5 .5" pos="1.2 0 0" euler="0 0 15"/><body><joint name="x" type="slide" axis="1 0 0" damping=".3"/>
<joint name="w" axis="0 0 1" damping=".1"/><geom name="g" size=".1"/><site name="s" pos=".1 0 0" euler="0 90 0"/><site name="t" pos=".1 .02 0" euler="0 90 10"/></body></worldbody>
<actuator><motor joint="x"/><motor joint="w" gear=".01"/></actuator>
<sensor><rangefinder name="r" site="s"/><rangefinder name="n" site="t" data="dist normal"/><distance name="d" body1="world" geom2="g" cutoff="3"/></sensor></mujoco>"""


def test_policies_see_by_rays(tmp_path, run):
    (tmp_path / "m.xml").write_text(WALK)
    (tmp_path / "p.json").write_text('{"observe": [{"qvel": true}, {"sensor": "r"}, {"sensor": "n"}, {"sensor": "d"}], "layers": [{"dense": 4, "activation": "tanh"}, {"dense": 2}]}')
    for mode in ("exact", "smooth"):
        run("check", tmp_path / "m.xml", "--policy", tmp_path / "p.json", "--horizon", 30, "--mode", mode)


def test_check_names_a_ray_at_an_edge(tmp_path, run):
    path = tmp_path / "m.xml"
    path.write_text("""<mujoco><option gravity="0 0 0"/><worldbody><geom type="box" size=".2 .2 .2" pos="0 0 1"/><body><joint type="slide" axis="1 0 0"/><geom size=".05"/>
<site name="s" pos=".2 0 0"/></body></worldbody><sensor><rangefinder site="s"/></sensor></mujoco>""")
    assert "a sensor that looks elsewhere" in run("check", path).stdout


def test_what_a_ray_meets_is_told(tmp_path, run):
    path, out = tmp_path / "m.xml", tmp_path / "o.npz"
    path.write_text(WALK)
    run("inspect", path, "-o", out)
    with np.load(out) as z:
        assert z["sensor_look"][:, :2].tolist() == [[0, -1], [0, -1], [0, 1]] and (z["sensor_look"][:, 2] >= 0).all()


def test_worlds_see_what_each_sees_alone(tmp_path, run):
    path, r = tmp_path / "m.xml", np.random.default_rng(1)
    path.write_text(WALK)
    control = r.standard_normal((9, 20, 2))
    np.savez(tmp_path / "w.npz", control=control)
    run("simulate", path, "--worlds", tmp_path / "w.npz", "--steps", 20, "-o", tmp_path / "all.npz")
    for k in (0, 8):
        np.save(tmp_path / "c.npy", control[k])
        run("simulate", path, "--control", tmp_path / "c.npy", "--steps", 20, "-o", tmp_path / "one.npz")
        with np.load(tmp_path / "all.npz") as a, np.load(tmp_path / "one.npz") as b:
            assert (a["sensordata"][k] == b["sensordata"]).all()
