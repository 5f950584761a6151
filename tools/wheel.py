#!/usr/bin/env python3
"""The wheel: built, made complete, examined, and tried where there is nothing else.   make wheel [MACHINE=aarch64]

Builds dist/pullback-VERSION-cp311-abi3-manylinux_*.whl with the environment of tests/python/frameworks.txt: the libraries that the
extension needs are taken along with their licences, the limited API is examined, and the wheel is run below a root that holds Python,
NumPy and the C library alone. The one of 64-bit ARM is built by a cross compiler with Debian's libraries (tools/other_roots.py), and
tried in Debian's Python for it, which qemu runs, together with some files of tests/python. That of macOS (tools/wheel_macos.py) is built there.
  tools/wheel.py [--no-build] [--machine aarch64]      --no-build: only tries the wheel in dist/
"""
import argparse
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile

import other_roots

ROOT = pathlib.Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
PLATFORM = "manylinux_2_34"  # and the machine
C_LIBRARY = ("libc", "libm", "ld-linux-x86-64", "ld-linux-aarch64")  # and what loads it
LOADERS = {"x86_64": "/lib64/ld-linux-x86-64.so.2", "aarch64": "/lib/ld-linux-aarch64.so.1"}
MOST = 15 << 20  # bytes
TESTS = ["test_energy.py", "test_xla.py"]  # of tests/python: those that need NumPy alone, and no process of their own
TESTED_BY = ["pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments", "py.py"]
TRIAL = ROOT / "tests" / "python" / "bare.py"


def run(*command, **more):
    return subprocess.run([str(c) for c in command], check=True, **more)


class Here:
    """This machine: where its files are, how its programs run."""

    name, loader, root = platform.machine(), LOADERS.get(platform.machine()), pathlib.Path("/")
    build_options, environment = [], {}
    runner = []  # before a program
    python = os.path.realpath(sys.executable)
    library = pathlib.Path(sysconfig.get_path("stdlib"))

    def packages(self):
        """Where NumPy is."""
        return pathlib.Path(sysconfig.get_path("purelib"))

    def expat(self):
        """Expat is linked into the extension: the shared one of a system is bound to the C library of that system."""
        return os.path.realpath(run("cc", "-print-file-name=libexpat.a", capture_output=True, text=True).stdout.strip())

    def package(self, library):
        for path in {library, library.removeprefix("/usr")}:
            found = subprocess.run(["dpkg", "-S", path], capture_output=True, text=True)
            if found.returncode == 0:
                return found.stdout.split(":")[0]
        return None


class Arm(Here):
    """64-bit ARM: a root of Debian's packages, run by qemu."""

    name, loader = "aarch64", LOADERS["aarch64"]

    def __init__(self):
        compiler, emulator = other_roots.arm_programs()
        if not compiler or not emulator:
            sys.exit("make wheel MACHINE=aarch64: apt install gcc-aarch64-linux-gnu qemu-user-static")
        self.root, toolchain = other_roots.arm()
        self.emulator, self.runner = emulator, [emulator, "-L", self.root]
        self.python, self.library = self.root / "usr/bin/python3.11", self.root / "usr/lib/python3.11"
        self.build_options = ["-C", "build-dir=build/wheel-aarch64", "-C", f"cmake.define.Python3_INCLUDE_DIR={self.root}/usr/include/python3.11"]
        # What Python says of its machine, and by what CMake builds for it.
        self.environment = {"_PYTHON_HOST_PLATFORM": "linux-aarch64", "CMAKE_TOOLCHAIN_FILE": str(toolchain)}

    def packages(self):
        """NumPy of the lock file, as it is for that machine."""
        folder = other_roots.PLACE / "numpy-aarch64"
        wanted = re.search(r"^numpy==.*\n(?: +--hash.*\n)+", (ROOT / "tests/python/frameworks.txt").read_text(), re.MULTILINE)[0]
        if not (folder / "wanted").exists() or (folder / "wanted").read_text() != wanted:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            (folder / "numpy.txt").write_text(wanted)
            run(sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-compile", "--no-deps", "--require-hashes",
                "--only-binary=:all:", "--python-version", "3.11", "--platform", "manylinux_2_28_aarch64", "--platform", "manylinux_2_27_aarch64",
                "--target", folder, "-r", folder / "numpy.txt")
            (folder / "wanted").write_text(wanted)
        return folder

    def expat(self):
        return self.root / "usr/lib" / other_roots.LIBRARY / "libexpat.a"

    def package(self, library):
        return other_roots.package_of(self.root, library)


def libraries_of(machine, path, search=""):
    """Shared objects that a file needs, by the names that it calls them: their paths."""
    words = [*machine.runner, str(machine.root / machine.loader.lstrip("/")), *(["--library-path", search] if search else []), "--list", path]
    lines = run(*words, capture_output=True, text=True).stdout.splitlines()
    found = {os.path.basename(parts[0]): parts[2] for parts in map(str.split, lines) if len(parts) > 2 and parts[1] == "=>"}

    # Without the root before it where qemu looked the path up there.
    inside = {name: machine.root / place.lstrip("/") for name, place in found.items()}
    return {name: os.path.realpath(inside[name] if inside[name].exists() else found[name]) for name in found}


def licence_of(machine, library):
    """The terms of a library of the system, out of its package."""
    package = machine.package(str(library))
    terms = machine.root / "usr/share/doc" / (package or "none") / "copyright"
    if not terms.exists():
        sys.exit(f"{library}: found no package with its licence")
    return terms.read_text(encoding="utf-8", errors="replace")


def complete(machine, wheel, folder):
    """A copy of a wheel with the terms of the libraries that it will take along, and these libraries in folder under names of their
    own: auditwheel would leave to the system those that most systems have."""
    with zipfile.ZipFile(wheel) as z:
        z.extractall(folder / "wheel")
        files = z.namelist()
    extension = folder / "wheel" / next(n for n in files if n.endswith(".so"))
    info = (folder / "wheel" / next(n for n in files if n.endswith("/LICENSE"))).parent

    (info / "libexpat.txt").write_text(licence_of(machine, machine.expat()), encoding="utf-8")
    own = {}
    for name, path in libraries_of(machine, extension).items():
        stem = name.split(".so")[0]
        if stem not in C_LIBRARY:
            own[name] = f"{stem}_pullback.so"
            shutil.copy(path, folder / own[name])
            (info / f"{stem}.txt").write_text(licence_of(machine, path), encoding="utf-8")
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


def of(machine):
    return list(DIST.glob(f"pullback-*_{machine.name}.whl"))


def build(machine):
    for old in of(machine):
        old.unlink()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        run(sys.executable, "-m", "pip", "wheel", "-q", "--disable-pip-version-check", "--no-deps", "--no-build-isolation", "-w", folder,
            "-C", f"cmake.define.EXPAT_LIBRARY={machine.expat()}", *machine.build_options, ROOT, env={**os.environ, **machine.environment})
        (folder / "own").mkdir()
        # Only of its own machine auditwheel takes the name of a platform; it chooses the oldest by itself.
        named = f"{PLATFORM}_{machine.name}" if not machine.runner else "auto"
        run(sys.executable, "-m", "auditwheel", "repair", "--plat", named, "-w", DIST,
            complete(machine, next(folder.glob("*.whl")), folder / "own"), env={**os.environ, "LD_LIBRARY_PATH": str(folder / "own")})
    (wheel,) = of(machine)
    if PLATFORM not in wheel.name:
        sys.exit(f"{wheel}: expected {PLATFORM}")
    run(sys.executable, "-m", "abi3audit", "--strict", wheel)
    if wheel.stat().st_size > MOST:
        sys.exit(f"{wheel}: expected {MOST} bytes at most, found {wheel.stat().st_size}")
    return wheel


def bare_root(machine, folder, wheel):
    """A root with Python, the C library, NumPy and the wheel, and nothing that the wheel should have brought."""
    folder, version = pathlib.Path(folder), machine.library.name
    shutil.copytree(machine.library, folder / "usr" / "lib" / version, symlinks=True,
                    ignore=shutil.ignore_patterns("site-packages", "dist-packages", "test", "__pycache__", "idlelib", "config-*"))
    (folder / "usr" / "bin").mkdir()
    program = folder / "usr" / "bin" / "python3"
    shutil.copy(machine.python, program)

    site = folder / "site"
    with zipfile.ZipFile(wheel) as z:  # as pip would, which refuses another machine's
        z.extractall(site)
    packages = machine.packages()
    for name in ("numpy", "numpy.libs"):
        shutil.copytree(packages / name, site / name, ignore=shutil.ignore_patterns("tests", "__pycache__"))

    extension = next((site / "pullback").glob("*.so"))
    foreign = [name for name, path in libraries_of(machine, extension).items()
               if "pullback.libs" not in path and name.split(".so")[0] not in C_LIBRARY]
    if foreign:
        sys.exit(f"{wheel}: takes {', '.join(foreign)} from the system")

    # What Python itself and NumPy need.
    needed = libraries_of(machine, program)
    for path in [*site.glob("numpy/**/*.so"), *(site / "numpy.libs").iterdir(),
                 *(folder / "usr" / "lib" / version / "lib-dynload").glob("*.so")]:
        needed.update(libraries_of(machine, path))
    place = folder / machine.loader.lstrip("/")
    place.parent.mkdir(exist_ok=True)
    (folder / "usr" / "lib" / "bare").mkdir()
    shutil.copy(os.path.realpath(machine.root / machine.loader.lstrip("/")), place)
    for name, path in needed.items():
        if not path.startswith(str(folder)):
            shutil.copy(path, folder / "usr" / "lib" / "bare" / name)
    return sorted(path.name.split("_pullback")[0] for path in (site / "pullback.libs").iterdir())


def try_out(machine, wheel):
    with tempfile.TemporaryDirectory() as folder:
        brought = bare_root(machine, folder, wheel)
        shutil.copy(TRIAL, pathlib.Path(folder) / "bare.py")
        if machine.runner:
            shutil.copy(machine.emulator, pathlib.Path(folder) / "emulator")
        outside = [] if os.geteuid() == 0 else ["unshare", "--map-root-user"]
        run(*outside, shutil.which("chroot"), folder, *(["/emulator"] if machine.runner else []), "/usr/bin/python3", "/bare.py",
            env={"PATH": "/usr/bin", "LD_LIBRARY_PATH": "/usr/lib/bare", "PYTHONPATH": "/site", "PYTHONHOME": "/usr"})
    print(f"{wheel.relative_to(ROOT)}: {wheel.stat().st_size / 2**20:.1f} MiB, with libexpat, {', '.join(brought)}; it runs where they are not")


def test(machine, wheel):
    """Some tests of the package in another machine's Python, with the pytest of this one."""
    with tempfile.TemporaryDirectory() as name:
        site = pathlib.Path(name) / "python"
        with zipfile.ZipFile(wheel) as z:
            z.extractall(site)
        for folder, names in ((machine.packages(), ["numpy", "numpy.libs"]), (pathlib.Path(sysconfig.get_path("purelib")), TESTED_BY)):
            for part in names:
                (site / part).symlink_to(folder / part)
        run(*machine.runner, machine.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *(ROOT / "tests" / "python" / t for t in TESTS), cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(site), "PULLBACK_BUILD": name, "PYTHONDONTWRITEBYTECODE": "1"})


def main():
    os.environ["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"], "/usr/sbin"])
    parser = argparse.ArgumentParser(description="Build the wheel and try it below an empty root.")
    parser.add_argument("--no-build", action="store_true", help="only try the wheel in dist/")
    parser.add_argument("--machine", choices=sorted({platform.machine(), "aarch64"}), default=platform.machine())
    asked = parser.parse_args()
    machine = Here() if asked.machine == platform.machine() else Arm()
    wheel = of(machine)[0] if asked.no_build else build(machine)
    try_out(machine, wheel)
    if machine.runner:
        test(machine, wheel)


if __name__ == "__main__":
    main()
