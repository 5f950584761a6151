"""Every compiled field equals MuJoCo's, to 1e-12 relative."""
import os

import mujoco as mj
import numpy as np
import pytest

import oracle
import inside
from inside import native
import random_models

# Kept for information, or in other words than MuJoCo's.
OTHER_WORDS = {"iterations", "ls_iterations"} | oracle.OURS


def tensor(quat, moments):
    """Inertia from principal moments and axes: what body_iquat means where two moments are equal."""
    w, x, y, z = quat
    rot = np.array([[1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
                    [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
                    [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)]])
    return rot @ np.diag(moments) @ rot.T


def excess(ours, theirs, relative=1e-12):
    """How many times the worst entry is beyond its tolerance: relative to its row, a little to the whole field."""
    a, b = np.asarray(ours, float), np.asarray(theirs, float)
    if not a.size:
        return 0.0
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    row = np.abs(np.where(np.isfinite(b), b, 0)).max(axis=-1, keepdims=True) if b.ndim > 1 else np.abs(np.where(np.isfinite(b), b, 0))
    tolerance = relative * (row + 1e-3 * row.max(initial=0)) + 1e-15
    off = np.where(same, 0, np.abs(a - b) / tolerance)
    return float(np.nan_to_num(off, nan=np.inf).max(initial=0))


def faults(ours, m):
    """Sentences on what differs between our fields and MuJoCo's model."""
    out = []
    for field, a in ours.items():
        if field in OTHER_WORDS or field.startswith(("mesh_", "nmesh", "hfield_", "nhfield", "geom_dataid")):
            continue  # what is only seen is MuJoCo's alone: test_mesh_contact.py, test_hfield.py
        b = oracle.get_field(m, field)
        if b is None:
            out.append(f"{field}: MuJoCo has no such field")
        elif field in ("actuator_delay", "sensor_delay") and not a.size and not b.any():
            continue  # no parameter where nothing keeps samples
        elif a.size != b.size:
            out.append(f"{field}: {a.size} values, MuJoCo has {b.size}")
        elif a.size and a.dtype.kind == "i":
            b = b.reshape(a.shape).astype(np.int64)
            if (a != b).any():
                k = tuple(np.argwhere(a != b)[0])
                out.append(f"{field}[{k[0]},{k[1]}]: {a[k]}, MuJoCo {b[k]} ({(a != b).sum()} of {a.size} differ)")
        elif a.size:
            if b.dtype == np.float32:  # colours
                a = a.astype(np.float32)
            b = b.reshape(a.shape)
            if field == "body_iquat" and excess(a, b) > 1:
                i, j = ours["body_inertia"], m.body_inertia
                near = [k for k in range(len(a)) if excess(a[k], b[k]) > 1]
                near = [k for k in near if not (np.ptp(np.sort(j[k])[:2]) < 1e-9 * j[k].max() or np.ptp(np.sort(j[k])[1:]) < 1e-9 * j[k].max())
                        or excess(tensor(a[k], i[k]).ravel()[None], tensor(b[k], j[k]).ravel()[None]) > 10]
                if not near:
                    continue
            if excess(a, b) > 1:
                gap = np.nan_to_num(np.abs(a - b), nan=np.inf)
                k = tuple(np.argwhere(gap == gap.max())[0])
                out.append(f"{field}[{k[0]},{k[1]}]: {a[k]!r}, MuJoCo {b[k]!r} ({excess(a, b):.3g} times the tolerance)")
    return out


def names_differ(model, m):
    import mujoco as mj

    names = {"Body": "BODY", "Joint": "JOINT", "Geom": "GEOM", "Site": "SITE", "Pair": "PAIR", "Equality": "EQUALITY", "Tendon": "TENDON",
             "Actuator": "ACTUATOR", "Sensor": "SENSOR", "Keyframe": "KEY"}
    for kind, theirs in names.items():
        count = getattr(m, {"JOINT": "njnt", "EQUALITY": "neq"}.get(theirs, "n" + theirs.lower()))
        for k in range(count):
            a = native.pbModel_Name(model.ptr, getattr(native, "pb_obj" + kind), k)
            b = mj.mj_id2name(m, getattr(mj.mjtObj, "mjOBJ_" + theirs), k) or ""
            if a is None or a.decode() != b:
                return [f"name {k} of kind {kind}: {a!r}, MuJoCo {b!r}"]
    return []


@pytest.mark.parametrize("path", oracle.MODELS, ids=oracle.name)
def test_fields_equal(path):
    model, m = inside.Model(path), oracle.compiled(path)
    ours = model.fields()
    assert len(ours) > 150
    bad = faults(ours, m) + names_differ(model, m)
    assert not bad, "\n".join(bad)


def test_no_field_is_forgotten():
    """The inspection shows every field of the list, and the list holds every size it uses; sizes of our own are 0."""
    model = inside.Model(oracle.MODELS[0])
    table = oracle.field_table()
    shown = model.fields()
    missing = [n for n, kind in table.items() if kind in ("int", "param", "constant") and n not in shown]
    assert not missing
    assert [n for n, kind in table.items() if kind == "param"] == list(model.params)
    for n, kind in table.items():
        if kind == "size":
            assert inside.native.pbModel_Size(model.ptr, n.encode()) == getattr(oracle.compiled(model.path), n, 0), n


def test_sizes_equal():
    for path in oracle.MODELS:
        model, m = inside.Model(path), oracle.compiled(path)
        rays = (m.sensor_type == mj.mjtSensor.mjSENS_RANGEFINDER).any()  # else faces of meshes are not kept
        for n, kind in oracle.field_table().items():
            if kind == "size" and (rays or n != "nmeshface"):
                assert inside.native.pbModel_Size(model.ptr, n.encode()) == getattr(m, n, 0), (oracle.name(path), n)


def test_random_models_compile_equal(tmp_path, long_run):
    seeds = range(random_models.SEEDS if long_run else 120)
    bad = []
    for seed in seeds:
        path = os.path.join(tmp_path, f"random{seed}.xml")
        with open(path, "w") as f:
            f.write(random_models.xml(seed))
        try:
            found = faults(inside.Model(path).fields(), oracle.compiled(path))
        except inside.Error as error:
            found = [str(error)]
        bad += [f"random model {seed}: {text}" for text in found[:3]]
    assert not bad, f"{len(bad)} faults\n" + "\n".join(bad[:20])


def test_comparison_sees_a_planted_fault():
    """The comparison of this file turns red for one changed bit of mass, one flipped integer, one turned axis."""
    path = next(p for p in oracle.OWN if oracle.name(p) == "joints")
    m = oracle.compiled(path)
    fields = {n: oracle.get_field(m, n) for n, kind in oracle.field_table().items() if kind in ("int", "param", "constant") and n not in oracle.OURS}
    fields = {n: (v if v.ndim == 2 else v.reshape(-1, 1)).astype(np.int64 if v.dtype.kind in "iub" else float) for n, v in fields.items()}
    assert not faults(fields, m)
    for field, row in (("body_mass", 1), ("jnt_type", 0), ("jnt_axis", 0), ("dof_invweight0", 2)):
        wrong = {n: v.copy() for n, v in fields.items()}
        wrong[field][row] = wrong[field][row] + 1 if wrong[field].dtype.kind == "i" else wrong[field][row] * (1 + 5e-12)
        assert len(faults(wrong, m)) == 1, field
