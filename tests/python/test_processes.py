"""Models and states in other processes: pickles, and workers by fork, spawn and forkserver give the parent's bits."""
import copy
import multiprocessing
import pickle
import threading

import numpy as np
import pytest

import pullback as pb
from test_contract import SCENE, states


def gradient(model, state, ctrl, threads=2):
    r = model.rollout(state, ctrl, params={"body_mass": model.params["body_mass"]}, threads=threads)
    g = r.vjp(qpos=np.ones((*r.states.shape[:-2], model.nv)))
    return r.states, g.state, g.ctrl, g.params["body_mass"]


@pytest.fixture(scope="module")
def model():
    return pb.loads(SCENE, options={"tolerance": 1e-10}, contact={"kappa": 1e-3}).with_params({"gravity": [0, 0, -5]})


def same(a, b):
    return all(np.array_equal(x, y) for x, y in zip(a, b))


def test_pickles(model):
    s, ctrl = states(model, 3), np.random.default_rng(0).normal(size=(3, 9, 2))
    back, state = pickle.loads(pickle.dumps((model, s)))
    assert back == model and state == s and back is not model and hash(back) == hash(model)
    assert back.params["gravity"][2] == -5 and same(gradient(back, state, ctrl), gradient(model, s, ctrl))
    assert copy.deepcopy(model) is model and model != pb.loads(SCENE)
    packed = model._compiled.pack()
    for bad in (packed[:40], packed[:-1], b"", bytes(len(packed))):
        with pytest.raises(pb.InputError):
            type(model._compiled).unpack(bad)
    other = packed.replace(b"0.1\0", b"7.1\0", 1)
    with pytest.raises(pb.InputError, match="packed by version 7.1"):
        type(model._compiled).unpack(other)


def work(queue, *arguments):
    queue.put(gradient(*arguments))


@pytest.mark.parametrize("how", ["fork", "spawn", "forkserver"])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_workers(model, how):
    s, ctrl = states(model, 4), np.random.default_rng(1).normal(size=(4, 9, 2))
    expected = gradient(model, s, ctrl)  # the pool of threads is there
    context = multiprocessing.get_context(how)
    queue = context.Queue()
    worker = context.Process(target=work, args=(queue, model, s, ctrl))
    worker.start()
    found = queue.get(timeout=60)
    worker.join()
    assert worker.exitcode == 0 and same(found, expected)


def test_fork_while_another_thread_works(model):
    s, ctrl = states(model, 4), np.zeros((4, 200, 2))
    expected = gradient(model, s, ctrl[:, :5])
    stop = threading.Event()

    def keep_busy():
        while not stop.is_set():
            gradient(model, s, ctrl)
    busy = threading.Thread(target=keep_busy)
    busy.start()
    try:
        context = multiprocessing.get_context("fork")
        queue = context.Queue()
        for _ in range(5):
            worker = context.Process(target=work, args=(queue, model, s, ctrl[:, :5]))
            worker.start()
            assert same(queue.get(timeout=60), expected)
            worker.join()
    finally:
        stop.set()
        busy.join()


def test_an_interrupt_ends_a_rollout_soon(model):
    import os, signal, time
    begin = time.monotonic()
    threading.Timer(.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        model.rollout(states(model, 4), steps=300_000, keep=False, outputs=())
    assert time.monotonic() - begin < 20  # a loaded machine; measured .4 s
    model.rollout(model.init(), steps=2)


def test_progress_is_told_and_its_exceptions_come_through(model):
    heard = []
    model.rollout(model.init(), steps=20000, keep=False, outputs=(), progress=lambda *a: heard.append(a))
    assert "forward" in {phase for phase, *_ in heard}

    def stop(*_):
        raise RuntimeError("enough")
    with pytest.raises(RuntimeError, match="enough"):
        model.rollout(model.init(), steps=20000, keep=False, outputs=(), progress=stop)
