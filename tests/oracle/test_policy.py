"""Networks against numpy: outputs, memory and, by complex steps, gradients by everything they take."""
import os

import numpy as np
import pytest

import inside
import policy

ACTIVATIONS = {
    "relu": lambda x: np.where(x.real > 0, x, 0), "tanh": np.tanh, "elu": lambda x: np.where(x.real > 0, x, np.exp(np.where(x.real > 0, 0, x)) - 1),
    "softplus": lambda x: np.log(1 + np.exp(x)), "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "silu": lambda x: x / (1 + np.exp(-x)),
}
SIGMOID = ACTIVATIONS["sigmoid"]


class Numpy:
    """The layers once more; parameters and memory are taken off the front of flat arrays (memory: rows of columns)."""

    def __init__(self, p, m):
        self.p, self.m, self.after = p, m, []

    def take(self, *shape):
        n = int(np.prod(shape))
        part, self.p = self.p[:n], self.p[n:]
        return part.reshape(shape)

    def remember(self, rows):
        part, self.m = self.m[:rows], self.m[rows:]
        return part

    def run(self, layers, x):
        for d in layers:
            x = getattr(self, d["kind"])(d, x)
        return x

    def dense(self, d, x):
        w = self.take(d["size"], len(x))
        return w @ x + self.take(d["size"], 1)

    def activation(self, d, x):
        return ACTIVATIONS[d["activation"]](x)

    def clip(self, d, x):
        return np.where(x.real < d["lower"], d["lower"], np.where(x.real > d["upper"], d["upper"], x))

    def normalize(self, d, x):
        return (x - self.take(len(x), 1)) / self.take(len(x), 1)

    def layernorm(self, d, x):
        x = x - x.mean(0)
        return self.take(len(x), 1) * x / np.sqrt((x**2).mean(0) + 1e-5) + self.take(len(x), 1)

    def clock(self, d, x):
        angles = [2 * np.pi * f * x[0] for f in d["frequency"]]
        return np.stack([*x[1:], *(g(a) for a in angles for g in (np.sin, np.cos))])

    def gru(self, d, x):
        n = d["size"]
        w, u, b, h = self.take(3 * n, len(x)), self.take(3 * n, n), self.take(3 * n, 1), self.remember(n)
        r, z = np.split(SIGMOID(w[:2 * n] @ x + u[:2 * n] @ h + b[:2 * n]), 2)
        after = z * h + (1 - z) * np.tanh(w[2 * n:] @ x + u[2 * n:] @ (r * h) + b[2 * n:])
        self.after.append(after)
        return after

    def pid(self, d, x):
        n = d["size"]
        kp, kd, ki = (self.take(n, 1) for _ in range(3))
        total = self.remember(n) + d["interval"] * (x[:n] - x[n:2 * n])
        self.after.append(total)
        return kp * (x[:n] - x[n:2 * n]) - kd * x[2 * n:] + ki * total


DENSE, ACT = lambda n: {"kind": "dense", "size": n}, lambda name: {"kind": "activation", "activation": name}
CHAINS = [
    (4, [DENSE(6), ACT("tanh"), DENSE(3)]),
    (5, [{"kind": "normalize"}, DENSE(7), ACT("elu"), DENSE(5), ACT("softplus"), DENSE(2), {"kind": "clip", "lower": -.2, "upper": .3}]),
    (3, [{"kind": "clock", "frequency": [.7, 2]}, DENSE(5), ACT("relu"), {"kind": "gru", "size": 4}, DENSE(2), ACT("sigmoid")]),
    (4, [DENSE(6), {"kind": "pid", "size": 2, "gain": 3., "kd": .4, "ki": .7, "interval": .05}, {"kind": "gru", "size": 3}]),
    (4, [{"kind": "layernorm"}, DENSE(6), {"kind": "layernorm"}, ACT("silu"), DENSE(3), {"kind": "layernorm"}]),
]


def work_of(f, batch):
    room = np.full(f.work_bytes(f.self, batch) // 8 + 16, np.nan)
    return room, (room.ctypes.data + 63) // 64 * 64


@pytest.mark.parametrize("single, near", [(False, 1e-12), (True, 2e-5)])
@pytest.mark.parametrize("inputs, layers", CHAINS)
def test_against_numpy(inputs, layers, single, near):
    network, r, batch = policy.Network(inputs, layers, seed=3, single=single), np.random.default_rng(1), 5
    f = network.function.contents
    slices = f.slice[:f.slices]
    p = np.concatenate([.3 + .5 * r.random(s.rows * s.cols) if b"deviation" in s.name else .5 * r.standard_normal(s.rows * s.cols) for s in slices])
    o, m = r.standard_normal((inputs, batch)), r.standard_normal((f.memory, batch))
    out, after = np.zeros((f.outputs, batch)), np.zeros((f.memory, batch))
    room, work = work_of(f, batch)
    assert inside.native.call(f.forward, f.self, batch, p, o, m, out, after, work) == inside.native.pb_ok

    def wanted(p, o, m):
        model = Numpy(p, m)
        y = model.run(layers, o)
        assert model.p.size == model.m.size == 0
        return y, np.concatenate(model.after) if model.after else np.zeros((0, batch))
    y, h = wanted(p, o, m)
    np.testing.assert_allclose(out, y, rtol=near, atol=near)
    np.testing.assert_allclose(after, h, rtol=near, atol=near)

    bars = r.standard_normal(out.shape), r.standard_normal(after.shape)
    found = [np.zeros_like(a) for a in (o, m, p)]
    room, work = work_of(f, batch)
    assert inside.native.call(f.pull, f.self, batch, *(p, o, m, *bars, *found), None, 0, work) == inside.native.pb_ok
    for k, (a, bar) in enumerate(zip((o, m, p), found)):
        for at in np.ndindex(a.shape):
            moved = [b.astype(complex) for b in (o, m, p)]
            moved[k][at] += 1e-30j
            y, h = wanted(moved[2], moved[0], moved[1])
            assert bar[at] == pytest.approx((np.sum(bars[0] * y.imag) + np.sum(bars[1] * h.imag)) / 1e-30, rel=near, abs=near), (k, at)


def test_cotangents_of_what_a_policy_remembers():
    """Of the whole tangent at every state, memory and what is held included: reverse against forward mode, at ends of held decisions too."""
    m, r = inside.Model(os.path.join(inside.ROOT, "examples", "cartpole", "cartpole.xml")), np.random.default_rng(2)
    layers = [DENSE(4), ACT("tanh"), {"kind": "gru", "size": 3}, DENSE(m.nu)]
    policy.attach(m, [{"kind": "qpos"}, {"kind": "qvel"}, {"kind": "last"}], policy.Network(m.nq + m.nv + m.nu, layers, seed=1), every=3)
    assert m.nt == 2 * m.nv + 3 + m.nu

    for steps in (6, 7):
        rollout = inside.Rollout(m, steps)
        rollout.forward(m.move(m.init(), r.standard_normal(m.nt), .3))
        bar, x0, theta = r.standard_normal((steps + 1, m.nt)), r.standard_normal(m.nt), np.zeros(m.ntheta)
        m.param(theta, "policy.0.weight")[:] = r.standard_normal((4, 5))
        by_x0, by_theta, _ = rollout.vjp(x=bar)
        assert by_x0 @ x0 + by_theta @ theta == pytest.approx(np.sum(bar * rollout.jvp(x0=x0, theta=theta)), rel=1e-12)

        # with those of single fields beside it
        both, _, _ = rollout.vjp(x=bar, qvel=bar[:, :m.nv])
        assert both == pytest.approx(by_x0 + rollout.vjp(qvel=bar[:, :m.nv])[0], rel=1e-12)
        bar[2, -1] = np.nan
        with pytest.raises(inside.Error, match="cotangent.*x"):
            rollout.vjp(x=bar)
