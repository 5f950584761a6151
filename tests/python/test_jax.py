"""JAX: every transformation against the others, and against numbers of NumPy; the scene of test_contract.py."""
import numpy as np
import pytest

import pullback as pb
from test_contract import SCENE

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402

import pullback.jax as pj  # noqa: E402

N = 4


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


def run(model, q, v, a, c, m, f, **options):
    return pj.rollout(model, q, v, c, act=a, params={"body_mass": m, "geom_friction:floor": f}, **options)


def test_numbers_are_those_of_numpy(model, start):
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


def test_gradients_are_those_of_differences(model, start):
    from jax.test_util import check_grads
    args = list(start.values())
    mass = args[4][1:]
    f = lambda q, v, a, c, m, fr: run(model, q, v, a, c, jnp.concatenate([jnp.zeros(1), m]), fr, outputs="sensordata")
    check_grads(f, (*args[:4], mass, args[5]), order=1, modes=("fwd", "rev"), atol=1e-5, rtol=1e-5, eps=1e-6)


def test_transformations(model, start):
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


def test_scan(model, start):
    q, v, a, c, m, f = (x[0] if x.ndim > 1 else x for x in start.values())

    def last(c):
        body = lambda s, u: (pj.step(model, s[0], s[1], u, act=s[2]), None)
        return jax.lax.scan(body, (q / jnp.linalg.norm(q) * 0 + pj.rollout(model, q, v, c, act=a)[0][0], v, a), c)[0][1]
    np.testing.assert_allclose(last(c), pj.rollout(model, q, v, c, act=a)[1][-1], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(jax.jit(jax.jacrev(last))(c), jax.jacrev(lambda c: pj.rollout(model, q, v, c, act=a)[1][-1])(c), rtol=1e-6, atol=1e-9)


def test_second_derivatives_are_refused_by_name(model, start):
    q, v, a, c, m, f = start.values()
    loss = lambda c: (run(model, q, v, a, c, m, f)[1] ** 2).sum()
    for twice in (jax.hessian(loss), jax.jacfwd(jax.jacfwd(loss)), jax.grad(lambda c: jax.grad(loss)(c).sum())):
        with pytest.raises(pb.UnsupportedError, match="second derivative"):
            twice(c)


def test_single_precision_is_computed_in_double(model, start):
    q, v, a, c, m, f = (jnp.asarray(x, jnp.float32) for x in start.values())
    out = run(model, q, v, a, c, m, f)
    assert all(o.dtype == jnp.float32 for o in out)
    exact = run(model, *(jnp.asarray(x, jnp.float64) for x in (q, v, a, c, m, f)))
    np.testing.assert_array_equal(out[1], np.asarray(exact[1], np.float32))
    g = jax.grad(lambda c: run(model, q, v, a, c, m, f)[1].sum())(c)
    assert g.dtype == jnp.float32
    with pytest.raises(TypeError, match="ctrl: expected float64 or float32, found float16"):
        pj.rollout(model, q, v, c.astype(jnp.float16))


def test_wrong_shapes_are_told_when_traced(model, start):
    with pytest.raises(pb.ArgumentError, match="ctrl"):
        jax.jit(lambda c: pj.rollout(model, start["qpos"], start["qvel"], c))(jnp.zeros(2))
