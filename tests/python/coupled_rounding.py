"""Steps of bodies that carry deformables, very many of them: at rounding a step is decided as elsewhere, none is refused.

  python tests/python/coupled_rounding.py [--seed S] [--steps N] [--scenes K]      with the package of a build on PYTHONPATH

A soft body hangs on a body that moves, by joints, laws, meshes, places and stiffnesses drawn for each scene, no contact, settings as they come. How far
Newton's method gets is then a matter of rounding alone: of the sizes of what is stored, of how far from the origin it is, of forces that cancel. The
steps are shared out evenly; every SPELL steps a scene starts anew, with other velocities, so that swinging, settling and rest all occur.
Ends with 1 where a step is refused.
"""
import argparse
import os
import sys
import time

import numpy as np

import pullback as pb

SCENES, SPELL = 60, 500
JOINTS = {"hinge": "<joint axis='.1 1 .2' armature='.001'/>", "damped hinge": "<joint axis='0 1 0' damping='.02' armature='.001'/>",
          "slide": "<joint type='slide' axis='.2 .1 1' stiffness='200' damping='.1'/>", "ball": "<joint type='ball' armature='.0005'/>",
          "two hinges": "<joint axis='0 1 0' armature='.001'/><joint axis='0 0 1' pos='.2 0 0' armature='.001' damping='.001'/>", "free": "<freejoint/>"}
LAWS = ["neo_hookean", "corotated", "stvk", "linear", "neo_hookean_log"]
SHAPES = ["bar", "bar", "sheet", "rope"]


def soft(rng, place):
    """A bar, a sheet or a rope from x = 0 on, glued to the arm where it begins."""
    shape, young = str(rng.choice(SHAPES)), float(np.exp(rng.uniform(np.log(3e3), np.log(1e6))))
    if shape == "bar":
        mesh = {"box": {"size": [.2, .06, .03], "cells": [int(rng.integers(2, 6)), 2, 1], "split": str(rng.choice(["five", "six"]))}}
        law = str(rng.choice(LAWS))
        more = {"energies": [{"energy": law, "name": "m", "parameters": {"young": young, "poisson": float(rng.uniform(.1, .4)), "density": 1000}}]}
    elif shape == "sheet":
        law = "membrane_stvk"
        mesh = {"grid": {"u": [.2, 0, .02], "v": [0, .15, 0], "cells": [int(rng.integers(2, 5)), 3]}}
        # Stiffer against folds than against stretch, a sheet crushes triangles to lines, where the angle of a fold jumps and with it the energy.
        bending = min(float(np.exp(rng.uniform(-12, -7))), 1e-8 * young)
        more = {"energies": [{"energy": law, "name": "m", "parameters": {"young": young, "poisson": .3, "thickness": 1e-3, "density": 300}},
                             {"energy": "bending_angle", "name": "b", "parameters": {"bending": bending}}]}
    else:
        law = "spring"
        mesh = {"chain": {"from": [0, 0, 0], "to": [.2, 0, .03], "edges": int(rng.integers(3, 9))}}
        more = {"mass": .05, "energies": [{"energy": law, "name": "m", "parameters": {"stiffness": young / 100}}]}
    glue = [{"points": {"box": [[None, None, None], [1e-9, None, None]]}, "body": "arm"}]
    return f"{shape} of {law}, {young:.3g} Pa", {"name": "s", "pos": place, "mesh": mesh, "attach": glue, **more}


def build(seed, k):
    """The scene in words, and its model."""
    rng = np.random.default_rng([seed, k])
    place = (rng.uniform(-1, 1, 3) * rng.choice([0, 1, 10])).tolist()
    joint, h, mass = list(JOINTS)[k % len(JOINTS)], float(rng.choice([.002, .005, .01])), float(rng.uniform(.1, 1))
    words, body = soft(rng, place)
    fall = "0 0 0" if joint == "free" else "0 0 -9.81"  # what falls for ever is only ever further from the origin
    x, y, z = place
    xml = (f"<mujoco><option timestep='{h}' gravity='{fall}'/><worldbody><body name='arm' pos='{x - .2!r} {y!r} {z!r}'>{JOINTS[joint]}"
           f"<geom type='capsule' fromto='0 0 0 .2 0 0' size='.02' mass='{mass!r}'/></body></worldbody></mujoco>")
    return f"scene {k}: {joint}, {words}, h = {h} s, {np.linalg.norm(place):.2g} m from the origin", pb.loads(xml, deformables={"bodies": [body]})


def walk(seed, k, steps):
    """(steps made, steps refused, what the first of these said) of a scene; after a refusal the next spell begins."""
    words, model = build(seed, k)
    rng = np.random.default_rng([seed, k, 1])
    made = refused = 0
    said = ""
    while made + refused < steps:
        start, spell = model.init(), min(SPELL, steps - made - refused)
        start.qvel[:] = rng.normal(size=model.nv) * rng.choice([0, .1, 1])
        try:
            model.rollout(start, steps=spell, keep=False, outputs=())
            made += spell
        except pb.StepError as error:
            said = said or f"{words}: step {made + error.step}: {error}"
            made, refused = made + error.step, refused + 1
    return made, refused, said


def main():
    parser = argparse.ArgumentParser(description="Very many steps of bodies that carry deformables: none is refused.")
    parser.add_argument("--seed", type=int, default=int(os.environ.get("SEED", "0"), 36) % 2**32)
    parser.add_argument("--steps", type=int, default=1000000)
    parser.add_argument("--scenes", type=int, default=SCENES)
    asked = parser.parse_args()
    total = refusals = 0
    begin = time.monotonic()
    for k in range(asked.scenes):
        made, refused, said = walk(asked.seed, k, asked.steps // asked.scenes + (k < asked.steps % asked.scenes))
        total, refusals = total + made, refusals + refused
        if refused:
            print(f"{said}; {refused} refused in {made} steps", flush=True)
        if k % 10 == 9:
            print(f"{k + 1} of {asked.scenes} scenes, {total} steps in {time.monotonic() - begin:.0f} s", flush=True)
    print(f"seed {asked.seed}: {total} steps of {asked.scenes} scenes, {refusals} refused")
    return 1 if refusals or not total else 0


if __name__ == "__main__":
    sys.exit(main())
