#!/usr/bin/env python3
"""What the policies of make demo come to from ten seeds with two optimization levels, so that their bounds have a margin that was measured.

    tools/demo_seeds.py PROGRAM [BUILD] [PART] [SEED ...]     (BUILD: what the rows are called, "O3"; PART: arm, quadruped; seeds: 0 to 9)

Rows of that build, part and these seeds are replaced in bench/results/demo_seeds.csv, which the demo's page tells and
tests/oracle/test_demo.py compares with the bounds (demo_parts.LEARNT). Of the arm some 2 minutes on two idle cores, of the quadruped some 10.
"""
import csv
import os
import sys

import demo_parts
import demo_run

PATH = os.path.join(demo_run.ROOT, "bench", "results", "demo_seeds.csv")
HEAD = ["part", "quantity", "build", "seed", "measured"]


def read():
    """{(part, quantity, build, seed): measured}"""
    if not os.path.exists(PATH):
        return {}
    with open(PATH, newline="", encoding="utf-8") as f:
        return {(r["part"], r["quantity"], r["build"], int(r["seed"])): float(r["measured"]) for r in csv.DictReader(f)}


def write(rows):
    with open(PATH, "w", newline="", encoding="utf-8") as f:
        table = csv.writer(f, lineterminator="\n")
        table.writerow(HEAD)
        table.writerows([*key, f"{rows[key]:.6g}"] for key in sorted(rows))


def measured(program, part, seed):
    """Learnt numbers of a part by name."""
    folder = demo_run.fresh(part)
    if part == "arm":
        program.train(folder, "reach", "--seed", seed)
        return {"hand": demo_parts.reach(program, folder)[0]}
    program.train(folder, "walk", "--seed", seed)
    _, speeds, low = demo_parts.walk(program, folder)
    return {"speed": sum(speeds) / len(speeds), "trunk": low}


def main(words):
    os.makedirs(demo_run.OUT, exist_ok=True)
    program, build = demo_run.Program(words[0]), words[1] if len(words) > 1 else "O3"
    for part in words[2:3] or ["arm", "quadruped"]:
        for seed in [int(s) for s in words[3:]] or range(10):
            found = measured(program, part, seed)
            print(f"  {part}, seed {seed}:", ", ".join(f"{name} {value:.4g}" for name, value in found.items()), flush=True)
            rows = read()
            rows.update({(part, name, build, seed): value for name, value in found.items()})
            write(rows)


if __name__ == "__main__":
    main(sys.argv[1:])
