"""Folders with what another machine has: headers and libraries of 64-bit ARM out of Debian's packages, and for musl, which Debian has no
packages for, the same libraries compiled from its sources. tools/other_machines and tools/wheel.py build against them.

Nothing is installed, and no rights are needed: apt keeps lists and archives of its own below build/other/apt-ARCHITECTURE. A root that
is complete is kept, and its stamp tells by what it was made.
Tests: tools/other_machines (make check-all).
"""
import hashlib
import os
import pathlib
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
PLACE = ROOT / "build" / "other"
SUITE = "bookworm"
KEY = "/usr/share/keyrings/debian-archive-keyring.gpg"
LIBRARY = "aarch64-linux-gnu"
READERS = ["libc6-dev", "libexpat1-dev", "libjansson-dev", "libpng-dev", "zlib1g-dev", "libqhull-dev"]

# What is compiled for musl: Debian's source package, the files, the headers, where they go, flags, files that are copied
# or made (empty) before.
LIBRARIES = {
    "z": ("zlib", "*.c", ["zlib.h", "zconf.h"], "", ["-DHAVE_UNISTD_H"], {"zconf.h.in": "zconf.h"}),
    "expat": ("expat", "expat/lib/xml*.c", ["expat/lib/expat.h", "expat/lib/expat_external.h"], "",
              ["-DXML_DTD=1", "-DXML_NS=1", "-DXML_GE=1", "-DXML_CONTEXT_BYTES=1024", "-DHAVE_GETRANDOM", "-DBYTEORDER=1234", "-Iexpat/lib"],
              {"": "expat_config.h"}),
    "png": ("libpng1.6", "png*.c", ["png.h", "pngconf.h", "pnglibconf.h"], "", ["-DPNG_INTEL_SSE_OPT=0"],
            {"scripts/pnglibconf.h.prebuilt": "pnglibconf.h"}),
    "jansson": ("jansson", "src/*.c", ["src/jansson.h", "android/jansson_config.h"], "",
                ["-DHAVE_STDINT_H", "-DHAVE_UNISTD_H", "-DHAVE_FCNTL_H", "-DHAVE_SYS_TIME_H", "-DHAVE_GETPID", "-DHAVE_SCHED_YIELD",
                 "-DHAVE_SYNC_BUILTINS", "-DUSE_URANDOM", "-DINITIAL_HASHTABLE_ORDER=3", "-Isrc", "-Iandroid"], {"": "jansson_private_config.h"}),
    "qhull_r": ("qhull", "src/libqhull_r/*.c", ["src/libqhull_r/*.h"], "libqhull_r", ["-Isrc"], {}),
    "cmocka": ("cmocka", "src/*.c", ["include/cmocka.h"], "",
               ["-DHAVE_SIGNAL_H", "-DHAVE_INTTYPES_H", "-DHAVE_STRINGS_H", "-DHAVE_MALLOC_H", "-DHAVE_SIGLONGJMP", "-DHAVE_STRSIGNAL",
                "-DHAVE_STRUCT_TIMESPEC", "-DHAVE_CLOCK_REALTIME", "-DHAVE_GCC_THREAD_LOCAL_STORAGE", "-Iinclude"], {}),
}
ASKED = {"qhull_r": "8.0.2", "jansson": "2.14"}  # by pkg-config, which wants a version


def program(variable, *names):
    """The first of these programs that is there, by the name or place that the environment says for it; None."""
    given = os.environ.get(variable)
    return next(filter(None, (shutil.which(n) for n in ([given] if given else names))), None)


def mirror():
    """Where this machine has its packages of Debian from."""
    asked = ["apt-get", "indextargets", "--format", "$(SITE) $(CODENAME)", "Created-By: Packages"]
    lines = subprocess.run(asked, capture_output=True, text=True).stdout.splitlines()
    return next((line.split()[0] for line in lines if line.endswith(f" {SUITE}")), "http://deb.debian.org/debian")


def apt(architecture, *words, folder=None):
    """apt-get for an architecture, with nothing installed and folders of its own; returns the one with archives."""
    own = PLACE / f"apt-{architecture}"
    (own / "state" / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    (own / "cache" / "archives" / "partial").mkdir(parents=True, exist_ok=True)
    (own / "status").touch()
    (own / "sources.list").write_text("".join(f"{kind} [signed-by={KEY}] {mirror()} {SUITE} main\n" for kind in ("deb", "deb-src")))
    (own / "apt.conf").write_text(f"""APT::Architecture "{architecture}"; APT::Architectures {{ "{architecture}"; }};
Dir::State "{own}/state"; Dir::State::status "{own}/status"; Dir::Cache "{own}/cache"; Dir::Etc::sourceparts "-";
Dir::Etc::sourcelist "{own}/sources.list"; APT::Install-Recommends "false"; APT::Sandbox::User "root"; Debug::NoLocking "true";
""")
    environment = {**os.environ, "APT_CONFIG": str(own / "apt.conf")}
    for command in (["clean"], ["update"], list(words)):
        done = subprocess.run(["apt-get", "-qq", "-y", *command], cwd=folder, env=environment, capture_output=True, text=True)
        if done.returncode:
            raise OSError(f"apt-get {' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
    return own / "cache" / "archives"


def stamped(root, *what):
    """Whether a root was made by this; else it is emptied."""
    stamp = hashlib.sha256(repr(what).encode()).hexdigest()
    if (root / "stamp").exists() and (root / "stamp").read_text() == stamp:
        return True, stamp
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    return False, stamp


def debian_root(architecture, packages):
    """Debian's packages and what they need, unpacked: a root for a compiler's --sysroot and qemu's -L."""
    root = PLACE / f"root-{architecture}"
    made, stamp = stamped(root, packages)
    if made:
        return root

    archives = apt(architecture, "--download-only", "install", *packages)
    for archive in sorted(archives.glob("*.deb")):
        subprocess.run(["dpkg-deb", "-x", archive, root], check=True)

    # What points to a file from / on would point to this machine's.
    for path in filter(pathlib.Path.is_symlink, root.rglob("*")):
        to = os.readlink(path)
        if to.startswith("/"):
            path.unlink()
            path.symlink_to(os.path.relpath(root / to.lstrip("/"), path.parent))
    (root / "stamp").write_text(stamp)
    return root


def package_of(root, path):
    """Debian's package of a file of a root."""
    inside = "./" + str(pathlib.Path(path).relative_to(root))
    for archive in (PLACE / f"apt-{root.name.removeprefix('root-')}" / "cache" / "archives").glob("*.deb"):
        names = subprocess.run(["dpkg-deb", "--fsys-tarfile", archive], check=True, capture_output=True).stdout
        listed = subprocess.run(["tar", "-t"], input=names, check=True, capture_output=True).stdout.decode().splitlines()
        if inside in listed:
            return archive.name.split("_")[0]
    return None


def toolchain(name, root, compiler, lines=()):
    """A file for CMake by which it builds for a root, and finds nothing of this machine."""
    file = PLACE / f"{name}.cmake"
    PLACE.mkdir(parents=True, exist_ok=True)
    settings = {"CMAKE_C_COMPILER": compiler, "CMAKE_FIND_ROOT_PATH": root, "CMAKE_FIND_ROOT_PATH_MODE_PROGRAM": "NEVER",
                "CMAKE_FIND_ROOT_PATH_MODE_LIBRARY": "ONLY", "CMAKE_FIND_ROOT_PATH_MODE_INCLUDE": "ONLY"}
    file.write_text("".join(f"set({key} {value})\n" for key, value in settings.items()) + "".join(f"set({line})\n" for line in lines))
    return file


def arm_programs():
    """Its compiler and what runs its programs; None where they are not there."""
    return program("AARCH64_CC", "aarch64-linux-gnu-gcc"), program("QEMU", "qemu-aarch64-static", "qemu-aarch64")


def arm():
    """The root of 64-bit ARM, with Python and cmocka; CMake's file for it."""
    root = debian_root("arm64", [*READERS, "libcmocka-dev", "python3-minimal", "libpython3-dev"])
    compiler, emulator = arm_programs()
    folders = f"{root}/usr/lib/{LIBRARY}/pkgconfig:{root}/usr/share/pkgconfig"
    return root, toolchain("aarch64", root, compiler, [
        "CMAKE_SYSTEM_NAME Linux", "CMAKE_SYSTEM_PROCESSOR aarch64", f"CMAKE_SYSROOT {root}", f"CMAKE_LIBRARY_ARCHITECTURE {LIBRARY}",
        f"ENV{{PKG_CONFIG_SYSROOT_DIR}} {root}", f"ENV{{PKG_CONFIG_LIBDIR}} {folders}", f"CMAKE_CROSSCOMPILING_EMULATOR {emulator} -L {root}"])


def compile_library(name, folder, root, compiler):
    """An archive and its headers in a root, from the sources in a folder."""
    _, sources, headers, where, flags, copied = LIBRARIES[name]
    for source, to in copied.items():
        (folder / to).write_bytes((folder / source).read_bytes() if source else b"")
    files = [str(p.relative_to(folder)) for p in sorted(folder.glob(sources)) if p.name not in ("pngtest.c", "example.c")]
    always = ["-O2", "-fPIC", "-w", f"-I{root}/include", "-I."]
    subprocess.run([compiler, "-c", *always, *flags, *files], cwd=folder, check=True)
    archive = root / "lib" / f"lib{name}.a"
    subprocess.run(["ar", "rcs", archive, *(pathlib.Path(f).stem + ".o" for f in files)], cwd=folder, check=True)

    (root / "include" / where).mkdir(exist_ok=True)
    for header in (p for pattern in headers for p in folder.glob(pattern)):
        shutil.copy(header, root / "include" / where)
    if name in ASKED:
        (root / "lib" / "pkgconfig" / f"{name}.pc").write_text(
            f"Name: {name}\nDescription: {name}\nVersion: {ASKED[name]}\nLibs: -L{root}/lib -l{name} -lm\nCflags: -I{root}/include\n")


def musl():
    """The libraries of the file readers and cmocka for musl, of which Debian has the compiler alone; CMake's file for them."""
    root, compiler = PLACE / "root-musl", program("MUSL_CC", "musl-gcc")
    file = toolchain("musl", root, compiler, [f"ENV{{PKG_CONFIG_LIBDIR}} {root}/lib/pkgconfig", "CMAKE_PREFIX_PATH /"])
    made, stamp = stamped(root, compiler, LIBRARIES)
    if made:
        return root, file

    for folder in ("include", "lib/pkgconfig", "sources"):
        (root / folder).mkdir(parents=True)
    apt("amd64", "source", *(package for package, *_ in LIBRARIES.values()), folder=root / "sources")
    for name, (package, *_) in LIBRARIES.items():
        (folder,) = (p for p in (root / "sources").glob(f"{package}-*") if p.is_dir())
        compile_library(name, folder, root, compiler)
    (root / "stamp").write_text(stamp)
    return root, file
