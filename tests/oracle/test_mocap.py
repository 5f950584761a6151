"""Mocap bodies: compiled fields and motion as MuJoCo's, and their poses as inputs of everything that runs or differentiates."""
import json
import os
import subprocess

import mujoco as mj
import numpy as np
import pytest

import oracle
import inside
from inside import native
import robots

PATH = f"{oracle.HERE}/models/mocap.xml"
HAND = """<mujoco><option timestep="0.005" gravity="0 0 0" integrator="{integrator}"/>
<worldbody>
  <body name="lead" mocap="true" pos="0.1 0 0.3"><site name="lead" pos="0.02 0 0"/></body>
  <geom type="plane" size="1 1 .1"/>
  <body name="hand" pos="0.1 0 0.3"><freejoint/><geom type="box" size=".04 .03 .02" mass="0.3"/>
    <site name="palm" pos="0 0 -.02"/>
    <body pos=".05 0 0"><joint name="finger" axis="0 1 0" damping=".01" stiffness=".2"/>
      <geom type="capsule" fromto="0 0 0 .05 0 0" size=".01" mass=".05"/></body></body>
  <body name="ball" pos="0.1 0 0.049"><freejoint/><geom size=".05" mass=".2"/></body>
</worldbody>
<equality><weld body1="lead" body2="hand" solref="0.05 1"/></equality>
<sensor><framepos objtype="site" objname="palm" reftype="site" refname="lead"/><framequat objtype="body" objname="hand"/></sensor>
<keyframe><key name="up" mpos="0.1 0 0.5" mquat="2 0 0 1"/><key name="own"/></keyframe></mujoco>"""


def path_of(m, steps, seed=0, size=0.1, length=1.0):
    """Poses that wander smoothly from those of the model; quaternions of a length of their own."""
    r = np.random.default_rng(seed)
    bodies = [int(b) for b in np.argsort(m.body_mocapid) if m.body_mocapid[b] >= 0]
    t = np.arange(steps)[:, None, None] * m.opt.timestep
    wave = lambda n: size * np.sin(t * r.uniform(1, 4, (1, m.nmocap, n)) + r.uniform(0, 6, (1, m.nmocap, n)))
    pos, quat = m.body_pos[bodies] + wave(3), m.body_quat[bodies] + 2 * wave(4)
    return pos, length * quat / np.linalg.norm(quat, axis=2, keepdims=True)


def rotated(quat, way, eps):
    """quat exp(eps way), row by row."""
    out = quat.copy().reshape(-1, 4)
    for q, w in zip(out, np.reshape(way, (-1, 3))):
        mj.mju_quatIntegrate(q, w, eps)
    return out.reshape(quat.shape)


def write_hand(folder, integrator="Euler"):
    path = folder / f"hand_{integrator}.xml"
    path.write_text(HAND.format(integrator=integrator))
    return str(path)


@pytest.fixture
def files(tmp_path):
    """A led hand, its path of 40 steps as a file, and both as arrays."""
    path = write_hand(tmp_path)
    m = oracle.load(path)
    pos, quat = path_of(m, 40, length=3)
    np.savez(tmp_path / "path.npz", mocap_pos=pos, mocap_quat=quat)
    return path, str(tmp_path / "path.npz"), pos, quat


# ---- compiled, refused ---------------------------------------------------------------------------------------------------
def test_compiled_fields(tmp_path):
    path = write_hand(tmp_path)
    m, p = oracle.compiled(path), inside.Model(path)
    fields = p.fields()
    for name in ("body_mocapid", "key_mpos", "key_mquat", "body_weldid", "body_invweight0", "dof_invweight0"):
        assert np.allclose(fields[name], np.reshape(getattr(m, name), np.shape(fields[name])), rtol=1e-12, atol=1e-14), name
    assert np.ravel(fields["nmocap"])[0] == m.nmocap == 1


@pytest.mark.parametrize("body, text", [
    ("<body>\n<geom size='1'/><body name='b' mocap='true'/></body>", ":3:17: body 'b': a mocap body must be a child of the world"),
    ("<body name='b'\n mocap='true'><joint/><geom size='1'/></body>", "body 'b': a mocap body cannot have joints")])
def test_what_mujoco_refuses(tmp_path, run, body, text):
    path = tmp_path / "m.xml"
    path.write_text(f"<mujoco>\n<worldbody>{body}</worldbody></mujoco>")
    with pytest.raises(ValueError, match="fixed child of world"):
        mj.MjModel.from_xml_path(str(path))
    assert text in run("info", path, code=3).stderr


@pytest.mark.parametrize("key, text", [("mpos='1 2'", "mpos has 2 numbers"), ("mquat='0 0 0 0'", "quaternion 0 of mquat is zero"),
                                       ("mpos='1 2 3 4 5 6'", "mpos has 6 numbers, the model only 3")])
def test_keyframes_refused(tmp_path, run, key, text):
    path = tmp_path / "m.xml"
    path.write_text(f"<mujoco><worldbody><body mocap='true'/></worldbody><keyframe><key {key}/></keyframe></mujoco>")
    assert text in run("info", path, code=3).stderr


@pytest.mark.parametrize("arrays, text", [
    (dict(mocap_pos=np.zeros((40, 2, 3))), "mocap_pos: shape (40, 2, 3); expected (N, 1, 3)"),
    (dict(mocap_quat=np.zeros((40, 1, 4))), "row 0, mocap body 0: expected a quaternion of length 1e-6 to 1e6"),
    (dict(mocap_pos=np.full((1, 3), np.nan)), "finite"),
    (dict(mocap_pos=np.zeros((40, 1, 3)), meta='{"every": 3}'), "was written with --every 3 and has the inputs of some steps only"),
    (dict(other=np.zeros(3)), "expected some of mocap_pos, mocap_quat, mocap_vel, mocap_pos_before and mocap_quat_before")])
def test_files_refused(files, run, tmp_path, arrays, text):
    np.savez(tmp_path / "bad.npz", **arrays)
    done = run("simulate", files[0], "--mocap", tmp_path / "bad.npz", "-o", tmp_path / "out.npz", code=3)
    assert text in done.stderr and not (tmp_path / "out.npz").exists()
    if "meta" in arrays:  # a task reads the same file
        task = dict(model=str(files[0]), steps=40, mocap=dict(file="bad.npz"))
        (tmp_path / "task.json").write_text(json.dumps(task))
        done = run("simulate", tmp_path / "task.json", "--allow-root", os.path.dirname(files[0]), "-o", tmp_path / "out.npz", code=3)
        assert f"mocap.file: bad.npz: {text}" in done.stderr, done.stderr


def test_steps_refuse_quaternions_without_direction(files):
    p = inside.Model(files[0])
    for bad in (np.zeros((1, 4)), np.full((1, 4), np.nan), np.full((1, 4), 1e200)):
        with pytest.raises(inside.Error, match="mocap"):
            p.step(p.init(), mocap=(None, bad))


# ---- motion --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("integrator", oracle.INTEGRATORS)
def test_motion_agrees(integrator):
    """One step to 1e-10, a hundred to 1e-8, along a path that wanders, with contacts, welds, connects, tendons and sensors."""
    m, p = oracle.load(PATH, {"integrator": integrator}), inside.Model(PATH, {"integrator": integrator})
    d, steps, touching = mj.MjData(m), 100, 0
    pos, quat = path_of(m, steps, 1, 0.03)
    r, x, one, sensors = np.random.default_rng(2), p.init(), 0, 0
    ctrl = r.uniform(-.3, .3, (steps, m.nu))
    for k in range(steps):
        d.ctrl[:], d.mocap_pos[:], d.mocap_quat[:] = ctrl[k], pos[k], quat[k]
        again = p.step(p.state(d.qpos, d.qvel, d.act, d.time), ctrl[k], mocap=(pos[k], quat[k]))[0]
        x, seen = p.step(x, ctrl[k], mocap=(pos[k], quat[k]))
        mj.mj_step(m, d)
        touching += d.ncon > 0
        one = max(one, np.abs(p.parts(again)[0] - d.qpos).max(), (np.abs(p.parts(again)[1] - d.qvel) / (1 + np.abs(d.qvel))).max())
        sensors = max(sensors, (np.abs(seen - d.sensordata) / (1 + np.abs(d.sensordata))).max())
    error = max(np.abs(p.parts(x)[0] - d.qpos).max(), np.abs(p.parts(x)[1] - d.qvel).max())
    print(f"{integrator}: one step {one:.1e}, {steps} steps {error:.1e}, sensors {sensors:.1e}, {touching} steps with contacts")
    assert one < 1e-10 and error < 1e-8 and sensors < 1e-6 and touching > 20


def test_program_takes_a_path(files, run, tmp_path):
    """--mocap FILE: N rows or one; what the file lacks is the model's; keyframes' poses; a trajectory is such a file, too."""
    path, given, pos, quat = files
    m = oracle.load(path)

    def ours(*options, steps=40):
        run("simulate", path, "--steps", steps, "--quiet", "-o", tmp_path / "t.npz", *options)
        return np.load(tmp_path / "t.npz")

    def theirs(pos=None, quat=None, keyframe=None):
        d = mj.MjData(m)
        if keyframe is not None:
            mj.mj_resetDataKeyframe(m, d, keyframe)
        for k in range(40):
            if pos is not None:
                d.mocap_pos[:] = pos[min(k, len(pos) - 1)]
            if quat is not None:
                d.mocap_quat[:] = quat[min(k, len(quat) - 1)]
            mj.mj_step(m, d)
        return d.qpos

    t = ours("--mocap", given)
    assert np.abs(t["qpos"][-1] - theirs(pos, quat)).max() < 1e-9
    assert (t["mocap_pos"] == pos).all() and (t["mocap_quat"] == quat).all()
    run("simulate", path, "--mocap", tmp_path / "t.npz", "--quiet", "-o", tmp_path / "again.npz")
    assert (np.load(tmp_path / "again.npz")["qpos"] == t["qpos"]).all()

    np.savez(tmp_path / "one.npz", mocap_pos=pos[7])
    assert np.abs(ours("--mocap", tmp_path / "one.npz")["qpos"][-1] - theirs(pos[7:8])).max() < 1e-9
    assert np.abs(ours("--keyframe", "up")["qpos"][-1] - theirs(keyframe=0)).max() < 1e-9
    assert np.abs(ours()["qpos"][-1] - theirs()).max() < 1e-9
    assert "mocap_pos" not in ours()


@pytest.mark.parametrize("name", ["gymnasium_robotics/envs/assets/fetch/reach", "gymnasium_robotics/envs/assets/hand/reach"])
def test_published_hands_load(name):
    """Robots that mocap bodies lead: loaded, or refused for another reason."""
    robot = next((r for r in robots.mjcf() if r.name == name), None)
    assert robot, name
    try:
        p = inside.Model(robot.path, allow_root=robot.allow_root)
    except inside.Error as error:
        assert "mocap bod" not in str(error)
        pytest.skip(str(error)[:150])
    m = oracle.compiled(robot.path)
    assert (np.ravel(p.fields()["body_mocapid"]) == m.body_mocapid).all()


# ---- derivatives: the list of what takes poses ----------------------------------------------------------------------------
def richardson(f, sizes=(1e-3, 5e-4, 2.5e-4)):
    table = [(f(e) - f(-e)) / (2 * e) for e in sizes]
    while len(table) > 1:
        order = len(sizes) - len(table) + 1
        table = [(4 ** order * b - a) / (4 ** order - 1) for a, b in zip(table, table[1:])]
    return table[0]


@pytest.mark.parametrize("integrator", oracle.INTEGRATORS)
def test_gradient_by_the_path_of_a_led_hand(tmp_path, integrator):
    """A hand led by a weld: gradient by the path against Richardson differences of own rollouts, 1e-6; pushed forward the same."""
    path = write_hand(tmp_path, integrator)
    m, p, r = oracle.load(path), inside.Model(path), np.random.default_rng(3)
    pos, quat = path_of(m, 30, 4, 0.05, 0.5)
    rollout, x0 = inside.Rollout(p, 30), p.init()
    w, ws = r.standard_normal(p.nt), r.standard_normal(p.nsensordata)
    final = rollout.forward(x0, mocap=(pos, quat))
    g = rollout.vjp(x=w, sensordata=np.tile(ws, (31, 1)), mocap=True)[3]
    dp, dr = r.standard_normal(pos.shape), r.standard_normal(pos.shape)

    def at(e, by_pos, by_rot):
        moved = pos + e * by_pos * dp, rotated(quat, dr, e * by_rot)
        x, total = x0, 0
        for k in range(31):
            row = min(k, 29)
            if k < 30:
                x, s = p.step(x, mocap=(moved[0][row], moved[1][row]))
            else:
                s = p.observe(x, mocap=(moved[0][row], moved[1][row]))
            total += ws @ s
        return w @ p.difference(final, x) + total

    tangent = rollout.jvp(mocap=(dp, dr))
    for by in ((1, 0), (0, 1)):
        ours = by[0] * (g[0] * dp).sum() + by[1] * (g[1] * dr).sum()
        theirs = richardson(lambda e: at(e, *by))
        print(f"{integrator}: {'rotations' if by[1] else 'positions'}: {ours:.12g}, differences {theirs:.12g}")
        assert abs(ours - theirs) < 1e-6 * max(abs(theirs), np.abs(g[by[1]]).max())
    forward = w @ tangent[0][-1] + (np.tile(ws, (31, 1)) * tangent[1]).sum()
    assert abs(forward - (g[0] * dp).sum() - (g[1] * dr).sum()) < 1e-10 * abs(forward)


def test_gradient_has_the_same_bits_whatever_the_memory(tmp_path):
    path = write_hand(tmp_path)
    m, p = oracle.load(path), inside.Model(path)
    pos, quat = path_of(m, 60, 5)
    found = []
    for budget in (0, 20000):
        rollout = inside.Rollout(p, 60, budget)
        rollout.forward(p.init(), mocap=(pos, quat))
        found.append(rollout.vjp(x=np.ones(p.nt), mocap=True)[3])
    assert all((a == b).all() for a, b in zip(*found)) and np.abs(found[0][0]).max() > 0


@pytest.mark.parametrize("kind", ["exact", "event", "smooth"])
def test_modes_take_poses(tmp_path, kind):
    """Forward against reverse mode while the ball of the scene touches the floor."""
    path = write_hand(tmp_path)
    m, p, r = oracle.load(path), inside.Model(path), np.random.default_rng(6)
    pos, quat = path_of(m, 25, 7)
    rollout, w = inside.Rollout(p, 25), r.standard_normal(p.nt)
    rollout.forward(p.init(), mocap=(pos, quat))
    g = rollout.vjp(kind, x=w, mocap=True)[3]
    dp, dr = r.standard_normal(pos.shape), r.standard_normal(pos.shape)
    forward = w @ rollout.jvp(kind, mocap=(dp, dr))[0][-1]
    assert abs(forward - (g[0] * dp).sum() - (g[1] * dr).sum()) < 1e-9 * abs(forward)


@pytest.mark.parametrize("options", [{}, {"integrator": "RK4"}, {"contact": {"method": "cones"}}, {"contact": {"method": "impact"}}])
def test_jacobians_have_columns_of_poses(options):
    p = inside.Model(PATH, {k: v for k, v in options.items() if k != "contact"}, contact=options.get("contact"))
    m, r = oracle.load(PATH), np.random.default_rng(8)
    pos, quat = (a[0] for a in path_of(m, 1, 9, 0.02))
    x = p.init()
    if "contact" in options:
        x[p.slots["qpos"]][[11, 19]] += .1  # impacts begin apart: the link and the ball that lie in the tray
    for _ in range(10):
        x, _ = p.step(x, mocap=(pos, quat))
    _, _, record = p.step_recorded(x, mocap=(pos, quat))
    A, B, C, D = p.jacobian(record, mocap=(pos, quat), by=native.pb_byControl | native.pb_byMocapPos | native.pb_byMocapRot)
    for row in r.choice(p.nt, 4, replace=False):
        bar = p.vjp(record, np.eye(p.nt)[row], mocap=(pos, quat))
        columns = np.concatenate([bar["ctrl"], bar["mocap_pos"].ravel(), bar["mocap_rot"].ravel()])
        assert np.abs(B[row] - columns).max() <= 1e-9 * (1 + np.abs(columns).max())
    bar = p.vjp(record, None, np.eye(p.nsensordata)[2], mocap=(pos, quat))
    assert np.abs(D[2][p.nu:] - np.concatenate([bar["mocap_pos"].ravel(), bar["mocap_rot"].ravel()])).max() < 1e-10
    plain = p.jacobian(record, mocap=(pos, quat))
    assert np.allclose(plain[1], B[:, :p.nu], rtol=0, atol=1e-12 * (1 + np.abs(B).max())) and (plain[0] == A).all()


def test_program_writes_gradients_and_jacobians(files, run, tmp_path):
    path, given, pos, quat = files
    p = inside.Model(path)
    np.savez(tmp_path / "cot.npz", qpos=np.ones(p.nv))
    run("gradient", path, "--mocap", given, "--cotangent", tmp_path / "cot.npz", "--wrt", "mocap_pos,mocap_rot,qpos", "--spot-check", "full",
        "--strict", "--quiet", "-o", tmp_path / "g.npz")
    g = np.load(tmp_path / "g.npz")
    rollout = inside.Rollout(p, 40)
    rollout.forward(p.init(), mocap=(pos, quat))
    ours = rollout.vjp(qpos=np.ones(p.nv), mocap=True)[3]
    assert (g["mocap_pos"] == ours[0]).all() and (g["mocap_rot"] == ours[1]).all() and g["mocap_rot"].shape == (40, 1, 3)
    run("jacobian", path, "--mocap", given, "--wrt", "mocap_pos,mocap_rot", "--quiet", "-o", tmp_path / "J.npz")
    J = np.load(tmp_path / "J.npz")
    assert J["B"].shape == (40, p.nt, 6) and J["D"].shape == (40, p.nsensordata, 6)
    assert json.loads(str(J["meta"]))["columns"] == ["mocap_pos", "mocap_rot"]


def test_model_pose_without_an_input(files, run, tmp_path):
    """NULL: body_pos acts and has the gradient that mocap_pos has; with an input it has none."""
    path, given, pos, quat = files
    p = inside.Model(path)
    np.savez(tmp_path / "cot.npz", qpos=np.ones(p.nv))
    for options, acts in (((), True), (("--mocap", given), False)):
        run("gradient", path, "--steps", 40, "--cotangent", tmp_path / "cot.npz", "--wrt", "mocap_pos,body_pos:lead", *options, "--quiet", "-o",
            tmp_path / "g.npz")
        g = np.load(tmp_path / "g.npz")
        by_model, by_pose = g["param/body_pos:lead"], g["mocap_pos"].sum(0)
        assert np.allclose(np.ravel(by_model), np.ravel(by_pose) if acts else 0, rtol=1e-12, atol=1e-15) and np.abs(by_pose).max() > 1e-3


@pytest.mark.parametrize("shared", [True, False])
def test_batches_take_poses(files, run, tmp_path, shared):
    """Worlds with poses of their own have the gradients of single runs; shared ones their sum."""
    path, given, pos, quat = files
    p, worlds = inside.Model(path), 3
    qpos = np.tile(p.parts(p.init())[0], (worlds, 1))
    qpos[:, 2] += .01 * np.arange(worlds)
    own = {} if shared else dict(mocap_pos=pos + .01 * np.arange(worlds)[:, None, None, None], mocap_quat=np.tile(quat, (worlds, 1, 1, 1)))
    np.savez(tmp_path / "w.npz", qpos=qpos, **own)
    np.savez(tmp_path / "cot.npz", qpos=np.ones((worlds, p.nv)))
    run("gradient", path, "--worlds", tmp_path / "w.npz", *(("--mocap", given) if shared else ()), "--steps", 40, "--cotangent",
        tmp_path / "cot.npz", "--quiet", "-o", tmp_path / "g.npz")
    g, single = np.load(tmp_path / "g.npz"), []
    for w in range(worlds):
        rollout = inside.Rollout(p, 40)
        rollout.forward(p.state(qpos[w], np.zeros(p.nv)), mocap=(pos if shared else own["mocap_pos"][w], quat))
        single.append(rollout.vjp(qpos=np.ones(p.nv), mocap=True)[3])
    for name, k in (("mocap_pos", 0), ("mocap_rot", 1)):
        expected = sum(s[k] for s in single) if shared else np.array([s[k] for s in single])
        assert np.allclose(g[name].reshape(expected.shape), expected, rtol=1e-12, atol=1e-13), name


def test_check_takes_poses(files, run):
    report = json.loads(run("check", files[0], "--mocap", files[1], "--json").stdout)
    names = {t["name"]: t for t in report["checks"]}
    for name in ("dot product, step by mocap poses", "dot product, sensors by mocap poses", "differences, step by mocap poses"):
        assert names[name]["holds"], names[name]


def test_optimize_finds_a_path(files, run, tmp_path):
    """Positions and a rotation of the leader are unknowns of a task: the hand is where it was asked to be."""
    path, _, pos, quat = files
    task = {"model": path, "steps": 40, "mocap": {"mocap_pos": pos[0].ravel().tolist(), "mocap_quat": [2, 0, 0, 1]},
            "variables": [{"mocap_pos": "lead", "knots": 2, "interpolation": "linear"}, {"mocap_rot": "lead", "components": [0, 2]}],
            "loss": [{"body": "hand", "target": [0.15, 0.05, 0.35]},
                     {"sensor": True, "components": [3, 4, 5, 6], "target": [0.95, 0.2, 0, 0.2397915], "weight": 0.1}],
            "optimizer": {"method": "lbfgs", "iterations": 60}}
    (tmp_path / "task.json").write_text(json.dumps(task))
    run("optimize", tmp_path / "task.json", "--quiet", "-o", tmp_path / "r.json")
    result = json.loads((tmp_path / "r.json").read_text())
    assert result["loss"] < 1e-3 * result["start_loss"], result["loss"]
    assert {v["name"] for v in result["variables"]} == {"mocap_pos:lead", "mocap_rot:lead"}

    # the gradient that it went by, against differences of its own losses
    t = np.load(tmp_path / "r.trajectory.npz")
    assert t["mocap_pos"].shape == (40, 1, 3) and np.ptp(t["mocap_pos"][:, 0, 0]) > 1e-3


def test_gradient_of_an_impact_with_a_mocap_body(tmp_path):
    """A ball strikes a tilted plate within a step: pulled back, pushed forward, and differences of the step agree."""
    path = tmp_path / "m.xml"
    path.write_text("<mujoco><option timestep='.01'/><worldbody><body name='plate' mocap='true' pos='0 0 .1' euler='10 5 0'>"
                    "<geom type='box' size='.5 .5 .02' friction='.3'/></body>"
                    "<body pos='.03 .02 .2'><freejoint/><geom size='.05' mass='.2' friction='.3'/></body></worldbody></mujoco>")
    p, m, r = inside.Model(str(path), contact={"method": "impact", "restitution": ".6"}), oracle.load(str(path)), np.random.default_rng(1)
    pos, quat, x, struck = m.body_pos[1:2].copy(), m.body_quat[1:2].copy(), p.init(), 0
    while not struck and p.parts(x)[0][2] > 0:
        before = x
        x, _, record = p.step_recorded(x, mocap=(pos, quat))
        struck = p.report().contacts
    assert struck == 1 and p.parts(x)[1][2] > 0
    w, ways = r.standard_normal(p.nt), [r.standard_normal((1, 3)) for _ in range(2)]
    bar = p.vjp(record, w, mocap=(pos, quat))
    for name, dp, dr in (("mocap_pos", ways[0], 0 * ways[1]), ("mocap_rot", 0 * ways[0], ways[1])):
        at = lambda e: w @ p.difference(x, p.step(before, mocap=(pos + e * dp, rotated(quat, dr, e)))[0])
        ours, theirs = (bar[name] * (dp + dr)).sum(), richardson(at, (1e-5, 5e-6, 2.5e-6))
        print(f"{name}: {ours:.12g}, differences {theirs:.12g}")
        assert abs(ours - theirs) < 1e-6 * abs(theirs)
        forward = w @ p.jvp(record, d_mocap_pos=dp, d_mocap_rot=dr, mocap=(pos, quat))[0]
        assert abs(ours - forward) < 1e-9 * abs(forward)


@pytest.mark.parametrize("contact", [{}, {"method": "cones"}])
def test_events_at_a_mocap_body(tmp_path, contact):
    """A ball falls on a mocap plate: the corrections for the moments of touch agree forward and reverse, and act."""
    path = tmp_path / "m.xml"
    path.write_text("<mujoco><option timestep='.01'/><worldbody><body name='plate' mocap='true' pos='0 0 .1' euler='10 5 0'>"
                    "<geom type='box' size='.5 .5 .02'/></body><body pos='.03 .02 .2'><freejoint/><geom size='.05' mass='.2'/></body>"
                    "</worldbody></mujoco>")
    p, m, r, steps = inside.Model(str(path), contact=contact), oracle.load(str(path)), np.random.default_rng(2), 20
    pos, quat = np.tile(m.body_pos[1:2], (steps, 1, 1)), np.tile(m.body_quat[1:2], (steps, 1, 1))
    rollout, w, found = inside.Rollout(p, steps), r.standard_normal(p.nt), {}
    rollout.forward(p.init(), mocap=(pos, quat))
    dp, dr = r.standard_normal(pos.shape), r.standard_normal(pos.shape)
    for kind in ("exact", "event"):
        _, _, certificate, g = rollout.vjp(kind, x=w, mocap=True)
        forward = w @ rollout.jvp(kind, mocap=(dp, dr))[0][-1]
        found[kind] = (g[0] * dp).sum() + (g[1] * dr).sum()
        assert abs(found[kind] - forward) < 1e-8 * abs(forward), kind
    assert certificate.events > 0 and abs(found["event"] - found["exact"]) > 1e-6 * abs(found["exact"])


@pytest.mark.parametrize("speed", [0, .3, -.4])
def test_events_at_a_mocap_body_that_moves(tmp_path, speed):
    """Where a ball is after a bounce on a plate that rises or sinks, by where it began and by where the plate is: against secants over a
    centimeter, at ten phases of a step."""
    path, h, steps = tmp_path / "m.xml", 1e-3, 350
    path.write_text(f"<mujoco><option timestep='{h}'/><worldbody><body name='plate' mocap='true' pos='0 0 .1'>"
                    "<geom type='box' size='.5 .5 .02'/></body><body pos='.03 .02 .3'><joint type='slide' axis='0 0 1'/>"
                    "<geom size='.05' mass='.2'/></body></worldbody></mujoco>")
    p = inside.Model(str(path), contact={"method": "cones", "restitution": .8})
    pos, quat = np.zeros((steps, 1, 3)), np.tile([[[1., 0, 0, 0]]], (steps, 1, 1))
    pos[:, 0, 2] = .1 + speed * h * np.arange(steps)
    w = np.zeros(p.nt)
    w[0] = 1

    def end(height):
        x = p.init()
        x[p.slots["qpos"]] += height
        rollout = inside.Rollout(p, steps)
        return rollout, rollout.forward(x, mocap=(pos, quat))
    slope = (end(.006)[1][p.slots["qpos"]][0] - end(-.004)[1][p.slots["qpos"]][0]) / .01
    for phase in range(10):
        x0_bar, _, certificate, g = end(phase * 2e-4)[0].vjp("event", x=w, mocap=True)
        assert certificate.events > 0 and abs(x0_bar[0] - slope) < .05 * max(1, abs(slope)), (phase, x0_bar[0], slope)
        # Both together move all
        assert abs(x0_bar[0] + g[0][:, 0, 2].sum() - 1) < 1e-6


def test_optimize_gradient_of_a_path(files, lib, context, tmp_path):
    """The gradient by unknown positions and large rotations along knots, against differences of the task's own losses."""
    task = {"model": files[0], "steps": 20,
            "variables": [{"mocap_pos": "lead", "knots": 3, "interpolation": "linear"},
                          {"mocap_rot": True, "knots": 2, "interpolation": "linear", "start": [.9, -.7, .8, -.5, 1.1, .6]}],
            "loss": [{"body": "hand", "target": [0.15, 0.05, 0.35]}, {"sensor": True, "target": [0] * 7}]}
    (tmp_path / "task.json").write_text(json.dumps(task))
    ptr = inside.native.handle()
    lib.pbTask_Load(context, str(tmp_path / "task.json").encode(), None, ptr)
    n, value = lib.pbTask_Size(ptr), inside.native.double()
    z = inside.native.array(lib.pbTask_Start(ptr), n,).copy()

    def loss(z, gradient=None):
        lib.pbTask_Loss(ptr, z, value, gradient)
        return value.value

    g = np.zeros(n)
    loss(z, g)
    for i in range(n):
        unit = np.eye(n)[i]
        theirs = richardson(lambda e: loss(np.ascontiguousarray(z + e * unit)))
        assert abs(g[i] - theirs) < 1e-6 * np.abs(g).max(), (i, g[i], theirs)
    lib.pbTask_Destroy(ptr)


@pytest.mark.parametrize("moving", [False, True])
def test_deformables_hang_on_mocap_bodies(run, tmp_path, moving):
    """Points glued to a mocap body are where it is, and the gradient by its path is that of differences; with a hand glued, too."""
    hand = "<body name='hand' pos='0 .1 1'><freejoint/><geom size='.02' mass='.1'/></body>" if moving else ""
    (tmp_path / "m.xml").write_text("<mujoco><option timestep='.01'/><worldbody><body name='lead' mocap='true' pos='0 0 1'/>"
                                    f"{hand}</worldbody></mujoco>")
    attach = [dict(body="lead", points=[0])] + ([dict(body="hand", points=[2])] if moving else [])
    rod = dict(name="rod", mesh=dict(points=[[0, 0, 1], [0, .05, 1], [0, .1, 1]], edges=[[0, 1], [1, 2]]), mass=[.1, .1, .1], attach=attach,
               energies=[dict(name="spring", formula="0.5*k*(norm(x0 - x1) - norm(X0 - X1))^2", parameters=dict(k=50))])
    (tmp_path / "d.json").write_text(json.dumps(dict(bodies=[rod])))
    steps, r = 12, np.random.default_rng(1)
    pos = np.array([0, 0, 1]) + .02 * np.sin(np.arange(steps) / 4)[:, None, None] * np.ones((1, 1, 3))
    quat = np.tile([1, .1, 0, 0], (steps, 1, 1))
    n = 9
    np.savez(tmp_path / "c.npz", points=np.arange(n, dtype=float) - 3)

    def final(pos, quat):
        np.savez(tmp_path / "p.npz", mocap_pos=pos, mocap_quat=quat)
        run("simulate", tmp_path / "m.xml", "--deformables", tmp_path / "d.json", "--mocap", tmp_path / "p.npz", "--quiet", "-o", tmp_path / "t.npz")
        return np.load(tmp_path / "t.npz")["points"]

    points = final(pos, quat)
    assert np.abs(points[-1][:3] - pos[-1][0]).max() < 1e-12
    run("gradient", tmp_path / "m.xml", "--deformables", tmp_path / "d.json", "--mocap", tmp_path / "p.npz", "--cotangent", tmp_path / "c.npz",
        "--wrt", "mocap_pos,mocap_rot", "--strict", "--quiet", "-o", tmp_path / "g.npz")
    g = np.load(tmp_path / "g.npz")
    way, w, e = r.standard_normal(pos.shape), np.arange(n) - 3., 1e-5
    theirs = w @ (final(pos + e * way, quat)[-1] - final(pos - e * way, quat)[-1]) / (2 * e)
    assert abs((g["mocap_pos"] * way).sum() - theirs) < 1e-6 * abs(theirs)


@pytest.mark.parametrize("moving", [False, True])
def test_a_mocap_finger_presses_cloth(run, tmp_path, moving):
    """A capsule that a path leads pushes a sheet down, alone and with a ball that lies on it: gradient by the path against differences."""
    ball = "<body name='ball' pos='.06 .05 .0304'><freejoint/><geom name='ball' size='.025' mass='.02'/></body>" if moving else ""
    (tmp_path / "m.xml").write_text("<mujoco><option timestep='.01'/><worldbody><body name='finger' mocap='true' pos='-.02 0 .05'>"
                                    f"<geom name='tip' type='capsule' size='.01' fromto='0 0 0 .03 .01 -.02'/></body>{ball}</worldbody></mujoco>")
    sheet = dict(name="sheet", mesh=dict(grid=dict(corner=[-.15, -.15, 0], u=[.3, 0, 0], v=[0, .3, 0], cells=[6, 6])), mass=.02,
                 pins=[dict(points=dict(box=[[None, None, None], [-.14, None, None]])), dict(points=dict(box=[[.14, None, None], [None, None, None]]))],
                 energies=[dict(name="membrane", formula="0.5*k*(norm(x0 - x1) - norm(X0 - X1))^2", on="edges", parameters=dict(k=40))])
    contact = dict(distance=.004, stiffness=500, friction=.2, geoms=["tip"] + ["ball"] * moving)
    (tmp_path / "d.json").write_text(json.dumps(dict(bodies=[sheet], contact=contact)))
    steps, r = 14, np.random.default_rng(1)
    t = np.arange(steps)[:, None, None]
    pos = np.array([-.02, 0, .05]) + t * [.0004, .0006, -.0025]
    quat = np.concatenate([np.ones_like(t), .01 * t, -.006 * t, .004 * t], 2)
    simulate = ("simulate", tmp_path / "m.xml", "--deformables", tmp_path / "d.json", "--mocap", tmp_path / "p.npz", "--quiet", "-o", tmp_path / "t.npz")

    def final(pos, quat):
        np.savez(tmp_path / "p.npz", mocap_pos=pos, mocap_quat=quat)
        run(*simulate)
        with np.load(tmp_path / "t.npz") as f:
            return f["points"]

    points = final(pos, quat)
    w, way, turn = r.standard_normal(points.shape[1]), r.standard_normal(pos.shape), r.standard_normal(pos.shape)
    assert points[-1].reshape(-1, 3)[:, 2].min() < -.003  # pressed
    np.savez(tmp_path / "c.npz", points=w)
    run("gradient", tmp_path / "m.xml", "--deformables", tmp_path / "d.json", "--mocap", tmp_path / "p.npz", "--cotangent", tmp_path / "c.npz",
        "--wrt", "mocap_pos,mocap_rot", "--strict", "--quiet", "-o", tmp_path / "g.npz")
    with np.load(tmp_path / "g.npz") as g:
        ours = [(g["mocap_pos"] * way).sum(), (g["mocap_rot"] * turn).sum()]
    for k, at in enumerate((lambda e: w @ final(pos + e * way, quat)[-1], lambda e: w @ final(pos, rotated(quat, turn, e))[-1])):
        theirs = richardson(at, (4e-5, 2e-5, 1e-5))
        print(f"{('positions', 'rotations')[k]}: {ours[k]:.12g}, differences {theirs:.12g}")
        assert abs(ours[k] - theirs) < 1e-6 * abs(theirs)


# ---- velocities ---------------------------------------------------------------------------------------------------------------
BAT = """<mujoco><option timestep=".002"/><worldbody><body name="bat" mocap="true" pos="0 0 .1"><geom type="box" size=".5 .5 .02" condim="1"/></body>
<body name="ball" pos=".03 .02 .2"><joint type="slide" axis="0 0 1"/><geom size=".05" mass=".2" condim="1"/></body></worldbody>
<keyframe><key name="up" mpos="0 0 .11" mquat="1 0 0 0"/></keyframe></mujoco>"""
THROWN = {"method": "impact", "restitution": .8, "mocap_motion": "followed"}


def bat_path(steps):
    pos = np.zeros((steps, 1, 3))
    pos[:, 0, 2] = .1 + .02 * np.sin(30 * .002 * np.arange(1, steps + 1))
    return pos


def test_velocities_through_the_program(tmp_path):
    """A path in a file, and the same with its velocities written out, move a ball as a rollout does; their gradients differ by what
    poses owe to velocities, which mocap_vel has."""
    path, steps = tmp_path / "bat.xml", 120
    path.write_text(BAT)
    pos = bat_path(steps)
    before = np.array([[0., 0, .1]])
    vel = np.zeros((steps, 1, 6))
    vel[:, :, :3] = np.diff(np.concatenate([before[None], pos]), axis=0) / .002
    np.savez(tmp_path / "rows.npz", mocap_pos=pos)
    np.savez(tmp_path / "said.npz", mocap_pos=pos, mocap_vel=vel)
    words = [w for n, v in THROWN.items() for w in ("--contact", f"{n}={v}")]
    found = {}
    for name in ("rows", "said"):
        out, grad = tmp_path / f"{name}_out.npz", tmp_path / f"{name}_grad.npz"
        run_program(["simulate", str(path), "--mocap", str(tmp_path / f"{name}.npz"), "-o", str(out), *words])
        np.savez(tmp_path / "bar.npz", qvel=np.ones(1))
        run_program(["gradient", str(path), "--mocap", str(tmp_path / f"{name}.npz"), "--cotangent", str(tmp_path / "bar.npz"), "-o", str(grad), *words])
        found[name] = np.load(out), np.load(grad)
    assert np.allclose(found["rows"][0]["qvel"], found["said"][0]["qvel"], atol=1e-9) and found["rows"][0]["qvel"].max() > 1
    by_rows, said = found["rows"][1]["mocap_pos"], found["said"][1]
    owed = said["mocap_vel"][:, :, :3] / .002
    together = said["mocap_pos"] + owed
    together[:-1] -= owed[1:]
    assert "mocap_vel" not in found["rows"][1] and np.allclose(by_rows, together, atol=1e-9 * abs(by_rows).max())


def run_program(words):
    build = os.environ.get("PULLBACK_BUILD", f"{oracle.HERE}/../../build/release")
    done = subprocess.run([f"{build}/pullback", *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize("mocap", [{}, {"mocap_pos_before": [0, 0, .1002]}, {"mocap_vel": [0, 0, .3, .01, .02, 0]}])
def test_velocities_in_a_task(lib, context, tmp_path, mocap):
    """The path of a task is that of a rollout, before it the model's pose or one that is given; the gradient by that goes
    through the velocities; unknown paths begin at rest."""
    (tmp_path / "bat.xml").write_text(BAT)
    steps = 120
    pos = bat_path(steps)
    task = {"model": "bat.xml", "contact": THROWN, "steps": steps, "mocap": {"mocap_pos": pos[:, 0].tolist(), **mocap},
            "variables": [{"parameter": "body_pos:bat", "start": [0, 0, 0.1]}, {"mocap_rot": "bat", "start": [0.01, 0, 0]}], "loss": [{"body": "ball", "target": [0, 0, 0.3]}]}
    for name, change in (("path", {}), ("knots", {"variables": [{"mocap_pos": "bat", "knots": 4, "interpolation": "linear", "start":
                                                                 [0, 0, .1, 0, 0, .11, 0, 0, .105, 0, 0, .12]}]}),
                         ("far", {"variables": [{"mocap_pos": "bat", "start": [30, 0, 0]}]})):
        if name == "far" and "mocap_pos_before" in mocap:
            continue
        (tmp_path / "task.json").write_text(json.dumps({**task, **change}))
        ptr = inside.native.handle()
        status = lib.pbTask_Load(context, str(tmp_path / "task.json").encode(), None, ptr)
        n, value = lib.pbTask_Size(ptr), inside.native.double()
        z, g = inside.native.array(lib.pbTask_Start(ptr), n,).copy(), np.zeros(n)
        lib.pbTask_Loss(ptr, z, value, g)
        for k in range(n):
            d = np.zeros(n)
            d[k] = 1e-7
            sides = []
            for e in (d, -d):
                lib.pbTask_Loss(ptr, z + e, value, None)
                sides.append(value.value)
            quotient = (sides[0] - sides[1]) / 2e-7
            assert abs(quotient - g[k]) < 1e-4 * (abs(g).max() + 1e-3), (name, k, quotient, g[k])
        lib.pbTask_Destroy(ptr)


def knots(**kind):
    return {**kind, "knots": 3, "interpolation": "linear"}


@pytest.mark.parametrize("mocap, variables", [
    ({"mocap_vel": [0, 0, .3, .01, .02, 0]}, [knots(mocap_vel="bat"), {"mocap_pos": "bat", "components": [2], "knots": 2, "interpolation": "linear"}]),
    ({"mocap_pos_before": [0, 0, .1002]}, [{"mocap_pos_before": "bat"}, {"mocap_rot_before": "bat", "start": [.01, -.02, .003]}]),
    ({}, [{"mocap_pos_before": "bat"}, {"mocap_rot_before": True, "components": [0, 1]}, {"mocap_rot": "bat", "knots": 1, "start": [.01, .004, 0]}])])
def test_velocities_are_unknowns_of_a_task(lib, context, tmp_path, mocap, variables):
    """mocap_vel, mocap_pos_before and mocap_rot_before as unknowns: gradients of both modes, and Jacobians, against differences."""
    (tmp_path / "bat.xml").write_text(BAT.replace('pos=".03 .02 .2"', 'pos=".03 .02 .1703"'))
    steps = 40
    # A ball that is touched in the first steps, by soft contact that follows: there poses before act, too.
    task = {"model": "bat.xml", "contact": {"mocap_motion": "followed"}, "steps": steps, "mocap": {"mocap_pos": bat_path(steps)[:, 0].tolist(), **mocap},
            "variables": variables + [{"state": "qvel", "start": -.5}], "loss": [{"body": "ball", "target": [0, 0, 0.3]}, {"state": "qvel", "target": [.5]}]}
    task["loss"][1] = {"qvel": True, "target": [.5]}
    for more in ([], [{"parameter": "body_pos:ball"}]):  # few unknowns: forward mode; more: reverse
        (tmp_path / "task.json").write_text(json.dumps({**task, "variables": task["variables"] + more}))
        ptr = inside.native.handle()
        lib.pbTask_Load(context, str(tmp_path / "task.json").encode(), None, ptr)
        n, m, value = lib.pbTask_Size(ptr), lib.pbTask_ResidualCount(ptr), inside.native.double()
        z, g, r, J = inside.native.array(lib.pbTask_Start(ptr), n,).copy(), np.zeros(n), np.zeros(m), np.zeros((m, n))
        lib.pbTask_Residuals(ptr, z, r, J)
        lib.pbTask_Loss(ptr, z, value, g)
        assert np.abs(2 * J.T @ r - g).max() < 1e-9 * np.abs(g).max()

        def loss(z):
            lib.pbTask_Loss(ptr, np.ascontiguousarray(z), value, None)
            return value.value
        for i in range(n):
            theirs = richardson(lambda e: loss(z + e * np.eye(n)[i]), (4e-7, 2e-7, 1e-7))
            assert abs(g[i] - theirs) < 2e-5 * np.abs(g).max(), (mocap, i, g[i], theirs)
        assert np.abs(g[:-1 - 3 * len(more)]).max() > 1e-4 * np.abs(g).max(), g
        lib.pbTask_Destroy(ptr)


def test_a_velocity_is_found(run, tmp_path):
    """The trajectory that optimize writes runs to the same end in simulate: velocities found are in it, without poses before."""
    (tmp_path / "bat.xml").write_text(BAT.replace('pos=".03 .02 .2"', 'pos=".03 .02 .167"'))
    np.savez(tmp_path / "truth.npz", mocap_vel=[[0, 0, .4, 0, 0, 0]])
    run("simulate", tmp_path / "bat.xml", "--contact", "mocap_motion=followed", "--mocap", tmp_path / "truth.npz", "--steps", 20, "--quiet", "-o", tmp_path / "truth_t.npz")
    place = .167 + np.load(tmp_path / "truth_t.npz")["qpos"][-1, 0]
    task = {"model": "bat.xml", "contact": {"mocap_motion": "followed"}, "steps": 20, "mocap": {"mocap_vel": [0, 0, 0, 0, 0, 0]},
            "variables": [{"mocap_vel": "bat", "components": [2], "knots": 1, "lower": -.5, "upper": 2}], "loss": [{"body": "ball", "components": [2], "target": [place]}],
            "optimizer": {"method": "lbfgs", "iterations": 40}}
    (tmp_path / "task.json").write_text(json.dumps(task))
    run("optimize", tmp_path / "task.json", "--quiet", "-o", tmp_path / "r.json", code=(0, 1))  # at a kink: where the bat meets the ball
    result = json.loads((tmp_path / "r.json").read_text())
    assert result["loss"] < 1e-4 * result["start_loss"] and result["variables"][0]["name"] == "mocap_vel:bat"
    found = np.load(tmp_path / "r.trajectory.npz")
    assert found["mocap_vel"][0, 0, 2] != 0 and "mocap_pos_before" not in found
    run("simulate", tmp_path / "bat.xml", "--contact", "mocap_motion=followed", "--mocap", tmp_path / "r.trajectory.npz", "--quiet", "-o", tmp_path / "again.npz")
    assert np.abs(np.load(tmp_path / "again.npz")["qpos"] - found["qpos"]).max() < 1e-12


@pytest.mark.parametrize("variable, mocap, says", [
    ({"mocap_vel": "bat"}, {}, "expected mocap_vel in"), ({"mocap_pos_before": "bat"}, {"mocap_vel": [0] * 6}, "the task gives mocap_vel"),
    ({"mocap_rot_before": "bat", "knots": 2}, {}, "knots"), ({"mocap_pos": "bat"}, {"mocap_vel": [0] * 6, "mocap_quat_before": [1, 0, 0, 0]}, "expected one of both")])
def test_motion_that_cannot_be_unknown(run, tmp_path, variable, mocap, says):
    (tmp_path / "bat.xml").write_text(BAT)
    (tmp_path / "task.json").write_text(json.dumps({"model": "bat.xml", "steps": 5, "mocap": mocap, "variables": [variable], "loss": [{"body": "ball"}]}))
    assert says in run("optimize", tmp_path / "task.json", "-o", tmp_path / "r.json", code=3).stderr


def test_one_way_to_say_how_bodies_move(run, tmp_path):
    """mocap_vel beside a pose before, which it would replace, is refused: for one run and for many; a pose before alone is a path."""
    (tmp_path / "bat.xml").write_text(BAT)
    vel, before = np.zeros((5, 1, 6)), np.array([[0, 0, .0999]])
    np.savez(tmp_path / "both.npz", mocap_vel=vel, mocap_pos_before=before)
    said = run("simulate", tmp_path / "bat.xml", "--mocap", tmp_path / "both.npz", "-o", tmp_path / "t.npz", code=3).stderr
    assert "mocap_vel and mocap_pos_before" in said and "expected one of both" in said
    np.savez(tmp_path / "w.npz", mocap_vel=vel[None], mocap_quat_before=np.array([[[1., 0, 0, 0]]]))
    said = run("simulate", tmp_path / "bat.xml", "--worlds", tmp_path / "w.npz", "--steps", 5, "-o", tmp_path / "t.npz", code=3).stderr
    assert "mocap_vel and mocap_quat_before" in said
    np.savez(tmp_path / "one.npz", mocap_pos_before=before)
    run("simulate", tmp_path / "bat.xml", "--mocap", tmp_path / "one.npz", "--steps", 5, "--quiet", "-o", tmp_path / "t.npz")
    assert (np.load(tmp_path / "t.npz")["mocap_pos_before"] == before).all()


@pytest.mark.parametrize("own", ["mocap_vel", "mocap_pos_before"])
def test_worlds_with_velocities_of_their_own(run, tmp_path, own):
    """Each world of --worlds as a run alone with its mocap_vel or its pose before; gradients by velocities, too."""
    (tmp_path / "bat.xml").write_text(BAT.replace('pos=".03 .02 .2"', 'pos=".03 .02 .1695"'))
    steps, worlds, words = 30, 3, ("--contact", "mocap_motion=followed", "--quiet")
    vel = np.zeros((worlds, steps, 1, 6))
    vel[..., 2] = np.array([-.2, .3, .8])[:, None, None]
    values = {"mocap_vel": vel, "mocap_pos_before": np.array([[[0, 0, .1]], [[0, 0, .0995]], [[0, 0, .101]]])}[own]
    np.savez(tmp_path / "w.npz", **{own: values}, qvel=np.full((worlds, 1), -.5))
    np.savez(tmp_path / "qvel.npz", qvel=[-.5])
    np.savez(tmp_path / "c.npz", qvel=np.ones((worlds, 1)))
    np.savez(tmp_path / "c1.npz", qvel=np.ones(1))
    run("simulate", tmp_path / "bat.xml", "--worlds", tmp_path / "w.npz", "--steps", steps, *words, "-o", tmp_path / "all.npz")
    run("gradient", tmp_path / "bat.xml", "--worlds", tmp_path / "w.npz", "--steps", steps, "--cotangent", tmp_path / "c.npz", *words, "-o", tmp_path / "g.npz")
    states, g = np.load(tmp_path / "all.npz"), np.load(tmp_path / "g.npz")
    assert np.ptp(states["qvel"][:, -1]) > 1e-3
    for w in range(worlds):
        np.savez(tmp_path / "one.npz", **{own: values[w]})
        alone = ("--mocap", tmp_path / "one.npz", "--init", tmp_path / "qvel.npz")
        run("simulate", tmp_path / "bat.xml", *alone, "--steps", steps, *words, "-o", tmp_path / "t.npz")
        assert (np.load(tmp_path / "t.npz")["qvel"] == states["qvel"][w]).all()
        if own == "mocap_vel":
            run("gradient", tmp_path / "bat.xml", *alone, "--steps", steps, "--cotangent", tmp_path / "c1.npz", *words, "-o", tmp_path / "one_g.npz")
            assert (np.load(tmp_path / "one_g.npz")["mocap_vel"].ravel() == g["mocap_vel"][w].ravel()).all() and np.abs(g["mocap_vel"][w]).max() > 0
