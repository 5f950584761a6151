#!/usr/bin/env python3
"""Python of a page, from its top; what it prints is what the page says that it prints.

    python3 docs/site/snippets.py docs/gallery/hop.md      from where examples/ is; pages that it saves (hop.html) are left there
"""
import contextlib
import importlib.util
import io
import pathlib
import re
import sys

FENCE = re.compile(r"^```(python|text) fragment=(\w+)\n(.*?)^```", re.M | re.S)
NUMBER = re.compile(r"-?\d+(?:\.(\d+))?(?:e([-+]?\d+))?")
NEEDS = {"gym": ("gymnasium", "mujoco", "imageio")}  # of a fragment whose name is not a package's


def snippets(text):
    """(fragment, code or None, output or None) in order; code with its lines where they stand in the page."""
    for found in FENCE.finditer(text):
        language, fragment, body = found.groups()
        if language == "python":
            yield fragment, "\n" * (text[:found.start()].count("\n") + 1) + body, None
        elif fragment == "printed":
            yield fragment, None, body


def is_there(fragment):
    return fragment == "package" or all(importlib.util.find_spec(name) for name in NEEDS.get(fragment, (fragment,)))


def near(said, stated):
    """One percent, and one of the last digit that is shown."""
    last = 10.0 ** (int(stated[2] or 0) - len(stated[1] or ""))
    return abs(float(said[0]) - float(stated[0])) <= .01 * abs(float(stated[0])) + 1.01 * last


def agree(said, stated):
    """The same words, and the same numbers nearly."""
    words = lambda text: NUMBER.sub("#", text).split()
    return words(said) == words(stated) and all(map(near, NUMBER.finditer(said), NUMBER.finditer(stated)))


def run(path, always=False):
    """What the page's code leaves behind. Fragments whose packages are not there are left out, unless always; AssertionError where it
    prints something else than the page says."""
    names, said, path, whole = {"__name__": "page"}, io.StringIO(), str(path), True
    for fragment, code, output in snippets(pathlib.Path(path).read_text(encoding="utf-8")):
        if output is not None:
            assert not whole or agree(said.getvalue(), output), f"{path}: printed\n{said.getvalue()}\nand the page says\n{output}"
            said = io.StringIO()
        elif always or is_there(fragment):
            with contextlib.redirect_stdout(said):
                exec(compile(code, path, "exec"), names)
        else:
            whole = False
    return names


if __name__ == "__main__":
    for page in sys.argv[1:]:
        run(page, always=True)
