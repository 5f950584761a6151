"""Clamped beam under load

A clamped beam: small deflections under a load and its own weight, the elasticity solution with orders of convergence, the elastica;
gradients of all of them in closed form."""
import numpy as np

from common import below, near, row, slope
import deform
import solids

E, NU, L, F = 1e7, 0.3, 1.0, 1.0


def plane_strain(young, poisson):
    return young / (1 - poisson**2), poisson / (1 - poisson)


class Beam:
    """Linear plane strain, quadratic triangles, thickness 1, loaded across at its end (a parabola of shear) or by its weight."""

    def __init__(self, nx, ny, depth, load=F, weight=0.0, root=None):
        """`root`: displacements of the clamped side."""
        self.X, self.cells = solids.strip(nx, ny, L, depth)
        self.inertia, self.depth, self.load = depth**3 / 12, depth, load
        left, right = (np.flatnonzero(np.abs(self.X[:, 0] - x) < 1e-9) for x in (0, L))
        start = self.X + (root(self.X) * (self.X[:, :1] < 1e-9) if root else 0)
        w = deform.World(0.01, (0, -1, 0))
        w.points(self.X[:, :2], start=start[:, :2])
        w.material("flesh", "linear_triangle6", self.cells, young=E, poisson=NU)
        if weight:  # of a length; gravity is 1 m/s^2
            w.material("mass", "mass_triangle6", self.cells, density=weight / depth)
        nodes, force = solids.edge_load(self.X, right, lambda y: np.array([0, -load * (depth**2 / 4 - y * y) / (2 * self.inertia)]))
        w.energy("load", "-dot(force, x0)", nodes[:, None], per_element=("force",), force=force)
        w.fix(left)
        self.solve, self.tip = solids.Equilibrium(w), int(np.flatnonzero((np.abs(self.X[:, 0] - L) < 1e-9) & (np.abs(self.X[:, 1]) < 1e-9))[0])
        self.x = self.solve()
        self.sag = self.X[self.tip, 1] - self.x[self.tip, 1]

    def gradient(self):
        """Of the deflection at the tip by young, poisson, load or weight, and by stretching the rest shape along and across: each
        times its quantity over the deflection."""
        bar = np.zeros_like(self.x)
        bar[self.tip, 1] = -1
        g = self.solve.pull(bar)
        rest = g("point_rest") + g("x")  # held points move along
        load = g("load.force").ravel() @ self.solve.world.param(self.solve.world.theta, "load.force").ravel()
        if "mass.density" in self.solve.world.params:
            load = g("mass.density").item() * self.solve.world.param(self.solve.world.theta, "mass.density").item()
        return np.array([g("flesh.young").item() * E, g("flesh.poisson").item() * NU, load, rest[:, 0] @ self.X[:, 0], rest[:, 1] @ self.X[:, 1]]) / self.sag

    def by_poisson(self, root):
        """d(height of the tip)/d(poisson), the held side moving with `root`."""
        bar = np.zeros_like(self.x)
        bar[self.tip, 1] = 1
        g = self.solve.pull(bar)
        held = self.X[:, 0] < 1e-9
        return g("flesh.poisson").item() + np.sum(g("x")[held] * root[held])


def elasticity(depth, poisson=NU):
    """Displacements of Timoshenko and Goodier's beam for a load down at the end, clamped at the middle of its root."""
    young, nu = plane_strain(E, poisson)

    def u(X):
        x, y = X[:, 0], X[:, 1]
        c = F / (6 * young * depth**3 / 12)
        return np.stack([c * y * ((6 * L - 3 * x) * x + (2 + nu) * (y * y - depth**2 / 4)),
                         -c * (3 * nu * y * y * (L - x) + (4 + 5 * nu) * depth**2 * x / 4 + (3 * L - x) * x * x), 0 * x], 1)
    return u


class Ends:
    """The same solution with both ends held where it says, without a load: any kind of cell, solids in plane strain."""

    def __init__(self, kind, n, depth=0.25):
        flat, quadratic = kind.startswith("triangle"), kind.endswith(("6", "10"))
        self.X, cells = solids.strip(4 * n, 2 * n, L, depth, quadratic) if flat else solids.slab(4 * n, 2 * n, L, depth, L / (4 * n), quadratic)
        ends = (self.X[:, 0] < 1e-9) | (self.X[:, 0] > L - 1e-9)
        at = lambda t: elasticity(depth, NU + t)(self.X)
        w = deform.World(0.01)
        rest, start = self.X, self.X + at(0) * ends[:, None]
        w.points(*((rest[:, :2], None, start[:, :2]) if flat else (rest, None, start)))
        w.material("flesh", f"linear_{kind}", cells, young=E, poisson=NU)
        w.fix(np.flatnonzero(ends))
        if not flat:
            w.fix(np.arange(len(self.X)), "z")
        solve = solids.Equilibrium(w)
        x, free = solve(), ~ends
        self.error = np.sqrt(np.mean(np.sum((x - self.X - at(0))**2, axis=1))) / np.max(np.abs(at(0)))
        bar, by = np.zeros_like(x), slope(at, 1e-4)
        bar[free, 0], bar[free, 1] = self.X[free, 1], self.X[free, 0]**2  # a mean with weights that no symmetry makes exact
        g = solve.pull(bar)
        self.wrong = abs((g("flesh.poisson").item() + np.sum(g("x")[ends] * by[ends])) / np.sum(bar * by) - 1)


def elastica(beta):
    """(w, x)/L at the end for beta = F L^2/EI, real or complex: elliptic integrals by Gauss's rule, the modulus by Newton's method."""
    s, weight = np.polynomial.legendre.leggauss(80)

    def integrals(p):
        low = np.arcsin(1 / (p * np.sqrt(2)))
        phi = (np.pi / 2 + low) / 2 + (np.pi / 2 - low) / 2 * s
        root = np.sqrt(1 - (p * np.sin(phi))**2)
        return (weight / root).sum() * (np.pi / 2 - low) / 2, (weight * root).sum() * (np.pi / 2 - low) / 2

    p = np.sqrt((1 + np.sin(min(1.4, 0.45 * np.real(beta)))) / 2) + 0j
    for _ in range(100):
        f = lambda q: integrals(q)[0] - np.sqrt(beta)
        step = f(p) * 2e-6 / (f(p + 1e-6) - f(p - 1e-6))
        p = p - step
        if not 0.70711 < p.real < 1:  # a load's end is turned by 0 to 90 degrees
            p = 0.5 * (p + step + (0.70711 if p.real <= 0.70711 else 1))
    return 1 - 2 * integrals(p)[1] / np.sqrt(beta), np.sqrt(2 * (2 * p * p - 1) / beta)


TABLE = {1: (.30172, .05643), 2: (.49346, .16064), 3: (.60325, .25442), 5: (.71379, .38763), 10: (.81061, .55500)}  # w, L - x


class Rod:
    """n edges of a rod that hardly stretches; the clamp is in the middle of the first, which is held."""

    def __init__(self, n):
        l = L / (n - 0.5)
        x = l * (np.arange(n + 1) - 0.5)
        w = deform.World(0.01)
        w.points(np.stack([x, 0 * x], 1))
        w.material("stretch", "rod_stretch", np.stack([np.arange(n), np.arange(1, n + 1)], 1), axial=1e6)
        w.material("bend", "rod_bend_planar", np.stack([np.arange(n - 1), np.arange(1, n), np.arange(2, n + 1)], 1), bending=1.0)
        w.material("load", "load", [[n]], force=np.zeros(3))
        w.fix([0, 1])
        self.w, self.solve, self.x, self.load = w, solids.Equilibrium(w), None, 0.0

    def bend(self, beta):
        """Tip (w, L - x), from the equilibrium before."""
        while self.load < beta:
            self.load = min(self.load + 1, beta)
            self.theta = self.w.with_params(load__force=[0, -self.load, 0])
            self.x = self.solve(self.x, self.theta)
        return np.array([-self.x[-1, 1], L - self.x[-1, 0]])

    def gradient(self):
        """d(w, L - x)/d(bending)"""
        out = []
        for d in ([0, -1, 0], [-1, 0, 0]):
            bar = np.zeros_like(self.x)
            bar[-1] = d
            out.append(self.solve.pull(bar)("bend.bending").item())
        return np.array(out)


class Solid:
    """The same with St Venant-Kirchhoff triangles, a hundred times as long as deep."""

    def __init__(self, nx, depth=0.01):
        self.X, cells = solids.strip(nx, 2, L, depth)
        self.young = 12 / depth**3 * (1 - NU**2)  # EI = 1 in plane strain
        right = np.flatnonzero(np.abs(self.X[:, 0] - L) < 1e-9)
        w = deform.World(0.01)
        w.points(self.X[:, :2])
        w.material("flesh", "stvk_triangle6", cells, young=self.young, poisson=NU)
        self.nodes, self.unit = solids.edge_load(self.X, right, lambda y: np.array([0, -1 / depth]))
        w.energy("load", "-dot(force, x0)", self.nodes[:, None], per_element=("force",), force=0 * self.unit)
        w.fix(np.flatnonzero(self.X[:, 0] < 1e-9))
        self.w, self.solve = w, solids.Equilibrium(w)
        self.tip = int(right[np.argmin(np.abs(self.X[right, 1]))])

    def bend(self, beta):
        x, load = None, 0.0
        while load < beta:
            load = min(load + 1, beta)
            x = self.solve(x, self.w.with_params(load__force=load * self.unit))
        self.x = x
        return np.array([-x[self.tip, 1], L - x[self.tip, 0]])

    def gradient(self):
        bar = np.zeros_like(self.x)
        bar[self.tip, 1] = -1
        return self.solve.pull(bar)("flesh.young").item() * self.young  # by the stiffness EI = 1


def rows():
    out = []
    slender, stiff = Beam(80, 2, 0.02), plane_strain(E, NU)[0]
    wanted = F * L**3 / (3 * stiff * slender.inertia)
    names = ("young", "poisson", "load", "length", "depth")
    out.append(below("end load, L/D = 50: deflection against F L^3/3EI, relative", abs(slender.sag / wanted - 1), 2e-3))
    exact = np.array([-1, -2 * NU**2 / (1 - NU**2), 1, 3, -3])
    for name, found, want, limit in zip(names, slender.gradient(), exact, (1e-8, 1e-2, 1e-8, 1e-3, 1e-3)):
        out.append(below(f"... d(deflection)/d({name}) over deflection/{name} against {want:.6g}", abs(found - want), limit))
    own = Beam(80, 2, 0.02, load=0.0, weight=1.0)
    wanted = L**4 / (8 * stiff * own.inertia)
    out.append(below("own weight, L/D = 50: deflection against q L^4/8EI, relative", abs(own.sag / wanted - 1), 5e-3))
    # dead weight at a fixed density: a beam stretched along weighs more, one made deeper too
    for name, found, want, limit in zip(names, own.gradient(), [-1, exact[1], 1, 4, -2], (1e-8, 1e-2, 1e-8, 1e-3, 1e-3)):
        out.append(below(f"... d(deflection)/d({'weight' if name == 'load' else name}) over deflection/it against {want:.6g}", abs(found - want), limit))
    depth, errors, wrong = 0.25, [], []
    u = elasticity(depth)
    for n in (2, 4, 8):
        b = Beam(4 * n, 2 * n, depth, root=u)
        gap = b.x - b.X - u(b.X)
        errors.append(np.sqrt(np.mean(np.sum(gap**2, axis=1))) / np.max(np.abs(u(b.X))))
        by = slope(lambda t: elasticity(depth, NU + t)(b.X), 1e-4)  # of the held side too
        wrong.append(abs(b.by_poisson(by) / by[b.tip, 1] - 1))
    order = np.log2(np.array([errors, wrong])[:, :-1] / np.array([errors, wrong])[:, 1:])[:, -1]
    out += [below("Timoshenko and Goodier's beam, L/D = 4, 2048 quadratic triangles: displacement, relative", errors[-1], 3e-6),
            row("... order", order[0], ">= 2.8", order[0] >= 2.8),
            below("... d(deflection)/d(poisson) of the tip, relative", wrong[-1], 1e-4), row("... order", order[1], ">= 2.8", order[1] >= 2.8)]
    for kind, finest, least in (("triangle", 8, 1.7), ("triangle6", 4, 2.8), ("tetrahedron", 16, 1.7), ("tetrahedron10", 4, 2.8)):
        all_of = [Ends(kind, n) for n in (finest // 4, finest // 2, finest)]
        for name, gaps in (("displacement", [b.error for b in all_of]), ("d(weighted mean)/d(poisson)", [b.wrong for b in all_of])):
            found = np.log2(gaps[-2] / gaps[-1])
            out.append(row(f"the same between its ends, {kind}: order of {name} (error {gaps[-1]:.1e})", found, f">= {least:g}", found >= least))
    rods, found = [Rod(n) for n in (20, 40)], {}
    for beta, (deep, short) in TABLE.items():
        w, x = (v.real for v in elastica(beta))
        found[beta] = [r.bend(beta) for r in rods]
        slopes = np.array([v.imag / 1e-30 for v in elastica(beta + 1e-30j)])
        want = -beta * slopes * [1, -1]  # by EI
        g = [r.gradient() for r in rods]
        gap, wrong = [np.abs(f - [w, 1 - x]) for f in found[beta]], [np.abs(v - want) for v in g]
        out += [below(f"elastica, F L^2/EI = {beta}: table against elliptic integrals", max(abs(w - deep), abs(1 - x - short)), 6e-6),
                below("... rod of 40 edges: tip", np.max(gap[1]), 7e-4), near("... order", np.log2(np.max(gap[0]) / np.max(gap[1])), 2, 0.2),
                below("... d(tip)/d(EI), relative", np.max(wrong[1]) / np.max(np.abs(want)), 2e-3),
                near("... order", np.log2(np.max(wrong[0]) / np.max(wrong[1])), 2, 0.3)]
    solid = Solid(40)
    for beta in (1, 3):
        w, x = (v.real for v in elastica(beta))
        tip = solid.bend(beta)
        out += [below(f"elastica, F L^2/EI = {beta}, 160 quadratic triangles: tip", np.max(np.abs(tip - [w, 1 - x])), 2e-3),
                below("... d(w)/d(EI), relative", abs(solid.gradient() / (-beta * elastica(beta + 1e-30j)[0].imag / 1e-30) - 1), 5e-3)]
    return out
