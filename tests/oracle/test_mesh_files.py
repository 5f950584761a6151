"""Mesh files written by meshio are read as it wrote them, and what we write it reads: points, cells, groups, data."""
import json
import shutil
import struct
import subprocess

import meshio
import numpy as np
import pytest

import inside

KINDS = ["vertex", "line", "triangle", "triangle6", "tetra", "tetra10"]
NODES = [1, 2, 3, 6, 4, 10]


Cells, Mesh = inside.native.pbCells, inside.native.pbMesh


def table(pointer, rows, columns, kind):
    if not rows * columns:
        return np.zeros((rows, columns), kind)
    return inside.native.array(pointer, rows * columns,).reshape(rows, columns).astype(kind)


class Read:
    """What pbMesh_Load made of a file, as NumPy arrays."""

    def __init__(self, mesh):
        self.points = table(mesh.point, mesh.points, 3, float)
        self.cells = {name: table(c.vertex, c.count, n, int) for name, n, c in zip(KINDS, NODES, mesh.cells) if c.count}
        self.group = {name: table(c.group, c.count, 1, int)[:, 0] for name, c in zip(KINDS, mesh.cells) if c.count}
        self.names = {(mesh.group[i].dimension, mesh.group[i].number): mesh.group[i].name.decode() for i in range(mesh.groups)}


@pytest.fixture
def load(lib, context):

    def call(path):
        mesh = inside.native.pointer(Mesh)
        lib.pbMesh_Load(context, path, mesh)
        read = Read(mesh.contents)
        lib.pbMesh_Destroy(mesh)
        return read

    return call


rng = np.random.default_rng(7)
POINTS = rng.standard_normal((14, 3))
SURFACE = [("triangle", np.array([[0, 1, 2], [2, 1, 3], [4, 5, 6], [13, 12, 11]]))]
SOLID = [("vertex", np.array([[3], [5]])), ("line", np.array([[0, 1], [4, 3]])), ("triangle", np.array([[0, 1, 2], [5, 3, 4]])),
         ("triangle6", np.array([[0, 1, 2, 3, 4, 5]])), ("tetra", np.array([[0, 1, 2, 3], [6, 5, 4, 3], [7, 8, 9, 10]])),
         ("tetra10", np.array([[4, 5, 6, 7, 8, 9, 10, 11, 12, 13]]))]
# meshio's order of quadratic tetrahedra is VTK's: middles of 01 12 02 03 13 23, as ours
ENTITY = np.array([[3, 2]] * len(POINTS))  # of each point: meshio wants to know for Gmsh 4.1

FORMATS = [
    ("m.obj", SURFACE, {}, 1e-15), ("m.ply", SURFACE, {"binary": False}, 1e-15), ("m.ply", SURFACE, {"binary": True}, 0),
    ("m.msh", SOLID, {"file_format": "gmsh22", "binary": False}, 1e-15), ("m.msh", SOLID, {"file_format": "gmsh22", "binary": True}, 0),
    ("m.msh", SOLID, {"file_format": "gmsh", "binary": False}, 1e-15), ("m.msh", SOLID, {"file_format": "gmsh", "binary": True}, 0),
    ("m.vtk", SOLID, {"file_format": "vtk42", "binary": False}, 1e-15), ("m.vtk", SOLID, {"file_format": "vtk42", "binary": True}, 0),
    ("m.vtk", SOLID, {"file_format": "vtk51", "binary": False}, 1e-15), ("m.vtk", SOLID, {"file_format": "vtk51", "binary": True}, 0),
    ("m.vtu", SOLID, {"binary": False}, 1e-10), ("m.vtu", SOLID, {"binary": True, "compression": None}, 0),
    ("m.vtu", SOLID, {"binary": True, "compression": "zlib"}, 0),
    ("m.mesh", [SOLID[1], SOLID[2], SOLID[4]], {}, 1e-15), ("m.ele", [SOLID[4]], {}, 1e-15),
]


@pytest.mark.parametrize("name,cells,options,error", FORMATS, ids=[f"{f[0]}-{'-'.join(map(str, f[2].values()))}" for f in FORMATS])
def test_meshio_writes_we_read(load, tmp_path, name, cells, options, error):
    mesh = meshio.Mesh(POINTS, cells)
    if options.get("file_format") == "gmsh":
        mesh.point_data["gmsh:dim_tags"] = ENTITY
        mesh.cell_data["gmsh:geometrical"] = [np.full(len(rows), i) for i, (_, rows) in enumerate(cells)]
    mesh.write(tmp_path / name, **options)
    read = load(tmp_path / name)
    np.testing.assert_allclose(read.points, POINTS, rtol=error, atol=0)
    assert set(read.cells) == {kind for kind, _ in cells}
    for kind, rows in cells:
        np.testing.assert_array_equal(read.cells[kind], rows)


# Beside each other: two hexahedra, a prism in the corner of one, a pyramid on top of the other.
BRICKS = np.array([[x, y, z] for z in (0, 1) for y in (0, 1) for x in (0, 1, 2)] + [[.5, .5, 2.], [1, -1, 0], [1, -1, 1]], float)
BRICK_CELLS = [("hexahedron", np.array([[0, 1, 4, 3, 6, 7, 10, 9], [1, 2, 5, 4, 7, 8, 11, 10]])), ("wedge", np.array([[0, 13, 1, 6, 14, 7]])),
               ("pyramid", np.array([[6, 7, 10, 9, 12]]))]


@pytest.mark.parametrize("name,options", [("m.vtk", {"file_format": "vtk42"}), ("m.vtk", {"file_format": "vtk51"}), ("m.vtu", {}),
                                          ("m.msh", {"file_format": "gmsh22", "binary": False}), ("m.msh", {"file_format": "gmsh22", "binary": True}), ("m.mesh", {})])
def test_hexahedra_prisms_and_pyramids(load, tmp_path, name, options):
    """As tetrahedra they fill the same volume, and each inner face belongs to two of them, however the points are numbered."""
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(len(BRICKS)) if seed else np.arange(len(BRICKS))
        place = np.argsort(order)
        points = BRICKS[order]
        meshio.Mesh(points, [(kind, place[rows]) for kind, rows in BRICK_CELLS]).write(tmp_path / name, **options)
        read = load(tmp_path / name)
        tets = read.cells["tetra"]
        x = read.points[tets]
        volume = np.linalg.det(x[:, 1:] - x[:, :1]) / 6
        assert len(tets) == 2 * 6 + 3 + 2 and volume.min() > 1e-3
        np.testing.assert_allclose(volume.sum(), 2 + .5 + 1 / 3, rtol=1e-14)
        faces = np.sort(tets[:, [[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]]].reshape(-1, 3), axis=1)
        count = np.unique(faces, axis=0, return_counts=True)[1]
        assert count.max() == 2 and (count == 1).sum() == 20 - 2 + 6 - 2 + 4  # bricks, a prism on a side of them, a pyramid on another


@pytest.mark.skipif(not shutil.which("tetgen"), reason="needs TetGen (apt install tetgen)")
def test_a_surface_filled_by_tetgen(load, tmp_path):
    """As docs/deformables.md says it."""
    corners = np.array([[x, y, z] for x in (0, .1) for y in (0, .1) for z in (0, .1)])
    sides = [[0, 1, 3], [0, 3, 2], [4, 6, 7], [4, 7, 5], [0, 4, 5], [0, 5, 1], [2, 3, 7], [2, 7, 6], [0, 2, 6], [0, 6, 4],
             [1, 5, 7], [1, 7, 3]]
    meshio.Mesh(corners, [("triangle", np.array(sides))]).write(tmp_path / "cow.stl", binary=False)
    subprocess.run(["tetgen", "-pq1.4a1e-5", "cow.stl"], cwd=tmp_path, check=True, capture_output=True)
    read = load(tmp_path / "cow.1.ele")
    x = read.points[read.cells["tetra"]]
    volume = abs(np.linalg.det(x[:, 1:] - x[:, :1])) / 6
    assert volume.max() < 1.0001e-5 and abs(volume.sum() - 1e-3) < 1e-9


@pytest.mark.parametrize("binary", [False, True])
def test_stl_is_welded(load, tmp_path, binary):
    meshio.Mesh(POINTS, SURFACE).write(tmp_path / "m.stl", binary=binary)
    read = load(tmp_path / "m.stl")
    used = np.unique(SURFACE[0][1])
    assert len(read.points) == len(used)
    np.testing.assert_allclose(read.points[read.cells["triangle"]], POINTS[SURFACE[0][1]], rtol=1e-6)


@pytest.mark.parametrize("file_format,binary", [("gmsh22", False), ("gmsh22", True), ("gmsh", False), ("gmsh", True)])
def test_physical_groups(load, tmp_path, file_format, binary):
    cells = [SOLID[2], SOLID[4]]
    data = [np.array([4, 4]), np.array([9, 9, 9])]
    mesh = meshio.Mesh(POINTS, cells, cell_data={"gmsh:physical": data, "gmsh:geometrical": [np.array([1, 1]), np.array([2, 2, 2])]},
                       field_data={"held": np.array([4, 2]), "all of it": np.array([9, 3])})
    if file_format == "gmsh":  # the groups are those of entities: a surface 1 and a volume 2
        mesh.point_data["gmsh:dim_tags"] = np.array([[2, 1]] * 7 + [[3, 2]] * 7)
    mesh.write(tmp_path / "m.msh", file_format=file_format, binary=binary)
    read = load(tmp_path / "m.msh")
    assert read.names == {(2, 4): "held", (3, 9): "all of it"}
    for (kind, rows), groups in zip(cells, data):
        np.testing.assert_array_equal(read.cells[kind], rows)
        np.testing.assert_array_equal(read.group[kind], groups)


# ---- what we write ----------------------------------------------------------------------------------------------------------


Array, Frame, Part, Glb = inside.native.pbVtuArray, inside.native.pbVtuFrame, inside.native.pbGlbPart, inside.native.pbGlb


@pytest.fixture
def ours(lib, context, tmp_path):
    """A mesh of every kind of cell, made by pbMesh_Load from a Gmsh file."""
    data = [np.arange(1, len(rows) + 1) for _, rows in SOLID]
    meshio.Mesh(POINTS, SOLID, cell_data={"gmsh:physical": data, "gmsh:geometrical": data},
                field_data={"held": np.array([1, 2])}).write(tmp_path / "ours.msh", file_format="gmsh22", binary=True)
    mesh = inside.native.pointer(Mesh)
    lib.pbMesh_Load(context, tmp_path / "ours.msh", mesh)
    yield mesh
    lib.pbMesh_Destroy(mesh)


def same_cells(read):
    assert [c.type for c in read.cells] == [kind for kind, _ in SOLID]
    for block, (_, rows) in zip(read.cells, SOLID):
        np.testing.assert_array_equal(block.data, rows)


@pytest.mark.parametrize("ending", ["vtk", "vtu", "msh"])
def test_we_write_meshio_reads(lib, context, ours, tmp_path, ending):
    path = tmp_path / f"out.{ending}"
    lib.pbMesh_Save(context, path, ours)
    read = meshio.read(path)
    np.testing.assert_array_equal(read.points, POINTS)
    same_cells(read)
    if ending == "msh":
        assert read.field_data["held"].tolist() == [1, 2]
    groups = {"vtu": "group", "msh": "gmsh:physical"}.get(ending)
    for values, (_, rows) in zip(read.cell_data.get(groups, []), SOLID):
        np.testing.assert_array_equal(values, np.arange(1, len(rows) + 1))


@pytest.mark.parametrize("ending", ["obj", "stl"])
def test_we_write_surfaces(lib, context, tmp_path, ending):
    meshio.Mesh(POINTS, SURFACE).write(tmp_path / "in.ply")
    mesh = inside.native.pointer(Mesh)
    lib.pbMesh_Load(context, tmp_path / "in.ply", mesh)
    path = tmp_path / f"out.{ending}"
    lib.pbMesh_Save(context, path, mesh)
    lib.pbMesh_Destroy(mesh)
    read = meshio.read(path)
    np.testing.assert_allclose(read.points[read.cells[0].data], POINTS[SURFACE[0][1]], rtol=1e-7 if ending == "stl" else 0)


def test_series(lib, context, ours, tmp_path):
    writer = inside.native.handle()
    n, cells = len(POINTS), sum(len(rows) for _, rows in SOLID)
    speed, stress = rng.standard_normal((n, 3)), rng.standard_normal(cells)
    lib.pbVtuWriter_Create(context, tmp_path / "a & b.pvd", ours, writer)
    for k in range(2):
        frame = Frame(time=0.1 * k, x=POINTS + 1 if k else None, point_arrays=1, cell_arrays=1,
                      point=Array(name="speed", components=3, values=speed), cell=Array(name="stress", components=1, values=stress))
        lib.pbVtuWriter_Write(writer, frame)
    lib.pbVtuWriter_Finish(writer)
    lib.pbVtuWriter_Destroy(writer)
    import xml.etree.ElementTree as tree
    listed = tree.parse(tmp_path / "a & b.pvd").getroot().findall(".//DataSet")
    assert [float(entry.get("timestep")) for entry in listed] == [0, 0.1]
    for k, entry in enumerate(listed):
        read = meshio.read(tmp_path / entry.get("file"))
        np.testing.assert_array_equal(read.points, POINTS + k)
        np.testing.assert_array_equal(read.point_data["speed"], speed)
        np.testing.assert_array_equal(np.concatenate(read.cell_data["stress"]), stress)
        same_cells(read)


def read_glb(path):
    """JSON and accessors of a GLB, every structural rule of glTF 2.0 that concerns us checked on the way."""
    data = path.read_bytes()
    magic, version, length, json_length, json_kind = struct.unpack_from("<5I", data)
    assert (magic, version, length, json_kind) == (0x46546C67, 2, len(data), 0x4E4F534A) and json_length % 4 == 0
    root = json.loads(data[20:20 + json_length])
    size, kind = struct.unpack_from("<2I", data, 20 + json_length)
    body = data[28 + json_length:]
    assert kind == 0x004E4942 and size == len(body) == root["buffers"][0]["byteLength"] and size % 4 == 0
    arrays, end = [], 0
    for accessor in root["accessors"]:
        view = root["bufferViews"][accessor["bufferView"]]
        width = {"SCALAR": 1, "VEC3": 3, "VEC4": 4}[accessor["type"]]
        number = {5125: np.uint32, 5126: np.float32}[accessor["componentType"]]
        assert view["byteOffset"] % 4 == 0 and view["byteOffset"] == end and view["byteLength"] == accessor["count"] * width * 4
        end += view["byteLength"]
        values = np.frombuffer(body, number, accessor["count"] * width, view["byteOffset"]).reshape(-1, width)
        for bound, found in (("min", values.min(0)), ("max", values.max(0))):
            if bound in accessor:
                np.testing.assert_array_equal(np.array(accessor[bound], np.float32), found.astype(np.float32))
        arrays.append(values)
    assert end == size
    assert root["asset"]["version"] == "2.0"
    return root, arrays


@pytest.mark.parametrize("frames,most,kept", [(5, 0, 5), (7, 4, 4), (250, 0, 100), (1, 0, 1)])
def test_glb(lib, context, tmp_path, frames, most, kept):
    x = rng.standard_normal((frames, 6, 3))
    shape, pose = rng.standard_normal((4, 3)), rng.standard_normal((frames, 7))
    pose[:, 3:] /= np.linalg.norm(pose[:, 3:], axis=1)[:, None]
    time = np.arange(frames) * 0.25 + 1
    corners, line = np.array([0, 1, 2, 2, 1, 5], np.intc), np.array([0, 5], np.intc)  # points 3 and 4 are not drawn
    triangles, edges = Cells(count=2, vertex=corners), Cells(count=1, vertex=line)
    parts = [Part(name='clo"th', triangles=triangles, edges=edges, points=6, x=x, colour=(1, 0, 0, 0.5)),
             Part(name="box", edges=Cells(count=1, vertex=np.array([0, 3], np.intc)), points=4, x=shape, pose=pose)]
    glb = Glb(frames=frames, time=time, parts=2, part=parts, most_frames=most)
    lib.pbGlb_Write(context, tmp_path / "a.glb", glb)
    warned = lib.pbContext_Warnings(context).decode()
    assert ("frames are kept" in warned) == (kept < frames)
    root, arrays = read_glb(tmp_path / "a.glb")
    chosen = np.round(np.linspace(0, frames - 1, kept)).astype(int)
    drawn, now = [0, 1, 2, 5], x[chosen][:, [0, 1, 2, 5]]
    first, second = root["meshes"][0]["primitives"]
    assert root["meshes"][0]["name"] == 'clo"th' and (first["mode"], second["mode"]) == (4, 1)
    np.testing.assert_array_equal(np.array(drawn)[arrays[first["indices"]][:, 0]], corners)
    np.testing.assert_array_equal(np.array(drawn)[arrays[second["indices"]][:, 0]], line)
    base = arrays[first["attributes"]["POSITION"]]
    np.testing.assert_allclose(base, now[0], rtol=1e-7)
    targets = [arrays[t["POSITION"]] for t in first.get("targets", [])]
    assert len(targets) == kept - 1 and second.get("targets") == first.get("targets")
    for target, frame in zip(targets, now[1:]):
        np.testing.assert_allclose(base + target, frame, atol=1e-6)
    scene = root["nodes"][root["scenes"][0]["nodes"][0]]
    assert scene["children"] == [0, 1] and [n["mesh"] for n in root["nodes"][:2]] == [0, 1]
    animation = root["animations"][0]
    for channel in animation["channels"]:
        sampler, target = animation["samplers"][channel["sampler"]], channel["target"]
        times, values = arrays[sampler["input"]][:, 0], arrays[sampler["output"]]
        if target["path"] == "weights":
            assert target["node"] == 0
            np.testing.assert_allclose(times, time[chosen], rtol=1e-7)
            np.testing.assert_array_equal(values.reshape(kept, kept - 1), np.eye(kept)[:, 1:])
        else:
            assert target["node"] == 1
            np.testing.assert_allclose(times, time, rtol=1e-7)
            wanted = pose[:, :3] if target["path"] == "translation" else pose[:, [4, 5, 6, 3]]
            np.testing.assert_allclose(values, wanted, rtol=2e-7, atol=1e-7)
    assert len(animation["channels"]) == (3 if kept > 1 else 2)


def test_a_search_for_overlaps_ends_where_all_lie_in_all(run, tmp_path):
    """600 tetrahedra about one place: 179 700 pairs, of which the first are told."""
    rng = np.random.default_rng(0)
    p = (np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]) + .01 * rng.random((600, 1, 3))).reshape(-1, 3)
    rows = lambda a: "\n".join(" ".join(map(str, r)) + " 0" for r in a.tolist())
    text = f"MeshVersionFormatted 2\nDimension 3\nVertices\n{len(p)}\n{rows(p)}\nTetrahedra\n600\n{rows(np.arange(2400).reshape(-1, 4) + 1)}\nEnd\n"
    (tmp_path / "all.mesh").write_text(text)
    body = dict(name="b", mesh="all.mesh", energies=[dict(energy="neo_hookean", parameters=dict(young=1e5, poisson=.3, density=1000))])
    (tmp_path / "all.json").write_text(json.dumps(dict(deformables=dict(bodies=[body]))))
    said = run("info", tmp_path / "all.json").stderr
    assert "and 99997 more pairs that lie in each other; the search ended there" in said, said
