"""The package as a package: version, interface number, types, docstrings."""
import ast
import itertools
import os
import pathlib
import re
import subprocess
import sys
import sysconfig

import pytest

import pullback as pb
from conftest import BUILD, PROGRAMS, ROOT

PACKAGE, MODULES = pathlib.Path(ROOT, "python", "pullback"), sorted(pathlib.Path(ROOT, "python", "pullback").glob("*.py"))


def test_version_is_that_of_the_library():
    stated = re.search(r"project\(pullback VERSION ([0-9.]+)", pathlib.Path(ROOT, "CMakeLists.txt").read_text())[1]
    assert pb.__version__ == pb._core.version == stated


def extension(folder, change):
    """A package whose extension was made with other headers, over the library that is here; runs Python with it."""
    package, include = folder / "pullback", folder / "include" / "pullback"
    package.mkdir()
    include.mkdir(parents=True)
    for file in MODULES:
        (package / file.name).symlink_to(file)
    before = {file.name: file.read_text() for file in pathlib.Path(ROOT, "include", "pullback").glob("*.h")}
    after = {name: change(text) for name, text in before.items()}
    assert after != before
    for name, text in after.items():
        (include / name).write_text(text)
    sources = pathlib.Path(ROOT, "python", "core").glob("*.c")
    flags = ["-shared", "-fPIC", "-O0", "-w", "-std=gnu17", "-D_GNU_SOURCE", "-DPy_LIMITED_API=0x030B0000", f"-I{folder / 'include'}", f"-I{sysconfig.get_paths()['include']}",
             f"-L{PROGRAMS}", f"-Wl,-rpath,{PROGRAMS}", "-o", str(package / "_core.abi3.so")]
    subprocess.run(["cc", *(str(f) for f in sources if f.stem != "glibc"), *flags, "-lpullback"], check=True)
    return lambda text: subprocess.run([sys.executable, "-c", text], cwd=folder, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(folder)})


def test_another_interface_number_is_refused(tmp_path):
    run = extension(tmp_path, lambda text: re.sub(r"(?m)^#define PB_ABI \d+$", "#define PB_ABI 99", text))
    done = run("import pullback")
    assert done.returncode != 0 and "ImportError: pullback: this extension was built for interface 99, and the library has " in done.stderr


def test_numbers_of_enumerators_are_those_of_the_headers(tmp_path):
    """With one more at the head of every enum all that Python knows moves with it; bits of sets, which are written out, stay."""
    number = itertools.count()
    run = extension(tmp_path, lambda text: re.sub(r"enum (\w+ )?\{(?!\s*PB_)", lambda found: f"{found[0]} pb_more{next(number)},", text))
    done = run("from pullback import _core, names, model; print(dict(_core.constants)); print(names.OBJECTS); print(model._INERTIA); print(list(names._WIDTHS)); assert _core.xla_targets(None, None) is None and _core.xla_close() == 0")
    assert done.returncode == 0, done.stderr  # this build has no header of XLA's
    constants, objects, inertia, widths = map(ast.literal_eval, done.stdout.splitlines())
    mine = pb._core.constants
    assert constants == {name: value + (not name.startswith(("pb_shared", "pb_by"))) for name, value in mine.items()}
    assert objects == {name: value + 1 for name, value in pb.names.OBJECTS.items()} and list(inertia.values()) == [1, 2, 3] and widths == [1, 2, 3, 4]


# ---- types and texts ------------------------------------------------------------------------------------------------------------
def checked(tool, *arguments, cache):
    """What a tool of mypy says with the package of the build on its path."""
    package = os.path.join(BUILD, "python")
    program = os.path.join(os.path.dirname(sys.executable), tool)
    assert os.path.exists(program), f"{program} is not there: tools/setup --install test"
    return subprocess.run([program, *arguments], capture_output=True, text=True, cwd=cache, env={**os.environ, "MYPYPATH": package, "PYTHONPATH": package})


def test_a_users_program_is_typed(tmp_path):
    """mypy --strict over a program that runs; one that misuses the package is told."""
    user = pathlib.Path(__file__).parent / "typed" / "user.py"
    assert (PACKAGE / "py.typed").exists()
    done = checked("mypy", "--strict", str(user), cache=tmp_path)
    assert done.returncode == 0, done.stdout
    (tmp_path / "wrong.py").write_text("import pullback as pb\nm = pb.load(1)\nm.step(m.init(), ctrl=None).qpos.shape + 1\npb.load('m', option={})\n")
    done = checked("mypy", "--strict", "wrong.py", cache=tmp_path)
    assert {int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line} == {2, 3, 4}, done.stdout
    run = subprocess.run([sys.executable, str(user), os.path.join(ROOT, "examples", "quadruped", "quadruped.xml")], capture_output=True, text=True,
                         env={**os.environ, "PYTHONPATH": os.path.join(BUILD, "python")})
    assert run.returncode == 0 and pb.__version__ in run.stdout, run.stderr


def test_the_stub_is_that_of_the_extension(tmp_path):
    done = checked("stubtest", "pullback._core", cache=tmp_path)
    assert done.returncode == 0, done.stdout


def public(tree, prefix=""):
    """Public functions, classes and methods of a module: name, node."""
    for node in tree.body:
        words = {getattr(d, "attr", getattr(d, "id", "")) for d in getattr(node, "decorator_list", ())}
        part = words & {"setter", "overload"}  # the property, or the function itself, says what it is
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_") and not part:
            yield prefix + node.name, node
            if isinstance(node, ast.ClassDef):
                yield from public(node, f"{prefix}{node.name}.")


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.stem)
def test_all_public_names_have_docstrings(module):
    tree = ast.parse(module.read_text())
    assert ast.get_docstring(tree)
    assert [name for name, node in public(tree) if len((ast.get_docstring(node) or "").split()) < 3] == []


def test_docstrings_of_the_extension():
    for name in pb.__all__:
        assert getattr(pb, name).__doc__, name
    for cls in (pb._core.Compiled, pb._core.Model, pb._core.State, pb._core.Run):
        assert [n for n in vars(cls) if not n.startswith("__") and not getattr(cls, n).__doc__] == []


@pytest.mark.parametrize("name, said", [("load", "UnsupportedError"), ("loads", "assets"), ("Model.rollout", r"\(N, nu\).*StepError"), ("Model.init", "ArgumentError"),
                                        ("Model.step", r"\(nu,\).*StepError"), ("Model.step_into", r"\(B, nu\).*StepError"), ("Model.with_params", "KeyError"),
                                        ("Rollout.vjp", r"\(N \+ 1, nv\).*ArgumentError"), ("Model.timestep", r"\bs\b")])
def test_docstrings_tell_shapes_units_and_errors(name, said):
    found = pb
    for part in name.split("."):
        found = getattr(found, part)
    assert re.search(said, found.__doc__, re.DOTALL)
