"""Height fields: what files and texts say of them, compiled as MuJoCo compiles it; contacts; what is refused."""
import struct
import zlib

import mujoco
import numpy as np
import pytest

import inside

rows = lambda a: " ".join(repr(float(x)) for x in np.ravel(a))
FIELDS = ("hfield_nrow", "hfield_ncol", "hfield_adr", "hfield_size", "hfield_data", "geom_dataid", "geom_size", "geom_rbound", "geom_aabb",
          "body_mass", "body_inertia", "body_ipos", "body_iquat")


# ---- files ----------------------------------------------------------------------------------------------------------------
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(pixels, depth=8, kind=0, palette=None, gamma=False):
    """pixels: (height, width, channels) of whole numbers; rows without filters."""
    height, width = pixels.shape[:2]
    if depth < 8:
        bits = np.unpackbits(pixels[:, :, 0].astype(np.uint8)[:, :, None], axis=2)[:, :, 8 - depth:].reshape(height, -1)
        lines = [np.packbits(line).tobytes() for line in bits]
    else:
        lines = [line.astype(">u2" if depth == 16 else ">u1").tobytes() for line in pixels.reshape(height, -1)]
    data = b"".join(b"\0" + line for line in lines)
    out = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, 0))
    if gamma:
        out += chunk(b"gAMA", struct.pack(">I", 220000))
    if palette is not None:
        out += chunk(b"PLTE", palette.astype(np.uint8).tobytes())
    return out + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b"")


def picture(r, kind):
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
    if kind == "palette":
        return png(r.integers(0, 16, (5, 7, 1)), 4, 3, r.integers(0, 256, (16, 3)))
    if kind == "bits":
        return png(r.integers(0, 4, (5, 7, 1)), 2, 0)
    depth, type_ = kind
    return png(r.integers(0, 2**depth, (5, 7, channels[type_])), depth, type_, gamma=True)


def scene(asset, geom=""):
    return f"""<mujoco><asset>{asset}</asset><worldbody><body><freejoint/>
<geom type="hfield" hfield="h" contype="0" conaffinity="0" pos=".1 .2 .3" {geom}/></body></worldbody></mujoco>"""


def compare(path):
    m, ours = mujoco.MjModel.from_xml_path(str(path)), inside.Model(str(path)).fields()
    for name in FIELDS:
        theirs = np.ravel(getattr(m, name))
        assert np.abs(ours[name].ravel() - theirs).max() <= 1e-12 * np.abs(theirs).max(), name
    return ours


@pytest.mark.parametrize("geom", ["", 'mass="2"', 'density="3"', 'shellinertia="true"'])
def test_text_is_read_from_above(tmp_path, geom):
    path, r = tmp_path / "m.xml", np.random.default_rng(1)
    path.write_text(scene(f'<hfield name="h" nrow="4" ncol="6" size="1 .7 .3 .2" elevation="{rows(r.uniform(-3, 5, 24))}"/>', geom))
    data = compare(path)["hfield_data"]
    assert data.min() == 0 and data.max() == 1


def test_without_heights_it_is_flat(tmp_path):
    path = tmp_path / "m.xml"
    path.write_text(scene('<hfield name="h" nrow="3" ncol="2" size="1 .7 .3 .2"/>'))
    assert not compare(path)["hfield_data"].any()


@pytest.mark.parametrize("named", ["heights.bin", "heights"])
def test_binary_files(tmp_path, named):
    path, r = tmp_path / f"{named}.xml", np.random.default_rng(2)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / named).write_bytes(struct.pack("<ii", 3, 5) + r.uniform(-1, 7, 15).astype("<f4").tobytes())
    path.write_text(scene(f'<hfield name="h" file="{named}" size="1 .7 .3 .2"/>').replace("<asset>", '<compiler meshdir="sub"/><asset>'))
    compare(path)


@pytest.mark.parametrize("kind", [(8, 0), (16, 0), (8, 2), (16, 2), (8, 4), (8, 6), "palette", "bits"], ids=str)
def test_pictures(tmp_path, kind):
    path = tmp_path / "m.xml"
    name = f"h{str(kind).replace(' ', '')}.png"  # MuJoCo keeps files by their names
    (tmp_path / name).write_bytes(picture(np.random.default_rng(3), kind))
    path.write_text(scene(f'<hfield name="h" file="{name}" size="1 .7 .3 .2"/>'))
    compare(path)


# ---- what is refused ------------------------------------------------------------------------------------------------------
GOOD = png(np.arange(12).reshape(3, 4, 1))
HUGE = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 1 << 19, 1 << 19, 8, 0, 0, 0, 0)) + chunk(b"IDAT", b"") + chunk(b"IEND", b"")


@pytest.mark.parametrize("name,data,says", [
    ("a.png", b"", "no PNG picture"), ("b.png", GOOD[:40], "the file ends too early"), ("c.png", GOOD[:-20], ""), ("d.png", HUGE, "2^25 pixels"),
    ("e.png", GOOD.replace(b"IDAT", b"IDAU"), ""), ("f.bin", b"abc", "do not go with its 3 bytes"),
    ("g.bin", struct.pack("<ii", 3, 5) + bytes(56), "3 rows and 5 columns do not go with its 64 bytes"),
    ("h.bin", struct.pack("<ii", -1, -1) + bytes(4), "do not go with"), ("i.bin", struct.pack("<iiffff", 2, 2, 1, 2, np.nan, 4), "height 2 is not finite"),
    ("j.bin", struct.pack("<iif", 1, 1, 1), "at least two rows and columns")])
def test_broken_files_are_named(tmp_path, name, data, says):
    path = tmp_path / "m.xml"
    (tmp_path / name).write_bytes(data)
    path.write_text(scene(f'<hfield name="h" file="{name}" size="1 .7 .3 .2"/>'))
    with pytest.raises(inside.Error, match="m.xml:1:") as error:
        inside.Model(str(path))
    assert says in str(error.value)


@pytest.mark.parametrize("attributes,says", [
    ('nrow="2" ncol="3" size="1 1 1 1" elevation="1 2"', "2 numbers, expected nrow x ncol"), ('nrow="2" ncol="3" size="1 0 1 1"', "four positive sizes"),
    ('nrow="2" ncol="3"', "four positive sizes"), ('nrow="1" ncol="3" size="1 1 1 1"', "at least two rows"), ('file="none.png" size="1 1 1 1"', "none.png"),
    ('file="x.png" nrow="2" ncol="2" size="1 1 1 1"', "both 'file' and 'nrow'"), ('file="x.png" content_type="text/x" size="1 1 1 1"', "content_type"),
    ('nrow="40000" ncol="40000" size="1 1 1 1"', "2^25 heights")])
def test_wrong_attributes_are_named(tmp_path, attributes, says):
    path = tmp_path / "m.xml"
    path.write_text(scene(f'<hfield name="h" {attributes}/>'))
    with pytest.raises(inside.Error) as error:
        inside.Model(str(path))
    assert says in str(error.value)


# ---- contacts -------------------------------------------------------------------------------------------------------------
def terrain(r, geom, more="", count=2):
    nrow, ncol = r.integers(3, 7, 2)
    bodies = "".join(f'<body><freejoint/><geom type="{kind}" size="{size}" density="{r.uniform(300, 900)}"/></body>' for kind, size in geom[:count])
    return f"""<mujoco><option timestep=".002"/>{more}<asset>
<hfield name="h" nrow="{nrow}" ncol="{ncol}" size="{rows(r.uniform(.5, .8, 4))}" elevation="{rows(r.uniform(0, 1, nrow * ncol))}"/></asset><worldbody>
<geom type="hfield" hfield="h" pos="{rows(r.uniform(-.2, .2, 3))}" quat="{rows(r.standard_normal(4) * (0.2, .2, .2, .2) + (1, 0, 0, 0))}"/>
{bodies}</worldbody></mujoco>"""


def a_pose(r, m):
    """Somewhere near the field, turned anyhow."""
    R, x = np.zeros(9), np.r_[r.uniform(-.6, .6, 2), r.uniform(-.2, .9)]
    mujoco.mju_quat2Mat(R, m.geom_quat[0])
    q = r.standard_normal(4)
    return np.r_[m.geom_pos[0] + R.reshape(3, 3) @ x, q / np.linalg.norm(q)]


SHAPES = [("sphere", ".1"), ("capsule", ".05 .1"), ("box", ".08 .12 .05"), ("ellipsoid", ".08 .12 .05"), ("cylinder", ".07 .08")]


def test_spheres_have_the_contacts_of_mujoco(tmp_path):
    """Where the center is outside of a prism; inside MuJoCo's depth is its search's, up to 1e-6."""
    r, path, seen = np.random.default_rng(5), tmp_path / "m.xml", 0
    for _ in range(15):
        path.write_text(terrain(r, [("sphere", str(r.uniform(.03, .15)))], count=1))
        m, ours = mujoco.MjModel.from_xml_path(str(path)), inside.Model(str(path))
        d = mujoco.MjData(m)
        for _ in range(12):
            d.qpos[:] = a_pose(r, m)
            mujoco.mj_forward(m, d)
            ours.step(ours.state(d.qpos, np.zeros(6)))
            ours.gather()
            dist, normal, where = (ours.field(f"contact_{name}") for name in ("dist", "frame", "pos"))
            assert len(dist) == d.ncon
            for k in range(d.ncon):
                outside = d.contact.dist[k] > -m.geom_size[1, 0] * (1 - 1e-3)
                seen += outside
                assert abs(dist[k, 0] - d.contact.dist[k]) < (2e-8 if outside else 2e-6)
                if outside:
                    assert np.abs(normal[k, :3] - d.contact.frame[k, :3]).max() < 1e-6 and np.abs(where[k] - d.contact.pos[k]).max() < 1e-6
    assert seen > 60


@pytest.mark.parametrize("contact", [{}, {"method": "cones"}, {"method": "penalty", "stiffness": 1e4, "damping": 10}], ids=str)
def test_gradients_on_terrain_are_those_of_the_step(tmp_path, contact):
    r, path, checked = np.random.default_rng(7), tmp_path / "m.xml", 0
    for trial in range(10):
        path.write_text(terrain(r, [SHAPES[trial % 5], SHAPES[(trial + 2) % 5]]))
        model = inside.Model(str(path), contact=contact)
        m = mujoco.MjModel.from_xml_path(str(path))
        x = model.state(np.r_[a_pose(r, m), a_pose(r, m)], .3 * r.standard_normal(12))
        record = model.step_recorded(x)[-1]
        model.gather()
        if not len(model.field("contact_dist")):
            continue
        w, way = r.standard_normal(model.nt), r.standard_normal(model.nt)
        bar = model.vjp(record, next_bar=w)
        base = model.step(x)[0]
        value = lambda t: model.difference(base, model.step(model.move(x, way, t))[0]) @ w
        slopes = [(8 * (value(h) - value(-h)) - (value(2 * h) - value(-2 * h))) / (12 * h) for h in (1e-4, 3e-5, 1e-5, 3e-6)]
        settled = min(range(3), key=lambda k: abs(slopes[k] - slopes[k + 1]))
        if abs(slopes[settled] - slopes[settled + 1]) > 1e-7 * max(1, abs(slopes[settled])):
            continue  # a contact comes or goes
        checked += 1
        assert abs(bar["x"] @ way - slopes[settled]) < 1e-6 * max(1, abs(slopes[settled]))
    assert checked >= 4


def test_boxes_rest_on_a_level_field(tmp_path):
    """But for a creep: a prism beside the box, which it enters by less than it sinks, pushes it aside."""
    path = tmp_path / "m.xml"
    path.write_text("""<mujoco><asset><hfield name="h" nrow="3" ncol="3" size="1 1 .2 .1"/></asset><worldbody><geom type="hfield" hfield="h"/>
<body pos=".1 .23 .0999"><freejoint/><geom type="box" size=".1 .15 .1"/></body></worldbody></mujoco>""")
    model = inside.Model(str(path))
    x = model.init()
    for _ in range(2000):
        x, _ = model.step(x)
    assert np.abs(model.parts(x)[1]).max() < 1e-6


def test_planes_and_fields_pass_through_each_other(tmp_path):
    path = tmp_path / "m.xml"
    path.write_text("""<mujoco><asset><hfield name="h" nrow="3" ncol="3" size="1 1 .2 .1"/></asset><worldbody><geom type="plane" size="1 1 1"/>
<geom type="hfield" hfield="h" pos="0 0 3"/><body><freejoint/><geom type="hfield" hfield="h"/></body></worldbody></mujoco>""")
    m, ours = mujoco.MjModel.from_xml_path(str(path)), inside.Model(str(path))
    d = mujoco.MjData(m)
    mujoco.mj_step(m, d)
    assert d.ncon == 0 and np.abs(ours.parts(ours.step(ours.init())[0])[1] - d.qvel).max() < 1e-12
