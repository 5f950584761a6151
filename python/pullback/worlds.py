"""An environment of one's own: a model, a reward, and nothing of MuJoCo's."""
from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

try:
    import gymnasium
except ImportError as error:
    raise ImportError("pullback.gym needs Gymnasium and MuJoCo: pip install 'pullback[gym]'") from error

from .arrays import real, whole, words
from .errors import ArgumentError, CapacityError, StepError
from .model import Model, load
from .state import State

if TYPE_CHECKING:
    from .arrays import Array

_BOUND = 1e10  # MuJoCo's, and that of rollouts
_SEEN = ("qpos", "qvel", "act", "points", "point_velocity")  # of a state, as far as the model has them


def _ranges(model):
    """Least and greatest control of each actuator; without bounds where the model has none."""
    limited = model._field("actuator_ctrllimited").astype(bool) if model.nu else np.zeros(0, bool)
    bounds = np.tile([-np.inf, np.inf], (model.nu, 1))
    bounds[:len(limited)][limited] = model.params["actuator_ctrlrange"][limited]
    return bounds.T


class World(gymnasium.Env[Any, Any]):
    """A model as an environment of Gymnasium: controls go in, what is seen of the state and a reward come out. Deformables and policies included.

    model       a Model, or the path of one
    reward      reward(before, action, after): a number, of the State before the action and the one after it
    observe     observe(state): an array; None: qpos, qvel, act, and of deformables points and their velocities, one after the other
    terminated  terminated(state): whether the episode ends there; None: never
    begin       begin(rng): the State that an episode begins in; None: the model's, moved by `noise`
    noise       half width of the uniform noise of positions and velocities at the start, in their units (rotations rad)
    frame_skip  steps of the model for one action

    Actions are controls, within the actuators' ranges. A step that fails (the state grows beyond bounds) ends the episode: terminated, with
    reward 0, the observation before it and the reason in info["failed"]. The state is env.state, to be read and written; the model env.model.
    Episodes end by max_steps, or by gymnasium.make's max_episode_steps where the environment is registered (truncated).
    """

    metadata = {"render_modes": []}

    def __init__(self, model: Model | str | os.PathLike[str], reward: Callable[[State, Array, State], float], *,
                 observe: Callable[[State], Any] | None = None, terminated: Callable[[State], bool] | None = None,
                 begin: Callable[[np.random.Generator], State] | None = None, noise: float = 0.0, frame_skip: int = 1,
                 max_steps: int | None = None, render_mode: str | None = None) -> None:
        for name, function in (("reward", reward), ("observe", observe), ("terminated", terminated), ("begin", begin)):
            if not callable(function) and (function is not None or name == "reward"):
                raise ArgumentError(f"{name}: expected a function, found {function!r}")
        if render_mode is not None:
            raise ArgumentError(f"render_mode: there is none but None, found {render_mode!r}: Model.rollout(...).save draws a page")
        self.model = model if isinstance(model, Model) else load(model)
        self.reward, self._observe, self._terminated, self._begin, self.noise = reward, observe, terminated, begin, float(noise)
        self.frame_skip, self.max_steps = whole(frame_skip, "frame_skip", 1), None if max_steps is None else whole(max_steps, "max_steps", 1)
        self.state, self.steps = self.model.init(), 0
        self._bounds = _ranges(self.model)
        self.action_space = gymnasium.spaces.Box(*self._bounds.astype(np.float32), dtype=np.float32)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, self.observation().shape, np.float64)

    def _check(self, state):
        """Raises StepError for a state beyond the bound of rollouts."""
        for name in _SEEN:
            if name in self.model._slots and not (size := np.abs(getattr(state, name)).max(initial=0)) <= _BOUND:
                raise StepError(f"the state grows beyond bounds: {name} is {size:.1e} in size at time {state.time[0]:.4g}")

    def observation(self) -> Array:
        """What is seen of the state now."""
        s = self.state
        if self._observe is None:
            return np.concatenate([getattr(s, name) for name in _SEEN if name in self.model._slots])
        return np.array(real(self._observe(s), "observe"))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """The beginning of an episode: (observation, {})."""
        super().reset(seed=seed, options=options)
        self.steps, rng = 0, self.np_random
        if self._begin is not None:
            begun = self._begin(rng)
            if not isinstance(begun, State) or begun.batch is not None or len(begun.flat) != self.model._size:
                raise ArgumentError(f"begin: expected a State of the model, of one world, found {begun!r}")
            self.state = begun.copy()
        else:
            way = np.zeros(len(self.model.tangent_names))
            way[:2 * self.model.nv] = rng.uniform(-self.noise, self.noise, 2 * self.model.nv) if self.noise else 0
            self.state = self.model.integrate(self.model.init(), way)
        return self.observation(), {}

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """frame_skip steps under an action: observation, reward, terminated, truncated, info. Raises ArgumentError for what is no action."""
        ctrl = real(action, "action")
        if ctrl.shape != (self.model.nu,):
            raise ArgumentError(f"action: expected shape {words((self.model.nu,))}, found {words(ctrl.shape)}")
        ctrl = np.clip(ctrl, *self._bounds)
        before, after = self.state, self.state.copy()
        self.steps += 1
        truncated = self.max_steps is not None and self.steps >= self.max_steps
        try:
            for _ in range(self.frame_skip):
                self.model.step_into(after, ctrl)
                self._check(after)
        except (StepError, CapacityError) as error:
            return self.observation(), 0.0, True, truncated, {"failed": str(error)}
        self.state = after
        return self.observation(), float(self.reward(before, ctrl, after)), bool(self._terminated and self._terminated(after)), truncated, {}
