"""MuJoCo's archives (.mjz) in the program: the bits of the unpacked files, names in messages, nothing outside, nothing left."""
import os
import signal
import stat
import subprocess
import time
import zipfile

import numpy as np
import pytest

SCENE = """<mujoco><asset><mesh name="tet" file="{mesh}"/></asset><include file="parts/arm.xml"/>
<worldbody><geom type="plane" size="1 1 1"/></worldbody></mujoco>"""
ARM = """<mujoco><worldbody><body pos="0 0 1"><freejoint/><geom type="mesh" mesh="tet"/></body></worldbody></mujoco>"""
TET = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"


def archive(path, files, method=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", method) as z:
        for name, text in files.items(): z.writestr(name, text)
    return path


def scene(top="", name="robot.xml", mesh="assets/tet.obj"):
    return {top + name: SCENE.format(mesh=mesh), top + "parts/arm.xml": ARM, top + "assets/tet.obj": TET}


@pytest.fixture
def program(run, tmp_path):
    """The program with its temporary files in a folder of their own, which is empty afterwards."""
    (tmp_path / "temporary").mkdir()
    env = {**os.environ, "TMPDIR": str(tmp_path / "temporary")}
    yield lambda *words, **more: run(*words, env=env, **more)
    assert not os.listdir(tmp_path / "temporary")


def simulated(program, model, out):
    program("simulate", model, "--steps", 30, "-q", "-o", out)
    return np.load(out)["qpos"]


def test_an_archive_moves_as_its_files_do(program, tmp_path):
    (tmp_path / "files" / "parts").mkdir(parents=True)
    (tmp_path / "files" / "assets").mkdir()
    for name, text in scene().items(): (tmp_path / "files" / name).write_text(text)
    wanted = simulated(program, tmp_path / "files" / "robot.xml", tmp_path / "a.npz")

    others = {"other.xml": "<mujoco/>"}
    for files in (scene(), scene(name="model.xml"), scene("robot/"), scene("robot/", "model.xml"), scene(name="robot.xml") | others):
        for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            path = archive(tmp_path / "robot.mjz", files, method)
            assert np.array_equal(simulated(program, path, tmp_path / "b.npz"), wanted), list(files)
    task = tmp_path / "task.json"
    task.write_text('{"model": "robot.mjz", "steps": 30}')
    assert np.array_equal(simulated(program, task, tmp_path / "b.npz"), wanted)
    assert "robot.mjz" in program("info", tmp_path / "robot.mjz").stdout
    arm = '<robot name="r"><link name="a"/></robot>'
    program("info", archive(tmp_path / "one.mjz", {"only.urdf": arm}))


@pytest.mark.parametrize("files, code, said", [
    ({"a.xml": "<mujoco/>", "b.xml": "<mujoco/>"}, 3, "expected robot.xml or model.xml in the archive, found several other models"),
    ({"a.txt": ""}, 3, "found no model"), ({"../robot.xml": "<mujoco/>"}, 3, "../robot.xml: expected the name of a file below"),
    ({"/tmp/x.xml": ""}, 3, "expected the name of a file below"), ({"a/./robot.xml": ""}, 3, "expected the name of a file below"),
    ({"robot.xml": "<mujoco/>", "a": "", "a/b": ""}, 5, "cannot be unpacked"), ({"robot.xml": "<mujoco><oops/></mujoco>"}, 3, "robot.mjz: robot.xml:1:9"),
    (scene(mesh="../outside.obj"), 5, "outside.obj"), (scene(mesh="none.obj"), 5, "none.obj"), ({"robot.xml": "<mujoco"}, 3, "robot.mjz: robot.xml:1"),
    (scene() | {"robot.xml": SCENE.format(mesh="assets/tet.obj").replace("tet.obj", "tet.xyz"), "assets/tet.xyz": ""}, None, "robot.mjz: robot.xml:1"),
    ({"robot.xml": '<mujoco><worldbody><body><joint/></body></worldbody></mujoco>'}, None, "robot.mjz: robot.xml:1"),
])
def test_what_is_wrong_is_named_as_the_archive_has_it(program, tmp_path, files, code, said):
    (tmp_path / "outside.obj").write_text(TET)
    done = program("info", archive(tmp_path / "robot.mjz", files), code=code if code else 3)
    assert said in done.stderr and "pullback-" not in done.stderr and "temporary" not in done.stderr.replace("temporary'", ""), done.stderr


def test_no_file_outside_is_read(program, tmp_path):
    (tmp_path / "outside.obj").write_text(TET)
    done = program("info", archive(tmp_path / "robot.mjz", scene(mesh=tmp_path / "outside.obj")), code=3)
    assert "outside.obj" in done.stderr and "--allow-root" in done.stderr and "outside the model's folder; allow" in done.stderr, done.stderr
    program("info", tmp_path / "robot.mjz", "--allow-root", tmp_path)


def test_damaged_archives_are_errors(program, tmp_path):
    path = archive(tmp_path / "robot.mjz", scene())
    whole = path.read_bytes()
    for cut in range(0, len(whole), 37):
        path.write_bytes(whole[:cut])
        program("info", path, code=3)
    at = whole.index(b"parts/arm.xml") + len("parts/arm.xml") + 5
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 255]) + whole[at + 1:])
    assert "parts/arm.xml" in program("info", path, code=3).stderr
    assert "cannot be" in program("info", tmp_path / "none.mjz", code=5).stderr


def test_an_archive_that_grows_is_refused_before_it_does(program, tmp_path):
    """Two members of .6 GB of zeros: a megabyte."""
    with zipfile.ZipFile(tmp_path / "robot.mjz", "w", zipfile.ZIP_DEFLATED) as z:
        for name in ("robot.xml", "b"):
            with z.open(name, "w") as f:
                for _ in range(75): f.write(bytes(8 << 20))
    done = program("info", tmp_path / "robot.mjz", code=3)
    assert "more than 1 GiB when the archive is unpacked" in done.stderr


def test_twice_and_links(program, tmp_path):
    with zipfile.ZipFile(tmp_path / "robot.mjz", "w") as z, pytest.warns(UserWarning):
        z.writestr("robot.xml", "<mujoco/>")
        z.writestr("robot.xml", "<mujoco/>")
    assert "robot.xml: is there twice" in program("info", tmp_path / "robot.mjz", code=3).stderr
    link = zipfile.ZipInfo("robot.xml")  # a text here, not a way out
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    archive(tmp_path / "robot.mjz", {link: "/etc/passwd"})
    assert "robot.xml:1" in program("info", tmp_path / "robot.mjz", code=3).stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_who_interrupts_finds_no_folder(pullback, tmp_path, number):
    """Of an archive that takes seconds to unpack nothing is left, and it ends at once."""
    with zipfile.ZipFile(tmp_path / "robot.mjz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as z:
        z.writestr("robot.xml", "<mujoco/>")
        with z.open("zeros", "w") as f:
            for _ in range(40): f.write(bytes(8 << 20))
    (tmp_path / "temporary").mkdir()
    env = {**os.environ, "TMPDIR": str(tmp_path / "temporary")}
    default = lambda: signal.signal(number, signal.SIG_DFL)
    p = subprocess.Popen([pullback, "info", tmp_path / "robot.mjz"], env=env, stderr=subprocess.PIPE, text=True, preexec_fn=default)
    while p.poll() is None and not list((tmp_path / "temporary").glob("*/zeros")): time.sleep(.001)
    p.send_signal(number)
    assert "interrupted" in p.communicate(timeout=60)[1] and p.returncode == 130
    assert not os.listdir(tmp_path / "temporary")


def test_a_folder_for_temporary_files_that_is_not_there_is_named(run, tmp_path):
    env = {**os.environ, "TMPDIR": str(tmp_path / "none")}
    assert "none: No such file" in run("info", archive(tmp_path / "robot.mjz", scene()), env=env, code=5).stderr
