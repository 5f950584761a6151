"""What README, docs/index.md, docs/python.md, docs/identify.md, docs/stuck.md, docs/control.md and the guide say in Python runs as it stands there,
each page from its top, and prints what the page says. Pages of docs/gallery are run by the site's build (docs/site/scenes.py).
"""
import os
import pathlib
import sys

import pytest

from conftest import ROOT

sys.path.insert(0, os.path.join(ROOT, "docs", "site"))
import snippets  # noqa: E402

WITHOUT = {"gallery.md", "install.md"}  # pages of the guide with no Python
GUIDE = sorted(path.name for path in pathlib.Path(ROOT, "docs", "guide").glob("*.md") if path.name not in WITHOUT)
PAGES = ["README.md", "docs/index.md", "docs/python.md", "docs/identify.md", "docs/stuck.md", "docs/control.md",
         *(f"docs/guide/{name}" for name in GUIDE)]


@pytest.mark.parametrize("page", PAGES)
def test_snippets(page, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert any(code for _, code, _ in snippets.snippets(pathlib.Path(page).read_text(encoding="utf-8")))
    snippets.run(page, always=bool(os.environ.get("PB_FRAMEWORKS")))
