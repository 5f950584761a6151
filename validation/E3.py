"""One grid of springs, stated three ways

The same energy and gradient of a grid of springs three ways: by a dense incidence matrix, by elements with a table of points, and by
stencils over the grid, without a table."""
import subprocess
import sys
import time

import numpy as np

from common import apart, below, row, timing
import deform

FORMULA = "d = x0 - x1; 0.5*k*(sqrt(dot(d, d) + 1e-6) - l0)^2"
OFFSETS = [[[0, 0, 0], [1, 0, 0]], [[0, 0, 0], [0, 1, 0]]]
K, REST = 3.0, 0.9


def positions(n):
    x = np.stack(np.meshgrid(np.arange(n), np.arange(n)), axis=-1).reshape(-1, 2) + 0.3 * np.random.default_rng(n).uniform(-1, 1, (n * n, 2))
    return np.pad(x, ((0, 0), (0, 1)))


def springs(n):
    """The table: both ends of every spring."""
    p = np.arange(n * n).reshape(n, n)
    return np.concatenate([np.stack([p[:, :-1], p[:, 1:]], -1).reshape(-1, 2), np.stack([p[:-1], p[1:]], -1).reshape(-1, 2)])


def incidence(n):
    ends = springs(n)
    B = np.zeros((len(ends), n * n))
    B[np.arange(len(ends)), ends[:, 0]], B[np.arange(len(ends)), ends[:, 1]] = 1, -1
    return B


def dense(B, x):
    d = B @ x
    l = np.sqrt(np.sum(d * d, axis=1) + 1e-6)
    return 0.5 * K * np.sum((l - REST)**2), B.T @ ((K * (l - REST) / l)[:, None] * d)


def sparse(energy, ends, x):
    value, each, _ = energy.evaluate(x, ends, k=K, l0=REST)
    gradient = np.stack([np.bincount(ends.ravel(), each[:, :, c].ravel(), len(x)) for c in range(3)], axis=1)
    return value.sum(), gradient


def stencils(energy, n, x):
    gradient = np.zeros_like(x)
    return sum(energy.stencil((n, n, 1), o, gradient, x, k=K, l0=REST) for o in OFFSETS), gradient


def spring():
    return deform.Energy(FORMULA, 2, k=(), l0=())


def best(f, times):
    out = []
    for _ in range(times):
        begin = time.process_time()
        f()
        out.append(time.process_time() - begin)
    return min(out)


def memory(n):
    """Bytes that positions, gradient and all the stencils need take of a process of their own."""
    code = f"""import sys; sys.path.insert(0, {str(sys.path[0])!r}); sys.path[:0] = {sys.path!r}
import numpy as np, E3
status = lambda: next(int(l.split()[1]) for l in open("/proc/self/status") if l.startswith("VmHWM")) * 1024
e = E3.spring(); E3.stencils(e, 8, E3.positions(8)); before = status()
x = np.zeros(({n} * {n}, 3)); i = np.arange({n} * {n}); x[:, 0] = i % {n}; del i; x[:, 1] = np.arange({n} * {n}) // {n}
value, g = E3.stencils(e, {n}, x)
print(status() - before)"""
    return int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


def rows():
    out, energy = [], spring()
    for n in (5, 33, 64):
        x, B, ends = positions(n), incidence(n), springs(n)
        (e, g), others = dense(B, x), {"table": sparse(energy, ends, x), "stencils": stencils(energy, n, x)}
        for name, (value, gradient) in others.items():
            out.append(below(f"grid of {n} x {n}: energy by {name} against the dense matrix, relative", abs(value / e - 1), 1e-13))
            out.append(below(f"grid of {n} x {n}: gradient by {name} against the dense matrix, relative", apart(gradient, g), 1e-13))
    slow, fast, middle = best(lambda: dense(B, x), 5), best(lambda: stencils(energy, 64, x), 50), best(lambda: sparse(energy, ends, x), 20)
    out.append(timing(f"grid of 64 x 64: time of the dense matrix ({B.nbytes / 2**20:.0f} MiB) by that of stencils ({1e3 * slow:.3g} ms by {1e3 * fast:.3g} ms)", slow / fast, ">= 100", slow >= 100 * fast))
    out.append(row("grid of 64 x 64: time of the table by that of stencils", middle / fast, "reported", True))
    per = [memory(n) / n**2 for n in (256, 512, 1024)]
    out.append(row("memory of stencils with positions and gradient, bytes a point, grids of 256, 512, 1024 (the dense matrix of 256: %.3g GB)" % (2 * 256 * 255 * 256**2 * 8 / 1e9),
                   ", ".join(f"{m:.0f}" for m in per), "<= 100 each", max(per) <= 100))
    return out
