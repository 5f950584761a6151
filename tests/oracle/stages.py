"""Comparison of one forward evaluation, stage by stage, with MuJoCo's."""
import mujoco as mj
import numpy as np

import oracle

STAGE = 1e-11   # kinematics, inertia, bias, contacts, rows
SOLVED = 1e-9   # what comes out of the solver: limited by the condition of the minimum


def dense_inertia(m, d):
    out = np.zeros((m.nv, m.nv))
    mj.mj_fullM(m, d, out)
    return out


def about_origin(m, d):
    """cvel about the origin of the world instead of the tree's centre of mass."""
    v = d.cvel.copy()
    v[:, 3:] -= np.cross(v[:, :3], d.subtree_com[m.body_rootid])
    return v


PLAIN = ("xpos", "xquat", "xipos", "ximat", "geom_xpos", "geom_xmat", "site_xpos", "site_xmat", "subtree_com", "qfrc_bias", "qfrc_passive", "ten_length",
         "ten_velocity", "actuator_length", "actuator_velocity", "actuator_force", "qfrc_actuator", "qfrc_smooth", "qacc_smooth")


def gap(ours, theirs, floor=1.0):
    """Largest difference relative to the larger of floor and the field's largest number."""
    a, b = np.asarray(ours, float), np.asarray(theirs, float).reshape(np.shape(ours))
    if not a.size:
        return 0.0
    e = np.abs(a - b).max() / max(floor, np.abs(b).max())
    return float(e) if np.isfinite(e) else np.inf


def same_quat(a, b):
    return np.minimum(np.abs(a - b).max(axis=1), np.abs(a + b).max(axis=1)).max(initial=0)


def row_gap(ours, theirs):
    """Largest difference of positive numbers of many sizes, each relative to itself."""
    a, b = np.ravel(ours), np.ravel(theirs)
    return float((np.abs(a - b) / (np.abs(b) + 1e-12)).max(initial=0))


def match_contacts(model, m, d):
    """For each contact of MuJoCo its number among ours, or None and a sentence. Contacts inside the gap may be listed by us or
    not; every other one of ours must have its counterpart."""
    pairs = model.field("contact_geom").astype(int)
    dist, pos = model.field("contact_dist").ravel(), model.field("contact_pos")
    left, order = list(range(len(dist))), [None] * d.ncon
    for active in (True, False):  # those inside the gap take what the others leave
        for number, c in enumerate(d.contact):
            if (c.efc_address >= 0) != active:
                continue
            same = [k for k in left if {pairs[k][0], pairs[k][1]} == {c.geom1, c.geom2}]
            near = sorted(same, key=lambda k: np.abs(pos[k] - c.pos).max() + abs(dist[k] - c.dist))
            if near:
                order[number] = near[0]
                left.remove(near[0])
            elif active:
                return None, f"no contact of geoms {c.geom1} {c.geom2} at {c.pos} (dist {c.dist:.3g})"
    if left:
        k = left[0]
        return None, f"a contact of geoms {pairs[k][0]} {pairs[k][1]} at {pos[k]} (dist {dist[k]:.3g}) MuJoCo has not; it has {d.ncon}, we {len(dist)}"
    return order, None


def row_count(m, c):
    return c.dim if m.opt.cone == 1 or c.dim == 1 else 2 * (c.dim - 1)


def row_order(m, d, order):
    """Our row number for each row of MuJoCo."""
    first = min((c.efc_address for c in d.contact if c.efc_address >= 0), default=d.nefc)
    rows, ours = list(range(first)), {}
    next_row = first
    for k, c in sorted((k, c) for k, c in zip(order, range(d.ncon)) if k is not None):
        contact = d.contact[c]
        if contact.efc_address < 0:
            continue
        ours[c] = next_row
        next_row += row_count(m, contact)
    for c in range(d.ncon):
        if d.contact[c].efc_address >= 0:
            rows += range(ours[c], ours[c] + row_count(m, d.contact[c]))
    return np.array(rows, dtype=int)


def compare(model, m, x, ctrl=None, qfrc=None, xfrc=None):
    """name -> (difference, tolerance) of every quantity, and a list of sentences on what cannot be put side by side."""
    d = oracle.forward(m, x, ctrl, qfrc, xfrc)
    state = model.state(x.qpos, x.qvel, x.act)
    sensordata = model.observe(state, ctrl, qfrc, xfrc)
    model.gather()
    out, words = {}, []
    for field in PLAIN:
        ours, theirs = model.field(field), getattr(d, field)
        if ours.size != theirs.size:
            words.append(f"{field}: {ours.size} values, MuJoCo {theirs.size}")
            continue
        out[field] = (same_quat(ours, theirs) if field == "xquat" else gap(ours, theirs), STAGE)
    out["cvel"] = (gap(model.field("cvel"), about_origin(m, d)), STAGE)
    out["M"] = (gap(model.field("M"), dense_inertia(m, d)), STAGE)
    contacts_and_rows(model, m, d, out, words)
    for field in ("qacc", "qfrc_constraint"):
        out[field] = (gap(model.field(field), getattr(d, field)), SOLVED)
    sensors(m, d, sensordata, out)
    return out, words


def contacts_and_rows(model, m, d, out, words):
    order, why = match_contacts(model, m, d)
    if order is None:
        words.append(why)
        return
    kept = [(k, c) for k, c in zip(order, d.contact) if k is not None]
    ours = {f: model.field("contact_" + f) for f in ("dist", "pos", "frame")}
    out["contact_dist"] = (max((abs(ours["dist"].ravel()[k] - c.dist) for k, c in kept), default=0), STAGE)
    out["contact_pos"] = (max((gap(ours["pos"][k], c.pos) for k, c in kept), default=0), STAGE)
    out["contact_frame"] = (max((np.abs(ours["frame"][k].ravel() - c.frame).max() for k, c in kept), default=0), STAGE)
    forces, theirs = model.field("contact_force"), np.zeros((d.ncon, 6))
    for c in range(d.ncon):
        mj.mj_contactForce(m, d, c, theirs[c])
    out["contact_force"] = (gap([forces[k] for k, c in zip(order, d.contact) if k is not None], [f for k, f in zip(order, theirs) if k is not None]), 10 * SOLVED)
    J = model.field("efc_J")
    if len(J) != d.nefc:
        words.append(f"{len(J)} rows, MuJoCo {d.nefc} ({d.ne} equality, {d.nf} friction, {d.nl} limit)")
        return
    rows = row_order(m, d, order)
    out["efc_J"] = (gap(J[rows], d.efc_J[:d.nefc * m.nv].reshape(d.nefc, m.nv)), STAGE)
    for field, theirs in (("pos", d.efc_pos), ("margin", d.efc_margin), ("aref", d.efc_aref)):
        out["efc_" + field] = (gap(model.field("efc_" + field).ravel()[rows], theirs), STAGE)
    out["efc_R"] = (row_gap(model.field("efc_R").ravel()[rows], d.efc_R), STAGE)
    felt = np.abs(J[rows]).max(axis=1, initial=0) > 1e-12  # a row without Jacobian may push either way
    out["efc_force"] = (gap(model.field("efc_force").ravel()[rows][felt], d.efc_force[felt]), 10 * SOLVED)


def sensors(m, d, ours, out):
    acc = np.abs(d.qacc).max(initial=1)
    for k in range(m.nsensor):
        part = slice(m.sensor_adr[k], m.sensor_adr[k] + m.sensor_dim[k])
        kind = mj.mjtSensor(int(m.sensor_type[k])).name[7:].lower()
        late = m.sensor_needstage[k] == mj.mjtStage.mjSTAGE_ACC
        key, value = "sensor " + kind, gap(ours[part], d.sensordata[part], max(1.0, acc if late else 1.0))
        tolerance = SOLVED if late else STAGE
        if key not in out or out[key][0] < value:
            out[key] = (value, tolerance)
