"""Finite elements stepped by minimization

Finite elements stepped by minimization: patch test, beams, muscles at random on a floor, the ledger of energy, gradients of
rollouts, Newton's iterations beside those of first-order methods. The scenes are those of the engine of 2019 (soft.py), the meshes
ours, of its sizes."""
import numpy as np

from common import apart, below, row, slope
import deform
import soft
import springs
from soft import H


# ---- patch test -----------------------------------------------------------------------------------------------------
def patch(order):
    """An irregular sheet under a uniform strain of its boundary: (points off the linear map, stresses off the uniform one), relative."""
    x, cells = soft.sheet(7, 5, 1.4, 1.0, 0.25)
    F, mu, lam = np.array([[1.2, 0.3], [-0.1, 0.9]]), soft.MU, soft.LAMBDA
    edge = np.any((np.abs(x) < 1e-9) | (np.abs(x - [1.4, 1.0]) < 1e-9), axis=1)
    if order == 2:
        x, cells = soft.quadratic(x, cells)
        edge = np.any((np.abs(x) < 1e-9) | (np.abs(x - [1.4, 1.0]) < 1e-9), axis=1)
    w = deform.World(H)
    young, poisson = mu * (3 * lam + 2 * mu) / (lam + mu), 0.5 * lam / (lam + mu)
    w.points(x, 1.0, start=x @ F.T + np.where(edge[:, None], 0, np.random.default_rng(5).uniform(-0.01, 0.01, x.shape)))
    if order == 1:
        w.energy("flesh", soft.SOLID, cells, mu=mu, **{"lambda": lam})
    else:
        w.material("flesh", "neo_hookean_log_triangle6", cells, young=young, poisson=poisson)
    w.fix(np.flatnonzero(edge))
    w.freeze("static")
    s, _ = w.step(w.start())
    after = w.x(s)[:, :2]
    # forces of single elements follow from one stress: f = -P (dX area) ; with P of the law in closed form
    J, inverse = np.linalg.det(F), np.linalg.inv(F).T
    P = mu * (F - inverse) + lam * np.log(J) * inverse
    energy, elements, values = w.stated["flesh"]
    _, each, _ = energy.evaluate(w.x(s), elements, np.pad(x, ((0, 0), (0, 1))), **values)
    moment = np.einsum("epi,epj->eij", each[:, :, :2], x[elements]) / soft.areas(x, elements)[:, None, None]
    return np.max(np.abs(after - x @ F.T)), np.max(np.abs(moment - P)) / np.max(np.abs(P))


# ---- beams ----------------------------------------------------------------------------------------------------------
LENGTH, DEPTH, YOUNG, FORCE = 1.0, 0.05, 1e5, 1e-4


def deflection(cells, order, poisson):
    """Of the tip of a cantilever under a small load at its end, by that of Euler and Bernoulli."""
    x, triangles = soft.sheet(20 * cells, cells, LENGTH, DEPTH)
    if order == 2:
        x, triangles = soft.quadratic(x, triangles)
    w = deform.World(H)
    w.points(x, 1.0)
    w.material("beam", "linear_triangle6" if order == 2 else "linear_triangle", triangles, young=YOUNG, poisson=poisson)
    nodes, f = soft.end_load(x, LENGTH, (0, -FORCE), order)
    w.energy("load", soft.LOAD, nodes[:, None], per_element=("f",), f=f)
    w.fix(np.flatnonzero(x[:, 0] < 1e-9))
    w.freeze("static")
    s, _ = w.step(w.start())
    moved = np.sum(f[:, 1] * (w.x(s)[nodes, 1] - x[nodes, 1])) / FORCE
    return abs(moved) / (FORCE * LENGTH**3 / (3 * YOUNG / (1 - poisson**2) * DEPTH**3 / 12))


def beams():
    out = []
    for poisson in (0.0, 0.3):
        fine = [deflection(n, 2, poisson) for n in (1, 2, 4, 8)]
        exact = fine[3] + (fine[3] - fine[2])**2 / (2 * fine[2] - fine[1] - fine[3])  # Aitken
        linear = [abs(deflection(n, 1, poisson) - exact) for n in (4, 8, 16)]
        second = [abs(v - exact) for v in fine[:3]]
        label = f"cantilever 20 times as long as deep, Poisson's ratio {poisson}"
        out.append(below(f"{label}: tip against Euler and Bernoulli in plane strain, quadratic triangles, relative", abs(fine[3] - 1), 0.02))
        orders = lambda e: np.log2(np.array(e[:-1]) / e[1:])
        text = lambda e: ", ".join(f"{o:.2f}" for o in orders(e))
        out.append(row(f"{label}: order of the tip, linear triangles (they lock: {text(linear)})", orders(linear)[-1], ">= 1.8", orders(linear)[-1] >= 1.8))
        if poisson:  # the corners of the clamped end are singular
            out.append(row(f"{label}: order of the tip, quadratic triangles (singular corners at the clamp: {text(second)})", orders(second)[0], ">= 1.8 at first", orders(second)[0] >= 1.8))
        else:
            out.append(row(f"{label}: order of the tip, quadratic triangles ({text(second)})", orders(second)[-1], ">= 1.8", orders(second)[-1] >= 1.8))
    return out


# ---- bodies with muscles --------------------------------------------------------------------------------------------
def left_over(w, body, before, after, a):
    """Largest entry of the gradient of the step's potential, evaluated outside of the solver."""
    _, g = w.evaluate(w.x(after), w.x(w.start()), w.x(before), muscle__a=a)
    r = w.x(after) - w.x(before) - H * w.v(before) + H**2 * (g + [0, soft.GRAVITY, 0])
    return np.max(np.abs(r[:, :2]))


def random_walk(name, body, steps=10000):
    signals = soft.signals(steps, len(body.muscles))
    w = soft.walker(body, iterations=10)  # a step that needs more is an error
    states = deform.Rollout(w, steps).run(ctrl=signals)
    least = np.min(soft.areas(w.x(states), body.triangles) / soft.areas(body.x, body.triangles))
    some = range(0, steps, steps // 50)
    worst = max(left_over(w, body, states[k], states[k + 1], signals[k]) for k in some)
    counts = {}
    for method in ("gradient", "lbfgs"):
        slow, n = soft.walker(body, method, residual=1e-8 / H**2), []
        for k in some:
            slow.step(states[k], ctrl=signals[k])
            n.append(slow.report().iterations)
        counts[method] = f"{np.median(n):.0f} (most {max(n)})"
    newton = [w.step(states[k], ctrl=signals[k]) and w.report().iterations for k in some]
    size = f"{name}, {len(body.x)} points, {len(body.triangles)} triangles, {len(body.muscles)} muscles"
    return [row(f"{size}: least area of a triangle in {steps} steps of random activations, by its own", least, "> 0", least > 0),
            row(f"{size}: Newton's iterations a step, median of {len(n)} (most {max(newton)}; all {steps} steps within 10)", np.median(newton), "<= 10", max(newton) <= 10),
            below(f"{size}: residual of these steps, largest entry", worst, 1e-8),
            row(f"{size}: the same residual by first-order methods, iterations", ", ".join(f"{k} {v}" for k, v in counts.items()), "reported", True)]


def quick():
    """The triangle with two muscles, the second one swinging."""
    w = deform.World(H, (0, -soft.GRAVITY, 0))
    w.points([[0, 0], [2, 0], [1, 1]], 1.0)
    w.energy("flesh", soft.FLESH, [[0, 1, 2]], mu=soft.MU, **{"lambda": soft.LAMBDA})
    w.energy("muscle", soft.TENDON, [[0, 2], [1, 2]], per_element=("a",), control=("a",), k=soft.MUSCLE, a=np.ones(2))
    w.energy("floor", soft.FLOOR, [[0], [1], [2]], k=soft.COLLISION)
    w.energy("rub", soft.RUB, [[0], [1], [2]], k=soft.FRICTION)
    w.freeze(iterations=10)
    t = np.arange(1000)
    states = deform.Rollout(w, 1000).run(ctrl=np.stack([np.ones(1000), 0.2 + 0.8 * (0.5 * np.cos(0.1 * t) + 0.5)], axis=1))
    x = w.x(states)
    lengths = np.linalg.norm(x[:, 1] - x[:, 2], axis=1)
    return [row("triangle with two muscles, 1000 steps: least height of a point [m]", x[..., 1].min(), ">= -0.01", x[..., 1].min() >= -0.01),
            row("triangle with two muscles, 1000 steps: length of the swinging muscle, least to largest [m]", f"{lengths.min():.4f} to {lengths.max():.4f}", "swings by > 1 %", lengths.max() > 1.01 * lengths.min())]


# ---- energy ---------------------------------------------------------------------------------------------------------
def ledger(w, rest, states):
    """Of each unforced step of backward Euler: (what the total energy gains, what the ledger says it gains: -1/2 |dv|^2 - (E(x) - E(x')
    - E'(x') (x - x')))."""
    x, v = w.x(states), w.v(states)
    found = [w.evaluate(p, rest) for p in x]
    total = np.array([e for e, _ in found]) + 0.5 * np.sum(v**2, axis=(1, 2))
    bend = [found[k][0] - found[k + 1][0] - np.sum(found[k + 1][1] * (x[k] - x[k + 1])) for k in range(len(x) - 1)]
    return np.diff(total), -0.5 * np.sum(np.diff(v, axis=0)**2, axis=(1, 2)) - bend, total


def energies():
    out, body = [], soft.quadruped()
    rest, noise = np.pad(body.x, ((0, 0), (0, 1))), np.random.default_rng(6)
    thrown = 0.5 * noise.standard_normal(body.x.shape)
    for label, formula in (("convex (springs without length)", None), ("the flesh of 2019", soft.FLESH)):
        w = deform.World(H)
        w.points(body.x, 1.0, velocity=thrown)
        if formula:
            w.energy("flesh", formula, body.triangles, mu=soft.MU, **{"lambda": soft.LAMBDA})
        else:
            w.energy("net", "0.5*k*dot(x0 - x1, x0 - x1)", body.muscles, k=soft.MU)
        w.freeze()
        gain, said, total = ledger(w, rest, deform.Rollout(w, 300).run())
        scale = np.max(np.abs(total))
        if not formula:
            out.append(below("unforced, convex energy: largest gain of a step of 300, by the energy", max(0, gain.max()) / scale, 1e-14))
        else:
            out.append(row("unforced, flesh: steps of 300 that gain energy, the largest gain", f"{np.sum(gain > 1e-12 * scale)}, {max(0, gain.max()):.2e}", "reported", True))
        out.append(below(f"unforced, {label}: gain of each step against its ledger, by the energy", np.max(np.abs(gain - said)) / scale, 1e-12))
    w = deform.World(H)
    w.points([[0, 0], [-0.5, 0], [0.5, 0]], 1.0, velocity=[[0, 0.01], [0, 0], [0, 0]])
    w.energy("springs", springs.FORMULAS["hookean"], [[0, 1], [0, 2]], k=80, l0=1)
    w.fix([1, 2])
    w.freeze()
    states = deform.Rollout(w, 1).run()
    gain = ledger(w, w.x(states[0]), states)[0][0]
    return out + [below("a mass between two compressed springs gains 1.055e-5 J in the first step: off by", abs(gain - 1.055e-5), 5e-9)]


# ---- gradients ------------------------------------------------------------------------------------------------------
def gradients(steps=100):
    body = soft.biped()
    w, signals, noise = soft.walker(body), soft.signals(steps, len(body.muscles)), np.random.default_rng(1)
    rollout = deform.Rollout(w, steps)
    wx, wv = (np.pad(noise.standard_normal((w.n, 2)), ((0, 0), (0, 1))) for _ in range(2))

    def loss(mu=soft.MU, lam=soft.LAMBDA, u=signals):
        last = rollout.forward(w.start(), u, w.with_params(flesh__mu=mu, flesh__lambda=lam))
        return np.sum(wx * w.x(last)) + np.sum(wv * w.v(last))
    loss()
    g = rollout.pull(wx, wv)
    out = [below("gradient of 100 steps by mu against difference quotients, relative", apart(w.param(g["theta"], "flesh.mu"), [[slope(lambda s: loss(mu=soft.MU + s), 1e-3)]]), 1e-5),
           below("... by lambda", apart(w.param(g["theta"], "flesh.lambda"), [[slope(lambda s: loss(lam=soft.LAMBDA + s), 1e-3)]]), 1e-5)]
    ways = [g["ctrl"] / np.linalg.norm(g["ctrl"])] + [d / np.linalg.norm(d) for d in noise.standard_normal((6, *signals.shape))]
    gaps = [abs(slope(lambda s: loss(u=signals + s * d), 1e-5) - np.sum(d * g["ctrl"])) for d in ways]
    return out + [below("... by the signals of the muscles, along the gradient and six random directions, by its size", max(gaps) / np.linalg.norm(g["ctrl"]), 1e-5)]


def rows():
    out = []
    for order, name in ((1, "linear"), (2, "quadratic")):
        points, stress = patch(order)
        out += [below(f"patch test, {name} triangles: points off the linear map [m]", points, 1e-12),
                below(f"patch test, {name} triangles: mean stress of each against that of the law, relative", stress, 1e-12)]
    return out + beams() + quick() + random_walk("biped", soft.biped()) + random_walk("quadruped", soft.quadruped()) + energies() + gradients()
