"""The Python package in a world that fails: with world.c preloaded, every call that is made while one of our functions is on the stack
fails in turn, the interpreter's own for its objects among them. Each ends with MemoryError, OSError or an error of ours that names the true
reason, or with the result of the first run; the interpreter goes on.
  python_calls.py SHARE SEED      in a folder with the files of failing_world.py
"""
import ctypes
import errno
import gc
import os
import random
import re
import signal
import sys
import time
import traceback
import warnings

import numpy as np

import pullback as pb
from pullback import _core
from pullback.functional import quaternions
from failing_world import HOW, KINDS, MEMORY, reason_of

WORLD = ctypes.CDLL(None)
WORLD.world_arm.argtypes = [ctypes.c_char_p, ctypes.c_long, ctypes.c_int, ctypes.c_int]
WORLD.world_calls.restype = WORLD.world_disarm.restype = ctypes.c_long
SHOWN = 5

# ---- scenes: what is made before is no part of them -------------------------------------------------------------------
MODEL = pb.load("robot.xml")
START, CTRL = MODEL.init(), np.zeros((6, MODEL.nu))


def load():
    return np.array(pb.load("shapes.xml").params["geom_size"])


def step():
    s = MODEL.init()
    MODEL.step_into(s, CTRL[0])
    return np.array(s.flat)


def rollout():
    with MODEL.rollout(START, CTRL, params={"body_mass": MODEL.params["body_mass"]}) as r:
        g = r.vjp(qpos=np.eye(MODEL.nv)[0])
        t = r.jvp(ctrl=np.ones_like(CTRL))
        return np.concatenate([r.qpos.ravel(), np.ravel(g.ctrl), g.params["body_mass"].ravel(), t.qpos.ravel()])


def parked():
    """As a call of a graph: its tape goes, and each derivative runs it again."""
    r = MODEL.rollout(START, CTRL[:1], params={"body_mass": MODEL.params["body_mass"]})
    r._park()
    g = r.vjp(qpos=np.eye(MODEL.nv)[0], check=False)
    r._park()
    return np.concatenate([r.qpos.ravel(), np.ravel(g.ctrl), g.params["body_mass"].ravel(), r.jvp(ctrl=np.ones_like(CTRL[:1])).qpos.ravel()])


def single():
    """A step of JAX and its pullback, from memories into memories."""
    places, _ = quaternions(MODEL)
    one = _core.Single(MODEL._compiled, MODEL._theta, START.flat, tuple(int(k) for k in places), 1e-6, 1 << 20)
    inputs, states = (np.array(START.qpos), np.array(START.qvel), None, CTRL[0]), (np.zeros((2, MODEL.nq)), np.zeros((2, MODEL.nv)), None)
    back = (np.zeros(MODEL.nq), np.zeros(MODEL.nv), None, np.zeros(MODEL.nu))
    went = one.step(inputs, states), one.pull(inputs, (None, np.ones((2, MODEL.nv)), None), back)
    if not all(went):
        raise MemoryError("the short way was not gone")  # whoever calls goes the long one, which says why
    return np.concatenate([a.ravel() for a in (*states[:2], back[0], back[1], back[3])])


def worlds():
    with MODEL.rollout(MODEL.init(batch=3), CTRL, threads=2) as r:
        return r.qpos.ravel()


def quantities():
    return np.concatenate([MODEL.evaluate(START, names=["M"])["M"].ravel(), *(m.ravel() for m in MODEL.linearize(START, CTRL[0]))])


def save():
    with MODEL.rollout(START, CTRL) as r:
        r.save("out.html")
        r.save("out.npz")
    MODEL.save("out.xml")
    return np.array([os.path.getsize("out.html"), os.path.getsize("out.npz"), os.path.getsize("out.xml"), *MODEL.with_result("found.json").params["gravity"]])


def search():
    found = pb.optimize("throw.json")
    return np.array([found["loss"], *found.trajectory["qpos"].ravel()])


def identified():
    fit = pb.identify("cart.xml", "track.csv", {"dof_damping:swing": {"start": .1, "lower": 0}}, start="log", optimizer={"iterations": 1})
    return np.array([fit["loss"], fit.values["dof_damping:swing"], fit["uncertainty"]["samples"], *pb.recording("track.csv")["time"]])


def loss_of_our_own():
    def rest(seen):
        return float(np.sum(seen.qvel[-1] ** 2)), {"qvel": 2 * seen.qvel[-1]}

    task = {"model": "cart.xml", "steps": 5, "variables": [{"control": True, "knots": 2}], "loss": rest, "optimizer": {"method": "lbfgs", "iterations": 1}}
    return np.array([pb.optimize(task)["loss"]])


def reports():
    return np.array([len(pb.info(MODEL)), len(pb.energies()), *pb.inspect(MODEL)["M"].ravel()])


def attached():
    spec = pb.Spec.load("robot.xml")
    spec.attach(pb.Spec.load("robot.xml"), "copy_", pos=[0, 0, 9])
    return np.array(spec.compile().params["body_pos"]).ravel()


# In these code of Python runs below or between our calls. Where it never gets memory again the interpreter ends by itself: memory is
# short once.
CALL_BACK = [loss_of_our_own, attached]
SCENES = [load, attached, step, rollout, parked, single, worlds, quantities, save, search, identified, loss_of_our_own, reports]


# ---- plans ------------------------------------------------------------------------------------------------------------
def run(scene, kind=None, n=0, ever=0, how=0):
    """What a scene gives, or the exception it ends with; how often calls failed."""
    signal.alarm(60)
    WORLD.world_arm(kind and kind.encode(), n, ever, how)
    try:
        result = scene()
    except BaseException as error:  # noqa: B036, all that comes out of it is looked at
        result = error
    fired = WORLD.world_disarm()
    signal.alarm(0)
    return result, fired


def is_of_numpy(error):
    """NumPy's own functions, called by a loss, at times fail without saying how."""
    frames = traceback.extract_tb(error.__traceback__)
    return isinstance(error, SystemError) and bool(frames) and "numpy" in frames[-1].filename


def judge(result, usual, kind, how):
    if not isinstance(result, BaseException):
        return None if np.array_equal(result, usual) else "another result"
    if isinstance(result, MemoryError):
        return None if kind in MEMORY or kind == "thread" else f"MemoryError for {kind}"
    if is_of_numpy(result):
        return None
    if not isinstance(result, OSError):
        return f"{type(result).__name__}: {result}"
    return None if re.search(reason_of(kind, how), str(result)) else f"does not name its reason: {type(result).__name__}: {result}"


def plans_of(counts, once):
    plans = []
    for kind, count in counts.items():
        for how in HOW.get(kind, [errno.ENOMEM]):
            for ever in (0, 1):
                if not ever or (how != errno.EINTR and not (once and kind in MEMORY)):
                    plans += [(kind, n, ever, how) for n in range(1, count + 1)]
    return plans


def try_scene(scene, share, seed, place):
    for _ in range(3):  # what is made at the first use is there by now
        usual, _ = run(scene)
    if isinstance(usual, BaseException):
        raise usual
    plans = plans_of({kind: WORLD.world_calls(kind.encode()) for kind in KINDS}, scene in CALL_BACK)
    chosen = plans if not share or len(plans) <= share else random.Random(f"{seed} {scene.__name__}").sample(plans, share)
    wrong, failed, begin = {}, 0, time.monotonic()
    for plan in chosen:
        os.pwrite(place, f"{scene.__name__}: {':'.join(map(str, plan))}".ljust(80).encode(), 0)
        result, fired = run(scene, *plan)
        failed += fired > 0
        fault = judge(result, usual, plan[0], plan[3])
        if fault:
            wrong.setdefault(re.sub(r"[\d']+.*|/\S+", "#", fault), []).append((plan, fault))
        del result
    if judge(run(scene)[0], usual, "malloc", errno.ENOMEM):
        wrong["afterwards"] = [((), "does not work any more afterwards")]
    print(f"Python: {scene.__name__:16} {len(chosen):5} of {len(plans):5} runs, {failed:5} with a failure, {time.monotonic() - begin:3.0f} s: "
          f"{'all well' if not wrong else str(sum(map(len, wrong.values()))) + ' WRONG'}", flush=True)
    for cases in list(wrong.values())[:SHOWN]:
        print(f"  {len(cases)} x, first {':'.join(map(str, cases[0][0]))}: {cases[0][1][:300]}", flush=True)
    return len(wrong)


def main():
    share, seed = int(sys.argv[1]), sys.argv[2]
    names = sys.argv[3:]
    warnings.simplefilter("ignore")
    gc.disable()
    place = os.open("python.now", os.O_RDWR | os.O_CREAT)
    if not WORLD.world_begin(b"_core.abi3"):
        sys.exit("the extension is not loaded")
    wrong = sum(try_scene(scene, share, seed, place) for scene in SCENES if not names or scene.__name__ in names)
    os.pwrite(place, b"".ljust(80), 0)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
