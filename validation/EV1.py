"""Gradients through contact events

Mode event against truth: gradients through contacts that begin with a force that depends on velocity, several at a time, soft ones."""
import numpy as np

from common import Bench, below, row
import inside

PHASES = 10
PLANE = '<geom type="plane" size="9 9 .1" friction="{mu}"{more}/>'


def world(body, mu=0.3, option="", more="", rest="", plane=True):
    """A world with a plane; TS is its time step."""
    floor = PLANE.format(mu=mu, more=more) if plane else ""
    return f'<mujoco><option timestep="TS" {option}/><worldbody>{floor}{body}</worldbody>{rest}</mujoco>'


NOTOUCH = 'contype="0" conaffinity="0"'
CUBE = '<body pos="0 0 .5" euler="20 32 10"><freejoint/><geom type="box" size=".1 .15 .2" mass="1" friction=".3"/></body>'
TOSSED = [.4, .1, -1, .1, .5, .2]


class Scene:
    """One model; qvel0 at the start, rolled out for T; the start is shifted by phase h vz along `along`, so that touch moves through a step."""

    def __init__(self, xml, qvel0, T, shift, e=0.7, qpos0=None):
        self.xml, self.qvel0, self.T, self.shift, self.e, self.qpos0 = xml, qvel0, T, shift, e, qpos0


# One impact, forces that depend on velocity
ALONE = {
    "bead with damping": Scene(world('<body pos="0 0 .9"><joint type="slide" axis="0 0 1" damping="1"/><geom size=".1" mass="1"/></body>',
                                     option='gravity="0 0 0"'), [-3], .8, [-3]),
    "beach ball in air": Scene(world('<body pos="0 0 1.2"><freejoint/><geom size=".15" mass=".05" friction=".5"/></body>', mu=.5,
                                     option='density="1.2" viscosity="1.8e-5"'), [2, 0, 0, 0, 0, 0], .9, [0, 0, -4, 0, 0, 0]),
    "box on a corner": Scene(world(CUBE), TOSSED, .35, [0, 0, -2, 0, 0, 0]),
    "double pendulum": Scene(world(
        f'<body pos="0 0 1"><joint axis="0 1 0"/><geom type="capsule" fromto="0 0 0 .3 0 0" size=".03" {NOTOUCH}/><body pos=".3 0 0">'
        f'<joint axis="0 1 0"/><geom type="capsule" fromto="0 0 0 .3 0 0" size=".03" {NOTOUCH}/><geom size=".06" pos=".3 0 0" friction=".2"/>'
        '</body></body>', mu=.2, more=' euler="0 90 0" pos="-.25 0 0"'), [2, 1], .7, [-.5, -.2]),
    "dumbbell": Scene(world('<body pos="0 0 .5" euler="0 12 0"><freejoint/><geom size=".08" pos=".3 0 0" mass=".6" friction=".3"/>'
                            '<geom size=".06" pos="-.3 0 0" mass=".4" friction=".3"/></body>'), TOSSED, .35, [0, 0, -2, 0, 0, 0]),
    "spinning brick": Scene(world('<body pos="0 0 .5"><freejoint/><geom type="box" size=".05 .1 .2" mass="1" friction="0"/></body>', mu=0,
                                  option='gravity="0 0 0"'), [0, 0, -1, 2, 1, .5], .7, [0, 0, -1, 0, 0, 0]),
    "slide with a servo": Scene(world('<body pos="0 0 .5"><joint name="j" type="slide" axis="0 0 1"/><geom size=".1" mass=".5"/></body>',
                                      rest='<actuator><position joint="j" kp="5" kv="1.5"/></actuator>'), [-2.5], .5, [-2.5]),
    "tendon with damping": Scene(world(
        f'<body pos="0 0 .45"><joint name="a" axis="0 1 0" damping=".02"/><geom type="capsule" fromto="0 0 0 .3 0 0" size=".02" mass=".4" {NOTOUCH}/>'
        f'<body pos=".3 0 0"><joint name="b" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 .2 0 0" size=".02" mass=".2" {NOTOUCH}/>'
        '<geom size=".04" pos=".2 0 0" mass=".1" friction="0"/></body></body>', mu=0,
        rest='<tendon><fixed damping=".05" stiffness="1"><joint joint="a" coef="1"/><joint joint="b" coef="-.6"/></fixed></tendon>'), [1, .5], .45, [1., .5]),
    "friction loss and drag": Scene(world(
        '<body pos="0 0 .5"><joint type="slide" axis="0 0 1" frictionloss="1.5"/><joint type="hinge" axis="0 1 0" damping=".01"/>'
        '<geom type="ellipsoid" size=".1 .12 .08" mass=".3" fluidshape="ellipsoid" friction=".2"/></body>', mu=.2,
        option='density="5" viscosity=".1"'), [-1, 3], .5, [-2, 0]),
    "two bodies, a gyroscope": Scene(world(
        '<body pos="0 0 1"><joint type="ball" damping=".01"/><geom type="cylinder" size=".15 .02" pos="0 0 -.3" mass="1" contype="0" conaffinity="0"/>'
        '<geom size=".06" pos="0 0 -.3" mass=".1" friction=".2"/></body><body pos="-.5 0 .7"><freejoint/>'
        '<geom size=".08" mass=".4" friction=".2"/></body>', plane=False, option='gravity="0 0 -3"'), [0, 0, 8, 2.5, 0, .4, 0, 0, 0], .45, [0, 0, 0, 2.5, 0, 0, 0, 0, 0]),
}


class Run:
    """A scene at one time step: gradients of the state at the end, differences of it."""

    def __init__(self, bench, scene, h, contact, options=None):
        self.scene, self.h = scene, h
        self.m = inside.Model(bench.write("scene.xml", scene.xml.replace("TS", repr(h))), options, None, contact)
        self.n = int(round(scene.T / h))
        self.r = inside.Rollout(self.m, self.n)

    def start(self, phase=0.0):
        m, x = self.m, self.m.init()
        if self.scene.qpos0 is not None:
            x[m.slots["qpos"]] = self.scene.qpos0
        x[m.slots["qvel"]] = self.scene.qvel0
        return m.move(x, np.concatenate([np.array(self.scene.shift) * self.h * phase, np.zeros(m.nt - m.nv)]), 1.0)

    def gradient(self, kind, phase=0.0):
        """d (q, v) at the end by (q, v) at the start, and by theta; the certificate."""
        m = self.m
        self.r.forward(self.start(phase))
        J, P = np.zeros((2 * m.nv, 2 * m.nv)), np.zeros((2 * m.nv, m.ntheta))
        for i, e in enumerate(np.eye(2 * m.nv)):
            x0, theta, c = self.r.vjp(kind, qpos=e[:m.nv], qvel=e[m.nv:])
            J[i], P[i] = x0[:2 * m.nv], theta
        return J, P, c

    def mean(self, kind, phases=PHASES):
        all_ = [self.gradient(kind, (k + .5) / phases) for k in range(phases)]
        return np.mean([a[0] for a in all_], 0), np.mean([a[1] for a in all_], 0), [a[2] for a in all_]

    def end(self, phase, j, s):
        m, x = self.m, self.start(phase)
        return self.r.forward(m.move(x, np.eye(m.nt)[j], s) if j is not None else x)

    def differences(self, sizes, phases=PHASES):
        """Central differences by (q, v), mean over the phases; sizes: of a move of each."""
        m, J = self.m, np.zeros((2 * self.m.nv, 2 * self.m.nv))
        for k in range(phases):
            base = self.end((k + .5) / phases, None, 0)
            for j in range(2 * m.nv):
                up, down = (m.difference(base, self.end((k + .5) / phases, j, s * sizes[j]))[:2 * m.nv] for s in (1, -1))
                J[:, j] += (up - down) / (2 * sizes[j] * phases)
        return J


def block_errors(got, true, nv, T, known=None):
    """Error of each block by its largest entry. A block that is zero is measured by the others: lengths by T."""
    d, out = [slice(0, nv), slice(nv, 2 * nv)], []
    size = lambda r, c: np.abs(true[d[r], d[c]]).max()
    floor = max(size(0, 0), size(1, 1), size(0, 1) / T, size(1, 0) * T) * .1
    for r in (0, 1):
        for c in (0, 1):
            scale = max(size(r, c), floor * T ** (c - r))
            wrong = np.abs(got[d[r], d[c]] - true[d[r], d[c]])
            if known is not None:
                wrong = np.where(known[d[r], d[c]], wrong, 0)
            out.append(wrong.max() / scale)
    return max(out)


# But for losses of zero, whose slopes are those of a kink: at a dof at rest of whichever side the step looks at.
def parameter_errors(m, got, true, leave=("timestep", "dof_frictionloss", "dof_stiction", "tendon_frictionloss")):
    """Largest error of a parameter alone, by the largest of its entries (positions and velocities apart), and its name."""
    worst, name, nv = 0.0, "", m.nv
    for field, q in m.params.items():
        part = slice(q.offset, q.offset + q.rows * q.cols)
        both = [np.abs(true[d, part]).max(initial=0) for d in (slice(0, nv), slice(nv, 2 * nv))]
        if field in leave or max(both) < 1e-7:
            continue
        for k, d in enumerate((slice(0, nv), slice(nv, 2 * nv))):
            e = np.abs(got[d, part] - true[d, part]).max() / max(both[k], .1 * both[1 - k])
            if e > worst:
                worst, name = e, field
    return worst, name


WALLS = world("".join(f'<geom type="plane" size="9 9 .1" friction="0" euler="{e}"/>' for e in ("0 90 0", "-90 0 0", "0 0 0"))
              + '<body><freejoint/><geom size=".1" mass="1" friction="0"/></body>', option='gravity="0 0 0"', plane=False)
FALLS = {"box": '<geom type="box" size=".1 .1 .1" friction=".3"/>', "capsule": '<geom type="capsule" size=".1 .3" euler="90 0 0" friction=".3"/>'}
LEG = ('<body pos="{x} 0 -.1"><joint type="slide" axis="0 0 1" stiffness="300" damping="5"/><geom size=".04" pos="0 0 -.3" mass=".2" friction=".3"/></body>')
BIPED = world('<body pos="0 0 .6"><joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 0 1"/>'
              f'<geom type="box" size=".2 .1 .1" mass="2" {NOTOUCH}/>' + LEG.format(x=.15) + LEG.format(x=-.15) + "</body>")


def alone(bench, out):
    """One impact each, forces that depend on velocity; truth: rigid impacts with Runge-Kutta."""
    for name, scene in ALONE.items():
        at = dict(method="impact", restitution=scene.e)
        truth = {h: Run(bench, scene, 5e-4, at, dict(integrator="RK4")).gradient("exact") for h in (1e-3, 1e-4)}
        if name == "double pendulum":  # at 1 ms Euler's own motion is 10 % off: rigid impacts in those steps are the truth
            truth[1e-3] = Run(bench, scene, 1e-3, at).mean("exact")
        for h in (1e-3, 1e-4):
            run = Run(bench, scene, h, dict(method="cones", restitution=scene.e))
            got, by, c = run.mean("event")
            J, P = truth[h][:2]
            wrong, text = block_errors(got, J, run.m.nv, scene.T), f"{name}, h = {h:g}: by the start"
            sensitive = name == "tendon with damping" and h > 5e-4  # it halves with the step
            out.append(row(text, f"{wrong:.2g}", "reported", True) if sensitive else below(text, wrong, .05))
            wrong, worst = parameter_errors(run.m, by, P)
            text = f"{name}, h = {h:g}: by each parameter alone, worst {worst}"
            out.append(below(text, wrong, .05) if h < 5e-4 else row(text, f"{wrong:.2g}", "reported", True))
            grazing, events = sum(x.grazing for x in c), sum(x.events for x in c)
            out.append(row(f"{name}, h = {h:g}: events, grazing in {PHASES} runs", f"{events}, {grazing}", ">= 10, all" if sensitive else ">= 10, 0",
                           events >= PHASES and grazing == (events if sensitive else 0)))


def walls(bench, out):
    v, T = np.array([-3., -2., -1.]), .3
    for h in (1e-3, 1e-4):
        scene = Scene(WALLS, [*v, 0, 0, 0], T, [*v, 0, 0, 0], .8, [*(.1 - v * (.1 + np.array([.3, .5, .8]) * h)), 1, 0, 0, 0])
        got, _, _ = Run(bench, scene, h, dict(method="cones", restitution=.8)).mean("event")
        out.append(below(f"ball, three walls within a step, e = 0.8, h = {h:g}: places by places", np.abs(got[:3, :3] + .8 * np.eye(3)).max(), .02))


def falls(bench, out):
    """Several contacts land together; directions that keep them together."""
    together = [0, 1, 2, 6, 7, 8]
    for name, geom in FALLS.items():
        xml = world(f'<body pos="0 0 .3"><freejoint/>{geom}</body>')
        scene = Scene(xml, [2, 0, 0, 0, 0, 0], .35, [0, 0, 2, 0, 0, 0], .5)
        J = Run(bench, scene, 5e-4, dict(method="impact", restitution=.5), dict(integrator="RK4")).gradient("exact")[0]
        for h in (1e-3, 1e-4):
            got, _, c = Run(bench, scene, h, dict(method="cones", restitution=.5)).mean("event")
            pick = np.ix_(together, together)
            out.append(below(f"{name} flat, e = 0.5, h = {h:g}: by the start", block_errors(got[pick], J[pick], 3, scene.T), .05))
            out.append(row(f"{name} flat, h = {h:g}: counted as simultaneous", c[0].simultaneous, ">= 2", c[0].simultaneous >= 2))


def plain(bench, out):
    """Landings that stay, hard and soft: one entry against differences whose moves span 20 steps and more, at two sizes."""
    scenes = {f"{k} flat": (world(f'<body pos="0 0 .3"><freejoint/>{g}</body>'), 6, 2, 0, .8) for k, g in FALLS.items()}
    scenes["box on a corner"] = (world(f'<body pos="0 0 .4" euler="20 32 10"><freejoint/>{FALLS["box"]}</body>'), 6, 2, 0, .8)
    scenes["biped"] = (BIPED, 4, 1, 1, .5)
    for name, (xml, nv, j, i, T) in scenes.items():
        for method in ("cones", "soft"):
            for h in (1e-3,):
                shift = 2. * np.eye(nv)[j]
                run = Run(bench, Scene(xml, 2 * np.eye(nv)[0], T, shift, 0), h, dict(method=method))
                wide = []
                for size in (2e-2, 1e-2) if h > 5e-4 else (1e-2, 8e-3):
                    ends = []
                    for k in range(PHASES):
                        base = run.end((k + .5) / PHASES, None, 0)
                        ends.append([run.m.difference(base, run.end((k + .5) / PHASES, j, s))[i] for s in (size, -size)])
                    wide.append(np.mean([(a - b) / (2 * size) for a, b in ends]))
                all_ = [run.gradient("event", (k + .5) / PHASES) for k in range(PHASES)]
                exact = np.mean([run.gradient("exact", (k + .5) / PHASES)[0][i, j] for k in range(PHASES)])
                got, most = np.mean([a[0][i, j] for a in all_]), max(np.abs(a[0]).max() for a in all_)
                left = sum(a[2].grazing + a[2].simultaneous for a in all_)
                out.append(row(f"{name}, {method}, h = {h:g}: event, exact, differences at two sizes, left or together",
                               f"{got:.3f}, {exact:.3f}, {wide[0]:.3f} {wide[1]:.3f}, {left}", "reported", True))
                out.append(row(f"{name}, {method}, h = {h:g}: no further from the differences than exact, or within 5 %",
                               abs(got - wide[1]), "holds", abs(got - wide[1]) <= max(.05 * abs(wide[1]), abs(exact - wide[1]))))
                out.append(below(f"{name}, {method}, h = {h:g}: largest entry of any run", most, 200))


def random_impacts(bench, out, count=1000):
    """Single bodies of random shape, size, turn, speed, spin, friction and restitution, up to their first touch."""
    grazing = seen = 0
    for seed in range(count):
        rng = np.random.default_rng(seed)
        e, a, b, c = rng.uniform(0, .9), *rng.uniform(.04, .15, 3)
        shape = [f'type="sphere" size="{a}"', f'type="capsule" size="{a} {b}"', f'type="box" size="{a} {b} {c}"', f'type="ellipsoid" size="{a} {b} {c}"'][seed % 4]
        turn = " ".join(str(x) for x in rng.uniform(0, 360, 3))
        body = f'<body pos="0 0 .6" euler="{turn}"><freejoint/><geom {shape} mass="{rng.uniform(.05, 3)}" friction="{rng.uniform(0, 1)}"/></body>'
        xml = world(body, mu=0, option=f'density="{rng.uniform(0, 3)}" viscosity="1e-4"').replace("TS", "1e-3")
        m = inside.Model(bench.write("scene.xml", xml), None, None, dict(method="cones", restitution=e))
        x = m.init()
        x[m.slots["qvel"]] = np.concatenate([rng.uniform(-2, 2, 2), [rng.uniform(-3, -.3)], rng.uniform(-4, 4, 3)])
        y, n = x, 0
        while n == 0 or (n < 900 and not m.report().contacts):
            y, n = m.step(y)[0], n + 1
        r = inside.Rollout(m, n + 2)
        r.forward(x)
        certificate = r.vjp("event", qpos=np.ones(6), qvel=np.ones(6))[2]
        seen += certificate.events + certificate.grazing > 0
        grazing += certificate.grazing > 0
    out.append(row(f"{count} random impacts: seen", seen, f"{count}", seen == count))
    out.append(below(f"{count} random impacts: counted as grazing", grazing, .02 * count))


def rows():
    out = []
    with Bench() as bench:
        for part in (alone, walls, falls, plain, random_impacts):
            part(bench, out)
    return out
