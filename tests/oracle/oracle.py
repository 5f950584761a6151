"""The oracle's side of the tests: MuJoCo's models, states, steps and differences.

MuJoCo keeps short cuts whose data are frozen at compile time ("simple" bodies, frames shared by body and geom). `load`
compiles without them: the trajectories are the same, and a changed field then acts as the documentation says.
The solver is Newton run to rounding with a dense Jacobian, so that the answer is the minimum and not a stopping rule.
"""
import dataclasses
import functools
import glob
import hashlib
import os
import sys
import warnings

import gymnasium
import mujoco as mj
import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools"))
import fields  # noqa: E402

mj.set_mju_user_warning(lambda text: None)  # MuJoCo would write a log file into the working folder

HERE = os.path.dirname(os.path.abspath(__file__))
GYM = sorted(glob.glob(os.path.join(os.path.dirname(gymnasium.__file__), "envs", "mujoco", "assets", "*.xml")))
OWN = sorted(glob.glob(os.path.join(HERE, "models", "*.xml")))
MODELS = GYM + OWN
INTEGRATORS = ("Euler", "implicitfast", "RK4")
_INTEGRATOR = {"Euler": 0, "RK4": 1, "implicitfast": 3}
_CONE = {"pyramidal": 0, "elliptic": 1}
FLAGS = {n[7:].lower(): int(getattr(mj.mjtDisableBit, n)) for n in dir(mj.mjtDisableBit) if n.startswith("mjDSBL_")}
SHAPES = mj.mjtGeom
BLOWN = 1e3  # faster than this, m/s or rad/s, a run has blown up


def name(path):
    return os.path.splitext(os.path.basename(path))[0]


def seed(*key):
    """A stable 31-bit number from a key."""
    return int.from_bytes(hashlib.sha256(repr(key).encode()).digest()[:4], "little") >> 1


# ---- models -----------------------------------------------------------------------------------------------------------
def compiled(path):
    """What MuJoCo makes of a file, untouched: for comparing compiled fields."""
    return mj.MjModel.from_xml_path(path)


def load(path, options=None):
    original, spec = mj.MjModel.from_xml_path(path), mj.MjSpec.from_file(path)
    for body in spec.bodies[1:]:
        body.simple = False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "settotalmass is deprecated"
        m = spec.compile()
    for field in ("body_invweight0", "dof_invweight0", "actuator_biasprm", "tendon_invweight0"):  # these looked at the short cuts
        getattr(m, field)[...] = getattr(original, field)
    for field in ("body_sameframe", "geom_sameframe", "site_sameframe"):
        getattr(m, field)[...] = 0
    m.opt.solver, m.opt.jacobian = 2, 0
    m.opt.tolerance, m.opt.iterations, m.opt.ls_iterations = 0, 30, 100  # at rounding after some 10
    m.opt.disableflags |= FLAGS["autoreset"]
    for key, value in (options or {}).items():
        set_option(m, key, value)
    return m


def set_option(m, key, value):
    """An option in the words pbModel_SetOption takes."""
    if key == "integrator":
        m.opt.integrator = _INTEGRATOR[value]
    elif key == "cone":
        m.opt.cone = _CONE[value]
    elif value == "disable":
        m.opt.disableflags |= FLAGS[key]
    elif value == "enable":
        m.opt.disableflags &= ~FLAGS[key]
    else:
        raise KeyError(key)


# What MuJoCo has no word for, or its steps do not read.
OURS = {f.name for rows in fields.table().values() for f in rows if f.known != "Mujoco"}
OURS |= {"ndesignbody", "ndesigngeom", "ndesignmesh", "nudelay", "nsensordelay"}


def get_field(m, field):
    """A field of ours by its name in MuJoCo: of the model, the options or the statistics; None if MuJoCo has none such."""
    if field.startswith("stat_"):
        return np.asarray(getattr(m.stat, field[5:]))
    if hasattr(m.opt, field):
        return np.asarray(getattr(m.opt, field))
    return np.asarray(getattr(m, field)) if hasattr(m, field) else None


def set_field(m, field, value):
    owner = m.opt if hasattr(m.opt, field) else m
    if np.ndim(getattr(owner, field)) == 0:
        setattr(owner, field, float(np.ravel(value)[0]))
    else:
        target = getattr(owner, field)
        target[...] = np.reshape(value, target.shape)


# ---- states and runs --------------------------------------------------------------------------------------------------
@dataclasses.dataclass
class State:
    qpos: np.ndarray
    qvel: np.ndarray
    act: np.ndarray

    def put(self, d):
        d.qpos[:], d.qvel[:], d.act[:] = self.qpos, self.qvel, self.act

    @staticmethod
    def of(d):
        return State(d.qpos.copy(), d.qvel.copy(), d.act.copy())

    def flat(self):
        return np.concatenate([self.qpos, self.qvel, self.act])


def start(m, key, steps, speed=0.5, effort=1.0, beyond=1.0):
    """A random start near the first keyframe or the default pose, and random controls (beyond their range by a factor)."""
    r = np.random.default_rng(seed(key))
    d = mj.MjData(m)
    if m.nkey:
        mj.mj_resetDataKeyframe(m, d, 0)
    q = d.qpos.copy()
    mj.mj_integratePos(m, q, 0.05 * r.standard_normal(m.nv), 1.0)
    limited = m.actuator_ctrllimited.astype(bool)
    low = np.where(limited, m.actuator_ctrlrange[:, 0], -effort)
    high = np.where(limited, m.actuator_ctrlrange[:, 1], effort)
    controls = beyond * r.uniform(low, high, (steps, m.nu)) if m.nu else np.zeros((steps, 0))
    return State(q, speed * r.standard_normal(m.nv), 0.1 * r.uniform(size=m.na)), controls


def convex_tier(m, d):
    """True if a contact stands between shapes whose contacts differ from one MuJoCo to the next: nothing to compare."""
    for c in d.contact:
        a, b = sorted((int(m.geom_type[c.geom1]), int(m.geom_type[c.geom2])))
        if a == SHAPES.mjGEOM_PLANE:
            if b == SHAPES.mjGEOM_MESH and lies_on_many(m, d, c):
                return True
            continue
        if b == SHAPES.mjGEOM_CYLINDER and a == SHAPES.mjGEOM_SPHERE:
            continue
        if {a, b} & {int(SHAPES.mjGEOM_ELLIPSOID), int(SHAPES.mjGEOM_CYLINDER), int(SHAPES.mjGEOM_MESH), int(SHAPES.mjGEOM_HFIELD)}:
            return True
    return False


def lies_on_many(m, d, c):
    """True if a mesh lies flat on a plane with a polygon of more than four corners: all of them touch here (docs/mjcf.md), four in MuJoCo."""
    g = c.geom1 if m.geom_type[c.geom1] == SHAPES.mjGEOM_MESH else c.geom2
    mesh, first = m.geom_dataid[g], m.mesh_vertadr[m.geom_dataid[g]]
    down = -c.frame[:3] @ d.geom_xmat[g].reshape(3, 3)
    polygons = m.mesh_polyadr[mesh] + np.arange(m.mesh_polynum[mesh])
    facing = polygons[np.argmax(m.mesh_polynormal[polygons] @ down)]
    corners = m.mesh_polyvert[m.mesh_polyvertadr[facing]:][:m.mesh_polyvertnum[facing]]
    return len(corners) > 4 and np.ptp(m.mesh_vert[first + corners] @ down) <= 2e-3 * m.geom_rbound[g]


@dataclasses.dataclass
class Run:
    states: list       # steps + 1
    sensors: list      # of the state before each step
    contacts: int      # most at one time
    exact: int         # steps before a contact of the convex tier or a blow-up


def roll(m, x, controls):
    d = mj.MjData(m)
    x.put(d)
    run = Run([State.of(d)], [], 0, len(controls))
    for k, u in enumerate(controls):
        d.ctrl[:] = u
        mj.mj_step(m, d)
        run.contacts = max(run.contacts, d.ncon)
        if run.exact > k and (convex_tier(m, d) or not np.isfinite(d.qvel).all() or np.abs(d.qvel).max(initial=0) > BLOWN):
            run.exact = k
        run.states.append(State.of(d))
        run.sensors.append(d.sensordata.copy())
        if run.exact <= k:
            break
    return run


def nudged_roll(m, x, controls, sign):
    """The run again with start and shapes moved by 1e-14: where it goes elsewhere, the last bit decides (a touch at zero)."""
    y = State(*(v * (1 + sign * 1e-14) + sign * 1e-15 for v in (x.qpos, x.qvel, x.act)))
    size = m.geom_size.copy()
    m.geom_size *= 1 + sign * 1e-14
    try:
        return roll(m, y, controls)
    finally:
        m.geom_size[:] = size


def distance(a, b):
    """Of two states, relative to the size of the second."""
    u, v = a.flat() if isinstance(a, State) else a, b.flat()
    if not np.isfinite(u).all():
        return np.inf
    return np.abs(u - v).max(initial=0) / (1 + np.abs(v).max(initial=0))


def trusted(m, x, controls, run, tolerance):
    """Steps over which MuJoCo answers a 1e-14 change with less than a fifth of the tolerance (all, if it is
    all), or else with so much less that what remains is far from the edge."""
    others = [nudged_roll(m, x, controls, sign) for sign in (1, -1)]
    n = min([run.exact, len(run.states) - 1] + [r.exact for r in others] + [len(r.states) - 1 for r in others])
    moved = [max(distance(r.states[k], run.states[k]) for r in others) for k in range(n + 1)]
    if n == len(controls) and max(moved) < tolerance / 5:
        return n
    over = [k for k in range(n + 1) if moved[k] > tolerance / 100]
    return max(0, over[0] - 1) if over else n


def forward(m, x, ctrl=None, qfrc=None, xfrc=None):
    """Everything at a state."""
    d = mj.MjData(m)
    x.put(d)
    if ctrl is not None:
        d.ctrl[:] = ctrl
    if qfrc is not None:
        d.qfrc_applied[:] = qfrc
    if xfrc is not None:
        d.xfrc_applied[:] = xfrc
    mj.mj_forward(m, d)
    return d


# ---- differences ------------------------------------------------------------------------------------------------------
def moved(m, x, tangent, eps):
    dq, dv, da = tangent[:m.nv], tangent[m.nv:2 * m.nv], tangent[2 * m.nv:]
    q = x.qpos.copy()
    mj.mj_integratePos(m, q, np.ascontiguousarray(dq), eps)
    return State(q, x.qvel + eps * dv, x.act + eps * da)


def tangent(m, a, b):
    """From state a to state b."""
    dq = np.zeros(m.nv)
    mj.mj_differentiatePos(m, dq, 1.0, a.qpos, b.qpos)
    return np.concatenate([dq, b.qvel - a.qvel, b.act - a.act])


def quotient(f, steps=(1e-3, 1e-4, 1e-5, 1e-6), size=0):
    """Derivative at 0 of a vector function, by central differences with one extrapolation; (value, uncertainty) of the best
    step, entry by entry. Half the difference of the one-sided slopes is linear in the step where the function is smooth. What is left of
    it at step zero (a kink there: a tie in a max, a clamp; or noise) belongs to the uncertainty, and so does what a smaller step has more
    of it (a kink within the step). size: of the numbers of which the entries are differences."""
    f0 = f(0.0)
    noise = np.maximum(4e-15 * (np.abs(f0) + size + 0.3), 2 * np.max([np.abs(f(e) - f0) for e in (1e-14, -1e-14, 3e-14)], axis=0))
    best, err, kink, still = np.zeros_like(f0), np.full(f0.shape, np.inf), np.zeros_like(f0), np.ones(f0.shape, bool)
    for e in sorted(steps):
        p, n, hp, hn = f(e), f(-e), f(e / 2), f(-e / 2)
        d1, d2 = (p - n) / (2 * e), (hp - hn) / e
        bend1, bend2 = (p - 2 * f0 + n) / (2 * e), (hp - 2 * f0 + hn) / e
        u = np.abs(d2 - d1) / 3 + np.abs(2 * bend2 - bend1) + noise / e + np.maximum(kink - np.abs(bend1), 0)
        slope, u = (4 * d2 - d1) / 3, np.where(np.isfinite(u), u, np.inf)
        apart = np.abs(slope - best) * np.isfinite(err)
        u = np.where(apart > 3 * (u + err), np.fmax(u, apart), u)  # it contradicts a smaller step
        better = u < err
        best, err = np.where(better, slope, best), np.where(better, u, err)
        kink, still = np.fmax(kink, np.abs(bend2) - 4 * noise / e), still & (p == f0) & (n == f0)
    return best, np.where(still, 0, err)  # what does not change at all has no derivative that could be seen


@functools.lru_cache(maxsize=None)
def field_table():
    """Lists of src/model/model_fields.h: name -> kind ('int', 'param', 'constant', 'size', 'option')."""
    return {f.name: kind for kind, rows in fields.table().items() for f in rows}


def tendons_inside(m):
    """Tendons that wind around a geom whose side site is within."""
    d, found, at = forward(m, State(m.qpos0, np.zeros(m.nv), np.zeros(m.na))), np.zeros(m.ntendon, bool), np.repeat(np.arange(m.ntendon), m.tendon_num)
    for tendon, kind, g, s in zip(at, m.wrap_type.tolist(), m.wrap_objid, m.wrap_prm):
        if kind in (mj.mjtWrap.mjWRAP_SPHERE, mj.mjtWrap.mjWRAP_CYLINDER) and s >= 0:
            p = d.geom_xmat[g].reshape(3, 3).T @ (d.site_xpos[int(s)] - d.geom_xpos[g])
            found[tendon] |= np.linalg.norm(p if kind == mj.mjtWrap.mjWRAP_SPHERE else p[:2]) < m.geom_size[g, 0]
    return found


def wraps_inside(m):
    return tendons_inside(m).any()
