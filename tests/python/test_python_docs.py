"""What README and docs/python.md say in Python runs as it stands there."""
import importlib.util
import os
import re

import pytest

from conftest import ROOT


def snippets(path, heading=""):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        text = f.read()
    part = text.split(heading, 1)[1].split("\n## ", 1)[0] if heading else text
    return re.findall(r"^```python fragment=(\w+)\n(.*?)^```", part, re.M | re.S)


@pytest.mark.parametrize("path, heading", [("README.md", "\n## Five minutes in Python\n"), ("docs/python.md", "")])
def test_snippets(path, heading, monkeypatch):
    monkeypatch.chdir(ROOT)
    found, names = snippets(path, heading), {}
    assert found
    for needs, code in found:
        if needs == "package" or importlib.util.find_spec(needs):
            exec(compile(code, path, "exec"), names)
