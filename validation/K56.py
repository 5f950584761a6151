"""A derivative of one's own is checked when it is registered

A controller of a user's (here in Python, called from the steps of the engine): two gains on two observations and a leaking memory, with
its own pullback. The right one becomes part of a model and its gradient is that of the closed loop; with one mistake at a time it is
refused by name before anything runs with it."""
import os

import numpy as np

from common import EXAMPLES, below, inside, row, slope
import policy

L = inside.native
MISTAKES = {
    "overwrites instead of adding": "pull writes over o_bar",
    "wrong sign": "its sign is wrong",
    "forgets the memory's cotangent": "of the memory after by the memory",
    "a global counter": "keeps state between calls",
    "state in the working memory": "depends on what its working memory held before",
    "reads another world's column": "depends on the other columns",
    "writes NaN": "not finite at 4 of 4 points",
    "writes to its input": "writes to its input",
}


class Mine:
    """out = tanh(p0 o0 + p1 o1 + m), m' = 0.9 m + o0."""

    def __init__(self, mistake=None):
        self.mistake, self.calls, self.start = mistake, 0, np.array([-.3, -.2])
        self.slice = L.pbPolicySlice(name="gain", rows=1, cols=2, start=self.start)
        self.function = L.pbPolicyFunction(name="mine", observations=2, outputs=1, memory=1, slice=self.slice, slices=1,
                                           **{n: getattr(self, n) for n in ("work_bytes", "forward", "pull")})

    def is_(self, mistake):
        return self.mistake == mistake

    @staticmethod
    def sum(p, o, m):
        return p[0] * o[0] + p[1] * o[1] + m  # not p @ o: its bits depend on how many columns there are

    @staticmethod
    def work_bytes(_, batch):
        return 8 * batch

    def forward(self, _, n, p, o, m, out, m_next, work):
        p, o, m, out, m_next = L.array(p, 2), L.array(o, 2, n), L.array(m, n), L.array(out, n), L.array(m_next, n)
        self.calls += 1
        seen = o[:, ::-1] if self.is_("reads another world's column") else o
        out[:] = np.tanh(self.sum(p, seen, m)) + 1e-6 * self.calls * self.is_("a global counter")
        m_next[:] = .9 * m + o[0]
        if self.is_("state in the working memory"):
            out += L.array(work, n)
        if self.is_("writes NaN"):
            out[:] = np.nan
        if self.is_("writes to its input"):
            o[0] = 0
        return L.pb_ok

    def pull(self, _, n, p, o, m, out_bar, m_next_bar, o_bar, m_bar, p_bar, *rest):
        p, o, m, out_bar, m_next_bar, o_bar, m_bar = L.array(p, 2), L.array(o, 2, n), L.array(m, n), L.array(out_bar, n), L.array(m_next_bar, n), \
            L.array(o_bar, 2, n), L.array(m_bar, n)
        inside = out_bar * (1 - np.tanh(self.sum(p, o, m)) ** 2)
        if self.is_("overwrites instead of adding"):
            o_bar[:] = 0
        o_bar += (-1 if self.is_("wrong sign") else 1) * np.outer(p, inside)
        o_bar[0] += m_next_bar
        m_bar += inside + (0 if self.is_("forgets the memory's cotangent") else .9 * m_next_bar)
        if p_bar:
            L.array(p_bar, 2)[:] += o @ inside
        return L.pb_ok


def model_with(mine):
    m = inside.Model(os.path.join(EXAMPLES, "cartpole", "cartpole.xml"))
    mine.ptr = None
    policy.attach(m, [{"kind": "qpos", "object": "hinge"}, {"kind": "qvel", "object": "hinge"}], mine)
    return m


def refused(mistake):
    try:
        model_with(Mine(mistake))
    except inside.Error as error:
        return str(error).split("policy 'mine': ")[-1]
    return "accepted"


def rows():
    mine = Mine()
    m = model_with(mine)
    rollout, start, bar = inside.Rollout(m, 100), m.init(), np.array([0., 1.])
    start[m.slots["qpos"]][1] = .4
    first = m.params["policy.gain"].offset

    def angle(t):
        theta = m.theta.copy()
        theta[first:first + 2] += t * np.array([.6, -.8])
        return rollout.forward(start, theta=theta)[m.slots["qpos"]][1]
    angle(0)
    found = rollout.vjp(qpos=bar)[1][first:first + 2] @ [.6, -.8]
    out = [below("the right one: gradient by its gains through 100 steps against differences, relative", abs(found / slope(angle, 1e-3) - 1), 1e-6)]
    for mistake, said in MISTAKES.items():
        text = refused(mistake)
        out.append(row(f"{mistake}: refused", text, f"says '{said}'", said in text))
    return out
