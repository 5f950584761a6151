"""Many worlds in several threads

Many worlds in several threads: the same bits as in one, trajectories and gradients."""
import threading
import time

import numpy as np

from common import Bench, row
from rollouts import Rollout
import inside

WORLDS, STEPS, H = 12, 250, 0.005
# Ten boxes fall on a heap, every body may touch every other; a motor stirs.
MODEL = """<mujoco><option timestep="{}" cone="elliptic"/><worldbody><geom type="plane" size="0 0 1"/><body pos="0 0 .15"><joint axis="0 0 1"
damping="1" name="stir"/><geom type="capsule" size=".05" fromto="-.4 0 0 .4 0 0" mass="3"/></body>{}</worldbody><actuator><motor joint="stir"/>
</actuator></mujoco>"""
BOX = '<body pos="{} {} {}"><freejoint/><geom type="box" size=".1 .08 .06" mass="1"/></body>'


class World(Rollout):
    """run() may go on in any thread."""

    def __init__(self, m, seed):
        super().__init__(m, STEPS, 400000)  # tight: checkpoints and replay take part
        rng = np.random.default_rng(seed)
        self.x0[m.slots["qvel"]] = rng.standard_normal(m.nv)
        self.failed = None
        self.ctrl, self.bar = 3 * rng.standard_normal((STEPS, m.nu)), rng.standard_normal(m.nv)

    def run(self):
        try:
            self.forward()
            self.vjp(self.bar)
        except inside.Error as error:  # a thread's exceptions end with it
            self.failed = str(error)

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
    rng = np.random.default_rng(1)
    boxes = "".join(BOX.format(*rng.uniform(-0.15, 0.15, 2), 0.3 + 0.15 * k) for k in range(10))
    with Bench() as bench:
        m = inside.Model(bench.write("heap.xml", MODEL.format(H, boxes)))
    worlds = [World(m, k) for k in range(WORLDS)]
    seconds = {1: run_all(worlds, 1)}
    first = [w.bits() for w in worlds]
    same = {}
    moved = min(float(np.linalg.norm(w.theta_bar)) for w in worlds)
    x, contacts = worlds[0].x0, 0
    for k in range(STEPS):
        x, _ = m.step(x, worlds[0].ctrl[k])
        contacts = max(contacts, m.report().contacts)
    for threads in (1, 2, 3, 8):
        for again in range(2):
            seconds[threads] = run_all(worlds, threads)
            same[threads, again] = sum(w.bits() == b for w, b in zip(worlds, first))
    failed = [w.failed for w in worlds if w.failed]
    out = [row(f"{WORLDS} worlds of {STEPS} steps that failed", failed[0] if failed else 0, "0", not failed),
           row("contacts at one time", contacts, ">= 10", contacts >= 10),
           row("different worlds", len(set(first)), str(WORLDS), len(set(first)) == WORLDS),
           row("|gradient by the parameters|, smallest", moved, "> 0", moved > 0)]
    for threads in (1, 2, 3, 8):
        n = min(same[threads, 0], same[threads, 1])
        out.append(row(f"{threads} threads: worlds whose every bit of trajectory and gradient is as in one thread, twice", n, str(WORLDS), n == WORLDS))
    return out + [row("seconds with 1 and 2 threads", f"{seconds[1]:.2f}, {seconds[2]:.2f}", "reported", True)]
