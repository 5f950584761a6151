"""Forces are minus the slopes of energies

The force is minus the derivative of the energy: every built-in energy on 1000 random states against differences, symmetric Hessians, no
net force and no net torque of internal energies."""
import numpy as np

from common import below, row
from elements import DISSIPATIVE, INTERNAL, MASS, PLANAR, Energy, materials

STATES = 1000
CORNERS = np.array([(0, 0, 0), (1.1, .1, 0), (.2, .9, 0), (.3, .2, 1)])
# Second derivatives jump: differences of high order need to stay on one side.
KINKED = ("spring_string", "ground", "muscle")


def drawn(e):
    """The points of an element at rest."""
    middle = lambda pairs: np.array([(CORNERS[a] + CORNERS[b]) / 2 for a, b in pairs])
    if e.points == 10:
        return np.vstack([CORNERS, middle([(0, 1), (1, 2), (0, 2), (0, 3), (1, 3), (2, 3)])])
    if e.points == 6:
        return np.vstack([CORNERS[:3], middle([(0, 1), (1, 2), (2, 0)])])
    if e.name.startswith("bending"):
        return np.vstack([CORNERS[:3], (.6, -.8, .2)])
    return np.vstack([CORNERS[:2], (2, .4, .1)]) if e.name.startswith("rod_bend") else CORNERS[:e.points]


def states(name, seed):
    rng = np.random.default_rng(seed)
    e = Energy(name, np.zeros((0, Energy(name, []).points)))
    e.cells = np.arange(STATES * e.points, dtype=np.int32).reshape(STATES, -1)
    rest = drawn(e) + rng.uniform(0, .1, (STATES, e.points, 3))
    F = np.eye(3) + rng.uniform(-.15, .15, (STATES, 3, 3))
    if e.traits & PLANAR:
        a = rng.uniform(0, 2 * np.pi, STATES)
        R = np.zeros((STATES, 3, 3))
        R[:, 0, 0] = R[:, 1, 1] = np.cos(a)
        R[:, 1, 0], R[:, 0, 1], R[:, 2, 2] = np.sin(a), -np.sin(a), 1
    else:
        R = np.linalg.qr(rng.normal(size=(STATES, 3, 3)))[0]
        R *= np.sign(np.linalg.det(R))[:, None, None]
    x = np.einsum("sij,spj->spi", R @ F, rest) + rng.uniform(0, .1, rest.shape)
    for key, start in e.start.items():
        value = start + rng.uniform(-.2, .2, (STATES, 3)) if len(start) > 1 else (
            start * rng.uniform(.8, 1.2, (STATES, 1)) if start[0] else rng.uniform(.05, .15, (STATES, 1)))
        e.parameter[key] = np.ascontiguousarray(value)
    return e, x, rest, x + rng.uniform(-.05, .05, x.shape)


def differences(e, x, rest, previous, h, size):
    """Gradient by central differences of sixth order."""
    out = np.zeros(x.shape)
    for p in range(e.points):
        for k in range(3):
            for i, c in ((1, 45 / 60), (2, -9 / 60), (3, 1 / 60)):
                for sign in (1, -1):
                    moved = x.copy()
                    moved[:, p, k] += sign * i * size
                    out[:, p, k] += sign * c / size * e(moved, rest, previous, h)[0]
    return out.reshape(STATES, -1)


def rows():
    worst = {k: (0, "") for k in ("gradient", "symmetry", "force", "torque")}
    names = [n for n in materials() if not Energy(n, []).traits & MASS]
    skipped = 0

    def note(key, value, name):
        worst[key] = max(worst[key], (float(value), name))

    for k, name in enumerate(names):
        e, x, rest, previous = states(name, 100 + k)
        h = 0.02
        _, g, H = e(x, rest, previous, h, hessian=True)
        kink = name.startswith(KINKED)
        error = np.abs(g - differences(e, x, rest, previous, h, 2e-5 if kink else 2e-3)).max(1) / np.abs(g).max(1).clip(1e-300)
        if kink:  # the few states whose differences reach across
            across = error > 1e-8
            skipped += across.sum()
            if across.mean() < .05:
                error = error[~across]
        note("gradient", error.max(), name)
        note("symmetry", (np.abs(H - H.transpose(0, 2, 1)).max((1, 2)) / np.abs(H).max((1, 2)).clip(1e-300)).max(), name)
        if e.traits & INTERNAL:
            f, size = g.reshape(x.shape), np.abs(g).sum(1).clip(1e-300)
            note("force", (np.abs(f.sum(1)).max(1) / size).max(), name)
            torque = np.cross(x, f).sum(1)
            torque = np.abs(torque[:, 2:] if e.traits & PLANAR else torque).max(1)
            note("torque", (torque / size).max(), name)
    show = lambda key: f" (worst: {worst[key][1]})"
    return [
        row("built-in energies", len(names), "reported", True),
        row("... of them dissipation potentials", sum(bool(Energy(n, []).traits & DISSIPATIVE) for n in names), "reported", True),
        below(f"gradient against differences, {STATES} states each, relative{show('gradient')}", worst["gradient"][0], 1e-8),
        row("... states left out, a kink of the law within the difference", int(skipped), "reported", True),
        below(f"Hessian: asymmetry, relative{show('symmetry')}", worst["symmetry"][0], 1e-14),
        below(f"net force of internal energies over the sum of forces{show('force')}", worst["force"][0], 1e-12),
        below(f"net torque of internal energies, the same [m]{show('torque')}", worst["torque"][0], 1e-12),
    ]
