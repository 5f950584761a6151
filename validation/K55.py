"""Memory of derivatives of projected Gauss-Seidel

Memory of both derivatives of projected Gauss-Seidel with 10 and with 1000 sweeps."""
import numpy as np

from common import below, row
import pgs


def rows():
    heap = pgs.Heap()
    g = np.random.default_rng(0).standard_normal(heap.m)
    kept, implicit, apart = {}, {}, {}
    for count in (10, 1000):
        solved = heap.solve(0, False, count)
        kept[count] = 8 * heap.lib.pbPgs_HistorySize(heap.m, count) + heap.lib.pbPgs_WorkSize(heap.m)
        heap.work[:] = np.nan
        heap.implicit(solved, g)
        implicit[count] = 8 * (int(np.nonzero(~np.isnan(heap.work))[0].max()) + 1)  # the last byte that was written
        apart[count] = pgs.apart(heap.unrolled(solved, g), heap.implicit(solved, g)[0])
    return [
        row("unrolled, memory with 10 and 1000 sweeps [bytes]", f"{kept[10]}, {kept[1000]}", "reported", True),
        row("implicit, memory touched with 10 and 1000 sweeps [bytes]", f"{implicit[10]}, {implicit[1000]}", "reported", True),
        below("implicit, memory touched with 1000 by that with 10 sweeps", implicit[1000] / implicit[10], 1.05),
        row("unrolled and implicit apart with 10 and 1000 sweeps", f"{apart[10]:.1e}, {apart[1000]:.1e}", "reported", True),
    ]
