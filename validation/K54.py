"""Derivatives of projected Gauss-Seidel, unrolled and implicit

Derivatives through all sweeps and at the fixed point: the same at convergence, two things when stopped early."""
import numpy as np

from common import below, row
import pgs

ORDERS = [("Gauss-Seidel, boxes", 0, False), ("Gauss-Seidel, cones", 0, True), ("Jacobi, boxes", 1, False)]


def rows():
    heap, out = pgs.Heap(), []
    g = np.random.default_rng(0).standard_normal(heap.m)
    for name, order, cone in ORDERS:
        early = []
        for count in (5, 20, 80, 320):
            solved = heap.solve(order, cone, count)
            early.append(f"{count}: {pgs.apart(heap.unrolled(solved, g), heap.implicit(solved, g)[0]):.1e}")
        count = 20000
        solved = heap.solve(order, cone, count)
        unrolled, (implicit, report) = heap.unrolled(solved, g), heap.implicit(solved, g)
        out += [
            row(f"{name}: unrolled and implicit apart, relative, by sweeps", ", ".join(early), "reported", True),
            below(f"{name}: fixed point after {count} sweeps, residual", solved[3].residual, 1e-11),
            below(f"{name}: unrolled and implicit apart there, relative ({report.free} rows free, {report.held} held, {report.tied} "
                  "at friction's bound)", pgs.apart(unrolled, implicit), 1e-8),
            below(f"{name}: what is left there of the derivative by the start", float(np.abs(unrolled[4]).max()), 1e-8),
        ]
    return out
