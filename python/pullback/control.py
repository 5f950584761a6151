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
    seconds       all of it; linearize_seconds, plan_seconds, run_seconds: of iterations, by what they do
    late          it took longer than its limit
    converged     nothing was left to gain, and constraints are met
    prepare_seconds, iterate_seconds, finish_seconds    by phase: the last plan is moved to now; iterations; gains, and the plan handed over
    violation     of constraints, the largest by its tolerance: 1 and less is met; 0 without constraints
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
    prepare_seconds: float
    iterate_seconds: float
    finish_seconds: float
    violation: float


@dataclass(frozen=True)
class PlanNow:
    """A plan with all that belongs to it, as it was at one moment, whoever makes another meanwhile.

    ctrl        controls (steps, nu);  states: by field, (steps + 1, ...) each;  gains (steps, nu, TangentSize)
    age         s, from the state that it began with to the last one that plan was called with: 0, or since plans failed
    plans, failed       made so far; of these, without an answer
    clock       s, of that state on the clock of plans: the sum of all elapsed
    refused             states and times that were none, of plans and of control
    answers, fallbacks  of control; of these, by an older plan since the last one had failed
    control_seconds     of all answers together
    """

    ctrl: Array
    states: dict[str, Array]
    gains: Array
    age: float
    plans: int
    failed: int
    clock: float
    refused: int
    answers: int
    fallbacks: int
    control_seconds: float


class Mpc:
    """Model predictive control of a task (docs/task.md) that "ilqr" can solve, with one trajectory whose variables are controls.

    The task's steps are the horizon, its start the first guess, its loss what is to be small over the horizon from now on.
    Times of the task are those of the horizon: poses that it gives to mocap bodies, controls that are no unknowns and targets over
    time begin anew with every plan (set changes targets in between).

        mpc = pb.Mpc("balance.json")
        while True:
            mpc.plan(state, elapsed=0.02)          # from where the robot is, 20 ms after the last plan
            ctrl = mpc.control(state)              # (nu,), microseconds; again in between, with time=... since the plan

    threads     that linearize the steps of a plan, and try parts of it side by side; None: all that the process may run on. Plans do not
                depend on it
    timestep    s, of the plan's model;  steps: of the horizon

    Terms of the task that are constraints are met by multipliers, which are kept from plan to plan and moved in time as the controls are.

    Raises what optimize raises for the task, and InputError where it cannot be planned again and again, with the reason. Any thread may call control
    and read while another one plans: they wait for microseconds. Plans and changes wait for each other.
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

    def control(self, state: State | ArrayLike | Mapping[str, ArrayLike], *, time: float = 0.0, at: float | None = None) -> Array:
        """Controls (nu,) at a state, `time` seconds after the one that plan was last called with: the plan's, with its answer to how far the
        state is off, within the limits of the task's variables. Within a step the plan's state is on the line to the next; its controls are held.
        Before the first plan those of the task's start.

        at    s, in place of time, on the clock of plans, the sum of all elapsed: for a thread that does not know which plan another one makes
        """
        if at is not None and time != 0:
            raise ArgumentError("control: expected time or at, found both")
        ctrl = np.empty(self._nu)
        when = float(real(time, "time")) if at is None else float(real(at, "at"))
        self._mpc.feedback(at is not None, when, self._flat(state), ctrl)
        return ctrl

    def set(self, *, targets: Mapping[str, ArrayLike] | None = None, weights: Mapping[str, float] | None = None,
            bounds: Mapping[str, tuple[ArrayLike | None, ArrayLike | None]] | None = None, parameters: Mapping[str, ArrayLike] | None = None) -> None:
        """Changes numbers of the task, by the names that it has there: the next plan is that of a task with these.

            mpc.set(targets={"place": .5}, weights={"effort": .01}, bounds={"force": (-5, 5)}, parameters={"body_mass:pole": .2})

        targets       of all terms of a name, in the unit of the quantity: one number, one for each component that they look at (quaternions have 4), or
                      such a row for each of their times
        weights       of all terms of a name, as in the task; of constraints more than 0
        bounds        (lower, upper) of a variable, in the unit of its controls: one for all, one for each actuator or (knots, actuators); None: as it is;
                      -inf, inf: none. control keeps them from now on
        parameters    of the model (docs/parameters.md), one number for all or each: not the time step. Derived constants follow as the task says

        Raises ArgumentError with the name and what was expected, and InputError where the model has no meaning with a parameter: what stands before it here
        is set, it and what comes after it are not.
        """
        for what, given in (("targets", targets), ("weights", weights), ("bounds", bounds), ("parameters", parameters)):
            if given is not None and not isinstance(given, Mapping):
                raise ArgumentError(f"{what}: expected a dict of names, found {type(given).__name__}")
        for name, target in (targets or {}).items():
            self._mpc.set("target", name, np.ravel(real(target, name)))
        for name, weight in (weights or {}).items():
            self._mpc.set_weight(name, float(shaped(weight, (), name)))
        for name, pair in (bounds or {}).items():
            if not isinstance(pair, (tuple, list)) or len(pair) != 2 or (pair[0] is None and pair[1] is None):
                raise ArgumentError(f"{name}: expected (lower, upper), found {pair!r}")
            given = [None if side is None else np.atleast_1d(real(side, name, finite=False)).ravel() for side in pair]
            sizes = {side.size for side in given if side is not None} - {1}
            if len(sizes) > 1:
                raise ArgumentError(f"{name}: expected as many lower as upper bounds, found {given[0].size} and {given[1].size}")
            size = max(sizes, default=1)
            self._mpc.set_bounds(name, *(side if side is None or side.size != 1 else np.full(size, side[0]) for side in given))
        for name, value in (parameters or {}).items():
            self._mpc.set("parameter", name, np.ravel(real(value, name)))

    def restart(self) -> None:
        """As newly made, with what has been set: the task's start is the plan, nothing is known of the one before, counts and clock are zero."""
        self._mpc.restart()

    def read(self) -> PlanNow:
        """The plan, all of it of one moment, also while another thread plans."""
        ctrl, states, gains, *numbers = self._mpc.get()
        flat = np.frombuffer(states).reshape(self.steps + 1, len(self._start))
        return PlanNow(np.frombuffer(ctrl).reshape(self.steps, self._nu), {name: flat[:, place] for name, place in self._slots.items()},
                       np.frombuffer(gains).reshape(self.steps, self._nu, self._n), *numbers)

    @property
    def ctrl(self) -> Array:
        """Controls of the plan (steps, nu)."""
        return self.read().ctrl

    @property
    def states(self) -> dict[str, Array]:
        """States of the plan by field, (steps + 1, ...) each: states["qpos"]."""
        return self.read().states

    @property
    def gains(self) -> Array:
        """Gains (steps, nu, TangentSize): a state that is off the plan's by d, in its tangent space (dq, dv, dact), is answered by gains @ d; zero
        for controls at their limits and before the first plan."""
        return self.read().gains

    @property
    def age(self) -> float:
        """Seconds from the state that the plan began with to the last one that plan was called with: 0, or since plans failed."""
        return self.read().age

    @property
    def plans(self) -> int:
        """How many plans were made so far."""
        return self.read().plans

    @property
    def failed(self) -> int:
        """How many of them had no answer."""
        return self.read().failed

    def __repr__(self) -> str:
        return f"<Mpc: {self.steps} steps of {self.timestep:g} s, {words((self._nu,))} controls, {self.plans} plans>"
