"""Every key of every task in examples/ and of those that cases of validation/ write, given each wrong JSON type: refused with the place, once."""
import json
import os
import pathlib
import subprocess
import sys

# What is right beside the type that the task has: true for all of a kind, one number for all of a row, any comment.
RIGHT = {"bool": {"body", "confirm", "joint", "on", "point_velocity", "points", "qpos", "qvel", "sensor", "site"},
         "number": {"at", "clock", "controls", "every", "mass", "offset", "qpos", "qvel", "rate", "scale", "start", "target", "torque"}}


# Sections that a task does not have, tried with "+" before the name: all kinds are wrong but these.
SECTIONS = {"string": {"model", "constants", "mode", "deformables", "policy", "init", "memory", "controls"},
            "number": {"steps", "duration", "seed", "confirm", "memory", "controls", "window"},
            "bool": {"design", "confirm", "uncertainty"}, "array": {"expose", "trajectories", "variables", "loss", "controls"}}
NO_OBJECT = set().union(*SECTIONS.values()) - {"deformables", "policy", "init", "controls"}


def is_right(path, kind):
    if path.startswith("+"):
        return path == "+comment" or (path[1:] not in NO_OBJECT if kind == "object" else path[1:] in SECTIONS.get(kind, ()))
    key, inside = path.split(".")[-1], path.split(".")[-2:-1]
    return key == "comment" or key in RIGHT.get(kind, ()) or (inside == ["sets"] and kind == "bool")


def test_wrong_types(tmp_path):
    worker = pathlib.Path(__file__).parent / "wrong_types.py"
    done = subprocess.run([sys.executable, worker, tmp_path], capture_output=True, text=True, env=os.environ, timeout=900)
    assert done.returncode == 0, done.stderr[-2000:]  # a signal: a crash
    said = [json.loads(line) for line in done.stdout.splitlines()]
    names = {s["task"] for s in said}
    assert all(f"examples/{n}" in names for n in ("ball/launch", "cartpole/swing-up", "cloth/drape", "quadruped/walk")), names
    assert sum(n.startswith("validation/") for n in names) >= 5, (sorted(names), done.stderr)
    assert sum(s["keys"] for s in said) > 600 and sum(s["loads"] for s in said) > 3000

    taken = [(s["task"], path, kind, reader) for s in said for path, kind, reader in s["taken"] if not is_right(path, kind)]
    placeless = [(s["task"], *p) for s in said for p in s["placeless"] if not is_right(*p[:2])]
    assert not taken and not placeless, (taken[:9], placeless[:9])
