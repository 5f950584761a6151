"""Gradients by the parameters of a large controller

A walking robot of 13 bodies and 16 servos behind a network of two hidden layers of 1 024, 1 147 904 weights and 2 064 biases: the way it goes in 50 steps, by every layer of
the network in 20 random directions each (case R1 has 1 000 steps and the times)."""
import os

import numpy as np

from common import ROOT, below, inside, reported, row, slope
import policy

MODEL = os.path.join(ROOT, "validation", "walker.xml")
STEPS, DIRECTIONS = 50, 20
LAYERS = [{"kind": "dense", "size": 1024, "gain": 1.4}, {"kind": "activation", "activation": "tanh"}, {"kind": "dense", "size": 1024, "gain": 1.4},
          {"kind": "activation", "activation": "tanh"}, {"kind": "dense", "size": 16, "gain": .2}]
LIMBS = [f"{leg}_{part}" for part in ("femur", "tibia") for leg in ("front_left", "front_right", "hind_left", "hind_right")]
# 81 numbers: the trunk's velocity, upward axis and height, positions and axes of limbs as seen from it, velocities of all joints
SEES = [{"kind": "qvel", "scale": .1}, {"kind": "body_rotation", "object": "trunk", "component": [2, 5, 8]}, {"kind": "body_position", "object": "trunk", "component": [2]},
        *({"kind": "body_position", "object": b, "frame": "trunk", "point": (0, 0, -.1)} for b in LIMBS),
        *({"kind": "body_rotation", "object": b, "frame": "trunk", "component": [2, 5, 8]} for b in LIMBS),
        *({"kind": "body_rotation", "object": b, "component": [8]} for b in LIMBS[:7])]
SEEN = 22 + 3 + 1 + 24 + 24 + 7


class Robot:
    def __init__(self, single=False):
        m = self.m = inside.Model(MODEL)
        policy.attach(m, SEES, policy.Network(SEEN, LAYERS, seed=5, single=single))
        self.rollout, self.start = inside.Rollout(m, STEPS), m.init()
        self.start[m.slots["qpos"]][7:] += .05 * np.random.default_rng(4).standard_normal(m.nq - 7)
        self.slices = {n: slice(q.offset, q.offset + q.rows * q.cols) for n, q in m.params.items() if n.startswith("policy.")}
        self.bar = np.zeros(m.nv)
        self.bar[0] = 1
        self.rollout.want([n for n in self.slices])

    def way(self, theta=None):
        return self.rollout.forward(self.start, theta=theta)[self.m.slots["qpos"]][0]

    def gradient(self):
        self.way()
        return self.rollout.vjp(qpos=self.bar)[1]

    def along(self, direction):
        return self.rollout.jvp(theta=direction)[-1][0]


def rows():
    robot, r = Robot(), np.random.default_rng(6)
    gradient = robot.gradient()
    count = sum(s.stop - s.start for s in robot.slices.values())
    out = [row("parameters of the network", count, "1149968", count == 1147904 + 2064)]
    for name, part in robot.slices.items():
        d = np.zeros(robot.m.ntheta)
        reverse, forward = [], []
        for _ in range(DIRECTIONS):
            d[part] = r.standard_normal(part.stop - part.start)
            reverse.append(gradient @ d)
            forward.append(robot.along(d))
        wrong = np.abs(np.subtract(reverse, forward)).max() / np.abs(forward).max()
        out.append(below(f"{name}: reverse against forward mode, 20 directions, by the largest", wrong, 1e-9))
        way = d / np.linalg.norm(d)
        wanted = slope(lambda t: robot.way(robot.m.theta + t * way), 1e-4)
        out.append(below(f"{name}: along one of them against differences, by the gradient's length",
                         abs(gradient @ way - wanted) / np.linalg.norm(gradient[part]), 1e-6))
        out.append(reported(f"{name}: length of the gradient", float(np.linalg.norm(gradient[part]))))
        robot.way()
    return out
