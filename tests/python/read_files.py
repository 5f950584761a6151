"""What a build of the package says of files, whole and broken ones: a line for each, with a digest of what was read or the error.

tools/check_sources.py compares what builds with and without the libraries say.   read_files.py MUTATIONS [KIND...] (in an empty folder)
"""
import hashlib
import json
import os
import pathlib
import random
import sys

import pullback as pb
from broken_files import APPENDED, DEEP, ROOT, SEEDS, TEXTS, archive, broken, picture

ARM = """<mujoco><worldbody><site name='goal'/><body name='arm'><joint name='hinge' damping='0.1'/><geom name='rod' type='capsule'
size='.02 .2'/><site name='tip' pos='0 0 .2'/></body></worldbody><actuator><motor joint='hinge'/></actuator>
<sensor><jointpos joint='hinge'/></sensor></mujoco>"""
EMPTY = "<mujoco><option timestep='.02'/></mujoco>"
FIELD = """<mujoco><asset><hfield name="h" file="x.png" content_type="image/png" size="2 2 .1 .1"/></asset><worldbody><geom type="hfield"
hfield="h"/></worldbody></mujoco>"""
SHAPE = """<mujoco><asset><mesh name="m" file="{}"/></asset><worldbody><body><freejoint/><geom type="mesh" mesh="m" contype="0"
conaffinity="0"/></body></worldbody></mujoco>"""


# ---- one file -------------------------------------------------------------------------------------------------------------------
def digest(*parts):
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]


def model_of(*arguments, **options):
    model = pb.load(*arguments, **options)
    if "deformables" in options or "points" in model.init().fields:  # these do not pack
        return digest(model._theta.tobytes(), model.init().flat.tobytes(), repr(model).encode())
    return digest(model._compiled.pack())


def read(kind, name, data):
    """A digest of what the file says, by whatever reads its kind."""
    path = f"x{os.path.splitext(name)[1]}"
    pathlib.Path(path).write_bytes(data)
    if kind == "array":
        pb.commands._run(["simulate", "arm.xml", "--init", path, "--steps", "3", "-o", "out.npz", "--compressed"])
        return digest(pathlib.Path("out.npz").read_bytes())
    if kind == "png":
        return model_of("field.xml")
    if kind == "shape":
        pathlib.Path("shape.xml").write_text(SHAPE.format(path))
        return model_of("shape.xml")
    if kind == "mesh":
        pathlib.Path("mesh.json").write_text(json.dumps({"bodies": [{"name": "a", "mesh": path, "mass": 1}]}))
        return model_of("empty.xml", deformables="mesh.json")
    if kind == "deformables":
        return model_of("empty.xml", deformables=path)
    if kind == "policy":
        return model_of("arm.xml", policy=path)
    return model_of(path)


def say(kind, name, data):
    try:
        said = read(kind, name, data)
    except (pb.Error, ValueError) as e:
        said = f"{type(e).__name__}: {e}"
    print(json.dumps([kind, name, len(data), said]), flush=True)


# ---- all of them -----------------------------------------------------------------------------------------------------------------
def files(mutations):
    """(kind, name, bytes), the same in every run."""
    for path in sorted([*ROOT.glob("examples/**/*.xml"), *ROOT.glob("tests/oracle/models/**/*.xml"), *ROOT.glob("examples/**/*.json")]):
        yield "model", os.path.relpath(path), b""
    yield from DEEP + TEXTS + APPENDED
    for path in sorted(SEEDS.glob("*/*")):
        kind, data = path.parent.name, path.read_bytes()
        kinds = {"json": ("task", "deformables", "policy"), "formula": ()}.get(kind, (kind,))
        name = path.name
        if kind in ("mesh", "shape"):  # the first bytes tell a fuzz target the format
            data = data[2 if kind == "shape" else 1:]
        for kind in kinds:
            if kind == "policy" and b'"policy"' in data:
                data = json.dumps(json.loads(data)["policy"], indent=1).encode()
            rng = random.Random(f"{kind} {name}")
            yield kind, name, data
            for _ in range(mutations):
                yield kind, name, broken(data, rng)
    rng = random.Random(0)
    for _ in range(5 * mutations):
        for kind, name, made in (("png", "x.png", picture(rng)), ("array", "x.npz", archive(rng))):
            yield kind, name, made
            yield kind, name, broken(made, rng)


def main():
    for name, text in (("arm", ARM), ("empty", EMPTY), ("field", FIELD)):
        pathlib.Path(f"{name}.xml").write_text(text)
    asked = set(sys.argv[2:])
    for kind, name, data in files(int(sys.argv[1])):
        if asked and kind not in asked:
            continue
        if kind == "model":
            try:
                said = model_of(name)
            except pb.Error as e:
                said = f"{type(e).__name__}: {e}"
            print(json.dumps([kind, name, 0, said]), flush=True)
        else:
            say(kind, name, data)
    print(json.dumps(["versions", str(pb.build_info()["libraries"])]), file=sys.stderr)


if __name__ == "__main__":
    main()
