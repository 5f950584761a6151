"""URDF: dynamics as Pinocchio's, compiled fields as MuJoCo's, what is refused and what is ignored."""
import concurrent.futures
import json
import os
import time
import xml.etree.ElementTree as ET

import mujoco as mj
import numpy as np
import pytest

import oracle
import inside
import pinned
import robots
import test_compile

REFUSE, KEEP, REPAIR = 0, 1, 2
REPEATED = "_collision_spheres.collision"  # the same robots with other shapes


def text_of(robot, drop):
    """The file's text without the visual and collision elements that `drop` says."""
    root = ET.parse(robot.path).getroot()
    for link in root.findall("link"):
        for shape in link.findall("visual") + link.findall("collision"):
            if drop(shape):
                link.remove(shape)
    return root


def written(tmp_path, root):
    path = os.path.join(tmp_path, "robot.urdf")
    ET.ElementTree(root).write(path)
    return path


def load(tmp_path, text, **options):
    path = os.path.join(tmp_path, "robot.urdf")
    with open(path, "w") as f:
        f.write(text)
    return inside.Model(path, urdf=options)


def drawn(long_run, count):
    """Robots with different links and joints."""
    distinct = [r for r in robots.urdf() if REPEATED not in r.path]
    return robots.urdf() if long_run else robots.draw(distinct, count)


# ---- against Pinocchio ------------------------------------------------------------------------------------------------------
def gap(ours, theirs):
    return float(np.abs(ours - theirs).max(initial=0) / max(1, np.abs(theirs).max(initial=0)))


def dynamics_gaps(model, robot, states, seed):
    """Worst differences of mass, M(q), bias forces, placements of links, derivatives of accelerations."""
    rng, worst = np.random.default_rng(seed), dict(mass=abs(model.fields()["body_mass"].sum() - robot.mass()))
    see = lambda key, value: worst.__setitem__(key, max(worst.get(key, 0), value))
    h, nv = float(model.param(model.theta, "timestep")[0, 0]), model.nv
    for _ in range(states):
        (qpos, qvel, tau), theirs = robot.state(rng)
        x = model.state(qpos, qvel)
        model.observe(x, qfrc=tau)
        model.gather()
        M, bias = robot.dynamics(*theirs[:2])
        see("M", gap(model.field("M"), M))
        see("bias", gap(model.field("qfrc_bias").ravel(), bias))

        names, places, turns = robot.placements(theirs[0])
        at = [robot.bodies.index(n) for n in names]
        see("places", gap(model.field("xpos")[at], np.array(places)))
        ours = np.array([pinned.pin.Quaternion(*q).matrix() for q in model.field("xquat")[at]])
        see("turns", gap(ours, np.array(turns)))

        _, _, record = model.step_recorded(x, qfrc=tau)
        A = model.jacobian(record, qfrc=tau)[0][nv:2 * nv]
        by_q, by_v = robot.derivatives(*theirs)
        see("da/dq", gap(A[:, :nv] / h, by_q))
        see("da/dv", gap((A[:, nv:2 * nv] - np.eye(nv)) / h, by_v))
    return worst


def compared(tmp_path, text, floating, states=10):
    path = os.path.join(tmp_path, "robot.urdf")
    with open(path, "w") as f:
        f.write(text)
    model = inside.Model(path, urdf=dict(inertia=KEEP, floating_base=floating), options={"constraint": "disable"})
    for name in ("dof_damping", "dof_frictionloss"):
        model.param(model.theta, name)[...] = 0
    return dynamics_gaps(model, pinned.Robot(text, model, floating), states, oracle.seed(text, floating))


def assert_close(worst, what):
    bad = {k: v for k, v in worst.items() if not v < (1e-8 if k.startswith("da") else 1e-10)}
    assert not bad, (what, bad)


@pytest.mark.parametrize("floating", [False, True], ids=["fixed", "floating"])
def test_dynamics_are_pinocchios(tmp_path, long_run, floating):
    worst = {}
    for robot in drawn(long_run, 5):
        text = ET.tostring(text_of(robot, lambda shape: True)).decode()
        try:
            found = compared(tmp_path, text, floating, 10 if long_run else 3)
        except inside.Error as error:  # a base without mass that floats, with a floating joint on it
            assert "hyqreal2" in robot.path and floating and "mass matrix is singular" in str(error)
            continue
        assert_close(found, robot.name)
        worst = {k: max(v, worst.get(k, 0)) for k, v in found.items()}
    print(worst)


# One of each kind: a planar joint that turns about z, as Pinocchio has it, and a floating one on what moves.
EVERY_JOINT = """<robot name="every">
  <link name="base"><inertial><mass value="3"/><inertia ixx="0.2" iyy="0.3" izz="0.3" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="a"><inertial><origin xyz="0.1 0 0.2" rpy="0.3 -0.4 0.5"/><mass value="1.5"/>
    <inertia ixx="0.1" iyy="0.12" izz="0.13" ixy="0.01" ixz="-0.02" iyz="0.005"/></inertial></link>
  <link name="b"><inertial><mass value="2"/><inertia ixx="0.2" iyy="0.3" izz="0.4" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="c"><inertial><origin xyz="0 0.1 0"/><mass value="0.7"/><inertia ixx="0.02" iyy="0.03" izz="0.02" ixy="0" ixz="0" iyz="0.001"/></inertial></link>
  <link name="d"><inertial><origin xyz="0.2 0.1 0"/><mass value="0.4"/><inertia ixx="0.02" iyy="0.03" izz="0.02" ixy="0" ixz="0" iyz="0.001"/></inertial></link>
  <link name="e"><inertial><origin xyz="0 0 0.1"/><mass value="0.3"/><inertia ixx="0.01" iyy="0.01" izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="tip"/>
  <joint name="plane" type="planar"><origin xyz="0 0 1" rpy="0.1 0.2 0.3"/><parent link="base"/><child link="a"/><axis xyz="0 0 1"/></joint>
  <joint name="turn" type="revolute"><origin xyz="0.3 0 0" rpy="0 1 0"/><parent link="a"/><child link="b"/><axis xyz="1 2 3"/>
    <limit lower="-1" upper="2" effort="5" velocity="1"/></joint>
  <joint name="spin" type="continuous"><origin xyz="0 0.3 0"/><parent link="b"/><child link="c"/></joint>
  <joint name="slide" type="prismatic"><origin xyz="0 0 0.2" rpy="0 0 2"/><parent link="c"/><child link="d"/><axis xyz="0 1 1"/>
    <limit lower="0" upper="0.5" effort="10" velocity="1"/></joint>
  <joint name="loose" type="floating"><origin xyz="0.1 0 0.2" rpy="1 0 0"/><parent link="d"/><child link="e"/></joint>
  <joint name="end" type="fixed"><origin xyz="0.1 0 0"/><parent link="e"/><child link="tip"/></joint>
</robot>"""


@pytest.mark.parametrize("floating", [False, True], ids=["fixed", "floating"])
def test_every_kind_of_joint(tmp_path, floating):
    assert_close(compared(tmp_path, EVERY_JOINT, floating), "every kind of joint")


def test_the_comparison_sees_a_moved_axis(tmp_path):
    model = load(tmp_path, EVERY_JOINT.replace('xyz="1 2 3"', 'xyz="1 2 3.00001"'), inertia=KEEP)
    worst = dynamics_gaps(model, pinned.Robot(EVERY_JOINT, model, False), 1, 1)
    assert worst["M"] > 1e-10 and worst["bias"] > 1e-10


# ---- against MuJoCo ---------------------------------------------------------------------------------------------------------
def with_settings(root, fuse):
    element = ET.SubElement(root, "mujoco")
    ET.SubElement(element, "compiler", fusestatic="true" if fuse else "false", discardvisual="false", strippath="false", balanceinertia="false")


def near(ours, m):
    """Sentences on compiled fields that differ by more than 1e-10."""
    strict = test_compile.excess
    test_compile.excess = lambda a, b: strict(a, b, relative=1e-10)
    try:
        return test_compile.faults(ours, m)
    finally:
        test_compile.excess = strict


def without_size(shape):
    sphere = shape.find("geometry/sphere")
    return sphere is not None and float(sphere.get("radius")) == 0


def file_of(robot, name):
    """The file that a mesh's name means, found by the rules of this test alone."""
    if name.startswith("package://"):
        package, rest = name[len("package://"):].split("/", 1)
        return os.path.join(robots.folder_of(package), rest)
    return os.path.normpath(os.path.join(os.path.dirname(robot.path), name))


def with_links(robot, root, folder, meshes):
    """Where meshes are wanted, collision meshes of the kinds that MuJoCo reads, each file by a name of its own (MuJoCo tells meshes apart by the names of their
    files alone); no others, no visual ones, and no shapes without size."""
    made = {}
    for link in root.findall("link"):
        for shape in link.findall("visual") + link.findall("collision"):
            mesh = shape.find("geometry/mesh")
            path = file_of(robot, mesh.get("filename")) if mesh is not None else ""
            ending = os.path.splitext(path)[1].lower()
            if path and (not meshes or shape.tag == "visual" or ending not in (".stl", ".obj") or not os.path.exists(path)) or without_size(shape):
                link.remove(shape)
            elif path:
                if path not in made:
                    made[path] = f"mesh{len(made)}{ending}"
                    os.symlink(path, os.path.join(folder, made[path]))
                mesh.set("filename", made[path])


def turned(ours, m):
    """Mesh geoms whose frames differ by a quarter turn: two principal moments agree to rounding there, and any order of them is right."""
    found = []
    for k in np.flatnonzero(m.geom_type == mj.mjtGeom.mjGEOM_MESH):
        inverse, between = np.zeros(4), np.zeros(4)
        mj.mju_negQuat(inverse, m.geom_quat[k])
        mj.mju_mulQuat(between, inverse, ours["geom_quat"][k])
        size = np.sort(np.abs(between))
        if size[2] > 1e-6 and np.abs(size - [0, 0, 0.5**0.5, 0.5**0.5]).max() < 1e-6:
            found.append(k)
    return found


@pytest.mark.parametrize("fuse", [False, True], ids=["whole", "fused"])
def test_fields_are_mujocos(tmp_path, long_run, fuse):
    """Collision meshes too, which do not depend on what is fused. Where MuJoCo refuses a file, so do we, or we say more."""
    for k, robot in enumerate(drawn(long_run, 3)):
        folder = tmp_path / str(k)
        folder.mkdir()
        root = ET.parse(robot.path).getroot()
        with_links(robot, root, folder, not fuse)
        try:
            model, error = inside.Model(written(folder, root), allow_root=robot.allow_root, urdf=dict(fuse=fuse)), None
        except inside.Error as raised:
            model, error = None, str(raised)
        with_settings(root, fuse)
        try:
            m = robots.quiet(lambda: mj.MjModel.from_xml_path(written(folder, root)))
        except ValueError as raised:
            known = any(word in str(raised) for word in ("top level", "size 0", "coplanar"))  # hyqreal2, cookie, stretch
            kept = model and "inertia" in str(raised) and "it is kept, since" in model.warnings()  # of a link that is fixed
            assert error or known or kept, (robot.name, str(raised))
            continue
        assert model, (robot.name, error)
        fields = model.fields()
        ties = turned(fields, m)
        for field in ("geom_size", "geom_quat", "geom_aabb") if ties else ():
            print(robot.name, "equal moments at geoms", ties)
            fields[field][ties] = oracle.get_field(m, field)[ties]
        bad = near(fields, m)
        assert not bad, f"{robot.name}\n" + "\n".join(bad)


@pytest.mark.parametrize("fuse", [False, True], ids=["whole", "fused"])
def test_every_kind_of_joint_compiles_equal(tmp_path, fuse):
    """But for the floating joint, which MuJoCo refuses there."""
    text = EVERY_JOINT.replace('type="floating"', 'type="spherical"')
    with_settings(root := ET.fromstring(text), fuse)
    bad = near(load(tmp_path, text, fuse=fuse).fields(), mj.MjModel.from_xml_string(ET.tostring(root).decode()))
    assert not bad, "\n".join(bad)


# ---- all files --------------------------------------------------------------------------------------------------------------
def test_every_file_loads_or_is_refused_with_line_and_reason():
    def load_file(robot):
        try:
            inside.Model(robot.path, allow_root=robot.allow_root, urdf=dict(inertia=KEEP))
            return None
        except inside.Error as error:
            return robot.name, str(error)

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        refused = dict(filter(None, pool.map(load_file, robots.urdf())))
    print(f"{len(refused)} of {len(robots.urdf())} refused", *(f"{n}: {e}" for n, e in refused.items()), sep="\n")
    assert all(".urdf:" in e for e in refused.values())
    # Four whose meshes that collide are not in their package.
    assert sum("cannot be found" in e for e in refused.values()) == 4 == len(refused)


# ---- what a file says -------------------------------------------------------------------------------------------------------
BOX = '<geometry><box size="1 1 1"/></geometry>'
INERTIA = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'


def chain(extra="", joint="", link=INERTIA, head="", kind="revolute"):
    return f"""<robot name="r">{head}
<link name="a"/>
<link name="b">{link}</link>
<joint name="j" type="{kind}"><parent link="a"/><child link="b"/>{joint}</joint>
{extra}</robot>"""


def another(name="k", parent="b", child="c", joint="", kind="revolute"):
    return f'<link name="{child}">{INERTIA}</link><joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>{joint}</joint>'


BAD = [
    ("no links", "<robot name='r'/>", "has no links"),
    ("a name twice", chain('<link name="b"/>'), ":5:1: link 'b': there are two"),
    ("joint twice", chain(another("j")), "joint 'j': there are two"),
    ("no link of that name", chain(another(child="c", parent="B")), "did you mean 'b'"),
    ("no child", '<robot><link name="a"/><joint name="j" type="fixed"><parent link="a"/></joint></robot>', "'child' is missing"),
    ("two parents", chain('<joint name="k" type="fixed"><parent link="a"/><child link="b"/></joint>'), "has two parents: it is the child of joint 'j' (line 4)"),
    ("own parent", chain('<joint name="k" type="fixed"><parent link="a"/><child link="a"/></joint>'), "its own parent"),
    ("cycle", chain('<joint name="k" type="fixed"><parent link="b"/><child link="a"/></joint>'), "their own ancestors"),
    ("cycle beside", chain(another("k", "d", "c") + '<link name="d"/><joint name="l" type="fixed"><parent link="c"/><child link="d"/></joint>'), "does not reach"),
    ("two roots", chain('<link name="c"/>'), "two roots: no joint has this link or 'a' (line 2)"),
    ("no type", chain(kind=""), "'type' is missing"),
    ("wrong type", chain(kind="hinge"), "expected one of: revolute"),
    ("mimics itself", chain(joint='<mimic joint="j"/>'), "mimics itself"),
    ("loop of mimics", chain(another(joint='<mimic joint="j"/>'), joint='<mimic joint="k"/>'), "mimics itself"),
    ("mimics a floating one", chain(another(kind="floating"), joint='<mimic joint="k"/>'), "only revolute"),
    ("not a number", chain(joint='<origin xyz="0 0 x"/>'), "where a finite number is expected"),
    ("infinite", chain(joint='<origin xyz="0 0 inf"/>'), "where a finite number is expected"),
    ("two numbers", chain(joint='<origin xyz="0 0"/>'), "has 2 numbers, expected 3"),
    ("no mass", chain(link='<inertial><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'), "'mass' is missing"),
    ("a moment is missing", chain(link='<inertial><mass value="1"/><inertia ixx="1"/></inertial>'), "'iyy' is missing"),
    ("no inertia", chain(link=""), "it moves, so its mass"),
    ("negative inertia", chain(link=INERTIA.replace('ixx="1"', 'ixx="-1"')), "--inertia keep"),
    ("no triangle", chain(link=INERTIA.replace('ixx="1"', 'ixx="3"')), "each is at most the sum of the other two; --inertia keep"),
    ("carried, no triangle", chain(another(kind="fixed").replace('ixx="1"', 'ixx="9"')), "each is at most the sum of the other two; --inertia keep"),
    ("density of nothing", chain(link='<inertial><density value="3"/></inertial>'), "no shape that collides"),
    ("negative density", chain(link=f'<inertial><density value="-3"/></inertial><collision>{BOX}</collision>'), "'value' is -3"),
    ("zero axis", chain(joint='<axis xyz="0 0 0"/>'), "axis is too short"),
    ("planar zero axis", chain(joint='<axis xyz="0 0 0"/>', kind="planar"), "its axis is zero"),
    ("no shape", chain(link=INERTIA + "<visual><geometry/></visual>"), "has no shape"),
    ("unknown shape", chain(link=INERTIA + "<visual><geometry><cone/></geometry></visual>"), "expected one of box"),
    ("no geometry", chain(link=INERTIA + "<collision/>"), "'geometry' is missing"),
    ("negative size", chain(link=INERTIA + '<collision><geometry><sphere radius="-1"/></geometry></collision>'), "has a negative size"),
    ("negative friction", chain(joint='<dynamics friction="-2"/>'), "dynamics: attribute 'friction' is -2, expected zero"),
    ("xacro", '<robot xmlns:xacro="x"><xacro:property name="n" value="1"/><link name="a"/></robot>', "expand the file first, by 'xacro"),
    ("expression", chain(joint='<origin xyz="${x} 0 0"/>'), "is for xacro"),
    ("section", chain(head="<mujoco><nobody/></mujoco>"), "there is no such element in 'mujoco'"),
    ("unknown setting", chain(head='<mujoco><compiler fuse="true"/></mujoco>'), "there is no attribute 'fuse'"),
    ("world below", chain(another(child="world")), "only the root can be the world"),
    ("package", chain(link=INERTIA + '<collision><geometry><mesh filename="package://none/a.stl"/></geometry></collision>'), "--package-path DIR"),
    ("no package", chain(link=INERTIA + '<collision><geometry><mesh filename="package:///a.stl"/></geometry></collision>'), "expected a package"),
    ("no file in it", chain(link=INERTIA + '<collision><geometry><mesh filename="package://"/></geometry></collision>'), "expected a package"),
    ("folder", chain(link=INERTIA + '<collision><geometry><mesh filename="a/"/></geometry></collision>'), "cannot be found"),
    ("scheme", chain(link=INERTIA + '<collision><geometry><mesh filename="http://a/a.stl"/></geometry></collision>'), "expected package://"),
    ("file", chain(link=INERTIA + '<collision><geometry><mesh filename="a.stl"/></geometry></collision>'), "cannot be found"),
]


@pytest.mark.parametrize("text,said", [b[1:] for b in BAD], ids=[b[0] for b in BAD])
def test_bad_files_are_errors_with_file_and_line(tmp_path, text, said):
    with pytest.raises(inside.Error) as raised:
        load(tmp_path, text)
    assert said in str(raised.value) and "robot.urdf:" in str(raised.value)


MASS, TENSOR = '<mass value="1"/>', '<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/>'
COLOR = '<material name="m"><color rgba="1 0 0 1"/>{}</material>'
ONCE = {
    **{name: chain(joint=text * 2) for name, text in (("origin", "<origin/>"), ("axis", '<axis xyz="1 0 0"/>'), ("limit", "<limit/>"), ("dynamics", "<dynamics/>"),
                                                      ("mimic", '<mimic joint="k"/>'))},
    **{name: chain(joint=f'<{name} link="b"/>') for name in ("parent", "child")},
    **{name: chain(link=INERTIA.replace(text, text + "\n" + text.replace('"1"', '"2"')))
       for name, text in (("mass", MASS), ("inertia", TENSOR), ("inertial", INERTIA))},
    "geometry": chain(link=f"{INERTIA}<collision>{BOX}{BOX}</collision>"),
    "color": chain(head=COLOR.format('<color rgba="1 0 0 1"/>')), "mujoco": chain(head="<mujoco/><mujoco/>"),
}


@pytest.mark.parametrize("name", ONCE)
def test_repeated_elements_are_refused_as_in_mujoco(tmp_path, name):
    with pytest.raises(ValueError, match=f"repeated element: '{name}'"):
        mj.MjModel.from_xml_string(ONCE[name])
    with pytest.raises(inside.Error, match=rf"robot.urdf:\d+:\d+: {name}.*: repeated element: '\w+' has one already \(line [1-4]\)"):
        load(tmp_path, ONCE[name])


def test_kinds_that_are_ignored_are_said_once(tmp_path):
    extra = "<transmission name='t'/><transmission name='u'/><gazebo><x y='1'/></gazebo><ros2_control/>"
    model = load(tmp_path, chain(extra, joint="<safety_controller k_velocity='1'/><limit lower='0' upper='1' effort='2' velocity='3' jerk='4'/>"))
    said = model.warnings().splitlines()
    for what in ("element robot/transmission", "element robot/gazebo", "element robot/ros2_control", "element joint/safety_controller",
                 "attribute 'jerk' of joint/limit", "limits of velocity"):
        assert len([s for s in said if what in s and "robot.urdf:" in s]) == 1, what
    assert len(said) == 6


def test_limits_that_do_not_hold(tmp_path):
    for limit in ('lower="1"', 'upper="1"', 'lower="1" upper="0"', 'lower="0" upper="0"'):
        text = chain(joint=f'<limit {limit} effort="-3"/>')
        model, m = load(tmp_path, text), mj.MjModel.from_xml_string(text)
        f = model.fields()
        assert f["jnt_limited"][0, 0] == m.jnt_limited[0] == 0 and (f["jnt_actfrcrange"][0] == m.jnt_actfrcrange[0]).all()
        assert "does not hold" in model.warnings()


def test_mimic_is_an_equality(tmp_path):
    text = chain(another(joint='<mimic joint="j" multiplier="-2" offset="0.1"/>') + another("l", "c", "d", '<mimic joint="j"/>'))
    f, m = load(tmp_path, text).fields(), mj.MjModel.from_xml_string(text)
    assert (f["eq_data"][:, :2] == [[0.1, -2], [0, 1]]).all() and (f["eq_data"][:, :5] == m.eq_data[:, :5]).all()


def test_chains_of_mimics_are_those_of_mujoco(tmp_path):
    text = chain(another(joint='<mimic joint="j" multiplier="-2" offset="0.1"/>') + another("l", "c", "d", '<mimic joint="k" multiplier="3"/>'))
    model, m = load(tmp_path, text), mj.MjModel.from_xml_string(text)
    f, d = model.fields(), mj.MjData(m)
    assert (f["eq_data"][:, :5] == m.eq_data[:, :5]).all() and (f["eq_obj2id"][:, 0] == m.eq_obj2id).all()
    d.qpos[:], d.qvel[:] = [0.1, -0.1, 0.3], [0.2, 0, 0]
    x = model.state(d.qpos, d.qvel)
    for _ in range(5):
        mj.mj_step(m, d)
        x = model.step(x, ctrl=[])[0]
    assert np.allclose(x[model.slots["qpos"]], d.qpos, rtol=0, atol=1e-9)


def test_mimics_of_nobody_move_freely(tmp_path):
    model = load(tmp_path, chain(joint='<mimic joint="z"/>'), motors=True)
    assert "there is no joint 'z': joint 'j' mimics none" in model.warnings() and model.fields()["neq"] == 0 and model.nu == 1


def test_flaws_that_change_nothing(tmp_path):
    """Repeated elements that say the same, several materials, one number for a scale: as without them, and said."""
    plain = load(tmp_path, chain()).fields()
    for name, text in (("mass", MASS), ("inertia", TENSOR)):
        twice = load(tmp_path, chain(link=INERTIA.replace(text, text * 2)))
        assert f"{name}: repeated element: 'inertial' has one already (line 3), which counts" in twice.warnings()
        assert all(np.array_equal(plain[k], v) for k, v in twice.fields().items())
    colors = "".join(f'<material name="{name}"><color rgba="{rgba}"/></material>' for name, rgba in (("m", "1 0 0 1"), ("n", "0 1 0 1")))
    seen = load(tmp_path, chain(link=f"{INERTIA}<visual>{BOX}{colors}</visual>"))
    assert (seen.fields()["geom_rgba"][0] == [1, 0, 0, 1]).all() and "material 'n'" in seen.warnings()

    (tmp_path / "corner.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n")
    mesh = '<collision><geometry><mesh filename="corner.obj" scale="{}"/></geometry></collision>'
    one, three = (load(tmp_path, chain(link=INERTIA + mesh.format(scale))) for scale in ("0.5", "0.5 0.5 0.5"))
    assert all(np.array_equal(v, one.fields()[k]) for k, v in three.fields().items())
    assert "one number, which counts for all three" in one.warnings() and "one number" not in three.warnings()


def test_density_instead_of_mass(tmp_path):
    shape = '<collision><geometry><box size=".1 .2 .3"/></geometry></collision>'
    model = load(tmp_path, chain(link=f'<inertial><density value="500"/></inertial>{shape}'))
    assert model.fields()["body_mass"][2, 0] == pytest.approx(3) and "at 500 kg/m^3" in model.warnings()


def test_inertia_is_judged_with_what_it_is_fixed_to(tmp_path):
    """A frame without a body's inertia, as published robots have: on a base that stands still, and on a link that is heavy."""
    thin = '<inertial><mass value="1e-6"/><inertia ixx="3e-6" iyy="1e-8" izz="1e-8" ixy="0" ixz="0" iyz="0"/></inertial>'
    negative = thin.replace('izz="1e-8"', 'izz="-1e-8"')
    for bad in (thin, negative):
        carried = chain(another(kind="fixed").replace(INERTIA, bad).replace("<joint", "<joint ", 1))
        still = chain().replace('<link name="a"/>', f'<link name="a">{bad}</link>')
        for text, why in ((carried, "with the links that it is fixed to"), (still, "its link stands still")):
            model, kept = load(tmp_path, text), load(tmp_path, text, inertia=KEEP)
            assert why in model.warnings() and all(np.array_equal(v, kept.fields()[k]) for k, v in model.fields().items())
            assert load(tmp_path, text, fuse=True).step(load(tmp_path, text, fuse=True).state([0.1], [1.0])) is not None
            a, b = (m.step(m.state([0.1], [1.0]))[0] for m in (model, kept))
            assert np.array_equal(a, b)
    alone = chain(link=thin)
    with pytest.raises(inside.Error, match="each is at most the sum of the other two; --inertia keep"):
        load(tmp_path, alone)


def test_mimics_and_fixed_joints(tmp_path):
    """One that is fixed mimics nothing; one that mimics it stands at the offset."""
    fixed = another(kind="fixed", joint='<mimic joint="z"/>')
    model = load(tmp_path, chain(fixed, joint='<mimic joint="k" multiplier="-2" offset="0.1"/>'))
    f = model.fields()
    assert (f["eq_data"][:, :2] == [[0.1, -2]]).all() and f["eq_obj2id"][0, 0] == -1 and "of joint 'k' is ignored: it is fixed" in model.warnings()
    x = model.state([0.1], [0.0])
    assert abs(model.step(x)[0][model.slots["qvel"]][0]) < 1e-12


def test_what_published_files_have(tmp_path):
    """Flaws that leave the dynamics as they are: each a warning with its line."""
    def one(link="", said="", **rest):
        model = load(tmp_path, chain(link=INERTIA + link, **rest))
        assert said in model.warnings() and "robot.urdf:" in model.warnings(), model.warnings()
        return model

    assert one('<collision><geometry><sphere radius="0"/></geometry></collision>', "does not collide").fields()["ngeom"] == 0
    color = "<visual>" + BOX + '<material name="m"><color rgba="1 0 0 0 1"/></material></visual>'
    assert one(color, "has 5 numbers, expected 4; the colour is ignored").fields()["ngeom"] == 1
    two = one('<collision><geometry><box size="1 1 1"/><sphere radius="2"/></geometry></collision>', "the first, 'box', is taken").fields()
    assert two["ngeom"] == 1 and (two["geom_size"][0] == 0.5).all()
    assert not one(said="joint 'j': has no <limit>").fields()["jnt_limited"].any()
    assert "has no <limit>" not in load(tmp_path, chain(kind="continuous")).warnings()
    assert one(joint='<dynamics damping="-3"/>', said="'damping' is negative (-3)").fields()["dof_damping"][0, 0] == -3
    one(joint='<limit effort="-3"/>', said="'effort' is negative (-3)")
    exclude = '<mujoco><contact><exclude body1="a" body2="b"/></contact></mujoco>'
    assert one(head=exclude, said="is ignored here").fields()["nexclude"] == mj.MjModel.from_xml_string(chain(head=exclude)).nexclude == 0

    # A mass without a tensor is a point, which may be carried and may not turn by itself.
    point = '<inertial><origin xyz="0 0 0.5"/><mass value="2"/></inertial>'
    carried = load(tmp_path, chain(another(kind="fixed").replace(INERTIA, point)))
    assert carried.fields()["body_mass"][3, 0] == 2 and not carried.fields()["body_inertia"][3].any() and "its mass is a point" in carried.warnings()
    with pytest.raises(inside.Error, match="it moves"):
        load(tmp_path, chain(link=point))


def test_motors(tmp_path):
    text = chain(another(joint='<mimic joint="j"/>') + another("l", "c", "d", kind="fixed"), joint='<limit effort="4"/>')
    model = load(tmp_path, text, motors=True)
    assert model.nu == 1 and (model.fields()["actuator_ctrlrange"] == [-4, 4]).all() and load(tmp_path, text).nu == 0
    x = model.state([0, 0], [0, 0])
    assert model.step(x, ctrl=[1.0])[0][model.slots["qvel"]][0] > 0


def test_rules_of_inertia(tmp_path):
    bad = chain(link=INERTIA.replace('ixx="1"', 'ixx="3"'))
    kept, repaired = load(tmp_path, bad, inertia=KEEP), load(tmp_path, bad, inertia=REPAIR)
    assert sorted(kept.fields()["body_inertia"][2]) == [1, 1, 3] and "they are kept" in kept.warnings()
    assert np.allclose(repaired.fields()["body_inertia"][2], 5 / 3) and "repaired" in repaired.warnings()
    kept.step(kept.state([0.1], [1.0]))

    # What is negative stays so, by itself and where links are fused.
    light = chain(another(kind="fixed").replace('mass value="1"', 'mass value="-0.25"'))
    for fuse in (False, True):
        model = load(tmp_path, light, inertia=KEEP, fuse=fuse)
        assert model.fields()["body_mass"].sum() == 0.75 and "mass -0.25" in model.warnings()
        model.step(model.state([0.1], [1.0]))
    assert "mass -0.25" in load(tmp_path, light, inertia=REPAIR).warnings()

    nothing = chain(link="")
    with pytest.raises(inside.Error, match="singular at joint 'j'"):
        load(tmp_path, nothing, inertia=KEEP)
    assert (load(tmp_path, nothing, inertia=REPAIR).fields()["body_mass"] > 0).any()

    # Without <inertial>: as in MuJoCo by its shapes, or none.
    shaped = chain(link=f"<collision>{BOX}</collision>")
    model = load(tmp_path, shaped)
    assert model.fields()["body_mass"][2, 0] == 1000 and "has no <inertial>" in model.warnings()
    with pytest.raises(inside.Error, match="singular"):
        load(tmp_path, shaped, inertia=KEEP)


def test_floating_base_and_the_world(tmp_path):
    whole = f'<robot name="r"><link name="a">{INERTIA}</link></robot>'
    assert load(tmp_path, whole, floating_base=True).nv == 6 and load(tmp_path, whole).nv == 0
    world = f'<robot name="r"><link name="world"/>{another("j", "world", "b", kind="floating")}</robot>'
    model = load(tmp_path, world)
    assert model.nv == 6 and model.nbody == 2
    with pytest.raises(inside.Error, match="cannot float"):
        load(tmp_path, world, floating_base=True)


def test_settings_in_the_file(tmp_path):
    head = '<mujoco><compiler fusestatic="true" balanceinertia="true"/><option timestep="0.01" gravity="0 0 -1"/></mujoco>'
    f = load(tmp_path, chain(another(kind="fixed"), head=head, link=INERTIA.replace('ixx="1"', 'ixx="3"'))).fields()
    assert f["timestep"][0, 0] == 0.01 and f["gravity"].ravel()[2] == -1 and f["nbody"][0, 0] == 2


# ---- files and the program --------------------------------------------------------------------------------------------------
CUBE = ["0 0 0", "1 0 0", "0 1 0", "0 0 1"]


def write_obj(path):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write("".join(f"v {v}\n" for v in CUBE) + "f 1 3 2\nf 1 2 4\nf 2 3 4\nf 1 4 3\n")


MESH = '<collision><geometry><mesh filename="{}" scale="2 2 2"/></geometry></collision>'
HEAVY = '<mujoco><compiler inertiafromgeom="true"/></mujoco>'  # a mesh that weighs is read


def found(tmp_path, name, urdf=None, allow_root=None, **env):
    """The mass of a link by its mesh, or the error; the file lies in PACKAGE/urdf."""
    path = os.path.join(tmp_path, "ws", "my_robot", "urdf", "robot.urdf")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    weighs = MESH.format(name).replace("collision", "visual")
    with open(path, "w") as f:
        f.write(chain(link=weighs, head=HEAVY).replace("<visual>", "<collision>").replace("</visual>", "</collision>"))
    before = {k: os.environ.get(k) for k in env}
    os.environ.update(env)
    try:
        return inside.Model(path, urdf=urdf, allow_root=allow_root)
    except inside.Error as error:
        return str(error)
    finally:
        for k, v in before.items():
            os.environ.pop(k) if v is None else os.environ.__setitem__(k, v)


def test_names_of_files(tmp_path):
    """A mesh that is found comes as far as its contact or its mass; one that is not says why."""
    write_obj(os.path.join(tmp_path, "ws", "my_robot", "meshes", "a.obj"))
    write_obj(os.path.join(tmp_path, "ws", "my_robot", "urdf", "near.obj"))
    write_obj(os.path.join(tmp_path, "ws", "parts", "meshes", "b.obj"))
    write_obj(os.path.join(tmp_path, "else", "share", "far", "c.obj"))
    there = lambda answer: not isinstance(answer, str) or "which is not supported; a mesh may only be visual" in answer

    assert there(found(tmp_path, "near.obj")) and there(found(tmp_path, "./near.obj"))
    assert there(found(tmp_path, "package://my_robot/meshes/a.obj"))  # by the ancestors' names
    assert "--allow-root" in found(tmp_path, "../meshes/a.obj")
    assert there(found(tmp_path, "../meshes/a.obj", allow_root=str(tmp_path)))
    absolute = os.path.join(tmp_path, "ws", "my_robot", "meshes", "a.obj")
    assert there(found(tmp_path, "file://" + absolute, allow_root=str(tmp_path))) and there(found(tmp_path, absolute, allow_root=str(tmp_path)))

    # A package beside needs a package.xml: a name does not open any folder.
    assert "cannot be found" in found(tmp_path, "package://parts/meshes/b.obj")
    with open(os.path.join(tmp_path, "ws", "parts", "package.xml"), "w") as f:
        f.write("<package><name> parts </name></package>")
    assert there(found(tmp_path, "package://parts/meshes/b.obj"))
    assert "has no file 'meshes/z.obj'" in found(tmp_path, "package://parts/meshes/z.obj")

    # A folder of any name whose package.xml says so.
    with open(os.path.join(tmp_path, "ws", "my_robot", "package.xml"), "w") as f:
        f.write("<package><name>other_name</name></package>")
    assert there(found(tmp_path, "package://other_name/meshes/a.obj"))

    far, share = "package://far/c.obj", os.path.join(tmp_path, "else", "share")
    assert "--package-path DIR" in found(tmp_path, far)
    assert there(found(tmp_path, far, urdf=dict(package_path=share.encode())))
    assert there(found(tmp_path, far, urdf=dict(package_path=b"/nowhere:" + share.encode() + b"/far")))
    assert there(found(tmp_path, far, ROS_PACKAGE_PATH=f"/nowhere:{share}"))
    assert there(found(tmp_path, far, AMENT_PREFIX_PATH=os.path.join(tmp_path, "else")))
    assert "--allow-root" in found(tmp_path, "package://far/../../../ws/parts/meshes/b.obj", urdf=dict(package_path=share.encode()))


def test_meshes_that_are_flat_or_open(tmp_path):
    """What is flat is seen, as nothing inside it could be touched; an open surface with a hull is weighed by its surface."""
    shapes = {"flat": ("f 1 3 2\n", "is flat: it does not collide"), "open": ("f 1 3 2\nf 4 4\n", "has no volume")}
    for name, (faces, said) in shapes.items():
        points = CUBE[:3] if name == "flat" else CUBE
        with open(os.path.join(tmp_path, name + ".obj"), "w") as f:
            f.write("".join(f"v {v}\n" for v in points) + faces)
        model = load(tmp_path, chain(link=INERTIA + MESH.format(name + ".obj")))
        assert said in model.warnings() and model.fields()["ngeom"] == 1
        assert (model.fields()["geom_contype"][0, 0] == 0) == (name == "flat")
    assert "1 faces of fewer than 3 corners" in model.warnings()


def test_meshes_that_are_missing(tmp_path, run):
    """An error that names the way out; with it one warning for each file, and what is there and broken stays an error."""
    twice = MESH.format("gone.obj") * 2 + MESH.format("package://nowhere/b.stl") + MESH.format("there.obj")
    write_obj(os.path.join(tmp_path, "there.obj"))
    text = chain(link=INERTIA + twice)
    path = os.path.join(tmp_path, "robot.urdf")
    with pytest.raises(inside.Error, match="file 'gone.obj' cannot be found; --missing-meshes skip leaves such meshes out"):
        load(tmp_path, text)

    model = load(tmp_path, text, missing_meshes=1)
    touch = model.fields()["geom_contype"].ravel()
    assert list(touch) == [0, 0, 0, 1] and model.warnings().count("it does not collide") == 2, model.warnings()
    assert "file 'gone.obj' cannot be found" in model.warnings() and "package 'nowhere' cannot be found" in model.warnings()
    same = load(tmp_path, chain(link=INERTIA + MESH.format("there.obj")))
    assert np.array_equal(model.fields()["body_mass"], same.fields()["body_mass"])
    load(tmp_path, text, missing_meshes=1)
    page = os.path.join(tmp_path, "page.html")
    assert run("view", path, "--missing-meshes", "skip", "-o", page).stderr.count("gone.obj") == 1

    with open(os.path.join(tmp_path, "gone.obj"), "w") as f:
        f.write("v 0 0 0\nf 1 2 3\n")
    with pytest.raises(inside.Error, match="gone.obj:2"):
        load(tmp_path, text, missing_meshes=1)
    with pytest.raises(inside.Error, match="must be positive|mass"):  # nothing else gives the link mass
        load(tmp_path, chain(link=MESH.format("package://nowhere/b.stl")), missing_meshes=1)
    assert "expected refuse or skip, found 'keep'" in run("info", path, "--missing-meshes", "keep", code=2).stderr


def test_folders_that_readers_of_urdf_alone_know(tmp_path):
    """package:///NAME; a package that is a folder beside the file; meshdir that MuJoCo alone knows."""
    write_obj(os.path.join(tmp_path, "ws", "my_robot", "meshes", "a.obj"))
    write_obj(os.path.join(tmp_path, "ws", "my_robot", "urdf", "parts", "b.obj"))
    for name in ("package:///my_robot/meshes/a.obj", "package://parts/b.obj"):
        assert not isinstance(found(tmp_path, name), str), name
    path = os.path.join(tmp_path, "ws", "my_robot", "urdf", "robot.urdf")
    with open(path, "w") as f:
        f.write(chain(link=INERTIA + MESH.format("parts/b.obj"), head='<mujoco><compiler meshdir="parts"/></mujoco>'))
    assert inside.Model(path).fields()["ngeom"] == 1


def test_long_chains_of_fixed_links(tmp_path):
    """The work grows with the links, not with their square."""
    count = 20000
    links = "".join(f'<link name="l{k}"/><joint name="j{k}" type="fixed"><parent link="l{k - 1}"/><child link="l{k}"/></joint>' for k in range(1, count))
    began = time.process_time()
    model = load(tmp_path, f'<robot name="r"><link name="l0">{INERTIA}</link>{links}</robot>', floating_base=True)
    assert model.nbody == count + 1 and time.process_time() - began < 2


def test_the_program_takes_urdf(tmp_path, run):
    path = os.path.join(tmp_path, "robot.urdf")
    with open(path, "w") as f:
        f.write(chain(another(joint='<mimic joint="j" multiplier="2"/>', kind="continuous"), joint='<limit lower="-1" upper="1" effort="4"/>')
                .replace('<link name="a"/>', f'<link name="a">{INERTIA}</link>'))
    said = json.loads(run("info", path, "--json", "--motors", "--floating-base", "--inertia", "keep").stdout)
    assert [b["name"] for b in said["bodies"]] == ["world", "a", "b", "c"] and said["sizes"]["nu"] == 1
    joint = next(j for j in said["joints"] if j["name"] == "j")
    assert joint["range"] == [-1, 1] and joint["actuatorfrcrange"] == [-4, 4] and joint["limited"] == 1
    mimic = said["equalities"][0]
    assert (mimic["name1"], mimic["name2"], mimic["data"][:2]) == ("k", "j", [0, 2]) and said["warnings"] == []

    assert "expected refuse, keep or repair" in run("info", path, "--inertia", "all", code=2).stderr
    run("simulate", path, "--steps", 5, "-o", os.path.join(tmp_path, "t.npz"))
    run("check", path, "--horizon", 5)
    with open(os.path.join(tmp_path, "m.xml"), "w") as f:
        f.write("<mujoco/>")
    assert "--fuse is for URDF" in run("info", os.path.join(tmp_path, "m.xml"), "--fuse", code=2).stderr


def test_a_task_takes_urdf(tmp_path, run):
    with open(os.path.join(tmp_path, "robot.urdf"), "w") as f:
        f.write(chain(another(kind="fixed"), joint='<limit effort="4"/>'))
    task = {"model": "robot.urdf", "urdf": {"fuse": True, "motors": True, "inertia": "repair"}, "steps": 5}
    path = os.path.join(tmp_path, "task.json")
    for change, code, said in (({}, 0, ""), ({"inertia": "none"}, 3, "urdf.inertia"), ({"missing_meshes": "skip"}, 0, ""), ({"missing_meshes": "keep"}, 3, "urdf.missing_meshes"), ({"fuse": 1}, 3, "urdf.fuse"), ({"base": 1}, 3, "base"),
                               ({"package_path": "../.."}, 3, "lies outside")):
        with open(path, "w") as f:
            json.dump({**task, "urdf": {**task["urdf"], **change}}, f)
        done = run("info", path, "--json", code=code)
        assert said in done.stderr
        if not code:
            assert json.loads(done.stdout)["sizes"]["nbody"] == 2 and json.loads(done.stdout)["sizes"]["nu"] == 1
    assert "under \"urdf\"" in run("info", path, "--fuse", code=2).stderr
