"""Cylinders on meshes: place, normal and depth beside MuJoCo's where its depth is the least; gradients there; cans that stand on pedestals."""
import inside
import mujoco
import numpy as np
import oracle

TOGETHER = 1e-6  # m: MuJoCo's depth is the least


def rows(x):
    return " ".join(f"{v:.9g}" for v in np.ravel(x))


def pot(r):
    """A lathe's mesh: many small faces along its rims, caps of many corners."""
    turn = np.arange(r.integers(8, 40)) * 2 * np.pi
    turn = turn / len(turn)
    radius, height = r.uniform(.05, .12), r.uniform(.03, .1)
    rings = [(.995, -1.), (1., -.99), (r.uniform(.6, 1.), r.uniform(-.3, .6)), (.6, .995), (.59, 1.)]
    return np.concatenate([np.stack([a * radius * np.cos(turn), a * radius * np.sin(turn), b * height + 0 * turn], 1) for a, b in rings])


def cloud(r):
    x = r.standard_normal((r.choice([6, 20, 150]), 3))
    return x / np.linalg.norm(x, axis=1)[:, None] * r.uniform(.04, .12, 3)


def pair(folder, r):
    points = pot(r) if r.random() < .5 else cloud(r)
    size = r.uniform(.005, .08, 2)
    text = f"""<mujoco><option gravity="0 0 0" ccd_tolerance="1e-12" ccd_iterations="300"><flag multiccd="disable"/></option>
    <asset><mesh name="a" inertia="convex" vertex="{rows(points)}"/></asset><worldbody><geom type="cylinder" size="{rows(size)}"/>
    <body><freejoint/><geom type="mesh" mesh="a" mass="1"/></body></worldbody></mujoco>"""
    (folder / "pair.xml").write_text(text)
    m = mujoco.MjModel.from_xml_string(text)
    return inside.Model(str(folder / "pair.xml")), m, mujoco.MjData(m), np.linalg.norm(size) + np.abs(m.mesh_vert).max()


def overlap(g, m, n):
    """Of the cylinder and the mesh along a normal."""
    world = g.fields()["mesh_vert"] @ g.field("geom_xmat")[1].reshape(3, 3).T + g.field("geom_xpos")[1].ravel()
    return m.geom_size[0][0] * np.hypot(n[0], n[1]) + m.geom_size[0][1] * abs(n[2]) - (world @ n).min()


def place(r, reach):
    q, u = r.standard_normal(4), r.standard_normal(3)
    return np.concatenate([u / np.linalg.norm(u) * reach * r.uniform(.2, .9), q / np.linalg.norm(q)])


def test_beside_mujoco(tmp_path):
    wanted, r = 10000, np.random.default_rng(7)
    least = deeper = 0
    off = []
    while least < wanted:
        g, m, d, reach = pair(tmp_path, r)
        for _ in range(100):
            d.qpos[:] = place(r, reach)
            mujoco.mj_forward(m, d)
            g.observe(g.state(d.qpos, np.zeros(6)))
            g.gather()
            dist = np.ravel(g.field("contact_dist"))
            assert (dist.size == 0) == (d.ncon == 0) or abs(min(np.r_[dist, [c.dist for c in d.contact], 0])) < TOGETHER
            if not dist.size or not d.ncon:
                continue
            c = d.contact[0]
            if dist[0] < c.dist - TOGETHER:  # is MuJoCo's depth that of its normal?
                assert -overlap(g, m, c.frame[:3]) < dist[0] + TOGETHER, "deeper than MuJoCo's"
                continue
            if c.dist < dist[0] - TOGETHER:
                deeper += 1
                continue
            least += 1
            off.append([abs(c.dist - dist[0]), np.linalg.norm(g.field("contact_frame")[0].ravel()[:3] - c.frame[:3]),
                        np.linalg.norm(g.field("contact_pos")[0].ravel() - c.pos)])
    assert least > 9 * deeper
    assert (np.max(off, axis=0) < [1e-7, 1e-4, 1e-4]).all(), np.max(off, axis=0)  # MuJoCo's end at some 1e-12 of depth


def test_gradients(tmp_path):
    """Of a step by the state, at random weights, where differences of steps settle."""
    r, compared, worst = np.random.default_rng(8), 0, 0
    for _ in range(40):
        g, m, d, reach = pair(tmp_path, r)
        for _ in range(8):
            x = g.state(place(r, reach), r.standard_normal(6))
            base, _, record = g.step_recorded(x, [])
            g.gather()
            dist = np.ravel(g.field("contact_dist"))
            if not dist.size or dist.min() < -.02:
                continue
            way, weight = r.standard_normal(12), r.standard_normal(12) * np.r_[np.full(6, 1e3), np.ones(6)]
            mine = g.vjp(record, next_bar=weight, ctrl=[])["x"] @ way
            theirs, error = oracle.quotient(lambda h: np.array([g.difference(base, g.step(g.move(x, way, h), [])[0]) @ weight]),
                                            (1e-4, 1e-5, 1e-6, 1e-7))
            scale = 1 + abs(theirs[0])
            if error[0] > 1e-7 * scale:
                continue
            compared += 1
            worst = max(worst, abs(mine - theirs[0]) / scale)
    assert compared > 40 and worst < 1e-6, (compared, worst)


CAN = """<mujoco><worldbody><geom type="box" size=".04 .04 .05"/><body pos="{:.9g} {:.9g} .07" euler="0 0 {:.9g}"><freejoint/>
<geom type="cylinder" size="{:.9g} .0201" mass=".3"/></body></worldbody></mujoco>"""


def test_cans_stand(tmp_path, long_run):
    """Cans that are wider than their pedestal, or stand beyond its edge: 2 s."""
    r = np.random.default_rng(0)
    for _ in range(300 if long_run else 40):
        radius, aside, turn = r.uniform(.02, .06), r.uniform(-.02, .02, 2), r.uniform(0, 90)
        path = tmp_path / "can.xml"
        path.write_text(CAN.format(*aside, turn, radius))
        g = inside.Model(str(path))
        x = g.init()
        for _ in range(1000):
            x, _ = g.step(x, [])
        q, v, _ = g.parts(x)
        stands = abs(q[2] - .07) < 2e-4 and np.abs(q[:2] - aside).max() < 1e-3 and np.abs(q[4:6]).max() < 1e-3
        assert np.abs(v).max() < 1e-2 and stands, (radius, aside, turn, q, v)  # soft friction creeps, as MuJoCo's
