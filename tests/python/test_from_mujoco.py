"""Models and states from MuJoCo's own and back: every number in full, what differs is said, what there is not is refused by name."""
import os
import pathlib

import numpy as np
import pytest

mujoco = pytest.importorskip("mujoco")
import pullback as pb  # noqa: E402
from conftest import ROOT  # noqa: E402
from pullback.decompile import Decompiled  # noqa: E402

MODELS = pathlib.Path(ROOT, "tests", "oracle", "models")
OWN = sorted(path for path in MODELS.glob("*.xml") if path.stem != "include_part")
ROUND = {"contact_mesh": 1e-7}  # vertices, which are brought to their center once more


def gymnasiums():
    """Its models, where it is installed."""
    try:
        import gymnasium.envs.mujoco as of
    except ImportError:
        return []
    return sorted(pathlib.Path(of.__file__).parent.joinpath("assets").glob("*.xml"))


def both(path):
    try:
        return mujoco.MjModel.from_xml_path(str(path)), pb.load(path)
    except (ValueError, pb.Error) as error:
        pytest.skip(f"no model of both: {error}")


def steps_alike(path, ours, plain, bound):
    """One step of both from moved states, with controls."""
    rng = np.random.default_rng(7)
    for _ in range(3):
        state = plain.integrate(plain.init(), .1 * rng.normal(size=len(plain.tangent_names)))
        ctrl = rng.normal(size=plain.nu)
        try:
            expected = plain.step(state, ctrl).flat
        except pb.StepError:
            continue
        found = ours.step(ours.state(state.flat), ctrl).flat
        assert np.abs(found - expected).max() <= bound * max(1, np.abs(expected).max()), path


@pytest.mark.parametrize("path", [*gymnasiums(), *OWN], ids=lambda path: path.stem)
def test_a_model_is_that_of_its_file(path):
    m, plain = both(path)
    ours = pb.from_mujoco(m)
    for name in ours.params:
        if hasattr(m, name) and name != "mesh_scale" and ours.params[name].size:
            assert np.array_equal(np.ravel(getattr(m, name)), np.ravel(ours.params[name])), name
    for kind in ("body", "joint", "geom", "site", "actuator", "sensor", "tendon"):
        named = zip(ours.names(kind), plain.names(kind), strict=True)
        assert all(a == b or (a.startswith("unnamed") and not b) for a, b in named), kind
    meshes = [text for text in ours.warnings if "mesh_vert" in text]
    assert bool(meshes) == (path.stem in ("contact_mesh", "sensors_distance", "sensors_rays")) and not set(ours.warnings) - set(plain.warnings) - set(meshes)
    steps_alike(path, ours, plain, ROUND.get(path.stem, 1e-12))


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.stem)
def test_mujoco_makes_the_same_of_the_text(path):
    """Every field but what is only seen; vertices of meshes, and what follows from them, to single precision."""
    m, _ = both(path)
    made = mujoco.MjModel.from_xml_string(Decompiled(m).text())
    from pullback.bridge import _matters
    for name in (n for n in dir(m) if isinstance(getattr(m, n), np.ndarray) and _matters(n)):
        a, b = getattr(m, name), getattr(made, name)
        assert a.shape == b.shape and np.allclose(a, b, rtol=0, atol=2e-8 if m.nmesh else 1e-14), name


CART = """<mujoco><option timestep=".004"/><worldbody><geom name="floor" type="plane" size="3 3 .1"/>
<body name="cart" pos="0 0 .2"><freejoint/><geom name="box" type="box" size=".1 .1 .1"/><body pos="0 0 .1"><joint name="swing" axis="0 1 0"/>
<geom type="capsule" fromto="0 0 0 0 0 .3" size=".02"/></body></body></worldbody><actuator><motor joint="swing" gear="2"/></actuator></mujoco>"""


def test_what_code_changed_comes_along():
    """Masses, friction, gravity, gains and flags of a compiled model; the step is MuJoCo's."""
    m = mujoco.MjModel.from_xml_string(CART)
    rng = np.random.default_rng(1)
    m.body_mass[1:] *= rng.uniform(.5, 2, m.nbody - 1)
    m.body_inertia[1:] *= rng.uniform(.9, 1.1, (m.nbody - 1, 1))
    mujoco.mj_setConst(m, mujoco.MjData(m))
    m.geom_friction[:, 0], m.opt.gravity[:], m.opt.timestep, m.actuator_gear[0, 0] = 1 / 3, [.1, .2, -1 / 3], 1 / 300, 1 / 7
    m.opt.tolerance, m.opt.iterations, m.opt.disableflags = 0, 100, int(mujoco.mjtDisableBit.mjDSBL_WARMSTART)
    ours = pb.from_mujoco(m, options={"tolerance": 0})
    assert ours.timestep == 1 / 300 and ours.params["geom_friction"][0, 0] == 1 / 3 and ours.option["warmstart"] is False
    d = mujoco.MjData(m)
    d.qpos[2], d.qvel[:] = .09, rng.normal(size=m.nv)
    for _ in range(5):
        state, d.ctrl[0] = pb.State.from_mujoco(ours, d), rng.normal()
        mujoco.mj_step(m, d)
        found = ours.step(state, d.ctrl)
        assert np.abs(found.qpos - d.qpos).max() < 1e-10 and np.abs(found.qvel - d.qvel).max() < 1e-8


def test_masses_of_which_mujoco_takes_no_notice_are_refused():
    """The mass matrix of a body that MuJoCo calls simple is that of its compiler."""
    m = mujoco.MjModel.from_xml_string("<mujoco><worldbody><body><freejoint/><geom size='.1'/></body></worldbody></mujoco>")
    m.body_mass[1] *= 2
    with pytest.raises(pb.UnsupportedError, match=r"dof_M0\[0\].*mj_setConst"):
        pb.from_mujoco(m)
    mujoco.mj_setConst(m, mujoco.MjData(m))
    assert pb.from_mujoco(m).params["body_mass"][1] == m.body_mass[1]


def test_a_specification():
    spec = mujoco.MjSpec.from_string(CART)
    ball = spec.worldbody.add_body(name="ball", pos=[1 / 3, 0, 1])
    ball.add_freejoint()
    ball.add_geom(name="round", size=[1 / 7, 0, 0])
    ours = pb.from_mujoco(spec)
    assert ours.nbody == 4 and ours.params["geom_size:round"][0] == 1 / 7 and ours.init().qpos[8] == 1 / 3


def test_states_go_both_ways():
    m = mujoco.MjModel.from_xml_string(CART)
    d = mujoco.MjData(m)
    for _ in range(20):
        mujoco.mj_step(m, d)
    ours, state = pb.from_mujoco(m, d)
    there = mujoco.MjData(m)
    state.to_mujoco(there)
    for name in ("time", "qpos", "qvel", "act", "qacc_warmstart"):
        assert np.array_equal(getattr(there, name), getattr(d, name)), name
    assert ours.state(state.flat) == pb.State.from_mujoco(ours, there)


def test_parameters_go_back():
    m = mujoco.MjModel.from_xml_string(CART)
    ours = pb.from_mujoco(m).with_params({"body_mass": [0, 3, 1 / 3], "gravity": [0, 0, -1.6], "timestep": 1 / 999})
    ours.to_mujoco(m)
    assert m.body_mass[2] == 1 / 3 and m.opt.gravity[2] == -1.6 and m.opt.timestep == 1 / 999 and pb.from_mujoco(m).params == ours.params
    expected = mujoco.MjModel.from_xml_string(CART)
    expected.body_mass[:] = [0, 3, 1 / 3]
    mujoco.mj_setConst(expected, mujoco.MjData(expected))
    assert np.allclose(m.body_invweight0, expected.body_invweight0, rtol=1e-12) and np.allclose(m.dof_invweight0, expected.dof_invweight0, rtol=1e-12)


@pytest.mark.parametrize("change, said", [
    (lambda m, d: setattr(m.opt, "integrator", mujoco.mjtIntegrator.mjINT_IMPLICIT), "implicit"),
    (lambda m, d: m.geom_adhesion.__setitem__(1, .5), r"geom_adhesion\[1\] is 0.5"),
    (lambda m, d: m.geom_surfacevel.__setitem__((0, 0), .5), r"geom_surfacevel\[0, 0\]"),
    (lambda m, d: m.jnt_springyield.__setitem__(1, .5), r"jnt_springyield\[1\]"),
    (lambda m, d: setattr(m.opt, "enableflags", int(mujoco.mjtEnableBit.mjENBL_SLEEP)), "sleep"),
], ids=["integrator", "adhesion", "surface", "yield", "sleep"])
def test_what_there_is_not_is_refused_by_name(change, said):
    m = mujoco.MjModel.from_xml_string(CART)
    d = mujoco.MjData(m)
    change(m, d)
    with pytest.raises(pb.Error, match=said):
        pb.from_mujoco(m, d)


def test_what_does_not_fit_is_said():
    m, other = mujoco.MjModel.from_xml_string(CART), mujoco.MjModel.from_xml_string("<mujoco/>")
    ours = pb.from_mujoco(m)
    with pytest.raises(pb.ArgumentError, match="expected mujoco.MjModel or mujoco.MjSpec, found str"):
        pb.from_mujoco(CART)
    with pytest.raises(pb.ArgumentError, match="data.qpos: expected 8 numbers"):
        pb.State.from_mujoco(ours, mujoco.MjData(other))
    with pytest.raises(pb.ArgumentError, match="data.qpos: expected 8 numbers"):
        ours.init().to_mujoco(mujoco.MjData(other))
    with pytest.raises(pb.ArgumentError, match="one world, found 2"):
        ours.init(batch=2).to_mujoco(mujoco.MjData(m))
    with pytest.raises(pb.ArgumentError, match="expected .* numbers, as the model has, found 0"):
        ours.to_mujoco(other)
    equal = mujoco.MjModel.from_xml_path(str(MODELS / "equality.xml"))
    d = mujoco.MjData(equal)
    d.eq_active[0] = not d.eq_active[0]
    with pytest.raises(pb.UnsupportedError, match="eq_active"):
        pb.from_mujoco(equal, d)
    grid = "<flexcomp name='f' type='grid' count='3 3 1' spacing='.1 .1 .1' dim='2'/>"
    flexible = mujoco.MjModel.from_xml_string(f"<mujoco><worldbody>{grid}</worldbody></mujoco>")
    with pytest.raises(pb.UnsupportedError, match="flexes: the model has 1"):
        pb.from_mujoco(flexible)


def test_what_takes_mujocos_own_is_said():
    m, spec = mujoco.MjModel.from_xml_string(CART), mujoco.MjSpec.from_string(CART)
    ours, d = pb.loads(CART), mujoco.MjData(m)
    for call, said in ((lambda: pb.load(m), r"path: found mujoco.MjModel, which pb.from_mujoco\(model\) takes"),
                       (lambda: pb.loads(spec), "found mujoco.MjSpec"), (lambda: ours.state(d), "State.from_mujoco"),
                       (lambda: ours.rollout(d, steps=1), "State.from_mujoco"),
                       (lambda: ours.step(d), "State.from_mujoco"), (lambda: ours.contacts(d), "State.from_mujoco")):
        with pytest.raises(pb.ArgumentError, match=said):
            call()


def test_no_file_is_written_or_left(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pb.from_mujoco(mujoco.MjModel.from_xml_string(CART))
    assert os.listdir(tmp_path) == []
