"""Networks in single precision over weights in double

Layers compute in float, theta and the physics stay double: what gradients keep of each decision and what a call works with is at
least 45 % smaller, gradients through the physics differ by 1e-4 at most, and learning ends where it does in double: a quadruped that
walks, a cart that balances a pole, and a robot behind a network of a million weights."""
import os

import numpy as np

from common import EXAMPLES, apart, below, inside, reported, row
import K2
import K57
import policy

BATCH, WINDOW = 64, 32
STEPS = 240  # of the cart: 1 s
UPDATES = {"quadruped": (30, .02), "cart and pole": (60, .05), "robot, large network": (8, .05)}


class Cart:
    """A pole that is almost upright, held by a network: the mean square of its angle and the cart's place."""
    layers = [{"kind": "dense", "size": 64}, {"kind": "activation", "activation": "elu"}, {"kind": "dense", "size": 64},
              {"kind": "activation", "activation": "elu"}, {"kind": "dense", "size": 1, "gain": .1}, {"kind": "activation", "activation": "tanh"}]

    def __init__(self, single):
        m = self.m = inside.Model(os.path.join(EXAMPLES, "cartpole", "cartpole.xml"))
        rows = [{"kind": "qpos", "object": "rail"}, {"kind": "site_rotation", "object": "tip", "component": [0, 2]}, {"kind": "qvel"}]
        policy.attach(m, rows, policy.Network(5, self.layers, seed=2, single=single), every=4)
        self.rollout, self.start = inside.Rollout(m, STEPS), m.init()
        self.start[m.slots["qpos"]] = 0, np.pi + .2
        places = [q for n, q in m.params.items() if n.startswith("policy.")]
        self.all = slice(places[0].offset, places[-1].offset + places[-1].rows * places[-1].cols)

    def gradient(self, theta=None):
        q = self.rollout.forward(self.start, theta=theta, states=True)[:, self.m.slots["qpos"]] - [0, np.pi]
        return np.mean(q ** 2), None, self.rollout.vjp(qpos=2 * q / q.size)[1]

    def learn(self, updates, rate):
        theta, first = self.m.theta.copy(), self.gradient()[0]
        for _ in range(updates):
            step = self.gradient(theta)[2][self.all]
            theta[self.all] -= rate * step / max(np.linalg.norm(step), .05)
        return first, self.gradient(theta)[0]


class Large(K2.Robot):
    """The robot of case K2."""

    def __init__(self, single):
        super().__init__(single)
        self.all = slice(min(s.start for s in self.slices.values()), max(s.stop for s in self.slices.values()))

    def gradient(self, theta=None):
        way = self.way(theta)
        return way, None, self.rollout.vjp(qpos=self.bar)[1]

    def learn(self, updates, rate):
        theta, first = self.m.theta.copy(), self.way()
        for _ in range(updates):
            step = self.gradient(theta)[2][self.all]
            theta[self.all] += rate * step / np.linalg.norm(step)
        return first, self.way(theta)


MADE = {"quadruped": lambda single: K57.Walk(*K57.CONTROLLERS["clock and two hidden layers, clipped"], single), "cart and pole": Cart,
        "robot, large network": Large}


def memory(network):
    """Bytes that gradients keep of a decision, and of a window of decisions of all worlds with what calls work with."""
    f = network.function.contents
    return 8 * f.kept_size, 8 * f.kept_size * BATCH * WINDOW + f.work_bytes(f.self, BATCH)


def rows():
    out = []
    for name, make in MADE.items():
        double, single = make(False), make(True)
        kept, whole = (1 - b / a for a, b in zip(memory(double.m.network), memory(single.m.network)))
        exact, rounded = double.gradient()[2], single.gradient()[2]
        first, last = double.learn(*UPDATES[name])
        _, end = single.learn(*UPDATES[name])
        out += [
            row(f"{name}: less kept of a decision for gradients, part", kept, ">= 0.45", kept >= .45),
            row(f"{name}: less memory for {WINDOW} decisions of {BATCH} worlds, recorded and worked with, part", whole, ">= 0.45", whole >= .45),
            below(f"{name}: gradient by all parameters of the network, apart", apart(rounded[single.all], exact[double.all]), 1e-4),
            reported(f"{name}: objective before learning", first),
            reported(f"{name}: after {UPDATES[name][0]} updates, double", last),
            below(f"{name}: the same in single precision differs, by what was learned", abs(end - last) / abs(last - first), 1e-2),
        ]
    return out
