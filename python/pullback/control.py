"""Control by plans: a task's plan made again and again from the state that has been reached, and its feedback in between."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from . import _core
from .arrays import Description, paths_of, real, shaped, whole, words
from .errors import ArgumentError
from .state import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .arrays import Array, ArrayLike
    Path: TypeAlias = str | bytes | PathLike[Any]


@dataclass(frozen=True)
class Plan:
    """What a plan took.

    iterations    of iLQR
    loss          of the plan; guess_loss: of the last one, moved to now
    seconds       all of it; linearize_seconds, plan_seconds, run_seconds: by phase
    late          it took longer than its limit
    converged     nothing was left to gain
    """

    iterations: int
    loss: float
    guess_loss: float
    seconds: float
    linearize_seconds: float
    plan_seconds: float
    run_seconds: float
    late: bool
    converged: bool


class Mpc:
    """Model predictive control of a task (docs/task.md) that "ilqr" can solve, with one trajectory whose variables are controls.

    The task's steps are the horizon, its start the first guess, its loss what is to be small over the horizon from now on.

        mpc = pb.Mpc("balance.json")
        while True:
            mpc.plan(state, elapsed=0.02)          # from where the robot is, 20 ms after the last plan
            ctrl = mpc.control(state)              # (nu,), microseconds; again in between, with time=... since the plan

    threads     that linearize the steps of a plan, and try parts of it side by side; None: all that the process may run on. Plans do not
                depend on it
    timestep    s, of the plan's model;  steps: of the horizon

    Raises what optimize raises for the task, and InputError where it cannot be planned again and again, with the reason. One object serves one
    thread at a time: others wait.
    """

    def __init__(self, task: Path | Mapping[str, Any], *, threads: int | None = 1, allow_root: Path | Sequence[Path] = ()) -> None:
        count = 0 if threads is None else whole(threads, "threads", 1, 1024)
        with Description(task, "task") as path:
            if path is None:
                raise ArgumentError("task: expected a path or a dict, found None")
            self._mpc = _core.Mpc(path, paths_of(allow_root, "allow_root"), count)
        fields, start, self.steps, self._nu, self._n, self.timestep = self._mpc.layout()
        self._slots = {name: slice(first, first + count) for name, first, count in fields}
        self._start = np.frombuffer(start)

    def _flat(self, state: State | ArrayLike | Mapping[str, ArrayLike]) -> Array:
        if isinstance(state, Mapping):
            flat = self._start.copy()
            for name, value in state.items():
                if name not in self._slots:
                    raise ArgumentError(f"state: a state has no field '{name}'; it has {', '.join(self._slots)}")
                place = self._slots[name]
                flat[place] = shaped(np.atleast_1d(real(value, name)), (place.stop - place.start,), name)
            return flat
        if isinstance(state, State):
            if state.batch is not None:
                raise ArgumentError(f"state: expected that of one world, found {state.batch}")
            state = state.flat
        return shaped(state, self._start.shape, "state")

    def plan(self, state: State | ArrayLike | Mapping[str, ArrayLike], *, elapsed: float = 0.0, iterations: int = 1, seconds: float | None = None) -> Plan:
        """A plan from a state, `elapsed` seconds after the state of the last one, which moved by this time is the guess.

        state         a State of the same kind of model, its numbers (StateSize,), or a dict of its fields: {"qpos": ..., "qvel": ...}
        iterations    at most so many
        seconds       none begins that would end later, as long as the last ones took; None: any. The first is always made

        Raises StepError where the plan cannot be run from there: the last one stays, and goes on to serve control.
        """
        late = 0.0 if seconds is None else float(real(seconds, "seconds"))
        if seconds is not None and late <= 0:
            raise ArgumentError(f"seconds: expected more than 0, found {late:g}")
        return Plan(*self._mpc.plan(float(real(elapsed, "elapsed")), self._flat(state), whole(iterations, "iterations", 1), late))

    def control(self, state: State | ArrayLike | Mapping[str, ArrayLike], *, time: float = 0.0) -> Array:
        """Controls (nu,) at a state, `time` seconds after the one that plan was last called with: the plan's, with its answer to how far the
        state is off, within the limits of the task's variables. Before the first plan those of the task's start."""
        ctrl = np.empty(self._nu)
        self._mpc.feedback(float(real(time, "time")), self._flat(state), ctrl)
        return ctrl

    def _get(self, which: int, shape: tuple[int, ...]) -> Array:
        return np.frombuffer(self._mpc.get()[which]).reshape(shape)

    @property
    def ctrl(self) -> Array:
        """Controls of the plan (steps, nu)."""
        return self._get(0, (self.steps, self._nu))

    @property
    def states(self) -> dict[str, Array]:
        """States of the plan by field, (steps + 1, ...) each: states["qpos"]."""
        flat = self._get(1, (self.steps + 1, len(self._start)))
        return {name: flat[:, place] for name, place in self._slots.items()}

    @property
    def gains(self) -> Array:
        """Gains (steps, nu, TangentSize): a state that is off the plan's by d, in its tangent space (dq, dv, dact), is answered by gains @ d; zero
        for controls at their limits and before the first plan."""
        return self._get(2, (self.steps, self._nu, self._n))

    @property
    def age(self) -> float:
        """Seconds from the state that the plan began with to the last one that plan was called with: 0, or since plans failed."""
        return self._mpc.get()[3]

    @property
    def plans(self) -> int:
        """How many plans were made so far."""
        return self._mpc.get()[4]

    @property
    def failed(self) -> int:
        """How many of them had no answer."""
        return self._mpc.get()[5]

    def __repr__(self) -> str:
        return f"<Mpc: {self.steps} steps of {self.timestep:g} s, {words((self._nu,))} controls, {self.plans} plans>"
