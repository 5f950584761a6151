"""Pullback: differentiable physics. Load a model, roll it out, pull any loss on the trajectory back.

    import pullback as pb
    model = pb.load("ant.xml")
    r = model.rollout(model.init(), ctrl)         # ctrl (N, nu)
    g = r.vjp(qpos=c)                             # cotangent of the last position, (nv,)
    g.qvel, g.ctrl, r.vjp(qpos=c, wrt="body_mass").params["body_mass"]
"""
import os as _os
import sys as _sys
import typing as _typing

if "t" in getattr(_sys, "abiflags", ""):
    raise ImportError("pullback needs a Python with the interpreter's lock, and this is a free-threaded build: use the usual build of the same "
                      "version (its threads compute without the lock anyway)")

from . import _core
from .bridge import from_mujoco
from .build import build_info
from .commands import audit, check, energies, evaluate, info, inspect, optimize, train, view
from .control import Mpc, Plan, PlanNow
from .energy import Energy
from .errors import ArgumentError, CapacityError, Error, FileError, InputError, NotDifferentiableError, StepError, UnsupportedError
from .identify import Fit, identify, recording
from .losses import Seen
from .model import Model, load, loads
from .objective import Objective
from .plot import plot
from .rollout import Gradient, Rollout, Tangent
from .spec import Spec
from .state import State

__version__ = _core.version
__all__ = ["ArgumentError", "CapacityError", "Energy", "Error", "FileError", "Fit", "Gradient", "InputError", "Model", "Mpc", "NotDifferentiableError", "Objective", "Plan", "PlanNow", "Rollout",
           "Seen", "Spec", "State", "StepError", "Tangent", "UnsupportedError", "audit", "build_info", "check", "energies", "evaluate", "from_mujoco", "identify", "info", "inspect", "load", "loads", "optimize", "plot", "recording", "train", "view"]

if _typing.TYPE_CHECKING:  # for which a function of modules would take every name for one that is there
    from . import gym as gym, jax as jax, torch as torch
else:
    def __getattr__(name):
        """What needs frameworks, imported when it is first named."""
        if name not in ("gym", "jax", "torch"):
            raise AttributeError(f"module 'pullback' has no attribute {name!r}")
        import importlib
        return importlib.import_module(f"{__name__}.{name}")

_os.register_at_fork(after_in_child=_core.after_fork)
