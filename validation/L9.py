"""Demos of lcp-physics, with assertions

The demos of lcp-physics with the assertions they never had: collisions, a clock, a slide, rollers, a chain, boxes welded together, and
hulls that spin for three minutes.

Not here: its tests of hulls as shapes (centroid, inertia, a hexagon on a ramp), since meshes are refused; the hulls are boxes. Links of the
chain meet the ball alone, there also each other but their neighbors. Parts of debug_demo are scenes of their own.
The chain whirls after the hit, and Euler's method gives it energy then, the less the shorter the steps: in the demo's own steps of 1/30 s it
doubles in 40 s, so there are shorter ones here.
"""
import numpy as np

from chain import PLANAR
from common import Bench, below, row
import chain
import discs
from L3 import drift

H, G = 1 / 30, 100
HARD = ("--contact", "method=cones", "--contact", "erp=0.2", "--contact", "cfm=0")
IMPACT = ("--contact", "method=impact")
WORLD = """<mujoco><option timestep="{h!r}" gravity="0 {g} 0" cone="elliptic" integrator="{integrator}"/><default><geom friction="{mu} 0 0" condim="3"/></default><worldbody>{bodies}
</worldbody>{more}</mujoco>"""


def world(bodies, mu=0.9, g=G, integrator="Euler", more=""):
    return WORLD.format(h=H, g=g, mu=mu, integrator=integrator, bodies=bodies, more=more)


def box(name, place, size, angle=0.0, joints=PLANAR):
    """A rectangle of mass 1 (joints "": fixed)."""
    inertia = (size[0]**2 + size[1]**2) / 12
    inertial = f'<inertial pos="0 0 0" mass="1" diaginertia="{inertia!r} {inertia!r} {inertia!r}"/>' if joints else ""
    return (f'<body name="{name}" pos="{place[0]!r} {place[1]!r} 0">{joints}{inertial}<geom name="{name}" type="box" '
            f'euler="0 0 {float(np.degrees(angle))!r}" size="{size[0] / 2} {size[1] / 2} 20"/></body>')


def disc(name, place, radius, joints=PLANAR):
    return (f'<body name="{name}" pos="{place[0]!r} {place[1]!r} 0">{joints}<inertial pos="0 0 0" mass="1" diaginertia="{radius**2 / 2} {radius**2 / 2} '
            f'{radius**2 / 2}"/><geom name="{name}" type="sphere" size="{radius}"/></body>')


def two_discs(bench):
    """Free collisions, straight and 10 px off, with and without spin: velocities and spins against the closed form."""
    worst = 0.0
    for offset, spin in ((0, 0), (10, 0), (10, 3), (35, -5)):
        text, words = discs.model([("a", (100, 100), 30, 1), ("b", (300, 100 + offset), 30, 1)], H)
        v, w = np.array([90.0, 0]), float(spin)
        end = bench.simulate(bench.write("two.xml", text), "--steps", 90, *IMPACT, *words, init={"qvel": [*v, w, 0, 0, 0]})["qvel"][-1]
        n = np.array([np.sqrt(60.0**2 - offset**2), offset]) / 60
        v1, w1, v2, w2 = discs.collide(v + 0j, w + 0j, np.zeros(2), 0, n, 30, 0.5, 0.9)
        worst = max(worst, float(np.abs(end - np.real([*v1, w1, *v2, w2])).max()))
    return below("two free discs, four collisions: velocities and spins against the closed form [px/s, rad/s]", worst, 1e-9)


def clock(bench):
    run = bench.simulate(bench.write("clock.xml", world(g=0, bodies=box("hand", (300.0, 300.0), (10, 100)))), "--steps", 300, *HARD,
                         init={"qvel": [0, 0, 1]})
    return [below("clock: spin less 1 rad/s over 10 s", float(np.abs(run["qvel"][:, 2] - 1).max()), 1e-12),
            below("clock: its angle after 10 s less 10 rad", float(abs(run["qpos"][-1, 2] - 10)), 1e-12)]


def slide(bench, mu, seconds):
    """Speed of a box dropped on a ramp of pi/32 (y points down, the ramp falls to the right)."""
    angle = np.pi / 32
    ramp = box("ramp", (500.0, 400.0), (900, 10), angle, "")
    text = world(mu=mu, bodies=ramp + box("box", (100.0, 100.0), (60, 60)))
    run = bench.simulate(bench.write("slide.xml", text), "--steps", round(seconds / H), *HARD)
    return run["qvel"][:, :2] @ [np.cos(angle), np.sin(angle)], np.linalg.norm(run["qvel"], axis=1)


def rollers(bench):
    """A plank on two rollers that turn in place, a ball on it, pushed for a second."""
    turn = '<joint type="hinge" axis="0 0 1"/>'
    bodies = disc("left", (50.0, 436.0), 30, turn) + disc("right", (800.0, 436.0), 30, turn) + box("plank", (425.0, 401 + 1e-8), (900, 10)) + \
        disc("ball", (425.0, 366 + 2e-8), 30)
    steps = 120
    push = np.zeros((steps, 8))
    push[30:60, 2] = 100
    bench.write("push.npy", push)
    run = bench.simulate(bench.write("rollers.xml", world(mu=1, bodies=bodies)), "--steps", steps, "--qfrc", "push.npy", *HARD)
    v = run["qvel"]
    slip = np.abs([v[:, 0] * 30 - v[:, 2], v[:, 1] * 30 - v[:, 2], v[:, 5] - 30 * v[:, 7] - v[:, 2]]).T  # the ball's lowest point has y > 0
    return v, slip


def hulls(bench, words):
    """Five rectangles, turning, fly at each other in empty space for 180 s: momenta, energies, collisions."""
    rng = np.random.default_rng(4)
    bodies, start, inertia = "", [], []
    for k in range(5):
        a, size = 2 * np.pi * k / 5, rng.uniform(40, 90, 2)
        out = np.array([np.cos(a), np.sin(a)])
        bodies += box(f"hull{k}", tuple(map(float, 200 * out)), tuple(map(float, size)), float(rng.uniform(0, 3)))
        start += [*(-rng.uniform(20, 40) * out), rng.uniform(-2, 2)]
        inertia.append(float(size @ size) / 12)
    run = bench.simulate(bench.write("hulls.xml", world(g=0, bodies=bodies)), "--steps", round(180 / H), *words, "--contact",
                         "restitution=0.5", init={"qvel": start})
    q, v = (run[k].reshape(-1, 5, 3) for k in ("qpos", "qvel"))
    place = q[..., :2] + [[200 * np.cos(2 * np.pi * k / 5), 200 * np.sin(2 * np.pi * k / 5)] for k in range(5)]
    momentum = v[..., :2].sum(1)
    spin = np.sum(place[..., 0] * v[..., 1] - place[..., 1] * v[..., 0] + np.array(inertia) * v[..., 2], -1)
    energy = 0.5 * np.sum(v[..., :2]**2, (1, 2)) + 0.5 * np.sum(np.array(inertia) * v[..., 2]**2, 1)
    met = np.any(np.abs(np.diff(v, axis=0)) > 1e-9, axis=2).sum() // 2
    return momentum, spin, energy, int(met)


def bounce(M, v, J, e, mu):
    """Velocities after an impact with Coulomb's friction; rows of J: speed of separation, tangential speed."""
    W = J @ (J / M).T  # M: the diagonal
    p = np.linalg.solve(W, -np.array([1 + e, 1]) * (J @ v))
    if abs(p[1]) > mu * p[0]:
        p = -(1 + e) * (J[0] @ v) / (W[0] @ [1, mu * np.sign(p[1])]) * np.array([1, mu * np.sign(p[1])])
    return v + J.T @ p / M


def fixed_ball(bench):
    """A ball falls on a fixed one, off by 1 px: place and velocity at 1 s less the closed form's."""
    run = bench.simulate(bench.write("fixed.xml", world(disc("ball", (300.0, 150.0), 20) + disc("fixed", (301.0, 230.0), 20, ""), integrator="RK4")),
                         "--steps", 30, *IMPACT, "--contact", "restitution=0.5")
    n = np.array([-1, -np.sqrt(40.0**2 - 1)]) / 40  # from the fixed ball to the other, at touch
    t = np.array([-n[1], n[0]])
    fall = 80 + 40 * n[1]
    after = bounce(np.array([1, 1, 200.0]), np.array([0, np.sqrt(2 * G * fall), 0]), np.array([[*n, 0], [*t, -20]]), 0.5, 0.9)
    left = 1 - np.sqrt(2 * fall / G)
    pull = np.array([0, G, 0])
    return np.abs(run["qpos"][-1] - ([0, fall, 0] + after * left + pull * left**2 / 2)).max(), np.abs(run["qvel"][-1] - after - pull * left).max()


def pivot(bench, words, equality=""):
    """A ball at 50 px/s hits a body that turns about the point (140, 220) beside its center, by a hinge or an equality: velocities, and the
    angular momentum about the point."""
    body = disc("body", (150.0, 230.0), 20, PLANAR if equality else '<joint type="hinge" axis="0 0 1" pos="-10 -10 0"/>')
    run = bench.simulate(bench.write("pivot.xml", world(disc("ball", (150.0, 150.0), 20) + body, g=0, more=equality)), "--steps", 60, *words,
                         "--contact", "restitution=0.5", init={"qvel": [0, 50, 0] + [0] * (3 if equality else 1)})
    q, v = run["qpos"], run["qvel"]
    about = (10 + q[:, 0]) * v[:, 1] - (q[:, 1] - 70) * v[:, 0] + 200 * v[:, 2]
    if equality:
        return v, about + (10 + q[:, 3]) * v[:, 4] - (10 + q[:, 4]) * v[:, 3] + 200 * v[:, 5]
    return v, about + 400 * v[:, 3]  # 200 + 10^2 + 10^2


def pivots(bench):
    """Of the hinge: velocities after the impact less the closed form's, change of the angular momentum; that of the equality in the step of impact."""
    v, about = pivot(bench, IMPACT)
    J = np.array([[0, -1, 0, 10], [1, 0, -20, -10]])  # touch at (150, 210); coordinates: x, y, turn of the ball, turn of the body
    after = bounce(np.array([1, 1, 200, 400]), v[0], J, 0.5, 0.9)
    held, whole = pivot(bench, HARD, '<equality><connect body1="body" anchor="-10 -10 0"/></equality>')
    struck = np.flatnonzero(held[:, 5])[0]
    return float(np.abs(v[-1] - after).max()), float(np.abs(about / 500 - 1).max()), float(abs(whole[struck] / 500 - 1))


def thrown(bench):
    """A spinning box thrown up: its spin, and its height against the parabola."""
    run = bench.simulate(bench.write("thrown.xml", world(box("box", (300.0, 500.0), (40, 40)), integrator="RK4")), "--steps", 300, *IMPACT,
                         init={"qvel": [0, -300, -1]})
    t = H * np.arange(301)
    return float(np.abs(run["qvel"][:, 2] + 1).max()), float(np.abs(run["qpos"][:, 1] + 300 * t - G / 2 * t**2).max())


def hit_chain(bench, substeps):
    """A ball at 200 px/s hits the last of ten hanging links, 40 s: drift of the joints, energy over what the push gave, first step after the hit."""
    h = H / substeps
    push = np.zeros((round(40 / h), 33))
    push[:3 * substeps, -3] = 2000
    bench.write("push.npy", push)
    run = bench.simulate(bench.write("chain.xml", chain.model([1.0] * 10, h=h)), "--steps", len(push), "--qfrc", "push.npy", "--contact", "method=cones",
                         "--contact", "erp=0.5", "--contact", "cfm=1e-12", "--contact", "restitution=0.9")
    q, v = (run[k].reshape(-1, 11, 3) for k in ("qpos", "qvel"))
    inertia = np.array([chain.link_inertia(1)] * 10 + [chain.BALL**2 / 2])
    energy = 0.5 * np.sum(v[..., :2]**2, (1, 2)) + 0.5 * v[..., 2]**2 @ inertia - G * q[:, 1:10, 1].sum(1)  # no gravity on the first, nor the ball
    return drift(run["qpos"]), energy / (0.5 * 200**2), 1 + int(np.flatnonzero(np.diff(v[:, 10, 0]) < -1)[0])


def welded(bench):
    """Two boxes that overlap, welded, fall on the ramp: drift of their relative pose [px, rad], speed at 20 s, angle to the ramp."""
    angle = np.pi / 32
    more = '<contact><exclude body1="left" body2="right"/></contact><equality><weld body1="left" body2="right"/></equality>'
    bodies = box("ramp", (500.0, 500.0), (900, 10), angle, "") + box("left", (120.0, 100.0), (60, 60)) + box("right", (160.0, 100.0), (60, 60))
    run = bench.simulate(bench.write("welded.xml", world(bodies, mu=0.15, more=more)), "--steps", 600, *HARD, "--contact", "restitution=0.5")
    left, right = np.split(run["qpos"], 2, axis=1)
    c, s = np.cos(left[:, 2]), np.sin(left[:, 2])
    off = np.array([40, 0]) + right[:, :2] - left[:, :2] - 40 * np.stack([c, s], -1)
    return float(np.linalg.norm(off, axis=1).max()), float(np.abs(right[:, 2] - left[:, 2]).max()), float(np.abs(run["qvel"][-1]).max()), \
        float(abs((left[-1, 2] - angle + np.pi / 4) % (np.pi / 2) - np.pi / 4))


def rows():
    with Bench() as bench:
        out = [two_discs(bench), *clock(bench)]
        _, whole = slide(bench, 0.15, 20)
        out.append(below("slide, mu = .15 > tan(pi/32): speed at 20 s [px/s]", float(whole[-1]), 1e-3))
        speed, _ = slide(bench, 0.05, 6)
        a, b = 90, 150
        measured, required = (speed[b] - speed[a]) / ((b - a) * H), G * (np.sin(np.pi / 32) - 0.05 * np.cos(np.pi / 32))
        out.append(row("slide, mu = .05: acceleration [px/s^2]", float(measured), f"{required:.6g} within 0.5 %", abs(measured / required - 1) <= 5e-3))
        v, slip = rollers(bench)
        touching = 90  # then the plank leaves the left roller
        out.append(below("rollers: slip of the plank on either roller, and of the ball on the plank [px/s]", float(slip[:touching].max()), 1e-6))
        out.append(row("rollers: speed of the plank after the push [px/s]", float(v[touching, 2]), "> 10", v[touching, 2] > 10))
        momentum, spin, energy, met = hulls(bench, IMPACT)
        out += [row("five hulls, 180 s: steps in which two met", met, ">= 3", met >= 3),
                below("... linear momentum, drift [px/s]", float(np.abs(momentum - momentum[0]).max()), 1e-9),
                below("... angular momentum, drift, relative", float(np.abs(spin / spin[0] - 1).max()), 1e-9),
                below("... most that the energy grows in a step, relative", float((np.diff(energy) / energy[0]).max()), 1e-12),
                row("... energy at the end / at the start", float(energy[-1] / energy[0]), "< 1", energy[-1] < energy[0])]
        place, speed = fixed_ball(bench)
        out += [below("ball on a fixed ball 1 px aside: place at 1 s against the closed form [px]", place, 1e-9),
                below("... velocity and spin [px/s, rad/s]", speed, 1e-9)]
        speed, hinge, equality = pivots(bench)
        out += [below("ball hits a body on an off-center joint: velocities against the closed form [px/s, rad/s]", speed, 1e-9),
                below("... angular momentum about the joint over 2 s, relative", hinge, 1e-12),
                below("... the joint as an equality, method cones: in the step of impact, relative", equality, 1e-9)]
        spin, height = thrown(bench)
        out += [below("spinning box thrown up, 10 s: change of its spin [rad/s]", spin, 1e-12),
                below("... height against the parabola [px]", height, 1e-9)]
        drifts, energy, hit = hit_chain(bench, 8)
        growth = lambda energy, hit: float(energy[hit:].max() / energy[hit] - 1)
        out += [below("chain hit by a ball, 40 s in steps of 1/240 s: joints' drift from their anchors [px]", drifts, 0.05),
                below("... most energy / that of the push", float(energy.max()), 1 + 1e-9),
                row("... after the hit", float(energy[hit]), "< 1", energy[hit] < 1),
                below("... its growth from there on, relative", growth(energy, hit), 0.01)]
        drifts, energy, hit = hit_chain(bench, 2)
        out += [row("... in steps of 1/60 s: drift [px]", drifts, "reported", True),
                row("... growth of energy after the hit (Euler's method on a whirling chain)", growth(energy, hit), "reported", True)]
        drifts, turn, speed, tilt = welded(bench)
        out += [below("two boxes welded fall on a ramp, mu = .15 > tan(pi/32): drift of their offset of 40 px [px]", drifts, 1),
                below("... of their angle [rad]", turn, 1e-8),
                below("... speed at 20 s [px/s, rad/s]", speed, 1e-3),
                below("... a side flat on the ramp [rad]", tilt, 1e-9)]
    return out
