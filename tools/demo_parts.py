"""The parts of make demo: what each computes, and what of it stands on the page. Truths are known here; every number else comes from the program."""
import csv
import json
import math
import os
import random
import statistics
import zipfile

import npz
from demo_run import ROOT, fresh

SEEDS = os.path.join(ROOT, "bench", "results", "demo_seeds.csv")
# Learnt numbers and their bounds, below (or above) what the worst of ten seeds comes to with each of two optimization levels: tools/demo_seeds.py.
LEARNT = {("arm", "hand"): ("at most", 0.12), ("quadruped", "speed"): ("at least", 0.8), ("quadruped", "trunk"): ("at least", 0.15)}


# ---- small tools ----------------------------------------------------------------------------------------------------
def values(result):
    return {v["name"]: v["value"] for v in result["variables"]}


def deviation(terms, name):
    return next(t["deviation"] for t in terms if t["name"] == name)


def bounded(part, quantity, measured):
    """(what is required, whether it holds) of a learnt number."""
    which, bound = LEARNT[part, quantity]
    return f"{which} {bound:g}", measured >= bound if which == "at least" else measured <= bound


def over_seeds(part, quantity, unit, factor=1):
    """What the number came to from other seeds, in words."""
    with open(SEEDS, newline="", encoding="utf-8") as f:
        own = [r for r in csv.DictReader(f) if (r["part"], r["quantity"]) == (part, quantity)]
    numbers, seeds = sorted(factor * float(r["measured"]) for r in own), len({r["seed"] for r in own})
    builds = len({r["build"] for r in own})
    return f"in {len(own)} trainings from {seeds} seeds with {builds} optimization levels: {numbers[0]:.3g} to {numbers[-1]:.3g} {unit}."


def curve(name, x, y, **how):
    return {"name": name, "x": list(x), "y": list(y), **how}


def chart(title, x, y, *curves, **how):
    return {"title": title, "x": x, "y": y, "curves": list(curves), **how}


def part(title, caption, text, columns, rows, charts, commands, page=None, poster="0.4"):
    return {"title": title, "caption": caption, "text": text, "columns": columns, "rows": rows, "charts": charts, "commands": commands, "page": page,
            "poster": poster}


def write_npy(path, rows):
    """Rows as NPY: the only member of an NPZ, unpacked."""
    npz.write(path + ".npz", {"x": rows})
    with zipfile.ZipFile(path + ".npz") as z, open(path, "wb") as f:
        f.write(z.read("x.npy"))
    os.remove(path + ".npz")


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


def estimates(labels, result, truth, least, sigmas):
    """Rows of what was identified, and their columns."""
    columns = ["quantity", "found", "truth", "start", f"error [\u03c3], at most {sigmas}", ""]
    found = [(v["value"][0], v["start"][0]) for v in result["variables"]]
    return columns, [[n, f, t, s, float(f"{(f - t) / d:.2g}"), abs(f - t) <= sigmas * d] for n, (f, s), t, d in zip(labels, found, truth, least)]


SIGMA = "The error is told in standard deviations \u03c3 of the best unbiased estimate that there can be (Cram\u00e9r\u2013Rao)."


def effort(result, what="simulations"):
    return f"{result['iterations']} Gauss-Newton iterations, {result['simulations']} {what}, {result['seconds']:.2f} s"


# ---- the throw --------------------------------------------------------------------------------------------------------
def restitution(program, folder, drop):
    """Speed out / speed in of the first bounce of a plain drop, by the energy of the flights before and after it."""
    run = program.simulate(folder, "ball.xml", "drop.npz", "--steps", 100)
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


def ball(program):
    folder = fresh("ball")
    e = restitution(program, folder, 0.02)
    runs = {name: program.optimize(folder, name) for name in ("launch", "adam", "cmaes")}
    best, cma, adam = runs["launch"], runs["cmaes"], runs["adam"]
    vx, wy = values(best)["velocity along the ground"][0], values(best)["spin"][1]
    fine = deviation(best["confirm"]["terms"], "place")
    miss, rest = deviation(best["terms"], "place"), deviation(best["terms"], "rest")
    fewer = cma["simulations"] / best["simulations"] if cma["met"] else math.inf
    rows = [
        ["restitution, measured on a drop from 0.02 m", e, "0.49 to 0.51", abs(e - 0.5) < 0.01],
        ["distance from the target at 5 s [m]", miss, "at most 0.01", miss <= 0.01],
        ["velocity and spin left at 5 s [m/s, rad/s]", rest, "at most 0.01", rest <= 0.01],
        ["gradient iterations from standstill", best["iterations"], "at most 88", best["met"] and best["iterations"] <= 88],
        ["simulations", best["simulations"], "", None],
        ["simulations of CMA-ES to the same criterion", cma["simulations"], "met", cma["met"]],
        ["CMA-ES by gradient", fewer if math.isfinite(fewer) else "", "at least 10", fewer >= 10],
        ["|spin| / |velocity| of the launch [1/m]", abs(wy / vx), "4.995 to 5.005", abs(abs(wy / vx) / 5 - 1) <= 1e-3],
        ["distance at a quarter of the time step [m]", fine, "at most 0.05", fine <= 0.05],
        ["Adam: distance [m]", deviation(adam["terms"], "place"), "", None],
    ]
    path = npz.read(best["trajectory"])
    page = program.view(os.path.join(folder, "ball.xml"), best["trajectory"], "ball")
    curves = [curve(n, [h[1] for h in r["history"]], [h[2] for h in r["history"]])
              for n, r in (("Gauss-Newton", best), ("CMA-ES, without gradients", cma), ("Adam", adam))]
    time_of = path["time"]
    text = [f"A ball of 523.6 kg and 0.5 m radius, dropped 2 cm above the ground (friction 1). Its velocity and spin are found from standstill, so that "
            "after 5 s it lies at rest 10 m away. Only backspin does it: friction takes momentum and spin in a fixed ratio, so the spin must be 5.0 times the "
            f"velocity. Found: {vx:.3f} m/s and {abs(wy):.2f} rad/s."]
    return part("A throw that stops", f"at rest within {1e3 * miss:.1f} mm of its target, {fewer:.0f} times fewer simulations than CMA-ES", text,
                ["quantity", "measured", "required", ""], rows,
                [chart("Loss against simulations", "simulations", "least loss", *curves, logX=True, logY=True),
                 chart("The throw found", "time [s]", "place [m], velocity [m/s]", curve("place along the ground", time_of, [q[0] for q in path["qpos"]]),
                       curve("velocity along the ground", time_of, [v[0] for v in path["qvel"]]))],
                ["pullback optimize examples/ball/launch.json --page launch.html"], page, "0.12 -1.35 0.2 1")


# ---- the pendulum -----------------------------------------------------------------------------------------------------
def pendulum(program):
    folder, sigma, noise = fresh("pendulum"), 1e-3, random.Random(7)
    npz.write(os.path.join(folder, "start.npz"), {"qpos": [0.5]})

    def record(length, damping, gravity):
        run = program.simulate(folder, "pendulum.xml", "truth.npz", "--steps", 5000, "--init", os.path.join(folder, "start.npz"),
                               "--param", f"body_ipos:bob=0,0,{length!r}", "--param", f"dof_damping:hinge={damping!r}",
                               "--param", f"gravity=0,0,{gravity!r}")
        return run["time"][::10], run["sensordata"][::10]

    truth = [-1.7, 0.15, -9.81]
    times, clean = record(*truth)
    noisy = [[x + noise.gauss(0, sigma) for x in row] for row in clean]
    npz.write(os.path.join(folder, "recording.npz"), {"time": times, "sensordata": noisy})
    result = program.optimize(folder, "identify")
    least = least_deviations(lambda p: [x for row in record(*p)[1] for x in row], truth, sigma)
    columns, rows = estimates(["depth of the bob [m]", "damping [N m s/rad]", "gravity [m/s\u00b2]"], result, truth, least, 2)
    fit = npz.read(result["trajectory"])
    page = program.view(os.path.join(folder, "pendulum.xml"), result["trajectory"], "pendulum")
    text = [f"From 5 s of the bob's place with {sigma * 1e3:.0f} mm of noise: {effort(result)}. {SIGMA}"]
    return part("A pendulum\u2019s length, damping and gravity", "from where its bob was for 5 s, within a millimetre", text, columns, rows,
                [chart("Recording and fit", "time [s]", "sideways place of the bob [m]",
                       curve("recorded", times[::10], [s[0] for s in noisy[::10]], dots=True, colour=1),
                       curve("simulated with what was found", fit["time"][::5], [s[0] for s in fit["sensordata"][::5]], colour=0))],
                ["pullback optimize examples/pendulum/identify.json --page identify.html"], page, "0.02 -1.57 0.12 0.9")


# ---- the robot --------------------------------------------------------------------------------------------------------
def hopper(program):
    folder, sigma, noise = fresh("hopper"), 2e-3, random.Random(11)
    with open(os.path.join(folder, "identify.json"), encoding="utf-8") as f:
        task = json.load(f)
    npz.write(os.path.join(folder, "start.npz"), {"qpos": task["init"]["qpos"]})
    inputs = npz.read(os.path.join(folder, "servos.npz"))["control"]
    write_npy(os.path.join(folder, "servos.npy"), inputs)
    names = ("torso", "thigh", "shank", "foot")

    def record(*p):
        words = [w for n, m in zip(names, p) for w in ("--param", f"body_mass:{n}={m!r}")]
        run = program.simulate(folder, "hopper.xml", "truth.npz", "--init", os.path.join(folder, "start.npz"), "--control",
                               os.path.join(folder, "servos.npy"), "--constants", "recompute", *words,
                               "--param", f"geom_friction:foot={p[4]!r},0.005,0.0001")
        return run["time"][::5], run["sensordata"][::5]

    truth = [4.7, 2.1, 1.8, 0.8, 0.45]
    times, clean = record(*truth)
    noisy = [[x + noise.gauss(0, sigma) for x in row] for row in clean]
    npz.write(os.path.join(folder, "recording.npz"), {"time": times, "sensordata": noisy})
    result = program.optimize(folder, "identify")
    least = least_deviations(lambda p: [x for row in record(*p)[1] for x in row], truth, sigma)
    columns, rows = estimates([f"mass of the {n} [kg]" for n in names] + ["friction of the foot"], result, truth, least, 3)
    certificate = result["certificates"][0]
    fit = npz.read(result["trajectory"])
    page = program.view(os.path.join(folder, "hopper.xml"), result["trajectory"], "hopper")
    text = [f"From one second of torso and joints with {sigma * 1e3:.0f} mm and mrad of noise while known set-points move its servos; the foot strikes and "
            f"slips ({certificate['onsets']} onsets, {certificate['releases']} releases). Constants follow the masses. {effort(result)}. {SIGMA}"]
    return part("Masses and friction of a hopping robot", "five parameters from one second of motion", text, columns, rows,
                [chart("Recording and fit", "time [s]", "height of the torso [m]",
                       curve("recorded", times[::2], [s[2] for s in noisy[::2]], dots=True, colour=1),
                       curve("simulated with what was found", fit["time"], [s[2] for s in fit["sensordata"]], colour=0)),
                 chart("The knee", "time [s]", "angle of the knee [rad]",
                       curve("recorded", times[::2], [s[5] for s in noisy[::2]], dots=True, colour=1),
                       curve("simulated with what was found", fit["time"], [s[5] for s in fit["sensordata"]], colour=0))],
                ["pullback optimize examples/hopper/identify.json --page identify.html"], page, "0.35 -1.2 0.14 0.8")


# ---- deformables ------------------------------------------------------------------------------------------------------
def beam(program):
    folder, sigma, noise = fresh("beam"), 1e-4, random.Random(3)
    seen = [3 * (i + 9 * (j + 3 * k)) + c for k in (0, 2) for j in range(3) for i in range(1, 9) for c in range(3)]  # top and bottom of the box

    def measure(young, poisson):
        run = program.simulate(folder, "identify.json", "truth.npz", "--steps", 1, "--param", f"bar_rubber.young={young!r}", "--param",
                               f"bar_rubber.poisson={poisson!r}")
        return run["points"][1]

    truth = [2.3e5, 0.42]
    npz.write(os.path.join(folder, "recording.npz"), {"points": [[x + noise.gauss(0, sigma) for x in measure(*truth)]]})
    result = program.optimize(folder, "identify")
    least = least_deviations(lambda p: (lambda x: [x[i] for i in seen])(measure(*p)), truth, sigma)
    columns, rows = estimates(["Young\u2019s modulus [Pa]", "Poisson\u2019s ratio"], result, truth, least, 3)
    page = program.view(os.path.join(folder, "identify.json"), result["trajectory"], "beam")
    points = npz.read(result["trajectory"])["points"]
    sag = points[1][3 * 80 + 2] - 0.05
    text = [f"A bar of 20 cm, held at one end, sags by {-sag * 100:.1f} cm. From where {len(seen) // 3} points of its top and bottom are, within "
            f"{sigma * 1e3:.1f} mm: {effort(result, 'equilibria')}. Each equilibrium is one step, and its gradient exact. {SIGMA}"]
    middle = [3 * (i + 9 * (1 + 3 * 1)) for i in range(9)]
    line = lambda name, row, **how: curve(name, [points[row][i] for i in middle], [points[row][i + 2] for i in middle], **how)
    return part("What a rubber bar is made of", "its stiffness, from how far it sags", text, columns, rows,
                [chart("The bar\u2019s middle line", "along the bar [m]", "height [m]", line("before", 0, colour=7, dashed=True),
                       line("at rest under its weight", 1, colour=0))],
                ["pullback optimize examples/beam/identify.json --page identify.html"], page, "1 -1.1 0.25 0.85")


def chain(program):
    folder = fresh("chain")
    result = program.optimize(folder, "carry")
    place, swing = deviation(result["terms"], "place"), deviation(result["terms"], "swing")
    run = npz.read(result["trajectory"])
    rows = [["distance from the place, worst of all points [m]", place, "at most 0.01", place <= 0.01],
            ["velocity left [m/s]", swing, "at most 0.02", swing <= 0.02]]
    page = program.view(os.path.join(folder, "carry.json"), result["trajectory"], "chain")
    text = [f"A load hangs by a chain of springs from a hand. The hand\u2019s path was found in {effort(result)}."]
    return part("A load carried without swinging", "the path of a hand", text, ["quantity", "measured", "required", ""], rows,
                [chart("The path found", "time [s]", "to the side [m]", curve("hand", run["time"], [x[0] for x in run["points"]]),
                       curve("load", run["time"], [x[18] for x in run["points"]]))],
                ["pullback optimize examples/chain/carry.json --page carry.html"], page, "0.3 -1.5 0.1 1")


# ---- policies ---------------------------------------------------------------------------------------------------------
def test(program, folder, task, starts, steps, every=1):
    """Runs of what was learned from states that no training had."""
    for k, start in enumerate(starts):
        path = os.path.join(folder, f"start-{k}.npz")
        npz.write(path, start)
        yield program.simulate(folder, task + ".json", f"test-{k}.npz", "--policy", os.path.join(folder, task + ".npz"), "--init", path, "--steps", steps,
                               "--every", every)


def learned(columns):
    steps, loss = zip(*columns["loss"])
    curves = [curve("worlds that learn", steps, loss)]
    if columns["evaluated"]:
        curves.append(curve("evaluated", *zip(*columns["evaluated"]), dots=True))
    return chart("Learning", "steps of all robots together", "loss a decision", *curves)


def of_training(columns, seconds):
    return [["steps of training, all robots together", columns["loss"][-1][0], "", None], ["seconds of training", float(f"{seconds:.3g}"), "", None]]


def reach(program, folder):
    """(worst distance of the hand at the end, largest torque, fastest joint, [(times, distances)]) from eight other starts."""
    draw, target = random.Random(5), (0.5, 0.5, 0.5)
    starts = [{"qpos": [draw.uniform(-0.3, 0.3) for _ in range(4)]} for _ in range(8)]
    apart, torque, speed, shown = [], 0, 0, []
    for run in test(program, folder, "reach", starts, 800):
        way = [math.dist(s[:3], target) for s in run["sensordata"]]
        apart.append(max(way[-100:]))
        shown.append((run["time"][::10], way[::10]))
        speed = max(speed, max(abs(v) for row in run["qvel"] for v in row))
        torque = max(torque, max(abs(f) for s in run["sensordata"] for f in s[3:]))
    return max(apart), torque, speed, shown


def arm(program):
    folder = fresh("arm")
    columns, seconds = program.train(folder, "reach")
    apart, torque, speed, shown = reach(program, folder)
    rows = [["hand to target in the last of 8 s, worst of 8 other starts [m]", apart, *bounded("arm", "hand", apart)],
            ["largest torque [N m]", torque, "at most 200", torque <= 200 * (1 + 1e-9)],
            ["fastest joint [degrees/s]", math.degrees(speed), "45 where the torque suffices", None], *of_training(columns, seconds)]
    page = program.view(os.path.join(folder, "arm.xml"), os.path.join(folder, "test-1.npz"), "arm")
    text = ["A network of some 5000 weights sees hand and joints and gives four servos their set-points, five times a second. It learns by gradients through "
            "whole episodes of 8 s, six arms at a time; the servos turn no faster than 45 degrees a second as long as their torque suffices.",
            "The hand\u2019s distance: " + over_seeds("arm", "hand", "mm", 1000)]
    ways = [curve(f"start {k + 1}", *s) for k, s in enumerate(shown)]
    return part("An arm that learns to reach", f"learnt in {seconds:.0f} s; {1e3 * apart:.0f} mm from its target at worst", text,
                ["quantity", "measured", "required", ""], rows, [learned(columns), chart("From other starts", "time [s]", "hand to target [m]", *ways)],
                ["pullback train examples/arm/reach.json -o reach.npz"], page, "0.45 -0.5 0.3 0.75")


def walk(program, folder):
    """(runs of the policy that was learned from other starts, their speeds, the lowest trunk)."""
    draw = random.Random(7)
    some = lambda n: [draw.uniform(-0.17, 0.17) for _ in range(n)]
    starts = [{"qpos": [0, 0, 0.4, 1, 0, 0, 0] + some(8), "qvel": some(3) + [0] * 11} for _ in range(4)]
    runs = list(test(program, folder, "walk", starts, 6400, every=10))
    return runs, [run["qpos"][-1][0] / run["time"][-1] for run in runs], min(q[2] for run in runs for q in run["qpos"])


def quadruped(program):
    folder = fresh("quadruped")
    columns, seconds = program.train(folder, "walk")
    runs, speeds, low = walk(program, folder)
    speed = sum(speeds) / len(speeds)
    rows = [["speed over 8 s, mean of 4 other starts [m/s]", speed, *bounded("quadruped", "speed", speed)], ["slowest of them [m/s]", min(speeds), "", None],
            ["lowest trunk [m]", low, *bounded("quadruped", "trunk", low)], *of_training(columns, seconds)]
    page = program.view(os.path.join(folder, "quadruped.xml"), os.path.join(folder, "test-0.npz"), "quadruped")
    text = ["28.7 kg on eight servos of 40 N m. A network sees trunk, joints and a clock, and decides 50 times a second; gradients of windows of 0.64 s "
            "through the physics, with a critic behind each, teach it (`shac`).", "The speed: " + over_seeds("quadruped", "speed", "m/s")]
    ways = [curve(f"start {k + 1}", run["time"][::4], [q[0] for q in run["qpos"]][::4]) for k, run in enumerate(runs)]
    return part("A quadruped that learns to run", f"{speed:.2f} m/s, learnt in {seconds:.0f} s on this machine", text,
                ["quantity", "measured", "required", ""], rows, [learned(columns), chart("From other starts", "time [s]", "way [m]", *ways)],
                ["pullback train examples/quadruped/walk.json -o gait.npz"], page, "0.5 -0.9 0.22 0.7")


# ---- what was measured before ------------------------------------------------------------------------------------------
def contacts():
    """Of `make bench-contacts`: each method and mode over the scenes that it was run on, in the middle."""
    with open(os.path.join(ROOT, "bench", "results", "contacts.csv"), newline="", encoding="utf-8") as f:
        found = [r for r in csv.DictReader(f) if r["mode"] != "-"]
    middle = lambda rows, name: float(f"{statistics.median(float(r[name]) for r in rows):.2g}")
    rows = []
    for method, mode in dict.fromkeys((r["method"], r["mode"]) for r in found):
        own = [r for r in found if (r["method"], r["mode"]) == (method, mode)]
        rows.append([f"{method}, {mode}", middle(own, "forward"), middle(own, "gradient"), middle(own, "cost"), len(own), None])
    text = ["Scenes whose answer is known, run with each method and gradient mode: relative errors, and the time of a run with its gradient beside that of "
            "`soft, exact`; the middle of all scenes. Measured by `make bench-contacts`; docs/contact-gradients.md says which to use when."]
    return part("Contact methods side by side", "", text, ["method, mode", "error of the motion", "error of the gradient", "cost", "scenes", ""], rows, [],
                ["make bench-contacts"])


# By name, the seconds that each takes on two cores that do nothing else, and the order in which they are computed: the shortest first, so that there
# is something to be seen at once.
PARTS = {"chain": (chain, 1), "beam": (beam, 1), "ball": (ball, 5), "hopper": (hopper, 2), "pendulum": (pendulum, 4), "arm": (arm, 8),
         "quadruped": (quadruped, 40)}
SHOWN = ("quadruped", "arm", "hopper", "ball", "beam", "chain", "pendulum")  # the order on the page
