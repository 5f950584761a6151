"""What is checked of each robot of robots.py: that it loads, its compiled fields, its steps beside MuJoCo's, its derivatives.

    build/venv/bin/python tests/oracle/robot_checks.py [--anew] [NAME...]       make check-robots

checks them all, or those whose names hold a NAME, and prints a table; what was checked with the same sources is not checked again, so that
a run that was interrupted goes on. Exit status 1 if one falls short (also where the program crashes on it: an exit above 5), or if more
are refused than REFUSED allows.

A case counts only as far as MuJoCo's own answer to a change of 1e-14 of start, sizes and frames, and of a unit in the last place of half of the
coordinates of its mesh vertices (they are floats), stays below a fifth of the tolerance.
"""
import argparse
import collections
import concurrent.futures
import dataclasses
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time

import mujoco as mj
import numpy as np

import derivatives
import oracle
import inside
import robots
import test_compile

STEPS, STATES, APPROACH = 100, 5, 400  # steps compared; states differentiated; steps within which contacts are waited for
CALM = 10.0                            # m/s or rad/s: where a run blows up, the last state below
CRASH_STEPS = 50                       # of the program, before anything is compared
REFUSED = 0.03                         # share of the models that may be refused
GRADIENT, SETTLED, UNSETTLED = 1e-6, 2e-7, 0.10
MESH = 1e-9   # of what follows from meshes, relative
MESH_AXES = 1e-6  # of frames of meshes: MuJoCo ends its search for their axes there
MOMENTS_INSIDE = 1e-5  # of tendons that wind around a geom whose side site is within
OWN = {"mesh_scale": 0.1, "mesh_refpos": 0.01, "mesh_refquat": 0.1}  # parameters that MuJoCo's steps do not read, and how far they are moved
LARGE = (10.0, 1.0, 0.1, 0.01)  # steps of differences where rounding hides what comes of small ones
FLOOR = 1e-2  # derivatives below this share of their kind's unit count as zero
# Tolerances of (q, v) after one step and after a hundred, relative to the size of the state.
# Of wraps inside a geom MuJoCo's Newton stops early: its moments are 3e-9 from the differences of its own lengths, as ours are not.
PLAIN, INSIDE = ((1e-10, 1e-10), (1e-8, 1e-8)), ((1e-9, 1e-9), (1e-6, 1e-6))
MESH_MASS, MESH_CONTACT = ((1e-8, 1e-8), (1e-6, 1e-6)), ((1e-8, 3e-6), (1e-7, 3e-6))


@dataclasses.dataclass
class Result:
    name: str
    dof: int = 0
    refused: str = ""
    fields: list = dataclasses.field(default_factory=list)  # how compiled fields differ
    contacts: int = 0           # most at one time
    compared: int = 0           # steps
    left_out: str = ""          # why not all
    one: float = 0.0            # differences, in parts of the tolerance
    hundred: float = 0.0
    gradients: int = 0          # directions differentiated
    unsettled: list = dataclasses.field(default_factory=list)
    faults: list = dataclasses.field(default_factory=list)  # of gradients
    worst: float = 0.0          # of gradients, relative
    worst_beside: float = 0.0   # the same beside MuJoCo's differences
    seconds: float = 0.0

    @property
    def holds(self):
        return not self.refused and not self.fields and not self.faults and self.one <= 1 and self.hundred <= 1

    def __str__(self):
        if self.refused:
            return f"{self.name}: REFUSED {self.refused}"
        text = (f"{self.name}: dof {self.dof}, contacts {self.contacts}, {self.compared} steps, {self.one:.2g} and {self.hundred:.2g} of the tolerance, "
                f"{self.gradients} derivatives {self.worst:.1e}, beside MuJoCo {self.worst_beside:.1e}, {len(self.unsettled)} unsettled")
        lines = ([f"left out from step {self.compared + 1}: {self.left_out}"] if self.left_out else []) + self.unsettled
        lines += ["FALLS SHORT " + t for t in self.fields + self.faults] + (["FALLS SHORT steps"] if max(self.one, self.hundred) > 1 else [])
        return "\n    ".join([text] + lines)


def load(robot):
    """(model or None, its warnings or why it is refused)"""
    try:
        model = inside.Model(robot.path, allow_root=robot.allow_root)
        return model, model.warnings()
    except inside.Error as error:
        return None, error.text.replace("\n", " ").replace(os.path.dirname(robot.path) + "/", "")


# ---- export ---------------------------------------------------------------------------------------------------------------------
def export_faults(robot, folder, **urdf):
    """What is wrong with the robot as an MJCF file (docs/export.md): its parameters, or another file when it is exported again."""
    first, second = (os.path.join(folder, n) for n in ("first.xml", "second.xml"))
    try:
        model = inside.Model(robot.path, allow_root=robot.allow_root, urdf=urdf, source=True)
    except inside.Error:
        return []  # told elsewhere
    try:
        said = model.save(first)
        back = inside.Model(first, allow_root=robot.allow_root, source=True)
        again = back.save(second)
    except inside.Error as error:
        return [f"export: {error}"]
    with open(first, "rb") as a, open(second, "rb") as b:
        found = [] if a.read() == b.read() else ["export: a second one differs"]
    if urdf and any(line.startswith("body_inertia:") for line in said):  # inertias that no body has, which no file can say
        said = [line for line in said if not line.startswith("body_inertia:") and "follow from other parameters" not in line]
    if urdf:  # packages that came without pictures, or with large ones
        said, again = ([line for line in lines if "which is only seen" not in line] for lines in (said, again))
    return found + [f"export: {line}" for line in [*said, *again]]


# ---- compiled fields and steps ----------------------------------------------------------------------------------------------
def mesh_mass(path):
    """True where a mesh gives a body mass."""
    spec = robots.quiet(lambda: mj.MjSpec.from_file(path))
    heavy = lambda g: g.type == mj.mjtGeom.mjGEOM_MESH and (not g.mass == 0) and (g.mass > 0 or g.density > 0)
    return any(heavy(g) for b in spec.bodies for g in b.geoms if spec.compiler.inertiafromgeom == 1 or not b.explicitinertial)


def free_axes(m):
    """Bodies with meshes, two of whose principal moments agree to 1e-6: their axes hang on the last bit of the vertices."""
    meshes = np.isin(np.arange(m.nbody), m.geom_bodyid[m.geom_type == mj.mjtGeom.mjGEOM_MESH])
    moments = np.sort(m.body_inertia, axis=1)
    return meshes & (np.diff(moments, axis=1).min(axis=1) <= 1e-6 * moments[:, 2])


def field_faults(model, robot):
    """How compiled fields differ, but for the bounds of meshes that are only seen, whose files are not read, and what follows from them."""
    m = robots.quiet(lambda: oracle.compiled(robot.path))
    fields = model.fields()
    seen = (m.geom_type == mj.mjtGeom.mjGEOM_MESH) & (fields["geom_rbound"].ravel() == 0)
    free = free_axes(m)
    for field in ("geom_size", "geom_pos", "geom_quat", "geom_rbound", "geom_aabb", "body_inertia", "body_iquat", "body_simple", "body_sameframe", "geom_sameframe"):
        if field not in fields:
            continue
        theirs = np.reshape(getattr(m, field), fields[field].shape)
        meshes = m.geom_type == mj.mjtGeom.mjGEOM_MESH if field.startswith("geom") else np.zeros(len(theirs), bool)
        limit = np.where(meshes | (field == "body_iquat"), MESH_AXES, MESH) * np.abs(theirs).max(axis=1)
        near = np.abs(fields[field] - theirs).max(axis=1) <= limit if m.nmesh else np.zeros(len(theirs), bool)
        rows = near | (free if field.startswith("body") else seen | free[m.geom_bodyid] & (m.geom_type == mj.mjtGeom.mjGEOM_MESH))
        fields[field][rows] = theirs[rows]
    inside = oracle.tendons_inside(m)
    pulls = (m.actuator_trntype == mj.mjtTrn.mjTRN_TENDON) & inside[np.clip(m.actuator_trnid[:, 0], 0, m.ntendon - 1)] if m.ntendon else []
    for field, rows in (("tendon_invweight0", inside), ("actuator_acc0", pulls)):
        theirs = np.reshape(getattr(m, field), fields[field].shape)
        if np.allclose(fields[field][rows], theirs[rows], rtol=MOMENTS_INSIDE, atol=0):
            fields[field][rows] = theirs[rows]
    if np.allclose(fields["actuator_lengthrange"], m.actuator_lengthrange, rtol=1e-6):  # found by a simulation that stops
        fields.pop("actuator_lengthrange")
    if seen.any():
        fields = {n: a for n, a in fields.items() if n not in ("stat_center", "stat_extent", "stat_meansize", "dof_length")}
    return test_compile.faults(fields, m) + test_compile.names_differ(model, m)


def nudged_meshes(m, sign):
    """Vertices of the meshes, half of the coordinates a unit in the last place further; to be put back."""
    r = np.random.default_rng(7)
    vertex = m.mesh_vert.copy()
    there = np.nextafter(vertex, np.where(r.random(vertex.shape) < 0.5, sign, -sign).astype(np.float32) * np.inf)
    m.mesh_vert[:] = np.where(r.random(vertex.shape) < 0.5, there, vertex)
    return vertex


def nudged_roll(m, x, controls, sign):
    """With shapes turned by 1e-14, too: parallel ones of one limb stay so whatever the start, and MuJoCo looks at the signs of what rounding left."""
    vertex, quat = nudged_meshes(m, sign), m.geom_quat.copy()
    m.geom_quat += sign * 1e-14 * np.random.default_rng(8).standard_normal(quat.shape)
    try:
        return oracle.nudged_roll(m, x, controls, sign)
    finally:
        m.mesh_vert[:], m.geom_quat[:] = vertex, quat


def apart(m, a, b):
    """Distances of q and of v (and activations) of two states, relative to their sizes."""
    parts = lambda s: (s.qpos, np.concatenate([s.qvel, s.act]))
    gap = lambda u, v: np.abs(u - v).max(initial=0) / (1 + np.abs(v).max(initial=0)) if np.isfinite(u).all() else np.inf
    return np.array([gap(u, v) for u, v in zip(parts(a), parts(b))])


def touches_mesh(m, d):
    return any(m.geom_type[g] == mj.mjtGeom.mjGEOM_MESH for c in d.contact for g in (c.geom1, c.geom2) if g >= 0)


def led(m, x):
    """Poses of the mocap bodies: such that their welds hold at a state, where they have some; else the model's. MuJoCo's model starts there, too."""
    d, mocap = oracle.forward(m, x), m.body_mocapid
    for kind, objects, one, two, data in zip(m.eq_type, m.eq_objtype, m.eq_obj1id, m.eq_obj2id, m.eq_data):
        if kind != mj.mjtEq.mjEQ_WELD or objects != mj.mjtObj.mjOBJ_BODY or max(mocap[one], mocap[two]) < 0:
            continue
        anchors, back = {one: data[3:6], two: data[:3]}, data[6:10] * [1, -1, -1, -1]
        hand, held = (one, two) if mocap[one] >= 0 else (two, one)
        mj.mju_mulQuat(m.body_quat[hand], d.xquat[held], back if hand == one else data[6:10])
        m.body_pos[hand] = d.xpos[held] + turned(d.xquat[held], anchors[held]) - turned(m.body_quat[hand], anchors[hand])
    bodies = [np.flatnonzero(mocap == k)[0] for k in range(m.nmocap)]
    return (m.body_pos[bodies].copy(), m.body_quat[bodies].copy()) if bodies else None


def turned(quat, vector):
    out = np.zeros(3)
    mj.mju_rotVecQuat(out, vector, quat)
    return out


def steps(result, model, m, robot, canonical):
    x, controls = oracle.start(m, (robot.name, "robot"), STEPS)
    pose = led(m, x)
    run = oracle.roll(m, x, controls)
    others = [nudged_roll(m, x, controls, sign) for sign in (1, -1)]
    meshes = any(touches_mesh(m, oracle.forward(m, s)) for s in run.states[::10])
    found = (model.fields()["actuator_lengthrange"] != m.actuator_lengthrange).any()  # by a simulation that stops
    plain = INSIDE if found or oracle.wraps_inside(m) else PLAIN
    tolerance = plain if canonical else MESH_CONTACT if meshes else MESH_MASS if mesh_mass(robot.path) else plain
    one, hundred = np.array(tolerance[0]), np.array(tolerance[1])
    result.contacts, y = run.contacts, model.state(x.qpos, x.qvel, x.act)
    for k in range(STEPS):
        if k + 1 >= min(len(r.states) for r in (run, *others)) or k >= min(r.exact for r in (run, *others)):
            result.left_out = "shapes of the convex tier meet, or it blows up"
            return
        limit = one if k == 0 else hundred
        if max((apart(m, r.states[k + 1], run.states[k + 1]) / limit).max() for r in others) > 0.2:
            result.left_out = "MuJoCo's own answer hangs on the last bit"
            return
        y, _ = model.step(y, controls[k], mocap=pose)
        e = (apart(m, oracle.State(*model.parts(y)), run.states[k + 1]) / limit).max()
        result.compared = k + 1
        if k == 0:
            result.one = float(e)
        result.hundred = max(result.hundred, float(e) if k else 0.0)


# ---- derivatives ------------------------------------------------------------------------------------------------------------
class Place:
    """A state with its control, and the functions of a direction that are differentiated there: ours and MuJoCo's."""

    def __init__(self, model, m, x, u, r):
        self.model, self.m, self.x, self.u, self.r = model, m, x, u, r
        self.step = derivatives.Oracle(m)
        self.y = model.state(x.qpos, x.qvel, x.act)
        self.base, _, self.record = model.step_recorded(self.y, u)
        self.exact = not oracle.convex_tier(m, oracle.forward(m, x, u)) and self.trusted()

    def trusted(self):
        """False where MuJoCo's own step hangs on the last bit: a touch at exactly zero."""
        runs = [oracle.roll(self.m, self.x, self.u[None])] + [nudged_roll(self.m, self.x, self.u[None], sign) for sign in (1, -1)]
        return all(apart(self.m, r.states[-1], runs[0].states[-1]).max() < 1e-7 for r in runs)

    def ways(self):
        """Directions by kind: of the state's parts, inputs, and parameters in groups."""
        out = {}
        for kind, n in (("qpos", self.m.nv), ("qvel", self.m.nv), ("act", self.m.na), ("ctrl", self.m.nu), ("qfrc", self.m.nv), ("xfrc", self.m.nbody)):
            if n:
                out[kind] = (derivatives.state_direction if kind in ("qpos", "qvel", "act") else derivatives.input_direction)(self.m, self.r, kind)
        for kind in ("mocap_pos", "mocap_rot") if self.m.nmocap else ():
            out[kind] = {kind: 0.1 * self.r.standard_normal((self.m.nmocap, 3))}
        groups = collections.defaultdict(dict)
        for field, slot in self.model.params.items():
            if slot.rows * slot.cols and oracle.get_field(self.m, field) is not None and field not in {*derivatives.ONLY_OVERRIDE, *oracle.OURS}:
                prefix = field.split("_")[0] if "_" in field else "option"
                groups[prefix][field] = self.field_direction(field)
        if "body_subtreemass" in groups["body"]:  # a sum: it follows
            groups["body"]["body_subtreemass"] = derivatives.subtree_sums(self.m, groups["body"]["body_mass"])
        for field, unit in OWN.items():
            p = self.model.param(self.model.theta, field)
            w = unit * self.r.standard_normal(p.shape)
            groups["mesh"] |= {field: derivatives.on_sphere(p, w) if field == "mesh_refquat" else w} if p.size else {}
        return out | {prefix + "_*": {"fields": fields} for prefix, fields in groups.items() if fields}

    def field_direction(self, field):
        """Held are time constants at the least that counts, twice the time step, and the time step beside them."""
        w, least = derivatives.field_direction(self.m, field, self.r), 2 * self.m.opt.timestep
        if field.endswith("solimp"):  # as are impedances at their bounds
            p = np.asarray(getattr(self.m, field))[..., :2]
            w[..., :2] *= (p < 0.9999) & (p > 0.0001)
        at = [n for n in ("jnt_solref", "geom_solref", "eq_solref", "pair_solref", "dof_solref", "tendon_solref_lim") if (np.asarray(getattr(self.m, n)) == least).any()]
        return w * 0 if field in at or (at and field == "timestep") else w

    def led(self, way, e):
        """Poses of the mocap bodies along a direction; nothing where it does not move them."""
        if not way.keys() & {"mocap_pos", "mocap_rot"}:
            return ()
        pos, quat = self.model.mocap_pose()
        for q, w in zip(quat, way.get("mocap_rot", ())):
            mj.mju_quatIntegrate(q, w, e)
        return pos + e * way.get("mocap_pos", 0), quat

    def ours(self, way):
        model, m = self.model, self.m

        def at(e):
            y = model.move(self.y, way["x"], e) if "x" in way else self.y
            theta = model.theta.copy()
            for field, w in way.get("fields", {}).items():
                slot = model.param(theta, field)
                slot += e * np.reshape(w, slot.shape)
            seen = [e * way[k] if k in way else None for k in ("qfrc", "xfrc")]
            z, sensors = model.step(y, self.u + e * way.get("ctrl", 0), *seen, theta=theta, mocap=self.led(way, e))
            if m.opt.integrator == mj.mjtIntegrator.mjINT_RK4:  # whose last evaluation is not at the state
                model.observe(y, self.u, theta=theta)
            return np.concatenate([model.difference(self.base, z), sensors * self.step.timeless, model.field("xpos").ravel(), model.field("site_xpos").ravel()])

        return at

    def theirs(self, way):
        m, start = self.m, {field: np.array(oracle.get_field(self.m, field), dtype=float) for field in way.get("fields", {})}
        base = oracle.State(*self.model.parts(self.base))

        def at(e):
            for field, p in start.items():
                oracle.set_field(m, field, p + e * np.reshape(way["fields"][field], p.shape))
            try:
                x = oracle.moved(m, self.x, way["x"], e) if "x" in way else self.x
                seen = [e * way[k] if k in way else None for k in ("qfrc", "xfrc")]
                return derivatives.flat(m, base, self.step.step(x, self.u + e * way.get("ctrl", 0), *seen, self.led(way, e)))
            finally:
                for field, p in start.items():
                    oracle.set_field(m, field, p)

        return at

    def pulled(self, way, weight):
        """The pullback of the weights along the direction."""
        at = derivatives.blocks(self.m)
        model = self.model
        bar = dict(x=np.zeros(model.nt), ctrl=np.zeros(model.nu), qfrc=np.zeros(model.nv), xfrc=np.zeros((model.nbody, 6)), theta=np.zeros(model.ntheta),
                   mocap_pos=np.zeros((self.m.nmocap, 3)), mocap_rot=np.zeros((self.m.nmocap, 3)))
        model.vjp(self.record, weight[at["next"]], weight[at["sensordata"]], weight[at["xpos"]].reshape(-1, 3), weight[at["site_xpos"]].reshape(-1, 3), ctrl=self.u, into=bar)
        if "fields" in way:
            return sum((self.model.param(bar["theta"], field).ravel() * np.ravel(w)).sum() for field, w in way["fields"].items())
        (kind, w), = way.items()
        return (bar[kind] * w).sum()

    def unwound(self, function):
        """The function with rotations of more than a radian in a step as no numbers: they may be a whole turn more than is seen."""
        m, h = self.m, self.m.opt.timestep
        turns = [m.jnt_dofadr[j] + (3 if m.jnt_type[j] == 0 else 0) + np.arange(3) for j in range(m.njnt) if m.jnt_type[j] <= 1]
        rest = function(0.0)

        def at(e):
            out = function(e)
            for turn in turns:
                if h * np.linalg.norm((out - rest)[m.nv + turn]) > 1:
                    out[turn] = np.nan
            return out

        return at

    def sizes(self):
        """Of the numbers of which the entries are differences: a run that blows up is rounded in units of its velocities, the slow ones by the
        fast ones that push them."""
        q, v, act = self.model.parts(self.base)
        v = np.abs(v) + 0.01 * np.abs(v).max(initial=0)
        seen = 3 * (self.m.nbody + self.m.nsite) + self.m.nsensordata
        return np.concatenate([np.full(self.m.nv, np.abs(q).max(initial=0)), v, np.abs(act), np.zeros(seen)])

    def quotient(self, way, function):
        """Differences with their uncertainties and units. Where rounding hides what comes of small steps of forces, springs or poses,
        larger ones are tried."""
        f = self.unwound(function(way))
        value, (best, error) = f(0.0), oracle.quotient(f, size=self.sizes())
        for further in (False, True):
            if further and way.keys() & {"qfrc", "xfrc", "mocap_pos"} | way.get("fields", {}).keys() & {"qpos_spring"}:
                coarse, u = oracle.quotient(f, LARGE, self.sizes())
                best, error = np.where(u < error, coarse, best), np.minimum(u, error)
            unit = np.empty_like(best)
            for part in derivatives.blocks(self.m).values():
                unit[part] = np.abs(best[part]).max(initial=0) + FLOOR * (1 + 0.01 * np.abs(value[part]).max(initial=0))
            if (error <= SETTLED * unit).all():
                break
        return best, error, unit

    def compare(self, way, function):
        """(relative difference of pullback and quotient over the entries that settle, how many do not)"""
        quotient, error, unit = self.quotient(way, function)
        settled = error <= SETTLED * unit
        weight = np.where(settled, self.r.standard_normal(len(unit)) / unit, 0)
        expected = np.where(settled, weight * quotient, 0)
        return abs(self.pulled(way, weight) - expected.sum()) / (1 + np.linalg.norm(expected)), int((~settled).sum())

    def changes(self, way):
        """What is in contact or pushes on one side of the state and not on the other."""
        seen, function = [], self.ours(way)
        for e in (1e-4, -1e-4):
            function(e)
            self.model.gather()
            pairs = collections.Counter(tuple(sorted(p)) for p in self.model.field("contact_geom").astype(int).tolist())
            seen.append((pairs, (self.model.field("efc_force").ravel() != 0).astype(int).tolist()))
        name = lambda g: self.m.geom(g).name or f"geom {g}"
        pairs = [f"contact {name(a)} with {name(b)}" for a, b in (seen[0][0] - seen[1][0]) + (seen[1][0] - seen[0][0])]
        rows = [] if len(seen[0][1]) != len(seen[1][1]) else [f"row {k} begins to push" for k, (p, q) in enumerate(zip(seen[0][1], seen[1][1])) if p != q]
        size = np.abs(self.base).max()
        rounded = [f"rounding of numbers of size {size:.0e}"] if 4e-15 * size / 1e-3 > SETTLED * FLOOR else []
        return ", ".join(pairs + rows[:3] or rounded) or "the same contacts push: a clamp, a feature of a shape, or a zone of friction"


def places(model, m, name, count):
    """States with two contacts or more, or what there is, from a keyframe or qpos0 with seeded noise; one of the convex tier where there is."""
    found = []
    for number in range(count):
        r = np.random.default_rng(oracle.seed(name, "place", number))
        x, controls = oracle.start(m, (name, "place", number), APPROACH)
        d, after, passed = mj.MjData(m), 5 + 7 * number, []
        x.put(d)
        for k, u in enumerate(controls):
            passed.append((oracle.State.of(d), u))
            d.ctrl[:] = u
            mj.mj_step(m, d)
            blown = not np.isfinite(d.qvel).all() or np.abs(d.qvel).max(initial=0) > oracle.BLOWN
            if blown or k >= after and d.ncon >= 2:
                break
        calm = [p for p in passed if np.abs(p[0].qvel).max(initial=0) < CALM]
        found.append(Place(model, m, *(calm or passed[:1] if blown else passed)[-1], r))
    return found


def gradients(result, model, m, name, count):
    for number, place in enumerate(places(model, m, name, count)):
        for kind, way in place.ways().items():
            gap, open_entries = place.compare(way, place.ours)
            result.gradients += 1
            result.worst = max(result.worst, float(gap))
            if open_entries:
                result.unsettled.append(f"state {number}, {kind}: {open_entries} entries do not settle: {place.changes(way)}")
            if not gap <= GRADIENT:
                result.faults.append(f"state {number}, {kind}: pullback and own differences {gap:.1e} apart")
            if place.exact and kind != "mesh_*" and not (kind == "body_*" and free_axes(m).any()):
                gap, _ = place.compare(way, place.theirs)
                result.worst_beside = max(result.worst_beside, float(gap))
                if not gap <= GRADIENT:
                    result.faults.append(f"state {number}, {kind}: pullback and MuJoCo's differences {gap:.1e} apart")


def crash(robot, program=None):
    """How the program ends on a file where it does not end as it may (exit 0 to 5), else "". In a process of its own: this one goes on."""
    command = [program or os.path.join(inside.build_dir(), "pullback"), "simulate", robot.path, "--steps", str(CRASH_STEPS), "--allow-root", robot.allow_root,
               "-q", "-o", os.devnull]
    ended = subprocess.run(command, capture_output=True).returncode
    return "" if 0 <= ended <= 5 else f"the program ends with signal {-ended}" if ended < 0 else f"the program ends with exit {ended}"


def check(robot, canonical=False, states=STATES):
    began, result = time.process_time(), Result(robot.name)
    crashed = crash(robot)
    if crashed:
        result.faults.append(crashed)
        return result
    model, said = load(robot)
    if model is None:
        result.refused = said
        return result
    m = robots.quiet(lambda: oracle.load(robot.path))
    result.dof, result.fields = m.nv, field_faults(model, robot)
    with tempfile.TemporaryDirectory() as folder:
        result.fields += export_faults(robot, folder)
    try:
        steps(result, model, robots.quiet(lambda: oracle.load(robot.path)), robot, canonical)
        gradients(result, model, m, robot.name, states)
    except inside.Error as error:
        result.faults.append(str(error))
    result.seconds = time.process_time() - began
    return result


def both_forms(robot, states=STATES):
    """The results of a robot as it comes and, where it has meshes, with them in canonical form."""
    out = [check(robot, states=states)]
    if not out[0].refused:
        with tempfile.TemporaryDirectory() as folder:
            other = robots.canonical(robot, folder)
            if other is not robot:
                out.append(check(other, canonical=True, states=states))
    return out


def brief(robot):
    return both_forms(robot, states=1)


# ---- all of them ------------------------------------------------------------------------------------------------------------
STORE = os.path.join(inside.ROOT, "build", "robots.json")


def sources():
    """Hash of what the checks run: the library and their own text."""
    total = hashlib.sha256()
    here = [os.path.join(os.path.dirname(__file__), n) for n in ("robots.py", "robot_checks.py", "oracle.py", "derivatives.py")]
    for path in [os.path.join(inside.build_dir(), "libpullback.so"), *here]:
        total.update(open(path, "rb").read())
    return total.hexdigest()


def verdict(results):
    refused = [r for r in results if r.refused]
    short = [r for r in results if not r.holds and not r.refused]
    directions, unsettled = sum(r.gradients for r in results), sum(len(r.unsettled) for r in results)
    whole = sum(r.compared == STEPS for r in results)
    print(f"\n{len(results)} models and forms: {len(refused)} refused, {len(short)} fall short, {whole} compared over all {STEPS} steps; "
          f"{directions} derivatives, {unsettled} unsettled")
    for r in refused + short:
        print(f"  {'refused' if r.refused else 'SHORT'} {r.name}: {r.refused or '; '.join(r.fields[:2] + r.faults[:2]) or 'steps'}")
    return not short and len(refused) <= REFUSED * len(results) and unsettled <= UNSETTLED * max(directions, 1)


def keep(stored, name, found):
    """Prints results and stores them."""
    print(*found, sep="\n", flush=True)
    stored["results"][name] = [dataclasses.asdict(r) for r in found]
    with open(STORE + ".new", "w") as f:
        json.dump(stored, f)
    os.replace(STORE + ".new", STORE)


def main():
    ask = argparse.ArgumentParser(description="Check all robots, or those whose names hold a NAME.")
    ask.add_argument("--anew", action="store_true", help="forget what was checked")
    ask.add_argument("names", nargs="*", metavar="NAME")
    asked, now, results = ask.parse_args(), sources(), []
    stored = json.load(open(STORE)) if os.path.exists(STORE) and not asked.anew else {}
    stored = stored if stored.get("sources") == now else {"sources": now, "results": {}}
    with tempfile.TemporaryDirectory() as folder:
        wanted = [r for r in robots.mjcf() + robots.composed(folder)[0] if not asked.names or any(n in r.name for n in asked.names)]
        missing = [r for r in wanted if r.name not in stored["results"]]
        with concurrent.futures.ProcessPoolExecutor(int(os.environ.get("JOBS", os.cpu_count()))) as pool:
            for robot, found in zip(missing, pool.map(both_forms, missing)):
                keep(stored, robot.name, found)
        for robot in wanted:
            results += [Result(**r) for r in stored["results"][robot.name]]
    return 0 if verdict(results) else 1


if __name__ == "__main__":
    sys.exit(main())
