#!/usr/bin/env python3
"""The gradient of a humanoid's rollout by its controls, here and in MJX on the same processor: MJX's own humanoid, equal worlds, steps and
controls, getting ready and running apart. Table, and bench/results/mjx.csv.   make bench-mjx

MJX has an environment of its own (bench/mjx.txt, build/mjx). What it computes: reverse mode through one iteration of Newton's method, as
its file of the humanoid asks for (more iterations are a loop that reverse mode does not take), in single precision, derivatives of
contacts by automatic differentiation of that iteration; what is not finite is counted. Here: the solver's solution and its exact
derivative, in double. So losses and gradients differ; the table says by how much.

  bench/mjx.py [--build DIR] [--worlds B] [--steps N]
"""
import argparse
import csv
import glob
import json
import os
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HEIGHT, RUNS = 2, 7


def controls(worlds, steps, nu):
    import numpy as np
    return .1 * np.random.default_rng(0).normal(size=(worlds, steps, nu))


def seconds(call):
    """Of the clock, and of all processors."""
    clock, processors = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - clock, time.process_time() - processors


# ---- in MJX's environment -----------------------------------------------------------------------------------------------------------
def serve_mjx(path, worlds, steps):
    """Says what getting ready took and the answers, then for each line that comes what one run takes."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what packages print on import is no answer
    import importlib.metadata

    import jax
    import jax.numpy as jnp
    import mujoco
    import numpy as np
    from mujoco import mjx
    model = mujoco.MjModel.from_xml_path(path)
    on_device = mjx.put_model(model)
    start = mjx.make_data(on_device)

    def loss(ctrl):
        def step(data, u):
            after = mjx.step(on_device, data.replace(ctrl=u))
            return jax.tree.map(lambda new, old: new.astype(old.dtype), after, data), None
        return jax.lax.scan(step, start, ctrl)[0].qpos[HEIGHT]
    ctrl = jnp.asarray(controls(worlds, steps, model.nu), jnp.float32)
    said, program = {}, None

    def trace():
        nonlocal program
        program = jax.jit(jax.vmap(jax.value_and_grad(loss))).lower(ctrl)

    def compile_it():
        nonlocal program
        program = program.compile()
    said["trace"], said["compile"] = seconds(trace), seconds(compile_it)
    losses, gradient = (np.asarray(x, float).tolist() for x in program(ctrl))
    versions = " ".join(f"{name} {importlib.metadata.version(name)}" for name in ("mujoco-mjx", "mujoco", "jax", "jaxlib"))
    print(json.dumps({**said, "losses": losses, "gradient": gradient, "versions": versions}), file=answers)
    for _ in sys.stdin:
        print(json.dumps(seconds(lambda: jax.block_until_ready(program(ctrl)))), file=answers)


# ---- beside it ----------------------------------------------------------------------------------------------------------------------
def measure(build, worlds, steps):
    """Rows of the table: quantity, here, in MJX."""
    sys.path.insert(0, os.path.join(build, "python"))
    import numpy as np

    import pullback as pb
    path, = glob.glob(os.path.join(ROOT, "build/mjx/lib/python3*/site-packages/mujoco/mjx/test_data/humanoid/humanoid.xml"))
    words = [os.path.join(ROOT, "build/mjx/bin/python"), __file__, "--mjx", path, "--worlds", str(worlds), "--steps", str(steps)]
    child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    theirs = json.loads(child.stdout.readline())

    ours = {}

    def load():
        ours["model"] = pb.load(path)
    ready = seconds(load)
    m = ours["model"]
    ctrl, bar = controls(worlds, steps, m.nu), np.eye(m.nv)[HEIGHT]

    def run():
        with m.rollout(m.init(), ctrl, outputs=()) as r:
            ours["losses"], ours["gradient"] = r.qpos[:, -1, HEIGHT].copy(), r.vjp(qpos=np.tile(bar, (worlds, 1)), check=False).ctrl
    run()
    times = []
    for _ in range(RUNS):
        child.stdin.write("run\n")
        child.stdin.flush()
        times.append((*seconds(run), *json.loads(child.stdout.readline())))
    child.stdin.close()
    child.wait()
    clock, processors, their_clock, their_processors = map(statistics.median, zip(*times))

    gradient = np.array(theirs["gradient"])
    finite = np.isfinite(gradient).all(axis=(1, 2))
    cosine = [float((a * b).sum() / np.linalg.norm(a) / np.linalg.norm(b)) for a, b in zip(ours["gradient"][finite], gradient[finite])]
    return [("version", f"pullback {pb.__version__} double", f"{theirs['versions']} single"),
            ("worlds x steps", f"{worlds} x {steps}", f"{worlds} x {steps}"),
            ("load or trace s", f"{ready[0]:.3f}", f"{theirs['trace'][0]:.1f}"),
            ("compile s", "0", f"{theirs['compile'][0]:.1f}"),
            ("load or trace and compile processor s", f"{ready[1]:.3f}", f"{theirs['trace'][1] + theirs['compile'][1]:.1f}"),
            ("run ms", f"{1e3 * clock:.2f}", f"{1e3 * their_clock:.2f}"),
            ("run processor ms", f"{1e3 * processors:.2f}", f"{1e3 * their_processors:.2f}"),
            ("worlds with a gradient that is not finite", int((~np.isfinite(ours["gradient"])).any(axis=(1, 2)).sum()), int((~finite).sum())),
            ("loss of world 0", f"{ours['losses'][0]:.6f}", f"{theirs['losses'][0]:.6f}"),
            ("cosine of the two gradients: least", f"{min(cosine, default=float('nan')):.3f}", "")]


def main():
    parser = argparse.ArgumentParser(description="The gradient of a humanoid here and in MJX.")
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "release"))
    parser.add_argument("--worlds", type=int, default=8)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--mjx", metavar="FILE", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.mjx:
        return serve_mjx(asked.mjx, asked.worlds, asked.steps)

    rows = [("quantity", "pullback", "mjx"), *measure(asked.build, asked.worlds, asked.steps)]
    with open(os.path.join(ROOT, "bench", "results", "mjx.csv"), "w", newline="") as f:
        csv.writer(f, lineterminator="\n").writerows(rows)
    for row in rows:
        print("{:44} {:28} {}".format(*row))
    return 0


if __name__ == "__main__":
    sys.exit(main())
