"""Other cars: friction of the road, and where they go

Cars on a wet winding road are watched from above: their places, with noise, 25 times a second, and nothing else. A car on one track with a
formula of its tires and a driver who looks ahead on the road, in the step as a policy, is fitted to tracks of some cars: friction of the
road, stiffness of the tires, how far drivers look ahead, and of each car where it began, what speed and which side of the lane its driver
likes, how much further ahead than others. Then other cars are watched for two seconds in curves, and predicted for three more. The plant is
not the engine: four wheels, each with its slip and share of a limited grip, a steering that lags, drivers who differ and whose hands shake."""
import numpy as np

from common import below, reported, row

import pullback as pb

GRAVITY, MASS, TURN = 9.81, 1500., 2500.  # kg, kg m^2
FRONT, REAR, TRACK = 1.2, 1.5, 1.5  # m: axles ahead of and behind the center, between wheels
BASE, SHAPE, PULL, LAG, SHAKE = FRONT + REAR, 1.4, 2000., .05, .002  # m; of the tires; N s/m; s of the steering; rad of the hand
TRUTH, START = {"friction": .45, "stiffness": 9., "preview": .9}, (.8, 15., 1.2)  # preview: s
BOUNDS = {"friction": (.05, 1.5, .3), "stiffness": (1, 40, 8), "preview": (.2, 3, 1)}  # and scale
WAVES = ((6., 120., 0.), (1.5, 75., 1.))  # of the road: amplitude, length, phase
SPEEDS, ASIDE, DIFFERENT = (11.3, 13.2), .3, .05  # m/s, m, of the preview
STEP, FINE, NOISE, RATE = .02, .004, .05, 25  # s, s, m, Hz
LONG = "five minutes"
CARS, SECONDS, HELD, SEEN, AHEAD, SEEDS = 18, 6., 6, 2., 3., 4
PARTS = ((1.5, 8), (3, 8), (SECONDS, 60))  # of the tracks, s, and iterations
CAR = f"""<mujoco><option timestep="{STEP}" gravity="0 0 0"><flag contact="disable"/></option><worldbody><body name="car">
<joint name="x" type="slide" axis="1 0 0"/><joint name="y" type="slide" axis="0 1 0"/><joint name="yaw" type="hinge" axis="0 0 1"/>
<inertial pos="0 0 0" mass="{MASS:g}" diaginertia="{TURN:g} {TURN:g} {TURN:g}"/></body></worldbody><actuator>
<general name="speed" joint="x" dyntype="integrator" gainprm="0"/><general name="side" joint="y" dyntype="integrator" gainprm="0"/>
<general name="care" joint="y" dyntype="integrator" gainprm="0"/></actuator></mujoco>"""


# ---- the plant ------------------------------------------------------------------------------------------------------------------
def road(x, derivative=0):
    """How far to the left the road lies at x, its slope, its second derivative."""
    return sum(a * (2 * np.pi / w)**derivative * np.sin(2 * np.pi * x / w + p + derivative * np.pi / 2) for a, w, p in WAVES)


def wheels(u, v, r, steer, pull):
    """Force ahead, to the left, and torque of four wheels of the same load in pairs, each within its circle of friction."""
    total = np.zeros((3, len(u)))
    for ahead, load in ((FRONT, REAR), (-REAR, FRONT)):
        for left in (TRACK / 2, -TRACK / 2):
            d, most = steer if ahead > 0 else 0 * steer, TRUTH["friction"] * MASS * GRAVITY * load / (2 * BASE)
            a, b, c, s = u - r * left, v + r * ahead, np.cos(d), np.sin(d)
            slip = np.arctan2(b * c - a * s, a * c + b * s)
            along = most / 2 * np.tanh(pull / 4 / (most / 2))
            side = -np.sqrt(most**2 - along**2) * np.sin(SHAPE * np.arctan(TRUTH["stiffness"] * slip))
            x, y = along * c - side * s, along * s + side * c
            total += [x, y, ahead * y - left * x]
    return total


def plant(rng, cars, seconds):
    """States of cars (times, 7, cars): x, y, yaw, velocity ahead and to the left, rate of yaw, steering."""
    speed, aside = rng.uniform(*SPEEDS, cars), ASIDE * rng.standard_normal(cars)
    far = speed * TRUTH["preview"] * (1 + DIFFERENT * rng.standard_normal(cars))
    x, hand, out = rng.uniform(0, 600, cars), np.zeros(cars), []
    slope = road(x, 1)
    s = np.array([x, road(x) + aside, np.arctan(slope), speed, 0 * x, speed * road(x, 2) / (1 + slope**2)**1.5, 0 * x])

    def rate(s):
        x, y, yaw, u, v, r, steer = s
        there = x + far * np.cos(yaw)
        off = np.arctan2(road(there) + aside - y, there - x) - yaw
        want = np.clip(np.arctan(2 * BASE * np.sin(off) / far) + hand, -.5, .5)
        fx, fy, torque = wheels(u, v, r, steer, PULL * (speed - u))
        return np.array([u * np.cos(yaw) - v * np.sin(yaw), u * np.sin(yaw) + v * np.cos(yaw), r,
                         fx / MASS + v * r, fy / MASS - u * r, torque / TURN, (want - steer) / LAG])
    for _ in range(round(seconds / FINE) + 1):
        out.append(s)
        hand = (1 - 2 * FINE) * hand + SHAKE * np.sqrt(4 * FINE) * rng.standard_normal(cars)
        s = s + FINE * rate(s + FINE / 2 * rate(s))
    return np.array(out)


def watched(states, rng, seconds):
    """(times, places (cars, times, 2) with noise) of the first seconds."""
    every = round(1 / RATE / FINE)
    places = np.moveaxis(states[:round(seconds / FINE) + 1:every, :2], 2, 0)
    return np.arange(places.shape[1]) / RATE, places + NOISE * rng.standard_normal(places.shape)


# ---- the model ------------------------------------------------------------------------------------------------------------------
def layers(friction, stiffness, preview):
    """The driver, who steers and drives; the tires of both axles; their forces along x and y and torque."""
    lies = " + ".join(f"{a}*sin({2 * np.pi / w!r}*px + {p})" for a, w, p in WAVES)
    steers = (f"far = p0*(1 + x8)*x6; px = x0 + far*cos(x2); py = {lies} + x7; off = atan2(py - x1, px - x0) - x2; "
              f"max(-0.5, min(0.5, atan({2 * BASE!r}*sin(off)/far)))")
    ahead, aside = "(x3*cos(x2) + x4*sin(x2))", "(x4*cos(x2) - x3*sin(x2))"
    # now x0, ...: yaw, velocity ahead and to the left, rate of yaw, steering, pull
    driver = ["x2", ahead, aside, "x5", steers, f"{PULL / 2!r}*(x6 - {ahead})"]

    tires = ["x0", "x4"]
    slips = (f"a = x2 + {FRONT}*x3; s = atan2(a*cos(x4) - x1*sin(x4), x1*cos(x4) + a*sin(x4))", f"s = atan2(x2 - {REAR}*x3, x1)")
    for load, slip in zip((REAR, FRONT), slips):
        along = f"m = p0*{MASS * GRAVITY * load / BASE!r}; e = exp(-4*x5/m); l = 0.5*m*(1 - e)/(1 + e)"
        tires += [f"{along}; l", f"{along}; {slip}; -sqrt(m*m - l*l)*sin({SHAPE}*atan(p1*s))"]
    fx, fy, front = "(x2*cos(x1) - x3*sin(x1) + x4)", "(x2*sin(x1) + x3*cos(x1) + x5)", "(x2*sin(x1) + x3*cos(x1))"
    force = [f"{fx}*cos(x0) - {fy}*sin(x0)", f"{fx}*sin(x0) + {fy}*cos(x0)", f"{FRONT}*{front} - {REAR}*x5"]
    return [{"name": "driver", "formula": driver, "parameters": [preview]},
            {"name": "tires", "formula": tires, "parameters": [friction, stiffness]}, {"formula": force}]


def task(times, places, parameters, unknown=True, ahead=0., iterations=25):
    """The fit to some tracks: of each car its start and driver, and, if unknown, what all cars share."""
    variables = [{"name": name, "parameter": f"policy.{layer}.parameter", "components": [k], "lower": lower, "upper": upper, "scale": scale}
                 for (name, (lower, upper, scale)), (layer, k) in zip(BOUNDS.items(), (("tires", 0), ("tires", 1), ("driver", 0))) if unknown]
    trajectories = []
    for k, track in enumerate(places):
        x, y = (np.polynomial.polynomial.polyfit(times[times <= 1], one[times <= 1], 2) for one in track.T)
        speed = float(np.hypot(x[1], y[1]))
        turning = 2 * (x[1] * y[2] - y[1] * x[2]) / speed**2
        trajectories.append({"steps": round((times[-1] + ahead) / STEP),
                             "init": {"qpos": [x[0], y[0], np.arctan2(y[1], x[1])], "qvel": [x[1], y[1], turning], "act": [speed, 0, 0]},
                             "loss": [{"qpos": ["x", "y"], "at": times.tolist(), "target": track.tolist(), "sigma": NOISE}]})
        variables += [{"name": f"{word} {k}", "state": word, "trajectory": k, **({"prior": {"sigma": [1, ASIDE, DIFFERENT]}} if word == "act" else {})}
                      for word in ("qpos", "qvel", "act")]
    policy = {"observe": [{"qpos": ["x", "y", "yaw"]}, {"qvel": ["x", "y", "yaw"]}, {"act": True}],
              "layers": layers(*parameters), "output": {"force": ["x", "y", "yaw"]}}
    return {"model": CAR, "policy": policy, "trajectories": trajectories, "variables": variables, "uncertainty": unknown,
            "optimizer": {"method": "gauss-newton", "iterations": iterations}}


def fitted(times, places):
    """First to the beginnings of the tracks, then to longer and longer parts of them."""
    found = None
    for part, iterations in PARTS:
        now = times <= part + 1e-9
        found = pb.optimize(task(times[now], places[:, now], START, iterations=iterations), start=found)
    return found


def predicted(times, places, parameters):
    """Where each car is at the end."""
    found = pb.optimize(task(times, places, parameters, unknown=False, ahead=AHEAD))
    return np.array([one["qpos"][-1, :2] for one in found.trajectories])


def straight(times, places, window):
    """By a constant velocity, that of the last seconds seen."""
    late = times >= times[-1] - window - 1e-9
    line = lambda one: np.polyval(np.polyfit(times[late], one[late], 1), times[-1] + AHEAD)
    return np.array([[line(one) for one in track.T] for track in places])


def of_seed(seed):
    """By name: off by and deviation told, mean errors after three seconds by the fit and by constant velocity, turns, grip used."""
    rng = np.random.default_rng([seed, 18])
    found = fitted(*watched(plant(rng, CARS, SECONDS), rng, SECONDS))
    shared = found["variables"][:len(BOUNDS)]
    values = [v["value"][0] for v in shared]
    off = {v["name"]: (v["value"][0] / TRUTH[v["name"]] - 1, v["deviation"][0] / TRUTH[v["name"]]) for v in shared}
    states = plant(rng, HELD, SEEN + AHEAD)
    times, places = watched(states, rng, SEEN)
    error = lambda ends: float(np.linalg.norm(ends - states[-1, :2].T, axis=1).mean())
    coming = states[round(SEEN / FINE):]
    grip = np.abs(states[:, 3] * states[:, 5]).max(0) / (TRUTH["friction"] * GRAVITY)
    return {"off": off, "fit": error(predicted(times, places, values)),
            "straight": min(error(straight(times, places, window)) for window in (.5, 1, 2)),
            "turn": float(np.degrees(np.ptp(coming[:, 2], axis=0)).mean()), "grip": float(grip.mean()), "chi": found["uncertainty"]["chi_square"]}


def rows():
    seeds = [of_seed(seed) for seed in range(SEEDS)]
    each = lambda key: ", ".join(f"{s[key]:.2f}" for s in seeds)
    out = [below(f"friction, relative error, worst of {SEEDS} seeds, from {START[0]:g} where it is {TRUTH['friction']:g}",
                 max(abs(s["off"]["friction"][0]) for s in seeds), .05)]
    for name in TRUTH:
        both = ", ".join(f"{s['off'][name][0]:.3f} ({s['off'][name][1]:.3f})" for s in seeds)
        out.append(reported(f"{name}: relative error and deviation told, of each seed", both))
    worst, turn = max(s["fit"] / s["straight"] for s in seeds), min(s["turn"] for s in seeds)
    out += [below("error after 3 s of cars seen for 2 s, by that of the best constant velocity, worst of the seeds", worst, .5),
            reported("error after 3 s, m: by the fit", each("fit")),
            reported("... by constant velocity, the best of those of the last .5, 1, 2 s", each("straight")),
            row("turn of the cars in the predicted seconds, degrees, mean, least of the seeds", turn, ">= 10", turn >= 10),
            reported("lateral acceleration of the predicted cars by what friction can hold, mean of their largest", each("grip")),
            reported("chi-square for each degree of freedom: the plant is another model", each("chi"))]
    return out
