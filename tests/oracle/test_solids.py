"""Solids and shells bounded by triangles: closed forms, MuJoCo's numbers in all four modes and file formats, derivatives, hulls, and
bodies whose mass is that of a mesh."""
import itertools
import struct
from fractions import Fraction

import mujoco
import numpy as np
import pytest

import inside

N = inside.native
MODES = ["convex", "exact", "legacy", "shell"]
INERTIA = {mode: getattr(N, "pb_meshInertia" + mode.title()) for mode in MODES}
MOVED = dict(scale=[.7, .8, 1.1], refpos=[.01, -.2, .03], refquat=[1, .2, -.3, .1])
rows = lambda a: " ".join(repr(float(x)) for x in np.ravel(a))


# ---- shapes ---------------------------------------------------------------------------------------------------------------
def box(half=(.1, .2, .3), center=(0, 0, 0)):
    point = np.array(list(itertools.product(*[(c - h, c + h) for c, h in zip(center, half)])), float)
    quads = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    return point, np.array([t for a, b, c, d in quads for t in ((a, b, c), (a, c, d))], np.int32)


def angle():
    """An L whose centroid is outside of it: where the legacy volume is wrong."""
    rim = np.array([(0, 0), (1, 0), (1, .1), (.1, .1), (.1, 1), (0, 1)])
    n = len(rim)
    point = np.concatenate([np.c_[rim, np.zeros(n)], np.c_[rim, np.full(n, .2)]])
    flat = [(0, 1, 2), (0, 2, 3), (0, 3, 5), (3, 4, 5)]
    sides = [t for i in range(n) for j in [(i + 1) % n] for t in ((i, j, j + n), (i, j + n, i + n))]
    return point, np.array([t[::-1] for t in flat] + [tuple(k + n for k in t) for t in flat] + sides, np.int32)


def pebble(seed=3, cuts=2):
    """A sphere of triangles, stretched and dented."""
    mesh = inside.native.pointer(N.pbMesh)
    ctx = N.pbContext_Create(None)
    N.pbMesh_Sphere(ctx, 1., cuts, mesh)
    m = mesh.contents
    point = N.array(m.point, m.points, 3).copy()
    triangle = N.array(m.cells[N.pb_cellTriangle].vertex, m.cells[N.pb_cellTriangle].count, 3).astype(np.int32)
    N.pbMesh_Destroy(mesh)
    r = np.random.default_rng(seed)
    return (point * (1 + .2 * r.random((len(point), 1)))) * [.2, .3, .5] + [.1, 0, .4], triangle


SHAPES = dict(box=box(), moved=box((.1, .2, .05), (1, 2, 3)), angle=angle(), pebble=pebble())


def solid(point, triangle, mode="exact", scale=(1, 1, 1), refpos=(0, 0, 0), refquat=(1, 0, 0, 0)):
    s = N.pbMeshSolid_Default()
    s.point, s.triangle = np.ascontiguousarray(point, float), np.ascontiguousarray(triangle, np.int32)
    s.points, s.triangles, s.inertia = len(point), len(triangle), INERTIA[mode]
    s.scale[:], s.refpos[:], s.refquat[:] = scale, refpos, refquat
    return s


@pytest.fixture
def ctx():
    context = N.pbContext_Create(None)
    yield context
    N.pbContext_Destroy(context)


def properties(ctx, s):
    p = N.pbMeshProperties()
    N.pbMesh_Properties(ctx, s, p)
    return p


def tensor(t):
    return np.array([[t[0], t[3], t[4]], [t[3], t[1], t[5]], [t[4], t[5], t[2]]])


def turned(quat, moments):
    R = np.zeros(9)
    mujoco.mju_quat2Mat(R, np.array(quat))
    R = R.reshape(3, 3)
    return R @ np.diag(moments) @ R.T


# ---- closed forms ---------------------------------------------------------------------------------------------------------
def rational(point, triangle):
    """Volume, center and inertia about it of a closed surface, by exact arithmetic of signed tetrahedra at the origin."""
    x = [[Fraction(float(v)) for v in p] for p in point]
    volume, first, second = Fraction(0), [Fraction(0)] * 3, [[Fraction(0)] * 3 for _ in range(3)]
    for t in triangle:
        a, b, c = (x[k] for k in t)
        det = sum(a[i] * (b[(i + 1) % 3] * c[(i + 2) % 3] - b[(i + 2) % 3] * c[(i + 1) % 3]) for i in range(3))
        volume += det / 6
        s = [a[i] + b[i] + c[i] for i in range(3)]
        for i in range(3):
            first[i] += det * s[i] / 24
            for j in range(3):
                second[i][j] += det * (s[i] * s[j] + a[i] * a[j] + b[i] * b[j] + c[i] * c[j]) / 120
    center = [f / volume for f in first]
    central = [[second[i][j] - volume * center[i] * center[j] for j in range(3)] for i in range(3)]
    trace = sum(central[i][i] for i in range(3))
    inertia = [[float((trace if i == j else 0) - central[i][j]) for j in range(3)] for i in range(3)]
    return float(volume), np.array([float(c) for c in center]), np.array(inertia)


@pytest.mark.parametrize("name", SHAPES)
def test_solids_agree_with_rational_arithmetic(ctx, name):
    p = properties(ctx, solid(*SHAPES[name]))
    volume, center, inertia = rational(*SHAPES[name])
    size = np.ptp(SHAPES[name][0], axis=0).max()
    assert abs(p.volume / volume - 1) < 1e-12 and np.abs(np.array(p.center) - center).max() < 1e-12 * size
    assert np.abs(tensor(p.tensor) - inertia).max() < 1e-12 * np.abs(inertia).max()
    assert np.abs(turned(p.quat, p.moments) - inertia).max() < 1e-6 * np.abs(inertia).max()


def test_a_box_has_the_moments_of_a_box_and_a_shell_those_of_its_sides(ctx):
    a, b, c = half = np.array([.1, .2, .3])
    p = properties(ctx, solid(*box(half)))
    volume = 8 * a * b * c
    assert np.allclose([p.volume, *p.moments], [volume, *(volume / 3 * np.array([b * b + c * c, a * a + c * c, a * a + b * b]))], rtol=1e-14)
    shell = properties(ctx, solid(*box(half), "shell"))
    assert shell.volume == pytest.approx(8 * (a * b + b * c + a * c), rel=1e-14)
    sides = sum(8 * a * b * c / half[n] * np.array([np.sum((half**2) * w) for w in [
        [1 if k == n else 1 / 3 for k in range(3)] * (1 - np.eye(3)[i]) for i in range(3)]]) for n in range(3))
    assert np.allclose(np.diag(tensor(shell.tensor)), sides, rtol=1e-13)


# ---- MuJoCo ---------------------------------------------------------------------------------------------------------------
def oracle(mesh):
    return mujoco.MjModel.from_xml_string(f"""<mujoco><compiler fusestatic="false"/><asset>{mesh}</asset><worldbody>
      <body><geom type="mesh" mesh="m" density="1" pos=".1 .2 .3" euler="10 20 30"/></body></worldbody></mujoco>""")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", SHAPES)
def test_properties_are_those_of_mujoco(ctx, name, mode):
    point, triangle = SHAPES[name]
    point = point.astype(np.float32).astype(float)
    m = oracle(f'<mesh name="m" inertia="{mode}" vertex="{rows(point)}" face="{" ".join(map(str, triangle.ravel()))}" '
               f'scale="{rows(MOVED["scale"])}" refpos="{rows(MOVED["refpos"])}" refquat="{rows(MOVED["refquat"])}"/>')
    p = properties(ctx, solid(point, triangle, mode, **MOVED))
    assert p.volume == pytest.approx(m.body_mass[1], rel=1e-12)
    assert np.abs(np.array(p.center) - m.mesh_pos[0]).max() < 1e-13
    theirs = turned(m.mesh_quat[0], m.body_inertia[1])
    assert np.abs(turned(p.quat, p.moments) - theirs).max() < 1e-12 * np.abs(theirs).max()
    assert np.abs(tensor(p.tensor) - theirs).max() < 1e-6 * np.abs(theirs).max()
    assert np.abs(p.quat - m.mesh_quat[0]).max() < 1e-9


@pytest.mark.parametrize("what,mode,change", [("no volume", "legacy", dict(scale=[1, 1, 0])), ("inwards", "exact", dict(turn=True)),
                                              ("against each other", "exact", dict(one=True)), ("no length", "exact", dict(refquat=[0, 0, 0, 0])),
                                              ("point 99", "exact", dict(number=99)), ("not finite", "exact", dict(nan=True))])
def test_what_has_no_properties_is_said(ctx, what, mode, change):
    point, triangle = (a.copy() for a in box())
    if change.pop("turn", False):
        triangle = triangle[:, ::-1]
    if change.pop("one", False):
        triangle[0] = triangle[0][::-1]
    if "number" in change:
        triangle[3, 1] = change.pop("number")
    if change.pop("nan", False):
        point[2, 1] = np.nan
    with pytest.raises(inside.Error, match=what if what != "no volume" else "volume of the mesh is too small"):
        properties(ctx, solid(point, triangle, mode, **change))


# ---- derivatives ----------------------------------------------------------------------------------------------------------
# The hull of an L has flat faces of four corners and more: a kink.
@pytest.mark.parametrize("name,mode", [("pebble", mode) for mode in MODES] + [("angle", mode) for mode in MODES[1:]])
def test_the_pullback_agrees_with_differences(ctx, name, mode):
    point, triangle = SHAPES[name]
    r = np.random.default_rng(5)
    bar = N.pbMeshPropertiesBar()
    bar.volume = r.standard_normal()
    for field in ("center", "tensor", "rotation", "moments"):
        getattr(bar, field)[:] = r.standard_normal(len(getattr(bar, field)))
    def axes(t):  # to rounding; those of the library end at 1e-7
        R = np.linalg.eigh(tensor(t))[1][:, ::-1]
        return R * np.sign(np.sum(R * first, axis=0))

    first = np.zeros(9)
    mujoco.mju_quat2Mat(first, np.array(properties(ctx, solid(point, triangle, mode, **MOVED)).quat))
    first = first.reshape(3, 3)

    def value(e):
        moved = {k: np.array(v) + e * d for (k, v), d in zip(MOVED.items(), directions)}
        p = properties(ctx, solid(point + e * along, triangle, mode, **moved))
        turn = start.T @ axes(p.tensor)
        rotation = np.array([turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0], turn[1, 0] - turn[0, 1]]) / 2
        return (bar.volume * p.volume + np.dot(bar.center, p.center) + np.dot(bar.tensor, p.tensor) + np.dot(bar.moments, p.moments) +
                np.dot(bar.rotation, rotation))

    start = axes(properties(ctx, solid(point, triangle, mode, **MOVED)).tensor)
    along, directions = r.standard_normal(point.shape) * .1, [r.standard_normal(3), r.standard_normal(3), r.standard_normal(4)]
    g = N.pbMeshSolidBar()
    point_bar = np.zeros_like(point)
    g.point = point_bar
    s = solid(point, triangle, mode, **MOVED)
    N.pbMesh_PropertiesVjp(ctx, s, bar, g)
    slope = np.sum(point_bar * along) + sum(np.dot(b, d) for b, d in zip((g.scale, g.refpos, g.refquat), directions))

    quotient = lambda e: (value(e) - value(-e)) / (2 * e)
    e = 1e-3
    assert slope == pytest.approx((4 * quotient(e / 2) - quotient(e)) / 3, rel=1e-6)
    assert abs(np.dot(g.refquat, MOVED["refquat"])) < 1e-12  # its length has no effect


def test_axes_of_equal_moments_have_no_derivative_and_the_tensor_has(ctx):
    s, bar, g = solid(*box((.1, .1, .3))), N.pbMeshPropertiesBar(), N.pbMeshSolidBar()
    bar.tensor[:] = [1, 2, 3, 4, 5, 6]
    N.pbMesh_PropertiesVjp(ctx, s, bar, g)
    bar.rotation[0] = 1
    p = properties(ctx, s)
    equal = [k for k in range(3) if abs(p.moments[(k + 1) % 3] - p.moments[(k + 2) % 3]) < 1e-12]
    bar.rotation[:] = np.eye(3)[equal[0]]
    with pytest.raises(inside.Error, match="are the same"):
        N.pbMesh_PropertiesVjp(ctx, s, bar, g)


# ---- hulls ----------------------------------------------------------------------------------------------------------------
def hull(ctx, point, most=0):
    found, point = inside.native.pointer(N.pbHull), np.ascontiguousarray(point, float)
    N.pbHull_Create(ctx, point, len(point), most, found)
    h = found.contents
    corners = set(h.corner[:h.corners])
    triangles = N.array(h.triangle, h.triangles, 3).copy()
    polygons = [h.around[h.first[k]:h.first[k + 1]] for k in range(h.polygons)]
    N.pbHull_Destroy(found)
    return corners, triangles, polygons


def test_the_hull_of_a_box_has_six_quadrangles(ctx):
    point = np.concatenate([box()[0], np.random.default_rng(1).uniform(-.1, .1, (50, 3)) * [.9, 1.9, 2.9]])
    corners, triangles, polygons = hull(ctx, point)
    assert corners == set(range(8)) and len(triangles) == 12 and sorted(map(len, polygons)) == [4] * 6
    for p in polygons:  # seen from outside, counterclockwise
        a, b, c = point[p[0]], point[p[1]], point[p[2]]
        assert np.dot(np.cross(b - a, c - b), a) > 0


@pytest.mark.parametrize("seed", range(3))
def test_hulls_are_those_of_mujoco(ctx, seed):
    point = np.random.default_rng(seed).standard_normal((60, 3)).astype(np.float32).astype(float)
    for most in (0, 10):
        corners, triangles, _ = hull(ctx, point, most)
        limit = f' maxhullvert="{most}"' if most else ""
        m = mujoco.MjModel.from_xml_string(f"""<mujoco><asset><mesh name="m" vertex="{rows(point)}"{limit}/></asset>
          <worldbody><geom type="mesh" mesh="m"/></worldbody></mujoco>""")
        count = m.mesh_graph[0]
        assert corners == set(m.mesh_graph[2 + count:2 + 2 * count]) and len(triangles) == m.mesh_graph[1]
        middle = point[sorted(corners)].mean(0)
        for t in triangles:
            a, b, c = point[t]
            assert np.dot(np.cross(b - a, c - a), a - middle) > 0


@pytest.mark.parametrize("what,point", [("at least 4", np.eye(3)), ("at one place", np.ones((5, 3))), ("on a line", np.outer(range(5), [1, 2, 3])),
                                        ("in a plane", np.c_[np.random.default_rng(0).random((6, 2)), np.zeros(6)]),
                                        ("not finite", np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, np.inf, 1]]))])
def test_what_has_no_hull_is_said(ctx, what, point):
    with pytest.raises(inside.Error, match=what):
        hull(ctx, point)


# ---- files and models -----------------------------------------------------------------------------------------------------
def write_stl(path, point, triangle):
    path.write_bytes(bytes(80) + struct.pack("<I", len(triangle)) +
                     b"".join(struct.pack("<12fH", 0, 0, 0, *point[t].ravel(), 0) for t in triangle))


def write_obj(path, point, triangle):
    path.write_text("o first\n" + "".join(f"v {rows(p)}\n" for p in point) + "".join(f"f {a + 1} {b + 1} {c + 1}\n" for a, b, c in triangle) +
                    "o second\nv 9 9 9\nf 1 2 3\n")


def write_msh(path, point, triangle):
    path.write_bytes(struct.pack("<4i", len(point), 0, 0, len(triangle)) + point.astype("<f4").tobytes() + triangle.astype("<i4").tobytes())


MODEL = """<mujoco><compiler meshdir="parts"{compiler}/><option gravity="0 0 -9.81"/>
<default><mesh scale=".5 .6 .7"/><geom contype="0" conaffinity="0"/></default>
<asset><mesh file="{file}" inertia="{mode}"/><mesh name="seen" file="missing.stl"/></asset>
<worldbody><body pos="0 0 1"><joint type="ball" damping=".1"/><geom type="mesh" mesh="part" pos=".1 0 .2" euler="10 20 30" density="700"/>
<geom name="look" type="mesh" mesh="part" mass="0" pos="0 0 1"/><geom type="sphere" size=".1" pos="0 .3 0"/>
<body pos=".3 0 0"><joint type="hinge" axis="0 1 0"/><geom type="mesh" mesh="part" mass=".4"/></body></body></worldbody>
<sensor><framepos objtype="geom" objname="look"/></sensor></mujoco>"""


@pytest.mark.parametrize("write", [write_stl, write_obj, write_msh])
@pytest.mark.parametrize("mode", ["legacy", "exact"])
def test_a_body_weighs_what_its_mesh_weighs(tmp_path, write, mode):
    (tmp_path / "parts").mkdir()
    file = {"write_stl": "part.stl", "write_obj": "part.obj", "write_msh": "part.msh"}[write.__name__]
    write(tmp_path / "parts" / file, *SHAPES["angle"])
    path, seen = tmp_path / "m.xml", tmp_path / "seen.xml"
    path.write_text(MODEL.format(file=file, mode=mode, compiler=""))
    write_stl(tmp_path / "parts" / "missing.stl", *box())  # MuJoCo reads what is only seen, too
    m = mujoco.MjModel.from_xml_path(str(path))
    (tmp_path / "parts" / "missing.stl").unlink()
    ours = inside.Model(str(path))
    for name in ("body_mass", "body_inertia", "body_ipos", "geom_size", "geom_pos"):
        mine, theirs = ours.fields()[name], np.reshape(getattr(m, name), (len(getattr(m, name)), -1))
        assert np.abs(mine - theirs).max() < 1e-12, name
    assert np.abs(turned(ours.fields()["body_iquat"][1], ours.fields()["body_inertia"][1]) -
                  turned(m.body_iquat[1], m.body_inertia[1])).max() < 1e-11


@pytest.mark.parametrize("text,what", [
    ('<mesh name="part" file="none.stl"/>', "cannot be found"), ('<mesh name="part" file="../part.stl"/>', "--allow-root"),
    ('<mesh name="part" vertex="0 0 0 1 0 0 0 1 0"/>', "at least 4"), ('<mesh name="part" vertex="0 0 0 1 0 0 0 1 0 0 0 1" face="0 1 9"/>', "point 9"),
    ('<mesh name="part" vertex="0 0 0 1 0 0 0 1 0 0 0 1" face="0 1 1.5"/>', "not those of points"), ('<mesh name="other" vertex="0 0 0 1 0 0 0 1 0 0 0 1"/>', "unknown mesh 'part'"),
    ('<mesh name="part" builtin="sphere" params="2"/>', "builtin"), ('<mesh name="part" file="bad.stl"/>', "triangles"),
    ('<mesh name="part" file="empty.stl" content_type="model/gltf"/>', "content_type")])
def test_bad_meshes_are_told_with_their_place(tmp_path, text, what):
    folder = tmp_path / "model"
    folder.mkdir()
    write_stl(tmp_path / "part.stl", *box())
    (folder / "bad.stl").write_bytes(bytes(80) + struct.pack("<I", 1000) + bytes(100))
    (folder / "empty.stl").write_bytes(b"")
    path = folder / "m.xml"
    path.write_text(f"""<mujoco><asset>{text}</asset><worldbody><body><freejoint/>
<geom type="mesh" mesh="part" contype="0" conaffinity="0"/></body></worldbody></mujoco>""")
    with pytest.raises(inside.Error, match=what) as told:
        inside.Model(str(path))
    assert "m.xml:" in str(told.value)
