"""Trajectory optimization through contact: a fork pushes a puck to a place at its side, where it has to lie still after one second.

The puck is moved by contact and friction alone, so it must be hit, steered and left to slide to rest. SciPy's L-BFGS sees the loss of the
rollout and its exact gradient by the 1000 controls; the certificate of the gradient says what it went through, and the answer is
replayed at a quarter of the time step, which physics that lives on its step size would not survive.
"""
import numpy as np
import scipy.optimize

import pullback as pb

STEP, STEPS, GOAL = .002, 500, np.array([.5, .12])
SCENE = """<mujoco><option timestep="{step}" cone="elliptic" impratio="10"/><worldbody><geom name="floor" type="plane" size="9 9 1" friction=".25 .005 0"/>
<body name="fork" pos="-.12 0 .05"><joint name="fx" type="slide" axis="1 0 0" damping=".5"/><joint name="fy" type="slide" axis="0 1 0" damping=".5"/>
  <geom name="left" pos="0 .04 0" size=".03" mass=".15" friction=".4"/><geom name="right" pos="0 -.04 0" size=".03" mass=".15" friction=".4"/></body>
<body name="puck" pos="0 0 .0399"><joint name="x" type="slide" axis="1 0 0"/><joint name="y" type="slide" axis="0 1 0"/>
  <joint type="slide" axis="0 0 1"/><joint name="yaw" axis="0 0 1"/>
  <geom name="side" type="cylinder" size=".06 .02" mass=".4" friction=".4"/>
  <geom name="foot" size=".02" pos="0 0 -.02" mass=".1" friction="0 0 0" condim="4"/></body></worldbody>
<actuator><motor joint="fx"/><motor joint="fy"/></actuator></mujoco>"""


def table(step=STEP):
    return pb.loads(SCENE.format(step=step))


def main():
    model = table()
    x, y = model.joint("x").qpos.start, model.joint("y").qpos.start
    weight = np.array([1., .02])  # of misses and speeds at the end

    def loss(r):
        miss, speed = r.qpos[-1, [x, y]] - GOAL, r.qvel[-1, [x, y]]
        bars = {"qpos": np.zeros(model.nv), "qvel": np.zeros(model.nv), "ctrl": 4e-8 * r.ctrl}
        bars["qpos"][[x, y]], bars["qvel"][[x, y]] = 2 * weight[0] * miss, 2 * weight[1] * speed
        return weight[0] * miss @ miss + weight[1] * speed @ speed + 2e-8 * np.sum(r.ctrl**2), bars

    push = np.zeros((STEPS, model.nu))
    push[:150, 0], push[:150, 1] = 4, -.05  # it touches: a puck that is never reached has no gradient
    f = pb.Objective(model, model.init(), loss, push)
    along = np.random.default_rng(0).normal(size=f.x0.size)
    differences = [(f(f.x0 + size * along)[0] - f(f.x0 - size * along)[0]) / (2 * size) for size in (1e-5, 1e-6)]
    apart = min(abs(f(f.x0)[1] @ along / d - 1) for d in differences)

    found = scipy.optimize.minimize(f, f.x0, jac=True, method="L-BFGS-B", options={"maxiter": 200})
    r = f.rollout(found.x)
    certificate = r.vjp(qpos=np.eye(model.nv)[x]).certificate
    miss = lambda r: np.linalg.norm(r.qpos[-1, [x, y]] - GOAL)
    fine = table(STEP / 4)
    again = fine.rollout(fine.init(), np.repeat(found.x.reshape(push.shape), 4, axis=0), keep=False)
    print(f"gradient against differences: {apart:.1e}; its certificate: {certificate['events']} events, {certificate['most_contacts']} contacts at once, "
          f"spot check {certificate['spot_error']:.1e}")
    print(f"misses by {miss(f.rollout(f.x0)):.3f} m before, {miss(r):.1e} m after {found.nit} iterations ({found.nfev} gradients), "
          f"speed {np.linalg.norm(r.qvel[-1, [x, y]]):.1e} m/s; at a quarter of the step by {miss(again):.3f} m")
    assert apart < 1e-6 and certificate["spot_checked"] and not certificate["spot_off"]
    assert miss(r) < 5e-3 and miss(again) < .015
    return miss(r), miss(again)


if __name__ == "__main__":
    main()
