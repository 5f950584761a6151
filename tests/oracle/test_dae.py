"""DAE and GLB meshes: the published files as assimp reads them (through Pinocchio's coal), small files by hand, and what is wrong in them."""
import base64
import glob
import json
import math
import os
import struct

import coal
import numpy as np
import pytest

import inside
import robots

N = inside.native


def load(path):
    """(points, triangles, warnings) of a shape."""
    mesh, ctx = inside.native.pointer(N.pbMesh), N.pbContext_Create(None)
    try:
        N.pbMesh_LoadShape(ctx, os.fsencode(path), b"", mesh)
        m = mesh.contents
        cells = m.cells[N.pb_cellTriangle]
        triangles = N.array(cells.vertex, cells.count, 3).copy() if cells.count else np.zeros((0, 3), int)
        return N.array(m.point, m.points, 3).copy(), triangles
    finally:
        if mesh:
            N.pbMesh_Destroy(mesh)
        N.pbContext_Destroy(ctx)


def summary(point, triangle):
    """Extent, area, its centre and the volume under it: what triangles tell whatever their order."""
    a, b, c = (point[triangle[:, k]] for k in range(3))
    area = np.linalg.norm(np.cross(b - a, c - a), axis=1) / 2
    volume = np.einsum("ij,ij->i", a, np.cross(b, c)).sum() / 6
    return np.r_[point.min(0), point.max(0), area.sum(), (area[:, None] * (a + b + c) / 3).sum(0) / area.sum(), volume]


def files():
    return sorted(f for package in robots.URDF_PACKAGES for f in glob.glob(os.path.join(robots.folder_of(package), "**", "*.dae"), recursive=True))


def test_published_files_are_as_assimp_reads_them(long_run):
    paths = files()
    assert len(paths) >= 40
    for path in paths if long_run else robots.draw(paths, 12):
        point, triangle = load(path)
        theirs = coal.MeshLoader().load(path, np.ones(3))
        vertices, faces = theirs.vertices(), np.array([[theirs.tri_indices(k)[i] for i in range(3)] for k in range(min(theirs.num_tris, 20000))])
        scale = np.abs(vertices).max()
        ours = {tuple(p) for p in np.round(point / scale, 5)}
        near = lambda p: any(tuple(np.round(p / scale + d, 5)) in ours for d in (0, 4e-6, -4e-6))
        assert sum(near(p) for p in vertices[::37]) >= 0.99 * len(vertices[::37]), path
        assert np.abs(point.min(0) - vertices.min(0)).max() < 1e-5 * scale and np.abs(point.max(0) - vertices.max(0)).max() < 1e-5 * scale, path
        if theirs.num_tris <= 20000:
            a, b = summary(point, triangle), summary(vertices, faces)
            assert np.allclose(a, b, rtol=1e-4, atol=1e-4 * scale**3 + 1e-5 * scale), (path, a, b)


# ---- files by hand ----------------------------------------------------------------------------------------------------------
GEOMETRY = """<geometry id="g"><mesh>
<source id="p"><float_array id="pa" count="15">0 0 0  1 0 0  1 1 0  0 1 0  9 9 9</float_array>
<technique_common><accessor source="#pa" count="5" stride="3"/></technique_common></source>
<vertices id="v"><input semantic="POSITION" source="#p"/></vertices>
{faces}</mesh></geometry>"""
TRIANGLES = '<triangles count="1"><input semantic="VERTEX" source="#v" offset="1"/><input semantic="NORMAL" source="#p" offset="0"/><p>7 0 7 1 7 2</p></triangles>'
POLYLIST = '<polylist count="2"><input semantic="VERTEX" source="#v" offset="0"/><vcount>3 4</vcount><p>0 1 2 0 1 2 3</p></polylist>'
LINES = '<lines count="1"><input semantic="VERTEX" source="#v" offset="0"/><p>0 4</p></lines>'


def dae(faces=TRIANGLES, node='<instance_geometry url="#g"/>', nodes="", unit='<unit meter="1"/>', scene='<scene><instance_visual_scene url="#s"/></scene>', up="Y_UP"):
    return f"""<?xml version="1.0"?><COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1">
<asset>{unit}<up_axis>{up}</up_axis></asset>
<library_geometries>{GEOMETRY.format(faces=faces)}</library_geometries>{nodes}
<library_visual_scenes><visual_scene id="s"><node id="n">{node}</node></visual_scene></library_visual_scenes>
{scene}</COLLADA>"""


def made(tmp_path, text):
    path = os.path.join(tmp_path, "shape.dae")
    with open(path, "w") as f:
        f.write(text)
    return load(path)


def test_faces_of_all_kinds(tmp_path):
    point, triangle = made(tmp_path, dae())
    assert (point == [[0, 0, 0], [1, 0, 0], [1, 1, 0]]).all() and triangle.tolist() == [[0, 1, 2]]  # no point without a face, no axis turned
    point, triangle = made(tmp_path, dae(POLYLIST + LINES))
    assert len(point) == 4 and len(triangle) == 3
    with_vertex = lambda kind, p: f'<{kind} count="1"><input semantic="VERTEX" source="#v" offset="0"/>{p}</{kind}>'
    assert len(made(tmp_path, dae(with_vertex("polygons", "<p>0 1 2</p><p>0 1 2 3</p>")))[1]) == 3
    fan, strip = (made(tmp_path, dae(with_vertex(k, "<p>0 1 2 3</p>")))[1].tolist() for k in ("trifans", "tristrips"))
    assert fan == [[0, 1, 2], [0, 2, 3]] and len(strip) == 2


def test_units_and_nodes(tmp_path):
    point, _ = made(tmp_path, dae(unit='<unit meter="0.01"/>'))
    assert np.allclose(point[2], [.01, .01, 0])
    node = '<matrix>1 0 0 5 0 0 -1 6 0 1 0 7 0 0 0 1</matrix><node><translate>1 2 3</translate><rotate>0 0 1 90</rotate><scale>2 3 4</scale><instance_geometry url="#g"/></node>'
    point, triangle = made(tmp_path, dae(node=node, unit='<unit meter="0.5"/>'))
    local = lambda x, y: np.array([1 - 3 * y, 2 + 2 * x, 3.])
    expected = [0.5 * (np.array([[1, 0, 0], [0, 0, -1], [0, 1, 0]]) @ local(x, y) + [5, 6, 7]) for x, y in ((0, 0), (1, 0), (1, 1))]
    assert np.allclose(point, expected, atol=1e-6)

    # A mirror turns the corners round, so that the outside stays outside.
    assert made(tmp_path, dae(node='<scale>-1 1 1</scale><instance_geometry url="#g"/>'))[0][0].tolist() == [-1, 1, 0]
    nodes = '<library_nodes><node id="twice"><instance_geometry url="#g"/></node></library_nodes>'
    assert len(made(tmp_path, dae(node='<instance_node url="#twice"/><translate>1 0 0</translate><instance_node url="#twice"/>', nodes=nodes))[0]) == 6


def test_a_file_without_a_scene_shows_its_first_with_a_warning(tmp_path):
    (tmp_path / "shape.dae").write_text(dae(POLYLIST, scene=""))
    (tmp_path / "robot.urdf").write_text('<robot><link name="a"><collision><geometry><mesh filename="shape.dae"/></geometry></collision></link></robot>')
    warned = inside.Model(str(tmp_path / "robot.urdf"), urdf={}).warnings()
    assert "shape.dae:1:22: COLLADA: has no scene that it shows: its first visual_scene is taken" in warned


NODE_LOOP = '<library_nodes><node id="a"><instance_node url="#b"/></node><node id="b"><instance_node url="#a"/></node></library_nodes>'
DOUBLES = "<library_nodes>" + "".join(f'<node id="d{k}"><instance_node url="#d{k + 1}"/><instance_node url="#d{k + 1}"/></node>' for k in range(40)) + \
    '<node id="d40"><instance_geometry url="#g"/></node></library_nodes>'


@pytest.mark.parametrize("text, said", [
    (dae(node='<instance_node url="#a"/>', nodes=NODE_LOOP), "one may show itself"),
    (dae(node='<instance_node url="#n"/>'), "one may show itself"),
    (dae(node='<instance_node url="#d0"/>', nodes=DOUBLES), "more than"),
    (dae(node='<instance_node url="#none"/>'), "no node with the id 'none'"),
    (dae(node='<instance_geometry url="#s"/>'), "no geometry with the id 's'"),
    (dae(node='<instance_geometry url="other.dae#g"/>'), "expected '#' and an id in this file"),
    (dae(node='<instance_geometry/>'), "expected '#'"),
    (dae(scene='<scene><instance_visual_scene url="#t"/></scene>'), "no visual_scene with the id 't'"),
    (dae(TRIANGLES.replace("7 2<", "7 5<")), "has point 5, but there are 5"),
    (dae(TRIANGLES.replace("7 2<", "7 -1<")), "where an index is expected"),
    (dae(TRIANGLES.replace("7 2<", "7 1.5<")), "where an index is expected"),
    (dae(TRIANGLES.replace(" 7 2<", "<")), "no multiple of 3"),
    (dae(TRIANGLES.replace(" 2<", "<")), "no multiple of 2"),
    (dae(POLYLIST.replace("3 4<", "3 5<")), "more than 7 corners"),
    (dae(POLYLIST.replace("3 4<", "3 3<")), "gives 6 corners of 7"),
    (dae(POLYLIST.replace("<vcount>3 4</vcount>", "")), "has no vcount"),
    (dae(TRIANGLES.replace("#v", "#w")), "no vertices with the id 'w'"),
    (dae(TRIANGLES.replace("VERTEX", "COLOR")), "no input VERTEX"),
    (dae(TRIANGLES.replace('offset="1"', 'offset="99"')), "expected a whole number from 0 to 63"),
    (dae().replace('count="5" stride', 'count="6" stride'), "asks for 6 points"),
    (dae().replace('stride="3"', 'stride="2"'), "a stride of 2"),
    (dae().replace('count="15"', 'count="16"'), "float_array: attribute 'count' is 16, but it has 15 numbers"),
    (dae(TRIANGLES.replace('count="1"', 'count="5"')), "triangles: attribute 'count' is 5, but it has 1 faces"),
    (dae(POLYLIST.replace('count="2"', 'count="1"')), "polylist: attribute 'count' is 1, but it has 2 faces"),
    (dae(POLYLIST.replace("<vcount>3 4</vcount>", "").replace("polylist", "triangles").replace('offset="0"', 'offset="6"')), "no multiple of 3"),
    (dae(TRIANGLES.replace("7 0 7 1 7 2", "7 0 7 1 7 2 " * 2).replace('offset="1"', 'offset="3"').replace('count="1"', 'count="2"')), "but it has 1 faces"),
    (dae().replace("9 9 9<", "9 9 nan<"), "where a finite number is expected"),
    (dae(unit='<unit meter="0"/>'), "expected a positive number"),
    (dae(node='<matrix>1 0 0</matrix><instance_geometry url="#g"/>'), "has 3 numbers, expected 16"),
    (dae(node='<skew>1 0 0</skew>'), "is not supported"),
    (dae(faces=""), "holds no points"),
    ("<html/>", "expected the root element COLLADA"),
    (dae()[:-30], "not well-formed"),
    ("<!DOCTYPE a><COLLADA/>", "document type declarations"),
])
def test_wrong_files_are_errors_with_the_line(tmp_path, text, said):
    with pytest.raises(inside.Error) as raised:
        made(tmp_path, text)
    assert said in str(raised.value) and "shape.dae" in str(raised.value)


# ---- GLB --------------------------------------------------------------------------------------------------------------------
def head(path):
    with open(path, "rb") as f:
        data = f.read()
    return json.loads(data[20:20 + struct.unpack("<I", data[12:16])[0]])


def has_pose(path):
    """Is the scene one node that is turned or moved? assimp's users take that for the turn to another up axis and leave it out."""
    j = head(path)
    roots = j["scenes"][j.get("scene", 0)]["nodes"]
    return len(roots) == 1 and set(j["nodes"][roots[0]]) & {"rotation", "translation", "scale", "matrix"}


def test_published_glb_files_are_as_assimp_reads_them(long_run):
    paths = sorted(glob.glob(os.path.join(robots.folder_of("dexmate_urdf"), "**", "*.glb"), recursive=True))
    assert len(paths) >= 50
    for path in paths if long_run else robots.draw(paths, 8):
        point, triangle = load(path)
        theirs = coal.MeshLoader().load(path, np.ones(3)) if not has_pose(path) else None
        if theirs:
            vertices = theirs.vertices()
            scale = np.abs(vertices).max()
            assert 0 <= len(triangle) - theirs.num_tris <= 0.02 * len(triangle), path  # some without area are left out there
            assert np.abs(point.min(0) - vertices.min(0)).max() < 1e-5 * scale and np.abs(point.max(0) - vertices.max(0)).max() < 1e-5 * scale, path


def glb(scene=None, binary=b"", version=2, cut=0):
    """A triangle, moved, turned and scaled; `scene` changes its JSON."""
    points = struct.pack("<9f", 0, 0, 0, 1, 0, 0, 0, 1, 0) + struct.pack("<4H", 0, 1, 2, 0)
    j = {"asset": {"version": "2.0"}, "scene": 0, "scenes": [{"nodes": [0]}],
         "nodes": [{"children": [1], "translation": [1, 2, 3]}, {"mesh": 0, "rotation": [0, 0, math.sin(math.pi / 4), math.cos(math.pi / 4)], "scale": [2, 2, 2]}],
         "meshes": [{"primitives": [{"attributes": {"POSITION": 0}, "indices": 1}]}],
         "accessors": [{"bufferView": 0, "componentType": 5126, "count": 3, "type": "VEC3"}, {"bufferView": 1, "componentType": 5123, "count": 3, "type": "SCALAR"}],
         "bufferViews": [{"buffer": 0, "byteLength": 36}, {"buffer": 0, "byteOffset": 36, "byteLength": 8}], "buffers": [{"byteLength": 44}]}
    if scene:
        scene(j)
    text = json.dumps(j).encode()
    text += b" " * (-len(text) % 4)
    chunk = lambda kind, data: struct.pack("<II", len(data), kind) + data
    body = chunk(0x4E4F534A, text) + chunk(0x4E4942, binary or points)
    whole = struct.pack("<III", 0x46546C67, version, 12 + len(body)) + body
    return whole[:len(whole) - cut]


def made_glb(tmp_path, data):
    path = os.path.join(tmp_path, "shape.glb")
    with open(path, "wb") as f:
        f.write(data)
    return load(path)


def test_a_glb_by_hand(tmp_path):
    point, triangle = made_glb(tmp_path, glb())
    assert np.allclose(point, [[1, 2, 3], [1, 4, 3], [-1, 2, 3]], atol=1e-6) and triangle.tolist() == [[0, 1, 2]]
    mirrored = made_glb(tmp_path, glb(lambda j: j["nodes"][1].update(scale=[-1, 1, 1])))[1]
    assert made_glb(tmp_path, glb(lambda j: j["meshes"][0]["primitives"][0].pop("indices")))[1].tolist() == [[0, 1, 2]] and len(mirrored) == 1
    matrix = lambda j: j["nodes"].__setitem__(0, {"children": [1], "matrix": [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 1, 2, 3, 1]})
    assert np.allclose(made_glb(tmp_path, glb(matrix))[0], point)


def change(*keys, to):
    def call(j):
        for key in keys[:-1]:
            j = j[key]
        j[keys[-1]] = to
    return call


@pytest.mark.parametrize("data, said", [
    (b"glTF", "head of a GLB file"), (glb(version=1), "of version 2"), (glb(cut=1), "cut short"), (glb(cut=60), "cut short"),
    (glb(change("nodes", 1, "children", to=[0])), "one may hold itself"), (glb(change("nodes", 0, "children", to=[7])), "an entry is not there"),
    (glb(change("scene", to=3)), "no entry 3 of 'scenes'"), (glb(change("nodes", 1, "mesh", to=5)), "no entry 5 of 'meshes'"),
    (glb(change("accessors", 1, "count", to=5)), "reaches beyond"), (glb(change("accessors", 0, "byteOffset", to=4)), "reaches beyond"),
    (glb(change("bufferViews", 1, "byteOffset", to=40)), "reaches beyond"), (glb(change("accessors", 0, "count", to=2)), "has point 2, but there are 2"),
    (glb(change("accessors", 0, "count", to=-1)), "expected a whole number"), (glb(change("accessors", 0, "componentType", to=5123)), "expected floats"),
    (glb(change("accessors", 1, "type", to="VEC3")), "expected SCALAR"), (glb(change("bufferViews", 0, "byteStride", to=4)), "an item has 12"),
    (glb(change("extensionsRequired", to=["KHR_draco_mesh_compression"])), "KHR_draco_mesh_compression"), (glb(change("nodes", 1, "scale", to=["a"])), "scale: expected 3 numbers"),
    (glb(change("meshes", 0, "primitives", to=[])), "holds no points"), (glb(change("meshes", 0, "primitives", 0, "attributes", to={})), "POSITION"),
    (glb(binary=struct.pack("<9f", 0, 0, math.nan, 1, 0, 0, 0, 1, 0) + struct.pack("<4H", 0, 1, 2, 0)), "shape.glb"),
])
def test_wrong_glb_files_are_errors(tmp_path, data, said):
    with pytest.raises(inside.Error) as raised:
        made_glb(tmp_path, data)
    assert said in str(raised.value) and "shape.glb" in str(raised.value)


# ---- glTF as text: numbers beside it, or in it ---------------------------------------------------------------------------------
TRIANGLE = struct.pack("<9f", 0, 0, 0, 1, 0, 0, 0, 1, 0) + struct.pack("<4H", 0, 1, 2, 0)
EMBEDDED = "data:application/octet-stream;base64," + base64.b64encode(TRIANGLE).decode()


def made_gltf(tmp_path, *buffers, scene=None, length=44):
    """The same triangle with its numbers at these addresses; two: points and corners apart."""
    j = json.loads(glb()[20:].split(b"\0\0BIN")[0].rsplit(b"}", 1)[0] + b"}")
    sizes = [length] if len(buffers) == 1 else [36, 8]
    j["buffers"] = [{"byteLength": n, **({"uri": uri} if uri else {})} for uri, n in zip(buffers, sizes)]
    if len(buffers) == 2:
        j["bufferViews"][1] = {"buffer": 1, "byteLength": 8}
    if scene:
        scene(j)
    (tmp_path / "shape.gltf").write_text(json.dumps(j))
    return load(str(tmp_path / "shape.gltf"))


def test_gltf_with_numbers_beside_it_and_in_it(tmp_path):
    wanted = made_glb(tmp_path, glb())
    (tmp_path / "parts of it").mkdir()
    (tmp_path / "all.bin").write_bytes(TRIANGLE)
    (tmp_path / "parts of it" / "points.bin").write_bytes(TRIANGLE[:36])
    corners = "data:application/gltf-buffer;base64," + base64.b64encode(TRIANGLE[36:]).decode()
    apart = ["parts%20of%20it/points.bin", corners], ["./parts of it/../parts of it/points.bin", corners]
    for addresses in (["all.bin"], [EMBEDDED], *apart):
        found = made_gltf(tmp_path, *addresses)
        assert np.array_equal(found[0], wanted[0]) and np.array_equal(found[1], wanted[1]), addresses


BESIDE = "expected the name of a file below this one's folder"


@pytest.mark.parametrize("address, said", [
    ("none.bin", "buffers[0]: file 'none.bin' cannot be found"), ("../outside.bin", "is not below this one's folder"),
    ("link.bin", "is not below this one's folder"), ("/etc/passwd", BESIDE), ("http://x/y.bin", BESIDE), ("%zz", BESIDE), ("a%00b", BESIDE),
    ("short.bin", "has fewer bytes than 'byteLength' says"), (".", "expected a file, found a folder"), (None, "has no address ('uri')"),
    ("data:text/plain,hello", "expected base64"), ("data:;base64,!!!!", "is no base64"), ("data:;base64,AAAA", "has fewer bytes"),
    (EMBEDDED + "A", "is no base64"),
])
def test_wrong_buffers_are_errors(tmp_path, address, said):
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "outside.bin").write_bytes(TRIANGLE)
    (inner / "short.bin").write_bytes(TRIANGLE[:40])
    (inner / "link.bin").symlink_to(tmp_path / "outside.bin")
    with pytest.raises(inside.Error) as raised:
        made_gltf(inner, address)
    assert said in str(raised.value), raised.value


def test_wrong_gltf_files_are_errors(tmp_path):
    for scene, said in ((change("bufferViews", 1, "buffer", to=3), "buffers[3]: there is no such entry"),
                        (change("accessors", 1, "count", to=9), "reaches beyond"), (change("buffers", to={}), "buffers[0]"),
                        *((change("buffers", 0, "byteLength", to=bad), "buffers[0]: byteLength: expected a whole number") for bad in (-1, 44.5, "44", [])),
                        (change("extensionsRequired", to=["EXT_meshopt_compression"]), "EXT_meshopt_compression")):
        with pytest.raises(inside.Error) as raised:
            made_gltf(tmp_path, EMBEDDED, scene=scene)
        assert said in str(raised.value) and "shape.gltf" in str(raised.value)
    (tmp_path / "shape.gltf").write_text("{")
    with pytest.raises(inside.Error, match="byte 1 of its JSON"):
        load(str(tmp_path / "shape.gltf"))


def test_a_robot_with_a_gltf_mesh(tmp_path):
    """The link weighs what the tetrahedron does, seen or touched, and an error has the place in the URDF."""
    points = struct.pack("<12f", 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1) + struct.pack("<12B", 0, 2, 1, 0, 1, 3, 1, 2, 3, 0, 3, 2)
    (tmp_path / "meshes").mkdir()
    (tmp_path / "meshes" / "tet.bin").write_bytes(points)
    j = {"asset": {"version": "2.0"}, "scenes": [{"nodes": [0]}], "nodes": [{"mesh": 0}],
         "meshes": [{"primitives": [{"attributes": {"POSITION": 0}, "indices": 1}]}],
         "accessors": [{"bufferView": 0, "componentType": 5126, "count": 4, "type": "VEC3"},
                       {"bufferView": 1, "componentType": 5121, "count": 12, "type": "SCALAR"}],
         "bufferViews": [{"buffer": 0, "byteLength": 48}, {"buffer": 0, "byteOffset": 48, "byteLength": 12}],
         "buffers": [{"byteLength": 60, "uri": "tet.bin"}]}
    (tmp_path / "meshes" / "tet.gltf").write_text(json.dumps(j))
    shape = '<geometry><mesh filename="meshes/tet.gltf"/></geometry>'
    (tmp_path / "r.urdf").write_text('<robot name="r"><link name="a"/><link name="b"><inertial><density value="6"/></inertial>'
                                     f'<visual>{shape}</visual><collision>{shape}</collision></link>'
                                     '<joint name="j" type="continuous"><parent link="a"/><child link="b"/></joint></robot>')
    model = inside.Model(str(tmp_path / "r.urdf"))
    field = N.pbField()
    assert N.pbModel_Field(model.ptr, b"body_mass", field) and abs(N.array(field.reals, field.rows)[-1] - 1) < 1e-12
    (tmp_path / "meshes" / "tet.bin").unlink()
    with pytest.raises(inside.Error, match=r"r.urdf:1:\d+: .*tet.gltf: buffers\[0\]: file 'tet.bin' cannot be found"):
        inside.Model(str(tmp_path / "r.urdf"))
