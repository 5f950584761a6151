"""Contacts of smooth and round shapes, where MuJoCo's versions differ among themselves: right instead of equal.

The deepest contact must meet its optimality conditions: along the normal n the point on shape 1 is its support point, the
point on shape 2 that of -n, and no direction in space shows a smaller overlap.
"""
import itertools
import os

import numpy as np
import pytest

import inside

SIZES = {"sphere": [.09, 0, 0], "capsule": [.05, .1, 0], "ellipsoid": [.12, .07, .05], "cylinder": [.07, .09, 0], "box": [.08, .06, .1]}
PAIRS = [("ellipsoid", o) for o in SIZES] + [("cylinder", o) for o in ("capsule", "cylinder", "box")]


def support(kind, size, n):
    """Farthest point of a shape along n, in its own frame."""
    a, b, c = size
    if kind == "sphere":
        return a * n / np.linalg.norm(n)
    if kind == "capsule":
        return a * n / np.linalg.norm(n) + np.array([0, 0, b if n[2] >= 0 else -b])
    if kind == "ellipsoid":
        s = np.array(size)
        return s * s * n / np.linalg.norm(s * n)
    if kind == "box":
        return np.where(n >= 0, size, np.negative(size))
    flat = np.hypot(n[0], n[1])
    return np.array([a * n[0] / flat, a * n[1] / flat, 0]) * (flat > 0) + np.array([0, 0, b if n[2] >= 0 else -b])


def outside(kind, size, p):
    """How far, about, a point lies outside a shape (negative inside)."""
    a, b, _ = size
    if kind == "sphere":
        return np.linalg.norm(p) - a
    if kind == "capsule":
        return np.linalg.norm(p - [0, 0, np.clip(p[2], -b, b)]) - a
    if kind == "ellipsoid":
        q = p / size
        return (np.linalg.norm(q) - 1) * np.linalg.norm(p) / max(np.linalg.norm(q), 1e-9)
    if kind == "box":
        return (np.abs(p) - size).max()
    return max(np.hypot(p[0], p[1]) - a, abs(p[2]) - b)


class Shape:
    def __init__(self, kind, rot, pos=np.zeros(3)):
        self.kind, self.size, self.rot, self.pos = kind, SIZES[kind], rot, pos

    def far(self, n):
        return self.pos + self.rot @ support(self.kind, self.size, self.rot.T @ n)

    def outside(self, p):
        return outside(self.kind, self.size, self.rot.T @ (p - self.pos))


def quat_rot(q):
    w, x, y, z = q / np.linalg.norm(q)
    return np.array([[1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)], [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
                     [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)]])


def overlap(s1, s2, n):
    return (s1.far(n) - s2.far(-n)) @ n


def smallest_overlap(s1, s2, r, start):
    """Of many directions, each pulled downhill a little; an upper bound of the true one."""
    best = min((overlap(s1, s2, n), tuple(n)) for n in [start, *(v / np.linalg.norm(v) for v in r.standard_normal((400, 3)))])
    value, n = best[0], np.array(best[1])
    width = 0.2
    while width > 1e-8:
        for v in r.standard_normal((12, 3)):
            t = n + width * v
            t /= np.linalg.norm(t)
            if (f := overlap(s1, s2, t)) < value:
                value, n = f, t
        width *= 0.8
    return value


def model_of(folder, a, b):
    text = '<mujoco><option gravity="0 0 0"/><worldbody>' + "".join(
        f'<body><freejoint/><geom type="{k}" size="{" ".join(map(str, SIZES[k]))}" margin=".01" mass="1"/></body>' for k in (a, b)) + "</worldbody></mujoco>"
    path = os.path.join(folder, f"{a}_{b}.xml")
    with open(path, "w") as f:
        f.write(text)
    return inside.Model(path)


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_deepest_contact_is_optimal(pair, tmp_path):
    order = ["sphere", "capsule", "ellipsoid", "cylinder", "box"]
    a, b = sorted(pair, key=order.index)
    model, r = model_of(tmp_path, a, b), np.random.default_rng(order.index(a) * 10 + order.index(b))
    found, faults = 0, []
    for trial in range(60):
        q1, q2, n = (v / np.linalg.norm(v) for v in (r.standard_normal(4), r.standard_normal(4), r.standard_normal(3)))
        s1, s2 = Shape(a, quat_rot(q1)), Shape(b, quat_rot(q2))
        gap = r.uniform(0.0005, 0.015) if trial % 2 else r.uniform(-0.02, -0.001)
        s2.pos = s1.far(n) + gap * n - s2.far(-n)
        model.observe(model.state(np.concatenate([s1.pos, q1, s2.pos, q2]), np.zeros(12)))
        model.gather()
        dist = model.field("contact_dist").ravel()
        if not dist.size:
            if smallest_overlap(s1, s2, r, n) > 1e-6 or trial % 2:
                faults.append(f"trial {trial}: no contact at distance {gap:.4g}")
            continue
        found += 1
        k = int(np.argmin(dist))
        m, p, d = model.field("contact_frame")[k].ravel()[:3], model.field("contact_pos")[k], dist[k]
        p1, p2 = p - m * d / 2, p + m * d / 2
        errors = {"on 1": abs(s1.outside(p1)), "on 2": abs(s2.outside(p2)), "support 1": abs((s1.far(m) - p1) @ m), "support 2": abs((s2.far(-m) - p2) @ m)}
        if trial % 2:  # apart: convex bodies have one distance, the one built
            errors["distance"], errors["normal"] = abs(d - gap), np.abs(m - n).max() * 1e-2
        else:
            errors["depth"] = max(0, -d - smallest_overlap(s1, s2, r, m))
        faults += [f"trial {trial} ({'apart' if trial % 2 else 'overlapping'}, dist {d:.4g}): {w} {e:.1e}" for w, e in errors.items() if not e < 1e-9]
    assert found > 40
    assert not faults, f"{len(faults)} of {found}\n" + "\n".join(faults[:12])


REST = {
    "cylinder stands on a box": ("cylinder", "0 0 .192", ""), "cylinder lies on a box": ("cylinder", "0 0 .172", 'euler="90 20 0"'),
    "ellipsoid on a box": ("ellipsoid", "0 0 .152", 'euler="3 4 10"'),
}


@pytest.mark.parametrize("name", REST)
def test_comes_to_rest(name, tmp_path):
    kind, pos, turn = REST[name]
    path = os.path.join(tmp_path, "rest.xml")
    with open(path, "w") as f:
        f.write(f'<mujoco><worldbody><geom type="box" size=".4 .4 .1"/><body pos="{pos}" {turn}><joint type="free" damping=".002"/>'
                f'<geom type="{kind}" size="{" ".join(map(str, SIZES[kind]))}" condim="6" friction="1 .01 .01"/></body></worldbody></mujoco>')
    model = inside.Model(path)
    x = model.init()
    for _ in range(2000):
        x, _ = model.step(x)
    q, v, _ = model.parts(x)
    assert np.abs(v).max() < 5e-3, f"still moves at {np.abs(v).max():.2e}"
    assert 0.1 < q[2] < 0.21 and np.hypot(q[0], q[1]) < 0.15, "left its place"
    model.observe(x)
    model.gather()
    assert 1 <= model.report().contacts and model.field("contact_dist").min() > -0.005


def test_conditions_reject_what_is_wrong():
    """The conditions of this file turn red when the normal of two ellipsoids is off by 1e-4."""
    r = np.random.default_rng(0)
    s1, s2 = Shape("ellipsoid", np.eye(3)), Shape("ellipsoid", quat_rot(r.standard_normal(4)))
    n = np.array([.6, .64, .48])
    s2.pos = s1.far(n) + .01 * n - s2.far(-n)
    wrong = n + [1e-4, 0, -1.25e-4]
    assert abs(overlap(s1, s2, n) + .01) < 1e-12 and abs((s1.far(wrong) - s1.far(n)) @ wrong) > 1e-10
    assert list(itertools.islice((k for k in SIZES if abs(Shape(k, np.eye(3)).outside(Shape(k, np.eye(3)).far(n))) > 1e-12), 1)) == []
