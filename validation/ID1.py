"""Masses of a published arm from a noisy recording

The Panda arm of gymnasium-robotics follows sums of sines; torques and joint angles are recorded with noise, and the masses of its links are
found from them, together with the friction and the rotor inertia of every joint. What the recording cannot tell is named before: the null space
of the regressor, which is the Jacobian of the predicted angles by all unknowns where the starts of the stretches are eliminated. The base does
not move, and the first link turns about a vertical axis, so that it is felt as its rotor is."""
import os
import re
import tempfile

import numpy as np

from common import below, inside, reported, row
import robots

JOINTS, STEPS, STRETCH, SEED = 7, 8000, 50, 3
ANGLE_NOISE, TORQUE_NOISE = 1e-4, 0.05  # rad, N m
ROTOR, FRICTION = 0.1, 1.0              # of every joint, in truth: kg m^2, N m s
LINKS = [f"panda0_link{k}" for k in range(JOINTS + 1)]
REST = np.array([0, 0, 0, -1.8, 0, 0.3, 0])
REACH = np.array([1.2, 0.6, 1.2, 0.6, 1.2, 0.6, 1.2])
TOLERANCE = 0.02


def arm(folder):
    """The arm without its fingers and without contacts: the package's own description, in a world by itself, with a motor at each joint."""
    place = os.path.join(robots.folder_of("gymnasium_robotics"), "envs", "assets", "kitchen_franka", "franka_assets")
    read = lambda name: open(os.path.join(place, name), encoding="utf-8").read().split("<mujocoinclude>")[1].split("</mujocoinclude>")[0]
    motors = "".join(f'<motor joint="robot:panda0_joint{k + 1}"/>' for k in range(JOINTS))
    text = f"<mujoco>{read('assets.xml')}<worldbody>{read('chain.xml')}</worldbody><actuator>{motors}</actuator></mujoco>"
    text = text.replace("franka_assets/meshes", os.path.join(place, "meshes"))
    text = re.sub(r'contype="1" conaffinity="\d"', 'contype="0" conaffinity="0"', text)
    text = re.sub(r'<body name="panda0_(left|right)finger".*?</body>', "", text, flags=re.DOTALL)
    path = os.path.join(folder, "arm.xml")
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    return inside.Model(path, allow_root=place)


class Arm:
    """Unknowns, in parts of the truth: masses of the links (each with its inertia: their shapes are known), rotors, frictions."""

    def __init__(self, folder):
        self.m = arm(folder)
        truth = self.m.theta.copy()
        self.m.param(truth, "dof_armature")[:], self.m.param(truth, "dof_damping")[:] = ROTOR, FRICTION
        self.truth, self.names = truth, LINKS + [f"{what} {k + 1}" for what in ("rotor", "friction") for k in range(JOINTS)]
        self.rollout = inside.Rollout(self.m, STRETCH)
        self.ways = np.array([self.way(k) for k in range(len(self.names))])

    def way(self, k):
        """The change of theta that doubles an unknown."""
        out = np.zeros(self.m.ntheta)
        fields = [("body_mass", k + 1), ("body_inertia", k + 1)] if k < len(LINKS) else [(("dof_armature", "dof_damping")[(k - len(LINKS)) // JOINTS], (k - len(LINKS)) % JOINTS)]
        for field, row_ in fields:
            self.m.param(out, field)[row_] = self.m.param(self.truth, field)[row_]
        return out

    def theta(self, p):
        return self.truth + (p - 1) @ self.ways

    def record(self, r):
        """(angles, torques) of the arm led along sums of sines, without noise; angles of all states."""
        m, dt = self.m, 0.002
        pace, phase = r.uniform(1.5, 6, (2, JOINTS)), r.uniform(0, 6.28, (2, JOINTS))
        led = lambda t: REST + REACH / 2 * np.sin(pace * t + phase).sum(0)
        x = m.state(led(0), np.zeros(JOINTS))
        states, torques = [x], []
        for k in range(STEPS):
            q, v, _ = m.parts(x)
            torques.append(600 * (led(k * dt) - q) - 12 * v)
            x, _ = m.step(x, torques[-1], theta=self.truth)
            states.append(x)
        return np.array([m.parts(x)[0] for x in states]), np.array(torques)

    def begin(self, angles, first):
        """Start of a stretch: angle and speed of the parabola through what is recorded about it."""
        rows_ = np.arange(max(0, first - 8), min(len(angles), first + 9))
        fit = np.polynomial.polynomial.polyfit(rows_ - first, angles[rows_], 3)
        return np.concatenate([fit[0], fit[1] / 0.002])

    def stretch(self, start, torques, angles, p):
        """Residuals of the angles along a stretch, their Jacobians by its start and by the unknowns."""
        m, theta, n = self.m, self.theta(p), 2 * JOINTS
        states = self.rollout.forward(m.state(start[:JOINTS], start[JOINTS:]), torques, theta, states=True)
        seen = states[:, m.slots["qpos"]] - angles
        push = lambda **way: self.rollout.jvp(**way)[:, :JOINTS].ravel()
        by_start = np.stack([push(x0=e) for e in np.eye(m.nt)[:n]], 1)
        return seen.ravel(), by_start, np.stack([push(theta=w) for w in self.ways], 1)

    def linearize(self, starts, torques, angles, p):
        """Of all stretches, with the starts eliminated: residual, regressor; and what corrects the starts."""
        residuals, regressors, corrections = [], [], []
        for k, start in enumerate(starts):
            part = slice(k * STRETCH, (k + 1) * STRETCH)
            e, by_start, by_unknown = self.stretch(start, torques[part], angles[k * STRETCH:(k + 1) * STRETCH + 1], p)
            q, triangle = np.linalg.qr(by_start)
            residuals.append(e - q @ (q.T @ e))
            regressors.append(by_unknown - q @ (q.T @ by_unknown))
            corrections.append((q.T @ e, q.T @ by_unknown, triangle))
        return np.concatenate(residuals), np.concatenate(regressors), corrections


def null_space(regressor, smallest=1e-9):
    """Directions of the unknowns that change nothing."""
    _, size, ways = np.linalg.svd(np.linalg.qr(regressor, mode="r"))
    return ways[size < smallest * size[0]]


def find(model, angles, torques, p):
    """Gauss-Newton on unknowns and starts: the unknowns, the regressor at the end."""
    starts = np.array([model.begin(angles, k * STRETCH) for k in range(STEPS // STRETCH)])
    for _ in range(5):
        e, regressor, corrections = model.linearize(starts, torques, angles, p)
        step = -np.linalg.lstsq(regressor, e, rcond=1e-9)[0]
        starts = starts - np.array([np.linalg.solve(t, a + b @ step) for a, b, t in corrections])
        p = p + step
        if np.abs(step).max() < 1e-5:
            break
    return p, regressor


def rows():
    r = np.random.default_rng(SEED)
    with tempfile.TemporaryDirectory() as folder:
        model = Arm(folder)
        angles, torques = model.record(r)
        seen, felt = angles + ANGLE_NOISE * r.standard_normal(angles.shape), torques + TORQUE_NOISE * r.standard_normal(torques.shape)
        start = r.uniform(0.6, 1.4, len(model.names))
        p, regressor = find(model, seen, felt, start)
    null = null_space(regressor)
    share = np.abs(null).max(axis=0)
    unknown = [name for name, s in zip(LINKS, share) if s > 1e-6]
    told = [k for k in range(len(LINKS)) if share[k] <= 1e-6]
    off = np.abs(p[told] - 1)
    return [reported("noise of angles, of torques; seconds recorded", f"{ANGLE_NOISE:g} rad, {TORQUE_NOISE:g} N m; {STEPS * 0.002:g}"),
            reported("largest torque of each joint, N m", " ".join(f"{t:.0f}" for t in np.abs(torques).max(axis=0))),
            row("links whose masses the recording does not tell", ", ".join(unknown), "panda0_link0, panda0_link1", unknown == LINKS[:2]),
            row("directions of the unknowns that are not felt: the base, and the first link against its rotor", len(null), "2", len(null) == 2),
            below("masses at the start, off by, relative", float(np.abs(start[told] - 1).max()), 0.4),
            *(below(f"mass of {LINKS[k]}, off by, relative", float(o), TOLERANCE) for k, o in zip(told, off)),
            reported("friction and rotors that are told, off by, relative, largest", float(np.abs(p[len(LINKS):] - 1)[share[len(LINKS):] <= 1e-6].max()))]
