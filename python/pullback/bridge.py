"""From MuJoCo's compiled models and data, and back, with every number in full.

A model goes by the text of an MJCF file (decompile.py), from which both engines compile it again. What MuJoCo makes of the text is compared
with the model that was given, so nothing is lost without a word; then all fields that are parameters here are taken from it as they are.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, overload

import numpy as np

from .arrays import words
from .errors import ArgumentError, UnsupportedError
from .model import Described, Model, loads
from .state import State

if TYPE_CHECKING:
    import mujoco

_OPTIONS = ("timestep", "gravity", "wind", "magnetic", "density", "viscosity", "impratio", "o_margin", "o_solref", "o_solimp", "o_friction")
_APART = ("mesh_scale",)  # a parameter here, and a note there
_STATE = ("time", "qpos", "qvel", "act", "qacc_warmstart")
_NEAR = 1e-6  # numbers that are worked out again from vertices of single precision
# Bounds for finding contacts, which grow with what is found within them; caches of these; sizes of buffers.
_DERIVED = ("geom_rbound", "geom_aabb", "dof_length", "_sizes", "actuator_ctrlspec", "body_margin")


def _mujoco():
    try:
        import mujoco
    except ImportError as error:
        raise ImportError("models of MuJoCo need its package: pip install mujoco") from error
    return mujoco


def _matters(name):
    """Whether a motion may depend on a field of MuJoCo's model."""
    from .follow import seen
    parts = name.split("_")
    return not seen(name) and not name.startswith(("bvh_", "oct_", "mesh_")) and name not in _DERIVED and not parts[-1].endswith(("adr", "adrind"))


def _differences(given: mujoco.MjModel, made: mujoco.MjModel) -> list[str]:
    """What of a model the text of it does not say, in words."""
    found = []
    for name in (n for n in dir(given) if isinstance(getattr(given, n), np.ndarray) and _matters(n)):
        a, b = getattr(given, name), getattr(made, name)
        if a.shape != b.shape:
            found.append(f"{name} has shape {words(a.shape)}, and {words(b.shape)} were made of it")
        elif not np.allclose(a.astype(float), b.astype(float), rtol=_NEAR, atol=_NEAR):
            where = tuple(int(i) for i in np.argwhere(~np.isclose(a.astype(float), b.astype(float), rtol=_NEAR, atol=_NEAR))[0])
            found.append(f"{name}{list(where)} is {a[where]}, and {b[where]} follows from the rest of the model")

    # Of bodies that it calls simple MuJoCo takes the diagonal of the mass matrix as it was compiled.
    stale = (given.dof_simplenum > 0) & ~np.isclose(given.dof_M0, made.dof_M0, rtol=_NEAR, atol=0)
    if stale.any():
        found.append(f"dof_M0[{int(np.flatnonzero(stale)[0])}] is that of other masses: call mujoco.mj_setConst(model, mujoco.MjData(model))")
    return found


def _refuse(m: mujoco.MjModel) -> None:
    """Raises for what has no counterpart here at all."""
    for size, what in (("nflex", "flexes"), ("nplugin", "plugins")):
        if getattr(m, size):
            raise UnsupportedError(f"{what}: the model has {getattr(m, size)}, which have no counterpart here")


def _with_fields(base: Model, m: mujoco.MjModel) -> tuple[Model, list[str]]:
    """The model with all parameters as MuJoCo's model has them, and in words what is not."""
    theta, said = base._theta.copy(), []
    meshes = np.isin(m.geom_type, (7, 8))
    for name, p in base._parameters.items():
        of = m.opt if name in _OPTIONS else m
        if name in _APART or not hasattr(of, name) or p.place.start == p.place.stop:  # delays where nothing keeps samples
            continue
        value, own = np.asarray(getattr(of, name), dtype=float), theta[p.place]
        if value.size != own.size:
            said.append(f"{name}: {own.size} numbers, and {value.size} in MuJoCo's model")
            continue
        rows = np.ones((own.size // p.cols, p.cols), dtype=bool)
        if name in ("geom_pos", "geom_quat"):
            # The frame of a mesh is its own principal axes, which may have come out as others.
            far = ~np.isclose(own.reshape(-1, p.cols), value, rtol=0, atol=_NEAR).all(axis=1)
            rows[far & meshes] = False
        own[rows.ravel()] = value.ravel()[rows.ravel()]
        if not rows.all():
            said.append(f"{name} of {int((~rows[:, 0]).sum())} geoms of meshes is that of other axes of the mesh")
    base._compiled.check_params(theta)
    return base._with_theta(theta), said


def _left(model: Model, m: mujoco.MjModel) -> list[str]:
    """Compiled fields that are no parameters and differ from MuJoCo's."""
    found = []
    for name in model._fields_of_mujoco():
        if name in model._parameters or not hasattr(m, name) or not isinstance(getattr(m, name), np.ndarray) or not (_matters(name) or name == "mesh_vert"):
            continue
        a, b = np.asarray(model._field(name), dtype=float), getattr(m, name).astype(float)
        if a.size != b.size:
            found.append(f"{name}: {a.size} numbers, and {b.size} in MuJoCo's model")
        elif not np.allclose(a.ravel(), b.ravel(), rtol=1e-12, atol=1e-12):
            found.append(f"{name} differs by up to {np.abs(a.ravel() - b.ravel()).max():.1e}")
    return found


@overload
def from_mujoco(model: mujoco.MjModel | mujoco.MjSpec, data: None = None, *, options: Mapping[str, object] | None = None,
                contact: Mapping[str, object] | None = None, deformables: Described = None, policy: Described = None,
                expose: str | Sequence[str] = ()) -> Model: ...


@overload
def from_mujoco(model: mujoco.MjModel | mujoco.MjSpec, data: mujoco.MjData, *, options: Mapping[str, object] | None = None,
                contact: Mapping[str, object] | None = None, deformables: Described = None, policy: Described = None,
                expose: str | Sequence[str] = ()) -> tuple[Model, State]: ...


def from_mujoco(model: mujoco.MjModel | mujoco.MjSpec, data: mujoco.MjData | None = None, *, options: Mapping[str, object] | None = None,
                contact: Mapping[str, object] | None = None, deformables: Described = None, policy: Described = None,
                expose: str | Sequence[str] = ()) -> Model | tuple[Model, State]:
    """A model from MuJoCo's own, with all its numbers as they are, wherever it came from: a file, a specification, code that changed it.

    model    mujoco.MjModel, or mujoco.MjSpec, which is compiled
    data     mujoco.MjData: its state comes with the model
    options, contact, deformables, policy, expose  as of load

    Returns the Model, with data (Model, State). Every field that is a parameter here is taken over bit for bit, also one that was changed after
    compiling; all others are compared, and what a motion depends on and no text can say is an UnsupportedError that names the field.
    Smaller differences (vertices of meshes, which MuJoCo keeps in single precision and in frames of its own) are among the model's warnings.
    """
    mj = _mujoco()
    from .decompile import Decompiled
    m = model.compile() if isinstance(model, mj.MjSpec) else model
    if not isinstance(m, mj.MjModel):
        raise ArgumentError(f"model: expected mujoco.MjModel or mujoco.MjSpec, found {type(model).__name__}")
    _refuse(m)
    text = Decompiled(m).text()
    base = loads(text, name="model of MuJoCo", options=options, contact=contact, deformables=deformables, policy=policy, expose=expose)
    lost = _differences(m, mj.MjModel.from_xml_string(text))
    full, said = _with_fields(base, m)
    lost = [text for text in lost if text.split("[")[0].split(" ")[0] not in full._parameters]
    if lost:
        raise UnsupportedError(f"the model has what no parameter here and no text of it says: {'; '.join(lost)}")
    full._keep(warnings=(*base.warnings, *said, *_left(full, m)))
    return full if data is None else (full, State.from_mujoco(full, data))


def _shared(model: Model) -> tuple[str, ...]:
    """Fields that states here and MuJoCo's data have."""
    return _STATE + (("history",) if "history" in model._slots else ())


def state_from(model: Model, data: mujoco.MjData) -> State:
    """The state of MuJoCo's data: State.from_mujoco."""
    if not isinstance(data, _mujoco().MjData):
        raise ArgumentError(f"data: expected mujoco.MjData, found {type(data).__name__}")
    state = model.init()
    if data.history.size and "history" not in model._slots:
        raise ArgumentError(f"data.history: expected none, as the model keeps no samples, found {data.history.size} numbers")
    for name in _shared(model):
        view, value = getattr(state, name), np.asarray(getattr(data, name), dtype=float)
        if view.size != value.size:
            raise ArgumentError(f"data.{name}: expected {view.size} numbers, as the model has, found {value.size}")
        view[...] = value
    if not np.array_equal(data.eq_active, data.model.eq_active0):
        raise UnsupportedError("data.eq_active was changed: in Pullback equalities are active as the model says")
    return state


def state_to(state: State, data: mujoco.MjData) -> None:
    """Writes a state into MuJoCo's data: State.to_mujoco."""
    if state.batch is not None:
        raise ArgumentError(f"to_mujoco: expected the state of one world, found {state.batch}: state[k] is one")
    own = {name: getattr(state, name) for name in _shared(state.model)}
    for name, value in own.items():
        if np.size(getattr(data, name)) != value.size:
            raise ArgumentError(f"data.{name}: expected {value.size} numbers, as the state has, found {np.size(getattr(data, name))}")
    data.time = float(own.pop("time")[0])
    for name, value in own.items():
        getattr(data, name)[:] = value


def parameters_to(model: Model, m: mujoco.MjModel) -> None:
    """Writes parameters into MuJoCo's model: Model.to_mujoco."""
    if not isinstance(m, _mujoco().MjModel):
        raise ArgumentError(f"expected mujoco.MjModel, found {type(m).__name__}")
    there = {}
    for name, value in model.params.items():
        of = m.opt if name in _OPTIONS else m
        if name in _APART or not hasattr(of, name) or not value.size:  # delays where nothing keeps samples
            continue
        there[name] = of, value
        if np.size(getattr(of, name)) != value.size:
            found = np.size(getattr(of, name))
            raise ArgumentError(f"{name}: expected {value.size} numbers, as the model has, found {found}: is it MuJoCo's model of the same?")
    for name, (of, value) in there.items():
        if np.ndim(getattr(of, name)) == 0:
            setattr(of, name, float(value))
        else:
            getattr(of, name)[...] = value.reshape(getattr(of, name).shape)
