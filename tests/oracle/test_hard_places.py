"""Where files are hard to write: no /proc, long names, limits of batch systems, links, permissions, terminals that are closed. The old
file or the new one is there, and the text says why."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HOPPER = ROOT / "examples" / "hopper" / "hopper.xml"


def simulate(run, output, steps=3, **options):
    return run("simulate", HOPPER, "--steps", steps, "-o", output, "-q", **options)


def test_without_proc(pullback, tmp_path):
    script = f'mount -t tmpfs none /proc && exec "{pullback}" simulate "{HOPPER}" --steps 3 -o np.npz -q'
    if subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", "/proc"], capture_output=True).returncode:
        pytest.skip("no namespaces for mounts here")
    done = subprocess.run(["unshare", "-m", "bash", "-c", script], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [f.name for f in tmp_path.iterdir()] == ["np.npz"]


@pytest.mark.parametrize("length", (241, 242, 250, 255))
@pytest.mark.parametrize("letter", ("n", "é"))
def test_long_names(run, tmp_path, length, letter):
    name = (letter * 300).encode()[: length - 4]
    name = name.decode(errors="ignore") + ".npz"
    simulate(run, tmp_path / name)
    assert [f.name for f in tmp_path.iterdir()] == [name]


def test_names_that_are_too_long_are_refused_before_the_work(run, tmp_path):
    done = simulate(run, tmp_path / ("n" * 252 + ".npz"), steps=10**6, code=5)
    assert "File name too long" in done.stderr


def test_the_limit_of_a_batch_system(pullback, tmp_path):
    (tmp_path / "f.npz").write_text("old")
    command = f'ulimit -f 1; "{pullback}" simulate "{HOPPER}" --steps 3000 -o f.npz -q'
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, (tmp_path / "f.npz").read_text()) == (5, "old")
    assert "File too large" in done.stderr and len(list(tmp_path.iterdir())) == 1


def test_permissions_of_what_is_replaced_stay(run, tmp_path):
    path = tmp_path / "secret.npz"
    for mode in (0o600, 0o640, 0o444, 0o666):
        path.write_text("old")
        path.chmod(mode)
        simulate(run, path)
        assert path.stat().st_mode & 0o777 == mode
        path.unlink()
    before = os.umask(0o027)
    simulate(run, path)
    os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o640


def test_links_stay_and_their_targets_are_replaced(run, tmp_path):
    (tmp_path / "inner").mkdir()
    (tmp_path / "there.npz").write_text("old")
    for link, target in {"a": "there.npz", "b": "inner/new.npz", "c": "b", "d": tmp_path / "inner" / "other.npz"}.items():
        (tmp_path / link).symlink_to(target)
        simulate(run, tmp_path / link)
        assert (tmp_path / link).is_symlink() and (tmp_path / link).read_bytes()[:2] == b"PK"
    assert sorted(f.name for f in (tmp_path / "inner").iterdir()) == ["new.npz", "other.npz"]
    (tmp_path / "round").symlink_to("round")
    assert "symbolic links" in simulate(run, tmp_path / "round", code=5).stderr


def test_a_disk_that_is_full(run, tmp_path):
    assert "No space left on device" in run("view", HOPPER, "-o", "/dev/full", code=5).stderr
    with open("/dev/full", "w") as full:
        done = subprocess.run([run.program, "info", HOPPER], stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (5, "pullback: cannot write standard output: No space left on device\n")


def begin_search(pullback, place, before=()):
    shutil.copy(ROOT / "examples" / "cartpole" / "cartpole.xml", place)
    (place / "swing.json").write_text(json.dumps({"model": "cartpole.xml", "steps": 2000, "variables": [{"name": "push", "control": "push", "knots": 60}],
                                                  "loss": [{"qpos": True, "target": 1}], "optimizer": {"method": "cmaes", "iterations": 10**6}}))
    command = [*before, pullback, "optimize", "swing.json", "-o", "o.json", "-q"]
    p = subprocess.Popen(command, cwd=place, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    deadline = time.time() + 60
    while not (place / "o.state").exists() and p.poll() is None and time.time() < deadline:
        time.sleep(0.01)
    return p


def test_a_terminal_that_is_closed_is_an_interruption(pullback, tmp_path):
    p = begin_search(pullback, tmp_path)
    p.send_signal(signal.SIGHUP)
    said = p.communicate(timeout=60)[1].decode()
    assert p.returncode == 130 and "the same command resumes it" in said
    assert (tmp_path / "o.state").exists()


def test_nohup_holds(pullback, tmp_path):
    p = begin_search(pullback, tmp_path, before=["nohup"])
    p.send_signal(signal.SIGHUP)
    time.sleep(0.3)
    assert p.poll() in (None, 0, 1)
    p.kill()
    p.communicate()


def test_a_message_has_its_place_once(run, tmp_path):
    (tmp_path / "t.json").write_text('{\n "steps": 3,\n "model": "nowhere.xml"}')
    said = run("simulate", "t.json", "-o", "o.npz", code=5, cwd=tmp_path).stderr
    assert said == "pullback simulate: t.json:3: model: file 'nowhere.xml' cannot be found\n"


def test_a_state_that_cannot_be_removed_is_not_resumed(run, tmp_path):
    shutil.copy(ROOT / "examples" / "cartpole" / "cartpole.xml", tmp_path)
    (tmp_path / "t.json").write_text(json.dumps({"model": "cartpole.xml", "steps": 5, "variables": [{"name": "push", "control": "push", "knots": 2}],
                                                 "loss": [{"qpos": True}], "optimizer": {"method": "lbfgs", "iterations": 1}}))
    (tmp_path / "o.state").mkdir()
    assert "o.state: cannot be removed: " in run("optimize", "t.json", "-o", "o.json", "--fresh", "-q", code=5, cwd=tmp_path).stderr
