#!/usr/bin/env python3
"""Time of loading beside MuJoCo's: user and system time of fresh processes (bench/load.c) less that of one that loads nothing, medians of
interleaved runs, on the largest models of the test beds (tests/oracle/robots.py; by vertices of meshes), the median one of those with meshes, and the median of all.
Table, and bench/results/load.csv.

    bench/load.py [NAME...] [--build DIR] [--repeats N]
"""
import argparse
import csv
import os
import pathlib
import statistics
import subprocess
import sys

import mujoco

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/oracle"))
import robots  # noqa: E402

LARGEST, MOST = 5, 1.0  # models; Pullback's time by MuJoCo's
COLUMNS = ["model", "vertices", "pullback_ms", "mujoco_ms", "ratio", "required", "holds"]


def seconds(words):
    """User and system time of a process."""
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    said = process.stderr.read().decode()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(said.strip())
    return used.ru_utime + used.ru_stime


def measure(program, robot, repeats):
    """Milliseconds of (Pullback, MuJoCo), without those of a process that loads nothing."""
    times = {mode: [] for mode in ("nothing", "pullback", "mujoco")}
    for _ in range(repeats):
        for mode in times:
            times[mode].append(seconds([program, mode, robot.path, robot.allow_root]))
    nothing, ours, theirs = (1e3 * statistics.median(times[mode]) for mode in times)
    return ours - nothing, theirs - nothing


def chosen(names):
    """(robot, vertices): the largest and the median ones, or those whose names hold one of the names."""
    size = lambda r: robots.quiet(lambda: mujoco.MjModel.from_xml_path(r.path)).nmeshvert
    sized = sorted(((size(r), r) for r in robots.mjcf()), key=lambda pair: (-pair[0], pair[1].name))
    meshes = [pair for pair in sized if pair[0]]
    picked = [p for p in sized if any(n in p[1].name for n in names)] if names else sized[:LARGEST] + [meshes[len(meshes) // 2], sized[len(sized) // 2]]
    return [(robot, count) for count, robot in picked]


def main():
    ask = argparse.ArgumentParser(description="Time of loading, of the largest robots and the median ones, or of those whose names hold a NAME.")
    ask.add_argument("names", nargs="*", metavar="NAME")
    ask.add_argument("--build", default=str(ROOT / "build/release"))
    ask.add_argument("--repeats", type=int, default=9)
    asked, rows, missed = ask.parse_args(), [], 0
    line = "{:<64}{:>9}{:>13}{:>11}{:>8}{:>10}  {}"
    print(line.format(*COLUMNS))
    for robot, vertices in chosen(asked.names):
        try:
            ours, theirs = measure(f"{asked.build}/bench/load", robot, asked.repeats)
        except RuntimeError as error:
            print(f"{robot.name}: {error}")
            missed += 1
            continue
        rows.append([robot.name, vertices, f"{ours:.1f}", f"{theirs:.1f}", f"{ours / theirs:.2f}", f"<= {MOST}", "yes" if ours <= MOST * theirs else "NO"])
        print(line.format(*rows[-1]), flush=True)
    if not asked.names:
        with open(ROOT / "bench/results/load.csv", "w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([COLUMNS] + rows)
    missed += sum(row[-1] == "NO" for row in rows)
    print(f"{len(rows)} measured, {missed} short of what is required")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
