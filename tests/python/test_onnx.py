"""Policies as ONNX: every kind of layer by onnxruntime beside the simulation, memories over many decisions, names, and what is refused."""
import json
import os
import subprocess
import sys

import numpy as np
import pytest

import pullback as pb
from conftest import BUILD, ROOT

onnx = pytest.importorskip("onnx")  # conftest refuses to run without them where frameworks are asked for
runtime = pytest.importorskip("onnxruntime")

PLANT = ("<mujoco><option timestep='.002'/><worldbody>" + "".join(
    f"<body><joint name='j{i}' type='slide'/><geom size='.1' mass='1' contype='0' conaffinity='0'/></body>" for i in range(4))
    + "</worldbody><actuator>" + "".join(f"<motor name='a{i}' joint='j{i}' gear='1e-3'/>" for i in range(4)) + "</actuator></mujoco>")
SEEN = [{"command": 8}]


def activated(name):
    return [{"dense": 33, "activation": name}, {"dense": 4, "gain": 8}, {"activation": name}]


FORMULAS = [
    ["sin(x0)*p0 + cos(x1)/3 - x2^3", "exp(x3/4) + sqrt(abs(x4)) + max(x5, min(x6, p1))",
     "select(x1 - x0, log(2 + abs(x2)), atan2(x3, x4)) + sign(x5)", "asin(x0/9) - acos(x1/9) + (2 + abs(x2))^x3"],
    ["tanh(x0) + sinh(x1)*erf(x2) - hypot(x3, x4)", "cosh(x0)*expm1(x1) + log1p(x2^2) + cbrt(x3)",
     "asinh(x0) + acosh(1 + x1^2) - atanh(x2/(1 + abs(x2))) + erfc(x3)", "p0*p1"],
    ["atan2(x0, x1)", "atan2(-abs(x2), x3)", "expm1(x4/1e6) + log1p(x5/1e6)", "x6/(x7 - x0)"],
]
LAYERS = {
    "dense": [{"dense": 4}],
    **{name: activated(name) for name in ("relu", "tanh", "elu", "softplus", "sigmoid", "silu")},
    "clip": [{"dense": 4}, {"clip": [-0.3, 0.4], "projected": True}],
    "scale": [{"dense": 4}, {"scale": [1, -2, 0.1, 3], "offset": [0.1, 0, 0.7, -4]}],
    "normalize": [{"normalize": True}, {"dense": 4}],
    **{f"formula{i}": [{"scale": 0.3}, {"formula": texts, "parameters": [2, 0.3]}] for i, texts in enumerate(FORMULAS)},
    "gru": [{"gru": 7}, {"gru": 4}],
    "sum": [{"sum": [[{"dense": 4}], [{"gru": 3}, {"dense": 4, "activation": "tanh"}], [{"delay": 1.5, "most": 3}, {"dense": 4}]]}],
    "sums within sums": [{"sum": [[{"sum": [[{"scale": 2}], [{"gru": 8}]]}, {"delay": 0.5, "most": 1}], [{"dense": 8}]]}, {"dense": 4}],
    "pd": [{"dense": 12}, {"pd": 4, "kp": 5, "kd": 0.5, "limit": 3}],
    "pid": [{"dense": 12}, {"pid": 4, "kp": 5, "kd": 0.5, "ki": 2, "windup": 0.02, "interval": 0.01, "limit": 6}],
    "servo": [{"servo": 4, "gain": 10, "limit": 4}],
    "delay": [{"delay": 2.4, "most": 4}, {"dense": 4}],
    "the longest delay": [{"delay": 4, "most": 4}, {"dense": 4}],
    "no delay": [{"delay": 0, "most": 2}, {"dense": 4}],
    "layernorm": [{"layernorm": True}, {"dense": 17}, {"layernorm": True}, {"dense": 4}, {"layernorm": True}],
    "layernorm of little": [{"scale": 0.003}, {"layernorm": True}, {"dense": 4}],
}


def loaded(policy, scatter=True):
    """The plant with a policy whose parameters are none of those that a network starts with."""
    model = pb.loads(PLANT, policy=policy)
    rng = np.random.default_rng(3)
    if not scatter:
        return model
    moved = {}
    for name in model.params:
        if name.startswith("policy.") and not name.endswith("delay"):
            old = np.asarray(model.params[name])
            moved[name] = old + (rng.uniform(0.1, 0.5, old.shape) if name.endswith("deviation") else 0.1 * rng.standard_normal(old.shape))
    return model.with_params(moved) if moved else model


def session(model, path):
    assert model.save(path) == str(path)
    return runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def commanded(model, steps=40, amount=1.5):
    command = (amount * np.random.default_rng(5).standard_normal((steps, 8))).astype(np.float32).astype(float)  # of float, so that nothing is lost at the door
    return command, model.rollout(model.init(), np.zeros((steps, 4)), command=command)


def off(found, wanted):
    """Largest error, of numbers of the order of one absolutely, of larger ones relatively."""
    return np.max(np.abs(found - wanted) / (1 + np.abs(wanted)), initial=0)


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("kind", LAYERS)
def test_every_layer(kind, single, tmp_path):
    """Decisions of all steps at once, each from the memory that the simulation had, then one after the other from their own."""
    if single and kind == "no delay":
        pytest.skip("pbPolicy_Check takes differences to both sides of the least delay, and refuses it in float")
    most = 2e-6 if single else 1e-6  # beside what was rounded to float once more
    model = loaded({"observe": SEEN, "layers": LAYERS[kind], "single": single})
    run = session(model, tmp_path / "gait.onnx")
    command, r = commanded(model)
    held, memory = r.policy_held, getattr(r, "policy_memory", np.zeros((len(command) + 1, 0)))
    remembers = memory.shape[1] > 0
    given = {"observation": command.astype(np.float32)} | ({"memory": memory[:-1].astype(np.float32)} if remembers else {})
    found = dict(zip([o.name for o in run.get_outputs()], run.run(None, given), strict=True))
    assert set(found) == {"output", "memory_next"} if remembers else {"output"}
    assert np.ptp(held[1:], axis=0).max() > 1e-3
    assert off(found["output"], held[1:]) <= most
    if remembers:
        assert off(found["memory_next"], memory[1:]) <= most
        now = np.zeros((1, memory.shape[1]), np.float32)
        for k in range(len(command)):
            output, now = run.run(["output", "memory_next"], {"observation": command[k:k + 1].astype(np.float32), "memory": now})
            assert off(output[0], held[k + 1]) <= 4e-6


def test_layernorm_beside_an_offset(tmp_path):
    """What float has of inputs near 1000 that differ by some hundredths is lost at the door, and nothing more after it."""
    model = loaded({"observe": SEEN, "layers": [{"layernorm": True}, {"dense": 4}]})
    run = session(model, tmp_path / "norm.onnx")
    command = (1000 + 0.05 * np.random.default_rng(5).standard_normal((40, 8))).astype(np.float32)
    r = model.rollout(model.init(), np.zeros((40, 4)), command=command.astype(float))
    assert off(run.run(["output"], {"observation": command})[0], r.policy_held[1:]) <= 1e-2


def test_clock(tmp_path):
    """Times at which float's own turns would be off by more than is asked."""
    model = loaded({"observe": [{"time": True, "scale": 512}, {"command": 8}], "layers": [{"clock": [1.5, 0.375, 40]}, {"dense": 4}]})
    run = session(model, tmp_path / "clock.onnx")
    command, r = commanded(model)
    seen = np.column_stack([r.time[:-1], command]).astype(np.float32)
    # the time itself is rounded at the door
    slack = 2 * np.pi * 40 * 512 * np.abs(seen[:, 0] - r.time[:-1]).max()
    assert off(run.run(["output"], {"observation": seen})[0], r.policy_held[1:]) <= 1e-6 + 4 * slack


def test_what_was_decided_last_and_scales(tmp_path):
    """Positions, velocities, chosen components with scales, the last decision, outputs with scales in another order."""
    policy = {"observe": [{"command": 4}, {"last": True, "components": [2, 0], "scale": 0.3}, {"qpos": True}, {"qvel": "j2", "scale": 0.5}],
              "layers": [{"gru": 5}, {"dense": 4, "activation": "tanh"}],
              "output": [{"control": ["a1", "a0"], "scale": 0.7}, {"force": ["j2", "j3"], "scale": 0.01}], "every": 3}
    model = loaded(policy)
    path = tmp_path / "last.onnx"
    run = session(model, path)
    steps = 60
    command = np.random.default_rng(2).standard_normal((steps, 4))
    r = model.rollout(model.init(), np.zeros((steps, 4)), command=command)
    last, memory = np.zeros((1, 4), np.float32), np.zeros((1, 5), np.float32)
    for k in range(0, steps, 3):
        seen = np.concatenate([command[k], r.qpos[k], r.qvel[k, 2:3]])[None].astype(np.float32)
        output, last, memory = run.run(["output", "decision", "memory_next"], {"observation": seen, "last": last, "memory": memory})
        for later in range(k + 1, k + 4):
            assert off(last[0], r.policy_held[later]) <= 4e-6
        assert off(output[0], r.policy_held[k + 1] * [0.7, 0.7, 0.01, 0.01]) <= 4e-6

    told = run.get_modelmeta().custom_metadata_map
    assert float(told["interval"]) == pytest.approx(0.006)
    names = json.loads(told["observation"])
    assert len(names) == 9 and "joint 'j2'" in names[8] and "m/s" in names[8]
    assert json.loads(told["output"])[0].startswith("control of actuator 'a1'")


def test_a_trained_policy(tmp_path):
    """From a task by its NPZ to the file, in one world and in many."""
    (tmp_path / "plant.xml").write_text(PLANT)
    layers = [{"normalize": True}, {"dense": 8, "activation": "silu"}, {"dense": 4}]
    task = {
        "model": str(tmp_path / "plant.xml"), "episode": {"seconds": 0.02, "spread": {"qpos": 1}},
        "policy": {"observe": [{"qpos": True}, {"qvel": True}], "layers": layers},
        "loss": [{"qpos": True}], "train": {"method": "bptt", "worlds": 4, "updates": 2, "window": 5}}
    pb.train(task, tmp_path / "w.npz", allow_root=tmp_path)
    model = pb.load(tmp_path / "plant.xml", policy=tmp_path / "w.npz")
    run = session(model, tmp_path / "w.onnx")
    start = model.init()
    start.qpos = np.array([0.3, -0.2, 0.9, 0.1])
    r = model.rollout(start, np.zeros((20, 4)))
    seen = np.column_stack([r.qpos[:-1], r.qvel[:-1]]).astype(np.float32)
    assert off(run.run(None, {"observation": seen})[0], r.policy_held[1:]) <= 1e-6


def test_what_is_refused(tmp_path):
    path = tmp_path / "none.onnx"
    with pytest.raises(pb.ArgumentError, match="no policy"):
        pb.loads(PLANT).save(path)
    acting = {"observe": SEEN, "layers": [{"dense": 12}], "act": {"observe": [], "layers": [{"pd": 4, "kp": 1}]}}
    with pytest.raises(pb.UnsupportedError, match="'act'"):
        pb.loads(PLANT, policy=acting).save(path)
    large = pb.loads(PLANT, policy={"observe": SEEN, "layers": [{"scale": 1e300}, {"dense": 4}]})
    with pytest.raises(pb.ArgumentError, match="not finite in float"):
        large.save(path)
    good = pb.loads(PLANT, policy={"observe": SEEN, "layers": [{"dense": 4}]})
    with pytest.raises(pb.FileError, match="cannot be written"):
        good.save(tmp_path / "nowhere" / "x.onnx")
    with pytest.raises(pb.ArgumentError, match="onnx"):
        good.save(tmp_path / "gait.on")
    assert os.listdir(tmp_path) == []


def test_without_the_package(tmp_path):
    """A clear error, and nothing that imports it before it is needed."""
    code = ("import sys; sys.modules['onnx'] = None; import pullback as pb\n"
            f"m = pb.loads({PLANT!r}, policy={{'observe': [{{'command': 8}}], 'layers': [{{'dense': 4}}]}})\n"
            f"try: m.save({str(tmp_path / 'x.onnx')!r})\nexcept ImportError as e: print(e)")
    environment = dict(os.environ, PYTHONPATH=os.path.join(BUILD, "python"))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr
    assert "needs the package onnx" in done.stdout
