"""Penalty contact from soft to stiff

Penalty contact from soft to stiff in one scene: it converges to rigid contact, and steps must be short."""
import numpy as np

from common import Bench, apart, below, near, row

H, T, G, MASS = 2e-5, 1.0, 9.81, 2.0
# A cart without friction on the ground, a pendulum on it; rigid: the cart cannot sink.
CART = """<mujoco><option timestep="{}"/><worldbody><geom type="plane" size="0 0 1" condim="1" contype="2" conaffinity="2"/><body pos="0 0 .1"><joint type="slide" axis="1 0 0"/>
{}<geom size=".1" mass="1" condim="1" contype="2" conaffinity="2"/><body><joint axis="0 1 0"/><geom size=".05" pos="0 0 -.5" mass="1" contype="0" conaffinity="0"/>
</body></body></worldbody></mujoco>"""
BALL = """<mujoco><option timestep="{}" integrator="{}"/><worldbody><geom type="plane" size="0 0 1" condim="1"/><body pos="0 0 .1"><joint type="slide" axis="0 0 1"/>
<geom size=".1" mass="2" condim="1"/></body></worldbody></mujoco>"""
RAIL = '<joint type="slide" axis="0 0 1"/>'


def settings(k, c, width):
    words = []
    for setting in ("method=penalty", f"stiffness={k}", f"damping={c}", f"width={width}"):
        words += ["--contact", setting]
    return words


def cart(bench, k):
    """Position of the cart and angle at T, and their gradient by the angle and its rate at the start; k: None for rigid."""
    path, steps = bench.write("cart.xml", CART.format(H, RAIL if k else "")), round(T / H)
    words = [] if k is None else settings(k, 1.4 * np.sqrt(k * MASS), 0.05 * MASS * G / k)
    q0 = [0.0, 0.5] if k is None else [0.0, -MASS * G / k, 0.5]
    init = {"qpos": q0, "qvel": np.zeros(len(q0))}
    run = bench.simulate(path, "--steps", steps, *words, init=init)
    pick = [0, len(q0) - 1]
    bar = np.zeros(len(q0))
    bar[pick] = 1, 1
    g = bench.gradient(path, {"qpos": bar}, "--steps", steps, *words, init=init)
    return run["qpos"][-1, pick], np.array([g["qpos"][-1], g["qvel"][-1]])


def grows(bench, integrator, h, k, c):
    """Does a small displacement from rest grow?"""
    rest = -MASS * G / k
    run = bench.simulate(bench.write("ball.xml", BALL.format(h, integrator)), "--steps", 3000, *settings(k, c, -1e-4 * rest),
                         init={"qpos": [rest * (1 - 1e-6)], "qvel": [0.0]})
    return abs(run["qpos"] / rest - 1).max() > 1e-3


def rows():
    out, ks = [], [10.0**n for n in range(3, 10)]
    with Bench() as bench:
        q_hard, g_hard = cart(bench, None)
        errors = []
        for k in ks:
            q, g = cart(bench, k)
            errors.append([apart(q, q_hard), apart(g, g_hard)])
        errors = np.array(errors)
        order = np.log10(errors[:-1] / errors[1:])
        for k, e in zip(ks, errors):
            out.append(row(f"k = {k:.0e} N/m: position and gradient against rigid contact, relative", f"{e[0]:.2e}, {e[1]:.2e}", "reported", True))
        for i, what in enumerate(("position", "gradient")):
            worst = order[1:, i][np.argmax(abs(order[1:, i] - 1))]
            out.append(near(f"{what}: order in 1 / k from 1e4 to 1e9, the worst of five", worst, 1, 0.1))
        wrong = tried = 0
        for k in ks:
            for ratio in (0.0, 0.2, 2.0):  # damping, critical: 1
                c = 2 * ratio * np.sqrt(k * MASS)
                limit = 4 * MASS / (c + np.sqrt(c * c + 4 * k * MASS))
                for integrator in ("Euler", "implicitfast"):
                    wrong += grows(bench, integrator, 0.99 * limit, k, c) + (not grows(bench, integrator, 1.01 * limit, k, c))
                    tried += 2
        out.append(below(f"runs of {tried} that grow 1 % below the step limit 4 m / (c + sqrt(c^2 + 4 k m)), or not 1 % above it", wrong, 0))
        out.append(row("step limit of 2 kg without damping at k = 1e3 and 1e9 [s]", ", ".join(f"{2 * np.sqrt(MASS / k):.2e}" for k in (1e3, 1e9)), "reported", True))
    return out
