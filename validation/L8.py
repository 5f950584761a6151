"""Breakout is learnt from pictures, and played by plans

The game is examples/breakout/breakout.c, a process of its own with the layout of the well-known one: an action acts two frames late,
the ball goes at up to 6 pixels a frame, the paddle at 3.74, which the player is not told. From 200 pictures under random actions the
paddle's speed and delay are fitted; from bounces in practice the arc of its top, through their impacts, and the speeds that the ball
has (walls, bricks, sizes are what a picture shows). A filter follows the ball by the exact derivatives of the model's impacts, flights by
the model say where it will come down and which bricks each place of the paddle would send it to, and plans by iLQR bring the paddle
there. What is said early is less sure, and by how much is told: after a corner the ball's direction is known from the pixels since then
alone. The referee alone reads the score and, afterwards, the game's log of what was true; the player is given pictures, and gives
actions. Beside it random actions and a paddle that follows the ball. Points are this game's own: they compare with no other's."""
import csv
import os
import sys

import numpy as np

from common import EXAMPLES, Bench, below, figure, inside, reported, row

sys.path.insert(0, os.path.join(EXAMPLES, "breakout"))
import learn  # noqa: E402
import play  # noqa: E402
from game import Game  # noqa: E402
from player import Player  # noqa: E402

PROGRAM = os.path.join(inside.build_dir(), "examples", "breakout")
SPEED, DELAY, ARCH, SPEEDS = 3.74, 2, 24.0, (3, 4, 5, 6)  # the game's own, which the player is not told
TOUCH, LEFT, RIGHT = 188.0, 9.0, 151.0  # where the ball's center meets the paddle's row and the walls
GAMES, ROWS = range(100, 120), (100, 120, 141, 160)
DUE = 160  # the row below which a forecast has to be right: 28 pixels above the paddle, some five frames at the ball's highest speed


class Follower:
    """Goes to where the ball is seen."""

    def __init__(self, eyes):
        self.eyes, self.gone = eyes, 0

    def __call__(self, picture):
        seen = self.eyes(picture)
        self.gone = 0 if seen.ball or seen.hidden else self.gone + 1
        if self.gone > 10:
            self.gone = 0
            return "fire"
        off = seen.ball[0] - seen.paddle if seen.ball and seen.paddle else 0
        return "right" if off > 2 else "left" if off < -2 else "stay"


def play_blindly(game, action, seed):
    """The score of a game that a function of pictures plays."""
    picture = game.reset(seed)
    while not game.over and game.frame < 30000:
        picture = game.act(action(picture))
    return game.score


def read_log(path):
    with open(path, encoding="utf-8") as f:
        return np.array([[float(v) for v in line] for line in list(csv.reader(f))[1:]])


def fold(x):
    return RIGHT - abs((x - LEFT) % (2 * (RIGHT - LEFT)) - (RIGHT - LEFT))


def descents(true):
    """(row of the log, place) of each way of the ball down to the paddle's row: the straight way of the frame before."""
    x, y, vx, vy = true[:, 2:6].T
    arrived = np.flatnonzero((vy > 0) & (y < TOUCH) & (y + vy >= TOUCH))
    return [(int(k), fold(x[k] + vx[k] * (TOUCH - y[k]) / vy[k])) for k in arrived if k + 1 < len(true)]


def errors(true, forecasts):
    """By row of ROWS: how far off the first forecast with the ball below it was, for each descent; infinite where there was none."""
    found = {r: [] for r in ROWS}
    for k, place in descents(true):
        first = np.flatnonzero(~(true[:k, 5] > 0))[-1]  # of this descent
        for r in ROWS:
            said = next((f for f in forecasts if true[first, 0] < f[0] - 1 <= true[k, 0] and f[3] >= r), None)
            found[r].append(abs(said[1] - place) if said else np.inf)
    return found


def played(bench, player):
    """(scores, errors by row, frames) of all games by what was learnt."""
    scores, off, frames, log = [], {r: [] for r in ROWS}, 0, bench.path("truth.csv")
    for seed in GAMES:
        with Game(PROGRAM, "--log", log) as game:
            scores.append(play.episode(game, player, seed))
            frames += game.frame
        for r, found in errors(read_log(log), player.forecasts).items():
            off[r] += found
    return scores, off, frames


def identified(seeds):
    """Paddles learnt from 200 frames each."""
    with Game(PROGRAM) as game:
        return [learn.fit_paddle(*learn.explore(game, seed, 199)[1:]) for seed in seeds]


def rows():
    out = []
    paddles = identified(range(10))
    out.append(below("speed of the paddle across, pixels a frame, error of 10 fits to 200 frames each, worst", max(abs(p.speed - SPEED) for p in paddles), .01))
    out.append(below("speed downwards, likewise", max(abs(p.drift) for p in paddles), .01))
    out.append(row("delay, frames, likewise: all that were found", ", ".join(sorted({str(round(p.delay)) for p in paddles})), str(DELAY),
                   all(round(p.delay) == DELAY for p in paddles)))
    with Game(PROGRAM, "--speed", "2.9", "--delay", "4") as game:
        other = learn.fit_paddle(*learn.explore(game, 1, 199)[1:])
    out.append(below("speed of another game's paddle, 2.9, four frames late", abs(other.speed - 2.9) if round(other.delay) == 4 else np.inf, .01))

    with Bench() as bench:
        with Game(PROGRAM) as game:
            eyes, *_ = learn.explore(game, 1, 199)
            bounces, speeds, practised = play.practice(game, eyes, paddles[1], 1)
            rng = np.random.default_rng(1)
            chance = [play_blindly(game, lambda _: str(rng.choice(game.actions)), seed) for seed in GAMES]
            follows = [play_blindly(game, Follower(eyes), seed) for seed in GAMES]
        radius, deviation = learn.fit_arch(eyes.row, bounces)
        out.append(below(f"radius of the paddle's top, pixels, learnt through {len(bounces)} bounces of practice: error", abs(radius - ARCH), 2.5))
        out.append(reported("likewise: radius, its deviation, frames of practice", f"{radius:.2f}, {deviation:.2f}, {practised}"))
        out.append(row("speeds of the ball, pixels a frame, of the same frames", ", ".join(f"{s:.3f}" for s in speeds), "3, 4, 5, 6 +- 0.02",
                       len(speeds) == len(SPEEDS) and np.abs(np.subtract(speeds, SPEEDS)).max() <= .02))
        scores, off, frames = played(bench, Player(eyes, paddles[1], radius, speeds))

    within = {r: np.mean(np.array(found) <= 1) for r, found in off.items()}
    out.append(row(f"where the ball comes down, said when it is first seen below row {DUE}: within 1 pixel, % of {len(off[DUE])} descents",
                   f"{100 * within[DUE]:.2f}", ">= 99", within[DUE] >= .99))
    out += [reported(f"likewise, said when it is first seen below row {r}: within 1 pixel, %", f"{100 * within[r]:.2f}") for r in ROWS if r != DUE]
    mean, by_chance, following = np.mean(scores), np.mean(chance), np.mean(follows)
    out.append(row(f"points on average of {len(scores)} games, of 432 (this game's own)", f"{mean:.1f}", ">= 300", mean >= 300))
    out.append(row("by random actions, and ten times as many", f"{by_chance:.2f}, {10 * by_chance:.1f}", "<= the player's", 10 * by_chance <= mean))
    out.append(row("by a paddle that follows the ball", f"{following:.1f}", "< the player's", following < mean))
    out.append(row("games in which no brick is left, of 20", scores.count(432), ">= 10", scores.count(432) >= 10))
    out.append(reported("frames of all games; least points of the player, most of the one that follows", f"{frames}, {min(scores)}, {max(follows)}"))
    figure("L8-points", "Points of 20 games, each from the least to the most", "game", "points of this game, of 432",
           {"learnt, planned": sorted(scores), "follows the ball": sorted(follows), "random": sorted(chance)})
    return out
