#!/usr/bin/env python3
"""The player of examples/breakout, unchanged, in Atari's Breakout as ale-py emulates it: learns from its pictures, then plays. Beside it a paddle
that follows the ball, and random actions. Table, and bench/results/atari.csv.   make bench-atari

Nothing is required: that game is not the one of the player's model. Its paddle takes some frames to come to its speed, becomes half as wide when
the ball has been at the roof, and sends the ball off by where it was hit alone; the model has one speed, one width, and an arc. ale-py has an
environment of its own (bench/atari.txt, build/atari). Every frame is seen, actions are not repeated at random; games differ by frames without an
action at their beginning, and end after some number of frames.

  bench/atari.py [--build DIR] [--games 3] [--frames 6000]
"""
import argparse
import csv
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CODES = {"stay": 0, "fire": 1, "right": 3, "left": 4}


class Atari:
    """What game.Game of examples/breakout is, of the emulator."""

    def __init__(self):
        from ale_py import ALEInterface, LoggerMode, roms
        ALEInterface.setLoggerMode(LoggerMode.Error)
        self.ale, self.actions = ALEInterface(), list(CODES)
        self.ale.setInt("random_seed", 1)
        self.ale.setFloat("repeat_action_probability", 0.0)
        self.ale.setInt("frame_skip", 1)
        self.ale.loadROM(roms.get_rom_path("breakout"))

    def _picture(self):
        self.lives, self.over = self.ale.lives(), self.ale.game_over()
        return self.ale.getScreenRGB().astype("int32") @ [1 << 16, 1 << 8, 1]

    def reset(self, seed):
        self.ale.reset_game()
        self.frame = self.score = 0
        for _ in range(seed % 30):
            self.ale.act(CODES["stay"])
        return self._picture()

    def act(self, action):
        self.score += self.ale.act(CODES[action])
        self.frame += 1
        return self._picture()


def play_blindly(game, action, seed, most):
    """Points of a game that a function of pictures plays."""
    picture = game.reset(seed)
    while not game.over and game.frame < most:
        picture = game.act(action(picture))
    return game.score


def learn_all(game, seed, most):
    """(eyes, paddle, radius or None, speeds, words) from 200 frames and a game of practice."""
    import learn
    import play
    from player import Player
    eyes, actions, places = learn.explore(game, seed, 199)
    paddle = learn.fit_paddle(actions, places)
    player = Player(eyes, paddle)
    play.episode(game, player, seed, most)
    bounces, speeds = learn.bounces(eyes, player.log), learn.ball_speeds(player.log)
    radius, deviation = learn.fit_arch(eyes.row, bounces) if len(bounces) > 1 else (None, None)
    if deviation is None:  # at the least radius that there can be, or none: these are no bounces off an arc
        radius = None
    said = "no arc" if radius is None else f"an arc of {radius:.1f} +- {deviation:.1f}"
    words = f"paddle {paddle.speed:.2f} pixels a frame, {paddle.delay:.1f} frames late; {len(bounces)} bounces, {said}"
    return Player(eyes, paddle, radius, speeds), words


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--build", default=os.path.join(ROOT, "build", "release"))
    options.add_argument("--games", type=int, default=3)
    options.add_argument("--frames", type=int, default=6000, help="of a game at most")
    asked = options.parse_args()
    sys.path[:0] = [os.path.join(os.path.abspath(asked.build), "python"), os.path.join(ROOT, "examples", "breakout"), os.path.join(ROOT, "validation")]
    import numpy as np
    import play
    from L8 import Follower

    game = Atari()
    player, words = learn_all(game, 0, asked.frames)
    rng, seeds = np.random.default_rng(1), range(1, asked.games + 1)
    points = {
        "learnt, planned": [play.episode(game, player, seed, asked.frames) for seed in seeds],
        "follows the ball": [play_blindly(game, Follower(player.eyes), seed, asked.frames) for seed in seeds],
        "random": [play_blindly(game, lambda _: str(rng.choice(game.actions)), seed, asked.frames) for seed in seeds],
    }
    print(words)
    with open(os.path.join(ROOT, "bench", "results", "atari.csv"), "w", newline="", encoding="utf-8") as f:
        table = csv.writer(f)
        table.writerow(["player", "games", "frames at most", "points on average", "least", "most", "learnt"])
        for name, found in points.items():
            line = [name, asked.games, asked.frames, f"{np.mean(found):.1f}", min(found), max(found), words if name.startswith("learnt") else ""]
            print(*line[:-1], sep="  ")
            table.writerow(line)


if __name__ == "__main__":
    sys.exit(main())
