"""Box toss: edge and friction of a measured cube

The cube of ContactNets, tossed on a board and recorded by cameras at 148 Hz (data/README.md), is predicted from one sample to the next by hard
contact, from the guess that Dojo begins with: an edge twice too long, friction .40. Gauss-Newton on exact Jacobians brings both near. Whether a
corner has reached the board is decided at each sample, so the loss jumps with the edge while it is smooth in friction: edges about the answer are
tried in turn, friction is found for each, and the least loss is kept. Forty tosses are fitted, twenty are held out. Dojo's values are an edge of two
of its units, half edges, and a friction of .16; its weights are taken: positions in half edges and quaternions 1, velocities .1.

Friction hangs on how much residuals beyond the usual count (soft L1): what an impact does within a step no parameters predict. This is not the first
recipe. Plain squares were tried, and constants by hand, of which .3, the fifth recipe in all, gave a friction of .186: within the bar on these forty
tosses, beyond it on some others. Now the constant is the residuals' own size, 1.48 times the median of those of velocities: a rule in place of a
number, though taken when answers by several constants were known. What other constants, other choices of tosses and other contact options give are rows.

ContactNets' own errors are no bound here: the paper (Pfrommer, Halm and Posa 2020, figure 5) has them as curves over the number of tosses, of trained
networks, integrated over whole tosses of random splits; there is no table of them, nor are the networks or the splits among what is published. The
parameters that its authors measured are there, and what they give in this engine is a row."""
import numpy as np
from scipy.optimize import least_squares

import recordings
from common import below, reported, row

import pullback as pb

DOJO_EDGE, DOJO_FRICTION = 2 * .0524, .16
GUESS = np.array([2 * DOJO_EDGE, .40])
SPLITS = 10
OTHERS = {"friction in a pyramid": {"method": "lcp"}, "half the depth a step": {"method": "cones", "erp": .5, "cfm": 1e-5}, "soft rows": {"method": "soft"}}
EDGES = np.linspace(.96, 1.04, 17)  # of the edge that Gauss-Newton ends with
UNITS, LOWER, UPPER = np.array([.1, .1]), np.array([.01, .01]), np.array([.21, .8])
HALF, STEP = .0524, 1 / 148
WEIGHTS = np.array([1 / HALF] * 3 + [.5] * 3 + [np.sqrt(.1) / HALF] * 3 + [np.sqrt(.1)] * 3)  # a turn by an angle is half of it in a quaternion


class Steps:
    """Single steps of some tosses, from each `every`th sample to the next."""

    def __init__(self, model, names, every=1):
        self.model = model
        states, self.position, self.quaternion = recordings.stretches([recordings.toss(n) for n in names], steps=1, every=every)
        self.start = model.state(np.tile(model.init().flat, (len(states), 1)))
        self.start.qpos[:], self.start.qvel[:] = states[:, :7], states[:, 7:]
        self.velocity = np.diff(self.position, axis=1)[:, 0] / STEP
        self.spin = recordings.turned(self.quaternion[:, 0], self.quaternion[:, 1]) / STEP

    def run(self, z, keep=False):
        params = {name: np.asarray(value, float) for name, value in recordings.cube_params(*z).items()}
        return self.model.rollout(self.start, steps=1, params=params, outputs=(), keep=keep)

    def off(self, z):
        """Weighted residuals, (steps, 12)."""
        r = self.run(z)
        parts = (r.qpos[:, 1, :3] - self.position[:, 1], recordings.turned(self.quaternion[:, 1], r.qpos[:, 1, 3:]),
                 r.qvel[:, 1, :3] - self.velocity, r.qvel[:, 1, 3:] - self.spin)
        return np.concatenate(parts, axis=1) * WEIGHTS

    def jacobian(self, z):
        """Of them by edge and friction, (steps, 12, 2)."""
        by = self.run(z, keep=True).jacobian("state", ["geom_size:cube", "geom_friction:board"])
        return WEIGHTS[:, None] * np.stack([by["geom_size:cube"].sum(-1) / 2, by["geom_friction:board"][..., 0]], axis=-1)

    def error(self, z):
        """Root of the mean square of a step's weighted residuals."""
        return float(np.sqrt((self.off(z) ** 2).sum(1).mean()))


def approach(steps):
    """Edge and friction by Gauss-Newton from the guess."""
    found = least_squares(lambda z: steps.off(z * UNITS).ravel(), GUESS / UNITS, lambda z: (steps.jacobian(z * UNITS) * UNITS).reshape(-1, 2),
                          bounds=(LOWER / UNITS, UPPER / UNITS), x_scale="jac", max_nfev=30)
    return found.x * UNITS


def usual(off):
    """Size of the residuals of velocities but for the few that are large: their deviation, were they normal."""
    return float(1.4826 * np.median(np.abs(off[..., 6:])))


def slide(steps, edge, friction, size):
    """(loss, edge, friction): the friction of least loss at an edge, where residuals beyond `size` count less."""
    with_edge = lambda x: np.array([edge, x[0]])
    found = least_squares(lambda x: steps.off(with_edge(x)).ravel(), [friction], lambda x: steps.jacobian(with_edge(x))[..., 1:].reshape(-1, 1),
                          bounds=(LOWER[1], UPPER[1]), x_scale=.1, loss="soft_l1", f_scale=size)
    return found.cost, edge, found.x[0]


class Recipes:
    """Losses of every toss for edges and frictions about an answer, by what residuals beyond which size count less (inf: squares)."""

    def __init__(self, model, z, every):
        names = recordings.names("cube")
        parts = [Steps(model, [name], every) for name in names]
        toss = np.repeat(np.arange(len(names)), [len(p.position) for p in parts])
        steps = Steps(model, names, every)
        self.edges, self.frictions = z[0] * np.array([.98, .99, 1, 1.01, 1.02]), np.linspace(.10, .26, 9)
        off = np.array([[steps.off(np.array([edge, friction])) for friction in self.frictions] for edge in self.edges])
        self.off = [off[:, :, toss == k] for k in range(len(names))]

    def losses(self, size):
        of = (lambda r: r ** 2) if np.isinf(size) else lambda r: 2 * size ** 2 * (np.sqrt(1 + (r / size) ** 2) - 1)
        return np.array([of(r).sum(axis=(2, 3)) for r in self.off])

    def best(self, losses):
        """(edge, friction) of least loss: of friction where the parabola through the least and its neighbors is least."""
        i, j = np.unravel_index(losses.argmin(), losses.shape)
        j = min(max(j, 1), len(self.frictions) - 2)
        a, b, c = losses[i, j - 1:j + 2]
        return self.edges[i], self.frictions[j] + (self.frictions[1] - self.frictions[0]) * .5 * (a - c) / (a - 2 * b + c)


def splits(recipes, size):
    """Edges and frictions from SPLITS random choices of forty of the sixty tosses."""
    losses = recipes.losses(size)
    chosen = [np.random.default_rng(seed).permutation(len(losses))[:40] for seed in range(SPLITS)]
    return np.array([recipes.best(losses[k].sum(axis=0)) for k in chosen])


def dependence(model, z, size):
    """Rows of how the answer hangs on the recipe."""
    recipes, out = Recipes(model, z, 2), []
    for times in (.3, 1, 3, 10, np.inf):
        found = splits(recipes, size * times)
        words = f"{SPLITS} random choices of forty tosses, constant {times:g} times the residuals' size: "
        off = np.abs(found / [DOJO_EDGE, DOJO_FRICTION] - 1)
        if times == 1:
            out += [below(words + "edge, largest relative distance from Dojo's", off[:, 0].max(), .05),
                    below(words + "friction, largest relative distance from Dojo's", off[:, 1].max(), .2)]
        out.append(reported(words + "friction, least to largest; how many within 20 % of Dojo's",
                            f"{found[:, 1].min():.3f} to {found[:, 1].max():.3f}; {(off[:, 1] <= .2).sum()}"))
    return out


def rows():
    path = recordings.path(recordings.MODELS["cube"])
    model = pb.load(path, contact={"method": "cones"})
    some, fitted, held = (Steps(model, recordings.names("cube", held_out), every) for held_out, every in ((False, 4), (False, 1), (True, 1)))
    near = approach(some)
    size = usual(fitted.off(near))
    tried = [slide(some, edge, near[1], size) for edge in near[0] * EDGES]
    z = np.array(min(slide(fitted, *one[1:], size) for one in sorted(tried)[:3])[1:])
    spread = [call(t[2] for t in tried if t[0] <= 1.02 * min(tried)[0]) for call in (min, max)]
    published = np.array([DOJO_EDGE, .15])
    out = [reported("steps fitted, held out", f"{len(fitted.position)}, {len(held.position)}"),
           reported("edge found, m", z[0]), reported("friction found", z[1]),
           reported("size of the residuals of velocities, beyond which they count less", size),
           reported("edge, friction by Gauss-Newton from the guess, a quarter of the steps", ", ".join(f"{x:.4f}" for x in near)),
           reported("friction where the edge is one of those within 2 % of loss", ", ".join(f"{x:.3f}" for x in spread)),
           below("edge: relative distance from Dojo's", abs(z[0] / DOJO_EDGE - 1), .05),
           below("friction: relative distance from Dojo's", abs(z[1] / DOJO_FRICTION - 1), .2),
           below("held-out error of a step, by that of the first guess", held.error(z) / held.error(GUESS), .2),
           reported("held-out error of a step, by that of edge .1048 and friction .15, as published", held.error(z) / held.error(published))]

    out += dependence(model, z, size)
    for words, contact in OTHERS.items():
        other = Steps(pb.load(path, contact=contact), recordings.names("cube", False), 2)
        found = min(slide(other, edge, z[1], size) for edge in z[0] * np.array([.99, 1, 1.01]))
        out.append(reported(f"edge, friction with other contact, {words}, of the same and 1 % more or less edge", f"{found[1]:.4f}, {found[2]:.3f}"))

    at, h = np.array([.11, .2]), 1e-6
    exact = some.jacobian(at)
    for k, name in enumerate(("edge", "friction")):
        way = np.eye(2)[k] * h
        differences = (some.off(at + way) - some.off(at - way)) / (2 * h)
        fits = np.abs(differences - exact[..., k]).max(axis=1) < 1e-4 * (1 + np.abs(differences).max(axis=1))
        out.append(row(f"steps whose derivative by {name} is that of differences, of all", fits.mean(), ">= 0.98", fits.mean() >= .98))

    tosses = [recordings.toss(name) for name in recordings.names("cube", True)]
    for words, numbers in (("found", z), ("published", published), ("ContactNets has it, friction .18", np.array([DOJO_EDGE, .18]))):
        whole = recordings.toss_error(model, tosses, 60, recordings.cube_params(*numbers), every=1000)
        out.append(reported(f"over the first 60 samples of held-out tosses, as {words}: mm, degrees", f"{1e3 * whole[0]:.1f}, {np.degrees(whole[1]):.1f}"))
    return out
