#!/usr/bin/env python3
"""Plans by iLQR beside Crocoddyl's SolverBoxFDDP: the tip of an arm goes to a point, a cart-pole and a double pendulum swing up, a quadrotor flies to a pose
(bench/plans). Table, and bench/results/crocoddyl.csv; exits with 1 where something is not kept.   make bench-crocoddyl

Crocoddyl has an environment of its own (bench/crocoddyl.txt, build/crocoddyl). The model there is built of Pinocchio's joints with the masses, inertias and
places that are compiled here; steps are those of its IntegratedActionModelEuler, costs sums of its residuals. First it is shown that both have the same
problem: a step, A and B at 100 random states and controls, and the cost of its answer here. Then both solve it from the same controls, in turn and on one
thread, until the cost is within 1e-6 of the better answer; how many iterations that takes is counted before. Time is the thread's own, without loading,
without the memory of solvers; medians, of ratios those of neighbors. Its classes are those of its wheel, which is compiled for any x86-64, but for the
forces that controls exert (bench/actuation.cpp, compiled here): it has none for a cart whose pole nothing drives, and those for thrusters want a free joint
whose velocity is in the body's frame. Here it is along the world's axes, as three slides and a ball have it there.

  bench/crocoddyl.py [--build DIR] [--times 9] [--only NAME]
"""
import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import sysconfig
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PLANS = os.path.join(ROOT, "bench", "plans")
PROBLEMS = ("arm", "cartpole", "acrobot", "quadrotor", "arm_falls")
TOLD = ("arm_falls",)  # what time it takes is told, and nothing required: the arm from controls that do not hold it
SAME, CLOSE, MOST = 1e-8, 1e-6, 1.  # of steps and costs; of the better answer; of its time
STATES, LIMIT = 100, 1000           # compared; most iterations


# ---- here ---------------------------------------------------------------------------------------------------------------------------
class Here:
    """A task and the program that solves it (bench/ilqr.c)."""

    def __init__(self, name, program):
        import numpy as np
        import pullback as pb
        path = os.path.join(PLANS, name + ".json")
        with open(path, encoding="utf-8") as f:
            self.task = json.load(f)
        file = os.path.join(PLANS, self.task["model"])
        self.model, self.spec = pb.load(file), pb.Spec.load(file)
        self.begin = self.model.init()
        self.begin.qpos[:] = self.task.get("init", {}).get("qpos", self.begin.qpos)
        start = self.task["variables"][0].get("start", 0)
        self.controls = np.array(np.broadcast_to(np.array(start, float), (self.task["steps"], self.model.nu)))
        self.free = self.model.nq > self.model.nv
        self.process = subprocess.Popen([program, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        return [float(word) for word in self.process.stdout.readline().split()]

    def joint_of(self, body):
        return [joint for joint in self.spec.joints if joint.body.name == body][0]


# ---- there --------------------------------------------------------------------------------------------------------------------------
def compiled():
    """Forces of controls, compiled where that is not done yet."""
    import numpy
    folder, made = os.path.join(sysconfig.get_path("platlib"), "cmeel.prefix"), os.path.join(sys.prefix, "actuation.so")
    source = os.path.join(ROOT, "bench", "actuation.cpp")
    if not os.path.exists(made) or os.path.getmtime(made) < os.path.getmtime(source):
        headers = (f"{folder}/include", f"{folder}/include/eigen3", sysconfig.get_path("include"), numpy.get_include())
        libraries = ("-lcrocoddyl", "-leigenpy", "-lboost_python{}{}".format(*sys.version_info[:2]))
        subprocess.run(["g++", "-std=c++17", "-O3", "-w", "-DNDEBUG", "-shared", "-fPIC", *(f"-I{h}" for h in headers), source, f"-L{folder}/lib",
                        f"-Wl,-rpath,{folder}/lib", *libraries, "-o", made], check=True)
    sys.path.append(sys.prefix)
    import actuation
    return actuation


def placement(pos, quat):
    import numpy as np
    import pinocchio as pin
    return pin.SE3(pin.Quaternion(*(float(quat[k]) for k in range(4))).matrix(), np.array(pos, float))


def build_world(here):
    """Pinocchio's model of a chain of bodies with a joint each, or of a free body, which moves by three slides and a ball."""
    import numpy as np
    import pinocchio as pin
    p, world, parent = here.model.params, pin.Model(), 0
    kinds = {"hinge": (pin.JointModelRX, pin.JointModelRY, pin.JointModelRZ), "slide": (pin.JointModelPX, pin.JointModelPY, pin.JointModelPZ)}
    world.gravity.linear = np.array(p["gravity"]).ravel()

    for k, body in enumerate((b for b in here.spec.bodies if b.name != "world"), 1):
        joint = here.joint_of(body.name)
        if here.free:
            parent = world.addJoint(parent, pin.JointModelTranslation(), pin.SE3.Identity(), "place")
            parent = world.addJoint(parent, pin.JointModelSpherical(), pin.SE3.Identity(), body.name)
        else:
            assert sorted(joint.axis) == [0, 0, 1] and not np.any(joint.pos)
            kind = kinds[joint.type][int(np.argmax(joint.axis))]
            parent = world.addJoint(parent, kind(), placement(p["body_pos"][k], p["body_quat"][k]), body.name)
        inertia = pin.Inertia(float(p["body_mass"][k]), np.zeros(3), np.diag(p["body_inertia"][k]))
        world.appendBodyToJoint(parent, inertia, placement(p["body_ipos"][k], p["body_iquat"][k]))

    for k, site in enumerate(here.spec.sites):
        at = placement(p["site_pos"][k], p["site_quat"][k])
        world.addFrame(pin.Frame(site.name, world.getJointId(site.body.name), 0, at, pin.FrameType.OP_FRAME))

    return world


def build_drive(here, state):
    """What controls exert: in coordinates, or of a free body by thrusters."""
    import crocoddyl
    import numpy as np
    p, S = here.model.params, np.zeros((here.model.nv, here.model.nu))
    joints, sites = [j.name for j in here.spec.joints], [s.name for s in here.spec.sites]

    for k, motor in enumerate(here.spec.actuators):
        gear = p["actuator_gear"][k]
        if here.free:
            force, turn = gear[:3], gear[3:]
            S[:, k] = np.concatenate([force, np.cross(p["site_pos"][sites.index(motor.target)], force) + turn])
        else:
            S[joints.index(motor.target), k] = gear[0]

    identity = S.shape[0] == S.shape[1] and not here.free and np.array_equal(S, np.eye(len(S)))
    return crocoddyl.ActuationModelFull(state) if identity else compiled().Forces(state, S, here.free)


class There:
    """The same problem as one of Crocoddyl."""

    def __init__(self, here):
        import crocoddyl
        self.here, self.world = here, build_world(here)
        self.state = crocoddyl.StateMultibody(self.world)
        self.drive = build_drive(here, self.state)

        # what a control costs at the last state is there what its step costs once more
        self.node = self.action(1, False)
        begin, nodes = self.x(here.begin.qpos, here.begin.qvel), [self.node] * (len(here.controls) - 1) + [self.action(2, False)]
        self.problem = crocoddyl.ShootingProblem(begin, nodes, self.action(0, True))
        self.problem.nthreads = 1
        self.guess = self.problem.rollout(list(here.controls))
        self.controls = type(self.guess)(list(here.controls))

    def x(self, qpos, qvel):
        """Its quaternions have their real part last."""
        import numpy as np
        q = np.array(qpos, float)
        return np.concatenate([q[:3], q[4:7], q[3:4], qvel] if self.here.free else [q, qvel])

    def residual(self, term):
        """Of a term the key of its cost, the residual and its weights."""
        import crocoddyl
        import numpy as np
        model, nu, target = self.here.model, self.here.model.nu, term.get("target")
        if "control" in term:
            return "control", crocoddyl.ResidualModelControl(self.state, np.zeros(nu) if target is None else np.array(target, float)), np.ones(nu)
        if "site" in term:
            frame = self.world.getFrameId(term["site"])
            return term["site"], crocoddyl.ResidualModelFrameTranslation(self.state, frame, np.array(target, float), nu), np.ones(3)

        # positions and speeds are compared at once
        of_speed = "qvel" in term
        at = self.x(model.init().qpos if of_speed or target is None else target, np.zeros(model.nv))
        return "state", crocoddyl.ResidualModelState(self.state, at, nu), np.repeat([1. - of_speed, 1. * of_speed], model.nv)

    def costs(self, controls, last):
        """Of a state: its terms halve no square, and are not times the step. The cost of controls is taken so many times."""
        import crocoddyl
        import numpy as np
        found, costs = {}, crocoddyl.CostModelSum(self.state, self.here.model.nu)
        for term in self.here.task["loss"]:
            if (term.get("at", "final") == "final" and not last) or ("control" in term and last):
                continue
            key, residual, weights = self.residual(term)
            weights = weights * term.get("weight", 1.) * (controls if key == "control" else 1) * 2 / (1 if last else self.here.model.timestep)
            known = found.get(key)
            if known and "qpos" not in term:
                residual = known[0]
            found[key] = (residual, weights + (known[1] if known else 0))
        for key, (residual, weights) in found.items():
            costs.addCost(key, crocoddyl.CostModelResidual(self.state, crocoddyl.ActivationModelWeightedQuad(np.array(weights)), residual), 1.)
        return costs

    def action(self, controls, last):
        import crocoddyl
        import numpy as np
        motion = crocoddyl.DifferentialActionModelFreeFwdDynamics(self.state, self.drive, self.costs(controls, last))
        action = crocoddyl.IntegratedActionModelEuler(motion, 0. if last else self.here.model.timestep)
        action.u_lb, action.u_ub = np.array(self.here.model.params["actuator_ctrlrange"]).T.copy()
        return action

    def solve(self, iterations, followed=False):
        """At most so many iterations: milliseconds, the solver, and the costs from the start on where they are followed."""
        import crocoddyl
        solver = crocoddyl.SolverBoxFDDP(self.problem)
        solver.th_stop = 1e-14
        logger = crocoddyl.CallbackLogger()
        if followed:
            solver.setCallbacks([logger])
        begin = time.thread_time()
        solver.solve(self.guess, self.controls, iterations, True)
        spent = 1e3 * (time.thread_time() - begin)
        return spent, solver, [self.problem.calc(self.guess, self.controls), *logger.costs] if followed else None


# ---- beside each other ----------------------------------------------------------------------------------------------------------------
def compare(here, there):
    """By how much a step, A and B differ at most, relative to 1 + the entry."""
    import numpy as np
    rng, worst, data, model = np.random.default_rng(1), np.zeros(3), there.node.createData(), here.model
    for _ in range(STATES):
        s, u = model.init(), rng.uniform(there.node.u_lb, there.node.u_ub)
        s.qpos[:], s.qvel[:] = rng.normal(size=model.nq), rng.normal(size=model.nv)
        if here.free:
            s.qpos[3:] /= np.linalg.norm(s.qpos[3:])
        after, x = model.step(s, u), there.x(s.qpos, s.qvel)
        there.node.calc(data, x, u)
        there.node.calcDiff(data, x, u)
        pairs = zip((there.x(after.qpos, after.qvel), *model.linearize(s, u)), (data.xnext, data.Fx, data.Fu))
        worst = np.maximum(worst, [np.max(np.abs(np.reshape(a, np.shape(b)) - b) / (1 + np.abs(b))) for a, b in pairs])
    return worst


def first(costs, goal):
    """How many iterations come so far; None: they do not."""
    return next((k for k, cost in enumerate(costs) if cost <= goal), None)


def measure(name, program, times):
    """A row of the table."""
    import numpy as np
    here = Here(name, program)
    there = There(here)
    step, A, B = compare(here, there)
    ours = here.ask("trace", LIMIT)
    _, solver, theirs = there.solve(LIMIT, True)
    cost = abs(here.ask("loss", *(repr(float(v)) for u in solver.us for v in np.ravel(u)))[0] / solver.cost - 1)
    best = min(*ours, solver.cost)
    counts = [first(costs, best + CLOSE * abs(best)) for costs in (ours, theirs)]
    runs = [len(costs) - 1 if count is None else count for count, costs in zip(counts, (ours, theirs))]

    mine, other = [], []
    for _ in range(times + 1):
        mine.append(here.ask("time", runs[0]))
        other.append(there.solve(runs[1])[0])
    del mine[0], other[0]  # both have touched their memory
    spent, linearizing, plans, again, planned, tried = np.median(mine, axis=0)
    here.process.stdin.close()

    # ratios are of neighbors, which met the machine in the same mood
    spent_there, ratio = statistics.median(other), statistics.median(a[0] / b for a, b in zip(mine, other))
    same = max(step, A, B, cost) <= SAME
    in_time = name in TOLD or (counts[0] is not None and (counts[1] is None or ratio <= MOST))
    shown = lambda count, run: str(run) if count is not None else f"not in {run}"
    return {"problem": name, "unknowns": here.controls.size, "step off": f"{step:.2g}", "A off": f"{A:.2g}", "B off": f"{B:.2g}", "cost off": f"{cost:.2g}",
            "off at most": SAME, "cost here": f"{min(ours):.12g}", "cost there": f"{solver.cost:.12g}", "iterations here": shown(counts[0], runs[0]),
            "iterations there": shown(counts[1], runs[1]), "ms here": f"{spent:.4g}", "ms there": f"{spent_there:.4g}", "ratio": f"{ratio:.3f}",
            "at most": "" if name in TOLD else MOST, "kept": "yes" if same and in_time else "no", "ms an iteration here": f"{spent / runs[0]:.3g}",
            "ms an iteration there": f"{spent_there / runs[1]:.3g}", "ms linearizing": f"{linearizing:.3g}", "ms planning": f"{plans:.3g}",
            "ms running again": f"{again:.3g}", "plans": int(planned), "runs": int(tried)}


def main():
    parser = argparse.ArgumentParser(description="Plans by iLQR beside Crocoddyl's SolverBoxFDDP.")
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "release"))
    parser.add_argument("--times", type=int, default=9)
    parser.add_argument("--only", choices=PROBLEMS, help="this problem; nothing is written")
    asked = parser.parse_args()
    sys.path.insert(0, os.path.join(asked.build, "python"))

    rows = []
    for name in [asked.only] if asked.only else PROBLEMS:
        row = measure(name, os.path.join(asked.build, "bench", "ilqr"), asked.times)
        rows.append(row)
        print("{problem}: step, A, B off by {step off}, {A off}, {B off}, cost by {cost off}; {cost here} here, {cost there} there".format(**row))
        asked_for = f"at most {MOST}: {row['kept']}" if row["at most"] else "told"
        print("  {ms here} ms in {iterations here} iterations beside {ms there} ms in {iterations there}: {ratio}, {}".format(asked_for, **row))
        print("  linearizing {ms linearizing} ms, {plans} plans {ms planning} ms, {runs} runs {ms running again} ms".format(**row), flush=True)
    if not asked.only:
        with open(os.path.join(ROOT, "bench", "results", "crocoddyl.csv"), "w", newline="", encoding="utf-8") as f:
            writer = csv.DictWriter(f, rows[0], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    return any(row["kept"] == "no" for row in rows)


if __name__ == "__main__":
    sys.exit(main())
