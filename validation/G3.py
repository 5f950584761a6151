"""Forward against reverse derivatives

Rollouts: <w, J v> by forward sensitivities equals <J' w, v> by the reverse sweep, for every scene at hand."""
import glob
import os

import numpy as np

from common import EXAMPLES, ROOT, below
import inside


def gap(path, steps, seed, options=None):
    """Of a rollout from a random state under random controls, losses at its end, by states, controls and parameters."""
    m, rng = inside.Model(path, options), np.random.default_rng(seed)
    x = m.move(m.init(), np.concatenate([0.02 * rng.standard_normal(m.nv), 0.1 * rng.standard_normal(m.nv), np.zeros(m.na)]), 1.0)
    u = 0.2 * rng.standard_normal((steps, m.nu))
    records = []
    for k in range(steps):
        x, _, r = m.step_recorded(x, u[k])
        records.append(r)
    v, dv = rng.standard_normal(m.nt), rng.standard_normal((steps, m.nu))
    relative = rng.standard_normal(m.ntheta)  # of the parameters that are not zero
    dt = relative * m.theta
    w = rng.standard_normal(m.nt)
    tangent = v
    for k in range(steps):
        tangent = m.jvp(records[k], tangent, dv[k], d_theta=dt, ctrl=u[k])[0]
    forward = w @ tangent
    bar, controls, theta = w, np.zeros((steps, m.nu)), np.zeros(m.ntheta)
    for k in reversed(range(steps)):
        out = m.vjp(records[k], bar, ctrl=u[k])
        controls[k] = out["ctrl"]
        theta += out["theta"]
        bar = out["x"]
    direction, gradient = np.concatenate([v, dv.ravel(), relative]), np.concatenate([bar, controls.ravel(), theta * m.theta])
    size = np.linalg.norm
    return abs(forward - direction @ gradient) / max(size(w) * size(tangent), size(direction) * size(gradient))


def scenes():
    import gymnasium
    found = [(os.path.join(EXAMPLES, *p), 50) for p in (("ball", "ball.xml"), ("pendulum", "pendulum.xml"), ("hopper", "hopper.xml"))]
    assets = os.path.join(os.path.dirname(gymnasium.__file__), "envs", "mujoco", "assets")
    found += [(os.path.join(assets, n + ".xml"), 50) for n in
              ("inverted_pendulum", "inverted_double_pendulum", "reacher", "swimmer", "hopper", "walker2d", "half_cheetah", "ant", "humanoid", "pusher")]
    own = [p for p in sorted(glob.glob(os.path.join(ROOT, "tests", "oracle", "models", "*.xml"))) if not p.endswith("include_main.xml")]
    return [s for s in found if os.path.exists(s[0])] + [(p, 20) for p in own]


def rows():
    out, broken = [], []
    for k, (path, steps) in enumerate(scenes()):
        name = os.path.basename(path)[:-4]
        try:
            out.append((gap(path, steps, k), name))
        except inside.Error as error:
            broken.append(f"{name} ({error})")
    worst = max(out)
    rows_ = [below(f"dot product of {len(out)} rollouts, forward against reverse, relative to the greater of |w| |J v| and |J' w| |v|: the worst ({worst[1]})", worst[0], 1e-12)]
    if broken:
        rows_.append(("scenes that could not be run: " + "; ".join(broken), len(broken), "0", False))
    return rows_
