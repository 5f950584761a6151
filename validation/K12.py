"""Pendulum identified from noisy motion

System identification: the pendulum of G1 with noise."""
import G1


def rows():
    return [r for r in G1.rows() if "noise" in r[0]]
