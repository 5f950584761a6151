"""Hybrid: an analytic model and a learned residual

A model that lacks drag and has a friction coefficient 30 % too small, with a network inside the step that learns what is missing: its
predictions over 2 s beside those of the model alone, of the model fitted to the same recordings, and of a network without physics.

Plant, networks and training are those of examples/python/residual.py. The plant takes steps of a quarter; 20 recordings of 3 s with
noise of 1 % train, 5 choose among two rates of Adam and 25 sets of weights of each, 10 are held out, with other starts and controls, and
10 more are twice as fast. Each of five seeds has its own recordings, noise, weights and batches. Where nothing
is left to learn (no drag, the right friction) the same must do no harm. What physics is worth depends on how much of the motion it
explains: drag and friction count alike here; in a medium as dense as water, drag is most of it and a network alone learns as well."""
import os
import statistics
import sys

import numpy as np

from common import EXAMPLES, below, reported, row

sys.path.insert(0, os.path.join(EXAMPLES, "python"))
import residual  # noqa: E402

import kept  # noqa: E402

LONG = "ten minutes"
GOES_ON = True  # trainings that are done, in build/
SEEDS, UPDATES, RATES = range(1, 6), 500, (.01, .03)
AHEAD = residual.AHEAD // 2  # steps at twice the speed, before pendulums go over the top


def trained(kind, seed, rate, drag=True):
    """A training from a seed: its error on the recordings that choose, and those that count."""
    sets = residual.recordings(seed) if drag else residual.recordings(seed, density=0, friction=residual.KNOWN)
    fit_to, choose_by, held_out, fast = sets
    model, names = {"hybrid": lambda: residual.hybrid(residual.KNOWN, seed), "pure": lambda: residual.pure(seed),
                    "fitted": lambda: (residual.sled(), list(residual.PHYSICS))}[kind]()
    chosen, params = residual.train(model, names, fit_to, choose_by, seed, rate, UPDATES)
    found = {"chosen": chosen, "held out": residual.error(model, params, held_out), "fast": residual.error(model, params, fast, AHEAD), "rate": rate}
    if kind == "hybrid":
        found["share"] = residual.share(model, params, held_out)
    return found


def best(kind, seed, drag=True):
    """Of the trainings with each rate the one that predicts best what was set apart."""
    rates, name = (RATES, kind) if drag else (RATES[1:], f"{kind}-right")
    tried = [kept.once("K71", f"{name}-{seed}-{rate:g}", lambda: trained(kind, seed, rate, drag)) for rate in rates]
    return min(tried, key=lambda found: found["chosen"])


def speeds(slow, fast):
    """RMS of velocities in the first second, in spreads, by those of other recordings."""
    n = len(residual.JOINTS)
    rms = lambda data: np.sqrt(np.mean((data.true[:, :AHEAD, n:] / data.spread[n:])**2))
    return float(rms(fast) / rms(slow))


def each(values):
    return ", ".join(f"{v:.4g}" for v in values)


def ratios(quantity, above, under, least):
    """Median of quotients over the seeds, and how many of them reach what is required."""
    found = [a / b for a, b in zip(above, under)]
    reach, middle = sum(f >= least for f in found), statistics.median(found)
    text = f"{middle:.3g} ({', '.join(f'{f:.3g}' for f in found)})"
    return row(f"{quantity}: median of five seeds, and each", text, f"median >= {least:g}, and of at least 4", middle >= least and reach >= 4)


def alone(tests, ahead=residual.AHEAD, **model):
    """Errors of the model alone, of a seed each."""
    return [residual.error(residual.sled(**model), {}, data, ahead) for data in tests]


def rows():
    model, names = residual.hybrid(residual.KNOWN, 0)
    sizes = [sum(m.params[n].size for n in residual.weights(m)) for m in (model, residual.pure(0)[0])]
    out = [below("gradient by weights and parameters of the physics against differences, relative",
                 residual.differences(model, names, residual.recordings(0)[0]), 1e-6),
           row("weights of the residual, and of the network alone", f"{sizes[0]}, {sizes[1]}", "the same", sizes[0] == sizes[1])]
    out += unmodelled() + known()
    kept.forget("K71")
    return out


def unmodelled():
    """With drag and the wrong friction."""
    kinds = {"fitted": "the model fitted", "hybrid": "hybrid", "pure": "the network alone"}
    held_out, fast = zip(*(residual.recordings(seed)[2:] for seed in SEEDS))
    model = {"held out": alone(held_out), "fast": alone(fast, AHEAD)}
    found = {kind: [best(kind, seed) for seed in SEEDS] for kind in kinds}
    of = lambda kind, what: [f[what] for f in found[kind]]
    faster, out = [*map(speeds, held_out, fast)], []
    for what, words in (("held out", "error over 2 s, in spreads"), ("fast", "error over 1 s at twice the speed")):
        out.append(reported(f"{words}: the model alone, five seeds", each(model[what])))
        out += [reported(f"{words}: {text}", each(of(kind, what))) for kind, text in kinds.items()]
    out += [reported("the model alone with the plant's friction", each(alone(held_out, friction=residual.FRICTION))),
            reported("the model alone with the plant's drag", each(alone(held_out, density=residual.DENSITY)))]
    out += [reported(f"rates chosen: {text}", each(of(kind, "rate"))) for kind, text in kinds.items()]
    return out + [
        ratios("error of the model alone by that of the hybrid", model["held out"], of("hybrid", "held out"), 5),
        ratios("error of the network alone by that of the hybrid", of("pure", "held out"), of("hybrid", "held out"), 2),
        ratios("error of the fitted model by that of the hybrid", of("fitted", "held out"), of("hybrid", "held out"), 1),
        row("how much faster the fast recordings are: RMS of the first second's velocities, median of five seeds, and each",
            f"{statistics.median(faster):.3g} ({each(faster)})", ">= 2", statistics.median(faster) >= 2),
        ratios("at twice the speed: error of the network alone by that of the hybrid", of("pure", "fast"), of("hybrid", "fast"), 1),
        below("accelerations by the residual, by those of the physics, largest of five seeds", max(of("hybrid", "share")), 1)]


def known():
    """Nothing is unmodelled."""
    right = alone([residual.recordings(seed, density=0, friction=residual.KNOWN)[2] for seed in SEEDS])
    learned = [best("hybrid", seed, drag=False)["held out"] for seed in SEEDS]
    harm = max(b - a for a, b in zip(right, learned))
    return [reported("without drag, with the right friction: error of the model alone, five seeds", each(right)),
            reported("without drag, with the right friction: hybrid", each(learned)),
            below("what the residual adds to the error there, in spreads, largest of five; the noise of recordings is 0.01", harm, residual.NOISE)]
