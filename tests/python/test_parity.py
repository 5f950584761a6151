"""docs/parity.md: nothing that the program or the C library does is without a row, and every name in it exists."""
import inspect
import os
import pathlib
import sys

import pullback as pb
from conftest import PROGRAMS, ROOT

sys.path.insert(0, os.path.join(ROOT, "tools"))
import parity  # noqa: E402

MODEL = "<mujoco><worldbody><body><joint/><geom size='.1'/></body></worldbody></mujoco>"


def test_the_page_is_whole_and_up_to_date():
    laid, wrong = parity.lay_out(parity.there_is(pathlib.Path(PROGRAMS)), parity.rows())
    assert not wrong
    assert parity.PAGE.read_text(encoding="utf-8") == parity.page(laid)


def test_what_is_missing_or_too_much_is_named():
    found = parity.there_is(pathlib.Path(PROGRAMS))
    rows = [r for r in parity.rows() if r["name"] != "simulate"] + [dict(kind="option", name="--nothing", python="pullback.load", reason="")]
    wrong = parity.lay_out(found, rows)[1]
    assert len(wrong) == 2 and "command simulate: no row" in wrong[0] and "--nothing" in wrong[1]
    rows = [{**r, "python": ""} if r["name"] == "--steps" else r for r in parity.rows()]
    assert "--steps: expected a name in Python or a reason" in parity.lay_out(found, rows)[1][0]


def test_names_in_python_exist():
    model = pb.loads(MODEL)
    made = {"Model": model, "State": model.init(), "Rollout": model.rollout(model.init(), steps=1)}
    for row in parity.rows():
        for name in filter(None, row["python"].split(", ")):
            path, _, argument = name.removesuffix(")").partition("(")
            thing = pb
            for part in path.split(".")[1:]:
                thing = made[part] if thing is pb and part in made else getattr(thing, part)
            if argument:
                known = inspect.signature(pb.Rollout if path == "pullback.Model.rollout" else thing).parameters
                assert argument in known, name
