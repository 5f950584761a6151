#!/usr/bin/env python3
"""Nine parameters of a real acrobot, found here and by mujoco.sysid from the same six recordings (validation/data), cut into windows of a second, and
how far both are off over a second on the three runs held out. Table, and bench/results/sysid.csv.   make bench-sysid

mujoco.sysid has an environment of its own (bench/sysid.txt, build/sysid). Both begin at the published parameters, compare angles alone, and use one
thread. There a window begins at what its first samples show, as with start="log" here; with start="free", which has no counterpart there, where windows
begin is unknown, too. Its residuals are divided by the size of each window's samples, which is its default, and once not, by a function of one's own
that it takes for this. Errors of all are by the same rollouts (validation/recordings.py). Code that is counted: what the functions below have, without
docstrings, comments and blank lines.

  bench/sysid.py [--build DIR]
"""
import argparse
import ast
import csv
import inspect
import json
import os
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROBOT, WINDOW = "acrobot_A0", 1.
JOINTS, BODIES = ("shoulder", "elbow"), ("upper", "lower")


# ---- here ---------------------------------------------------------------------------------------------------------------------------
def ours(model, logs, start):
    import pullback as pb
    inertia = {b: float(pb.load(model).params[f"body_inertia:{b}"][0]) for b in BODIES}
    unknowns = [{"parameter": f"body_ipos:{b}:2", "scale": .1} for b in BODIES]
    unknowns += [{"name": b, "start": inertia[b], "lower": 1e-5, "scale": .01, "sets": {f"body_inertia:{b}:{k}": "z" for k in range(3)}} for b in BODIES]
    unknowns += [{"name": "rotor", "start": 7.66e-5, "lower": 0, "scale": 1e-4, "sets": {"tendon_armature:rotor": "z", "dof_armature:shoulder": "36*z"}}]
    unknowns += [{"parameter": f"dof_{what}:{j}", "lower": 0, "scale": scale} for what, scale in (("damping", .01), ("frictionloss", .05)) for j in JOINTS]
    renamed = [{"time": log["time"], **{j: log[j] for j in JOINTS}, **{f"control:{j}": log[f"{j}_command"] for j in JOINTS}} for log in logs]
    return pb.identify(model, renamed, unknowns, window=WINDOW, start=start, threads=1)


# ---- in the environment of mujoco.sysid ---------------------------------------------------------------------------------------------
def plain(params, predicted, measured, model, return_all, state):
    """Residuals that are differences alone."""
    from mujoco import sysid
    series = sysid.TimeSeries(state[:, 0], state[:, 1:1 + model.nq], measured.signal_mapping)
    measured = sysid.apply_delayed_ts_window(measured, series, 0, 0)
    series = series.resample(measured.times)
    return series.data - measured.data, series, measured


def theirs(model, logs, residual):
    import mujoco
    import numpy as np
    from mujoco import sysid
    spec = mujoco.MjSpec.from_file(model)
    compiled = spec.compile()
    named = [(j, sysid.SignalType.MjStateQPos) for j in JOINTS]
    starts, controls, angles = [], [], []
    for log in logs:
        time, q, u = log["time"], np.stack([log[j] for j in JOINTS], 1), np.stack([log[f"{j}_command"] for j in JOINTS], 1)
        for begin in np.arange(time[0], time[-1] - WINDOW, WINDOW):
            grid = begin + np.arange(round(WINDOW / spec.option.timestep) + 1) * spec.option.timestep
            held = u[np.clip(np.searchsorted(time, grid, side="right") - 1, 0, None)]
            near = np.argsort(np.abs(time - begin), kind="stable")[:4]
            slope, _ = np.polyfit(time[near] - begin, q[near], 1)
            at = np.array([np.interp(begin, time, column) for column in q.T])
            inside = (time >= begin) & (time <= grid[-1])
            starts.append(sysid.create_initial_state(compiled, at, slope))
            controls.append(sysid.TimeSeries.from_control_names(grid - begin, held, compiled))
            angles.append(sysid.TimeSeries.from_names(time[inside] - begin, q[inside], compiled, named))
    params = sysid.ParameterDict()

    def unknown(name, value, least, most, change):
        params.add(sysid.Parameter(name, value, least, most, modifier=lambda s, p: change(s, float(p.value[0]))))
    for b in BODIES:
        unknown(f"body_ipos:{b}:2", spec.body(b).ipos[2], -1, 0, lambda s, x, b=b: s.body(b).ipos.__setitem__(2, x))
        unknown(f"body_inertia:{b}", spec.body(b).inertia[0], 1e-5, .1, lambda s, x, b=b: s.body(b).inertia.__setitem__(slice(3), x))

    def rotor(s, x):
        s.tendon("rotor").armature, s.joint("shoulder").armature = x, 36 * x
    unknown("rotor", spec.tendon("rotor").armature, 0, 1e-2, rotor)
    for j in JOINTS:
        unknown(f"dof_damping:{j}", spec.joint(j).damping[0], 0, 1, lambda s, x, j=j: s.joint(j).damping.__setitem__(0, x))
        unknown(f"dof_frictionloss:{j}", spec.joint(j).frictionloss, 0, 1, lambda s, x, j=j: setattr(s.joint(j), "frictionloss", x))
    names = [f"window {k}" for k in range(len(starts))]
    sequences = sysid.ModelSequences("acrobot", spec, names, starts, controls, angles, allow_missing_sensors=True)
    call = sysid.build_residual_fn(models_sequences=[sequences], modify_residual=residual, n_threads=1)
    found, _ = sysid.optimize(params, call, verbose=False)
    return {name: float(found[name].value[0]) for name in params.keys()}


# ---- beside it ----------------------------------------------------------------------------------------------------------------------
def lines(*functions):
    """Of code: without docstrings, comments and blank lines."""
    count = 0
    for function in functions:
        text = inspect.getsource(function)
        words = ast.parse(text).body[0].body
        documented = words[0] if isinstance(words[0], ast.Expr) and isinstance(words[0].value, ast.Constant) else None
        skipped = range(documented.lineno, documented.end_lineno + 1) if documented else ()
        count += sum(1 for k, line in enumerate(text.splitlines(), 1) if line.strip() and not line.strip().startswith("#") and k not in skipped)
    return count


def seconds(call):
    """What a call gives, and its seconds of processor time: whatever else the machine does, both use one thread."""
    begin = time.process_time()
    return call(), time.process_time() - begin


def given():
    """The model's file and the logs to fit."""
    sys.path.insert(0, os.path.join(ROOT, "validation"))
    import recordings
    return recordings.path(recordings.MODELS[ROBOT]), [recordings.load(name) for name in recordings.names(ROBOT, False)]


def serve(divided):
    """In the environment of mujoco.sysid: what it finds, as a line of JSON."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what packages print is no answer
    import mujoco
    model, logs = given()
    found, spent = seconds(lambda: theirs(model, logs, None if divided else plain))
    print(json.dumps({"found": found, "seconds": spent, "version": mujoco.__version__}), file=answers)


def params_of(found):
    """What mujoco.sysid found as parameters of the model."""
    out = {name: [value] for name, value in found.items() if name != "rotor"}
    out.update({name: value * 3 for name, value in out.items() if name.startswith("body_inertia")})
    return {**out, "tendon_armature:rotor": [found["rotor"]], "dof_armature:shoulder": [36 * found["rotor"]]}


def measure(build):
    """Columns of the table."""
    sys.path.insert(0, os.path.join(build, "python"))
    model, logs = given()
    import pullback as pb
    import recordings
    held, begun = [recordings.log(name) for name in recordings.names(ROBOT, True)], pb.load(model)
    said = lambda m, params=None: "{:.4f}, {:.4f}, {:.4f}".format(*recordings.error(m, held, params))
    columns = [("published", "", said(begun), "", "", "")]
    for start in ("free", "log"):
        fit, spent = seconds(lambda: ours(model, logs, start))
        columns.append((f"pb.identify, start={start}", pb.__version__, said(pb.load(model, result=fit)), f"{spent:.1f}", lines(ours),
                        fit["uncertainty"]["warning"] or ""))
    for divided in (False, True):
        words = [os.path.join(ROOT, "build/sysid/bin/python"), __file__, "--serve", *(["--divided"] if divided else [])]
        answer = json.loads(subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT).stdout)
        columns.append((f"mujoco.sysid, {'its own residuals' if divided else 'plain residuals'}", answer["version"], said(begun, params_of(answer["found"])),
                        f"{answer['seconds']:.1f}", lines(theirs) if divided else lines(theirs, plain), ""))
    return columns


def main():
    parser = argparse.ArgumentParser(description="Parameters of an acrobot, found here and by mujoco.sysid.")
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "release"))
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--divided", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.serve:
        return serve(asked.divided)

    header = ("by", "version", "error rad all mean median", "processor s", "lines", "warning")
    table = [header, *measure(asked.build)]
    with open(os.path.join(ROOT, "bench", "results", "sysid.csv"), "w", newline="", encoding="utf-8") as f:
        csv.writer(f, lineterminator="\n").writerows(table)
    for line in table:
        print("{:32} {:10} {:26} {:>12} {:>6}".format(*map(str, line[:5])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
