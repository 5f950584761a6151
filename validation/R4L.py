"""Arm reaches wherever it is told, by a large network

The same as R4 with 2.1 million weights, as the source had them. The network is asked once in a run of 800 steps, so its size costs
little beside the physics."""
import R4

LONG = "an hour or more"


def rows():
    return R4.told(R4.Told("large"))
