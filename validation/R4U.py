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
UPDATES, WORLDS = 8, 64
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
        net = R4.Told("small")
        net.arms = arm.Arms(R4.TORQUE, R4.WORLDS, m)
        found.append([net.errors(targets).mean()])
        for _ in range(UPDATES):
            net.learn()
        found[-1].append(net.errors(targets).mean())
    (before, after), (_, other) = found
    out.append(reported("small network, mean error at the start, and after 8 updates, m", f"{before:.4g}, {after:.4g}"))
    out.append(below("mean error after 8 updates of both, apart, relative", abs(other / after - 1), 1e-6))
    out.append(below("what the updates leave of it", other / before, .95))
    return out
