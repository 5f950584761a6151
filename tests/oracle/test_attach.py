"""attach: models put into models. Compiled fields, names and steps equal MuJoCo's; what it refuses is refused by name."""
import os

import mujoco as mj
import numpy as np
import pytest

import oracle
import inside
import test_compile

# boxes in MuJoCo's own frame, whose vertices are floats: then a mesh is the same to the last bit
CORNERS = [(x, y, z) for x in (-.0625, .0625) for y in (-.125, .125) for z in (-.25, .25)]
BRICK = " ".join(f"{x} {y} {z}" for x, y, z in CORNERS)
PIN = "".join(f"v {x / 2} {y / 2} {z / 2}\n" for x, y, z in CORNERS) + "".join(f"f {f}\n" for f in ("1 2 4 3", "5 7 8 6", "1 5 6 2", "3 4 8 7", "1 3 7 5", "2 6 8 4"))
ARM = """<mujoco model="arm"><compiler angle="radian" eulerseq="zyx" boundmass=".3" balanceinertia="true" inertiagrouprange="0 2"/>
<option timestep=".005"/><size nuser_geom="3"/>
<default><geom rgba="1 0 0 1" material="steel" density="700" friction=".7"/><site size=".02" rgba="0 0 1 1"/>
 <default class="stiff"><joint damping=".3" range="-1 1.2" armature=".01" stiffness="2"/><geom density="400"/><motor gear="3"/></default></default>
<asset><material name="steel" rgba="0 1 0 1"/><mesh name="brick" vertex="{BRICK}"/><mesh file="folder/pin.obj"/></asset>
<custom><numeric name="version" data="1 2"/><text name="word" data="arm"/><tuple name="both"><element objtype="joint" objname="turn"/><element objtype="geom" objname="palm"/></tuple>
 <tuple name="away"><element objtype="body" objname="ball"/></tuple></custom>
<worldbody><geom name="floor" type="plane" size="1 1 1"/><light pos="0 0 3" mode="targetbody" target="upper"/>
 <frame name="mount" pos="0 .1 1" euler=".1 .2 .3" childclass="stiff"><camera name="eye" pos="1 0 0" mode="targetbody" target="lower"/>
  <body name="upper" pos="0 0 .2" euler=".3 0 .1"><joint name="turn" axis="0 1 0"/><geom name="palm" size=".1"/><site name="tip" pos=".2 0 -.1" euler="0 0 .5"/><site name="far" pos="0 .2 .1"/>
   <frame euler=".2 0 .4" pos="0 0 .1"><body name="lower" pos="0 .1 .5"><joint name="slide" type="slide" range="-.2 .2" axis="1 0 1"/><geom type="mesh" mesh="brick" name="blade"/><geom type="mesh" mesh="pin" group="3"/><site name="end"/>
    <body name="tool"><geom type="capsule" size=".01" fromto="0 0 0 .1 .1 .2"/><inertial pos="0 0 0" mass=".001" diaginertia="1e-3 1e-3 3e-3"/></body></body></frame></body></frame>
 <body name="led" mocap="true" pos="1 2 3" euler="0 .2 .1"><geom size=".01" contype="0" conaffinity="0"/></body>
 <body name="ball" pos="2 0 1" childclass="stiff"><freejoint/><geom name="skin" size=".1"/></body></worldbody>
<contact><pair geom1="floor" geom2="palm" condim="4"/><exclude body1="upper" body2="ball"/><exclude body1="upper" body2="lower"/></contact>
<equality><joint joint1="turn" joint2="slide" polycoef="0 .1 0 0 0"/><weld body1="ball" active="false"/><connect site1="tip" site2="end" active="false"/></equality>
<tendon><fixed name="line"><joint joint="turn" coef="1"/><joint joint="slide" coef="-2"/></fixed><spatial name="rope" stiffness="3"><site site="tip"/><geom geom="palm" sidesite="far"/><site site="end"/></spatial></tendon>
<actuator><motor name="push" class="stiff" joint="turn"/><general name="pull" tendon="line" dyntype="filter" dynprm=".1"/><position name="lift" joint="slide" kp="5" ctrlrange="-1 1"/></actuator>
<sensor><jointpos joint="turn" name="angle"/><framepos objtype="body" objname="ball" reftype="body" refname="upper" name="apart"/><tendonpos tendon="line"/><actuatorfrc actuator="pull"/><accelerometer site="tip"/></sensor>
<keyframe><key name="home" qpos=".5 .1 1 2 3 1 0 0 0" ctrl="1 2 3" qvel="1 2 3 4 5 6 7 8" act=".4" mpos="3 2 1" mquat="0 1 0 0" time="2"/><key name="half" qpos=".7"/></keyframe></mujoco>""".replace("{BRICK}", BRICK)
GRIPPER = """<mujoco model="gripper"><compiler angle="degree" autolimits="false"/><asset><model name="arm" file="sub/arm.xml"/></asset>
<worldbody><body name="base"><joint name="yaw" ref="20" range="-90 90" limited="true"/><geom size=".05" contype="0" conaffinity="0"/><attach model="arm" body="upper" prefix="r_"/></body></worldbody>
<actuator><motor name="spin" joint="yaw"/></actuator><keyframe><key name="rest" qpos="30 .1 .2" ctrl="1 2 3 4"/></keyframe></mujoco>"""


def parent(body, rest="", assets='<model name="arm" file="sub/arm.xml"/>', head='<compiler angle="degree"/>'):
    return f"<mujoco>{head}<asset>{assets}</asset><worldbody>{body}</worldbody>{rest}</mujoco>"


BOTH = '<body name="l" pos="0 1 0"><attach model="arm" body="upper" prefix="l_"/></body><frame pos="0 -1 0" euler="0 0 90"><attach model="arm" body="upper" prefix="r_"/></frame>'
TAKEN = {
    "body": parent('<body name="a" pos="0 0 2"><joint name="swing" axis="1 0 0" ref="10"/><geom size=".1" name="floor"/><attach model="arm" body="upper" prefix="x_"/></body>'),
    "frame": parent('<body name="a"><joint/><geom size=".1"/><frame pos="1 0 0" euler="0 40 0"><attach model="arm" frame="mount" prefix="x_"/></frame></body>'),
    "whole": parent('<frame pos="0 0 1" euler="10 20 30"><attach model="arm" prefix="x_"/></frame>', '<keyframe><key name="own" qpos=".1"/></keyframe>'),
    "two": parent(BOTH, '<equality><weld body1="l_lower" body2="r_lower" active="false"/></equality><contact><exclude body1="l_upper" body2="r_upper"/></contact><sensor><framepos objtype="site" objname="r_tip" reftype="site" refname="l_tip"/></sensor>'
                  '<actuator><motor joint="l_turn" name="own"/></actuator><keyframe><key name="own" ctrl="1 2 3 4 5 6 7" qpos="1 0 2 0"/></keyframe>'),
    "no prefix": parent('<attach model="arm" body="upper" prefix=""/>'),
    "replicas": parent('<replicate count="3" offset="1 0 0" sep="_"><attach model="arm" body="upper" prefix="x_"/></replicate>'),
    "nested": parent('<body name="q" pos="0 0 1" childclass="own"><joint range="-90 30"/><geom size=".1"/><attach model="gripper" body="base" prefix="o_"/><geom size=".2" pos="0 0 .1"/></body>',
                     assets='<model file="gripper.xml"/>', head='<default><default class="own"><geom density="10" contype="0" conaffinity="0"/><joint damping="2"/></default></default><compiler angle="radian"/>'.replace("90", "1.5")),
    "nested whole": parent('<attach model="gripper" prefix="o_"/>', assets='<model file="gripper.xml"/>', head='<compiler autolimits="true" inertiafromgeom="true"/>'),
    "itself": parent('<body name="q" pos="0 0 1"><joint name="j" range="-20 20"/><geom size=".1" name="g"/><site name="s"/></body><body name="h" pos="0 2 0"><joint/><attach body="q" prefix="y_"/><geom size=".1"/></body>',
                     '<actuator><motor name="m" joint="j"/></actuator><sensor><jointpos joint="j"/></sensor><keyframe><key name="k" qpos=".3"/></keyframe>', assets=""),
    "its frame": parent('<body name="b"><geom size=".3"/><joint/><frame name="f" pos="0 0 1" childclass="c"><body name="q"><joint name="j"/><geom/></body></frame></body><frame euler="0 0 20"><attach frame="f" prefix="z_"/></frame>', assets="",
                        head='<default><default class="c"><geom size=".2" density="50"/></default></default>'),
    "copied again": parent('<attach model="arm" body="upper" prefix="x_"/><body name="p" pos="1 1 1"><attach body="x_lower" prefix="y_"/></body>'),
    "merge": parent('<attach model="arm" body="upper" prefix="x_"/>', head='<compiler conflict="merge"/>'),
    "merge of both": parent('<attach model="arm" body="upper" prefix="x_"/>', head='<compiler conflict="merge"/><option timestep=".01" gravity="0 0 -5"/>'),
    "strict": parent('<attach model="arm" body="upper" prefix="x_"/>', head='<compiler conflict="error"/><option gravity="0 0 -5"/>'),
    "held in the world": parent('<body pos="0 0 1"><joint/><geom size=".1"/><attach model="held" body="b" prefix="x_"/></body><replicate count="2"><body name="r"><joint/><geom size=".1"/></body></replicate>',
                                '<equality><connect body1="world" body2="r" anchor="0 0 1" active="false"/></equality>', assets='<model name="held" file="held.xml"/>'),
    "included": '<mujoco><include file="sub/part.xml"/></mujoco>',
    "not used": parent('<body><joint/><geom size=".1"/></body>'),
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "sub" / "folder").mkdir(parents=True)
    (tmp_path / "sub" / "folder" / "pin.obj").write_text(PIN)
    (tmp_path / "sub" / "arm.xml").write_text(ARM)
    (tmp_path / "gripper.xml").write_text(GRIPPER)
    (tmp_path / "held.xml").write_text('<mujoco model="held"><worldbody><body name="b"><joint/><geom size=".1"/></body><body name="c"/></worldbody><contact><exclude body1="world" body2="b"/><exclude body1="world" body2="c"/></contact>'
        '<equality><weld body1="b" body2="world" active="false"/><weld body1="world" body2="c" active="false"/></equality><sensor><framepos objtype="body" objname="b" reftype="body" refname="world"/><subtreecom body="world"/></sensor></mujoco>')
    (tmp_path / "sub" / "part.xml").write_text('<mujocoinclude><asset><model name="arm" file="arm.xml"/><mesh name="own" file="folder/pin.obj"/></asset><worldbody><attach model="arm" body="upper" prefix="i_"/>'
        '<body pos="3 0 0"><joint/><geom type="mesh" mesh="own"/></body></worldbody></mujocoinclude>')
    return tmp_path


def both(path):
    with oracle.warnings.catch_warnings():
        oracle.warnings.simplefilter("ignore")
        return inside.Model(str(path)), mj.MjModel.from_xml_path(str(path))


@pytest.mark.parametrize("case", TAKEN)
def test_models_are_those_of_mujoco(folder, case):
    path = folder / "m.xml"
    path.write_text(TAKEN[case])
    model, m = both(path)
    assert not test_compile.faults(model.fields(), m)
    assert not test_compile.names_differ(model, m)
    step_together(model, m)


def step_together(model, m, steps=50):
    m.opt.solver, m.opt.jacobian, m.opt.tolerance, m.opt.iterations, m.opt.ls_iterations = 2, 0, 0, 100, 100
    d, (start, controls) = mj.MjData(m), oracle.start(m, ("attach", m.nq), steps)
    start.put(d)
    x = model.state(d.qpos, d.qvel, d.act)
    for ctrl in controls:
        d.ctrl[:] = ctrl
        x, _ = model.step(x, ctrl)
        mj.mj_step(m, d)
    assert all(np.abs(a - b).max(initial=0) < 1e-8 for a, b in zip(model.parts(x), (d.qpos, d.qvel, d.act)))


# name -> (text of m.xml, words of the error); files beside it are in `folder`
HERE = '<attach model="arm" body="upper" prefix="x_"/>'
REFUSED = {
    "missing file": (parent(HERE, assets='<model name="arm" file="nowhere.xml"/>'), ("m.xml:1:42: model 'arm'", "file 'nowhere.xml' cannot be found")),
    "missing model": (parent(HERE.replace('"arm"', '"leg"')), ("attach: there is no model 'leg' among the assets",)),
    "missing body": (parent(HERE.replace("upper", "uper")), ("attach: there is no body 'uper' in model 'arm'",)),
    "missing frame": (parent('<attach model="arm" frame="upper" prefix="x_"/>'), ("there is no frame 'upper' in model 'arm'",)),
    "missing prefix": (parent('<attach model="arm" body="upper"/>'), ("attribute 'prefix' is required",)),
    "body and frame": (parent('<attach model="arm" body="upper" frame="mount" prefix="x_"/>'), ("'body' and 'frame' both name",)),
    "world by name": (parent('<attach model="arm" body="world" prefix="x_"/>'), ("without 'body' all that stands",)),
    "nothing named": (parent('<attach prefix="x_"/>'), ("needs 'body' or 'frame' where it names no model",)),
    "names twice": (parent(HERE + HERE), ("sub/arm.xml:", "body 'x_upper': an element of this name is there already", "another prefix")),
    "assets twice": (parent(HERE + HERE.replace("upper", "ball")), ("sub/arm.xml:17:", "fixed 'x_line': an element of this name is there already")),
    "comes later": (parent('<body><attach body="q" prefix="y_"/></body><body name="q"/>', assets=""), ("there is no body 'q' before this place",)),
    "contains itself": (parent('<body name="q"><geom size=".1"/><attach body="q" prefix="y_"/></body>', assets=""), ("body 'q' contains this place",)),
    "cycle": (parent("", assets='<model file="loop.xml"/>'), ("loop2.xml:1:", "models cannot contain each other")),
    "itself as model": (parent("", assets='<model file="m.xml"/>'), ("models cannot contain each other",)),
    "outside": (parent("", assets='<model file="../arm.xml"/>'), ("lies outside the model's folder", "--allow-root")),
    "URDF": (parent("", assets='<model file="robot.urdf"/>'), ("is URDF; only MJCF models can be attached",)),
    "content type": (parent("", assets='<model file="sub/arm.xml" content_type="model/x"/>'), ("attribute 'content_type' is \"model/x\"",)),
    "bad child": (parent("", assets='<model file="bad.xml"/>'), ("bad.xml:2:", "'sise'")),
    "conflict": (parent(HERE, head='<compiler conflict="error"/><option timestep=".01"/>'), ("option 'timestep' is \".005\" in model 'arm'", 'compiler conflict is "error"')),
    "mocap not in the world": (parent('<body><attach model="arm" prefix="x_"/></body>'), ("a mocap body must be a child of the world",)),
    "activations": (parent('<attach model="wide" prefix="x_"/>', assets='<model name="wide" file="wide.xml"/>'), ("wide.xml:2:", "actdim is 2000000000, but")),
    "joint in the world": (parent('<attach model="jointed" frame="f" prefix="x_"/>', assets='<model name="jointed" file="jointed.xml"/>'), ("jointed.xml:1:", "the world cannot have joints")),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_wrong_is_said_with_its_place(run, folder, case):
    (folder.parent / "arm.xml").write_text(ARM)
    (folder / "loop.xml").write_text('<mujoco><asset><model file="loop2.xml"/></asset></mujoco>')
    (folder / "loop2.xml").write_text('<mujoco><asset><model file="loop.xml"/></asset></mujoco>')
    (folder / "robot.urdf").write_text('<robot name="r"><link name="a"/></robot>')
    (folder / "bad.xml").write_text('<mujoco>\n<worldbody><geom sise="1"/></worldbody></mujoco>')
    (folder / "wide.xml").write_text('<mujoco><worldbody><body><joint name="j"/><geom size=".1"/></body></worldbody><keyframe><key act="1"/></keyframe><actuator>' + 2 * '\n<general joint="j" dyntype="filter" actdim="2000000000"/>' + "</actuator></mujoco>")
    (folder / "jointed.xml").write_text('<mujoco><worldbody><body name="b"><frame name="f"><joint/><geom size="1"/></frame></body></worldbody></mujoco>')
    text, words = REFUSED[case]
    (folder / "m.xml").write_text(text)
    done = run("info", folder / "m.xml", code=5 if case == "missing file" else 3)
    assert all(word in done.stderr for word in words), done.stderr


def test_what_the_other_model_wants_is_told(run, folder):
    """A file whose settings the whole model does not take says so once; a root makes other folders readable."""
    (folder / "m.xml").write_text(parent(BOTH))
    done = run("info", folder / "m.xml")
    assert done.stderr.count("option 'timestep' is \".005\" in model 'arm' and another here: the one here counts") == 1, done.stderr
    (folder / "deep").mkdir()
    (folder / "deep" / "m.xml").write_text(parent(HERE, assets='<model name="arm" file="../sub/arm.xml"/>'))
    run("info", folder / "deep" / "m.xml", code=3)
    run("info", folder / "deep" / "m.xml", "--allow-root", folder / "sub")


def test_many_models_end_in_an_error(run, folder):
    """Files that name each other in a tree of thirty generations: limits, and soon."""
    for k in range(30):
        (folder / f"t{k}.xml").write_text(f'<mujoco><asset><model name="a" file="t{k + 1}.xml"/><model name="b" file="t{k + 1}.xml"/></asset><worldbody><attach model="a" prefix="a"/><attach model="b" prefix="b"/></worldbody></mujoco>')
    (folder / "t30.xml").write_text('<mujoco><worldbody><body name="x"><geom size="1"/></body></worldbody></mujoco>')
    assert "there are more than 1000 models" in run("info", folder / "t0.xml", code=3).stderr
    for k in range(30):
        (folder / f"d{k}.xml").write_text(f'<mujoco><asset><model name="a" file="d{k + 1}.xml"/></asset><worldbody><attach model="a" prefix="a"/><attach model="a" prefix="b"/></worldbody></mujoco>')
    (folder / "d30.xml").write_text('<mujoco><worldbody><body name="x"><geom size="1"/></body></worldbody></mujoco>')
    assert "more than 400000 elements" in run("info", folder / "d0.xml", code=3).stderr
    assert "d30.xml" not in run("info", folder / "d20.xml").stderr


def test_a_model_with_models_in_it_twice(folder):
    """MuJoCo ends with two keyframes of a name; here the prefix tells them apart."""
    path = folder / "m.xml"
    path.write_text(parent('<attach model="gripper" body="base" prefix="a_"/><body pos="0 1 0"><attach model="gripper" body="base" prefix="b_"/></body>', assets='<model file="gripper.xml"/>'))
    with pytest.raises(ValueError, match="repeated name 'r_h"):
        mj.MjModel.from_xml_path(str(path))
    model = inside.Model(str(path))
    names = [inside.native.pbModel_Name(model.ptr, inside.native.pb_objKeyframe, k).decode() for k in range(model.fields()["nkey"][0, 0])]
    assert names == ["a_rest", "r_home", "r_half", "b_rest", "b_r_home", "b_r_half"]
    qpos = model.fields()["key_qpos"]
    assert np.allclose(qpos[[1, 4]], [[np.pi / 9, .5, .1, np.pi / 9, 0, 0], [np.pi / 9, 0, 0, np.pi / 9, .5, .1]])
