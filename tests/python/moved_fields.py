"""What the code of an environment may write into MuJoCo's model, option and data: a world that has most of what there is, and moves of each field."""
import numpy as np

WORLD = """<mujoco model="moved">
  <compiler autolimits="true"/>
  <option timestep="0.004" density="1.2" viscosity=".02" wind=".3 .1 0" integrator="implicitfast" cone="elliptic"/>
  <size nuserdata="3"/>
  <asset>
    <mesh name="rock" vertex="-.06 -.05 -.05  .05 -.06 -.04  -.04 .06 -.06  .06 .05 -.05  -.05 -.04 .06  .06 -.05 .05  -.05 .06 .04  .04 .05 .06"/>
    <hfield name="hill" nrow="3" ncol="3" size=".5 .5 .05 .1" elevation="0 .2 .1 .3 .5 .2 .1 0 .4"/>
    <texture name="sky" type="2d" builtin="flat" width="4" height="4"/>
    <material name="blue" rgba="0 0 1 1" texture="sky"/>
  </asset>
  <worldbody>
    <light pos="0 0 3"/><camera name="eye" pos="2 -2 1"/>
    <geom name="floor" type="plane" size="5 5 1" material="blue" friction=".1"/>
    <geom name="hill" type="hfield" hfield="hill" pos="3 0 0"/>
    <body name="ball" pos="0 0 .0995"><freejoint/><geom name="ball" size=".1" mass="1" friction=".12 .01 .002"/></body>
    <body name="rock" pos="4 .05 1" quat=".9 .1 .2 .3"><freejoint/><geom name="rock" type="mesh" mesh="rock" pos=".01 0 0" density="900"/></body>
    <body name="arm" pos="0 1 1" gravcomp=".3" quat=".9 .2 .1 .3">
      <joint name="shoulder" type="ball" damping=".05" stiffness=".4" range="0 2" frictionloss=".01"/>
      <geom name="upper" type="capsule" fromto="0 0 0 .4 0 .1" size=".03"/>
      <site name="fixed" pos=".1 0 .06" size=".01"/>
      <body name="hand" pos=".4 0 .1" quat=".95 0 .2 .1">
        <joint name="elbow" axis="0 1 .2" pos=".01 0 .02" range="-.4 .4" damping=".02" armature=".002" springref=".2" stiffness=".1" actuatorfrcrange="-.02 .02"/>
        <geom name="hand" type="ellipsoid" size=".03 .04 .12" pos=".03 0 .1" fluidshape="ellipsoid" contype="0" conaffinity="0"/>
        <geom name="knob" size=".03" pos=".01 .02 .02" contype="0" conaffinity="0"/>
        <site name="tip" pos=".05 .01 .2"/>
        <body name="finger" pos="0 0 .25"><joint name="slide" type="slide" axis="0 .3 1" range="-.05 .05" damping=".5" frictionloss=".02" ref=".01"/>
          <geom name="finger" type="box" size=".02 .03 .04" pos=".002 0 .04" quat=".98 .1 .1 .1"/><site name="nail" pos="0 .01 .08"/></body>
      </body>
    </body>
    <body name="cart" pos="-1 0 .5"><joint name="rail" type="slide" axis="1 0 0" damping=".1"/><geom name="cart" type="cylinder" size=".05 .08" pos=".01 0 .02" mass=".4" contype="0" conaffinity="0"/>
      <body name="pole" pos="0 0 .1"><joint name="pivot" axis="0 1 0" damping=".01"/><geom name="pole" type="capsule" fromto="0 0 0 .05 .01 .4" size=".02" mass=".2"/>
        <site name="top" pos=".05 0 .4"/></body></body>
    <body name="target" mocap="true" pos="1 -1 .5" quat=".9 .3 .1 .2"><geom name="target" type="box" size=".05 .05 .05" contype="0" conaffinity="0"/></body>
    <body name="led" pos="1.02 -1 .5"><freejoint/><geom name="led" type="box" size=".04 .05 .06" pos=".004 .002 .001" quat=".97 .1 .1 .1" mass=".3" contype="0" conaffinity="0"/></body>
    <body name="simple" pos="-2 0 1"><freejoint/><geom name="simple" size=".05" mass=".2" contype="0" conaffinity="0"/></body>
  </worldbody>
  <contact><pair geom1="hand" geom2="floor" friction=".5 .5 .01 .01 .01" solref=".03 1.1"/><pair geom1="finger" geom2="upper" margin=".3" gap=".01" solreffriction=".03 1"/>
    <exclude body1="ball" body2="rock"/></contact>
  <tendon>
    <spatial name="cable" stiffness="4" damping=".1" springlength=".3 .5" range="0 .7" frictionloss=".02"><site site="fixed"/>
      <geom geom="knob"/><site site="nail"/></spatial>
    <fixed name="mix" stiffness="1" range="-.3 .3" margin=".02"><joint joint="rail" coef="1"/><joint joint="pivot" coef=".4"/></fixed>
    <spatial name="rope" armature=".01" range="0 1.91" margin=".01" actuatorfrcrange="-2 2"><site site="top"/><site site="tip"/></spatial>
  </tendon>
  <equality><weld name="lead" body1="target" body2="led"/><joint joint1="elbow" joint2="slide" polycoef="0 .1 .2 0 0"/>
    <connect body1="pole" body2="arm" anchor="0 0 .4" active="false"/></equality>
  <actuator>
    <motor name="push" joint="rail" gear="3" armature=".01" damping=".05" ctrlrange="-1 1" forcerange="-.8 .8"/>
    <position name="place" joint="pivot" kp="3" kv=".1" ctrlrange="-1 1"/>
    <general name="filter" joint="elbow" dyntype="filterexact" dynprm=".08" gainprm="2" biastype="affine" biasprm=".01 -.2 -.1" actrange="-.01 .01" actlimited="true" actearly="true"/>
    <muscle name="muscle" tendon="cable" lengthrange=".2 .6" ctrlrange="0 1" force="20"/>
    <motor name="haul" tendon="rope" gear="-.5"/>
  </actuator>
  <sensor><framepos objtype="site" objname="tip" noise=".1"/><actuatorfrc actuator="push" cutoff="1"/><accelerometer site="nail"/><tendonpos tendon="cable"/></sensor>
  <keyframe><key name="up"/></keyframe>
</mujoco>"""

UNIT = ("jnt_axis", "body_quat", "body_iquat", "geom_quat", "site_quat", "cam_quat", "mesh_quat", "mocap_quat")


def move(name, array):
    """A little, each entry that a motion can depend on, within what the field may be; in place."""
    rng = np.random.default_rng(len(name))
    if array.dtype == bool:
        array[...] = ~array
    elif array.dtype.kind in "iu":
        array[...] = array + 1
    elif name in UNIT:
        array += .02 * rng.uniform(-1, 1, array.shape)
        array /= np.linalg.norm(array, axis=-1, keepdims=True)
    elif name == "eq_data":
        array[:, :3] += .01  # an anchor, or coefficients
    elif name in ("qpos0", "qpos_spring"):
        array[18:20] += .01 * rng.uniform(size=2)  # elbow and slide
    elif name == "geom_size":
        array *= .97
    elif name.endswith(("solimp", "solimp_lim", "solimp_fri")):
        array *= .99
    elif name.startswith("actuator_") and name.endswith("prm"):
        array *= 1.01
    else:
        array[...] = np.where(array != 0, 1.03 * array, 0) if np.any(array) else array + .004
