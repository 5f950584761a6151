"""Gymnasium's environments on Pullback against the same on MuJoCo; nothing of MuJoCo computes in ours."""
import copy
import functools
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


def pair(name, sweeps=True):
    return pg.make(name, physics=EXACT), exact(gymnasium.make(name), sweeps)


def exact(env, sweeps):
    """Gymnasium's own environment with a solver that ends. Projected Gauss-Seidel (Humanoid) needs thousands of sweeps for that; without
    them Newton's method takes its place, to the same minimum."""
    option, kinds = env.unwrapped.model.opt, mujoco.mjtSolver
    option.tolerance, option.iterations = 0, 3000 if option.solver == kinds.mjSOL_PGS and sweeps else 200
    option.solver = option.solver if sweeps else kinds.mjSOL_NEWTON
    return env


def actions(env, seed):
    rng = np.random.default_rng(seed)
    while True:
        yield rng.uniform(env.action_space.low, env.action_space.high).astype(np.float32)


@pytest.mark.parametrize("name", NAMES)
def test_one_step_from_gymnasiums_states(name, long_run, figures):
    """From states that a run of Gymnasium's own meets; PB_LONG: 1 000 of them."""
    ours, theirs = pair(name)
    start = [env.reset(seed=3)[0] for env in (ours, theirs)]
    assert np.allclose(*start, rtol=0, atol=1e-12)  # the same noise
    worst, worst_reward, states = 0, 0, 1000 if long_run else 100
    for k, action in zip(range(states), actions(theirs, 0)):
        a, b = ours.unwrapped.data, theirs.unwrapped.data
        a.time, a.qpos[:], a.qvel[:], a.act[:] = b.time, b.qpos, b.qvel, b.act
        found, expected = ours.step(action), theirs.step(action)
        worst = max(worst, np.abs(found[0] - expected[0]).max())
        worst_reward = max(worst_reward, abs(found[1] - expected[1]))
        assert worst < 1e-8 and worst_reward < 1e-8 and found[2:4] == expected[2:4]
        assert found[4].keys() == expected[4].keys()
        if expected[2] or expected[3]:
            again = [env.reset(seed=k)[0] for env in (ours, theirs)]
            assert np.allclose(*again, rtol=0, atol=1e-12)
    figures(name, states=states, worst_observation=f"{worst:.1e}", worst_reward=f"{worst_reward:.1e}")
    ours.close(), theirs.close()


def by_search(env):
    """Whether a contact comes from MuJoCo's general search for convex shapes: to a tolerance, further contacts by trial turns."""
    plane, sphere, cylinder = (int(getattr(mujoco.mjtGeom, f"mjGEOM_{name}")) for name in ("PLANE", "SPHERE", "CYLINDER"))
    pairs = env.unwrapped.model.geom_type[env.unwrapped.data.contact.geom]
    return any(cylinder in pair and min(pair) not in (plane, sphere) for pair in pairs)


def run_beside(name, seed, steps):
    """A run beside MuJoCo's as long as that is firm: as long as two neighbours that start with velocities 1e-13 away give its
    observations within a fifth of the tolerance (not positions: Pusher starts on its limits), and no contact is searched for. Gives the
    steps compared, the largest difference, and what ended it."""
    (ours, theirs), others = pair(name, sweeps=False), [exact(gymnasium.make(name), sweeps=False) for _ in range(2)]
    rng = np.random.default_rng(seed)
    for env in (ours, theirs, *others):
        env.reset(seed=seed)
    for env in others:
        env.unwrapped.data.qvel[:] += 1e-13 * rng.choice([-1, 1], size=env.unwrapped.model.nv)
    worst = 0
    for k, action in zip(range(steps), actions(theirs, seed)):
        found, expected, *near = [env.step(action) for env in (ours, theirs, *others)]
        if not max(np.abs(n[0] - expected[0]).max() for n in near) <= 2e-7:
            return k, worst, "apart"
        if by_search(theirs):
            return k, worst, "search"
        worst = max(worst, np.abs(found[0] - expected[0]).max())
        assert worst < 1e-6 and found[2] == expected[2], (seed, k)
    return steps, worst, "whole"


@pytest.mark.parametrize("name", NAMES)
def test_steps_in_a_row(name, long_run, figures):
    """PB_LONG: 20 seeds and 200 steps instead of two and 40."""
    compared, worst, ends = zip(*(run_beside(name, seed, 200 if long_run else 40) for seed in range(20 if long_run else 2)))
    assert sum(compared) > 10 * len(compared)
    figures(name, runs=len(compared), whole=ends.count("whole"), apart=ends.count("apart"), search=ends.count("search"), steps_compared=sum(compared),
            shortest=min(compared), worst_in_a_row=f"{max(worst):.1e}")


def test_nothing_of_mujoco_computes(monkeypatch):
    def no(*_, **__):
        raise AssertionError("MuJoCo was asked")
    for name in ("mj_step", "mj_forward", "mj_rnePostConstraint", "mj_step1", "mj_step2", "mj_kinematics", "mj_comPos"):
        monkeypatch.setattr(mujoco, name, no)
    for name in NAMES:
        env = pg.make(name)
        env.reset(seed=0)
        for _, action in zip(range(5), actions(env, 0)):
            env.step(action)
    vector = pg.make_vec("Ant-v5", 2)
    vector.reset(seed=0)
    vector.step(vector.action_space.sample())


@pytest.mark.parametrize("name", NAMES)
def test_data_is_as_mujoco_leaves_it(name):
    """All fields that are filled, after a step (with RK4 those of its last stage), and where cameras and lights are in pictures."""
    ours, theirs = pair(name)
    for env in (ours, theirs):
        env.reset(seed=1)
        for _, action in zip(range(3), actions(env, 0)):
            env.step(action)
        mujoco.mj_camlight(env.unwrapped.model, env.unwrapped.data)
    rk4 = theirs.unwrapped.model.opt.integrator == mujoco.mjtIntegrator.mjINT_RK4
    copied = [field for field in pg._COPIED if not (rk4 and field == "qacc")]  # MuJoCo leaves the mean of the stages there
    for field in (*copied, "time", "qpos", "qvel", "ctrl", "sensordata", "xmat", "cvel", "cinert", "cfrc_ext", "cam_xpos", "cam_xmat", "light_xpos", "light_xdir"):
        a, b = (getattr(env.unwrapped.data, field) for env in (ours, theirs))
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8 * max(1, np.abs(b).max(initial=0)), err_msg=field)


def test_wrappers_and_arguments_are_gymnasiums():
    from gymnasium.wrappers import RecordEpisodeStatistics, TimeLimit
    env = RecordEpisodeStatistics(TimeLimit(pg.make("Hopper-v5", terminate_when_unhealthy=False, ctrl_cost_weight=.5), 7))
    same = RecordEpisodeStatistics(TimeLimit(gymnasium.make("Hopper-v5", terminate_when_unhealthy=False, ctrl_cost_weight=.5), 7))
    for e in (env, same):
        e.reset(seed=0)
    for _, action in zip(range(7), actions(env, 0)):
        found, expected = env.step(action), same.step(action)
    assert found[3] and found[4]["episode"]["l"] == 7 and abs(found[4]["episode"]["r"] - expected[4]["episode"]["r"]) < 1e-5
    vector = pg.make_vec("Ant-v5", 2, ctrl_cost_weight=3., max_episode_steps=2)
    assert vector.envs[1].unwrapped._ctrl_cost_weight == 3
    vector.reset(seed=0)
    assert [vector.step(vector.action_space.sample())[3].tolist() for _ in range(2)] == [[False] * 2, [True] * 2]


OWN = """<mujoco><option timestep="0.01"/><worldbody><geom type="plane" size="5 5 1"/><body pos="0 0 1"><joint name="j" axis="0 1 0"/>
<geom type="capsule" fromto="0 0 0 0 0 -.5" size=".03"/></body></worldbody><actuator><motor joint="j" ctrlrange="-1 1"/></actuator></mujoco>"""


class Own(gymnasium.envs.mujoco.MujocoEnv):
    """A user's environment over a file of his own."""
    metadata = {"render_modes": ["human", "rgb_array", "depth_array", "rgbd_tuple"], "render_fps": 50}

    def __init__(self, path, **more):
        super().__init__(path, 2, gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64), **more)

    def step(self, action):
        self.do_simulation(action, self.frame_skip)
        return self._seen(), -float(self.data.qpos[0] ** 2), False, False, {}

    def reset_model(self):
        self.set_state(self.init_qpos + self.np_random.uniform(size=1), self.init_qvel)
        return self._seen()

    def _seen(self):
        return np.concatenate([self.data.qpos, self.data.qvel])


def test_own_classes_and_files(tmp_path):
    (tmp_path / "own.xml").write_text(OWN)
    gymnasium.register("Own-v0", Own, kwargs={"path": str(tmp_path / "own.xml")})
    try:
        ours, theirs = pair("Own-v0")
        for env in (ours, theirs):
            env.reset(seed=0)
        for _, action in zip(range(50), actions(theirs, 0)):
            np.testing.assert_allclose(ours.step(action)[0], theirs.step(action)[0], rtol=0, atol=1e-10)
        (tmp_path / "own.xml").write_text(OWN.replace("<mujoco>", '<mujoco><option solver="CG"><flag island="disable" nativeccd="disable"/></option>').replace("0.01", "-1"))
        with pytest.raises((pb.Error, ValueError)):
            pg.make("Own-v0")
    finally:
        del gymnasium.registry["Own-v0"]


@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
def test_workers(context):
    workers = gymnasium.vector.AsyncVectorEnv([functools.partial(pg.make, "Hopper-v5")] * 2, context=context)
    here = pg.make_vec("Hopper-v5", 2)
    assert np.array_equal(workers.reset(seed=1)[0], here.reset(seed=1)[0])
    action = np.full((2, 3), .1, np.float32)
    for found, expected in zip(workers.step(action)[:4], here.step(action)[:4]):
        assert np.array_equal(found, expected)
    workers.close()


def test_a_vector_is_one_call(monkeypatch):
    vector = pg.make_vec("Hopper-v5", 4)
    vector.reset(seed=0)
    physics, calls = type(vector.envs[0].unwrapped.physics), []
    plain = physics._mirror
    monkeypatch.setattr(physics, "_mirror", lambda self, flat, *rest: calls.append(len(flat)) or plain(self, flat, *rest))
    vector.step(np.zeros((4, 3), np.float32))
    assert calls == [4]


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


@pytest.mark.parametrize("name", NAMES)
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


def test_ppo_is_the_same_by_its_seed():
    ppo = pytest.importorskip("stable_baselines3").PPO
    weights = [next(ppo("MlpPolicy", pg.make("InvertedPendulum-v5"), seed=3, n_steps=256).learn(256).policy.parameters()).detach().numpy() for _ in range(2)]
    assert np.array_equal(*weights)
