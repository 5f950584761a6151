"""The arm of R4 from a URDF of its own

The same arm written as URDF (links with their inertias, continuous joints, balls that touch the floor) is loaded as a spec, to which floor, hand
and servos are added from the program. It has the masses and inertias of the one in MJCF, its hand goes where that one's goes, the gradients
by the set-points are the same, and so is what a network learns of both."""

import numpy as np

import R4
import arm
from common import below, inside, reported

n = inside.native
DENSITY, BALL, LINK, SIDE, LENGTH = 1000, .1, .25, .14, .5  # the balls' radius, half of a link, across it, along it
UPDATES, WORLDS, SIZES, RATE = 8, 64, (3, 128, 128, 4), 3e-3
LEARNED, TESTED = arm.STEPS // 2, R4.LAST  # from where on the hand is to be there
TOLERANCE = 1e-9


def ball(z):
    """(mass, centre, moments about it) along z."""
    mass = 4 / 3 * np.pi * BALL**3 * DENSITY
    return mass, z, np.full(3, .4 * mass * BALL**2)


def link():
    mass, across, along = SIDE**2 * LENGTH * DENSITY, SIDE**2, LENGTH**2
    return mass, LINK, mass / 12 * np.array([across + along, across + along, 2 * across])


def together(*parts):
    """Of bodies on the z axis as one."""
    mass = sum(m for m, _, _ in parts)
    center = sum(m * z for m, z, _ in parts) / mass
    return mass, center, sum(i + m * (z - center)**2 * np.array([1, 1, 0]) for m, z, i in parts)


def urdf():
    body = {"base": ball(0), "femur": link(), "elbow": ball(0), "tibia": together(link(), ball(LENGTH))}
    touches = {"elbow": 0, "tibia": LENGTH}
    text = f'<robot name="arm"><mujoco><option timestep="{arm.H}"/></mujoco><link name="world"/>'
    for name, (mass, z, moment) in body.items():
        ixx, iyy, izz = map(float, moment)
        sphere = f'<collision><origin xyz="0 0 {touches[name]}"/><geometry><sphere radius="{BALL}"/></geometry></collision>' if name in touches else ""
        text += f"""<link name="{name}"><inertial><origin xyz="0 0 {z}"/><mass value="{mass}"/>
          <inertia ixx="{ixx}" iyy="{iyy}" izz="{izz}" ixy="0" ixz="0" iyz="0"/></inertial>{sphere}</link>"""
    for k, (parent, child, place, axis) in enumerate((("world", "base", .1, "0 0 1"), ("base", "femur", 0, "0 1 0"), ("femur", "elbow", LENGTH, "0 0 1"),
                                                      ("elbow", "tibia", 0, "0 1 0"))):
        text += f"""<joint name="j{k}" type="continuous"><origin xyz="0 0 {place}"/><parent link="{parent}"/><child link="{child}"/>
          <axis xyz="{axis}"/></joint>"""
    return (text + "</robot>").encode()


class Robot(inside.Model):
    """A model of a spec that was read from URDF and added to."""

    def __init__(self, torque):
        self.ctx, self.ptr, self.scratch, self.path = n.pbContext_Create(None), inside.native.handle(), inside.native.handle(), "arm.urdf"
        spec, text = inside.native.pointer(n.pbSpec), urdf()
        n.pbSpec_Parse(self.ctx, text, len(text), b"arm.urdf", None, spec)
        self.add(spec, torque)
        n.pbSpec_Compile(spec, self.ptr)
        n.pbSpec_Destroy(spec)
        inside.native.pbModel_SetOption(self.ptr, b"servo", b"all")
        inside.native.pbModel_SetContact(self.ptr, b"method", b"cones")
        self._sizes()
        self.param(self.theta, "geom_friction")[:, 0] = .5  # sliding
        self.param(self.theta, "actuator_speed")[:] = arm.SPEED

    def add(self, spec, torque):
        """What URDF has no words for."""
        floor, hand = n.pbGeomDef_Default(), n.pbSiteDef_Default()
        floor.type, floor.size[:] = n.pb_geomPlane, (5, 5, 1)
        n.pbSpec_AddGeom(spec, floor)
        hand.body, hand.name, hand.pose.pos[2] = 4, b"hand", LENGTH
        n.pbSpec_AddSite(spec, hand)
        for k in range(4):
            servo = n.pbActuatorDef_Default()
            servo.trntype, servo.target, servo.gaintype, servo.biastype = n.pb_trnJoint, b"j%d" % k, n.pb_gainFixed, n.pb_biasAffine
            servo.gainprm[0], servo.biasprm[1], servo.biasprm[2] = 10 * arm.GAIN, -10 * arm.GAIN, -10
            servo.forcelimited, servo.forcerange[:] = n.pb_true, (-torque, torque)
            if k % 2:
                servo.ctrllimited, servo.ctrlrange[:] = n.pb_true, (-np.pi / 2, np.pi / 2)
            n.pbSpec_AddActuator(spec, servo)


class Network:
    """Dense layers with ReLU between them, the last one zero at the start: places to set-points that a whole run keeps. Learned by Adam."""

    def __init__(self, model):
        random = np.random.default_rng(0)
        self.W = [random.standard_normal((a, b)) * np.sqrt(2 / a) for a, b in zip(SIZES, SIZES[1:])]
        self.W[-1][:] = 0
        self.b, self.arms, self.update = [np.zeros(k) for k in SIZES[1:]], arm.Arms(R4.TORQUE, WORLDS, model), 0
        self.moments = [[np.zeros_like(p) for p in self.W + self.b] for _ in range(2)]

    def reach(self, targets):
        """Where the hands are, less where they are to be: (worlds, steps + 1, 3)."""
        self.kept = [targets - arm.MIDDLE]
        for k, (W, b) in enumerate(zip(self.W, self.b)):
            x = self.kept[-1] @ W + b
            self.kept.append(np.maximum(0, x) if k < len(self.W) - 1 else x)
        return self.arms.run(self.kept[-1]) - targets[:, None]

    def pull(self, hand_bar):
        bar, W_bar, b_bar = self.arms.pull(hand_bar), [], []
        for k in reversed(range(len(self.W))):
            if k < len(self.W) - 1:
                bar = bar * (self.kept[k + 1] > 0)
            W_bar.insert(0, self.kept[k].T @ bar)
            b_bar.insert(0, bar.sum(0))
            bar = bar @ self.W[k].T
        return W_bar + b_bar

    def learn(self):
        apart = self.reach(R4.places(np.random.default_rng((0, self.update)), WORLDS))[:, LEARNED + 1:]
        distance, bar = np.linalg.norm(apart, axis=2), np.zeros((WORLDS, arm.STEPS + 1, 3))
        bar[:, LEARNED + 1:] = apart / np.maximum(distance, 1e-12)[..., None] / distance.size
        self.update += 1
        for p, g, m, v in zip(self.W + self.b, self.pull(bar), *self.moments):
            m += .1 * (g - m)
            v += .001 * (g * g - v)
            p -= RATE * (m / (1 - .9**self.update)) / (np.sqrt(v / (1 - .999**self.update)) + 1e-8)

    def error(self, targets):
        """Mean distance over the last second."""
        some = [self.reach(targets[k:k + WORLDS])[:, TESTED + 1:].copy() for k in range(0, len(targets), WORLDS)]
        return np.linalg.norm(np.concatenate(some), axis=2).mean()


def rows():
    models = arm.load(R4.TORQUE), Robot(R4.TORQUE)
    fields = [m.fields() for m in models]
    apart = lambda name: float(np.abs(fields[0][name] - fields[1][name]).max())
    out = [below(f"{name}, apart", apart(name), 1e-12) for name in ("body_mass", "body_ipos", "body_inertia", "body_pos", "jnt_axis")]

    # many set-points, of which some bring hand or elbow to the floor
    random = np.random.default_rng(1)
    setpoints = random.uniform(-1.5, 1.5, (WORLDS, 4))
    arms = [arm.Arms(R4.TORQUE, WORLDS, m) for m in models]
    hands = [a.run(setpoints).copy() for a in arms]
    bar = random.standard_normal(hands[0].shape) / hands[0].size
    gradients = [a.pull(bar) for a in arms]
    out.append(reported("runs of 8 s in which hand or elbow come to the floor, of " + str(WORLDS), int((hands[0][:, :, 2].min(1) < .1 + 1e-3).sum())))
    out.append(below(f"where the hand is in {WORLDS} runs of 8 s, apart, m", float(np.abs(hands[0] - hands[1]).max()), TOLERANCE))
    out.append(below("gradient by the set-points, apart, by the largest", float(np.abs(gradients[0] - gradients[1]).max() / np.abs(gradients[0]).max()), 1e-7))

    # what is learned of them
    targets, found = R4.places(np.random.default_rng(99), 256), []
    for m in models:
        net = Network(m)
        found.append([net.error(targets)])
        for _ in range(UPDATES):
            net.learn()
        found[-1].append(net.error(targets))
    (before, after), (_, other) = found
    out.append(reported("small network, mean error at the start, and after 8 updates, m", f"{before:.4g}, {after:.4g}"))
    out.append(below("mean error after 8 updates of both, apart, relative", abs(other / after - 1), 1e-6))
    out.append(below("what the updates leave of it", other / before, .95))
    return out
