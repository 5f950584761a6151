"""What acts in a run of one world: arrays with a row for each step, or one row for all of them, as the files of the program's options."""
from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from .arrays import real, shaped, words
from .errors import InputError

if TYPE_CHECKING:
    from .arrays import Array, ArrayLike
    from .model import Model

_PATHS = ("mocap_pos", "mocap_quat")
_BEFORE = {"mocap_pos": "mocap_pos_before", "mocap_quat": "mocap_quat_before"}


def start(model: Model, keyframe: int) -> tuple[Array, dict[str, Array]]:
    """Controls at the start, and poses of mocap bodies: the model's (-1), or a keyframe's."""
    ctrl, pos, quat = np.zeros(model.nu), np.zeros((model.nmocap, 3)), np.zeros((model.nmocap, 4))
    model._start_into(keyframe, ctrl, pos, quat)
    return ctrl, dict(zip(_PATHS, (pos, quat)))


class Inputs:
    """Rows for all steps of what is given by name; controls and poses of a keyframe where none are.

    steps: as many as rows are given, else `steps`; arrays: in the order of a rollout's inputs, then the poses before; None: nothing acts
    """

    def __init__(self, model: Model, keyframe: int, given: Mapping[str, ArrayLike | None], steps: int) -> None:
        shapes = {"ctrl": (model.nu,), "qfrc_applied": (model.nv,), "xfrc_applied": (model.nbody, 6), "command": (model._compiled.size("ncommand"),),
                  "mocap_pos": (model.nmocap, 3), "mocap_quat": (model.nmocap, 4), "mocap_vel": (model.nmocap, 6)}
        self._rows = {name: self._read(name, given[name], shape) for name, shape in shapes.items() if given.get(name) is not None}
        self._before = {name: shaped(given[own], shapes[name], own) for name, own in _BEFORE.items() if given.get(own) is not None}
        self.steps = self._agree(steps)

        ctrl, poses = start(model, keyframe)
        self._rows.setdefault("ctrl", ctrl)
        led = any(name in self._rows for name in _PATHS) or bool(self._before) or keyframe >= 0 and model.nmocap > 0
        self._moves = {name for name in _PATHS if name in self._rows and self._rows[name].ndim > 2}
        if keyframe >= 0 and model.nmocap:
            self._rows = {**poses, **self._rows}
        before = [self._earlier(name, poses) if led and "mocap_vel" not in self._rows else None for name in _PATHS]
        self.arrays = (*(self._all(name, shape) for name, shape in shapes.items()), *before)

    @staticmethod
    def _read(name, value, shape):
        a = real(value, name)
        if a.shape != shape and (a.ndim != len(shape) + 1 or a.shape[1:] != shape):
            raise InputError(f"{name}: shape {words(a.shape)}; expected (N, {', '.join(map(str, shape))}), or {words(shape)} for all steps")
        if a.shape == shape or len(a):
            return a
        raise InputError(f"{name}: expected one row per step, found 0 rows")

    def _agree(self, steps):
        """How many steps the arrays with a row for each have; else so many."""
        if "mocap_vel" in self._rows and self._before:
            raise InputError(f"mocap_vel and {_BEFORE[next(iter(self._before))]}: velocities that are given do not follow from poses; expected one of both")
        found = {name: len(a) for name, a in self._rows.items() if a.ndim > (2 if name.startswith(("xfrc", "mocap")) else 1)}
        first = next(iter(found), None)
        for name, count in found.items():
            if count != found[first]:
                raise InputError(f"{name}: {count} rows, but {first} says {found[first]} steps")
        return found[first] if first else steps

    def _earlier(self, name, poses):
        """Where bodies were before the first row: as given, else where one row holds throughout there, else the model's or the keyframe's."""
        if name in self._before:
            return self._before[name]
        constant = name in self._rows and name not in self._moves
        return np.ascontiguousarray(self._rows[name] if constant else poses[name])

    def _all(self, name, shape):
        if name not in self._rows:
            return None
        return np.ascontiguousarray(np.broadcast_to(self._rows[name], (self.steps, *shape)))
