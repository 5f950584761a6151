"""States: all that can change the next step, in one array."""
import numpy as np

from . import _core
from .arrays import words
from .errors import ArgumentError


class State(_core.State):
    """A state of a model, or B of them side by side.

    flat    (StateSize,) or (B, StateSize): all of it; two states with equal bits go on with equal bits
    fields  names of its parts; each is an attribute, a writable view into flat: time, qpos, qvel, act, ...

    time is (1,) or (B, 1). Made by Model.init and Rollout.state, or from an array of the right shape by Model.state.
    """

    def __new__(cls, model, flat):
        worlds = len(flat) if flat.ndim == 2 else 0
        self = super().__new__(cls, model._compiled, flat, worlds)
        self.model, self.flat = model, flat
        return self

    @property
    def fields(self):
        return tuple(self.model._slots)

    @property
    def batch(self):
        """Number of worlds, None without an axis for them."""
        return len(self.flat) if self.flat.ndim == 2 else None

    def __getattr__(self, name):
        slots = self.__dict__["model"]._slots if "model" in self.__dict__ else {}
        if name in slots:
            return self.flat[..., slots[name]]
        raise AttributeError(f"a state has no field '{name}'; it has {', '.join(slots)}")

    def __setattr__(self, name, value):
        if name in ("model", "flat") and name not in self.__dict__:
            object.__setattr__(self, name, value)
        elif name in self.model._slots:
            view = self.flat[..., self.model._slots[name]]
            try:
                view[...] = value
            except ValueError:
                raise ArgumentError(f"{name}: expected shape {words(view.shape)}, found {words(np.shape(value))}") from None
        else:
            raise AttributeError(f"a state has no field '{name}'; it has {', '.join(self.fields)}")

    def __dir__(self):
        return [*super().__dir__(), *self.fields]

    def copy(self):
        return State(self.model, self.flat.copy())

    __copy__ = copy

    def __deepcopy__(self, memo):
        return self.copy()

    def __len__(self):
        if self.batch is None:
            raise TypeError("a state of one world has no length")
        return self.batch

    def __getitem__(self, world):
        """The state of a world, or of several: a copy."""
        if self.batch is None:
            raise TypeError("a state of one world has no worlds to choose from")
        return State(self.model, np.array(self.flat[world], order="C"))

    def __eq__(self, other):
        if not isinstance(other, State):
            return NotImplemented
        return self.model == other.model and np.array_equal(self.flat, other.flat)

    __hash__ = None

    def __reduce__(self):
        return _restored, (self.model, self.flat.copy())

    def __repr__(self):
        worlds = "" if self.batch is None else f"{self.batch} worlds, "
        parts = ", ".join(f"{name} {words(self.flat[..., place].shape)}" for name, place in self.model._slots.items())
        return f"<State of {self.model.name or 'a model'}: {worlds}{parts}>"


def _restored(model, flat):
    return State(model, flat)
