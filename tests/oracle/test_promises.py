"""What docs/promises.md promises: the binary interface is that of the record, or has another number; versions are told alike everywhere."""
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import abi  # noqa: E402


@pytest.fixture(scope="module")
def now():
    return abi.recorded(abi.all_found())


def test_binary_interface(now):
    version, number, before = abi.kept_record()
    assert (version, number) == (abi.release()[0], number), "a release keeps its record: tools/abi.py --record"
    if abi.release()[1] == number:
        wrong = abi.broken(before, now)
        assert not wrong, "PB_ABI must go up, since these are gone or different:\n" + "\n".join(wrong)


@pytest.mark.parametrize("line, changed", [
    (r"value pb_modeReverse \d+", lambda s: s + "0"),
    (r"struct pbReport \d+", lambda s: re.sub(r"\d+", lambda m: str(int(m[0]) + 8), s, count=1)),
    (r"function pbStep_Forward .*", lambda s: s.rsplit(",", 1)[0]),
    (r"function pbMesh_Destroy .*", lambda s: ""),
])
def test_a_break_is_named(now, line, changed):
    (old,) = [x for x in now if re.match(line, x)]
    assert abi.broken(now, [changed(x) if x == old else x for x in now]) == [old]
    assert abi.broken(now, [*now, "function pbNew_Thing int_"]) == []


def test_versions(pullback):
    version, number = abi.release()
    told = subprocess.run([pullback, "--version"], capture_output=True, text=True, check=True).stdout
    assert told.startswith(f"pullback {version}\n")
    assert (pathlib.Path(pullback).parent / f"libpullback.so.{number}").exists()
    minor = ".".join(version.split(".")[:2])
    assert f"| {minor} | {number} |" in (ROOT / "docs/promises.md").read_text()
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text()
    assert f'"{version}"' in (ROOT / "include/pullback/base.h").read_text()
