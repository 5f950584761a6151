"""Options of rollouts, as the functions take them that hand them on: what type checkers hold them against."""
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias, TypedDict

if TYPE_CHECKING:
    from .arrays import ArrayLike
    from .progress import Progress

GradientKind: TypeAlias = Literal["exact", "event", "smooth"]
Constants: TypeAlias = Literal["recompute", "keep"]
OnFailure: TypeAlias = Literal["raise", "mask"]


class HowOptions(TypedDict, total=False):
    """How a rollout is computed: options of every function that makes one; Model.rollout says what they mean."""

    gradient: GradientKind
    constants: Constants
    memory: int | None
    threads: int | None
    on_failure: OnFailure
    progress: Progress


class RolloutOptions(HowOptions, total=False):
    """What Model.rollout takes beside the state, the controls and the parameters."""

    steps: int | None
    qfrc_applied: ArrayLike | None
    xfrc_applied: ArrayLike | None
    mocap_pos: ArrayLike | None
    mocap_quat: ArrayLike | None
    mocap_vel: ArrayLike | None
    mocap_pos_before: ArrayLike | None
    mocap_quat_before: ArrayLike | None
    command: ArrayLike | None
    outputs: str | Sequence[str]
    keep: bool
