"""Shapes fitted to meshes: size, place, mass and inertia are MuJoCo's."""
import itertools

import mujoco as mj
import numpy as np
import pytest

import inside
import test_compile
from test_attach import CORNERS

BRICK = " ".join(f"{x + .5} {y} {z - .25}" for x, y, z in CORNERS)  # beside its file's origin
WEDGE = "0 0 0 .3 .02 0 .05 .2 0 .01 0 .1 .2 .15 .12"
FACES = "0 2 1 0 1 3 0 3 2 1 2 4 3 1 4 2 3 4"


def scene(mesh, geom, compiler="", rest=""):
    return f"""<mujoco><compiler {compiler}/><asset>{mesh}</asset><worldbody><body name="b" pos=".1 .2 .3" euler="20 10 5"><joint type="ball"/>
 <geom {geom}/><geom type="sphere" size=".1" pos=".3 0 0"/></body>{rest}</worldbody></mujoco>"""


def both(tmp_path, text):
    path = tmp_path / "m.xml"
    path.write_text(text)
    return inside.Model(str(path)), mj.MjModel.from_xml_path(str(path))


@pytest.mark.parametrize("kind, around, mode", itertools.product(("sphere", "capsule", "ellipsoid", "cylinder", "box"), ("false", "true"), ("legacy", "exact", "convex", "shell")))
def test_sizes(tmp_path, kind, around, mode):
    for mesh, near in ((f'vertex="{BRICK}"', 1e-12), (f'vertex="{WEDGE}" face="{FACES}" refpos=".1 0 .2" refquat="1 .2 0 .1" scale="1 2 .5"', 1e-6)):
        for more in ("", 'pos="0 .3 .1" euler="0 30 0" fitscale=".7"', 'size=".5 .4 .3" contype="0" conaffinity="0" mass="0"'):
            text = scene(f'<mesh name="k" inertia="{mode}" {mesh}/>', f'type="{kind}" mesh="k" {more}', f'fitaabb="{around}"')
            model, m = both(tmp_path, text)
            fields = model.fields()
            for name in ("geom_size", "geom_pos", "geom_quat", "geom_rbound", "geom_aabb", "body_mass", "body_ipos"):
                assert np.allclose(fields[name], np.reshape(getattr(m, name), fields[name].shape), rtol=near, atol=near), (name, more, fields[name], getattr(m, name))
            if near == 1e-12:
                assert not test_compile.faults(fields, m)
            assert fields["nmesh"][0, 0] == 0


def test_a_mesh_may_also_be_itself(tmp_path):
    text = scene(f'<mesh name="k" vertex="{BRICK}"/>', 'type="box" mesh="k"', rest='<body><freejoint/><geom type="mesh" mesh="k"/></body>')
    model, m = both(tmp_path, text)
    assert not test_compile.faults(model.fields(), m) and model.fields()["nmesh"][0, 0] == 1


def test_what_does_not_fit(tmp_path, run):
    brick = f'<mesh name="k" vertex="{BRICK}"/>'
    for geom, said, code in (('type="plane" mesh="k" size="1 1 1"', "not to a plane", 3), ('type="capsule" mesh="k" fromto="0 0 0 1 1 1"', "'fromto' and 'mesh' both", 3),
                             ('type="box" mesh="q"', "'q'", 3), ('type="box" mesh="k" fitscale="0"', "size", 3), ('type="box" mesh="k" fitscale="-1"', "fitscale", 3)):
        (tmp_path / "m.xml").write_text(scene(brick, geom))
        assert said in run("info", tmp_path / "m.xml", code=code).stderr, geom
    (tmp_path / "m.xml").write_text(scene('<mesh name="k" file="gone.obj"/>', 'type="box" mesh="k" contype="0" conaffinity="0"'))
    assert "gone.obj" in run("info", tmp_path / "m.xml", code=5).stderr
