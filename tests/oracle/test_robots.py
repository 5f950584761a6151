"""The robots that people have: files of installed packages, loaded, stepped and differentiated beside MuJoCo."""
import concurrent.futures

import mujoco as mj
import numpy as np

import robot_checks
import robots


def test_the_list_is_whole():
    assert len(robots.mjcf()) == 118 and len(robots.urdf()) == 45
    assert robots.draw(robots.mjcf(), seed="a") != robots.draw(robots.mjcf(), seed="b")


def test_canonical_meshes_are_in_their_own_frames(tmp_path):
    robot = next(r for r in robots.mjcf() if r.name.endswith("convex_convex"))
    m = mj.MjModel.from_xml_path(robots.canonical(robot, tmp_path).path)
    assert m.nmesh == 3 and np.abs(m.mesh_pos).max() < 1e-8 and np.abs(m.mesh_quat[:, 1:]).max() < 1e-6


def test_every_model_loads_or_is_refused_with_a_reason(tmp_path):
    """Those that are refused are printed; so is what MuJoCo itself does not load again."""
    again, not_again = robots.composed(tmp_path)
    found = {r.name: robot_checks.load(r) for r in robots.mjcf() + again}
    refused = {name: said for name, (model, said) in found.items() if model is None}
    print(f"{len(refused)} of {len(found)} refused", *(f"{name}: {said}" for name, said in refused.items()), sep="\n")
    print("MuJoCo does not load again:", not_again)
    assert all(".xml" in said for said in refused.values())
    assert len(refused) <= 0.05 * len(found)


def test_fields_steps_and_derivatives_of_a_draw():
    """15 robots, other ones for another SEED: make check-robots does all."""
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        results = [r for two in pool.map(robot_checks.brief, robots.draw(robots.mjcf())) for r in two]
    print(*results, sep="\n")
    robot_checks.verdict(results)
    short = [str(r) for r in results if not r.holds and not r.refused]
    assert not short, "\n".join(short)


def test_a_crash_is_a_failure_of_its_own(tmp_path, monkeypatch):
    """Not a file that does not load."""
    robot = robots.mjcf()[0]
    assert robot_checks.crash(robot) == ""
    for text, said in (("exit 3", ""), ("exit 139", "exit 139"), ("kill -SEGV $$", "signal 11")):
        program = tmp_path / "program"
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
        assert robot_checks.crash(robot, str(program)).endswith(said) and bool(robot_checks.crash(robot, str(program))) == bool(said)
    monkeypatch.setattr(robot_checks, "crash", lambda robot: "the program ends with signal 11")
    result = robot_checks.check(robot)
    assert not result.refused and not result.holds and "FALLS SHORT the program ends with signal 11" in str(result)
