#!/usr/bin/env python3
"""A world in which everything fails, one call at a time: memory, files, threads.   make failing-world [SEED=x SHARE=200 ONLY=view]

world.c is preloaded into the process and makes the n-th call of a kind fail, once or from then on. A first run counts the calls; then there
is one for each of them, in which that call fails. What must hold of each:

  - it ends by itself, without a signal, in time;
  - where it succeeds in spite of it, its files and what it printed are those of the first run;
  - where it fails, the exit status is 5 (memory or files), and the text names the true reason: memory, "No space left on device", threads;
  - a file that was there is as it was or is whole and new; no other file is left, under no name.

The parts: the program (every command of `pullback --help`), the C interface (C: driver.c, with expat, jansson, libpng, qhull and stdio in
it), and the Python package while one of our functions is on the stack (Python: python_calls.py). Without --share every call fails once and
for ever; with it, of each command or scene that makes more runs than that, so many drawn by the seed.
  tests/world/failing_world.py [--build DIR] [--share N] [--seed S] [WORD...]
"""
import argparse
import concurrent.futures
import errno
import io
import json
import os
import pathlib
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import zipfile
import zlib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HERE = ROOT / "tests" / "world"
KINDS = "malloc calloc realloc aligned open read write fsync rename link unlink mmap thread".split()
# How a call of a kind fails: the errno, 0 for half of what was asked. Interrupted is once only: nothing is interrupted for ever.
HOW = {
    "open": [errno.EMFILE, errno.EIO], "read": [0, errno.EINTR, errno.EIO], "write": [0, errno.EINTR, errno.ENOSPC, errno.EDQUOT, errno.EIO],
    "fsync": [errno.EIO, errno.ENOSPC], "rename": [errno.EIO, errno.ENOSPC], "link": [errno.EPERM, errno.ENOENT], "unlink": [errno.EIO],
    "thread": [errno.EAGAIN],
}
MEMORY = {"malloc", "calloc", "realloc", "aligned", "mmap"}
PARTS = {"C", "Python"}
FILES_STATUS = 5
MOST_SECONDS = 60  # of a run whose usual time is a few milliseconds

# ---- what is run ------------------------------------------------------------------------------------------------------
ROBOT = """<mujoco><option timestep=".01"/><worldbody><geom type="plane" size="1 1 1"/><body pos="0 0 .3"><freejoint/><geom size=".1"/>
<body pos="0 0 .2"><joint name="swing" axis="0 1 0"/><geom type="capsule" size=".03 .1"/><site name="tip" pos="0 0 .1"/></body></body>
</worldbody><actuator><motor name="drive" joint="swing"/></actuator><sensor><jointpos joint="swing"/></sensor></mujoco>"""
CART = """<mujoco><option timestep=".02"/><worldbody><body><joint name="slide" type="slide" axis="1 0 0"/><geom size=".1"/><body name="pole">
<joint name="swing" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0 0 -.5" size=".03"/></body></body></worldbody><actuator><motor name="push"
joint="slide"/></actuator></mujoco>"""
SHAPES = """<mujoco><asset><mesh name="wedge" file="wedge.obj"/><hfield name="hills" file="hills.png" size="1 1 .2 .1"/></asset><worldbody>
<geom type="hfield" hfield="hills"/><body pos="0 0 .5"><freejoint/><geom type="mesh" mesh="wedge"/></body></worldbody></mujoco>"""
BRICKS = """MeshVersionFormatted 1 Dimension 3 Vertices 12
0 0 0 0 1 0 0 0 2 0 0 0 0 1 0 0 1 1 0 0 2 1 0 0 0 0 1 0 1 0 1 0 2 0 1 0 0 1 1 0 1 1 1 0 2 1 1 0
Hexahedra 2 1 2 5 4 7 8 11 10 3 2 3 6 5 8 9 12 11 3 Quadrilaterals 1 1 2 5 4 7 End"""
NODES, TETS = "4 3 0 0\n1 0 0 0\n2 1 0 0\n3 0 1 0\n4 0 0 1\n", "1 4 0\n1 1 2 3 4\n"
TET = json.dumps({"scenes": [{"nodes": [0]}], "nodes": [{"mesh": 0}], "meshes": [{"primitives": [{"attributes": {"POSITION": 0}, "indices": 1}]}],
                  "accessors": [{"bufferView": 0, "componentType": 5126, "count": 3, "type": "VEC3"},
                                {"bufferView": 1, "componentType": 5121, "count": 3, "type": "SCALAR"}],
                  "bufferViews": [{"buffer": 0, "byteLength": 36}, {"buffer": 1, "byteLength": 3}],
                  "buffers": [{"byteLength": 36, "uri": "tet.bin"}, {"byteLength": 3, "uri": "data:;base64,AAEC"}]})
URDF = """<robot name="arm"><link name="base"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
<link name="fore"><inertial><origin xyz="0 0 .1"/><mass value="1"/><inertia ixx=".1" iyy=".1" izz=".1" ixy="0" ixz="0" iyz="0"/></inertial>
<collision><geometry><mesh filename="wedge.obj"/></geometry></collision></link><joint name="elbow" type="revolute"><parent link="base"/>
<child link="fore"/><axis xyz="0 1 0"/><limit lower="-1" upper="1" effort="3" velocity="2"/></joint></robot>"""
THROW = {"model": "cart.xml", "steps": 10, "variables": [{"name": "push", "control": "push", "knots": 3}],
         "loss": [{"qpos": "swing", "target": 0.1, "at": "final"}], "optimizer": {"method": "lbfgs", "iterations": 3}, "audit": {"torque": 10}}
LEARN = {"model": "cart.xml", "policy": {"observe": [{"qpos": True}, {"qvel": True}], "layers": [{"dense": 4, "activation": "tanh"}, {"dense": 1}]},
         "loss": [{"qpos": True, "at": "all"}], "episode": {"seconds": 0.2, "spread": {"qvel": 0.1}},
         "train": {"method": "shac", "updates": 2, "worlds": 2, "window": 4}}

LOG = "time [s],qpos:swing [deg],drive,push [N],qvel:slide\n" + "".join(f"{k * .013:.4f},{k},{'' if k % 3 else .1 * k},{.2 * k},\n" for k in range(12))
FOLLOW = {"model": "cart.xml", "controls": {"file": "log.csv", "delay": 0.005}, "variables": [{"delay": "controls", "upper": 0.05}],
          "loss": [{"qpos": "swing", "target": {"file": "track.csv"}}], "optimizer": {"method": "gauss-newton", "iterations": 2}}
PIECES = {"model": "cart.xml", "steps": 7, "window": 0.05, "controls": {"file": "log.csv"}, "init": {"recording": {"file": "log.csv"}},
          "trajectories": [{"cluster": "one"}, {"cluster": "two"}], "loss": [{"qpos": "swing", "target": {"file": "log.csv", "start": 0}, "type": "huber"}],
          "variables": [{"parameter": "dof_damping:swing", "start": 0.1, "lower": 0}, {"state": "qvel", "trajectory": "each"}],
          "optimizer": {"method": "gauss-newton", "iterations": 2}}
SWAY = {"model": "cart.xml", "steps": 10, "variables": [{"control": True}, {"state": "qvel"}], "loss": [{"qpos": True, "at": "all", "target": [0.1, 0]}],
        "optimizer": {"method": "gauss-newton", "jacobian": "sweep", "iterations": 2}}
STEER = {**SWAY, "loss": [{"qpos": True, "at": "all", "target": [0.1, 0]}, {"qvel": True, "constraint": True, "tolerance": 0.1}],
         "variables": [{"control": True, "lower": -1, "upper": 1}, {"state": "qvel"}],
         "optimizer": {"method": "ilqr", "iterations": 2}}
LEAD = {"model": "cart.xml", "steps": 6, "variables": [{"control": True, "lower": -1, "upper": 1}], "loss": [{"qpos": True, "at": "all", "target": [0.1, 0]}],
        "control": {"duration": 0.08, "plant": {"parameters": {"dof_damping:swing": 0.1}}, "noise": {"qvel": 0.01},
                    "pushes": [{"at": 0.02, "body": "pole", "force": [1, 0, 0]}]}}
FIT = {"model": "cart.xml", "steps": 8, "variables": [{"parameter": "dof_damping:swing", "start": 0.1, "lower": 0, "upper": 1, "prior": {"sigma": 1}},
                                                      {"delay": "log", "upper": 0.05}, {"body": "pole", "transform": "inertia", "prior": {"sigma": 0.5}}],
       "loss": [{"name": "log", "qpos": "swing", "target": {"file": "log.csv"}, "at": [0, 0.039, 0.091, 0.13], "sigma": 0.1}],
       "optimizer": {"method": "gauss-newton", "iterations": 2, "starts": 3}, "uncertainty": True}

# Arguments, and the files that they name as output (all there before, with another content).
COMMANDS = {
    "help": ("--help", ""), "help of a command": ("help train", ""), "version": ("--version", ""),
    "info": ("info robot.xml --json", ""), "info urdf": ("info arm.urdf", ""), "info shapes": ("info shapes.xml", ""),
    "energies": ("energies spring", ""),
    "simulate": ("simulate robot.xml --steps 20 -o O.npz -q", "O.npz"),
    "simulate compressed": ("simulate robot.xml --steps 20 -o O.npz -q --compressed", "O.npz"),
    "simulate csv": ("simulate cart.xml --control log.csv --init track.csv -o O.npz -q", "O.npz"),
    "simulate task": ("simulate cloth.json --steps 2 -o O.npz --glb O.glb --vtu O.pvd -q", "O.npz O.glb O.pvd"),
    "simulate worlds": ("simulate cart.xml --worlds starts.npz --steps 5 -o O.npz -q --threads 2", "O.npz"),
    "gradient": ("gradient robot.xml --steps 10 --cotangent last.npz --wrt control,body_mass -o O.npz -q", "O.npz"),
    "jacobian": ("jacobian robot.xml --steps 3 -o O.npz -q", "O.npz"),
    "check": ("check cart.xml --horizon 4", ""),
    "gradient going on": ("gradient cart.xml --steps 12000 --control push.npz --cotangent end.npz -o G.npz -q", "G.npz"),
    "check going on": ("check cart.xml --horizon 200 --page C.html -q", "C.html"),
    "view": ("view robot.xml run.npz -o O.html", "O.html"),
    "view csv": ("view cart.xml track.csv -o O.html", "O.html"),
    "view ghost": ("view cart.xml track.csv --ghost log.csv --ghost-start 0.02 -o O.html", "O.html"),
    "inspect": ("inspect robot.xml -o O.npz", "O.npz"),
    "export": ("export robot.xml -o O.xml -q", "O.xml"), "export shapes": ("export shapes.xml --expose mesh_vert:wedge -o O.xml -q", "O.xml"),
    "export urdf": ("export arm.urdf -o O.xml", "O.xml"),
    "simulate found": ("simulate throw.json --result found.json -o O.npz -q", "O.npz"), "info found": ("info cart.xml --result found.json", ""),
    "optimize on": ("optimize throw.json --start found.json -o O.json -q", "O.json O.trajectory.npz"),
    "export found": ("export throw.json --result found.json -o O.xml -q", "O.xml"),
    "optimize": ("optimize throw.json -o O.json -q", "O.json O.trajectory.npz"),
    "optimize csv": ("optimize follow.json -o O.json -q", "O.json O.trajectory.npz"),
    "optimize pieces": ("optimize pieces.json -o O.json -q", "O.json O.trajectory.npz"),
    "optimize page": ("optimize follow.json -o O.json -q --page O.html", "O.json O.trajectory.npz O.html"),
    "optimize sweep": ("optimize sway.json -o O.json -q", "O.json O.trajectory.npz"),
    "optimize ilqr": ("optimize steer.json -o O.json -q", "O.json O.trajectory.npz"),
    "optimize starts": ("optimize starts.json -o O.json --page O.html -q --threads 2", "O.json O.trajectory.npz O.html"),
    "optimize starts going on": ("optimize long.json -o P.json --page P.html -q --threads 2", "P.json P.trajectory.npz P.html"),
    "simulate csv found": ("simulate follow.json --result late.json -o O.npz -q", "O.npz"),
    "audit": ("audit throw.json -o O.json -q --starts 8", "O.json"),
    "evaluate": ("evaluate learn.json --starts 4 -q --threads 2 -o O.json", "O.json"),
    "train": ("train learn.json -o O.npz -q --threads 2", "O.npz O.csv O.html"),
    "control": ("control lead.json -o O.npz -q --page O.html --threads 2", "O.npz O.csv O.html"),
}
OLD = b"what was there before\n"


def write_inputs(place, program):
    """The files that the commands read."""
    texts = {"robot.xml": ROBOT, "cart.xml": CART, "shapes.xml": SHAPES, "arm.urdf": URDF, "bricks.mesh": BRICKS, "tets.node": NODES,
             "tets.ele": TETS, "tet.gltf": TET, "log.csv": LOG, "track.csv": "time,qpos:swing\n0,0\n0.02,0.01\n0.06,0.03\n"}
    for name, text in texts.items():
        (place / name).write_text(text)
    found = {"variables": [{"name": "push", "value": [0.1, 0.2, 0.3]}], "parameters": {}}
    for name, task in {"throw.json": THROW, "learn.json": LEARN, "found.json": found, "follow.json": FOLLOW, "pieces.json": PIECES, "sway.json": SWAY,
                       "steer.json": STEER,
                       "starts.json": FIT, "lead.json": LEAD,
                       "late.json": {"variables": [{"name": "delay", "value": [0.01]}], "parameters": {}},
                       "long.json": {**SWAY, "steps": 150, "optimizer": {"method": "lbfgs", "iterations": 12, "starts": 4}}}.items():
        (place / name).write_text(json.dumps(task))
    (place / "tet.bin").write_bytes(struct.pack("<9f", 0, 0, 0, 1, 0, 0, 0, 1, 0))
    shutil.copy(ROOT / "tests" / "hostile" / "wedge.obj", place / "wedge.obj")
    write_png_file(place / "hills.png", [bytes([40 * x + 20 * y for x in range(4)]) for y in range(4)])
    with zipfile.ZipFile(place / "packed.mjz", "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("packed.xml", SHAPES.replace("wedge.obj", "parts/wedge.obj").replace("hills.png", "parts/hills.png"))
        for name in ("wedge.obj", "hills.png"): z.write(place / name, "parts/" + name)
    cloth = json.loads((ROOT / "examples" / "cloth" / "drape.json").read_text())
    (place / "cloth.json").write_text(json.dumps(cloth))
    write_npz_file(place / "starts.npz", {"qpos": [[0.1, 0.2], [0.3, -0.1], [0, 0.4]]})
    write_npz_file(place / "last.npz", {"qpos": [[0.0] * 7] * 10 + [[1.0] * 7]})
    write_npz_file(place / "push.npz", {"control": [[0.1 * (k % 7)] for k in range(12000)]})
    write_npz_file(place / "end.npz", {"qpos": [[0.0, 0.0]] * 12000 + [[1.0, 0.5]]})
    subprocess.run([program, *"simulate robot.xml --steps 5 -o run.npz -q".split()], cwd=place, check=True)
    for name, state in ("gradient going on", "G.gradient.state"), ("check going on", "C.check.state"), ("optimize starts going on", "P.state"):
        leave_state(place, program, COMMANDS[name][0].split(), place / state)


def leave_state(place, program, command, state):
    """What the command has left that was interrupted: at moments all over the time that it takes, until it was."""
    start = time.time()
    subprocess.run([program, *command], cwd=place, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    took = time.time() - start
    for k in range(2000):
        p = subprocess.Popen([program, *command], cwd=place, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(took * (k * 0.618 % 1))
        p.send_signal(signal.SIGTERM)
        p.wait()
        for output in [p for letter in "CGP" for p in place.glob(f"{letter}.*")]:
            if output.suffix != ".state":
                output.unlink()
        if state.exists():
            return
    raise RuntimeError(f"'{' '.join(command)}' was never interrupted where it has something to keep")


def write_png_file(path, rows):
    """A gray picture, by hand as well."""
    head = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 0, 0, 0, 0)
    parts = [(b"IHDR", head), (b"IDAT", zlib.compress(b"".join(b"\0" + r for r in rows))), (b"IEND", b"")]
    chunks = [struct.pack(">I", len(c)) + k + c + struct.pack(">I", zlib.crc32(k + c)) for k, c in parts]
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(chunks))


def write_npz_file(path, arrays):
    """An NPZ file of tables, by hand: this needs nothing but the standard library."""
    with zipfile.ZipFile(path, "w") as z:
        for name, rows in arrays.items():
            head = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({len(rows)}, {len(rows[0])}), }}"
            head += " " * (-(len(head) + 11) % 64) + "\n"
            numbers = [x for row in rows for x in row]
            begin = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode()
            z.writestr(name + ".npy", begin + struct.pack(f"<{len(numbers)}d", *numbers))


# ---- one run ----------------------------------------------------------------------------------------------------------
def without_times(content):
    """Seconds that a run took are no part of its result, nor is what is told of them in the table and on the page of a controller."""
    if content.startswith(b"step,time,loss,"):
        return b"\n".join(b",".join(line.split(b",")[:6]) for line in content.split(b"\n"))
    content = re.sub(rb'"panel": {\s*"title": "Control".*?\n    \]\n  }', b"", content, flags=re.S)
    return re.sub(rb'"seconds": [0-9.e+-]+', b'"seconds": 0', content)


class Program:
    """The program in a folder of its own, with the shim before it."""

    def __init__(self, program, shim, inputs):
        self.program, self.shim, self.inputs = program, shim, inputs

    def environment(self, place, plan):
        return {**os.environ, "LD_PRELOAD": str(self.shim), "PB_WORLD_BOOK": str(place / "book"), "PB_WORLD": plan}

    def run(self, name, plan):
        """Status, text, files, and the book of calls, of a command in which a call fails."""
        arguments, outputs = COMMANDS[name]
        with tempfile.TemporaryDirectory(dir=self.inputs.parent) as folder:
            place, work = pathlib.Path(folder), pathlib.Path(folder) / "work"
            work.mkdir()
            for file in self.inputs.iterdir():
                os.link(file, work / file.name)
            for output in outputs.split():
                (work / output).write_bytes(OLD)
            try:
                done = subprocess.run([self.program, *arguments.split()], cwd=work, env=self.environment(place, plan), capture_output=True,
                                      timeout=MOST_SECONDS)
                status, out, text = done.returncode, done.stdout, done.stderr.decode(errors="replace")
            except subprocess.TimeoutExpired:
                status, out, text = "no end", b"", ""
            files = {f.name: f.read_bytes() for f in work.iterdir() if not (self.inputs / f.name).exists()}
            book = struct.unpack(f"<{len(KINDS) + 2}q", (place / "book").read_bytes())
        return status, without_times(out), text, {k: without_times(v) for k, v in files.items()}, book


def reason_of(kind, how):
    """What the text of a failure must say."""
    if kind in MEMORY:
        return "memory|Cannot allocate|thread"  # a thread is made of memory
    return "thread" if kind == "thread" else re.escape(os.strerror(how))


def is_of_failed(name, content):
    """A result that gives its reason, a page of it or its trajectory, whole."""
    if name.endswith(".json"):
        return bool(json.loads(content)["reason"])
    if name.endswith(".npz"):
        return zipfile.is_zipfile(io.BytesIO(content)) and zipfile.ZipFile(io.BytesIO(content)).testzip() is None
    if name.endswith(".csv"):
        return content.endswith(b"\n") and all(line.count(b",") == 5 for line in content.splitlines())
    return name.endswith(".html") and content.rstrip().endswith(b"</html>") and b"failed" in content


def judge(plan, run, usual):
    """What is wrong with a run; None: nothing."""
    kind, _, _, how = plan.split(":")
    status, out, text, files, book = run
    if status == "no end":
        return "no end"
    if not isinstance(status, int) or status < 0:
        return f"ended by signal {-status}"

    # the state of a search that did not end well is there so that it can go on
    left = {k for k in files if not (k.endswith(".state") and status)} - set(usual[3])
    if left and not (kind == "unlink" and book[-2]):
        return f"left {', '.join(sorted(left))}"
    if re.search("the best so far is written|what was done", text):  # of a search or a run that failed: whole, and said to be no answer
        files = {k: v for k, v in files.items() if not is_of_failed(k, v)}
    for name, content in files.items():
        if name in usual[3] and content != usual[3][name] and (content != OLD or status == usual[0]):
            return f"{name} is neither the old file nor whole" if status != usual[0] else f"{name} is another, and the exit status does not say so"

    if status == usual[0] and kind == "unlink" and book[-2] and os.strerror(int(how)) not in text:
        return "does not say that a file stays"
    if status == usual[0]:
        return None if out == usual[1] else "printed something else, and the exit status does not say so"
    if status != FILES_STATUS:
        return f"exit {status}: {text.strip()[-300:]}"
    if re.search(r"(\S+\.(?:json|xml|urdf)(?::\d+)+:).*\1", text):
        return f"has its place twice: {text.strip()[-300:]}"
    return None if re.search(reason_of(kind, int(how)), text) else f"does not name its reason: {text.strip()[-300:]}"


def plans_of(book):
    """Every call that can fail, in every way."""
    plans = []
    for kind, count in zip(KINDS, book):
        for how in HOW.get(kind, [errno.ENOMEM]):
            for ever in (0, 1):
                if how != errno.EINTR or not ever:
                    plans += [f"{kind}:{n}:{ever}:{how}" for n in range(1, count + 1)]
    return plans


def try_command(program, name, share, seed, pool):
    usual = program.run(name, "")
    if usual[0] not in (0, 1):
        print(f"{name}: exit {usual[0]} without any failure: {usual[2]}")
        return 1
    synced, files = usual[4][KINDS.index("fsync")], len(usual[3])
    if synced < 2 * files:
        print(f"{name}: {files} files were written and {synced} calls of fsync made; expected one for each file and one for its folder")
        return 1
    plans = plans_of(usual[4])
    chosen = plans if not share or len(plans) <= share else random.Random(f"{seed} {name}").sample(plans, share)
    begin, wrong, fired = time.monotonic(), {}, 0
    for plan, run in zip(chosen, pool.map(lambda plan: program.run(name, plan), chosen)):
        fault = judge(plan, run, usual)
        fired += run[4][-2] > 0
        if fault:
            wrong.setdefault(re.sub(r"[\d']+.*|/\S+", "#", fault), []).append((plan, fault))
    print(f"{name:20} {len(chosen):5} of {len(plans):5} runs, {fired:5} with a failure, {time.monotonic() - begin:4.0f} s: "
          f"{'all well' if not wrong else str(sum(map(len, wrong.values()))) + ' WRONG'}", flush=True)
    for cases in wrong.values():
        print(f"  {len(cases)} x, first: PB_WORLD={cases[0][0]} pullback {COMMANDS[name][0]}\n      {cases[0][1]}", flush=True)
    return len(wrong)


def check_program(place, asked):
    program = place / "pullback"
    inputs = place / "inputs"
    inputs.mkdir()
    write_inputs(inputs, program)

    # every command that the program has is tried
    listed = subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout
    commands = re.findall(r"^  (\w+) ", listed.split("Commands:")[1].split("Options:")[0], re.M)
    missing = set(commands) - {c[0].split()[0] for c in COMMANDS.values()}
    if missing or not commands:
        print(f"commands that are not tried: {', '.join(sorted(missing))}")
    subject = Program(program, place / "world.so", inputs)
    words = [w for w in asked.word if w not in PARTS]
    names = [n for n in COMMANDS if not asked.word or any(w in n for w in words)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return len(missing) + sum(try_command(subject, name, asked.share, asked.seed, pool) for name in names)


def check_library(build, place, asked):
    """The C interface, in one process: driver.c."""
    compiler, inputs = os.environ.get("CC", "cc"), place / "inputs"
    subprocess.run([compiler, "-std=gnu17", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-o", place / "driver", HERE / "driver.c", f"-I{ROOT}/include",
                    f"-L{build}", "-lpullback", f"-Wl,-rpath,{build}"], check=True)
    subprocess.run([place / "pullback", *"simulate robot.xml --steps 5 -o run.npz --glb motion.glb -q".split()], cwd=inputs, check=True)
    number = zlib.crc32(asked.seed.encode())
    env = {**os.environ, "TMPDIR": str(place), "LD_PRELOAD": str(place / "world.so")}
    done = subprocess.run([place / "driver", inputs, str(asked.share), str(number)], env=env)
    if done.returncode not in (0, 1):
        print(f"C: the driver ended with {done.returncode}")
    return done.returncode != 0


def check_package(build, place, asked):
    """The Python package, while one of our functions is on the stack: python_calls.py."""
    number = str(zlib.crc32(asked.seed.encode()))
    environment = {**os.environ, "LD_PRELOAD": str(place / "world.so"), "PYTHONMALLOC": "malloc", "PYTHONPATH": str(build / "python"),
                   "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, HERE / "python_calls.py", str(asked.share), number], cwd=place / "inputs", env=environment)
    if done.returncode not in (0, 1):
        print(f"Python: ended with {done.returncode} in {(place / 'inputs' / 'python.now').read_text().strip()}")
    return done.returncode != 0


def build_shim(place):
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, "-std=gnu17", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-fvisibility=hidden", "-o", place / "world.so",
                    HERE / "world.c", "-lgcc_s", "-ldl"], check=True)


def main():
    parser = argparse.ArgumentParser(description="Fail every call of the program, one at a time.")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--share", type=int, default=0, help="so many runs of each command, drawn; 0: all")
    parser.add_argument("--seed", default="0")
    parser.add_argument("word", nargs="*", help="only what has one of these in its name")
    asked = parser.parse_args()
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory, prefix="failing-world-") as folder:
        place = pathlib.Path(folder)
        build_shim(place)
        shutil.copy(asked.build / "pullback", place / "pullback")  # a build meanwhile does not matter
        wrong = check_program(place, asked)
        if not asked.word or "C" in asked.word:
            wrong += check_library(asked.build.resolve(), place, asked)
        if not asked.word or "Python" in asked.word:
            wrong += check_package(asked.build.resolve(), place, asked)
    print(f"failing world: {'all well' if not wrong else f'{wrong} kinds of failure are not met well'} (SEED={asked.seed})")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
