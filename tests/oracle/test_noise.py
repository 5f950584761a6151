"""Where a gradient is noise: the time that `gradient` tells, beside bundles of 64 forward runs that know nothing of derivatives.

A bundle moves the start along 32 random directions to both sides. What comes of both, half their difference, is what a derivative can
foresee; half their sum is what it cannot. The bundle's horizon is where the second has grown to half of the first.
"""
import json

import numpy as np
import pytest

LINKS = "<mujoco><option timestep='{h}'/><worldbody>{bodies}</worldbody>{rest}</mujoco>"


def chain(count, h=.004, rest=""):
    text = ""
    for k in range(count):
        text += (f"<body pos='0 0 {-.3 if k else 0}'><joint name='j{k}' axis='0 1 0'/><geom type='capsule' fromto='0 0 0 0 0 -.3' size='.02' contype='0' "
                 "conaffinity='0'/>")
    return LINKS.format(h=h, bodies=text + "</body>" * count, rest=rest)


SCENES = {  # model, start, steps
    "double pendulum": (chain(2), dict(qpos=[2.2, .8], qvel=[0, 0]), 2000),
    "triple pendulum": (chain(3), dict(qpos=[2.0, .5, -.4], qvel=[0, 0, 0]), 1500),
    "five links": (chain(5), dict(qpos=[1.8, .3, .3, -.2, .4], qvel=[0] * 5), 1000),
}


def bundle(run, tmp_path, model, start, steps, move=1e-3, pairs=32):
    """The first state at which what no derivative can foresee is half of what it can, or more, as it is at three quarters of the
    states within the next quarter of the time, and of those to the end."""
    nv = len(start["qvel"])
    d = np.random.default_rng(7).normal(size=(pairs, 2 * nv))
    d *= move / np.linalg.norm(d, axis=1, keepdims=True)
    both = np.concatenate([d, -d])
    np.savez(tmp_path / "worlds.npz", qpos=np.asarray(start["qpos"], float) + both[:, :nv], qvel=np.asarray(start["qvel"], float) + both[:, nv:])
    run("simulate", model, "--steps", steps, "--worlds", tmp_path / "worlds.npz", "-o", tmp_path / "bundle.npz")
    run("simulate", model, "--steps", steps, "--init", tmp_path / "x.npz", "-o", tmp_path / "one.npz")
    many, one = np.load(tmp_path / "bundle.npz"), np.load(tmp_path / "one.npz")
    z = np.concatenate([many["qpos"], many["qvel"]], axis=2) - np.concatenate([one["qpos"], one["qvel"]], axis=1)
    odd, even = (z[:pairs] - z[pairs:]) / 2, (z[:pairs] + z[pairs:]) / 2
    size = lambda a: np.sqrt((a**2).sum(axis=(0, 2)))
    beyond = size(even) >= .5 * size(odd)
    most = lambda k, to: beyond[k:to + 1].mean() >= .75
    return next(k for k in range(1, steps + 1) if beyond[k] and most(k, min(k + k // 4, steps)) and most(k, steps))


def told(run, tmp_path, model, steps):
    nv = len(np.load(tmp_path / "x.npz")["qvel"])
    np.savez(tmp_path / "c.npz", qpos=np.random.default_rng(3).normal(size=nv))
    said = run("gradient", model, "--steps", steps, "--init", tmp_path / "x.npz", "--cotangent", tmp_path / "c.npz", "-o", tmp_path / "g.npz").stderr
    return json.loads(str(np.load(tmp_path / "g.npz")["meta"]))["certificate"]["noise"], said


@pytest.mark.parametrize("name", SCENES)
def test_the_horizon_is_that_of_a_bundle_of_forward_runs(run, tmp_path, name):
    text, start, steps = SCENES[name]
    (tmp_path / "m.xml").write_text(text)
    np.savez(tmp_path / "x.npz", **start)
    noise, said = told(run, tmp_path, tmp_path / "m.xml", steps)
    seen = bundle(run, tmp_path, tmp_path / "m.xml", start, steps)
    assert noise["step"] > 0 and "The gradient is noise beyond t = " in said and "A window of half that time" in said, (noise, seen, said)
    assert 1 / 1.2 <= noise["step"] / seen <= 1.2, (noise, seen)


@pytest.mark.parametrize("text, start, steps", [
    (chain(1), dict(qpos=[2.0], qvel=[0]), 2000),
    (chain(2), dict(qpos=[.1, .1], qvel=[0, 0]), 2000),
    ("<mujoco><worldbody><geom type='plane' size='5 5 .1'/><body pos='0 0 .5'><freejoint/><geom size='.1'/></body></worldbody></mujoco>",
     dict(qpos=[0, 0, .5, 1, 0, 0, 0], qvel=[1, 0, 0, 0, 2, 0]), 1000),
], ids=["pendulum", "double pendulum, small", "bouncing ball"])
def test_what_is_no_noise_is_not_called_noise(run, tmp_path, text, start, steps):
    (tmp_path / "m.xml").write_text(text)
    np.savez(tmp_path / "x.npz", **start)
    noise, said = told(run, tmp_path, tmp_path / "m.xml", steps)
    assert noise["step"] == -1 and noise["time"] is None and "noise" not in said, (noise, said)


# ---- searches and trainings --------------------------------------------------------------------------------------------------
def search(run, tmp_path, method, **more):
    """What a search for the start of a double pendulum came to, 8 s before its end."""
    task = {"model": chain(2, h=.005), "duration": 8, "init": {"qpos": [2.0, .5]}, "variables": [{"state": "qvel"}],
            "loss": [{"qpos": ["j0", "j1"], "target": [.3, -.2]}], "optimizer": {"method": method, "iterations": 4}, **more}
    (tmp_path / "task.json").write_text(json.dumps(task))
    said = run("optimize", tmp_path / "task.json", "--fresh", "-q", "-o", tmp_path / "result.json", code=1 if "stop" in more else (0, 1)).stderr
    return json.loads((tmp_path / "result.json").read_text())["noise"], said


@pytest.mark.parametrize("method", ["lbfgs", "gauss-newton", "adam"])
def test_a_search_through_noise_is_told_with_a_proposal(run, tmp_path, method):
    noise, said = search(run, tmp_path, method)
    assert 0 < noise["time"] < 8 and noise["window"] == noise["time"] / 2 and noise["verdict"].startswith("the gradient is noise beyond t = ")
    assert "cmaes" in noise["proposal"] and f"{noise['window']:.2g} s" in noise["proposal"], noise
    assert said.startswith("pullback: warning: T" + noise["verdict"][1:]) and noise["proposal"][1:] in said, said


def test_a_search_that_follows_the_proposal_is_told_nothing(run, tmp_path):
    for noise, said in (search(run, tmp_path, "cmaes"), search(run, tmp_path, "lbfgs", gradient={"window": 1.0}), search(run, tmp_path, "lbfgs", duration=.5),
                        search(run, tmp_path, "lbfgs", init={"qpos": [.05, .05]}, loss=[{"qpos": ["j0", "j1"], "target": [.04, .03]}])):
        assert noise is None and "noise" not in said, (noise, said)


def training(run, tmp_path, window, method="bptt", gain=1.0):
    """What is said after a few updates of a policy at a triple pendulum with motors."""
    rest = "<actuator>" + "".join(f"<motor joint='j{k}' gear='.02'/>" for k in range(3)) + "</actuator>"
    task = {"model": chain(3, h=.005, rest=rest), "init": {"qpos": [2.0, .5, -.4]},
            "policy": {"every": 4, "observe": [{"qpos": True}, {"qvel": True, "scale": .1}], "layers": [{"dense": 8, "activation": "tanh", "gain": gain}, {"dense": 3, "gain": .01}]},
            "loss": [{"qpos": ["j0", "j1", "j2"], "target": [0, 0, 0], "at": "all"}],
            "episode": {"seconds": 8, "spread": {"qpos": .1}},
            "train": {"method": method, "updates": 2, "worlds": 8, "window": window, "evaluate": {"every": 2, "starts": 2}}}
    (tmp_path / "task.json").write_text(json.dumps(task))
    return run("train", tmp_path / "task.json", "--fresh", "-q", "-o", tmp_path / "policy.npz").stderr


def test_a_training_through_noise_is_told_a_window(run, tmp_path):
    said = training(run, tmp_path, 400)
    assert "The gradient is noise beyond t = " in said and '"window": ' in said, said
    proposed = int(said.split('"window": ')[1].split(")")[0])
    assert 1 < proposed < 200, said
    assert "noise" not in training(run, tmp_path, min(proposed, 16))
    assert "noise" not in training(run, tmp_path, 400, method="es")
