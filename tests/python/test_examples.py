"""The examples in examples/python run and hold what they assert."""
import glob
import importlib.util
import os
import re

import pytest

from conftest import ROOT

EXAMPLES = sorted(glob.glob(os.path.join(ROOT, "examples", "python", "*.py")))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: os.path.basename(p))
def test_example(path):
    with open(path, encoding="utf-8") as f:
        needs = set(re.findall(r"^ *import (torch|jax)$", f.read(), re.M))
    for name in needs:
        pytest.importorskip(name)
    spec = importlib.util.spec_from_file_location("example", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.main()
