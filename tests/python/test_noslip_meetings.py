"""Sweeps against slip (noslip_iterations) beside other features: the pullback against the forward derivative, and both against
differences, one-sided where a loss begins at zero. Sources: src/solve/noslip.c, noslip_adjoint.c, src/multibody/kink.h."""
import numpy as np
import pytest

import pullback as pb

ARM = """<mujoco><option timestep=".002" noslip_iterations="5" cone="{cone}" integrator="{integrator}" impratio="1"/><worldbody>
<geom name="floor" type="plane" size="1 1 .1"/>
<body name="upper" pos="0 0 .35"><joint name="a" type="hinge" axis="0 1 0"/>
  <geom type="capsule" fromto="0 0 0 .2 0 -.1" size=".02" contype="0" conaffinity="0"/>
  <body name="lower" pos=".2 0 -.1"><joint name="b" type="hinge" axis="0 1 0"/>
    <geom type="capsule" fromto="0 0 0 .1 0 -.2" size=".02" contype="0" conaffinity="0"/>
    <geom name="tip" type="sphere" pos=".1 0 -.2" size=".052" solimp=".9 .9 .001" friction="1"/></body></body></worldbody>
<actuator><motor joint="a" gear="5"/><motor joint="b" gear="5"/></actuator></mujoco>"""
POLICY = {
    "observe": [{"qpos": True}, {"qvel": True}],
    "layers": [{"dense": 2, "init": "uniform"}],
    "output": [{"control": True}],
    "seed": 5,
}


@pytest.mark.parametrize("cone", ["pyramidal", "elliptic"])
@pytest.mark.parametrize("integrator", ["Euler", "RK4", "implicitfast"])
def test_policy_in_the_loop(cone, integrator):
    m = pb.loads(ARM.format(cone=cone, integrator=integrator), policy=POLICY)
    s = m.init()
    s.qvel[:] = (0.3, 0.2)
    r = m.rollout(s, steps=40)
    names = ["policy.0.weight", "body_mass", "geom_friction"]
    g = r.vjp(qvel=[0.3, 1.0], wrt=names)
    for name in names:
        direction = np.random.default_rng(1).standard_normal(np.shape(m.params[name]))
        forward = r.jvp(params={name: direction}).qvel[-1] @ [0.3, 1.0]
        reverse = np.sum(g.params[name] * direction)
        assert reverse == pytest.approx(forward, rel=1e-11, abs=1e-14), name


BOX = """<mujoco><option timestep=".002" noslip_iterations="3" cone="{cone}"/><worldbody><geom type="plane" size="1 1 .1"/>
<body pos="0 0 .05"><joint name="x" type="slide" axis="1 0 0"{loss}/><joint name="z" type="slide" axis="0 0 1"/>
<joint name="t" type="hinge" axis="0 1 0"/><geom type="box" size=".05 .05 .05" mass="1"/></body>
<body pos="1 0 1"><joint name="p" type="hinge" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 .3 0 0" size=".02"/></body></worldbody>
<tendon><fixed name="rod"><joint joint="x" coef="1"/><joint joint="z" coef=".4"/><joint joint="p" coef=".2"/></fixed></tendon></mujoco>"""


def pushed(cone, loss):
    m = pb.loads(BOX.format(cone=cone, loss=loss))
    q = np.zeros((60, m.nv))
    q[:, 0] = 2 * np.sin(np.arange(60) / 5)
    return m, q


# Steps in which a loss beside another one that sticks has slopes of its own on each side are left out of none: there is none here.
@pytest.mark.parametrize("loss", ["", ' frictionloss=".3"'])
@pytest.mark.parametrize("cone", ["pyramidal", "elliptic"])
def test_loss_of_zero_is_the_slope_into_the_domain(cone, loss):
    m, q = pushed(cone, loss)
    run = m.rollout(m.init(), steps=60, qfrc_applied=q)
    weight = np.array([1.0, 0.5, 0.2, 0.3])
    size = 1e-7
    for name in ("dof_frictionloss", "tendon_frictionloss"):
        zero = np.flatnonzero(np.ravel(m.params[name]) == 0)
        for k in range(1, 60, 2):
            r = m.rollout(run.states[k], steps=1, qfrc_applied=q[k : k + 1])
            g = np.ravel(r.vjp(qvel=weight, wrt=name).params[name])
            for i in zero:
                direction = np.zeros(np.shape(m.params[name]))
                direction.ravel()[i] = 1
                forward = weight @ r.jvp(params={name: direction}).qvel[-1]
                assert g[i] == pytest.approx(forward, rel=1e-9, abs=1e-12), (name, k, i, "forward")
                values = np.array(m.params[name], dtype=float) + size * direction
                moved = m.rollout(run.states[k], steps=1, qfrc_applied=q[k : k + 1], params={name: values}, constants="keep")
                side = weight @ (moved.qvel[-1] - r.qvel[-1]) / size
                assert g[i] == pytest.approx(side, rel=1e-4, abs=1e-6), (name, k, i, "one-sided")


HULL = """<mujoco><option timestep=".002" noslip_iterations="3" cone="{cone}"/>
<asset><mesh name="m" vertex="-.05 -.05 -.05  .05 -.05 -.05  -.05 .05 -.05  .06 .05 -.05  -.05 -.05 .05  .05 -.05 .05
 -.05 .05 .05  .05 .05 .06"/></asset>
<worldbody><geom type="mesh" mesh="m" pos="0 0 -.05"/><body pos="0 0 .052" euler="3 -2 10"><freejoint/>
<geom type="{shape}" {size} condim="{condim}" friction=".8 .01 .002" mass="1"/></body></worldbody></mujoco>"""


@pytest.mark.parametrize("cone", ["pyramidal", "elliptic"])
@pytest.mark.parametrize("condim", [3, 4, 6])
@pytest.mark.parametrize("shape, size", [("mesh", 'mesh="m"'), ("cylinder", 'size=".05 .05"')])
def test_contacts_that_touch_without_pushing(cone, condim, shape, size):
    m = pb.loads(HULL.format(cone=cone, condim=condim, shape=shape, size=size))
    for seed in range(8):
        draw = np.random.default_rng(seed)
        s = m.init()
        s.qvel[:] = 0.1 * draw.standard_normal(6)
        s.qvel[2] = -0.2
        r = m.rollout(s, steps=1)
        weight, direction = draw.standard_normal(12), draw.standard_normal(12)
        reverse = r.vjp(state=weight).state @ direction
        forward = weight @ r.jvp(state=direction).x[-1]
        assert reverse == pytest.approx(forward, rel=1e-9), seed
