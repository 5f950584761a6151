"""The page of `pullback view`, read back in a browser without a screen: what it draws, where, and what it says."""
import base64
import json
import pathlib

import mujoco as mj
import numpy as np
import pytest

import robot_pages
import robots
from browser import Browser, pixels, png
from test_view import MODEL, RUBY, BLUE, LEAF, PINK, SUN, accessor, glb, page_data

# Every kind of joint and shape, a mesh that is seen (a wedge, by its file) and one that weighs, a tracking camera of each mode, and a wall to hide behind.
SCENE = """<mujoco model="scene"><option timestep="0.002"/><asset>
  <mesh name="wedge" file="wedge.obj" scale="0.3 0.2 0.1" refpos="0.1 0 0"/>
  <mesh name="weight" vertex="0 0 0  0.3 0 0  0 0.2 0  0 0 0.1" face="0 2 1 0 1 3 0 3 2 1 2 3"/>
  <mesh name="gone" file="gone.stl"/></asset>
<worldbody><geom name="floor" type="plane" size="0 0 1" rgba="0.9 0.9 0.9 1"/>
  <camera name="fixed" pos="3 -3 2" xyaxes="1 1 0 -0.3 0.3 1" fovy="50"/>
  <body name="free" pos="0 0 1"><freejoint/><geom name="box" type="box" size="0.2 0.1 0.1" rgba="0.9 0.1 0.1 1"/>
    <geom name="part" type="mesh" mesh="wedge" pos="0 0 0.2" euler="30 20 10" contype="0" conaffinity="0" mass="0" group="1" rgba="0.1 0.8 0.1 1"/>
    <camera name="ride" pos="-1 0 0.5" mode="fixed"/><camera name="track" pos="0 -2 0.5" mode="track" xyaxes="1 0 0 0 0.3 1"/>
    <camera name="trackcom" pos="0 -2 0.5" mode="trackcom" xyaxes="1 0 0 0 0.3 1"/>
    <body name="arm" pos="0.25 0 0"><joint name="hinge" axis="0 1 0.5" range="-60 60" pos="0.05 0 0" ref="10"/>
      <geom type="capsule" fromto="0 0 0 0.4 0 0" size="0.04"/>
      <body pos="0.4 0 0"><joint name="slide" type="slide" axis="1 0 0.2" range="-0.1 0.3"/><geom type="cylinder" size="0.05 0.1"/>
        <geom name="hidden" type="sphere" size="0.08" group="3" contype="0" conaffinity="0"/></body></body></body>
  <body name="ball" pos="0 0.6 0.8"><joint name="socket" type="ball"/><geom type="ellipsoid" size="0.1 0.15 0.2" pos="0.2 0 0"/>
    <geom name="weight" type="mesh" mesh="weight" contype="0" conaffinity="0" pos="0 0.3 0" euler="0 40 0"/>
    <geom type="mesh" mesh="gone" contype="0" conaffinity="0" mass="0"/>
    <camera name="target" pos="0 1.5 1" mode="targetbody" target="free"/><camera name="targetcom" pos="0 1.5 1" mode="targetbodycom" target="free"/></body>
</worldbody>
<actuator><motor joint="hinge"/></actuator><sensor><jointpos name="angle" joint="hinge"/><framepos objtype="body" objname="free"/></sensor></mujoco>"""
WEDGE = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nv 1 0 1\nv 0 1 1\nf 1 3 2\nf 4 5 6\nf 1 2 5 4\nf 2 3 6 5\nf 3 1 4 6\n"


@pytest.fixture(scope="module")
def browser():
    b = Browser(480, 360)
    yield b
    b.close()


@pytest.fixture(scope="module")
def scene(run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("scene")
    (folder / "scene.xml").write_text(SCENE)
    (folder / "wedge.obj").write_text(WEDGE)
    rng = np.random.default_rng(0)
    np.save(folder / "u.npy", 0.2 * rng.standard_normal((600, 1)))
    run("simulate", folder / "scene.xml", "--steps", 600, "--control", folder / "u.npy", "-o", folder / "run.npz")
    said = run("view", folder / "scene.xml", folder / "run.npz", "-o", folder / "run.html").stderr
    assert "gone.stl" in said and "not seen" in said
    run("view", folder / "scene.xml", "-o", folder / "still.html")
    return folder


def without_missing(folder):
    """The same for MuJoCo, which wants every file."""
    m = mj.MjModel.from_xml_string(SCENE.replace('<mesh name="gone" file="gone.stl"/>', "").replace('<geom type="mesh" mesh="gone" contype="0" conaffinity="0" mass="0"/>', ""),
                                   {"wedge.obj": WEDGE.encode()})
    return m, mj.MjData(m)


def opened(browser, path):
    browser.open(path)
    assert browser.errors() == [] and browser.requests() == []
    return browser


# ---- pixels -----------------------------------------------------------------------------------------------------------

def picture(browser, folder):
    """As drawn now, above the bar."""
    browser.run("document.getElementById('panel').hidden = true, pullback.go(pullback.frame()), new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return png(browser.shot(folder / "shot.png"))[:-60, :]


def test_colours_are_drawn(browser, run, tmp_path):
    run("simulate", MODEL, "--steps", 1, "-o", tmp_path / "run.npz")
    run("view", MODEL, tmp_path / "run.npz", "-o", tmp_path / "run.html")
    image = picture(opened(browser, tmp_path / "run.html"), tmp_path)
    found = {name: pixels(image, rgba) for name, rgba in dict(ruby=RUBY, blue=BLUE, leaf=LEAF, pink=PINK, sun=SUN).items()}
    assert min(map(np.sum, found.values())) > 150, {name: there.sum() for name, there in found.items()}
    rows, columns = np.nonzero(found["sun"])  # the rope is strung across the scene, above the shapes that lie on the floor
    assert np.ptp(columns) > 60 and rows.max() < np.nonzero(found["blue"])[0].mean(), (np.ptp(columns), rows.max())
    browser.run("document.getElementById('contacts').click()")
    without = picture(browser, tmp_path)
    assert (np.abs(image - without).max(axis=2) > 30).sum() > 10  # contacts were there


def test_a_chain_is_drawn(browser, run, root, tmp_path):
    """Points and the springs between them, where there is no surface."""
    run("simulate", root / "examples" / "chain" / "carry.json", "--steps", 1, "-o", tmp_path / "run.npz", "-q")
    run("view", root / "examples" / "chain" / "carry.json", tmp_path / "run.npz", "-o", tmp_path / "run.html")
    assert pixels(picture(opened(browser, tmp_path / "run.html"), tmp_path), [0x1f / 255, 0x4f / 255, 0x80 / 255]).sum() > 50


def test_what_is_nearer_hides_what_is_behind(browser, run, tmp_path):
    """A red ball before the background; behind a blue wall, seen from the first look, it is gone."""
    ball = '<body pos="0 0 0.5"><freejoint/><geom type="sphere" size="0.3" rgba="0.9 0.1 0.1 1"/></body>'
    eye = np.array([np.cos(-0.85), np.sin(-0.85), 0.33])
    at = np.array([0, 0, 0.5]) + 0.8 * eye / np.linalg.norm(eye)
    wall = f'<body pos="{at[0]} {at[1]} {at[2]}" euler="0 0 {np.degrees(-0.85)}"><freejoint/><geom type="box" size="0.05 0.6 0.6" rgba="0.1 0.2 0.9 1"/></body>'
    seen = []
    for bodies in (ball, ball + wall):
        (tmp_path / "m.xml").write_text(f"<mujoco><worldbody>{bodies}</worldbody></mujoco>")
        run("view", tmp_path / "m.xml", "-o", tmp_path / "m.html")
        seen.append(pixels(picture(opened(browser, tmp_path / "m.html"), tmp_path), RUBY).sum())
    assert seen[0] > 3000 and seen[1] == 0, seen


# ---- the scene read back ----------------------------------------------------------------------------------------------

def test_triangles_of_every_geom(browser, scene):
    opened(browser, scene / "run.html")
    data = page_data(scene / "run.html")
    shown = {g["id"]: g["triangles"] for g in browser.run("pullback.shown()")}
    of = lambda name: next(g["id"] for g in data["geoms"] if g["name"] == name)
    assert shown[of("floor")] == 2 and shown[of("box")] == 12 and shown[of("part")] == 8 and shown[of("weight")] == 4
    assert of("hidden") not in shown and browser.run("pullback.drawn()") == sum(shown.values())
    browser.key("3")  # its group
    assert of("hidden") in {g["id"] for g in browser.run("pullback.shown()")}
    browser.key("h")  # what collides alone: neither the part nor the weight
    assert {g["id"] for g in browser.run("pullback.shown()")} == {g["id"] for g in data["geoms"] if g["collides"]}
    assert len(data["meshes"]) == 2  # each once


def corners(data, geom):
    """Of a mesh geom in the frame of its body, from the numbers of the page."""
    rotate = lambda q, x: np.array([mj_rotate(q, p) for p in x])
    m = data["meshes"][geom["mesh"]]
    grid = np.frombuffer(base64.b64decode(m["points"]), "<u2").reshape(-1, 3)
    x = np.array(m["low"]) + m["step"] * grid
    x = np.array(geom["mesh_pos"]) + rotate(geom["mesh_quat"], x)
    return np.array(geom["pos"]) + rotate(geom["quat"], x)


def mj_rotate(q, v):
    out = np.zeros(3)
    q = np.array(q, float)
    mj.mju_rotVecQuat(out, np.array(v, float), q / np.linalg.norm(q))
    return out


def test_meshes_are_where_mujoco_has_them(scene):
    """A part that is only seen, and one that weighs, whose frame has the principal axes."""
    m, _ = without_missing(scene)
    data = page_data(scene / "run.html")
    for name in ("part", "weight"):
        g, mesh = m.geom(name), m.geom(name).dataid[0]
        vertex = m.mesh_vert[m.mesh_vertadr[mesh]:m.mesh_vertadr[mesh] + m.mesh_vertnum[mesh]]
        theirs = np.array([mj_rotate(g.quat, v) for v in vertex]) + g.pos
        ours = corners(data, next(x for x in data["geoms"] if x["name"] == name))
        far = np.abs(ours[:, None] - theirs[None]).max(axis=2).min(axis=1).max()
        assert len(ours) == len(vertex) and far < 0.3 / 65535, far


def pose_gap(found, pos, quat):
    found = np.array(found)
    return max(np.abs(found[:3] - pos).max(), min(np.abs(found[3:] - quat).max(), np.abs(found[3:] + quat).max()))


def test_poses_contacts_and_forces(browser, scene):
    """At three times: of every body to 1e-6, of every contact those that MuJoCo has in the same state."""
    opened(browser, scene / "run.html")
    m, d = without_missing(scene)
    o, data = np.load(scene / "run.npz"), page_data(scene / "run.html")
    touched = 0
    for k in (0, len(data["time"]) // 2, len(data["time"]) - 1):
        row = int(np.argmin(np.abs(o["time"] - data["time"][k])))
        d.qpos[:], d.qvel[:], d.ctrl[:] = o["qpos"][row], o["qvel"][row], o["control"][min(row, 599)]
        mj.mj_forward(m, d)
        browser.run(f"pullback.go({k})")
        for b in range(m.nbody):
            assert pose_gap(browser.run(f"pullback.pose({b})"), d.xpos[b], d.xquat[b]) < 1e-6
        found, strongest = browser.run(f"pullback.contacts({k})"), 1.0
        assert len(found) == d.ncon
        for i in range(d.ncon):
            force = np.zeros(6)
            mj.mj_contactForce(m, d, i, force)
            frame, world = d.contact.frame[i].reshape(3, 3), d.contact.frame[i].reshape(3, 3).T @ force[:3]
            strongest = max(strongest, np.abs(world).max())
            same = [c for c in found if {c[9], c[10]} == set(map(float, d.contact.geom[i])) and np.abs(np.array(c[:3]) - d.contact.pos[i]).max() < 1e-6]
            assert len(same) == 1 and np.abs(np.array(same[0][3:6]) - frame[0]).max() < 1e-6
            assert np.abs(np.array(same[0][6:9]) - world).max() < 1e-5 * strongest, (same[0][6:9], world)
            touched += 1
    assert touched > 4


def test_the_time_bar_moves_the_picture(browser, scene, tmp_path):
    opened(browser, scene / "run.html")
    browser.run("pullback.go(0)")
    first = picture(browser, tmp_path)
    last = browser.run("(() => { const bar = document.getElementById('time'); bar.value = bar.max; bar.dispatchEvent(new Event('input')); return pullback.frame(); })()")
    assert last == len(page_data(scene / "run.html")["time"]) - 1 and f"of {1.2:.3f} s" in browser.run("document.getElementById('clock').textContent")
    assert (np.abs(picture(browser, tmp_path) - first).max(axis=2) > 30).sum() > 300
    browser.run("document.getElementById('picture').focus()")
    for key, frame in (("ArrowLeft", last - 1), ("ArrowRight", last), ("Home", 0), ("ArrowRight", 1)):
        browser.key(key)
        assert browser.run("pullback.frame()") == frame, key
    browser.key(" ")
    assert browser.run("document.getElementById('play').textContent") == "Pause"
    assert browser.run("new Promise(done => { const look = () => pullback.frame() > 1 ? done(true) : setTimeout(look, 20); look(); })")
    browser.key(" ")


def test_plots_are_the_numbers_of_the_trajectory(browser, scene):
    opened(browser, scene / "run.html")
    o, data = np.load(scene / "run.npz"), page_data(scene / "run.html")
    rows = [int(np.argmin(np.abs(o["time"] - t))) for t in data["time"]]
    choices = browser.run("pullback.choices().map(c => [c.group, c.name])")
    shown = lambda group, name: np.array(browser.run(f"pullback.addPlot(pullback.choices()[{choices.index([group, name])}]).y"))
    np.testing.assert_allclose(shown("position", "hinge"), o["qpos"][rows, 7], atol=1e-6)
    np.testing.assert_allclose(shown("velocity", "slide"), o["qvel"][rows, 7], atol=1e-5)
    np.testing.assert_allclose(shown("sensor", "angle"), o["sensordata"][rows, 0], atol=1e-6)
    assert (shown("contact force (N)", "all contacts") >= 0).all() and ["contact force (N)", "floor - box"] in choices


def test_joints_move_as_in_mujoco(browser, scene, rng=np.random.default_rng(3)):
    """The page's own kinematics, and cameras of every mode."""
    opened(browser, scene / "still.html")
    m, d = without_missing(scene)
    for k in range(5):
        d.qpos[:] = m.qpos0 + rng.standard_normal(m.nq)
        mj.mj_normalizeQuat(m, d.qpos)
        mj.mj_forward(m, d)
        poses = browser.run(f"pullback.kinematics({d.qpos.tolist()})")
        for b in range(m.nbody):
            assert pose_gap([*poses[b]["pos"], *poses[b]["quat"]], d.xpos[b], d.xquat[b]) < 1e-12
    browser.run("pullback.joint('hinge', 0.7)")
    d.qpos[:] = m.qpos0
    d.qpos[7] = 0.7
    mj.mj_forward(m, d)
    for b in range(m.nbody):
        assert pose_gap(browser.run(f"pullback.pose({b})"), d.xpos[b], d.xquat[b]) < 1e-6
    for c in range(m.ncam):
        browser.run(f"(() => {{ const s = document.getElementById('camera'); s.value = {c + 1}; s.dispatchEvent(new Event('change')); }})()")
        place = browser.run("(() => { const c = pullback.camera; c.updateMatrixWorld(true); return c.matrixWorld.elements; })()")
        theirs = d.cam_xmat[c].reshape(3, 3)
        ours = np.array(place).reshape(4, 4).T
        assert np.abs(ours[:3, 3] - d.cam_xpos[c]).max() < 1e-6 and np.abs(ours[:3, :3] - theirs).max() < 1e-6, m.camera(c).name


def test_tendons_go_around_as_in_mujoco(browser, scene, rng=np.random.default_rng(5)):
    """The page's own rule: where the path meets spheres and cylinders, with side points outside and inside, or without."""
    opened(browser, scene / "still.html")
    went = 0
    for k in range(60):
        kind, side = ("sphere", "cylinder")[k % 2], (None, "out", "in")[k // 2 % 3]
        x = rng.standard_normal((2, 3)) * 0.4
        at = {None: None, "out": unit(rng) * 0.5, "in": unit(rng) * 0.03}[side]
        quat, sidesite = " ".join(map(str, rng.standard_normal(4))), f'<site name="s" pos="{at[0]} {at[1]} {at[2]}"/>' if side else ""
        m = mj.MjModel.from_xml_string(f"""<mujoco><worldbody><geom name="g" type="{kind}" size="0.15 1" quat="{quat}"/>{sidesite}
          <site name="a" pos="{x[0][0]} {x[0][1]} {x[0][2]}"/><body><joint/><geom size="1"/><site name="b" pos="{x[1][0]} {x[1][1]} {x[1][2]}"/></body></worldbody>
          <tendon><spatial><site site="a"/><geom geom="g" {'sidesite="s"' if side else ""}/><site site="b"/></spatial></tendon></mujoco>""")
        d = mj.MjData(m)
        mj.mj_forward(m, d)
        theirs = d.wrap_xpos.reshape(-1, 3)[:d.ten_wrapnum[0]]
        o = {"pos": [0, 0, 0], "quat": m.geom_quat[0].tolist(), "radius": 0.15, "cylinder": kind == "cylinder", "side": at.tolist() if side else None}
        ours = browser.run(f"pullback.wrapPath({d.site('a').xpos.tolist()}, {d.site('b').xpos.tolist()}, {json.dumps(o)})")
        assert (len(theirs) > 2) == (len(ours) > 0), (kind, side, x)
        if ours:
            went += 1
            gap = max(np.abs(ours[0] - theirs[1]).max(), np.abs(ours[-1] - theirs[-2]).max())
            assert gap < (1e-9 if side != "in" else 1e-4), (kind, side, gap)
    assert went > 15


def unit(rng):
    v = rng.standard_normal(3)
    return v / np.linalg.norm(v)


def test_joints_that_follow_others(browser, run, tmp_path):
    (tmp_path / "m.xml").write_text("""<mujoco><worldbody><body><joint name="a" axis="0 0 1"/><geom size="0.1" pos="0.2 0 0"/>
      <body pos="0.4 0 0"><joint name="b" axis="0 0 1"/><geom size="0.1" pos="0.2 0 0"/></body></body></worldbody>
      <equality><joint joint1="b" joint2="a" polycoef="0.1 2 0.5 0 0"/></equality></mujoco>""")
    run("view", tmp_path / "m.xml", "-o", tmp_path / "m.html")
    opened(browser, tmp_path / "m.html").run("pullback.joint('a', 0.3)")
    turned = 2 * np.arctan2(*browser.run("(() => { const p = pullback.pose(2); return [p[6], p[3]]; })()"))
    assert abs(turned - (0.3 + 0.1 + 0.6 + 0.045)) < 1e-6


def test_a_click_says_what_is_there(browser, run, tmp_path):
    (tmp_path / "m.xml").write_text('<mujoco><worldbody><body name="torso"><joint name="swing"/><geom name="big" type="sphere" size="1"/></body></worldbody></mujoco>')
    run("view", tmp_path / "m.xml", "-o", tmp_path / "m.html")
    opened(browser, tmp_path / "m.html").run("document.getElementById('panel').hidden = true")
    at = browser.run("(() => { const p = pullback.camera.position.clone().set(0, 0, 0).project(pullback.camera), c = pullback.renderer.domElement;"
                     " return [(p.x + 1) / 2 * c.clientWidth, (1 - p.y) / 2 * c.clientHeight]; })()")
    browser.click(*at)
    facts = dict(browser.run("[...document.querySelectorAll('#facts tr')].map(r => [...r.cells].map(c => c.textContent))"))
    assert facts["geom"] == "big" and facts["body"] == "torso" and facts["type"] == "sphere" and "swing (hinge)" in facts["joints"]


def test_the_panel_is_reached_by_keys(browser, scene):
    opened(browser, scene / "run.html")
    reached = set()
    for _ in range(25):
        browser.call("Input.dispatchKeyEvent", type="keyDown", key="Tab", windowsVirtualKeyCode=9)
        browser.call("Input.dispatchKeyEvent", type="keyUp", key="Tab", windowsVirtualKeyCode=9)
        reached.add(browser.run("document.activeElement.id || document.activeElement.textContent"))
    assert {"picture", "View", "Selected", "Joints", "Plots", "Help", "play", "back", "forth", "speed", "time"} <= reached, reached


def test_without_webgl_there_is_a_text(browser, scene, tmp_path):
    page = (scene / "run.html").read_text()
    (tmp_path / "none.html").write_text(page.replace("<script>", "<script>HTMLCanvasElement.prototype.getContext = () => null;</script><script>", 1))
    browser.open(tmp_path / "none.html")
    said = browser.run("document.getElementById('message').textContent")
    assert "no WebGL" in said and "scene.xml" in said and "1.200 s" in said


DEBIAN = pathlib.Path("/usr/share/javascript/three/three.min.js")


@pytest.mark.skipif(not DEBIAN.exists(), reason="Debian's libjs-three is not installed")
def test_the_older_library_draws_the_same(browser, scene, tmp_path):
    opened(browser, scene / "run.html")
    counts = "[pullback.drawn(), pullback.shown().length]"
    browser.run("pullback.go(0)")
    built, before = browser.run(counts), picture(browser, tmp_path)
    page = (scene / "run.html").read_text()
    start = page.index("*/\n", page.index("three.js authors"))
    (tmp_path / "old.html").write_text(page[:start + 3] + DEBIAN.read_text() + page[page.index("</script>", start):])
    assert opened(browser, tmp_path / "old.html").run(counts) == built
    browser.run("pullback.go(0)")
    assert np.abs(picture(browser, tmp_path) - before).mean() < 6


def test_the_page_stands_alone(scene):
    text = (scene / "run.html").read_text()
    assert "three.js authors" in text and "Permission is hereby granted, free of charge" in text and "default-src 'none'" in text
    assert "<noscript>" in text and 'src="http' not in text and "@import" not in text
    assert len(text) < 2.2e6


def test_pages_of_robots():
    """A few, other ones for another SEED: make check-robots opens all."""
    quick = [r for r in robots.mjcf() if r.name.startswith("gym")]
    short = robot_pages.sweep(robots.draw(quick, 4))
    assert not short, "\n".join(short)


# ---- the command --------------------------------------------------------------------------------------------------------

def test_names_shapes_and_glb(run, scene, tmp_path):
    said = run("view", scene / "scene.xml", cwd=tmp_path).stderr
    assert (tmp_path / "scene.html").is_file() and "scene.html" in said
    run("view", scene / "scene.xml", "--shapes", "collision", "-o", tmp_path / "c.html")
    assert {g["name"] for g in page_data(tmp_path / "c.html")["geoms"]} == {"floor", "box", ""} and not page_data(tmp_path / "c.html")["meshes"]
    assert "--shapes" in run("view", scene / "scene.xml", "--shapes", "pretty", "-o", tmp_path / "x.html", code=2).stderr
    run("view", scene / "scene.xml", scene / "run.npz", "--glb", tmp_path / "run.glb", cwd=tmp_path)
    root, body = glb(tmp_path / "run.glb")
    glb_rules(root, body)
    o, nodes = np.load(scene / "run.npz"), {n["name"]: n for n in root["nodes"] if "name" in n}
    part = root["meshes"][nodes["part"]["mesh"]]["primitives"][0]
    assert root["accessors"][part["indices"]]["count"] == 24
    samplers = {(c["target"]["node"], c["target"]["path"]): root["animations"][0]["samplers"][c["sampler"]] for c in root["animations"][0]["channels"]}
    moved = accessor(root, body, samplers[root["nodes"].index(nodes["box"]), "translation"]["output"])
    np.testing.assert_allclose(moved, o["qpos"][:, :3], atol=1e-6)


def test_what_touches_is_the_hull(run, tmp_path):
    """An L of two bricks: with --shapes collision its hull alone, as MuJoCo has it."""
    brick = lambda x, z: [(a, b, c) for a in (x, x + 1) for b in (0, 1) for c in (0, z)]
    quads = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    points = brick(0, 2) + brick(1, 1)
    lines = [f"v {a} {b} {c}" for a, b, c in points] + ["f " + " ".join(str(8 * k + i + 1) for i in q) for k in (0, 1) for q in quads]
    (tmp_path / "l.obj").write_text("\n".join(lines))
    (tmp_path / "m.xml").write_text('<mujoco><asset><mesh name="l" file="l.obj"/></asset><worldbody><body><freejoint/><geom type="mesh" mesh="l"/></body></worldbody></mujoco>')
    m = mj.MjModel.from_xml_path(str(tmp_path / "m.xml"))
    hull = m.mesh_graph[1]  # numvert, numface, ...
    triangles = lambda page: [len(base64.b64decode(x["triangles"])) // 6 for x in page_data(tmp_path / page)["meshes"]]
    run("view", tmp_path / "m.xml", "-o", tmp_path / "all.html"), run("view", tmp_path / "m.xml", "--shapes", "collision", "-o", tmp_path / "c.html")
    assert sorted(triangles("all.html")) == sorted([24, hull]) and triangles("c.html") == [hull]


def glb_rules(root, body):
    """What any reader asks of glTF: views within the buffer, accessors within views and aligned, bounds of positions and times, indices of
    points that are there, names of nodes and meshes that exist."""
    assert root["asset"]["version"] == "2.0" and root["buffers"][0]["byteLength"] <= len(body)
    for v in root["bufferViews"]:
        assert v.get("byteOffset", 0) + v["byteLength"] <= root["buffers"][0]["byteLength"]
    for a in root["accessors"]:
        size = {5121: 1, 5123: 2, 5125: 4, 5126: 4}[a["componentType"]]
        width = {"SCALAR": 1, "VEC3": 3, "VEC4": 4}[a["type"]]
        v = root["bufferViews"][a["bufferView"]]
        assert a["count"] > 0 and a.get("byteOffset", 0) + size * width * a["count"] <= v["byteLength"] and (v.get("byteOffset", 0) + a.get("byteOffset", 0)) % size == 0
    for m in root["meshes"]:
        for p in m["primitives"]:
            at = root["accessors"][p["attributes"]["POSITION"]]
            x = accessor(root, body, p["attributes"]["POSITION"])
            np.testing.assert_array_equal([x.min(0), x.max(0)], np.float32([at["min"], at["max"]]))
            assert "indices" not in p or accessor(root, body, p["indices"]).max() < at["count"]
            assert p["material"] < len(root["materials"])
    for n in root["nodes"]:
        assert n.get("mesh", 0) < len(root["meshes"]) and all(c < len(root["nodes"]) for c in n.get("children", []))
    for s in root["animations"][0]["samplers"]:
        times = accessor(root, body, s["input"]).ravel()
        at = root["accessors"][s["input"]]
        assert (np.diff(times) > 0).all() and at["min"] == [times[0]] and at["max"] == [times[-1]]
        assert root["accessors"][s["output"]]["count"] % len(times) == 0


def test_a_keyframe_is_shown(run, tmp_path):
    (tmp_path / "m.xml").write_text("""<mujoco><worldbody><body><joint type="slide" axis="0 0 1"/><geom size="0.1"/></body></worldbody>
      <keyframe><key name="up" qpos="2"/></keyframe></mujoco>""")
    run("view", tmp_path / "m.xml", "--keyframe", "up", "-o", tmp_path / "m.html")
    data = page_data(tmp_path / "m.html")
    rest = np.frombuffer(base64.b64decode(data["rest"]), "<f4").reshape(-1, 7)
    assert rest[1, 2] == 2 and data["moving"] is False


LINK = """<link name="{name}"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>{seen}
  <collision><geometry><box size=".4 .4 .4"/></geometry></collision></link>"""


@pytest.mark.parametrize("all_seen", [True, False])
def test_of_urdf_what_is_seen_is_shown(browser, run, tmp_path, all_seen):
    """Not the boxes around it, where every link has both; a key shows them."""
    ball = '<visual><geometry><sphere radius=".2"/></geometry></visual>'
    links = LINK.format(name="base", seen=ball) + LINK.format(name="arm", seen=ball if all_seen else "")
    (tmp_path / "r.urdf").write_text(f'<robot name="r">{links}<joint name="j" type="continuous"><origin xyz="0 0 1"/><parent link="base"/><child link="arm"/></joint></robot>')
    run("view", tmp_path / "r.urdf", "-o", tmp_path / "r.html")
    opened(browser, tmp_path / "r.html")
    boxes = lambda: [g["id"] for g in browser.run("pullback.shown()") if g["triangles"] == 12]
    assert len(boxes()) == (0 if all_seen else 2)
    browser.key("0")
    assert len(boxes()) == (2 if all_seen else 0)


def test_height_fields_hide_what_is_below(browser, run, tmp_path):
    """A field is drawn where its heights are: a ball above it is seen, one inside is not."""
    (tmp_path / "m.xml").write_text("""<mujoco><asset><hfield name="f" nrow="9" ncol="7" size="1 1 .5 .1" elevation="{}"/></asset><worldbody>
      <geom name="hills" type="hfield" hfield="f" rgba=".1 .8 .1 1"/><body pos="0 0 .8"><freejoint/><geom type="sphere" size=".2" rgba=".9 .1 .1 1"/></body>
      <body pos="0 0 .15"><geom type="sphere" size=".1" rgba=".1 .2 .9 1"/></body></worldbody></mujoco>""".format(" ".join(["1"] * 31 + ["0"] + ["1"] * 31)))
    run("view", tmp_path / "m.xml", "-o", tmp_path / "m.html")
    opened(browser, tmp_path / "m.html")
    assert {g["id"]: g["triangles"] for g in browser.run("pullback.shown()")}[0] == 2 * 8 * 6 + 4 * 14 + 2
    image = picture(browser, tmp_path)
    assert pixels(image, LEAF).sum() > 500 and pixels(image, RUBY).sum() > 100 and not pixels(image, BLUE).sum()
    browser.key("h")  # touches as it looks
    assert {g["id"]: g["triangles"] for g in browser.run("pullback.shown()")}[0] == 2 * 8 * 6 + 4 * 14 + 2
