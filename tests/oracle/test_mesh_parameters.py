"""mesh_scale, mesh_refpos, mesh_refquat as parameters: gradients against differences of the program's own steps, where hulls meet
planes, balls, hulls, other shapes, height fields and deformables; as they were compiled, and moved."""
import numpy as np
import pytest

import deform
import oracle
import pb
from test_mesh_contact import inline, rows, shape

STEPS = (3e-4, 1e-4, 3e-5, 1e-5, 3e-6)
FIELDS = ("mesh_scale", "mesh_refpos", "mesh_refquat")
SCENE = """<mujoco><option timestep=".004" cone="{cone}"/><asset>{meshes}
<hfield name="hills" nrow="4" ncol="4" size=".8 .8 .1 .1" elevation="0 .1 .2 0  .3 .2 .1 .2  .1 0 .2 .1  0 .2 .1 .3"/></asset>
<default><geom friction=".7 .01 .001" condim="4" density="500"/></default>
<worldbody><geom type="plane" size="3 3 1" euler="2 3 0"/><geom type="hfield" hfield="hills" pos="2 0 .1"/>
<geom type="mesh" mesh="b" pos="0 1 .1" euler="10 0 20"/>
<body pos="0 0 .16" euler="20 30 0"><freejoint/><geom type="mesh" mesh="a"/></body>
<body pos=".05 .02 .42" euler="50 0 10"><freejoint/><geom type="mesh" mesh="a" pos=".02 0 0" euler="0 40 0"/></body>
<body pos=".03 1 .36" euler="10 70 0"><freejoint/><geom type="mesh" mesh="a"/></body>
<body pos=".5 0 .1"><freejoint/><geom type="mesh" mesh="b"/></body>
<body pos=".5 .02 .3"><freejoint/><geom type="sphere" size=".1"/></body>
<body pos=".02 .05 .63" euler="80 10 0"><freejoint/><geom type="capsule" size=".05 .12"/></body>
<body pos="2 .1 .42" euler="15 20 0"><freejoint/><geom type="mesh" mesh="b"/></body>
<body pos=".9 .4 .1"><freejoint/><geom type="box" size=".1 .12 .1"/></body>
<body pos=".93 .42 .33" euler="10 30 0"><freejoint/><geom type="mesh" mesh="b"/></body></worldbody></mujoco>"""


def ball(points):
    points = points - points.mean(axis=0)
    return .14 * points / np.linalg.norm(points, axis=1).max()


def scene(seed):
    """Two assets, of which one has three geoms and the other four."""
    r = np.random.default_rng(seed)
    mesh = lambda name, kind: inline(ball(shape(r, kind)), name=name, more=f'scale="{rows(r.uniform(.8, 1.2, 3) * [1, -1, 1])}" '
                                     f'refpos="{rows(r.uniform(-.05, .05, 3))}" refquat="{rows(r.standard_normal(4))}" inertia="convex"')
    return SCENE.format(cone=("elliptic", "pyramidal")[seed % 2], meshes=mesh("a", 0) + mesh("b", 3))


def direction(model, theta, r, fields=FIELDS):
    """Of parameters of meshes; quaternions turn."""
    way = np.zeros(model.ntheta)
    for name in fields:
        part = model.param(way, name)
        part[:] = r.standard_normal(part.shape) * (.1 if name == "mesh_refpos" else 1)
        if name == "mesh_refquat":
            q = model.param(theta, name)
            part -= q * np.sum(part * q, axis=1, keepdims=True) / np.sum(q * q, axis=1, keepdims=True)
    return way


def other(model, r):
    """The parameters of meshes somewhat changed."""
    theta = model.theta.copy()
    model.param(theta, "mesh_scale")[:] *= r.uniform(.95, 1.05, model.param(theta, "mesh_scale").shape)
    model.param(theta, "mesh_refpos")[:] += .005 * r.standard_normal(model.param(theta, "mesh_refpos").shape)
    theta += .03 * direction(model, theta, r, ("mesh_refquat",))
    return theta


@pytest.mark.parametrize("moved", [False, True], ids=["compiled", "moved"])
@pytest.mark.parametrize("seed", range(3))
def test_gradients_are_those_of_differences(tmp_path, seed, moved, long_run):
    (tmp_path / "m.xml").write_text(scene(seed))
    model, r = pb.Model(str(tmp_path / "m.xml")), np.random.default_rng(seed + 5)
    theta = other(model, r) if moved else model.theta
    x, most, kept, left = model.init(), 0, 0, []
    for step in range(400 if long_run else 100):
        x, _ = model.step(x, theta=theta)
        if step % 20 != 19 or model.report().contacts < 5:
            continue
        w, base = r.standard_normal(model.nt), model.step(x, theta=theta)[0]
        _, _, record = model.step_recorded(x, theta=theta)
        most = max(most, model.report().contacts)
        bar = model.vjp(record, w, theta=theta)
        for fields in [(f,) for f in FIELDS] + [()]:
            way, dx = direction(model, theta, r, fields), .03 * r.standard_normal(model.nt) * (not fields)
            pushed = model.jvp(record, dx, d_theta=way, theta=theta)[0] @ w
            exact = bar["x"] @ dx + bar["theta"] @ way
            assert abs(pushed - exact) < 1e-10 * (np.abs(bar["x"] * dx).sum() + np.abs(bar["theta"] * way).sum()), (step, fields)
            value, error = oracle.quotient(lambda e: np.array([w @ model.difference(base, model.step(model.move(x, dx, e), theta=theta + e * way)[0])]), STEPS)
            if error[0] > 3e-7 * (abs(exact) + .1):
                left.append((step, fields, f"{error[0] / abs(exact):.0e}"))
                continue
            kept += 1
            assert abs(value[0] - exact) < 1e-6 * (abs(exact) + .1), (step, fields, value, exact)
    print(f"up to {most} contacts; {kept} quotients, left out (they do not settle): {left}")
    assert most >= 7 and len(left) <= kept / 4


# A net on a hull: of a body that moves, and of one that rests.
NET = """<mujoco><option timestep=".005"/><asset>{mesh}</asset><worldbody><geom type="plane" size="5 5 .1" pos="0 0 -2"/>
<body name="arm" pos="0 0 .3"><joint type="hinge" axis="0 1 0" damping=".02"/><geom type="capsule" size=".02" fromto="0 0 0 .3 0 0" mass=".3"/>
<body pos=".3 0 0" quat=".99 .1 0 .1"><joint type="ball" damping=".01"/><geom name="{name}" type="mesh" mesh="palm" pos=".03 0 .01" mass=".2"/>
</body></body><body pos=".3 .01 .3" euler="3 4 5"><geom name="{rest}" type="mesh" mesh="palm"/></body></worldbody></mujoco>"""


@pytest.mark.parametrize("moves", [True, False])
def test_a_net_on_a_mesh(moves):
    r = np.random.default_rng(2)
    points = np.array([[x, y, z] for z in (-.02, .02) for y in (-.04, .04) for x in (-.03, .03)]) + .003 * r.standard_normal((8, 3))
    mesh = inline(points, name="palm", more='scale="1.1 .9 1" refpos=".01 0 .002" refquat="1 .02 .03 .1"')
    names = dict(name="geom", rest="still") if moves else dict(name="still", rest="geom")
    w = deform.World(.005, model=NET.format(mesh=mesh, **names))
    grid = np.array([[.24 + .03 * i, -.06 + .03 * j, .345 + .001 * r.uniform()] for j in range(5) for i in range(5)])
    corner = [(i + 5 * j, i + 5 * j + 1, i + 5 * j + 6, i + 5 * j + 5) for j in range(4) for i in range(4)]
    w.points(grid, .002, velocity=np.tile([.1, 0, -.3], (25, 1)))
    w.energy("net", "0.5*k*(norm(x0-x1)-l)^2", [e for a, b, c, d in corner for e in ((a, b), (a, d), (a, c))], k=40., l=.03)
    net = w.surface([t for a, b, c, d in corner for t in ((a, b, c), (a, c, d))], radius=.001)
    assert w.geom("geom") != net
    w.contact(.006, 100, .3, .02, "lagged")
    w.freeze(gradient_tolerance=1e-10)
    run, theta = deform.Rollout(w, 12), other(w, r)
    for th in (w.theta, theta):
        states, bar = run.run(theta=th), r.standard_normal((w.n, 3))
        g = run.pull(points=bar)
        assert run.certificate.most_contacts >= 3
        for fields in [(f,) for f in FIELDS]:
            way = direction(w, th, r, fields)
            value, error = oracle.quotient(lambda e: np.array([np.sum(bar * (w.x(run.run(theta=th + e * way)[-1]) - w.x(states[-1])))]), STEPS)
            run.run(theta=th)
            exact, pushed = g["theta"] @ way, run.jvp(theta=way)[-1][2 * w.nv + w.na:][:3 * w.n] @ bar.ravel()
            print(moves, fields, exact, value[0] / exact - 1, error[0] / exact)
            assert abs(pushed - exact) < 1e-9 * abs(exact) and abs(value[0] - exact) < 1e-6 * abs(exact), (fields, value, exact, pushed)


def test_batches_of_worlds_with_their_own_meshes(run, tmp_path):
    """Each as if alone, to the bit."""
    (tmp_path / "m.xml").write_text(scene(1))
    model, r, worlds, steps = pb.Model(str(tmp_path / "m.xml")), np.random.default_rng(3), 5, 60
    own = np.array([other(model, r) for _ in range(worlds)])
    own = {name: np.array([model.param(theta, name) for theta in own]) for name in FIELDS}
    bar = r.standard_normal((worlds, model.nv))
    np.savez(tmp_path / "w.npz", **{"param/" + name: value for name, value in own.items()})
    np.savez(tmp_path / "bar.npz", qvel=bar)
    run("gradient", tmp_path / "m.xml", "--worlds", tmp_path / "w.npz", "--steps", steps, "--cotangent", tmp_path / "bar.npz", "--threads", 2, "-o", tmp_path / "g.npz")
    g, alone = np.load(tmp_path / "g.npz"), pb.Rollout(model, steps)
    for k in range(worlds):
        theta = model.theta.copy()
        for name in FIELDS:
            model.param(theta, name)[:] = own[name][k]
        alone.forward(model.init(), theta=theta)
        _, theta_bar, _ = alone.vjp(qvel=bar[k])
        for name in FIELDS:
            assert np.array_equal(g["param/" + name][k], model.param(theta_bar, name)), (k, name)
            assert np.abs(g["param/" + name][k]).min() > 0
