"""When the gradients of a model are checked by themselves."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class Checks:
    """How much the spot checks of a model's gradients have cost, in steps: what pays for them is a share of the steps that its rollouts take."""

    share = 0.2  # of a rollout, for each gradient

    def __init__(self) -> None:
        self.count, self.owed, self.off = 0, 0.0, False

    def due(self, steps: int) -> bool:
        """Whether a gradient of so many steps is checked; it pays its share."""
        due = self.owed <= 0 or self.off
        self.owed = max(0.0, self.owed) - self.share * steps
        return due

    def note(self, certificates: Sequence[Mapping[str, Any]]) -> None:
        """Count what the checks of a gradient took, and whether one was off."""
        spent = sum(c["spot_evaluations"] for c in certificates)
        if spent:
            self.count, self.owed, self.off = self.count + 1, self.owed + spent, any(c["spot_off"] for c in certificates)
