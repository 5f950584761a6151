"""Things of a model by their names, and where their numbers stand: s.qpos[model.joint("knee").qpos]."""
from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

import numpy as np

from . import _core
from .errors import ArgumentError

if TYPE_CHECKING:
    from .model import Model

C = _core.constants
OBJECTS = {name: C[f"pb_obj{name.title()}"] for name in (
    "body", "joint", "geom", "site", "pair", "equality", "tendon", "actuator", "sensor", "keyframe", "numeric", "camera", "light", "exclude",
    "text", "tuple", "dof", "point", "mesh")}
# Numbers of qpos and dofs of a joint by its type.
_WIDTHS = {C["pb_jntFree"]: (7, 6), C["pb_jntBall"]: (4, 3), C["pb_jntSlide"]: (1, 1), C["pb_jntHinge"]: (1, 1)}


class Thing:
    """A body, joint, geom, ... of a model: kind, id, name, and slices of the arrays in which it has numbers.

    joint: qpos, qvel (of a free joint 7 and 6 numbers); actuator: ctrl, act; sensor: sensordata. param("mass") is the name of its row
    of a parameter, "body_mass:torso".
    """

    kind: str
    id: int
    name: str
    qpos: slice
    qvel: slice
    ctrl: slice
    act: slice
    sensordata: slice

    def __init__(self, model: Model, kind: str, id: int, name: str) -> None:
        self.kind, self.id, self.name = kind, id, name
        field = model._field
        if kind == "joint":
            q, v = _WIDTHS[int(field("jnt_type")[id])]
            self.qpos, self.qvel = _slice(field("jnt_qposadr")[id], q), _slice(field("jnt_dofadr")[id], v)
        if kind == "actuator":
            self.ctrl, self.act = slice(id, id + 1), _slice(field("actuator_actadr")[id], max(field("actuator_actnum")[id], 0))
        if kind == "sensor":
            self.sensordata = _slice(field("sensor_adr")[id], field("sensor_dim")[id])

    def param(self, what: str) -> str:
        """The name of this thing's row of a parameter: body.param("mass") is "body_mass:torso"."""
        prefix = {"joint": "jnt", "equality": "eq"}.get(self.kind, self.kind)
        return f"{prefix}_{what}:{self.name or self.id}"

    def __repr__(self) -> str:
        places = {k: v for k, v in vars(self).items() if isinstance(v, slice)}
        text = "".join(f", {k}[{v.start}:{v.stop}]" for k, v in places.items())
        return f"<{self.kind} {self.id} {self.name!r}{text}>"


def _slice(first, count):
    first, count = int(first), int(count)
    return slice(first, first + count) if count else slice(0, 0)


def find(model: Model, kind: str, name: str | int) -> Thing:
    """A thing by name or number; ArgumentError with the nearest name."""
    number = OBJECTS[kind]
    if isinstance(name, bool) or not isinstance(name, (str, int, np.integer)):
        raise ArgumentError(f"{kind}: expected a name or a number, found {name!r}")
    if not isinstance(name, str):
        text = model._compiled.name(number, int(name)) if 0 <= name < 2**31 else None
        if text is None:
            raise ArgumentError(f"no {kind} {name}: there are {len(names(model, kind))}")
        return Thing(model, kind, int(name), text)
    try:
        id = model._compiled.id(number, name)
    except ValueError:  # not even text: a zero in it, or half a character
        id = -1
    if id < 0:
        near = difflib.get_close_matches(name, [n for n in names(model, kind) if n], 1)
        raise ArgumentError(f"no {kind} {name!r}" + (f"; did you mean '{near[0]}'?" if near else f"; there are {len(names(model, kind))}"))
    return Thing(model, kind, id, name)


def names(model: Model, kind: str) -> tuple[str, ...]:
    """Names of all things of a kind, "" where one has none."""
    number, found = OBJECTS[kind], []
    while (name := model._compiled.name(number, len(found))) is not None:
        found.append(name)
    return tuple(found)
