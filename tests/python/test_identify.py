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
<actuator><motor name="drive" joint="shoulder" gear="2"/></actuator>
<sensor><gyro name="gyro" site="tip"/><framepos name="tip" objtype="site" objname="tip"/></sensor>
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


def test_a_log_that_is_held_out_tells_of_the_model():
    """Its loss is its samples less what its beginning takes, whatever the noise where it begins; with delays, gains and biases that were found."""
    logs, unknowns = [record(k, delay=.011) for k in (1, 2)], [*({"parameter": k, **v} for k, v in UNKNOWNS.items()), {"delay": "sensor:gyro"}]
    held_out = record(3, delay=.011)
    held_out["gyro.y"] = 1.5 * held_out["gyro.y"] + .2
    for log in logs:
        log["gyro.y"] = 1.5 * log["gyro.y"] + .2
    more = [{"gain": "sensor:gyro", "components": [1]}, {"bias": "sensor:gyro", "components": [1]}]
    fit = pb.identify(ARM, logs, unknowns + more, test=held_out, **HOW)
    samples = sum(int(np.isfinite(held_out[c]).sum()) for c in ("qpos:shoulder", "qpos:elbow", "gyro.x", "gyro.y", "gyro.z"))
    assert .75 * samples < fit["test_loss"] < 1.3 * samples, fit["test_loss"]
    wrong = pb.identify(ARM, logs, ["dof_damping:shoulder"], test=held_out, **HOW)
    assert wrong["test_loss"] > 5 * fit["test_loss"]


def test_a_model_keeps_what_its_file_cannot_say():
    """Parameters without an attribute of MJCF go with the task, and what no task can say is warned of."""
    law = pb.loads(ARM).with_params({"dof_frictionloss": [.05, 0.], "dof_stiction": [.04, 0.]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = pb.identify(law, record(1), ["dof_stiction:shoulder"], sigma={"qpos": SIGMA, "gyro": 10 * SIGMA}, optimizer={"iterations": 0})
    assert fit["variables"][0]["start"] == [.04]
    with pytest.warns(RuntimeWarning, match="cannot say"):
        pb.identify(pb.loads(ARM, contact={"kappa": 1e-3}), record(1), ["dof_damping:shoulder"], optimizer={"iterations": 0})


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


def test_a_body_that_turns_by_windows():
    """A free body in flight, whose log shows places and turns and no velocities: those of each window begin at their slopes."""
    text = """<mujoco><option timestep=".002" integrator="RK4"/><worldbody><body name="stone"><freejoint name="stone"/>
    <geom type="box" size=".1 .2 .3" mass="2"/></body></worldbody></mujoco>"""
    model, rng, n = pb.loads(text), np.random.default_rng(3), 500
    state = model.init()
    state.qvel[:] = [.5, 0, 4, 3, .2, -1]
    r = model.rollout(state, steps=n)
    rows = np.arange(0, n + 1, 8)
    columns = {"time": np.asarray(r.time)[rows]}
    for k, c in enumerate(("x", "y", "z", "qw", "qx", "qy", "qz")):
        sign, sigma = (1, 1e-3) if k < 3 else (np.where(np.arange(len(rows)) % 2, -1, 1), 5e-4)
        columns[f"stone.{c}"] = np.asarray(r.qpos)[rows, k] * sign + sigma * rng.standard_normal(len(rows))
    fit = pb.identify(text, columns, {"gravity:2": {"start": -7.}}, sigma={"stone": 1e-3}, window=.25, optimizer={"iterations": 8})
    assert sum(v["name"].startswith("qvel@") for v in fit["variables"]) == 4
    assert abs(fit.values["gravity:2"] + 9.81) < 4 * fit.deviations["gravity:2"] < .4, fit
    assert fit["uncertainty"]["warning"] is None


def test_intervals_by_clusters():
    """Logs of arms that are not quite the same: the spread of their answers is what the interval is to say."""
    logs = []
    for k in range(6):
        columns = record(20 + k)
        columns["qpos:shoulder"] = columns["qpos:shoulder"] * (1 + .03 * (-1) ** k)
        logs.append(columns)
    how = {**HOW, "start": "log", "optimizer": {"iterations": 10}}
    by_samples, by_logs = (pb.identify(ARM, logs, UNKNOWNS, clusters=clusters, **how) for clusters in (False, True))
    assert by_samples["uncertainty"]["clusters"] is None and by_logs["uncertainty"]["clusters"] == 6
    for name in UNKNOWNS:
        assert by_samples.values[name] == pytest.approx(by_logs.values[name], rel=1e-9)
        assert by_logs.deviations[name] > 1.5 * by_samples.deviations[name], (name, by_samples, by_logs)


def test_a_column_counts_once():
    """A bare name that a joint and a sensor have is refused; that of a free joint and its body is one thing."""
    columns = {"time": [0., .1, .2], "shoulder": [0., .1, .2]}
    with pytest.raises(pb.ArgumentError, match="column 'shoulder' may be of a joint and of a sensor"):
        pb.identify(ARM.replace('name="gyro" site', 'name="other" site').replace("<framepos", '<jointvel name="shoulder" joint="shoulder"/><framepos'),
                    columns, ["dof_damping:shoulder"])
    fit = pb.identify(ARM, {**columns, "tip.x": [.5, .5, .5]}, ["dof_damping:shoulder"], start="log", sigma=1., optimizer={"iterations": 1})
    assert [t["name"] for t in fit["terms"]] == ["qpos:shoulder", "sensor:tip"] and fit["uncertainty"]["samples"] == 6


def test_windows_leave_gaps_out_and_count_each_sample_once():
    """On the grid of the windows, too, and where a gap of the log, or of a column, is longer than a window."""
    model, state, n = pb.loads(ARM), pb.loads(ARM).init(), 500
    state.qpos[:], state.qvel[:] = (.4, -.6), (0., 1.)
    r = model.rollout(state, np.zeros((n, 1)))
    rows = np.arange(0, n, 5)
    log = {"time": np.asarray(r.time)[rows], "control:drive": np.zeros(len(rows))}
    for k, name in enumerate(("qpos:shoulder", "qpos:elbow")):
        log[name] = np.asarray(r.qpos)[rows, k] + SIGMA * np.random.default_rng(k).standard_normal(len(rows))
    assert pb.identify(ARM, log, ["body_mass:lower"], window=.1, sigma=SIGMA)["uncertainty"]["samples"] == 200
    log["qpos:elbow"][30:60] = math.nan
    assert pb.identify(ARM, log, ["body_mass:lower"], window=.1, sigma=SIGMA)["uncertainty"]["samples"] == 170
    log = {name: np.delete(column, np.s_[35:65]) for name, column in log.items()}
    fit = pb.identify(ARM, log, ["body_mass:lower"], window=.1, sigma=SIGMA)
    assert len(fit.trajectories) == 8 and abs(fit.values["body_mass:lower"] - .4) < 4 * fit.deviations["body_mass:lower"]


def test_an_interrupted_fit_of_arrays_goes_on(tmp_path):
    """Columns in memory and a Model become files, which the same call finds again; when the run is done they are gone."""
    model, columns, calls = pb.loads(ARM), record(9), []

    def stop(*_):
        calls.append(1)
        if len(calls) == 3:  # two of four searches are at their end
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pb.identify(model, columns, UNKNOWNS, output=tmp_path / "fit.json", progress=stop, starts=4, **HOW)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["fit.logs", "fit.state"]
    fit = pb.identify(model, columns, UNKNOWNS, output=tmp_path / "fit.json", starts=4, **HOW)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["fit.json", "fit.trajectory.npz"]
    assert fit.values == pb.identify(model, columns, UNKNOWNS, starts=4, **HOW).values


def test_what_is_not_determined_is_told():
    few = {"TimeStamp": [0, .01], "shoulder": [.1, .11], "elbow": [.2, .2]}
    with pytest.raises(pb.InputError, match="5 unknowns, and 4 samples that could tell them"):
        pb.identify(ARM, few, ["body_mass:lower"])
    assert "no deviations: a single cluster has no spread" in repr(pb.identify(ARM, record(4), UNKNOWNS, clusters=True, **HOW))


def test_delay_gain_and_inertia():
    columns = record(6, delay=.011)
    fit = pb.identify(ARM, columns, [*UNKNOWNS, "delay:sensor:gyro", {"gain": "sensor:gyro", "components": [1]}], **HOW)
    assert abs(fit.values["delay:sensor:gyro"] - .011) < 4 * fit.deviations["delay:sensor:gyro"] < 2e-3
    assert abs(fit.values["gain:sensor:gyro"] - 1) < 4 * fit.deviations["gain:sensor:gyro"] < .1
    body = pb.identify(ARM, record(7), ["inertia:lower"], **HOW)
    assert body.values["lower"].shape == (10,) and abs(body.values["lower"][0] - .4) < .4


def test_a_delay_of_an_actuator_looks_back_at_the_log():
    """What acts first is what was commanded before: at the log's beginning its first sample, in windows what it has before them."""
    def late(delay):
        return ARM.replace('gear="2"', f'gear="2" nsample="8" interp="linear" delay="{delay}"')
    model, rng = pb.loads(late(.0093)), np.random.default_rng(3)
    times = np.arange(500) * model.timestep
    drive, state = 1.5 + np.sin(9 * times), model.init()
    state.qpos[:] = .4, -.6
    state.history[10:] = drive[0]  # behind a number, a place and 8 times
    found = np.asarray(model.rollout(state, drive[:, None]).qpos)[:-1]
    log = {"time": times, "control:drive": drive, "qpos:shoulder": found[:, 0], "qpos:elbow": found[:, 1]}
    for name in ("qpos:shoulder", "qpos:elbow"):
        log[name] = log[name] + 1e-5 * rng.standard_normal(len(times))
    unknown = {"actuator_delay:drive": {"start": .015, "lower": 1.01 * model.timestep, "scale": .01}}
    for window in (None, .3):
        fit = pb.identify(late(.015), log, unknown, sigma=1e-5, window=window)
        assert abs(fit.values["actuator_delay:drive"] - .0093) < 4 * fit.deviations["actuator_delay:drive"] < 1e-4, repr(fit)
        assert abs(fit["uncertainty"]["chi_square"] - 1) < .3


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
    (dict(log={"time": .002 * np.arange(1200), "elbow": np.zeros(1200)}, sigma=1, window=1e-9), pb.InputError,
     "more than 1000 trajectories, with their windows"),
    (dict(start="here"), pb.ArgumentError, "start: expected"),
    (dict(loss="huber", sigma={"qpos": SIGMA}), pb.ArgumentError, "squares up to one sigma, and sensor:gyro has none"),
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
