#!/usr/bin/env python3
"""Speed beside MuJoCo, both in one process on one core (bench/steps.c): table, and bench/results/steps.csv. Hard contact beside
soft contact in a heap of boxes (bench/lcp.c): table, and bench/results/lcp.csv.

    bench/run.py [MODEL.xml ...] [--build DIR] [--repeats N]
Without models: Gymnasium's half-cheetah, ant and humanoid, and the tests' humanoid of 62 degrees of freedom.
"""
import argparse
import csv
import glob
import json
import pathlib
import resource
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
ASSETS = "build/venv/lib/python3*/site-packages/gymnasium/envs/mujoco/assets"
# Required ratios: Pullback's time by MuJoCo's step; of Jacobians mjd_transitionFD's time by Pullback's, at least.
SMALL = {"step": 1.0, "forward+backward": 1.5}
LARGE = {"step": 0.7, "vjp": 0.4, "vjp in a rollout": 0.4, "forward+backward": 1.0}
JACOBIAN = {6: 9, 14: 18, 23: 28, 62: 80}
LENGTHS = {"kept by thin": 1.03, "program: gradient by forward": 1.35}  # rollouts of 50 to 4 000 steps (bench/rollouts.c); at most
HARD = 5.0  # hard contact, solved and pulled back, by the soft step and its pullback without a helpful start; at most
LCP_COLUMNS = ["scene", "dof", "contacts", "quantity", "solve_us", "pullback_us", "iterations", "by_soft_cold", "by_soft_warm", "required", "holds"]
COLUMNS = ["model", "dof", "contacts", "quantity", "pullback_us", "mujoco_us", "ratio", "required", "holds"]


def models():
    assets = sorted(glob.glob(str(ROOT / ASSETS)))
    if not assets:
        sys.exit("bench/run.py: no gymnasium in build/venv (make bench puts it there)")
    names = [pathlib.Path(assets[-1]) / f"{n}.xml" for n in ("hopper", "half_cheetah", "ant", "humanoid")]
    return names + [ROOT / "tests/oracle/models/humanoid62.xml"]


def measure(program, model, repeats):
    run = subprocess.run([program, model, str(repeats)], capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"{model}: {run.stderr.strip()}")
    facts, times = {}, []
    for line in run.stdout.splitlines():
        if line.startswith("#"):
            _, key, value = line.split()
            facts[key] = float(value)
        else:
            quantity, ours, theirs = line.split(",")
            times.append((quantity, float(ours), float(theirs)))
    return facts, times


def hard_contact(build, line):
    """Rows of lcp.csv: the heap at the first moment at which it has 50 contacts and more."""
    program = [f"{build}/bench/lcp", str(ROOT / "bench/pile.xml"), "200"]
    facts, times = {}, {}
    for _ in range(5):  # least of some runs
        run = subprocess.run(program, capture_output=True, text=True)
        if run.returncode:
            sys.exit(f"hard contact: {run.stderr.strip()}")
        for text in run.stdout.splitlines():
            if text.startswith("#"):
                facts[text.split()[1]] = int(text.split()[2])
            else:
                name, solve, back, iterations = text.split(",")
                old = times.get(name, (1e300, 1e300, 0))
                times[name] = min(old[0], float(solve)), min(old[1], float(back)), int(iterations)
    soft = {name: sum(t[:2]) for name, t in times.items()}
    rows = []
    for name, (solve, back, iterations) in times.items():
        ratio, hard = (solve + back) / soft["soft step cold"], not name.startswith("soft")
        rows.append(["pile", facts["dof"], facts["contacts"], name, f"{solve:.0f}", f"{back:.0f}", iterations, f"{ratio:.2f}",
                     f"{(solve + back) / soft['soft step warm']:.2f}", f"<= {HARD}" if hard else "",
                     ("yes" if ratio <= HARD else "NO") if hard else ""])
        print(line.format(*rows[-1]))
    return rows


def judge(dof, quantity, ours, theirs):
    """ratio, required, holds, as they are printed."""
    if quantity.startswith(("rollout", "own: ")):  # beside single steps of our own
        ratio = ours / theirs
        required = 1.02 if quantity.endswith("without tape") else None
        return f"{ratio:.3f}", f"<= {required}" if required else "", ratio <= required if required else None
    if not theirs:
        return "", "", None
    if quantity == "jacobian":
        ratio, required = theirs / ours, JACOBIAN.get(dof)
        return f"{ratio:.1f}x", f">= {required}x" if required else "", ratio >= required if required else None
    ratio, required = ours / theirs, (LARGE if dof >= 20 else SMALL).get(quantity)
    return f"{ratio:.3f}", f"<= {required}" if required else "", ratio <= required if required else None


def lengths(build, line):
    """Rows of rollouts.csv: rollouts of several lengths with gradients, beside MuJoCo's forward; the program's `gradient` too."""
    rows = []
    for model in models()[1:4]:
        run = subprocess.run([f"{build}/bench/rollouts", str(model), "21"], capture_output=True, text=True)
        if run.returncode:
            sys.exit(f"{model}: {run.stderr.strip()}")
        values = [text.split(",") for text in run.stdout.splitlines()]
        theirs = {int(steps): float(value) for steps, quantity, value in values if quantity.startswith("their")}
        values += [("4000", "program: gradient by forward", program(build, model, 4000) / (4000 * theirs[4000]))] if theirs[4000] else []
        for steps, quantity, value in values:
            most = LENGTHS.get(quantity) if model.stem == "humanoid" or quantity == "kept by thin" else None
            rows.append([model.stem, steps, quantity, f"{float(value):.3f}", f"<= {most}" if most else "", ("yes" if float(value) <= most else "NO") if most else ""])
            print(line.format(*rows[-1]), flush=True)
    return rows


def program(build, model, steps):
    """CPU time [us] of `pullback gradient` by everything: the least of five runs."""
    best = 1e300
    with tempfile.TemporaryDirectory() as folder:
        controls, cotangent = pathlib.Path(folder) / "u.npy", pathlib.Path(folder) / "c.npz"
        info = json.loads(subprocess.run([f"{build}/pullback", "info", str(model), "--json"], capture_output=True, text=True, check=True).stdout)
        nu, nv, k = info["sizes"]["nu"], info["sizes"]["nv"], np.arange(steps)[:, None]
        np.save(controls, 0.1 * np.sin(0.02 * (1 + 0.13 * np.arange(nu)) * k + 2.4 * np.arange(nu)))
        np.savez(cotangent, qpos=np.ones(nv), qvel=np.ones(nv))
        for _ in range(5):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([f"{build}/pullback", "gradient", str(model), "--option", "integrator=Euler", "--option", "tolerance=1e-8", "--control", controls,
                            "--cotangent", cotangent, "-o", pathlib.Path(folder) / "g.npz"], check=True, capture_output=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            best = min(best, 1e6 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime))
    return best


def main():
    ask = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ask.add_argument("models", nargs="*")
    ask.add_argument("--build", default=str(ROOT / "build/release"))
    ask.add_argument("--repeats", type=int, default=40)
    ask = ask.parse_args()
    rows, line = [], "{:<14}{:>4}{:>9}  {:<22}{:>12}{:>12}{:>9}{:>9}  {}"
    print(line.format(*COLUMNS))
    for model in ask.models or models():
        facts, times = measure(f"{ask.build}/bench/steps", str(model), ask.repeats)
        dof, name = int(facts["dof"]), pathlib.Path(model).stem
        for quantity, ours, theirs in times:
            ratio, required, holds = judge(dof, quantity, ours, theirs)
            row = [name, dof, f"{facts['contacts']:.1f}", quantity, f"{ours:.2f}", "" if quantity.startswith("rollout") else f"{theirs:.2f}",
                   ratio, required, {True: "yes", False: "NO", None: ""}[holds]]
            rows.append(row)
            print(line.format(*row))
        print(f"  same piece by both: {facts['contacts']:.2f} and {facts['their_contacts']:.2f} contacts a step, "
              f"positions {facts['apart']:.0e} apart after 50 steps; {facts['iterations']:.1f} Newton iterations", flush=True)
    if not ask.models:
        with open(ROOT / "bench/results/steps.csv", "w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([COLUMNS] + rows)
        line = "{:<14}{:>4}{:>9}  {:<22}{:>12}{:>12}{:>11}{:>13}{:>13}{:>9}  {}"
        print(line.format(*LCP_COLUMNS))
        hard = hard_contact(ask.build, line)
        with open(ROOT / "bench/results/lcp.csv", "w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([LCP_COLUMNS] + hard)
        rows += hard
        line = "{:<14}{:>7}  {:<38}{:>9}{:>9}  {}"
        long = lengths(ask.build, line)
        with open(ROOT / "bench/results/rollouts.csv", "w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([["model", "steps", "quantity", "ratio", "required", "holds"]] + long)
        rows += long
    missed = [r for r in rows if r[-1] == "NO"]
    print(f"{len(rows)} measured, {len(missed)} short of what is required")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
