#!/usr/bin/env python3
"""The Python package against what it stands beside, as ratios in one run: medians of interleaved blocks, in processor time where
nothing waits, so that other work on the machine shifts both sides. Table, and bench/results/python.csv.

  bench/python.py [ROW...] [--build DIR]

start     import, load and a first gradient of the humanoid, by `import numpy`: user and system time of fresh processes
step      step_into of a pendulum, by `d.ctrl[:] = u; mj_step(m, d)`, 30 blocks
batch     throughput of 256 rollouts of 100 steps of the humanoid through Python, by that of the same calls of the C batch
leak      growth of the resident memory over 10 000 rollouts with their gradients, MiB
torch, ffi, callback    a rollout and its gradient by controls in PyTorch and in programs compiled by JAX, by that of NumPy, one world:
          a pendulum's single step is what a call costs, 100 steps of a quadruped what that is beside work
"""
import argparse
import csv
import functools
import os
import resource
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PENDULUM = """<mujoco><option timestep="0.002"/><worldbody><body><joint name="j" axis="0 1 0" damping=".1"/>
<geom type="capsule" fromto="0 0 0 0 0 -.5" size=".03"/></body></worldbody><actuator><motor joint="j"/></actuator></mujoco>"""


def humanoid():
    import gymnasium
    return os.path.join(os.path.dirname(gymnasium.__file__), "envs", "mujoco", "assets", "humanoid.xml")


def spent(code, python):
    """User and system time of a fresh process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([python, "-c", code], check=True, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def start(folder, python=sys.executable):
    plain = f"import sys; sys.path.insert(0, {folder!r}); import numpy"
    whole = plain + f"""
import pullback as pb
m = pb.load({humanoid()!r})
m.rollout(m.init(), numpy.zeros((1, m.nu))).vjp(qpos=numpy.ones(m.nv))"""
    times = [(spent(plain, python), spent(whole, python)) for _ in range(9)]
    return statistics.median(b / a for a, b in times)


def beside(base, *others, blocks=15):
    """Processor time of others by that of base, each a call, one after the other in every block; a number where there is one other."""
    ratios = []
    for call in (base, *others):
        call()
    for _ in range(blocks):
        times = []
        for call in (base, *others):
            begin = time.process_time()
            call()
            times.append(time.process_time() - begin)
        ratios.append([t / times[0] for t in times[1:]])
    found = [statistics.median(column) for column in zip(*ratios)]
    return found if len(others) > 1 else found[0]


def step():
    import mujoco
    import numpy as np

    import pullback as pb
    m, u = pb.loads(PENDULUM), np.zeros(1)
    s = m.init()
    model = mujoco.MjModel.from_xml_string(PENDULUM)
    d, calls = mujoco.MjData(model), 3000

    def ours():
        for _ in range(calls):
            m.step_into(s, u)

    def theirs():
        for _ in range(calls):
            d.ctrl[:] = u
            mujoco.mj_step(model, d)
    return beside(theirs, ours, blocks=30)


def leak():
    import numpy as np

    import pullback as pb
    m = pb.loads(PENDULUM)

    def run(count):
        for _ in range(count):
            m.rollout(m.init(batch=4), np.zeros((4, 20, 1)), params={"body_mass": m.params["body_mass"]}, threads=1).vjp(qpos=np.ones((4, 1)))
    resident = lambda: int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2 ** 20
    run(1000)
    before = resident()
    run(10000)
    return resident() - before


def batch():
    """What the arrays and checks around the call of the C library cost."""
    import numpy as np

    import pullback as pb
    from pullback import _core
    m = pb.load(humanoid())
    ctrl = .1 * np.random.default_rng(0).normal(size=(256, 100, m.nu))
    states, done = np.empty((256, 101, m._size)), np.zeros(256, np.int32)
    x0 = np.repeat(m.init().flat[None], 256, axis=0)

    def in_c():
        run = _core.Run(compiled=m._compiled, worlds=256, steps=100, threads=1, keep=True, shared_inputs=True, own=(), budget=1 << 40, partial=False,
                        progress=None)
        run.forward((m._theta, x0, None, ctrl, None, None, None, None, None), 30, False, (states, None, None, None), done)
    return 1 / beside(in_c, lambda: m.rollout(m.init(), ctrl, threads=1, outputs=()), blocks=9)


# ---- one gradient by the frameworks -----------------------------------------------------------------------------------------------
@functools.cache
def gradients(scene, steps, calls):
    """Of PyTorch, JAX by custom calls and by callbacks, by NumPy's; controls are others in each call."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    import torch

    import pullback as pb
    import pullback.jax
    import pullback.torch
    jax.config.update("jax_enable_x64", True)
    torch.set_num_threads(1)
    m = pb.load(scene) if os.path.exists(scene) else pb.loads(scene)
    s, rng, bar = m.init(), np.random.default_rng(0), np.ones(m.nv)
    controls = [.1 * rng.normal(size=(steps, m.nu)) for _ in range(calls)]
    qpos, qvel = np.array(s.qpos), np.array(s.qvel)

    def by_numpy():
        for u in controls:
            m.rollout(s, u, outputs=(), threads=1).vjp(qvel=bar, wrt=["ctrl"], check=False)

    def by_torch():
        for u in controls:
            u = torch.tensor(u, requires_grad=True)
            pb.torch.rollout(m, torch.from_numpy(qpos), torch.from_numpy(qvel), u, threads=1)[1][-1].sum().backward()

    def by_jax(backend):
        f = jax.jit(jax.grad(lambda u: pb.jax.rollout(m, qpos, qvel, u, threads=1, backend=backend)[1][-1].sum()))
        return lambda: [f(jnp.asarray(u)).block_until_ready() for u in controls]
    return dict(zip(("torch", "ffi", "callback"), beside(by_numpy, by_torch, by_jax("ffi"), by_jax("callback"))))


def rows(folder):
    """What is measured: its name, in what, what it asks for (None: nothing), and how."""
    yield "start", "by import numpy", "<= 5", lambda: start(folder)
    yield "step", "by mj_step", "<= 1", step
    yield "batch", "throughput by C's", ">= .95", batch
    yield "leak", "MiB", "<= 1", leak
    quadruped = os.path.join(ROOT, "examples", "quadruped", "quadruped.xml")
    for name in ("torch", "ffi", "callback"):
        yield name, "pendulum, 1 step, by NumPy", None, lambda name=name: gradients(PENDULUM, 1, 100)[name]
        yield name, "quadruped, 100 steps, by NumPy", None, lambda name=name: gradients(quadruped, 100, 5)[name]


def main():
    parser = argparse.ArgumentParser(description="The Python package against what it stands beside.")
    parser.add_argument("row", nargs="*", help="rows to measure; all of them if none is named, and then the table is stored")
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "release"))
    asked = parser.parse_args()
    folder = os.path.join(asked.build, "python")
    sys.path.insert(0, folder)

    table, missed = [["what", "of", "measured", "required", "holds"]], False
    print(*table[0], sep=",")
    for name, of, required, measure in rows(folder):
        if asked.row and name not in asked.row:
            continue
        measured = measure()
        holds = "" if required is None else "yes" if holds_for(measured, required) else "NO"
        missed |= holds == "NO"
        table.append([name, of, f"{measured:.3g}", required or "", holds])
        print(*(f'"{cell}"' if "," in cell else cell for cell in table[-1]), sep=",", flush=True)
    if not asked.row:
        with open(os.path.join(ROOT, "bench", "results", "python.csv"), "w", newline="") as f:
            csv.writer(f, lineterminator="\n").writerows(table)
    return missed


def holds_for(measured, required):
    """Whether a number is within a limit such as "<= 1"."""
    sign, limit = required.split()
    return measured <= float(limit) if sign == "<=" else measured >= float(limit)


if __name__ == "__main__":
    sys.exit(main())
