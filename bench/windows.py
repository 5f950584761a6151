"""Windows that follow the agreement of gradients beside fixed ones, at equal decisions: `make bench-windows`, or with words of tasks and seeds.

Three tasks: an ant of 8 motors that runs (as DFlex has it: speed, heading, height; our own body), the swing-up of examples/cartpole, and a
leg that hops. One training for each window; what is told is the least mean loss of evaluated episodes, and the processor time."""
import json
import math
import os
import resource
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.environ.get("PULLBACK", os.path.join(HERE, "..", "build", "release", "pullback"))
FIXED = (4, 8, 16, 32, 64)


def dense(count, gain=1.41, **more):
    return {"dense": count, "gain": gain, **more}


def ant():
    """A ball with four legs of a hip and an ankle each, 0.55 m high."""
    legs, names = "", []
    for i in range(4):
        c, s = math.cos(math.pi / 4 + i * math.pi / 2), math.sin(math.pi / 4 + i * math.pi / 2)
        legs += (f'<body name="upper{i}" pos="{.2 * c} {.2 * s} 0"><joint name="hip{i}" axis="0 0 1" range="-35 35"/>'
                 f'<geom type="capsule" size=".07" fromto="0 0 0 {.25 * c} {.25 * s} 0"/><body pos="{.25 * c} {.25 * s} 0">'
                 f'<joint name="ankle{i}" axis="{-s} {c} 0" range="20 95"/>'
                 f'<geom type="capsule" size=".07" fromto="0 0 0 {.5 * c} {.5 * s} 0"/></body></body>')
        names += [f"hip{i}", f"ankle{i}"]
    motors = "".join(f'<motor name="{n}" joint="{n}" gear="150"/>' for n in names)
    model = ('<mujoco><compiler angle="degree"/><option timestep=".0041666666666666667" integrator="implicitfast"/><default>'
             '<joint limited="true" damping="1" armature=".05"/>'
             '<geom density="500" friction=".8" contype="0" conaffinity="1"/></default><worldbody>'
             '<geom name="floor" type="plane" size="100 100 1" contype="1"/><body name="torso" pos="0 0 .6"><freejoint name="root"/>'
             '<geom type="sphere" size=".22"/><site name="top" pos="0 0 .1"/><site name="front" pos=".1 0 0"/>'
             f'{legs}</body></worldbody>'
             f'<actuator>{motors}</actuator></mujoco>')
    inputs = {"v": {"qvel": "root", "components": [0]}, "u": {"site": "top"}, "f": {"site": "front"}, "b": {"body": "torso"}}
    return {
        "model": model, "init": {"qpos": [0, 0, .6, 1, 0, 0, 0] + [0, math.pi / 3] * 4},
        "policy": {"every": 4, "observe": [{"body_position": "torso", "components": [2]}, {"body_rotation": "torso"}, {"qvel": "root"},
                                           {"qpos": names}, {"qvel": names, "scale": .1}, {"last": True}],
                   "layers": [{"normalize": True}, *[dense(n, activation="elu") for n in (128, 64, 32)], dense(8, .01), {"activation": "tanh"}]},
        "loss": [{"formula": "-(v + (u.z - b.z) + 10*(f.x - b.x) + b.z - 0.27)", "inputs": inputs, "at": "all"}],
        "episode": {"seconds": 1000 / 60, "done": [{"body": "torso", "components": [2], "type": "above", "target": .27}],
                    "spread": {"joints": {"root": {"qpos": .1, "qvel": .25}} | {j: {"qpos": .2, "qvel": .25} for j in names}}},
        "train": {"worlds": 64, "noise": .3, "last_noise": .05, "critic": {"rounds": 8}}}, 100


def hopper():
    """A leg of three motors in a plane."""
    names = ["thigh", "knee", "ankle"]
    model = ('<mujoco><option timestep=".004" integrator="implicitfast"/><default><joint damping="1" armature=".05" axis="0 -1 0"/>'
             '<geom type="capsule" friction=".9" density="1000" contype="0" conaffinity="1"/></default><worldbody>'
             '<geom name="floor" type="plane" size="100 100 1" contype="1"/><body name="torso" pos="0 0 1.25">'
             '<joint name="x" type="slide" axis="1 0 0" damping="0" armature="0"/><joint name="z" type="slide" axis="0 0 1" damping="0" armature="0"/>'
             '<joint name="pitch" damping="0" armature="0"/><geom size=".05" fromto="0 0 -.2 0 0 .2"/><body pos="0 0 -.2"><joint name="thigh" '
             'limited="true" range="-150 0"/><geom size=".05" fromto="0 0 0 0 0 -.45"/><body pos="0 0 -.45"><joint name="knee" limited="true" '
             'range="-150 0"/><geom size=".04" fromto="0 0 0 0 0 -.5"/><body pos="0 0 -.5"><joint name="ankle" limited="true" range="-45 45"/>'
             '<geom size=".06" fromto="-.13 0 -.04 .26 0 -.04"/></body></body></body></body></worldbody><actuator>'
             + "".join(f'<motor name="{n}" joint="{n}" gear="200"/>' for n in names) + '</actuator></mujoco>')
    return {
        "model": model,
        "policy": {"every": 4, "observe": [{"body_position": "torso", "components": [2]}, {"qpos": ["pitch"] + names},
                                           {"qvel": ["x", "z", "pitch"] + names, "scale": .2}],
                   "layers": [{"normalize": True}, *[dense(n, activation="elu") for n in (64, 64)], dense(3, .01), {"activation": "tanh"}]},
        "loss": [{"formula": "-(v + 1 - 2*p^2 - (z - 1.15)^2)", "at": "all", "inputs": {
            "v": {"qvel": "x"}, "p": {"qpos": "pitch"}, "z": {"body": "torso", "components": [2]}}}],
        "episode": {"seconds": 8, "done": [{"body": "torso", "components": [2], "type": "below", "target": .7}],
                    "spread": {"qpos": .05, "qvel": .1}},
        "train": {"worlds": 64, "noise": .2, "last_noise": .05, "critic": {"rounds": 8}}}, 100


def swing():
    folder = os.path.join(HERE, "..", "examples", "cartpole")
    with open(os.path.join(folder, "swing-up.json"), encoding="utf-8") as f:
        task = json.load(f)
    with open(os.path.join(folder, task["model"]), encoding="utf-8") as f:
        task["model"] = f.read()
    return task, 100


def learn(folder, task, updates, seed, window):
    """updates: of 32 decisions. Least evaluated loss, updates made, windows in use, processor time in s."""
    longest = window["most"] if isinstance(window, dict) else window
    train = {**task["train"], "method": "shac", "window": window, "updates": updates * 32 // longest,
             "evaluate": {"every": max(1, updates * 32 // longest // 8), "starts": 4}}
    path = os.path.join(folder, "task.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump({**task, "seed": seed, "policy": {**task["policy"], "seed": seed}, "train": train}, f)
    spent = lambda: sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    begun = spent()
    subprocess.run([PROGRAM, "train", path, "-o", os.path.join(folder, "a.npz"), "-q", "--fresh", "--threads", "1"], check=True)
    with open(os.path.join(folder, "a.csv"), encoding="utf-8") as f:
        head, *rows = (line.strip().split(",") for line in f)
    at = {name: k for k, name in enumerate(head)}
    used = [int(float(r[at["window"]])) for r in rows]
    shares = {w: used.count(w) for w in sorted(set(used))}
    judged = [float(r[at["evaluated"]]) for r in rows if r[at["evaluated"]]]
    return min(judged), len(rows), shares, float(rows[-1][at["agreement"]]), spent() - begun


def main(words):
    tasks = {"ant": ant, "hopper": hopper, "swing": swing}
    seeds = [int(w) for w in words if w.isdigit()] or [0]
    budget = [int(w[8:]) for w in words if w.startswith("updates=")]
    windows = [int(w[7:]) for w in words if w.startswith("window=")] or FIXED
    for name in [w for w in words if w in tasks] or tasks:
        task, updates = tasks[name]()
        for seed in seeds:
            for window in ({"most": 64}, *windows):
                with tempfile.TemporaryDirectory() as folder:
                    best, count, shares, agreement, seconds = learn(folder, task, (budget or [updates])[0], seed, window)
                said = "auto" if isinstance(window, dict) else window
                print(f"{name}, seed {seed}, window {said}: loss {best:.4f}, {count} updates, by window {shares}, "
                      f"agreement at the end {agreement:.2f}, {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
