"""Energies by themselves: closed forms, every built-in one against differences, pullbacks, what is refused."""
import pickle

import numpy as np
import pytest

import pullback as pb

SPRING = pb.Energy("d = norm(x0 - x1); 0.5*k*(d - norm(X0 - X1))^2", ["k"], name="spring")
LINKS = [[0, 1], [1, 2]]


def test_closed_form():
    rest = np.array([[0, 0, 0], [1, 0, 0], [1, 2, 0.]])
    x = np.array([[0, 0, 0], [1.5, 0, 0], [1.5, 2, 0.]])
    found = SPRING.evaluate(x, X=rest, elements=LINKS, k=[100, 50], hessian=True)
    assert np.allclose(found.value, [12.5, 0]) and np.allclose(found.gradient[0], [[-50, 0, 0], [50, 0, 0]]) and np.allclose(found.gradient[1], 0)
    along, across = 100., 100 * .5 / 1.5  # stiffness along the spring, and that of its tension
    assert np.allclose(found.hessian[0, :3, :3], np.diag([along, across, across]), rtol=1e-13)
    assert SPRING.points == 2 and SPRING.symmetric and found[1] is found.gradient
    assert SPRING.evaluate(x, X=rest, elements=np.zeros((0, 2), int), k=1).value.shape == (0,)
    assert pickle.loads(pickle.dumps(SPRING)).evaluate(x[:2], X=rest[:2], k=100).value == 12.5


@pytest.mark.parametrize("name", sorted(pb.energies()))
def test_built_in_ones(name):
    """Gradients of values, Hessians of gradients, and pullbacks by everything, against differences."""
    e, rng = pb.Energy.built_in(name), np.random.default_rng(0)
    rest = np.array([[0, 0, 0], [1, .1, 0], [.2, 1, .1], [.1, .2, 1], [.5, .05, 0], [.6, .55, .05], [.1, .5, .05], [.05, .1, .5], [.55, .15, .5],
                     [.15, .6, .55]])[:e.points]
    if name.startswith("bending"):
        rest = np.array([[0, 0, 0], [1, 0, 0], [.3, 1, 0], [.4, -1, .1]])
    if "triangle" in name and "membrane" not in name:
        rest[:, 2] = 0
    given = {"X": rest, "y": rest + .02 * rng.standard_normal(rest.shape), "h": .01, "t": .3}
    x = rest + .05 * rng.standard_normal(rest.shape)
    parameters = {n: .3 + .1 * rng.random(s) for n, s in e.parameters.items()}
    base = e.evaluate(x, hessian=True, **given, **parameters)

    def slope(of, start, d):
        central = [(of(start + h * d) - of(start - h * d)) / (2 * h) for h in (2e-5, 4e-5)]
        return (4 * central[0] - central[1]) / 3

    d, w = rng.standard_normal(x.shape), rng.standard_normal(x.shape)
    size = np.abs(base.gradient).max() + np.abs(base.value).max() + 1e-9
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-6, atol=2e-6 * size)
    close(base.gradient[0].ravel() @ d.ravel(), slope(lambda y: e.evaluate(y, **given, **parameters).value[0], x, d))
    size = np.abs(base.hessian).max() + size
    close(base.hessian[0] @ d.ravel(), slope(lambda y: e.evaluate(y, **given, **parameters).gradient[0].ravel(), x, d))

    g = e.pullback(w, x, **given, **parameters)
    work = lambda **changed: np.sum(w * e.evaluate(changed.pop("x", x), **{**given, **parameters, **changed}).gradient[0])
    for what, start in {"x": x, "X": rest, "y": given["y"], **parameters}.items():
        step = rng.standard_normal(np.shape(start))
        if what == "X" and "triangle" in name and "membrane" not in name:
            step[:, 2] = 0
        size = np.abs(g[what]).max() + 1e-9
        close(np.sum(g[what] * step), slope(lambda y, what=what: work(**{what: y}), start, step))


def test_many_elements_with_parameters_of_their_own():
    rng = np.random.default_rng(1)
    x, rest = rng.standard_normal((30, 3)), rng.standard_normal((30, 3))
    links = rng.permutation(np.stack([np.arange(29), np.arange(1, 30)], 1))
    k = rng.random(29) + .5
    whole = SPRING.evaluate(x, X=rest, elements=links, k=k)
    for i, link in enumerate(links):
        one = SPRING.evaluate(x[link], X=rest[link], k=k[i])
        assert one.value[0] == whole.value[i] and np.array_equal(one.gradient[0], whole.gradient[i])
    w = rng.standard_normal(x.shape)
    own, shared = (SPRING.pullback(w, x, X=rest, elements=links, k=v)["k"] for v in (k, 1.))
    stretch = np.linalg.norm(x[links[:, 0]] - x[links[:, 1]], axis=1) - np.linalg.norm(rest[links[:, 0]] - rest[links[:, 1]], axis=1)
    way = (x[links[:, 0]] - x[links[:, 1]]) / np.linalg.norm(x[links[:, 0]] - x[links[:, 1]], axis=1)[:, None]
    np.testing.assert_allclose(own, stretch * np.sum(way * (w[links[:, 0]] - w[links[:, 1]]), axis=1), rtol=1e-12)
    np.testing.assert_allclose(shared, own.sum(), rtol=1e-12)


def test_vectors_and_matrices():
    e = pb.Energy("0.5*dot(x0 - c, A*(x0 - c)) - t*x0.z", {"c": (3,), "A": (3, 3)})
    c, a, x = np.array([1, 2, 3.]), np.diag([1, 2, 3.]) + .1, np.array([[0, 0, 1.]])
    found = e.evaluate(x, c=c, A=a, t=2)
    np.testing.assert_allclose(found.value, .5 * (x[0] - c) @ a @ (x[0] - c) - 2, rtol=1e-14)
    np.testing.assert_allclose(e.pullback(np.ones((1, 3)), x, c=c, A=a, t=2)["t"], -1)


@pytest.mark.parametrize("call, message", [
    (lambda x: SPRING.evaluate(x, k=1), "X: the formula needs it"),
    (lambda x: SPRING.evaluate(x, X=x), "'k' is missing"),
    (lambda x: SPRING.evaluate(x, X=x, k=1, young=3), "there is no 'young'; there are k"),
    (lambda x: SPRING.evaluate(x, X=x, k=[1, 2]), r"k: expected shape \(\), or \(1,\) of each element, found \(2,\)"),
    (lambda x: SPRING.evaluate(x, X=x, k=1, elements=[[0, 2]]), "expected vertices from 0 to 1, found 0 to 2"),
    (lambda x: SPRING.evaluate(x, X=x, k=1, elements=[[0., 1]]), "expected vertex numbers"),
    (lambda x: SPRING.evaluate(x[0], X=x, k=1), r"x: expected shape \(V, 3\), found \(3,\)"),
    (lambda x: SPRING.evaluate(0 * x, X=x, k=1), r"energy 'spring', element 0, line 1, column 5: 'norm' has no derivative here"),
    (lambda x: pb.Energy("log(x0.x)", name="l").evaluate(-x[:1] - 1), "energy 'l', element 0, line 1, column 1: log of -1"),
    (lambda x: pb.Energy("k*x0.x", {"k": (4,)}), r"parameters\['k'\]: expected"),
    (lambda x: pb.Energy("hessian*x0.x", ["hessian"]), "'hessian' is an argument"),
    (lambda x: pb.Energy.built_in("sprong"), "no energy 'sprong'")])
def test_what_is_refused(call, message):
    with pytest.raises(pb.ArgumentError, match=message):
        call(np.array([[0, 0, 0], [1, 0, 0.]]))


def test_a_wrong_formula_is_shown_with_its_place():
    with pytest.raises(pb.InputError, match="(?s)energy 'spring', line 1, column 7: unknown name 'nrm', did you mean 'norm'?.*\\^"):
        pb.Energy("0.5*k*nrm(x0 - x1)", ["k"], name="spring")
