"""A servo from its log: gain, delay, friction

A servo turns an arm against gravity; its command comes a hundred times a second and acts 13 ms later, its joint rubs, and an encoder is logged
with noise and jitter. Gain, damping, friction and delay are found by `pb.identify` from that log alone, with steps of 2 and of 5 ms, neither of
which divides the delay, which starts at 0 and at 30 ms. The plant is not the engine: it is integrated here with a tenth of the step, the command
delayed exactly, Coulomb's friction without softening. Of each of 20 seeds commands, noise and jitter are its own."""
import numpy as np

from common import below, reported, row

import pullback as pb

MASS, LENGTH, ROTOR, GRAVITY = .6, .3, .02, 9.81  # of the arm a point at its end, and the inertia of the rotor
TRUTH = {"gain": 20., "damping": .8, "friction": .35, "delay": .013}
SECONDS, ENCODER, COMMANDS, SIGMA, JITTER = 6., 500, 100, 1e-3, 1e-3  # s, Hz, Hz, rad, s
STEPS, STARTS, SEEDS, TOLERANCE = (.002, .005), (0., .03), 20, .02
TONES, HEIGHTS = np.array([.4, .9, 1.7, 2.9, 4.3]), np.array([.5, .3, .2, .12, .08])  # of commands: Hz, rad
# Friction that a joint feels is softened: below some speed it is viscous. With 400/s that is .04 rad/s here.
SERVO = """<mujoco><option timestep="{step}" integrator="{integrator}"/><worldbody><body name="arm">
<joint name="joint" axis="0 1 0" armature="{rotor}" frictionloss="1" solreffriction="-1 -400" solimpfriction=".99 .99 .001"/>
<inertial pos="0 0 -{length}" mass="{mass}" diaginertia="1e-9 1e-9 1e-9"/></body></worldbody>
<actuator><general name="servo" joint="joint" biastype="affine" gainprm="10" biasprm="0 -10 -.2"/></actuator></mujoco>"""


def commands(seeds):
    """(times, rows of all seeds)."""
    times = np.arange(round(SECONDS * COMMANDS)) / COMMANDS
    phases = np.stack([np.random.default_rng(s).uniform(0, 2 * np.pi, len(TONES)) for s in seeds])
    return times, (HEIGHTS * np.sin(2 * np.pi * TONES * times[:, None, None] + phases)).sum(-1)


def plant(times, rows_, step):
    """Angles after each step, of all seeds at once: half a step of the angle, a step of the velocity, half a step of the angle."""
    inertia = MASS * LENGTH**2 + ROTOR
    q, v = np.zeros((2, rows_.shape[1]))
    out, drag = [q], TRUTH["damping"] * step / (2 * inertia)
    acts = np.searchsorted(times, (np.arange(round(SECONDS / step)) + .5) * step - TRUTH["delay"], side="right") - 1
    for k in np.maximum(acts, 0):
        q = q + step / 2 * v
        torque = TRUTH["gain"] * (rows_[k] - q) - MASS * GRAVITY * LENGTH * np.sin(q)
        v = ((1 - drag) * v + step * torque / inertia) / (1 + drag)
        held = TRUTH["friction"] * step / inertia / (1 + drag)
        v = v - np.clip(v, -held, held)
        q = q + step / 2 * v
        out.append(q)
    return np.array(out)


def log(seed, times, command, angles, step):
    """The columns of a seed's log: a row for each command and for each sample of the encoder."""
    rng = np.random.default_rng([seed, 1])
    stamps = np.arange(0, SECONDS - 2 * JITTER, 1 / ENCODER)
    stamps = np.sort(stamps + rng.uniform(0, JITTER, len(stamps)))
    both = np.union1d(times, stamps)
    columns = {"time": both, "control:servo": np.full(len(both), np.nan), "joint": np.full(len(both), np.nan)}
    columns["control:servo"][np.searchsorted(both, times)] = command
    seen = np.interp(stamps, np.arange(len(angles)) * step, angles) + SIGMA * rng.standard_normal(len(stamps))
    columns["joint"][np.searchsorted(both, stamps)] = seen
    return columns


def servo(step, integrator="RK4"):
    return SERVO.format(step=step, integrator=integrator, rotor=ROTOR, length=LENGTH, mass=MASS)


def identify(columns, step, integrator="RK4", **delay):
    """From half the gain, a quarter of the damping, three times the friction."""
    unknowns = [{"name": "gain", "start": 10, "lower": .1, "scale": 10, "sets": {"actuator_gainprm:servo:0": "z", "actuator_biasprm:servo:1": "-z"}},
                {"name": "damping", "start": .2, "lower": 0, "sets": {"actuator_biasprm:servo:2": "-z"}},
                {"name": "friction", "parameter": "dof_frictionloss:joint", "start": 1, "lower": 0},
                {"name": "delay", "delay": "controls", "scale": .01, **delay}]
    return pb.identify(servo(step, integrator), columns, unknowns, sigma=SIGMA)


def slope(columns, step, at, size=1e-6):
    """How far the length of the Jacobian's column of the delay, which is one by the deviation told, is from that of differences, relative."""
    seen = ~np.isnan(columns["joint"])

    def evaluated(delay):
        found = pb.identify(servo(step), columns, [{"name": "delay", "delay": "controls", "start": delay}], sigma=SIGMA, start="log",
                            optimizer={"iterations": 0})
        run = found.trajectories[0]
        return np.interp(columns["time"][seen], run["time"], run["qpos"][:, 0]), found.deviations["delay"]
    column = (evaluated(at + size)[0] - evaluated(at - size)[0]) / (2 * size * SIGMA)
    return abs(evaluated(at)[1] * np.linalg.norm(column) - 1)


def of_step(step):
    seeds = range(SEEDS)
    times, rows_ = commands(seeds)
    angles, fine = plant(times, rows_, step / 10), plant(times, rows_[:, :2], step / 20)
    logs = [log(s, times, rows_[:, s], angles[:, s], step / 10) for s in seeds]
    fits = [[identify(columns, step, start=start) for start in STARTS] for columns in logs]
    off = {name: np.array([[fit.values[name] / truth - 1 for fit in pair] for pair in fits]) for name, truth in TRUTH.items()}
    told = {name: np.mean([[fit.deviations[name] / truth for fit in pair] for pair in fits]) for name, truth in TRUTH.items()}
    words = f"step {1e3 * step:g} ms"
    out = [below(f"{words}: half the plant's step moves its angle by, in deviations of the noise", float(np.abs(fine[::2] - angles[:, :2]).max() / SIGMA), .2)]
    for name in ("gain", "delay", "friction"):
        out.append(below(f"{words}: {name}, relative error, worst of {SEEDS} seeds from both starts of the delay", float(np.abs(off[name]).max()), TOLERANCE))
    for name in TRUTH:
        out.append(reported(f"{words}: {name}, mean error, its spread over seeds, the deviation told, all relative",
                            f"{off[name].mean():.4f}, {off[name][:, 0].std():.4f}, {told[name]:.4f}"))
    apart = max(float(np.abs(o[:, 0] - o[:, 1]).max() / told[name]) for name, o in off.items())
    # by a delay the loss has a kink wherever a sample meets a step: a search may end in the next one
    out.append(below(f"{words}: answers of the two starts, largest distance in deviations told", apart, 1))
    out.append(reported(f"{words}: chi-square for each degree of freedom, mean", float(np.mean([f["uncertainty"]["chi_square"] for p in fits for f in p]))))

    # what would be found by less
    multiple = step * round(TRUTH["delay"] / step)
    whole = identify(logs[0], step, start=multiple, lower=multiple - 1e-9, upper=multiple + 1e-9)
    worse = whole["loss"] / fits[0][0]["loss"]
    out.append(row(f"{words}: loss with the nearest delay of whole steps, by that with the one found", worse, ">= 1.05", worse >= 1.05))
    euler = identify(logs[0], step, "implicitfast", start=.01)
    out.append(reported(f"{words}: delay by steps of first order, relative error", euler.values["delay"] / TRUTH["delay"] - 1))
    out.append(below(f"{words}: derivative by the delay, length of its column against differences, relative", slope(logs[0], step, .0213), 1e-6))
    return out


def rows():
    return [one for step in STEPS for one in of_step(step)]
