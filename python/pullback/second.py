"""Hessian-vector products of rollouts: Rollout.hvp."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from .errors import ArgumentError, UnsupportedError

if TYPE_CHECKING:
    from .arrays import ArrayLike
    from .rollout import Gradient, Rollout, Tangent

INPUTS = ("ctrl", "qfrc_applied", "xfrc_applied")  # what products are by, beside the initial state
_STATES = ("state", "qpos", "qvel", "act")
_OUTPUTS = ("sensordata", "xpos", "site_xpos")
_ELSE = ("command", "mocap_pos", "mocap_rot", "mocap_vel", "mocap_pos_before", "mocap_rot_before", "points", "point_velocity")  # refused


def refuse(names: Sequence[str], what: str) -> None:
    """Raises UnsupportedError for the first name that second derivatives are not by."""
    for name in names:
        if name not in (*INPUTS, *_STATES):
            raise UnsupportedError(f"second derivatives: {what} {name} has none; there are those by the initial state and {', '.join(INPUTS)}")


def _read_bars(r: Rollout, bars: object, what: str) -> dict:
    """By name (array, whether it is of every state)."""
    if not isinstance(bars, Mapping):
        raise ArgumentError(f"{what}: expected a dict of arrays by name, found {type(bars).__name__}")
    m = r.model
    width = {"qpos": (m.nv,), "qvel": (m.nv,), "act": (m.na,), "sensordata": (m.nsensordata,), "xpos": (m.nbody, 3), "site_xpos": (m.nsite, 3),
             "state": (len(m.tangent_names),)}
    for name in bars:
        if name not in width:
            raise ArgumentError(f"{what}: expected some of {', '.join(width)}, found {name!r}")
    read = {name: r._cotangent(name, value, width[name], f"{what}: {name}") for name, value in bars.items()}
    return {name: r._seen(bar) if name in _OUTPUTS else bar for name, bar in read.items()}


def _split(bars):
    """Those of the last state, and those of all."""
    return tuple({name: a for name, (a, every) in bars.items() if every is which} for which in (False, True))


def _way(r, direction):
    """The direction as C takes it."""
    if not isinstance(direction, Mapping):
        raise ArgumentError(f"direction: expected a dict of arrays by name, found {type(direction).__name__}")
    given = {name: value for name, value in direction.items() if name != "params" and value is not None}
    for name in given:
        if name not in (*_STATES, *INPUTS, *_ELSE):
            raise ArgumentError(f"direction: expected some of {', '.join((*_STATES, *INPUTS, 'params'))}, found {name!r}")
    refuse(list(given), "a direction of")
    params = direction.get("params")
    if params is not None and not isinstance(params, Mapping):
        raise ArgumentError(f"direction of params: expected a dict of arrays by name, found {type(params).__name__}")
    return r._read_way(given, params or None)


def _names(wrt):
    """Names of what the result is by, of one or of several."""
    if isinstance(wrt, str):
        return [wrt]
    names = list(wrt) if isinstance(wrt, Iterable) else [wrt]
    if not isinstance(wrt, Iterable) or not all(isinstance(name, str) for name in names):
        raise ArgumentError(f"wrt: expected a name or several, found {wrt!r}")
    return names


def hvp(r: Rollout, direction: Mapping[str, object], cotangents: Mapping[str, ArrayLike],
        changes: Mapping[str, ArrayLike] | Callable[[Tangent], Mapping[str, ArrayLike]] | None, wrt: str | Sequence[str] | None) -> Gradient:
    """What Rollout.hvp gives."""
    from .rollout import Gradient, Params, _tangent_parts
    run, m, count = r._open(), r.model, r.batch or 1
    way, bars = _way(r, direction), _read_bars(r, cotangents, "cotangents")
    inputs = [name for name in r._wanted(None)[0] if name in INPUTS]
    if wrt is not None:
        names = _names(wrt)
        r._wanted(names)
        refuse(names, "the result by")
        inputs = [name for name in names if name in INPUTS]
    if np.any(np.atleast_1d(r.steps_done) == 0):
        raise ArgumentError("second derivatives: a world failed at its first step, so there is no trajectory to derive")

    # How the loss's gradient by the trajectory changes may be asked for here, along the tangents of the direction.
    if callable(changes):
        changes = changes(r.jvp(**direction))
    moved = _read_bars(r, {} if changes is None else changes, "changes")
    x0 = np.zeros((count, len(m.tangent_names)))
    rows = {name: 1 if r._bits & r._shared_bit(name) else count for name in inputs}
    out = {name: np.zeros((rows[name], *r._row(name))) for name in inputs}
    with r._alone():
        run.choose(r.gradient, ())
        run.second(*_split(bars), *_split(moved), way, {"state": x0, **out})
    return Gradient(r._summed(x0, r._state_worlds), _tangent_parts(m), r._shaped_inputs(out, inputs), Params(), None)
