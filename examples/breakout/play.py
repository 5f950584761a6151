#!/usr/bin/env python3
"""Learns Breakout from pictures, plays it, and writes a page that plays the game back.

  PYTHONPATH=build/release/python examples/breakout/play.py [--program PROGRAM] [--seed 1] [--page FILE.html]
"""
import argparse
import os
import sys

import learn
from game import Game
from page import Recorder
from player import Player

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "..", "..", "build", "release", "examples", "breakout")
BOUNCES, PATIENCE = 10, 20000  # how many the paddle's top is learnt from, and for how many frames they are waited for


def episode(game, player, seed, most=30000, see=None):
    """Plays a game; see(picture, player) is shown each frame and may end it by saying True. The score."""
    player.begin()
    picture = game.reset(seed)
    while not game.over and game.frame < most:
        action = player(picture)
        if see and see(picture, player):
            break
        picture = game.act(action)
    return game.score


def practice(game, eyes, paddle, seed):
    """(bounces, speeds of the ball, frames) of games that are played without knowing how the paddle deflects, until there are enough bounces."""
    player, seen, bounces = Player(eyes, paddle, seed=seed), [], []

    def enough(_, player):
        return player.frame % 100 == 0 and len(bounces) + len(learn.bounces(eyes, player.log)) >= BOUNCES

    while len(bounces) < BOUNCES:
        if len(seen) > PATIENCE:
            raise RuntimeError(f"expected {BOUNCES} bounces off a paddle at rest within {PATIENCE} frames, saw {len(bounces)}")
        episode(game, player, seed, PATIENCE, enough)
        seen, bounces, seed = seen + player.log, bounces + learn.bounces(eyes, player.log), seed + 1
    return bounces, learn.ball_speeds(seen), len(seen)


def learned(game, seed, frames=199):
    """(Player, what was learnt in words): the paddle from a picture and so many frames after it, its top and the ball's speeds from practice."""
    eyes, actions, places = learn.explore(game, seed, frames)
    paddle = learn.fit_paddle(actions, places)
    bounces, speeds, practised = practice(game, eyes, paddle, seed)
    radius, deviation = learn.fit_arch(eyes.row, bounces)
    words = (f"paddle {paddle.speed:.4f} +- {paddle.deviation:.4f} pixels a frame, {paddle.delay:.2f} frames late, from {frames + 1} frames; "
             f"its top an arc of {radius:.2f} +- {deviation:.2f} pixels, from {len(bounces)} bounces in {practised} frames; "
             f"the ball's speeds {', '.join(f'{s:.3f}' for s in speeds)}")
    return Player(eyes, paddle, radius, speeds, seed), words


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--program", default=PROGRAM)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--page", help="file to write")
    asked = options.parse_args()
    with Game(asked.program) as game:
        player, words = learned(game, asked.seed)
        print(words)
        recorder = Recorder(game)
        score = episode(game, player, asked.seed, see=recorder.see)
        print(f"{score} points in {game.frame} frames, {game.lives} balls left (points are this game's own, and no other's)")
        if asked.page:
            recorder.write(asked.page, f"{score} points; {words}")


if __name__ == "__main__":
    sys.exit(main())
