"""What is learnt from pictures and actions: the paddle's speed and delay, and how its top deflects the ball, by fits of Pullback's models."""
from typing import NamedTuple

import numpy as np

import pullback as pb
from eyes import Eyes
from world import ELASTIC, RADIUS, bounce_model, paddle_model

STEER = {"left": -1.0, "right": 1.0}


class Paddle(NamedTuple):
    speed: float  # pixels a frame, to the right
    drift: float  # pixels a frame downwards, which there should be none of
    delay: float  # frames
    deviation: float  # of the speed


def paddle_row(eyes, picture):
    """Where the paddle's middle is, downwards, of a picture without a ball."""
    inner = picture[eyes.bottom:, eyes.left:eyes.right] == eyes.paddle
    return eyes.bottom + np.flatnonzero(inner.any(axis=1)).mean() + .5


def explore(game, seed, frames):
    """(eyes, actions, places of the paddle's middle) under random actions, away from the walls, which would stop it."""
    rng, picture = np.random.default_rng(seed), game.reset(seed)
    eyes = Eyes(picture)
    places, actions, action, left = [(eyes(picture).paddle, paddle_row(eyes, picture))], [], "stay", 0
    while len(actions) < frames:
        x, y = places[-1]
        if left == 0:
            action, left = str(rng.choice(["left", "right"])), int(rng.integers(2, 24))
        near = .2 * (eyes.right - eyes.left)
        action = "right" if x < eyes.left + near else "left" if x > eyes.right - near else action
        picture = game.act(action)
        actions.append(action)
        places.append((eyes(picture).paddle, paddle_row(eyes, picture)))
        left -= 1
    return eyes, actions, places


def within(half, places):
    """Terms of a fit to places that were rounded: squares of what is off, and what is off by more than rounding can do weighs most."""
    seen = np.array(places, float)
    around = {"squared": (0, 1), "above": (-half, 1e4), "below": (half, 1e4)}
    return [{"qpos": True, "at": list(range(len(seen))), "type": kind, "target": (seen + off).tolist(), "weight": weight}
            for kind, (off, weight) in around.items()]


def fit_paddle(actions, places):
    """The Paddle that fits best: the delay by squares alone, from several to begin with; then, in whole frames, speeds within rounding."""
    steer = [[STEER.get(action, 0.0)] * 2 for action in actions]
    task = {"model": paddle_model(), "steps": len(actions), "init": {"qpos": list(places[0])}, "optimizer": {"method": "gauss-newton"}}
    speeds = [{"name": name, "parameter": f"actuator_gainprm:{name}:0", "start": 1} for name in ("across", "down")]
    speeds.append({"name": "from", "state": "qpos"})
    late = lambda start: {"name": "delay", "delay": "controls", "start": start}
    found = [pb.optimize({**task, "controls": steer, "variables": [*speeds, late(start)], "loss": within(.5, places)[:1]}) for start in range(6)]
    delay = values(min(found, key=lambda f: f["loss"]))["delay"]

    whole = round(delay)
    steer = [[0.0, 0.0]] * whole + steer[:len(steer) - whole]
    found = pb.optimize({**task, "controls": steer, "variables": speeds, "loss": within(.5, places)})
    return Paddle(values(found)["across"], values(found)["down"], delay, found["variables"][0]["deviation"][0])


def values(found):
    return {v["name"]: v["value"][0] for v in found["variables"]}


# ---- how the paddle deflects ------------------------------------------------------------------------------------------
class Bounce(NamedTuple):
    times: np.ndarray  # frames from its first one
    places: np.ndarray  # (n, 2) of the ball, x from the paddle's middle at the hit
    before: np.ndarray  # states (4,) at time 0 as lines through the points before and after show them
    after: np.ndarray


def line(times, places):
    """(state at time 0, largest distance from it) of the line through some places."""
    basis = np.stack([np.ones_like(times), times], axis=1)
    found, *_ = np.linalg.lstsq(basis, places, rcond=None)
    return found.ravel(), np.abs(basis @ found - places).max()


def crossing(eyes, state):
    """(place, time) at which a line passes where the ball touches the paddle's row."""
    time = (eyes.row - RADIUS - state[1]) / state[3]
    return state[0] + time * state[2], time


def bounces(eyes, seen, most=9):
    """The bounces off a paddle at rest among what was seen, [(ball's place or None, paddle's place) a frame], with up to so many places to
    either side on straight ways at one speed."""
    found = []
    for k in range(2, len(seen) - 2):
        near = [seen[i][0] for i in (k - 2, k - 1, k, k + 1)]
        y = [p[1] if p else None for p in near]
        if None in (y[0], y[1], y[3]) or not y[0] < y[1] > eyes.row - 20 or np.ptp([seen[i][1] for i in (k - 1, k, k + 1)]) > .5:
            continue
        hidden = y[2] is None
        if not hidden and not (y[2] < y[1] and y[3] < y[2]):
            continue
        sides = [straight(seen, range(k - 1, -1, -1), most), straight(seen, range(k + 1 if hidden else k, len(seen)), most)]
        if min(map(len, sides)) < 5:
            continue
        times = [np.array(side, float) - sides[0][-1] for side in sides]
        shift = [seen[k][1], 0]
        places = [np.array([seen[i][0] for i in side]) - shift for side in sides]
        (before, off), (after, off_after) = map(line, times, places)
        speed, speed_after, (x, time), (x_after, time_after) = np.hypot(*before[2:]), np.hypot(*after[2:]), crossing(eyes, before), crossing(eyes, after)
        meet = max(off, off_after, abs(x - x_after)) < 1 and abs(time - time_after) < .5  # without a wall between
        if meet and after[3] < 0 < before[3] and abs(speed_after / speed - 1) < .06:
            found.append(Bounce(np.concatenate([times[0][::-1], times[1]]), np.concatenate([places[0][::-1], places[1]]), before, after))
    return found


def straight(seen, frames, most):
    """Numbers of the frames on one straight way, from the first on."""
    way = []
    for i in frames:
        if len(way) == most or seen[i][0] is None:
            break
        if len(way) > 3:
            ahead, _ = line(np.array(way, float), np.array([seen[j][0] for j in way]))
            if np.abs(ahead[:2] + i * ahead[2:] - seen[i][0]).max() > 1.5:
                break
        way.append(i)
    return way


def ball_speeds(seen, least=14, apart=.3):
    """Speeds that the ball has, pixels a frame: means over straight ways of so many frames at least, those that are near one another together."""
    found, k = [], 0
    while k < len(seen):
        way = straight(seen, range(k, len(seen)), 40)
        if len(way) >= least:
            (*_, vx, vy), _ = line(np.array(way, float), np.array([seen[i][0] for i in way]))
            found.append((np.hypot(vx, vy), len(way) ** 3))  # the variance of a slope falls like this
        k += max(len(way), 1)
    found.sort()
    cuts = [k for k in range(1, len(found)) if found[k][0] - found[k - 1][0] > apart]
    groups = [found[a:b] for a, b in zip([0, *cuts], [*cuts, len(found)], strict=True)]
    return [float(np.average([v for v, _ in group], weights=[w for _, w in group])) for group in groups if len(group) > 1]


def fit_arch(row, seen):
    """(radius of the paddle's top, its deviation) from bounces, each with an unknown beginning, through their impacts."""
    trajectories, variables = [], [{"name": "radius", "start": 60, "lower": 8, "upper": 1e4,
                                    "sets": {"geom_size:arch:0": "radius", "geom_pos:arch:1": "row + radius"}, "constants": {"row": row}}]
    for k, bounce in enumerate(seen):
        times = [float(t) for t in bounce.times]
        trajectories.append({"steps": int(times[-1]), "init": {"qpos": list(bounce.before[:2]), "qvel": list(bounce.before[2:])},
                             "loss": [{"qpos": True, "at": times, "target": bounce.places.tolist()}]})
        variables += [{"name": f"{what} {k}", "state": what, "trajectory": k} for what in ("qpos", "qvel")]
    best = None
    for start in (30, 100):
        variables[0]["start"] = start
        found = pb.optimize({"model": bounce_model(row, 60), "trajectories": trajectories, "variables": variables, "contact": ELASTIC,
                             "optimizer": {"method": "gauss-newton", "iterations": 60}})
        best = found if best is None or found["loss"] < best["loss"] else best
    return best["variables"][0]["value"][0], best["variables"][0]["deviation"][0]
