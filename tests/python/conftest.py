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


def pytest_configure(config):
    config.addinivalue_line("markers", "hulls: meshes that collide; a build without hulls must refuse them by name")


def pytest_collection_modifyitems(items):
    import pullback as pb
    for item in items:
        if item.get_closest_marker("hulls") and not pb.build_info()["hulls"]:
            item.add_marker(pytest.mark.xfail(raises=pb.UnsupportedError, strict=True, reason="no hulls"))
