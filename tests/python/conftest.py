import csv
import os
import signal
import sys

import pytest

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
BUILD = os.environ.get("PULLBACK_BUILD", os.path.join(ROOT, "build", "release"))
PROGRAMS = os.environ.get("PULLBACK_PROGRAMS", BUILD)  # the build with program and library, where that of the extension has none
sys.path.insert(0, os.path.join(BUILD, "python"))
signal.signal(signal.SIGINT, signal.default_int_handler)  # also in the background of a shell, which ignores it

if os.environ.get("PB_FRAMEWORKS"):  # where they are asked for, none may be missing: nothing is skipped
    import gymnasium  # noqa: F401
    import jax  # noqa: F401
    import matplotlib  # noqa: F401
    import onnx  # noqa: F401
    import onnxruntime  # noqa: F401
    import stable_baselines3  # noqa: F401
    import torch  # noqa: F401


@pytest.fixture(scope="session")
def long_run():
    """Whether the sweeps are asked for in full (PB_LONG); their figures are written to build/figures.csv."""
    return bool(os.environ.get("PB_LONG"))


@pytest.fixture(scope="session")
def figures(long_run):
    """figures(what, name=value, ...): one row for each `what`, in the end a file."""
    rows = {}
    yield lambda what, **values: rows.setdefault(what, {"what": what}).update(values)
    if long_run and rows:
        with open(os.path.join(ROOT, "build", "figures.csv"), "w", newline="") as f:
            table = csv.DictWriter(f, list(dict.fromkeys(name for row in rows.values() for name in row)), restval="")
            table.writeheader()
            table.writerows(rows.values())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call):
    """A build without hulls refuses meshes that collide by name, and that is what a test of them has to find."""
    report = yield
    if report.failed and call.excinfo and "convex hulls were not built in" in str(call.excinfo.value):
        import pullback as pb
        if call.excinfo.errisinstance(pb.UnsupportedError) and not pb.build_info()["hulls"]:
            report.outcome, report.wasxfail = "skipped", "no hulls"
    return report
