"""From pictures to places: walls, bricks, paddle and ball as pixels show them, in pixels, y down; edges of pixel k at k and k + 1."""
from typing import NamedTuple

import numpy as np

BRICK = (8, 6)  # pixels; what stands side by side has one color, so that the width of one cannot be seen
BALL = (2, 4)  # width and height of its picture


class Seen(NamedTuple):
    paddle: float | None  # its center
    ball: tuple[float, float] | None  # the center of its picture, where all of it can be told from what is around it
    hidden: bool  # there are pixels of a ball, but not all of them alone
    bricks: np.ndarray  # (rows, columns) of bool


class Eyes:
    """Looks at one kind of board, which it learns from a first picture with all bricks and without a ball."""

    def __init__(self, picture):
        lit = picture != 0
        inside = np.flatnonzero(~lit[2 * len(lit) // 3])  # of a row below the bricks, in which there are walls alone
        self.left, self.right = int(inside[0]), int(inside[-1]) + 1
        edges = np.flatnonzero(np.diff(lit[:, self.left:self.right].any(axis=1).astype(int)))[-5:] + 1
        self.roof, self.top, self.bottom, self.row, self.under = map(int, edges)  # the roof's end, then bricks and paddle from top to bottom
        self.paddle = picture[self.row, self.left:self.right].max()
        self.paddle_width = int(np.sum(lit[self.row, self.left:self.right]))

        self.rows, self.columns = (self.bottom - self.top) // BRICK[1], (self.right - self.left) // BRICK[0]
        self.brick_colors = picture[self.top:self.bottom:BRICK[1], self.left]

    def _cells(self, lit):
        """Pixels of the bricks' region by brick: (rows, columns, pixels)."""
        return lit.reshape(self.rows, BRICK[1], self.columns, BRICK[0]).transpose(0, 2, 1, 3).reshape(self.rows, self.columns, -1)

    def __call__(self, picture):
        inner = picture[self.roof:, self.left:self.right]
        like = inner == self.paddle
        top, bottom, row, under = (edge - self.roof for edge in (self.top, self.bottom, self.row, self.under))

        bricks = self._cells(inner[top:bottom] != 0).mean(axis=2) > .5  # a ball is a sixth of a brick
        same = bricks & (self.brick_colors == self.paddle)[:, None]
        like[top:bottom] &= ~np.repeat(np.repeat(same, BRICK[1], axis=0), BRICK[0], axis=1)

        full = np.flatnonzero(like[under - 1])  # the paddle's last row, which the ball, above its top, does not reach
        paddle = self.left + .5 * (full[0] + full[-1] + 1) if len(full) else None
        like[row:under] = False
        y, x = np.nonzero(like)
        whole = len(x) == BALL[0] * BALL[1] and np.ptp(x) < BALL[0] and np.ptp(y) < BALL[1]
        ball = (self.left + x.mean() + .5, self.roof + y.mean() + .5) if whole else None
        return Seen(paddle, ball, len(x) > 0 and not whole, bricks)
