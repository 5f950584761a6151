"""Hessian-vector products: Rollout.hvp beside extrapolated differences of gradients, and symmetric, on free bodies in contact,
balls, limits, tendons, friction and filters; batches; what is refused. Of PyTorch and JAX: test_torch.py, test_jax.py."""
import numpy as np
import pytest

import pullback as pb

STEPS = 12
# A box that lands on an edge beside a ball, both free; an arm of a ball and a hinge at its limit; a tendon at its limit between a
# slide and a hinge; a filter, a servo.
SCENE = """<mujoco><option timestep="0.004"/><worldbody><geom type="plane" size="5 5 .1"/>
<body name="box" pos="0 0 .075"><freejoint name="root"/><geom type="box" size=".1 .15 .08" mass="1" friction=".4"/></body>
<body name="ball" pos=".17 0 .078"><freejoint/><geom type="sphere" size=".08" mass=".5" friction=".3"/></body>
<body name="arm" pos="1 0 .4"><joint name="swing" type="ball" damping=".1" stiffness="3"/><geom type="capsule" size=".03"
fromto="0 0 0 .4 0 .1"/>
<body name="hand" pos=".4 0 .1"><joint name="wrist" axis="0 1 0" damping=".05" frictionloss=".01" range="-10 20"
limited="true"/>
<geom type="capsule" size=".02" fromto="0 0 0 .3 0 0"/><site name="end" pos=".3 0 0"/></body></body>
<body pos="2 0 1"><joint name="a" type="slide" axis="1 0 0" damping=".2"/><geom size=".05" mass=".3"/><site name="left"/></body>
<body pos="2.5 0 1.1"><joint name="b" axis="0 1 0" damping=".02" armature=".01"/><geom type="capsule" size=".02" fromto="0 0 0
.2 0 .1"/><site name="right" pos=".2 0 .1"/></body>
</worldbody><tendon><spatial name="rope" limited="true" range="0 .68" stiffness="20"><site site="left"/><site
site="right"/></spatial>
<fixed name="sum" damping=".1"><joint joint="a" coef=".5"/><joint joint="b" coef="-1.5"/></fixed></tendon>
<actuator><general name="slow" joint="wrist" dyntype="filter" dynprm=".05" gainprm="2"/><motor joint="root" gear="4 0 1 .2 0
0"/><position joint="wrist" kp="3"/>
<motor tendon="rope" gear=".5"/></actuator>
<sensor><framepos objtype="site" objname="end"/><gyro site="end"/><actuatorfrc actuator="slow"/><tendonpos
tendon="rope"/></sensor></mujoco>"""
WEIGHTS = 64 / 45, -20 / 45, 1 / 45  # of central differences with h, 2 h, 4 h: to h^6


def richardson(gradient, h):
    return sum(w * (gradient(h * 2**k) - gradient(-h * 2**k)) / (2 * h * 2**k) for k, w in enumerate(WEIGHTS))


def off(product, gradient, base=1e-4):
    """How far off differences are, of the largest number; over a kink they say nothing, so moves get shorter until they agree."""
    size, least = np.abs(product).max(), np.inf
    for k in range(5):
        least = min(least, np.abs(product - richardson(gradient, base / 4**k)).max() / size)
    return least


@pytest.fixture(scope="module")
def model():
    return pb.loads(SCENE)


def somewhere(model, seed=5, batch=None):
    """A state in motion, and controls."""
    rng, n = np.random.default_rng(seed), len(model.tangent_names)
    push = .2 * rng.normal(size=(n,) if batch is None else (batch, n))
    push[..., :12] *= .03
    push[..., model.nv:] *= 3
    start = model.integrate(model.init() if batch is None else model.init(batch=batch), push)
    shape = (STEPS, model.nu) if batch is None else (batch, STEPS, model.nu)
    return start, rng.normal(size=shape), rng


def turned(model, w, g):
    """A gradient at x0 exp(w) as one by w, to first order: v + w x v / 2 of rotations."""
    g = np.array(g)
    for at in (3, 9, 12):
        g[..., at:at + 3] += np.cross(w[..., at:at + 3], g[..., at:at + 3]) / 2
    return g


class Squares:
    """Half the squares of velocities and sensors at all states, by the initial state and the controls side by side."""

    def __init__(self, model, start, ctrl):
        self.model, self.start, self.ctrl, self.n = model, start, ctrl, len(model.tangent_names)

    def split(self, d):
        return d[:self.n], d[self.n:].reshape(self.ctrl.shape)

    def gradient(self, d, h):
        dx, du = self.split(d)
        with self.model.rollout(self.model.integrate(self.start, h * dx), self.ctrl + h * du) as r:
            g = r.vjp(qvel=r.qvel, sensordata=r.sensordata, check=False)
        return np.concatenate([turned(self.model, h * dx, g.state), g.ctrl.ravel()])

    def product(self, d):
        dx, du = self.split(d)
        with self.model.rollout(self.start, self.ctrl) as r:
            g = r.hvp({"state": dx, "ctrl": du}, {"qvel": r.qvel, "sensordata": r.sensordata},
                      lambda t: {"qvel": t.qvel, "sensordata": t.sensordata})
        return np.concatenate([g.state, g.ctrl.ravel()])


@pytest.mark.parametrize("integrator", ["Euler", "implicitfast", "RK4"])
@pytest.mark.parametrize("cone", ["pyramidal", "elliptic"])
def test_products_are_those_of_the_hessian(integrator, cone):
    model = pb.loads(SCENE, options={"integrator": integrator, "cone": cone})
    start, ctrl, rng = somewhere(model)
    of = Squares(model, start, ctrl)
    assert len(model.contacts(start)) >= 3
    d, e = rng.normal(size=(2, of.n + ctrl.size))
    d[:12] *= .1
    e[:12] *= .1
    Hd, He = of.product(d), of.product(e)
    wrong, terms = off(Hd, lambda h: of.gradient(d, h)), np.abs(e * Hd).sum()
    print(f"{integrator}, {cone}: off by {wrong:.1e}, not symmetric by {abs(e @ Hd - d @ He) / terms:.1e}")
    assert np.abs(Hd).max() > 1 and wrong <= 1e-9
    assert abs(e @ Hd - d @ He) <= 1e-12 * terms


def test_changes_are_a_dict_or_a_function(model):
    start, ctrl, rng = somewhere(model)
    du = rng.normal(size=ctrl.shape)
    with model.rollout(start, ctrl) as r:
        moved = r.jvp(ctrl=du)
        f = r.hvp({"ctrl": du}, {"qvel": r.qvel}, lambda t: {"qvel": t.qvel})
        g = r.hvp({"ctrl": du}, {"qvel": r.qvel}, {"qvel": moved.qvel})
        linear, none = r.hvp({"ctrl": du}, {"qvel": r.qvel}), r.hvp({}, {"qvel": r.qvel})
        first = r.vjp(qvel=moved.qvel, check=False)
    np.testing.assert_array_equal(f.ctrl, g.ctrl)
    np.testing.assert_allclose(linear.ctrl + first.ctrl, f.ctrl, rtol=1e-9, atol=1e-11 * np.abs(f.ctrl).max())
    assert not none.ctrl.any() and not none.state.any()
    assert f.ctrl.shape == ctrl.shape and f.state.shape == (len(model.tangent_names),)


def test_a_batch_has_the_products_of_its_worlds(model):
    start, ctrl, rng = somewhere(model, batch=5)
    n, masses = len(model.tangent_names), np.array(model.params["body_mass"]) * (1 + .1 * rng.random((5, model.nbody)))
    dx, du, dm = .1 * rng.normal(size=(5, n)), rng.normal(size=ctrl.shape), .1 * masses
    along = {"state": dx, "ctrl": du, "params": {"body_mass": dm}}
    found = []
    for threads in (1, 3):
        with model.rollout(start, ctrl, params={"body_mass": masses}, threads=threads) as r:
            found.append(r.hvp(along, {"qvel": r.qvel[:, -1]}, lambda t: {"qvel": t.qvel[:, -1]}))
    np.testing.assert_array_equal(found[0].ctrl, found[1].ctrl)
    np.testing.assert_array_equal(found[0].state, found[1].state)
    for w in range(5):
        with model.rollout(start[w], ctrl[w], params={"body_mass": masses[w]}) as r:
            along = {"state": dx[w], "ctrl": du[w], "params": {"body_mass": dm[w]}}
            one = r.hvp(along, {"qvel": r.qvel[-1]}, lambda t: {"qvel": t.qvel[-1]})
        np.testing.assert_allclose(found[0].ctrl[w], one.ctrl, rtol=1e-12, atol=1e-12 * np.abs(one.ctrl).max())
        np.testing.assert_allclose(found[0].state[w], one.state, rtol=1e-12, atol=1e-12 * np.abs(one.state).max())

    # Controls that all share: the sum, of a direction that they share.
    with model.rollout(start, ctrl[0]) as r:
        shared = r.hvp({"ctrl": du[0]}, {"qvel": r.qvel}).ctrl
    rows = []
    for w in range(5):
        with model.rollout(start[w], ctrl[0]) as r:
            rows.append(r.hvp({"ctrl": du[0]}, {"qvel": r.qvel}).ctrl)
    np.testing.assert_allclose(shared, np.sum(rows, axis=0), rtol=1e-10, atol=1e-12 * np.abs(shared).max())


def test_a_world_that_failed_has_no_last_state(model):
    """As vjp: numbers of the last state have no effect there, those of all states act up to the failure."""
    start, ctrl, _ = somewhere(model, batch=2)
    ctrl[1, 5] = 1e300
    way = np.ones_like(ctrl)
    with model.rollout(start, ctrl, on_failure="mask") as r:
        assert list(r.steps_done) == [STEPS, 5]
        every, bar = np.ones((2, STEPS + 1, model.nv)), np.ones((2, model.nv))
        last, all_states = (r.hvp({"ctrl": way}, {"qvel": b}, {"qvel": b}) for b in (bar, every))
        first = r.vjp(qvel=bar, check=False)
    for g in (last, first):
        assert g.state[0].any() and g.ctrl[0].any() and not g.state[1].any() and not g.ctrl[1].any()
    assert all_states.state[1].any() and all_states.ctrl[1, :5].any() and not all_states.ctrl[1, 5:].any()


def test_along_parameters(model):
    start, ctrl, rng = somewhere(model)
    mass = np.array(model.params["body_mass"])
    dm = .1 * mass * rng.normal(size=mass.shape)

    def gradient(h):
        with model.rollout(start, ctrl, params={"body_mass": mass + h * dm}) as r:
            return r.vjp(qvel=r.qvel, check=False).ctrl
    with model.rollout(start, ctrl, params={"body_mass": mass}) as r:
        product = r.hvp({"params": {"body_mass": dm}}, {"qvel": r.qvel}, lambda t: {"qvel": t.qvel}).ctrl
    assert off(product, gradient, 1e-2) <= 1e-9


def test_forces_and_short_memory(model):
    """By forces on dofs and bodies; a tape that is too small for all steps gives the same bits."""
    start, ctrl, rng = somewhere(model)
    given = {"qfrc_applied": rng.normal(size=(STEPS, model.nv)), "xfrc_applied": .1 * rng.normal(size=(STEPS, model.nbody, 6))}
    d = {name: .3 * rng.normal(size=a.shape) for name, a in given.items()}

    def rolled(h=0, **options):
        moved = {name: a + h * d[name] for name, a in given.items()}
        return model.rollout(start, ctrl, **moved, outputs=["site_xpos"], **options)

    def gradient(h):
        with rolled(h) as r:
            g = r.vjp(site_xpos=r.site_xpos, qvel=r.qvel, check=False)
        return np.concatenate([g.qfrc_applied.ravel(), g.xfrc_applied.ravel()])
    products = []
    for memory in (None, 200000):
        with rolled(memory=memory) as r:
            g = r.hvp(d, {"site_xpos": r.site_xpos, "qvel": r.qvel}, lambda t: {"site_xpos": t.site_xpos, "qvel": t.qvel})
            products.append(np.concatenate([g.qfrc_applied.ravel(), g.xfrc_applied.ravel()]))
    np.testing.assert_array_equal(*products)
    assert off(products[0], gradient) <= 1e-9


def test_what_is_refused(model):
    start, ctrl, _ = somewhere(model)
    r = model.rollout(start, ctrl)
    bar = {"qvel": r.qvel}
    refused, wrong = pb.UnsupportedError, pb.ArgumentError
    for arguments, error, text in (
            (({"mocap_pos": 0}, bar), refused, "a direction of mocap_pos has none"), (({"command": 0}, bar), refused, "command"),
            (({"speed": 0}, bar), wrong, "found 'speed'"), (({}, {"speed": 0}), wrong, "cotangents: .*found 'speed'"),
            (({}, bar, {"speed": 0}), wrong, "changes: .*found 'speed'"), ((ctrl, bar), wrong, "direction: expected a dict"),
            (({"ctrl": ctrl[0]}, bar), wrong, "direction of ctrl: expected"),
            (({}, {"qvel": ctrl}), wrong, "^cotangents: qvel: expected shape"), (({}, bar, {"qvel": ctrl}), wrong, "^changes: qvel: expected shape"),
            (({}, {"qvel": 0 * r.qvel + np.nan}), wrong, "^cotangents: qvel: entry"), (({}, bar, {"qvel": r.qvel * np.nan}), wrong, "^changes: qvel: entry"),
            (({}, bar, lambda t: t.qvel), wrong, "^changes: expected a dict of arrays by name, found ndarray"),
            (({}, bar, r.qvel), wrong, "^changes: expected a dict"), (({}, bar, lambda t: []), wrong, "^changes: expected a dict"),
            (({"params": np.ones(3)}, bar), wrong, "^direction of params: expected a dict of arrays by name, found ndarray"),
            (({"params": []}, bar), wrong, "^direction of params: expected a dict"), (({"ctrl": np.full_like(ctrl, np.nan)}, bar), wrong, "ctrl")):
        with pytest.raises(error, match=text):
            r.hvp(*arguments)
    with pytest.raises(pb.UnsupportedError, match="the result by body_mass has none"):
        r.hvp({"ctrl": ctrl}, bar, wrt=["body_mass"])
    with pytest.raises(KeyError):
        r.hvp({"ctrl": ctrl}, bar, wrt=["no_such"])
    for wrt in (3, [3], ["ctrl", None]):
        with pytest.raises(pb.ArgumentError, match="^wrt: expected a name or several, found"):
            r.hvp({"ctrl": ctrl}, bar, wrt=wrt)
    assert r.hvp({"ctrl": ctrl}, bar, lambda t: {}).ctrl.shape == ctrl.shape
    r.close()
    with pytest.raises(pb.ArgumentError, match="closed"):
        r.hvp({"ctrl": ctrl}, bar)

    # By what a model or a step has.
    wet = SCENE.replace('<option timestep="0.004"/>', '<option timestep="0.004" density="1000"/>')
    for xml, settings, text in ((SCENE, {"contact": {"method": "lcp"}}, "contact methods other than soft and penalty"),
                                (wet, {}, "a medium"), (SCENE, {"options": {"noslip_iterations": 3}}, "noslip_iterations")):
        r = pb.loads(xml, **settings).rollout(start.flat, ctrl)
        with pytest.raises(pb.UnsupportedError, match="second derivatives.*" + text):
            r.hvp({"ctrl": ctrl}, {"qvel": r.qvel})
    with model.rollout(start, ctrl, gradient="event") as r, pytest.raises(pb.UnsupportedError, match="'exact' alone"):
        r.hvp({"ctrl": ctrl}, {"qvel": r.qvel})
