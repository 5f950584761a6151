"""Specs attached to others: fields, names, keyframes and steps are those of MuJoCo's MjSpec.attach; what cannot be is refused."""
import numpy as np
import pytest

mujoco = pytest.importorskip("mujoco")
import pullback as pb  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:Attach conflict")

CORNERS = [(x, y, z) for x in (-.0625, .0625) for y in (-.125, .125) for z in (-.25, .25)]
ARM = f"""<mujoco model="arm"><compiler angle="radian" eulerseq="zyx" boundmass=".3" balanceinertia="true" inertiagrouprange="0 2"/>
<default><geom rgba="1 0 0 1" material="steel" density="700" friction=".7"/><site size=".02" rgba="0 0 1 1"/>
 <default class="stiff"><joint damping=".3" range="-1 1.2" armature=".01" stiffness="2"/><geom density="400"/><motor gear="3"/></default></default>
<asset><texture name="grid" type="2d" builtin="checker" width="8" height="8" rgb1="1 0 0" rgb2="0 1 0"/><material name="steel" texture="grid"/>
 <mesh name="brick" vertex="{" ".join(f"{x} {y} {z}" for x, y, z in CORNERS)}"/></asset>
<custom><numeric name="version" data="1 2"/><text name="word" data="arm"/>
 <tuple name="both"><element objtype="joint" objname="turn"/><element objtype="geom" objname="palm"/></tuple></custom>
<worldbody><geom name="rail" type="box" size=".1 1 .1" pos="0 0 -1"/><light pos="0 0 3" mode="targetbody" target="upper"/>
 <frame name="mount" pos="0 .1 1" euler=".1 .2 .3" childclass="stiff"><camera name="eye" pos="1 0 0" mode="targetbody" target="lower"/>
  <body name="upper" pos="0 0 .2" euler=".3 0 .1"><joint name="turn" axis="0 1 0"/><geom name="palm" size=".1"/>
   <site name="tip" pos=".2 0 -.1" euler="0 0 .5"/><site name="far" pos="0 .2 .1"/>
   <frame euler=".2 0 .4" pos="0 0 .1"><body name="lower" pos="0 .1 .5"><joint name="slide" type="slide" range="-.2 .2" axis="1 0 1"/>
    <geom type="mesh" mesh="brick" name="blade"/><site name="end"/>
    <body name="tool"><joint name="ball" type="ball" range="0 0"/><geom type="capsule" size=".01" fromto="0 0 0 .1 .1 .2"/>
     <inertial pos="0 0 0" mass=".001" diaginertia="1e-3 1e-3 3e-3"/></body></body></frame></body></frame></worldbody>
<contact><pair name="near" geom1="rail" geom2="palm" condim="4"/><exclude name="pass" body1="upper" body2="tool"/><exclude body1="upper" body2="lower"/>
</contact>
<equality><joint name="coupled" joint1="turn" joint2="slide" polycoef="0 .1 0 0 0"/><connect site1="tip" site2="end" active="false"/></equality>
<tendon><fixed name="line"><joint joint="turn" coef="1"/><joint joint="slide" coef="-2"/></fixed>
 <spatial name="rope" stiffness="3"><site site="tip"/><geom geom="palm" sidesite="far"/><site site="end"/></spatial></tendon>
<actuator><motor name="push" class="stiff" joint="turn"/><general name="pull" tendon="line" dyntype="filter" dynprm=".1"/>
 <position name="lift" joint="slide" kp="5" ctrlrange="-1 1"/></actuator>
<sensor><jointpos joint="turn" name="angle"/><framepos objtype="body" objname="tool" reftype="body" refname="upper" name="apart"/>
 <tendonpos tendon="line"/><actuatorfrc actuator="pull"/><accelerometer site="tip"/><framepos name="of_world" objtype="body" objname="world"/></sensor>
<keyframe><key name="home" qpos=".5 .1 1 0 0 0" ctrl="1 2 3" qvel="1 2 3 4 5" act=".4" time="2"/></keyframe></mujoco>"""
BALLS = """<mujoco model="balls"><compiler angle="degree"/><option gravity="0 0 -1" timestep=".01"/>
<worldbody><geom name="floor" type="plane" size="3 3 1"/>
<body name="led" mocap="true" pos="1 2 3" euler="0 20 10"><geom size=".01" contype="0" conaffinity="0"/></body>
<body name="one" pos="2 0 1"><freejoint name="free"/><geom name="skin" size=".1"/></body>
<body name="two" pos="0 2 1"><joint name="hinge" range="-30 40" ref="10"/><geom name="hull" type="box" size=".1 .2 .1"/></body></worldbody>
<equality><weld body1="one" body2="led" active="false"/><weld body1="world" body2="two" active="false"/></equality>
<contact><exclude body1="world" body2="two"/></contact>
<keyframe><key name="up" qpos="1 2 3 1 0 0 0 20" mpos="4 5 6" mquat="0 1 0 0"/></keyframe></mujoco>"""
CART = """<mujoco model="cart"><compiler angle="degree"/><option timestep=".004"/><worldbody><body name="lead" mocap="true">
<geom size=".05" contype="0" conaffinity="0"/></body>
<body name="cart" pos="0 0 .2"><joint name="rail" type="slide"/><geom name="box" type="box" size=".1 .1 .1"/>
<frame name="top" pos="0 0 .1" euler="0 0 40"/><body name="pole" pos="0 0 .1"><joint name="swing" axis="0 1 0" range="-90 90"/>
<geom type="capsule" fromto="0 0 0 0 0 .3" size=".02"/></body></body>
<body name="last" pos="2 2 2"><joint name="other"/><geom name="skin" size=".2"/></body></worldbody>
<actuator><intvelocity name="drive" joint="swing" kp="2" actrange="-1 1"/><motor name="turn" joint="other"/></actuator><sensor>
<jointpos name="angle" joint="other"/></sensor>
<keyframe><key name="start" qpos=".1 .2 .3" ctrl="4 5" act=".6" mpos="1 0 1"/></keyframe></mujoco>"""
PAIRS = {"arm on a frame": (CART, ARM, "top", {"pos": [.1, 0, .2], "quat": [1, 2, 0, 0]}), "arm in the world": (CART, ARM, None, {}),
         "arm on a body": (CART, ARM, "pole", {"pos": [0, 0, .3]}), "balls beside": (CART, BALLS, None, {"pos": [0, 4, 0]}),
         "cart beside balls": (BALLS, CART, None, {}), "arm on an arm": (ARM, ARM, "tool", {"quat": [1, 0, 1, 0]}),
         "cart beside a cart": (CART, CART, None, {"pos": [0, 1, 0]})}


def theirs(text, other, to, fields):
    spec, child = mujoco.MjSpec.from_string(text), mujoco.MjSpec.from_string(other)
    around = next(e for e in (*spec.frames, *spec.bodies) if e.name == (to or "world"))
    if isinstance(around, mujoco._specs.MjsFrame):
        # It has no frame in a frame; its pose is put into that of the one.
        pos, quat = np.zeros(3), np.zeros(4)
        turned = np.array(fields.get("quat", [1, 0, 0, 0]), float)
        euler = np.zeros(4)
        mujoco.mju_euler2Quat(euler, np.deg2rad([0, 0, 40]), "xyz")
        mujoco.mju_rotVecQuat(pos, np.array(fields.get("pos", [0, 0, 0]), float), euler)
        mujoco.mju_mulQuat(quat, euler, turned / np.linalg.norm(turned))
        frame = around.parent.add_frame(pos=around.pos + pos, quat=quat)
    else:
        frame = around.add_frame(**fields)
    spec.attach(child, prefix="x_", frame=frame)
    return spec.compile()


def ours(text, other, to, fields):
    spec = pb.Spec.from_string(text)
    around = next((e for e in (*spec.frames, *spec.bodies) if e.name == to), spec.worldbody)
    around.attach(pb.Spec.from_string(other), "x_", **fields)
    return spec


@pytest.fixture(params=PAIRS)
def pair(request):
    return theirs(*PAIRS[request.param]), ours(*PAIRS[request.param])


KINDS = ("body", "joint", "geom", "site", "actuator", "sensor", "tendon")
LISTS = {"pairs": "PAIR", "excludes": "EXCLUDE", "equalities": "EQUALITY", "tendons": "TENDON", "actuators": "ACTUATOR",
         "sensors": "SENSOR", "keys": "KEY", "numerics": "NUMERIC", "texts": "TEXT", "tuples": "TUPLE", "meshes": "MESH"}


def called(m, kind, count):
    return [mujoco.mj_id2name(m, getattr(mujoco.mjtObj, f"mjOBJ_{kind}"), k) or "" for k in range(count)]


def test_fields_and_names_are_mujocos(pair):
    m, spec = pair
    model, brought = spec.compile(), pb.from_mujoco(m)
    assert set(model.params) == set(brought.params)
    for name in brought.params:
        a, b = np.ravel(model.params[name]), np.ravel(brought.params[name])
        assert a.shape == b.shape and np.allclose(a, b, rtol=1e-12, atol=1e-12), name
    for kind in KINDS:
        assert list(model.names(kind)) == called(m, kind.upper(), len(model.names(kind))), kind
    for members, kind in LISTS.items():
        names = [e.name for e in getattr(spec, members)]
        assert sorted(names) == sorted(called(m, kind, len(names))), members
    materials = [v.name for v in spec.visuals if v.element == "asset/material"]
    assert materials == called(m, "MATERIAL", m.nmat)


def test_keyframes_are_mujocos(pair):
    """Those of both, in the order of the whole; NaN, and what is behind the last, is what the reference has."""
    m, spec = pair
    assert len(spec.keys) == m.nkey
    for k, key in enumerate(spec.keys):
        assert key.time == m.key_time[k]
        for name in ("qpos", "qvel", "act", "ctrl", "mpos", "mquat"):
            found, expected = getattr(key, name), getattr(m, f"key_{name}")[k].ravel()
            given = ~np.isnan(found)
            assert found.size <= expected.size
            assert np.array_equal(found[given], expected[:found.size][given]), (key.name, name)


def alike(found, expected, bound):
    return np.abs(found - expected).max() <= bound * max(1, np.abs(expected).max())


def test_steps_are_mujocos(pair):
    """Of both models to 1e-12, and of mj_step itself, from moved states with controls."""
    m, spec = pair
    m.opt.tolerance, m.opt.iterations = 0, 100
    model, brought = spec.compile(options={"tolerance": 0, "iterations": 100}), pb.from_mujoco(m)
    rng, d = np.random.default_rng(7), mujoco.MjData(m)
    for _ in range(5):
        state, ctrl = model.integrate(model.init(), .1 * rng.normal(size=len(model.tangent_names))), rng.normal(size=model.nu)
        found = model.step(state, ctrl)
        assert alike(found.flat, brought.step(brought.state(state.flat), ctrl).flat, 1e-12)
        mujoco.mj_resetData(m, d)
        state.to_mujoco(d)
        d.ctrl[:] = ctrl
        mujoco.mj_step(m, d)
        assert alike(found.qpos, d.qpos, 1e-10) and alike(found.qvel, d.qvel, 1e-9)


# ---- what is not MuJoCo's business --------------------------------------------------------------------------------------------
def packed(spec):
    return spec.compile()._compiled.pack()


def test_options_are_those_of_the_spec_and_differences_are_told():
    spec, child = pb.Spec.from_string(CART), pb.Spec.from_string(BALLS)
    frame = spec.attach(child, "x_", name="beside", pos=[0, 0, 1])
    assert frame == spec.frame("beside") and frame.body == spec.worldbody and list(frame.pos) == [0, 0, 1]
    assert spec.body("x_one").frame == frame and spec.option.timestep == .004
    assert [w.split("'")[1] for w in spec.warnings] == ["timestep", "gravity"] and spec.compile().warnings == spec.warnings
    arm = pb.Spec.from_string(CART)
    arm.body("pole").attach(pb.Spec.from_string(ARM), "x_")
    assert any("of_world" in w and "names the world alone" in w for w in arm.warnings) and "x_of_world" not in arm.sensors


def test_what_cannot_be_is_refused_and_changes_nothing():
    spec, child = pb.Spec.from_string(ARM), pb.Spec.from_string(CART)
    before, gone = packed(spec), spec.worldbody.add_frame()
    gone.remove()
    bad = pb.Spec.from_string(BALLS)
    bad.keys[0].qpos = np.zeros(20)
    for what, kind, text in ((lambda: spec.attach(spec, "x_"), pb.ArgumentError, "to itself"),
                             (lambda: spec.attach(pb.Spec.from_string(ARM)), pb.ArgumentError, 'another prefix than ""'),
                             (lambda: spec.attach(child, to=child.body("cart")), pb.ArgumentError, "of this spec"),
                             (lambda: spec.attach(child, to=spec.geom("rail")), pb.ArgumentError, "of this spec"),
                             (lambda: spec.attach(child, to="upper"), pb.ArgumentError, "of this spec"),
                             (lambda: spec.attach(child, "x_", to=gone), ReferenceError, "removed"),
                             (lambda: spec.attach(child, 3), pb.ArgumentError, "prefix"),
                             (lambda: spec.attach(child, "a\0"), pb.ArgumentError, "prefix"),
                             (lambda: spec.attach(child, "\ud800"), pb.ArgumentError, "prefix"),
                             (lambda: spec.attach(ARM, "x_"), pb.ArgumentError, "a Spec"),
                             (lambda: spec.attach(child, "x_", pso=1), pb.ArgumentError, "'pos'"),
                             (lambda: spec.attach(child, "x_", pos="here"), pb.ArgumentError, "pos"),
                             (lambda: spec.attach(child, "x_", body=spec.worldbody), pb.ArgumentError, "body is that of"),
                             (lambda: spec.attach(child, "x_", name="mount"), pb.ArgumentError, "frame called 'mount'"),
                             (lambda: spec.attach(child, "x_", name="x_top"), pb.ArgumentError, "frame called 'x_top'"),
                             (lambda: spec.attach(bad, "x_"), pb.InputError, "key 'up': qpos has 20 numbers")):
        with pytest.raises(kind, match=text):
            what()
        assert packed(spec) == before and not spec.warnings
    assert packed(child) == packed(pb.Spec.from_string(CART))


def test_often_and_deep_and_edited_afterwards():
    """Ten in a row, each on the one before; the other spec may go, and what came is edited as anything else."""
    spec = pb.Spec.from_string(CART)
    last = spec.body("last")
    for k in range(10):
        child = pb.Spec.from_string(ARM)
        frame = last.attach(child, f"{k}_", pos=[0, 0, .1])
        last = spec.body(f"{k}_tool")
        del child
    model = spec.compile()
    assert model.nu == 2 + 30 and model.nq == 3 + 60 and [k.name for k in spec.keys][:3] == ["start", "0_home", "1_home"]
    assert list(spec.keys[0].qpos) == [.1, .2, .3] and list(spec.key("9_home").qpos[-6:]) == [.5, .1, 1, 0, 0, 0]
    frame.remove()
    shorter = pb.Spec.from_string(CART)
    last = shorter.body("last")
    for k in range(9):
        last.attach(pb.Spec.from_string(ARM), f"{k}_", pos=[0, 0, .1])
        last = shorter.body(f"{k}_tool")
    assert len(spec.joints) == len(shorter.joints) and [a.name for a in spec.actuators] == [a.name for a in shorter.actuators]
    twin = shorter.copy()
    assert packed(twin) == packed(shorter)
    twin.geom("3_palm").size = [.2, 0, 0]
    assert packed(twin) != packed(shorter)


def test_an_empty_one_and_two_without_prefix():
    spec = pb.Spec()
    assert spec.attach(pb.Spec()) in spec.frames and spec.compile().nq == 0
    spec.attach(pb.Spec.from_string(CART))
    spec.attach(pb.Spec())
    assert packed(spec) != packed(pb.Spec.from_string(CART)) and spec.compile().names("joint") == ("rail", "swing", "other")
