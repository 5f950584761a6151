"""A published humanoid stands under pushes, by plans made again and again

Unitree's G1 of 29 joints as mjlab publishes it, its file and meshes unchanged, with that package's servos, limits of torque and friction
of the feet: 33 kg, 70 numbers of state, 29 controls, 28 points of contact at rest (bench/whole_body.py). A velocity is added to the whole
robot from eight directions; plans of half a second in steps of 20 ms, one iteration of iLQR each, through contacts as MuJoCo has them,
keep it standing in MuJoCo's own step of 5 ms. Beside it the same iLQR with differences of MuJoCo's step (mjd_transitionFD), on the same
problem: time of an iteration and what both come to. Where the package is not installed (make bench-whole-body) nothing is measured."""
import os
import sys

from common import reported, row, timing

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "bench"))
import whole_body  # noqa: E402

SPEED, DIRECTIONS, ITERATIONS = .4, 8, 6


def rows():
    if not whole_body.package():
        return [reported("the humanoid", "not here: make bench-whole-body installs it")]

    out = []
    for quantity, measured, required, kept in [*whole_body.pushed_rows(SPEED, DIRECTIONS, True), *whole_body.compare_rows(SPEED, ITERATIONS)]:
        if kept is None:
            out.append(reported(quantity, measured))
        else:
            out.append((timing if quantity.startswith("time ") else row)(quantity, measured, required, kept))
    return out
