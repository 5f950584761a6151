"""Arm reaches wherever it is told, by a large network

The same as R4 with 2.1 million weights, as the source had them. The network is asked once in an episode of 500 steps, so its size costs
little beside the physics."""
import kept
import R4
from common import reported

LONG = "ten minutes"
GOES_ON = True  # trainings, in build/


def rows():
    out = R4.judged("R4L", "large")[1]
    sizes = (3, *R4.NETWORKS["large"], 4)
    kept.forget("R4L")
    return [reported("large: weights", sum((a + 1) * b for a, b in zip(sizes, sizes[1:]))), *out]
