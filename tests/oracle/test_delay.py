"""Delays of actuators and sensors, and sensors that measure from time to time: steps and the history beside MuJoCo, gradients beside
differences of the program and of MuJoCo."""
import mujoco as mj
import numpy as np
import pytest

import inside

H = 0.01
ORDERS = ["zoh", "linear", "cubic"]
# In steps: none, shorter than one, whole ones, between two, as long as what is kept, longer.
DELAYS = [0, 0.3, 1, 1.5, 2, 2.7, 4, 6]
INTEGRATORS = ["Euler", "implicitfast", "RK4"]

SCENE = """<mujoco><option timestep="{h}" integrator="{integrator}"/>
<worldbody><geom name="floor" type="plane" size="2 2 .1" pos="0 0 -1.2"/>
<body name="upper" pos="0 0 .2"><joint name="shoulder" axis="0 1 0" damping=".1"/><geom type="capsule" size=".04" fromto="0 0 0 .4 0 0"/>
<body name="lower" pos=".4 0 0"><joint name="elbow" type="ball" damping=".05"/><geom name="hand" type="capsule" size=".03" fromto="0 0 0 .3 .05 0"/>
<site name="tip" pos=".3 .05 0"/></body></body>
<body name="lump" pos="1 0 {height}"><freejoint/><geom name="lump" type="sphere" size=".1"/></body></worldbody>
<actuator>{actuators}</actuator><sensor>{sensors}</sensor></mujoco>"""
DRIVES = ['<motor joint="shoulder" gear="2" ctrllimited="true" ctrlrange="-1 1" {0}/>', '<position joint="shoulder" kp="8" kv=".5" {0}/>',
          '<general joint="elbow" gear="0 .5 .2" dyntype="filter" dynprm=".03" gainprm="1" {0}/>',
          '<intvelocity joint="shoulder" kp="3" actrange="-1 1" {0}/>', '<muscle joint="shoulder" lengthrange="-1 1" force="5" {0}/>']
SENSES = ['<jointpos joint="shoulder" {0}/>', '<framepos objtype="site" objname="tip" {0}/>', '<accelerometer site="tip" {0}/>',
          '<gyro site="tip" {0}/>', '<framequat objtype="body" objname="lower" {0}/>', '<ballangvel joint="elbow" cutoff="1.5" {0}/>',
          '<actuatorfrc actuator="drive" {0}/>', '<clock {0}/>', '<touch site="tip" {0}/>']


def kept(r, interval=False):
    """Attributes of a history at random."""
    words = f'nsample="{r.choice([1, 2, 4, 5])}" interp="{r.choice(ORDERS)}"'
    delay = H * r.choice(DELAYS)
    if delay:
        words += f' delay="{delay:.17g}"'
    if interval and r.random() < .4:
        period = H * r.choice([.5, 1, 2.5, 3])
        words += f' interval="{period:.17g} {-period * r.choice([0, .4]):.17g}"'
    return words


def scene(seed, integrator, height=-1.13):
    """A random model, by a seed: most actuators and sensors keep samples. height: of a ball, at which it touches the floor."""
    r = np.random.default_rng(seed)
    some = lambda words, interval: [w.format(kept(r, interval) if r.random() < .8 else "") for w in words]
    drives = some([DRIVES[k] for k in r.permutation(len(DRIVES))], False)
    drives[0] = drives[0].replace(" ", ' name="drive" ', 1)
    return SCENE.format(h=H, integrator=integrator, height=height, actuators="".join(drives), sensors="".join(some(SENSES, True)))


def both(tmp_path, text):
    path = tmp_path / "model.xml"
    path.write_text(text)
    m = mj.MjModel.from_xml_string(text)
    return m, mj.MjData(m), inside.Model(str(path))


def put(d, x, ours):
    """A state of ours in MuJoCo's data."""
    s = ours.slots
    d.time, d.qpos[:], d.qvel[:], d.act[:] = x[0], x[s["qpos"]], x[s["qvel"]], x[s["act"]]
    d.qacc_warmstart[:] = x[s["qacc_warmstart"]]
    if "history" in s:
        d.history[:] = x[s["history"]]


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_steps_agree(tmp_path, integrator):
    """State, history and sensors to 1e-12 through steps with controls that change."""
    worst = 0
    for seed in range(12):
        m, d, ours = both(tmp_path, scene(seed, integrator))
        r = np.random.default_rng(100 + seed)
        x = ours.init()
        np.testing.assert_array_equal(x[ours.slots["history"]], d.history)
        x[ours.slots["qvel"]] += r.standard_normal(ours.nv)
        for k in range(40):
            put(d, x, ours)
            d.ctrl[:] = u = r.standard_normal(m.nu)
            mj.mj_step(m, d)
            x, told = ours.step(x, u)
            got = np.concatenate([x[ours.slots[n]] for n in ("qpos", "qvel", "act", "history")] + [told, x[:1]])
            want = np.concatenate([d.qpos, d.qvel, d.act, d.history, d.sensordata, [d.time]])
            worst = max(worst, np.max(np.abs(got - want) / np.maximum(1, np.abs(want))))
    print(f"{integrator}: {worst:.1e}")
    assert worst < 1e-12


# ---- derivatives --------------------------------------------------------------------------------------------------------------
def warm(ours, r, steps=6):
    """A state whose history is full of what was, and a control."""
    x = ours.init()
    x[ours.slots["qvel"]] += r.standard_normal(ours.nv)
    for _ in range(steps):
        x, _ = ours.step(x, r.standard_normal(ours.nu))
    return x, r.standard_normal(ours.nu)


def off_kinks(ours, r):
    """Parameters whose delays lie off whole and half steps, where lines have a kink."""
    theta = ours.theta.copy()
    for name in ("actuator_delay", "sensor_delay"):
        if name in ours.params and ours.params[name].rows:
            d = ours.param(theta, name)
            d[d > 0] = H * (np.floor(2 * d[d > 0] / H) / 2 + r.uniform(.1, .4, (d > 0).sum()))
    return theta


def delay_direction(ours, r, theta):
    way = np.zeros(ours.ntheta)
    for name in ("actuator_delay", "sensor_delay"):
        if name in ours.params:
            d = ours.param(theta, name)
            ours.param(way, name)[:] = H * r.standard_normal(d.shape) * (d > 0)
    return way


def quotient(at, e):
    """Central difference, Richardson's over two moves."""
    fine, coarse = (at(e) - at(-e)) / (2 * e), (at(2 * e) - at(-2 * e)) / (4 * e)
    return (4 * fine - coarse) / 3


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_steps_derivatives(tmp_path, integrator):
    """A step's derivatives by state, history, control and delays beside differences of the program; forward against reverse; rows of Jacobians."""
    for seed in range(8):
        _, _, ours = both(tmp_path, scene(200 + seed, integrator, 0))
        r = np.random.default_rng(seed)
        x, u = warm(ours, r)
        theta = off_kinks(ours, r)
        y, _, record = ours.step_recorded(x, u, theta=theta)
        record = record.copy()
        ways = {"x": r.standard_normal(ours.nt), "d_ctrl": r.standard_normal(ours.nu), "d_theta": delay_direction(ours, r, theta)}
        w, ws = r.standard_normal(ours.nt), r.standard_normal(ours.nsensordata)
        bar = ours.vjp(record, w, ws, ctrl=u, theta=theta)
        for name, way in ways.items():
            next_, told, _, _ = ours.jvp(record, ctrl=u, theta=theta, **{name: way})

            def at(e):
                moved = ours.move(x, way, e) if name == "x" else x
                a, s = ours.step(moved, u + e * way if name == "d_ctrl" else u, theta=theta + e * way if name == "d_theta" else theta)
                return np.concatenate([ours.difference(y, a), s])

            found, expected = np.concatenate([next_, told]), quotient(at, 1e-4)
            scale = max(1, np.abs(expected).max())
            assert np.abs(found - expected).max() < 2e-7 * scale, (seed, name, np.abs(found - expected).max(), scale)
            dot, back = w @ next_ + ws @ told, way @ bar[{"x": "x", "d_ctrl": "ctrl", "d_theta": "theta"}[name]]
            assert abs(dot - back) < 1e-11 * (np.abs(w * next_).sum() + np.abs(ws * told).sum() + 1), (seed, name, dot, back)

        a, b, c, d = ours.jacobian(record, ctrl=u, theta=theta)
        np.testing.assert_allclose(w @ a + ws @ c, bar["x"], atol=1e-10 * max(1, np.abs(bar["x"]).max()))
        np.testing.assert_allclose(w @ b + ws @ d, bar["ctrl"], atol=1e-10 * max(1, np.abs(bar["ctrl"]).max()))


@pytest.mark.parametrize("kind", ["exact", "event"])
@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_rollouts_derivatives(tmp_path, integrator, kind):
    """Through a rollout, by the state with its history, the time step and delays: forward against reverse, and (without events) differences;
    the same bits with states stored at few steps."""
    steps = 12
    for seed in range(4):
        _, _, ours = both(tmp_path, scene(300 + seed, integrator, 0 if kind == "exact" else -1.09))
        r = np.random.default_rng(seed)
        x, _ = warm(ours, r)
        theta, controls = off_kinks(ours, r), r.standard_normal((steps, ours.nu))
        ours.theta = theta
        rollout = inside.Rollout(ours, steps)
        rollout.forward(x, controls)
        way = delay_direction(ours, r, theta)
        ours.param(way, "timestep")[:] = .1 * H
        along, w = r.standard_normal(ours.nt), r.standard_normal((steps + 1, ours.nt))
        tangent = rollout.jvp(kind, along, way)
        x0, gradient, _ = rollout.vjp(kind, **{n: w[:, a:b] for n, a, b in (
            ("qpos", 0, ours.nv), ("qvel", ours.nv, 2 * ours.nv), ("act", 2 * ours.nv, 2 * ours.nv + ours.na))})
        shown = 2 * ours.nv + ours.na
        dot, back = (w[:, :shown] * tangent[:, :shown]).sum(), along @ x0 + way @ gradient
        assert abs(dot - back) < 1e-9 * np.abs(w[:, :shown] * tangent[:, :shown]).sum(), (seed, dot, back)

        small = inside.Rollout(ours, steps, budget=4096)
        small.forward(x, controls)
        again = small.vjp(kind, **{n: w[:, a:b] for n, a, b in (
            ("qpos", 0, ours.nv), ("qvel", ours.nv, 2 * ours.nv), ("act", 2 * ours.nv, 2 * ours.nv + ours.na))})
        np.testing.assert_array_equal(x0, again[0])
        np.testing.assert_array_equal(gradient, again[1])
        if kind == "event":
            continue

        end = rollout.forward(x, controls)
        at = lambda e: ours.difference(end, rollout.forward(ours.move(x, along, e), controls, theta + e * way))
        expected = quotient(at, 3e-5)
        # Switches of sensors that measure from time to time move with the time step: samples of these are left out.
        assert np.abs(tangent[-1, :shown] - expected[:shown]).max() < 1e-6 * max(1, np.abs(expected[:shown]).max()), seed


def lone(integrator, interp, delay, nsample=6):
    """A slide that a late motor drives."""
    return f"""<mujoco><option timestep="{H}" integrator="{integrator}" gravity="0 0 0"/><worldbody><body><joint name="slide" type="slide" axis="1 0 0"
damping=".3"/><geom size=".1" mass="1"/></body></worldbody>
<actuator><motor joint="slide" nsample="{nsample}" interp="{interp}" delay="{delay:.17g}"/></actuator></mujoco>"""


def ended(d, m, controls, delay):
    mj.mj_resetData(m, d)
    m.actuator_delay[0] = delay
    for u in controls:
        d.ctrl[:] = u
        mj.mj_step(m, d)
    return np.array([d.qpos[0], d.qvel[0]])


@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("interp", ORDERS)
def test_gradient_by_the_delay_is_that_of_mujoco(tmp_path, integrator, interp):
    """Of MuJoCo's own motion, by its differences: beside a whole step, halfway, and on it from the side of shorter delays."""
    controls = np.random.default_rng(3).standard_normal((20, 1))
    for of_step in (.4, 1, 1 + 1e-6, 1.5, 2, 2.3, 3, 5.99, 6, 6.5):
        delay = of_step * H
        m, d, ours = both(tmp_path, lone(integrator, interp, delay))
        rollout = inside.Rollout(ours, len(controls))
        end = rollout.forward(ours.init(), controls)
        np.testing.assert_allclose(np.concatenate([end[ours.slots["qpos"]], end[ours.slots["qvel"]]]), ended(d, m, controls, delay), atol=1e-14)
        _, gradient, _ = rollout.vjp(qpos=np.array([1.]), qvel=np.array([.5]))
        found = float(ours.param(gradient, "actuator_delay")[0, 0])

        # On lines the motion is a line between kinks, on a spline it is smooth.
        value = lambda e: ended(d, m, controls, delay + e * H) @ [1, .5]
        if interp == "zoh":
            expected = 0
        elif interp == "linear":
            expected = (value(0) - value(-1e-7)) / (1e-7 * H)
        else:
            expected = quotient(value, 2e-6) / H  # the second derivative jumps at samples
        assert abs(found - expected) < 2e-6 * max(1, abs(expected)), (of_step, found, expected)


def test_bends_of_delays(tmp_path):
    """Where a delay has a slope on one side, and where none."""
    flat, upper, none = inside.native.pb_bendFlat, inside.native.pb_bendUpper, inside.native.pb_bendNone
    for integrator, interp, of_step, expected in (("Euler", "linear", 2, upper), ("Euler", "linear", 1.5, none), ("RK4", "linear", 1.5, upper),
                                                  ("Euler", "cubic", 2, none), ("Euler", "zoh", 1.5, flat), ("Euler", "linear", 0, flat)):
        _, _, ours = both(tmp_path, lone(integrator, interp, of_step * H))
        bend = inside.native.pbBend_At(ours.ptr, ours.theta, ours.params["actuator_delay"], 0, 0)
        assert bend.kind == expected, (integrator, interp, of_step)


def test_keyframes(tmp_path):
    """As mj_resetDataKeyframe: samples of zero before time 0, whatever the time of the keyframe."""
    text = scene(1, "Euler").replace("</mujoco>", f'<keyframe><key time="3" qvel="{" ".join(["1"] * 10)}"/></keyframe></mujoco>')
    m, d, ours = both(tmp_path, text)
    mj.mj_resetDataKeyframe(m, d, 0)
    x = ours.init(0)
    np.testing.assert_array_equal(x[ours.slots["history"]], d.history)
    for k in range(8):
        u = np.full(m.nu, np.sin(k))
        d.ctrl[:] = u
        mj.mj_step(m, d)
        x, told = ours.step(x, u)
        np.testing.assert_allclose(np.concatenate([x[ours.slots["qpos"]], x[ours.slots["history"]], told]),
                                   np.concatenate([d.qpos, d.history, d.sensordata]), atol=1e-12)


def test_samples_out_of_order(tmp_path):
    """A state whose samples are of later times, as after the clock was set back: written in their place, as in MuJoCo; derivatives as well."""
    m, d, ours = both(tmp_path, lone("Euler", "cubic", 1.3 * H))
    r = np.random.default_rng(0)
    x = ours.init()
    at = ours.slots["history"].start
    for times in (H * np.array([-1., .5, 1, 2.5, 3, 7]), H * np.arange(2., 8), H * np.array([-3., -2, -1, 0, 1, 2])):
        y = x.copy()
        y[at + 1], y[at + 2:at + 8], y[at + 8:at + 14] = 3, np.roll(times, 4), r.standard_normal(6)
        for k in range(5):
            put(d, y, ours)
            d.ctrl[:] = u = r.standard_normal(1)
            way, w = r.standard_normal(ours.nt), r.standard_normal(ours.nt)
            after, _, record = ours.step_recorded(y, u)
            mj.mj_step(m, d)
            np.testing.assert_allclose(after[ours.slots["history"]], d.history, atol=1e-15)
            np.testing.assert_allclose(after[ours.slots["qvel"]], d.qvel, atol=1e-14)

            bar = ours.vjp(record, w, ctrl=u)
            next_ = ours.jvp(record, x=way, d_ctrl=[.7], ctrl=u)[0]
            assert abs(w @ next_ - way @ bar["x"] - .7 * bar["ctrl"][0]) < 1e-12
            moved = lambda e: ours.difference(after, ours.step(ours.move(y, way, e), u + e * .7)[0])
            np.testing.assert_allclose(next_, quotient(moved, 1e-3), atol=1e-9)
            y = after


# ---- what is refused ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("of, words, said", [
    ("motor", 'delay=".1"', "delay is 0.1, but no samples are kept: expected nsample of at least delay / timestep"),
    ("motor", 'delay="-.1" nsample="2"', "delay is -0.1, expected 0 or more"),
    ("motor", 'nsample="-1"', "nsample is -1, expected 0 or more"),
    ("motor", 'nsample="16777216"', "histories of actuators and sensors have 33554434 numbers; at most 10000000 are possible"),
    ("motor", 'nsample="2" interp="quartic"', "expected one of: zoh, linear, cubic"),
    ("jointpos", 'delay=".1"', "delay is 0.1, but no samples are kept"),
    ("jointpos", 'interval=".1"', "interval needs samples that are kept (nsample)"),
    ("jointpos", 'nsample="2" interval="-.1"', "interval is -0.1, expected 0 or more"),
    ("jointpos", 'nsample="2" interval=".1 .1"', "interval[1], when it last measured, is 0.1, expected 0 or less"),
    ("jointpos", 'nsample="2" interval=".1 -.2"', "interval[1], when it last measured, is -0.2, expected more than one interval ago, -0.1"),
])
def test_bad_numbers(tmp_path, run, of, words, said):
    text = lone("Euler", "zoh", 0, 0).replace(' nsample="0" interp="zoh" delay="0"', words if of == "motor" else "")
    if of == "motor":
        text = text.replace('joint="slide"' + words, f'joint="slide" {words}')
    else:
        text = text.replace("</mujoco>", f'<sensor>\n<jointpos name="where" joint="slide" {words}/></sensor></mujoco>')
    path = tmp_path / "bad.xml"
    path.write_text(text)
    told = run("info", path, code=3).stderr
    assert said in told and ("bad.xml:" in told or "histories" in said), told


@pytest.mark.parametrize("entry, value, said", [
    (1, 6, "history[1] (actuator 0): its cursor is 6, expected a whole number from 0 to 5"),
    (1, .5, "its cursor is 0.5, expected a whole number"),
    (1, np.nan, "its cursor is nan"),
    (4, -.2, "history[4] (actuator 0): the time of a sample is -0.2, expected more than that of the one before, -0.05"),
    (3, np.nan, "the time of a sample is nan"),
])
def test_bad_states(tmp_path, entry, value, said):
    _, _, ours = both(tmp_path, lone("Euler", "cubic", 1.3 * H))
    x = ours.init()
    x[ours.slots["history"].start + entry] = value
    before = x.copy()
    with pytest.raises(inside.Error):
        ours.step(x, [1.])
    told = inside.native.pbScratch_Error(ours._scratch()).decode()
    assert said in told, told
    np.testing.assert_array_equal(x, before)


def test_sensors_that_are_switched_off(tmp_path):
    """MuJoCo's histories of sensors would go on while what they tell is zero."""
    path = tmp_path / "off.xml"
    path.write_text(lone("Euler", "zoh", 0).replace("</mujoco>", '<sensor><jointpos name="where" joint="slide" nsample="2"/></sensor></mujoco>'))
    ours = inside.Model(str(path), {"sensor": "disable"})
    with pytest.raises(inside.Error, match=r"sensor 0 'where' keeps samples \(nsample\)"):
        ours.step(ours.init(), [1.])


def test_program(tmp_path, run):
    """Recorded, gone on with from a row, told by info; a history of another length is named."""
    path, u = tmp_path / "model.xml", np.random.default_rng(0).standard_normal((30, 5))
    path.write_text(scene(3, "Euler"))
    np.save(tmp_path / "u.npy", u)
    np.save(tmp_path / "rest.npy", u[12:])
    run("simulate", path, "--control", tmp_path / "u.npy", "-q", "-o", tmp_path / "run.npz")
    run("simulate", path, "--control", tmp_path / "rest.npy", "--init", tmp_path / "run.npz", "--init-row", 12, "-q", "-o", tmp_path / "rest.npz")
    whole, rest = np.load(tmp_path / "run.npz"), np.load(tmp_path / "rest.npz")
    for name in ("qpos", "qvel", "act", "history", "sensordata"):
        np.testing.assert_array_equal(whole[name][12:], rest[name])
    told = run("info", path).stdout
    assert "history           from" in told and f"{whole['history'].shape[1]} numbers" in told and "historyadr" in told

    np.savez(tmp_path / "short.npz", qpos=whole["qpos"][0], history=whole["history"][0, 1:])
    said = run("simulate", path, "--init", tmp_path / "short.npz", "-q", "-o", tmp_path / "no.npz", code=3).stderr
    assert "'history' has shape" in said and "expected" in said

    checked = run("check", path, "--horizon", 20).stdout
    assert "checks hold" in checked
