"""Crooked stack of ten boxes

Nonpenetration: a crooked stack of ten boxes stands for a minute, with either cone."""
import numpy as np

from common import Bench, below, row

BOXES, HALF, SECONDS, H = 10, 0.1, 60, 0.002
OVERLAP = 1e-6  # of hard boxes at first: at distance 0 there is no contact yet, and the whole stack would fall a step
MODEL = """<mujoco><option timestep="{}" cone="{}"/><default><geom solref=".004 1" solimp=".99 .999 .001"/></default><worldbody>
<geom type="plane" size="0 0 1"/>{}</worldbody></mujoco>"""


def model(cone, h=H, overlap=0.0):
    """No box stands straight above the one below: shifted by up to 1 cm, turned by up to 20 degrees."""
    rng = np.random.default_rng(0)
    body = '<body pos="{} {} {}" euler="0 0 {}"><freejoint/><geom type="box" size="{} {} {}" mass="1"/></body>'
    stack = [body.format(*rng.uniform(-0.01, 0.01, 2), HALF * (2 * k + 1) - overlap * (k + 1), rng.uniform(-20, 20), HALF, HALF, HALF) for k in range(BOXES)]
    return MODEL.format(h, cone, "\n".join(stack))


def rows():
    out = []
    with Bench() as bench:
        for cone in ("pyramidal", "elliptic"):
            run = bench.simulate(bench.write("stack.xml", model(cone)), "--steps", round(SECONDS / H))
            q = run["qpos"].reshape(-1, BOXES, 7)
            place, turn = q[..., :3], 2 * np.arccos(np.minimum(1, np.abs(np.sum(q[..., 3:] * q[0, :, 3:], -1))))
            sink = HALF - place[..., 0, 2], 2 * HALF - np.diff(place[..., 2], axis=-1)
            out += [
                below(f"{cone}: drift of the top of a crooked stack of ten over 60 s, from the first instant on [m]",
                      float(np.linalg.norm(place[:, -1] - place[0, -1], axis=-1).max()), 1e-3),
                below(f"{cone}: drift of any box, from second 1 on [m]", float(np.linalg.norm(place - place[500], axis=-1)[500:].max()), 1e-3),
                row(f"{cone}: turn of any box [rad]", float(turn.max()), "reported", True),
                below(f"{cone}: deepest penetration of two neighbors [m]", float(max(s.max() for s in sink)), 1e-3),
                below(f"{cone}: speed at the end [m/s, rad/s]", float(np.abs(run["qvel"][-1]).max()), 1e-6),
            ]
        run = bench.simulate(bench.write("stack.xml", model("elliptic", 0.01, OVERLAP)), "--steps", round(SECONDS / 0.01), "--contact", "method=cones")
        place = run["qpos"].reshape(-1, BOXES, 7)[..., :3]
        out += [below("hard contact (method cones): drift of the top over 60 s, from the first instant on [m]",
                      float(np.linalg.norm(place[:, -1] - place[0, -1], axis=-1).max()), 1e-3),
                below("hard contact: deepest penetration after second 1 [m]", float(max(HALF - place[100:, 0, 2].min(), 2 * HALF - np.diff(place[100:, :, 2]).min())), 1e-6)]
    return out
