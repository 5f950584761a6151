"""Controllers as parts of the model, by all of their parameters

A quadruped under four controllers as parts of its model: one layer, an oscillator with a network beside it (clipped), the same
decided every 16th step with a recurrent layer and a delay of its observations, and gains about a plan (a PD law as a formula). Each
gradient of the closed loop against forward mode and differences, and against what it would be if the controls were given: feedback
counts. Then the loop learns."""
import os

import numpy as np

from common import EXAMPLES, apart, below, inside, reported, row, slope
import policy

MODEL = os.path.join(EXAMPLES, "quadruped", "quadruped.xml")
STEPS = 200  # 0.25 s
LEGS = [f"{leg}_{part}" for part in ("hip", "knee") for leg in ("front_left", "front_right", "hind_left", "hind_right")]
SEES = [{"kind": "time"}, {"kind": "body_position", "object": "trunk", "component": [2]}, {"kind": "body_rotation", "object": "trunk"},
        *({"kind": "qpos", "object": name} for name in LEGS), {"kind": "qvel", "object": "root"},
        *({"kind": "qvel", "object": name, "scale": .1} for name in LEGS)]
SEEN = 1 + 1 + 9 + 8 + 6 + 8
CLOCK = {"kind": "clock", "frequency": [1.5, 3.]}
DENSE = lambda size, gain=1.: {"kind": "dense", "size": size, "gain": gain}
ACTIVATION = lambda name: {"kind": "activation", "activation": name}
CLIP = {"kind": "clip", "lower": -.7, "upper": .7}
CONTROLLERS = {
    "one layer": ([DENSE(8, .3)], 1),
    "clock and two hidden layers, clipped": ([CLOCK, DENSE(64), ACTIVATION("elu"), DENSE(32), ACTIVATION("tanh"), DENSE(8, .3), CLIP], 1),
    "delayed, recurrent, every 16 steps": ([{"kind": "delay", "size": 2, "delay": .6}, CLOCK, DENSE(24), ACTIVATION("softplus"),
                                            {"kind": "gru", "size": 12}, DENSE(8, .3), CLIP], 16),
    "gains about a plan": ([CLOCK, {"kind": "formula", "parameter": [.25, -.1, .05, .3],
                                    "formula": [f"p0*x{SEEN - 1} + p1*x{10 + k} + p2*x{24 + k} + p3*x{SEEN}" for k in range(8)]}], 1),
}


class Walk:
    """The quadruped at its start, limbs bent a little, with a controller."""

    def __init__(self, layers, every, single=False):
        self.m = inside.Model(MODEL)
        self.open = inside.Model(MODEL)
        policy.attach(self.m, SEES, policy.Network(SEEN, layers, seed=3, single=single), every)
        r = np.random.default_rng(1)
        self.start, self.open_start = self.m.init(), self.open.init()
        bent = self.start[self.m.slots["qpos"]].copy()
        bent[2] -= .02
        bent[7:] += .1 * r.standard_normal(8)
        self.start[self.m.slots["qpos"]] = self.open_start[self.open.slots["qpos"]] = bent
        self.rollout, self.replayed = inside.Rollout(self.m, STEPS), inside.Rollout(self.open, STEPS)
        self.slices = {n: slice(q.offset, q.offset + q.rows * q.cols) for n, q in self.m.params.items() if n.startswith("policy.")}
        first, last = min(s.start for s in self.slices.values()), max(s.stop for s in self.slices.values())
        self.all = slice(first, last)
        self.bar = np.zeros(self.m.nv)
        self.bar[0] = 1

    def way(self, theta=None):
        return self.rollout.forward(self.start, theta=theta)[self.m.slots["qpos"]][0]

    def gradient(self, theta=None):
        way = self.way(theta)
        x0, by_theta, _ = self.rollout.vjp(qpos=self.bar)
        return way, x0, by_theta

    def by_start_if_given(self):
        """Gradient by the first state of the same motion with its controls given."""
        m, x, controls = self.m, self.start, []
        for _ in range(STEPS):
            x, _ = m.step(x)
            controls.append(x[m.slots["policy_held"]])
        end = self.replayed.forward(self.open_start, ctrl=np.array(controls))
        return end[self.open.slots["qpos"]][0], self.replayed.vjp(qpos=self.bar)[0]

    def learn(self, updates, rate):
        """Ways before and after updates along the gradient by the controller's parameters, each of length `rate`."""
        theta, first = self.m.theta.copy(), self.way()
        for _ in range(updates):
            step = self.gradient(theta)[2][self.all]
            theta[self.all] += rate * step / np.linalg.norm(step)
        return first, self.way(theta)


def controller_rows(name, layers, every):
    walk = Walk(layers, every)
    way, x0, by_theta = walk.gradient()
    r = np.random.default_rng(2)
    found, pushed, wanted = [], [], []
    for k, part in enumerate([*walk.slices.values(), walk.all]):
        d = np.zeros(walk.m.ntheta)
        d[part] = r.standard_normal(part.stop - part.start)
        walk.way()
        found.append(by_theta @ d)
        pushed.append(walk.rollout.jvp(theta=d)[-1][0])
        if k == len(walk.slices):
            d /= np.linalg.norm(d)
            wanted = [by_theta @ d, slope(lambda t: walk.way(walk.m.theta + t * d), 1e-5)]
    scale = max(np.abs(found))
    end, given = walk.by_start_if_given()
    n = len(given)
    away = apart(given, x0[:n])
    return [
        below(f"{name}: all {walk.all.stop - walk.all.start} parameters, slice by slice: reverse against forward mode, by the largest",
              max(np.abs(np.subtract(found, pushed))) / scale, 1e-10),
        below(f"{name}: along all of them against differences, relative", abs(wanted[0] / wanted[1] - 1), 1e-6),
        below(f"{name}: the same controls given make the same way [m]", abs(end - way), 1e-12),
        row(f"{name}: gradient by the first state, closed loop against given controls: apart", away, ">= 0.001", away >= .001),
    ]


def rows():
    out = [r for name, (layers, every) in CONTROLLERS.items() for r in controller_rows(name, layers, every)]
    first, last = Walk(*CONTROLLERS["clock and two hidden layers, clipped"]).learn(25, .15)
    return out + [reported("way in 0.25 s before learning [m]", first),
                  row("way after 25 updates, further by [m]", last - first, ">= 0.05", last - first >= .05)]
