#!/usr/bin/env python3
"""docs/parameters.md, docs/sensors.md and docs/equalities.md: every field of a compiled model, as the rows of src/model/*_fields.h say,
every sensor and every equality, as those of include/pullback/sensors.h and include/pullback/equalities.h say.

  tools/fields.py [--check]   writes the pages; --check: says whether they are up to date
"""
import ast
import dataclasses
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEADERS = [ROOT / "src" / "model" / f"{name}_fields.h" for name in ("model", "term")]
LISTS = {"sensor": ROOT / "include" / "pullback" / "sensors.h", "equality": ROOT / "include" / "pullback" / "equalities.h"}
KINDS = {"size": "MODEL_SIZES", "int": "MODEL_INTS", "param": "MODEL_PARAMS TERM_PARAMS MESH_PARAMS", "constant": "MODEL_CONSTANTS", "option": "MODEL_OPTIONS"}
COLUMNS = {"size": "name", "int": "name rows cols known meaning", "constant": "name rows cols known meaning", "option": "name known meaning",
           "param": "name rows cols unit range moves kink follows wakes known meaning"}
RANGES = {"Any": "any", "Nonnegative": "0 or more", "Positive": "more than 0", "Share": "0 to 1"}
MOVES = {"Free": "", "Axis": "unit vectors", "Quaternion": "unit quaternions", "Positions": "quaternions of ball and free joints are unit",
         "Welds": "of a weld: a unit quaternion"}
KINKS = {"Smooth": "", "Impedance": "clamps of MuJoCo's impedance", "Friction": "at least 1e-5", "Fluid": "its switch",
         "Delay": "towards shorter delays where a sample is hit; zero where samples are held",
         "MixedFriction": "at least 1e-5; of two geoms the greater", "MixedRestitution": "of two geoms the greater or lesser, by the mixing",
         "MixedReference": "of two geoms the lesser, in the direct format"}
FOLLOWS = {"Own": "", "Some": "some entries", "Design": "in designs", "Derived": "yes"}
HEAD = """# Fields of a model

Every field of a compiled model by MuJoCo's name: parameters, of which every step has the gradient, and what has none, with the reason.
Made by `tools/fields.py` out of `src/model/model_fields.h` and `src/model/term_fields.h`, a row each; `tests/oracle/test_parameters.py` holds it to the library.

`pbModel_Param`, `--param`, `--wrt`, `"parameter"` of tasks and `model.params` in Python take these names; FIELD:OBJECT and
FIELD:OBJECT:ENTRY are parts of them. Vertices of meshes and heights of fields become parameters on request
([mjcf.md](mjcf.md)), deformables and policies bring their own ([deformables.md](deformables.md), [policies.md](policies.md)).
"""

OF = {"Site": "site", "SiteInCamera": "site, in the image of a camera", "ScalarJoint": "hinge or slide", "BallJoint": "ball joint",
      "LimitedJoint": "joint with limits", "Tendon": "tendon", "LimitedTendon": "tendon with limits", "Actuator": "actuator",
      "Frame": "body, geom, site or camera", "FrameInFrame": "body, geom, site or camera, in the frame of another one or of the world",
      "FrameInSite": "body, geom, site or camera, and a site", "Body": "body and all below it", "Shapes": "two geoms or bodies", "Ray": "site or camera",
      "Contact": "contacts of a geom, body, subtree or site, with another one", "Nothing": "-"}
SENSOR_HEAD = """# Sensors

Every sensor, by its element of MJCF: what it is of, what it writes, and whether a policy may observe it (those of positions and velocities alone).
Made by `tools/fields.py` out of `include/pullback/sensors.h`, a row each; a scene of the tests (`tests/conformance/scenes.h`) has each of them, with both
derivatives. [mjcf.md](mjcf.md) says how they differ from MuJoCo's, [adding.md](adding.md#a-sensor) how one is added.

| element | of | numbers | meaning | for policies | in MuJoCo |
|---|---|---|---|---|---|"""

TIES = {"Points": "two bodies or two sites", "Poses": "two bodies or two sites", "Joints": "a hinge or slide, or two", "Tendons": "a tendon, or two"}
DATA = {"Points": "`anchor`", "Poses": "`anchor`, `relpose`, `torquescale`", "Joints": "`polycoef`", "Tendons": "`polycoef`"}
EQUALITY_HEAD = """# Equalities

Every equality, by its element of MJCF: what it is of, the numbers that say how (`eq_data`), and what it asks for.
Made by `tools/fields.py` out of `include/pullback/equalities.h`, a row each; a scene of the tests (`tests/conformance/scenes.h`) has each of them, with
both derivatives. [adding.md](adding.md#an-equality) says how one is added.

| element | of | numbers | meaning | in MuJoCo |
|---|---|---|---|---|"""


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
    text, out = "".join(path.read_text(encoding="utf-8") for path in HEADERS), {}
    for kind, macros in KINDS.items():
        blocks = [re.search(r"#define PB_%s\(X\)((?:.*\\\n)*.*\n)" % macro, text)[1].replace("\\\n", "\n") for macro in macros.split()]
        rows = re.findall(r'X\(((?:[^()"]|"[^"]*")*)\)', "".join(blocks))
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


def rows_of(kind):
    text = LISTS[kind].read_text(encoding="utf-8")
    block = re.search(r"#define PB_%s_TABLE\(X\)((?:.*\\\n)*.*\n)" % kind.upper(), text)[1].replace("\\\n", "\n")
    out = [split(row) for row in re.findall(r'X\(((?:[^()"]|"[^"]*")*)\)', block)]
    for row in out:  # of our own: a number, or PB_SENSOR_OURS + 1
        row[1] = sum(int(part) for part in row[1].replace(f"PB_{kind.upper()}_OURS", str(first_of_ours(kind))).split("+"))
    return out


def sensors():
    """(enumerator, value, element, numbers, of, stage, data, known, file, meaning) of each sensor; values from first_of_ours MuJoCo lacks."""
    return rows_of("sensor")


def equalities():
    """(enumerator, value, element, of, file, meaning) of each equality; values from first_of_ours MuJoCo lacks."""
    return rows_of("equality")


def first_of_ours(kind):
    return int(re.search(r"PB_%s_OURS = (\d+)" % kind.upper(), LISTS[kind].read_text(encoding="utf-8"))[1])


def sensor_page():
    ours = first_of_ours("sensor")
    rows = [f"| `{element}` | {OF[of]} | {numbers if numbers != '0' else 'by `data`'} | {meaning} | {'yes' if known == 'Early' else ''} | "
            f"{'the same' if value < ours else '-'} |" for _, value, element, numbers, of, _, _, known, _, meaning in sensors()]
    return "\n".join([SENSOR_HEAD, *rows]) + "\n"


def equality_page():
    ours = first_of_ours("equality")
    rows = [f"| `{element}` | {TIES[of]} | {DATA[of]} | {meaning} | {'the same' if value < ours else '-'} |"
            for _, value, element, of, _, meaning in equalities()]
    return "\n".join([EQUALITY_HEAD, *rows]) + "\n"


def pages():
    return {"parameters": page(), "sensors": sensor_page(), "equalities": equality_page()}


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__)
    for name, text in pages().items():
        path = ROOT / "docs" / f"{name}.md"
        if not sys.argv[1:]:
            path.write_text(text, encoding="utf-8")
        elif path.read_text(encoding="utf-8") != text:
            sys.exit(f"docs/{name}.md is not what its list says: run tools/fields.py")


if __name__ == "__main__":
    main()
