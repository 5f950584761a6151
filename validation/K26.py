"""Equations of motion of trees

M(q) a + c(q, v) = f: identities, the double pendulum's closed form, slopes, and cost of long chains."""

import numpy as np

from common import Bench, apart, below, ratio, row, slope, timing
import inside

DOUBLE = """<mujoco><option timestep="0.001" gravity="0 0 -9.81"/><worldbody><body><joint name="a" type="hinge" axis="0 -1 0"/>
<inertial pos="0 0 -1" mass="1.5" diaginertia="1e-12 1e-12 1e-12"/><body pos="0 0 -1"><joint name="b" type="hinge" axis="0 -1 0"/>
<inertial pos="0 0 -.7" mass=".8" diaginertia="1e-12 1e-12 1e-12"/></body></body></worldbody></mujoco>"""


def chain(n):
    links = '<body pos="0 0 -.1"><joint type="hinge" axis="%s"/><geom type="capsule" fromto="0 0 0 0 0 -.1" size=".02" contype="0" conaffinity="0"/>'
    return ('<mujoco><option timestep="0.0005"/><size memory="100M"/><worldbody>' +
            "".join(links % ("1 0 0" if k % 2 else "0 1 0") for k in range(n)) + "</body>" * n + "</worldbody></mujoco>")


def double_pendulum(t, w, m1=1.5, m2=0.8, l1=1.0, l2=0.7, g=9.81):
    """Accelerations of the absolute angles (Lagrange), point masses."""
    d = t[0] - t[1]
    M = np.array([[(m1 + m2) * l1 * l1, m2 * l1 * l2 * np.cos(d)], [m2 * l1 * l2 * np.cos(d), m2 * l2 * l2]])
    f = np.array([-m2 * l1 * l2 * np.sin(d) * w[1]**2 - (m1 + m2) * g * l1 * np.sin(t[0]), m2 * l1 * l2 * np.sin(d) * w[0]**2 - m2 * g * l2 * np.sin(t[1])])
    return np.linalg.solve(M, f)


def rows():
    rng = np.random.default_rng(0)
    with Bench() as bench:
        m = inside.Model(bench.write("double.xml", DOUBLE))
        worst = 0.0
        for _ in range(100):
            t, w = rng.uniform(-3, 3, 2), rng.uniform(-3, 3, 2)
            m.step(m.state([t[0], t[1] - t[0]], [w[0], w[1] - w[0]]))
            a = m.field("qacc")[:, 0]
            worst = max(worst, apart([a[0], a[0] + a[1]], double_pendulum(t, w)))
        n = 32
        c = inside.Model(bench.write("chain.xml", chain(n)))
        identity, symmetric, least = 0.0, 0.0, np.inf
        for _ in range(20):
            f = rng.standard_normal(n)
            c.step(c.state(rng.uniform(-1, 1, n), rng.uniform(-1, 1, n)), qfrc=f)
            c.gather()
            M, a, bias = c.field("M"), c.field("qacc")[:, 0], c.field("qfrc_bias")[:, 0]
            identity = max(identity, apart(M @ a + bias, f + c.field("qfrc_passive")[:, 0]))
            symmetric, least = max(symmetric, np.abs(M - M.T).max()), min(least, np.linalg.eigvalsh(M)[0])
        q, v, f = rng.uniform(-1, 1, n), rng.uniform(-1, 1, n), rng.standard_normal(n)
        x, h = c.state(q, v), 0.0005
        _, _, record = c.step_recorded(x, qfrc=f)
        A = c.jacobian(record, qfrc=f)[0][n:]
        force = np.stack([c.vjp(record, np.concatenate([np.zeros(n), e]), qfrc=f)["qfrc"] for e in np.eye(n)])
        speed = lambda s, g: c.parts(c.step(s, qfrc=g)[0])[1]
        eye = np.eye(n)
        dq = np.stack([slope(lambda t: speed(c.state(q + t * e, v), f), 1e-3) for e in eye], 1)
        dv = np.stack([slope(lambda t: speed(c.state(q, v + t * e), f), 1e-3) for e in eye], 1)
        df = np.stack([slope(lambda t: speed(x, f + t * e), 1e-3) for e in eye], 1)
        unit = lambda got, want, keep: apart((got - keep) / h, (want - keep) / h)
        long = []
        for k in (32, 128):
            bench.write("long.xml", chain(k))
            big = inside.Model(bench.path("long.xml"))
            long.append(lambda big=big, y=big.state(np.full(k, 0.02), np.zeros(k)): [big.step(y) for _ in range(20)])
    growth = np.log(ratio(*long, 51)) / np.log(4)
    return [
        below("double pendulum's acceleration against Lagrange's, 100 states, relative", worst, 1e-9),
        below("chain of 32: M a + c - f, relative", identity, 1e-10),
        below("chain of 32: asymmetry of M", symmetric, 1e-14),
        row("chain of 32: least eigenvalue of M", least, "> 0", least > 0),
        below("chain of 32: d(a)/d(q) against differences", unit(A[:, :n], dq, 0), 1e-7),
        below("chain of 32: d(a)/d(v) against differences", unit(A[:, n:2 * n], dv, eye), 1e-7),
        below("chain of 32: d(a)/d(f) against differences", unit(force, df, 0), 1e-7),
        timing("exponent of a step's time in the length of a chain, 32 to 128, median of 51 pairs", growth, "<= 2 (a chain's factor has n^2 / 2 entries)", growth <= 2),
    ]
