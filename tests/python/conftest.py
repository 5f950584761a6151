import os
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
sys.path.insert(0, os.path.join(os.environ.get("PULLBACK_BUILD", os.path.join(ROOT, "build", "release")), "python"))
