#!/usr/bin/env python3
"""The neo-Hookean tetrahedron as a formula (bench/energy.c): table, and bench/results/energy.csv.

    bench/energy.py [--build DIR] [--compiler CC]
"""
import argparse
import csv
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
COLUMNS = ["formula", "quantity", "figure", "required", "holds"]
REQUIRED = {"interpreted / emitted": ("<=", 3.0), "dual numbers / interpreted": (">=", 20.0), "creation ms": ("<=", 5.0)}


def judge(quantity, figure):
    if quantity not in REQUIRED:
        return "", ""
    sign, limit = REQUIRED[quantity]
    return f"{sign} {limit}", "yes" if (figure <= limit if sign == "<=" else figure >= limit) else "no"


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--build", default=str(ROOT / "build/release"))
    options.add_argument("--compiler", default="cc")
    o = options.parse_args()
    run = subprocess.run([f"{o.build}/bench/energy", o.compiler], capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"energy: {run.stderr.strip()}")
    rows = []
    for line in run.stdout.splitlines():
        formula, quantity, figure = line.split(",")
        rows.append([formula, quantity, figure, *judge(quantity, float(figure))])
    for row in rows:
        print(f"{row[0]:16} {row[1]:44} {row[2]:>9}  {row[3]:>8} {row[4]}")
    with open(ROOT / "bench/results/energy.csv", "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([COLUMNS, *rows])
    return any(row[-1] == "no" for row in rows)


if __name__ == "__main__":
    sys.exit(main())
