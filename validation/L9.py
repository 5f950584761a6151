"""The demos of lcp-physics with the assertions they never had: collisions, a clock, a slide, rollers, and hulls that spin for three minutes."""
import numpy as np

from chain import PLANAR
from common import Bench, below, row
import discs

H, G = 1 / 30, 100
HARD = ("--contact", "method=cones", "--contact", "erp=0.2", "--contact", "cfm=0")
IMPACT = ("--contact", "method=impact")
WORLD = """<mujoco><option timestep="{h!r}" gravity="0 {g} 0" cone="elliptic"/><default><geom friction="{mu} 0 0" condim="3"/></default><worldbody>{bodies}
</worldbody></mujoco>"""


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
    run = bench.simulate(bench.write("clock.xml", WORLD.format(h=H, g=0, mu=0.9, bodies=box("hand", (300.0, 300.0), (10, 100)))), "--steps", 300, *HARD,
                         init={"qvel": [0, 0, 1]})
    return [below("clock: spin less 1 rad/s over 10 s", float(np.abs(run["qvel"][:, 2] - 1).max()), 1e-12),
            below("clock: its angle after 10 s less 10 rad", float(abs(run["qpos"][-1, 2] - 10)), 1e-12)]


def slide(bench, mu, seconds):
    """Speed of a box dropped on a ramp of pi/32 (y points down, the ramp falls to the right)."""
    angle = np.pi / 32
    ramp = box("ramp", (500.0, 400.0), (900, 10), angle, "")
    text = WORLD.format(h=H, g=G, mu=mu, bodies=ramp + box("box", (100.0, 100.0), (60, 60)))
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
    run = bench.simulate(bench.write("rollers.xml", WORLD.format(h=H, g=G, mu=1, bodies=bodies)), "--steps", steps, "--qfrc", "push.npy", *HARD)
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
    run = bench.simulate(bench.write("hulls.xml", WORLD.format(h=H, g=0, mu=0.9, bodies=bodies)), "--steps", round(180 / H), *words, "--contact",
                         "restitution=0.5", init={"qvel": start})
    q, v = (run[k].reshape(-1, 5, 3) for k in ("qpos", "qvel"))
    place = q[..., :2] + [[200 * np.cos(2 * np.pi * k / 5), 200 * np.sin(2 * np.pi * k / 5)] for k in range(5)]
    momentum = v[..., :2].sum(1)
    spin = np.sum(place[..., 0] * v[..., 1] - place[..., 1] * v[..., 0] + np.array(inertia) * v[..., 2], -1)
    energy = 0.5 * np.sum(v[..., :2]**2, (1, 2)) + 0.5 * np.sum(np.array(inertia) * v[..., 2]**2, 1)
    met = np.any(np.abs(np.diff(v, axis=0)) > 1e-9, axis=2).sum() // 2
    return momentum, spin, energy, int(met)


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
    return out
