"""Built-in energies against second-order dual numbers: their formulas are read and evaluated here once more, by other means."""
import ast
import os
import re
import sys

import numpy as np
import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "validation"))
import E2  # noqa: E402
import elements  # noqa: E402
import inside  # noqa: E402


class Dual:
    """A value with its gradient and Hessian."""
    __array_priority__ = 1

    def __init__(self, v, g, H):
        self.v, self.g, self.H = v, g, H

    def through(self, f, d, dd):
        """f(self) from value and derivatives of f."""
        return Dual(f, d * self.g, d * self.H + dd * np.outer(self.g, self.g))

    def __add__(self, b):
        return Dual(self.v + b.v, self.g + b.g, self.H + b.H) if isinstance(b, Dual) else Dual(self.v + b, self.g, self.H)

    def __mul__(self, b):
        if isinstance(b, Matrix):
            return NotImplemented
        if not isinstance(b, Dual):
            return Dual(self.v * b, self.g * b, self.H * b)
        cross = np.outer(self.g, b.g)
        return Dual(self.v * b.v, self.v * b.g + b.v * self.g, self.v * b.H + b.v * self.H + cross + cross.T)

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self):
        return self * -1.0

    def __sub__(self, b):
        return self + -b

    def __rsub__(self, b):
        return -self + b

    def __pow__(self, p):
        return self.through(self.v**p, p * self.v**(p - 1), p * (p - 1) * self.v**(p - 2) if p != 1 else 0)

    def __truediv__(self, b):
        return self * b**-1.0

    def __rtruediv__(self, b):
        return self**-1.0 * b


def value(a):
    return a.v if isinstance(a, Dual) else a


class Matrix:
    """Vectors and matrices of the language: `*` is their product."""

    def __init__(self, a):
        self.a = np.array(a, dtype=object)

    def __mul__(self, b):
        return wrap(self.a.dot(b.a)) if isinstance(b, Matrix) else Matrix(np.vectorize(lambda v: v * b, otypes=[object])(self.a))

    __rmul__ = __mul__

    def __truediv__(self, b):
        return self * (1.0 / b)

    def __add__(self, b):
        return Matrix(self.a + b.a)

    def __sub__(self, b):
        return Matrix(self.a - b.a)

    def __neg__(self):
        return Matrix(-self.a)

    def __getitem__(self, index):
        return self.a[index]

    x, y, z = (property(lambda self, k=k: self.a[k]) for k in range(3))


def wrap(a):
    return Matrix(a) if isinstance(a, np.ndarray) else a


def dot(a, b):
    return (a.a * b.a).sum()


def sqrt(a):
    return a**.5


def log(a):
    return a.through(np.log(a.v), 1 / a.v, -1 / a.v**2) if isinstance(a, Dual) else np.log(a)


def atan2(y, x):
    r = value(x)**2 + value(y)**2  # turned into an angle from a place nearby, whose tangent is small
    c, s = value(x) / r, value(y) / r
    t = (y * c - x * s) / (x * c + y * s)
    return t + np.arctan2(value(y), value(x)) if not isinstance(t, Dual) else t.through(np.arctan2(value(y), value(x)), 1.0, 0.0)


def cross(a, b):
    return Matrix([a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x])


def det(m):
    a = m.a
    if len(a) == 2:
        return a[0, 0] * a[1, 1] - a[0, 1] * a[1, 0]
    return dot(Matrix(a[0]), cross(Matrix(a[1]), Matrix(a[2])))


def inverse(m):
    a = m.a
    if len(a) == 2:
        adjugate = np.array([[a[1, 1], -a[0, 1]], [-a[1, 0], a[0, 0]]])
    else:
        adjugate = np.array([cross(Matrix(a[(k + 1) % 3]), Matrix(a[(k + 2) % 3])).a for k in range(3)]).T
    return Matrix(adjugate) / det(m)


def columns(*parts):
    return Matrix(np.array([p.a for p in parts], dtype=object).T) if isinstance(parts[0], Matrix) else Matrix(list(parts))


def stretches(F):
    """Sum of principal stretches as the largest root of a quartic, corrected twice by Newton's method in dual numbers."""
    C = transpose(F) * F
    I, J = trace(C), det(F)
    K = (I * I - dot(C, C)) * .5
    s = np.linalg.svd(np.array([[value(c) for c in r] for r in F.a]), compute_uv=False)
    f = s.sum() - (2 * s[-1] if value(J) < 0 else 0)
    for _ in range(3):
        r = f * f - I
        f = f - (r * r - J * f * 8.0 - K * 4.0) / (f * r * 4.0 - J * 8.0)
    return f


def transpose(m):
    return Matrix(m.a.T)


def trace(m):
    return np.trace(m.a)


NAMES = dict(
    dot=dot, sqrt=sqrt, log=log, cross=cross, det=det, inverse=inverse, columns=columns, stretches=stretches, transpose=transpose, trace=trace,
    norm=lambda a: sqrt(dot(a, a)), normalize=lambda a: a / sqrt(dot(a, a)), identity=lambda n: Matrix(np.eye(n)), atan2=atan2,
    abs=lambda a: a if value(a) >= 0 else -a, max=lambda a, b: a if value(a) >= value(b) else b,
    min=lambda a, b: a if value(a) <= value(b) else b, outer=lambda a, b: Matrix(np.outer(a.a, b.a)), pi=np.pi)


class Lists(ast.NodeTransformer):
    """[a, b] is columns(a, b); indices stay."""

    def visit_List(self, node):
        self.generic_visit(node)
        return ast.copy_location(ast.Call(ast.Name("columns", ast.Load()), node.elts, []), node)


def evaluate(formula, names):
    names = {**NAMES, **names}
    statements = [s.strip() for s in re.split("[;\n]", re.sub(r"\blambda\b", "lambda_", formula).replace("^", "**")) if s.strip()]
    for s in statements:
        tree = ast.fix_missing_locations(Lists().visit(ast.parse(s)))
        last = tree.body[0]
        if isinstance(last, ast.Assign):
            exec(compile(tree, "formula", "exec"), {"__builtins__": {}}, names)
    return eval(compile(ast.Expression(last.value), "formula", "eval"), {"__builtins__": {}}, names)


def formula(name):
    m = next(inside.native.pbMaterial_At(i).contents for i, n in enumerate(elements.materials()) if n == name)
    return m.def_.formula.decode()


@pytest.mark.parametrize("name", elements.materials())
def test_dual_numbers(name):
    e, x, rest, previous = E2.states(name, 11)
    h, n, count = 0.02, 3 * e.points, 3 if e.points > 4 else 12
    v, g, H = e(x, rest, previous, h, hessian=True)
    text, one = formula(name), np.eye(n)
    for s in range(count):
        names = {"h": h, "t": 0.0}
        for p in range(e.points):
            names[f"x{p}"] = Matrix([Dual(x[s, p, k], one[3 * p + k], np.zeros((n, n))) for k in range(3)])
            names[f"X{p}"], names[f"y{p}"] = Matrix(rest[s, p]), Matrix(previous[s, p])
        for key, a in e.parameter.items():
            names["lambda_" if key == "lambda" else key] = a[s, 0] if a.shape[1] == 1 else Matrix(a[s])
        d = evaluate(text, names)
        d = d if isinstance(d, Dual) else Dual(d, np.zeros(n), np.zeros((n, n)))
        size = max(np.abs(d.H).max(), np.abs(d.g).max())
        assert abs(v[s] - d.v) <= 1e-13 * max(abs(d.v), size)
        assert np.abs(g[s] - d.g).max() <= 1e-12 * size
        assert np.abs(H[s] - d.H).max() <= 1e-12 * size


def test_page(root):
    """docs/energies.md says of every built-in energy what its data sheet says."""
    page = (root / "docs" / "energies.md").read_text(encoding="utf-8")
    for i in range(len(elements.materials())):
        m = inside.native.pbMaterial_At(i).contents
        assert f"| `{m.family.decode()}` |" in page
        assert m.sheet.decode().replace("|", "\\|") in page, f"the sheet of {m.family.decode()} has changed"
