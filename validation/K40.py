"""Tissue with four muscles

Tissue: a block with four muscles along it, as a tongue or a trunk, clamped at one end. How active each muscle is, from where markers on its skin
are seen; the truth comes from a finer mesh, with noise."""
import json

import numpy as np

from common import Bench, below, row, slope, values
from elements import cube

SIZE = np.array([0.1, 0.04, 0.04])
TRUTH = np.array([0.7, 0.25, 0.45, 0.1])
TISSUE = {"young": 3e4, "poisson": 0.4, "fibre_stiffness": 2e4, "strength": 2e4}
MARKERS = SIZE * [(a, b, c) for a in (.5, 1) for b in (0, 1) for c in (0, .5, 1)]
NOISE = 2e-4  # m


def block(bench, name, cells, activation):
    """Deformables of a block whose quadrants are muscles, fibres along it and slightly twisted about its axis."""
    X, tetrahedra = cube(cells, quadratic=True, moved=0)
    corners, X = X[tetrahedra[:, :4]].mean(1), X * SIZE
    energies = []
    for q in range(4):
        mine = (corners[:, 1] > .5).astype(int) + 2 * (corners[:, 2] > .5) == q
        at = corners[mine] - .5
        fibre = np.stack([np.ones(len(at)), -.6 * at[:, 2], .6 * at[:, 1]], 1)
        energies.append({"energy": "muscle", "name": f"muscle{q}", "on": tetrahedra[mine].tolist(),
                         "parameters": {**TISSUE, "activation": float(activation[q]), "fibre": {"each": fibre.tolist()}}})
    sets = {f"m{k}": {"nearest": m.tolist()} for k, m in enumerate(MARKERS)}
    body = {"name": "block", "mesh": {"points": X.tolist(), "tetrahedra10": tetrahedra.tolist()}, "mass": 0.15, "sets": sets,
            "pins": [{"points": {"box": [[None, None, None], [0, None, None]]}}], "energies": energies}
    bench.write(name, {"options": {"timestep": 0.01, "gravity": [0, 0, 0]}, "deformables": {"scheme": "static", "bodies": [body]}, "steps": 1})
    return X


def seen(bench, name, X):
    """Where the markers are in equilibrium."""
    points = bench.simulate(name, "--steps", 1)["points"][-1].reshape(-1, 3)
    return np.array([points[np.argmin(np.sum((X - m)**2, 1))] for m in MARKERS])


def fit(bench, task, target):
    task = {**task, "variables": [{"name": f"a{q}", "parameter": f"block_muscle{q}.activation", "start": 0.3, "lower": 0, "upper": 1} for q in range(4)],
            "loss": [{"name": f"m{k}", "points": f"block_m{k}", "target": t.tolist()} for k, t in enumerate(target)],
            "optimizer": {"method": "gauss-newton", "iterations": 30}, "stop": {"loss": 1e-16}}
    result = bench.optimize(bench.write("fit.json", task))
    return np.array([values(result)[f"a{q}"][0] for q in range(4)]), result


def rows():
    with Bench() as bench:
        X = block(bench, "truth.json", (9, 6, 6), TRUTH)
        clean = seen(bench, "truth.json", X)
        moved = np.linalg.norm(clean - MARKERS, axis=1).max()
        coarse = block(bench, "coarse.json", (6, 4, 4), [.3] * 4)
        with open(bench.path("coarse.json"), encoding="utf-8") as f:
            task = json.load(f)
        found, result = fit(bench, task, clean)
        rng = np.random.default_rng(8)
        noisy = [fit(bench, task, clean + NOISE * rng.normal(size=clean.shape))[0] for _ in range(2)]
        # the gradient of a marker's place by each activation
        tip, n = np.argmin(np.sum((coarse - MARKERS[-1])**2, 1)), len(coarse)
        cotangent = np.zeros((n, 3))
        cotangent[tip] = [1, 2, -1]
        g = bench.gradient("coarse.json", {"points": cotangent.ravel()}, "--steps", 1, "--wrt",
                           ",".join(f"block_muscle{q}.activation" for q in range(4)))
        worst = 0
        for q in range(4):
            name = f"block_muscle{q}.activation"
            place = lambda s: bench.simulate("coarse.json", "--steps", 1, params={name: [.3 + s]})["points"][-1].reshape(-1, 3)[tip] @ [1, 2, -1]
            by = float(slope(place, 1e-3))
            worst = max(worst, abs(float(g[f"param/{name}"][0]) / by - 1))
    return [
        row("farthest a marker moves, over the length of the block", moved / SIZE[0], "reported", True),
        below("gradient of the tip by the activations against differences, relative", worst, 1e-6),
        below("activations .7 .25 .45 .1 from markers of a finer mesh: worst distance, of full activation", np.abs(found - TRUTH).max(), 0.02),
        row("... simulations", result["simulations"], "reported", True),
        below(f"... with noise of {NOISE * 1e3:g} mm, twice: worst distance", np.abs(np.array(noisy) - TRUTH).max(), 0.02),
    ]
