"""Bodies that are led have the velocity of their path: times of impacts and events, what they are thrown by, and paths that jump."""
import warnings

import numpy as np
import pytest

import pullback as pb

# A bead on a slide, without gravity, flies to a wall that moves at V by its path.
BEAD = """<mujoco><option timestep="{h}" gravity="0 0 0"/><worldbody><body name="wall" mocap="true" pos="-1 0 0">{wall}</body>
<body name="bead"><joint type="slide" axis="1 0 0"/><geom type="sphere" size=".1" mass="1" condim="1"/></body></worldbody></mujoco>"""
WALL = '<geom type="box" size=".5 1 1"/>'
E = .8


def fly(contact, mode, V, x0, h=1e-3, T=.5, wall=WALL, **options):
    m = pb.loads(BEAD.format(h=h, wall=wall), contact={"restitution": E, **contact})
    n, s = int(round(T / h)), m.init()
    s.qpos[0], s.qvel[0] = x0, -1
    pos, quat = np.zeros((n, 1, 3)), np.zeros((n, 1, 4))
    pos[:, 0, 0], quat[..., 0] = -1 + V * np.arange(n) * h, 1
    return m.rollout(s, steps=n, gradient=mode, mocap_pos=pos, mocap_quat=quat, **options)


@pytest.mark.parametrize("contact, mode", [({"method": "cones"}, "event"), ({"method": "impact"}, "exact")])
@pytest.mark.parametrize("V", [0, .2, .5, -.5])
def test_a_wall_that_moves(contact, mode, V):
    """v+ = -e v whatever V is, so dx(T)/dx0 = 1 + (v + e v) / (V - v): at each of ten phases of a step."""
    truth, h = 1 - (1 + E) / (V + 1), 1e-3
    for phase in np.arange(10) / 10:
        r = fly(contact, mode, V, -.2 + phase * h * (V + 1), h)
        g = r.vjp(qpos=[1.], check="steps")
        assert abs(g.qpos[0] - truth) < .05 * max(1, abs(truth)), (V, phase, g.qpos[0], truth)
        assert not g.certificate["spot_off"]


@pytest.mark.parametrize("V", [.2, -.5])
def test_by_the_place_of_a_wall(V):
    """The wall displaced as a whole: dx(T)/dw = (v + e v) / (v - V), and by its speed that times the time of touch."""
    r = fly({"method": "impact"}, "exact", V, -.2)
    g = r.vjp(qpos=[1.])
    n, h = len(g.mocap_pos), 1e-3
    touch, slope = .2 / (V + 1), (1 + E) / (V + 1)
    assert abs(g.mocap_pos[:, 0, 0].sum() - slope) < 1e-6 * slope
    by_speed = (g.mocap_pos[:, 0, 0] * np.arange(n) * h).sum()
    assert abs(by_speed - slope * touch) < 4 * h * slope


# ---- a paddle --------------------------------------------------------------------------------------------------------------
PADDLE = """<mujoco><option timestep=".001"/><worldbody>
<body name="paddle" mocap="true" pos="0 0 {z}" quat="{q[0]} {q[1]} {q[2]} {q[3]}"><geom type="box" size=".3 .3 .02"/></body>
<body name="ball" pos=".02 0 .42"><freejoint/><geom type="sphere" size=".05" mass=".1"/></body></worldbody></mujoco>"""
FALL = .35


def poses(t, amplitude, rate, phase, tilt):
    pos, quat = np.zeros((len(t), 1, 3)), np.zeros((len(t), 1, 4))
    angle = tilt * np.sin(rate * t)
    pos[:, 0, 2], quat[:, 0, 0], quat[:, 0, 2] = amplitude * np.sin(rate * t + phase), np.cos(angle / 2), np.sin(angle / 2)
    return pos, quat


def turn_of(quat, change):
    """The rotation in the body's frame that a change of a unit quaternion is: twice the vector part of conj(q) dq."""
    w, v, cw, cv = quat[..., :1], -quat[..., 1:], change[..., :1], change[..., 1:]
    return 2 * (w * cv + cw * v + np.cross(v, cv))


def play(parameters, steps, contact):
    t = np.arange(steps) * 1e-3
    pos, quat = poses(t, *parameters)
    m = pb.loads(PADDLE.format(z=pos[0, 0, 2], q=quat[0, 0]), contact=contact)
    return m.rollout(m.init(), steps=steps, mocap_pos=pos, mocap_quat=quat)


def by_path(gradient, parameters, steps):
    """The gradient by parameters of the path, from that by its rows."""
    t, out = np.arange(steps) * 1e-3, []
    for k in range(len(parameters)):
        d = np.zeros(len(parameters))
        d[k] = 1e-6
        (p1, q1), (p0, q0) = poses(t, *(parameters + d)), poses(t, *(parameters - d))
        turn = turn_of(poses(t, *parameters)[1], (q1 - q0) / 2e-6)
        out.append((gradient.mocap_pos * (p1 - p0) / 2e-6).sum() + (gradient.mocap_rot * turn).sum())
    return np.array(out)


def test_juggling():
    """A paddle keeps a ball in the air for 5 s; the gradient of where it is by the path against differences."""
    contact, steps = {"method": "impact", "restitution": 1.}, 5000
    start, w = np.array([.01, 12., .3, 0.]), np.array([.2, .1, 1, 0, 0, 0])
    r = play(start, steps, contact)
    assert ((np.diff(r.qvel[:, 2]) > 1).sum() >= 8) and r.qpos[:, 2].min() > .05
    g = by_path(r.vjp(qpos=w), start, steps)

    for k in range(3):
        d = np.zeros(4)
        d[k] = 1e-6 * max(.01, abs(start[k]))
        quotient = (w[:3] @ (play(start + d, steps, contact).qpos[-1] - play(start - d, steps, contact).qpos[-1])[:3]) / (2 * d[k])
        assert abs(g[k] - quotient) < 1e-3 * abs(quotient), (k, g[k], quotient)


# ---- jumps -------------------------------------------------------------------------------------------------------------------
def test_paths_that_jump():
    """Beyond what can be swept: refused with body and step where something meets the body, at rest for that step where nothing does."""
    def run(wall, step=7, **options):
        m = pb.loads(BEAD.format(h=1e-3, wall=wall), contact={"method": "impact", "restitution": E})
        pos = np.tile([[[-1., 0, 0]]], (20, 1, 1))
        pos[step:, 0, 1] = 100
        return m.rollout(m.init(), steps=20, mocap_pos=pos, **options)
    with pytest.raises(pb.Error, match="step 7 of 20.*mocap body 'wall' jumps: by 1?.*100 m"):
        run(WALL)
    run('<geom type="box" size=".5 1 1" contype="0" conaffinity="0"/>')
    run("")
    with pytest.raises(pb.Error, match="step 0 of 20.*jumps"):
        run(WALL, step=0)


# ---- forces that follow ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("contact, mode", [({"method": "cones"}, "event"), ({"method": "impact"}, "exact")])
@pytest.mark.parametrize("V", [.2, -.5])
def test_thrown(contact, mode, V):
    """Restitution of the relative speed: v+ = V - e (v - V), so dx(T)/dx0 = -e, at each of ten phases of a step."""
    h = 1e-3
    for phase in np.arange(10) / 10:
        r = fly({**contact, "mocap_motion": "followed"}, mode, V, -.2 + phase * h * (V + 1), h)
        assert abs(r.qvel[-1, 0] - (V - E * (-1 - V))) < 1e-3
        assert abs(r.vjp(qpos=[1.]).qpos[0] + E) < .05 * E


@pytest.mark.parametrize("contact, mode", [({"method": "cones"}, "event"), ({"method": "impact"}, "exact")])
@pytest.mark.parametrize("a", [0, 1.5, -1.5])
def test_a_wall_that_speeds_up_throws_otherwise_later(contact, mode, a):
    """With v+ = V + e (1 + V) and V = .2 + a t, the time of touch moves dx(T)/dx0 by (1 + e) a (T - t) dt/dx0, which no branch of a step knows: -.80 for
    -.14. It is counted and named; walls of constant speed are not, nor those whose speed forces do not see."""
    h, n = 1e-3, 500
    t, pos = np.arange(1, n + 1) * h, np.zeros((n, 1, 3))
    pos[:, 0, 0] = -1 + .2 * t + a * t * t / 2
    for motion in ("followed", "ignored"):
        m = pb.loads(BEAD.format(h=h, wall=WALL.replace("/>", ' name="paddle"/>')), contact={"restitution": E, "mocap_motion": motion, **contact})
        s = m.init()
        s.qpos[0], s.qvel[0] = -.2004, -1
        certificate = m.rollout(s, steps=n, mocap_pos=pos, gradient=mode).vjp(qpos=[1.]).certificate
        counted = bool(a) and motion == "followed"
        assert certificate["grazing"] == counted, (a, motion)
        if counted:
            assert "paddle" in certificate["grazing_contact"] and "led by a path that accelerates" in certificate["grazing_contact"]
            assert 140 < certificate["grazing_step"] < 200


BELT = """<mujoco><option timestep=".002"/><worldbody><body name="belt" mocap="true" pos="0 0 0"><geom type="box" size="2 1 .02"/></body>
<body name="box" pos="0 0 .0699"><freejoint/><geom type="box" size=".08 .08 .05" mass=".5" friction=".8"/></body></worldbody></mujoco>"""


@pytest.mark.parametrize("method", ["soft", "cones", "lcp", "penalty"])
def test_carried(method):
    """A plate that is led carries a box along where forces follow; else it slides under it, as in MuJoCo."""
    n, V = 400, .3
    pos = np.zeros((n, 1, 3))
    pos[:, 0, 0] = V * .002 * np.arange(n)
    for motion, speed in (("followed", V), ("ignored", 0)):
        m = pb.loads(BELT, contact={"method": method, "mocap_motion": motion})
        r = m.rollout(m.init(), steps=n, mocap_pos=pos)
        assert abs(r.qvel[-1, 0] - speed) < .03 * V, (motion, r.qvel[-1])


def test_a_run_that_goes_on_is_asked_where_bodies_were():
    """In parts of 20 steps each came from the model's pose in one step: the box was thrown to four times the belt's speed."""
    path = np.zeros((60, 1, 3))
    path[:, 0, 0] = .3 * .002 * np.arange(1, 61)
    m = pb.loads(BELT, contact={"mocap_motion": "followed"})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        whole = m.rollout(m.init(), steps=60, mocap_pos=path)
        part = m.rollout(m.init(), steps=20, mocap_pos=path[:20])
        rest = m.rollout(part.final, steps=40, mocap_pos=path[20:], mocap_pos_before=path[19])
        m.rollout(part.final, steps=2, mocap_pos=path[20:22], mocap_vel=np.zeros((2, 1, 6)))
        m.rollout(part.final, steps=2, mocap_pos=np.zeros((2, 1, 3)))  # where the model has it
        plain = pb.loads(BELT)
        plain.rollout(plain.state(part.final.flat), steps=40, mocap_pos=path[20:])  # nothing reads the velocity
    assert np.array_equal(rest.states[-1], whole.states[-1])
    with pytest.warns(RuntimeWarning, match="the state is of a later time, and mocap_pos_before was not given"):
        m.rollout(part.final, steps=40, mocap_pos=path[20:])


# Both sides of a contact: a plate that tilts and goes, with a finger on a joint of its own, under balls and a box with friction of all
# kinds; a second plate.
LED = """<mujoco><option timestep=".002" cone="{cone}" impratio="2"/><worldbody>
<body name="plate" mocap="true" pos="0 0 .1" euler="4 3 20"><geom type="box" size=".4 .4 .02" condim="{dim}" friction=".6 .02 .01"/>
 <body pos=".2 0 .02"><joint name="finger" axis="0 1 0" damping=".02" stiffness=".5"/>
  <geom type="capsule" fromto="0 0 .03 .1 0 .06" size=".02" mass=".05"/></body></body>
<body name="roof" mocap="true" pos="-.1 .05 .3"><geom type="sphere" size=".06" condim="{dim}"/></body>
<body name="ball" pos="-.1 .03 {z}"><freejoint/><geom size=".05" mass=".2" condim="{dim}" friction=".5 .02 .01"/></body>
<body name="box" pos=".1 -.1 .16"><freejoint/><geom type="box" size=".05 .04 .03" mass=".3" condim="{dim}"/></body>
</worldbody></mujoco>"""


def led(contact, dim, cone, steps, seed=0):
    r, h = np.random.default_rng(seed), .002
    m = pb.loads(LED.format(dim=dim, cone=cone, z=.1675 if contact.get("method") != "impact" else .19), contact={"mocap_motion": "followed", **contact})
    t = np.arange(steps)[:, None, None] * h
    pos = np.array([[[0, 0, .1], [-.1, .05, .3]]]) + .03 * np.sin(t * r.uniform(5, 15, (1, 2, 3)))
    turn = .03 + .2 * np.sin(t * r.uniform(3, 9, (1, 2, 3)))
    quat = np.concatenate([np.ones((steps, 2, 1)), turn], 2)
    s = m.init()
    s.qvel[:] = .3 * r.standard_normal(m.nv)
    return m, s, pos, quat


@pytest.mark.parametrize("contact, dim, cone", [({}, 3, "pyramidal"), ({}, 6, "pyramidal"), ({}, 6, "elliptic"), ({}, 4, "elliptic"),
                                                ({"method": "penalty"}, 3, "elliptic"), ({"method": "cones"}, 3, "elliptic"),
                                                ({"method": "lcp"}, 3, "elliptic"), ({"method": "sweeps"}, 3, "elliptic"),
                                                ({"method": "impact", "restitution": .9}, 3, "elliptic")])
def test_derivatives_by_the_path(contact, dim, cone):
    """By rows of poses, through the velocities between them: forward against reverse, and against differences of the program."""
    steps = 40 if contact.get("method") != "impact" else 60
    m, s, pos, quat = led(contact, dim, cone, steps)
    rng = np.random.default_rng(3)
    dp, dr, w = rng.standard_normal(pos.shape), rng.standard_normal(pos.shape), rng.standard_normal(m.nv)
    # Small moves of single rows are large velocities: along directions that are smooth in time
    k = np.arange(steps)[:, None, None]
    dp, dr = .1 * dp[:1] * np.sin(.1 * k) + .1 * dp[1:2], .1 * dr[:1] * np.sin(.1 * k) + .1 * dr[1:2]
    run = lambda p, q: m.rollout(s, steps=steps, mocap_pos=p, mocap_quat=q, mocap_pos_before=p[0], mocap_quat_before=q[0])
    r = run(pos, quat)
    g = r.vjp(qvel=w, wrt=["mocap_pos", "mocap_rot", "mocap_pos_before", "mocap_rot_before"], check="steps")
    reverse = sum((getattr(g, n) * d).sum() for n, d in
                  (("mocap_pos", dp), ("mocap_rot", dr), ("mocap_pos_before", dp[0]), ("mocap_rot_before", dr[0])))
    t = r.jvp(mocap_pos=dp, mocap_rot=dr, mocap_pos_before=dp[0], mocap_rot_before=dr[0])
    forward = w @ t.qvel[-1]
    assert abs(forward - reverse) < 1e-7 * (abs(forward) + 1e-3), (forward, reverse)
    assert g.certificate["spot_checked"] and not g.certificate["spot_off"]

    def moved(e):
        q = quat / np.linalg.norm(quat, axis=2, keepdims=True)
        half = .5 * e * dr
        return w @ run(pos + e * dp, q + turned(q, half)).qvel[-1]
    quotient = (moved(1e-7) - moved(-1e-7)) / 2e-7
    assert abs(quotient - forward) < 1e-4 * (abs(forward) + 1), (quotient, forward)


def turned(q, v):
    """q (0, v)"""
    w, u = q[..., :1], q[..., 1:]
    return np.concatenate([-(u * v).sum(-1, keepdims=True), w * v + np.cross(u, v)], -1)


@pytest.mark.parametrize("contact", [{}, {"method": "cones"}, {"method": "impact", "restitution": .9}])
def test_derivatives_by_given_velocities(contact):
    """mocap_vel (steps, bodies, linear and angular) beside poses: forward against reverse and differences."""
    steps = 50
    m, s, pos, quat = led(contact, 3, "elliptic", steps)
    rng = np.random.default_rng(5)
    vel, d, w = .3 * rng.standard_normal((steps, 2, 6)), rng.standard_normal((steps, 2, 6)), rng.standard_normal(m.nv)
    run = lambda v: m.rollout(s, steps=steps, mocap_pos=pos[:1].repeat(steps, 0), mocap_vel=v)
    if contact.get("method") == "impact":
        vel, d = .1 * vel[:1].repeat(steps, 0), d[:1].repeat(steps, 0)
    r = run(vel)
    g = r.vjp(qvel=w, check="steps")
    reverse, forward = (g.mocap_vel * d).sum(), w @ r.jvp(mocap_vel=d).qvel[-1]
    assert abs(forward - reverse) < 1e-8 * (abs(forward) + 1e-3) and abs(forward) > 1e-6
    assert not g.certificate["spot_off"]
    quotient = (w @ (run(vel + 1e-7 * d).qvel[-1] - run(vel - 1e-7 * d).qvel[-1])) / 2e-7
    assert abs(quotient - forward) < 1e-4 * (abs(forward) + 1), (quotient, forward)


# ---- what comes in -----------------------------------------------------------------------------------------------------------
def test_bad_inputs():
    """Shapes, numbers and bodies that are none: refused with the place."""
    m = pb.loads(BEAD.format(h=1e-3, wall=WALL))
    pos, vel = np.tile([[[-1., 0, 0]]], (5, 1, 1)), np.zeros((5, 1, 6))
    with pytest.raises(pb.ArgumentError, match=r"mocap_vel: expected shape \(N, 1, 6\)"):
        m.rollout(m.init(), steps=5, mocap_vel=np.zeros((5, 6)))
    with pytest.raises(pb.ArgumentError, match="mocap_vel has 4 steps"):
        m.rollout(m.init(), steps=5, mocap_vel=vel[:4])
    with pytest.raises(pb.ArgumentError, match=r"mocap_pos_before: .*\(1, 3\)"):
        m.rollout(m.init(), mocap_pos=pos, mocap_pos_before=np.zeros((1, 4)))
    with pytest.raises(pb.ArgumentError, match="mocap_vel"):  # of two bodies, where one is led
        m.rollout(m.init(), steps=5, mocap_vel=np.zeros((5, 2, 6)))
    vel[3, 0, 4] = np.nan
    with pytest.raises(pb.Error, match=r"mocap_vel: entry \(3, 0, 4\) is nan"):
        m.rollout(m.init(), steps=5, mocap_pos=pos, mocap_vel=vel)
    with pytest.raises(pb.Error, match="mocap_pos_before: entry .* is inf"):
        m.rollout(m.init(), mocap_pos=pos, mocap_pos_before=[[np.inf, 0, 0]])
    with pytest.raises(pb.Error, match="mocap_quat before row 0 of mocap body 'wall' has length 0"):
        m.rollout(m.init(), mocap_pos=pos, mocap_quat_before=[[0., 0, 0, 0]])
    with pytest.raises(pb.ArgumentError, match="the rollout was not given mocap_vel"):
        m.rollout(m.init(), mocap_pos=pos).vjp(qpos=[1.], wrt="mocap_vel")


def test_worlds_and_parts():
    """Worlds of a batch and of any budget, and a run that goes on, have the bits of one run."""
    contact, steps, half = {"method": "impact", "restitution": .9, "mocap_motion": "followed"}, 60, 25
    m, s, pos, quat = led(contact, 3, "elliptic", steps)
    first = {"mocap_pos_before": pos[0], "mocap_quat_before": quat[0]}
    whole = m.rollout(s, steps=steps, mocap_pos=pos, mocap_quat=quat, **first)
    w = np.random.default_rng(1).standard_normal(m.nv)
    g = whole.vjp(qvel=w)

    a = m.rollout(s, mocap_pos=pos[:half], mocap_quat=quat[:half], **first)
    b = m.rollout(a.states[-1], mocap_pos=pos[half:], mocap_quat=quat[half:], mocap_pos_before=pos[half - 1], mocap_quat_before=quat[half - 1])
    assert np.array_equal(whole.states, np.concatenate([a.states, b.states[1:]]))
    second = b.vjp(qvel=w)
    rows = second.mocap_pos.copy()
    assert np.allclose(rows, g.mocap_pos[half:], atol=1e-9 * abs(g.mocap_pos).max())
    last = a.vjp(qpos=second.qpos, qvel=second.qvel)
    assert np.allclose(last.mocap_pos[-1] + second.mocap_pos_before, g.mocap_pos[half - 1], atol=1e-9 * abs(g.mocap_pos).max())
    assert np.allclose(last.mocap_rot[-1] + second.mocap_rot_before, g.mocap_rot[half - 1], atol=1e-9 * abs(g.mocap_rot).max())

    small = m.rollout(s, mocap_pos=pos, mocap_quat=quat, memory=20000, **first).vjp(qvel=w)
    assert np.array_equal(small.mocap_pos, g.mocap_pos) and np.array_equal(small.mocap_rot, g.mocap_rot)
    worlds = m.rollout(s, mocap_pos=np.stack([pos, pos + [0, 0, .001]]), mocap_quat=quat, **first)
    assert np.array_equal(worlds.states[0], whole.states) and not np.array_equal(worlds.states[1], whole.states)
    both = worlds.vjp(qvel=np.stack([w, w]))
    assert np.array_equal(both.mocap_pos[0], g.mocap_pos)


def test_by_the_model():
    """Before row 0 stands the model's pose: body_pos, body_quat and the time step owe to the velocity of the first step."""
    m, s, pos, quat = led({"method": "impact", "restitution": .9}, 3, "elliptic", 12)
    # In touch from the first step on
    s.qpos[2], s.qvel[:3] = .1745, [0, 0, -.5]
    m = pb.loads(LED.format(dim=3, cone="elliptic", z=.1745), contact={"mocap_motion": "followed"})
    theta = {n: np.array(m.params[n]) for n in ("body_pos", "body_quat", "timestep")}
    led_ones, rng = [1, 3], np.random.default_rng(2)
    pos, quat = np.tile(theta["body_pos"][led_ones] + 1e-3, (12, 1, 1)), np.tile(theta["body_quat"][led_ones] + 1e-3, (12, 1, 1))
    w, d = rng.standard_normal(m.nv), {n: np.zeros_like(v) for n, v in theta.items()}
    d["body_pos"][led_ones], d["body_quat"][led_ones] = rng.standard_normal((2, 3)), rng.standard_normal((2, 4))
    d["timestep"] = d["timestep"] + 1e-3
    run = lambda e: m.rollout(s, params={n: v + e * d[n] for n, v in theta.items()}, mocap_pos=pos, mocap_quat=quat)
    r = run(0)
    g, forward = r.vjp(qvel=w), w @ r.jvp(params=d).qvel[-1]
    reverse = sum((g.params[n] * v).sum() for n, v in d.items())
    quotient = w @ (run(1e-7).qvel[-1] - run(-1e-7).qvel[-1]) / 2e-7
    assert abs(forward - reverse) < 1e-8 * abs(forward) and abs(quotient - forward) < 1e-4 * abs(forward), (forward, reverse, quotient)


def test_velocities_and_poses_before_do_not_go_together():
    """One of both would be ignored: refused by name, as an input of a rollout and of each of many worlds."""
    m = pb.loads(BEAD.format(h=1e-3, wall=WALL))
    s, vel = m.init(), np.zeros((5, 1, 6))
    for before in ({"mocap_pos_before": np.array([[-1., 0, 0]])}, {"mocap_quat_before": np.array([[1., 0, 0, 0]])}):
        name = next(iter(before))
        with pytest.raises(pb.Error, match=f"mocap_vel and {name}.*expected one of both"):
            m.rollout(s, steps=5, mocap_vel=vel, **before)
        with pytest.raises(pb.Error, match=f"mocap_vel and {name}"):
            m.rollout(s, steps=5, mocap_vel=np.stack([vel, vel]), **before)


# ---- friction of what nothing can follow -----------------------------------------------------------------------------------
WIRE = """<mujoco><option timestep=".001" gravity="0 0 0"/><worldbody><body name="plate" mocap="true"><geom type="box" size="1 1 .02" friction="{mu}"/></body>
<body pos="0 0 .2">{joints}<geom type="sphere" size=".05" mass=".5" friction="{mu}"/></body></worldbody></mujoco>"""
SLIDES = {"x": '<joint type="slide" axis="1 0 0"/>', "y": '<joint type="slide" axis="0 1 0"/>', "z": '<joint type="slide" axis="0 0 1"/>'}


def thrown(ways, mu, e, tilt, w, v, steps=400):
    """A bead that can go along `ways` meets a tilted plate that moves with w: the run, and where it goes by Newton's and Coulomb's laws."""
    m = pb.loads(WIRE.format(mu=mu, joints="".join(SLIDES[a] for a in ways)), contact={"method": "impact", "restitution": e, "mocap_motion": "followed"})
    t, s = np.arange(steps) * 1e-3, m.init()
    pos, quat = t[:, None, None] * np.asarray(w), np.tile([[[np.cos(tilt / 2), 0, np.sin(tilt / 2), 0]]], (steps, 1, 1))
    s.qvel[:] = v

    def roll(s=s, pos=pos, **more):
        return m.rollout(s, steps=steps, mocap_pos=pos, mocap_quat=quat, mocap_pos_before=pos[0], mocap_quat_before=quat[0], **more)
    E, n = np.eye(3)[["xyz".index(a) for a in ways]], np.array([np.sin(tilt), 0, np.cos(tilt)])
    v, w, along = np.asarray(v, float), np.asarray(w, float), np.zeros(3)
    for _ in range(4000):  # the slip after follows the impulse, which is against it
        push = n - mu * along
        p = -(1 + e) * (n @ (v @ E - w)) / (n @ (push @ E.T @ E))
        slip = (v + p * (E @ push)) @ E - w
        slip -= (slip @ n) * n
        along += .5 * slip  # against it: at the cone where it slips, inside where it sticks
        along /= max(1, np.linalg.norm(along))
    return m, roll, v + p * (E @ push), (s, pos)


@pytest.mark.parametrize("ways, mu, tilt, w, v", [
    ("z", .5, .3, [.4, 0, .1], [-1]), ("z", .9, -.4, [.3, -.5, 0], [-1]), ("xz", .3, .2, [0, .6, .1], [.2, -1]), ("xz", .8, -.35, [.5, -.4, -.1], [.1, -1]),
    ("xz", .4, 0, [.3, 0, .1], [-.5, -1]), ("xz", .4, 0, [.3, 0, .1], [.1, -1]), ("xyz", .3, .3, [.5, .7, .1], [.1, 0, -1])])
def test_friction_along_what_nothing_follows(ways, mu, tilt, w, v):
    """A bead on a wire cannot go with a plate that slips sideways under it: friction along that direction moves nothing and has its share of
    the cone. Velocities after the impact by the laws, and gradients against differences."""
    m, roll, after, (s, pos) = thrown(ways, mu, .6, tilt, w, v)
    r = roll()
    assert np.abs(r.qvel[-1] - after).max() < 1e-7, (r.qvel[-1], after)
    weights, rng = np.ones(m.nv) + np.arange(m.nv), np.random.default_rng(1)
    g = r.vjp(qpos=weights, qvel=weights)
    dx, dp = rng.normal(size=2 * m.nv), np.repeat(rng.normal(size=(1, 1, 3)), len(pos), 0)

    def end(e):
        x = m.integrate(s, e * dx)
        there = roll(x, pos + e * dp)
        return weights @ (there.qpos[-1] + there.qvel[-1])
    slope = (end(1e-6) - end(-1e-6)) / 2e-6
    assert abs(np.concatenate([g.qpos, g.qvel]) @ dx + np.sum(g.mocap_pos * dp) - slope + np.sum(g.mocap_pos_before * dp[0])) < 1e-4 * max(1, abs(slope))


@pytest.mark.parametrize("kind", ["ignored", "followed"])
@pytest.mark.parametrize("V, a", [(.2, 1.5), (-.2, -1.5), (0, 4)])
def test_soft_contact_of_a_wall_that_speeds_up(kind, V, a):
    """Soft contact led by an accelerating path has no closed form: the gradient by events against secants at a step four times as fine."""
    spring = 'solref="-4000 -10"'
    text = BEAD.replace('mass="1"', f'mass="1" {spring}')

    def fly(h, x0, mode):
        m, n = pb.loads(text.format(h=h, wall=f'<geom type="box" size=".5 1 1" {spring}/>'), contact={"mocap_motion": kind}), round(.4 / h)
        s, pos, t = m.init(), np.zeros((n, 1, 3)), np.arange(1, n + 1) * h
        s.qpos[0], s.qvel[0] = x0, -1
        pos[:, 0, 0] = -1 + V * t + a * t * t / 2
        return m.rollout(s, steps=n, mocap_pos=pos, gradient=mode)
    h, d, x0 = 4e-5, 2e-4, -.25
    truth = (fly(h / 4, x0 + d, "exact").qpos[-1, 0] - fly(h / 4, x0 - d, "exact").qpos[-1, 0]) / (2 * d)
    found = [fly(h, x0 + phase * h, "event").vjp(qpos=[1.], check=None).qpos[0] for phase in (.1, .4, .6, .9)]
    assert abs(np.mean(found) - truth) < .03 and max(abs(np.array(found) - truth)) < .06, (found, truth)
