"""Arm reaches wherever it is told, by a large network

The same as R4 with 2.1 million weights, as the source had them. The network is asked once in a run of 800 steps, so its size costs
little beside the physics. Measured here is the beginning of its run alone; R4.told(R4.Told("large")) is the whole, an hour or more."""
import R4
from common import below, reported

LONG = "two minutes"
PART, TESTED, LIMIT = 60, 512, .3  # updates, places; of the error of the network as drawn


def rows():
    drawn, learnt = R4.short(PART, TESTED, "large")
    part = f"a part of its run, {PART} of {R4.UPDATES} updates"
    return [reported(f"large, {part}: mean error on {TESTED} places before and after, m", f"{drawn:.3g}, {learnt:.3g}"),
            below(f"large, {part}: mean error by that before", learnt / drawn, LIMIT)]
