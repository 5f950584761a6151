"""How the package was built, and which Pythons it refuses."""
import os
import pathlib
import re
import subprocess
import sys
import tomllib
import venv

import pytest

import pullback as pb
from conftest import BUILD, ROOT

PACKAGE = f"{BUILD}/python"


def test_build_info():
    info = pb.build_info()
    assert info["version"] == pb.__version__ and isinstance(info["abi"], int) and info["compiler"] and info["kernels"][-1] == "r"
    assert list(info["libraries"]) == ["expat", "jansson", "zlib", "libpng", "qhull"] and info["hulls"] == bool(info["libraries"]["qhull"])
    assert info["viewer"] is None or re.fullmatch(r"three\.js r\d+, SHA-256 [0-9a-f]{64}", info["viewer"])
    assert all(text is None or text[0].isdigit() or "own" in text for text in info["libraries"].values())


TOUCHING = """<mujoco><asset><mesh name="m" vertex="0 0 0 1 0 0 0 1 0 0 0 1"/></asset><worldbody><body><freejoint/><geom type="mesh" mesh="m"/></body>
</worldbody></mujoco>"""


def test_hulls_are_there_or_refused_by_name():
    if pb.build_info()["hulls"]:
        assert pb.loads(TOUCHING).nbody == 2
    else:
        with pytest.raises(pb.UnsupportedError, match="mesh 'm': convex hulls .* qhull"):
            pb.loads(TOUCHING)


def test_free_threaded_builds_of_python_are_refused():
    """As far as a usual build can tell: by the letter that such a build has in its name."""
    text = f"import sys; sys.abiflags = 't'; sys.path.insert(0, {PACKAGE!r}); import pullback"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert done.returncode != 0 and "free-threaded" in done.stderr.splitlines()[-1] and "ImportError" in done.stderr


def test_subinterpreters_are_refused():
    text = f"""import sys
import _xxsubinterpreters as interpreters
one = interpreters.create()
interpreters.run_string(one, "import sys; sys.path.insert(0, {PACKAGE!r}); import pullback._core")"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert done.returncode != 0 and "main interpreter" in done.stderr, done.stderr


# ---- frameworks -----------------------------------------------------------------------------------------------------------------
BALL = f"{ROOT}/examples/ball/ball.xml"
USES = {"torch": ("torch", "pb.torch"), "jax": ("jax", "pb.jax"), "gym": ("gymnasium", "pb.gym"),
        "viewer": ("matplotlib", f"m = pb.load({BALL!r}); pb.plot(m.rollout(m.init(), steps=2))")}


def alone(text):
    return subprocess.run([sys.executable, "-c", f"import sys; sys.path.insert(0, {PACKAGE!r}); {text}"], capture_output=True, text=True)


@pytest.mark.parametrize("extra", USES)
def test_a_missing_framework_is_named_with_its_command(extra):
    module, use = USES[extra]
    done = alone(f"sys.modules[{module!r}] = None; import pullback as pb; {use}")
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ImportError: ") and last.endswith(f"pip install 'pullback[{extra}]'"), done.stderr
    assert re.search(rf"(?m)^{extra} = \[.*\"{module}>=", pathlib.Path(ROOT, "pyproject.toml").read_text())


def test_no_framework_is_imported_before_its_use():
    done = alone("import pullback as pb; print(sorted({'torch', 'jax', 'gymnasium', 'mujoco', 'matplotlib'} & set(sys.modules)), hasattr(pb, 'tensorflow'))")
    assert done.stdout == "[] False\n", done.stderr


def test_what_pip_builds(tmp_path):
    """XLA's header is that of the environment that is installed into, also where Python sees no packages of it, as when pip builds in isolation.
    And no object lies in the folder that scikit-build-core empties where the isolated environment is a new one: one line changed compiles one file."""
    venv.create(tmp_path / "env", with_pip=False)
    python = tmp_path / "env" / "bin" / "python"
    places = subprocess.run([python, "-c", "import sysconfig; print(sysconfig.get_path('platlib'))"], capture_output=True, text=True, check=True)
    header = pathlib.Path(places.stdout.strip(), "jaxlib", "include", "xla", "ffi", "api", "c_api.h")
    header.parent.mkdir(parents=True)
    header.write_text("")
    chosen = ["-DPULLBACK_PYTHON=ON", "-DPULLBACK_TESTS=OFF", "-DPULLBACK_BENCH=OFF", f"-DPython3_EXECUTABLE={python}"]
    configured = subprocess.run(["cmake", "-S", f"{ROOT}/python/wheel", "-B", tmp_path / "build", "-G", "Ninja", *chosen], capture_output=True, text=True,
                                env={**os.environ, "PYTHONPATH": ""})
    assert configured.returncode == 0, configured.stderr
    found = re.search(r"PULLBACK_XLA:PATH=(.*)", (tmp_path / "build" / "CMakeCache.txt").read_text())[1]
    assert found == str(header.parents[3])
    objects = re.findall(r"(?m)^build (\S+\.o):", (tmp_path / "build" / "build.ninja").read_text())
    assert len(objects) > 500 and not [o for o in objects if o.startswith("CMakeFiles")]
    assert tomllib.loads(pathlib.Path(ROOT, "pyproject.toml").read_text())["tool"]["scikit-build"]["cmake"]["source-dir"] == "python/wheel"
