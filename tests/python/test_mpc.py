"""Plans that are made again and again (pb.Mpc): a cart-pole of another engine's equations, states in every form, what is told, what is refused."""
import threading

import numpy as np
import pytest

import pullback as pb

CART = """<mujoco><option timestep="0.02"/><worldbody><body name="cart"><joint name="x" type="slide" axis="1 0 0"/><geom type="box" size=".2 .1 .1" mass="1"
contype="0" conaffinity="0"/><body><joint name="a" axis="0 1 0"/><geom type="capsule" size=".02" fromto="0 0 0 0 0 1" mass=".1" contype="0" conaffinity="0"/>
</body></body></worldbody><actuator><motor joint="x"/></actuator></mujoco>"""
TASK = {"model": CART, "steps": 40, "variables": [{"control": True, "lower": -10, "upper": 10}],
        "loss": [{"qpos": "a", "at": "all", "weight": 10}, {"qpos": "x", "at": "all"}, {"qvel": True, "at": "all", "weight": .1},
                 {"control": True, "at": "all", "weight": .001}, {"qpos": "a", "weight": 200}]}


def test_a_pole_is_balanced_by_a_plant_of_its_own_equations():
    mpc = pb.Mpc(TASK)
    x, v, a, w = 0., 0., .3, 0.
    for k in range(300):
        told = mpc.plan({"qpos": [x, a], "qvel": [v, w]}, elapsed=.02 if k else 0)
        assert told.iterations == 1 and told.loss <= told.guess_loss and not told.late
        force, = mpc.control({"qpos": [x, a], "qvel": [v, w]})
        assert -10 <= force <= 10

        # Barto, Sutton & Anderson (1983), with half a pole of .5 m and the masses 1 and .1, in explicit steps; it has angles to the other side of the cart
        s, c = np.sin(a), np.cos(a)
        push = (force + .05 * w * w * s) / 1.1
        turn = (9.8 * s - c * push) / (.5 * (4 / 3 - .1 * c * c / 1.1))
        x, v, a, w = x + .02 * v, v + .02 * (push - .05 * turn * c / 1.1), a + .02 * w, w + .02 * turn
    assert abs(a) < .01 and abs(x) < .1
    assert mpc.plans == 300 and mpc.failed == 0 and mpc.age == 0


def test_states_in_every_form_are_one():
    model, told = pb.loads(CART), []
    state = model.init()
    state.qpos, state.qvel = [.1, .2], [-.3, .1]
    for given in (state, state.flat, {"qpos": [.1, .2], "qvel": [-.3, .1]}):
        mpc = pb.Mpc(TASK)
        told.append((mpc.plan(given, iterations=3).loss, mpc.control(given)))
        assert mpc.ctrl.shape == (40, 1) and mpc.gains.shape == (40, 1, 4) and mpc.states["qpos"].shape == (41, 2)
        assert np.array_equal(mpc.states["qpos"][0], [.1, .2]) and np.array_equal(mpc.control(given), mpc.ctrl[0])
        assert np.array_equal(mpc.control(mpc._flat({"qpos": mpc.states["qpos"][3], "qvel": mpc.states["qvel"][3]}), time=.06), mpc.ctrl[3])
    assert all(loss == told[0][0] and np.array_equal(u, told[0][1]) for loss, u in told)


def test_control_before_a_plan_and_beyond_the_horizon():
    mpc = pb.Mpc({**TASK, "controls": [.5]})
    start = {"qpos": [0, .1]}
    assert mpc.control(start) == .5 and not mpc.gains.any()
    mpc.plan(start, iterations=20)
    last, end = ({name: rows[at] for name, rows in mpc.states.items()} for at in (-2, -1))
    assert np.array_equal(mpc.control(last, time=.78), mpc.ctrl[-1]) and np.array_equal(mpc.control(end, time=100), mpc.ctrl[-1])
    assert "40 steps of 0.02 s" in repr(mpc)


def test_the_gains_answer():
    mpc = pb.Mpc(TASK)
    state = {"qpos": np.array([.01, .02]), "qvel": np.array([0, 0.])}
    while not mpc.plan(state, iterations=50).converged:
        pass
    off = {"qpos": state["qpos"] + [0, 1e-3], "qvel": state["qvel"]}
    answer = mpc.control(off) - mpc.ctrl[0]
    assert answer == pytest.approx(mpc.gains[0] @ [0, 1e-3, 0, 0], rel=1e-9) and answer[0] != 0

    # as a plan from there would, to first order
    other = pb.Mpc(TASK)
    while not other.plan(off, iterations=50).converged:
        pass
    assert other.ctrl[0] - mpc.ctrl[0] == pytest.approx(answer, rel=2e-2)


def test_time_is_kept():
    mpc = pb.Mpc(TASK)
    told = mpc.plan({"qpos": [0, 2.]}, iterations=100_000, seconds=1e-7)
    assert told.iterations == 1 and told.late and told.seconds > 1e-7
    assert told.seconds >= told.linearize_seconds + told.plan_seconds + told.run_seconds > 0


def test_a_plan_that_cannot_be_run_leaves_the_last():
    mpc = pb.Mpc(TASK)
    mpc.plan({"qpos": [0, .1]}, iterations=5)
    before = mpc.ctrl
    with pytest.raises(pb.StepError, match="cannot be run from this state"):
        mpc.plan({"qvel": [1e11, 0]}, elapsed=.04)
    assert np.array_equal(mpc.ctrl, before) and mpc.failed == 1 and mpc.age == .04
    there = {name: rows[2] for name, rows in mpc.states.items()}
    assert np.array_equal(mpc.control(there), before[2])
    assert mpc.plan(there, elapsed=.02).loss > 0 and mpc.age == 0


NAMED = {**TASK, "variables": [{"name": "force", "control": True, "lower": -10, "upper": 10}],
         "loss": [{"name": "upright", "qpos": "a", "at": "all", "weight": 10}, {"name": "place", "qpos": "x", "at": "all"},
                  {"name": "effort", "control": True, "at": "all", "weight": .001}]}


def test_what_changes_is_a_task_with_these_numbers():
    there, other = {"qpos": [0, .2]}, pb.Mpc({
        **NAMED, "parameters": {"body_mass:2": .3}, "variables": [{"name": "force", "control": True, "lower": -3, "upper": 8}],
        "loss": [NAMED["loss"][0], {**NAMED["loss"][1], "target": [.01 * k for k in range(41)]}, {**NAMED["loss"][2], "weight": .02}]})
    mpc = pb.Mpc(NAMED)
    mpc.plan(there)
    mpc.set(targets={"place": np.arange(41) * .01}, weights={"effort": .02}, bounds={"force": (-3, [8.])}, parameters={"body_mass:2": .3})
    mpc.restart()
    assert mpc.plans == 0
    told = [m.plan(there, iterations=4) for m in (mpc, other)]
    assert told[0].loss == told[1].loss and np.array_equal(mpc.ctrl, other.ctrl) and np.array_equal(mpc.gains, other.gains)
    mpc.set(bounds={"force": (None, 2)})
    mpc.set(targets={"place": .5}, bounds={"force": (-np.inf, None)})
    assert mpc.plan({"qpos": [0, .6]}, iterations=20).loss > 0 and mpc.ctrl.max() <= 2


@pytest.mark.parametrize("change,words", [
    ({"targets": {"plase": 0}}, "did you mean 'place'"), ({"targets": {"place": [0, 1]}}, "expected 1 number, 1 or 41 \\(41 times\\), found 2"),
    ({"targets": {"place": np.nan}}, "nan"), ({"weights": {"place": [1, 2]}}, "expected shape"), ({"weights": {"force": 1}}, "no term of the loss"),
    ({"bounds": {"force": 3}}, "expected \\(lower, upper\\)"), ({"bounds": {"force": (3, 2)}}, "is above its upper one"),
    ({"bounds": {"force": (None, None)}}, "expected \\(lower, upper\\)"), ({"bounds": {"force": ([1, 1, 1], [2, 2])}}, "expected as many lower as upper"),
    ({"bounds": {"force": (np.nan, 2)}}, "NaN"), ({"parameters": {"timestep": .1}}, "time step"), ({"parameters": {"mass": 1}}, "mass"),
    ({"parameters": {"body_mass": [1, 2]}}, "found 2")])
def test_changes_that_are_refused(change, words):
    mpc = pb.Mpc(NAMED)
    with pytest.raises(pb.ArgumentError, match=words):
        mpc.set(**change)
    other = pb.Mpc(NAMED)
    assert mpc.plan({"qpos": [0, .2]}).loss == other.plan({"qpos": [0, .2]}).loss
    with pytest.raises(pb.InputError, match="body_mass"):
        mpc.set(parameters={"body_mass:2": -1})


def test_a_constraint_is_met_plan_after_plan():
    always = [*NAMED["loss"], {"qvel": True, "at": "all", "weight": .1}]
    last = [{"qpos": "a", "weight": 200}, {"qvel": True, "weight": 10}, {"name": "place", "qpos": "x", "weight": 20}]
    wall = {"name": "wall", "qpos": "x", "at": "all", "type": "below", "target": .1, "constraint": True, "weight": 50}
    mpc, model = pb.Mpc({**NAMED, "steps": 50, "loss": [*always, *last, wall]}), pb.loads(CART)
    mpc.set(targets={"place": .5})
    state, most = model.init(), 0
    told = mpc.plan(state, iterations=200)
    assert told.converged and told.violation <= 1 and mpc.states["qpos"][:, 0].max() <= .1 + 1e-6
    for k in range(200):
        if k:
            told = mpc.plan(state, elapsed=.02)
        model.step_into(state, mpc.control(state))
        most = max(most, state.qpos[0])
    assert .099 < most < .1 + 5e-4 and abs(state.qpos[0] - .1) < 1e-4


def test_answers_and_copies_do_not_wait_for_a_plan():
    mpc, stop, seen = pb.Mpc({**NAMED, "steps": 400}), threading.Event(), []

    def ask():
        while not stop.is_set():
            now = mpc.read()
            seen.append((now.plans, len(now.ctrl), mpc.control({"qpos": [0, .1]}, at=now.clock)[0]))

    thread = threading.Thread(target=ask)
    thread.start()
    for k in range(10):
        told = mpc.plan({"qpos": [0, .2 + .01 * k]}, elapsed=.02, iterations=20)
    stop.set()
    thread.join()
    now = mpc.read()
    assert now.plans == 10 and now.answers == len(seen) > 10 and now.fallbacks == now.refused == 0 and now.clock == pytest.approx(.2)
    assert told.prepare_seconds + told.iterate_seconds + told.finish_seconds == pytest.approx(told.seconds, rel=1e-6)
    assert 0 < now.control_seconds < 1

    with pytest.raises(pb.StepError):
        mpc.plan({"qvel": [1e11, 0]}, elapsed=.02)
    assert mpc.control({"qpos": [0, .1]}, time=.01) == pytest.approx(mpc.control({"qpos": [0, .1]}, at=.23), rel=1e-9)    # between two states
    assert mpc.read().fallbacks == 2 and mpc.read().age == .02


def test_threads_wait_for_each_other():
    mpc, losses = pb.Mpc(TASK), []

    def work():
        for _ in range(20):
            losses.append(mpc.plan({"qpos": [0, .2]}).loss)
            mpc.control({"qpos": [0, .2]})

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(losses) == 80 and mpc.plans == 80 and min(losses) > 0


@pytest.mark.parametrize("task,words", [
    ({**TASK, "variables": [{"control": True}, {"state": "qvel"}]}, "a variable is none of controls"),
    ({**TASK, "trajectories": [{"steps": 5}, {"steps": 6}], "variables": [{"control": True, "trajectory": 0}]}, "several trajectories"),
    ({**TASK, "variables": [{"parameter": "body_mass"}]}, "neither of controls nor of an initial state"),
    ({**TASK, "steps": 0}, "step"), ({**TASK, "loss": []}, "loss")])
def test_tasks_that_cannot_be_planned(task, words):
    with pytest.raises(pb.InputError, match=words):
        pb.Mpc(task)


@pytest.mark.parametrize("call,error,words", [
    (lambda m: m.plan([0, 1]), pb.ArgumentError, "state: expected shape"),
    (lambda m: m.plan({"qpos": [0, 1, 2]}), pb.ArgumentError, "qpos: expected shape"),
    (lambda m: m.plan({"speed": [0]}), pb.ArgumentError, "no field 'speed'"),
    (lambda m: m.plan({"qpos": [0, np.nan]}), pb.ArgumentError, "is nan"),
    (lambda m: m.plan({}, elapsed=-1), pb.ArgumentError, "begins -1 s after"),
    (lambda m: m.plan({}, iterations=0), pb.ArgumentError, "iterations"),
    (lambda m: m.plan({}, seconds=0), pb.ArgumentError, "seconds"),
    (lambda m: m.control([1]), pb.ArgumentError, "state: expected shape"),
    (lambda m: m.control({}, time=np.inf), pb.ArgumentError, "time"),
    (lambda m: m.control({}, time=1, at=1), pb.ArgumentError, "found both"),
    (lambda m: m.control({"qpos": [0, np.nan]}), pb.ArgumentError, "is nan"),
    (lambda m: m.plan(pb.State(pb.loads(CART), np.tile(pb.loads(CART).init().flat, (2, 1)))), pb.ArgumentError, "one world"),
    (lambda m: pb.Mpc(None), pb.ArgumentError, "expected a path or a dict")])
def test_what_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call(pb.Mpc(TASK))


def test_threads_change_no_bit():
    one, state = pb.Mpc(TASK), {"qpos": [0, 2.5], "qvel": [0, 1]}
    losses = [one.plan(state).loss for _ in range(12)]
    for threads in (2, 3, None):
        mpc = pb.Mpc(TASK, threads=threads)
        assert [mpc.plan(state).loss for _ in range(12)] == losses
        assert np.array_equal(mpc.ctrl, one.ctrl) and np.array_equal(mpc.gains, one.gains)
    for wrong in (0, 1025, 1.5, "2", True):
        with pytest.raises(pb.ArgumentError, match="threads: expected a whole number"):
            pb.Mpc(TASK, threads=wrong)


def test_the_plan_is_followed_between_its_states():
    mpc = pb.Mpc(TASK)
    mpc.plan({"qpos": [0, .02], "qvel": [0, 0]}, iterations=5)
    q, v = mpc.states["qpos"], mpc.states["qvel"]
    for part in (.25, .5, .75):
        between = {"qpos": (1 - part) * q[0] + part * q[1], "qvel": (1 - part) * v[0] + part * v[1]}
        assert abs(mpc.control(between, time=part * mpc.timestep) - mpc.ctrl[0])[0] < 1e-9
        assert abs(mpc.control({"qpos": q[0], "qvel": v[0]}, time=part * mpc.timestep) - mpc.ctrl[0])[0] > 1e-4


def test_a_plan_begins_with_the_damping_that_is_asked_for():
    hard, then = {"qpos": [0, 3.]}, {"qpos": [0, .3]}

    def second(damping):
        task = {**TASK, "optimizer": {"method": "ilqr", "damping": damping}}
        mpc = pb.Mpc(task)
        mpc.plan(hard, iterations=4)  # damping is less from iteration to iteration
        guess = np.ravel(mpc.ctrl).tolist()
        task["variables"] = [{**TASK["variables"][0], "start": guess}]
        fresh, undamped = pb.Mpc(task), pb.Mpc({**task, "optimizer": {"method": "ilqr"}})
        return [m.plan(then).loss for m in (mpc, fresh, undamped)]

    again, fresh, undamped = second(10.)
    assert again == fresh != undamped
