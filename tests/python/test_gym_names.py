"""Gymnasium's interfaces: registered names, vectors with their arguments, descriptions in JSON, environments of one's own."""
import pickle

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")
pytest.importorskip("mujoco")
pytest.importorskip("imageio")
from gymnasium.envs.registration import EnvSpec  # noqa: E402
from gymnasium.utils.env_checker import check_env  # noqa: E402

import pullback as pb  # noqa: E402
import pullback.gym as pg  # noqa: E402

NAMES = ["Ant", "HalfCheetah", "Hopper", "Humanoid", "HumanoidStandup", "InvertedDoublePendulum", "InvertedPendulum", "Pusher", "Reacher", "Swimmer",
         "Walker2d"]
POLE = """<mujoco><option timestep=".01"/><worldbody><body><joint name="slide" type="slide" axis="1 0 0" damping=".1"/><geom size=".1" mass="1"/>
<body><joint name="pole" axis="0 1 0" damping=".01"/><geom type="capsule" fromto="0 0 0 0 0 .5" size=".03" mass=".2"/></body></body></worldbody>
<actuator><motor joint="slide" ctrlrange="-3 3"/></actuator></mujoco>"""


class Odd(gymnasium.envs.mujoco.hopper_v5.HopperEnv):
    """One of a user's own."""

    def step(self, action):
        observation, reward, *rest = super().step(action)
        return observation, 2 * reward, *rest


def balanced(before, action, after):
    return float(np.cos(after.qpos[1])) - .01 * float(action @ action)


def same(a, b, steps=5):
    """Two environments with the same observations and rewards, to the bit."""
    a.reset(seed=3), b.reset(seed=3)
    a.action_space.seed(0)
    for _ in range(steps):
        action = a.action_space.sample()
        x, y = a.step(action), b.step(action)
        assert np.array_equal(x[0], y[0]) and np.array_equal(x[1], y[1])


@pytest.mark.parametrize("name", NAMES)
def test_registered_names(name):
    env = gymnasium.make(f"pullback/{name}-v5")
    assert env.unwrapped.physics.nq == env.unwrapped.model.nq and env.spec.id == f"pullback/{name}-v5"
    same(env, pg.make(f"{name}-v5"))
    again = gymnasium.make(EnvSpec.from_json(env.spec.to_json()))
    assert again.spec.max_episode_steps == gymnasium.spec(f"{name}-v5").max_episode_steps
    same(env, again)


def test_arguments_come_through():
    env = gymnasium.make("pullback/Ant-v5", ctrl_cost_weight=.1, max_episode_steps=3, physics={"options": {"tolerance": 1e-3}}, on_failure="raise")
    assert env.unwrapped.physics.option["tolerance"] == 1e-3 and env.unwrapped._ctrl_cost_weight == .1 and env.unwrapped.on_failure == "raise"
    env.reset(seed=0)
    assert [env.step(np.zeros(8))[3] for _ in range(3)] == [False, False, True]
    described = pg.spec("Ant-v5", options={"tolerance": 1e-3})
    assert EnvSpec.from_json(described.to_json()) == described
    with pytest.raises(pb.ArgumentError, match="on_failure: expected terminate or raise"):
        gymnasium.make("pullback/Ant-v5", on_failure="stop")


def test_vectors():
    ours, theirs = pg.make_vec("Hopper-v5", num_envs=3), gymnasium.make_vec("pullback/Hopper-v5", num_envs=3)
    assert type(theirs) is pg.PhysicsVector and ours.spec.id == theirs.spec.id == "pullback/Hopper-v5" and ours.spec.kwargs["num_envs"] == 3
    same(ours, theirs)
    sync = pg.make_vec("Hopper-v5", num_envs=3, vectorization_mode="sync")
    assert type(sync) is gymnasium.vector.SyncVectorEnv
    same(ours, sync)
    aside = pg.make_vec("Hopper-v5", num_envs=3, vectorization_mode="async")
    same(ours, aside, 2)
    aside.close()
    scaled = lambda env: gymnasium.wrappers.RescaleAction(env, -.5, .5)
    wrapped, single = pg.make_vec("Hopper-v5", num_envs=2, wrappers=[scaled], vector_kwargs={"copy": False}), scaled(pg.make("Hopper-v5"))
    assert wrapped.single_action_space.high[0] == np.float32(.5) and wrapped.copy is False
    wrapped.reset(seed=[3, 4]), single.reset(seed=3)
    action = np.array([.1, -.2, .3], dtype=np.float32)
    assert np.array_equal(wrapped.step(np.stack([action, action]))[0][0], single.step(action)[0])
    ended = gymnasium.make_vec("pullback/Hopper-v5", num_envs=2, max_episode_steps=2, autoreset_mode=gymnasium.vector.AutoresetMode.DISABLED)
    ended.reset(seed=0)
    assert [ended.step(np.zeros((2, 3)))[3].tolist() for _ in range(2)] == [[False, False], [True, True]]


def test_classes_and_modules():
    same(pg.make(Odd), pg.make(Odd))
    hopper, odd = pg.make("Hopper-v5"), pg.make(Odd)
    hopper.reset(seed=0), odd.reset(seed=0)
    assert odd.step(np.ones(3))[1] == 2 * hopper.step(np.ones(3))[1]
    name = pg.register(Odd)
    try:
        assert name == "pullback/Odd-v0" and gymnasium.make(name).unwrapped.physics.nq == 6
        assert gymnasium.make_vec(name, num_envs=2).reset(seed=0)[0].shape == (2, 11)
    finally:
        gymnasium.registry.pop(name)
    same(pg.make("gymnasium.envs.mujoco:Hopper-v5"), hopper)
    same(pg.make("pullback/Hopper-v5"), hopper)
    with pytest.raises(pb.ArgumentError, match="is not an environment of gymnasium.envs.mujoco"):
        pg.make("CartPole-v1")


# ---- one's own --------------------------------------------------------------------------------------------------------------
def pole(**more):
    return pg.World(pb.loads(POLE), balanced, terminated=lambda s: abs(s.qpos[1]) > .5, noise=.02, frame_skip=2, **more)


@pytest.mark.filterwarnings("ignore:.*Box observation space")
def test_a_world_of_ones_own():
    env = pole(max_steps=20)
    check_env(env, skip_render_check=True)
    assert env.action_space.high == np.float32(3) and env.observation_space.shape == (4,)
    first, _ = env.reset(seed=5)
    assert np.abs(first).max() <= .02 and np.array_equal(env.reset(seed=5)[0], first)
    state = env.state.copy()
    seen, reward, ended, cut, info = env.step([9.])
    expected = env.model.step(env.model.step(state, [3.]), [3.])
    assert np.array_equal(seen, np.concatenate([expected.qpos, expected.qvel])) and reward == balanced(state, np.array([3.]), expected)
    assert not ended and not cut and info == {}
    results = [env.step([3.]) for _ in range(60)]
    assert any(r[2] for r in results) and results[18][3] and not results[17][3]


def test_a_world_that_fails_ends():
    env = pole()
    env.reset(seed=0)
    env.state.qvel[:] = 1e11
    before = env.observation()
    seen, reward, ended, _, info = env.step([0.])
    assert ended and reward == 0 and "beyond bounds: q" in info["failed"] and np.array_equal(seen, before)
    assert np.isfinite(env.reset(seed=0)[0]).all()


def test_deformables_and_their_controls():
    body = {"name": "gel", "mesh": {"box": {"size": [.2, .2, .2], "cells": [2, 2, 2]}}, "pos": [0, 0, .5],
            "energies": [{"energy": "stvk", "parameters": {"young": 1e5, "poisson": .3, "density": 1000}}]}
    model = pb.loads(POLE, deformables={"bodies": [body]})
    env = pg.World(model, lambda before, action, after: float(after.points.reshape(-1, 3)[:, 2].mean()), frame_skip=5,
                   begin=lambda rng: model.integrate(model.init(), .001 * rng.normal(size=len(model.tangent_names))))
    seen, _ = env.reset(seed=0)
    assert seen.shape == (2 + 2 + 6 * model.npoint,)
    heights = [env.step(np.zeros(model.nu))[1] for _ in range(3)]
    assert heights[0] > heights[1] > heights[2]


def test_what_does_not_fit_is_said():
    env = pole()
    env.reset(seed=0)
    for call, said in ((lambda: env.step([0., 1.]), "action: expected shape"), (lambda: env.step([np.nan]), "action: entry"),
                       (lambda: pg.World(pb.loads(POLE), None), "reward: expected a function"), (lambda: pole(render_mode="human"), "render_mode"),
                       (lambda: pole(observe=3), "observe: expected a function"), (lambda: pole(max_steps=0), "max_steps"),
                       (lambda: pole(begin=lambda rng: 0).reset(), "begin: expected a State")):
        with pytest.raises(pb.ArgumentError, match=said):
            call()
    assert pickle.loads(pickle.dumps(pb.loads(POLE))) == env.model


@pytest.mark.filterwarnings("ignore")
def test_training_by_another_library():
    ppo = pytest.importorskip("stable_baselines3").PPO
    for env in (pole(max_steps=50), gymnasium.make("pullback/Hopper-v5"), pg.make("Reacher-v5")):
        assert ppo("MlpPolicy", env, n_steps=64, batch_size=32, n_epochs=1, device="cpu", seed=0).learn(128).num_timesteps >= 128
