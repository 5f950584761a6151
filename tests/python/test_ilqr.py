"""What pb.optimize gives of iLQR: controls, gains, multipliers, verdicts; starts by states that are no run, out of arrays and files."""
import json

import numpy as np
import pytest

import pullback as pb

CART = """<mujoco><option timestep='0.02'/><worldbody><body name='cart'><joint name='x' type='slide' axis='1 0 0'/>
  <geom type='box' size='.2 .1 .1' mass='1' contype='0' conaffinity='0'/><body><joint name='angle' axis='0 1 0'/>
  <geom type='capsule' size='.02' fromto='0 0 0 0 0 -.6' mass='.1' contype='0' conaffinity='0'/></body></body></worldbody>
  <actuator><motor name='push' joint='x'/></actuator></mujoco>"""
STEPS = 100


def task(**more):
    return {"model": CART, "steps": STEPS, "variables": [{"control": True}], "optimizer": {"method": "ilqr", "second_order": True, "iterations": 200},
            "loss": [{"control": True, "at": "all", "weight": 0.1},
                     {"name": "up", "qpos": True, "target": [0, np.pi], "constraint": True, "weight": 10},
                     {"name": "rest", "qvel": True, "constraint": True}], **more}


def pass_over():
    s = np.linspace(0, 1, STEPS + 1)
    return {"qpos": np.outer(3 * s**2 - 2 * s**3, [0, np.pi]).tolist()}


def test_arrays_of_an_answer():
    found = pb.optimize(task(states=pass_over()))
    assert found["outcome"] == "converged", found["reason"]
    motion = found.trajectory
    assert motion["gain"].shape == (STEPS, 1, 4)
    assert motion["multiplier/up"].shape == (1, 2) and motion["multiplier/rest"].shape == (1, 2)
    told = {t["name"]: t for t in found["terms"]}
    assert abs(told["up"]["multiplier"]) == np.abs(motion["multiplier/up"]).max() and told["up"]["tolerance"] == 1e-6
    assert "multiplier" not in told[next(iter(told))]

    # a run, to the bit
    model = pb.loads(CART)
    state = model.init()
    for k, ctrl in enumerate(motion["control"]):
        assert np.array_equal(state.qpos, motion["qpos"][k])
        model.step_into(state, ctrl)
    assert np.array_equal(state.qpos, motion["qpos"][-1]) and np.array_equal(state.qvel, motion["qvel"][-1])


def test_multipliers_are_slopes_of_the_least_loss():
    def least(place, start=None):
        t = task(states=pass_over())
        t["loss"][1]["target"] = [place, np.pi]
        t["loss"][1]["tolerance"] = t["loss"][2]["tolerance"] = 1e-8
        found = pb.optimize(t)
        assert found["outcome"] == "converged", found["reason"]
        return found

    h = 1e-3
    slope = (least(h)["loss"] - least(-h)["loss"]) / (2 * h)
    assert -slope == pytest.approx(least(0).trajectory["multiplier/up"][0, 0], rel=1e-3)


def test_verdicts():
    free = task()
    free["loss"] = [{"qvel": True}, {"control": True, "at": "all"}, {"qpos": True, "at": "all"}]
    free["init"] = {"qpos": [0.1, 2]}
    assert pb.optimize(free)["outcome"] == "converged"
    free["optimizer"] = {"method": "ilqr", "iterations": 1}
    assert pb.optimize(free)["outcome"] == "iteration limit"

    # what contradicts itself
    wrong = task()
    wrong["loss"] = [{"name": "here", "qpos": "x", "constraint": True}, {"name": "there", "qpos": "x", "target": 1, "constraint": True}]
    found = pb.optimize(wrong)
    assert found["outcome"] == "stalled" and "constraint '" in found["reason"]

    # a motion that leaves all bounds names its step
    falls = task(init={"qvel": [1e200, 0]})
    with pytest.raises(pb.Error, match="step"):
        pb.optimize(falls)


def test_threads_change_no_bit():
    one, two = (pb.optimize(task(states=pass_over()), threads=k) for k in (1, 2))
    assert one["loss"] == two["loss"] and np.array_equal(one.trajectory["control"], two.trajectory["control"])
    assert np.array_equal(one.trajectory["multiplier/up"], two.trajectory["multiplier/up"])


def test_states_of_files(tmp_path):
    rows = np.array(pass_over()["qpos"])
    times = 5 + 0.02 * np.arange(STEPS + 1)
    (tmp_path / "poses.csv").write_text("time,x,angle\n" + "\n".join(f"{t!r},{a!r},{b!r}" for t, (a, b) in zip(times.tolist(), rows.tolist())) + "\n")
    np.savez(tmp_path / "poses.npz", qpos=rows)
    (tmp_path / "cart.xml").write_text(CART)

    def run(states):
        (tmp_path / "task.json").write_text(json.dumps({**task(states=states), "model": "cart.xml"}))
        return pb.optimize(tmp_path / "task.json")

    arrays, npz, csv = run(pass_over()), run({"file": "poses.npz"}), run({"file": "poses.csv", "start": 5})
    assert np.array_equal(arrays.trajectory["control"], npz.trajectory["control"])
    assert csv["outcome"] == arrays["outcome"] == "converged"
    assert run({"file": "poses.npz", "every": 0.25})["outcome"] == "converged"

    np.savez(tmp_path / "short.npz", qpos=rows[1:])
    np.savez(tmp_path / "nan.npz", qpos=np.where(np.arange(2) == 1, np.nan, rows))
    np.savez(tmp_path / "other.npz", xpos=rows)
    for name, why in {"short": "found 100 of 2", "nan": "not finite|nan", "other": "found none"}.items():
        with pytest.raises(pb.InputError, match=f"(?i){why}"):
            run({"file": f"{name}.npz"})


def test_plans_that_are_made_again_begin_with_a_run():
    t = task(states=pass_over())
    with pytest.raises(pb.InputError, match="begins with states that are given"):
        pb.Mpc(t)


SLIDE = """<mujoco><option timestep="0.1" gravity="0 0 0"/><worldbody><body><joint name="x" type="slide" axis="1 0 0"/>
<geom type="box" size=".1 .1 .1" mass="1" contype="0" conaffinity="0"/></body></worldbody><actuator><motor joint="x"/></actuator></mujoco>"""


def to_a_place(method="ilqr", tolerance=1e-6, weight=10., **more):
    loss = [{"control": True, "at": "all", "weight": .5}, {"qvel": True, "weight": 1.3},
            {"name": "place", "qpos": True, "target": 1, "constraint": True, "tolerance": tolerance, "weight": weight}]
    return {"model": SLIDE, "steps": 12, "init": {"qpos": [.1], "qvel": [-.2]}, "variables": [{"control": True}], "loss": loss,
            "optimizer": {"method": method, "iterations": 400}, **more}


@pytest.mark.parametrize("method", ["ilqr", "lbfgs", "gauss-newton"])
def test_a_constraint_that_is_met_has_converged_however_loose(method):
    """The multiplier is minus the slope of the least loss by the target, and with a loose tolerance that of the answer itself."""
    tight = pb.optimize(to_a_place(method))["terms"][-1]["multiplier"]
    for tolerance in (.1, .01, 1e-3):
        for weight in (1, 100, 1e4):
            found = pb.optimize(to_a_place(method, tolerance, weight))
            place = found["terms"][-1]
            assert found["outcome"] == "converged" and place["deviation"] <= tolerance, found["reason"]
            assert abs(place["multiplier"] - tight) < .25 * tolerance / .01 * abs(tight) * .1 + 1e-3, (tolerance, weight, place, tight)


def test_multipliers_where_a_search_ends_early():
    """Not zero, but what the constraint pulls with at the answer."""
    tight = pb.optimize(to_a_place())["terms"][-1]["multiplier"]
    met = pb.optimize(to_a_place(tolerance=.05, weight=1000, stop={"loss": 13}))
    assert met["outcome"] == "criteria met" and abs(met["terms"][-1]["multiplier"] / tight - 1) < .1


def test_a_criterion_of_the_loss_is_of_the_loss_that_is_told():
    for method in ("ilqr", "gauss-newton", "adam"):
        found = pb.optimize(to_a_place(method, tolerance=.01, stop={"loss": 11.65}))
        place = found["terms"][-1]
        if found["outcome"] == "criteria met":
            assert found["loss"] <= 11.65 and place["deviation"] <= .01, (method, found["loss"])
        else:
            assert found["loss"] > 11.65 or place["deviation"] > .01, (method, found["loss"])


def test_a_confirmation_has_no_multipliers():
    found = pb.optimize(to_a_place(confirm=2))
    again = found["confirm"]
    assert abs(again["loss"] - found["loss"]) < .05, (again, found["loss"])
    assert all(t["value"] >= 0 for t in again.get("terms", []))
