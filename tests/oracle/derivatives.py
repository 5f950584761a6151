"""Derivatives of Pullback beside differences of MuJoCo's own step."""
import mujoco as mj
import numpy as np

import oracle

POSITIONS = {"body_pos", "body_ipos", "jnt_pos", "geom_pos", "site_pos", "gravity", "wind", "magnetic"}
QUATS = {"body_quat", "body_iquat", "geom_quat", "site_quat", "cam_quat"}
ADDED = {"actuator_gear", "actuator_gainprm", "actuator_biasprm", "jnt_stiffnesspoly", "tendon_stiffnesspoly"}
ONLY_OVERRIDE = {"o_margin", "o_solref", "o_solimp", "o_friction"}


class Oracle:
    """MuJoCo's step as a function of everything, with its results as one vector."""

    def __init__(self, m):
        self.m, self.d = m, mj.MjData(m)
        clock = [k for k in range(m.nsensor) if m.sensor_type[k] == mj.mjtSensor.mjSENS_CLOCK]
        self.timeless = np.ones(m.nsensordata)  # the state's tangent has no time in it: clocks are left out
        for k in clock:
            self.timeless[m.sensor_adr[k]] = 0

    def step(self, x, ctrl, qfrc=None, xfrc=None, mocap=None):
        """(next state, sensordata, xpos, site_xpos) of the state before; mocap: positions and quaternions, else the model's."""
        m, d = self.m, self.d
        d.time = 0
        for b in np.flatnonzero(m.body_mocapid >= 0):
            d.mocap_pos[m.body_mocapid[b]], d.mocap_quat[m.body_mocapid[b]] = m.body_pos[b], m.body_quat[b]
        if mocap:
            d.mocap_pos[:], d.mocap_quat[:] = mocap
        x.put(d)
        d.ctrl[:] = ctrl
        d.qfrc_applied[:] = 0 if qfrc is None else qfrc
        d.xfrc_applied[:] = 0 if xfrc is None else xfrc
        mj.mj_kinematics(m, d)
        xpos, site = d.xpos.copy(), d.site_xpos.copy()
        mj.mj_step(m, d)
        return oracle.State.of(d), d.sensordata * self.timeless, xpos, site


def flat(m, base, result):
    """Results relative to a base state, as one vector: tangent of the next state, sensors, xpos, site_xpos."""
    x, sensors, xpos, site = result
    return np.concatenate([oracle.tangent(m, base, x), sensors, xpos.ravel(), site.ravel()])


def blocks(m):
    """Slices of that vector."""
    n = 2 * m.nv + m.na
    s, p = n + m.nsensordata, n + m.nsensordata + 3 * m.nbody
    return dict(next=slice(0, n), sensordata=slice(n, s), xpos=slice(s, p), site_xpos=slice(p, p + 3 * m.nsite))


def push(step, m, x, u, way, qfrc=None, xfrc=None, steps=(1e-3, 1e-4, 1e-5, 1e-6)):
    """Difference of MuJoCo's step along a direction: dict of x (tangent), ctrl, qfrc, xfrc."""
    base = step.step(x, u, qfrc, xfrc)[0]
    zero = lambda a, n: np.zeros(n) if a is None else a
    q0, f0 = zero(qfrc, m.nv), zero(xfrc, (m.nbody, 6))

    def at(e):
        y = oracle.moved(m, x, way["x"], e) if "x" in way else x
        return flat(m, base, step.step(y, u + e * way.get("ctrl", 0), q0 + e * way.get("qfrc", 0), f0 + e * way.get("xfrc", 0)))

    return oracle.quotient(at, steps)


def state_direction(m, r, kind):
    w = np.zeros(2 * m.nv + m.na)
    part = {"qpos": slice(0, m.nv), "qvel": slice(m.nv, 2 * m.nv), "act": slice(2 * m.nv, None)}[kind]
    w[part] = r.standard_normal(len(w[part]))
    return {"x": w}


def input_direction(m, r, kind):
    w = {"ctrl": r.standard_normal(m.nu), "qfrc": r.standard_normal(m.nv), "xfrc": r.standard_normal((m.nbody, 6))}[kind]
    if kind == "xfrc":
        w[0] = 0
    return {kind: w}


def on_sphere(p, w):
    """The part of w that stays on the unit sphere at the rows of p."""
    return w - p * (w * p).sum(-1, keepdims=True) / np.maximum((p * p).sum(-1, keepdims=True), 1e-300)


def field_direction(m, field, r):
    """A direction along which the field may be moved and stays what it is; shape of the field in MuJoCo."""
    p = np.array(oracle.get_field(m, field), dtype=float)
    w = r.standard_normal(p.shape) * np.abs(p)
    if field in POSITIONS:
        w = 0.1 * r.standard_normal(p.shape)
    if field in ADDED:
        w = 0.1 * r.standard_normal(p.shape)
    if field in ("actuator_gainprm", "actuator_biasprm", "actuator_dynprm"):  # a number of a motor that is zero switches something off
        motor = m.actuator_dyntype == mj.mjtDyn.mjDYN_DCMOTOR
        w[motor] *= p[motor] != 0
    if field == "geom_friction":  # all alike: where two geoms tie, either may count
        w = p * r.standard_normal(3)
    if "solimp" in field:
        w[..., 4] *= p[..., 4] > 1  # a power below 1 counts as 1: a kink
    if field in QUATS or field == "jnt_axis":
        w = on_sphere(p, 0.3 * r.standard_normal(p.shape))
    if field == "jnt_axis":
        w[m.jnt_type < 2] = 0
    if field.startswith("body_") and field != "body_gravcomp":
        w[0] = 0
    if field == "geom_size":
        w[m.geom_type == 0] = 0
    if field == "geom_fluid":
        w[:, 0] = 0
    if field in ("qpos0", "qpos_spring"):
        w[:] = 0
        for j in range(m.njnt):
            a = m.jnt_qposadr[j]
            if m.jnt_type[j] >= 2:
                w[a] = 0.05 * r.standard_normal()
            elif field == "qpos_spring":
                if m.jnt_type[j] == 0:
                    w[a:a + 3] = 0.05 * r.standard_normal(3)
                a += 3 * (m.jnt_type[j] == 0)
                w[a:a + 4] = on_sphere(p[a:a + 4][None], 0.3 * r.standard_normal((1, 4)))[0]
    if field == "eq_data":
        eq_direction(m, p, w, r)
    if field == "tendon_length0":
        w = 0.01 * r.standard_normal(p.shape)
    if field == "tendon_lengthspring":
        w = np.repeat(0.01 * r.standard_normal((m.ntendon, 1)), 2, axis=1)
    if field in ("jnt_stiffnesspoly", "tendon_stiffnesspoly"):
        owner = getattr(m, field[:-4])
        w *= ((owner != 0) | p.any(axis=1))[:, None]
    return w


def eq_direction(m, p, w, r):
    for k in range(m.neq):
        w[k] = 0
        if m.eq_type[k] == mj.mjtEq.mjEQ_CONNECT:
            w[k, :6] = 0.02 * r.standard_normal(6)
        elif m.eq_type[k] == mj.mjtEq.mjEQ_WELD:
            w[k, :6] = 0.02 * r.standard_normal(6)
            if p[k, 6:10].any():
                w[k, 6:10] = on_sphere(p[None, k, 6:10], 0.2 * r.standard_normal((1, 4)))[0]
            w[k, 10] = 0.1 * r.standard_normal()
        else:
            w[k, :5] = 0.05 * r.standard_normal(5)


def forward_chain(model, x, controls, theta=None):
    """Records, states and sensors of a run of ours."""
    y, records, sensors = model.state(x.qpos, x.qvel, x.act), [], []
    states = [y]
    for u in controls:
        y, s, record = model.step_recorded(y, u, theta=theta)
        states.append(y)
        records.append(record)
        sensors.append(s)
    return states, records, sensors


def pull_chain(model, records, controls, next_bar, sensor_bars, theta=None):
    """Cotangents of the first state and of theta; of the controls, one row each."""
    theta_bar, x_bar, rows = np.zeros(model.ntheta), next_bar, []
    for k in reversed(range(len(records))):
        bar = dict(x=np.zeros(model.nt), ctrl=np.zeros(model.nu), qfrc=np.zeros(model.nv), xfrc=np.zeros((model.nbody, 6)), theta=theta_bar)
        model.vjp(records[k], x_bar, sensor_bars[k], ctrl=controls[k], theta=theta, into=bar)
        x_bar = bar["x"]
        rows.append(bar["ctrl"])
    return x_bar, theta_bar, np.array(rows[::-1])


def subtree_sums(m, mass):
    total = np.array(mass, float)
    for body in range(m.nbody - 1, 0, -1):
        total[m.body_parentid[body]] += total[body]
    return total


def followed(m, field):
    """implicitfast: MuJoCo writes the damping of free bodies about subtree_com, which it gets with body_subtreemass. With a mass
    moved alone that point is not the centre of mass, which means nothing; so there body_subtreemass follows body_mass."""
    return field == "body_mass" and m.opt.integrator == 3


def field_difference(step, m, x, controls, field, way, next_bar, sensor_bars, base, steps=(1e-3, 1e-4, 1e-5, 1e-6)):
    """Derivative of the functional (next_bar, sensor_bars) of MuJoCo's run with the field alone moved along way."""
    p = np.array(oracle.get_field(m, field), dtype=float)

    def at(e):
        oracle.set_field(m, field, p + e * way)
        if followed(m, field):
            m.body_subtreemass[:] = subtree_sums(m, m.body_mass)
        try:
            y, total = x, 0.0
            for k, u in enumerate(controls):
                y, sensors, _, _ = step.step(y, u)
                total += sensor_bars[k] @ sensors
            return np.array([total + next_bar @ oracle.tangent(m, base, y)])
        finally:
            oracle.set_field(m, field, p)
            if followed(m, field):
                m.body_subtreemass[:] = subtree_sums(m, m.body_mass)

    value, error = oracle.quotient(at, steps)
    return value[0], error[0]
