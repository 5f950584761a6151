"""Thrown ball that comes to rest at a target

A ball thrown so that it lies at rest 10 m away after 5 s, found from standstill through bounces, slip and roll."""
import os
import resource

import numpy as np

from common import EXAMPLES, Bench, below, deviation, near, reported, row, slope, values

BALL = os.path.join(EXAMPLES, "ball", "ball.xml")


def restitution(bench):
    """Speed out over speed in of the first bounce of the plain drop, by the energy of the flights around it."""
    run, margin = bench.simulate(BALL, "--steps", 100), 0.00109
    height = run["qpos"][:, 2] - 0.5 - margin
    energy = run["qvel"][:, 2]**2 / 2 + 9.81 * height
    flight = height > 0
    ends = [k for k in range(100) if flight[k] and not flight[k + 1]]
    return float(np.sqrt(energy[ends[1]] / energy[ends[0]])), float(run["qpos"][0, 2] - 0.5)


def rows():
    with Bench() as bench:
        e, drop = restitution(bench)
        spent = lambda: resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        begin = spent()
        best = bench.optimize(os.path.join(EXAMPLES, "ball", "launch.json"))
        seconds = spent() - begin
        cma, adam = (bench.optimize(os.path.join(EXAMPLES, "ball", t + ".json")) for t in ("cmaes", "adam"))
        found = values(best)
        launch = np.concatenate([found["velocity along the ground"], found["velocity upwards"], found["spin"]])
        rng = np.random.default_rng(0)
        weights = rng.standard_normal((2, 6))
        final = lambda v: (lambda r: np.concatenate([r["qpos"][-1, :3], r["qvel"][-1]]))(
            bench.simulate(BALL, "--steps", 500, init={"qvel": v}))
        pulled = bench.gradient(BALL, {"qpos": np.concatenate([weights[0, :3], np.zeros(3)]), "qvel": weights[1]}, "--steps", 500,
                                "--wrt", "qvel", init={"qvel": launch})["qvel"]
        cotangent = np.concatenate([weights[0, :3], weights[1]])
        by_differences = np.array([cotangent @ slope(lambda t: final(launch + t * d), 1e-5) for d in np.eye(6)])
        error = float(np.linalg.norm(pulled - by_differences) / np.linalg.norm(by_differences))
    ratio = abs(launch[4] / launch[0])
    return [
        near(f"restitution on the drop from {drop:.3g} m", e, 0.5, 0.01),
        below("distance from the target [m]", deviation(best["terms"], "place"), 0.01),
        below("velocity and spin left [m/s, rad/s]", deviation(best["terms"], "rest"), 0.01),
        row("Gauss-Newton iterations from standstill", best["iterations"], "<= 88, criterion met", best["met"] and best["iterations"] <= 88),
        reported("processor time of the search and its confirmation, one core [s]", seconds),
        reported("wall time of the search, beside whatever else runs [s]", best["seconds"]),
        row("simulations: CMA-ES / Gauss-Newton", cma["simulations"] / best["simulations"], ">= 10",
            cma["met"] and cma["simulations"] >= 10 * best["simulations"]),
        near("|spin| / |velocity| of the launch [1/m]", ratio, 5.0, 0.005),
        below("distance from the target at a quarter of the step [m]", deviation(best["confirm"]["terms"], "place"), 0.05),
        below("gradient against differences at the launch found", error, 1e-6),
        row("Adam: iterations" + ("" if adam["met"] else " without meeting the criterion"), adam["iterations"], "reported", True),
    ]
