"""What an audit says of the answers of examples/ and validation/: a list of all that are searched or learned, and what is expected of each.

An answer is found anew, as its example or its case finds it, and audited. An example or a case that is not in the list turns a test red. What takes long
is part of make oracle PYTEST_ARGS=--long.
"""
import contextlib
import importlib
import json
import pathlib
import re
import subprocess
import sys
from typing import NamedTuple

import pytest

ROOT = pathlib.Path(__file__).parents[2]
VALIDATION = ROOT / "validation"


class Answer(NamedTuple):
    """told: what the task says to an audit beside what is in its file; refused: what the verdict says where it is not confirmed, and why that is right."""
    told: dict
    long: bool = False
    refused: str = ""
    why: str = ""


def varied(name):
    """Deformables have no joints whose start could be another: a parameter is, by 5 %."""
    return {"sample": {"parameters": [{"parameter": name, "uniform": [.95, 1.05], "as": "factor"}]}}


def limits(**more):
    """What no file says, as forces of actuators that have none of their own."""
    return {"audit": more}


EXAMPLES = {
    "ant/run": Answer({}, long=True),
    "arm/reach": Answer({}, long=True),
    "ball/adam": Answer({}, long=True),
    "ball/cmaes": Answer({}, long=True),
    "ball/launch": Answer({}),
    "beam/identify": Answer(varied("bar_rubber_mass.density")),
    "cartpole/swing-up": Answer({}, long=True),
    "chain/carry": Answer(varied("chain_link.stiffness")),
    "cloth/drape": Answer(varied("cloth_stretch_mass.density"), long=True),
    "gripper/lift": Answer(limits(torque=10), long=True),
    "hopper/identify": Answer(limits(torque=150, penetration=.02)),  # its foot, 8 cm wide, gives way by 13 mm at every step size; by default 8 mm are allowed
    "joystick/joystick": Answer({}, long=True),
    "pendulum/identify": Answer({}),
    "quadruped/walk": Answer(limits(penetration=.04), long=True),  # its soft feet give way by 27 to 30 mm at every step size; by default 10 mm are allowed
    "quadrotor/fly": Answer(limits(torque=4)),
    "recorded/identify": Answer(limits(torque=10)),
    "slide/friction": Answer(varied("contact.distance"), long=True),
}
# Of a case the first answer that it finds.
CASES = {
    "G1": Answer({}),
    "G2": Answer({}),
    "K4": Answer({}),
    "K6": Answer({}, refused="penetration of 2.74e+03 mm as trained",
                 why="under 100 m/s2, in steps of 1/30 s, it is 2.7 m inside its ramp when it is seen to touch, 1.0 m at h/2: as an exploit at a wall"),
    "K40": Answer(varied("block_muscle0.young"), long=True),
    "K64": Answer(limits(torque={"actuator": 1, "joint": 1000}), long=True),
    "R7a-codesign": Answer({}, long=True, refused="at h/4", why="a gait of a clock alone, in steps of 5 ms on soft feet: the planted trot of K109 is one"),
    "R7d": Answer(limits(torque=1e4)),  # here and below controls are limited, forces are not
    "SADDLE1": Answer(limits(torque=1e4)),
}
# Cases whose answers are audited elsewhere, or are none.
ELSEWHERE = {
    "R2": "examples/ball", "P-SHAC1": "examples/cartpole", "R5": "rows of its own", "R5C": "rows of its own", "JOY1": "examples/joystick, rows of its own",
    "R4": "where the hand comes with 10 000 places that it was not told in training, of servos whose torques and speeds the model limits",
    "E6": "rows of its own: what it learned walks at a half and a quarter of its step",
    "K21": "the tasks of K64 and P-SHAC1 and a reaching arm, by methods whose steps to a threshold are counted",
    "K20": "one step of a search, of which only the error beside it is asked", "P-NB3": "whether a search leaves from rest, by contacts that differ",
    "K15": "closed forms and a collocation beside it, at two time steps; what is faster or weaker than they allow is a row",
    "P-NB2": "throws from many starts, of which the miss is asked; a throw is open loop",
    "K63": "rows of its own: audited, and replayed at a quarter of its step",
    "K110": "runs beyond the time from which on the gradient is noise, which no other step repeats",
}


# ---- finding -----------------------------------------------------------------------------------------------------------------------
def audit(program, folder, task, told, *words):
    """(confirmed, verdict) of a task with what it is told."""
    text = json.loads((folder / task).read_text())
    for key, value in told.items():
        text[key] = {**text.get(key, {}), **value}
    (folder / "audited.json").write_text(json.dumps(text))
    done = subprocess.run([program, "audit", "audited.json", "--json", *words], capture_output=True, text=True, cwd=folder)
    assert done.returncode in (0, 1), done.stderr
    report = json.loads(done.stdout)
    assert report["confirmed"] == (done.returncode == 0)
    return report["confirmed"], report["verdict"]


def example(program, name, told, folder):
    """Found in a copy of its folder."""
    for file in (ROOT / "examples" / name).parent.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    task = name.split("/")[1] + ".json"
    learns = "train" in json.loads((folder / task).read_text())
    words = ("train", task, "--fresh", "-q", "-o", "found.npz") if learns else ("optimize", task, "--fresh", "-q", "-o", "found.json")
    subprocess.run([program, *words], cwd=folder, check=True, capture_output=True)
    return audit(program, folder, task, told, *(("--policy", "found.npz") if learns else ("--result", "found.json")))


class Found(Exception):
    """The case needs to go no further."""


def of_case(program, name, told):
    """The first answer that a case of validation/ finds, audited where it was found."""
    with on_path(VALIDATION):
        import common
        run, verdict = common.Bench.run, []

        def first(bench, *words, **options):
            run(bench, *words, **options)
            if words[0] in ("optimize", "train"):
                folder, found = pathlib.Path(bench.folder), words[words.index("-o") + 1]
                verdict.extend(audit(program, folder, str(words[1]), told, "--policy" if words[0] == "train" else "--result",
                                     str(folder / found), "--allow-root", str(ROOT / "examples")))
                raise Found

        common.Bench.run = first
        try:
            with contextlib.suppress(Found):
                importlib.import_module(name).rows()
        finally:
            common.Bench.run = run
    assert verdict, f"{name} searches nothing"
    return verdict


@contextlib.contextmanager
def on_path(folder):
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


# ---- the list ----------------------------------------------------------------------------------------------------------------------
def judge(answer, confirmed, verdict):
    if answer.refused:
        assert not confirmed and answer.refused in verdict and answer.why, verdict
    else:
        assert confirmed, verdict


def short(answers):
    """Those of every run; the others are marked, and asked for by --long."""
    return [pytest.param(name, marks=[pytest.mark.long] if answer.long else []) for name, answer in answers.items()]


@pytest.mark.parametrize("name", short(EXAMPLES))
def test_answers_of_examples(pullback, tmp_path, name):
    judge(EXAMPLES[name], *example(pullback, name, EXAMPLES[name].told, tmp_path))


@pytest.mark.parametrize("name", short(CASES))
def test_answers_of_cases(pullback, name):
    judge(CASES[name], *of_case(pullback, name, CASES[name].told))


def test_all_answers_are_listed():
    """What has an optimizer or a training is an answer."""
    tasks = {f"{p.parent.name}/{p.stem}" for p in ROOT.glob("examples/*/*.json") if {"optimizer", "train"} & set(json.loads(p.read_text()))}
    assert tasks == set(EXAMPLES)
    searches = {p.stem for p in VALIDATION.glob("[A-Z]*.py") if re.search(r'bench\.optimize\(|run\("(optimize|train)"|PROGRAM, "train"', p.read_text())}
    assert searches == set(CASES) | set(ELSEWHERE)
