"""The bits of results: a drawn share of the table that `make bits` makes."""
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))

import bits  # noqa: E402

FIRST = "gcc 12 -O3"
SEED = os.environ.get("SEED", "0")


def test_the_table_is_whole():
    builds, table = bits.read()
    assert builds[0] == FIRST and set(table) == {(m, k) for m in bits.models() for k in bits.METHODS}
    assert all(len(hashes) == len(builds) and all(hashes) for hashes in table.values())


def test_the_same_bits(pullback, capsys):
    known, (_, table) = bits.models(), bits.read()
    rows = bits.drawn(known, 40, SEED)
    found = bits.outcomes([pullback], rows, known)
    assert found == {key: table[key][0] for key in rows}


def test_another_bit_is_seen(pullback, tmp_path):
    """A hash says so when one number of one array has another last bit, another name or another shape."""
    import numpy as np

    a = {"qpos": np.ones((3, 2)), "time": np.arange(3.0)}
    moved = {**a, "qpos": np.nextafter(a["qpos"], 2 * np.eye(3, 2))}
    hashes = {bits.digest(x) for x in (a, moved, {"qvel": a["qpos"], "time": a["time"]}, {**a, "qpos": np.ones((2, 3))})}
    assert len(hashes) == 4 and bits.digest(dict(reversed(a.items()))) == bits.digest(a)
