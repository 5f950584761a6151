"""MuJoCo's compiled model as the text of an MJCF file in which every number stands in full: bodies in their own frames with explicit
inertias, angles in radians, actuators in general form. What a motion does not depend on (materials, lights, texts, numbers of the
user's own) is left out, but for colors of geoms.
"""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from xml.sax.saxutils import quoteattr

import mujoco
import numpy as np

from .errors import UnsupportedError

_OBJ = mujoco.mjtObj
_SENSORS = {"jointactfrc": "jointactuatorfrc", "tendonactfrc": "tendonactuatorfrc", "geomdist": "distance", "geomnormal": "normal", "geomfromto": "fromto"}
_FRAMES = {_OBJ.mjOBJ_BODY: "body", _OBJ.mjOBJ_XBODY: "xbody", _OBJ.mjOBJ_GEOM: "geom", _OBJ.mjOBJ_SITE: "site", _OBJ.mjOBJ_CAMERA: "camera",
           _OBJ.mjOBJ_JOINT: "joint", _OBJ.mjOBJ_TENDON: "tendon", _OBJ.mjOBJ_ACTUATOR: "actuator"}
_TREES = {**_FRAMES, _OBJ.mjOBJ_XBODY: "subtree"}  # of a sensor of contacts
_CAMERA_MODES = ("fixed", "track", "trackcom", "targetbody", "targetbodycom")
_OPTIONS = ("timestep", "impratio", "tolerance", "ls_tolerance", "noslip_tolerance", "gravity", "wind", "magnetic", "density", "viscosity", "o_margin",
            "o_solref", "o_solimp", "o_friction", "iterations", "ls_iterations", "noslip_iterations")
_WORDS = {"integrator": ("Euler", "RK4", "implicit", "implicitfast", "discrete"), "cone": ("pyramidal", "elliptic"), "solver": ("PGS", "CG", "Newton")}


def _word(kind, prefix, value):
    """The name of an enumerator as MJCF has it."""
    return kind(int(value)).name.removeprefix(prefix).lower()


def _text(value: Any) -> str:
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    return " ".join(repr(x) for x in np.ravel(value).tolist())


def _element(tag: str, children: Iterable[str] = (), **attributes: Any) -> str:
    """An element; attributes that are None are left out."""
    given = "".join(f" {name.rstrip('_')}={quoteattr(_text(value))}" for name, value in attributes.items() if value is not None)
    inner = "".join(children)
    return f"<{tag}{given}>{inner}</{tag}>\n" if inner else f"<{tag}{given}/>\n"


class Decompiled:
    """The text of a model."""

    def __init__(self, model: mujoco.MjModel) -> None:
        self.m, self._without = model, set()

    def text(self) -> str:
        """All of it."""
        m = self.m
        for k in np.flatnonzero(m.actuator_ctrlnum != 1):
            name = mujoco.mj_id2name(m, int(_OBJ.mjOBJ_ACTUATOR), int(k)) or ""
            raise UnsupportedError(f"actuator {k} '{name}' has {m.actuator_ctrlnum[k]} inputs; expected one")
        for k in m.cam_targetbodyid[m.cam_targetbodyid >= 0]:
            self._name(_OBJ.mjOBJ_BODY, k)
        # Made from the last to the first: what is named by others is behind these.
        kinds = (("keyframe", self._key, m.nkey), ("sensor", self._sensor, m.nsensor), ("actuator", self._actuator, m.nu),
                 ("equality", self._equality, m.neq), ("tendon", self._tendon, m.ntendon))
        beside = [_element(tag, map(one, range(count))) for tag, one, count in kinds] + [_element("contact", self._contacts())]
        return _element("mujoco", [self._settings(), self._assets(), _element("worldbody", self._inside(0)), *reversed(beside)])

    def _name(self, kind, k):
        """The name by which a thing is meant; one that has none gets one for that."""
        kind = _OBJ.mjOBJ_BODY if kind == _OBJ.mjOBJ_XBODY else kind
        found = mujoco.mj_id2name(self.m, int(kind), int(k))
        if not found:
            self._without.add((int(kind), int(k)))
        return found or f"unnamed {kind.name.removeprefix('mjOBJ_').lower()} {k}"

    def _own(self, kind, k):
        """The name that a thing has, or got; None where it has none."""
        return mujoco.mj_id2name(self.m, int(kind), int(k)) or (self._name(kind, k) if (int(kind), int(k)) in self._without else None)

    # ---- settings and assets --------------------------------------------------------------------------------------------
    def _settings(self):
        m, o = self.m, self.m.opt
        flags = {}
        both = ((o.disableflags, mujoco.mjtDisableBit, "mjDSBL_", "disable"), (o.enableflags, mujoco.mjtEnableBit, "mjENBL_", "enable"))
        for value, kind, prefix, word in both:
            flags.update({n.removeprefix(prefix).lower(): word for n, bit in kind.__members__.items() if n.startswith(prefix) and value & int(bit)})
        words = {name: values[int(getattr(o, name))] for name, values in _WORDS.items()}
        off = [k for k in range(31) if o.disableactuator & 1 << k]
        numbers = {name: getattr(o, name) for name in _OPTIONS}
        compiler = _element("compiler", angle="radian", autolimits=False, inertiafromgeom="false", boundmass=0, boundinertia=0, fusestatic=False,
                            alignfree=False, balanceinertia=False, discardvisual=False)
        return compiler + _element("option", [_element("flag", **flags)] if flags else [], **words, **numbers, actuatorgroupdisable=off or None) + \
            _element("statistic", **{n: getattr(m.stat, n) for n in ("meanmass", "meansize", "extent", "center")})

    def _assets(self):
        m, found = self.m, []
        for k in range(m.nmesh):
            at, count, face, faces = m.mesh_vertadr[k], m.mesh_vertnum[k], m.mesh_faceadr[k], m.mesh_facenum[k]
            # About their center of mass, in their principal axes, where compiling leaves them.
            vertices, corners = m.mesh_vert[at:at + count].astype(float), m.mesh_face[face:face + faces]
            found.append(_element("mesh", name=self._name(_OBJ.mjOBJ_MESH, k), vertex=vertices, face=corners))
        for k in range(m.nhfield):
            at, rows, columns = m.hfield_adr[k], m.hfield_nrow[k], m.hfield_ncol[k]
            heights = m.hfield_data[at:at + rows * columns].reshape(rows, columns)[::-1].astype(float)  # files have the last row first
            found.append(_element("hfield", name=self._name(_OBJ.mjOBJ_HFIELD, k), nrow=rows, ncol=columns, size=m.hfield_size[k], elevation=heights))
        return _element("asset", found)

    # ---- the tree ---------------------------------------------------------------------------------------------------------
    def _inside(self, body):
        m = self.m
        own = lambda field: np.flatnonzero(getattr(m, field) == body)
        for kind, field in ((self._joint, "jnt_bodyid"), (self._geom, "geom_bodyid"), (self._site, "site_bodyid"), (self._camera, "cam_bodyid")):
            yield from map(kind, own(field))
        yield from (self._body(child) for child in own("body_parentid") if child)

    def _body(self, k):
        m = self.m
        inertial = [_element("inertial", pos=m.body_ipos[k], quat=m.body_iquat[k], mass=m.body_mass[k], diaginertia=m.body_inertia[k])]
        inside = [*(inertial if m.body_mass[k] > 0 or m.body_inertia[k].any() else ()), *self._inside(k)]
        return _element("body", inside, name=self._own(_OBJ.mjOBJ_BODY, k), pos=m.body_pos[k], quat=m.body_quat[k],
                        gravcomp=m.body_gravcomp[k], mocap=m.body_mocapid[k] >= 0)

    def _joint(self, k):
        m, kind, dof = self.m, _word(mujoco.mjtJoint, "mjJNT_", self.m.jnt_type[k]), self.m.jnt_dofadr[k]
        number = kind in ("slide", "hinge")
        at = m.jnt_qposadr[k]
        return _element("joint", name=self._own(_OBJ.mjOBJ_JOINT, k), type=kind, pos=None if kind == "free" else m.jnt_pos[k],
                        axis=m.jnt_axis[k] if number else None, group=m.jnt_group[k], limited=m.jnt_limited[k], range=m.jnt_range[k],
                        actuatorfrclimited=m.jnt_actfrclimited[k], actuatorfrcrange=m.jnt_actfrcrange[k], actuatorgravcomp=m.jnt_actgravcomp[k],
                        margin=m.jnt_margin[k], solreflimit=m.jnt_solref[k], solimplimit=m.jnt_solimp[k], solreffriction=m.dof_solref[dof],
                        solimpfriction=m.dof_solimp[dof], stiffness=[m.jnt_stiffness[k], *m.jnt_stiffnesspoly[k]], armature=m.dof_armature[dof],
                        damping=[m.dof_damping[dof], *m.dof_dampingpoly[dof]], frictionloss=m.dof_frictionloss[dof],
                        ref=m.qpos0[at] if number else None, springref=m.qpos_spring[at] if number else None)

    def _geom(self, k):
        m, kind = self.m, _word(mujoco.mjtGeom, "mjGEOM_", self.m.geom_type[k])
        color = m.geom_rgba[k]
        mesh = hfield = None
        if kind in ("mesh", "sdf"):
            mesh = self._name(_OBJ.mjOBJ_MESH, m.geom_dataid[k])
        elif kind == "hfield":
            hfield = self._name(_OBJ.mjOBJ_HFIELD, m.geom_dataid[k])
        if m.geom_matid[k] >= 0 and np.array_equal(color, np.array([.5, .5, .5, 1], dtype=color.dtype)):
            color = m.mat_rgba[m.geom_matid[k]]
        fluid = m.geom_fluid[k]
        return _element("geom", name=self._own(_OBJ.mjOBJ_GEOM, k), type=kind, pos=m.geom_pos[k], quat=m.geom_quat[k],
                        size=None if mesh or hfield else m.geom_size[k], mesh=mesh, hfield=hfield,
                        contype=m.geom_contype[k], conaffinity=m.geom_conaffinity[k], condim=m.geom_condim[k],
                        group=m.geom_group[k], priority=m.geom_priority[k], friction=m.geom_friction[k], solmix=m.geom_solmix[k],
                        solref=m.geom_solref[k], solimp=m.geom_solimp[k], margin=m.geom_margin[k], gap=m.geom_gap[k], rgba=color,
                        fluidshape="ellipsoid" if fluid[0] else None, fluidcoef=fluid[1:6] if fluid[0] else None)

    def _site(self, k):
        m = self.m
        return _element("site", name=self._own(_OBJ.mjOBJ_SITE, k), type=_word(mujoco.mjtGeom, "mjGEOM_", m.site_type[k]), pos=m.site_pos[k],
                        quat=m.site_quat[k], size=m.site_size[k], group=m.site_group[k], rgba=m.site_rgba[k])

    def _camera(self, k):
        m, lens = self.m, self.m.cam_intrinsic[k]
        sensor = m.cam_sensorsize[k] if m.cam_sensorsize[k].any() else None
        target = m.cam_targetbodyid[k]
        return _element("camera", name=self._own(_OBJ.mjOBJ_CAMERA, k), pos=m.cam_pos[k], quat=m.cam_quat[k], mode=_CAMERA_MODES[m.cam_mode[k]],
                        target=self._name(_OBJ.mjOBJ_BODY, target) if target >= 0 else None, ipd=m.cam_ipd[k], resolution=m.cam_resolution[k],
                        projection="orthographic" if m.cam_projection[k] else "perspective", fovy=m.cam_fovy[k] if sensor is None else None,
                        sensorsize=sensor, focal=None if sensor is None else lens[:2], principal=None if sensor is None else lens[2:])

    # ---- beside the tree ----------------------------------------------------------------------------------------------------
    def _contacts(self):
        m = self.m
        geom, body = (lambda k: self._name(_OBJ.mjOBJ_GEOM, k)), (lambda k: self._name(_OBJ.mjOBJ_BODY, k))
        for k in range(m.npair):
            yield _element("pair", name=self._own(_OBJ.mjOBJ_PAIR, k), geom1=geom(m.pair_geom1[k]), geom2=geom(m.pair_geom2[k]), condim=m.pair_dim[k],
                           friction=m.pair_friction[k], solref=m.pair_solref[k], solreffriction=m.pair_solreffriction[k], solimp=m.pair_solimp[k],
                           gap=m.pair_gap[k], margin=m.pair_margin[k])
        for k in range(m.nexclude):
            first, second = divmod(int(m.exclude_signature[k]), 1 << 16)
            yield _element("exclude", name=self._own(_OBJ.mjOBJ_EXCLUDE, k), body1=body(first), body2=body(second))

    def _tendon(self, k):
        m = self.m
        stations = range(m.tendon_adr[k], m.tendon_adr[k] + m.tendon_num[k])
        fixed = any(m.wrap_type[i] == mujoco.mjtWrap.mjWRAP_JOINT for i in stations)
        seen = {} if fixed else {"width": m.tendon_width[k], "rgba": m.tendon_rgba[k]}
        return _element("fixed" if fixed else "spatial", map(self._station, stations), name=self._own(_OBJ.mjOBJ_TENDON, k), group=m.tendon_group[k],
                        limited=m.tendon_limited[k], range=m.tendon_range[k], actuatorfrclimited=m.tendon_actfrclimited[k],
                        actuatorfrcrange=m.tendon_actfrcrange[k], solreflimit=m.tendon_solref_lim[k], solimplimit=m.tendon_solimp_lim[k],
                        solreffriction=m.tendon_solref_fri[k], solimpfriction=m.tendon_solimp_fri[k], frictionloss=m.tendon_frictionloss[k],
                        springlength=m.tendon_lengthspring[k], margin=m.tendon_margin[k], stiffness=[m.tendon_stiffness[k], *m.tendon_stiffnesspoly[k]],
                        damping=[m.tendon_damping[k], *m.tendon_dampingpoly[k]], armature=m.tendon_armature[k], **seen)

    def _station(self, i):
        m, kinds, prm = self.m, mujoco.mjtWrap, self.m.wrap_prm[i]
        kind, target = kinds(int(m.wrap_type[i])), m.wrap_objid[i]
        if kind == kinds.mjWRAP_JOINT:
            return _element("joint", joint=self._name(_OBJ.mjOBJ_JOINT, target), coef=prm)
        if kind == kinds.mjWRAP_PULLEY:
            return _element("pulley", divisor=prm)
        if kind == kinds.mjWRAP_SITE:
            return _element("site", site=self._name(_OBJ.mjOBJ_SITE, target))
        side = self._name(_OBJ.mjOBJ_SITE, int(round(prm))) if prm >= 0 else None
        return _element("geom", geom=self._name(_OBJ.mjOBJ_GEOM, target), sidesite=side)

    def _equality(self, k):
        m, kind, data = self.m, _word(mujoco.mjtEq, "mjEQ_", self.m.eq_type[k]), self.m.eq_data[k]
        of = {"joint": _OBJ.mjOBJ_JOINT, "tendon": _OBJ.mjOBJ_TENDON}.get(kind, _OBJ(int(m.eq_objtype[k])))
        word = _FRAMES.get(of, "flex")
        first, second = (self._name(of, i) if i >= 0 else None for i in (m.eq_obj1id[k], m.eq_obj2id[k]))
        if word == "body" and m.eq_obj2id[k] == 0:
            second = None
        laws = {"joint": {"polycoef": data[:5]}, "tendon": {"polycoef": data[:5]},
                "connect": {"anchor": data[:3] if word == "body" else None},
                "weld": {"torquescale": data[10], **({"anchor": data[:3], "relpose": None if data[11] else data[3:10]} if word == "body" else {})}}
        return _element(kind, name=self._own(_OBJ.mjOBJ_EQUALITY, k), active=m.eq_active0[k], solref=m.eq_solref[k], solimp=m.eq_solimp[k],
                        **{f"{word}1": first, f"{word}2": second}, **laws.get(kind, {}))

    def _actuator(self, k):
        m, kinds, (first, second) = self.m, mujoco.mjtTrn, self.m.actuator_trnid[k]
        kind = kinds(int(m.actuator_trntype[k]))
        site = lambda i: self._name(_OBJ.mjOBJ_SITE, i) if i >= 0 else None
        targets = {kinds.mjTRN_JOINT: ("joint", _OBJ.mjOBJ_JOINT), kinds.mjTRN_JOINTINPARENT: ("jointinparent", _OBJ.mjOBJ_JOINT),
                   kinds.mjTRN_TENDON: ("tendon", _OBJ.mjOBJ_TENDON), kinds.mjTRN_BODY: ("body", _OBJ.mjOBJ_BODY)}
        if kind in targets:
            word, of = targets[kind]
            drives = {word: self._name(of, first)}
        elif kind == kinds.mjTRN_SLIDERCRANK:
            drives = {"cranksite": site(first), "slidersite": site(second), "cranklength": m.actuator_cranklength[k]}
        else:
            drives = {"site": site(first), "refsite": site(second)}
        length = m.actuator_lengthrange[k]
        return _element("general", name=self._own(_OBJ.mjOBJ_ACTUATOR, k), group=m.actuator_group[k], **drives, gear=m.actuator_gear[k],
                        ctrllimited=m.actuator_ctrllimited[k], ctrlrange=m.actuator_ctrlrange[k], forcelimited=m.actuator_forcelimited[k],
                        forcerange=m.actuator_forcerange[k], actlimited=m.actuator_actlimited[k], actrange=m.actuator_actrange[k],
                        lengthrange=length if length.any() else None, dyntype=_word(mujoco.mjtDyn, "mjDYN_", m.actuator_dyntype[k]),
                        gaintype=_word(mujoco.mjtGain, "mjGAIN_", m.actuator_gaintype[k]), biastype=_word(mujoco.mjtBias, "mjBIAS_", m.actuator_biastype[k]),
                        dynprm=m.actuator_dynprm[k], gainprm=m.actuator_gainprm[k], biasprm=m.actuator_biasprm[k], actearly=m.actuator_actearly[k],
                        **({"actdim": m.actuator_actnum[k], "input": self._inputs(k)} if m.actuator_dyntype[k] == mujoco.mjtDyn.mjDYN_DCMOTOR else {}),
                        armature=m.actuator_armature[k], damping=[m.actuator_damping[k], *m.actuator_dampingpoly[k]],
                        **self._history(m.actuator_history[k], m.actuator_delay[k]))

    def _inputs(self, k):
        """What a dcmotor is told."""
        bits, kinds = int(self.m.actuator_ctrlspec[k]), mujoco.mjtCtrlInput
        return " ".join(v.name.removeprefix("mjINPUT_").lower() for v in kinds.__members__.values() if bits & v.value)

    @staticmethod
    def _history(history, delay):
        return {"nsample": history[0], "interp": ("zoh", "linear", "cubic")[history[1]], "delay": delay} if history[0] > 0 else {}

    def _sensor(self, k):
        m, kinds = self.m, mujoco.mjtSensor
        kind = kinds(int(m.sensor_type[k]))
        word = _word(kinds, "mjSENS_", kind)
        of, to = (_OBJ(int(a[k])) for a in (m.sensor_objtype, m.sensor_reftype))
        name, reference = (self._name(t, i) if i >= 0 and t != _OBJ.mjOBJ_UNKNOWN else None for t, i in ((of, m.sensor_objid[k]), (to, m.sensor_refid[k])))
        if word.startswith("frame"):
            about = {"objtype": _FRAMES[of], "objname": name, "reftype": _FRAMES[to] if reference else None, "refname": reference}
        elif word == "insidesite":
            about = {"objtype": _FRAMES[of], "objname": name, "site": reference}
        elif word == "camprojection":
            about = {"site": name, "camera": reference}
        elif word in ("geomdist", "geomnormal", "geomfromto"):
            about = {f"{_FRAMES[of]}1": name, f"{_FRAMES[to]}2": reference}
        elif word == "contact":
            about = self._contact_sensor(k, of, to, name, reference)
        elif word == "rangefinder":
            about = {_FRAMES[of]: name, "data": self._fields(mujoco.mjtRayDataField, "mjRAYDATA_", m.sensor_intprm[k, 0])}
        else:
            about = {_FRAMES[of]: name} if name else {}
        return _element(_SENSORS.get(word, word), name=self._own(_OBJ.mjOBJ_SENSOR, k), cutoff=m.sensor_cutoff[k], noise=m.sensor_noise[k], **about,
                        **self._history(m.sensor_history[k], m.sensor_delay[k]), **({"interval": m.sensor_interval[k]} if m.sensor_history[k, 0] > 0 else {}))

    @staticmethod
    def _fields(kind, prefix, bits):
        return " ".join(n.removeprefix(prefix).lower() for n, bit in kind.__members__.items() if n.startswith(prefix) and bits & 1 << int(bit)) or None

    def _contact_sensor(self, k, of, to, name, reference):
        found, data, reduce = {}, *self.m.sensor_intprm[k, :2]
        if name:
            found["site" if of == _OBJ.mjOBJ_SITE else f"{_TREES[of]}1"] = name
        if reference:
            found[f"{_TREES[to]}2"] = reference
        fields = self._fields(mujoco.mjtConDataField, "mjCONDATA_", data)
        return {**found, "data": fields, "reduce": ("none", "mindist", "maxforce", "netforce")[reduce], "num": self.m.sensor_intprm[k, 2]}

    def _key(self, k):
        m, given = self.m, {}
        for name in ("qpos", "qvel", "act", "ctrl", "mpos", "mquat"):
            values = getattr(m, f"key_{name}")[k]
            given[name] = values if values.size else None
        return _element("key", name=self._own(_OBJ.mjOBJ_KEY, k), time=m.key_time[k], **given)
