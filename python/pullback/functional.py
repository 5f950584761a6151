"""A rollout as a function of arrays with any number of leading axes, which broadcast: what the bindings to frameworks call.

The function is rollout(normalize(qpos)): quaternions may have any length from 1e-6 on, row 0 of the result is the normalised start,
and cotangents of qpos are by its numbers (nq), 1/|q| of the start included. Tangents and cotangents are arrays of the same shapes.
"""
import numpy as np

from . import _core
from .arrays import real, tree_sum, words
from .errors import ArgumentError, UnsupportedError
from .names import C
from .rollout import Rollout, check_words, memory_of_tapes, velocity_counts
from .second import refuse

LEAST_LENGTH = 1e-6
SHORT = 32  # steps of all worlds
INPUTS = ("qpos", "qvel", "act", "ctrl", "qfrc_applied", "xfrc_applied", "command", "mocap_pos", "mocap_quat", "mocap_vel",
          "mocap_pos_before", "mocap_quat_before")
# Inputs without a row for each step, and what rotations of mocap bodies are derivatives by.
_ONE_ROW = ("qpos", "qvel", "act", "mocap_pos_before", "mocap_quat_before")
_TURNS = {"mocap_quat": "mocap_rot", "mocap_quat_before": "mocap_rot_before"}
OPTIONS = ("steps", "gradient", "constants", "memory", "threads", "on_failure", "progress")


class Spec:
    """A model, which inputs there are, and the options of a rollout: all that is not an array that a framework follows."""

    def __init__(self, model, names, params, outputs, **options):
        self.model, self.names, self.params = model, tuple(names), tuple(params)
        self.outputs, self.options = ("qpos", "qvel", "act", *outputs), options
        for name in options:
            if name not in OPTIONS:
                raise TypeError(f"unknown option '{name}': there are {', '.join(OPTIONS)}")
        check_words(outputs, *(options.get(name, default) for name, default in (("gradient", "exact"), ("constants", "recompute"), ("on_failure", "raise"))))

    def width(self, name, steps):
        """Shape of an input without leading axes."""
        m = self.model
        if name in self.params:
            return m._parameter(name)[1]
        return {"qpos": (m.nq,), "qvel": (m.nv,), "act": (m.na,), "ctrl": (steps, m.nu), "qfrc_applied": (steps, m.nv),
                "xfrc_applied": (steps, m.nbody, 6), "mocap_pos": (steps, m.nmocap, 3), "mocap_quat": (steps, m.nmocap, 4),
                "mocap_vel": (steps, m.nmocap, 6), "mocap_pos_before": (m.nmocap, 3), "mocap_quat_before": (m.nmocap, 4),
                "command": (steps, m._compiled.size("ncommand"))}[name]

    def axes(self, name):
        """Axes of an input that are not leading ones."""
        return len(self.width(name, 0))

    def steps(self, shapes):
        """N, by the inputs that have a row for each step, or as said."""
        said = self.options.get("steps")
        for name, shape in shapes.items():
            if name not in self.params and name not in _ONE_ROW:
                if len(shape) < self.axes(name):
                    raise ArgumentError(f"{name}: expected shape {words(('N', *self.width(name, 0)[1:]))} behind any axes of a batch, found {words(shape)}")
                found = shape[-self.axes(name)]
                if said not in (None, found):
                    raise ArgumentError(f"{name} has {found} steps, but steps is {said}")
                return found
        if said is None:
            raise ArgumentError("how many steps? Give ctrl or steps")
        return said

    def single(self, shapes):
        """What takes a step of one world, and pulls it back, without Python in between: _core.Single; None where there is more to it."""
        m, options = self.model, self.options
        plain = not self.params and len(self.outputs) == 3 and {"qpos", "qvel"} <= set(self.names) <= {"qpos", "qvel", "act", "ctrl"}
        usual = options.get("gradient", "exact") == "exact" and options.get("on_failure", "raise") == "raise" and not options.get("progress")
        if not plain or not usual or m.npoint or self.steps(shapes) != 1 or any(shapes[name] != self.width(name, 1) for name in self.names):
            return None
        places, _ = quaternions(m)
        return _core.Single(m._compiled, m._theta, m.init().flat, tuple(int(k) for k in places), LEAST_LENGTH, memory_of_tapes(options.get("memory")))

    def is_short(self, shapes):
        """Whether running it again costs a derivative less than keeping its tape costs memory: a step of a closed loop takes some microseconds of
        a call's hundred, its working memory a hundred times its states. Not so of many steps, and of deformables, whose steps are solved anew.
        """
        if self.model.npoint:
            return False
        leads = (shape[:len(shape) - self.axes(name)] for name, shape in shapes.items())
        return self.steps(shapes) * int(np.prod(np.broadcast_shapes(*leads), dtype=int)) <= SHORT

    def leads(self, shapes, steps):
        """Leading axes of each input, and those of all together; ArgumentError where a shape is another than the model's."""
        leads = {name: self._lead(name, shape, self.width(name, steps)) for name, shape in shapes.items()}
        try:
            return leads, np.broadcast_shapes(*leads.values())
        except ValueError:
            text = ", ".join(f"{name} {words(lead)}" for name, lead in leads.items() if lead)
            raise ArgumentError(f"leading axes do not go together: {text}") from None

    @staticmethod
    def _lead(name, shape, width):
        lead = shape[:len(shape) - len(width)]
        if len(shape) < len(width) or shape[len(lead):] != width:
            raise ArgumentError(f"{name}: expected shape {words(width)} behind any axes of a batch, found {words(shape)}")
        return lead


def refuse_rest(model, options):
    """A loop of single steps hands over qpos, qvel and act alone: raises UnsupportedError where a state has more that the next step depends on, and
    ArgumentError where it depends on how mocap bodies move and the options do not say it: before a single step they stood where the model has them.
    """
    rest = [name for name in model._slots if name not in ("time", "qpos", "qvel", "act", "qacc_warmstart")]
    if rest:
        raise UnsupportedError(f"step takes and gives qpos, qvel and act, but a state of this model also has {', '.join(rest)}, which each step would "
                               "begin anew: call rollout with all steps, or Model.step, whose State has all of it")

    counts = velocity_counts(model, options.get("gradient"))
    for pose in ("mocap_pos", "mocap_quat"):
        if counts and options.get(pose) is not None and options.get("mocap_vel") is None and options.get(f"{pose}_before") is None:
            raise ArgumentError(f"step: {pose} without {pose}_before or mocap_vel: how mocap bodies move counts here (gradient 'event', contact method impact, "
                                f"mocap_motion followed), and a single step knows of none before: give that step's {pose} as {pose}_before")


def quaternions(model):
    """First numbers in qpos, and first dofs, of all quaternions."""
    if not hasattr(model, "_quats"):
        kind = model._field("jnt_type")
        skip = np.where(kind == C["pb_jntFree"], 3, 0)  # free: behind the position
        turns = (kind == C["pb_jntFree"]) | (kind == C["pb_jntBall"])
        model._quats = (model._field("jnt_qposadr") + skip)[turns], (model._field("jnt_dofadr") + skip)[turns]
    return model._quats


class Call:
    """One rollout of that function, kept for its derivatives."""

    def __init__(self, spec, arrays, keep=True, park=True):
        """arrays: by name, float64; absent: not given. park: it may run again for each derivative, where it is short."""
        self.spec = spec
        m = self.model = spec.model
        self.arrays = {name: real(a, name) for name, a in arrays.items()}
        shapes = {name: a.shape for name, a in self.arrays.items()}
        self.steps = spec.steps(shapes)
        self.leads, self.lead = spec.leads(shapes, self.steps)
        self.worlds = int(np.prod(self.lead, dtype=int))
        if self.worlds == 0:
            raise ArgumentError(f"expected 1 world or more, found leading axes {words(self.lead)}")

        # The state, normalised; as many rows as its parts need.
        flat = self._start()
        inputs = {name: self._spread(name) for name in spec.names if name in self.arrays and name not in ("qpos", "qvel", "act")}
        params = {name: self._spread(name) for name in spec.params if name in self.arrays}
        options = {k: v for k, v in spec.options.items() if k != "steps"}
        self.rollout = Rollout(m, flat, inputs.pop("ctrl", None), steps=self.steps, params=params,
                               outputs=[o for o in spec.outputs if o not in ("qpos", "qvel", "act")], keep=keep, **inputs, **options)
        self.batched = self.rollout.batch is not None
        self._short = keep and park and spec.is_short(shapes)
        self._settle()

    def _settle(self):
        """A graph may hold a call for every step of a closed loop: what each leaves to know are its states and inputs."""
        if self._short:
            self.rollout._park()

    # ---- axes ---------------------------------------------------------------------------------------------------------
    def _spread(self, name):
        """An input as Rollout takes it: without an axis of worlds where it is shared."""
        a, lead = self.arrays[name], self.leads[name]
        width = a.shape[len(lead):]
        if all(n == 1 for n in lead):
            return a.reshape(width)
        return np.ascontiguousarray(np.broadcast_to(a, (*self.lead, *width))).reshape(self.worlds, *width)

    def _gathered(self, name, rows):
        """A gradient of all worlds, or of what was shared, in the shape of the input."""
        lead, width = self.leads[name], self.arrays[name].shape[len(self.leads[name]):]
        if all(n == 1 for n in lead):
            if rows.size != np.prod(width, dtype=int):
                rows = tree_sum(rows.reshape(self.worlds, -1))
            return rows.reshape((*lead, *width))
        a = rows.reshape((*self.lead, *width))
        extra = len(self.lead) - len(lead)
        a = a.sum(axis=tuple(range(extra))) if extra else a
        alone = tuple(i for i, n in enumerate(lead) if n == 1 and self.lead[extra + i] != 1)
        return a.sum(axis=alone, keepdims=True) if alone else a

    def _start(self):
        m, parts = self.model, {}
        places, _ = quaternions(m)
        for name in ("qpos", "qvel", "act"):
            if name in self.arrays:
                parts[name] = self._spread(name)
        qpos = self.arrays["qpos"]
        if len(places):
            blocks = qpos[..., places[:, None] + np.arange(4)]
            self.lengths = np.sqrt((blocks ** 2).sum(axis=-1, keepdims=True))
            if (self.lengths < LEAST_LENGTH).any():
                raise ArgumentError(f"qpos: the length of a quaternion is {self.lengths.min():g}; it must be at least {LEAST_LENGTH:g}")
            parts["qpos"] = parts["qpos"].copy()
            at = parts["qpos"][..., places[:, None] + np.arange(4)]
            parts["qpos"][..., places[:, None] + np.arange(4)] = at / np.sqrt((at ** 2).sum(axis=-1, keepdims=True))
        rows = max(len(a) if a.ndim == 2 else 1 for a in parts.values())
        flat = np.repeat(m.init().flat[None], rows, axis=0)
        for name, a in parts.items():
            flat[:, m._slots[name]] = a
        return flat if any(a.ndim == 2 for a in parts.values()) else flat[0]

    def _rows(self, a, width):
        """An array with the call's leading axes as Rollout has it: (worlds, ...) or (...)."""
        return np.ascontiguousarray(np.broadcast_to(a, (*self.lead, *width))).reshape(*((self.worlds,) if self.batched else ()), *width)

    def _out(self, a):
        """What Rollout gives, with the call's leading axes."""
        a = a if self.batched else a[None]
        return a.reshape(*self.lead, *a.shape[1:])

    # ---- the function and its derivatives -------------------------------------------------------------------------------
    def outputs(self):
        """Arrays of the call, (..., N + 1, width), in the order of the spec."""
        return {name: self._out(np.ascontiguousarray(getattr(self.rollout, name))) for name in self.spec.outputs}

    def shapes(self):
        """Shapes of the outputs."""
        skip = 1 if self.batched else 0
        return {name: (*self.lead, *getattr(self.rollout, name).shape[skip:]) for name in self.spec.outputs}

    def _states(self):
        return self.rollout.states.reshape(-1, self.model._size)

    def _bars(self, cotangents):
        """Cotangents of outputs as Rollout takes them."""
        m, bars = self.model, self._ambient_bars(cotangents)
        if "qpos" in bars:
            shape = bars["qpos"].shape[:-1]
            bars["qpos"] = m.to_tangent(self._states(), bars["qpos"].reshape(-1, m.nq)).reshape(*shape, m.nv)
        return bars

    def _ambient_bars(self, cotangents):
        bars = {}
        for name, bar in cotangents.items():
            value = getattr(self.rollout, name)
            width = value.shape[1:] if self.batched else value.shape
            bars[name] = self._rows(bar, width)
        return bars

    def pull(self, cotangents, wanted):
        """Gradients by the inputs `wanted`, each in its shape, of cotangents of outputs by name."""
        bars = self._bars(cotangents)
        names = [n for n in wanted if n not in ("qpos", "qvel", "act")]
        wrt = [_TURNS.get(n, n) for n in names]
        g = self.rollout.vjp(wrt=wrt, check=False, **bars)
        self._settle()

        found = {}
        for name in wanted:
            if name in ("qvel", "act"):
                found[name] = self._gathered(name, getattr(g, name))
            elif name == "qpos":
                found[name] = self._pull_start(g.qpos)
            elif name in _TURNS:
                found[name] = self._pull_mocap(name, getattr(g, _TURNS[name]))
            else:
                found[name] = self._gathered(name, g.params[name] if name in self.spec.params else getattr(g, name))
        return found

    def _pull_start(self, tangent_bar):
        """From the tangent space at the start to the numbers that were given."""
        m = self.model
        places, _ = quaternions(m)
        start = self.rollout.states[..., 0, :]
        shared = tangent_bar.ndim == 1 and start.ndim == 2
        bar = m.to_ambient(start[0] if shared else start, tangent_bar)
        bar = self._gathered("qpos", bar)
        if len(places):
            at = places[:, None] + np.arange(4)
            bar[..., at] = bar[..., at] / self.lengths
        return bar

    def _orientations(self, name):
        """Quaternions of mocap bodies as the rollout ran with them: the array that was given may have changed since."""
        return self.rollout._inputs[name].data

    def _pull_mocap(self, name, rotation_bar):
        """Of rotations in the bodies' frames to quaternions as they were given: q exp(r), r = 2 q* dq / |q|."""
        q = self._orientations(name)
        length2 = (q ** 2).sum(axis=-1, keepdims=True)
        return self._gathered(name, 2 * _rotate_back(q, rotation_bar) / length2)

    def _ways(self, tangents):
        """Tangents of inputs by name as Rollout takes them: of the state, of inputs, of parameters."""
        m = self.model
        places, dofs = quaternions(m)
        ways = {}
        for name, way in tangents.items():
            ways[name] = np.broadcast_to(way, self.arrays[name].shape)
        state = np.zeros((self.worlds, 2 * m.nv + m.na))
        start = self.rollout.states[..., 0, :].reshape(-1, m._size)
        if "qpos" in ways:
            way = np.array(ways["qpos"])
            if len(places):
                at = places[:, None] + np.arange(4)
                way[..., at] = way[..., at] / self.lengths
            way = np.broadcast_to(way, (*self.lead, m.nq)).reshape(self.worlds, m.nq)
            tangent = m.to_tangent(start, np.ascontiguousarray(way))
            tangent[:, (dofs[:, None] + np.arange(3)).ravel()] *= 4  # of a direction, not a cotangent: the columns have length 1/2
            state[:, :m.nv] = tangent
        for name, place in (("qvel", slice(m.nv, 2 * m.nv)), ("act", slice(2 * m.nv, None))):
            if name in ways:
                state[:, place] = np.broadcast_to(ways[name], (*self.lead, ways[name].shape[-1])).reshape(self.worlds, -1)
        full = np.zeros((self.worlds, len(m.tangent_names)))
        full[:, :state.shape[1]] = state

        def way_of(name):
            a, lead = ways[name], self.leads[name]
            width = a.shape[len(lead):]
            if all(n == 1 for n in lead):
                return a.reshape(width)
            return np.ascontiguousarray(np.broadcast_to(a, (*self.lead, *width))).reshape(self.worlds, *width)
        inputs = {name: way_of(name) for name in ways if name not in ("qpos", "qvel", "act", *_TURNS) and name not in self.spec.params}
        for name in _TURNS:
            if name in ways:
                q = self._orientations(name)
                inputs[_TURNS[name]] = 2 * _turn_back(q, way_of(name)) / (q ** 2).sum(axis=-1, keepdims=True)
        params = {name: way_of(name) for name in ways if name in self.spec.params}
        return full if self.batched else full[0], inputs, params

    def push(self, tangents):
        """Tangents of all outputs by name, of tangents of inputs by name."""
        m = self.model
        places, _ = quaternions(m)
        state, inputs, params = self._ways(tangents)
        t = self.rollout.jvp(state, params=params, **inputs)
        self._settle()

        found = {}
        for name in self.spec.outputs:
            if name != "qpos":
                found[name] = self._out(np.ascontiguousarray(getattr(t, name)))
                continue
            tangent = np.ascontiguousarray(t.qpos).reshape(-1, m.nv)
            ambient = m.to_ambient(self._states(), tangent)
            ambient[:, (places[:, None] + np.arange(4)).ravel()] /= 4
            found[name] = self._out(ambient.reshape(self.rollout.qpos.shape))
        return found


    # ---- second derivatives ------------------------------------------------------------------------------------------------
    def second(self, tangents, cotangents, wanted, changes=None):
        """How what `pull` gives of the cotangents changes along tangents of inputs; changes: of the cotangents, by name, in their shapes."""
        refuse(wanted, "the result by")
        state, inputs, params = self._ways(tangents)
        direction = {"state": state, "params": params, **inputs}
        bars, moved = self._bars(cotangents), self._bars(changes or {})
        places, dofs = quaternions(self.model)
        if len(places) and "qpos" in cotangents:
            self._turn_bars(direction, cotangents["qpos"], moved)
        g = self.rollout.hvp(direction, bars, moved, wrt=[n for n in wanted if n not in ("qpos", "qvel", "act")])

        found = {name: self._gathered(name, getattr(g, name)) for name in wanted if name != "qpos"}
        if "qpos" in wanted:
            turns = len(places) and "qpos" in tangents
            v = self.rollout.vjp(wrt=(), check=False, **bars).qpos if turns else None
            found["qpos"] = self._turn_start(g.qpos, v, state, tangents["qpos"]) if turns else self._pull_start(g.qpos)
        self._settle()
        return {name: found[name] for name in wanted}

    def _turn_bars(self, direction, ambient, moved):
        """A cotangent of a quaternion q that stands still in space is B in its frame, vec(q* B) / 2, which moves as q does: dq = q (0, w) / 2."""
        m, (places, dofs) = self.model, quaternions(self.model)
        t = self.rollout.jvp(**direction).qpos.reshape(-1, m.nv)
        q, bar = self.rollout.qpos.reshape(-1, m.nq), self._ambient_bars({"qpos": ambient})["qpos"].reshape(-1, m.nq)
        change = np.zeros((len(q), m.nv))
        for place, dof in zip(places, dofs):
            w, block = t[:, dof:dof + 3], slice(place, place + 4)
            dq = _rotate_back(q[:, block], w) / 2
            change[:, dof:dof + 3] = _turn_back(dq, bar[:, block]) / 2
        shape = (*self.rollout.qpos.shape[:-1], m.nv)
        moved["qpos"] = moved.get("qpos", 0) + change.reshape(shape)

    def _turn_start(self, h, v, state, way):
        """By the numbers that were given, p: the gradient by them is 2 u (0, v) / |p|, u = p / |p|, and v, u and |p| move along `way`.

        h is by coordinates of u exp(w): the gradient's own change, and w x v / 2 with it (docs/derivatives.md, 13).
        """
        m, (places, dofs) = self.model, quaternions(self.model)
        start = self.rollout.states[..., 0, m._slots["qpos"]]
        way = np.array(np.broadcast_to(way, self.arrays["qpos"].shape))
        at = places[:, None] + np.arange(4)
        way[..., at] = way[..., at] / self.lengths
        way = np.broadcast_to(way, (*self.lead, m.nq)).reshape(self.worlds, m.nq)
        if not self.batched or h.ndim == 1:
            start, way, state = start[0] if start.ndim == 2 else start, way[0], state[0] if state.ndim == 2 else state

        found = self._plain_start(h)
        for place, dof in zip(places, dofs):
            three, block = slice(dof, dof + 3), slice(place, place + 4)
            u, d, w = start[..., block], way[..., block], state[..., three]
            own = h[..., three] - np.cross(w, v[..., three]) / 2
            along = (u * d).sum(axis=-1, keepdims=True)
            found[..., block] = 2 * (_rotate_back(u, own) + _rotate_back(d - 2 * along * u, v[..., three]))
        found = self._gathered("qpos", found)
        found[..., at] = found[..., at] / self.lengths
        return found

    def _plain_start(self, h):
        """Numbers of qpos that are no quaternions, from their tangents."""
        m, start = self.model, self.rollout.states[..., 0, :]
        return np.array(m.to_ambient(start[0] if h.ndim == 1 and start.ndim == 2 else start, np.ascontiguousarray(h)))


def _rotate_back(q, r):
    """Transpose of r = vector part of q* dq: a quaternion, q times (0, r)."""
    w, v = q[..., :1], q[..., 1:]
    return np.concatenate([-(v * r).sum(axis=-1, keepdims=True), w * r + np.cross(v, r)], axis=-1)


def _turn_back(q, d):
    """The vector part of q* d."""
    w, v, dw, dv = q[..., :1], q[..., 1:], d[..., :1], d[..., 1:]
    return w * dv - dw * v - np.cross(v, dv)
