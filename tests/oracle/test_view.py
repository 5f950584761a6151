"""What is to be seen of a motion: counted in the files for other programs, and looked at in a browser without a screen."""
import base64
import json
import pathlib
import shutil
import struct
import subprocess
import xml.etree.ElementTree as xml
import zlib

import meshio
import mujoco as mj
import numpy as np
import pytest

HERE = pathlib.Path(__file__).resolve().parent
MODEL = HERE / "models" / "materials.xml"
# By MuJoCo's rule: a colour of its own wins over the material's, which may be that of its class.
RUBY, BLUE, LEAF, PINK, SUN, GREY = [0.9, 0.1, 0.1, 1], [0.1, 0.2, 0.9, 1], [0.1, 0.8, 0.1, 1], [0.8, 0.1, 0.8, 1], [0.95, 0.9, 0.1, 1], [0.5, 0.5, 0.5, 1]
FADED = SUN[:3] + [0.5]


@pytest.fixture(scope="module")
def motion(run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("motion")
    run("simulate", MODEL, "--steps", 40, "-o", folder / "run.npz", "--vtu", folder / "run.pvd", "--glb", folder / "run.glb")
    run("view", MODEL, folder / "run.npz", "-o", folder / "run.html")
    return folder


def glb(path):
    raw = path.read_bytes()
    size = struct.unpack("<I", raw[12:16])[0]
    return json.loads(raw[20:20 + size]), raw[28 + size:]


def accessor(root, body, index):
    a = root["accessors"][index]
    width, start = {"SCALAR": 1, "VEC3": 3, "VEC4": 4}[a["type"]], root["bufferViews"][a["bufferView"]]["byteOffset"]
    kind = {5125: np.uint32, 5126: np.float32}[a["componentType"]]
    return np.frombuffer(body, kind, width * a["count"], start).reshape(-1, width)


def to_screen(linear):
    linear = np.asarray(linear)
    return np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)


def page_data(path):
    text = path.read_text()
    return json.loads(text.split('id="data">', 1)[1].split("</script>", 1)[0])


def test_the_page_has_colours_sites_tendons_and_contacts(motion):
    data = page_data(motion / "run.html")
    colour = {g["name"]: g["rgba"] for kind in ("geoms", "sites", "tendons") for g in data[kind]}
    assert [g["name"] for g in data["geoms"]] == ["floor", "ball", "cube", ""]  # not what is transparent
    assert sorted(s["name"] for s in data["sites"] if s["group"] < 3) == ["a", "b", "mark"]
    assert colour["ball"] == RUBY and colour["cube"] == BLUE and colour[""] == LEAF and colour["mark"] == PINK
    assert colour["rope"] == SUN and colour["b"] == FADED and colour["a"] == GREY
    (rope,) = data["tendons"]  # that of joints has no path
    assert rope["bodies"] == [3, 0, 0, 0] and rope["width"] == 0.06
    assert rope["points"] == [0, 0, -0.3, 0.9, -0.3, 1.4, 0.9, -0.3, 1.4, 0, 0.9, 1]
    start = data["contacts"]["start"]
    assert start[0] == 0 and start[1] == 5 and len(start) == len(data["time"]) + 1  # a ball and a box on the floor


def test_glb_has_rigid_parts_that_move(motion):
    root, body = glb(motion / "run.glb")
    o = np.load(motion / "run.npz")
    node = {n["name"]: n for n in root["nodes"] if "name" in n}
    assert set(node) == {"floor", "ball", "cube", "geom 3 of swing", "mark", "a", "b", "rope"}
    for name, rgba in (("ball", RUBY), ("cube", BLUE), ("geom 3 of swing", LEAF), ("mark", PINK), ("rope", SUN), ("b", FADED)):
        primitive = root["meshes"][node[name]["mesh"]]["primitives"][0]
        material = root["materials"][primitive["material"]]
        factor = material["pbrMetallicRoughness"]["baseColorFactor"]
        np.testing.assert_allclose([*to_screen(factor[:3]), factor[3]], rgba, atol=1e-7)
        assert material["alphaMode"] == ("BLEND" if rgba[3] < 1 else "OPAQUE") and primitive["mode"] == (1 if name == "rope" else 4)
    samplers = {(c["target"]["node"], c["target"]["path"]): root["animations"][0]["samplers"][c["sampler"]] for c in root["animations"][0]["channels"]}
    moving = {root["nodes"][n]["name"] for n, _ in samplers}
    assert {"ball", "cube", "geom 3 of swing", "a", "rope"} >= moving >= {"geom 3 of swing", "a", "rope"} and "floor" not in moving
    swing = samplers[root["nodes"].index(node["geom 3 of swing"]), "rotation"]
    turn = accessor(root, body, swing["output"])
    angle = 2 * np.arctan2(turn[:, 1], turn[:, 3])
    np.testing.assert_allclose(angle, o["qpos"][:, 14], atol=1e-6)
    np.testing.assert_allclose(node["floor"]["translation"], [0, 0, 0])
    rope = root["meshes"][node["rope"]["mesh"]]["primitives"][0]
    places = accessor(root, body, rope["attributes"]["POSITION"])
    np.testing.assert_allclose(places, [[0, -0.9, 1.2], [0.9, -0.3, 1.4], [0.9, -0.3, 1.4], [0, 0.9, 1]], atol=1e-6)


def test_vtu_has_rigid_parts_and_contacts(motion):
    listed = [(e.get("part"), e.get("file")) for e in xml.parse(motion / "run.pvd").iter("DataSet")]
    assert [f for p, f in listed if p == "1"] == [f"run_rigid_{k:06d}.vtu" for k in range(41)]
    assert [f for p, f in listed if p == "2"] == [f"run_contacts_{k:06d}.vtu" for k in range(41)] and len(listed) == 82
    mesh = meshio.read(motion / "run_rigid_000040.vtu")
    line, triangle = [[c.type for c in mesh.cells].index(kind) for kind in ("line", "triangle")]
    data = {name: values[triangle] for name, values in mesh.cell_data.items()}
    assert set(data["geom"]) == {-1, 0, 1, 2, 3} and set(data["site"]) == {-1, 0, 1, 3} and set(data["tendon"]) == {-1}
    assert list(mesh.cell_data["tendon"][line]) == [0, 0]
    o = np.load(motion / "run.npz")
    ball = data["geom"] == 1
    assert set(data["body"][ball]) == {1} and (data["rgba"][ball] == RUBY).all()
    points = mesh.points[np.unique(mesh.cells[triangle].data[ball])]
    np.testing.assert_allclose(np.linalg.norm(points - o["qpos"][40, :3], axis=1), 0.3, atol=1e-12)
    cube = mesh.points[np.unique(mesh.cells[triangle].data[data["geom"] == 2])]
    assert len(cube) == 8
    np.testing.assert_allclose(cube.mean(axis=0), o["qpos"][40, 7:10], atol=1e-12)
    contacts = meshio.read(motion / "run_contacts_000000.vtu")
    np.testing.assert_allclose(contacts.point_data["normal"], np.tile([0, 0, 1], (5, 1)), atol=1e-12)
    assert sorted(contacts.point_data["geom"][:, 1]) == [1, 2, 2, 2, 2] and np.abs(contacts.points[:, 2]).max() < 1e-9


def surface_volume(points, triangles):
    a, b, c = (points[triangles[:, k]] for k in range(3))
    return np.einsum("ij,ij->", a, np.cross(b, c)) / 6


def test_surfaces_are_closed_and_of_the_right_size(run, tmp_path):
    shapes = {"sphere": ((0.2,), 4 / 3 * np.pi * 0.2**3), "capsule": ((0.1, 0.3), np.pi * 0.01 * 0.6 + 4 / 3 * np.pi * 0.001),
              "ellipsoid": ((0.1, 0.2, 0.3), 4 / 3 * np.pi * 0.006), "cylinder": ((0.1, 0.3), np.pi * 0.01 * 0.6), "box": ((0.1, 0.2, 0.3), 8 * 0.006)}
    geoms = "".join(f'<geom type="{kind}" size="{" ".join(map(str, size))}" pos="1 2 3" quat="1 2 3 4"/>' for kind, (size, _) in shapes.items())
    (tmp_path / "m.xml").write_text(f"<mujoco><worldbody>{geoms}</worldbody></mujoco>")
    run("simulate", tmp_path / "m.xml", "--steps", 1, "-o", tmp_path / "o.npz", "--vtu", tmp_path / "o.pvd")
    mesh = meshio.read(tmp_path / "o_rigid_000000.vtu")
    for i, (kind, (_, volume)) in enumerate(shapes.items()):
        triangles = mesh.cells_dict["triangle"][mesh.cell_data["geom"][0] == i]
        found = surface_volume(mesh.points - [1, 2, 3], triangles)
        assert volume * (1 - 1e-12 if kind == "box" else 0.96) <= found <= volume * (1 + 1e-12), kind  # inside, its sides outward
        edges = np.sort(np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [2, 0]]]), axis=1)
        assert (np.unique(edges, axis=0, return_counts=True)[1] == 2).all(), kind


def test_the_camera_follows_what_leaves_the_picture(run, tmp_path):
    """The root of the tree of what goes farthest; not what trembles, nor where all stays in sight."""
    bodies = """<body pos="0 0 1"><joint type="slide" axis="1 0 0" stiffness="100"/><geom size="0.1" contype="0" conaffinity="0"/></body>
      <body name="flyer" pos="0 1 1"><freejoint/><geom size="0.1"/><body pos="0.3 0 0"><joint axis="0 0 1"/><geom size="0.05" pos="0.1 0 0"/></body></body>"""
    (tmp_path / "m.xml").write_text(f"<mujoco><option gravity='0 0 0'/><worldbody>{bodies}</worldbody></mujoco>")
    for speed, following in ((0.5, False), (60, True)):
        np.savez(tmp_path / "x.npz", qpos=np.array([0, 0, 1, 1, 1, 0, 0, 0, 0.0]), qvel=np.array([0.1, speed, 0, 0, 0, 0, 0, 5]))
        run("simulate", tmp_path / "m.xml", "--init", tmp_path / "x.npz", "--steps", 100, "-o", tmp_path / "o.npz")
        run("view", tmp_path / "m.xml", tmp_path / "o.npz", "-o", tmp_path / "o.html")
        data = page_data(tmp_path / "o.html")
        assert data["following"] is following and (not following or data["bodies"][data["follow"]] == "flyer")


def test_an_unknown_material_is_an_error(run, tmp_path):
    (tmp_path / "m.xml").write_text('<mujoco><asset><material name="ruby"/></asset><worldbody><geom name="g" size="1" material="rubi"/></worldbody></mujoco>')
    said = run("info", tmp_path / "m.xml", code=3).stderr
    assert "unknown material 'rubi'" in said and "'ruby'" in said
    (tmp_path / "m.xml").write_text('<mujoco><asset><material name="ruby"/>\n<material name="ruby"/></asset></mujoco>')
    assert "m.xml:2:1: material 'ruby': another material has this name" in run("info", tmp_path / "m.xml", code=3).stderr


# ---- tendons that go around geoms, height fields -----------------------------------------------------------------------------
def lines_of(folder, frame):
    """Points of the tendons' cells of a frame of run.pvd, by tendon: (cells, 2, 3)."""
    mesh = meshio.read(folder / f"run_rigid_{frame:06d}.vtu")
    line = [c.type for c in mesh.cells].index("line")
    of = mesh.cell_data["tendon"][line]
    return {int(t): mesh.points[mesh.cells[line].data[of == t]] for t in np.unique(of)}


@pytest.mark.parametrize("name", ["wrapping", "muscles"])
def test_tendons_go_around_what_is_in_their_way(run, tmp_path, name):
    """Files for other programs have MuJoCo's points of touch and arcs on the geoms between them; both kinds of files the same points."""
    path = HERE / "models" / f"{name}.xml"
    m, (ctrl, nu) = mj.MjModel.from_xml_path(str(path)), (tmp_path / "u.npy", 0)
    np.save(ctrl, np.full((60, m.nu), .3))
    run("simulate", path, *(("--control", ctrl) if m.nu else ("--steps", 60)), "-o", tmp_path / "run.npz", "--vtu", tmp_path / "run.pvd", "--glb",
        tmp_path / "run.glb", "-q")
    qpos, d, around = np.load(tmp_path / "run.npz")["qpos"], mj.MjData(m), 0
    root, body = glb(tmp_path / "run.glb")
    node = {n["name"]: n for n in root["nodes"] if "name" in n}
    for frame in (0, 7, 31, 60):
        d.qpos[:] = qpos[frame]
        mj.mj_fwdPosition(m, d)
        lines = lines_of(tmp_path, frame)
        for t, cells in lines.items():
            first, count = int(d.ten_wrapadr[t]), int(d.ten_wrapnum[t])
            theirs, on = d.wrap_xpos.reshape(-1, 3)[first:first + count], d.wrap_obj.ravel()[first:first + count]
            theirs, on = theirs[on >= -1], on[on >= -1]
            ours = cells.reshape(-1, 3)
            apart = np.linalg.norm(ours[:, None] - theirs[None], axis=2)
            assert apart.min(axis=0).max() < 1e-9, (frame, t)

            # what is between two points of touch lies on the geom
            geoms = set(on[on >= 0].tolist())
            around += len(geoms)
            lengths = np.linalg.norm(cells[:, 1] - cells[:, 0], axis=1)
            if geoms and not any(m.wrap_type[m.tendon_adr[t]:m.tendon_adr[t] + m.tendon_num[t]] == mj.mjtWrap.mjWRAP_PULLEY):
                assert -1e-2 * d.ten_length[t] < lengths.sum() - d.ten_length[t] < 1e-9
            if frame == 0:
                mesh = root["meshes"][node[m.tendon(t).name or f"tendon {t}"]["mesh"]]["primitives"][0]
                places, edges = accessor(root, body, mesh["attributes"]["POSITION"]), accessor(root, body, mesh["indices"]).reshape(-1, 2)
                np.testing.assert_allclose(places[edges], cells, atol=1e-6)
    assert around >= 3


def test_height_fields_are_drawn(run, tmp_path):
    """As surfaces with the heights of the file: the grid's triangles, walls and a bottom, closed; in pages, VTU and glTF."""
    r, rows, columns = np.random.default_rng(1), 5, 8
    height = np.flipud(r.uniform(0, 3, (rows, columns)))
    text = " ".join(f"{h:.17g}" for h in height.ravel())
    (tmp_path / "m.xml").write_text(f"""<mujoco><asset><hfield name="f" nrow="{rows}" ncol="{columns}" size="1.4 .8 .5 .2" elevation="{text}"/></asset><worldbody>
      <geom name="hills" type="hfield" hfield="f" pos=".1 .2 .3" euler="0 0 90"/><body pos="0 0 3"><freejoint/><geom size=".1"/></body></worldbody></mujoco>""")
    run("simulate", tmp_path / "m.xml", "--steps", 2, "-o", tmp_path / "run.npz", "--vtu", tmp_path / "run.pvd", "--glb", tmp_path / "run.glb", "-q")
    run("view", tmp_path / "m.xml", tmp_path / "run.npz", "-o", tmp_path / "run.html")
    m = mj.MjModel.from_xml_path(str(tmp_path / "m.xml"))
    x, y = np.meshgrid(np.linspace(-1.4, 1.4, columns), np.linspace(-.8, .8, rows))
    top = np.stack([.1 - y, .2 + x, .3 + .5 * m.hfield_data.reshape(rows, columns)], 2).reshape(-1, 3)
    count = 2 * (rows - 1) * (columns - 1) + 4 * (rows + columns - 2) + 2

    mesh = meshio.read(tmp_path / "run_rigid_000000.vtu")
    cells = [c.type for c in mesh.cells].index("triangle")
    corners = mesh.points[mesh.cells[cells].data[mesh.cell_data["geom"][cells] == 0]]
    assert len(corners) == count
    assert np.linalg.norm(corners.reshape(-1, 1, 3) - top, axis=2).min(axis=0).max() < 1e-7
    volume = np.einsum("ij,ij->i", corners[:, 0], np.cross(corners[:, 1], corners[:, 2])).sum() / 6
    cut = lambda a, b, c: top[a, 2] + top[b, 2] + top[c, 2] - 3 * .1  # heights above the bottom
    number, cell = np.arange(rows * columns).reshape(rows, columns), 2.8 / (columns - 1) * 1.6 / (rows - 1)
    expected = sum(cut(a, b, d) + cut(a, c, d) for a, b, c, d in zip(number[:-1, :-1].ravel(), number[:-1, 1:].ravel(), number[1:, :-1].ravel(), number[1:, 1:].ravel())) * cell / 6
    assert abs(volume / expected - 1) < 1e-6, (volume, expected)

    root, body = glb(tmp_path / "run.glb")
    node = next(n for n in root["nodes"] if n.get("name") == "hills")
    assert accessor(root, body, root["meshes"][node["mesh"]]["primitives"][0]["indices"]).size == 3 * count
    data = page_data(tmp_path / "run.html")
    assert len(data["meshes"]) == 1 and data["geoms"][0]["mesh"] == 0 and "hull" not in data["geoms"][0]


def test_heights_that_were_set_are_drawn(run, tmp_path):
    (tmp_path / "m.xml").write_text("""<mujoco><asset><hfield name="f" nrow="3" ncol="3" size="1 1 .5 .2"/></asset><worldbody><geom type="hfield" hfield="f"/>
      <body pos="0 0 3"><freejoint/><geom size=".1"/></body></worldbody></mujoco>""")
    run("simulate", tmp_path / "m.xml", "--expose", "hfield_data:f", "--param", "hfield_data:f:1:2=1.5", "--steps", 2, "-o", tmp_path / "run.npz", "--vtu", tmp_path / "run.pvd", "-q")
    points = meshio.read(tmp_path / "run_rigid_000000.vtu").points
    raised = points[(points[:, 2] > 0) & (points[:, 2] < 2)]
    assert len(raised) and np.abs(raised - (1, 0, .75)).max() < 1e-7


def test_large_height_fields_are_thinned(run, tmp_path):
    """Every second row and column, from edge to edge: pages stay small."""
    rows, columns = 1201, 1000
    height = np.random.default_rng(2).random((rows, columns)).astype("<f4")
    (tmp_path / "f.bin").write_bytes(struct.pack("<2i", rows, columns) + height.tobytes())
    (tmp_path / "m.xml").write_text('<mujoco><asset><hfield name="f" file="f.bin" size="3 2 .5 .2"/></asset><worldbody><geom type="hfield" hfield="f"/></worldbody></mujoco>')
    run("view", tmp_path / "m.xml", "-o", tmp_path / "m.html")
    (mesh,) = page_data(tmp_path / "m.html")["meshes"]
    raw = np.frombuffer(base64.b64decode(mesh["points"]), "<u2").reshape(-1, 3) * mesh["step"] + mesh["low"]
    triangles = len(base64.b64decode(mesh["triangles"])) // 12
    assert triangles == 2 * 600 * 500 + 4 * 1100 + 2 and (tmp_path / "m.html").stat().st_size < 16 << 20
    np.testing.assert_allclose([raw.min(axis=0), raw.max(axis=0)], [[-3, -2, -.2], [3, 2, .5]], atol=1e-3)


def test_textures_that_are_built_in_give_their_colors(run, tmp_path):
    """Checkers as MuJoCo fills them; one color where there is one; of files, whose names may even be those of textures, none."""
    textures = ('<texture name="c" type="2d" builtin="checker" rgb1=".1 .2 .3" rgb2=".6 .5 .4" width="8" height="8"/><texture name="d" type="2d" builtin="checker" '
                'width="8" height="8"/><texture name="f" type="cube" builtin="flat" rgb1=".8 .6 .4" rgb2="0 0 0" width="8" height="8"/>')
    materials = "".join(f'<material name="m{t}" texture="{t}" rgba=".5 1 1 1"/>' for t in "cdf") + '<material name="plain" rgba=".2 .4 .6 1"/>'
    (tmp_path / "m.xml").write_text(f"""<mujoco><asset>{textures}{materials}</asset><worldbody><geom type="plane" size="1 1 1" material="mc"/>
      <geom size=".1" material="md"/><geom size=".1" material="mf" rgba="1 0 1 .5"/><geom size=".1" material="plain"/><geom size=".1"/></worldbody></mujoco>""")
    m = mj.MjModel.from_xml_path(str(tmp_path / "m.xml"))
    theirs = [np.unique(m.tex_data[a:a + 64 * 3].reshape(-1, 3), axis=0) / 255 for a in m.tex_adr]
    run("simulate", tmp_path / "m.xml", "--steps", 1, "-o", tmp_path / "run.npz", "--glb", tmp_path / "run.glb", "-q")
    run("view", tmp_path / "m.xml", "-o", tmp_path / "m.html")
    geoms = page_data(tmp_path / "m.html")["geoms"]
    for g, seen in zip(geoms[:3], theirs):
        ours = np.unique(np.reshape(g["cells"], (2, 3)), axis=0)
        np.testing.assert_allclose(ours, seen, atol=1 / 255)
    assert geoms[0]["rgba"] == [.5, 1, 1, 1] and geoms[2]["rgba"] == [1, 0, 1, .5] and all("cells" not in g for g in geoms[3:])
    root, _ = glb(tmp_path / "run.glb")
    flat = root["materials"][root["meshes"][[n for n in root["nodes"] if "mesh" in n][2]["mesh"]]["primitives"][0]["material"]]
    np.testing.assert_allclose(to_screen(flat["pbrMetallicRoughness"]["baseColorFactor"][:3]), [.8, 0, .4], atol=1e-3)
