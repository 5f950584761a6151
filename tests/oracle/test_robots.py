"""The robots that people have: files of installed packages, loaded, stepped and differentiated beside MuJoCo."""
import mujoco as mj
import numpy as np

import robots


def test_the_list_is_whole():
    assert len(robots.mjcf()) == 117 and len(robots.urdf()) == 45
    assert robots.draw(robots.mjcf(), seed="a") != robots.draw(robots.mjcf(), seed="b")


def test_canonical_meshes_are_in_their_own_frames(tmp_path):
    robot = next(r for r in robots.mjcf() if r.name.endswith("convex_convex"))
    m = mj.MjModel.from_xml_path(robots.canonical(robot, tmp_path).path)
    assert m.nmesh == 3 and np.abs(m.mesh_pos).max() < 1e-8 and np.abs(m.mesh_quat[:, 1:]).max() < 1e-6
