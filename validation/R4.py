"""Arm reaches wherever it is told

A network of the source's sizes is told a place and gives four set-points of servos, which turn the arm there within their limits of
speed and torque. It learns by gradients through 128 worlds at a time, of new places every update, and is tested on 10 000 others of the
whole domain that can be reached: the elbow bends to 90 degrees, so that is 0.7071 <= |p| <= 1 about the shoulder. A second network also
sees angles and speeds of the joints, five times a second; R4L has one of 2.1 million weights. Runs that are interrupted go on where
they were."""
import os

import numpy as np

import arm
from common import ROOT, below, reported
import inside

LONG = "an hour or more"
GOES_ON = True  # state in build/
TORQUE, WORLDS, UPDATES, SEED = 200, 128, 2563, 0
SIZES = {"small": ((3, 128, 128, 4), 3e-3), "large": ((3, 1024, 1024, 1024, 4), 1e-3)}  # and the first rate of learning
TESTED, TOLD = 10_000, (576, UPDATES)
FIRST, LAST = arm.STEPS // 2, arm.STEPS - 100  # learned from the last 4 s, tested in the last
SHELL = .7071**.5  # the source draws |p|^2 from .7071 to 1


def places(random, count, least=.7071):
    """Uniform in the domain: |p| from `least` to 1, z >= 0, p from the arm's middle."""
    p = random.standard_normal((count, 3))
    p *= (random.uniform(least**3, 1, count) ** (1 / 3) / np.linalg.norm(p, axis=1))[:, None]
    p[:, 2] = abs(p[:, 2])
    return p + arm.MIDDLE


class Learner:
    """Parameters, Adam with a rate that falls on a line to nothing, and what makes a run go on. Made of these by those below."""

    def begin(self, name, parameters, rate):
        self.name, self.parameters, self.rate, self.update, self.tested = name, parameters, rate, 0, np.zeros((len(TOLD), 3))
        self.moments = [[np.zeros_like(p) for p in parameters] for _ in range(2)]
        self.path = os.path.join(ROOT, "build", f"R4.{name}.npz")

    def adam(self, gradient):
        rate = self.rate * (1 - self.update / UPDATES)
        self.update += 1
        for p, g, m, v in zip(self.parameters, gradient, *self.moments):
            m += .1 * (g - m)
            v += .001 * (g * g - v)
            p -= rate * (m / (1 - .9**self.update)) / (np.sqrt(v / (1 - .999**self.update)) + 1e-8)

    def save(self):
        arrays = {f"{kind}{k}": a for kind, group in zip("pmv", (self.parameters, *self.moments)) for k, a in enumerate(group)}
        with open(self.path + ".part", "wb") as f:
            np.savez(f, update=self.update, tested=self.tested, **arrays)
        os.replace(self.path + ".part", self.path)

    def restore(self):
        if os.path.exists(self.path):
            with np.load(self.path) as kept:
                self.update, self.tested = int(kept["update"]), kept["tested"]
                for kind, group in zip("pmv", (self.parameters, *self.moments)):
                    for k, a in enumerate(group):
                        a[...] = kept[f"{kind}{k}"]

    def learn(self):
        """One update; the mean distance over the last 4 s before it."""
        targets = places(np.random.default_rng((SEED, self.update)), WORLDS)
        apart = self.reach(targets)[:, FIRST + 1:] - targets[:, None]
        distance, bar = np.linalg.norm(apart, axis=2), np.zeros((WORLDS, arm.STEPS + 1, 3))
        bar[:, FIRST + 1:] = apart / np.maximum(distance, 1e-12)[..., None] / distance.size
        self.adam(self.pull(bar))
        return distance.mean()

    def errors(self, targets):
        """Mean distance over the last second, target by target."""
        out = []
        for k in range(0, len(targets), WORLDS):
            some = targets[k:k + WORLDS]
            hand = self.reach(np.concatenate([some, np.repeat(some[:1], WORLDS - len(some), 0)]))[:len(some), LAST + 1:]
            out.append(np.linalg.norm(hand - some[:, None], axis=2).mean(1))
        return np.concatenate(out)

    def test(self):
        """Mean and 95th percentile of the errors, and the mean in the source's shell."""
        targets = places(np.random.default_rng(99), TESTED)
        errors, inside = self.errors(targets), np.linalg.norm(targets - arm.MIDDLE, axis=1) >= SHELL
        return errors.mean(), np.percentile(errors, 95), errors[inside].mean()

    def train(self, updates=UPDATES, each=20):
        self.restore()
        while self.update < updates:
            self.learn()
            if self.update in TOLD:
                self.tested[TOLD.index(self.update)] = self.test()
            if self.update % each == 0 or self.update in (*TOLD, updates):
                self.save()
        return self


class Told(Learner):
    """Dense layers with ReLU between them, the last one zero at the start; set-points that a whole run keeps."""

    def __init__(self, name):
        sizes, rate = SIZES[name]
        random = np.random.default_rng(SEED)
        self.W = [random.standard_normal((a, b)) * np.sqrt(2 / a) for a, b in zip(sizes, sizes[1:])]
        self.W[-1][:] = 0
        self.b, self.arms = [np.zeros(n) for n in sizes[1:]], arm.Arms(TORQUE, WORLDS)
        self.begin(name, self.W + self.b, rate)

    def reach(self, targets):
        x = targets - arm.MIDDLE
        self.kept = [x]
        for k, (W, b) in enumerate(zip(self.W, self.b)):
            x = x @ W + b
            if k < len(self.W) - 1:
                x = np.maximum(0, x)
            self.kept.append(x)
        return self.arms.run(x)

    def pull(self, hand_bar):
        bar, W_bar, b_bar = self.arms.pull(hand_bar), [], []
        for k in reversed(range(len(self.W))):
            if k < len(self.W) - 1:
                bar = bar * (self.kept[k + 1] > 0)
            W_bar.insert(0, self.kept[k].T @ bar)
            b_bar.insert(0, bar.sum(0))
            bar = bar @ self.W[k].T
        return W_bar + b_bar


class Sees(Learner):
    """The closed loop: a policy of the small size that also sees the joints, a decision each fifth of a second."""

    def __init__(self, name="closed"):
        n, self.m = inside.native, arm.load(TORQUE)
        relu, dense = {"kind": n.pb_layerActivation, "activation": n.pb_activationRelu}, {"kind": n.pb_layerDense, "size": 128, "gain": 2**.5}
        observe = [{"kind": n.pb_observeCommand, "count": 3}, {"kind": n.pb_observeQpos}, {"kind": n.pb_observeQvel}]
        arm.set_policy(self.m, 11, [dense, relu, dense, relu, {"kind": n.pb_layerDense, "size": 4, "init": n.pb_initZero}], observe, SEED, 20)
        self.arms, self.at = arm.Arms(TORQUE, WORLDS, self.m, [k for k in self.m.params if k.startswith("policy.")]), arm.weights(self.m)
        self.begin(name, [self.m.theta[self.at]], SIZES["small"][1])

    def reach(self, targets):
        return self.arms.run(None, targets)

    def pull(self, hand_bar):
        return [self.arms.pull_parameters(hand_bar)[self.at]]


def short(updates=40, count=256, name="small"):
    """(error at the start, after so many updates) of a network."""
    net, targets = Told(name), places(np.random.default_rng(99), count)
    before = net.errors(targets).mean()
    for _ in range(updates):
        net.learn()
    return before, net.errors(targets).mean()


def told(net):
    """Trains a network that is told places, with the rows that say how near it brings the hand."""
    net.train()
    out = [reported(f"{net.name} network: weights", sum(p.size for p in net.parameters))]
    for (mean, high, shell), updates, limit in zip(net.tested, TOLD, (.1, .05)):
        out.append(below(f"{net.name}: mean error on {TESTED} places after {updates} updates of {WORLDS}, m", mean, limit))
        out.append(reported(f"{net.name}, {updates} updates: 95th percentile, and mean in the source's shell, m", f"{high:.3g}, {shell:.3g}"))
    return out


def rows():
    net = Told("small")
    out = told(net)
    closed = Sees().train(TOLD[0])
    out.append(below(f"small, seeing the joints: mean error after {TOLD[0]} updates by that without", closed.tested[0][0] / net.tested[0][0], 1.1))
    return out
