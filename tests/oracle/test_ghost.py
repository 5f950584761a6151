"""Ghosts: a recording drawn beside a motion, on the page of `pullback view` and on that of a fit, read back in a browser without a screen."""
import json
import re

import mujoco as mj
import numpy as np
import pytest

from browser import Browser, png
from test_view import page_data

MODEL = """<mujoco model="arm"><option timestep="0.004"/><worldbody><geom name="floor" type="plane" size="0 0 1"/>
  <body name="held" mocap="true" pos="1 0 0.5"><geom size="0.03"/></body>
  <body name="base" pos="0 0 1"><freejoint name="root"/><geom name="trunk" type="box" size="0.2 0.1 0.1"/>
    <body name="arm" pos="0.2 0 0"><joint name="shoulder" type="ball"/><geom name="upper" type="capsule" fromto="0 0 0 0.3 0 0" size="0.03"/>
      <body name="hand" pos="0.3 0 0"><joint name="elbow" axis="0 1 0"/><joint name="reach" type="slide" axis="1 0 0"/>
      <geom name="lower" type="capsule" fromto="0 0 0 0.2 0 0" size="0.02"/>
        <site name="tip" pos="0.2 0 0"/></body></body></body>
  <body name="far" pos="-1 0 0.4"><joint name="alone"/><geom name="flag" type="box" size="0.1 0.02 0.1"/></body></worldbody></mujoco>"""
PENDULUM = """<mujoco model="pendulum"><option timestep="0.005"/><worldbody><body name="rod"><joint name="hinge" axis="0 1 0" damping="0.02"/>
  <geom name="rod" type="capsule" fromto="0 0 0 0 0 -0.4" size="0.02" density="800"/></body></worldbody></mujoco>"""
# Times of no frame, gaps, and a base and an elbow that nobody recorded.
TIMES = [0.1, 0.1333, 0.2, 0.2171, 0.6]
REACH = [0, 0.02, None, 0.05, -0.1]
TURNS = [(1, 0, 0, 0), None, (0.6, 0, 0.8, 0), (-1.2, 0.1, -1.6, 0.5), (0.5, 0.5, 0.5, -0.5)]


@pytest.fixture(scope="module")
def browser():
    b = Browser(640, 420)
    yield b
    b.close()


@pytest.fixture(scope="module")
def folder(run, tmp_path_factory):
    to = tmp_path_factory.mktemp("ghost")
    (to / "arm.xml").write_text(MODEL)
    rng = np.random.default_rng(0)
    start = {"qvel": rng.standard_normal((1, 12)) * 0.5, "qpos": np.array([[0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 0.1, 0, 0.3]])}
    np.savez(to / "start.npz", **start)
    run("simulate", to / "arm.xml", "--init", to / "start.npz", "--steps", 200, "-q", "-o", to / "run.npz")
    said = lambda x: "" if x is None else repr(x)
    (to / "log.csv").write_text("reach,shoulder.qw,shoulder.qx,shoulder.qy,shoulder.qz,t\n" + "".join(
        ",".join(map(said, (r, *(q or 4 * [None]), t))) + "\n" for r, q, t in zip(REACH, TURNS, TIMES)))
    run("view", to / "arm.xml", to / "run.npz", "--ghost", to / "log.csv", "-o", to / "run.html")
    return to


def between(times, values, at):
    """On the line, of quaternions on the arc, between the samples around a time; beyond them as the nearest one is."""
    there = [(t, np.atleast_1d(np.array(v, float))) for t, v in zip(times, values) if v is not None]
    k = np.searchsorted([t for t, _ in there], at, side="right")
    (t0, a), (t1, b) = there[max(k - 1, 0)], there[min(k, len(there) - 1)]
    share = (at - t0) / (t1 - t0) if 0 < k < len(there) else 0
    if a.size == 1:
        return (1 - share) * a + share * b
    a, b = a / np.linalg.norm(a), b / np.linalg.norm(b)
    b = b if a @ b > 0 else -b
    angle = np.arccos(min(1, a @ b))
    return a if angle < 1e-9 else (np.sin((1 - share) * angle) * a + np.sin(share * angle) * b) / np.sin(angle)


def stands(browser, name, m, qpos, tolerance=2e-6):
    """Whether the ghost of a body is where these positions have it."""
    d = mj.MjData(m)
    d.qpos = qpos
    mj.mj_kinematics(m, d)
    body = m.body(name).id
    found = np.array(browser.run(f"pullback.ghost({body})"))
    quat = found[3:] * np.sign(found[3:] @ d.xquat[body])
    assert np.abs(found[:3] - d.xpos[body]).max() < tolerance and np.abs(quat - d.xquat[body]).max() < tolerance, (name, found, d.xpos[body], d.xquat[body])


def opened(browser, path):
    browser.open(path)
    assert browser.errors() == [] and browser.requests() == []
    return page_data(path)


def test_it_stands_where_it_was_recorded(browser, folder):
    data, moved, m = opened(browser, folder / "run.html"), np.load(folder / "run.npz"), mj.MjModel.from_xml_string(MODEL)
    assert browser.run("document.getElementById('ghostname').textContent") == "log.csv"
    for frame in (0, 10, 14, 17, 18, 40, len(data["time"]) - 1):
        browser.run(f"pullback.go({frame})")
        time = data["time"][frame]
        qpos = moved["qpos"][np.argmin(np.abs(moved["time"] - time))].copy()
        qpos[7:11], qpos[12] = between(TIMES, TURNS, time), between(TIMES, REACH, time)[0]
        for name in ("arm", "hand"):
            stands(browser, name, m, qpos)
    # neither what has no sample, nor what stands still
    assert browser.run("['held', 'base', 'far'].map((n) => pullback.ghost(pullback.data.bodies.indexOf(n)))") == 3 * [None]


def test_a_box_and_a_key_hide_it(browser, folder):
    opened(browser, folder / "run.html")
    of = {g["name"]: g["id"] for g in page_data(folder / "run.html")["geoms"]}
    assert browser.run("pullback.ghosts()") == [of["upper"], of["lower"]]
    shown = browser.run("pullback.shown()")
    drawn = browser.run("pullback.drawn()")
    def picture():
        browser.run("document.getElementById('panel').hidden = true, pullback.go(20), "
                    "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        return png(browser.shot(folder / "shot.png")).astype(int)

    there = picture()
    browser.run("document.getElementById('ghost').click()")
    assert browser.run("pullback.ghosts()") == []
    gone = picture()
    changed = np.abs(there - gone).max(axis=2) > 20
    redder = (there[..., 0] - there[..., 2] > gone[..., 0] - gone[..., 2] + 20)
    assert changed.sum() > 200 and redder[changed].mean() > 0.8, (changed.sum(), redder[changed].mean())
    browser.run("document.getElementById('panel').hidden = false")
    browser.key("g")
    assert browser.run("document.getElementById('ghost').checked") and len(browser.run("pullback.ghosts()")) == 2
    assert browser.run("pullback.shown()") == shown and browser.run("pullback.drawn()") == drawn  # the motion is as it was


def test_a_page_without_a_recording_has_none(browser, folder, run):
    run("view", folder / "arm.xml", folder / "run.npz", "-o", folder / "plain.html")
    assert "ghost" not in opened(browser, folder / "plain.html")
    assert browser.run("document.getElementById('haunted').hidden") and browser.run("pullback.ghosts()") == [] and browser.run("pullback.ghost(2)") is None


def test_a_trajectory_by_another_clock(browser, folder, run):
    """Another motion as the ghost: all that moves, at its own times."""
    moved, m = np.load(folder / "run.npz"), mj.MjModel.from_xml_string(MODEL)
    other = moved["qpos"][:100:2] + 0.1
    np.savez(folder / "other.npz", time=50 + moved["time"][:100:2], qpos=other)
    run("view", folder / "arm.xml", folder / "run.npz", "--ghost", folder / "other.npz", "--ghost-start", "49.9", "-o", folder / "late.html")
    data = opened(browser, folder / "late.html")
    assert data["ghost"]["joints"] == [0, 1, 2, 3, 4] and browser.run("pullback.ghosts().length") == 4
    for frame, row in ((0, 0), (len(data["time"]) - 1, 49)):
        browser.run(f"pullback.go({frame})")
        for name in ("base", "hand", "far"):
            stands(browser, name, m, other[row])


def test_the_first_look_shows_both(browser, folder, run):
    """A motion that stands nearly still, and a ghost that swings: its end is in the picture at every time."""
    (folder / "pendulum.xml").write_text(PENDULUM)
    run("simulate", folder / "pendulum.xml", "--steps", 100, "-q", "-o", folder / "rest.npz")
    (folder / "swing.csv").write_text("t,hinge\n" + "".join(f"{0.005 * k},{k * 0.0314159265}\n" for k in range(101)))
    run("view", folder / "pendulum.xml", folder / "rest.npz", "--ghost", folder / "swing.csv", "-o", folder / "swing.html")
    opened(browser, folder / "swing.html")
    for frame in range(0, 60, 10):
        at = browser.run(f"(pullback.go({frame}), (() => {{ const p = pullback.ghost(1), turn = 2 * Math.atan2(p[5], p[3]);"
                         "const end = new THREE.Vector3(-0.4 * Math.sin(turn), 0, -0.4 * Math.cos(turn)); pullback.camera.updateMatrixWorld(); "
                         "return end.project(pullback.camera).toArray(); })())")
        assert abs(at[0]) < 1 and abs(at[1]) < 1, (frame, at)


@pytest.mark.parametrize("ghost,more,said", [
    ("time,knee,hip\n0,1,2\n1,2,3\n", [], r"log\.csv: no column is a position, velocity or activation of this model.*its columns are time, knee, hip"),
    ("time,root.vx [m/s]\n0,1\n1,2\n", [], r"log\.csv: holds no sample of a position of this model"),
    ("time,reach\n0,\n1,nan\n", [], r"log\.csv: holds no sample of a position of this model"),
    ("reach\n0\n1\n", [], r"log\.csv: has no column of times"),
    ("time,reach\n0,1\n2,1\n1,1\n", [], r"log\.csv:4: column 1 'time'"),
    ("time,reach [deg]\n0,1\n2,1\n", [], r"log\.csv:1: column 2 'reach': units do not fit"),
    (dict(time=[0., 1], qpos=np.zeros((2, 3))), [], r"log\.npz: 'qpos' .*expected \(N, 14\) for this model"),
    (dict(time=[0., 1], qvel=np.zeros((2, 3))), [], r"log\.npz: holds no 'qpos'"),
    (dict(qpos=np.zeros((2, 14))), [], r"log\.npz: holds no 'time' of its 2 rows"),
    (dict(time=[0., 2, 1], qpos=np.zeros((3, 14))), [], r"log\.npz: 'time' goes backwards: 1 s in row 2, 2 s before it"),
    (dict(time=[0., np.nan], qpos=np.zeros((2, 14))), [], r"log\.npz: row 1 of 'time' is no number"),
    (dict(time=[0., 1], qpos=np.full((2, 14), np.inf)), [], r"log\.npz: row 0 of 'qpos' is not finite"),
    ("time,reach\n0,1\n", ["--ghost-start", "soon"], r"--ghost-start: expected seconds, found 'soon'"),
])
def test_what_is_no_ghost(folder, run, tmp_path, ghost, more, said):
    log = tmp_path / ("log.csv" if isinstance(ghost, str) else "log.npz")
    log.write_text(ghost) if isinstance(ghost, str) else np.savez(log, **ghost)
    done = run("view", folder / "arm.xml", folder / "run.npz", "--ghost", log, *more, "-o", tmp_path / "page.html", code=(2, 3))
    assert re.search(said, done.stderr), done.stderr
    assert not (tmp_path / "page.html").exists()


def test_where_no_ghost_can_be(folder, run, tmp_path):
    page, motion, log = tmp_path / "page.html", [folder / "arm.xml", folder / "run.npz"], folder / "log.csv"
    for arguments, said in (([folder / "arm.xml", "--ghost", log, "-o", page], "--ghost: stands beside a trajectory"),
                            ([*motion, "--ghost", log, "--glb", tmp_path / "m.glb"], "--ghost: is on a page"),
                            ([*motion, "--ghost-start", "1", "-o", page], "--ghost-start: there is no --ghost"),
                            ([*motion, "--ghost", tmp_path / "none.csv", "-o", page], "none.csv")):
        assert said in run("view", *arguments, code=(2, 5)).stderr
        assert not page.exists()


# ---- the page of a fit ------------------------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def fit(run, tmp_path_factory):
    """A pendulum whose encoder is late, counts twice and is off; the second of two trajectories has positions."""
    to = tmp_path_factory.mktemp("fit")
    (to / "pendulum.xml").write_text(PENDULUM)
    (to / "start.json").write_text(json.dumps({"model": "pendulum.xml", "steps": 1, "loss": [{"qvel": "hinge"}],
                                                 "variables": [{"parameter": "dof_damping:hinge"}]}))
    np.savez(to / "start.npz", qpos=[[1.2]], qvel=[[0.]])
    run("simulate", to / "pendulum.xml", "--param", "dof_damping:hinge=0.05", "--init", to / "start.npz", "--steps", 300, "-q", "-o", to / "true.npz")
    true = np.load(to / "true.npz")
    times = np.arange(3, 290, 7) * 0.005
    seen = 2 * np.interp(times - 0.03, true["time"], true["qpos"][:, 0]) + 0.25
    rows = (f"{7 + t:.9f},{a:.17g}\n" if k % 5 else f"{7 + t:.9f},\n" for k, (t, a) in enumerate(zip(times, seen)))
    (to / "log.csv").write_text("stamp [s],angle [rad]\n" + "".join(rows))
    term = {"qpos": "hinge", "gain": 2, "bias": 0.25, "delay": 0.03, "target": {"file": "log.csv", "time": "stamp", "start": 7, "columns": ["angle"]}}
    begin = {"init": {"qpos": [1.2]}, "steps": 300}
    task = {"model": "pendulum.xml", "variables": [{"name": "damping", "parameter": "dof_damping:hinge", "start": 0.01}],
            "trajectories": [{**begin, "steps": 50, "loss": [{"qvel": "hinge", "target": {"file": "true.npz", "array": "qvel"},
                                                              "at": {"every": 0.05}}]}, {**begin, "loss": [term]}]}
    (to / "fit.json").write_text(json.dumps(task))
    run("optimize", to / "fit.json", "-q", "-o", to / "found.json", "--page", to / "fit.html")
    return to, times, (seen - 0.25) / 2


def framed(browser, page, width=1100, dark=False):
    browser.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
    browser.open(page)
    browser.run("new Promise(done => { const inside = () => document.querySelector('iframe'), "
                "wait = () => inside() && inside().contentWindow.pullback ? done() : setTimeout(wait, 50); wait(); })")
    assert browser.errors() == [] and browser.requests() == []
    assert browser.run("document.documentElement.scrollWidth") == width


INSIDE = "document.querySelector('iframe').contentWindow"


def test_the_page_of_a_fit_plays_it(browser, fit):
    folder, times, angle = fit
    framed(browser, folder / "fit.html")
    card = browser.run("document.querySelector('.card').innerText")
    assert "beside the recording, trajectory 1" in card and "of 2, counted from 0" in card and browser.run("document.querySelector('.card iframe') !== null")

    # delay, gain and bias are taken out: the ghost is where the pendulum was
    seen = np.arange(len(times)) % 5 != 0
    data = browser.run(f"({{time: {INSIDE}.pullback.data.time, name: {INSIDE}.pullback.data.ghost.name}})")
    assert data["name"] == "the recording"
    for frame in (0, 40, 90, len(data["time"]) - 1):
        where = browser.run(f"({INSIDE}.pullback.go({frame}), {INSIDE}.pullback.ghost(1))")
        expected = np.interp(data["time"][frame], times[seen] - 0.03, angle[seen])
        assert abs(2 * np.arctan2(where[5], where[3]) - expected) < 1e-6, frame
    # and the fit is beside it
    gap = browser.run(f"({INSIDE}.pullback.go(60), [{INSIDE}.pullback.pose(1)[5], {INSIDE}.pullback.ghost(1)[5]])")
    assert abs(gap[0] - gap[1]) < 0.02


@pytest.mark.parametrize("dark", (False, True))
@pytest.mark.parametrize("width", (390, 1440))
def test_it_fits_a_phone_and_a_wide_screen(browser, fit, width, dark):
    framed(browser, fit[0] / "fit.html", width, dark)
    box = browser.run(f"(() => {{ const b = {INSIDE}.document.getElementById('haunted').getBoundingClientRect(); "
                      f"return [b.left, b.right, {INSIDE}.innerWidth]; }})()")
    assert 0 <= box[0] < box[1] <= box[2]
    assert browser.run(f"{INSIDE}.document.documentElement.scrollWidth <= {INSIDE}.innerWidth && "
                       f"{INSIDE}.document.getElementById('bar').scrollWidth <= {INSIDE}.innerWidth")
    browser.run(f"{INSIDE}.document.getElementById('ghost').click()")
    assert browser.run(f"{INSIDE}.pullback.ghosts()") == []


def test_without_webgl_it_says_so(browser, fit, tmp_path):
    page = (fit[0] / "fit.html").read_text().replace(
        "<head>", "<head><script>const make = HTMLIFrameElement.prototype, at = Object.getOwnPropertyDescriptor(make, 'srcdoc');"
        "Object.defineProperty(make, 'srcdoc', {set(text) { at.set.call(this, text.replace('<head>', '<head><scr' + "
        "'ipt>HTMLCanvasElement.prototype.getContext = () => null;</scr' + 'ipt>')); }});</script>", 1)
    (tmp_path / "page.html").write_text(page)
    browser.open(tmp_path / "page.html")
    said = browser.run("new Promise(done => { const wait = () => { const f = document.querySelector('iframe'), "
                       "m = f && f.contentDocument.getElementById('message'); m && m.textContent.includes('WebGL') "
                       "? done(m.textContent) : setTimeout(wait, 50); }; wait(); })")
    assert "This browser offers no WebGL" in said and "Loss by iteration" in browser.run("document.body.innerHTML")


def test_a_fit_of_no_positions_has_no_picture(browser, fit, run):
    folder = fit[0]
    task = json.loads((folder / "fit.json").read_text())
    (folder / "rates.json").write_text(json.dumps({**task, "trajectories": task["trajectories"][:1]}))
    run("optimize", folder / "rates.json", "-q", "-o", folder / "rates.result.json", "--page", folder / "rates.html")
    browser.open(folder / "rates.html")
    assert browser.run("document.querySelector('iframe')") is None and (folder / "rates.html").stat().st_size < 200_000
