"""Many worlds in one run of the program: each as if alone, to the bit, for any number of threads; sums; worlds that fail."""
import json

import numpy as np
import pytest

SCENE = """<mujoco><option timestep="0.005"/><worldbody><geom name="floor" type="plane" size="3 3 .1"/>
<body name="ball" pos="0 0 .12"><freejoint/><geom name="ball" size=".1" mass="1"/></body>
<body name="arm" pos="1 0 1"><joint name="hinge" axis="0 1 0" damping=".1"/><geom type="capsule" size=".03" fromto="0 0 0 .4 0 0"/></body>
</worldbody><actuator><motor name="motor" joint="hinge"/></actuator><sensor><jointpos joint="hinge"/></sensor></mujoco>"""
W, N = 5, 20


@pytest.fixture
def scene(tmp_path):
    (tmp_path / "m.xml").write_text(SCENE)
    rng = np.random.default_rng(1)
    qpos = np.tile([0, 0, .12, 1, 0, 0, 0, .3], (W, 1)) + .05 * rng.standard_normal((W, 8)) * [1, 1, .2, 0, 0, 0, 0, 1]
    data = {"qpos": qpos, "control": rng.standard_normal((W, N, 1)), "param/body_mass:ball": np.linspace(.5, 2, W)}
    np.savez(tmp_path / "w.npz", **data)
    return tmp_path, data


def one(run, folder, data, k, *words, command="simulate"):
    """World k in a run of its own."""
    np.savez(folder / "init.npz", qpos=data["qpos"][k])
    np.save(folder / "u.npy", data["control"][k])
    run(command, folder / "m.xml", "--init", folder / "init.npz", "--control", folder / "u.npy", "--param", f"body_mass:ball={data['param/body_mass:ball'][k]:.17g}",
        "-o", folder / "one.npz", "--quiet", *words)
    return dict(np.load(folder / "one.npz"))


@pytest.mark.parametrize("constants", ["keep", "recompute"])
def test_each_world_as_if_alone(run, scene, constants):
    folder, data = scene
    for threads in (1, 3):
        run("simulate", folder / "m.xml", "--worlds", folder / "w.npz", "--threads", threads, "--constants", constants, "--every", 3, "-o", folder / f"out{threads}.npz")
    first, second = (dict(np.load(folder / f"out{t}.npz")) for t in (1, 3))
    assert first.keys() == second.keys() and all(np.array_equal(first[k], second[k]) for k in first)
    assert first["qpos"].shape == (W, 8, 8) and (first["steps_done"] == N).all() and json.loads(str(first["meta"]))["failed"] == 0
    for k in range(W):
        alone = one(run, folder, data, k, "--every", 3, "--constants", constants)
        for name in ("time", "qpos", "qvel", "sensordata", "qacc_warmstart"):
            assert np.array_equal(first[name][k], alone[name]), (k, name)


@pytest.mark.parametrize("constants", ["keep", "recompute"])
def test_gradients_of_each_world_and_sums(run, scene, constants):
    folder, data = scene
    rng = np.random.default_rng(2)
    bar = rng.standard_normal((W, 7))
    np.savez(folder / "bar.npz", qvel=bar)
    run("gradient", folder / "m.xml", "--worlds", folder / "w.npz", "--cotangent", folder / "bar.npz", "--threads", 2, "--constants", constants, "-o", folder / "g.npz")
    g, sums = dict(np.load(folder / "g.npz")), {}
    for k in range(W):
        np.savez(folder / "b.npz", qvel=bar[k])
        alone = one(run, folder, data, k, "--cotangent", folder / "b.npz", "--constants", constants, command="gradient")
        for name in ("qpos", "qvel", "control"):
            assert np.array_equal(g[name][k], alone[name]), (k, name)
        assert g["param/body_mass:ball"][k] == alone["param/body_mass"][1]
        for name, value in alone.items():
            if name.startswith("param/") and name != "param/body_mass":
                sums[name] = sums.get(name, 0) + value
    for name, value in sums.items():
        assert np.allclose(g[name], value, rtol=1e-12, atol=1e-12 * np.abs(value).max() if value.size else 0), name


def test_a_world_that_fails(run, scene):
    folder, data = scene
    qvel = np.zeros((W, 7))
    qvel[3, 0] = 5e9
    data["qpos"][3, 0] = 1e10 - 1e8
    np.savez(folder / "w.npz", **data, qvel=qvel)
    done = run("simulate", folder / "m.xml", "--worlds", folder / "w.npz", "--threads", 2, "-o", folder / "out.npz", code=4)
    assert "world 3: step 4 of 20" in done.stderr and "1 of 5 worlds failed" in done.stderr, done.stderr
    out = np.load(folder / "out.npz")
    assert list(out["steps_done"]) == [N, N, N, 4, N] and json.loads(str(out["meta"]))["failed"] == 1
    assert np.isnan(out["qpos"][3, 5:]).all() and np.isfinite(out["qpos"][3, :5]).all() and np.isfinite(np.delete(out["qpos"], 3, 0)).all()
    np.savez(folder / "bar.npz", qvel=np.ones((W, 7)))
    done = run("gradient", folder / "m.xml", "--worlds", folder / "w.npz", "--cotangent", folder / "bar.npz", "-o", folder / "g.npz", code=4)
    g = np.load(folder / "g.npz")
    assert np.isnan(g["growth"][3]) and np.isfinite(g["growth"][:3]).all() and (g["unconverged"] == [0, 0, 0, -1, 0]).all()
    assert np.isnan(g["qvel"][3]).all() and np.isfinite(g["qvel"][:3]).all() and np.isfinite(g["param/gravity"]).all()


@pytest.mark.parametrize("arrays, words, text", [
    ({"qpos": np.zeros((2, 8)), "qvel": np.zeros((3, 7))}, [], "'qvel' is of 3 worlds, the arrays before it are of 2"),
    ({"qpos": np.zeros((2, 7))}, [], "'qpos' has shape (2, 7); expected (2, 8)"),
    ({"qpso": np.zeros((2, 8))}, [], "unknown array 'qpso'"),
    ({"param/body_mas": np.zeros(2)}, [], "did you mean 'body_mass'"),
    ({"param/body_mass:ball": np.full(2, -1.)}, [], "world 0: body_mass:ball"),
    ({"control": np.zeros((2, 7, 1))}, ["--steps", "9"], "'control' has shape (2, 7, 1)"),
    ({"qvel": np.full((2, 7), np.nan)}, [], "qvel"),
    ({}, [], "holds no array of worlds"),
    ({"qvel": np.zeros((2, 7))}, ["--vtu", "x.pvd"], "--vtu does not go with --worlds"),
    ({"qvel": np.zeros((2, 7))}, ["--threads", "0"], "--threads"),
])
def test_what_is_refused(run, scene, arrays, words, text):
    folder, _ = scene
    np.savez(folder / "bad.npz", **arrays)
    code = 2 if words and words[0] in ("--vtu", "--threads") else 3
    done = run("simulate", folder / "m.xml", "--worlds", folder / "bad.npz", "-o", folder / "out.npz", *words, code=code)
    assert text in done.stderr and not (folder / "out.npz").exists(), done.stderr
