"""Energies as formulas (docs/energies.md) by themselves: values, gradients, Hessians, and derivatives of forces by everything.

    spring = pb.Energy("d = norm(x0 - x1); 0.5*k*(d - norm(X0 - X1))^2", parameters=["k"])
    spring.evaluate(x, X, elements=[[0, 1], [1, 2]], k=100).gradient      # (2, 2, 3)
"""
from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from . import _core
from .arrays import real, shaped, words
from .errors import ArgumentError

if TYPE_CHECKING:
    from .arrays import Array, ArrayLike

_NAMED = ("x", "X", "y", "h", "t", "w", "elements", "hessian")


class Elements(NamedTuple):
    """What an energy is at E elements of p points: value (E,) J; gradient (E, p, 3) N; hessian (E, 3 p, 3 p) N/m, None unless asked for."""

    value: Array
    gradient: Array
    hessian: Array | None


class Energy:
    """A formula over the points of an element, with exact derivatives. From C the same is pbEnergy.

    formula     as docs/energies.md has it: x0, x1, ... positions, X0, ... rest positions, y0, ... positions at the start of a step, h, t,
                and the parameters' names
    parameters  names of numbers, or {"k": (), "direction": (3,), "F": (3, 3)}: shapes of numbers, vectors, matrices
    points      of an element; None: as many as the formula names
    name        for messages

    Raises InputError with line and column of what is wrong in the formula. The same text is an energy of a deformable body.
    """

    def __init__(self, formula: str, parameters: Sequence[str] | Mapping[str, tuple[int, ...]] = (), *, points: int | None = None,
                 name: str = "energy") -> None:
        self.name, self.formula = name, formula
        self.parameters: dict[str, tuple[int, ...]] = dict(parameters) if isinstance(parameters, Mapping) else dict.fromkeys(parameters, ())
        for own, shape in self.parameters.items():
            if len(shape) > 2 or not all(1 <= n <= 3 for n in shape):
                raise ArgumentError(f"parameters['{own}']: expected (), (n,) or (n, m) with n and m up to 3, found {words(shape)}")
            if own in _NAMED:
                raise ArgumentError(f"parameters: '{own}' is an argument of evaluate already")
        self.points = points if points is not None else 1 + max((int(n) for n in re.findall(r"\b[xXy](\d+)\b", formula)), default=0)
        self._energy = _core.Energy(name, formula, self.points, [(n, *(*s, 1, 1)[:2]) for n, s in self.parameters.items()])
        uses = self._energy.uses()
        self._needs = {"X": uses[1], "y": uses[2], "h": uses[3], "t": uses[4]}
        self.symmetric = bool(uses[5])  # of the Hessian; False where freeze() leaves a force without potential

    @classmethod
    def built_in(cls, name: str) -> Self:
        """One of pb.energies() by name, as a formula of its own. Raises ArgumentError where there is none."""
        from .commands import energies
        found = energies(name)
        shapes = {p["name"]: () if p["rows"] == p["cols"] == 1 else (p["rows"],) if p["cols"] == 1 else (p["rows"], p["cols"])
                  for p in found["parameters"]}
        return cls(found["formula"], shapes, points=found["points"], name=name)

    def _given(self, x, X, y, h, t, elements, parameters):
        """What C is given, and the shapes that parameters came with."""
        x = real(x, "x")
        if x.ndim != 2 or x.shape[1] != 3:
            raise ArgumentError(f"x: expected shape {words(('V', 3))}, found {words(x.shape)}")
        states = [x, *(None if a is None else shaped(a, x.shape, n) for n, a in (("X", X), ("y", y)))]
        for name, value in (("X", X), ("y", y), ("h", h), ("t", t)):
            if self._needs[name] and value is None:
                raise ArgumentError(f"{name}: the formula needs it")
        vertices = np.arange(len(x))[None] if elements is None else np.asarray(elements)
        if vertices.dtype.kind not in "iu" or vertices.ndim != 2 or vertices.shape[1] != self.points:
            raise ArgumentError(f"elements: expected vertex numbers {words(('E', self.points))}, found {words(vertices.shape)} of {vertices.dtype}")
        if vertices.size and not 0 <= vertices.min() <= vertices.max() < len(x):
            raise ArgumentError(f"elements: expected vertices from 0 to {len(x) - 1}, found {vertices.min()} to {vertices.max()}")

        unknown = [n for n in parameters if n not in self.parameters]
        missing = [n for n in self.parameters if n not in parameters]
        if unknown or missing:
            raise ArgumentError(f"parameters: there is no '{unknown[0]}'; there are {', '.join(self.parameters) or 'none'}" if unknown
                                else f"parameters: '{missing[0]}' is missing")
        values = {}
        for name, shape in self.parameters.items():
            a = real(parameters[name], name)
            if a.shape not in (shape, (len(vertices), *shape)):
                raise ArgumentError(f"{name}: expected shape {words(shape)}, or {words((len(vertices), *shape))} of each element, found {words(a.shape)}")
            values[name] = a
        pairs = tuple((a, a.ndim > len(self.parameters[n])) for n, a in values.items())
        given = (np.ascontiguousarray(vertices, dtype=np.intc), len(x), tuple(states), pairs, float(h or 0), float(t or 0))
        return given, values, len(vertices)

    def _check(self, fault):
        if fault is not None:
            element, line, column, what = fault
            place = f", line {line}, column {column}" if line else ""
            raise ArgumentError(f"energy '{self.name}', element {element}{place}: {what}")

    def evaluate(self, x: ArrayLike, X: ArrayLike | None = None, y: ArrayLike | None = None, *, h: float | None = None, t: float | None = None,
                 elements: ArrayLike | None = None, hessian: bool = False, **parameters: ArrayLike) -> Elements:
        """Values and gradients of elements at positions x (V, 3), m.

        X, y         (V, 3): rest positions, those at the start of the step, where the formula has them in it
        h, t         s: length of the step, time, likewise
        elements     (E, points): numbers of vertices; None: one element of all points
        hessian      True: also the second derivatives by x
        parameters   by name, each in its shape, or (E, ...) with one for each element

        Raises ArgumentError for what does not fit, and with element and place where the formula or a derivative has no finite value.
        """
        given, _, count = self._given(x, X, y, h, t, elements, parameters)
        found = Elements(np.empty(count), np.empty((count, self.points, 3)),
                         np.empty((count, 3 * self.points, 3 * self.points)) if hessian else None)
        self._check(self._energy.evaluate(given, tuple(found)))
        return found

    def pullback(self, w: ArrayLike, x: ArrayLike, X: ArrayLike | None = None, y: ArrayLike | None = None, *, h: float | None = None,
                 t: float | None = None, elements: ArrayLike | None = None, **parameters: ArrayLike) -> dict[str, Any]:
        """Derivatives of the sum over elements of w . gradient, w (V, 3): {"x": (V, 3), "X": ..., "k": ..., ...}, each in its shape.

        "x" is the Hessian times w (its transpose where it is not symmetric). Arguments and errors as of evaluate.
        """
        given, values, _ = self._given(x, X, y, h, t, elements, parameters)
        bars = [None if a is None else np.zeros(a.shape) for a in given[2]]
        scalars, by = np.zeros(2), {n: np.zeros(a.shape) for n, a in values.items()}
        self._check(self._energy.pullback(given, shaped(w, given[2][0].shape, "w"), (*bars, scalars), tuple(by.values())))
        found = {n: a for n, a in zip(("x", "X", "y"), bars, strict=True) if a is not None}
        return {**found, **{n: float(s) for n, s, v in zip(("h", "t"), scalars, (h, t), strict=True) if v is not None}, **by}

    def __reduce__(self):
        return _made, (self.formula, self.parameters, self.points, self.name)

    def __repr__(self) -> str:
        return f"<Energy {self.name} of {self.points} points: {', '.join(f'{n} {words(s)}' if s else n for n, s in self.parameters.items())}>"


def _made(formula, parameters, points, name):
    return Energy(formula, parameters, points=points, name=name)
