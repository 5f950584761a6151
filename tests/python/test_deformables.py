"""Deformables where users stand: at rest, led, at an energy's edge, glued to bodies. Closed forms, differences and equivalents."""
import os

import numpy as np
import pytest

import pullback as pb

EMPTY = "<mujoco><option timestep='{h}' gravity='{g}'/></mujoco>"


def empty(h=0.01, gravity="0 0 0"):
    return EMPTY.format(h=h, g=gravity)


# ---- trials of optimize outside of what can be computed are steps that are too long ---------------------------------------------
def bar(energy, parameters):
    return {"name": "bar", "mesh": {"box": {"size": [1, .2, .2], "cells": [4, 1, 1]}}, "pins": [{"points": {"box": [[0, None, None], [0, None, None]]}}],
            "sets": {"tip": {"nearest": [1, 0, 0]}}, "energies": [{"energy": energy, "name": "f", "parameters": parameters}]}


def torn(variable):
    """A bar that a search for a far target inverts or gives no mass."""
    if variable == "density": return [bar("neo_hookean", {"young": 1e5, "poisson": .4, "density": 1000})], [{"parameter": "bar_f_mass.density"}], [1, 0, -.05]
    body = bar("neo_hookean_log", {"young": 1e5, "poisson": .4, "density": 1000})
    if variable == "rest": return [body], [{"parameter": "point_rest", "components": [48, 49, 50]}], [-.3, 0, .05]
    return [body], [{"state": "points", "points": "bar_tip"}], [-.3, 0, .05]


@pytest.mark.parametrize("variable,method", [("density", "gauss-newton"), ("points", "cmaes"), ("points", "gauss-newton"), ("points", "lbfgs"), ("rest", "adam"),
                                             ("rest", "cmaes"), ("rest", "gauss-newton"), ("rest", "lbfgs")])
def test_a_trial_outside_an_energy_is_a_step_too_long(variable, method):
    bodies, variables, target = torn(variable)
    task = {"options": {"timestep": .01}, "deformables": {"bodies": bodies}, "steps": 30, "variables": variables,
            "loss": [{"points": "bar_tip", "target": target}], "optimizer": {"method": method, "iterations": 6}}
    found = pb.optimize(task)
    assert found["loss"] < found["start_loss"]


def test_a_trial_below_the_floor_is_a_step_too_long():
    body = {"name": "b", "mesh": {"box": {"size": [.1, .1, .1], "cells": [1, 1, 1]}}, "pos": [0, 0, .3],
            "energies": [{"energy": "neo_hookean", "parameters": {"young": 1e5, "poisson": .4, "density": 1000}}]}
    contact = {"distance": .005, "stiffness": 1000, "planes": [{"name": "f", "normal": [0, 0, 1]}]}
    task = {"options": {"timestep": .01}, "deformables": {"bodies": [body], "contact": contact}, "steps": 15, "variables": [{"state": "points", "points": "b"}],
            "loss": [{"points": "b", "target": [0, 0, .02] * 8}], "optimizer": {"method": "gauss-newton", "iterations": 5}}
    found = pb.optimize(task)
    assert found["loss"] < found["start_loss"]


def test_a_start_outside_an_energy_is_named():
    body = bar("neo_hookean_log", {"young": 1e5, "poisson": .4, "density": 1000})
    model = pb.loads(empty(), deformables={"bodies": [body]})
    start = model.init()
    start.points[-3:] = [-5, 0, 0]
    with pytest.raises(pb.StepError, match="bar_f: element [0-9]+ .* leaves the domain of its energy: log of"): model.rollout(start, steps=1)


# ---- bodies and deformables in one step ----------------------------------------------------------------------------------------
def test_the_coupled_step_decides_at_rounding():
    """A soft bar on a hinged arm whose last Newton step, of rounding, no difference of values can judge: it ended at step 126."""
    rng = np.random.default_rng(9)
    young, cells, z = float(np.exp(rng.uniform(np.log(3e3), np.log(1e6)))), [int(rng.integers(2, 6)), 2, 1], float(rng.uniform(-1, 1))
    energy = {"energy": str(rng.choice(["neo_hookean", "corotated", "stvk"])), "name": "m", "parameters": {"young": young, "poisson": .3, "density": 1000}}
    soft = {"name": "s", "pos": [0, 0, z], "mesh": {"box": {"size": [.2, .06, .03], "cells": cells}}, "energies": [energy],
            "attach": [{"points": {"box": [[None, None, None], [0, None, None]]}, "body": "arm"}]}
    model = pb.loads(f"""<mujoco><option timestep='.01'/><worldbody><body name='arm' pos='-.2 0 {z}'><joint axis='0 1 0' armature='.001'/>
        <geom type='capsule' fromto='0 0 0 .2 0 0' size='.02' mass='{rng.uniform(.1, 1)}'/></body></worldbody></mujoco>""", deformables={"bodies": [soft]})
    model.rollout(model.init(), steps=300, keep=False)


@pytest.mark.parametrize("far", [1e6, 1e8])
def test_attached_points_converge_far_from_the_origin(far):
    soft = {"name": "b", "pos": [far, 0, 0], "mesh": {"box": {"size": [.2, .05, .05], "cells": [4, 1, 1]}},
            "energies": [{"energy": "neo_hookean", "parameters": {"young": 1e4, "poisson": .3, "density": 1000}}],
            "attach": [{"points": {"box": [[.199, None, None], [None, None, None]]}, "body": "a"}]}
    model = pb.loads(f"""<mujoco><option timestep='.02'/><worldbody><body name='a' pos='{far} 0 0'><joint type='slide' axis='0 0 1' stiffness='100'/>
        <geom size='.01' mass='1'/></body></worldbody></mujoco>""", deformables={"bodies": [soft]})
    near = np.array(model.rollout(model.init(), steps=20, keep=False).qpos[:, 0])
    assert np.all(np.diff(near) < 0)  # it falls until the spring takes it


DAMPED = """<mujoco><option timestep='.004' gravity='0 0 0'>{flag}</option><worldbody><body name='b'><joint name='j' axis='0 0 1' {damping}/>
<geom type='box' size='.05 .05 .01' mass='.3'/><site name='s' pos='.05 .02 0'/></body></worldbody><actuator><motor name='m' joint='j' damping='.02' gear='2'/></actuator></mujoco>"""


def glued(mass, stiffness):
    return {"bodies": [{"name": "s", "mesh": {"points": [[.05, 0, 0], [.06, .01, 0]], "edges": [[0, 1]]}, "mass": mass, "attach": [{"points": 0, "body": "b"}],
                        "energies": [{"energy": "spring", "parameters": {"stiffness": stiffness}}]}]}


def test_joint_damping_is_implicit_beside_attachments():
    """h d / I = 4 and more: explicit damping grows by 3 a step."""
    xml = DAMPED.format(damping="damping='.5'", flag="")
    alone, beside = pb.loads(xml), pb.loads(xml, deformables=glued(1e-9, 1e-9))
    runs = []
    for model in (alone, beside):
        start = model.init()
        start.qvel[0] = 1
        runs.append(model.rollout(start, steps=20, keep=False).qvel)
    np.testing.assert_allclose(runs[1], runs[0], atol=1e-9)


@pytest.mark.parametrize("damping", ["damping='.05'", "damping='.05 .02 .01'"])
def test_derivatives_of_joint_damping_beside_attachments(damping):
    model = pb.loads(DAMPED.format(damping=damping, flag=""), deformables={**glued(.05, 20.), "tolerance": 1e-14})
    start = model.init()
    start.qvel[0] = 3
    weights = np.random.default_rng(2).normal(size=(9, len(model.tangent_names)))
    run = model.rollout(start, steps=8)
    names = ("dof_damping", "dof_dampingpoly", "actuator_damping", "timestep")
    gradient = run.vjp(state=weights, wrt=["qvel", *names])

    def loss(params, speed=3.):
        start.qvel[0] = speed
        there = model.rollout(start, steps=8, params=params)
        return sum(weights[i] @ model.difference(run.state(i), there.state(i)) for i in range(9))

    def slope(f, e):
        return (8 * (f(e) - f(-e)) - (f(2 * e) - f(-2 * e))) / (12 * e)
    for name in names:
        value = np.array(model.params[name], float)
        along = np.ones_like(value)
        fd = slope(lambda e: loss({name: value + e * along}), 1e-4 if name != "timestep" else 1e-6)
        assert np.sum(gradient.params[name] * along) == pytest.approx(fd, rel=1e-7), name
        assert np.sum(weights * run.jvp(params={name: along}).x) == pytest.approx(fd, rel=1e-7), name
    assert gradient.qvel[0] == pytest.approx(slope(lambda e: loss({}, 3 + e), 1e-4), rel=1e-7)


def test_forces_without_a_potential_are_refused_on_bodies_that_move():
    energy = {"formula": "s = freeze(1 + a*(x0.y - x1.y)); 0.5*k*s*dot(x1 - x0 - L, x1 - x0 - L)", "name": "f", "on": "edges",
              "parameters": {"k": 50, "a": .5, "L": [.1, .02, .03]}}
    body = {"name": "s", "mesh": {"points": [[.1, 0, 0], [.2, .05, .02]], "edges": [[0, 1]]}, "mass": .02, "energies": [energy]}
    xml = "<mujoco><worldbody><body name='b'>{}<geom type='sphere' size='.01' pos='.1 0 0' mass='.01'/></body></worldbody></mujoco>"
    attached = {**body, "attach": [{"points": 0, "body": "b"}]}
    pb.loads(xml.format(""), deformables={"bodies": [attached]})  # on a body that rests
    with pytest.raises(pb.UnsupportedError, match="attached to bodies that move need forces with a potential: the formula of 's_f' has none, by its freeze"):
        pb.loads(xml.format("<joint axis='0 0 1'/>"), deformables={"bodies": [attached]})


# ---- at rest ---------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("scheme,h", [("implicit_euler", .002), ("trapezoid", .002), ("avf4", .002), ("bdf2", .002), ("symplectic_euler", 2e-4)])
def test_a_muscle_at_rest_has_a_derivative(scheme, h):
    body = {"name": "b", "mesh": {"box": {"size": [.2, .1, .06], "cells": [2, 1, 1]}}, "energies": [
        {"energy": "muscle", "name": "m", "parameters": {"young": 2e4, "poisson": .3, "fibre_stiffness": 2e4, "strength": 4e3, "activation": 0., "fibre": [1, 0, 0], "density": 1000}}]}
    model = pb.loads(empty(h), deformables={"scheme": scheme, "tolerance": 1e-13, "bodies": [body]})
    start, steps, rng = model.init(), 20, np.random.default_rng(1)
    run = model.rollout(start, steps=steps)
    weights, along = rng.normal(size=(steps + 1, len(model.tangent_names))), rng.normal(size=len(model.tangent_names)) * .01

    def loss(move):
        there = model.rollout(model.integrate(start, along * move), steps=steps, keep=False)
        return sum(weights[i] @ model.difference(run.state(i), there.state(i)) for i in range(steps + 1))
    gradient = run.vjp(state=weights)
    e, slope = 1e-6, gradient.state @ along
    assert -loss(-e) / e == pytest.approx(slope, rel=1e-3, abs=1e-3)
    assert loss(e) / e == pytest.approx(slope, rel=1e-3, abs=1e-3)


# ---- both derivatives refuse the same, and answer the same ----------------------------------------------------------------------
SLACK = {"scheme": "static", "tolerance": 1e-13, "bodies": [
    {"name": "a", "mesh": {"grid": {"u": [.2, 0, 0], "v": [0, .2, 0], "cells": [6, 6]}}, "pos": [0, 0, .03], "mass": 0.175168248236245,
     "energies": [{"energy": "spring_stvk", "on": "edges", "name": "m", "parameters": {"stiffness": 15052.396202873051, "length": .05, "softening": 0}},
                  {"energy": "spring_damper", "on": "edges", "name": "d", "parameters": {"damping": 0.01349465830609624}}, {"energy": "drag", "name": "w", "parameters": {"damping": 0.0006001256105522923}}],
     "pins": [{"points": {"box": [[None, None, None], [.001, None, None]]}}]}]}


def test_the_last_state_of_a_rollout_has_no_step_to_push():
    """Forward derivatives evaluate the last state for what is observed there; they took a step of the deformables from it, which was not recorded."""
    model = pb.loads(empty(.005, "0 .3 -9.81"), deformables=SLACK)
    run = model.rollout(model.init(), steps=1)
    n = len(model.tangent_names)
    along, weights = np.random.default_rng(0).normal(size=n), np.random.default_rng(1).normal(size=(2, n))
    pulled = run.vjp(state=weights).state @ along
    assert np.sum(weights * run.jvp(state=along).x) == pytest.approx(pulled, rel=1e-9)


def test_a_saddle_has_no_gradient():
    """One iteration of Newton's method from where the matrix is definite to where it is not; the cotangent sees nothing of that direction."""
    energy = {"formula": "0.5*(x0.x - a)^2 + 0.5*(0.5 - x0.x)*x0.y^2 + 0.5*x0.z^2", "name": "f", "on": "points", "parameters": {"a": 1.}}
    model = pb.loads(empty(), deformables={"scheme": "static", "iterations": 1, "approximate": True,
                                           "bodies": [{"name": "b", "mesh": {"points": [[0, 0, 0]]}, "energies": [energy]}]})
    run = model.rollout(model.init(), steps=1)
    np.testing.assert_allclose(run.points[-1], [1, 0, 0], atol=1e-12)
    for derivative in (lambda: run.vjp(points=np.array([1., 0, 0]), check=False), lambda: run.jvp(params={"b_f.a": [1.]})):
        with pytest.raises(pb.StepError, match="saddle"): derivative()


@pytest.mark.parametrize("seed", [2, 9, 21, 51])
def test_an_equilibrium_that_rounding_holds_has_no_gradient(seed):
    """A body that can turn about its two pins: in some poses no pivot vanishes to the last digits, and a gradient would be the rounding's."""
    rng = np.random.default_rng(seed)
    cells = [int(rng.integers(1, 5)) for _ in range(3)]
    body = {"name": "b", "mesh": {"box": {"size": rng.uniform(.05, .2, 3).tolist(), "cells": cells}}, "euler": rng.uniform(-90, 90, 3).tolist(),
            "energies": [{"energy": str(rng.choice(["neo_hookean", "corotated", "stvk"])), "name": "m",
                          "parameters": {"young": float(10 ** rng.uniform(3, 6)), "poisson": .3, "density": 1000}}], "pins": [{"points": [0, 1]}]}
    text, deformables = "<mujoco><option gravity='0 0 0'/></mujoco>", {"scheme": "static", "bodies": [body]}
    model = pb.loads(text, deformables=deformables)
    run = model.rollout(model.init(), steps=1)
    task = {"model": text, "deformables": deformables, "steps": 1, "variables": [{"parameter": "b_m.young"}], "loss": [{"points": "b", "target": .1}]}
    for derivative in (lambda: run.vjp(points=np.ones(run.points.shape[1]), check=False), lambda: run.jvp(params={"b_m.young": [1.]}), lambda: pb.optimize(task)):
        with pytest.raises(pb.StepError, match="the matrix of the step is singular at point"): derivative()


def test_implicit_friction_on_cloth_is_refused():
    """It did not converge in 600 iterations; lagged friction does in some tens."""
    def cloth(kind, law="membrane_stvk"):
        body = {"name": "c", "mesh": {"grid": {"u": [.2, 0, 0], "v": [0, .2, 0], "cells": [4, 4]}}, "pos": [0, 0, .01],
                "energies": [{"energy": law, "parameters": {"young": 5e4, "poisson": .3, "thickness": 1e-3, "density": 300}}]}
        return pb.loads(empty(), deformables={"bodies": [body], "contact": {"distance": .004, "stiffness": 500, "friction": .3, "kind": kind, "planes": [{"name": "f", "normal": [0, 0, 1]}]}})
    cloth("lagged")
    with pytest.raises(pb.UnsupportedError, match="friction of kind implicit does not converge on cloth .'c_membrane_stvk' is membrane_stvk.*: take the kind lagged"): cloth("implicit")


@pytest.mark.parametrize("pattern", ["uniform", "alternating"])
def test_self_contact_at_rest_is_refused(pattern):
    """A sheet of 20 cm with edges of 2 cm became one of 40 cm where nothing acts."""
    def sheet(distance, own=True):
        body = {"name": "c", "mesh": {"grid": {"u": [.2, 0, 0], "v": [0, .2, 0], "cells": [10, 10], "pattern": pattern}}, "surface": {"self": own},
                "energies": [{"energy": "membrane_stvk", "parameters": {"young": 5e4, "poisson": .3, "thickness": 1e-3, "density": 300}}]}
        return pb.loads(empty(), deformables={"bodies": [body], "contact": {"distance": distance, "stiffness": 500}})
    for distance in (.015, .03):
        with pytest.raises(pb.InputError, match=r"at rest [0-9]+ pairs of 'c' .* nearer .* distance of 0.0[0-9]+ m \(points [0-9]+ and [0-9]+: 0.01[0-9]* m\)"): sheet(distance)
    sheet(.03, own=False)
    model = sheet(.009)
    run = model.rollout(model.init(), steps=20, keep=False)
    np.testing.assert_allclose(run.points[-1], run.points[0], atol=1e-12)


def test_what_a_description_will_show_is_warned_of():
    def bar(poisson=.3, quadratic=False, spin=0., **top):
        body = {"name": "b", "mesh": {"box": {"size": [.2, .1, .05], "cells": [2, 1, 1]}}, "quadratic": quadratic,
                "energies": [{"energy": "neo_hookean", "name": "m", "parameters": {"young": 1e5, "poisson": poisson, "density": 1000}}]}
        if not quadratic:
            points = pb.loads(empty(), deformables={"bodies": [body]}).init().points.reshape(-1, 3)
            body["velocity"] = (np.cross([0, 0, spin], points) + [3., 0, 0]).tolist()
        return pb.loads(empty(.005), deformables={"bodies": [body], **top}).warnings
    assert bar() == () and bar(.4) == () and bar(.49, quadratic=True) == ()
    assert "b_m: linear tetrahedra lock at Poisson's ratio 0.49" in bar(.49)[0]
    assert bar(spin=1) == () and bar(spin=12, scheme="bdf2") == ()
    assert "b: at its start velocities the scheme implicit_euler loses about" in bar(spin=12)[0]


# ---- prescribed motion -----------------------------------------------------------------------------------------------------------
ENDS = {"points": {"box": [[.2, None, None], [None, None, None]]}}


def led_bar(law, parameters, speed, h):
    """A bar that flies together with its pinned end: nothing deforms."""
    body = {"name": "b", "mesh": {"box": {"size": [.2, .05, .05], "cells": [4, 1, 1]}}, "velocity": [-speed, 0, 0], "pins": [{**ENDS, "velocity": [-speed, 0, 0]}],
            "energies": [{"energy": law, "parameters": {**parameters, "density": 1000}}]}
    return pb.loads(empty(h), deformables={"bodies": [body]})


SOLIDS = [("stvk", {"young": 1e6, "poisson": .3}), ("corotated", {"young": 1e6, "poisson": .3}), ("neo_hookean", {"young": 1e4, "poisson": .3}),
          ("neo_hookean_log", {"young": 1e4, "poisson": .3}), ("mooney_rivlin", {"c1": 2e3, "c2": 1e3, "bulk": 1e4})]


@pytest.mark.parametrize("speed", [1, 10, 100])
@pytest.mark.parametrize("law,parameters", SOLIDS)
def test_pins_carry_what_flies_with_them(law, parameters, speed):
    model = led_bar(law, parameters, speed, .02)
    run = model.rollout(model.init(), steps=5, keep=False)
    moved = run.points[-1].reshape(-1, 3) - model.init().points.reshape(-1, 3) + [speed * .02 * 5, 0, 0]
    assert np.abs(moved).max() < 1e-12 * max(1, speed)
    assert np.abs(run.point_velocity[-1].reshape(-1, 3) + [speed, 0, 0]).max() < 1e-9 * speed


def test_a_pin_that_leaves_neighbors_behind_goes_in_shares():
    """It moves by 10 cm, twice an element, and the bar rests: there is no log of what is inverted on the way."""
    model = led_bar("neo_hookean_log", {"young": 1e4, "poisson": .3}, 5, .02)
    start = model.init()
    start.point_velocity[:] = np.where(np.arange(start.points.size // 3)[:, None] >= 0, np.array([[-5., 0, 0]]), 0).ravel() * (start.points.reshape(-1, 3)[:, :1] > .199).repeat(3, 1).ravel()
    run = model.rollout(start, steps=1)
    assert run.points[-1].reshape(-1, 3)[start.points.reshape(-1, 3)[:, 0] > .199, 0] == pytest.approx(.1)


# ---- contact ---------------------------------------------------------------------------------------------------------------------
def sheets(scheme, h):
    """A sheet that comes down on another at 5 m/s, 30 mm above it."""
    net = {"energy": "spring", "on": "edges", "parameters": {"stiffness": 50}}
    upper = {"name": "n", "mesh": {"grid": {"u": [.2, 0, 0], "v": [0, .2, 0], "cells": [4, 4]}}, "pos": [-.1, -.1, .03], "mass": .1, "velocity": [0, 0, -5], "energies": [net]}
    lower = {"name": "o", "mesh": {"grid": {"u": [.3, 0, 0], "v": [0, .3, 0], "cells": [3, 3]}}, "pos": [-.15, -.15, 0], "mass": .1, "energies": [net]}
    return pb.loads(empty(h, "0 0 -9.81"), deformables={"scheme": scheme, "bodies": [upper, lower], "contact": {"distance": .004, "stiffness": 500}})


def test_an_explicit_step_is_refused_where_it_would_pass_through():
    model = sheets("symplectic_euler", .005)
    with pytest.raises(pb.StepError, match=r"step 1 of 6 .* in a step of 0.005 s of the explicit scheme .* and .* would meet; .* would not in 0.00[0-9]+ s"):
        model.rollout(model.init(), steps=6)


def test_explicit_steps_that_are_short_enough_bounce():
    model = sheets("symplectic_euler", 2e-5)
    run = model.rollout(model.init(), steps=600)
    speed = run.point_velocity[-1].reshape(-1, 3)[:, 2]
    assert run.vjp(points=np.ones(123)).certificate["most_contacts"] > 0
    assert speed[25:].mean() < -1 and speed.mean() == pytest.approx(-5 * .1 / .2 - 9.81 * .012, rel=.1)  # the lower sheet took up momentum


# ---- led by mocap bodies ---------------------------------------------------------------------------------------------------------
HAND = "<mujoco><option timestep='{h}' gravity='{g}'/><worldbody><body name='hand' mocap='true'><geom name='tool' type='box' size='.02 .03 .01' pos='.5 0 0'/></body></worldbody></mujoco>"


def straight(steps, velocity, h):
    """Row k is where the hand is in step k: at its end."""
    return np.arange(1, steps + 1)[:, None, None] * h * np.array(velocity)


@pytest.mark.parametrize("speed", [1, 10, 100])
@pytest.mark.parametrize("law,parameters", SOLIDS)
def test_a_hand_carries_what_flies_with_it(law, parameters, speed):
    """Closed form: nothing deforms. The gel lagged 712 mm of 1 m."""
    h, steps = .02, 10
    body = {"name": "b", "mesh": {"box": {"size": [.2, .05, .05], "cells": [4, 1, 1]}}, "velocity": [0, speed, 0],
            "attach": [{"points": {"box": [[None, None, None], [.001, None, None]]}, "body": "hand"}],
            "energies": [{"energy": law, "parameters": {**parameters, "density": 1000}}, {"energy": "viscous", "parameters": {"shear_viscosity": 300, "bulk_viscosity": 300}}]}
    model = pb.loads(HAND.format(h=h, g="0 0 0"), deformables={"bodies": [body]})
    run = model.rollout(model.init(), steps=steps, mocap_pos=straight(steps, [0, speed, 0], h), keep=False)
    moved = (run.points[-1] - run.points[0]).reshape(-1, 3) - [0, speed * h * steps, 0]
    assert np.abs(moved).max() < 1e-12 * max(1, speed)
    assert np.abs(run.point_velocity[-1].reshape(-1, 3) - [0, speed, 0]).max() < 1e-9 * speed


@pytest.mark.parametrize("scheme", ["implicit_euler", "bdf2", "trapezoid", "avf4", "symplectic_euler"])
def test_a_hand_is_a_pin_whose_velocity_may_change(scheme):
    h, steps, speed = .005, 60, [.4, .1, 0]
    body = {"name": "s", "mesh": {"chain": {"from": [0, 0, 0], "to": [.3, 0, 0], "edges": 3}}, "mass": .1, "velocity": [.4, .1, 0],
            "energies": [{"energy": "spring", "parameters": {"stiffness": 50}}, {"energy": "spring_damper", "parameters": {"damping": .5}}]}
    pinned = pb.loads(empty(h, "0 0 -9.81"), deformables={"scheme": scheme, "tolerance": 1e-13, "bodies": [{**body, "pins": [{"points": 0, "velocity": speed}]}]})
    held = pb.loads(HAND.format(h=h, g="0 0 -9.81"), deformables={"scheme": scheme, "tolerance": 1e-13, "bodies": [{**body, "attach": [{"points": 0, "body": "hand"}]}]})
    one = pinned.rollout(pinned.init(), steps=steps, keep=False).points
    two = held.rollout(held.init(), steps=steps, mocap_pos=straight(steps, speed, h), keep=False).points
    np.testing.assert_allclose(two, one, atol=1e-10)


def test_friction_carries_a_block_on_a_led_plate():
    """100 mm in 1 s, friction 1: it moved by 0.0."""
    h, steps = .01, 100
    xml = f"<mujoco><option timestep='{h}'/><worldbody><body name='p' mocap='true' pos='0 0 -.02'><geom name='plate' type='box' size='.3 .2 .02'/></body></worldbody></mujoco>"
    block = {"name": "b", "mesh": {"box": {"size": [.08, .08, .04], "cells": [1, 1, 1]}}, "pos": [-.04, -.04, .0025],
             "energies": [{"energy": "neo_hookean", "parameters": {"young": 1e5, "poisson": .3, "density": 1000}}]}
    model = pb.loads(xml, deformables={"bodies": [block], "contact": {"distance": .004, "stiffness": 1e4, "friction": 1, "geoms": ["plate"]}})
    t = np.arange(1, steps + 1) * h
    path = np.zeros((steps, 1, 3))
    path[:, 0, 0] = .1 * (t - np.sin(2 * np.pi * t) / (2 * np.pi))
    path[:, 0, 2] = -.02
    run = model.rollout(model.init(), steps=steps, mocap_pos=path, keep=False)
    moved = (run.points[-1] - run.points[0]).reshape(-1, 3)[:8, 0]  # behind them are the plate's corners
    assert moved == pytest.approx(.1, abs=1e-4)


@pytest.mark.parametrize("speed", [.1, .5, 3, 10])
@pytest.mark.parametrize("coupled", [False, True])
def test_a_led_plate_does_not_pass_through_cloth(speed, coupled):
    """From above, by 1 to 100 mm a step; what it meets is always on its lower side."""
    h, way = .01, .2
    steps = max(3, round(way / speed / h))
    xml = f"""<mujoco><option timestep='{h}' gravity='0 0 0'/><worldbody><body name='p' mocap='true' pos='0 0 .03'><geom name='plate' type='box' size='.3 .3 .01'/></body>
        <body name='r' pos='.15 0 0'><joint type='slide' axis='0 0 1'/><geom type='sphere' size='.01' mass='.01' contype='0' conaffinity='0'/></body></worldbody></mujoco>"""
    cloth = {"name": "c", "mesh": {"grid": {"u": [.3, 0, 0], "v": [0, .3, 0], "cells": [4, 4]}}, "pos": [-.15, -.15, 0],
             "energies": [{"energy": "membrane_stvk", "parameters": {"young": 1e4, "poisson": .3, "thickness": 1e-3, "density": 300}}]}
    if coupled: cloth["attach"] = [{"points": {"nearest": [.3, .15, 0]}, "body": "r"}]
    model = pb.loads(xml, deformables={"bodies": [cloth], "contact": {"distance": .004, "stiffness": 500, "geoms": ["plate"]}})
    path = np.zeros((steps, 1, 3))
    path[:, 0, 2] = .03 - speed * h * np.arange(1, steps + 1)
    run = model.rollout(model.init(), steps=steps, mocap_pos=path, keep=False)
    heights = run.points[1:].reshape(steps, -1, 3)[:, :25, 2]
    assert np.all(heights < path[:, :, 2] - .01)
    assert heights[-1].max() < -.1


@pytest.mark.parametrize("how", ["pin", "hand"])
@pytest.mark.parametrize("speed", [.5, 20])
def test_what_is_led_into_a_plane_is_said(how, speed):
    """A hand that takes two corners of a cloth through the floor: it was the derivative of '/' that was not finite."""
    way = [[0, 0, -speed * .01 * (k + 1)] for k in range(max(3, round(8 / speed)))]
    cloth = {"name": "c", "mesh": {"grid": {"u": [.2, 0, 0], "v": [0, .2, 0], "cells": [4, 4]}}, "pos": [0, 0, .05],
             "energies": [{"energy": "membrane_stvk", "parameters": {"young": 1e4, "poisson": .3, "thickness": 1e-3, "density": 300}}],
             **({"pins": [{"points": [0, 1], "path": way}]} if how == "pin" else {"attach": [{"points": [0, 1], "body": "hand"}]})}
    model = pb.loads(HAND.format(h=.01, g="0 0 -9.81"),
                     deformables={"bodies": [cloth], "contact": {"distance": .004, "stiffness": 500, "planes": [{"name": "f", "normal": [0, 0, 1]}]}})
    led = {"mocap_pos": np.array(way)[:, None]} if how == "hand" else {}
    with pytest.raises(pb.StepError, match="contact of points [01] and [0-9]+ closes: all that meets there is held or led, and none of it can give way"):
        model.rollout(model.init(), steps=len(way), **led)


def held_between(coupled, scheme="implicit_euler", contact=False):
    """A net between the hand and a body on a hinge, or the world."""
    arm = "<joint name='j' axis='0 1 .2' damping='.01' armature='.001'/>" if coupled else ""
    xml = f"""<mujoco><option timestep='.01' gravity='0 .5 -9.81'/><worldbody>
        <body name='hand' mocap='true' pos='0 0 0'><geom name='tool' type='sphere' size='.03' pos='.1 .05 -.06'/></body>
        <body name='arm' pos='.4 0 0'>{arm}<geom type='capsule' fromto='0 0 0 -.1 0 0' size='.01' mass='.1' contype='0' conaffinity='0'/></body></worldbody></mujoco>"""
    net = {"name": "n", "mesh": {"grid": {"u": [.2, 0, 0], "v": [0, .1, 0], "cells": [4, 2]}}, "mass": .1,
           "energies": [{"energy": "spring", "on": "edges", "name": "k", "parameters": {"stiffness": 30}}, {"energy": "spring_damper", "on": "edges", "name": "d", "parameters": {"damping": .1}}],
           "attach": [{"points": {"box": [[None, None, None], [.001, None, None]]}, "body": "hand"}, {"points": {"nearest": [.2, .05, 0]}, "body": "arm"}]}
    top = {"scheme": scheme, "tolerance": 1e-14, "bodies": [net]}
    if contact: top["contact"] = {"distance": .02, "stiffness": 20, "friction": .3, "velocity": .05, "geoms": ["tool"]}
    return pb.loads(xml, deformables=top)


@pytest.mark.parametrize("coupled,scheme,contact", [(False, "implicit_euler", False), (False, "implicit_euler", True), (False, "bdf2", False), (False, "trapezoid", False),
                                                    (False, "avf4", False), (False, "symplectic_euler", False), (True, "implicit_euler", False), (True, "implicit_euler", True)])
def test_derivatives_by_the_path_of_a_hand(coupled, scheme, contact):
    model, steps, rng = held_between(coupled, scheme, contact), 8, np.random.default_rng(3)
    t = np.arange(1, steps + 1)[:, None, None] * .01
    pos = np.concatenate([.3 * t, .1 * np.sin(20 * t), -.2 * t], 2)
    turn = np.concatenate([2 * t, -t, 3 * t], 2)  # rotation vectors
    angle = np.linalg.norm(turn, axis=2, keepdims=True)
    quat = np.concatenate([np.cos(angle / 2), np.sin(angle / 2) * turn / angle], 2)
    start = model.init()
    weights = rng.normal(size=(steps + 1, len(model.tangent_names)))
    run = model.rollout(start, steps=steps, mocap_pos=pos, mocap_quat=quat)
    gradient = run.vjp(state=weights, wrt=["mocap_pos", "mocap_rot", "timestep", "body_pos"])
    assert not gradient.certificate["spot_off"]

    def loss(there): return sum(weights[i] @ model.difference(run.state(i), there.state(i)) for i in range(steps + 1))
    def slope(f, e): return (8 * (f(e) - f(-e)) - (f(2 * e) - f(-2 * e))) / (12 * e)

    def turned(e, along):
        w = e * along
        a = np.linalg.norm(w, axis=2, keepdims=True)
        d = np.concatenate([np.cos(a / 2), np.sin(a / 2) * w / np.where(a > 0, a, 1)], 2)
        s, v, ds, dv = quat[..., :1], quat[..., 1:], d[..., :1], d[..., 1:]
        return np.concatenate([s * ds - np.sum(v * dv, 2, keepdims=True), s * dv + ds * v + np.cross(v, dv)], 2)
    along = rng.normal(size=pos.shape)
    moves = {"mocap_pos": (along, lambda e: model.rollout(start, steps=steps, mocap_pos=pos + e * along, mocap_quat=quat), 2e-5),
             "mocap_rot": (along, lambda e: model.rollout(start, steps=steps, mocap_pos=pos, mocap_quat=turned(e, along)), 1e-4)}
    for name, (direction, there, e) in moves.items():
        fd = slope(lambda e: loss(there(e)), e)
        assert np.sum(getattr(gradient, name) * direction) == pytest.approx(fd, rel=2e-7), name
        assert np.sum(weights * run.jvp(**{name: direction}).x) == pytest.approx(fd, rel=2e-7), name
    for name, e in (("timestep", 1e-7), ("body_pos", 2e-5)):
        value = np.array(model.params[name], float)
        direction = rng.normal(size=value.shape)
        fd = slope(lambda e: loss(model.rollout(start, steps=steps, mocap_pos=pos, mocap_quat=quat, params={name: value + e * direction})), e)
        assert np.sum(gradient.params[name] * direction) == pytest.approx(fd, rel=2e-6), name
        assert np.sum(weights * run.jvp(params={name: direction}).x) == pytest.approx(fd, rel=2e-6), name


# ---- pins along paths ------------------------------------------------------------------------------------------------------------
def pinned_net(pin, scheme="implicit_euler", coupled=False, h=.01):
    arm = "<joint name='j' axis='0 1 .2' damping='.01' armature='.001'/>" if coupled else ""
    xml = f"""<mujoco><option timestep='{h}' gravity='0 .5 -9.81'/><worldbody><body name='arm' pos='.4 0 0'>{arm}
        <geom type='capsule' fromto='0 0 0 -.1 0 0' size='.01' mass='.1' contype='0' conaffinity='0'/></body></worldbody></mujoco>"""
    net = {"name": "n", "mesh": {"grid": {"u": [.2, 0, 0], "v": [0, .1, 0], "cells": [4, 2]}}, "mass": .1, "pins": [{"points": {"box": [[None, None, None], [.001, None, None]]}, **pin}],
           "energies": [{"energy": "spring", "on": "edges", "name": "k", "parameters": {"stiffness": 30}}, {"energy": "spring_damper", "on": "edges", "name": "d", "parameters": {"damping": .1}}],
           "attach": [{"points": {"nearest": [.2, .05, 0]}, "body": "arm"}]}
    return pb.loads(xml, deformables={"scheme": scheme, "tolerance": 1e-14, "bodies": [net]})


def test_a_constant_velocity_is_a_path():
    steps, v = 30, np.array([.3, -.1, .2])
    rows = (np.arange(1, steps + 1)[:, None] * .01 * v).tolist()
    moving, led = pinned_net({"velocity": v.tolist()}), pinned_net({"path": rows})
    steered = pinned_net({"path": "control"})
    run = moving.rollout(moving.init(), steps=steps, keep=False).points
    np.testing.assert_allclose(led.rollout(led.init(), steps=steps, keep=False).points, run, atol=1e-11)
    np.testing.assert_allclose(steered.rollout(steered.init(), np.array(rows), keep=False).points, run, atol=1e-11)
    beyond = led.rollout(led.init(), steps=steps + 5, keep=False).points[:, :3]
    np.testing.assert_allclose(beyond[-1], np.array(rows[-1]), atol=1e-12)  # the last row stays


def test_a_hand_that_turns_is_pins_along_paths():
    """Points on a hand that turns by 2 rad/s about its origin, and pins whose rows are where these points are."""
    h, steps = .01, 20
    body = {"name": "s", "mesh": {"chain": {"from": [.1, 0, 0], "to": [.4, 0, 0], "edges": 3}}, "mass": .1,
            "energies": [{"energy": "spring", "parameters": {"stiffness": 50}}, {"energy": "spring_damper", "parameters": {"damping": .5}}, {"energy": "drag", "parameters": {"damping": .1}}]}
    angle = 2 * h * np.arange(1, steps + 1)
    rows = .1 * np.stack([np.cos(angle) - 1, np.sin(angle), 0 * angle], 1)
    quat = np.stack([np.cos(angle / 2), 0 * angle, 0 * angle, np.sin(angle / 2)], 1)[:, None]
    pinned = pb.loads(empty(h), deformables={"tolerance": 1e-13, "bodies": [{**body, "pins": [{"points": 0, "path": rows.tolist()}]}]})
    held = pb.loads(HAND.format(h=h, g="0 0 0"), deformables={"tolerance": 1e-13, "bodies": [{**body, "attach": [{"points": 0, "body": "hand"}]}]})
    one, two = pinned.rollout(pinned.init(), steps=steps, keep=False), held.rollout(held.init(), steps=steps, mocap_quat=quat, keep=False)
    np.testing.assert_allclose(two.points, one.points, atol=1e-11)
    np.testing.assert_allclose(two.point_velocity, one.point_velocity, atol=1e-9)


@pytest.mark.parametrize("speed", [1, 10, 100])
def test_paths_carry_what_flies_with_them(speed):
    h, steps = .02, 10
    rows = (np.arange(1, steps + 1)[:, None] * h * np.array([-speed, 0, 0])).tolist()
    body = {"name": "b", "mesh": {"box": {"size": [.2, .05, .05], "cells": [4, 1, 1]}}, "velocity": [-speed, 0, 0], "pins": [{**ENDS, "path": rows}],
            "energies": [{"energy": "stvk", "parameters": {"young": 1e6, "poisson": .3, "density": 1000}}]}
    model = pb.loads(empty(h), deformables={"bodies": [body]})
    run = model.rollout(model.init(), steps=steps, keep=False)
    assert np.abs((run.points[-1] - run.points[0]).reshape(-1, 3) + [speed * h * steps, 0, 0]).max() < 1e-12 * max(1, speed)


@pytest.mark.parametrize("scheme,coupled", [("implicit_euler", False), ("bdf2", False), ("trapezoid", False), ("avf4", False), ("symplectic_euler", False), ("static", False),
                                            ("implicit_euler", True)])
@pytest.mark.parametrize("kind", ["each", "all", "control"])
def test_derivatives_by_paths(scheme, coupled, kind):
    steps, rng = 6, np.random.default_rng(5)
    rows = np.cumsum(rng.normal(size=(steps, 9 if kind == "each" else 3)) * .002, 0)
    model = pinned_net({"path": "control" if kind == "control" else rows.tolist(), "name": "grip"}, scheme, coupled)
    start = model.init()
    if not coupled and scheme != "static": start.point_velocity[:] += rng.normal(size=start.points.size) * .1
    weights = rng.normal(size=(steps + 1, len(model.tangent_names)))
    control = rows if kind == "control" else None

    def roll(params=None, ctrl=control): return model.rollout(start, ctrl, steps=steps, params=params or {}) if ctrl is not None else model.rollout(start, steps=steps, params=params or {})
    run = roll()
    def loss(there): return sum(weights[i] @ model.difference(run.state(i), there.state(i)) for i in range(steps + 1))
    def slope(f, e): return (8 * (f(e) - f(-e)) - (f(2 * e) - f(-2 * e))) / (12 * e)
    names = ["timestep"] + ([] if kind == "control" else ["n_grip.path"])
    gradient = run.vjp(state=weights, wrt=["state", "ctrl", *names])
    assert not gradient.certificate["spot_off"]
    for name in names:
        value = np.array(model.params[name], float)
        along = rng.normal(size=value.shape)
        fd = slope(lambda e: loss(roll({name: value + e * along})), 1e-5 if "path" in name else 1e-7)
        assert np.sum(gradient.params[name] * along) == pytest.approx(fd, rel=2e-6), name
        assert np.sum(weights * run.jvp(params={name: along}).x) == pytest.approx(fd, rel=2e-6), name
    if kind == "control":
        along = rng.normal(size=rows.shape)
        fd = slope(lambda e: loss(roll(ctrl=rows + e * along)), 1e-5)
        assert np.sum(gradient.ctrl * along) == pytest.approx(fd, rel=1e-6)
        assert np.sum(weights * run.jvp(ctrl=along).x) == pytest.approx(fd, rel=1e-6)
    along = rng.normal(size=len(model.tangent_names)) * .1
    fd = slope(lambda e: loss(model.rollout(model.integrate(start, e * along), control, steps=steps) if control is not None else model.rollout(model.integrate(start, e * along), steps=steps)), 1e-4)
    assert gradient.state @ along == pytest.approx(fd, rel=1e-6)


def test_paths_that_cannot_be():
    for pin, says in (({"path": [[0, 0]]}, "expected a row for each step, of 3 numbers or of 9: 3 for each point"), ({"path": "ctrl"}, "expected \"control\" or rows of displacements"),
                      ({"path": [[0, 0, 0]], "velocity": [1, 0, 0]}, "a pin has one of them"), ({"path": []}, "expected a row for each step"),
                      ({"path": None}, r"pins\[0\].path: expected rows of displacements, a file of such or \"control\""), ({"path": 1}, "expected rows of displacements"),
                      ({"name": "q"}, r"pins\[0\].name: names the path of a pin: \"path\" is missing"), ({"name": "q", "velocity": [1, 0, 0]}, "\"path\" is missing"),
                      ({"name": "a.b", "path": "control"}, r"pins\[0\].name: expected a word"), ({"name": "", "path": "control"}, "expected a word")):
        with pytest.raises(pb.InputError, match=says): pinned_net(pin)


@pytest.mark.parametrize("kind", ["path", "control"])
def test_finer_steps_follow_the_same_path(kind):
    """A led gel at finer steps, as confirm and the audit run it: its pins are where they were at the same times, and the rest follows by the
    error of the step alone, so that an audit confirms."""
    h, steps = .01, 30
    t = np.arange(1, steps + 1) * h
    way = np.stack([.15 * np.sin(4 * t), .1 * (1 - np.cos(5 * t)), 0 * t], 1)
    gel = {"name": "gel", "mesh": {"box": {"size": [.2, .05, .05], "cells": [4, 1, 1]}}, "sets": {"hand": ENDS["points"], "tip": {"box": [[None, None, None], [0, None, None]]}},
           "pins": [{"points": "hand", "path": "control" if kind == "control" else way.tolist()}],
           "energies": [{"energy": "stvk", "parameters": {"young": 2e4, "poisson": .3, "density": 1000}}]}
    # A hinge beside it, for the audit's starts to differ.
    model = f"<mujoco><option timestep='{h}' gravity='0 0 0'/><worldbody><body pos='0 0 3'><joint/><geom size='.1'/></body></worldbody></mujoco>"
    mesh = pb.loads(model, deformables={"bodies": [gel]}).init().points.reshape(-1, 3)
    hand, tip = mesh[mesh[:, 0] > .199], mesh[mesh[:, 0] < .001]
    task = {"model": model, "deformables": {"scheme": "bdf2", "bodies": [gel]}, "steps": steps, "optimizer": {"iterations": 0}, "confirm": 4,
            "variables": [{"parameter": "gel_stvk.young", "transform": "log"}],
            "loss": [{"points": "gel_hand", "at": (np.array([5, 18, 30]) * h).tolist(), "target": [(hand + way[k - 1]).ravel().tolist() for k in (5, 18, 30)]}]}
    if kind == "control": task["controls"] = way.tolist()
    there = pb.optimize(task)
    assert there["loss"] < 1e-20 and there["confirm"]["loss"] < 1e-20, there
    task["loss"] = [{"points": "gel_tip", "at": (np.array([10, 20, 30]) * h).tolist(), "target": tip.ravel().tolist()}]
    report = pb.audit({**task, "audit": {"tolerance": .05, "spread": {"qvel": .05}}}, starts=8)
    assert report.ok, report["verdict"]


# ---- energies at a kink ------------------------------------------------------------------------------------------------------
def kinks_of(energies, mesh=None, scheme="implicit_euler", steps=3, gravity=0, **more):
    """kinks, kink_step and kink_element of a chain of three edges, or of another mesh."""
    body = {"name": "n", "mesh": mesh or {"chain": {"from": [0, 0, 0], "to": [.3, 0, 0], "edges": 3}}, "mass": .1, "energies": energies, **more}
    model = pb.loads(f"<mujoco><option timestep='.01' gravity='0 0 {gravity}'/></mujoco>", deformables={"scheme": scheme, "bodies": [body]})
    run = model.rollout(model.init(), steps=steps)
    certificate = run.vjp(points=np.ones(run.points.shape[1]), check=False).certificate
    return tuple(certificate[name] for name in ("kinks", "kink_step", "kink_element"))


def strings(slack): return [{"energy": "spring_string", "on": "edges", "name": "s", "parameters": {"stiffness": 50, "slack": slack}}]


@pytest.mark.parametrize("scheme", ["implicit_euler", "bdf2", "trapezoid", "avf4", "symplectic_euler"])
def test_strings_that_are_just_taut_are_named(scheme):
    assert kinks_of(strings(1.), scheme=scheme) == (3, 0, "n_s: element 0 (point 0 at 0 0 0)")
    assert kinks_of(strings(1.), scheme=scheme, gravity=-9.81)[0] == 3  # all of it falls
    for slack in (.99, 1 - 1e-6, 1 + 1e-6, 1.01): assert kinks_of(strings(slack), scheme=scheme) == (0, -1, "")
    # pinned at both ends it hangs down: but for the first step none has strings that are neither slack nor tense
    hanging = kinks_of(strings(1.), scheme=scheme, gravity=-9.81, pins=[{"points": 0}, {"points": 3}], steps=6)[0]
    assert hanging <= (2 if scheme == "symplectic_euler" else 1)  # its forces are those at the start of a step


def test_the_element_at_a_kink_is_the_one_that_is_named():
    """Of two hundred strings one is at its length, beyond the first block of elements."""
    lengths = np.full((200, 1), .9 * .01)
    lengths[177] = .01
    string = {"formula": "0.5*k*max(norm(x1 - x0) - l, 0)^2", "on": "edges", "name": "s", "parameters": {"k": 50, "l": {"each": lengths.ravel().tolist()}}}
    spring = {"energy": "spring_zero", "on": "edges", "name": "z", "parameters": {"stiffness": 1e-9}}
    mesh = {"chain": {"from": [0, 0, 0], "to": [2, 0, 0], "edges": 200}}
    kinks, step, element = kinks_of([spring, string], mesh, scheme="static", steps=1, pins=[{"points": list(range(201))}])
    assert (kinks, step) == (1, 0) and element.startswith("n_s: element 177 (point 177 at 1.77 0 0)")


@pytest.mark.parametrize("formula, kinked", [
    ("max(x0.x - X0.x, 0)^2", True), ("max(x0.x - X0.x, 0)^3", False), ("max(x0.x - X0.x, 0)^4", False), ("1e9*max(x0.x - X0.x, 0)^3", False),
    ("min(x0.z, 1)^2", False), ("x0.z*abs(x0.z)", True),
    ("abs(x0.z)", True), ("abs(x0.z)^3", False), ("max(x0.z - 1e-10, 0)^2", True), ("max(x0.z - 1e-6, 0)^2", False), ("select(x0.z < 0, 1, 2)*x0.z^2", True),
    ("select(x0.z < 0.1, 1, 2)*x0.z^2", False), ("max(0, x0.z - y0.z)^2/h", True), ("max(0, x0.z - y0.z + 0.1*h)^2/h", False), ("max(0, 1e-3*x0.y - y0.z)*x0.z", True), ("max(a, 0)*x0.z", True),
    ("max(a - 1, 0)*x0.z", False), ("max(a + 1, 0)*x0.z^2", False)])
def test_formulas_at_their_bounds_are_named(formula, kinked):
    """Points that rest where a choice of the formula changes, beside it, and choices that are smooth to second order."""
    parameters = {"a": 0.} if "a " in formula or "a," in formula else {}
    found = kinks_of([{"formula": f"{formula} + 5*dot(x0 - X0, x0 - X0)", "on": "points", "name": "f", "parameters": parameters}])
    assert found == ((3, 0, "n_f: element 0 (point 0 at 0 0 0)") if kinked else (0, -1, ""))


def test_laws_of_the_library_at_their_kinks():
    def ground(energy, level, **more): return [{"energy": energy, "on": "points", "name": "g", "parameters": {"level": level, "normal": [0, 0, 1], **more}}]
    assert kinks_of(ground("ground", 0, stiffness=100))[0] == 3 and kinks_of(ground("ground", -.1, stiffness=100))[0] == 0
    solid = {"box": {"size": [.2, .1, .1], "cells": [2, 1, 1]}}
    flesh = {"fibre_stiffness": 2e4, "strength": 5e3, "activation": 0, "fibre": [1, 0, 0], "young": 1e4, "poisson": .3}
    for law, parameters in (("muscle", flesh), ("neo_hookean", {"young": 1e4, "poisson": .3}), ("corotated", {"young": 1e4, "poisson": .3})):
        assert kinks_of([{"energy": law, "name": "m", "parameters": parameters}], solid)[0] == 0, law


# ---- random scenes ---------------------------------------------------------------------------------------------------------------
def test_derivatives_of_random_scenes():
    """A share of `make check-deform`, chosen by SEED: each derivative of each scene, reverse and forward, against differences."""
    import deform_campaign
    seed, said = int(os.environ.get("SEED", "0"), 36) % 2**32, []
    found = [deform_campaign.check_scene(seed, k, said.append) for k in range(6)]
    assert sum(wrong for _, wrong, _ in found) == 0 and sum(compared for compared, _, _ in found) > 50, "\n".join(said)
    assert sum(not ran for _, _, ran in found) <= 1, "\n".join(said)


def test_contacts_on_the_way_of_a_step():
    """Scheme avf4 looks at the middle of a step, too: what touches there and has parted at the end is part of the step's derivative."""
    import deform_campaign
    choice, model, acts, _ = deform_campaign.build(int("0866467f", 36) % 2**32, 2)
    assert choice["scheme"] == "avf4" and choice["contact"] == "all, own too"
    acts, start, along = {name: rows[:5] for name, rows in acts.items()}, model.init(), np.random.default_rng(0).normal(size=len(model.tangent_names))
    run = model.rollout(start, steps=5, **acts)
    ends = [model.rollout(model.integrate(start, e * along), steps=5, **acts).state(5) for e in (1e-6, -1e-6)]
    quotient = (model.difference(run.state(5), ends[0]) - model.difference(run.state(5), ends[1])) / 2e-6
    exact = run.jvp(state=along).x[5]
    assert np.abs(quotient - exact).max() < 1e-6 * np.abs(exact).max()  # it was .016


def test_coupled_steps_are_decided_at_rounding():
    """A share of `make check-rounding`, chosen by SEED: scenes of bodies that carry deformables, no step of which is refused."""
    import coupled_rounding
    seed = int(os.environ.get("SEED", "0"), 36) % 2**32
    found = [coupled_rounding.walk(seed, k, 300) for k in range(12)]
    assert sum(refused for _, refused, _ in found) == 0, "\n".join(said for _, _, said in found if said)
    assert sum(made for made, _, _ in found) == 12 * 300


# ---- what points weigh -----------------------------------------------------------------------------------------------------------
def test_masses_of_points_are_those_of_the_motion():
    """Densities, what is listed, and points of bodies; by the same parameters as a step. Momentum of free bodies is kept."""
    body = {"name": "b", "mesh": {"box": {"size": [.2, .1, .1], "cells": [2, 1, 1]}}, "mass": .24, "velocity": [1, 2, 3],
            "energies": [{"energy": "neo_hookean", "parameters": {"young": 1e5, "poisson": .3, "density": 1000}}]}
    model = pb.loads(empty(), deformables={"bodies": [body]})
    assert model.point_mass.shape == (model.npoint,) == (12,)
    assert abs(model.point_mass.sum() - (2 + .24)) < 1e-12 and np.allclose(model.params["point_mass"], .02)
    heavier = model.with_params({"b_neo_hookean_mass.density": [2000]})
    assert abs(heavier.point_mass.sum() - (4 + .24)) < 1e-12 and abs(model.point_mass.sum() - 2.24) < 1e-12

    r = model.rollout(model.init(), steps=5)
    momentum = np.einsum("i,tij->tj", model.point_mass, r.point_velocity.reshape(6, -1, 3))
    assert np.allclose(momentum, 2.24 * np.array([1, 2, 3]), atol=1e-9)
    assert pb.loads(empty()).point_mass.shape == (0,)
