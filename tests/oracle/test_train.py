"""pullback train, and --policy of the other commands: a trained policy is one file; killed and interrupted runs end with the same bits."""
import base64
import json
import random
import signal
import subprocess
import time

import numpy as np
import pytest

import browser
import test_view

ARM = """<mujoco model="arm"><option timestep="0.01"/><worldbody><body name="arm"><joint name="swing" axis="0 1 0" damping=".05"/>
  <geom type="capsule" size=".04" fromto="0 0 0 0 0 -.4" mass="1"/><site name="tip" pos="0 0 -.4"/></body></worldbody>
  <actuator><motor name="motor" joint="swing" gear="2"/></actuator></mujoco>"""
POLICY = {
    "every": 2,
    "observe": [{"site_rotation": "tip", "components": [0, 2]}, {"qvel": "swing", "scale": 0.2}],
    "layers": [{"normalize": True}, {"dense": 8, "activation": "elu"}, {"dense": 1, "activation": "tanh"}],
}
LOSS = [{"site": "tip", "components": [2], "target": 0.4, "at": "all"}]
TRAIN = {"method": "shac", "updates": 40, "worlds": 8, "window": 8, "evaluate": {"every": 10, "starts": 4}}
TASK = {"model": "arm.xml", "policy": POLICY, "loss": LOSS, "train": TRAIN,
        "episode": {"seconds": 1, "spread": {"qpos": 1, "qvel": 1}}}
METHODS = ["bptt", "shac", "ppo", "es", "sep-cma"]


def write(folder, task, name="task.json"):
    (folder / "arm.xml").write_text(ARM)
    (folder / name).write_text(json.dumps(task))
    return folder / name


def with_method(method, **more):
    return {**TASK, "train": {**{k: v for k, v in TRAIN.items() if k != "method"}, "method": method, **more}}


def numbers(path):
    with np.load(path) as f:
        return {k: f[k] for k in f.files}


def same(a, b):
    a, b = numbers(a), numbers(b)
    return a.keys() == b.keys() and all(np.array_equal(a[k], b[k]) for k in a)


@pytest.fixture(scope="module")
def trained(run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    task = write(folder, TASK)
    done = run("train", task, "-o", folder / "arm.npz", "--threads", "2")
    return folder, task, done.stderr


def test_a_policy_is_one_file(run, trained):
    folder, task, said = trained
    weights = numbers(folder / "arm.npz")
    assert json.loads(str(weights["policy"]))["every"] == 2
    assert weights["policy.1.weight"].shape == (8, 3) and weights["policy.0.mean"].shape == (3,)
    assert "shac: 40 updates" in said and not (folder / "arm.state").exists()

    rows = (folder / "arm.csv").read_text().splitlines()
    assert rows[0].startswith("update,robot_steps,loss,gradient_norm,critic_error,evaluated,alive,agreement,window,dropped,length,success,mixed,")
    assert len(rows) == 41
    assert rows[0].endswith(",mixed,deviation,entropy,temperature,loss:site:tip,evaluated:site:tip")
    last = [float(x) if x else None for x in rows[-1].split(",")]
    assert last[0] == 40 and last[5] is not None and last[6] == 1
    # 8 worlds x 8 decisions x 2 steps an update, 4 starts x a second an evaluation, whole windows (also before the first update)
    assert last[1] == 40 * 128 + 5 * 4 * 112


def evaluated(path):
    return np.genfromtxt(path, delimiter=",", names=True)["evaluated"]


@pytest.mark.parametrize("method", ["bptt", "shac", "ppo"])
@pytest.mark.parametrize("counted", [True, False])
def test_a_policy_brings_its_statistics(run, trained, tmp_path, method, counted):
    """Updates that change next to nothing change next to nothing; files without a count are those of before it was there."""
    before = numbers(trained[0] / "arm.npz")
    best = max(int(row.split(",")[0]) for row in (trained[0] / "arm.csv").read_text().splitlines()[1:] if row.split(",")[5])
    assert 0 < before["normalizer.samples"] <= best * 8 * 8 and before["normalizer.samples"] % 64 == 0
    given = before if counted else {k: v for k, v in before.items() if k != "normalizer.samples"}
    np.savez(tmp_path / "given.npz", **given)
    task = write(tmp_path, with_method(method, updates=6, rate=1e-12, evaluate={"every": 1, "starts": 4}))
    run("train", task, "-o", tmp_path / "next.npz", "--policy", tmp_path / "given.npz")
    found = evaluated(tmp_path / "next.csv")
    run("train", write(tmp_path, with_method(method, updates=1, rate=1e-12)), "-o", tmp_path / "first.npz", "--policy", tmp_path / "given.npz")
    assert len(found) == 6 and np.ptp(np.append(found, evaluated(tmp_path / "first.csv"))) < 1e-9
    after = numbers(tmp_path / "next.npz")
    assert all(np.array_equal(after[k], before[k]) for k in ("policy.0.mean", "policy.0.deviation"))
    assert after.get("normalizer.samples", 0) == given.get("normalizer.samples", 0)


def test_a_count_of_samples_that_is_none(run, trained, tmp_path):
    write(tmp_path, TASK)
    for bad in (np.nan, -1., [1., 2.]):
        np.savez(tmp_path / "bad.npz", **{**numbers(trained[0] / "arm.npz"), "normalizer.samples": bad})
        done = run("train", tmp_path / "task.json", "--policy", tmp_path / "bad.npz", code=3)
        assert "bad.npz: normalizer.samples: expected one number, zero or positive" in done.stderr


def test_the_page(run, tmp_path):
    """Curves are the table's columns; what moves is the best policy from the evaluation's start, which is judged again here from its picture."""
    task = write(tmp_path, {**with_method("shac", evaluate={"every": 4, "starts": 1}, rate=0.1), "seed": 2})
    run("train", task, "-o", tmp_path / "a.npz", "-q")
    head, *rows = (r.split(",") for r in (tmp_path / "a.csv").read_text().splitlines())
    columns = {name: [(float(r[0]), float(r[k])) for r in rows if r[k]] for k, name in enumerate(head)}
    page = test_view.page_data(tmp_path / "a.html")
    curves = {c["name"]: list(zip(c["x"], c["y"])) for c in page["panel"]["curves"]}
    named = {"loss a decision, mean over the worlds": "loss", "norm of the gradient": "gradient_norm", "share of them that last to the end": "alive",
             "mean squared error of the critic": "critic_error", "loss a decision, mean over evaluated episodes": "evaluated",
             "s up to their end, mean": "length", "agreement of the worlds' gradients": "agreement"}
    assert set(curves) == set(named)  # none diverged
    judged = curves["loss a decision, mean over evaluated episodes"]
    assert judged.pop(0)[0] == 0 and page["panel"]["text"].startswith("shac, 40 updates, ")
    for name, points in curves.items():
        np.testing.assert_allclose(points, columns[named[name]], rtol=1e-8)

    # decisions are two rows apart, a row a frame; the site is 0.4 m along the body
    poses = np.frombuffer(base64.b64decode(page["poses"]), np.float32).reshape(-1, 7).astype(float)
    assert page["movers"] == [1] and len(page["time"]) == len(poses) == 101
    height = -0.4 * (1 - 2 * (poses[:, 4]**2 + poses[:, 5]**2))
    least = min(loss for _, loss in judged)
    assert least < 0.95 * judged[0][1] and least < 0.98 * judged[-1][1]  # neither the first nor the last
    np.testing.assert_allclose(np.mean((height[2::2] - 0.4)**2), least, rtol=1e-5)


def test_a_browser_draws_the_page(run, tmp_path):
    """Curves to the left, the arm to the right; where the episode fails, the reason instead."""
    seen = ARM.replace("<worldbody>", '<asset><mesh name="cap" vertex="0 0 0  .1 0 0  0 .1 0  0 0 .1" face="0 2 1 0 1 3 0 3 2 1 2 3"/></asset><worldbody>')
    seen = seen.replace("<site ", '<geom type="mesh" mesh="cap" mass="0" contype="0" conaffinity="0"/><site ')
    (tmp_path / "arm.xml").write_text(seen.replace('mass="1"', 'mass="1" rgba=".9 .1 .1 1"'))
    (tmp_path / "bad.xml").write_text(ARM.replace('damping=".05"', 'stiffness="-200"'))
    for name in ("arm", "bad"):
        (tmp_path / f"{name}.json").write_text(json.dumps({**TASK, "model": f"{name}.xml"}))
        run("train", tmp_path / f"{name}.json", "-o", tmp_path / f"{name}.npz", "-q")
    image = browser.screenshot(tmp_path / "arm.html", 900, 600)
    blue, red = (browser.pixels(image, c) for c in ([0x1f / 255, 0x5f / 255, 0xa8 / 255], test_view.RUBY))
    assert blue[:, :306].sum() > 300 and red[:, 306:].sum() > 1000 and not red[:, :306].any()

    assert len(test_view.page_data(tmp_path / "arm.html")["meshes"]) == 1
    page = test_view.page_data(tmp_path / "bad.html")
    assert "time" not in page and "step 2" in page["panel"]["no_motion"] and "grows beyond bounds" in page["panel"]["no_motion"]
    assert "worlds that diverged" in [c["name"] for c in page["panel"]["curves"]]
    image = browser.screenshot(tmp_path / "bad.html", 900, 600)
    assert browser.pixels(image, [0x1f / 255, 0x5f / 255, 0xa8 / 255])[:, :306].sum() > 300
    assert (image[:, 306:].max(axis=2) < 100).sum() > 300  # letters


def test_every_command_takes_it(run, trained):
    folder, task, _ = trained
    arm, policy, words = folder / "arm.xml", folder / "arm.npz", ("--policy", folder / "arm.npz")
    run("simulate", arm, *words, "--steps", 50, "-o", folder / "run.npz", "-q")
    moved = numbers(folder / "run.npz")
    assert moved["policy_held"].shape == (51, 1) and np.ptp(moved["policy_held"]) > 0
    held = moved["policy_held"][1:, 0]
    assert np.array_equal(held[0::2], held[1::2])  # a decision for two steps

    # what was held, given as controls from outside, is the same motion
    np.save(folder / "held.npy", moved["policy_held"][1:])
    run("simulate", arm, "--steps", 50, "--control", folder / "held.npy", "-o", folder / "open.npz", "-q")
    assert np.array_equal(numbers(folder / "open.npz")["qpos"], moved["qpos"])

    np.savez(folder / "cot.npz", qpos=[1.0])
    run("gradient", arm, *words, "--steps", 50, "--cotangent", folder / "cot.npz", "-o", folder / "g.npz", "-q", "--wrt", "policy.1.weight,qvel")
    gradient = numbers(folder / "g.npz")
    changed = dict(numbers(policy))
    side = []
    for sign in (1, -1):
        shifted = {**changed, "policy.1.weight": changed["policy.1.weight"] + sign * 1e-6 * np.cos(np.arange(24).reshape(8, 3))}
        np.savez(folder / "shifted.npz", **shifted)
        run("simulate", arm, "--policy", folder / "shifted.npz", "--steps", 50, "-o", folder / "s.npz", "-q")
        side.append(numbers(folder / "s.npz")["qpos"][-1, 0])
    slope = np.sum(gradient["param/policy.1.weight"] * np.cos(np.arange(24).reshape(8, 3)))
    assert abs((side[0] - side[1]) / 2e-6 - slope) <= 1e-6 * abs(slope)

    run("jacobian", arm, *words, "--steps", 2, "-o", folder / "j.npz")
    assert numbers(folder / "j.npz")["A"].shape == (2, 3, 3)  # position, velocity, what is held
    run("check", arm, *words, "-q")
    run("view", arm, folder / "run.npz", *words, "-o", folder / "run.html")
    assert "policy.1.weight" in run("info", arm, *words).stdout


def test_optimize_goes_on_from_it(run, trained):
    folder, _, _ = trained
    task = {k: v for k, v in TASK.items() if k not in ("train", "episode")}
    task |= {"steps": 60, "variables": [{"parameter": "policy"}], "optimizer": {"method": "adam", "iterations": 3}}
    path = write(folder, task, "tune.json")
    loss = lambda *words: json.loads(run("optimize", path, "-q", *words, "--json", cwd=folder).stdout)
    plain, trained_loss = loss(), loss("--policy", folder / "arm.npz")
    assert trained_loss["start_loss"] != plain["start_loss"] and trained_loss["loss"] < trained_loss["start_loss"]
    assert len(trained_loss["variables"][0]["value"]) == 8 * 3 + 8 + 8 + 1


def test_it_learns(run, tmp_path):
    """The pole's tip is lifted against gravity, by gradients of windows alone and with a critic."""
    task = write(tmp_path, with_method("shac", updates=60, rate=0.02))
    run("train", task, "-o", tmp_path / "a.npz", "-q")
    rows = [r.split(",") for r in (tmp_path / "a.csv").read_text().splitlines()[1:]]
    losses = [float(r[2]) for r in rows]
    assert np.mean(losses[-5:]) < 0.8 * np.mean(losses[:5])


def stop_at_random(command, folder, stops, rng, most):
    """Ends the program at random moments, by a kill or as Ctrl-C does; the same command goes on. Returns how many times it was ended."""
    for k in range(stops):
        p = subprocess.Popen(command, stderr=subprocess.PIPE, cwd=folder)
        begun, number = time.time(), signal.SIGKILL if k % 3 else signal.SIGINT
        try:
            p.wait(rng.uniform(0.01, most))
        except subprocess.TimeoutExpired:
            p.send_signal(number)
        ended = time.time()
        p.communicate()
        if p.returncode == 0:
            return k
        assert p.returncode == (130 if number == signal.SIGINT else -signal.SIGKILL)

        # what was done in the last second may be lost, with the running update, and what a loaded machine adds
        saved = (folder / "cut.state").stat().st_mtime if (folder / "cut.state").exists() else begun
        assert ended - max(begun, saved) < 1 + 1.5
    return stops


@pytest.mark.parametrize("method", METHODS)
def test_stopped_at_random_moments(run, pullback, tmp_path, request, method):
    """30 times for all methods on 1 and 2 threads with --long, some of them without: the same bits as of a run left alone."""
    long = request.config.getoption("--long")
    more = {"population": 6} if method in ("es", "sep-cma") else {}
    updates = lambda count: write(tmp_path, with_method(method, updates=count, **more))

    def timed(task):
        begun = time.time()
        run("train", task, "-o", tmp_path / "whole.npz", "-q", "--threads", "1")
        return time.time() - begun

    # as long as 15 stops: half of the lives below are longer than a second, and leave what they did in it
    took = timed(updates(25))
    if long:
        took = timed(updates(int(25 * 15 / took) + 1))
    rng = random.Random(method)
    for threads in (1, 2) if long else (2,):
        command, left = [pullback, "train", str(tmp_path / "task.json"), "-o", "cut.npz", "-q", "--threads", str(threads)], 30 if long else 4
        while left > 0:
            for old in tmp_path.glob("cut.*"):
                old.unlink()
            stopped = stop_at_random(command, tmp_path, left, rng, 1.8 if long else max(0.1, 0.7 * took))
            if stopped == left:
                run(*command[1:], cwd=tmp_path)
            assert same(tmp_path / "whole.npz", tmp_path / "cut.npz")
            for kind in ("csv", "html"):
                assert (tmp_path / f"whole.{kind}").read_text() == (tmp_path / f"cut.{kind}").read_text()
            left -= stopped if long else left


def test_interrupted(run, pullback, tmp_path):
    """Ctrl-C is answered at once, and the same command goes on."""
    task = write(tmp_path, with_method("shac", updates=100000, worlds=64))
    command = [pullback, "train", str(task), "-o", "a.npz", "-q"]
    for _ in range(2):
        p = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
        time.sleep(1.5)
        begun = time.time()
        p.send_signal(signal.SIGINT)
        _, said = p.communicate(timeout=20)
        assert p.returncode == 130 and "the same command resumes it" in said
        assert time.time() - begun < 0.5 + 1.5  # half a second, and what a loaded machine adds
        assert (tmp_path / "a.state").exists() and not (tmp_path / "a.npz").exists()


def test_commands_from_the_command_line(run, tmp_path):
    """--command is what the policy observes: one law in closed form, rows that go on, the same in a batch, and sizes that do not fit."""
    policy = {"observe": [{"command": 2}, {"qvel": "swing"}], "layers": [{"formula": ["x0 - 2*x1 + 0*x2"]}]}
    (tmp_path / "arm.xml").write_text(ARM)
    (tmp_path / "policy.json").write_text(json.dumps(policy))
    rows = np.random.default_rng(0).normal(size=(40, 2))
    np.save(tmp_path / "c.npy", rows), np.save(tmp_path / "rest.npy", rows[15:]), np.save(tmp_path / "u.npy", rows[:, :1] - 2 * rows[:, 1:])
    np.savez(tmp_path / "w.npz", command=np.stack([rows, 0 * rows]))

    def sim(out, *more, policy=True, code=0):
        words = ("--policy", tmp_path / "policy.json") if policy else ()
        said = run("simulate", tmp_path / "arm.xml", *words, *more, "-o", tmp_path / out, "-q", code=code).stderr
        return said if code else numbers(tmp_path / out)

    commanded, open_loop = sim("a.npz", "--command", tmp_path / "c.npy"), sim("b.npz", "--control", tmp_path / "u.npy", policy=False)
    assert np.array_equal(commanded["command"], rows) and np.array_equal(commanded["qpos"], open_loop["qpos"])
    rest = sim("d.npz", "--command", tmp_path / "rest.npy", "--init", tmp_path / "a.npz", "--init-row", 15)
    assert np.array_equal(rest["qpos"], commanded["qpos"][15:])
    many = sim("m.npz", "--worlds", tmp_path / "w.npz", "--steps", 40)
    assert np.array_equal(many["qpos"][0], commanded["qpos"]) and np.array_equal(many["qpos"][1], sim("n.npz", "--steps", 40)["qpos"])
    assert "expected (N, 2)" in sim("o.npz", "--command", tmp_path / "u.npy", code=3)


def test_mistakes(run, trained, tmp_path):
    folder, task, _ = trained
    bad = numbers(folder / "arm.npz")
    bad["policy.2.bias"] = np.array([np.nan])
    np.savez(tmp_path / "nan.npz", **bad)
    assert "policy.2.bias" in run("simulate", folder / "arm.xml", "--policy", tmp_path / "nan.npz", "-o", tmp_path / "o.npz", code=3).stderr
    bad["policy.2.bias"] = np.zeros(2)
    np.savez(tmp_path / "size.npz", **bad)
    said = run("simulate", folder / "arm.xml", "--policy", tmp_path / "size.npz", "-o", tmp_path / "o.npz", code=3).stderr
    assert "policy.2.bias: expected 1 x 1, found (2,)" in said

    # a formula that fails its check, and a state between whose decisions no run is
    outside = {**POLICY, "layers": [{"formula": ["log(-1 - x0*x0)"]}]}
    (tmp_path / "log.json").write_text(json.dumps(outside))
    said = run("simulate", folder / "arm.xml", "--policy", tmp_path / "log.json", "-o", tmp_path / "o.npz", code=3).stderr
    assert "numbers that are not finite" in said
    for count in (-1, 0.5, 2):
        np.savez(tmp_path / "count.npz", qpos=[0.1], policy_count=[count])
        said = run("simulate", folder / "arm.xml", "--policy", folder / "arm.npz", "--init", tmp_path / "count.npz", "-o", tmp_path / "o.npz",
                   code=3).stderr
        assert f"policy_count is {count}; expected a whole number from 0 to 1" in said

    # another robot: names that it lacks
    (tmp_path / "ball.xml").write_text("<mujoco><worldbody><body><freejoint/><geom size='.1'/></body></worldbody></mujoco>")
    assert "has no site 'tip'" in run("check", tmp_path / "ball.xml", "--policy", folder / "arm.npz", code=3).stderr

    # what is never finite, commands that nobody gives, an activation that there is not: said before or where the first world fails
    never = {"formula": "log(-1 - x^2)", "inputs": {"x": {"qpos": "swing"}}, "at": "all"}
    told = {**POLICY, "observe": [*POLICY["observe"], {"command": 2}]}
    for change, code, text in (
            ({"loss": [{"name": "bad", "type": "linear", **never}]}, 4, "no world has a finite loss at update 1: term 'bad' at time 0.02: log of -1"),
            ({"episode": {"done": [{"name": "end", "type": "above", **never}]}}, 4, "update 1: term 'end' at time 0.02: log of -1"),
            ({"policy": {**POLICY, "layers": [{"formula": ["p0*log(x0 + 0.9)"], "parameters": [1]}]}, "init": {"qpos": [3.1]}, "episode": {}}, 4,
             "policy 'network': output 0 is nan at time 0"),
            ({"controls": [[0], [0.1]]}, 3, "controls: a training has none"), ({"trajectories": [{"controls": {"file": "u.npz"}}]}, 3, "a training has none"),
            ({"policy": told}, 3, "2 commands, and \"command\" of \"sample\" is missing or does not draw number 0"),
            ({"policy": told, "sample": {"command": [{"components": [0], "uniform": [0, 1]}]}}, 3, "does not draw number 1"),
            ({"policy": {**POLICY, "observe": [*POLICY["observe"], {"act": "motor"}]}}, 3, "this actuator has no activation")):
        assert text in run("train", write(tmp_path, {**TASK, **change}), "-o", tmp_path / "x.npz", "-q", code=code).stderr
        assert not list(tmp_path.glob("x.*"))

    # a task without what training needs, and a state of another task
    assert '"train" is missing' in run("train", write(tmp_path, {k: v for k, v in TASK.items() if k != "train"}), code=3).stderr
    path = write(tmp_path, with_method("bptt", updates=100000, worlds=64))
    p = subprocess.Popen([run.program, "train", str(path), "-o", str(tmp_path / "b.npz"), "-q"], stderr=subprocess.PIPE)
    time.sleep(1)
    p.send_signal(signal.SIGINT)
    assert p.wait(20) == 130
    p.communicate()
    path = write(tmp_path, with_method("bptt", updates=100000, worlds=64, rate=0.5))
    assert "was changed" in run("train", path, "-o", tmp_path / "b.npz", code=3).stderr


@pytest.mark.parametrize("method", METHODS)
def test_paths_of_mocap_bodies(run, tmp_path, method):
    """Episodes follow the poses of the trajectory that they begin from: the score is that of runs along both paths, and the page shows the first."""
    led = ARM.replace("<worldbody>", '<worldbody><body name="lead" mocap="true"><geom size=".03" contype="0" conaffinity="0"/><site name="lead"/></body>')
    led = led.replace("<actuator>", '<tendon><spatial stiffness="20"><site site="lead"/><site site="tip"/></spatial></tendon><actuator>')
    (tmp_path / "led.xml").write_text(led)
    t, starts = np.arange(100) * .01, [0, .5]
    paths = [np.stack([.3 * np.sin(w * t), 0 * t, -.2 + .1 * np.cos(w * t)], 1)[:, None] for w in (3, 5)]
    for k, path in enumerate(paths):
        np.savez(tmp_path / f"path{k}.npz", mocap_pos=path)
    with_paths = {**with_method(method, updates=4, evaluate={"every": 2, "starts": 2}), "model": "led.xml", "episode": {"seconds": 1},
                  "trajectories": [{"mocap": {"file": "path0.npz"}}, {"mocap": {"mocap_pos": paths[1].ravel().tolist()}, "init": {"qpos": [starts[1]]}}]}
    run("train", write(tmp_path, with_paths), "-o", tmp_path / "a.npz", "-q")
    costs = []
    for path, start in zip(paths, starts):
        np.savez(tmp_path / "s.npz", qpos=[start]), np.savez(tmp_path / "p.npz", mocap_pos=path)
        run("simulate", tmp_path / "led.xml", "--policy", tmp_path / "a.npz", "--mocap", tmp_path / "p.npz", "--init", tmp_path / "s.npz", "--steps", 100,
            "-o", tmp_path / "r.npz", "-q")
        costs.append(np.mean((-.4 * np.cos(numbers(tmp_path / "r.npz")["qpos"][2::2, 0]) - .4)**2))
    page = test_view.page_data(tmp_path / "a.html")
    curves = {c["name"]: c["y"] for c in page["panel"]["curves"]}
    assert abs(min(curves["loss a decision, mean over evaluated episodes"]) - np.mean(costs)) < 1e-6 * np.mean(costs)
    poses = np.frombuffer(base64.b64decode(page["poses"]), np.float32).reshape(-1, len(page["time"]), 7)  # body by body
    seen = poses[page["movers"].index(1), :, :3]
    np.testing.assert_allclose(seen[:-1], paths[0][:, 0], atol=1e-6)
