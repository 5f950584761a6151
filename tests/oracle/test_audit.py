"""pullback audit: what is refused, what a report holds, and that it is the task's own runs that are compared."""
import json
import pathlib

import numpy as np
import pytest

ARM = """<mujoco><option timestep="0.01"/><worldbody><geom type="plane" size="5 5 .1" pos="0 0 -.6"/><body><joint name="j" axis="0 1 0" damping=".5"/>
<geom name="g" type="capsule" size=".03" fromto="0 0 0 0 0 -.5"/></body></worldbody><actuator><motor name="m" joint="j" gear="3"{}/></actuator></mujoco>"""
TASK = {"model": ARM.format(' forcerange="-2 2" forcelimited="true"'), "steps": 50, "variables": [{"control": True, "knots": 5, "start": 1}],
        "loss": [{"name": "angle", "qpos": "j", "type": "linear", "weight": -1}, {"name": "effort", "control": True, "weight": 1e-3}],
        "optimizer": {"method": "lbfgs", "iterations": 3}}


@pytest.fixture
def write(tmp_path):
    def call(**changes):
        path = tmp_path / "task.json"
        path.write_text(json.dumps({**TASK, **changes}))
        return path

    return call


def audit(run, task, *options, code=0, **more):
    return json.loads(run("audit", task, "--json", *options, code=code, **more).stdout)


def simulated(run, task, tmp_path, *options):
    run("simulate", task, "-o", tmp_path / "run.npz", *options)
    return np.load(tmp_path / "run.npz")


def test_runs_are_the_tasks_own(run, write, tmp_path):
    """With starts that hardly differ, each kind of run is the task at that step."""
    model = TASK["model"].replace("</actuator>", '<motor name="n" joint="j" gear=".4"/></actuator>')
    drive = [{"control": True, "knots": 5, "start": [1, 2, 1, -1, 0, 0.5, 1, 0.7, -1, 2]}]
    task = write(model=model, variables=drive, audit={"objective": "angle", "factor": -2, "unit": "halves", "torque": {"actuator": 3, "joint": 7}, "ledger": 0.05, "spread": {"qvel": 1e-12}})
    r = audit(run, task)
    assert r["confirmed"] and r["starts"] == 8 and r["unit"] == "halves" and [x["ran"] for x in r["runs"]] == [8] * 7
    for x, divide in zip(r["runs"], (1, 2, 4, 1)):
        fine = write(model=model, steps=50 * divide, variables=drive, options={"timestep": 0.01 / divide})
        o = simulated(run, fine, tmp_path)
        assert x["mean"] == pytest.approx(2 * o["qpos"][-1, 0], rel=1e-9) and x["timestep"] == 0.01 / divide
    assert r["runs"][5]["deviation"] > 1e3 * r["runs"][0]["deviation"] and not r["runs"][5]["counts"] and not r["runs"][4]["counts"]


def test_starts_are_drawn_from_the_seed(run, write, tmp_path):
    reports = [audit(run, write(audit={"objective": "angle", "spread": {"joints": {"j": {"qvel": 0.3}}}}), "--seed", s, "--starts", 11) for s in (0, 0, 1)]
    assert reports[0] == reports[1] and reports[0]["runs"][0]["mean"] != reports[2]["runs"][0]["mean"] and reports[0]["runs"][0]["ran"] == 11
    # of the angle after half a second, by that of the velocity at the start
    ends = [simulated(run, write(init={"qvel": [v]}), tmp_path)["qpos"][-1, 0] for v in (-0.3, 0.3)]
    assert 0.5 < reports[0]["runs"][0]["deviation"] / (abs(ends[1] - ends[0]) / 2) < 1.7


def test_a_result_is_audited(run, write, tmp_path):
    task = write()
    result = json.loads(run("optimize", task, "-o", tmp_path / "r.json", cwd=tmp_path) and (tmp_path / "r.json").read_text())
    r, at_start = audit(run, task, "--result", tmp_path / "r.json"), audit(run, task)
    assert r["runs"][0]["mean"] == pytest.approx(result["loss"], rel=0.05) and at_start["runs"][0]["mean"] != r["runs"][0]["mean"]
    done = run("audit", task, "--result", tmp_path / "r.json", "-o", tmp_path / "report.json")
    assert done.stdout.startswith("confirmed: ") and json.loads((tmp_path / "report.json").read_text()) == r
    result["variables"][0]["value"].pop()
    (tmp_path / "r.json").write_text(json.dumps(result))
    assert "expected a variable 'control' with 5 values" in run("audit", task, "--result", tmp_path / "r.json", code=3).stderr

    # what is no result, or one of another task
    result["variables"].append({"name": "mass", "value": [1]})
    (tmp_path / "r.json").write_text(json.dumps(result))
    assert "'mass', which the task does not vary" in run("audit", task, "--result", tmp_path / "r.json", code=3).stderr
    (tmp_path / "r.json").write_text("{}")
    assert "this is no result of an optimization" in run("audit", task, "--result", tmp_path / "r.json", code=3).stderr


@pytest.mark.parametrize("audited, text", [
    ({"tolerance": 1e-9}, "loss"), ({"penetration": 1e-9, "spread": {"qpos": 0.3}}, ""), ({"torque": 0.5}, "force 1 of actuator 'm' as trained, limit 0.5"),
    ({"ledger": 1e-7}, "of the work unaccounted for at h/4")])
def test_each_limit_counts(run, write, audited, text):
    model = ARM.format(' forcerange="-2 2" forcelimited="true"').replace("0 0 -.6", "0 0 -.5") if "penetration" in audited else TASK["model"]
    done = run("audit", write(audit=audited, model=model), code=1)
    assert done.stdout.startswith("not confirmed: ") and (text in done.stdout or " at h/4" in done.stdout)
    if "penetration" in audited:
        assert "penetration of" in done.stdout


PAIR = """<mujoco><option timestep="0.005" gravity="0 0 0"/><worldbody><geom name="wall" type="box" size=".005 1 1" pos="1.03 0 0"/><body>
<joint name="x" type="slide" axis="1 0 0"/><geom name="ball" size=".01" mass=".1"/></body></worldbody><actuator><motor joint="x" forcerange="-1 1"/></actuator></mujoco>"""


@pytest.mark.parametrize("speed, holds", [(5, True), (50, False), (137, False)])
def test_between_steps(run, write, speed, holds):
    """Nothing touches at the ends of steps that go past the wall, at any of the three step sizes; a far wall is no matter."""
    task = {"model": PAIR, "steps": 20, "init": {"qvel": [speed]}, "variables": [{"control": True, "knots": 1}], "loss": [{"qpos": "x", "type": "linear", "weight": -1}],
            "audit": {"penetration": 0.03, "factor": -1}}
    r = audit(run, write(**task), code=0 if holds else 1)
    assert r["confirmed"] == holds and (holds or "geoms 'wall' and 'ball', between two steps" in r["verdict"] or "geoms 'ball' and 'wall', between two steps" in r["verdict"])
    apart = PAIR.replace('name="wall"', 'name="wall" contype="0" conaffinity="0"')
    assert audit(run, write(**{**task, "model": apart}))["runs"][0]["penetration"] == 0
    named = apart.replace("</mujoco>", '<contact><pair geom1="ball" geom2="wall"/></contact></mujoco>')
    assert audit(run, write(**{**task, "model": named}), code=0 if holds else 1)["verdict"][:40] == r["verdict"][:40]


def test_through_a_field(run, write):
    """Flat ground of a field, with a base of 1 cm, passed between two steps."""
    field = '<geom name="wall" type="hfield" hfield="f" pos="1.03 0 0" zaxis="-1 0 0"/>'
    model = PAIR.replace('<geom name="wall" type="box" size=".005 1 1" pos="1.03 0 0"/>', field)
    model = model.replace("<worldbody>", '<asset><hfield name="f" nrow="3" ncol="3" size="1 1 .01 .01" elevation="0 0 0 0 0 0 0 0 0"/></asset><worldbody>')
    task = {"model": model, "steps": 10, "variables": [{"control": True, "knots": 1}], "loss": [{"qpos": "x", "type": "linear", "weight": -1}], "audit": {"factor": -1}}
    assert "geoms 'wall' and 'ball', between two steps" in audit(run, write(**task, init={"qvel": [50]}), code=1)["verdict"]
    assert audit(run, write(**task, init={"qvel": [5]}))["confirmed"]


def test_what_rests_at_zero(run, write):
    """A servo that holds zero against small pushes: without a reference nothing is a part of zero."""
    model = TASK["model"].replace('<motor name="m" joint="j" gear="3"', '<position name="m" joint="j" kp="50"').replace("0 0 -.6", "0 0 -.7")
    task = {"model": model, "steps": 600, "loss": [{"qpos": "j"}], "variables": [{"control": True, "knots": 1}]}
    r = audit(run, write(**task, options={"timestep": 0.005}))
    mean = [row["mean"] for row in r["runs"][:4]]
    assert r["confirmed"] and r["gained"] is None and 0 < mean[0] < 1e-9 and max(mean) > 1.1 * mean[0]


STOPS = """<mujoco><option timestep="0.001" gravity="0 0 0"/><worldbody><site name="a"/><body pos=".3 0 0"><joint name="x" type="slide" axis="1 0 0" damping="20" {}/>
<geom size=".05" mass="1" contype="0"/><site name="b"/></body><body pos="0 0 1"><joint name="h" axis="0 1 0" damping="1"{}/><geom size=".05" mass="1" pos=".2 0 0"
contype="0"/></body></worldbody><tendon><spatial name="rope"{}><site site="a"/><site site="b"/></spatial></tendon>{}
<actuator><motor joint="x" forcerange="-20 20" gear="10"/><motor joint="h" forcerange="-20 20"/></actuator></mujoco>"""


@pytest.mark.parametrize("where, text, reason", [
    (0, 'range="-1 .1" solreflimit=".1 1"', "limit of joint 'x' gives way by "), (1, ' range="-45 45" solreflimit=".1 1"', "limit of joint 'h' gives way by "),
    (2, ' limited="true" range="0 .4" solreflimit=".1 1"', "limit of tendon 'rope' gives way by "),
    (3, '<equality><joint name="gears" joint1="h" joint2="x" polycoef="0 -1 0 0 0" solref=".3 1"/></equality>', "equality 'gears' gives way by ")])
def test_what_gives_way(run, write, where, text, reason):
    """The same as far as it is allowed; nothing is said where there is no limit."""
    fill = lambda i: text if i == where else ""
    task = {"model": STOPS.format(*map(fill, range(4))), "steps": 400, "variables": [{"control": True, "knots": 1, "start": [1, 5]}],
            "loss": [{"qpos": True, "type": "linear", "weight": -1}], "audit": {"ledger": 10, "tolerance": 10}}
    r = audit(run, write(**task), code=1)
    unit = "rad" if where in (1, 3) else "mm"
    assert reason in r["verdict"] and f"limit {'0.035 rad' if unit == 'rad' else '5 mm'}" in r["verdict"]
    stop = r["runs"][0]["stop"]
    assert stop["value"] > stop["limit"] and stop["name"] in reason
    allowed = {**task, "audit": {**task["audit"], "stops": {"angle": 10, "length": 10}}}
    assert audit(run, write(**allowed))["confirmed"]
    assert audit(run, write(**{**task, "model": STOPS.format("", "", "", "")}))["runs"][0]["stop"] is None


def test_one_number_is_no_angle_and_length(run, write):
    assert "audit.stops: expected {\"angle\": rad, \"length\": m}" in run("audit", write(audit={"stops": 0.02}), code=3).stderr


def test_forces_at_joints(run, write):
    """Gears and other actuators of the joint count; where only the actuators are limited, they alone do."""
    model = TASK["model"].replace("</actuator>", '<motor name="n" joint="j" gear="-2"/></actuator>')
    task = {"model": model, "variables": [{"control": True, "knots": 1, "start": [1, 0.25]}], "loss": TASK["loss"][:1]}
    for torque, holds in ((2.6, True), (2.4, False), ({"joint": 2.6, "actuator": 2}, True), ({"joint": 2.4, "actuator": 2}, False), ({"actuator": 2}, True)):
        r = audit(run, write(**task, audit={"torque": torque}), code=0 if holds else 1)
        assert r["confirmed"] == holds
    r = audit(run, write(**task, audit={"torque": {"joint": 2.4, "actuator": 2}}), code=1)
    assert "force 2.5 at joint 'j' as trained, limit 2.4" in r["verdict"] and r["runs"][0]["joint_force"]["value"] == pytest.approx(2.5)


JOINT = """<mujoco><option timestep="0.002" gravity="0 0 0"/><worldbody><body><joint name="j" type="{}" axis="0 1 0" damping="1"/>
<geom type="capsule" size=".03" fromto="0 0 0 0 0 .5" mass="1"/><site name="s"/></body></worldbody><actuator>{}</actuator></mujoco>"""


@pytest.mark.parametrize("kind, actuator, options, force", [
    ("hinge", '<position joint="j" kp="500" kv="5" gear="2" forcerange="-500 500"/>', {"servo": "all"}, None),
    ("ball", '<motor joint="j" gear="0 200 0"/>', {}, 200), ("ball", '<motor site="s" gear="0 0 0 200 100 0"/>', {}, 200),
    ("free", '<motor site="s" gear="200 0 0 0 200 0"/>', {}, 0)])
def test_forces_of_servos_and_at_ball_joints(run, write, kind, actuator, options, force):
    """Servos are rows of the solver, and count as motors do; of a ball joint each axis counts. What flies has thrusters, no joint that is driven."""
    task = {"model": JOINT.format(kind, actuator), "options": options, "steps": 50, "variables": [{"control": True, "knots": 1, "start": 1}],
            "loss": [{"qvel": "j", "type": "linear", "weight": -1}]}
    r = audit(run, write(**task, audit={"torque": {"actuator": 500, "joint": 50}, "ledger": 1, "tolerance": 10}), code=1 if force != 0 else 0)
    most = r["runs"][0]["joint_force"]["value"] if force != 0 else 0
    assert most > 100 if force is None else most == pytest.approx(force)
    assert r["confirmed"] == (force == 0) and (force == 0 or "at joint 'j' as trained, limit 50" in r["verdict"])


SPIN = """<mujoco><option timestep="{}" gravity="0 0 0"/><worldbody><body><freejoint name="root"/><geom type="box" size=".3 .1 .02" mass="2"/></body></worldbody></mujoco>"""


def test_better_is_a_note(run, write):
    """Explicit gyroscopic forces make spin: bad where spin is wanted, and where it is not."""
    spin = {"model": SPIN.format(0.02), "steps": 100, "init": {"qvel": [0, 0, 0, 0.3, 8, 0.3]}, "variables": [{"state": "qvel", "components": [4]}]}
    terms = lambda weight: [{"qvel": "root", "components": [3, 4, 5], "weight": weight}]
    assert "at h/4" in audit(run, write(**spin, loss=terms(-1), audit={"ledger": 1}), code=1)["verdict"]
    r = audit(run, write(**spin, loss=terms(1), audit={"ledger": 1}))
    assert r["verdict"].startswith("confirmed: ") and r["verdict"].endswith("better at h/4") and r["gained"] is None


def test_what_was_gained(run, write, tmp_path):
    """Over controls of zero, or over the start where a result is audited; a constant beside the term changes nothing."""
    start = audit(run, write(loss=TASK["loss"][:1], audit={"factor": -1}))
    rest = simulated(run, write(loss=TASK["loss"][:1], variables=[{"control": True, "knots": 5, "start": 0}]), tmp_path)["qpos"][-1, 0]
    assert start["gained"] == pytest.approx(start["runs"][0]["mean"] - start["runs"][6]["mean"]) and start["runs"][6]["mean"] == pytest.approx(rest, abs=0.05)
    run("optimize", write(), "-o", tmp_path / "r.json", cwd=tmp_path)
    found = audit(run, write(), "--result", tmp_path / "r.json")
    assert found["runs"][6]["mean"] == pytest.approx(audit(run, write())["runs"][0]["mean"], rel=1e-12) and not found["runs"][6]["counts"]
    coarse = TASK["model"].replace('"0.01"', '"0.1"')
    for target, kind in ((0, "linear"), (-1000, "squared")):
        far = {"model": coarse, "steps": 20, "loss": [{"qpos": "j", "type": kind, "target": target}]}
        assert "at h/4" in audit(run, write(**far, audit={"ledger": 10, "tolerance": 0.01}), code=1)["verdict"]
        assert audit(run, write(**far, audit={"ledger": 10, "tolerance": {"relative": 0.01, "absolute": 1e4}}))["confirmed"]


def test_a_start_that_fails_is_told(run, write):
    """The hinge of a long arm may fail in a finer step as well: here the contact method is refused for this model."""
    r = audit(run, write(options={"integrator": "RK4"}, audit={"method": "lcp"}))
    assert r["confirmed"] and r["runs"][4]["ran"] == 0 and "lcp does not go with integrator RK4" in r["runs"][4]["why"]


def test_what_a_policy_puts_on_joints_and_bodies_has_a_limit(run, write):
    """A ball that a policy lifts by a wrench of 30 N: a robot has no such hand."""
    model = '<mujoco><worldbody><body name="b" pos="0 0 1"><freejoint name="r"/><geom size=".1" mass="1"/></body></worldbody></mujoco>'
    for output in ({"wrench": "b"}, {"force": "r"}):
        lift = {"observe": [{"qvel": "r"}], "layers": [{"dense": 6, "init": 0}, {"scale": 1, "offset": [0, 0, 30, 0, 0, 0]}], "output": output}
        changes = {"model": model, "policy": lift, "variables": [{"parameter": "policy"}], "loss": [{"body": "b", "components": [2], "type": "linear"}]}
        assert "joints or bodies is unknown" in run("audit", write(**changes), code=2).stderr
        said = run("audit", write(**changes, audit={"torque": 5}), code=1).stdout
        assert "force 30 of actuator 'policy' as trained, limit 5" in said
        assert run("audit", write(**changes, audit={"torque": 31})).stdout.startswith("confirmed")


@pytest.mark.parametrize("changes, options, code, text", [
    ({}, ("--starts", 7), 2, "a verdict takes at least 8 starts, found 7"),
    ({"model": ARM.format("")}, (), 2, "the limit of actuator 'm' is unknown"),
    ({"audit": {"objective": "angel"}}, (), 2, "no term 'angel', did you mean 'angle'"),
    ({"audit": {"spread": {"qvel": 0}}}, (), 2, "all starts would be the same"),
    ({"audit": {"perturb": {"body_mas": 0.1}}}, (), 3, "body_mas"),
    ({"audit": {"perturb": {"body_mass": 1.5}}}, (), 3, "audit.perturb.body_mass"),
    ({"audit": {"method": "sof"}}, (), 2, "there is no 'sof', did you mean 'soft'"),
    ({"audit": {"tolerance": 0}}, (), 3, "audit.tolerance: expected a positive number"),
    ({"audit": {"spread": {"joints": {"k": {}}}}}, (), 3, "audit.spread.joints"),
    ({"audit": {"start": 3}}, (), 3, "did you mean"),
    ({"audit": {"stops": {"angel": 1}}}, (), 3, "audit.stops: unknown key 'angel', did you mean 'angle'"),
    ({"audit": {"torque": {"joint": -1}}}, (), 3, "audit.torque.joint: expected a positive number"),
    ({"audit": {"tolerance": {"absolute": 0}}}, (), 3, "audit.tolerance.absolute: expected a positive number"),
    ({"loss": [{"formula": "log(x)", "inputs": {"x": {"qpos": "j"}}}], "audit": {"spread": {"qpos": 3}}}, (), 4, "audit: start"),
])
def test_what_is_refused(run, write, changes, options, code, text):
    assert text in run("audit", write(**changes), *options, code=code).stderr


def test_without_a_ledger(run, write):
    r = audit(run, write(contact={"method": "impact"}))
    assert r["confirmed"] and "without an energy ledger" in r["verdict"] and r["runs"][0]["ledger"] is None and r["runs"][0]["torque"] == 1


BALANCE = {"model": ARM.format(' forcerange="-9 9" forcelimited="true"').replace("0 0 -.6", "0 0 -1.2"), "steps": 60, "init": {"qpos": [3.0]},
           "policy": {"every": 5, "observe": [{"qpos": "j"}, {"qvel": "j"}], "layers": [{"formula": ["-8*(x0 - 3.1415926) - 2*x1"]}]},
           "loss": [{"name": "tilt", "qpos": "j", "type": "linear"}], "audit": {"unit": "rad", "ledger": 0.2}}


def test_policies_decide_at_the_same_times(run, write, tmp_path):
    """The same task with finer steps and as much rarer decisions."""
    spread = {"spread": {"qvel": 1e-12}}
    r = audit(run, write(**{**BALANCE, "audit": {**BALANCE["audit"], **spread}}), code=0)
    for x, divide in zip(r["runs"], (1, 2, 4, 1)):
        policy = {**BALANCE["policy"], "every": 5 * divide}
        fine = write(**{**BALANCE, "policy": policy, "steps": 60 * divide, "options": {"timestep": 0.01 / divide}})
        assert x["mean"] == pytest.approx(simulated(run, fine, tmp_path)["qpos"][-1, 0], rel=1e-12)
    assert len({x["mean"] for x in r["runs"][:3]}) == 3


def test_confirm_of_a_closed_loop(run, write, tmp_path):
    task = {**BALANCE, "variables": [{"state": "qvel", "joint": "j", "start": 0.1}], "optimizer": {"method": "lbfgs", "iterations": 0}, "confirm": 2}
    confirmed = json.loads(run("optimize", write(**task), "--json", cwd=tmp_path, code=0).stdout)["confirm"]
    fine = {**BALANCE, "policy": {**BALANCE["policy"], "every": 10}, "steps": 120, "options": {"timestep": 0.005},
            "variables": task["variables"]}
    assert confirmed["loss"] == pytest.approx(simulated(run, write(**fine), tmp_path)["qpos"][-1, 0], rel=1e-12)


def test_a_training_is_audited(run, write):
    """Its episodes say how long and from where; the loss of the audit need not be what it is trained by."""
    task = {k: v for k, v in BALANCE.items() if k not in ("steps", "audit")}
    task["episode"] = {"seconds": 0.5, "spread": {"joints": {"j": {"qpos": 0.1}}}}
    path = write(**task, train={"method": "shac"}, audit={"loss": [{"name": "speed", "qvel": "j", "type": "linear", "at": [0.25]}], "ledger": 1})
    body = json.loads(path.read_text())
    for key in ("steps", "variables", "optimizer"):
        body.pop(key)
    path.write_text(json.dumps(body))
    r = audit(run, path)
    assert r["runs"][0]["ran"] == 8 and 0 < r["runs"][0]["deviation"] < 1.0
    body["audit"]["spread"] = {"qpos": 0}
    path.write_text(json.dumps(body))
    assert "all starts would be the same" in run("audit", path, code=2).stderr


def test_a_trained_policy_is_audited(run, tmp_path):
    """As its example says: the policy from the file, over an episode."""
    folder = pathlib.Path(__file__).parents[2] / "examples" / "cartpole"
    task = json.loads((folder / "swing-up.json").read_text())
    task["train"].update(updates=2, worlds=4, window=8)
    task["episode"]["seconds"], task["audit"]["ledger"] = 1, 1
    (tmp_path / "swing-up.json").write_text(json.dumps(task))
    (tmp_path / "cartpole.xml").write_text((folder / "cartpole.xml").read_text())
    run("train", "swing-up.json", "-q", cwd=tmp_path)
    weights = dict(np.load(tmp_path / "swing-up.npz"))
    last = max(k for k in weights if k.endswith(".weight"))
    weights[last] = weights[last] + 1  # another policy than that of the first weights, whatever so few updates have found
    np.savez(tmp_path / "swing-up.npz", **weights)
    r = audit(run, "swing-up.json", "--policy", "swing-up.npz", cwd=tmp_path)
    start = json.loads(run("audit", "swing-up.json", "--json", cwd=tmp_path).stdout)
    assert r["runs"][0]["ran"] == 8 and r["runs"][0]["mean"] != start["runs"][0]["mean"] and r["objective"] == "upright"


def test_policies_that_count_steps_are_refused(run, write):
    act = {"observe": [{"qpos": "j"}, {"qvel": "j"}], "layers": [{"pid": 1, "kp": 8, "kd": 1, "ki": 1, "interval": 0.01}]}
    done = run("audit", write(**{**BALANCE, "policy": {**BALANCE["policy"], "act": act}}), code=3)
    assert "counts steps" in done.stderr


def test_starts_are_the_tasks_draws(run, write, tmp_path):
    """Of a stream that no iteration has; commands hold for a trajectory."""
    model = TASK["model"].replace("0 0 -.6", "0 0 -1.2")
    sample = {"init": [{"state": "qpos", "uniform": [-0.2, 0.2]}], "command": [{"components": [0], "uniform": [1, 2]}],
              "parameters": [{"parameter": "body_mass:1", "uniform": [1, 2], "as": "factor"}]}
    policy = {"every": 5, "observe": [{"command": 1}, {"qpos": "j"}, {"qvel": "j"}], "layers": [{"formula": ["5*(x0 - x1) - x2"]}]}
    task = {"model": model, "policy": policy, "steps": 200, "sample": sample, "loss": [{"name": "angle", "qpos": "j", "type": "linear"}]}
    seen = [audit(run, write(**task, audit={"seed": seed, "ledger": 0.1, "torque": 9})) for seed in (0, 0, 1)]
    assert seen[0] == seen[1] and seen[0]["runs"][0]["mean"] != seen[2]["runs"][0]["mean"]
    trained, half = seen[0]["runs"][0], seen[0]["runs"][1]
    assert trained["deviation"] > 0.05 and 0 < trained["least"] < trained["most"] < 2 and abs(half["deviation"] / trained["deviation"] - 1) < 0.02
    del task["sample"]["init"], task["sample"]["parameters"]
    task["sample"]["command"][0]["uniform"] = [1.5, 1.5 + 1e-12]
    assert audit(run, write(**task, audit={"ledger": 0.1, "torque": 9}))["runs"][0]["deviation"] < 1e-9
