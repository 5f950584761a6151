"""Many worlds in several threads: the same bits as in one, trajectories and gradients."""
import ctypes as ct
import threading
import time

import numpy as np

from common import Bench, row
import pb

F, I, P = ct.POINTER(ct.c_double), ct.c_int, ct.c_void_p
WORLDS, STEPS, H = 12, 250, 0.005
# Ten boxes fall on a heap, every body may touch every other; a motor stirs.
MODEL = """<mujoco><option timestep="{}" cone="elliptic"/><worldbody><geom type="plane" size="0 0 1"/><body pos="0 0 .15"><joint axis="0 0 1"
damping="1" name="stir"/><geom type="capsule" size=".05" fromto="-.4 0 0 .4 0 0" mass="3"/></body>{}</worldbody><actuator><motor joint="stir"/>
</actuator></mujoco>"""
BOX = '<body pos="{} {} {}"><freejoint/><geom type="box" size=".1 .08 .06" mass="1"/></body>'


class Plan(ct.Structure):
    _fields_ = [(n, I) for n in ("steps", "snapshots", "leaf")] + [(n, ct.c_size_t) for n in ("record", "snapshot", "full", "planned", "kept", "fixed")] + \
               [("forward_steps", ct.c_int64), ("recomputed", ct.c_int64)]


class Inputs(ct.Structure):
    _fields_ = [("ctrl", F), ("qfrc", F), ("xfrc", F), ("constant", ct.c_bool)]


class Output(ct.Structure):
    _fields_ = [(n, F) for n in ("states", "final", "sensordata", "xpos", "site_xpos")] + [("rows", P), ("row_count", I), ("steps_done", I)]


class Cotangent(ct.Structure):
    _fields_ = [("data", F), ("count", I), ("steps", P)]


class Bar(ct.Structure):
    _fields_ = [(n, Cotangent) for n in ("qpos", "qvel", "act", "sensordata", "xpos", "site_xpos")]


class Gradient(ct.Structure):
    _fields_ = [(n, F) for n in ("x0", "ctrl", "qfrc", "xfrc", "theta")]


class World:
    """One rollout with everything it needs; run() may go on in any thread."""

    def __init__(self, m, seed):
        self.m, l, rng = m, pb.lib(), np.random.default_rng(seed)
        self.x0 = m.init()
        self.x0[m.slots["qvel"]] = rng.standard_normal(m.nv)
        self.ctrl, self.bar = 3 * rng.standard_normal((STEPS, m.nu)), rng.standard_normal(m.nv)
        self.states, self.x0_bar, self.ctrl_bar, self.theta_bar = (np.zeros(n) for n in ((STEPS + 1, m.nx), m.nt, self.ctrl.shape, m.ntheta))
        plan, self.rollout = Plan(), P()
        m._check(l.pbRollout_Plan(m.ptr, STEPS, ct.c_size_t(400000), ct.byref(plan)))  # tight: checkpoints and replay take part
        m._check(l.pbRollout_Create(m.ctx, m.ptr, ct.byref(plan), None, ct.byref(self.rollout)))

    def run(self):
        l, p = pb.lib(), pb.ptr
        for a in (self.x0_bar, self.ctrl_bar, self.theta_bar):
            a[:] = 0
        inputs, output = Inputs(p(self.ctrl), None, None, False), Output(states=p(self.states))
        bar, gradient = Bar(qpos=Cotangent(p(self.bar), 1, None)), Gradient(p(self.x0_bar), p(self.ctrl_bar), None, None, p(self.theta_bar))
        self.status = l.pbRollout_Forward(self.rollout, p(self.m.theta), p(self.x0), ct.byref(inputs), ct.byref(output)) or \
            l.pbRollout_Vjp(self.rollout, ct.byref(bar), None, ct.byref(gradient), None)

    def bits(self):
        return b"".join(a.tobytes() for a in (self.states, self.x0_bar, self.ctrl_bar, self.theta_bar))


def run_all(worlds, threads):
    """Worlds are taken by whichever thread is free: who gets which differs from run to run."""
    queue, lock = list(worlds), threading.Lock()

    def work():
        while True:
            with lock:
                if not queue:
                    return
                w = queue.pop()
            w.run()
    begin = time.perf_counter()
    team = [threading.Thread(target=work) for _ in range(threads)]
    for t in team:
        t.start()
    for t in team:
        t.join()
    return time.perf_counter() - begin


def rows():
    l = pb.lib()
    l.pbRollout_Plan.argtypes = [P, I, ct.c_size_t, P]
    l.pbRollout_Create.argtypes = [P, P, P, P, P]
    l.pbRollout_Forward.argtypes = [P, F, F, P, P]
    l.pbRollout_Vjp.argtypes = [P, P, P, P, P]
    l.pbRollout_Destroy.argtypes, l.pbRollout_Destroy.restype = [P], None
    rng = np.random.default_rng(1)
    boxes = "".join(BOX.format(*rng.uniform(-0.15, 0.15, 2), 0.3 + 0.15 * k) for k in range(10))
    with Bench() as bench:
        m = pb.Model(bench.write("heap.xml", MODEL.format(H, boxes)))
    worlds = [World(m, k) for k in range(WORLDS)]
    seconds = {1: run_all(worlds, 1)}
    first = [w.bits() for w in worlds]
    failed, same = sum(w.status != 0 for w in worlds), {}
    moved = min(float(np.linalg.norm(w.theta_bar)) for w in worlds)
    x, contacts = worlds[0].x0, 0
    for k in range(STEPS):
        x, _ = m.step(x, worlds[0].ctrl[k])
        contacts = max(contacts, m.report().contacts)
    for threads in (1, 2, 3, 8):
        for again in range(2):
            seconds[threads] = run_all(worlds, threads)
            same[threads, again] = sum(w.bits() == b for w, b in zip(worlds, first))
    for w in worlds:
        l.pbRollout_Destroy(w.rollout)
    out = [row(f"{WORLDS} worlds of {STEPS} steps that failed", failed, "0", failed == 0),
           row("contacts at one time", contacts, ">= 10", contacts >= 10),
           row("different worlds", len(set(first)), str(WORLDS), len(set(first)) == WORLDS),
           row("|gradient by the parameters|, smallest", moved, "> 0", moved > 0)]
    for threads in (1, 2, 3, 8):
        n = min(same[threads, 0], same[threads, 1])
        out.append(row(f"{threads} threads: worlds whose every bit of trajectory and gradient is as in one thread, twice", n, str(WORLDS), n == WORLDS))
    return out + [row("seconds with 1 and 2 threads", f"{seconds[1]:.2f}, {seconds[2]:.2f}", "reported", True)]
