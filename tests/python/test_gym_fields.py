"""Every field of MuJoCo's model, option and data is moved in turn in an environment of Gymnasium: the motion follows MuJoCo's, or an error
names the field. The world of moved_fields.py; nothing of MuJoCo computes in ours."""
import copy
import os
import re

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")
mujoco = pytest.importorskip("mujoco")
pytest.importorskip("imageio")
import pullback as pb  # noqa: E402
import pullback.gym as pg  # noqa: E402
from conftest import ROOT  # noqa: E402
from moved_fields import WORLD, move  # noqa: E402

STEPS = 8
ALWAYS = {"body_mass", "body_inertia", "geom_friction", "dof_damping", "dof_armature", "actuator_gear", "gravity", "timestep", "xfrc_applied",
          "qfrc_applied", "mocap_pos", "mocap_quat", "jnt_range", "jnt_stiffness", "actuator_gainprm", "actuator_biasprm", "actuator_ctrlrange",
          "actuator_forcerange", "body_pos", "body_quat", "site_pos", "tendon_stiffness", "wind", "density", "eq_data", "dof_frictionloss"}
# What a step reads of the data; all else a step writes, and what stands there before has no effect.
INPUTS = ("ctrl", "qfrc_applied", "xfrc_applied", "mocap_pos", "mocap_quat", "qpos", "qvel", "act", "time", "eq_active", "qacc_warmstart", "userdata")


class Moved(gymnasium.envs.mujoco.MujocoEnv):
    metadata = {"render_modes": ["human", "rgb_array", "depth_array", "rgbd_tuple"], "render_fps": 125}

    def __init__(self, path, **more):
        super().__init__(path, 2, None, **more)

    def _set_action_space(self):
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (self.model.nq + self.model.nv + self.model.na,), np.float64)
        self.action_space = gymnasium.spaces.Box(-2, 2, (self.model.nu,), np.float64)
        return self.action_space

    def step(self, action):
        self.do_simulation(action, self.frame_skip)
        return self._get_obs(), 0., False, False, {}

    def reset_model(self):
        self.set_state(self.init_qpos, .3 * np.random.default_rng(1).uniform(-1, 1, self.model.nv))
        return self._get_obs()

    def _get_obs(self):
        return np.concatenate([self.data.qpos, self.data.qvel, self.data.act])


@pytest.fixture(scope="module", autouse=True)
def registered(tmp_path_factory):
    path = tmp_path_factory.mktemp("moved") / "moved.xml"
    path.write_text(WORLD)
    gymnasium.register("Moved-v0", Moved, kwargs={"path": str(path)})
    yield
    del gymnasium.registry["Moved-v0"]


def ours():
    env = pg.make("Moved-v0", physics={"options": {"tolerance": 0}}, on_failure="raise").unwrapped
    env.reset(seed=0)
    return env


def theirs():
    env = gymnasium.make("Moved-v0").unwrapped
    env.model.opt.tolerance, env.model.opt.iterations, env.model.opt.ls_iterations = 0, 200, 200
    env.reset(seed=0)
    return env


def run(env, steps=STEPS):
    rng = np.random.default_rng(2)
    for _ in range(steps):
        found = env.step(rng.uniform(0, 1.4, env.model.nu))[0]
    return found


def fields(of, array=True):
    values = {n: getattr(of, n) for n in dir(of) if not n.startswith("_")}
    return sorted(n for n, v in values.items() if (isinstance(v, np.ndarray) and v.size > 0 if array else isinstance(v, (int, float))))


def documented():
    """Patterns of docs/python.md: fields that have no counterpart."""
    with open(os.path.join(ROOT, "docs", "python.md"), encoding="utf-8") as f:
        text = f.read()
    listed = re.search(r"<!-- without a counterpart -->(.*?)<!-- until here -->", text, re.S).group(1)
    return [re.compile(p.replace("*", ".*")) for p in re.findall(r"`([^`]+)`", listed)]


def check(key, change, still, refusals, steps=STEPS):
    """One field: 'follows' (with a motion that changed or not), or 'refused'."""
    env, name = ours(), key.split()[0]
    change(env)
    try:
        found = run(env, steps)
    except pb.Error as error:
        assert isinstance(error, (pb.UnsupportedError, pb.InputError)) and name in str(error), f"{key}: {error}"
        with pytest.raises(type(error)):  # again and again, until it is taken back
            env.step(np.zeros(env.model.nu))
        refusals.append((name, str(error)))
        return "refused"
    other = theirs()
    change(other)
    reference = run(other, steps)
    off = np.abs(found - reference).max()
    assert off < 1e-6, f"{key}: {off:.2g} off MuJoCo's, which moved by {np.abs(reference - still).max():.2g}"
    return "moves" if np.abs(found - still).max() > 1e-9 else "stays"


def test_every_field_of_the_model():
    still, refusals, came = run(ours()), [], {}
    assert np.abs(run(theirs()) - still).max() < 1e-11
    patterns = documented()
    for name in fields(theirs().model):
        def change(env, name=name):
            move(name, getattr(env.model, name))
            if name in ("body_mass", "body_subtreemass"):  # as MuJoCo's documentation asks after masses changed
                mujoco.mj_setConst(env.model, mujoco.MjData(env.model))
        came[name] = check(name, change, still, refusals)
    assert {n: how for n, how in came.items() if n in ALWAYS and how != "moves"} == {}
    assert sum(how == "moves" for how in came.values()) > 55, [n for n, how in came.items() if how == "moves"]
    for name, text in refusals:
        assert any(p.fullmatch(name) for p in patterns) or "takes no notice" in text or "beyond the bounds" in text, f"{name} is not documented: {text}"


def test_every_option():
    still, refusals, came = run(ours()), [], {}
    option = theirs().model.opt
    words = {"integrator": (0, 1, 2), "cone": (0, 2), "solver": (0, 1, 3), "disableflags": [1 << k for k in range(20)], "enableflags": [1 << k for k in range(8)]}
    for name in fields(option) + fields(option, array=False):
        for value in words.get(name, [None]):
            if name == "tolerance":
                continue  # of the search: below

            def change(env, name=name, value=value):
                now = getattr(env.model.opt, name)
                if isinstance(now, np.ndarray):
                    move(name, now)
                else:
                    setattr(env.model.opt, name, value if value is not None else now + 1 if isinstance(now, int) else 1.03 * now if now else .01)
                    env.model.opt.iterations = 20000 if name == "solver" else env.model.opt.iterations  # sweeps until they arrive
            key = name if value is None else f"{name} {value}"
            came[key] = check(key, change, still, refusals)
    assert {came["gravity"], came["timestep"], came["wind"], came["integrator 0"], came["integrator 1"], came["cone 0"]} == {"moves"}, came
    assert came["integrator 2"] == came["cone 2"] == came["solver 0"] == came["solver 3"] == "refused"
    assert sum(how == "moves" for how in came.values()) > 15, came

    def sweeps(env):
        env.model.opt.cone, env.model.opt.solver, env.model.opt.iterations = 0, 0, 20000
    assert check("solver", sweeps, still, refusals) == "moves"  # as the cone does
    env = ours()
    env.model.opt.tolerance *= 2
    assert env.physics.option["tolerance"] == env.model.opt.tolerance


def test_every_field_of_the_data():
    """Inputs act as in MuJoCo, at each step anew; what a step writes may hold anything before."""
    still, refusals, came = run(ours()), [], {}
    for name in fields(theirs().data) + ["time"]:
        env = ours()

        def change(env, name=name):
            value = getattr(env.data, name)
            if name == "time":
                env.data.time = 1.
            elif name in ("xfrc_applied", "qfrc_applied"):
                value += np.random.default_rng(3).uniform(-1, 1, value.shape)
            elif name == "qpos":
                value[18:22] += .01
            else:
                move(name, value)
        if name in INPUTS:
            came[name] = check(name, change, still, refusals)
        else:
            change(env)
            assert np.array_equal(run(env), still), name
    assert {came[n] for n in ("qfrc_applied", "xfrc_applied", "mocap_pos", "mocap_quat", "qpos", "qvel", "act")} == {"moves"}, came
    assert [n for n, _ in refusals] == ["eq_active"]


def test_changes_during_an_episode():
    """Randomized, pushed and led at each step, and taken back: as MuJoCo's, and as never changed."""
    def episode(env):
        rng, found = np.random.default_rng(4), []
        friction, mass = env.model.geom_friction.copy(), env.model.body_mass.copy()
        for k in range(12):
            env.model.geom_friction[:, 0] = friction[:, 0] * rng.uniform(.8, 1.2)
            env.model.body_mass[:] = mass * rng.uniform(.9, 1.1)
            mujoco.mj_setConst(env.model, mujoco.MjData(env.model))
            env.model.opt.gravity[2] = -9.81 - .1 * k
            env.data.xfrc_applied[1, :3] = rng.uniform(-1, 1, 3)
            env.data.mocap_pos[0] += [.002, 0, .001]
            found.append(env.step(rng.uniform(0, 1, env.model.nu))[0])
        return np.array(found)
    np.testing.assert_allclose(episode(ours()), episode(theirs()), rtol=0, atol=1e-8)
    env = ours()
    before = env.physics
    env.model.body_inertia *= 2
    assert env.physics is not before and np.array_equal(env.physics.params["body_inertia"], env.model.body_inertia)
    env.model.body_inertia /= 2
    assert np.array_equal(env.physics.params["body_inertia"], before.params["body_inertia"])
    assert np.array_equal(run(env), run(ours()))


def test_masses_without_setconst_are_those_of_mujoco():
    """Of bodies that it calls simple MuJoCo keeps the mass matrix until mj_setConst; gravity takes the new mass at once."""
    names = {"integrator": mujoco.mjtIntegrator.mjINT_EULER}

    def falling(env):
        env.model.opt.integrator = int(names["integrator"])
        env.model.body_mass[:] *= 3
        env.model.dof_armature[:] += .01
        return run(env)
    np.testing.assert_allclose(falling(ours()), falling(theirs()), rtol=0, atol=1e-9)
    env = ours()
    env.model.body_mass[:] *= 3
    with pytest.raises(pb.UnsupportedError, match="body_mass was changed.*mj_setConst"):
        env.step(np.zeros(5))


def test_what_comes_later_rules():
    """A model that is put in place acts as it is, whatever was written before; entries written after it act, the file's own value too."""
    env = pg.make("Hopper-v5").unwrapped
    env.reset(seed=0)
    own = np.array(env.physics.params["dof_damping"])
    env.model.dof_damping[:] = 2 * own
    assert np.array_equal(env.physics.params["dof_damping"], 2 * own)
    env.physics = env.physics.with_params({"dof_damping": 5 * own, "geom_friction": 2 * env.physics.params["geom_friction"]})
    friction = np.array(env.physics.params["geom_friction"])
    env.step(np.zeros(3))
    assert np.array_equal(env.physics.params["dof_damping"], 5 * own)
    env.model.dof_damping[3:] = own[3:]
    env.step(np.zeros(3))
    assert np.array_equal(env.physics.params["dof_damping"], np.concatenate([5 * own[:3], own[3:]])) and np.array_equal(env.physics.params["geom_friction"], friction)
    env.model.opt.gravity[2] = -3
    assert env.physics.params["gravity"][2] == -3
    env.model.opt.integrator = int(mujoco.mjtIntegrator.mjINT_EULER)
    with pytest.raises(pb.UnsupportedError, match="model.opt.integrator was changed, but the environment's physics are not those of its file"):
        env.step(np.zeros(3))


def test_masses_before_and_after_another_model():
    """What MuJoCo keeps of its mass matrix counts once, in the model that was put in place."""
    def falling(env, between):
        env.model.opt.integrator = int(mujoco.mjtIntegrator.mjINT_EULER)
        env.model.body_mass[:] *= 3
        between(env)
        env.model.body_mass[:] *= .5
        return run(env)
    np.testing.assert_allclose(falling(ours(), lambda e: setattr(e, "physics", e.physics)), falling(theirs(), lambda e: None), rtol=0, atol=1e-9)


def test_worlds_with_physics_of_their_own_move_as_singly(monkeypatch):
    """By MuJoCo's model, by another model, by wrenches: to the bit, and worlds that share physics in one call."""
    def change(k, env):
        u = env.unwrapped
        if k == 1:
            u.model.geom_friction[:, 0] *= .3
            u.model.body_inertia[:] *= 2
        elif k == 2:
            u.physics = u.physics.with_params({"dof_damping": 5 * u.physics.params["dof_damping"]})
        elif k == 3:
            u.data.xfrc_applied[1, :3] = [5, 0, 1]
        elif k == 4:
            u.model.opt.timestep *= .5
    vector = pg.make_vec("Hopper-v5", num_envs=6)
    single = [pg.make("Hopper-v5") for _ in range(6)]
    vector.reset(seed=0)
    for k, env in enumerate(single):
        env.reset(seed=k)
        change(k, env)
        change(k, vector.envs[k])
    rng, calls = np.random.default_rng(0), []
    plain = pb.Model._mirror
    monkeypatch.setattr(pb.Model, "_mirror", lambda self, flat, *rest: calls.append(len(flat)) or plain(self, flat, *rest))
    for _ in range(8):
        action = rng.uniform(-1, 1, (6, 3)).astype(np.float32)
        calls.clear()
        seen = vector.step(action)[0]
        assert sorted(calls) == [1, 1, 1, 3]
        alone = [env.step(a)[0] for env, a in zip(single, action, strict=True)]
        assert np.array_equal(seen, alone)
    assert len({row.tobytes() for row in seen}) == 6


class Within(Moved):
    """Its step changes the world before it lets time go on, by what it draws."""

    def step(self, action):
        way = self.np_random.uniform(-1, 1, 3)
        if self.np_random.uniform() < .4:
            self.data.xfrc_applied[1, :3] = way
        elif self.np_random.uniform() < .3:
            self.data.mocap_pos[0] += .001 * way
        else:
            self.model.opt.gravity[:2] = way[:2]
            self.model.geom_friction[:, 0] *= 1 + .1 * way[2]
        return super().step(action)


def test_physics_that_change_within_a_step():
    """What a vector computed ahead is not taken where the environment's own code changed something since."""
    gymnasium.register("Within-v0", Within, kwargs=gymnasium.registry["Moved-v0"].kwargs)
    try:
        vector, single = pg.make_vec("Within-v0", 3), [pg.make("Within-v0") for _ in range(3)]
        vector.reset(seed=0)
        for k, env in enumerate(single):
            env.reset(seed=k)
        for k in range(8):
            action = np.full((3, 5), .1 * k)
            assert np.array_equal(vector.step(action)[0], [env.step(a)[0] for env, a in zip(single, action, strict=True)])
    finally:
        del gymnasium.registry["Within-v0"]


def test_a_world_that_diverges_is_terminated():
    vector = pg.make_vec("Ant-v5", 4, autoreset_mode=gymnasium.vector.AutoresetMode.DISABLED)
    same = pg.make_vec("Ant-v5", 4, autoreset_mode=gymnasium.vector.AutoresetMode.DISABLED)
    vector.reset(seed=0), same.reset(seed=0)
    u = vector.envs[2].unwrapped
    u.set_state(u.init_qpos, np.where(np.arange(u.model.nv) == 6, 1e12, 0.))
    action = np.full((4, 8), .1, np.float32)
    seen, reward, terminated, truncated, info = vector.step(action)
    other = same.step(action)
    assert terminated.tolist() == [False, False, True, False] and not truncated.any() and reward[2] == 0
    assert "mass matrix" in info["failed"][2] and info["_failed"].tolist() == [False, False, True, False] and np.isfinite(seen).all()
    rest = [0, 1, 3]
    assert np.array_equal(seen[rest], other[0][rest]) and np.array_equal(reward[rest], other[1][rest])
    mask = np.array([False, False, True, False])
    assert np.isfinite(vector.reset(options={"reset_mask": mask})[0]).all() and not vector.step(action)[2].any()

    strict = pg.make("Ant-v5", on_failure="raise")
    strict.reset(seed=0)
    u = strict.unwrapped
    u.set_state(u.init_qpos, np.where(np.arange(u.model.nv) == 6, 1e12, 0.))
    for _ in range(2):  # as often as it is asked
        with pytest.raises(pb.StepError):
            strict.step(action[0])
    with pytest.raises(pb.ArgumentError, match="on_failure: expected terminate or raise, found 'ignore'"):
        pg.make("Ant-v5", on_failure="ignore")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_a_number_is_named(value):
    env = pg.make("Hopper-v5")
    env.reset(seed=0)
    before = env.unwrapped.data.qpos.copy()
    with pytest.raises(pb.ArgumentError, match=rf"action: ctrl\[1\].* is {value}"):
        env.step(np.array([0, value, 0], np.float32))
    assert np.array_equal(env.unwrapped.data.qpos, before)
    env.unwrapped.data.xfrc_applied[2, 0] = value
    with pytest.raises(pb.ArgumentError, match=rf"data\.xfrc_applied: number 12 of it is {value}"):
        env.step(np.zeros(3, np.float32))
    vector = pg.make_vec("Hopper-v5", 3)
    vector.reset(seed=0)
    with pytest.raises(pb.ArgumentError, match=rf"world 2: action\[0\] is {value}"):
        vector.step(np.array([[0, 0, 0], [0, 0, 0], [value, 0, 0]], np.float32))


def test_another_model_or_data_is_refused():
    env = pg.make("Hopper-v5").unwrapped
    env.reset(seed=0)
    env.data = mujoco.MjData(env.model)
    with pytest.raises(pb.ArgumentError, match="was replaced by another one"):
        env.step(np.zeros(3))


class Louder(Moved):
    """What Gymnasium lets a class override, each in one place: the motion is that of the class."""

    def _initialize_simulation(self):
        model, data = super()._initialize_simulation()
        model.opt.gravity[:] = 0, .2, -4
        model.body_inertia[:] *= 1.1
        return model, data

    def set_state(self, qpos, qvel):
        super().set_state(qpos, .5 * qvel)

    def do_simulation(self, ctrl, n_frames):
        super().do_simulation(.9 * np.asarray(ctrl), n_frames)

    def _step_mujoco_simulation(self, ctrl, n_frames):
        for _ in range(n_frames):
            self.data.xfrc_applied[1, :3] = .3 * self.data.qvel[:3]
            super()._step_mujoco_simulation(.8 * ctrl, 1)


class Other(Moved):
    def _initialize_simulation(self):
        spec = mujoco.MjSpec.from_file(self.fullpath)
        spec.option.gravity = [0, 0, -4]
        model = spec.compile()
        return model, mujoco.MjData(model)


class ByMujoco(Moved):
    def step(self, action):
        self.data.ctrl[:] = action
        mujoco.mj_step(self.model, self.data)
        return self._get_obs(), 0., False, False, {}


class SettledByMujoco(Moved):
    def reset_model(self):
        found = super().reset_model()
        mujoco.mj_step(self.model, self.data)
        return found


@pytest.fixture
def own(request):
    """The name of an own class."""
    name = request.param.__name__ + "-v0"
    gymnasium.register(name, request.param, kwargs=gymnasium.registry["Moved-v0"].kwargs)
    yield name
    del gymnasium.registry[name]


@pytest.mark.parametrize("own", [Louder], indirect=True)
def test_what_a_class_overrides_acts(own):
    env, other = pg.make(own, physics={"options": {"tolerance": 0}}).unwrapped, gymnasium.make(own).unwrapped
    other.model.opt.tolerance, other.model.opt.iterations, other.model.opt.ls_iterations = 0, 200, 200
    env.reset(seed=0), other.reset(seed=0)
    found, reference = run(env), run(other)
    assert np.abs(found - reference).max() < 1e-9 and np.abs(found - run(ours())).max() > 1e-2
    vector, single = pg.make_vec(own, 2), pg.make(own)
    vector.reset(seed=0), single.reset(seed=0)
    action = np.full(5, .3)
    assert np.array_equal(vector.step(np.stack([action, action]))[0][0], single.step(action)[0])


@pytest.mark.parametrize("own", [Other], indirect=True)
def test_a_model_that_a_class_makes_is_refused(own):
    with pytest.raises(pb.UnsupportedError, match=r"Other\._initialize_simulation gives a model or data of its own.*super"):
        pg.make(own)


@pytest.mark.parametrize("own", [ByMujoco, SettledByMujoco], indirect=True)
def test_steps_of_mujoco_are_refused(own):
    """A class that calls mj_step itself would move by MuJoCo, and no gradient would know of it."""
    env, words = pg.make(own), r"mujoco\.mj_step or a part of it was called.*do_simulation"
    with pytest.raises(pb.UnsupportedError, match=words):
        env.reset(seed=0)
        env.step(np.zeros(5))
    with pytest.raises(pb.UnsupportedError, match=words):  # until it is reset without
        env.step(np.zeros(5))


def test_steps_of_mujoco_from_outside():
    env = ours()
    mujoco.mj_forward(env.model, env.data)  # moves nothing
    assert np.array_equal(run(env), run(ours()))
    mujoco.mj_step(env.model, env.data)
    with pytest.raises(pb.UnsupportedError, match="mujoco.mj_step or a part of it was called"):
        env.step(np.zeros(5))
    env.reset(seed=0)
    assert np.array_equal(run(env), run(ours()))


def test_callbacks_of_mujoco_are_refused():
    env = ours()
    mujoco.set_mjcb_control(lambda model, data: None)
    try:
        with pytest.raises(pb.UnsupportedError, match="mujoco.set_mjcb_control"):
            env.step(np.zeros(5))
    finally:
        mujoco.set_mjcb_control(None)
    assert np.array_equal(run(env), run(ours()))


class Chosen(Moved):
    """An action that is no row of controls: one of three."""

    def _set_action_space(self):
        super()._set_action_space()
        self.action_space = gymnasium.spaces.Discrete(3)
        return self.action_space

    def step(self, action):
        return super().step(np.full(5, .2 * action))


class Pair(Moved):
    def _set_action_space(self):
        super()._set_action_space()
        self.action_space = gymnasium.spaces.Box(-1, 1, (2,), np.float64)
        return self.action_space

    def step(self, action):
        return super().step(np.concatenate([action, .5 * action, [.1]]))


@pytest.mark.parametrize("own, actions", [(Chosen, [0, 2, 1]), (Pair, [[.1, .2], [-.3, .4], [.5, 0]])], indirect=["own"])
def test_actions_that_are_no_controls(own, actions):
    vector, single = pg.make_vec(own, 3), [pg.make(own) for _ in range(3)]
    vector.reset(seed=0)
    for k, env in enumerate(single):
        env.reset(seed=k)
    for _ in range(3):
        assert np.array_equal(vector.step(np.array(actions))[0], [e.step(np.array(a) if np.ndim(a) else a)[0] for e, a in zip(single, actions, strict=True)])


@pytest.mark.parametrize("shape", [(2, 3), (3,), (3, 4), (4, 3), ()])
def test_actions_of_another_shape_are_named(shape):
    vector = pg.make_vec("Hopper-v5", 3)
    vector.reset(seed=0)
    with pytest.raises(pb.ArgumentError, match=r"actions: expected shape \(3, 3\), found \("):
        vector.step(np.zeros(shape))


@pytest.mark.parametrize("name, k", [("qpos", 2), ("qvel", 1)])
def test_a_state_that_is_not_a_number_is_named(name, k):
    """It is what the code wrote, and not the mass matrix."""
    env = pg.make("Hopper-v5").unwrapped
    env.reset(seed=0)
    getattr(env.data, name)[k] = np.nan
    with pytest.raises(pb.ArgumentError, match=rf"data\.{name}: number {k} of it is nan"):
        env.step(np.zeros(3))
    q, v = env.init_qpos.copy(), env.init_qvel.copy()
    {"qpos": q, "qvel": v}[name][k] = np.inf
    with pytest.raises(pb.ArgumentError, match=rf"data\.{name}: number {k} of it is inf"):
        env.set_state(q, v)
    env.reset(seed=0)
    assert np.isfinite(env.step(np.zeros(3))[0]).all()


def test_what_cannot_be_copied_says_so():
    """Gymnasium's own are made anew by EzPickle; a class without it has nothing to be made from."""
    with pytest.raises(TypeError, match=r"Moved cannot be copied or pickled: expected gymnasium.utils.EzPickle among its bases"):
        copy.deepcopy(ours())
