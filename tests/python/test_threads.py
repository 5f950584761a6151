"""Calls from several threads, from functions that other calls call, and what is left of them."""
import gc
import os
import signal
import threading
import time
import weakref

import numpy as np
import pytest

import pullback as pb
from conftest import ROOT
from test_contract import SCENE, states
from test_losses import rest, task


@pytest.fixture(scope="module")
def model():
    return pb.loads(SCENE)


def at_once(*functions):
    """All of them in threads; what they raise comes through."""
    raised = []

    def run(f):
        try:
            f()
        except BaseException as error:
            raised.append(error)
    threads = [threading.Thread(target=run, args=(f,), daemon=True) for f in functions]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
        assert not t.is_alive(), "still at work: the threads wait for each other"
    if raised:
        raise raised[0]


def test_batches_at_once(model):
    """Rollouts, derivatives and steps of batches share one pool of workers."""
    s, bar = states(model, 12), np.ones((12, model.nv))
    expected = model.rollout(s, steps=30)
    gradient, after = expected.vjp(qpos=bar).state, model.step(s).flat

    def rollouts():
        for _ in range(20):
            assert np.array_equal(model.rollout(s, steps=30).vjp(qpos=bar).state, gradient)

    def steps():
        for _ in range(60):
            assert np.array_equal(model.step(s).flat, after)
    at_once(rollouts, rollouts, steps)


def test_one_rollout_from_several_threads(model):
    r = model.rollout(states(model, 3), steps=40)
    bar, way = np.ones((3, model.nv)), np.ones(model.nv)
    back, forth, a = r.vjp(qpos=bar).state, r.jvp(qpos=way).x, r.linearize()[0]
    at_once(*3 * [lambda: [np.testing.assert_array_equal(r.vjp(qpos=bar).state, back) for _ in range(5)],
                  lambda: [np.testing.assert_array_equal(r.jvp(qpos=way).x, forth) for _ in range(5)],
                  lambda: np.testing.assert_array_equal(r.linearize()[0], a)])


@pytest.mark.parametrize("outer, inner", [(None, None), (None, 3), (3, None), (3, 3)])
def test_progress_may_roll_out(model, outer, inner):
    s, expected, found = states(model, 3), [], []
    pick = lambda worlds: s if worlds else s[0]
    expected = model.rollout(pick(inner), steps=5).vjp(qpos=np.ones((*([3] if inner else []), model.nv))).state

    def tell(*_):
        if len(found) < 3:
            found.append(model.rollout(pick(inner), steps=5).vjp(qpos=np.ones((*([3] if inner else []), model.nv))).state)
            model.step(pick(inner))
    at_once(lambda: model.rollout(pick(outer), steps=2000, keep=False, outputs=(), progress=tell))
    assert found and all(np.array_equal(f, expected) for f in found)


def test_a_rollout_at_work_takes_no_second_derivative(model):
    seen = []

    def tell(*_):
        for r in seen:
            r.vjp(qpos=np.ones((3, model.nv)))
    r = model.rollout(states(model, 3), steps=2000, progress=tell)
    seen.append(r)
    with pytest.raises(pb.ArgumentError, match="at work for a derivative"):
        at_once(lambda: r.vjp(qpos=np.ones((3, model.nv))))
    seen.clear()
    r.vjp(qpos=np.ones((3, model.nv)))


def test_a_progress_function_that_holds_its_rollout_goes(model):
    class Held:
        pass

    def make():
        held = Held()
        held.rollout = model.rollout(model.init(), steps=2, progress=lambda *_: held)
        return weakref.ref(held)
    gone = make()
    gc.collect()
    assert gone() is None


NESTED = {"info": lambda model: pb.info(model)["sizes"], "inspect": lambda model: pb.inspect(model)["qacc"].tolist(),
          "energies": lambda model: pb.energies("spring"), "check": lambda model: dict(pb.check(model, horizon=2)),
          "optimize": lambda model: pb.optimize(task([{"function": rest}], iterations=1))["variables"],
          "rollout": lambda model: model.rollout(states(model, 2), steps=2).states.tolist()}


@pytest.mark.parametrize("kind", NESTED)
def test_a_loss_and_a_progress_function_call_anything(model, kind):
    """On the thread of the search and on its workers: other commands, and searches within the search, with the bits that they have alone."""
    nested, found = NESTED[kind], []
    alone = nested(model)

    def loss(seen):
        if len(found) < 6:
            found.append(None)  # counted before: losses are called from several threads
            found[found.index(None)] = nested(model)
        return rest(seen)

    several = task(loss, iterations=1)
    several["trajectories"] = [{"init": {"qvel": [.1 * k] * 7}} for k in range(4)]
    del several["variables"][0]
    for given in (task(loss, iterations=1), several):
        expected = {**given, "loss": [{"function": rest}]}
        found.clear()
        at_once(lambda given=given, expected=expected: np.testing.assert_equal(pb.optimize(given, threads=2)["loss"], pb.optimize(expected)["loss"]))
        assert found and all(one == alone for one in found)

    found.clear()
    at_once(lambda: pb.optimize(task([{"function": rest}], iterations=1), progress=lambda *_: found.append(nested(model))))
    assert found and all(one == alone for one in found)


def test_commands_at_once(model):
    """Each in threads of its own: the results that they have one after the other."""
    work = {**NESTED, "audit": lambda model: dict(pb.audit(task([{"function": rest}]), starts=8)), "fails": fails}
    expected = {name: f(model) for name, f in work.items()}

    def again(name, f):
        for _ in range(2):
            assert f(model) == expected[name], name
    at_once(*(lambda name=name, f=f: again(name, f) for name, f in work.items() for _ in range(2)))


def fails(model):
    """What goes wrong in one is no other's."""
    def loss(seen):
        raise KeyError("mine")
    with pytest.raises(KeyError, match="mine") as raised:
        pb.optimize(task(loss))
    assert raised.traceback[-1].name == "loss"
    with pytest.raises(pb.FileError, match="nowhere.json"):
        pb.optimize("nowhere.json")


def test_one_command_does_not_wait_for_another():
    """The list of energies takes a millisecond, beside a check of seconds in another thread, too."""
    quadruped, begun, waited, took = pb.load(os.path.join(ROOT, "examples", "quadruped", "quadruped.xml")), threading.Event(), [], []

    def check():
        start = time.monotonic()
        pb.check(quadruped, horizon=3000, progress=lambda *_: begun.set())
        took.append(time.monotonic() - start)
    thread = threading.Thread(target=check)
    thread.start()
    assert begun.wait(60)
    while len(waited) < 21 and thread.is_alive():
        start = time.monotonic()
        time.sleep(.002)  # who works without the interpreter's lock is not waited for here, either
        pb.energies()
        waited.append(time.monotonic() - start - .002)
    assert thread.is_alive(), "the check was over first"
    thread.join()
    assert np.median(waited) < .015 * took[0], (waited, took)  # measured: .6 ms of 2.7 s


def interrupted(wait):
    """Seconds until an interrupt ends a call."""
    begin = time.monotonic()
    threading.Timer(.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        wait()
    return time.monotonic() - begin


def test_an_interrupt_ends_waiting(model):
    """Another thread is at work; Ctrl-C ends the call that waits for it, not that thread."""
    s, stop = states(model, 3), threading.Event()

    def tell(*_):
        if stop.is_set():
            raise RuntimeError("enough")

    def run():
        with pytest.raises(RuntimeError, match="enough"):
            model.rollout(s, steps=10**6, keep=False, outputs=(), progress=tell)
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    time.sleep(.5)
    try:
        assert interrupted(lambda: model.rollout(s, steps=3)) < 10  # a loaded machine; measured .2 s
    finally:
        stop.set()
        thread.join()
