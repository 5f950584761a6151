"""Least time and least effort

A cart of 2 kg goes from rest to rest over 1.5 m with at most 3 N: forward, then backward, in T = 2 sqrt(d m / f). The search has
the force of every step and the length of the step as unknowns, begins at no force, and is to find both the switch and T. A
pendulum that hangs is brought upright within 3 s with the least integral of its squared torque, by iLQR with constraints for the
end; the answer of optimal control, a boundary value problem by Pontryagin's principle, is found by collocation (SciPy's
solve_bvp) from twelve guesses of its own. What was found is run again by equations written here: a torque that does not bring the
pendulum up, or a step that is a simulation of nothing, would be seen."""
import numpy as np
from scipy.integrate import solve_bvp, solve_ivp

from common import Bench, below, near, reported, row

MASS, DISTANCE, FORCE = 2.0, 1.5, 3.0
GRAVITY, DURATION = 9.81, 3.0
CART = """<mujoco><option timestep="0.05" gravity="0 0 0"/><worldbody><body><joint name="x" type="slide" axis="1 0 0"/>
<geom type="sphere" size=".1" mass="2"/></body></worldbody><actuator><motor joint="x"/></actuator></mujoco>"""
PENDULUM = """<mujoco><option timestep="{h}" integrator="RK4"/><worldbody><body>
<inertial pos="0 0 -1" mass="1" diaginertia="1e-9 1e-9 1e-9"/><joint name="angle" axis="0 -1 0"/></body></worldbody>
<actuator><motor joint="angle"/></actuator></mujoco>"""


def least_time(bench, steps):
    task = {"model": CART, "steps": steps,
            "variables": [{"name": "step", "parameter": "timestep", "upper": .5, "scale": .1},
                          {"name": "force", "control": True, "lower": -FORCE, "upper": FORCE}],
            "loss": [{"name": "time", "formula": "t", "inputs": {"x": {"qpos": "x"}}, "type": "squared"},
                     {"name": "place", "qpos": "x", "target": DISTANCE, "constraint": True},
                     {"name": "rest", "qvel": "x", "constraint": True}],
            "optimizer": {"method": "gauss-newton", "iterations": 300}}
    r = bench.optimize(bench.write("time.json", task))
    step, force = (np.array(v["value"]) for v in r["variables"])
    # the same steps by hand: velocities, then positions, and exactly, each force held for a step
    v = np.cumsum(force / MASS * step)
    before = np.concatenate([[0], v[:-1]])
    exact = np.sum(before * step + force / MASS * step ** 2 / 2)
    return steps * step[0], force, [np.sum(v * step) - DISTANCE, v[-1]], exact - DISTANCE, r


def swing(bench, h, **more):
    task = {"model": PENDULUM.format(h=h), "steps": round(DURATION / h), "variables": [{"name": "torque", "control": True}],
            "loss": [{"name": "effort", "control": True, "at": "all", "weight": h},
                     {"name": "up", "qpos": "angle", "target": np.pi, "constraint": True},
                     {"name": "rest", "qvel": "angle", "constraint": True}],
            "optimizer": {"method": "ilqr", "iterations": 300}} | more
    r = bench.optimize(bench.write("swing.json", task))
    torque = np.array(r["variables"][0]["value"])
    return np.sum(torque ** 2) * h, torque, r


def end_of(torque, h):
    """The pendulum's own equation, of each step with its torque held."""
    y = [0.0, 0.0]
    for u in torque:
        y = solve_ivp(lambda t, y, u=u: [y[1], u - GRAVITY * np.sin(y[0])], (0, h), y, rtol=1e-10, atol=1e-12).y[:, -1]
    return abs(y[0] - np.pi), abs(y[1])


def optimal_control():
    """Least integral of u^2: u = -p_v / 2, p_x' = p_v g cos x, p_v' = -p_x; the best of what twelve guesses come to."""
    def slopes(_, y):
        return np.array([y[1], -GRAVITY * np.sin(y[0]) - y[3] / 2, y[3] * GRAVITY * np.cos(y[0]), -y[2]])

    def ends(a, b):
        return np.array([a[0], a[1], b[0] - np.pi, b[1]])

    t, found, rng = np.linspace(0, DURATION, 200), [], np.random.default_rng(0)
    s, fine = t / DURATION, np.linspace(0, DURATION, 6001)
    for _ in range(12):
        swings = np.sin(2 * np.pi * rng.integers(1, 4) * s) * s * (1 - s)
        angle = np.pi * s ** 2 * (3 - 2 * s) + rng.choice([-1, 1]) * rng.uniform(.8, 6) * swings
        speed = np.gradient(angle, t)
        guess = np.array([angle, speed, 0 * t, -2 * (np.gradient(speed, t) + GRAVITY * np.sin(angle))])
        r = solve_bvp(slopes, ends, t, guess, tol=1e-6, max_nodes=20000)
        if r.success:
            u = (r.sol(fine)[3] / 2) ** 2
            found.append(np.sum(u[1:] + u[:-1]) / 2 * (fine[1] - fine[0]))
    return min(found), len(found)


def rows():
    out = []
    with Bench() as bench:
        least = 2 * np.sqrt(DISTANCE * MASS / FORCE)
        for steps in 20, 50:
            T, force, off, exact, r = least_time(bench, steps)
            out.append(near(f"least time by {steps} steps, s", T, least, .005 * least))
            out.append(below(f"{steps} steps: steps by hand with these forces end off, m and m/s", max(map(abs, off)), 1e-5))
            out.append(below(f"{steps} steps: forces held, in exact motion: off, m", abs(exact), 1e-5))
            ends = np.allclose(force, np.repeat([FORCE, -FORCE], steps // 2), atol=1e-3)
            if steps == 20:
                short = np.sum(np.cumsum(force / MASS * .99 * T / steps) * .99 * T / steps) - DISTANCE
                out.append(row("20 steps: the same forces in 1 % less time are refused: off, m", abs(short), "> 1e-05",
                               abs(short) > 1e-5))
            said = f"{r['outcome']} after {r['iterations']} iterations"
            out.append(row(f"{steps} steps: one switch, from one limit to the other", said, "in the middle", ends))
        energy, guesses = optimal_control()
        for h in .02, .01:
            found, torque, r = swing(bench, h)
            name = f"swing-up at {1000 * h:g} ms"
            out.append(near(f"{name}: integral of squared torque by that of collocation", found / energy, 1, .02))
            out.append(below(f"{name}: by the pendulum's own equation off, rad and rad/s", max(end_of(torque, h)), 1e-3))
            if h == .02:
                weak = max(end_of(.99 * torque, h))
                out.append(row("swing-up at 20 ms: 1 % less torque is refused: off, rad and rad/s", weak, "> 0.001", weak > 1e-3))
            out.append(reported(name, f"{r['outcome']} after {r['iterations']} iterations, {r['seconds']:.2f} s"))
        out.append(reported("collocation", f"{energy:.6g} (N m)^2 s, least of {guesses} guesses that converged"))
        # another start
        stiff, _, _ = swing(bench, .02, variables=[{"name": "torque", "control": True, "start": 10}])
        out.append(reported("swing-up from a torque that holds it level: integral by that of collocation", stiff / energy))
    return out
