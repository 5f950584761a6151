"""Block at the edge of sliding

A block under a force at the edge of sliding: d(sliding distance)/d(force) is a step for exact contact, and smoothed contact converges to it."""
import numpy as np

from common import Bench, below, row, slope
import pullback as pb

# Dojo's contact_gradients: one step of 0.1 s from rest under a force along the ground; mass, gravity and friction 1.
BLOCK = """<mujoco><option timestep="0.1" gravity="0 0 -1" cone="elliptic"><flag refsafe="disable"/></option><worldbody><geom type="plane"
size="0 0 1" friction="1 0 0"/><body pos="0 0 .0999"><joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 0 1"/>
<geom type="box" size=".1 .1 .1" mass="1" friction="1 0 0"/></body></worldbody></mujoco>"""
SOFTNESS = 1e-9  # R of a row: the distance of soft rows from hard ones
FORCES = np.linspace(0.5, 1.5, 41)
RELAXATIONS = [10.0**-k for k in range(3, 9)]  # force times residual along the path: kappa / R


class Block:
    def __init__(self, path, relaxation, **settings):
        self.m = pb.load(path, contact=settings or {"erp": 0, "cfm": SOFTNESS * 0.1, "kappa": SOFTNESS * relaxation})

    def step(self, force):
        return self.m.rollout(self.m.init(), qfrc_applied=[[force, 0]])

    def distance(self, force):
        return self.step(force).qpos[-1, 0]

    def gradient(self, force):
        return self.step(force).vjp(qpos=[1, 0]).qfrc_applied[0, 0]


def rows():
    h = 0.1
    away = np.abs(FORCES - 1) > 0.04  # at the threshold itself no slope is right
    with Bench() as bench:
        path = bench.write("block.xml", BLOCK)
        exact = Block(path, 0)
        coulomb = Block(path, 0, method="cones", erp=0.2, cfm=0)
        hard = np.array([coulomb.gradient(F) for F in FORCES])[away]
        soft = {k: Block(path, k) for k in RELAXATIONS}
        step = np.where(FORCES > 1, h * h / 2, 0)  # associated friction: a sliding block lifts off as fast as it slides
        sharp = np.array([exact.gradient(F) for F in FORCES])[away]
        curves = np.array([[b.gradient(F) for F in FORCES] for b in soft.values()])
        differences = np.array([slope(lambda t: b.distance(F + t), 1e-4) for F in FORCES[away] for b in (soft[1e-3], soft[1e-5])])
        own = np.array([b.gradient(F) for F in FORCES[away] for b in (soft[1e-3], soft[1e-5])])
    errors = np.abs(curves - step)[:, away] / (h * h)
    orders = np.log10(errors[:-1] / errors[1:])
    return [
        below("hard contact (method cones): d(distance)/d(force) against Coulomb's step 0, h^2 at F = mu N, relative to h^2",
              float(np.abs(hard - 2 * step[away]).max() / h**2), 1e-9),
        below("hardest soft rows: the same against 0, h^2/2 (associated friction: sliding it lifts off), relative to h^2", float(np.abs(sharp - step[away]).max() / h**2), 1e-6),
        row("relaxed: the slope grows with the force, at every relaxation", "yes" if np.all(np.diff(curves) > 0) else "no", "yes", np.all(np.diff(curves) > 0)),
        row("relaxed: its error falls with the relaxation, at every force", "yes" if np.all(np.diff(errors, axis=0) < 0) else "no", "yes", np.all(np.diff(errors, axis=0) < 0)),
        row(f"order of that error in the relaxation, 1e-6 .. 1e-8, {away.sum()} forces", f"{orders[3:].min():.4f} .. {orders[3:].max():.4f}", "1 +- 0.01", np.abs(orders[3:] - 1).max() <= 0.01),
        row("worst error at relaxations " + ", ".join(f"{k:g}" for k in RELAXATIONS), ", ".join(f"{e:.2g}" for e in errors.max(1)), "reported", True),
        below("relaxed: gradient against differences of the step, relative to h^2", float(np.abs(own - differences).max() / h**2), 1e-6),
    ]
