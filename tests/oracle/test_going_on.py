"""Commands that take long say what an interruption has left, and the same command goes on with it, to the same bits."""
import json
import os
import pty
import random
import re
import select
import signal
import subprocess
import time

import numpy as np
import pytest


SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
PILE = """<mujoco><option timestep=".002"/><worldbody><geom name="floor" type="plane" size="3 3 1"/>{bodies}
<body pos="1 0 1"><joint name="swing" axis="0 1 0" damping=".1"/><geom type="capsule" fromto="0 0 0 .5 0 0" size=".05"/>
<site name="tip" pos=".5 0 0"/></body></worldbody>
<actuator><motor name="drive" joint="swing" ctrlrange="-1 1" forcerange="-5 5" ctrllimited="true" forcelimited="true"/></actuator>
<sensor><jointpos joint="swing"/><framepos objtype="site" objname="tip"/></sensor></mujoco>"""
THROW = {"model": "arm.xml", "steps": 3000, "variables": [{"name": "push", "control": "drive", "knots": 4}],
         "loss": [{"qpos": "swing", "target": 0.3, "at": "final"}], "optimizer": {"method": "lbfgs", "iterations": 2}, "audit": {"torque": 10}}

EXPERIMENTS = {"model": "arm.xml", "variables": [{"name": "push", "control": "drive", "knots": 4}], "optimizer": {"method": "lbfgs"},
               "loss": [{"qpos": "swing", "target": 0.3, "at": "all"}, {"control": "drive", "weight": 0.1, "at": "all"}],
               "trajectories": [{"steps": 40000}, {"steps": 25000, "init": {"qpos": [0.5]}}, {"steps": 30000, "init": {"qvel": [0.4]}}]}
NET = {"options": {"timestep": 0.01}, "steps": 60000, "loss": [{"points": "net_tip", "target": [0.5, 0.3, 0.8], "weight": 0.01, "at": "all"}],
       "deformables": {"bodies": [{"name": "net", "mesh": {"points": [[0, 0, 1], [0.3, 0, 1], [0, 0.3, 1], [0.3, 0.3, 1.1], [0.6, 0.3, 1]],
                                                           "edges": [[0, 1], [0, 2], [1, 2], [1, 3], [2, 3], [3, 4]]},
                                   "mass": [0.1, 0.2, 0.1, 0.3, 0.1], "pins": [{"points": 0}], "sets": {"tip": 4}, "velocity": [0.5, 0, 0.2],
                                   "energies": [{"name": "thread", "formula": "0.5*k*(norm(x0 - x1) - norm(X0 - X1))^2",
                                                 "parameters": {"k": {"value": 40, "lower": 0, "unit": "N/m"}}}]}]}}
POLICY = {"observe": [{"qpos": "swing"}, {"qvel": "swing"}], "layers": [{"dense": 7, "activation": "tanh"}, {"gru": 3}, {"dense": 1}]}


FIT = {"model": "arm.xml", "controls": [0.3], "init": {"qpos": [0.4]}, "loss": [{"qpos": "swing", "target": 0.3, "sigma": 0.1, "at": "all"}]}
DAMPING = {"parameter": "dof_damping:swing", "lower": 0.01, "upper": 2}
PLACE, SPEED, ACTS = ({"state": "qpos", "joint": "swing", "lower": -1, "upper": 1}, {"state": "qvel", "joint": "swing"},
                      {"control": "drive", "knots": 12, "interpolation": "linear"})
FITS = {"gauss-newton": {"variables": [DAMPING, PLACE, SPEED], "optimizer": {"method": "gauss-newton", "starts": 6, "iterations": 12}},
        "sweep": {"variables": [ACTS, SPEED], "optimizer": {"method": "gauss-newton", "jacobian": "sweep", "starts": 4, "iterations": 12}},
        "lbfgs": {"variables": [DAMPING, PLACE, SPEED], "optimizer": {"method": "lbfgs", "starts": 4, "iterations": 20}}}


@pytest.fixture
def place(tmp_path):
    bodies = "".join(f'<body pos="{0.02 * k} 0 {0.2 + 0.25 * k}"><freejoint/><geom type="box" size=".1 .1 .1"/></body>' for k in range(4))
    (tmp_path / "pile.xml").write_text(PILE.format(bodies=bodies))
    (tmp_path / "arm.xml").write_text(PILE.format(bodies=""))
    (tmp_path / "throw.json").write_text(json.dumps(THROW))
    for name, content in ("experiments", EXPERIMENTS), ("net", NET), ("policy", POLICY):
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    rng = np.random.default_rng(1)
    np.save(tmp_path / "push.npy", rng.normal(size=(40000, 1)))
    np.savez(tmp_path / "starts.npz", qvel=0.3 * rng.normal(size=(40, 25)))
    np.savez(tmp_path / "last.npz", qpos=np.ones(25))
    np.savez(tmp_path / "tip.npz", qpos=[1.0], sensordata=np.ones(4))
    np.savez(tmp_path / "lasts.npz", qpos=np.ones((40, 25)))
    return tmp_path


def go_on(command, place, number, wait, most=60):
    """Ends the command after `wait` seconds, again and again, until it ends by itself: how often, and what it said."""
    texts = []
    for k in range(most):
        p = subprocess.Popen(command, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            out, said = p.communicate(timeout=wait(k))
        except subprocess.TimeoutExpired:
            p.send_signal(number)
            out, said = p.communicate(timeout=60)
        texts.append(said)
        if p.returncode != 130:
            return texts, p.returncode, out
        assert "interrupted" in said, said
    raise AssertionError(f"not at its end after {most} lives: {texts[-1]}")


LONG = {
    "simulate": ("simulate pile.xml --steps 60000 --every 7 -o O.npz", "O.npz"),
    "simulate --control": ("simulate pile.xml --control push.npy -o O.npz", "O.npz"),
    "simulate a task": ("simulate throw.json --steps 150000 -o O.npz", "O.npz"),
    "simulate --worlds": ("simulate pile.xml --worlds starts.npz --steps 1500 --every 400 -o O.npz --threads 2", "O.npz"),
    "jacobian": ("jacobian pile.xml --steps 4000 -o O.npz", "O.npz"),
    "gradient": ("gradient arm.xml --steps 200000 --cotangent tip.npz -o O.npz", "O.npz"),
    "gradient --memory": ("gradient pile.xml --control push.npy --cotangent last.npz --memory 900KiB --window 0.2 -o O.npz", "O.npz"),
    "gradient --policy": ("gradient arm.xml --policy policy.json --steps 120000 --cotangent tip.npz --wrt param -o O.npz", "O.npz"),
    "gradient --loss": ("gradient experiments.json --loss experiments.json --spot-check full -o O.npz --compressed", "O.npz"),
    "gradient of a net": ("gradient net.json --loss net.json --decay 3 -o O.npz", "O.npz"),
    "gradient --mode": ("gradient pile.xml --steps 9000 --cotangent last.npz --mode event --clip 40 --constants recompute -o O.npz", "O.npz"),
    "check": ("check arm.xml --horizon 4000 --page O.html", "O.html"),
    "check --at-start": ("check pile.xml --horizon 400 --at-start --json --page O.html", "O.html"),
    "check of a policy": ("check arm.xml --policy policy.json --horizon 2000 --mode smooth --seed 3 --page O.html", "O.html"),
    "check of a net": ("check net.json --horizon 700 --page O.html", "O.html"),
    "audit": ("audit throw.json --starts 12 -o O.json --page O.html", "O.json O.html"),
}


@pytest.mark.parametrize("name", LONG)
def test_interrupted_at_drawn_moments(pullback, place, name):
    words, outputs = LONG[name]
    command, number, rng = [pullback, *words.split()], SIGNALS[len(name) % 3], random.Random(os.environ.get("SEED", "0") + name)
    begun = time.time()
    whole = subprocess.run(command, cwd=place, capture_output=True, text=True)
    took = time.time() - begun
    assert whole.returncode in (0, 1), whole.stderr
    expected = {o: (place / o).read_bytes() for o in outputs.split()}
    for o in expected:
        (place / o).unlink()

    early = 0.55 if name.startswith("gradient") else 0.25  # on its way forward a gradient keeps nothing
    for share in (1, 0.85, 0.7, 0.5, 0.35) * 8:  # of the time that it took, which may have been longer than it takes now; before the work nothing is kept
        texts, code, out = go_on(command, place, number, lambda k: share * (early + (0.95 - early) * rng.random()) * took + 0.15 * k)
        if any("the same command goes on" in t for t in texts):
            break
        for o in expected:
            (place / o).unlink()
    assert code == whole.returncode and out == whole.stdout
    assert len(texts) > 1 and any("the same command goes on" in t for t in texts), texts
    assert any("goes on" in t and ".state" in t for t in texts[1:]), texts
    for o, content in expected.items():
        assert (place / o).read_bytes() == content, f"{o} after {len(texts)} lives is another"
    assert not list(place.glob("*.state"))


def taken(place):
    """Result and trajectory of a fit, which are removed; how long it took is no part of them, nor whether it was ended on its way."""
    result = json.loads((place / "O.json").read_text())
    del result["seconds"], result["resumed"]
    files = result, (place / "O.trajectory.npz").read_bytes()
    for output in place.glob("O.*"):
        assert output.suffix != ".state", output
        output.unlink()
    return files


@pytest.mark.parametrize("name", FITS)
def test_killed_at_drawn_moments(pullback, place, long_run, name):
    """Several searches that are killed end with the same bits, 102 times in all with --long. Lost are the iterations at hand and a second."""
    rng, command = random.Random(os.environ.get("SEED", "0") + name), [pullback, *"optimize fit.json -o O.json -q --threads 2".split()]

    def timed(steps):
        (place / "fit.json").write_text(json.dumps({**FIT, **FITS[name], "steps": steps}))
        begun = time.time()
        done = subprocess.run(command, cwd=place, capture_output=True, text=True)
        assert done.returncode in (0, 1), done.stderr
        return time.time() - begun

    steps = 1000
    took = timed(steps)
    while took < 3:  # states are written once a second
        steps = round(steps * min(8, 4 / took))
        took = timed(steps)
    expected, kills, ages, lives = taken(place), 0, [], 0
    while kills < (34 if long_run else 3):
        p, begun, lives = subprocess.Popen(command, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE), time.time(), lives + 1
        try:
            p.wait(rng.uniform(0.05, 0.7) * took + 0.1 * lives)
            lives = 0
        except subprocess.TimeoutExpired:
            p.kill()
        ended, said = time.time(), p.communicate()[1]
        if p.returncode == -signal.SIGKILL:
            kills += 1
            saved = (place / "O.state").stat().st_mtime if (place / "O.state").exists() else begun
            ages.append(ended - max(begun, saved))
        else:
            assert p.returncode in (0, 1) and taken(place) == expected, said

    # the last one to its end
    done = subprocess.run(command, cwd=place, capture_output=True, text=True)
    assert done.returncode in (0, 1) and json.loads((place / "O.json").read_text())["resumed"] in (True, False), done.stderr
    assert taken(place) == expected
    assert np.median(ages) < 1 + 2 * took / FITS[name]["optimizer"]["iterations"], ages


def met(command, place, seen):
    """What a run says that SIGTERM meets where it is to: seen(code, said) is that, or "later" or "earlier". The moment is searched by
    halves, and anew where the machine has become quicker or slower on the way."""
    early, late, wait = 0., None, 0.4
    for _ in range(24):
        p = subprocess.Popen([*command], cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(wait)
        p.send_signal(signal.SIGTERM)
        said = p.communicate(timeout=120)[1]
        found = seen(p.returncode, said)
        if found not in ("later", "earlier"):
            return found
        early, late = (wait, late) if found == "later" else (early, wait)
        if late is not None and late - early < 0.02 * late + 0.005:
            early, late = 0.5 * early, None
            wait = max(1.5 * early, 0.05)
        else:
            wait = 2 * wait if late is None else (early + late) / 2
    raise AssertionError(f"never met where it was to be: {said}")


def stopped(pullback, place, words):
    """A run that was stopped on its way, with its state: later, where it had nothing to keep yet, and earlier where it was at its end."""
    def seen(code, said):
        if re.search(r"interrupted (at step \d+ of \d+( .backward.)?|in the check: .*); what is done is saved in O.\w+.state", said):
            assert code == 130
            return said
        assert code in (0, 130) and (code == 0 or "nothing is kept yet" in said), said
        return "earlier" if code == 0 else "later"

    return met([pullback, *words.split()], place, seen)


def test_going_on_costs_a_forward_run(pullback, place):
    """Ended where most of a gradient is done, the rest takes what is left and the motion once more."""
    command = [pullback, *"gradient pile.xml --steps 30000 --cotangent last.npz -o O.npz".split()]

    def life(share):
        """Processor time of one life, which is ended when it has used so much."""
        before = os.times()
        p = subprocess.Popen(command, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while p.poll() is None and share:
            used = sum(map(int, open(f"/proc/{p.pid}/stat").read().rsplit(")", 1)[1].split()[11:13])) / os.sysconf("SC_CLK_TCK")
            if used > share:
                p.send_signal(signal.SIGINT)
                break
            time.sleep(0.005)
        said = p.communicate(timeout=120)[1]
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system, said

    ratios = []
    for _ in range(3):
        whole = life(None)[0]
        said = life(0.85 * whole)[1]
        rest = life(None)[0]
        if "what is done is saved" in said:
            ratios.append(rest / whole)
    assert ratios and min(ratios) < 0.65, ratios  # begun anew it is 1


RUNS = {"simulate": "pile.xml --steps 80000 -o O.npz", "jacobian": "arm.xml --steps 800000 -o O.npz",  # longer than it is waited
        "gradient": "pile.xml --steps 80000 --cotangent last.npz -o O.npz", "check": "pile.xml --horizon 9000 --page O.html"}


@pytest.mark.parametrize("command", RUNS)
def test_a_state_of_another_run_is_refused(run, pullback, place, command):
    base = f"{command} {RUNS[command]} --control held.npy"
    np.save(place / "held.npy", np.zeros(1))
    stopped(pullback, place, base)
    refuse = lambda words: run(*words.split(), code=3, cwd=place).stderr
    longer = {"simulate": ("80000", "80001"), "jacobian": ("80000", "80001"), "gradient": ("80000", "80001"), "check": ("9000", "9001")}[command]
    said = refuse(base.replace(*longer))
    assert f"from before --{'horizon' if command == 'check' else 'steps'} was changed" in said and "--fresh" in said
    assert "from before --param was changed" in refuse(base + " --param gravity=0,0,-9")
    (place / "other.npy").write_bytes((place / "held.npy").read_bytes())
    assert "--control was changed" in refuse(base.replace("held", "other"))
    np.save(place / "held.npy", np.ones(1))
    assert "held.npy was changed" in refuse(base)
    np.save(place / "held.npy", np.zeros(1))
    model = place / base.split()[1]
    text = model.read_text()
    model.write_text(text.replace("-1 1", "-2 2"))
    assert f"{model.name} was changed" in refuse(base)
    model.write_text(text)
    (place / f"O.{command}.state").write_bytes(b"nonsense")
    assert "--fresh" in refuse(base) and (place / f"O.{command}.state").exists()
    run(*base.replace(longer[0], "3").split(), "--fresh", cwd=place)
    assert not (place / f"O.{command}.state").exists()


@pytest.mark.parametrize("command", ["gradient", "check"])
def test_a_forged_state(pullback, place, command):
    """One that is cut, or has another byte, is refused with its name; one that fits its sums and not the run is refused, or ends as another."""
    # short where it is gone on with
    words = {"gradient": "gradient arm.xml --steps 30000 --cotangent tip.npz -o O.npz", "check": "check arm.xml --horizon 900 --page O.html"}[command]
    state, rng = place / f"O.{command}.state", random.Random(os.environ.get("SEED", "0") + command)
    for k in range(60):
        p = subprocess.Popen([pullback, *words.split()], cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(0.015 * k)
        p.send_signal(signal.SIGINT)
        p.communicate(timeout=60)
        if state.exists():
            break
    good = state.read_bytes()

    def refused(why):
        p = subprocess.run([pullback, *words.split()], cwd=place, capture_output=True, text=True, timeout=60)
        assert p.returncode == 3 and state.name in p.stderr and "--fresh" in p.stderr, (why, p.returncode, p.stderr)
        assert state.exists()

    for length in {0, 1, 3, 29, 30, 100, len(good) // 2, len(good) - 1, *(rng.randrange(len(good)) for _ in range(10))}:
        state.write_bytes(good[:length])
        refused(f"cut at {length}")
    at = {*range(31), *(rng.randrange(128, len(good)) for _ in range(20))}  # the header of the first member, numbers, the directory
    for i in at:
        state.write_bytes(good[:i] + bytes([good[i] ^ (1 << rng.randrange(8))]) + good[i + 1:])
        p = subprocess.run([pullback, *words.split()], cwd=place, capture_output=True, text=True, timeout=60)
        assert p.returncode in (0, 1) or (p.returncode == 3 and state.name in p.stderr), (i, p.returncode, p.stderr)

    # whole files: every array is another, is gone, is of another length, has numbers that no run has
    state.write_bytes(good)
    with np.load(state) as f:
        arrays = {k: f[k] for k in f.files}
    for name in arrays:
        a = arrays[name]
        forged = [None, np.array("words")] if a.dtype.kind != "U" else [None, np.zeros(3)]
        if a.dtype.kind != "U" and a.size:
            forged += [np.append(a.ravel(), 0.0), a.ravel()[:-1], np.full_like(a, -7), np.full_like(a, 1e300), np.full_like(a, np.nan)]
        elif a.dtype.kind == "U" and name != "made_from":
            forged.append(np.array("x" * 4000))
        for b in forged if len(arrays) < 40 else rng.sample(forged, 1):
            np.savez(place / "forged.npz", **{k: v for k, v in {**arrays, name: b}.items() if v is not None})
            (place / "forged.npz").rename(state)
            p = subprocess.run([pullback, *words.split()], cwd=place, capture_output=True, text=True, timeout=60)
            assert p.returncode in (0, 1, 3, 4), (name, b, p.returncode, p.stderr)
            assert p.returncode != 3 or state.name in p.stderr, (name, b, p.stderr)
    for left in place.glob("O.*"):
        left.unlink()


def test_options_that_change_no_number_may_change(run, pullback, place):
    base = "simulate pile.xml --steps 80000 -o O.npz"
    stopped(pullback, place, base)
    done = run(*base.split(), "--compressed", "-q", cwd=place)
    assert done.stderr == "" and not list(place.glob("*.state"))
    run(*base.replace("O.npz", "P.npz").split(), cwd=place)
    one, other = (np.load(place / f) for f in ("O.npz", "P.npz"))
    assert sorted(one) == sorted(other) and all(one[k].tobytes() == other[k].tobytes() for k in one)


NOTHING = {"gradient, its forward run": "gradient pile.xml --steps 900000 --memory 100MiB --cotangent last.npz -o O.npz",
           "gradient --worlds": "gradient pile.xml --worlds starts.npz --steps 8000 --cotangent lasts.npz -o O.npz",
           "check": "check pile.xml --horizon 1000"}


@pytest.mark.parametrize("name", NOTHING)
def test_what_keeps_nothing_says_so(pullback, place, name):
    before = sorted(place.iterdir())
    p = subprocess.Popen([pullback, *NOTHING[name].split()], cwd=place, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    time.sleep(0.8)
    p.send_signal(signal.SIGINT)
    said = p.communicate(timeout=60)[1]
    assert p.returncode == 130 and "interrupted" in said, said
    assert re.search("nothing is kept( yet| without --page)?, and the same command begins anew", said), said
    assert sorted(place.iterdir()) == before


def test_nothing_is_left_beside_a_device(pullback, place):
    p = subprocess.Popen([pullback, *"simulate pile.xml --steps 900000 -o /dev/null".split()], cwd=place, stderr=subprocess.PIPE, text=True)
    time.sleep(0.4)
    p.send_signal(signal.SIGTERM)
    assert "nothing is kept beside what is no regular file" in p.communicate(timeout=60)[1] and p.returncode == 130
    assert not [n for n in os.listdir("/dev") if n.endswith(".state")]


def test_a_state_that_is_no_file(pullback, place):
    """A state that can be neither read nor written is told, and the exit status is that of files."""
    (place / "O.simulate.state").mkdir()
    p = subprocess.Popen([pullback, *"simulate pile.xml --steps 200000 -o O.npz".split()], cwd=place, stderr=subprocess.PIPE, text=True)
    said = p.communicate(timeout=60)[1]
    assert p.returncode in (3, 5) and "O.simulate.state" in said, said


def forged(path, change):
    """A state whose arrays somebody has changed."""
    with np.load(path) as f:
        arrays = dict(f)
    change(arrays)
    with open(path, "wb") as f:
        np.savez(f, **arrays)


def set_notes(values):
    def change(arrays):
        for k, v in values.items():
            arrays["notes"][k] = v
    return change


FORGERIES = [lambda a: a.update(step=np.array([-3.])), lambda a: a.pop("notes"), set_notes({8: 2, 11: 1e6, 12: 0}),
             set_notes({4: 1., 6: -1, 7: 0}), set_notes({6: 99}), lambda a: a.update(state=a["state"][:-1])]


@pytest.mark.parametrize("command", ["simulate", "jacobian"])
@pytest.mark.parametrize("change", FORGERIES)
def test_a_forged_state_is_refused_by_its_name(run, pullback, place, command, change):
    words = f"{command} {'pile.xml --steps 80000' if command == 'simulate' else 'arm.xml --steps 800000'} -o O.npz"
    stopped(pullback, place, words)
    state = f"O.{command}.state"
    forged(place / state, change)
    said = run(*words.split(), code=3, cwd=place).stderr
    assert f"{state}: " in said and "--fresh" in said and "(null)" not in said, said


def left_by_worlds(pullback, place):
    """A run of worlds, stopped when some are at their end: the words, how many it says these are, and of how many."""
    words = "simulate pile.xml --worlds starts.npz --steps 6000 --every 400 -o O.npz --threads 2"

    def seen(code, said):
        found = re.search(r"interrupted after (\d+) of (\d+) worlds", said)
        if found and 0 < int(found[1]) < int(found[2]):
            return words, int(found[1]), int(found[2])
        if code == 0 or (found and found[1] == found[2]):
            (place / "O.npz").unlink(missing_ok=True)
            return "earlier"
        return "later"

    return met([pullback, *words.split()], place, seen)


def seen_on_a_terminal(command, place, awaited):
    """What a run says there, which is ended when it has said that."""
    mine, theirs = pty.openpty()
    p = subprocess.Popen(command, cwd=place, stderr=theirs)
    os.close(theirs)
    text, ended = b"", False
    while select.select([mine], [], [], 30)[0]:
        try:
            text += os.read(mine, 4096)
        except OSError:  # nobody writes any more
            break
        if awaited in text and not ended:
            p.send_signal(signal.SIGTERM)
            ended = True
    p.wait(60)
    os.close(mine)
    return text.decode()


def test_worlds_are_counted_with_those_of_the_run_before(pullback, place):
    """In the line of progress, and when it is stopped again."""
    for _ in range(5):  # again where it is at its end before a line of progress is due
        words, done, all_of_them = left_by_worlds(pullback, place)
        assert 0 < done < all_of_them == 40
        text = seen_on_a_terminal([pullback, *words.split()], place, b" of 240000 (")
        if "interrupted after" in text:
            break
    shown = [int(n) for n in re.findall(r"simulate: (\d+) of 240000 \(", text)]
    assert f"goes on with {40 - done} of 40 worlds" in text and shown and shown[0] >= 6000 * done, text
    again = re.search(r"interrupted after (\d+) of 40 worlds", text)
    assert again and int(again[1]) >= done, text


def test_forged_worlds_are_refused(run, pullback, place):
    words, done, _ = left_by_worlds(pullback, place)
    forged(place / "O.simulate.state", lambda a: a.update(worlds=a["worlds"][::-1] - 1))
    assert "O.simulate.state: does not fit the run; --fresh" in run(*words.split(), code=3, cwd=place).stderr
