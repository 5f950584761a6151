"""Jacobians of rollouts, and many directions at once: both modes and one direction at a time agree, and cost what is promised."""
import time

import numpy as np
import pytest

import pullback as pb

ARM = """<mujoco><option timestep=".002" {option}><flag {flag}/></option><worldbody><geom name="floor" type="plane" size="3 3 .1" pos="0 0 -.6"/>
<body name="base"><joint name="yaw" axis="0 0 1" damping=".5" armature=".1" frictionloss=".2"/><geom size=".05" mass="1"/>
<body name="upper" pos="0 0 .1"><joint name="lift" axis="0 1 0" damping=".4" armature=".05" frictionloss=".15"/>
<geom type="capsule" fromto="0 0 0 .3 0 0" size=".04" mass="2"/>
<body name="fore" pos=".3 0 0"><joint name="bend" axis="0 1 0" damping=".3" armature=".02" frictionloss=".1"/>
<geom type="capsule" fromto="0 0 0 .3 0 0" size=".03" mass="1"/>{more}</body></body></body>{beside}</worldbody>
<actuator><motor joint="yaw"/><motor joint="lift"/>{last}</actuator></mujoco>"""
WIDE = ["body_mass:upper", "body_mass:fore", "body_ipos:upper:2", "body_ipos:fore:2", "dof_damping", "dof_armature", "dof_frictionloss"]
BALL = "<body name='ball' pos='.8 0 -.45'><freejoint/><geom name='ball' size='.15' friction='.6'/></body>"
LOOSE = "<body name='hand' pos='.3 0 0'><joint type='ball' damping='.1'/><geom size='.05' pos='.05 .02 0'/></body>"
MODELS = {
    "euler": {"beside": BALL, "more": LOOSE},
    "plain": {},
    "runge": {"option": "integrator='RK4'", "beside": BALL},
    "fast": {"option": "integrator='implicitfast'", "beside": BALL, "more": LOOSE},
    "memory": {"last": "<general joint='bend' dyntype='filter' dynprm='.05' gainprm='2'/>"},
    "undamped": {"flag": "eulerdamp='disable'", "beside": BALL},
}


def model_of(what):
    parts = {"option": "", "flag": "contact='enable'", "more": "", "beside": "", "last": "<motor joint='bend'/>", **MODELS.get(what, {})}
    return pb.loads(ARM.format(**parts), contact={"method": "lcp"} if what == "hard" else {})


def rolled(what, steps=60, **more):
    model = model_of(what)
    rng = np.random.default_rng(3)
    state = model.integrate(model.init(), .2 * rng.normal(size=len(model.tangent_names)))
    return model.rollout(state, rng.normal(size=(steps, model.nu)), **more)


@pytest.mark.parametrize("what", [*MODELS, "hard"])
def test_directions_together_are_those_one_by_one(what):
    """By the start, controls and parameters, time step and quaternions among them, beside the program in complex numbers."""
    r = rolled(what, outputs=())
    m, count = r.model, 40
    rng = np.random.default_rng(4)
    names = ["body_mass", "geom_friction", "dof_damping", "body_quat", "gravity", "timestep", "jnt_axis"]
    params = {name: rng.normal(size=(count, *m.params[name].shape)) for name in names}
    if "timestep" in params:
        params["timestep"] *= 1e-3
    x, u = rng.normal(size=(count, len(m.tangent_names))), rng.normal(size=(count, *r.ctrl.shape))
    together = r.jvp(x, ctrl=u, params=params, directions=count)
    assert together.x.shape == (count, 61, len(m.tangent_names)) and together.qvel.shape == (count, 61, m.nv)
    for k in (0, 17, 39):
        alone = r.jvp(x[k], ctrl=u[k], params={n: a[k] for n, a in params.items()})
        assert np.abs(together.x[k] - alone.x).max() <= 1e-10 * max(1, np.abs(alone.x).max()), (what, k)


@pytest.mark.parametrize("what", [*MODELS, "hard", "policy"])
def test_states_and_controls_together_are_those_one_by_one(what):
    """Where nothing else moves all rows of a step's Jacobian are there at once: beside the program in complex numbers."""
    r = of_policy() if what == "policy" else rolled(what, outputs=())
    m, rng, count = r.model, np.random.default_rng(14), 60
    x = rng.normal(size=(count, len(m.tangent_names)))
    controls = {} if what == "policy" else {"ctrl": rng.normal(size=(count, *r.ctrl.shape))}
    for ways in (controls, {}):
        together = r.jvp(x, directions=count, **ways)
        for k in (0, 23, 59):
            alone = r.jvp(x[k], **{name: a[k] for name, a in ways.items()})
            assert np.abs(together.x[k] - alone.x).max() <= 1e-10 * max(1, np.abs(alone.x).max()), (what, k)


SEEN = """<sensor><jointpos joint="yaw"/><framelinvel objtype="xbody" objname="fore"/><actuatorfrc actuator="last"/><touch site="tip"/><clock cutoff=".05"/>
<accelerometer site="tip"/><clock/><subtreeangmom body="base"/></sensor>"""


def seeing(what):
    """The same models with sensors of every stage, and sites."""
    parts = {"option": "", "flag": "contact='enable'", "more": "", "beside": "", "last": "<motor joint='bend'/>", **MODELS[what]}
    parts["more"] += "<site name='tip' pos='.3 0 0' size='.1'/>"
    text = ARM.format(**parts).replace("<motor joint='bend'/>", "<motor name='last' joint='bend'/>").replace("<general ", "<general name='last' ")
    return pb.loads(text.replace("</mujoco>", SEEN + "</mujoco>"))


@pytest.mark.parametrize("what", MODELS)
@pytest.mark.parametrize("steps", [12, 1])
def test_outputs_of_directions_together_are_those_one_by_one(what, steps):
    """Sensors, places of bodies and sites, along forces, too; at the last state, too."""
    m = seeing(what)
    rng, count, n = np.random.default_rng(5), 80, len(m.tangent_names)
    state = m.integrate(m.init(), .2 * rng.normal(size=n))
    acts = {"ctrl": rng.normal(size=(steps, m.nu)), "qfrc_applied": rng.normal(size=(steps, m.nv)), "xfrc_applied": rng.normal(size=(steps, m.nbody, 6))}
    r = m.rollout(state, **acts, outputs=("sensordata", "xpos", "site_xpos"))
    params = {k: rng.normal(size=(count, *m.params[k].shape)) for k in ("body_mass", "site_pos", "body_pos", "dof_damping", "timestep")}
    x, ways = rng.normal(size=(count, n)), {k: rng.normal(size=(count, *a.shape)) for k, a in acts.items()}
    together = r.jvp(x, params=params, directions=count, **ways)
    for k in (0, 41, 79):
        alone = r.jvp(x[k], params={name: a[k] for name, a in params.items()}, **{name: a[k] for name, a in ways.items()})
        for name in ("sensordata", "xpos", "site_xpos", "x"):
            a, b = getattr(together, name)[k], getattr(alone, name)
            assert np.abs(a - b).max() <= 1e-9 * max(1, np.abs(b).max()), (what, name, k)


LED = """<mujoco><option timestep=".002" {option}/><worldbody><geom name="floor" type="plane" size="3 3 .1"/>
<body name="hand" mocap="true" pos="0 0 .5"><geom name="palm" type="box" size=".1 .1 .02"/></body>
<body name="paddle" mocap="true" pos=".5 0 .1" euler="0 20 0"><geom type="capsule" size=".05 .1" contype="2" conaffinity="2"/></body>
<body name="ball" pos=".02 .01 .62"><freejoint/><geom name="ball" size=".1"/></body>
<body name="cart" pos=".5 0 .3"><joint name="rail" type="slide"/><geom size=".08" mass="1"/><body name="pole" pos="0 0 .1">
<joint name="swing" axis="0 1 0" damping=".1"/>
<geom type="capsule" fromto="0 0 0 0 0 .3" size=".02"/><site name="tip" pos="0 0 .3"/></body></body></worldbody>
<equality><weld body1="paddle" body2="pole" solref=".05 1"/></equality><actuator><motor joint="rail"/></actuator>
<sensor><framepos objtype="xbody" objname="hand"/><framelinvel objtype="xbody" objname="paddle"/><accelerometer site="tip"/>
<framequat objtype="xbody" objname="paddle"/></sensor></mujoco>"""


def led(option="", steps=40, given="poses", outputs=()):
    """Mocap bodies that carry a ball and lead a pole, along a path or with velocities that are said."""
    m = pb.loads(LED.format(option=option), contact={"mocap_motion": "followed"})  # else nothing reads how they move
    t = m.timestep * np.arange(steps)
    pos = np.array([[0, 0, .5], [.5, 0, .1]]) + np.stack([np.zeros_like(t), np.zeros_like(t), .05 * np.sin(9 * t)], -1)[:, None]
    half = .2 * np.sin(5 * t)[:, None] * [1, .5]
    quat = np.stack([np.cos(half), 0 * half, np.sin(half), 0 * half], -1)
    acts = {"mocap_pos": pos, "mocap_quat": quat, "ctrl": .1 * np.ones((steps, 1))}
    if given == "velocities":
        acts["mocap_vel"] = .1 * np.random.default_rng(2).normal(size=(steps, 2, 6))
    if given == "before":
        acts |= {"mocap_pos_before": pos[0] - [0, 0, 1e-3], "mocap_quat_before": quat[0]}
    return m.rollout(m.init(), **acts, outputs=outputs)


def of_policy():
    """A pendulum on a policy with a memory, by a command."""
    described = {"observe": [{"qpos": True}, {"qvel": True}, {"command": 2}],
                 "layers": [{"dense": 6, "activation": "tanh"}, {"gru": 3}, {"dense": 2}]}
    m = pb.loads(SWING, policy=described)
    rng = np.random.default_rng(1)
    params = {name: .3 * rng.normal(size=m.params[name].shape) for name in m.params if name.startswith("policy.")}
    state = m.init()
    state.qpos[:] = .3, .2
    return m.rollout(state, command=rng.normal(size=(30, 2)), params=params, outputs=("sensordata",))


SWING = """<mujoco><option timestep=".01"/><worldbody><body><joint name="j" axis="0 1 0" damping=".1"/><geom type="capsule" fromto="0 0 0 0 0 .5" size=".04"/>
<body pos="0 0 .5"><joint name="k" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0 0 .4" size=".03"/><site name="tip" pos="0 0 .4"/></body></body>
</worldbody>
<actuator><motor name="m" joint="j"/><motor joint="k"/></actuator><sensor><accelerometer site="tip"/><actuatorfrc actuator="m"/></sensor></mujoco>"""


def alike_one_by_one(r, x, ways, params, names, bound=1e-11):
    together = r.jvp(x, params=params, directions=len(x), **ways)
    for k in range(0, len(x), 17):
        alone = r.jvp(x[k], params={name: a[k] for name, a in params.items()}, **{name: a[k] for name, a in ways.items()})
        for name in names:
            a, b = getattr(together, name)[k], getattr(alone, name)
            assert np.abs(a - b).max() <= bound * max(1, np.abs(b).max()), (name, k)


@pytest.mark.parametrize("option", ["", "integrator='RK4'", "integrator='implicitfast'"])
@pytest.mark.parametrize("given", ["poses", "velocities", "before"])
def test_directions_of_mocap_bodies_together_are_those_one_by_one(option, given):
    """Of poses, of velocities that follow from them or are said, of the pose before, beside the start, controls and parameters."""
    r = led(option, given=given, outputs=("sensordata", "xpos"))
    m, count, rng = r.model, 86, np.random.default_rng(4)
    ways = {"mocap_pos": (40, 2, 3), "mocap_rot": (40, 2, 3), "ctrl": (40, 1)}
    ways |= {"mocap_vel": (40, 2, 6)} if given == "velocities" else {}
    ways |= {"mocap_pos_before": (2, 3), "mocap_rot_before": (2, 3)} if given == "before" else {}
    ways = {name: rng.normal(size=(count, *shape)) for name, shape in ways.items()}
    params = {name: rng.normal(size=(count, *m.params[name].shape)) for name in ("body_mass", "body_pos", "body_quat", "timestep")}
    params["timestep"] *= 1e-3
    alike_one_by_one(r, rng.normal(size=(count, len(m.tangent_names))), ways, params, ("x", "sensordata", "xpos"))
    for name in set(ways) - {"mocap_pos", "mocap_rot", "ctrl"}:  # alone, and they do move the bodies
        alike_one_by_one(r, np.zeros((count, len(m.tangent_names))), {name: ways[name]}, {}, ("x", "sensordata"))
        assert np.abs(r.jvp(directions=count, **{name: ways[name]}).qvel).max() > 1


def test_directions_of_policies_together_are_those_one_by_one():
    """Of weights, commands, the memory and what is seen."""
    r = of_policy()
    m, count, rng = r.model, 86, np.random.default_rng(6)
    params = {name: rng.normal(size=(count, *m.params[name].shape)) for name in m.params if name.startswith("policy.")}
    ways = {"command": rng.normal(size=(count, 30, 2))}
    x = rng.normal(size=(count, len(m.tangent_names)))
    alike_one_by_one(r, x, ways, {**params, "body_mass": rng.normal(size=(count, m.nbody))}, ("x", "sensordata"))
    alike_one_by_one(r, x, ways, {}, ("x",))
    first = {"policy.0.bias": params["policy.0.bias"]}
    alike_one_by_one(r, x, {}, first, ("x",))
    forward, reverse = (r.jacobian("state", ["command", "state", "policy.2.bias"], mode=mode) for mode in ("forward", "reverse"))
    for name, value in forward.items():
        assert np.abs(value - reverse[name]).max() <= 1e-10 * max(1, np.abs(value).max()), name


@pytest.mark.parametrize("make", [lambda: led(steps=300), of_policy])
def test_many_directions_cost_a_fraction_of_theirs_alone(make):
    """64 of them, the best of several, in this process."""
    r = make()
    ways = {"mocap_pos": np.ones((64, 300, 2, 3))} if r.model.nmocap else {"command": np.ones((64, 30, 2))}
    times = {"together": [], "alone": []}
    for _ in range(5):
        start = time.process_time()
        r._push([r._read_way({name: a[k] for name, a in ways.items()}, None) for k in range(64)], [])
        times["together"].append(time.process_time() - start)
        start = time.process_time()
        r._push([r._read_way({name: a[0] for name, a in ways.items()}, None)], [])
        times["alone"].append(time.process_time() - start)
    assert min(times["together"]) < 20 * min(times["alone"]), times  # measured 5 and 7; each by itself 44 and 28


def test_jacobians_of_sensors_cost_less_than_their_directions_one_by_one():
    """Of four sensors by 13 parameters, the best of several, in this process."""
    m = pb.loads(ARM.format(option="", flag="contact='enable'", more="", beside="", last="<motor joint='bend'/>").replace(
        "</mujoco>", "<sensor><jointpos joint='yaw'/><jointpos joint='lift'/><jointpos joint='bend'/><jointvel joint='bend'/></sensor></mujoco>"))
    ctrl = .3 * np.sin(np.arange(800)[:, None] * .01 + np.arange(m.nu))
    r = m.rollout(m.init(), ctrl, params={n: m.params[n] for n in WIDE})
    times = {"together": [], "alone": []}
    for _ in range(5):
        start = time.process_time()
        found = r.jacobian("sensordata", WIDE, at="all")
        times["together"].append(time.process_time() - start)
        start = time.process_time()
        for name in WIDE:
            way = {name: np.ones_like(m.params[name])}
            for _ in range(m.params[name].size):
                r.jvp(params=way)
        times["alone"].append(time.process_time() - start)
    assert found["dof_damping"].shape == (801, 4, 3)
    assert min(times["together"]) < .6 * min(times["alone"]), times  # measured .16


@pytest.mark.parametrize("what", ["euler", "plain", "memory"])
@pytest.mark.parametrize("of", ["state", "qpos", "qvel", "act"])
def test_modes_agree(what, of):
    r = rolled(what, outputs=(), params={"body_mass": model_of(what).params["body_mass"]})
    wrt = ["body_mass", "dof_damping:0", "qvel", "state", "gravity:2", "ctrl"]
    forward, reverse, own = (r.jacobian(of, wrt, mode=mode) for mode in ("forward", "reverse", "auto"))
    every = r.jacobian(of, wrt[:-1], at="all")
    for name in wrt:
        scale = max(1, np.abs(forward[name]).max(initial=0))
        assert forward[name].shape == reverse[name].shape == own[name].shape
        assert np.abs(forward[name] - reverse[name]).max(initial=0) < 1e-10 * scale, name
        if name != "ctrl":
            assert every[name].shape == (61, *forward[name].shape) and np.abs(every[name][-1] - forward[name]).max(initial=0) < 1e-12 * scale
    assert list(r.jacobian(of)) == ["body_mass"]


def test_outputs_and_batches():
    r = rolled("euler", outputs=("xpos", "site_xpos"))
    j = r.jacobian("xpos", ["body_mass", "qvel"])
    g = r.vjp(xpos=np.eye(1, r.model.nbody * 3, 8).reshape(r.model.nbody, 3), wrt=["body_mass"])
    assert j["body_mass"].shape == (r.model.nbody, 3, r.model.nbody) and np.allclose(j["body_mass"][2, 2], g.params["body_mass"], rtol=1e-9, atol=1e-12)
    assert np.allclose(j["qvel"][2, 2], g.qvel, rtol=1e-9, atol=1e-12)

    m = r.model
    mass = m.params["body_mass"] * np.linspace(.8, 1.2, 3)[:, None]
    many = m.rollout(m.init(batch=3), r.ctrl, params={"body_mass": mass, "dof_damping": m.params["dof_damping"]}, outputs=())
    found = many.jacobian("qpos", ["body_mass", "dof_damping"], at="all")
    for k in range(3):
        one = m.rollout(m.init(), r.ctrl, params={"body_mass": mass[k], "dof_damping": m.params["dof_damping"]}, outputs=())
        for name, value in one.jacobian("qpos", ["body_mass", "dof_damping"], at="all").items():
            assert found[name].shape == (3, *value.shape) and np.allclose(found[name][k], value, rtol=1e-9, atol=1e-11)


def test_what_does_not_fit_is_said():
    r = rolled("plain", outputs=())
    m = r.model
    for call, said in ((lambda: r.jacobian("qacc"), "of: expected one of state"), (lambda: r.jacobian("xpos"), "the rollout has no xpos"),
                       (lambda: r.jacobian(at="first"), "at: expected last, all"), (lambda: r.jacobian(mode="both"), "mode: expected auto"),
                       (lambda: r.jacobian(at="all", mode="reverse"), "last state of one world"), (lambda: r.jacobian(wrt=()), "found none"),
                       (lambda: r.jvp(qvel=np.ones((2, m.nv)), directions=3), "direction of qvel: expected 3 directions"),
                       (lambda: r.jvp(params={"body_mass": np.ones(m.nbody)}, directions=3), r"direction of params\['body_mass'\]: expected 3"),
                       (lambda: r.jvp(directions=0), "directions: expected a whole number, 1 or more")):
        with pytest.raises(pb.ArgumentError, match=said):
            call()
    with pytest.raises(KeyError, match="no parameter 'body_mas'"):
        r.jacobian(wrt="body_mas")


def test_thirteen_parameters_cost_half_of_their_differences():
    """Of 2 000 steps on one thread; the best of several, in this process."""
    m = model_of("plain")
    ctrl = .3 * np.sin(np.arange(2000)[:, None] * .01 + np.arange(m.nu))
    params = {n: np.array(m.params[n]) for n in WIDE}
    count = sum(v.size for v in params.values())
    assert count == 13
    r = m.rollout(m.init(), ctrl, params=params, outputs=())
    moved, at = {}, 0
    for name, value in params.items():
        step = np.zeros((count, value.size))
        step[at + np.arange(value.size), np.arange(value.size)] = 1e-6
        moved[name], at = value + step.reshape(count, *value.shape), at + value.size

    def seconds(work):
        start = time.process_time()
        work()
        return time.process_time() - start
    jacobian = differences = np.inf
    for _ in range(60):  # in turns: what else runs on this core is beside both
        differences = min(differences, seconds(lambda: m.rollout(m.init(), ctrl, params=moved, keep=False, threads=1, outputs=())))
        jacobian = min(jacobian, seconds(lambda: r.jacobian("state", WIDE, at="all")))
        if jacobian < .5 * differences:
            break
    assert jacobian < .5 * differences


def test_jacobians_are_the_differences():
    """A truth of its own: a rollout with another mass."""
    r = rolled("plain", outputs=())
    m, j = r.model, None
    j = r.jacobian("qpos", ["body_mass:fore"], at="all")["body_mass:fore"]
    sides = [m.rollout(r.state(0), r.ctrl, params={"body_mass:fore": 1 + e}, outputs=()).qpos for e in (1e-6, -1e-6)]
    assert np.abs(j.reshape(61, -1) - (sides[0] - sides[1]) / 2e-6).max() < 1e-6 * max(1, np.abs(j).max())


@pytest.mark.parametrize("off", [5, -5])
def test_projected_clips_have_the_derivative_of_the_program_in_jacobians(off):
    """A unit cotangent is no direction of descent: rows are those of the clip as it is, at either bound."""
    arm = """<mujoco><option timestep=".01"/><worldbody><body><joint name="h" axis="0 1 0"/><geom size=".1" pos=".3 0 0"/></body></worldbody>
    <actuator><motor joint="h"/></actuator></mujoco>"""
    layers = [{"formula": [f"x0+2*x1+{off}"]}, {"clip": [-1, 1], "projected": True}]
    m = pb.loads(arm, policy={"observe": [{"qpos": True}, {"qvel": True}], "layers": layers})
    n = len(m.tangent_names)
    with m.rollout(m.init(), np.zeros((20, 1))) as r:
        A = r.linearize()[0]
        columns = np.stack([np.ravel(r.jvp(state=np.eye(n)[j]).qvel[-1]) for j in range(n)], axis=1)
        forward = r.jacobian("state", ["state"], mode="forward")["state"]
    chain = np.eye(n)
    for step in A:
        chain = step @ chain
    assert np.abs(chain[m.nv:2 * m.nv] - columns).max() < 1e-12 * np.abs(columns).max()
    assert np.abs(forward[m.nv:2 * m.nv] - columns).max() < 1e-12 * np.abs(columns).max()
