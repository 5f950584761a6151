#!/usr/bin/env python3
"""The wheel: built, made complete, examined, and tried where there is nothing else.   make wheel

Builds dist/pullback-VERSION-cp311-abi3-manylinux_*.whl with the environment of tests/python/frameworks.txt: the libraries that the
extension needs are taken along with their licences, the limited API is examined, and the wheel is run below a root that holds Python,
NumPy and the C library alone.
  tools/wheel.py [--no-build]   --no-build: only tries the wheel in dist/
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
PLATFORM = "manylinux_2_34_x86_64"
C_LIBRARY = ("libc", "libm", "ld-linux-x86-64")
MOST = 15 << 20  # bytes
TRIAL = ROOT / "tests" / "python" / "bare.py"


def run(*command, **more):
    return subprocess.run([str(c) for c in command], check=True, **more)


def libraries_of(path):
    """Shared objects that a file needs, by the names that it calls them: their paths."""
    lines = run("ldd", path, capture_output=True, text=True).stdout.splitlines()
    return {parts[0]: os.path.realpath(parts[2]) for parts in map(str.split, lines) if len(parts) > 2 and parts[1] == "=>"}


def licence_of(library):
    """The terms of a library of the system, out of its package."""
    for path in {library, library.removeprefix("/usr")}:
        found = subprocess.run(["dpkg", "-S", path], capture_output=True, text=True)
        if found.returncode == 0:
            terms = pathlib.Path("/usr/share/doc") / found.stdout.split(":")[0] / "copyright"
            if terms.exists():
                return terms.read_text(encoding="utf-8", errors="replace")
    sys.exit(f"{library}: found no package with its licence")


def expat_archive():
    """Expat is linked into the extension: the shared one of a system is bound to the C library of that system."""
    return os.path.realpath(run("cc", "-print-file-name=libexpat.a", capture_output=True, text=True).stdout.strip())


def complete(wheel, folder):
    """A copy of a wheel with the terms of the libraries that it will take along, and these libraries in folder under names of their
    own: auditwheel would leave to the system those that most systems have."""
    with zipfile.ZipFile(wheel) as z:
        z.extractall(folder / "wheel")
        files = z.namelist()
    extension = folder / "wheel" / next(n for n in files if n.endswith(".so"))
    info = (folder / "wheel" / next(n for n in files if n.endswith("/LICENSE"))).parent

    (info / "libexpat.txt").write_text(licence_of(expat_archive()), encoding="utf-8")
    own = {}
    for name, path in libraries_of(extension).items():
        stem = name.split(".so")[0]
        if stem not in C_LIBRARY:
            own[name] = f"{stem}_pullback.so"
            shutil.copy(path, folder / own[name])
            (info / f"{stem}.txt").write_text(licence_of(path), encoding="utf-8")
    for file in [extension, *(folder / name for name in own.values())]:
        for old, new in own.items():
            run("patchelf", "--replace-needed", old, new, file)
    for new in own.values():
        run("patchelf", "--set-soname", new, folder / new)

    copy = folder / wheel.name
    with zipfile.ZipFile(copy, "w", zipfile.ZIP_DEFLATED) as z:  # its list of files is made anew by auditwheel
        for file in sorted((folder / "wheel").rglob("*")):
            if file.is_file():
                z.write(file, file.relative_to(folder / "wheel"))
    return copy


def build():
    for old in DIST.glob("pullback-*.whl"):
        old.unlink()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        run(sys.executable, "-m", "pip", "wheel", "-q", "--disable-pip-version-check", "--no-deps", "--no-build-isolation", "-w", folder,
            "-C", f"cmake.define.EXPAT_LIBRARY={expat_archive()}", ROOT)
        (folder / "own").mkdir()
        run(sys.executable, "-m", "auditwheel", "repair", "--plat", PLATFORM, "-w", DIST,
            complete(next(folder.glob("*.whl")), folder / "own"), env={**os.environ, "LD_LIBRARY_PATH": str(folder / "own")})
    (wheel,) = DIST.glob("pullback-*.whl")
    run(sys.executable, "-m", "abi3audit", "--strict", wheel)
    if wheel.stat().st_size > MOST:
        sys.exit(f"{wheel}: expected {MOST} bytes at most, found {wheel.stat().st_size}")
    return wheel


def bare_root(folder, wheel):
    """A root with Python, the C library, NumPy and the wheel, and nothing that the wheel should have brought."""
    folder, version = pathlib.Path(folder), f"python{sys.version_info.major}.{sys.version_info.minor}"
    library = pathlib.Path(sysconfig.get_path("stdlib"))
    shutil.copytree(library, folder / "usr" / "lib" / version, symlinks=True,
                    ignore=shutil.ignore_patterns("site-packages", "dist-packages", "test", "__pycache__", "idlelib", "config-*"))
    (folder / "usr" / "bin").mkdir()
    program = folder / "usr" / "bin" / "python3"
    shutil.copy(os.path.realpath(sys.executable), program)

    site = folder / "site"
    run(sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "--no-compile", "--target", site, wheel)
    packages = pathlib.Path(sysconfig.get_path("purelib"))
    for name in ("numpy", "numpy.libs"):
        shutil.copytree(packages / name, site / name, ignore=shutil.ignore_patterns("tests", "__pycache__"))

    extension = next((site / "pullback").glob("*.so"))
    foreign = [name for name, path in libraries_of(extension).items()
               if "pullback.libs" not in path and name.split(".so")[0] not in C_LIBRARY]
    if foreign:
        sys.exit(f"{wheel}: takes {', '.join(foreign)} from the system")

    # What Python itself and NumPy need.
    needed = libraries_of(program)
    for path in [*site.glob("numpy/**/*.so"), *(site / "numpy.libs").iterdir(),
                 *(folder / "usr" / "lib" / version / "lib-dynload").glob("*.so")]:
        needed.update(libraries_of(path))
    (folder / "lib64").mkdir()
    (folder / "usr" / "lib" / "bare").mkdir()
    shutil.copy(os.path.realpath("/lib64/ld-linux-x86-64.so.2"), folder / "lib64" / "ld-linux-x86-64.so.2")
    for name, path in needed.items():
        if not path.startswith(str(folder)):
            shutil.copy(path, folder / "usr" / "lib" / "bare" / name)
    return sorted(path.name.split("_pullback")[0] for path in (site / "pullback.libs").iterdir())


def try_out(wheel):
    with tempfile.TemporaryDirectory() as folder:
        brought = bare_root(folder, wheel)
        shutil.copy(TRIAL, pathlib.Path(folder) / "bare.py")
        outside = [] if os.geteuid() == 0 else ["unshare", "--map-root-user"]
        run(*outside, shutil.which("chroot"), folder, "/usr/bin/python3", "/bare.py",
            env={"PATH": "/usr/bin", "LD_LIBRARY_PATH": "/usr/lib/bare", "PYTHONPATH": "/site", "PYTHONHOME": "/usr"})
    print(f"{wheel.relative_to(ROOT)}: {wheel.stat().st_size / 2**20:.1f} MiB, with libexpat, {', '.join(brought)}; it runs where they are not")


def main():
    os.environ["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"], "/usr/sbin"])
    parser = argparse.ArgumentParser(description="Build the wheel and try it below an empty root.")
    parser.add_argument("--no-build", action="store_true", help="only try the wheel in dist/")
    asked = parser.parse_args()
    try_out(next(DIST.glob("pullback-*.whl")) if asked.no_build else build())


if __name__ == "__main__":
    main()
