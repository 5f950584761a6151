"""Shapes whose features meet exactly: gradients are those of one map, those of the primitives that a mesh is made after, or the tie is named."""
import os

import numpy as np
import pytest

import pullback as pb
import tie_scenes as ties

CUBE = ties.SIGNS * [.25, .25, .0625]  # exact in single precision, as meshes have it
TOP = .0625
GROUND = {"box": '<geom name="ground" type="box" size=".25 .25 .0625"/>', "mesh": '<geom name="ground" type="mesh" mesh="ground"/>',
          "plane": '<geom name="ground" type="plane" size="1 1 .1" pos="0 0 .0625"/>', "cylinder": '<geom name="ground" type="cylinder" size=".25 .0625"/>'}
BODY = {"ball": ('type="sphere" size=".05"', .05), "box": ('type="box" size=".05 .05 .05"', .05), "capsule": ('type="capsule" size=".05 .06" euler="90 0 0"', .05),
        "cylinder": ('type="cylinder" size=".05 .05"', .05), "lying cylinder": ('type="cylinder" size=".05 .06" euler="90 0 0"', .05),
        "ellipsoid": ('type="ellipsoid" size=".06 .04 .05"', .05), "hull": ('type="mesh" mesh="cube"', .03)}
METHODS = [{}, {"method": "cones"}]


def world(ground, body, x=0., y=0., tilt=0., yaw=0., depth=1e-4):
    geom, height = BODY[body]
    return (f'<mujoco><option timestep=".002"/><asset>{ties.mesh("ground", CUBE)}{ties.ASSETS}</asset><worldbody>{GROUND[ground]}'
            f'<body pos="{ties.text(x, y, TOP + height - depth)}" euler="{ties.text(tilt * 180 / np.pi, 0, yaw)}"><freejoint/><geom name="body" {geom} mass="1"/></body></worldbody></mujoco>')


def gradient(xml, steps, contact=None, speed=.01, seed=0):
    m = pb.loads(xml, contact=contact or {})
    s = m.init()
    s.qvel[0] = speed
    rollout = m.rollout(s, steps=steps)
    w = np.random.default_rng(seed).standard_normal(len(m.tangent_names))
    return rollout, rollout.vjp(state=w)


def apart(a, b):
    return abs(a - b).max() / abs(b).max()


# ---- twins --------------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("contact", METHODS, ids=["soft", "cones"])
@pytest.mark.parametrize("x, y", [(0, 0), (.0313, .0171), (.0625, .0625)], ids=["middle", "anywhere", "diagonal"])
@pytest.mark.parametrize("body", BODY)
def test_at_rest_on_a_mesh_as_on_a_box(body, x, y, contact):
    """300 steps, at the middle of a face, where its two triangles meet, and elsewhere."""
    box, by_box = gradient(world("box", body, x, y), 300, contact)
    mesh, by_mesh = gradient(world("mesh", body, x, y), 300, contact)
    assert apart(mesh.qpos[-1], box.qpos[-1]) < 1e-9
    assert apart(by_mesh.state, by_box.state) < 1e-6, (by_mesh.state, by_box.state)
    assert not by_box.certificate["ties"]


@pytest.mark.parametrize("x, y, yaw", [(0, 0, 0), (.0313, .0171, 17)])
@pytest.mark.parametrize("tilt", [0, 1e-12, 1e-9, 1e-7, 1e-5, 1e-3])
@pytest.mark.parametrize("ground", ["box", "mesh", "cylinder"])
def test_upright_cylinder_as_on_a_plane(ground, tilt, x, y, yaw):
    """No gradient grows like one over the tilt, and nothing is called a tie."""
    plane, by_plane = gradient(world("plane", "cylinder", x, y, tilt, yaw), 3)
    other, by_other = gradient(world(ground, "cylinder", x, y, tilt, yaw), 3)
    assert apart(other.qpos[-1], plane.qpos[-1]) < 1e-12
    assert apart(by_other.state, by_plane.state) < 1e-6
    assert not by_other.certificate["ties"] and abs(by_other.state).max() < 100


UPRIGHT = [0, 1e-16, 1e-15, 1e-14, 1e-13, 1e-12, 1e-11, 3e-11, 6e-11, 1e-10, 1.3e-10, 1.6e-10, 1.9e-10, 3e-10, 1e-9, 1e-8, 1e-7, 9e-7, 1.1e-6, 1e-5]
FLAT_FIELD = '<hfield name="level" nrow="2" ncol="2" size=".5 .5 .1 .1" elevation="0 0 0 1e-300"/>'  # the cylinder stands on one of its two triangles
HEXAGON = [[.5 * np.cos(k * np.pi / 3), .5 * np.sin(k * np.pi / 3), z] for z in (-.0625, .0625) for k in range(6)]
STANDS_ON = {**{k: GROUND[k] for k in ("plane", "box", "mesh", "cylinder")}, "prism": '<geom name="ground" type="mesh" mesh="hexagon"/>',
             "field": '<geom name="ground" type="hfield" hfield="level" pos=".1 -.1 .0625"/>'}


def leaning(tilt, azimuth, yaw=.4):
    """Tilted toward an azimuth, after a turn about the axis."""
    lean, turn = np.array([np.cos(tilt / 2), -np.sin(azimuth) * np.sin(tilt / 2), np.cos(azimuth) * np.sin(tilt / 2), 0]), (np.cos(yaw / 2), np.sin(yaw / 2))
    w, x, y, z = lean
    return [w * turn[0] - z * turn[1], x * turn[0] + y * turn[1], y * turn[0] - x * turn[1], z * turn[0] + w * turn[1]]


def standing(ground, contact):
    """go(tilt, azimuth) -> state after three steps, gradient by the first one. Slowly, so that all points push and stick."""
    m = pb.loads(f'<mujoco><option timestep=".002"/><asset>{FLAT_FIELD}{ties.mesh("ground", CUBE)}{ties.mesh("hexagon", HEXAGON)}</asset><worldbody>{STANDS_ON[ground]}'
                 '<body><freejoint/><geom name="body" type="cylinder" size=".05 .06" mass="1"/></body></worldbody></mujoco>', contact=contact)
    w = np.random.default_rng(0).standard_normal(len(m.tangent_names))

    def go(tilt, azimuth):
        s = m.init()
        s.qpos[:] = [.016, .021, TOP + .06 - 1e-4, *leaning(tilt, azimuth)]
        s.qvel[:] = [.01, 0, 0, 0, .01, 0]
        rollout = m.rollout(s, steps=3)
        by = rollout.vjp(state=w)
        assert not by.certificate["ties"], (tilt, azimuth)
        return np.concatenate([rollout.qpos[-1], rollout.qvel[-1]]), by.state
    return go


@pytest.mark.parametrize("contact", METHODS, ids=["soft", "cones"])
@pytest.mark.parametrize("ground", STANDS_ON)
def test_a_standing_cylinder_moves_alike_however_little_it_is_tilted(ground, contact):
    """As on a plane, and by a small multiple of the tilt unlike the upright one. Where on the rim its three points are hangs on the direction of the tilt:
    the rest is what that does to their load, whose depths differ a little."""
    go, on_plane = standing(ground, contact), standing("plane", contact)
    end, by = go(0, 0)
    for azimuth in .1 + .77 * np.arange(8):
        _, by_beside = go(1e-9, azimuth)
        for tilt in UPRIGHT:
            there, by_there = go(tilt, azimuth)
            plane, by_plane = on_plane(tilt, azimuth)
            direction = min(1, 1e-14 / tilt) if tilt else 0  # of the tilt, known to this
            assert abs(there - end).max() < 100 * tilt + 3e-9, (tilt, azimuth)
            assert apart(by_there, by) < 1000 * tilt + 3e-3, (tilt, azimuth)
            if ground != "field":  # on which it has six points of its own
                assert abs(there - plane).max() < 1e-12 + 3e-9 * direction, (tilt, azimuth)
                assert apart(by_there, by_plane) < 1e-9 + 3e-3 * direction, (tilt, azimuth)
            if 0 < tilt < 1e-6:  # beyond, rates know that points go around the rim as the steepest radius does
                assert apart(by_there, by_beside) < 1000 * tilt + 1e-7 + 3e-3 * direction, (tilt, azimuth)


@pytest.mark.parametrize("cells", [4, 10])
@pytest.mark.parametrize("body", ["cylinder", "lying cylinder"])
def test_cylinders_on_a_plate_of_many_triangles(body, cells):
    """Not along the axes, as parts of machines are: single precision leaves slivers along its edges, and the corner that carries a cylinder
    may be of these alone. It stood on two points then, or one, as steps would have it: gradients were 1e4 times too large. Lying it rose by 3 mm."""
    R = ties.turn((1, .4, .2), .7)
    points, faces = ties.plate(cells, [.25, .25, .0625], R)
    asset = (f'<mesh name="plate" vertex="{" ".join(repr(float(x)) for x in points.ravel())}" face="{" ".join(map(str, faces.ravel()))}" inertia="exact"/></asset>')
    back = f'<geom name="ground" type="mesh" mesh="plate" quat="{ties.text(*ties.quat_of(R.T))}"/>'
    for x, y, yaw in ((0, 0, 0), (.0313, .0171, 17), (.1, -.06, 5)):
        text = world("box", body, x, y, yaw=yaw)
        box, by_box = gradient(text, 100)
        plate, by_plate = gradient(text.replace("</asset>", asset).replace(GROUND["box"], back), 100)
        assert abs(plate.qpos[-1] - box.qpos[-1]).max() < 1e-6
        assert apart(by_plate.state, by_box.state) < 2e-3, (x, y, yaw, by_plate.state, by_box.state)
        assert body == "lying cylinder" or not by_plate.certificate["ties"]


@pytest.mark.parametrize("body", [b for b in BODY if b != "cylinder"])
@pytest.mark.parametrize("ground", ["box", "mesh"])
def test_flat_on_a_face_as_differences(ground, body):
    """A little of everything: place, yaw, all directions of the state."""
    for x, y, yaw in ((0, 0, 0), (.0313, .0171, 0), (.0313, .0171, 17)):
        q = ties.compare(world(ground, body, x, y, yaw=yaw), steps=3)
        assert q["verdict"] == "fits" and not q["ties"], (x, y, yaw, q)


# ---- polygons -----------------------------------------------------------------------------------------------------------------------
LEVEL = {"plane": '<geom type="plane" size="1 1 .1"/>', "box": '<geom type="box" size=".25 .25 .0625" pos="0 0 -.0625"/>',
         "mesh": '<geom type="mesh" mesh="ground" pos="0 0 -.0625"/>', "coarse": '<geom type="hfield" hfield="coarse"/>', "fine": '<geom type="hfield" hfield="fine"/>'}
FIELDS = "".join(f'<hfield name="{name}" nrow="{n}" ncol="{n}" size=".4 .4 .1 .1" elevation="{" ".join(["0"] * (n * n - 1) + ["1"])}"/>' for name, n in (("coarse", 9), ("fine", 33)))


def prism(corners, radius=.05, half=.04):
    angle = 2 * np.pi * np.arange(corners) / corners
    return np.array([[radius * np.cos(a), radius * np.sin(a), z] for z in (-half, half) for a in angle])


def lying(ground, geom, height, x=0., y=0., yaw=0., tilt=0., depth=1e-4, corners=6):
    """A prism, or what else has its lowest face `height` below its origin, on something level at height 0."""
    return (f'<mujoco><option timestep=".002"/><asset>{ties.mesh("ground", CUBE)}{ties.mesh("prism", prism(corners))}{FIELDS}</asset><worldbody>{LEVEL[ground]}'
            f'<body pos="{ties.text(x, y, height - depth)}" euler="{ties.text(tilt * 180 / np.pi, 0, yaw)}"><freejoint/><geom {geom} mass="1"/></body></worldbody></mujoco>')


PRISM = 'type="mesh" mesh="prism"'


@pytest.mark.parametrize("beside", ties.BESIDE)
@pytest.mark.parametrize("corners", [5, 6, 8, 12])
@pytest.mark.parametrize("ground", LEVEL)
def test_prisms_that_lie_flat(ground, corners, beside):
    """Each corner has its own rate, whatever the tilt; of twelve the four that stand for all stay the same."""
    for x, y, yaw in ((0, 0, 0), (.0313, .0171, 17)):
        q = ties.compare(lying(ground, PRISM, .04, x + beside, y + .7 * beside, yaw, beside, corners=corners), steps=3)
        assert q["verdict"] == "fits" and not q["ties"], (x, y, yaw, q)
        assert q["contacts"] == (corners if corners <= 8 else 4) or (corners > 8 and ground in ("coarse", "fine")), q["contacts"]


@pytest.mark.parametrize("ground", ["box", "mesh", "coarse", "fine"])
@pytest.mark.parametrize("geom, height", [(PRISM, .04), ('type="box" size=".05 .04 .04"', .04), ('type="sphere" size=".05"', .05)], ids=["prism", "box", "ball"])
def test_level_ground_is_a_plane(geom, height, ground):
    """Motion and gradient over 300 steps, over borders of a field's prisms and along them, too."""
    for x, y, yaw in ((0, 0, 0), (.0313, .0171, 17)):
        plane, by_plane = gradient(lying("plane", geom, height, x, y, yaw), 300)
        other, by_other = gradient(lying(ground, geom, height, x, y, yaw), 300)
        assert apart(other.qpos[-1], plane.qpos[-1]) < 1e-9
        assert apart(by_other.state, by_plane.state) < 1e-6
        assert not by_other.certificate["ties"]


ROUND = {"disc": ('type="cylinder" size=".05 .04"', .04), "lying cylinder": ('type="cylinder" size=".05 .04" euler="0 90 0"', .05),
         "capsule": ('type="capsule" size=".03 .05" euler="0 90 0"', .03), "standing capsule": ('type="capsule" size=".03 .05"', .08)}


@pytest.mark.parametrize("beside", ties.BESIDE)
@pytest.mark.parametrize("body", ROUND)
@pytest.mark.parametrize("ground", ["coarse", "fine"])
def test_round_shapes_on_a_level_field(ground, body, beside):
    """Discs, lines and ends over borders of a field's prisms and along them: no ties, and they stay."""
    geom, height = ROUND[body]
    for x, y, yaw in ((0, 0, 0), (.05, .1, 0), (.0313, .0171, 17)):
        q = ties.compare(lying(ground, geom, height, x + beside, y + .7 * beside, yaw, beside), steps=3)
        assert q["verdict"] == "fits" and not q["ties"], (x, y, yaw, q)
    if beside == 0 and body != "standing capsule":
        m = pb.loads(lying(ground, geom, height, .0313, .0171, 17))
        qpos = m.rollout(m.init(), steps=3000, outputs=()).qpos[500:, :3]
        assert abs(qpos - qpos[0]).max() < 1e-7


@pytest.mark.parametrize("corners", [3, 5, 6, 7, 8, 12])
@pytest.mark.parametrize("ground", LEVEL)
def test_prisms_at_rest_stay(ground, corners):
    """Soft contact, set down flat and let go tilted: after a second, 10 s within a micrometer, and not rocking."""
    for tilt, yaw in ((0, 0), (0, 17), (1e-2, 17)):
        m = pb.loads(lying(ground, PRISM, .04 + .05 * tilt, .0313, .0171, yaw, tilt, corners=corners))
        rollout = m.rollout(m.init(), steps=5500, outputs=())
        assert abs(rollout.qpos[500:, :3] - rollout.qpos[500, :3]).max() < 1e-7
        assert abs(rollout.qvel[500:]).max() < 1e-5


# ---- the table -----------------------------------------------------------------------------------------------------------------------
def test_table_of_ties():
    """All pairs of shapes, features and offsets: a share of them, drawn by SEED; make ties has all."""
    verdicts, wrong = {}, []
    chosen = ties.drawn(os.environ.get("SEED", "0"), 400)
    for case in chosen:
        q = ties.judge(case)
        verdicts[q["verdict"]] = verdicts.get(q["verdict"], 0) + 1
        if q["verdict"] == "wrong":
            wrong.append((case, q["worst"], q["where"]))
    assert not wrong, wrong
    assert verdicts.get("no room", 0) <= len(chosen) / 100


# ---- names --------------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("ground, body, where", [("box", "ball", ".25"), ("mesh", "ball", ".25"), ("mesh", "box", ".25")])
def test_a_tie_is_counted_in_every_step_and_named(ground, body, where):
    """Over the edge of a face: on one side the face carries it, on the other the edge. Nothing is drawn."""
    m = pb.loads(world(ground, body, x=float(where)))
    s = m.init()
    s.qvel[:] = 0
    certificate = m.rollout(s, steps=5).vjp(qpos=np.ones(6)).certificate
    assert certificate["ties"] > 0 and certificate["tie_step"] == 0, certificate
    assert "ground" in certificate["tie_contact"] and "body" in certificate["tie_contact"]


@pytest.mark.parametrize("case", [(("flat", "face", 1), ("tet", "edge"), 0, "middle", 1e-12), (("flat", "face", 1), ("tet", "edge"), 0, "edge", 0),
                                  (("ridge", "face", 1), ("box", "vertex"), 17, "middle", 1e-9)], ids=["beside", "exact", "ridge"])
def test_a_deep_corner_on_a_border_is_named(case):
    """A corner below the surface of a field over the border of two prisms: beside it another one begins to touch."""
    q = ties.compare(ties.scene(case))
    assert q["ties"] and q["name"], q


# ---- false alarms -------------------------------------------------------------------------------------------------------------------
def tumbling(seed):
    r = np.random.default_rng(seed)

    def quat():
        q = r.standard_normal(4)
        return ties.text(*q / np.linalg.norm(q))
    ground = r.choice(ties.GROUNDS)
    if ground in ties.SHAPES:
        worldbody = f'<geom {ties.SHAPES[ground].geom(ground, 1)} pos="{ties.text(*r.uniform(-.02, .02, 3))}" quat="{quat()}"/>'
    else:
        worldbody = ties.ground_of(ground, "face", 1)[0]
    for k in range(r.integers(1, 4)):
        name = r.choice(list(ties.SHAPES))
        place = [*r.uniform(-.05, .05, 2), .05 + .07 * k + r.uniform(0, .03)]
        worldbody += f'<body pos="{ties.text(*place)}" quat="{quat()}"><freejoint/><geom {ties.SHAPES[name].geom(name, 1)} mass="1"/></body>'
    m = pb.loads(f'<mujoco><option timestep=".002"/><asset>{ties.ASSETS}</asset><worldbody>{worldbody}</worldbody></mujoco>')
    s = m.init()
    s.qvel[:] = r.standard_normal(m.nv)
    return m, s


def test_no_false_alarm():
    """500 scenes of bodies that tumble: a tie that is named parts the differences to both sides of that step."""
    named = 0
    for seed in range(500):
        m, s = tumbling(seed)
        rollout = m.rollout(s, steps=20)
        w = np.zeros((21, len(m.tangent_names)))
        w[-1] = np.random.default_rng(seed).standard_normal(w.shape[1])
        certificate = rollout.vjp(state=w).certificate
        if not certificate["ties"]:
            continue
        named += 1
        at = rollout.states[certificate["tie_step"]]
        kinks = 0
        for e in (1e-5, 1e-6, 1e-7, 1e-8):
            d = e * np.eye(len(m.tangent_names))
            here = m.rollout(at, steps=1, outputs=()).final
            for row in d[:m.nv]:
                ahead = m.difference(here, m.rollout(m.integrate(at, row), steps=1, outputs=()).final) / e
                back = m.difference(here, m.rollout(m.integrate(at, -row), steps=1, outputs=()).final) / -e
                kinks += abs(ahead - back).max() > 1e-2 * abs(ahead).max()
        assert kinks, (seed, certificate["tie_contact"])
    assert named <= 5
