"""A cart-pole and a quadrotor are pushed beside a wall

Plans by iLQR are made every 20 ms from the state that has been reached, of six iterations, each the guess of the next; the plant has
steps of 5 ms and asks the plan's feedback in each. The wall is a constraint, met by multipliers that are kept from plan to plan and
moved in time. The cart is wanted 5 cm from its wall; the quadrotor, a free body of .8 kg with four rotors that push 4 N each at most,
is wanted 3 cm beyond a wall along which it flies, and stays on it. At the goal it is pushed: a blow, which changes velocities, from 20
directions. A push is 80 % of the largest that the reference recovers from in 3 s, which is the same controller with twelve iterations a
plan in place of six: from each direction pushes are made larger by a quarter until it fails once, at most to 4 m/s. The first plan,
replayed without feedback, is pushed likewise."""
import time

import numpy as np

from common import below, figure, reported, row, timing

import pullback as pb

INTERVAL, INNER, AFTER, PUSHES = .02, 4, 150, 20  # of plans, s; steps of the plant in it; plans in 3 s

CART = """<mujoco><option timestep="{}"/><worldbody><body name="cart"><joint name="x" type="slide" axis="1 0 0"/>
<geom type="box" size=".2 .1 .1" mass="1" contype="0" conaffinity="0"/><body name="pole"><joint name="angle" axis="0 1 0"/>
<geom type="capsule" size=".02" fromto="0 0 0 0 0 .6" mass=".1" contype="0" conaffinity="0"/></body></body></worldbody>
<actuator><motor name="force" joint="x"/></actuator></mujoco>"""
QUAD = """<mujoco><option timestep="{}"/><worldbody><body name="frame"><freejoint name="free"/>
<geom type="box" size=".12 .12 .03" mass=".8" contype="0" conaffinity="0"/>
<site name="a" pos=".15 .15 0"/><site name="b" pos="-.15 .15 0"/><site name="c" pos="-.15 -.15 0"/><site name="d" pos=".15 -.15 0"/>
</body></worldbody>
<actuator><motor name="ma" site="a" gear="0 0 1 0 0 .02"/><motor name="mb" site="b" gear="0 0 1 0 0 -.02"/>
<motor name="mc" site="c" gear="0 0 1 0 0 .02"/><motor name="md" site="d" gear="0 0 1 0 0 -.02"/></actuator></mujoco>"""
HOVER = .8 * 9.81 / 4


def loss(always, last, wall):
    wall = {"name": "wall", "at": "all", "type": "below", "constraint": True, "tolerance": 1e-4, **wall}
    return [{**t, "at": "all"} for t in always] + last + [wall]


def cart():
    always = [{"qpos": "angle", "weight": 10}, {"qpos": "x", "target": .45}, {"qvel": True, "weight": .1}, {"control": True, "weight": .001}]
    last = [{"qpos": "angle", "weight": 200}, {"qvel": True, "weight": 10}, {"qpos": "x", "target": .45, "weight": 20}]
    return {"model": CART.format(.02), "steps": 50, "variables": [{"name": "force", "control": True, "lower": -10, "upper": 10}],
            "loss": loss(always, last, {"qpos": "x", "target": .5, "weight": 50})}


def quad():
    goal, turn = [2, .03, 1], {"qpos": "free", "components": [3, 4, 5]}
    always = [{"body": "frame", "target": goal}, {**turn, "weight": .2}, {"qvel": True, "weight": .05},
              {"control": True, "target": HOVER, "weight": .01}]
    last = [{"body": "frame", "target": goal, "weight": 20}, {"qvel": True, "weight": 2}, {**turn, "weight": 5}]
    return {"model": QUAD.format(.02), "steps": 40, "init": {"qpos": [1.5, -.1, 1, 1, 0, 0, 0]}, "controls": [[HOVER] * 4] * 40,
            "variables": [{"name": "rotors", "control": True, "lower": 0, "upper": 4}],
            "loss": loss(always, last, {"body": "frame", "components": [1], "target": 0, "weight": 200})}


class System:
    """What is steered: its task and plant; goal, entry of qpos that has the wall, with its range; size of the first push, blows of size one."""

    def __init__(self, task, plant, start, goal, which, wall, span, first, blows):
        self.task, self.plant, self.goal, self.which, self.wall, self.span, self.blows = task, plant, np.array(goal), which, wall, span, blows
        self.first = first
        self.start = plant.init()
        self.start.qpos = start
        bounds = task["variables"][0]
        self.lower, self.upper = bounds["lower"], bounds["upper"]

    def off(self, state):
        """Distance from the goal, rad and m, and what still moves."""
        return max(np.abs(state.qpos[:len(self.goal)] - self.goal).max(), .5 * np.abs(state.qvel).max())

    def fly(self, state, iterations=6, replay=None, times=None, seen=None):
        """Three seconds from a state; False where it is lost on the way."""
        mpc = None if replay is not None else pb.Mpc(self.task)
        for k in range(AFTER):
            if mpc:
                begun = time.thread_time()
                try:
                    mpc.plan(state, elapsed=INTERVAL if k else 0, iterations=iterations if k else 50)
                except pb.StepError:
                    return False
                if times is not None and k:
                    times.append(time.thread_time() - begun)
            for i in range(INNER):
                u = mpc.control(state, time=i * INTERVAL / INNER) if mpc else replay[k]
                self.plant.step_into(state, u)
                if seen is not None:
                    seen.append((state.qpos[self.which], u.min(), u.max(), self.off(state)))
            if not self.off(state) < 50:
                return False
        return True

    def settle(self):
        """From the start to the goal: what was seen on the way, and times of plans."""
        times, seen = [], []
        self.rest = self.start.copy()
        for _ in range(2):
            self.fly(self.rest, times=times, seen=seen)
        return times, np.array(seen)

    def recovers(self, blow, **how):
        state = self.rest.copy()
        state.qvel += blow
        return self.fly(state, **how) and self.off(state) < .1

    def largest(self, direction):
        """The largest push from a direction that the reference recovers from, as from all smaller ones that were tried."""
        size = self.first
        while 1.25 * size < 4 and self.recovers(1.25 * size * direction, iterations=12):
            size *= 1.25
        return size

    def first_plan(self):
        """Controls of the plan from rest, step by step, and its last beyond the horizon."""
        mpc = pb.Mpc(self.task)
        mpc.plan(self.rest, iterations=50)
        return [mpc.ctrl[min(int(k * INTERVAL / mpc.timestep + 1e-9), mpc.steps - 1)] for k in range(AFTER)]


def systems():
    rng = np.random.default_rng(60)
    turns = 2 * np.pi * np.arange(PUSHES) / PUSHES
    drawn = rng.normal(size=(PUSHES, 6)) * [1, 1, 1, 3, 3, 1]
    yield "cart-pole", System(cart(), pb.loads(CART.format(INTERVAL / INNER)), [0, 0], [.45, 0], 0, .5, 1, .6,
                              np.stack([np.cos(turns), 2 * np.sin(turns)], axis=1))
    yield "quadrotor", System(quad(), pb.loads(QUAD.format(INTERVAL / INNER)), [1.5, -.1, 1, 1, 0, 0, 0], [2, 0, 1], 1, 0, 1, 2,
                              drawn / np.linalg.norm(drawn, axis=1)[:, None])


def rows():
    out = []
    for name, s in systems():
        times, seen = s.settle()
        over = max(seen[:, 0].max() - s.wall, 0) / s.span
        out.append(below(f"{name}: beyond the wall at most, without pushes, by the range of 1 m", over, 1e-3))
        out.append(reported(f"{name}: distance from the goal after six seconds", f"{s.off(s.rest):.2g}"))
        sizes = [s.largest(d) for d in s.blows]
        pushes = [.8 * size * d for size, d in zip(sizes, s.blows, strict=True)]
        out.append(reported(f"{name}: largest blows that the reference recovers from: least, median, largest, m/s or rad/s",
                            "{:.2f}, {:.2f}, {:.2f}".format(*np.percentile(sizes, (0, 50, 100)))))

        trace = []
        recovered = sum(s.recovers(p, times=times, seen=trace) for p in pushes)
        trace = np.array(trace)
        out.append(row(f"{name}: recovered from 80 % of these, of {PUSHES}", recovered, f"{PUSHES}", recovered == PUSHES))
        bounded = min(seen[:, 1].min(), trace[:, 1].min()) >= s.lower and max(seen[:, 2].max(), trace[:, 2].max()) <= s.upper
        out.append(row(f"{name}: controls within their limits, all of {len(seen) + len(trace)}", bounded, "True", bounded))
        replay = s.first_plan()
        failed = sum(not s.recovers(p, replay=replay) for p in pushes)
        out.append(row(f"{name}: of these the first plan, replayed, fails in", failed, ">= 15", failed >= 15))
        late = np.percentile(times, 99) / INTERVAL
        said = f"{name}: processor time of a plan, 99th percentile of {len(times)}, by the interval of {1e3 * INTERVAL:g} ms"
        out.append(timing(said, late, "<= 0.5", late <= .5))
        out.append(reported(f"{name}: the same in ms: median, 99th percentile", "{:.2f}, {:.2f}".format(*(1e3 * np.percentile(times, (50, 99))))))
        figure(f"K60-{name}", f"{name}: distance from the goal after pushes (5 of {PUSHES})", "steps of 5 ms", "m or rad",
               {f"push {i}": np.minimum(trace[i * AFTER * INNER:(i + 1) * AFTER * INNER, 3], 3) for i in range(5)})
    return out
