"""Arm reaches a point within the limits of its servos

A network of 17 284 weights sees how far the hand is from (.5, .5, .5) and gives the set-points of four servos, which turn no faster than
45 degrees a second and pull no harder than 200 or 600 N m, both at every step. All weights are learned by gradients through the closed
loop of 8 s; case R3B is the same without gradients. (The source states 10 and 30 N m, of which its engine made 20
times as much, one share in every iteration of its solver: with 10 and 30 nothing can hold the hand at that place.)"""

import numpy as np

import arm
from common import below, near, reported, row
import inside

TARGET, TORQUES, SEEDS = np.array([.5, .5, .5]), (200, 600), range(5)
FIRST, LAST = arm.STEPS // 2, arm.STEPS - 100  # learned from the last 4 s, tested in the last
DISTANCE = "sqrt((x0 - 0.5)^2 + (x1 - 0.5)^2 + (x2 - 0.5)^2)"


def closed_loop(torque, seed, every=1):
    n = inside.native
    m = arm.load(torque)
    relu, dense = {"kind": n.pb_layerActivation, "activation": n.pb_activationRelu}, {"kind": n.pb_layerDense, "size": 128, "gain": 2**.5}
    last = {"kind": n.pb_layerDense, "size": 4, "init": n.pb_initZero}
    arm.set_policy(m, 3, [{"kind": n.pb_layerFormula, "formula": [DISTANCE], "formulas": 1}, dense, relu, dense, relu, last],
                   [{"kind": n.pb_observeSitePosition, "object": b"hand"}], seed, every)
    return m


class Reach:
    """The mean squared distance over the last 4 s as a function of all weights, and what every evaluation came to."""

    def __init__(self, torque, seed):
        self.m = closed_loop(torque, seed)
        self.at, self.rollout, self.x0 = arm.weights(self.m), inside.Rollout(self.m, arm.STEPS), self.m.init()
        self.rollout.want([name for name in self.m.params if name.startswith("policy.")])
        self.hand, self.states = np.zeros((arm.STEPS + 1, 1, 3)), np.zeros((arm.STEPS + 1, self.m.nx))
        self.forces, self.found = np.zeros((arm.STEPS + 1, self.m.nsensordata)), []

    def run(self, z, watch=False):
        """Hand less target at every step; with watch also states and forces."""
        self.theta = self.m.theta.copy()
        self.theta[self.at] = z
        more = {"states": self.states, "sensordata": self.forces} if watch else {}
        output = inside.native.pbRolloutOutput(site_xpos=self.hand, **more)
        inside.native.pbRollout_Forward(self.rollout.ptr, self.theta, self.x0, None, output)
        apart = self.hand[:, 0] - TARGET
        self.found.append(np.linalg.norm(apart[LAST + 1:], axis=1).mean())
        return apart

    def value(self, z):
        return (self.run(z)[FIRST + 1:]**2).sum() / FIRST

    def gradient(self, z):
        apart, bar = self.run(z), np.zeros_like(self.hand)
        bar[FIRST + 1:, 0] = 2 / FIRST * apart[FIRST + 1:]
        return (apart[FIRST + 1:]**2).sum() / FIRST, self.rollout.vjp(site_xpos=bar)[1][self.at]

    def along(self, z, direction):
        """Its derivative in forward mode."""
        self.run(z, True)
        bar, d = np.zeros_like(self.hand), np.zeros(self.m.ntheta)
        d[self.at] = direction
        tangent = np.zeros((arm.STEPS + 1, 1, 3))
        way, out = inside.native.pbRolloutDirection(theta=d), inside.native.pbRolloutTangent(site_xpos=tangent)
        inside.native.pbRollout_Jvp(self.rollout.ptr, 1, way, out)
        bar[FIRST + 1:, 0] = 2 / FIRST * (self.hand[FIRST + 1:, 0] - TARGET)
        return (bar * tangent).sum()


class Search:
    """A method of the library over an objective, which goes on to the same bits where an earlier one was stopped."""

    def __init__(self, reach, method, **options):
        n, l = inside.native, inside.native
        self.reach, self.start, self.ptr = reach, reach.m.theta[reach.at].copy(), inside.native.handle()
        size = len(self.start)

        def value(_, z, out):
            out[0] = reach.value(inside.native.array(z, size,))
            return 0

        def gradient(_, z, out, slope):
            out[0], g = reach.gradient(inside.native.array(z, size,))
            inside.native.array(slope, size,)[:] = g
            return 0
        self.problem = n.pbProblem(n=size, value=value, gradient=gradient)
        given = n.pbOptimizerOptions(method=method, **options)
        l.pbOptimizer_Create(reach.m.ctx, self.problem, given, self.start, self.ptr)

    def __del__(self):
        if self.reach.m.ctx:  # at the end of a program the model may go first
            inside.native.pbOptimizer_Destroy(self.ptr)

    def iterate(self):
        inside.native.pbOptimizer_Iterate(self.ptr)
        return inside.native.pbOptimizer_Get(self.ptr)

    def best(self):
        return inside.native.array(inside.native.pbOptimizer_Get(self.ptr).best, len(self.start)).copy()

    def state(self):
        kept = np.zeros(inside.native.pbOptimizer_StateSize(self.ptr))
        inside.native.pbOptimizer_Save(self.ptr, kept)
        return kept

    def restore(self, kept):
        inside.native.pbOptimizer_Restore(self.ptr, np.ascontiguousarray(kept))


def learn(torque, seed, evaluations=150, enough=1e-4):
    """(objective, best weights): by gradients, in so many evaluations or until the distance is enough."""
    reach = Reach(torque, seed)
    search = Search(reach, inside.native.pb_methodLbfgs, memory=20)
    while len(reach.found) < evaluations and min(reach.found, default=1) > enough:
        if search.iterate().outcome:
            break
    return reach, search.best()


def limits(reach, z):
    """(largest speed in degrees a second, largest torque, mean distance in the last second) of a run."""
    apart = reach.run(z, True)
    speed = abs(reach.states[:, reach.m.slots["qvel"]]).max()
    return np.degrees(speed), abs(reach.forces).max(), np.linalg.norm(apart[LAST + 1:], axis=1).mean()


def at_a_quarter(torque, z):
    """Mean distance in the last second with a quarter of the time step, decisions at the same times."""
    m = closed_loop(torque, 0, 4)
    m.theta[arm.weights(m)], m.param(m.theta, "timestep")[:] = z, arm.H / 4
    rollout, hand, x0 = inside.Rollout(m, 4 * arm.STEPS), np.zeros((4 * arm.STEPS + 1, 1, 3)), m.init()
    output = inside.native.pbRolloutOutput(site_xpos=hand)
    inside.native.pbRollout_Forward(rollout.ptr, m.theta, x0, None, output)
    return np.linalg.norm(hand[4 * LAST + 1:, 0] - TARGET, axis=1).mean()


def dropped(torque):
    """How far the hand falls from the target within 4 s, where it starts and its set-points keep it."""
    m = arm.load(torque)
    x, pose = m.init(), np.zeros(4)
    d, flat = np.linalg.norm(TARGET - arm.MIDDLE), np.hypot(*TARGET[:2])
    half, mean = np.arccos(d), np.arctan2(flat, TARGET[2] - arm.MIDDLE[2])
    pose[:] = np.arctan2(TARGET[1], TARGET[0]), mean - half, 0, 2 * half
    x[m.slots["qpos"]] = pose
    rollout = inside.Rollout(m, 400)
    hand, ctrl = np.zeros((401, 1, 3)), np.ascontiguousarray(pose)
    output, given = inside.native.pbRolloutOutput(site_xpos=hand), inside.native.pbRolloutInput(ctrl=ctrl, constant=True)
    inside.native.pbRollout_Forward(rollout.ptr, m.theta, x, given, output)
    return np.linalg.norm(hand[0, 0] - TARGET), np.linalg.norm(hand[-1, 0] - TARGET)


def rows():
    shoulder, elbow = arm.held(TARGET)
    out = [near("torque that holds the hand at the target, shoulder, N m", shoulder, 91.87, .1), near("elbow, N m", elbow, 44.32, .1)]
    for torque in (10, 30, *TORQUES):
        start, end = dropped(torque)
        falls = torque < shoulder
        out.append(row(f"hand {torque} N m, at the target at the start: away after 4 s, m", end, ">= 0.3" if falls else "<= 1e-4",
                       start < 1e-9 and (end >= .3 if falls else end <= 1e-4)))
    for torque in TORQUES:
        runs = [learn(torque, seed) for seed in SEEDS]
        out.append(reported(f"{torque} N m: weights", runs[0][0].at.stop - runs[0][0].at.start))
        for evaluations, limit in ((100, .04), (150, .01)):
            worst = max(min(reach.found[:evaluations]) for reach, _ in runs)
            out.append(below(f"{torque} N m: distance in the last second after {evaluations} evaluations, worst of {len(SEEDS)} seeds, m", worst, limit))
        needed = [next(k + 1 for k, d in enumerate(reach.found) if d <= .01) for reach, _ in runs]
        out.append(reported(f"{torque} N m: evaluations to 1 cm", " ".join(map(str, needed))))
        speeds, forces, ends = zip(*(limits(reach, z) for reach, z in runs))
        out.append(below(f"{torque} N m: distance of the runs that follow, worst, m", max(ends), .01))
        out.append(below(f"{torque} N m: the same at a quarter of the time step, worst, m", max(at_a_quarter(torque, z) for _, z in runs), .01))
        out.append(below(f"{torque} N m: fastest joint at any of their steps, degrees/s", max(speeds), 45 * 1.01))
        out.append(below(f"{torque} N m: largest torque at any of their steps, N m", max(forces), torque * (1 + 1e-12)))
    reach, z = Reach(TORQUES[0], 0), None
    random = np.random.default_rng(1)
    z = reach.m.theta[reach.at] + .05 * random.standard_normal(reach.at.stop - reach.at.start)
    direction = random.standard_normal(len(z))
    reverse, forward = reach.gradient(z)[1] @ direction, reach.along(z, direction)
    out.append(below("gradient by all weights, reverse against forward mode", abs(reverse - forward) / abs(forward), 1e-9))
    return out
