"""Numbers of every field of a spec's table: negative, NaN, infinite, too many, of another type. Each is refused with field and place."""
import re

import numpy as np
import pytest

import pullback as pb
from pullback import spec as inside

# One element of each kind at least, in a model that compiles.
WORLD = """<mujoco><worldbody><frame name="f"><body name="a"><joint name="j" damping=".1" range="-50 50"/><geom name="g" size=".1"/>
<site name="s"/><camera name="c"/><light name="l"/><body name="b"><joint name="k"/><geom name="h" size=".1"/><site name="t" pos=".1 0 0"/></body></body></frame>
<body name="m"><freejoint/><geom name="n" type="mesh" mesh="M"/></body><geom type="hfield" hfield="H"/></worldbody>
<asset><hfield name="H" nrow="2" ncol="2" elevation="0 1 0 1" size="1 1 1 1"/><mesh name="M" vertex="0 0 0 1 0 0 0 1 0 0 0 1"/><material name="r"/></asset>
<contact><pair name="p" geom1="g" geom2="h"/><exclude body1="a" body2="m"/></contact>
<tendon><spatial name="u"><site site="s"/><site site="t"/></spatial></tendon><equality><weld name="w" body1="m" body2="b"/></equality>
<actuator><motor name="o" joint="j"/></actuator><sensor><jointpos name="q" joint="k"/></sensor>
<custom><numeric name="v" data="1 2"/><text name="x" data="x"/><tuple name="y"><element objtype="geom" objname="h" prm="2"/></tuple></custom>
<keyframe><key name="z"/></keyframe></mujoco>"""

# Numbers of which any sign makes sense: places, directions, ranges, masks, coefficients (of which MuJoCo takes any, too), and -1 as a word; of a
# body mass and moments, which count where has_inertial, and are judged with what it is fixed to.
SIGNED = {"frame": "pos quat value", "body": "pos quat value inertial_quat inertial_value gravcomp mass diaginertia user",
          "joint": "group pos axis ref springref stiffness damping range actfrcrange margin solref_limit solimp_limit solref_friction solimp_friction user",
          "geom": "pos quat value contype conaffinity priority solref solimp margin gap fluid_coef user", "site": "group pos quat value user",
          "camera": "pos quat value user", "light": "pos dir", "pair": "solref solimp solreffriction margin gap",
          "equality": "solref solimp anchor relpose polycoef",
          "tendon": "group range actfrcrange margin solref_limit solimp_limit solref_friction solimp_friction springlength stiffness damping user",
          "actuator": "gear dynprm gainprm biasprm actdim ctrlrange forcerange actrange lengthrange damping group user", "sensor": "user",
          "key": "time qpos qvel", "hfield": "elevation", "mesh": "scale refpos refquat maxhullvert", "compiler": "settotalmass",
          "option": "gravity wind magnetic o_solref o_solimp", "statistic": "center",
          "size": "nuser_body nuser_jnt nuser_geom nuser_site nuser_cam nuser_tendon nuser_actuator nuser_sensor"}
NUMBERS = (inside._INT, inside._REAL, inside._REALS, inside._INTS)
FIELDS = [(kind, name) for kind in (*inside._LISTS, *inside._SETTINGS) for name, f in inside._CLASSES[kind]._fields.items()
          if f.type in NUMBERS and not f.words and f.refers < 0]


@pytest.fixture(scope="module")
def whole():
    spec = pb.Spec.from_string(WORLD, name="whole.xml")
    spec.compile()
    return spec


def one_of(spec, kind):
    return getattr(spec, kind) if kind not in inside._LISTS else getattr(spec, inside._LISTS[kind])[1 if kind == "body" else 0]


def filled(field, value):
    """A value of the field's shape."""
    return value if field.count == 1 else np.full(field.count or 4, value)


def refused(spec, kind, name, value):
    """The message, of the assignment or of compiling; None where neither refuses."""
    spec = spec.copy()
    element = one_of(spec, kind)
    before = np.array(getattr(element, name))
    try:
        setattr(element, name, value)
    except pb.ArgumentError as e:
        assert np.array_equal(before, getattr(element, name), equal_nan=True), "nothing is changed"
        return str(e)
    try:
        spec.compile()
    except pb.Error as e:
        return str(e)
    return None


@pytest.mark.parametrize("kind,name", FIELDS)
def test_a_negative_number(whole, kind, name):
    """Where it makes no sense it is refused, by name and, where the element came from a file, with the place."""
    field = inside._CLASSES[kind]._fields[name]
    signed = name in SIGNED.get(kind, "").split()
    text = refused(whole, kind, name, filled(field, -1))
    assert (text is None) == signed, text
    if text:
        assert name in text or "whole.xml:" in text, text
    if np.isfinite(field.least):
        text = refused(whole, kind, name, filled(field, field.least - 1))
        assert re.search(rf"{name}.*expected {field.least:g} or more", text), text
        assert kind not in inside._LISTS or "whole.xml:" in text


@pytest.mark.parametrize("kind,name", FIELDS)
def test_what_is_no_number_or_of_another_length(whole, kind, name):
    field = inside._CLASSES[kind]._fields[name]
    wrong = [filled(field, np.inf), filled(field, -np.inf), "7", 1j, True, object(), [[1]], np.ma.masked_array(np.ones(field.count or 3), True)]
    if not field.optional:
        wrong += [filled(field, np.nan), None]
    if field.type in (inside._INT, inside._INTS):
        wrong += [filled(field, .5), filled(field, 2.**40)]
    if field.count:
        wrong += [np.ones(field.count + 1), np.ones((field.count, 1)), []]
    if field.count > 1:
        wrong += [1, np.ones(field.count - 1)]
    for value in wrong:
        text = refused(whole, kind, name, value)
        assert text and name in text and (kind not in inside._LISTS or "whole.xml:" in text), (value, text)


def test_of_a_body_whose_inertia_counts_it_is_judged_by_the_compiler(whole):
    for name, value in (("mass", -1), ("diaginertia", [1, -1, 1]), ("mass", 0)):
        spec = whole.copy()
        spec.body("b").update(has_inertial=True, inertial_pos=[0, 0, 0], **{"mass": 1, "diaginertia": [1, 1, 1], name: value})
        with pytest.raises(pb.InputError, match="whole.xml:.*'b'.*(mass|inertia)"):
            spec.compile()


def test_numbers_written_into_arrays_are_held_to_the_same(whole):
    spec = whole.copy()
    for value in (-1, np.nan, np.inf):
        with pytest.raises(pb.ArgumentError, match=r"geom 'g' \(whole.xml:1:\d+\): rgba"):
            spec.geom("g").rgba[0] = value
    with pytest.raises(pb.ArgumentError, match="rgba: expected 0 or more, found -1.5"):
        spec.geom("g").rgba -= 2
    assert list(spec.geom("g").rgba) == [.5, .5, .5, 1]


def test_sizes_beyond_all_reason_are_refused(whole):
    for name in ("nkey", "nuserdata", "nuser_body", "nuser_geom"):
        text = refused(whole, "size", name, 2**31 - 1)
        assert name == "nuserdata" or "more than 2^24 numbers" in text, (name, text)


def test_files_are_held_to_the_same():
    """What is read has the place of the file."""
    for text, reason in (('<option tolerance="-1"/>', "option: tolerance is -1"),
                         ('<worldbody><camera name="c" fovy="-1"/></worldbody>', r"model.xml:1:\d+: camera 'c': fovy is -1, expected 0 or more"),
                         ('<equality><weld name="w" body1="a" torquescale="-2"/></equality>', "equality 'w': torquescale is -2, expected 0 or more")):
        with pytest.raises(pb.InputError, match=reason):
            pb.loads(f"<mujoco>{text}<worldbody><body name='a'><joint/><geom size='1'/></body></worldbody></mujoco>")


def test_files_whose_pictures_are_strange_are_taken_as_in_mujoco():
    """Numbers that move nothing; assigned they are refused, and so is what is no number. Coefficients of a fluid have any sign."""
    mujoco = pytest.importorskip("mujoco")
    text = """<mujoco><worldbody><light name="l" cutoff="-1" exponent="-1" diffuse="-1 0 0" ambient="-.1 0 0" specular="-1 2 3" attenuation="-1 0 0"/>
    <camera ipd="-.1"/><body><joint/><geom name="g" size="1" rgba="1 -2 0 1" material="m" fluidshape="ellipsoid" fluidcoef=".5 .25 1.5 1 -1"/>
    <site name="s" rgba="-1 0 0 1"/><site name="t"/></body></worldbody><asset><material name="m" rgba="-1 0 0 1"/></asset>
    <tendon><spatial rgba="0 -1 0 1"><site site="s"/><site site="t"/></spatial></tendon></mujoco>"""
    assert mujoco.MjModel.from_xml_string(text).nq == pb.loads(text).nq == 1
    spec = pb.Spec.from_string(text)
    for value in (-1, np.nan):
        with pytest.raises(pb.ArgumentError, match=r"light 'l' \(model.xml:1:\d+\): cutoff"):
            spec.light("l").cutoff = value
