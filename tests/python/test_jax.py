"""JAX: every transformation against the others, and against numbers of NumPy, at once and in compiled programs by custom calls and by
callbacks; the scene of test_contract.py."""
import gc
import os
import pickle
import statistics
import subprocess
import sys
import threading
import time
import weakref

import numpy as np
import pytest

import pullback as pb
from test_contract import SCENE

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402

import pullback.jax as pj  # noqa: E402
from pullback import xla  # noqa: E402

N = 4
PENDULUM = """<mujoco><option timestep="0.002"/><worldbody><body><joint name="j" axis="0 1 0" damping=".1"/>
<geom type="capsule" fromto="0 0 0 0 0 -.5" size=".03"/></body></worldbody><actuator><motor joint="j"/></actuator></mujoco>"""


@pytest.fixture(params=["at once", "ffi", "callback"])
def rollout(request):
    """pj.rollout, as it is or as a program compiled with one of the backends."""
    def compiled(model, qpos, qvel, ctrl=None, act=None, params=None, **options):
        def f(arrays):
            return pj.rollout(model, **arrays, backend=request.param, **options)
        return jax.jit(f)(dict(qpos=qpos, qvel=qvel, ctrl=ctrl, act=act, params=params))
    return pj.rollout if request.param == "at once" else compiled


@pytest.fixture
def run(rollout):
    return lambda model, q, v, a, c, m, f, **options: rollout(model, q, v, c, act=a, params={"body_mass": m, "geom_friction:floor": f}, **options)


@pytest.fixture(autouse=True, scope="module")
def double():
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


@pytest.fixture(scope="module")
def model():
    return pb.loads(SCENE)


@pytest.fixture(scope="module")
def start(model):
    rng = np.random.default_rng(0)
    s = model.integrate(model.init(batch=3), .05 * rng.normal(size=(3, len(model.tangent_names))))
    qpos = s.qpos.copy()
    qpos[:, 7:11] *= 1.3
    return dict(qpos=jnp.array(qpos), qvel=jnp.array(s.qvel), act=jnp.array(.2 * rng.random((3, 1))), ctrl=jnp.array(.3 * rng.normal(size=(3, N, 2))),
                mass=jnp.array(model.params["body_mass"]), friction=jnp.array(model.params["geom_friction:floor"]))


def test_numbers_are_those_of_numpy(model, start, run):
    q, v, a = run(model, *start.values())
    s = model.init(batch=3)
    s.qpos, s.qvel, s.act = np.array(q[:, 0]), np.array(start["qvel"]), np.array(start["act"])
    r = model.rollout(s, np.array(start["ctrl"]), params={"body_mass": model.params["body_mass"], "geom_friction:floor": model.params["geom_friction:floor"]})
    assert np.array_equal(q, r.qpos) and np.array_equal(v, r.qvel) and np.array_equal(a, r.act)
    bar = np.random.default_rng(1).normal(size=v.shape)
    g = r.vjp(qvel=bar)
    found = jax.grad(lambda *x: (run(model, *x)[1] * bar).sum(), argnums=(1, 3, 4))(*start.values())
    for x, y in zip(found, (g.qvel, g.ctrl, g.params["body_mass"])):
        np.testing.assert_array_equal(x, y)


def test_gradients_are_those_of_differences(model, start, run):
    from jax.test_util import check_grads
    args = list(start.values())
    mass = args[4][1:]
    f = lambda q, v, a, c, m, fr: run(model, q, v, a, c, jnp.concatenate([jnp.zeros(1), m]), fr, outputs="sensordata")
    check_grads(f, (*args[:4], mass, args[5]), order=1, modes=("fwd", "rev"), atol=1e-5, rtol=1e-5, eps=1e-6)


def test_transformations(model, start, run):
    q, v, a, c, m, f = start.values()
    loss = lambda q, v, a, c, m, f: (run(model, q, v, a, c, m, f)[1][..., -1, :] ** 2).sum()
    whole = jax.grad(loss, argnums=(3, 4))(q, v, a, c, m, f)
    jitted = jax.jit(jax.grad(loss, argnums=(3, 4)))(q, v, a, c, m, f)
    each = jax.vmap(jax.grad(loss, argnums=(3, 4)), in_axes=(0, 0, 0, 0, None, None))(q, v, a, c, m, f)
    for w in range(3):
        one = jax.grad(loss, argnums=(3, 4))(q[w], v[w], a[w], c[w], m, f)
        for x, y in zip(each, one):
            np.testing.assert_array_equal(x[w], y)
    for x, y in zip(whole, jitted):
        np.testing.assert_array_equal(x, y)
    np.testing.assert_allclose(each[1].sum(0), whole[1], rtol=1e-12, atol=1e-13)
    outer = jax.grad(lambda m: jax.vmap(loss, in_axes=(0, 0, 0, 0, None, None))(q, v, a, c, m, f).sum())(m)
    np.testing.assert_allclose(outer, whole[1], rtol=1e-12, atol=1e-13)

    last = lambda c: run(model, q[0], v[0], a[0], c, m, f)[1][-1]
    forward, reverse = jax.jacfwd(last)(c[0]), jax.jit(jax.jacrev(last))(c[0])
    assert forward.shape == (model.nv, N, 2)
    np.testing.assert_allclose(forward, reverse, rtol=1e-10, atol=1e-13)
    way = jnp.array(np.random.default_rng(2).normal(size=c[0].shape))
    np.testing.assert_allclose(jax.jvp(last, (c[0],), (way,))[1], jnp.einsum("vnu,nu->v", reverse, way), rtol=1e-10, atol=1e-13)
    many = jax.vmap(jax.jacrev(lambda c, q: run(model, q, v[0], a[0], c, m, f)[1][-1]))(c, q)
    many_forward = jax.vmap(jax.jacfwd(lambda c, q: run(model, q, v[0], a[0], c, m, f)[1][-1]))(c, q)
    single = jax.jacrev(lambda c: run(model, q[1], v[0], a[0], c, m, f)[1][-1])(c[1])
    np.testing.assert_allclose(many[1], single, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(many_forward[1], single, rtol=1e-10, atol=1e-13)
    nested = jax.vmap(jax.vmap(lambda v, c: run(model, q[0], v, a[0], c, m, f)[1], in_axes=(None, 0)), in_axes=(0, None))(v, c)
    assert nested.shape == (3, 3, N + 1, model.nv)
    np.testing.assert_array_equal(nested[1, 2], run(model, q[0], v[1], a[0], c[2], m, f)[1])
    last_axis = jax.vmap(lambda c: run(model, q[0], v[0], a[0], c, m, f)[1], in_axes=2, out_axes=1)(jnp.moveaxis(c, 0, 2))
    np.testing.assert_array_equal(last_axis[:, 1], run(model, q[0], v[0], a[0], c[1], m, f)[1])


def test_scan(model, start, rollout):
    q, v, a, c, m, f = (x[0] if x.ndim > 1 else x for x in start.values())

    def last(c):
        def body(s, u):
            return tuple(x[1] for x in rollout(model, s[0], s[1], u[None], act=s[2])), None
        return jax.lax.scan(body, (q / jnp.linalg.norm(q) * 0 + rollout(model, q, v, c, act=a)[0][0], v, a), c)[0][1]
    np.testing.assert_allclose(last(c), rollout(model, q, v, c, act=a)[1][-1], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(jax.jit(jax.jacrev(last))(c), jax.jacrev(lambda c: rollout(model, q, v, c, act=a)[1][-1])(c), rtol=1e-6, atol=1e-9)


def scanned(model, backend, q, v, c):
    """By the start and the controls: gradients of what a loop of steps comes to, each a call."""
    def last(q, v, c):
        def body(s, u):
            return tuple(x for x in pj.step(model, *s[:2], u, act=s[2], backend=backend)), None
        q, v, a = jax.lax.scan(body, (q, v, jnp.zeros(model.na)), c)[0]
        return q.sum() + jnp.sin(v).sum() + a.sum()
    return jax.grad(last, argnums=(0, 1, 2))(q, v, c)


def test_the_short_way_of_a_step_has_the_same_bits(model, start, monkeypatch):
    """A step of one world and its pullback without Python in between: outputs, gradients, failures as of the long way."""
    q, v, c = start["qpos"][1], start["qvel"][1], start["ctrl"][1]
    taken = []
    single = pj._Spec.single
    monkeypatch.setattr(pj._Spec, "single", lambda self, shapes: taken.append(single(self, shapes)) or taken[-1])
    found = [jax.jit(lambda q, v, c, backend=backend: scanned(model, backend, q, v, c))(q, v, c) for backend in ("ffi", "callback")]
    assert len(taken) >= 4 and all(taken)
    long = scanned(model, None, q, v, c)
    with jax.disable_jit():  # a call at a time
        at_once = scanned(model, None, q, v, c)
    for way in (*found, long):
        for a, b in zip(way, at_once, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-15)  # XLA's own sums and sines
    step = lambda q: pj.step(model, q, v, c[0])
    for a, b in zip(jax.jit(step)(q), step(q), strict=True):
        np.testing.assert_array_equal(a, b)
    bars = [jnp.array(np.random.default_rng(k).normal(size=a.shape)) for k, a in enumerate(step(q))]
    pull = lambda q, v, u, a: jax.vjp(lambda q, v, u, a: pj.step(model, q, v, u, act=a), q, v, u, a)[1](tuple(bars))
    for a, b in zip(jax.jit(pull)(q, v, c[0], start["act"][1]), pull(q, v, c[0], start["act"][1]), strict=True):
        np.testing.assert_array_equal(a, b)
    for bad, says in ((q * jnp.nan, "qpos: entry"), (q * 0, "length of a quaternion")):
        with pytest.raises(Exception, match=says):
            jax.block_until_ready(jax.jit(step)(bad))
    limited = pb.loads(PENDULUM.replace('joint="j"/></actuator>', 'joint="j" ctrllimited="true" ctrlrange="-1 1"/></actuator>'))
    for by in (lambda u: pj.step(limited, jnp.zeros(1), jnp.zeros(1), u)[0], jax.grad(lambda u: pj.step(limited, jnp.zeros(1), jnp.zeros(1), u)[1][0])):
        with pytest.raises(Exception, match="ctrl: entry"):  # which a limit would hide
            jax.block_until_ready(jax.jit(by)(jnp.array([jnp.nan])))
    with pytest.raises(Exception, match="step 0"):
        jax.block_until_ready(jax.jit(lambda v: pj.step(model, q, v, c[0]))(v * 1e200))


def test_a_scan_of_steps_costs_little():
    """160 calls and their pullbacks beside one rollout and its gradient: 5 times its time are promised; measured 1.7 to 2.4, 200 before."""
    gym = pytest.importorskip("gymnasium.envs.mujoco")
    model = pb.load(os.path.join(os.path.dirname(gym.__file__), "assets", "humanoid.xml"))
    q, v, c = jnp.array(model.init().qpos), jnp.array(model.init().qvel), jnp.zeros((160, model.nu))

    def last(c):
        return jax.lax.scan(lambda s, u: (pj.step(model, *s, u)[:2], None), (q, v), c)[0][0][0]
    scan, whole = jax.jit(jax.grad(last)), jax.jit(jax.grad(lambda c: pj.rollout(model, q, v, c)[0][-1, 0]))
    np.testing.assert_allclose(scan(c), whole(c), rtol=1e-10, atol=1e-14)
    if pj.backend() != "ffi":
        pytest.skip("without XLA's header there are callbacks, which cost more than steps")

    def spent(f, k):
        begin = time.process_time()
        f(c + 1e-7 * k).block_until_ready()
        return time.process_time() - begin
    times = [(spent(scan, k), spent(whole, k)) for k in range(9)]
    ratio = statistics.median(a for a, _ in times) / statistics.median(b for _, b in times)
    assert ratio < 5, ratio


def scalar(run, model, start):
    """A loss of all outputs, by state and controls as a tuple."""
    *_, m, f = start.values()
    weights = np.random.default_rng(2).normal(size=(3, 12))

    def loss(x):
        return sum((jnp.sin(o) * w[:o.shape[-1]]).sum() + .05 * (o ** 2).sum() for o, w in zip(run(model, *x, m, f), weights))
    return loss, tuple(start.values())[:4]


def test_second_derivatives_beside_differences(model, start, run):
    """Forward over reverse and reverse over reverse, compiled and not, of three worlds at once."""
    loss, x = scalar(run, model, start)
    rng = np.random.default_rng(1)
    way = tuple(jnp.asarray(rng.normal(size=a.shape)) for a in x)
    flat = lambda parts: np.concatenate([np.ravel(p) for p in parts])
    moved = lambda h: tuple(a + h * w for a, w in zip(x, way))
    product = flat(jax.jvp(jax.grad(loss), (x,), (way,))[1])
    assert np.abs(product).max() > 1
    others = [jax.jit(lambda x: jax.jvp(jax.grad(loss), (x,), (way,))[1])(x),
              jax.grad(lambda x: sum((g * w).sum() for g, w in zip(jax.grad(loss)(x), way)))(x),
              jax.jit(jax.grad(lambda x: sum((g * w).sum() for g, w in zip(jax.grad(loss)(x), way))))(x)]
    for other in others:
        np.testing.assert_allclose(flat(other), product, rtol=0, atol=1e-11 * np.abs(product).max())
    g, least = jax.jit(jax.grad(loss)), 1.
    for base in (1e-3, 2.5e-4, 6e-5, 1.5e-5):
        quotient = lambda h: (flat(g(moved(h))) - flat(g(moved(-h)))) / (2 * h)
        expected = sum(w * quotient(h * base) for w, h in ((64 / 45, 1), (-20 / 45, 2), (1 / 45, 4)))
        least = min(least, np.abs(product - expected).max() / np.abs(product).max())
    assert least <= 1e-9, least


def test_hessians(model, start, run):
    """jax.hessian by controls, alone and mapped over worlds: symmetric, and its products those along single directions."""
    loss, (q, v, a, c) = scalar(run, model, start)
    of = lambda q, v, a, c: loss((q, v, a, c))
    whole = jax.hessian(lambda flat: of(q, v, a, flat.reshape(c.shape)))(c.ravel())
    np.testing.assert_allclose(whole, whole.T, rtol=0, atol=1e-11 * np.abs(whole).max())
    d = np.random.default_rng(3).normal(size=c.shape)
    along = jax.jvp(jax.grad(lambda c: of(q, v, a, c)), (c,), (jnp.asarray(d),))[1]
    np.testing.assert_allclose(whole @ d.ravel(), np.ravel(along), rtol=0, atol=1e-11 * np.abs(along).max())
    each = jax.vmap(jax.hessian(of, argnums=3))(q, v, a, c)  # of each world its own block
    blocks = whole.reshape(3, c[0].size, 3, c[0].size)
    for k in range(3):
        own = blocks[k, :, k]
        np.testing.assert_allclose(np.reshape(each[k], own.shape), own, rtol=0, atol=1e-11 * np.abs(whole).max())


def test_second_derivatives_that_are_not_there_are_refused_by_name(model, start, run):
    q, v, a, c, m, f = start.values()
    loss = lambda c, m: (run(model, q, v, a, c, m, f)[1] ** 2).sum()
    by_control = lambda c: loss(c, m)
    for twice, text in ((jax.jacfwd(jax.jacfwd(by_control)), "forward over forward"),
                        (jax.jacrev(jax.jacfwd(by_control)), "reverse over forward.*jax.jvp of jax.grad"),
                        (lambda c: jax.grad(lambda c: jax.jvp(by_control, (c,), (jnp.ones_like(c),))[1])(c), "reverse over forward"),
                        (lambda c: jax.hessian(lambda m: loss(c, m))(m), "body_mass has none"),
                        (lambda c: jax.hessian(jax.grad(lambda c: by_control(c)))(c), "third derivative")):
        with pytest.raises(pb.UnsupportedError, match=text):
            twice(c)


def test_single_precision_is_computed_in_double(model, start, run, rollout):
    q, v, a, c, m, f = (jnp.asarray(x, jnp.float32) for x in start.values())
    out = run(model, q, v, a, c, m, f)
    assert all(o.dtype == jnp.float32 for o in out)
    exact = run(model, *(jnp.asarray(x, jnp.float64) for x in (q, v, a, c, m, f)))
    np.testing.assert_array_equal(out[1], np.asarray(exact[1], np.float32))
    g = jax.grad(lambda c: run(model, q, v, a, c, m, f)[1].sum())(c)
    assert g.dtype == jnp.float32
    with pytest.raises(TypeError, match="ctrl: expected float64 or float32, found float16"):
        rollout(model, q, v, c.astype(jnp.float16))


def test_wrong_shapes_are_told_when_traced(model, start, rollout):
    with pytest.raises(pb.ArgumentError, match="ctrl"):
        jax.jit(lambda c: rollout(model, start["qpos"], start["qvel"], c))(jnp.zeros(2))
    q, v, c = (jnp.array(start[name]) for name in ("qpos", "qvel", "ctrl"))
    wrong = {"ctrl": (q, v, jnp.zeros((N, model.nu + 1)), {}), "qpos": (q[..., 1:], v, c, {}), "qvel": (q, jnp.zeros(model.nv + 1), c, {}),
             "leading axes": (q, v, jnp.zeros((2, *c.shape[1:])), {}), "body_mass": (q, v, c, {"params": {"body_mass": jnp.ones(model.nbody + 1)}})}
    for name, (q, v, c, more) in wrong.items():
        with pytest.raises(pb.ArgumentError, match=name):
            jax.eval_shape(lambda q, v, c: rollout(model, q, v, c, **more), q, v, c)  # noqa: B023
    assert [o.shape for o in jax.eval_shape(lambda c: rollout(model, start["qpos"], start["qvel"], c), start["ctrl"])][0] == (3, N + 1, model.nq)


def test_without_double_precision(model, start):
    """jax_enable_x64 off, as it is by default: float32 in and out, computed in double."""
    jax.config.update("jax_enable_x64", False)
    try:
        single = {name: np.asarray(x, np.float32) for name, x in start.items()}
        q, v, a, c = (jnp.array(single[n]) for n in ("qpos", "qvel", "act", "ctrl"))
        expected = model.rollout(_state(model, single), np.asarray(single["ctrl"], float))
        last = lambda c, backend: pj.rollout(model, q, v, c, act=a, backend=backend)[1][:, -1].sum()
        for backend in ("ffi", "callback"):
            out = jax.jit(lambda c: pj.rollout(model, q, v, c, act=a, backend=backend))(c)
            assert all(o.dtype == jnp.float32 for o in out)
            np.testing.assert_array_equal(out[1], expected.qvel.astype(np.float32))
            g = jax.jit(jax.grad(last), static_argnums=1)(c, backend)
            np.testing.assert_array_equal(g, expected.vjp(qvel=np.ones((3, model.nv))).ctrl.astype(np.float32))
    finally:
        jax.config.update("jax_enable_x64", True)


def _state(model, values):
    s = model.init(batch=3)
    q = np.asarray(values["qpos"], float)
    for at in (3, 7):
        q[:, at:at + 4] /= np.sqrt((q[:, at:at + 4] ** 2).sum(axis=-1, keepdims=True))
    s.qpos, s.qvel, s.act = q, values["qvel"], values["act"]
    return s


# ---- how compiled programs come here ------------------------------------------------------------------------------------------
def test_backend(monkeypatch):
    assert pj.backend() == "ffi"
    assert pj.backend("callback") == "callback"
    monkeypatch.setenv("PULLBACK_JAX", "callback")
    assert pj.backend() == "callback" and pj.backend("ffi") == "ffi"
    with pytest.raises(pb.ArgumentError, match="expected ffi or callback, found 'other'"):
        pj.backend("other")
    monkeypatch.delenv("PULLBACK_JAX")
    monkeypatch.setattr(pj, "_without_ffi", lambda: "no header")
    assert pj.backend() == "callback"
    with pytest.raises(pb.UnsupportedError, match="no header"):
        pj.backend("ffi")


def test_a_program_has_the_call_in_it(model, start):
    text = lambda backend: jax.jit(lambda c: pj.rollout(model, start["qpos"], start["qvel"], c, backend=backend)).lower(start["ctrl"]).as_text()
    assert "custom_call @pullback(" in text("ffi") and "custom_call @pullback(" not in text("callback")


@pytest.mark.parametrize("backend", ["ffi", "callback"])
def test_failures_are_told(backend):
    m = pb.loads(PENDULUM)
    ctrl = jnp.zeros((3, 5, 1)).at[1, 2].set(1e300)
    with pytest.raises(pb.StepError, match=r"world 1.*step 2 of 5"):
        pj.rollout(m, jnp.zeros(1), jnp.zeros(1), ctrl)
    f = jax.jit(lambda c: pj.rollout(m, jnp.zeros(1), jnp.zeros(1), c, backend=backend)[0])
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"StepError: world 1.*step 2 of 5.*grows beyond bounds") as told:
        f(ctrl).block_until_ready()
    assert backend == "callback" or "Traceback" not in str(told.value)
    assert np.isfinite(f(jnp.zeros((3, 5, 1)))).all()


def test_a_call_lives_as_long_as_its_program():
    m = pb.loads(PENDULUM)
    seen = weakref.ref(m)
    lowered = jax.jit(lambda c, m=m: pj.rollout(m, jnp.zeros(1), jnp.zeros(1), c, backend="ffi")[0]).lower(jnp.zeros((5, 1)))
    expected = np.array(m.rollout(m.init(), np.ones((5, 1))).qpos)
    del m
    jax.clear_caches(), pj._kept.clear(), gc.collect()
    program = lowered.compile()
    del lowered
    jax.clear_caches(), gc.collect()
    np.testing.assert_array_equal(program(jnp.ones((5, 1))), expected)
    assert seen() is not None
    del program
    jax.clear_caches(), gc.collect()
    assert seen() is None


def test_many_models_do_not_stay():
    seen, before = [], len(xla._hosts)
    for k in range(12):
        m = pb.loads(PENDULUM.replace(".5", str(.5 + .01 * k)))
        seen.append(weakref.ref(m))
        f = jax.jit(jax.grad(lambda c, m=m: pj.rollout(m, jnp.zeros(1), jnp.zeros(1), c, backend="ffi")[0].sum()))
        assert np.isfinite(f(jnp.zeros((5, 1)))).all()
        del m, f
    for _ in range(3):
        pj._kept.clear(), jax.clear_caches(), gc.collect()
    assert sum(r() is not None for r in seen) <= 1 and len(xla._hosts) <= before + 2


def test_equal_calls_share_their_host(model, start):
    f = lambda c: pj.rollout(model, start["qpos"], start["qvel"], c, backend="ffi")[0]
    one, other = jax.jit(f).lower(start["ctrl"]), jax.jit(lambda c: f(c) + 1).lower(start["ctrl"])
    token = lambda low: low.as_text().split('host = "')[1].split('"')[0]
    assert token(one) == token(other) and token(one) in xla._hosts


def test_threads_side_by_side(model, start):
    """Compiled programs and plain rollouts from several threads of Python at once."""
    f = jax.jit(jax.grad(lambda c: pj.rollout(model, start["qpos"], start["qvel"], c, backend="ffi")[1].sum()))
    inputs = [start["ctrl"] * k for k in range(4)]
    expected = [f(c) for c in inputs]
    wrong = []

    def work(k):
        for _ in range(10):
            if k % 2:
                model.rollout(model.init(), np.array(inputs[k][0]))
            if not np.array_equal(f(inputs[k]), expected[k]):
                wrong.append(k)
    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert not any(t.is_alive() for t in threads) and not wrong


def process(text, **more):
    """A fresh process of the text behind what all of them need."""
    head = f"""
import os, signal, sys, threading, time
import jax, jax.numpy as jnp, numpy as np
import pullback as pb, pullback.jax as pj
jax.config.update("jax_enable_x64", True)
m = pb.loads({PENDULUM!r})
f = jax.jit(lambda c: pj.rollout(m, jnp.zeros(1), jnp.zeros(1), c, backend="ffi")[0][..., -1, 0])
"""
    return subprocess.run([sys.executable, "-c", head + text], capture_output=True, text=True, timeout=120,
                          env={**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(pb.__file__)), **more})


def test_several_devices():
    """One call on each of four devices at once, and a chain of calls that the runtime takes to its own threads."""
    done = process("""
c = np.random.default_rng(0).normal(size=(4, 50, 1))
g = jax.grad(lambda c: f(c).sum())
each = jax.pmap(g)(c)
assert np.array_equal(each, jnp.stack([g(x) for x in c]))
chain = c
for _ in range(5):
    chain = jax.pmap(lambda c: c + .01 * f(c))(chain)
one = jax.jit(lambda c: c + .01 * f(c)[..., None, None])
for _ in range(5):
    c = one(c)
np.testing.assert_allclose(np.array(chain), c, rtol=1e-15, atol=1e-15)
assert jax.device_put(jnp.zeros((3, 1)), jax.devices()[2]).devices() == pj.rollout(m, *jax.device_put((jnp.zeros(1), jnp.zeros(1), jnp.zeros((3, 1))), jax.devices()[2]))[0].devices()
""", XLA_FLAGS="--xla_force_host_platform_device_count=4")
    assert done.returncode == 0, done.stderr


def test_interrupts():
    done = process("""
def interrupt():
    time.sleep(1)
    start.append(time.time())
    os.kill(os.getpid(), signal.SIGINT)
start = []
f(jnp.zeros((10, 1)))
threading.Thread(target=interrupt).start()
try:
    f(jnp.zeros((4, 3000000, 1)))
    print("not interrupted")
except KeyboardInterrupt:
    assert time.time() - start[0] < 3  # half a second where the machine is idle
    assert abs(f(jnp.zeros((10, 1)))) < 1
    print("interrupted")
""")
    assert done.returncode == 0 and done.stdout == "interrupted\n", done.stdout + done.stderr


def test_a_process_may_end_and_fork():
    """Ended with calls under way on threads of the runtime; and children of a process that has used JAX use the package."""
    done = process("""
going_on = jax.pmap(f)(jnp.zeros((2, 2000000, 1)))
assert not going_on.is_ready()
child = os.fork()
if not child:
    assert len(m.rollout(m.init(), np.zeros((5, 1))).qpos) == 6
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
print("end")
""", XLA_FLAGS="--xla_force_host_platform_device_count=2")
    assert done.returncode == 0 and done.stdout == "end\n", done.stderr


def test_programs_out_of_a_cache(tmp_path):
    """JAX's cache of compiled programs: what one process compiled another uses, with its own model."""
    text = "print(float(f(jnp.ones((7, 1)))), len(os.listdir(jax.config.jax_compilation_cache_dir)))"
    flags = {"JAX_COMPILATION_CACHE_DIR": str(tmp_path), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0", "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1"}
    first, second = process(text, **flags), process(text, **flags)
    assert first.returncode == second.returncode == 0, first.stderr + second.stderr
    assert first.stdout == second.stdout and int(first.stdout.split()[1]) > 0


@pytest.mark.parametrize("name", ["body_mass:ball", "gravity:2", "timestep"])
def test_parameters_of_one_number(name):
    model = pb.loads("""<mujoco><worldbody><body name="ball"><joint type="slide" axis="0 0 1" stiffness="3"/><geom size=".1" mass="1"/></body>
    </worldbody></mujoco>""")
    s = model.init()
    s.qpos = .1
    expected = float(model.rollout(s, steps=10, params={name: model.params[name]}).vjp(qpos=np.ones(1)).params[name])
    end = lambda p: pj.rollout(model, s.qpos, s.qvel, steps=10, params={name: p})[0][..., -1, 0]
    value = jnp.array(float(model.params[name]))
    for found in (jax.grad(end)(value), jax.jit(jax.grad(end))(value), jax.jvp(end, (value,), (1.,))[1], jax.vmap(jax.grad(end))(value[None])[0]):
        np.testing.assert_allclose(float(found), expected, rtol=1e-12)


BLOCK = """<mujoco><asset><mesh name="m" vertex="-.1 0 .03 .1 0 .03 0 .1 .03 0 0 .2"/></asset><worldbody><geom name="ground" type="plane" size="2 2 .1"/>
<body><freejoint/><geom type="mesh" mesh="m" mass="1"/></body></worldbody></mujoco>"""

CUBE = {"name": "cube", "mesh": {"box": {"size": [.1, .1, .1], "cells": [1, 1, 1]}}, "pos": [0, 0, .3],
        "energies": [{"energy": "neo_hookean", "parameters": {"young": 1e5, "poisson": .4, "density": 1000}}]}


def policy_of(seed=1):
    return pb.loads(PENDULUM, policy={"observe": [{"qpos": True}, {"qvel": True}], "layers": [{"dense": 1, "init": "uniform"}], "seed": seed})


@pytest.mark.parametrize("make", [policy_of, lambda: pb.loads(BLOCK, expose="mesh_vert:m"), lambda: pb.loads(BLOCK, design=True),
                                  lambda: pb.loads(PENDULUM, deformables={"bodies": [CUBE]})], ids=["policy", "exposed", "design", "deformable"])
@pytest.mark.parametrize("backend", ["ffi", "callback"])
def test_models_without_bytes_compile_too(make, backend):
    """Nothing says what they are but the model itself, which the program keeps alive."""
    m = make()
    with pytest.raises(pb.UnsupportedError, match="as bytes"):
        pickle.dumps(m)
    s = m.init()
    v = jnp.array(s.qvel) + .1

    def loss(v):
        out = pj.rollout(m, s.qpos, v, steps=40, backend=backend)
        return (out[1] ** 2).sum()
    one, other = jax.jit(loss), jax.jit(jax.grad(loss))
    np.testing.assert_allclose(one(v), loss(v), rtol=1e-14)
    np.testing.assert_array_equal(other(v), jax.grad(loss)(v))


@pytest.mark.parametrize("backend", ["ffi", "callback"])
def test_a_policy_compiles(backend):
    """Its parameters' gradient; two models that differ in them alone stay two; its Hessian is refused by name."""
    models = policy_of(1), policy_of(2)
    weights = jnp.array([[.3, -.2]]).reshape(models[0].params["policy.0.weight"].shape)

    def loss(c, w, m=models[0]):
        return (pj.rollout(m, jnp.full(1, .3), jnp.zeros(1), c, params={"policy.0.weight": w}, backend=backend)[0][1:] ** 2).sum()
    c = jnp.full((5, 1), .1)
    by = jax.jit(jax.grad(loss, argnums=(0, 1)))(c, weights)
    for found, expected in zip(by, jax.grad(loss, argnums=(0, 1))(c, weights), strict=True):
        np.testing.assert_array_equal(found, expected)
    step = np.zeros_like(weights).ravel()
    step[0] = 1e-5
    quotient = (loss(c, weights + step.reshape(weights.shape)) - loss(c, weights - step.reshape(weights.shape))) / 2e-5
    assert abs(np.ravel(by[1])[0] - quotient) <= 1e-6 * abs(quotient) and abs(quotient) > 1e-9

    plain = [float(jax.jit(lambda c, m=m: pj.rollout(m, jnp.full(1, .3), jnp.zeros(1), c, backend=backend)[0][-1, 0])(c)) for m in models]
    for m, found in zip(models, plain, strict=True):
        s = m.init()
        s.qpos = [.3]
        assert found == m.rollout(s, np.full((5, 1), .1)).qpos[-1, 0]
    assert plain[0] != plain[1]

    hessian = jax.hessian(lambda c: loss(c, weights))
    with pytest.raises(pb.UnsupportedError, match="second derivatives of a rollout: a policy has none"):
        hessian(c)
    with pytest.raises(jax.errors.JaxRuntimeError, match="second derivatives of a rollout: a policy has none"):
        jax.block_until_ready(jax.jit(hessian)(c))


def test_a_step_refuses_what_it_would_begin_anew():
    model = pb.loads(PENDULUM, policy={"observe": [{"qpos": True}], "layers": [{"dense": 1}], "every": 5})
    with pytest.raises(pb.UnsupportedError, match="a state of this model also has policy_memory, policy_held"):
        pj.step(model, jnp.zeros(1), jnp.zeros(1))


def test_a_step_asks_where_a_led_body_was_before():
    model = pb.loads("""<mujoco><worldbody><body mocap="true"><geom type="box" size="1 1 .02"/></body><body pos="0 0 .069"><freejoint/><geom size=".05"/></body>
        </worldbody></mujoco>""", contact={"mocap_motion": "followed"})
    s, pos = model.init(), jnp.array([[[.01, 0, 0]]])
    with pytest.raises(pb.ArgumentError, match="step: mocap_pos without mocap_pos_before or mocap_vel"):
        jax.jit(lambda p: pj.step(model, s.qpos, s.qvel, mocap_pos=p))(pos)
    rest = pj.step(model, s.qpos, s.qvel, mocap_pos=pos, mocap_pos_before=pos[0])[1]
    np.testing.assert_allclose(rest, model.rollout(s, steps=1, mocap_pos=pos, mocap_pos_before=pos[0]).qvel[-1], atol=1e-12)


def test_a_step_takes_poses_of_mocap_bodies_with_their_axis_of_steps():
    """As its documentation says, of pb.torch, too; the shape without it is refused by name."""
    import pullback.torch as pt
    import torch
    m = pb.loads("""<mujoco><worldbody><body name="t" mocap="true" pos="0 0 1"><geom size=".1" contype="0" conaffinity="0"/></body>
<body name="b" pos="0 0 .5"><freejoint/><geom size=".1"/></body></worldbody><equality><weld body1="t" body2="b"/></equality></mujoco>""")
    s, path = m.init(), np.array([[[0, 0, 1.1]]])
    expected = m.rollout(s, mocap_pos=path).qpos[-1]
    assert np.abs(expected - m.rollout(s, steps=1).qpos[-1]).max() > 1e-6
    for module, array in ((pj, jnp.asarray), (pt, torch.tensor)):
        assert "mocap_pos (..., 1, nmocap, 3)" in module.step.__doc__
        found = np.asarray(module.step(m, array(s.qpos), array(s.qvel), mocap_pos=array(path))[0])
        assert np.abs(found - expected).max() < 1e-6 and found.shape == (7,)
        many = module.step(m, array(np.stack([s.qpos, s.qpos])), array(np.stack([s.qvel, s.qvel])), mocap_pos=array(np.stack([path, path])))[0]
        assert np.asarray(many).shape == (2, 7)
        with pytest.raises(pb.ArgumentError, match=r"mocap_pos: expected shape \(N, 1, 3\)"):
            module.step(m, array(s.qpos), array(s.qvel), mocap_pos=array(path[0]))
