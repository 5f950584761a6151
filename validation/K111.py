"""Solves that do not converge

Solves that do not converge: a status per step with the residual and the constraint's name, from the library and from every command."""
import json
import re
import subprocess

import numpy as np

from common import Bench, PROGRAM, row
import inside

# A box with named geoms comes down askew on others, stopped after one iteration a step: far from its solution whenever contacts change.
PILE = """<mujoco><option timestep="0.005" cone="elliptic"/><worldbody><geom name="floor" type="plane" size="0 0 1"/>{}</worldbody></mujoco>"""
BOX = '<body pos="{} 0 {}" euler="0 {} 0"><freejoint/><geom name="{}" type="box" size=".1 .1 .1" mass="{}"/></body>'
NAMES, STEPS = ["low", "middle", "top"], 150


def told(status, residual, name):
    return status and residual > 1e-6 and re.fullmatch(r"contact of geom '\w+' and geom '\w+'", name)


def rows():
    boxes = "".join(BOX.format(0.03 * k, 0.12 + 0.23 * k, 7 * k - 5, name, 1 + k) for k, name in enumerate(NAMES))
    with Bench() as bench:
        path = bench.write("pile.xml", PILE.format(boxes))
        l = inside.native
        m, exact = inside.Model(path, {"iterations": 1}), inside.Model(path)
        x, short, silent, named, wrong = m.init(), 0, 0, 0, 0.0
        for _ in range(STEPS):
            y, _ = exact.step(x)
            x, _ = m.step(x)
            r, name = m.report(), l.pbScratch_WorstRow(m.scratch).decode()
            error = float(np.abs(m.parts(x)[1] - exact.parts(y)[1]).max())
            short += not r.converged
            named += bool(told(not r.converged, r.residual, name))
            if r.converged:
                silent += bool(name) or error > 1e-4
                wrong = max(wrong, error)
        bench.write("cotangent.npz", {"qpos": np.ones(m.nv)})
        outcome, counts = {}, set()
        for command, words in {"simulate": [], "gradient": ["--cotangent", "cotangent.npz"], "check": ["--json", "--horizon", STEPS]}.items():
            more = ["-o", "o.npz", "--steps", STEPS] if command != "check" else []
            done = subprocess.run([PROGRAM, command, path, "-q", "--option", "iterations=1", *map(str, words + more)], capture_output=True, text=True,
                                  cwd=bench.folder)
            warned = re.search(r"relative residual [\d.e+-]+ at the contact of geom '\w+' and geom '\w+', the worst of (\d+) steps", done.stderr)
            outcome[command] = bool(warned) and (done.returncode == 0) == (command != "check")
            if command == "check":
                outcome[command] &= any("contact of geom" in f["why"] for f in json.loads(done.stdout)["findings"] if f["what"] == "unconverged solve")
            else:
                with np.load(bench.path("o.npz")) as f:
                    solver = json.loads(str(f["meta"]))["solver"]
                outcome[command] &= solver["unconverged"] == int(warned[1]) and solver["worst_row"] in done.stderr
                counts.add(solver["unconverged"])
    return [
        row(f"steps of {STEPS} whose solve was cut short after one iteration", short, "> 10", short > 10),
        row("of these, with status, residual above 1e-6 and the contact's geoms", named, str(short), named == short),
        row("steps that said nothing and were off", silent, "0", silent == 0),
        row("velocity after steps that called themselves converged against the exact step, worst [m/s, rad/s]", wrong, "<= 1e-4", wrong <= 1e-4),
        row("simulate, gradient and check warn with residual, constraint and count: " + ", ".join(outcome), sum(outcome.values()), "3", all(outcome.values())),
        row("simulate and gradient count the same steps", "yes" if counts == {short} else f"{counts}, library {short}", "yes", counts == {short}),
    ]
