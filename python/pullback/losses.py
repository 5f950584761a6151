"""Losses of tasks that are Python functions: what they see of a trajectory, and their cotangents on the way back."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from .arrays import real, words
from .errors import ArgumentError
from .fields import SeenArrays

if TYPE_CHECKING:
    from .arrays import Array, ArrayLike

_NAMES = {"control": "ctrl"}  # of the library, where ours is another
_SEES = {"ctrl": "control", "sensordata": "sensor", "xpos": "body", "site_xpos": "site"}  # of a task, by what a loss calls it
_BODIES = ("xpos", "site_xpos", "points", "point_velocity")  # three numbers each


class Seen(SeenArrays):
    """What a loss sees of a trajectory, at the states that its term looks at ("at"; all of them unless it says).

    time        (count,) s from the start; trajectory: its number
    qpos, qvel, act, sensordata, ctrl, points, ...  (count, width), as far as the model has them; "sees" of the term says which
    xpos, site_xpos  (count, nbody, 3), where "sees" names them; m
    """

    trajectory: int
    time: Array

    def __init__(self, trajectory: int, time: Array, arrays: Mapping[str, Array]) -> None:
        self.trajectory, self.time, self._arrays = trajectory, time, dict(arrays)

    def _array(self, name: str) -> Array:
        arrays = self.__dict__.get("_arrays", {})
        if name in arrays:
            return arrays[name]
        raise AttributeError(f"a loss sees no '{name}'; it sees {', '.join(arrays)}")

    if not TYPE_CHECKING:  # which would take every name for one that is there
        def __getattr__(self, name):
            return self._array(name)

    def __repr__(self) -> str:
        return f"<Seen of trajectory {self.trajectory}: {', '.join(f'{n} {words(a.shape)}' for n, a in self._arrays.items())}>"


# The value, and cotangents by name: those of all states that were seen, or of the last one; qpos in the tangent space, (nv,).
Loss: TypeAlias = Callable[[Seen], tuple[float, Mapping[str, "ArrayLike"]]]


class Losses:
    """The functions of a task, by the names that stand for them in its JSON."""

    def __init__(self, task: Any, functions: Mapping[str, Loss] | None) -> None:
        if functions is not None and not isinstance(functions, Mapping):
            raise ArgumentError(f"functions: expected a dict of functions by name, found {type(functions).__name__}")
        self._functions: dict[str, Loss] = dict(functions or {})
        for name, function in self._functions.items():
            if not isinstance(name, str):
                raise ArgumentError(f"functions: expected names, found {name!r}")
            if not callable(function):
                raise ArgumentError(f"functions[{name!r}]: expected a function, found {type(function).__name__}")
        self.task = self._named(task) if isinstance(task, Mapping) else task

    def _named(self, part: Mapping[str, Any]) -> dict[str, Any]:
        """A part of a task with names in place of functions."""
        part = dict(part)
        if callable(part.get("loss")):
            part["loss"] = [{"function": part["loss"]}]
        if isinstance(part.get("loss"), (list, tuple)):
            part["loss"] = [self._term(term) if isinstance(term, Mapping) and "function" in term else term for term in part["loss"]]
        if isinstance(part.get("trajectories"), (list, tuple)):
            part["trajectories"] = [self._named(t) if isinstance(t, Mapping) else t for t in part["trajectories"]]
        return part

    def _term(self, term: Mapping[str, Any]) -> dict[str, Any]:
        """A term with the name of its function, and what it sees by the names of tasks."""
        term = dict(term)
        if callable(term["function"]):
            term["function"] = self._name(term["function"])
        if isinstance(term.get("sees"), (list, tuple)):
            term["sees"] = [_SEES.get(name, name) if isinstance(name, str) else name for name in term["sees"]]
        return term

    def _name(self, function):
        known = {id(f): name for name, f in self._functions.items()}
        if id(function) not in known:
            own = getattr(function, "__qualname__", type(function).__qualname__)
            name = next(n for n in (own, *(f"{own} {k}" for k in range(2, len(self._functions) + 3))) if n not in self._functions)
            self._functions[name] = function
            return name
        return known[id(function)]

    def call(self, name: str, trajectory: int, time: bytes, rows: list[tuple[str, int, int, bytes]], pull: bool) -> tuple[float, list[Array | None]]:
        """What the library calls: the value, and of each quantity its slopes."""
        if name not in self._functions:
            raise ArgumentError(f"the task names the function '{name}'; given are {', '.join(self._functions) or 'none'}")
        times = np.frombuffer(time)
        count, arrays = len(times), {}
        for own, width, _, data in rows:
            shape = (count, width // 3, 3) if own in _BODIES else (count, width)
            arrays[_NAMES.get(own, own)] = np.frombuffer(data).reshape(shape)

        answer = self._functions[name](Seen(trajectory, times, arrays))
        try:
            value, bars = answer
            number, bars = float(value), dict(bars)
        except (TypeError, ValueError):
            raise ArgumentError(f"{name}: expected (value, cotangents by name), found {answer!r}") from None
        wanted = pull and np.isfinite(number)  # a point without a value has no slopes: the search steps back from it
        slopes = [self._slopes(name, _NAMES.get(own, own), bars, count, width) if wanted else None for own, _, width, _ in rows]
        unknown = [n for n in bars if n not in arrays]
        if unknown:
            raise ArgumentError(f"{name}: a cotangent of {unknown[0]}, which it does not see; it sees {', '.join(arrays)}")
        return number, slopes

    @staticmethod
    def _slopes(name, quantity, bars, count, width):
        if quantity not in bars:
            return None
        a = real(bars[quantity], f"{name}: cotangent of {quantity}")
        row = (width // 3, 3) if quantity in _BODIES else (width,)
        if a.shape == (count, *row):
            return np.ascontiguousarray(a)
        if a.shape != row:
            raise ArgumentError(f"{name}: cotangent of {quantity}: expected shape {words((count, *row))}, or {words(row)} of the last state, "
                                f"found {words(a.shape)}")
        full = np.zeros((count, *row))
        full[-1] = a
        return full
