"""Two builds in two folders give equal files: a drawn share of the objects is compiled anew, and all is linked anew, in another folder."""
import concurrent.futures
import json
import os
import pathlib
import random
import re
import shutil
import subprocess

import pytest

SHARE, SEED = 24, os.environ.get("SEED", "0")
LINKED = ("libpullback.a", "pullback", "libpullback.so")  # the program is made of the first; the last is a link to the file that has the version in its name


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory, root, pullback):
    """A function that moves a command to another, longer folder, where the sources and the objects are."""
    build = pathlib.Path(pullback).parent
    top = tmp_path_factory.mktemp("reproducible") / "a longer name of a folder" / "pullback"
    shutil.copytree(root, top, ignore=lambda folder, names: {"build", ".git"} & set(names) if pathlib.Path(folder) == root else ())
    other = top / "build" / "elsewhere"
    shutil.copytree(build, other, ignore=lambda folder, names: [n for n in names if pathlib.Path(folder) == build and n not in {"CMakeFiles"}])

    def move(command):
        assert "'" not in command
        command = re.sub(r"\S*/ccache ", "", command)
        for old, new in ((str(build), other), (str(root), top)):
            command = command.replace(old, str(new).replace(" ", r"\ "))
        return command.replace(f"../../../{root.name}/", f"{top}/")

    return build, other, move


def run(command, folder):
    subprocess.run(command, cwd=folder, shell=True, check=True, env={**os.environ, "CCACHE_DISABLE": "1"})


def test_objects(elsewhere):
    build, other, move = elsewhere
    commands = {(c["command"], re.search(r" -o (\S+\.o) ", c["command"])[1]) for c in json.loads((build / "compile_commands.json").read_text())}
    whole = [(c, o) for c, o in sorted(commands) if o.startswith("CMakeFiles/") and (build / o).exists() and "asset_" not in o]  # those lie in the build folder
    chosen = random.Random(SEED).sample(whole, SHARE)
    for _, o in chosen:
        (other / o).unlink()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda c: run(move(c[0]), other), chosen))
    assert [o for _, o in chosen if (other / o).read_bytes() != (build / o).read_bytes()] == []


def test_libraries_and_program(elsewhere):
    build, other, move = elsewhere
    names = [os.path.relpath((build / n).resolve(), build.resolve()) for n in LINKED]
    commands = subprocess.run(["ninja", "-C", build, "-t", "commands", *names], capture_output=True, text=True, check=True).stdout.splitlines()
    for name in names:
        (link,) = [c for c in commands if re.search(rf" -o {re.escape(name)} | qc {re.escape(name)} ", c)]
        run(move(link), other)
        assert (other / name).read_bytes() == (build / name).read_bytes(), name
