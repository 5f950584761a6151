"""Mass of a chain from a collision

The mass of a chain from watching it being hit by a ball of known mass (lcp-physics, experiments/inference.py)."""
import numpy as np

from common import Bench, below, contact, row, slope
import chain
import inside

# Observed at 30 frames a second; two steps a frame, for the sake of the joints' drift.
LINKS, FRAMES, SUBSTEPS, TRUTH = 10, 300, 2, 7.0
STEPS, H = FRAMES * SUBSTEPS, chain.H / SUBSTEPS
SETTINGS = {"method": "cones", "erp": 0.5, "cfm": 1e-12, "restitution": 0.5, "mixing": "mean"}
WORDS = [w for k, v in SETTINGS.items() for w in ("--contact", f"{k}={v}")] + ["--param", "geom_restitution:ball=1"]
TABLE = {1: (9132.5, 9358.5), 3: (3874.9, 4014.1), 5: (511.5, 531.9), 15: (707.2, 724.5)}  # of prototypes: fixed and varying steps


class Watched:
    """The scene, what was seen of it, and the loss: the mean squared deviation of all bodies' (x, y, angle) over all frames."""

    def __init__(self, bench, masses=None, words=()):
        self.bench, self.count = bench, 0
        self.path = bench.write("chain.xml", chain.model([TRUTH / LINKS] * LINKS, h=H))
        push = np.zeros((STEPS, 3 * LINKS + 3))
        push[:chain.PUSH_STEPS * SUBSTEPS, -3] = chain.PUSH
        self.push, self.words = push, [*WORDS, *words, "--qfrc", bench.write("push.npy", push), "--steps", STEPS]
        self.seen = self.run(np.full(LINKS, TRUTH / LINKS) if masses is None else masses)

    def parameters(self, masses):
        out = {}
        for i, m in enumerate(masses):
            out[f"body_mass:link{i}"] = m
            out[f"body_inertia:link{i}"] = [chain.link_inertia(m)] * 3
        return out

    def run(self, masses, *words):
        self.count += 1
        return self.bench.simulate(self.path, *self.words, *words, params=self.parameters(masses))["qpos"][::SUBSTEPS]

    def loss(self, m):
        return float(np.mean((self.run(np.full(LINKS, m / LINKS))[1:] - self.seen[1:])**2))

    def gradient(self, m):
        """(loss, its derivative by the chain's mass)"""
        masses = np.full(LINKS, m / LINKS)
        off = self.run(masses) - self.seen
        bar = np.zeros((STEPS + 1, off.shape[1]))
        bar[SUBSTEPS::SUBSTEPS] = 2 * off[1:] / off[1:].size
        g = self.bench.gradient(self.path, {"qpos": bar}, *self.words, "--wrt", "body_mass,body_inertia", params=self.parameters(masses))
        links = slice(1, 1 + LINKS)
        by = g["param/body_mass"][links].ravel() + chain.link_inertia(1) * g["param/body_inertia"].reshape(-1, 3)[links].sum(1)
        return float(np.mean(off[1:]**2)), float(by.sum() / LINKS)


def rmsprop(f, m, limit=100):
    """The source's optimizer and its stop."""
    square, last = 0.0, np.inf
    for k in range(limit):
        loss, g = f(m)
        if abs(last - loss) < 1e-3:
            break
        last, square = loss, 0.99 * square + 0.01 * g * g
        m -= 0.5 * g / (np.sqrt(square) + 1e-8)
    return m, k + 1


def search(f, m, limit=100):
    """Ours: where observations can be met the loss is about c (m - m*)^2, so that m* is 2 loss / slope away; half as far while the loss does
    not fall. From where that ends (a jump of the loss) it goes on a little beside."""
    best, step, fraction, kicks = (np.inf, m), 0.0, 1.0, 0
    for k in range(limit):
        loss, g = f(m)
        if loss < best[0]:
            best, step, fraction = (loss, m), -2 * loss / g, 1.0
            step = np.clip(step, -0.8 * m, 4 * m)
            if loss < 1e-9:
                break
        else:
            fraction /= 2
        if fraction < 1e-2:
            kicks, fraction = kicks + 1, 1.0
            step = best[1] * 0.02 * (kicks if kicks % 2 else -kicks)
        m = best[1] + fraction * step
    return best[1], k + 1


def drift(q):
    """Largest gap of a joint's two anchors [px], the first against the world."""
    q = q.reshape(len(q), -1, 3)[:, :LINKS]
    center = q[..., :2] + np.stack([np.full(LINKS, chain.X), 50 + chain.PITCH * np.arange(LINKS)], -1)
    end = lambda y: center + y * np.stack([-np.sin(q[..., 2]), np.cos(q[..., 2])], -1)
    upper, lower = end(-25.0), end(25.0)
    upper[:, 0] = end(-20.0)[:, 0]
    lower = np.concatenate([np.broadcast_to([chain.X, chain.TOP], (len(q), 1, 2)), lower[:, :-1]], 1)
    return float(np.linalg.norm(upper - lower, axis=-1).max())


class Sensitive:
    """Deviations and their derivatives by the logarithm of every link's mass, forwards through the rollout."""

    def __init__(self, w):
        self.w, self.m = w, contact(inside.Model(w.path), **SETTINGS)
        m, self.theta = self.m, self.m.theta.copy()
        restitution = m.param(self.theta, "geom_restitution")
        restitution[:], restitution[-1] = 0.5, 1

    def __call__(self, z, frames, derivatives=True):
        m, theta, links = self.m, self.theta, slice(1, 1 + LINKS)
        masses = np.exp(z)
        m.param(theta, "body_mass")[links, 0] = masses
        m.param(theta, "body_inertia")[links] = chain.link_inertia(masses)[:, None]
        ways = np.zeros((LINKS, m.ntheta))
        for i in range(LINKS):
            m.param(ways[i], "body_mass")[1 + i] = masses[i]
            m.param(ways[i], "body_inertia")[1 + i] = chain.link_inertia(masses[i])
        x, tangents, r, J = m.init(), [np.zeros(m.nt) for _ in ways], [], []
        for k in range(frames * SUBSTEPS):
            y, _, record = m.step_recorded(x, qfrc=self.w.push[k], theta=theta)
            if derivatives:
                tangents = [m.jvp(record, t, d_theta=way, qfrc=self.w.push[k], theta=theta)[0] for t, way in zip(tangents, ways)]
            x = y
            if (k + 1) % SUBSTEPS == 0:
                r.append(m.parts(x)[0] - self.w.seen[(k + 1) // SUBSTEPS])
                J.append(np.array([t[:m.nv] for t in tangents]).T)
        return np.concatenate(r), np.concatenate(J)


def all_masses(w, start):
    """Levenberg-Marquardt on the logarithms of all masses z, over longer and longer times; at first they shall differ little, with the
    weight `alike` on (z - mean z)^2."""
    f, z, count = Sensitive(w), np.log(start), 0
    even = np.eye(LINKS) - 1 / LINKS
    for frames, alike in ((90, 1e3), (150, 1e2), (FRAMES, 10), (FRAMES, 0)):
        damping, r, A = 1.0, *f(z, frames)
        cost = r @ r + alike * z @ even @ z
        while count < 80 and damping < 1e6 and np.mean(r**2) > 1e-10:
            N = A.T @ A + alike * even
            step = -np.linalg.solve(N + damping * np.diag(np.diag(N)), A.T @ r + alike * even @ z)
            step *= min(1, 0.7 / np.abs(step).max())
            count += 1
            after = f(z + step, frames, False)[0]
            new = after @ after + alike * (z + step) @ even @ (z + step)
            if new < cost:
                gained, z, damping = cost - new, z + step, damping / 5
                r, A = f(z, frames)
                cost = new
                if gained < 1e-4 * cost and alike:
                    break
            else:
                damping *= 5
    return np.exp(z), count, A


def rows():
    out = []
    with Bench() as bench:
        w = Watched(bench)
        for m, table in TABLE.items():
            loss = w.loss(m)
            out.append(row(f"loss at m = {m}", loss, f"{table[0]:g} or {table[1]:g}, within 20 %", min(abs(loss / t - 1) for t in table) <= 0.2))
        for m in (1.0, 3.0, 9.0):
            g, d = w.gradient(m)[1], float(slope(lambda s: w.loss(m + s), 1e-5))
            out.append(below(f"d(loss)/d(mass) at m = {m:g} against differences, relative", abs(g / d - 1), 1e-6))
        starts = [np.random.default_rng(s).uniform() for s in range(10)]
        ours, theirs = [search(w.gradient, m) for m in starts], [rmsprop(w.gradient, m) for m in starts]
        good = lambda found: sum(abs(m - TRUTH) <= 0.007 for m, _ in found)
        out += [
            row("mass within 0.007 of 7 in at most 100 evaluations with gradient, of 10 starts from U(0, 1)", good(ours), ">= 9", good(ours) >= 9),
            row("evaluations, most", max(n for _, n in ours), "<= 100", max(n for _, n in ours) <= 100),
            row("the source's RMSprop and stop: within 0.007, most iterations", f"{good(theirs)} of 10, {max(n for _, n in theirs)}", "reported", True),
            below("joints' drift from their anchors over 10 s [px]", drift(w.seen), 0.1),
        ]
        loose = Watched(bench, words=("--contact", "erp=0"))
        out.append(row("... by velocities alone (erp 0) [px]", drift(loose.seen), "> 0.4", drift(loose.seen) > 0.4))
        masses = np.random.default_rng(0).uniform(0.5, 0.9, LINKS)
        masses *= TRUTH / masses.sum()
        found, count, A = all_masses(Watched(bench, masses), np.full(LINKS, 0.3))
        sizes = np.linalg.svd(A, compute_uv=False)
        out += [
            below("ten different masses of links from one such observation, all from 0.3: worst relative error", float(np.abs(found / masses - 1).max()), 0.05),
            row("... steps tried", count, "reported", True),
            row("... Fisher matrix: deviation of log masses by noise of 1 px, in the best and the worst seen direction", f"{1 / sizes[0]:.2g}, {1 / sizes[-1]:.2g}",
                "reported", True),
        ]
    return out
