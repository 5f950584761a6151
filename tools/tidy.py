#!/usr/bin/env python3
"""clang-tidy over sources that changed since they were last clean, themselves or by what they include.

  tools/tidy.py BUILD                    those that changed (tools/tidy_clean.csv keeps a hash of each with what it includes)
  tools/tidy.py BUILD --all              all of them; what is clean is kept
  tools/tidy.py BUILD --seconds 60       begin none after so long; those that were not reached are named
  tools/tidy.py BUILD FILE...            these

BUILD has a compile_commands.json. A kernel is looked at once, as it is compiled for double.
"""
import argparse
import concurrent.futures
import csv
import functools
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
CLEAN = ROOT / "tools" / "tidy_clean.csv"
INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]', re.M)


@functools.cache
def included(path):
    """Files of the project that a file includes, itself among them."""
    found = {path}
    for name in INCLUDE.findall(path.read_text(encoding="utf-8")):
        for folder in (ROOT / "src", ROOT, ROOT / "include", ROOT / "lcp" / "include", path.parent):
            if (folder / name).is_file() and (folder / name) not in found:
                found |= included((folder / name).resolve())
                break
    return frozenset(found)


def digest(path):
    """Of a source, what it includes and the checks."""
    total = hashlib.sha256((ROOT / ".clang-tidy").read_bytes())
    for name in sorted(included(path)):
        total.update(name.relative_to(ROOT).as_posix().encode() + b"\0" + name.read_bytes())
    return total.hexdigest()[:16]


def commands(build):
    """One compile command for each source of src, lcp, io and cli: the first one that is for double."""
    chosen = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = pathlib.Path(entry["directory"], entry["file"]).resolve()
        if path.is_relative_to(ROOT) and path.relative_to(ROOT).parts[0] in ("src", "lcp", "io", "cli", "python") and \
                "-DPB_NUMBER_COMPLEX" not in entry["command"]:
            entry["command"] = re.sub(r" -W\S*", "", entry["command"])  # warnings are the compilers'; clang does not know all of GCC's
            chosen.setdefault(path, entry)
    return chosen


def complaints(folder, path):
    """What clang-tidy says of a source, "" where it is clean."""
    run = subprocess.run(["clang-tidy", "-quiet", "-p", folder, str(path)], cwd=ROOT, capture_output=True, text=True)
    said = [line for line in run.stdout.splitlines() if re.search(r": (warning|error): ", line)]
    return run.stdout if said or run.returncode else ""


def kept():
    if not CLEAN.exists():
        return {}
    with open(CLEAN, newline="", encoding="utf-8") as f:
        return {name: found for name, found in list(csv.reader(f))[1:]}


def keep(clean):
    with open(CLEAN, "w", newline="", encoding="utf-8") as f:
        out = csv.writer(f, lineterminator="\n")
        out.writerow(["file", "hash"])
        out.writerows(sorted(clean.items()))


def main():
    parser = argparse.ArgumentParser(description="clang-tidy over what changed.")
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    parser.add_argument("--all", action="store_true", help="look at all, keep what is clean")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin none after so long")
    asked = parser.parse_args()
    chosen, before, begin = commands(asked.build.resolve()), kept(), time.monotonic()
    names = {p: p.relative_to(ROOT).as_posix() for p in chosen}
    if asked.files:
        wanted = [f.resolve() for f in asked.files]
        unknown = [f for f in wanted if f not in chosen]
        if unknown:
            sys.exit(f"{unknown[0]}: not compiled in {asked.build}")
    else:
        wanted = [p for p in sorted(chosen) if asked.all or before.get(names[p]) != digest(p)]

    bad, late, clean = [], [], {}
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "compile_commands.json").write_text(json.dumps([chosen[p] for p in wanted]))
        look = lambda p: complaints(folder, p) if time.monotonic() - begin < asked.seconds else None
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for path, said in zip(wanted, pool.map(look, wanted)):
                if said is None:
                    late.append(names[path])
                elif said:
                    bad.append(names[path])
                    print(said, flush=True)
                else:
                    clean[names[path]] = digest(path)
    if asked.all:
        keep(clean)
    print(f"clang-tidy: {len(wanted) - len(late)} of {len(chosen)} sources looked at, {len(bad)} with complaints"
          + (f"; not reached in time: {' '.join(late)}" if late else ""))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
