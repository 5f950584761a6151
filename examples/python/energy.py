"""An energy of your own: a law of materials as one line, repeated against a built-in one, and its parameters found from a recording.

A cord of twelve links hangs between two hands and swings. First its links are springs, once by the built-in energy and once by a
formula of the same value (docs/energies.md): positions and gradients agree to rounding. Then they stiffen as they stretch, by a law with two
parameters that no library has, and both follow from two seconds of noisy positions, by Gauss-Newton on exact derivatives.
"""
import numpy as np

import pullback as pb

LINKS, STEPS, NOISE = 12, 100, 1e-3
SPRING = {"energy": "spring", "name": "link", "parameters": {"stiffness": 80}}
FORMULA = {"formula": "d = x1 - x0; l = norm(X1 - X0); 0.5*stiffness*(dot(d, d) - 2*l*norm(d) + l*l)", "name": "link", "on": "edges", "parameters": {"stiffness": 80}}
STIFFENING = {"formula": "s = norm(x1 - x0)/norm(X1 - X0) - 1; norm(X1 - X0)*(0.5*k*s^2 + 0.25*c*s^4)", "name": "link", "on": "edges",
              "parameters": {"k": {"value": 3, "lower": 0, "unit": "N"}, "c": {"value": 50, "lower": 0, "unit": "N"}}}
TRUE = {"cord_link.k": 8.0, "cord_link.c": 250.0}


def cord(energy):
    """A cord of 1 m and 0.3 kg whose ends are held 0.8 m apart."""
    body = {"name": "cord", "mesh": {"chain": {"from": [0, 0, 0], "to": [1, 0, 0], "edges": LINKS}}, "mass": .3, "energies": [energy],
            "start": [[.8 * k / LINKS, 0, 0] for k in range(LINKS + 1)], "pins": [{"points": 0}, {"points": LINKS}]}
    return pb.loads("<mujoco><option timestep='.02'/></mujoco>", deformables={"bodies": [body]})


def repeated():
    """Largest difference, by size, of positions and gradients between the built-in spring and its formula."""
    pairs, worst = [], 0
    for model in (cord(SPRING), cord(FORMULA)):
        r = model.rollout(model.init(), steps=STEPS, params={"cord_link.stiffness": model.params["cord_link.stiffness"]})
        g = r.vjp(state=np.cos(np.arange(len(model.tangent_names))))
        pairs.append((r.points, g.state, g.params["cord_link.stiffness"]))
    for a, b in zip(*pairs):
        worst = max(worst, np.abs(a - b).max() / np.abs(a).max())
    return worst


def main():
    apart = repeated()
    print(f"a formula repeats the built-in spring to {apart:.1e}, gradients included")
    assert apart < 1e-12

    model = cord(STIFFENING)
    names, seen = list(TRUE), 3 * (LINKS + 1)
    run = lambda values: model.rollout(model.init(), steps=STEPS, params=dict(zip(names, values)))
    clean = run([np.array([v]) for v in TRUE.values()]).points
    recorded = clean + NOISE * np.random.default_rng(0).normal(size=clean.shape)

    x = np.array([float(model.params[name][0]) for name in names])
    for _ in range(15):
        r = run(x[:, None])
        slope = np.stack([r.jvp(params={name: [1.]}).x[:, :seen].ravel() for name in names], axis=1) / NOISE
        step = np.linalg.lstsq(slope, (recorded - r.points).ravel() / NOISE, rcond=None)[0]
        x = x * np.exp(np.clip(step / x, -1, 1))  # both stay positive
    deviation = np.sqrt(np.diag(np.linalg.inv(slope.T @ slope)))
    for name, found, sigma in zip(names, x, deviation):
        print(f"{name:12} {found:9.4f} +- {sigma:.4f} N   plant {TRUE[name]:.4f} N, begun at {float(model.params[name][0]):g} N")
    off = np.abs(x - list(TRUE.values())) / deviation
    assert off.max() < 4, off
    return apart, off.max()


if __name__ == "__main__":
    main()
