"""Plots: what they draw is read back from the figure; names, worlds, searches, and what is refused."""
import os

import numpy as np
import pytest

import pullback as pb
from conftest import ROOT
from test_contract import SCENE

pytest.importorskip("matplotlib")  # conftest refuses to run without it where frameworks are asked for

TEXT = """<mujoco><worldbody><body name="a"><freejoint name="root"/><geom size=".1"/><body name="b"><joint name="knee"/><geom size=".1"/></body></body>
</worldbody><actuator><motor name="m" joint="knee"/></actuator><sensor><gyro name="gyro" site="s"/></sensor></mujoco>""".replace(
    '<geom size=".1"/><body', '<geom size=".1"/><site name="s"/><body')


@pytest.fixture
def model():
    return pb.loads(TEXT)


def lines(picture):
    return [line.get_ydata() for line in picture.get_lines()], [line.get_label() for line in picture.get_lines()]


def test_what_is_drawn(model, tmp_path):
    r = model.rollout(model.init(), np.linspace(0, 1, 50)[:, None])
    figure = pb.plot(r)
    pictures = figure.axes
    assert len(pictures) == 3 and pictures[0].get_ylabel() == "qpos  [m, rad]" and pictures[2].get_xlabel() == "time  [s]"
    values, labels = lines(pictures[0])
    assert labels == [f"root {i}" for i in range(7)] + ["knee"] and np.array_equal(np.stack(values, 1), r.qpos)
    values, labels = lines(pictures[2])
    assert labels == ["m"] and np.array_equal(values[0], r.ctrl[:, 0]) and np.array_equal(pictures[2].get_lines()[0].get_xdata(), r.time[:-1])
    figure.savefig(tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 10000

    values, labels = lines(pb.plot(r, ["qvel:knee", "sensordata:gyro"]).axes[1])
    assert labels == ["gyro 0", "gyro 1", "gyro 2"] and np.array_equal(np.stack(values, 1), r.sensordata)
    assert len(pb.plot(model.rollout(model.init(), steps=3)).axes) == 2  # without controls there is no picture of them


def test_worlds(model):
    worlds = model.init(batch=3)
    worlds.qvel[:, 6] = [1, 2, 3]
    r = model.rollout(worlds, np.zeros((20, 1)))
    values, labels = lines(pb.plot(r, "qpos:knee").axes[0])
    assert labels[0] == "knee" and np.array_equal(np.stack(values), r.qpos[:, :, 7])
    assert len(lines(pb.plot(r, "ctrl").axes[0])[0]) == 1  # shared by all
    assert len(lines(pb.plot(model.rollout(worlds, np.zeros((3, 20, 1))), "ctrl").axes[0])[0]) == 3


def test_a_search():
    found = pb.optimize(os.path.join(ROOT, "examples", "ball", "launch.json"))
    picture = pb.plot(found).axes[0]
    assert picture.get_yscale() == "log" and picture.get_lines()[0].get_ydata()[-1] == found["history"][-1][2]


def test_what_is_refused(model):
    r = model.rollout(model.init(), steps=3, outputs="xpos")
    for names, message in ((["speed"], "no 'speed'"), (["qpos:kne"], "no joint 'kne'; did you mean 'knee'"), (["xpos:b"], "not 'xpos'"),
                           (["act"], "'act' has no numbers"), (["ctrl"], "no 'ctrl'"), (["steps"], "no 'steps'"), ([], "there are none")):
        with pytest.raises(pb.ArgumentError, match=message):
            pb.plot(r, names)
    with pytest.raises(pb.ArgumentError, match="expected a Rollout or a Result, found dict"):
        pb.plot({})


def test_controls_of_as_many_steps_as_worlds():
    """Two controls over three steps that three worlds share are two lines, not three."""
    model = pb.loads(SCENE)
    for ctrl in (np.zeros((3, 2)), np.zeros((1, 3, 2))):
        picture, = pb.plot(model.rollout(model.init(batch=3), ctrl), "ctrl").axes
        assert [line.get_xdata().size for line in picture.lines] == [3, 3]
