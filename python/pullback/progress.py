"""Progress of long work as a line on standard error: what `progress=True` means."""
from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, TypeAlias

from .errors import ArgumentError

# Rollouts call it with (phase, done, total, seconds, left), commands with (what, done, all, note).
Progress: TypeAlias = Callable[..., object] | bool | None
_WIDTH, _PAUSE = 30, .2


class Bar:
    """One line that is written over: "optimize  [#######.......]  48 %, 3 s left, loss 0.12"; gone when all is done. Short work has none."""

    def __init__(self) -> None:
        self._begun: dict[str, float] = {}
        self._last, self._drawn = time.monotonic(), False

    def __call__(self, what: str, done: float, total: float, *more: Any) -> None:
        now = time.monotonic()
        begun = self._begun.setdefault(what, now)
        if now - self._last < _PAUSE:
            return
        self._last, self._drawn = now, True
        share = min(max(done / total, 0), 1) if total > 0 else 0
        left = f", {(now - begun) * (1 - share) / share:.0f} s left" if share > 0 else ""
        note = f", {more[0]}" if more and isinstance(more[0], str) else ""
        filled = round(_WIDTH * share)
        sys.stderr.write(f"\r\033[K{what}  [{'#' * filled}{'.' * (_WIDTH - filled)}]  {100 * share:.0f} %{left}{note}")
        sys.stderr.flush()

    def close(self) -> None:
        """Clear the line."""
        if self._drawn:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
        self._begun.clear()
        self._last, self._drawn = time.monotonic(), False


class Telling:
    """What a `progress` comes to: `tell` is the caller's function, a Bar for True, None for None and False. A Bar's line goes with the work."""

    tell: Callable[..., object] | None

    def __init__(self, progress: Progress) -> None:
        if progress is not None and not isinstance(progress, bool) and not callable(progress):
            raise ArgumentError(f"progress: expected a function, True or None, found {type(progress).__name__}")
        self.tell = Bar() if progress is True else progress or None

    def __enter__(self) -> Callable[..., object] | None:
        return self.tell

    def __exit__(self, *_: object) -> None:
        if isinstance(self.tell, Bar):
            self.tell.close()
