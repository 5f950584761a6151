"""Models as MJCF files: every number comes back, MuJoCo steps the file as we step the model, a second export changes no byte."""
import json
import os
import re

import mujoco as mj
import numpy as np
import pytest

import inside
import oracle
import random_models
import robot_checks
import robots
import test_compile

# What no file says, and the field of the listing that it is told by.
OURS = {"geom_restitution", "contact_stiffness", "contact_damping", "actuator_speed", "actuator_deadband",
        "dof_stiction", "dof_stribeck", "dof_stribeckpower", "dof_frictionload", "dof_stictionload", "dof_stictionquad"}
# Of designs: masses and frames that follow from these stand in the file.
DESIGN = {"geom_density", "mesh_center", "mesh_axes", "body_products"}
# The frames of meshes' files: another center of mass is another frame of the geoms.
MESHES = {"mesh_scale", "mesh_refpos", "mesh_refquat"}

# Of what keeps samples, and beside it what keeps none.
DELAYED = """<mujoco><option timestep=".004"/>
<worldbody><body><joint name="j" axis="0 1 0"/><geom size=".02" fromto="0 0 0 0 0 -.3" type="capsule"/></body></worldbody>
<actuator><position joint="j" kp="2" nsample="9" interp="linear" delay=".021"/><motor joint="j"/></actuator>
<sensor><jointpos joint="j" nsample="5" interp="cubic" delay=".009"/><jointvel joint="j"/></sensor></mujoco>"""
DELAYS = {"actuator_delay", "sensor_delay"}


def load(path, **more):
    return inside.Model(str(path), source=True, **more)


def there_and_back(model, folder, theta=None, allow_root=None):
    """(model of the file, what it cannot say): the file again, made from that, is the same."""
    first, second = (os.path.join(folder, n) for n in ("first.xml", "second.xml"))
    said = model.save(first, theta)
    back = load(first, allow_root=allow_root)
    again = back.save(second)
    with open(first, "rb") as a, open(second, "rb") as b:
        assert a.read() == b.read()
    assert not again, again
    return back, said


def off(a, b):
    """Names of parameters in which two thetas differ by more than 1e-14."""
    (m, theta), (n, other) = a, b
    found = []
    for name, p in m.params.items():
        u, v = m.param(theta, name), n.param(other, name)
        if u.shape != v.shape or (np.abs(u - v) > 1e-14 * np.maximum(1, np.abs(u))).any():
            found.append(name)
    return found


# ---- as they are --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("path", oracle.MODELS, ids=oracle.name)
def test_models_come_back(path, tmp_path):
    """Theta, every compiled field, MuJoCo's fields of the file."""
    model = load(path)
    back, said = there_and_back(model, tmp_path)
    assert not said and not off((model, model.theta), (back, back.theta))
    ours, theirs = model.fields(), back.fields()
    differ = [n for n in ours if ours[n].shape != theirs[n].shape or not np.allclose(ours[n], theirs[n], rtol=0, atol=1e-14, equal_nan=True)]
    assert not differ, differ
    bad = test_compile.faults(theirs, oracle.compiled(back.path)) + test_compile.names_differ(back, oracle.compiled(back.path))
    assert not bad, "\n".join(bad)


def test_random_models_come_back(tmp_path, long_run):
    for seed in range(0, random_models.SEEDS if long_run else 60):
        path = tmp_path / "random.xml"
        path.write_text(random_models.xml(seed))
        model = load(path)
        back, said = there_and_back(model, tmp_path)
        assert not said and not off((model, model.theta), (back, back.theta)), seed
        assert not test_compile.faults(back.fields(), oracle.compiled(back.path)), seed


# ---- with other parameters ----------------------------------------------------------------------------------------------------
def changed(model, name, r):
    """Values of a field that mean something and that a file can say; None where the model has none."""
    p, value = model.params[name], model.param(model.theta, name).copy()
    if not value.size:
        return None
    f = model.fields()
    if name in ("body_pos", "body_quat"):  # of a free body these are its joint's
        free = f["jnt_bodyid"][f["jnt_type"] == 0].ravel()
        rows = np.setdiff1d(np.arange(1, len(value)), free)
        value[rows] = turned(value[rows], r) if name == "body_quat" else value[rows] + r.uniform(-.01, .01, (len(rows), 3))
    elif name == "body_gravcomp":
        value[1:] += .011
    elif name in ("body_ipos", "body_iquat", "body_inertia", "body_mass"):
        rows = np.flatnonzero(f["body_mass"].ravel()[1:] > 0) + 1
        value[rows] = turned(value[rows], r) if name == "body_iquat" else value[rows] * 1.07 if name != "body_ipos" else value[rows] + .003
    elif name in ("qpos0", "qpos_spring"):
        for j in np.flatnonzero((f["jnt_type"] >= 2).ravel()):
            value[f["jnt_qposadr"][j, 0]] += r.uniform(.01, .1)
    elif name.startswith("dof_"):
        value *= r.uniform(1.01, 1.2, (len(f["jnt_type"]), 1))[f["dof_jntid"].ravel()]
        if name in ("dof_damping", "dof_armature", "dof_frictionloss"):
            value += .013
    elif name in ("jnt_axis", "jnt_pos"):
        # Not of bodies that are simple, which another axis or anchor would end: MuJoCo weighs these by another formula.
        rows = (f["jnt_type"].ravel() >= (2 if name == "jnt_axis" else 1)) & (f["body_simple"].ravel()[f["jnt_bodyid"].ravel()] == 0)
        value[rows] = turned(value[rows], r) if name == "jnt_axis" else value[rows] + r.uniform(-.01, .01, 3)
    elif name in ("geom_quat", "site_quat", "cam_quat"):
        value = turned(value, r)
    elif name == "geom_size":
        rows = ~np.isin(f["geom_type"].ravel(), (0, 1, 7))
        value[rows] *= r.uniform(1.01, 1.1, (rows.sum(), 1))
    elif name == "geom_fluid":
        rows = value[:, 0] != 0
        value[rows, 1:6] *= 1.1
    elif name == "eq_data":
        connect, weld, rest = (np.isin(f["eq_type"].ravel(), k) for k in ((0,), (1,), (2, 3)))
        bodies = (f["eq_objtype"] == 1).ravel()
        value[connect & bodies, :3] += .01
        value[weld, 10] *= 1.1
        value[weld & bodies, :3] += .01
        value[rest, :5] += r.uniform(-.1, .1, 5)
    elif name == "wrap_prm":
        rows = np.isin(f["wrap_type"].ravel(), (1, 2))
        value[rows] *= 1.1
    elif name.endswith("range"):
        wide = .1 + .1 * np.abs(value).max(axis=1, keepdims=True)
        value = value + wide * [[-.3, .5]]
        if name == "jnt_range":  # of a ball from zero on
            value[(f["jnt_type"] == 1).ravel(), 0] = 0
        if name == "actuator_actrange":
            value[(f["actuator_dyntype"] == 0).ravel()] = 0
    elif name == "tendon_lengthspring":
        value = value + [[-.01, .02]]
    elif "solimp" in name:
        value *= .99
    elif p.option or name.endswith(("solref", "solimp", "friction", "solmix", "prm", "gear", "solreffriction", "_lim", "_fri", "armature")):
        value *= 1.07
    else:
        value = value * 1.07 + .011
    return None if (value == model.param(model.theta, name)).all() else value


def turned(rows, r):
    """Directions, turned a little."""
    rows = rows + r.uniform(-.1, .1, rows.shape)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def run_apart(path, theta, file, key):
    """(worst distance over 200 steps without contact, steps over which MuJoCo itself answers a nudge with less than that)"""
    m, model = oracle.load(file, {"contact": "disable"}), load(path, options={"contact": "disable"})
    x, controls = oracle.start(m, (key, "export"), 200)
    run = oracle.roll(m, x, controls)
    steps, y = oracle.trusted(m, x, controls, run, 1e-10), model.state(x.qpos, x.qvel, x.act)
    worst = 0
    for k in range(steps):
        y, _ = model.step(y, controls[k], theta=theta)
        worst = max(worst, oracle.distance(np.concatenate(model.parts(y)), run.states[k + 1]))
    return worst, steps


def steps_apart(model, theta, m, key, count=100):
    """Worst distance of one step from so many states."""
    worst, d = 0, mj.MjData(m)
    for k in range(count):
        x, u = oracle.start(m, (key, k, "export"), 1)
        x.put(d)
        d.ctrl[:] = u[0]
        mj.mj_step(m, d)
        if oracle.convex_tier(m, d) or not np.isfinite(d.qvel).all() or np.abs(d.qvel).max(initial=0) > oracle.BLOWN:
            continue
        y, _ = model.step(model.state(x.qpos, x.qvel, x.act), u[0], theta=theta)
        worst = max(worst, oracle.distance(np.concatenate(model.parts(y)), oracle.State.of(d)))
    return worst


NAMES = [n for n, kind in oracle.field_table().items() if kind == "param"]


def models_of(name, most=2):
    """Models that have the field."""
    found = []
    for path in OWN:
        value = changed(load(path), name, np.random.default_rng(1))
        if value is not None:
            found.append(path)
        if len(found) == most:
            break
    return found


# Those with many contacts first: parameters of contacts are seen there.
TOUCHING = ("mixing", "condim_elliptic", "pairs", "rolling", "margins", "override", "condim_pyramidal")
OWN = sorted(oracle.OWN, key=lambda p: oracle.name(p) not in TOUCHING)


@pytest.mark.parametrize("name", NAMES)
def test_each_parameter_is_said(name, tmp_path):
    """Changed, the model of the file has it, and MuJoCo steps that as we step the model. A new field is red here until a file has it."""
    if name in DESIGN | MESHES:
        return
    model = load(OWN[0])
    p = model.params[name]
    if name in OURS:
        return check_unsaid(name, tmp_path)
    if name in DELAYS:
        return check_delays(name, tmp_path)
    paths = models_of(name)
    if p.derived:
        return
    assert paths, f"no model has {name}"
    for path in paths:
        model = load(path)
        theta = model.theta.copy()
        model.param(theta, name)[:] = changed(model, name, np.random.default_rng(oracle.seed(name)))
        theta = model.constants(theta)
        back, said = there_and_back(model, tmp_path, theta)
        assert not said, said
        assert not off((model, theta), (back, back.theta)) and (model.param(theta, name) != model.param(model.theta, name)).any()
        one = steps_apart(model, theta, oracle.load(back.path), (name, oracle.name(path)))
        run, steps = run_apart(path, theta, back.path, (name, oracle.name(path)))
        print(f"{name} {oracle.name(path)}: one step {one:.1e}, {steps} steps {run:.1e}")
        assert one <= 1e-12 and run <= 1e-10 and steps > 20


def check_delays(name, folder):
    """A delay that was found: the file has it, and MuJoCo, whose history begins as ours does, goes on as we do."""
    path = folder / "delayed.xml"
    path.write_text(DELAYED)
    model = load(path)
    theta = model.theta.copy()
    model.param(theta, name)[0] = .0137
    back, said = there_and_back(model, folder, theta)
    assert not said and not off((model, theta), (back, back.theta))
    m = mj.MjModel.from_xml_path(back.path)
    assert getattr(m, name).tolist() == [.0137, 0]
    d, r, x = mj.MjData(m), np.random.default_rng(5), model.state([0.], [1.], [])
    for u in r.normal(0, 1, (60, 2)):
        d.qvel[:] = 1 if d.time == 0 else d.qvel
        d.ctrl[:] = u
        mj.mj_step(m, d)
        x, _ = model.step(x, u, theta=theta)
        assert abs(model.parts(x)[0] - d.qpos).max() < 1e-12


def check_unsaid(name, folder):
    """What MJCF has no word for is told by name."""
    path = next(p for p in OWN if load(p).param(load(p).theta, name).size)
    model = load(path)
    theta = model.theta.copy()
    model.param(theta, name)[0, 0] += .25
    said = model.save(os.path.join(folder, "a.xml"), theta)
    assert len(said) == 1 and said[0].startswith(name) and "in the file" in said[0], said


def test_numbers_that_only_the_model_has_are_told(tmp_path):
    """One of several numbers for which a file has one."""
    path = tmp_path / "m.xml"
    path.write_text("""<mujoco><worldbody>
        <body name="b" pos="0 0 1"><joint name="ball" type="ball" damping=".1"/><geom size=".1" pos=".2 0 0"/></body>
        <body name="f" pos="1 0 1"><freejoint name="free"/><geom name="g" size=".1" fluidshape="ellipsoid"/></body>
        <body name="h"><joint name="hinge"/><geom size=".1"/><site name="s"/></body></worldbody>
        <actuator><general name="servo" joint="hinge" biastype="affine" gainprm="3" biasprm="0 -3 -.1"/></actuator></mujoco>""")
    model = load(path)
    for entry, value, told in (("dof_damping:ball:1", .2, "dof_damping:1: 0.2, in the file 0.1"), ("qpos0:free:0", 1.5, "body_pos:f:0: 1, in the file 1.5"),
                               ("body_gravcomp:0", .5, "body_gravcomp:world: 0.5, in the file 0"), ("geom_fluid:g:7", .1, "geom_fluid:g:7"),
                               ("actuator_biasprm:servo:2", .1, "actuator_biasprm:servo:2: 0.1"),
                               ("dof_invweight0:hinge", 9, "dof_invweight0: 1 of 10 rows follow")):
        theta, p = model.theta.copy(), inside.native.pbParam()
        name = entry.replace("ball:1", "1").replace("free:0", "11")
        inside.native.pbModel_Param(model.ctx, model.ptr, name.replace("qpos0:11", "qpos0:4"), p)
        theta[p.offset] = value
        said = model.save(tmp_path / "out.xml", theta)
        assert any(told in line for line in said), (entry, said)


# ---- shapes -------------------------------------------------------------------------------------------------------------------
TETRA = "v 0 0 0\nv .3 0 0\nv 0 .2 0\nv 0 0 .25\nf 1 3 2\nf 1 2 4\nf 2 3 4\nf 1 4 3\n"
SHAPES = """<mujoco><compiler meshdir="parts"/><option timestep=".002"/>
  <asset><mesh name="wedge" file="wedge.obj" scale="1 1.1 .9" refpos=".01 0 .02" refquat="1 .1 0 0"/><mesh name="tri" vertex="0 0 0 .1 0 0 0 .13 0 0 0 .17"/>
    <hfield name="hills" nrow="3" ncol="4" elevation="0 1 2 0 .5 .3 1 1 2 .25 0 1" size="2 1.5 .3 .1"/></asset>
  <worldbody><geom name="ground" type="hfield" hfield="hills" pos=".1 0 -.4"/>
    <body name="b" pos="0 0 .4" euler="10 20 0"><freejoint name="j"/>
      <frame euler="0 30 0"><geom name="w" type="mesh" mesh="wedge" euler="5 0 0" pos=".1 0 0"/></frame>
      <geom name="t" type="mesh" mesh="tri" pos="0 .2 .1"/></body></worldbody></mujoco>"""


@pytest.fixture
def shapes(tmp_path):
    (tmp_path / "in" / "parts").mkdir(parents=True)
    (tmp_path / "in" / "parts" / "wedge.obj").write_text(TETRA)
    (tmp_path / "in" / "m.xml").write_text(SHAPES)
    (tmp_path / "out").mkdir()
    return tmp_path


def points(model, x, theta=None):
    """Vertices of the meshes in the world, as far as the model has them as compiled."""
    model.observe(x, theta=theta)
    place, turn, f, out = model.field("geom_xpos"), model.field("geom_xmat"), model.fields(), []
    for g in np.flatnonzero((f["geom_type"] == 7).ravel()):
        k = f["geom_dataid"][g, 0]
        at, n = f["mesh_vertadr"][k, 0], f["mesh_vertnum"][k, 0]
        out.append(place[g] + f["mesh_vert"][at:at + n] @ turn[g].reshape(3, 3).T)
    return np.concatenate(out)


def test_meshes_and_fields_as_they_are(shapes):
    """By their files, as seen from the new one; what has none stands in it."""
    model = load(shapes / "in" / "m.xml")
    back, said = there_and_back(model, shapes / "out", allow_root=str(shapes / "in"))
    text = (shapes / "out" / "first.xml").read_text()
    assert not said and 'file="../in/parts/wedge.obj"' in text and "elevation=" in text and text.count("vertex=") == 1
    assert not off((model, model.theta), (back, back.theta))
    m = oracle.load(back.path)
    assert not test_compile.faults(back.fields(), oracle.compiled(back.path)) and m.nmesh == 2


def test_moved_geoms_of_meshes(shapes):
    """Their frames are those of the mass: the file says that of the mesh's file."""
    model, r = load(shapes / "in" / "m.xml"), np.random.default_rng(4)
    theta = model.theta.copy()
    model.param(theta, "geom_pos")[:] += r.uniform(-.05, .05, (3, 3))
    model.param(theta, "geom_quat")[:] = turned(model.param(theta, "geom_quat"), r)
    theta = model.constants(theta)
    back, said = there_and_back(model, shapes / "out", theta, allow_root=str(shapes / "in"))
    assert not said and not off((model, theta), (back, back.theta))
    m = oracle.compiled(back.path)
    assert np.abs(m.geom_pos - model.param(theta, "geom_pos")).max() < 1e-9


def test_a_mesh_whose_file_is_gone_stands_in_the_file(shapes):
    model = load(shapes / "in" / "m.xml")
    (shapes / "in" / "parts" / "wedge.obj").unlink()
    back, said = there_and_back(model, shapes / "out")
    assert not said and (shapes / "out" / "first.xml").read_text().count("vertex=") == 2
    assert not off((model, model.theta), (back, back.theta))


@pytest.mark.parametrize("name, change", [("mesh_scale", [[1.2, .9, 1], [1, 1.3, 1]]), ("mesh_refpos", [[.05, .01, 0], [0, .02, 0]]),
                                          ("mesh_refquat", [[.9, .2, .1, 0], [.8, 0, .6, 0]])])
def test_changed_meshes_stand_where_they_stood(shapes, name, change):
    """The shape in the world is the run's: MuJoCo steps the file as the model steps."""
    model = load(shapes / "in" / "m.xml", options={"contact": "disable"})
    theta = model.theta.copy()
    model.param(theta, name)[:] = change
    if name == "mesh_refquat":
        model.param(theta, name)[:] /= np.linalg.norm(change, axis=1, keepdims=True)
    back, said = there_and_back(model, shapes / "out", theta, allow_root=str(shapes / "in"))
    assert not said, said
    assert (np.abs(back.param(back.theta, name) - model.param(theta, name)) <= 1e-14).all()
    rest = set(off((model, theta), (back, back.theta)))
    assert rest <= {"geom_pos", "geom_quat", "geom_size"}, rest

    # Vertices by the map of the run: those of the file in the world, from a model of the original file with the new numbers.
    words = {"mesh_scale": "scale", "mesh_refpos": "refpos", "mesh_refquat": "refquat"}
    text = SHAPES.replace('name="tri"', 'name="tri" scale="1 1 1" refpos="0 0 0" refquat="1 0 0 0"')
    for k, mesh in enumerate(("wedge", "tri")):
        numbers = " ".join(map(repr, model.param(theta, name)[k].tolist()))
        text = re.sub(rf'(name="{mesh}".*?{words[name]})="[^"]*"', rf'\g<1>="{numbers}"', text, count=1)
    (shapes / "in" / "n.xml").write_text(text)
    new = load(shapes / "in" / "n.xml")
    assert np.abs(points(new, new.init()) - points(back, back.init())).max() < 1e-6


def test_changed_vertices_and_heights(shapes):
    """They are parameters on request: the file has them, in single precision."""
    model = load(shapes / "in" / "m.xml", expose=[b"mesh_vert:wedge", b"hfield_data:hills"])
    back, said = there_and_back(model, shapes / "out", allow_root=str(shapes / "in"))
    assert not said
    theta, r = model.theta.copy(), np.random.default_rng(3)
    model.param(theta, "mesh_vert:wedge")[:] *= 1.1
    model.param(theta, "hfield_data:hills")[:] = r.uniform(.2, 1.7, model.param(theta, "hfield_data:hills").shape)
    back, said = there_and_back(model, shapes / "out", theta)
    assert sorted(line.split(":")[0] for line in said) == ["hfield_data", "mesh_vert"] and all("single precision" in line for line in said)

    # Rays would see the same terrain: heights above the world's floor.
    f, g = model.fields(), back.fields()
    ours = model.param(theta, "hfield_data:hills") * f["hfield_size"][0, 2] + f["geom_pos"][0, 2]
    theirs = g["hfield_data"].reshape(ours.shape) * g["hfield_size"][0, 2] + back.param(back.theta, "geom_pos")[0, 2]
    assert np.abs(ours - theirs).max() < 1e-6
    base = lambda m, t, f: m.param(t, "geom_pos")[0, 2] - f["hfield_size"][0, 3]
    assert abs(base(model, theta, f) - base(back, back.theta, g)) < 1e-12
    assert oracle.compiled(back.path).nhfield == 1


def test_designs_become_what_they_weigh(shapes):
    model = load(shapes / "in" / "m.xml", design=True)
    theta = model.theta.copy()
    model.param(theta, "geom_density")[1:] = 700
    model.param(theta, "mesh_scale")[0] *= 1.3
    theta = model.constants(theta)
    back, said = there_and_back(model, shapes / "out", theta, allow_root=str(shapes / "in"))
    assert not said, said
    mass = model.param(theta, "body_mass")
    assert (back.param(back.theta, "body_mass") == mass).all() and (mass[1] != model.param(model.theta, "body_mass")[1]).all()
    assert set(off((model, theta), (back, back.theta))) <= DESIGN | {"geom_pos", "geom_quat", "geom_size"}


# ---- robots -------------------------------------------------------------------------------------------------------------------
def test_robots_come_back(tmp_path, long_run):
    """A draw of those of the test beds: all with --long, and in make check-robots."""
    drawn = robots.mjcf() if long_run else robots.draw(robots.mjcf(), 12)
    bad = {r.name: robot_checks.export_faults(r, tmp_path) for r in drawn}
    assert not any(bad.values()), {n: b for n, b in bad.items() if b}


def test_urdf_robots_come_back_as_mjcf(tmp_path, long_run):
    drawn = robots.urdf() if long_run else robots.draw(robots.urdf(), 4)
    bad = {r.name: robot_checks.export_faults(r, tmp_path, floating_base=True, motors=True, inertia=inside.native.pb_inertiaKeep,
                                              missing_meshes=inside.native.pb_missingSkip) for r in drawn}
    assert not any(bad.values()), {n: b for n, b in bad.items() if b}


# ---- the command --------------------------------------------------------------------------------------------------------------
TASK = {"model": "m.xml", "steps": 20, "parameters": {"gravity": [0, 0, -5]},
        "variables": [{"parameter": "dof_damping:j", "start": .3, "lower": 0, "upper": 2}],
        "loss": [{"qpos": True, "target": [-.1]}], "optimizer": {"iterations": 3}}
BALL = """<mujoco><worldbody><body name="b"><joint name="j" axis="0 1 0" damping=".1"/><geom size=".1" pos=".2 0 0"/></body></worldbody></mujoco>"""


@pytest.fixture
def ball(tmp_path):
    (tmp_path / "m.xml").write_text(BALL)
    (tmp_path / "task.json").write_text(json.dumps(TASK))
    return tmp_path


def test_the_command_writes_what_was_found(run, ball):
    run("optimize", ball / "task.json", "-q", "-o", ball / "r.json", code=(0, 1))
    damping = json.loads((ball / "r.json").read_text())["parameters"]["dof_damping:j"]
    for what, more, wanted, gravity in (("m.xml", ("--result", ball / "r.json"), damping, -9.81), ("task.json", ("--result", ball / "r.json"), damping, -5),
                                        ("task.json", (), .3, -5), ("m.xml", ("--param", "dof_damping:j=0.4"), .4, -9.81)):
        done = run("export", ball / what, *more, "-o", ball / "out.xml", "--strict")
        assert not done.stderr and not done.stdout
        m = mj.MjModel.from_xml_path(str(ball / "out.xml"))
        assert m.dof_damping[0] == wanted and m.opt.gravity[2] == gravity

    # when the solver ends is said, too
    run("export", ball / "m.xml", "--option", "tolerance=1e-6", "--option", "iterations=7", "-o", ball / "out.xml", "--strict")
    m = mj.MjModel.from_xml_path(str(ball / "out.xml"))
    assert m.opt.tolerance == 1e-6 and m.opt.iterations == 7

    # to a pipe, too
    assert run("export", ball / "m.xml", "-o", "/dev/stdout").stdout.startswith("<mujoco>\n  <compiler")


def test_what_cannot_be_said_is_told(run, ball):
    """On standard error; --strict ends with 1, and the file is there."""
    done = run("export", ball / "m.xml", "--contact", "method=cones", "--param", "geom_restitution:0=0.3", "-o", ball / "out.xml")
    assert done.stderr.splitlines()[0] == "pullback export: MJCF cannot say:"
    assert "  geom_restitution:0: 0.3, in the file 0" in done.stderr and "--contact method=cones: in the file soft" in done.stderr
    (ball / "out.xml").unlink()
    run("export", ball / "m.xml", "--contact", "method=cones", "--strict", "-q", "-o", ball / "out.xml", code=1)
    assert mj.MjModel.from_xml_path(str(ball / "out.xml")).nv == 1

    cloth = os.path.join(inside.ROOT, "examples", "cloth", "drape.json")
    done = run("export", cloth, "-o", ball / "cloth.xml")
    assert "deformables: " in done.stderr
    policy = {"observe": [{"qpos": True}], "layers": [{"dense": 1}], "output": {"force": True}}
    (ball / "policy.json").write_text(json.dumps(policy))
    assert "the policy" in run("export", ball / "m.xml", "--policy", ball / "policy.json", "-o", ball / "out.xml").stderr


def test_mistakes_leave_files_alone(run, ball):
    (ball / "out.xml").write_text("before")
    for words, code, said in ((("m.xml", "-o", "m.xml"), 2, "is what the command reads"), (("m.xml", "-o", "out.json"), 2, "writes .xml files"),
                              (("m.xml",), 2, "--output FILE is missing"), (("gone.xml", "-o", "out.xml"), 5, "gone.xml"),
                              (("m.xml", "--param", "dof_damping:k=1", "-o", "out.xml"), 2, "'k'"),
                              (("m.xml", "--param", "body_mass:b=-1", "-o", "out.xml"), 3, "body_mass"),
                              (("m.xml", "--result", "gone.json", "-o", "out.xml"), 5, "gone.json"),
                              (("m.xml", "-o", "nowhere/out.xml"), 5, "nowhere")):
        done = run("export", *words, cwd=ball, code=code)
        assert said in done.stderr, done.stderr
    assert (ball / "out.xml").read_text() == "before" and (ball / "m.xml").read_text() == BALL


def test_a_model_without_its_source_is_refused(ball):
    model = inside.Model(str(ball / "m.xml"))
    with pytest.raises(inside.Error, match="load it from its file"):
        model.save(ball / "out.xml")


def test_names_are_written_as_they_are(tmp_path):
    """Signs that XML has other uses for."""
    path, name = tmp_path / "m.xml", "a&amp;b &lt;c> &quot;d&quot; &#10;e"
    path.write_text(f'<mujoco model="{name}"><worldbody><body name="{name}"><joint/><geom size=".1"/></body></worldbody></mujoco>', encoding="utf-8")
    model = load(path)
    back, _ = there_and_back(model, tmp_path)
    names = [inside.native.pbModel_Name(m.ptr, inside.native.pb_objBody, 1) for m in (model, back)]
    assert names[0] == names[1] == b'a&b <c> "d" \ne'
    assert mj.MjModel.from_xml_path(back.path).body(1).name == names[0].decode()
