"""Parameters of a model from what was measured of it: pb.identify."""
from __future__ import annotations

import math
import os
import re
import tempfile
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from . import _core
from .arrays import path_of
from .commands import Path, Result, optimize
from .errors import ArgumentError, InputError
from .model import Model, load, loads
from .progress import Progress
from .state import State

if TYPE_CHECKING:
    from .arrays import Array, ArrayLike

Log: TypeAlias = str | os.PathLike[str] | Mapping[str, "ArrayLike"]

# What a column may be of: the word in front of a name, the quantity of a term, whose numbers are named how (docs/csv.md).
_TURN = (".qw", ".qx", ".qy", ".qz")
_SUFFIXES = {("qpos", "free"): (".x", ".y", ".z", *_TURN), ("qpos", "ball"): _TURN,
             ("qvel", "free"): (".vx", ".vy", ".vz", ".wx", ".wy", ".wz"), ("qvel", "ball"): (".wx", ".wy", ".wz")}


# ---- recordings -----------------------------------------------------------------------------------------------------------------
def recording(path: Path) -> dict[str, Array]:
    """The arrays of a file of recorded data by name: columns of a CSV in SI, a missing sample NaN (docs/csv.md); arrays of an NPZ; of an NPY "".

    Raises FileError, InputError with file, line and column.
    """
    kinds = {"d": np.float64, "i": np.int32}
    return {name: np.array(memory) if kind == "U" else np.frombuffer(memory, kinds[kind]).reshape(shape)
            for name, (kind, shape, memory) in _core.recording(path_of(path, "path")).items()}


class _Log:
    """A log: where its file is, and its columns."""

    def __init__(self, given: object, folder: str, number: int, called: str = "log"):
        self.name, self.own = f"{called} {number % 1000}", False
        if isinstance(given, (str, os.PathLike)):
            self.path = os.path.abspath(path_of(given, "log"))
            self.name = os.path.basename(self.path)
            arrays = recording(self.path)
            self.own = self.path.endswith(".csv")
            if not self.own:  # arrays become columns
                self.path = self._write({k: v for k, v in arrays.items() if v.dtype.kind in "fi"}, os.path.join(folder, f"log{number}.csv"))
        elif isinstance(given, Mapping):
            self.path = self._write(given, os.path.join(folder, f"log{number}.csv"))
        else:
            raise ArgumentError(f"log: expected the path of a CSV or NPZ, or a dict of columns, found {type(given).__name__}")
        self.columns = {k: v for k, v in recording(self.path).items() if v.dtype.kind in "fi"}
        called = {name.lower(): name for name in reversed(self.columns)}
        self.time_name = next((called[name] for name in ("time", "t", "timestamp") if name in called), "")
        time = self.columns.get(self.time_name)
        if time is None or time.ndim != 1 or len(time) < 2:
            raise ArgumentError(f"{self.name}: expected a column 'time' of two rows at least; there are {', '.join(self.columns) or 'none'}")
        self.time = time
        later = np.isfinite(time) & (np.diff(time, prepend=-np.inf) > 0)
        self.ordered = bool(later.all())
        if not self.ordered and not self.own:  # the reader of a file knows the line
            k = int(np.argmin(later))
            why = "is no time" if not np.isfinite(time[k]) else f"is not later than the row before it, of {time[k - 1]:.9g} s"
            raise InputError(f"{self.name}: {self.time_name}: row {k}: {time[k]:.9g} s {why}")
        for name, column in self.columns.items():
            if column.shape != time.shape:
                raise ArgumentError(f"{self.name}: {name} has shape {column.shape}, expected that of the times, {time.shape}")

    def _write(self, given, path):
        columns = {}
        for name, values in given.items():
            array = np.asarray(values, dtype=float)
            if array.ndim == 2:
                columns.update({f"{name}:{k}": array[:, k] for k in range(array.shape[1])})
            elif array.ndim == 1:
                columns[str(name)] = array
            else:
                raise ArgumentError(f"{self.name}: {name}: expected a column, or a row for each time, found shape {array.shape}")
        lengths = {len(v) for v in columns.values()}
        if len(lengths) != 1:
            raise ArgumentError(f"{self.name}: expected columns of one length, found {', '.join(f'{k}: {len(v)}' for k, v in columns.items()) or 'none'}")
        with open(path, "w", encoding="utf-8") as f:
            f.write(",".join('"' + name.replace('"', '""') + '"' for name in columns) + "\n")
            for row in np.stack(list(columns.values()), axis=1):
                f.write(",".join("" if np.isnan(x) else repr(float(x)) for x in row) + "\n")
        return path

    def find(self, word, name, suffix):
        """The column of a number of an object: behind the word of its quantity, or by its name alone."""
        if f"{word}:{name}{suffix}" in self.columns:
            return f"{word}:{name}{suffix}"
        bare = f"{name}{suffix}"
        return bare if name and bare in self.columns and not (word == "qvel" and not suffix) else None



# ---- what is measured -----------------------------------------------------------------------------------------------------------
def _objects(about):
    """(word, name, suffixes) of all that a log may have columns of."""
    for joint in about["joints"]:
        for word in ("qpos", "qvel"):
            yield word, joint["name"], _SUFFIXES.get((word, joint["type"]), ("",))
    for sensor in about["sensors"]:
        n = sensor["dim"]
        yield "sensor", sensor["name"], {1: ("",), 3: (".x", ".y", ".z"), 4: (".w", ".x", ".y", ".z")}.get(n, tuple(f":{k}" for k in range(n)))
    for word, things in ("site", about["sites"]), ("body", about["bodies"]):
        for thing in things:
            yield word, thing["name"], (".x", ".y", ".z")


def _controls(about, log, named=frozenset()):
    """Columns of all controls, or none of any; named: what a bare name stands for already."""
    columns = []
    for actuator in about["actuators"]:
        name = actuator["name"]
        column = f"control:{name}" if f"control:{name}" in log.columns or name in named else name
        if column in log.columns:
            columns.append(column)
    if columns and len(columns) < len(about["actuators"]):
        raise ArgumentError(f"{log.name}: has controls of {', '.join(columns)}, and not of all actuators")
    return columns


class _Measured:
    """The terms that the columns of a log make, and its columns of controls."""

    def __init__(self, about, log):
        self.terms = []
        used = {log.time_name}
        for word, name, suffixes in _objects(about):
            columns = [log.find(word, name, s) or log.find(word, name, f":{k}") for k, s in enumerate(suffixes)]
            turn = word == "qpos" and suffixes[-4:] == _TURN
            if turn and not all(columns[-4:]):
                columns[-4:] = [None] * 4
            for k, column in enumerate(columns):  # counted once: a joint's or sensor's before what it sits on
                if column in used and word == "sensor":
                    raise ArgumentError(f"{log.name}: column '{column}' may be of a joint and of a sensor, '{name}'; expected 'qpos:{column}' or "
                                        f"'sensor:{column}' (docs/csv.md)")
                columns[k] = None if column in used else column
            if not any(columns):
                continue

            # the four numbers of a quaternion are compared as three
            plain = len(suffixes) - 4 * turn
            parts = [k for k in range(plain) if columns[k]] + ([plain, plain + 1, plain + 2] if turn and columns[-1] else [])
            self.terms.append((word, name, None if len(parts) == plain + 3 * turn else parts, [c for c in columns if c]))
            used.update(c for c in columns if c)

        named = {joint["name"] for joint in about["joints"]} | {sensor["name"] for sensor in about["sensors"]}
        self.controls = _controls(about, log, named)
        self.other = [c for c in log.columns if c not in used and c not in self.controls]
        if self.terms and all(np.isnan(log.columns[c]).all() for *_, columns in self.terms for c in columns):
            raise ArgumentError(f"{log.name}: no sample in {', '.join(c for *_, columns in self.terms for c in columns)}: all are missing")
        if not self.terms:
            raise ArgumentError(f"{log.name}: no column is of this model: {', '.join(log.columns)}; columns are named as joints, sensors, sites "
                                "and bodies are (docs/csv.md)")

    def name(self, term):
        return f"{term[0]}:{term[1]}"


# ---- the task -------------------------------------------------------------------------------------------------------------------
def _of(given, term, used):
    """Of a term what is given for all, or by its name, its object's or its quantity's; used gets the key."""
    if not isinstance(given, Mapping):
        return given
    word, name = term[:2]
    for key in (f"{word}:{name}", name, word):
        if key in given:
            used.add(key)
            return given[key]
    return None


def _variables(unknowns):
    """Variables of a task from what a user writes: names, or names with what is known of them, or whole variables."""
    if isinstance(unknowns, str):
        unknowns = [unknowns]
    pairs = unknowns.items() if isinstance(unknowns, Mapping) else ((u, None) if isinstance(u, str) else (None, u) for u in unknowns)
    out = []
    for name, about in pairs:
        if name is None:
            if not isinstance(about, Mapping):
                raise ArgumentError(f"unknowns: expected names and dicts, found {type(about).__name__}")
            out.append(dict(about))
            continue
        more = {"lower": about[0], "upper": about[1]} if isinstance(about, Sequence) and not isinstance(about, str) and len(about) == 2 else about
        if more is not None and not isinstance(more, Mapping):
            raise ArgumentError(f"unknowns: {name}: expected None, (lower, upper) or a dict, found {about!r}")
        kind, _, of = str(name).partition(":")
        if kind in ("delay", "gain", "bias") and of:
            variable: dict[str, Any] = {kind: of}
        elif kind == "inertia" and of:
            variable = {"body": of, "transform": "inertia"}
        else:
            variable = {"parameter": name}
        out.append({**variable, **(more or {})})
    if not out:
        raise ArgumentError("unknowns: expected at least one")
    return out


class Fit(Result):
    """What pb.identify found: a Result with the unknowns by name."""

    @property
    def values(self) -> dict[str, Any]:
        """Of each unknown what was found: a number, or an array of its components. Where the logs begin is in `self["variables"]`."""
        return {v["name"]: self._one(v["value"]) for v in self._unknowns()}

    @property
    def deviations(self) -> dict[str, Any]:
        """Their standard deviations; NaN where the log does not determine them."""
        return {v["name"]: self._one(v["deviation"]) for v in self._unknowns() if "deviation" in v}

    @property
    def intervals(self) -> dict[str, Any]:
        """Intervals that hold the truth with 95 %: (2,), or (components, 2)."""
        return {v["name"]: self._one(v["interval"]) for v in self._unknowns() if "interval" in v}

    def _unknowns(self):
        """Without where the logs begin: variables of one trajectory, named so by identify."""
        return [v for v in self["variables"] if not re.fullmatch(r"q(pos|vel)@\d+", v["name"])]

    @staticmethod
    def _one(numbers):
        array = np.array(numbers, dtype=float)
        return (float(array[0]) if array.ndim == 1 else array[0]) if len(array) == 1 else array

    def __repr__(self) -> str:
        about = self.get("uncertainty", {})
        lines = [f"<Fit: {self['outcome']}, loss {self['loss']:.6g}, {about.get('samples', 0)} samples"]
        for v in self._unknowns():
            for k, x in enumerate(v["value"]):
                sure = v.get("deviation", [None] * len(v["value"]))[k]
                name = v["name"] if len(v["value"]) == 1 else v.get("components", [f"{v['name']}[{k}]"] * (k + 1))[k]
                words = (v.get("determined") or [None] * (k + 1))[k] or ""
                lines.append(f"  {name:32} {x:14.7g}" + (f"  +- {sure:.2g}" if sure is not None else f"  {words}"))
        if about.get("why_none"):
            lines.append(f"  no deviations: {about['why_none']}")
        if about.get("warning"):
            lines.append(f"  warning: {about['warning']}")
        return "\n".join(lines) + ">"


def identify(model: Path | Model, log: Log | Sequence[Log], unknowns: str | Iterable[str | Mapping[str, Any]] | Mapping[str, Any], *,
             sigma: float | Mapping[str, Any] | None = None, test: Log | Sequence[Log] = (), start: str = "free", init: State | None = None,
             window: float | None = None, clusters: bool = False,
             controls: ArrayLike | Log | None = None, delay: Mapping[str, float] | None = None, starts: int = 1, loss: str = "squared",
             optimizer: Mapping[str, Any] | None = None, task: Mapping[str, Any] | None = None, output: Path | None = None, seed: int | None = None,
             threads: int | None = None, fresh: bool = False, page: Path | None = None, progress: Progress = None) -> Fit:
    """Find parameters of a model from logs of what it did, with how sure they are.

    model         path of an MJCF or URDF, or its text, or a Model
    log           a CSV or NPZ, or a dict of columns by name, or several of them: `time` and columns named as joints, sensors, sites, bodies are
                  (docs/csv.md): knee, qvel:knee, gyro.x, control:motor. Missing samples are NaN, times are those of the log
    unknowns      parameters by name, "body_mass:arm", "dof_damping:knee", as a list, or a dict with what is known of each: None, (lower, upper),
                  or keys of a variable (docs/task.md): {"transform": "log", "start": 0.1}; "inertia:arm": its mass, center and inertia;
                  "delay:TERM", "gain:TERM", "bias:TERM" of a term such as qpos:knee or sensor:gyro, "delay:controls"; or whole variables
    sigma         standard deviation of the samples: of all, or a dict by term, object or quantity ("sensor:gyro", "knee", "qpos"); None: estimated
    test          logs that are kept out of the fit: their error is told ("test_loss"), each begun where that is least unless start="log"
    start         "free": where each log begins is unknown, too, and begins the search at what the log shows; "log": it is what the log shows
    init          a State with what the log does not show of where it begins (None: the model's reference)
    window        s: logs are cut into windows of this length, each with a beginning of its own, so that what is chaotic or has contacts is
                  fitted piece by piece, and gaps of the log are left out; None: each as a whole
    clusters      True: intervals by how much the logs differ from one another, whatever the samples of one have in common
                  (docs/identify.md): for models that are not exact, several logs for each unknown. False: samples are independent
    controls      where the logs have no columns of controls: one more log, by the same clock, or (nu,) that hold throughout; None: zero
    delay         s, by the same names, as {"gyro": .004}
    starts        searches from several starts
    loss          "squared", "huber" (squares up to one sigma, which it needs) or "norm"
    optimizer     keys of a task's optimizer;  task: further keys of the task (options, contact, parameters, constants, ...)
    output, seed, threads, fresh, page, progress    as of pb.optimize; until a run with an output is done, OUTPUT.logs has what came as arrays

    Returns a Fit. Raises ArgumentError where a log has nothing of this model, InputError with file, line and column, FileError, StepError.
    """
    with _folder(output) as folder:
        source, unsaid = _source(model, folder)
        compiled = model if isinstance(model, Model) else (loads(source) if source.lstrip().startswith("<") else load(source))
        about = _core.info(compiled, "")
        fit, held_out = _logs(log, folder, 0, "log"), _logs(test, folder, 1000, "test")
        if not fit:
            raise ArgumentError("log: expected at least one")
        acts = _Log(controls, folder, 2000, "controls") if isinstance(controls, (str, os.PathLike, Mapping)) else None
        made = _Task(compiled, about, {"sigma": sigma, "start": start, "window": window, "clusters": clusters, "controls": controls,
                                       "delay": delay or {}, "loss": loss, "init": init, "acts": acts, "starts": starts})
        for one in fit:
            made.add(one, "fit")
        for one in held_out:
            made.add(one, "test")
        made.check()
        given = dict(task or {})
        description = {**given, "parameters": {**unsaid, **given.get("parameters", {})}, "model": source,
                       "trajectories": made.trajectories, "variables": _variables(unknowns) + made.variables,
                       "optimizer": {"method": "lbfgs" if loss == "norm" else "gauss-newton", **({"starts": starts} if starts > 1 else {}),
                                     **(optimizer or {})}}
        files = [one.path for one in fit + held_out + ([acts] if acts else [])] + ([source] if os.path.exists(source) else [])
        roots = sorted({folder, *(os.path.dirname(os.path.abspath(path)) for path in files)})
        found = optimize(description, output=output, seed=seed, threads=threads, fresh=fresh, page=page, progress=progress, allow_root=roots)
        if held_out and start == "free" and (later := _held_out(description, found)):
            found["test_loss"] = optimize(later, threads=threads, allow_root=roots)["loss"]
    return Fit(found, found.ok, found.trajectories)


def _held_out(description, found):
    """The task of finding where the logs that are held out begin, with everything else as found: noise of their first samples is no
    error of the model. None where unknowns are of another kind than parameters and readings."""
    settings = {}
    for variable, told in zip(description["variables"], found["variables"]):
        if kind := next((k for k in ("delay", "gain", "bias") if k in variable), None):
            settings[kind, variable[kind]] = told["value"], variable.get("components")
        elif not {"parameter", "sets", "body"} & set(variable) and variable.get("trajectory") != "each":
            return None

    def with_settings(term):
        for (kind, name), (value, components) in settings.items():
            if name == term["name"]:
                whole = [float(kind == "gain")] * (len(term["target"]["columns"]) if kind != "delay" else 1)
                for k, x in zip(components or range(len(value)), value):
                    whole[k] = x
                term = {**term, kind: whole if kind != "delay" else whole[0]}
        return term

    trajectories = [{**t, "role": "fit", "loss": [with_settings(term) for term in t["loss"]]} for t in description["trajectories"] if t["role"] == "test"]
    if ("delay", "controls") in settings:
        for t in trajectories:
            t["controls"] = {**t["controls"], "delay": settings["delay", "controls"][0][0]}
    same = {k: v for k, v in description.items() if k not in ("variables", "optimizer", "stop", "trajectories")}
    return {**same, "trajectories": trajectories, "parameters": {**description.get("parameters", {}), **found["parameters"]},
            **({"constants": found["constants"]} if "constants" in found else {}), "uncertainty": False,
            "variables": [{"state": word, "trajectory": "each"} for word in ("qpos", "qvel")],
            "optimizer": {"method": description["optimizer"].get("method", "gauss-newton")}}


@contextmanager
def _folder(output):
    """Where logs and models that are no files become some: beside the output as long as its run can go on, since a task knows its files by their paths."""
    if output is None:
        with tempfile.TemporaryDirectory() as folder:
            yield folder
        return
    stem = os.path.splitext(path_of(output, "output"))[0]
    folder = os.path.abspath(stem + ".logs")
    os.makedirs(folder, exist_ok=True)
    try:
        yield folder
    finally:
        if not os.path.exists(stem + ".state"):
            for name in os.listdir(folder):
                if re.fullmatch(r"log\d+\.csv|model\.xml", name):
                    os.remove(os.path.join(folder, name))
            if not os.listdir(folder):
                os.rmdir(folder)


def _source(model, folder):
    """A model as a task takes it, and the parameters that its file cannot say (docs/export.md)."""
    if isinstance(model, Model):
        path = os.path.join(folder, "model.xml")
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            model.save(path)
        back = load(path)
        unsaid = {name: model.params[name].tolist() for name in back.params if not np.array_equal(model.params[name], back.params[name])}
        for warning in told:  # the task says these parameters
            if not any(f"cannot say {name}" in str(warning.message) for name in unsaid):
                warnings.warn(warning.message, warning.category, stacklevel=3)
        return path, unsaid
    text = path_of(model, "model") if not (isinstance(model, str) and model.lstrip().startswith("<")) else model
    return text if text.lstrip().startswith("<") else os.path.abspath(text), {}


def _logs(given, folder, first, called):
    several = isinstance(given, Sequence) and not isinstance(given, (str, bytes))
    return [_Log(one, folder, first + k, called) for k, one in enumerate(given if several else [given])]


class _Task:
    """Trajectories of the logs, and the variables of where they, or their windows, begin."""

    def __init__(self, model, about, how):
        self.model, self.about, self.how = model, about, how
        self.state = model.init() if how["init"] is None else how["init"]
        if not isinstance(self.state, State) or self.state.batch is not None:
            raise ArgumentError("init: expected a State of one world (Model.init)")
        self.trajectories: list[dict[str, Any]] = []
        free = how["start"] == "free"
        self.variables: list[dict[str, Any]] = [{"state": word, "trajectory": "each"} for word in ("qpos", "qvel") if free]
        self.used: dict[str, set[str]] = {"sigma": set(), "delay": set(), "controls": set()}
        self.named: set[str] = set()
        if how["start"] not in ("free", "log"):
            raise ArgumentError(f"start: expected 'free' or 'log', found {how['start']!r}")
        if how["starts"] < 1:
            raise ArgumentError(f"starts: expected at least one, found {how['starts']!r}")
        if how["window"] is not None and not how["window"] > 0:
            raise ArgumentError(f"window: expected seconds, found {how['window']!r}")

    def check(self):
        """Nothing that was given is of nothing."""
        for key in ("sigma", "delay"):
            if isinstance(self.how[key], Mapping) and (unknown := set(self.how[key]) - self.used[key]):
                raise ArgumentError(f"{key}: nothing measured is called {', '.join(sorted(unknown))}; there are {', '.join(sorted(self.named))}")
        if self.how["controls"] is not None and not self.used["controls"]:
            raise ArgumentError("controls: the logs have columns of controls of their own")

    def add(self, log, role):
        h, measured, how = self.model.timestep, _Measured(self.about, log), self.how
        if not log.ordered:  # refused where it is read
            begin, end = 0., h
        else:
            begin, end = math.floor(log.time[0] / h + 1e-6) * h, log.time[-1]  # as steps of a simulated log are
        steps = max(1, math.ceil((end - begin) / h - 1e-9))
        init: dict[str, Any] = {"qpos": np.asarray(self.state.qpos).tolist(), "qvel": np.asarray(self.state.qvel).tolist()}
        if len(self.state.act):
            init["act"] = np.asarray(self.state.act).tolist()
        if log.ordered and any(word in ("qpos", "qvel") for word, *_ in measured.terms):
            init["recording"] = {"file": log.path, "at": begin, "time": log.time_name}
        self.named.update(measured.name(term) for term in measured.terms)
        terms = [term for term in measured.terms if any(np.isfinite(log.columns[c]).any() for c in term[3])]  # without sensors that were dead
        one: dict[str, Any] = {"steps": steps, "role": role, "init": init, "loss": [self._term(log, measured, term, begin) for term in terms]}
        if how["window"] and role == "fit" and log.ordered:
            if how["window"] > end - log.time[0] + h:
                raise ArgumentError(f"window: {how['window']:.9g} s is more than {log.name} has, {end - log.time[0]:.9g} s; "
                                    "without a window it is taken as a whole")
            one["window"] = how["window"]
        if how["clusters"]:
            one["cluster"] = log.path

        acts, columns = (log, measured.controls) if measured.controls else (how["acts"], how["acts"] and _controls(self.about, how["acts"]))
        if acts is not log:
            self.used["controls"].add(log.name)
        if columns:
            one["controls"] = {"file": acts.path, "columns": columns, "time": acts.time_name, "start": begin}
        elif acts is not log and acts is not None:
            raise ArgumentError(f"controls: no column is of an actuator: {', '.join(acts.columns)}")
        elif how["controls"] is not None:
            one["controls"] = np.asarray(how["controls"], dtype=float).tolist()
        self.trajectories.append(one)

    def _term(self, log, measured, term, begin):
        word, name, components, columns = term
        sigma, delay = (_of(self.how[key], term, self.used[key]) for key in ("sigma", "delay"))
        if sigma is None and self.how["loss"] == "huber":
            raise ArgumentError(f"loss: \"huber\" is squares up to one sigma, and {measured.name(term)} has none")
        return {"name": measured.name(term), word: name, "type": self.how["loss"], **({"components": components} if components else {}),
                **({"sigma": sigma} if sigma is not None else {}), **({"delay": delay} if delay is not None else {}),
                "target": {"file": log.path, "columns": columns, "time": log.time_name, "start": begin}}
