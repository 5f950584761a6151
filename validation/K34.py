"""Contact methods and gradient modes side by side

Contact methods and gradient modes side by side, by the code of bench/contacts.py, which prints the whole table."""
import os
import sys

from common import ROOT, Bench, below, row

sys.path.append(os.path.join(ROOT, "bench"))
import contacts  # noqa: E402


def rows():
    out = []
    with Bench() as bench:
        def measure(scene, method, h=contacts.H):
            modes = contacts.METHODS[method][1]
            forward, errors = contacts.accuracy(bench.folder, scene, method, modes, h)
            return forward, {mode: e for mode, (e, _) in errors.items()}

        search = lambda scene, method, mode: (contacts.Runs(bench.folder, scene, method), contacts.found(bench.folder, scene, method, mode))[1]
        got = {(s, m): measure(s, m) for s in contacts.SCENES for m in contacts.METHODS if not contacts.why_not(s, m)}
        for (scene, method), (forward, errors) in got.items():
            text = " / ".join(f"{mode} {e:.2g}" for mode, e in errors.items())
            out.append(row(f"{scene}, {method}: relative error of the motion; of the gradient by mode", f"{forward:.2g}; {text}", "reported", True))
        for scene in ("bounce", "elastic", "plane"):
            forward, errors = got[scene, "impact"]
            out.append(below(f"{scene}, impact: motion and gradient", max(forward, errors["exact"]), 1e-9))
        for method in ("lcp", "cones", "sweeps"):
            for scene, limit in (("bounce", 0.1), ("elastic", 0.01)):
                errors = got[scene, method][1]
                out.append(below(f"{scene}, {method}: gradient in mode event", errors["event"], limit))
                out.append(row(f"{scene}, {method}: gradient in mode exact", errors["exact"], "> 0.5", errors["exact"] > 0.5))
            out.append(below(f"slide, {method}: distance", got["slide", method][0], 3e-3))
            out.append(below(f"slide, {method}: gradient", got["slide", method][1]["exact"], 1e-3))
            for scene in ("throw", "plane"):
                out.append(below(f"{scene}, {method}: gradient in mode event", got[scene, method][1]["event"], 0.02))
            out.append(below(f"throw, {method}: place after touch, slip and roll", got["throw", method][0], 1e-3))
        for scene, limit in (("throw", 0.05), ("elastic", 0.1), ("plane", 0.1)):
            errors = got[scene, "soft"][1]
            out.append(below(f"{scene}, soft: gradient in mode event", errors["event"], limit))
            out.append(row(f"{scene}, soft: gradient in mode exact", errors["exact"], "> 0.5", errors["exact"] > 0.5))
        for method in ("relaxed", "penalty"):
            for scene, limit in (("throw", 0.2), ("slide", 0.03), ("elastic", 0.01)):
                out.append(below(f"{scene}, {method}: gradient in mode exact", got[scene, method][1]["exact"], limit))
        for method, mode in (("soft", "event"), ("penalty", "exact"), ("cones", "event")):
            forward, errors = measure("elastic", method, contacts.H / 4)
            out.append(row(f"elastic, {method}: error of the motion, times it shrinks at a quarter of the step",
                           got["elastic", method][0] / forward, ">= 3", got["elastic", method][0] >= 3 * forward))
            out.append(row(f"elastic, {method}: that of the gradient in mode {mode}", got["elastic", method][1][mode] / errors[mode], ">= 3",
                           got["elastic", method][1][mode] >= 3 * errors[mode]))
        for method, mode in (("cones", "event"), ("impact", "exact")):
            n = search("elastic", method, mode)
            out.append(row(f"elastic, {method}, mode {mode}: starts from which the target is found", f"{n} of 20", "20", n == 20))
        n = search("elastic", "cones", "exact")
        out.append(row("elastic, cones, mode exact: the same", f"{n} of 20", "<= 10", n <= 10))
    return out
