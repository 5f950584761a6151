#!/usr/bin/env python3
"""Every public header stands alone: it compiles as the only include, in strict C and (where there is a compiler) in C++."""
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = [ROOT / "include", ROOT / "lcp" / "include"]


def compiles(command, header):
    run = subprocess.run([*command, "-fsyntax-only", *(f"-I{folder}" for folder in INCLUDE), "-Wall", "-Wextra", "-Werror", "-"],
                         input=f"#include <{header}>\n", text=True, capture_output=True)
    if run.returncode:
        print(f"{header} with {' '.join(command)}:\n{run.stderr}")
    return run.returncode == 0


def main(compiler="cc"):
    commands = [[compiler, "-std=c11", "-pedantic", "-xc"]]
    if shutil.which("c++"):
        commands.append(["c++", "-std=c++11", "-xc++"])
    headers = sorted(h.relative_to(folder).as_posix() for folder in INCLUDE for h in folder.rglob("*.h"))
    results = [compiles(c, h) for h in headers for c in commands]
    print(f"{len(headers)} headers, {results.count(False)} of {len(results)} compilations fail")
    return 0 if all(results) and headers else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
