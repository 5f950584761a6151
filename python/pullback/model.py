"""Models: loaded from MJCF, URDF or a task file, with their parameters, states, steps and Jacobians."""
from __future__ import annotations

import difflib
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias

import numpy as np

from . import _core
from .arrays import Description, batched, path_of, paths_of, real, refuse_mujoco, shaped, whole, words
from .checks import Checks
from .errors import ArgumentError, UnsupportedError
from .names import OBJECTS, C, Thing, find, names
from .published import expanded, private, unpacked, write_below
from .state import State, flat_of

if TYPE_CHECKING:
    import mujoco

    from .arrays import Array, ArrayLike
    from .kinematics import Contacts, Inverse, Jac
    from .options import Constants, GradientKind, OnFailure
    from .progress import Progress
    from .rollout import Rollout

Setting: TypeAlias = str | float | bool
# A file, or the dict that its JSON holds.
Described: TypeAlias = str | os.PathLike[str] | Mapping[str, object] | None
Folders: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
_INERTIA = {word: C[f"pb_inertia{word.title()}"] for word in ("refuse", "keep", "repair")}
_MISSING = {"refuse": False, "skip": True}
# What a model has so many of, in words that complete; the other sizes are those of what follows from them.
_SIZES = ("nq", "nv", "nu", "na", "nbody", "njnt", "ngeom", "nsite", "ncam", "nlight", "npair", "nexclude", "neq", "ntendon", "nwrap", "nsensor", "nsensordata",
          "nhistory", "nkey", "nnumeric", "ntext", "ntuple", "nmat", "nmocap", "nmesh", "nhfield", "npoint", "ncommand")


class Parameter(NamedTuple):
    """What there is to know of a parameter beside its values.

    unit as text ("kg"); meaning in a few words; rows, cols and offset in theta; range lower to upper; derived: follows from others; option: of no thing.
    """
    name: str
    unit: str
    meaning: str
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
    def place(self) -> slice:
        """Its entries in theta."""
        return slice(self.offset, self.offset + self.rows * self.cols)

    @property
    def shape(self) -> tuple[int, ...]:
        """MuJoCo's: (rows, cols) without axes of one entry that a single number or row does not need."""
        columns = () if self.cols == 1 else (self.cols,)
        return columns if self.option else (self.rows, *columns)


class Params(Mapping[str, "Array"]):
    """Parameters by name, as read-only arrays in MuJoCo's shapes; also parts: params["geom_friction:floor"]."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def __getitem__(self, name: str) -> Array:
        p, shape = self._model._parameter(name)
        view = self._model._theta[p.place].reshape(shape)
        view.flags.writeable = False
        return view

    def __iter__(self) -> Iterator[str]:
        return iter(self._model._parameters)

    def __len__(self) -> int:
        return len(self._model._parameters)

    def __contains__(self, name: object) -> bool:
        try:
            self._model._parameter(name)
        except (KeyError, TypeError):
            return False
        return True

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Params):
            return NotImplemented
        return self is other or (list(self) == list(other) and all(np.array_equal(self[n], other[n]) for n in self))

    __hash__ = None  # type: ignore[assignment]

    def _ipython_key_completions_(self) -> list[str]:
        """What params["<Tab> offers: all names, and of what has a name its rows, "geom_friction:floor"."""
        kinds = {number: self._model.names(kind) for kind, number in OBJECTS.items()}
        rows = [f"{p.name}:{thing}" for p in self._model._parameters.values() if not p.option for thing in kinds.get(p.rows_are, ()) if thing and p.rows]
        return [*self, *rows]

    def about(self, name: str) -> Parameter:
        """Unit, range, shape and place of a parameter or of a part of it; KeyError where there is none of the name."""
        return self._model._parameter(name)[0]

    def __repr__(self) -> str:
        return f"<{len(self)} parameters: {', '.join(self)}>"


def _texts(settings):
    """Names and values of settings as the C library reads them."""
    if settings is not None and not isinstance(settings, Mapping):
        raise ArgumentError(f"settings: expected a dict of values by name, found {type(settings).__name__}")
    text = lambda v: ("enable" if v else "disable") if isinstance(v, (bool, np.bool_)) else ",".join(map(str, v)) if isinstance(v, (list, tuple)) else \
        repr(float(v)) if isinstance(v, (float, np.floating)) else str(v)
    return {str(name): text(value) for name, value in (settings or {}).items()}


def _read(text):
    """The value of a setting as load takes it."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return {"enable": True, "disable": False}.get(text, text)


def _compile(path, text, *, options=None, contact=None, allow_root=(), package_path=(), floating_base=False, inertia="refuse", fuse=False,
             motors=False, missing_meshes="refuse", design=False, expose=(), deformables=None, policy=None, spec=None):
    for name, value, allowed in (("inertia", inertia, _INERTIA), ("missing_meshes", missing_meshes, _MISSING)):
        if value not in allowed:
            raise ArgumentError(f"{name}: expected {', '.join(allowed)}, found {value!r}")
    with Description(deformables, "deformables") as deformables, Description(policy, "policy") as policy:
        return _core.Compiled(path=path, text=text, allow_root=paths_of(allow_root, "allow_root"),
                              package_path=paths_of(package_path, "package_path", lists=True),
                              floating_base=bool(floating_base), fuse=bool(fuse), motors=bool(motors), inertia=_INERTIA[inertia],
                              skip_missing=_MISSING[missing_meshes], design=bool(design), options=_texts(options), deformables=deformables,
                              expose=(expose,) if isinstance(expose, str) else tuple(expose), policy=policy, contact=_texts(contact),
                              spec=spec)


def load(path: str | os.PathLike[str], *, options: Mapping[str, object] | None = None, contact: Mapping[str, object] | None = None,
         allow_root: Folders = (), deformables: Described = None, policy: Described = None, expose: str | Sequence[str] = (),
         design: bool = False, package_path: Folders = (), floating_base: bool = False, fuse: bool = False, motors: bool = False,
         inertia: str = "refuse", missing_meshes: str = "refuse", xacro: bool | Mapping[str, object] = False,
         result: Described = None) -> Model:
    """A model from a file: MJCF, URDF, MuJoCo's archives (.mjz), or a task (.json), of which the world is taken.

    options        what no gradient reaches, by MuJoCo's names: {"tolerance": 1e-8, "integrator": "RK4", "contact": False}
    contact        how contacts are modelled: {"method": "soft"}; docs/contact-gradients.md has all of them
    allow_root     further folders that the model may read files from
    deformables    bodies that deform, in the model's world: a file or a dict (docs/deformables.md)
    policy         a controller in the loop: a description (file or dict), or "W.npz" with its weights (docs/policies.md)
    expose         parameters on request: "mesh_vert:NAME", "hfield_data:NAME"
    design         True: masses and frames follow parameters of meshes, densities are parameters
    package_path   URDF: folders with ROS packages
    floating_base  URDF: the root link moves freely
    fuse, motors   URDF: links behind fixed joints become part of their parents; a motor on each joint that mimics none
    inertia        URDF: "refuse", "keep" or "repair" inertias that no body has
    missing_meshes  URDF: "refuse" or "skip" collision meshes whose files are missing
    xacro          True, or arguments by name: the file is expanded first, by the package xacrodoc. This runs what the file says: only for
                   files that you trust
    result         what optimize found, as Model.with_result takes it

    Raises InputError with file, line and reason, UnsupportedError, FileError.
    """
    refuse_mujoco(path, "path")
    file = os.fsdecode(path_of(path, "path"))
    settings = {"options": options, "contact": contact, "deformables": deformables, "policy": policy, "expose": expose, "design": design,
                "package_path": package_path, "floating_base": floating_base, "fuse": fuse, "motors": motors, "inertia": inertia,
                "missing_meshes": missing_meshes}
    if xacro or not isinstance(xacro, bool):
        with expanded(file, xacro, _each(paths_of(package_path, "package_path", lists=True))) as (made, roots):
            compiled = _compile(made, None, allow_root=[*roots, *_each(paths_of(allow_root, "allow_root"))], **settings)
    elif file.lower().endswith(".mjz"):
        with unpacked(file) as made:
            compiled = _compile(made, None, allow_root=allow_root, **settings)
    else:
        compiled = _compile(file, None, allow_root=allow_root, **settings)
    model = Model(compiled, None)
    model._keep(path=os.path.abspath(file))
    return model if result is None else model.with_result(result)


def _each(folders):
    """Those of a list as the library takes it."""
    return folders.split(":") if folders else []


def loads(text: str, assets: Mapping[str, bytes | str] | None = None, *, name: str = "model.xml", options: Mapping[str, object] | None = None,
          contact: Mapping[str, object] | None = None, deformables: Described = None, policy: Described = None, expose: str | Sequence[str] = (),
          design: bool = False, floating_base: bool = False, fuse: bool = False, motors: bool = False, inertia: str = "refuse",
          missing_meshes: str = "refuse") -> Model:
    """A model from the text of an MJCF or URDF file. name: what messages call it; the other options are those of load.

    assets: the files that it names, {"meshes/foot.stl": bytes}; no other file is read. Raises as load.
    """
    settings = {"options": options, "contact": contact, "deformables": deformables, "policy": policy, "expose": expose, "design": design,
                "floating_base": floating_base, "fuse": fuse, "motors": motors, "inertia": inertia, "missing_meshes": missing_meshes}
    refuse_mujoco(text, "text")
    if not isinstance(text, (str, bytes)):
        raise ArgumentError(f"text: expected that of a model, found {type(text).__name__}")
    if not assets:
        return Model(_compile(name, text, **settings), None)
    with private() as folder:
        for path, data in {**assets, name: text}.items():
            write_below(folder, path, data, "assets")
        return Model(_compile(os.path.join(folder, name), None, **settings), None)


def _unpacked(packed, theta, path):
    """A model from a pickle."""
    model = Model(_core.Compiled.unpack(packed), np.frombuffer(theta, dtype=np.float64).copy())
    model._keep(path=path)
    return model


class Model(_core.Model):
    """A compiled model and the parameters that act where none are given. It never changes; with_params makes another. Made by load and loads.

    nq, nv, nu, na, nbody, ...  sizes by MuJoCo's names: numbers of qpos, dofs, controls, activations, bodies with the world
    params                      what can be differentiated: by name, read-only, in MuJoCo's shapes and units (params.about)
    timestep                    s
    option, contact             what no gradient reaches, as load takes it
    path, name                  of the file that it was loaded from
    warnings                    of the load, one text each

    Pickles, copies and compares; a copy is the model itself. One model serves any number of threads.
    """

    params: Params
    path: str | None
    warnings: tuple[str, ...]  # of the load

    if TYPE_CHECKING:  # sizes: attributes of type int, found when they are first asked for
        nq: int
        nv: int
        nu: int
        na: int
        nbody: int
        njnt: int
        ngeom: int
        nsite: int
        ncam: int
        nlight: int
        npair: int
        nexclude: int
        neq: int
        ntendon: int
        nwrap: int
        nsensor: int
        nsensordata: int
        nhistory: int
        nudelay: int
        nsensordelay: int
        nkey: int
        nnumeric: int
        nnumericdata: int
        ntext: int
        ntuple: int
        nmat: int
        nmocap: int
        nmesh: int
        nmeshvert: int
        nmeshgraph: int
        nmeshpoly: int
        nmeshpolyvert: int
        nmeshpolymap: int
        nmeshface: int
        nhfield: int
        nhfielddata: int
        ndesignbody: int
        ndesigngeom: int
        ndesignmesh: int
        nuser_body: int
        nuser_jnt: int
        nuser_geom: int
        nuser_site: int
        nuser_cam: int
        nuser_tendon: int
        nuser_actuator: int
        nuser_sensor: int
        npoint: int
        ncommand: int

    def __new__(cls, compiled: _core.Compiled, theta: Array | None) -> Self:
        theta = np.frombuffer(compiled.theta(), dtype=np.float64).copy() if theta is None else theta
        theta.flags.writeable = False
        self = super().__new__(cls, compiled, theta)
        self._compiled, self._theta, self._fields, self._checks = compiled, theta, {}, Checks()
        self._parameters = MappingProxyType({p.name: p for p in (Parameter(*row) for row in compiled.params())})
        self._slots = {name: slice(offset, offset + size) for name, offset, size in compiled.state_fields()}
        self._size = max((place.stop for place in self._slots.values()), default=0)
        self._keep(path=None, params=Params(self), warnings=tuple(compiled.warnings().splitlines()))
        return self

    def _keep(self, **values):
        """What was worked out once; from outside nothing is set."""
        self.__dict__.update(values)

    def __dir__(self) -> list[str]:
        return [*{*super().__dir__(), *_SIZES}]

    if not TYPE_CHECKING:  # where they would allow every name
        def __getattr__(self, name):
            if name.startswith("n"):
                size = self._compiled.size(name)
                if size >= 0:
                    self._keep(**{name: size})
                    return size
            raise AttributeError(f"a model has no '{name}'")

        def __setattr__(self, name, value):
            if not name.startswith("_"):
                raise AttributeError(f"a model never changes: {self._way_of(name)}")
            object.__setattr__(self, name, value)

        def __delattr__(self, name):
            raise AttributeError(f"a model never changes: '{name}' stays")

    def _way_of(self, name):
        """How another value of what is called so comes about, in words."""
        if name in self._parameters:
            return f"with_params({{'{name}': ...}}) makes another"
        for what, settings in (("options", self.option), ("contact", self.contact)):
            if name in settings:
                return f"load({what}={{'{name}': ...}}) makes another"
        near = difflib.get_close_matches(name, self._parameters, 1)
        return f"with_params makes another, of the parameters that it has, and '{name}' is none" + (f"; did you mean '{near[0]}'?" if near else "")

    def _parameter(self, name):
        """The slice of a name and its shape; KeyError with the nearest name."""
        if name in self._parameters:
            p = self._parameters[name]
            return p, p.shape
        if not isinstance(name, str) or ":" not in name:
            near = difflib.get_close_matches(name, self._parameters, 1) if isinstance(name, str) else []
            raise KeyError(f"no parameter {name!r}" + (f"; did you mean '{near[0]}'?" if near else f"; there are {', '.join(list(self._parameters)[:6])}, ..."))
        try:
            p = Parameter(*self._compiled.param(name))
        except ArgumentError as error:
            raise KeyError(str(error)) from None

        # A row of one thing is a row, and an entry a number.
        field = self._parameters[self._field_of(name)]
        parts = name.count(":") - field.name.count(":")
        rows = (p.rows,) if p.rows > 1 else ()
        columns = (p.cols,) if p.cols > 1 or (parts == 1 and field.cols > 1 and not field.option) else ()
        return p, rows + columns

    def _field_of(self, name):
        """The parameter that a name or a part of it belongs to: "body_mass" of "body_mass:arm", "mesh_vert:foot" of "mesh_vert:foot:3"."""
        while name not in self._parameters:
            name, _, rest = name.rpartition(":")
            if not rest:
                raise KeyError(f"no parameter {name!r}")
        return name

    def with_params(self, values: Mapping[str, ArrayLike]) -> Model:
        """A model with other parameters, as if its file had said so: what derives from them is computed again.

        values: by name, each in the shape of params[name] and in its unit (params.about). Raises KeyError for a name, ArgumentError
        for a shape, InputError where a value is out of range.
        """
        theta, each = self._theta.copy(), self._each(values, "values")
        for name, p, shape in each:
            theta[p.place] = shaped(values[name], shape, name).ravel()
        self._compiled.check_params(theta)
        if values:
            given = theta.copy()
            self._compiled.constants(theta)
            self._follow(((name, p) for name, p, _ in each), given, theta)
        return self._with_theta(theta)

    def with_result(self, result: Described) -> Model:
        """The model with the parameters that optimize found: a Result, or the path of its JSON. Where its task has "constants": "recompute",
        what derives from them is computed again, else it stays.

        What was found of states and controls is in the Result's trajectory. Raises InputError with file and place: a parameter that the model
        does not have, or out of its range.
        """
        theta = self._theta.copy()
        with Description(result, "result") as path:
            if path is None:
                raise ArgumentError("result: expected a Result or a path, found None")
            recompute = self._compiled.found(path, theta)
        self._compiled.check_params(theta)
        if recompute:
            self._compiled.constants(theta)
        return self._with_theta(theta)

    def save(self, path: str | os.PathLike[str], *, strict: bool = False) -> str:
        """The model with its parameters as an MJCF file (docs/export.md), which load and MuJoCo read again to the same numbers; returns its path.

        What MJCF cannot say (deformables, a policy, contact settings, restitution, ...) is a warning each; strict: an error, with nothing
        written. A name that ends in .c: the policy and its weights instead, as a function of C99 that needs nothing else and has the same bits;
        in .onnx: as a graph of ONNX in float, by the package onnx (pullback[onnx]). Raises ArgumentError for a name that ends in none of
        them, a model without a policy (.c, .onnx), or a model from a pickle, which does not know any more what it was made from (.xml);
        UnsupportedError, FileError; ImportError without onnx.
        """
        name = path_of(path, "path")
        if name.endswith(".c"):
            self._compiled.save(name, self._theta)
            return name
        if name.endswith(".onnx"):
            from .onnx import save
            save(self, name)
            return name
        if not name.endswith(".xml"):
            raise ArgumentError(f"path: expected a name that ends in .xml, .c or .onnx, found {name!r}")
        if strict:
            unsaid = self._compiled.save(os.devnull, self._theta).splitlines()
            if unsaid:
                raise UnsupportedError("MJCF cannot say: " + "; ".join(unsaid))
        for line in self._compiled.save(name, self._theta).splitlines():
            warnings.warn(f"{name}: MJCF cannot say {line}", RuntimeWarning, stacklevel=2)
        return name

    def _with_theta(self, theta):
        """The same model with these parameters, whatever they are."""
        theta.flags.writeable = False
        model = _core.Model.__new__(type(self), self._compiled, theta)
        model.__dict__.update(self.__dict__)
        model._keep(_theta=theta, params=Params(model))
        return model

    def to_mujoco(self, model: mujoco.MjModel) -> None:
        """Write the parameters into MuJoCo's model of the same thing: all that it has by the same name (masses, friction, gains, gravity, ...).

        Also what follows from others is written, as it is here. Raises ArgumentError, with nothing written, for a model of other sizes.
        """
        from .bridge import parameters_to
        parameters_to(self, model)

    def _each(self, values, what):
        """Name, slice and shape of each of several parameters, no two of which have an entry in common."""
        if not isinstance(values, Mapping):
            raise ArgumentError(f"{what}: expected a dict of values by name, found {type(values).__name__}")
        each = [(name, *self._parameter(name)) for name in values]
        ordered = sorted((e for e in each if e[1].rows * e[1].cols > 0), key=lambda e: e[1].offset)
        for (first, p, _), (second, q, _) in zip(ordered, ordered[1:], strict=False):
            if q.offset < p.place.stop:
                raise ArgumentError(f"{what}: '{first}' and '{second}' have entries in common")
        return each

    @staticmethod
    def _follow(names, given, theta):
        """Refuses a value of what follows from other parameters, but the one that follows."""
        for name, p in names:
            if p.derived and not np.allclose(given[p.place], theta[p.place], rtol=1e-9, atol=1e-12):
                raise ArgumentError(f"'{name}' follows from other parameters: a rollout takes another value with constants='keep' alone")

    @property
    def name(self) -> str:
        """Of its file, without folder and ending; "" where it came from a text."""
        return os.path.splitext(os.path.basename(self.path or ""))[0]

    @property
    def timestep(self) -> float:
        """Length of a time step, s."""
        return float(self.params["timestep"])

    @property
    def option(self) -> Mapping[str, Setting]:
        """Options that no gradient reaches, as `load(options=...)` takes them: integrator, cone, tolerance, iterations, flags, ..."""
        return MappingProxyType({name: _read(text) for name, text in self._compiled.options()})

    @property
    def contact(self) -> Mapping[str, Setting]:
        """How contacts are modelled, as `load(contact=...)` takes it: method, kappa, erp, ... (docs/contact-gradients.md)."""
        return MappingProxyType({name: _read(text) for name, text in self._compiled.contact()})

    @property
    def point_mass(self) -> Array:
        """(npoint,): masses of the points of deformables, kg, at the model's parameters: what `params["point_mass"]` lists, and what densities give.

        Zero of points that move with a body. Momentum is `model.point_mass @ state.point_velocity.reshape(-1, 3)`.
        """
        return np.frombuffer(self._compiled.point_masses(self._theta)).copy()

    @property
    def tangent_names(self) -> tuple[str, ...]:
        """What the entries of a tangent are, in the order of linearize."""
        if "_tangent_names" not in self.__dict__:
            self._keep(_tangent_names=tuple(self._compiled.entry_names(True)))
        return self._tangent_names

    # ---- things by name -----------------------------------------------------------------------------------------------
    def _field(self, name):
        """A compiled field by MuJoCo's name, as MuJoCo shapes it."""
        if not self._fields:
            self._fields.update({n: np.frombuffer(data, np.intc if kind == "i" else np.float64).reshape((rows, cols) if cols != 1 else (rows,))
                                 for n, rows, cols, kind, data in self._compiled.fields()})
        return self._fields[name]

    def _fields_of_mujoco(self):
        """Names of all compiled fields."""
        self._field("body_parentid")
        return tuple(self._fields)

    def body(self, name: str | int) -> Thing:
        """A body by name or number; ArgumentError with the nearest name."""
        return find(self, "body", name)

    def joint(self, name: str | int) -> Thing:
        """A joint by name or number: its places in qpos and qvel; ArgumentError with the nearest name."""
        return find(self, "joint", name)

    def geom(self, name: str | int) -> Thing:
        """A geom by name or number; ArgumentError with the nearest name."""
        return find(self, "geom", name)

    def site(self, name: str | int) -> Thing:
        """A site by name or number; ArgumentError with the nearest name."""
        return find(self, "site", name)

    def tendon(self, name: str | int) -> Thing:
        """A tendon by name or number; ArgumentError with the nearest name."""
        return find(self, "tendon", name)

    def actuator(self, name: str | int) -> Thing:
        """An actuator by name or number: its places in ctrl and act; ArgumentError with the nearest name."""
        return find(self, "actuator", name)

    def sensor(self, name: str | int) -> Thing:
        """A sensor by name or number: its place in sensordata; ArgumentError with the nearest name."""
        return find(self, "sensor", name)

    def names(self, kind: str) -> tuple[str, ...]:
        """Names of all things of a kind ("body", "joint", "geom", "site", "tendon", "actuator", "sensor", "keyframe", ...) in order, "" where
        one has none. Raises ArgumentError for another kind."""
        if kind not in OBJECTS:
            raise ArgumentError(f"kind: expected {', '.join(OBJECTS)}, found {kind!r}")
        return names(self, kind)

    # ---- states -----------------------------------------------------------------------------------------------------
    def init(self, keyframe: str | int | None = None, batch: int | None = None) -> State:
        """The state that the model begins in: its reference configuration at rest, or a keyframe by name or number (from 0).

        batch: so many of them side by side, flat (B, StateSize); None: one, flat (StateSize,). Raises ArgumentError where there is no such
        keyframe.
        """
        x = np.zeros(self._size)
        self._init_into(-1 if keyframe is None else find(self, "keyframe", keyframe).id, x)
        return State(self, x if batch is None else np.repeat(x[None], whole(batch, "batch", 1), axis=0))

    def state(self, flat: ArrayLike) -> State:
        """A state from all its numbers, (StateSize,) or (B, StateSize); a copy. Raises ArgumentError for another shape, or NaN."""
        refuse_mujoco(flat, "state")
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

    def step(self, state: State | ArrayLike, ctrl: ArrayLike | None = None) -> State:
        """The state one time step later; the one given stays as it is.

        ctrl: (nu,) or (B, nu), in the units of the actuators; None: zero. With controls of B worlds a state of one world becomes B of them.
        Raises StepError, ArgumentError for a shape.
        """
        state = self.state(self._flat(state))
        if ctrl is not None and state.batch is None and np.ndim(ctrl) == 2:
            state = State(self, np.repeat(state.flat[None], len(ctrl), axis=0))
        if ctrl is not None:
            ctrl = self._read_ctrl(ctrl, state.batch or 0)
        self.step_into(state, ctrl)
        return state

    def evaluate(self, state: State | ArrayLike, ctrl: ArrayLike | None = None, names: str | Sequence[str] = ("M", "qfrc_bias", "qacc", "sensordata")) -> Any:
        """Quantities at a state without a step, by MuJoCo's names: {"M": (nv, nv), "qfrc_bias": (nv,), "xpos": (nbody, 3), ...}.

        ctrl: (nu,) or (B, nu), None: zero. Of B worlds a list of B dicts, as numbers of contacts and rows may differ. `inspect` has
        all names. Raises KeyError for one that is none, StepError.
        """
        names = (names,) if isinstance(names, str) else tuple(names)
        state = self.state(self._flat(state))
        flat = np.atleast_2d(state.flat)
        if ctrl is not None:
            ctrl = np.ascontiguousarray(np.atleast_2d(self._read_ctrl(ctrl, state.batch or 0)))
        sensors = np.zeros((len(flat), self.nsensordata))
        wanted = tuple(n for n in names if n != "sensordata")
        worlds = []
        for row, found in zip(sensors, self._evaluate(len(flat), flat, ctrl, sensors, 0, wanted), strict=True):
            shaped_by = {n: np.frombuffer(data).reshape((rows, cols) if cols != 1 else (rows,)) for n, (rows, cols, data) in zip(wanted, found, strict=True)}
            worlds.append({n: row if n == "sensordata" else shaped_by[n] for n in names})
        return worlds if state.batch is not None else worlds[0]

    def contacts(self, state: State | ArrayLike, ctrl: ArrayLike | None = None) -> Contacts:
        """Contacts of geoms at a state of one world, as arrays: places, frames, distances, forces and pairs, with derivatives (Contacts.jvp).

        ctrl: (nu,), on which forces depend; None: zero. Raises StepError, ArgumentError for shapes or a batch.
        """
        from .kinematics import contacts
        return contacts(self, state, ctrl)

    def jac(self, state: State | ArrayLike, of: Thing | str, *, point: ArrayLike | None = None, along: ArrayLike | None = None) -> Jac:
        """Jacobian of a body, site or geom at a state: jacp (3, nv) of its place and jacr (3, nv) of its orientation, as of mj_jac.

        of      model.body(...), model.site(...), model.geom(...), or the name of a body: the place of its frame
        point   (3,): another place, m, in the world, which is fixed to that body
        along   (nv,): a direction of qpos; the Jac has their derivatives along it, dp and dr, too (with qvel for it, those by time)

        Raises ArgumentError for shapes, a batch or another thing.
        """
        from .kinematics import jac, thing_of
        return jac(self, state, thing_of(self, of), point, along)

    def inverse(self, state: State | ArrayLike, qacc: ArrayLike, *, derivative: bool = False) -> Inverse:
        """Inverse dynamics: the forces on dofs, (nv,), under which the accelerations at a state are qacc, (nv,): MuJoCo's qfrc_inverse.

        Contacts and limits push, actuators with their controls at zero are part of what is found. derivative: also `by`, (nv, n + nv), by the
        state and by qacc. By Newton's method on the accelerations, to rounding: load with options={"tolerance": 0}. Raises ArgumentError for
        shapes, StepError where it does not end.
        """
        from .kinematics import inverse
        return inverse(self, state, qacc, derivative)

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

    def _flat(self, state):
        return flat_of(self, state)

    def _entries(self):
        """What each number of a state is, in words."""
        if "_entry_names" not in self.__dict__:
            self._keep(_entry_names=tuple(self._compiled.entry_names(False)))
        return self._entry_names

    def difference(self, a: State | ArrayLike, b: State | ArrayLike) -> Array:
        """Tangent of the way from state a to state b, (n,) or (B, n) in the order of tangent_names: integrate(a, difference(a, b)) is b.

        a, b: a State or all its numbers; one of them may have B rows and the other one. Raises ArgumentError for shapes.
        """
        return self._by_rows(self._compiled.difference, self._flat(a), self._size, "a", self._flat(b), self._size, "b", len(self.tangent_names))

    def integrate(self, state: State | ArrayLike, tangent: ArrayLike) -> State:
        """The state moved along a tangent, (n,) or (B, n) in the order of tangent_names: m and rad, m/s and rad/s. Quaternions keep their length.

        What an optimizer calls after a step on gradients: model.integrate(s, -rate * g.state). Raises ArgumentError for shapes.
        """
        flat = self._by_rows(self._compiled.move, self._flat(state), self._size, "state", tangent, len(self.tangent_names), "tangent", self._size)
        return State(self, flat)

    def to_tangent(self, state: State | ArrayLike, qpos_bar: ArrayLike) -> Array:
        """Cotangents of qpos in the tangent space, (nv,) or (B, nv), from those by its numbers, (nq,) or (B, nq), at a state.

        The part along a quaternion has no effect. Model.to_ambient is the way back. Raises ArgumentError for shapes.
        """
        return self._by_rows(self._compiled.to_tangent, self._flat(state), self._size, "state", qpos_bar, self.nq, "cotangent", self.nv)

    def to_ambient(self, state: State | ArrayLike, tangent_bar: ArrayLike) -> Array:
        """Cotangents of qpos by its numbers, (nq,) or (B, nq), from those in the tangent space, (nv,) or (B, nv), at a state.

        They are perpendicular to the quaternions. Raises ArgumentError for shapes.
        """
        return self._by_rows(self._compiled.to_ambient, self._flat(state), self._size, "state", tangent_bar, self.nv, "cotangent", self.nq)

    # ---- many steps -------------------------------------------------------------------------------------------------------
    def rollout(self, state: State | ArrayLike, ctrl: ArrayLike | None = None, *, steps: int | None = None,
                params: Mapping[str, ArrayLike] | None = None, constants: Constants = "recompute", qfrc_applied: ArrayLike | None = None,
                xfrc_applied: ArrayLike | None = None, mocap_pos: ArrayLike | None = None, mocap_quat: ArrayLike | None = None,
                mocap_vel: ArrayLike | None = None, mocap_pos_before: ArrayLike | None = None, mocap_quat_before: ArrayLike | None = None,
                command: ArrayLike | None = None, outputs: str | Sequence[str] = ("sensordata",), gradient: GradientKind = "exact",
                memory: int | None = None, threads: int | None = None, on_failure: OnFailure = "raise", keep: bool = True,
                progress: Progress = None) -> Rollout:
        """Many steps in one call, kept for derivatives. All of these but the state may have one leading axis more, of B worlds.

        state           a State, or all its numbers (StateSize,)
        ctrl            (N, nu): controls of each step; None: zero, and `steps` says how many
        params          {"body_mass": (nbody,), "geom_friction:floor": (3,), ...}: in place of the model's
        constants       "recompute" what follows from params, and differentiate through it, or "keep" it
        qfrc_applied    (N, nv): forces on dofs, N or N m;  xfrc_applied (N, nbody, 6): force and torque on bodies, in the world's frame
        mocap_pos       (N, nmocap, 3) m;  mocap_quat (N, nmocap, 4);  command (N, ...): what a policy is told
        mocap_vel       (N, nmocap, 6): how mocap bodies move, m/s and rad/s in the world's axes; None: from row to row of their poses
        mocap_pos_before, mocap_quat_before  (nmocap, 3), (nmocap, 4): where they stood before row 0; None: the model's poses
        outputs         of "sensordata", "xpos", "site_xpos": what is kept of each step, (N + 1, ...)
        gradient        "exact", of the steps as taken; "event", in which times of contact move; "smooth" (docs/contact-gradients.md)
        memory          bytes of tape, beyond which states are checkpointed and run again; None: an eighth of the machine's
        keep            False: no tape, and no derivatives
        threads         cores for a batch; None: all that the process may run on. Results do not depend on it
        on_failure      "raise" StepError, or "mask": status, steps_done
        progress        progress(phase, done, total, seconds, left), of the rollout and of its derivatives: steps of all worlds together, at most
                        ten times a second; what it raises ends the call. True: a line on standard error

        Returns a Rollout. Raises ArgumentError for what does not fit, KeyError for a parameter's name, InputError for a parameter out of its
        range, StepError, CapacityError.
        """
        from .rollout import Rollout
        return Rollout(self, state, ctrl, steps=steps, params=params, constants=constants, qfrc_applied=qfrc_applied, xfrc_applied=xfrc_applied,
                       mocap_pos=mocap_pos, mocap_quat=mocap_quat, mocap_vel=mocap_vel, mocap_pos_before=mocap_pos_before,
                       mocap_quat_before=mocap_quat_before, command=command, outputs=outputs, gradient=gradient, memory=memory, threads=threads,
                       on_failure=on_failure, keep=keep, progress=progress)

    def linearize(self, state: State | ArrayLike, ctrl: ArrayLike | None = None, sensors: bool = False, *, wrt: str | Sequence[str] = "ctrl",
                  qfrc_applied: ArrayLike | None = None, xfrc_applied: ArrayLike | None = None, mocap_pos: ArrayLike | None = None,
                  mocap_quat: ArrayLike | None = None, mocap_vel: ArrayLike | None = None,
                  command: ArrayLike | None = None) -> tuple[Array, ...]:
        """Jacobians (A, B) of one step: the next state moves by A dx + B dctrl, in the order of tangent_names (n of them).

        state     a State, or all its numbers;  ctrl (nu,) or (B, nu); None: zero
        sensors   also (C, D): sensordata of this state moves by C dx + D dctrl
        wrt       what B and D are by: of "ctrl", "mocap_pos", "mocap_rot" (3 nmocap columns each), side by side in this order
        The other inputs act as in rollout, each without the axis of steps.

        A is (n, n) and B (n, nu), C (nsensordata, n) and D (nsensordata, nu); of B worlds with (B, ...) before. Raises ArgumentError for
        shapes, StepError, NotDifferentiableError.
        """
        from .rollout import linearize
        inputs = {"qfrc_applied": qfrc_applied, "xfrc_applied": xfrc_applied, "mocap_pos": mocap_pos, "mocap_quat": mocap_quat, "mocap_vel": mocap_vel, "command": command}
        return linearize(self, state, ctrl, sensors, wrt, inputs)

    def __reduce__(self):
        return _unpacked, (self._compiled.pack(), self._theta.tobytes(), self.path)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: Any) -> Self:
        return self

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Model):
            return NotImplemented
        if not np.array_equal(self._theta, other._theta):
            return False
        try:
            return self._compiled is other._compiled or self._compiled.pack() == other._compiled.pack()
        except UnsupportedError:  # policies have no bytes to compare
            return False

    def __hash__(self) -> int:
        return hash((self._theta + 0.0).tobytes())  # one zero of either sign

    def _repr_html_(self) -> str:
        """What a notebook shows: the model with its joints to move."""
        from .notebook import frame
        return frame(self, None, repr(self))

    def __repr__(self) -> str:
        return f"<Model {self.name}: nq {self.nq}, nv {self.nv}, nu {self.nu}, na {self.na}, {len(self.params)} parameters, {self.timestep:g} s a step>"
