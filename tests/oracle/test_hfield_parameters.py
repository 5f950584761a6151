"""Heights of fields as parameters (hfield_data:NAME): against differences and models that state them, rays, commands, what is refused."""
import json
import subprocess

import numpy as np
import pytest

import oracle
import inside
from test_mesh_contact import inline

rows = lambda a: " ".join(repr(float(x)) for x in np.ravel(a))
STEPS = (3e-4, 1e-4, 3e-5, 1e-5, 3e-6)
NAME = "hfield_data:hills"
METHODS = {"soft": {}, "cones": {"method": "cones"}, "penalty": {"method": "penalty", "stiffness": 2e4, "damping": 20}, "lcp": {"method": "lcp"},
           "sweeps": {"method": "sweeps"}}
STONE = inline(np.random.default_rng(4).standard_normal((9, 3)) * [.09, .07, .05], name="stone")


def single(x):
    """As files keep them."""
    return x.astype(np.float32).astype(float)


def bumps(r, nrow=6, ncol=7):
    heights = r.uniform(.3, .6, (nrow, ncol))
    heights[0, 0], heights[-1, -1] = 0, 1
    return single(heights)


def scene(r, heights, cone="elliptic", more="", bodies=None):
    """Six shapes come down on a tilted field; heights: row 0 is that of the least y, elevations are written from above."""
    shapes = ['type="sphere" size=".09"', 'type="capsule" size=".05 .1"', 'type="box" size=".08 .12 .05"', 'type="ellipsoid" size=".1 .12 .05"', 'type="cylinder" size=".08 .06"',
              'type="mesh" mesh="stone"']
    place = [(-.45 + .45 * (k % 3), -.3 + .6 * (k // 3)) for k in range(6)]
    bodies = bodies or "".join(f'<body pos="{x} {y} {r.uniform(.33, .36)}" quat="{rows(r.standard_normal(4))}"><freejoint/><geom {s} density="{r.uniform(300, 900)}"/></body>'
                               for (x, y), s in zip(place, shapes))
    return f"""<mujoco><option timestep=".004" cone="{cone}"/><asset>{STONE}<hfield name="hills" nrow="{heights.shape[0]}" ncol="{heights.shape[1]}" size=".8 .7 .35 .1"
elevation="{rows(heights[::-1])}"/></asset><worldbody><geom name="ground" type="hfield" hfield="hills" pos=".02 -.01 .03" euler="2 -3 5"/>{bodies}</worldbody>{more}</mujoco>"""


def settle(model, x, steps, theta=None):
    for _ in range(steps):
        x = model.step(x, theta=theta)[0]
    return x


# ---- gradients ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("method", METHODS)
def test_gradients_are_those_of_differences(tmp_path, method, long_run):
    """By all heights at once, as compiled and changed, all shapes in contact; forward derivatives agree with pullbacks."""
    kept, left, met = 0, [], set()
    for seed in range(4 if long_run else 2):
        r = np.random.default_rng((seed, 3))
        (tmp_path / "m.xml").write_text(scene(r, bumps(r), ("elliptic", "pyramidal")[seed % 2]))
        model = inside.Model(str(tmp_path / "m.xml"), expose=[NAME], contact=METHODS[method])
        theta = model.theta.copy()
        if seed % 2:
            model.param(theta, NAME)[:] += .02 * r.uniform(0, 1, model.param(theta, NAME).shape)
        x = settle(model, model.init(), 20, theta)
        for step in range(3):
            x = settle(model, x, 8, theta)
            w, base = r.standard_normal(model.nt), model.step(x, theta=theta)[0]
            record = model.step_recorded(x, theta=theta)[-1]
            model.gather()
            met |= set(model.field("contact_geom")[:, 1].astype(int)) if len(model.field("contact_dist")) else set()
            way = np.zeros(model.ntheta)
            model.param(way, NAME)[:] = r.standard_normal(model.param(way, NAME).shape)
            bar = model.vjp(record, w, theta=theta)["theta"]
            pushed = model.jvp(record, np.zeros(model.nt), d_theta=way, theta=theta)[0] @ w
            exact = bar @ way
            assert abs(pushed - exact) <= 1e-9 * np.abs(bar * way).sum()
            value, error = oracle.quotient(lambda e: np.array([w @ model.difference(base, model.step(x, theta=theta + e * way)[0])]), STEPS)
            if error[0] > 3e-7 * (abs(exact) + .1):
                left.append((seed, step, f"{error[0] / abs(exact):.0e}"))
                continue
            kept += 1
            assert abs(value[0] - exact) < 1e-6 * (abs(exact) + .1), (seed, step, value, exact)
    print(f"{method}: geoms {met} met, {kept} quotients; left out (they do not settle): {left}")
    assert len(met) == 6 and kept >= 3 and len(left) <= 3


@pytest.mark.parametrize("method, kind", [("soft", "exact"), ("impact", "exact"), ("penalty", "event")])
def test_gradients_of_rollouts(tmp_path, method, kind):
    """A ball and a box come down on the field and bounce: through the instants of their touch where these are differentiated."""
    r, path, steps = np.random.default_rng(12), tmp_path / "m.xml", 40
    bodies = f'<body pos=".12 .1 .37"><freejoint/><geom type="sphere" size=".09"/></body><body pos="-.4 -.2 .39" quat="{rows(r.standard_normal(4))}"><freejoint/><geom type="box" size=".09 .12 .05"/></body>'
    path.write_text(scene(r, bumps(r), bodies=bodies))
    model = inside.Model(str(path), expose=[NAME], contact=METHODS.get(method, {"method": method}))
    theta, way = model.theta.copy(), np.zeros(model.ntheta)
    model.param(theta, "geom_restitution")[:] = .6 * (method == "impact")
    model.param(way, NAME)[:] = r.standard_normal((6, 7))
    run, bar = inside.Rollout(model, steps), r.standard_normal(model.nv)
    x = model.init()
    base = run.forward(x, theta=theta)
    bar_x = np.r_[np.zeros(model.nv), bar]
    exact = run.vjp(kind=kind, qvel=bar)[1] @ way
    assert abs(run.jvp(kind=kind, theta=way)[-1][:2 * model.nv] @ bar_x - exact) < 1e-9 * abs(exact) and abs(exact) > 1e-2
    value, error = oracle.quotient(lambda e: np.array([bar @ (model.parts(run.forward(x, theta=theta + e * way))[1] - model.parts(base)[1])]), STEPS)
    print(method, kind, exact, value, error)
    if kind == "exact":
        assert error[0] < 3e-7 * abs(exact) and abs(value[0] - exact) < 1e-6 * abs(exact)


def test_rollouts_batches_and_tapes(run, tmp_path):
    """The gradient of a rollout is that of its differences, with any budget for the tape; a batch has each world as if alone."""
    r, steps, worlds = np.random.default_rng(8), 30, 3
    path = tmp_path / "m.xml"
    path.write_text(scene(r, bumps(r)))
    model = inside.Model(str(path), expose=[NAME])
    own = np.array([np.clip(model.param(model.theta, NAME) + .01 * r.standard_normal((6, 7)), 0, None) for _ in range(worlds)])
    bar = r.standard_normal((worlds, model.nv))
    np.savez(tmp_path / "w.npz", **{"param/" + NAME: own})
    np.savez(tmp_path / "bar.npz", qvel=bar)
    run("gradient", path, "--expose", NAME, "--worlds", tmp_path / "w.npz", "--steps", steps, "--cotangent", tmp_path / "bar.npz", "--threads", 2, "-o", tmp_path / "g.npz")
    g = np.load(tmp_path / "g.npz")["param/" + NAME]
    assert g.shape == (worlds, 6, 7)
    for k in range(worlds):
        theta, grads = model.theta.copy(), []
        model.param(theta, NAME)[:] = own[k]
        for budget in (0, 20000):
            alone = inside.Rollout(model, steps, budget)
            alone.forward(model.init(), theta=theta)
            grads.append(model.param(alone.vjp(qvel=bar[k])[1], NAME).copy())
        assert np.array_equal(grads[0], grads[1]) and np.array_equal(g[k], grads[0]) and np.abs(g[k]).max() > 1e-3


# ---- values ---------------------------------------------------------------------------------------------------------------
def test_changed_heights_act_as_a_file_that_states_them(tmp_path):
    """With a 0 and a 1 left where they were, so that the file's are not scaled otherwise."""
    r, path = np.random.default_rng(2), tmp_path / "m.xml"
    heights = bumps(r)
    before = r.bit_generator.state
    path.write_text(scene(r, heights))
    model = inside.Model(str(path), expose=[NAME])
    assert np.array_equal(model.param(model.theta, NAME), model.fields()["hfield_data"].reshape(6, 7)) and np.abs(model.param(model.theta, NAME) - heights).max() < 1e-15
    plain = inside.Model(str(path))
    assert NAME not in plain.params and model.ntheta == plain.ntheta + 42
    changed, theta = heights.copy(), model.theta.copy()
    changed[1:-1, 1:-1] = single(np.clip(changed[1:-1, 1:-1] + .1 * r.standard_normal((4, 5)), .01, .99))
    model.param(theta, NAME)[:] = changed
    r.bit_generator.state = before
    path.write_text(scene(r, changed))
    stated = inside.Model(str(path))
    x, y, z, most = model.init(), stated.init(), model.init(), 0
    for _ in range(150):
        x, y, z = model.step(x, theta=theta)[0], stated.step(y)[0], plain.step(z)[0]
        most = max(most, stated.report().contacts)
    assert most >= 6
    assert np.abs(model.parts(x)[0] - stated.parts(y)[0]).max() < 1e-9 and np.abs(model.parts(x)[0] - plain.parts(z)[0]).max() > 1e-3


RAYS = "".join(f'<site name="s{k}" pos="{-.5 + .3 * (k % 4)} {-.4 + .35 * (k // 4)} {1.6 + .1 * k}" zaxis="{.1 * (k % 3)} {.07 * k - .2} -1"/>' for k in range(12))
LOOK = "<sensor>" + "".join(f'<rangefinder site="s{k}" data="dist dir origin point normal depth"/>' for k in range(12)) + "</sensor>"
PROBES = f'<body><joint type="slide" axis="0 0 1"/><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>{RAYS}</body>'


def test_heights_above_one_act(tmp_path):
    """Four times the heights are those of a field that is four times as high: contacts and rays reach what rises above the compiled field."""
    r, path = np.random.default_rng(6), tmp_path / "m.xml"
    ball = '<body pos=".2 .15 1"><freejoint/><geom type="sphere" size=".09"/></body>' + PROBES
    path.write_text(scene(r, bumps(r), more=LOOK, bodies=ball))
    model = inside.Model(str(path), expose=[NAME])
    path.write_text(path.read_text().replace('size=".8 .7 .35 .1"', 'size=".8 .7 1.4 .1"'))
    high, theta = inside.Model(str(path)), model.theta.copy()
    model.param(theta, NAME)[:] *= 4
    x, y, met = model.init(), high.init(), 0
    for _ in range(100):
        (x, seen), (y, expected) = model.step(x, theta=theta), high.step(y)
        assert np.abs(seen - expected).max() < 1e-9
        met += high.report().contacts > 0
    assert met > 20 and np.abs(x - y).max() < 1e-9


@pytest.mark.parametrize("flat", [False, True])
def test_rays_have_gradients_by_heights(tmp_path, flat):
    """Level ground at height 0 counts as surface: it can rise."""
    r, path = np.random.default_rng(9), tmp_path / "m.xml"
    path.write_text(scene(r, np.zeros((6, 7)) if flat else bumps(r), more=LOOK, bodies=PROBES))
    model = inside.Model(str(path), expose=[NAME])
    x, theta, found = model.init(), model.theta, 0
    record, bar = model.step_recorded(x)[-1], r.standard_normal((12, 14))
    way = np.zeros(model.ntheta)
    model.param(way, NAME)[:] = r.uniform(.1, 1, (6, 7)) * (1 if flat else r.choice([-1, 1], (6, 7)))
    if flat:  # upward alone
        at = lambda e: model.step(x, theta=theta + e * way)[1].reshape(12, 14)
        value, error = (4 * at(1e-5) - 3 * at(0) - at(2e-5)) / 2e-5, np.full((12, 14), 1e-9)
    else:
        value, error = oracle.quotient(lambda e: model.step(x, theta=theta + e * way)[1].reshape(12, 14), STEPS)
    for k in range(12):
        if np.abs(error[k]).max() > 2e-7:
            continue
        weights = np.zeros((12, 14))
        weights[k] = bar[k]
        exact = model.vjp(record, sensordata=weights.ravel())["theta"] @ way
        assert abs(exact - (weights * value).sum()) < 1e-6 * (1 + abs(exact)), k
        found += abs(exact) > 1e-3
    assert found >= 8
    pulled = model.vjp(record, np.zeros(model.nt), sensordata=bar.ravel())["theta"] @ way
    pushed = model.jvp(record, np.zeros(model.nt), d_theta=way)[1] @ bar.ravel()
    assert abs(pulled - pushed) < 1e-9 * (abs(pulled) + 1)


# ---- commands -------------------------------------------------------------------------------------------------------------
def test_commands_take_heights(run, tmp_path):
    r, model = np.random.default_rng(1), tmp_path / "m.xml"
    ball = '<body name="b" pos=".12 .1 .42"><freejoint/><geom type="sphere" size=".09"/></body>'
    model.write_text(scene(r, bumps(r), bodies=ball))
    assert NAME + " " in run("info", model, "--expose", NAME).stdout
    assert "'none'" in run("info", model, "--expose", "mesh_vert:none", "--expose", NAME, code=2).stderr  # each of them counts
    np.savez(tmp_path / "c.npz", qpos=[1, .5, 1, 0, 0, 0])
    for mode in ("exact", "event", "smooth"):
        run("gradient", model, "--expose", NAME, "--steps", 60, "--cotangent", tmp_path / "c.npz", "--wrt", NAME, "--mode", mode, "-o", tmp_path / "g.npz")
        g = np.load(tmp_path / "g.npz")["param/" + NAME]
        assert g.shape == (6, 7) and np.abs(g).max() > 1e-3 and (g != 0).sum() < 20
    run("check", model, "--expose", NAME, "--horizon", 20)
    assert "expected zero or a positive number" in run("simulate", model, "--expose", NAME, "--steps", 3, "-o", tmp_path / "s.npz", "--param", NAME + ":2:3=-1", code=3).stderr
    run("simulate", model, "--expose", NAME, "--steps", 3, "-o", tmp_path / "s.npz", "--param", NAME + ":2:3=1.7")
    # Where the ball comes to after its fall, by the heights beneath it.
    task = {"model": "m.xml", "expose": [NAME], "steps": 60, "variables": [{"parameter": NAME, "lower": 0, "upper": 1}],
            "loss": [{"body": "b", "target": [.1, .12, .45]}], "optimizer": {"method": "lbfgs", "iterations": 20}}
    (tmp_path / "t.json").write_text(json.dumps(task))
    done = subprocess.run([run.program, "optimize", str(tmp_path / "t.json"), "-o", str(tmp_path / "r.json")], capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    result = json.loads((tmp_path / "r.json").read_text())
    assert result["loss"] < .5 * result["start_loss"], result


@pytest.mark.parametrize("name, text", [("hfield_data:hill", "did you mean 'hills'"), ("hfield_data", "expected mesh_vert:NAME or hfield_data:NAME"),
                                        (NAME + "," + NAME, "exposed already"), ("hfield_data:stone", "no height field 'stone'"), ("mesh_vert:hills", "no mesh 'hills'")])
def test_what_cannot_be_exposed(run, tmp_path, name, text):
    r = np.random.default_rng(1)
    (tmp_path / "m.xml").write_text(scene(r, bumps(r)))
    assert text in run("info", tmp_path / "m.xml", "--expose", name, code=2).stderr
