"""Rollouts in PyTorch: gradients, second derivatives, forward mode, vmap and torch.func through the C library's own derivatives.

    qpos, qvel, act = pb.torch.rollout(model, qpos, qvel, ctrl, params={"body_mass": mass})
"""
import inspect
import itertools
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

import numpy as np

try:
    import torch
    import torch.autograd.forward_ad
    from torch import Tensor
except ImportError as error:
    raise ImportError("pullback.torch needs PyTorch: pip install 'pullback[torch]'") from error

from .errors import UnsupportedError
from .functional import INPUTS, Call, Spec, refuse_rest
from .model import Model
from .options import HowOptions

# ---- calls, by number ---------------------------------------------------------------------------------------------------
# A call and its tape travel between the functions below as a tensor of its number, which has the call's leading axes, so that vmap
# knows whether they are among those it maps over. The graph keeps the call alive.
_calls, _numbers, _latest = weakref.WeakValueDictionary(), itertools.count(1), threading.local()


def _remember(call):
    number = _latest.number = next(_numbers)
    _calls[number] = _latest.call = call
    return torch.full(call.lead, number, dtype=torch.int64, device="cpu")


def _recall(handle):
    return _calls[int(handle.reshape(-1)[0])]


def _of_graph(ctx, handle):
    """The handle of the call that the graph holds where that of another came: checkpoints run it again, and hold what that saved, not the call."""
    lost = not _transformed((handle,)) and int(handle.reshape(-1)[0]) not in _calls
    return torch.full_like(handle, ctx.number) if lost else handle


def _numpy(tensor):
    return tensor.detach().to(torch.float64).contiguous().numpy()


def _tensor(array, dtype):
    return torch.tensor(array, dtype=dtype, device="cpu")  # whatever the default device is


def _pull_now(handle: torch.Tensor, bars: torch.Tensor, given: str, wanted: str) -> torch.Tensor:
    call = _recall(handle)
    values, shapes, at = _numpy(bars), call.shapes(), 0
    cotangents = {}
    for name in given.split():
        size = int(np.prod(shapes[name], dtype=int))
        cotangents[name], at = values[at:at + size].reshape(shapes[name]), at + size
    _latest.derived, _latest.number = call, int(handle.reshape(-1)[0])
    found = call.pull(cotangents, wanted.split())
    return torch.from_numpy(np.concatenate([found[n].ravel() for n in wanted.split()]))


def _push_now(handle: torch.Tensor, ways: torch.Tensor, given: str) -> torch.Tensor:
    call = _recall(handle)
    values, at, tangents = _numpy(ways), 0, {}
    for name in given.split():
        a = call.arrays[name]
        tangents[name], at = values[at:at + a.size].reshape(a.shape), at + a.size
    _latest.derived, _latest.number = call, int(handle.reshape(-1)[0])
    found = call.push(tangents)
    return torch.from_numpy(np.concatenate([found[n].ravel() for n in call.spec.outputs]))


def _second_now(handle: torch.Tensor, packed: torch.Tensor, along: str, given: str, changed: str, wanted: str) -> torch.Tensor:
    """packed: tangents of the inputs `along`, cotangents of the outputs `given`, changes of those of `changed`."""
    call = _recall(handle)
    values, shapes, at, read = _numpy(packed), call.shapes(), 0, []
    for names, shape_of in ((along, lambda n: call.arrays[n].shape), (given, shapes.get), (changed, shapes.get)):
        read.append({})
        for name in names.split():
            shape = shape_of(name)
            size = int(np.prod(shape, dtype=int))
            read[-1][name], at = values[at:at + size].reshape(shape), at + size
    _latest.derived, _latest.number = call, int(handle.reshape(-1)[0])
    found = call.second(read[0], read[1], wanted.split(), read[2])
    return torch.from_numpy(np.concatenate([found[n].ravel() for n in wanted.split()]))


# The same as operators, which PyTorch cannot look into, but can map over: below its transformations. Without any they would cost as
# much as a step of a small model.
_pull = torch.library.custom_op("pullback::pull", _pull_now, mutates_args=())
_push = torch.library.custom_op("pullback::push", _push_now, mutates_args=())
_second = torch.library.custom_op("pullback::second", _second_now, mutates_args=())


_is_mapped = getattr(torch._C._functorch, "is_legacy_batchedtensor", lambda tensor: True)  # of no public interface


def _transformed(tensors):
    """Whether the tensors may be others than they seem: below torch.func, or mapped over as gradcheck's batched gradients are."""
    return torch._C._are_functorch_transforms_active() or any(map(_is_mapped, tensors))


def _packed(tensors):
    return torch.cat([t.to(torch.float64).reshape(-1) for t in tensors])


def _unpacked(flat, shapes, dtypes):
    parts, at = [], 0
    for shape, dtype in zip(shapes, dtypes):
        size = int(np.prod(shape, dtype=int))
        parts.append(flat[at:at + size].reshape(shape).to(dtype))
        at += size
    return tuple(parts)


_F = TypeVar("_F", bound=Callable[..., Any])
_REFUSED = "pullback: a third derivative of a rollout is not there, nor a second one by forward over forward: take reverse over reverse or forward over reverse"


def _is_followed(tensors):
    """Whether anything may ask for a derivative."""
    dual = getattr(torch.autograd.forward_ad, "_current_level", 0) >= 0  # of no public interface
    return dual or torch.is_grad_enabled() and any(t.requires_grad for t in tensors) or _transformed(tensors)


def _without_tape(spec, tensors):
    """The rollout alone."""
    call = Call(spec, dict(zip((*spec.names, *spec.params), map(_numpy, tensors))), keep=False)
    return tuple(_tensor(call.outputs()[name], _result_type(tensors)) for name in spec.outputs)


def _refuse(*_):
    raise UnsupportedError(_REFUSED)


class _Rollout(torch.autograd.Function):
    """(spec, *inputs) -> (*outputs, handle)."""

    @staticmethod
    def forward(spec, *tensors):
        call = Call(spec, dict(zip((*spec.names, *spec.params), map(_numpy, tensors))), keep=True)
        dtype = _result_type(tensors)
        return (*(_tensor(call.outputs()[name], dtype) for name in spec.outputs), _remember(call))

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.spec, ctx.call, ctx.number = inputs[0], _latest.call, _latest.number  # alive as long as the graph
        ctx.mark_non_differentiable(output[-1])
        ctx.save_for_backward(output[-1], *inputs[1:])
        ctx.save_for_forward(output[-1], *inputs[1:])
        ctx.dtypes = tuple(t.dtype for t in inputs[1:])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, *bars):
        wanted = tuple(ctx.needs_input_grad[1:])
        given = tuple(b is not None for b in bars[:-1])
        if not any(wanted) or not any(given):
            return (None,) * (1 + len(wanted))
        handle, *inputs = ctx.saved_tensors
        found = iter(_Pull.apply(ctx.spec, wanted, given, ctx.dtypes, _of_graph(ctx, handle), *(b for b in bars[:-1] if b is not None), *inputs))
        return (None, *(next(found) if w else None for w in wanted))

    @staticmethod
    def jvp(ctx, _, *ways):
        handle, *inputs = ctx.saved_tensors
        given = tuple(w is not None for w in ways)
        dtype = _result_type_of(ctx.dtypes)
        return (*_Push.apply(ctx.spec, given, dtype, _of_graph(ctx, handle), *(w for w in ways if w is not None), *inputs), None)

    @staticmethod
    def vmap(info, in_dims, spec, *tensors):
        # Every input gets the new axis: a gradient by one that is not mapped over is, at this level, one for each of its entries.
        names = (*spec.names, *spec.params)
        axes = max(t.dim() - (d is not None) - spec.axes(n) for t, d, n in zip(tensors, in_dims[1:], names))
        moved = [_lead(t, d, info.batch_size, axes + spec.axes(n)) for t, d, n in zip(tensors, in_dims[1:], names)]
        out = _Rollout.apply(spec, *moved)
        return out, tuple(0 for _ in out)


def _lead(tensor, dim, size, axes):
    """The mapped axis first (repeated where there is none), and behind it `axes` others."""
    tensor = tensor.expand(size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
    return tensor.reshape(size, *(1,) * (axes - (tensor.dim() - 1)), *tensor.shape[1:])


def _mapped(function, info, handle, handle_dim, rest, rest_dims, apply):
    """vmap of a derivative: of calls that have the mapped axis, or of one call along many directions."""
    if handle_dim is not None:
        moved = [t.expand(info.batch_size, *t.shape) if d is None else t.movedim(d, 0) for t, d in zip(rest, rest_dims)]
        out = apply(handle.movedim(handle_dim, 0), moved)
    else:
        each = [apply(handle, [t if d is None else t.select(d, k) for t, d in zip(rest, rest_dims)]) for k in range(info.batch_size)]
        out = tuple(torch.stack(parts) for parts in zip(*each))
    return out, tuple(0 for _ in out)


# The rollout's inputs are operands of its derivatives, though their values are the call's: so PyTorch sees that these depend on them. A
# derivative's own is the second one; that of the second one arrives at a refusal instead of being taken for zero.
def _hold(ctx, spec, flags, handle, operands):
    """For a derivative of a derivative: what it was called with, and its call, alive as long as the graph."""
    ctx.spec, ctx.flags, ctx.call, ctx.number = spec, flags, _latest.derived, _latest.number
    ctx.save_for_backward(handle, *operands)
    ctx.save_for_forward(handle, *operands)
    ctx.set_materialize_grads(False)


def _needed(ctx, skip):
    """Which of the operands behind `skip` arguments, the last of which is the handle, a gradient is asked for by: not those that merely have one."""
    needs, edges = ctx.needs_input_grad[skip:], getattr(ctx, "next_functions", ())
    if len(edges) != len(needs) + 1:
        return tuple(needs)
    return tuple(n and (node is None or _runs(node)) for n, (node, _) in zip(needs, edges[1:]))


def _runs(node):
    try:
        return torch._C._will_engine_execute_node(node)  # of no public interface
    except (AttributeError, RuntimeError):  # a leaf that is asked for, or not called by the engine
        return True


def _there(tensors):
    return tuple(t is not None for t in tensors), [t for t in tensors if t is not None]


def _among(flags, chosen):
    """The flags of all, of flags of those that are set."""
    rest = iter(chosen)
    return tuple(bool(f) and next(rest) for f in flags)


def _chosen(flags, parts):
    """Parts of those that are set, None for the others."""
    rest = iter(parts)
    return tuple(next(rest) if f else None for f in flags)


class _Pull(torch.autograd.Function):
    """Pullback of a call: (spec, wanted, given, dtypes, handle, *cotangents, *inputs) -> gradients by what is wanted."""

    @staticmethod
    def forward(spec, wanted, given, dtypes, handle, *operands):
        call, names, bars = _recall(handle), (*spec.names, *spec.params), operands[:sum(given)]
        of = " ".join(name for name, g in zip(spec.outputs, given) if g)
        to = [(n, d) for n, w, d in zip(names, wanted, dtypes) if w]
        found = (_pull if _transformed(bars) else _pull_now)(handle, _packed(bars), of, " ".join(n for n, _ in to))
        return _unpacked(found, [call.arrays[n].shape for n, _ in to], [d for _, d in to])

    @staticmethod
    def setup_context(ctx, inputs, output):
        spec, wanted, given, dtypes, handle, *operands = inputs
        _hold(ctx, spec, (wanted, given, dtypes), handle, operands)

    @staticmethod
    def backward(ctx, *ways):
        # Of ways . J' bars: by the bars J ways, and by the inputs the second derivative along the ways.
        (wanted, given, dtypes), (handle, *operands) = ctx.flags, ctx.saved_tensors
        handle, count = _of_graph(ctx, handle), sum(given)
        bars, inputs, needs = operands[:count], operands[count:], _needed(ctx, 5)
        there, ways = _there(ways)
        along, by = _among(wanted, there), tuple(needs[count:])
        by_bars = by_inputs = ()
        if ways and any(needs[:count]):
            found = _Push.apply(ctx.spec, along, _result_type_of(dtypes), handle, *ways, *inputs)
            by_bars = (f for f, g in zip(found, given) if g)
        if ways and any(by):
            by_inputs = _Second.apply(ctx.spec, by, along, given, (False,) * len(given), dtypes, handle, *ways, *bars, *inputs)
        by_bars = tuple(b if n else None for b, n in zip(by_bars, needs)) or (None,) * count
        return (None,) * 5 + by_bars + (_chosen(by, by_inputs) if ways and any(by) else (None,) * len(by))

    @staticmethod
    def jvp(ctx, _, __, ___, ____, _____, *ways):
        (wanted, given, dtypes), (handle, *operands) = ctx.flags, ctx.saved_tensors
        handle, count = _of_graph(ctx, handle), sum(given)
        changed, changes = _there(ways[:count])
        along, ways = _there(ways[count:])
        changed = _among(given, changed)
        if not ways:
            return _Pull.apply(ctx.spec, wanted, changed, dtypes, handle, *changes, *operands[count:])
        return _Second.apply(ctx.spec, wanted, along, given, changed, dtypes, handle, *ways, *operands[:count], *changes, *operands[count:])

    @staticmethod
    def vmap(info, in_dims, spec, wanted, given, dtypes, handle, *operands):
        bars, inputs = operands[:sum(given)], operands[sum(given):]
        return _mapped(_Pull, info, handle, in_dims[4], bars, in_dims[5:], lambda h, b: _Pull.apply(spec, wanted, given, dtypes, h, *b, *inputs))


class _Push(torch.autograd.Function):
    """Forward derivative of a call: (spec, given, dtype, handle, *tangents, *inputs) -> tangents of the outputs."""

    @staticmethod
    def forward(spec, given, dtype, handle, *operands):
        call, names, ways = _recall(handle), (*spec.names, *spec.params), operands[:sum(given)]
        found = (_push if _transformed(ways) else _push_now)(handle, _packed(ways), " ".join(n for n, g in zip(names, given) if g))
        return _unpacked(found, [call.shapes()[name] for name in spec.outputs], [dtype] * len(spec.outputs))

    @staticmethod
    def setup_context(ctx, inputs, output):
        spec, given, dtype, handle, *operands = inputs
        _hold(ctx, spec, (given, tuple(t.dtype for t in operands[sum(given):])), handle, operands)

    @staticmethod
    def backward(ctx, *bars):
        # Of bars . J ways: by the ways J' bars, and by the inputs the same second derivative.
        (given, dtypes), (handle, *operands) = ctx.flags, ctx.saved_tensors
        handle, count = _of_graph(ctx, handle), sum(given)
        ways, inputs, needs = operands[:count], operands[count:], _needed(ctx, 4)
        there, bars = _there(bars)
        to, by = _among(given, needs[:count]), tuple(needs[count:])
        by_ways, by_inputs = (None,) * count, (None,) * len(by)
        if bars and any(to):
            by_ways = _chosen(needs[:count], _Pull.apply(ctx.spec, to, there, dtypes, handle, *bars, *inputs))
        if bars and any(by):
            by_inputs = _chosen(by, _Second.apply(ctx.spec, by, given, there, (False,) * len(there), dtypes, handle, *ways, *bars, *inputs))
        return (None,) * 4 + by_ways + by_inputs

    jvp = staticmethod(_refuse)

    @staticmethod
    def vmap(info, in_dims, spec, given, dtype, handle, *operands):
        ways, inputs = operands[:sum(given)], operands[sum(given):]
        return _mapped(_Push, info, handle, in_dims[3], ways, in_dims[4:], lambda h, w: _Push.apply(spec, given, dtype, h, *w, *inputs))


class _Second(torch.autograd.Function):
    """How a pullback changes: (spec, wanted, along, given, changed, dtypes, handle, *tangents, *cotangents, *changes, *inputs) -> by what is wanted."""

    @staticmethod
    def forward(spec, wanted, along, given, changed, dtypes, handle, *operands):
        call, names = _recall(handle), (*spec.names, *spec.params)
        mine = operands[:sum(along) + sum(given) + sum(changed)]
        names_of = lambda flags, among: " ".join(name for name, f in zip(among, flags) if f)
        to = [(n, d) for n, w, d in zip(names, wanted, dtypes) if w]
        found = (_second if _transformed(mine) else _second_now)(handle, _packed(mine), names_of(along, names), names_of(given, spec.outputs),
                                                                 names_of(changed, spec.outputs), " ".join(n for n, _ in to))
        return _unpacked(found, [call.arrays[n].shape for n, _ in to], [d for _, d in to])

    @staticmethod
    def setup_context(ctx, inputs, output):
        spec, wanted, along, given, changed, dtypes, handle, *operands = inputs
        _hold(ctx, spec, (wanted, along, given, changed, dtypes), handle, operands)

    @staticmethod
    def backward(ctx, *backs):
        # By the tangents it is the same, since a Hessian is symmetric; by the changes J backs; by cotangents and inputs there is none.
        (wanted, along, given, changed, dtypes), (handle, *operands) = ctx.flags, ctx.saved_tensors
        handle, ends = _of_graph(ctx, handle), list(itertools.accumulate((sum(along), sum(given), sum(changed))))
        ways, bars, changes, inputs = (operands[a:b] for a, b in zip((0, *ends), (*ends, None)))
        needs = _needed(ctx, 7)
        if any(needs[ends[0]:ends[1]]) or any(needs[ends[2]:]):
            _refuse()
        there, backs = _there(backs)
        back, by_ways, by_changes = _among(wanted, there), (None,) * len(ways), (None,) * len(changes)
        if backs and any(needs[:ends[0]]):
            found = _Second.apply(ctx.spec, along, back, given, (False,) * len(given), dtypes, handle, *backs, *bars, *inputs)
            by_ways = tuple(f if n else None for f, n in zip(found, needs))
        if backs and any(needs[ends[1]:ends[2]]):
            found = _Push.apply(ctx.spec, back, _result_type_of(dtypes), handle, *backs, *inputs)
            by_changes = tuple(f for f, c in zip(found, changed) if c)
        return (None,) * 7 + by_ways + (None,) * len(bars) + by_changes + (None,) * len(inputs)

    jvp = staticmethod(_refuse)

    @staticmethod
    def vmap(info, in_dims, spec, wanted, along, given, changed, dtypes, handle, *operands):
        count = sum(along) + sum(given) + sum(changed)
        mine, inputs = operands[:count], operands[count:]
        apply = lambda h, parts: _Second.apply(spec, wanted, along, given, changed, dtypes, h, *parts, *inputs)
        return _mapped(_Second, info, handle, in_dims[6], mine, in_dims[7:], apply)


for _function in (_Rollout, _Pull, _Push, _Second):  # PyTorch asks for the signature in every call
    _function.forward.__signature__ = inspect.signature(_function.forward)


# ---- what users call ------------------------------------------------------------------------------------------------------
class StepOptions(HowOptions, total=False):
    """What `step` takes beside the state and the controls: arrays of one step, each with any leading axes."""

    params: Mapping[str, Tensor] | None
    qfrc_applied: Tensor | None
    xfrc_applied: Tensor | None
    mocap_pos: Tensor | None
    mocap_quat: Tensor | None
    mocap_vel: Tensor | None
    mocap_pos_before: Tensor | None
    mocap_quat_before: Tensor | None
    command: Tensor | None
    outputs: str | Sequence[str]


class ModuleStepOptions(StepOptions, total=False):
    """What Simulator.step takes beside the state and the controls."""

    act: Tensor | None


class ModuleOptions(ModuleStepOptions, total=False):
    """What a Simulator takes when it is called."""

    steps: int | None


def _uncompiled(function: _F) -> _F:
    """The function, at which the graph of torch.compile breaks; PyTorch's own decorator has no type."""
    return function if TYPE_CHECKING else torch.compiler.disable(function)


def _result_type_of(dtypes):
    kinds = [d for d in dtypes if d.is_floating_point]
    return torch.float64 if torch.float64 in kinds or not kinds else torch.float32


def _result_type(tensors):
    return _result_type_of([t.dtype for t in tensors])


def _read(value, name):
    """A tensor of float64 or float32 on the host; lists and arrays become one."""
    t = value if isinstance(value, torch.Tensor) else torch.as_tensor(np.asarray(value), device="cpu")
    if t.dtype in (torch.float16, torch.bfloat16) or t.is_complex() or t.dtype == torch.bool:
        raise TypeError(f"{name}: expected float64 or float32, found {str(t.dtype).removeprefix('torch.')}")
    if t.device.type != "cpu":
        raise TypeError(f"{name}: expected a tensor on the CPU, found one on {t.device}: move it with .cpu()")
    return t if t.is_floating_point() else t.to(torch.float64)


@_uncompiled
def rollout(model: Model, qpos: Tensor, qvel: Tensor, ctrl: Tensor | None = None, *, act: Tensor | None = None, params: Mapping[str, Tensor] | None = None,
            qfrc_applied: Tensor | None = None, xfrc_applied: Tensor | None = None, mocap_pos: Tensor | None = None, mocap_quat: Tensor | None = None,
            mocap_vel: Tensor | None = None, mocap_pos_before: Tensor | None = None, mocap_quat_before: Tensor | None = None,
            command: Tensor | None = None, outputs: str | Sequence[str] = (), steps: int | None = None, **options: Unpack[HowOptions]) -> tuple[Tensor, ...]:
    """N steps from (qpos, qvel, act): tensors qpos, qvel, act of all N + 1 states, then those of `outputs`.

    qpos, qvel   (..., nq), (..., nv); act (..., na). Leading axes are worlds; those of all arguments broadcast
    ctrl         (..., N, nu); None: zero, and `steps` says how many
    params       {"body_mass": (..., nbody), "geom_friction:floor": (..., 3)}: in place of the model's, with gradients
    qfrc_applied (..., N, nv);  xfrc_applied (..., N, nbody, 6);  mocap_pos (..., N, nmocap, 3);  mocap_quat (..., N, nmocap, 4);  command
    mocap_vel    (..., N, nmocap, 6), as of Model.rollout;  mocap_pos_before (..., nmocap, 3);  mocap_quat_before (..., nmocap, 4)
    outputs      of "sensordata", "xpos", "site_xpos": these follow, (..., N + 1, ...)
    options      as of Model.rollout: gradient, constants, memory, threads

    Results are (..., N + 1, nq), (..., N + 1, nv), (..., N + 1, na). Quaternions in qpos are normalised first, and the gradient is that
    function's. Points of deformables, what a policy holds and the time begin as in model.init(). Float64 or float32, each gradient in the
    type of its tensor; computed in double.
    Second derivatives are those of Rollout.hvp: reverse over reverse (create_graph=True) and forward over reverse, by qpos, qvel, act, ctrl,
    qfrc_applied and xfrc_applied; what has none, forward over forward and third derivatives are UnsupportedError, by name.
    Raises ArgumentError for shapes, TypeError for other types or devices, StepError.
    """
    outputs = (outputs,) if isinstance(outputs, str) else tuple(outputs)
    given = dict(qpos=qpos, qvel=qvel, act=act, ctrl=ctrl, qfrc_applied=qfrc_applied, xfrc_applied=xfrc_applied, command=command,
                 mocap_pos=mocap_pos, mocap_quat=mocap_quat, mocap_vel=mocap_vel, mocap_pos_before=mocap_pos_before,
                 mocap_quat_before=mocap_quat_before)
    tensors = {name: _read(given[name], name) for name in INPUTS if given[name] is not None}
    of = {name: _read(value, f"params['{name}']") for name, value in (params or {}).items()}
    spec = Spec(model, tensors, of, outputs, steps=steps, **options)
    given = [*tensors.values(), *of.values()]
    return _Rollout.apply(spec, *given)[:-1] if _is_followed(given) else _without_tape(spec, given)


def step(model: Model, qpos: Tensor, qvel: Tensor, ctrl: Tensor | None = None, *, act: Tensor | None = None,
         **options: Unpack[StepOptions]) -> tuple[Tensor, Tensor, Tensor]:
    """One step: (qpos, qvel, act) after it, (..., nq), (..., nv), (..., na). ctrl (..., nu), without an axis of steps.

    All other inputs are as of rollout, with their axis of steps, N = 1: qfrc_applied (..., 1, nv), mocap_pos (..., 1, nmocap, 3); of the step
    before there is one row: mocap_pos_before (..., nmocap, 3).

    Models whose states have more than that (points of deformables, what a policy holds) are refused by name: UnsupportedError.
    Where it counts how mocap bodies move, their poses need those of the step before, or mocap_vel: ArgumentError.
    """
    refuse_rest(model, options)
    ctrl = None if ctrl is None else _read(ctrl, "ctrl").unsqueeze(-2)
    qpos, qvel, act, *_ = rollout(model, qpos, qvel, ctrl, act=act, steps=1, **options)
    return qpos[..., 1, :], qvel[..., 1, :], act[..., 1, :]


class Simulator(torch.nn.Module):
    """A model as a module whose parameters are those named: Simulator(model, ["body_mass", "geom_friction:floor"]).

    parameters   names as in Model.params; of each a torch.nn.Parameter with the model's values, called body_mass, geom_friction__floor
    dtype        of the parameters: float64 or float32

    Calling it is rollout with these parameters. Raises KeyError for a name.
    """

    def __init__(self, model: Model, parameters: Sequence[str] = (), dtype: torch.dtype = torch.float64) -> None:
        super().__init__()
        self.model, self.names = model, tuple(parameters)
        for name in self.names:
            value = torch.tensor(np.array(model.params[name]), dtype=dtype)
            self.register_parameter(self._name(name), torch.nn.Parameter(value))

    @staticmethod
    def _name(name):
        return name.replace(":", "__").replace(".", "__")

    @property
    def values(self) -> dict[str, Tensor]:
        """The parameters by their names in the model."""
        return {name: getattr(self, self._name(name)) for name in self.names}

    def forward(self, qpos: Tensor, qvel: Tensor, ctrl: Tensor | None = None, **options: Unpack[ModuleOptions]) -> tuple[Tensor, ...]:
        """rollout with the parameters of this module: qpos (..., N + 1, nq), qvel (..., N + 1, nv), act (..., N + 1, na), further outputs."""
        return rollout(self.model, qpos, qvel, ctrl, params={**self.values, **options.pop("params", {})}, **options)

    def step(self, qpos: Tensor, qvel: Tensor, ctrl: Tensor | None = None, **options: Unpack[ModuleStepOptions]) -> tuple[Tensor, Tensor, Tensor]:
        """step with the parameters of this module: (qpos, qvel, act) after it."""
        return step(self.model, qpos, qvel, ctrl, params={**self.values, **options.pop("params", {})}, **options)
