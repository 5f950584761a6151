"""Rollouts: many steps in one call, and what is pulled back through them or pushed forward."""
from __future__ import annotations

import os
import sys
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import numpy as np

from . import _core
from .arrays import batched, common, real, tree_sum, whole, words
from .errors import ArgumentError, StepError, of_status
from .fields import GradientArrays, RolloutArrays, TangentArrays
from .names import C
from .progress import Telling
from .state import State, flat_of

if TYPE_CHECKING:
    from .arrays import Array, ArrayLike
    from .model import Model
    from .options import Constants, GradientKind, OnFailure
    from .progress import Progress

_SHARED = {"ctrl": C["pb_sharedCtrl"], "qfrc_applied": C["pb_sharedQfrc"], "xfrc_applied": C["pb_sharedXfrc"], "command": C["pb_sharedCommand"],
           **dict.fromkeys(("mocap_pos", "mocap_quat", "mocap_rot", "mocap_vel", "mocap_pos_before", "mocap_quat_before", "mocap_rot_before"),
                           C["pb_sharedMocap"])}
_ONE_ROW = ("mocap_pos_before", "mocap_quat_before", "mocap_rot_before")  # not one for each step
# What derivatives by orientations of mocap bodies are by.
_ROTATIONS = {"mocap_quat": "mocap_rot", "mocap_quat_before": "mocap_rot_before"}
_DERIVED = ("ctrl", "qfrc_applied", "xfrc_applied", "command", "mocap_pos", "mocap_rot", "mocap_vel", "mocap_pos_before", "mocap_rot_before")
_BY = {"ctrl": C["pb_byControl"], "mocap_pos": C["pb_byMocapPos"], "mocap_rot": C["pb_byMocapRot"]}
_OUTPUTS = ("sensordata", "xpos", "site_xpos")
_MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")  # bytes of its memory
_KINDS = ("exact", "event", "smooth")
_CHECKS = {False: C["pb_checkNone"], None: C["pb_checkNone"], True: C["pb_checkSteps"], "steps": C["pb_checkSteps"], "full": C["pb_checkFull"]}


class Params(dict[str, "Array"]):
    """Gradients by parameter, each in the shape in which the parameter was passed, else in that of Model.params."""


class Gradient(GradientArrays):
    """What a pullback gives: gradients by what went into the rollout, each in the shape of what was passed. Made by Rollout.vjp.

    qpos, qvel    (nv,): by the initial position, in its tangent space, and the initial velocity;  act (na,)
    state         (n,): by all of the initial state, in the order of Model.tangent_names
    ctrl          (N, nu);  qfrc_applied (N, nv);  xfrc_applied (N, nbody, 6);  command;  mocap_pos (N, nmocap, 3);  mocap_rot (N, nmocap, 3),
                  by rotations of the mocap bodies in their own frames, rad;  mocap_vel (N, nmocap, 6);  mocap_pos_before, mocap_rot_before
                  (nmocap, 3)
    params        by name: params["body_mass"], in the shape in which it was passed, or of Model.params
    certificate   how far to trust it: a dict, of a batch one for each world. worst_residual and unconverged of the solver; onsets, releases
                  of contacts; ties, tie_step, tie_contact: steps in which features of shapes tie; kinks, kink_step,
                  kink_element: in which an element of deformables stands at a kink of its energy; growth_rate of the costate, 1/s; spot_checked: whether something could be compared, spot_off where a
                  difference quotient disagrees, spot_steps_share and spot_entries_share of what one reached. All members of the C
                  library's pbCertificate by their names

    What carried an axis of B worlds has B; what was shared or not passed is the sum over worlds. Inputs are there where they were given or
    named in wrt; AttributeError says which are.
    """

    params: Params
    certificate: Any  # a dictionary, or with a batch one for each world

    def __init__(self, state: Array, parts: dict[str, slice], inputs: dict[str, Array], params: Params, certificate: Any) -> None:
        self._state, self._inputs, self.params, self.certificate = state, inputs, params, certificate
        self._parts = parts

    def _array(self, name: str) -> Array:
        parts, inputs = self.__dict__.get("_parts", {}), self.__dict__.get("_inputs", {})
        if name in inputs:
            return inputs[name]
        if name in parts or name == "state":
            return self._state[..., parts[name]] if name in parts else self._state
        raise AttributeError(f"no gradient by '{name}'; there are {', '.join([*parts, *inputs, 'params'])}")

    if not TYPE_CHECKING:  # which would take every name for one that is there
        def __getattr__(self, name):
            return self._array(name)

    def __repr__(self) -> str:
        shapes = {**{k: self.state[..., v].shape for k, v in self._parts.items()}, **{k: v.shape for k, v in self._inputs.items()}}
        text = ", ".join(f"{k} {words(v)}" for k, v in {**shapes, **{f"params[{k!r}]": v.shape for k, v in self.params.items()}}.items())
        return f"<Gradient: {text}>"


class Tangent(TangentArrays):
    """What a direction gives: the derivative of the trajectory along it. Made by Rollout.jvp.

    x           (N + 1, n) or (B, N + 1, n): of all states, in the order of Model.tangent_names
    qpos, qvel  (N + 1, nv) and act (N + 1, na): its parts; qpos in the tangent space at each state
    sensordata  (N + 1, nsensordata);  xpos (N + 1, nbody, 3), site_xpos (N + 1, nsite, 3): where the rollout's outputs had them
    """

    def __init__(self, x: Array, parts: dict[str, slice], outputs: Mapping[str, Array]) -> None:
        self._seen, self._parts = {"x": x, **outputs}, parts

    def _array(self, name: str) -> Array:
        seen, parts = self.__dict__.get("_seen", {}), self.__dict__.get("_parts", {})
        if name in seen:
            return seen[name]
        if name in parts:
            return seen["x"][..., parts[name]]
        raise AttributeError(f"no tangent of '{name}'; there are {', '.join([*parts, *seen])}")

    if not TYPE_CHECKING:  # which would take every name for one that is there
        def __getattr__(self, name):
            return self._array(name)

    def __repr__(self) -> str:
        outputs = {k: v.shape for k, v in self._seen.items() if k in _OUTPUTS}
        shapes = {"x": self.x.shape, **{k: self.x[..., v].shape for k, v in self._parts.items()}, **outputs}
        return f"<Tangent: {', '.join(f'{k} {words(v)}' for k, v in shapes.items())}>"


class _Input(NamedTuple):
    """An array that acts during a rollout: its values as C takes them, and how it came."""
    data: object    # (worlds, N, width) or, of one row for all worlds, (N, width); None: not given
    worlds: object  # of the axis that it came with; None: it had none
    shape: tuple    # as it came


_NOT_GIVEN = _Input(None, None, ())


def _tangent_parts(model):
    """Places in a tangent; those of deformables' points where there are any."""
    nv, na, np3 = model.nv, model.na, 3 * model.npoint
    parts = {"qpos": slice(0, nv), "qvel": slice(nv, 2 * nv), "act": slice(2 * nv, 2 * nv + na)}
    first = 2 * nv + na
    return {**parts, "points": slice(first, first + np3), "point_velocity": slice(first + np3, first + 2 * np3)} if np3 else parts


def memory_of_tapes(memory: int | None = None) -> int:
    """Bytes that a tape may take: an eighth of the machine's unless it was said."""
    if memory is not None:
        return whole(memory, "memory", 1, sys.maxsize)
    return _MACHINE // 8


def check_words(outputs: str | Sequence[str], gradient: str, constants: str, on_failure: str) -> None:
    """Raises ArgumentError for an output or a word of an option that is none."""
    for name, value, allowed in (("gradient", gradient, _KINDS), ("constants", constants, ("recompute", "keep")), ("on_failure", on_failure, ("raise", "mask"))):
        if value not in allowed:
            raise ArgumentError(f"{name}: expected {', '.join(allowed)}, found {value!r}")
    for name in (outputs,) if isinstance(outputs, str) else outputs:
        if name not in _OUTPUTS:
            raise ArgumentError(f"outputs: expected some of {', '.join(_OUTPUTS)}, found {name!r}")


def _widths(m):
    """Shapes of inputs of one step."""
    if "_input_widths" not in m.__dict__:
        m._keep(_input_widths={
            "ctrl": (m.nu,), "qfrc_applied": (m.nv,), "xfrc_applied": (m.nbody, 6), "command": (m._compiled.size("ncommand"),),
            "mocap_pos": (m.nmocap, 3), "mocap_quat": (m.nmocap, 4), "mocap_vel": (m.nmocap, 6), "mocap_pos_before": (m.nmocap, 3),
            "mocap_quat_before": (m.nmocap, 4)})
    return m._input_widths


def velocity_counts(model, gradient):
    """Whether anything reads how mocap bodies move."""
    if not model.nmocap:
        return False
    contact = model.contact
    return gradient == "event" or contact["method"] == "impact" or contact["mocap_motion"] == "followed" or "points" in model._slots


class Rollout(RolloutArrays):
    """A trajectory of a model, or of B of them, with what its derivatives need. Made by Model.rollout.

    qpos, qvel, act, ...         (N + 1, size) or (B, N + 1, size): every field of the states, row 0 the start; time (N + 1,) or (B, N + 1), s
    states                       (N + 1, StateSize) or (B, N + 1, StateSize): all of them, read-only
    ctrl, qfrc_applied, ...      what was given, read-only, in its shape: (N, nu), or with an axis of worlds (B, N, nu)
    sensordata, xpos, site_xpos  (N + 1, ...) as asked for by `outputs`: row k at state k with the inputs of step k, the last row with those of
                                 the last step
    steps_done                   steps that succeeded, an int, or (B,) of worlds
    status                       of each world (code, reason): (0, "") where it went well
    """

    model: Model
    steps: int
    batch: int | None
    gradient: str
    status: list[tuple[int, str]]

    def __init__(self, model: Model, state: State | ArrayLike, ctrl: ArrayLike | None = None, *, steps: int | None = None,
                 params: Mapping[str, ArrayLike] | None = None, constants: Constants = "recompute", qfrc_applied: ArrayLike | None = None,
                 xfrc_applied: ArrayLike | None = None, mocap_pos: ArrayLike | None = None, mocap_quat: ArrayLike | None = None,
                 mocap_vel: ArrayLike | None = None, mocap_pos_before: ArrayLike | None = None, mocap_quat_before: ArrayLike | None = None,
                 command: ArrayLike | None = None, outputs: str | Sequence[str] = ("sensordata",), gradient: GradientKind = "exact",
                 memory: int | None = None, threads: int | None = None, on_failure: OnFailure = "raise", keep: bool = True,
                 progress: Progress = None) -> None:
        self.model, self.gradient, self._lock, self._working = model, gradient, threading.RLock(), False
        check_words(outputs, gradient, constants, on_failure)
        self._recompute = constants == "recompute"
        inputs = {"ctrl": ctrl, "qfrc_applied": qfrc_applied, "xfrc_applied": xfrc_applied, "command": command, "mocap_pos": mocap_pos,
                  "mocap_quat": mocap_quat, "mocap_vel": mocap_vel, "mocap_pos_before": mocap_pos_before, "mocap_quat_before": mocap_quat_before}
        self.steps = self._steps(steps, inputs)

        # What is there once and what for each world.
        flat, worlds = batched(flat_of(model, state), (model._size,), "state")
        self._state_worlds = worlds
        read = self._read_inputs(inputs)
        self._warn_of_path(flat, read)
        given = self._read_params({} if params is None else params)
        self.batch = common([worlds, *(i.worlds for i in read.values()), *(g.worlds for g in given.values())],
                            ["state", *read, *(f"params['{n}']" for n in given)])
        count = self.batch or 1

        own = tuple(n for n, g in given.items() if (g.worlds or 1) > 1)
        self._telling = Telling(progress)
        self._run = _core.Run(compiled=model._compiled, worlds=count, steps=self.steps, threads=whole(threads or 0, "threads", 0), keep=keep,
                              shared_inputs=keep, own=own, budget=memory_of_tapes(memory), partial=on_failure == "mask", progress=self._telling.tell)
        self._keep, self._inputs, self._given, self._own = keep, read, given, own
        self._forward(flat, count, outputs, on_failure)

    # ---- reading ----------------------------------------------------------------------------------------------------
    def _widths(self):
        return _widths(self.model)

    def _steps(self, steps, inputs):
        """N, as said or as the inputs have rows."""
        width = self._widths()
        rows = {}
        for name, value in inputs.items():
            if value is not None and name not in _ONE_ROW:
                shape = np.shape(value) if hasattr(value, "shape") else real(value, name).shape
                axes = len(width[name])
                if len(shape) not in (axes + 1, axes + 2):
                    raise ArgumentError(f"{name}: expected shape {words(('N', *width[name]))}, or {words(('B', 'N', *width[name]))} of B worlds, "
                                        f"found {words(shape)}")
                rows.setdefault(shape[-axes - 1], name)
        if steps is not None:
            rows.setdefault(whole(steps, "steps", 1), "steps")
        if len(rows) > 1:
            (a, first), (b, second) = list(rows.items())[:2]
            raise ArgumentError(f"{first} has {a} steps and {second} has {b}" if second != "steps" else f"{first} has {a} steps, but steps is {b}")
        if not rows:
            raise ArgumentError("how many steps? Give ctrl or steps")
        found = next(iter(rows))
        if found < 1:
            raise ArgumentError(f"expected 1 step or more, found {found}")
        return found

    def _read_inputs(self, inputs):
        """Arrays by name, each with the axis that it came with; one row for all worlds where that has one entry."""
        read = {}
        for name, value in inputs.items():
            if value is None:
                read[name] = _NOT_GIVEN
                continue
            rows = () if name in _ONE_ROW else (self.steps,)
            a, worlds = batched(value, (*rows, *self._widths()[name]), name)
            data = a[0] if worlds == 1 else a
            read[name] = _Input(np.array(data, order="C"), worlds, a.shape)
        return read

    def _warn_of_path(self, flat, read):
        """A run that goes on needs the last pose of the part before: before row 0 stands the model's, from which a body would come in one step."""
        m = self.model
        if not velocity_counts(m, self.gradient) or read["mocap_vel"].data is not None or not np.any(flat[..., m._slots["time"]] > 0):
            return
        for name, own in (("mocap_pos", "body_pos"), ("mocap_quat", "body_quat")):
            rows = read[name].data
            if rows is None or read[f"{name}_before"].data is not None:
                continue
            mocap = m._field("body_mocapid")
            led = np.flatnonzero(mocap >= 0)
            if np.any(rows[..., 0, mocap[led], :] != m.params[own][led]):
                warnings.warn(f"the state is of a later time, and {name}_before was not given: before row 0 of {name} the bodies stood where the model has "
                              f"them, so they come from there in one step; where a run goes on, give the last {name} of the part before",
                              RuntimeWarning, stacklevel=4)

    def _read_params(self, params):
        given = {}
        for name, p, shape in self.model._each(params, "params"):
            a, worlds = batched(params[name], shape, f"params['{name}']")
            given[name] = _Input((p, a[0] if worlds == 1 else a), worlds, a.shape)
        return given

    def _shared(self):
        """Bits of the inputs that all worlds have in common, and each input as C takes it."""
        count, bits, arrays = self.batch or 1, 0, {}
        if count == 1:
            return bits, {name: i.data for name, i in self._inputs.items()}
        mocap = [i for n, i in self._inputs.items() if n.startswith("mocap") and i.data is not None]
        mixed = len({(i.worlds or 1) > 1 for i in mocap}) > 1
        for name, i in self._inputs.items():
            alone = (i.worlds or 1) == 1
            if i.data is not None and alone and mixed and name.startswith("mocap"):
                arrays[name] = np.repeat(i.data[None], count, axis=0)
                continue
            arrays[name] = i.data
            if i.data is not None and alone:
                bits |= _SHARED[name]
            elif i.data is None and not (name.startswith("mocap") and mocap):
                bits |= _SHARED[name]
        return bits, arrays

    # ---- forward ------------------------------------------------------------------------------------------------------
    def _theta(self):
        """Parameters that worlds share, before and after what derives from them is computed, and each world's own."""
        m = self.model
        if not self._given:
            return m._theta, m._theta, None
        theta = m._theta.copy()
        for name, g in self._given.items():
            p, a = g.data
            theta[p.place] = (a if (g.worlds or 1) == 1 else a[0]).ravel()
        m._compiled.check_params(theta)
        before = theta
        shared = [n for n in self._given if n not in self._own]
        if self._recompute and shared:
            theta = theta.copy()
            m._compiled.constants(theta)
            m._follow(((n, self._given[n].data[0]) for n in shared), before, theta)

        columns = self._run.own()
        if not columns:
            return before, theta, None
        width = max(c + rows * cols for _, c, rows, cols, _ in columns)
        own = np.zeros((self.batch, width))
        self._columns, self._own_width = {}, width
        for _, column, rows, cols, offset in columns:
            own[:, column:column + rows * cols] = theta[offset:offset + rows * cols]
        for name in self._own:
            p, a = self._given[name].data
            for _, column, rows, cols, offset in columns:
                if offset <= p.offset < offset + rows * cols:
                    first = column + p.offset - offset
                    self._columns[name] = slice(first, first + p.rows * p.cols)
            own[:, self._columns[name]] = a.reshape(self.batch, -1)
        full = before.copy()
        for w in range(self.batch):  # each world's values in range
            for name in self._own:
                p, a = self._given[name].data
                full[p.place] = a[w].ravel()
            m._compiled.check_params(full)
        return before, theta, own

    def _forward(self, flat, count, outputs, on_failure):
        """Rolls out `count` worlds: states, steps_done, status and the outputs asked for, and what derivatives need to know of the inputs."""
        m, rows = self.model, (count, self.steps + 1)
        start = flat.reshape(1, -1).copy() if count == 1 else np.ascontiguousarray(np.broadcast_to(flat, (count, m._size))).copy()
        states = np.empty((*rows, m._size))  # written by the steps: to touch it here takes long where it is large
        shapes = {"sensordata": (m.nsensordata,), "xpos": (m.nbody, 3), "site_xpos": (m.nsite, 3)}
        wanted = (outputs,) if isinstance(outputs, str) else outputs
        seen = {name: np.empty((*rows, *shapes[name])) for name in _OUTPUTS if name in wanted}
        steps_done = np.zeros(count, dtype=np.int32)

        self._bits, arrays = self._shared()
        self._before, theta, own = self._theta()
        self._derived_own = bool(own is not None and self._recompute)
        inputs = {"theta": theta, "state": start, "own": own, **arrays}
        with self._telling:
            failed = self._run.forward(inputs, self._bits, self._derived_own, {"states": states, **seen}, steps_done)

        self.status = [self._run.status(w) for w in range(count)] if failed else [(0, "")] * count
        if failed:
            self._repeat_last(start, states, seen, steps_done)
        of_worlds = (lambda a: a[0]) if self.batch is None else (lambda a: a)
        self._kept = {name: of_worlds(a) for name, a in {"states": states, **seen}.items()}
        for a in self._kept.values():
            a.flags.writeable = False
        self._steps_done = int(steps_done[0]) if self.batch is None else steps_done
        if failed and on_failure == "raise":
            self._raise()

    def _repeat_last(self, start, states, seen, steps_done):
        """Rows after a failure repeat the last good state, and of the state at which the step failed nothing was seen."""
        for w in np.flatnonzero(steps_done < self.steps):
            done = steps_done[w]
            if done == 0:
                states[w, 0] = start[w]  # also of a world that cannot even begin
            states[w, done + 1:] = states[w, done]
            for a in seen.values():
                a[w, done:] = a[w, done - 1] if done else np.nan

    def _raise(self):
        world = next(w for w, (status, _) in enumerate(self.status) if status)
        status, text = self.status[world]
        error = of_status(status, text if self.batch is None else f"world {world}: {text}")
        if isinstance(error, StepError):
            done = self.steps_done if self.batch is None else int(self.steps_done[world])
            error.world, error.step, error.rollout = world, done, self
        raise error

    # ---- what it is ---------------------------------------------------------------------------------------------------
    @property
    def steps_done(self) -> Any:
        """(B,) of worlds: steps of each that succeeded; without worlds an int."""
        return self._steps_done

    def _array(self, name: str) -> Array:
        model, seen, inputs = self.__dict__.get("model"), self.__dict__.get("_kept", {}), self.__dict__.get("_inputs", {})
        if name in seen:
            return seen[name]
        if model is not None and name in model._slots and seen:
            part = seen["states"][..., model._slots[name]]
            return part[..., 0] if name == "time" else part
        if name in inputs and inputs[name].data is not None:
            given = inputs[name].data.reshape(inputs[name].shape)
            given.flags.writeable = False
            return given
        raise AttributeError(f"a rollout has no '{name}'")

    if not TYPE_CHECKING:  # which would take every name for one that is there
        def __getattr__(self, name):
            return self._array(name)

    def state(self, k: int) -> State:
        """State k of 0 to N, or -1 for the last (of all worlds): a copy, from which another rollout goes on with the same bits.

        Raises IndexError beyond them.
        """
        return State(self.model, np.array(self.states[..., range(self.steps + 1)[k], :], order="C"))

    @property
    def final(self) -> State:
        """The last state (of all worlds): a copy."""
        return self.state(-1)

    def save(self, path: str | os.PathLike[str]) -> str:
        """Write it as a page that plays it (.html), a trajectory file of the program (.npz) or a moving scene (.glb); returns the path.

        Pages and scenes show one world: ArgumentError for a batch, and for another ending.
        """
        from .commands import save
        return save(self, path)

    @property
    def nbytes(self) -> int:
        """Bytes that it holds now: the trajectory, what it was given, the tape and the working memory until close()."""
        arrays = [*self._kept.values(), *(i.data for i in self._inputs.values() if i.data is not None)]
        return sum(a.nbytes for a in arrays) + (self._run.bytes() if self._run is not None else 0)

    def _park(self):
        """Let go of the tape, as large as a hundred short trajectories; a derivative runs the rollout again, to the same bits."""
        with self._lock:
            if self._run is not None and not self._working:
                self._run.park()

    def close(self) -> None:
        """Give the tape back; the trajectory stays. Derivatives raise ArgumentError afterwards. `with model.rollout(...) as r:` does it, too."""
        self._run = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _alone(self):
        """One derivative at a time: other threads wait, and a progress function of one cannot ask for another."""
        with self._lock:
            if self._working:
                raise ArgumentError("this rollout is at work for a derivative, from whose progress function this call comes")
            self._working = True
            try:
                with self._telling:
                    yield
            finally:
                self._working = False

    def __copy__(self) -> Self:
        return self

    def __reduce__(self):
        raise TypeError("a Rollout does not pickle: its tape belongs to this process. Take r.states, r.final or Rollout.save")

    def _open(self):
        if self._run is None:
            raise ArgumentError("this rollout was closed: its tape is gone")
        if not self._keep:
            raise ArgumentError("this rollout was made with keep=False: it has no tape")
        return self._run

    # ---- reverse --------------------------------------------------------------------------------------------------------
    def _cotangent(self, name, value, width, called=None):
        """(array (worlds, rows, width), whether it has a row for every state). called: what errors call it."""
        called = called or f"cotangent of {name}"
        if value is None:
            return None, False
        lead = () if self.batch is None else (self.batch,)
        a = real(value, called)
        last, every = (*lead, *width), (*lead, self.steps + 1, *width)
        if a.shape == last and last != every:
            return a, False
        if a.shape == every:
            return a, True
        raise ArgumentError(f"{called}: expected shape {words(last)} of the last state or {words(every)} of all, found {words(a.shape)}")

    def _seen(self, bar):
        """Cotangents of outputs (array, whether of every state) without those of the state at which a world failed: nothing was seen of it."""
        a, every = bar
        failed = np.flatnonzero(np.atleast_1d(self.steps_done) < self.steps)
        if a is None or not every or not failed.size:
            return bar
        a = np.array(a).reshape(self.batch or 1, self.steps + 1, -1)
        for w in failed:
            a[w, np.atleast_1d(self.steps_done)[w]:] = 0
        return a, every

    def _add_starts(self, x0, bars):
        """Of worlds that failed at their first step there is nothing to pull back; cotangents of the start itself act."""
        places = {**_tangent_parts(self.model), "state": slice(None)}
        for w in np.flatnonzero(np.atleast_1d(self.steps_done) == 0):
            for name, (a, every) in bars.items():
                if every:
                    x0[w, places[name]] += a.reshape(self.batch or 1, self.steps + 1, -1)[w, 0]

    def _with_points(self, bar, given):
        """Cotangents of the state with those of deformables' points added."""
        parts, size = _tangent_parts(self.model), len(self.model.tangent_names)
        for name, value in given.items():
            if value is None:
                continue
            if name not in parts:
                raise ArgumentError(f"cotangent of {name}: the model has no deformables")
            a, every = self._cotangent(name, value, (parts[name].stop - parts[name].start,))
            lead = () if self.batch is None else (self.batch,)
            whole = np.zeros((*lead, self.steps + 1, size))
            if bar[0] is not None:
                whole[(...,) if bar[1] else (..., -1, slice(None))] = bar[0]
            whole[(..., parts[name]) if every else (..., -1, parts[name])] += a
            bar = whole, True
        return bar

    def _summed(self, rows, worlds):
        """Rows of worlds in the shape of what was passed: summed where that was shared."""
        if self.batch is None:
            return rows[0]
        if worlds is None:
            return tree_sum(rows)
        return tree_sum(rows)[None] if worlds == 1 and self.batch > 1 else rows

    def _wanted(self, wrt):
        """Names of inputs and of parameters."""
        given = [n for n, i in self._inputs.items() if i.data is not None and n not in _ROTATIONS]
        for pos, quat in (("mocap_pos", "mocap_quat"), ("mocap_pos_before", "mocap_quat_before")):
            if self._inputs[pos].data is not None or self._inputs[quat].data is not None:
                given = [n for n in given if n != pos] + [pos, _ROTATIONS[quat]]
        if wrt is None:
            return given, list(self._given)
        known = set(_DERIVED)
        names = [wrt] if isinstance(wrt, str) else list(wrt)
        inputs = [n for n in names if n in known]
        params = [n for n in names if n not in known and n not in ("state", *_tangent_parts(self.model))]
        for n in params:
            if n in _ROTATIONS:
                raise ArgumentError(f"wrt: gradients by orientations of mocap bodies are by '{_ROTATIONS[n]}', rotation vectors in the body's frame")
        missing = [n for n in inputs if (n == "mocap_vel" or n in _ONE_ROW) and not self._has(n)]
        if missing:
            raise ArgumentError(f"wrt: the rollout was not given {missing[0]}: what it owes to the bodies' path is in mocap_pos and mocap_rot")
        for n in params:
            self.model._parameter(n)
        return inputs, params

    def _has(self, name):
        """Was the input given that a derivative by `name` is by?"""
        back = {v: k for k, v in _ROTATIONS.items()}
        return self._inputs[back.get(name, name)].data is not None

    def vjp(self, qpos: ArrayLike | None = None, qvel: ArrayLike | None = None, act: ArrayLike | None = None,
            sensordata: ArrayLike | None = None, xpos: ArrayLike | None = None, site_xpos: ArrayLike | None = None,
            state: ArrayLike | None = None, points: ArrayLike | None = None, point_velocity: ArrayLike | None = None, *,
            wrt: str | Sequence[str] | None = None, check: str | bool | None = "auto", seed: int | None = None, decay: float = 0.0, window: float = 0.0,
            clip: float = 0.0) -> Gradient:
        """Pull cotangents back to the start: the derivative of their inner product with the trajectory. May be called again, from any thread.

        Each is of the last state, (nv,), or of all states, (N + 1, nv), with B before them in a batch; anything else is refused. Of a
        world that failed (on_failure="mask") there is no last state: a cotangent of it has no effect and its derivatives are zeros;
        those of all states act up to there.

        qpos, qvel      (nv,) or (N + 1, nv), qpos in the tangent space (Model.to_tangent);  act (na,) or (N + 1, na)
        state           (n,) or (N + 1, n), in the order of Model.tangent_names, in place of the three or added to them
        points, point_velocity  (3 npoint,) or (N + 1, 3 npoint): of deformables
        sensordata      (nsensordata,) or (N + 1, nsensordata);  xpos (..., nbody, 3), site_xpos (..., nsite, 3): what the rollout has as outputs
        wrt             names of inputs and parameters that gradients are wanted by, also of those not passed; None: those that were passed.
                        By the initial state there always is one
        check, seed     the spot check of the certificate: False, "steps" (2 % of the time of long rollouts, up to two rollouts of short ones),
                        "full" (two more rollouts), or "auto": as "steps", but in loops of calls on a model only as often as it costs at most a
                        fifth of a rollout a call; the first is checked, and the next after one that was off. seed: its draw; None: another each time
        decay           1/s: cotangents fade by exp(-decay t) on their way back; 0: they do not
        window          s: they are cut to zero at the borders of windows this long; 0: none
        clip            their largest norm, scaled to it where it is more; 0: any. With any of the three the gradient is truncated: the
                        certificate says so

        Raises ArgumentError for what does not fit or after close, KeyError for a name in wrt, NotDifferentiableError.
        """
        run, m, count = self._open(), self.model, self.batch or 1
        if not isinstance(check, (str, bool, type(None))) or check not in {"auto", *_CHECKS}:
            raise ArgumentError(f"check: expected False, 'auto', 'steps' or 'full', found {check!r}")
        if check == "auto":
            check = m._checks.due(self.steps * count)
        seed = m._checks.count if seed is None else whole(seed, "seed", 0, 2**63 - 1)
        n = len(m.tangent_names)
        width = {"qpos": (m.nv,), "qvel": (m.nv,), "act": (m.na,), "sensordata": (m.nsensordata,), "xpos": (m.nbody, 3), "site_xpos": (m.nsite, 3), "state": (n,)}
        given = {"qpos": qpos, "qvel": qvel, "act": act, "sensordata": sensordata, "xpos": xpos, "site_xpos": site_xpos, "state": state}
        bars = [self._cotangent(name, value, width[name]) for name, value in given.items()]
        bars = [self._seen(bar) if name in _OUTPUTS else bar for name, bar in zip(given, bars, strict=True)]
        bars[-1] = self._with_points(bars[-1], {"points": points, "point_velocity": point_velocity})
        inputs, params = self._wanted(wrt)

        # Rows of every world, or one where an input is shared.
        rows = lambda bit: (1 if self._bits & bit else count)
        out = {name: np.zeros((rows(_SHARED[name]), *self._row(name))) if name in inputs else None for name in _DERIVED}
        x0 = np.zeros((count, n))
        theta = np.zeros(len(m._theta)) if params else None
        own = np.zeros((count, self._own_width)) if self._own else None
        with self._alone():
            run.choose(self.gradient, self._fields(params))
            last, all_states = ({name: a for name, (a, every) in zip(given, bars, strict=True) if every is which} for which in (False, True))
            certificates = run.vjp(last, all_states, {"state": x0, **out, "theta": theta, "own": own}, _CHECKS[check], seed, decay, window, clip)
            m._checks.note(certificates)
        if theta is not None and self._recompute:
            m._compiled.constants(self._before, theta)
        self._add_starts(x0, {name: bar for name, bar in zip(given, bars, strict=True) if name not in _OUTPUTS})
        return Gradient(self._summed(x0, self._state_worlds), _tangent_parts(m), self._shaped_inputs(out, inputs), self._shaped_params(theta, own, params),
                        certificates[0] if self.batch is None else certificates)

    def _row(self, name):
        """Shape of a derivative by an input."""
        width = self._widths()[name] if name in self._widths() else (self.model.nmocap, 3)
        return width if name in _ONE_ROW else (self.steps, *width)

    @staticmethod
    def _shared_bit(name):
        """Of an input in the bits of those that worlds share."""
        return _SHARED[name]

    def _fields(self, params):
        """Fields of theta that the pullback must carry: those wanted, and where constants follow from parameters all that may."""
        fields = {self.model._field_of(n) for n in params}
        if fields and self._recompute:
            fields |= {p.name for p in self.model._parameters.values() if p.derived} | {"eq_data", "geom_fluid"} & set(self.model._parameters)
        return tuple(sorted(fields))

    def _shaped_inputs(self, out, wanted):
        shaped = {}
        for name in wanted:
            a = out[name]
            i = self._inputs[{v: k for k, v in _ROTATIONS.items()}.get(name, name)]
            worlds = i.worlds
            if self.batch is None:
                shaped[name] = a[0]
            elif len(a) == 1 and self.batch > 1:  # C summed it
                shaped[name] = a if worlds == 1 else a[0]
            else:
                shaped[name] = self._summed(a, worlds)
        return shaped

    def _shaped_params(self, theta, own, names):
        result = Params()
        for name in names:
            p, shape = self.model._parameter(name)
            g = self._given.get(name)
            if name in self._own:
                result[name] = own[:, self._columns[name]].reshape(g.shape).copy()
            else:
                result[name] = theta[p.place].reshape(g.shape if g else shape).copy()
        return result

    # ---- forward derivative ---------------------------------------------------------------------------------------------
    def jvp(self, state: ArrayLike | None = None, *, qpos: ArrayLike | None = None, qvel: ArrayLike | None = None,
            act: ArrayLike | None = None, ctrl: ArrayLike | None = None, qfrc_applied: ArrayLike | None = None,
            xfrc_applied: ArrayLike | None = None, command: ArrayLike | None = None, mocap_pos: ArrayLike | None = None,
            mocap_rot: ArrayLike | None = None, mocap_vel: ArrayLike | None = None, mocap_pos_before: ArrayLike | None = None,
            mocap_rot_before: ArrayLike | None = None, points: ArrayLike | None = None, point_velocity: ArrayLike | None = None,
            params: Mapping[str, ArrayLike] | None = None, directions: int | None = None) -> Tangent:
        """The derivative of the trajectory along a direction of its inputs, of each world its own: exact to rounding, no differences.

        Directions have the shapes of what was passed; what is not named does not move.

        state       (n,) or (B, n), in the order of Model.tangent_names; or its parts qpos, qvel (nv,), act (na,); qpos in the tangent space;
                    of deformables points, point_velocity (3 npoint,)
        ctrl        (N, nu);  qfrc_applied (N, nv);  xfrc_applied (N, nbody, 6);  command;  mocap_pos, mocap_rot (N, nmocap, 3), m and rad;
                    mocap_vel (N, nmocap, 6);  mocap_pos_before, mocap_rot_before (nmocap, 3)
        params      {"body_mass": (nbody,), ...}, also of parameters that were not passed
        directions  K: that many at once, which costs less than one after the other. Each of the arrays above has an axis of K in front, and so
                    have those of the Tangent

        Returns a Tangent. Raises ArgumentError for what does not fit or after close.
        """
        given = {"state": state, "qpos": qpos, "qvel": qvel, "act": act, "points": points, "point_velocity": point_velocity, "ctrl": ctrl,
                 "qfrc_applied": qfrc_applied, "xfrc_applied": xfrc_applied, "command": command, "mocap_pos": mocap_pos, "mocap_rot": mocap_rot,
                 "mocap_vel": mocap_vel, "mocap_pos_before": mocap_pos_before, "mocap_rot_before": mocap_rot_before}
        given = {name: value for name, value in given.items() if value is not None}
        if directions is None:
            ways = [self._read_way(given, params)]
        else:
            of, each = self._several(given, directions, "direction of {}"), self._several(params, directions, "direction of params['{}']")
            ways = [self._read_way({n: a[k] for n, a in of.items()}, each and {n: a[k] for n, a in each.items()}) for k in range(directions)]
        found = self._push(ways, [name for name in _OUTPUTS if name in self._kept])
        if directions is None:
            found = {name: a[0] for name, a in found.items()}
        return Tangent(found.pop("x"), _tangent_parts(self.model), found)

    def _push(self, ways, outputs):
        """Tangents of all states, and of outputs, along each of several directions, as _read_way has them: by name, (K, ...)."""
        run, m = self._open(), self.model
        together = {name: None for name in ways[0]}
        for name in together:
            there = next((way[name] for way in ways if way[name] is not None), None)
            if there is not None:
                together[name] = np.stack([np.zeros_like(there) if way[name] is None else way[name] for way in ways])
        shape = {"sensordata": (m.nsensordata,), "xpos": (m.nbody, 3), "site_xpos": (m.nsite, 3)}
        rows = (len(ways), self.batch or 1, self.steps + 1)
        x = np.zeros((*rows, len(m.tangent_names)))
        out = {name: np.zeros((*rows, *shape[name])) for name in outputs}
        with self._alone():
            run.choose(self.gradient, ())
            run.jvp(together, {"states": x, **{name: out[name] if name in out and out[name].size else None for name in _OUTPUTS}}, len(ways))
        return {name: a[:, 0] if self.batch is None else a for name, a in {"x": x, **out}.items()}

    @staticmethod
    def _several(given, count, name):
        """Arrays with an axis of so many directions in front."""
        if given is None:
            return None
        whole(count, "directions", 1)
        found = {n: real(value, name.format(n)) for n, value in given.items()}
        for n, a in found.items():
            if a.ndim < 1 or len(a) != count:
                raise ArgumentError(f"{name.format(n)}: expected {count} directions along the first axis, found shape {words(a.shape)}")
        return found

    def _read_way(self, given, params):
        """One direction as C takes it, by its names."""
        m = self.model
        n, parts = len(m.tangent_names), _tangent_parts(m)
        x0 = np.zeros((self.batch or 1, n))
        for name in ("state", "qpos", "qvel", "act", "points", "point_velocity"):
            if name in given:
                if name != "state" and name not in parts:
                    raise ArgumentError(f"direction of {name}: the model has no deformables")
                place = parts.get(name, slice(0, n))
                x0[:, place] += self._way(name, given[name], (place.stop - place.start,))[0]
        theta, own = self._param_direction(params)
        return {"state": x0, **{name: self._direction(name, given.get(name)) for name in _DERIVED}, "theta": theta, "own": own}

    def _way(self, name, value, shape):
        """A direction as it came, and its worlds: as many as the rollout has, 1, or None."""
        a, worlds = batched(value, shape, f"direction of {name}")
        if worlds not in (None, 1, self.batch or 1):
            raise ArgumentError(f"direction of {name}: expected {self.batch or 1} worlds, found {worlds}")
        return a, worlds

    def _direction(self, name, value):
        """A direction of an input as C takes it."""
        if value is None:
            return None
        if (name == "mocap_vel" or name in _ONE_ROW) and not self._has(name):
            raise ArgumentError(f"direction of {name}: the rollout was not given it; what moves is the bodies' path, mocap_pos and mocap_rot")
        a, worlds = self._way(name, value, self._row(name))
        count = self.batch or 1
        one = bool(self._bits & _SHARED[name])
        if one and (worlds or 1) > 1:
            raise ArgumentError(f"direction of {name}: it is shared by all worlds, and so is a direction of it")
        a = a[None] if worlds is None else a
        return np.ascontiguousarray(a[0] if one else np.broadcast_to(a, (count, *a.shape[1:])))

    def _param_direction(self, params):
        if params is None:
            return None, None
        theta = np.zeros(len(self.model._theta))
        own = np.zeros((self.batch, self._own_width)) if self._own else None
        for name, p, shape in self.model._each(params, "direction of params"):
            a, worlds = self._way(f"params['{name}']", params[name], shape)
            if name in self._own:
                own[:, self._columns[name]] = a.reshape(worlds or 1, -1)
            elif (worlds or 1) > 1:
                raise ArgumentError(f"direction of params['{name}']: it is shared by all worlds, and so is a direction of it")
            else:
                theta[p.place] = a.ravel()
        if self._recompute:
            self.model._compiled.constants(self._before, theta, True)
        return theta, own

    def hvp(self, direction: Mapping[str, Any], cotangents: Mapping[str, ArrayLike],
            changes: Mapping[str, ArrayLike] | Callable[[Tangent], Mapping[str, ArrayLike]] | None = None, *,
            wrt: str | Sequence[str] | None = None) -> Gradient:
        """The Hessian of a loss of the trajectory times a direction, of each world its own: exact to rounding, no differences.

            r.hvp({"ctrl": d}, {"qvel": r.qvel}, lambda t: {"qvel": t.qvel})      # of half the sum of squares of all velocities

        direction   by name as of jvp: "state", or "qpos", "qvel", "act"; "ctrl", "qfrc_applied", "xfrc_applied"; "params", a dict by name
        cotangents  the loss's gradient by the trajectory, by name as of vjp: "qpos" (nv,) or (N + 1, nv) in the tangent space, "qvel", "act",
                    "state", "sensordata", "xpos", "site_xpos"
        changes     how those numbers change along the direction: the loss's own second derivatives times the Tangent. A dict like cotangents,
                    or a function of the Tangent that gives it; None: they stay, as of a loss linear in the trajectory
        wrt         of "ctrl", "qfrc_applied", "xfrc_applied", also of those not passed; None: those that were passed. By the initial state there
                    always is one, by the coordinates w of x0 exp(w) (docs/derivatives.md, 13): so Hessians are symmetric

        Of a world that failed (on_failure="mask") numbers of the last state have no effect, as in vjp: zeros; those of all
        states act up to there. At ties and kinks it is that of one side. It is how vjp(**cotangents) changes along the
        direction: a Gradient, without params and certificate. It holds the records of all steps of the worlds at work at one
        time. Raises ArgumentError for what does not fit or after close, UnsupportedError by name: results by parameters (a
        direction may move them), mocap bodies and commands; gradient "event" and "smooth"; deformables, policies, delays,
        contact methods other than soft and penalty, noslip_iterations, forces of a medium, contacts of pairs without a closed
        form.
        """
        from .second import hvp
        return hvp(self, direction, cotangents, changes, wrt)

    def jacobian(self, of: str = "state", wrt: str | Sequence[str] | None = None, *, at: Literal["last", "all"] = "last",
                 mode: Literal["auto", "forward", "reverse"] = "auto") -> dict[str, Array]:
        """Jacobian of a quantity of the trajectory by what went into it, exact to rounding, by the mode that is cheaper.

        of      "state" (n numbers, in the order of Model.tangent_names), "qpos" (nv, in the tangent space), "qvel", "act", or an output that the
                rollout has: "sensordata", "xpos", "site_xpos"
        wrt     names: of the initial "state", "qpos", "qvel", "act", of inputs ("ctrl", ...), of parameters, whole or in part; None: the
                parameters that were given, else the initial state
        at      the "last" state, or "all" of them
        mode    "forward": directions together, whose cost hardly grows with their number; "reverse": a pullback for each number of `of`, of one
                world's last state; "auto": the cheaper one, by counts alone

        Returns a dict by the names of wrt: shape of `of`, then that of what it is by: jacobian("qpos", ["body_mass"])["body_mass"] is
        (nv, nbody), at="all" (N + 1, nv, nbody), of a batch with B in front, each world's own. Raises ArgumentError, KeyError for a
        parameter's name, NotDifferentiableError.
        """
        from .jacobian import jacobian
        return jacobian(self, of, wrt, at, mode)

    def noise(self, *, move: float = 1e-3, directions: int = 16, seed: int = 0) -> dict[str, Any] | list[dict[str, Any]]:
        """How far derivatives by the start reach: moves of it as they are made, beside those that the derivative foresees.

        move        their length in the tangent space;  directions: how many, random ones; seed: of these

        Returns a dict, of a batch one a world: "time" beyond which the gradient is noise, s (inf: it reaches to the end), "step" (-1), "window"
        that is proposed, s, "growth" (logarithm), "unforeseen" (share at the end), "contact", and "verdict" and "proposal" in words ("").
        Warns (RuntimeWarning) where there is noise. Costs as many rollouts as directions, and their forward derivatives; where little grows
        two of these. Raises ArgumentError for what does not fit or after close.
        """
        run, count = self._open(), whole(directions, "directions", 1, 256)
        if not (isinstance(move, (int, float)) and 0 < move < np.inf):
            raise ArgumentError(f"move: expected a number above 0, found {move!r}")
        with self._alone():
            run.choose(self.gradient, ())
            found = run.noise(float(move), count, whole(seed, "seed", 0, 2**63 - 1))
        first = min(found, key=lambda n: n["time"])
        if first["verdict"]:
            warnings.warn(f"{first['verdict']}. What helps: {first['proposal']}", RuntimeWarning, stacklevel=2)
        return found[0] if self.batch is None else found

    def linearize(self, sensors: bool = False, wrt: str | Sequence[str] = "ctrl") -> tuple[Array, ...]:
        """Jacobians of every step of the trajectory: x[k + 1] moves by A[k] dx[k] + B[k] dctrl[k], in the order of Model.tangent_names.

        A (N, n, n), B (N, n, nu), of a batch with an axis of worlds before. sensors=True: also C (N, nsensordata, n), D (N, nsensordata, nu),
        those of sensordata. wrt: what B and D are by: of "ctrl", "mocap_pos", "mocap_rot" (3 nmocap columns each), side by side in this
        order. They are those of the steps as taken, with gradient="smooth" too. Raises ArgumentError after close.
        """
        run, m, count = self._open(), self.model, self.batch or 1
        n, ns = len(m.tangent_names), m.nsensordata
        by, columns = self._columns_by((wrt,) if isinstance(wrt, str) else wrt)
        room = np.empty if np.all(self.steps_done == self.steps) else np.zeros  # of steps that were not made nothing is written
        a, b = room((count, self.steps, n, n)), room((count, self.steps, n, columns))
        c, d = (room((count, self.steps, ns, n)), room((count, self.steps, ns, columns))) if sensors else (None, None)
        with self._alone():
            run.choose(self.gradient, ())
            run.linearize(a, b, c, d, by)
        found = (a, b, c, d) if sensors else (a, b)
        return tuple(f[0] for f in found) if self.batch is None else found

    def _columns_by(self, wrt):
        """Bits of the inputs that Jacobians are by, and how many columns they have."""
        widths = {"ctrl": self.model.nu, "mocap_pos": 3 * self.model.nmocap, "mocap_rot": 3 * self.model.nmocap}
        unknown = [name for name in wrt if name not in widths]
        if unknown or not wrt:
            raise ArgumentError(f"wrt: expected some of {', '.join(widths)}, found {unknown[0] if unknown else 'none'!r}")
        return sum(_BY[name] for name in set(wrt)), sum(widths[name] for name in set(wrt))

    def _repr_html_(self) -> str:
        """What a notebook shows: the rollout, which plays; of several worlds the first. Of a long one every second state, third, ..."""
        from .commands import arrays, as_run
        from .notebook import frame, thinned
        return frame(as_run(self), thinned(arrays(self, first=True), self.steps), repr(self) + ("" if self.batch is None else ": world 0"))

    def __repr__(self) -> str:
        worlds = "" if self.batch is None else f"{self.batch} worlds, "
        return f"<Rollout: {worlds}{self.steps} steps of {self.model.timestep:g} s>"


def linearize(model: Model, state: State | ArrayLike, ctrl: ArrayLike | None, sensors: bool, wrt: str | Sequence[str],
              inputs: Mapping[str, ArrayLike | None]) -> tuple[Array, ...]:
    """Jacobians of one step: Model.linearize."""
    one, width = {}, _widths(model)
    for name, value in {"ctrl": ctrl, **inputs}.items():
        if value is not None:
            a, worlds = batched(value, width[name], name)
            one[name] = a[None] if worlds is None else a[:, None]
    # A single step knows of no step before: bodies rest unless mocap_vel says more.
    for pose in ("mocap_pos", "mocap_quat"):
        if pose in one and "mocap_vel" not in one:
            one[f"{pose}_before"] = one[pose][..., 0, :, :]
    with Rollout(model, state, steps=1, outputs=(), **one) as r:
        return tuple(f[..., 0, :, :] for f in r.linearize(sensors, wrt))
