"""Pages that Python writes, looked at in a browser without a screen: the rollout's own frames, in its colours, without an error."""
import os
import sys

import numpy as np
import pytest

import pullback as pb
from conftest import ROOT

sys.path.insert(0, os.path.join(ROOT, "tests", "oracle"))
from browser import Browser, pixels, png  # noqa: E402

TEXT = """<mujoco><worldbody><geom name="floor" type="plane" size="3 3 1" rgba=".8 .8 .8 1"/><geom name="post" type="capsule" fromto="-1 1 0 -1 1 2" size=".1"/>
<body name="ball" pos="0 0 1"><freejoint/><geom name="ball" size=".3" rgba=".9 .1 .1 1"/></body></worldbody></mujoco>"""
RED = (.9, .1, .1)


@pytest.fixture(scope="module")
def browser():
    b = Browser(480, 360)
    yield b
    b.close()


def red(browser, frame, tmp_path):
    """Rows and columns of the ball's pixels at a frame."""
    browser.run(f"document.getElementById('panel').hidden = true, pullback.go({frame}), "
                "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return np.nonzero(pixels(png(browser.shot(tmp_path / "shot.png"))[:-60, :], RED))


def test_a_rollout_is_seen_to_move(browser, tmp_path):
    model = pb.loads(TEXT)
    state = model.init()
    state.qvel[:3] = [0, 0, 2]
    path = pb.view(model.rollout(state, steps=300), tmp_path / "run.html")
    browser.open(path)
    assert browser.errors() == [] and browser.requests() == []
    rows, _ = red(browser, 0, tmp_path)
    high, _ = red(browser, 24, tmp_path)  # of 120 a second: near the top of its throw
    low, _ = red(browser, 66, tmp_path)
    assert min(map(len, (rows, high, low))) > 500
    assert high.mean() + 10 < rows.mean() < low.mean() - 10, (high.mean(), rows.mean(), low.mean())


def test_a_model_alone(browser, tmp_path):
    browser.open(pb.view(pb.loads(TEXT), tmp_path / "still.html"))
    assert browser.errors() == [] and len(red(browser, 0, tmp_path)[0]) > 500


def test_parameters_are_seen(browser, tmp_path):
    """A ball of half the size, by parameters and not by its file, is a quarter of the pixels."""
    model, counts = pb.loads(TEXT), []
    for size in (.3, .15):
        small = model.with_params({"geom_size:ball:0": size})
        browser.open(pb.view(small.rollout(small.init(), steps=300), tmp_path / "size.html"))
        counts.append(len(red(browser, 0, tmp_path)[0]))
    assert .2 < counts[1] / counts[0] < .6, counts  # the camera comes nearer to what is smaller
