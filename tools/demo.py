#!/usr/bin/env python3
"""make demo: a throw, a pendulum's physics, a robot's masses, a bar's rubber and a hand's path found by gradient, an arm that learns to
reach and a quadruped that learns to run; pages and plots under out/.

    tools/demo.py PROGRAM     (build/release/pullback)

Every number comes from the program: `pullback optimize TASK.json` finds, `pullback train TASK.json` learns, `pullback simulate` makes the recordings whose truth
is known here and measures. Needs nothing but Python.
"""
import csv
import html
import json
import math
import os
import random
import shutil
import subprocess
import sys
import time

import npz
import plot
import plot_contacts

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OUT = os.path.join(ROOT, "out")
PROGRAM = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "build", "release", "pullback"))


# ---- the program ----------------------------------------------------------------------------------------------------
def pullback(*words):
    done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"pullback {' '.join(map(str, words))}\n{done.stderr}")


def optimize(folder, task):
    """Result of a task of folder; its file, trajectory and page lie beside it."""
    print(f"pullback optimize {os.path.relpath(folder, ROOT)}/{task}.json", flush=True)
    path = os.path.join(folder, task)
    pullback("optimize", path + ".json", "--fresh", "-q", "-o", path + ".result.json")
    with open(path + ".result.json", encoding="utf-8") as f:
        result = json.load(f)
    result["trajectory"] = os.path.join(folder, result["trajectory_files"][0])
    return result


def simulate(folder, model, name, *words):
    path = os.path.join(folder, name)
    pullback("simulate", os.path.join(folder, model), "-q", "-o", path, *words)
    return npz.read(path)


def fresh(name):
    """Copy of an example's folder under out/."""
    folder = os.path.join(OUT, name)
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(os.path.join(ROOT, "examples", name), folder)
    return folder


def values(result):
    return {v["name"]: v["value"] for v in result["variables"]}


def deviation(terms, name):
    return next(t["deviation"] for t in terms if t["name"] == name)


# ---- page -----------------------------------------------------------------------------------------------------------
failures = []  # rows that do not hold, in words


def table(head, rows, bound=""):
    """HTML; what its rows come to is told, and those that do not hold are kept. bound: what is required of all, where no column says it."""
    for row in rows:
        if row[-1] == yes(False):
            numbers = ", ".join(f"{h} {x if isinstance(x, str) else f'{x:.6g}'}" for h, x in zip(head[1:-1], row[1:-1]))
            failures.append(f"{row[0]}: {numbers}" + (f", required {bound}" if bound else ""))
    cell = lambda tag, x: f"<{tag}>{html.escape(x if isinstance(x, str) else f'{x:.6g}')}</{tag}>"
    print("  " + "; ".join(": ".join(str(x if isinstance(x, str) else f"{x:.6g}") for x in row[:2]) for row in rows), flush=True)
    return ("<table><tr>" + "".join(cell("th", h) for h in head) + "</tr>" +
            "".join("<tr>" + "".join(cell("td", x) for x in row) + "</tr>" for row in rows) + "</table>")


def yes(holds):
    return "holds" if holds else "DOES NOT HOLD"


def inverse(a):
    """Of a small matrix, by elimination with pivots."""
    n = len(a)
    m = [list(row) + [float(i == j) for j in range(n)] for i, row in enumerate(a)]
    for c in range(n):
        p = max(range(c, n), key=lambda r: abs(m[r][c]))
        m[c], m[p] = m[p], m[c]
        m[c] = [x / m[c][c] for x in m[c]]
        for r in range(n):
            if r != c:
                f = m[r][c]
                m[r] = [x - f * y for x, y in zip(m[r], m[c])]
    return [row[n:] for row in m]


def least_deviations(measure, truth, sigma):
    """Cramer-Rao: least standard deviations of unbiased estimates under white noise; slopes by central differences at the truth."""
    slopes = []
    for k, value in enumerate(truth):
        size = 1e-4 * abs(value)
        up, down = (measure([v + s * size * (i == k) for i, v in enumerate(truth)]) for s in (1, -1))
        slopes.append([(a - b) / (2 * size) for a, b in zip(up, down)])
    information = [[sum(x * y for x, y in zip(a, b)) / sigma**2 for b in slopes] for a in slopes]
    covariance = inverse(information)
    return [math.sqrt(covariance[k][k]) for k in range(len(truth))]


# ---- the throw --------------------------------------------------------------------------------------------------------
def restitution(folder, drop):
    """Speed out / speed in of the first bounce of a plain drop, by the energy of the flights before and after it."""
    run = simulate(folder, "ball.xml", "drop.npz", "--steps", 100)
    margin, flights, above = 0.00109, [], False
    for q, v in zip(run["qpos"], run["qvel"]):
        height = q[2] - 0.5 - margin
        if height > 0 and not above:
            flights.append(0.0)
        above = height > 0
        if above:
            flights[-1] = v[2]**2 / 2 + 9.81 * height
    assert abs(run["qpos"][0][2] - 0.5 - drop) < 1e-12
    return math.sqrt(flights[1] / flights[0])


def ball():
    folder = fresh("ball")
    e = restitution(folder, 0.02)
    runs = {name: optimize(folder, name) for name in ("launch", "adam", "cmaes")}
    best, cma, adam = runs["launch"], runs["cmaes"], runs["adam"]
    vx, wy = values(best)["velocity along the ground"][0], values(best)["spin"][1]
    fine = deviation(best["confirm"]["terms"], "place")
    miss, rest = deviation(best["terms"], "place"), deviation(best["terms"], "rest")
    fewer = cma["simulations"] / best["simulations"] if cma["met"] else math.inf
    rows = [
        ("restitution, measured on a drop from 0.02 m", e, "0.5 (source: 0.5)", yes(abs(e - 0.5) < 0.01)),
        ("distance from the target at 5 s [m]", miss, "0.01", yes(miss <= 0.01)),
        ("velocity and spin left at 5 s [m/s, rad/s]", rest, "0.01", yes(rest <= 0.01)),
        ("gradient iterations from standstill", best["iterations"], "88 (source: 88)", yes(best["met"] and best["iterations"] <= 88)),
        ("simulations", best["simulations"], "-", "-"),
        ("simulations of CMA-ES to the same criterion", cma["simulations"], "source: 2422", yes(cma["met"])),
        ("CMA-ES / gradient", fewer, ">= 10", yes(fewer >= 10)),
        ("|spin| / |velocity| of the launch [1/m]", abs(wy / vx), "5.0 within 0.1 %", yes(abs(abs(wy / vx) / 5 - 1) <= 1e-3)),
        ("distance at a quarter of the time step [m]", fine, "0.05", yes(fine <= 0.05)),
        ("seconds (source: 16.3; its CMA-ES: 59.9)", best["seconds"], "-", "-"),
        ("Adam: distance / what is left after %d iterations" % adam["iterations"],
         "%.3g m / %.3g" % (deviation(adam["terms"], "place"), deviation(adam["terms"], "rest")), "(reported)", "met" if adam["met"] else "not met"),
    ]
    print("  launch: velocity %.4f m/s, upwards %.4f, spin %.3f rad/s" % (vx, values(best)["velocity upwards"][0], wy))
    path = npz.read(best["trajectory"])
    pullback("view", os.path.join(folder, "ball.xml"), best["trajectory"], "-o", os.path.join(OUT, "ball.html"))
    curves = [(n, [h[1] for h in r["history"]], [h[2] for h in r["history"]], "line")
              for n, r in (("Gauss-Newton", best), ("CMA-ES", cma), ("Adam", adam))]
    time_of = path["time"]
    return ("<h2>A throw that stops</h2><p>A ball of 523.6 kg and 0.5 m radius, dropped 2 cm above the ground (friction 1). Its velocity "
            "and spin are found from standstill, so that after 5 s it lies at rest 10 m away. Only backspin does it: friction takes "
            "momentum and spin in a fixed ratio, so spin must be 5.0 times velocity.</p>" + table(("quantity", "measured", "required", ""), rows) +
            plot.svg("Loss against simulations", "simulations", "least loss", curves, logx=True, logy=True) +
            plot.svg("The throw found", "time [s]", "", [("place [m]", time_of, [q[0] for q in path["qpos"]], "line"),
                                                         ("velocity [m/s]", time_of, [v[0] for v in path["qvel"]], "line")]) +
            '<p><a href="ball.html">Watch it</a></p>')


# ---- the pendulum -----------------------------------------------------------------------------------------------------
def pendulum():
    folder, sigma, noise = fresh("pendulum"), 1e-3, random.Random(7)
    npz.write(os.path.join(folder, "start.npz"), {"qpos": [0.5]})

    def record(length, damping, gravity):
        run = simulate(folder, "pendulum.xml", "truth.npz", "--steps", 5000, "--init", os.path.join(folder, "start.npz"),
                       "--param", f"body_ipos:bob=0,0,{length!r}", "--param", f"dof_damping:hinge={damping!r}",
                       "--param", f"gravity=0,0,{gravity!r}")
        return run["time"][::10], run["sensordata"][::10]

    truth = [-1.7, 0.15, -9.81]
    times, clean = record(*truth)
    noisy = [[x + noise.gauss(0, sigma) for x in row] for row in clean]
    npz.write(os.path.join(folder, "recording.npz"), {"time": times, "sensordata": noisy})
    result = optimize(folder, "identify")
    least = least_deviations(lambda p: [x for row in record(*p)[1] for x in row], truth, sigma)
    found = [v["value"][0] for v in result["variables"]]
    start = [v["start"][0] for v in result["variables"]]
    rows = [(n, f, t, s, (f - t) / d, yes(abs(f - t) <= 2 * d))
            for n, f, t, s, d in zip(("depth of the bob [m]", "damping [N m s/rad]", "gravity [m/s2]"), found, truth, start, least)]
    fit = npz.read(result["trajectory"])
    pullback("view", os.path.join(folder, "pendulum.xml"), result["trajectory"], "-o", os.path.join(OUT, "pendulum.html"))
    return (f"<h2>A pendulum's length, damping and gravity</h2><p>From 5 s of the bob's place with {sigma * 1e3:.0f} mm of noise, "
            f"{result['iterations']} Gauss-Newton iterations, {result['simulations']} simulations, {result['seconds']:.2f} s. "
            "The error is in standard deviations of the best unbiased estimate there can be (Cramer-Rao); required: within 2.</p>" +
            table(("quantity", "found", "truth", "start", "error [sigma]", ""), rows, "an error within 2") +
            plot.svg("Recording and fit", "time [s]", "x of the bob [m]",
                     [("fit", fit["time"], [s[0] for s in fit["sensordata"]], "line"), ("recording", times[::10], [s[0] for s in noisy[::10]], "dots")]) +
            '<p><a href="pendulum.html">Watch it</a></p>')


# ---- the robot --------------------------------------------------------------------------------------------------------
def hopper():
    folder, sigma, noise = fresh("hopper"), 2e-3, random.Random(11)
    with open(os.path.join(folder, "identify.json"), encoding="utf-8") as f:
        task = json.load(f)
    npz.write(os.path.join(folder, "start.npz"), {"qpos": task["init"]["qpos"]})
    inputs = npz.read(os.path.join(folder, "servos.npz"))["control"]
    write_npy(os.path.join(folder, "servos.npy"), inputs)
    names = ("torso", "thigh", "shank", "foot")

    def record(*p):
        words = [w for n, m in zip(names, p) for w in ("--param", f"body_mass:{n}={m!r}")]
        run = simulate(folder, "hopper.xml", "truth.npz", "--init", os.path.join(folder, "start.npz"), "--control",
                       os.path.join(folder, "servos.npy"), "--constants", "recompute", *words,
                       "--param", f"geom_friction:foot={p[4]!r},0.005,0.0001")
        return run["time"][::5], run["sensordata"][::5]

    truth = [4.7, 2.1, 1.8, 0.8, 0.45]
    times, clean = record(*truth)
    noisy = [[x + noise.gauss(0, sigma) for x in row] for row in clean]
    npz.write(os.path.join(folder, "recording.npz"), {"time": times, "sensordata": noisy})
    result = optimize(folder, "identify")
    least = least_deviations(lambda p: [x for row in record(*p)[1] for x in row], truth, sigma)
    found = [v["value"][0] for v in result["variables"]]
    start = [v["start"][0] for v in result["variables"]]
    labels = [f"mass of the {n} [kg]" for n in names] + ["friction of the foot"]
    rows = [(n, f, t, s, (f - t) / d, f"{100 * (f / t - 1):+.2f} %", yes(abs(f - t) <= 3 * d))
            for n, f, t, s, d in zip(labels, found, truth, start, least)]
    certificate = result["certificates"][0]
    fit = npz.read(result["trajectory"])
    pullback("view", os.path.join(folder, "hopper.xml"), result["trajectory"], "-o", os.path.join(OUT, "hopper.html"))
    return (f"<h2>Masses and friction of a hopping robot</h2><p>From one second of torso and joints with {sigma * 1e3:.0f} mm and mrad of "
            f"noise while known set-points move its servos; the foot strikes and slips ({certificate['onsets']} onsets, "
            f"{certificate['releases']} releases). Constants follow the masses. {result['iterations']} Gauss-Newton iterations, "
            f"{result['simulations']} simulations, {result['seconds']:.2f} s. Required: within 3 standard deviations of the best "
            "unbiased estimate.</p>" + table(("quantity", "found", "truth", "start", "error [sigma]", "error", ""), rows, "an error within 3 sigma") +
            plot.svg("Recording and fit", "time [s]", "", [
                ("height of the torso [m]", fit["time"], [s[2] for s in fit["sensordata"]], "line"),
                ("knee [rad]", fit["time"], [s[5] for s in fit["sensordata"]], "line"),
                ("recorded", times[::2], [s[2] for s in noisy[::2]], "dots"), ("recorded", times[::2], [s[5] for s in noisy[::2]], "dots")]) +
            '<p><a href="hopper.html">Watch it</a></p>')


# ---- deformables ------------------------------------------------------------------------------------------------------
def beam():
    folder, sigma, noise = fresh("beam"), 1e-4, random.Random(3)
    seen = [3 * (i + 9 * (j + 3 * k)) + c for k in (0, 2) for j in range(3) for i in range(1, 9) for c in range(3)]  # top and bottom of the box

    def measure(young, poisson):
        run = simulate(folder, "identify.json", "truth.npz", "--steps", 1, "--param", f"bar_rubber.young={young!r}", "--param",
                       f"bar_rubber.poisson={poisson!r}")
        return run["points"][1]

    truth = [2.3e5, 0.42]
    npz.write(os.path.join(folder, "recording.npz"), {"points": [[x + noise.gauss(0, sigma) for x in measure(*truth)]]})
    result = optimize(folder, "identify")
    least = least_deviations(lambda p: (lambda x: [x[i] for i in seen])(measure(*p)), truth, sigma)
    found = [v["value"][0] for v in result["variables"]]
    start = [v["start"][0] for v in result["variables"]]
    rows = [(n, f, t, s, (f - t) / d, yes(abs(f - t) <= 3 * d))
            for n, f, t, s, d in zip(("Young's modulus [Pa]", "Poisson's ratio"), found, truth, start, least)]
    pullback("view", os.path.join(folder, "identify.json"), result["trajectory"], "-o", os.path.join(OUT, "beam.html"))
    sag = npz.read(result["trajectory"])["points"][1][3 * 80 + 2] - 0.05
    return (f"<h2>What a rubber bar is made of</h2><p>A bar of 20 cm, held at one end, sags by {-sag * 100:.1f} cm. From where {len(seen) // 3} points of its "
            f"top and bottom are, within {sigma * 1e3:.1f} mm, {result['iterations']} Gauss-Newton iterations, {result['simulations']} equilibria, "
            f"{result['seconds']:.2f} s. Each equilibrium is one step, and its gradient exact. Required: within 3 standard deviations of the best unbiased "
            "estimate.</p>" + table(("quantity", "found", "truth", "start", "error [sigma]", ""), rows, "an error within 3") + '<p><a href="beam.html">Look at it</a></p>')


def chain():
    folder = fresh("chain")
    result = optimize(folder, "carry")
    place, swing = deviation(result["terms"], "place"), deviation(result["terms"], "swing")
    run = npz.read(result["trajectory"])
    rows = [("distance from the place, worst of all points [m]", place, "0.01", yes(place <= 0.01)),
            ("velocity left [m/s]", swing, "0.02", yes(swing <= 0.02))]
    pullback("view", os.path.join(folder, "carry.json"), result["trajectory"], "-o", os.path.join(OUT, "chain.html"))
    return (f"<h2>A load carried without swinging</h2><p>A load hangs by a chain of springs from a hand. The hand's path was found in "
            f"{result['iterations']} Gauss-Newton iterations, {result['seconds']:.2f} s.</p>" + table(("quantity", "measured", "required", ""), rows) +
            plot.svg("The path found", "time [s]", "to the side [m]",
                     [("hand", run["time"], [x[0] for x in run["points"]], "line"), ("load", run["time"], [x[18] for x in run["points"]], "line")]) +
            '<p><a href="chain.html">Watch it</a></p>')


# ---- policies ---------------------------------------------------------------------------------------------------------
def train(folder, task, *words):
    """(table of the training by columns, seconds); the policy stays beside the task, and the page goes to out/."""
    print(f"pullback train {os.path.relpath(folder, ROOT)}/{task}.json", *words, flush=True)
    path, begin = os.path.join(folder, task), time.monotonic()
    pullback("train", path + ".json", "--fresh", "-q", "-o", path + ".npz", *words)
    seconds = time.monotonic() - begin
    os.replace(path + ".html", os.path.join(OUT, os.path.basename(folder) + ".html"))
    with open(path + ".csv", newline="", encoding="utf-8") as f:
        rows = list(csv.DictReader(f))
    return {name: [(float(r["robot_steps"]), float(r[name])) for r in rows if r[name]] for name in rows[0]}, seconds


def test(folder, task, starts, steps):
    """Runs of what was learned from states that no training had."""
    for k, start in enumerate(starts):
        path = os.path.join(folder, f"start-{k}.npz")
        npz.write(path, start)
        yield simulate(folder, task + ".json", f"test-{k}.npz", "--policy", os.path.join(folder, task + ".npz"), "--init", path, "--steps", steps)


def learned(title, columns):
    points = [("worlds that learn", *zip(*columns["loss"]), "line"), ("evaluated", *zip(*columns["evaluated"]), "dots")]
    return plot.svg(title, "robot-steps", "loss a decision", points)


def arm():
    folder, draw = fresh("arm"), random.Random(5)
    columns, seconds = train(folder, "reach")
    target, apart, speed, torque, shown = (0.5, 0.5, 0.5), [], 0, 0, []
    starts = [{"qpos": [draw.uniform(-0.3, 0.3) for _ in range(4)]} for _ in range(8)]
    for run in test(folder, "reach", starts, 800):
        way = [math.dist(s[:3], target) for s in run["sensordata"]]
        apart.append(max(way[-100:]))
        shown.append(("", run["time"][::10], way[::10], "line"))
        speed = max(speed, max(abs(v) for row in run["qvel"] for v in row))
        torque = max(torque, max(abs(f) for s in run["sensordata"] for f in s[3:]))
    rows = [("hand to target in the last of 8 s, worst of 8 other starts [m]", max(apart), "0.02", yes(max(apart) <= 0.02)),
            ("fastest joint [degrees/s]", math.degrees(speed), "45, but where the weight is more than 200 N m", "-"),
            ("largest torque [N m]", torque, "200", yes(torque <= 200 * (1 + 1e-9))),
            ("robot-steps of training", columns["loss"][-1][0], "-", "-"), ("seconds of training", seconds, "-", "-")]
    return ("<h2>An arm that learns to reach</h2><p>A network of some 5000 weights sees hand and joints and gives four servos their set-points, five times "
            "a second. It learns by gradients through whole episodes of 8 s, six arms at a time; the servos turn no faster than 45 degrees a "
            "second as long as their torque suffices.</p>" + table(("quantity", "measured", "required", ""), rows) + learned("Learning to reach", columns) +
            plot.svg("Test starts", "time [s]", "hand to target [m]", shown) + '<p><a href="arm.html">Curves, and the arm</a></p>')


def walk(folder):
    """(runs of the policy that was learned from other starts, their speeds, the lowest trunk)."""
    draw = random.Random(7)
    some = lambda n: [draw.uniform(-0.17, 0.17) for _ in range(n)]
    starts = [{"qpos": [0, 0, 0.4, 1, 0, 0, 0] + some(8), "qvel": some(3) + [0] * 11} for _ in range(4)]
    runs = list(test(folder, "walk", starts, 6400))
    return runs, [run["qpos"][-1][0] / run["time"][-1] for run in runs], min(q[2] for run in runs for q in run["qpos"])


def quadruped():
    folder = fresh("quadruped")
    columns, seconds = train(folder, "walk")
    runs, speeds, low = walk(folder)
    rows = [("speed over 8 s, mean of 4 other starts [m/s]", sum(speeds) / len(speeds), "0.8", yes(sum(speeds) / len(speeds) >= 0.8)),
            ("slowest of them [m/s]", min(speeds), "-", "-"), ("lowest trunk [m]", low, "0.15", yes(low >= 0.15)),
            ("robot-steps of training", columns["loss"][-1][0], "-", "-"), ("seconds of training", seconds, "-", "-")]
    return ("<h2>A quadruped that learns to run</h2><p>28.7 kg on eight servos of 40 N m. A network sees trunk, joints and a clock, and decides 50 times "
            "a second; gradients of windows of 0.64 s through the physics, with a critic behind each, teach it (shac).</p>" +
            table(("quantity", "measured", "required", ""), rows) + learned("Learning to run", columns) +
            plot.svg("Test starts", "time [s]", "way [m]", [("", run["time"][::40], [q[0] for q in run["qpos"]][::40], "line") for run in runs]) +
            '<p><a href="quadruped.html">Curves, and the gait</a></p>')


def contacts():
    """What `make bench-contacts` measured last."""
    return ("<h2>Contact methods side by side</h2><p>Scenes whose answer is known, run with each method and gradient mode: relative errors, and the "
            "time of a run with its gradient. Measured by <code>make bench-contacts</code>; <code>docs/contact-gradients.md</code> says which to use "
            "when.</p>" + plot_contacts.svg(plot_contacts.read()))


def write_npy(path, rows):
    """Rows as NPY: the only member of an NPZ, unpacked."""
    import zipfile
    npz.write(path + ".npz", {"x": rows})
    with zipfile.ZipFile(path + ".npz") as z, open(path, "wb") as f:
        f.write(z.read("x.npy"))
    os.remove(path + ".npz")


def main():
    os.makedirs(OUT, exist_ok=True)
    begin = time.monotonic()
    parts = [pendulum(), hopper(), ball(), beam(), chain(), arm(), quadruped()]
    page = ("<!doctype html><meta charset=utf-8><title>Pullback: what it found</title><style>body{font:15px sans-serif;max-width:75em;"
            "margin:2em auto;padding:0 1em}table{border-collapse:collapse;margin:1em 0}td,th{border:1px solid #ccc;padding:.25em .7em;"
            "text-align:left}svg{margin-right:1em}</style><h1>Found by gradient, through contact</h1><p>Made by <code>make demo</code>; the "
            "tasks are in <code>examples/</code>.</p>" + parts[2] + parts[0] + parts[1] + parts[3] + parts[4] + parts[5] + parts[6] + contacts())
    path = os.path.join(OUT, "index.html")
    with open(path, "w", encoding="utf-8") as f:
        f.write(page)
    print(f"{os.path.relpath(path, os.getcwd())}: figures and plots, {time.monotonic() - begin:.0f} s")
    for row in failures:
        print(f"make demo: does not hold: {row}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
