"""Gymnasium's MuJoCo environments on Pullback's physics: rewards, observations, noise and termination are Gymnasium's own code.

    env = pb.gym.make("Ant-v5")
    venv = pb.gym.make_vec("Ant-v5", num_envs=8)

An environment keeps MuJoCo's model and data as the place where its code looks: after each step the fields of the data hold what MuJoCo
would leave there (with RK4: of the last stage). Nothing of MuJoCo computes them.
"""
from __future__ import annotations

import copy
import functools
import os
from typing import Any, NamedTuple

import numpy as np

try:
    import gymnasium
    import mujoco
    from gymnasium.envs.mujoco import MujocoEnv
    from gymnasium.envs.registration import EnvSpec, load_env_creator
    from gymnasium.vector import AutoresetMode, SyncVectorEnv
except ImportError as error:
    raise ImportError("pullback.gym needs Gymnasium and MuJoCo: pip install 'pullback[gym]'") from error

from . import _core
from .errors import ArgumentError
from .model import load

# Fields of MuJoCo's data that have the same numbers here, and those that python/core/mirror.c converts.
_COPIED = ("xpos", "xquat", "xipos", "ximat", "geom_xpos", "geom_xmat", "site_xpos", "site_xmat", "subtree_com", "qfrc_bias", "qfrc_passive",
           "qfrc_actuator", "qfrc_constraint", "qacc", "ten_length", "ten_velocity", "actuator_length", "actuator_velocity", "actuator_force")
_CONVERTED = ("xmat", "cvel", "cinert", "cfrc_ext", "sensordata")


@functools.lru_cache(maxsize=32)
def _load_once(path, changed, key, options):
    return load(path, **options.value)


class _Held:
    """A value that a cache does not compare."""

    def __init__(self, value):
        self.value = value

    __eq__, __hash__ = (lambda self, other: isinstance(other, _Held)), (lambda self: 0)


def _loaded(path, key, **options):
    """The model of a file, once for all environments that use it."""
    return _load_once(path, os.stat(path).st_mtime_ns, key, _Held(options))


class _Ahead(NamedTuple):
    """A step that was computed with those of other environments, before this one asked for it."""
    before: np.ndarray
    ctrl: np.ndarray
    steps: int
    after: np.ndarray

    def fits(self, state, ctrl, steps):
        return steps == self.steps and np.array_equal(self.ctrl, ctrl) and np.array_equal(self.before, state.flat)


class Physics:
    """What takes the place of mj_step, mj_forward and mj_rnePostConstraint in an environment; goes before its class."""

    options = {}

    def _initialize_simulation(self):
        model, data = super()._initialize_simulation()
        self.physics = _loaded(self.fullpath, repr(self.options), **self.options)
        self._mirror = _core.Mirror(_COPIED, tuple(getattr(data, n) for n in _COPIED), tuple(getattr(data, n) for n in _CONVERTED),
                                    (data.xfrc_applied, model.body_inertia, model.body_mass), model.body_rootid, model.geom_bodyid)
        self._begin()
        return model, data

    def _begin(self):
        """The state that the model begins in."""
        self.physics_state = s = self.physics.init()
        self._state_views = s.time, s.qpos, s.qvel, s.act
        self._ahead = None

    def __reduce__(self):
        """As Gymnasium's own are copied and pickled: made anew with the same arguments."""
        own = next(c for c in type(self).__mro__ if not issubclass(c, Physics))
        return _remade, (own, self.options, self._ezpickle_args, self._ezpickle_kwargs)

    # ---- in place of MuJoCo's functions -----------------------------------------------------------------------------------
    def set_state(self, qpos, qvel):
        """Go to qpos (nq,) and qvel (nv,); time and activations stay."""
        assert qpos.shape == (self.model.nq,) and qvel.shape == (self.model.nv,)
        self._begin()
        for view, value in zip(self._state_views, (self.data.time, qpos, qvel, self.data.act), strict=True):
            view[...] = value
        self._evaluate(0)
        self.data.qpos[:], self.data.qvel[:] = qpos, qvel

    def _step_mujoco_simulation(self, ctrl, n_frames):
        self.data.ctrl[:] = ctrl
        self._read_state()
        self._evaluate(n_frames)
        d, (time, qpos, qvel, act) = self.data, self._state_views
        d.time, d.qpos[:], d.qvel[:], d.act[:] = time[0], qpos, qvel, act

    def render(self):
        """Gymnasium's picture; cameras and lights go with the bodies."""
        mujoco.mj_camlight(self.model, self.data)
        return super().render()

    def _read_state(self):
        """What the environment's code wrote into the data since the last step."""
        d = self.data
        for view, value in zip(self._state_views, (d.time, d.qpos, d.qvel, d.act), strict=True):
            view[...] = value

    def _evaluate(self, steps):
        """Steps, or for 0 an evaluation alone; then the data has what MuJoCo would leave there."""
        if self._ahead and self._ahead.fits(self.physics_state, self.data.ctrl, steps):
            self.physics_state.flat[:] = self._ahead.after
        else:
            self.physics._mirror(self.physics_state.flat, self.data.ctrl, steps, (self._mirror,))
        self._ahead = None
        self._mirror.show()


# ---- making environments ------------------------------------------------------------------------------------------------------
@functools.cache
def _on_pullback(cls):
    if not issubclass(cls, MujocoEnv):
        raise ArgumentError(f"{cls.__name__} is not an environment of gymnasium.envs.mujoco")
    return type(cls.__name__, (Physics, cls), {"__module__": __name__, "__doc__": cls.__doc__})


def _with_options(cls, options):
    return cls if not options else type(cls.__name__, (cls,), {"options": options, "__module__": __name__})


def _remade(own, options, args, kwargs):
    return _with_options(_on_pullback(own), options)(*args, **kwargs)


def spec(name: str, **options: Any) -> EnvSpec:
    """Gymnasium's description of an environment by its name, with Pullback's physics in it: what gymnasium.make takes.

    options: those of pb.load. Raises ArgumentError for what is not one of gymnasium.envs.mujoco, gymnasium.error.Error for an unknown name.
    """
    found = copy.deepcopy(gymnasium.spec(name))
    creator = load_env_creator(found.entry_point) if isinstance(found.entry_point, str) else found.entry_point
    found.entry_point = _with_options(_on_pullback(creator), options)
    return found


def make(name: str, *, physics: dict[str, Any] | None = None, **arguments: Any) -> gymnasium.Env[Any, Any]:
    """gymnasium.make on Pullback's physics: the environment's own observations, rewards, noise and termination.

    name        "Ant-v5", ...: an environment of gymnasium.envs.mujoco
    physics     options of pb.load: {"options": {"tolerance": 0}}
    arguments   go to gymnasium.make: render_mode, max_episode_steps, those of the environment

    The model is env.unwrapped.physics, its state env.unwrapped.physics_state. Raises ArgumentError for another environment, and what load
    raises.
    """
    return gymnasium.make(spec(name, **(physics or {})), **arguments)


class PhysicsVector(SyncVectorEnv):
    """Environments side by side, the steps of all in one call of the C library; bit for bit as each alone.

    autoreset_mode: gymnasium.vector.AutoresetMode, NEXT_STEP (the default: an episode that ended is reset by the next step), SAME_STEP
    or DISABLED.
    """

    def step(self, actions):
        """Gymnasium's step of a vector environment; actions (num_envs, nu)."""
        self._step_ahead(actions)
        return super().step(actions)

    def _step_ahead(self, actions):
        at_reset = self.autoreset_mode == AutoresetMode.NEXT_STEP
        going = [(e.unwrapped, a) for e, a, ended in zip(self.envs, actions, self._autoreset_envs) if not (at_reset and ended)]
        if not going:
            return
        first = going[0][0]
        for e, _ in going:
            e._read_state()
        before = np.stack([e.physics_state.flat for e, _ in going])
        ctrl = np.stack([np.asarray(a, dtype=np.float64) for _, a in going])
        flat = before.copy()
        first.physics._mirror(flat, ctrl, first.frame_skip, tuple(e._mirror for e, _ in going))
        for (e, _), *ahead, after in zip(going, before, ctrl, flat, strict=True):
            e._ahead = _Ahead(*ahead, e.frame_skip, after)


def make_vec(name: str, num_envs: int = 1, *, physics: dict[str, Any] | None = None, autoreset_mode: AutoresetMode = AutoresetMode.NEXT_STEP,
             **arguments: Any) -> PhysicsVector:
    """num_envs environments as one, stepped together in one call of the library; bit for bit as each alone.

    autoreset_mode: NEXT_STEP, SAME_STEP or DISABLED, as Gymnasium defines them; physics and arguments as of make.
    """
    described = spec(name, **(physics or {}))
    return PhysicsVector([lambda: gymnasium.make(described, **arguments)] * num_envs, autoreset_mode=autoreset_mode)
