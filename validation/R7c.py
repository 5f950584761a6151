"""Two pushers learn against each other

Two balls that slide on a table, each with a network that sees where both are and how fast, and a push of up to 20 N: each wants to be in the middle and
the other one away from it. In every round each learns, by gradients through contact, against what the other one was in the rounds so far.
Exploitability is what two opponents gain who learn for long against the frozen pair, one in place of each; starts are others than the pair's."""
import os
import tempfile

import numpy as np

from common import below, inside, reported, row, slope
import policy

H, STEPS, STARTS, ROUNDS, HIDDEN, RADIUS = 0.01, 150, 4, 5, 16, 0.2
LEARN, ANSWER, RATE = 15, 60, 0.03  # Adam's steps of a round, of an opponent who tries what the pair is worth; their size

BALL = '<body name="{0}" pos="0 0 0.1"><joint type="slide" axis="1 0 0" name="{0}_x"/><joint type="slide" axis="0 1 0" name="{0}_y"/>' \
       '<geom type="sphere" size="{1}" mass="5"/></body>'
MOTORS = "".join(f'<motor joint="{d}_{x}" gear="20"/>' for d in "ab" for x in "xy")
MODEL = f"""<mujoco><option timestep="{H}" gravity="0 0 0" integrator="implicitfast" cone="elliptic"/><default><joint damping="5"/></default>
  <worldbody>{BALL.format("a", RADIUS)}{BALL.format("b", RADIUS)}</worldbody><actuator>{MOTORS}</actuator></mujoco>"""


class Game:
    """Both networks are one policy of two blocks, which do not see each other's hidden units: `mine` says whose a weight is, 0, 1 or nobody's."""

    def __init__(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "table.xml")
            with open(path, "w", encoding="utf-8") as f:
                f.write(MODEL)
            self.m = inside.Model(path)
        tanh = {"kind": "activation", "activation": "tanh"}
        layers = [{"kind": "dense", "size": 2 * HIDDEN, "init": 1}, tanh, {"kind": "dense", "size": 4, "init": 1, "gain": .3}, tanh]
        policy.attach(self.m, [{"kind": "qpos"}, {"kind": "qvel", "scale": .3}], policy.Network(8, layers, seed=1))
        self.rollout, self.mine = inside.Rollout(self.m, STEPS), np.full(self.m.ntheta, -1)
        self.rollout.want([n for n in self.m.params if n.startswith("policy.")])
        self.theta, self.tests = self.m.theta.copy(), [self.start(np.random.default_rng(1000 + k)) for k in range(16)]
        for name in ("policy.0.weight", "policy.0.bias", "policy.2.weight", "policy.2.bias"):
            q = self.m.params[name]
            owner = np.repeat([0, 1], q.rows // 2)[:, None] * np.ones((1, q.cols), int)  # of an output of the layer
            if name == "policy.2.weight":
                owner = np.where(owner == np.repeat([0, 1], HIDDEN), owner, -1)
            self.mine[q.offset:q.offset + q.rows * q.cols] = owner.ravel()
            self.theta[q.offset:q.offset + q.rows * q.cols][owner.ravel() < 0] = 0

    def start(self, rng):
        """One on the left, one on the right, half a metre from the middle."""
        s = self.m.init()
        s[self.m.slots["qpos"]] = np.array([-.5, 0, .5, 0]) + rng.uniform(-.15, .15, 4)
        return s

    def payoff(self, theta, start, gradient=False):
        """How much farther b is from the middle than a, in the mean over time, by the measure r^2/(1 + r^2); and its gradient."""
        q = self.rollout.forward(start, theta=theta, states=True)[:, self.m.slots["qpos"]].reshape(-1, 2, 2)
        r = (q**2).sum(2)
        value = float(np.mean(r / (1 + r), 0) @ [-1, 1])
        if not gradient:
            return value
        bar = 2 * q / (1 + r[..., None])**2 / len(q) * np.array([-1, 1])[:, None]
        return value, self.rollout.vjp(qpos=bar.reshape(-1, 4))[1]

    def learn(self, who, theta, steps, others, rng):
        """Adam for one of the two, each start against one of the others."""
        theta, sign = theta.copy(), (1, -1)[who]
        at, m, v = self.mine == who, 0., 0.
        for k in range(1, steps + 1):
            g = np.zeros(at.sum())
            for _ in range(STARTS):
                whole = np.where(at, theta, others[rng.integers(len(others))])
                g += sign * self.payoff(whole, self.start(rng), True)[1][at] / STARTS
            m, v = .9 * m + .1 * g, .99 * v + .01 * g**2
            theta[at] += RATE * m / (1 - .9**k) / (np.sqrt(v / (1 - .99**k)) + 1e-6)
        return theta

    def touching(self, theta):
        """Share of the time in which they touch."""
        runs = [self.rollout.forward(s, theta=theta, states=True)[:, self.m.slots["qpos"]] for s in self.tests]
        return float(np.mean([np.hypot(*(q[:, :2] - q[:, 2:]).T) < 2 * RADIUS for q in runs]))

    def mean(self, theta):
        return float(np.mean([self.payoff(theta, s) for s in self.tests]))

    def exploitability(self, theta):
        rng = np.random.default_rng(99)
        answers = [self.mean(self.learn(who, theta, ANSWER, [theta], rng)) for who in (0, 1)]
        return answers[0] - answers[1]


def gradient_row(game, theta):
    """From a start where they touch: contacts that begin in between make the payoff jump, and differences with it."""
    start, rng = game.m.init(), np.random.default_rng(2)
    start[game.m.slots["qpos"]] = [-.19, 0, .19, .05]
    _, g = game.payoff(theta, start, True)
    d = np.where(game.mine >= 0, rng.standard_normal(len(g)), 0)
    d /= np.linalg.norm(d)
    error = min(abs(slope(lambda t: game.payoff(theta + t * d, start), h) / (g @ d) - 1) for h in (1e-4, 1e-5, 1e-6))
    return below("payoff of the learned pair by the weights of both, along one direction: against differences, relative", error, 1e-6)


def rows():
    game, rng = Game(), np.random.default_rng(1)
    past, found = [game.theta], []
    for _ in range(ROUNDS):
        found.append(game.exploitability(past[-1]))
        learned = [game.learn(who, past[-1], LEARN, past, rng) for who in (0, 1)]
        past.append(np.where(game.mine == 0, learned[0], learned[1]))
    found.append(game.exploitability(past[-1]))
    out = [gradient_row(game, past[-1])] + [reported(f"exploitability after {k} rounds", e) for k, e in enumerate(found)]
    out.append(reported("share of the time in which the two touch, after the last round", game.touching(past[-1])))
    return [*out, row(f"after {ROUNDS} rounds, by that at the start", found[-1] / found[0], "< 0.5", found[-1] < found[0] / 2)]
