"""Inverse dynamics learned through the step

A network is told a state of an arm and the state a step later, and gives the torques: fitted to pairs of both with their torques, or trained through
the steps, without these: it drives the arm along the same trajectories for a quarter of a second, and what is asked is that their states come out.
Judged by use: it follows trajectories that were held out for a second, each state the next one's start. What a pair says of the change of
velocity it says twice, by velocities and by positions over the time step, equal on every pair but not where the arm is off its way: networks see one or the
other, and the fit is judged by its better one."""
import numpy as np

from common import below, reported

import pullback as pb

H, STEPS, WINDOW, UPDATES, RATE, BATCH, WIDTH = .01, 100, 25, 600, 3e-3, 256, 64
TRAJECTORIES, SEEDS, TESTED = (2, 8, 32), (1, 2, 3), 20
TORQUE = np.array([12, 25, 8, 1])  # N m, of the recordings
N = len(TORQUE)
LINK = '<joint name="{name}" axis="0 1 0" damping="{damping}"/><geom type="capsule" size="{radius}" fromto="0 0 0 {length} 0 0" mass="{mass}"/>'
ARM = f"""<mujoco><option timestep="{H}" integrator="implicitfast"/><default><geom contype="0" conaffinity="0"/></default><worldbody>
  <body pos="0 0 1"><joint name="turn" axis="0 0 1" damping=".5" armature=".02"/>{LINK.format(name="shoulder", damping=.5, radius=.04, length=.4, mass=3)}
    <body pos=".4 0 0">{LINK.format(name="elbow", damping=.2, radius=.03, length=.3, mass=1)}
      <body pos=".3 0 0">{LINK.format(name="wrist", damping=.02, radius=.02, length=.15, mass=.2)}</body></body></body></worldbody></mujoco>"""
# What a torque is here shows as a velocity: the same network, and nothing between it and what it is fitted to.
PLAIN = f"<mujoco><option timestep='{H}' gravity='0 0 0'/><worldbody>" + "".join(
    f"<body><joint name='j{k}'/><inertial pos='0 0 0' mass='1' diaginertia='1 1 1'/></body>" for k in range(N)) + "</worldbody></mujoco>"


class Recordings:
    """Trajectories under torques that are sums of sines: q, v (count, STEPS + 1, N), torques (count, STEPS, N)."""

    def __init__(self, count, seed):
        rng, plant = np.random.default_rng(seed), pb.loads(ARM)
        waves = lambda low, high: rng.uniform(low, high, (count, 1, N, 3))
        turns = waves(.2, 3) * H * np.arange(STEPS)[:, None, None] + waves(0, 1)
        self.torque = TORQUE * (waves(.2, .6) * np.sin(2 * np.pi * turns)).sum(-1)
        s = plant.init(batch=count)
        s.qpos[:], s.qvel[:] = rng.uniform(-1, 1, (count, N)), rng.uniform(-1, 1, (count, N)) * [1, 1, 2, 3]
        r = plant.rollout(s, qfrc_applied=self.torque, keep=False)
        self.q, self.v = np.array(r.qpos), np.array(r.qvel)

    def spreads(self):
        """Of q, v, its change in a step, and torques."""
        return [a.std((0, 1)) for a in (self.q, self.v, np.diff(self.v, axis=1), self.torque)]


def network(data, seed, by):
    """Of q, v and what is told: the next q and v. The change of velocity is seen by velocities ("v") or positions ("q")."""
    _, speed, change, torque = data.spreads()
    seen = [f"{f}(x{k})" for k in range(1, N) for f in ("sin", "cos")] + [f"x{N + k}/{speed[k]}" for k in range(N)]
    then = "x{3}" if by == "v" else f"(x{{2}} - x{{0}})/{H}"
    seen += [f"({then.format(k, N + k, 2 * N + k, 3 * N + k)} - x{N + k})/{change[k]}" for k in range(N)]
    hidden = {"dense": WIDTH, "activation": "tanh"}
    return {"observe": [{"qpos": True}, {"qvel": True}, {"command": 2 * N}], "output": {"force": True}, "seed": seed,
            "layers": [{"formula": seen}, hidden, hidden, {"dense": N, "gain": .1}, {"scale": list(torque)}]}


def rolled(model, params, q, v, then_q, then_v, keep=False):
    """From q, v (worlds, N), told what is next: (worlds, steps, N) each."""
    s = model.init(batch=len(q))
    s.qpos[:], s.qvel[:] = q, v
    return model.rollout(s, command=np.concatenate([then_q, then_v], axis=-1), params=params, threads=1, keep=keep)


def adam(model, slope, seed):
    """Its weights after so many updates by slope(params, names, rng), which gives the gradient."""
    names = [name for name in model.params if name.startswith("policy.")]
    p, rng = {name: np.array(model.params[name]) for name in names}, np.random.default_rng(seed)
    first, second = ({name: np.zeros_like(p[name]) for name in names} for _ in range(2))
    for k in range(1, UPDATES + 1):
        g = slope(p, names, rng)
        shorter = min(1, 1 / np.sqrt(sum(np.sum(a**2) for a in g.values())))
        now = RATE * min(1, 2 * (1 - k / (UPDATES + 1)))
        for name in names:
            a = shorter * g[name]
            first[name], second[name] = .9 * first[name] + .1 * a, .999 * second[name] + .001 * a**2
            p[name] = p[name] - now * first[name] / (1 - .9**k) / (np.sqrt(second[name] / (1 - .999**k)) + 1e-8)
    return p


def fitted(data, seed, by):
    """To torques, each in its spread: the mean square of what is off."""
    model, torque = pb.loads(PLAIN, policy=network(data, seed, by)), data.spreads()[3]

    def slope(p, names, rng):
        i, k = rng.integers(len(data.q), size=BATCH), rng.integers(STEPS, size=BATCH)
        r = rolled(model, p, data.q[i, k], data.v[i, k], data.q[i, k + 1][:, None], data.v[i, k + 1][:, None], keep=True)
        off, bar = ((r.qvel[:, 1] - data.v[i, k]) / H - data.torque[i, k]) / torque, np.zeros(r.qvel.shape)
        bar[:, 1] = 2 * off / torque / H / off.size
        return r.vjp(qvel=bar, wrt=names, check=False).params
    return adam(model, slope, seed)


def through(data, seed, by):
    """By states of windows, each in its spread, through the steps; as many decisions an update as the fit has pairs."""
    model, (place, speed, *_) = pb.loads(ARM, policy=network(data, seed, by)), data.spreads()

    def slope(p, names, rng):
        worlds = BATCH // WINDOW
        at = rng.integers(STEPS - WINDOW + 1, size=worlds)[:, None] + np.arange(WINDOW + 1)
        i = rng.integers(len(data.q), size=worlds)[:, None]
        q, v = data.q[i, at], data.v[i, at]
        r = rolled(model, p, q[:, 0], v[:, 0], q[:, 1:], v[:, 1:], keep=True)
        return r.vjp(qpos=2 * (r.qpos - q) / place**2 / q.size, qvel=2 * (r.qvel - v) / speed**2 / q.size, wrt=names, check=False).params
    return adam(model, slope, seed)


def errors(data, seed, by, params, test):
    """RMS in spreads: of positions and of velocities on the way of a second; of the change of velocity in one step from where it should be; of torques."""
    policy, (place, speed, change, torque) = network(data, seed, by), test.spreads()
    arm, plain = pb.loads(ARM, policy=policy), pb.loads(PLAIN, policy=policy)
    rms = lambda off, spread: float(np.sqrt(np.mean((off / spread)**2)))
    r = rolled(arm, params, test.q[:, 0], test.v[:, 0], test.q[:, 1:], test.v[:, 1:])
    flat = lambda a: a.reshape(-1, N)
    pairs = flat(test.q[:, :-1]), flat(test.v[:, :-1]), flat(test.q[:, 1:])[:, None], flat(test.v[:, 1:])[:, None]
    step, given = (rolled(m, params, *pairs).qvel[:, 1] for m in (arm, plain))
    return rms(r.qpos - test.q, place), rms(r.qvel - test.v, speed), rms(step - pairs[3][:, 0], change), rms((given - pairs[1]) / H - flat(test.torque), torque)


def rows():
    out, test = [], Recordings(TESTED, 0)
    for count in TRAJECTORIES:
        found, recorded = {}, {seed: Recordings(count, seed) for seed in SEEDS}
        for way in (fitted, through):
            for by in "vq":
                found[way, by] = np.median([errors(data, seed, by, way(data, seed, by), test) for seed, data in recorded.items()], axis=0)
        fit, own = (min((found[way, by] for by in "vq"), key=lambda f: f[0]) for way in (fitted, through))
        for name, f in (("fitted to pairs", fit), ("trained through the step", own)):
            out.append(reported(f"{count} trajectories, {name}: positions, velocities over 1 s; velocity of one step; torque, in spreads, medians of 3 seeds",
                                ", ".join(f"{x:.3f}" for x in f)))
        out.append(below(f"{count} trajectories: error of positions over 1 s, through the step by fitted", own[0] / fit[0], .5))
        out.append(reported(f"{count} trajectories: error of velocities over 1 s, through the step by fitted", own[1] / fit[1]))
    return out
