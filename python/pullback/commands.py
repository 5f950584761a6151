"""What the program does beyond rollouts, as functions: the same code with the same numbers, in this process."""
from __future__ import annotations

import json
import os
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from . import _core
from .arrays import Description, real, shaped
from .errors import ArgumentError
from .losses import Loss, Losses
from .model import Model
from .progress import Progress, Telling
from .rollout import Rollout
from .state import State

if TYPE_CHECKING:
    from .arrays import Array, ArrayLike

Path: TypeAlias = str | os.PathLike[str]
Task: TypeAlias = str | os.PathLike[str] | Mapping[str, object]
_PREFIX = "pullback: "


def _run(words, model=None, progress=None, losses=None):
    """(whether it holds, its text). What the program notes on standard error are warnings here."""
    with Telling(progress) as tell:
        holds, text, notes = _core.command([str(w) for w in words], model, tell, losses.call if losses else None)
    for line in notes.splitlines():
        if line.startswith(_PREFIX + "warning: "):
            warnings.warn(line.removeprefix(_PREFIX + "warning: "), RuntimeWarning, stacklevel=3)
    return holds, text


def _options(**given):
    """Options as words: None and False say nothing, True stands alone."""
    words = []
    for name, value in given.items():
        if value is not None and value is not False:
            words += [f"--{name.replace('_', '-')}"] + ([] if value is True else [str(value)])
    return words


class _Files:
    """A folder for what a command reads and writes, gone afterwards."""

    def __enter__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="pullback-")
        return self

    def __exit__(self, *_):
        self._folder.cleanup()

    def path(self, name):
        return os.path.join(self._folder.name, name)

    def array(self, name, value):
        """The file of an array; None where there is none."""
        if value is None:
            return None
        np.save(self.path(f"{name}.npy"), real(value, name))
        return self.path(f"{name}.npy")

    def state(self, state):
        if state is None:
            return None
        if not isinstance(state, State):
            raise ArgumentError(f"state: expected a State (Model.state makes one of its numbers), found {type(state).__name__}")
        if state.batch is not None:
            raise ArgumentError("state: expected that of one world")
        np.savez(self.path("state.npz"), **{name: getattr(state, name)[None] if name != "time" else state.time for name in state.fields})
        return self.path("state.npz")

    def mocap(self, **arrays):
        """The file of poses and velocities by their names; None where there are none."""
        given = {n: real(a, n) for n, a in arrays.items() if a is not None}
        if given:
            np.savez(self.path("mocap.npz"), **given)
        return self.path("mocap.npz") if given else None


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
          progress: Progress = None) -> Check:
    """Test the gradients of a model over a rollout: dot products, Taylor remainders, differences of its own steps.

    state         where it begins (None: the reference configuration, or keyframe, with random velocities)
    ctrl          (N, nu) or (nu,) (None: random ones);  qfrc_applied (N, nv), xfrc_applied (N, nbody, 6), mocap_pos, mocap_quat, mocap_vel,
                  mocap_pos_before, mocap_quat_before, command
    horizon       steps; None: 20
    at_start      True: from rest with controls 0 where none are given, where a search begins and motions bend: each control and each number
                  of the state is compared with its one-sided slopes, at a bound with that into the domain
    gradient      "exact", "event" or "smooth", as of Model.rollout
    seed          of what is drawn
    progress      called now and then as progress("check", done, all, part); what it raises ends it; True: a line on standard error

    Returns a Check, true where all hold. Raises ArgumentError, StepError where the rollout fails.
    """
    with _Files() as files:
        led = files.mocap(mocap_pos=mocap_pos, mocap_quat=mocap_quat, mocap_vel=mocap_vel, mocap_pos_before=mocap_pos_before,
                          mocap_quat_before=mocap_quat_before)
        words = ["check", _path(model), "--json", *_options(
            init=files.state(state), control=files.array("ctrl", ctrl), horizon=horizon, keyframe=keyframe, mode=gradient, seed=seed,
            qfrc=files.array("qfrc_applied", qfrc_applied), xfrc=files.array("xfrc_applied", xfrc_applied),
            command=files.array("command", command), mocap=led), *(["--at-start"] if at_start else [])]
        holds, text = _run(words, model, progress)
    return Check(json.loads(text), holds)


def info(model: Model) -> Report:
    """What there is to know of a model, as `pullback info --json` says it: a dict with "sizes", "options", "contact", "state", "bodies",
    "joints", "geoms", "actuators", "sensors", "keyframes", "params", ..., lists with a dict for each thing."""
    return Report(json.loads(_run(["info", _path(model), "--json"], model)[1]))


def energies(name: str | None = None) -> dict[str, Any]:
    """The built-in energies of deformables by name, each a dict: "elements" that they act on, "parameters" with units, "formula", "sheet".

    name: that one alone. Raises ArgumentError where there is none of the name.
    """
    found = json.loads(_run(["energies", "--json"])[1])
    found = {e["name"]: e for e in (found["energies"] if isinstance(found, dict) else found)}
    if name is None:
        return found
    if name not in found:
        raise ArgumentError(f"no energy '{name}'; there are {', '.join(found)}")
    return found[name]


def inspect(model: Model, state: State | None = None, ctrl: ArrayLike | None = None, *, keyframe: int | str | None = None) -> dict[str, Array]:
    """Every compiled field ("model/NAME") and every quantity of one evaluation at a state, by MuJoCo's names: M (nv, nv), xpos (nbody, 3),
    qfrc_bias (nv,), qacc (nv,), contact_pos, efc_J, ...

    state: of one world (None: the reference configuration, or keyframe); ctrl (nu,). Raises ArgumentError, StepError.
    """
    with _Files() as files:
        _run(["inspect", _path(model), "-o", files.path("out.npz"), "-q",
              *_options(init=files.state(state), control=files.array("ctrl", ctrl if ctrl is None else shaped(ctrl, (model.nu,), "ctrl")), keyframe=keyframe)], model)
        return dict(np.load(files.path("out.npz"), allow_pickle=False))


# ---- tasks ----------------------------------------------------------------------------------------------------------------
class Result(Report):
    """What an optimization came to: its JSON. ok: whether it met its stop criteria; trajectories: of each one of the task with the best
    answer, arrays by name; trajectory: the first."""

    def __init__(self, found: Mapping[str, Any], ok: bool) -> None:
        super().__init__(found, ok)
        self.trajectories = [dict(np.load(path, allow_pickle=False)) for path in found["trajectory_files"]]

    @property
    def trajectory(self) -> dict[str, Array]:
        """Arrays of the first trajectory by name: time, qpos, qvel, control, ..."""
        return self.trajectories[0]


def optimize(task: Task, *, output: Path | None = None, functions: Mapping[str, Loss] | None = None, seed: int | None = None,
             threads: int | None = None, policy: Path | None = None, allow_root: Path | Sequence[Path] = (), fresh: bool = False,
             progress: Progress = None) -> Result:
    """Find the parameters, initial states or controls of least loss: a task (docs/task.md) as a path or a dict.

    functions     losses in Python by name, those that a task's file names: a term of the loss may be {"function": f}; "loss": f is that
                  alone. f(seen) is called with what it sees of a trajectory (Seen) and returns its value and a dict of cotangents, as a loss
                  of pb.Objective does
    output        "NAME.json" to write what the program writes; an interrupted run leaves NAME.state there, from which the same call goes on
    fresh         True: begin anew
    seed          of random starts and draws;  policy: a file of weights to begin with;  allow_root: folders that files may be read from
    threads       of worlds; None: all that the process may run on. Results do not depend on it
    progress      called now and then as progress(what, done, all, note); what it raises ends it; True: a line on standard error

    Returns a Result, true where the stop criteria are met: found["loss"], found["variables"], found.trajectory. Raises InputError with file,
    place and reason, FileError, UnsupportedError, StepError where the first rollout fails. An error later (memory, room for
    contacts) has the best so far in its `result`, outcome "failed", which is written to output, too.
    """
    losses = Losses(task, functions)
    with Description(losses.task) as path, _Files() as files:
        target = os.fspath(output) if output else files.path("result.json")
        before = _written(target)
        try:
            holds, _ = _run(["optimize", path, "-o", target, *_options(seed=seed, threads=threads, policy=policy, fresh=fresh), *_roots(allow_root)],
                            progress=progress, losses=losses)
        except Exception as error:
            if _written(target) not in (None, before):
                error.result = _result(target, False, output)  # type: ignore[attr-defined]
            raise
        return _result(target, holds, output)


def _written(path):
    """Which writing of a file stands there; None: no file."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


def _result(path, holds, output):
    with open(path, encoding="utf-8") as f:
        result = Result(json.load(f), holds)
    if not output:
        del result["trajectory_files"]  # gone with their folder
    return result


def audit(task: Task, *, result: Path | None = None, functions: Mapping[str, Loss] | None = None, starts: int | None = None,
          seed: int | None = None, policy: Path | None = None, allow_root: Path | Sequence[Path] = (), progress: Progress = None) -> Report:
    """Confirm an answer at finer steps and with a tight solver, from several starts, with an energy ledger.

    result: the JSON that optimize wrote; functions: losses in Python, as of optimize; starts: how many; policy: weights of a trained one.
    Returns a Report, true where it is confirmed, with the program's numbers. Raises InputError with file, place and reason.
    """
    losses = Losses(task, functions)
    with Description(losses.task) as path:
        holds, text = _run(["audit", path, "--json", *_options(result=result, starts=starts, seed=seed, policy=policy), *_roots(allow_root)],
                           progress=progress, losses=losses)
    return Report(json.loads(text), holds)


def train(task: Task, output: Path, *, seed: int | None = None, threads: int | None = None, policy: Path | None = None,
          allow_root: Path | Sequence[Path] = (), fresh: bool = False, progress: Progress = None) -> Array:
    """Train the policy of a task over many worlds. Writes OUTPUT.npz, the best policy, its curves OUTPUT.csv and the page OUTPUT.html.

    task: a path or a dict with "policy", "episode" and "train" (docs/policies.md); policy: weights to begin with; the rest as of optimize.
    Returns the curves as a structured array, a row for each update; an interrupted run goes on with the same call. Raises ArgumentError where
    output does not end in .npz, InputError with file, place and reason.
    """
    target = os.fspath(output)
    if not target.endswith(".npz"):
        raise ArgumentError(f"output: expected a name that ends in .npz, found {target!r}")
    with Description(task) as path:
        _run(["train", path, "-o", target, *_options(seed=seed, threads=threads, policy=policy, fresh=fresh), *_roots(allow_root)], progress=progress)
    return np.genfromtxt(f"{target.removesuffix('.npz')}.csv", delimiter=",", names=True)


# ---- pictures ---------------------------------------------------------------------------------------------------------------
def arrays(rollout: Rollout) -> dict[str, Array]:
    """What a trajectory file holds, by the program's names."""
    found = {name: getattr(rollout, name) for name in rollout.model._slots}
    names = {"ctrl": "control", "qfrc_applied": "qfrc", "xfrc_applied": "xfrc", "command": "command", "mocap_pos": "mocap_pos",
             "mocap_quat": "mocap_quat", "mocap_vel": "mocap_vel", "mocap_pos_before": "mocap_pos_before", "mocap_quat_before": "mocap_quat_before"}
    for name, i in rollout._inputs.items():
        if i.data is not None:
            found[names[name]] = i.data
    found.setdefault("control", np.zeros((rollout.steps, rollout.model.nu)))
    if hasattr(rollout, "sensordata"):
        found["sensordata"] = rollout.sensordata
    return found


def save(rollout: Rollout, path: Path) -> str:
    """A rollout as a page (.html) or a moving scene (.glb), both of one world, or a trajectory file of the program (.npz)."""
    path = os.fspath(path)
    kind = os.path.splitext(path)[1]
    if kind == ".npz":
        np.savez(path, **arrays(rollout))
        return path
    if kind not in (".html", ".glb"):
        raise ArgumentError(f"path: expected a name that ends in .html, .npz or .glb, found {path!r}")
    if rollout.batch is not None:
        raise ArgumentError("a page shows one world: save model.rollout of one")
    with _Files() as files:
        save(rollout, files.path("run.npz"))
        _run(["view", _path(rollout.model), files.path("run.npz"), *_options(**{"output" if kind == ".html" else "glb": path})], _as_run(rollout))
    return path


def _as_run(rollout):
    """The model with the parameters that the rollout was given."""
    if not rollout._given:
        return rollout.model
    theta = rollout._before.copy()
    if rollout._recompute:
        rollout.model._compiled.constants(theta)
    return rollout.model._with_theta(theta)


def view(shown: Model | Rollout, path: Path | None = None, *, keyframe: int | str | None = None, shapes: str = "all", open: bool = False) -> str:
    """A web page that plays a rollout, or shows a model with its joints to move; returns its path.

    shown         a Model, or a Rollout of one world
    path          of the page; None: NAME.html of the model in the current folder
    keyframe      pose of a model alone;  shapes: "all", or "collision" without those that are only seen
    open          True: also in the browser of this machine

    The page needs no network. Raises ArgumentError for something else or a batch, FileError.
    """
    if isinstance(shown, Rollout):
        path = save(shown, path or _page(shown.model))
    elif isinstance(shown, Model):
        path = os.fspath(path or _page(shown))
        _run(["view", _path(shown), *_options(output=path, keyframe=keyframe, shapes=shapes)], shown)
    else:
        raise ArgumentError(f"expected a Model or a Rollout, found {type(shown).__name__}")
    if open:
        import webbrowser
        webbrowser.open(f"file://{os.path.abspath(path)}")
    return path


def _page(model):
    return os.path.splitext(os.path.basename(_path(model)))[0] + ".html"


def _path(model):
    if not isinstance(model, Model):
        raise ArgumentError(f"expected a Model, found {type(model).__name__}")
    return model.path or "model.xml"


def _roots(roots):
    return [word for root in ([roots] if isinstance(roots, (str, os.PathLike)) else roots) for word in ("--allow-root", os.fspath(root))]
