#!/usr/bin/env python3
"""Room and time by bodies, contacts, methods and calls, as ratios in one process beside MuJoCo, or beside what a call's arithmetic takes.
Table, and bench/results/room.csv; each row with its bound where one is promised (docs/limits.md).

  bench/room.py [ROW...] [--build DIR]

apart     1 200 balls that touch nothing, one step of them and its gradient: MB of the process beyond those before it
free      free bodies on a plane: step_into, a step of a rollout of 50, its gradient, and a rollout of one step, by MuJoCo's step
heap      300 balls and boxes in a heap: step_into by MuJoCo's
field     six hulls on a height field: a rollout of one step with cones and lcp, by that with soft contact: time, and bytes held
call      humanoid: a rollout of one step by step_into; linearize by linearize of a rollout that is kept
loop      humanoid: kB that a graph of PyTorch's holds for each step; gradient of a scan of 160 steps of JAX by that of one rollout
grow      MB and milliseconds by bodies apart, and by bodies in a heap (no bounds: what there is to know)
"""
import argparse
import csv
import os
import statistics
import subprocess
import sys
import time

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SHAPES = ("sphere", "box", "capsule")


def free(count):
    bodies = "".join(f'<body pos="{i % 32 * .3} {i // 32 * .3} {.12 + .02 * (i % 5)}"><freejoint/><geom type="{SHAPES[i % 3]}" size=".1 .1 .1"/>'
                     "</body>" for i in range(count))
    return f'<mujoco><size memory="500M"/><worldbody><geom type="plane" size="50 50 1"/>{bodies}</worldbody></mujoco>'


def balls(count):
    bodies = "".join(f'<body pos="{i % 40} {i // 40} 1"><freejoint/><geom size=".1"/></body>' for i in range(count))
    return f'<mujoco><size memory="500M"/><worldbody><geom type="plane" size="50 50 1"/>{bodies}</worldbody></mujoco>'


def heap(count, shapes=("sphere", "box")):
    """Bodies that fall into a pit."""
    walls = "".join(f'<geom type="plane" pos="{x} {y} 0" zaxis="{-x} {-y} 0" size="9 9 .1"/>' for x, y in ((1, 0), (-1, 0), (0, 1), (0, -1)))
    bodies = "".join(f'<body pos="{i % 6 * .31 - .78} {i // 6 % 6 * .31 - .78} {.15 + i // 36 * .25}"><freejoint/>'
                     f'<geom type="{shapes[i % len(shapes)]}" size=".1 .1 .1"/></body>' for i in range(count))
    return f'<mujoco><size memory="500M"/><worldbody><geom type="plane" size="9 9 .1"/>{walls}{bodies}</worldbody></mujoco>'


def hulls_on_field():
    heights = " ".join(f"{.5 + .5 * np.sin(.9 * (i % 20)) * np.cos(.7 * (i // 20)):.3f}" for i in range(400))
    rng = np.random.default_rng(1)
    corners = lambda: " ".join(f"{x:.3f}" for x in (rng.normal(size=(14, 3)) * [.1, .08, .06]).ravel())
    meshes = "".join(f'<mesh name="m{k}" vertex="{corners()}"/>' for k in range(6))
    bodies = "".join(f'<body pos="{k % 3 * .35 - .35} {k // 3 * .35 - .2} .35"><freejoint/><geom type="mesh" mesh="m{k}"/></body>' for k in range(6))
    return (f'<mujoco><asset><hfield name="f" nrow="20" ncol="20" size="1 1 .15 .1" elevation="{heights}"/>{meshes}</asset>'
            f'<worldbody><geom type="hfield" hfield="f"/>{bodies}</worldbody></mujoco>')


def humanoid():
    import gymnasium
    return os.path.join(os.path.dirname(gymnasium.__file__), "envs", "mujoco", "assets", "humanoid.xml")


def beside(base, *others, blocks=9, repeat=1):
    """Processor time of others by that of base, interleaved: medians of the ratios."""
    def spent(call):
        begin = time.process_time()
        for _ in range(repeat):
            call()
        return time.process_time() - begin
    for call in (base, *others):
        call()
    ratios = []
    for _ in range(blocks):
        times = [spent(call) for call in (base, *others)]
        ratios.append([t / times[0] for t in times[1:]])
    return [statistics.median(column) for column in zip(*ratios)]


def alone(code):
    """What a process of its own prints last, a number: memory is that of a process."""
    whole = f"import sys; sys.path[:0] = {[sys.path[0], os.path.join(ROOT, 'bench')]!r}\n" + code
    run = subprocess.run([sys.executable, "-c", whole], check=True, capture_output=True, text=True, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})
    return [float(x) for x in run.stdout.split()]


MEASURE = """
import time
import numpy as np, pullback as pb, room
most = lambda: next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) / 1024
text = room.{scene}
before = most()
m = pb.loads(text)
s = m.init()
r = m.rollout(s, steps={steps})
after = most()
begin = time.process_time()
r = m.rollout(s, steps={steps})
forward = time.process_time() - begin
r.vjp(qvel=np.ones(m.nv), check=False)
begin = time.process_time()
r.vjp(qvel=np.ones(m.nv), check=False)
print(after - before, most() - before, 1e3 * forward / {steps}, 1e3 * (time.process_time() - begin) / {steps})
"""


def measured(scene, steps):
    return alone(MEASURE.format(scene=scene, steps=steps))


def apart():
    step, gradient, *_ = measured("balls(1200)", 1)
    return [("1200 balls, a step: MB", step, "<= 150"), ("1200 balls, with its gradient: MB", gradient, "")]


def free_bodies(count, steps):
    import mujoco

    import pullback as pb
    text = free(count)
    model = mujoco.MjModel.from_xml_string(text)
    d = mujoco.MjData(model)
    m = pb.loads(text)
    s, bar = m.init(), np.ones(m.nv)
    kept = m.rollout(s, steps=steps)

    def theirs():
        mujoco.mj_resetData(model, d)
        for _ in range(steps):
            mujoco.mj_step(model, d)

    def ours():
        x = s.copy()
        for _ in range(steps):
            m.step_into(x)
    found = beside(theirs, ours, lambda: m.rollout(s, steps=steps), lambda: kept.vjp(qvel=bar, check=False), blocks=5)
    short = beside(theirs, lambda: m.rollout(s, steps=1), blocks=5)[0] * steps
    bounds = ("<= 1.2", "<= 1.2", "<= 2", "") if count == 1000 else ("", "", "", "")
    names = ("step", "step of a rollout", "gradient of a step", "rollout of one step")
    return [(f"{count} free bodies: {name} by mj_step", value, bound) for name, value, bound in zip(names, (*found, short), bounds)]


def in_a_heap():
    import mujoco

    import pullback as pb
    text = heap(300)
    model = mujoco.MjModel.from_xml_string(text)
    d = mujoco.MjData(model)
    for _ in range(400):
        mujoco.mj_step(model, d)
    m = pb.loads(text)
    s = m.init()
    s.qpos, s.qvel, s.qacc_warmstart = d.qpos, d.qvel, d.qacc_warmstart
    start = np.concatenate([d.qpos, d.qvel, d.qacc_warmstart])

    def theirs():
        d.qpos[:], d.qvel[:], d.qacc_warmstart[:] = np.split(start, [model.nq, model.nq + model.nv])
        for _ in range(10):
            mujoco.mj_step(model, d)

    def ours():
        x = s.copy()
        for _ in range(10):
            m.step_into(x)
    return [(f"300 in a heap ({d.ncon} contacts): step by mj_step", beside(theirs, ours, blocks=5)[0], "<= 1")]


def on_a_field():
    import pullback as pb
    models = [pb.loads(hulls_on_field(), contact={"method": method}) for method in ("soft", "cones", "lcp")]
    state = models[0].rollout(models[0].init(), steps=150, outputs=())
    starts = [m.state(state.final.flat.copy()) for m in models]
    calls = [lambda m=m, s=s: m.rollout(s, steps=1) for m, s in zip(models, starts)]
    held = [call().nbytes for call in calls]
    times = beside(*calls, blocks=9)
    return [row for k, method in enumerate(("cones", "lcp"), 1)
            for row in ((f"six hulls on a field, {method}: time of a rollout of one step by soft", times[k - 1], "<= 2"),
                        (f"six hulls on a field, {method}: bytes by soft", held[k] / held[0], "<= 2"))]


def one_call():
    import pullback as pb
    m = pb.load(humanoid())
    s, u, controls = m.init(), np.zeros(m.nu), np.zeros((1, m.nu))
    kept = m.rollout(s, controls)
    start = m.init()
    rollout = beside(lambda: m.step_into(s, u), lambda: m.rollout(start, controls), blocks=15, repeat=100)[0]
    linear = beside(lambda: kept.linearize(), lambda: m.linearize(start, u), blocks=15, repeat=50)[0]
    return [("humanoid: rollout of one step by step_into", rollout, "<= 4"), ("humanoid: linearize by that of a kept rollout", linear, "<= 1.5")]


LOOP = """
import gc, os
import torch
import pullback as pb, pullback.torch, room
torch.set_num_threads(1)
m = pb.load(room.humanoid())
resident = lambda: int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e3
u = torch.zeros(600, m.nu, dtype=torch.float64, requires_grad=True)
def loop(steps):
    q, v = torch.tensor(m.init().qpos), torch.tensor(m.init().qvel)
    for k in range(steps):
        q, v, _ = pb.torch.step(m, q, v, u[k])
    return q
loop(20).sum().backward()
gc.collect()
before = resident()
graph = loop(600)
print((resident() - before) / 600)
"""


def loops():
    import jax
    import jax.numpy as jnp

    import pullback as pb
    import pullback.jax
    jax.config.update("jax_enable_x64", True)
    m = pb.load(humanoid())
    q, v, c = jnp.array(m.init().qpos), jnp.array(m.init().qvel), jnp.zeros((160, m.nu))
    last = lambda c: jax.lax.scan(lambda s, u: (pb.jax.step(m, *s, u)[:2], None), (q, v), c)[0][0][0]
    scan, whole = jax.jit(jax.grad(last)), jax.jit(jax.grad(lambda c: pb.jax.rollout(m, q, v, c)[0][-1, 0]))
    ratio = beside(lambda: whole(c).block_until_ready(), lambda: scan(c).block_until_ready(), blocks=15, repeat=5)[0]
    return [("humanoid, a loop of torch.step: kB a step", alone(LOOP)[0], "<= 50"),
            ("humanoid, gradient of a scan of 160 jax.step by that of a rollout", ratio, "<= 5")]


def growth():
    rows = []
    for count in (30, 100, 300, 1000, 3000):
        step, gradient, forward, back = measured(f"balls({count})", 5)
        rows += [(f"{count} balls apart: MB", gradient, ""), (f"{count} balls apart: ms a step", forward, ""),
                 (f"{count} balls apart: ms a gradient's step", back, "")]
    for count in (30, 100, 300):
        step, gradient, forward, back = measured(f"heap({count})", 100)
        rows += [(f"{count} in a heap: MB of 100 steps", gradient, ""), (f"{count} in a heap: ms a step", forward, ""),
                 (f"{count} in a heap: ms a gradient's step", back, "")]
    return rows


ROWS = {"apart": apart, "free": lambda: free_bodies(50, 50) + free_bodies(200, 50) + free_bodies(1000, 50), "heap": in_a_heap, "field": on_a_field,
        "call": one_call, "loop": loops, "grow": growth}


def holds(value, bound):
    return "" if not bound else "yes" if value <= float(bound.split()[1]) else "NO"


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("row", nargs="*", choices=[*ROWS, []], help="all, unless given")
    options.add_argument("--build", default=os.path.join(ROOT, "build/release"))
    given = options.parse_args()
    sys.path.insert(0, os.path.join(os.path.abspath(given.build), "python"))
    rows = []
    for name in given.row or ROWS:
        for what, value, bound in ROWS[name]():
            rows.append([what, f"{value:.3g}", bound, holds(value, bound)])
            print("{:80s} {:>9s} {:>8s} {}".format(*rows[-1]), flush=True)
    if not given.row:
        with open(os.path.join(ROOT, "bench/results/room.csv"), "w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([["what", "measured", "required", "holds"], *rows])
    return 1 if any(row[3] == "NO" for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
