"""Contacts, Jacobians of places and inverse dynamics: MuJoCo's numbers, and derivatives beside the library's other ones."""
import pathlib

import numpy as np
import pytest

mujoco = pytest.importorskip("mujoco")
import pullback as pb  # noqa: E402
from conftest import ROOT  # noqa: E402

MODELS = pathlib.Path(ROOT, "tests", "oracle", "models")
OWN = [MODELS / f"{name}.xml" for name in ("contact_capsule", "contact_sphere", "condim_elliptic", "condim_pyramidal", "joints", "humanoid62", "mocap")]


def gymnasiums():
    try:
        import gymnasium.envs.mujoco as of
    except ImportError:
        return []
    return sorted(pathlib.Path(of.__file__).parent.joinpath("assets").glob("*.xml"))


def both(path):
    m = mujoco.MjModel.from_xml_path(str(path))
    m.opt.tolerance, m.opt.iterations, m.opt.solver = 0, 1000, mujoco.mjtSolver.mjSOL_NEWTON
    return m, pb.load(path, options={"tolerance": 0, "solver": "Newton"})


def visited(m, seed, count=3):
    """Data along a run with random controls, each evaluated with controls of its own."""
    rng = np.random.default_rng(seed)
    for k in range(count):
        d = mujoco.MjData(m)
        for _ in range(70 * (k + 1)):
            d.ctrl[:] = rng.uniform(-1, 1, m.nu)
            mujoco.mj_step(m, d)
        d.ctrl[:] = rng.uniform(-1, 1, m.nu)
        mujoco.mj_forward(m, d)
        yield d, rng


def ordered(geoms, places):
    return sorted(range(len(geoms)), key=lambda i: (*geoms[i], *np.round(places[i], 9)))


@pytest.mark.parametrize("path", [*gymnasiums(), *OWN], ids=lambda path: path.stem)
def test_contacts_are_mujocos(path):
    m, model = both(path)
    for d, _ in visited(m, 1):
        if np.any(np.abs(d.contact.dist - d.contact.includemargin) < 1e-12):
            continue  # one that touches to rounding
        found = model.contacts(pb.State.from_mujoco(model, d), d.ctrl)
        assert len(found) == d.ncon
        for i, j in zip(ordered(d.contact.geom, d.contact.pos), ordered(found.geom, found.pos), strict=True):
            force = np.zeros(6)
            mujoco.mj_contactForce(m, d, i, force)
            assert np.array_equal(d.contact.geom[i], found.geom[j]) and np.abs(d.contact.pos[i] - found.pos[j]).max() < 1e-10
            assert np.abs(d.contact.frame[i].reshape(3, 3) - found.frame[j]).max() < 1e-10 and abs(d.contact.dist[i] - found.dist[j]) < 1e-10
            assert np.abs(force - found.force[j]).max() < 1e-10 * (1 + np.abs(force).max())


@pytest.mark.parametrize("path", [*gymnasiums(), *OWN], ids=lambda path: path.stem)
def test_jacobians_are_mujocos(path):
    m, model = both(path)
    for d, rng in visited(m, 2, 2):
        state = pb.State.from_mujoco(model, d)
        for kind, call in (("body", mujoco.mj_jacBody), ("site", mujoco.mj_jacSite), ("geom", mujoco.mj_jacGeom)):
            for k in range(len(model.names(kind))):
                p, r = np.zeros((3, m.nv)), np.zeros((3, m.nv))
                call(m, d, p, r, k)
                found = model.jac(state, getattr(model, kind)(k))
                assert np.abs(found.jacp - p).max(initial=0) < 1e-10 and np.abs(found.jacr - r).max(initial=0) < 1e-10, (kind, k)
        for body in range(1, m.nbody):
            point = rng.normal(size=3)
            p, r, dp, dr = (np.zeros((3, m.nv)) for _ in range(4))
            mujoco.mj_jac(m, d, p, r, point, body)
            mujoco.mj_jacDot(m, d, dp, dr, point, body)
            found = model.jac(state, model.body(body), point=point, along=d.qvel)
            scale = 1 + np.abs(d.qvel).max()
            assert np.abs(found.jacp - p).max() < 1e-10 and np.abs(found.dp - dp).max() < 1e-10 * scale and np.abs(found.dr - dr).max() < 1e-10 * scale


@pytest.mark.parametrize("path", [*gymnasiums(), *OWN], ids=lambda path: path.stem)
def test_inverse_dynamics_is_mujocos(path):
    m, model = both(path)
    for d, rng in visited(m, 3, 2):
        state = pb.State.from_mujoco(model, d)
        d.mocap_pos[:], d.mocap_quat[:] = m.body_pos[m.body_mocapid >= 0], m.body_quat[m.body_mocapid >= 0]
        mujoco.mj_forward(m, d)
        d.qacc[:] += rng.normal(size=m.nv)
        mujoco.mj_inverse(m, d)
        found = model.inverse(state, d.qacc)
        assert np.abs(found.qfrc - d.qfrc_inverse).max(initial=0) < 1e-10 * (1 + np.abs(d.qfrc_inverse).max(initial=0))


# ---- derivatives --------------------------------------------------------------------------------------------------------------
PILE = """<mujoco><option timestep=".002" tolerance="0" {option}><flag eulerdamp="disable"/></option><worldbody><geom name="floor" type="plane" size="3 3 .1"/>
<body name="ball" pos="0 0 .195"><freejoint/><geom name="ball" size=".2" mass="1.3"/><site name="tip" pos=".1 .05 .1"/></body>
<body name="rod" pos=".12 .05 .44"><joint type="slide" axis="0 0 1"/><joint type="ball"/>
<geom name="rod" type="capsule" size=".1 .3" euler="90 20 0" mass=".7"/>
<body pos=".1 .2 0"><joint axis="0 1 1"/><geom type="capsule" size=".05 .1" mass=".3"/><site name="end" pos="0 .1 .1"/></body></body></worldbody>
<sensor><contact geom1="floor" geom2="ball" data="force dist pos normal"/><contact geom1="ball" geom2="rod" data="force dist pos normal"/>
<framelinvel objtype="site" objname="end"/><frameangvel objtype="site" objname="end"/><framelinvel objtype="site" objname="tip"/></sensor></mujoco>"""


def pile(option="cone='pyramidal'"):
    model = pb.loads(PILE.format(option=option))
    rng = np.random.default_rng(5)
    way = np.zeros(len(model.tangent_names))
    way[3:6], way[model.nv:] = .3 * rng.normal(size=3), .3 * rng.normal(size=len(way) - model.nv)
    return model, model.integrate(model.init(), way), rng


@pytest.mark.parametrize("option", ["cone='pyramidal'", "cone='elliptic'"])
def test_derivatives_of_contacts(option):
    """Beside the pullback of sensors that see the same contacts, which is derived by hand."""
    model, state, rng = pile(option)
    found = model.contacts(state)
    assert [tuple(pair) for pair in found.names] == [("floor", "ball"), ("ball", "rod")] or len(found) == 2
    seen = model.evaluate(state, names="sensordata")["sensordata"].copy()
    C = model.linearize(state, np.zeros(0), sensors=True)[2]
    order = {frozenset(pair): k for k, pair in enumerate(found.names)}
    way = rng.normal(size=C.shape[1])
    moved, rates = found.jvp(way), C @ way
    for at, pair in ((0, ("floor", "ball")), (10, ("ball", "rod"))):
        k = order[frozenset(pair)]
        assert abs(found.dist[k] - seen[at + 3]) < 1e-12 and np.abs(found.pos[k] - seen[at + 4:at + 7]).max() < 1e-12 and found.dist[k] < 0
        assert np.abs(found.force[k, :3] - seen[at:at + 3]).max() < 1e-9 * (1 + np.abs(seen[at:at + 3]).max())
        assert abs(moved["dist"][k] - rates[at + 3]) < 1e-10 and np.abs(moved["pos"][k] - rates[at + 4:at + 7]).max() < 1e-10
        assert np.abs(moved["frame"][k, 0] - rates[at + 7:at + 10]).max() < 1e-10
        assert np.abs(moved["force"][k, :3] - rates[at:at + 3]).max() < 1e-10 * (1 + np.abs(rates[at:at + 3]).max())
    parts = found.jvp(qpos=way[:model.nv], qvel=way[model.nv:])
    assert all(np.array_equal(parts[n], moved[n]) for n in moved)
    heavier = found.jvp(params={"body_mass": np.eye(1, model.nbody, 1)[0]})
    r = model.rollout(state, steps=1, params={"body_mass": model.params["body_mass"]})
    by = r.jvp(params={"body_mass": np.eye(1, model.nbody, 1)[0]}).sensordata[0]
    k = order[frozenset(("floor", "ball"))]
    assert np.abs(heavier["force"][k, :3] - by[:3]).max() < 1e-10 * (1 + np.abs(by[:3]).max()) and heavier["dist"][k] == 0


def test_derivatives_of_jacobians():
    """Velocities of sites are theirs times qvel; so are their derivatives by positions, derived by hand."""
    model, state, rng = pile()
    C = model.linearize(state, np.zeros(0), sensors=True)[2]
    v, way = np.array(state.qvel), rng.normal(size=model.nv)
    for site, linear, angular in (("end", 20, 23), ("tip", 26, None)):
        found = model.jac(state, model.site(site), along=way)
        assert np.abs(found.jacp - C[linear:linear + 3, model.nv:]).max() < 1e-12
        assert np.abs(found.dp @ v - C[linear:linear + 3, :model.nv] @ way).max() < 1e-10
        if angular:
            assert np.abs(found.jacr - C[angular:angular + 3, model.nv:]).max() < 1e-12
            assert np.abs(found.dr @ v - C[angular:angular + 3, :model.nv] @ way).max() < 1e-10


def test_derivatives_of_inverse_dynamics():
    """Beside the Jacobians of a step, which is v + h qacc here: those are pulled back, these pushed."""
    model, state, rng = pile()
    wanted = 3 * rng.normal(size=model.nv)
    found = model.inverse(state, wanted, derivative=True)
    nv, h = model.nv, model.timestep
    r = model.rollout(state, steps=1, qfrc_applied=found.qfrc[None], outputs=())
    assert np.abs((r.qvel[1] - r.qvel[0]) / h - wanted).max() < 1e-8
    A = r.linearize()[0][0][nv:2 * nv]
    by_state = (A - np.eye(nv, 2 * nv, nv)) / h
    by_force = np.stack([r.vjp(qvel=row, wrt="qfrc_applied").qfrc_applied[0] for row in np.eye(nv)]) / h
    own = np.linalg.inv(by_force)
    scale = np.abs(own @ by_state).max()
    assert np.abs(found.by[:, 2 * nv:] - own).max() < 1e-10 * np.abs(own).max() and np.abs(found.by[:, :2 * nv] + own @ by_state).max() < 1e-10 * scale


def test_what_does_not_fit_is_said():
    model, state, _ = pile()
    batch = model.init(batch=2)
    for call, said in ((lambda: model.contacts(batch), "one world"), (lambda: model.jac(state, model.joint(0)), "thing: expected a body, a site or a geom"),
                       (lambda: model.jac(state, "bal"), "no body 'bal'; did you mean 'ball'"),
                       (lambda: model.jac(state, "ball", point=[0, 0]), "point: expected"),
                       (lambda: model.contacts(state).jvp(qpos=[0.]), "direction of qpos: expected"), (lambda: model.inverse(state, [0.]), "qacc: expected")):
        with pytest.raises(pb.ArgumentError, match=said):
            call()
    with pytest.raises(KeyError, match="no parameter 'body_mas'"):
        model.contacts(state).jvp(params={"body_mas": [0.]})
    assert "floor and ball" in repr(model.contacts(state)) and model.jac(state, "ball").dp is None


# ---- forces that are not unique -----------------------------------------------------------------------------------------------
RIGID = """<mujoco><option timestep=".002"/><worldbody><geom name="floor" type="plane" size="3 3 .1"/>
<body name="b" pos="0 0 {height}"><freejoint/><geom name="b" type="{shape}" size=".1 .1 .1" mass="1"/></body></worldbody></mujoco>"""


def lying(shape, method, height=.0999, seed=2, **more):
    m = pb.loads(RIGID.format(shape=shape, height=height), contact={"method": method}, options={"tolerance": 0, "iterations": 100})
    s, rng = m.init(), np.random.default_rng(seed)
    s.qvel[:] = .03 * rng.normal(size=6)
    return m, s, np.r_[np.zeros(6), rng.normal(size=6)]


@pytest.mark.parametrize("method", ["soft", "cones", "lcp", "sweeps"])
def test_forces_say_whether_they_are_unique(method):
    m, s, _ = lying("box", method)
    assert len(m.contacts(s)) == 4 and m.contacts(s).unique == (method == "soft")
    m, s, _ = lying("sphere", method)
    assert len(m.contacts(s)) == 1 and m.contacts(s).unique
    m, s, _ = lying("box", method, height=1)
    assert len(m.contacts(s)) == 0 and m.contacts(s).unique


@pytest.mark.parametrize("method", ["cones", "lcp"])
@pytest.mark.parametrize("seed", [2, 7, 9])
def test_of_a_box_on_its_face_the_derivative_is_that_of_the_forces_which_are_returned(method, seed):
    """Beside differences over steps that are wide enough: four contacts' forces are known to some 1e-10 N. What they add up to is settled."""
    m, s, way = lying("box", method, seed=seed)
    here = m.contacts(s)
    pushed = here.jvp(way)["force"]
    ahead, behind = (m.contacts(m.integrate(s, h * way)) for h in (1e-5, -1e-5))
    assert not here.unique and np.abs(pushed).max() > 50
    assert np.abs((ahead.force - behind.force) / 2e-5 - pushed).max() < 1e-5 * np.abs(pushed).max()

    def total(force):
        """On the body, about its centre."""
        f = np.einsum("ckx,ck->cx", here.frame, force[:, :3])
        return np.r_[f.sum(0), np.cross(here.pos - s.qpos[:3], f).sum(0)]
    smooth = np.abs(total((ahead.force - behind.force) / 2e-5) - total(pushed)).max()
    assert smooth < 1e-7 * np.abs(pushed).max()


@pytest.mark.parametrize("method", ["cones", "lcp"])
def test_where_they_are_unique_differences_are_close(method):
    m, s, way = lying("sphere", method)
    here = m.contacts(s)
    difference = (m.contacts(m.integrate(s, 1e-6 * way)).force - m.contacts(m.integrate(s, -1e-6 * way)).force) / 2e-6
    assert here.unique and np.abs(difference - here.jvp(way)["force"]).max() < 1e-6 * np.abs(difference).max()
