"""Discrete and continuous adjoint

The discrete adjoint is the exact derivative of the program, and tends to the continuous one at the integrator's order."""
import os

import numpy as np
from scipy.integrate import solve_ivp

from common import EXAMPLES, Bench, below, row
import G3

PENDULUM = os.path.join(EXAMPLES, "pendulum", "pendulum.xml")
LENGTH, GRAVITY, DAMPING, END = 1.7, 9.81, 0.15, 2.0


def continuous():
    """d(angle at END)/d(initial angle) by the adjoint equation, backward along the exact solution."""
    inertia = LENGTH**2 + 1e-6
    f = lambda t, y: [y[1], -GRAVITY * LENGTH / inertia * np.sin(y[0]) - DAMPING / inertia * y[1]]
    tight = dict(rtol=1e-13, atol=1e-15, method="DOP853")
    ahead = solve_ivp(f, (0, END), [0.5, 0], dense_output=True, **tight).sol
    back = lambda t, p: [GRAVITY * LENGTH / inertia * np.cos(ahead(t)[0]) * p[1], -p[0] + DAMPING / inertia * p[1]]
    return solve_ivp(back, (END, 0), [1, 0], **tight).y[0, -1]


def rows():
    out, exact = [], continuous()
    with Bench() as bench:
        for integrator, wanted, sizes in (("Euler", 1, [0.004, 0.002, 0.001]), ("RK4", 4, [0.04, 0.02, 0.01])):
            gaps = []
            for h in sizes:
                g = bench.gradient(PENDULUM, {"qpos": np.ones(1)}, "--steps", round(END / h), "--wrt", "qpos", init={"qpos": [0.5]},
                                   options={"timestep": h, "integrator": integrator})
                gaps.append(abs(g["qpos"][0] - exact))
            order = np.log2(gaps[0] / gaps[-1]) / (len(sizes) - 1)
            out.append(row(f"{integrator}: order of the gap of the discrete adjoint to the continuous one ({', '.join(f'{x:.2g}' for x in gaps)})",
                           order, f"{wanted} +- 0.15", abs(order - wanted) <= 0.15))
    worst = max(G3.gap(p, 50, 1, {"integrator": i}) for p in (PENDULUM, os.path.join(EXAMPLES, "hopper", "hopper.xml"))
                for i in ("Euler", "implicitfast", "RK4"))
    out.append(below("discrete adjoint against forward differentiation of the program, three integrators, relative", worst, 1e-12))
    return out
