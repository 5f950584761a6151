"""Projected Gauss-Seidel (lcp/include/pullback/pgs.h) on the contacts of a heap of boxes, for the cases about their derivatives."""
import os

import numpy as np

from common import ROOT
import inside

lcp = inside.declarations(inside.build_dir(), "pullback_lcp")
Problem, Options, Report, Call, Bar, AdjointReport = lcp.pbPgs, lcp.pbPgsOptions, lcp.pbPgsReport, lcp.pbPgsCall, lcp.pbPgsBar, lcp.pbPgsAdjointReport


class Heap:
    """Fifty contacts, three rows each; CFM a hundredth of the mean diagonal entry, ERP 0.2."""

    def __init__(self, friction=0.4, step=0.002):
        m = inside.Model(os.path.join(ROOT, "bench/pile.xml"), {"cone": "elliptic"})
        x = m.init()
        for _ in range(200):
            x, _ = m.step(x)
        m.observe(x)
        m.gather()
        take = lambda name: np.array(m.field(name))
        J, M, depth = take("efc_J"), take("M"), take("contact_dist").ravel()
        self.m, v = len(J), x[m.slots["qvel"]]
        A = J @ np.linalg.solve(M, J.T)
        self.A = np.ascontiguousarray(0.5 * (A + A.T) + 0.01 * np.mean(np.diag(A)) * np.eye(self.m))
        self.b = J @ (v + step * np.linalg.solve(M, take("qfrc_smooth").ravel()))
        self.b[::3] += np.where(depth > 0, 1, 0.2) * depth / step
        self.kind = np.tile(np.array([1, 3, 3], np.int32), self.m // 3)
        self.normal = np.repeat(np.arange(0, self.m, 3, dtype=np.int32), 3)
        self.mu = np.full(self.m, friction)
        self.problem = Problem(m=self.m, A=self.A, b=self.b, kind=self.kind, normal=self.normal, mu=self.mu)
        self.lib = lcp
        self.size = self.lib.pbPgs_ImplicitWorkSize(self.m)
        self.work = np.zeros(self.size // 8 + 1)
        self.ctx = self.lib.pbContext_Create(None)

    def _call(self, options):
        return Call(problem=self.problem, options=options, work=self.work, work_size=8 * len(self.work))

    def solve(self, order, cone, sweeps):
        options, report, f = Options(order=order, cone=cone, sweeps=sweeps), Report(), np.zeros(self.m)
        history = np.zeros((sweeps + 1, self.m))
        self.lib.pbPgs_Solve(self.ctx, self._call(options), None, f, history, report)
        return f, history, options, report

    def _bars(self):
        bars = [np.zeros_like(self.A), np.zeros(self.m), np.zeros(self.m), np.zeros(self.m), np.zeros(self.m)]
        return bars, Bar(**dict(zip(("A", "b", "bound", "mu"), bars)))

    def unrolled(self, solved, g):
        _, history, options, report = solved
        bars, out = self._bars()
        self.lib.pbPgs_VjpUnrolled(self.ctx, self._call(options), report, history, g, out)
        return bars

    def implicit(self, solved, g):
        bars, out = self._bars()
        report = AdjointReport()
        self.lib.pbPgs_VjpImplicit(self.ctx, self._call(solved[2]), solved[0], g, out, report)
        return bars, report


def apart(a, b):
    """Largest relative distance of the derivatives by A, b, bounds, friction and the start."""
    return max(float(np.linalg.norm(x - y) / max(np.linalg.norm(x), np.linalg.norm(y), 1e-12)) for x, y in zip(a[:4], b[:4]))
