"""Hard contact from random jammed starts: bodies that overlap floor, walls and each other, up to a third of their size.

    build/venv/bin/python tests/oracle/jammed_starts.py [STARTS] [SEED]      2 200 and 1 where none are given

Each start is stepped with `cones` and `lcp`. Errors: a step or a derivative that is refused (said); a step that is taken and
reported as not converged; and, silently, a step that is taken although its forces do not solve the laws (residual over 1e-8 or a number that is
not finite), or whose reverse and forward derivatives differ by more than 1e-6. Prints how many of each; exit status 1 where more than 1 % are errors or any is silent.
"""
import collections
import sys
import tempfile

import inside
import numpy as np

SHARE, RESIDUAL, ADJOINT = 0.01, 1e-8, 1e-6


def rows(x):
    return " ".join(f"{v:.6g}" for v in np.ravel(x))


def geom(r):
    kind = r.choice(["sphere", "capsule", "cylinder", "box", "ellipsoid"])
    size = r.uniform(.05, .2, {"sphere": 1, "capsule": 2, "cylinder": 2}.get(kind, 3))
    friction = rows([r.uniform(0, 1.2), .005, .0001])
    return f'<geom type="{kind}" size="{rows(size)}" euler="{rows(r.uniform(-90, 90, 3))}" mass="{r.uniform(.2, 3):.4g}" friction="{friction}" condim="{r.choice([1, 3, 3, 4, 6])}"/>'


def joint(r):
    kind = r.choice(["free", "free", "free", "ball", "hinge", "slide"])
    if kind == "free":
        return "<freejoint/>"
    return f'<joint type="{kind}" axis="{rows(r.standard_normal(3))}" damping="{r.uniform(0, 1):.3g}"/>'


def scene(r):
    walls = "".join(f'<geom type="plane" size="4 4 1" pos="{rows(at)}" euler="{rows(turn + r.uniform(-10, 10, 3))}"/>'
                    for at, turn in (([0, 0, 0], [0, 0, 0]), ([-.25, 0, 0], [0, 90, 0]), ([.25, 0, 0], [0, -90, 0]))[:r.integers(1, 4)])
    bodies = "".join(f'<body pos="{rows(np.r_[r.uniform(-.1, .1, 2), r.uniform(.05, .2) + .15 * k])}">{joint(r)}{geom(r)}</body>' for k in range(r.integers(1, 5)))
    cone = r.choice(["pyramidal", "elliptic"])
    return f'<mujoco><option timestep=".002" cone="{cone}"/><worldbody>{walls}{bodies}</worldbody></mujoco>'


def step(path, method, r):
    """What is wrong with one step: "", what was said, or "silent: ..."."""
    try:
        g = inside.Model(path, contact={"method": method})
        x = g.init()
        x[g.slots["qvel"]] = r.standard_normal(g.nv)
        y, _, record = g.step_recorded(x, [])
        report = g.report()
        if not report.converged:
            return f"reported: residual {report.residual:.1e}"
        if not np.isfinite(y).all() or not report.residual <= RESIDUAL:
            return f"silent: residual {report.residual:.1e}"
        a, b = r.standard_normal((2, g.nt))
        forward, reverse = a @ g.jvp(record, x=b, ctrl=[])[0], g.vjp(record, next_bar=a, ctrl=[])["x"]
    except inside.Error as error:
        return error.text
    if not abs(forward - reverse @ b) <= ADJOINT * (1 + abs(forward) + np.abs(reverse * b).max()):
        return f"silent: derivatives {forward:.6g} and {reverse @ b:.6g}"
    return ""


def count(starts, seed):
    wrong, r = collections.Counter(), np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder:
        for k in range(starts):
            path = f"{folder}/m.xml"
            with open(path, "w") as f:
                f.write(scene(r))
            for method in ("cones", "lcp"):
                said = step(path, method, np.random.default_rng([seed, k]))
                if said:
                    kind = said.split(":")[0]
                    wrong[kind if kind in ("silent", "reported") else "said"] += 1
                    if wrong.total() <= 12:
                        print(f"start {k}, {method}: {said}", flush=True)
    return wrong


def main():
    starts, seed = (int(a) for a in (sys.argv[1:] + ["2200", "1"][len(sys.argv) - 1:]))
    wrong = count(starts, seed)
    print(f"{starts} starts, seed {seed}, two methods: {wrong['said']} refused, {wrong['reported']} reported as not converged, "
          f"{wrong['silent']} silent errors of {2 * starts}")
    return 1 if wrong["silent"] or wrong.total() > SHARE * 2 * starts else 0


if __name__ == "__main__":
    sys.exit(main())
