"""Fixtures of the tests against MuJoCo: the built program and the built library.

PULLBACK_BUILD names the build folder (default build/release); nothing is skipped when it is missing, the tests fail.
"""
import os
import pathlib
import signal
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("PULLBACK_BUILD", ROOT / "build" / "release"))


def pytest_configure(config):
    for number in (signal.SIGINT, signal.SIGHUP):  # ignored in the background of a shell, or below nohup, which programs inherit
        signal.signal(number, signal.SIG_DFL if number == signal.SIGHUP else signal.default_int_handler)
    os.environ.setdefault("MUJOCO_GL", "disable")
    config.addinivalue_line("markers", "long: tests that --long alone asks for")
    config.addinivalue_line("markers", "together: tests that add up what they saw; they run in one process")
    config.addinivalue_line("filterwarnings", "ignore::DeprecationWarning")


@pytest.fixture(scope="session")
def root():
    """The top folder of the project."""
    return ROOT


@pytest.fixture(scope="session")
def pullback():
    """Path of the program."""
    program = BUILD / "pullback"
    assert program.is_file(), f"{program} is not built: make build"
    return str(program)


@pytest.fixture(scope="session")
def run(pullback):
    """Runs the program: run("info", "model.xml", code=0) returns the completed process, after checking its exit code (or codes)."""

    def call(*arguments, code=0, timeout=120, **options):
        done = subprocess.run([pullback, *map(str, arguments)], capture_output=True, text=True, timeout=timeout, **options)
        codes = code if isinstance(code, tuple) else (code,)
        assert done.returncode in codes, f"exit {done.returncode}, expected {code}: {arguments}\n{done.stdout}\n{done.stderr}"
        return done

    call.program = pullback
    return call


@pytest.fixture(scope="session")
def lib():
    """The shared library by the module of declarations: functions raise Error unless they return pb_ok."""
    import inside

    return inside.native


@pytest.fixture
def context(lib):
    """A pbContext, destroyed after the test."""
    ctx = lib.pbContext_Create(None)
    assert ctx
    yield ctx
    lib.pbContext_Destroy(ctx)


def pytest_addoption(parser):
    parser.addoption("--long", action="store_true", help="whole sweeps of the oracle tests instead of their quick part")
    parser.addoption("--part", default="1/1", metavar="K/N", help="the K-th of N parts: N processes do all tests")


@pytest.hookimpl(trylast=True)  # of those that are wanted
def pytest_collection_modifyitems(config, items):
    long = [] if config.getoption("--long") else [t for t in items if t.get_closest_marker("long")]
    config.hook.pytest_deselected(items=long)
    items[:] = [t for t in items if t not in set(long)]
    k, n = map(int, config.getoption("--part").split("/"))
    load, mine = [0] * n, []
    for t in sorted(items, key=lambda t: t.get_closest_marker("together") is None):  # those that share what they saw: the first part
        together = t.get_closest_marker("together") is not None
        part = 0 if together else load.index(min(load))
        load[part] += 3 if together else 1  # they take about so much longer
        if part == k - 1:
            mine.append(t)
    chosen = set(mine)
    config.hook.pytest_deselected(items=[t for t in items if t not in chosen])
    items[:] = [t for t in items if t in chosen]


@pytest.fixture(scope="session")
def long_run(request):
    """True where a test shall do its whole sweep."""
    return request.config.getoption("--long")
