"""What the program does, as functions: the same numbers to the bit, interrupts, progress, errors."""
import json
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import pullback as pb
from conftest import BUILD, PROGRAMS, ROOT

PROGRAM = os.path.join(PROGRAMS, "pullback")
QUADRUPED = os.path.join(ROOT, "examples", "quadruped", "quadruped.xml")
LAUNCH = os.path.join(ROOT, "examples", "ball", "launch.json")


def program(*words, code=0, cwd=None):
    done = subprocess.run([PROGRAM, *words], capture_output=True, text=True, cwd=cwd)
    assert done.returncode == code, done.stderr
    return done.stdout


@pytest.fixture
def model():
    return pb.load(QUADRUPED)


def test_evaluations_are_the_programs(tmp_path):
    """Of a policy as it begins, which falls at once or not; the example's own task."""
    task = json.loads(pathlib.Path(ROOT, "examples", "joystick", "joystick.json").read_text(encoding="utf-8"))
    model = pathlib.Path(ROOT, "examples", "joystick", "quadruped.xml").read_text(encoding="utf-8")
    task["model"], task["episode"]["seconds"] = model[model.index("<mujoco"):], 0.4
    path = tmp_path / "task.json"
    path.write_text(json.dumps(task))
    found = pb.evaluate(task, starts=6, seed=5)
    assert found == json.loads(program("evaluate", path, "--starts", "6", "--seed", "5", "--json")) and found["starts"] == 6
    assert found["terms"][1]["name"] == "speed" and found["terms"][1]["rms"] > 0.1 and found["terms"][0]["rms"] is None
    assert pb.evaluate(path, starts=6, seed=5, threads=1) == found
    with pytest.raises(pb.InputError, match="train"):
        pb.evaluate({k: v for k, v in task.items() if k != "train"})


def test_reports_are_the_programs(model):
    found = pb.check(model, seed=3, horizon=6)
    assert found.ok and found == json.loads(program("check", QUADRUPED, "--json", "--seed", "3", "--horizon", "6"))
    assert "all hold over 6 steps" in repr(found)
    assert pb.info(model) == json.loads(program("info", QUADRUPED, "--json"))
    assert list(pb.energies().values()) == json.loads(program("energies", "--json"))
    assert pb.energies("spring")["points"] == 2
    assert all(type(p["lower"]) in (float, type(None)) and type(p["offset"]) is int for p in pb.info(model)["params"])


def test_parameters_of_the_model_act(model):
    heavy = model.with_params({"body_mass:trunk": 7.5}) if "trunk" in model.names("body") else model.with_params({"timestep": 2e-3})
    changed = {p["name"]: p for p in pb.info(heavy)["params"]}, {p["name"]: p for p in pb.info(model)["params"]}
    assert changed[0] != changed[1] or pb.inspect(heavy)["qM"].sum() != pb.inspect(model)["qM"].sum()


def test_every_quantity(model, tmp_path):
    program("inspect", QUADRUPED, "-o", str(tmp_path / "x.npz"))
    found, expected = pb.inspect(model), np.load(tmp_path / "x.npz")
    for name in set(expected) - {"meta"}:
        assert np.array_equal(found[name], expected[name]), name


def test_a_check_that_fails(tmp_path):
    """A gradient that check itself calls wrong: the program's exit code 1 is no exception."""
    text = """<mujoco><option timestep=".01"/><worldbody><geom type="plane" size="9 9 1"/><body pos="0 0 .0999"><freejoint/>
<geom type="sphere" size=".1"/></body></worldbody></mujoco>"""
    found = pb.check(pb.loads(text), horizon=3)
    assert isinstance(found.ok, bool) and bool(found) == found.ok == all(c["holds"] for c in found["checks"])


def test_tasks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    program("optimize", LAUNCH, "-o", str(tmp_path / "a.json"), "-q")
    found = pb.optimize(LAUNCH)
    expected = json.loads((tmp_path / "a.json").read_text())
    del expected["trajectory_files"], expected["seconds"], found["seconds"]
    assert found == expected
    arrays = np.load(tmp_path / "a.trajectory.npz")
    assert all(np.array_equal(found.trajectory[n], arrays[n]) for n in arrays if n != "meta")
    assert found.ok

    # the same as a dict, written where the call says
    with open(LAUNCH, encoding="utf-8") as f:
        task = json.load(f)
    task["model"] = os.path.join(os.path.dirname(LAUNCH), task["model"])
    again = pb.optimize(task, output=tmp_path / "b.json", allow_root=os.path.dirname(LAUNCH))
    assert again["loss"] == found["loss"] and json.loads(str(np.load(tmp_path / "b.trajectory.npz")["meta"]))["model"] == "description"
    assert sorted(os.listdir(".")) == ["a.json", "a.trajectory.npz", "b.json", "b.trajectory.npz"]
    verdict = pb.audit(LAUNCH, starts=8)
    assert verdict == json.loads(program("audit", LAUNCH, "--json", "--starts", "8", code=0 if verdict.ok else 1))


def test_a_kill_leaves_nothing(tmp_path):
    """What a dict describes is not written to a folder."""
    text = f"""import json, os, signal, pullback as pb
task = json.load(open({LAUNCH!r}))
task["model"] = {os.path.join(os.path.dirname(LAUNCH), "ball.xml")!r}
pb.optimize(task, allow_root={os.path.dirname(LAUNCH)!r}, progress=lambda *_: os.kill(os.getpid(), signal.SIGKILL))"""
    done = subprocess.run([sys.executable, "-c", text], cwd=tmp_path, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": os.path.join(BUILD, "python")})
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert not os.listdir(tmp_path)


def test_stages():
    """Each from the answer of the one before: what progress tells, what the result has, where a mistake is."""
    cart = """<mujoco><option timestep=".05"/><worldbody><body><joint name="x" type="slide" axis="1 0 0"/><geom size=".1" mass="1"/></body>
    </worldbody><actuator><motor joint="x"/></actuator></mujoco>"""
    task = {"model": cart, "steps": 20, "variables": [{"control": True, "lower": -3, "upper": 3}], "optimizer": {"method": "ilqr"},
            "loss": [{"qpos": "x", "target": 1}, {"qvel": "x"}, {"control": True, "at": "all", "weight": .01}]}
    seen, stages = [], [{"name": "short", "steps": 10}, {"optimizer": {"method": "lbfgs", "iterations": 3}}, {}]
    r = pb.optimize(task | {"stages": stages}, progress=lambda what, *_: seen.append(what))
    assert [s for k, s in enumerate(seen) if s.startswith("stage") and s not in seen[:k]] == [f"stage {k} of 3" for k in (1, 2, 3)]
    assert [(s["name"], s["steps"]) for s in r["stages"]] == [("short", 10), ("stage 2", 20), ("stage 3", 20)]
    assert r["iterations"] == sum(s["iterations"] for s in r["stages"]) and abs(r["loss"] - pb.optimize(task)["loss"]) < 1e-12 * r["loss"]
    with pytest.raises(pb.InputError, match=r"stages\[1\].steps: expected a number, found nan"):
        pb.optimize(task | {"stages": [{}, {"steps": float("nan")}, {}]})


def test_progress_and_what_it_raises(model):
    seen = []
    pb.optimize(LAUNCH, progress=lambda what, done, every, note: seen.append((what, done)))
    assert seen and seen[0][0] == "optimize"

    class Enough(Exception):
        pass

    def stop(*_):
        raise Enough
    with pytest.raises(Enough):
        pb.optimize(LAUNCH, progress=stop)
    assert pb.check(model, horizon=2).ok  # and the next command runs


@pytest.mark.parametrize("work", [lambda m: pb.optimize(LAUNCH), lambda m: pb.check(m, horizon=200)])
def test_interrupts_are_answered(work, model):
    def interrupt():
        time.sleep(.3)
        os.kill(os.getpid(), signal.SIGINT)
    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        for _ in range(1000):
            work(model)
    thread.join()


def test_an_interrupt_ends_a_check_within_a_step():
    """A step of deformables that meet takes a check minutes: what it moves is asked for, too."""
    pads, begun = pb.load(os.path.join(ROOT, "examples", "gripper", "lift.json")), []

    def interrupt(what, done, all, part):
        if part == "steps" and not begun:
            begun.append(time.monotonic())
            threading.Timer(.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        pb.check(pads, horizon=20, progress=interrupt)
    assert time.monotonic() - begun[0] < 20  # a loaded machine; measured 1 s, where steps alone are asked for more than a minute


def test_an_interrupted_search_goes_on(tmp_path):
    """Ctrl-C in the middle: what was kept is resumed by the same call, to the bits of a search that was left alone."""
    path = os.path.join(ROOT, "examples", "ball", "adam.json")
    whole, heard = pb.optimize(path), []

    def once(what, done, *_):
        heard.append(done)
        if len(heard) == 2:
            os.kill(os.getpid(), signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        for _ in range(1000):
            pb.optimize(path, output=tmp_path / "a.json", progress=once)
    assert (tmp_path / "a.state").exists() and not (tmp_path / "a.json").exists()
    again = pb.optimize(path, output=tmp_path / "a.json")
    assert again["resumed"] and again["loss"] == whole["loss"] and again["variables"] == whole["variables"]
    assert not (tmp_path / "a.state").exists() and json.loads((tmp_path / "a.json").read_text()) == again
    assert again["trajectory_files"] == [str(tmp_path / "a.trajectory.npz")]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_loss_that_forks(model):
    """The child has its own copy of all that the search holds: commands work there, and the parent goes on."""
    ends = []

    def loss(seen):
        if not ends:
            child = os.fork()
            if not child:
                os._exit(0 if pb.info(model)["sizes"]["nu"] == model.nu and pb.optimize(LAUNCH).ok else 1)
            ends.append(os.waitpid(child, 0)[1])
        return float(np.sum(seen.qvel[-1] ** 2)), {"qvel": 2 * seen.qvel[-1]}
    task = {"model": QUADRUPED, "steps": 5, "variables": [{"control": True, "knots": 2}], "loss": loss, "optimizer": {"method": "lbfgs", "iterations": 1}}
    assert pb.optimize(task)["iterations"] <= 1 and ends == [0]


def test_a_check_says_how_far_it_is(model):
    class Enough(Exception):
        pass

    def stop(what, done, all, part):
        assert what == "check" and 0 <= done <= all
        heard.append(part)
        if len(heard) == 3:
            raise Enough
    heard = []
    with pytest.raises(Enough):
        pb.check(model, horizon=2000, progress=stop)
    assert set(heard) <= {"forward", "steps", "slopes of a rollout", "Taylor remainders"} and len(heard) == 3
    assert pb.check(model, horizon=3).ok  # the next one is not ended by it


def test_errors_say_what_is_wrong(model):
    with pytest.raises(pb.InputError, match=r"expected \(N, 8\)"):
        pb.check(model, ctrl=np.zeros((5, 3)))
    with pytest.raises(pb.ArgumentError, match="horizon"):
        pb.check(model, horizon=0)
    with pytest.raises(pb.ArgumentError, match="horizon: 7, but the rows that are given say 4 steps"):
        pb.check(model, ctrl=np.zeros((4, 8)), horizon=7)
    with pytest.raises(pb.FileError, match="nowhere.json"):
        pb.optimize("nowhere.json")
    with pytest.raises(pb.ArgumentError, match="there are"):
        pb.energies("nothing")
    with pytest.raises(pb.ArgumentError, match="expected a Model"):
        pb.check(QUADRUPED)
    with pytest.raises(pb.ArgumentError, match=r"output: expected a name that ends in .json, found 'a.npz'"):
        pb.optimize(LAUNCH, output="a.npz")
    with pytest.raises(pb.ArgumentError, match="is what is read"):
        pb.optimize(LAUNCH, output=LAUNCH)
    with pytest.raises(pb.ArgumentError, match="ends in .html, found 'a.glb'"):
        pb.view(model, "a.glb")
    with pytest.raises(pb.ArgumentError, match="seed: expected a whole number from 0"):
        pb.optimize(LAUNCH, seed=-1)
    with pytest.raises(pb.ArgumentError, match="keyframe"):
        pb.check(model, keyframe="nowhere")
    with pytest.raises(pb.InputError, match="ctrl: 4 rows, but qfrc_applied says 5 steps|qfrc_applied: 5 rows, but ctrl says 4 steps"):
        pb.check(model, ctrl=np.zeros((4, 8)), qfrc_applied=np.zeros((5, model.nv)))
    with pytest.raises(pb.ArgumentError, match=".html, .npz or .glb"):
        model.rollout(model.init(), steps=2).save("x.mp4")


def test_an_output_that_cannot_be_is_refused_before_the_search(tmp_path):
    heard = []
    for name in ("nowhere/a.json", "b.json"):
        os.makedirs(tmp_path / "b.trajectory.npz", exist_ok=True)
        with pytest.raises(pb.FileError, match="nowhere/a.json: cannot be written|b.trajectory.npz: is a folder"):
            pb.optimize(LAUNCH, output=tmp_path / name, progress=lambda *_: heard.append(0))
        said = subprocess.run([PROGRAM, "optimize", LAUNCH, "-o", str(tmp_path / name)], capture_output=True, text=True)
        assert said.returncode == 5 and "best so far" not in said.stderr, said.stderr
    assert not heard and os.listdir(tmp_path) == ["b.trajectory.npz"]


def test_what_is_saved(model, tmp_path):
    state = model.init()
    state.qpos[2] += .1
    r = model.rollout(state, np.full((50, model.nu), .1))
    r.save(tmp_path / "run.npz")
    program("simulate", QUADRUPED, "--init", str(tmp_path / "run.npz"), "--init-row", "0", "--control", str(tmp_path / "run.npz"),
            "-o", str(tmp_path / "again.npz"))
    again = np.load(tmp_path / "again.npz")
    assert np.array_equal(again["qpos"], r.qpos) and np.array_equal(again["sensordata"], r.sensordata)
    r.save(tmp_path / "run.html"), r.save(tmp_path / "run.glb")
    program("view", QUADRUPED, str(tmp_path / "run.npz"), "-o", str(tmp_path / "program.html"), "--glb", str(tmp_path / "program.glb"))
    assert (tmp_path / "run.html").read_bytes() == (tmp_path / "program.html").read_bytes()
    assert (tmp_path / "run.glb").read_bytes() == (tmp_path / "program.glb").read_bytes()
    assert os.path.getsize(pb.view(model, tmp_path / "model.html")) > 1e5


def test_a_ghost_beside_a_rollout(model, tmp_path):
    """Another rollout, its file, a log: the program's page each time."""
    r, other = model.rollout(model.init(), np.zeros((50, model.nu))), model.rollout(model.init(), np.full((40, model.nu), .2))
    r.save(tmp_path / "run.npz"), other.save(tmp_path / "other.npz")
    joint = model.names("joint")[1]
    (tmp_path / "log.csv").write_text(f"time,qpos:{joint}\n0.01,0.1\n0.05,\n0.08,0.3\n")
    pages = []
    for ghost, name, more in ((other, "other.npz", []), (tmp_path / "other.npz", "other.npz", []),
                              (tmp_path / "log.csv", "log.csv", ["--ghost-start", "0.01"])):
        pb.view(r, tmp_path / "run.html", ghost=ghost, ghost_start=0.01 if more else 0)
        program("view", QUADRUPED, str(tmp_path / "run.npz"), "--ghost", str(tmp_path / name), *more, "-o", str(tmp_path / "program.html"))
        made, expected = ((tmp_path / page).read_text() for page in ("run.html", "program.html"))
        assert made.replace('"name": "the ghost"', f'"name": "{name}"', 1) == expected
        pages.append(made)
    assert len({page.split('"ghost": {')[1] for page in pages}) == 3
    with pytest.raises(pb.InputError, match="no column is a position"):
        (tmp_path / "log.csv").write_text("time,foreign\n0,1\n")
        pb.view(r, tmp_path / "run.html", ghost=tmp_path / "log.csv")


HOPPER = os.path.join(ROOT, "examples", "hopper", "hopper.xml")
MOCAP = """<mujoco><option timestep=".005"/><worldbody><body name="hand" mocap="true" pos="0 0 1"><geom name="h" type="box" size=".1 .1 .02"/></body>
<body name="ball" pos="0 .02 1.12"><freejoint/><geom size=".1"/></body></worldbody><equality><weld body1="hand" body2="ball" solref=".05 1"/></equality>
<sensor><framepos objtype="body" objname="ball"/></sensor></mujoco>"""


@pytest.mark.parametrize("path, contact, mode", [(QUADRUPED, {}, "exact"), (HOPPER, {}, "exact"), (HOPPER, {"method": "cones"}, "event"),
                                                 (QUADRUPED, {}, "smooth")])
def test_rollouts_gradients_and_jacobians_are_the_programs(path, contact, mode, tmp_path):
    """`simulate`, `gradient` and `jacobian` to the bit, with parameters, forces and cotangents of all states."""
    model = pb.load(path, contact=contact)
    rng, steps = np.random.default_rng(0), 60
    state = model.init()
    state.qvel[:] = rng.standard_normal(model.nv) * .3
    ctrl, force = .3 * rng.standard_normal((steps, model.nu)), rng.standard_normal((steps, model.nv))
    bar = rng.standard_normal((steps + 1, model.nv))
    files = {name: str(tmp_path / name) for name in ("x.npz", "u.npy", "f.npy", "w.npz", "run.npz", "g.npz", "j.npz", "m.npy")}
    np.savez(files["x.npz"], qpos=state.qpos[None], qvel=state.qvel[None])
    mass = 1.1 * model.params["body_mass"]
    for name, a in (("u.npy", ctrl), ("f.npy", force), ("m.npy", mass)):
        np.save(files[name], a)
    np.savez(files["w.npz"], qvel=bar)

    common = [path, "--init", files["x.npz"], "--control", files["u.npy"], "--param", f"body_mass={files['m.npy']}", "--constants", "recompute",
              *(word for pair in contact.items() for word in ("--contact", "=".join(pair)))]
    program("simulate", *common, "--qfrc", files["f.npy"], "-o", files["run.npz"])
    program("gradient", *common, "--qfrc", files["f.npy"], "--cotangent", files["w.npz"], "--mode", mode, "-o", files["g.npz"])
    program("jacobian", *common, "--qfrc", files["f.npy"], "-o", files["j.npz"])

    r = model.rollout(state, ctrl, params={"body_mass": mass}, qfrc_applied=force, gradient=mode)
    run, g, j = (np.load(files[n]) for n in ("run.npz", "g.npz", "j.npz"))
    for name in ("qpos", "qvel", "sensordata"):
        assert np.array_equal(getattr(r, name), run[name]), name
    ours = r.vjp(qvel=bar, wrt=["ctrl", "qfrc_applied", *(n for n in model.params if f"param/{n}" in g)])
    for name, theirs in (("qpos", g["qpos"]), ("qvel", g["qvel"]), ("ctrl", g["control"]), ("qfrc_applied", g["qfrc"])):
        assert np.array_equal(getattr(ours, name), theirs), name
    for name in ours.params:
        assert np.array_equal(ours.params[name], g[f"param/{name}"]), name
    if mode == "exact":
        A, B = r.linearize()
        assert np.array_equal(A, j["A"]) and np.array_equal(B, j["B"])


def test_jacobians_by_poses_of_mocap_bodies(tmp_path):
    (tmp_path / "m.xml").write_text(MOCAP)
    program("jacobian", str(tmp_path / "m.xml"), "--steps", "3", "--wrt", "control,mocap_pos,mocap_rot", "-o", str(tmp_path / "j.npz"))
    theirs, model = np.load(tmp_path / "j.npz"), pb.loads(MOCAP)
    r = model.rollout(model.init(), steps=3)
    ours = r.linearize(sensors=True, wrt=["ctrl", "mocap_pos", "mocap_rot"])
    for name, a in zip("ABCD", ours, strict=True):
        assert np.array_equal(a, theirs[name]), name

    # One step with a pose of its own, against differences of steps.
    pos = np.array([[.01, .02, 1.05]])
    _, B = model.linearize(model.init(), mocap_pos=pos, wrt="mocap_pos")
    step = lambda p: model.rollout(model.init(), steps=1, mocap_pos=p[None]).final
    for k in range(3):
        e = np.zeros((1, 3))
        e[0, k] = 1e-5
        slope = model.difference(step(pos - e), step(pos + e)) / 2e-5
        np.testing.assert_allclose(B[:, k], slope, rtol=1e-6, atol=1e-7)
    with pytest.raises(pb.ArgumentError, match="wrt: expected some of ctrl, mocap_pos, mocap_rot, found 'speed'"):
        r.linearize(wrt="speed")


def test_a_line_of_progress(capsys):
    """True is a line on standard error, written over and gone at the end; what is no function is refused."""
    slow = pb.load(QUADRUPED)
    worlds = slow.init(batch=16)
    r = slow.rollout(worlds, np.zeros((8_000, slow.nu)), progress=True, outputs=())
    said = capsys.readouterr().err
    assert said.startswith("\r\033[K") and "forward  [" in said and " %" in said and said.endswith("\r\033[K"), said
    r.vjp(qpos=np.ones((16, slow.nv)))
    assert "[" in capsys.readouterr().err
    slow.rollout(slow.init(), steps=3, progress=True)
    assert capsys.readouterr().err == ""  # short work says nothing
    with pytest.raises(pb.ArgumentError, match="progress: expected a function, True or None, found int"):
        pb.check(slow, progress=3)
    assert pb.check(slow, horizon=2, progress=False).ok and capsys.readouterr().err == ""


def test_odd_states_and_controls_are_refused():
    model = pb.load(os.path.join(ROOT, "examples", "arm", "arm.xml"))
    for call in (pb.check, pb.inspect):
        with pytest.raises(pb.ArgumentError, match="state: expected a State .*, found ndarray"):
            call(model, model.init().flat)
    with pytest.raises(pb.ArgumentError, match=r"ctrl: expected shape \(\d+,\)"):
        pb.inspect(model, ctrl=np.zeros((3, model.nu)))


@pytest.mark.parametrize("kind", ["html", "glb"])
@pytest.mark.parametrize("constants", ["recompute", "keep"])
def test_pages_show_the_parameters_of_the_rollout(tmp_path, kind, constants):
    """A page of a rollout with parameters of its own is that of a model that has them."""
    text = """<mujoco><worldbody><geom type="plane" size="2 2 .1"/><body name="ball" pos="0 0 1"><joint type="slide" axis="0 0 1"/>
    <geom name="ball" size=".1" mass="1"/></body></worldbody></mujoco>"""
    model, values = pb.loads(text), {"geom_size:ball": [.5, 0, 0], "body_pos:ball": [1., 0, 3.]}
    other = model.with_params(values)
    runs = (model.rollout(model.init(), steps=20), model.rollout(model.init(), steps=20, params=values, constants=constants), other.rollout(other.init(), steps=20))
    plain, passed, built = (open(r.save(tmp_path / f"{k}.{kind}"), "rb").read() for k, r in enumerate(runs))
    assert passed != plain and passed == built


# ---- ends that are errors ---------------------------------------------------------------------------------------------------
def crowd():
    """Many balls of one body come down to a plane: more contacts than hard methods hold, as soon as a trial reaches it."""
    balls = "".join(f"<geom type='sphere' size='.01' pos='{.03 * (i % 30):.3f} {.03 * (i // 30):.3f} 0' mass='.01'/>" for i in range(540))
    return {"model": f"<mujoco><option timestep='.01' gravity='0 0 0'/><worldbody><geom type='plane' size='9 9 .1'/><body name='b' pos='0 0 1'><freejoint/>{balls}"
                     "</body></worldbody></mujoco>", "contact": {"method": "lcp"}, "steps": 1, "variables": [{"state": "qpos", "components": [2]}],
            "loss": [{"body": "b", "components": [2], "target": 0}]}


@pytest.mark.parametrize("method", ["adam", "cmaes"])
def test_a_search_that_ends_by_want_of_room_writes_its_best(tmp_path, method):
    task = crowd()
    task["optimizer"] = {"method": method, "iterations": 20, **({"rate": .3} if method == "adam" else {"sigma": .6} if method == "cmaes" else {})}
    with pytest.raises(pb.CapacityError, match="more than 512 contacts.*the best so far is written") as ended:
        pb.optimize(task, output=tmp_path / "a.json")
    found = json.loads((tmp_path / "a.json").read_text())
    assert found == ended.value.result and found["outcome"] == "failed" and "more than 512 contacts" in found["reason"]
    assert found["loss"] <= found["start_loss"] == 1 and (tmp_path / "a.trajectory.npz").exists()
    z = found["variables"][0]["value"][0]
    assert found["loss"] == pytest.approx(z * z, rel=1e-12) and found["terms"][0]["value"] == found["loss"]

    # Without a name for it the error has it, too; where nothing could be evaluated there is none.
    with pytest.raises(pb.CapacityError) as again: pb.optimize(task)
    assert again.value.result["loss"] == found["loss"]
    task["init"] = {"qpos": [0, 0, 0, 1, 0, 0, 0]}
    with pytest.raises(pb.CapacityError) as start: pb.optimize(task, output=tmp_path / "b.json")
    assert not hasattr(start.value, "result") and not (tmp_path / "b.json").exists()


def test_a_check_is_told_how_led_bodies_move():
    """Velocities and the poses before, as rollouts take them; the program has them from its file."""
    model = pb.loads(MOCAP, contact={"mocap_motion": "followed"})
    pos = np.array([0, 0, 1.02]) + .001 * np.arange(1, 11)[:, None, None]
    assert pb.check(model, mocap_pos=pos, mocap_pos_before=pos[0] - .001, horizon=10)
    vel = np.zeros((10, 1, 6))
    assert pb.check(model, mocap_pos=pos, mocap_vel=vel, horizon=10)
    vel[4, 0, 2] = np.inf
    with pytest.raises(pb.Error, match="mocap_vel"):
        pb.check(model, mocap_pos=pos, mocap_vel=vel, horizon=10)
    far = pos[0] - 100  # before it the body jumps
    with pytest.raises(pb.Error, match="step 0 .*the path of mocap body 'hand' jumps"):
        pb.check(model, mocap_pos=pos, mocap_pos_before=far, horizon=10)


# ---- names of files -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("call, said", [
    (lambda m, r: pb.load(3), "path: expected a path, found 3"),
    (lambda m, r: pb.load(""), "path: expected a path, found ''"),
    (lambda m, r: pb.load("m.xml", allow_root=3), "allow_root: expected a folder"),
    (lambda m, r: pb.load("m.xml", allow_root="/tmp:/usr"), "allow_root: '/tmp:/usr'"),
    (lambda m, r: pb.optimize({}, output=""), "output: expected a path"),
    (lambda m, r: pb.optimize({}, allow_root=[None]), "allow_root: expected a path"),
    (lambda m, r: pb.audit({}, starts=7), "starts: expected a whole number from 8"),
    (lambda m, r: pb.train({}, None), "output: expected a path"),
    (lambda m, r: pb.evaluate({}, starts=0), "starts: expected a whole number from 1 to 100000, found 0"),
    (lambda m, r: pb.evaluate(None), "task: expected a path or a dict"),
    (lambda m, r: pb.view(m, ""), "path: expected a path"),
    (lambda m, r: pb.view(m, "model.py"), "ends in .html, found 'model.py'"),
    (lambda m, r: pb.view(r, "run.py"), "ends in .html or .glb or .npz"),
    (lambda m, r: pb.view(r, "run.html", keyframe=0), "keyframe: a rollout has its own states"),
    (lambda m, r: pb.view(r, "run.html", shapes="some"), "shapes: expected all or collision"),
    (lambda m, r: pb.view(m, "model.html", ghost="log.csv"), "ghost: stands beside a rollout"),
    (lambda m, r: pb.view(r, "run.glb", ghost="log.csv"), "ghost: a page has one"),
    (lambda m, r: pb.view(r, "run.html", ghost=3), "ghost: expected a path"),
    (lambda m, r: r.save(""), "path: expected a path"),
])
def test_names_of_files_that_are_none(tmp_path, monkeypatch, call, said):
    monkeypatch.chdir(tmp_path)
    model = pb.loads("<mujoco><worldbody><body><joint/><geom size='.1'/></body></worldbody></mujoco>")
    with pytest.raises(pb.ArgumentError) as error:
        call(model, model.rollout(model.init(), steps=2))
    assert said in str(error.value) and not list(tmp_path.iterdir())


def test_pages_of_results_have_the_numbers_that_are_returned(tmp_path, model):
    """And what is typed for the same, where the program can."""
    def data(name):
        return json.loads((tmp_path / name).read_text().split('<script type="application/json" id="data">')[1].split("</script>")[0])

    found = pb.optimize(LAUNCH, output=tmp_path / "a.json", seed=1, page=tmp_path / "a.html")
    page = data("a.html")
    assert page["kind"] == "optimize" and page["title"] == "launch.json" and page["result"] == found
    assert page["command"] == f"pullback optimize {LAUNCH} --output {tmp_path}/a.json --seed 1 --page {tmp_path}/a.html"
    verdict = pb.audit(LAUNCH, result=tmp_path / "a.json", page=tmp_path / "b.html")
    assert data("b.html")["result"] == verdict and data("b.html")["command"].startswith(f"pullback audit {LAUNCH} --result ")
    report = pb.check(model, horizon=3, page=tmp_path / "c.html")
    assert data("c.html")["result"] == report and "command" not in data("c.html")

    with pytest.raises(pb.ArgumentError, match="page: expected a name that ends in .html"):
        pb.check(model, page=tmp_path / "c.json")
    with pytest.raises(pb.FileError):
        pb.optimize(LAUNCH, page=tmp_path / "none" / "a.html")


def test_a_page_of_a_rollout_shows_what_is_asked_for(tmp_path):
    """One shape collides, one is only seen: the page of the collision shapes has one geom."""
    model = pb.loads("<mujoco><worldbody><body><joint/><geom size='.1'/><geom size='.2' contype='0' conaffinity='0'/></body></worldbody></mujoco>")
    run = model.rollout(model.init(), steps=2)
    sizes = [os.path.getsize(pb.view(run, tmp_path / f"{shapes}.html", shapes=shapes)) for shapes in ("all", "collision")]
    assert sizes[1] < sizes[0]


def test_a_state_that_cannot_be_removed_is_not_resumed(tmp_path):
    task = {"model": "m.xml", "steps": 3, "variables": [{"control": True, "knots": 2}], "loss": [{"qpos": True}], "optimizer": {"iterations": 1}}
    body = "<body><joint name='j' axis='0 1 0'/><geom size='.1'/></body>"
    (tmp_path / "m.xml").write_text(f"<mujoco><worldbody>{body}</worldbody><actuator><motor joint='j'/></actuator></mujoco>")
    (tmp_path / "t.json").write_text(json.dumps(task))
    (tmp_path / "o.state").mkdir()
    with pytest.raises(pb.errors.FileError, match="o.state: cannot be removed"):
        pb.optimize(str(tmp_path / "t.json"), output=str(tmp_path / "o.json"), fresh=True)


def test_a_result_is_parameters_of_a_model(tmp_path):
    """By path and as it is returned, in every function that takes a model; a search begins where another ended."""
    text = "<mujoco><worldbody><body name='b'><joint name='j' damping='.1'/><geom size='.1' pos='.2 0 0'/></body></worldbody></mujoco>"
    (tmp_path / "m.xml").write_text(text)
    task = {"model": text, "steps": 20, "variables": [{"name": "d", "parameter": "dof_damping:j", "start": .3}, {"parameter": "body_mass:b", "lower": 1}],
            "loss": [{"qpos": True, "target": [-.1]}], "optimizer": {"iterations": 3}, "constants": "recompute"}
    found = pb.optimize(task, output=tmp_path / "r.json")
    model = pb.load(tmp_path / "m.xml")
    other = model.with_result(found)
    assert other.params["dof_damping"] == found["parameters"]["dof_damping:j"] != model.params["dof_damping"]
    assert other.params["body_mass"][1] == found["parameters"]["body_mass:b"] and other.params["body_subtreemass"][1] == other.params["body_mass"][1]
    assert other == model.with_result(tmp_path / "r.json") == pb.load(tmp_path / "m.xml", result=found) == model.with_params(found["parameters"])
    said = json.loads(program("info", str(tmp_path / "m.xml"), "--json", "--result", str(tmp_path / "r.json")))
    assert pb.info(model, result=found) == pb.info(other) == {**said, "constants": "keep"}
    assert (pb.inspect(model, result=found)["M"] == pb.inspect(other)["M"]).all() and pb.check(model, horizon=3, result=found).ok
    pages = [pb.view(m, tmp_path / name, **more) for m, name, more in ((other, "a.html", {}), (model, "b.html", {"result": found}))]
    assert open(pages[0]).read() == open(pages[1]).read()

    again = pb.optimize(task, start=found)
    assert again["start_loss"] == found["loss"] and again["variables"][0]["start"] == found["variables"][0]["value"]
    with pytest.raises(pb.InputError, match="no result"):
        model.with_result({"variables": 1})
    with pytest.raises(pb.InputError, match="'e', which the task does not vary"):
        pb.optimize(task, start={"variables": [{"name": "e"}]})
    with pytest.raises(pb.ArgumentError, match="expected a Result or a path"):
        model.with_result(None)
    with pytest.raises(pb.ArgumentError, match="own parameters"):
        pb.view(model.rollout(model.init(), steps=1), tmp_path / "c.html", result=found)


def test_a_model_is_saved_as_mjcf(tmp_path, model):
    """The same file as the program's; loaded again the same model; from texts, specs and assets, too."""
    changed = model.with_params({"body_mass": model.params["body_mass"] * 1.1})
    assert changed.save(tmp_path / "a.xml") == str(tmp_path / "a.xml")
    again = pb.load(tmp_path / "a.xml", allow_root=os.path.dirname(QUADRUPED))
    assert all((again.params[n] == changed.params[n]).all() for n in changed.params) and again.save(tmp_path / "b.xml")
    assert (tmp_path / "a.xml").read_text() == (tmp_path / "b.xml").read_text()
    program("export", QUADRUPED, "-o", str(tmp_path / "c.xml"))
    assert pb.load(QUADRUPED).save(tmp_path / "d.xml") and (tmp_path / "c.xml").read_text() == (tmp_path / "d.xml").read_text()

    # a mesh that was in memory alone stands in the file
    text = "<mujoco><asset><mesh name='m' file='m.obj'/></asset><worldbody><body><joint/><geom type='mesh' mesh='m'/></body></worldbody></mujoco>"
    packed = pb.loads(text, {"m.obj": "v 0 0 0\nv 1 0 0\nv 0 1.3 0\nv 0 0 1.7\nf 1 3 2\nf 1 2 4\nf 2 3 4\nf 1 4 3\n"})
    packed.save(tmp_path / "e.xml", strict=True)
    assert "vertex=" in (tmp_path / "e.xml").read_text() and pb.load(tmp_path / "e.xml").params == packed.params
    spec = pb.Spec.from_string(text.replace("file='m.obj'", "vertex='0 0 0 1 0 0 0 1.3 0 0 0 1.7'"))
    assert pb.load(spec.compile().save(tmp_path / "f.xml")).nmesh == 1


def test_what_mjcf_cannot_say_is_a_warning_or_an_error(tmp_path):
    text = "<mujoco><worldbody><body name='b'><joint/><geom name='g' size='.1'/></body></worldbody></mujoco>"
    model = pb.loads(text, contact={"method": "cones"}).with_params({"geom_restitution:g": .3})
    with pytest.warns(RuntimeWarning) as said:
        model.save(tmp_path / "a.xml")
    assert any("geom_restitution:g: 0.3" in str(w.message) for w in said) and any("--contact method=cones" in str(w.message) for w in said)
    with pytest.raises(pb.UnsupportedError, match="geom_restitution:g: 0.3"):
        model.save(tmp_path / "b.xml", strict=True)
    assert not (tmp_path / "b.xml").exists()
    with pytest.raises(pb.ArgumentError, match="ends in .xml"):
        model.save(tmp_path / "b.json")
    with pytest.raises(pb.ArgumentError, match="load it from its file"):
        pickle.loads(pickle.dumps(pb.loads(text))).save(tmp_path / "b.xml")
    with pytest.raises(pb.FileError):
        pb.loads(text).save(tmp_path / "nowhere" / "b.xml")
