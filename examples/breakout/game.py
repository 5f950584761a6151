"""The game's process: actions in, pictures out. What it says of score and lives is for a referee; a player is given pictures alone."""
import json
import subprocess

import numpy as np


class Game:
    """breakout as a process of its own.

    picture = game.reset(seed), game.act("left"): (height, width) of colors 0xRRGGBB; game.score, lives, over, frame after it.
    Raises RuntimeError with the process's own words where it ends.
    """

    def __init__(self, program, *options):
        self.process = subprocess.Popen([program, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        said = json.loads(self._read(self.process.stdout.readline()))
        self.shape, self.actions = (said["height"], said["width"]), said["actions"]
        self.palette = np.array(said["palette"], np.int32) @ [1 << 16, 1 << 8, 1]

    def _read(self, what):
        if not what:
            self.process.wait()
            raise RuntimeError(self.process.stderr.read().decode().strip() or "the game ended without a word")
        return what

    def _ask(self, line):
        try:
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            self._read(b"")
        said = json.loads(self._read(self.process.stdout.readline()))
        self.frame, self.score, self.lives, self.over = (said[name] for name in ("frame", "score", "lives", "over"))
        size = self.shape[0] * self.shape[1]
        pixels = self.process.stdout.read(size)
        self.indices = np.frombuffer(self._read(pixels if len(pixels) == size else b""), np.uint8).reshape(self.shape)
        return self.palette[self.indices]

    def reset(self, seed):
        return self._ask(f"reset {seed}")

    def act(self, action):
        return self._ask(action)

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
