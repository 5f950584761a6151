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
