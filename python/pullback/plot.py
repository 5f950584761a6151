"""Plots of rollouts and of searches with matplotlib: pb.plot.

    pb.plot(model.rollout(state, ctrl), ["qpos:knee", "ctrl"]).savefig("run.png")
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .commands import Result
from .errors import ArgumentError
from .rollout import Rollout

if TYPE_CHECKING:
    from .arrays import Array
    from .model import Model

MOST_IN_LEGEND = 12
_COLUMNS = ("iteration", "simulations", "best loss", "gradient norm")  # of a search's history
# Whose entries an array has, and where they stand in it.
_OWNERS = {"qpos": "joint", "qvel": "joint", "ctrl": "actuator", "act": "actuator", "sensordata": "sensor"}
_UNITS = {"qpos": "m, rad", "qvel": "m/s, rad/s", "ctrl": "", "act": "", "sensordata": "", "xpos": "m", "site_xpos": "m", "points": "m",
          "qfrc_applied": "N, N m", "xfrc_applied": "N, N m"}


def plot(shown: Rollout | Result, names: str | Sequence[str] | None = None) -> Any:
    """A matplotlib Figure with what a rollout did over time (s), or how a search of `pb.optimize` went; it has savefig.

    names: of a rollout, one picture below another for each: an array ("qpos", "ctrl", "sensordata", "xpos", ...) or the part of one that
    belongs to a thing ("qpos:knee", "sensordata:gyro"); None: qpos, qvel and ctrl. Of several worlds each is a line of its own. Needs pullback[viewer].
    Raises ArgumentError where the rollout has nothing of a name, ImportError without matplotlib.
    """
    if isinstance(shown, Result):
        return _search(shown)
    if not isinstance(shown, Rollout):
        raise ArgumentError(f"expected a Rollout or a Result, found {type(shown).__name__}")
    if names is None:
        names = ["qpos", "qvel", *(["ctrl"] if hasattr(shown, "ctrl") and shown.model.nu else [])]
    parts = [(name, *_entries(shown, name)) for name in ([names] if isinstance(names, str) else names)]
    if not parts:
        raise ArgumentError("names: there are none")
    figure, pictures = _figure(len(parts))
    for picture, (name, values, labels) in zip(pictures, parts, strict=True):
        _lines(picture, shown, values, labels)
        unit = _UNITS.get(name.split(":")[0], "")
        picture.set_ylabel(f"{name}  [{unit}]" if unit else name)
    pictures[-1].set_xlabel("time  [s]")
    return figure


def _figure(count):
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("pullback.plot needs matplotlib: pip install 'pullback[viewer]'") from error
    figure = Figure(figsize=(8, 1 + 2.2 * count), layout="constrained")
    return figure, figure.subplots(count, 1, sharex=True, squeeze=False)[:, 0]


def _entries(r: Rollout, name: str) -> tuple[Array, list[str]]:
    """Values (worlds, rows, entries) of a name, and what the entries are called."""
    array, _, thing = name.partition(":")
    values = getattr(r, array, None)
    if not isinstance(values, np.ndarray):
        raise ArgumentError(f"names: the rollout has no '{array}'")
    lead = 1 if (r._inputs[array].worlds if array in r._inputs else r.batch) is None else 2
    values = values.reshape(values.shape[0] if lead == 2 else 1, values.shape[lead - 1], -1)
    labels = _labels(r.model, array, values.shape[2])
    if thing:
        place = _place(r.model, array, thing)
        values, labels = values[..., place], labels[place]
    if values.shape[2] == 0:
        raise ArgumentError(f"names: '{name}' has no numbers")
    return values, labels


def _place(model: Model, array: str, thing: str) -> slice:
    owner = _OWNERS.get(array)
    if owner is None:
        raise ArgumentError(f"names: only {', '.join(_OWNERS)} have parts by name, not '{array}'")
    place = getattr(getattr(model, owner)(thing), array)
    assert isinstance(place, slice)
    return place


def _labels(model: Model, array: str, count: int) -> list[str]:
    """Names of things with the number of the entry where they have several; else the number alone."""
    labels = [str(i) for i in range(count)]
    owner = _OWNERS.get(array)
    if owner is None:
        return labels
    for name in model.names(owner):
        place = getattr(getattr(model, owner)(name), array) if name else slice(0, 0)
        for i in range(place.start, min(place.stop, count)):
            labels[i] = name if place.stop - place.start == 1 else f"{name} {i - place.start}"
    return labels


def _lines(picture: Any, r: Rollout, values: Array, labels: list[str]) -> None:
    times = np.atleast_2d(r.time)
    for entry, label in enumerate(labels):
        for world, rows in enumerate(values):
            time = times[min(world, len(times) - 1), :len(rows)]
            picture.plot(time, rows[:, entry], color=f"C{entry % 10}", label=None if world else label, linewidth=1, alpha=1 if len(values) == 1 else .4)
    if len(labels) <= MOST_IN_LEGEND:
        picture.legend(loc="center left", bbox_to_anchor=(1, .5), fontsize="small", frameon=False)
    picture.margins(x=0)


def _search(result: Result) -> Any:
    rows = np.array(result["history"], dtype=float).reshape(-1, len(_COLUMNS))
    figure, pictures = _figure(2)
    for picture, column in zip(pictures, (2, 3), strict=True):
        picture.plot(rows[:, 0], rows[:, column], ".-")
        positive = rows[:, column][np.isfinite(rows[:, column])]
        if positive.size and positive.min() > 0:
            picture.set_yscale("log")
        picture.set_ylabel(_COLUMNS[column])
    pictures[-1].set_xlabel("iteration")
    figure.suptitle(f"{result['outcome']}: {result['reason']}", fontsize="small")
    return figure
