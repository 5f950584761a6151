#!/usr/bin/env python3
"""docs/parameters.md: every field of a compiled model, as the rows of src/model/model_fields.h say.

  tools/fields.py [--check]   writes the page; --check: says whether it is up to date
"""
import ast
import dataclasses
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEADER, PAGE = ROOT / "src" / "model" / "model_fields.h", ROOT / "docs" / "parameters.md"
KINDS = {"size": "SIZES", "int": "INTS", "param": "PARAMS", "constant": "CONSTANTS", "option": "OPTIONS"}
COLUMNS = {"size": "name", "int": "name rows cols known meaning", "constant": "name rows cols known meaning", "option": "name known meaning",
           "param": "name rows cols unit range moves kink follows wakes known meaning"}
RANGES = {"Any": "any", "Nonnegative": "0 or more", "Positive": "more than 0", "Share": "0 to 1"}
MOVES = {"Free": "", "Axis": "unit vectors", "Quaternion": "unit quaternions", "Positions": "quaternions of ball and free joints are unit",
         "Welds": "of a weld: a unit quaternion"}
KINKS = {"Smooth": "", "Impedance": "clamps of MuJoCo's impedance", "Friction": "at least 1e-5", "Fluid": "its switch",
         "MixedFriction": "at least 1e-5; of two geoms the greater", "MixedRestitution": "of two geoms the greater or lesser, by the mixing",
         "MixedReference": "of two geoms the lesser, in the direct format"}
FOLLOWS = {"Own": "", "Some": "some entries", "Design": "in designs", "Derived": "yes"}
HEAD = """# Fields of a model

Every field of a compiled model by MuJoCo's name: parameters, of which every step has the gradient, and what has none, with the reason.
Made by `tools/fields.py` out of `src/model/model_fields.h`, a row each; `tests/oracle/test_parameters.py` holds it to the library.

`pbModel_Param`, `--param`, `--wrt`, `"parameter"` of tasks and `model.params` in Python take these names; FIELD:OBJECT and
FIELD:OBJECT:ENTRY are parts of them. Vertices of meshes and heights of fields become parameters on request
([mjcf.md](mjcf.md)), deformables and policies bring their own ([deformables.md](deformables.md), [policies.md](policies.md)).
"""


@dataclasses.dataclass
class Field:
    name: str
    rows: str = "one"
    cols: str = "1"
    unit: str = ""
    range: str = "Any"
    moves: str = "Free"
    kink: str = "Smooth"
    follows: str = "Own"
    wakes: str = "0"
    known: str = "Mujoco"
    meaning: str = ""

    @property
    def shape(self):
        """As in Python; a row an object."""
        size = [] if self.rows == "one" else [self.rows]
        return f"({', '.join(size + ([self.cols] if self.cols != '1' else []))}{',' if len(size) + (self.cols != '1') == 1 else ''})"


def split(row):
    """The arguments of X(...), texts as texts."""
    parts = re.findall(r'"(?:[^"\\]|\\.)*"|[^,\s](?:[^,"]*[^,\s])?', row)
    return [ast.literal_eval(p) if p.startswith('"') else p for p in parts]


def table():
    """kind -> its fields, in their order."""
    text, out = HEADER.read_text(encoding="utf-8"), {}
    for kind, macro in KINDS.items():
        block = re.search(r"#define PB_MODEL_%s\(X\)((?:.*\\\n)*.*\n)" % macro, text)[1].replace("\\\n", "\n")
        rows = re.findall(r'X\(((?:[^()"]|"[^"]*")*)\)', block)
        out[kind] = [Field(**dict(zip(COLUMNS[kind].split(), split(row), strict=True))) for row in rows]
    return out


def words(*parts):
    return "; ".join(p for p in parts if p)


def parameter(f):
    unit = " or ".join(f.unit.split("|")) or "-"
    bends = words(KINKS[f.kink], MOVES[f.moves], "" if f.follows == "Own" else {"Some": "some entries are derived", "Design": "derived in designs",
                                                                                "Derived": "derived (`--constants recompute`)"}[f.follows])
    return f"| `{f.name}` | {f.meaning} | {unit} | `{f.shape}` | {RANGES[f.range]} | {bends} | {mujoco(f)} |"


def mujoco(f):
    return {"Mujoco": "the same", "Unread": "the same, which no step reads", "Ours": "-"}[f.known]


def page():
    found = table()
    out = [HEAD, "## Parameters: every one has a gradient", "",
           "| field | meaning | unit | shape | values | where its gradient is one-sided or restricted | in MuJoCo |", "|---|---|---|---|---|---|---|"]
    out += [parameter(f) for f in found["param"]]
    for kind, title, why in (("constant", "Real fields without a gradient: no step reads them",
                              "They are stored, compared with MuJoCo's, drawn, or what a keyframe or a sensor's noise is."),
                             ("int", "Integers without a gradient: they say what there is and how it is joined", "A derivative by them does not exist."),
                             ("option", "Options that are words or counts", "A derivative by them does not exist; `--option` and `pbModel_SetOption` set them.")):
        out += ["", f"## {title}", "", why, "", "| field | meaning | shape | in MuJoCo |", "|---|---|---|---|"]
        out += [f"| `{f.name}` | {f.meaning} | `{f.shape}` | {mujoco(f)} |" for f in found[kind]]
    return "\n".join(out) + "\n"


def main():
    if sys.argv[1:] == ["--check"]:
        if PAGE.read_text(encoding="utf-8") != page():
            sys.exit("docs/parameters.md is not what src/model/model_fields.h says: run tools/fields.py")
    elif sys.argv[1:]:
        sys.exit(__doc__)
    else:
        PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
