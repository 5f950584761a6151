#!/usr/bin/env python3
"""Measures the cases, keeps their rows in results.csv, and writes report.md of them.

  validation/run.py                      all of them; a run that was interrupted goes on where it was
  validation/run.py --case NAME ...      only these
  validation/run.py --part 3/24          a share of all, of at most some four minutes; a case that is longer and goes on where it was gets a share
                                         of its own in several parts, and is written with the last of them
  validation/run.py --part draw          one part, drawn by --seed; nothing is written, and rows about time do not fail
  validation/run.py --stale              cases whose own files have changed since the commit that they were measured on
  validation/run.py --quick [--seed S]   those that take under 10 s, in one process and the seed's order; nothing is written,
                                         and rows about time do not fail. Of the others: whose sources changed since they were measured
  validation/run.py --document           the report alone, from what is kept
  validation/run.py --list               codes and titles

A case is a file NAME.py with rows(), which measures with the program or the library and returns rows (common.py); its docstring is a
title, a blank line, and what it shows. cases.csv has each case's processor time, the hash of what it was measured with (provenance.py), on which
commit and which processor. GOES_ON in its file: it keeps its state in build/ and can be stopped at any time. The exit code is 1 if a row does not
hold.
"""
import argparse
import ast
import csv
import functools
import glob
import importlib
import json
import math
import os
import platform
import random
import re
import resource
import signal
import subprocess
import sys
import time
import zlib

import provenance

HERE = os.path.dirname(os.path.abspath(__file__))
COLUMNS = ["case", "quantity", "measured", "required", "holds"]
RESULTS, CASES = (os.path.join(HERE, name) for name in ("results.csv", "cases.csv"))
UNFINISHED = os.path.join(provenance.ROOT, "build", "validation.unfinished.json")
REPORT = os.path.join(HERE, "report.md")
SHARES = os.path.join(provenance.ROOT, "build", "validation.shares.json")  # seconds of shares of cases that go on
QUICK = 10  # seconds
GRACE = 20  # seconds that a case and its programs have to keep their state
SHARE, PARTS, DRAWN = 240, 24, 240  # seconds of a part, how many there are where one is drawn, and seconds by the clock that such a one has


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


def goes_on(name):
    """Whether a case keeps its state and may be stopped at any time."""
    with open(os.path.join(HERE, name + ".py"), encoding="utf-8") as f:
        return re.search(r"^GOES_ON = True", f.read(), re.M) is not None


# ---- where it was measured --------------------------------------------------------------------------------------------------
def git(*words):
    """What git says; None where it knows nothing."""
    done = subprocess.run(["git", "-C", provenance.ROOT, *words], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def commit():
    """The commit of the sources, with + where they have changed since."""
    name = git("rev-parse", "--short=9", "HEAD")
    return name and name + ("+" if git("status", "--porcelain", "-uno", "--", *provenance.SOURCES, "validation", "python") else "")


def processor():
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo", encoding="utf-8") as f:
            found = re.search(r"^model name\s*: (.*)$", f.read(), re.M)
            if found:
                return " ".join(found[1].split())
    return platform.machine()


@functools.cache
def changed_since(measured):
    """Files that have changed since a commit; None where git does not know it."""
    names = git("diff", "--name-only", measured.rstrip("+"), "HEAD")
    return None if names is None else set(names.splitlines())


def named_by(name):
    """A case's file and those that it names: modules of validation/ and bench/ but the common ones, models, recordings."""
    paths = {os.path.relpath(p, provenance.ROOT) for p in provenance.own(name)}
    return {p for p in paths if p.startswith(("validation", "bench", "examples")) and os.path.basename(p) not in ("common.py", "tasks.py")}


def stale(kept):
    """Words for each case whose committed row is older than what it names."""
    out = []
    for n in kept.names:
        changed = changed_since(kept.about[n][2]) & named_by(n) if n in kept.about and kept.about[n][2] and changed_since(kept.about[n][2]) else set()
        if changed:
            out.append(f"{n} is stale: measured on {kept.about[n][2]}, changed since: {', '.join(sorted(changed)[:3])}")
    return out


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
        self.about = {r[0]: (float(r[1]), *(r[2:] + ["", ""])[:3]) for r in read(CASES) if r[0] in self.names}

    def put(self, name, rows, seconds):
        earlier = shares().pop(name, 0)
        self.rows[name], self.about[name] = rows, (seconds + earlier, provenance.of(name), commit() or "", processor())
        if earlier:
            spend(name, -earlier)
        self.save()

    def save(self):
        write(RESULTS, COLUMNS, [r for n in self.names for r in self.rows[n]])
        write(CASES, ["case", "seconds", "hash", "commit", "processor"],
              [[n, f"{self.about[n][0]:.1f}", *self.about[n][1:]] for n in self.names if n in self.about])
        document(self)


def anchor(name):
    """Of a case's heading in the page, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", f"{name}: {title(name)}".lower()).replace(" ", "-")


def longest(kept):
    """A line on the cases that take more than ten minutes."""
    found = [f"{n} ({kept.about[n][0] / 3600:.2f} h{', by shares that go on where it was' if goes_on(n) else ''})"
             for n in kept.names if n in kept.about and kept.about[n][0] > 600]
    return [f"Longer than ten minutes: {', '.join(found)}."] if found else []


def document(kept):
    """The report: all rows, with what each case shows."""
    cell = lambda x: x.replace("|", "\\|")
    lines = ["# Validation", "",
             "Each case is a file of `validation/`, named by a code; `validation/run.py --list` prints codes and titles. `make validate` measures all",
             "cases again, `make validate CASE=R2` one of them, and writes this report from `validation/results.csv`. \"Reported\" means that nothing is",
             "required of the number. Seconds are of processor time. `make validate PART=3/24` measures a share of at most some four minutes.",
             *longest(kept),
             "Some claims are rows of other cases: initial conditions (K1) in R2 and PDT1, masses (K5) in L3, implicit differentiation (K30) in L2,",
             "relaxed contact (K31) in PDJ1, parameters of a gait (K62) in R5, elastic deformation (K35) in E5, robots that bend (K41) in E6,",
             "optimization of materials (K42) in K10.", "",
             "| case | title | what it shows | rows | seconds | commit | processor |", "|---|---|---|---|---|---|---|"]
    for n in kept.names:
        seconds, _, on, by = (f"{kept.about[n][0]:.1f}", *kept.about[n][1:]) if n in kept.about else ("", "", "", "")
        lines.append(f"| {n} | [{cell(title(n))}](#{anchor(n)}) | {cell(words(n))} | {len(kept.rows[n])} | {seconds} | {on} | {cell(by)} |")
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


# ---- parts ------------------------------------------------------------------------------------------------------------------
def shares():
    """Seconds that shares of cases have taken so far."""
    if not os.path.exists(SHARES):
        return {}
    with open(SHARES, encoding="utf-8") as f:
        return json.load(f)


def spend(name, seconds):
    taken = shares()
    taken[name] = taken.get(name, 0) + seconds
    with open(SHARES + ".new", "w", encoding="utf-8") as f:
        json.dump({n: s for n, s in taken.items() if s > 0}, f)
    os.replace(SHARES + ".new", SHARES)


def committed(kept):
    """Seconds of the cases as they are committed: parts stay what they are while one after the other is measured and written."""
    if git("rev-parse", "HEAD") is None:
        return {n: about[0] for n, about in kept.about.items()}
    text = git("show", "HEAD:./validation/cases.csv") or ""
    return {r[0]: float(r[1]) for r in csv.reader(text.splitlines()[1:])}


def parts(kept, count):
    """Names in `count` lists of about the same time: the longest first, each to the list that has least; shares of one case to different lists."""
    pieces, known = [], committed(kept)
    for n in kept.names:
        seconds = known.get(n, SHARE)
        some = -int(-seconds // SHARE) if goes_on(n) and seconds > SHARE else 1
        pieces += [(seconds / some, n)] * some
    lists = [[0.0, []] for _ in range(count)]
    for seconds, n in sorted(pieces, key=lambda p: (-p[0], p[1])):
        free = [x for x in lists if n not in x[1]] or lists
        least = min(free, key=lambda x: (x[0], len(x[1])))
        least[0] += seconds
        least[1].append(n)
    return [(seconds, sorted(names, key=kept.names.index)) for seconds, names in lists]


def end(process):
    """It, and the programs it runs, which keep their state when they are asked to end and not when they are killed."""
    for number, seconds in ((signal.SIGTERM, GRACE), (signal.SIGKILL, None)):
        try:
            os.killpg(process.pid, number)
            process.wait(seconds)
            while number == signal.SIGTERM and seconds > 0:  # the programs are no children of this process
                os.killpg(process.pid, 0)
                time.sleep(0.05)
                seconds -= 0.05
        except subprocess.TimeoutExpired:
            continue
        except ProcessLookupError:
            process.wait()
            return


def run_alone(name, seconds, *words, more=lambda: 0):
    """A case in a process of its own: whether its rows hold; None where the time was over, and more() gave none. Whatever ends this process
    ends that, too."""
    process = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--case", name, *words], start_new_session=True)
    try:
        while seconds > 0:
            try:
                return process.wait(seconds) == 0
            except subprocess.TimeoutExpired:
                seconds = more()
        return None
    finally:
        end(process)


def stands_still(name, begin):
    """Whether a case has a state and has kept nothing new of it: to end it would be for nothing, and again in every share after it."""
    files = [p for top in glob.glob(os.path.join(provenance.ROOT, "build", name + "*")) for p in provenance.below(top)]
    return max(map(os.path.getmtime, files), default=math.inf) < begin


def run_share(name):
    """A case that goes on, for as long as a share is: rows that do not hold."""
    begin, at, holds = spent(), time.time(), None
    chances = [SHARE] * 3  # on a machine that is at work a single step may take longer than a share
    try:
        holds = run_alone(name, SHARE, more=lambda: chances.pop() if chances and stands_still(name, at) else 0)
    finally:  # also where this process is asked to end
        if holds is None:
            spend(name, spent() - begin)
    if holds is None:
        print(f"{name}: its share of {SHARE} s is over, {shares()[name]:.0f} s in all; the next one goes on where it was", flush=True)
    return int(holds is False)


def run_drawn(kept, names):
    """As far as there is time, the shortest first, nothing written: rows that do not hold."""
    names = sorted(names, key=lambda n: (goes_on(n), kept.about[n][0] if n in kept.about else SHARE))
    end, failed = time.monotonic() + DRAWN, 0
    for name in names:
        left = min(end - time.monotonic(), SHARE if goes_on(name) else DRAWN)
        holds = run_alone(name, left, "--judge") if left > 0 else None
        if holds is None:
            print(f"{name}: not at its end within the time of a drawn part; make validate CASE={name}", flush=True)
        failed += holds is False
    return failed


def judge(rows, timed, seconds):
    """Rows that do not hold, but for those about time, and those that are known not to: the page says so of them. They are told."""
    known = {(r[0], r[1]) for r in read(RESULTS) if r[4] != "yes"}
    wrong = [r for r in rows if r[4] != "yes" and r not in timed]
    bad = [r for r in wrong if (r[0], r[1]) not in known]
    slow = [r for r in timed if r[4] != "yes"]
    print(f"{rows[0][0]:6} {len(rows) - len(wrong) - len(slow):3} rows hold, {seconds:.1f} s", flush=True)
    for r in wrong + slow:
        how = "too slow here (reported)" if r in slow else "does not hold" if r in bad else "does not hold, as the page says"
        print(f"       {how}: {r[1]}: {r[2]}  (required {r[3]})", flush=True)
    return bad, slow


def asked_to_end(number, _):
    raise SystemExit(128 + number)


def measure_part(which, seed):
    """PART of all: 3/24, or one that is drawn by the seed, of which nothing is written."""
    signal.signal(signal.SIGTERM, asked_to_end)  # a case's own process ends at once, and leaves its programs their time
    kept, drawn = Kept(), which == "draw"
    number, count = (zlib.crc32(seed.encode()) % PARTS + 1, PARTS) if drawn else map(int, which.split("/"))
    seconds, names = parts(kept, count)[number - 1]
    print(f"part {number} of {count}, about {seconds:.0f} s of processor time: {' '.join(names)}", flush=True)
    failed = 0
    if drawn:
        failed = run_drawn(kept, names)
    else:
        for name in names:
            long_one = goes_on(name) and (kept.about[name][0] if name in kept.about else SHARE) >= SHARE
            failed += run_share(name) if long_one else measure_some([name])
    print(*stale(kept), sep="\n")
    print(f"part {number} of {count}: {failed} do not hold")
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
        bad, slow = judge(*measure(name))
        failed, late = failed + len(bad), late + len(slow)
    other = [n for n in kept.names if n in kept.about and n not in chosen and kept.about[n][1] != provenance.of(n)]
    if other:
        print(f"measured with other sources than these: {' '.join(other)}")
    print(f"{spent() - begin:.0f} s; {failed} rows do not hold; {late} are late")
    return failed + sum(not long(n) for n in never)


def main():
    parser = argparse.ArgumentParser(description="Measure the cases of validation/.")
    parser.add_argument("--case", action="append", help="only this one (repeatable)")
    parser.add_argument("--quick", action="store_true", help=f"those that take under {QUICK} s; nothing is written")
    parser.add_argument("--seed", default="0", help="of their order, and of what is drawn")
    parser.add_argument("--part", help=f"K/N: a share of all of at most some {SHARE} s; draw: one of {PARTS} by the seed, nothing is written")
    parser.add_argument("--judge", action="store_true", help="with --case: nothing is written, and rows about time do not fail")
    parser.add_argument("--stale", action="store_true", help="cases whose own files have changed since they were measured")
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
    if chosen.stale:
        print("\n".join(stale(Kept())))
        return 0
    if chosen.part and chosen.part != "draw":
        number, count = map(int, chosen.part.split("/")) if re.fullmatch(r"\d+/\d+", chosen.part) else (0, 0)
        if not 1 <= number <= count:
            sys.exit(f"PART={chosen.part}: expected K/N with K from 1 to N, such as 3/{PARTS}, or draw")
    if chosen.case and chosen.judge:  # nothing is written
        return 1 if sum(len(judge(*measure(name))[0]) for name in chosen.case) else 0
    failed = measure_part(chosen.part, chosen.seed) if chosen.part else measure_quick(chosen.seed) if chosen.quick else \
        measure_some(chosen.case) if chosen.case else measure_all()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
