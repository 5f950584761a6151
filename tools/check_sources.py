#!/usr/bin/env python3
"""The Python package built as where expat, jansson, zlib, libpng and qhull are not there.   tools/check_python sources

Builds the extension without them (presets without, without-asan), runs the NumPy part of its tests with it, and compares what it says of
files, whole and broken ones, with what the usual build says: the same bits where they load and the same text where they do not; only
hulls are missing, by name. Once more below the address sanitizer. An archive of the sources is made and installed in the same way. What
cannot be built is refused in a sentence.
  tools/check_sources.py [MUTATIONS]   of each file (20); the usual build is that of build/release or PULLBACK_BUILD
"""
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
USUAL = pathlib.Path(os.environ.get("PULLBACK_BUILD", ROOT / "build" / "release"))
PYTHON = ROOT / "build" / "venv" / "bin" / "python"
TOOLS = ROOT / "build" / "frameworks" / "bin" / "python"
WITHOUT = "-DPULLBACK_WITHOUT=expat;jansson;zlib;png;qhull"
TRIAL = """import pullback as pb
model = pb.load("examples/quadruped/quadruped.xml")
g = model.rollout(model.init(), steps=3).vjp(qpos=[1] + (model.nv - 1) * [0])
print(g.qvel.tolist(), pb.build_info()["hulls"], "check_sources" in pb.__file__)"""
NO_HULLS = "convex hulls were not built in"


def run(*command, **more):
    return subprocess.run([str(c) for c in command], cwd=more.pop("cwd", ROOT), **more)


def build(preset):
    if run("cmake", "--preset", preset, "-G", "Ninja", stdout=subprocess.DEVNULL).returncode or \
            run("cmake", "--build", "--preset", preset, "--target", "pullback_core", stdout=subprocess.DEVNULL).returncode:
        sys.exit(f"{preset}: not built")
    return ROOT / "build" / preset


def tests(folder):
    return run(PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/python",
               env={**os.environ, "PULLBACK_BUILD": str(folder), "PULLBACK_PROGRAMS": str(USUAL), "OMP_NUM_THREADS": "2"}).returncode == 0


def said(folder, work, mutations, **environment):
    """What a build says of files: (kind, name, size, text) each. The folder has one name for all, which stands in messages."""
    for file in work.iterdir():
        file.unlink()
    done = run(PYTHON, "-W", "ignore", ROOT / "tests" / "python" / "read_files.py", mutations, cwd=work, capture_output=True, text=True,
               env={**os.environ, "PYTHONPATH": str(folder / "python"), **environment})
    if done.returncode:
        sys.exit(f"{folder.name}: exit {done.returncode}\n{done.stdout[-300:]}\n{done.stderr[-3000:]}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def compare(usual, other, name):
    """Every line, but where only hulls are missing."""
    hulls = [b for a, b in zip(usual, other) if a != b and a[:3] == b[:3] and NO_HULLS in b[3]]
    different = [(a, b) for a, b in zip(usual, other) if a != b and b not in hulls]
    for a, b in different[:10]:
        print(f"{a}\n  {b[3]}")
    loaded = collections.Counter(kind for kind, _, _, text in usual if ": " not in text)
    print(f"{name}: {len(usual)} files, of which {sum(loaded.values())} load ({', '.join(f'{n} {k}' for k, n in sorted(loaded.items()))}); "
          f"{len(hulls)} need hulls; {len(different)} differ")
    return len(usual) == len(other) and not different and loaded.keys() >= {"array", "model", "mesh", "mjcf", "png", "shape", "task", "urdf"} and bool(hulls)


def from_archive(work):
    """What pip makes of the sources alone, beside the usual build. Nothing is fetched, and what is compiled is kept by ccache."""
    environment = {**os.environ, "CMAKE_ARGS": f"-DPULLBACK_WIDE=OFF {WITHOUT}", "CCACHE_BASEDIR": tempfile.gettempdir(), "CCACHE_NOHASHDIR": "1"}
    quiet = {"stdout": subprocess.DEVNULL, "env": environment}
    if run(TOOLS, "-m", "build", "--sdist", "--no-isolation", "-o", work, ROOT, **quiet).returncode:
        return False
    if run(TOOLS, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-index", "--no-deps", "--no-build-isolation", "--target",
           work / "site", next(work.glob("*.tar.gz")), **quiet).returncode:
        return False
    found = [run(PYTHON, "-c", TRIAL, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(path)}) for path in (USUAL / "python", work / "site")]
    usual, own = ([*done.stdout.split()] for done in found)
    passed = own[-2:] == ["False", "True"] and own[:-2] == usual[:-2]
    print(f"from an archive of the sources: {'the same gradient' if passed else [done.stderr for done in found]}")
    return passed


def refusals(work):
    """What CMake says of what cannot be built."""
    (work / "sitecustomize.py").write_text("import sysconfig; sysconfig.get_config_vars()['Py_GIL_DISABLED'] = 1\n")  # as in such a build
    alone = ["-DPULLBACK_PYTHON=ON", "-DPULLBACK_TESTS=OFF"]
    passed = True
    for words, options, environment in (
            ("only the Python extension does without libraries", ["-DPULLBACK_WITHOUT=expat"], {}),
            ("expected some of expat, jansson, zlib, png, qhull, found libexpat", [*alone, "-DPULLBACK_WITHOUT=libexpat"], {}),
            ("jansson is not there", ["-DPULLBACK_PYTHON=ON", "-DPULLBACK_WITHOUT=jansson"], {}),
            ("is a free-threaded build", alone, {"PYTHONPATH": str(work)})):
        done = run("cmake", "-S", ROOT, "-B", work / "build", *options, capture_output=True, text=True, env={**os.environ, **environment})
        if not done.returncode or words not in " ".join(done.stderr.split()):
            print(f"cmake {' '.join(options)}: expected '{words}', found:\n{done.stderr}")
            passed = False
        (work / "build" / "CMakeCache.txt").unlink(missing_ok=True)
    return passed


def main():
    mutations = sys.argv[1] if len(sys.argv) > 1 else "20"
    plain, asan = build("without"), build("without-asan")
    passed = tests(plain)
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        usual = said(USUAL, work, mutations)
        passed &= compare(usual, said(plain, work, mutations), "without libraries")
        library = subprocess.run(["cc", "-print-file-name=libasan.so"], capture_output=True, text=True).stdout.strip()
        passed &= compare(usual, said(asan, work, mutations, LD_PRELOAD=library, ASAN_OPTIONS="detect_leaks=0", PYTHONMALLOC="malloc"), "address sanitizer")
    with tempfile.TemporaryDirectory(prefix="check_sources") as name:
        passed &= from_archive(pathlib.Path(name))
    with tempfile.TemporaryDirectory() as name:
        passed &= refusals(pathlib.Path(name))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
