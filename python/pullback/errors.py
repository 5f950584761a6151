"""What goes wrong, by kind. All of them are Error; each is also the built-in exception that fits, so `except ValueError` works."""
from __future__ import annotations

from typing import TYPE_CHECKING

from . import _core

if TYPE_CHECKING:
    from .rollout import Rollout


class Error(Exception):
    """Base of everything that the library refuses or fails at."""


class ArgumentError(Error, ValueError):
    """An argument is wrong: its shape, its range, or that it does not go with another."""


class InputError(Error, ValueError):
    """A file or value that was handed in is not valid; the text names file, line and reason."""


class UnsupportedError(Error, NotImplementedError):
    """The input is valid, but asks for something that is not supported; the text names it."""


class StepError(Error, ArithmeticError):
    """A time step failed: a state left the range of finite numbers, or a solver did not reach its tolerance.

    world: number of the first world that failed (0 without a batch); step: number of the step; reason: in words;
    rollout: the Rollout up to there, or None where a single step was made.
    """

    def __init__(self, reason: str, world: int = 0, step: int = 0, rollout: Rollout | None = None) -> None:
        super().__init__(reason)
        self.reason, self.world, self.step, self.rollout = reason, world, step, rollout

    def __reduce__(self):  # on its way out of a worker, without the rollout, whose tape belongs to the process
        return type(self), (self.reason, self.world, self.step)


class NotDifferentiableError(Error, ArithmeticError):
    """A derivative was asked for where there is none."""


class CapacityError(Error, MemoryError):
    """Memory, or a stated number of contacts, was not enough; the text says what would be."""


class FileError(Error, OSError):
    """A file could not be read or written."""


_KINDS: dict[str, type[BaseException]] = {
    "pb_check_failed": Error, "pb_bad_argument": ArgumentError, "pb_bad_input": InputError, "pb_unsupported": UnsupportedError,
    "pb_not_finite": StepError, "pb_no_convergence": StepError, "pb_singular": StepError, "pb_not_differentiable": NotDifferentiableError,
    "pb_capacity": CapacityError, "pb_no_memory": CapacityError, "pb_file": FileError, "pb_interrupted": KeyboardInterrupt,
}


def of_status(status: int, text: str) -> BaseException:
    """The exception of a status code of the C library."""
    return _KINDS[_core.statuses[status][0]](text)
