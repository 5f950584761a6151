"""pullback control: plans made again and again for a plant that is a model or another process; records, replays, failures."""
import csv
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

CART = """<mujoco><option timestep="{h}"/><worldbody><body name="cart"><joint name="x" type="slide" axis="1 0 0"/>
<geom type="box" size=".2 .1 .1" mass="1" contype="0" conaffinity="0"/><body name="pole"><joint name="angle" axis="0 1 0"/>
<geom type="capsule" size=".02" fromto="0 0 0 0 0 .6" mass="{pole}" contype="0" conaffinity="0"/></body></body></worldbody>
<actuator><motor name="force" joint="x"/></actuator>
<sensor><jointpos joint="angle"/><actuatorfrc actuator="force"/></sensor></mujoco>"""
TASK = {"model": CART.format(h=.02, pole=.1), "steps": 25, "init": {"qpos": [0, .3]},
        "variables": [{"control": True, "lower": -10, "upper": 10}],
        "loss": [{"qpos": "angle", "at": "all", "weight": 10}, {"qpos": "x", "at": "all"},
                  {"qvel": True, "at": "all", "weight": .1},
                 {"control": True, "at": "all", "weight": .001}, {"qpos": "angle", "weight": 200}]}
# A mass on a slider and the same in Python, which its first argument makes fail.
SLIDER = """<mujoco><option timestep="0.02" gravity="0 0 0"/><worldbody><body><joint name="x" type="slide" axis="1 0 0"/>
<geom size=".1" mass="2"/></body></worldbody><actuator><motor name="force" joint="x"/></actuator></mujoco>"""
SLIDE = {"model": SLIDER, "steps": 20, "init": {"qpos": [1]}, "variables": [{"control": True, "lower": -5, "upper": 5}],
         "loss": [{"qpos": True, "at": "all"}, {"qvel": True, "at": "all", "weight": .1},
                  {"control": True, "at": "all", "weight": .01}]}
PLANT = """import json, os, signal, sys, time
kind = sys.argv[1] if len(sys.argv) > 1 else ""
say = lambda **what: print(json.dumps(what), flush=True)
first = {"qpos": ["x"], "qvel": 1, "u": ["force"], "timestep": .02}
first.update(json.loads(sys.argv[2]) if kind == "first" else {})
say(**first)
n = 0
for line in sys.stdin:
    asked = json.loads(line)
    n += 1
    if "reset" in asked:
        t, q, v = 0.0, 1.0 + .001 * (asked["reset"] % 7), 0.0
    else:
        v += .02 * asked["u"][0] / 2
        q += .02 * v
        t += .02
    answer = {"t": t, "qpos": [q], "qvel": [v], "done": kind == "done" and n == 6}
    if n == 5:
        if kind == "answer":
            answer.update(json.loads(sys.argv[2]))
        if kind == "twice":
            print(json.dumps(answer) + chr(10) + json.dumps(answer), flush=True)
            continue
        if kind == "text":
            print(sys.argv[2], flush=True)
            continue
        if kind == "exit":
            sys.exit(3)
        if kind == "signal":
            os.kill(os.getpid(), signal.SIGKILL)
        if kind == "silent":
            time.sleep(60)
        if kind == "deaf":
            os.close(0)
            os.close(1)
            time.sleep(60)
    say(**{k: v for k, v in answer.items() if v is not None})
"""


def write(folder, task, name="t.json", **control):
    (folder / name).write_text(json.dumps({**task, "control": control} if control else task))
    return folder / name


def plant_of(folder, *words):
    (folder / "plant.py").write_text(PLANT)
    return " ".join(["exec", sys.executable, "plant.py", *(f"'{w}'" for w in words)])


def processes(folder):
    """Those that stand in a folder."""
    return [p for p in pathlib.Path("/proc").glob("[0-9]*/cwd") if os.path.realpath(p) == str(folder)]


def numbers(path):
    with np.load(path) as f:
        return {k: f[k] for k in f.files}


def rows(path):
    with open(path, newline="") as f:
        return list(csv.DictReader(f))


def test_a_plant_that_is_the_model(run, tmp_path):
    """The record is what `simulate` makes of its controls, to the bit; decisions have a row each; the pole is balanced."""
    write(tmp_path, TASK, duration=2)
    done = run("control", "t.json", "--page", "p.html", cwd=tmp_path)
    r, table = numbers(tmp_path / "t.control.npz"), rows(tmp_path / "t.control.csv")
    assert r["qpos"].shape == (101, 2) and r["control"].shape == (100, 1) and r["sensordata"].shape == (101, 2)
    assert [int(t["step"]) for t in table] == r["plan/step"].tolist() == list(range(100))
    assert abs(r["qpos"][-1, 1]) < .1 < r["qpos"][0, 1] and abs(r["control"]).max() <= 10
    assert "100 steps, 2 s; 100 plans, one every 0.02 s" in done.stdout and "99th perc." in done.stdout
    assert "t.control.npz" in done.stdout
    assert np.allclose([float(t["loss"]) for t in table], r["plan/loss"], rtol=0)
    assert {t["verdict"] for t in table} <= {"improved", "converged"}
    number = lambda name: np.array([float(t[name]) for t in table])
    assert (number("seconds") >= number("prepare_seconds")).all() and number("prepare_seconds").min() > 0
    assert number("feedback_seconds").min() > 0 == number("age").max()

    (tmp_path / "m.xml").write_text(TASK["model"])
    np.savez(tmp_path / "first.npz", qpos=TASK["init"]["qpos"])
    np.save(tmp_path / "u.npy", r["control"])
    run("simulate", "m.xml", "--init", "first.npz", "--control", "u.npy", "-o", "s.npz", cwd=tmp_path)
    s = numbers(tmp_path / "s.npz")
    assert all(np.array_equal(r[k], s[k]) for k in ("time", "qpos", "qvel", "control", "sensordata"))
    run("view", "t.json", "t.control.npz", "-o", "v.html", cwd=tmp_path)
    page = (tmp_path / "p.html").read_text()
    assert "loss of the plan" in page and '"title": "Control"' in page and "time of a plan, ms" in page
    # without the key: as long as the horizon, one iteration a step
    (tmp_path / "bare.json").write_text(json.dumps(TASK))
    run("control", "bare.json", "-q", cwd=tmp_path)
    bare = numbers(tmp_path / "bare.control.npz")
    assert len(bare["control"]) == 25 and np.array_equal(bare["qpos"], r["qpos"][:26])


def test_bits_threads_and_replays(run, tmp_path):
    """Fixed iterations: the same bytes for any threads. A deadline: the recorded counts give them again. A short one goes on."""
    other = {"model": CART.format(h=.005, pole=.14), "options": {"integrator": "RK4"}}
    more = dict(plant=other, duration=1, noise={"qpos": [.001, .002], "qvel": .01}, delay=.01,
                pushes=[{"at": .3, "joint": "angle", "velocity": .5}])
    write(tmp_path, TASK, **more, iterations=3)
    for threads in 1, 2, 3:
        run("control", "t.json", "-q", "--threads", threads, "-o", f"{threads}.npz", cwd=tmp_path)
    one = (tmp_path / "1.npz").read_bytes()
    assert one == (tmp_path / "2.npz").read_bytes() == (tmp_path / "3.npz").read_bytes()
    run("control", "t.json", "-q", "--replay", "1.npz", "-o", "again.npz", cwd=tmp_path)
    assert one == (tmp_path / "again.npz").read_bytes()
    run("control", "t.json", "-q", "--seed", 5, "-o", "5.npz", cwd=tmp_path)
    assert one != (tmp_path / "5.npz").read_bytes()

    write(tmp_path, TASK, "late.json", **more, seconds=.0015)
    run("control", "late.json", "-q", "-o", "late.npz", cwd=tmp_path)
    for threads in 1, 2:
        said = run("control", "late.json", "--replay", "late.npz", "--threads", threads, "-o", "same.npz", cwd=tmp_path).stdout
        assert (tmp_path / "late.npz").read_bytes() == (tmp_path / "same.npz").read_bytes()
        assert "50 plans with the iterations of late.npz" in said

    # counts that no clock has made: plans have as many, unless they converge before
    made = numbers(tmp_path / "late.npz")
    begun = {name: made[name][:1] for name in ("qpos", "qvel", "time")}  # its states would be others
    np.savez(tmp_path / "made.npz", **{**made, **begun, "plan/iterations": np.resize([1., 2, 4], 50)})
    run("control", "late.json", "-q", "--replay", "made.npz", "-o", "counted.npz", cwd=tmp_path)
    counted = numbers(tmp_path / "counted.npz")["plan/iterations"]
    assert (counted <= np.resize([1, 2, 4], 50)).all() and set(counted) >= {1, 2} and not np.array_equal(counted, made["plan/iterations"])
    run("control", "late.json", "-q", "--replay", "counted.npz", "-o", "recounted.npz", cwd=tmp_path)
    assert (tmp_path / "counted.npz").read_bytes() == (tmp_path / "recounted.npz").read_bytes()

    write(tmp_path, TASK, "half.json", **{**more, "duration": .5}, iterations=3)
    run("control", "half.json", "-q", "-o", "half.npz", cwd=tmp_path)
    assert "25 plans with" in run("control", "t.json", "--replay", "half.npz", "-o", "on.npz", cwd=tmp_path).stdout
    assert one == (tmp_path / "on.npz").read_bytes()

    # of another seed the states are others
    said = run("control", "t.json", "--replay", "half.npz", "--seed", 5, "-o", "other.npz", cwd=tmp_path, code=3).stderr
    assert "the record of another run: after step" in said

    # what is no record of this run
    np.savez(tmp_path / "none.npz", qpos=[[0, 0]])
    wrong = numbers(tmp_path / "half.npz")
    np.savez(tmp_path / "moved.npz", **{**wrong, "qpos": wrong["qpos"] + 1})
    np.savez(tmp_path / "steps.npz", **{**wrong, "plan/step": wrong["plan/step"] + 1})
    np.savez(tmp_path / "wild.npz", **{**wrong, "plan/iterations": wrong["plan/iterations"] * np.nan})
    for name, says in (("none", "it has no plans"), ("moved", "begins with another qpos"),
                       ("steps", "its plans begin at other steps"), ("wild", "of 0 to 1000000")):
        assert says in run("control", "t.json", "--replay", f"{name}.npz", "-o", "x.npz", cwd=tmp_path, code=3).stderr
    assert "this file is written, too" in run("control", "t.json", "--replay", "t.control.npz", cwd=tmp_path, code=2).stderr


def test_pushes_delay_noise(run, tmp_path):
    """A push is the force of `simulate --xfrc` at its steps; a jump of velocity adds once; controls act later; noise moves
    what is measured."""
    push = {"at": .1, "duration": .06, "body": "pole", "force": [3, 0, 0], "torque": [0, .1, 0]}
    write(tmp_path, TASK, duration=.4, pushes=[push], plant={"parameters": {"body_mass:pole": .12}})
    run("control", "t.json", "-q", cwd=tmp_path)
    r = numbers(tmp_path / "t.control.npz")
    (tmp_path / "m.xml").write_text(TASK["model"])
    np.savez(tmp_path / "first.npz", qpos=TASK["init"]["qpos"])
    np.save(tmp_path / "u.npy", r["control"])
    xfrc = np.zeros((20, 3, 6))
    xfrc[5:8, 2] = [3, 0, 0, 0, .1, 0]
    np.save(tmp_path / "x.npy", xfrc)
    words = "simulate m.xml --param body_mass:pole=.12 --init first.npz --control u.npy --xfrc x.npy -o s.npz"
    run(*words.split(), cwd=tmp_path)
    assert np.array_equal(numbers(tmp_path / "s.npz")["qpos"], r["qpos"])

    # the same until the jump, which is there when the state is measured
    for name, more in {"calm": {}, "kick": {"pushes": [{"at": .2, "joint": "x", "velocity": .7}]}}.items():
        write(tmp_path, TASK, f"{name}.json", duration=.4, **more)
        run("control", f"{name}.json", "-q", cwd=tmp_path)
    calm, kick = (numbers(tmp_path / f"{name}.control.npz") for name in ("calm", "kick"))
    assert np.array_equal(calm["qpos"][:11], kick["qpos"][:11]) and np.array_equal(calm["control"][:10], kick["control"][:10])
    assert kick["qvel"][10, 0] == pytest.approx(calm["qvel"][10, 0] + .7, abs=1e-12)
    assert kick["control"][10, 0] != calm["control"][10, 0]

    # the first control of the plan comes three steps late; before it the start's acts
    write(tmp_path, {**TASK, "controls": [2]}, "late.json", duration=.4, delay=.06)
    run("control", "late.json", "-q", cwd=tmp_path)
    late = numbers(tmp_path / "late.control.npz")["control"][:, 0]
    write(tmp_path, {**TASK, "controls": [2]}, "now.json", duration=.4)
    run("control", "now.json", "-q", cwd=tmp_path)
    assert late[:3].tolist() == [2, 2, 2] and late[3] == numbers(tmp_path / "now.control.npz")["control"][0, 0] != 2

    for seed in 1, 2:
        write(tmp_path, TASK, f"{seed}.json", duration=.2, noise={"qvel": [0, .3]}, seed=seed)
        run("control", f"{seed}.json", "-q", cwd=tmp_path)
    a, b = (numbers(tmp_path / f"{seed}.control.npz") for seed in (1, 2))
    assert np.array_equal(a["qpos"][0], b["qpos"][0]) and not np.array_equal(a["control"], b["control"])


def test_intervals_and_feedback(run, tmp_path):
    """Plans every third step of a finer plant; without feedback their own controls are held, a plan's step long."""
    plant = {"options": {"timestep": .005}}
    write(tmp_path, TASK, duration=.6, interval=.06, plant=plant)
    run("control", "t.json", "-q", cwd=tmp_path)
    table = rows(tmp_path / "t.control.csv")
    assert [int(t["step"]) for t in table] == list(range(0, 120, 12))
    assert np.allclose([float(t["time"]) for t in table], np.arange(10) * .06)
    with_feedback = numbers(tmp_path / "t.control.npz")["control"][:, 0]
    assert len(set(with_feedback[60:72])) == 12

    write(tmp_path, TASK, "held.json", duration=.6, interval=.6, plant=plant, feedback=False, iterations=20)
    run("control", "held.json", "-q", cwd=tmp_path)
    held = numbers(tmp_path / "held.control.npz")["control"][:, 0].reshape(30, 4)
    assert (held == held[:, :1]).all() and len(set(held[:, 0])) > 20
    write(tmp_path, {k: v for k, v in TASK.items()} | {"optimizer": {"method": "ilqr", "iterations": 20}}, "plan.json")
    run("optimize", "plan.json", "-q", "-o", "plan.json.json", cwd=tmp_path, code=(0, 1))
    best = json.loads((tmp_path / "plan.json.json").read_text())["variables"][0]["value"]
    assert np.allclose(held[:25, 0], np.ravel(best), atol=2e-3)


def test_a_plan_that_cannot_be_run(run, tmp_path):
    """A loss without a value there: the plan before goes on, is counted and told."""
    formula = {"formula": "log(1.2 - x)", "inputs": {"x": {"qpos": "x"}}, "at": "all", "weight": .001}
    write(tmp_path, {**TASK, "loss": [*TASK["loss"], formula]}, duration=.4, pushes=[{"at": .2, "joint": "x", "velocity": 60}])
    done = run("control", "t.json", cwd=tmp_path)
    table = rows(tmp_path / "t.control.csv")
    failed = [t for t in table if t["verdict"] == "failed"]
    assert len(table) == 20 and len(failed) == 10 and all(t["verdict"] != "failed" for t in table[:10])
    assert all(t["reason"] for t in failed) and failed[-1]["fallbacks"] == "10" and float(failed[4]["age"]) == pytest.approx(.1)
    assert "10 had no answer" in done.stdout
    run("control", "t.json", "-q", "--replay", "t.control.npz", "-o", "again.npz", cwd=tmp_path)
    assert (tmp_path / "again.npz").read_bytes() == (tmp_path / "t.control.npz").read_bytes()


KEYS = [
    ({"intervall": 1}, "t.json:", "control: unknown key 'intervall', did you mean 'interval'"),
    ({"interval": 0}, "control.interval: expected a positive number",),
    ({"interval": "x"}, "control.interval: expected"),
    ({"interval": .03}, "control.interval: expected a multiple of the plant's time step 0.02 s, found 0.03"),
    ({"interval": .001}, "control.interval: expected a multiple"),
    ({"plant": {"options": {"timestep": .03}}, "interval": .02},
     "control.interval: expected a multiple of the plant's time step 0.03"),
    ({"plant": {"options": {"timestep": .015}}}, "found 0.02 s (the time step of the plan)"),
    ({"duration": -1}, "control.duration"),
    ({"duration": .01}, "control.duration: expected a step of the plant (0.02 s) at least, found 0.01 s"),
    ({"duration": 1e9}, "control.duration: expected at most"),
    ({"iterations": 0}, "control.iterations: expected"),
    ({"iterations": 1.5}, "control.iterations"),
    ({"seconds": 0}, "control.seconds"),
    ({"feedback": 1}, "control.feedback: expected true or false"),
    ({"real_time": "yes"}, "control.real_time"),
    ({"seed": -1}, "control.seed"),
    ({"seed": 1.5}, "control.seed: expected a whole number"),
    ({"delay": -1}, "control.delay"),
    ({"delay": .03}, "control.delay: expected a multiple of the plant's time step"),
    ({"silence": 0}, "control.silence"),
    ({"noise": .1}, "control.noise: expected an object"),
    ({"noise": {"qpos": [1]}}, "control.noise.qpos: expected 2 numbers, found 1"),
    ({"noise": {"qvel": -1}}, "control.noise: expected deviations from 0"),
    ({"noise": {"act": 1}}, "control.noise: unknown key 'act'"),
    ({"pushes": {}}, "control.pushes: expected a list"),
    ({"pushes": [{"at": 1}]}, "control.pushes[0]: expected one of"),
    ({"pushes": [{"at": 1, "body": "pole", "joint": "x"}]}, "control.pushes[0]: expected one of"),
    ({"pushes": [{"body": "pole", "force": [1, 0, 0]}]}, "control.pushes[0].at: is missing"),
    ({"pushes": [{"at": 0, "body": "pol", "force": [1, 0, 0]}]},
     "control.pushes[0].body: the model has no body 'pol', did you mean 'pole'"),
    ({"pushes": [{"at": 0, "body": "pole", "force": 1}]}, "control.pushes[0].force: expected 3 numbers"),
    ({"pushes": [{"at": 0, "body": "pole"}]}, 'expected "force" or "torque"'),
    ({"pushes": [{"at": 0, "body": "pole", "force": [1, 0]}]}, "control.pushes[0].force: expected 3 numbers, found 2"),
    ({"pushes": [{"at": 0, "body": 3}]}, "control.pushes[0].body"),
    ({"pushes": [{"at": 0, "body": "pole", "velocity": 1}]}, "control.pushes[0].velocity: is a joint's"),
    ({"pushes": [{"at": 0, "joint": "x"}]}, "control.pushes[0].velocity: is missing"),
    ({"pushes": [{"at": 0, "joint": "x", "velocity": 1, "duration": 1}]}, "control.pushes[0].duration: is a body's"),
    ({"pushes": [{"at": -1, "joint": "x", "velocity": 1}]}, "control.pushes[0].at"),
    ({"pushes": [{"at": 0, "joint": "x", "velocity": [1, 2]}]}, "control.pushes[0].velocity: expected 1 numbers, found 2"),
    ({"plant": "m.xml"}, "control.plant: expected an object"),
    ({"plant": {"mode": "exact"}}, "control.plant: unknown key 'mode', did you mean 'model'"),
    ({"plant": {"options": {"timestep": -1}}}, "timestep"),
    ({"plant": {"model": SLIDER}}, "control.plant: expected 2 numbers of qpos in a state, as the task's model has; found 1"),
    ({"plant": {"model": TASK["model"].replace('name="angle"', 'name="tilt"').replace('"angle"', '"tilt"')}},
     "control.plant: joint 1 is 'tilt' in the plant and 'angle' in the task"),
    ({"plant": {"model": TASK["model"].replace("<motor", '<motor name="two" joint="x"/><motor')}},
     "control.plant: expected 1 actuators, as the task's model has; found 2"),
    ({"plant": {"parameters": {"body_mass:pole": -1}}}, "body_mass"),
    ({"plant": {"contact": {"method": "nosuch"}}}, "control.plant.contact"),
]


@pytest.mark.parametrize("control, says", [(k[0], k[-1]) for k in KEYS])
def test_keys_that_are_refused(run, tmp_path, control, says):
    write(tmp_path, TASK, **control)
    said = run("control", "t.json", cwd=tmp_path, code=3).stderr
    assert says in said and said.count("t.json:") == 1, said
    assert not list(tmp_path.glob("t.control.*"))


def test_tasks_that_are_refused(run, tmp_path):
    for task, says in (({**TASK, "control": 3}, "control: expected an object"),
                       ({**TASK, "variables": [{"state": "qpos"}]}, "a variable is none of controls"),
                       ({**TASK, "variables": [{"parameter": "body_mass:pole"}]}, "cannot be planned again and again")):
        (tmp_path / "t.json").write_text(json.dumps(task))
        assert says in run("control", "t.json", cwd=tmp_path, code=3).stderr
    (tmp_path / "t.json").write_text(json.dumps({**TASK, "control": 3}))
    assert "control: expected an object" in run("optimize", "t.json", cwd=tmp_path, code=3).stderr
    write(tmp_path, TASK, plant={"model": "nowhere.xml"})
    said = run("control", "t.json", cwd=tmp_path, code=5).stderr
    assert "t.json:1: control.plant.model: file 'nowhere.xml' cannot be found" in said


def test_another_process(run, tmp_path):
    """A mass on a slider in Python beside the same as a model: controls and states agree; seeds and early ends."""
    write(tmp_path, SLIDE, duration=1, silence=20)
    run("control", "t.json", "-q", "-o", "model.npz", cwd=tmp_path)
    done = run("control", "t.json", "--plant", plant_of(tmp_path), "-o", "process.npz", "--page", "p.html", cwd=tmp_path)
    a, b = numbers(tmp_path / "model.npz"), numbers(tmp_path / "process.npz")
    assert len(b["control"]) == 50 and "sensordata" not in b and "50 plans" in done.stdout
    for name in ("qpos", "qvel", "control", "time"):
        assert np.allclose(a[name], b[name], rtol=0, atol=1e-10), name
    assert "loss of the plan" in (tmp_path / "p.html").read_text()
    run("view", "t.json", "process.npz", "-o", "v.html", cwd=tmp_path)

    seeded = run("control", "t.json", "--plant", plant_of(tmp_path), "--seed", 3, "-q", "-o", "seed.npz", cwd=tmp_path)
    assert numbers(tmp_path / "seed.npz")["qpos"][0, 0] == 1.003 and not seeded.stdout
    done = run("control", "t.json", "--plant", plant_of(tmp_path, "done"), "-o", "done.npz", cwd=tmp_path)
    assert "ended by the plant" in done.stdout and len(numbers(tmp_path / "done.npz")["control"]) == 5

    # in real time: no faster than its time
    write(tmp_path, SLIDE, "real.json", duration=.4, real_time=True, silence=20)
    begun = time.monotonic()
    said = run("control", "real.json", "--plant", plant_of(tmp_path), cwd=tmp_path).stdout
    assert time.monotonic() - begun >= .38 and "in real time" in said
    assert np.array_equal(numbers(tmp_path / "real.control.npz")["qpos"], b["qpos"][:21])


# Says its controls as velocities, in an order of its own: a free body of seven positions behind a slider.
ORDER = """<mujoco><option timestep="0.02" gravity="0 0 0"/><worldbody><body><joint name="x" type="slide" axis="1 0 0"/><geom size=".1" mass="2"/></body>
<body name="free"><freejoint name="root"/><geom size=".1" mass="1"/></body></worldbody><actuator><motor name="push" joint="x"/><motor name="lift" joint="root"
gear="0 0 1 0 0 0"/></actuator></mujoco>"""
ECHO = """import json, sys
say = lambda **what: print(json.dumps(what), flush=True)
say(qpos=["root", "x"], qvel=["root", "x"], u=["lift", "push"], timestep=.02, note="its own")
for n, line in enumerate(sys.stdin):
    u = json.loads(line).get("u", [0, 0])
    say(t=7 + .02 * n, qpos=[.1, .2, .3, 0, 1, 0, 0, .4], qvel=[0, 0, u[0], 0, 0, 0, u[1]], reward=1)
"""


def test_the_example_flies_beside_its_wall(run, tmp_path):
    example = pathlib.Path(__file__).resolve().parents[2] / "examples" / "quadrotor" / "fly.json"
    run("control", str(example), "-o", "fly.npz", cwd=tmp_path)
    flown = np.load(tmp_path / "fly.npz")
    place = flown["qpos"][:, :3]
    assert place[:, 1].min() > .01 and np.abs(place[-1] - [2, .05, 1.2]).max() < .1
    assert flown["control"].min() >= 0 and flown["control"].max() <= 4

    # without its constraint the same gust blows it beyond
    task = json.loads(example.read_text())
    task["model"] = (example.parent / "quadrotor.xml").read_text()
    task["loss"] = [t for t in task["loss"] if t["name"] != "wall"]
    (tmp_path / "free.json").write_text(json.dumps(task))
    run("control", "free.json", "-o", "free.npz", cwd=tmp_path)
    assert np.load(tmp_path / "free.npz")["qpos"][:, 1].min() < 0


def test_names_in_another_order(run, tmp_path):
    """Numbers go to the joints and actuators of their names, whatever order the plant has; its clock may begin anywhere."""
    (tmp_path / "echo.py").write_text(ECHO)
    write(tmp_path, {"model": ORDER, "steps": 10, "variables": [{"control": True, "lower": -5, "upper": 5}],
                     "loss": [{"qpos": "x", "at": "all"}, {"control": True, "at": "all", "weight": .1, "target": [1, 2]}]},
          duration=.1, silence=20)
    run("control", "t.json", "-q", "--plant", f"{sys.executable} echo.py", cwd=tmp_path)
    r = numbers(tmp_path / "t.control.npz")
    assert r["qpos"].tolist() == [[.4, .1, .2, .3, 0, 1, 0, 0]] * 6 and np.allclose(r["time"], 7 + .02 * np.arange(6))
    assert np.array_equal(r["qvel"][1:, 0], r["control"][:, 0]) and np.array_equal(r["qvel"][1:, 3], r["control"][:, 1])
    assert abs(r["control"][:, 0] - r["control"][:, 1]).min() > .1


# What a plant says for its fifth answer (line 6), or first of all (line 1), and what is said of it.
SAYS = [
    (("answer", '{"qpos": [1, 2]}'), "line 6: qpos: expected a list of 1 numbers, found 2"),
    (("answer", '{"qpos": null}'), "line 6: qpos: expected a list of 1 numbers, found none"),
    (("answer", '{"qvel": ["x"]}'), "line 6: qvel[0]: expected a number"),
    (("answer", '{"qvel": 3}'), "line 6: qvel: expected a list"),
    (("answer", '{"t": null}'), "line 6: t: expected seconds"),
    (("answer", '{"t": -1}'), "line 6: t: expected a time from 0.06 on, found -1"),
    (("answer", '{"done": 1}'), "line 6: done: expected true or false"),
    (("text", '{"t": 0.08, "qpos": [NaN], "qvel": [0]}'), "line 6: column 24: not valid JSON: invalid token"),
    (("text", '{"t": 0.08, "qpos": [1e999], "qvel": [0]}'), "line 6: column 26: not valid JSON: real number overflow"),
    (("text", "[1]"), "line 6: expected an object"),
    (("text", "{"), "line 6: column 1: not valid JSON"),
    (("text", ""), "line 6: column 0: not valid JSON"),
    (("text", "hello"), "line 6: column 5: not valid JSON"),
    (("exit",), "line 6: expected an answer; it ended with exit status 3"),
    (("signal",), "line 6: expected an answer; it ended by signal 9"),
    (("silent",), "line 6: silent for 1.5 s: expected an answer"),
    (("twice",), "line 7: nothing was asked: expected one line"),
    (("deaf",), "line 6: expected an answer; it closed its output"),
]
FIRST = [
    ('{"qpos": ["y"]}', "line 1: qpos[0]: expected the name of a joint of the task's model, found 'y'"),
    ('{"qpos": 2}', "line 1: qpos: expected 1 numbers, as the task's model has; found 2"),
    ('{"qpos": ["x", "x"]}', "line 1: qpos[1]: 'x' a second time"),
    ('{"qpos": []}', "line 1: qpos: expected names of 1 numbers in all, found 0"),
    ('{"qpos": null}', "line 1: qpos: expected how many numbers, or a list of names"),
    ('{"u": ["x"]}', "line 1: u[0]: expected the name of an actuator"),
    ('{"u": [1]}', "line 1: u[0]: expected the name of an actuator of the task's model, found 'no text'"),
    ('{"act": 3}', "line 1: act: expected 0 numbers"),
    ('{"timestep": 0}', "line 1: timestep: expected seconds above 0"),
    ('{"timestep": null}', "line 1: timestep"),
    ('{"qvel": 1.5}', "line 1: qvel: expected how many"),
]


@pytest.mark.parametrize("words, says", SAYS + [(("first", text), says) for text, says in FIRST])
def test_plants_that_fail(run, tmp_path, words, says):
    """An error of files, with the line and the reason; what was done is kept, and no process is left."""
    write(tmp_path, SLIDE, duration=1, silence=1.5 if words[0] == "silent" else 20)
    said = run("control", "t.json", "-q", "--plant", plant_of(tmp_path, *words) + " 2>/dev/null", cwd=tmp_path, code=5).stderr
    assert says in said and said.startswith("pullback control: the plant, "), said
    if words[0] == "first":
        assert not list(tmp_path.glob("*.npz"))
    else:
        assert "what was done is written" in said
        r = numbers(tmp_path / "t.control.npz")
        steps = 4 if words[0] == "twice" else 3  # the answer too many comes after one that counts
        assert r["control"].shape == (steps, 1) and r["qpos"].shape == (steps + 1, 1) and len(rows(tmp_path / "t.control.csv")) == steps + 1
    assert not processes(tmp_path)


def test_plants_that_cannot_be(run, tmp_path):
    """No such program, none that can be repeated, pushed or given a model."""
    write(tmp_path, SLIDE, duration=1)
    assert "ended with exit status 127" in run("control", "t.json", "--plant", "./nowhere", cwd=tmp_path, code=5).stderr
    np.savez(tmp_path / "r.npz", x=[1])
    assert "cannot be repeated" in run("control", "t.json", "--plant", "true", "--replay", "r.npz", cwd=tmp_path, code=2).stderr
    jump = {"at": 0, "joint": "x", "velocity": 1}
    for more, says in ({"plant": {}}, "expected no model of it"), ({"pushes": [jump]}, "cannot be pushed"):
        write(tmp_path, SLIDE, **more)
        assert says in run("control", "t.json", "--plant", "true", cwd=tmp_path, code=2).stderr
    write(tmp_path, SLIDE, duration=1e6)
    assert "control.duration: the record of 50000000 steps needs" in run("control", "t.json", cwd=tmp_path, code=5).stderr
    assert not list(tmp_path.glob("*.npz.*")) and not list(tmp_path.glob("t.control.*"))


def test_a_plant_that_diverges(run, tmp_path):
    """A model that cannot go on is a numerical failure; what was done is kept."""
    write(tmp_path, TASK, duration=1, pushes=[{"at": .2, "joint": "x", "velocity": 1e12}])
    said = run("control", "t.json", "-q", cwd=tmp_path, code=4).stderr
    assert "step 10 of 11: qpos[0]" in said and "what was done is written" in said
    assert len(numbers(tmp_path / "t.control.npz")["control"]) == 10


@pytest.mark.parametrize("process", [False, True])
def test_interrupts_and_kills(pullback, tmp_path, process):
    """Ctrl-C keeps what was done; a kill all but a second of it. A plant in another process ends with it."""
    write(tmp_path, SLIDE, duration=3e5, silence=20, **({"real_time": True} if process else {}))
    line = [pullback, "control", "t.json", "-q", *(["--plant", plant_of(tmp_path)] if process else [])]
    for sent, code in (signal.SIGINT, 130), (signal.SIGKILL, -9):
        for old in tmp_path.glob("t.control.*"):
            old.unlink()
        p = subprocess.Popen(line, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
        until = time.monotonic() + 60
        while not (tmp_path / "t.control.npz").exists() and time.monotonic() < until:
            time.sleep(.05)
        p.send_signal(sent)
        said = p.communicate(timeout=30)[1]
        assert p.returncode == code, said
        r = numbers(tmp_path / "t.control.npz")
        assert len(r["control"]) >= 10 and len(r["qpos"]) == len(r["control"]) + 1
        assert len(rows(tmp_path / "t.control.csv")) == len(r["plan/step"])
        assert sent == signal.SIGKILL or "what was done is written: t.control.npz" in said
        until = time.monotonic() + 10
        while time.monotonic() < until and processes(tmp_path):
            time.sleep(.05)
        assert time.monotonic() < until
