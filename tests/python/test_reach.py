"""Rollout.noise: how far derivatives reach, in Python."""
import warnings

import numpy as np
import pytest

import pullback as pb

LINK = "<body pos='0 0 {z}'><joint axis='0 1 0'/><geom type='capsule' fromto='0 0 0 0 0 -.3' size='.02' contype='0' conaffinity='0'/>"


def chain(count):
    text = "".join(LINK.format(z=-.3 if k else 0) for k in range(count))
    return pb.loads(f"<mujoco><option timestep='.005'/><worldbody>{text}{'</body>' * count}</worldbody></mujoco>")


def started(model, *qpos):
    state = model.init(batch=len(qpos))
    state.qpos[:] = qpos
    return state


def test_chaotic_worlds_are_told_and_calm_ones_are_not():
    model = chain(3)
    r = model.rollout(started(model, [2, .5, -.4], [.01, 0, 0]), steps=1200)
    with pytest.warns(RuntimeWarning, match="the gradient is noise beyond t = .*What helps: a window of half that time"):
        chaos, calm = r.noise()
    assert 0 < chaos["time"] < 6 and chaos["step"] == round(chaos["time"] / .005) and chaos["window"] == chaos["time"] / 2
    assert chaos["verdict"] and "cmaes" in chaos["proposal"] and not chaos["contact"] and chaos["growth"] > np.log(30)
    assert calm["time"] == calm["window"] == np.inf and calm["step"] == -1 and calm["verdict"] == calm["proposal"] == ""
    assert calm["unforeseen"] == 0 and calm["growth"] < np.log(30)


def test_one_world_is_as_in_a_batch_and_moves_differ():
    model = chain(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alone = model.rollout(started(model, [2, .5, -.4])[0], steps=1200)
        both = model.rollout(started(model, [2, .5, -.4], [2, .5, -.4]), steps=1200)
        assert alone.noise() == both.noise()[0] and alone.noise(seed=1) == both.noise()[1]  # each world its own directions
        assert alone.noise(move=1e-7)["step"] > alone.noise()["step"]  # a smaller move takes longer to grow


def test_points_of_deformables_move_too():
    cloth = {"scheme": "avf4", "bodies": [{"name": "flag", "mesh": {"grid": {"u": [.6, 0, 0], "v": [0, .6, 0], "cells": [3, 3], "pattern": "alternating"}}, "pos": [0, 0, 1],
             "pins": [{"points": [{"nearest": [0, 0, 0]}, {"nearest": [.6, 0, 0]}]}],
             "energies": [{"energy": "membrane_stvk", "parameters": {"young": 5e4, "poisson": .3, "thickness": 1e-3, "density": 200}},
                          {"energy": "bending_quadratic", "parameters": {"bending": 1e-4}}]}]}
    model = pb.loads("<mujoco><option timestep='.005'/><worldbody/></mujoco>", deformables=cloth)
    with pytest.warns(RuntimeWarning, match="noise"):
        found = model.rollout(model.init(), steps=320).noise(directions=8)
    assert 20 < found["step"] < 320, found


def test_bad_arguments_are_refused():
    model = chain(1)
    r = model.rollout(model.init(), steps=10)
    for bad in ({"move": 0}, {"move": np.nan}, {"directions": 0}, {"directions": 257}, {"seed": -1}):
        with pytest.raises(pb.ArgumentError):
            r.noise(**bad)
    r.close()
    with pytest.raises(pb.ArgumentError):
        r.noise()
