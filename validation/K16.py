"""Four thousand worlds at once, one of them diverging

4 096 hoppers that fall on the ground from starts of their own, with masses and controls of their own, simulated and pulled back in one run of
the program, on one thread and on two; one of them is thrown beyond all bounds. Each world is what it is alone, to the bit."""
import json
import os
import resource
import time

import numpy as np

from common import ROOT, Bench, below, reported, row, timing

MODEL = os.path.join(ROOT, "examples", "hopper", "hopper.xml")
WORLDS, STEPS, LOST = 4096, 60, 2718
SAMPLE = (0, 7, 8, 1000, LOST - 1, LOST + 1, 4095)
FEW = 16  # first worlds, whose gradients are added one by one


def draw():
    """Arrays with the worlds as their first axis, and cotangents of the last states."""
    r = np.random.default_rng(16)
    qpos = np.array([0, -.1, 0, -.55, 1.1, -.55]) + r.uniform(-.15, .15, (WORLDS, 6))
    qvel = r.uniform(-1, 1, (WORLDS, 6))
    qpos[LOST, 0], qvel[LOST, 0] = 1e10 - 1e8, 5e9
    arrays = {"qpos": qpos, "qvel": qvel, "control": r.uniform(-.8, .8, (WORLDS, STEPS, 3)), "param/body_mass:torso": r.uniform(2, 6, WORLDS)}
    return arrays, {"qpos": r.standard_normal((WORLDS, 6)), "qvel": r.standard_normal((WORLDS, 6))}


def together(bench, command, threads, *words):
    """Arrays of a run with all worlds, its processor time and its time."""
    before, clock = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    bench.run(command, MODEL, "-q", "--worlds", "worlds.npz", "--threads", threads, "-o", "all.npz", *words, codes=(4,))  # 4: one fails
    after, seconds = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - clock
    with np.load(bench.path("all.npz")) as f:
        return {k: f[k] for k in f.files}, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, seconds


def alone(bench, arrays, bars, k):
    """Last state and gradient of world k in runs of its own."""
    init = {"qpos": arrays["qpos"][k], "qvel": arrays["qvel"][k]}
    words = ["--control", bench.write("control.npy", arrays["control"][k])]
    mass = {"body_mass:torso": arrays["param/body_mass:torso"][k]}
    state = bench.simulate(MODEL, *words, init=init, params=mass)
    return state, bench.gradient(MODEL, {n: v[k] for n, v in bars.items()}, *words, init=init, params=mass)


def equal(a, b):
    return a.keys() == b.keys() and all(np.array_equal(a[k], b[k], equal_nan=a[k].dtype.kind == "f") for k in a)


def same_alone(bench, arrays, bars, states, gradients):
    """How many of the sampled worlds differ in a bit from runs of their own; the sum over the first worlds against theirs, relative."""
    differ, sums = 0, {}
    for k in sorted({*range(FEW), *SAMPLE}):
        state, own = alone(bench, arrays, bars, k)
        same = all(np.array_equal(states[n][k, -1], state[n][-1]) for n in ("time", "qpos", "qvel", "qacc_warmstart"))
        same &= all(np.array_equal(gradients[n][k], own[n]) for n in ("qpos", "qvel", "control"))
        differ += not (same and gradients["param/body_mass:torso"][k] == own["param/body_mass"][1])
        for n, value in own.items():
            if k < FEW and n.startswith("param/") and n != "param/body_mass":
                sums[n] = sums.get(n, 0) + value
    bench.write("worlds.npz", {n: v[:FEW] for n, v in arrays.items()})
    bench.write("bar.npz", {n: v[:FEW] for n, v in bars.items()})
    bench.run("gradient", MODEL, "-q", "--worlds", "worlds.npz", "--cotangent", "bar.npz", "-o", "few.npz")
    with np.load(bench.path("few.npz")) as f:
        apart = max(np.abs(f[n] - v).max() / max(np.abs(v).max(), 1e-300) for n, v in sums.items() if v.size)
    return differ, apart


def rows():
    arrays, bars = draw()
    with Bench() as bench:
        bench.write("worlds.npz", arrays)
        bench.write("bar.npz", bars)
        runs = {t: (together(bench, "simulate", t, "--every", STEPS), together(bench, "gradient", t, "--cotangent", "bar.npz")) for t in (1, 2)}
        (states, _, _), (gradients, spent, seconds) = runs[1]
        others = np.arange(WORLDS) != LOST
        lost = int(states["steps_done"][LOST])
        differ, apart = same_alone(bench, arrays, bars, states, gradients)
    distinct = len(np.unique(states["qpos"][others, -1], axis=0))
    failed = json.loads(str(states["meta"]))["failed"]
    return [
        row("worlds that end in states of their own", distinct, f">= {WORLDS - 1}", distinct >= WORLDS - 1),
        row("worlds that are reported as failed", failed, "1", failed == 1),
        row(f"the one thrown beyond bounds stops after so many of {STEPS} steps", lost, "1 .. 59", 1 <= lost < STEPS),
        row("others that came to their end", int((states["steps_done"][others] == STEPS).sum()), f"{WORLDS - 1}", (states["steps_done"][others] == STEPS).all()),
        row("gradients of the others that are finite", bool(np.isfinite(gradients["qvel"][others]).all() and np.isnan(gradients["qvel"][LOST]).all()), "True",
            np.isfinite(gradients["qvel"][others]).all() and np.isnan(gradients["qvel"][LOST]).all() and np.isfinite(gradients["param/gravity"]).all()),
        row("arrays of states and gradients on two threads that differ in a bit from one's", int(not equal(states, runs[2][0][0])) + int(not equal(gradients, runs[2][1][0])), "0",
            equal(states, runs[2][0][0]) and equal(gradients, runs[2][1][0])),
        row(f"of {len({*range(FEW), *SAMPLE})} worlds run alone, those that differ in a bit", differ, "0", differ == 0),
        below(f"gradient by shared parameters, of {FEW} worlds, against the sum of runs alone, relative", apart, 1e-12),
        timing("processor time of the gradient on two threads by that on one", runs[2][1][1] / spent, "<= 1.15", runs[2][1][1] <= 1.15 * spent),
        reported("time of the gradient on one thread by that on two (as free as the cores are)", seconds / runs[2][1][2]),
        reported("steps with gradient a second of processor time", WORLDS * STEPS / spent),
    ]
