"""What is wrong with a log, a task of it or a result, by name: each is refused with file, line and column or JSON path, and a reason; nothing is lost."""
import json

import pytest

ARM = """<mujoco><option timestep=".01"/><worldbody><body name="upper" pos="0 0 1"><joint name="shoulder" axis="0 1 0" damping=".1"/>
<geom type="capsule" size=".03" fromto="0 0 0 .3 0 0" mass=".8"/><body name="lower" pos=".3 0 0"><joint name="elbow" axis="0 1 0" damping=".05"/>
<geom type="capsule" size=".02" fromto="0 0 0 .25 0 0" mass=".4"/><site name="tip" pos=".25 0 0"/></body></body></worldbody>
<actuator><motor name="drive" joint="shoulder"/></actuator></mujoco>"""
LOG = "time [s],elbow [rad]\n" + "".join(f"{.01 * k:.2f},{.1 * k:.1f}\n" for k in range(11))
VARIABLE = {"parameter": "dof_damping:elbow", "lower": 0.01, "upper": 1}
TERM = {"name": "log", "qpos": "elbow", "target": {"file": "log.csv"}}
FIT = {"model": "arm.xml", "steps": 10, "variables": [VARIABLE], "loss": [TERM], "optimizer": {"method": "gauss-newton", "iterations": 2}}
ALL = [{"parameter": "body_mass:lower", "lower": 0.1}, VARIABLE, {"state": "qvel"}]


def row(before, after):
    return LOG.replace(before, after, 1)


def variable(**keys):
    return {"variables": [{**VARIABLE, **keys}]}


def term(**keys):
    return {"loss": [{**TERM, **keys}]}


# name: the log, what is other in the task, where and why
CASES = {
    "a word where a number must be": (row(",0.3", ",fast"), {}, "loss[0].target.file: ", "log.csv:5: column 2 'elbow': expected a number, found 'fast'"),
    "a row without a time": (row("0.03,", ","), {}, "loss[0].target: ", "log.csv:5: column 1 'time': a row without a time"),
    "a time that is NaN": (row("0.03,", "nan,"), {}, "loss[0].target: ", "log.csv:5: column 1 'time': a row without a time"),
    "NaN in a task": (LOG, "NaN", "fit.json:1:", "not valid JSON: invalid token near 'NaN'"),
    "times that go backwards": (row("0.03,", "0.01,"), {}, "loss[0].target: ", "log.csv:5: column 1 'time': 0.01 s is not later than the row before it"),
    "two columns of one name": (row("elbow [rad]", "elbow,elbow"), {}, "log.csv:1: column 3: ", "the name 'elbow' is that of column 2 already"),
    "units that do not fit": (row("[rad]", "[kg]"), {}, "log.csv:1: column 2 'elbow': ", "units do not fit: the column is in kg, qpos of joint 'elbow' in rad"),
    "a unit of times that is none": (row("[s]", "[m]"), {}, "log.csv:1: column 1 'time': ", "units do not fit: times are in s"),
    "gains of another number": (LOG, term(gain=[1, 2]), "loss[0].gain: ", "expected 1 numbers, found 2"),
    "gains in rows": (LOG, term(gain=[[1, 2], [3, 4]]), "loss[0].gain: ", "expected 1 numbers"),
    "sigma zero": (LOG, term(sigma=0), "loss[0].sigma: ", "expected standard deviations above zero, found 0"),
    "sigma negative": (LOG, term(sigma=-1), "loss[0].sigma: ", "expected standard deviations above zero, found -1"),
    "a log of another robot": (row("elbow", "knee"), {}, "loss[0].target: ", "no column is the qpos of joint 'elbow'"),
    "more unknowns than data": ("time,elbow\n0,0\n.05,.1\n", {"variables": ALL}, "variables: ", "4 unknowns, and 2 samples"),
    "bounds that nothing lies within": (LOG, variable(lower=2, upper=1), "variables[0]: ", "the lower bound 2 is above the upper bound 1"),
    "a start out of bounds": (LOG, variable(start=5), "variables[0]: ", "starts at 5, outside of its bounds 0.01 to 1"),
    "a prior of no deviation": (LOG, variable(prior={"sigma": 0}), "variables[0].prior.sigma: ", "expected standard deviations above zero, found 0"),
    "a delay beyond the recording": (LOG, term(delay=5), "loss[0].delay: ", "5 s: the last sample is at 0.1 s"),
    "an unknown delay that starts there": (LOG, {"variables": [{"delay": "log", "start": 5}]}, "variables[0].start: ", "the last sample is at 0.1 s"),
    "no log at all": ("", {}, "log.csv: ", "has no header"),
    "a header without rows": ("time,elbow\n", {}, "log.csv:1: ", "a header without rows"),
    "a clock that shows other times": (LOG, term(target={"file": "log.csv", "start": 9}), "loss[0].target: ", "of times 0 to 0.1, has none from 9 to 9.1"),
    "a sample after the end": (row("0.10,", "5,"), {}, "loss[0].target: ", "time 5 is outside of the trajectory (0 to 0.1)"),
    "a negative spread of starts": (LOG, {"optimizer": {"starts": 3, "start_spread": -1}}, "optimizer.start_spread: ", "expected a number from 0"),
    "controls that come after the end": (LOG, {"controls": {"file": "acts.csv", "delay": 5}}, "controls.delay: ", "5 s: the trajectory ends at 0.1 s"),
    "an unknown delay of them": (LOG, {"controls": {"file": "acts.csv"}, "variables": [{"delay": "controls", "start": 5}]}, "variables[0].start: ",
                                 "the trajectory ends at 0.1 s"),
    "controls of another robot": (LOG, {"controls": {"file": "wheel.csv", "time": "time"}}, "controls: ", "no column is the control of actuator 'drive'"),
    "controls whose times go backwards": (LOG, {"controls": {"file": "back.csv"}}, "controls: ", "back.csv:3: column 1 'time': "),
}


@pytest.fixture
def place(tmp_path):
    files = {"arm.xml": ARM, "leg.xml": ARM.replace("elbow", "knee"), "log.csv": LOG, "fit.json": json.dumps(FIT),
             "wheel.csv": "time,wheel\n0,1\n1,2\n", "acts.csv": "time,drive\n0,1\n.05,2\n.2,1\n", "back.csv": "time,drive\n.1,1\n0,1\n",
             "leg.json": json.dumps(FIT).replace("arm", "leg").replace("elbow", "knee").replace("log.csv", "leg.csv"), "leg.csv": LOG.replace("elbow", "knee"),
             "other.json": json.dumps({**FIT, "variables": [{"parameter": "dof_damping:shoulder"}]})}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def refused(run, place, words, where, why, code=3):
    """With place and reason; every file is as it was."""
    before = {f.name: f.read_bytes() for f in place.iterdir()}
    said = run(*words.split(), code=code, cwd=place).stderr
    assert where in said and why in said, said
    assert {f.name: f.read_bytes() for f in place.iterdir()} == before


@pytest.mark.parametrize("name", CASES)
def test_bad_logs_are_refused(run, place, name):
    log, other, where, why = CASES[name]
    (place / "log.csv").write_text(log)
    text = json.dumps({**FIT, **(other if isinstance(other, dict) else {})})
    (place / "fit.json").write_text(text.replace("0.01", "NaN") if other == "NaN" else text)
    (place / "O.json").write_text("what was there before")
    refused(run, place, "optimize fit.json -o O.json -q", where, why)


RESULTS = {
    "a result of another model": ("info leg.xml --result R.json", "R.json:", "has no row 'elbow'"),
    "exported with it": ("export leg.xml --result R.json -o found.xml", "parameters.dof_damping:elbow: ", "has no row 'elbow'"),
    "with the task of another model": ("simulate leg.json --result R.json -o O.npz", "variables: 0 is 'dof_damping:elbow'", "a result of another task"),
    "a result of another task": ("simulate other.json --result R.json -o O.npz", "variables: 0 is 'dof_damping:elbow'", "a result of another task"),
    "begun there": ("optimize other.json --start R.json -o O.json", "R.json:", "a result of another task"),
    "a task for a result": ("simulate arm.xml --steps 3 --result fit.json -o O.npz", "fit.json:1: parameters: ", "is missing"),
    "no result": ("export arm.xml --result nowhere.json -o found.xml", "nowhere.json", "No such file"),
}


@pytest.mark.parametrize("name", RESULTS)
def test_results_of_something_else_are_refused(run, place, name):
    run(*"optimize fit.json -o R.json -q".split(), cwd=place)
    refused(run, place, *RESULTS[name], code=5 if name == "no result" else 3)


OWN = {
    "a model to its own path": ("export arm.xml -o arm.xml", 2, "this file is what the command reads"),
    "by another name": ("export arm.xml -o link.xml", 2, "this file is what the command reads"),
    "a task to the path of its model": ("export fit.json -o arm.xml", 3, "arm.xml: the model was read from this file: write another"),
    "with what was found": ("export fit.json --result R.json -o ./arm.xml", 3, "the model was read from this file"),
    "to a file that it includes": ("export whole.xml -o part.xml", 3, "part.xml: the model was read from this file"),
}


@pytest.mark.parametrize("name", OWN)
def test_nothing_is_exported_over_what_was_read(run, place, name):
    run(*"optimize fit.json -o R.json -q".split(), cwd=place)
    (place / "link.xml").symlink_to("arm.xml")
    (place / "part.xml").write_text('<mujoco><worldbody><body name="b"><joint/><geom size=".1"/></body></worldbody></mujoco>')
    (place / "whole.xml").write_text('<mujoco><include file="part.xml"/><worldbody><geom size=".1"/></worldbody></mujoco>')
    words, code, why = OWN[name]
    refused(run, place, words, "", why, code=code)
    run(*"export fit.json --result R.json -o found.xml -q".split(), cwd=place)
    run(*"export found.xml -o again.xml -q".split(), cwd=place)
    assert (place / "found.xml").read_bytes() == (place / "again.xml").read_bytes()


def test_more_unknowns_than_data_where_that_is_meant(run, place):
    (place / "log.csv").write_text("time,elbow\n0,0\n.05,.1\n")
    for more in {"uncertainty": False}, {"variables": [{**v, "prior": {"sigma": 1}} for v in ALL]}, {"variables": [{"control": "drive"}]}:
        (place / "fit.json").write_text(json.dumps({**FIT, "variables": ALL, **more}))
        run(*"optimize fit.json -o O.json -q".split(), code=(0, 1), cwd=place)
