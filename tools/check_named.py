#!/usr/bin/env python3
"""Every C source names, in its opening comment, the tests that turn red if it is wrong, and these are there.   make check

`make unit TEST=FILE` runs those of a file.   tools/check_named.py [ROOT]
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCES = ["src/*.c", "lcp/*.c", "io/*.c", "cli/*.c", "python/core/*.c"]
TEST = re.compile(r"tests/[a-z]+/test_\w+\.(?:c|py)")


def named(text):
    """Tests in the comment that a source begins with."""
    opening = []
    for line in text.split("\n"):
        if not line.startswith("//"):
            break
        opening.append(line)
    return TEST.findall("\n".join(opening))


def faults(root=ROOT):
    sources = subprocess.run(["git", "ls-files", *SOURCES], cwd=root, capture_output=True, text=True, check=True).stdout.split()
    out = []
    for source in sources:
        tests = named((root / source).read_text(encoding="utf-8"))
        if not tests:
            out.append(f"{source}: its opening comment names no test (// Tests: tests/unit/test_X.c.)")
        out += [f"{source}: there is no {t}" for t in tests if not (root / t).exists()]
    return len(sources), out


def main():
    count, found = faults(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT)
    print(*found, f"{count} sources, {len(found)} without a test that is there", sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
