"""Direction of friction on cone and pyramid

Direction of friction: a block that slides askew to the axes keeps its line on the cone, and leaves it on the pyramid."""
import numpy as np

from common import Bench, below, near, row

# Dojo's comparison of friction cones: mu = .25, v = (4, .8, 0).
MU, V, G, H = 0.25, np.array([4, 0.8]), 9.81, 0.002
BLOCK = """<mujoco><option timestep="{}" gravity="0 0 -{}" cone="{}"/><default><geom friction="{} 0 0" solref=".02 1" solimp=".99 .99 .001"/></default>
<worldbody><geom type="plane" size="0 0 1"/><body pos="0 0 .0999">{}<geom type="box" size=".1 .1 .1" mass="1"/></body></worldbody></mujoco>"""
FREE, UPRIGHT = "<freejoint/>", "".join(f'<joint type="slide" axis="{axis}"/>' for axis in ("1 0 0", "0 1 0", "0 0 1"))


def slide(bench, cone, joints, *words):
    """Until it rests: the way gone, the velocities in the plane, turns about the vertical."""
    velocity = [*V, 0, 0, 0, 0] if joints is FREE else [*V, 0]
    run = bench.simulate(bench.write("block.xml", BLOCK.format(H, G, cone, MU, joints)), "--steps", 1200, *words, init={"qvel": velocity})
    turn = 2 * np.arcsin(run["qpos"][:, 6]) if joints is FREE else np.zeros(1)
    return run["qpos"][-1, :2] - run["qpos"][0, :2], run["qvel"][:, :2], float(np.degrees(np.abs(turn).max()))


def off(a):
    """Angle to the line of the start [degrees]."""
    return np.degrees(np.abs(np.arctan2(a[..., 0] * V[1] - a[..., 1] * V[0], a @ V)))


def rows():
    with Bench() as bench:
        way, velocity, _ = slide(bench, "elliptic", UPRIGHT)
        pyramid_way, pyramid_velocity, _ = slide(bench, "pyramidal", UPRIGHT)
        free_way, _, free_turn = slide(bench, "elliptic", FREE)
        hard_way, hard_velocity, hard_turn = slide(bench, "elliptic", FREE, "--contact", "method=cones")
    moving = lambda v: v[np.linalg.norm(v, axis=1) > 0.02 * np.linalg.norm(V)]
    rest = float(max(np.abs(velocity[-1]).max(), np.abs(pyramid_velocity[-1]).max()))
    drift = float(off(pyramid_way))
    return [
        below("cone: the whole way off the line of the start [degrees]", float(off(way)), 0.1),
        below("cone: the velocity off that line, down to 2 % of the speed [degrees]", float(off(moving(velocity)).max()), 0.1),
        near("cone: length of the way [m]", float(np.linalg.norm(way)), float(V @ V) / (2 * MU * G), 0.02),
        row("pyramid: the whole way off the line [degrees]", drift, "> 1 (it drifts)", drift > 1),
        row("pyramid: the velocity off the line [degrees]", float(off(moving(pyramid_velocity)).max()), "reported", True),
        below("speed at the end [m/s]", rest, 1e-3),
        below("hard contact (method cones), block free to turn: the whole way off the line [degrees]", float(off(hard_way)), 0.1),
        below("... the velocity off the line, down to 2 % of the speed [degrees]", float(off(moving(hard_velocity)).max()), 0.1),
        below("... turn of the block [degrees]", hard_turn, 0.1),
        near("... length of the way [m]", float(np.linalg.norm(hard_way)), float(V @ V) / (2 * MU * G), 0.02),
        row("soft cone, block free to turn (it hops, associated friction): way off the line, turn [degrees]", f"{off(free_way):.3g}, {free_turn:.3g}", "reported", True),
    ]
