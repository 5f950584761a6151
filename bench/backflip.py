#!/usr/bin/env python3
"""A published humanoid of 29 joints does a backflip by plans that are made again and again (pb.Mpc), in MuJoCo's own step with its own contacts and the
published limits of torque, and stands. Table, and bench/results/backflip.csv; exits with 1 where something is not kept.   make bench-whole-body

The robot, its servos, limits, friction and floor are those of bench/whole_body.py; the plant is that model at a step of 5 ms, with all of its contacts.

Once, before (--find): from postures of a crouch, a leap, a tuck and a landing, and from how fast mass and spin are to be on the way, iLQR finds the first
.72 s, in steps of 10 ms. Contacts that come and go step by step stop it at once where they are sharp: it begins with smooth contacts that are felt a
centimeter away, on .4 s, then longer and longer times, then sharper and sharper contacts, and ends with sharp ones: bench/plans/backflip.npz.

Then the plant, from rest: plans of .25 s, every 10 ms, from the state that is reached, follow that motion and then the postures. The plan's model knows
contacts of body and floor but not of body and body, and has limits of torque as costs, since what acts beyond a limit has no derivative; the plant has them
all, exactly. After touchdown plans of bench/whole_body.py, half a second every 20 ms, make it stand.

Beside differences: plans at moments of the way, each from the motion as a guess, with as many iterations as the flip has, and right after each
mjd_transitionFD of its steps, on two threads both; of the other only the differences of one iteration are counted, of ours all. Medians, and ratios of
neighbors. The same iLQR in NumPy with these differences goes stretches of .2 s of the leap, plan after plan, beside ours: what both come to.

  bench/backflip.py [--find] [--trajectory FILE.npz]
"""
import argparse
import csv
import os
import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import whole_body
from whole_body import ROOT, PLANT_STEP, package, standing

FOUND = os.path.join(ROOT, "bench", "plans", "backflip.npz")
STEP, HORIZON, ITERATIONS = .01, 25, 2  # of a plan of the flip
STAND_ITERATIONS, UNTIL, END = 3, 1.26, 3.  # of a plan that stands; s: when that begins (the feet have touched down), when all ends
KNOWN = .72  # s: until then the motion is what was found
LEAST = whole_body.LEAST
BEGINS = .1, .2, .3  # s: of stretches of the leap that both plan again and again

# ---- what is wanted -------------------------------------------------------------------------------------------------------------------
# s; pelvis: height [m], rotation about its axis to the left; joints [rad]
TOUCHDOWN, TAKEOFF, SPEED, SPIN = 1.18, .6, 2.7, -14.  # s, s; of the leap: m/s upwards, N m s
POSTURES = np.array([(0, .756, 0, -.312, .669, -.363, .2), (.3, .52, .25, -1.5, 2., -.75, 1.), (.36, .54, .2, -1.5, 1.95, -.75, .8),
                     (TAKEOFF, .86, -.7, .2, .15, .4, -2.2), (.74, 1.12, -2., -1.6, 2., .2, -.8), (.9, 1.22, -3.7, -1.9, 2.3, 0, -.6),
                     (1.04, 1., -5.1, -1.6, 1.9, -.2, -.6), (TOUCHDOWN, .72, -5.95, -.9, .9, -.1, -.6), (1.34, .58, -6.2, -1., 1.5, -.6, -.3),
                     (1.7, .756, -2 * np.pi, -.312, .669, -.363, .2)])
JOINTS = ("hip_pitch", "knee", "ankle_pitch", "shoulder_pitch")
FINDING = {"height": 100., "place": 5., "pitch": 20., "legs": 1., "rest": 1., "effort": .1, "joint speed": .01, "com": 20., "spin": 1., "torque": .1}
FOLLOWING = {"height": 200., "place": 20., "pitch": 50., "legs": 3., "rest": 3., "effort": .05, "joint speed": .02, "com": 20., "spin": 1., "torque": .1}


def posture(model, t):
    """qpos at a time."""
    height, pitch, *angles = (np.interp(t, POSTURES[:, 0], column) for column in POSTURES[:, 1:].T)
    qpos = standing(model)
    qpos[0], qpos[2] = np.interp(t, [0, TAKEOFF, TOUCHDOWN], [0, -.05, -.35]), height
    qpos[3:7] = np.cos(pitch / 2), 0, np.sin(pitch / 2), 0
    for j in range(1, model.njnt):
        for word, angle in zip(JOINTS, angles):
            if word in model.joint(j).name:
                qpos[model.jnt_qposadr[j]] = angle
    return qpos


def momentum(t):
    """Velocity of the mass (3,), and angular momentum about it (3,): down, up, a throw, to rest."""
    land = 1.14
    fall = SPEED - 9.81 * (min(t, land) - TAKEOFF)
    if t <= .34:
        up = np.interp(t, [0, .1, .2, .3], [0, -1., -1., 0.])
    elif t <= TAKEOFF:
        up = SPEED * (t - .34) / (TAKEOFF - .34)
    else:
        up = fall if t <= land else np.interp(t, [land, land + .14, land + .3, land + .5], [fall, 0., .4, 0.])
    back = np.interp(t, [0, .4, TAKEOFF, land, land + .15], [0, 0, -.4, -.4, 0])
    spin = np.interp(t, [0, .36, TAKEOFF, land, land + .2], [0, 0, SPIN, SPIN, 0])
    return np.array([back, 0, up]), np.array([0, spin, 0])


# ---- the plan's model and task --------------------------------------------------------------------------------------------------------
def plan_model(timestep=STEP):
    """Model and text: without what is only seen, contacts of body and body, and limits of torque; with sensors of torque and spin. And these limits."""
    import mujoco
    limited, text = whole_body.scene(timestep)
    text = re.sub(r"\s*<geom [^>]*mesh=\"[^\"]*\"[^>]*/>|\s*<mesh [^>]*/>| forcerange=\"[^\"]*\"(?=[^>]*biastype)| forcelimited=\"true\"", "", text)
    spec = mujoco.MjSpec.from_string(text)
    for geom in spec.geoms:
        if geom.contype:
            geom.contype, geom.conaffinity = (0, 1) if geom.name == "floor" else (1, 0)
    for a in spec.actuators:
        spec.add_sensor(name=f"torque {a.name}", type=mujoco.mjtSensor.mjSENS_ACTUATORFRC, objtype=mujoco.mjtObj.mjOBJ_ACTUATOR, objname=a.name)
    spec.add_sensor(name="spin", type=mujoco.mjtSensor.mjSENS_SUBTREEANGMOM, objtype=mujoco.mjtObj.mjOBJ_BODY, objname="pelvis")
    model = spec.compile()
    assert not model.actuator_forcelimited.any() and limited.actuator_forcelimited.all()
    return model, spec.to_xml(), limited.actuator_forcerange[:, 1].copy()


def parts(model):
    """Degrees of freedom of the joints that postures speak of, and of the others."""
    legs = [int(model.jnt_dofadr[j]) for j in range(1, model.njnt) if any(word in model.joint(j).name for word in JOINTS)]
    return legs, [d for d in range(6, model.nv) if d not in legs]


class Motion:
    """What is followed, by time: the motion that was found, if there is one, then postures."""

    def __init__(self, model, found=None):
        import mujoco
        self.model, self.found, self.seen = model, found, []
        data = mujoco.MjData(model)
        for qpos, qvel in zip(found["qpos"], found["qvel"]) if found else ():
            data.qpos[:], data.qvel[:] = qpos, qvel
            mujoco.mj_forward(model, data)
            self.seen.append((data.sensor("com_speed").data.copy(), data.sensor("spin").data.copy()))

    def at(self, t):
        """qpos, speeds of joints, controls, velocity of the mass, angular momentum."""
        k = round(t / STEP)
        if self.found and k < round(KNOWN / STEP):
            return self.found["qpos"][k], self.found["qvel"][k][6:], self.found["ctrl"][k], *self.seen[k]
        qpos = posture(self.model, t)
        return qpos, np.zeros(self.model.nv - 6), qpos[7:], *momentum(t)

    def targets(self, t, steps):
        """Rows by the names of terms, from a time on."""
        qpos, speeds, controls, com, spin = (np.array(v) for v in zip(*(self.at(t + k * STEP) for k in range(steps + 1))))
        legs, rest = parts(self.model)
        return {"height": qpos[:, 2:3], "place": qpos[:, :2], "pitch": qpos, "legs": qpos[:, np.add(legs, 1)], "rest": qpos[:, np.add(rest, 1)],
                "joint speed": speeds, "effort": controls, "com": com, "spin": spin}


def task(planned, motion, steps, weights, controls=None):
    """From rest; other times by Mpc.set. controls: (steps, nu) to begin with."""
    (model, text, limits), rows = planned, motion.targets(0, steps)
    legs, rest = parts(model)
    torques, most = [f"torque {model.actuator(i).name}" for i in range(model.nu)], (.97 * limits).tolist()
    of = {"height": {"qpos": True, "components": [2]}, "place": {"qpos": True, "components": [0, 1]}, "pitch": {"qpos": True, "components": [3, 4, 5]},
          "legs": {"qpos": True, "components": legs}, "rest": {"qpos": True, "components": rest}, "effort": {"control": True},
          "joint speed": {"qvel": True, "components": list(range(6, model.nv))}, "com": {"sensor": "com_speed"}, "spin": {"sensor": "spin"}}
    terms = [{"name": name, **what, "target": rows["pitch" if "qpos" in what else name].tolist()} for name, what in of.items()]
    terms += [{"name": "torque", "sensor": torques, "type": "below", "target": most},
              {"name": "torque", "sensor": torques, "type": "above", "target": [-v for v in most]}]
    start = rows["effort"][:steps] if controls is None else controls
    return {"model": text, "steps": steps, "init": {"qpos": standing(model).tolist()}, "controls": rows["effort"][0].tolist(),
            "variables": [{"control": True, "start": np.ravel(start).tolist()}], "optimizer": {"method": "ilqr", "damping": 1e-6},
            "loss": [{**t, "at": "all", "weight": weights[t["name"]]} for t in terms]}


def find(threads=2, iterations=12):
    """The first .72 s: (qpos, qvel, ctrl). Long enough with the smoothest contacts first, then sharper and sharper ones."""
    import pullback as pb
    planned = plan_model()
    model, state = planned[0], {"qpos": standing(planned[0]), "qvel": np.zeros(planned[0].nv)}
    motion, controls, kappa = Motion(model), np.zeros((0, model.nu)), 10.
    stages = [(steps, {"contact": {"kappa": 10., "onset": .01}}) for steps in range(40, 73, 8)]
    while kappa > .05:
        kappa *= .6
        stages.append((72, {"contact": {"kappa": kappa, "onset": kappa / 1000}}))
    stages += [(72, {"mode": "smooth", "contact": {"smooth_kappa": v, "smooth_onset": 0.}}) for v in (1., .1)]  # the motion is sharp, the derivatives not yet
    for steps, how in stages:
        controls = np.vstack([controls, motion.targets(0, steps)["effort"][len(controls):steps]])
        mpc = pb.Mpc({**task(planned, motion, steps, FINDING, controls), **how}, threads=threads)
        news, controls = mpc.plan(state, iterations=iterations), np.array(mpc.ctrl)
        print(f"{steps} steps, {how['contact']}: loss {news.guess_loss:.0f}, then {news.loss:.0f}", flush=True)
    return {"qpos": np.array(mpc.states["qpos"]), "qvel": np.array(mpc.states["qvel"]), "ctrl": controls}


def kept_motion():
    """What --find has found once: qpos (73, nq), qvel (73, nv), ctrl (72, nu)."""
    return {name: v.astype(float) for name, v in np.load(FOUND).items()}


# ---- the flip -------------------------------------------------------------------------------------------------------------------------
def turned(qpos):
    """Rotation of the pelvis about its axis to the left since the first row [rad], by rows (n, 7 or more)."""
    w, x, y, z = np.asarray(qpos)[:, 3:7].T
    return np.unwrap(np.arctan2(2 * (x * z + w * y), 1 - 2 * (x * x + y * y)))


def touches(plant, data):
    """Contacts with the floor."""
    floor = plant.geom("floor").id
    return sum(floor in (int(c.geom1), int(c.geom2)) and c.efc_address >= 0 for c in data.contact[:data.ncon])


def act(mpc, plant, data, seconds, rows):
    """MuJoCo's own steps between two plans."""
    import mujoco
    for i in range(round(seconds / PLANT_STEP)):
        data.ctrl[:] = mpc.control({"qpos": data.qpos, "qvel": data.qvel}, time=i * PLANT_STEP)
        mujoco.mj_step(plant, data)
        most = np.abs(data.actuator_force / plant.actuator_forcerange[:, 1]).max()
        rows.append((data.qpos.copy(), data.qvel.copy(), touches(plant, data), most))


def fly(found, threads=2):
    """The run in the plant: rows of (qpos, qvel, contacts with the floor, torque by its limit) every 5 ms; seconds of plans that flip, of plans that
    stand; how many had no answer."""
    import mujoco
    import pullback as pb
    planned, (plant, _), (stand, text) = plan_model(), whole_body.scene(PLANT_STEP), whole_body.scene(whole_body.STEP)
    motion, data, rows = Motion(planned[0], found), mujoco.MjData(plant), []
    flip = pb.Mpc(task(planned, motion, HORIZON, FOLLOWING), threads=threads)
    up = pb.Mpc(whole_body.task(text, stand, whole_body.HORIZON), threads=threads)
    data.qpos[:] = standing(plant)
    took = {flip: [], up: []}
    for mpc, step, begin, end, iterations, first in ((flip, STEP, 0, UNTIL, ITERATIONS, 40), (up, whole_body.STEP, UNTIL, END, STAND_ITERATIONS, 15)):
        for k in range(round((end - begin) / step)):
            if mpc is flip:
                mpc.set(targets=motion.targets(k * step, HORIZON))
            try:
                news = mpc.plan({"qpos": data.qpos, "qvel": data.qvel}, elapsed=step if k else 0, iterations=iterations if k else first)
                took[mpc].append((news.seconds, news.seconds / news.iterations))
            except pb.StepError:
                pass  # counted by mpc.failed: the last plan goes on
            act(mpc, plant, data, step, rows)
    return rows, np.array(took[flip][1:]), np.array(took[up][1:]), flip.failed + up.failed


# ---- beside differences ---------------------------------------------------------------------------------------------------------------
def beside(found, moments=(.1, .2, .3, .4, .5, .6), rounds=2, threads=2):
    """Plans at moments [s] of the motion, in turn: ms of an iteration here, ms of mjd_transitionFD of its steps, on two threads each; rows of both."""
    import mujoco
    import pullback as pb
    planned = plan_model()
    model, motion = planned[0], Motion(planned[0], found)
    data, pool, times = [mujoco.MjData(model) for _ in range(threads)], ThreadPoolExecutor(threads), []
    n = 2 * model.nv

    def share(worker, states, controls):
        A, B, C = np.zeros((n, n)), np.zeros((n, model.nu)), np.zeros((model.nsensordata, n))
        for i in range(worker, HORIZON + 1, threads):
            d = data[worker]
            d.qpos[:], d.qvel[:], d.ctrl[:] = states["qpos"][i], states["qvel"][i], controls[min(i, HORIZON - 1)]
            mujoco.mjd_transitionFD(model, d, 1e-6, 0, A, B, C, None)

    for t in moments * rounds:
        k, targets = round(t / STEP), motion.targets(t, HORIZON)
        mpc = pb.Mpc(task(planned, motion, HORIZON, FOLLOWING, targets["effort"][:HORIZON]), threads=threads)
        mpc.set(targets=targets)
        news = mpc.plan({"qpos": found["qpos"][k], "qvel": found["qvel"][k]}, iterations=ITERATIONS)
        states, controls = mpc.states, mpc.ctrl
        begun = time.perf_counter()
        list(pool.map(lambda worker: share(worker, states, controls), range(threads)))
        times.append((1e3 * news.seconds / news.iterations, 1e3 * (time.perf_counter() - begun)))
    return np.array(times)


class FlipDifferences(whole_body.Differences):
    """The same plan in NumPy, as in bench/whole_body.py."""

    def __init__(self, planned, motion, threads=2):
        super().__init__(planned[0], HORIZON, threads)
        self.motion, self.most = motion, .97 * planned[2]
        self.legs, self.rest = parts(self.model)
        self.weights = {name: np.sqrt(v) for name, v in FOLLOWING.items()}

    def begin(self, t):
        """What is wanted from a time on."""
        self.rows = [self.motion.at(t + k * STEP) for k in range(self.steps + 1)]

    def residuals(self, qpos, qvel, u, seen, k=0):
        (target, speeds, controls, com, spin), torque, off = self.rows[k], seen[-len(u) - 3:-3], np.zeros(self.model.nv)
        self.mujoco.mj_differentiatePos(self.model, off, 1., target, qpos)
        parts_of = {"height": off[2:3], "place": off[:2], "pitch": off[3:6], "legs": off[self.legs], "rest": off[self.rest],
                    "joint speed": qvel[6:] - speeds, "com": seen[-len(u) - 12:-len(u) - 9] - com, "spin": seen[-3:] - spin, "effort": u - controls,
                    "torque": np.sign(torque) * np.maximum(np.abs(torque) - self.most, 0)}
        return np.concatenate([self.weights[name] * v for name, v in parts_of.items()])

    def jacobian(self, qpos, C, seen, k=0):
        model, nv, nu, w = self.model, self.model.nv, self.model.nu, self.weights
        I, beyond = np.eye(2 * nv), np.abs(seen[-nu - 3:-3]) > self.most
        by_state = np.vstack([w["height"] * I[2:3], w["place"] * I[:2], w["pitch"] * self.rotation_rows(qpos, self.rows[k][0]), w["legs"] * I[self.legs],
                              w["rest"] * I[self.rest], w["joint speed"] * I[nv + 6:], w["com"] * C[-nu - 12:-nu - 9], w["spin"] * C[-3:],
                              np.zeros((nu, 2 * nv)), w["torque"] * beyond[:, None] * C[-nu - 3:-3]])
        by_control = np.zeros((len(by_state), nu))
        by_control[-2 * nu:-nu] = w["effort"] * np.eye(nu)
        by_control[-nu:] = w["torque"] * np.diag(beyond * model.actuator_gainprm[:, 0])
        return by_state, by_control


def receding(found, begin, seconds=.2, threads=2):
    """Both again and again from the state that is reached, by the plan's own step in MuJoCo: the cost of the states on the way and the loss of the last plan,
    here and there."""
    import pullback as pb
    planned = plan_model()
    model, motion = planned[0], Motion(planned[0], found)
    other, out = FlipDifferences(planned, motion, threads), []
    for here in (True, False):
        k0 = round(begin / STEP)
        x, spent = (found["qpos"][k0], found["qvel"][k0], np.zeros(model.nv)), 0.
        controls = motion.targets(begin, HORIZON)["effort"][:HORIZON]
        mpc = pb.Mpc(task(planned, motion, HORIZON, FOLLOWING, controls), threads=threads)
        for k in range(round(seconds / STEP)):
            other.begin(begin + k * STEP)
            if here:
                mpc.set(targets=motion.targets(begin + k * STEP, HORIZON))
                state = {"qpos": x[0], "qvel": x[1], "qacc_warmstart": x[2]}
                loss, u = mpc.plan(state, elapsed=STEP if k else 0, iterations=ITERATIONS).loss, mpc.control(state)
            else:
                controls, losses = other.solve(x, controls, ITERATIONS)
                loss, u = losses[-1], controls[0]
                controls = np.vstack([controls[1:], controls[-1:]])
            other.put(other.data[0], x, u)
            other.mujoco.mj_step(model, other.data[0])
            spent += np.sum(other.residuals(*x[:2], u, other.data[0].sensordata, 0) ** 2)
            x = other.data[0].qpos.copy(), other.data[0].qvel.copy(), other.data[0].qacc_warmstart.copy()
        out.append((spent, loss))
    return out


# ---- the table ------------------------------------------------------------------------------------------------------------------------
def rows_of(found, trajectory=None):
    """Rows of quantity, measured, required, kept (None: told alone)."""
    rows, flips, stands, failed = fly(found)
    qpos, qvel, contacts, torques = (np.array(v) for v in zip(*rows))
    if trajectory:
        np.savez(trajectory, time=PLANT_STEP * np.arange(1, len(qpos) + 1), qpos=qpos, qvel=qvel)
    angle, air = turned(np.vstack([standing_row(qpos), qpos]))[1:], contacts == 0
    longest = max((len(s) for s in "".join("x" if a else " " for a in air).split()), default=0) * PLANT_STEP
    touched = np.flatnonzero(air[:round(1.4 / PLANT_STEP)])[-1] if air.any() else 0
    later = min(touched + round(1 / PLANT_STEP), len(qpos) - 1)
    upright = np.array([1 - 2 * (q[4] ** 2 + q[5] ** 2) for q in qpos])
    still = np.linalg.norm(qvel[-1, :6])
    times, both = beside(found), np.array([receding(found, begin) for begin in BEGINS])  # (begins, here or there, cost or last loss)
    costs, lasts = both[:, :, 0], both[:, 0, 1] / both[:, 1, 1]
    ratio = float(np.median(times[:, 1] / times[:, 0]))
    per_second = lambda t: "{:.0f}, {:.0f}".format(*(1 / np.percentile(t[:, 0], (50, 0))))
    return [("rotation backwards at the end, in turns", f"{-angle[-1] / (2 * np.pi):.3f}", "1 +- 0.05", abs(angle[-1] / (2 * np.pi) + 1) <= .05),
            ("s in the air, the longest stretch", f"{longest:.2f}", ">= 0.3", longest >= .3),
            ("m: the greatest height of the pelvis", f"{qpos[:, 2].max():.2f}", "", None),
            ("m: the least height of the pelvis 1 s after touchdown and later", f"{qpos[later:, 2].min():.2f}", ">= 0.65", qpos[later:, 2].min() >= .65),
            ("cosine of its tilt there, the least", f"{upright[later:].min():.3f}", ">= 0.95", upright[later:].min() >= .95),
            ("its speed at the end, 3 s (m/s and rad/s in one)", f"{still:.2f}", "<= 0.3", still <= .3),
            ("the greatest torque, by its published limit", f"{torques.max():.3f}", "<= 1", torques.max() <= 1 + 1e-12),
            ("plans without an answer", f"{failed}", "", None),
            (f"plans of the flip a second ({ITERATIONS} iterations), two threads: of the median, of the fastest", per_second(flips), "", None),
            (f"plans that stand a second ({STAND_ITERATIONS} iterations), two threads: of the median, of the fastest", per_second(stands), "", None),
            ("ms an iteration of a plan of the flip, two threads: median, least", f"{np.median(times[:, 0]):.1f}, {times[:, 0].min():.1f}", "", None),
            ("ms of its differences by MuJoCo, two threads: median, least", f"{np.median(times[:, 1]):.0f}, {times[:, 1].min():.0f}", "", None),
            ("time of an iteration's differences, in whole iterations here", f"{ratio:.1f}", f">= {LEAST:g}", ratio >= LEAST),
            (f"cost of .2 s from {listed(BEGINS)} s on, an own iLQR each: here", listed(costs[:, 0]), "", None),
            ("the same there", listed(costs[:, 1]), "", None),
            ("loss of the last of these plans, by that of the last there", listed(lasts), "", None),
            ("its median", f"{np.median(lasts):.4f}", "<= 1.001", np.median(lasts) <= 1.001)]


def listed(values):
    return ", ".join(f"{v:.4g}" for v in values)


def standing_row(qpos):
    row = qpos[:1].copy()
    row[0, 3:7] = 1, 0, 0, 0
    return row


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--find", action="store_true", help="find the motion anew, and keep it in bench/plans/backflip.npz")
    p.add_argument("--trajectory", help="keep the run: an NPZ file with times, qpos and qvel, for pullback view")
    a = p.parse_args()
    if not package():
        print("bench/backflip.py: the humanoid is not here: make bench-whole-body installs it", file=sys.stderr)
        return 1

    if a.find:
        np.savez_compressed(FOUND, **{name: np.round(v, 6).astype(np.float32) for name, v in find().items()})
    rows = rows_of(kept_motion(), a.trajectory)
    with open(os.path.join(ROOT, "bench", "results", "backflip.csv"), "w", newline="", encoding="utf-8") as f:
        w = csv.writer(f, lineterminator="\n")
        w.writerow(("quantity", "measured", "required", "kept"))
        for quantity, measured, required, kept in rows:
            told = "" if kept is None else "yes" if kept else "no"
            w.writerow((quantity, measured, required, told))
            print(f"{quantity:95} {measured:>20} {required:>10} {told}")
    return 1 if any(row[3] is not None and not row[3] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
