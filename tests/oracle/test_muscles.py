"""Tendons around geoms and muscles against MuJoCo's own functions, and moments against differences of the own length."""
import ctypes
import glob
import os
import subprocess

import mujoco as mj
import numpy as np
import pytest

import oracle
import inside

LIBRARY = ctypes.CDLL(glob.glob(os.path.join(os.path.dirname(mj.__file__), "libmujoco.so*"))[0])
HERE = os.path.dirname(__file__)

# One tendon around a geom that stands still, between two points that move freely.
FREE = """<mujoco><option gravity="0 0 0"/><worldbody>
<body name="g" pos=".1 -.2 .3" euler="20 -40 70"><geom name="g" type="{shape}" size="{radius} .5" contype="0" conaffinity="0"/>{side}</body>
<body name="a" pos="{a}"><freejoint/><geom size=".01"/><site name="a"/></body><body name="b" pos="{b}"><freejoint/><geom size=".01"/><site name="b"/></body>
</worldbody><tendon><spatial name="t"><site site="a"/><geom geom="g" {word}/><site site="b"/></spatial></tendon></mujoco>"""


def text(v):
    return " ".join(f"{x:.17g}" for x in v)


@pytest.mark.parametrize("shape", ["sphere", "cylinder"])
@pytest.mark.parametrize("side", ["none", "outside", "inside"])
def test_lengths_and_moments(shape, side, tmp_path):
    """Length 1e-12 (inside 1e-11), moment 1e-10 (inside 1e-5), moment against differences of the length 1e-10; both ways occur."""
    r, wrapped, worst = np.random.default_rng(oracle.seed("wrap", shape, side)), 0, np.zeros(3)
    for k in range(3):
        radius = r.uniform(.2, .5)
        place = r.standard_normal(3)
        place *= radius / np.linalg.norm(place) * (r.uniform(.1, .9) if side == "inside" else 1.6)
        site = "" if side == "none" else f'<site name="s" pos="{text(place)}"/>'
        file = tmp_path / f"m{k}.xml"
        file.write_text(FREE.format(shape=shape, radius=radius, side=site, word="" if side == "none" else 'sidesite="s"', a="1 0 0", b="-1 0 0"))
        model, m = inside.Model(str(file)), oracle.load(str(file))
        d = mj.MjData(m)
        for _ in range(150):
            q = model.parts(model.init())[0].copy()
            q[:3], q[7:10] = r.standard_normal((2, 3)) + [.1, -.2, .3]
            v = r.standard_normal(m.nv)
            d.qpos[:], d.qvel[:] = q, v
            mj.mj_forward(m, d)
            model.observe(model.state(q, v))
            length, rate = model.field("ten_length").ravel()[0], model.field("ten_velocity").ravel()[0]
            wrapped += d.ten_wrapnum[0] == 4
            worst[:2] = np.maximum(worst[:2], [abs(length - d.ten_length[0]), abs(rate - d.ten_velocity[0])])

            def along(h):
                t = np.zeros(model.nt)
                t[:m.nv] = v
                model.observe(model.move(model.state(q, v), t, h))
                return model.field("ten_length").ravel()[0]

            h = 1e-3
            quotient = [(along(h / c) - along(-h / c)) / (2 * h / c) for c in (1, 2, 4)]
            first = [(4 * quotient[1] - quotient[0]) / 3, (4 * quotient[2] - quotient[1]) / 3]
            if abs(first[1] - first[0]) < 1e-9:  # on one way all along, and not grazing
                worst[2] = max(worst[2], abs(rate - (16 * first[1] - first[0]) / 15))
    assert 20 < wrapped < 440, wrapped
    assert worst[0] < (1e-11 if side == "inside" else 1e-12) and worst[1] < (1e-5 if side == "inside" else 1e-10) and worst[2] < 1e-10, worst


MUSCLE = """<mujoco><option gravity="0 0 0" timestep=".001"/><worldbody><body><joint name="j" type="slide"/><geom size=".1" mass="{mass}"/></body></worldbody>
<actuator><general joint="j" dyntype="muscle" gaintype="muscle" biastype="muscle" lengthrange="{lr}" dynprm="{dyn}" gainprm="{prm}" biasprm="{prm}"/></actuator></mujoco>"""


def test_force_and_activation(tmp_path):
    """1e-12 relative over lengths and velocities beyond all ends of the curves, both signs of force, hard and smooth time constants."""
    LIBRARY.mju_muscleGain.restype = LIBRARY.mju_muscleBias.restype = LIBRARY.mju_muscleDynamics.restype = ctypes.c_double
    number, array = ctypes.c_double, lambda v: np.ascontiguousarray(v, float).ctypes.data_as(ctypes.POINTER(ctypes.c_double))
    r, worst = np.random.default_rng(oracle.seed("muscle")), 0
    for k in range(8):
        prm = [r.uniform(.5, .8), r.uniform(1, 1.4), r.uniform(10, 90) if k % 2 else -1, r.uniform(50, 300), r.uniform(.2, .7), r.uniform(1.3, 2),
               r.uniform(.5, 3), r.uniform(.5, 2), r.uniform(1.1, 1.9)]
        lr, dyn = [r.uniform(-.5, 0), r.uniform(.2, .8)], [r.uniform(.005, .05), r.uniform(.02, .1), .3 * (k // 2 % 2)]
        file = tmp_path / f"m{k}.xml"
        file.write_text(MUSCLE.format(mass=r.uniform(.5, 3), lr=text(lr), dyn=text(dyn), prm=text(prm)))
        model, m = inside.Model(str(file)), oracle.load(str(file))
        for _ in range(200):
            q, v, act, u = r.uniform(-1.5, 2), r.uniform(-3, 3), r.uniform(-.2, 1.2), r.uniform(-.2, 1.2)
            model.observe(model.state([q], [v], [act]), np.array([u]))
            gain = LIBRARY.mju_muscleGain(number(q), number(v), array(lr), number(m.actuator_acc0[0]), array(prm))
            bias = LIBRARY.mju_muscleBias(number(q), array(lr), number(m.actuator_acc0[0]), array(prm))
            force, rate = gain * act + bias, LIBRARY.mju_muscleDynamics(number(u), number(act), array(dyn))
            worst = max(worst, abs(model.field("actuator_force").ravel()[0] - force) / max(1, abs(force)),
                        abs(model.field("act_dot").ravel()[0] - rate) / max(1, abs(rate)))
    assert worst < 1e-12, worst


SAID = [("""<geom geom="b"/><site site="q"/>""", "a geom needs a site before and behind it"),
        ("""<site site="p"/><geom geom="box"/><site site="q"/>""", "can only wrap around spheres and cylinders"),
        ("""<site site="p"/><geom geom="b" sidesite="no"/><site site="q"/>""", "'no'"),
        ("""<site site="p"/><geom geom="no"/><site site="q"/>""", "'no'"),
        ("""<site site="p"/><pulley divisor="0"/><site site="q"/>""", "pulley: attribute 'divisor' is 0, expected a positive number")]


@pytest.mark.parametrize("path,words", SAID)
def test_refused(path, words, tmp_path):
    file = tmp_path / "m.xml"
    file.write_text(f"""<mujoco><worldbody><geom name="b" size=".1"/><geom name="box" type="box" size=".1 .1 .1"/><site name="p" pos="1 0 0"/><body><joint/><geom size=".1"/>
<site name="q" pos="-1 0 0"/></body></worldbody><tendon><spatial name="t">{path}</spatial></tendon></mujoco>""")
    with pytest.raises(inside.Error, match=words):
        inside.Model(str(file))
    with pytest.raises(ValueError):
        mj.MjModel.from_xml_path(str(file))


@pytest.mark.parametrize("word", ['range="1 .5"', 'lmin="1.2"', 'lmax=".9"', 'vmax="0"', 'scale="0"', 'tausmooth="-1"'])
def test_muscles_refused(word, tmp_path):
    file = tmp_path / "m.xml"
    file.write_text(f"""<mujoco><worldbody><body><joint name="j" range="-1 1"/><geom size=".1"/></body></worldbody>
<actuator><muscle joint="j" lengthrange="0 1" {word}/></actuator></mujoco>""")
    with pytest.raises(inside.Error):
        inside.Model(str(file))
    with pytest.raises(ValueError):
        mj.MjModel.from_xml_path(str(file))


def test_check_names_the_jump(tmp_path):
    """An endpoint beside the ray opposite the side site: the difference is left out, with the reason."""
    file = tmp_path / "m.xml"
    file.write_text("""<mujoco><option gravity="0 0 0"/><worldbody><geom name="g" type="cylinder" size=".1 .5" contype="0" conaffinity="0"/><site name="s" pos="0 .2 0"/>
<site name="a" pos="-.3 -.05 0"/><body pos=".02 -.3 0"><joint name="x" type="slide" axis="1 0 0"/><geom size=".01" mass="1"/><site name="b"/></body></worldbody>
<tendon><spatial name="t" stiffness="50" springlength=".1"><site site="a"/><geom geom="g" sidesite="s"/><site site="b"/></spatial></tendon>
<keyframe><key qpos="-.0200001"/></keyframe></mujoco>""")
    done = subprocess.run([os.path.join(inside.build_dir(), "pullback"), "check", str(file), "--keyframe", "0", "--horizon", "3"], capture_output=True, text=True)
    assert done.returncode == 0 and "jumps off its geom" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("a,b", [("1 0 0", "-1 0 0"), ("1 0 0", "1 0 0"), (".3 0 0", "-1 .5 0"), ("0 0 0", "1 0 0"), ("0 0 2", "0 0 1"), ("2 0 0", "1 0 0")])
@pytest.mark.parametrize("shape", ["sphere", "cylinder"])
@pytest.mark.parametrize("side", ["", "0 0 .6", ".01 0 0", "0 0 0"])
def test_on_one_line(a, b, shape, side, tmp_path):
    """Ends, center and side site on one line, on the surface or in it: MuJoCo's length, and numbers."""
    file, site = tmp_path / "m.xml", f'<site name="s" pos="{side}"/>' if side else ""
    model_text = FREE.replace('pos=".1 -.2 .3" euler="20 -40 70"', "")
    file.write_text(model_text.format(shape=shape, radius=.3, side=site, word='sidesite="s"' if side else "", a=a, b=b))
    model, m = inside.Model(str(file)), oracle.load(str(file))
    d = mj.MjData(m)
    mj.mj_forward(m, d)
    x = model.init()
    _, _, record = model.step_recorded(x)
    model.observe(x)
    assert abs(model.field("ten_length").ravel()[0] - d.ten_length[0]) < 1e-11
    assert all(np.isfinite(v).all() for v in model.vjp(record, next_bar=np.ones(model.nt)).values())
