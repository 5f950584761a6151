"""Robots of masses and springs in the plane that learn to run: in deformables with a floor of penalties, and in rows of contact.

The scene of DiffTaichi's mass-spring robots A to D: masses of 1 kg, a network that sets the rest lengths of muscles, velocities that fall by
exp(-DAMPING h) in a step, and every iteration a step of one length along the gradient of the head's place."""
import itertools
import os
import tempfile
from typing import NamedTuple

import numpy as np

from common import inside
import deform
import policy

H, STEPS, FLOOR, GRAVITY, DAMPING, CELL = 0.004, 682, 0.1, 4.8, 15.0, 0.05
HEAD, RATE, CLOCK = 0, 0.2, 10.0  # a mass, the length of a step in weights, rad/s
FRICTION, SLIP, RADIUS = 4.0, 0.1, 0.01  # friction as good as holds; of penalties m/s, of masses in rows m
SQUARE, WEDGE = ((0, 0), (0, 1), (1, 0), (1, 1)), ((.5, .5), (0, 1), (1, 1))  # corners in cells

MUSCLE = "0.5*k*(norm(x0 - x1) - norm(X0 - X1)*(1 + s*a))^2"
GROUND = "d = min(x0.y - y, 0); 0.5*k*d^2"
# Coulomb's friction by the normal force at the start of the step, regularized below a speed
RUB = "c*max(0, y - y0.y)*sqrt((x0.x - y0.x)^2 + (h*v)^2)"
AIR = "0.5*c*dot(x0 - y0, x0 - y0)/h^2"


class Shape(NamedTuple):
    """Places of the masses, pairs with a spring, by how much each rest length follows its control, the floor of penalties, iterations."""
    x: np.ndarray
    springs: np.ndarray
    stiffness: float
    actuation: np.ndarray
    firmness: float
    iterations: int

    def lengths(self):
        return np.linalg.norm(self.x[self.springs[:, 0]] - self.x[self.springs[:, 1]], axis=1)


def frame():
    x = [[.2, .1], [.3, .13], [.4, .1], [.2, .2], [.3, .2], [.4, .2]]
    springs = [[0, 1], [1, 2], [3, 4], [4, 5], [0, 3], [2, 5], [0, 4], [1, 4], [2, 4], [3, 1], [5, 1]]
    return Shape(np.array(x), np.array(springs), 14000.0, np.full(len(springs), .1), 1e4, 20)


def mesh(*parts):
    """Parts of a mesh: (corners, column, row, whether its uprights are muscles), every pair of a part's corners with a spring."""
    x, springs = [], {}
    for form, i, j, moves in parts:
        corners = [(i + a, j + b) for a, b in form]
        x += [c for c in corners if c not in x]
        at = [x.index(c) for c in corners]
        for pair in itertools.combinations(range(len(at)), 2):
            springs.setdefault(tuple(sorted(at[k] for k in pair)), .15 if moves and pair in ((0, 1), (2, 3)) else 0.)
    return Shape(CELL * np.array(x) + .1, np.array([*springs]), 3e4, np.array([*springs.values()]), 1e5, 100)


LEGS = ((SQUARE, 2, 0, True), (SQUARE, 0, 0, True))
TRUNK = ((SQUARE, 0, 1, True), (SQUARE, 0, 2, False), (SQUARE, 1, 2, False), (SQUARE, 2, 1, True), (SQUARE, 2, 2, False))
NECK = ((SQUARE, 2, 3, False), (SQUARE, 2, 4, False))
HIND = ((SQUARE, 3, 1, False), (SQUARE, 4, 0, True), (SQUARE, 4, 1, True))
ROBOTS = {"A": frame(), "B": mesh((WEDGE, 2, 0, False), (WEDGE, 0, 0, False), *TRUNK), "C": mesh(*LEGS, *TRUNK, *NECK),
          "D": mesh(*LEGS, *TRUNK, *NECK, *HIND)}


def network(shape, seed, inputs, sight, clock, last=()):
    """Ten phases of a clock and what is seen -> 32 -> one a spring, by the Glorot law times 2 and 3."""
    phases = [f"sin({clock!r}*x0 + {2 * np.pi / 10 * k!r})" for k in range(10)]
    dense = lambda size, gain: {"kind": "dense", "size": size, "init": 1, "gain": gain}
    tanh = {"kind": "activation", "activation": "tanh"}
    layers = [{"kind": "formula", "formula": phases + sight}, dense(32, 2.), tanh, dense(len(shape.springs), 3.), tanh, *last]
    return policy.Network(inputs, layers, seed=seed)


class Runner:
    """A robot that learns in a world of its own: `forward` and `pull` are the world's."""

    def begin(self, world, shape):
        self.w, self.shape, self.rollout = world, shape, inside.Rollout(world, STEPS)
        names = [n for n in world.params if n.startswith("policy.") and n.endswith((".weight", ".bias"))]
        self.rollout.want(names)
        parts = [world.params[n] for n in names]
        self.weights = slice(min(q.offset for q in parts), max(q.offset + q.rows * q.cols for q in parts))

    def learn(self):
        """The head's place before each step along the gradient, and after the last."""
        theta, ways = self.w.theta.copy(), []
        for _ in range(self.shape.iterations):
            ways.append(self.way(theta))
            g = self.pull()[self.weights]
            theta[self.weights] += RATE * g / np.linalg.norm(g)
        return np.array([*ways, self.way(theta)])


# ---- deformables ------------------------------------------------------------------------------------------------------------
def soft(shape):
    """Implicit Euler; the drag is implicit too, and the floor a penalty with Coulomb's friction."""
    w, every = deform.World(H, (0, -GRAVITY, 0)), np.arange(len(shape.x))[:, None]
    w.points(shape.x, 1.0)
    w.energy("muscle", MUSCLE, shape.springs, per_element=("a", "s"), control=("a",), k=shape.stiffness, s=shape.actuation, a=0*shape.actuation)
    w.energy("ground", GROUND, every, k=shape.firmness, y=FLOOR)
    w.energy("rub", RUB, every, c=FRICTION * shape.firmness, y=FLOOR, v=SLIP)
    w.energy("air", AIR, every, c=np.expm1(DAMPING * H))
    return w.freeze()


class Soft(Runner):
    def __init__(self, shape, seed, clock=CLOCK):
        w, n = soft(shape), len(shape.x)
        plane, seen = [3 * k + a for k in range(n) for a in (0, 1)], 1 + 4 * n
        rows = [{"kind": "time"}, {"kind": "points", "form": 1, "component": plane, "scale": .05},
                {"kind": "point_velocity", "component": plane, "scale": .05}, {"kind": "points", "form": 2, "component": [0, 1], "scale": -1}]
        sight = [f"x{k}" for k in range(1, seen)] + [f"0.9 + x{seen}", f"0.2 + x{seen + 1}"]  # shape and velocities, the way to a goal
        policy.attach(w, rows, network(shape, seed, seen + 2, sight, clock))
        self.begin(w, shape)
        self.bar = np.zeros((w.n, 3))
        self.bar[HEAD, 0] = 1

    def way(self, theta=None):
        return float(self.w.x(self.rollout.forward(self.w.init(), theta=theta))[HEAD, 0])

    def pull(self):
        return self.rollout.vjp(points=self.bar.ravel())[1]

    @staticmethod
    def still(shape):
        """Where the head comes without actuation."""
        w = soft(shape)
        return float(w.x(inside.Rollout(w, STEPS).forward(w.init()))[HEAD, 0])


# ---- rows of contact --------------------------------------------------------------------------------------------------------
def jointed(shape):
    """MJCF: small balls that slide in the plane, a tendon for each spring, whose servo pulls it to a length."""
    balls = "".join(f'<body pos="{x!r} 0 {z!r}"><joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 0 1"/>'
                    f'<geom size="{RADIUS}" mass="1" conaffinity="0"/><site name="s{k}"/></body>' for k, (x, z) in enumerate(shape.x.tolist()))
    tendons = "".join(f'<spatial name="t{k}"><site site="s{i}"/><site site="s{j}"/></spatial>' for k, (i, j) in enumerate(shape.springs))
    servos = "".join(f'<position tendon="t{k}" kp="{shape.stiffness}"/>' for k in range(len(shape.springs)))
    return f"""<mujoco><option timestep="{H}" gravity="0 0 -{GRAVITY}" integrator="Euler" cone="elliptic"/>
      <default><joint damping="{float(np.expm1(DAMPING * H) / H)!r}"/><geom friction="{FRICTION} 0.005 0.0001"/></default>
      <worldbody><geom type="plane" pos="0 0 {FLOOR - RADIUS!r}" size="9 9 1"/>{balls}</worldbody>
      <tendon>{tendons}</tendon><actuator>{servos}</actuator><sensor><subtreecom body="world"/></sensor></mujoco>"""


def sharp(shape):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "robot.xml")
        with open(path, "w", encoding="utf-8") as f:
            f.write(jointed(shape))
        return inside.Model(path)


class Sharp(Runner):
    """`kind`: which gradient through contacts that begin and end."""

    def __init__(self, shape, seed, kind):
        w, n, self.kind = sharp(shape), len(shape.x), kind
        mean = (f"x{1 + 4 * n}", f"x{2 + 4 * n}")
        rows = [{"kind": "time"}, {"kind": "qpos"}, {"kind": "qvel", "scale": .05}, {"kind": "sensor", "component": [0, 2]}]
        sight = [f"0.05*(x{1 + 2 * k + a} + {x!r} - {mean[a]})" for k, at in enumerate(shape.x.tolist()) for a, x in enumerate(at)]
        sight += [f"x{k}" for k in range(1 + 2 * n, 1 + 4 * n)] + [f"0.9 - {mean[0]}", f"0.2 - {mean[1]}"]
        length = {"kind": "scale", "scale": shape.lengths() * shape.actuation, "offset": shape.lengths()}
        policy.attach(w, rows, network(shape, seed, 3 + 4 * n, sight, CLOCK, [length]))
        self.begin(w, shape)
        self.bar = np.eye(w.nv)[2 * HEAD]

    def way(self, theta=None):
        return float(self.shape.x[HEAD, 0] + self.rollout.forward(self.w.init(), theta=theta)[self.w.slots["qpos"]][2 * HEAD])

    def pull(self):
        return self.rollout.vjp(kind=self.kind, qpos=self.bar)[1]

    @staticmethod
    def still(shape):
        w = sharp(shape)
        return float(shape.x[HEAD, 0] + inside.Rollout(w, STEPS).forward(w.init(), shape.lengths())[w.slots["qpos"]][2 * HEAD])
