"""What a model lacks, learned: a small network inside the step gives the forces that explain recordings and the physics does not.

A sled with a double pendulum slides on a floor under a medium that drags: quadratically, and against turning. The model knows bodies,
motors, bearings and dry friction, the latter 30 % too small, and nothing of the medium. Its network (docs/policies.md) sees positions,
velocities and controls and acts as forces on the joints; weights and parameters of the physics are slices of one vector, and both
follow from the same gradients through rollouts. Beside it: the model as it is, the model with its parameters fitted to the same data,
and a network of the same size, trained in the same way to give accelerations, without any physics.
Longer, and from five seeds with recordings of their own: case K71 of validation.
"""
import numpy as np

import pullback as pb

STEP, FINE = .01, 4                      # s of the models; the plant takes FINE steps in one of theirs
STEPS, AHEAD = 300, 200                  # 3 s are recorded, 2 s predicted
NOISE = .01                              # of each coordinate's spread
JOINTS = ["x", "upper", "lower"]
SLED = """<mujoco><option timestep="{step}" density="{density}"/>
<worldbody><geom name="floor" type="plane" size="9 9 1" friction="{friction} .05 0"/>
<body name="sled" pos="0 0 .0499999">
  <joint name="x" type="slide" axis="1 0 0"/><joint name="z" type="slide" axis="0 0 1"/>
  <geom type="box" size=".1 .05 .03" mass="1" contype="0" conaffinity="0"/>
  <geom name="foot" size=".02" pos="0 0 -.03" mass=".2" friction="0 0 0"/>
  <body name="thigh" pos="0 .1 0"><joint name="upper" axis="0 1 0" damping=".1"/>
    <geom type="box" pos="0 0 -.15" size=".02 .02 .15" mass=".5" contype="0" conaffinity="0"/>
    <body name="shank" pos="0 0 -.3"><joint name="lower" axis="0 1 0" damping=".1"/>
      <geom type="box" pos="0 0 -.15" size=".02 .02 .15" mass=".4" contype="0" conaffinity="0"/></body></body>
</body></worldbody>
<actuator><motor joint="x"/><motor joint="upper"/></actuator></mujoco>"""
EMPTY = f"<mujoco><option timestep='{STEP}' gravity='0 0 0'/><worldbody>" + "".join(
    f"<body><joint name='{name}' type='{kind}'/><inertial pos='0 0 0' mass='1' diaginertia='1 1 1'/></body>"
    for name, kind in zip(JOINTS, ("slide", "hinge", "hinge"))) + "</worldbody></mujoco>"
DENSITY, FRICTION, KNOWN = 40, .5, .35  # kg/m3 and friction of the plant, and the friction that the model takes it to have
PUSH = np.array([16, .8])                # N, N m: size of the controls
SPEED = np.array([1.5, 3, 3])            # m/s, rad/s: of the starts, at most
FORCE, ACCELERATION = [5, 1, .5], [10, 40, 40]  # of one unit of the network's outputs
PHYSICS = {"geom_friction:floor:0": .1, "body_mass:sled": .5, "body_mass:thigh": .1, "body_mass:shank": .1, "dof_armature:upper": .01,
           "dof_armature:lower": .01, "dof_damping:x": 2, "dof_damping:upper": .1, "dof_damping:lower": .1}  # parameters, and units of their steps


# ---- models ---------------------------------------------------------------------------------------------------------------
def network(unit, seed, width=16):
    """A policy of two hidden layers and a linear path beside them, which at first does nothing."""
    shares = [f"x5/{PUSH[0]}", f"x6/{PUSH[1]}"]
    seen = ["sin(x0)", "cos(x0)", "sin(x0 + x1)", "cos(x0 + x1)", "x2/2", "x3/5", "x4/8", "x2*abs(x2)/4", "x3*abs(x3)/25", "x4*abs(x4)/64"]
    last = {"dense": len(JOINTS), "init": "zero"}
    hidden = [{"dense": width, "activation": "tanh"}, {"dense": width, "activation": "tanh"}]
    return {"observe": [{"qpos": JOINTS[1:]}, {"qvel": JOINTS}, {"command": len(PUSH)}], "output": {"force": JOINTS}, "seed": seed,
            "layers": [{"formula": seen + shares}, {"sum": [[last], [*hidden, last]]}, {"scale": unit}]}


def sled(friction=KNOWN, step=STEP, density=0, policy=None):
    return pb.loads(SLED.format(step=step, density=density, friction=friction), contact={"method": "cones"}, policy=policy)


def hybrid(friction, seed):
    """The sled with a residual: the model, and the names of what is learned."""
    model = sled(friction, policy=network(FORCE, seed))
    return model, [*weights(model), *PHYSICS]


def pure(seed):
    """The network alone, on joints of mass 1 that nothing else acts on."""
    model = pb.loads(EMPTY, policy=network(ACCELERATION, seed))
    return model, weights(model)


def weights(model):
    return [name for name in model.params if name.startswith("policy")]


def start(model, names):
    return {name: np.array(model.params[name]) for name in names}


def places(model):
    return [model.joint(name).qvel.start for name in JOINTS]


# ---- data -----------------------------------------------------------------------------------------------------------------
class Recordings:
    """Motions of a plant under random controls. true: its states (B, STEPS + 1, 6), qpos and qvel of JOINTS; seen: with noise."""

    def __init__(self, plant, count, rng, speed=1., push=1., spread=None):
        t = np.arange(STEPS) * STEP
        waves = lambda low, high: rng.uniform(low, high, (count, 1, len(PUSH), 3))
        turns = waves(.2, 1.2) * t[:, None, None] + waves(0, 1)
        self.ctrl = push * PUSH * (waves(.4, .8) * np.sin(2 * np.pi * turns)).sum(-1)
        s = plant.init(batch=count)
        s.qpos[:, places(plant)[1:]] = rng.uniform(-.8, .8, (count, 2))
        s.qvel[:, places(plant)] = speed * SPEED * rng.uniform(-1, 1, (count, len(JOINTS)))
        r = plant.rollout(s, np.repeat(self.ctrl, FINE, axis=1), keep=False)
        self.true = np.concatenate([a[:, ::FINE, places(plant)] for a in (r.qpos, r.qvel)], axis=-1)
        self.spread = self.true.std(axis=(0, 1)) if spread is None else spread
        self.seen = self.true + NOISE * self.spread * rng.normal(size=self.true.shape)


def recordings(seed, density=DENSITY, friction=FRICTION):
    """20 recordings to train with, 5 to choose by, 10 held out, and 10 about twice as fast."""
    rng, plant = np.random.default_rng(seed), sled(friction, STEP / FINE, density)
    train = Recordings(plant, 20, rng)
    return train, *(Recordings(plant, count, rng, *faster, train.spread) for count, *faster in ((5, 1, 1), (10, 1, 1), (10, 2.4, 1.7)))


# ---- predictions and learning -----------------------------------------------------------------------------------------------
def predict(model, first, ctrl, params, **options):
    """Rollouts from states (B, 6) under controls (B, N, 2): (rollout, states (B, N + 1, 6))."""
    s = model.init(batch=len(first))
    s.qpos[:, places(model)], s.qvel[:, places(model)] = np.split(first, 2, axis=1)
    told = {"command": ctrl} if weights(model) else {}
    r = model.rollout(s, ctrl if model.nu else None, params=params, threads=1, **told, **options)
    return r, np.concatenate([a[..., places(model)] for a in (r.qpos, r.qvel)], axis=-1)


def error(model, params, data, ahead=AHEAD, measured=False):
    """RMS of predictions so many steps ahead, in spreads, from the starts that were set and against the truth; or from and against what was
    measured. inf where they diverge."""
    states = (data.seen if measured else data.true)[:, :ahead + 1]
    try:
        found = predict(model, states[:, 0], data.ctrl[:, :ahead], params, keep=False)[1]
    except pb.StepError:
        return np.inf
    return float(np.sqrt(np.mean(((found - states)[:, 1:] / data.spread)**2)))


def slope(model, params, data, rng, worlds=40, window=25):
    """Mean squared error of short predictions from measured states in the midst of recordings, and its gradient by all parameters."""
    row, at = rng.integers(len(data.seen), size=worlds), rng.integers(STEPS - window + 1, size=worlds)
    cut = lambda a, length: a[row[:, None], at[:, None] + np.arange(length)]
    seen = cut(data.seen, window + 1)
    r, found = predict(model, seen[:, 0], cut(data.ctrl, window), params)
    off = (found - seen) / data.spread
    bars = [np.zeros(a.shape) for a in (r.qpos, r.qvel)]
    for bar, part in zip(bars, np.split(2 * off / data.spread / off.size, 2, axis=-1)):
        bar[..., places(model)] = part
    return float(np.mean(off**2)), r.vjp(qpos=bars[0], qvel=bars[1], check=False).params


def train(model, names, fit_to, choose_by, seed, rate, updates, every=20):
    """Adam; of every so many updates the best, by predictions of recordings set apart: (its error there, parameters)."""
    rng, p = np.random.default_rng(seed), start(model, names)
    unit = {name: PHYSICS.get(name, 1) for name in names}
    least = {name: model.params.about(name).lower for name in names}
    first, second = ({name: np.zeros_like(p[name]) for name in names} for _ in range(2))
    best = (error(model, p, choose_by, measured=True), p)
    for k in range(1, updates + 1):
        g = {name: a * unit[name] for name, a in slope(model, p, fit_to, rng)[1].items()}
        shorter = min(1, 1 / np.sqrt(sum(np.sum(a**2) for a in g.values())))
        p, now = dict(p), rate * min(1, 2 * (1 - k / (updates + 1)))  # a constant rate, falling to zero in the second half
        for name in names:
            a = shorter * g[name]
            first[name], second[name] = .9 * first[name] + .1 * a, .99 * second[name] + .01 * a**2
            move = first[name] / (1 - .9**k) / (np.sqrt(second[name] / (1 - .99**k)) + 1e-8)
            p[name] = np.maximum(p[name] - now * unit[name] * move, least[name])
        if k % every == 0:
            best = min(best, (error(model, p, choose_by, measured=True), p), key=lambda pair: pair[0])
    return best


def share(model, params, data):
    """How large the residual's part of the accelerations is beside that of the physics: RMS in spreads, along recordings."""
    states, ctrl = data.true[:, :-1:10].reshape(-1, 2 * len(JOINTS)), data.ctrl[:, ::10].reshape(-1, 1, len(PUSH))
    none = {name: np.zeros_like(a) if name.startswith("policy") else a for name, a in params.items()}
    speeds = [predict(model, states, ctrl, p, keep=False)[1][:, 1, len(JOINTS):] for p in (none, params)]
    rms = lambda a: np.sqrt(np.mean((a / data.spread[len(JOINTS):])**2))
    return float(rms(speeds[1] - speeds[0]) / rms(speeds[0] - states[:, len(JOINTS):]))


def differences(model, names, data, size=1e-5):
    """How far the gradient by all that is learned is from differences, along a random direction."""
    rng, p = np.random.default_rng(0), start(model, names)
    p = {name: a + .1 * PHYSICS.get(name, 1) * rng.random(a.shape) for name, a in p.items()}
    way = {name: PHYSICS.get(name, 1) * rng.normal(size=a.shape) for name, a in p.items()}
    at = lambda s: slope(model, {name: p[name] + s * way[name] for name in names}, data, np.random.default_rng(1))
    along = sum(np.sum(g * way[name]) for name, g in at(0)[1].items())
    return abs((at(size)[0] - at(-size)[0]) / (2 * size) / along - 1)


def main():
    fit_to, choose_by, held_out, fast = recordings(0)
    model, names = hybrid(KNOWN, seed=0)
    apart = differences(model, names, fit_to)
    print(f"gradient by {sum(model.params[n].size for n in names)} weights and parameters against differences: {apart:.1e}")

    cases = {"model": (sled(), []), "model, fitted": (sled(), list(PHYSICS)), "hybrid": (model, names), "network alone": pure(seed=0)}
    found = {}
    for name, (m, learned) in cases.items():
        params = train(m, learned, fit_to, choose_by, 0, .03, updates=150)[1] if learned else {}
        found[name] = error(m, params, held_out)
        print(f"{name:14} error over 2 s {found[name]:.4f} of the spread; over 1 s at twice the speed {error(m, params, fast, AHEAD // 2):.4f}")
    assert apart < 1e-6 and found["hybrid"] < found["model"] / 5 and found["hybrid"] < min(found["network alone"], found["model, fitted"]) / 1.5
    return found


if __name__ == "__main__":
    main()
