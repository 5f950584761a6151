"""Hundreds of contacts that come and go

Contacts that appear and vanish by the hundred inside a differentiated rollout."""
import json

import numpy as np

from common import Bench, below, row
import inside

BALLS, STEPS, H = 26, 800, 0.002
# Balls fall among pegs on a floor, hit each other, roll off and part again.
MODEL = """<mujoco><option timestep="{}" cone="elliptic"/><default><geom solref="-2000 -40" solimp="0 .9 .01" friction=".4"/></default><worldbody>
<geom type="plane" size="0 0 1"/>{}{}</worldbody></mujoco>"""
PEG = '<geom type="capsule" size=".04" fromto="{x} -.5 .35 {x} .5 .35"/>'
BALL = '<body pos="{} {} {}"><freejoint/><geom type="sphere" size="{}" mass=".5"/></body>'


def events(m, x):
    """Pairs of geoms in contact at each step, the final state."""
    pairs = []
    for _ in range(STEPS):
        x, _ = m.step(x)
        m.gather()
        pairs.append(sorted(map(tuple, m.field("contact_geom").astype(int))))
    return pairs, x


def rows():
    rng = np.random.default_rng(3)
    pegs = "".join(PEG.format(x=x) for x in (-0.4, -0.2, 0, 0.2, 0.4))
    balls = "".join(BALL.format(*rng.uniform(-0.35, 0.35, 2), 0.55 + 0.08 * k, rng.uniform(0.05, 0.08)) for k in range(BALLS))
    with Bench() as bench:
        path = bench.write("pegs.xml", MODEL.format(H, pegs, balls))
        m = inside.Model(path)
        first = m.init()
        w = rng.standard_normal(m.nv)
        got = bench.gradient(path, {"qpos": w}, "--steps", STEPS)
        pairs, end = events(m, first)
        certificate = json.loads(str(got["meta"]))["certificate"]
        came = sum(len(set(b) - set(a)) for a, b in zip(pairs, pairs[1:]))
        went = sum(len(set(a) - set(b)) for a, b in zip(pairs, pairs[1:]))
        gradient = np.concatenate([got["qpos"], got["qvel"]])
        value = lambda y: float(w @ m.difference(end, y)[:m.nv])
        along, by = [], []
        for trial in range(8):
            d = rng.standard_normal(m.nt) / np.sqrt(m.nt)
            ends, same = {}, True
            for size in (4e-8, 2e-8):
                for sign in (1, -1):
                    seen, y = events(m, m.move(first, d, sign * size))
                    ends[sign * size] = value(y)
                    same &= seen == pairs
            if not same:
                continue
            once = lambda s: (ends[s] - ends[-s]) / (2 * s)
            along.append(gradient @ d)
            by.append((4 * once(2e-8) - once(4e-8)) / 3)
    gap = float(np.abs(np.subtract(along, by)).max() / np.linalg.norm(along) * np.sqrt(len(along)))
    return [
        row("contacts that appeared and vanished, by the pairs of geoms", f"{came}, {went}", ">= 100 each", min(came, went) >= 100),
        row("onsets and releases of the certificate", f"{certificate['onsets']}, {certificate['releases']}", f"{came}, {went}",
            (certificate["onsets"], certificate["releases"]) == (came, went)),
        row("directions of 8 along which differences meet the same contacts at each step", len(along), ">= 5", len(along) >= 5),
        below("along these: gradient against differences of the program, relative to its typical size", gap, 1e-6),
        row("growth of the costate over the rollout", float(np.exp(certificate["growth"])), "reported", True),
    ]
