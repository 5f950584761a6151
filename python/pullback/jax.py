"""Rollouts in JAX: grad, hessian, jacrev, jvp, jacfwd, vmap, jit and scan through the C library's own derivatives.

    qpos, qvel, act = pb.jax.rollout(model, qpos, qvel, ctrl, params={"body_mass": mass})

One primitive is the rollout; its derivative is a second one, linear in the directions, whose transpose is a third, the pullback; how
that changes along directions of the inputs is a fourth, linear in these and in the cotangents, and as a Hessian its own transpose. All
run on the host in double precision, whatever the precision of the arrays: outside of jit at once, where errors are Python's own; in
compiled programs as custom calls of XLA ("ffi", xla.py), or as callbacks of JAX where the extension was built without XLA's header.
"""
from __future__ import annotations

import functools
import hashlib
import os
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Unpack

import numpy as np

try:
    import jax
    import jax.numpy as jnp
    from jax import Array
    from jax.extend.core import Primitive
    from jax.interpreters import ad, batching, mlir
except ImportError as error:
    raise ImportError("pullback.jax needs JAX: pip install 'pullback[jax]'") from error

from . import xla
from .errors import ArgumentError, UnsupportedError
from .functional import INPUTS, Call, Spec, refuse_rest
from .model import Model
from .options import HowOptions
from .rollout import memory_of_tapes
from .second import refuse

_BACKENDS = ("ffi", "callback")


@functools.cache
def _without_ffi():
    """Makes XLA's runtime know our handlers; why it does not, or None."""
    found = xla.targets()
    if found is None:
        return "this build of pullback was made without XLA's header (PULLBACK_XLA, python/CMakeLists.txt)"
    try:
        jax.local_devices(backend="cpu")  # the type before the handlers: both wait for the runtime otherwise, in another order
        jax.ffi.register_ffi_type(xla.TARGET, {name: found[name] for name in ("type_id", "type_info")})
        jax.ffi.register_ffi_target(xla.TARGET, {name: found[name] for name in ("instantiate", "execute")})
    except Exception as error:  # noqa: BLE001: another version of the interface, a runtime without a CPU
        return f"{type(error).__name__}: {error}"
    return None


def backend(asked: str | None = None) -> str:
    """How compiled programs reach the library: "ffi" (custom calls of XLA) where this build and this JAX have it, else "callback".

    asked, or the environment's PULLBACK_JAX, chooses one of them; UnsupportedError where there is no "ffi".
    """
    asked = asked or os.environ.get("PULLBACK_JAX") or None
    if asked not in (None, *_BACKENDS):
        raise ArgumentError(f"backend: expected {' or '.join(_BACKENDS)}, found {asked!r}")
    if asked == "ffi" and _without_ffi():
        raise UnsupportedError(f"JAX without custom calls: {_without_ffi()}")
    return asked or ("callback" if _without_ffi() else "ffi")


# ---- on the host ----------------------------------------------------------------------------------------------------------
class _Spec(Spec):
    """As static data of a primitive: equal where a rollout would be."""

    def __init__(self, *what, backend, **options):
        super().__init__(*what, **options)
        self.backend = backend

    def _key(self):
        return (id(self.model), *self.content()[1:])

    def content(self):
        """All that a rollout depends on besides arrays."""
        return (self.model, self.names, self.params, self.outputs, self.backend, tuple(sorted(self.options.items())))

    def __eq__(self, other):
        return isinstance(other, _Spec) and self._key() == other._key()

    def __hash__(self):
        return hash(self._key())


# The last rollouts whose derivatives may be asked for, by their inputs: the pullback comes with the same numbers. Together they take no
# more memory than a tape may; the latest is always there.
_MOST = 8
_kept, _lock = OrderedDict(), threading.Lock()


def _after_fork():
    global _lock
    _lock = threading.Lock()
    _kept.clear()  # other threads may have been at work on them


os.register_at_fork(after_in_child=_after_fork)


def _arrays(spec, values):
    return {name: np.asarray(v, dtype=np.float64) for name, v in zip((*spec.names, *spec.params), values)}


def _key(spec, arrays):
    h = hashlib.blake2b(digest_size=16)
    for name, a in arrays.items():
        h.update(f"{name}{a.shape}".encode())
        h.update(np.ascontiguousarray(a).data)
    return hash(spec), h.digest()


def _call(spec, values, keep, now=False):
    """keep: for a derivative, which comes later or is to be taken now. What is short runs again then: a scan has more steps than would be kept."""
    arrays = _arrays(spec, values)
    if keep and spec.is_short({name: a.shape for name, a in arrays.items()}):
        return Call(spec, arrays, keep=now, park=False)
    if not keep:
        return Call(spec, arrays, keep=False)
    key = _key(spec, arrays)
    with _lock:
        call = _kept.get(key)
        if call is not None:
            _kept.move_to_end(key)
            return call
    call = Call(spec, arrays)
    with _lock:
        _kept[key] = call
        while len(_kept) > _MOST or len(_kept) > 1 and sum(c.rollout.nbytes for c in _kept.values()) > memory_of_tapes():
            _kept.popitem(last=False)
    return call


def _along(many, arrays, work):
    """work for each entry of the axis before all others, `many` of them (None: there is none), stacked."""
    if many is None:
        return work(arrays)
    rows = [work([a[k] for a in arrays]) for k in range(many)]
    return [np.stack(parts) for parts in zip(*rows)]


# ---- shapes -----------------------------------------------------------------------------------------------------------------
def _outputs(spec, shapes):
    """Shapes of the outputs, without running anything."""
    m, given = spec.model, dict(zip((*spec.names, *spec.params), shapes))
    steps = spec.steps(given)
    _, lead = spec.leads(given, steps)
    width = {"qpos": (m.nq,), "qvel": (m.nv,), "act": (m.na,), "sensordata": (m.nsensordata,), "xpos": (m.nbody, 3), "site_xpos": (m.nsite, 3)}
    return [(*lead, steps + 1, *width[name]) for name in spec.outputs]


def _float(avals):
    return jnp.result_type(*[a.dtype for a in avals if jnp.issubdtype(a.dtype, jnp.floating)], jnp.float32)


def _structs(shapes, dtypes):
    return [jax.ShapeDtypeStruct(s, d) for s, d in zip(shapes, dtypes)]


def _many(many, shapes):
    return [s if many is None else (many, *s) for s in shapes]


# ---- primitives ---------------------------------------------------------------------------------------------------------------
# roll:  inputs -> outputs                                        spec, keep
# push:  inputs, directions of inputs `given` -> of outputs       spec, given, many
# pull:  inputs, cotangents of outputs `given` -> by `wanted`     spec, given, wanted, many
# second: inputs, directions of inputs `along`, cotangents of outputs `given` -> by `wanted`     spec, along, given, wanted, many
_roll, _push, _pull, _second = (Primitive(f"pullback_{name}") for name in ("rollout", "push", "pull", "second"))


def _result_structs(primitive, avals, spec, keep=None, given=(), wanted=(), many=None, along=()):
    count = len(spec.names) + len(spec.params)
    inputs = avals[:count]
    if primitive in (_pull, _second):
        return _structs(_many(many, [inputs[i].shape for i in wanted]), [inputs[i].dtype for i in wanted])
    shapes = _outputs(spec, [a.shape for a in inputs])
    return _structs(_many(many, shapes), [_float(inputs)] * len(shapes))


def _short_way(primitive, avals, spec, keep=None, given=(), wanted=(), many=None, along=()):
    """A step of a closed loop, and its pullback, from memories into memories: short(inputs, outputs), whether it was done. None: there is no short way."""
    if primitive in (_push, _second) or many is not None or any(a.dtype != np.float64 for a in avals):
        return None
    single = spec.single(dict(zip((*spec.names, *spec.params), (a.shape for a in avals))))
    if single is None:
        return None
    count, order = len(spec.names), [spec.names.index(name) if name in spec.names else None for name in ("qpos", "qvel", "act", "ctrl")]
    bars = [count + given.index(k) if k in given else None for k in range(3)]
    to = [wanted.index(k) if k in wanted else None for k in order]
    pick = lambda memories, places: tuple(None if k is None else memories[k] for k in places)
    if primitive is _roll:
        return lambda inputs, outputs: single.step(pick(inputs, order), tuple(outputs))
    return lambda inputs, outputs: single.pull(pick(inputs, order), pick(inputs, bars), pick(outputs, to))


def _host(primitive, structs, spec, keep=None, given=(), wanted=(), many=None, along=()):
    """What runs on the host."""
    count = len(spec.names) + len(spec.params)
    names = (*spec.names, *spec.params)

    def work(*values):
        values = [np.asarray(v) for v in values]
        if primitive is _roll:
            found = list(_call(spec, values, keep).outputs().values())
        else:
            call = _call(spec, values[:count], True, now=True)
            rest = [np.asarray(v, dtype=np.float64) for v in values[count:]]
            if primitive is _push:
                found = _along(many, rest, lambda ways: list(call.push(dict(zip([names[i] for i in given], ways))).values()))
            elif primitive is _second:
                by, of = [names[i] for i in wanted], [spec.outputs[i] for i in given]
                moved = lambda rest: call.second(dict(zip([names[i] for i in along], rest)), dict(zip(of, rest[len(along):])), by)
                found = _along(many, rest, lambda rest: list(moved(rest).values()))
            else:
                by = [names[i] for i in wanted]
                pull = lambda bars: [call.pull(dict(zip([spec.outputs[i] for i in given], bars)), by)[n] for n in by]
                found = _along(many, rest, pull)
        return [np.asarray(f, dtype=s.dtype).reshape(s.shape) for f, s in zip(found, structs)]
    return work


def _at_once(primitive, *values, **static):
    """Outside of a compiled program: here and now, and the result goes to where the arguments are."""
    structs = _result_structs(primitive, [jax.typeof(v) for v in values], **static)
    found = _host(primitive, structs, **static)(*values)
    devices = {d for v in values if getattr(v, "committed", False) for d in v.devices()}
    return jax.device_put(found, devices.pop() if len(devices) == 1 else None)


def _callback(primitive, *values, **static):
    avals = [jax.typeof(v) for v in values]
    structs = _result_structs(primitive, avals, **static)
    work, short = _host(primitive, structs, **static), _short_way(primitive, avals, **static)

    def either(*values):
        found = [np.empty(s.shape, s.dtype) for s in structs]
        return found if short is not None and short([np.ascontiguousarray(v) for v in values], found) else work(*values)
    return jax.pure_callback(either, structs, *values)


def _lower(primitive, by_callback, ctx, *operands, spec, **static):
    """Into a program for the CPU: a custom call, whose host the compiled program keeps alive."""
    if backend(spec.backend) == "callback":
        return by_callback(ctx, *operands, spec=spec, **static)
    structs = _result_structs(primitive, ctx.avals_in, spec, **static)
    content = (primitive.name, spec.content(), sorted(static.items()), [(a.shape, str(a.dtype)) for a in ctx.avals_in])
    token, host = xla.host(content, _host(primitive, structs, spec, **static), ctx.avals_in, structs, _short_way(primitive, ctx.avals_in, spec, **static))
    ctx.module_context.add_keepalive(host)  # until it is compiled
    return jax.ffi.ffi_lowering(xla.TARGET)(ctx, *operands, host=token)


def _define(primitive):
    primitive.multiple_results = True
    primitive.def_impl(functools.partial(_at_once, primitive))
    primitive.def_abstract_eval(lambda *avals, **static: [jax.core.ShapedArray(s.shape, s.dtype) for s in _result_structs(primitive, avals, **static)])
    by_callback = mlir.lower_fun(functools.partial(_callback, primitive), multiple_results=True)
    mlir.register_lowering(primitive, by_callback)
    mlir.register_lowering(primitive, functools.partial(_lower, primitive, by_callback), platform="cpu")


for _primitive in (_roll, _push, _pull, _second):
    _define(_primitive)


# ---- derivatives ------------------------------------------------------------------------------------------------------------
def _roll_jvp(values, ways, *, spec, keep):
    out = _roll.bind(*values, spec=spec, keep=True)
    given = tuple(i for i, w in enumerate(ways) if type(w) is not ad.Zero)
    return out, _push.bind(*values, *(ways[i] for i in given), spec=spec, given=given, many=None)


def _moving(ways, count):
    """Which inputs move, and where to."""
    there = tuple(i for i, w in enumerate(ways[:count]) if type(w) is not ad.Zero)
    return there, [ways[i] for i in there]


def _push_jvp(values, ways, *, spec, given, many):
    count = len(spec.names) + len(spec.params)
    if _moving(ways, count)[0]:
        raise UnsupportedError(
            "pullback: results of forward mode (jax.jvp, jax.jacfwd) have no derivatives, neither forward over forward nor reverse "
            "over forward, and there is no third derivative: take jax.hessian, jax.jvp of jax.grad, or jax.grad of jax.grad")
    rest = [ad.instantiate_zeros(w) for w in ways[count:]]
    return tuple(_push.bind(*v, spec=spec, given=given, many=many) for v in (values, (*values[:count], *rest)))


def _pull_jvp(values, ways, *, spec, given, wanted, many):
    """Linear in the cotangents; by the inputs it is the second derivative."""
    count = len(spec.names) + len(spec.params)
    inputs, bars, (along, moved) = values[:count], values[count:], _moving(ways, count)
    out, parts = _pull.bind(*values, spec=spec, given=given, wanted=wanted, many=many), []
    if along:
        names = (*spec.names, *spec.params)
        refuse([names[i] for i in wanted], "the result by")
        if many is not None:
            moved = [jnp.broadcast_to(w, (many, *w.shape)) for w in moved]
        parts.append(_second.bind(*inputs, *moved, *bars, spec=spec, along=along, given=given, wanted=wanted, many=many))
    changed = tuple(i for i, w in enumerate(ways[count:]) if type(w) is not ad.Zero)
    if changed:
        some = tuple(given[i] for i in changed)
        parts.append(_pull.bind(*inputs, *(ways[count + i] for i in changed), spec=spec, given=some, wanted=wanted, many=many))
    if not parts:
        return out, [ad.Zero.from_primal_value(o) for o in out]
    return out, parts[0] if len(parts) == 1 else [a + b for a, b in zip(*parts)]


def _second_jvp(values, ways, *, spec, along, given, wanted, many):
    """Linear in the directions, and in the cotangents; by the inputs it would be a third derivative."""
    count, static = len(spec.names) + len(spec.params), dict(spec=spec, along=along, given=given, wanted=wanted, many=many)
    if _moving(ways, count)[0]:
        raise UnsupportedError("pullback: a third derivative of a rollout is not there")
    out, middle, tangent = _second.bind(*values, **static), count + len(along), None
    for first, last in ((count, middle), (middle, len(values))):
        if any(type(w) is not ad.Zero for w in ways[first:last]):
            part = _second.bind(*values[:first], *(ad.instantiate_zeros(w) for w in ways[first:last]), *values[last:], **static)
            tangent = part if tangent is None else [a + b for a, b in zip(tangent, part)]
    return out, tangent


def _push_transpose(bars, *values, spec, given, many):
    count = len(spec.names) + len(spec.params)
    there = tuple(i for i, b in enumerate(bars) if type(b) is not ad.Zero)
    if not there:
        return [None] * count + [ad.Zero(v.aval) for v in values[count:]]
    found = _pull.bind(*values[:count], *(bars[i] for i in there), spec=spec, given=there, wanted=given, many=many)
    return [None] * count + list(found)


def _pull_transpose(ways, *values, spec, given, wanted, many):
    count = len(spec.names) + len(spec.params)
    ways = [ad.instantiate_zeros(w) for w in ways]
    found = _push.bind(*values[:count], *ways, spec=spec, given=wanted, many=many)
    return [None] * count + [found[i] for i in given]


ad.primitive_jvps[_roll] = _roll_jvp
def _second_transpose(bars, *values, spec, along, given, wanted, many):
    """By the directions it is a Hessian, which is symmetric; by the cotangents the second derivative of the outputs, forward over forward."""
    count, middle = len(spec.names) + len(spec.params), len(spec.names) + len(spec.params) + len(along)
    if any(ad.is_undefined_primal(v) for v in values[middle:]):
        raise UnsupportedError("pullback: a third derivative of a rollout is not there")
    ways = [ad.instantiate_zeros(b) for b in bars]
    found = _second.bind(*values[:count], *ways, *values[middle:], spec=spec, along=wanted, given=given, wanted=along, many=many)
    return [None] * count + list(found) + [None] * len(given)


ad.primitive_jvps[_push] = _push_jvp
ad.primitive_jvps[_pull] = _pull_jvp
ad.primitive_jvps[_second] = _second_jvp
ad.primitive_transposes[_second] = _second_transpose
ad.primitive_transposes[_push] = _push_transpose
ad.primitive_transposes[_pull] = _pull_transpose


# ---- vmap ---------------------------------------------------------------------------------------------------------------------
def _aligned(spec, values, dims):
    """Inputs with the mapped axis before all other leading ones, which broadcast."""
    names = (*spec.names, *spec.params)
    most = max(v.ndim - (d is not None) - spec.axes(n) for v, d, n in zip(values, dims, names))
    moved = []
    for v, d, n in zip(values, dims, names):
        if d is not None:
            v = jnp.moveaxis(v, d, 0)
            v = v.reshape(v.shape[0], *(1,) * (most - (v.ndim - 1 - spec.axes(n))), *v.shape[1:])
        moved.append(v)
    return moved


def _roll_batch(values, dims, *, spec, keep):
    out = _roll.bind(*_aligned(spec, values, dims), spec=spec, keep=keep)
    return out, [0] * len(out)


def _linear_batch(primitive):
    def rule(values, dims, *, spec, many, **static):
        count = len(spec.names) + len(spec.params)
        size = next(v.shape[d] for v, d in zip(values, dims) if d is not None)
        first = 0 if many is None else 1
        rest, rest_dims = values[count:], dims[count:]
        static = dict(static, spec=spec)

        # One rollout along many directions: another axis before all others.
        if all(d is None for d in dims[:count]):
            moved = [jnp.moveaxis(v, d, 0) if d is not None else jnp.broadcast_to(v, (size, *v.shape)) for v, d in zip(rest, rest_dims)]
            if many is not None:
                moved = [v.reshape(size * many, *v.shape[2:]) for v in moved]
            out = primitive.bind(*values[:count], *moved, many=size * (many or 1), **static)
            return [o.reshape(size, many, *o.shape[1:]) if many is not None else o for o in out], [0] * len(out)

        # Every input has the axis: what pulls back to one that is not mapped over is one row for each entry.
        full = [v if d is not None else jnp.broadcast_to(v, (size, *v.shape)) for v, d in zip(values[:count], dims[:count])]
        inputs = _aligned(spec, full, [0 if d is None else d for d in dims[:count]])
        moved = []
        for k, (v, d) in enumerate(zip(rest, rest_dims)):
            v = jnp.moveaxis(v, d, first) if d is not None else jnp.broadcast_to(jnp.expand_dims(v, first), (*v.shape[:first], size, *v.shape[first:]))
            ways = static["given"] if primitive is _push else static.get("along", ())
            if k < len(ways):  # directions have the shape of their inputs
                v = v.reshape(*v.shape[:first], *inputs[ways[k]].shape)
            moved.append(v)
        out = primitive.bind(*inputs, *moved, many=many, **static)
        if primitive is not _push:  # back to the shapes that the inputs had
            out = [o.reshape(*o.shape[:first], size, *_without(values[i].shape, dims[i])) for o, i in zip(out, static["wanted"])]
        return out, [first] * len(out)
    return rule


def _without(shape, dim):
    return shape if dim is None else (*shape[:dim], *shape[dim + 1:])


batching.primitive_batchers[_roll] = _roll_batch
batching.primitive_batchers[_push] = _linear_batch(_push)
batching.primitive_batchers[_pull] = _linear_batch(_pull)
batching.primitive_batchers[_second] = _linear_batch(_second)


# ---- what users call --------------------------------------------------------------------------------------------------------
class StepOptions(HowOptions, total=False):
    """What `step` takes beside the state and the controls: arrays of one step, each with any leading axes."""

    params: Mapping[str, Array] | None
    qfrc_applied: Array | None
    xfrc_applied: Array | None
    mocap_pos: Array | None
    mocap_quat: Array | None
    mocap_vel: Array | None
    mocap_pos_before: Array | None
    mocap_quat_before: Array | None
    command: Array | None
    outputs: str | Sequence[str]
    backend: str | None


def rollout(model: Model, qpos: Array, qvel: Array, ctrl: Array | None = None, *, act: Array | None = None, params: Mapping[str, Array] | None = None,
            qfrc_applied: Array | None = None, xfrc_applied: Array | None = None, mocap_pos: Array | None = None, mocap_quat: Array | None = None,
            mocap_vel: Array | None = None, mocap_pos_before: Array | None = None, mocap_quat_before: Array | None = None,
            command: Array | None = None, outputs: str | Sequence[str] = (), steps: int | None = None, backend: str | None = None,
            **options: Unpack[HowOptions]) -> tuple[Array, ...]:
    """N steps from (qpos, qvel, act): arrays qpos, qvel, act of all N + 1 states, then those of `outputs`.

    qpos, qvel   (..., nq), (..., nv); act (..., na). Leading axes are worlds; those of all arguments broadcast
    ctrl         (..., N, nu); None: zero, and `steps` says how many
    params       {"body_mass": (..., nbody), "geom_friction:floor": (..., 3)}: in place of the model's, with gradients
    qfrc_applied (..., N, nv);  xfrc_applied (..., N, nbody, 6);  mocap_pos (..., N, nmocap, 3);  mocap_quat (..., N, nmocap, 4);  command
    mocap_vel    (..., N, nmocap, 6), as of Model.rollout;  mocap_pos_before (..., nmocap, 3);  mocap_quat_before (..., nmocap, 4)
    outputs      of "sensordata", "xpos", "site_xpos": these follow, (..., N + 1, ...)
    backend      of compiled programs, "ffi" or "callback"; None: as backend() says
    options      as of Model.rollout: gradient, constants, memory, threads

    Results are (..., N + 1, nq), (..., N + 1, nv), (..., N + 1, na). Quaternions in qpos are normalised first, and the gradient is that
    function's. Points of deformables, what a policy holds and the time begin as in model.init(). Float32 is computed in double, and comes
    back as float32; jax_enable_x64 keeps double.
    Second derivatives are those of Rollout.hvp: forward over reverse (jax.hessian, jax.jvp of jax.grad) and reverse over reverse, by qpos, qvel,
    act, ctrl, qfrc_applied and xfrc_applied; what has none, forward over forward, reverse over forward
    (jax.grad of jax.jvp) and third derivatives are UnsupportedError, by name.
    Raises ArgumentError for shapes, TypeError for other types or devices, StepError.
    What fails in a compiled program is an error of JAX with the same text.
    """
    outputs = (outputs,) if isinstance(outputs, str) else tuple(outputs)
    given = dict(qpos=qpos, qvel=qvel, act=act, ctrl=ctrl, qfrc_applied=qfrc_applied, xfrc_applied=xfrc_applied, command=command,
                 mocap_pos=mocap_pos, mocap_quat=mocap_quat, mocap_vel=mocap_vel, mocap_pos_before=mocap_pos_before,
                 mocap_quat_before=mocap_quat_before)
    arrays = {name: _read(given[name], name) for name in INPUTS if given[name] is not None}
    of = {name: _read(value, f"params['{name}']") for name, value in (params or {}).items()}
    spec = _Spec(model, arrays, of, outputs, steps=steps, backend=backend, **options)
    _outputs(spec, [a.shape for a in (*arrays.values(), *of.values())])
    return tuple(_roll.bind(*arrays.values(), *of.values(), spec=spec, keep=False))


def _read(value, name):
    a = jnp.asarray(value)
    if a.dtype in (jnp.float16, jnp.bfloat16) or jnp.issubdtype(a.dtype, jnp.complexfloating) or a.dtype == bool:
        raise TypeError(f"{name}: expected float64 or float32, found {a.dtype}")
    return a if jnp.issubdtype(a.dtype, jnp.floating) else a.astype(jnp.float32 if not jax.config.jax_enable_x64 else jnp.float64)


def step(model: Model, qpos: Array, qvel: Array, ctrl: Array | None = None, *, act: Array | None = None,
         **options: Unpack[StepOptions]) -> tuple[Array, Array, Array]:
    """One step: (qpos, qvel, act) after it, (..., nq), (..., nv), (..., na). ctrl (..., nu), without an axis of steps.

    All other inputs are as of rollout, with their axis of steps, N = 1: qfrc_applied (..., 1, nv), mocap_pos (..., 1, nmocap, 3); of the step
    before there is one row: mocap_pos_before (..., nmocap, 3).

    Models whose states have more than that (points of deformables, what a policy holds) are refused by name: UnsupportedError.
    Where it counts how mocap bodies move, their poses need those of the step before, or mocap_vel: ArgumentError.
    """
    refuse_rest(model, options)
    ctrl = None if ctrl is None else jnp.expand_dims(jnp.asarray(ctrl), -2)
    qpos, qvel, act, *_ = rollout(model, qpos, qvel, ctrl, act=act, steps=1, **options)
    return qpos[..., 1, :], qvel[..., 1, :], act[..., 1, :]
