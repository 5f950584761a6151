"""Mesh files that are wrong: an error with the file and what is wrong in it, within 1 GiB and 20 s, and nothing written."""
import resource
import struct
import subprocess

import mujoco as mj
import numpy as np
import pytest

import inside

CUBE = np.array([[x, y, z] for x in (-.1, .1) for y in (-.2, .2) for z in (-.3, .3)])
FACES = np.array([[0, 1, 3], [0, 3, 2], [4, 6, 7], [4, 7, 5], [0, 4, 5], [0, 5, 1], [2, 3, 7], [2, 7, 6], [0, 2, 6], [0, 6, 4], [1, 5, 7], [1, 7, 3]])
MEMORY, SECONDS = 1 << 30, 20


def stl(point=CUBE, face=FACES, count=None, cut=None):
    data = bytes(80) + struct.pack("<I", len(face) if count is None else count)
    with np.errstate(over="ignore"):
        data += b"".join(bytes(12) + np.asarray(point)[t].astype("<f4").tobytes() + bytes(2) for t in face)
    return data[:cut]


def text_stl(point=CUBE, face=FACES, end="endsolid\n"):
    lines = [f"facet normal 0 0 0\nouter loop\n{corners}\nendloop\nendfacet\n" for corners in
             ("\n".join("vertex {} {} {}".format(*point[i]) for i in t) for t in face)]
    return ("solid\n" + "".join(lines) + end).encode()


def obj(point=CUBE, face=FACES, more=""):
    lines = ["v {} {} {}".format(*p) for p in point] + ["f {} {} {}".format(*(np.asarray(t) + 1)) for t in face]
    return ("\n".join(lines) + "\n" + more).encode()


def msh(point=CUBE, face=FACES, counts=None, cut=None):
    counts = counts or (len(point), 0, 0, len(face))
    return (struct.pack("<4i", *counts) + np.asarray(point).astype("<f4").tobytes() + np.asarray(face).astype("<i4").tobytes())[:cut]


def with_point(value):
    point = CUBE.copy()
    point[3, 1] = value
    return point


def with_index(value):
    face = FACES.copy()
    face[5, 2] = value
    return face


FLAT, LINE = CUBE * [1, 1, 0], CUBE[:, 2:] * [[1, 2, 3]]
WRONG = {
    "nothing.stl": b"", "header.stl": stl(cut=50), "cut.stl": stl(cut=-7), "many.stl": stl(count=2**32 - 1), "more.stl": stl(count=13),
    "none.stl": stl(count=0, face=[]), "nan.stl": stl(with_point(np.nan)), "infinite.stl": stl(with_point(np.inf)), "flat.stl": stl(FLAT), "line.stl": stl(LINE),
    "place.stl": stl(CUBE * 0), "far.stl": stl(CUBE * 1e38), "letters.stl": text_stl(point=CUBE.astype(str).tolist()[:-1] + [["x", "0", "0"]]),
    "open.stl": text_stl(end="")[:-40], "textnan.stl": text_stl(with_point(np.nan)), "noise.stl": np.random.default_rng(1).bytes(5000),
    "nothing.obj": b"", "nan.obj": obj(with_point(np.nan)), "infinite.obj": obj(with_point(np.inf)), "far.obj": obj(with_point(1e300)),
    "outside.obj": obj(face=with_index(8)), "zero.obj": obj(face=with_index(-1)), "before.obj": obj(more="f -9 -1 -2\n"), "vast.obj": obj(more="f 1 2 99999999999\n"),
    "letters.obj": obj(more="f a b c\n"), "short.obj": obj(more="v 1 2\n"),
    "further.obj": obj(more="g b\nf 0 1 2\n"), "further-before.obj": obj(more="o b\nf 1 2 \\\n-9\n"), "further-letters.obj": obj(more="g b\nf a b c\n"), "flat.obj": obj(FLAT), "line.obj": obj(LINE),
    "noise.obj": np.random.default_rng(2).bytes(5000),
    "nothing.msh": b"", "header.msh": msh(cut=12), "cut.msh": msh(cut=-5), "many.msh": msh(counts=(2**31 - 1, 0, 0, 2**31 - 1)), "some.msh": msh(counts=(2**28, 0, 0, 12)),
    "negative.msh": msh(counts=(-8, 0, 0, 12)), "normals.msh": msh(counts=(8, 5, 0, 12)), "long.msh": msh() + bytes(4), "nan.msh": msh(with_point(np.nan)),
    "outside.msh": msh(face=with_index(8)), "before.msh": msh(face=with_index(-1)), "flat.msh": msh(FLAT), "noise.msh": np.random.default_rng(3).bytes(5000),
}
MODEL = """<mujoco><asset><mesh file="{file}" inertia="{mode}" scale="{scale}"/></asset><worldbody><body><freejoint/>
<geom type="mesh" mesh="{name}" contype="{collides}" conaffinity="{collides}"/></body><geom type="plane" size="1 1 1"/></worldbody></mujoco>"""


def write(folder, file, data, mode="legacy", scale="1 1 1", collides=0):
    (folder / file).write_bytes(data)
    path = folder / "model.xml"
    path.write_text(MODEL.format(file=file, name=file.split(".")[0], mode=mode, scale=scale, collides=collides))
    return path


def limited():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


@pytest.mark.parametrize("collides", [0, 1])
@pytest.mark.parametrize("file", WRONG)
def test_wrong_files_are_told_with_their_place(tmp_path, pullback, file, collides):
    path, out = write(tmp_path, file, WRONG[file], collides=collides), tmp_path / "out.npz"
    done = subprocess.run([pullback, "simulate", str(path), "--steps", "2", "-o", str(out)], capture_output=True, text=True, timeout=SECONDS, preexec_fn=limited)
    print(done.stderr.strip())
    assert done.returncode == 3 and not out.exists()
    assert "model.xml:1:" in done.stderr and (file in done.stderr or file.split(".")[0] in done.stderr)


@pytest.mark.parametrize("more", ["g b\nf 0 1 2\n", "g b\nf 3 2 1\nf -9 1 2\n", "g b\nf 1 2 9\n", "g b\nf 1 2 9\nv 1 1 1\n", "g b\nf 1/0 2 3\n", "g b\nf 1 2\n"])
def test_faces_of_further_objects_are_read_as_in_mujoco(tmp_path, more):
    """Their numbers are checked though they are left out, but for points that may come later."""
    path = write(tmp_path, "cube.obj", obj(more=more))
    try:
        mj.MjModel.from_xml_path(str(path))
    except ValueError:
        line = 20 + more.count("\n")
        with pytest.raises(inside.Error, match=f"cube.obj:{line}: point .* is named"):
            inside.Model(str(path))
    else:
        inside.Model(str(path))


@pytest.mark.parametrize("scale,refused", [("0 1 1", True), ("1 1 0", True), ("nan 1 1", True), ("-1 1 1", False), ("-1 -1 -1", False), ("1e-9 1e-9 1e-9", True)])
@pytest.mark.parametrize("mode", ["legacy", "convex"])
def test_odd_scales(tmp_path, scale, refused, mode):
    path = write(tmp_path, "cube.stl", stl(CUBE + [.1, .2, .3]), mode, scale)
    if refused:
        with pytest.raises(inside.Error):
            inside.Model(str(path))
        return
    m = mj.MjModel.from_xml_path(str(path))
    fields = inside.Model(str(path)).fields()
    for name in ("body_mass", "body_inertia", "body_ipos"):
        assert np.abs(fields[name] - np.reshape(getattr(m, name), fields[name].shape)).max() < 1e-9, name


@pytest.mark.parametrize("mode", ["legacy", "exact", "convex", "shell"])
def test_surfaces_that_are_no_manifolds_count_as_in_mujoco(tmp_path, mode):
    """Three triangles at an edge, one twice, one that is missing, one of no area, one turned: taken or refused as MuJoCo does."""
    odd = [np.r_[FACES, [[0, 1, 7]]], np.r_[FACES, FACES[:1]], FACES[1:], np.r_[FACES, [[2, 2, 5]]], np.r_[FACES[1:], [FACES[0, ::-1]]]]
    for k, face in enumerate(odd):
        path = write(tmp_path, f"odd{k}.msh", msh(face=face), mode)
        try:
            theirs = mj.MjModel.from_xml_path(str(path)).body_mass[1]
        except ValueError as error:
            print(mode, k, error)
            with pytest.raises(inside.Error, match="model.xml:1:"):
                inside.Model(str(path))
        else:
            assert inside.Model(str(path)).fields()["body_mass"][1, 0] == pytest.approx(theirs, rel=1e-9), (mode, k)
