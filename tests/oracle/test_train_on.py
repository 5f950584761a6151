"""What passes from one training to the next: critic and optimizer beside the weights, and a run that goes on though some keys are others."""
import json
import signal
import subprocess
import time

import numpy as np
import pytest

from test_train import METHODS, TASK, TRAIN, evaluated, numbers, same, with_method, write


def arrays(path):
    return {k: v for k, v in numbers(path).items() if k.startswith("train.")}


@pytest.fixture(scope="module")
def given(run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("given")
    run("train", write(folder, TASK), "-o", folder / "arm.npz", "-q")
    return folder / "arm.npz"


@pytest.mark.parametrize("method", METHODS)
def test_what_is_beside_the_weights(run, tmp_path, method):
    """As many numbers as there are weights that are learned, and Adam's steps up to the best policy."""
    run("train", write(tmp_path, with_method(method, updates=6, evaluate={"every": 3, "starts": 2})), "-o", tmp_path / "a.npz", "-q")
    left, weights = arrays(tmp_path / "a.npz"), numbers(tmp_path / "a.npz")
    learned = sum(v.size for k, v in weights.items() if k.startswith("policy.") and not k.endswith(("mean", "deviation")))
    critic = 3 * 64 + 64 + 64 * 64 + 64 + 64 + 1
    names = {"method", "adam.steps", "adam.first", "adam.second"} if method in ("bptt", "shac", "ppo") else set()
    names |= {"critic"} | {f"critic.{k}" for k in ("weights", "slow", "steps", "first", "second")} if method in ("shac", "ppo") else set()
    assert set(left) == {f"train.{k}" for k in names}
    if not names:
        return
    assert str(left["train.method"]) == method and left["train.adam.first"].size == left["train.adam.second"].size == learned
    best = np.nanargmin(np.append(np.inf, evaluated(tmp_path / "a.csv")))
    assert left["train.adam.steps"] == best * (32 if method == "ppo" else 1)  # eight rounds of four batches
    if "critic" in names:
        assert left["train.critic.first"].size == critic and left["train.critic.weights"].size == critic + 6
        assert left["train.critic.steps"] == best * 32 and json.loads(str(left["train.critic"]))[-1]["dense"] == 1


def test_a_critic_goes_on(run, given, tmp_path):
    """The first fit begins where the last one ended; without the arrays, or told so, with nothing known."""
    np.savez(tmp_path / "bare.npz", **{k: v for k, v in numbers(given).items() if not k.startswith("train.")})

    def first_error(policy, **critic):
        task = write(tmp_path, with_method("shac", updates=1, rate=1e-12, critic=critic))
        run("train", task, "-o", tmp_path / "next.npz", "-q", "--policy", policy)
        return np.atleast_1d(np.genfromtxt(tmp_path / "next.csv", delimiter=",", names=True)["critic_error"])[0]

    on, bare, fresh = first_error(given), first_error(tmp_path / "bare.npz"), first_error(given, fresh=True)
    assert on < 0.2 * bare and bare == fresh


def test_the_optimizer_goes_on(run, given, tmp_path):
    """A gradient that is clipped to nothing: what moves the weights is the mean that was brought, by the formula of Adam."""
    before = {**numbers(given), "train.adam.steps": np.float64(3)}
    size = before["train.adam.first"].size
    rng = np.random.default_rng(0)
    before["train.adam.first"], before["train.adam.second"] = rng.normal(size=size), rng.uniform(1, 2, size)
    np.savez(tmp_path / "given.npz", **before)
    task = write(tmp_path, with_method("shac", updates=1, rate=1e-3, clip=1e-12, evaluate={"every": 1, "starts": 1}))
    for source, moved in (("given", True), ("other", False)):
        np.savez(tmp_path / "other.npz", **{**before, "train.method": "bptt"})
        run("train", task, "-o", tmp_path / "next.npz", "-q", "--policy", tmp_path / f"{source}.npz", "--seed", "1")
        after = numbers(tmp_path / "next.npz")
        if after.get("train.adam.steps") == (4 if moved else 1):  # the better one of both is written
            change = np.concatenate([(after[k] - before[k]).ravel() for k in before if k.startswith("policy.") and k[7] in "12" and k != "policy"])
            m, v = .7 * before["train.adam.first"] / (1 - .7 ** 4), .95 * before["train.adam.second"] / (1 - .95 ** 4)
            step = -1e-3 * m / (np.sqrt(v) + 1e-8)
            found = np.linalg.norm(change - step) / np.linalg.norm(step)
            assert (found < 1e-9) == moved
        else:
            assert after["train.adam.steps"] == (3 if moved else 0)


def test_files_that_do_not_fit(run, given, tmp_path):
    """Each by file, array and reason."""
    whole = numbers(given)
    wide = {"layers": [{"dense": 8, "activation": "elu"}, {"dense": 1}]}
    for change, method, critic, text in (
            ({}, "shac", wide, "bad.npz: train.critic: a critic of other layers than this task's"),
            ({"train.critic.slow": whole["train.critic.slow"][1:]}, "ppo", None, "bad.npz: train.critic.slow: expected 4487 numbers, found 4486"),
            ({"train.critic.weights": whole["train.critic.weights"] * np.inf}, "ppo", None, "bad.npz: train.critic.weights"),
            ({"train.adam.first": None}, "shac", None, "bad.npz: train.adam.first: expected 41 numbers, found 0"),
            ({"train.adam.second": -whole["train.adam.second"] - 1}, "shac", None, "bad.npz: train.adam.second[0] is -1"),
            ({"train.adam.steps": np.float64(-1)}, "shac", None, "train.adam.steps: expected a whole number from 0 on, found -1"),
            ({"train.critic.steps": np.float64(1.5)}, "ppo", None, "train.critic.steps: expected a whole number")):
        np.savez(tmp_path / "bad.npz", **{k: v for k, v in {**whole, **change}.items() if v is not None})
        task = write(tmp_path, with_method(method, updates=1, **({"critic": critic} if critic else {})))
        assert text in run("train", task, "-o", tmp_path / "x.npz", "-q", "--policy", tmp_path / "bad.npz", code=3).stderr
        assert not list(tmp_path.glob("x.*"))

    # what a method has no use for is not looked at
    np.savez(tmp_path / "bad.npz", **{**whole, "train.critic.slow": [1.], "train.adam.first": [1.]})
    run("train", write(tmp_path, with_method("es", updates=1, population=4)), "-o", tmp_path / "x.npz", "-q", "--policy", tmp_path / "bad.npz")
    assert not arrays(tmp_path / "x.npz")


def stopped(pullback, folder, task, output, after=0):
    """A run that was stopped once more than `after` updates were saved; how many."""
    state = folder / f"{output}.state"
    p = subprocess.Popen([pullback, "train", str(task), "-o", f"{output}.npz", "-q"], cwd=folder, stderr=subprocess.DEVNULL)
    for _ in range(600):
        time.sleep(0.05)
        if state.exists():
            break
    time.sleep(0.2)
    p.send_signal(signal.SIGINT)
    assert p.wait(60) == 130
    done = int(numbers(state)["run"][0])  # update: the first number of what is kept
    assert done > after
    return done


def steady(method, **more):
    """Without what depends on how long it is to be."""
    return with_method(method, last_rate=1, **more)


@pytest.mark.parametrize("method", METHODS)
def test_a_longer_run(run, pullback, tmp_path, method):
    """"updates" may be another number when a run goes on: the bits are those of one that was as long from the start."""
    judged = {"every": 10 ** 6, "starts": 2}
    done = stopped(pullback, tmp_path, write(tmp_path, steady(method, updates=10 ** 6, evaluate=judged)), "cut")
    task = write(tmp_path, steady(method, updates=done + 3, evaluate=judged))
    run("train", task, "-o", tmp_path / "cut.npz", "-q", "--threads", "2")
    run("train", task, "-o", tmp_path / "whole.npz", "-q")
    assert same(tmp_path / "whole.npz", tmp_path / "cut.npz") and (tmp_path / "whole.csv").read_text() == (tmp_path / "cut.csv").read_text()


def test_other_evaluations(run, pullback, tmp_path):
    """"evaluate" too: what is learned is the same, and the best so far is judged by the starts that are now asked for."""
    done = stopped(pullback, tmp_path, write(tmp_path, steady("shac", updates=10 ** 6, rate=1e-12, evaluate={"every": 5, "starts": 5})), "cut")
    task = write(tmp_path, steady("shac", updates=done + 4, rate=1e-12, evaluate={"every": 2, "starts": 3}))
    said = run("train", task, "-o", tmp_path / "cut.npz").stderr
    run("train", task, "-o", tmp_path / "whole.npz", "-q")
    cut, whole = (np.genfromtxt(tmp_path / f"{k}.csv", delimiter=",", names=True) for k in ("cut", "whole"))
    assert np.array_equal(cut["loss"], whole["loss"]) and np.array_equal(cut["evaluated"][done:], whole["evaluated"][done:], equal_nan=True)
    best = float(said.split(" at the start, ")[1].split()[0])  # weights hardly move: the same to all digits that are printed, but for the statistics
    assert abs(best - np.nanmin(np.append(whole["evaluated"], cut["evaluated"][done:]))) < 0.05 * best


def test_what_may_not_change(run, pullback, tmp_path):
    """Each key by its name."""
    base = with_method("bptt", updates=10 ** 6, worlds=16)
    done = stopped(pullback, tmp_path, write(tmp_path, base), "a")
    without = {k: v for k, v in base["train"].items() if k != "worlds"}
    for task, text in (({**base, "train": {**base["train"], "rate": 0.5}}, "before the task's train.rate was changed"),
                       ({**base, "train": {**base["train"], "worlds": 17}}, "before the task's train.worlds was changed"),
                       ({**base, "train": without}, "before the task's train.worlds was changed"),
                       ({**base, "episode": {"seconds": 2}}, "before the task's episode was changed"),
                       ({**base, "seed": 3}, "before the task's seed was changed"),
                       (with_method("bptt", updates=max(1, done - 1), worlds=16), f"train.updates: {max(1, done - 1)} are fewer than the {done} of the run")):
        said = run("train", write(tmp_path, task), "-o", tmp_path / "a.npz", "-q", code=3).stderr
        assert "a.state: " in said and text in said and "--fresh" in said, said
    said = run("train", write(tmp_path, base), "-o", tmp_path / "a.npz", "-q", "--seed", "9", code=3).stderr
    assert "another method or --seed" in said
    (tmp_path / "arm.xml").write_text((tmp_path / "arm.xml").read_text() + " ")
    said = run("train", tmp_path / "task.json", "-o", tmp_path / "a.npz", "-q", code=3).stderr
    assert "arm.xml was changed" in said
    write(tmp_path, dict(reversed({**base, "train": dict(reversed({**base["train"], "updates": done}.items()))}.items())))
    run("train", tmp_path / "task.json", "-o", tmp_path / "a.npz", "-q")
    assert TRAIN["worlds"] == 8 and len(evaluated(tmp_path / "a.csv")) == done
