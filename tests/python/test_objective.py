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
    free = pb.loads("<mujoco><worldbody><body><freejoint/><geom size='.1'/></body></worldbody></mujoco>")
    with pytest.raises(pb.ArgumentError, match="quaternions"):
        pb.Objective(free, free.init(), loss, wrt="qpos", steps=2)
    with pytest.raises(pb.ArgumentError, match="one world"):
        pb.Objective(model, model.init(batch=2), loss, np.zeros((3, 1)))
