#!/usr/bin/env python3
"""What the quadruped of make demo comes to from ten seeds, so that its bounds have a margin that was measured.

    tools/demo_seeds.py PROGRAM [BUILD] [SEED ...]     (BUILD: what the rows are called, "O3"; seeds: 0 to 9)

Rows of that build and these seeds are replaced in bench/results/demo_seeds.csv. Some 10 minutes on two idle cores.
"""
import csv
import os
import sys

import demo

PATH = os.path.join(demo.ROOT, "bench", "results", "demo_seeds.csv")
HEAD = ["build", "seed", "speed", "slowest", "lowest_trunk"]


def read():
    if not os.path.exists(PATH):
        return {}
    with open(PATH, newline="", encoding="utf-8") as f:
        return {(r["build"], int(r["seed"])): r for r in csv.DictReader(f)}


def write(rows):
    with open(PATH, "w", newline="", encoding="utf-8") as f:
        table = csv.DictWriter(f, HEAD, lineterminator="\n")
        table.writeheader()
        table.writerows(rows[key] for key in sorted(rows))


def main():
    os.makedirs(demo.OUT, exist_ok=True)
    build = sys.argv[2] if len(sys.argv) > 2 else "O3"
    for seed in [int(s) for s in sys.argv[3:]] or range(10):
        folder = demo.fresh("quadruped")
        demo.train(folder, "walk", "--seed", seed)
        _, speeds, low = demo.walk(folder)
        row = [build, seed, f"{sum(speeds) / len(speeds):.4f}", f"{min(speeds):.4f}", f"{low:.4f}"]
        print("  seed %d: %s m/s, slowest %s, lowest trunk %s m" % tuple(row[1:]), flush=True)
        rows = read()
        rows[build, seed] = dict(zip(HEAD, row))
        write(rows)


if __name__ == "__main__":
    main()
