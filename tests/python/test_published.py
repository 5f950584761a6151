"""Models as they are published: xacro, which xacrodoc expands, and MuJoCo's archives."""
import io
import os
import zipfile

import numpy as np
import pytest

import pullback as pb

TETRAHEDRON = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"
XACRO = """<robot name="r" xmlns:xacro="http://www.ros.org/wiki/xacro"><xacro:arg name="mass" default="1"/><xacro:include filename="part.xacro"/>
<link name="a"><inertial><mass value="$(arg mass)"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
<collision><geometry><mesh filename="package://toy/meshes/m.obj"/></geometry></collision>
<collision><geometry><mesh filename="../meshes/n.obj"/></geometry></collision></link>
<xacro:part name="b" size="${2*0.1}"/></robot>"""
PART = """<robot xmlns:xacro="http://www.ros.org/wiki/xacro"><xacro:macro name="part" params="name size"><link name="${name}">
<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
<collision><geometry><sphere radius="${size}"/></geometry></collision></link>
<joint name="j_${name}" type="revolute"><parent link="a"/><child link="${name}"/><axis xyz="0 1 0"/><limit lower="-1" upper="1" effort="1"/></joint>
</xacro:macro></robot>"""
BODY = """<mujoco model="{0}"><asset><mesh name="m" file="meshes/m.obj"/></asset>
<worldbody><body name="{0}"><freejoint/><geom type="mesh" mesh="m"/></body></worldbody></mujoco>"""


# ---- xacro ------------------------------------------------------------------------------------------------------------------
@pytest.fixture
def package(tmp_path):
    folder = tmp_path / "toy"
    for name, text in {"package.xml": "<package><name>toy</name></package>", "urdf/r.urdf.xacro": XACRO, "urdf/part.xacro": PART, "meshes/m.obj": TETRAHEDRON,
                       "meshes/n.obj": TETRAHEDRON.replace("1", "2", 1)}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_xacro_is_expanded_on_request(package):
    pytest.importorskip("xacrodoc")
    path = package / "urdf" / "r.urdf.xacro"
    with pytest.raises(pb.UnsupportedError, match="is for xacro"):
        pb.load(path)
    model = pb.load(path, xacro={"mass": 3})
    assert model.params["body_mass:a"] == 3 and pb.load(path, xacro=True).params["body_mass:a"] == 1 and model.path == str(path)
    assert .2 in model.params["geom_size"] and model.nmesh == 2

    # The same as its expansion by hand, bit for bit.
    by_hand = XACRO.replace("$(arg mass)", "3").replace('<xacro:arg name="mass" default="1"/><xacro:include filename="part.xacro"/>', "")
    part = PART[PART.index("<link"):PART.index("</xacro:macro>")].replace("${name}", "b").replace("${size}", "0.2")
    by_hand = by_hand.replace('<xacro:part name="b" size="${2*0.1}"/>', part)
    (package / "urdf" / "hand.urdf").write_text(by_hand)
    other = pb.load(package / "urdf" / "hand.urdf", package_path=package.parent, allow_root=package)
    assert all(np.array_equal(model.params[name], other.params[name]) for name in other.params)
    assert np.array_equal(model.rollout(model.init(), steps=5).qpos, other.rollout(other.init(), steps=5).qpos)


def test_mistakes_in_xacro(package):
    pytest.importorskip("xacrodoc")
    path = package / "urdf" / "bad.xacro"
    for text, said in (('<link name="${nothing}"/>', "nothing"), ('<link name="a"/><xacro:include filename="none.xacro"/>', "none.xacro"),
                       ('<link name="a"><collision><geometry><mesh filename="package://nobody/m.obj"/></geometry></collision></link>', "nobody"),
                       ("<link", "bad.xacro"), ('<link name="a"/><joint name="j" type="hinge"/>', "toy/urdf/bad.urdf:")):
        path.write_text(f'<robot name="r" xmlns:xacro="http://www.ros.org/wiki/xacro">{text}</robot>')
        with pytest.raises(pb.InputError, match=said):
            pb.load(path, xacro=True)
    with pytest.raises(pb.FileError, match="cannot be found"):
        pb.load(package / "none.xacro", xacro=True)
    for wrong in ("mass:=3", None, 1):
        with pytest.raises(pb.ArgumentError, match="xacro: expected True or a dict"):
            pb.load(path, xacro=wrong)


# ---- MJZ --------------------------------------------------------------------------------------------------------------------
def archive(path, files):
    with zipfile.ZipFile(path, "w") as z:
        for name, text in files.items():
            z.writestr(name, text)
    return path


@pytest.mark.parametrize("names", [("toy.xml", "other.xml"), ("model.xml", "other.xml"), ("toy/toy.xml",), ("toy/model.xml",), ("deep/only.xml",)])
def test_archives_of_mujoco(tmp_path, names):
    """By MuJoCo's names; the only model of an archive whatever its name."""
    files = {name: BODY.format(os.path.basename(name)[:-4]) for name in names}
    path = archive(tmp_path / "toy.mjz", {**files, os.path.join(os.path.dirname(names[0]), "meshes/m.obj"): TETRAHEDRON})
    model = pb.load(path)
    assert model.names("body")[1] == os.path.basename(names[0])[:-4] and model.path == str(path) and model.nmesh == 1


def test_archives_that_mujoco_writes(tmp_path):
    mujoco = pytest.importorskip("mujoco")
    spec = mujoco.MjSpec.from_string(BODY.format("toy"), assets={"meshes/m.obj": TETRAHEDRON.encode()})
    stream = io.BytesIO()
    spec.to_zip(stream)
    (tmp_path / "anything.mjz").write_bytes(stream.getvalue())
    model = pb.load(tmp_path / "anything.mjz")
    assert np.allclose(model.params["body_inertia"], spec.compile().body_inertia, rtol=1e-6)


def test_archives_that_are_none(tmp_path):
    path = tmp_path / "toy.mjz"
    with pytest.raises(pb.FileError, match="toy.mjz"):
        pb.load(path)
    path.write_bytes(b"no archive")
    with pytest.raises(pb.InputError, match="toy.mjz: "):
        pb.load(path)
    for files, said in (({"a.xml": BODY, "b.xml": BODY}, "expected toy.xml or model.xml in the archive, found a.xml, b.xml"), ({"m.obj": "v"}, "no model"),
                        ({"toy.xml": "<mujoco><wordbody/></mujoco>"}, r"^toy.xml:1"), ({"toy.xml": BODY.format("toy")}, "meshes/m.obj")):
        with pytest.raises(pb.Error, match=said):
            pb.load(archive(path, files))
    with pytest.raises(pb.ArgumentError, match="expected a path below the model's folder"):
        pb.load(archive(path, {"toy.xml": BODY.format("toy"), "../out.obj": TETRAHEDRON}))
    assert sorted(os.listdir(tmp_path)) == ["toy.mjz"]
    damaged = bytearray(archive(path, {"toy.xml": BODY.format("toy"), "meshes/m.obj": TETRAHEDRON}).read_bytes())
    damaged[damaged.index(b"v 0 1 0")] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(pb.InputError, match="toy.mjz: meshes/m.obj: "):
        pb.load(path)
