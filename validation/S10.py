"""Gradients of steps where they are hardest

Derivatives of whole steps where they are hardest: edges near parallel at the barrier's reach, pairs about to part, friction between
sticking and sliding. Forward against reverse, and differences along the gradient itself (random directions average such faults out)."""
import numpy as np

from common import below, row, slope
import deform

GAP, EPS, RADIUS = 0.01, 1e-2, 0.002


class Scene:
    """A world, its rollout, and w . state as a function of everything: positions and velocities at the start, theta."""
    wanted = ("point_rest", "point_mass", "contact.stiffness", "contact.distance", "contact.friction", "contact.velocity", "contact.radius")

    def __init__(self, world, steps, sizes):
        self.w, self.steps, self.sizes = world, steps, sizes
        self.rollout = deform.Rollout(world, steps)
        self.s0, rng = world.start(), np.random.default_rng(3)
        self.weights = rng.standard_normal((2, world.n, 3))
        fixed = world.n - 3 if world.n > 3 and world.planes else world.n
        self.weights[:, fixed:] = 0
        self.names = [k for k in world.params if k in self.wanted or "." in k and not k.startswith("contact.")]

    def value(self, s):
        return np.sum(self.weights[0] * self.w.x(s[-1])) + 0.1 * np.sum(self.weights[1] * self.w.v(s[-1]))

    def gradient(self):
        self.rollout.run(self.s0)
        g = self.rollout.pull(self.weights[0], 0.1 * self.weights[1])
        return self.allowed({"x": g["x"], "v": g["v"], **{k: self.w.param(g["theta"], k).copy() for k in self.names}})

    def allowed(self, d):
        """Without what cannot become negative and is zero: the plane's radius, masses of its points."""
        for k in ("contact.radius", "point_mass"):
            d[k][self.w.param(self.w.theta, k) == 0] = 0
        return d

    def scaled(self, g):
        """Direction of steepest ascent in units of `sizes`: a move of each input by its own scale."""
        d = {k: g[k] * self.size(k)**2 for k in g}
        length = np.sqrt(sum(np.sum((d[k] / self.size(k))**2) for k in d))
        return {k: a / length for k, a in d.items()}

    def size(self, name):
        return self.sizes.get(name, 0.1 * np.abs(self.w.param(self.w.theta, name)).max() if name in self.w.params else 1.0)

    def random(self, seed):
        rng = np.random.default_rng(seed)
        d = self.allowed({k: rng.standard_normal(np.shape(v)) * self.size(k) for k, v in self.gradient().items()})
        length = np.sqrt(sum(np.sum((d[k] / self.size(k))**2) for k in d))
        return {k: a / length for k, a in d.items()}

    def moved(self, d, t):
        s, theta = self.s0.copy(), self.w.theta.copy()
        self.w.x(s)[...] += t * d["x"]
        self.w.v(s)[...] += t * d["v"]
        for k in self.names:
            self.w.param(theta, k)[...] += t * d[k]
        return self.value(self.rollout.run(s, theta=theta))

    def forward(self, d):
        self.rollout.run(self.s0)
        x0, theta = np.zeros(self.w.nt), np.zeros(self.w.ntheta)
        at = 2 * self.w.nv + self.w.na
        n = 3 * self.w.n
        x0[at:at + n], x0[at + n:at + 2 * n] = d["x"].ravel(), d["v"].ravel()
        for k in self.names:
            self.w.param(theta, k)[...] = d[k]
        last = self.rollout.jvp(x0=x0, theta=theta)[-1]
        return np.sum(self.weights[0].ravel() * last[at:at + n]) + 0.1 * np.sum(self.weights[1].ravel() * last[at + n:at + 2 * n])

    def measure(self, eps=1e-3):
        """(dot product, along the gradient, along its part by each input, along random directions), all relative to the slope along the
        gradient but the third, relative to its own where that is not a thousandth of it."""
        g = self.gradient()
        along = lambda d: sum(np.sum(g[k] * d[k]) for k in g)
        steepest, ways = self.scaled(g), [self.random(k) for k in range(3)]
        gap = lambda d, over: abs(slope(lambda t: self.moved(d, t), eps) - along(d)) / max(abs(along(over)), 1e-3 * abs(along(steepest)))
        parts = [self.scaled({j: g[j] * (j == k) for j in g}) for k in g if np.linalg.norm(steepest[k]) > 1e-4 * self.size(k)]
        product = max(abs(self.forward(d) - along(d)) for d in [steepest, *ways]) / abs(along(steepest))
        return product, gap(steepest, steepest), max(gap(d, d) for d in parts), max(gap(d, steepest) for d in ways)


def edges(angle, gap, speed, kind="none", h=2e-3):
    """An edge across that of a sheet at `angle`, `gap` apart, moving towards (or from) each other and turning."""
    w = deform.World(h)
    turn = np.array([[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1]])
    a = np.array([[-0.5, 0, 0], [0.5, 0, 0]]) * 0.1
    b = a @ turn.T + [0.01, 0.01 * np.sin(angle), gap + 2 * RADIUS]
    c = a @ turn.T + [0.02, 0.04, 2 * gap + 2 * RADIUS]
    rest = np.concatenate([a, b, c])
    rng = np.random.default_rng(2)
    v = 0.02 * rng.standard_normal(rest.shape)
    v[2:4, 2] -= speed
    w.points(rest, 0.01, velocity=v)
    links = np.array([[0, 1], [2, 3], [4, 5], [2, 4], [3, 5], [2, 5]])  # their lengths are given: rest places serve contact alone
    w.energy("rods", "0.5*k*(norm(x0 - x1) - l)^2", links, per_element=("l",), k=50.0, l=np.linalg.norm(rest[links[:, 0]] - rest[links[:, 1]], axis=1))
    w.surface(edges=[[0, 1]], radius=RADIUS)
    w.surface(triangles=[[2, 3, 5], [2, 5, 4]], radius=RADIUS)
    w.contact(GAP, 20.0, 0.3, EPS, kind)
    w.planes = False
    return w.freeze(tolerance=1e-14)


def slider(kind, speed, h=2e-3):
    """A tetrahedron on a plane whose sliding speed is near that of full friction."""
    w = deform.World(h, (0.1, 0, -9.81))
    X = np.array([[0, 0, 0], [0.1, 0, 0], [0.03, 0.1, 0.002], [0.04, 0.04, 0.08]]) + [0, 0, 0.6 * GAP + RADIUS]
    rng = np.random.default_rng(2)
    w.points(X, 0.05, velocity=np.tile([speed, 0.3 * speed, 0], (4, 1)) + 0.02 * speed * rng.standard_normal((4, 3)))
    w.material("flesh", "neo_hookean_tetrahedron", [[0, 1, 2, 3]], young=2e3, poisson=0.3)
    w.surface(triangles=[[0, 2, 1], [0, 1, 3], [1, 2, 3], [2, 0, 3]], radius=RADIUS)
    w.plane()
    w.contact(GAP, 10.0, 0.5, EPS, kind)
    w.planes = True
    return w.freeze(tolerance=1e-14)


def rows():
    out, sizes = [], {"x": 1e-4, "v": 1e-2, "point_rest": 1e-4, "contact.radius": 1e-5}
    scenes = []
    for angle in (0.0, 1e-4, 1e-2, 0.03, 0.05, 0.3):  # the weight of edges begins to count at about 2 degrees
        scenes.append((f"edges {angle:g} rad apart, halfway into the barrier", edges(angle, 0.5 * GAP, 0.2), 3))
    for angle in (1e-3, 0.03):
        scenes.append((f"edges {angle:g} rad apart, at the barrier's reach", edges(angle, 0.999 * GAP, 0.05), 3))
        scenes.append((f"edges {angle:g} rad apart, just parting", edges(angle, 0.995 * GAP, -0.02), 3))
    scenes.append(("edges 0.02 rad apart, implicit friction", edges(0.02, 0.5 * GAP, 0.2, "implicit"), 3))
    scenes.append(("edges 0.02 rad apart, lagged friction", edges(0.02, 0.5 * GAP, 0.2, "lagged"), 3))
    for kind in ("lagged", "implicit"):
        for speed in (0.5, 0.98, 1.02, 2.0):
            scenes.append((f"{kind} friction, sliding at {speed:g} eps_v", slider(kind, speed * EPS), 4))
    for name, w, steps in scenes:
        scene = Scene(w, steps, sizes)
        product, along, parts, others = scene.measure()
        out += [row(f"{name}: contacts", scene.rollout.certificate.most_contacts, "> 0", scene.rollout.certificate.most_contacts > 0),
                below("... forward against reverse, relative", product, 1e-11), below("... differences along the gradient", along, 1e-6),
                below("... along its parts, by positions, velocities, rest places and each parameter, the worst", parts, 1e-6),
                below("... along three random directions", others, 1e-6)]
    return out
