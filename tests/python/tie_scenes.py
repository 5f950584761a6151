"""A table of scenes in which features of two shapes meet exactly, or a little beside: every pair of shapes, with a face, an edge, a vertex
or an axis of the one over one of the other. The derivative of a few steps is compared with differences to either side.

  python tests/python/tie_scenes.py [--seed S] [--cases N] [--jobs J] [--anew]       with the package of a build on PYTHONPATH

The table in an order drawn by the seed, or its first N cases. Each verdict is kept as it is found, in build/ties.csv: a run goes on where the
last one was, unless the library or this file has changed. Ends with 1 where a derivative is wrong, or more than a hundredth of the cases have no
room for their contacts.
"""
import argparse
import csv
import hashlib
import itertools
import multiprocessing
import os
import pathlib
import random
import sys
import time

import numpy as np
import pullback as pb

STEP = ".002"
DEPTH = 1e-4
BESIDE = (0, 1e-12, 1e-9, 1e-6)


def rotation_between(a, b):
    a, b = a / np.linalg.norm(a), b / np.linalg.norm(b)
    v, c = np.cross(a, b), a @ b
    if c < -1 + 1e-12:
        return np.diag([1.0, -1, -1]) if abs(a[0]) < .5 else np.diag([-1.0, 1, -1])
    K = np.array([[0, -v[2], v[1]], [v[2], 0, -v[0]], [-v[1], v[0], 0]])
    return np.eye(3) + K + K @ K / (1 + c)


def quat_of(R):
    q = np.array([1 + R[0, 0] + R[1, 1] + R[2, 2], 1 + R[0, 0] - R[1, 1] - R[2, 2], 1 - R[0, 0] + R[1, 1] - R[2, 2], 1 - R[0, 0] - R[1, 1] + R[2, 2]])
    k = int(np.argmax(q))
    w = np.sqrt(max(q[k], 0)) / 2
    o = {0: (w, (R[2, 1] - R[1, 2]) / (4 * w), (R[0, 2] - R[2, 0]) / (4 * w), (R[1, 0] - R[0, 1]) / (4 * w)),
         1: ((R[2, 1] - R[1, 2]) / (4 * w), w, (R[0, 1] + R[1, 0]) / (4 * w), (R[0, 2] + R[2, 0]) / (4 * w)),
         2: ((R[0, 2] - R[2, 0]) / (4 * w), (R[0, 1] + R[1, 0]) / (4 * w), w, (R[1, 2] + R[2, 1]) / (4 * w)),
         3: ((R[1, 0] - R[0, 1]) / (4 * w), (R[0, 2] + R[2, 0]) / (4 * w), (R[1, 2] + R[2, 1]) / (4 * w), w)}[k]
    return np.array(o)


def turn(axis, angle):
    a = np.array(axis, float) / np.linalg.norm(axis)
    K = np.array([[0, -a[2], a[1]], [a[2], 0, -a[0]], [-a[1], a[0], 0]])
    return np.eye(3) + np.sin(angle) * K + (1 - np.cos(angle)) * K @ K


def text(*numbers):
    return " ".join(repr(float(x)) for x in numbers)


class Shape:
    """xml(scale): a geom without pose; low(R, scale): height of the lowest point below the origin; features: name -> direction that looks down."""

    def __init__(self, kind, size, features, vertices=None):
        self.kind, self.size, self.features, self.vertices = kind, np.array(size, float), features, vertices

    def corners(self, scale):
        return None if self.vertices is None else np.array(self.vertices) * scale

    def geom(self, name, scale):
        if self.kind == "mesh":
            return f'type="mesh" mesh="{name}"'
        return f'type="{self.kind}" size="{" ".join(repr(float(x)) for x in self.size * scale)}"'

    def low(self, R, scale):
        d = -R[2] * 1.0
        s = self.size * scale
        if self.kind == "sphere":
            return s[0]
        if self.kind == "capsule":
            return s[0] + s[1] * abs(d[2])
        if self.kind == "cylinder":
            return s[0] * np.hypot(d[0], d[1]) + s[1] * abs(d[2])
        if self.kind == "ellipsoid":
            return np.linalg.norm(s * d)
        return max(self.corners(scale) @ d)

    def foot(self, R, scale):
        """Where its lowest feature is, seen from above: the mean of its corners."""
        if self.vertices is None:
            return np.zeros(2)
        z = self.corners(scale) @ R.T
        return z[z[:, 2] < z[:, 2].min() + 1e-9][:, :2].mean(0)

    def reach(self, R, scale):
        """Of the lowest feature: half its width along x and y."""
        if self.vertices is not None:
            z = self.corners(scale) @ R.T
            z = z[z[:, 2] < z[:, 2].min() + 1e-9][:, :2]
            return (z.max(0) - z.min(0)) / 2
        s = self.size * scale
        if self.kind == "capsule":
            return abs(R[:2, 2]) * s[1]
        if self.kind == "cylinder":
            return np.array([s[0], s[0]]) if abs(R[2, 2]) > .99 else abs(R[:2, 2]) * s[1]
        return np.zeros(2)


SIGNS = np.array(list(itertools.product((-1, 1), repeat=3)), float)
BOX = SIGNS * [.05, .04, .03]
HEX = np.array([[.05 * np.cos(np.pi * k / 3), .05 * np.sin(np.pi * k / 3), z] for z in (-.04, .04) for k in range(6)])
TET = np.array([[0, 0, -.05], [.05, 0, .03], [-.03, .04, .03], [-.03, -.04, .03]])
TET = TET - TET.mean(0)
CORNER = (1 / .05, 1 / .04, 1 / .03)
BOXES = {"face": (0, 0, -1), "edge": (0, -1, -1), "vertex": (-1, -1, -1)}
SHAPES = {
    "ball": Shape("sphere", [.05], {"face": (0, 0, -1)}),
    "capsule": Shape("capsule", [.03, .05], {"axis": (-1, 0, 0), "vertex": (0, 0, -1)}),
    "ellipsoid": Shape("ellipsoid", [.05, .04, .03], {"face": (0, 0, -1)}),
    "cylinder": Shape("cylinder", [.05, .04], {"face": (0, 0, -1), "axis": (-1, 0, 0), "vertex": (-1, 0, -1)}),
    "box": Shape("box", [.05, .04, .03], BOXES, BOX),
    "cube": Shape("mesh", [0], BOXES, BOX),
    "prism": Shape("mesh", [0], {"face": (0, 0, -1), "edge": (-1, 0, 0), "side": (-np.cos(np.pi / 6), -.5, 0), "vertex": (-1, 0, -1)}, HEX),
    "tet": Shape("mesh", [0], {"face": (0, 0, 1), "edge": (.5, 0, -.4), "vertex": (0, 0, -1)}, TET),
}
GROUNDS = ["plane", "flat", "ridge"] + list(SHAPES)


def down(shape, feature):
    """A rotation that brings the feature down."""
    d = np.array(SHAPES[shape].features[feature], float)
    if abs(d).sum() == 1 and d[2] == -1:
        return np.eye(3)
    return rotation_between(d, np.array([0, 0, -1.0]))


def mesh(name, corners):
    return f'<mesh name="{name}" vertex="{" ".join(repr(float(x)) for x in np.asarray(corners).ravel())}" inertia="exact"/>'


def plate(cells, half, R):
    """A box of so many cells along x and y, turned by R: vertices and triangles. In single precision what is level is uneven then, and of
    corners along an edge the hull has slivers."""
    x = np.linspace(-1, 1, cells + 1)
    points, m = np.array([(a, b, z) for z in (-1, 1) for a in x for b in x]) * half, (cells + 1)**2
    at, faces = lambda side, i, j: side * m + i * (cells + 1) + j, []
    for i, j in itertools.product(range(cells), repeat=2):
        up = [at(1, i, j), at(1, i + 1, j), at(1, i + 1, j + 1), at(1, i, j + 1)]
        faces += [up[:3], [up[0], *up[2:]], [k - m for k in up[2::-1]], [up[3] - m, up[2] - m, up[0] - m]]
    for i in range(cells):
        for a, b in (((i, 0), (i + 1, 0)), ((i + 1, cells), (i, cells)), ((0, i + 1), (0, i)), ((cells, i), (cells, i + 1))):
            faces += [[at(0, *a), at(0, *b), at(1, *b)], [at(0, *a), at(1, *b), at(1, *a)]]
    return points @ R.T, np.array(faces)


ASSETS = ('<hfield name="flat" nrow="9" ncol="9" size=".4 .4 .1 .1" elevation="' + " ".join(["0"] * 80 + ["1"]) + '"/>'
          '<hfield name="ridge" nrow="3" ncol="3" size=".2 .2 .1 .1" elevation="0 1 0 0 1 0 0 1 0"/>')
for _name, _s in SHAPES.items():
    if _s.kind == "mesh":
        ASSETS += mesh(_name, _s.corners(1)) + mesh("big" + _name, _s.corners(2))


def ground_of(name, feature, scale):
    """A geom whose feature looks up at height 0: its xml, where the middle of the feature is and how far it reaches along x and y."""
    if name == "plane":
        return '<geom type="plane" size="1 1 .1"/>', np.zeros(2), np.array([.1, .1])
    if name == "flat":
        return '<geom type="hfield" hfield="flat"/>', np.zeros(2), np.array([.05, .05])
    if name == "ridge":
        return '<geom type="hfield" hfield="ridge" pos="0 0 -.1"/>', np.zeros(2), np.array([0, .1])
    s = SHAPES[name]
    R = np.diag([1.0, -1, -1]) @ down(name, feature)
    low = s.low(np.diag([1.0, -1, -1]) @ R, scale)
    at = s.foot(np.diag([1.0, -1, -1]) @ R, scale) * [1, -1]
    q = quat_of(R)
    geom = s.geom(("big" if scale == 2 else "") + name, scale)
    return f'<geom {geom} pos="{text(0, 0, -low)}" quat="{text(*q)}"/>', at, s.reach(np.diag([1.0, -1, -1]) @ R, scale)


def body_of(name, feature, yaw, at, beside):
    s = SHAPES[name]
    R = turn((0, 0, 1), yaw) @ down(name, feature) if yaw else down(name, feature)
    tilted = turn((1, .6, .3), beside) if beside else np.eye(3)
    z = s.low(R, 1) - DEPTH
    foot = s.foot(R, 1)
    x, y = at - foot + np.array([beside, .7 * beside])
    q, t = quat_of(R), quat_of(tilted)
    return f'<body pos="{text(x, y, z)}" quat="{text(*t)}"><freejoint/><geom {s.geom(name, 1)} quat="{text(*q)}" mass="1"/></body>'


def cases():
    """(ground, feature, scale), (body, feature), yaw, place, beside"""
    for ground in GROUNDS:
        known = ground in SHAPES
        for feature in (SHAPES[ground].features if known else ["face"]):
            for scale in ((1, 2) if known else (1,)):
                for body in SHAPES:
                    for foot in SHAPES[body].features:
                        for yaw in (0, 17):
                            for place in ("middle", "inside", "edge", "corner"):
                                for beside in BESIDE:
                                    yield (ground, feature, scale), (body, foot), yaw, place, beside


def scene(case):
    (ground, feature, scale), (body, foot), yaw, place, beside = case
    geom, at, reach = ground_of(ground, feature, scale)
    at = at + {"middle": np.zeros(2), "inside": np.array([.313, .171]) * reach, "edge": reach * [1, 0], "corner": reach}[place]
    return f'<mujoco><option timestep="{STEP}"/><asset>{ASSETS}</asset><worldbody>{geom}{body_of(body, foot, yaw * np.pi / 180, at, beside)}</worldbody></mujoco>'


def compare(xml, steps=2, seed=0, contact=None, sizes=(1e-6, 1e-5, 1e-7, 1e-10), tolerance=2e-3):
    """verdict: fits (between the one-sided differences), named, wrong; how far outside, of the largest entry. The shortest differences are
    of what is 1e-9 from a tie, and nowhere near it feels that."""
    m = pb.loads(xml, contact=contact or {})
    s = m.init()
    rng = np.random.default_rng(seed)
    rollout = m.rollout(s, steps=steps, outputs=())
    n = len(m.tangent_names)
    w = np.zeros((steps + 1, n))
    w[-1] = rng.standard_normal(n)
    w[-1][:m.nv] *= 10
    g = rollout.vjp(state=w, check=False)
    c = g.certificate
    scale = abs(g.state).max() + 1e-3
    worst, where, jump = 0, None, 0
    for i in range(n):
        least = np.inf
        for e in sizes:
            d = np.zeros(n)
            d[i] = e

            def f(sign):
                return float(w[-1] @ m.difference(rollout.states[-1], m.rollout(m.integrate(s, sign * d), steps=steps, keep=False, outputs=()).states[-1])) / (sign * e)
            a, b = f(1), f(-1)
            out = max(0, min(a, b) - g.state[i], g.state[i] - max(a, b)) / scale
            if not np.isfinite(out):
                out = np.inf
            if out < least:
                least, at = out, (m.tangent_names[i], g.state[i], a, b)
            if out <= tolerance:
                break
        jump = max(jump, abs(at[2] - at[3]) / scale)
        if least > worst or where is None:
            worst, where = least, at
    fits = worst <= tolerance
    return dict(verdict="fits" if fits else "named" if c["ties"] else "wrong", ties=c["ties"], worst=worst, where=where, contacts=c["most_contacts"], jump=jump, name=c["tie_contact"], fits=fits)


def judge(case):
    """What compare says of a case of the table: fits, named or wrong; and 'no room' where it has more contacts than a pair may have."""
    try:
        return compare(scene(case))
    except pb.Error as error:
        if "more than" not in str(error):
            raise
        return {"verdict": "no room"}


def drawn(seed, count=None):
    """The first so many of the table's cases in the seed's order: each draw begins with those of a smaller one."""
    whole = list(cases())
    random.Random(str(seed)).shuffle(whole)
    return whole[:count]


# ---- the table as a whole --------------------------------------------------------------------------------------------------------------
def told(case):
    """(case in words, verdict, how far outside, where). What cannot be computed is wrong, too."""
    try:
        found = judge(case)
    except Exception as error:
        found = {"verdict": "wrong", "worst": float("inf"), "where": f"{type(error).__name__}: {error}"}
    return repr(case), found["verdict"], f"{found.get('worst', 0):.3g}", str(found.get("where", "")) if found["verdict"] == "wrong" else ""


class Verdicts:
    """Those found so far, on disk after each of them."""

    def __init__(self, path, anew=False):
        core = pathlib.Path(pb.__file__).parent
        parts = [pathlib.Path(__file__), *sorted(p for p in core.rglob("*") if p.suffix in (".so", ".py")), *sorted(core.parents[1].glob("libpullback*"))]
        of = hashlib.sha256(b"".join(p.read_bytes() for p in parts if p.is_file())).hexdigest()
        rows = list(csv.reader(path.open(newline=""))) if path.exists() and not anew else []
        rows = [r for r in rows[1:] if len(r) == 4] if rows and rows[0] == [of] else []
        path.parent.mkdir(exist_ok=True)
        self.file, self.found = path.open("w", newline=""), {}
        self.out = csv.writer(self.file, lineterminator="\n")
        self.out.writerow([of])
        for r in rows:
            self.put(r)

    def put(self, row):
        self.found[row[0]] = row[1:]
        self.out.writerow(row)
        self.file.flush()


def main():
    parser = argparse.ArgumentParser(description="The table of ties, or a share of it.")
    parser.add_argument("--seed", default=os.environ.get("SEED", "0"))
    parser.add_argument("--cases", type=int, help="so many of them; all if it is not given")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--anew", action="store_true", help="forget what was found before")
    asked = parser.parse_args()
    chosen, kept = drawn(asked.seed, asked.cases), Verdicts(pathlib.Path(__file__).parents[2] / "build" / "ties.csv", asked.anew)
    left = [case for case in chosen if repr(case) not in kept.found]
    if len(left) < len(chosen):
        print(f"{len(chosen) - len(left)} of {len(chosen)} cases were judged before", flush=True)

    begin = time.monotonic()
    with multiprocessing.get_context("spawn").Pool(asked.jobs) as pool:
        for k, row in enumerate(pool.imap_unordered(told, left, chunksize=4), 1):
            kept.put(row)
            if row[1] == "wrong":
                print(f"WRONG, by {row[2]}: {row[0]}: {row[3]}", flush=True)
            if k % 500 == 0:
                print(f"{k} of {len(left)} cases in {time.monotonic() - begin:.0f} s", flush=True)

    verdicts = [kept.found[repr(case)][0] for case in chosen]
    fit, named, wrong, without = (verdicts.count(v) for v in ("fits", "named", "wrong", "no room"))
    print(f"seed {asked.seed}: {len(chosen)} of {len(list(cases()))} cases: {fit} fit, {named} named, {wrong} wrong, {without} without room for their contacts")
    for case in chosen:
        if kept.found[repr(case)][0] == "wrong":
            print(f"wrong, by {kept.found[repr(case)][1]}: {case}")
    return 1 if wrong or without > len(chosen) / 100 or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
