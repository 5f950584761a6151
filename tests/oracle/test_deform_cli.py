"""Deformables on the command line: motions against a solver of the same equations in NumPy, gradients against differences, files."""
import json
import xml.etree.ElementTree as xml

import numpy as np
import pytest

H, GRAVITY = 0.02, np.array([0, 0, -9.81])
STIFFNESS = 40.0
# Two triangles and a tail: five springs, point 0 held.
POINTS = np.array([[0, 0, 1], [0.3, 0, 1], [0, 0.3, 1], [0.3, 0.3, 1.1], [0.6, 0.3, 1]], float)
EDGES = np.array([[0, 1], [0, 2], [1, 2], [1, 3], [2, 3], [3, 4]])
MASS = np.array([0.1, 0.2, 0.1, 0.3, 0.1])


def world(**changes):
    body = dict(name="net", mesh=dict(points=POINTS.tolist(), edges=EDGES.tolist()), mass=MASS.tolist(), pins=[dict(points=0)],
                sets=dict(tail=4), velocity=[0.5, 0, 0.2],
                energies=[dict(name="thread", formula="0.5*k*(norm(x0 - x1) - norm(X0 - X1))^2", parameters=dict(k=dict(value=STIFFNESS, lower=0, unit="N/m"))),
                          dict(energy="load", name="wind", on="tail", parameters=dict(force=[0, 0.1, 0]), controls=["force"])])
    return dict(options=dict(timestep=H), deformables=dict(bodies=[body]), **changes)


@pytest.fixture
def net(tmp_path):
    path = tmp_path / "net.json"
    path.write_text(json.dumps(world()))
    return path


def force(x, k):
    """Of springs and weight, and the springs' stiffness matrix."""
    f, K = MASS[:, None] * GRAVITY, np.zeros((15, 15))
    f = f.copy()
    for a, b in EDGES:
        d, rest = x[a] - x[b], np.linalg.norm(POINTS[a] - POINTS[b])
        size = np.linalg.norm(d)
        n = d / size
        f[a] -= k * (size - rest) * n
        f[b] += k * (size - rest) * n
        block = k * (np.outer(n, n) + (1 - rest / size) * (np.eye(3) - np.outer(n, n)))
        for i, j, s in ((a, a, 1), (b, b, 1), (a, b, -1), (b, a, -1)):
            K[3 * i:3 * i + 3, 3 * j:3 * j + 3] += s * block
    return f, K


def solve(wind, k=STIFFNESS):
    """Implicit Euler by Newton's method: M (x - y - h v) = h^2 f(x)."""
    x, v = POINTS.copy(), np.tile([0.5, 0, 0.2], (5, 1))
    v[0] = 0
    rows = [x.copy()]
    for u in wind:
        y, z = x.copy(), x + H * v
        for _ in range(30):
            f, K = force(x, k)
            f[4] += u
            r = MASS[:, None] * (x - z) - H**2 * f
            J = np.diag(np.repeat(MASS, 3)) + H**2 * K
            x = x - np.concatenate([np.zeros(3), np.linalg.solve(J[3:, 3:], r.ravel()[3:])]).reshape(5, 3)
        v = (x - y) / H
        rows.append(x.copy())
    return np.array(rows)


def test_motion_as_numpy_solves_it(run, tmp_path, net):
    wind = np.random.default_rng(1).normal(size=(25, 3))
    np.save(tmp_path / "u.npy", wind)
    run("simulate", net, "--control", tmp_path / "u.npy", "-o", tmp_path / "a.npz")
    a = np.load(tmp_path / "a.npz")
    assert a["points"].shape == (26, 15) and a["point_velocity"].shape == (26, 15) and a["control"].shape == (25, 3)
    assert abs(a["points"].reshape(26, 5, 3) - solve(wind)).max() < 1e-9
    run("simulate", net, "--steps", 25, "-o", tmp_path / "b.npz")  # controls start as the file says
    b = np.load(tmp_path / "b.npz")
    assert abs(b["points"].reshape(26, 5, 3) - solve(np.tile([0, 0.1, 0], (25, 1)))).max() < 1e-9


def sheet(tmp_path, text, name="sheet.obj", **more):
    """A task of a cloth from a file."""
    (tmp_path / name).write_text(text)
    cloth = dict(energy="membrane_stvk", parameters=dict(young=1e5, poisson=.3, thickness=1e-3, density=200))
    bodies = [dict(name="cloth", mesh=name, energies=[cloth], **more)]
    task = dict(options=dict(timestep=.01), deformables=dict(bodies=bodies), steps=3)
    (tmp_path / "sheet.json").write_text(json.dumps(task))
    return tmp_path / "sheet.json"


SEAM = "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nv 0 0 0\nv 1 1 0\nf 1 2 3\nf 5 6 4\n"


def test_seams_are_joined_and_told(run, tmp_path):
    pinned = dict(pins=[dict(points=dict(box=[[None, None, None], [0, None, None]]))])
    said = run("simulate", sheet(tmp_path, SEAM, **pinned), "-o", tmp_path / "a.npz").stderr
    assert "sheet.obj: 2 points that stand where others do are joined with them" in said and '"weld": false' in said, said
    assert np.load(tmp_path / "a.npz")["points"].shape[1] == 12
    said = run("simulate", sheet(tmp_path, SEAM, weld=False, **pinned), "-o", tmp_path / "a.npz").stderr
    assert "are joined" not in said and "2 parts that are not connected" in said, said
    assert np.load(tmp_path / "a.npz")["points"].shape[1] == 18
    said = run("simulate", sheet(tmp_path, SEAM + "f 1 5 3\n", **pinned), "-o", tmp_path / "a.npz").stderr
    assert "1 triangles that lose a corner by it are left out" in said, said
    said = run("simulate", sheet(tmp_path, SEAM + "f 1 1 3\n", **pinned), "-o", tmp_path / "a.npz", code=3).stderr
    assert "triangle 2 (points 0 0 2, near 0.3333 0.3333 0) has a point twice" in said, said
    said = run("simulate", sheet(tmp_path, SEAM, weld="no"), "-o", tmp_path / "a.npz", code=3).stderr
    assert "weld" in said, said


def test_a_file_in_millimetres_asks_for_its_unit(run, tmp_path):
    large = SEAM.replace(" 1", " 1000").replace("f 1000", "f 1").replace("v 1 ", "v 1000 ")
    said = run("info", sheet(tmp_path, large)).stderr
    assert 'is 1000 m long, as lengths are metres; "scale": 0.001 where the file\'s are millimetres' in said, said
    for scale in (1, .001, [1e-3] * 3): assert " m long" not in run("info", sheet(tmp_path, large, scale=scale)).stderr
    assert " m long" not in run("info", sheet(tmp_path, SEAM)).stderr


def test_weld_is_of_files(run, tmp_path):
    task = world()
    task["deformables"]["bodies"][0]["weld"] = True
    (tmp_path / "net.json").write_text(json.dumps(task))
    assert "is of meshes from files" in run("info", tmp_path / "net.json", code=3).stderr


def test_a_resumed_run_equals_an_uninterrupted_one(run, tmp_path):
    for scheme in ("implicit_euler", "bdf2", "trapezoid"):
        task = world()
        task["deformables"]["scheme"] = scheme
        path = tmp_path / "net.json"
        path.write_text(json.dumps(task))
        run("simulate", path, "--steps", 20, "-o", tmp_path / "all.npz")
        run("simulate", path, "--steps", 8, "-o", tmp_path / "first.npz")
        run("simulate", path, "--steps", 12, "--init", tmp_path / "first.npz", "-o", tmp_path / "rest.npz")
        whole, rest = np.load(tmp_path / "all.npz"), np.load(tmp_path / "rest.npz")
        for k in ("points", "point_velocity", "time"):
            assert np.array_equal(rest[k], whole[k][8:]), (scheme, k)


def test_gradient_against_differences(run, tmp_path, net):
    rng = np.random.default_rng(2)
    cot, n = {"points": rng.normal(size=15), "point_velocity": rng.normal(size=15)}, 10
    np.savez(tmp_path / "cot.npz", **cot)
    run("gradient", net, "--steps", n, "--cotangent", tmp_path / "cot.npz", "-o", tmp_path / "g.npz")
    g = np.load(tmp_path / "g.npz")
    assert g["points"].shape == (15,) and g["control"].shape == (n, 3) and g["param/net_thread.k"].shape == (1,) and g["param/point_rest"].shape == (5, 3)

    def value(*words):
        run("simulate", net, "--steps", n, *words, "-o", tmp_path / "s.npz")
        s = np.load(tmp_path / "s.npz")
        return s["points"][-1] @ cot["points"] + s["point_velocity"][-1] @ cot["point_velocity"]

    def slope(size, words):
        return (8 * (value(*words(size)) - value(*words(-size))) - value(*words(2 * size)) + value(*words(-2 * size))) / (12 * size)

    near = lambda a, b: abs(a - b) < 1e-6 * (1 + abs(b))
    assert near(slope(0.1, lambda e: ("--param", f"net_thread.k={STIFFNESS + e!r}")), g["param/net_thread.k"][0])
    assert near(slope(1e-3, lambda e: ("--param", f"point_mass:3={0.3 + e!r}")), g["param/point_mass"][3])
    way = rng.normal(size=(2, 15))

    def start(e):
        np.savez(tmp_path / "x.npz", points=POINTS.ravel() + e * way[0], point_velocity=np.tile([0.5, 0, 0.2], 5) * (np.arange(15) > 2) + e * way[1])
        return "--init", tmp_path / "x.npz"
    assert near(slope(1e-3, start), g["points"] @ way[0] + g["point_velocity"] @ way[1])
    run("check", net, "--horizon", 10)
    run("jacobian", net, "--steps", 3, "-o", tmp_path / "J.npz")
    J = np.load(tmp_path / "J.npz")
    assert J["A"].shape == (3, 30, 30) and J["B"].shape == (3, 30, 3)


def test_a_minimum_that_was_not_found_is_told(run, tmp_path):
    """Residual, warning and check of the gradient are those of the deformables' minimizer; a tolerance that is met may be too loose."""
    np.savez(tmp_path / "cot.npz", points=np.ones(15))
    path, words, meta = tmp_path / "net.json", {}, {}
    for name, change in (("well", {}), ("cut", dict(iterations=1, approximate=True)), ("loose", dict(tolerance=1e-2))):
        task = world()
        task["deformables"].update(change)
        task["options"]["timestep"] = 0.1
        path.write_text(json.dumps(task))
        for command in (("simulate",), ("gradient", "--cotangent", tmp_path / "cot.npz")):
            words[name, command[0]] = run(*command[:1], path, *command[1:], "--steps", 20, "-o", tmp_path / "o.npz").stderr
        meta[name] = json.loads(str(np.load(tmp_path / "o.npz")["meta"]))["certificate"]
    assert words["well", "simulate"] == words["well", "gradient"] == ""
    assert 0 <= meta["well"]["worst_residual_step"] < 20 and meta["well"]["worst_residual"] < 1e-8 and not meta["well"]["spot_off"]
    assert meta["well"]["spot_steps"] > 0 and meta["well"]["spot_quotients"] > 0
    for command in ("simulate", "gradient"):
        text = words["cut", command]
        assert "the minimizer of the deformables stopped where points still moved by" in text and "step -1" not in text, text
        assert "condition number" not in text, text
    assert meta["cut"]["unconverged"] > 0 and meta["cut"]["worst_residual"] > 1e-6
    for name in ("cut", "loose"):
        assert meta[name]["spot_off"] and "the gradient is off at step" in words[name, "gradient"], (name, meta[name])


def test_a_search_between_bodies_and_points_that_finds_nothing_ends(run, tmp_path):
    """The energy has an edge where the point comes to rest, and Newton's way leads over it from either side: in the end no place on it is better."""
    (tmp_path / "hand.xml").write_text("<mujoco><option timestep='.01'><flag eulerdamp='disable'/></option><worldbody><body name='hand' pos='0 0 1'>"
                                       "<joint type='slide' axis='0 0 1'/><geom size='.1' mass='1'/></body></worldbody></mujoco>")
    def step(formula, code):
        rod = dict(name="rod", mesh=dict(points=[[0, 0, 1], [0, 0, 0.5]], edges=[[0, 1]]), mass=[0.1, 0.1], sets=dict(tail=[1]), attach=[dict(body="hand", points=[0])],
                   energies=[dict(name="spring", formula="0.5*k*(norm(x0 - x1) - norm(X0 - X1))^2", parameters=dict(k=100)),
                             dict(name="push", on="tail", formula=formula, parameters=dict(f=5))])
        (tmp_path / "rod.json").write_text(json.dumps(dict(bodies=[rod])))
        return run("simulate", tmp_path / "hand.xml", "--deformables", tmp_path / "rod.json", "--steps", 3, "-o", tmp_path / "run.npz", code=code).stderr
    said = step("10*f*max(0.4999 - x0[2], 0)", 4)
    iterations = int(said.split("after ")[1].split()[0])
    assert "step 0 of 3" in said and "the line search found no decrease in that direction" in said and iterations <= 50, said
    assert step("-f*x0[2]", 0) == ""  # without an edge
    at = np.load(tmp_path / "run.npz")
    assert at["points"][1].reshape(2, 3)[1, 2] > 0.5


def test_more_surfaces_than_have_pairs_are_refused(run, tmp_path):
    def load(count, code):
        bodies = [dict(name=f"b{i}", mesh=dict(points=[[0, 0, i], [0.5, 0, i]], edges=[[0, 1]]), mass=0.1) for i in range(count)]
        task = dict(deformables=dict(bodies=bodies, contact=dict(distance=0.01, stiffness=10)))
        (tmp_path / "many.json").write_text(json.dumps(task))
        return run("info", tmp_path / "many.json", code=code).stderr
    said = load(2049, 5)
    assert "2049 surfaces" in said and "no more than 2048" in said, said
    load(300, 0)


def test_a_stiffness_is_found(run, tmp_path):
    truth = 55.0
    target = solve(np.tile([0, 0.1, 0], (15, 1)), truth)[-1]
    path = tmp_path / "task.json"
    path.write_text(json.dumps(world(steps=15, variables=[dict(parameter="net_thread.k", transform="log")], optimizer=dict(method="gauss-newton"),
                                     loss=[dict(points="net", target=target.ravel().tolist())])))
    run("optimize", path, "-o", tmp_path / "r.json")
    r = json.loads((tmp_path / "r.json").read_text())
    assert abs(r["variables"][0]["value"][0] - truth) < 1e-4 * truth
    found = np.load(tmp_path / "r.trajectory.npz")
    assert abs(found["points"][-1] - target.ravel()).max() < 1e-5


def test_info(run, net):
    text = run("info", net).stdout
    assert "net_thread" in text and "0.8 kg" in text and "net_wind.force.0" in text
    d = json.loads(run("info", net, "--json").stdout)["deformables"]
    assert d["points"] == 5 and d["points_that_move"] == 4 and abs(d["mass"] - 0.8) < 1e-15 and d["sets"] == [dict(name="net", points=5, first=0), dict(name="net_tail", points=1, first=4)]
    assert [g["elements"] for g in d["groups"]] == [6, 1] and len(d["controls"]) == 3


def test_rows_of_points_are_told(run, tmp_path):
    """Points of bodies and sets where the positions say so, geoms and planes behind them; the same in the meta data of a run."""
    two = [dict(name=n, mesh=dict(points=(POINTS + [0, y, 1]).tolist(), edges=EDGES.tolist()), mass=1, sets=dict(ends=[0, 4], middle=[1, 2, 3]),
                energies=[dict(energy="spring", name="s", parameters=dict(stiffness=5))]) for n, y in (("a", 0), ("b", 3))]
    contact = dict(distance=0.01, stiffness=1e3, geoms=["block", "ball"], planes=[dict(name="wall", point=[0, 9, 0], normal=[0, -1, 0]), dict(point=[0, -9, 0], normal=[0, 1, 0])])
    (tmp_path / "w.xml").write_text("<mujoco><worldbody><geom name='block' type='box' size='.1 .2 .3' pos='5 0 0'/>"
                                    "<body pos='7 1 2'><freejoint/><geom name='ball' size='.1'/></body></worldbody></mujoco>")
    (tmp_path / "soft.json").write_text(json.dumps(dict(bodies=two, contact=contact)))
    words = tmp_path / "w.xml", "--deformables", tmp_path / "soft.json"
    told = json.loads(run("info", *words, "--json").stdout)["deformables"]
    run("simulate", *words, "-o", tmp_path / "run.npz")
    o = np.load(tmp_path / "run.npz")
    d = json.loads(str(o["meta"]))["deformables"]
    assert all(d[k] == told[k] for k in ("points", "sets", "geoms", "planes")) and d["points"] == 25
    rows = lambda s: s["indices"] if "indices" in s else list(range(s["first"], s["first"] + s["points"]))
    start, found = o["points"][0].reshape(-1, 3), {s["name"]: rows(s) for k in ("sets", "geoms", "planes") for s in d[k]}
    assert all(len(rows(s)) == s["points"] for k in ("sets", "geoms", "planes") for s in d[k])
    for name, y in (("a", 0), ("b", 3)):
        assert np.array_equal(start[found[name]], POINTS + [0, y, 1])
        assert np.array_equal(start[found[f"{name}_ends"]], POINTS[[0, 4]] + [0, y, 1]) and np.array_equal(start[found[f"{name}_middle"]], POINTS[1:4] + [0, y, 1])
    assert np.allclose(start[found["ball"]], [[7, 1, 2]]) and np.allclose(np.sort(abs(start[found["block"]] - [5, 0, 0]), axis=0), np.tile([0.1, 0.2, 0.3], (8, 1)))
    assert np.allclose(start[found["wall"]][:, 1], 9) and np.allclose(start[found[""]][:, 1], -9)
    assert sorted(i for n in ("a", "b", "ball", "block", "wall", "") for i in found[n]) == list(range(25))
    text = run("info", *words).stdout
    assert "5 to 9" in text and "wall" in text and "(plane)" in text


def test_cotangents_of_points_may_have_an_axis_of_three(run, tmp_path, net):
    rng, grads = np.random.default_rng(1), {}
    last, every = rng.normal(size=(2, 15)), rng.normal(size=(2, 7, 15))
    for name, bars in dict(flat=last, triples=last.reshape(2, 5, 3), rows=every, row_triples=every.reshape(2, 7, 5, 3), mixed=[last[0].reshape(5, 3), every[1]]).items():
        np.savez(tmp_path / "c.npz", points=bars[0], point_velocity=bars[1])
        run("gradient", net, "--steps", 6, "--cotangent", tmp_path / "c.npz", "-o", tmp_path / "g.npz")
        g = np.load(tmp_path / "g.npz")
        grads[name] = {k: g[k] for k in g.files if k != "meta"}
    same = lambda a, b: all(np.array_equal(grads[a][k], grads[b][k]) for k in grads[a])
    assert same("flat", "triples") and same("rows", "row_triples") and not same("flat", "rows") and not same("flat", "mixed")
    for shape in ((3, 5), (5, 2), (7, 3, 5), (6, 5, 3), (1, 7, 5, 3), (15, 1)):
        np.savez(tmp_path / "c.npz", points=np.zeros(shape))
        said = run("gradient", net, "--steps", 6, "--cotangent", tmp_path / "c.npz", "-o", tmp_path / "g.npz", code=3).stderr
        assert "(15,)" in said and "(5, 3)" in said, said


def test_energies_are_listed(run):
    assert "neo_hookean_tetrahedron" in run("energies").stdout
    one = run("energies", "neo_hookean").stdout
    assert "young [Pa]" in one and "poisson [1], from -1 to 0.5" in one and "det(" in one
    all = json.loads(run("energies", "--json").stdout)
    assert {m["elements"] for m in all} >= {"point", "edge", "triangle", "tetrahedron", "hinge", "bend"} and len(all) > 40
    assert "did you mean 'neo_hookean" in run("energies", "neo_hookian", code=3).stderr


def test_meshes_from_files_and_motions_to_files(run, tmp_path):
    (tmp_path / "strip.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nv 1 1 0\nv 9 9 9\ng cloth\nf 1 2 3\nf 2 4 3\n")
    cloth = dict(name="c", mesh="strip.obj", scale=0.5, pos=[0, 0, 1], pins=[dict(points=[0, 1])],
                 energies=[dict(energy="membrane_stvk", on="cloth", parameters=dict(young=1e4, poisson=0.3, thickness=1e-3, density=300)),
                           dict(energy="bending_quadratic", name="bending", parameters=dict(bending=1e-4))])
    (tmp_path / "soft.json").write_text(json.dumps(dict(bodies=[cloth])))
    (tmp_path / "ball.xml").write_text("<mujoco><worldbody><body pos='0 0 3'><freejoint/><geom size='.1'/></body></worldbody></mujoco>")
    words = tmp_path / "ball.xml", "--deformables", tmp_path / "soft.json"
    run("simulate", *words, "--steps", 7, "-o", tmp_path / "run.npz", "--vtu", tmp_path / "run.pvd", "--glb", tmp_path / "run.glb")
    o = np.load(tmp_path / "run.npz")
    assert o["points"].shape == (8, 12) and o["qpos"].shape == (8, 7) and o["points"][-1, 8] < 0.9999 and o["points"][-1, 2] == 1
    mass = json.loads(run("info", *words, "--json").stdout)["deformables"]["mass"]
    assert abs(mass - 300 * 1e-3 * 0.25) < 1e-15  # of the cloth alone
    files = [e.get("file") for e in xml.parse(tmp_path / "run.pvd").iter("DataSet")]
    assert len(files) == 16 and sum("rigid" in f for f in files) == 8 and all((tmp_path / f).stat().st_size for f in files)
    assert (tmp_path / "run.glb").read_bytes()[:4] == b"glTF"
    run("view", *words, tmp_path / "run.npz", "-o", tmp_path / "run.html")
    assert '"skin": {' in (tmp_path / "run.html").read_text()
    run("simulate", *words, "--steps", 7, "--every", 3, "-o", tmp_path / "few.npz", "--vtu", tmp_path / "few.pvd", "--glb", tmp_path / "few.glb")
    few, rows = np.load(tmp_path / "few.npz"), [0, 3, 6, 7]
    assert all(np.array_equal(few[k], o[k][rows]) for k in ("time", "points", "point_velocity", "qpos"))
    sets = [e for e in xml.parse(tmp_path / "few.pvd").iter("DataSet") if e.get("part") == "0"]
    assert np.allclose([float(e.get("timestep")) for e in sets], o["time"][rows], rtol=1e-12) and (tmp_path / "few.glb").stat().st_size
    run("view", *words, tmp_path / "few.npz", "-o", tmp_path / "few.html")


def test_examples_run(run, root, tmp_path):
    for name, steps in (("beam/identify", 1), ("chain/carry", 3), ("cloth/drape", 3), ("slide/friction", 3)):
        run("simulate", root / "examples" / f"{name}.json", "--steps", steps, "-o", tmp_path / "run.npz")


def test_mistakes_are_answered(run, tmp_path, net):
    def refused(code, says, *words):
        done = run(*words, code=code)
        assert says in done.stderr, done.stderr
    (tmp_path / "bad.json").write_text(json.dumps(world(), indent=1).replace('"thread"', '"thread.s"'))
    refused(3, "bad.json:", "info", tmp_path / "bad.json")
    refused(3, "cannot name a group", "info", tmp_path / "bad.json")
    (tmp_path / "model.xml").write_text("<mujoco/>")
    refused(2, "has nothing to draw", "simulate", tmp_path / "model.xml", "-o", tmp_path / "o.npz", "--glb", tmp_path / "o.glb")
    refused(2, "has deformables already", "info", net, "--deformables", net)
    np.savez(tmp_path / "c.npz", points=np.ones(3))
    refused(3, "(15,) for the last state", "gradient", net, "--cotangent", tmp_path / "c.npz", "-o", tmp_path / "g.npz")
    refused(2, "did you mean 'points'", "gradient", net, "--cotangent", tmp_path / "c.npz", "--wrt", "point", "-o", tmp_path / "g.npz")
    task = world()
    del task["deformables"]["bodies"][0]["mass"]
    (tmp_path / "light.json").write_text(json.dumps(task))
    refused(3, "point 1 has a mass of 0", "simulate", tmp_path / "light.json", "-o", tmp_path / "o.npz")
