"""The benchmarks of training: what has ended is not run again, what its table says, and policies outside the program."""
import json
import os
import sys

import numpy as np
import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT / "bench"))
import learning  # noqa: E402
import training  # noqa: E402
import windows  # noqa: E402

LEG = """<mujoco><option timestep="0.01"/><default><joint axis="0 -1 0" damping="1" armature="0.1"/></default><worldbody>
<geom type="plane" size="9 9 1"/><body pos="0 0 1"><joint name="rootx" type="slide" axis="1 0 0"/><joint name="rootz" type="slide" axis="0 0 1"/>
<joint name="rooty"/><geom type="capsule" size="0.05" fromto="0 0 0 0 0 -0.3"/><body pos="0 0 -0.4"><joint name="knee"/>
<geom type="capsule" size="0.05" fromto="0 0 0 0 0 -0.4"/></body></body></worldbody><actuator><motor joint="knee" gear="20"/></actuator></mujoco>"""


@pytest.fixture
def folder(pullback, tmp_path, monkeypatch):
    monkeypatch.setattr(learning, "PROGRAM", pullback)
    monkeypatch.setattr(learning, "FOLDER", str(tmp_path))
    monkeypatch.setitem(learning.TASKS, "leg", lambda: learning.planar(LEG, ["knee"], 4, 1, 1e-3, 0.5, -0.7, 0.01))
    return tmp_path


@pytest.mark.parametrize("method, window", [("shac", {"most": 16, "agree": 0.5}), ("ppo", None)])
def test_done_once(folder, method, window):
    """A second call reads what the first one left; an automatic window says how long each was in use."""
    first = learning.learn("swing", method, 1, 6000, window, evaluations=2)
    written = os.stat(f"{first['path']}.npz").st_mtime_ns
    again = learning.learn("swing", method, 1, 6000, window, evaluations=2)
    assert os.stat(f"{first['path']}.npz").st_mtime_ns == written
    assert {k: v for k, v in again.items() if k != "seconds"} == {k: v for k, v in first.items() if k != "seconds"}
    assert abs(first["decisions"] - 6000) <= 64 * 32 / 2 and 0 < first["first"] <= first["decisions"]
    shares = [part.split(":") for part in str(first["window"]).split()]
    assert all(int(w) <= 32 for w, *_ in shares)
    assert len(shares) == 1 or abs(sum(float(s) for _, s in shares) - 1) <= 0.01 * len(shares)


def test_table(folder, monkeypatch, capsys):
    """Each run is a row as soon as it has ended, and is passed over when it is asked for again."""
    path, runs = str(folder / "windows.csv"), []
    monkeypatch.setattr(windows, "RESULTS", path)
    losses, found = iter([0.2, 0.1, 0.4]), {"first": 5, "agreement": 0.5, "window": 8, "seconds": 1}
    monkeypatch.setattr(windows, "learn", lambda *_, **__: runs.append(1) or {**found, "best": next(losses)})
    windows.main(["task=swing", "seed=3", "window=8,16"])
    windows.main(["task=swing", "seed=3", "window=8,16,auto"])
    assert len(runs) == 3
    assert [r["asked"] for r in learning.Table(path, windows.COLUMNS, ()).rows] == ["8", "16", "auto"]
    assert "300 % behind 16: MISSED" in capsys.readouterr().out
    for main in (windows.main, training.main):
        with pytest.raises(SystemExit, match="expected words task="):
            main(["task=nothing"])


def test_policies_outside(run, folder):
    """What `acting` puts out is what the program decided, at the state where it did."""
    found = learning.learn("leg", "shac", 0, 3000, evaluations=1)
    task = json.loads((folder / f"{os.path.basename(found['path'])}.json").read_text())
    (folder / "leg.xml").write_text(task["model"])
    run("simulate", folder / "leg.xml", "--policy", f"{found['path']}.npz", "--steps", 41, "-o", folder / "r.npz", "-q")
    with np.load(folder / "r.npz") as f:
        qpos, qvel, held = f["qpos"], f["qvel"], f["policy_held"]
    act = learning.acting(found["path"])
    for k in range(0, 41, 4):
        assert np.allclose(act(qpos[k], qvel[k]), held[k + 1], rtol=1e-12, atol=1e-14)
    assert np.ptp(held) > 0


def test_ant(run, tmp_path):
    """The task of examples/ant: its derivatives hold in the loop, and it begins where published ones do."""
    run("check", ROOT / "examples" / "ant" / "run.json", "--horizon", "8")
    run("simulate", ROOT / "examples" / "ant" / "run.json", "--steps", "4", "-o", tmp_path / "r.npz", "-q")
    with np.load(tmp_path / "r.npz") as f:
        assert f["qpos"].shape[1] == 15 and np.isclose(f["qpos"][0, 2], 0.75)
