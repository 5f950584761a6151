"""What notebooks show of models, states and rollouts: the page of the viewer in a frame of its own, which needs no network."""
from __future__ import annotations

import html
import os
import tempfile
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from . import _core

if TYPE_CHECKING:
    from .arrays import Array
    from .model import Model

_MOST = 2401  # rows that a page in a notebook has: 20 s at its 120 pictures a second
_HEIGHT = 480  # pixels


def frame(model: Model, arrays: Mapping[str, Array] | None, says: str) -> str:
    """HTML that plays the arrays of a trajectory, by the program's names; None: the model as it begins. says: the line below."""
    motion = None if arrays is None else [(name, a.shape, np.ascontiguousarray(a, np.float64)) for name, a in arrays.items()]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "page.html")
        _core.page(model, model.path or "model.xml", motion, -1, False, path, False, None, 0.0)
        with open(path, encoding="utf-8") as file:
            page = file.read()
    return (f'<iframe srcdoc="{html.escape(page)}" style="width: 100%; height: {_HEIGHT}px; border: 0" title="{html.escape(says)}"></iframe>'
            f"<div><small>{html.escape(says)}</small></div>")


def thinned(arrays: Mapping[str, Array], steps: int) -> dict[str, Array]:
    """Every k-th of the rows of a trajectory of so many steps, that there are not too many for a page; the motion takes as long."""
    every = -(-(steps + 1) // _MOST)
    kept = len(range(0, steps + 1, every))
    rows = {steps + 1: kept, steps: kept - 1}
    return {name: a[::every][:rows[len(a)]] if len(a) in rows else a for name, a in arrays.items()} if every > 1 else dict(arrays)
