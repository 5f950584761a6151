"""Poses of mocap bodies from files that are wrong: an error with the file, what is wrong and where, and nothing written; and files that are
unusual and right, in every command that takes them."""
import json
import resource
import subprocess

import numpy as np
import pytest

import oracle
import test_mocap

STEPS = 40
POS, QUAT = np.tile([.1, 0, .3], (STEPS, 1, 1)), np.tile([1., 0, 0, 0], (STEPS, 1, 1))
AT = np.arange(STEPS)[:, None, None]
LIMIT = 1 << 30


def with_row(array, row, value):
    return np.where(AT == row, value, array)


# name: arrays, what is said of a path, what is said of worlds that have it (None: the same)
WRONG = {
    "rank 0": (dict(mocap_pos=np.float64(1)), "mocap_pos: shape ()", "'mocap_pos' has shape (2,)"),
    "rank 1": (dict(mocap_pos=np.zeros(3)), "mocap_pos: shape (3,)", "'mocap_pos' has shape (2, 3); expected (2, N, 1, 3), or (2, 1, 3) for all steps"),
    "no bodies": (dict(mocap_pos=POS[:, 0]), "mocap_pos: shape (40, 3)", "'mocap_pos' has shape (2, 40, 3)"),
    "rank 4": (dict(mocap_pos=POS[None]), "mocap_pos: shape (1, 40, 1, 3)", "'mocap_pos' has shape (2, 1, 40, 1, 3)"),
    "two bodies": (dict(mocap_pos=np.tile(POS, (1, 2, 1))), "mocap_pos: shape (40, 2, 3)", "'mocap_pos' has shape (2, 40, 2, 3)"),
    "exchanged": (dict(mocap_pos=QUAT, mocap_quat=POS), "mocap_pos: shape (40, 1, 4)", "'mocap_pos' has shape (2, 40, 1, 4)"),
    "rotation vectors": (dict(mocap_quat=POS), "mocap_quat: shape (40, 1, 3)", "'mocap_quat' has shape (2, 40, 1, 3)"),
    "no rows": (dict(mocap_pos=POS[:0]), "0", "(2, 0, 1, 3)"),
    "NaN": (dict(mocap_pos=with_row(POS, 7, np.nan)), "mocap_pos[7, 0, 0] is NaN", "mocap_pos[0, 7, 0, 0] is NaN"),
    "infinite": (dict(mocap_pos=with_row(POS, 7, -np.inf)), "mocap_pos[7, 0, 0] is infinite", "mocap_pos[0, 7, 0, 0] is infinite"),
    "NaN in a quaternion": (dict(mocap_quat=with_row(QUAT, 9, np.nan)), "mocap_quat[9, 0, 0] is NaN", "mocap_quat[0, 9, 0, 0] is NaN"),
    "zero quaternion": (dict(mocap_quat=with_row(QUAT, 9, 0)), "mocap_quat: row 9, mocap body 0", "mocap_quat: world 0, row 9, mocap body 0"),
    "huge quaternion": (dict(mocap_quat=QUAT * 1e200), "mocap_quat: row 0, mocap body 0", "mocap_quat: world 0, row 0, mocap body 0"),
    "lengths": (dict(mocap_pos=POS, mocap_quat=QUAT[:30]), "30|120", "(2, 30, 1, 4)"),
    "too short": (dict(mocap_pos=POS[:20]), "20|60", "(2, 20, 1, 3)"),
    "text": (dict(mocap_pos=np.array(["a", "b", "c"])), "expected numbers, found text", "expected numbers"),
    "complex": (dict(mocap_pos=POS.astype(complex)), "element type '<c16' is not supported", None),
    "objects": (dict(mocap_pos=np.array([[[None, 1, 2]]], dtype=object)), "holds Python objects (a pickle)", None),
    "other names": (dict(mocap=POS), "expected some of mocap_pos", "unknown array 'mocap'"),
}
RIGHT = {
    "Fortran order": lambda a: np.asfortranarray(a), "float32": lambda a: a.astype(np.float32),
    "big-endian": lambda a: a.astype(">f8"), "every second of a larger array": lambda a: np.repeat(a, 2, 0)[::2]}
TASK = {"model": "m.xml", "variables": [{"parameter": "gravity:0"}], "loss": [{"body": "hand", "target": [0, 0, 0], "at": "all"}],
        "optimizer": {"iterations": 1}, "steps": STEPS}
TRAIN = {"model": "m.xml", "steps": STEPS, "loss": TASK["loss"], "episode": {"seconds": .1}, "train": {"method": "bptt", "updates": 1, "worlds": 2, "window": 2},
         "policy": {"observe": [{"qvel": "finger"}], "layers": [{"dense": 1}], "output": [{"force": "finger"}]}}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "m.xml").write_text(test_mocap.HAND.format(integrator="Euler"))
    (tmp_path / "task.json").write_text(json.dumps({**TASK, "mocap": {"file": "p.npz"}}))
    return tmp_path


def refused(pullback, folder, command):
    """What a command says that must fail, within a GiB, and write nothing."""
    before = set(folder.iterdir())
    limits = lambda: resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))
    done = subprocess.run([pullback, *command], cwd=folder, capture_output=True, text=True, timeout=20, preexec_fn=limits)
    assert done.returncode == 3, (command, done.returncode, done.stderr)
    assert set(folder.iterdir()) == before
    return done.stderr


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arrays(pullback, folder, name):
    arrays, said, of_worlds = WRONG[name]
    np.savez(folder / "p.npz", **arrays)
    for command in (["simulate", "m.xml", "--mocap", "p.npz", "--steps", str(STEPS), "-o", "out.npz"], ["optimize", "task.json", "-o", "out.json"],
                    ["gradient", "m.xml", "--mocap", "p.npz", "--steps", str(STEPS), "--cotangent", "p.npz", "-o", "out.npz"]):
        text = refused(pullback, folder, command)
        assert any(s in text for s in said.split("|")) and ("p.npz" in text or "task.json:1: mocap.mocap_" in text or "task.json:1: mocap: mocap_quat" in text), text

    with np.errstate(invalid="ignore"):
        np.savez(folder / "w.npz", **{k: np.stack([a, a]) for k, a in arrays.items()})
    text = refused(pullback, folder, ["simulate", "m.xml", "--worlds", "w.npz", "--steps", str(STEPS), "-o", "out.npz"])
    assert (of_worlds or said) in text and "w.npz" in text, text


@pytest.mark.parametrize("share", [.01, .1, .5, .98, .999])
def test_truncated(pullback, folder, share):
    np.savez(folder / "p.npz", mocap_pos=POS, mocap_quat=QUAT)
    data = (folder / "p.npz").read_bytes()
    (folder / "p.npz").write_bytes(data[:int(share * len(data))])
    for command in (["simulate", "m.xml", "--mocap", "p.npz", "-o", "out.npz"], ["optimize", "task.json", "-o", "out.json"]):
        text = refused(pullback, folder, command)
        assert "p.npz: " in text and ("cut short" in text or "neither an NPY nor an NPZ file" in text), text


def test_what_is_no_archive(pullback, folder):
    for data in (b"", b"hello", b"PK\x03\x04" + bytes(100), np.random.default_rng(1).bytes(3000)):
        (folder / "p.npz").write_bytes(data)
        assert "p.npz: " in refused(pullback, folder, ["simulate", "m.xml", "--mocap", "p.npz", "-o", "out.npz"])


@pytest.mark.parametrize("arrays, said", [(dict(mocap_pos=POS[:, 0]), "mocap.file: p.npz: mocap_pos: shape (40, 3); expected (N, 1, 3)"),
                                          (dict(mocap_quat=with_row(QUAT, 3, 0)), "mocap: mocap_quat: row 3"),
                                          (dict(mocap_pos=POS, mocap_quat=QUAT[:30]), "mocap.mocap_quat: expected rows of 4 numbers")])
def test_trainings_refuse_them(pullback, folder, arrays, said):
    np.savez(folder / "p.npz", **arrays)
    (folder / "train.json").write_text(json.dumps({**TRAIN, "trajectories": [{}, {"mocap": {"file": "p.npz"}}]}))
    text = refused(pullback, folder, ["train", "train.json", "-o", "out.npz"])
    assert "train.json:1: trajectories[1]." + said in text, text


@pytest.mark.parametrize("name", RIGHT)
def test_unusual_and_right(run, folder, name):
    """Another order of bytes or axes holds the same numbers: the same bits come out."""
    pos, quat = test_mocap.path_of(oracle.load(str(folder / "m.xml")), STEPS, 3)
    if name == "float32":
        pos, quat = pos.astype(np.float32).astype(float), quat.astype(np.float32).astype(float)
    found = []
    for how in (np.ascontiguousarray, RIGHT[name]):
        np.savez(folder / "p.npz", mocap_pos=how(pos), mocap_quat=how(quat))
        run("simulate", folder / "m.xml", "--mocap", folder / "p.npz", "-q", "-o", folder / "t.npz")
        with np.load(folder / "t.npz") as t:
            found.append((t["qpos"], t["mocap_pos"], t["mocap_quat"]))
    assert all((a == b).all() for a, b in zip(*found)) and (found[0][1] == pos).all()
