"""Losses of rollouts as functions of one vector, with gradients: what scipy.optimize.minimize and its kin take."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from .arrays import batched, real, shaped, words
from .errors import ArgumentError
from .functional import quaternions
from .rollout import Rollout
from .state import State

if TYPE_CHECKING:
    from .arrays import Array, ArrayLike
    from .model import Model
    from .options import RolloutOptions

_STATE = ("qpos", "qvel", "act")
_SEEN = (*_STATE, "state", "sensordata", "xpos", "site_xpos")  # what Rollout.vjp takes cotangents of


class Objective:
    """A loss of a rollout as a function of one vector x: f(x) is (value, gradient (n,)), so SciPy's minimize takes it with jac=True.

    model, state  the model and where it starts, of one world or of B, which share what has no axis of worlds
    loss          loss(rollout) -> (value, cotangents): cotangents by name as Rollout.vjp takes them ("qpos": (nv,) or (N + 1, nv), ...),
                  and under "ctrl" or a parameter's name what the value depends on directly
    ctrl          (N, nu) or (B, N, nu), or steps=N among the options
    params        values by name, as if the file had said so
    wrt           what x is made of, in this order: "ctrl", "qpos", "qvel", "act" of the start, names of parameters; each in the shape in
                  which it is given, a batched one with an axis of worlds

    x0: where it starts; parts(x): by name; rollout(x); certificate: of the last gradient. qpos has nv numbers: coordinates, and of ball and
    free joints the rotation vector (rad), in the body's frame, by which the given orientation is turned. Other options are those of
    Model.rollout. Raises StepError where a step fails, ArgumentError for what does not fit.
    """

    certificate: Any

    def __init__(self, model: Model, state: State, loss: Callable[[Rollout], tuple[float, Mapping[str, Any]]], ctrl: ArrayLike | None = None,
                 params: Mapping[str, ArrayLike] | None = None, *, wrt: str | Sequence[str] = "ctrl", **options: Unpack[RolloutOptions]) -> None:
        self.model, self.state, self.loss, self._options = model, state.copy(), loss, options
        self.wrt = (wrt,) if isinstance(wrt, str) else tuple(wrt)
        if not self.wrt:
            raise ArgumentError("wrt: expected some of ctrl, qpos, qvel, act and names of parameters, found none")
        self._ctrl = None if ctrl is None else real(ctrl, "ctrl").copy()
        self._params = {name: batched(value, model._parameter(name)[1], name)[0].copy() for name, value in (params or {}).items()}
        self.certificate = None
        at, dof = (first[:, None] + np.arange(count) for first, count in zip(quaternions(model), (4, 3), strict=True))
        self._turns = dof.ravel()  # dofs of rotations; the others, and their places in qpos, are coordinates
        self._plain = np.setdiff1d(np.arange(model.nq), at), np.setdiff1d(np.arange(model.nv), dof)
        self._start = {name: self._value(name) for name in self.wrt}

    def _value(self, name):
        """Where a part starts."""
        if name == "ctrl":
            if self._ctrl is None:
                raise ArgumentError("wrt: 'ctrl', but no ctrl is given")
            return self._ctrl
        if name == "qpos":
            return self._coordinates()
        if name in _STATE:
            return np.array(getattr(self.state, name))
        return self._params.setdefault(name, np.array(self.model.params[name]))

    @property
    def x0(self) -> Array:
        """(n,): where it starts: ctrl, the state and parameters of wrt, one after the other, each in its unit."""
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

    def _coordinates(self):
        """The start's qpos as a vector: no rotation yet."""
        value = np.zeros(self.state.qvel.shape)
        value[..., self._plain[1]] = self.state.qpos[..., self._plain[0]]
        return value

    def _place(self, state, value):
        """The state at such a vector."""
        state.qpos[..., self._plain[0]] = value[..., self._plain[1]]
        if not len(self._turns):
            return state
        way = np.zeros((*value.shape[:-1], len(self.model.tangent_names)))
        way[..., self._turns] = value[..., self._turns]
        return self.model.integrate(state, way)

    def _pull_place(self, value, bar):
        """Cotangents by the vector of those in the tangent space: q exp(w) turns by J dw, J = 1 - b [w] + c [w]^2 (right Jacobian of exp)."""
        bar = np.array(bar)
        w, g = (a[..., self._turns].reshape(*a.shape[:-1], -1, 3) for a in (value, bar))
        angle = np.sqrt((w ** 2).sum(axis=-1, keepdims=True))
        near = angle < 1e-3  # where the closed forms cancel: their series
        safe = np.where(near, 1, angle)
        b = np.where(near, .5 - angle ** 2 / 24, (1 - np.cos(safe)) / safe ** 2)
        c = np.where(near, 1 / 6 - angle ** 2 / 120, (safe - np.sin(safe)) / safe ** 3)
        turned = np.cross(w, g)
        bar[..., self._turns] = (g + b * turned + c * np.cross(w, turned)).reshape(*bar.shape[:-1], -1)
        return bar

    def rollout(self, x: ArrayLike) -> Rollout:
        """The rollout of x (n,). Raises StepError where a step fails."""
        parts, state = self.parts(x), self.state.copy()
        if "qpos" in parts:
            state = self._place(state, parts["qpos"])
        for name in set(parts) & {"qvel", "act"}:
            setattr(state, name, parts[name])
        params = {**self._params, **{n: v for n, v in parts.items() if n != "ctrl" and n not in _STATE}}
        return self.model.rollout(state, parts.get("ctrl", self._ctrl), params=params, **self._options)

    def _answer(self, r):
        """Value and cotangents that the loss says."""
        answer = self.loss(r)
        try:
            value, bars = answer
            number, bars = float(value), dict(bars)
        except (TypeError, ValueError):
            raise ArgumentError(f"loss: expected (value, cotangents by name), found {answer!r}") from None
        known = (*_SEEN, "ctrl", *self._params)
        unknown = [name for name in bars if name not in known]
        if unknown:
            raise ArgumentError(f"loss: a cotangent of {unknown[0]}; expected some of {', '.join(known)}")
        return number, bars

    def __call__(self, x: ArrayLike) -> tuple[float, Array]:
        with self.rollout(x) as r:
            value, bars = self._answer(r)
            direct = {}
            for name in set(bars) & {"ctrl", *self._params}:
                direct[name] = bars.pop(name)
            g = r.vjp(**bars, wrt=[name for name in self.wrt if name not in _STATE])
        self.certificate = g.certificate
        gradient, parts = [], self.parts(x)
        for name, start in self._start.items():
            own = g.params[name] if name in g.params else getattr(g, name)
            if name == "qpos":
                own = self._pull_place(parts["qpos"], own)
            gradient.append(np.ravel(own + shaped(direct[name], start.shape, f"cotangent of {name}") if name in direct else own))
        return value, np.concatenate(gradient)

    def __repr__(self) -> str:
        return f"<Objective of {', '.join(f'{n} {words(v.shape)}' for n, v in self._start.items())}: {self.x0.size} numbers>"
