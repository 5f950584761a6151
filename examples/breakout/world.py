"""What the player believes the board to be: models in Pullback, a ball among walls, bricks and a paddle, all impacts elastic."""
import numpy as np

import pullback as pb
from eyes import BRICK

ELASTIC = {"method": "impact", "restitution": 1}
AWAY = -1e4  # where a paddle is that the ball shall pass
BALL = """<body name="ball"><inertial mass="1" pos="0 0 0" diaginertia="1 1 1"/><joint name="x" type="slide" axis="1 0 0"/>
<joint name="y" type="slide" axis="0 1 0"/><geom type="sphere" size="{}" contype="1" conaffinity="0"/></body>"""
SPEC = """<mujoco><option timestep="{}" gravity="0 0 0"/><default><geom condim="1" contype="0" conaffinity="1"/></default>
<worldbody>{}</worldbody>{}</mujoco>"""
RADIUS = 1.0  # of the ball: half of the width of its picture


def paddle_model():
    """A paddle whose speed along x and y is what each of two motors makes of its control within one frame."""
    motors = "".join(f'<general name="{name}" joint="{name}" gainprm="1" biastype="affine" biasprm="0 0 -1"/>' for name in ("across", "down"))
    body = """<body name="paddle"><inertial mass="1" pos="0 0 0" diaginertia="1 1 1"/><joint name="across" type="slide" axis="1 0 0"/>
<joint name="down" type="slide" axis="0 1 0"/></body>"""
    return SPEC.format(1, body, f"<actuator>{motors}</actuator>")


def bounce_model(row, radius):
    """A ball and the paddle's top, an arc about the origin's column that touches the row."""
    return SPEC.format(1, f'<geom name="arch" type="sphere" size="{radius}" pos="0 {row + radius} 0"/>' + BALL.format(RADIUS), "")


class Flight:
    """Of a ball from a state to the paddle's row: where and when it arrives, as it was shortly before, bricks that it takes."""

    def __init__(self):
        self.x = self.frames = self.before = None
        self.taken, self.path, self.lost = [], [], False


class World:
    """The board with a paddle whose top is an arc of some radius. States are (x, y, vx, vy) of the ball, in pixels and frames."""

    def __init__(self, eyes, radius):
        self.eyes, self.height = eyes, eyes.row - RADIUS  # where a ball meets the middle of the paddle
        width, height = BRICK
        corners = [(eyes.left + width * c, eyes.top + height * r) for r in range(eyes.rows) for c in range(eyes.columns)]
        self.centers = np.array(corners, float) + [width / 2, height / 2]
        self.low = eyes.bottom + RADIUS  # below it there are no bricks
        self.around = (f'<geom type="plane" size="1 1 1" pos="{eyes.left} 0 0" zaxis="1 0 0"/><geom type="plane" size="1 1 1" pos="{eyes.right} 0 0" '
                       f'zaxis="-1 0 0"/><geom type="plane" size="1 1 1" pos="0 {eyes.roof} 0" zaxis="0 1 0"/>')
        self.moving = f"""<body name="paddle"><inertial mass="1e9" pos="0 0 0" diaginertia="1 1 1"/><joint name="paddle" type="slide" axis="1 0 0"/>
<geom type="sphere" size="{radius}" pos="0 {eyes.row + radius} 0"/></body>""" + BALL.format(RADIUS)
        self.fine = 8  # steps a frame among bricks: a corner that is cut by less than a step's way is not seen
        self.models = {}

    def model(self, steps, bricks):
        """The model with the bricks that are there, those side by side as one box; steps: a frame."""
        key = steps, bricks.tobytes() if steps > 1 else b""
        if key not in self.models:
            if len(self.models) > 500:
                self.models.clear()
            boxes = self.boxes(bricks) if steps > 1 else ""
            self.models[key] = pb.loads(SPEC.format(1 / steps, self.around + boxes + self.moving, ""), contact=ELASTIC)
        return self.models[key]

    def boxes(self, bricks):
        text = ""
        for row, there in enumerate(bricks):
            edges = np.flatnonzero(np.diff([0, *there, 0]))
            for first, last in edges.reshape(-1, 2):
                x, y = self.eyes.left + BRICK[0] * (first + last) / 2, self.eyes.top + BRICK[1] * (row + .5)
                text += f'<geom type="box" size="{BRICK[0] * (last - first) / 2} {BRICK[1] / 2} 1" pos="{x} {y} 0"/>'
        return text

    def state(self, model, ball, paddle):
        state = model.init()
        state.qpos[:], state.qvel[1:] = [paddle, *ball[:2]], ball[2:]
        return state

    def steps(self, ball, frames=1):
        """How many steps a frame of the next ones has."""
        return 1 if ball[1] - max(0, -ball[3]) * frames > self.low + RADIUS else self.fine

    def run(self, ball, paddle, bricks, frames):
        """States (n, 4) of the ball, from now on, some to each frame; how many, and the paddle's hit among them."""
        steps = self.steps(ball, frames)
        model = self.model(steps, bricks)
        r = model.rollout(self.state(model, ball, paddle), np.zeros((steps * frames, 0)), keep=False)
        return np.hstack([r.qpos[:, 1:], r.qvel[:, 1:]]), steps

    def advance(self, ball, paddle, bricks):
        """(the ball a frame later, its derivative by the ball now (4, 4), by the paddle's place (4,))."""
        steps = self.steps(ball)
        model = self.model(steps, bricks)
        state, total = self.state(model, ball, paddle), np.eye(6)
        for _ in range(steps):
            before = state.qvel.copy()
            after = model.step(state)
            if np.array_equal(before, after.qvel):
                total[:3] += total[3:] / steps
            else:
                total = model.linearize(state)[0] @ total
            state = after
        pick = [1, 2, 4, 5]
        return np.concatenate([state.qpos[1:], state.qvel[1:]]), total[np.ix_(pick, pick)], total[pick, 0]

    def advance_all(self, balls, paddle, bricks):
        """What a frame makes of several balls (n, 4), each alone."""
        steps = self.fine
        model = self.model(steps, bricks)
        states = model.init(batch=len(balls))
        states.qpos[:, 0], states.qpos[:, 1:], states.qvel[:, 1:] = paddle, balls[:, :2], balls[:, 2:]
        last = model.rollout(states, np.zeros((steps, 0)), keep=False).final
        return np.hstack([last.qpos[:, 1:], last.qvel[:, 1:]])

    def brick_at(self, before, after, time, bricks):
        """Number of the brick that made one state of the ball the other within so many frames; None: a wall."""
        jump = before[2:] - after[2:]
        t = jump @ (after[:2] - after[2:] * time - before[:2]) / (jump @ jump)
        place = before[:2] + np.clip(t, 0, time) * before[2:]
        outside = np.maximum(np.abs(self.centers - place) - np.array(BRICK) / 2, 0)
        distance = np.where(bricks.ravel(), np.hypot(*outside.T), np.inf)
        nearest = int(np.argmin(distance))
        return nearest if distance[nearest] < RADIUS + .1 else None

    def fly(self, ball, bricks, paddle=AWAY, longest=200):
        """The Flight of a ball until it comes down to the paddle's row; with a paddle that it meets first, until after that."""
        flight, bricks, frames = Flight(), bricks.copy(), 0.0
        ball, going = np.array(ball, float), paddle != AWAY
        while frames < longest:
            states, steps = self.run(ball, paddle, bricks, 16 if self.steps(ball, 16) == 1 else 4)
            speeds = np.abs(np.diff(states[:, 2:], axis=0)).max(axis=1) > 1e-6
            end, brick = len(states) - 1, None
            for k in np.flatnonzero(speeds) if steps > 1 else ():
                brick = self.brick_at(states[k], states[k + 1], 1 / steps, bricks)
                if brick is not None:
                    end = k + 1
                    break
            down = np.flatnonzero((states[1:end + 1, 1] >= self.height) & (states[1:end + 1, 3] > 0))
            if len(down) and not going:
                k = down[0]
                flight.path += [s[:2] for s in states[:k + 1:steps]]
                rest = (self.height - states[k, 1]) / states[k, 3]
                flight.x, flight.frames = self.fold(states[k, 0] + rest * states[k, 2]), frames + k / steps + rest
                back = max(k - 2 * steps, 0)
                flight.before = states[back]
                return flight
            if going and states[end, 3] < 0:
                going, paddle = False, AWAY
            elif going and states[end, 1] > self.eyes.under:
                break
            if brick is not None:
                flight.taken.append(brick)
                bricks.ravel()[brick] = False
            flight.path += [s[:2] for s in states[:end:steps]]
            ball, frames = states[end], frames + end / steps
        flight.lost = True
        return flight

    def fold(self, x):
        """A place beside the walls, as they mirror it."""
        low, high = self.eyes.left + RADIUS, self.eyes.right - RADIUS
        return high - abs((x - low) % (2 * (high - low)) - (high - low))
