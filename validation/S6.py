"""Hertz contact

Hertz: an elastic half space, its surface a shallow paraboloid, pressed on a rigid plane; in axial symmetry by an energy written for it.
Mesh and barrier shrink together. Force and radius of the contact, and their derivatives by stiffness, depth and curvature."""
import numpy as np

from common import below, row
import deform

E, NU, A, R = 1.0, 0.3, 1.0, 1000.0  # A: radius of the contact that the depth goes with
DEPTH, STAR = A * A / R, E / (1 - NU**2)
FORCE, SIZE = 4 / 3 * STAR * np.sqrt(R) * DEPTH**1.5, 12 * A
# x: distance from the axis, y: along it. Hooke's law of triangles that go all the way round, strain at the center of each
RING = """mu = young/(2*(1 + poisson)); lambda = young*poisson/((1 + poisson)*(1 - 2*poisson))
D = [[X1.x - X0.x, X1.y - X0.y], [X2.x - X0.x, X2.y - X0.y]]; G = [[x1.x - x0.x, x1.y - x0.y], [x2.x - x0.x, x2.y - x0.y]]*inverse(D)
r = (X0.x + X1.x + X2.x)/3; hoop = (x0.x + x1.x + x2.x)/(3*r) - 1; s = 0.5*(G + transpose(G)) - identity(2)
pi*r*det(D)*(mu*(dot(s, s) + hoop^2) + lambda/2*(trace(s) + hoop)^2)"""
NAMES, FORCE_POWERS, RADIUS_POWERS = ("stiffness", "depth", "curvature's radius"), np.array([1, 1.5, 0.5]), np.array([0, 0.5, 0.5])


def point_load(X, force):
    """Boussinesq's displacements of a half space y > 0 under a force along y at the origin."""
    x, y = X[:, 0], X[:, 1]
    rho, c = np.hypot(x, y), force * (1 + NU) / (2 * np.pi * E)
    return np.stack([c * (x * y / rho**3 - (1 - 2 * NU) * x / (rho * (rho + y))), c * (2 * (1 - NU) / rho + y * y / rho**3), 0 * x], 1)


def axis(n):
    """0 to SIZE: n even cells to A, up to 1.5 A, then ever wider ones."""
    fine = A * np.arange(int(1.5 * n) + 1) / n
    m, growth = 0, 1.25**(8 / n)
    while np.sum(growth**np.arange(1, m + 1)) * A / n < SIZE - fine[-1]:
        m += 1
    wide = np.cumsum(growth**np.arange(1, m + 1))
    return np.concatenate([fine, fine[-1] + (SIZE - fine[-1]) * wide / wide[-1]])


class Contact:
    """n cells to a contact's radius."""

    def __init__(self, n):
        line = axis(n)
        m = len(line)
        i, j = (a.ravel() for a in np.meshgrid(np.arange(m), np.arange(m), indexing="ij"))
        flat = np.stack([line[i], line[j], 0 * line[i]], 1)
        self.rise = np.stack([0 * flat[:, 0], flat[:, 0]**2 / (2 * R), 0 * flat[:, 0]], 1)
        X = flat + self.rise
        cells = []
        for a in range(m - 1):
            for b in range(m - 1):
                c = [a * m + b, (a + 1) * m + b, (a + 1) * m + b + 1, a * m + b + 1]
                cells += [[c[0], c[1], c[2]], [c[0], c[2], c[3]]] if (a + b) % 2 else [[c[0], c[1], c[3]], [c[1], c[2], c[3]]]
        far = np.flatnonzero((i == m - 1) | (j == m - 1))
        self.bottom = np.flatnonzero((j == 0) & (i < m - 1))
        self.gap = 0.25 * DEPTH / n
        self.kappa = FORCE / (4 * n * self.gap)
        # the far side goes down, and moves as a half space does that far from a point load; by depth and by curvature's radius
        self.by = np.zeros((2, *X.shape))
        start = X + [0, 1.5 * self.gap, 0]
        start[far] = X[far] + point_load(flat[far], FORCE) - [0, DEPTH, 0]
        self.by[0, far] = point_load(flat[far], 1.5 * FORCE) - [0, DEPTH, 0]
        self.by[1, far] = point_load(flat[far], 0.5 * FORCE) - self.rise[far]
        w = deform.World(0.01)
        w.points(X[:, :2], start=start[:, :2])
        w.energy("ring", RING, np.array(cells), young=E, poisson=NU)
        w.fix(far)
        w.fix(np.flatnonzero(i == 0), "x")
        w.surface(points=self.bottom)
        w.plane((0, 0, 0), (0, 1, 0))
        w.contact(self.gap, self.kappa)
        self.w, self.n = w.freeze("static", tolerance=1e-14, iterations=400), n
        self.rollout = deform.Rollout(w, 1)
        x = w.x(self.rollout.run())[-1]
        self.r, y = x[self.bottom, 0], x[self.bottom, 1]
        # the barrier's force, kappa d^2 B(s), B = -(1 - s)^2 ln s, s = (gap/d)^2, and its slope by the gap
        u = np.minimum(y / self.gap, 1)
        s = u * u
        first, second = 2 * (1 - s) * np.log(s) - (1 - s)**2 / s, -2 * np.log(s) + 4 * (1 - s) / s + (1 - s)**2 / s**2
        self.f, self.slope = -self.kappa * self.gap * first * 2 * u, -self.kappa * (2 * first + 4 * s * second)

    def pull(self, by_force, by_radius):
        """Derivatives by NAMES, each times its quantity, of something with these derivatives by the bottom's forces and distances."""
        bar = np.zeros((self.w.n, 3))
        bar[self.bottom, 1], bar[self.bottom, 0] = by_force * self.slope, by_radius
        g = self.rollout.pull(bar)
        of = lambda name: self.w.param(g["theta"], name)
        x, rest = g["x"][:len(self.rise)], of("point_rest")[:len(self.rise)]
        return np.array([of("ring.young").item() * E, np.sum(x * self.by[0]), np.sum(x * self.by[1]) - np.sum(rest * self.rise)]), of("contact.stiffness").sum() * self.kappa

    def force(self):
        """(force, powers by NAMES, and by the barrier's stiffness)"""
        F = self.f.sum()
        powers, stiff = self.pull(np.ones_like(self.f), 0 * self.f)
        return F, powers / F, stiff / F + 1  # forces are this much larger by themselves

    def radius(self):
        """Where the pressure is Hertz's, the mean of r^2 over it is 2/5 a^2."""
        F = self.f.sum()
        mean = self.f @ self.r**2 / F
        powers, _ = self.pull((self.r**2 - mean) / F, 2 * self.f * self.r / F)
        return np.sqrt(2.5 * mean), powers / (2 * mean)


def rows():
    found = [Contact(n) for n in (6, 12, 24)]
    forces, radii = [c.force() for c in found], [c.radius() for c in found]
    text = lambda a: ", ".join(f"{v:.1e}" for v in a)
    shrinks = lambda name, gaps, limit: row(f"{name}; 6, 12, 24 cells to the radius", text(gaps), f"<= {limit:g}, shrinks", gaps[-1] <= limit and np.all(np.diff(gaps) < 0))
    relative = lambda values, wanted: np.abs(np.array(values) / wanted - 1)
    peak = [1.5 * F / (np.pi * a * a) for (F, *_), (a, _) in zip(forces, radii)]
    out = [shrinks("force at a depth against 4/3 E* sqrt(R) depth^1.5, relative", relative([f[0] for f in forces], FORCE), 0.015),
           shrinks("contact's radius a against sqrt(R depth), relative", relative([a[0] for a in radii], A), 0.01),
           below("a^3 against 3 F R/4 E* at 24 cells, relative", abs(radii[-1][0]**3 / (0.75 * forces[-1][0] * R / STAR) - 1), 5e-3),
           shrinks("largest pressure 3 F/2 pi a^2 against 2 E* a/pi R, relative", relative(peak, 2 * STAR * A / (np.pi * R)), 5e-3)]
    for k, name in enumerate(NAMES):
        out.append(shrinks(f"d(force)/d({name}) over force/{name} against {FORCE_POWERS[k]:g}", np.abs([f[1][k] - FORCE_POWERS[k] for f in forces]), 0.02))
        out.append(shrinks(f"d(a)/d({name}) over a/{name} against {RADIUS_POWERS[k]:g}", np.abs([a[1][k] - RADIUS_POWERS[k] for a in radii]), 0.02))
    return out + [shrinks("d(force)/d(barrier's stiffness) over force/it", np.abs([f[2] for f in forces]), 0.01),
                  below("both stiffnesses scale all forces: the sum of these two less 1", np.max(np.abs([f[1][0] + f[2] - 1 for f in forces])), 1e-9)]
