"""Gymnasium's MuJoCo environments on Pullback's physics: rewards, observations, noise and termination are Gymnasium's own code.

    env = pb.gym.make("Ant-v5")
    venv = pb.gym.make_vec("Ant-v5", num_envs=8)
    env = gymnasium.make("pullback/Ant-v5")           # the same, by a registered name
    env = pb.gym.World("arm.xml", reward=lambda before, action, after: -abs(after.qpos[0]))

An environment keeps MuJoCo's model and data as the place where its code looks and writes: after each step the fields of the data hold what
MuJoCo would leave there (with RK4: of the last stage). Nothing of MuJoCo computes them. What the code writes into model and data acts as it
does in MuJoCo (follow.py), or is an error that names the field.
"""
from __future__ import annotations

import copy
import functools
import importlib
import os
from collections.abc import Callable, Mapping, Sequence
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
from .arrays import words
from .errors import ArgumentError, CapacityError, StepError, UnsupportedError
from .follow import Followed
from .model import Model, load
from .state import State
from .worlds import World

__all__ = ["Physics", "PhysicsVector", "World", "environment", "make", "make_vec", "register", "spec", "vector"]

# Fields of MuJoCo's data that have the same numbers here, and those that python/core/mirror.c converts.
_COPIED = ("xpos", "xquat", "xipos", "ximat", "geom_xpos", "geom_xmat", "site_xpos", "site_xmat", "subtree_com", "qfrc_bias", "qfrc_passive",
           "qfrc_actuator", "qfrc_constraint", "qacc", "ten_length", "ten_velocity", "actuator_length", "actuator_velocity", "actuator_force")
_CONVERTED = ("xmat", "cvel", "cinert", "cfrc_ext", "sensordata")
_INPUTS = ("qfrc_applied", "xfrc_applied", "mocap_pos", "mocap_quat")  # what acts beside the controls
_FAILURES = ("terminate", "raise")
_NAMESPACE = "pullback"  # of names that are registered
_CALLBACKS = {n.replace("get", "set"): getattr(mujoco, n) for n in dir(mujoco) if n.startswith("get_mjcb_") and n != "get_mjcb_time"}


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
    error: Exception | None

    def fits(self, state, ctrl, steps, mirror):
        return steps == self.steps and np.array_equal(self.ctrl, ctrl) and np.array_equal(self.before, state) and mirror.acted()


class Physics:
    """What steps an environment in place of mj_step, mj_forward and mj_rnePostConstraint; goes before its class, as _Simulation behind it.

    physics          the model, with all that was changed in MuJoCo's since; another one may be put in its place, and the later rules
    physics_state    the state that it is in
    """

    options: dict[str, Any] = {}
    on_failure = "terminate"

    def _initialize_simulation(self):
        found = super()._initialize_simulation()
        own = getattr(self, "_own", (None, None))
        if found[0] is not own[0] or found[1] is not own[1]:
            name = next(c for c in type(self).__mro__ if not issubclass(c, Physics) and "_initialize_simulation" in vars(c)).__name__
            raise UnsupportedError(f"{name}._initialize_simulation gives a model or data of its own: expected those of super()._initialize_simulation(), "
                                   "which it may change")
        return found

    def _load_physics(self, settings):
        options = {**self.options, **({"options": {**self.options.get("options", {}), **settings}} if settings else {})}
        return _loaded(self.fullpath, repr(options), **options)

    @property
    def physics(self) -> Model:
        """The model as it is now. Raises UnsupportedError where the environment's code changed what has no counterpart."""
        self._look()
        return self._followed.physics()

    @physics.setter
    def physics(self, model: Model) -> None:
        """Another model in its place, as it is; what is written into MuJoCo's from here on goes on top, what was before is over.

        Raises ArgumentError, and all stays as it was, for what is no model, or one of other sizes.
        """
        if not isinstance(model, Model):
            raise ArgumentError(f"physics: expected a Model, found {model!r}")
        now = self._followed.physics()
        other = [f"{n} is {getattr(model, n)} and was {getattr(now, n)}" for n in ("nq", "nv", "na", "nu", "nbody") if getattr(model, n) != getattr(now, n)]
        if other:
            raise ArgumentError(f"physics: a model of other sizes: {', '.join(other)}")
        self._followed.replace(model)
        self._go_on(self._followed.physics())

    def _look(self):
        """Raises where the code of the environment wrote what is not there."""
        if self.model is not self._own[0] or self.data is not self._own[1]:
            raise ArgumentError("the environment's model or data was replaced by another one: make another environment")
        self._refuse_steps()
        for name, callback in _CALLBACKS.items():
            if callback() is not None:
                raise UnsupportedError(f"mujoco.{name} is in force, and acts on MuJoCo's own steps alone: write into model and data before each step")
        self._followed.refuse_data(self.data)

    def _refuse_steps(self):
        """Raises where MuJoCo has computed a motion since the last reset: it counts its steps."""
        if self._count.number > 0:
            raise UnsupportedError("mujoco.mj_step or a part of it was called with the environment's data, which moves it by MuJoCo: call do_simulation "
                                   "(mj_forward where something is to be seen), and reset the environment")

    def _begin(self, physics):
        """The state that the model begins in."""
        self._set(physics.init())

    def _set(self, state):
        self.physics_state = s = state
        self._state_views = s.time, s.qpos, s.qvel, s.act, *((s.history,) if "history" in s.fields else ())
        self._ahead = None

    def _go_on(self, physics):
        """The same state, of the model as it is now; a step that was computed ahead with another one is not taken."""
        if self.physics_state.model is not physics:
            self._set(State(physics, self.physics_state.flat.copy()))

    def __reduce__(self):
        """As Gymnasium's own are copied and pickled: made anew with the same arguments."""
        own = next(c for c in type(self).__mro__ if not issubclass(c, Physics))
        if not hasattr(self, "_ezpickle_args"):
            raise TypeError(f"{own.__name__} cannot be copied or pickled: expected gymnasium.utils.EzPickle among its bases, which makes it anew")
        return _remade, (own, {"options": self.options, "on_failure": self.on_failure}, self._ezpickle_args, self._ezpickle_kwargs)

    # ---- a step -----------------------------------------------------------------------------------------------------------
    def _read_state(self):
        """What the environment's code wrote into the data since the last step; the model as it is now."""
        physics, d = self.physics, self.data
        self._go_on(physics)
        self._put(d.time, d.qpos, d.qvel, d.act, *self._history())
        return physics

    def _history(self):
        """Samples of controls and sensors in the data, where the model keeps some."""
        return (self.data.history,) if self.data.history.size else ()

    def _put(self, *state):
        """Time, positions, velocities, activations, samples; ArgumentError for what is not a number."""
        for view, value in zip(self._state_views, state, strict=True):
            view[...] = value
        if not np.isfinite(self.physics_state.flat).all():
            s = self.physics_state
            name, k, value = next((n, k, x) for n in s.fields for k, x in enumerate(getattr(s, n)) if not np.isfinite(x))
            raise ArgumentError(f"data.{name}: number {k} of it is {value}")

    def _evaluate(self, steps, physics):
        """Steps, or for 0 an evaluation alone; then the data has what MuJoCo would leave there. Where they fail all is as it was."""
        flat = self.physics_state.flat
        if self._ahead and self._ahead.fits(flat, self.data.ctrl, steps, self._mirror):
            after, error = self._ahead.after, self._ahead.error
        else:
            after = flat.copy()
            error, = physics._mirror(after, self.data.ctrl, steps, (self._mirror,))
        self._ahead = None
        if error is not None:
            raise error
        flat[:] = after
        self._mirror.show()

    # ---- failures -------------------------------------------------------------------------------------------------------
    def reset(self, *, seed=None, options=None):
        """Gymnasium's own reset."""
        found = super().reset(seed=seed, options=options)
        self._refuse_steps()
        self._last_seen = found[0]
        return found

    def step(self, action):
        """The environment's own step; one that fails ends the episode: terminated, info["failed"] with the reason, the observation before it."""
        try:
            found = super().step(action)
        except (StepError, CapacityError) as error:
            if self.on_failure == "raise":
                raise
            seen = self._get_obs() if hasattr(self, "_get_obs") else self._last_seen
            return seen, 0.0, True, False, {"failed": str(error)}
        self._refuse_steps()
        self._last_seen = found[0]
        return found


class _Simulation(MujocoEnv):
    """What takes the place of MuJoCo's functions; goes behind an environment's class, whose own methods call these by super()."""

    def _initialize_simulation(self):
        model, data = super()._initialize_simulation()
        physics = self._load_physics({})
        self._mirror = _core.Mirror(_COPIED, tuple(getattr(data, n) for n in _COPIED), tuple(getattr(data, n) for n in _CONVERTED),
                                    (model.body_inertia, model.body_mass, *(getattr(data, n) for n in _INPUTS)), model.body_rootid, model.geom_bodyid)
        self._followed = Followed(model, physics, self._load_physics)
        self._own, self._count = (model, data), data.timer[int(mujoco.mjtTimer.mjTIMER_STEP)]
        self._begin(physics)
        return model, data

    def set_state(self, qpos, qvel):
        """Go to qpos (nq,) and qvel (nv,); time and activations stay."""
        assert qpos.shape == (self.model.nq,) and qvel.shape == (self.model.nv,)
        self._begin(self.physics)
        self._put(self.data.time, qpos, qvel, self.data.act, *self._history())
        self._evaluate(0, self.physics_state.model)
        self.data.qpos[:], self.data.qvel[:] = qpos, qvel

    def _step_mujoco_simulation(self, ctrl, n_frames):
        self.data.ctrl[:] = ctrl
        physics = self._read_state()
        self._evaluate(n_frames, physics)
        d, (time, qpos, qvel, act, *history) = self.data, self._state_views
        d.time, d.qpos[:], d.qvel[:], d.act[:] = time[0], qpos, qvel, act
        if history:
            d.history[:] = history[0]

    def render(self):
        """Gymnasium's picture; cameras and lights go with the bodies."""
        mujoco.mj_camlight(self.model, self.data)
        return super().render()


# ---- making environments ------------------------------------------------------------------------------------------------------
@functools.cache
def _on_pullback(cls):
    if not issubclass(cls, MujocoEnv):
        raise ArgumentError(f"{cls.__name__} is not an environment of gymnasium.envs.mujoco")
    return type(cls.__name__, (Physics, cls, _Simulation), {"__module__": __name__, "__doc__": cls.__doc__})


def _with_options(cls, settings):
    return type(cls.__name__, (cls,), {**settings, "__module__": __name__})


def _remade(own, settings, args, kwargs):
    return _with_options(_on_pullback(own), settings)(*args, **kwargs)


def environment(of: str | type[MujocoEnv], physics: Mapping[str, Any] | None = None, on_failure: str = "terminate", **arguments: Any) -> MujocoEnv:
    """An environment of Gymnasium's class on Pullback's physics, without Gymnasium's wrappers: the entry point of registered names.

    of: the name that Gymnasium has it by, or its class; physics, on_failure and arguments as of make.
    """
    if on_failure not in _FAILURES:
        raise ArgumentError(f"on_failure: expected {' or '.join(_FAILURES)}, found {on_failure!r}")
    settings = {"options": dict(physics or {}), "on_failure": on_failure}
    if isinstance(of, type):
        return _with_options(_on_pullback(of), settings)(**arguments)
    found = gymnasium.spec(of)
    creator = load_env_creator(found.entry_point) if isinstance(found.entry_point, str) else found.entry_point
    return _with_options(_on_pullback(creator), settings)(**{**found.kwargs, **arguments})


def vector(num_envs: int = 1, **arguments: Any) -> PhysicsVector:
    """The vector entry point of registered names: what gymnasium.make_vec calls; arguments as of make_vec, and `of` as of environment."""
    of, steps = arguments.pop("of"), {n: arguments.pop(n) for n in ("max_episode_steps",) if n in arguments}
    return make_vec(of, num_envs, **arguments, **steps)


def spec(name: str | type[MujocoEnv], *, on_failure: str = "terminate", **options: Any) -> EnvSpec:
    """Gymnasium's description of an environment by its name, with Pullback's physics in it: what gymnasium.make takes, and to_json writes.

    name       "Ant-v5", "module:Own-v0" (the module is imported, which registers it), or a class of gymnasium.envs.mujoco's kind
    on_failure of make; options: those of pb.load

    Raises ArgumentError for what is not one of gymnasium.envs.mujoco, gymnasium.error.Error for an unknown name.
    """
    if on_failure not in _FAILURES:
        raise ArgumentError(f"on_failure: expected {' or '.join(_FAILURES)}, found {on_failure!r}")
    own = {**({"physics": options} if options else {}), **({"on_failure": on_failure} if on_failure != "terminate" else {})}
    if isinstance(name, type):
        _on_pullback(name)
        return EnvSpec(f"{_NAMESPACE}/{name.__name__}-v0", entry_point=f"{__name__}:environment", vector_entry_point=f"{__name__}:vector",
                       kwargs={"of": name, **own})
    module, _, bare = name.rpartition(":")
    if module:
        importlib.import_module(module)
    bare = bare.removeprefix(f"{_NAMESPACE}/")
    found = gymnasium.spec(bare)
    creator = load_env_creator(found.entry_point) if isinstance(found.entry_point, str) else found.entry_point
    _on_pullback(creator)
    return EnvSpec(f"{_NAMESPACE}/{bare.replace('/', '-')}", entry_point=f"{__name__}:environment", vector_entry_point=f"{__name__}:vector",
                   reward_threshold=found.reward_threshold, nondeterministic=found.nondeterministic, max_episode_steps=found.max_episode_steps,
                   order_enforce=found.order_enforce, disable_env_checker=found.disable_env_checker, kwargs={"of": bare, **own},
                   additional_wrappers=found.additional_wrappers)


def register(name: str | type[MujocoEnv], **settings: Any) -> str:
    """Register an environment on Pullback's physics under "pullback/NAME", which gymnasium.make and make_vec take then; returns that name.

    name, settings: as of spec. What comes with Gymnasium is registered when pullback.gym is imported: "pullback/Ant-v5", ...
    """
    made = spec(name, **settings)
    gymnasium.registry[made.id] = made
    return made.id


def make(name: str | type[MujocoEnv], *, physics: Mapping[str, Any] | None = None, on_failure: str = "terminate",
         **arguments: Any) -> gymnasium.Env[Any, Any]:
    """gymnasium.make on Pullback's physics: the environment's own observations, rewards, noise and termination.

    name        "Ant-v5", ...: an environment of gymnasium.envs.mujoco; "module:Own-v0"; or a class of that kind
    physics     options of pb.load: {"options": {"tolerance": 0}}
    on_failure  "terminate": a step that fails (the state grows beyond bounds) ends the episode, with info["failed"] as the reason, reward 0
                and the observation before it; "raise" StepError
    arguments   go to gymnasium.make: render_mode, max_episode_steps, those of the environment

    The model is env.unwrapped.physics, its state env.unwrapped.physics_state. What is written into MuJoCo's model and data acts, or is an
    UnsupportedError that names the field, at the next step. Raises ArgumentError for another environment, and what load raises.
    """
    return gymnasium.make(spec(name, on_failure=on_failure, **(physics or {})), **arguments)


class PhysicsVector(SyncVectorEnv):
    """Environments side by side, the steps of all in one call of the C library; bit for bit as each alone.

    Worlds may have physics of their own; those that share theirs are one call. One that fails is terminated, and the others' step is there.
    autoreset_mode: gymnasium.vector.AutoresetMode, NEXT_STEP (the default: an episode that ended is reset by the next step), SAME_STEP
    or DISABLED.
    """

    def step(self, actions):
        """Gymnasium's step of a vector environment; actions (num_envs, nu). Raises ArgumentError for one that is not a number."""
        self._step_ahead(actions)
        return super().step(actions)

    def _step_ahead(self, actions):
        """The steps of all whose actions are controls; the others' classes make controls of them in their own steps."""
        space = self.single_action_space
        if space.shape is not None and np.shape(actions) != (self.num_envs, *space.shape):
            raise ArgumentError(f"actions: expected shape {words((self.num_envs, *space.shape))}, found {words(np.shape(actions))}")
        if not isinstance(space, gymnasium.spaces.Box):
            return
        at_reset = self.autoreset_mode == AutoresetMode.NEXT_STEP
        groups: dict[tuple[int, int], list[Any]] = {}
        for k, (env, action, ended) in enumerate(zip(self.envs, actions, self._autoreset_envs, strict=False)):
            if at_reset and ended:
                continue
            e, ctrl = env.unwrapped, np.asarray(action, dtype=np.float64)
            if not np.isfinite(ctrl).all():
                bad = tuple(map(int, np.argwhere(~np.isfinite(ctrl))[0]))
                raise ArgumentError(f"world {k}: action{list(bad)} is {ctrl[bad]}: expected a finite number")
            if ctrl.shape != (e.model.nu,):
                continue
            physics = e._read_state()
            groups.setdefault((id(physics), e.frame_skip), []).append((e, physics, ctrl))
        for (_, frames), worlds in groups.items():
            before = np.stack([e.physics_state.flat for e, _, _ in worlds])
            ctrl = np.stack([c for _, _, c in worlds])
            flat, physics = before.copy(), worlds[0][1]
            errors = physics._mirror(flat, ctrl, frames, tuple(e._mirror for e, _, _ in worlds))
            for (e, _, _), *ahead, after, error in zip(worlds, before, ctrl, flat, errors, strict=True):
                e._ahead = _Ahead(*ahead, frames, after, error)


def make_vec(name: str | type[MujocoEnv], num_envs: int = 1, *, physics: Mapping[str, Any] | None = None, on_failure: str = "terminate",
             vectorization_mode: str | None = None, vector_kwargs: Mapping[str, Any] | None = None,
             wrappers: Sequence[Callable[[gymnasium.Env[Any, Any]], gymnasium.Env[Any, Any]]] = (),
             autoreset_mode: AutoresetMode = AutoresetMode.NEXT_STEP, **arguments: Any) -> gymnasium.vector.VectorEnv[Any, Any, Any]:
    """num_envs environments as one, stepped together in one call of the library; bit for bit as each alone.

    vectorization_mode  None: together; "sync" or "async": Gymnasium's own vectors of single environments
    vector_kwargs       of the vector: copy, observation_mode
    wrappers            functions of a single environment, put around each; one that changes actions has each step by itself
    autoreset_mode      NEXT_STEP, SAME_STEP or DISABLED, as Gymnasium defines them

    physics, on_failure and arguments as of make. Of registered names gymnasium.make_vec("pullback/Ant-v5", num_envs=8) is the same.
    """
    described = spec(name, on_failure=on_failure, **(physics or {}))
    given = {"autoreset_mode": autoreset_mode, **(vector_kwargs or {})}
    if vectorization_mode not in (None, "vector_entry_point"):
        return gymnasium.make_vec(described, num_envs, vectorization_mode=vectorization_mode, vector_kwargs=given, wrappers=list(wrappers), **arguments)

    def single():
        return functools.reduce(lambda env, wrapper: wrapper(env), wrappers, gymnasium.make(described, **arguments))
    together = PhysicsVector([single] * num_envs, **given)
    together.spec = copy.deepcopy(described)
    together.spec.kwargs.update(arguments, num_envs=num_envs)
    return together


for _name in [n for n, s in gymnasium.registry.items() if str(s.entry_point).startswith("gymnasium.envs.mujoco") and s.version == 5]:
    register(_name)
