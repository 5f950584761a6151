#!/usr/bin/env python3
"""Many worlds beside MuJoCo's own batch, and two threads beside one (bench/batch.c): table, and bench/results/batch.csv.

    bench/batch.py [MODEL.xml ...] [--build DIR] [--worlds N] [--repeats N]
Without models: Gymnasium's half-cheetah, ant and humanoid. CPU time a world and step.
"""
import argparse
import csv
import pathlib
import subprocess
import sys

from run import ROOT, models

REQUIRED = {"step beside mjb_step": 0.55, "rollout: two threads beside one": 1.05, "rollout with gradient: two threads beside one": 1.05}
COLUMNS = ["model", "worlds", "quantity", "pullback_us", "beside_us", "ratio", "required", "holds"]


def measure(program, model, worlds, repeats):
    run = subprocess.run([program, model, str(worlds), str(repeats)], capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"{model}: {run.stderr.strip()}")
    for line in run.stdout.splitlines():
        quantity, ours, beside = line.rsplit(",", 2)
        yield quantity, float(ours), float(beside)


def main():
    ask = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ask.add_argument("models", nargs="*")
    ask.add_argument("--build", default=str(ROOT / "build/release"))
    ask.add_argument("--worlds", type=int, default=128)
    ask.add_argument("--repeats", type=int, default=9)
    ask = ask.parse_args()
    rows, line = [], "{:<14}{:>7}  {:<46}{:>12}{:>11}{:>8}{:>10}  {}"
    print(line.format(*COLUMNS))
    for model in ask.models or models()[:3]:
        for quantity, ours, beside in measure(f"{ask.build}/bench/batch", str(model), ask.worlds, ask.repeats):
            if not beside:
                continue
            ratio, most = ours / beside, REQUIRED.get(quantity)
            rows.append([pathlib.Path(model).stem, ask.worlds, quantity, f"{ours:.2f}", f"{beside:.2f}", f"{ratio:.3f}", f"<= {most}" if most else "",
                         ("yes" if ratio <= most else "NO") if most else ""])
            print(line.format(*rows[-1]), flush=True)
    if not ask.models:
        with open(ROOT / "bench/results/batch.csv", "w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([COLUMNS] + rows)
    missed = [r for r in rows if r[-1] == "NO"]
    print(f"{len(rows)} measured, {len(missed)} short of what is required")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
