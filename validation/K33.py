"""Gradients where contacts appear and vanish

A small change moves the time of a contact, or adds and removes one: gradients by events against the truth of many phases.

Truth is the slope of the mean over the phases of touch within a time step, by a difference of 12 (drop) and 16 mm (plane) of height.
The gradient is the mean over the same phases: mode exact misses that the moment of touch moves, mode event does not."""
import numpy as np

from common import Bench, below, row
import pullback as pb

DROP = """<mujoco><option timestep="{h}"><flag refsafe="disable"/></option><default><geom condim="1" solref="{solref}" solimp="{solimp}"/></default>
<worldbody><geom type="plane" size="1 1 .1"/><body pos="0 0 .1"><joint type="slide" axis="0 0 1"/><geom size=".1" mass="1"/></body></worldbody></mujoco>"""
PLANE = """<mujoco><option timestep="{h}" cone="{cone}"><flag refsafe="disable"/></option><default><geom friction=".5 .005 .0001" solref="{solref}"
solimp=".9 .95 .001"/></default><worldbody><geom type="plane" size="3 3 .1" euler="0 8 0"/><body pos="0 0 .6"><freejoint/>
<geom size=".1" mass="1"/></body></worldbody></mujoco>"""
FALL = 0.5  # m


def slopes(m, steps, h, qpos, qvel, seen, along, width, phases):
    """Slopes of what is seen of the last positions and velocities by the height qpos[along]: true, and by mode (means over phases); the
    certificate of one."""
    phase = (np.arange(phases) / phases - 0.5) * h * np.sqrt(2 * 9.81 * FALL)

    def run(shift, gradient="exact", keep=True):
        """All phases side by side."""
        start = m.init(batch=phases)
        start.qpos, start.qvel = qpos, qvel
        start.qpos[:, along] += phase + shift
        return m.rollout(start, steps=steps, gradient=gradient, keep=keep)

    last = lambda r: seen(r.qpos[:, -1], r.qvel[:, -1]).mean(0)
    true = (last(run(width, keep=False)) - last(run(-width, keep=False))) / (2 * width)
    found = []
    for mode in ("exact", "event"):
        with run(0, mode) as r:
            found.append(last(r.jvp(qpos=np.eye(m.nv)[along])))
            certificate = r.vjp(qpos=np.ones((phases, m.nv))).certificate[-1]
    return true, *found, certificate


def drop(bench, solref, solimp, h, phases):
    m = pb.load(bench.write("drop.xml", DROP.format(h=h, solref=solref, solimp=solimp)))
    return slopes(m, round(0.5 / h), h, [FALL], [0], lambda qpos, qvel: qpos, 0, 0.006, phases)


def plane(bench, cone, solref, h, phases):
    m = pb.load(bench.write("plane.xml", PLANE.format(h=h, cone=cone, solref=solref)))
    seen = lambda qpos, qvel: np.concatenate([qpos[:, [0, 2]], qvel[:, [0, 4]]], axis=1)  # x, z, vx, wy
    return slopes(m, round(0.45 / h), h, [0, 0, 0.6, 1, 0, 0, 0], [1, 0, 0, 0, 3, 0], seen, 2, 0.008, phases)


def rows():
    out = []
    text = lambda v: " ".join(f"{x:.3g}" for x in np.atleast_1d(v))
    with Bench() as bench:
        for name, solref, solimp, jumps, wrong in (("K = 1e5", "-1e5 0", ".95 .95 .001", True, 0.02), ("K = 1e5, B = 100", "-1e5 -100", ".95 .95 .001", True, 0.02),
                                                   ("K = 1e6, d(0) = 0 over 5 mm", "-1e6 0", "0 .95 .005", False, 0.01)):
            true, exact, event, c = drop(bench, solref, solimp, 1e-4, 100)
            out.append(row(f"drop, {name}, h = 1e-4: dz(T)/dz(0), exact / event / true", f"{text(exact)} / {text(event)} / {text(true)}", "reported", True))
            out.append(below(f"drop, {name}: error of event", abs(event - true)[0], wrong))
            out.append(row(f"drop, {name}: error of exact", abs(exact - true)[0], "> 1" if jumps else "<= 0.01", (abs(exact - true)[0] > 1) == jumps))
        for cone, solref, hs in (("elliptic", ".02 1", (2e-3, 2e-4)), ("pyramidal", "-2e4 -60", (2e-3, 2e-4))):
            worst = []
            for h in hs:
                true, exact, event, c = plane(bench, cone, solref, h, 60)
                scale = np.abs(exact - true)
                worst.append((np.abs(event - true) / scale).max())
                out.append(row(f"spinning ball on a tilted plane, {cone}, h = {h:g}: d(x, z, vx, wy)/dz(0), exact", text(exact), "reported", True))
                out.append(row(f"the same, event, {c['events']} of {c['onsets'] + c['releases']} events corrected", text(event), "reported", True))
                out.append(row("the same, true", text(true), "reported", True))
            out.append(below(f"{cone}, h = {hs[0]:g}: largest error of event, of that of exact", worst[0], 0.3))
            out.append(below(f"{cone}, h = {hs[1]:g}: the same", worst[1], 0.02))
    return out
