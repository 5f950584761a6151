"""Specs as type checkers see them. Made by tools/spec_types.py out of the library's table; what each field is, its docstring says."""
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, Literal, NoReturn, Protocol, Self, TypeAlias, TypedDict, TypeVar, overload

import numpy as np
import numpy.typing as npt
from typing_extensions import Unpack

from .arrays import Array, ArrayLike
from .model import Described, Folders, Model

_Ints: TypeAlias = npt.NDArray[np.intc]
_E = TypeVar("_E", bound=Element, covariant=True)
_G = TypeVar("_G", covariant=True)
_S = TypeVar("_S", contravariant=True)

class _Field(Protocol[_G, _S]):
    def __get__(self, element: object, owner: type | None = None, /) -> _G: ...
    def __set__(self, element: Any, value: _S, /) -> None: ...

KINDS: list[str]

_FrameAlt: TypeAlias = Literal["none", "axisangle", "xyaxes", "zaxis", "euler"]
_JointType: TypeAlias = Literal["free", "ball", "slide", "hinge"]
_GeomType: TypeAlias = Literal["plane", "hfield", "sphere", "capsule", "ellipsoid", "cylinder", "box", "mesh"]
_CameraMode: TypeAlias = Literal["fixed", "track", "trackcom", "targetbody", "targetbodycom"]
_EqualityType: TypeAlias = Literal["connect", "weld", "joint", "tendon"]
_ActuatorTrntype: TypeAlias = Literal["joint", "jointinparent", "cranksite", "tendon", "site", "body", "none"]
_ActuatorDyntype: TypeAlias = Literal["none", "integrator", "filter", "filterexact", "muscle", "dcmotor"]
_ActuatorGaintype: TypeAlias = Literal["fixed", "affine", "muscle", "dcmotor"]
_ActuatorBiastype: TypeAlias = Literal["none", "affine", "muscle", "dcmotor"]
_ActuatorInterp: TypeAlias = Literal["zoh", "linear", "cubic"]
_SensorType: TypeAlias = Literal[
    "touch", "accelerometer", "velocimeter", "gyro", "force", "torque", "magnetometer", "rangefinder", "camprojection", "jointpos", "jointvel",
    "tendonpos", "tendonvel", "actuatorpos", "actuatorvel", "actuatorfrc", "jointactuatorfrc", "tendonactuatorfrc", "ballquat", "ballangvel",
    "jointlimitpos", "jointlimitvel", "jointlimitfrc", "tendonlimitpos", "tendonlimitvel", "tendonlimitfrc", "framepos", "framequat",
    "framexaxis", "frameyaxis", "framezaxis", "framelinvel", "frameangvel", "framelinacc", "frameangacc", "subtreecom", "subtreelinvel",
    "subtreeangmom", "insidesite", "distance", "normal", "fromto", "contact", "e_potential", "e_kinetic", "clock"]
_SensorObjtype: TypeAlias = Literal[
    "none", "body", "xbody", "joint", "geom", "site", "camera", "light", "mesh", "skin", "hfield", "texture", "material", "pair", "exclude",
    "equality", "tendon", "actuator", "sensor", "numeric", "text", "tuple", "key"]
_SensorReduce: TypeAlias = Literal["none", "mindist", "maxforce", "netforce"]
_MeshInertia: TypeAlias = Literal["convex", "exact", "legacy", "shell"]
_WrapType: TypeAlias = Literal["joint", "pulley", "site", "geom"]
_CompilerInertiarule: TypeAlias = Literal["refuse", "keep", "repair"]
_CompilerLengthrangeMode: TypeAlias = Literal["none", "muscle", "muscleuser", "all"]
_OptionIntegrator: TypeAlias = Literal["Euler", "RK4", "implicit", "implicitfast"]
_OptionCone: TypeAlias = Literal["pyramidal", "elliptic"]
_OptionSolver: TypeAlias = Literal["PGS", "CG", "Newton"]

class FrameFields(TypedDict, total=False):
    name: str
    body: Body
    parent: Frame | None
    pos: ArrayLike
    quat: ArrayLike
    alt: _FrameAlt
    value: ArrayLike
    axisangle: ArrayLike
    euler: ArrayLike
    xyaxes: ArrayLike
    zaxis: ArrayLike

class BodyFields(TypedDict, total=False):
    name: str
    parent: Body
    frame: Frame | None
    pos: ArrayLike
    quat: ArrayLike
    alt: _FrameAlt
    value: ArrayLike
    has_inertial: bool
    mass: float
    inertial_pos: ArrayLike | None
    inertial_quat: ArrayLike
    inertial_alt: _FrameAlt
    inertial_value: ArrayLike
    inertial_frame: Frame | None
    diaginertia: ArrayLike
    fullinertia: ArrayLike | None
    inertia_kept: bool
    gravcomp: float
    mocap: bool
    simple: bool
    fuse: bool
    user: ArrayLike
    axisangle: ArrayLike
    euler: ArrayLike
    inertial_axisangle: ArrayLike
    inertial_euler: ArrayLike
    inertial_xyaxes: ArrayLike
    inertial_zaxis: ArrayLike
    xyaxes: ArrayLike
    zaxis: ArrayLike

class JointFields(TypedDict, total=False):
    name: str
    body: Body
    frame: Frame | None
    type: _JointType
    group: int
    pos: ArrayLike
    axis: ArrayLike
    ref: float
    springref: float
    springdamper: ArrayLike
    stiffness: ArrayLike
    damping: ArrayLike
    armature: float
    frictionloss: float
    limited: bool | Literal['auto']
    actfrclimited: bool | Literal['auto']
    range: ArrayLike
    actfrcrange: ArrayLike
    margin: float
    solref_limit: ArrayLike
    solimp_limit: ArrayLike
    solref_friction: ArrayLike
    solimp_friction: ArrayLike
    actgravcomp: bool
    align: bool | Literal['auto']
    user: ArrayLike

class GeomFields(TypedDict, total=False):
    name: str
    body: Body
    frame: Frame | None
    type: _GeomType
    pos: ArrayLike
    quat: ArrayLike
    alt: _FrameAlt
    value: ArrayLike
    fromto: ArrayLike | None
    size: ArrayLike
    contype: int
    conaffinity: int
    condim: int
    group: int
    priority: int
    friction: ArrayLike
    solmix: float
    solref: ArrayLike
    solimp: ArrayLike
    margin: float
    gap: float
    mass: float | None
    density: float
    shell: bool
    fluid_ellipsoid: bool
    fluid_coef: ArrayLike
    rgba: ArrayLike
    material: str
    mesh: str
    hfield: str
    fitscale: float
    user: ArrayLike
    axisangle: ArrayLike
    euler: ArrayLike
    xyaxes: ArrayLike
    zaxis: ArrayLike

class SiteFields(TypedDict, total=False):
    name: str
    body: Body
    frame: Frame | None
    type: _GeomType
    group: int
    pos: ArrayLike
    quat: ArrayLike
    alt: _FrameAlt
    value: ArrayLike
    fromto: ArrayLike | None
    size: ArrayLike
    rgba: ArrayLike
    material: str
    mesh: str
    user: ArrayLike
    axisangle: ArrayLike
    euler: ArrayLike
    xyaxes: ArrayLike
    zaxis: ArrayLike

class CameraFields(TypedDict, total=False):
    name: str
    body: Body
    frame: Frame | None
    pos: ArrayLike
    quat: ArrayLike
    alt: _FrameAlt
    value: ArrayLike
    mode: _CameraMode
    target: str
    fovy: float
    ipd: float
    orthographic: bool
    resolution: ArrayLike
    sensorsize: ArrayLike
    focal: ArrayLike
    focalpixel: ArrayLike
    principal: ArrayLike
    principalpixel: ArrayLike
    user: ArrayLike
    axisangle: ArrayLike
    euler: ArrayLike
    xyaxes: ArrayLike
    zaxis: ArrayLike

class LightFields(TypedDict, total=False):
    name: str
    body: Body
    frame: Frame | None
    pos: ArrayLike
    dir: ArrayLike
    mode: _CameraMode
    target: str
    directional: bool
    castshadow: bool
    active: bool
    attenuation: ArrayLike
    cutoff: float
    exponent: float
    ambient: ArrayLike
    diffuse: ArrayLike
    specular: ArrayLike

class PairFields(TypedDict, total=False):
    name: str
    geom1: str
    geom2: str
    condim: int
    friction: ArrayLike
    solref: ArrayLike
    solimp: ArrayLike
    solreffriction: ArrayLike
    margin: float
    gap: float

class ExcludeFields(TypedDict, total=False):
    name: str
    body1: str
    body2: str

class EqualityFields(TypedDict, total=False):
    name: str
    type: _EqualityType
    active: bool
    name1: str
    name2: str
    sites: bool
    solref: ArrayLike
    solimp: ArrayLike
    anchor: ArrayLike
    relpose: ArrayLike
    torquescale: float
    polycoef: ArrayLike

class TendonFields(TypedDict, total=False):
    name: str
    spatial: bool
    path: Iterable[WrapFields]
    group: int
    limited: bool | Literal['auto']
    actfrclimited: bool | Literal['auto']
    range: ArrayLike
    actfrcrange: ArrayLike
    margin: float
    solref_limit: ArrayLike
    solimp_limit: ArrayLike
    solref_friction: ArrayLike
    solimp_friction: ArrayLike
    frictionloss: float
    springlength: ArrayLike
    stiffness: ArrayLike
    damping: ArrayLike
    armature: float
    width: float
    rgba: ArrayLike
    material: str
    user: ArrayLike

class ActuatorFields(TypedDict, total=False):
    name: str
    trntype: _ActuatorTrntype
    target: str
    refsite: str
    gear: ArrayLike
    dyntype: _ActuatorDyntype
    gaintype: _ActuatorGaintype
    biastype: _ActuatorBiastype
    dynprm: ArrayLike
    gainprm: ArrayLike
    biasprm: ArrayLike
    actdim: int
    actearly: bool
    ctrllimited: bool | Literal['auto']
    forcelimited: bool | Literal['auto']
    actlimited: bool | Literal['auto']
    ctrlrange: ArrayLike
    forcerange: ArrayLike
    actrange: ArrayLike
    inheritrange: float
    lengthrange: ArrayLike
    damping: ArrayLike
    armature: float
    cranklength: float
    nsample: int
    interp: _ActuatorInterp
    delay: float
    group: int
    user: ArrayLike

class SensorFields(TypedDict, total=False):
    name: str
    type: _SensorType
    objtype: _SensorObjtype
    reftype: _SensorObjtype
    objname: str
    refname: str
    cutoff: float
    noise: float
    data: int
    reduce: _SensorReduce
    num: int
    nsample: int
    interp: _ActuatorInterp
    delay: float
    interval: ArrayLike
    user: ArrayLike

class KeyFields(TypedDict, total=False):
    name: str
    time: float
    qpos: ArrayLike | None
    qvel: ArrayLike | None
    act: ArrayLike | None
    ctrl: ArrayLike | None
    mpos: ArrayLike | None
    mquat: ArrayLike | None

class NumericFields(TypedDict, total=False):
    name: str
    size: int
    data: ArrayLike

class TextFields(TypedDict, total=False):
    name: str
    data: str

class TupleFields(TypedDict, total=False):
    name: str
    entries: Iterable[EntryFields]

class MeshFields(TypedDict, total=False):
    name: str
    file: str
    content_type: str
    vertex: ArrayLike
    face: ArrayLike
    scale: ArrayLike
    refpos: ArrayLike
    refquat: ArrayLike
    inertia: _MeshInertia
    maxhullvert: int

class HfieldFields(TypedDict, total=False):
    name: str
    file: str
    content_type: str
    nrow: int
    ncol: int
    elevation: ArrayLike
    size: ArrayLike

class VisualFields(TypedDict, total=False):
    name: str
    element: str
    rgba: ArrayLike
    cells: ArrayLike
    texture: str
    parent: Visual | None
    attributes: Mapping[str, str]

class WrapFields(TypedDict, total=False):
    type: _WrapType
    target: str
    sidesite: str
    value: float

class EntryFields(TypedDict, total=False):
    objtype: _SensorObjtype
    objname: str
    prm: float

class Record:
    kind: str
    @property
    def spec(self) -> Spec: ...
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...

class Element(Record):
    name: str
    @property
    def place(self) -> str: ...
    @property
    def index(self) -> int: ...
    def update(self, **fields: Any) -> None: ...
    def remove(self) -> None: ...

class Settings(Record): ...

class Elements(Generic[_E]):
    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, which: int | str) -> _E: ...
    @overload
    def __getitem__(self, which: slice) -> list[_E]: ...
    def __iter__(self) -> Iterator[_E]: ...
    def __contains__(self, thing: object) -> bool: ...

class Frame(Element):
    body: Body
    parent: Frame | None
    pos: _Field[Array, ArrayLike]
    quat: _Field[Array, ArrayLike]
    alt: _FrameAlt
    value: _Field[Array, ArrayLike]
    axisangle: _Field[Array | None, ArrayLike]
    euler: _Field[Array | None, ArrayLike]
    xyaxes: _Field[Array | None, ArrayLike]
    zaxis: _Field[Array | None, ArrayLike]
    def add_frame(self, **fields: Unpack[FrameFields]) -> Frame: ...
    def add_joint(self, **fields: Unpack[JointFields]) -> Joint: ...
    def add_geom(self, **fields: Unpack[GeomFields]) -> Geom: ...
    def add_site(self, **fields: Unpack[SiteFields]) -> Site: ...
    def add_camera(self, **fields: Unpack[CameraFields]) -> Camera: ...
    def add_light(self, **fields: Unpack[LightFields]) -> Light: ...
    def add_body(self, **fields: Unpack[BodyFields]) -> Body: ...
    def attach(self, other: Spec, prefix: str = "", **fields: Unpack[FrameFields]) -> Frame: ...

class Body(Element):
    parent: Body
    frame: Frame | None
    pos: _Field[Array, ArrayLike]
    quat: _Field[Array, ArrayLike]
    alt: _FrameAlt
    value: _Field[Array, ArrayLike]
    has_inertial: bool
    mass: float
    inertial_pos: _Field[Array, ArrayLike | None]
    inertial_quat: _Field[Array, ArrayLike]
    inertial_alt: _FrameAlt
    inertial_value: _Field[Array, ArrayLike]
    inertial_frame: Frame | None
    diaginertia: _Field[Array, ArrayLike]
    fullinertia: _Field[Array, ArrayLike | None]
    inertia_kept: bool
    gravcomp: float
    mocap: bool
    simple: bool
    fuse: bool
    user: _Field[Array, ArrayLike]
    axisangle: _Field[Array | None, ArrayLike]
    euler: _Field[Array | None, ArrayLike]
    inertial_axisangle: _Field[Array | None, ArrayLike]
    inertial_euler: _Field[Array | None, ArrayLike]
    inertial_xyaxes: _Field[Array | None, ArrayLike]
    inertial_zaxis: _Field[Array | None, ArrayLike]
    xyaxes: _Field[Array | None, ArrayLike]
    zaxis: _Field[Array | None, ArrayLike]
    def add_frame(self, **fields: Unpack[FrameFields]) -> Frame: ...
    def add_joint(self, **fields: Unpack[JointFields]) -> Joint: ...
    def add_geom(self, **fields: Unpack[GeomFields]) -> Geom: ...
    def add_site(self, **fields: Unpack[SiteFields]) -> Site: ...
    def add_camera(self, **fields: Unpack[CameraFields]) -> Camera: ...
    def add_light(self, **fields: Unpack[LightFields]) -> Light: ...
    def add_body(self, **fields: Unpack[BodyFields]) -> Body: ...
    def attach(self, other: Spec, prefix: str = "", **fields: Unpack[FrameFields]) -> Frame: ...

class Joint(Element):
    body: Body
    frame: Frame | None
    type: _JointType
    group: int
    pos: _Field[Array, ArrayLike]
    axis: _Field[Array, ArrayLike]
    ref: float
    springref: float
    springdamper: _Field[Array, ArrayLike]
    stiffness: _Field[Array, ArrayLike]
    damping: _Field[Array, ArrayLike]
    armature: float
    frictionloss: float
    limited: bool | Literal['auto']
    actfrclimited: bool | Literal['auto']
    range: _Field[Array, ArrayLike]
    actfrcrange: _Field[Array, ArrayLike]
    margin: float
    solref_limit: _Field[Array, ArrayLike]
    solimp_limit: _Field[Array, ArrayLike]
    solref_friction: _Field[Array, ArrayLike]
    solimp_friction: _Field[Array, ArrayLike]
    actgravcomp: bool
    align: bool | Literal['auto']
    user: _Field[Array, ArrayLike]

class Geom(Element):
    body: Body
    frame: Frame | None
    type: _GeomType
    pos: _Field[Array, ArrayLike]
    quat: _Field[Array, ArrayLike]
    alt: _FrameAlt
    value: _Field[Array, ArrayLike]
    fromto: _Field[Array, ArrayLike | None]
    size: _Field[Array, ArrayLike]
    contype: int
    conaffinity: int
    condim: int
    group: int
    priority: int
    friction: _Field[Array, ArrayLike]
    solmix: float
    solref: _Field[Array, ArrayLike]
    solimp: _Field[Array, ArrayLike]
    margin: float
    gap: float
    mass: _Field[float, float | None]
    density: float
    shell: bool
    fluid_ellipsoid: bool
    fluid_coef: _Field[Array, ArrayLike]
    rgba: _Field[Array, ArrayLike]
    material: str
    mesh: str
    hfield: str
    fitscale: float
    user: _Field[Array, ArrayLike]
    axisangle: _Field[Array | None, ArrayLike]
    euler: _Field[Array | None, ArrayLike]
    xyaxes: _Field[Array | None, ArrayLike]
    zaxis: _Field[Array | None, ArrayLike]

class Site(Element):
    body: Body
    frame: Frame | None
    type: _GeomType
    group: int
    pos: _Field[Array, ArrayLike]
    quat: _Field[Array, ArrayLike]
    alt: _FrameAlt
    value: _Field[Array, ArrayLike]
    fromto: _Field[Array, ArrayLike | None]
    size: _Field[Array, ArrayLike]
    rgba: _Field[Array, ArrayLike]
    material: str
    mesh: str
    user: _Field[Array, ArrayLike]
    axisangle: _Field[Array | None, ArrayLike]
    euler: _Field[Array | None, ArrayLike]
    xyaxes: _Field[Array | None, ArrayLike]
    zaxis: _Field[Array | None, ArrayLike]

class Camera(Element):
    body: Body
    frame: Frame | None
    pos: _Field[Array, ArrayLike]
    quat: _Field[Array, ArrayLike]
    alt: _FrameAlt
    value: _Field[Array, ArrayLike]
    mode: _CameraMode
    target: str
    fovy: float
    ipd: float
    orthographic: bool
    resolution: _Field[_Ints, ArrayLike]
    sensorsize: _Field[Array, ArrayLike]
    focal: _Field[Array, ArrayLike]
    focalpixel: _Field[Array, ArrayLike]
    principal: _Field[Array, ArrayLike]
    principalpixel: _Field[Array, ArrayLike]
    user: _Field[Array, ArrayLike]
    axisangle: _Field[Array | None, ArrayLike]
    euler: _Field[Array | None, ArrayLike]
    xyaxes: _Field[Array | None, ArrayLike]
    zaxis: _Field[Array | None, ArrayLike]

class Light(Element):
    body: Body
    frame: Frame | None
    pos: _Field[Array, ArrayLike]
    dir: _Field[Array, ArrayLike]
    mode: _CameraMode
    target: str
    directional: bool
    castshadow: bool
    active: bool
    attenuation: _Field[Array, ArrayLike]
    cutoff: float
    exponent: float
    ambient: _Field[Array, ArrayLike]
    diffuse: _Field[Array, ArrayLike]
    specular: _Field[Array, ArrayLike]

class Pair(Element):
    geom1: str
    geom2: str
    condim: int
    friction: _Field[Array, ArrayLike]
    solref: _Field[Array, ArrayLike]
    solimp: _Field[Array, ArrayLike]
    solreffriction: _Field[Array, ArrayLike]
    margin: float
    gap: float

class Exclude(Element):
    body1: str
    body2: str

class Equality(Element):
    type: _EqualityType
    active: bool
    name1: str
    name2: str
    sites: bool
    solref: _Field[Array, ArrayLike]
    solimp: _Field[Array, ArrayLike]
    anchor: _Field[Array, ArrayLike]
    relpose: _Field[Array, ArrayLike]
    torquescale: float
    polycoef: _Field[Array, ArrayLike]

class Tendon(Element):
    spatial: bool
    path: _Field[list[WrapFields], Iterable[WrapFields]]
    group: int
    limited: bool | Literal['auto']
    actfrclimited: bool | Literal['auto']
    range: _Field[Array, ArrayLike]
    actfrcrange: _Field[Array, ArrayLike]
    margin: float
    solref_limit: _Field[Array, ArrayLike]
    solimp_limit: _Field[Array, ArrayLike]
    solref_friction: _Field[Array, ArrayLike]
    solimp_friction: _Field[Array, ArrayLike]
    frictionloss: float
    springlength: _Field[Array, ArrayLike]
    stiffness: _Field[Array, ArrayLike]
    damping: _Field[Array, ArrayLike]
    armature: float
    width: float
    rgba: _Field[Array, ArrayLike]
    material: str
    user: _Field[Array, ArrayLike]

class Actuator(Element):
    trntype: _ActuatorTrntype
    target: str
    refsite: str
    gear: _Field[Array, ArrayLike]
    dyntype: _ActuatorDyntype
    gaintype: _ActuatorGaintype
    biastype: _ActuatorBiastype
    dynprm: _Field[Array, ArrayLike]
    gainprm: _Field[Array, ArrayLike]
    biasprm: _Field[Array, ArrayLike]
    actdim: int
    actearly: bool
    ctrllimited: bool | Literal['auto']
    forcelimited: bool | Literal['auto']
    actlimited: bool | Literal['auto']
    ctrlrange: _Field[Array, ArrayLike]
    forcerange: _Field[Array, ArrayLike]
    actrange: _Field[Array, ArrayLike]
    inheritrange: float
    lengthrange: _Field[Array, ArrayLike]
    damping: _Field[Array, ArrayLike]
    armature: float
    cranklength: float
    nsample: int
    interp: _ActuatorInterp
    delay: float
    group: int
    user: _Field[Array, ArrayLike]

class Sensor(Element):
    type: _SensorType
    objtype: _SensorObjtype
    reftype: _SensorObjtype
    objname: str
    refname: str
    cutoff: float
    noise: float
    data: int
    reduce: _SensorReduce
    num: int
    nsample: int
    interp: _ActuatorInterp
    delay: float
    interval: _Field[Array, ArrayLike]
    user: _Field[Array, ArrayLike]

class Key(Element):
    time: float
    qpos: _Field[Array, ArrayLike | None]
    qvel: _Field[Array, ArrayLike | None]
    act: _Field[Array, ArrayLike | None]
    ctrl: _Field[Array, ArrayLike | None]
    mpos: _Field[Array, ArrayLike | None]
    mquat: _Field[Array, ArrayLike | None]

class Numeric(Element):
    size: int
    data: _Field[Array, ArrayLike]

class Text(Element):
    data: str

class Tuple(Element):
    entries: _Field[list[EntryFields], Iterable[EntryFields]]

class Mesh(Element):
    file: str
    content_type: str
    vertex: _Field[Array, ArrayLike]
    face: _Field[_Ints, ArrayLike]
    scale: _Field[Array, ArrayLike]
    refpos: _Field[Array, ArrayLike]
    refquat: _Field[Array, ArrayLike]
    inertia: _MeshInertia
    maxhullvert: int

class Hfield(Element):
    file: str
    content_type: str
    nrow: int
    ncol: int
    elevation: _Field[Array, ArrayLike]
    size: _Field[Array, ArrayLike]

class Visual(Element):
    element: str
    rgba: _Field[Array, ArrayLike]
    cells: _Field[Array, ArrayLike]
    texture: str
    parent: Visual | None
    attributes: _Field[dict[str, str], Mapping[str, str]]

class Compiler(Settings):
    degree: bool
    eulerseq: str
    autolimits: bool
    boundmass: float
    boundinertia: float
    settotalmass: float
    balanceinertia: bool
    fusestatic: bool
    alignfree: bool
    discardvisual: bool
    fitaabb: bool
    inertiafromgeom: bool | Literal['auto']
    inertiarule: _CompilerInertiarule
    inertiagrouprange: _Field[_Ints, ArrayLike]
    lengthrange_mode: _CompilerLengthrangeMode
    useexisting: bool
    uselimit: bool
    lengthrange_accel: float
    lengthrange_maxforce: float
    lengthrange_timeconst: float
    lengthrange_timestep: float
    lengthrange_inttotal: float
    lengthrange_interval: float
    lengthrange_tolrange: float

class Option(Settings):
    timestep: float
    gravity: _Field[Array, ArrayLike]
    wind: _Field[Array, ArrayLike]
    magnetic: _Field[Array, ArrayLike]
    density: float
    viscosity: float
    impratio: float
    o_margin: float
    o_solref: _Field[Array, ArrayLike]
    o_solimp: _Field[Array, ArrayLike]
    o_friction: _Field[Array, ArrayLike]
    tolerance: float
    ls_tolerance: float
    noslip_tolerance: float
    integrator: _OptionIntegrator
    cone: _OptionCone
    solver: _OptionSolver
    iterations: int
    ls_iterations: int
    noslip_iterations: int
    disableflags: int
    enableflags: int
    disableactuator: int

class Statistic(Settings):
    meaninertia: _Field[float, float | None]
    meanmass: _Field[float, float | None]
    meansize: _Field[float, float | None]
    extent: _Field[float, float | None]
    center: _Field[Array, ArrayLike | None]

class Size(Settings):
    nkey: int
    nuserdata: int
    nuser_body: int
    nuser_jnt: int
    nuser_geom: int
    nuser_site: int
    nuser_cam: int
    nuser_tendon: int
    nuser_actuator: int
    nuser_sensor: int

class Spec(Record):
    def __init__(self) -> None: ...
    @classmethod
    def load(cls, path: str | os.PathLike[str], *, allow_root: Folders = (), package_path: Folders = (), floating_base: bool = False, fuse: bool = False,
             motors: bool = False, inertia: str = "refuse", missing_meshes: str = "refuse", design: bool = False,
             xacro: bool | Mapping[str, object] = False) -> Self: ...
    @classmethod
    def from_string(cls, text: str, assets: Mapping[str, bytes | str] | None = None, *, name: str = "model.xml", floating_base: bool = False,
                    fuse: bool = False, motors: bool = False, inertia: str = "refuse", missing_meshes: str = "refuse", design: bool = False) -> Self: ...
    def copy(self) -> Self: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: Any) -> Self: ...
    @property
    def warnings(self) -> tuple[str, ...]: ...
    @property
    def worldbody(self) -> Body: ...
    def remove(self, element: Element) -> None: ...
    def attach(self, other: Spec, prefix: str = "", *, to: Body | Frame | None = None, **fields: Unpack[FrameFields]) -> Frame: ...
    def compile(self, *, options: Mapping[str, object] | None = None, contact: Mapping[str, object] | None = None, deformables: Described = None,
                policy: Described = None, expose: str | Sequence[str] = ()) -> Model: ...
    model_name: str
    folder: str
    surfaces: bool
    design: bool
    @property
    def compiler(self) -> Compiler: ...
    @property
    def option(self) -> Option: ...
    @property
    def statistic(self) -> Statistic: ...
    @property
    def size(self) -> Size: ...
    @property
    def frames(self) -> Elements[Frame]: ...
    def frame(self, name: int | str) -> Frame: ...
    def add_frame(self, **fields: Unpack[FrameFields]) -> Frame: ...
    @property
    def bodies(self) -> Elements[Body]: ...
    def body(self, name: int | str) -> Body: ...
    def add_body(self, **fields: Unpack[BodyFields]) -> Body: ...
    @property
    def joints(self) -> Elements[Joint]: ...
    def joint(self, name: int | str) -> Joint: ...
    def add_joint(self, **fields: Unpack[JointFields]) -> Joint: ...
    @property
    def geoms(self) -> Elements[Geom]: ...
    def geom(self, name: int | str) -> Geom: ...
    def add_geom(self, **fields: Unpack[GeomFields]) -> Geom: ...
    @property
    def sites(self) -> Elements[Site]: ...
    def site(self, name: int | str) -> Site: ...
    def add_site(self, **fields: Unpack[SiteFields]) -> Site: ...
    @property
    def cameras(self) -> Elements[Camera]: ...
    def camera(self, name: int | str) -> Camera: ...
    def add_camera(self, **fields: Unpack[CameraFields]) -> Camera: ...
    @property
    def lights(self) -> Elements[Light]: ...
    def light(self, name: int | str) -> Light: ...
    def add_light(self, **fields: Unpack[LightFields]) -> Light: ...
    @property
    def pairs(self) -> Elements[Pair]: ...
    def pair(self, name: int | str) -> Pair: ...
    def add_pair(self, **fields: Unpack[PairFields]) -> Pair: ...
    @property
    def excludes(self) -> Elements[Exclude]: ...
    def exclude(self, name: int | str) -> Exclude: ...
    def add_exclude(self, **fields: Unpack[ExcludeFields]) -> Exclude: ...
    @property
    def equalities(self) -> Elements[Equality]: ...
    def equality(self, name: int | str) -> Equality: ...
    def add_equality(self, **fields: Unpack[EqualityFields]) -> Equality: ...
    @property
    def tendons(self) -> Elements[Tendon]: ...
    def tendon(self, name: int | str) -> Tendon: ...
    def add_tendon(self, **fields: Unpack[TendonFields]) -> Tendon: ...
    @property
    def actuators(self) -> Elements[Actuator]: ...
    def actuator(self, name: int | str) -> Actuator: ...
    def add_actuator(self, **fields: Unpack[ActuatorFields]) -> Actuator: ...
    @property
    def sensors(self) -> Elements[Sensor]: ...
    def sensor(self, name: int | str) -> Sensor: ...
    def add_sensor(self, **fields: Unpack[SensorFields]) -> Sensor: ...
    @property
    def keys(self) -> Elements[Key]: ...
    def key(self, name: int | str) -> Key: ...
    def add_key(self, **fields: Unpack[KeyFields]) -> Key: ...
    @property
    def numerics(self) -> Elements[Numeric]: ...
    def numeric(self, name: int | str) -> Numeric: ...
    def add_numeric(self, **fields: Unpack[NumericFields]) -> Numeric: ...
    @property
    def texts(self) -> Elements[Text]: ...
    def text(self, name: int | str) -> Text: ...
    def add_text(self, **fields: Unpack[TextFields]) -> Text: ...
    @property
    def tuples(self) -> Elements[Tuple]: ...
    def tuple(self, name: int | str) -> Tuple: ...
    def add_tuple(self, **fields: Unpack[TupleFields]) -> Tuple: ...
    @property
    def meshes(self) -> Elements[Mesh]: ...
    def mesh(self, name: int | str) -> Mesh: ...
    def add_mesh(self, **fields: Unpack[MeshFields]) -> Mesh: ...
    @property
    def hfields(self) -> Elements[Hfield]: ...
    def hfield(self, name: int | str) -> Hfield: ...
    def add_hfield(self, **fields: Unpack[HfieldFields]) -> Hfield: ...
    @property
    def visuals(self) -> Elements[Visual]: ...
    def visual(self, name: int | str) -> Visual: ...
    def add_visual(self, **fields: Unpack[VisualFields]) -> Visual: ...
    def __reduce__(self) -> NoReturn: ...
