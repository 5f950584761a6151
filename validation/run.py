#!/usr/bin/env python3
"""Runs the cases and keeps what they measured in results.csv.   validation/run.py [--case NAME]

A case is a file NAME.py with rows(), which measures with the program or the library and returns (quantity, measured, required,
holds) rows. The exit code is 1 if a row does not hold, or a case fails.
"""
import argparse
import csv
import glob
import importlib
import os
import re
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
COLUMNS = ["case", "quantity", "measured", "required", "holds"]


def cases():
    names = [os.path.basename(p)[:-3] for p in glob.glob(os.path.join(HERE, "[A-Z]*.py"))]
    return sorted(names, key=lambda n: (re.match("[A-Z]+", n)[0] == "K", re.match("[A-Z]+", n)[0], int(re.search(r"\d+", n)[0])))


def measure(name):
    try:
        found = importlib.import_module(name).rows()
    except Exception as error:  # a case that cannot be measured is a row that does not hold
        found = [("measured at all", f"{type(error).__name__}: {error}", "yes", False)]
    text = lambda x: x if isinstance(x, str) else f"{x:.9g}"
    return [[name, q, text(m), text(r), "yes" if h else "NO"] for q, m, r, h in found]


def document(rows):
    """The same as a page of the docs."""
    cell = lambda x: x.replace("|", "\\|")
    with open(os.path.join(os.path.dirname(HERE), "docs", "validation.md"), "w", encoding="utf-8") as f:
        f.write("# Validation\n\nEach case is a file of `validation/`; `make validate` measures them all anew, `make validate CASE=R2` one of them. "
                "Written\nby that command, from `validation/results.csv`. \"Reported\" means that nothing is required of the number.\n"
                "Some claims are rows of other cases: initial conditions (K1) in R2 and PDT1, masses (K5) in L3, implicit differentiation (K30) in L2,\n"
                "relaxed contact (K31) in PDJ1, elastic deformation (K35) in E5,\noptimisation of materials (K42) in K10.\n\n"
                "| case | quantity | measured | required | holds |\n|---|---|---|---|---|\n")
        f.writelines("| " + " | ".join(map(cell, r)) + " |\n" for r in rows)


def main():
    parser = argparse.ArgumentParser(description="Measure the cases of validation/.")
    parser.add_argument("--case", action="append", help="only this one (repeatable)")
    wanted = parser.parse_args().case or cases()
    sys.path.insert(0, HERE)
    unknown = set(wanted) - set(cases())
    if unknown:
        sys.exit(f"no case {', '.join(sorted(unknown))}; there are {', '.join(cases())}")
    path = os.path.join(HERE, "results.csv")
    kept = []
    if os.path.exists(path):
        with open(path, newline="", encoding="utf-8") as f:
            kept = [r for r in list(csv.reader(f))[1:] if r[0] not in wanted and r[0] in cases()]
    fresh = []
    for name in wanted:
        begin = time.monotonic()
        mine = measure(name)
        fresh += mine
        for r in mine:
            print(f"{r[0]:5} {r[4]:3} {r[1]}: {r[2]}  (required {r[3]})", flush=True)
        print(f"{name:5} {time.monotonic() - begin:.1f} s", file=sys.stderr)
    order = {n: k for k, n in enumerate(cases())}
    with open(path + ".new", "w", newline="", encoding="utf-8") as f:
        out = csv.writer(f, lineterminator="\n")
        out.writerow(COLUMNS)
        out.writerows(sorted(kept + fresh, key=lambda r: order[r[0]]))
    os.replace(path + ".new", path)
    document(sorted(kept + fresh, key=lambda r: order[r[0]]))
    failed = sum(r[4] != "yes" for r in fresh)
    print(f"{len(fresh)} rows, {failed} do not hold")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
