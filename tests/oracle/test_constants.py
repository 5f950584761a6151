"""Derived fields follow their sources as in mj_setConst, and so do their cotangents."""
import mujoco as mj
import numpy as np
import pytest

import derivatives
import oracle
import inside
from test_compile import excess

MOVED = ("body_mass", "body_inertia", "body_ipos", "body_pos", "dof_armature", "qpos0", "site_pos", "actuator_gear")
NAMES = ("joints", "equality", "tendon_fixed", "tendon_spatial", "actuators", "humanoid62", "rich", "humanoid", "pusher")
PATHS = [p for p in oracle.MODELS if oracle.name(p) in NAMES]


MASSES = ("body_mass", "body_inertia", "dof_armature")


def changed(model, m, seed, fields=MOVED):
    """theta with independent fields moved, and the same in MuJoCo's model."""
    r, theta = np.random.default_rng(seed), model.theta.copy()
    for field in fields:
        if field in model.params and model.params[field].rows:
            p = np.array(oracle.get_field(m, field), float)
            new = p + 0.3 * derivatives.field_direction(m, field, r)
            if field in MASSES:
                new = p * r.uniform(0.9, 1.1, p.shape[0]).reshape(-1, *[1] * (p.ndim - 1))
            oracle.set_field(m, field, new)
            model.param(theta, field)[...] = new.reshape(model.param(theta, field).shape)
    return theta


def faults(model, m, theta, leave=None):
    mj.mj_setConst(m, mj.MjData(m))
    inside.native.pbModel_SetConstants(model.ctx, model.ptr, theta)
    bad = []
    for field, slot in model.params.items():
        if not slot.rows * slot.cols or field in oracle.OURS:
            continue
        a, b = model.param(theta, field), np.reshape(oracle.get_field(m, field), (slot.rows, slot.cols))
        if leave and field in leave:
            a, b = a[leave[field]], b[leave[field]]
        if excess(a, b, 1e-11) > 1:
            i = np.unravel_index(np.argmax(np.abs(a - b)), a.shape)
            bad.append(f"{field}{list(map(int, i))}: {a[i]!r}, MuJoCo {b[i]!r}")
    return bad


@pytest.mark.parametrize("path", PATHS, ids=oracle.name)
def test_constants_follow(path):
    """Against MuJoCo without its short cuts; bodies that only slide are the subject of the next test."""
    model, m = inside.Model(path), oracle.load(path)
    simple = oracle.compiled(path).body_simple
    leave = {"body_invweight0": simple < 2, "dof_invweight0": simple[m.dof_bodyid] < 2}
    bad = faults(model, m, changed(model, m, 5), leave)
    assert not bad, "\n".join(bad)


@pytest.mark.parametrize("path", PATHS, ids=oracle.name)
def test_constants_follow_masses(path):
    """Against MuJoCo as it is."""
    model, m = inside.Model(path), oracle.compiled(path)
    bad = faults(model, m, changed(model, m, 5, MASSES))
    assert not bad, "\n".join(bad)


@pytest.mark.parametrize("path", PATHS, ids=oracle.name)
def test_pullback_of_constants(path):
    """Against differences of our own SetConstants, which the test above holds to MuJoCo's."""
    model, m = inside.Model(path), oracle.load(path)
    r = np.random.default_rng(8)
    theta = changed(model, m, 6)
    bar = r.standard_normal(model.ntheta)
    pulled = bar.copy()
    inside.native.pbModel_SetConstantsVjp(model.ctx, model.ptr, theta, pulled)
    for field, slot in model.params.items():
        if slot.derived:
            assert not model.param(pulled, field).any(), f"{field} is derived, its cotangent moves on"
    faults = []
    for field in MOVED:
        if field not in model.params or not model.params[field].rows:
            continue
        way = np.zeros(model.ntheta)
        model.param(way, field)[...] = derivatives.field_direction(m, field, r).reshape(model.param(way, field).shape)

        def at(e):
            t = theta + e * way
            inside.native.pbModel_SetConstants(model.ctx, model.ptr, t)
            return np.array([bar @ t])

        (fd,), (u,) = oracle.quotient(at, (1e-3, 1e-4, 1e-5))
        if u < 1e-7 * (1 + abs(fd)) and abs(pulled @ way - fd) > 1e-6 * (1 + abs(fd)):
            faults.append(f"{field}: ours {pulled @ way:.9g}, differences {fd:.9g} (+-{u:.0e})")
    assert not faults, "\n".join(faults)
