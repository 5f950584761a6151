"""Meshes that touch: compiled tables and contacts against MuJoCo, derivatives, rest."""
import mujoco
import numpy as np
import pytest

import pb

rows = lambda a: " ".join(repr(float(x)) for x in np.ravel(a))


# ---- shapes ---------------------------------------------------------------------------------------------------------------
def prism(corners, height=.3, radius=.2):
    t = np.arange(corners) * 2 * np.pi / corners
    rim = radius * np.c_[np.cos(t), np.sin(t)]
    return np.concatenate([np.c_[rim, 0 * t], np.c_[rim, 0 * t + height]])


def cloud(r, count=40):
    return r.standard_normal((count, 3)) * r.uniform(.1, .3, 3)


def stone(r, count=200):
    u = r.standard_normal((count, 3))
    return u / np.linalg.norm(u, axis=1)[:, None] * r.uniform(.1, .3, 3)


def shape(r, kind):
    if kind == 0:
        return cloud(r, r.integers(5, 60))
    if kind == 1:
        return prism(r.integers(3, 30), r.uniform(.1, .4)) * r.uniform(.5, 1, 3)
    return prism(4) * r.uniform(.5, 1, 3) if kind == 2 else stone(r)


# ---- compiled tables ------------------------------------------------------------------------------------------------------
def turned(corners):
    """A polygon from its least corner on."""
    k = corners.index(min(corners))
    return tuple(corners[k:] + corners[:k])


def polygons(field, mesh):
    one = lambda name: np.asarray(field(name)).ravel().astype(int)
    normal, out = np.reshape(field("mesh_polynormal"), (-1, 3)), {}
    for k in range(one("mesh_polyadr")[mesh], one("mesh_polyadr")[mesh] + one("mesh_polynum")[mesh]):
        first = one("mesh_polyvertadr")[k]
        out[turned(list(one("mesh_polyvert")[first:first + one("mesh_polyvertnum")[k]]))] = normal[k]
    return out


def around(field, mesh):
    """The polygons at each vertex, as corners."""
    one = lambda name: np.asarray(field(name)).ravel().astype(int)
    first, start = one("mesh_polyadr")[mesh], one("mesh_vertadr")[mesh]
    polygon = lambda k: turned(list(one("mesh_polyvert")[one("mesh_polyvertadr")[first + k]:][:one("mesh_polyvertnum")[first + k]]))
    return [{polygon(k) for k in one("mesh_polymap")[one("mesh_polymapadr")[v]:][:one("mesh_polymapnum")[v]]}
            for v in range(start, start + one("mesh_vertnum")[mesh])]


def neighbors(field, mesh):
    graph = np.asarray(field("mesh_graph")).ravel()[np.asarray(field("mesh_graphadr")).ravel()[mesh]:]
    count, faces = graph[:2]
    vertex, edge, out = graph[2 + count:2 + 2 * count], graph[2 + 2 * count:2 + 3 * count + 3 * faces], {}
    for k in range(count):
        at, out[int(vertex[k])] = graph[2 + k], set()
        while edge[at] >= 0:
            out[int(vertex[k])].add(int(vertex[edge[at]]))
            at += 1
    return out


@pytest.mark.parametrize("seed", range(8))
def test_the_tables_of_meshes_are_those_of_mujoco(tmp_path, seed):
    r, path = np.random.default_rng(seed), tmp_path / "m.xml"
    path.write_text(f"""<mujoco><asset>
<mesh name="a" vertex="{rows(shape(r, seed % 4))}" scale="1 {-.7 if seed % 3 else .7} 1.2" refpos=".1 .2 .3" refquat="1 .2 .3 .4"/>
<mesh name="b" vertex="{rows(shape(r, (seed + 1) % 4))}" maxhullvert="{-1 if seed < 4 else 12}"/></asset><worldbody>
<geom type="mesh" mesh="b" contype="2" conaffinity="0"/>
<body><freejoint/><geom type="mesh" mesh="a" contype="2" conaffinity="0"/></body></worldbody></mujoco>""")
    m, ours = mujoco.MjModel.from_xml_path(str(path)), pb.Model(str(path)).fields()
    mine, theirs = ours.__getitem__, lambda name: getattr(m, name)
    for name in ("geom_dataid", "mesh_vertadr", "mesh_vertnum", "mesh_polynum", "mesh_polyadr"):
        assert (mine(name).ravel() == theirs(name)).all(), name
    for k in range(2):
        a, b = polygons(mine, k), polygons(theirs, k)
        assert set(a) == set(b) and around(mine, k) == around(theirs, k) and neighbors(mine, k) == neighbors(theirs, k)
        if np.linalg.norm(m.mesh_quat[k] - ours["mesh_quat"][k]) > 1e-6:
            continue  # two moments are equal: the axes are anybody's
        assert max(np.abs(a[p] - b[p]).max() for p in a) < 1e-6
        v = slice(m.mesh_vertadr[k], m.mesh_vertadr[k] + m.mesh_vertnum[k])
        assert np.abs(ours["mesh_vert"][v] - m.mesh_vert[v]).max() < 1e-7
        g = list(m.geom_dataid).index(k)
        assert abs(ours["geom_rbound"].ravel()[g] / m.geom_rbound[g] - 1) < 1e-7
