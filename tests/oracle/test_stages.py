"""Every stage of a forward evaluation agrees with MuJoCo, at states along a trajectory with contacts."""
import numpy as np
import pytest

import oracle
import inside
import stages

# Shapes that meet in the convex tier, where there is no number to match, are not among our models' contacts.
LATER = (0, 15, 60)
FLAG_MODELS = ("joints", "equality", "tendon_spatial", "actuators", "pairs", "condim_pyramidal", "gravcomp", "static_bodies", "sensors_imu", "fluid_ellipsoid")
FLAG_NAMES = ("constraint", "equality", "frictionloss", "limit", "contact", "spring", "damper", "gravity", "clampctrl", "filterparent", "actuation", "refsafe", "eulerdamp", "sensor")


def states(m, key, steps=LATER):
    x, controls = oracle.start(m, key, max(steps) + 1)
    run = oracle.roll(m, x, controls)
    return [(run.states[k], controls[k]) for k in steps if k < run.exact]


def check(model, m, key, steps=LATER, forces=False):
    bad = []
    least = 1e-5 if oracle.wraps_inside(m) else 0  # MuJoCo ends its search for the touching point at 1e-6
    r = np.random.default_rng(oracle.seed(key, "forces"))
    for k, (x, u) in enumerate(states(m, key, steps)):
        qfrc = 0.3 * r.standard_normal(m.nv) if forces else None
        xfrc = 0.3 * r.standard_normal((m.nbody, 6)) if forces else None
        if xfrc is not None:
            xfrc[0] = 0
        found, words = stages.compare(model, m, x, u, qfrc, xfrc)
        bad += [f"state {k}: {w}" for w in words]
        bad += [f"state {k}: {n} differs by {e:.2e} (tolerance {max(t, least):.0e})" for n, (e, t) in found.items() if not e <= max(t, least)]
    return bad


@pytest.mark.parametrize("path", oracle.MODELS, ids=oracle.name)
def test_stages_agree(path):
    m = oracle.load(path)
    bad = check(inside.Model(path), m, (oracle.name(path), "stages"))
    assert not bad, "\n".join(bad[:40])


@pytest.mark.parametrize("path", [p for p in oracle.OWN if oracle.name(p) in ("joints", "transmissions", "contact_box", "equality")], ids=oracle.name)
def test_stages_agree_under_applied_forces(path):
    bad = check(inside.Model(path), oracle.load(path), (oracle.name(path), "applied"), forces=True)
    assert not bad, "\n".join(bad[:40])


@pytest.mark.parametrize("cone", ["pyramidal", "elliptic"])
def test_both_cones_on_every_model_with_contacts(cone):
    bad = []
    for path in oracle.MODELS:
        options = {"cone": cone}
        bad += [f"{oracle.name(path)} {w}" for w in check(inside.Model(path, options), oracle.load(path, options), (oracle.name(path), cone), (40,))]
    assert not bad, "\n".join(bad[:40])


@pytest.mark.parametrize("flag", FLAG_NAMES)
def test_each_flag(flag):
    bad = []
    for path in oracle.OWN:
        if oracle.name(path) in FLAG_MODELS:
            options = {flag: "disable"}
            bad += [f"{oracle.name(path)} {w}" for w in check(inside.Model(path, options), oracle.load(path, options), (oracle.name(path), flag), (0, 25))]
    assert not bad, "\n".join(bad[:40])


def test_models_have_what_they_test():
    """Along the states compared there are contacts, limits, equalities, friction losses and both kinds of cone."""
    import mujoco as mj

    seen = set()
    for path in oracle.OWN:
        m = oracle.load(path)
        for x, u in states(m, (oracle.name(path), "stages")):
            d = oracle.forward(m, x, u)
            assert not oracle.convex_tier(m, d), path
            seen |= {mj.mjtConstraint(int(k)).name for k in d.efc_type}
    wanted = {"EQUALITY", "FRICTION_DOF", "FRICTION_TENDON", "LIMIT_JOINT", "LIMIT_TENDON", "CONTACT_FRICTIONLESS", "CONTACT_PYRAMIDAL", "CONTACT_ELLIPTIC"}
    assert {"mjCNSTR_" + w for w in wanted} <= seen
