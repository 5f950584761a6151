"""A robot and its controller designed together

A quadruped of 40 N m that runs in open loop: a network of 17 952 weights sees sine and cosine of a clock of 1.5 Hz and sets its servos. Adam
along gradients through 8 s of steps of 5 ms, from three seeds: the controller alone, and with it the six unknowns of R7a (lengths of femur and
tibia, radius of the feet, gain of the servos, masses of limbs and trunk), at as many evaluations. The floor is where the feet of each
design stand at the start. What an open loop finds at a time step of 5 ms a quarter of it does not confirm, and less so with a design: the
speeds there stand beside."""
import numpy as np

from common import Bench, reported, row, values
from R7a import DESIGN, quadruped, sets

SEEDS, EVALUATIONS, REACH = (0, 1, 2), 500, 1.5  # each size within this factor of the example's
LAYERS = [{"clock": [1.5]}, {"sum": [[{"dense": 128, "activation": "relu", "gain": 2**0.5}, {"dense": 128, "activation": "relu", "gain": 2**0.5},
                                      {"dense": 8, "init": 0}], [{"dense": 8, "init": 0}]]}]


def design():
    """The unknowns with the parameters that follow, on a scale on which Adam's steps may use up the whole reach."""
    ties = sets()
    ties["femur"]["geom_pos:floor:2"] = "0.4 - z - tibia - radius"
    return [{"name": k, "start": v, "lower": v / REACH, "upper": v * REACH, "transform": "log", "sets": ties[k]} for k, v in DESIGN.items()]


def task(seed, together):
    return {"model": quadruped(), "constants": "recompute", "options": {"timestep": 0.005}, "duration": 8, "gradient": {"decay": -np.log(.95) / .005},
            "policy": {"observe": [{"time": True}], "layers": LAYERS, "output": {"control": True}, "seed": seed},
            "variables": [{"parameter": "policy"}, *(design() if together else [])],
            "loss": [{"name": "speed", "qvel": "root", "components": [0], "type": "linear", "weight": -1, "at": "all", "mean": True}],
            "optimizer": {"method": "adam", "rate": 1e-3, "clip": 1, "iterations": EVALUATIONS}, "confirm": 4, "seed": seed}


def rows():
    out, speeds, finer = [], {}, {}
    with Bench() as bench:
        for together, words in ((False, "controller alone"), (True, "controller and design")):
            found = [bench.optimize(bench.write("task.json", task(seed, together))) for seed in SEEDS]
            speeds[together], finer[together] = (-float(np.mean(x)) for x in ([r["loss"] for r in found], [r["confirm"]["loss"] for r in found]))
            for seed, r in zip(SEEDS, found):
                sizes = "".join(f", {k} {values(r)[k][0]:.3g}" for k in DESIGN) if together else ""
                out.append(reported(f"{words}, seed {seed}{sizes}: {r['gradients']} gradients; at h/4 {-r['confirm']['loss']:.3f} m/s; speed [m/s]",
                                    -r["loss"]))
    gain = speeds[True] / speeds[False]
    return [*out, row(f"mean of the seeds: {speeds[True]:.3f} m/s with a design of its own, by {speeds[False]:.3f}", gain, ">= 1.15", gain >= 1.15),
            reported(f"the same at h/4: {finer[True]:.3f} by {finer[False]:.3f} m/s", finer[True] / finer[False])]
