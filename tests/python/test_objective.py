"""Losses as functions of one vector: gradients against differences, SciPy takes them, wrong use is told."""
import numpy as np
import pytest

import pullback as pb

scipy = pytest.importorskip("scipy.optimize")
PENDULUM = """<mujoco><option timestep=".02"/><worldbody><geom type="plane" size="9 9 1" pos="0 0 -.75"/><body><joint name="j" axis="0 1 0" damping=".1"/>
<geom name="arm" type="capsule" size=".05" fromto="0 0 0 0 0 -.5"/><body pos="0 0 -.5"><joint axis="0 1 0" damping=".1"/>
<geom name="tip" type="capsule" size=".05" fromto="0 0 0 0 0 -.2"/></body></body></worldbody><actuator><motor joint="j" gear="3"/></actuator></mujoco>"""


def loss(r):
    """Where it ends, how fast, and what the controls cost, which is a direct derivative."""
    e = r.qpos[-1] - [.7, .2]
    return e @ e + .1 * r.qvel[-1] @ r.qvel[-1] + .001 * np.sum(r.ctrl**2), {"qpos": 2 * e, "qvel": .2 * r.qvel[-1], "ctrl": .002 * r.ctrl}


@pytest.fixture
def objective():
    model = pb.loads(PENDULUM)
    return pb.Objective(model, model.init(), loss, .1 * np.ones((30, 1)), {"body_mass": 1.1 * model.params["body_mass"]},
                        wrt=["ctrl", "qvel", "qpos", "body_mass", "dof_damping"])


def test_gradients_are_those_of_differences(objective):
    x, rng = objective.x0 + .01, np.random.default_rng(0)
    value, gradient = objective(x)
    for _ in range(3):
        d = rng.standard_normal(x.size)
        central = [(objective(x + e * d)[0] - objective(x - e * d)[0]) / (2 * e) for e in (1e-4, 2e-4)]
        np.testing.assert_allclose(gradient @ d, (4 * central[0] - central[1]) / 3, rtol=1e-6)
    assert objective(x)[0] == value and "ctrl (30, 1)" in repr(objective)


def test_scipy_takes_it():
    model = pb.loads(PENDULUM)
    objective = pb.Objective(model, model.init(), loss, np.zeros((30, 1)))
    before = objective(objective.x0)[0]
    found = scipy.minimize(objective, objective.x0, jac=True, method="L-BFGS-B", options={"maxiter": 60})
    assert found.success and found.fun < .5 * before and objective.parts(found.x)["ctrl"].shape == (30, 1)


def test_wrong_use_is_told():
    model = pb.loads(PENDULUM)
    with pytest.raises(pb.ArgumentError, match="no ctrl"):
        pb.Objective(model, model.init(), loss, steps=3)
    with pytest.raises(KeyError, match="no parameter"):
        pb.Objective(model, model.init(), loss, np.zeros((3, 1)), wrt="mass")
    with pytest.raises(pb.ArgumentError, match=r"x: expected shape \(3,\), found \(4,\)"):
        pb.Objective(model, model.init(), loss, np.zeros((3, 1)))(np.zeros(4))


TUMBLE = """<mujoco><option timestep=".01"><flag contact="disable"/></option><worldbody><body name="a"><freejoint/><geom type="box" size=".1 .2 .3"/>
<body pos="0 0 .4"><joint name="b" type="ball" damping=".01"/><geom type="box" size=".05 .1 .15" pos=".1 0 .1"/><body pos=".2 0 0"><joint name="h"/>
<geom type="capsule" size=".03" fromto="0 0 0 .2 0 .1"/></body></body></body></worldbody></mujoco>"""


@pytest.mark.parametrize("worlds", [None, 3])
@pytest.mark.parametrize("size", [0, 1e-4, .7, 2.5])
def test_orientations_are_vectors(worlds, size):
    """Free, ball and hinge joints: rotation vectors from the given orientation, of any size, against differences."""
    model, rng = pb.loads(TUMBLE), np.random.default_rng(0)
    state = model.init(batch=worlds)
    state = model.integrate(state, rng.standard_normal((*state.qvel.shape[:-1], len(model.tangent_names))))
    target = np.random.default_rng(1).standard_normal((model.nbody, 3))

    def distance(r):
        away = r.xpos[..., -1, :, :] - target
        return np.sum(away ** 2), {"xpos": 2 * away}

    f = pb.Objective(model, state, distance, steps=20, outputs="xpos", wrt=["qpos", "qvel", "body_mass"])
    assert f.x0.size == (worlds or 1) * 2 * model.nv + model.nbody
    np.testing.assert_allclose(f.rollout(f.x0).states[..., 0, :], state.flat, rtol=1e-15, atol=1e-15)
    x = f.x0 + size * np.r_[rng.standard_normal(f.x0.size - model.nbody), np.zeros(model.nbody)]
    value, gradient = f(x)
    assert f.certificate
    for _ in range(2):
        d = rng.standard_normal(x.size) * np.r_[np.ones(x.size - model.nbody), np.zeros(1), np.ones(model.nbody - 1)]
        central = [(f(x + e * d)[0] - f(x - e * d)[0]) / (2 * e) for e in (1e-4, 2e-4)]
        np.testing.assert_allclose(gradient @ d, (4 * central[0] - central[1]) / 3, rtol=1e-7)


def test_worlds_share_what_has_no_axis_of_them():
    """A mass that three recordings of different starts and controls have in common, and controls of their own."""
    model, rng = pb.loads(PENDULUM), np.random.default_rng(3)
    start = model.init(batch=3)
    start.qpos[:] = rng.standard_normal((3, 2)) * .3
    ctrl = rng.standard_normal((3, 40, 1))
    seen = model.with_params({"body_mass:1": 1.3 * model.params["body_mass:1"]}).rollout(start, ctrl).qpos

    def misfit(r):
        return np.sum((r.qpos - seen) ** 2), {"qpos": 2 * (r.qpos - seen)}

    f = pb.Objective(model, start, misfit, ctrl, wrt="body_mass:1")
    found = scipy.minimize(f, f.x0, jac=True, method="L-BFGS-B", options={"ftol": 1e-15})
    np.testing.assert_allclose(found.x, 1.3 * model.params["body_mass:1"], rtol=1e-5)
    assert pb.Objective(model, start, misfit, ctrl).x0.shape == (120,)


@pytest.mark.parametrize("answer, message", [
    (3., r"expected \(value, cotangents by name\), found 3.0"), ((np.ones(2), {}), "expected .value, cotangents"), ((1., None), "expected .value"),
    ((1., {"points": 1}), "a cotangent of points; expected some of qpos, qvel, act, state, sensordata, xpos, site_xpos, ctrl"),
    ((1., {"wrt": "gravity"}), "a cotangent of wrt")])
def test_answers_that_are_refused(answer, message):
    model = pb.loads(PENDULUM)
    with pytest.raises(pb.ArgumentError, match=f"loss: {message}"):
        pb.Objective(model, model.init(), lambda r: answer, np.zeros((3, 1)))(np.zeros(3))
    with pytest.raises(pb.ArgumentError, match="wrt: expected some of"):
        pb.Objective(model, model.init(), lambda r: answer, np.zeros((3, 1)), wrt=())


def test_what_was_given_may_change_afterwards():
    model, ctrl = pb.loads(PENDULUM), np.zeros((3, 1))
    mass = model.params["body_mass"].copy()
    f = pb.Objective(model, model.init(), loss, ctrl, {"body_mass": mass}, wrt=["ctrl", "qvel"])
    value = f(f.x0)[0]
    ctrl[:], mass[:] = 1, 2 * mass
    assert f(f.x0)[0] == value and not f.x0.any()


def test_a_batch_of_one():
    """What a rollout shows of its inputs has the shape of what was given, so that cotangents of it go back."""
    model, ctrl = pb.loads(PENDULUM), .1 * np.ones((1, 5, 1))
    effort = lambda r: (np.sum(r.ctrl ** 2), {"ctrl": 2 * r.ctrl})
    for worlds in (1, 3):
        r = model.rollout(model.init(batch=worlds), ctrl)
        assert r.ctrl.shape == (1, 5, 1) and r.qpos.shape == (worlds, 6, 2)
        value, gradient = pb.Objective(model, model.init(batch=worlds), effort, ctrl)(np.full(5, .2))
        assert np.isclose(value, .2) and np.allclose(gradient, .4)
