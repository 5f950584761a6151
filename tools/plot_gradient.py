#!/usr/bin/env python3
"""docs/img/gradient.svg: a hopping robot, and the gradient of how far it gets beside difference quotients.

    tools/plot_gradient.py [PROGRAM]        (NumPy; the program is build/release/pullback by default)
Both panels are drawn from runs of the program: `simulate` with a parameter moved to and fro, and `gradient` once.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
HOPPER = ROOT / "examples/hopper"
MODEL, CONTROL = HOPPER / "hopper.xml", HOPPER / "servos.npy"
STEPS = 500
# what is moved and where, a name and a colour; the quantity is the torso's x at the end
MOVED = [("gravity", (2,), "gravity", "#2166ac"), ("body_mass", "torso", "mass of the torso", "#b2182b"),
         ("geom_friction", "foot", "friction of the foot", "#1b7837"), ("qvel", (0,), "speed at the start", "#762a83")]
SIZES = 10.0 ** -np.arange(1, 13.1, 0.5)


def run(program, *words):
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}: {done.stderr.strip()}")
    return done.stdout


class Runs:
    def __init__(self, program, folder):
        self.program, self.folder = program, pathlib.Path(folder)
        task = json.loads((HOPPER / "identify.json").read_text())
        with np.load(HOPPER / "servos.npz") as file:
            np.save(self.folder / "control.npy", file["control"])
        self.start = {"qpos": np.array(task["init"]["qpos"]), "qvel": np.zeros(len(task["init"]["qpos"]))}
        self.common = ["--control", self.folder / "control.npy", "--init", self.folder / "start.npz", "--quiet"]
        np.savez(self.folder / "start.npz", **self.start)

    def simulate(self, *more):
        out = self.folder / "run.npz"
        run(self.program, "simulate", MODEL, *self.common, *more, "-o", out)
        with np.load(out) as file:
            return {k: file[k] for k in ("time", "qpos")}

    def gradient(self):
        cotangent, out = self.folder / "cot.npz", self.folder / "grad.npz"
        np.savez(cotangent, qpos=np.eye(len(self.start["qpos"]))[0])
        run(self.program, "gradient", MODEL, *self.common, "--cotangent", cotangent, "-o", out)
        with np.load(out) as file:
            return {name.removeprefix("param/"): file[name] for name in file.files}

    def moved(self, name, where, value):
        """The end, with one number set to a value."""
        if name == "qvel":
            np.savez(self.folder / "start.npz", qpos=self.start["qpos"], qvel=value)
            return self.simulate()["qpos"][-1, 0]
        field = f"{name}:{where}" if isinstance(where, str) else name
        return self.simulate("--param", f"{field}={','.join(map(repr, value.tolist()))}")["qpos"][-1, 0]


def measure(program):
    import mujoco  # names to rows, and the values that are moved
    model = mujoco.MjModel.from_xml_path(str(MODEL))
    values = {"gravity": model.opt.gravity, "body_mass": model.body("torso").mass, "geom_friction": model.geom("foot").friction,
              "qvel": np.zeros(model.nv)}
    rows = {"gravity": 2, "body_mass": model.body("torso").id, "geom_friction": 3 * model.geom("foot").id, "qvel": 0}
    with tempfile.TemporaryDirectory() as folder:
        runs, curves = Runs(program, folder), []
        base, gradient = runs.simulate(), runs.gradient()
        for name, where, label, colour in MOVED:
            exact, errors = gradient[name].flat[rows[name]], []
            for eps in SIZES:
                ends = []
                for sign in (1, -1):
                    value = values[name].copy()
                    value[where[0] if isinstance(where, tuple) else 0] += sign * eps
                    ends.append(runs.moved(name, where, value))
                errors.append(abs((ends[0] - ends[1]) / (2 * eps) - exact) / abs(exact))
            curves.append((label, colour, exact, np.array(errors)))
            print(f"{label}: {exact:+.12g}, best difference quotient off by {min(errors):.1e}")
        return base, curves


# ---- drawing ----------------------------------------------------------------------------------------------------------
class Panel:
    def __init__(self, x, width, xs, ys):
        self.x, self.w, self.xs, self.ys, self.out = x, width, xs, ys, []

    def at(self, x, y):
        return (self.x + self.w * (x - self.xs[0]) / (self.xs[1] - self.xs[0]),
                250 - 200 * (y - self.ys[0]) / (self.ys[1] - self.ys[0]))

    def text(self, x, y, text, anchor="middle", fill="#333", turn=""):
        self.out.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}"{turn}>{text}</text>')

    def frame(self, title, below, beside, xticks, yticks):
        self.out.append(f'<rect x="{self.x}" y="50" width="{self.w}" height="200" fill="none" stroke="#999"/>')
        self.text(self.x, 36, f"<tspan font-weight='bold'>{title}</tspan>", "start")
        self.text(self.x + self.w / 2, 284, below)
        self.text(self.x - 42, 150, beside, turn=f' transform="rotate(-90 {self.x - 42} 150)"')
        for value, label in xticks:
            x, _ = self.at(value, self.ys[0])
            self.out.append(f'<path d="M{x:.1f} 250v-5" stroke="#999"/>')
            self.text(x, 266, label)
        for value, label in yticks:
            _, y = self.at(self.xs[0], value)
            self.out.append(f'<path d="M{self.x} {y:.1f}h{self.w}" stroke="#eee"/>')
            self.text(self.x - 6, y + 4, label, "end")

    def line(self, xs, ys, colour, dots=False):
        points = [self.at(x, y) for x, y in zip(xs, ys)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
        if dots:
            self.out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.2" fill="{colour}"/>' for x, y in points]


def power(k):
    return f'10<tspan dy="-4" font-size="8">{k}</tspan>'


def draw(base, curves):
    t, x, z = base["time"].ravel(), base["qpos"][:, 0], base["qpos"][:, 1]
    left = Panel(60, 230, (0, t[-1]), (-0.6, 0.4))
    left.frame("a one-legged robot crouches and jumps", "time (s)", "way of the torso (m)", [(v, f"{v:g}") for v in np.arange(0, 1.01, 0.2)],
               [(v, f"{v:.1f}") for v in np.arange(-0.6, 0.41, 0.2)])
    left.line(t, z, "#333")
    left.line(t, x, "#b35806")
    left.text(*left.at(0.62, 0.24), "up", "start")
    left.text(*left.at(0.7, -0.22), "along", "start", "#b35806")
    right = Panel(370, 350, (-1, -13), (-12, 1))
    right.frame("how far it gets: gradient against difference quotients", "size of the difference", "relative difference of the two",
                [(k, power(k)) for k in range(-1, -14, -2)], [(k, power(k)) for k in range(-12, 2, 3)])
    for i, (label, colour, exact, errors) in enumerate(curves):
        right.line(np.log10(SIZES), np.clip(np.log10(np.maximum(errors, 1e-16)), -12, 1), colour, dots=True)
        right.text(545, 66 + 14 * i, f"by {label}: {exact:+.4g}", "middle", colour)
    body = "\n".join(left.out + right.out)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 750 300" font-family="sans-serif" font-size="11">\n'
            f'<rect width="750" height="300" fill="white"/>\n{body}\n</svg>\n')


def main():
    program = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "build/release/pullback")
    target = ROOT / "docs/img/gradient.svg"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(draw(*measure(program)))


if __name__ == "__main__":
    main()
