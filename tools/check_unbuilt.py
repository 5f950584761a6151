#!/usr/bin/env python3
"""Sources that a build leaves out (benchmarks, fuzz targets) understand the headers nevertheless: read by the compiler, without code.

  tools/check_unbuilt.py BUILD     a configured build, whose compile_commands.json says how
"""
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIKE = "tests/unit/test_npz.c"  # what sees the inside of the library, as fuzz targets do


def commands(build):
    """{source: words of a command}: benchmarks as they would be built, fuzz targets as a test is."""
    rows = {os.path.relpath(c["file"], ROOT): c for c in json.loads((build / "compile_commands.json").read_text())}
    out = {name: shlex.split(c["command"]) for name, c in rows.items() if name.startswith("bench/")}
    like = shlex.split(rows[LIKE]["command"])
    for path in sorted((ROOT / "tests" / "fuzz").glob("fuzz_*.c")):
        out[str(path.relative_to(ROOT))] = [str(path) if os.path.realpath(w) == os.path.realpath(ROOT / LIKE) else w for w in like]
    return {name: readonly(words) for name, words in out.items()}


def readonly(words):
    """Without a file that is written; warnings are errors."""
    out, skip = [], False
    for word in words:
        if not skip and word not in ("-c", "-o", "-MF", "-MT", "-MD") and not re.search(r"(^|/)ccache$", word):
            out.append(word)
        skip = word in ("-o", "-MF", "-MT")
    return [*out, "-fsyntax-only", "-Werror", "-Wno-error=maybe-uninitialized", "-Wno-unused-command-line-argument"]


def read(item):
    name, words = item
    done = subprocess.run(words, cwd=BUILD, capture_output=True, text=True)
    if done.returncode:
        print(f"{name}:\n{done.stderr}", flush=True)
    return done.returncode == 0


def main():
    found = commands(BUILD)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        good = list(pool.map(read, found.items()))
    print(f"{len(good)} sources that are not built, {good.count(False)} of them not understood")
    kinds = {name.split("/")[0] for name in found}
    return 0 if all(good) and "tests" in kinds else 1


if __name__ == "__main__":
    BUILD = pathlib.Path(sys.argv[1]).resolve()
    sys.exit(main())
