"""Gymnasium's environments on Pullback against the same on MuJoCo; nothing of MuJoCo computes in ours."""
import copy
import pickle

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")
mujoco = pytest.importorskip("mujoco")
pytest.importorskip("imageio")
import pullback as pb  # noqa: E402
import pullback.gym as pg  # noqa: E402

NAMES = ["Ant-v5", "HalfCheetah-v5", "Hopper-v5", "Humanoid-v5", "HumanoidStandup-v5", "InvertedDoublePendulum-v5", "InvertedPendulum-v5",
         "Pusher-v5", "Reacher-v5", "Swimmer-v5", "Walker2d-v5"]
EXACT = {"options": {"tolerance": 0}}


def pair(name):
    ours, theirs = pg.make(name, physics=EXACT), gymnasium.make(name)
    theirs.unwrapped.model.opt.tolerance, theirs.unwrapped.model.opt.iterations = 0, 200
    return ours, theirs


def actions(env, seed):
    rng = np.random.default_rng(seed)
    while True:
        yield rng.uniform(env.action_space.low, env.action_space.high).astype(np.float32)


@pytest.mark.parametrize("name", NAMES)
def test_one_step_from_gymnasiums_states(name):
    ours, theirs = pair(name)
    assert np.allclose(ours.reset(seed=3)[0], theirs.reset(seed=3)[0], rtol=0, atol=1e-12)  # the same noise
    for k, action in zip(range(100), actions(theirs, 0)):
        a, b = ours.unwrapped.data, theirs.unwrapped.data
        a.time, a.qpos[:], a.qvel[:], a.act[:] = b.time, b.qpos, b.qvel, b.act
        found, expected = ours.step(action), theirs.step(action)
        np.testing.assert_allclose(found[0], expected[0], rtol=0, atol=1e-8)
        assert abs(found[1] - expected[1]) < 1e-8 and found[2:4] == expected[2:4]
        assert found[4].keys() == expected[4].keys()
        if expected[2] or expected[3]:
            ours.reset(seed=k), theirs.reset(seed=k)
    ours.close(), theirs.close()


@pytest.mark.parametrize("name", ["HalfCheetah-v5", "Hopper-v5", "InvertedDoublePendulum-v5", "Swimmer-v5"])
def test_steps_in_a_row(name):
    """As long as MuJoCo's own answer to 1e-13 at the start stays below a fifth of the tolerance."""
    compared = 0
    for seed in range(3):
        ours, theirs = pair(name)
        _, moved = pair(name)
        for env in (ours, theirs, moved):
            env.reset(seed=seed)
        moved.unwrapped.data.qpos[:] += 1e-13
        for _, action in zip(range(200), actions(theirs, seed)):
            found, expected, other = ours.step(action), theirs.step(action), moved.step(action)
            if np.abs(other[0] - expected[0]).max() > 2e-7 or expected[2]:
                break
            np.testing.assert_allclose(found[0], expected[0], rtol=0, atol=1e-6)
            compared += 1
    assert compared > 15


def test_nothing_of_mujoco_computes(monkeypatch):
    def no(*_, **__):
        raise AssertionError("MuJoCo was asked")
    for name in ("mj_step", "mj_forward", "mj_rnePostConstraint", "mj_step1", "mj_step2", "mj_kinematics", "mj_comPos"):
        monkeypatch.setattr(mujoco, name, no)
    for name in ("Ant-v5", "Reacher-v5"):
        env = pg.make(name)
        env.reset(seed=0)
        for _, action in zip(range(20), actions(env, 0)):
            env.step(action)
        vector = pg.make_vec(name, 2)
        vector.reset(seed=0)
        vector.step(vector.action_space.sample())


@pytest.mark.parametrize("mode", list(gymnasium.vector.AutoresetMode))
def test_vectors_are_single_environments_to_the_bit(mode):
    vector = pg.make_vec("Hopper-v5", 3, autoreset_mode=mode)
    single = gymnasium.vector.SyncVectorEnv([lambda: pg.make("Hopper-v5")] * 3, autoreset_mode=mode)
    a, b = vector.reset(seed=5)[0], single.reset(seed=5)[0]
    assert np.array_equal(a, b)
    rng, ended = np.random.default_rng(1), False
    for _ in range(60):
        action = rng.uniform(-1, 1, size=(3, 3)).astype(np.float32)
        found, expected = vector.step(action), single.step(action)
        for x, y in zip(found[:4], expected[:4]):
            assert np.array_equal(x, y)
        ended |= bool(expected[2].any())
        if mode == gymnasium.vector.AutoresetMode.DISABLED and expected[2].any():
            mask = {"reset_mask": expected[2]}
            assert np.array_equal(vector.reset(options=dict(mask))[0], single.reset(options=dict(mask))[0])
    assert ended


@pytest.mark.parametrize("name", ["Ant-v5", "Hopper-v5", "InvertedPendulum-v5"])
def test_the_checker_says_no_more_than_of_gymnasiums_own(name):
    import warnings

    from gymnasium.utils.env_checker import check_env

    def said(env):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            check_env(env.unwrapped, skip_render_check=True)
        return {str(w.message) for w in caught}
    assert said(pg.make(name)) <= said(gymnasium.make(name))


def test_gradients_of_a_step():
    env = pg.make("Hopper-v5").unwrapped
    env.reset(seed=0)
    model, state = env.physics, env.physics_state
    a, b = model.linearize(state, np.zeros(model.nu))
    assert a.shape == (12, 12) and b.shape == (12, 3) and np.abs(b).max() > 0


def test_environments_are_copied_and_pickled():
    """As Gymnasium's: made anew with the same arguments, and the same physics."""
    env = pg.make("Hopper-v5", physics={"options": {"tolerance": 1e-6}}, forward_reward_weight=2).unwrapped
    first = env.reset(seed=1)[0]
    for other in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        assert np.array_equal(other.reset(seed=1)[0], first) and other.physics.option["tolerance"] == 1e-6
        action = np.array([.3, -.2, .1], dtype=np.float32)
        env.reset(seed=1)
        for a, b in zip(other.step(action)[:4], env.step(action)[:4], strict=True):
            assert np.array_equal(a, b)


def test_others_are_refused():
    with pytest.raises(pb.ArgumentError, match="not an environment of gymnasium.envs.mujoco"):
        pg.make("CartPole-v1")


def test_ppo_learns_unchanged():
    """stable-baselines3's PPO as it comes."""
    ppo = pytest.importorskip("stable_baselines3").PPO
    from stable_baselines3.common.evaluation import evaluate_policy
    learner = ppo("MlpPolicy", pg.make("InvertedPendulum-v5"), seed=0)

    def value():
        return evaluate_policy(learner, pg.make("InvertedPendulum-v5"), n_eval_episodes=20, warn=False)[0]
    before = value()
    learner.learn(20000)
    assert value() > 3 * before
