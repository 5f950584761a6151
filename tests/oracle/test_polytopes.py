"""Contacts of hulls that touch hulls, boxes and round shapes: right instead of equal to MuJoCo, whose search stops early.

Depths against all facets of the Minkowski difference (qhull) and against MuJoCo's; distances of shapes that are apart by their optimality
conditions; no direction shows less overlap than the normal found; what rests stays; gradients.
"""
import mujoco
import numpy as np
import pytest
from scipy.optimize import nnls
from scipy.spatial import ConvexHull

import inside

rows = lambda a: " ".join(repr(float(x)) for x in np.ravel(a))


def cloud(r):
    return r.standard_normal((r.integers(4, 61), 3)) * [1, r.uniform(.2, 1), r.uniform(.2, 1)] * .2


def quat(r):
    q = r.standard_normal(4)
    return q / np.linalg.norm(q)


class Pair:
    """A mesh and another geom on free bodies, in both programs; MuJoCo without its manifold, so that its depth is that of its search."""

    def __init__(self, folder, points, other, more=""):
        text = f"""<mujoco><option gravity="0 0 0"><flag multiccd="disable"/></option><asset><mesh name="a" vertex="{rows(points)}"/>{more}</asset><worldbody>
        <body><freejoint/><geom type="mesh" mesh="a" mass="1"/></body><body><freejoint/><geom {other} mass="1"/></body></worldbody></mujoco>"""
        path = folder / "pair.xml"
        path.write_text(text)
        self.model, self.m = inside.Model(str(path)), mujoco.MjModel.from_xml_string(text)
        self.d, self.vert = mujoco.MjData(self.m), self.model.fields()["mesh_vert"]

    def frame(self, geom, theirs=False):
        if theirs:
            return self.d.geom_xpos[geom], self.d.geom_xmat[geom].reshape(3, 3)
        return self.model.field("geom_xpos")[geom].ravel(), self.model.field("geom_xmat")[geom].reshape(3, 3)

    def corners(self, geom, theirs=False):
        """Of a mesh or box, in the world."""
        mesh, (pos, rot) = self.m.geom_dataid[geom], self.frame(geom, theirs)
        if mesh < 0:
            local = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]) * self.m.geom_size[geom]
        else:
            vert = self.m.mesh_vert.astype(float) if theirs else self.vert
            local = vert[self.m.mesh_vertadr[mesh]:][:self.m.mesh_vertnum[mesh]]
        return local @ rot.T + pos

    def pose(self, q1, shift, q2):
        q = np.concatenate([np.zeros(3), q1, shift, q2])
        self.d.qpos[:] = q
        mujoco.mj_kinematics(self.m, self.d)
        mujoco.mj_collision(self.m, self.d)
        self.model.observe(self.model.state(q, np.zeros(12)))
        self.model.gather()
        return np.ravel(self.model.field("contact_dist"))

    def difference(self, theirs=False):
        a, b = self.corners(0, theirs), self.corners(1, theirs)
        return (a[:, None] - b[None]).reshape(-1, 3)

    def place(self, r, inside, other_far):
        """Turned at random; the second geom a share of its way out along a random direction."""
        q1, q2, u = quat(r), quat(r), quat(r)[:3]
        u /= np.linalg.norm(u)
        self.pose(q1, np.zeros(3), q2)
        reach = (self.corners(0) @ u).max() + other_far(-u)
        return self.pose(q1, u * reach * inside, q2)


def check_polytopes(folder, r, models, poses):
    pairs = equal = 0
    for k in range(models):
        box = k % 5 == 4
        other = f'type="box" size="{rows(r.uniform(.05, .2, 3))}"' if box else 'type="mesh" mesh="b"'
        pair = Pair(folder, cloud(r), other, "" if box else f'<mesh name="b" vertex="{rows(cloud(r))}"/>')
        for _ in range(poses):
            dist = pair.place(r, r.choice([.98, .95, .8, .5, .2]), lambda u: (pair.corners(1) @ u).max())
            facets = ConvexHull(pair.difference()).equations[:, 3]
            if facets.max() >= 0:  # apart
                assert not dist.size or dist.min() > -1e-9
                continue
            assert dist.size, f"no contact at depth {-facets.max()}"
            assert abs(dist.min() - facets.max()) < 1e-9, f"model {k}: depth {-dist.min()}, not {-facets.max()}"
            assert dist.size <= 4
            if box or not pair.d.ncon:
                continue

            # MuJoCo's beside the facets of its own shapes: frames of meshes agree to 1e-8 only.
            error = min(c.dist for c in pair.d.contact) - ConvexHull(pair.difference(theirs=True)).equations[:, 3].max()
            pairs += 1
            equal += abs(error) < 1e-9
            assert dist.min() - facets.max() > error - 1e-9, f"{error} m deeper than MuJoCo"
    assert equal >= .5 * pairs, f"{equal} of {pairs} as MuJoCo"
    return pairs


def test_depth_of_polytopes(tmp_path):
    assert check_polytopes(tmp_path, np.random.default_rng(1), 40, 25) > 300


def test_depth_of_ten_thousand_pairs(tmp_path, long_run):
    if not long_run:
        pytest.skip("the whole sweep: --long")
    assert check_polytopes(tmp_path, np.random.default_rng(2), 400, 65) > 10000


def test_distance_of_polytopes(tmp_path):
    r, found = np.random.default_rng(3), 0
    for _ in range(20):
        pair = Pair(tmp_path, cloud(r), 'type="mesh" mesh="b" margin=".2"', f'<mesh name="b" vertex="{rows(cloud(r))}"/>')
        for _ in range(20):
            dist = pair.place(r, r.uniform(1.02, 1.3), lambda u: (pair.corners(1) @ u).max())
            m = pair.difference()
            if not dist.size or dist.min() <= 0:
                continue
            # Below: the plane at right angles to the normal. Above: a point of the difference.
            normal = pair.model.field("contact_frame")[int(np.argmin(dist))].ravel()[:3]
            weights, _ = nnls(np.vstack([m.T, 1e3 * np.ones(len(m))]), [0, 0, 0, 1e3])
            assert abs(dist.min() + (m @ normal).max()) < 1e-9
            assert dist.min() > np.linalg.norm(m.T @ (weights / weights.sum())) - 1e-6
            found += 1
    assert found > 100


# ---- round shapes ---------------------------------------------------------------------------------------------------------
def round_far(kind, size, d):
    """How far shapes reach along directions (rows) in their frames."""
    if kind == "ellipsoid":
        return np.linalg.norm(d * size, axis=1)
    if kind == "sphere":
        return size[0] * np.linalg.norm(d, axis=1)
    if kind == "capsule":
        return size[0] * np.linalg.norm(d, axis=1) + size[1] * abs(d[:, 2])
    return size[0] * np.hypot(d[:, 0], d[:, 1]) + size[1] * abs(d[:, 2])


@pytest.mark.parametrize("kind", ["sphere", "capsule", "cylinder", "ellipsoid"])
def test_round_shapes(kind, tmp_path):
    r, found = np.random.default_rng(len(kind)), 0
    for _ in range(8):
        size = r.uniform(.03, .2, 3)
        pair = Pair(tmp_path, cloud(r), f'type="{kind}" size="{rows(size[:{"sphere": 1, "ellipsoid": 3}.get(kind, 2)])}" margin=".05"')
        for _ in range(10):
            turned = lambda u: round_far(kind, size, np.atleast_2d(u) @ pair.frame(1)[1])
            dist = pair.place(r, r.choice([1.03, .99, .9, .6, .2]), lambda u: turned(u)[0])
            if not dist.size:
                continue
            corners = pair.corners(0) - pair.frame(1)[0]
            overlap = lambda u: (corners @ u.T).max(0) + turned(-u)
            normal = pair.model.field("contact_frame")[int(np.argmin(dist))].ravel()[:3]
            # Normals point from the first geom by type, which is the round one.
            assert abs(overlap(-normal[None])[0] + dist.min()) < 1e-9
            best, u = overlap(-normal[None])[0], -normal
            for width in [3.] * 20 + list(.5 * .7**np.arange(45)):
                tries = u + width * r.standard_normal((100, 3))
                tries /= np.linalg.norm(tries, axis=1)[:, None]
                values = overlap(tries)
                if values.min() < best:
                    best, u = values.min(), tries[values.argmin()]
            assert -dist.min() - best < 1e-9, f"{kind}: overlap {-dist.min()}, but {best} along {u}"
            found += 1
    assert found > 40


# ---- rest -----------------------------------------------------------------------------------------------------------------
CUBE = rows([[x, y, z] for x in (-.1, .1) for y in (-.1, .1) for z in (-.1, .1)])


def pile(count, kind, below):
    geom = 'type="mesh" mesh="b"' if kind == "mesh" else 'type="box" size=".1 .1 .1"'
    bodies = "".join(f'<body pos="{.003 * i} {-.002 * i} {.1 + .2 * i}"><freejoint/><geom {geom}/></body>' for i in range(count))
    return f'<mujoco><asset><mesh name="b" vertex="{CUBE}"/></asset><worldbody><geom {below}/>{bodies}</worldbody></mujoco>'


def grip(kind):
    """A box of 0.2 kg between two pads that press with 5 N, in the air."""
    geom = 'type="mesh" mesh="b"' if kind == "mesh" else 'type="box" size=".03 .03 .03"'
    pads = "".join(f'<body pos="{side * .0405} 0 .5"><joint name="j{side}" type="slide" axis="{-side} 0 0" damping="5"/>'
                   '<geom type="box" size=".01 .02 .02" mass=".1"/></body>' for side in (-1, 1))
    return f"""<mujoco><option cone="elliptic"/><asset><mesh name="b" vertex="{CUBE}" scale=".3 .3 .3"/></asset><worldbody>
    <body pos="0 0 .5"><freejoint/><geom {geom} mass=".2"/></body>{pads}</worldbody>
    <actuator><motor joint="j-1"/><motor joint="j1"/></actuator></mujoco>"""


def positions(folder, text, steps, ctrl=None, contact=None, count=None):
    """Of the free bodies, after settling for a second and at the end."""
    path = folder / "rest.xml"
    path.write_text(text)
    model = inside.Model(str(path), contact=contact)
    x = model.init()
    out = []
    for k in range(steps):
        x, _ = model.step(x, ctrl=ctrl)
        if k in (499, steps - 1):
            q = model.parts(x)[0]
            out.append(q[:7 * (count or len(q) // 7)].reshape(-1, 7)[:, :3].copy())
    return out


@pytest.mark.parametrize("below", ['type="box" size=".5 .5 .1" pos="0 0 -.1"', 'type="mesh" mesh="b" pos="0 0 -.1"'])
def test_one_box_rests(below, tmp_path):
    settled, end = positions(tmp_path, pile(1, "mesh", below), 5500)
    assert np.abs(end - settled).max() < 1e-9


def test_a_pile_drifts_as_boxes_do(tmp_path):
    below = 'type="box" size=".5 .5 .1" pos="0 0 -.1"'
    drift = []
    for kind in ("mesh", "box"):
        settled, end = positions(tmp_path, pile(3, kind, below), 2500)
        drift.append(np.linalg.norm(end - settled, axis=1).max())
    assert abs(drift[0] / drift[1] - 1) < .1, f"{drift[0]} and {drift[1]} m"

@pytest.mark.parametrize("kind", ["mesh", "box"])
def test_a_gripped_box_slips_as_in_mujoco(kind, tmp_path):
    text = grip(kind)
    path = tmp_path / "grip.xml"
    path.write_text(text)
    model, m = inside.Model(str(path)), mujoco.MjModel.from_xml_string(text)
    d, x, heights = mujoco.MjData(m), model.init(), []
    d.ctrl[:] = 5
    for k in range(1500):
        x, _ = model.step(x, ctrl=np.full(2, 5.))
        mujoco.mj_step(m, d)
        if k in (499, 1499):
            heights.append((model.parts(x)[0][2], d.qpos[2]))
    ours, theirs = np.subtract(*heights)
    assert theirs > 2e-3 and abs(ours / theirs - 1) < 1e-3, f"{ours} and {theirs} m"


def test_hard_contact_holds(tmp_path):
    """A pile and a grip with method=cones: no creep."""
    below = 'type="box" size=".5 .5 .1" pos="0 0 -.1"'
    for text, count, ctrl in ((pile(5, "mesh", below), 5, None), (grip("mesh"), 1, np.full(2, 5.))):
        settled, end = positions(tmp_path, text, 2500, ctrl, {"method": "cones"}, count)
        assert np.abs(end - settled).max() < 1e-5


# ---- gradients ------------------------------------------------------------------------------------------------------------
METHODS = {
    "soft": ("elliptic", {}), "pyramidal": ("pyramidal", {}), "kappa": ("elliptic", {"kappa": 1}), "onset": ("elliptic", {"kappa": 1e-2, "onset": .02}),
    "penalty": ("elliptic", {"method": "penalty", "stiffness": 300, "damping": 2}), "cones": ("elliptic", {"method": "cones"}),
    "lcp": ("pyramidal", {"method": "lcp", "cfm": 1e-4, "erp": .1}), "impact": ("elliptic", {"method": "impact", "restitution": .4}),
    "sweeps": ("elliptic", {"method": "sweeps", "sweeps": 2000, "cfm": 1e-2, "erp": .2}),
}
OTHERS = ['type="mesh" mesh="b"', 'type="box" size=".1 .08 .12"', 'type="capsule" size=".05 .1"', 'type="cylinder" size=".07 .09"', 'type="ellipsoid" size=".1 .07 .06"']


def moved(q, way, h):
    """Two free bodies along a direction of positions and rotation vectors."""
    q = q.copy()
    for i in range(2):
        q[7 * i:7 * i + 3] += h * way[6 * i:6 * i + 3]
        mujoco.mju_quatIntegrate(q[7 * i + 3:7 * i + 7], way[6 * i + 3:6 * i + 6], h)
    return q


def between(q0, q):
    out = np.zeros(12)
    for i in range(2):
        out[6 * i:6 * i + 3] = q[7 * i:7 * i + 3] - q0[7 * i:7 * i + 3]
        mujoco.mju_subQuat(out[6 * i + 3:6 * i + 6], q[7 * i + 3:7 * i + 7], q0[7 * i + 3:7 * i + 7])
    return out


def touching(model, r):
    """A state of two free bodies that overlap by 2 mm and turn, about to bounce."""
    u = r.standard_normal(3)
    u /= np.linalg.norm(u)
    q1, q2, low, high = quat(r), quat(r), 0., 1.
    at = lambda t: np.concatenate([np.zeros(3), q1, u * t, q2])
    for _ in range(30):
        model.observe(model.state(at((low + high) / 2), np.zeros(12)))
        low, high = ((low + high) / 2, high) if model.report().contacts else (low, (low + high) / 2)
    return at(low - .002), np.concatenate([u * .2, np.zeros(3), -u * .2, np.zeros(3)]) + .1 * r.standard_normal(12)


def richardson(f, h=1e-6):
    wide, narrow = ((f(e) - f(-e)) / (2 * e) for e in (h, h / 2))
    return narrow + (narrow - wide) / 3, abs(narrow - wide)


@pytest.mark.parametrize("method", METHODS)
def test_vjp_of_steps(method, tmp_path, long_run):
    """Against own differences, by state and parameters, and against the forward derivative."""
    cone, contact = METHODS[method]
    r, compared, states = np.random.default_rng(len(method)), 0, 0
    for other in OTHERS:
        text = f"""<mujoco><option cone="{cone}"/><asset><mesh name="a" vertex="{rows(cloud(r) / 2)}"/><mesh name="b" vertex="{rows(cloud(r) / 2)}"/></asset>
        <worldbody><body><freejoint/><geom type="mesh" mesh="a" mass="1"/></body><body><freejoint/><geom {other} mass=".7"/></body></worldbody></mujoco>"""
        path = tmp_path / "touch.xml"
        path.write_text(text)
        model = inside.Model(str(path), contact=contact)
        for _ in range(40 if long_run else 4):
            q, v = touching(model, r)
            y, _, record = model.step_recorded(model.state(q, v))
            q0, w, way, theta_way = model.parts(y)[0], r.standard_normal(24), r.standard_normal(24), np.zeros(model.ntheta)
            for name in ("geom_pos", "geom_friction", "body_mass"):
                model.param(theta_way, name)[1:] = .1 * r.standard_normal(model.param(theta_way, name)[1:].shape)

            def value(h, state, theta):
                x = model.state(moved(q, way, h * state), v + h * state * way[12:])
                q1, v1, _ = model.parts(model.step(x, theta=model.theta + h * theta * theta_way)[0])
                return w[:12] @ between(q0, q1) + w[12:] @ v1

            pad = np.zeros(model.nt - 24)
            bar = model.vjp(record, next_bar=np.concatenate([w, pad]))
            ahead = w @ model.jvp(record, x=np.concatenate([way, pad]))[0][:24]
            terms = [bar["x"][:24] * way, bar["theta"] * theta_way]
            assert abs(ahead - terms[0].sum()) < 1e-12 * np.abs(terms[0]).sum()
            for k, part in enumerate(terms):
                states += 1
                quotient, spread = richardson(lambda h: value(h, k == 0, k == 1))
                size = np.abs(part).sum() + 1e-9
                if spread > 1e-5 * size:  # another feature within the differences
                    continue
                assert abs(part.sum() - quotient) < 1e-6 * size, f"{other}: {part.sum()}, differences {quotient}"
                compared += 1
    assert compared >= .9 * states


@pytest.mark.parametrize("kind", inside.Rollout.KINDS)
def test_gradients_of_rollouts(kind, tmp_path):
    """A box of a mesh that falls on another, all gradient modes: forward and reverse agree; exact also with differences."""
    path = tmp_path / "fall.xml"
    path.write_text(pile(1, "mesh", 'type="mesh" mesh="b" pos="0 0 -.1"').replace('pos="0.0 -0.0 0.1"', 'pos=".01 .02 .101" euler="3 5 7"').replace('pos="0 0 0.1"', 'pos=".01 .02 .101" euler="3 5 7"'))
    model = inside.Model(str(path), contact={"kappa": 1e-2} if kind == "smooth" else None)
    rollout, r = inside.Rollout(model, 30), np.random.default_rng(1)
    x = model.init()
    w, way = np.zeros(model.nt), np.zeros(model.nt)
    w[:12], way[:12] = r.standard_normal(12), r.standard_normal(12)
    rollout.forward(x)
    back = rollout.vjp(kind, x=w)[0] @ way
    rollout.forward(x)
    ahead = rollout.jvp(kind, x0=way)[-1] @ w
    assert abs(back - ahead) < 1e-9 * max(1, abs(back))
