"""What the program does beyond rollouts, as functions: the same code of the library with the same numbers."""
from __future__ import annotations

import json
import os
import shlex
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from . import _core
from .arrays import Description, path_of, paths_of, real, shaped
from .errors import ArgumentError
from .inputs import Inputs, start
from .losses import Loss, Losses
from .model import Model
from .names import find
from .progress import Progress, Telling
from .rollout import Rollout
from .state import State

if TYPE_CHECKING:
    from .arrays import Array, ArrayLike

Path: TypeAlias = str | os.PathLike[str]
Task: TypeAlias = str | os.PathLike[str] | Mapping[str, object]
Found: TypeAlias = str | os.PathLike[str] | Mapping[str, object] | None  # a result, or the path of one
_STEPS = 20  # of a check


# ---- what goes in and comes out -----------------------------------------------------------------------------------------------
def _warn(lines):
    for line in lines.splitlines():
        warnings.warn(line, RuntimeWarning, stacklevel=3)


def _whole(value, name, least, most=2**63 - 1):
    """A whole number from least to most; None: what stands for none, -1."""
    if value is None:
        return -1
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not least <= value <= most:
        raise ArgumentError(f"{name}: expected a whole number from {least} to {most}, found {value!r}")
    return int(value)


_KINDS = (".npz", ".json", ".html", ".npy", ".csv", ".txt", ".mat", ".h5", ".hdf5", ".pkl", ".xml", ".vtu", ".pvd", ".glb")


def _output(path, own, read=None, argument="output"):
    """The name of what is written: no other kind of file, and none that is read."""
    if path is None:
        return None
    name = path_of(path, argument)
    if os.path.splitext(name)[1] in _KINDS and not name.endswith(own):
        raise ArgumentError(f"{argument}: expected a name that ends in {own}, found {name!r}")
    if read is not None and os.path.isfile(name) and os.path.exists(read) and os.path.samefile(name, read):
        raise ArgumentError(f"{argument}: {name!r} is what is read")
    return name


def _typed(name, task, functions, **options):
    """What is typed for the same result, for its page; None where the program cannot: of a task that is no file, or with losses in Python."""
    if functions or not isinstance(task, (str, os.PathLike)):
        return None
    given = [(option.replace("_", "-"), value) for option, value in options.items() if value is not None]
    return shlex.join(["pullback", name, path_of(task, "task"), *(word for option, value in given for word in ("--" + option, str(value)))])


def _named(given):
    """What the program can be told of: a file."""
    return given if isinstance(given, (str, os.PathLike)) else None


def _numpy(found):
    """Arrays of the library by name."""
    kinds = {"d": np.float64, "i": np.int32}
    return {name: np.array(memory) if kind == "U" else np.frombuffer(memory, kinds[kind]).reshape(shape) for name, (kind, shape, memory) in found.items()}


def _model(model, result=None):
    if not isinstance(model, Model):
        raise ArgumentError(f"expected a Model, found {type(model).__name__}")
    return model if result is None else model.with_result(result)


def _keyframe(model, keyframe):
    return -1 if keyframe is None else find(model, "keyframe", keyframe).id


def _state(model, state, keyframe):
    """The numbers of a state; None: of the model's at the start, or at a keyframe."""
    if state is None:
        return model.init(keyframe).flat
    if not isinstance(state, State):
        raise ArgumentError(f"state: expected a State (Model.state makes one of its numbers), found {type(state).__name__}")
    if state.batch is not None:
        raise ArgumentError("state: expected that of one world")
    if set(state.fields) != set(model.init().fields) or state.flat.shape != model.init().flat.shape:
        raise ArgumentError("state: expected one of this model")
    return real(state.flat, "state")


class Report(dict[str, Any]):
    """What a command found, as its JSON has it. ok: whether all that it checks holds."""

    def __init__(self, found: Mapping[str, Any], ok: bool = True) -> None:
        super().__init__(found)
        self.ok = ok

    def __bool__(self) -> bool:
        return self.ok


class Check(Report):
    """Tests of the gradients of a model: "checks" with worst errors and limits, "findings" with what to know about contacts and solvers."""

    def __repr__(self) -> str:
        lines = [f"  {'holds' if c['holds'] else 'FAILS'}  {c['name']}: worst {c['worst']:.1e}, limit {c['limit']:.0e}" for c in self["checks"]]
        lines += [f"  {f['what']}, {f['where']}: {f['why']}" for f in self["findings"]]
        return "\n".join([f"<Check: {'all hold' if self.ok else 'some fail'} over {self['steps']} steps", *lines]) + ">"


def check(model: Model, state: State | None = None, ctrl: ArrayLike | None = None, *, horizon: int | None = None, keyframe: int | str | None = None,
          gradient: str = "exact", qfrc_applied: ArrayLike | None = None, xfrc_applied: ArrayLike | None = None, mocap_pos: ArrayLike | None = None,
          mocap_quat: ArrayLike | None = None, mocap_vel: ArrayLike | None = None, mocap_pos_before: ArrayLike | None = None,
          mocap_quat_before: ArrayLike | None = None, command: ArrayLike | None = None, at_start: bool = False, seed: int = 0,
          page: Path | None = None, progress: Progress = None, result: Found = None) -> Check:
    """Test the gradients of a model over a rollout: dot products, Taylor remainders, differences of its own steps.

    state         where it begins (None: the reference configuration, or keyframe, with random velocities)
    ctrl          (N, nu) or (nu,) (None: random ones);  qfrc_applied (N, nv), xfrc_applied (N, nbody, 6), mocap_pos, mocap_quat, mocap_vel,
                  mocap_pos_before, mocap_quat_before, command
    horizon       steps; None: as many as rows are given, else 20
    at_start      True: from rest with controls 0 where none are given, where a search begins and motions bend: each control and each number
                  of the state is compared with its one-sided slopes, at a bound with that into the domain
    gradient      "exact", "event" or "smooth", as of Model.rollout
    seed          of what is drawn
    page          "NAME.html": a page of it, too: every comparison beside its limit, kinks by name
    progress      called now and then as progress("check", done, all, part); what it raises ends it; True: a line on standard error
    result        what optimize found: the model is that of Model.with_result

    Returns a Check, true where all hold. Raises ArgumentError, StepError where the rollout fails.
    """
    number = _keyframe(model := _model(model, result), keyframe)
    x0, steps = _state(model, state, keyframe), _whole(horizon, "horizon", 1, 10_000)
    acts = Inputs(model, number, {"ctrl": ctrl, "qfrc_applied": qfrc_applied, "xfrc_applied": xfrc_applied, "command": command, "mocap_pos": mocap_pos,
                                  "mocap_quat": mocap_quat, "mocap_vel": mocap_vel, "mocap_pos_before": mocap_pos_before,
                                  "mocap_quat_before": mocap_quat_before}, steps if steps > 0 else _STEPS)
    if steps not in (-1, acts.steps):
        raise ArgumentError(f"horizon: {steps}, but the rows that are given say {acts.steps} steps")
    if gradient not in ("exact", "event", "smooth"):
        raise ArgumentError(f"gradient: expected exact, event or smooth, found {gradient!r}")

    # a model alone is moved, unless somebody says how
    free = number < 0 and not at_start
    how = (bool(at_start), free and ctrl is None and model.nu > 0, free and state is None)
    with Telling(progress) as tell:
        holds, found, lines = _core.check(model, _path(model), (x0, *acts.arrays), acts.steps, _whole(seed, "seed", 0), gradient, how,
                                          _output(page, ".html", _path(model), "page"), tell)
    _warn(lines)
    return Check(found, holds)


def info(model: Model, *, result: Found = None) -> Report:
    """What there is to know of a model, as `pullback info --json` says it: a dict with "sizes", "options", "contact", "state", "bodies",
    "joints", "geoms", "actuators", "sensors", "keyframes", "params", ..., lists with a dict for each thing. result: as of check."""
    return Report(_core.info(_model(model, result), _path(model)))


def energies(name: str | None = None) -> dict[str, Any]:
    """The built-in energies of deformables by name, each a dict: "elements" that they act on, "parameters" with units, "formula", "sheet".

    name: that one alone. Raises ArgumentError where there is none of the name.
    """
    found = {e["name"]: e for e in _core.energies()}
    if name is None:
        return found
    if name not in found:
        raise ArgumentError(f"no energy '{name}'; there are {', '.join(found)}")
    return found[name]


def inspect(model: Model, state: State | None = None, ctrl: ArrayLike | None = None, *, keyframe: int | str | None = None,
            result: Found = None) -> dict[str, Array]:
    """Every compiled field ("model/NAME") and every quantity of one evaluation at a state, by MuJoCo's names: M (nv, nv), xpos (nbody, 3),
    qfrc_bias (nv,), qacc (nv,), contact_pos, efc_J, ...

    state: of one world (None: the reference configuration, or keyframe); ctrl (nu,); result: as of check. Raises ArgumentError, StepError.
    """
    number = _keyframe(model := _model(model, result), keyframe)
    x, (controls, poses) = _state(model, state, keyframe), start(model, number)
    led = poses.values() if number >= 0 and model.nmocap else (None, None)
    return _numpy(_core.inspect(model, x, controls if ctrl is None else shaped(ctrl, (model.nu,), "ctrl"), *led))


# ---- tasks ----------------------------------------------------------------------------------------------------------------
class Result(Report):
    """What an optimization came to: its JSON. ok: whether it met its stop criteria; trajectories: of each one of the task with the best
    answer, arrays by name; trajectory: the first."""

    def __init__(self, found: Mapping[str, Any], ok: bool, trajectories: list[dict[str, Array]]) -> None:
        super().__init__(found, ok)
        self.trajectories = trajectories

    @property
    def trajectory(self) -> dict[str, Array]:
        """Arrays of the first trajectory by name: time, qpos, qvel, control, ..."""
        return self.trajectories[0]


def optimize(task: Task, *, output: Path | None = None, start: Found = None, functions: Mapping[str, Loss] | None = None, seed: int | None = None,
             threads: int | None = None, policy: Path | None = None, allow_root: Path | Sequence[Path] = (), fresh: bool = False,
             page: Path | None = None, progress: Progress = None) -> Result:
    """Find the parameters, initial states or controls of least loss: a task (docs/task.md) as a path or a dict.

    functions     losses in Python by name, those that a task's file names: a term of the loss may be {"function": f}; "loss": f is that
                  alone. f(seen) is called with what it sees of a trajectory (Seen) and returns its value and a dict of cotangents, as a loss
                  of pb.Objective does
    output        "NAME.json" to write what the program writes; an interrupted run leaves NAME.state there, from which the same call goes on
    start         the Result of another search of this task, or the path of one: begin there
    fresh         True: begin anew
    page          "NAME.html": a page of the result, too: how the loss fell, what was varied beside its bounds, advice, certificates
    seed          of random starts and draws;  policy: a file of weights to begin with;  allow_root: folders that files may be read from
    threads       of worlds; None: all that the process may run on. Results do not depend on it
    progress      called now and then as progress(what, done, all, note); what it raises ends it; True: a line on standard error

    Returns a Result, true where the stop criteria are met: found["loss"], found["variables"], found.trajectory. Raises InputError with file,
    place and reason, FileError, UnsupportedError, StepError where the first rollout fails. An error later (memory, room for
    contacts) has the best so far in its `result`, outcome "failed", which is written to output, too.
    """
    losses = Losses(task, functions)
    with Description(losses.task, "task") as path, Description(start, "start") as begun, Telling(progress) as tell:
        error, met, found, motions, lines = _core.optimize(
            _task(path), _output(output, ".json", path), _file(policy, "policy"), begun, paths_of(allow_root, "allow_root"), _whole(seed, "seed", 0),
            max(0, _whole(threads, "threads", 1, 1024)), fresh, _output(page, ".html", path, "page"),
            _typed("optimize", task, functions, output=output, start=_named(start), seed=seed, policy=policy, page=page), tell, losses.call)
    _warn(lines)
    result = Result(found, met, [_numpy(m) for m in motions])
    if error is not None:
        error.result = result  # type: ignore[attr-defined]
        raise error
    return result


def _task(path):
    if path is None:
        raise ArgumentError("task: expected a path or a dict, found None")
    return path


def _file(path, name):
    return None if path is None else path_of(path, name)


def audit(task: Task, *, result: Found = None, functions: Mapping[str, Loss] | None = None, starts: int | None = None,
          seed: int | None = None, policy: Path | None = None, allow_root: Path | Sequence[Path] = (), page: Path | None = None,
          progress: Progress = None) -> Report:
    """Confirm an answer at finer steps and with a tight solver, from several starts, with an energy ledger.

    result: what optimize found, or the JSON that it wrote; functions: losses in Python, as of optimize; starts: how many; policy: weights of a trained one;
    page: "NAME.html", a page of the report, too.
    Returns a Report, true where it is confirmed, with the program's numbers. Raises InputError with file, place and reason.
    """
    losses = Losses(task, functions)
    with Description(losses.task, "task") as path, Description(result, "result") as answer, Telling(progress) as tell:
        typed = _typed("audit", task, functions, result=_named(result), starts=starts, seed=seed, policy=policy, page=page)
        confirmed, found = _core.audit(_task(path), answer, _file(policy, "policy"), paths_of(allow_root, "allow_root"), _whole(seed, "seed", 0),
                                       _whole(starts, "starts", 8, 1_000_000), _output(page, ".html", path, "page"), typed, tell, losses.call)
    return Report(found, confirmed)


def train(task: Task, output: Path, *, seed: int | None = None, threads: int | None = None, policy: Path | None = None,
          allow_root: Path | Sequence[Path] = (), fresh: bool = False, progress: Progress = None) -> Array:
    """Train the policy of a task over many worlds. Writes OUTPUT.npz, the best policy, its curves OUTPUT.csv and the page OUTPUT.html.

    task: a path or a dict with "policy", "episode" and "train" (docs/policies.md); policy: weights to begin with; the rest as of optimize.
    Returns the curves as a structured array, a row for each update with the columns of OUTPUT.csv; an interrupted run goes on with the same call.
    Raises ArgumentError where output does not end in .npz, InputError with file, place and reason.
    """
    target = path_of(output, "output")
    if not target.endswith(".npz"):
        raise ArgumentError(f"output: expected a name that ends in .npz, found {target!r}")
    with Description(task, "task") as path, Telling(progress) as tell:
        names, rows, lines = _core.train(_task(path), target, _file(policy, "policy"), paths_of(allow_root, "allow_root"), _whole(seed, "seed", 0),
                                         max(0, _whole(threads, "threads", 1, 1024)), fresh, tell)
    _warn(lines)
    return np.frombuffer(rows, dtype=[(name, np.float64) for name in names])


def evaluate(task: Task, policy: Path | None = None, *, starts: int = 200, seed: int | None = None, threads: int | None = None,
             allow_root: Path | Sequence[Path] = (), progress: Progress = None) -> dict[str, Any]:
    """Try a trained policy in episodes that no training has seen: starts, parameters, commands, pushes and noise are drawn anew by the task's laws.

    task: a path or a dict with "policy", "episode" and "train" (docs/task.md); policy: "W.npz", weights; None: the task's own;
    starts: how many episodes, 1 to 100 000; seed: of their draws, None: the task's, which are not the training's either.

    Returns the numbers that the program writes: starts, seed, seconds (of a whole episode), loss (a decision), ended (episodes that ended before their
    time), diverged (those of them that did), length (s, mean), success (share, None without "success"), distance (m, mean of what the first free
    body went, level; None without one), terms (a list of name, cost, rms: its root mean square, None of terms that are no squares) and
    done (a list of name, episodes). Raises InputError with file, place and reason.
    """
    with Description(task, "task") as path, Telling(progress) as tell:
        text = _core.evaluate(_task(path), _file(policy, "policy"), paths_of(allow_root, "allow_root"), _whole(seed, "seed", 0),
                              _whole(starts, "starts", 1, 100_000), max(0, _whole(threads, "threads", 1, 1024)), tell)
    return json.loads(text)  # type: ignore[no-any-return]


# ---- pictures ---------------------------------------------------------------------------------------------------------------
def arrays(rollout: Rollout, first: bool = False) -> dict[str, Array]:
    """What a trajectory file holds, by the program's names; first: of several worlds that of number 0."""
    one = first and rollout.batch is not None
    found = {name: getattr(rollout, name)[0] if one else getattr(rollout, name) for name in rollout.model._slots}
    names = {"ctrl": "control", "qfrc_applied": "qfrc", "xfrc_applied": "xfrc", "command": "command", "mocap_pos": "mocap_pos",
             "mocap_quat": "mocap_quat", "mocap_vel": "mocap_vel", "mocap_pos_before": "mocap_pos_before", "mocap_quat_before": "mocap_quat_before"}
    for name, i in rollout._inputs.items():
        if i.data is not None:
            found[names[name]] = i.data[0] if one and (i.worlds or 1) > 1 else i.data
    found.setdefault("control", np.zeros((rollout.steps, rollout.model.nu)))
    if hasattr(rollout, "sensordata"):
        found["sensordata"] = rollout.sensordata[0] if one else rollout.sensordata
    return found


def save(rollout: Rollout, path: Path, *, shapes: str = "all", ghost: Path | Rollout | None = None, ghost_start: float = 0) -> str:
    """A rollout as a page (.html) or a moving scene (.glb), both of one world, or a trajectory file of the program (.npz).

    shapes: of a page and a scene, as of view; ghost, ghost_start: of a page, as of view.
    """
    path = path_of(path, "path")
    kind = os.path.splitext(path)[1]
    only_collision, beside, begin = _only_collision(shapes), _ghost(ghost), float(shaped(ghost_start, (), "ghost_start"))
    if ghost is not None and kind != ".html":
        raise ArgumentError(f"ghost: a page has one (.html), found {path!r}")
    if kind == ".npz":
        np.savez(path, **arrays(rollout))
        return path
    if kind not in (".html", ".glb"):
        raise ArgumentError(f"path: expected a name that ends in .html, .npz or .glb, found {path!r}")
    if rollout.batch is not None:
        raise ArgumentError("a page shows one world: save model.rollout of one")
    _core.page(as_run(rollout), _path(rollout.model), _listed(rollout), -1, only_collision, path, kind == ".glb", beside, begin)
    return path


def _listed(rollout):
    """The arrays of a trajectory file, each with its name and shape."""
    return [(name, a.shape, a) for name, a in ((name, np.ascontiguousarray(a, np.float64)) for name, a in arrays(rollout).items())]


def _ghost(given):
    """What the page's ghost is read from: a file, or the arrays of a rollout."""
    if given is None or not isinstance(given, Rollout):
        return _file(given, "ghost")
    if given.batch is not None:
        raise ArgumentError("ghost: a page shows one world: model.rollout of one")
    return _listed(given)


def as_run(rollout: Rollout) -> Model:
    """The model with the parameters that the rollout was given, of several worlds those of number 0."""
    if not rollout._given:
        return rollout.model
    theta = rollout._before.copy()
    if rollout._recompute:
        rollout.model._compiled.constants(theta)
    return rollout.model._with_theta(theta)


def view(shown: Model | Rollout, path: Path | None = None, *, keyframe: int | str | None = None, shapes: str = "all", open: bool = False,
         result: Found = None, ghost: Path | Rollout | None = None, ghost_start: float = 0) -> str:
    """A web page that plays a rollout, or shows a model with its joints to move; returns its path.

    shown         a Model, or a Rollout of one world
    path          of the page (.html; of a rollout what save writes, too); None: NAME.html of the model in the current folder
    keyframe      pose of a model alone, not of a rollout;  shapes: "all", or "collision" without those that are only seen
    open          True: also in the browser of this machine
    result        of a model: what optimize found, as of check
    ghost         of a rollout: a recording (CSV or .npz) or another Rollout, whose bodies are drawn as well, translucent, where they are at
                  the same time: between its samples, before the first and after the last as those are; joints without a sample are where
                  the rollout has them
    ghost_start   seconds, of the ghost's clock at time 0 of the rollout

    The page needs no network. Raises ArgumentError for something else or a batch, FileError, InputError for a ghost without times or of
    another robot.
    """
    if not isinstance(shown, (Model, Rollout)):
        raise ArgumentError(f"expected a Model or a Rollout, found {type(shown).__name__}")
    path = _page_name(path, shown)
    if isinstance(shown, Rollout):
        if keyframe is not None:
            raise ArgumentError("keyframe: a rollout has its own states")
        if result is not None:
            raise ArgumentError("result: a rollout has its own parameters")
        save(shown, path, shapes=shapes, ghost=ghost, ghost_start=ghost_start)
    else:
        if ghost is not None:
            raise ArgumentError("ghost: stands beside a rollout, and a model has none")
        shown = _model(shown, result)
        _core.page(shown, _path(shown), None, _keyframe(shown, keyframe), _only_collision(shapes), path, False, None, 0.0)
    if open:
        import webbrowser
        webbrowser.open(f"file://{os.path.abspath(path)}")
    return path


def _page_name(path, shown):
    """Of a page; None: the model's, in the current folder. No other kind of file is written over."""
    if path is None:
        model = shown.model if isinstance(shown, Rollout) else shown
        return os.path.splitext(os.path.basename(_path(model)))[0] + ".html"
    name = path_of(path, "path")
    kinds = (".html", ".glb", ".npz") if isinstance(shown, Rollout) else (".html",)
    if not name.endswith(kinds):
        raise ArgumentError(f"path: expected a name that ends in {' or '.join(kinds)}, found {name!r}")
    return name


def _only_collision(shapes):
    if shapes not in ("all", "collision"):
        raise ArgumentError(f"shapes: expected all or collision, found {shapes!r}")
    return shapes == "collision"


def _path(model):
    return model.path or "model.xml"
