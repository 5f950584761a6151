"""What a model is loaded with beside its file: deformables, policies, parameters on request, designs, rules of URDF."""
import json
import os

import numpy as np
import pytest

import pullback as pb
from conftest import ROOT

TETRAHEDRON = ('<mujoco><asset><mesh name="m" vertex="0 0 0 .2 0 0 0 .2 0 0 0 .2"/></asset><worldbody><geom type="plane" size="1 1 1"/>'
               '<body pos="0 0 .3"><freejoint/><geom type="mesh" mesh="m" name="g"/></body></worldbody></mujoco>')
EMPTY = "<mujoco><option timestep='.02'/></mujoco>"


def slope(model, name, start, steps, weigh, change=1e-6):
    """A difference of own rollouts along a parameter as a whole, of a weighed last state."""
    def value(factor):
        moved = model.with_params({name: model.params[name] * factor})
        return float(np.sum(weigh * moved.rollout(start, steps=steps).states[-1]))
    return (value(1 + change) - value(1 - change)) / (2 * change)


def test_deformables(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with open(os.path.join(ROOT, "examples", "cloth", "drape.json"), encoding="utf-8") as f:
        cloth = json.load(f)["deformables"]
    model = pb.loads(EMPTY, deformables=cloth)
    assert model.name == "" and "points" in model.init().fields and not os.listdir(tmp_path)
    start, count = model.init(), len(model.tangent_names)
    r = model.rollout(start, steps=20, params={})
    bar = np.random.default_rng(0).standard_normal(count)
    name = next(n for n in model.params if n.endswith("young"))
    g = r.vjp(state=bar, wrt=[name])
    t = r.jvp(params={name: model.params[name]})
    along = float(np.sum(g.params[name] * model.params[name]))
    np.testing.assert_allclose(along, t.x[-1] @ bar, rtol=1e-9)
    weigh = np.zeros(start.flat.shape)
    move = lambda d: model.integrate(r.final, d).flat - r.final.flat
    for k in range(count):  # the weights of numbers whose change along a tangent is bar
        weigh += bar[k] * (move(np.eye(count)[k] * 1e-3) / 1e-3)
    np.testing.assert_allclose(slope(model, name, start, 20, weigh), along, rtol=1e-5)


def test_policies():
    path = os.path.join(ROOT, "examples", "cartpole", "cartpole.xml")
    with open(os.path.join(ROOT, "examples", "cartpole", "swing-up.json"), encoding="utf-8") as f:
        policy = json.load(f)["policy"]
    model = pb.load(path, policy=policy)
    weights = [n for n in model.params if n.startswith("policy")]
    assert weights
    g = model.rollout(model.init(), steps=30).vjp(qpos=np.ones(model.nv), wrt=weights)
    assert any(np.abs(g.params[n]).max() > 0 for n in weights)
    with pytest.raises(pb.InputError, match="layers"):
        pb.load(path, policy={**policy, "layers": "none"})


def test_a_policy_that_acts_on_many_joints():
    """Forces on joints that one row names are those of a row for each of them."""
    path = os.path.join(ROOT, "examples", "quadruped", "quadruped.xml")
    plain = pb.load(path)
    names = [name for name in plain.names("joint") if name][-8:]
    policy = {"observe": [{"qvel": names}], "layers": [{"dense": 8}]}
    one, each = (pb.load(path, policy={**policy, "output": output}) for output in ({"force": names}, [{"force": name} for name in names]))
    ends = [m.rollout(m.init(), steps=20).qpos[-1] for m in (one, each, plain)]
    assert np.array_equal(ends[0], ends[1]) and not np.array_equal(ends[0], ends[2])
    assert one == one and one != each and one != plain  # no bytes to compare, and yet an answer


def test_parameters_on_request_and_designs():
    assert "mesh_vert:m" not in pb.loads(TETRAHEDRON).params
    model = pb.loads(TETRAHEDRON, expose="mesh_vert:m")
    assert model.params["mesh_vert:m"].size == 12
    plain, design = pb.loads(TETRAHEDRON), pb.loads(TETRAHEDRON, design=True)
    grown = {"mesh_scale:m": 1.1 * plain.params["mesh_scale:m"]}
    assert np.isclose(design.with_params(grown).params["body_mass"][1], 1.1**3 * plain.params["body_mass"][1])
    assert plain.with_params(grown).params["body_mass"][1] == plain.params["body_mass"][1]
    with pytest.raises(pb.ArgumentError, match="nothing"):
        pb.loads(TETRAHEDRON, expose=["mesh_vert:nothing"])


EXPOSED = """<mujoco><asset><hfield name="hf" nrow="3" ncol="3" size="1 1 .2 .1" elevation=".1 .2 .1 .3 .5 .2 .1 .1 .4"/>
<mesh name="m" vertex="-.05 -.05 -.05  .05 -.05 -.05  -.05 .05 -.05  .06 .05 -.05  -.05 -.05 .05  .05 -.05 .05  -.05 .05 .05  .05 .05 .06"/></asset>
<worldbody><geom type="hfield" hfield="hf"/><body pos=".03 .07 .15" euler="20 33 47"><freejoint/>
<geom type="mesh" mesh="m"/></body></worldbody></mujoco>"""


@pytest.mark.parametrize("constants", ["recompute", "keep"])
@pytest.mark.parametrize("name", ["mesh_vert:m", "mesh_vert:m:3", "mesh_vert:m:3:2", "hfield_data:hf", "hfield_data:hf:1"])
def test_gradients_by_exposed_vertices_and_heights(name, constants):
    """Asked for by name, or passed; whole, a row and a number; shared and each world's own: one gradient, that of differences."""
    model, bar = pb.loads(EXPOSED, expose=["mesh_vert:m", "hfield_data:hf"]), np.array([.3, -.2, 1, .4, .2, -.5])
    model = model.with_params({"hfield_data:hf": .01 + model.params["hfield_data:hf"]})  # none at its bound
    value = model.params[name]
    roll = lambda v: model.rollout(model.init(), steps=5, constants=constants, params={name: v})
    found = roll(value).vjp(qvel=bar).params[name]
    assert found.shape == value.shape and np.abs(found).max() > .1
    assert np.array_equal(model.rollout(model.init(), steps=5, constants=constants).vjp(qvel=bar, wrt=[name]).params[name], found)
    both = roll(np.stack([value, value])).vjp(qvel=np.stack([bar, 2 * bar])).params[name]
    np.testing.assert_allclose(both, np.stack([found, 2 * found]), rtol=1e-12)

    for entry in np.ndindex(value.shape):
        way = np.zeros(value.shape)
        way[entry] = 1
        away = [float(bar @ roll(value + step * way).qvel[-1]) for step in (1e-7, -1e-7)]
        assert abs((away[0] - away[1]) / 2e-7 - found[entry]) < 1e-5 * max(1, np.abs(found).max()), entry


def test_rules_of_urdf():
    text = """<robot name="r"><link name="a"/><link name="b"/><link name="c"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1"
ixy="0" ixz="0" iyz="0"/></inertial><collision><geometry><mesh filename="nowhere.stl"/></geometry></collision></link>
<joint name="f" type="fixed"><parent link="a"/><child link="b"/></joint>
<joint name="j" type="continuous"><parent link="b"/><child link="c"/></joint></robot>"""
    with pytest.raises(pb.Error, match="nowhere.stl"):
        pb.loads(text, {"readme.txt": ""}, name="r.urdf")
    model = pb.loads(text, {"readme.txt": ""}, name="r.urdf", missing_meshes="skip", motors=True)
    assert model.nu == 1 and any("nowhere.stl" in w for w in model.warnings)
    fused = pb.loads(text, {"readme.txt": ""}, name="r.urdf", missing_meshes="skip", fuse=True)
    assert fused.nbody < model.nbody
    with pytest.raises(pb.ArgumentError, match="refuse, skip"):
        pb.loads(text, {"readme.txt": ""}, name="r.urdf", missing_meshes="perhaps")


def test_options_are_told_as_they_are_set():
    text = "<mujoco><option integrator='RK4' cone='elliptic'><flag gravity='disable' energy='enable'/></option><worldbody><body><joint name='j'/>" \
           "<geom size='.1'/></body></worldbody><actuator><position name='p' joint='j' kp='3' kv='1' forcerange='-1 1'/></actuator></mujoco>"
    model = pb.loads(text)
    assert (model.option["integrator"], model.option["cone"], model.option["gravity"], model.option["energy"]) == ("RK4", "elliptic", False, True)
    assert model.option["tolerance"] == 0 and model.option["iterations"] == 100 and model.option["servo"] == "none" and model.contact["method"] == "soft"

    # All of them, set to what they say, are what they were; changed ones say so.
    for name, value in model.option.items():
        assert pb.loads(text, options={name: value}).option == model.option, name
    for name, value in model.contact.items():
        if name not in ("stiffness", "damping", "width", "slip"):
            assert pb.loads(text, contact={name: value}).contact == model.contact, name
    changed = pb.loads(text, options={"tolerance": 1e-7, "iterations": 7, "contact": False, "integrator": "Euler", "servo": "p"},
                       contact={"method": "cones", "cfm": 1e-6, "erp": .25})
    assert {**model.option, "tolerance": 1e-7, "iterations": 7, "contact": False, "integrator": "Euler", "servo": "p"} == changed.option
    assert {**model.contact, "method": "cones", "cfm": 1e-6, "erp": .25} == changed.contact
    with pytest.raises(TypeError):
        model.option["tolerance"] = 1


def test_quantities_of_an_evaluation():
    """The mass matrix and what the forces come to, in one world and in several: M qacc = forces, as inspect has them."""
    model = pb.load(os.path.join(ROOT, "examples", "quadruped", "quadruped.xml"))
    state = model.init()
    state.qvel[:] = np.linspace(-1, 1, model.nv)
    u = np.linspace(-.5, .5, model.nu)
    found, program = model.evaluate(state, u, ("M", "qacc", "qfrc_smooth", "qfrc_constraint", "xpos", "contact_dist")), pb.inspect(model, state, u)
    for name in found:
        assert np.array_equal(np.ravel(found[name]), np.ravel(program[name])), name
    assert found["M"].shape == (model.nv, model.nv) and found["xpos"].shape == (model.nbody, 3)
    np.testing.assert_allclose(found["M"] @ found["qacc"], found["qfrc_smooth"] + found["qfrc_constraint"], atol=1e-9)

    worlds = model.init(batch=3)
    worlds.qpos[1, 2] += 1
    several = model.evaluate(worlds, np.stack([u, 2 * u, 0 * u]), "qacc")
    assert len(several) == 3 and np.array_equal(several[2]["qacc"], model.evaluate(model.init(), 0 * u, "qacc")["qacc"])
    with pytest.raises(KeyError, match="nothing is called 'mass'"):
        model.evaluate(state, names="mass")
    with pytest.raises(pb.ArgumentError):
        model.evaluate(state, np.zeros(3))


def test_odd_texts_and_settings_are_refused():
    mesh = "<mujoco><asset><mesh name='m' file='m.obj'/></asset></mujoco>"
    for data in (3, None, [1, 2], True):
        with pytest.raises(pb.ArgumentError, match="assets: expected bytes or text of 'm.obj'"):
            pb.loads(mesh, assets={"m.obj": data})
    for text in (None, 3):
        with pytest.raises(pb.ArgumentError, match="text: expected that of a model"):
            pb.loads(text)
    for settings in ("tolerance", [1], 3):
        with pytest.raises(pb.ArgumentError, match="settings: expected a dict of values by name"):
            pb.loads(EMPTY, options=settings)
    with pytest.raises(pb.ArgumentError, match="timestep, gravity and the like are parameters"):
        pb.loads(EMPTY, options={"timestep": .01})
    assert pb.loads(EMPTY, options={"contact": np.bool_(False)}).option["contact"] is False
    assert pb.load(os.fsencode(os.path.join(ROOT, "examples", "arm", "arm.xml"))).name == "arm"


def test_points_are_parts_of_states():
    """Cotangents and directions of deformables' points by name are those of the state; with worlds, and of all states or the last."""
    with open(os.path.join(ROOT, "examples", "cloth", "drape.json"), encoding="utf-8") as f:
        model = pb.loads(EMPTY, deformables=json.load(f)["deformables"])
    rng, count, size = np.random.default_rng(0), 3 * model.npoint, len(model.tangent_names)
    for batch in (None, 2):
        r = model.rollout(model.init(batch=batch), steps=4)
        lead = () if batch is None else (batch,)
        bar, last = rng.standard_normal((*lead, 5, count)), rng.standard_normal((*lead, count))
        whole = np.zeros((*lead, 5, size))
        whole[..., :count] = bar
        whole[..., -1, count:] = last
        ours, state = r.vjp(points=bar, point_velocity=last), r.vjp(state=whole)
        assert np.array_equal(ours.points, state.state[..., :count]) and np.array_equal(ours.point_velocity, state.state[..., count:])
        way = rng.standard_normal((*lead, count))
        t = r.jvp(points=way)
        assert t.points.shape == (*lead, 5, count)
        np.testing.assert_allclose(np.sum(t.points * bar) + np.sum(t.point_velocity[..., -1, :] * last), np.sum(ours.points * way), rtol=1e-9)
    plain = pb.loads(TETRAHEDRON)
    with pytest.raises(pb.ArgumentError, match="points: the model has no deformables"):
        plain.rollout(plain.init(), steps=2).vjp(points=np.zeros(3))
    with pytest.raises(pb.ArgumentError, match="points: the model has no deformables"):
        plain.rollout(plain.init(), steps=2).jvp(points=np.zeros(3))
