"""Cost of analytic against numerical gradients

What analytic and numerical gradients cost, over 1 to 200 parameters of a chain hit by a ball (the world of L3 with twenty links)."""
import itertools

import numpy as np

from common import Bench, below, contact, ratio, reported, timing
import chain
import inside
from L3 import SETTINGS
from rollouts import Rollout

LINKS, STEPS, COUNTS, PAIRS = 20, 300, (1, 2, 5, 10, 20, 50, 100, 200), 21


class World:
    """Chain and ball; a loss over all places and frames; parameters by number: masses, inertias, widths, lengths, frictions of the links,
    their initial velocities, and the anchors of their joints."""

    def __init__(self, bench, links):
        self.m = m = contact(inside.Model(bench.write("chain.xml", chain.model([0.7] * links))), **SETTINGS)
        self.r = r = Rollout(m, STEPS)
        self.start = m.init()
        self.start[m.slots["qpos"].stop - 3] = 1.3  # else the ball stands at distance 0 from the chain after a whole number of steps
        r.qfrc[:chain.PUSH_STEPS, -3] = chain.PUSH
        slot = lambda name, rows, col: [("theta", (m.params[name].offset + k * m.params[name].cols + col)) for k in rows]
        bodies, geoms = range(1, 1 + links), range(links)
        self.which = slot("body_mass", bodies, 0) + slot("body_inertia", bodies, 2) + slot("geom_size", geoms, 0) + slot("geom_size", geoms, 1) + \
            slot("geom_friction", geoms, 0) + [("x", k) for k in range(3 * links)] + slot("eq_data", geoms, 0) + slot("eq_data", geoms, 1)
        self.first, self.scale = r.theta.copy(), 1 / (STEPS * m.nv)

    def at(self, changes):
        """Parameters as given, all others as at first."""
        self.r.theta[:] = self.first
        self.r.x0[:] = self.start
        for (kind, k), change in changes:
            if kind == "theta":
                self.r.theta[k] += change
            else:
                self.r.x0[self.m.slots["qvel"].start + k] += change

    def loss(self):
        self.r.forward()
        return 0.5 * self.scale * float(np.sum(self.r.states[:, self.m.slots["qpos"]]**2))

    def gradient(self):
        """By everything: the loss forwards, then all parameters at once."""
        loss = self.loss()
        self.r.vjp(self.scale * self.r.states[:, self.m.slots["qpos"]])
        return loss, np.array([self.r.theta_bar[k] if kind == "theta" else self.r.x0_bar[self.m.nv + k] for kind, k in self.which])

    def complex_step(self, which):
        """The derivative by one parameter, forwards with an imaginary step, step after step."""
        kind, k = which
        way, tangent, x, total = np.zeros(self.m.ntheta), np.zeros(self.m.nt), self.start.copy(), 0.0
        if kind == "theta":
            way[k] = 1
        else:
            tangent[self.m.nv + k] = 1
        for n in range(STEPS):
            x, _, record = self.m.step_recorded(x, qfrc=self.r.qfrc[n], theta=self.first)
            tangent = self.m.jvp(record, tangent, d_theta=way, qfrc=self.r.qfrc[n], theta=self.first)[0]
            total += self.scale * float(x[self.m.slots["qpos"]] @ tangent[:self.m.nv])
        return total


def differences(w, count):
    """What one-sided differences by so many parameters take, count + 1 runs, over a forward run."""
    turn = itertools.cycle(w.which[:count])

    def forward():
        w.at([])
        w.loss()

    def changed():
        w.at([(next(turn), 1e-6)])
        w.loss()
    return (count + 1) * ratio(forward, changed, PAIRS)


def rows():
    with Bench() as bench:
        w = World(bench, LINKS)
        w.at([])
        w.gradient()
        reverse, numerical, crossing = {}, {}, []

        def forward():
            w.at([])
            w.loss()

        def backward(count):
            w.at([])
            return w.gradient()[1][:count]
        for count in COUNTS:
            reverse[count] = ratio(forward, lambda: backward(count), PAIRS)
            if count <= 50:
                numerical[count] = differences(w, count)
                if numerical[count] > reverse[count]:
                    crossing.append(count)
        w.at([])
        g = w.gradient()[1]
        checked = list(range(0, len(w.which), 13))
        exact = np.array([w.complex_step(w.which[k]) for k in checked])
        size = np.abs(exact).max()
        apart = lambda found: float((np.abs(found - exact) / np.maximum(np.abs(exact), 1e-3 * size)).max())
        best = {}
        for step in 10.0**np.arange(-9, -2):
            found = []
            for k in checked:
                ends = []
                for s in (step, -step):
                    w.at([(w.which[k], s)])
                    ends.append(w.loss())
                found.append((ends[0] - ends[1]) / (2 * step))
            best[step] = apart(np.array(found))
        w.at([])
        memory = w.r.plan.planned_bytes / 2**20
        links = {}
        for n in (1, 2, 5, 10, 20, 50):
            c = World(bench, n)
            c.at([])
            c.gradient()
            links[n] = ratio(c.loss, c.gradient, PAIRS)
    middle = float(np.median(list(reverse.values())))
    spread = max(abs(r / middle - 1) for r in reverse.values())
    worst = max(abs(n / (count + 1) - 1) for count, n in numerical.items() if count >= 5)
    return [
        timing(f"(forward + reverse) / forward for {', '.join(map(str, COUNTS))} parameters, medians of {PAIRS} pairs",
               ", ".join(f"{r:.2f}" for r in reverse.values()), "<= 4 each", max(reverse.values()) <= 4),
        timing("... largest deviation from their median", spread, "<= 0.25", spread <= 0.25),
        timing(f"one-sided differences / forward for {', '.join(map(str, numerical))} parameters, over P + 1",
               ", ".join(f"{n / (c + 1):.2f}" for c, n in numerical.items()), "1 within 25 % (from 5 on)", worst <= 0.25),
        timing("fewest parameters of these for which the adjoint is cheaper", crossing[0], "<= 4", crossing[0] <= 4),
        below(f"gradient against the complex step, {len(checked)} parameters, each relative to itself or 1e-3 of the largest", apart(g[checked]), 1e-9),
        reported("central differences: best error over steps 1e-9 .. 1e-3", min(best.values())),
        reported("memory of the tape [MiB]", memory),
        timing(f"a chain of {', '.join(map(str, links))} links, gradient by all their parameters: (forward + reverse) / forward",
               ", ".join(f"{r:.2f}" for r in links.values()), "<= 4 each", max(links.values()) <= 4),
    ]
