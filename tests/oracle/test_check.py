"""pullback check --at-start: where a search begins, each entry against one-sided slopes; what it says of right and of wrong gradients."""
import json
import pathlib

import numpy as np
import pytest

MODELS = pathlib.Path(__file__).resolve().parent / "models"
LINK = """<mujoco><option timestep=".002"/><worldbody><body><joint name="h" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0 0 -.3" size=".03"/></body>
</worldbody><actuator>{}</actuator></mujoco>"""
PILE = """<mujoco><worldbody><geom type="plane" size="5 5 .1"/>
  <body pos="0 0 .099"><freejoint/><geom type="box" size=".1 .1 .1" mass=".2"/></body>
  <body pos=".03 0 .298"><freejoint/><geom type="sphere" size=".1" mass="20"/></body></worldbody></mujoco>"""


def checked(run, path, *options, code=0):
    report = json.loads(run("check", path, "--at-start", "--json", *options, code=code).stdout)
    return {c["name"]: c for c in report["checks"]}, [f for f in report["findings"] if f["what"] == "a bend at the start"]


@pytest.mark.parametrize("actuators, bends", [
    ('<motor name="m" joint="h"/>', []),
    ('<motor name="m" joint="h" ctrlrange="-1 1" ctrllimited="true"/>', []),
    ('<motor name="m" joint="h" ctrlrange="0 1" ctrllimited="true"/>', [("control of 'm'", "into the domain")]),
    ('<motor name="m" joint="h" ctrlrange="-1 0" ctrllimited="true"/>', [("control of 'm'", "into the domain")]),
    ('<motor name="m" joint="h" forcerange="0 1" forcelimited="true"/>', [("control of 'm'", "moves to the other side")]),
], ids=["free", "inside", "lower end", "upper end", "force at its limit"])
def test_each_entry_has_the_slope_into_its_domain(run, tmp_path, actuators, bends):
    (tmp_path / "m.xml").write_text(LINK.format(actuators))
    checks, found = checked(run, tmp_path / "m.xml")
    for by, cases in (("control", 1), ("state", 2)):
        c = checks[f"slopes at the start, by {by}"]
        assert c["holds"] and c["cases"] == cases and c["left_out"] == 0, c
    assert len(found) == len(bends) and all(f["where"] == where and words in f["why"] for f, (where, words) in zip(found, bends, strict=True)), found


def test_remainders_at_bounds_go_into_the_domain(run):
    """Five adhesions whose controls stand at their least: every trial counts, whatever is drawn."""
    for seed in range(8):
        checks, _ = checked(run, str(MODELS / "adhesion.xml"), "--horizon", "4", "--seed", str(seed))
        trials = [checks[f"Taylor remainder, {along}"] for along in ("along the gradient", "random directions")]
        assert [(c["holds"], c["cases"], c["left_out"]) for c in trials] == [(True, 1, 0), (True, 3, 0)], (seed, trials)


def test_a_gradient_that_is_wrong_at_the_start_fails(run, tmp_path):
    """Sweeps that have not settled: entries are named with their slopes."""
    (tmp_path / "m.xml").write_text(PILE)
    checks, _ = checked(run, tmp_path / "m.xml", "--contact", "method=sweeps", "--contact", "sweeps=30", code=1)
    c = checks["slopes at the start, by state"]
    assert not c["holds"] and "disagrees: " in c["words"] and "slopes" in c["words"], c
    c = checks["differences, states by parameters"]
    assert not c["holds"] and "gravity disagrees; gravity:2 disagrees: gradient" in c["words"], c


@pytest.mark.parametrize("model", ["actuators", "adhesion", "saturation", "servos", "planar", "keyframes", "sensors_rays", "tendon_spatial", "mocap"])
def test_models_at_rest_hold(run, model):
    """Losses of zero at rest, controls at bounds, muscles at ctrl = act: nothing that is right is called wrong."""
    checks, _ = checked(run, MODELS / f"{model}.xml", "--horizon", 10)
    assert all(c["holds"] for c in checks.values())


@pytest.mark.parametrize("model, control, state", [("tests/oracle/models/equality.xml", 1, 29), ("tests/oracle/models/mocap.xml", 2, 21),
                                                   ("tests/oracle/models/joints.xml", 2, 37), ("examples/quadruped/quadruped.xml", 8, 20)])
def test_entries_are_moved_by_what_can_be_seen(run, model, control, state):
    """Hard contact has derivatives of a million and more: moves of states and controls are not shortened by them until rounding hides all.
    How many are left depends on what is drawn: the most of a few seeds."""
    seen = [checked(run, str(MODELS.parents[2] / model), "--contact", "method=lcp", "--horizon", "5", "--seed", seed)[0] for seed in range(1, 5)]
    cases = [max(checks[f"slopes at the start, by {by}"]["cases"] for checks in seen) for by in ("control", "state")]
    assert cases[0] >= control and cases[1] >= state, cases


@pytest.mark.parametrize("start", [0, 1])
def test_activations_at_their_bounds_move_into_their_domain(run, tmp_path, root, start):
    """Muscles begin without activation: below it their rate has another slope, which the gradient is not asked for."""
    np.savez(tmp_path / "start.npz", act=np.full(2, float(start)))
    for seed in range(3):
        model = root / "examples" / "muscle" / "elbow.xml"
        done = run("check", model, "--init", tmp_path / "start.npz", "--seed", seed, "--json")
        tests = {t["name"]: t for t in json.loads(done.stdout)["checks"]}
        for name in ("Taylor remainder, along the gradient", "Taylor remainder, random directions"):
            assert tests[name]["cases"] > 0 and tests[name]["worst"] <= 0.2, (seed, tests[name])
