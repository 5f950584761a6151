"""Derivatives of the step: against themselves, against differences of MuJoCo's own step, and against their promises."""
import numpy as np
import pytest

import derivatives
import oracle
import inside
import random_models

ALL = oracle.MODELS
BY_NAME = {oracle.name(p): p for p in oracle.OWN}
RICH = BY_NAME["rich"]
CASES = [(p, {}) for p in ALL] + [(RICH, {"integrator": i, "cone": c}) for i in oracle.INTEGRATORS for c in ("pyramidal", "elliptic")] + [
    (BY_NAME["dcmotor"], {"integrator": "implicitfast"})] + [
    (BY_NAME[n], {"integrator": i}) for n in ("joints", "chain", "equality", "tendon_spatial", "actuators", "fluid_ellipsoid") for i in oracle.INTEGRATORS]
CASE_ID = lambda c: "-".join([oracle.name(c[0]), *c[1].values()])
EXACT = 1e-12
STATE, OTHER = 1e-8, 1e-7  # against differences: q, v and control; everything else


class Case:
    """A model at a state along its trajectory with contacts, its control and a record of the step."""

    def __init__(self, case, after=12, steps=1):
        path, options = case
        self.m, self.model, self.label = oracle.load(path, options), inside.Model(path, options), CASE_ID(case)
        self.r = np.random.default_rng(oracle.seed(self.label, "directions"))
        x, controls = oracle.start(self.m, (self.label, "derivatives"), after + steps, beyond=1.4)
        run = oracle.roll(self.m, x, controls[:after])
        self.blown = run.exact < after
        self.x, self.u, self.controls = run.states[min(after, run.exact)], controls[after], controls[after:]
        self.y = self.model.state(self.x.qpos, self.x.qvel, self.x.act)
        if self.blown and not np.isfinite(run.states[-1].flat()).all():
            return
        _, _, self.record = self.model.step_recorded(self.y, self.u)
        self.step = derivatives.Oracle(self.m)

    def theta_direction(self):
        """A direction of all parameters at once, each field along what it may be moved."""
        w = np.zeros(self.model.ntheta)
        for field in self.model.params:
            kept = self.model.param(w, field).size > 0  # delays, where nothing is late
            if kept and not field.startswith("o_") and field not in oracle.OURS:
                self.model.param(w, field)[...] = derivatives.field_direction(self.m, field, self.r).reshape(self.model.param(w, field).shape)
        return w

    def cotangents(self):
        r, m = self.r, self.m
        return dict(next_bar=r.standard_normal(2 * m.nv + m.na), sensordata=r.standard_normal(m.nsensordata) * self.step.timeless,
                    xpos=r.standard_normal((m.nbody, 3)), site_xpos=r.standard_normal((m.nsite, 3)))


def dot_product_faults(k):
    """<w, J d> = <J' w, d>, direction by direction, all outputs and all inputs."""
    r, m, faults = k.r, k.m, []
    w = k.cotangents()
    bar = k.model.vjp(k.record, ctrl=k.u, **w)
    ways = {"x": r.standard_normal(k.model.nt), "d_ctrl": r.standard_normal(m.nu), "d_qfrc": r.standard_normal(m.nv),
            "d_xfrc": r.standard_normal((m.nbody, 6)), "d_theta": k.theta_direction()}
    for name, d in ways.items():
        out = k.model.jvp(k.record, ctrl=k.u, **{name: d})
        parts = [w["next_bar"] * out[0], w["sensordata"] * out[1], w["xpos"] * out[2], w["site_xpos"] * out[3]]
        other = bar[name.removeprefix("d_")] * d
        left, right = sum(p.sum() for p in parts), other.sum()
        size = sum(np.abs(p).sum() for p in parts) + np.abs(other).sum()
        if not abs(left - right) <= EXACT * (size + 1e-3):
            faults.append(f"{k.label} {name}: pushed {left!r}, pulled {right!r}, relative {abs(left - right) / (size + 1e-3):.1e}")
    return faults


def push_faults(k):
    """Next state, sensors and positions pushed along q, v, act, control and forces, against MuJoCo; (faults, left out, all)."""
    at, faults, left_out, total = derivatives.blocks(k.m), [], 0, 0
    for kind, tolerance in (("qpos", STATE), ("qvel", STATE), ("ctrl", STATE), ("act", OTHER), ("qfrc", OTHER), ("xfrc", OTHER)):
        way = (derivatives.state_direction if kind in ("qpos", "qvel", "act") else derivatives.input_direction)(k.m, k.r, kind)
        ours = k.model.jvp(k.record, ctrl=k.u, **{"x" if "x" in way else "d_" + kind: next(iter(way.values()))})
        fd, error = derivatives.push(k.step, k.m, k.x, k.u, way)
        got = np.concatenate([np.ravel(o) for o in ours])
        for block, part in at.items():
            a, b, u = got[part], fd[part], error[part]
            if block == "sensordata":
                a = a * k.step.timeless
            scale, limit = np.abs(b).max(initial=0) + 1e-3, tolerance if block != "sensordata" else OTHER
            good = u <= limit / 5 * scale
            left_out, total = left_out + (~good).sum(), total + good.size
            e = np.where(good, np.abs(a - b), 0)
            if not e.max(initial=0) <= limit * scale:
                i = int(np.argmax(np.nan_to_num(e, nan=np.inf)))
                faults.append(f"{k.label} d {block}[{i}] / d {kind}: ours {a[i]:.10g}, differences {b[i]:.10g} (+-{u[i]:.0e}), relative {e[i] / scale:.1e}")
    return faults, left_out, total


@pytest.mark.parametrize("case", CASES, ids=CASE_ID)
def test_dot_product(case):
    faults = dot_product_faults(Case(case))
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("case", CASES, ids=CASE_ID)
def test_push_against_differences_of_the_oracle(case):
    faults, left_out, total = push_faults(Case(case))
    if left_out:
        print(f"{left_out} of {total} entries left out: kinks, or differences too coarse")
    assert not faults, "\n".join(faults)


def test_random_models(long_run, tmp_path):
    """Both checks on models nobody looked at."""
    faults, left_out, total, seeds = [], 0, 0, range(300 if long_run else 20)
    for seed in seeds:
        path = tmp_path / f"random{seed}.xml"
        path.write_text(random_models.xml(1000 + seed))
        k = Case((str(path), {}), after=5)
        if k.blown:
            print(f"random model {seed} left out: MuJoCo's run blows up or shapes of the convex tier meet")
            continue
        found, out, n = push_faults(k)
        faults, left_out, total = faults + dot_product_faults(k) + found, left_out + out, total + n
    print(f"{len(seeds)} random models; {left_out} of {total} entries left out: kinks, or differences too coarse")
    assert not faults, f"{len(faults)} faults\n" + "\n".join(faults[:30])
    assert left_out < 0.2 * total


def test_enough_differences_count():
    """The rule that leaves entries out leaves out few: judged by MuJoCo's differences alone."""
    good = total = 0
    for path in ALL:
        m = oracle.load(path)
        r = np.random.default_rng(3)
        x, controls = oracle.start(m, (oracle.name(path), "count"), 13)
        x = oracle.roll(m, x, controls[:12]).states[-1]
        fd, error = derivatives.push(derivatives.Oracle(m), m, x, controls[12], derivatives.state_direction(m, r, "qvel"))
        part = derivatives.blocks(m)["next"]
        u = error[part]
        good, total = good + (u <= STATE / 5 * (np.abs(fd[part]).max() + 1e-3)).sum(), total + u.size
    print(f"{good} of {total} entries of d next / d qvel count")
    assert good > 0.9 * total


@pytest.mark.parametrize("case", [c for c in CASES if oracle.name(c[0]) != "humanoid62"], ids=CASE_ID)
def test_jacobian_against_pullback(case):
    k = Case(case, after=8)
    A, B, C, D = k.model.jacobian(k.record, ctrl=k.u)
    n, eye = k.model.nt, np.eye(k.model.nt)
    for i in range(0, n, 1 + n // 24):
        bar = k.model.vjp(k.record, eye[i], ctrl=k.u)
        scale = 1 + max(np.abs(A).max(), np.abs(B).max(initial=0))
        assert np.abs(bar["x"] - A[i]).max() <= EXACT * 100 * scale, f"A row {i}"
        assert np.abs(bar["ctrl"] - B[i]).max(initial=0) <= EXACT * 100 * scale, f"B row {i}"
    for i in range(0, k.model.nsensordata, 1 + k.model.nsensordata // 24):
        s = np.zeros(k.model.nsensordata)
        s[i] = 1
        bar = k.model.vjp(k.record, None, s, ctrl=k.u)
        scale = 1 + max(np.abs(C[i]).max(), np.abs(D[i]).max(initial=0))
        assert np.abs(bar["x"] - C[i]).max() <= EXACT * 100 * scale, f"C row {i}"
        assert np.abs(bar["ctrl"] - D[i]).max(initial=0) <= EXACT * 100 * scale, f"D row {i}"


SEEN = {}  # field -> largest derivative met, over the tests below


@pytest.mark.together
@pytest.mark.parametrize("case", CASES[:len(ALL) + 6], ids=CASE_ID)
def test_parameters_against_differences_of_the_oracle(case):
    """Every field by name: three steps and their sensors, pulled back, against MuJoCo with that field alone moved."""
    k = Case(case, steps=3)
    m, model, r = k.m, k.model, k.r
    next_bar = r.standard_normal(model.nt) * np.r_[np.ones(m.nv), 0.1 * np.ones(m.nv), np.ones(m.na)]
    _, records, sensors = derivatives.forward_chain(model, k.x, k.controls)
    sensor_bars = r.standard_normal((3, m.nsensordata)) * k.step.timeless / (1 + np.abs(sensors))
    _, theta_bar, _ = derivatives.pull_chain(model, records, k.controls, next_bar, sensor_bars)
    base = k.x
    for u in k.controls:
        base = k.step.step(base, u)[0]
    faults, left_out = [], []
    for field, slot in model.params.items():
        if not slot.rows * slot.cols or field in oracle.OURS or field in derivatives.ONLY_OVERRIDE and k.label != "override":
            continue
        way = derivatives.field_direction(m, field, r)
        fd, u = derivatives.field_difference(k.step, m, k.x, k.controls, field, way, next_bar, sensor_bars, base)
        ours = (model.param(theta_bar, field) * way.reshape(slot.rows, slot.cols)).sum()
        if derivatives.followed(m, field):
            ours += model.param(theta_bar, "body_subtreemass").ravel() @ derivatives.subtree_sums(m, way)
        scale = abs(fd) + 1e-2
        if field == "body_subtreemass" and m.opt.integrator == 3:
            continue  # see derivatives.followed: no physics in it
        if not u <= 4e-7 * scale:
            left_out.append(field)
            continue
        SEEN[field] = max(SEEN.get(field, 0), abs(fd) if u < 0.01 * abs(fd) else 0)
        if not abs(ours - fd) <= max(OTHER, 5 * u / scale) * scale:
            faults.append(f"{field}: ours {ours:.9g}, differences {fd:.9g} (+-{u:.0e})")
    if left_out:
        print(f"{k.label}: left out, kinks or differences too coarse: {' '.join(left_out)}")
    assert len(left_out) < 0.25 * len(model.params)
    assert not faults, "\n".join(faults)


@pytest.mark.together
def test_every_field_moved_something():
    """Runs after the test above: each field but those no step reads had a derivative that is not zero in some model."""
    if len(SEEN) < 90:
        pytest.skip("the parameters were not all tested in this run")
    still = {"geom_gap", "pair_gap", "site_size"}  # they decide what counts, and move nothing
    dead = sorted(f for f, v in SEEN.items() if not v and f not in still)
    print("largest derivatives:", {f: float(f"{v:.2g}") for f, v in SEEN.items()})
    assert not dead, dead


@pytest.mark.parametrize("name", ["humanoid", "ant", "rich", "actuators", "equality", "chain"])
def test_taylor(name):
    """f(x + e p) - f(x) - e g.p falls with the square of e, along the gradient and along a random direction."""
    path = next(p for p in ALL if oracle.name(p) == name)
    k = Case((path, {}))
    model, r = k.model, k.r
    w = r.standard_normal(model.nt)
    bar = model.vjp(k.record, w, ctrl=k.u)
    start, _ = model.step(k.y, k.u)
    theta_way = np.zeros(model.ntheta)
    for field in ("gravity", "body_mass", "dof_armature"):
        model.param(theta_way, field)[...] = derivatives.field_direction(k.m, field, r).reshape(model.param(theta_way, field).shape)

    def value(e, dx, du, dt):
        after, _ = model.step(model.move(k.y, dx, e), k.u + e * du, theta=model.theta + e * dt)
        return w @ model.difference(start, after)

    along = [(bar["x"], bar["ctrl"], theta_way), (r.standard_normal(model.nt), r.standard_normal(model.nu), theta_way)]
    for dx, du, dt in along:
        size = np.sqrt((dx ** 2).sum() + (du ** 2).sum())
        dx, du = dx / size, du / size
        slope = bar["x"] @ dx + bar["ctrl"] @ du + bar["theta"] @ dt
        assert slope != 0
        rest = [abs(value(e, dx, du, dt) - e * slope) for e in (3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 3e-6)]
        rates = [np.log(a / b) / np.log(e / f) for a, b, e, f in
                 zip(rest, rest[1:], (3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5), (1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 3e-6)) if b > 0]
        assert any(abs(a - 2) < 0.15 for a in rates), (rest, rates)


@pytest.mark.parametrize("name", ["humanoid", "rich", "actuators"])
def test_promises_of_a_pullback(name):
    """Inputs are left alone, outputs are added to, nothing is zero, twice the cotangent is twice the gradient."""
    path = next(p for p in ALL if oracle.name(p) == name)
    k = Case((path, {}))
    w = k.cotangents()
    record, theta, y = k.record.copy(), k.model.theta.copy(), k.y.copy()
    one = k.model.vjp(k.record, ctrl=k.u, **w)
    assert (record == k.record).all() and (theta == k.model.theta).all() and (y == k.y).all()
    assert all(np.abs(one[b]).max() > 0 for b in ("x", "ctrl", "qfrc", "xfrc", "theta"))
    twice = k.model.vjp(k.record, ctrl=k.u, into={b: v.copy() for b, v in one.items()}, **w)
    for b in one:
        assert np.allclose(twice[b], 2 * one[b], rtol=1e-14, atol=1e-14 * np.abs(one[b]).max(initial=0)), b
    again = k.model.vjp(k.record, ctrl=k.u, **w)
    assert all((again[b] == one[b]).all() for b in one), "the same call gives the same bits"


@pytest.mark.parametrize("name", ["joints", "rich", "sensors_frame"])
def test_observations_alone(name):
    """Without a next state: sensors, xpos and site_xpos at the last state of a trajectory."""
    k = Case((BY_NAME[name], {}))
    w = k.cotangents()
    del w["next_bar"]
    whole = k.model.vjp(k.record, None, ctrl=k.u, **w)
    split = [k.model.vjp(k.record, np.zeros(k.model.nt), ctrl=k.u, **{key: v}) for key, v in w.items()]
    for b in ("x", "ctrl", "theta"):
        total = sum(s[b] for s in split)
        assert np.abs(whole[b] - total).max() <= 1e-12 * (1 + np.abs(total).max()), b
    assert not split[1]["ctrl"].any() and not split[1]["x"][k.m.nv:].any(), "positions follow from positions alone"


def test_differences_see_a_kink_and_a_fault():
    """The difference quotient is exact on a smooth function, is wide on a kink, and tells 1e-7 from right."""
    value, error = oracle.quotient(lambda e: np.array([np.sin(0.3 + e), abs(e), np.exp(2 * e)]))
    assert error[1] > 0.4 and error[0] < 1e-9 and abs(value[0] - np.cos(0.3)) < 1e-9 and abs(value[2] - 2) < 1e-9
    assert abs(value[0] * (1 + 1e-7) - np.cos(0.3)) > STATE


def test_differences_see_a_kink_beside_the_state_and_what_rounding_hides():
    """Kinks on both sides, nearer than the larger steps: the slope is that between them, or it is wide. Differences of large numbers are wide."""
    for near in (3e-6, 7e-7):
        value, error = oracle.quotient(lambda e: np.array([e + 0.05 * (max(e - near, 0) + min(e + 0.7 * near, 0)), 7.0]))
        assert abs(value[0] - 1) <= 4 * error[0] + 1e-12 and value[1] == error[1] == 0, near
    slope = lambda e: np.array([(1e5 + 1e-8 * e) - 1e5])
    value, error = oracle.quotient(slope, size=1e5)
    assert abs(value[0] - 1e-8) <= error[0] and error[0] > 1e-8
    value, error = oracle.quotient(slope, (100.0, 1000.0), size=1e5)
    assert abs(value[0] - 1e-8) <= error[0] < 1e-10
