"""Arm reaches wherever it is told

A network of the source's sizes is told a place and gives four set-points of servos, which turn the arm there within their limits of
speed and torque. It learns by gradients through 128 worlds at a time, of new places every update, and is tested on 10 000 others of the
whole domain that can be reached: the elbow bends to 90 degrees, so that is 0.7071 <= |p| <= 1 about the shoulder."""
import os

import numpy as np

import arm
from common import ROOT, below, reported, row

TORQUE, WORLDS, UPDATES = 200, 128, 2563
SIZES = {"small": ((3, 128, 128, 4), 3e-3), "large": ((3, 1024, 1024, 1024, 4), 3e-4)}  # and the first rate of learning
TESTED, TOLD = 10_000, (576, UPDATES)
FIRST, LAST = arm.STEPS // 2, arm.STEPS - 100  # learned from the last 4 s, tested in the last


def places(random, count, least=.7071):
    """Uniform in the domain: |p| from `least` to 1, z >= 0, p from the arm's middle."""
    p = random.standard_normal((count, 3))
    p *= (random.uniform(least**3, 1, count) ** (1 / 3) / np.linalg.norm(p, axis=1))[:, None]
    p[:, 2] = abs(p[:, 2])
    return p + arm.MIDDLE


class Network:
    """Dense layers with ReLU between them, the last one zero at the start, and Adam."""

    def __init__(self, sizes, rate, seed):
        random = np.random.default_rng(seed)
        self.W = [random.standard_normal((a, b)) * np.sqrt(2 / a) for a, b in zip(sizes, sizes[1:])]
        self.W[-1][:] = 0
        self.b = [np.zeros(n) for n in sizes[1:]]
        self.moments = [[np.zeros_like(p) for p in self.W + self.b] for _ in range(2)]
        self.update, self.rate = 0, rate

    def count(self):
        return sum(p.size for p in self.W + self.b)

    def __call__(self, x):
        self.kept = [x]
        for k, (W, b) in enumerate(zip(self.W, self.b)):
            x = x @ W + b
            if k < len(self.W) - 1:
                x = np.maximum(0, x)
            self.kept.append(x)
        return x

    def pull(self, bar):
        W_bar, b_bar = [], []
        for k in reversed(range(len(self.W))):
            if k < len(self.W) - 1:
                bar = bar * (self.kept[k + 1] > 0)
            W_bar.insert(0, self.kept[k].T @ bar)
            b_bar.insert(0, bar.sum(0))
            bar = bar @ self.W[k].T
        return W_bar + b_bar

    def adam(self, gradient, rate):
        self.update += 1
        for p, g, m, v in zip(self.W + self.b, gradient, *self.moments):
            m += .1 * (g - m)
            v += .001 * (g * g - v)
            p -= rate * (m / (1 - .9**self.update)) / (np.sqrt(v / (1 - .999**self.update)) + 1e-8)


def learn(net, arms, seed):
    """One update; the mean distance over the last 4 s before it. The rate falls on a line to nothing."""
    targets = places(np.random.default_rng((seed, net.update)), WORLDS)
    apart = arms.run(net(targets - arm.MIDDLE))[:, FIRST + 1:] - targets[:, None]
    distance = np.linalg.norm(apart, axis=2)
    bar = np.zeros_like(arms.hand)
    bar[:, FIRST + 1:] = apart / np.maximum(distance, 1e-12)[..., None] / distance.size
    net.adam(net.pull(arms.pull(bar)), net.rate * (1 - net.update / UPDATES))
    return distance.mean()


def errors(net, arms, targets):
    """Mean distance over the last second, target by target."""
    out = []
    for k in range(0, len(targets), arms.worlds):
        some = targets[k:k + arms.worlds]
        all_ = np.concatenate([some, np.repeat(some[:1], arms.worlds - len(some), 0)])
        hand = arms.run(net(all_ - arm.MIDDLE))[:len(some), LAST + 1:]
        out.append(np.linalg.norm(hand - some[:, None], axis=2).mean(1))
    return np.concatenate(out)


# ---- runs that go on -------------------------------------------------------------------------------------------------------
def place_of(size):
    return os.path.join(ROOT, "build", f"R4.{size}.npz")


def save(net, size):
    """All at once: a run that is killed goes on from the last one."""
    arrays = {f"{kind}{k}": a for kind, group in zip("pmv", (net.W + net.b, *net.moments)) for k, a in enumerate(group)}
    with open(place_of(size) + ".part", "wb") as f:
        np.savez(f, update=net.update, **arrays)
    os.replace(place_of(size) + ".part", place_of(size))


def restore(net, size):
    if not os.path.exists(place_of(size)):
        return
    with np.load(place_of(size)) as kept:
        net.update = int(kept["update"])
        for kind, group in zip("pmv", (net.W + net.b, *net.moments)):
            for k, a in enumerate(group):
                a[...] = kept[f"{kind}{k}"]


def train(size, updates, each=20):
    """A network after so many updates, from what an earlier run has left."""
    net, arms = Network(*SIZES[size], 0), arm.Arms(TORQUE, WORLDS)
    restore(net, size)
    while net.update < updates:
        learn(net, arms, 0)
        if net.update % each == 0 or net.update == updates:
            save(net, size)
    return net, arms


def short(updates=40):
    """(error at the start, after so many updates) of the small network on 512 places."""
    net, arms, targets = Network(*SIZES["small"], 0), arm.Arms(TORQUE, WORLDS), places(np.random.default_rng(99), 4 * WORLDS)
    before = errors(net, arms, targets).mean()
    for _ in range(updates):
        learn(net, arms, 0)
    return before, errors(net, arms, targets).mean()


if __name__ == "__main__":
    import sys, time
    net, arms = Network(*SIZES["small"], 0), arm.Arms(TORQUE, WORLDS)
    restore(net, "small")
    t = time.time()
    while net.update < int(sys.argv[1]):
        d = learn(net, arms, 0)
        if net.update % 20 == 0:
            save(net, "small"); print(net.update, round(d, 4), round(time.time() - t), flush=True)
