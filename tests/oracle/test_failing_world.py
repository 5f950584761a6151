"""A share of what `make failing-world` tries: each call of the program fails, one at a time."""
import subprocess
import sys

import pytest

from conftest import BUILD, ROOT

SEED = "0"


@pytest.mark.parametrize("command", ("version", "info", "simulate", "view", "optimize", "C", "Python"))
def test_each_call_fails(command, long_run):
    share = [] if long_run else ["--share", "100"]
    runner = ROOT / "tests" / "world" / "failing_world.py"
    done = subprocess.run([sys.executable, runner, "--build", BUILD, "--seed", SEED, *share, command], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
