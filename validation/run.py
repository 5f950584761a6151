#!/usr/bin/env python3
"""Measures the cases, keeps their rows in results.csv, and writes report.md of them.

  validation/run.py                      all of them; a run that was interrupted goes on where it was
  validation/run.py --case NAME ...      only these
  validation/run.py --quick [--seed S]   those that take under 10 s, in one process and the seed's order; nothing is written,
                                         and rows about time do not fail. Of the others: whose sources changed since they were measured
  validation/run.py --document           the report alone, from what is kept
  validation/run.py --list               codes and titles

A case is a file NAME.py with rows(), which measures with the program or the library and returns rows (common.py); its docstring is a
title, a blank line, and what it shows. cases.csv has each case's processor time and the hash of what it was measured with (provenance.py). The exit code is 1
if a row does not hold.
"""
import argparse
import ast
import csv
import glob
import importlib
import json
import os
import random
import re
import resource
import sys

import provenance

HERE = os.path.dirname(os.path.abspath(__file__))
COLUMNS = ["case", "quantity", "measured", "required", "holds"]
RESULTS, CASES = (os.path.join(HERE, name) for name in ("results.csv", "cases.csv"))
UNFINISHED = os.path.join(provenance.ROOT, "build", "validation.unfinished.json")
REPORT = os.path.join(HERE, "report.md")
QUICK = 10  # seconds


def cases():
    names = [os.path.basename(p)[:-3] for p in glob.glob(os.path.join(HERE, "[A-Z]*.py"))]
    return sorted(names, key=lambda n: (re.match("[A-Z]+", n)[0] == "K", re.match("[A-Z]+", n)[0], int(re.search(r"\d+", n)[0])))


def docstring(name):
    with open(os.path.join(HERE, name + ".py"), encoding="utf-8") as f:
        return [" ".join(part.split()) for part in (ast.get_docstring(ast.parse(f.read())) or "").split("\n\n")]


def title(name):
    """What a case is: the first line of its docstring."""
    return docstring(name)[0]


def words(name):
    """What a case shows: the first sentence below the title."""
    return re.match(r"(.*?\.)(\s|$)|.*", " ".join(docstring(name)[1:2]))[0].strip()


def long(name):
    """What a case says of its length (LONG in its file): until it has figures, quick runs only name it. None for the others."""
    with open(os.path.join(HERE, name + ".py"), encoding="utf-8") as f:
        found = re.search(r'^LONG = "(.*)"', f.read(), re.M)
    return found and found[1]


# ---- measuring --------------------------------------------------------------------------------------------------------------
def spent():
    """Processor time of this process and of the programs it ran."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def measure(name):
    """(rows, of them those about time, seconds)."""
    begin, text = spent(), lambda x: x if isinstance(x, str) else f"{x:.9g}"
    try:
        found = importlib.import_module(name).rows()
    except Exception as error:  # a case that cannot be measured is a row that does not hold
        import common
        found = [common.row("measured at all", f"{type(error).__name__}: {error}", "yes", False)]
    rows = [[name, r.quantity, text(r.measured), text(r.required), "yes" if r.holds else "NO"] for r in found]
    return rows, [row for row, r in zip(rows, found) if r.time], spent() - begin


def show(rows, seconds):
    for r in rows:
        print(f"{r[0]:5} {r[4]:3} {r[1]}: {r[2]}  (required {r[3]})", flush=True)
    print(f"{rows[0][0]:5} {seconds:.1f} s of processor time", file=sys.stderr, flush=True)


# ---- what is kept -----------------------------------------------------------------------------------------------------------
def read(path):
    if not os.path.exists(path):
        return []
    with open(path, newline="", encoding="utf-8") as f:
        return list(csv.reader(f))[1:]


def write(path, columns, rows):
    """All at once: a run that is killed leaves the old file or the new one."""
    with open(path + ".new", "w", newline="", encoding="utf-8") as f:
        out = csv.writer(f, lineterminator="\n")
        out.writerow(columns)
        out.writerows(rows)
    os.replace(path + ".new", path)


class Kept:
    """Rows, times and hashes of all cases, on disk after each of them."""

    def __init__(self):
        self.names = cases()  # a file that appears while they run is a case of the next run
        self.rows = {n: [r for r in read(RESULTS) if r[0] == n] for n in self.names}
        self.about = {r[0]: (float(r[1]), r[2]) for r in read(CASES) if r[0] in self.names}

    def put(self, name, rows, seconds):
        self.rows[name], self.about[name] = rows, (seconds, provenance.of(name))
        self.save()

    def save(self):
        write(RESULTS, COLUMNS, [r for n in self.names for r in self.rows[n]])
        write(CASES, ["case", "seconds", "hash"], [[n, f"{self.about[n][0]:.1f}", self.about[n][1]] for n in self.names if n in self.about])
        document(self)


def anchor(name):
    """Of a case's heading in the page, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", f"{name}: {title(name)}".lower()).replace(" ", "-")


def document(kept):
    """The report: all rows, with what each case shows."""
    cell = lambda x: x.replace("|", "\\|")
    lines = ["# Validation", "",
             "Each case is a file of `validation/`, named by a code; `validation/run.py --list` prints codes and titles. `make validate` measures all",
             "cases again, `make validate CASE=R2` one of them, and writes this report from `validation/results.csv`. \"Reported\" means that nothing is",
             "required of the number. Seconds are of processor time.",
             "Some claims are rows of other cases: initial conditions (K1) in R2 and PDT1, masses (K5) in L3, implicit differentiation (K30) in L2,",
             "relaxed contact (K31) in PDJ1, parameters of a gait (K62) in R5, elastic deformation (K35) in E5, robots that bend (K41) in E6,",
             "optimization of materials (K42) in K10.", "",
             "| case | title | what it shows | rows | seconds |", "|---|---|---|---|---|"]
    for n in kept.names:
        seconds = f"{kept.about[n][0]:.1f}" if n in kept.about else ""
        lines.append(f"| {n} | [{cell(title(n))}](#{anchor(n)}) | {cell(words(n))} | {len(kept.rows[n])} | {seconds} |")
    for n in kept.names:
        lines += ["", f"## {n}: {title(n)}", "", words(n), "", "| quantity | measured | required | holds |", "|---|---|---|---|"]
        lines += ["| " + " | ".join(map(cell, r[1:])) + " |" for r in kept.rows[n]]
        for image in sorted(glob.glob(os.path.join(HERE, "img", n + "-*.svg"))):  # as common.figure draws them
            lines += ["", f"![{title(n)}](img/{os.path.basename(image)})"]
    with open(REPORT, "w", encoding="utf-8") as f:
        f.write("\n".join(lines) + "\n")


# ---- the commands -----------------------------------------------------------------------------------------------------------
def unfinished():
    """Cases that an interrupted run of all measured, with their hashes."""
    if not os.path.exists(UNFINISHED):
        return {}
    with open(UNFINISHED, encoding="utf-8") as f:
        return json.load(f)


def measure_all():
    kept, done = Kept(), unfinished()
    done = {n: h for n, h in done.items() if n in kept.about and kept.about[n][1] == h == provenance.of(n)}
    if done:
        print(f"going on with an interrupted run: {len(done)} of {len(kept.names)} cases are measured", flush=True)
    failed = 0
    for k, name in enumerate(n for n in kept.names if n not in done):
        print(f"---- {name} ({len(done) + k + 1} of {len(kept.names)}): {title(name)}", flush=True)
        rows, _, seconds = measure(name)
        show(rows, seconds)
        kept.put(name, rows, seconds)
        bad = sum(r[4] != "yes" for r in rows)
        failed += bad
        if not bad:  # what did not hold is measured again
            with open(UNFINISHED + ".new", "w", encoding="utf-8") as f:
                json.dump({**unfinished(), name: kept.about[name][1]}, f)
            os.replace(UNFINISHED + ".new", UNFINISHED)
    if os.path.exists(UNFINISHED):
        os.remove(UNFINISHED)
    print(f"{len(kept.names)} cases, {sum(map(len, kept.rows.values()))} rows, {failed} do not hold")
    return failed


def measure_some(names):
    kept, failed = Kept(), 0
    for name in names:
        rows, _, seconds = measure(name)
        show(rows, seconds)
        kept.put(name, rows, seconds)
        failed += sum(r[4] != "yes" for r in rows)
    print(f"{failed} rows do not hold")
    return failed


def measure_quick(seed):
    kept, failed, late = Kept(), 0, 0
    never = [n for n in kept.names if n not in kept.about]
    for n in never:
        print(f"{n} was never measured: make validate CASE={n}" + (f" takes {long(n)}" if long(n) else ""))
    chosen = [n for n in kept.names if n in kept.about and kept.about[n][0] < QUICK]
    random.Random(seed).shuffle(chosen)
    print(f"{len(chosen)} cases of {len(kept.names)} take less than {QUICK} s each; seed {seed}: {' '.join(chosen)}", flush=True)
    begin = spent()
    for name in chosen:
        rows, timed, seconds = measure(name)
        bad = [r for r in rows if r[4] != "yes" and r not in timed]
        slow = [r for r in timed if r[4] != "yes"]
        print(f"{name:6} {len(rows) - len(bad) - len(slow):3} rows hold, {seconds:.1f} s", flush=True)
        for r in bad + slow:
            print(f"       {'does not hold' if r in bad else 'too slow here (reported)'}: {r[1]}: {r[2]}  (required {r[3]})", flush=True)
        failed, late = failed + len(bad), late + len(slow)
    stale = [n for n in kept.names if n in kept.about and n not in chosen and kept.about[n][1] != provenance.of(n)]
    if stale:
        print(f"measured with other sources than these: {' '.join(stale)}")
    print(f"{spent() - begin:.0f} s; {failed} rows do not hold; {late} are late")
    return failed + sum(not long(n) for n in never)


def main():
    parser = argparse.ArgumentParser(description="Measure the cases of validation/.")
    parser.add_argument("--case", action="append", help="only this one (repeatable)")
    parser.add_argument("--quick", action="store_true", help=f"those that take under {QUICK} s; nothing is written")
    parser.add_argument("--seed", default="0", help="of their order")
    parser.add_argument("--document", action="store_true", help="write the report alone")
    parser.add_argument("--list", action="store_true", help="print codes and titles")
    chosen = parser.parse_args()
    unknown = set(chosen.case or ()) - set(cases())
    if unknown:
        sys.exit(f"no case {', '.join(sorted(unknown))}; there are {', '.join(cases())}")
    if chosen.list:
        print("\n".join(f"{n:7}{title(n)}" for n in cases()))
        return 0
    if chosen.document:
        document(Kept())
        return 0
    failed = measure_quick(chosen.seed) if chosen.quick else measure_some(chosen.case) if chosen.case else measure_all()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
