import os
import signal
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
BUILD = os.environ.get("PULLBACK_BUILD", os.path.join(ROOT, "build", "release"))
sys.path.insert(0, os.path.join(BUILD, "python"))
signal.signal(signal.SIGINT, signal.default_int_handler)  # also in the background of a shell, which ignores it

if os.environ.get("PB_FRAMEWORKS"):  # where they are asked for, none may be missing: nothing is skipped
    import gymnasium  # noqa: F401
    import jax  # noqa: F401
    import matplotlib  # noqa: F401
    import stable_baselines3  # noqa: F401
    import torch  # noqa: F401
