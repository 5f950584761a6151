"""What type checkers, completion and notebooks know of the package: slips are named, arrays complete and say what they are."""
import html
import inspect
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

import pullback as pb
from conftest import BUILD, ROOT
from pullback import fields
from pullback.options import RolloutOptions
from test_package import checked

sys.path.insert(0, os.path.join(ROOT, "docs", "site"))
import snippets  # noqa: E402

TYPED = pathlib.Path(__file__).parent / "typed"
FILES = ["slips.py", "slips_torch.py"]
EVERYTHING = """<mujoco><worldbody><geom type="plane" size="3 3 .1"/><body name="led" mocap="true" pos="1 0 1"><geom size=".05"/></body>
<body name="arm" pos="0 0 2"><joint name="turn" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 .3 0 0" size=".02"/><site name="tip" pos=".3 0 0"/></body>
</worldbody><actuator><motor name="push" joint="turn" nsample="2"/></actuator><sensor><jointpos joint="turn"/></sensor></mujoco>"""


def slips(name):
    """Numbers of the lines that say that they are mistaken."""
    return {k for k, line in enumerate((TYPED / name).read_text().splitlines(), 1) if line.endswith("# slip")}


@pytest.mark.parametrize("name", FILES)
def test_mypy_names_the_slips(name, tmp_path):
    pytest.importorskip("torch") if "torch" in name else None
    done = checked("mypy", "--strict", str(TYPED / name), cache=tmp_path)
    assert {int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line} == slips(name), done.stdout


@pytest.mark.parametrize("name", FILES)
def test_pyright_names_the_slips(name, tmp_path):
    """Pyright, which PyPI has as basedpyright with all that it needs."""
    program = shutil.which("basedpyright", path=os.path.dirname(sys.executable)) or shutil.which("pyright")
    if not program:
        pytest.skip("no pyright")
    pytest.importorskip("torch") if "torch" in name else None
    (tmp_path / name).write_text((TYPED / name).read_text())
    settings = {"include": [name], "extraPaths": [os.path.join(BUILD, "python")], "typeCheckingMode": "standard",
                "reportUnusedExpression": False}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    done = subprocess.run([program, "--outputjson", "--pythonpath", sys.executable], cwd=tmp_path, capture_output=True, text=True)
    found = {d["range"]["start"]["line"] + 1 for d in json.loads(done.stdout)["generalDiagnostics"] if d["severity"] == "error"}
    assert found == slips(name), done.stdout


# ---- completion ---------------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def everything():
    """A model whose states have all fields that there are, a rollout with all inputs and outputs, and its derivatives."""
    blob = {"name": "gel", "mesh": {"box": {"size": [.2, .2, .2], "cells": [1, 1, 1]}}, "pos": [-1, -1, .5],
            "energies": [{"energy": "stvk", "parameters": {"young": 1e5, "poisson": .3, "density": 1000}}]}
    model = pb.loads(EVERYTHING, deformables={"scheme": "bdf2", "bodies": [blob]},
                     policy={"observe": [{"qpos": True}, {"command": 1}], "layers": [{"gru": 2}, {"dense": 1}], "every": 2})
    rows = lambda a: np.repeat(np.array(a)[None], 4, axis=0)
    led, turned = model.params["body_pos:led"], model.params["body_quat:led"]
    poses = {"mocap_pos": rows([led]), "mocap_quat": rows([turned]), "mocap_pos_before": [led], "mocap_quat_before": [turned]}
    acts = {"qfrc_applied": np.zeros((4, model.nv)), "xfrc_applied": np.zeros((4, model.nbody, 6)), "command": np.zeros((4, 1))}
    given = lambda more: model.rollout(model.init(), np.zeros((4, model.nu)), outputs=("sensordata", "xpos", "site_xpos"), **acts, **more)
    return model, given(poses), given({"mocap_vel": np.zeros((4, 1, 6))})


def arrays_of(thing):
    return {name for name in type(thing)._names if name in dir(thing)}


def test_every_array_completes_and_is_there(everything):
    model, led, moved = everything
    state, gradient, tangent = model.init(), led.vjp(qpos=np.ones(model.nv)), led.jvp(qpos=np.ones(model.nv))
    assert set(state.fields) | {"flat"} == arrays_of(state) == fields.StateArrays._names
    assert arrays_of(led) | arrays_of(moved) == fields.RolloutArrays._names and set(led._inputs) - {"mocap_vel"} <= arrays_of(led)
    assert arrays_of(gradient) | arrays_of(moved.vjp(qpos=np.ones(model.nv))) == fields.GradientArrays._names
    assert arrays_of(tangent) == fields.TangentArrays._names
    for thing in (model, state, led, moved, gradient, tangent):
        assert [name for name in dir(thing) if not name.startswith("__") and not hasattr(thing, name)] == []
    plain = pb.loads("<mujoco/>").rollout(pb.loads("<mujoco/>").init(), steps=1)
    assert not {"points", "policy_held", "ctrl", "xpos"} & set(dir(plain)) and {"qpos", "time", "sensordata"} <= set(dir(plain))


def test_sizes_complete(everything):
    text = pathlib.Path(ROOT, "src", "model", "model_fields.h").read_text()
    sizes = {*re.findall(r"X\((n\w+)\)", text[text.index("define PB_MODEL_SIZES"):text.index("// known:")]), "npoint", "ncommand"}
    source = pathlib.Path(ROOT, "python", "pullback", "model.py").read_text()
    assert set(re.findall(r"(?m)^        (n\w+): int$", source)) == sizes
    assert {n for n in dir(everything[0]) if n in sizes} >= {"nq", "nv", "nu", "ngeom", "nsite", "npoint", "ncommand"}


def test_every_array_says_its_shape_and_unit():
    units = re.compile(r"\bm\b|\brad\b|\bs\b|\bN\b|m/s|unit")
    for of in (fields.StateArrays, fields.RolloutArrays, fields.GradientArrays, fields.TangentArrays, fields.SeenArrays):
        for name in of._names:
            said = getattr(of, name).__doc__
            assert re.match(r"\(.*\): ", said) and units.search(said), (of.__name__, name, said)


def test_shapes_are_those_that_are_said(everything):
    """The first parentheses of each docstring, with the model's sizes in them, are the array's shape."""
    model, led, moved = everything
    counts = {n: getattr(model, n) for n in dir(model) if re.fullmatch("n[a-z]+", n) and n not in ("name", "names")}
    sizes = {"N": 4, "StateSize": led.states.shape[1], **counts}
    for thing in (model.init(), led, moved, led.jvp(qpos=np.ones(model.nv)), led.vjp(qpos=np.ones(model.nv)), moved.vjp(qpos=np.ones(model.nv))):
        for name in arrays_of(thing):
            said = re.match(r"\((.*?)\): ", getattr(type(thing), name).__doc__)[1].removesuffix(",")
            here = {**sizes, "n": getattr(thing, name).shape[-1]}
            shape = tuple(eval(re.sub(r"(\d) (\w)", r"\1 * \2", part), {}, here) for part in said.split(", "))
            assert getattr(thing, name).shape == shape, (type(thing).__name__, name, said)


def test_parameters_complete(everything):
    names = everything[0].params._ipython_key_completions_()
    assert {"body_mass", "body_mass:arm", "jnt_range:turn", "actuator_gear:push", "timestep"} <= set(names) and len(names) == len(set(names))
    assert all(name in everything[0].params for name in names)


def test_signatures_say_what_there_is():
    rollout = inspect.signature(pb.Model.rollout).parameters
    assert list(rollout)[1:] == list(inspect.signature(pb.Rollout.__init__).parameters)[2:] and "options" not in rollout
    assert all(rollout[n].default == p.default for n, p in inspect.signature(pb.Rollout.__init__).parameters.items() if n in rollout and n != "self")
    assert {*RolloutOptions.__annotations__} == {*rollout} - {"self", "state", "ctrl", "params"}


# ---- notebooks ----------------------------------------------------------------------------------------------------------------
def page_in(shown):
    """The page in what a notebook gets, and the line below it."""
    found = re.fullmatch(r'<iframe srcdoc="([^"]*)"[^>]*></iframe><div><small>(.*)</small></div>', shown._repr_html_(), re.DOTALL)
    return html.unescape(found[1]), html.unescape(found[2])


def test_notebooks_play_rollouts(tmp_path):
    model = pb.load(os.path.join(ROOT, "examples", "quadruped", "quadruped.xml"))
    rollout = model.rollout(model.init(), steps=20, params={"geom_size:floor": [9, 9, .1]})
    page, said = page_in(rollout)
    assert page == pathlib.Path(rollout.save(tmp_path / "run.html")).read_text() and said == repr(rollout)
    assert page_in(model)[0] == pathlib.Path(pb.view(model, tmp_path / "model.html")).read_text()
    two = model.rollout(model.init(batch=2), np.array([0, 1])[:, None, None] * np.ones((1, 20, model.nu)))
    alone = model.rollout(model.init(), np.zeros((20, model.nu)))
    assert page_in(two)[0] == page_in(alone)[0] and page_in(two)[1].endswith("world 0")
    assert page_in(model.init(batch=2))[0] == page_in(model.init())[0]


def test_long_rollouts_are_thinned_for_notebooks():
    from pullback.notebook import thinned
    ball = pb.loads("<mujoco><worldbody><body><freejoint/><geom size='.1'/></body></worldbody></mujoco>")
    rollout = ball.rollout(ball.init(), np.zeros((10000, 0)), keep=False)
    arrays = thinned(pb.commands.arrays(rollout), 10000)
    assert len(arrays["time"]) == 2001 and len(arrays["control"]) == 2000 and arrays["time"][-1] == rollout.time[-1]
    assert len(page_in(rollout)[0]) < 3e6


def test_a_notebooks_frame_plays(tmp_path):
    """The frame in a page of its own, in a browser: the viewer is in it, and has the rollout's frames."""
    sys.path.insert(0, os.path.join(ROOT, "tests", "oracle"))
    from browser import Browser
    model = pb.loads("<mujoco><worldbody><body pos='0 0 1'><freejoint/><geom size='.1'/></body></worldbody></mujoco>")
    (tmp_path / "cell.html").write_text("<!doctype html><meta charset='utf-8'>" + model.rollout(model.init(), steps=300)._repr_html_())
    browser = Browser(480, 360)
    try:
        browser.open(tmp_path / "cell.html")
        assert browser.errors() == [] and browser.requests() == []
        inside = "document.querySelector('iframe').contentWindow.pullback"
        assert browser.run(f"{inside}.go(24), typeof {inside}.go") == "function"
    finally:
        browser.close()


# ---- what the documentation names ---------------------------------------------------------------------------------------------
PAGES = ["docs/python.md", *(f"docs/guide/{name}.md" for name in ("gradients", "robots", "simulate", "identify", "batches"))]
FILES_NAMED = {"html", "json", "npz", "urdf", "xml"}


@pytest.mark.parametrize("page", PAGES)
def test_what_the_docs_name_completes_and_says_its_shape(page, monkeypatch):
    """Every `thing.name` of a page, whose things are what its code left: there, in dir(), and of an array with shape and unit in its docstring."""
    monkeypatch.chdir(ROOT)
    left = snippets.run(page)
    seen = {}
    for name, attribute in re.findall(r"(?<![\w.])([A-Za-z_]\w*)\.([a-z]\w*)", pathlib.Path(page).read_text()):
        thing = left.get(name)
        if type(thing).__module__.startswith("pullback.") and not isinstance(thing, type) and attribute not in FILES_NAMED:
            seen[type(thing), attribute] = thing
    assert seen
    for (kind, attribute), thing in seen.items():
        assert attribute in dir(thing), (kind, attribute)
        if isinstance(getattr(thing, attribute), np.ndarray) and kind is not pb.Model:
            said = inspect.getattr_static(kind, attribute).__doc__ or ""
            assert re.match(r"\(.*\)", said) and len(said) > 12, (kind, attribute, said)
