"""Meshes at rest

What stands on meshes stands still: a box, piles of five, a box between two pads, prisms of many corners, ten seconds after a second of settling,
beside the same of primitive geoms and beside MuJoCo. Soft friction creeps, in MuJoCo too; with method `cones` nothing does. In a twisted pile
faces cut each other to octagons, with whose eight corners both box geoms and meshes touch. Prisms come to rest however they arrive, those of
five and seven corners, too: lying flat they touch with all of them (in MuJoCo with four; where four carry the weight, one that is left out is
the deepest, and there is no rest)."""
import re

import mujoco
import numpy as np

from common import Bench, below, inside, reported, row
import test_mesh_contact as meshes
import test_polytopes as scenes

SETTLE, STEPS = 500, 5500  # of 2 ms
BELOW = {"a plane": 'type="plane" size="1 1 1"', "a box": 'type="box" size=".5 .5 .1" pos="0 0 -.1"', "a mesh": 'type="mesh" mesh="b" pos="0 0 -.1"'}
PRESS = np.full(2, 5.)


def states(bench, text, ctrl=None, contact=None):
    m = inside.Model(bench.write("scene.xml", text), contact=contact)
    controls = None if ctrl is None else np.tile(ctrl, (STEPS, 1))
    return m, inside.Rollout(m, STEPS).forward(m.init(), controls, states=True)


def moved(bench, text, bodies, **more):
    """How far the first free bodies get from where they have settled."""
    m, x = states(bench, text, **more)
    place = x[SETTLE:, m.slots["qpos"]][:, :7 * bodies].reshape(-1, bodies, 7)[:, :, :3]
    return float(np.linalg.norm(place - place[0], axis=2).max())


def moved_there(text, bodies, ctrl=None):
    """The same in MuJoCo."""
    m = mujoco.MjModel.from_xml_string(text)
    d, place = mujoco.MjData(m), []
    if ctrl is not None:
        d.ctrl[:] = ctrl
    for k in range(STEPS):
        mujoco.mj_step(m, d)
        if k >= SETTLE - 1:
            place.append(d.qpos[:7 * bodies].reshape(bodies, 7)[:, :3].copy())
    return float(np.linalg.norm(np.array(place) - place[0], axis=2).max())


def twisted(text):
    """Every body of a pile turned by some degrees more."""
    turns = iter(range(100))
    return re.sub(r'<body pos="([^"]*)">', lambda found: f'<body pos="{found[1]}" euler="0 0 {7 * next(turns)}">', text)


def piles(bench):
    out = []
    for name, change in (("five boxes", lambda t: t), ("five twisted boxes", twisted)):
        text = {kind: change(scenes.pile(5, kind, BELOW["a box"])) for kind in ("mesh", "box")}
        mesh, box = (moved(bench, text[kind], 5) for kind in ("mesh", "box"))
        there = {kind: moved_there(text[kind], 5) for kind in ("mesh", "box")}
        if change is twisted:
            out.append(below(f"{name}: drift of meshes by that of meshes in MuJoCo", mesh / there["mesh"], 1))
        else:
            out.append(row(f"{name}: drift of meshes by that of box geoms", mesh / box, "1 +- 0.1", abs(mesh / box - 1) <= .1))
        out.append(reported(f"{name}: drift of meshes and of box geoms, m; in MuJoCo", f"{mesh:.3g}, {box:.3g}; {there['mesh']:.3g}, {there['box']:.3g}"))
        out.append(below(f"{name}: drift of meshes with method cones, m", moved(bench, text["mesh"], 5, contact={"method": "cones"}), 1e-4))
    return out


def gripped(bench):
    text = scenes.grip("mesh")
    here, there = moved(bench, text, 1, ctrl=PRESS), moved_there(text, 1, PRESS)
    return [row("gripped box: slip by that in MuJoCo", here / there, "1 +- 0.1", abs(here / there - 1) <= .1), reported("gripped box: slip in 10 s, m", here),
            below("gripped box: slip with method cones, m", moved(bench, text, 1, ctrl=PRESS, contact={"method": "cones"}), 1e-4)]


ARRIVALS = [(tilt, towards) for tilt in (1e-4, 1e-2, .2) for towards in (0, .3, 1, 2)]


def rocking(m, x):
    return float(np.abs(x[2 * SETTLE:, m.slots["qvel"]]).max())


def prisms(bench):
    """Largest speeds of prisms that stand, after settling for 2 s."""
    out = []
    for corners in (6, 10, 24, 64):
        flat, tilted = rocking(*states(bench, meshes.standing(corners))), [rocking(*states(bench, meshes.standing(corners, *a))) for a in ARRIVALS]
        name = f"a prism of {corners} corners: largest speed, m/s and rad/s, "
        out += [below(name + "set down flat", flat, 1e-5), below(name + f"let go tilted by 1e-4 to .2, largest of {len(tilted)}", max(tilted), 1e-5)]
    for corners in (5, 7):
        text = meshes.standing(corners, 1e-2, 1)
        hard, soft = rocking(*states(bench, text, contact={"method": "cones"})), rocking(*states(bench, text))
        name = f"a prism of {corners} corners let go tilted: largest speed, m/s and rad/s, "
        out += [below(name + "method cones", hard, 1e-5), below(name + "soft", soft, 1e-5), reported(name + "soft, in MuJoCo", float(rocking_there(text)))]
    return out


def rocking_there(text):
    m = mujoco.MjModel.from_xml_string(text)
    d, most = mujoco.MjData(m), 0
    for k in range(STEPS):
        mujoco.mj_step(m, d)
        most = max(most, np.abs(d.qvel).max()) if k >= 2 * SETTLE else most
    return most


def rows():
    with Bench() as bench:
        out = [below(f"a box on {name}: way in 10 s, m", moved(bench, scenes.pile(1, "mesh", under), 1), 1e-9) for name, under in BELOW.items()]
        return out + piles(bench) + gripped(bench) + prisms(bench)
