"""Losses of rollouts as functions of one vector, with gradients: what scipy.optimize.minimize and its kin take."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .arrays import real, shaped, words
from .errors import ArgumentError

if TYPE_CHECKING:
    from .arrays import Array, ArrayLike
    from .model import Model
    from .rollout import Rollout
    from .state import State

_STATE = ("qpos", "qvel", "act")


class Objective:
    """A loss of a rollout as a function of one vector x: f(x) is (value, gradient (n,)), so SciPy's minimize takes it with jac=True.

    model, state  the model and where it starts (one world)
    loss          loss(rollout) -> (value, cotangents): cotangents by name as Rollout.vjp takes them ("qpos": (nv,) or (N + 1, nv), ...),
                  and under "ctrl" or a parameter's name what the value depends on directly
    ctrl          (N, nu), or steps=N among the options
    params        values by name, as if the file had said so
    wrt           what x is made of, in this order: "ctrl", "qpos", "qvel", "act" of the start, names of parameters

    x0: where it starts; parts(x): by name; rollout(x). Other options are those of Model.rollout. Raises StepError where a step fails, and
    ArgumentError for qpos of ball and free joints, which are no vectors: optimize along tangents with Model.integrate.
    """

    def __init__(self, model: Model, state: State, loss: Callable[[Rollout], tuple[float, Mapping[str, Any]]], ctrl: ArrayLike | None = None,
                 params: Mapping[str, ArrayLike] | None = None, *, wrt: str | Sequence[str] = "ctrl", **options: Any) -> None:
        self.model, self.state, self.loss, self._options = model, state.copy(), loss, options
        self.wrt = (wrt,) if isinstance(wrt, str) else tuple(wrt)
        self._ctrl = None if ctrl is None else real(ctrl, "ctrl")
        self._params = {name: shaped(value, model._parameter(name)[1], name) for name, value in (params or {}).items()}
        if state.batch is not None:
            raise ArgumentError("state: expected that of one world")
        self._start = {name: self._value(name) for name in self.wrt}

    def _value(self, name):
        """Where a part starts."""
        if name == "ctrl":
            if self._ctrl is None:
                raise ArgumentError("wrt: 'ctrl', but no ctrl is given")
            return self._ctrl
        if name in _STATE:
            if name == "qpos" and self.model.nq != self.model.nv:
                raise ArgumentError("wrt: 'qpos' has quaternions, which are no vectors; optimize along tangents with model.integrate")
            return np.array(getattr(self.state, name))
        return self._params.setdefault(name, np.array(self.model.params[name]))

    @property
    def x0(self) -> Array:
        """Where it starts, (n,): ctrl, the state and parameters of wrt, one after the other."""
        return np.concatenate([np.ravel(v) for v in self._start.values()])

    def parts(self, x: ArrayLike) -> dict[str, Array]:
        """The arrays that x (n,) is made of, by name, each in its own shape. Raises ArgumentError for another size."""
        a, size, at, found = real(x, "x"), self.x0.size, 0, {}
        if a.shape != (size,):
            raise ArgumentError(f"x: expected shape {words((size,))}, found {words(a.shape)}")
        for name, value in self._start.items():
            found[name] = a[at:at + value.size].reshape(value.shape)
            at += value.size
        return found

    def rollout(self, x: ArrayLike) -> Rollout:
        """The rollout of x (n,). Raises StepError where a step fails."""
        parts, state = self.parts(x), self.state.copy()
        for name in set(parts) & set(_STATE):
            setattr(state, name, parts[name])
        params = {**self._params, **{n: v for n, v in parts.items() if n != "ctrl" and n not in _STATE}}
        return self.model.rollout(state, parts.get("ctrl", self._ctrl), params=params, **self._options)

    def __call__(self, x: ArrayLike) -> tuple[float, Array]:
        with self.rollout(x) as r:
            value, given = self.loss(r)
            bars, direct = dict(given), {}
            for name in set(bars) & {"ctrl", *self._params}:
                direct[name] = bars.pop(name)
            g = r.vjp(**bars, wrt=[name for name in self.wrt if name not in _STATE])
        gradient = []
        for name, start in self._start.items():
            own = g.params[name] if name in g.params else getattr(g, name)
            gradient.append(np.ravel(own + shaped(direct[name], start.shape, f"cotangent of {name}") if name in direct else own))
        return float(value), np.concatenate(gradient)

    def __repr__(self) -> str:
        return f"<Objective of {', '.join(f'{n} {words(v.shape)}' for n, v in self._start.items())}: {self.x0.size} numbers>"
