"""Contacts of the pairs that MuJoCo computes in closed form: the same number, order (but box and box), distance, place, normal.

Poses are random, aligned with each other, resting, deep, and a hair off parallel. A pose counts only where MuJoCo's own
answer does not move when the pose does by 1e-14.
"""
import os

import mujoco
import numpy as np
import pytest

import inside

PAIRS = [("plane", k) for k in ("sphere", "capsule", "ellipsoid", "cylinder", "box")] + [
    ("sphere", k) for k in ("sphere", "capsule", "cylinder", "box")] + [("capsule", "capsule"), ("capsule", "box"), ("box", "box")]


def model_text(a, b, sizes, margin):
    def geom(kind, size):
        return f'<geom type="{kind}" size="{" ".join(map(repr, size))}" margin="{margin}" mass="1"/>'
    plane = geom("plane", [5.0, 5.0, 1.0]) if a == "plane" else ""
    first = "" if a == "plane" else f"<body><freejoint/>{geom(a, sizes[0])}</body>"
    return f'<mujoco><option gravity="0 0 0"/><worldbody>{plane}{first}<body><freejoint/>{geom(b, sizes[1])}</body></worldbody></mujoco>'


def random_quat(r):
    kind, q = r.integers(4), r.standard_normal(4)
    axis = np.eye(3)[r.integers(3)]
    if kind == 0:  # by quarters of a turn
        q = np.r_[[1, 0, 0, 0]] if r.integers(2) else np.r_[1, axis]
    elif kind == 1:  # about one axis
        angle = r.uniform(-3, 3)
        q = np.r_[np.cos(angle), np.sin(angle) * axis]
    elif kind == 2:  # nearly not at all
        q = np.r_[1, r.standard_normal(3) * 10 ** r.uniform(-12, -1)]
    return q / np.linalg.norm(q)


def product(p, q):
    out = np.zeros(4)
    mujoco.mju_mulQuat(out, p, q)
    return out


def random_pose(r, sizes, plane):
    """Positions and quaternions of both shapes."""
    p1, q1, q2 = (np.zeros(3), np.r_[1.0, 0, 0, 0], random_quat(r)) if plane else (r.normal(size=3) * 0.2, random_quat(r), random_quat(r))
    if r.integers(3) == 0:
        q2 = product(q1, random_quat(r))
    p2 = p1 + r.normal(size=3) * r.choice([0.1, 0.3, 0.5])
    if r.integers(5) == 0:  # resting on a side
        turn = np.zeros(9)
        mujoco.mju_quat2Mat(turn, q1)
        p2 = p1 + turn.reshape(3, 3) @ (np.round(r.uniform(-1, 1, 3)) * (sizes[0] + sizes[1]) * (1 + r.choice([1e-9, -1e-3, 1e-3])))
    return p1, q1, p2, q2


def oracle_contacts(m, d, qpos):
    d.qpos[:] = qpos
    mujoco.mj_kinematics(m, d)
    mujoco.mj_collision(m, d)
    return np.array([np.r_[c.dist, c.pos, c.frame[:3]] for c in d.contact[:d.ncon]]).reshape(-1, 7)


def our_contacts(model, qpos, nv):
    model.observe(model.state(qpos, np.zeros(nv)))
    model.gather()
    dist = np.asarray(model.field("contact_dist")).ravel()
    if not dist.size:
        return np.zeros((0, 7))
    normal = np.asarray(model.field("contact_frame")).reshape(dist.size, 9)[:, :3]
    return np.c_[dist, np.asarray(model.field("contact_pos")).reshape(-1, 3), normal]


def difference(got, want):
    """Largest difference of contacts, each with its nearest: where faces of two boxes are parallel, rounding of the poses
    decides which box's corners come first."""
    return max(np.abs(got - w).max(axis=1).min() for w in want)


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_contacts_are_equal(pair, tmp_path):
    a, b = pair
    r = np.random.default_rng(PAIRS.index(pair))
    compared, left_out, faults = 0, 0, []
    for shape in range(6):
        sizes = np.round(r.uniform(0.05, 0.5, (2, 3)), 3)
        if shape % 3 == 0:
            sizes[1] = sizes[0]
        text = model_text(a, b, [list(map(float, s)) for s in sizes], [0, 0.02][shape % 2])
        path = os.path.join(tmp_path, f"{shape}.xml")
        with open(path, "w") as f:
            f.write(text)
        model, m = inside.Model(path), mujoco.MjModel.from_xml_path(path)
        d = mujoco.MjData(m)
        for _ in range(60):
            p1, q1, p2, q2 = random_pose(r, sizes, a == "plane")
            qpos = np.r_[p2, q2] if a == "plane" else np.r_[p1, q1, p2, q2]
            want = oracle_contacts(m, d, qpos)
            nudged = [oracle_contacts(m, d, qpos + 1e-14 * r.standard_normal(m.nq)) for _ in range(6)]
            if any(n.shape != want.shape or (n.size and difference(n, want) > 1e-11) for n in nudged):
                left_out += 1
                continue
            got = our_contacts(model, qpos, m.nv)
            compared += len(want)
            if got.shape != want.shape:
                faults.append(f"sizes {sizes.tolist()} qpos {qpos.tolist()}: {len(got)} contacts, not {len(want)}")
            elif want.size and not (e := difference(got, want) if a == "box" else np.abs(got - want).max()) < 1e-11:
                faults.append(f"sizes {sizes.tolist()} qpos {qpos.tolist()}: off by {e:.1e}")
    print(f"{a}-{b}: {compared} contacts compared, {left_out} of 360 poses left out")
    assert compared > 100 and left_out < 180
    assert not faults, f"{len(faults)}\n" + "\n".join(faults[:5])
