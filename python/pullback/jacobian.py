"""Jacobians of whole rollouts: Rollout.jacobian."""
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .arrays import words
from .errors import ArgumentError
from .names import C

if TYPE_CHECKING:
    from .arrays import Array
    from .rollout import Rollout

_STATES = ("state", "qpos", "qvel", "act")
_OUTPUTS = ("sensordata", "xpos", "site_xpos")
_INPUTS = ("ctrl", "qfrc_applied", "xfrc_applied", "command", "mocap_pos", "mocap_rot", "mocap_vel", "mocap_pos_before", "mocap_rot_before")
_BYTES = 2**28  # of tangents at one time
# Rollouts that one direction by itself costs, a pullback, and a row of all steps' Jacobians where directions go together.
_ALONE, _PULL, _ROW = 4, 2, 1


def _shape_of(r: Rollout, name: str) -> tuple[int, ...]:
    """Shape of what is differentiated, at one state."""
    m = r.model
    shapes = {"state": (len(m.tangent_names),), "qpos": (m.nv,), "qvel": (m.nv,), "act": (m.na,), "sensordata": (m.nsensordata,), "xpos": (m.nbody, 3),
              "site_xpos": (m.nsite, 3)}
    if name not in shapes:
        raise ArgumentError(f"of: expected one of {', '.join(shapes)}, found {name!r}")
    if name in _OUTPUTS and name not in r._kept:
        raise ArgumentError(f"of: the rollout has no {name}: outputs=[{name!r}]")
    return shapes[name]


def _shape_by(r: Rollout, name: str) -> tuple[int, ...]:
    """Shape of one world's what it is by."""
    if name in _STATES:
        return _shape_of(r, name)
    return tuple(r._row(name)) if name in _INPUTS else tuple(r.model._parameter(name)[1])


def _goes_together(r: Rollout, of: str, names: Sequence[str]) -> bool:
    """Whether directions cost little beside the rows of the steps' Jacobians, as pbRollout_Jvp has it."""
    m = r.model
    plain = of in _STATES
    return plain and not r._own and r.gradient == "exact" and m.contact["method"] != "impact" and "points" not in m._slots


def _cheaper(r: Rollout, of: str, names: Sequence[str], outputs: int, columns: int) -> str:
    m = r.model
    kinds = m._field("jnt_type")
    turns = 3 * int(np.isin(kinds, (C["pb_jntFree"], C["pb_jntBall"])).sum())
    forward = _ALONE * columns
    if _goes_together(r, of, names):
        forward = min(forward, _ROW * (len(m.tangent_names) - m.nv + turns) + _PULL)
    return "forward" if forward <= _PULL * outputs else "reverse"


def jacobian(r: Rollout, of: str, wrt: str | Sequence[str] | None, at: str, mode: str) -> dict[str, Array]:
    """What Rollout.jacobian gives."""
    for name, value, allowed in (("at", at, ("last", "all")), ("mode", mode, ("auto", "forward", "reverse"))):
        if value not in allowed:
            raise ArgumentError(f"{name}: expected {', '.join(allowed)}, found {value!r}")
    names = (list(r._given) or ["state"]) if wrt is None else [wrt] if isinstance(wrt, str) else list(dict.fromkeys(wrt))
    if not names:
        raise ArgumentError("wrt: expected names of the initial state, inputs and parameters, found none")
    shape, by = _shape_of(r, of), {name: _shape_by(r, name) for name in names}
    outputs, columns = int(np.prod(shape, dtype=int)), sum(int(np.prod(s, dtype=int)) for s in by.values())
    one = r.batch is None and at == "last"
    if mode == "reverse" and not one:
        raise ArgumentError("mode: 'reverse' is there for the last state of one world")
    if mode == "auto":
        mode = _cheaper(r, of, names, outputs, columns) if one else "forward"
    return (_forward if mode == "forward" else _reverse)(r, of, shape, by, at)


def _reverse(r, of, shape, by, at):
    """A pullback for each number."""
    found = {name: np.zeros((*shape, *s)) for name, s in by.items()}
    for place in np.ndindex(*shape):
        bar = np.zeros(shape)
        bar[place] = 1
        g = r.vjp(**{of: bar}, wrt=[name for name in by if name not in _STATES], check=False)
        for name in by:
            found[name][place] = getattr(g, name) if name in (*_STATES, *_INPUTS) else g.params[name].reshape(by[name])
    return found


def _forward(r, of, shape, by, at):
    """All unit directions, as many at a time as there is room for."""
    lead = () if r.batch is None else (r.batch,)
    rows = (r.steps + 1,) if at == "all" else ()
    room = 8 * (r.batch or 1) * (r.steps + 1) * max(1, len(r.model.tangent_names) + (int(np.prod(shape, dtype=int)) if of in _OUTPUTS else 0))
    most, found = max(1, _BYTES // room), {}
    units = [(name, k) for name, s in by.items() for k in range(int(np.prod(s, dtype=int)))]
    columns = {name: [] for name in by}
    for first in range(0, len(units), most):
        some = units[first:first + most]
        pushed = r._push(_units(r, some, by), [of] if of in _OUTPUTS else [])
        seen = pushed[of] if of in _OUTPUTS else pushed["x"][..., _places(r)[of]]
        if at == "last":
            seen = seen[:, :, -1] if lead else seen[:, -1]
        for (name, _), column in zip(some, seen, strict=True):
            columns[name].append(column)
    for name, s in by.items():
        stacked = np.stack(columns[name], axis=-1) if columns[name] else np.zeros((*lead, *rows, *shape, 0))
        found[name] = stacked.reshape(*lead, *rows, *shape, *s)
    return found


def _places(r):
    from .rollout import _tangent_parts
    return {"state": slice(None), **_tangent_parts(r.model)}


def _units(r, some, by):
    """Unit directions: the number k of what each name stands for."""
    ways = []
    for name, k in some:
        one = np.zeros(by[name])
        one.flat[k] = 1
        ways.append(r._read_way({name: one}, None) if name in (*_STATES, *_INPUTS) else r._read_way({}, {name: one}))
    return ways
