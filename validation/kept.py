"""What a case has measured so far, kept in build/CASE under the hash of what it is measured with: a run that was stopped goes on there."""
import json
import os
import re
import shutil

import numpy as np

import provenance


def folder(case):
    """A folder that stays until forget(case); another one for other sources."""
    path = os.path.join(provenance.ROOT, "build", case, provenance.of(case))
    os.makedirs(path, exist_ok=True)
    return path


def path_of(case, name, ending):
    """Of what is kept under a name in words."""
    return os.path.join(folder(case), re.sub(r"[^\w.-]+", "-", name) + ending)


def once(case, name, make):
    """What make() returns, as JSON gives it back; from the file, if it was made before."""
    path = path_of(case, name, ".json")
    if not os.path.exists(path):
        found = make()
        with open(path + ".new", "w", encoding="utf-8") as f:
            json.dump(found, f)
        os.replace(path + ".new", path)
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def save(case, name, **arrays):
    """Where something is: the old file or the new one, whenever it is stopped."""
    path = path_of(case, name, ".npz")
    np.savez(path + ".new.npz", **arrays)
    os.replace(path + ".new.npz", path)


def saved(case, name):
    """The arrays; None where there are none."""
    path = path_of(case, name, ".npz")
    if not os.path.exists(path):
        return None
    with np.load(path) as f:
        return dict(f)


def forget(case):
    """It is at its end, and is measured anew the next time."""
    shutil.rmtree(os.path.join(provenance.ROOT, "build", case))
