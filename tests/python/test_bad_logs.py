"""What is wrong with a log or with what pb.identify is asked, by name: an error with file, line and column or the place, and a reason."""
import math

import numpy as np
import pytest

import pullback as pb

ARM = """<mujoco><option timestep=".01"/><worldbody><body name="upper" pos="0 0 1"><joint name="shoulder" axis="0 1 0" damping=".1"/>
<geom type="capsule" size=".03" fromto="0 0 0 .3 0 0" mass=".8"/><body name="lower" pos=".3 0 0"><joint name="elbow" axis="0 1 0" damping=".05"/>
<geom type="capsule" size=".02" fromto="0 0 0 .25 0 0" mass=".4"/></body></body></worldbody>
<actuator><motor name="drive" joint="shoulder"/></actuator></mujoco>"""
LOG = "time [s],elbow [rad],shoulder [rad]\n" + "".join(f"{.01 * k:.2f},{.1 * k:.1f},0.5\n" for k in range(11))
UNKNOWNS = {"dof_damping:elbow": {"start": .05, "lower": .01, "upper": 1}}
COLUMNS = {"time": np.arange(11) * .01, "elbow": np.arange(11) * .1, "shoulder": np.full(11, .5)}


def row(before, after):
    return LOG.replace(before, after, 1)


# name: the log (a text: a CSV; else columns), what else is asked, the error, and what it says
CASES = {
    "a word where a number must be": (row(",0.3,", ",fast,"), {}, pb.InputError, r"log\.csv:5: column 2 'elbow': expected a number, found 'fast'"),
    "a row without a time": (row("0.03,", ","), {}, pb.InputError, r"log\.csv:5: column 1 'time': a row without a time"),
    "times that go backwards": (row("0.03,", "0.01,"), {}, pb.InputError, r"log\.csv:5: column 1 'time': 0.01 s is not later than the row before it"),
    "times of columns that go backwards": ({**COLUMNS, "time": COLUMNS["time"][::-1]}, {}, pb.InputError, "time: row 1: 0.09 s is not later"),
    "times of columns that are none": ({**COLUMNS, "time": np.where(COLUMNS["time"] == .05, np.nan, COLUMNS["time"])}, {},
                                       pb.InputError, "row 5: .* is no time"),
    "two columns of one name": (row("shoulder [rad]", "elbow"), {}, pb.InputError, r"log\.csv:1: column 3: the name 'elbow' is that of column 2 already"),
    "units that do not fit": (row("[rad]", "[kg]"), {}, pb.InputError, r"log\.csv:1: column 2 'elbow': units do not fit"),
    "a unit of times that is none": (row("[s]", "[m]"), {}, pb.InputError, r"log\.csv:1: column 1 'time': units do not fit"),
    "gains of another number": (LOG, {"task": {}, "unknowns": [{"gain": "qpos:elbow", "start": [1, 2]}]},
                                pb.InputError, r"variables\[0\]\.start: expected 1 numbers"),
    "sigma zero": (LOG, {"sigma": 0}, pb.InputError, r"sigma: expected standard deviations above zero, found 0"),
    "sigma negative": (LOG, {"sigma": {"elbow": -1}}, pb.InputError, r"loss\[0\]\.sigma|loss\[1\]\.sigma: expected standard deviations above zero, found -1"),
    "sigma NaN": (LOG, {"sigma": math.nan}, pb.InputError, r"trajectories\[0\]\.loss\[0\]\.sigma: expected a number, found nan"),
    "a log of another robot": (LOG.replace("elbow", "knee").replace("shoulder", "hip"), {},
                               pb.ArgumentError, r"log\.csv: no column is of this model: time, knee, hip"),
    "more unknowns than data": ("time,elbow\n0,0\n.05,.1\n", {"unknowns": [*UNKNOWNS, "body_mass:lower"]},
                                pb.InputError, "variables: 6 unknowns, and 2 samples"),
    "bounds that nothing lies within": (LOG, {"unknowns": {"dof_damping:elbow": (2, 1)}}, pb.InputError, r"variables\[0\]: .* the lower bound 2 is above"),
    "a bound that is NaN": (LOG, {"unknowns": {"dof_damping:elbow": (math.nan, 1)}}, pb.InputError, r"variables\[0\]\.lower: expected a number, found nan"),
    "a prior of no deviation": (LOG, {"unknowns": {"dof_damping:elbow": {"prior": {"sigma": 0}}}}, pb.InputError, r"variables\[0\]\.prior\.sigma"),
    "a delay beyond the recording": (LOG, {"delay": {"qpos:elbow": 5}}, pb.InputError, r"delay: 5 s: the last sample is at 0.1 s"),
    "an unknown delay that starts there": (LOG, {"unknowns": {"delay:qpos:elbow": {"start": 5}}},
                                           pb.InputError, r"variables\[0\]\.start: 5 s: the last sample is at 0.1 s"),
    "no log at all": ("", {}, pb.InputError, r"log\.csv: has no header"),
    "a header without rows": ("time,elbow\n", {}, pb.InputError, r"log\.csv:1: a header without rows"),
    "no rows of columns": ({"time": [], "elbow": []}, {}, pb.InputError, "a header without rows"),
    "a recording shorter than the window": (LOG, {"window": 1}, pb.ArgumentError, r"window: 1 s is more than log\.csv has, 0.1 s"),
    "a negative spread of starts": (LOG, {"starts": 3, "optimizer": {"start_spread": -1}}, pb.InputError, r"optimizer\.start_spread: expected a number from 0"),
    "controls of another robot": (LOG, {"controls": {"time": [0, 1], "wheel": [1, 2]}}, pb.ArgumentError, "controls: no column is of an actuator: time, wheel"),
}


@pytest.mark.parametrize("name", CASES)
def test_what_identify_refuses(tmp_path, name):
    log, more, error, message = CASES[name]
    if isinstance(log, str):
        (tmp_path / "log.csv").write_text(log)
        log = tmp_path / "log.csv"
    output = tmp_path / "found.json"
    output.write_text("what was there before")
    with pytest.raises(error, match=message):
        pb.identify(ARM, log, more.get("unknowns", UNKNOWNS), output=output, **{k: v for k, v in more.items() if k != "unknowns"})
    assert output.read_text() == "what was there before" and len(list(tmp_path.iterdir())) <= 2


def test_gaps_of_a_target_and_numbers_that_are_none():
    """NaN in a target is a sample that is missing, as null is; elsewhere it is refused by its place."""
    task = {"model": ARM, "steps": 10, "variables": [{"parameter": "dof_damping:elbow"}], "optimizer": {"method": "gauss-newton", "iterations": 1},
            "loss": [{"qpos": "elbow", "at": [.05, .1], "target": np.array([[math.nan], [.2]])}]}
    other = {**task, "loss": [{"qpos": "elbow", "at": [.1], "target": .2}]}
    assert pb.optimize(task)["start_loss"] == pb.optimize(other)["start_loss"]
    with pytest.raises(pb.InputError, match=r"loss\[0\]\.target\[1\]\[0\]: expected a number, found inf"):
        pb.optimize({**task, "loss": [{**task["loss"][0], "target": [[0], [math.inf]]}]})
    with pytest.raises(pb.InputError, match=r"variables\[0\]\.start: expected a number, found nan"):
        pb.optimize({**task, "variables": [{"parameter": "dof_damping:elbow", "start": np.float32("nan")}]})


def test_results_and_paths_of_something_else(tmp_path):
    (tmp_path / "arm.xml").write_text(ARM)
    found = pb.identify(tmp_path / "arm.xml", COLUMNS, UNKNOWNS, output=tmp_path / "found.json")
    with pytest.raises(pb.InputError, match="has no row 'elbow'"):
        pb.loads(ARM.replace("elbow", "knee")).with_result(found)
    with pytest.raises(pb.InputError, match="a result of another task"):
        pb.optimize({"model": ARM, "steps": 3, "variables": [{"parameter": "dof_damping:shoulder"}], "loss": [{"qpos": "elbow"}]}, start=found)
    model = pb.load(tmp_path / "arm.xml", result=tmp_path / "found.json")
    with pytest.raises(pb.InputError, match="arm.xml: the model was read from this file: write another"):
        model.save(tmp_path / "arm.xml")
    assert (tmp_path / "arm.xml").read_text() == ARM
    model.save(tmp_path / "new.xml")
    model.save(tmp_path / "new.xml")  # its own work may be written again
