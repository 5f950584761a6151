"""The command line: its files, its shapes, its words and its exit codes, against MuJoCo where there is a number."""
import json
import os
import pathlib
import re
import signal
import subprocess
import time

import mujoco as mj
import numpy as np
import pytest

from inside import native


HERE = pathlib.Path(__file__).resolve().parent
RICH = HERE / "models" / "rich.xml"
STATE = ("time", "qpos", "qvel", "act", "qacc_warmstart")

ARM = """<mujoco model="arm">
  <worldbody><geom name="floor" type="plane" size="1 1 .1"/>
    <body name="upper" pos="0 0 1"><joint name="shoulder" axis="0 1 0" damping=".1" range="-60 60" limited="true"/>
      <geom name="rod" type="capsule" fromto="0 0 0 .3 0 0" size=".03"/>
      <body name="lower" pos=".3 0 0"><joint name="elbow" axis="0 1 0" damping=".1"/>
        <geom name="tip" type="capsule" fromto="0 0 0 .2 0 0" size=".02"/><site name="end" pos=".2 0 0"/></body></body></worldbody>
  <actuator><motor name="a" joint="shoulder" gear="2"/><position name="b" joint="elbow" kp="3"/></actuator>
  <sensor><jointpos name="sp" joint="elbow"/><framepos name="fp" objtype="site" objname="end"/></sensor>
  <keyframe><key name="bent" qpos=".3 .4" qvel=".1 -.2" ctrl=".5 .6"/></keyframe>
</mujoco>"""
BALL = """<mujoco><worldbody><geom type="plane" size="1 1 .1"/><body pos="0 0 .3"><freejoint/><geom size=".1"/></body></worldbody></mujoco>"""


@pytest.fixture
def arm(tmp_path):
    path = tmp_path / "arm.xml"
    path.write_text(ARM)
    return path


def meta(archive):
    return json.loads(str(archive["meta"]))


def controls(n, nu, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, (n, nu))


# ---- simulate -----------------------------------------------------------------------------------------------------------
def test_simulate_shapes_and_sensors(run, tmp_path, arm):
    u, out = controls(12, 2), tmp_path / "out.npz"
    np.save(tmp_path / "u.npy", u)
    run("simulate", arm, "--control", tmp_path / "u.npy", "-o", out)
    o = np.load(out, allow_pickle=False)
    m = mj.MjModel.from_xml_path(str(arm))
    shapes = dict(time=(13,), qpos=(13, 2), qvel=(13, 2), act=(13, 0), qacc_warmstart=(13, 2), control=(12, 2), sensordata=(13, 4))
    assert {k: o[k].shape for k in shapes} == shapes
    assert np.array_equal(o["control"], u) and np.allclose(o["time"], 0.002 * np.arange(13), atol=1e-15)
    d = mj.MjData(m)
    for k in range(13):
        d.qpos[:], d.qvel[:], d.ctrl[:] = o["qpos"][k], o["qvel"][k], u[min(k, 11)]
        mj.mj_forward(m, d)
        assert abs(d.sensordata - o["sensordata"][k]).max() < 1e-12
    words = meta(o)
    assert words["version"] and words["names"]["joint"] == ["shoulder", "elbow"] and words["constants"] == "keep" and words["units"]


def test_a_resumed_run_equals_an_uninterrupted_one(run, tmp_path):
    m = mj.MjModel.from_xml_path(str(RICH))
    u = controls(40, m.nu)
    for name, part in dict(all=u, first=u[:17], rest=u[17:]).items():
        np.save(tmp_path / f"{name}.npy", part)
    sim = lambda name, *more: run("simulate", RICH, "--control", tmp_path / f"{name}.npy", *more, "-o", tmp_path / f"{name}.npz")
    sim("all"), sim("first"), sim("rest", "--init", tmp_path / "first.npz")
    whole, rest = np.load(tmp_path / "all.npz"), np.load(tmp_path / "rest.npz")
    for k in STATE + ("sensordata",):
        assert np.array_equal(rest[k], whole[k][17:]), k
    for row in ("17", "-24"):
        sim("rest", "--init", tmp_path / "all.npz", "--init-row", row)
        again = np.load(tmp_path / "rest.npz")
        assert all(np.array_equal(again[k], rest[k]) for k in STATE)


def test_every_so_many_states(run, tmp_path):
    m = mj.MjModel.from_xml_path(str(RICH))
    u = controls(40, m.nu)
    for name, part in dict(all=u, rest=u[20:]).items():
        np.save(tmp_path / f"{name}.npy", part)
    sim = lambda name, *more: run("simulate", RICH, "--control", tmp_path / f"{name}.npy", *more, "-o", tmp_path / "some.npz")
    sim("all")
    whole = dict(np.load(tmp_path / "some.npz"))
    for every in (1, 7, 8, 20, 39, 40, 100):
        sim("all", "--every", every)
        some, rows = np.load(tmp_path / "some.npz"), sorted({*range(0, 41, every), 40})
        for k in STATE + ("time", "sensordata"):
            assert np.array_equal(some[k], whole[k][rows]), (every, k)
        acting = u if every == 1 else u[np.minimum(rows, 39)]  # a row for each state: what acts from there on
        assert np.array_equal(some["control"], acting) and meta(some).get("every", 1) == every and meta(some)["steps"] == 40
        again = ("simulate", RICH, "--control", tmp_path / "some.npz", "-o", tmp_path / "bad.npz")
        if every > 1:
            assert f"with --every {every} and has the inputs of some steps only" in run(*again, code=3).stderr
        task = dict(model=str(RICH), steps=len(acting), controls=dict(file="some.npz"))
        (tmp_path / "task.json").write_text(json.dumps(task))
        told = run("simulate", tmp_path / "task.json", "--allow-root", RICH.parent, "-o", tmp_path / "bad.npz", code=3 if every > 1 else 0).stderr
        assert every == 1 or f"controls.file: some.npz: was written with --every {every} and has the inputs of some" in told, told
    sim("all", "--every", 20)
    (tmp_path / "some.npz").rename(tmp_path / "start.npz")
    sim("rest", "--init", tmp_path / "start.npz", "--init-row", 1, "--every", 20)  # row 1 is the state after 20 steps
    rest = np.load(tmp_path / "some.npz")
    assert all(np.array_equal(rest[k], whole[k][[20, 40]]) for k in STATE + ("time", "sensordata"))
    for bad in (0, -1, 2.5, "x"):
        assert "--every" in run("simulate", RICH, "--every", bad, "-o", tmp_path / "bad.npz", code=2).stderr


def test_more_states_than_are_held_name_a_stride(run, tmp_path):
    (tmp_path / "pendulum.xml").write_text("<mujoco><option gravity='0 0 0'/><worldbody><body><joint/><geom size='.1'/></body></worldbody></mujoco>")
    refused = run("simulate", tmp_path / "pendulum.xml", "--steps", 100_000_000, "-o", tmp_path / "run.npz", code=5).stderr
    assert "100000001 states of" in refused and "960 MiB" in refused
    every = int(refused.split("--every ")[1].split()[0])
    short = run("simulate", tmp_path / "pendulum.xml", "--steps", 100_000_000, "--every", every // 2, "-o", tmp_path / "run.npz", code=5).stderr
    assert f"--every {every}" in short


def test_start_inputs_and_forces(run, tmp_path, arm):
    m = mj.MjModel.from_xml_path(str(arm))
    m.opt.tolerance, m.opt.iterations = 0, 50
    r, out = np.random.default_rng(3), tmp_path / "o.npz"
    q, f = r.uniform(-.1, .1, (6, m.nv)), r.uniform(-.5, .5, (6, m.nbody, 6))
    np.save(tmp_path / "q.npy", q), np.save(tmp_path / "f.npy", f), np.save(tmp_path / "u.npy", np.array([.2, -.3]))
    run("simulate", arm, "--keyframe", "bent", "--qfrc", tmp_path / "q.npy", "--xfrc", tmp_path / "f.npy", "--control", tmp_path / "u.npy", "-o", out)
    o, d = np.load(out), mj.MjData(m)
    mj.mj_resetDataKeyframe(m, d, 0)
    d.ctrl[:] = .2, -.3
    for k in range(6):
        d.qfrc_applied[:], d.xfrc_applied[:] = q[k], f[k]
        mj.mj_step(m, d)
        assert abs(d.qpos - o["qpos"][k + 1]).max() < 1e-12 and abs(d.qvel - o["qvel"][k + 1]).max() < 1e-10
    assert np.array_equal(o["qfrc"], q) and np.array_equal(o["xfrc"], f)
    run("simulate", arm, "--keyframe", 0, "-o", out)  # the keyframe's own controls, one step
    o = np.load(out)
    assert np.array_equal(o["control"], [[.5, .6]]) and np.array_equal(o["qpos"][0], [.3, .4])
    np.savez(tmp_path / "x.npz", qvel=np.float32([1, 2]), time=2.5)
    run("simulate", arm, "--init", tmp_path / "x.npz", "-o", out)
    o = np.load(out)
    assert o["time"][0] == 2.5 and np.array_equal(o["qvel"][0], [1, 2]) and np.array_equal(o["qpos"][0], [0, 0])


def test_parameters_and_options(run, tmp_path, arm):
    m = mj.MjModel.from_xml_path(str(arm))
    m.opt.tolerance, m.opt.iterations = 0, 50
    m.opt.gravity[:] = 1, 0, -5
    m.body_mass[2] = 3.2
    m.dof_damping[:] = .3, .4
    m.opt.integrator = mj.mjtIntegrator.mjINT_IMPLICITFAST
    out = tmp_path / "o.npz"
    np.save(tmp_path / "d.npy", [.3, .4])
    run("simulate", arm, "--steps", 20, "--param", "gravity=1,0,-5", "--param", "body_mass:lower=3.2", "--param", f"dof_damping={tmp_path / 'd.npy'}",
        "--option", "integrator=implicitfast", "--option", "iterations=30", "--option", "tolerance=0", "-o", out)
    d = mj.MjData(m)
    for _ in range(20):
        mj.mj_step(m, d)
    assert abs(np.load(out)["qpos"][-1] - d.qpos).max() < 1e-11
    run("inspect", arm, "--param", "body_mass:lower=3.2", "--constants", "recompute", "-o", out)
    o = np.load(out)
    m = mj.MjModel.from_xml_path(str(arm))
    m.body_mass[2] = 3.2
    mj.mj_setConst(m, mj.MjData(m))
    assert np.allclose(o["param/body_invweight0"], m.body_invweight0, rtol=1e-12) and np.allclose(o["param/body_subtreemass"], m.body_subtreemass)


def test_contact_settings(run, tmp_path):
    ball = tmp_path / "ball.xml"
    ball.write_text("<mujoco><worldbody><geom type='plane' size='1 1 .1'/><body name='b' pos='0 0 .13'><freejoint/>"
                    "<geom size='.1' mass='1'/></body></worldbody></mujoco>")
    ends = {}
    for name, more in (("sharp", []), ("smooth", ["kappa=1", "onset=0.05"]), ("mixing", ["erp=0.2", "cfm=1e-3"]),
                       ("penalty", ["method=penalty", "stiffness=5000"])):
        out, settings = tmp_path / f"{name}.npz", [x for m in more for x in ("--contact", m)]
        run("simulate", ball, "--steps", 60, *settings, "-o", out)
        o = np.load(out)
        meta = json.loads(str(o["meta"]))["contact"]
        assert meta.items() >= {"method": "soft", "kappa": 0, "onset": 0, "erp": "off", "cfm": "off", "mixing": "maximum", "restitution": 0,
                                **{k: v if k == "method" else float(v) for k, v in (m.split("=") for m in more)}}.items()
        ends[name] = o["qpos"][-1, 2]
        task = tmp_path / f"{name}.json"
        task.write_text(json.dumps({"model": "ball.xml", "steps": 60, "contact": meta, "variables": [{"state": "qvel"}],
                                    "loss": [{"body": "b"}], "optimizer": {"iterations": 0}}))
        result = json.loads(run("optimize", task, "--json", cwd=tmp_path).stdout)
        t = np.load(tmp_path / result["trajectory_files"][0])
        assert json.loads(str(t["meta"]))["contact"] == meta and np.array_equal(t["qpos"], o["qpos"])
        run("check", ball, *settings, "--horizon", 40)
        run("gradient", ball, "--steps", 60, *settings, "--loss", task, "-o", tmp_path / "g.npz")
        run("jacobian", ball, "--steps", 3, *settings, "-o", tmp_path / "j.npz")
    assert len({round(z, 6) for z in ends.values()}) == 4
    assert "did you mean 'kappa'" in run("simulate", ball, "--contact", "kapa=1", "-o", out, code=2).stderr


PUCK = """<mujoco><option timestep=".002"/><worldbody><geom name="ice" type="plane" size="8 8 .1" friction=".2"/>
  <body pos="0 0 .06"><freejoint/><geom name="puck" type="box" size=".12 .09 .06" mass="2" friction=".5"/></body></worldbody></mujoco>"""
PILE = """<mujoco><worldbody><geom name="ground" type="plane" size="5 5 .1"/>
  <body pos="0 0 .099"><freejoint/><geom name="light" type="box" size=".1 .1 .1" mass=".2"/></body>
  <body pos=".03 0 .298"><freejoint/><geom name="heavy" type="box" size=".1 .1 .1" mass="20"/></body></worldbody></mujoco>"""


@pytest.mark.parametrize("method", ["soft", "cones", "lcp"])
def test_a_right_gradient_is_not_called_off(run, tmp_path, method):
    """A box slides to rest on a floor that it touches by next to nothing: every quotient of moves above that depth is wrong."""
    (tmp_path / "puck.xml").write_text(PUCK)
    np.savez(tmp_path / "x.npz", qvel=[0.6, 0.1, 0, 0, 0, 0.2])
    np.savez(tmp_path / "c.npz", qpos=[1, -0.5, 0, 0, 0, 0.3])
    base = ("gradient", tmp_path / "puck.xml", "--init", tmp_path / "x.npz", "--steps", 60, "--cotangent", tmp_path / "c.npz", "--contact",
            f"method={method}", "--strict", "-o", tmp_path / "g.npz")
    for seed in range(12):
        assert run(*base, "--seed", seed).stderr == ""
        c = meta(np.load(tmp_path / "g.npz"))["certificate"]
        assert c["checked"] == "steps" and c["spot_steps"] > 0 and not c["spot_off"] and c["spot_error"] <= c["spot_limit"] < 1e-3, c
    assert "warning" not in run(*base, "--spot-check", "full").stderr
    c = meta(np.load(tmp_path / "g.npz"))["certificate"]
    assert c["spot_quotients"] + c["spot_left_out"] == 1 and c["checked"] == ("rollout" if c["spot_checked"] else "nothing"), c
    assert c["spot_steps_share"] == c["spot_quotients"] and (c["spot_left_out"] or c["spot_error"] < 1e-3), c
    run(*base, "--spot-check", "none")
    c = meta(np.load(tmp_path / "g.npz"))["certificate"]
    assert c["checked"] == "nothing" and not c["spot_checked"] and "spot_error" not in c
    assert "did you mean 'steps'" in run(*base, "--spot-check", "step", code=2).stderr


@pytest.mark.parametrize("model, nv", [("margins", 37), ("capsule_upright", 6)])
def test_a_right_gradient_at_a_tie_is_not_called_off(run, tmp_path, model, nv):
    """A cylinder or capsule stands upright, capsules lie side by side: any small move takes one of two branches there, at every length."""
    rng = np.random.default_rng(5)
    np.savez(tmp_path / "c.npz", qpos=rng.normal(size=nv), qvel=rng.normal(size=nv))
    for seed in range(10, 30):  # about one of six directions shows it
        said = run("gradient", HERE / "models" / f"{model}.xml", "--cotangent", tmp_path / "c.npz", "--steps", 30, "--seed", seed, "--strict", "-o", tmp_path / "g.npz")
        c = meta(np.load(tmp_path / "g.npz"))["certificate"]
        assert said.stderr == "" if model == "capsule_upright" else said.stderr.startswith("pullback: note: in 30 of 30 steps two features of shapes tie")
        assert c["ties"] == (0 if model == "capsule_upright" else 30) and c["tie_step"] == (-1 if model == "capsule_upright" else 0)


@pytest.mark.parametrize("model", ["actuators", "saturation"])
def test_a_kink_in_a_whole_rollout_is_told(run, tmp_path, model):
    """Forces at their limits, features that tie: differences to both sides are not the same, or their rollouts part. No gradient is off."""
    path = HERE / "models" / f"{model}.xml"
    sizes, rng = json.loads(run("info", path, "--json").stdout)["sizes"], np.random.default_rng(5)
    seen = {"qpos": rng.normal(size=sizes["nv"]), "qvel": rng.normal(size=sizes["nv"]), "act": rng.normal(size=sizes["na"])}
    np.savez(tmp_path / "c.npz", **{k: v for k, v in seen.items() if len(v)})
    said = run("gradient", path, "--cotangent", tmp_path / "c.npz", "--steps", 30, "--strict", "--spot-check", "full", "-o", tmp_path / "g.npz").stderr
    c = meta(np.load(tmp_path / "g.npz"))["certificate"]
    assert said.startswith("pullback: note: the gradient was not compared over the whole rollout") and "off" not in said, said
    assert c["checked"] == "nothing" and not c["spot_checked"] and not c["spot_off"] and "spot_error" not in c, c
    assert c["spot_left_out"] == c["spot_left_kink"] + c["spot_left_tie"] + c["spot_left_noise"] == 1 and c["spot_quotients"] == 0, c
    assert c["spot_kink"] == -1 and c["ties"] == 0, (c, said)


def test_features_that_tie_are_told(run, tmp_path):
    """Parallel capsules whose ends lie side by side: every step ties, and that is said with the pair."""
    np.savez(tmp_path / "c.npz", qpos=np.random.default_rng(5).normal(size=37))
    said = run("gradient", HERE / "models" / "margins.xml", "--cotangent", tmp_path / "c.npz", "--steps", 30, "-o", tmp_path / "g.npz").stderr
    c = meta(np.load(tmp_path / "g.npz"))["certificate"]
    assert c["ties"] == 30 and c["tie_step"] == 0 and c["tie_contact"] in said and "features of shapes tie" in said, (c, said)


def test_every_member_of_a_certificate_is_told(run, tmp_path):
    """Files have the members of pbCertificate by their names: of a gradient, and of the answer of a search."""
    (tmp_path / "ball.xml").write_text(BALL)
    np.savez(tmp_path / "c.npz", qpos=np.ones(6))
    run("gradient", tmp_path / "ball.xml", "--cotangent", tmp_path / "c.npz", "--steps", 20, "--decay", 5, "-o", tmp_path / "g.npz")
    members = {name for name, _ in native.pbCertificate._fields_}
    assert len(members) > 50 and set(meta(np.load(tmp_path / "g.npz"))["certificate"]) - {"mode", "checked", "truncation", "noise"} == members
    (tmp_path / "task.json").write_text(json.dumps({"model": "ball.xml", "steps": 20, "variables": [{"state": "qvel"}], "loss": [{"body": "b", "target": [0, 0, 0.2]}],
                                                    "optimizer": {"iterations": 0}}))
    (tmp_path / "ball.xml").write_text(BALL.replace("<body ", '<body name="b" '))
    found = json.loads(run("optimize", "task.json", "--json", cwd=tmp_path).stdout)["certificates"][0]
    left = {"decay", "window", "clip", "cuts", "clips", "clip_step", "clip_most"}
    assert set(found) - {"mode", "checked", "truncation"} == members - left and not found["truncated"]


def test_a_wrong_gradient_is_called_off(run, tmp_path):
    """Sweeps that have not settled: the derivative of the fixed point is that of another program."""
    (tmp_path / "pile.xml").write_text(PILE)
    np.savez(tmp_path / "x.npz", qvel=[0.3, 0.1, 0, 0, 0, 0.2, 0.5, 0, 0, 0, 0.1, 0])
    np.savez(tmp_path / "c.npz", qpos=np.ones(12), qvel=np.ones(12))
    base = ("gradient", tmp_path / "pile.xml", "--init", tmp_path / "x.npz", "--steps", 10, "--cotangent", tmp_path / "c.npz", "--contact",
            "method=sweeps", "--contact", "sweeps=30", "-o", tmp_path / "g.npz")
    words = run(*base).stderr
    assert "warning: the gradient is off at step" in words and "mostly by '" in words and "active there: the contact of geom" in words, words
    assert run(*base, "--strict", code=1).stderr == words
    c = meta(np.load(tmp_path / "g.npz"))["certificate"]
    assert c["spot_off"] and c["spot_error"] > c["spot_limit"] and c["spot_step"] >= 0 and c["spot_row"].startswith("contact of geom")


def test_a_wrong_gradient_of_a_whole_rollout_is_called_off(run, tmp_path):
    """The same with a ball on the box, whose contact stays where it is."""
    (tmp_path / "pile.xml").write_text(PILE.replace('name="heavy" type="box" size=".1 .1 .1"', 'name="heavy" size=".1"'))
    np.savez(tmp_path / "c.npz", qpos=np.ones(12), qvel=np.ones(12))
    said = run("gradient", tmp_path / "pile.xml", "--steps", 10, "--cotangent", tmp_path / "c.npz", "--contact", "method=sweeps", "--contact",
               "sweeps=30", "--strict", "--spot-check", "full", "-o", tmp_path / "g.npz", code=1).stderr
    assert "the gradient is off over the whole rollout" in said, said


def test_gradient_modes(run, tmp_path):
    """A ball dropped on a stiff plane: exact misses that the moment of touch moves."""
    ball = tmp_path / "ball.xml"
    ball.write_text("<mujoco><option timestep='1e-4'><flag refsafe='disable'/></option><default><geom condim='1' solref='-1e5 -60' "
                    "solimp='.95 .95 .001'/></default><worldbody><geom type='plane' size='1 1 .1'/><body name='b' pos='0 0 .3'>"
                    "<joint type='slide' axis='0 0 1'/><geom size='.1' mass='1'/></body></worldbody></mujoco>")
    task, got, seen = tmp_path / "task.json", {}, {}
    for mode in ("exact", "event", "smooth"):
        out = tmp_path / f"{mode}.npz"
        np.savez(tmp_path / "cotangent.npz", qpos=[1.0])
        run("gradient", ball, "--steps", 2400, "--cotangent", tmp_path / "cotangent.npz", "--mode", mode, "--wrt", "qpos", "-o", out)
        o = np.load(out)
        seen[mode], got[mode] = json.loads(str(o["meta"]))["certificate"], o["qpos"][0]
        assert seen[mode]["mode"] == mode and (seen[mode]["events"] > 0) == (mode == "event")
        assert seen[mode]["spot_checked"] and not seen[mode]["spot_off"]
        assert seen[mode]["checked"] == ("steps and impacts" if mode == "event" else "steps")
        task.write_text(json.dumps({"model": "ball.xml", "steps": 2400, "mode": mode, "variables": [{"state": "qpos"}],
                                    "loss": [{"body": "b", "target": [0, 0, 0.2]}], "optimizer": {"iterations": 0}}))
        assert "holds" in run("check", ball, "--mode", mode, "--horizon", 60).stdout
        assert json.loads(run("optimize", task, "--json", cwd=tmp_path).stdout)["certificates"][0]["mode"] == mode
    assert seen["event"]["events"] == 1 and 0 < seen["event"]["event_step"] < 2400
    assert abs(got["exact"] - got["event"]) > 1 and abs(got["smooth"] - got["event"]) < 0.5
    np.savez(tmp_path / "low.npz", qpos=[-0.2 + 5e-6])  # falls by about this in a step
    low = run("gradient", ball, "--steps", 3, "--init", tmp_path / "low.npz", "--option", "timestep=1e-3", "--cotangent", tmp_path / "cotangent.npz",
              "--mode", "event", "--wrt", "qpos", "-o", out)
    assert "graze, close unsteadily, or throw with a path that accelerates (first at step 1: contact of geom" in low.stderr
    assert "did you mean 'smooth'" in run("check", ball, "--mode", "smoth", code=2).stderr
    assert "takes no option --mode" in run("jacobian", ball, "--mode", "event", "-o", out, code=2).stderr
    task.write_text(task.read_text().replace('"smooth"', '"soft"'))
    assert "mode" in run("optimize", task, cwd=tmp_path, code=3).stderr


def test_penalty_contacts_that_are_too_stiff_or_too_soft(run, tmp_path):
    ball, out, penalty = tmp_path / "ball.xml", tmp_path / "o.npz", ("--contact", "method=penalty", "--contact")
    ball.write_text("<mujoco><worldbody><geom name='floor' type='plane' size='1 1 .1'/><body pos='0 0 .1'><freejoint/>"
                    "<geom name='ball' size='.1' mass='1'/></body></worldbody></mujoco>")
    done = run("simulate", ball, "--steps", 5, *penalty, "stiffness=1e7", "-o", out)
    assert "warning: penalty contact of geoms 0 'floor' and 1 'ball': the time step 0.002 is not below 0.00062" in done.stderr
    done = run("simulate", ball, "--steps", 600, *penalty, "stiffness=500", "--contact", "damping=5", "-o", out)
    o = np.load(out)
    seen, worst = json.loads(str(o["meta"]))["penetration"], o["qpos"][:, 2].argmin()
    assert not done.stderr and seen["step"] == worst and seen["geoms"] == [0, 1] and abs(seen["depth"] - .1 + o["qpos"][worst, 2]) < 1e-15
    np.savez(tmp_path / "c.npz", qpos=np.ones(6))
    run("gradient", ball, "--steps", 600, *penalty, "stiffness=500", "--contact", "damping=5", "--cotangent", tmp_path / "c.npz", "-o", out)
    assert json.loads(str(np.load(out)["meta"]))["penetration"] == seen
    for stiffness, deep in ((500, True), (1e4, False)):
        d = json.loads(run("check", ball, *penalty, f"stiffness={stiffness}", "--json", "--horizon", 100).stdout)
        assert d["holds"] and any(f["what"] == "deep penetration" and "'floor' and 'ball'" in f["why"] for f in d["findings"]) == deep


def test_names_of_parameters_are_the_same_everywhere(run, tmp_path, arm):
    """FIELD, FIELD:OBJECT, FIELD:OBJECT:ENTRY and OPTION:ENTRY for --param, --wrt and in tasks."""
    m, out = mj.MjModel.from_xml_path(str(arm)), tmp_path / "o.npz"
    run("inspect", arm, "--param", "geom_friction:floor:0=0.3", "--param", "gravity:2=-2", "--param", "dof_damping:elbow=.7", "-o", out)
    o = np.load(out)
    assert np.array_equal(o["param/geom_friction"][0], [.3, *m.geom_friction[0, 1:]]) and np.array_equal(o["param/gravity"], [0, 0, -2])
    assert np.array_equal(o["param/dof_damping"], [.1, .7])
    np.savez(tmp_path / "c.npz", qpos=np.ones(2))
    names = ["body_inertia:lower:1", "body_inertia:lower", "body_mass:lower", "gravity:2", "body_inertia"]
    run("gradient", arm, "--keyframe", 0, "--cotangent", tmp_path / "c.npz", "--wrt", ",".join(names), "-o", out)
    g = np.load(out)
    assert [g["param/" + n].shape for n in names] == [(), (3,), (), (), (3, 3)]
    assert np.array_equal(g["param/body_inertia"][2], g["param/body_inertia:lower"]) and g["param/body_inertia:lower"][1] == g["param/body_inertia:lower:1"] != 0
    task = write_task(tmp_path, parameters={"geom_friction:floor:0": .3, "gravity:2": -2}, optimizer={"iterations": 0}, variables=[{"parameter": "body_inertia:lower:1"}])
    result = json.loads(run("optimize", task, "--json", cwd=tmp_path).stdout)
    assert result["variables"][0]["value"] == [m.body_inertia[2, 1]]
    for wrong, words in {"geom_friction:floor:3": "has no entry '3' (it has 3", "geom_friction:flor:0": "did you mean 'floor'", "gravity:x": "no entry 'x'"}.items():
        assert words in refuse(run, tmp_path, 2, "simulate", arm, "--param", wrong + "=1")
        assert words in refuse(run, tmp_path, 2, "gradient", arm, "--cotangent", tmp_path / "c.npz", "--wrt", wrong)
        assert words in refuse(run, tmp_path, 3, "optimize", write_task(tmp_path, parameters={wrong: 1}))


def test_what_would_be_computed_anew_cannot_be_set(run, tmp_path, arm):
    for name in ("dof_invweight0:elbow", "body_subtreemass"):
        value = "9" if ":" in name else "9,9,9"
        text = refuse(run, tmp_path, 2, "simulate", arm, "--param", f"{name}={value}", "--constants", "recompute")
        assert "follows from other parameters" in text and "9 was given" in text
        run("simulate", arm, "--param", f"{name}={value}", "-o", tmp_path / "o.npz")
    changes = dict(parameters={"dof_invweight0:elbow": 9}, constants="recompute")
    assert "parameters.dof_invweight0:elbow: " in refuse(run, tmp_path, 3, "optimize", write_task(tmp_path, **changes))
    changes = dict(variables=[{"parameter": "dof_invweight0"}], constants="recompute")
    assert "variables[0].parameter: " in refuse(run, tmp_path, 3, "optimize", write_task(tmp_path, **changes))


def test_arrays_as_numpy_writes_them(run, tmp_path, arm):
    u, results = controls(7, 2), []
    kinds = [u.astype("<f8"), np.asfortranarray(u), u.astype(">f8")]
    for i, a in enumerate(kinds):
        np.save(tmp_path / "u.npy", a)
        run("simulate", arm, "--control", tmp_path / "u.npy", "-o", tmp_path / "o.npz", *(["--compressed"] if i else []))
        results.append(np.load(tmp_path / "o.npz")["qpos"])
    assert all(np.array_equal(r, results[0]) for r in results)
    for dtype in ("f4", "f2", "i1", "i8", "u2", ">i4", "?"):
        np.save(tmp_path / "u.npy", (10 * abs(u)).astype(dtype))
        run("simulate", arm, "--control", tmp_path / "u.npy", "-o", tmp_path / "o.npz")
        assert np.array_equal(np.load(tmp_path / "o.npz")["control"], (10 * abs(u)).astype(dtype).astype(float)), dtype
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "x.npz", qpos=np.array([.1, .2]), act=np.zeros(0))
        run("simulate", arm, "--init", tmp_path / "x.npz", "-o", tmp_path / "o.npz")
        assert np.array_equal(np.load(tmp_path / "o.npz")["qpos"][0], [.1, .2])


def test_a_solve_that_stops_short_is_told(run, tmp_path, arm):
    """Worst residual and its step in meta, and one line of warning; silence where the solver reached rounding."""
    m = mj.MjModel.from_xml_path(str(RICH))
    np.savez(tmp_path / "c.npz", qpos=np.ones(m.nv))
    task = tmp_path / "task.json"
    task.write_text(json.dumps({"model": RICH.read_text(), "steps": 12, "variables": [{"state": "qvel", "components": [0]}],
                                "loss": [{"qpos": True}], "optimizer": {"iterations": 1}, "options": {"iterations": 1}}))
    for short in (True, False):
        for command, more in dict(simulate=[], gradient=["--cotangent", tmp_path / "c.npz", "--spot-check", "none"], jacobian=[]).items():
            for integrator in ("Euler", "RK4"):
                done = run(command, RICH, "--steps", 12, *more, "--option", f"integrator={integrator}", *(["--option", "iterations=1"] if short else []),
                           "-o", tmp_path / "o.npz")
                solver = meta(np.load(tmp_path / "o.npz"))["solver"]
                assert (solver["worst_residual"] > 1e-6) == short and 0 <= solver["step"] <= 12, command
                assert (solver["unconverged"] > 0) == short and bool(solver["worst_row"]) == short and (solver["worst_condition"] > 1) == short
                warning = (rf"pullback: warning: step {solver['step']} of 12: the constraint solver stopped at relative residual .* at the "
                           rf"{re.escape(solver['worst_row'])}, the worst of {solver['unconverged']} steps.*iterations is 1\)\n")
                assert re.fullmatch(warning if short else "", done.stderr), done.stderr
    assert "residual" in run("check", RICH, "--option", "iterations=1", "--horizon", 5, code=1).stderr
    assert "residual" in run("optimize", task, "-o", tmp_path / "r.json").stderr
    assert "residual" not in run("simulate", RICH, "--steps", 12, "--option", "tolerance=1e-3", "-o", tmp_path / "o.npz").stderr
    run("simulate", arm, "--param", "gravity=0,0,0", "-o", tmp_path / "o.npz")
    assert meta(np.load(tmp_path / "o.npz"))["solver"]["worst_residual"] < 1e-12


def test_a_row_without_softness_is_told(run, tmp_path):
    """A ball joint in the middle of its body: MuJoCo's weight of the body is zero there, and so is all regularization."""
    (tmp_path / "m.xml").write_text("<mujoco><worldbody><geom name='floor' type='plane' size='1 1 1'/><body pos='{} 0 .0999'><joint type='ball' pos='{} 0 0'/>"
                                    "<geom name='head' type='ellipsoid' size='.1 .1 .1'/></body></worldbody><keyframe><key qvel='1 .5 .2'/></keyframe></mujoco>")
    for aside in (0, .02):
        (tmp_path / "n.xml").write_text((tmp_path / "m.xml").read_text().format(-aside, aside))
        words = run("simulate", tmp_path / "n.xml", "--keyframe", 0, "--steps", 20, "-o", tmp_path / "o.npz").stderr
        assert ("geom 'floor' and geom 'head' (next to rigid: body_invweight0 of its bodies is 0, their centers of mass cannot move)" in words) == (not aside), words


def test_a_stack_too_stiff_to_solve_names_the_contact(run, tmp_path):
    box = "<body pos='0 0 {}'><freejoint/><geom name='{}' type='box' size='.1 .1 .1' mass='{}'/></body>"
    (tmp_path / "m.xml").write_text("<mujoco><worldbody><geom type='plane' size='0 0 1'/>" + "".join(
        box.format(.1 + .2 * k, "abcd"[k], [1e-6, 1][k % 2]) for k in range(4)) + "</worldbody></mujoco>")
    words = run("simulate", tmp_path / "m.xml", "--contact", "erp=.2", "--contact", "cfm=0", "-o", tmp_path / "o.npz", code=4).stderr
    assert "condition number above 1e15" in words and re.search("contact of geom '[abcd]' and geom '[abcd]' is too stiff", words), words


def test_an_exploding_contact_is_an_error(run, tmp_path):
    """A spring that no step of this length can follow; as a soft velocity constraint the same stiffness is harmless."""
    model = ("<mujoco><option timestep='.0166666667'/><worldbody><geom name='floor' type='plane' size='0 0 1' solref='{}'/><geom type='plane' pos='0 0 1' "
             "size='0 0 1' euler='180 0 0' solref='{}'/><body pos='0 0 .2'>"
             "<freejoint/><geom name='ball' size='.1' mass='1' solref='{}'/></body></worldbody></mujoco>")
    (tmp_path / "m.xml").write_text(model.replace("{}", "-1e9 -1"))
    words = run("simulate", tmp_path / "m.xml", "--steps", 60, "-o", tmp_path / "o.npz", code=4).stderr
    assert "contact of geom 'floor' and geom 'ball' is too stiff for the time step" in words, words
    run("simulate", tmp_path / "m.xml", "--steps", 60, "--contact", "erp=1", "--contact", "cfm=6e-8", "-o", tmp_path / "o.npz")
    assert abs(np.load(tmp_path / "o.npz")["qvel"]).max() < 2
    (tmp_path / "m.xml").write_text(model.replace("{}", "-1e4 0"))  # at the edge
    np.savez(tmp_path / "c.npz", qpos=np.ones(6))
    words = run("gradient", tmp_path / "m.xml", "--steps", 120, "--cotangent", tmp_path / "c.npz", "-o", tmp_path / "g.npz").stderr
    assert "warning: going back through 120 steps the costate grows by a factor of" in words, words


# ---- gradients and Jacobians --------------------------------------------------------------------------------------------
def test_gradient_shapes_and_memory(run, tmp_path):
    m = mj.MjModel.from_xml_path(str(RICH))
    u, r, cot, out = controls(30, m.nu), np.random.default_rng(5), tmp_path / "cot.npz", tmp_path / "g.npz"
    np.save(tmp_path / "u.npy", u)
    np.savez(cot, qpos=r.standard_normal(m.nv), qvel=r.standard_normal((31, m.nv)), xpos=r.standard_normal((m.nbody, 3)), act=np.zeros((31, m.na)))
    base = ("gradient", RICH, "--control", tmp_path / "u.npy", "--cotangent", cot)
    run(*base, "-o", out)
    g = np.load(out)
    assert g["qpos"].shape == g["qvel"].shape == (m.nv,) and g["act"].shape == (m.na,) and g["control"].shape == (30, m.nu)
    assert "qfrc" not in g and "loss" not in g
    for field in ("body_mass", "body_pos", "geom_friction", "jnt_axis", "dof_damping", "actuator_gainprm", "eq_data", "geom_solimp"):
        assert g["param/" + field].shape == getattr(m, field).shape, field
    assert g["param/gravity"].shape == (3,) and g["param/timestep"].shape == ()
    assert all(np.isfinite(g[k]).all() for k in g.files if k != "meta")
    certificate = meta(g)["certificate"]
    assert certificate["steps"] == 30 and certificate["worst_residual"] < 1e-8 and certificate["spot_error"] < 1e-3
    for memory in ("20kB", "100KiB", "2000000"):
        run(*base, "--memory", memory, "-o", tmp_path / "h.npz")
        h = np.load(tmp_path / "h.npz")
        assert all(np.array_equal(g[k], h[k]) for k in g.files if k != "meta"), memory
    run(*base, "--wrt", "qvel,body_mass,param/gravity", "-o", out)
    assert sorted(np.load(out).files) == ["meta", "param/body_mass", "param/gravity", "qvel"]


def test_truncated_gradients(run, tmp_path):
    """Of the Jacobians: clip, decay, pull, cut; as options, and as a task says."""
    m = mj.MjModel.from_xml_path(str(RICH))
    n, r, steps, decay, window, clip = 2 * m.nv + m.na, np.random.default_rng(8), 12, 20.0, 5, 2.0
    u, h = controls(steps, m.nu), m.opt.timestep
    np.save(tmp_path / "u.npy", u)
    c = r.standard_normal((steps + 1, n))
    np.savez(tmp_path / "cot.npz", qpos=c[:, :m.nv], qvel=c[:, m.nv:2 * m.nv], act=c[:, 2 * m.nv:])
    run("jacobian", RICH, "--control", tmp_path / "u.npy", "-o", tmp_path / "j.npz")
    options = ("--decay", decay, "--window", window * h, "--clip", clip)
    done = run("gradient", RICH, "--control", tmp_path / "u.npy", "--cotangent", tmp_path / "cot.npz", *options, "-o", tmp_path / "g.npz")
    j, g, w, clips = np.load(tmp_path / "j.npz"), np.load(tmp_path / "g.npz"), c[steps], 0
    for k in reversed(range(steps)):
        norm = np.linalg.norm(w)
        clips += norm > clip
        w = w * min(1, clip / norm) * np.exp(-decay * h)
        assert np.allclose(g["control"][k], j["B"][k].T @ w, rtol=1e-9, atol=1e-12)
        w = c[k] + (0 if k and (steps - k) % window == 0 else j["A"][k].T @ w)
    assert np.allclose(np.concatenate([g["qpos"], g["qvel"], g["act"]]), w, rtol=1e-9, atol=1e-9 * abs(w).max())
    seen = meta(g)["certificate"]
    assert seen["truncated"] and seen["cuts"] == 2 and seen["clips"] == clips and seen["decay"] == decay and seen["clip"] == clip
    assert seen["checked"] == "steps" and not seen["spot_off"] and "the gradient is truncated: decay 20 /s, windows of" in done.stderr
    task = {"model": str(RICH), "controls": u.tolist(), "loss": [{"qpos": True}], "gradient": {"decay": decay, "window": window * h, "clip": clip},
            "variables": [{"control": True}], "optimizer": {"method": "lbfgs", "iterations": 1}}
    (tmp_path / "task.json").write_text(json.dumps(task))
    by_task = [run("gradient", tmp_path / "task.json", "--loss", tmp_path / "task.json", "--allow-root", RICH.parent, *o, "-o", tmp_path / "t.npz")
               and np.load(tmp_path / "t.npz") for o in ((), options, ("--decay", 0, "--window", 0, "--clip", 0))]
    assert (by_task[0]["control"] == by_task[1]["control"]).all() and (by_task[0]["control"] != by_task[2]["control"]).any()
    assert not meta(by_task[2])["certificate"]["truncated"]
    result = json.loads(run("optimize", tmp_path / "task.json", "--allow-root", RICH.parent, "--json", cwd=tmp_path).stdout)
    assert result["certificates"][0]["truncated"] and result["certificates"][0]["window"] == window * h
    for bad, text in (({"decay": -1}, "gradient.decay"), ({"window": 1e-9}, "gradient.window"), ({"clips": 1}, "did you mean 'clip'")):
        (tmp_path / "task.json").write_text(json.dumps({**task, "gradient": bad}))
        assert text in run("optimize", tmp_path / "task.json", "--allow-root", RICH.parent, code=3).stderr
    task["optimizer"]["method"] = "gauss-newton"
    (tmp_path / "task.json").write_text(json.dumps(task))
    assert "gauss-newton needs derivatives of residuals" in run("optimize", tmp_path / "task.json", "--allow-root", RICH.parent, code=3).stderr
    assert "--clip: expected a number" in run("gradient", RICH, "--control", tmp_path / "u.npy", "--cotangent", tmp_path / "cot.npz", "--clip", "-1",
                                             "-o", tmp_path / "g.npz", code=2).stderr


def test_gradient_agrees_with_the_jacobians(run, tmp_path):
    m = mj.MjModel.from_xml_path(str(RICH))
    n, r, steps = 2 * m.nv + m.na, np.random.default_rng(8), 6
    np.save(tmp_path / "u.npy", controls(steps, m.nu))
    w = r.standard_normal(n)
    np.savez(tmp_path / "cot.npz", qpos=w[:m.nv], qvel=w[m.nv:2 * m.nv], act=w[2 * m.nv:])
    run("jacobian", RICH, "--control", tmp_path / "u.npy", "-o", tmp_path / "j.npz")
    run("gradient", RICH, "--control", tmp_path / "u.npy", "--cotangent", tmp_path / "cot.npz", "-o", tmp_path / "g.npz")
    j, g = np.load(tmp_path / "j.npz"), np.load(tmp_path / "g.npz")
    assert j["A"].shape == (steps, n, n) and j["B"].shape == (steps, n, m.nu)
    assert j["C"].shape == (steps, m.nsensordata, n) and j["D"].shape == (steps, m.nsensordata, m.nu)
    for k in reversed(range(steps)):
        assert np.allclose(g["control"][k], j["B"][k].T @ w, rtol=1e-9, atol=1e-12)
        w = j["A"][k].T @ w
    assert np.allclose(np.concatenate([g["qpos"], g["qvel"], g["act"]]), w, rtol=1e-9, atol=1e-9 * abs(w).max())
    run("jacobian", RICH, "-o", tmp_path / "j.npz")
    assert np.load(tmp_path / "j.npz")["A"].shape[0] == 1


def test_sensor_cotangents_agree_with_c_and_d(run, tmp_path, arm):
    w = np.array([1, -2, .5, 3])
    cot = np.zeros((2, 4))
    cot[0] = w
    np.savez(tmp_path / "cot.npz", sensordata=cot)
    run("gradient", arm, "--keyframe", 0, "--cotangent", tmp_path / "cot.npz", "-o", tmp_path / "g.npz")
    run("jacobian", arm, "--keyframe", 0, "-o", tmp_path / "j.npz")
    g, j = np.load(tmp_path / "g.npz"), np.load(tmp_path / "j.npz")
    assert np.allclose(np.concatenate([g["qpos"], g["qvel"]]), j["C"][0].T @ w, rtol=1e-11, atol=1e-12)
    assert np.allclose(g["control"][0], j["D"][0].T @ w, atol=1e-12)


def test_gradient_with_recomputed_constants(run, tmp_path):
    """The mass of a lying ball: with recomputed constants its softness follows, in value and gradient."""
    path, out = tmp_path / "ball.xml", tmp_path / "o.npz"
    path.write_text(BALL.replace('<geom size=".1"/>', '<geom size=".1" mass="1"/>').replace('pos="0 0 .3"', 'name="b" pos="0 0 .099"'))
    cot = np.zeros(6)
    cot[2] = 1
    np.savez(tmp_path / "cot.npz", qpos=cot)
    for constants in ("keep", "recompute"):
        base = (path, "--steps", 20, "--constants", constants)
        run("gradient", *base, "--cotangent", tmp_path / "cot.npz", "-o", out)
        g = np.load(out)
        assert ("param/body_invweight0" in g) == (constants == "keep") and meta(g)["constants"] == constants
        z = []
        for e in (1e-4, -1e-4):
            run("simulate", *base, "--param", f"body_mass:b={1 + e!r}", "-o", out)
            z.append(np.load(out)["qpos"][-1, 2])
        assert abs(g["param/body_mass"][1] - (z[0] - z[1]) / 2e-4) < 1e-6 * (1e-3 + abs(g["param/body_mass"][1]))
    p = run("gradient", path, "--cotangent", tmp_path / "cot.npz", "--constants", "recompute", "--wrt", "body_invweight0", "-o", out, code=2)
    assert "follows" in p.stderr


def test_empty_arrays(run, tmp_path):
    path = tmp_path / "ball.xml"
    path.write_text(BALL)
    np.save(tmp_path / "u.npy", np.zeros((3, 0)))
    np.savez(tmp_path / "cot.npz", qpos=np.ones(6), act=np.zeros(0), sensordata=np.zeros((4, 0)), site_xpos=np.zeros((0, 3)))
    run("simulate", path, "--control", tmp_path / "u.npy", "-o", tmp_path / "o.npz")
    o = np.load(tmp_path / "o.npz")
    assert o["act"].shape == (4, 0) and o["control"].shape == (3, 0) and o["sensordata"].shape == (4, 0)
    run("gradient", path, "--control", tmp_path / "u.npy", "--init", tmp_path / "o.npz", "--cotangent", tmp_path / "cot.npz", "-o", tmp_path / "g.npz")
    g = np.load(tmp_path / "g.npz")
    assert g["act"].shape == (0,) and g["control"].shape == (3, 0) and g["param/actuator_gear"].shape == (0, 6)


# ---- the other commands -------------------------------------------------------------------------------------------------
def test_info(run, arm):
    d = json.loads(run("info", arm, "--json").stdout)
    m = mj.MjModel.from_xml_path(str(arm))
    assert all(d["sizes"][k] == getattr(m, k) for k in ("nq", "nv", "nu", "na", "nbody", "njnt", "ngeom", "nsite", "nsensordata", "nkey"))
    assert [j["name"] for j in d["joints"]] == ["shoulder", "elbow"] and d["joints"][1]["qposadr"] == 1
    mass = next(p for p in d["params"] if p["name"] == "body_mass")
    assert mass["unit"] == "kg" and mass["shape"] == [3] and mass["lower"] == 0 and mass["upper"] is None and not mass["derived"]
    assert np.allclose(mass["value"], m.body_mass, rtol=1e-14)
    text = run("info", arm).stdout
    assert "shoulder" in text and "body_mass" in text and "kg" in text


def test_info_of_a_policy(run, arm, tmp_path):
    """What each column of the first weights is of; which slices are constants; commands that nobody gives are told."""
    (tmp_path / "p.json").write_text(json.dumps({"every": 4, "observe": [{"qvel": "elbow"}, {"command": 2}], "layers": [
        {"normalize": True}, {"gru": 3}, {"dense": mj.MjModel.from_xml_path(str(arm)).nu}]}))
    d = json.loads(run("info", arm, "--policy", tmp_path / "p.json", "--json").stdout)
    assert d["policy"]["observations"] == ["qvel[0] of joint 'elbow'", "command[0]", "command[1]"]
    assert (d["policy"]["every"], d["policy"]["memory"], d["policy"]["commands"]) == (4, 3, 2)
    assert {p["name"] for p in d["params"] if p.get("fixed")} == {"policy.0.mean", "policy.0.deviation"}
    text = run("info", arm, "--policy", tmp_path / "p.json").stdout
    assert "decides every 4 steps" in text and "sees    1  command[0]" in text and "fixed" in text

    simulate = ("simulate", arm, "--policy", tmp_path / "p.json", "--steps", 3, "-o", tmp_path / "o.npz")
    assert "observes 2 commands; without --command they are zero" in run(*simulate).stderr
    np.save(tmp_path / "c.npy", [1., 2.])
    assert "commands" not in run(*simulate, "--command", tmp_path / "c.npy").stderr


def test_check_holds(run, arm):
    d = json.loads(run("check", arm, "--json", "--keyframe", 0).stdout)
    assert d["holds"] and len(d["checks"]) >= 8 and all(c["holds"] for c in d["checks"]) and sum(c["cases"] for c in d["checks"]) > 50
    assert "hold" in run("check", RICH, "--seed", 1, "--horizon", 10).stdout


def test_check_compares_bounds_ties_and_sensors_with_differences(run, tmp_path):
    path = tmp_path / "ball.xml"
    path.write_text("""<mujoco><worldbody><geom name="floor" type="plane" size="5 5 1"/><body pos="0 0 .0995"><freejoint/>
        <geom name="ball" size=".1" mass="1"/></body></worldbody><sensor><clock/></sensor></mujoco>""")
    d = json.loads(run("check", path, "--json").stdout)
    cases = {c["name"]: c for c in d["checks"]}
    assert d["holds"]
    assert cases["differences, states by parameters"]["cases"] > 40
    assert cases["differences, sensors by parameters"]["cases"] > 40
    named = [f["where"] for f in d["findings"] if f["what"] == "at a bound or tie"]
    assert "geom_friction:floor:0" in named and any(n.startswith("dof_frictionloss:") for n in named)


def test_a_search_leaves_a_friction_loss_of_zero(run, tmp_path):
    arm = tmp_path / "arm.xml"
    arm.write_text("""<mujoco><worldbody><body pos="0 0 1"><joint name="a" axis="0 1 0" damping=".08"/>
        <geom type="capsule" size=".03" fromto="0 0 0 .4 0 0" mass="1.5"/><body pos=".4 0 0"><joint name="b" axis="0 1 0" damping=".03"/>
        <geom type="capsule" size=".03" fromto="0 0 0 .3 0 0" mass="1.1"/></body></body></worldbody></mujoco>""")
    truth = {"a": 0.25, "b": 0.12}
    given = [text for joint, loss in truth.items() for text in ("--param", f"dof_frictionloss:{joint}={loss}")]
    run("simulate", arm, "--steps", 500, *given, "-o", tmp_path / "recorded.npz")
    task = tmp_path / "task.json"
    task.write_text(json.dumps({
        "model": "arm.xml", "steps": 500, "variables": [{"parameter": f"dof_frictionloss:{j}", "lower": 0} for j in truth],
        "loss": [{"qpos": ["a", "b"], "at": [0.2, 0.4, 0.6, 0.8, 1.0], "target": {"file": "recorded.npz", "array": "qpos"}}],
        "optimizer": {"method": "gauss-newton"}}))
    run("optimize", task, "-q", "-o", tmp_path / "found.json")
    found = [v["value"][0] for v in json.loads((tmp_path / "found.json").read_text())["variables"]]
    assert np.allclose(found, list(truth.values()), rtol=1e-6)


def test_check_holds_where_nothing_moves(run, tmp_path):
    for k, text in enumerate(("<mujoco/>", '<mujoco><worldbody><site name="a" pos="0 0 1"/></worldbody><sensor><framepos objtype="site" objname="a"/></sensor></mujoco>')):
        (tmp_path / f"{k}.xml").write_text(text)
        found = run("check", tmp_path / f"{k}.xml", "--horizon", 2).stdout
        assert "nan" not in found and "checks hold" in found


def test_check_names_an_unconverged_solve(run):
    d = json.loads(run("check", RICH, "--json", "--option", "iterations=1", "--horizon", 5, code=1).stdout)
    found = [f for f in d["findings"] if f["what"] == "unconverged solve"]
    assert found and "iterations" in found[0]["why"] and "step" in found[0]["where"]


def test_check_names_the_onset_of_contact(run, tmp_path):
    path = tmp_path / "ball.xml"
    path.write_text(BALL.replace('pos="0 0 .3"', 'pos="0 0 .1003"'))
    d = json.loads(run("check", path, "--json").stdout)
    assert any(f["what"] == "contact onset" for f in d["findings"])


def test_check_leaves_out_contacts_whose_normal_jumps(run, tmp_path):
    """Capsules that share an end: the smallest move of a body turns the normal of their contact."""
    path = tmp_path / "share.xml"
    path.write_text("""<mujoco><default><geom type="capsule" size=".01"/><joint type="ball" damping=".005"/></default><worldbody>
        <body><geom fromto="0 0 0 0 0 .1"/><body pos="0 0 .1"><geom fromto="0 0 0 0 .1 .1"/><joint/>
        <body pos="0 .1 .1"><geom fromto="0 0 0 0 .1 0"/><joint/></body></body></body></worldbody></mujoco>""")
    d = json.loads(run("check", path, "--json").stdout)
    assert d["holds"] and "normal jumps" in json.dumps(d["checks"])


def test_view_is_one_page_without_network(run, tmp_path):
    path, out = tmp_path / "arm<script>&.xml", tmp_path / "run.html"
    path.write_text(ARM.replace('name="upper"', 'name="&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;"'))
    run("simulate", path, "--steps", 50, "-o", tmp_path / "o.npz")
    run("view", path, tmp_path / "o.npz", "-o", out)
    page = out.read_text()
    assert "<img src=x" not in page and "arm<script>" not in page and page.count("<script") == page.count("</script>") == 3
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=", page) and "MIT License" in page and "THREE" in page
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.S).group(1))
    assert len(data["geoms"]) == 3 and data["time"][-1] == pytest.approx(0.1) and data["bodies"][1].startswith("</script>")


def test_view_shows_the_whole_motion(run, tmp_path):
    """The camera sees every frame, or goes along where the way is long."""
    path, init, out = tmp_path / "ball.xml", tmp_path / "x.npz", tmp_path / "o.npz"
    path.write_text(BALL)
    for speed, follows in ((1, False), (100, True)):
        np.savez(init, qvel=[speed, 0, 0, 0, 0, 0])
        run("simulate", path, "--steps", 100, "--init", init, "-o", out), run("view", path, out, "-o", tmp_path / "v.html")
        data = json.loads(re.search(r'id="data">(.*?)</script>', (tmp_path / "v.html").read_text(), re.S).group(1))
        low, high = np.load(out)["qpos"][:, :3].min(0) - .1, np.load(out)["qpos"][:, :3].max(0) + .1
        assert data["title"] == "ball.xml" and data["follow"] == 1 and data["following"] == follows
        assert np.allclose(data["center"], [0, 0, .3] if follows else (low + high) / 2, atol=1e-6)
        size = np.linalg.norm([.2] * 3) * 1.5 if follows else np.linalg.norm(high - low)
        assert 1 - 1e-6 < data["extent"] / (size / np.sqrt(2)) < 1.2  # the ball's box may have turned


def test_inspect(run, tmp_path):
    out = tmp_path / "o.npz"
    run("inspect", RICH, "-o", out)
    o, m = np.load(out), mj.MjModel.from_xml_path(str(RICH))
    d = mj.MjData(m)
    mj.mj_forward(m, d)
    for field in ("body_mass", "geom_size", "jnt_type", "actuator_gear", "dof_parentid", "body_inertia"):
        assert o["model/" + field].shape == getattr(m, field).shape and np.allclose(o["model/" + field], getattr(m, field), rtol=1e-12, atol=1e-15), field
    for quantity in ("xpos", "xquat", "site_xpos", "qfrc_bias", "qfrc_passive", "ten_length"):
        assert np.allclose(o[quantity].ravel(), getattr(d, quantity).ravel(), rtol=1e-11, atol=1e-11), quantity


# ---- optimize -----------------------------------------------------------------------------------------------------------
def write_task(tmp_path, **changes):
    task = {"model": "arm.xml", "steps": 150, "variables": [{"control": "a", "knots": 8, "interpolation": "linear"}],
            "loss": [{"name": "goal", "qpos": True, "target": [0.1, 0.2]}, {"name": "effort", "control": True, "at": "all", "weight": 1e-4}],
            "optimizer": {"method": "cmaes", "iterations": 500}}
    path = tmp_path / "task.json"
    path.write_text(json.dumps(task | changes))
    return path


def test_optimize_writes_result_and_trajectory(run, tmp_path, arm):
    task = write_task(tmp_path, optimizer={"method": "lbfgs", "iterations": 30})
    result = json.loads(run("optimize", task, "--json", cwd=tmp_path).stdout)
    assert result["loss"] < 0.2 * result["start_loss"] and len(result["variables"][0]["value"]) == 8
    o = np.load(tmp_path / result["trajectory_files"][0])
    assert o["qpos"].shape == (151, 2) and o["control"].shape == (150, 2) and not list(tmp_path.glob("*.state"))
    goal = ((o["qpos"][-1] - [.1, .2]) ** 2).sum()
    assert goal == pytest.approx(next(t["value"] for t in result["terms"] if t["name"] == "goal"), rel=1e-9)
    run("gradient", arm, "--steps", 150, "--loss", task, "--control", tmp_path / "u.npy", "-o", tmp_path / "g.npz", code=5)
    np.save(tmp_path / "u.npy", o["control"])
    run("gradient", arm, "--loss", task, "--control", tmp_path / "u.npy", "--wrt", "control,dof_damping", "-o", tmp_path / "g.npz")
    g = np.load(tmp_path / "g.npz")
    assert g["loss"].shape == () and g["loss"] == pytest.approx(result["loss"], rel=1e-9) and g["control"].shape == (150, 2)


def test_optimize_without_iterations_reports_the_start(run, tmp_path, arm):
    task = write_task(tmp_path, optimizer={"iterations": 0}, confirm=True)
    result = json.loads(run("optimize", task, "--json", cwd=tmp_path).stdout)
    assert result["loss"] == result["start_loss"] > 0 and result["iterations"] == 0 and result["confirm"]["ran"] and result["terms"][0]["value"] > 0
    assert np.load(tmp_path / result["trajectory_files"][0])["qpos"].shape == (151, 2) and not list(tmp_path.glob("*.state"))


def test_output_that_cannot_be_written_is_said_before_the_run(run, tmp_path, arm):
    began = time.monotonic()
    text = run("simulate", arm, "--steps", 10 ** 6, "-o", tmp_path / "nowhere" / "x.npz", code=5).stderr
    assert "nowhere/x.npz: cannot be written" in text and time.monotonic() - began < 10


def test_outputs_do_not_replace_what_is_read(run, tmp_path, arm):
    before, out, link = arm.read_bytes(), tmp_path / "o.npz", tmp_path / "link.glb"
    link.symlink_to(arm)
    assert "is what the command reads" in run("simulate", arm, "-o", out, "--glb", link, code=2).stderr
    assert "writes .glb files there" in run("simulate", arm, "-o", out, "--glb", arm, code=2).stderr
    assert "is written by another option" in run("simulate", arm, "-o", tmp_path / "same", "--glb", tmp_path / "same", code=2).stderr
    np.savez(tmp_path / "cot.npz", qvel=np.ones(2))
    text = run("gradient", arm, "--cotangent", tmp_path / "cot.npz", "-o", tmp_path / "cot.npz", code=2).stderr
    assert "is read by another option" in text and np.load(tmp_path / "cot.npz").files == ["qvel"]
    task = write_task(tmp_path)
    kept = pathlib.Path(task).read_text()
    assert "is what the command reads" in run("optimize", task, "-o", task, cwd=tmp_path, code=2).stderr
    assert arm.read_bytes() == before and not out.exists() and pathlib.Path(task).read_text() == kept
    run("simulate", arm, "-o", out)
    run("simulate", arm, "--init", out, "-o", out)  # a run goes on in its own file


def test_a_run_that_cannot_write_leaves_nothing(run, tmp_path, arm):
    for option in ("--glb", "--vtu"):
        run("simulate", arm, "-o", tmp_path / "o.npz", option, tmp_path / "nowhere" / "x", code=5)
        assert not (tmp_path / "o.npz").exists()


def test_pipe_that_nobody_reads_can_be_interrupted(run, tmp_path, arm):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    p = subprocess.Popen([run.program, "simulate", str(arm), "--steps", "2", "-o", str(pipe)])
    time.sleep(1)
    assert p.poll() is None
    p.send_signal(signal.SIGINT)
    assert p.wait(timeout=30) == 130


def interrupted(run, task, out):
    """A run that was stopped after its first state was written."""
    p = subprocess.Popen([run.program, "optimize", str(task), "-o", str(out), "--fresh"])
    for _ in range(3000):
        time.sleep(0.01)
        if out.with_suffix(".state").exists():
            break
    p.send_signal(signal.SIGINT)
    assert p.wait(timeout=60) == 130


def test_optimize_resumes_only_what_it_was(run, tmp_path, arm):
    """Model, included files, controls, recordings and deformables are part of the run; more iterations are not."""
    include, target, net = tmp_path / "links.xml", tmp_path / "target.npz", tmp_path / "net.json"
    text = arm.read_text()
    include.write_text('<mujoco><default><geom density="900"/></default></mujoco>')
    arm.write_text(text.replace("<worldbody>", '<include file="links.xml"/><worldbody>', 1))
    np.savez(target, qpos=np.zeros((151, 2)))
    net.write_text(json.dumps({"bodies": [{"name": "net", "mesh": {"grid": {"u": [0.1, 0, 0], "v": [0, 0.1, 0], "cells": [1, 1]}}, "pos": [3, 0, 3],
                                           "energies": [{"energy": "membrane_stvk", "parameters": {"young": 1e3, "poisson": 0.3, "thickness": 1e-3, "density": 200}}]}]}))
    loss = [{"name": "record", "qpos": True, "at": "all", "target": {"file": "target.npz", "array": "qpos"}}]
    setting = dict(loss=loss, deformables="net.json", optimizer={"method": "cmaes", "iterations": 10 ** 6})
    task, out = write_task(tmp_path, **setting), tmp_path / "r.json"
    interrupted(run, task, out)
    for file in (arm, include, target, net):
        kept = file.read_bytes()
        if file == target:
            np.savez(target, qpos=np.full((151, 2), 1e-3))
        else:
            file.write_bytes(kept + (b" " if file == net else b"<!-- another -->"))
        said = run("optimize", task, "-o", out, code=3).stderr
        assert "r.state" in said and file.name + " was changed" in said and "--fresh" in said, said
        file.write_bytes(kept)
    setting["optimizer"]["iterations"] = 1
    result = json.loads(run("optimize", write_task(tmp_path, **setting), "-o", out).stdout or out.read_text())
    assert result["resumed"] and result["iterations"] > 1


def test_optimize_leaves_no_state_behind_that_is_of_no_use(run, tmp_path, arm):
    task = write_task(tmp_path, init={"qvel": [1e9, 1e9]}, optimizer={"method": "gauss-newton"}, loss=[{"qpos": True}])
    text = refuse(run, tmp_path, 4, "optimize", task)
    assert re.search(r"no point could be evaluated.*step \d+", text), text
    state = tmp_path / "r.state"
    np.save(tmp_path / "other.npy", np.ones(5))
    for content in ((tmp_path / "other.npy").read_bytes(), b"nonsense"):
        state.write_bytes(content)
        text = run("optimize", write_task(tmp_path), "-o", tmp_path / "r.json", code=3).stderr
        assert "r.state" in text and "--fresh" in text and state.exists()
    state.unlink()  # what stands there afterwards is the run's own
    p = subprocess.Popen([run.program, "optimize", str(write_task(tmp_path, optimizer={"method": "cmaes", "iterations": 10 ** 6})), "-o", str(tmp_path / "r.json"), "--fresh"])
    for _ in range(1000):
        time.sleep(0.01)
        if state.exists():
            break
    p.send_signal(signal.SIGINT)
    assert p.wait(timeout=60) == 130
    text = run("optimize", write_task(tmp_path, steps=151, optimizer={"method": "cmaes", "iterations": 10 ** 6}), "-o", tmp_path / "r.json", code=3).stderr
    assert "r.state" in text and "the task's steps was changed" in text and "--fresh" in text
    run("optimize", write_task(tmp_path, optimizer={"iterations": 1}), "-o", tmp_path / "r.json", "--fresh")
    assert not state.exists()


def test_optimize_goes_on_after_it_was_killed(run, pullback, tmp_path, arm):
    task = write_task(tmp_path)
    run("optimize", task, "-o", tmp_path / "whole.json")
    command = [pullback, "optimize", str(task), "-o", str(tmp_path / "cut.json")]
    ends = []
    for number in (signal.SIGINT, signal.SIGKILL):
        p = subprocess.Popen(command, stderr=subprocess.PIPE)
        for _ in range(400):  # once it has kept something
            time.sleep(0.01)
            if p.poll() is not None or (len(ends) == 0 and time.sleep(0.2) is None) or (tmp_path / "cut.state").exists():
                break
        p.send_signal(number)
        ends.append(p.wait(timeout=60))
    assert ends[0] == 130 and not (tmp_path / "cut.json").exists() or 0 in ends
    run("optimize", task, "-o", tmp_path / "cut.json")
    whole, cut = (json.loads((tmp_path / f"{k}.json").read_text()) for k in ("whole", "cut"))
    assert cut["loss"] == whole["loss"] and cut["variables"] == whole["variables"] and cut["iterations"] == whole["iterations"]
    assert (tmp_path / "whole.trajectory.npz").read_bytes() == (tmp_path / "cut.trajectory.npz").read_bytes()
    run("optimize", task, "--seed", 5, "-o", tmp_path / "other.json")
    assert json.loads((tmp_path / "other.json").read_text())["loss"] != whole["loss"]


def test_optimize_refuses_bad_tasks(run, tmp_path, arm):
    (tmp_path / "task.json").write_text("{")
    assert "task.json" in refuse(run, tmp_path, 3, "optimize", tmp_path / "task.json")
    for changes in (dict(steps=-1), dict(stepz=3), dict(model="/etc/passwd"), dict(loss=[]), dict(variables=[{"parameter": "body_mas"}])):
        refuse(run, tmp_path, 3, "optimize", write_task(tmp_path, **changes))


# ---- errors -------------------------------------------------------------------------------------------------------------
def refuse(run, tmp_path, code, *arguments):
    """The command fails with a code, a text that fits a screen and no file."""
    out = tmp_path / f"never.{dict(optimize='json', view='html').get(arguments[0], 'npz')}"
    done = run(*arguments, "-o", out, code=code)
    assert not out.exists() and not list(tmp_path.glob("never*")) and not done.stdout
    assert done.stderr.startswith("pullback") and 1 <= len(done.stderr.splitlines()) <= 24
    return done.stderr


def test_usage(run, tmp_path, arm):
    assert "did you mean simulate" in run("simlate", code=2).stderr
    assert "did you mean --steps" in refuse(run, tmp_path, 2, "simulate", arm, "--stesp", 3)
    assert "did you mean 'body_mass'" in refuse(run, tmp_path, 2, "simulate", arm, "--param", "body_mas=3")
    assert "did you mean 'lower'" in refuse(run, tmp_path, 2, "simulate", arm, "--param", "body_mass:lowr=3")
    np.savez(tmp_path / "c.npz", qpos=np.zeros(2))
    assert "did you mean 'body_mass'" in refuse(run, tmp_path, 2, "gradient", arm, "--cotangent", tmp_path / "c.npz", "--wrt", "body_maas")
    assert "did you mean 'integrator'" in refuse(run, tmp_path, 2, "simulate", arm, "--option", "integratr=Euler")
    assert "MODEL [TRAJ.npz] is missing" in refuse(run, tmp_path, 2, "view")
    assert "did you mean 'lbfgs'" in refuse(run, tmp_path, 3, "optimize", write_task(tmp_path, optimizer={"method": "L-BFGS"}))
    for arguments in (["simulate"], ["simulate", arm, arm], ["simulate", arm, "--steps", "3x"], ["simulate", arm, "--steps", "0"], ["gradient", arm],
                      ["simulate", arm, "--constants", "both"], ["simulate", arm, "--param", "body_mass"], ["simulate", arm, "--init-row", "0"]):
        refuse(run, tmp_path, 2, *arguments)
    for arguments, said in ((["--steps", "3", "--steps", "4"], "'--steps' is given twice"), (["-q", "--quiet"], "'--quiet' is given twice"),
                            (["--threads", "2"], "--threads goes with --worlds"), (["--every", "99999999999999999999"], "expected a whole number from 1")):
        assert said in refuse(run, tmp_path, 2, "simulate", arm, *arguments)
    assert "from 0 to" in run("check", arm, "--seed", "99999999999999999999", code=2).stderr
    assert "--output" in run("simulate", arm, code=2).stderr and run(code=2).stderr
    version = run("--version").stdout  # which one: test_promises.py
    for command in ("info", "simulate", "gradient", "jacobian", "check", "view", "optimize", "inspect"):
        assert command in run(command, "--help").stdout and version == run(command, "--version").stdout
    assert "simulate" in run("--help").stdout and re.match(r"pullback \d+\.\d+\.\d+\n", version)
    assert re.search(r"^(gcc|clang|Debian clang).*kernels .*r; pages by three\.js r\d+, SHA-256 [0-9a-f]{64}$", version, re.M)


def test_bad_values(run, tmp_path, arm):
    for value in ("gravity=0,0", "gravity=0,0,-9,81", "gravity=0,0,-9.81m", "gravity=nan,0,0", "body_mass:lower=-1", "body_mass=1", "timestep=0",
                  "gravity=0x10,0,0", "gravity=0;0;1", "gravity="):
        refuse(run, tmp_path, 3, "simulate", arm, "--param", value)
    np.save(tmp_path / "u.npy", controls(5, 2)), np.save(tmp_path / "three.npy", controls(5, 3)), np.save(tmp_path / "nan.npy", np.full((5, 2), np.nan))
    assert "rows" in refuse(run, tmp_path, 3, "simulate", arm, "--control", tmp_path / "u.npy", "--steps", 4)
    assert "(5, 3)" in refuse(run, tmp_path, 3, "simulate", arm, "--control", tmp_path / "three.npy")
    assert "[0, 0] is NaN" in refuse(run, tmp_path, 3, "simulate", arm, "--control", tmp_path / "nan.npy")
    refuse(run, tmp_path, 3, "simulate", arm, "--keyframe", 1)
    refuse(run, tmp_path, 5, "simulate", tmp_path / "no.xml")
    refuse(run, tmp_path, 5, "simulate", arm, "--init", tmp_path / "no.npz")
    refuse(run, tmp_path, 5, "simulate", arm, "--steps", 10 ** 9)
    run("simulate", arm, "-o", tmp_path / "no" / "o.npz", code=5)
    for name, value in dict(qpso=np.zeros(2), qpos=np.zeros(3), qvel=np.array([np.inf, 0])).items():
        np.savez(tmp_path / "x.npz", **{name: value})
        refuse(run, tmp_path, 3, "simulate", arm, "--init", tmp_path / "x.npz")
    for empty in ({}, dict(meta="nothing")):
        np.savez(tmp_path / "c.npz", **empty)
        assert "holds no cotangent" in refuse(run, tmp_path, 3, "gradient", arm, "--cotangent", tmp_path / "c.npz")
    for value, words in {"timestep=0": "timestep is 0: expected a positive number", "timestep=-1": "timestep is -1: expected a positive number",
                         "body_mass:lower=-2": "body_mass:lower is -2: expected zero or a positive number"}.items():
        assert words in refuse(run, tmp_path, 3, "simulate", arm, "--param", value)
    for cot in (dict(qpos=np.zeros(3)), dict(qpso=np.zeros(2)), dict(qvel=np.zeros((3, 2))), dict(qpos=np.array([1, np.nan]))):
        np.savez(tmp_path / "c.npz", **cot)
        refuse(run, tmp_path, 3, "gradient", arm, "--cotangent", tmp_path / "c.npz")


def test_mistakes_are_answered(run, tmp_path, arm):
    """What a user gets wrong: the answer names the place, the reason and, where there is one, the way out."""
    save = {"u.npy": np.zeros((5, 2)), "turned.npy": np.zeros((2, 5)), "none.npy": np.zeros((0, 2)), "text.npy": np.array("words"),
            "complex.npy": np.zeros((5, 2), complex)}
    for name, value in save.items():
        np.save(tmp_path / name, value)
    np.savez(tmp_path / "c.npz", qpos=np.ones(2)), np.savez(tmp_path / "two.npz", a=np.ones(2), b=np.ones(2)), np.savez(tmp_path / "rows.npz", qpos=np.ones((5, 2)))
    (tmp_path / "u.csv").write_text("0,0\n"), (tmp_path / "u.npz").write_text("0,0\n"), (tmp_path / "words.xml").write_text("words")
    sim, grad = ["simulate", arm], ["gradient", arm, "--steps", 5, "--cotangent", tmp_path / "c.npz"]
    for code, words, *arguments in (
            (3, "rows and columns seem to be exchanged", *sim, "--control", tmp_path / "turned.npy"),
            (3, "expected one row per step, found 0 rows", *sim, "--control", tmp_path / "none.npy"),
            (3, "expected numbers, found text", *sim, "--control", tmp_path / "text.npy"),
            (3, "'<c16' is not supported", *sim, "--control", tmp_path / "complex.npy"),
            (3, "holds 2 arrays; expected one, or one named 'control'", *sim, "--control", tmp_path / "two.npz"),
            (3, "neither an NPY nor an NPZ file", *sim, "--control", tmp_path / "u.npz"),
            (3, "u.csv:1: expected a header with the names of columns, found numbers", *sim, "--control", tmp_path / "u.csv"),
            (3, "expected an NPZ file with qpos, qvel, act, time, ..., found one array without a name", *sim, "--init", tmp_path / "u.npy"),
            (3, "not well-formed XML: syntax error", "simulate", tmp_path / "words.xml"),
            (3, "(it has 1, counted from 0)", *sim, "--keyframe", 1),
            (2, "'--steps' needs a value, but '-o' follows it", *sim, "--steps"),
            (2, "'info' takes no option --steps", "info", arm, "--steps", 3),
            (2, "unexpected operand 'more.npz' (expected only MODEL)", *sim, "more.npz"),
            (2, "'pullback info MODEL' lists them", *sim, "--param", "weight:lower=3"),
            (2, "did you mean 'body_mass'", *sim, "--param", "mass:lower=3"),
            (3, "expected an NPZ file with qpos, qvel, ..., found one array without a name", "gradient", arm, "--cotangent", tmp_path / "u.npy"),
            (3, "(2,) for the last state or (6, 2) for every state", "gradient", arm, "--steps", 5, "--cotangent", tmp_path / "rows.npz"),
            (2, "(qpos, qvel, act, points, point_velocity, control, qfrc, xfrc, mocap_pos, mocap_rot, mocap_vel, param, or a parameter)", *grad, "--wrt", "thrust")):
        assert words in refuse(run, tmp_path, code, *arguments), words
    run("simulate", arm, "--control", tmp_path / "u.npy", "-o", tmp_path / "run.npz")
    run("simulate", arm, "--control", tmp_path / "run.npz", "-o", tmp_path / "again.npz")  # the controls of a trajectory
    assert (tmp_path / "run.npz").read_bytes() == (tmp_path / "again.npz").read_bytes()
    run(*grad, "--wrt", "qpos, qvel", "-o", tmp_path / "g.npz")
    for words, changes in {
            ":32: options.gravity: expected 3 numbers, found one (one entry is \"gravity:ENTRY\")": dict(options={"gravity": -9.81}),
            ": parameters.geom_friction:floor: expected 3 numbers, found one": dict(parameters={"geom_friction:floor": .3}),
            ": parameters.dof_damping: expected 2 numbers, found one (one entry is \"dof_damping:OBJECT\")": dict(parameters={"dof_damping": .3}),
            ": options.body_mass:lower: is a parameter, not an option": dict(options={"body_mass:lower": 3}),
            ": variables[1]: varies what variables[0] ('control:a') varies already": dict(variables=[{"control": "a"}, {"control": True}]),
            ": optimizer.method: gauss-newton needs a loss that is a sum of squares": dict(optimizer={"method": "gauss-newton"}, loss=[{"qpos": True, "type": "linear"}]),
            ": confirm: expected true, false or a whole number": dict(confirm="yes"),
            ": memory: expected bytes, or a text such as": dict(memory="200 mb"),
            ": constants: expected \"keep\" or \"recompute\"": dict(constants="both"),
            ": loss[0].type: expected squared, norm, huber, linear, above or below, found 'l1'": dict(loss=[{"qpos": True, "type": "l1"}]),
            ": seed: expected a whole number": dict(seed=1.5)}.items():
        task = write_task(tmp_path, **changes)
        task.write_text(json.dumps(json.loads(task.read_text()), indent=0))
        assert words in refuse(run, tmp_path, 3, "optimize", task), words


def test_damaged_archives(run, tmp_path, arm):
    np.savez(tmp_path / "x.npz", qpos=np.zeros(2), qvel=np.zeros(2))
    whole = (tmp_path / "x.npz").read_bytes()
    np.save(tmp_path / "o.npy", np.array([{}, 1], dtype=object), allow_pickle=True)
    objects = (tmp_path / "o.npy").read_bytes()
    forged = b"\x93NUMPY\x01\x00" + (118).to_bytes(2, "little") + b"{'descr': '<f8', 'fortran_order': False, 'shape': (9000000000000,), }".ljust(118)
    for data in (b"", b"PK\3\4", whole[:200], whole[:-1], whole[:60] + b"\xff" + whole[61:-30] + b"\0" * 30, objects, forged, b"\x80\x04K\x01."):
        (tmp_path / "b.npz").write_bytes(data)
        refuse(run, tmp_path, 3, "simulate", arm, "--init", tmp_path / "b.npz")
    refuse(run, tmp_path, 3, "simulate", arm, "--init", "/dev/zero")


def test_a_step_that_fails_is_named(run, tmp_path, arm):
    np.savez(tmp_path / "x.npz", qvel=np.full(2, 1e9))
    assert re.search(r"step \d+", refuse(run, tmp_path, 4, "simulate", arm, "--steps", 100, "--init", tmp_path / "x.npz"))


def test_a_derivative_that_does_not_exist_is_named(run, tmp_path, arm):
    """What, where and why: a NaN is not taken for growth, and growth not for a NaN."""
    np.savez(tmp_path / "c.npz", qpos=np.ones(2))
    wild = ("--steps", 3, "--param", "actuator_armature=1e308,1e308")
    stiff = ("--param", "jnt_stiffness=1e308,1e308", "--param", "timestep=1", "--param", "gravity=0,0,0")
    text = refuse(run, tmp_path, 4, "jacobian", arm, "--steps", 3, *stiff)
    assert re.search(r"step 0 of 3: A\[0, 0\], the derivative of qpos\[0\] \(joint 'shoulder'\) by qpos\[0\] .* is infinite: .*extreme size", text), text
    text = refuse(run, tmp_path, 4, "gradient", arm, *wild, "--cotangent", tmp_path / "c.npz")
    assert re.search(r"step 2 of 3 .*: the gradient by qpos\[0\] \(joint 'shoulder'\) is NaN: this step has no finite derivative", text) and "grows" not in text, text
    text = refuse(run, tmp_path, 4, "gradient", arm, "--param", "wind=1e200,1e200,1e200", "--cotangent", tmp_path / "c.npz")
    assert "the gradient by parameter density is NaN" in text
    done = run("check", arm, "--horizon", 3, "--json", *wild[2:], code=1)
    found = {f["what"]: f for f in json.loads(done.stdout)["findings"]}
    assert re.search(r"step \d of 3", found["no derivative"]["why"]) and "not finite" in found["dot product, step by state"]["why"]
    top = tmp_path / "top.xml"
    top.write_text("<mujoco><worldbody><body><joint name='top' axis='0 1 0'/><geom size='.001' pos='0 0 .01'/></body></worldbody></mujoco>")
    np.savez(tmp_path / "one.npz", qpos=np.ones(1))
    text = refuse(run, tmp_path, 4, "gradient", top, "--steps", 8000, "--cotangent", tmp_path / "one.npz")
    assert re.search(r"step \d+ of 8000 .*grows beyond bounds.*chaotic", text) and "NaN" not in text
    np.savez(tmp_path / "x.npz", qvel=np.full(2, 1e9))
    for command in ("jacobian", "simulate"):
        assert re.search(r"step \d+ of 9: .*joint '.*'. bec.me.*grows beyond bounds", refuse(run, tmp_path, 4, command, arm, "--steps", 9, "--init", tmp_path / "x.npz"))
    assert "grows beyond bounds" in run("check", arm, "--horizon", 9, "--init", tmp_path / "x.npz", code=4).stderr
    task = write_task(tmp_path, parameters={"wind": [1e200, 1e200, 1e200]}, steps=3, variables=[{"parameter": "density"}], optimizer={"method": "lbfgs"}, loss=[{"qpos": True}])
    assert "no point could be evaluated" in refuse(run, tmp_path, 4, "optimize", task)


def test_interrupt(pullback, tmp_path):
    out = tmp_path / "o.npz"
    p = subprocess.Popen([pullback, "simulate", str(RICH), "--steps", "400000", "-o", str(out)], stderr=subprocess.PIPE)
    time.sleep(0.5)
    p.send_signal(signal.SIGINT)
    assert p.wait(timeout=20) == 130 and not out.exists() and [f.name for f in tmp_path.iterdir()] in ([], ["o.simulate.state"])


def test_output_replaces_and_keeps(run, tmp_path, arm):
    out = tmp_path / "o.npz"
    out.write_text("old")
    run("simulate", arm, "-o", out, "--init", tmp_path / "no.npz", code=5)
    assert out.read_text() == "old"
    run("simulate", arm, "-o", out)
    assert np.load(out)["qpos"].shape == (2, 2) and os.stat(out).st_mode & 0o444 and len(list(tmp_path.glob("o.npz*"))) == 1


def test_numbers_in_any_locale(run, tmp_path, arm):
    run("simulate", arm, "--steps", 3, "--param", "gravity=0,0,-1.5", "-o", tmp_path / "a.npz", env=dict(os.environ, LC_ALL="de_DE.UTF-8"))
    run("simulate", arm, "--steps", 3, "--param", "gravity=0,0,-1.5", "-o", tmp_path / "b.npz", env=dict(os.environ, LC_ALL="C"))
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_energy_made_by_impacts(run, tmp_path):
    """A double pendulum, nearly straight, strikes with its tip: Newton's restitution with friction makes energy, and the program says how much."""
    link = '<joint axis="0 1 0"/><inertial pos="0 0 -.5" mass="1" diaginertia=".083 .083 .001"/>'
    (tmp_path / "m.xml").write_text(
        f'<mujoco><option timestep="1e-5" gravity="0 0 0"/><worldbody><geom name="floor" type="plane" size="9 9 1" pos="0 0 {-2 * float(np.cos(0.1)) - 0.0100001!r}" friction=".7"/>'
        f'<body>{link}<body pos="0 0 -1">{link}<geom name="tip" size=".01" pos="0 0 -1" mass="0" friction=".7"/></body></body></worldbody></mujoco>')
    np.savez(tmp_path / "x.npz", qpos=[0.1, 0], qvel=[1.0, -4])
    for method, e, made in (("impact", "0.5", True), ("impact", "0", False), ("cones", "0.5", True), ("cones", "0", False), ("lcp", "0.5", True)):
        done = run("simulate", tmp_path / "m.xml", "--init", tmp_path / "x.npz", "--steps", 30, "--contact", f"method={method}", "--contact", f"restitution={e}", "-o", tmp_path / "o.npz")
        told = meta(np.load(tmp_path / "o.npz")).get("energy_made")
        assert ("made" in done.stderr) == made and bool(told) == made
        if made:
            assert told["impacts"] == 1 and told["geoms"] == [0, 1] and told["joules"] > 100
            assert f"the impact of geom 0 'floor' and geom 1 'tip' made {told['joules']:.3g} J of kinetic energy" in done.stderr
    np.savez(tmp_path / "c.npz", qpos=np.ones((31, 2)))
    for method, law, made in (("impact", "newton", True), ("impact", "capped", False), ("cones", "newton", True)):
        done = run("gradient", tmp_path / "m.xml", "--init", tmp_path / "x.npz", "--steps", 30, "--contact", f"method={method}", "--contact", "restitution=.5",
                   "--contact", f"restitution_law={law}", "--cotangent", tmp_path / "c.npz", "-o", tmp_path / "g.npz")
        told = meta(np.load(tmp_path / "g.npz"))["certificate"].get("energy_made")
        assert ("J of kinetic energy" in done.stderr) == made and bool(told) == made
        if made:
            assert told["impacts"] == 1 and told["geoms"] == [0, 1] and told["joules"] > 100
    np.savez(tmp_path / "touches.npz", qpos=[0.0999, 0], qvel=[1.0, -4])  # strikes in the first step
    np.savez(tmp_path / "c.npz", qpos=np.ones((3, 2)))
    run("gradient", tmp_path / "m.xml", "--init", tmp_path / "touches.npz", "--steps", 2, "--param", "timestep=.01", "--contact", "method=cones",
        "--contact", "restitution=.5", "--cotangent", tmp_path / "c.npz", "-o", tmp_path / "g.npz")
    assert meta(np.load(tmp_path / "g.npz"))["certificate"]["energy_made"]["step"] == 0
    done = run("simulate", tmp_path / "m.xml", "--steps", 1, "--contact", "method=cones", "--contact", "restitution_law=capped", "-o", tmp_path / "o.npz", code=3)
    assert "contact method cones does not go with restitution_law capped" in done.stderr


@pytest.mark.parametrize("size", [1e-3, 1e-2, 1, 1e2, 1e3])
def test_check_follows_the_size_of_bodies(tmp_path, run, size):
    """Torques and lengths that are small for one body are huge for another. Slopes that can be measured are, in all but the largest.

    Of a functional that hardly sees a field, as another seed may draw it, the slope is not measured."""
    path = tmp_path / "m.xml"
    path.write_text(f"""<mujoco><worldbody><body pos="0 0 {2 * size}"><freejoint/><geom type="box" size="{.5 * size} {.6 * size} {.7 * size}"/></body></worldbody></mujoco>""")
    slopes = next(c for c in json.loads(run("check", path, "--json", "--seed", 1).stdout)["checks"] if c["name"] == "differences, states by parameters")
    assert slopes["left_out"] == 0 or (size == 1e3 and "settle" not in slopes["words"])


@pytest.mark.parametrize("large", [.05, .2, 1])
@pytest.mark.parametrize("shape", ["box", "sphere"])
def test_check_takes_bodies_of_very_different_sizes(tmp_path, run, large, shape):
    """Of the small one rounding of the large one's forces hides what friction would do; that is left out, and the rest holds."""
    body = '<body pos="{0} 0 {1}"><freejoint/><geom type="{2}" size="{3} {3} {3}"/></body>'
    (tmp_path / "m.xml").write_text(f"""<mujoco><worldbody><geom type="plane" size="1 1 1"/>
    {body.format(0, 1.05 * large, shape, large)}{body.format(3 * large, .00105, shape, .001)}</worldbody></mujoco>""")
    for seed in range(3):
        slopes = next(c for c in json.loads(run("check", tmp_path / "m.xml", "--json", "--seed", seed).stdout)["checks"] if c["name"] == "differences, states by parameters")
        assert slopes["holds"] and slopes["cases"] > 40


LYING = """<mujoco><worldbody><geom name="floor" type="plane" size="1 1 1"/><body pos="0 0 {}"><freejoint/><geom name="low" type="box" size="{}"/></body>
<body pos="{}" euler="{}"><freejoint/><geom name="high" type="box" size="{}"/></body></worldbody></mujoco>"""


@pytest.mark.parametrize("below, low, place, tilt, high, words", [
    (.0999, ".1 .1 .1", "0 0 .2998", "0 0 0", ".1 .1 .1", "geom 'low' and geom 'high': two faces tie"),
    (.0999, ".2 .05 .1", "0 0 .2998", "0 0 0", ".05 .2 .1", "two faces tie"),
    (.0999, ".2 .2 .1", ".15 0 .2998", "0 0 0", ".1 .1 .1", "two faces tie"),
    (.0999, ".1 .1 .1", ".01 -.007 .2998", "0 0 11", ".1 .1 .1", "two faces tie"),
    (.0999, ".1 .1 .1", "0 0 .2998", "0 0 45", ".13 .13 .1", "two faces tie"),
    (.0999, ".1 .1 .1", "0 0 .2998", "0 0 45", ".15 .15 .1", None),
    (.0999, ".2 .2 .1", "0 0 .2998", "0 0 0", ".1 .1 .1", None),
    (.0999, ".1 .1 .1", "0 0 .2998", "0 0 0", ".2 .2 .1", None),
    (.0999, ".1 .1 .1", "0 0 .2998", "1 2 0", ".1 .1 .1", None),
    (.0999, ".1 .1 .1", "0 0 .31", "0 0 0", ".1 .1 .1", None),
    (.1, ".1 .1 .1", "0 0 .31", "0 0 0", ".1 .1 .1", "geom 'floor' and geom 'low': they touch to"),
    (.1, ".1 .1 .1", "0 0 .2999", "0 0 0", ".1 .1 .1", "; contact of geom 'low' and geom 'high': two faces tie"),
    (np.nextafter(.1, 1), ".1 .1 .1", "0 0 .31", "0 0 0", ".1 .1 .1", "they touch to"),
    (.1 - 1e-9, ".1 .1 .1", "0 0 .31", "0 0 0", ".1 .1 .1", None)],
    ids=["equal", "crossed", "beyond the edge", "turned", "corners beyond the edge", "corners within the edge", "on a wider one", "below a wider one", "tilted", "apart", "touch", "touch and equal", "touch to rounding", "a little in"])
def test_what_has_no_derivative_of_every_direction_is_named(tmp_path, run, below, low, place, tilt, high, words):
    """By check, and by the certificate of a gradient that could not be compared there (where the faces differ both sides may agree)."""
    (tmp_path / "m.xml").write_text(LYING.format(below, low, place, tilt, high))
    found = [f for f in json.loads(run("check", tmp_path / "m.xml", "--json").stdout)["findings"] if f["what"] == "no derivative of every direction"]
    assert bool(found) == bool(words) and all(words in f["why"] and f["where"] == "step 0" for f in found), found
    np.savez(tmp_path / "c.npz", qpos=np.ones(12), qvel=np.ones(12))
    run("gradient", tmp_path / "m.xml", "--steps", 1, "--cotangent", tmp_path / "c.npz", "-o", tmp_path / "g.npz")
    c = meta(np.load(tmp_path / "g.npz"))["certificate"]
    left_out = bool(words) and c["spot_left_out"] > 0  # along some directions both sides of crossed faces agree, too
    assert left_out or words in (None, "two faces tie")
    assert (c["spot_tie_step"] == 0) == left_out and bool(c["spot_tie"]) == left_out, c
    assert not left_out or words in c["spot_tie"]


@pytest.mark.parametrize("turn", [0, 20])
@pytest.mark.parametrize("method", ["soft", "cones"])
def test_check_of_an_upright_cylinder(tmp_path, run, method, turn):
    """Any point of its rim may be the lowest: no gradient is called wrong, and it is said why."""
    (tmp_path / "m.xml").write_text(f'<mujoco><option timestep=".002"/><worldbody><geom name="floor" type="plane" size="4 4 1"/><body pos="0 0 .0999" euler="0 0 {turn}">'
                                    '<freejoint/><geom name="can" type="cylinder" size=".05 .1" mass="1"/></body></worldbody></mujoco>')
    for seed in range(3):
        said = json.loads(run("check", tmp_path / "m.xml", "--json", "--seed", seed, "--contact", f"method={method}").stdout)
        assert said["holds"]
        assert any("geom 'can': two features tie" in f["why"] for f in said["findings"] if f["what"] == "no derivative of every direction")


@pytest.mark.parametrize("late, soon", [("r:a", "r:b"), ("", "")], ids=["colons", "numbers"])
def test_pairs_that_tie_later_are_named_too(tmp_path, run, late, soon):
    """One ball leaves the floor as another comes: whose names begin alike are two."""
    ball = '<body pos="{} 0 {}"><joint type="slide" axis="0 0 1"/><geom name="{}" size=".25"/></body>'
    others = "".join(ball.format(3 * k, 5, f"ball {k}") for k in range(1, 9))
    (tmp_path / "m.xml").write_text(f"""<mujoco><option timestep=".5" gravity="0 0 0"/><worldbody><geom type="plane" size="40 4 1"/>{ball.format(0, .75, late)}{others}{ball.format(30, .25, soon)}</worldbody>
<keyframe><key qvel="-1 0 0 0 0 0 0 0 0 1"/></keyframe></mujoco>""".replace('name=""', ""))
    found = [f for f in json.loads(run("check", tmp_path / "m.xml", "--keyframe", 0, "--horizon", 3, "--json").stdout)["findings"] if f["what"] == "no derivative of every direction"]
    assert [f["where"] for f in found] == ["step 0", "step 1"], found


def test_check_moves_no_further_than_the_motion_allows(tmp_path, run):
    """Where the file names an inertia that is none of the body's, tangents tell how far to move."""
    path = tmp_path / "m.xml"
    path.write_text("""<mujoco><statistic meaninertia=".01"/><worldbody><body pos="0 0 1"><freejoint/><geom type="box" size=".0005 .0006 .0007"/></body></worldbody></mujoco>""")
    run("check", path)


def test_many_members_are_read_in_linear_time(run, tmp_path, arm):
    """Ten times as many members take ten times as long (with a margin); pair by pair it would be a hundred times."""
    def seconds(count):
        path = tmp_path / f"{count}.npz"
        np.savez(path, **{f"a{k}": np.zeros(1) for k in range(count)})
        best = float("inf")
        for _ in range(2):
            before = os.times()
            assert "unknown array" in run("simulate", arm, "--worlds", path, "-o", tmp_path / "o.npz", code=3).stderr
            after = os.times()
            best = min(best, after.children_user + after.children_system - before.children_user - before.children_system)
        return best

    few, many = seconds(4000), seconds(40000)
    assert many < 20 * max(few, 0.02), (few, many)


def test_what_is_too_large_is_not_expanded(run, tmp_path, arm):
    """Two arrays that would be more than is held: refused by what the directory says, with the one that goes beyond."""
    np.savez_compressed(tmp_path / "bomb.npz", qpos=np.zeros(2), qvel=np.zeros(2))
    data = bytearray((tmp_path / "bomb.npz").read_bytes())
    for found in re.finditer(rb"PK\x01\x02", bytes(data)):
        data[found.start() + 24:found.start() + 28] = (520 << 20).to_bytes(4, "little")
    (tmp_path / "bomb.npz").write_bytes(data)
    before = os.times()
    said = run("simulate", arm, "--init", tmp_path / "bomb.npz", "-o", tmp_path / "o.npz", code=5).stderr
    after = os.times()
    assert "bomb.npz: qvel.npy: with this array the file is more than 960 MiB when it is expanded" in said
    assert after.children_user + after.children_system - before.children_user - before.children_system < 0.5


def test_text_where_numbers_belong(run, tmp_path, arm):
    np.savez(tmp_path / "t.npz", qpos=np.array(["a", "b"]))
    say = lambda *words: run(*words, "-o", tmp_path / ("o.html" if words[0] == "view" else "o.npz"), code=3).stderr
    for words in (("simulate", arm, "--init"), ("gradient", arm, "--cotangent"), ("simulate", arm, "--worlds"), ("view", arm)):
        assert "'qpos' is text; expected" in say(*words, tmp_path / "t.npz")
    np.savez(tmp_path / "w.npz", qpos=np.zeros((3, 2)))
    assert "'qpos' is text; expected" in say("gradient", arm, "--worlds", tmp_path / "w.npz", "--cotangent", tmp_path / "t.npz")
    np.savez(tmp_path / "c.npz", control=np.array(["a", "b"]))
    assert "expected numbers, found text" in say("simulate", arm, "--control", tmp_path / "c.npz")


def listed(pullback):
    """{command: {option: takes a value}} as the program's own help has them."""
    text = lambda *words: subprocess.run([pullback, *words, "--help"], capture_output=True, text=True, check=True).stdout
    names = re.findall(r"^  (\w+) ", text().split("Commands:")[1].split("Options:")[0], re.M)
    option = re.compile(r"^  (?:-\w, )?--([\w-]+)( \S+)?", re.M)
    return {c: {o: bool(value) for o, value in option.findall(text(c))} for c in names}


# What a command needs beside the option that is tried.
NEEDED = {"simulate": ["-o", "o.npz"], "gradient": ["-o", "o.npz", "--cotangent", "last.npz"], "jacobian": ["-o", "o.npz"],
          "inspect": ["-o", "o.npz"], "view": ["-o", "o.html"], "export": ["-o", "o.xml"]}
INTEGERS = {"steps": 1, "init-row": None, "every": 1, "seed": 0, "horizon": 1, "starts": 1, "threads": 1, "trajectory": 0}


def test_options_of_all_commands(pullback, tmp_path, arm):
    """Every option of the program with every command: of another command, without a value, twice, of nonsense, out of range."""
    table = listed(pullback)
    task = write_task(tmp_path)
    np.savez(tmp_path / "last.npz", qpos=np.ones(2))
    np.savez(tmp_path / "w.npz", qpos=np.ones((3, 2)))
    for name in ("simulate", "jacobian"):
        NEEDED[name] += ["--init", "w.npz"] if "--init" not in NEEDED[name] else []
    everything = {o: value for options in table.values() for o, value in options.items()}
    tried, learns = 0, ("train", "evaluate")

    def refused(command, *words, code=(2,), says):
        nonlocal tried
        tried += 1
        operand = {"energies": [], "optimize": [task], "audit": [task], "train": [task], "evaluate": [task], "control": [task]}.get(command, [arm])
        line = [command, *map(str, operand), *NEEDED.get(command, []), *words]
        p = subprocess.run([pullback, *line], cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert p.returncode in code and says in p.stderr and (not says or p.stderr.count(says) <= 2), (line, p.returncode, p.stderr)

    for command, options in table.items():
        given = [w[2:] for w in NEEDED.get(command, []) if w.startswith("--")]
        for option, value in everything.items():
            word = "--" + option
            if option in ("help", "version") or option in given:
                continue
            if option not in options:
                refused(command, word, *(["1"] if value else []), says=word)
                continue
            if not value:
                refused(command, word + "=1", says=word)
                if option not in ("allow-root", "expose"):
                    refused(command, word, word, says=f"'{word}' is given twice")
                continue
            refused(command, word, says=word)
            if option in INTEGERS:
                for bad in ("99999999999999999999", "-99999999999999999999", "1.5", "1e3", "0x10", "nan", "", " ", "2 "):
                    more = ["--worlds", "w.npz"] if option == "threads" and "worlds" in options else []
                    if command in learns and option != "threads" or option == "trajectory":
                        continue  # needs a task of its kind
                    refused(command, word + "=" + bad, *more, code=(2, 3) if command in learns else (2,), says="policy" if command in learns else word)
            elif option not in ("output", "allow-root", "package-path", "vtu", "glb", "page"):
                says = {"train": "", "evaluate": "", "loss": word}.get(command if command in learns else option, "no/such")
                refused(command, word, "\x01no/such", code=(2, 3, 5), says=says)
    assert tried > 300
    assert not list(tmp_path.glob("o.*"))


def documented(root):
    """{exit status: commands, None for all} of the manual page's table."""
    text = (root / "man" / "pullback.1").read_text().split(".SH EXIT STATUS")[1].split(".SH")[0]
    found = {}
    for number, words in re.findall(r"\.TP\n\.B (\d+)\n(.*?)(?=\.TP|\Z)", text, re.S):
        names = re.search(r"([\w, \n]+)\)\s*$", words)[1]
        found[int(number)] = None if "all commands" in names else set(re.findall(r"\w+", names))
    return found


def test_every_exit_status_of_the_manual(run, root, pullback, tmp_path, arm):
    """Each status is provoked for each command that the manual's table says has it, and no command that is tried has another."""
    table = documented(root)
    assert sorted(table) == [0, 1, 2, 3, 4, 5, 130]
    commands = sorted(listed(pullback))
    np.savez(tmp_path / "last.npz", qpos=np.ones(2))
    np.savez(tmp_path / "fast.npz", qvel=np.full(2, 1e9))
    good = write_task(tmp_path, variables=[{"state": "qvel"}], loss=[{"qpos": True}], steps=5, optimizer={"method": "lbfgs", "iterations": 2},
                      audit={"torque": 1, "tolerance": 9, "ledger": 99})
    dies = tmp_path / "dies.json"
    task = json.loads(good.read_text())
    dies.write_text(json.dumps({**task, "init": {"qvel": [1e9, 1e9]}}))
    far = tmp_path / "far.json"
    far.write_text(json.dumps({**task, "stop": {"loss": -1}}))
    learn = {"model": "arm.xml", "policy": {"observe": [{"qpos": True}, {"qvel": True}], "layers": [{"dense": 2}]}, "loss": [{"qpos": True, "at": "all"}],
             "episode": {"seconds": 0.2, "spread": {"qvel": 0.1}}, "train": {"method": "shac", "updates": 1, "worlds": 2, "window": 4}}
    for name, more in {"learn": {}, "wild": {"init": {"qvel": [1e9, 1e9]}}}.items():
        (tmp_path / f"{name}.json").write_text(json.dumps({**learn, **more}))
    long = tmp_path / "long.json"
    long.write_text(json.dumps({**task, "steps": 3000, "optimizer": {"method": "cmaes", "iterations": 10 ** 6}}))
    (tmp_path / "longer.json").write_text(json.dumps({**learn, "episode": {"seconds": 1e4}}))
    (tmp_path / "endless.json").write_text(json.dumps({**learn, "train": {**learn["train"], "updates": 10 ** 6}}))
    steer = {"model": "arm.xml", "steps": 5, "variables": [{"control": True}], "loss": [{"qpos": True, "at": "all"}, {"control": True, "at": "all"}]}
    for name, more in {"steer": {}, "lost": {"init": {"qvel": [1e9, 1e9]}}, "on": {"control": {"duration": 5e3}}}.items():
        (tmp_path / f"{name}.json").write_text(json.dumps({**steer, **more}))
    (tmp_path / "bad.xml").write_text("<mujoco><nonsense/></mujoco>")
    os.mkfifo(tmp_path / "pipe")

    kinds = {c: "task" if c in ("optimize", "audit") else c if c in ("train", "evaluate", "energies", "control") else "model" for c in commands}
    needed = {"simulate": "-o o.npz", "gradient": "-o o.npz --cotangent last.npz", "jacobian": "-o o.npz", "inspect": "-o o.npz", "view": "-o o.html",
              "export": "-o o.xml", "optimize": "-o o.json --fresh", "audit": "-o o.json", "train": "-o o.npz --fresh", "evaluate": "-o o.json",
              "control": "-o o.npz"}
    operand = {"task": "task.json", "train": "learn.json", "evaluate": "learn.json", "control": "steer.json", "energies": "spring", "model": "arm.xml"}
    line = lambda c, what=None, more="": f"{c} {what or operand[kinds[c]]} {needed.get(c, '')} {more}"
    tries = {0: {c: line(c) for c in commands if c != "audit"}, 2: {c: line(c, more="--nonsense") for c in commands},
             3: {c: line(c, "bad.xml" if kinds[c] != "energies" else "nosuch") for c in commands}, 5: {c: line(c) for c in commands}}
    tries[0]["audit"] = line("audit")
    weak = tmp_path / "weak.json"
    weak.write_text(json.dumps({**task, "controls": [1] * mj.MjModel.from_xml_path(str(arm)).nu, "audit": {"torque": 1e-6}}))
    np.savez(tmp_path / "rich.npz", qpos=np.ones(mj.MjModel.from_xml_path(str(RICH)).nv))
    tries[1] = {"optimize": line("optimize", "far.json"), "audit": line("audit", "weak.json"), "check": f"check {RICH} --option iterations=1 --horizon 5",
                "gradient": f"gradient {RICH} --steps 5 --cotangent rich.npz --strict -o o.npz --option iterations=1"}
    tries[4] = {c: line(c, more="--init fast.npz") for c in ("simulate", "gradient", "jacobian", "check")}
    tries[4].update(optimize=line("optimize", "dies.json"), audit=line("audit", "dies.json"), train=line("train", "wild.json"))
    tries[4]["control"] = line("control", "lost.json")
    tries[130] = {c: line(c, more="--steps 2000000") for c in ("simulate", "gradient")}
    tries[130].update(jacobian=line("jacobian", more="--steps 200000"), check=line("check", more="--horizon 10000"), optimize=line("optimize", "long.json"),
                      train=line("train", "endless.json"), control=line("control", "on.json"), audit=line("audit", "long.json", "--starts 100000"),
                      evaluate=line("evaluate", "longer.json", "--starts 1000"))
    tries[1]["export"] = line("export", more="--strict --contact method=cones")
    for c in ("view", "inspect", "export"):  # short: at a pipe that nobody reads
        tries[130][c] = line(c).replace("o.html", "pipe").replace("o.npz", "pipe").replace("o.xml", "pipe")

    seen = {}
    for status, by_command in tries.items():
        for c, words in by_command.items():
            out, full = subprocess.PIPE, open("/dev/full", "w") if status == 5 and not needed.get(c) else None
            if status == 5 and needed.get(c):
                words = words.replace("-o o.", "-o nowhere/o.")
            p = subprocess.Popen([pullback, *words.split()], cwd=tmp_path, stdout=full or out, stderr=subprocess.PIPE, text=True)
            if status == 130:
                time.sleep(0.5)
                p.send_signal(signal.SIGTERM)
            said = p.communicate(timeout=60)[1]
            seen.setdefault(p.returncode, set()).add(c)
            assert p.returncode == status, (status, words, p.returncode, said)
    for status, names in table.items():
        assert seen[status] == (set(commands) if names is None else names), (status, seen[status])


def test_a_search_that_stalls_is_no_success(run, tmp_path):
    """A ball that flies on or not: the loss jumps beside the answer, exit status 1; the summary is short and names the files."""
    (tmp_path / "m.xml").write_text("""<mujoco><option timestep=".01"><flag gravity="disable"/></option><worldbody><geom type="box" size=".1 1 1" pos="1 0 0"/>
<body><joint name="x" type="slide" axis="1 0 0"/><joint name="y" type="slide" axis="0 1 0"/><geom size=".1"/></body></worldbody></mujoco>""")
    task = {"model": "m.xml", "steps": 150, "init": {"qvel": [2, 0]}, "variables": [{"state": "qpos", "joint": "y", "start": 1.05}],
            "loss": [{"qpos": "x", "target": 3}, {"qpos": "y", "weight": 0.3}], "optimizer": {"method": "gauss-newton", "iterations": 40}}
    (tmp_path / "t.json").write_text(json.dumps(task))
    done = run("optimize", "t.json", cwd=tmp_path, code=1)
    assert "stalled at a jump" in done.stdout and len(done.stdout.splitlines()) <= 12 and "t.result.json, t.trajectory.npz" in done.stdout
    result = json.loads((tmp_path / "t.result.json").read_text())
    assert result["outcome"] == "stalled at a jump"
    printed = run("optimize", "t.json", "--json", cwd=tmp_path, code=1)
    assert {k: v for k, v in json.loads(printed.stdout).items() if k != "seconds"} == {k: v for k, v in result.items() if k != "seconds"}
