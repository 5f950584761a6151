"""The examples in examples/python run and hold what they assert: two by rotation, all of them in make check-python."""
import ast
import glob
import importlib.util
import os
import random
import re
import time

import pytest

from conftest import ROOT

FOLDER = os.path.join(ROOT, "examples", "python")
EXAMPLES = sorted(glob.glob(os.path.join(FOLDER, "*.py")))
MOST = 120  # s of processor time: a minute on two cores


def needs(path):
    """What an example imports of torch, jax and scipy, wherever it does."""
    with open(path, encoding="utf-8") as f:
        found = {line.split(".")[0] for line in re.findall(r"^ *import ([\w.]+)", f.read(), re.M)}
    return found & {"torch", "jax", "scipy"}


def chosen():
    """All, or two of those that can run here, other ones for another SEED."""
    if os.environ.get("PB_FRAMEWORKS") and not os.environ.get("PB_CI"):
        return EXAMPLES
    possible = [path for path in EXAMPLES if all(importlib.util.find_spec(name) for name in needs(path))]
    return random.Random(os.environ.get("SEED", "0")).sample(possible, 2)


@pytest.mark.parametrize("path", chosen(), ids=os.path.basename)
def test_example(path):
    spec = importlib.util.spec_from_file_location("example", path)
    module = importlib.util.module_from_spec(spec)
    begin = time.process_time()
    spec.loader.exec_module(module)
    module.main()
    assert time.process_time() - begin < MOST


def test_the_list_names_them_all():
    with open(os.path.join(FOLDER, "README.md"), encoding="utf-8") as f:
        text = f.read()
    for path in EXAMPLES:
        with open(path, encoding="utf-8") as f:
            assert ast.get_docstring(ast.parse(f.read())), path
        assert f"]({os.path.basename(path)})" in text, f"{os.path.basename(path)} is not in examples/python/README.md"
    assert not {name for name in re.findall(r"\]\((\w+\.py)\)", text) if not os.path.exists(os.path.join(FOLDER, name))}
