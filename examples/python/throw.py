"""A throw that bounces: the initial velocity with which a ball comes to a place after hitting the floor, by gradients through contact.

A few steps of Newton's method on the three numbers that count; the Jacobian of the last position by the first velocity is one pullback
for each coordinate.
"""
import numpy as np

import pullback as pb

SCENE = """<mujoco><option timestep="0.002"/><worldbody><geom type="plane" size="9 9 1" solref="-20000 -20"/>
<body pos="0 0 1"><freejoint/><geom size=".1" mass=".4" friction=".6" solref="-20000 -20"/></body></worldbody></mujoco>"""
GOAL, STEPS = np.array([1.5, .6, .7]), 500


def main():
    model, velocity = pb.loads(SCENE), np.array([1., .2, -2.])
    for k in range(40):
        s = model.init()
        s.qvel[:3] = velocity
        r = model.rollout(s, steps=STEPS)
        miss = r.qpos[-1, :3] - GOAL
        if np.linalg.norm(miss) < 1e-9:
            break
        rows = [r.vjp(qpos=np.eye(6)[i]).qvel[:3] for i in range(3)]
        step = np.linalg.solve(np.array(rows) + 1e-6 * np.eye(3), -miss)
        velocity = velocity + step * min(1, .3 / np.abs(step).max())
    bounced = r.qpos[:, 2].min() < .1
    print(f"velocity {velocity}, off by {np.linalg.norm(miss):.1e} m after {k} steps of Newton's method, {'with' if bounced else 'without'} a bounce")
    assert np.linalg.norm(miss) < 1e-6 and bounced
    return np.linalg.norm(miss)


if __name__ == "__main__":
    main()
