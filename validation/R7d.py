"""From how many parameters a gradient pays

The thrown ball with 1 to 48 launch parameters: cost of Gauss-Newton against CMA-ES with its step size tuned, and where they cross.
Up to six parameters are velocity and spin of the launch, beyond them knots of a force on the way. The goal is the same for all: within 1 cm of a
place 10 m away and 1 m aside after 5 s (of one parameter: 10 m away). CMA-ES has the best of three step sizes for each number of parameters, by
the median of three seeds, and at most 1 200 simulations a run; costs are simulations, a Jacobian counting as many as its processor time is worth."""
import os

import numpy as np

from common import EXAMPLES, Bench, reported, row, spent
from tasks import Task

SIZES, SIGMAS, SEEDS, MOST = (1, 2, 3, 6, 12, 48), (1, 3, 10), (1, 2, 3), 1200


def model():
    with open(os.path.join(EXAMPLES, "ball", "ball.xml"), encoding="utf-8") as f:
        text = f.read()
    motors = "".join(f'<general name="f{k}" joint="root" gear="{" ".join("1" if i == k else "0" for i in range(6))}"/>' for k in range(3))
    return text.replace("</mujoco>", f"<actuator>{motors}</actuator></mujoco>")


def task(n, **more):
    launch = [0, 1, 4, 3, 5, 2][:n]  # velocities along the ground first, upwards last
    variables = [{"name": "launch", "state": "qvel", "joint": "root", "components": launch}]
    if n > 6:
        variables.append({"name": "force", "control": True, "knots": (n - 6) // 3, "interpolation": "linear", "scale": 300})
    place = {"components": [0, 1], "target": [10, 1]} if n > 1 else {"components": [0], "target": [10]}  # one velocity leads along one line
    return {"model": model(), "duration": 5, "variables": variables, "loss": [{"name": "place", "body": "ball"} | place],
            "stop": {"terms": {"place": 0.01}}, "options": {"timestep": 0.01}} | more


def worth(n):
    """Processor time of a Jacobian, the simulation before it included, by that of a simulation."""
    t = Task(task(n))
    z = t.start + 0.1 * np.arange(1, t.n + 1)
    moved = iter(np.linspace(0, 1e-6, 100))  # the Jacobian at a point just simulated would be without its simulation
    once = lambda f: min(spent(lambda: [f() for _ in range(5)]) for _ in range(5))
    return once(lambda: t.residuals(z + next(moved), True)) / once(lambda: t.residuals(z))


def searched(bench, n):
    """Cost of the best step size of CMA-ES: (median simulations, step size, how many of its runs met the goal)."""
    found = []
    for sigma in SIGMAS:
        runs = []
        for seed in SEEDS:
            method = {"method": "cmaes", "sigma": sigma, "iterations": MOST // (4 + int(3 * np.log(n)))}
            r = bench.optimize(bench.write("cma.json", task(n, optimizer=method, seed=seed)))
            runs.append(r["simulations"] if r["met"] else np.inf)
        found.append((float(np.median(runs)), sigma, sum(map(np.isfinite, runs))))
    return min(found)


def rows():
    out, ahead = [], []
    with Bench() as bench:
        for n in SIZES:
            best = bench.optimize(bench.write("gn.json", task(n, optimizer={"method": "gauss-newton", "iterations": 200})))
            cost = best["simulations"] + best["gradients"] * (worth(n) - 1)
            search, sigma, met = searched(bench, n)
            ahead.append(best["met"] and cost < search)
            out.append(reported(f"{n} parameters: Gauss-Newton {best['simulations']} simulations and {best['gradients']} Jacobians, worth "
                                f"{cost:.0f}{'' if best['met'] else ' (goal not met)'}; CMA-ES (sigma {sigma:g}, {met} of 3 met), simulations",
                                search if np.isfinite(search) else f"more than {MOST}"))
    first = next((SIZES[k] for k in range(len(SIZES)) if all(ahead[k:])), np.inf)
    out.append(row("parameters from which on the gradient costs less", first, "<= 6", first <= 6))
    return out
