"""Delays in Python: the history in states, rollouts and files, to and from MuJoCo, beside batches, policies and Gymnasium; a delay that is found."""
import copy
import re

import numpy as np
import pytest

import pullback as pb

H = 0.004
ARM = """<mujoco><option timestep=".004"/><worldbody><body><joint name="hinge" axis="0 1 0" damping=".2"/>
<geom type="capsule" fromto="0 0 0 .3 0 0" size=".02"/><body pos=".3 0 0"><joint name="elbow" axis="0 1 0" damping=".1"/>
<geom type="capsule" fromto="0 0 0 .2 0 0" size=".02"/><site name="tip" pos=".2 0 0"/></body></body></worldbody>
<actuator><motor name="drive" joint="hinge" gear=".5" nsample="8" interp="cubic" delay=".0144"/>
<position name="servo" joint="elbow" kp="2" kv=".1" nsample="3" delay=".008"/><motor name="prompt" joint="elbow" gear=".1"/></actuator>
<sensor><jointpos name="angle" joint="hinge" nsample="4" interp="linear" delay=".0091"/>
<framepos objtype="site" objname="tip" nsample="2" interval=".01"/><jointvel joint="elbow"/></sensor></mujoco>"""
PLAIN = re.sub(r' (nsample|interp|delay|interval)="[^"]*"', "", ARM)


@pytest.fixture
def arm():
    return pb.loads(ARM)


def controls(n, nu=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, nu))


def test_history_is_a_field(arm):
    s = arm.init()
    assert "history" in dir(s) and s.history.shape == (arm.nhistory,) and arm.nhistory == 18 + 8 + 10 + 10
    assert s.history[2:10] == pytest.approx(-H * np.arange(8, 0, -1)) and s.history[1] == 7
    u = controls(12)
    roll = arm.rollout(s, u)
    assert roll.history.shape == (13, arm.nhistory)

    # In steps of its own, and from the middle on: the same bits.
    for row in u:
        s = arm.step(s, row)
    assert np.array_equal(s.flat, roll.states[-1])
    middle = arm.state(roll.states[5])
    assert np.array_equal(arm.rollout(middle, u[5:]).states, roll.states[5:])

    # Names of tangents, whose last are samples; a sample that is moved moves what comes.
    names = arm.tangent_names
    assert len(names) == 4 + 8 + 3 + 4 + 2 * 3 and names[4] == "history[0] (actuator 'drive')"
    moved = np.zeros(len(names))
    moved[4:12] = 1
    assert np.ptp(arm.rollout(arm.integrate(arm.init(), moved), u).states[-1] - roll.states[-1]) > 1e-4
    plain = pb.loads(PLAIN)
    assert "history" not in dir(plain.init()) and plain.nhistory == 0 and not plain.params["actuator_delay"].size
    with pytest.raises(AttributeError):
        plain.init().history


def test_batches(arm):
    """Worlds are as if alone: states, sensors and gradients, with delays of their own."""
    u = np.stack([controls(20, seed=k) for k in range(5)])
    delays = np.array([[.0144 + .003 * k, .008 + .001 * k, 0] for k in range(5)])
    together = arm.rollout(arm.init(batch=5), u, params={"actuator_delay": delays}, threads=2)
    gradient = together.vjp(qpos=np.ones((5, 2)), wrt=["ctrl", "actuator_delay"])
    for k in range(5):
        alone = arm.rollout(arm.init(), u[k], params={"actuator_delay": delays[k]})
        assert np.array_equal(alone.states, together.states[k]) and np.array_equal(alone.sensordata, together.sensordata[k])
        own = alone.vjp(qpos=np.ones(2), wrt=["ctrl", "actuator_delay"])
        assert np.array_equal(own.ctrl, gradient.ctrl[k]) and np.array_equal(own.params["actuator_delay"], gradient.params["actuator_delay"][k])
    assert np.abs(gradient.params["actuator_delay"][:, 0]).min() > 0 and not gradient.params["actuator_delay"][:, 1:].any()


def test_a_policy_sees_what_is_told():
    """Closed loop over a late sensor and late controls: forward against reverse; a policy of the delayed angle is one of the history."""
    policy = {"observe": [{"sensor": "angle"}, {"qvel": ["hinge"]}],
              "layers": [{"dense": 2, "init": "uniform", "activation": "tanh"}, {"dense": 1, "init": "uniform"}],
              "output": [{"control": ["drive"]}], "seed": 3}
    model, r = pb.loads(ARM, policy=policy), np.random.default_rng(0)
    s = model.init()
    s.qvel[:] = 1
    roll = model.rollout(s, .3 * controls(25))
    bar = r.normal(size=(26, len(model.tangent_names)))
    names = [n for n in model.params if model.params[n].size and n not in ("geom_size", "qpos0")]
    g = roll.vjp(state=bar, wrt=["ctrl", *names])
    for name in ("ctrl", "actuator_delay", "sensor_delay", "timestep", *(n for n in names if n.startswith("policy"))):
        value = g.ctrl if name == "ctrl" else g.params[name]
        d = r.normal(size=np.shape(value))
        t = roll.jvp(**({name: d} if name == "ctrl" else {"params": {name: d}}))
        forward = (bar * t.x).sum()
        assert forward == pytest.approx((value * d).sum(), rel=1e-9, abs=1e-9 * np.abs(bar * t.x).sum()), name
    assert g.params["sensor_delay"][0] != 0
    alone = pb.loads(ARM.replace('nsample="4" interp="linear" delay=".0091"', ""), policy=policy)
    assert np.abs(alone.rollout(alone.init(), .3 * controls(25)).qpos - model.rollout(model.init(), .3 * controls(25)).qpos).max() > 1e-6


def test_specs():
    """Fields of pb.Spec, and what they refuse."""
    spec = pb.Spec.from_string(ARM)
    drive = spec.actuator("drive")
    assert (drive.nsample, drive.interp, drive.delay) == (8, "cubic", .0144)
    drive.interp, drive.delay = "linear", .012
    sensor = spec.sensor("angle")
    sensor.interval = [.02, -.01]
    made = spec.compile()
    assert made.params["actuator_delay"][0] == .012 and made._field("actuator_history")[0].tolist() == [8, 1]
    assert made._field("sensor_interval")[0].tolist() == [.02, -.01]
    with pytest.raises(pb.Error, match="delay.*0 or more"):
        drive.delay = -1
    with pytest.raises(pb.Error, match="nsample"):
        drive.nsample = -1
    drive.nsample = 0
    with pytest.raises(pb.Error, match="no samples are kept"):
        spec.compile()


def test_copies_and_packs(arm):
    """Copies, pickles: what they step has the same bits."""
    u = controls(6)
    whole = arm.rollout(arm.init(), u).states[-1]
    assert np.array_equal(copy.deepcopy(arm).rollout(arm.init(), u).states[-1], whole)
    import pickle
    other = pickle.loads(pickle.dumps(arm))
    assert np.array_equal(other.rollout(other.init(), u).states[-1], whole)


def test_functions_of_single_steps_refuse(arm):
    """A loop that hands over qpos, qvel and act would begin each step without a history."""
    torch = pytest.importorskip("torch")
    import pullback.torch as pt
    with pytest.raises(pb.UnsupportedError, match="also has history"):
        pt.step(arm, torch.zeros(2, dtype=torch.float64), torch.zeros(2, dtype=torch.float64), torch.zeros(3, dtype=torch.float64))


def test_a_delay_is_found(arm, tmp_path):
    """A log whose drive was later than the file says: by gradients from 9 ms to 22.3 ms, to 1e-6."""
    truth, u = .0223, controls(120, seed=4)
    log = arm.rollout(arm.init(), u, params={"actuator_delay": [truth, .008, 0]}).qpos
    (tmp_path / "arm.xml").write_text(ARM)
    found = pb.optimize({"model": str(tmp_path / "arm.xml"), "steps": 120, "controls": u.tolist(),
                         "variables": [{"parameter": "actuator_delay:drive", "start": [.009], "lower": .004, "upper": .032}],
                         "loss": [{"qpos": True, "at": "all", "target": log.tolist()}],
                         "optimizer": {"method": "gauss-newton", "iterations": 40}}, allow_root=tmp_path)
    assert found["variables"][0]["value"][0] == pytest.approx(truth, abs=1e-6), found["variables"]


# ---- MuJoCo -----------------------------------------------------------------------------------------------------------------------
def test_to_and_from_mujoco():
    mujoco = pytest.importorskip("mujoco")
    m = mujoco.MjModel.from_xml_string(ARM)
    d = mujoco.MjData(m)
    ours, state = pb.from_mujoco(m, d)
    assert np.array_equal(ours.params["actuator_delay"], m.actuator_delay) and np.array_equal(ours._field("sensor_interval"), m.sensor_interval)
    u = controls(20)
    for row in u[:10]:
        d.ctrl[:] = row
        mujoco.mj_step(m, d)
    state = pb.State.from_mujoco(ours, d)
    assert np.array_equal(state.history, d.history)

    # Each goes on from the other's.
    back = mujoco.MjData(m)
    ours.step(state, u[10]).to_mujoco(back)
    d.ctrl[:] = u[10]
    mujoco.mj_step(m, d)
    assert back.history == pytest.approx(d.history, abs=1e-13) and back.qpos == pytest.approx(d.qpos, abs=1e-13)

    # Delays changed in the compiled model come along, and go back.
    m.actuator_delay[0] = .0101
    assert pb.from_mujoco(m).params["actuator_delay"][0] == .0101
    ours.to_mujoco(m)
    assert m.actuator_delay[0] == .0144
    other = pb.loads(ARM.replace('nsample="8"', 'nsample="9"'))
    with pytest.raises(pb.ArgumentError, match="history"):
        pb.State.from_mujoco(other, d)
    plain = mujoco.MjModel.from_xml_string(PLAIN)
    pb.from_mujoco(plain).to_mujoco(plain)


def test_gymnasium(tmp_path):
    """An environment whose actuators are late steps as MuJoCo's, and begins again after a reset."""
    gymnasium = pytest.importorskip("gymnasium")
    pytest.importorskip("imageio")
    from gymnasium.envs.mujoco import MujocoEnv
    path = tmp_path / "arm.xml"
    path.write_text(ARM)

    class Arm(MujocoEnv):
        metadata = {"render_modes": ["human", "rgb_array", "depth_array", "rgbd_tuple"]}

        def __init__(self):
            space = gymnasium.spaces.Box(-np.inf, np.inf, (7,), dtype=np.float64)
            super().__init__(str(path), frame_skip=2, observation_space=space)

        def _get_obs(self):
            return np.concatenate([self.data.qpos, self.data.sensordata])

        def step(self, action):
            self.do_simulation(action, self.frame_skip)
            return self._get_obs(), 0., False, False, {}

        def reset_model(self):
            self.set_state(self.init_qpos, self.init_qvel)
            return self._get_obs()

    import pullback.gym
    plain, ours = Arm(), pullback.gym.environment(Arm)
    for episode in range(2):
        a, _ = plain.reset(seed=episode)
        b, _ = ours.reset(seed=episode)
        for action in controls(15, seed=episode):
            a, b = plain.step(action)[0], ours.step(action)[0]
            assert b == pytest.approx(a, abs=1e-10)
        assert ours.data.history == pytest.approx(plain.data.history, abs=1e-10)
