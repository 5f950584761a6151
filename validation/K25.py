"""Reverse accumulation through time

Reverse accumulation through time: the dot products of G3."""
import G3


def rows():
    return G3.rows()
