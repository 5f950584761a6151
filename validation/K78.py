"""Ill-conditioned worlds

Ill-conditioned worlds: mass ratios up to 1:1e6 and joints held several times over either converge or say what is wrong."""

import numpy as np

from common import Bench, apart, below, contact, row
import inside

HALF, STEPS, H, ERP = 0.1, 300, 0.002, 0.2
STACK = """<mujoco><option timestep="{}" cone="{}"/><worldbody><geom name="floor" type="plane" size="0 0 1"/>{}</worldbody></mujoco>"""
BOX = '<body pos="0 0 {}"><freejoint/><geom name="box{}" type="box" size="{} {} {}" mass="{}"/></body>'
RATIOS, KINDS = (1e2, 1e4, 1e6), {"heavy on light": [1, 0], "light on heavy": [0, 1], "ten, alternating": [1, 0] * 5}
# A plate held by a weld, the same weld again, and connects at three corners: 21 equations for 6 freedoms.
PLATE = """<mujoco><option timestep="0.002"/><worldbody><body name="plate" pos="0 0 1"><freejoint/><geom type="box" size=".3 .2 .02" mass="{}"/>
<body name="arm" pos=".3 0 0"><joint type="hinge" axis="0 1 0"/><geom type="capsule" size=".02" fromto="0 0 0 .4 0 0" mass="{}" contype="0"
conaffinity="0"/></body></body></worldbody><equality>{}</equality></mujoco>"""
WELD, CORNERS = '<weld body1="plate"/>', "".join(f'<connect body1="plate" anchor="{x} {y} 0"/>' for x, y in ((0.3, 0.2), (-0.3, 0.2), (0.3, -0.2)))


def outcome(path, masses, cfm, closed):
    """What became of a stack: "stands", "error" or "warned" (both with a condition number); else "garbage"."""
    m = contact(inside.Model(path), erp=ERP, cfm=cfm)
    x, told = m.init(), False
    try:
        for _ in range(STEPS):
            x, _ = m.step(x)
            told |= not m.report().converged and m.report().condition > 1e10
    except inside.Error as error:
        return "error" if "condition number" in str(error) and "contact of geom" in str(error) else f"garbage ({error})"
    z = m.parts(x)[0].reshape(-1, 7)[:, 2]
    sink = 2 * HALF - np.diff(z, prepend=-HALF)
    carried = np.cumsum(masses[::-1])[::-1] * 9.81 / 4  # by each of four corners
    expected = H * cfm * carried / ERP
    good = np.all(np.abs(sink - expected) <= 1e-3 * expected + 1e-6) if closed else np.all((sink > -1e-6) & (sink <= expected + 1e-6))
    return "stands" if good and not told else "warned" if told else f"garbage ({sink} for {expected})"


def plate(bench, masses, equalities, cfm):
    m = contact(inside.Model(bench.write("plate.xml", PLATE.format(*masses, equalities))), erp=ERP, cfm=cfm)
    x, worst = m.init(), 0.0
    for _ in range(STEPS):
        x, _ = m.step(x)
        worst = max(worst, m.report().residual)
    return m.parts(x)[:2], worst


def failure(bench):
    boxes = "".join(BOX.format(HALF * (2 * k + 1), k, HALF, HALF, HALF, m) for k, m in enumerate((1e-6, 1, 1e-6, 1)))
    try:
        bench.simulate(bench.write("stack.xml", STACK.format(H, "elliptic", boxes)), "--steps", 10, "--contact", f"erp={ERP}", "--contact", "cfm=0")
    except RuntimeError as error:
        return str(error).split(": ", 1)[1].strip()
    return "nothing"


def hard_stacks(bench, method):
    """Stacks of every kind and ratio as hard contact: how far they give in .6 s by ratio, and solves that did not converge."""
    moved, failed, h = {}, 0, 0.01
    for ratio in RATIOS:
        for light in KINDS.values():
            masses = np.where(light, 1 / ratio, 1.0)
            boxes = "".join(BOX.format(HALF * (2 * k + 1) - 1e-6 * (k + 1), k, HALF, HALF, HALF, m) for k, m in enumerate(masses))
            m = contact(inside.Model(bench.write("stack.xml", STACK.format(h, "elliptic", boxes))), method=method, erp=ERP, cfm=0)
            first = x = m.init()
            for _ in range(60):
                x, _ = m.step(x)
                failed += not m.report().converged
            moved[ratio] = max(moved.get(ratio, 0), float(np.abs(m.parts(x)[0] - m.parts(first)[0]).max()))
    return moved, failed


def rows():
    found, silent = {}, []
    with Bench() as bench:
        for ratio in RATIOS:
            for name, light in KINDS.items():
                masses = np.where(light, 1 / ratio, 1.0)
                boxes = "".join(BOX.format(HALF * (2 * k + 1), k, HALF, HALF, HALF, m) for k, m in enumerate(masses))
                for cone in ("elliptic", "pyramidal"):
                    path = bench.write("stack.xml", STACK.format(H, cone, boxes))
                    for cfm in (1e-6, 1e-8, 0.0):
                        o = outcome(path, masses, cfm, cone == "elliptic")
                        found.setdefault((ratio, cfm), []).append(o)
                        if o.startswith("garbage"):
                            silent.append(f"{name}, {ratio:g}, {cone}, cfm {cfm:g}: {o}")
        soft = [o for (_, cfm), all_ in found.items() for o in all_ if cfm > 0]
        hard = [o for (_, cfm), all_ in found.items() for o in all_ if cfm == 0]
        (q, v), residual = plate(bench, (1, 1e6), WELD + WELD + CORNERS, 1e-14)
        (q1, v1), _ = plate(bench, (1, 1e6), WELD, 1e-14)
        words = failure(bench)
        by_method = {method: hard_stacks(bench, method) for method in ("cones", "lcp")}
    return [
        row(f"stacks of mass ratio 1:1e2 .. 1:1e6 with force mixing 1e-6, 1e-8: stand as deep as the closed form, of {len(soft)}", soft.count("stands"), str(len(soft)), soft.count("stands") == len(soft)),
        row(f"the same as hard as numbers allow (cfm 0): stand / warn / fail with constraint and condition number, of {len(hard)}",
            " / ".join(str(hard.count(w)) for w in ("stands", "warned", "error")), "reported", True),
        row("stacks wrong without a word" + "".join("; " + s for s in silent), len(silent), "0", not silent),
        below("plate of 1 kg with an arm of 1e6 kg, held by 21 equations for 6 freedoms: worst residual of a solve", residual, 1e-8),
        below("... its motion against that with 6 equations, relative", max(apart(q, q1), apart(v, v1)), 1e-6),
        row("a stack too stiff to solve: " + words, "yes" if "condition number" in words and "geom 'box" in words else "no", "an error with constraint and condition number", "condition number" in words and "geom 'box" in words),
    ] + [r for method, (moved, failed) in by_method.items() for r in (
        row(f"method {method}, the same stacks: steps that did not converge", failed, "0", failed == 0),
        below(f"method {method}: most they move in .6 s, ratios 1:1e2 .. 1:1e6 [m]", max(moved.values()), 2e-5))]
