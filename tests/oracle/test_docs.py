"""Every fenced block of the README and the docs is run: shell, JSON, C, Python, and what is shown as output.

A fence names its language; ```LANG fragment=KIND is a piece that the test of that kind completes. A block without `fragment`
stands on its own: a shell script, a task that `optimize` takes and that ends well.

Blocks "story" of a page are one script, from its top to its end; "said" is what they print, "shown" a file of examples/.

Fragments "package", "torch", "jax" and names of other packages are of the Python package, and "printed" is what they print:
tests/python/test_python_docs.py, and of docs/gallery the site's build (docs/site/scenes.py).

Files and identifiers of the repository that the pages name must exist.
"""
import fnmatch
import functools
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "docs" / "site"))
import snippets  # noqa: E402

FOLDERS = ("docs", "docs/guide", "docs/gallery")
PAGES = ["README.md", "CONTRIBUTING.md", "validation/report.md", *sorted(str(p.relative_to(ROOT)) for folder in FOLDERS for p in (ROOT / folder).glob("*.md"))]
KINDS = {("sh", ""), ("sh", "debian"), ("cmake", "installed"), ("sh", "make"), ("sh", "train"), ("sh", "package"), ("sh", "installed"), ("python", "package"), ("python", "torch"), ("python", "jax"), ("python", "scipy"), ("python", "mujoco"), ("python", "matplotlib"), ("python", "gym"), ("json", ""), ("json", "energies"), ("json", "followers"), ("json", "sample"), ("json", "drawn"), ("json", "stages"), ("json", "contact"), ("json", "points"), ("c", "tour"), ("c", "body"), ("c", "controller"), ("c", "lcp"),
         ("text", "tour"), ("text", "controller"), ("text", "lcp"), ("text", "formula"), ("text", "error")}
KINDS |= {("sh", "page"), ("sh", "system"), ("text", "printed"), ("sh", "story"), ("text", "said"), ("json", "shown")}


def blocks():
    found = []
    for page in PAGES:
        lines, start, info = (ROOT / page).read_text().splitlines(), None, ""
        for n, line in enumerate(lines, 1):
            if not line.lstrip().startswith("```"):
                continue
            if start is None:
                start, info = n, line.strip()[3:]
            else:
                language, _, rest = info.partition(" ")
                found.append((page, start, language, rest.removeprefix("fragment="), "\n".join(lines[start:n - 1]) + "\n"))
                start = None
        assert start is None, f"{page}:{start}: the fence is not closed"
    return found


BLOCKS = blocks()


def of(language, kind):
    return [pytest.param(*b, id=f"{b[0]}:{b[1]}") for b in BLOCKS if b[2:4] == (language, kind)]


def test_every_fence_has_a_language_and_a_test():
    assert len(BLOCKS) >= 14
    for page, line, language, kind, _ in BLOCKS:
        assert (language, kind) in KINDS, f"{page}:{line}: '{language}' with fragment '{kind}' has no test"


@pytest.fixture
def checkout(tmp_path, pullback):
    """What the README's lines need of a checkout with a build."""
    (tmp_path / "build").mkdir()
    os.symlink(pathlib.Path(pullback).parent, tmp_path / "build" / "release")
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    return tmp_path


def shell(text, cwd):
    python = ROOT / "build" / "venv" / "bin"
    environment = {**os.environ, "PATH": f"{cwd}/build/release:{python}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-e", "-u", "-o", "pipefail", "-c", text], cwd=cwd, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.mark.parametrize("page, line, language, kind, text", of("sh", ""))
def test_shell(checkout, page, line, language, kind, text):
    shell(text, checkout)


def says(output, text):
    """Lines of the page stand in the output in their order, with nearly its numbers; "..." at a line's end leaves out its rest."""
    left = output.splitlines()
    for line in text.splitlines():
        words = line.removesuffix("...").split()
        same = lambda said: snippets.agree(" ".join(said.split()[:len(words)] if line.endswith("...") else said.split()), " ".join(words))
        at = next((k for k, said in enumerate(left) if same(said)), None)
        assert at is not None, f"'{line}' is not in\n{output}"
        left = left[at + 1:]


@pytest.mark.parametrize("page", sorted({b[0] for b in BLOCKS if b[2:4] == ("sh", "story")}))
def test_stories(checkout, page):
    """The shell of a page as one, from its top: files that a block writes are there for the next."""
    story = [b for b in BLOCKS if b[0] == page and b[2:4] in {("sh", "story"), ("text", "said"), ("json", "shown")}]
    mark = "---- next block ----"
    script = f"\necho '{mark}'\n".join(b[4] for b in story if b[2] == "sh")
    said = iter(shell("exec 2>&1\n" + script, checkout).split(mark + "\n"))
    output = ""
    for _, line, language, _, text in story:
        if language == "sh":
            output = next(said)
        elif language == "text":
            assert text.strip(), f"{page}:{line}: nothing is shown"
            says(output, text)
        else:  # a file of an example, but for its comment
            shown = [json.loads(p.read_text()) for p in (ROOT / "examples").glob("*/*.json")]
            assert json.loads(text) in [{k: v for k, v in one.items() if k != "comment"} for one in shown], f"{page}:{line}"


@pytest.mark.parametrize("page, line, language, kind, text", of("sh", "train"))
def test_training(checkout, page, line, language, kind, text):
    """The commands, with three updates of four worlds for half a second."""
    for task in (checkout / "examples").glob("*/*.json"):
        stated = json.loads(task.read_text())
        if "train" in stated:
            stated["train"] |= {"updates": 3, "worlds": 4, "evaluate": {"every": 3, "starts": 1}}
            stated["episode"]["seconds"] = 0.5
            task.write_text(json.dumps(stated))
    (checkout / "walk.sh").write_text(text.replace("--steps 6400", "--steps 200"))
    out = shell("bash -e walk.sh || test $? = 1", checkout)  # so short a training need not be confirmed
    assert "checks hold" in out and "confirmed" in out


@pytest.mark.parametrize("page, line, language, kind, text", of("sh", "make"))
def test_make_targets(page, line, language, kind, text):
    for words in re.findall(r"^make ([^#\n]*)", text, re.M):
        done = subprocess.run(["make", "-n", *shlex.split(words)], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, f"{page}:{line}: make {words}: {done.stderr}"
    for path in re.findall(r"^(?:\w+=\S+ )*(\.\S+)", text, re.M):
        assert (ROOT / path).exists(), f"{page}:{line}: {path}"


@pytest.mark.parametrize("page, line, language, kind, text", of("json", ""))
def test_tasks(run, tmp_path, page, line, language, kind, text):
    for file in (ROOT / "examples" / "ball").glob("*.xml"):
        shutil.copy(file, tmp_path)
    (tmp_path / "task.json").write_text(text)
    result = json.loads(run("optimize", tmp_path / "task.json", "--json", cwd=tmp_path).stdout)
    assert result["outcome"] in ("criteria met", "converged") and result["loss"] < 1e-3 * result["start_loss"]


@pytest.mark.parametrize("page, line, language, kind, text", of("sh", "page"))
def test_a_page_of_the_gallery_names_itself(page, line, language, kind, text):
    assert text == f"python3 docs/site/snippets.py {page}\n"


def test_packages_of_debian_are_those_of_setup():
    """What docs/guide/install.md has of them is what tools/setup installs to build."""
    line = next(b[4] for b in BLOCKS if b[0] == "docs/guide/install.md" and b[3] == "system" and b[4].startswith("apt-get"))
    setup = (ROOT / "tools" / "setup").read_text()
    needs = "\n".join(re.search(rf'^{name}="(.*?)"', setup, re.M | re.S)[1] for name in ("BUILD", "PYTHON"))
    packages = {row.split()[1] for row in needs.splitlines()}
    named = {word for word in line.split() if re.fullmatch(r"[a-z0-9.-]+", word)} - {"apt-get", "install", "-y", "update"}
    assert named - {"git", "make"} == packages


def deformable(*energies, **more):
    bodies = [{"name": "toy", "mesh": {"box": {"size": [1, 1, 1], "cells": [1, 1, 1]}}, "pos": [0, 0, 2], "mass": 1, "energies": list(energies)}]
    return {"options": {"timestep": 0.01}, "deformables": {"scheme": "implicit_euler", "bodies": bodies, **more}}


@pytest.mark.parametrize("page, line, language, kind, text", of("json", "followers"))
def test_ties(run, tmp_path, page, line, language, kind, text):
    pole = """<mujoco><worldbody><body name="pole"><joint axis="0 1 0"/><geom name="rod" type="box" pos="0 0 .5" size=".05 .05 .5" mass="2"/>
    <body name="tip" pos="0 0 1"><geom type="sphere" size=".1" mass="1"/></body></body></worldbody></mujoco>"""
    task = {"model": pole, "steps": 50, "init": {"qpos": [0.3]}, "loss": [{"qpos": True, "target": [0.31]}], "optimizer": {"iterations": 3},
            "variables": [json.loads(text), {"name": "mass", "parameter": "body_mass:pole"}]}
    (tmp_path / "task.json").write_text(json.dumps(task))
    length = json.loads(run("optimize", tmp_path / "task.json", "--json", cwd=tmp_path).stdout)["variables"][0]
    assert length["value"] != length["start"] and length["sets"]["body_pos:tip:2"] == 2 * length["value"][0]
    assert len(length["sets"]) == 7


@pytest.mark.parametrize("page, line, language, kind, text", of("json", "sample"))
def test_sample(run, tmp_path, page, line, language, kind, text):
    model = """<mujoco><worldbody><geom name="floor" type="plane" size="1 1 1"/><body name="trunk" pos="0 0 1"><joint name="hinge" axis="0 1 0"/>
    <geom type="capsule" fromto="0 0 0 0 0 .5" size=".05"/></body></worldbody></mujoco>"""
    for method, draws in (("adam", "every iteration"), ("lbfgs", "fixed")):
        task = {"model": model, "steps": 20, "loss": [{"qpos": True}], "optimizer": {"method": method, "iterations": 80}, "sample": json.loads(text) | {"worlds": 4},
                "variables": [{"state": "qvel"}, {"parameter": "body_mass:trunk"}]}
        (tmp_path / "task.json").write_text(json.dumps(task))
        result = json.loads(run("optimize", tmp_path / "task.json", "--fresh", "--json", cwd=tmp_path, code=(0, 1)).stdout)
        assert result["draws"] == draws and result["worlds"] == 4 and result["loss"] < result["start_loss"]


@pytest.mark.parametrize("page, line, language, kind, text", of("json", "drawn"))
def test_drawn(run, tmp_path, page, line, language, kind, text):
    model = """<mujoco><option timestep=".01"/><worldbody><geom type="plane" size="9 9 1"/><body name="trunk" pos="0 0 .2"><freejoint name="root"/>
    <geom type="box" size=".2 .1 .1"/><body pos=".3 0 0"><joint name="leg" axis="0 1 0"/><geom type="sphere" size=".05"/></body></body></worldbody>
    <actuator><motor name="leg" joint="leg"/></actuator></mujoco>"""
    task = {"model": model, "policy": {"observe": [{"command": 2}, {"qvel": True}], "layers": [{"dense": 1}]}, "sample": json.loads(text),
            "loss": [{"qvel": "leg", "at": "all"}], "train": {"method": "bptt", "updates": 3, "worlds": 4, "window": 4}, "episode": {"seconds": .2},
            "constants": "recompute"}
    (tmp_path / "task.json").write_text(json.dumps(task))
    run("train", tmp_path / "task.json", "-o", tmp_path / "a.npz", cwd=tmp_path)
    assert (tmp_path / "a.npz").exists()


@pytest.mark.parametrize("page, line, language, kind, text", of("json", "stages"))
def test_stages(run, tmp_path, page, line, language, kind, text):
    model = """<mujoco><option timestep=".01"/><worldbody><geom type="plane" size="1 1 1"/><body pos="0 0 .1">
    <joint name="up" type="slide" axis="0 0 1"/><geom type="sphere" size=".1" mass="1"/></body></worldbody><actuator><motor joint="up"/></actuator></mujoco>"""
    task = {"model": model, "steps": 80, "variables": [{"control": True, "lower": -30, "upper": 30}], "stages": json.loads(text),
            "optimizer": {"method": "ilqr"}, "loss": [{"qpos": "up", "target": 0.4, "weight": 100}, {"control": True, "at": "all", "weight": 1e-4}]}
    (tmp_path / "task.json").write_text(json.dumps(task))
    stages = json.loads(run("optimize", tmp_path / "task.json", "--json", cwd=tmp_path).stdout)["stages"]
    assert [(s["name"], s["steps"]) for s in stages] == [("felt from afar", 80), ("first half", 50), ("sharp", 80)]
    assert stages[0]["loss"] < stages[0]["start_loss"] / 2


@pytest.mark.parametrize("page, line, language, kind, text", of("json", "energies"))
def test_energies(run, tmp_path, page, line, language, kind, text):
    for n, one in enumerate(text.splitlines()):
        energy = json.loads(one)
        task = deformable(energy)
        if "density" in energy["parameters"]:
            del task["deformables"]["bodies"][0]["mass"]
        (tmp_path / "task.json").write_text(json.dumps(task))
        run("simulate", tmp_path / "task.json", "--steps", 3, "-o", tmp_path / "run.npz")
    assert n == 1


@pytest.mark.parametrize("page, line, language, kind, text", of("json", "contact"))
def test_contact(run, tmp_path, page, line, language, kind, text):
    contact = json.loads("{" + text + "}")["contact"]
    task = deformable({"energy": "neo_hookean", "parameters": {"young": 1e5, "poisson": 0.4}}, contact=contact)
    task["model"] = "<mujoco><worldbody><geom name='table' type='box' size='1 1 .1' pos='0 0 -.5'/></worldbody></mujoco>"
    (tmp_path / "task.json").write_text(json.dumps(task))
    run("simulate", tmp_path / "task.json", "--steps", 3, "-o", tmp_path / "run.npz")


@pytest.mark.parametrize("page, line, language, kind, text", of("json", "points"))
def test_a_policy_of_points_learns(run, tmp_path, page, line, language, kind, text):
    (tmp_path / "task.json").write_text(text)
    result = json.loads(run("optimize", tmp_path / "task.json", "--json", cwd=tmp_path).stdout)
    assert result["loss"] < result["start_loss"] - 0.02, result


def formula_task(tmp_path, formula, name):
    (tmp_path / "task.json").write_text(json.dumps(deformable({"formula": formula, "name": name, "on": "edges", "parameters": {"k": 20}})))
    return tmp_path / "task.json"


@pytest.mark.parametrize("page, line, language, kind, text", of("text", "formula"))
def test_formulas(run, tmp_path, page, line, language, kind, text):
    run("simulate", formula_task(tmp_path, text, "spring"), "--steps", 3, "-o", tmp_path / "run.npz")


@pytest.mark.parametrize("page, line, language, kind, text", of("text", "error"))
def test_errors_are_as_shown(run, tmp_path, page, line, language, kind, text):
    wrong = text.splitlines()[1].strip()
    said = run("simulate", formula_task(tmp_path, wrong, "spring"), "--steps", 3, "-o", tmp_path / "run.npz", code=3).stderr
    assert text.strip() in said, said


@pytest.mark.parametrize("page, line, language, kind, text", of("text", "tour") + of("text", "controller") + of("text", "lcp"))
def test_output_of_examples(pullback, page, line, language, kind, text):
    program = pathlib.Path(pullback).parent / "examples" / kind
    found = subprocess.run([program], capture_output=True, text=True, cwd=ROOT).stdout
    number = r"-?\d+(?:\.\d+)?(?:e-?\d+)?"
    assert re.sub(number, "#", found) == re.sub(number, "#", text)
    near = 1e-2 if kind == "controller" else 1e-4  # steps by the sign of a gradient: rounding may decide about one
    for a, b in zip(re.findall(number, found), re.findall(number, text)):
        rounding = abs(float(b)) < 1e-8  # residuals: their size alone
        assert float(a) == pytest.approx(float(b), rel=near) or (rounding and abs(float(a)) < 1e-8), (a, b)


@pytest.mark.parametrize("page, line, language, kind, text", of("c", "tour") + of("c", "controller"))
def test_statements_stand_in_the_example(page, line, language, kind, text):
    squeeze = lambda code: re.sub(r"\s+", "", re.sub(r"//[^\n]*", "", code))
    source = squeeze((ROOT / "examples" / f"{kind}.c").read_text())
    for statement in filter(None, map(squeeze, re.findall(r"[^;]*;", re.sub(r"//[^\n]*", "", text)))):
        assert statement.rstrip(";") in source, f"{page}:{line}: {statement} does not stand in examples/{kind}.c"


@pytest.mark.parametrize("page, line, language, kind, text", of("c", "lcp"))
def test_the_whole_program_is_the_example(page, line, language, kind, text):
    """tests/package/run builds it against what is installed."""
    assert text == (ROOT / "examples" / f"{kind}.c").read_text().split("\n", 1)[1]


@pytest.mark.parametrize("page, line, language, kind, text", of("sh", "installed"))
def test_what_is_installed_is_used_so(page, line, language, kind, text):
    tried = (ROOT / "tests" / "package" / "run").read_text()
    for found in re.findall(r"\$\((pkg-config [^)]*)\)", text):
        assert f"$({found})" in tried, f"{page}:{line}: {found}"


def test_all_blocks_of_readme_are_rehearsed():
    """On an empty Debian, by make first-hour; each in its place."""
    names = subprocess.run([sys.executable, str(ROOT / "tools" / "first_hour.py"), "--list"], capture_output=True, text=True, check=True).stdout.splitlines()
    lines = [int(name.split(":")[1].split()[0]) for name in names if name.startswith("README:")]
    for page, line, language, kind, text in BLOCKS:
        if page == "README.md" and kind != "tour":
            assert any(line <= at <= line + text.count("\n") for at in lines), f"README.md:{line}: not rehearsed"
    assert "make test" in next(name for name in names if "make test" in name) and names[0].endswith("apt-get install -y git make")


@pytest.mark.parametrize("page, line, language, kind, text", of("c", "body"))
def test_c_compiles(tmp_path, page, line, language, kind, text):
    (tmp_path / "body.c").write_text("#include <pullback/pullback.h>\npbStatus body(pbContext *ctx, pbModel *model);\n"
                                     f"pbStatus body(pbContext *ctx, pbModel *model) {{\n{text}return pb_ok;\n}}\n")
    subprocess.run(["cc", "-std=c17", "-Wall", "-Wextra", "-Werror", "-Wno-unused-but-set-parameter", "-fsyntax-only", f"-I{ROOT / 'include'}",
                    str(tmp_path / "body.c")], check=True)


def test_the_example_of_the_man_page(checkout):
    text = (ROOT / "man" / "pullback.1").read_text().split(".SH EXAMPLE\n.nf\n")[1].split(".fi")[0]
    assert "pullback optimize" in text and "pullback view" in text
    shell("cd examples/hopper\n" + text.replace("\\-", "-"), checkout)


# ---- what the pages name is there -----------------------------------------------------------------------------------------
TOP = r"(?:src|lcp|io|cli|include|tests|tools|validation|bench|cmake|docs|examples|man|\.ci)"
SUFFIX = r"(?:c|h|def|py|inc|md|1|xml|json|csv|svg|html|txt)"
# Folders that "Where the next things go" of docs/architecture.md foresees, and what a build or a run writes.
FORESEEN = {"src/policy", "src/batch", "src/control", "src/learn", "python/"}
WRITTEN = {"out/", "build/", "pullback_abi.py", "pullback_lcp_abi.py", "run.json", "run.html", "task.json", "result.json", "progress.csv"}
WRITTEN |= {"install_manifest.txt", "found.html", "found.xml"}
GENERIC = re.compile(r"(?:^|[/_])(?:X|NAME)(?:[_./]|$)")  # tests/unit/test_X.c


def expand(path):
    """src/{a,b}/c -> src/a/c, src/b/c"""
    found = re.search(r"\{([^{}]*)\}", path)
    if not found:
        return [path]
    return [p for one in found[1].split(",") for p in expand(path[:found.start()] + one + path[found.end():])]


@functools.cache
def tracked():
    """Files of the project, but what builds and runs leave in it."""
    top = [p for p in ROOT.iterdir() if p.name not in ("build", "out", ".git")]
    files = [f for p in top for f in ([p] if p.is_file() else p.rglob("*")) if f.is_file() and "__pycache__" not in f.parts]
    return [str(f.relative_to(ROOT)) for f in files]


@functools.cache
def basenames():
    return {p.rsplit("/", 1)[-1] for p in tracked()}


def is_there(path):
    """By its whole path, by that below src or tests, as it is included or as ctest calls it, or by its name alone."""
    if "/" not in path:
        return bool(fnmatch.filter(basenames(), path))
    return any(any(ROOT.glob(base + path.rstrip("/") + end)) for base in ("", "src/", "tests/", "io/", "include/", "lcp/include/") for end in ("", ".c", ".py"))


def prose(page):
    """Lines outside of fences, with their numbers."""
    inside = False
    for n, line in enumerate((ROOT / page).read_text().splitlines(), 1):
        if line.lstrip().startswith("```"):
            inside = not inside
        elif not inside:
            yield n, line


def paths(line):
    """Paths of the repository in a line: with a folder of it in front, or in backquotes with a suffix."""
    found = re.findall(rf"(?<![\w/.{{-])({TOP}/[\w./*{{}},-]*)", line)
    found += re.findall(rf"`((?:\w+/)*[\w*{{}},-]+\.{SUFFIX})(?::\d+)?`", line)
    found += re.findall(r"`((?:unit|conformance|hostile|oracle)/\w+)`", line)
    for path in (p.rstrip(".,:-") for p in found):
        if path.strip("/") not in FORESEEN and path not in WRITTEN and not GENERIC.search(path):
            yield from expand(path)


def links(page, line):
    for target in re.findall(r"\]\((?!https?:|#)([^)#\s]+)(?:#[^)]*)?\)", line):
        yield (ROOT / page).parent / target


CURRENT = [p for p in PAGES if p != "docs/renames.md"]  # which names what is no more


@pytest.mark.parametrize("page", CURRENT)
def test_files_that_pages_name_exist(page):
    missing = [f"{page}:{n}: {path}" for n, line in prose(page) for path in paths(line) if not is_there(path)]
    missing += [f"{page}:{n}: {target}" for n, line in prose(page) for target in links(page, line) if not target.exists()]
    assert not missing, "\n".join(missing)


@functools.cache
def identifiers():
    names = set()
    for path in tracked():
        if path.startswith(("src/", "lcp/", "include/", "io/", "cli/", "cmake/", "tests/", "tools/", "examples/", "CMakeLists")) and "seeds" not in path:
            names.update(re.findall(r"\w+", (ROOT / path).read_text(errors="ignore")))
    made = {f"pbSpec_{verb}{kind[2:-3]}" for kind in names if re.fullmatch(r"pb[A-Z]\w*Def", kind) for verb in ("Add", "Find")}
    return names | made  # by a macro of spec.h


@pytest.mark.parametrize("page", CURRENT)
def test_identifiers_that_pages_name_exist(page):
    text = "\n".join(line for _, line in prose(page))
    named = set(re.findall(r"\b(?:pb[A-Z]\w*|pb_[a-z]\w*|PB_[A-Z]\w*)\b(?!\w|\*)", text)) - {"pbThing", "pbThing_Verb", "pb_value", "PB_MACRO"}
    missing = sorted(n for n in named if n not in identifiers() and not n.endswith("_"))
    assert not missing, f"{page}: {', '.join(missing)}"


def test_map_names_every_derivative_and_folder():
    sources = [p for p in tracked() if re.match(r"(?:src|lcp)/.*(adjoint|jvp|vjp|derivative)\w*\.c$", p)]
    text, layers = ((ROOT / "docs" / page).read_text() for page in ("map.md", "architecture.md"))
    missing = [p for p in sources if f"`{p}`" not in text]
    folders = {"/".join(p.split("/")[:2]) for p in tracked() if re.match(r"src/\w+/", p)} | {"lcp"}
    missing += [f for f in folders if f"| `{f}` |" not in layers]
    assert len(sources) > 25 and not missing, missing


def test_recipe_of_joints_names_every_place():
    """Files that ask for a type of joint: none may be added without the recipe (better: a predicate of src/model/joint.h)."""
    recipe = (ROOT / "docs" / "adding.md").read_text().split("## A joint type")[1].split("\n## ")[0]
    asking = [p for p in tracked() if re.match(r"(src|io|cli)/.*\.[ch]$", p) and re.search(r"pb_jnt(Free|Ball|Slide|Hinge)", (ROOT / p).read_text())]
    assert len(asking) > 10 and not [p for p in asking if f"`{p}`" not in recipe]


def test_new_names_exist():
    for n, line in prose("docs/renames.md"):
        cells = line.split("|")
        for name in re.findall(r"`(?:\w+\.)?(pb\w+|PB_\w+|\w+)(?:\([^`]*)?`", cells[2] if len(cells) == 5 else ""):
            assert name.startswith("_") or name in identifiers(), f"docs/renames.md:{n}: {name}"


def test_symbols_of_the_glossary_exist():
    """The third column of its tables: names in backquotes, but formulas, wildcards and what is said of another page."""
    missing, rows = [], 0
    for n, line in prose("docs/glossary.md"):
        cells = [c.strip() for c in line.split(" | ")]
        if len(cells) != 4 or cells[0] == "| term":
            continue
        rows += 1
        for symbol in re.findall(r"`(\w+)`", cells[2]):
            if symbol not in identifiers():
                missing.append(f"docs/glossary.md:{n}: {symbol}")
    assert rows > 60 and not missing, "\n".join(missing)


def test_pages_name_every_key_of_a_task():
    """Rows of tables of keys (io/task/task_reader.h) and lists of keys: a key that no page names is told here by its file."""
    pages = "".join(p.read_text() for p in sorted((ROOT / "docs").glob("*.md")))
    known = set(re.findall(r'"(\w+)"', pages)) | {w for span in re.findall(r"`([^`\n]+)`", pages) for w in re.findall(r"\w+", span)}
    count, unknown = 0, []
    for source in sorted((ROOT / "io" / "task").glob("*.c")):
        text = source.read_text()
        keys = set(re.findall(r'(?:PB_KEY\w*|NUMBER|COUNT|POSITIVE)\("(\w+)"', text))
        for body in re.findall(r"keys\w*\[\] = \{([^}]*)\}", text):
            keys |= set(re.findall(r'"(\w+)"', body))
        count += len(keys)
        unknown += [f"{source.name}: {key}" for key in sorted(keys - known)]
    assert not unknown and count > 180, unknown


@pytest.mark.parametrize("page", ["docs/map.md", "docs/adding.md"])
def test_functions_of_maps_and_recipes_exist(page):
    """Names of functions in backquotes, static ones too."""
    named = {name for _, line in prose(page) for name in re.findall(r"`([a-z]+(?:_\w+)+)`", line)}
    assert len(named) > 5 and not named - identifiers(), sorted(named - identifiers())


def anchors(page):
    heads = re.findall(r"^#+ (.*)$", page.read_text(), re.M) + re.findall(r'<a id="([^"]+)">', page.read_text())
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES)
def test_links_to_headings_exist(page):
    missing = []
    for n, line in prose(page):
        for target, anchor in re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", line):
            to = (ROOT / page).parent / target if target else ROOT / page
            if not target.startswith("http") and (not to.exists() or anchor not in anchors(to)):
                missing.append(f"{page}:{n}: {target}#{anchor}")
    assert not missing, "\n".join(missing)


def test_files_that_sources_point_to_exist():
    """Comments of sources send readers to documents and tests."""
    missing = []
    for path in tracked():
        if path.startswith(("src/", "lcp/", "include/", "io/", "cli/")) and path.endswith((".c", ".h")):
            for found in re.findall(r"(?<![\w/.])(?:docs|tests|tools|bench|validation|examples)/[\w./-]+\w", (ROOT / path).read_text()):
                if not is_there(found):
                    missing.append(f"{path}: {found}")
    assert not missing, "\n".join(missing)


@pytest.mark.parametrize("header", [str(p.relative_to(ROOT)) for folder in ("include", "lcp/include") for p in sorted((ROOT / folder / "pullback").glob("*.h"))])
def test_headers_are_read_by_the_site(header):
    """Lists of macros among them are written out, which Doxygen does not follow."""
    said = subprocess.run([sys.executable, ROOT / "docs" / "site" / "comments.py", ROOT / header], capture_output=True, text=True)
    assert said.returncode == 0 and "#define X(" not in said.stdout, said.stderr[-800:]
