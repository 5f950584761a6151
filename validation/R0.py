"""Free flight and collisions of bodies

Bodies in free flight and in collision: what an engine without gyroscopic torque, or with spheres on a plane only, cannot do."""
import numpy as np
from scipy.special import ellipk

from common import Bench, below, row
import inside

INERTIA = np.array([0.1, 0.2, 0.3])
FREE = f"""<mujoco><option timestep="0.001" gravity="0 0 0" integrator="RK4"/><worldbody><body><freejoint/>
<inertial pos="0 0 0" mass="1" diaginertia="{INERTIA[0]} {INERTIA[1]} {INERTIA[2]}"/></body></worldbody></mujoco>"""
SHAPES = {"sphere": 'size=".2"', "box": 'size=".2 .15 .25"', "capsule": 'size=".12 .2"', "cylinder": 'size=".15 .2"',
          "ellipsoid": 'size=".15 .2 .25"'}
PAIRS = [("sphere", "sphere"), ("sphere", "box"), ("sphere", "capsule"), ("sphere", "cylinder"), ("capsule", "capsule"),
         ("capsule", "box"), ("box", "box"), ("box", "cylinder"), ("ellipsoid", "box"), ("cylinder", "capsule")]


def rotate(q, v):
    w, u = q[:, :1], q[:, 1:]
    return v + 2 * np.cross(u, np.cross(u, v) + w * v)


def flips(bench):
    spin = np.array([0.01, 5.0, 0.01])
    run = bench.simulate("free.xml", "--steps", 10000, init={"qvel": np.concatenate([[0.3, 0, 0], spin])})
    w = run["qvel"][:, 3:]
    momentum = rotate(run["qpos"][:, 3:7], w * INERTIA)
    drift = np.linalg.norm(momentum - momentum[0], axis=1).max() / np.linalg.norm(momentum[0])
    t, y = run["time"], w[:, 1]
    cross = [t[k] - y[k] * (t[k + 1] - t[k]) / (y[k + 1] - y[k]) for k in range(len(t) - 1) if y[k] * y[k + 1] < 0]
    i1, i2, i3 = INERTIA
    square, energy = np.sum((INERTIA * spin)**2), np.sum(INERTIA * spin**2)
    if square < energy * i2:
        i1, i3 = i3, i1
    rate = np.sqrt((i3 - i2) * (square - energy * i1) / (i1 * i2 * i3))
    modulus = (i2 - i1) * (energy * i3 - square) / ((i3 - i2) * (square - energy * i1))
    return drift, np.mean(np.diff(cross)) / (2 * ellipk(modulus) / rate) - 1, len(cross)


def collide(bench, a, b):
    """Two bodies meet in free space: what becomes of their momentum, the worst residual of a step's solve, contacts seen."""
    body = lambda n, kind, x: f"""<body pos="{x} .03 .02" euler="20 30 {n}0"><freejoint/><geom type="{kind}" {SHAPES[kind]} mass="{n}"/></body>"""
    path = bench.write(f"{a}_{b}.xml", '<mujoco><option timestep="0.002" gravity="0 0 0" cone="elliptic"/><worldbody>' + body(1, a, 0) +
                       body(2, b, 0.7) + "</worldbody></mujoco>")
    m = inside.Model(path)
    x = m.init()
    x[m.slots["qvel"]] = [2, 0, 0, 0.5, -1, 0.3, -1, 0.1, 0, 0, 0.4, 1]
    mass = np.repeat([1.0, 2.0], 3)
    linear = lambda s: (mass * m.parts(s)[1][[0, 1, 2, 6, 7, 8]]).reshape(2, 3).sum(0)
    start, drift, residual, contacts = linear(x), 0.0, 0.0, 0
    for _ in range(250):
        x, _ = m.step(x)
        drift = max(drift, float(np.abs(linear(x) - start).max()))
        residual, contacts = max(residual, m.report().residual), max(contacts, m.report().contacts)
    return drift, residual, contacts


def rows():
    with Bench() as bench:
        bench.write("free.xml", FREE)
        drift, period, count = flips(bench)
        met = {pair: collide(bench, *pair) for pair in PAIRS}
    unmet = [" on ".join(p) for p, v in met.items() if v[2] == 0]
    return [
        below("angular momentum of a tumbling body over 10 s, relative drift", drift, 1e-10),
        below(f"time between {count} flips about the middle axis against its elliptic integral, relative", abs(period), 1e-3),
        row("pairs of shapes that met: " + ", ".join("-".join(p) for p in PAIRS), len(PAIRS) - len(unmet), str(len(PAIRS)), not unmet),
        below("momentum lost in these collisions [kg m/s]", max(v[0] for v in met.values()), 1e-10),
        below("worst relative residual of their solves", max(v[1] for v in met.values()), 1e-8),
    ]
