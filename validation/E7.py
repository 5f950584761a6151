"""Minimizers side by side

Minimizers side by side: iterations and time to a residual of 1e-8 N on springs at rest, one step of springs, and one step of sheets
of triangles; Newton's iterations against stiffness; a minimizer of the user's."""
import time

import numpy as np
from scipy.optimize import minimize

from common import below, row
import E1
import deform
import soft
import springs

METHODS = ("gradient", "adam", "lbfgs", "newton_cg", "newton")
LIMIT = 1e-8  # N


def relaxation(method, **options):
    return springs.world("hookean", 1, "static", method, x=E1.X, ends=E1.ENDS, rest=E1.REST, **options)


def springs_of(k):
    return lambda method, **options: springs.world("hookean", k, "implicit_euler", method, **options)


def sheet_of(nx, ny, stiffness=1.0):
    """A step of a third of a second of a sheet held on its left, thrown about and pulled down."""
    def build(method, **options):
        x, triangles = soft.sheet(nx, ny, 2.0, 1.0, 0.1)
        held = x[:, 0] < 1e-9
        v = np.where(held[:, None], 0, 0.05 * np.random.default_rng(2).standard_normal(x.shape))
        w = deform.World(10 * soft.H, (0, -soft.GRAVITY, 0))
        w.points(x, 1.0, velocity=v)
        w.energy("flesh", soft.FLESH, triangles, mu=stiffness * soft.MU, **{"lambda": stiffness * soft.LAMBDA})
        w.fix(np.flatnonzero(held))
        return w.freeze("implicit_euler", method, **options)
    return build


def force_left(w, before, after, gravity):
    """Largest force that is left over at the end of a step, evaluated outside of the solver."""
    _, g = w.evaluate(w.x(after), w.x(before))
    if gravity is not None:
        inertia = (w.x(after) - w.x(before) - w.h * w.v(before)) / w.h**2
        g = g + inertia - gravity
        g[np.all(w.x(after) == w.x(before), axis=1)] = 0  # held
    return np.max(np.abs(g[:, :2]))


def mean_count(k, steps=100):
    """Newton's iterations a step, over a run of springs."""
    w = springs.world("hookean", k)
    state, total = w.start(), 0
    for _ in range(steps):
        state, _ = w.step(state)
        total += w.report().iterations
    return total / steps


def solve(build, method, gravity, most=20000):
    """(iterations, seconds, force left)."""
    w = build(method, iterations=200 if method.startswith("newton") else most, residual=LIMIT, approximate=True, rate=0.1 if gravity is None else 1e-3)
    state = w.start()
    w._scratch()
    begin = time.perf_counter()
    after, _ = w.step(state)
    return w.report().iterations, time.perf_counter() - begin, force_left(w, state, after, gravity)


def by_user():
    """SciPy's conjugate gradients as the minimizer of a step: how far from Newton's."""
    def minimise(evaluate, x):
        done = minimize(evaluate, x, jac=True, method="CG", options={"gtol": 1e-11, "maxiter": 10000})
        return done.x, done.nit
    exact, own = (springs.world("hookean", 80, "implicit_euler", m, **o) for m, o in (("newton", {}), ("user", {"minimise": minimise, "residual": 1e-6})))
    (a, _), (b, _) = exact.step(exact.start()), own.step(own.start())
    return np.max(np.abs(exact.x(a) - own.x(b)))


def rows():
    out, down = [], np.array([0, -soft.GRAVITY, 0])
    problems = [("E1, 14 springs at rest", relaxation, None), ("E4, one step, k = 80", springs_of(80), np.zeros(3)),
                ("E4, one step, k = 1e5", springs_of(1e5), np.zeros(3)),
                ("E5, one step, 1000 triangles", sheet_of(25, 20), down), ("E5, one step, 10000 triangles", sheet_of(100, 50), down)]
    for label, build, gravity in problems:
        for method in METHODS:
            n, seconds, force = solve(build, method, gravity, 1500 if "10000" in label else 20000)
            text = f"{n} iterations, {1e3 * seconds:.3g} ms, {force:.1e} N left" + ("" if force <= LIMIT else " (gave up)")
            must = method.startswith("newton")
            out.append(row(f"{label}: {method}", text, f"<= {LIMIT:g} N" if must else "reported", not must or force <= LIMIT))
    stiff = [8 * 10**e for e in range(6)]
    counts = [mean_count(k) for k in stiff]
    out.append(row("Newton's iterations a step of 100, springs, k from 8 to 8e5", ", ".join(f"{n:.1f}" for n in counts), "most <= 2 x least", max(counts) <= 2 * min(counts)))
    counts = [solve(springs_of(k), "newton", np.zeros(3))[0] for k in stiff]
    out.append(row("... of the first step, from strains of a third", ", ".join(map(str, counts)), "reported", True))
    counts = [solve(sheet_of(25, 20, k / soft.MU), "newton", down)[0] for k in stiff]
    out.append(row("Newton's iterations, one step of 1000 triangles, mu from 8 to 8e5", ", ".join(map(str, counts)), "most <= 2 x least", max(counts) <= 2 * min(counts)))
    out.append(below("a step by SciPy's conjugate gradients through the user's door: points off Newton's [m]", by_user(), 1e-9))
    return out
