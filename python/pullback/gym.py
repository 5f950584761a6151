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

from .errors import ArgumentError
from .model import load
from .state import State

# By MuJoCo's names; those of the second row are converted below.
_COPIED = ("xpos", "xquat", "xipos", "ximat", "geom_xpos", "geom_xmat", "site_xpos", "site_xmat", "subtree_com", "qfrc_bias", "qfrc_passive",
           "qfrc_actuator", "qfrc_constraint", "qacc", "ten_length", "ten_velocity", "actuator_length", "actuator_velocity", "actuator_force")
_CONTACT = ("contact_dist", "contact_pos", "contact_frame", "contact_geom", "contact_force")
_NAMES = (*_COPIED, "cvel", *_CONTACT)


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
    result: tuple

    def fits(self, state, ctrl, steps):
        return steps == self.steps and np.array_equal(self.ctrl, ctrl) and np.array_equal(self.before, state.flat)


class Physics:
    """What takes the place of mj_step, mj_forward and mj_rnePostConstraint in an environment; goes before its class."""

    options = {}

    def _initialize_simulation(self):
        model, data = super()._initialize_simulation()
        self.physics = _loaded(self.fullpath, repr(self.options), **self.options)
        self.physics_state = self.physics.init()
        self._ahead = None
        return model, data

    # ---- in place of MuJoCo's functions -----------------------------------------------------------------------------------
    def set_state(self, qpos, qvel):
        """Go to qpos (nq,) and qvel (nv,); time and activations stay."""
        assert qpos.shape == (self.model.nq,) and qvel.shape == (self.model.nv,)
        s = self.physics.init()
        s.time, s.qpos, s.qvel = self.data.time, qpos, qvel
        if self.model.na:
            s.act = self.data.act
        self.physics_state = s
        self._evaluate(0)
        self.data.qpos[:], self.data.qvel[:] = qpos, qvel

    def _step_mujoco_simulation(self, ctrl, n_frames):
        self.data.ctrl[:] = ctrl
        self._read_state()
        self._evaluate(n_frames)
        s = self.physics_state
        self.data.time, self.data.qpos[:], self.data.qvel[:] = s.time[0], s.qpos, s.qvel
        self.data.act[:] = s.act
        self._fill_bodies()

    def _read_state(self):
        """What the environment's code wrote into the data since the last step."""
        s, d = self.physics_state, self.data
        for name, value in (("time", d.time), ("qpos", d.qpos), ("qvel", d.qvel), ("act", d.act)):
            if not np.array_equal(getattr(s, name), np.atleast_1d(value)):
                setattr(s, name, value)

    def _evaluate(self, steps):
        if self._ahead and self._ahead.fits(self.physics_state, self.data.ctrl, steps):
            self.physics_state.flat[:], sensors, found = self._ahead.result
        else:
            sensors = np.zeros((1, self.physics.nsensordata))
            found, = self.physics._evaluate(1, self.physics_state.flat, np.ascontiguousarray(self.data.ctrl), sensors, steps, _NAMES)
        self._ahead = None
        self._fill(sensors.ravel(), {name: np.frombuffer(data).reshape(rows, cols) for name, (rows, cols, data) in zip(_NAMES, found)})

    def _fill(self, sensors, fields):
        d = self.data
        d.sensordata[:] = sensors
        for name in _COPIED:
            to = getattr(d, name)
            to[:] = fields[name].reshape(to.shape)
        # Frames of bodies, and velocities about the center of mass of the tree, as MuJoCo keeps them.
        d.xmat[:] = _matrices(d.xquat)
        center = d.subtree_com[self.model.body_rootid]
        d.cvel[:, :3], d.cvel[:, 3:] = fields["cvel"][:, :3], fields["cvel"][:, 3:] + np.cross(fields["cvel"][:, :3], center)
        d.cinert[:] = _inertias(self.model, d, center)
        self._contacts = {name: fields[name] for name in _CONTACT}

    def _fill_bodies(self):
        """External forces on bodies, as mj_rnePostConstraint sums them: applied ones and contacts', about the tree's center of mass."""
        d, m = self.data, self.model
        center = d.subtree_com[m.body_rootid]
        d.cfrc_ext[:, :3] = d.xfrc_applied[:, 3:] + np.cross(d.xipos - center, d.xfrc_applied[:, :3])
        d.cfrc_ext[:, 3:] = d.xfrc_applied[:, :3]
        d.cfrc_ext[0] = 0
        c = self._contacts
        for pos, frame, geoms, force in zip(c["contact_pos"], c["contact_frame"], c["contact_geom"].astype(int), c["contact_force"]):
            axes = frame.reshape(3, 3)
            f, t = force[:3] @ axes, force[3:] @ axes
            for sign, geom in ((-1, geoms[0]), (1, geoms[1])):
                body = m.geom_bodyid[geom]
                if body:
                    d.cfrc_ext[body, :3] += sign * (t + np.cross(pos - center[body], f))
                    d.cfrc_ext[body, 3:] += sign * f


def _matrices(q):
    """Rotation matrices of unit quaternions, (n, 9)."""
    w, x, y, z = q.T
    return np.stack([1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y), 2 * (x * y + w * z), 1 - 2 * (x * x + z * z),
                     2 * (y * z - w * x), 2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)], axis=1)


def _inertias(m, d, center):
    """MuJoCo's ten numbers of each body: inertia about the center of its tree, mass times the way from there, mass."""
    axes = d.ximat.reshape(-1, 3, 3)
    about = np.einsum("bij,bj,bkj->bik", axes, m.body_inertia, axes)
    way, mass = d.xipos - center, m.body_mass
    about += mass[:, None, None] * (np.einsum("bi,bi->b", way, way)[:, None, None] * np.eye(3) - np.einsum("bi,bj->bij", way, way))
    out = np.concatenate([about[:, [0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]], mass[:, None] * way, mass[:, None]], axis=1)
    out[0] = 0
    return out


# ---- making environments ------------------------------------------------------------------------------------------------------
@functools.cache
def _on_pullback(cls):
    if not issubclass(cls, MujocoEnv):
        raise ArgumentError(f"{cls.__name__} is not an environment of gymnasium.envs.mujoco")
    return type(cls.__name__, (Physics, cls), {"__module__": __name__, "__doc__": cls.__doc__})


def spec(name: str, **options: Any) -> EnvSpec:
    """Gymnasium's description of an environment by its name, with Pullback's physics in it: what gymnasium.make takes.

    options: those of pb.load. Raises ArgumentError for what is not one of gymnasium.envs.mujoco, gymnasium.error.Error for an unknown name.
    """
    found = copy.deepcopy(gymnasium.spec(name))
    creator = load_env_creator(found.entry_point) if isinstance(found.entry_point, str) else found.entry_point
    cls = _on_pullback(creator)
    found.entry_point = cls if not options else type(cls.__name__, (cls,), {"options": options, "__module__": __name__})
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
        flat, sensors = before.copy(), np.zeros((len(going), first.physics.nsensordata))
        found = first.physics._evaluate(len(going), flat, ctrl, sensors, first.frame_skip, _NAMES)
        for (e, _), *ahead, s, f, fields in zip(going, before, ctrl, sensors, flat, found):
            e._ahead = _Ahead(*ahead, e.frame_skip, (f, s, fields))


def make_vec(name: str, num_envs: int = 1, *, physics: dict[str, Any] | None = None, autoreset_mode: AutoresetMode = AutoresetMode.NEXT_STEP,
             **arguments: Any) -> PhysicsVector:
    """num_envs environments as one, stepped together in one call of the library; bit for bit as each alone.

    autoreset_mode: NEXT_STEP, SAME_STEP or DISABLED, as Gymnasium defines them; physics and arguments as of make.
    """
    described = spec(name, **(physics or {}))
    return PhysicsVector([lambda: gymnasium.make(described, **arguments)] * num_envs, autoreset_mode=autoreset_mode)
