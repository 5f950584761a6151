"""Joints of every kind

Joints of trees of every kind: they cannot drift, and their gradients are right."""
import numpy as np

from common import Bench, apart, below, slope
import inside

TREE = """<mujoco><option timestep="0.002"/><worldbody><body name="a" pos="0 0 1"><joint name="j0" type="ball" pos=".05 0 .02" damping=".1"/>
<geom type="box" size=".1 .05 .08" contype="0" conaffinity="0"/><body name="b" pos="0 0 -.3" euler="10 20 30"><joint name="j1" type="hinge"
axis="1 1 0" pos="0 .03 .1" damping=".05"/><geom type="capsule" size=".03 .1" contype="0" conaffinity="0"/><body name="c" pos=".1 0 -.2">
<joint name="j2" type="slide" axis="0 1 1" damping="1" stiffness="30"/><geom type="sphere" size=".06" contype="0" conaffinity="0"/></body></body></body>
<body name="d" pos="1 0 1"><freejoint name="j3"/><geom type="box" size=".1 .2 .05" contype="0" conaffinity="0"/></body></worldbody></mujoco>"""


def turn(q, v):
    return v + 2 * np.cross(q[1:], np.cross(q[1:], v) + q[0] * v)


def rows():
    rng = np.random.default_rng(0)
    drift = unit = 0.0
    with Bench() as bench:
        path = bench.write("tree.xml", TREE)
        m = inside.Model(path)
        f = m.fields()
        x = m.move(m.init(), np.concatenate([np.zeros(m.nv), rng.standard_normal(m.nv)]), 1.0)
        first = x.copy()
        for k in range(5000):
            if k % 50 == 0:
                m.observe(x)
                pos, quat, q = m.field("xpos"), m.field("xquat"), m.parts(x)[0]
                for joint, body, parent in ((0, 1, 0), (1, 2, 1)):  # the anchor as parent and child place it
                    anchor = f["jnt_pos"][joint]
                    by_child = pos[body] + turn(quat[body], anchor)
                    by_parent = pos[parent] + turn(quat[parent], f["body_pos"][body] + turn(f["body_quat"][body], anchor))
                    drift = max(drift, np.abs(by_child - by_parent).max())
                axis = turn(quat[2], turn(f["body_quat"][3], f["jnt_axis"][2]))
                away = pos[3] - pos[2] - turn(quat[2], f["body_pos"][3])
                drift = max(drift, np.linalg.norm(np.cross(away, axis)))
                hinge = f["jnt_axis"][1]
                drift = max(drift, np.abs(turn(quat[2], hinge) - turn(quat[1], turn(f["body_quat"][2], hinge))).max())
                unit = max(unit, abs(np.linalg.norm(q[:4]) - 1), abs(np.linalg.norm(q[9:13]) - 1))
            x, _ = m.step(x)
        steps, w = 100, rng.standard_normal(m.nt)

        def end(y):
            for _ in range(steps):
                y, _ = m.step(y)
            return y

        y, records = first, []
        for _ in range(steps):
            y, _, r = m.step_recorded(y)
            records.append(r)
        bar = w
        for r in reversed(records):
            bar = m.vjp(r, bar)["x"]
        by = np.array([slope(lambda t: w @ m.difference(y, end(m.move(first, e, t))), 1e-3) for e in np.eye(m.nt)])
    return [
        below("ball, hinge and slide in a chain: gap of anchors and axes over 10 s [m]", drift, 1e-8),
        below("ball and free: norm of their quaternions less 1 over 10 s", unit, 1e-8),
        below("gradient of 100 steps by the initial state against differences, relative", apart(bar, by), 1e-6),
    ]
