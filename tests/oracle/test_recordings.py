"""Recordings of real robots: files are as the manifest says, models are the published ones, and nothing is read without its checksum."""
import importlib.util
import shutil
import sys

import mujoco
import numpy as np
import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT / "validation"))
import provenance  # noqa: E402
import recordings  # noqa: E402

DATA = ROOT / "validation" / "data"
PUBLISHED = {  # identified_parameters/design_A.0/model_2.0 and design_C.0/model_3.0: README.md has the equations
    "acrobot_A0": dict(I1=0.053470810264216295, I2=0.02392374528789766, l1=.3, m1=0.5593806151425046, m2=0.6043459469186889, r1=.3,
                       r2=0.18377686083653508, Ir=7.659297952841183e-05),
    "pendubot_C0": dict(I1=0.02671076499939512, I2=0.053878129629650884, l1=.2, m1=0.6416937799349799, m2=0.563935954099688, r1=.2,
                        r2=0.3212669909674605, Ir=9.937281205437459e-05)}


@pytest.fixture(scope="module")
def make():
    spec = importlib.util.spec_from_file_location("make_recordings", DATA / "make.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_files_are_as_the_manifest_says(make):
    assert make.faults() == []
    told = make.manifest()
    assert {recording.file for recording in make.recordings()} | {f"licences/{name}.txt" for name in make.SOURCES} == {row["file"] for row in told["files"]}
    assert told["sources"] == make.SOURCES
    assert sum(path.stat().st_size for path in DATA.rglob("*") if path.is_file()) < 6e6


def test_the_example_is_cut_from_them():
    """Rows and digits of examples/recorded are those of the recordings, its licence is theirs, and it stays small."""
    folder = ROOT / "examples" / "recorded"
    for name, of, rows in ("swing_up", "direct_collocation", 1170), ("second", "ddp", 1500), ("held_out", "energy_shaping", 600):
        lines = (DATA / "pendulum" / f"{of}.csv").read_text().splitlines()[1:rows + 1]
        kept = ["{0},{1},{3}".format(*line.split(",")) for line in lines]
        assert (folder / f"{name}.csv").read_text().splitlines() == ["time [s],hinge [rad],motor [N m]", *kept]
    assert (folder / "LICENSE.txt").read_bytes() == (DATA / "licences" / "simple_pendulum.txt").read_bytes()
    assert sum(path.stat().st_size for path in folder.iterdir()) < 1e5


def test_what_is_missing_changed_or_unknown_is_named(make, tmp_path):
    folder = tmp_path / "data"
    shutil.copytree(DATA, folder)
    (folder / "cube" / "toss_07.csv").unlink()
    changed = folder / "pendulum" / "sac.csv"
    changed.write_bytes(changed.read_bytes().replace(b"0.8917", b"0.8918", 1))
    (folder / "pendulum" / "new.csv").write_text("time [s]\n0\n")
    found = make.faults(folder)
    assert [text.split(":")[0] for text in found] == ["cube/toss_07.csv", "pendulum/sac.csv", "pendulum/new.csv"]
    assert "missing" in found[0] and "SHA-256" in found[1] and "not in the manifest" in found[2]


def test_nothing_is_read_without_its_checksum(monkeypatch, tmp_path):
    shutil.copytree(DATA, tmp_path / "data")
    monkeypatch.setattr(recordings, "HERE", str(tmp_path))
    recordings.load("cube/toss_03")
    with open(tmp_path / "data" / "cube" / "toss_03.csv", "a", encoding="utf-8") as f:
        f.write("0\n")
    with pytest.raises(ValueError, match="toss_03.csv is not the recording"):
        recordings.load("cube/toss_03")
    (tmp_path / "data" / "cube" / "toss_03.csv").unlink()
    with pytest.raises(FileNotFoundError):
        recordings.load("cube/toss_03")
    with pytest.raises(KeyError):
        recordings.load("cube/toss_99")


def test_a_case_depends_on_the_recordings(tmp_path, monkeypatch):
    case = "RECORDED1"
    (tmp_path / f"{case}.py").write_text("import recordings\n")
    monkeypatch.setattr(provenance, "HERE", str(tmp_path))
    own = provenance.own(case)
    assert str(DATA / "manifest.json") in own and str(DATA / "models" / "cube.xml") in own


def test_rows_are_numbers_in_order_of_time():
    for name in recordings.manifest():
        if name.endswith(".csv"):
            columns = recordings.load(name[:-4])
            assert all(np.isfinite(column).all() for column in columns.values()), name
            assert columns["time"][0] == 0 and (np.diff(columns["time"]) > 0).all(), name
            header = (DATA / name).read_text(encoding="utf-8").splitlines()[0]
            assert all(title.endswith("]") and " [" in title for title in header.split(",")), name


def test_thirds_are_held_out():
    for robot in ("acrobot_A0", "pendubot_C0"):
        assert len(recordings.names(robot, held_out=True)) == 3 and len(recordings.names(robot, held_out=False)) == 6
        assert recordings.names(robot, held_out=True) == recordings.names(robot)[2::3]
    assert len(recordings.names("pendulum")) == 6 and len(recordings.names("cube", held_out=False)) == 40


@pytest.mark.parametrize("robot", PUBLISHED)
def test_models_are_the_published_equations(robot):
    p = PUBLISHED[robot]
    m = mujoco.MjModel.from_xml_path(recordings.path(recordings.MODELS[robot]))
    d, rng = mujoco.MjData(m), np.random.default_rng(7)
    mass = np.zeros((2, 2))
    for _ in range(20):
        d.qpos[:], d.qvel[:] = rng.normal(size=(2, 2)) * 3
        mujoco.mj_forward(m, d)
        mujoco.mj_fullM(m, d, mass)
        (q1, q2), (v1, v2) = d.qpos, d.qvel
        coupled = p["m2"] * p["l1"] * p["r2"]
        off = p["I2"] + coupled * np.cos(q2) - 6 * p["Ir"]
        first = p["I1"] + p["I2"] + p["m2"] * p["l1"] ** 2 + 2 * coupled * np.cos(q2) + 37 * p["Ir"]
        assert np.allclose(mass, [[first, off], [off, p["I2"] + 36 * p["Ir"]]], rtol=0, atol=1e-14)

        lower = 9.81 * p["m2"] * p["r2"] * np.sin(q1 + q2)
        upper = 9.81 * (p["m1"] * p["r1"] + p["m2"] * p["l1"]) * np.sin(q1) + lower
        turning = coupled * np.sin(q2) * np.array([-2 * v1 * v2 - v2 ** 2, v1 ** 2])
        assert np.allclose(d.qfrc_bias, turning + [upper, lower], rtol=0, atol=1e-13)
    assert np.allclose(m.dof_frictionloss, np.pi / 2 * np.array([.093, .078])) and (m.dof_damping == .001).all()


def test_windows_begin_every_quarter_second():
    logs = [recordings.log(name) for name in recordings.names("acrobot_A0", held_out=True)]
    starts, controls, angles = recordings.windows(logs)
    assert len(starts) == 3 * 36 and controls.shape[1:] == (500, 2) and angles.shape[1:] == (501, 2)
    assert np.abs(starts[1, :2] - angles[1, 0]).max() < 1e-2 and (starts[36, :2] == logs[1].smooth[0]).all()
    # A delay of two steps moves what is held by two steps.
    grid = logs[0].controls(0)
    assert (logs[0].controls(2 * recordings.STEP)[2:] == grid[:-2]).mean() > .99


def test_turns_are_rotation_vectors_in_the_first_frame():
    rng, after = np.random.default_rng(3), np.zeros(4)
    for size in (0, 1e-12, 1e-6, 1, 3.1):
        before, axis = rng.normal(size=4), rng.normal(size=3)
        before /= np.linalg.norm(before)
        vector = size * axis / np.linalg.norm(axis)
        after[:] = before
        mujoco.mju_quatIntegrate(after, vector, 1)
        for sign in (1, -1):
            assert np.allclose(recordings.turned(before, sign * after), vector, rtol=0, atol=1e-12)


def test_a_stretch_starts_as_it_was_recorded():
    tosses = [recordings.toss(name) for name in recordings.names("cube", held_out=True)[:2]]
    states, positions, quaternions = recordings.stretches(tosses, steps=1)
    assert (states[:, :3] == positions[:, 0]).all() and (states[:, 3:7] == quaternions[:, 0]).all()
    assert len(states) == sum(len(one.position) - 2 for one in tosses)
    # In flight a sample is the last velocity further on, less what gravity takes.
    ahead = states[0, :3] + states[0, 7:10] / 148 - [0, 0, 9.81 / 148 ** 2]
    assert np.abs(positions[0, 1] - ahead).max() < 1e-3
