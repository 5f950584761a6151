#!/usr/bin/env python3
"""The wheel of macOS, to be run there. Untried: nobody who works on this project has such a machine.   tools/wheel_macos.py

Needs Xcode's command line tools, what docs/guide/install.md has of Homebrew, and an environment with scikit-build-core, delocate,
abi3audit and numpy. The wheel is for the processor that builds it (arm64 or x86_64: Homebrew's libraries are of one), and for the
macOS that these libraries were built for or a later one. delocate takes them along, with names that are relative to the extension; a
library without its terms is a failure. It is tried in a new environment that has NumPy alone.
  tools/wheel_macos.py [--no-build]   --no-build: only tries the wheel in dist/
"""
import argparse
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
FORMULAS = {"libexpat": "expat", "libjansson": "jansson", "libpng16": "libpng", "libqhull_r": "qhull", "libz": "zlib"}  # of Homebrew
TERMS = ("LICENSE*", "COPYING*", "COPYRIGHT*")


def run(*command, **more):
    return subprocess.run([str(c) for c in command], check=True, **more)


def said(*command):
    return run(*command, capture_output=True, text=True).stdout.strip()


def least_version(library):
    """The macOS that a library was built for."""
    found = re.search(r"\bminos ([0-9.]+)|LC_VERSION_MIN_MACOSX[^v]*version ([0-9.]+)", said("otool", "-l", library), re.DOTALL)
    return tuple(int(n) for n in (found[1] or found[2]).split(".")) if found else (0,)


def prefix(formula):
    return pathlib.Path(said("brew", "--prefix", formula))


def deployment_target():
    """Not before that of any library which is taken along: the linker would warn, and the wheel's name would not be true."""
    libraries = [path for formula in FORMULAS.values() for path in (prefix(formula) / "lib").glob("*.dylib")]
    return ".".join(map(str, max([(11, 0), *map(least_version, libraries)])))


def terms_of(library):
    stem = re.split(r"[.-]", library)[0]
    if stem not in FORMULAS:
        sys.exit(f"{library}: nothing is known of its terms")
    folder = prefix(FORMULAS[stem])
    file = next((path for pattern in TERMS for path in sorted(folder.glob(pattern))), None)
    if not file:
        sys.exit(f"{library}: no terms in {folder}")
    return stem, file.read_text(encoding="utf-8", errors="replace")


def add_terms(wheel, folder):
    """The terms of what delocate took along, in the folder of the package's own."""
    run(sys.executable, "-m", "wheel", "unpack", "-d", folder, wheel)
    (inside,) = folder.iterdir()
    (licences,) = inside.glob("*.dist-info/licenses")
    for library in inside.glob("pullback/.dylibs/*.dylib"):
        stem, text = terms_of(library.name)
        (licences / f"{stem}.txt").write_text(text, encoding="utf-8")
    run(sys.executable, "-m", "wheel", "pack", "-d", DIST, inside)


def build():
    for old in DIST.glob("pullback-*-macosx_*.whl"):
        old.unlink()
    environment = {**os.environ, "MACOSX_DEPLOYMENT_TARGET": deployment_target(), "ARCHFLAGS": f"-arch {platform.machine()}"}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder / "built", ROOT, env=environment)
        (built,) = (folder / "built").glob("*.whl")
        # It fails where a library is of another processor, and writes names as @loader_path/.dylibs/NAME.
        run("delocate-wheel", "--require-archs", platform.machine(), "-w", folder / "whole", "-v", built, env=environment)
        (whole,) = (folder / "whole").glob("*.whl")
        (folder / "unpacked").mkdir()
        add_terms(whole, folder / "unpacked")
    (wheel,) = DIST.glob("pullback-*-macosx_*.whl")
    run(sys.executable, "-m", "abi3audit", "--strict", wheel)
    return wheel


def foreign(wheel, folder):
    """What the extension takes from outside of the wheel and of the system."""
    with zipfile.ZipFile(wheel) as z:
        z.extractall(folder)
    objects = [*folder.glob("pullback/*.so"), *folder.glob("pullback/.dylibs/*.dylib")]
    lines = [line.split()[0] for path in objects for line in said("otool", "-L", path).splitlines()[1:]]
    return sorted({name for name in lines if not name.startswith(("@loader_path/", "/usr/lib/", "/System/", "/DLC/"))})


def try_out(wheel):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        outside = foreign(wheel, folder / "inside")
        if outside:
            sys.exit(f"{wheel}: takes {', '.join(outside)} from outside")
        run(sys.executable, "-m", "venv", folder / "new")
        run(folder / "new/bin/python", "-m", "pip", "install", "-q", "numpy", wheel)
        run(folder / "new/bin/python", ROOT / "tests/python/bare.py", cwd=folder)
    print(f"{wheel.relative_to(ROOT)}: {wheel.stat().st_size / 2**20:.1f} MiB; it runs in an environment with NumPy alone")


def main():
    if sys.platform != "darwin":
        sys.exit("tools/wheel_macos.py: this is no macOS; make wheel builds for Linux")
    parser = argparse.ArgumentParser(description="Build the wheel of macOS and try it. Untried.")
    parser.add_argument("--no-build", action="store_true", help="only try the wheel in dist/")
    asked = parser.parse_args()
    DIST.mkdir(exist_ok=True)
    try_out(next(DIST.glob("pullback-*-macosx_*.whl")) if asked.no_build else build())


if __name__ == "__main__":
    main()
