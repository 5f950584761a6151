"""What a wheel must do where only Python, NumPy and the C library are; tools/wheel.py runs this below an empty root."""
import pickle
import struct

import numpy as np

import pullback as pb
from pullback import xla

CORNERS = np.array([[0, 0, 0], [.2, 0, 0], [0, .2, 0], [0, 0, .2]])
FACES = [(0, 2, 1), (0, 1, 3), (0, 3, 2), (1, 2, 3)]
STL = bytes(80) + struct.pack("<I", 4) + b"".join(struct.pack("<12fH", 0, 0, 0, *CORNERS[list(f)].ravel(), 0) for f in FACES)
# Heights, three by three.
PNG = bytes.fromhex("89504e470d0a1a0a0000000d49484452000000030000000308000000007343ea6300000014494"
                    "44154789c6360d00860d0f81fc5c0652302000dea0254e265bd860000000049454e44ae426082")
MODEL = """<mujoco><asset><mesh name="m" file="m.stl"/><hfield name="h" file="h.png" content_type="image/png" size="2 2 .1 .1"/></asset>
<worldbody><geom type="hfield" hfield="h"/><body pos="0 0 .3"><freejoint/><geom type="mesh" mesh="m"/></body></worldbody></mujoco>"""
URDF = """<robot name="arm"><link name="base"/><link name="tip"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0"
iyz="0"/></inertial></link><joint name="j" type="revolute"><parent link="base"/><child link="tip"/><axis xyz="0 1 0"/>
<limit lower="-1" upper="1" effort="1" velocity="1"/></joint></robot>"""

model = pb.loads(MODEL, {"m.stl": STL, "h.png": PNG})
r = model.rollout(model.init(), steps=300)
g = r.vjp(qpos=np.eye(6)[2], wrt=["body_mass", "qvel"])
assert np.isfinite(g.qvel).all() and abs(r.qvel[-1]).max() < 1 and r.qpos[-1, 2] < .2
same = pickle.loads(pickle.dumps(model))
assert same == model and np.array_equal(same.rollout(same.init(), steps=300).qpos, r.qpos)
assert pb.loads(URDF, name="arm.urdf").nv == 1
assert xla.targets()  # custom calls for JAX are in it, and JAX is not needed to say so
print(pb.__version__, "from", pb.__file__)
