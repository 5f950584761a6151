"""States: all that can change the next step, in one array."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from . import _core
from .arrays import real, refuse_mujoco, words
from .errors import ArgumentError
from .fields import StateArrays

if TYPE_CHECKING:
    import mujoco

    from .arrays import Array, ArrayLike
    from .model import Model


class State(StateArrays, _core.State):
    """A state of a model, or B of them side by side.

    flat    (StateSize,) or (B, StateSize): all of it; two states with equal bits go on with equal bits
    fields  names of its parts; each is an attribute, a writable view into flat: time, qpos, qvel, act, ...

    time is (1,) or (B, 1). Made by Model.init and Rollout.state, or from an array of the right shape by Model.state.
    """

    model: Model

    def __new__(cls, model: Model, flat: Array) -> Self:
        if flat.ndim not in (1, 2) or flat.shape[-1] != model._size or not len(flat):
            raise ArgumentError(f"state: expected shape {words((model._size,))}, or {words(('B', model._size))} of B worlds, found {words(flat.shape)}")
        worlds = len(flat) if flat.ndim == 2 else 0
        self = super().__new__(cls, model._compiled, flat, worlds)
        self.__dict__.update(model=model, flat=flat)
        return self

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the parts of a state, in the order in which they stand in flat."""
        return tuple(self.model._slots)

    @property
    def batch(self) -> int | None:
        """Number of worlds, None without an axis for them."""
        return len(self.flat) if self.flat.ndim == 2 else None

    def _array(self, name: str) -> Array:
        kept = self.__dict__
        if name == "flat":
            return kept["flat"]
        slots = kept["model"]._slots if "model" in kept else {}
        if name in slots:
            return kept["flat"][..., slots[name]]
        raise AttributeError(f"a state has no field '{name}'; it has {', '.join(slots)}")

    def _put(self, name: str, value: ArrayLike) -> None:
        view, a = self._array(name), real(value, name)
        try:
            view[...] = a
        except ValueError:
            raise ArgumentError(f"{name}: expected shape {words(view.shape)}, found {words(a.shape)}") from None

    if not TYPE_CHECKING:  # which would take every name for one that is there
        def __getattr__(self, name):
            return self._array(name)

        def __setattr__(self, name, value):
            if name in ("model", "flat"):
                raise AttributeError(f"a state keeps its {name}: write into it with flat[:], or make another with Model.state")
            self._put(name, value)

    @classmethod
    def from_mujoco(cls, model: Model, data: mujoco.MjData) -> State:
        """The state of a model that MuJoCo's data is in: time, qpos, qvel, act, history and where the solver begins, bit for bit.

        What acts in a step is no part of it: controls, forces and poses of mocap bodies go to step and rollout. Raises ArgumentError for data of
        a model of other sizes, UnsupportedError where equalities were switched.
        """
        from .bridge import state_from
        return state_from(model, data)

    def to_mujoco(self, data: mujoco.MjData) -> None:
        """Write the state of one world into MuJoCo's data: time, qpos, qvel, act, history and qacc_warmstart; mujoco.mj_forward computes the rest.

        Raises ArgumentError for several worlds, and for data of a model of other sizes.
        """
        from .bridge import state_to
        state_to(self, data)

    def copy(self) -> State:
        """A state of its own with the same numbers."""
        return State(self.model, self.flat.copy())

    __copy__ = copy

    def __deepcopy__(self, memo: Any) -> State:
        return self.copy()

    def __len__(self) -> int:
        if self.batch is None:
            raise TypeError("a state of one world has no length")
        return self.batch

    def __bool__(self) -> bool:
        return True

    def __getitem__(self, world: Any) -> State:
        """The state of a world, or of several: a copy. Raises IndexError where there is none of them."""
        if self.batch is None:
            raise TypeError("a state of one world has no worlds to choose from")
        chosen = np.arange(self.batch)[world]
        if chosen.ndim > 1 or chosen.size == 0:
            raise IndexError(f"expected some of {self.batch} worlds, found {world!r}")
        return State(self.model, np.array(self.flat[chosen], order="C"))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, State):
            return NotImplemented
        return self.model == other.model and np.array_equal(self.flat, other.flat)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self):
        return _restored, (self.model, self.flat.copy())

    def _repr_html_(self) -> str:
        """What a notebook shows: the model in this state; of several worlds the first."""
        from .notebook import frame
        one = self if self.batch is None else self[0]
        return frame(self.model, {name: one.flat[None, place] for name, place in self.model._slots.items()}, repr(self))

    def __repr__(self) -> str:
        worlds = "" if self.batch is None else f"{self.batch} worlds, "
        parts = ", ".join(f"{name} {words(self.flat[..., place].shape)}" for name, place in self.model._slots.items())
        return f"<State of {self.model.name or 'a model'}: {worlds}{parts}>"


def flat_of(model: Model, state: State | ArrayLike) -> ArrayLike:
    """All numbers of a state; ArgumentError for the State of a model in which these numbers mean something else."""
    if not isinstance(state, State):
        refuse_mujoco(state, "state")
        return state
    if state.model._compiled is not model._compiled and state.model._size == model._size:  # else the shape says it
        for there, here in zip(state.model._entries(), model._entries(), strict=False):
            if there != here and (" (" in there) == (" (" in here):  # where one has no name nothing is known
                raise ArgumentError(f"state: it belongs to another model: what is {there} there is {here} here")
    return state.flat


def _restored(model, flat):
    return State(model, flat)
