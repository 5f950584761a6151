"""Fields of a model, a row each in src/model/model_fields.h: the page made of them, the library's table, MuJoCo's names."""
import math
import os
import re
import subprocess

import mujoco as mj
import pytest

import inside
import oracle
from oracle import fields

SOURCES = os.path.join(inside.ROOT, "src")
RICH = os.path.join(oracle.HERE, "models", "rich.xml")
RANGES = {"Any": (-math.inf, math.inf), "Nonnegative": (0, math.inf), "Positive": (0, math.inf), "Share": (0, 1)}


def test_the_page_is_what_the_rows_say():
    for name, text in fields.pages().items():
        assert (fields.ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") == text, name


def test_rows_are_whole():
    """Names are there once; every field has a meaning; what a parameter follows from or bends by is a word that the page knows."""
    rows = [f for kind, found in fields.table().items() for f in found if kind != "size"]
    assert len({f.name for f in rows}) == len(rows) > 250
    assert all(f.meaning and f.meaning[-1] != "." for f in rows)
    assert all(f.range in fields.RANGES and f.moves in fields.MOVES and f.kink in fields.KINKS and f.follows in fields.FOLLOWS for f in rows)


def test_the_library_has_these_parameters():
    """In this order, each with what its row says."""
    model = inside.Model(RICH)
    rows = fields.table()["param"]
    for k, f in enumerate(rows):
        p = inside.native.pbModel_ParamAt(model.ptr, k)
        assert (p.name.decode(), p.unit.decode(), p.meaning.decode(), str(p.cols)) == (f.name, f.unit, f.meaning, f.cols)
        assert (p.lower, p.upper) == RANGES[f.range] and bool(p.derived) == (f.follows == "Derived") and bool(p.option) == (f.rows == "one")
        assert p.moves == list(fields.MOVES).index(f.moves)


def test_mujoco_has_the_names_that_are_said_to_be_its_own():
    m = mj.MjModel.from_xml_path(RICH)
    for kind in ("int", "param", "constant", "option"):
        for f in fields.table()[kind]:
            assert (oracle.get_field(m, f.name) is not None) == (f.known != "Ours"), f.name


@pytest.mark.parametrize("kind", ["Nonnegative", "Positive"])
def test_values_out_of_range_are_refused_by_name(kind):
    """Every parameter whose row says so, where the model has it."""
    model, tried = inside.Model(RICH), 0
    for f in fields.table()["param"]:
        slot = model.params[f.name]
        if f.range != kind or not slot.rows:
            continue
        theta = model.theta.copy()
        model.param(theta, f.name).flat[0] = -1e-3 if kind == "Nonnegative" else 0
        with pytest.raises(inside.Error) as error:
            inside.native.pbModel_CheckParams(model.ctx, model.ptr, theta)
        assert f.name in error.value.text and ("zero or a positive" if kind == "Nonnegative" else "expected a positive") in error.value.text, f.name
        tried += 1
    assert tried >= {"Nonnegative": 20, "Positive": 3}[kind]


@pytest.mark.parametrize("column, word", [(4, "Nonegative"), (5, "Quat"), (6, "Impedence"), (7, "Dervied"), (8, "pb_wantInerta")])
def test_a_misspelled_row_does_not_compile(column, word, tmp_path):
    text = fields.HEADERS[0].read_text(encoding="utf-8")
    row = re.search(r"X\((body_mass, [^\\]*) \\", text)
    parts = row[1].split(", ")
    changed = text.replace(row[1], ", ".join(parts[:column] + [word] + parts[column + 1:]))
    assert changed != text
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model_fields.h").write_text(changed, encoding="utf-8")
    command = ["cc", "-std=gnu17", "-fsyntax-only", "-I", tmp_path, "-I", SOURCES, "-I", os.path.join(inside.ROOT, "include"), "-x", "c", "-"]
    source = '#include "model/model_fields.h"\n' + open(os.path.join(SOURCES, "model", "param.c"), encoding="utf-8").read()
    good = subprocess.run(command[:3] + command[5:], input=source, text=True, capture_output=True)
    assert good.returncode == 0, good.stderr
    said = subprocess.run(command, input=source, text=True, capture_output=True)
    assert said.returncode != 0 and word in said.stderr
