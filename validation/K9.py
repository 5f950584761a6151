"""A figure driven by torques follows a clip

A figure of 16 bodies, a free pelvis and 23 joints, each driven by a motor within its limits, follows a clip of 4 s: a squat, a reach upwards,
leans to both sides with arms and waist turned, with keys every half second and both feet planted. Nothing holds the pelvis. Plans of .3 s in steps of 10 ms are
made every 20 ms from the state that has been reached; the clip's next .3 s are set as their targets. The plant takes steps of 2.5 ms
and has elliptic cones, so that it is not the plan's model. Beside the clip itself others are followed that are drawn: of other size
and speed, each begun where the clip begins."""
import time

import numpy as np
from scipy.interpolate import CubicSpline

from common import below, figure, reported, row

import pullback as pb

THIGH, SHANK, SOLE = .42, .42, .07  # m; the sole is below the ankle
PLAN, PLANT, INTERVAL, HORIZON = .01, .0025, .02, 30
LIMIT = {"waist": 150, "waist_roll": 100, "waist_yaw": 80, "shoulder": 60, "shoulder_roll": 60, "shoulder_yaw": 30, "elbow": 40,
         "hip_yaw": 80, "hip_roll": 150, "hip": 200, "knee": 250, "ankle": 120, "ankle_roll": 80}  # N m
SIDES = ("_l", "_r")
JOINTS = [*list(LIMIT)[:3], *(j + s for s in SIDES for j in list(LIMIT)[3:7]), *(j + s for s in SIDES for j in list(LIMIT)[7:])]


def limit(joint):
    return LIMIT[joint.removesuffix("_l").removesuffix("_r")]


def leg(s, y):
    return f"""<body name="thigh{s}" pos="0 {y} 0"><joint name="hip_yaw{s}" axis="0 0 1"/><joint name="hip_roll{s}" axis="1 0 0"/>
<joint name="hip{s}" axis="0 1 0"/><geom type="capsule" size=".07" fromto="0 0 0 0 0 -{THIGH}" mass="8"/>
<body name="shank{s}" pos="0 0 -{THIGH}"><joint name="knee{s}" axis="0 1 0"/><geom type="capsule" size=".05" fromto="0 0 0 0 0 -{SHANK}" mass="3.5"/>
<body name="foot{s}" pos="0 0 -{SHANK}"><joint name="ankle{s}" axis="0 1 0"/><joint name="ankle_roll{s}" axis="1 0 0"/>
<geom type="box" size=".12 .05 .025" pos=".04 0 -.045" mass="1.2" contype="1"/></body></body></body>"""


def arm(s, y):
    return f"""<body name="arm{s}" pos="0 {y} .45"><joint name="shoulder{s}" axis="0 1 0"/><joint name="shoulder_roll{s}" axis="1 0 0"/>
<joint name="shoulder_yaw{s}" axis="0 0 1"/><geom type="capsule" size=".045" fromto="0 0 0 0 0 -.3" mass="2"/>
<body name="forearm{s}" pos="0 0 -.3"><joint name="elbow{s}" axis="0 1 0"/>
<geom type="capsule" size=".035" fromto="0 0 0 0 0 -.28" mass="1.6"/></body></body>"""


def model(timestep, options=""):
    motors = "".join(f'<motor name="{j}" joint="{j}" gear="{limit(j)}" ctrlrange="-1 1" ctrllimited="true"/>' for j in JOINTS)
    return f"""<mujoco><compiler angle="radian"/><option timestep="{timestep}" {options}/>
<default><geom contype="0" conaffinity="0" friction=".9"/><joint damping="1" armature=".05"/></default>
<worldbody><geom type="plane" size="5 5 1" conaffinity="1"/><body name="pelvis" pos="0 0 {THIGH + SHANK + SOLE}"><freejoint name="root"/>
<geom type="box" size=".09 .14 .08" mass="10"/><body name="chest" pos="0 0 .1"><joint name="waist" axis="0 1 0"/>
<joint name="waist_roll" axis="1 0 0"/><joint name="waist_yaw" axis="0 0 1"/><geom type="capsule" size=".11" fromto="0 -.07 .3 0 .07 .3" mass="24"/>
<geom type="sphere" size=".1" pos="0 0 .62" mass="5"/>{arm("_l", .2)}{arm("_r", -.2)}</body>{leg("_l", .1)}{leg("_r", -.1)}</body></worldbody>
<actuator>{motors}</actuator></mujoco>"""


def key(bend, lean=0., **joints):
    """Angles with knees bent, legs leant to a side in parallel, and others; the feet stay flat."""
    q = dict.fromkeys(JOINTS, 0.)
    for s in SIDES:
        q["hip" + s], q["knee" + s], q["ankle" + s] = -.55 * bend, bend, -.45 * bend
        q["hip_roll" + s], q["ankle_roll" + s] = lean, -lean
    for name, angle in joints.items():
        for joint in [name] if name in q else [name + s for s in SIDES]:
            q[joint] += angle
    return np.array(list(q.values()))


KEYS = np.array([key(.2), key(.8, waist=.25, shoulder=-.8), key(1.2, waist=.4, shoulder=-1.3), key(.5, waist=.1, shoulder=-1.6, elbow=-.3),
                 key(.2, shoulder=-2.4), key(.25, .02, waist_roll=.03, shoulder_l=-1.8, shoulder_roll_r=-.5),
                 key(.25, -.02, waist_yaw=.4, shoulder_roll_l=.5, elbow_r=-1.2), key(.5, waist=.15, waist_yaw=-.3, shoulder_l=-1.2, elbow_l=-.5),
                 key(.2)])


class Clip:
    """The clip, its angles larger and its time longer by these factors: both end where they begin."""

    def __init__(self, size=1., longer=1.):
        self.seconds = 4 * longer
        self.angles = CubicSpline(np.linspace(0, self.seconds, len(KEYS)), KEYS[0] + size * (KEYS - KEYS[0]), bc_type="clamped")

    def at(self, times):
        return self.angles(np.minimum(times, self.seconds))

    def pelvis(self, times):
        """Its place above planted feet: the left leg's bones, from the ankle upwards."""
        q = dict(zip(JOINTS, self.at(times).T, strict=True))
        forward = THIGH * np.sin(q["hip_l"]) - SHANK * np.sin(q["ankle_l"])
        along = THIGH * np.cos(q["hip_l"]) + SHANK * np.cos(q["ankle_l"])
        return np.stack([forward, -np.sin(q["hip_roll_l"]) * along, np.cos(q["hip_roll_l"]) * along + SOLE], axis=1)


def task(clip):
    times = PLAN * np.arange(HORIZON + 1)
    start = [*(clip.pelvis(times[:1])[0] - [0, 0, 5e-4]), 1, 0, 0, 0, *KEYS[0]]
    loss = [{"name": "joints", "qpos": JOINTS, "target": clip.at(times).tolist(), "weight": 10},
            {"name": "pelvis", "body": "pelvis", "target": clip.pelvis(times).tolist(), "weight": 20},
            {"name": "upright", "qpos": "root", "components": [3, 4, 5], "weight": 5},
            {"name": "rates", "qvel": True, "weight": .01}, {"name": "effort", "control": True, "weight": .05}]
    return {"model": model(PLAN), "steps": HORIZON, "init": {"qpos": start}, "loss": [{**t, "at": "all"} for t in loss],
            "variables": [{"name": "torques", "control": True, "lower": -1, "upper": 1}]}


def follow(clip, planned=True):
    """The plant along the clip: states, controls, times of plans; by plans, or drawn to the clip joint by joint."""
    plant, mpc = pb.loads(model(PLANT, 'cone="elliptic"')), pb.Mpc(task(clip))
    s = plant.init()
    s.qpos = task(clip)["init"]["qpos"]
    states, controls, took = [s.copy()], [], []
    for k in range(round(clip.seconds / INTERVAL)):
        now = k * INTERVAL
        if planned:
            coming = now + PLAN * np.arange(HORIZON + 1)
            mpc.set(targets={"joints": clip.at(coming), "pelvis": clip.pelvis(coming)})
            begun = time.thread_time()
            mpc.plan(s, elapsed=INTERVAL if k else 0, iterations=2 if k else 50)
            took.append(time.thread_time() - begun)
        for i in range(round(INTERVAL / PLANT)):
            t = i * PLANT
            u = mpc.control(s, time=t) if planned else np.clip(4 * (clip.at(now + t + PLANT) - s.qpos[7:]) - .05 * s.qvel[6:], -1, 1)
            plant.step_into(s, u)
            states.append(s.copy())
            controls.append(u)
    return plant, states, np.array(controls), took[1:]


def errors(clip, states):
    """Of joints, degrees: (times, joints)."""
    angles = np.array([s.qpos[7:] for s in states])
    return np.degrees(angles - clip.at(PLANT * np.arange(len(states))))


def rms(x, axis=None):
    return np.sqrt(np.mean(x ** 2, axis=axis))


def root_force(plant, states, controls):
    """The largest generalized force on the pelvis that is not gravity's, of velocities, or of contact, N and N m."""
    most = 0.
    for s, u in zip(states[:-1:40], controls[::40], strict=True):
        seen = plant.evaluate(s, u, names=("qfrc_actuator", "qfrc_passive"))
        most = max(most, np.abs(seen["qfrc_actuator"][:6]).max(), np.abs(seen["qfrc_passive"][:6]).max())
    return most


def slips(plant, states):
    """How far the feet go from where they stood, mm."""
    feet = np.array([plant.evaluate(s, names="xpos")["xpos"] for s in states[::20]])[:, [plant.names("body").index("foot" + s) for s in SIDES]]
    return 1e3 * np.linalg.norm(feet - feet[0], axis=2).max()


def rows():
    clip = Clip()
    plant, states, controls, took = follow(clip)
    off = errors(clip, states)
    each = rms(off, axis=0)
    out = [below("joints off the clip, root mean square over all, degrees", rms(off), 3),
           below(f"the same of the worst joint, {JOINTS[int(each.argmax())]}, degrees", each.max(), 3),
           reported("largest of any joint at any time, degrees", f"{np.abs(off).max():.2f}"),
           below("force of motors, springs and dampers on the pelvis, N and N m", root_force(plant, states, controls), 0),
           below("a motor's torque by its limit, at most", np.abs(controls).max(), 1),
           below("feet away from where they stood, at most, mm", slips(plant, states), 10)]

    rng = np.random.default_rng(9)
    drawn = [Clip(*rng.uniform([.7, .9], [1.15, 1.4])) for _ in range(4)]
    worst = [rms(errors(c, follow(c)[1]), axis=0).max() for c in drawn]
    out.append(below("worst joint of four clips that are drawn: .7 to 1.15 as large, .9 to 1.4 as long, degrees", max(worst), 3))

    plain = follow(clip, planned=False)[1]
    fell = next((k * PLANT for k, s in enumerate(plain) if s.qpos[2] < .5), None)
    out.append(row("drawn to the clip joint by joint, with the same limits, it falls after, s", fell, "it falls", fell is not None))
    out.append(reported("a plan of two iterations: median, 99th percentile, ms", "{:.1f}, {:.1f}".format(*(1e3 * np.percentile(took, (50, 99))))))
    figure("K9-joints", "joints off the clip", "steps of 2.5 ms", "degrees",
           {"root mean square of all": rms(off, axis=1), f"the worst, {JOINTS[int(each.argmax())]}": np.abs(off[:, each.argmax()])})
    return out
