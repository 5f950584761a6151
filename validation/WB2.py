"""A published humanoid does a backflip, by plans made again and again

Unitree's G1 of 29 joints as case WB1 has it, with its published limits of torque, in MuJoCo's own step of 5 ms with its own
contacts: it crouches, leaps, turns backwards once in the air, lands and stands (bench/backflip.py). The first .72 s were found
by iLQR before (bench/plans/backflip.npz), from postures and the momentum that a leap needs, with smooth contacts first; plans
of a quarter of a second, made every 10 ms from the state that is reached, follow it, and after touchdown those of WB1 make it
stand. Time of an iteration beside that of differences of MuJoCo's step (mjd_transitionFD), which the same plan would need.
Where the package is not installed (make bench-whole-body) nothing is measured."""
import os
import sys

from common import reported, row, timing

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "bench"))
import backflip  # noqa: E402


def rows():
    if not backflip.package():
        return [reported("the humanoid", "not here: make bench-whole-body installs it")]

    out = []
    for quantity, measured, required, kept in backflip.rows_of(backflip.kept_motion()):
        if kept is None:
            out.append(reported(quantity, measured))
        else:
            out.append((timing if quantity.startswith("time ") else row)(quantity, measured, required, bool(kept)))
    return out
