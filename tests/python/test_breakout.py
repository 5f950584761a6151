"""examples/breakout: the same seed gives the same frames, wrong input is refused with its line, and the player, another process, learns the
paddle from pictures, sees the ball in them and plays better than one that follows it."""
import os
import subprocess
import sys

import numpy as np
import pytest

from conftest import PROGRAMS, ROOT

sys.path.insert(0, os.path.join(ROOT, "examples", "breakout"))
import learn
import play
from game import Game
from page import Recorder
from player import Player
from world import World

PROGRAM = os.path.join(PROGRAMS, "examples", "breakout")
SIZE = 160 * 210


def talk(*lines, options=()):
    return subprocess.run([PROGRAM, *options], input="".join(line + "\n" for line in lines).encode(), capture_output=True)


def frames(*lines, options=()):
    """Pictures that the lines are answered with, as bytes."""
    done = talk(*lines, options=options)
    assert done.returncode == 0, done.stderr
    rest, found = done.stdout.split(b"\n", 1)[1], []
    while rest:
        _, rest = rest.split(b"\n", 1)
        found.append(rest[:SIZE])
        rest = rest[SIZE:]
    assert len(found) == len(lines) and all(len(f) == SIZE for f in found)
    return found


def test_same_seed_same_frames():
    actions = ["fire", *np.random.default_rng(0).choice(["left", "right", "stay", "fire"], 200)]
    one = frames("reset 7", *actions)
    assert one == frames("reset 7", *actions) != frames("reset 8", *actions)
    assert frames("reset 3", "fire", "reset 7", *actions)[2:] == one  # nothing is left of a game before


def test_layout():
    with Game(PROGRAM) as game:
        eyes = learn.Eyes(game.reset(1))
    assert (eyes.left, eyes.right, eyes.roof, eyes.top, eyes.bottom, eyes.row, eyes.under) == (8, 152, 32, 57, 93, 189, 193)
    assert (eyes.rows, eyes.columns, eyes.paddle_width) == (6, 18, 16)


@pytest.mark.parametrize(("lines", "options", "said"), [
    (("reset 1", "left", "up"), (), "line 3: expected 'reset SEED', 'stay', 'fire', 'right' or 'left'; found 'up'"),
    (("left",), (), "line 1: expected 'reset SEED' before the first action; found 'left'"),
    (("reset -1",), (), "line 1: expected a whole number from 0 on, less than 2^64, after 'reset'; found 'reset -1'"),
    (("reset 99999999999999999999",), (), "line 1: expected a whole number"),
    (("reset 1", "x" * 300), (), "line 2: expected 'reset SEED'"),
    (("reset " + "0" * 300 + "1",), (), "line 1: expected a whole number"),
    (("reset 1", "fire", "left\0right"), (), "line 3: expected 'reset SEED', 'stay', 'fire', 'right' or 'left'; found 'left?right'"),
    (("reset 1", ""), (), "line 2: expected 'reset SEED'"),
    ((), ("--speed", "nan"), "--speed: expected a number from 0 to 160, found 'nan'"),
    ((), ("--delay", "1.5"), "--delay: expected a whole number of frames, found '1.5'"),
    ((), ("--delay",), "--delay: expected a value behind it"),
    ((), ("--ball", "3"), "options: expected --speed, --delay, --arch or --log, found '--ball'"),
    ((), ("--log", "/nowhere/log.csv"), "/nowhere/log.csv: No such file"),
])
def test_wrong_input(lines, options, said):
    done = talk(*lines, options=options)
    assert done.returncode == 2
    assert said in done.stderr.decode()


def test_process_that_ends_is_heard():
    with Game(PROGRAM) as game, pytest.raises(RuntimeError, match="line 2: expected 'reset SEED', 'stay'"):
        game.reset(1)
        game.act("jump")


def test_ball_is_seen_where_it_is_and_flies_as_the_model_says(tmp_path):
    """Flights of the model from what the log says end where the log says: walls, bricks, corners and the paddle."""
    log = tmp_path / "truth.csv"
    with Game(PROGRAM, "--log", str(log)) as game:
        eyes = learn.Eyes(game.reset(4))
        world, seen = World(eyes, 24), []
        picture = game.act("fire")
        for _ in range(1000):
            seen.append(eyes(picture))
            off = seen[-1].ball[0] - seen[-1].paddle if seen[-1].ball else 0
            picture = game.act("right" if off > 2 else "left" if off < -2 else "fire")
    true = np.loadtxt(log, delimiter=",", skiprows=1)[1:]
    off = [np.abs(np.subtract(s.ball, t[2:4])).max() for s, t in zip(seen, true, strict=False) if s.ball]
    assert len(off) > 400
    assert max(off) <= .5
    compared, bricks = 0, 0
    for k in range(len(seen) - 1):
        if not np.isfinite(true[k:k + 2]).all():
            continue
        faster = abs(np.hypot(*true[k, 4:]) - np.hypot(*true[k + 1, 4:])) > 1e-9
        x, y = true[k + 1, 2:4]
        beside = y > 187 and (abs(x - true[k + 1, 1]) > 7.5 or y > 190)  # where the model's arc goes on, and the paddle does not
        if not faster and not beside:
            after, *_ = world.advance(true[k, 2:], true[k + 1, 1], seen[k].bricks)
            assert np.allclose(after, true[k + 1, 2:], rtol=0, atol=1e-6), k
            compared += 1
            bricks += not np.array_equal(seen[k].bricks, seen[k + 1].bricks)
    assert compared > 400
    assert bricks > 5


def test_learns_the_paddle_and_plays():
    """Of a game with numbers that are not the usual ones, from its pictures alone."""
    with Game(PROGRAM, "--speed", "3.1", "--delay", "3") as game:
        eyes, actions, places = learn.explore(game, 5, 199)
        paddle = learn.fit_paddle(actions, places)
        assert abs(paddle.speed - 3.1) < .01
        assert abs(paddle.drift) < .01
        assert round(paddle.delay) == 3
        player, recorder = Player(eyes, paddle, 24, (3, 4, 5, 6)), Recorder(game)
        play.episode(game, player, 2, 500, recorder.see)
        assert game.lives == 5
        assert game.score > 10
    first = [recorder.changes[0][k:k + 3] for k in range(0, len(recorder.changes[0]), 3)]
    assert sum(count for _, count, _ in first) == SIZE
    assert max(len(change) for change in recorder.changes[1:]) < 300


def test_arch_through_impacts():
    """Bounces of a ball on a disc, rounded to pixels, tell its radius."""
    rng, found = np.random.default_rng(0), []
    for _ in range(12):
        x, angle, speed = rng.uniform(-6, 6), rng.uniform(-.8, .8), rng.choice([3, 4, 5, 6])
        v, radius = speed * np.array([np.sin(angle), np.cos(angle)]), 30
        touch = np.array([x, 189 + radius - np.sqrt((radius + 1) ** 2 - x ** 2)])
        n = np.array([x, touch[1] - 189 - radius]) / (radius + 1)
        after, t = v - 2 * (v @ n) * n, rng.uniform(0, 1)
        times = np.concatenate([np.arange(-8, 0), np.arange(0, 8)])
        places = np.array([touch + (k + t) * (v if k < 0 else after) for k in times])
        begin, end = touch + (t - 8) * v, touch + (t - 8) * after
        found.append(learn.Bounce(times + 8., np.round(places), np.append(begin, v), np.append(end, after)))
    radius, deviation = learn.fit_arch(189, found)
    assert abs(radius - 30) < 3
    assert deviation < 1.5
