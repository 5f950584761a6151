"""Every feature beside every other (meetings.py): forward against reverse field by field, and one-sided differences at starts."""
import itertools
import os
import random
import zlib

import numpy as np
import pytest

import meetings
import pullback as pb

SEED = os.environ.get("SEED", "0")
DRAWN = 20  # scenes of a run that is not PB_LONG (make check-python PART=meetings)


def drawn(long_run):
    """Rows of this run: all, or a share by SEED."""
    table = meetings.rows()
    return table if long_run else random.Random(SEED).sample(table, DRAWN)


def attempts(check, row):
    """What a check says of the first of some scenes of a row that runs: not every draw has a step that can be made. Of method
    impact, whose impacts cannot hold what comes to rest, none may be."""
    for seed in range(1, 31):
        try:
            return check(row, seed)
        except pb.StepError:
            continue
    if row["method"] == "impact":
        return [], 0
    raise AssertionError(f"no scene of this row runs: {row}")


def all_rows(check, rows):
    """Runs a check over rows: what was off by row, and how many fields were compared."""
    failures, total = [], 0
    for row in rows:
        off, count = attempts(check, row)
        total += count
        failures += [f"{o[0]}: {' '.join(f'{v:.9g}' for v in o[1:])} in {row}" for o in off]
    return failures, total
LEAST = {True: 1e-7, False: 1e-10}  # of the terms' sum: hard contact, soft


def loaded(scene):
    model = pb.loads(scene.text, options=scene.options, contact=scene.settings, policy=scene.policy)
    if scene.row["loss"] != "law":
        return model

    # Friction by velocity and load, of two dofs of three.
    size = np.arange(model.nv) % 3
    both = np.stack([size, size], axis=1)
    return model.with_params({"dof_stiction": .05 * size, "dof_stribeck": .2 + .1 * size, "dof_stribeckpower": 1 + .3 * size, "dof_frictionload": .05 * both,
                              "dof_stictionload": .04 * both * [1, 2], "dof_stictionquad": .1 * both * [2, 1]})


def start(model, scene, r):
    """State and inputs: at random, at rest with controls and activations of zero, or at bounds and at ctrl = act."""
    way, s, n = scene.row["start"], model.init(), meetings.STEPS
    inputs = {"ctrl": np.zeros((n, model.nu))}
    if way == "random":
        s = model.integrate(s, .05 * r.standard_normal(len(model.tangent_names)))
        s.qvel[:] = .3 * r.standard_normal(model.nv)
        s.act[:] = r.uniform(.05, .3, model.na)
        inputs["ctrl"] = r.uniform(.05, .6, (n, model.nu))
    elif way == "bound":
        s.act[:] = .3
        inputs["ctrl"][:] = r.choice([0, .3, .6, 1], model.nu)
    s.qvel[2] = -.6  # the lump falls
    if scene.row["force"] == "joint":
        inputs["qfrc_applied"] = .1 * r.standard_normal((n, model.nv))
    if scene.row["force"] == "body":
        inputs["xfrc_applied"] = .1 * r.standard_normal((n, model.nbody, 6))
    if model.nmocap:
        path = np.cumsum(1e-3 * r.standard_normal((n, 1, 3)), axis=0)
        place = {"weld": (.1, .1, .35), "paddle": (.02, .01, .15)}[scene.row["mocap"]]
        inputs["mocap_pos"] = np.array(place) + path
        inputs["mocap_quat"] = np.tile([1., .02, -.01, .03], (n, 1, 1))
    return s, inputs


def direction(name, value, r):
    """Of a parameter, by which what is 0 moves too; unit vectors stay on their spheres."""
    unit = name.endswith("quat") or name == "jnt_axis"
    d = r.uniform(-1, 1, value.shape) * (1 if unit else np.where(value != 0, np.abs(value), .01))
    if unit and value.size:
        d -= value * (np.sum(d * value, -1, keepdims=True) / np.maximum(np.sum(value * value, -1, keepdims=True), 1e-300))
    return d


def compare(row, seed):
    """Fields by which forward and reverse differ: [(field, forward, reverse, size)], and how many were compared."""
    scene = meetings.Scene(row, seed)
    model, r = loaded(scene), np.random.default_rng(zlib.crc32(repr((seed, row)).encode()))
    s, inputs = start(model, scene, r)
    roll = model.rollout(s, constants="keep", **inputs)
    rows = (meetings.STEPS + 1,)
    bar = {"state": r.standard_normal((*rows, len(model.tangent_names))), "sensordata": r.standard_normal((*rows, model.nsensordata))}
    params = [n for n in model.params if model.params[n].size]
    g = roll.vjp(**bar, wrt=["ctrl", "qfrc_applied", "xfrc_applied", *(("mocap_pos", "mocap_rot") if model.nmocap else ()), *params], check=False)
    moves = {"state": (g.state, r.uniform(-1, 1, g.state.shape))}
    for name in ("ctrl", "qfrc_applied", "xfrc_applied", *(("mocap_pos", "mocap_rot") if model.nmocap else ())):
        moves[name] = getattr(g, name), r.uniform(-1, 1, getattr(g, name).shape)
    for name in params:
        moves[name] = g.params[name], direction(name, np.asarray(model.params[name]), r)
    pairs = []
    for name, (reverse, d) in moves.items():
        t = roll.jvp(**({"params": {name: d}} if name in params else {name: d}))
        terms = bar["state"] * t.x, bar["sensordata"] * t.sensordata
        forward, back = sum(a.sum() for a in terms), np.sum(reverse * d)
        size = sum(np.abs(a).sum() for a in terms) + np.abs(reverse * d).sum()
        pairs.append((name, forward, back, size))
    least, rounding = LEAST[row["method"] in meetings.HARD], 1e-15 * (1000 if row["method"] in meetings.HARD else 1) * max(p[3] for p in pairs)
    return [p for p in pairs if not abs(p[1] - p[2]) <= least * p[3] + rounding], len(pairs)


# ---- at starts: one-sided differences into the domain ---------------------------------------------------------------------------
SOLVED = ("cones", "lcp", "sweeps")  # to a tolerance, not to rounding
STRIDE = {True: 1e-5, False: 1e-6}  # of what is moved: such methods, the others
NOISE = {True: 1e-8, False: 1e-12}  # of a step's result
NEAR = {True: 3e-3, False: 2e-4}  # of the largest slope


def into_domain(model, scene, s, inputs, r):
    """Directions by field: controls and activations into their ranges, parameters that are 0 to above it, others anywhere."""
    n = meetings.STEPS
    muscle = "muscle" in scene.row["actuator"]
    ways = {"qvel": r.uniform(-1, 1, model.nv), "ctrl": np.tile(r.uniform(.5, 1, model.nu), (n, 1)), "qfrc_applied": np.tile(r.uniform(-1, 1, model.nv), (n, 1))}
    ways["ctrl"] *= np.where(inputs["ctrl"][0] >= .6, -1, 1)
    if model.na and not muscle:
        ways["act"] = r.uniform(.5, 1, model.na)
    for name in model.params:
        value = np.asarray(model.params[name])
        if value.size and not name.startswith(("mesh_", "hfield_", "policy")):
            d = direction(name, value, r)
            if not (name.endswith("quat") or name == "jnt_axis"):  # entries that tie move alike: the slopes of a tie do not add up
                values, first, kind = np.unique(value, return_index=True, return_inverse=True)
                d = np.where(values == 0, np.abs(d.ravel()[first]), d.ravel()[first])[kind].reshape(value.shape)
            if name in ("dof_frictionload", "dof_stictionload"):  # the size of a difference bends where both shares are zero: one moves alone
                d[:, 1] *= (value != 0).any(axis=1)
            if name == "pair_solreffriction":  # zeros: as in the other directions; next to them, without refsafe, infinitely stiff
                d *= value != 0
            ways[name] = d
    return ways


def moved(model, s, inputs, name, d, size):
    """The last state with a field moved along d."""
    inputs, params, x = dict(inputs), {}, s.flat.copy()
    if name in ("qvel", "act"):
        x = model.state(x)
        getattr(x, name)[:] += size * d
    elif name in ("ctrl", "qfrc_applied"):
        inputs[name] = inputs.get(name, 0) + size * d
    else:
        params = {name: np.asarray(model.params[name]) + size * d}
    return model.rollout(x, params=params, constants="keep", keep=False, **inputs).final


def slope(model, s, inputs, name, d, base, move):
    """One-sided, of first order extrapolated to none; and how far the two differences are apart."""
    a, b = (model.difference(base, moved(model, s, inputs, name, d, e)) / e for e in (move, move / 2))
    return 2 * b - a, np.abs(a - b).max()


def outside(model, s, inputs, name, d, t, base, move, row):
    """The entry of a tangent that is furthest from lying between one-sided differences into the domain, and those; None where all do."""
    hard = row["method"] in SOLVED
    try:
        right, unsure = slope(model, s, inputs, name, d, base, move)
    except pb.InputError:
        return None  # both sides leave the domain, as of two numbers that have to be equal
    close = NEAR[hard] * max(np.abs(right).max(), np.abs(t).max()) + 4 * unsure + NOISE[hard] / move
    if np.abs(t - right).max() <= close:
        return None
    try:
        left = right if name == "ctrl" and row["start"] == "rest" else slope(model, s, inputs, name, d, base, -move)[0]
    except pb.InputError:
        left = right
    beyond = np.maximum(np.minimum(left, right) - t, t - np.maximum(left, right))
    k = np.argmax(beyond)
    return (t[k], right[k], left[k]) if beyond[k] > close else None


def at_start(row, seed, steps=3):
    """Fields whose forward derivative does not lie between the one-sided differences into their domain: [(field, forward, right, left)]."""
    scene = meetings.Scene(row, seed)
    model, r = loaded(scene), np.random.default_rng(zlib.crc32(repr(("start", seed, row)).encode()))
    s, inputs = start(model, scene, r)
    inputs = {k: v[:steps] for k, v in inputs.items()}
    roll, off, hard = model.rollout(s, constants="keep", **inputs), [], row["method"] in SOLVED
    if roll.vjp(qvel=np.ones(model.nv), check=False).certificate["unconverged"]:
        return [], 0  # sweeps that were cut short
    ways = into_domain(model, scene, s, inputs, r)
    if row["noslip"]:
        # A dof that nothing moves in a step: sweeps hold it with what the least loss allows, a sweep by what the one before has left. That is homogeneous
        # in all losses together, not linear; the derivative takes a force of zero. What few sweeps hold by a contact's torsion creeps (2e-4
        # rad/s seen).
        moves = np.abs(roll.qvel[:2]).max(axis=0) >= 1e-3
        for name in ("dof_frictionloss", "dof_stiction", "dof_frictionload", "dof_stictionload", "dof_stictionquad"):
            ways[name] = (ways[name].T * moves).T
    for name, d in ways.items():
        if name in ("ctrl", "qfrc_applied"):
            d = d[:steps]
            if name not in inputs:
                continue
        t = roll.jvp(**({name: d} if name in ("qvel", "act", "ctrl", "qfrc_applied") else {"params": {name: d}})).x[-1]
        worst = None
        for move in (STRIDE[hard], STRIDE[hard] / 30):  # a kink may stand within the first
            worst = outside(model, s, inputs, name, d, t, roll.final, move, row)
            if worst is None:
                break
        if worst is not None:
            off.append((name, *worst))
    return off, len(ways)


# ---- tests ------------------------------------------------------------------------------------------------------------------------
def test_every_pair_of_values_meets():
    table = meetings.rows()
    seen = {frozenset(p) for row in table for p in itertools.combinations(row.items(), 2)}
    for x, y in itertools.combinations(meetings.AXES, 2):
        for v, w in itertools.product(meetings.AXES[x], meetings.AXES[y]):
            assert frozenset(((x, v), (y, w))) in seen or meetings.excluded((x, v), (y, w)), (x, v, y, w)


def test_forward_and_reverse_agree(long_run):
    rows = drawn(long_run)
    failures, total = all_rows(compare, rows)
    assert not failures, "\n".join(failures)
    assert total > 80 * len(rows)


def test_slopes_at_starts(long_run):
    rows = drawn(long_run)
    failures, total = all_rows(at_start, rows)
    assert not failures, "\n".join(failures)
    assert total > 60 * len(rows)


# ---- single meetings --------------------------------------------------------------------------------------------------------------
ARM = """<mujoco><option timestep=".002"/><worldbody><body><joint name="h" type="hinge" axis="0 1 0"/>
<geom type="capsule" fromto="0 0 0 0 0 -.3" size=".03" mass="1"/></body></worldbody>%s</mujoco>"""
MUSCLE = """<actuator><muscle joint="h" lengthrange="-1 1" force="20" timeconst=".01 .04" %s/></actuator>"""


def muscle_slopes(limits, act, ctrl, steps=10):
    """dv/dctrl of all controls together: forward and reverse, and one-sided above and below."""
    model = pb.loads(ARM % (MUSCLE % limits))
    s, u = model.init(), np.full((steps, 1), float(ctrl))
    s.act[:] = act
    roll, way = model.rollout(s, u), np.ones((steps, 1))
    ends = [(model.rollout(s, u + e).qvel[-1, 0] - roll.qvel[-1, 0]) / e for e in (1e-6, -1e-6)]
    return roll.jvp(ctrl=way).qvel[-1, 0], roll.vjp(qvel=[1.], wrt=["ctrl"], check=False).ctrl.sum(), *ends


def test_muscle_where_control_is_activation():
    """The slope into the domain at an end of it, between both sides elsewhere."""
    for limits, at in (("", 0), ('ctrlrange="0 1"', 0), ('ctrlrange=".2 .7"', .2)):
        forward, reverse, above, _ = muscle_slopes(limits, at, at)
        assert forward == pytest.approx(above, rel=1e-4) and reverse == pytest.approx(forward, rel=1e-12)
    for limits, at in (("", 1), ('ctrlrange=".2 .7"', .7)):
        forward, reverse, _, below = muscle_slopes(limits, at, at)
        assert forward == pytest.approx(below, rel=1e-4) and reverse == pytest.approx(forward, rel=1e-12)
    forward, reverse, above, below = muscle_slopes("", .3, .3)
    assert abs(above) > abs(forward) > abs(below) and reverse == pytest.approx(forward, rel=1e-12)

    # Of one step it is the mean of both.
    forward, reverse, above, below = muscle_slopes("", .3, .3, steps=2)
    assert forward == pytest.approx((above + below) / 2, rel=1e-4)


def test_clamped_actuator_of_a_clamped_tendon():
    """What it asks for moves the tendon's share of the others."""
    model = pb.loads(ARM % """<tendon><fixed name="t" actuatorfrcrange="-1 1"><joint joint="h" coef="1"/></fixed></tendon>
<actuator><motor tendon="t" forcerange="-.2 .2"/><motor tendon="t"/></actuator>""")
    u = np.tile([2., 1.5], (5, 1))
    roll = model.rollout(model.init(), u)
    g = roll.vjp(qvel=[1.], wrt=["ctrl", "actuator_forcerange", "tendon_actfrcrange"], check=False)
    for i in range(2):
        way = np.tile(np.eye(2)[i], (5, 1))
        difference = (model.rollout(model.init(), u + 1e-5 * way).qvel[-1, 0] - model.rollout(model.init(), u - 1e-5 * way).qvel[-1, 0]) / 2e-5
        assert g.ctrl.sum(0)[i] == pytest.approx(difference, rel=1e-6)
        assert roll.jvp(ctrl=way).qvel[-1, 0] == pytest.approx(difference, rel=1e-6)
    assert abs(g.ctrl).min() > 1e-4


def test_impact_beside_actuated_gravity_compensation():
    """Nothing of the flight's pullback stays behind in the impact's."""
    model = pb.loads("""<mujoco><option timestep=".01"/><worldbody><geom type="plane" size="1 1 .1"/><body pos="0 0 .3" gravcomp=".5">
<joint name="z" type="slide" axis="0 0 1" actuatorgravcomp="true"/><joint type="hinge" axis="0 1 0" actuatorgravcomp="true"/>
<geom type="capsule" fromto="0 0 0 .2 0 0" size=".05" condim="1"/></body></worldbody><actuator><motor joint="z"/></actuator></mujoco>""", contact={"method": "impact", "restitution": .8})
    s = model.init()
    s.qvel[:] = -1, .5
    roll = model.rollout(s, np.zeros((40, 1)), constants="keep")
    g = roll.vjp(qvel=[1., 0], wrt=["body_gravcomp", "gravity"], check=False)
    assert g.certificate["onsets"] == 2
    for name in ("body_gravcomp", "gravity"):
        forward = [roll.jvp(params={name: d}).qvel[-1, 0] for d in np.eye(np.size(model.params[name]))]
        assert g.params[name] == pytest.approx(np.array(forward), abs=1e-10)
    assert g.qpos[0] == pytest.approx(roll.jvp(qpos=[1., 0]).qvel[-1, 0], rel=1e-10)
