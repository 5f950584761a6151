#!/usr/bin/env python3
"""Every key of every task of examples/ and validation/ with each wrong JSON type: what is taken, what is refused without its place.

  tests/oracle/wrong_types.py FOLDER [NAME...]     prints a line of JSON for each task:
    {"task", "keys", "loads", "taken": [[path, type, reader]], "placeless": [...]}

Tasks of validation/ are those that a case has written when it first runs the program or reads one.
"""
import importlib
import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tests" / "oracle"), str(ROOT / "validation")]
from inside import native

SAMPLES = {"null": None, "bool": True, "number": 7.5, "string": "zzz", "array": [[]], "object": {"zzz": 1}}
KINDS = {type(None): "null", bool: "bool", int: "number", float: "number", str: "string", list: "array", dict: "object"}
FILE = "wrong.json"
SECTIONS = re.findall(r'"(\w+)"', re.search(r"pbTask_Keys\[\] = \{(.*?)\};", (ROOT / "io" / "task" / "task.c").read_text(), re.S)[1])
LATE = {"E6", "R4", "R5C", "K21", "K109", "K110"}  # whose tasks come after seconds of work, and have no other keys


class Reached(Exception):
    """A case has its task."""


def examples():
    for path in sorted((ROOT / "examples").glob("*/*.json")):
        yield f"examples/{path.parent.name}/{path.stem}", json.loads(path.read_text()), path.parent


def of_case(name, folder):
    """Tasks that a case writes, with the files beside them."""
    import common
    import tasks

    found = []

    def take(source):
        for path in pathlib.Path(source).glob("*.json"):
            task = json.loads(path.read_text())
            if isinstance(task, dict) and "loss" in task:
                found.append((f"validation/{name}/{path.stem}", task))
        if found:
            shutil.copytree(source, folder, dirs_exist_ok=True)

    def task_given(self, task, where=None):
        pathlib.Path(folder).mkdir(exist_ok=True)
        if where:
            shutil.copytree(where, folder, dirs_exist_ok=True)
        found.append((f"validation/{name}/task", json.loads(json.dumps(task))))
        raise Reached

    def run(self, *_, **__):
        if not found:
            take(self.folder)
        raise Reached

    keep = common.Bench.run, tasks.Task.__init__
    common.Bench.run, tasks.Task.__init__ = run, task_given
    signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(TimeoutError("no task so far")))
    signal.alarm(3)
    try:
        importlib.import_module(name).rows()
    except Reached:
        pass
    except Exception as error:  # a case that cannot go on without results has no task
        print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
    finally:
        signal.alarm(0)
        common.Bench.run, tasks.Task.__init__ = keep
    return [(title, task, folder) for title, task in found]


def cases(folder):
    for path in sorted((ROOT / "validation").glob("[A-Z]*.py")):
        if path.stem not in LATE and re.search(r'"loss":', path.read_text()):
            yield from of_case(path.stem, pathlib.Path(folder) / path.stem)


def keys(value, path=()):
    """(container, key, path) of every key of every object in it."""
    if isinstance(value, dict):
        for k in list(value):
            yield value, k, path + (k,)
            yield from keys(value[k], path + (k,))
    elif isinstance(value, list) and not all(isinstance(v, (int, float)) for v in value):
        for i, v in enumerate(value):
            yield from keys(v, path + (i,))


def readers_of(task):
    """{name: (load, free)} of those that commands call on such a task."""
    found = {"train": (native.pbTrain_Load, native.pbTrain_Destroy), "optimize": (native.pbTask_LoadWith, native.pbTask_Destroy),
             "audit": (native.pbTask_LoadAudit, native.pbTask_Destroy), "control": (load_control, native.pbControl_Destroy)}
    del found["optimize" if "train" in task else "train"]
    return {name: pair for name, pair in found.items() if name not in ("audit", "control") or name in task}


def load_control(ctx, path, allow_root, _, control):
    """As the others are called: a task that is controlled is given no policy."""
    native.pbControl_Load(ctx, path, allow_root, control)


def load(task, place, readers):
    """(names of the readers that take it, texts of the others): what one refuses another must not pass over."""
    path = place / FILE
    path.write_text(json.dumps(task, indent=1))
    taken, texts = [], []
    for name, (read, free) in readers.items():
        ctx, ptr = native.pbContext_Create(None), native.handle()
        try:
            read(ctx, os.fsencode(path), os.fsencode(ROOT), None, ptr)
            free(ptr)
            taken.append(name)
        except native.Error as error:
            texts.append(str(error))
        finally:
            native.pbContext_Destroy(ctx)
    return taken, texts


def try_task(title, task, place, tried):
    """tried: keys of tasks of validation/, without the numbers of lists, which are tried once. Sections that a task
    does not have are tried once for each reader."""
    readers = readers_of(task)
    _, texts = load(task, place, readers)
    said = {"task": title, "keys": 0, "loads": 0, "taken": [], "placeless": [], "good": texts}
    absent = [(task, key, (key,)) for key in SECTIONS if key not in task and (*readers, key) not in tried]
    tried |= {(*readers, key) for _, key, _ in absent}
    for container, key, path in [*keys(task), *absent]:
        pattern = tuple("#" if isinstance(p, int) else p for p in path)
        if title.startswith("validation") and pattern in tried:
            continue
        tried.add(pattern)
        said["keys"] += 1
        own = container.get(key, SAMPLES)
        for kind, sample in SAMPLES.items():
            if own is not SAMPLES and kind == KINDS[type(own)]:
                continue
            container[key] = sample
            taken, texts = load(task, place, readers)
            said["loads"] += 1
            name = ("+" if own is SAMPLES else "") + ".".join(map(str, path))
            passed = path[0] == "control" and len(path) > 1  # by commands other than this one: docs/task.md says so
            said["taken"] += [[name, kind, reader] for reader in taken if not passed or reader == "control"]
            places = [len(re.findall(rf"{FILE}:\d+: ", text)) for text in texts]  # 0: missing; 2: twice
            said["placeless"] += [[name, kind, text] for text, count in zip(texts, places) if count != 1]
        if own is SAMPLES:
            del container[key]
        else:
            container[key] = own
    return said


def main():
    folder, names, tried = pathlib.Path(sys.argv[1]), sys.argv[2:], set()
    for title, task, place in itertools.chain(examples(), cases(folder)):
        if names and not any(n in title for n in names):
            continue
        if pathlib.Path(place) == pathlib.Path(ROOT / "examples" / title.split("/")[1]):
            own = folder / title.replace("/", "-")
            shutil.copytree(place, own, dirs_exist_ok=True)
            place = own
        print(json.dumps(try_task(title, task, place, tried)), flush=True)


if __name__ == "__main__":
    main()
