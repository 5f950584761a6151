"""Friction on an incline

A point and a block on an incline: sticking, creep, sliding, stopping distance, and their derivatives by the friction coefficient, friction
lagged and implicit."""
import numpy as np

from common import below, near, row
import deform

G, EPS, GAP, KAPPA = 9.81, 1e-3, 1e-3, 4000.0  # gravity, sliding speed of full friction, distance and stiffness of the barrier
TILT = 0.4


def rest_gap(weight):
    """Gap at which the barrier kappa d^2 B(s), B = -(1 - s)^2 ln s, s = (gap/d)^2, carries the weight."""
    force = lambda u: KAPPA * GAP * ((1 - u * u) * (-4 * u * np.log(u * u)) + 2 * (1 - u * u)**2 / u)
    low, high = 1e-6, 1.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if force(middle) > weight else (low, middle)
    return low * GAP


class Point:
    """One kilogram on a slope of TILT; at rest across it."""
    along = staticmethod(lambda x: x[..., 0, 0])

    def __init__(self, kind, h, steps, mu, speed=0.0, tilt=TILT):
        w = deform.World(float(h), (G * np.sin(tilt), 0, -G * np.cos(tilt)))
        w.points(np.array([[0, 0, rest_gap(G * np.cos(tilt))]]), 1.0, velocity=[[speed, 0, 0]])
        w.surface(points=[0])
        w.plane()
        w.contact(GAP, KAPPA, mu, EPS, kind)
        self.w, self.rollout = w.freeze(tolerance=1e-14), deform.Rollout(w, steps)
        s = self.rollout.run()
        self.x, self.v = self.along(w.x(s)), self.along(w.v(s))

    def by_mu(self, of="points"):
        bar = np.zeros((self.w.n, 3))
        bar[0, 0] = 1
        return self.w.param(self.rollout.pull(**{of: bar})["theta"], "contact.friction").sum()


class Block:
    """A cube of 0.1 m, 1 kg, six tetrahedra of rubber, first let down on the slope."""
    X = 0.1 * np.array([(i & 1, i >> 1 & 1, i >> 2) for i in range(8)], dtype=float)
    CELLS = np.array([(0, 1, 3, 7), (0, 3, 2, 7), (0, 5, 1, 7), (0, 4, 5, 7), (0, 2, 6, 7), (0, 6, 4, 7)])
    SHARE = np.bincount(CELLS.ravel()) / 24  # of the mass
    FACES = np.array([(0, 2, 1), (1, 2, 3), (4, 5, 6), (5, 7, 6), (0, 1, 4), (1, 5, 4), (2, 6, 3), (3, 6, 7), (0, 4, 2), (2, 4, 6), (1, 3, 5), (3, 7, 5)])

    def world(self, h, gravity, start):
        w = deform.World(float(h), gravity)
        w.points(self.X, start=start)
        w.material("flesh", "neo_hookean_tetrahedron", self.CELLS, young=1e6, poisson=0.3)
        w.material("mass", "mass_tetrahedron", self.CELLS, density=1000.0)
        w.surface(triangles=self.FACES)
        w.plane()
        return w

    def __init__(self, kind, h, steps, mu, tilt=TILT):
        down = self.world(h, (0, 0, -G * np.cos(tilt)), self.X + [0, 0, GAP / 2])
        down.contact(GAP, KAPPA)
        down.fix(np.arange(8), "xy")
        down.freeze("static")
        start = down.x(down.step(down.start())[0])[:8]
        w = self.world(h, (G * np.sin(tilt), 0, -G * np.cos(tilt)), start)
        w.contact(GAP, KAPPA, mu, EPS, kind)
        self.w, self.rollout = w.freeze(), deform.Rollout(w, steps)
        s = self.rollout.run()
        self.x, self.v = (a[:, :8, 0] @ self.SHARE for a in (w.x(s), w.v(s)))

    def gain(self, since):
        """Speed won from step `since` on, and its derivative by mu."""
        bar = np.zeros((len(self.v), self.w.n, 3))
        bar[-1, :8, 0], bar[since, :8, 0] = self.SHARE, -self.SHARE
        return self.v[-1] - self.v[since], self.w.param(self.rollout.pull(velocity=bar)["theta"], "contact.friction").sum()


def stopping(kind, h, mu=0.5, speed=5.0):
    p = Point(kind, h, int(1.1 * speed / (mu * G * h)), mu, speed, tilt=0.0)
    return p.x[-1] - p.x[0], p.by_mu()


def rows():
    out, tan = [], np.tan(TILT)
    for kind in ("lagged", "implicit"):
        h, n, mu = 1e-3, 200, 1.25 * tan
        stuck = Point(kind, h, n, mu)
        creep = EPS * (1 - np.sqrt(1 - tan / mu))  # friction mu f(v), f = 1 - (1 - v/eps)^2, carries what slope is left
        by = -EPS * tan / mu**2 / (2 * np.sqrt(1 - tan / mu))
        out += [below(f"{kind}, mu = 1.25 tan(theta): creep over eps_v t", stuck.x[-1] / (EPS * n * h), 1),
                below("... speed of the creep against eps_v (1 - sqrt(1 - tan(theta)/mu)), relative", abs(stuck.v[-1] / creep - 1), 1e-8),
                below("... its derivative by mu, relative", abs(stuck.by_mu("velocity") / by - 1), 1e-7)]
        for share, name in ((1.001, "sticks"), (0.999, "slides")):
            v = Point(kind, 0.01, 100, share * tan).v
            excess = (1 - share) * G * np.sin(TILT)
            held = v[-1] <= EPS if share > 1 else abs((v[-1] - v[-2]) / 0.01 / excess - 1) < 1e-6
            out.append(row(f"{kind}, mu = {share} tan(theta): {name}, speed after 1 s [m/s]", v[-1], "<= eps_v" if share > 1 else "grows by g (sin - mu cos)", held))
        mu, n = 0.2, 200
        slides = Point(kind, h, n, mu)
        a = G * (np.sin(TILT) - mu * np.cos(TILT))
        out += [below(f"{kind}, mu = 0.2: speed after 0.2 s against g (sin - mu cos) t, relative", abs(slides.v[-1] / (a * n * h) - 1), 1e-9),
                below("... d(speed)/d(mu) against -g cos t, relative", abs(slides.by_mu("velocity") / (-G * np.cos(TILT) * n * h) - 1), 1e-9),
                below("... d(place)/d(mu) against -g cos h^2 n (n + 1)/2, relative", abs(slides.by_mu() / (-G * np.cos(TILT) * h * h * n * (n + 1) / 2) - 1), 1e-9)]
        won, by = Block(kind, 2e-3, 100, mu).gain(50)  # shaken at the start, it slides by then
        out += [below(f"{kind}, block of rubber, mu = 0.2: speed won from 0.1 to 0.2 s, relative", abs(won / (a * 0.1) - 1), 1e-4),
                below("... its derivative by mu, relative", abs(by / (-G * np.cos(TILT) * 0.1) - 1), 1e-4)]
        block = Block(kind, 2e-3, 100, 1.25 * tan)
        out.append(below("block of rubber, mu = 1.25 tan(theta): way in the last 0.1 s over eps_v 0.1 s", (block.x[-1] - block.x[-51]) / (EPS * 0.1), 1))
        exact, found = 25 / (2 * 0.5 * G), [stopping(kind, s) for s in (2e-3, 1e-3)]
        gaps = [[abs(d / exact - 1), abs(g / (-exact / 0.5) - 1)] for d, g in found]
        out += [below(f"{kind}: stopping distance from 5 m/s at h = 1e-3 against v^2/(2 mu g), relative", gaps[1][0], 1.5e-3),
                near("... order", np.log2(gaps[0][0] / gaps[1][0]), 1, 0.1),
                below("... its derivative by mu against -distance/mu, relative", gaps[1][1], 1e-3)]
    return out
