#!/usr/bin/env python3
"""The Python package against what it stands beside, as ratios in one run.

  bench/python.py --build build/release [--python PYTHON]

start        processor time of import, load and a first gradient of the humanoid, by that of `import numpy`, fresh processes
step         step_into of a pendulum, by `d.ctrl[:] = u; mj_step(m, d)`, 30 interleaved blocks
batch        256 rollouts of 100 steps of the humanoid through Python, by the same calls of the C batch without Python's arrays
leak         growth of the resident memory over 10 000 rollouts with their gradients, MiB
"""
import argparse
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


def start(python, folder):
    plain = f"import sys; sys.path.insert(0, {folder!r}); import numpy"
    whole = plain + f"""
import pullback as pb
m = pb.load({humanoid()!r})
m.rollout(m.init(), numpy.zeros((1, m.nu))).vjp(qpos=numpy.ones(m.nv))"""
    times = [(spent(plain, python), spent(whole, python)) for _ in range(9)]
    return statistics.median(b for _, b in times) / statistics.median(a for a, _ in times)


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
    ratios = []
    for _ in range(30):
        a = time.perf_counter()
        ours()
        b = time.perf_counter()
        theirs()
        ratios.append((b - a) / (time.perf_counter() - b))
    return statistics.median(ratios)


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


def batch(blocks=9):
    """Rollout of Python, by its own call of the C library: what the arrays and checks around it cost."""
    import numpy as np

    import pullback as pb
    from pullback import _core
    m = pb.load(humanoid())
    ctrl = .1 * np.random.default_rng(0).normal(size=(256, 100, m.nu))
    states, done = np.empty((256, 101, m._size)), np.zeros(256, np.int32)
    x0 = np.repeat(m.init().flat[None], 256, axis=0)
    ratios = []
    for _ in range(blocks):
        run = _core.Run(compiled=m._compiled, worlds=256, steps=100, threads=1, keep=True, shared_inputs=True, own=(), budget=1 << 40, partial=False,
                        progress=None)
        a = time.process_time()
        run.forward((m._theta, x0, None, ctrl, None, None, None, None, None), 30, False, (states, None, None, None), done)
        b = time.process_time()
        m.rollout(m.init(), ctrl, threads=1, outputs=())
        ratios.append((time.process_time() - b) / (b - a))
    return statistics.median(ratios)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "release"))
    asked = parser.parse_args()
    folder = os.path.join(asked.build, "python")
    sys.path.insert(0, folder)
    rows = [("start", start(sys.executable, folder), 5), ("step", step(), 1), ("batch", batch(), 1 / .95), ("leak", leak(), 1)]
    print("what,measured,most,holds")
    for name, measured, most in rows:
        print(f"{name},{measured:.3g},{most:.3g},{'yes' if measured <= most else 'NO'}", flush=True)
    return 0 if all(measured <= most for _, measured, most in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
