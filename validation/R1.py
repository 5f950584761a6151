"""A walking robot and all weights of its network

The way of a quadruped of 13 bodies and 16 servos over 10 s by all weights of the network that drives it: the table of seed 002, each
gradient checked in the run that is timed. One layer of 1 296 weights or two hidden ones of 1 024 units (1 147 904), one robot or 128."""
import os
import subprocess

from common import ROOT, Row, below, inside, reported, row

MODEL = os.path.join(ROOT, "validation", "walker.xml")
PEAK = 2048  # MiB
# robots, network, seconds forward, with gradient: required; what the seed took on one core of 2014; how it is run
CELLS = [
    (1, "small", 0.03, 0.08, (1.06, 8.17), ["--rounds", 9]),
    (1, "large", 0.5, 1.6, (2.04, 13.2), ["--rounds", 3]),
    (128, "small", 2, 4, (47.7, 263), ["--threads", 2, "--compare", 8]),
    (128, "large", 10, 40, (50.4, 311), ["--threads", 2, "--compare", 2]),
]
RATIO = {"small": 3.5, "large": 4}


def run(network, robots, words):
    program = os.path.join(inside.build_dir(), "bench", "robots")
    done = subprocess.run([program, MODEL, network, str(robots), *map(str, words)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"robots {network} {robots}: {done.stderr}")
    return {name: float(value) for name, value in (line.split(",") for line in done.stdout.split())}


def seconds(cell, what, measured, required, seed, load):
    """Seconds count on idle cores; a row measured beside other work says so, and does not hold beyond its bound either."""
    beside = "" if load < 0.5 else f", measured under load ({load:.1f} before)"
    return Row(f"{cell}: {what} [s]; seed 002: {seed} s{beside}", measured, f"<= {required:g}", measured <= required, True)


def cell_rows(robots, network, forward, gradient, seed, words):
    cell = f"{robots} robot{'s' * (robots > 1)}, {network} network"
    load = os.getloadavg()[0]
    found = run(network, robots, words)
    clock = "wall" if robots > 1 else "processor"
    compared = f", of the first {words[words.index('--compare') + 1]} robots alone" if robots > 1 else ""
    rows = [
        seconds(cell, "1 000 steps forward", found[f"forward_{clock}_s"], forward, seed[0], load),
        seconds(cell, "with gradient", found[f"with_gradient_{clock}_s"], gradient, seed[1], load),
        below(f"{cell}: time with gradient / forward (seed 002: {seed[1] / seed[0]:.1f})", found["ratio"], RATIO[network]),
        below(f"{cell}: reverse against forward mode, 1 000 steps, 20 directions of all weights" + compared, found["modes"], 1e-9),
        below(f"{cell}: memory at its peak [MiB]", found["peak_mib"], PEAK),
    ]
    if "modes_of_all" in found:
        rows.append(below(f"{cell}: the same for the sum over all robots, first 50 steps, two directions", found["modes_of_all"], 1e-9))
    if robots > 1:
        return rows
    floating = run(network, robots, ["--floating", "--short", 1000])
    return rows + [
        below(f"{cell}: gradient of the first 50 steps against differences, 20 directions", found["differences"], 1e-6),
        below(f"{cell}: gradient of 1 000 steps without ground and gravity against differences", floating["differences"], 1e-6),
        row(f"{cell}: every joint moves at least [rad]", found["least_motion_rad"], ">= 0.01", found["least_motion_rad"] >= 0.01),
        reported(f"{cell}: growth of the costate over 10 s, ln", found["growth"]),
    ]


def rows():
    subprocess.run(["cmake", "--build", inside.build_dir(), "--target", "bench_robots"], check=True, capture_output=True)
    return [r for cell in CELLS for r in cell_rows(*cell)]
