#!/usr/bin/env python3
"""A published humanoid of 29 joints stands under pushes by plans that are made again and again (pb.Mpc), beside the same iLQR with differences of MuJoCo's
step in place of derivatives. Table, and bench/results/whole_body.csv; exits with 1 where something is not kept.   make bench-whole-body

The model is Unitree's G1 as mjlab 1.6.0 publishes it (bench/whole_body.txt, build/whole_body): its file and meshes unchanged, and around it what mjlab's own
configuration adds: position servos by the motors' reflected inertias, a natural frequency of 10 Hz and a damping ratio of 2, limits on their torque, friction
of the feet, a floor (asset_zoo/robots/unitree_g1/g1_constants.py). MuJoCo's MjSpec writes that as one text, which both engines read.

Pushes: a velocity is added to the whole robot, which stands; it must stand again, in MuJoCo's own step of 5 ms, of which the plan knows nothing but the text.
Plans have 25 steps of 20 ms, through contacts as MuJoCo has them, and one iteration each: 50 a second where an iteration takes less than 20 ms.

Beside differences: one problem (the robot right after a push), the same model, loss, horizon, start and count of iterations, on two threads each. The other
iLQR is below, in NumPy: rollouts, linearization (mjd_transitionFD, half of the steps on each thread) and the sweep; of its time only that of the differences is
counted, of ours all. Both are rounds in turn; medians, ratios of neighbors.

  bench/whole_body.py [--speeds 0.4,0.6] [--directions 8] [--iterations 16]
"""
import argparse
import csv
import glob
import os
import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LEAST = 10.  # times: the differences of an iteration by all of ours
STEP, PLANT_STEP, HORIZON = .02, .005, 25
# Derivatives of contact that is a little smooth, as those by differences are, along rollouts that are sharp: they see a foot before it touches.
SMOOTH = {"mode": "smooth", "contact": {"smooth_kappa": .1, "smooth_onset": 0.}}


# ---- the robot ------------------------------------------------------------------------------------------------------------------------
def package():
    """The folder of its files; None: they are not here (make bench-whole-body installs them)."""
    found = glob.glob(os.path.join(ROOT, "build", "whole_body", "lib", "python3*", "site-packages", "mjlab", "asset_zoo", "robots", "unitree_g1", "xmls"))
    return found[0] if found else None


def reflected(inertias, gears):
    """Inertia of a two-stage planetary gear's three rotors at the joint."""
    return inertias[0] * (gears[1] * gears[2]) ** 2 + inertias[1] * gears[2] ** 2 + inertias[2]


# motors: reflected inertia [kg m^2], torque [N m]; joints: motor, how many of them drive it
MOTORS = {"5020": (reflected((.139e-4, .017e-4, .169e-4), (1, 1 + 46 / 18, 1 + 56 / 16)), 25),
          "7520-14": (reflected((.489e-4, .098e-4, .533e-4), (1, 4.5, 1 + 48 / 22)), 88),
          "7520-22": (reflected((.489e-4, .109e-4, .738e-4), (1, 4.5, 5)), 139), "4010": (reflected((.068e-4, 0, 0), (1, 5, 5)), 5)}
JOINTS = {"elbow|shoulder|wrist_roll": ("5020", 1), "hip_pitch|hip_yaw|waist_yaw": ("7520-14", 1), "hip_roll|knee": ("7520-22", 1),
          "wrist_pitch|wrist_yaw": ("4010", 1), "waist_pitch|waist_roll|ankle": ("5020", 2)}
STANDS = {"hip_pitch": -.312, "knee": .669, "ankle_pitch": -.363, "elbow": .6, "left_shoulder_roll": .2, "right_shoulder_roll": -.2, "shoulder_pitch": .2}
HEIGHT = .7559  # where the soles meet the floor


def scene(timestep):
    """Robot, servos and floor as MuJoCo's model, and as a text."""
    import mujoco
    folder = package()
    spec, rate = mujoco.MjSpec.from_file(os.path.join(folder, "g1.xml")), 2 * np.pi * 10
    for joint in spec.joints:
        rules = [rule for words, rule in JOINTS.items() if re.search(words, joint.name)]
        if joint.type == mujoco.mjtJoint.mjJNT_FREE:
            continue
        (motor, count), = rules
        inertia, torque = (count * v for v in MOTORS[motor])
        joint.armature = inertia
        servo = spec.add_actuator(name=joint.name, target=joint.name, trntype=mujoco.mjtTrn.mjTRN_JOINT, forcelimited=True, forcerange=[-torque, torque])
        servo.set_to_position(kp=inertia * rate ** 2, kv=4 * inertia * rate)
    for geom in spec.geoms:
        foot = re.fullmatch(r"(left|right)_foot\d_collision", geom.name)
        if foot or geom.name.endswith("_collision"):
            geom.condim, geom.priority = (3, 1) if foot else (1, 0)
            geom.friction[0] = .6 if foot else geom.friction[0]
    spec.worldbody.add_geom(name="floor", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, .01])
    kinds, body, site = mujoco.mjtSensor, mujoco.mjtObj.mjOBJ_BODY, mujoco.mjtObj.mjOBJ_SITE
    for name, kind, what, of in (("com", kinds.mjSENS_SUBTREECOM, body, "pelvis"), ("com_speed", kinds.mjSENS_SUBTREELINVEL, body, "pelvis"),
                                 ("left", kinds.mjSENS_FRAMEPOS, site, "left_foot"), ("right", kinds.mjSENS_FRAMEPOS, site, "right_foot")):
        spec.add_sensor(name=name, type=kind, objtype=what, objname=of)
    spec.option.timestep, spec.option.integrator = timestep, mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    spec.meshdir = os.path.join(folder, "assets")
    return spec.compile(), spec.to_xml()


def standing(model):
    qpos = np.zeros(model.nq)
    qpos[2:4] = HEIGHT, 1
    for j in range(1, model.njnt):
        qpos[model.jnt_qposadr[j]] = next((v for word, v in STANDS.items() if word in model.joint(j).name), 0)
    return qpos


# ---- the loss -------------------------------------------------------------------------------------------------------------------------
TERMS = {"posture": 1., "upright": 20., "heading": 2., "capture": 100., "height": 100., "speed": 4., "joint speed": .02, "turning": .04, "effort": .2}
CAPTURE = .27  # s: height of the mass by its pendulum's speed, sqrt(z / g)


def task(text, model, steps, controls=None):
    """Stand: the point that the mass is on its way to (its place and speed at the ground, Pratt et al. 2006) between the feet, the mass above them, upright,
    near to a posture."""
    import mujoco
    data, qpos = mujoco.MjData(model), standing(model)
    data.qpos[:] = qpos
    mujoco.mj_forward(model, data)
    com, left, right = (data.sensor(name).data.copy() for name in ("com", "left", "right"))
    middle, servos = (left + right) / 2, list(qpos[7:])
    inputs = {"c": {"sensor": "com"}, "v": {"sensor": "com_speed"}, "l": {"sensor": "left"}, "r": {"sensor": "right"}}
    point = lambda axis: {"formula": f"c.{axis} + {CAPTURE}*v.{axis} - 0.5*(l.{axis} + r.{axis})", "inputs": inputs, "type": "squared"}
    terms = [{"name": "posture", "qpos": True, "components": list(range(6, model.nv)), "target": list(qpos)},
             {"name": "upright", "qpos": True, "components": [3, 4], "target": list(qpos)},
             {"name": "heading", "qpos": True, "components": [5], "target": list(qpos)},
             {"name": "capture", **point("x"), "target": (com - middle)[0]}, {"name": "capture", **point("y")},
             {"name": "height", "formula": "c.z - 0.5*(l.z + r.z)", "inputs": {k: inputs[k] for k in "clr"}, "type": "squared", "target": (com - middle)[2]},
             {"name": "speed", "sensor": "com_speed"}, {"name": "joint speed", "qvel": True, "components": list(range(6, model.nv))},
             {"name": "turning", "qvel": True, "components": [3, 4, 5]}, {"name": "effort", "control": True, "target": servos}]
    start = servos if controls is None else [float(v) for u in controls for v in u]
    return {"model": text, "steps": steps, "init": {"qpos": list(qpos)}, "controls": servos, "optimizer": {"method": "ilqr"},
            "variables": [{"control": True, "start": start}], "loss": [{**t, "at": "all", "weight": TERMS[t["name"]]} for t in terms]}


# ---- pushes ---------------------------------------------------------------------------------------------------------------------------
def pushed(mpc, plant, push, seconds=3., at=.2):
    """One run in MuJoCo: does it stand at the end (upright, at rest), the least height of the pelvis, and what plans took [ms], by phase."""
    import mujoco
    import pullback as pb
    data, took, least = mujoco.MjData(plant), [], np.inf
    data.qpos[:] = standing(plant)
    for k in range(round(seconds / STEP)):
        if k == round(at / STEP):
            data.qvel[:2] += push
        state = {"qpos": data.qpos, "qvel": data.qvel}
        try:
            news = mpc.plan(state, elapsed=STEP if k else 0)
            took.append([1e3 * v for v in (news.seconds, news.linearize_seconds, news.plan_seconds, news.run_seconds)])
        except pb.StepError:
            pass  # counted by mpc.failed: the last plan goes on
        for i in range(round(STEP / PLANT_STEP)):
            data.ctrl[:] = mpc.control({"qpos": data.qpos, "qvel": data.qvel}, time=i * PLANT_STEP)
            mujoco.mj_step(plant, data)
        least = min(least, data.qpos[2])
        if least < .45:
            return False, least, took
    return np.linalg.norm(data.qvel[:6]) < .3 and data.qpos[2] > .65, least, took


def push_rows(speeds, directions, threads=2):
    """For each speed: how many directions are recovered from; and what all plans took."""
    import pullback as pb
    (model, text), (plant, _) = scene(STEP), scene(PLANT_STEP)
    held, took, failed = {}, [], 0
    for speed in speeds:
        for angle in 2 * np.pi * np.arange(directions) / directions:
            mpc = pb.Mpc(task(text, model, HORIZON), threads=threads)
            stands, _, ms = pushed(mpc, plant, speed * np.array([np.cos(angle), np.sin(angle)]))
            held[speed] = held.get(speed, 0) + stands
            took += ms
            failed += mpc.failed
    return held, np.array(took), failed


# ---- the same with differences --------------------------------------------------------------------------------------------------------
class Differences:
    """Iterative LQR of the same task in NumPy, with MuJoCo's step and mjd_transitionFD: damping, steps and sweep as in src/optimize/ilqr.c and
    src/control/feedback.c, but for the limits of controls, which nothing here comes to."""

    def __init__(self, model, steps, threads=2):
        import mujoco
        mujoco.set_mju_user_warning(lambda text: None)  # of trials that go too far
        self.mujoco, self.model, self.steps, self.servos = mujoco, model, steps, standing(model)[7:]
        self.data = [mujoco.MjData(model) for _ in range(threads)]
        self.pool, self.seconds, self.damping, self.change = ThreadPoolExecutor(threads), 0., 0., 1.
        self.target = self.see_target()

    def see_target(self):
        self.data[0].qpos[:] = standing(self.model)
        self.mujoco.mj_forward(self.model, self.data[0])
        com, left, right = (self.data[0].sensor(name).data.copy() for name in ("com", "left", "right"))
        return com - (left + right) / 2

    def residuals(self, qpos, qvel, u, seen, k=0):
        """Weighed: of state k and its control, with what sensors measure there."""
        model, (com, speed, left, right) = self.model, seen[-12:].reshape(4, 3)
        off = np.zeros(model.nv)
        self.mujoco.mj_differentiatePos(model, off, 1., standing(model), qpos)
        middle = (left + right) / 2
        parts = [("posture", off[6:]), ("upright", off[3:5]), ("heading", off[5:6]), ("capture", (com + CAPTURE * speed - middle)[:2] - [self.target[0], 0]),
                 ("height", (com - middle - self.target)[2:]), ("speed", speed), ("joint speed", qvel[6:]), ("turning", qvel[3:6]), ("effort", u - self.servos)]
        return np.concatenate([np.sqrt(TERMS[name]) * np.atleast_1d(v) for name, v in parts])

    def jacobian(self, qpos, C, seen, k=0):
        """Their derivatives by the state and by the control. C: (sensors, state)."""
        model, nv, nu = self.model, self.model.nv, self.model.nu
        com, speed, left, right = C[-12:].reshape(4, 3, -1)
        middle, I, w = (left + right) / 2, np.eye(2 * nv), {k: np.sqrt(v) for k, v in TERMS.items()}
        turn = self.rotation_rows(qpos, standing(model))
        by_state = np.vstack([w["posture"] * I[6:nv], w["upright"] * turn[:2], w["heading"] * turn[2:], w["capture"] * (com + CAPTURE * speed - middle)[:2],
                              w["height"] * (com - middle)[2:], w["speed"] * speed, w["joint speed"] * I[nv + 6:], w["turning"] * I[nv + 3:nv + 6],
                              np.zeros((nu, 2 * nv))])
        by_control = np.zeros((len(by_state), nu))
        by_control[-nu:] = w["effort"] * np.eye(nu)
        return by_state, by_control

    def rotation_rows(self, qpos, target):
        """The rotation from a posture by motions of the body in its own frame, by central differences of a pure function."""
        model, rows, size = self.model, np.zeros((3, 2 * self.model.nv)), 1e-6
        for axis in range(3):
            sides = []
            for sign in (1, -1):
                moved, step, off = qpos.copy(), np.zeros(model.nv), np.zeros(model.nv)
                step[3 + axis] = sign * size
                self.mujoco.mj_integratePos(model, moved, step, 1.)
                self.mujoco.mj_differentiatePos(model, off, 1., target, moved)
                sides.append(off[3:6])
            rows[:, 3 + axis] = (sides[0] - sides[1]) / (2 * size)
        return rows

    def put(self, data, x, u):
        data.qpos[:], data.qvel[:], data.qacc_warmstart[:] = x
        data.ctrl[:] = u

    def run(self, x, controls, gains=None, moves=None, alpha=1., about=None):
        """States (steps + 1), controls, the loss."""
        data, nv, xs, us, loss = self.data[0], self.model.nv, [], [], 0.
        for k in range(self.steps + 1):
            u = controls[min(k, self.steps - 1)].copy()
            if gains is not None and k < self.steps:
                off = np.zeros(2 * nv)
                self.mujoco.mj_differentiatePos(self.model, off[:nv], 1., about[k][0], x[0])
                off[nv:] = x[1] - about[k][1]
                u += alpha * moves[k] + gains[k] @ off
            elif gains is not None:
                u = us[-1]
            self.put(data, x, u)
            (self.mujoco.mj_step if k < self.steps else self.mujoco.mj_forward)(self.model, data)
            xs.append(x)
            us.append(u)
            loss += np.sum(self.residuals(*x[:2], u, data.sensordata, k) ** 2)
            x = data.qpos.copy(), data.qvel.copy(), data.qacc_warmstart.copy()
        return xs, np.array(us), loss

    def differentiate(self, xs, us):
        """A, B, C of all states; the time of it is that of differences."""
        n, nu, ns = 2 * self.model.nv, self.model.nu, self.model.nsensordata
        A, B, C = (np.zeros((self.steps + 1, *shape)) for shape in ((n, n), (n, nu), (ns, n)))

        def share(worker):
            for k in range(worker, self.steps + 1, len(self.data)):
                self.put(self.data[worker], xs[k], us[k])
                self.mujoco.mjd_transitionFD(self.model, self.data[worker], 1e-6, 0, A[k], B[k], C[k], None)

        begun = time.perf_counter()
        list(self.pool.map(share, range(len(self.data))))
        self.seconds += time.perf_counter() - begun
        return A, B, C

    def sweep(self, xs, us, A, B, C, seen):
        """Moves, gains, what they promise; None: with so little damping there are none."""
        n = 2 * self.model.nv
        rows = [self.jacobian(xs[k][0], C[k], seen[k], k) for k in range(self.steps + 1)]
        r = [self.residuals(*xs[k][:2], us[k], seen[k], k) for k in range(self.steps + 1)]
        P, q = rows[-1][0].T @ rows[-1][0], rows[-1][0].T @ r[-1]

        # the last state has the control of the last step
        gains, moves, linear, quadratic, last = [None] * self.steps, [None] * self.steps, 0., 0., rows[-1][1]
        for k in reversed(range(self.steps)):
            (G, U), mean = rows[k], self.damping * np.mean(np.abs(np.diag(P)))
            Quu, Qux, qu = B[k].T @ P @ B[k] + U.T @ U, B[k].T @ P @ A[k] + U.T @ G, B[k].T @ q + U.T @ r[k]
            Qxx, qx = A[k].T @ P @ A[k] + G.T @ G, A[k].T @ q + G.T @ r[k]
            if k == self.steps - 1:
                Quu, qu = Quu + last.T @ last, qu + last.T @ r[-1]
            steep = Quu + mean * B[k].T @ B[k] + self.damping * np.mean(np.abs(np.diag(Quu))) * np.eye(len(Quu))
            try:
                np.linalg.cholesky(steep)
            except np.linalg.LinAlgError:
                return None
            solved = -np.linalg.solve(steep, np.column_stack([qu, Qux + mean * B[k].T @ A[k]]))
            moves[k], K = solved[:, 0], solved[:, 1:]
            gains[k] = K
            linear += 2 * moves[k] @ qu
            quadratic += moves[k] @ Quu @ moves[k]
            P = Qxx + K.T @ Quu @ K + K.T @ Qux + Qux.T @ K
            q = qx + K.T @ (Quu @ moves[k] + qu) + Qux.T @ moves[k]
            P = (P + P.T) / 2
        return gains, moves, linear, quadratic

    def seen(self, xs, us):
        out = []
        for x, u in zip(xs, us):
            self.put(self.data[0], x, u)
            self.mujoco.mj_forward(self.model, self.data[0])
            out.append(self.data[0].sensordata.copy())
        return out

    def solve(self, x, controls, iterations):
        """Controls and losses, from the start on."""
        xs, us, loss = self.run(x, controls)
        losses = [loss]
        for _ in range(iterations):
            A, B, C = self.differentiate(xs, us)
            seen, moved = self.seen(xs, us), False
            while self.damping <= 1e12 and not moved:
                plan = self.sweep(xs, us, A, B, C, seen)
                for alpha in .5 ** np.arange(8) if plan else ():
                    gains, moves, linear, quadratic = plan
                    promised = -alpha * (linear + alpha * quadratic)
                    trial = self.run(x, us[:-1], gains, moves, alpha, xs)
                    if promised > 0 and trial[2] < loss and loss - trial[2] > 1e-4 * promised:
                        moved = True
                        break
                self.change = min(self.change, 1) / 2 if moved and alpha >= .5 else max(self.change, 1) * 2
                if not moved or alpha < .1:
                    self.damping = max(self.damping * self.change, 1e-6)
                elif alpha >= .5:
                    self.damping *= self.change
                    self.damping = 0. if self.damping < 1e-6 else self.damping
            if not moved:
                break
            xs, us, loss = trial
            losses.append(loss)
        return us[:-1], losses


def beside(push, iterations, threads=2, rounds=3):
    """One problem for both: losses, and rounds of ms an iteration: all of ours, its differences."""
    import pullback as pb
    model, text = scene(STEP)
    state = {"qpos": standing(model), "qvel": np.concatenate([push, np.zeros(model.nv - 2)])}
    controls, times = np.tile(state["qpos"][7:], (HORIZON, 1)), []
    for _ in range(rounds):
        other, mpc = Differences(model, HORIZON, threads), pb.Mpc(task(text, model, HORIZON), threads=threads)
        found, losses = other.solve((state["qpos"], state["qvel"], np.zeros(model.nv)), controls, iterations)
        news = mpc.plan(state, iterations=len(losses) - 1)
        times.append((1e3 * news.seconds / news.iterations, 1e3 * other.seconds / (len(losses) - 1)))
        phases = [1e3 * v / news.iterations for v in (news.linearize_seconds, news.plan_seconds, news.run_seconds)]
    theirs = pb.Mpc(task(text, model, HORIZON, found)).plan(state).guess_loss
    off = max(abs(losses[0] / news.guess_loss - 1), abs(losses[-1] / theirs - 1))
    return {"times": np.array(times), "phases": phases, "iterations": len(losses) - 1, "guess": news.guess_loss, "off": off, "loss": news.loss,
            "loss there": theirs}


def receding(push, seconds=1., threads=2):
    """Both again and again from the state that is reached, by the plan's own step in MuJoCo, an iteration each: the loss of the states on the way and of the
    last plan, here, here with derivatives of smooth contact, and there."""
    import pullback as pb
    model, text = scene(STEP)
    other, found = Differences(model, HORIZON, threads), []
    for here in ({}, SMOOTH, None):
        mpc = pb.Mpc({**task(text, model, HORIZON), **(here or {})}, threads=threads)
        x = standing(model), np.concatenate([push, np.zeros(model.nv - 2)]), np.zeros(model.nv)
        spent, controls = 0., np.tile(standing(model)[7:], (HORIZON, 1))
        for k in range(round(seconds / STEP)):
            if here is not None:
                state = {"qpos": x[0], "qvel": x[1], "qacc_warmstart": x[2]}
                loss, u = mpc.plan(state, elapsed=STEP if k else 0).loss, mpc.control(state)
            else:
                controls, losses = other.solve(x, controls, 1)
                loss, u = losses[-1], controls[0]
                controls = np.vstack([controls[1:], controls[-1:]])
            other.put(other.data[0], x, u)
            other.mujoco.mj_step(model, other.data[0])
            spent += np.sum(other.residuals(*x[:2], u, other.data[0].sensordata) ** 2)
            x = other.data[0].qpos.copy(), other.data[0].qvel.copy(), other.data[0].qacc_warmstart.copy()
        found.append((spent, loss))
    return found


# ---- the table ------------------------------------------------------------------------------------------------------------------------
def compare_rows(speed, iterations):
    """Rows of quantity, measured, required, kept (None: told alone)."""
    b = beside((speed, 0), iterations)
    ratio, least = float(np.median(b["times"][:, 1] / b["times"][:, 0])), b["times"].min(axis=0)
    (here, last), (smooth, last_smooth), (there, last_there) = receding((speed, 0))
    return [("losses of one trajectory in both engines, relative difference", f"{b['off']:.2g}", "<= 0.001", b["off"] <= 1e-3),
            ("ms an iteration here, two threads: median, least", f"{np.median(b['times'][:, 0]):.1f}, {least[0]:.1f}", "", None),
            ("of it linearizing, sweeping, running again", "{:.1f}, {:.1f}, {:.1f}".format(*b["phases"]), "", None),
            ("ms of the differences of an iteration, two threads: median, least", f"{np.median(b['times'][:, 1]):.0f}, {least[1]:.0f}", "", None),
            ("time of an iteration's differences, in whole iterations here", f"{ratio:.1f}", f">= {LEAST:g}", ratio >= LEAST),
            (f"cost of the second after a push of {speed:g} m/s, an iteration a plan: here, there", f"{here:.4g}, {there:.4g}", "", None),
            ("the same, derivatives here of smooth contact (smooth_kappa 0.1)", f"{smooth:.4g}", "", None),
            ("loss of the last of these plans, by that of the last there: derivatives of smooth contact", f"{last_smooth / last_there:.4f}", "", None),
            ("loss of the last of these plans, by that of the last there", f"{last / last_there:.4f}", "<= 1", last <= last_there),
            (f"one problem, loss after {b['iterations']} iterations from {b['guess']:.1f}: here, there", f"{b['loss']:.4g}, {b['loss there']:.4g}", "", None)]


def pushed_rows(speed, directions, required):
    held, took, failed = push_rows([speed], directions)
    rates = "{:.0f}, {:.0f}, {:.0f}".format(*(1e3 / np.percentile(took[:, 0], (50, 90, 0))))
    return [(f"pushes of {speed:g} m/s recovered in MuJoCo's own step, of {directions} directions", f"{held[speed]}", f"{directions}" if required else "",
             held[speed] == directions if required else None),
            ("plans a second, two threads: of the median, of nine in ten, of the fastest", rates, "", None),
            (f"plans without an answer, of {len(took) + failed}", f"{failed}", "", None)]


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--speeds", default="0.4,0.6", help="m/s; of the first all must be recovered from")
    p.add_argument("--directions", type=int, default=8)
    p.add_argument("--iterations", type=int, default=16)
    a = p.parse_args()
    if not package():
        print("bench/whole_body.py: the humanoid is not here: make bench-whole-body installs it", file=sys.stderr)
        return 1

    speeds = [float(v) for v in a.speeds.split(",")]
    rows = compare_rows(speeds[0], a.iterations) + [row for k, speed in enumerate(speeds) for row in pushed_rows(speed, a.directions, k == 0)]
    with open(os.path.join(ROOT, "bench", "results", "whole_body.csv"), "w", newline="", encoding="utf-8") as f:
        w = csv.writer(f, lineterminator="\n")
        w.writerow(("quantity", "measured", "required", "kept"))
        for quantity, measured, required, kept in rows:
            told = "" if kept is None else "yes" if kept else "no"
            w.writerow((quantity, measured, required, told))
            print(f"{quantity:95} {measured:>20} {required:>10} {told}")
    return 1 if any(row[3] is not None and not row[3] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
