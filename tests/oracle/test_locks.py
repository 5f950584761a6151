"""What is installed for tests, documentation and pages comes by lock files with hashes (tools/lock)."""
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LISTS = sorted(str(p.relative_to(ROOT)) for folder in ("tests", "tests/python", "bench") for p in (ROOT / folder).glob("*.in"))


def name_of(text):
    return re.sub(r"[-_.]+", "-", text).lower()


def test_lists_are_those_that_are_installed():
    setup = (ROOT / "tools" / "setup").read_text() + (ROOT / "tools" / "lock").read_text()
    assert LISTS == ["bench/atari.in", "bench/crocoddyl.in", "bench/mjx.in", "bench/sysid.in", "bench/whole_body.in", "tests/python/frameworks.in",
                     "tests/requirements.in", "tests/robots.in", "tests/three.in"]
    for path in LISTS:
        assert path in setup and path.replace(".in", ".txt") in setup
    for line in setup.splitlines():
        assert "-r " not in line or "--require-hashes" in line or "pip" not in line, line


@pytest.mark.parametrize("path", LISTS)
def test_locks_have_hashes_and_what_was_asked(path):
    asked = [line.split("#")[0].strip() for line in (ROOT / path).read_text().splitlines()]
    text = (ROOT / path.replace(".in", ".txt")).read_text().replace("\\\n", " ")
    locked = {}
    for line in filter(None, (line.split("#")[0].strip() for line in text.splitlines())):
        pin = re.match(r"([\w.-]+)==([\w.]+)", line)
        assert pin and re.search(r"--hash=sha256:[0-9a-f]{64}\b", line), f"{path}: {line[:80]}"
        locked.setdefault(name_of(pin[1]), set()).add(pin[2])
    for line in filter(None, asked):
        name, _, version = line.partition("==")
        assert name_of(name) in locked and (not version or version in locked[name_of(name)]), f"{path}: {line} is not in the lock; run tools/lock"
