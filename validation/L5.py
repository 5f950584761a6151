"""Force inference through a collision

Force inference: the push on one disc that sends another, through their collision, to a given position at a given time (lcp-physics, grad_demo)."""
import numpy as np

from common import Bench, apart, below, row, slope
import discs

H, RADIUS, STEPS, PUSHED, E, MU = 1 / 30, 30, 210, 3, 0.5, 0.9
TARGET, FIRST, SECOND = np.array([500.0, 300]), np.array([250.0, 210]), np.array([400.0, 250])
# The target takes part in no collision.
DISCS = [("first", FIRST, RADIUS, 1), ("second", SECOND, RADIUS, 1), ("target", TARGET, RADIUS, 0)]
METHOD = ("--contact", "method=impact")
START = np.array([0, 300.0, 0])  # torque, force along x, force along y, as long as t < 0.1


def push(force):
    q = np.zeros((STEPS, 9))
    q[:PUSHED, :3] = force[1], force[2], force[0]
    return q


def truth(force):
    """Place of the second disc at t = 7 in closed form; forces may be complex."""
    force = np.asarray(force, complex)
    a = force[1:]
    v, w, x = PUSHED * H * a, PUSHED * H * force[0] / (RADIUS**2 / 2), FIRST + H * H * a * PUSHED * (PUSHED + 1) / 2
    away, rate = SECOND - x, -v  # |away + rate t| = 2 r
    A, B, C = rate @ rate, away @ rate, away @ away - 4 * RADIUS**2
    root = B * B - A * C
    if root.real <= 0 or B.real >= 0:
        return SECOND.astype(complex)
    t = (-B - np.sqrt(root)) / A
    n = (away + rate * t) / (2 * RADIUS)
    _, _, v2, _ = discs.collide(v, w, np.zeros(2), 0, n, RADIUS, E, MU)
    return SECOND + v2 * ((STEPS - PUSHED) * H - t)


class Scene:
    def __init__(self, bench):
        text, words = discs.model(DISCS, H, E, MU)
        self.bench, self.path, self.words = bench, bench.write("discs.xml", text), (*METHOD, *words)

    def run(self, force):
        self.bench.write("push.npy", push(force))
        q = self.bench.simulate(self.path, "--steps", STEPS, "--qfrc", "push.npy", *self.words)["qpos"]
        return q[-1, 3:5] + SECOND

    def jacobian(self, force, steps=STEPS, first=3):
        """d(place of the second disc, or another)/d(torque, force)"""
        self.bench.write("push.npy", push(force)[:steps])
        J = []
        for k in range(2):
            w = np.zeros(9)
            w[first + k] = 1
            g = self.bench.gradient(self.path, {"qpos": w}, "--steps", steps, "--qfrc", "push.npy", "--wrt", "qfrc", *self.words)["qfrc"][:PUSHED].sum(0)
            J.append([g[2], g[0], g[1]])
        return np.array(J)


def rows():
    with Bench() as bench:
        scene = Scene(bench)
        force, history = START.copy(), []
        while len(history) < 100:
            gap = scene.run(force) - TARGET
            history.append(float(np.linalg.norm(gap)))
            if history[-1] <= 1e-9:
                break
            J = scene.jacobian(force) * [10, 1, 1]  # torque in units of its own
            change, fraction = -np.linalg.pinv(J) @ gap * [10, 1, 1], 1.0
            while fraction > 1e-3 and np.linalg.norm(scene.run(force + fraction * change) - TARGET) >= history[-1]:
                fraction /= 2
            force = force + fraction * change
        within = next((k for k, d in enumerate(history) if d <= 1), 101)
        J = scene.jacobian(START)
        exact = np.array([truth(START + 1e-30j * e).imag / 1e-30 for e in np.eye(3)]).T
        D = np.array([slope(lambda t: scene.run(START + t * e), 1e-3) for e in np.eye(3)]).T
        early = scene.jacobian(START, 60, 0)  # of the first disc, before the collision
        free = np.zeros((2, 3))
        free[:, 1:] = np.eye(2) * H * H * (PUSHED * (PUSHED + 1) / 2 + PUSHED * (60 - PUSHED))
        scene_start = scene.run(START)
    return [
        row("distance from the target at the start [px]", history[0], "> 10", history[0] > 10),
        row("gradients until the distance is at most 1 px", within, "<= 100", within <= 100),
        below("distance at the end [px]", history[-1], 1),
        below("the answer in the closed form: distance [px]", float(np.linalg.norm(truth(force) - TARGET)), 1e-6),
        below("place after the collision against the closed form [px]", float(np.abs(scene_start - truth(START)).max()), 1e-9),
        below("gradient through the collision against the closed form, relative", apart(J, exact), 1e-9),
        below("... against differences, relative", apart(J, D), 1e-6),
        below("gradient before the collision against the closed form, relative", apart(early, free), 1e-12),
    ]
