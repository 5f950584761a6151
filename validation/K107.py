"""Contact explosions

Contact explosions: stiffness beyond what the time step can follow, and a ball pressed into the corner of three bodies."""
import json
import subprocess

import numpy as np

from common import PROGRAM, Bench, below, row

H, G, R = 1 / 60, 9.81, 0.1
DROP = """<mujoco><option timestep="{h}" cone="elliptic"/><default><geom solref="{ref}"/></default><worldbody><geom name="floor" type="plane"
size="0 0 1"/><body pos="0 0 .5"><freejoint/><geom name="ball" type="sphere" size=".1" mass="1"/></body></worldbody></mujoco>"""
# Thrown into the corner of a floor and two walls that may slide away a little: three contacts in one step.
CORNER = """<mujoco><option timestep="{h}" cone="elliptic"/><default><geom solref="{ref}"/></default><worldbody><geom name="floor" type="box" pos="0 0 -.1"
size="3 3 .1"/><body pos="1.1 0 1"><joint type="slide" axis="1 0 0" damping="5" stiffness="50"/><geom name="right" type="box" size=".1 3 1" mass="5"
contype="2"/></body><body pos="0 1.1 1"><joint type="slide" axis="0 1 0" damping="5" stiffness="50"/><geom name="left" type="box" size="3 .1 1"
mass="5" contype="2"/></body><body pos=".7 .7 .3"><freejoint/><geom name="ball" type="sphere" size=".1" mass="1" contype="3" conaffinity="3"/></body>
</worldbody></mujoco>"""


def attempt(bench, model, reference, velocity, words, steps=240):
    """Most energy of the ball over what it began with, or the error in words."""
    path = bench.write("model.xml", model.format(h=H, ref=reference))
    n = len(velocity)
    bench.write("init.npz", {"qvel": velocity})
    done = subprocess.run([PROGRAM, "simulate", path, "-q", "-o", "o.npz", "--init", "init.npz", "--steps", str(steps), *words], capture_output=True,
                          text=True, cwd=bench.folder)
    if done.returncode:
        return None, done.stderr.strip()
    with np.load(bench.path("o.npz")) as f:
        q, v = f["qpos"][:, -7:], f["qvel"][:, n - 6:]
    energy = 0.5 * np.sum(v[:, :3]**2, 1) + 0.5 * 0.4 * R * R * np.sum(v[:, 3:]**2, 1) + G * (q[:, 2] - R)
    return float(energy.max() / energy[0]), done.stderr.strip()


def alarm(bench, model, reference, velocity, words=()):
    """Does `gradient` warn, does `check` find, and by how much the costate grows."""
    path = bench.write("model.xml", model.format(h=H, ref=reference))
    bench.write("cotangent.npz", {"qpos": np.ones(len(velocity))})
    run = lambda *w: subprocess.run([PROGRAM, *w, *words], capture_output=True, text=True, cwd=bench.folder)
    g = run("gradient", path, "-q", "-o", "g.npz", "--init", "init.npz", "--steps", "240", "--cotangent", "cotangent.npz")
    c = json.loads(run("check", path, "-q", "--json", "--init", "init.npz", "--horizon", "240").stdout)
    with np.load(bench.path("g.npz")) as f:
        growth = float(np.exp(json.loads(str(f["meta"]))["certificate"]["growth"]))
    return "costate grows" in g.stderr, any(f["what"] == "chaotic growth" for f in c["findings"]), growth


def rows():
    out = []
    with Bench() as bench:
        for name, model, velocity in (("ball on a floor", DROP, [0.5, 0, 0, 0, 0, 0]), ("ball in the corner of three bodies", CORNER, [0, 0, 2, 2, -1, 0, 5, 0])):
            energies, errors, worst, soft = [], [], [], []
            for stiffness in 10.0**np.arange(2, 9.1, 0.5):
                for damping in (0, 0.2 * np.sqrt(stiffness)):
                    energy, words = attempt(bench, model, f"{-stiffness} {-damping}", velocity, [])
                    energies += [energy] if energy else []
                    errors += [] if energy else [words]
                    worst += [stiffness] if energy else []
                k, b = stiffness, 0.2 * np.sqrt(stiffness)
                soft.append(attempt(bench, model, ".02 1", velocity, ["--contact", f"erp={float(H * k / (H * k + b))}", "--contact", f"cfm={float(1 / (H * k + b))}"])[0])
            named = sum("geom 'ball'" in e and "too stiff for the time step" in e for e in errors)
            out += [
                row(f"{name}, stiffness 1e2 .. 1e9 1/s^2 at h = 1/60: runs that go through, and errors that name the contact", f"{len(energies)}, {named}",
                    "30 together, 1e9 is an error", len(energies) + named == 30 and max(worst) < 1e9),
                below(f"{name}: most energy of those that go through, over the start's", max(energies), 4),
                below(f"{name}: the same stiffness 1e2 .. 1e9 N/m as erp and cfm: most energy over the start's", max(soft), 1.01),
            ]
        attempt(bench, DROP, "-10000 0", [0.5, 0, 0, 0, 0, 0], [])
        warns, finds, growth = alarm(bench, DROP, "-10000 0", [0] * 6)
        out.append(row(f"alarm at the edge of stability, where the costate grows by {growth:.1e}: gradient warns, check finds", f"{warns}, {finds}", "True, True", warns and finds))
        warns, finds, growth = alarm(bench, DROP, "-200 -10", [0] * 6)
        out.append(row(f"no alarm where a soft ball comes to rest, growth {growth:.1e}", f"{warns}, {finds}", "False, False", not warns and not finds))
    return out
