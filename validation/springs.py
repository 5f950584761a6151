"""Springs, as several cases use them: energies, scenes, and the same in NumPy as an independent program."""
import numpy as np

from common import inside  # noqa: F401  (puts the library's wrappers on the path)
import deform

FORMULAS = {"hookean": "d = x0 - x1; 0.5*k*(sqrt(dot(d, d) + 1e-6) - l0)^2", "stvk": "d = x0 - x1; 0.5*k*(dot(d, d) - l0^2)^2"}
# The triangle of the sequel of hookean-springs-pytorch
X = np.array([[0, 0], [1, 0], [2, .5]])
ENDS = np.array([[0, 1], [1, 2], [2, 0]])
REST = np.array([1, 1.3, 1.4])


def world(kind, k, scheme="implicit_euler", method="newton", h=0.033, x=X, ends=ENDS, rest=REST, mass=1.0, **options):
    w = deform.World(h)
    w.points(x, mass)
    w.energy("springs", FORMULAS[kind], ends, per_element=("l0",), k=k, l0=rest)
    return w.freeze(scheme, method, **options)


def energy(kind, k, x, ends=ENDS, rest=REST):
    """Of positions (..., n, 2 or 3)."""
    d = x[..., ends[:, 0], :] - x[..., ends[:, 1], :]
    l2 = np.sum(d * d, axis=-1)
    gap = np.sqrt(l2 + 1e-6) - rest if kind == "hookean" else l2 - rest**2
    return np.sum(0.5 * k * gap * gap, axis=-1)


def forces(kind, k, x, ends, rest):
    """(-gradient, Hessian) at positions (b, n, 2), real or complex; k and rest broadcast over b."""
    b, n = x.shape[:2]
    d = x[:, ends[:, 0]] - x[:, ends[:, 1]]
    l2 = np.sum(d * d, axis=-1)
    if kind == "hookean":  # first and second derivative by l2
        l = np.sqrt(l2 + 1e-6)
        first, second = 0.5 * k * (1 - rest / l), 0.25 * k * rest / l**3
    else:
        first, second = k * (l2 - rest**2), k * np.ones_like(l2)
    f, H = np.zeros_like(x), np.zeros((b, n, 2, n, 2), x.dtype)
    for e, (i, j) in enumerate(ends):
        g = 2 * first[:, e, None] * d[:, e]
        block = 2 * first[:, e, None, None] * np.eye(2) + 4 * second[:, e, None, None] * d[:, e, :, None] * d[:, e, None, :]
        f[:, i] -= g
        f[:, j] += g
        H[:, i, :, i] += block
        H[:, j, :, j] += block
        H[:, i, :, j] -= block
        H[:, j, :, i] -= block
    return f, H


def unrolled(kind, scheme, h, steps, x, v, k, rest, mass, ends=ENDS, tolerance=1e-12, most=60):
    """The last positions by Newton's iterations written out, for a batch of complex inputs: their imaginary parts are derivatives
    of every iteration, the matrix included; `most` iterations a step, fewer where they move nothing by more than `tolerance`.
    x, v (b, n, 2), k (b, 1), rest (b, springs), mass (b, n)."""
    b, n = x.shape[:2]
    m, before = mass[:, :, None], None
    acceleration = lambda z: forces(kind, k, z, ends, rest)[0] / m
    for _ in range(steps):
        if scheme == "implicit_euler" or (scheme == "bdf2" and before is None):
            hat, terms = x + h * v, [(1, 1, 1)]
        elif scheme == "bdf2":
            hat, terms = (4 * x - before[0]) / 3 + 2 * h / 9 * (4 * v - before[1]), [(4 / 9, 1, 1)]
        elif scheme == "trapezoid":
            hat, terms = x + h * v + h * h / 4 * acceleration(x), [(1 / 4, 1, 1)]
        else:
            hat, terms = x + h * v + h * h / 12 * acceleration(x), [(1 / 12, 1, 1), (1 / 3, 0.5, 0.5)]
        z = x.copy()
        for _ in range(most):
            r, H = m * (z - hat), np.zeros((b, n, 2, n, 2), x.dtype)
            for weight, at, slope in terms:
                f, K = forces(kind, k, at * z + (1 - at) * x, ends, rest)
                r, H = r - weight * h * h * f, H + weight * slope * h * h * K
            H = H.reshape(b, 2 * n, 2 * n) + np.einsum("bi,ij->bij", np.repeat(mass, 2, axis=1), np.eye(2 * n))
            move = np.linalg.solve(H, r.reshape(b, 2 * n, 1)).reshape(b, n, 2)
            z = z - move
            if np.max(np.abs(move.real)) < tolerance:
                break
        else:
            if most == 60:
                raise RuntimeError("the unrolled Newton iterations do not end")
        if scheme == "implicit_euler" or (scheme == "bdf2" and before is None):
            after = (z - x) / h
        elif scheme == "bdf2":
            after = (3 * z - 4 * x + before[0]) / (2 * h)
        else:
            after = 2 * (z - x) / h - v
        before, x, v = (x, v), z, after
    return x
