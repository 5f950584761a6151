#!/usr/bin/env python3
"""The first hour of somebody who reads README, rehearsed: its blocks as they stand, from an empty Debian on.

  tools/first_hour.py [--place FOLDER] [--keep] [--list]       FOLDER: where the root is made, /tmp/pullback-first-hour

A root is made of Debian's own packages (debootstrap, minbase: no make, git, compiler or Python), HEAD is cloned there, and every block
of README runs in a shell that keeps its folder and environment, as a terminal does. A line with a stage of its own in continuous
integration (make test) is left out and said so. After them: the programs of examples/, built against what was installed, those of
examples/python, and what README promises of installing (DESTDIR, a default prefix, the own flags).

Each line is told with its exit status, its time, what it downloaded and, where it failed, all that it printed; the logs stay in that
folder. Where no root can be made (without root's rights, or without debootstrap) the lines run in a folder of this machine that knows
nothing of an earlier build; which of the two it was is said first and last.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
ELSEWHERE = {"make test": "stage `make test`"}  # lines that have a stage of their own
KINDS = {("sh", "debian"), ("sh", "make"), ("sh", "package"), ("sh", ""), ("sh", "installed"), ("python", "package"), ("cmake", "installed")}
SHOWN = {("c", "tour"), ("text", "tour")}  # pieces of examples/tour.c and what it prints, which is compared below

# After README: a name, what is run in the folder of the sources.
AFTER = [
    ("C examples, shared", 'for f in examples/*.c; do n=$(basename $f .c); l=pullback; [ $n != lcp ] || l=pullback-lcp; '
     'cc $f -o /tmp/$n $(pkg-config --cflags --libs $l) -lm; done; for n in tour throw energy formula lcp controller; do /tmp/$n >/tmp/$n.txt; done'),
    ("C examples, static", 'for f in examples/*.c; do n=$(basename $f .c); l=pullback; [ $n != lcp ] || l=pullback-lcp; '
     'cc -static $f -o /tmp/$n.s $(pkg-config --static --cflags --libs $l); done; for n in tour throw lcp; do /tmp/$n.s | cmp - /tmp/$n.txt; done'),
    ("Python examples", '. .venv/bin/activate; for f in $(grep -LE "^ *import (torch|jax|scipy)" examples/python/*.py); do echo $f; python $f; done'),
    ("make install, DESTDIR", 'make install DESTDIR=/tmp/package PREFIX=/usr; test -x /tmp/package/usr/bin/pullback; '
     'test -e /tmp/package/usr/share/man/man1/pullback.1; test ! -e /usr/bin/pullback'),
    ("make install, moved", 'mv ~/pullback ~/moved; export PKG_CONFIG_PATH=~/moved/lib/pkgconfig CMAKE_PREFIX_PATH=~/moved; cd ~/throw; '
     'cc throw.c -o moved $(pkg-config --cflags --libs pullback); ./moved; rm -rf build; cmake -B build; cmake --build build; build/throw'),
    ("make install", 'make install; cd /tmp; env -i PATH=/usr/local/bin:/usr/bin:/bin sh -c "pullback --version; cc $TOP/examples/tour.c -o own -lpullback; ./own"'),
    ("own flags", 'cmake -B /tmp/own-flags -DCMAKE_C_FLAGS_RELEASE=-O1 -DPULLBACK_TESTS=OFF; '
     'grep -q "^CMAKE_C_FLAGS_RELEASE:.*=-O1$" /tmp/own-flags/CMakeCache.txt; ! grep -q -e "-O3" /tmp/own-flags/compile_commands.json'),
    ("a file that is missing", '! pullback simulate nothing.xml --steps 5 -o /tmp/x.npz'),
]


def blocks():
    """README's blocks: line, language, fragment, text. With each section a new terminal begins, in the folder of the sources."""
    found, start, section = [], None, True
    lines = (ROOT / "README.md").read_text().splitlines()
    for n, line in enumerate(lines, 1):
        section |= line.startswith("## ")
        if not line.startswith("```"):
            continue
        if start is None:
            start, info = n, line[3:]
        else:
            language, _, rest = info.partition(" ")
            text = "\n".join(lines[start:n - 1]) + "\n"
            found.append((start, language, rest.removeprefix("fragment="), f"cd $TOP\n{text}" if section and language == "sh" else text))
            start, section = None, section and language != "sh"
    return found


def in_order():
    """The blocks that run. What the package needs is installed further down than it is first shown."""
    found = [b for b in blocks() if b[1:3] not in SHOWN]
    for line, language, kind, _ in found:
        assert (language, kind) in KINDS, f"README.md:{line}: a block of {language} ({kind}) that nobody rehearses"
    first = next(k for k, b in enumerate(found) if b[1:3] == ("sh", "package"))
    early = [b for b in found[:first] if b[1:3] == ("python", "package")]
    rest = [b for b in found if b not in early]
    at = next(k for k, b in enumerate(rest) if b[1:3] == ("sh", "package")) + 1
    return rest[:at] + early + rest[at:]


def commands(line, language, kind, text):
    """What a block is in the shell, by its lines where those are commands of minutes; pairs of a name and a command."""
    if language == "python":
        return [(f"README:{line}  Python", f"python - <<'END_OF_BLOCK'\n{text}END_OF_BLOCK\n")]
    if language == "cmake":
        return [(f"README:{line}  CMakeLists.txt", f"cat >CMakeLists.txt <<'END_OF_BLOCK'\n{text}END_OF_BLOCK\n")]
    if kind in ("debian", "make", "package", "installed"):
        first = "cd $TOP; " if text.startswith("cd $TOP\n") else ""
        lines = enumerate(text.removeprefix("cd $TOP\n").splitlines())
        return [(f"README:{line + 1 + k}  {one.split('  ')[0].strip()}", f"{first if k == 0 else ''}{one}\n") for k, one in lines if one.strip()]
    return [(f"README:{line}  command line", text)]


def received():
    """Bytes that came over the network until now."""
    lines = pathlib.Path("/proc/net/dev").read_text().splitlines()[2:]
    return sum(int(line.split(":")[1].split()[0]) for line in lines if not line.strip().startswith("lo:"))


class Machine:
    """Where the blocks run: an empty Debian, or a folder of this machine."""

    def __init__(self, place):
        self.place, self.mounted = place, []
        self.root = place / "root"
        self.bare = os.geteuid() == 0 and self.debootstrap()
        self.home = "/root" if self.bare else str(place / "home")
        self.sources = f"{self.home}/sources"
        shutil.rmtree(self.inside(self.sources), ignore_errors=True)
        subprocess.run(["git", "clone", "-q", "--depth", "1", f"file://{ROOT}", str(self.inside(self.sources))], check=True)

    def inside(self, path):
        return self.root / str(path).lstrip("/") if self.bare else pathlib.Path(path)

    def debootstrap(self):
        """Makes the root, from where this machine has its packages; False where that cannot be."""
        install = ["apt-get", "-qq", "install", "-y", "--no-install-recommends", "debootstrap"]
        if not shutil.which("apt-get") or not shutil.which("debootstrap") and subprocess.run(install, capture_output=True).returncode:
            return False
        targets = subprocess.run(["apt-get", "indextargets", "--format", "$(SITE) $(CODENAME)", "Created-By: Packages"], capture_output=True, text=True).stdout
        mirror = next((line.split()[0] for line in targets.splitlines() if line.endswith(" bookworm")), None)
        if not mirror:
            return False
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir(parents=True)
        with open(self.place / "debootstrap.log", "w") as log:
            if subprocess.run(["debootstrap", "--variant=minbase", "bookworm", str(self.root), mirror], stdout=log, stderr=log).returncode:
                return False
        # How this machine reaches the network.
        for name, to in (("/etc/resolv.conf", "etc/resolv.conf"), ("/etc/ssl/certs/ca-certificates.crt", "etc/network.crt")):
            if os.path.exists(name):
                shutil.copy(name, self.root / to)
        (self.root / "dev" / "shm").mkdir(mode=0o1777, exist_ok=True)
        # Nothing of this machine's own is mounted: what removes the folder removes nothing else.
        for kind, where in (("proc", "proc"), ("devpts", "dev/pts")):
            (self.root / where).mkdir(exist_ok=True)
            if subprocess.run(["mount", "-t", kind, kind, str(self.root / where)], capture_output=True).returncode == 0:
                self.mounted.append(self.root / where)
        return True

    def has(self, name):
        return any((self.root / folder / name).exists() for folder in ("usr/bin", "usr/local/bin"))

    def nothing_there(self):
        """What is there already and should not be."""
        if self.bare:
            return [n for n in ("make", "git", "cc", "gcc", "cmake", "ninja", "python3", "pip", "pkg-config", "pullback") if self.has(n)]
        found = [n for n in ("pullback",) if self.run(f"command -v {n}")[0] == 0]
        return found + [n for n in ("numpy", "mujoco", "pullback") if self.run(f"python3 -c 'import {n}'")[0] == 0]

    def run(self, text, log=None):
        """Runs it in the shell that was left; (status, output)."""
        state = "/tmp/shell.env" if self.bare else f"{self.place}/shell.env"
        script = f"[ ! -f {state} ] || . {state}; set -e -o pipefail\ntrap 's=$?; {{ export -p; echo cd \"$PWD\"; }} >{state}; exit $s' EXIT\n{text}"
        environment = {"HOME": self.home, "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "TERM": "dumb",
                       "TOP": self.sources, **{k: v for k, v in os.environ.items() if k.lower().endswith("_proxy") or k.endswith("_INDEX_URL")},
                       # What one build has compiled serves the next: pip's after that of make.
                       "CCACHE_BASEDIR": self.sources, "CCACHE_NOHASHDIR": "1"}
        if self.bare and self.inside("/etc/network.crt").exists():
            environment |= {"PIP_CERT": "/etc/network.crt", "SSL_CERT_FILE": "/etc/network.crt"}
        command = ["chroot", str(self.root)] if self.bare else []
        done = subprocess.run([*command, "/bin/bash", "-c", f"cd {self.sources}\n{script}"], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace")
        if log:
            log.write_text(done.stdout)
        return done.returncode, done.stdout

    def close(self, keep):
        for path in reversed(self.mounted):
            subprocess.run(["umount", "-l", str(path)])
        if not keep:
            shutil.rmtree(self.root, ignore_errors=True)


def steps():
    for block in in_order():
        yield from commands(*block)
    yield from ((name, f"cd $TOP\n{text}") for name, text in AFTER)


def rehearse(machine, place):
    """Runs all; the names of what failed."""
    failed = []
    for k, (name, text) in enumerate(steps()):
        if name.split("  ")[-1] in ELSEWHERE:
            print(f"{'':31s}{name}: in the {ELSEWHERE[name.split('  ')[-1]]}", flush=True)
            continue
        begin, before = time.monotonic(), received()
        status, output = machine.run(text, place / f"{k:02d}.log")
        how = "passed" if status == 0 else f"FAILED {status}"
        print(f"{how:11s}{time.monotonic() - begin:6.0f} s {(received() - before) / 1e6:6.0f} MB  {name}", flush=True)
        if status:
            failed.append(name)
            print("    " + output[-6000:].replace("\n", "\n    "), flush=True)
            if ("apt-get" in text or "make setup" in text):
                break  # nothing of the rest can be
    return failed


def figures(machine):
    """What the C example prints is what README shows."""
    shown = next(text for _, language, kind, text in blocks() if (language, kind) == ("text", "tour"))
    number = re.compile(r"-?[\d.]+(?:e[+-]?\d+)?")
    own = machine.inside("/tmp/tour.txt").read_text() if machine.inside("/tmp/tour.txt").exists() else ""
    return [line for line in shown.splitlines()[:-1] if number.sub("", line) not in number.sub("", own) or line.split(":")[0] not in own]


def same_file(one, other):
    return other.exists() and one.read_bytes() == other.read_bytes()


def tell_difference(ours, theirs):
    """What two builds of the same sources differ by: objects, settings of CMake, what was linked."""
    objects = sorted(p.relative_to(ours) for part in ("plain", "single", "real", "complex", "adjoint*", "v3", "v4", "program")
                     for p in ours.glob(f"CMakeFiles/pullback_{part}.dir/**/*.o"))
    missing = [p for p in objects if not (theirs / p).exists()]
    other = [p for p in objects if p not in missing and not same_file(ours / p, theirs / p)]
    print(f"  {len(objects)} objects, {len(missing)} are not there, {len(other)} differ: {' '.join(map(str, other[:8]))}", flush=True)

    # Those that choose what is compiled, and by what.
    told = re.compile(r"^(CMAKE_(C|EXE|SHARED)\w*|PULLBACK_\w+|\w*(EXPAT|PNG|ZLIB|JANSSON|QHULL)\w*):\w+=(.*)$", re.MULTILINE)
    mine, its = ({k: v for k, _, _, v in told.findall((build / "CMakeCache.txt").read_text())} for build in (ours, theirs))
    print(f"  settings that differ: {' '.join(sorted(k for k in mine | its if mine.get(k) != its.get(k)))}", flush=True)

    # What the compiler says of itself, and the shared objects that are asked for.
    for build in (ours, theirs):
        said = subprocess.run(["readelf", "-p", ".comment", "-d", str(build / "libpullback.so")], capture_output=True, text=True).stdout
        print(f"  {' '.join(re.findall(r'GCC: .*|(?<=Shared library: ).*', said))}", flush=True)


def other_bits(machine):
    """How many files have the bits of this checkout's own build, where that is up to date. Told only: another root may have another compiler."""
    ours, theirs = ROOT / "build" / "release", machine.inside(f"{machine.sources}/build/release")
    clean = subprocess.run(["git", "-C", str(ROOT), "status", "--porcelain", "-uno"], capture_output=True, text=True).stdout == ""
    if not clean or not (ours / "build.ninja").exists():
        print("Bits are not compared: there is no build of HEAD in build/release", flush=True)
        return
    targets = ["pullback_program", "pullback_shared"]
    subprocess.run(["cmake", "--build", str(ours), "--target", *targets], check=True, stdout=subprocess.DEVNULL)
    names = ["pullback", "libpullback.so"]
    differ = [name for name in names if not same_file(ours / name, theirs / name)]
    print(f"{len(names) - len(differ)} of {len(names)} files have the bits of the build in this folder", flush=True)
    if differ:
        tell_difference(ours, theirs)


def main():
    parser = argparse.ArgumentParser(description="README's blocks, run as they stand on an empty Debian.")
    parser.add_argument("--place", type=pathlib.Path, default=pathlib.Path("/tmp/pullback-first-hour"))
    parser.add_argument("--keep", action="store_true", help="keep the root")
    parser.add_argument("--list", action="store_true", help="what would run")
    asked = parser.parse_args()
    if asked.list:
        print("\n".join(name for name, _ in steps()))
        return 0
    asked.place = asked.place.resolve()
    asked.place.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    machine = Machine(asked.place)
    try:
        where = "an empty Debian 12" if machine.bare else "a folder of this machine: no empty Debian can be made here"
        print(f"In {where}, ready after {time.monotonic() - begin:.0f} s", flush=True)
        there = machine.nothing_there()
        if there:
            print(f"FAILED: there already: {', '.join(there)}")
            return 1
        if machine.bare:  # the one thing that a reader has not
            machine.run("apt-get -qq update && apt-get -qq install -y --no-install-recommends ccache", asked.place / "ccache.log")
        failed = rehearse(machine, asked.place)
        if not failed:
            failed = [f"README shows '{line}'" for line in figures(machine)]
            other_bits(machine)
    finally:
        machine.close(asked.keep)
    for name in failed:
        print(f"FAILED: {name}")
    print(f"{'FAILED' if failed else 'All passed'} in {where}, {time.monotonic() - begin:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
