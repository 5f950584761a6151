"""pb.identify: parameters from logs as they come, how sure they are, and what is refused."""
import math
import re
import warnings

import numpy as np
import pytest

import pullback as pb

ARM = """<mujoco><option timestep=".002"/><worldbody><body name="upper" pos="0 0 1"><joint name="shoulder" axis="0 1 0" damping=".1"/>
<geom type="capsule" size=".03" fromto="0 0 0 .3 0 0" mass=".8"/><body name="lower" pos=".3 0 0"><joint name="elbow" axis="0 1 0" damping=".05"/>
<geom type="capsule" size=".02" fromto="0 0 0 .25 0 0" mass=".4"/><site name="tip" pos=".25 0 0"/></body></body></worldbody>
<actuator><motor name="drive" joint="shoulder" gear="2"/></actuator><sensor><gyro name="gyro" site="tip"/><framepos name="tip" objtype="site" objname="tip"/></sensor>
</mujoco>"""
SIGMA = 2e-3


def record(seed, seconds=1.0, sigma=SIGMA, qpos=(.4, -.6), qvel=(0., 1.), delay=0.):
    """A log of the arm: 90 Hz with jitter, gaps, noise, a control at each row, held."""
    rng = np.random.default_rng(seed)
    model = pb.loads(ARM)
    n = round(seconds / model.timestep)
    times = np.sort(rng.uniform(0, seconds, round(90 * seconds)))
    drive = np.sin(9 * times + seed)
    state = model.init()
    state.qpos[:], state.qvel[:] = qpos, qvel
    # what a step takes is the mean of the recording over it
    edges = np.arange(n + 1) * model.timestep
    fine = np.linspace(0, 1, 401)[:-1] + 1 / 800
    ctrl = np.array([drive[np.clip(np.searchsorted(times, a + fine * model.timestep, side="right") - 1, 0, None)].mean() for a in edges[:-1]])
    r = model.rollout(state, ctrl[:, None])
    at = lambda rows, late=0.: np.stack([np.interp(times - late, np.asarray(r.time), c) for c in np.asarray(rows).T], axis=1)
    columns = {"time": times, "control:drive": drive}
    for k, name in enumerate(("qpos:shoulder", "qpos:elbow")):
        columns[name] = at(r.qpos)[:, k] + sigma * rng.standard_normal(len(times))
    for k, name in enumerate(("gyro.x", "gyro.y", "gyro.z")):
        columns[name] = at(r.sensordata, delay)[:, k] + 10 * sigma * rng.standard_normal(len(times))
    for name in ("qpos:shoulder", "qpos:elbow", "gyro.y"):
        columns[name][rng.random(len(times)) < .05] = np.nan
    return columns


UNKNOWNS = {"body_mass:lower": {"start": .6, "lower": .01}, "dof_damping:shoulder": {"start": .2, "lower": 0}, "actuator_gear:drive:0": {"start": 1.5}}
TRUTH = {"body_mass:lower": .4, "dof_damping:shoulder": .1, "actuator_gear:drive:0": 2.}
HOW = {"sigma": {"qpos": SIGMA, "gyro": 10 * SIGMA}}


def write(path, columns, units=()):
    units = dict(units)
    with open(path, "w", encoding="utf-8") as f:
        f.write(",".join(f"{k} [{units[k]}]" if k in units else k for k in columns) + "\n")
        for row in zip(*columns.values()):
            f.write(",".join("" if math.isnan(x) else repr(float(x)) for x in row) + "\n")
    return path


def test_a_log_goes_in_as_it_comes(tmp_path):
    (tmp_path / "arm.xml").write_text(ARM)
    columns = record(1)
    degrees = {**columns, "qpos:elbow": np.degrees(columns["qpos:elbow"]), "time": 1e3 * columns["time"]}
    log = write(tmp_path / "log.csv", degrees, {"qpos:elbow": "deg", "time": "ms"}.items())
    fit = pb.identify(tmp_path / "arm.xml", log, UNKNOWNS, **HOW)
    for name, truth in TRUTH.items():
        assert abs(fit.values[name] - truth) < 4 * fit.deviations[name] < .1 * truth, repr(fit)
        low, high = fit.intervals[name]
        assert low < fit.values[name] < high
    about = fit["uncertainty"]
    assert about["sigma"] == "stated" and abs(about["chi_square"] - 1) < .3 and about["warning"] is None
    assert "body_mass:lower" in repr(fit) and "+-" in repr(fit)

    # the same from columns in memory, from a Model, from arrays in an NPZ
    again = pb.identify(ARM, columns, UNKNOWNS, **HOW)
    assert abs(again.values["body_mass:lower"] - fit.values["body_mass:lower"]) < 1e-9
    np.savez(tmp_path / "log.npz", **columns)
    assert pb.identify(ARM, tmp_path / "log.npz", UNKNOWNS, **HOW).values == again.values


def test_several_logs_one_of_them_held_out():
    logs = [record(2), record(3, qpos=(1, 0))]
    fit = pb.identify(ARM, logs, list(UNKNOWNS), test=record(4, qpos=(-.5, .3)), **HOW)
    assert len(fit.trajectories) == 3 and math.isfinite(fit["test_loss"])
    assert {t.get("role") for t in fit["terms"] if t["trajectory"] == 2} == {"test"}
    assert all(abs(fit.values[name] - truth) < 4 * fit.deviations[name] for name, truth in TRUTH.items())


def test_windows_and_what_the_log_shows_of_the_start():
    columns = record(5, seconds=1.5)
    whole = pb.identify(ARM, columns, UNKNOWNS, **HOW)
    pieces = pb.identify(ARM, columns, UNKNOWNS, window=.3, **HOW)
    assert len(pieces.trajectories) == 5
    for name, truth in TRUTH.items():
        assert abs(pieces.values[name] - truth) < 4 * pieces.deviations[name]
        assert whole.deviations[name] < pieces.deviations[name] < 5 * whole.deviations[name]
    fixed = pb.identify(ARM, columns, UNKNOWNS, start="log", **HOW)
    assert len(fixed["variables"]) == 3


def test_delay_gain_and_inertia():
    columns = record(6, delay=.011)
    fit = pb.identify(ARM, columns, [*UNKNOWNS, "delay:sensor:gyro", {"gain": "sensor:gyro", "components": [1]}], **HOW)
    assert abs(fit.values["delay:sensor:gyro"] - .011) < 4 * fit.deviations["delay:sensor:gyro"] < 2e-3
    assert abs(fit.values["gain:sensor:gyro"] - 1) < 4 * fit.deviations["gain:sensor:gyro"] < .1
    body = pb.identify(ARM, record(7), ["inertia:lower"], **HOW)
    assert body.values["lower"].shape == (10,) and abs(body.values["lower"][0] - .4) < .4


@pytest.mark.parametrize("change, error, message", [
    (dict(log={"time": [0, 1], "wheel": [1, 2]}), pb.ArgumentError, "no column is of this model: time, wheel"),
    (dict(log={"clock": [0, 1], "elbow": [1, 2]}), pb.ArgumentError, "expected a column 'time'"),
    (dict(log={"time": [0, 1], "elbow": [1, 2, 3]}), pb.ArgumentError, "columns of one length"),
    (dict(log={"time": [1, 0], "elbow": [1, 2]}), pb.InputError, "time"),
    (dict(log=3), pb.ArgumentError, "log: expected the path"),
    (dict(log=[]), pb.ArgumentError, "at least one"),
    (dict(log="nowhere.csv"), pb.FileError, "nowhere.csv"),
    (dict(unknowns=[]), pb.ArgumentError, "at least one"),
    (dict(unknowns=["body_mas:lower"]), pb.InputError, "body_mass"),
    (dict(unknowns={"body_mass:lower": 3}), pb.ArgumentError, "unknowns: body_mass:lower"),
    (dict(unknowns={"body_mass:lower": (2, 1)}), pb.InputError, "bound"),
    (dict(log={"time": [0, 1], "elbow": [math.nan, math.nan]}), pb.ArgumentError, "log 0: no sample in elbow"),
    (dict(test={"time": [0, 1], "wheel": [1, 2]}), pb.ArgumentError, "test 0: no column"),
    (dict(sigma={"elbo": 1}), pb.ArgumentError, "sigma: nothing measured is called elbo; there are qpos:elbow"),
    (dict(delay={"gyr": .1}), pb.ArgumentError, "delay: nothing measured is called gyr"),
    (dict(controls=[1]), pb.ArgumentError, "controls: the logs have columns"),
    (dict(starts=0), pb.ArgumentError, "starts: expected at least one"),
    (dict(log={"time": .002 * np.arange(1200), "elbow": np.zeros(1200)}, sigma=1, window=1e-9), pb.ArgumentError,
     "window: 1199 pieces, and 1000"),
    (dict(start="here"), pb.ArgumentError, "start: expected"),
    (dict(window=-1), pb.ArgumentError, "window: expected"),
    (dict(init=3), pb.ArgumentError, "init: expected a State"),
    (dict(model="missing.xml"), pb.FileError, "missing.xml")])
def test_what_is_refused(change, error, message):
    given = {"model": ARM, "log": record(1), "unknowns": UNKNOWNS, **HOW, **change}
    with pytest.raises(error, match=message):
        pb.identify(given.pop("model"), given.pop("log"), given.pop("unknowns"), **given)


def test_a_dead_sensor_says_nothing_and_delays_go_by_any_name():
    columns = record(1) | {"qpos:elbow": np.full(90, math.nan)}
    fit = pb.identify(ARM, columns, ["dof_damping:shoulder"], delay={"gyro": 0.}, **HOW)
    assert {t["name"] for t in fit["terms"]} == {"qpos:shoulder", "sensor:gyro"} and fit.deviations["dof_damping:shoulder"] > 0

    # a gap that is longer than a piece; one sensor's, and all
    gap = {name: np.where((columns["time"] > .35) & (columns["time"] < .65), math.nan, column)
           for name, column in record(1).items() if not name.startswith("control") and name != "time"}
    columns = record(1) | gap
    pieces = pb.identify(ARM, columns, ["dof_damping:shoulder"], window=.1, **HOW)
    assert len(pieces.trajectories) == 8 and pieces.deviations["dof_damping:shoulder"] > 0
    pieces = pb.identify(ARM, columns | {"gyro.y": record(1)["gyro.y"]}, ["dof_damping:shoulder"], window=.1, **HOW)
    assert len(pieces.trajectories) == 10 and len(pieces["terms"]) < 30
    late = [pb.identify(ARM, record(1), ["dof_damping:shoulder"], delay={name: .01}, optimizer={"iterations": 0}, **HOW)["loss"]
            for name in ("gyro", "sensor:gyro", "sensor", "qpos")]
    assert late[0] == late[1] == late[2] != late[3]


def test_a_logarithm_needs_no_bound():
    """A damping may be negative in a model, and its logarithm begins at zero by itself; a bound below is refused."""
    fit = pb.identify(ARM, record(3), [{"parameter": "dof_damping:elbow", "transform": "log", "start": .2}], **HOW)
    assert abs(fit.values["dof_damping:elbow"] - .05) < 4 * fit.deviations["dof_damping:elbow"] < .05
    with pytest.raises(pb.InputError, match="a logarithm needs a positive start and bounds that are not negative"):
        pb.identify(ARM, record(3), [{"parameter": "dof_damping:elbow", "transform": "log", "lower": -1}], **HOW)


def test_a_wrong_model_is_warned_of():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = pb.identify(ARM.replace('damping=".05"', 'damping="0" frictionloss=".1"'), record(8), ["body_mass:lower"], **HOW)
    assert "the model cannot be right" in fit["uncertainty"]["warning"] and "warning" in repr(fit)


def test_recordings_are_read(tmp_path):
    path = write(tmp_path / "a.csv", {"time": [0, 1], "knee": [90, math.nan]}, {"knee": "deg"}.items())
    read = pb.recording(path)
    assert list(read) == ["time", "knee"] and abs(read["knee"][0] - np.pi / 2) < 1e-15 and np.isnan(read["knee"][1])
    np.save(tmp_path / "b.npy", np.ones((2, 3)))
    assert pb.recording(tmp_path / "b.npy")[""].shape == (2, 3)
    with pytest.raises(pb.FileError, match="c.csv"):
        pb.recording(tmp_path / "c.csv")


def test_of_a_body_what_the_log_sees_is_said_of_each_number():
    """The last link of a planar arm: mass, center in the plane and the moment about the hinges' axis, nothing else, though a
    minimizer moves density and spreads, not all of which are determined alone. Priors leave nothing open."""
    fit = pb.identify(ARM, record(9), ["inertia:lower"], **HOW)
    body = next(v for v in fit["variables"] if v["name"] == "lower")
    seen = {name for name, words in zip(body["components"], body["determined"]) if words is None}
    assert seen == {f"lower[{k}]" for k in ("mass", "x", "z", "yy")} and set(body["determined"]) == {None, "not determined"}
    truth = {"lower[mass]": .4, "lower[x]": .125, "lower[z]": 0}
    for name, value, sure in zip(body["components"], body["value"], body["deviation"]):
        assert (sure is not None) == (name in seen)
        assert name not in truth or abs(value - truth[name]) < 4 * sure < .1 * .4, name

    # advice is of what was moved, and calls it so; notes of values say nothing of it
    named = set(re.findall(r"lower\[([\w ]+)\]", " ".join(fit["advice"])))
    assert "spread y" in named and not named & {"mass", "xx", "yy", "zz", "xy"} and body["notes"] == [None] * 10

    known = pb.identify(ARM, record(9), [{"body": "lower", "transform": "inertia", "prior": {"sigma": .3}}], **HOW)
    body = next(v for v in known["variables"] if v["name"] == "lower")
    assert body["determined"] == [None] * 10 and all(d > 0 for d in body["deviation"])
