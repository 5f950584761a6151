"""The arm of the cases R3 and R4: four servos turn two links of half a meter, from facts of the source's file; what a policy sees of it,
where its hand is, what it takes to hold it, and batches of it."""
import os
import tempfile

import numpy as np

import common  # noqa: F401  (sets the path to it)
import inside

H, STEPS, SPEED, GAIN = .01, 800, np.pi / 4, 30  # 8 s; 45 degrees a second; 1/s
MIDDLE = np.array([0, 0, .1])  # of the sphere on the floor: the hand is at most a meter from here
LINK, BALL = .14 * .14 * .5 * 1000, 4 / 3 * np.pi * .1**3 * 1000  # kg


def model(torque):
    """Hinges about z and y in the base, about z and y in the elbow; set-points of those about y within 90 degrees."""
    place = lambda k: ' ctrlrange="-1.5707963267948966 1.5707963267948966"' * (k % 2)
    servos = "".join(f'<position name="m{k}" joint="j{k}" kp="{10 * GAIN}" kv="10" forcerange="-{torque} {torque}"{place(k)}/>' for k in range(4))
    sensors = "".join(f'<actuatorfrc actuator="m{k}"/>' for k in range(4))
    link, own = '<geom type="box" size=".07 .07 .25" pos="0 0 .25" contype="0" conaffinity="0"/>', 'conaffinity="0"'
    return f"""<mujoco model="arm"><option timestep="{H}"/><default><geom friction=".5" density="1000"/></default><worldbody>
      <geom name="floor" type="plane" size="5 5 1"/>
      <body name="base" pos="0 0 .1"><joint name="j0" axis="0 0 1"/><geom type="sphere" size=".1" contype="0" conaffinity="0"/>
        <body name="femur"><joint name="j1" axis="0 1 0"/>{link}
          <body name="elbow" pos="0 0 .5"><joint name="j2" axis="0 0 1"/><geom type="sphere" size=".1" {own}/>
            <body name="tibia"><joint name="j3" axis="0 1 0"/>{link}<geom type="sphere" size=".1" pos="0 0 .5" {own}/>
              <site name="hand" pos="0 0 .5"/></body></body></body></body></worldbody>
      <actuator>{servos}</actuator><sensor>{sensors}</sensor></mujoco>"""


def load(torque):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "arm.xml")
        with open(path, "w", encoding="utf-8") as f:
            f.write(model(torque))
        m = inside.Model(path, options={"servo": "all"}, contact={"method": "cones"})
    m.param(m.theta, "actuator_speed")[:] = SPEED
    return m


def held(p):
    """Least torques (shoulder, elbow) [N m] that hold the hand at p: of both ways to bend in the upright plane, the one whose larger
    torque is less."""
    d, z, g = np.linalg.norm(p - MIDDLE), p[2] - MIDDLE[2], 9.81
    mean, half = np.arccos(z / d), np.arccos(min(1., d))
    best = None
    for side in (1, -1):
        upper, lower = mean + side * half, mean - side * half  # from the vertical
        elbow = g * np.sin(lower) * (.25 * LINK + .5 * BALL)
        shoulder = g * np.sin(upper) * (.75 * LINK + BALL) + elbow
        found = abs(shoulder), abs(elbow)
        if best is None or max(found) < max(best):
            best = found
    return best


class Arms:
    """Worlds of the arm side by side. Controls are set-points, one row a world, which a whole run keeps."""

    def __init__(self, torque, worlds, m=None, threads=2):
        l = inside.native
        self.m, self.worlds, self.pool, self.batch = m or load(torque), worlds, inside.native.handle(), inside.native.handle()
        l.pbPool_Create(self.m.ctx, threads, self.pool)
        options = inside.native.pbBatchOptions(worlds=worlds, pool=self.pool, steps=STEPS)
        l.pbBatch_Create(self.m.ctx, self.m.ptr, options, self.batch)
        l.pbBatch_WantParameters(self.batch, [], 0)
        self.hand = np.zeros((worlds, STEPS + 1, 3))

    def __del__(self):
        if self.batch and self.m.ctx:  # at the end of a program the model may go first
            inside.native.pbBatch_Destroy(self.batch)
            inside.native.pbPool_Destroy(self.pool)

    def run(self, setpoints):
        """Where the hands are: (worlds, STEPS + 1, 3)."""
        l, self.given = inside.native, np.ascontiguousarray(setpoints)
        self.input = inside.native.pbBatchInput(ctrl=self.given, constant=True)
        output = inside.native.pbBatchOutput(site_xpos=self.hand)
        l.pbBatch_Reset(self.batch, self.m.theta, None, 0, -1, None)
        l.pbBatch_Rollout(self.batch, self.m.theta, None, 0, STEPS, self.input, output)
        return self.hand

    def pull(self, hand_bar):
        """Cotangents of all hands to those of the set-points (worlds, 4)."""
        out = np.zeros((self.worlds, 4))
        bar = inside.native.pbRolloutBar(site_xpos=inside.native.pbCotangent(data=np.ascontiguousarray(hand_bar), count=STEPS + 1))
        inside.native.pbBatch_Vjp(self.batch, bar, None, inside.native.pbBatchGradient(ctrl=out), None)
        return out


def set_policy(m, network_inputs, layers, observe, seed=0, every=1):
    """A network into the model, which is then that of the closed loop. layers: dictionaries of pbLayerDef; observe: of pbObserveDef."""
    l, n = inside.native, inside.native
    m.layers = (n.pbLayerDef * len(layers))(*(n.pbLayerDef(**layer) for layer in layers))
    m.observe = (n.pbObserveDef * len(observe))(*(n.pbObserveDef(**seen) for seen in observe))
    m.network = inside.native.handle()  # must outlive the model, as long as its context
    l.pbNetwork_Create(m.ctx, network_inputs, m.layers, len(layers), seed, False, m.network)
    definition = n.pbPolicyDef(observe=m.observe, observe_count=len(observe), decide=l.pbNetwork_Function(m.network), every=every)
    theta = m.theta
    l.pbModel_SetPolicy(m.ptr, definition)
    m._sizes()
    m.theta[:len(theta)] = theta  # parameters of the policy come last


def weights(m):
    """Where the policy's parameters stand in theta."""
    own = [p for name, p in m.params.items() if name.startswith("policy.")]
    return slice(min(p.offset for p in own), max(p.offset + p.rows * p.cols for p in own))
