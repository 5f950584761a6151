"""Smooth penalty contact

Smooth penetration forces (method penalty): a twice differentiable law, rest at weight over stiffness, no jump at contact."""
import numpy as np

from common import Bench, below
import inside

MASS, G, C, H = 2.0, 9.81, 40.0, 0.001
BALL = """<mujoco><option timestep="{}" integrator="{}"/><worldbody><geom type="plane" size="0 0 1"/><body pos="0 0 .1"><joint type="slide" axis="0 0 1"/>
<geom size=".1" mass="{}" condim="3"/></body></worldbody></mujoco>"""


def model(path, k, width):
    return inside.Model(path, contact={"method": "penalty", "stiffness": k, "damping": C, "width": width})


def step(m, height, speed):
    """Next state, and the Jacobian of the step."""
    x, _, record = m.step_recorded(m.state([height], [speed], []), [])
    A = np.array([m.vjp(record, next_bar=w)["x"] for w in np.eye(2)])
    return x[m.slots["qvel"]][0], A


def rest_gradient(m, height, field, entry=0):
    """Derivative of the height at rest: (1 - A) dx = df/dp."""
    _, _, record = m.step_recorded(m.state([height], [0], []), [])
    bars = [m.vjp(record, next_bar=w) for w in np.eye(2)]
    A = np.array([b["x"] for b in bars])
    return np.linalg.solve(np.eye(2) - A, [m.param(b["theta"], field).ravel()[entry] for b in bars])[0]


def rows():
    out, worst = [], dict.fromkeys(("height", "body_mass", "contact_stiffness", "gravity"), 0.0)
    with Bench() as bench:
        for integrator in ("Euler", "implicitfast", "RK4"):
            path = bench.write("ball.xml", BALL.format(H, integrator, MASS))
            for k in (1e3, 1e4, 1e5):
                rest = -MASS * G / k
                words = "--contact", "method=penalty", "--contact", f"stiffness={k}", "--contact", f"damping={C}", "--contact", f"width={-rest / 5}"
                z = bench.simulate(path, *words, "--steps", 20000)["qpos"][-1, 0]
                worst["height"] = max(worst["height"], abs(z / rest - 1))
                m = model(path, k, -rest / 5)
                for field, entry, truth in (("body_mass", 1, -G / k), ("contact_stiffness", 0, MASS * G / k**2), ("gravity", 2, MASS / k)):
                    worst[field] = max(worst[field], abs(rest_gradient(m, z, field, entry) / truth - 1))
        k, w = 2e4, 1e-3
        m = model(bench.write("ball.xml", BALL.format(H, "Euler", MASS)), k, w)
    out += [below("height at rest against m g / k, relative, k from 1e3 to 1e5, three integrators", worst["height"], 1e-9)]
    out += [below(f"its gradient by {f} against the closed form, relative", worst[f], 1e-9) for f in ("body_mass", "contact_stiffness", "gravity")]
    force = jump = 0.0
    for v in (-2.0, -0.1, 0.0, 0.1):
        (v0, A0), (v1, A1) = (step(m, e, v) for e in (1e-12, -1e-12))
        force, jump = max(force, abs(v1 - v0) / H * MASS), max(jump, abs(A1 - A0).max())
    out += [below("jump of the force across touch, 1e-12 m to either side [N]", force, 1e-9),
            below("jump of the gradient across touch, 1e-12 m to either side", jump, 1e-9)]
    # second differences of the gradient: a kink keeps its size, a curve loses it with the distance of the points
    kink = 0.0
    for v in (-0.3, 0.0, 0.2):
        for z in (0.0, -w, -w - C * v / k):
            size = [abs(step(m, z - e, v)[1] - 2 * step(m, z, v)[1] + step(m, z + e, v)[1]).max() / e for e in (1e-5, 1e-6)]
            kink = max(kink, size[1] / max(size[0], 1e-3))
    out.append(below("second differences of the gradient where the law changes its form, at 1e-6 m over those at 1e-5 m (a kink: 1)", kink, 0.2))
    speeds = np.linspace(-1, 1, 41)
    pull = min(step(m, z, v)[0] - v + H * G for z in np.linspace(-3 * w, w, 41) for v in speeds)
    out.append(below("adhesion: strongest pull [N]", max(0.0, -pull / H * MASS), 1e-9))
    return out
