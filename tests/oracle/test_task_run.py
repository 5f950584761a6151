"""A task file as the model of a command: its trajectories, start values and settings hold unless options say otherwise."""
import itertools
import json
import os
import pathlib
import subprocess

import numpy as np
import pytest

ARM = """<mujoco model="arm"><option timestep="0.004"/>
  <worldbody><geom name="floor" type="plane" size="2 2 .1"/>
    <body name="upper" pos="0 0 .4"><joint name="shoulder" axis="0 1 0" damping=".1"/>
      <geom name="rod" type="capsule" fromto="0 0 0 .3 0 0" size=".03"/>
      <body name="lower" pos=".3 0 0"><joint name="elbow" axis="0 1 0" damping=".05" frictionloss=".02"/>
        <geom name="tip" type="capsule" fromto="0 0 0 .2 0 0" size=".02"/><site name="end" pos=".2 0 0"/></body></body></worldbody>
  <actuator><motor name="a" joint="shoulder"/><position name="b" joint="elbow" kp="3"/></actuator>
  <keyframe><key name="bent" qpos=".3 .4" qvel=".1 -.2" ctrl=".5 .6"/></keyframe>
</mujoco>"""
TASK = {
    "model": "arm.xml",
    "options": {"gravity": [0, 0, -5], "integrator": "implicitfast"},
    "contact": {"method": "cones", "restitution": 0.2},
    "parameters": {"dof_damping:elbow": 0.07},
    "constants": "recompute",
    "steps": 60,
    "init": {"qpos": [0.2, 0.1], "qvel": [0.5, -1]},
    "controls": [0.3, -0.2],
    "variables": [{"parameter": "body_mass:lower", "start": 1.7}, {"state": "qvel", "joint": "shoulder", "start": 0.9},
                  {"control": "a", "knots": 4, "interpolation": "linear", "start": [0.1, 0.5, -0.3, 0.2]}],
    "loss": [{"qpos": True, "at": [0.1, 0.24], "target": [0.1, 0.2]}, {"site": "end", "weight": 0.5}],
}


def write(tmp_path, task, name="task.json"):
    (tmp_path / "arm.xml").write_text(ARM)
    (tmp_path / name).write_text(json.dumps(task))
    return tmp_path / name


def test_a_task_without_a_folder(pullback, tmp_path):
    """What a descriptor holds: its files lie below the present folder, and messages have a name for it."""
    (tmp_path / "arm.xml").write_text(ARM)
    for path, steps in (("/dev/stdin", 60), ("/dev/fd/0", 60), ("/proc/self/fd/0", -1)):
        task = tmp_path / "elsewhere" / "task.json"
        task.parent.mkdir(exist_ok=True)
        task.write_text(json.dumps({**TASK, "steps": steps, "optimizer": {"iterations": 0}}))
        with open(task, encoding="utf-8") as f:
            done = subprocess.run([pullback, "optimize", path, "-q", "-o", "out.json"], stdin=f, cwd=tmp_path, capture_output=True, text=True)
        if steps > 0:
            assert json.loads((tmp_path / "out.json").read_text())["start_loss"] > 0, done.stderr
        else:
            assert done.returncode == 3 and "description:1: steps: " in done.stderr


def start_loss(run, tmp_path, task):
    path = write(tmp_path, {**task, "optimizer": {"iterations": 0}}, "start.json")
    return json.loads(run("optimize", path, "-q", "--json", cwd=tmp_path).stdout)["start_loss"]


@pytest.mark.parametrize("variable, word", [({"state": "qvel"}, "joint"), ({"state": "qpos"}, "joint"), ({"state": "act"}, "actuator")])
def test_true_is_all_of_them(run, tmp_path, variable, word):
    """As without the word, and as the page of tasks has it."""
    page = (pathlib.Path(__file__).parents[2] / "docs" / "task.md").read_text()
    assert "`joint`, `actuator` (for `act`) or `points` (a name, a list of names, or `true`: all, as without it)" in page
    model = ARM.replace("</mujoco>", "<actuator><general name='slow' joint='elbow' dyntype='filter' dynprm='.1'/></actuator></mujoco>")
    task = {"model": "arm2.xml", "steps": 10, "loss": [{"qpos": True}, {"qvel": True}], "optimizer": {"method": "adam", "iterations": 3, "rate": .1}}
    (tmp_path / "arm2.xml").write_text(model)
    found = []
    for more in ({}, {word: True}, {word: ["shoulder", "elbow"] if word == "joint" else ["slow"]}):
        path = write(tmp_path, {**task, "variables": [{**variable, **more}]})
        found.append(json.loads(run("optimize", path, "-q", "--json", cwd=tmp_path).stdout))
    assert found[0]["loss"] == found[1]["loss"] and found[0]["loss"] != found[0]["start_loss"]
    assert word == "actuator" or found[2]["loss"] == found[0]["loss"]


def gradient(run, tmp_path, *words):
    run("gradient", *words, "-o", tmp_path / "g.npz", "-q")
    g = np.load(tmp_path / "g.npz")
    return g, json.loads(str(g["meta"]))


def test_controls_start_as_the_file_has_them(run, tmp_path):
    """Without a start: step by step the very rows; at knots what stands there, held or on lines between them; the other actuator keeps its rows."""
    rows = np.random.default_rng(3).normal(size=(60, 2))
    np.savez(tmp_path / "u.npz", u=rows)
    task = {**TASK, "controls": {"file": "u.npz", "array": "u"}}

    def started(**variable):
        run("simulate", write(tmp_path, {**task, "variables": [{"control": "a", **variable}]}), "-o", tmp_path / "o.npz", "-q")
        u = np.load(tmp_path / "o.npz")["control"]
        assert np.array_equal(u[:, 1], rows[:, 1])
        return u[:, 0]
    assert np.array_equal(started(), rows[:, 0])
    assert np.array_equal(started(knots=7), rows[[-(-k * 60 // 7) for k in np.arange(60) * 7 // 60], 0])
    at = np.floor(np.arange(5) * 59 / 4 + 0.5).astype(int)
    np.testing.assert_allclose(started(knots=5, interpolation="linear"), np.interp(np.arange(60) * 4 / 59, np.arange(5), rows[at, 0]), atol=1e-14)
    assert np.array_equal(started(knots=1), np.full(60, rows[0, 0])) and np.array_equal(started(start=0.25), np.full(60, 0.25))


def several(count):
    """Trajectories that differ in all that may differ, two of them with a loss of their own."""
    own = [{"steps": 40 + t % 7, "init": {"qpos": [0.2 + 0.002 * t, -0.1]}, "controls": [0.1 * (t % 5), 0.2]} for t in range(count)]
    own[-1]["loss"] = [{"qvel": True, "weight": 0.1}]
    return {**{k: v for k, v in TASK.items() if k != "steps"}, "trajectories": own,
            "variables": TASK["variables"][:1] + [{"state": "qvel", "joint": "shoulder", "start": 0.9, "trajectory": 1}],
            "loss": [{"qpos": True, "target": [0.1, 0.2]}]}


@pytest.mark.parametrize("count", [1, 3, 200])
def test_the_gradients_loss_is_where_optimize_starts(run, tmp_path, count):
    task = TASK if count == 1 else several(count)
    path = write(tmp_path, task)
    g, meta = gradient(run, tmp_path, path, "--loss", path)
    assert meta["loss"] == g["loss"] == start_loss(run, tmp_path, task)
    assert meta["contact"]["method"] == "cones" and meta["constants"] == "recompute"
    if count == 1:
        assert g["control"].shape == (60, 2) and g["qpos"].shape == (2,) and "certificate" in meta
    else:
        assert g["control"].shape == (count, 46 if count > 6 else 42, 2) and g["qpos"].shape == (count, 2)
        assert meta["trajectories"] == count == len(meta["certificates"]) and g["losses"].shape == (count,)
        assert not g["control"][0, 40:].any() and g["control"][0, :40].any()


def test_every_examples_loss_is_where_optimize_starts(run, root, tmp_path):
    tasks = [t for t in sorted((root / "examples").glob("*/*.json")) if {"loss", "train"} & json.loads(t.read_text()).keys() == {"loss"}]
    assert len(tasks) >= 8
    for path in tasks:
        if path.parent.name in ("slide", "gripper"):  # seconds each; the same code
            continue
        g, meta = gradient(run, tmp_path, path, "--loss", path)
        task = json.loads(path.read_text())
        task["optimizer"] = {**task.get("optimizer", {}), "iterations": 0}
        task.pop("confirm", None)
        other = tmp_path / "other.json"
        other.write_text(json.dumps(task))
        for file in path.parent.iterdir():
            if file.suffix in (".xml", ".npz", ".npy"):
                (tmp_path / file.name).write_bytes(file.read_bytes())
        text = run("optimize", other, "-q", "--json", cwd=tmp_path).stdout if task.get("stop") is None else None
        if text is None:
            task.pop("stop")
            other.write_text(json.dumps(task))
            text = run("optimize", other, "-q", "--json", cwd=tmp_path).stdout
        assert meta["loss"] == json.loads(text)["start_loss"], path


def test_gradients_of_several_trajectories_are_sums(run, tmp_path):
    path = write(tmp_path, several(3))
    whole, _ = gradient(run, tmp_path, path, "--loss", path)
    whole = {k: whole[k] for k in whole.files if k != "meta"}
    sums = {k: 0 for k in whole if k.startswith("param/") or k == "loss"}
    for t in range(3):
        g, meta = gradient(run, tmp_path, path, "--loss", path, "--trajectory", t)
        assert meta["trajectory"] == t and meta["steps"] == 40 + t
        assert np.array_equal(g["qvel"], whole["qvel"][t]) and np.array_equal(g["control"], whole["control"][t, :40 + t])
        sums = {k: v + g[k] for k, v in sums.items()}
    for k, v in sums.items():
        assert np.allclose(v, whole[k], rtol=1e-12, atol=1e-14 * (1 + np.abs(v).max(initial=0))), k
    assert np.abs(whole["param/body_mass"]).max() > 0


def test_gradients_of_a_task_are_differences_of_its_loss(run, tmp_path):
    path = write(tmp_path, {**TASK, "contact": {}})
    g, _ = gradient(run, tmp_path, path, "--loss", path)

    def loss(mass):
        return gradient(run, tmp_path, path, "--loss", path, "--param", f"body_mass:lower={mass!r}")[1]["loss"]

    h = 1e-5
    assert g["param/body_mass"][2] == pytest.approx((loss(1.7 + h) - loss(1.7 - h)) / (2 * h), rel=1e-7)


def test_the_other_commands_take_the_run_too(run, tmp_path):
    path = write(tmp_path, TASK)
    run("optimize", write(tmp_path, {**TASK, "optimizer": {"iterations": 0}}, "start.json"), "-q", "-o", tmp_path / "start.out.json")
    expected = np.load(tmp_path / "start.out.trajectory.npz")
    run("simulate", path, "-o", tmp_path / "s.npz", "-q")
    found = np.load(tmp_path / "s.npz")
    for name in ("qpos", "qvel", "control"):
        assert np.array_equal(found[name], expected[name]), name
    run("jacobian", path, "-o", tmp_path / "j.npz", "-q")
    assert np.load(tmp_path / "j.npz")["A"].shape == (60, 4, 4)
    assert "20 steps, " in run("check", path).stdout  # its own controls, no random ones


def test_options_come_before_the_task(run, tmp_path):
    path = write(tmp_path, TASK)

    def simulate(*words):
        run("simulate", path, *words, "-o", tmp_path / "s.npz", "-q")
        s = np.load(tmp_path / "s.npz")
        return s, json.loads(str(s["meta"]))

    s, _ = simulate()
    plain = s["qpos"]
    s, _ = simulate("--steps", 10)
    assert np.array_equal(s["qpos"], plain[:11])
    s, meta = simulate("--contact", "method=soft", "--constants", "keep")
    assert meta["contact"]["method"] == "soft" and meta["constants"] == "keep"
    s, _ = simulate("--param", "body_mass:lower=2.5")
    assert not np.array_equal(s["qpos"], plain)
    s, _ = simulate("--keyframe", "bent")
    assert np.array_equal(s["qpos"][0], [.3, .4]) and np.array_equal(s["control"][0], [.5, .6])
    np.save(tmp_path / "u.npy", np.zeros((60, 2)))
    s, _ = simulate("--control", tmp_path / "u.npy")
    assert not s["control"].any() and np.array_equal(s["qpos"][0], plain[0])
    assert "the controls cover 60 steps, but 61 are requested" in run("simulate", path, "--steps", 61, "-o", tmp_path / "s.npz", code=3).stderr


def test_what_does_not_fit_is_refused(run, tmp_path):
    path = write(tmp_path, several(3))
    out = ("-o", tmp_path / "g.npz")
    assert "choose one with --trajectory K" in run("gradient", path, "--loss", path, "--steps", 5, *out, code=2).stderr
    assert "from 0 to 2" in run("gradient", path, "--loss", path, "--trajectory", 3, *out, code=2).stderr
    assert "no list of trajectories" in run("simulate", tmp_path / "arm.xml", "--trajectory", 0, *out, code=2).stderr
    assert "trajectory 0 of 3" in run("simulate", path, *out).stderr
    assert "trajectory 0 of 3" not in run("simulate", path, "--trajectory", 0, *out).stderr


@pytest.mark.parametrize("method", ["lbfgs", "gauss-newton"])
@pytest.mark.parametrize("span", ["0 20", "-20 0"])
def test_a_search_leaves_a_saddle_at_its_bounds(tmp_path, run, method, span):
    """A thruster: controls of zero are an end of their range and every slope vanishes; the loss falls inwards, and the search goes there."""
    (tmp_path / "up.xml").write_text(f"""<mujoco><option timestep=".01"/><worldbody><body><joint name="j" axis="0 1 0" damping=".05"/>
      <geom type="capsule" fromto="0 0 0 0 0 .5" size=".03" mass="1"/><site name="tip" pos="0 0 .5"/></body></worldbody>
      <actuator><motor name="u" joint="j" ctrllimited="true" ctrlrange="{span}"/></actuator></mujoco>""")
    (tmp_path / "task.json").write_text(json.dumps({"model": "up.xml", "steps": 60, "loss": [{"site": "tip", "target": [0, 0, -.5]}],
                                                    "variables": [{"control": True}], "optimizer": {"method": method}}))
    found = json.loads(run("optimize", "task.json", "--json", cwd=tmp_path).stdout)
    assert found["loss"] < 1e-6 and found["saddles_left"] == 1, found["reason"]


def test_fewer_samples_than_unknowns_are_told(tmp_path, run):
    """A fit that its samples cannot determine is refused; one whose deviations cannot be told says why, instead of being silent about them."""
    write(tmp_path, TASK)
    task = {"model": "arm.xml", "steps": 20, "loss": [{"qpos": True, "target": [[.1, .2]], "sigma": .1}],
            "variables": [{"state": "qpos"}, {"state": "qvel"}]}
    (tmp_path / "few.json").write_text(json.dumps(task))
    assert "4 unknowns, and 2 samples that could tell them" in run("optimize", "few.json", code=3, cwd=tmp_path).stderr
    task = {**task, "variables": [{"state": "qpos"}], "trajectories": [{"cluster": "monday"}]}
    (tmp_path / "few.json").write_text(json.dumps(task))
    assert "no deviations: a single cluster has no spread" in run("optimize", "few.json", cwd=tmp_path).stdout


def test_nothing_is_written_beside_a_stream(pullback, tmp_path):
    """Files beside the result have names made of its name: of a pipe or device there are none. A link to a file is one."""
    write(tmp_path, {**TASK, "optimizer": {"iterations": 0}})
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "null").symlink_to("/dev/null")
    before = sorted(tmp_path.iterdir())
    streams = "pipe", "null", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"
    for command, output in itertools.product(("optimize", "train"), streams):
        with open(tmp_path.parent / "said", "w+", encoding="utf-8") as stdout:  # what /dev/stdout is by then
            words = [pullback, command, "task.json", "-o", output]
            done = subprocess.run(words, cwd=tmp_path, stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=60)
        assert done.returncode == 2, done.stderr
        assert f"-o {output}: expected the name of a file, beside which others are written" in done.stderr
    assert sorted(tmp_path.iterdir()) == before

    (tmp_path / "kept.json").write_text("")
    (tmp_path / "link.json").symlink_to("kept.json")
    subprocess.run([pullback, "optimize", "task.json", "-q", "-o", "link.json"], cwd=tmp_path, check=True)
    assert json.loads((tmp_path / "kept.json").read_text()) and (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "link.trajectory.npz").exists()
