"""What the code of an environment writes into MuJoCo's model: followed where Pullback has the field, refused by name where it has not.

Fields of MuJoCo's model are of four kinds: parameters of Pullback's model by the same name, which are taken over entry by entry;
settings that are options of load; what no motion depends on (pictures, names, a user's own numbers); and all others, in which a change is
an error. Nothing is computed from what MuJoCo derives: as there, masses that change leave what follows from them as it is, until
mujoco.mj_setConst is called.
"""
from __future__ import annotations

import functools
import operator
import re

import mujoco
import numpy as np

from . import _core
from .errors import Error, UnsupportedError

# No motion depends on these: pictures, names, numbers of the user, states to go to, what MuJoCo derives for itself alone.
_SEEN = re.compile(r"(name|names|tex|mat|light|skin|text|numeric|tuple|key|cam|mesh_normal|mesh_texcoord|hfield_path|mesh_path)(_|adr$|num$|map$|$).*"
                   r"|mesh_face(texcoord|normal)|.*_(rgba|user|matid)|(geom|site|jnt|tendon|flex|cam|light)_group|geom_castshadow|tendon_width|sensor_noise"
                   r"|actuator_length0|geom_rbound|geom_aabb|dof_M0|(body|geom|site)_sameframe|body_simple|dof_simplenum")

def seen(name: str) -> bool:
    """Whether a field of MuJoCo's model is only seen, or a note of its compiler for itself."""
    return _SEEN.fullmatch(name) is not None


_OF_CAMERAS = re.compile(r"cam_(?!pos0|poscom0|mat0|user|ipd).*")  # what a sensor of a camera reads
_OF_RAYS = re.compile(r"(geom|mat)_rgba|geom_matid")  # what a range finder looks through
_WORDS = {"solver": {0: "PGS", 1: "CG", 2: "Newton"}, "cone": {0: "pyramidal", 1: "elliptic"}, "integrator": {0: "Euler", 1: "RK4", 3: "implicitfast"}}
_SETTINGS = ("tolerance", "iterations", "ls_iterations", "noslip_iterations")  # as load has them
_NUMBERS = ("timestep", "density", "viscosity", "impratio", "o_margin")  # parameters
_NO_MATTER = ("jacobian",)
_TOPOLOGY = "load a file that says so"
_FRAMES = ("body_sameframe", "geom_sameframe", "site_sameframe", "body_simple", "dof_simplenum")  # what MuJoCo's compiler saved itself: 0 is nothing
_BESIDE = ("geom_rbound", "geom_aabb", "dof_M0", *_FRAMES)  # looked at beside other fields
_MASSES = {"body_mass", "body_inertia", "dof_armature", "actuator_armature", "tendon_armature", "dof_M0"}  # what the mass matrix is of
_APART = ("mesh_scale",)  # a parameter here, and a note there


@functools.cache
def _names(kind, array):
    """Fields of MuJoCo's model or option: arrays, or numbers."""
    model = mujoco.MjModel.from_xml_string("<mujoco/>")
    of = model if kind == "model" else model.opt
    values = {n: getattr(of, n) for n in dir(of) if not n.startswith("_")}
    return tuple(n for n, v in values.items() if (isinstance(v, np.ndarray) if array else isinstance(v, (int, float))))


@functools.cache
def _option_of(numbers):
    return operator.attrgetter(*numbers)


def _flags(value, kind, prefix):
    return {name.removeprefix(prefix).lower(): bool(value & bit) for name, bit in kind.__members__.items() if name.startswith(prefix)}


class Followed:
    """MuJoCo's model beside Pullback's. physics() is Pullback's with what was changed in MuJoCo's since."""

    def __init__(self, model, physics, load):
        """model: MuJoCo's, as its file has it; load: a function of further options, which loads Pullback's."""
        self._model, self._load, self._physics = model, load, physics
        self._base, self._own = physics, False
        self._active = model.eq_active0.astype(bool).tobytes()
        sensors = set(model.sensor_type.tolist())
        self._blind = [pattern for pattern, sensor in ((_OF_CAMERAS, mujoco.mjtSensor.mjSENS_CAMPROJECTION), (_OF_RAYS, mujoco.mjtSensor.mjSENS_RANGEFINDER))
                       if int(sensor) in sensors]
        arrays = {n: getattr(model, n) for n in _names("model", True) if self._matters(n)}
        self._arrays = {n: a for n, a in arrays.items() if a.size}
        self._options = {n: getattr(model.opt, n) for n in _names("option", True)}
        self._numbers = _option_of(tuple(n for n in _names("option", False) if n not in _NO_MATTER))
        self._watch = _core.Watch((*self._arrays.values(), *self._options.values()))
        self._held = 0.0
        self._begin()

    def _begin(self):
        """What is changed from here on goes on top of the model that there is."""
        self._first = {n: a.copy() for n, a in (*self._arrays.items(), *self._options.items())}
        self._bytes = {n: a.tobytes() for n, a in self._first.items()}
        self._first_numbers = self._seen_numbers = self._numbers(self._model.opt)
        self._watch.accept()

    def _matters(self, name):
        return name in _BESIDE or name in ("cam_pos", "cam_quat") or not _SEEN.fullmatch(name) or any(p.fullmatch(name) for p in self._blind)

    def physics(self):
        """Raises UnsupportedError or ArgumentError where what was changed has no counterpart, as often as it is asked."""
        if self._watch.changed() or self._numbers(self._model.opt) != self._seen_numbers:
            self._physics = self._changed()
            self._watch.accept()
            self._seen_numbers = self._numbers(self._model.opt)
        return self._physics

    def replace(self, physics):
        """Another model in place of the file's own, as it is: what was written into MuJoCo's before is over, what is written after goes on top."""
        self.physics()  # what has no counterpart stays refused
        self._base, self._own, self._physics = physics, True, physics
        self._held = self._simple_inertia()
        self._begin()

    def refuse_data(self, data):
        """Raises UnsupportedError where the code of an environment wrote into MuJoCo's data what has no counterpart."""
        if data.eq_active.tobytes() != self._active:
            row = int(np.flatnonzero(data.eq_active != np.frombuffer(self._active, dtype=bool))[0])
            raise UnsupportedError(f"data.eq_active[{row}] was changed: in Pullback equalities are active as the file says")

    # ---- settings -----------------------------------------------------------------------------------------------------
    def _settings(self):
        """Options of load that are not what they were."""
        names = [n for n in _names("option", False) if n not in _NO_MATTER]
        moved = {n: now for n, was, now in zip(names, self._first_numbers, self._numbers(self._model.opt), strict=True) if now != was and n not in _NUMBERS}
        found = {}
        for name, now in moved.items():
            if name in _WORDS:
                found[name] = _WORDS[name].get(now)
                if found[name] is None:
                    raise UnsupportedError(f"model.opt.{name} is {now}: Pullback has {', '.join(f'{v} ({w})' for v, w in _WORDS[name].items())}")
            elif name in _SETTINGS:
                found[name] = now
            elif name in ("disableflags", "enableflags"):
                kind, prefix = (mujoco.mjtDisableBit, "mjDSBL_") if name == "disableflags" else (mujoco.mjtEnableBit, "mjENBL_")
                was = self._first_numbers[names.index(name)]
                before, after = (_flags(v, kind, prefix) for v in (was, now))
                changed = {n: v != (name == "disableflags") for n, v in after.items() if v != before[n]}
                unknown = [n for n in changed if n not in self._base.option]
                if unknown:
                    raise UnsupportedError(f"model.opt.{name}: Pullback has no flag '{unknown[0]}'")
                found.update(changed)
            else:
                raise UnsupportedError(f"model.opt.{name} was changed, which has no counterpart in Pullback (docs/python.md lists what has)")
        if found.get("solver") == "PGS" and self._model.opt.cone == mujoco.mjtCone.mjCONE_ELLIPTIC:
            raise UnsupportedError("model.opt.solver: with elliptic cones MuJoCo's PGS does not end at the minimum, which is what Pullback computes")
        return found

    def _loaded(self):
        """The model that the parameters go into."""
        settings = self._settings()
        if not settings:
            return self._base
        if self._own:
            raise UnsupportedError(f"model.opt.{next(iter(settings))} was changed, but the environment's physics are not those of its file: load them so")
        return self._load(settings)

    # ---- parameters -----------------------------------------------------------------------------------------------------
    def _changed(self):
        """Pullback's model with all that was written since it was put here."""
        base = self._loaded()
        theta, moved = base._theta.copy(), set()
        armature, simple = theta[base._parameters["dof_armature"].place], self._model.dof_simplenum > 0
        armature[simple] -= self._held  # a number of its own again
        for name, now in (*self._arrays.items(), *self._options.items()):
            if now.tobytes() != self._bytes[name]:
                moved.add(name)
                self._take(base, theta, name, now, now != self._first[name])
        for name in _NUMBERS:
            now, first = getattr(self._model.opt, name), self._first_numbers[[n for n in _names("option", False) if n not in _NO_MATTER].index(name)]
            if now != first:
                theta[base._parameters[name].place] = now
                moved.add(name)
        if not moved:
            return base
        base._compiled.check_params(theta)
        self._check_masses(moved)
        # Of bodies that it calls simple MuJoCo takes the diagonal of the mass matrix as it was compiled, or as mj_setConst left it.
        armature[simple] += self._simple_inertia() if moved & _MASSES else self._held
        return base._with_theta(theta)

    def _take(self, base, theta, name, now, moved):
        """Entries of a field that are not what they were."""
        if name in _FRAMES:
            self._refuse_rows(name, moved & (now > 0), "other frames")
        if name in _BESIDE:
            return
        option = name in self._options
        p = base._parameters.get(name)
        if name in _APART or p is None or p.rows * p.cols != now.size:
            where = "model.opt." if option else "model."
            raise UnsupportedError(f"{where}{name} was changed, which has no counterpart in Pullback (docs/python.md lists what has): {_TOPOLOGY}")
        if not option:
            self._check(name, np.atleast_2d(moved.T).any(axis=0) if moved.ndim == 2 else moved)
        theta[p.place][moved.ravel()] = now.ravel()[moved.ravel()]

    def _check(self, name, rows):
        """Refuses what MuJoCo itself takes no notice of."""
        m = self._model
        kind, _, field = name.partition("_")
        if (kind, field) in (("body", "ipos"), ("body", "iquat"), ("geom", "pos"), ("geom", "quat"), ("site", "pos"), ("site", "quat")):
            same, fixed = getattr(m, f"{kind}_sameframe"), (1, 2) if field in ("pos", "ipos") else (1, 2, 3, 4)
            self._refuse_rows(name, rows & np.isin(same, fixed), f"{kind}_sameframe")
        if name in ("body_ipos", "body_iquat"):
            fixed = (2,) if name == "body_ipos" else (2, 4)
            for other in ("geom", "site"):
                bodies = getattr(m, f"{other}_bodyid")[np.isin(getattr(m, f"{other}_sameframe"), fixed)]
                self._refuse_rows(name, rows & np.isin(np.arange(m.nbody), bodies), f"{other}_sameframe")
            self._refuse_rows(name, rows & (m.body_simple > 0), "body_simple")
        if name in ("jnt_pos", "jnt_axis"):
            self._refuse_rows(name, rows & (m.dof_simplenum[m.jnt_dofadr] > 0), "dof_simplenum")
        if name == "body_gravcomp" and not m.ngravcomp:
            raise UnsupportedError("model.body_gravcomp was changed, of which MuJoCo takes no notice in a model without it until mujoco.mj_setConst is called")
        if name == "geom_size":
            self._check_bounds(rows)
        if name in ("actuator_armature", "actuator_damping", "actuator_dampingpoly"):
            known = np.concatenate([m.jnt_actuatorid, m.tendon_actuatorid])
            self._refuse_rows(name, rows & ~np.isin(np.arange(m.nu), known), "none of it for this actuator")

    def _refuse_rows(self, name, rows, why):
        if rows.any():
            raise UnsupportedError(f"model.{name}[{int(np.flatnonzero(rows)[0])}] was changed, of which MuJoCo takes no notice: the model was compiled with "
                                   f"{why}; {_TOPOLOGY}")

    def _check_bounds(self, rows):
        """MuJoCo looks for contacts within the bounds of the sizes before."""
        m, kinds = self._model, mujoco.mjtGeom
        for g in np.flatnonzero(rows):
            a, b, c = m.geom_size[g]
            kind = kinds(int(m.geom_type[g]))
            needed = {kinds.mjGEOM_SPHERE: a, kinds.mjGEOM_CAPSULE: a + b, kinds.mjGEOM_CYLINDER: np.hypot(a, b), kinds.mjGEOM_ELLIPSOID: max(a, b, c),
                      kinds.mjGEOM_BOX: np.sqrt(a * a + b * b + c * c)}.get(kind, 0)
            if needed > m.geom_rbound[g] * (1 + 1e-9) and (m.geom_contype[g] or m.geom_conaffinity[g]):
                raise UnsupportedError(f"model.geom_size[{g}] was changed beyond the bounds within which MuJoCo looks for its contacts: set "
                                       f"model.geom_rbound[{g}] to {needed:.6g} or more, and model.geom_aabb, too")

    def _check_masses(self, moved):
        """MuJoCo's implicitfast takes centers of mass from the masses of subtrees as they were compiled, or as mj_setConst left them."""
        m = self._model
        if m.opt.integrator != mujoco.mjtIntegrator.mjINT_IMPLICITFAST or not moved & {"body_mass", "body_subtreemass"}:
            return
        sums = m.body_mass.copy()
        for body in range(m.nbody - 1, 0, -1):
            sums[m.body_parentid[body]] += sums[body]
        if not np.allclose(sums, m.body_subtreemass, rtol=1e-12, atol=0):
            name = "body_mass" if "body_mass" in moved else "body_subtreemass"
            raise UnsupportedError(f"model.{name} was changed, and model.body_subtreemass is not the sum, with which MuJoCo's implicitfast takes "
                                   "wrong centers of mass: call mujoco.mj_setConst(model, mujoco.MjData(model))")

    def _simple_inertia(self):
        """By how much that diagonal is another one than that of the masses there are."""
        simple = self._model.dof_simplenum > 0
        return (self._model.dof_M0 - _fresh_diagonal(self._model))[simple] if simple.any() else 0.0


def _fresh_diagonal(model):
    """The diagonal of the mass matrix at the reference, with the model's numbers as they are now."""
    copy = model.__copy__()
    mujoco.mj_setConst(copy, mujoco.MjData(copy))
    return copy.dof_M0.copy()

