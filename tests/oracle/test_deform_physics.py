"""Deformables against closed forms: damping by every scheme, what buckles, friction that slides."""
import json

import numpy as np
import pytest

import inside

SCHEMES = ("implicit_euler", "bdf2", "trapezoid", "avf4")


def model(tmp_path, h, gravity=(0, 0, 0), options=None, **deformables):
    path = tmp_path / "scene.json"
    path.write_text(json.dumps(dict(options=dict(timestep=h, gravity=list(gravity), **(options or {})), deformables=deformables)))
    return inside.Model(path)


def rows(m, steps, name="points"):
    """Positions (or velocities) of all states, steps + 1 x points x 3."""
    x = m.init()
    out = [x]
    for _ in range(steps):
        x, _ = m.step(x)
        out.append(x)
    return np.array(out)[:, m.slots[name]].reshape(steps + 1, -1, 3)


# ---- damping --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("scheme", SCHEMES)
def test_drag(tmp_path, scheme):
    """m v' = -c v: each scheme multiplies v by its rational approximation of exp(-c h/m)."""
    h, c, steps = 0.01, 2.0, 100
    body = dict(name="o", mesh=dict(points=[[0, 0, 0]]), velocity=[1, 0, 0], mass=1,
                energies=[dict(energy="drag", on="points", parameters=dict(damping=c))])
    v = rows(model(tmp_path, h, scheme=scheme, bodies=[body]), steps, "point_velocity")[:, 0, 0]
    euler, cayley = 1 / (1 + c * h), (1 - c * h / 2) / (1 + c * h / 2)
    if scheme == "bdf2":
        expected = [1, euler]
        for _ in range(steps - 1):
            expected.append((4 * expected[-1] - expected[-2]) / (3 + 2 * c * h))
    else:
        expected = (euler if scheme == "implicit_euler" else cayley) ** np.arange(steps + 1)
    assert np.allclose(v, expected, rtol=1e-10)


@pytest.mark.parametrize("damper", ["drag", "spring_damper", "formula"])
@pytest.mark.parametrize("scheme, order", [("implicit_euler", 1), ("bdf2", 2), ("trapezoid", 2), ("avf4", 2), ("symplectic_euler", 1)])
def test_order_with_damping(tmp_path, scheme, order, damper):
    k, m, c, time = 200.0, 0.7, 1.5, 0.4
    damping = dict(drag=dict(energy="drag", on=[[1]], parameters=dict(damping=c)),
                   spring_damper=dict(energy="spring_damper", on="edges", parameters=dict(damping=c)),
                   formula=dict(name="own", formula="u = (x0 - y0)/h; 0.5*c*h*dot(u, u)", on=[[1]], parameters=dict(c=c)))[damper]
    errors = []
    for h in (0.002, 0.001):
        body = dict(name="o", mesh=dict(points=[[0, 0, 0], [1, 0, 0]], edges=[[0, 1]]), start=[[0, 0, 0], [1.1, 0, 0]], mass=[1, m],
                    pins=[dict(points=0)], energies=[dict(energy="spring", parameters=dict(stiffness=k)), damping])
        steps = round(time / h)
        x = rows(model(tmp_path, h, scheme=scheme, bodies=[body]), steps)[:, 1, 0]
        w, z, t = np.sqrt(k / m), c / (2 * np.sqrt(k * m)), h * np.arange(steps + 1)
        s = np.sqrt(1 - z * z)
        exact = 1 + 0.1 * np.exp(-z * w * t) * (np.cos(s * w * t) + z / s * np.sin(s * w * t))
        errors.append(np.abs(x - exact).max())
    assert abs(np.log2(errors[0] / errors[1]) - order) < 0.1, errors


TET = dict(points=[[0, 0, 0], [0.1, 0, 0], [0, 0.1, 0], [0, 0, 0.1]], tetrahedra=[[0, 1, 2, 3]])
SHEET = dict(points=[[0, 0, 0], [0.1, 0, 0], [0, 0.1, 0]], triangles=[[0, 1, 2]])
DAMPERS = {
    "spring_damper": (dict(points=[[0, 0, 0], [0.1, 0, 0]], edges=[[0, 1]]), dict(damping=2.0)),
    "mass_drag": (TET, dict(rate=3.0, density=9e3)),
    "rayleigh": (TET, dict(young=1e4, poisson=0.3, time=0.01)),
    "viscous": (TET, dict(shear_viscosity=50.0, bulk_viscosity=20.0)),
    "membrane_rayleigh": (SHEET, dict(young=1e5, poisson=0.3, time=0.01, thickness=1e-2)),
}


@pytest.mark.parametrize("energy", DAMPERS)
def test_every_damper_acts_in_full(tmp_path, energy):
    """The last point moves against its damper alone: all schemes of order 2 lose the same share of its velocity."""
    mesh, parameters = DAMPERS[energy]
    held = len(mesh["points"]) - 1
    velocity = [[0, 0, 0]] * held + [[1e-4, 0, 0]]
    left = {}
    for scheme in SCHEMES:
        body = dict(name="o", mesh=mesh, mass=1.0 * (held + 1), velocity=velocity, pins=[dict(points=list(range(held)))],
                    energies=[dict(energy=energy, parameters=parameters)])
        v = rows(model(tmp_path, 2e-3, scheme=scheme, bodies=[body]), 200, "point_velocity")[:, -1, 0]
        left[scheme] = -np.log(v[-1] / v[0])
    assert left["trapezoid"] > 0.1, left
    for scheme, tolerance in (("implicit_euler", 0.02), ("bdf2", 2e-3), ("avf4", 1e-4)):
        assert left[scheme] == pytest.approx(left["trapezoid"], rel=tolerance), (scheme, left)


# ---- what buckles -----------------------------------------------------------------------------------------------------
def column(load, tilt, n=20):
    """Clamped below, bending stiffness 1, length 1 (the clamped segment is no part of it); Euler's load is pi^2/4."""
    return dict(name="r", mesh=dict(points=[[0, 0, i / n] for i in range(n + 1)], edges=[[i, i + 1] for i in range(n)]),
                start=[[tilt * np.sin(3 * i) * (i > 1), 0, i / n] for i in range(n + 1)], mass=1e-3, pins=[dict(points=[0, 1])],
                energies=[dict(energy="rod_stretch", name="s", parameters=dict(axial=1e4)),
                          dict(energy="rod_bend", name="b", parameters=dict(bending=1.0)),
                          dict(energy="load", name="l", on=[[n]], parameters=dict(force=[0, 0, -load]))])


@pytest.mark.parametrize("load", [2.8, 3.0, 5.0])
def test_column_buckles(tmp_path, load):
    """Just above Euler's load (2.73 for the 0.95 that are free) and far above: from nearly straight and from bent to the same shape."""
    tips = []
    for tilt in (1e-6, 0.03):
        m = model(tmp_path, 0.01, scheme="static", bodies=[column(load, tilt)])
        tips.append(np.abs(rows(m, 1)[1, -1]))
        assert m.report().iterations < 80
    assert np.allclose(*tips, atol=1e-8) and tips[0][0] > 0.05, tips


def test_cloth_buckles(tmp_path):
    """Thin cloth that hangs by two corners folds within a few steps."""
    n = 20
    body = dict(name="c", mesh=dict(grid=dict(u=[0.6, 0, 0], v=[0, 0.6, 0], cells=[n, n], pattern="alternating")),
                pins=[dict(points=[dict(nearest=[0, 0, 0]), dict(nearest=[0.6, 0, 0])])],
                energies=[dict(energy="membrane_stvk", name="s", parameters=dict(young=1e6, poisson=0.3, thickness=1e-3, density=200)),
                          dict(energy="bending_quadratic", name="b", parameters=dict(bending=1e-6))])
    m = model(tmp_path, 0.02, gravity=(0, 0, -9.81), bodies=[body])
    x, worst = m.init(), 0
    for _ in range(8):
        x, _ = m.step(x)
        worst = max(worst, m.report().iterations)
    assert worst < 60


def test_box_flies_into_cloth(tmp_path):
    """A rigid box of 5 kg at 15 m/s, in the same minimum as the cloth that it meets."""
    (tmp_path / "box.xml").write_text('<mujoco><option timestep=".005" gravity="0 0 0"/><worldbody><body pos="0 0 -.1">'
                                      '<joint type="slide" axis="0 0 1"/><geom name="r" type="box" size=".1 .1 .02" mass="5"/>'
                                      '</body></worldbody></mujoco>')
    corners = [dict(nearest=[a, b, 0]) for a in (-0.25, 0.25) for b in (-0.25, 0.25)]
    body = dict(name="c", mesh=dict(grid=dict(corner=[-0.25, -0.25, 0], u=[0.5, 0, 0], v=[0, 0.5, 0], cells=[8, 8], pattern="alternating")),
                pos=[0, 0, 0.05], mass=0.05, pins=[dict(points=corners)],
                energies=[dict(energy="membrane_stvk", name="m", parameters=dict(young=1e5, poisson=0.3, thickness=1e-3)),
                          dict(energy="bending_quadratic", name="b", parameters=dict(bending=1e-4))])
    contact = dict(distance=0.004, stiffness=100, friction=0.2, velocity=0.01, geoms=["r"])
    (tmp_path / "scene.json").write_text(json.dumps(dict(model="box.xml", deformables=dict(bodies=[body], contact=contact))))
    m = inside.Model(tmp_path / "scene.json")
    x, worst = m.init(), 0
    x[m.slots["qvel"]] = 15
    for _ in range(12):
        x, _ = m.step(x)
        worst = max(worst, m.report().iterations)
    assert worst < 60


def tip_gradient(m):
    """Height of the last point after one step, and its gradient by everything."""
    r = inside.Rollout(m, 1)
    x = r.forward(m.init())
    bar = np.zeros(m.slots["points"].stop - m.slots["points"].start)
    bar[-1] = 1
    return x[m.slots["points"]][-1], lambda: r.vjp(points=bar)[1]


def test_straight_column_gives_way(tmp_path):
    """Exactly straight under four times what it bears is an equilibrium, but none that stands: the method leaves it, and the derivative
    is that of the bent column."""
    body = column(10, 0)
    body["pins"].append(dict(points=True, axes="y"))
    m = model(tmp_path, 0.01, scheme="static", bodies=[body])
    z, gradient = tip_gradient(m)
    assert z < 0.2
    theta = gradient()
    at = next(k for k in range(m.ntheta) if m.theta[k] == 1 and theta[k] != 0)  # the bending stiffness, the only 1 that counts
    eps, tips = 1e-3, []
    for s in (-2, -1, 1, 2):
        moved = m.theta.copy()
        moved[at] += s * eps
        tips.append(inside.Rollout(m, 1).forward(m.init(), theta=moved)[m.slots["points"]][-1])
    quotient = (tips[0] - 8 * tips[1] + 8 * tips[2] - tips[3]) / (12 * eps)
    assert theta[at] == pytest.approx(quotient, rel=1e-6)


def test_gradient_of_a_saddle_is_refused(tmp_path):
    """Other methods see no matrix and stop where forces vanish; the pullback looks."""
    body = column(10, 0)
    body["pins"].append(dict(points=True, axes="y"))
    m = model(tmp_path, 0.01, scheme="static", method="lbfgs", bodies=[body])
    z, gradient = tip_gradient(m)
    assert z > 0.99
    with pytest.raises(inside.Error, match="saddle"):
        gradient()


# ---- friction that slides -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("slope, mu", [(0.5, 0.5), (0.9, 0.8), (0.9, 1.0), (1.2, 3.0)])
def test_implicit_friction_slides(tmp_path, slope, mu):
    """A soft block on a slope, long steps: Coulomb's acceleration, in a few iterations each step."""
    h, steps, g = 0.02, 15, 9.81
    body = dict(name="b", mesh=dict(box=dict(size=[0.15, 0.1, 0.05], cells=[3, 2, 1])), pos=[0, 0, 0.0015],
                energies=[dict(energy="corotated", name="f", parameters=dict(young=2e6, poisson=0.3, density=700))])
    contact = dict(distance=0.002, stiffness=1e3, velocity=1e-3, friction=mu, kind="implicit", planes=[dict(name="s", normal=[0, 0, 1])])
    m = model(tmp_path, h, gravity=(g * np.sin(slope), 0, -g * np.cos(slope)), bodies=[body], contact=contact)
    x, worst = m.init(), 0
    for _ in range(steps):
        x, _ = m.step(x)
        worst = max(worst, m.report().iterations)
    speed = x[m.slots["point_velocity"]].reshape(-1, 3)[:24, 0].mean()
    assert worst < 30
    assert speed == pytest.approx(max(g * (np.sin(slope) - mu * np.cos(slope)), 0) * steps * h, abs=2e-3)


def test_far_from_the_origin(tmp_path):
    """1e8 m away positions have 1.5e-8 m of rounding: no step is asked for more."""
    tetrahedron = dict(points=[[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], tetrahedra=[[0, 1, 2, 3]])
    body = dict(name="b", mesh=tetrahedron, pos=[1e8, 1e8, 1e8], pins=[dict(points=[0, 1, 2])],
                energies=[dict(energy="neo_hookean", name="f", parameters=dict(young=1e5, poisson=0.3, density=100))])
    far = rows(model(tmp_path, 0.01, gravity=(0, 0, -9.81), bodies=[body]), 20)[-1, 3] - 1e8
    body["pos"] = [0, 0, 0]
    near = rows(model(tmp_path, 0.01, gravity=(0, 0, -9.81), bodies=[body]), 20)[-1, 3]
    assert np.allclose(far, near, atol=1e-6)


# ---- descriptions ---------------------------------------------------------------------------------------------------------
def test_planar_bodies_meet_by_their_outlines(tmp_path):
    """A square of triangles falls in the plane onto a plane, and rests above it within the barrier's distance."""
    body = dict(name="b", mesh=dict(grid=dict(u=[0.2, 0, 0], v=[0, 0.2, 0], cells=[3, 3])), pos=[0, 0.01, 0], mass=1,
                energies=[dict(energy="stvk", name="s", parameters=dict(young=1e5, poisson=0.3, thickness=0.01)),
                          dict(energy="drag", name="d", on="points", parameters=dict(damping=0.5))])
    contact = dict(distance=0.004, stiffness=2e4, planes=[dict(name="floor", normal=[0, 1, 0])])
    m = model(tmp_path, 0.01, gravity=(0, -9.81, 0), planar=True, bodies=[body], contact=contact)
    y = rows(m, 60)[-1, :16, 1]
    assert 0 < y.min() < 0.004


@pytest.mark.parametrize("poisson", [-1, 0.5])
def test_bounds_of_poisson_are_no_values(tmp_path, poisson):
    body = dict(name="b", mesh=TET, energies=[dict(energy="neo_hookean", name="f", parameters=dict(young=1e4, poisson=poisson, density=1e3))])
    with pytest.raises(inside.Error, match="poisson.*outside of its range"):
        model(tmp_path, 0.01, bodies=[body])


@pytest.mark.parametrize("pattern, compliance", [("uniform", 1), ("alternating", 1.2)])
def test_bending_of_grids(tmp_path, pattern, compliance):
    """A wide sheet clamped at one edge sags by its weight: alternating diagonals have 5/6 of the stiffness, their points give way."""
    n, length, width, bending, weight, g = 24, 0.2, 0.8, 1e-4, 0.2, 0.01
    mesh = dict(grid=dict(u=[length, 0, 0], v=[0, width, 0], cells=[n, 4 * n], pattern=pattern))
    body = dict(name="s", mesh=mesh, pins=[dict(points=dict(box=[[None] * 3, [length / n * 1.001, None, None]]))],
                energies=[dict(energy="membrane_stvk", name="m", parameters=dict(young=1e6, poisson=0.0, thickness=1e-3, density=weight / 1e-3)),
                          dict(energy="bending_quadratic", name="b", parameters=dict(bending=bending))])
    x = rows(model(tmp_path, 0.01, gravity=(0, 0, -g), scheme="static", bodies=[body]), 1)
    middle = (x[0, :, 0] > length - 1e-9) & (np.abs(x[0, :, 1] - width / 2) < 0.05)
    free = length * (1 - 0.5 / n)  # the clamp acts between the first two rows
    closed = weight * g * free**4 / (8 * bending)
    assert -x[1, middle, 2].mean() / closed == pytest.approx(compliance, rel=0.05)


# ---- energies that look at the time ----------------------------------------------------------------------------------
@pytest.mark.parametrize("scheme", (*SCHEMES, "symplectic_euler", "static"))
def test_time_follows_the_time_step(tmp_path, scheme):
    """A force that varies in time: the clock of step k is k time steps, so d/d(timestep) counts it, forward and in reverse."""
    energies = [dict(formula="-a*sin(3*t)*x0.x", name="push", on="points", parameters=dict(a=2)),
                dict(energy="pin", on="points", parameters=dict(stiffness=10, target=[0, 0, 0]))]
    m = model(tmp_path, 0.01, scheme=scheme, bodies=[dict(name="bead", mesh=dict(points=[[0, 0, 0]]), mass=1, energies=energies)])
    steps, x0, way, seen = 20, m.init(), np.zeros(m.ntheta), np.array([1.0, 0, 0])
    at = m.params["timestep"].offset
    way[at] = 1
    rollout, other = inside.Rollout(m, steps), inside.Rollout(m, steps)
    rollout.forward(x0)
    moved = [other.forward(x0, theta=m.theta + e * way)[m.slots["points"]][0] for e in (1e-5, -1e-5)]
    want = (moved[0] - moved[1]) / 2e-5
    assert rollout.vjp(points=seen)[1][at] == pytest.approx(want, rel=1e-6)
    assert rollout.jvp(theta=way)[-1][0] == pytest.approx(want, rel=1e-6)
