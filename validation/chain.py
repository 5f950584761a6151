"""A chain of links in the plane, free bodies held together by joints as constraints, and a ball thrown at it (lcp-physics, experiments/inference.py).

Lengths are in pixels (one pixel is one metre of the model), y points down. A body slides along x and y and turns about z."""
import numpy as np

H = 1 / 30
WIDTH, LENGTH, PITCH, TOP, X = 20, 60, 50, 30, 300  # links overlap by LENGTH - PITCH; the first hangs from (X, TOP)
BALL, START, PUSH, PUSH_STEPS = 20, (50, 500), 1500, 3  # radius, place, force along x while t < 0.1
GRAVITY, FRICTION = 100, 0.9
PLANAR = '<joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 1 0"/><joint type="hinge" axis="0 0 1"/>'


def link_inertia(mass, width=WIDTH, length=LENGTH):
    return mass * (width**2 + length**2) / 12


def model(masses, ball=True, h=H):
    """Links from the top; gravity does not act on the first one, nor on the ball. The ball meets links, links meet nothing else."""
    bodies, joints = [], []
    for i, m in enumerate(masses):
        y, inertia = TOP + PITCH * i + 20, link_inertia(m)  # only turns about z count
        bodies.append(f'<body name="link{i}" pos="{X} {y} 0" gravcomp="{int(i == 0)}">{PLANAR}<inertial pos="0 0 0" mass="{m!r}" diaginertia="{inertia} '
                      f'{inertia} {inertia}"/><geom name="link{i}" type="box" size="{WIDTH / 2} {LENGTH / 2} 10" contype="1" conaffinity="0"/></body>')
        joints.append(f'<connect name="joint{i}" body1="link{i}" anchor="0 {TOP - 50 if i == 0 else -25} 0"' + (f' body2="link{i - 1}"' if i else "") + "/>")
    if ball:
        bodies.append(f'<body name="ball" pos="{START[0]} {START[1]} 0" gravcomp="1">{PLANAR}<inertial pos="0 0 0" mass="1" diaginertia="{BALL**2 / 2} {BALL**2 / 2} {BALL**2 / 2}"/>'
                      f'<geom name="ball" type="sphere" size="{BALL}" contype="0" conaffinity="1"/></body>')
    return (f'<mujoco><option timestep="{h!r}" gravity="0 {GRAVITY} 0" cone="elliptic"/><default><geom friction="{FRICTION} 0 0" condim="3"/></default>'
            f'<worldbody>{"".join(bodies)}</worldbody><equality>{"".join(joints)}</equality></mujoco>')
