"""DiffTaichi's triangle of springs

DiffTaichi's triangle of springs: its explicit program stated as energies, rest lengths optimized until the area is as wanted.

That program damps velocities by a factor exp(-20 h) a step, and moves points by the velocity *before* the wall takes it away. So
the velocity here is the one before the wall, and wall and damping act where it is used: an element that looks at x and y = x - h v,
with the force m (s v' - v) / h, v' what wall and friction leave of v. freeze() makes a force without potential of it."""
import numpy as np

from common import apart, below, near, row, slope
import deform

X = np.array([[.3, .5], [.3, .4], [.4, .4]])
ENDS = np.array([[0, 1], [1, 2], [0, 2]])
L0 = np.array([.1, .1, .1 * np.sqrt(2)])
H, STEPS = 1e-3, 1023
# length n + 1e-4, force k (n + 1e-4 - l0) (x0 - x1) / (n + 1e-4)
SPRING = "n = norm(x0 - x1); k*(0.5*n^2 - l0*(n - 1e-4*log(n + 1e-4)))"
WALL = """v = freeze((x0 - y0)/h)
hit = select(x0.x > wall, 1, 0)*select(v.x > 0, 1, 0)
rub = select(v.y > 0, min(v.y, friction*v.x), -min(-v.y, friction*v.x))
left = select(hit > 0, [0, v.y - rub, 0], v)
-dot(freeze(m/h*(exp(-damping*h)*left - v)), x0)"""


def world():
    w = deform.World(H)
    w.points(X, 1.0)
    w.energy("springs", SPRING, ENDS, per_element=("l0",), k=10, l0=L0)
    w.energy("wall", WALL, [[0], [1], [2]], m=1, wall=0.4, friction=0.01, damping=20)
    return w.freeze("symplectic_euler")


def area(x):
    a, b = x[0] - x[1], x[0] - x[2]
    signed = 0.5 * (a[0] * b[1] - a[1] * b[0])
    bar = 0.5 * np.sign(signed) * np.array([[b[1] - a[1], a[0] - b[0], 0], [-b[1], b[0], 0], [a[1], -a[0], 0]])
    return abs(signed), bar


class Triangle:
    def __init__(self, target):
        self.w, self.target = world(), target
        self.rollout = deform.Rollout(self.w, STEPS)

    def area(self, rest):
        theta = self.w.with_params(springs__l0=np.reshape(rest, (3, 1)))
        return area(self.w.x(self.rollout.forward(self.w.start(), theta=theta)))

    def loss(self, rest):
        return (self.area(rest)[0] - self.target)**2

    def gradient(self, rest):
        """(loss, its gradient, area)."""
        a, bar = self.area(rest)
        g = self.rollout.pull(2 * (a - self.target) * bar)["theta"]
        return (a - self.target)**2, self.w.param(g, "springs.l0").ravel().copy(), a

    def descend(self, iterations=25, rate=5.0):
        rest = L0.copy()
        for _ in range(iterations):
            rest -= rate * self.gradient(rest)[1]
        return rest


def rows():
    t = Triangle(0.1)
    loss, g, a = t.gradient(L0)
    out = [below("loss at the start against .009026402", abs(loss - .009026402), 5e-10),
           below("area at the start against .004992621", abs(a - .004992621), 5e-10),
           below("gradient at the start against (-.005659657, -.005659657, -.002695810)", np.max(np.abs(g - [-.005659657, -.005659657, -.002695810])), 5e-10)]
    rest = t.descend()
    loss, g, a = t.gradient(rest)
    out += [near("target .1: area after 25 iterations", a, .094484, 5e-7),
            below("gradient there, the wall touched, against difference quotients, relative", apart(g, [slope(lambda s: t.loss(rest + s * e), 1e-5) for e in np.eye(3)]), 1e-6),
            row("rest lengths there", ", ".join(f"{x:.4f}" for x in rest), "reported", True)]
    t = Triangle(0.2)
    rest = t.descend()
    out += [near("target .2: loss after 25 iterations", t.loss(rest), 2.1e-11, 5e-13),
            row("rest lengths there", ", ".join(f"{x:.4f}" for x in rest), "reported", True)]
    return out
