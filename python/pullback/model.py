"""Models: loaded from MJCF, URDF or a task file, with their parameters, states, steps and Jacobians."""
import os
import tempfile
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from . import _core
from .arrays import batched, real, shaped, words
from .errors import ArgumentError, Error
from .names import OBJECTS, Thing, find, names
from .state import State

_INERTIA = ("refuse", "keep", "repair")


class Parameter(NamedTuple):
    """What there is to know of a parameter beside its values."""
    name: str
    unit: str
    rows: int
    cols: int
    offset: int
    rows_are: int
    lower: float
    upper: float
    derived: bool
    fixed: bool
    option: bool

    @property
    def place(self):
        return slice(self.offset, self.offset + self.rows * self.cols)

    @property
    def shape(self):
        """MuJoCo's: (rows, cols) without axes of one entry that a single number or row does not need."""
        columns = () if self.cols == 1 else (self.cols,)
        return columns if self.option else (self.rows, *columns)


class Params(Mapping):
    """Parameters by name, as read-only arrays in MuJoCo's shapes; also parts: params["geom_friction:floor"]."""

    def __init__(self, model):
        self._model = model

    def __getitem__(self, name):
        p, shape = self._model._parameter(name)
        view = self._model._theta[p.place].reshape(shape)
        view.flags.writeable = False
        return view

    def __iter__(self):
        return iter(self._model._parameters)

    def __len__(self):
        return len(self._model._parameters)

    def __contains__(self, name):
        try:
            self._model._parameter(name)
        except (KeyError, TypeError):
            return False
        return True

    def about(self, name):
        """Unit, range and place of a parameter."""
        return self._model._parameter(name)[0]

    def __repr__(self):
        return f"<{len(self)} parameters: {', '.join(self)}>"


def _texts(settings):
    """Names and values of settings as the C library reads them."""
    text = lambda v: ("enable" if v else "disable") if isinstance(v, bool) else ",".join(v) if isinstance(v, (list, tuple)) else \
        repr(float(v)) if isinstance(v, (float, np.floating)) else str(v)
    return {str(name): text(value) for name, value in (settings or {}).items()}


def _paths(paths):
    if paths is None:
        return None
    paths = [paths] if isinstance(paths, (str, os.PathLike)) else paths
    return os.pathsep.join(os.fspath(p) for p in paths) or None


def _compile(path, text, options, contact, allow_root, package_path, floating_base, inertia):
    if inertia not in _INERTIA:
        raise ArgumentError(f"inertia: expected {', '.join(_INERTIA)}, found {inertia!r}")
    return _core.Compiled(path=path, text=text, allow_root=_paths(allow_root), package_path=_paths(package_path),
                          floating_base=bool(floating_base), fuse=False, motors=False, inertia=_INERTIA.index(inertia),
                          surfaces=False, options=_texts(options), contact=_texts(contact))


def load(path, *, options=None, contact=None, allow_root=(), package_path=(), floating_base=False, inertia="refuse"):
    """A model from a file: MJCF, URDF, or a task (.json), of which the world is taken.

    options        what no gradient reaches, by MuJoCo's names: {"tolerance": 1e-8, "integrator": "RK4", "contact": False}
    contact        how contacts are modelled: {"method": "soft"}; docs/contact-gradients.md has all of them
    allow_root     further folders that the model may read files from
    package_path   URDF: folders with ROS packages
    floating_base  URDF: the root link moves freely
    inertia        URDF: "refuse", "keep" or "repair" inertias that no body has

    Raises InputError with file, line and reason, UnsupportedError, FileError.
    """
    return Model(_compile(os.fspath(path), None, options, contact, allow_root, package_path, floating_base, inertia), None)


def loads(text, assets=None, *, name="model.xml", options=None, contact=None, floating_base=False, inertia="refuse"):
    """A model from the text of an MJCF or URDF file. name: what messages call it.

    assets: the files that it names, {"meshes/foot.stl": bytes}; no other file is read.
    """
    if not assets:
        return Model(_compile(name, text, options, contact, (), (), floating_base, inertia), None)
    with tempfile.TemporaryDirectory() as folder:
        for path, data in {**assets, name: text}.items():
            _write(folder, path, data)
        try:
            return Model(_compile(os.path.join(folder, name), None, options, contact, (), (), floating_base, inertia), None)
        except Error as error:
            raise type(error)(str(error).replace(os.path.realpath(folder) + os.sep, "").replace(folder + os.sep, "")) from None


def _write(folder, path, data):
    """A file of a private folder, not beside it."""
    place = os.path.normpath(os.path.join(folder, path))
    if os.path.isabs(path) or not place.startswith(folder + os.sep):
        raise ArgumentError(f"assets: expected a path below the model's folder, found {path!r}")
    os.makedirs(os.path.dirname(place), exist_ok=True)
    with open(place, "wb") as f:
        f.write(data.encode() if isinstance(data, str) else bytes(data))


def _unpacked(packed, theta):
    """A model from a pickle."""
    return Model(_core.Compiled.unpack(packed), np.frombuffer(theta, dtype=np.float64).copy())


class Model(_core.Model):
    """A compiled model and the parameters that act where none are given. It never changes; with_params makes another.

    nq, nv, nu, na, nbody, ...: sizes by MuJoCo's names.    params: what can be differentiated.    timestep: s.
    """

    def __new__(cls, compiled, theta):
        theta = np.frombuffer(compiled.theta(), dtype=np.float64).copy() if theta is None else theta
        theta.flags.writeable = False
        self = super().__new__(cls, compiled, theta)
        self._compiled, self._theta, self._fields = compiled, theta, {}
        self._parameters = MappingProxyType({p.name: p for p in (Parameter(*row) for row in compiled.params())})
        self._slots = {name: slice(offset, offset + size) for name, offset, size in compiled.state_fields()}
        self._size = max((place.stop for place in self._slots.values()), default=0)
        self.params = Params(self)
        self.warnings = tuple(compiled.warnings().splitlines())
        return self

    def __getattr__(self, name):
        if name.startswith("n"):
            size = self._compiled.size(name)
            if size >= 0:
                setattr(self, name, size)
                return size
        raise AttributeError(f"a model has no '{name}'")

    def _parameter(self, name):
        """The slice of a name and its shape; KeyError with the nearest name."""
        if name in self._parameters:
            p = self._parameters[name]
            return p, p.shape
        if not isinstance(name, str) or ":" not in name:
            names = list(self._parameters)
            raise KeyError(f"no parameter '{name}'; there are {', '.join(names[:6])}, ...")
        try:
            p = Parameter(*self._compiled.param(name))
        except ArgumentError as error:
            raise KeyError(str(error)) from None

        # A row of one thing is a row, and an entry a number.
        field, parts = self._parameters[name.split(":")[0]], name.count(":")
        rows = (p.rows,) if p.rows > 1 else ()
        columns = (p.cols,) if p.cols > 1 or (parts == 1 and field.cols > 1 and not field.option) else ()
        return p, rows + columns

    def with_params(self, values):
        """A model with other parameters, as if its file had said so: what derives from them is computed again."""
        return Model(self._compiled, self._theta_with(values, derive=True))

    def _theta_with(self, values, derive):
        """A copy of theta with these values; derive: with the constants that follow from them."""
        theta = self._theta.copy()
        for name, value in values.items():
            p, shape = self._parameter(name)
            theta[p.place] = shaped(value, shape, name).ravel()
        self._compiled.check_params(theta)
        if derive and values:
            self._compiled.constants(theta)
        return theta

    @property
    def name(self):
        return getattr(self, "_name", "")

    @property
    def timestep(self):
        return float(self.params["timestep"])

    @property
    def tangent_names(self):
        """What the entries of a tangent are, in the order of linearize."""
        return tuple(self._compiled.entry_names(True))

    # ---- things by name -----------------------------------------------------------------------------------------------
    def _field(self, name):
        """A compiled field by MuJoCo's name, as MuJoCo shapes it."""
        if not self._fields:
            self._fields.update({n: np.frombuffer(data, np.intc if kind == "i" else np.float64).reshape((rows, cols) if cols != 1 else (rows,))
                                 for n, rows, cols, kind, data in self._compiled.fields()})
        return self._fields[name]

    def body(self, name) -> Thing:
        """A body by name or number; so joint, geom, site, tendon, actuator, sensor."""
        return find(self, "body", name)

    def joint(self, name) -> Thing:
        return find(self, "joint", name)

    def geom(self, name) -> Thing:
        return find(self, "geom", name)

    def site(self, name) -> Thing:
        return find(self, "site", name)

    def tendon(self, name) -> Thing:
        return find(self, "tendon", name)

    def actuator(self, name) -> Thing:
        return find(self, "actuator", name)

    def sensor(self, name) -> Thing:
        return find(self, "sensor", name)

    def names(self, kind):
        """Names of all things of a kind ("body", "joint", ...), "" where one has none."""
        if kind not in OBJECTS:
            raise ArgumentError(f"kind: expected {', '.join(OBJECTS)}, found {kind!r}")
        return names(self, kind)

    # ---- states -----------------------------------------------------------------------------------------------------
    def init(self, keyframe=None, batch=None):
        """The state that the model begins in: its reference configuration at rest, or a keyframe by name or number.

        batch: so many of them side by side.
        """
        if isinstance(keyframe, str):
            keyframe = find(self, "keyframe", keyframe).id
        x = np.zeros(self._size)
        self._init_into(-1 if keyframe is None else keyframe, x)
        return State(self, x if batch is None else np.repeat(x[None], batch, axis=0))

    def state(self, flat):
        """A state from all its numbers, (StateSize,) or (B, StateSize); a copy."""
        a, _ = batched(flat, (self._size,), "state")
        return State(self, a.copy())

    def _read_ctrl(self, ctrl, worlds):
        """What step_into calls where ctrl is not the array that it needs."""
        if not worlds:
            return shaped(ctrl, (self.nu,), "ctrl")
        a, _ = batched(ctrl, (self.nu,), "ctrl")
        if a.ndim == 2 and len(a) not in (1, worlds):
            raise ArgumentError(f"ctrl: expected shape {words((self.nu,))} or {words((worlds, self.nu))}, found {words(a.shape)}")
        return np.ascontiguousarray(np.broadcast_to(a, (worlds, self.nu)))

    def step(self, state, ctrl=None):
        """The state one time step later. ctrl: (nu,) or (B, nu); None: zero."""
        if ctrl is not None and state.batch is None and np.ndim(ctrl) == 2:
            state = State(self, np.repeat(state.flat[None], len(ctrl), axis=0))
        else:
            state = State(self, state.flat.copy())
        if ctrl is not None:
            ctrl = self._read_ctrl(ctrl, state.batch or 0)
        self.step_into(state, ctrl)
        return state

    # ---- the manifold of positions --------------------------------------------------------------------------------------
    def _by_rows(self, call, a, wa, na, b, wb, nb, width):
        a, ca = batched(a, (wa,), na)
        b, cb = batched(b, (wb,), nb)
        if ca not in (None, 1, cb) and cb not in (None, 1):
            raise ArgumentError(f"{na} has {ca} rows and {nb} has {cb}")
        rows = max(ca or 1, cb or 1)
        out = np.zeros((rows, width))
        call(rows, np.ascontiguousarray(np.broadcast_to(a, (rows, wa))), np.ascontiguousarray(np.broadcast_to(b, (rows, wb))), out)
        return out[0] if ca is None and cb is None else out

    @staticmethod
    def _flat(state):
        return state.flat if isinstance(state, State) else state

    def difference(self, a, b):
        """Tangent of the way from state a to state b, in the order of tangent_names."""
        return self._by_rows(self._compiled.difference, self._flat(a), self._size, "a", self._flat(b), self._size, "b", len(self.tangent_names))

    def integrate(self, state, tangent):
        """The state moved along a tangent."""
        flat = self._by_rows(self._compiled.move, self._flat(state), self._size, "state", tangent, len(self.tangent_names), "tangent", self._size)
        return State(self, flat)

    def to_tangent(self, state, qpos_bar):
        """Cotangents of qpos in the tangent space (nv) from those of its numbers (nq): the part along a quaternion has no effect."""
        return self._by_rows(self._compiled.to_tangent, self._flat(state), self._size, "state", qpos_bar, self.nq, "cotangent", self.nv)

    def to_ambient(self, state, tangent_bar):
        """Cotangents of qpos by its numbers (nq) from those in the tangent space (nv)."""
        return self._by_rows(self._compiled.to_ambient, self._flat(state), self._size, "state", tangent_bar, self.nv, "cotangent", self.nq)

    # ---- many steps -------------------------------------------------------------------------------------------------------
    def rollout(self, state, ctrl=None, **options):
        from .rollout import Rollout
        return Rollout(self, state, ctrl, **options)

    def linearize(self, state, ctrl=None, sensors=False):
        """Jacobians (A, B) of one step: of the next tangent by that of the state and by ctrl, in the order of tangent_names.

        Of B worlds (B, n, n) and (B, n, nu). sensors: also (C, D), of sensordata.
        """
        from .rollout import linearize
        return linearize(self, state, ctrl, sensors)

    def __reduce__(self):
        return _unpacked, (self._compiled.pack(), self._theta.tobytes())

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __eq__(self, other):
        if not isinstance(other, Model):
            return NotImplemented
        same = self._compiled is other._compiled or self._compiled.pack() == other._compiled.pack()
        return same and np.array_equal(self._theta, other._theta)

    def __hash__(self):
        return hash(self._theta.tobytes())

    def __repr__(self):
        return f"<Model {self.name}: nq {self.nq}, nv {self.nv}, nu {self.nu}, na {self.na}, {len(self.params)} parameters, {self.timestep:g} s a step>"
