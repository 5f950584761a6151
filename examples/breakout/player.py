"""The player: pictures in, actions out. A filter follows the ball through impacts with their exact derivatives; flights ahead say where it
comes down and what each place of the paddle would send it to; plans by iLQR bring the paddle there."""
import numpy as np

import pullback as pb
from world import AWAY, World, paddle_model

ROUNDING = 1 / 12  # variance of a place that was rounded to pixels
EDGE = 1.2  # pixels at either end of the paddle that are left for what is not known
EARLY = 8  # frames by which the paddle should be able to be where the ball comes down next, before it does
KNOWN = 1e-4  # variance of a speed that was learnt
SURPRISE = .3  # pixels beyond rounding that the filter was too sure
LOST = 400.0  # variance of a place, pixels^2, from which on the next two pictures say more


class Tracker:
    """The paddle's place from pictures and from what it was told, within what rounding allows."""

    def __init__(self, eyes, speed, delay):
        half = eyes.paddle_width / 2
        self.low, self.high, self.speed, self.delay = eyes.left + half, eyes.right - half, speed, delay
        self.place, self.waiting = None, [0] * delay

    def move(self, place, steer):
        return min(max(place + self.speed * steer, self.low), self.high)

    def see(self, seen):
        """Takes the place that a picture shows; None: it shows none."""
        if self.place is None:
            self.place = seen
        elif seen is not None:
            self.place = min(max(self.place, seen - .5), seen + .5)

    def tell(self, steer):
        self.waiting.append(steer)
        self.place = self.move(self.place, self.waiting.pop(0))

    def ahead(self):
        """Where it will be when an action of now begins to act."""
        place = self.place
        for steer in self.waiting:
            place = self.move(place, steer)
        return place


class Filter:
    """An extended Kalman filter of the ball: its mean and covariance go through each frame's impacts by the model's step and its Jacobian."""

    def __init__(self, world, speeds):
        self.speeds, self.world, self.ball, self.spread, self.last = speeds, world, None, None, None

    def forget(self):
        self.ball = self.last = None

    def begin(self, seen):
        if self.last is not None:
            self.ball = np.concatenate([seen, np.subtract(seen, self.last)])
            one, two = ROUNDING * np.eye(2), 2 * ROUNDING * np.eye(2)
            self.spread = np.block([[one, one], [one, two]])
        self.last = seen

    def predict(self, paddle, bricks):
        before = self.ball
        try:
            self.ball, A, by_paddle = self.world.advance(before, paddle, bricks)
            bent = self.bent(before, A, paddle, bricks)
        except pb.StepError:
            return self.forget()
        self.spread = A @ self.spread @ A.T + bent
        if self.spread[0, 0] + self.spread[1, 1] > LOST:
            return self.forget()
        if before[3] > 0 > self.ball[3] and self.ball[1] > self.world.height - 20:  # off the paddle, perhaps faster than before
            along = np.append([0, 0], self.ball[2:])
            self.spread += .04 * np.outer(by_paddle, by_paddle) + .04 * np.outer(along, along) + np.diag([0, 0, .01, .01])

    def bent(self, before, A, paddle, bricks):
        """Covariance that a Jacobian does not see: at a brick, neighbors of the mean may meet another face, a corner, or nothing."""
        if self.world.steps(before) == 1 or np.array_equal(before[2:], self.ball[2:]):
            return 0
        values, axes = np.linalg.eigh(self.spread)
        moves = 1.5 * np.sqrt(np.maximum(values, 0))[:, None] * axes.T
        moves = np.vstack([moves, -moves])
        off = self.world.advance_all(before + moves, paddle, bricks) - self.ball - moves @ A.T
        return off.T @ off / len(off)

    def see(self, seen):
        """Takes a place in; begins anew where it cannot be the ball that was followed."""
        if self.ball is None:
            return self.begin(seen)
        off = np.subtract(seen, self.ball[:2])
        covariance = self.spread[:2, :2] + ROUNDING * np.eye(2)
        if off @ np.linalg.solve(covariance, off) > 25:
            self.ball = None
            return self.begin(seen)
        gain = np.linalg.solve(covariance, self.spread[:2]).T
        self.ball = self.ball + gain @ off
        rest = np.eye(4) - np.pad(gain, ((0, 0), (0, 2)))
        self.spread = rest @ self.spread @ rest.T + ROUNDING * gain @ gain.T  # Joseph's form: positive whatever the rounding
        self.round(seen)
        self.hold_speed()
        self.last = seen

    def hold_speed(self):
        """Takes the speed for one of those that were learnt, where there is only one that it can be."""
        speed = np.hypot(*self.ball[2:])
        slope = np.append([0, 0], self.ball[2:] / speed)
        variance = slope @ self.spread @ slope
        near = [s for s in self.speeds if abs(s - speed) < 3 * np.sqrt(variance) + .05]
        if len(near) != 1 or not KNOWN < variance < .01:
            return
        gain = self.spread @ slope / (variance + KNOWN)
        self.ball = self.ball + gain * (near[0] - speed)
        self.spread = self.spread - np.outer(gain, slope @ self.spread)

    def round(self, seen):
        """Rounding moves nothing by more than half a pixel: where the mean says more, it was too sure."""
        for axis in (0, 1):
            off = seen[axis] - self.ball[axis]
            over = abs(off) - .5
            if over > SURPRISE:
                self.spread += np.diag(np.roll([over, 0, over / 3, 0], axis)) ** 2
            if over > 0:
                self.ball = self.ball + np.copysign(over, off) * self.spread[axis] / self.spread[axis, axis]


class Player:
    """Plays from pictures alone: action = player(picture).

    eyes, paddle    as learnt (learn.py)
    radius          of the paddle's top; None: not known yet, and it hits the ball in any place
    speeds          those that the ball has; what is missing is not held
    log             [(ball's place or None, paddle's place)] of this game, what learn.bounces and learn.ball_speeds look at
    forecasts       [(frame, where the ball comes down, its deviation, the ball's row then, in how many frames)] of this game, for a referee
    """

    def __init__(self, eyes, paddle, radius=None, speeds=(), seed=0):
        self.eyes, self.speed, self.delay, self.radius, self.speeds = eyes, paddle.speed, round(paddle.delay), radius, speeds
        self.world, self.rng, self.half = World(eyes, radius or 100), np.random.default_rng(seed), eyes.paddle_width / 2
        always = [{"qpos": "across", "at": "all"}, {"qpos": "across", "weight": 10}, {"control": True, "at": "all", "weight": .1}]
        options = {"model": paddle_model(), "steps": 10, "parameters": {"actuator_gainprm:across:0": self.speed}, "loss": always,
                   "variables": [{"control": "across", "lower": -1, "upper": 1}]}
        self.mpc = pb.Mpc(options)
        self.begin()

    def begin(self):
        """A new game."""
        self.tracker, self.filter = Tracker(self.eyes, self.speed, self.delay), Filter(self.world, self.speeds)
        self.frame, self.gone, self.bricks = 0, 99, None
        self.flight, self.made, self.patience, self.choice, self.chosen = None, -99, 4, None, None
        self.log, self.forecasts = [], []

    # ---- where it comes down
    def deviation(self):
        """Of where the ball comes down, as far as there is nothing but walls on its way."""
        _, y, vx, vy = self.filter.ball
        if vy <= 0:
            return np.inf
        left = (self.world.height - y) / vy
        slope = np.array([1, -vx / vy, left, -left * vx / vy])
        return float(np.sqrt(max(slope @ self.filter.spread @ slope, 0)))

    def look_ahead(self, changed):
        """The flight to the paddle's row, anew where that is cheap or worth it."""
        ball = self.filter.ball
        clear = ball[3] > 0 and ball[1] > self.world.low
        if changed or clear or self.flight is None or self.frame - self.made >= self.patience:
            try:
                self.flight, self.made = self.world.fly(ball, self.bricks), self.frame
                self.patience = 4 if self.flight.lost else max(4, self.flight.frames // 4)
            except pb.StepError:
                self.flight = None
        return clear

    # ---- where to be
    def places(self, flight):
        """Places of the paddle, by whole frames of its way, that meet the ball and can be reached."""
        here, most = self.tracker.ahead(), max(int(flight.frames) - self.delay, 0)
        places = {self.tracker.move(here, steps) for steps in range(-most, most + 1)}
        return sorted(place for place in places if abs(place - flight.x) <= self.half - EDGE)

    def worth(self, flight, place):
        """Bricks that a place promises, the higher the more, less what makes it risky and slow."""
        try:
            then = self.world.fly(flight.before, self.bricks, place)
        except pb.StepError:  # an end that the model does not know, as a ball between paddle and wall
            return -100
        if then.lost:
            return -50
        gain = sum(1 + .3 * (self.eyes.rows - 1 - k // self.eyes.columns) for k in then.taken[:4])
        missing = abs(then.x - place) / self.speed + self.delay + EARLY - then.frames
        return gain - max(0, missing) - .5 * abs(place - flight.x) / self.half - .004 * then.frames + .2 * self.rng.random()

    def aim(self, flight):
        """The place that promises most, of those that meet the ball."""
        places = self.places(flight)
        if not places:
            return flight.x
        return self.rng.choice(places) if self.radius is None else max(places, key=lambda place: self.worth(flight, place))

    def target(self, clear):
        """Where the paddle is to be: below the ball's end, and where that is known well, at the place that was chosen for it."""
        flight = self.flight
        if flight is None or flight.x is None:
            return (self.eyes.left + self.eyes.right) / 2
        if not clear or self.deviation() > 1.5:
            self.choice = None
            return flight.x
        new = self.choice is None or abs(flight.x - self.chosen[0]) > .4 or self.frame - self.chosen[1] >= 12
        if new and flight.frames > self.delay + 1 and not (self.choice is not None and flight.frames < self.delay + 4):
            self.choice, self.chosen = self.aim(flight), (flight.x, self.frame)
        return flight.x if self.choice is None else self.choice

    def steer(self, target):
        """-1, 0 or 1: the first control of a plan from where the paddle will be, in coordinates in which the target is zero."""
        state = {"qpos": [self.tracker.ahead() - target, 0], "qvel": [0, 0]}
        self.mpc.plan(state, iterations=3)
        return round(float(self.mpc.control(state)[0]))

    # ---- a frame
    def __call__(self, picture):
        seen = self.eyes(picture)
        self.tracker.see(seen.paddle)
        changed = self.bricks is None or not np.array_equal(seen.bricks, self.bricks)
        if self.filter.ball is not None:
            self.filter.predict(self.tracker.place, self.bricks)
        if seen.ball:
            self.filter.see(seen.ball)
        self.gone = 0 if seen.ball or seen.hidden else self.gone + 1
        self.bricks = seen.bricks
        self.log.append((seen.ball, self.tracker.place))
        self.frame += 1

        action = self.act(changed)
        self.tracker.tell({"left": -1, "right": 1}.get(action, 0))
        return action

    def act(self, changed):
        if self.gone > 2:
            self.filter.forget()
            self.flight = self.choice = None
            if self.gone > 2 + 2 * (self.delay + 2):
                self.gone = 3
                return "fire"
        clear = False
        if self.filter.ball is not None:
            clear = self.look_ahead(changed)
            if clear and self.flight is not None and self.flight.x is not None:
                self.forecasts.append((self.frame, self.flight.x, self.deviation(), self.filter.ball[1], self.flight.frames))
        return ("left", "stay", "right")[1 + self.steer(self.target(clear))]
