"""Discs in the plane: their model, and what one collision of two of them does, in closed form."""
import numpy as np

from chain import PLANAR


def model(discs, h, restitution=0.5, friction=0.9, gravity="0 0 0"):
    """discs: (name, place, radius, groups it belongs to and meets); mass 1, inertia r^2 / 2."""
    body = ('<body name="{0}" pos="{1} {2} 0">' + PLANAR + '<inertial pos="0 0 0" mass="1" diaginertia="{4} {4} {4}"/><geom name="{0}" type="sphere" size="{3}" '
            'contype="{5}" conaffinity="{5}"/></body>')
    bodies = "".join(body.format(name, *place, radius, radius**2 / 2, group) for name, place, radius, group in discs)
    return (f'<mujoco><option timestep="{h!r}" gravity="{gravity}" cone="elliptic"/><default><geom friction="{friction} 0 0" condim="3"/></default><worldbody>'
            f'{bodies}</worldbody></mujoco>'), ("--contact", f"restitution={restitution}", "--contact", "mixing=mean")


def collide(v1, w1, v2, w2, n, radius, e, mu):
    """Velocities and spins after the collision; n: unit vector from 1 to 2. Works for complex numbers (derivatives)."""
    t = np.array([-n[1], n[0]])
    u = v2 - v1 - radius * (w1 + w2) * t
    normal = -(1 + e) * (u @ n) / 2
    tangent = -(u @ t) / 6  # both masses 1, both inertias r^2 / 2
    if abs(tangent.real) > mu * normal.real:
        tangent = mu * normal * np.sign(tangent.real)
    p = normal * n + tangent * t
    spin = -radius * tangent * 2 / radius**2  # of either: r x p / I has the same sign on both
    return v1 - p, w1 + spin, v2 + p, w2 + spin
