"""Derivatives by geometry

Derivatives by geometry: where a body lands and rests by its size, where a chain's tip goes by its links."""
import numpy as np

from common import Bench, apart, below, row, slope, values

THROW = """<mujoco><option timestep="0.002" integrator="RK4" cone="elliptic"/><worldbody><geom type="plane" size="0 0 1"/>
<body name="b" pos="0 0 .6"><freejoint/><inertial pos="0 0 0" mass="1" diaginertia=".02 .025 .03"/><geom name="g" type="{}" size="{}"
solref="-2000 -20" solimp=".9 .9 .001"/></body></worldbody></mujoco>"""
STONE = """<mujoco><option timestep="0.002" integrator="RK4" cone="elliptic"/><asset><mesh name="m" vertex="{}"/></asset><worldbody>
<geom type="plane" size="0 0 1"/><body name="b" pos="0 0 .6"><freejoint/><inertial pos="0 0 0" mass="1" diaginertia=".02 .025 .03"/>
<geom name="g" type="mesh" mesh="m" solref="-2000 -20" solimp=".9 .9 .001"/></body></worldbody></mujoco>"""
ARM = """<mujoco><option timestep="0.005" gravity="0 0 -9.81" integrator="RK4"/><worldbody><body name="upper"><joint type="hinge" axis="0 1 0"
damping=".05"/><inertial pos=".2 0 0" mass="1" diaginertia=".01 .01 .01"/><body name="lower" pos=".5 0 0"><joint type="hinge" axis="0 1 0"
damping=".05"/><inertial pos=".2 0 0" mass=".6" diaginertia=".005 .005 .005"/><site name="tip" pos=".4 0 0"/></body></body></worldbody>
<sensor><framelinvel name="speed" objtype="site" objname="tip"/></sensor></mujoco>"""
START = {"qvel": [2, 0.3, 0, 0.5, 3, 1], "qpos": [0, 0, 0.6, 0.9, 0.3, 0.2, 0.1]}
SIZES = {"sphere": [0.2], "box": [0.2, 0.15, 0.12], "capsule": [0.12, 0.2]}


def stone(bench):
    """A thrown stone, by the corners of its hull."""
    r = np.random.default_rng(4)
    points = r.standard_normal((12, 3))
    points *= 0.2 / np.linalg.norm(points, axis=1)[:, None]
    path = bench.write("stone.xml", STONE.format(" ".join(map(repr, points.ravel().tolist()))))
    words, name = ("--steps", 220, "--expose", "mesh_vert:m"), "mesh_vert:m"
    run = lambda f, *more, at=points: f(path, *more, *words, init=START, params={name: at})
    g = [run(bench.gradient, {"qpos": np.eye(6)[k]}, "--wrt", name)["param/" + name] for k in range(3)]
    J = np.reshape(g, (3, -1))
    touching = np.flatnonzero(np.abs(J).sum(axis=0))
    end = lambda e: run(bench.simulate, at=points + np.reshape(e, points.shape))["qpos"][-1, :3]
    D = np.stack([slope(lambda t: end(t * e), 1e-6) for e in np.eye(points.size)[touching]], 1)
    return [row("stone: coordinates of corners that the place after the landing depends on", len(touching), ">= 6", len(touching) >= 6),
            row("stone: |d(place after the landing)/d(corners)|", float(np.linalg.norm(J)), "> 0.1", np.linalg.norm(J) > 0.1),
            below("stone: that against differences, relative", apart(J[:, touching], D), 1e-6)]


def rows():
    out = []
    with Bench() as bench:
        for kind, size in SIZES.items():
            path = bench.write(f"{kind}.xml", THROW.format(kind, " ".join(map(str, size))))
            steps = 220
            end = lambda s: bench.simulate(path, "--steps", steps, init=START, params={"geom_size:g": np.resize(np.append(s, [0, 0, 0]), 3)})["qpos"][-1, :3]
            J = np.stack([bench.gradient(path, {"qpos": np.eye(6)[k]}, "--steps", steps, "--wrt", "geom_size", init=START)["param/geom_size"][1, :len(size)]
                          for k in range(3)])
            D = np.stack([slope(lambda t: end(np.array(size) + t * e), 1e-6) for e in np.eye(len(size))], 1)
            out.append(row(f"{kind}: |d(place after the landing)/d(size)|", float(np.linalg.norm(J)), "> 0.1", np.linalg.norm(J) > 0.1))
            out.append(below(f"{kind}: that against differences, relative", apart(J, D), 1e-6))
        out += stone(bench)
        arm = bench.write("arm.xml", ARM)
        tip = lambda l: bench.simulate(arm, "--steps", 100, params={"body_pos:lower": [l[0], 0, 0], "site_pos:tip": [l[1], 0, 0]})["sensordata"][-1]
        g = [bench.gradient(arm, {"sensordata": e}, "--steps", 100, "--wrt", "body_pos,site_pos") for e in np.eye(3)]
        J = np.stack([[x["param/body_pos"][2, 0], x["param/site_pos"][0, 0]] for x in g])
        D = np.stack([slope(lambda t: tip(np.array([0.5, 0.4]) + t * e), 1e-4) for e in np.eye(2)], 1)
        out.append(below("links of a falling arm: d(velocity of its tip)/d(lengths) against differences, relative", apart(J, D), 1e-6))
        task = {"model": "arm.xml", "steps": 100, "loss": [{"name": "speed", "sensor": "speed", "target": [0, 0, 50]}],
                "variables": [{"name": "upper", "parameter": "body_pos:lower", "components": [0], "lower": 0.2, "upper": 0.7},
                              {"name": "lower", "parameter": "site_pos:tip", "components": [0], "lower": 0.2, "upper": 0.5}],
                "optimizer": {"method": "lbfgs", "iterations": 60}}
        result = bench.optimize(bench.write("design.json", task))
        best = [v[0] for v in values(result).values()]
        grid = [(float(np.sum((tip([a, b]) - [0, 0, 50])**2)), a, b) for a in np.linspace(0.2, 0.7, 9) for b in np.linspace(0.2, 0.5, 7)]
        reached, least = float(np.sum((tip(best) - [0, 0, 50])**2)), min(grid)
        out.append(row(f"lengths within bounds for the fastest rise of the tip at 0.5 s: speed at ({best[0]:.3f}, {best[1]:.3f}) m [m/s]", float(tip(best)[2]),
                       f"as good as the best of a grid of 63 ({tip(least[1:])[2]:.4f} m/s)", reached <= least[0] * (1 + 1e-9)))
    return out
