"""Derivatives of complementarity problems

Derivatives of a complementarity problem's solution by all of its data: exact values, and what a missing transpose would give."""

import numpy as np

from common import below, row
import inside

lib = inside.declarations(inside.build_dir(), "pullback_lcp")
Lcp, Solution, Cotangent, Bar = lib.pbLcp, lib.pbLcpSolution, lib.pbLcpCotangent, lib.pbLcpBar


def derivatives(data, g):
    """Solution, and the derivatives of g . x by Q, p, G, h, F, A, b."""
    data = {k: np.ascontiguousarray(data[k], float) for k in ("Q", "p", "G", "h", "F", "A", "b")}
    n, m, e = len(data["p"]), len(data["h"]), len(data["b"])
    ctx = lib.pbContext_Create(None)
    problem = Lcp(n=n, m=m, e=e, **data)
    at = {k: np.zeros(size) for k, size in zip("xyzs", (n, e, m, m))}
    solution, bar = Solution(**at), {k: np.zeros_like(v) for k, v in data.items()}
    size = lib.pbLcp_WorkSize(n, m, e)
    work = np.zeros(size, np.uint8)
    lib.pbLcp_Solve(ctx, problem, None, work, size, solution, None)
    lib.pbLcp_Vjp(ctx, problem, solution, Cotangent(x=np.ascontiguousarray(g, float)), work, size, Bar(**bar), None)
    lib.pbContext_Destroy(ctx)
    return at, bar


def untransposed(data, at, g):
    """dp where the adjoint system has F in place of its transpose."""
    n, m, e = len(data["p"]), len(data["h"]), len(data["b"])
    K = np.block([[np.array(data["Q"], float), np.array(data["G"], float).T, np.reshape(data["A"], (e, n)).T],
                  [np.array(data["G"], float), -(np.diag(at["s"][:m] / at["z"][:m]) + np.array(data["F"], float)), np.zeros((m, e))],
                  [np.reshape(data["A"], (e, n)), np.zeros((e, m)), np.zeros((e, e))]])
    return -np.linalg.solve(K, np.concatenate([g, np.zeros(m + e)]))[:n]


def apart(got, wanted):
    return float(np.max(np.abs(np.array(got) - np.array(wanted, float))))


def rows():
    eye, none = np.eye(2), np.zeros((0, 2))
    plain = dict(Q=eye, p=[-1.7, -3.1], G=eye, h=[.53, 1.69], F=[[.2, .3], [.05, .25]], A=none, b=[])
    at, bar = derivatives(plain, [1, 1])
    out = [below("friction matrix: x, z against their exact values", max(apart(at["x"], [1, 2]), apart(at["z"], [.7, 1.1])), 1e-12),
           below("friction matrix: dp against (-19/99, -13/33)", apart(bar["p"], [-19 / 99, -13 / 33]), 1e-12),
           below("friction matrix: dh against (80/99, 20/33)", apart(bar["h"], [80 / 99, 20 / 33]), 1e-12),
           below("friction matrix: dF against its exact values", apart(bar["F"], [[56 / 99, 8 / 9], [14 / 33, 2 / 3]]), 1e-12)]
    wrong = untransposed(plain, at, [1, 1])
    out += [below("the adjoint without the transpose gives (-107/297, -67/297)", apart(wrong, [-107 / 297, -67 / 297]), 1e-12),
            row("... and is this far from dp", apart(wrong, bar["p"]), "> 0.1", apart(wrong, bar["p"]) > 0.1)]
    held = dict(plain, Q=[[2, 1], [1, 3]], p=[-26 / 5, -43 / 5], A=[[1, 1]], b=[3])
    at, bar = derivatives(held, [1, 0])
    out += [below("with an equality: x, y, z", max(apart(at["x"], [1, 2]), apart(at["y"], [.5]), apart(at["z"], [.7, 1.1])), 1e-12),
            below("with an equality: dp against (-7, 7)/181", apart(bar["p"], np.array([-7, 7]) / 181), 1e-12),
            below("with an equality: dh against (60, -100)/181", apart(bar["h"], np.array([60, -100]) / 181), 1e-12),
            below("with an equality: db against 114/181", apart(bar["b"], [114 / 181]), 1e-12),
            below("with an equality: dA against (-235, -449)/362", apart(bar["A"], np.array([[-235, -449]]) / 362), 1e-12)]
    at, bar = derivatives(dict(Q=[[1]], p=[-2], G=[[1]], h=[1], F=[[0]], A=np.zeros((0, 1)), b=[]), [1])
    out.append(below("one row: dG, dh, dF against -1, 1, 1", max(apart(bar["G"], [[-1]]), apart(bar["h"], [1]), apart(bar["F"], [[1]])), 1e-12))
    return out
