"""Designs: masses and frames that follow the parameters of meshes and densities. Values against models that are written with
these parameters and compiled; gradients against differences of such models."""
import json

import mujoco
import numpy as np
import pytest

import oracle
import inside
import test_solids

rows = lambda a: " ".join(repr(float(x)) for x in np.ravel(a))
STEPS = (1e-2, 3e-3, 1e-3, 3e-4, 1e-4)
MODES = ("legacy", "exact", "convex", "shell")
MESHES = ("a", "b", "c")


def bumpy(r, stretch=(1, 1, 1), bumps=.15):
    """A closed surface around the origin, not convex: points and triangles that face outwards."""
    point = [[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]]
    face = [(i, j, k) for i in (0, 1) for j in (2, 3) for k in (4, 5)]
    face = [f if np.linalg.det(np.array([point[k] for k in f])) > 0 else f[::-1] for f in face]
    for _ in range(2):
        middle, finer = {}, []
        for f in face:
            for k in range(3):
                edge = frozenset((f[k], f[k - 1]))
                if edge not in middle:
                    middle[edge] = len(point)
                    point.append(list(np.mean([point[v] for v in edge], axis=0)))
            m = [middle[frozenset((f[k], f[k - 1]))] for k in range(3)]
            finer += [(f[0], m[1], m[0]), (f[1], m[2], m[1]), (f[2], m[0], m[2]), tuple(m)]
        face = finer
    point = np.array(point) / np.linalg.norm(point, axis=1)[:, None] * (1 + bumps * r.uniform(-1, 1, (len(point), 1)))
    return point * stretch, face


def left_beside(point, face, mode, scale, refpos, refquat):
    """What MuJoCo's search for principal axes, which ends at 1e-7 of the largest moment, leaves beside the diagonal, as a part of it.
    The derivative of the compile is off by a hundred times its square root and less; exact axes have the one that is given."""
    ctx = inside.native.pbContext_Create(None)
    p = test_solids.properties(ctx, test_solids.solid(point, np.array(face), mode, scale, refpos, refquat))
    inside.native.pbContext_Destroy(ctx)
    xx, yy, zz, xy, xz, yz = p.tensor[:]
    R = np.zeros(9)
    mujoco.mju_quat2Mat(R, np.array(p.quat[:]))
    R = R.reshape(3, 3)
    D = R.T @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ R
    return np.abs(D - np.diag(np.diag(D))).max() / D.max()


def mesh(name, point, face, mode, scale=(1, 1, 1), refpos=(0, 0, 0), refquat=(1, 0, 0, 0)):
    faces = f'face="{" ".join(str(k) for f in face for k in f)}"' if face else ""
    return (f'<mesh name="{name}" inertia="{mode}" vertex="{rows(point)}" {faces} scale="{rows(scale)}" refpos="{rows(refpos)}" '
            f'refquat="{rows(refquat)}"/>')


# An arm: several geoms in a body, two of one mesh, a mass instead of a density, a stated inertia, a geom that is dropped; and
# bodies that are free.
SCENE = """<mujoco><compiler discardvisual="{drop}"/><option timestep=".005" integrator="{integrator}"/><asset>{meshes}</asset>
<default><geom contype="{touch}" conaffinity="{touch}" friction=".8 .01 .001"/></default>
<worldbody><geom type="plane" size="9 9 1" pos="0 0 -{floor}"/><body name="arm" pos="0 0 .5" euler="10 20 30"><joint name="j1" axis="0 1 .2" damping=".02"/>
<geom name="g1" type="mesh" mesh="a" pos=".1 .02 0" euler="30 0 10" density="{g1}"/><geom name="g2" type="mesh" mesh="a" pos=".25 0 .03" euler="0 50 0" density="{g2}"/>
<geom name="g3" type="capsule" size=".02 .08" pos=".1 0 .05" density="{g3}"/><geom name="shown" type="mesh" mesh="c" pos="0 .1 0" contype="0" conaffinity="0" density="300"/>
<body name="fore" pos=".4 0 0"><joint name="j2" axis=".3 0 1" damping=".01" frictionloss=".001"/><geom name="g4" type="mesh" mesh="b" mass=".7" pos=".05 .01 0" euler="5 6 7"/>
<geom type="box" size=".02 .03 .04" pos=".1 .05 0" mass=".2"/><site name="tip" pos=".2 0 0"/>
<body name="stated" pos=".2 0 0"><joint name="j3" axis="0 1 0"/><inertial pos=".01 0 .02" mass=".3" diaginertia=".001 .002 .0015"/>
<geom name="g5" type="mesh" mesh="b" euler="0 0 40"/></body></body></body>
<body name="free" pos="1 0 .3" euler="20 10 0"><freejoint/><geom name="g6" type="mesh" mesh="a" pos=".02 .01 .03" density="{g6}"/></body>
<body name="pair" pos="1 1 .3" euler="0 30 0"><joint type="ball" damping=".005"/><geom name="g7" type="mesh" mesh="b" pos=".1 0 0" density="{g7}"/>
<geom name="g8" type="mesh" mesh="c" pos="-.1 .02 0" euler="0 70 0" mass=".4"/></body></worldbody>
<tendon><fixed name="t"><joint joint="j1" coef="1"/><joint joint="j2" coef="-.5"/></fixed></tendon>
<actuator><motor tendon="t" gear=".4"/></actuator><equality><weld body1="stated" body2="free" active="{weld}"/></equality>
<sensor><framepos objtype="geom" objname="g2"/><framequat objtype="geom" objname="g4"/><framepos objtype="body" objname="arm"/><framexaxis objtype="body" objname="pair"/>
<subtreeangmom body="arm"/><subtreecom body="fore"/><force site="tip"/><framelinacc objtype="geom" objname="g6"/></sensor></mujoco>"""


class Scene:
    """A model as a function of its mesh parameters and densities."""
    DENSITY = {"g1": 700., "g2": 900., "g3": 500., "g6": 800., "g7": 600.}

    def __init__(self, seed, mode, integrator="implicitfast", touch=0, drop="false", weld="false", shapes=None):
        r = np.random.default_rng(seed)
        self.mode, self.form = mode, dict(integrator=integrator, touch=touch, drop=drop, floor=9 if not touch else .1, weld=weld)
        turn = r.standard_normal((3, 4))
        self.shape = shapes
        self.value = {"mesh_scale": r.uniform(.8, 1.2, (3, 3)) * [[1, 1, 1], [1, -1, 1], [1, 1, 1]],
                      "mesh_refpos": .02 * r.standard_normal((3, 3)), "mesh_refquat": turn / np.linalg.norm(turn, axis=1)[:, None],
                      "geom_density": dict(self.DENSITY)}
        if not shapes:
            self.shape = [self.draw(r, i) for i in range(3)]

    def draw(self, r, i):
        """A shape whose axes are found to rounding."""
        for _ in range(200):
            shape = bumpy(r, .1 * r.uniform(.5, 1.5, 3))
            place = [self.value[n][i] for n in ("mesh_scale", "mesh_refpos", "mesh_refquat")]
            if left_beside(*shape, self.mode, *place) < 5e-11:
                return shape
        raise AssertionError("no shape")

    def text(self, value=None):
        v = value or self.value
        meshes = [mesh(n, *self.shape[i], self.mode, v["mesh_scale"][i], v["mesh_refpos"][i], v["mesh_refquat"][i]) for i, n in enumerate(MESHES)]
        return SCENE.format(meshes="".join(meshes), **self.form, **v["geom_density"])

    def model(self, folder, value=None, **more):
        (folder / "m.xml").write_text(self.text(value))
        return inside.Model(str(folder / "m.xml"), **more)

    def moved(self, way, e):
        v = {k: self.value[k] + e * way[k] for k in ("mesh_scale", "mesh_refpos", "mesh_refquat")}
        v["geom_density"] = {k: d + e * way["geom_density"][k] for k, d in self.DENSITY.items()}
        return v

    def way(self, r, fields):
        """A direction of some of them."""
        one = lambda name, size: size * r.standard_normal(self.value[name].shape) * (name in fields)
        turn = one("mesh_refquat", .3)
        return {"mesh_scale": one("mesh_scale", .3), "mesh_refpos": one("mesh_refpos", .05), "mesh_refquat": turn,
                "geom_density": {k: 300 * r.standard_normal() * ("geom_density" in fields) for k in self.DENSITY}}


def geoms_of(model):
    return {model_name(model, inside.native.pb_objGeom, i): i for i in range(len(model.fields()["geom_type"]))}


def model_name(model, kind, i):
    return inside.native.pbModel_Name(model.ptr, kind, i).decode()


def put(model, theta, v):
    """The parameters into theta, or a direction of them."""
    geoms = geoms_of(model)
    for name in ("mesh_scale", "mesh_refpos", "mesh_refquat"):
        model.param(theta, name)[:] = v[name]
    for k, d in v["geom_density"].items():
        model.param(theta, "geom_density")[geoms[k], 0] = d
    return theta


def derive(model, theta):
    theta = theta.copy()
    inside.native.pbModel_SetConstants(model.ctx, model.ptr, theta)
    return theta


FOLLOWS = ("body_mass", "body_ipos", "body_inertia", "body_subtreemass", "body_invweight0", "dof_invweight0", "tendon_invweight0", "geom_pos", "eq_data", "actuator_acc0")


def same_rotation(a, b):
    """Quaternions up to their sign and to quarter turns that exchange principal axes: as matrices of squares."""
    return np.abs(np.abs(np.sum(a * b, axis=1)) - 1).max()


@pytest.mark.parametrize("drop", ["false", "true"])
@pytest.mark.parametrize("mode", MODES)
def test_values_are_those_of_a_model_that_states_them(tmp_path, mode, drop):
    scene, r = Scene(1, mode, drop=drop, touch=int(drop == "true")), np.random.default_rng(5)
    model = scene.model(tmp_path, design=True)
    assert np.array_equal(derive(model, model.theta), model.theta)
    for size in (1e-3, .1, .3):
        value = scene.moved(scene.way(r, scene.value), size)
        other = scene.model(tmp_path, value)
        theta = derive(model, put(model, model.theta.copy(), value))
        for name in FOLLOWS:
            ours, theirs = model.param(theta, name), other.param(other.theta, name)
            assert np.abs(ours - theirs).max() <= 1e-9 * np.abs(theirs).max(), (name, size)
        for name in ("body_iquat", "geom_quat"):
            assert same_rotation(model.param(theta, name), other.param(other.theta, name)) < 1e-9, (name, size)
        assert np.array_equal(derive(model, theta), theta)  # once more changes nothing


def final(model, steps, bar, theta=None, base=None):
    """bar . (state and last sensors) after a rollout from a start that is the same in all models."""
    run = inside.Rollout(model, steps)
    x = model.move(model.init(), np.concatenate([np.zeros(model.nv), np.linspace(.5, -.7, model.nv)]), 1.0)
    return run, x, run.forward(x, ctrl=np.full((steps, model.nu), .3), theta=theta)


def loss(model, steps, bar, base, theta=None):
    _, x, end = final(model, steps, bar, theta)
    sensors = model.observe(end, ctrl=np.full(model.nu, .3), theta=theta)
    return bar[:model.nt] @ model.difference(base, end) + bar[model.nt:] @ sensors


def gradient(model, steps, bar, base):
    """Of the same by theta, through the constants: of the last state by the rollout, of the sensors there by one more step."""
    theta = derive(model, model.theta)
    run, x, end = final(model, steps, bar, theta)
    _, _, record = model.step_recorded(end, ctrl=np.full(model.nu, .3), theta=theta)
    last = model.vjp(record, np.zeros(model.nt), sensordata=bar[model.nt:], ctrl=np.full(model.nu, .3), theta=theta)
    total = last["theta"].copy()
    seed = last["x"] + bar[:model.nt]  # the base is the end itself
    assert np.array_equal(base, end)
    run.forward(x, ctrl=np.full((steps, model.nu), .3), theta=theta)
    x0, theta_bar, _ = run.vjp(x=seed)
    total += theta_bar
    inside.native.pbModel_SetConstantsVjp(model.ctx, model.ptr, model.theta, total)
    return total


@pytest.mark.parametrize("integrator", ["Euler", "implicitfast", "RK4"])
@pytest.mark.parametrize("mode", MODES)
def test_gradients_are_those_of_compiled_models(tmp_path, mode, integrator):
    """Differences of rollouts of models that are written and compiled; forward derivatives; nothing is moved by hand."""
    seed = 10 + MODES.index(mode)
    scene, r, steps = Scene(seed, mode, integrator, weld="true" if integrator == "Euler" else "false"), np.random.default_rng(seed), 12
    model = scene.model(tmp_path, design=True)
    bar = r.standard_normal(model.nt + model.nsensordata) * np.r_[np.ones(model.nt), np.full(model.nsensordata, .3)]
    base = final(model, steps, bar)[2]
    g = gradient(model, steps, bar, base)
    for fields in [(f,) for f in scene.value] + [tuple(scene.value)]:
        way = scene.way(r, fields)
        value, error = oracle.quotient(lambda e: np.array([loss(scene.model(tmp_path, scene.moved(way, e)), steps, bar, base)]), STEPS)
        direction = put(model, np.zeros(model.ntheta), way)
        exact, size = g @ direction, np.abs(g * direction).sum()
        print(mode, integrator, fields, exact, value[0] / exact - 1, error[0] / abs(exact))
        assert abs(value[0] - exact) < 1e-6 * size, (fields, value, exact)

        # Forward, by the constants and the run.
        pushed, run = direction.copy(), final(model, steps, bar)[0]
        inside.native.pbModel_SetConstantsJvp(model.ctx, model.ptr, model.theta, pushed)
        by_state = bar[:model.nt] @ run.jvp(theta=pushed)[-1]
        only = np.r_[bar[:model.nt], np.zeros(model.nsensordata)]
        assert abs(by_state - gradient(model, steps, only, base) @ direction) < 1e-9 * size, fields


# ---- contact, exposed vertices -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("method", ["soft", "cones", "penalty", "lcp", "sweeps"])
def test_gradients_in_contact(tmp_path, method):
    """Against differences of own rollouts whose constants follow: the test of values holds these to compiled models, whose vertices
    are rounded to single precision."""
    scene, r, steps = Scene(3, "convex", touch=1), np.random.default_rng(7), 8
    contact = {"method": method} if method != "penalty" else {"method": method, "stiffness": 3000, "damping": 30, "width": .01}
    model = scene.model(tmp_path, design=True, expose=["mesh_vert:a"], contact=contact)
    start, bar = model.init(), r.standard_normal(model.nt)
    for _ in range(70):
        start = model.step(start)[0]
    run = inside.Rollout(model, steps)
    end = lambda theta: run.forward(start, theta=derive(model, theta))
    base = end(model.theta)
    assert model.step(start) and model.report().contacts >= 1
    _, g, _ = run.vjp(x=bar)
    inside.native.pbModel_SetConstantsVjp(model.ctx, model.ptr, model.theta, g)
    for fields in [(f,) for f in scene.value] + [("mesh_vert:a",)]:
        way = put(model, np.zeros(model.ntheta), scene.way(r, fields))
        if fields == ("mesh_vert:a",):
            model.param(way, "mesh_vert:a")[:] = .05 * r.standard_normal(model.param(way, "mesh_vert:a").shape)
        value, error = oracle.quotient(lambda e: np.array([bar @ model.difference(base, end(model.theta + e * way))]), [s / 30 for s in STEPS])
        end(model.theta)
        pushed = way.copy()
        inside.native.pbModel_SetConstantsJvp(model.ctx, model.ptr, model.theta, pushed)
        exact, size, forward = g @ way, np.abs(g * way).sum(), bar @ run.jvp(theta=pushed)[-1]
        print(method, fields, exact, value[0] / exact - 1, error[0] / abs(exact), forward / exact - 1)
        assert abs(forward - exact) < 1e-9 * size, fields
        assert error[0] < 1e-6 * size and abs(value[0] - exact) < 1e-6 * size, (fields, value, exact)


def before_a_touch(model, most):
    """The state two steps before the first at which something touches."""
    x = [model.init()]
    for _ in range(most):
        x.append(model.step(x[-1])[0])
        if model.report().contacts:
            return x[-4]
    raise AssertionError("nothing touches")


@pytest.mark.parametrize("kind, method", [("event", m) for m in ("soft", "cones", "lcp", "sweeps", "penalty")] + [("smooth", "soft"), ("exact", "impact")])
def test_gradients_with_events(tmp_path, kind, method):
    """Through a touch: forward mode against reverse mode; with impacts, whose times move, against differences, too."""
    scene, r, steps = Scene(3, "convex", touch=1), np.random.default_rng(8), 6
    contact = {"method": method} | ({"restitution": .7} if method == "impact" else {})
    model = scene.model(tmp_path, design=True, expose=["mesh_vert:a"], contact=contact)
    start = before_a_touch(model, 200)
    run, bar = inside.Rollout(model, steps), r.standard_normal(model.nt)
    end = lambda theta: run.forward(start, theta=derive(model, theta))
    base = end(model.theta)
    _, g, certificate = run.vjp(kind, x=bar)
    assert kind != "event" or method == "penalty" or certificate.events > 0
    inside.native.pbModel_SetConstantsVjp(model.ctx, model.ptr, model.theta, g)
    for fields in [(f,) for f in scene.value] + [("mesh_vert:a",)]:
        way = put(model, np.zeros(model.ntheta), scene.way(r, fields))
        if fields == ("mesh_vert:a",):
            model.param(way, "mesh_vert:a")[:] = .05 * r.standard_normal(model.param(way, "mesh_vert:a").shape)
        pushed = way.copy()
        inside.native.pbModel_SetConstantsJvp(model.ctx, model.ptr, model.theta, pushed)
        exact, size = g @ way, np.abs(g * way).sum()
        assert size > 0 and abs(bar @ run.jvp(kind, theta=pushed)[-1] - exact) < 1e-9 * size, fields
        if kind == "exact":
            value, error = oracle.quotient(lambda e: np.array([bar @ model.difference(base, end(model.theta + e * way))]), (1e-4, 1e-5, 1e-6))
            end(model.theta)
            assert error[0] < 1e-6 * size and abs(value[0] - exact) < 1e-6 * size, (fields, value, exact, error)


def test_exposed_vertices_carry_mass_along(tmp_path):
    """As a file that states them."""
    scene, r = Scene(4, "exact", touch=1), np.random.default_rng(2)
    model = scene.model(tmp_path, design=True, expose=["mesh_vert:b"])
    theta, fields = model.theta.copy(), model.fields()
    # Bent a little, and single vertices by less than what turns an edge of the hull inward.
    vertices = model.param(theta, "mesh_vert:b")
    change = vertices @ (.03 * r.standard_normal((3, 3))) + 3e-5 * r.standard_normal(vertices.shape)
    model.param(theta, "mesh_vert:b")[:] += change
    rotation = lambda q: turn(q)
    F = rotation(scene.value["mesh_refquat"][1]) @ np.diag(1 / scene.value["mesh_scale"][1]) @ rotation(fields["mesh_quat"][1])
    scene.shape[1] = (scene.shape[1][0] + change @ F.T, scene.shape[1][1])
    other, theta = scene.model(tmp_path), derive(model, theta)
    for name in FOLLOWS:
        assert np.abs(model.param(theta, name) - other.param(other.theta, name)).max() < 3e-7 * np.abs(other.param(other.theta, name)).max(), name


def turn(q):
    R = np.zeros(9)
    mujoco.mju_quat2Mat(R, np.array(q))
    return R.reshape(3, 3)


# ---- equal moments ---------------------------------------------------------------------------------------------------------
def cube(half):
    corner = np.array([[x, y, z] for z in (-1, 1) for y in (-1, 1) for x in (-1, 1)]) * half
    quads = [(0, 2, 3, 1), (4, 5, 7, 6), (0, 1, 5, 4), (2, 6, 7, 3), (0, 4, 6, 2), (1, 3, 7, 5)]
    return corner, [t for a, b, c, d in quads for t in ((a, b, c), (a, c, d))]


@pytest.mark.parametrize("integrator", ["Euler", "implicitfast", "RK4"])
@pytest.mark.parametrize("half, warns", [((.125, .125, .125), True), ((.125, .125, .25), True), ((.125, .1875, .25), False)])
def test_where_moments_agree_the_tensor_counts(tmp_path, half, warns, integrator):
    """A derivative by vertices turns the axes of a cube at once; that of its motion, and of its angular momentum, is there all the
    same, and it is said."""
    point, face = cube(half)
    text = """<mujoco><option timestep=".01" integrator="%s"/><asset>%s</asset><worldbody><body name="arm" pos="0 0 1" euler="10 20 30">
<joint type="ball" pos=".1 .05 -.1" damping=".01"/>%s<geom name="g" type="mesh" mesh="m"/></body><body name="free" pos="1 0 0" euler="40 0 10"><freejoint/>%s
<geom name="h" type="mesh" mesh="m" pos=".05 .1 0"/></body></worldbody><sensor><subtreeangmom body="arm"/><e_kinetic/></sensor></mujoco>"""
    turned = dict(refquat=(1, .2, .3, .1))

    def write(v, stated):
        """The inertia that the mesh has, or stated in full: MuJoCo's search for a mesh's axes leaves 1e-7 of it."""
        inertial = ["", ""]
        if stated:
            ctx = inside.native.pbContext_Create(None)
            p = test_solids.properties(ctx, test_solids.solid(v, np.array(face), "exact", **turned))
            inside.native.pbContext_Destroy(ctx)
            inertial = [f'<inertial mass="{1000 * p.volume!r}" pos="{rows(np.array(p.center[:]) + at)}" fullinertia="{rows(1000 * np.array(p.tensor[:]))}"/>'
                        for at in ((0, 0, 0), (.05, .1, 0))]
        (tmp_path / "m.xml").write_text(text % (integrator, mesh("m", v, face, "exact", **turned), *inertial))
    write(point, False)
    model, r, steps = inside.Model(str(tmp_path / "m.xml"), design=True, expose=["mesh_vert:m"]), np.random.default_rng(1), 8
    bar = r.standard_normal(model.nt + 4)
    x = model.move(model.init(), np.r_[np.zeros(model.nv), 3 * r.standard_normal(model.nv)], 1.0)

    def end(m, theta=None):
        y = inside.Rollout(m, steps).forward(x, theta=theta)
        return y, m.observe(y, theta=theta)
    base, sensed = end(model)
    run = inside.Rollout(model, steps)
    run.forward(x)
    _, _, record = model.step_recorded(base)
    g = model.vjp(record, np.zeros(model.nt), sensordata=bar[model.nt:])
    _, theta_bar, _ = run.vjp(x=g["x"] + bar[:model.nt])
    total = g["theta"] + theta_bar
    inside.native.pbModel_SetConstantsVjp(model.ctx, model.ptr, model.theta, total)
    assert ("body 'arm': two principal moments agree" in model.warnings()) == warns, model.warnings()
    assert model.warnings().count("'arm'") == warns

    # The file's points move; compiled, the frame of the geoms jumps, but no body and no momentum does.
    d = .02 * r.standard_normal(point.shape)
    way = np.zeros(model.ntheta)
    q = np.array([1, .2, .3, .1]) / np.linalg.norm([1, .2, .3, .1])
    model.param(way, "mesh_vert:m")[:] = d @ (turn(q) @ turn(model.fields()["mesh_quat"][0]))

    def value(e):
        write(point + e * d, True)
        y, s = end(inside.Model(str(tmp_path / "m.xml")))
        return np.array([bar[:model.nt] @ model.difference(base, y) + bar[model.nt:] @ (s - sensed)])
    slope, error = oracle.quotient(value, (.3, .1, .03, .01))
    exact, size = total @ way, np.abs(total * way).sum()
    pushed = way.copy()
    inside.native.pbModel_SetConstantsJvp(model.ctx, model.ptr, model.theta, pushed)
    run.forward(x)
    tangent = run.jvp(theta=pushed)[-1]
    forward = bar[:model.nt] @ tangent + bar[model.nt:] @ model.jvp(record, tangent, d_theta=pushed)[1]
    print(half, integrator, exact, slope[0] / exact - 1, error[0] / abs(exact), forward / exact - 1)
    assert abs(forward - exact) < 1e-10 * size
    assert abs(slope[0] - exact) < 1e-8 * size, (slope, exact)


# ---- programs --------------------------------------------------------------------------------------------------------------
def test_commands_follow_a_design(run, tmp_path):
    scene = Scene(6, "legacy")
    (tmp_path / "m.xml").write_text(scene.text())
    model = tmp_path / "m.xml"
    np.savez(tmp_path / "c.npz", qvel=np.ones(14 - 2))
    plain, design = ["gradient", model, "--steps", 5, "--cotangent", tmp_path / "c.npz", "-o", tmp_path / "g.npz"], ["--design", "--wrt", "mesh_scale,geom_density:g1,body_mass"]
    run(*plain, *design)
    g = np.load(tmp_path / "g.npz")
    bodies = json.loads(run("info", model, "--json").stdout)
    assert np.abs(g["param/mesh_scale"]).min() > 0 and g["param/geom_density:g1"].size == 1 and g["param/geom_density:g1"].ravel()[0] != 0
    mass = g["param/body_mass"].ravel()
    assert mass[1] == 0 and mass[3] != 0 and bodies  # that of "arm" follows, that of "stated" does not
    assert "no row" in run(*plain, "--wrt", "geom_density:g1", code=2).stderr
    assert "follows from other parameters" in run(*plain, "--design", "--wrt", "body_mass:arm", code=2).stderr
    assert "follow its parameters" in run(*plain, "--design", "--constants", "keep", code=2).stderr
    assert "follows from other parameters" in run(*plain, "--design", "--param", "body_mass:arm=2", code=2).stderr
    assert "geom_density:g4 has no effect" in run("simulate", model, "--design", "--param", "geom_density:g4=2", "-o", tmp_path / "s.npz", code=3).stderr
    run("check", model, "--design", "--horizon", 5)

    # A simulation with a scale is that of the model that states it, from a task, too.
    value = {**scene.value, "mesh_scale": scene.value["mesh_scale"] * [[1.1, 1, .9], [1, 1.2, 1], [1, 1, 1]]}
    (tmp_path / "n.xml").write_text(scene.text(value))
    scale = ",".join(repr(float(s)) for s in value["mesh_scale"].ravel())
    run("simulate", tmp_path / "n.xml", "--steps", 20, "-o", tmp_path / "n.npz")
    run("simulate", model, "--design", "--param", "mesh_scale=" + scale, "--steps", 20, "-o", tmp_path / "s.npz")
    task = {"model": "m.xml", "design": True, "steps": 20, "parameters": {"mesh_scale": value["mesh_scale"].ravel().tolist()},
            "variables": [{"parameter": "mesh_scale:a"}], "loss": [{"body": "fore", "target": [.3, 0, .2]}], "optimizer": {"method": "lbfgs", "iterations": 5}}
    (tmp_path / "t.json").write_text(json.dumps(task))
    run("simulate", tmp_path / "t.json", "-o", tmp_path / "t.npz")
    wanted = np.load(tmp_path / "n.npz")["qpos"]
    for name in ("s.npz", "t.npz"):
        assert np.abs(np.load(tmp_path / name)["qpos"] - wanted).max() < 1e-9, name

    run("optimize", tmp_path / "t.json", "-o", tmp_path / "r.json")
    result = json.loads((tmp_path / "r.json").read_text())
    assert result["loss"] < result["start_loss"]
    for changed, text in (({"constants": "keep"}, "a design needs it"), ({"variables": [{"parameter": "body_mass"}]}, "follows from other parameters"), ({"design": 3}, "design")):
        (tmp_path / "u.json").write_text(json.dumps({**task, **changed}))
        assert text in run("optimize", tmp_path / "u.json", "-o", tmp_path / "u.out.json", code=3).stderr


def test_batches_of_designs(run, tmp_path):
    """Each world with meshes and densities of its own, as if alone, to the bit."""
    scene, r, worlds = Scene(8, "convex", touch=1), np.random.default_rng(3), 3
    model = scene.model(tmp_path, design=True)
    own = [put(model, model.theta.copy(), scene.moved(scene.way(r, scene.value), .1)) for _ in range(worlds)]
    bar = r.standard_normal((worlds, model.nv))
    names = ("mesh_scale", "mesh_refquat", "mesh_refpos", "geom_density")
    np.savez(tmp_path / "w.npz", **{"param/" + n: np.array([model.param(t, n) for t in own]) for n in names})
    np.savez(tmp_path / "bar.npz", qvel=bar)
    run("gradient", tmp_path / "m.xml", "--design", "--worlds", tmp_path / "w.npz", "--steps", 10, "--cotangent", tmp_path / "bar.npz", "--threads", 2, "-o", tmp_path / "g.npz")
    g, alone = np.load(tmp_path / "g.npz"), inside.Rollout(model, 10)
    for k in range(worlds):
        alone.forward(model.init(), theta=derive(model, own[k]))
        _, theta_bar, _ = alone.vjp(qvel=bar[k])
        inside.native.pbModel_SetConstantsVjp(model.ctx, model.ptr, own[k], theta_bar)
        for n in names:
            assert np.array_equal(g["param/" + n][k], model.param(theta_bar, n)), (k, n)


BODY = '<mujoco><compiler {c}/><asset>{m}</asset><worldbody><body name="b"><freejoint {j}/>{i}<geom name="g" type="mesh" mesh="m" {g}/>{more}</body></worldbody></mujoco>'


@pytest.mark.parametrize("parts, text", [
    (dict(more='<geom type="box" mesh="m"/>'), "fitted to a mesh"),
    (dict(j='align="true"'), "joint align"), (dict(c='boundmass="99"'), "bounded or balanced"),
    (dict(c='fusestatic="true"', i='<inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>', more='<body><geom type="mesh" mesh="m"/></body>'), "stated in part")])
def test_what_a_design_cannot_follow(run, tmp_path, parts, text):
    form = dict(dict(c="", j="", i="", g="", more="", m=mesh("m", *cube(.1), "exact")), **parts)
    (tmp_path / "m.xml").write_text(BODY.format(**form))
    run("info", tmp_path / "m.xml")
    said = run("info", tmp_path / "m.xml", "--design", code=3).stderr
    assert text in said and "body 'b'" in said and "which a design cannot follow" in said


def test_meshes_that_are_none_any_more(tmp_path):
    (tmp_path / "m.xml").write_text(BODY.format(c="", j="", i="", g="", more="", m=mesh("m", *cube(.1), "exact")))
    model = inside.Model(str(tmp_path / "m.xml"), design=True)
    for name, value, text in (("mesh_scale", 1e-7, "mesh 'm'"), ("geom_density", 0, "weighs"), ("mesh_scale", -1, "signs")):
        theta = model.theta.copy()
        model.param(theta, name)[:] = value
        with pytest.raises(inside.Error, match=text):
            derive(model, theta)
