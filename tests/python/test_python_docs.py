"""What README, docs/python.md and the guide say in Python runs as it stands there, each page from its top."""
import importlib.util
import os
import pathlib
import re

import pytest

from conftest import ROOT

PAGES = ["README.md", "docs/python.md", *(f"docs/guide/{path.name}" for path in sorted(pathlib.Path(ROOT, "docs", "guide").glob("*.md")))]
NEEDS = {"gym": ("gymnasium", "mujoco", "imageio")}  # of a fragment whose name is not a package's


def snippets(path):
    """What each needs, and its code with its lines where they stand in the page."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        text = f.read()
    for found in re.finditer(r"^```python fragment=(\w+)\n(.*?)^```", text, re.M | re.S):
        yield found[1], "\n" * (text[:found.start()].count("\n") + 1) + found[2]


@pytest.mark.parametrize("path", PAGES)
def test_snippets(path, monkeypatch):
    monkeypatch.chdir(ROOT)
    found, names = list(snippets(path)), {}
    assert found
    for needs, code in found:
        there = needs == "package" or all(importlib.util.find_spec(name) for name in NEEDS.get(needs, (needs,)))
        if there or os.environ.get("PB_FRAMEWORKS"):
            exec(compile(code, path, "exec"), names)
