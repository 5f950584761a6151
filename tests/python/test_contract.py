"""The contract of the package: axes of arguments and gradients, states, failures, what is refused."""
import copy
import itertools
import pickle
import threading
import time

import numpy as np
import pytest

import pullback as pb

# A free body on the floor and an arm: quaternions, contact, activation; two sizes are alike on purpose: B = N + 1 = nv below.
SCENE = """<mujoco model="scene"><option timestep="0.004"/><worldbody>
 <geom name="floor" type="plane" size="5 5 .1"/>
 <body name="ball" pos="0 0 .099"><freejoint/><geom name="ball" size=".1" mass="1"/></body>
 <body name="arm" pos="1 0 1"><joint name="swing" type="ball" damping=".1"/><geom type="capsule" size=".03" fromto="0 0 0 .4 0 .1"/>
  <body name="hand" pos=".4 0 .1"><joint name="wrist" axis="0 1 0" damping=".05"/><geom type="capsule" size=".02" fromto="0 0 0 .3 0 0"/>
   <site name="end" pos=".3 0 0"/></body></body></worldbody>
 <actuator><general name="motor" joint="wrist" dyntype="filter" dynprm=".05" gainprm="2"/><motor name="two" joint="wrist"/></actuator>
 <sensor><framepos objtype="site" objname="end"/><jointvel joint="wrist"/></sensor>
 <keyframe><key name="up" qpos="0 0 .3 1 0 0 0  1 0 0 0 .2"/></keyframe></mujoco>"""
NV = 10


@pytest.fixture(scope="module")
def model():
    return pb.loads(SCENE)


def states(model, count, seed=1):
    """States around the reference, `count` of them."""
    rng = np.random.default_rng(seed)
    s = model.init(batch=count)
    return model.integrate(s, .1 * rng.normal(size=(count, len(model.tangent_names))))


# ---- shapes -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("batched", list(itertools.product((None, 1, NV), repeat=4)))
def test_a_gradient_has_the_shape_of_what_was_passed(model, batched):
    """Every choice of what is shared, a batch of one, or a batch; B = N + 1 = nv, where shapes are easily mistaken."""
    rng, n = np.random.default_rng(0), NV - 1
    assert model.nv == NV
    full = {"state": states(model, NV).flat, "ctrl": .3 * rng.normal(size=(NV, n, model.nu)),
            "mass": model.params["body_mass"] * (1 + .1 * rng.random((NV, model.nbody))),
            "friction": model.params["geom_friction:floor"] * (1 + .1 * rng.random((NV, 3)))}
    pick = lambda a, b: a[0] if b is None else a[:b]
    given = {k: pick(a, b) for (k, a), b in zip(full.items(), batched)}
    r = model.rollout(given["state"], given["ctrl"], params={"body_mass": given["mass"], "geom_friction:floor": given["friction"]})
    worlds = max((b for b in batched if b), default=None)
    lead = () if worlds is None else (worlds,)
    assert r.qpos.shape == (*lead, n + 1, model.nq) and r.time.shape == (*lead, n + 1)

    bar = rng.normal(size=(*lead, n + 1, NV))
    g = r.vjp(qvel=bar, sensordata=np.ones((*lead, n + 1, model.nsensordata)))
    found = {"state": g.state, "ctrl": g.ctrl, "mass": g.params["body_mass"], "friction": g.params["geom_friction:floor"]}
    for name, value in given.items():
        expected = value.shape if name != "state" else (*value.shape[:-1], len(model.tangent_names))
        assert found[name].shape == expected, name

    # World by world, summed where shared.
    alone = {name: [] for name in found}
    for w in range(worlds or 1):
        one = {k: v if b is None else v[min(w, b - 1)] for (k, v), b in zip(given.items(), batched)}
        rw = model.rollout(one["state"], one["ctrl"], params={"body_mass": one["mass"], "geom_friction:floor": one["friction"]})
        assert np.array_equal(rw.states, r.states[w] if lead else r.states)
        gw = rw.vjp(qvel=bar[w] if lead else bar, sensordata=np.ones((n + 1, model.nsensordata)))
        for name, a in (("state", gw.state), ("ctrl", gw.ctrl), ("mass", gw.params["body_mass"]), ("friction", gw.params["geom_friction:floor"])):
            alone[name].append(a)
    for (name, a), b in zip(alone.items(), batched):
        expected = np.array(a) if b == worlds and b else np.sum(a, axis=0)
        np.testing.assert_allclose(found[name].reshape(expected.shape), expected, rtol=1e-11, atol=1e-13)


def test_what_was_not_passed_is_summed(model):
    s, rng = states(model, 4), np.random.default_rng(2)
    ctrl = rng.normal(size=(4, 5, model.nu))
    bar = rng.normal(size=(4, model.nv))
    g = model.rollout(s, ctrl).vjp(qvel=bar, wrt=["body_mass", "gravity", "ctrl"])
    one = [model.rollout(s[w], ctrl[w]).vjp(qvel=bar[w], wrt=["body_mass", "gravity"]) for w in range(4)]
    for name in ("body_mass", "gravity"):
        assert g.params[name].shape == model.params[name].shape
        np.testing.assert_allclose(g.params[name], sum(o.params[name] for o in one), rtol=1e-11, atol=1e-13)
    assert g.ctrl.shape == ctrl.shape and set(g.params) == {"body_mass", "gravity"}


def test_shared_gradients_are_sums_in_the_tree_of_worlds(model):
    s, ctrl = states(model, 7), np.random.default_rng(3).normal(size=(5, model.nu))
    bar = np.ones((7, model.nv))
    rows = [model.rollout(s[w], ctrl).vjp(qvel=bar[w]).ctrl for w in range(7)]
    tree = ((rows[0] + rows[1]) + (rows[2] + rows[3])) + ((rows[4] + rows[5]) + rows[6])
    assert np.array_equal(model.rollout(s, ctrl).vjp(qvel=bar).ctrl, tree)
    rows = [model.rollout(s[0], c).vjp(qvel=bar[0]).state for c in np.repeat(ctrl[None], 7, axis=0)]
    tree = ((rows[0] + rows[1]) + (rows[2] + rows[3])) + ((rows[4] + rows[5]) + rows[6])
    assert np.array_equal(model.rollout(s[0], np.repeat(ctrl[None], 7, axis=0)).vjp(qvel=bar).state, tree)


@pytest.mark.parametrize("shape", [(NV, NV), (NV, NV, 1), (NV - 1, NV), (NV,), (NV, NV - 1, NV), ()])
def test_wrong_cotangents_are_refused_also_where_sizes_are_alike(model, shape):
    r = model.rollout(states(model, NV), np.zeros((NV, NV - 1, model.nu)))
    if shape == (NV, NV):
        assert r.vjp(qvel=np.zeros(shape)).qvel.shape == (NV, NV)  # of the last states of B worlds
    else:
        with pytest.raises(pb.ArgumentError, match=r"cotangent of qvel: expected shape \(10, 10\) of the last state or \(10, 10, 10\)"):
            r.vjp(qvel=np.zeros(shape))


def test_an_unknown_spot_check_is_refused(model):
    with pytest.raises(pb.ArgumentError, match="check: expected False, 'auto', 'steps' or 'full', found 'never'"):
        model.rollout(model.init(), steps=2).vjp(qvel=np.zeros(NV), check="never")


@pytest.mark.parametrize("arguments, words", [
    (dict(ctrl=np.zeros((5, 3))), r"ctrl: expected shape \(5, 2\), or \(B, 5, 2\) of B worlds, found \(5, 3\)"),
    (dict(ctrl=np.zeros(2)), r"ctrl: expected shape \(N, 2\)"),
    (dict(ctrl=np.zeros((3, 5, 2)), params={"body_mass": np.ones((2, 4))}), r"params\['body_mass'\] has 2 worlds and ctrl has 3"),
    (dict(ctrl=np.zeros((5, 2)), steps=4), "ctrl has 5 steps, but steps is 4"),
    (dict(), "how many steps"),
    (dict(steps=0), "steps: expected a whole number, 1 or more, found 0"),
    (dict(ctrl=np.zeros((5, 2)), params={"body_mass": np.ones(3)}), r"params\['body_mass'\]: expected shape \(4,\), or \(B, 4\)"),
    (dict(ctrl=np.full((5, 2), np.nan)), r"ctrl: entry \(0, 0\) is nan"),
    (dict(steps=3, gradient="smoth"), "gradient: expected exact, event, smooth"),
    (dict(steps=3, outputs="sensors"), "outputs: expected some of sensordata"),
    (dict(steps=3, on_failure="ignore"), "on_failure: expected raise, mask"),
])
def test_what_is_refused(model, arguments, words):
    with pytest.raises(pb.ArgumentError, match=words):
        model.rollout(model.init(), **arguments)


@pytest.mark.parametrize("ctrl, kind", [(np.zeros((5, 2), complex), "complex numbers"),
                                        (np.ma.masked_array(np.zeros((5, 2)), np.eye(5, 2)), "2 that are masked"),
                                        (np.zeros((5, 2), bool), "truth values"), ([["a", "b"]] * 5, "text"), (np.array([[1, None]] * 5), "objects")])
def test_kinds_of_numbers_that_are_refused(model, ctrl, kind):
    with pytest.raises(TypeError, match=f"ctrl: expected real numbers, found {kind}"):
        model.rollout(model.init(), ctrl)


@pytest.mark.parametrize("make", [list, lambda a: a.astype(np.float32), lambda a: a.astype(int), lambda a: np.repeat(a, 2, axis=1)[:, ::2],
                                  np.asfortranarray, lambda a: np.frombuffer(a.tobytes()).reshape(a.shape)])
def test_kinds_of_numbers_that_are_taken(model, make):
    ctrl = np.arange(10.).reshape(5, 2) - 5
    assert np.array_equal(model.rollout(model.init(), make(ctrl)).states, model.rollout(model.init(), ctrl).states)


# ---- states -------------------------------------------------------------------------------------------------------------
def test_states_are_views(model):
    s = model.init()
    assert s.fields[:4] == ("time", "qpos", "qvel", "act") and s.qpos.base is not None
    s.qpos[2] = .5
    s.qvel = np.arange(10)
    assert s.flat[3] == .5 and np.array_equal(s.flat[13:23], np.arange(10))
    with pytest.raises(pb.ArgumentError, match=r"qvel: expected shape \(10,\), found \(3,\)"):
        s.qvel = [1, 2, 3]
    with pytest.raises(AttributeError, match="no field 'qacc'"):
        s.qacc = 0
    b = model.init(batch=3)
    b.qpos[:, 2] = [1, 2, 3]
    assert np.array_equal(b.flat[:, 3], [1, 2, 3]) and b[1].qpos[2] == 2 and len(b) == 3
    assert copy.deepcopy(s) == s and copy.copy(s).flat is not s.flat


def test_keyframes(model):
    assert model.init("up").qpos[2] == .3 and model.init(0) == model.init("up")
    with pytest.raises(pb.ArgumentError, match="no keyframe 'down'"):
        model.init("down")
    with pytest.raises(pb.ArgumentError):
        model.init(3)


def test_steps_and_rollouts_are_the_same(model):
    s, ctrl = states(model, 3), np.random.default_rng(4).normal(size=(3, 6, 2))
    r = model.rollout(s, ctrl)
    walk = s.copy()
    for k in range(6):
        assert np.array_equal(walk.flat, r.states[:, k])
        assert model.step(walk, ctrl[:, k]).flat is not walk.flat
        model.step_into(walk, ctrl[:, k])
    assert walk == r.final and np.array_equal(walk.flat, r.states[:, 6])
    one = s[1]
    for k in range(6):
        model.step_into(one, ctrl[1, k])
    assert one == r.final[1]
    assert np.array_equal(model.rollout(r.state(2), ctrl[:, 2:]).states, r.states[:, 2:])  # goes on with the same bits


def test_step_into_refuses_and_leaves_alone(model):
    s = model.init()
    for ctrl, error in ((np.zeros(3), pb.ArgumentError), (["a", "b"], TypeError), (np.array([np.nan, 0]), pb.ArgumentError)):
        before = s.copy()
        with pytest.raises(error):
            model.step_into(s, ctrl)
        assert s == before
    model.step_into(s, [1, 2])
    with pytest.raises(ValueError, match="another model"):
        pb.loads(SCENE).step_into(s)
    with pytest.raises(TypeError):
        model.step_into(s.flat)


def test_jacobians_are_those_of_steps(model):
    s, ctrl = states(model, 2), np.random.default_rng(5).normal(size=(2, model.nu))
    a, b = model.linearize(s, ctrl)
    n = len(model.tangent_names)
    assert a.shape == (2, n, n) and b.shape == (2, n, model.nu)
    a0, b0 = model.linearize(s[0], ctrl[0])
    assert np.array_equal(a0, a[0]) and np.array_equal(b0, b[0])
    way = np.random.default_rng(6).normal(size=n)
    e = 1e-6
    ends = [model.step(model.integrate(s[0], sign * e * way), ctrl[0]) for sign in (1, -1)]
    base = model.step(s[0], ctrl[0])
    quotient = (model.difference(base, ends[0]) - model.difference(base, ends[1])) / (2 * e)
    np.testing.assert_allclose(a0 @ way, quotient, rtol=1e-5, atol=1e-5)


def test_forward_and_reverse_agree(model):
    rng, s = np.random.default_rng(7), states(model, 3)
    ctrl, mass = rng.normal(size=(3, 8, 2)), model.params["body_mass"] * (1 + .1 * rng.random((3, 4)))
    r = model.rollout(s, ctrl, params={"body_mass": mass, "geom_friction": model.params["geom_friction"]})
    bar = rng.normal(size=(3, model.nv))
    g = r.vjp(qpos=bar)
    ways = dict(state=rng.normal(size=(3, len(model.tangent_names))), ctrl=rng.normal(size=ctrl.shape))
    dm, df = rng.normal(size=mass.shape), rng.normal(size=model.params["geom_friction"].shape)
    t = r.jvp(ways["state"], ctrl=ways["ctrl"], params={"body_mass": dm, "geom_friction": df})
    forward = (t.qpos[:, -1] * bar).sum()
    reverse = (g.state * ways["state"]).sum() + (g.ctrl * ways["ctrl"]).sum() + (g.params["body_mass"] * dm).sum() + (g.params["geom_friction"] * df).sum()
    assert forward == pytest.approx(reverse, rel=1e-11)


# ---- parameters -----------------------------------------------------------------------------------------------------------
def test_parameters_are_read_only_and_in_mujocos_shapes(model):
    assert model.params["body_mass"].shape == (4,) and model.params["body_pos"].shape == (4, 3) and model.params["gravity"].shape == (3,)
    assert model.params["timestep"].shape == () and model.timestep == .004
    assert model.params["geom_friction:floor"].shape == (3,) and model.params["geom_friction:floor:1"].shape == ()
    with pytest.raises(ValueError):
        model.params["body_mass"][0] = 1
    with pytest.raises(KeyError):
        model.params["body_mas"]
    assert "body_mass" in model.params and "body_mas" not in model.params and model.params.about("body_mass").unit == "kg"


@pytest.mark.parametrize("name, words", [
    ("gravity", r"with_params\(\{'gravity': ...\}\)"), ("body_mass", r"with_params\(\{'body_mass': ...\}\)"),
    ("timestep", r"with_params\(\{'timestep': ...\}\)"),
    ("integrator", r"load\(options=\{'integrator': ...\}\)"), ("method", r"load\(contact=\{'method': ...\}\)"), ("body_mas", "did you mean 'body_mass'"),
    ("params", "never changes"), ("nq", "never changes"), ("path", "never changes"), ("anything", "never changes")])
def test_a_model_takes_no_attributes(name, words):
    """What is assigned would act nowhere: an error that says how."""
    m = pb.loads("<mujoco><worldbody><body><freejoint/><geom size='.1'/></body></worldbody></mujoco>")
    before = m.rollout(m.init(), steps=3).states
    with pytest.raises(AttributeError, match=words):
        setattr(m, name, 3)
    for n in ("nq", "params", "path", "warnings"):
        with pytest.raises(AttributeError, match="never changes"):
            delattr(m, n)
    assert m.nq == 7 and m.params["gravity"][2] == -9.81 and m.path is None
    assert np.array_equal(m.rollout(m.init(), steps=3).states, before)


def test_parameters_mean_as_if_the_file_had_said_so(model):
    heavy = pb.loads(SCENE.replace('size=".1" mass="1"', 'size=".1" mass="2"'))
    inertia = heavy.params["body_inertia"]
    values = {"body_mass": heavy.params["body_mass"], "body_inertia": inertia}
    ctrl = np.ones((20, 2))
    expected = heavy.rollout(heavy.init(), ctrl).states
    np.testing.assert_allclose(model.rollout(model.init(), ctrl, params=values).states, expected, rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(model.with_params(values).rollout(model.init(), ctrl).states, expected, rtol=1e-13, atol=1e-15)
    kept = model.rollout(model.init(), ctrl, params=values, constants="keep").states
    assert np.abs(kept - expected).max() > 1e-9  # dof_invweight0 is that of the file

    # And the gradient is that function's.
    rng, name, e = np.random.default_rng(8), "body_mass", 1e-6
    bar, way = rng.normal(size=model.nv), rng.normal(size=4) * [0, 1, 1, 1]
    for constants in ("recompute", "keep"):
        run = lambda x: model.rollout(model.init(), ctrl, params={**values, name: x}, constants=constants)
        slope = run(values[name]).vjp(qvel=bar).params[name] @ way
        ends = [run(values[name] + sign * e * way).qvel[-1] @ bar for sign in (1, -1)]
        assert slope == pytest.approx((ends[0] - ends[1]) / (2 * e), rel=1e-5)


def test_values_out_of_range_are_named(model):
    with pytest.raises(pb.InputError, match="body_mass:ball"):
        model.rollout(model.init(), steps=2, params={"body_mass": [0, -1, 1, 1]})
    with pytest.raises(pb.InputError, match="body_mass:hand"):
        model.with_params({"body_mass": [0, 1, 1, -1]})


# ---- failures, memory, lifetime -------------------------------------------------------------------------------------------
def broken(model, count=3):
    """States of which the second leaves all bounds after some steps."""
    s = model.init(batch=count)
    s.qvel[1, 0], s.qpos[1, :3] = 5e9, [1e10 - 1e8, 0, 3]
    return s


def test_a_world_that_fails_is_told(model):
    with pytest.raises(pb.StepError) as caught:
        model.rollout(broken(model), np.zeros((12, 2)))
    e = caught.value
    assert e.world == 1 and 0 < e.step < 12 and "world 1" not in str(e.rollout) and isinstance(e, ArithmeticError)
    assert np.isfinite(e.rollout.qpos[0]).all() and e.rollout.steps_done[1] == e.step


def test_a_world_that_fails_is_masked(model):
    ctrl = np.random.default_rng(9).normal(size=(3, 12, 2))
    r = model.rollout(broken(model), ctrl, on_failure="mask")
    done = r.steps_done[1]
    assert list(r.steps_done) == [12, done, 12] and [s != 0 for s, _ in r.status] == [False, True, False]
    assert (r.states[1, done:] == r.states[1, done]).all() and np.isfinite(r.sensordata).all()

    # Cotangents of rows that repeat have no effect; those of rows before have that of a rollout of so many steps.
    bar = np.random.default_rng(10).normal(size=(3, 13, model.nv))
    g = r.vjp(qpos=bar)
    cut = model.rollout(broken(model)[1], ctrl[1, :done])
    assert np.array_equal(cut.vjp(qpos=bar[1, :done + 1]).state, g.state[1])
    last = r.vjp(qpos=bar[:, -1])
    assert (last.state[1] == 0).all() and (last.state[0] != 0).any()


def test_a_budget_changes_no_bit(model):
    ctrl = np.random.default_rng(11).normal(size=(4, 30, 2))
    s, bar = states(model, 4), np.ones((4, model.nv))
    whole = model.rollout(s, ctrl, params={"body_mass": model.params["body_mass"]}).vjp(qpos=bar)
    for threads in (1, 2):
        r = model.rollout(s, ctrl, params={"body_mass": model.params["body_mass"]}, memory=6000, threads=threads)
        g = r.vjp(qpos=bar)
        assert np.array_equal(g.state, whole.state) and np.array_equal(g.params["body_mass"], whole.params["body_mass"])
        t, u = r.jvp(ctrl=ctrl).qpos, model.rollout(s, ctrl).jvp(ctrl=ctrl).qpos
        assert np.array_equal(t, u)
    with pytest.raises(pb.CapacityError, match="one tape record takes"):
        model.rollout(s, ctrl, memory=10)


def test_jacobians_of_kept_evaluations_are_those_of_records(model):
    ctrl = np.sin(np.arange(80).reshape(40, 2))
    kept, records = model.rollout(model.init(), ctrl), model.rollout(model.init(), ctrl, memory=30_000)
    assert records.nbytes < .8 * kept.nbytes
    kept.vjp(qpos=np.ones(NV))    # which leaves them where they are
    for a, b in zip(kept.linearize(sensors=True), records.linearize(sensors=True)):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("damping", (1e-3, 1, 100))
def test_jacobians_where_dampers_outweigh_inertia(damping):
    """Twelve light hinges, a row that acts: rows beside forward derivatives, by the largest entry of each."""
    inner = ""
    for k in range(12):
        loss = 'frictionloss=".01"' if k == 0 else ""
        axis = ("0 1 0", "1 0 0", "0 0 1")[k % 3]
        inner = (f'<body pos="0 0 -.05"><joint axis="{axis}" damping="{damping}" {loss}/>'
                 f'<geom type="capsule" size=".005" fromto="0 0 0 .01 0 -.05" mass=".001" contype="0" conaffinity="0"/>{inner}</body>')
    chain = pb.loads(f'<mujoco><option timestep=".01" integrator="Euler"/><worldbody>{inner}</worldbody></mujoco>')
    start = chain.init()
    start.qvel[:] = np.sin(1 + np.arange(12))
    r = chain.rollout(start, steps=1)
    A, n = r.linearize()[0][0], 24
    ways = np.eye(n)
    forward = np.concatenate([r.jvp(directions=n, qpos=ways[:, :12], qvel=ways[:, 12:]).x[:, -1, :n]]).T
    assert (np.abs(A - forward).max(1) <= 1e-6 * np.abs(forward).max(1)).all()    # 2e-3 where M mu is a difference


def test_a_rollout_owns_what_it_was_given(model):
    ctrl, mass, s = np.ones((5, 2)), np.array(model.params["body_mass"]), model.init()
    r = model.rollout(s, ctrl, params={"body_mass": mass})
    first = r.vjp(qvel=np.ones(model.nv))
    ctrl[:], mass[:], s.flat[:] = 7, 9, 3
    again = r.vjp(qvel=np.ones(model.nv))
    assert np.array_equal(first.state, again.state) and np.array_equal(first.ctrl, again.ctrl)
    qpos = r.qpos
    with r:
        pass
    with pytest.raises(pb.ArgumentError, match="closed"):
        r.vjp(qvel=np.ones(model.nv))
    del r
    assert qpos[0, 2] == .099  # keeps its memory alive
    with pytest.raises(pb.ArgumentError, match="keep=False"):
        model.rollout(model.init(), steps=3, keep=False).vjp(qvel=np.ones(model.nv))


def test_vjp_from_other_threads(model):
    r = model.rollout(states(model, 4), np.ones((4, 20, 2)))
    bars = np.random.default_rng(12).normal(size=(8, 4, model.nv))
    expected = [r.vjp(qpos=b).ctrl for b in bars]
    found = [None] * 8
    def work(i):
        found[i] = r.vjp(qpos=bars[i]).ctrl
    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all(np.array_equal(a, b) for a, b in zip(expected, found))


def test_quaternions_in_the_tangent_space_and_out_of_it(model):
    s, rng = states(model, 3), np.random.default_rng(13)
    bar = rng.normal(size=(3, model.nq))
    tangent = model.to_tangent(s, bar)
    assert tangent.shape == (3, model.nv)
    np.testing.assert_allclose(model.to_tangent(s, model.to_ambient(s, tangent)), tangent, rtol=1e-12)
    way = rng.normal(size=(3, len(model.tangent_names))) * 1e-7
    moved = model.integrate(s, way)
    np.testing.assert_allclose(((moved.qpos - s.qpos) * bar).sum(1), (tangent * way[:, :model.nv]).sum(1), rtol=1e-4, atol=1e-12)
    np.testing.assert_allclose(model.difference(s, moved), way, rtol=1e-6, atol=1e-15)


def test_things_by_name(model):
    wrist, swing = model.joint("wrist"), model.joint("swing")
    assert (wrist.qpos, wrist.qvel) == (slice(11, 12), slice(9, 10)) and (swing.qpos, swing.qvel) == (slice(7, 11), slice(6, 9))
    assert model.actuator("motor").ctrl == slice(0, 1) and model.actuator("motor").act == slice(0, 1) and model.actuator("two").act == slice(0, 0)
    assert model.sensor(1).sensordata == slice(3, 4) and model.body("hand").id == 3 and model.geom(0).name == "floor"
    assert np.array_equal(model.params[model.body("hand").param("mass")], model.params["body_mass"][3])
    assert np.array_equal(model.params[wrist.param("axis")], [0, 1, 0]) and model.names("body") == ("world", "ball", "arm", "hand")
    for ask, words in ((lambda: model.joint("wrst"), "did you mean 'wrist'"), (lambda: model.joint(7), "no joint 7: there are 3"), (lambda: model.names("knob"), "kind: expected")):
        with pytest.raises(pb.ArgumentError, match=words):
            ask()


CUBE = "v -1 -1 -1\nv 1 -1 -1\nv -1 1 -1\nv 1 1 -1\nv -1 -1 1\nv 1 -1 1\nv -1 1 1\nv 1 1 1\n" + "".join(
    f"f {f}\n" for f in ("1 3 4", "1 4 2", "5 6 8", "5 8 7", "1 2 6", "1 6 5", "3 7 8", "3 8 4", "1 5 7", "1 7 3", "2 4 8", "2 8 6"))


def test_texts_with_their_files():
    text = """<mujoco><compiler meshdir="meshes"/><asset><mesh name="cube" file="cube.obj" scale=".1 .1 .1"/></asset><worldbody><body><freejoint/>
    <geom type="mesh" mesh="cube" contype="0" conaffinity="0"/></body></worldbody></mujoco>"""
    m = pb.loads(text, {"meshes/cube.obj": CUBE.encode()})
    assert m.params["body_mass"][1] == pytest.approx(8)
    with pytest.raises(pb.FileError) as caught:
        pb.loads(text, {"cube.obj": CUBE})
    assert "meshes/cube.obj" in str(caught.value) and "/tmp" not in str(caught.value)
    for path in ("../x", "/x", "a/../../x"):
        with pytest.raises(pb.ArgumentError, match="below the model's folder"):
            pb.loads(text, {path: b""})
    with pytest.raises(pb.InputError, match=r"robot.xml:1:"):
        pb.loads("<mujoco><worldbody><body><joint/></body></worldbody></mujoco>", name="robot.xml")


def test_bytes_are_those_that_are_held():
    model = pb.loads("<mujoco><worldbody><body><freejoint/><geom size='.1'/></body></worldbody></mujoco>")
    start, steps = model.init(batch=4), 20_000
    whole, thrifty, none = (model.rollout(start, steps=steps, **o) for o in ({}, {"memory": 200_000}, {"keep": False}))
    arrays = whole.states.nbytes + whole.sensordata.nbytes
    tape = 4 * steps * 8 * (model.nq + 2 * model.nv)  # of the state and the acceleration at least
    assert whole.nbytes > arrays + tape and max(thrifty.nbytes, none.nbytes) < whole.nbytes - .9 * tape and min(thrifty.nbytes, none.nbytes) > arrays
    bar = np.ones((4, model.nv))
    assert np.array_equal(whole.vjp(qpos=bar).qvel, thrifty.vjp(qpos=bar).qvel)
    whole.close()
    assert whole.nbytes == arrays


# ---- odd values -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("options, message", [
    (dict(steps=2.5), "steps: expected a whole number, 1 or more, found 2.5"), (dict(steps=True), "found True"),
    (dict(steps="3"), "found '3'"), (dict(steps=2**40), "at most"), (dict(steps=3, memory=-5), "memory: expected a whole number, 1 or more"),
    (dict(steps=3, threads=1.5), "threads: expected a whole number"),
    (dict(steps=3, params=[1]), "params: expected a dict of values by name, found list"),
    (dict(steps=3, params={"body_mass:hand": 1, "body_mass": np.ones(4)}), "'body_mass' and 'body_mass:hand' have entries in common"),
    (dict(steps=3, params={"geom_friction:floor": np.ones((2, 3)), "geom_friction:floor:0": 1}), "have entries in common")])
def test_odd_options_are_refused(model, options, message):
    with pytest.raises(pb.ArgumentError, match=message):
        model.rollout(model.init(), **options)


def test_parameters_that_overlap_are_refused(model):
    """Which of the two would act, and whose would the gradient be?"""
    both = {"body_mass": model.params["body_mass"], "body_mass:hand": 1.}
    with pytest.raises(pb.ArgumentError, match="values: 'body_mass' and 'body_mass:hand' have entries in common"):
        model.with_params(both)
    with pytest.raises(pb.ArgumentError, match="direction of params: 'body_mass' and 'body_mass:hand'"):
        model.rollout(model.init(), steps=2).jvp(params=both)
    apart = {"geom_friction:floor:0": .5, "geom_friction:floor:2": .1, "geom_friction:ball": [1, .1, .1]}
    assert set(model.rollout(model.init(), steps=2, params=apart).vjp(qpos=np.ones(NV)).params) == set(apart)


def test_controls_in_place_have_the_right_axes(model):
    one, three = model.init(), model.init(batch=3)
    for state, shape in ((one, (1, 2)), (one, (2, 1)), (three, (2, 3)), (three, (6,)), (three, (1, 6)), (three, (6, 1))):
        with pytest.raises(pb.ArgumentError, match=r"ctrl: expected shape \(2,\)"):
            model.step_into(state, np.zeros(shape))
    for shape in ((2,), (1, 2), (3, 2)):
        model.step_into(three, np.zeros(shape))


def test_odd_states_are_refused(model):
    three = model.init(batch=3)
    for world in ([], slice(0, 0), None, (0, 0), True, 3, "qpos"):
        with pytest.raises(IndexError):
            three[world]
    assert three[[2, 0]].batch == 2 and len(list(three)) == 3
    for keyframe in (-1, 1, True, 0., "uq", "\0", "\ud800", 10**12):
        with pytest.raises(pb.ArgumentError, match="keyframe"):
            model.init(keyframe)
    for batch in (0, -1, 2.5, True, "3"):
        with pytest.raises(pb.ArgumentError, match="batch: expected a whole number, 1 or more"):
            model.init(batch=batch)
    for value, error in ((None, TypeError), ("1", TypeError), (True, TypeError), (1j, TypeError), (np.nan, pb.ArgumentError), ([1, 2], pb.ArgumentError)):
        with pytest.raises(error, match="qpos: e"):
            three.qpos = value
    with pytest.raises(AttributeError, match=r"write into it with flat\[:\]"):
        three.flat = np.zeros(3)
    small = pb.loads("<mujoco><worldbody><body><joint/><geom size='.1'/></body></worldbody></mujoco>")
    for call in (small.step, small.evaluate, lambda s: small.rollout(s, steps=1)):
        with pytest.raises(pb.ArgumentError, match=r"state: expected shape \(4,\)"):
            call(three)
        with pytest.raises(TypeError, match="state: expected real numbers"):
            call(None)
    for name in (True, 1., None, b"hand"):
        with pytest.raises(pb.ArgumentError, match="body: expected a name or a number"):
            model.body(name)
    with pytest.raises(TypeError, match="ctrl: expected real numbers, found objects of unequal kind or length"):
        model.rollout(three, [[0, 0], [0]])


def test_a_step_that_fails_tells_the_world(model):
    s = model.init(batch=3)
    s.qvel[1] = 1e200
    for call in (model.step, model.evaluate, model.linearize, lambda s: model.rollout(s, steps=2)):
        with pytest.raises(pb.StepError) as caught:
            call(s)
        assert caught.value.world == 1
    back = pickle.loads(pickle.dumps(caught.value))  # on its way out of a worker
    assert (back.world, back.step, str(back), back.rollout) == (1, 0, str(caught.value), None)
    with pytest.raises(TypeError, match="a Rollout does not pickle"):
        pickle.dumps(caught.value.rollout)


def test_equal_models_hash_alike(model):
    a, b = (model.with_params({"gravity": [zero, 0, -9]}) for zero in (0., -0.))
    assert a == b and hash(a) == hash(b)


MOCAP = """<mujoco><option timestep=".01"/><worldbody><body name="hand" mocap="true" pos="0 0 1"><geom size=".1"/></body>
<body name="load" pos="0 0 .5"><freejoint/><geom type="box" size=".1 .2 .1" mass="1"/></body></worldbody>
<equality><weld body1="hand" body2="load" solref=".1 1"/></equality></mujoco>"""


@pytest.mark.parametrize("worlds", list(itertools.product((None, 1, 5), repeat=2)))
def test_places_and_orientations_of_mocap_bodies_have_axes_of_their_own(worlds):
    """Either may be shared; the gradient by rotations has the axes of the quaternions."""
    model, rng, n = pb.loads(MOCAP), np.random.default_rng(0), 4
    pos, quat = rng.normal(size=(5, n, 1, 3)), rng.normal(size=(5, n, 1, 4))
    pick = lambda a, b: a[0] if b is None else a[:b]
    pos, quat = (pick(a, b) for a, b in zip((pos, quat), worlds))
    s, bar = states(model, 5), rng.normal(size=(5, 6))
    r = model.rollout(s, mocap_pos=pos, mocap_quat=quat)
    g = r.vjp(qvel=bar)
    alone = [model.rollout(s[w], mocap_pos=pos if worlds[0] is None else pos[w % worlds[0]], mocap_quat=quat if worlds[1] is None else quat[w % worlds[1]])
             .vjp(qvel=bar[w]) for w in range(5)]
    for name, b, given in (("mocap_pos", worlds[0], pos), ("mocap_rot", worlds[1], quat[..., :3])):
        rows = np.array([getattr(a, name) for a in alone])
        assert getattr(g, name).shape == given.shape
        np.testing.assert_allclose(getattr(g, name), rows if b == 5 else rows.sum(axis=0).reshape(given.shape), rtol=1e-11, atol=1e-13)


def test_directions_have_the_worlds_of_the_rollout(model):
    r = model.rollout(states(model, 3), np.zeros((4, 2)), params={"body_mass": np.tile(model.params["body_mass"], (3, 1))})
    n = len(model.tangent_names)
    for way in (dict(state=np.ones((2, n))), dict(qpos=np.ones((2, NV))), dict(params={"body_mass": np.ones((2, 4))})):
        with pytest.raises(pb.ArgumentError, match=r"direction of \w+.*: expected 3 worlds, found 2"):
            r.jvp(**way)
    none = pb.loads("<mujoco><worldbody><body><freejoint/><geom size='.1'/></body></worldbody></mujoco>")  # without a control
    assert none.rollout(none.init(batch=2), np.zeros((2, 3, 0))).jvp(ctrl=np.zeros((2, 3, 0))).x.shape == (2, 4, 12)


def test_nothing_was_seen_of_the_state_at_which_a_world_failed(model):
    """Its row of an output repeats the one before, and a cotangent of it has no effect; one of the state has."""
    push = np.zeros((2, 8, model.nbody, 6))
    push[1, 5, 1, 0] = 1e300
    r = model.rollout(states(model, 2), xfrc_applied=push, on_failure="mask", outputs=("sensordata", "xpos"))
    assert list(r.steps_done) == [8, 5] and np.array_equal(r.sensordata[1, 5], r.sensordata[1, 4])
    for name in ("sensordata", "xpos"):
        bar = np.zeros(getattr(r, name).shape)
        bar[1, 5:] = 1
        assert not r.vjp(**{name: bar}).state.any()
        bar[1, 4] = 1
        assert r.vjp(**{name: bar}).state[1].any()
    bar = np.zeros((2, 9, NV))
    bar[1, 5] = 1
    assert r.vjp(qvel=bar).state[1].any()


def test_a_name_goes_before_a_number():
    """A geom that is called as another's number."""
    model = pb.loads("<mujoco><worldbody><body><freejoint/><geom name='1' size='.1'/><geom size='.2'/><geom name='x:0' size='.3'/></body></worldbody></mujoco>")
    for k, size in enumerate((.1, .2, .3)):
        assert model.geom(k).name in ("1", "", "x:0")
        if k != 1:  # whose number is the name of another
            assert model.params[model.geom(k).param("size")][0] == size
    assert model.params["geom_size:1:0"] == .1 and model.params["geom_size:0"][0] == .1 and model.params["geom_size:2"][0] == .3


def test_shapes_of_a_linearization_are_those_of_a_step(model):
    s = model.init(batch=3)
    for inputs, message in ((dict(ctrl=np.zeros(3)), r"ctrl: expected shape \(2,\), or \(B, 2\) of B worlds, found \(3,\)"),
                            (dict(ctrl=0.), r"ctrl: .* found \(\)"), (dict(xfrc_applied=np.zeros(6)), r"xfrc_applied: expected shape \(4, 6\)")):
        with pytest.raises(pb.ArgumentError, match=message):
            model.linearize(s, **inputs)
    for seed in (-1, 2.5, 2**70):
        with pytest.raises(pb.ArgumentError, match="seed: expected a whole number"):
            model.rollout(s, steps=1).vjp(seed=seed)


def test_what_follows_from_other_parameters_is_not_ignored(model):
    """Its value would be computed anew: another one acts where constants are kept, and all parameters of a model go into another."""
    weights = model.params["body_invweight0"]
    for call in (model.with_params, lambda p: model.rollout(model.init(), steps=2, params=p)):
        with pytest.raises(pb.ArgumentError, match="'body_invweight0' follows from other parameters"):
            call({"body_invweight0": 2 * weights})
        call(dict(model.params))
    kept = model.rollout(model.init(), steps=2, params={"body_invweight0": 2 * weights}, constants="keep")
    assert not np.array_equal(kept.states, model.rollout(model.init(), steps=2).states)
    heavy = model.with_params({"body_mass": 2 * model.params["body_mass"]})
    assert model.with_params(dict(heavy.params)) == heavy and heavy.params != model.params == model.params
    assert model.init() and model.init(batch=2)


def test_a_world_that_fails_at_once_still_has_its_start():
    """What cannot be stepped from is still where the cotangents of row 0 are; everything later has no effect."""
    model = pb.loads("<mujoco><worldbody><body><freejoint/><geom size='.1' mass='1'/></body></worldbody></mujoco>")
    force = np.zeros((2, 3, model.nbody, 6))
    force[0, 0, 1, 0] = 1e300
    r = model.rollout(model.init(batch=2), steps=3, xfrc_applied=force, on_failure="mask")
    assert list(r.steps_done) == [0, 3]
    rng = np.random.default_rng(0)
    bar, state = rng.standard_normal((2, 4, model.nv)), rng.standard_normal((2, 4, len(model.tangent_names)))
    g = r.vjp(qvel=bar, state=state)
    np.testing.assert_array_equal(g.state[0], state[0, 0] + np.r_[np.zeros(model.nv), bar[0, 0]])
    alone = model.rollout(model.init(), steps=3).vjp(qvel=bar[1], state=state[1])
    np.testing.assert_allclose(g.state[1], alone.state, rtol=1e-12)
    assert not g.xfrc_applied[0].any() and not r.vjp(qvel=bar[:, -1]).qvel[0].any()
    with pytest.raises(pb.ArgumentError, match="by 'mocap_rot'"):
        r.vjp(qvel=bar, wrt="mocap_quat")


KINK = """<mujoco><option timestep=".01" gravity="0 0 0"/><worldbody><body><joint name="j" type="slide" axis="1 0 0" {}/><geom size=".1"/></body></worldbody>
<actuator><motor joint="j" forcelimited="true" forcerange="-1 1"/></actuator></mujoco>"""


@pytest.mark.parametrize("ctrl, seen", [(0.5, True), (1.0, False)])
def test_a_certificate_says_what_was_compared(ctrl, seen):
    """A force at its limit bends there: no quotient is a derivative, nothing was compared, and that is said, with the reason and the share."""
    model = pb.loads(KINK.format(""))
    r = model.rollout(model.init(), np.full((30, 1), ctrl))
    for check in ("steps", "full"):
        c = r.vjp(qpos=[1.0], check=check).certificate
        assert c["spot_checked"] == seen and (c["spot_quotients"] > 0) == seen and not c["spot_off"], c
        assert c["checked"] == ({"steps": "steps", "full": "rollout"}[check] if seen else "nothing")
        assert c["spot_left_out"] == c["spot_left_kink"] + c["spot_left_tie"] + c["spot_left_noise"] and (c["spot_left_out"] > 0) == (not seen)
        assert (c["spot_steps_share"] > 0) == seen and (c["spot_entries_share"] > 0) == seen and (c["spot_left_kink"] > 0) == (not seen), c
    if seen:
        assert c["spot_steps_share"] == 1 and .5 < c["spot_entries_share"] <= 1


def test_checks_in_a_loop_cost_a_share_of_the_rollouts():
    """Of many short gradients few are checked, the first and all of long rollouts are; each takes another draw; one that was off is looked at again."""
    model = pb.loads(KINK.format('damping=".1"'))
    short, steps, spent, checked = 4, 0, 0, []
    for _ in range(200):
        c = model.rollout(model.init(), np.full((short, 1), .3)).vjp(qpos=[1.0]).certificate
        steps, spent, checked = steps + short, spent + c["spot_evaluations"], [*checked, c["spot_checked"]]
    assert checked[0] and 3 < sum(checked) < 50 and spent <= .2 * steps + 40, (sum(checked), spent, steps)
    assert model.with_params({"gravity": [0, 0, -1.0]})._checks is model._checks
    long = model.rollout(model.init(), np.full((1000, 1), .3))
    draws = [long.vjp(qpos=[1.0]).certificate for _ in range(5)][1:]  # the first may pay for those before
    assert all(c["spot_checked"] for c in draws) and len({c["spot_gradient"] for c in draws}) == 4
    again = model.rollout(model.init(), np.full((short, 1), .3))
    assert all(again.vjp(qpos=[1.0], check="steps").certificate["spot_checked"] for _ in range(50))
    assert not again.vjp(qpos=[1.0]).certificate["spot_checked"]
    model._checks.off = True
    assert again.vjp(qpos=[1.0]).certificate["spot_checked"] and not model._checks.off


def test_the_check_of_a_step_with_contact_begins_at_its_solution():
    """A cloth that lies on a ball: a quotient's steps are solved from where the recorded step ended, so that checks cost less than rollouts."""
    cells = 15
    cloth = {"name": "cloth", "mesh": {"grid": {"u": [1, 0, 0], "v": [0, 1, 0], "cells": [cells, cells], "pattern": "alternating"}}, "pos": [-.5, -.5, .303],
             "surface": {"self": True}, "energies": [{"energy": "membrane_stvk", "parameters": {"young": 1e5, "poisson": .3, "thickness": 1e-3, "density": 200}}]}
    model = pb.loads("<mujoco><option timestep='.01'/><worldbody><geom name='ball' type='sphere' size='.3'/></worldbody></mujoco>",
                     deformables={"bodies": [cloth], "contact": {"distance": .4 / cells, "stiffness": 100, "friction": .3, "geoms": ["ball"]}})

    def seconds(run):
        begun = time.process_time()
        return run(), time.process_time() - begun

    r, rollout = seconds(lambda: model.rollout(model.init(), steps=5))
    w = np.linspace(-1, 1, r.points.shape[1])
    plain, gradient = seconds(lambda: r.vjp(points=w, check=False))
    checked, both = seconds(lambda: r.vjp(points=w))
    assert checked.certificate["spot_quotients"] > 0 and not checked.certificate["spot_off"], checked.certificate
    assert both - gradient < 2 * rollout, (rollout, gradient, both)  # measured: .3 to .5
    assert np.array_equal(plain.state, checked.state)  # a check changes no bit


def test_memory_of_a_rollout_waits_for_the_next_one():
    """Rollouts of a shape use what one before them left with the model: with the bits of a model that never had one, whatever was asked of it."""
    rng, used = np.random.default_rng(3), pb.loads(SCENE)
    for turn in range(6):
        ctrl, bar = rng.normal(size=(5, 2)), rng.normal(size=NV)
        kind = ("exact", "event")[turn % 2]
        fresh = pb.loads(SCENE)
        results = []
        for m in (used, fresh):
            with m.rollout(m.init(keyframe="up"), ctrl, gradient=kind) as r:
                wrt = [["body_mass", "ctrl"], ["gravity", "ctrl", "body_mass"]][turn // 2 % 2]
                g = r.vjp(qvel=bar, wrt=wrt)
                results.append([r.states, g.qpos, g.qvel, g.act, g.ctrl, *(g.params[name] for name in wrt if name != "ctrl"), *r.linearize()])
                held = r.nbytes
            assert held < 2e6
        assert all(np.array_equal(a, b) for a, b in zip(*results))
    # A world that failed leaves nothing behind.
    wild = used.init()
    wild.qvel[0] = 1e30
    for _ in range(2):
        with pytest.raises(pb.Error):
            used.rollout(wild, np.zeros((5, 2)))
        assert np.array_equal(used.rollout(used.init(), np.zeros((5, 2))).states, fresh.rollout(fresh.init(), np.zeros((5, 2))).states)


def test_a_rollout_has_one_working_memory():
    """What runs it again works in the memory that ran it: of many bodies the tape of a step and its evaluation are less (1.7; 2.7 with two)."""
    m = pb.loads("<mujoco><worldbody>" + "".join(f'<body pos="{i} 0 1"><freejoint/><geom size=".1"/></body>' for i in range(200)) + "</worldbody></mujoco>")
    kept, none = m.rollout(m.init(), steps=1, outputs=()), m.rollout(m.init(), steps=1, keep=False, outputs=())
    assert kept.nbytes < 2 * none.nbytes
    kept.vjp(qvel=np.ones(m.nv), check=False)
    assert kept.nbytes < 3 * none.nbytes


@pytest.mark.parametrize("worlds", [None, 1, 3])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_parked_rollout_runs_again(model, worlds, threads):
    """Its tape is another's: every derivative is that of one that kept it, with values of each world's own, worlds that fail, and twice."""
    rng = np.random.default_rng(0)
    state = model.integrate(model.init(batch=3), .1 * rng.normal(size=(3, len(model.tangent_names))))
    state.qvel[1, 0] = 1e30 if worlds == 3 else 0  # world 1 fails at once
    state = state if worlds == 3 else state[:1] if worlds == 1 else state[0]
    mass = np.array(model.params["body_mass"]) * (rng.uniform(1, 2, size=(3, 1)) if worlds == 3 else 1.1)
    ctrl, lead = rng.normal(size=(7, 2)), () if worlds is None else (worlds,)
    bar = rng.normal(size=(*lead, model.nv))

    def derivatives(r, park):
        found = []
        for work in (lambda: (g := r.vjp(qvel=bar, check=False)) and [g.state, g.ctrl, g.params["body_mass"]],
                     lambda: [r.jvp(qvel=bar, params={"body_mass": mass}).x], r.linearize, lambda: r.vjp(qpos=bar, wrt="ctrl").ctrl[None]):
            if park:
                r._park()
                assert r._run.bytes() == 0
                model.rollout(model.init(batch=worlds) if worlds else model.init(), rng.normal(size=(7, 2)), threads=threads)  # takes what it gave
            found += list(work())
        return found
    make = lambda: model.rollout(state, ctrl, params={"body_mass": mass}, on_failure="mask", threads=threads)
    r = make()
    assert worlds != 3 or list(r.steps_done) == [7, 0, 7]
    for a, b in zip(derivatives(r, True), derivatives(make(), False), strict=True):
        assert np.array_equal(a, b, equal_nan=True)


def test_arrays_of_the_extension_are_known_by_name(model):
    """A misspelled array is no array that is not there."""
    r = model.rollout(model.init(), steps=2)
    x = np.zeros((1, len(model.tangent_names)))
    with pytest.raises(TypeError, match="no array is called 'ctl' here"):
        r._run.vjp({"qpos": None}, {}, {"state": x, "ctl": None}, 0, 0, 0., 0., 0.)
    with pytest.raises(TypeError, match="no array is called 'theta' here"):
        r._run.jvp({"state": x}, {"theta": None}, 1)
    with pytest.raises(TypeError, match="expected a dict"):
        r._run.forward((None,), 0, False, {}, np.zeros(1, np.int32))
    with pytest.raises(TypeError, match="parameters and a state"):
        r._run.forward({"state": None}, 0, False, {}, np.zeros(1, np.int32))


def test_a_state_of_another_model_is_refused():
    """Of another model of equal size; one of the same joints, loaded with other options, goes."""
    text = "<mujoco><worldbody><body><joint name='{}'/><geom size='.1' pos='0 0 .2'/></body></worldbody></mujoco>"
    a, b, again = pb.loads(text.format("shoulder")), pb.loads(text.format("wheel")), pb.loads(text.format("shoulder"), options={"tolerance": 1e-3})
    said = r"another model: what is qpos\[0\] \(joint 'shoulder'\) there is qpos\[0\] \(joint 'wheel'\) here"
    for use in (lambda m, s: m.rollout(s, steps=1), lambda m, s: m.step(s), lambda m, s: m.evaluate(s), lambda m, s: m.linearize(s),
                lambda m, s: m.contacts(s)):
        with pytest.raises(pb.ArgumentError, match=said):
            use(b, a.init())
        use(again, a.init())


def test_outputs_are_read_only(model):
    r = model.rollout(model.init(), steps=2, outputs=("sensordata", "xpos"))
    for name in ("states", "sensordata", "xpos"):
        assert not getattr(r, name).flags.writeable, name
