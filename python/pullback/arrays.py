"""Arrays as callers hand them in: whatever numpy.asarray takes safely becomes contiguous float64, the rest is refused by name."""
from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from .errors import ArgumentError, InputError

if TYPE_CHECKING:
    import numpy.typing as npt
    Array: TypeAlias = npt.NDArray[np.float64]
    ArrayLike: TypeAlias = npt.ArrayLike


def _as_numpy(value, name):
    """The value as an array of whatever type; tensors of other libraries by DLPack, from the host's memory alone."""
    if isinstance(value, np.ndarray) or not hasattr(value, "__dlpack_device__"):
        try:
            return np.asarray(value)
        except ValueError:  # rows of unequal length
            return np.asarray(None)

    device = value.__dlpack_device__()
    if device[0] != 1:  # kDLCPU
        raise TypeError(f"{name}: expected memory of the host, found a tensor on device {tuple(map(int, device))}: move it with .cpu()")
    if getattr(value, "requires_grad", False):
        value = value.detach()
    return np.from_dlpack(value)


def real(value, name, finite=True):
    """Contiguous float64; no copy where it is that already. Refuses complex numbers, truth values, text, NaN and what is masked."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise TypeError(f"{name}: expected real numbers, found {np.ma.count_masked(value)} that are masked: what stands for them? (filled)")
    a = _as_numpy(value, name)
    if a.dtype.kind not in "fiu":
        kinds = {"c": "complex numbers", "b": "truth values", "U": "text", "S": "text", "O": "objects of unequal kind or length"}
        raise TypeError(f"{name}: expected real numbers, found {kinds.get(a.dtype.kind, a.dtype)}")

    # ascontiguousarray would give a number without axes one.
    a = np.asarray(a, dtype=np.float64, order="C")
    if finite and not np.isfinite(a).all():
        where = tuple(int(k) for k in np.argwhere(~np.isfinite(a))[0])
        raise ArgumentError(f"{name}: entry {where} is {a[where]}")
    return a


def whole(value, name, least, most=2**31 - 2):
    """A whole number, least or more: 20, np.int64(20) or 2e1; truth values, text and 2.5 are none."""
    try:
        number = None if isinstance(value, (bool, np.bool_, str, bytes)) else int(value)
    except (TypeError, ValueError, OverflowError):
        number = None
    if number is None or number != value or not least <= number <= most:
        raise ArgumentError(f"{name}: expected a whole number, {least} or more, found {value!r}" + (f"; at most {most}" if number and number > most else ""))
    return number


def words(shape):
    """A shape as people write it."""
    return "(" + ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "") + ")"


def shaped(value, shape, name):
    """real() of exactly this shape."""
    a = real(value, name)
    if a.shape != tuple(shape):
        raise ArgumentError(f"{name}: expected shape {words(shape)}, found {words(a.shape)}")
    return a


def batched(value, shape, name):
    """real() of this shape, or of one with an axis of worlds before it: (array, worlds), worlds None where there is no such axis."""
    a = real(value, name)
    if a.shape == tuple(shape):
        return a, None
    if a.ndim == len(shape) + 1 and a.shape[1:] == tuple(shape) and a.shape[0] > 0:
        return a, a.shape[0]
    raise ArgumentError(f"{name}: expected shape {words(shape)}, or {words(('B', *shape))} of B worlds, found {words(a.shape)}")


def common(worlds, names):
    """How many worlds inputs have in common: None where none has an axis of worlds. One row goes with any number."""
    found = {}
    for name, count in zip(names, worlds):
        if count is not None:
            found.setdefault(count, name)
    many = sorted(count for count in found if count > 1)
    if len(many) > 1:
        raise ArgumentError(f"{found[many[0]]} has {many[0]} worlds and {found[many[1]]} has {many[1]}")
    return many[0] if many else (1 if found else None)


def tree_sum(rows):
    """Sum over the first axis in the order in which the C library sums what worlds share: a binary tree over their numbers."""
    while len(rows) > 1:
        even = len(rows) // 2 * 2
        pairs = rows[0:even:2] + rows[1:even:2]
        rows = pairs if even == len(rows) else np.concatenate([pairs, rows[even:]])
    return rows[0]


def _plain(value):
    """What JSON has for it: lists for arrays, texts for paths."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return dict(value)
    found = _as_numpy(value, "a description")
    if found.dtype.kind not in "fiubU":
        raise TypeError(f"expected what JSON can hold, found {type(value).__name__}: {value!r}")
    return found.tolist()


def refuse_mujoco(value: object, name: str) -> None:
    """Says what takes MuJoCo's own things, where one is handed to what does not."""
    kind = type(value).__name__
    ways = {"MjModel": "pb.from_mujoco(model)", "MjSpec": "pb.from_mujoco(spec)", "MjData": "pb.State.from_mujoco(model, data)"}
    if kind in ways and type(value).__module__.startswith("mujoco"):
        raise ArgumentError(f"{name}: found mujoco.{kind}, which {ways[kind]} takes")


def path_of(value, name):
    """A path as text; an empty name and what is no path are refused."""
    path = os.fsdecode(value) if isinstance(value, (str, bytes, os.PathLike)) else ""
    if not path:
        raise ArgumentError(f"{name}: expected a path, found {value!r}")
    return path


def paths_of(values, name, lists=False):
    """Folders for the library, which has ':' between them; None where there are none. lists: a text may be such a list (ROS_PACKAGE_PATH)."""
    if values is None:
        return None
    if isinstance(values, (str, bytes, os.PathLike)):
        values = [values]
    elif not isinstance(values, Iterable):
        raise ArgumentError(f"{name}: expected a folder or a list of folders, found {values!r}")
    folders = [path_of(v, name) for v in values if not (isinstance(v, str) and not v)]  # nothing, as an unset variable gives it
    for folder in folders:
        if ":" in folder and not lists:
            raise ArgumentError(f"{name}: {folder!r}: the name of a folder has no ':' here; several are a list")
    return ":".join(folders) or None


def _json(given):
    """Its text. A number that is none is refused by its place, but in a target, where it is a sample that is missing."""
    try:
        return json.dumps(given, default=_plain, allow_nan=False)
    except ValueError as error:
        if "Out of range" not in str(error):
            raise
    return json.dumps(_with_gaps(given, "", False), allow_nan=False)


def _with_gaps(value, place, target):
    if isinstance(value, Mapping):
        return {k: _with_gaps(v, f"{place}.{k}" if place else str(k), target or k == "target") for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_with_gaps(v, f"{place}[{k}]", target) for k, v in enumerate(value)]
    if isinstance(value, float) and not np.isfinite(value):
        if target and np.isnan(value):
            return None
        raise InputError(f"{place}: expected a number, found {value}")
    return value if isinstance(value, (str, int, float)) or value is None else _with_gaps(_plain(value), place, target)


class Description:
    """The file of something that is described in JSON, given as a path or as a dict, which becomes a file in memory; the files that it
    names lie below the current folder. None stays None."""

    def __init__(self, given: object, name: str = "a description") -> None:
        self._given, self._name = given, name
        self._memory: int | None = None

    def __enter__(self) -> str | None:
        if self._given is None or isinstance(self._given, (str, bytes, os.PathLike)):
            return None if self._given is None else path_of(self._given, self._name)
        if not isinstance(self._given, Mapping):
            raise ArgumentError(f"expected a path or a dict, found {type(self._given).__name__}")
        text = _json(dict(self._given))
        self._memory = os.memfd_create("pullback")
        with open(self._memory, "w", encoding="utf-8", closefd=False) as f:
            f.write(text)
        return f"/proc/self/fd/{self._memory}"

    def __exit__(self, *_: object) -> None:
        if self._memory is not None:
            os.close(self._memory)
