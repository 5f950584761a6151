"""Files as people have them: text that MuJoCo takes and XML's rules do not, what MuJoCo saved, files in several folders."""
import json
import os

import mujoco as mj
import numpy as np
import pytest

import oracle
import inside
import test_compile

BODY = '<worldbody><body name="b"><geom size="1"/><joint/></body></worldbody>'
# name -> (text, its first place, what the warning says); MuJoCo takes all of them
TAKEN = {
    "dashes in a comment": (f"<mujoco>\n <!-- a -- b -->{BODY}</mujoco>", "2:2", "a comment with '--' in it"),
    "a dash before the end": (f"<mujoco><!-- a --->{BODY}</mujoco>", "1:9", "a comment with '--' in it"),
    "no blank": ('<mujoco><worldbody><body name="b"pos="0 0 1"><geom size="1"/><joint/></body></worldbody></mujoco>', "1:34", "no blank before"),
    "ampersand": (f'<mujoco model="a & b &#x; &foo;">{BODY}</mujoco>', "1:18", "'&' that begins no known entity (write '&amp;'), 3 times in all"),
    "ampersand in text": (f"<mujoco>x & y{BODY}</mujoco>", "1:11", "'&' that begins"),
    "less": (f'<mujoco model="a < b">{BODY}</mujoco>', "1:18", "'<' in the value of an attribute"),
    "text before": (f"words <mujoco>{BODY}</mujoco>", "1:1", "text before the root element"),
    "two roots": (f"<mujoco>{BODY}</mujoco>\n<mujoco/>", "2:1", "after the root element"),
    "an end too many": (f"<mujoco>{BODY}</mujoco></mujoco>", None, "after the root element"),
    "declaration behind a blank": (f'\n<?xml version="1.0"?><mujoco>{BODY}</mujoco>', "2:1", "an XML declaration"),
    "wrong declaration": (f'<?xml version="1.0"encoding="utf-8"?><mujoco>{BODY}</mujoco>', "1:1", "an XML declaration"),
    "Latin-1": (f'<?xml version="1.0" encoding="latin1"?><mujoco model="\xe9">{BODY}</mujoco>'.encode("latin1"), "1:55", "not UTF-8"),
    "control character": (f'<mujoco model="a\x01">{BODY}</mujoco>', "1:17", "a control character"),
    "zero at the end": (f"<mujoco>{BODY}</mujoco>\0", None, "a zero byte"),
    "blank before a name": (f"< mujoco>{BODY}< /mujoco>", "1:1", "a blank between '<' and a name"),
    "end with an attribute": (f'<mujoco>{BODY}</mujoco a="1">', None, "an end tag with more than its name"),
    "brackets": (f"<mujoco>]]>{BODY}</mujoco>", "1:9", "']]>' in text"),
}


@pytest.mark.parametrize("case", TAKEN)
def test_text_that_mujoco_takes(run, tmp_path, case):
    text, place, words = TAKEN[case]
    path = tmp_path / "m.xml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    m = mj.MjModel.from_xml_path(str(path))
    done = run("info", path, "--json")
    assert f"{path}:{place or ''}" in done.stderr and words in done.stderr and "read as MuJoCo does" in done.stderr, done.stderr
    assert [b["name"] for b in json.loads(done.stdout)["bodies"]] == ["world", "b"]
    assert not test_compile.faults(inside.Model(str(path)).fields(), m)


def test_places_after_repairs_are_those_of_the_file(run, tmp_path):
    """Lines and columns of errors count the characters of the file, wherever characters were put in."""
    path = tmp_path / "m.xml"
    path.write_text('<mujoco model="&&&"><!-- - -- -->\n<worldbody><!-- --- --><body name="a < b"pos="0 0 1"><geom sise="1"/></body></worldbody></mujoco>')
    done = run("info", path, code=3)
    assert f"{path}:2:54: geom" in done.stderr and "'sise'" in done.stderr, done.stderr
    assert f"{path}:1:16: not well-formed XML: '&'" in done.stderr or "warning" not in done.stderr
    path.write_text('<mujoco model="a"b="&">\n<worldbody></mujoco>')
    assert f"{path}:2:14: not well-formed XML: mismatched tag" in run("info", path, code=3).stderr


@pytest.mark.parametrize("text", ["words", "", "<mujoco", "<mujoco a=b/>", "<mujoco/> words", "<mujoco><!-- </mujoco>", "</mujoco>", '<mujoco a="1" a="2"/>', "<mujoco></ mujoco>"])
def test_text_that_nobody_takes(run, tmp_path, text):
    path = tmp_path / "m.xml"
    path.write_text(text)
    with pytest.raises(ValueError):
        mj.MjModel.from_xml_path(str(path))
    assert "not well-formed XML" in run("info", path, code=3).stderr


# ---- what MuJoCo saved ----------------------------------------------------------------------------------------------------
def saved(spec, path):
    spec.compile()
    path.write_text(spec.to_xml())
    return mj.MjModel.from_xml_path(str(path))


@pytest.mark.parametrize("path", oracle.OWN, ids=oracle.name)
def test_saved_models_load(tmp_path, path):
    out = tmp_path / "m.xml"
    with oracle.warnings.catch_warnings():
        oracle.warnings.simplefilter("ignore")
        m = saved(mj.MjSpec.from_file(path), out)
    assert not test_compile.faults(inside.Model(str(out)).fields(), m)


TORSO = """<mujoco model="torso"><option timestep="0.001"/><worldbody><light pos="0 0 3"/><geom type="plane" size="3 3 .1"/>
<body name="trunk" pos="0 0 1"><freejoint/><geom type="box" size=".1 .15 .2"/><site name="shoulder" pos="0 .2 .1" euler="90 0 0"/></body></worldbody></mujoco>"""
ARM = """<mujoco model="arm"><compiler angle="radian"/><default><default class="arm"><joint damping="1" armature=".01" range="-2 2"/>
<geom type="capsule" size=".03" rgba="1 0 0 1"/></default></default><asset><texture name="t" type="2d" builtin="checker" width="8" height="8"/><material name="m" texture="t"/></asset>
<worldbody><body name="upper" childclass="arm"><joint name="lift" axis="1 0 0"/><geom fromto="0 0 0 0 0 .3"/>
<geom type="box" size=".1 .2 .3" mass="0.1" contype="0" conaffinity="0" material="m"/><camera name="see" pos="0 0 1"/>
<body name="lower" pos="0 0 .3"><joint name="elbow" axis="0 1 0"/><geom fromto="0 0 0 0 0 .25"/><site name="wrist" pos="0 0 .25"/></body></body></worldbody>
<actuator><position name="lift" joint="lift" kp="20"/><motor name="elbow" joint="elbow" ctrlrange="-1 1"/></actuator>
<sensor><jointpos joint="elbow"/><framepos objtype="site" objname="wrist"/></sensor>
<keyframe><key name="bent" qpos=".3 .5" ctrl=".3 0"/></keyframe></mujoco>"""
HAND = """<mujoco model="hand"><default><geom type="sphere" size=".02"/><joint type="hinge" stiffness=".1"/></default><worldbody><body name="palm">
<geom type="box" size=".04 .01 .04"/><body name="one" pos=".03 0 .05"><joint name="one" axis="1 0 0"/><geom pos="0 0 .02"/></body>
<body name="two" pos="-.03 0 .05"><joint name="two" axis="1 0 0"/><geom pos="0 0 .02"/></body></body></worldbody>
<tendon><fixed name="grip"><joint joint="one" coef="1"/><joint joint="two" coef="-1"/></fixed></tendon>
<equality><joint joint1="one" joint2="two"/></equality><actuator><general name="grip" tendon="grip" gainprm="3" biastype="affine" biasprm="0 -3 0"/></actuator>
<contact><exclude body1="one" body2="two"/></contact></mujoco>"""


def composed():
    """A hand on an arm on a torso."""
    spec, arm, hand = (mj.MjSpec.from_string(text) for text in (TORSO, ARM, HAND))
    arm.attach(hand, site="wrist", prefix="hand/")
    spec.attach(arm, site="shoulder", prefix="left_", suffix="_1")
    return spec


def test_composed_and_saved_models_load(run, tmp_path):
    m = saved(composed(), tmp_path / "m.xml")
    model = inside.Model(str(tmp_path / "m.xml"))
    assert m.nv == 10 and m.nu == 3 and m.nkey == 1
    assert not test_compile.faults(model.fields(), m) + test_compile.names_differ(model, m)


# ---- folders --------------------------------------------------------------------------------------------------------------
def test_several_folders_may_be_allowed(run, tmp_path):
    for folder, text in (("a", BODY), ("b:c", "<asset/>"), ("d", "<option timestep='0.003'/>")):
        os.makedirs(tmp_path / folder)
        (tmp_path / folder / "part.xml").write_text(f"<mujoco>{text}</mujoco>")
    os.makedirs(tmp_path / "model")
    path = tmp_path / "model" / "m.xml"
    path.write_text("<mujoco><include file='../a/part.xml'/><include file='../d/part.xml'/></mujoco>")
    a, d = f"--allow-root {tmp_path}/a", f"--allow-root {tmp_path}/d"
    assert a in run("info", path, code=3).stderr
    assert d in run("info", path, *a.split(), code=3).stderr
    assert "timestep" in run("info", path, *a.split(), *d.split()).stdout
    assert "cannot be found" in run("info", path, *a.split(), "--allow-root", tmp_path / "none", code=5).stderr

    # one folder with ':' in its name
    path.write_text(f"<mujoco><include file='../b:c/part.xml'/>{BODY}</mujoco>")
    assert run("info", path, "--allow-root", tmp_path / "b:c").stdout


# ---- what a file says of the solver ---------------------------------------------------------------------------------------
def test_iterations_of_a_file_are_told_and_used_on_request(run, tmp_path):
    path = tmp_path / "m.xml"
    path.write_text(f"<mujoco><option iterations='4' ls_iterations='6' tolerance='1e-5'/>{BODY}</mujoco>")
    told = json.loads(run("info", path, "--json").stdout)["file_options"]
    assert told == {"tolerance": 1e-5, "iterations": 4, "ls_iterations": 6}
    assert "tolerance 1e-05  iterations 4  ls_iterations 6" in run("info", path).stdout
    said = run("simulate", path, "-o", tmp_path / "o.npz").stderr
    assert "the file has iterations=4" in said and "--option ls_iterations=file" in said

    def used(options):
        fields = inside.Model(str(path), options=options).fields()
        return fields["iterations"].item(), fields["ls_iterations"].item()

    assert used({}) == (100, 50) and used(dict(iterations="file", ls_iterations="file", tolerance="file")) == (4, 6)
    quiet = run("simulate", path, "--option", "iterations=file", "--option", "ls_iterations=6", "-o", tmp_path / "o.npz").stderr
    assert "the file has" not in quiet
