"""Pullback's C interface through ctypes, as the oracle tests use it (include/pullback/*.h)."""
import ctypes as ct
import os

import numpy as np

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
_F = ct.POINTER(ct.c_double)


class Field(ct.Structure):
    _fields_ = [("name", ct.c_char_p), ("rows", ct.c_int), ("cols", ct.c_int),
                ("integers", ct.POINTER(ct.c_int)), ("reals", _F)]


class Param(ct.Structure):
    _fields_ = [("name", ct.c_char_p), ("unit", ct.c_char_p), ("rows", ct.c_int), ("cols", ct.c_int),
                ("offset", ct.c_size_t), ("rows_are", ct.c_int), ("lower", ct.c_double), ("upper", ct.c_double),
                ("derived", ct.c_bool), ("option", ct.c_bool)]


class StateField(ct.Structure):
    _fields_ = [("name", ct.c_char_p), ("offset", ct.c_int), ("size", ct.c_int)]


class LoadOptions(ct.Structure):
    _fields_ = [("allow_root", ct.c_char_p)]


class Input(ct.Structure):
    _fields_ = [("ctrl", _F), ("qfrc", _F), ("xfrc", _F)]


class Report(ct.Structure):
    _fields_ = [("contacts", ct.c_int), ("rows", ct.c_int), ("iterations", ct.c_int), ("residual", ct.c_double),
                ("converged", ct.c_bool), ("condition", ct.c_double), ("onsets", ct.c_int), ("releases", ct.c_int),
                ("simultaneous", ct.c_int), ("approach", ct.c_double),
                ("penetration", ct.c_double), ("penetrating", ct.c_int * 2)]


class ObservationBar(ct.Structure):
    _fields_ = [("sensordata", _F), ("xpos", _F), ("site_xpos", _F)]


class Direction(ct.Structure):
    _fields_ = [("x", _F), ("ctrl", _F), ("qfrc", _F), ("xfrc", _F), ("theta", _F)]


class Plan(ct.Structure):
    _fields_ = [("steps", ct.c_int), ("snapshots", ct.c_int), ("leaf", ct.c_int), ("record_bytes", ct.c_size_t),
                ("snapshot_bytes", ct.c_size_t), ("full_bytes", ct.c_size_t), ("planned_bytes", ct.c_size_t),
                ("kept_bytes", ct.c_size_t), ("fixed_bytes", ct.c_size_t), ("forward_steps", ct.c_int64),
                ("recomputed", ct.c_int64)]


class RolloutInput(ct.Structure):
    _fields_ = [("ctrl", _F), ("qfrc", _F), ("xfrc", _F), ("constant", ct.c_bool)]


class RolloutOutput(ct.Structure):
    _fields_ = [("states", _F), ("final_state", _F), ("sensordata", _F), ("xpos", _F), ("site_xpos", _F),
                ("rows", ct.POINTER(ct.c_int)), ("row_count", ct.c_int), ("steps_done", ct.c_int)]


class Cotangent(ct.Structure):
    _fields_ = [("data", _F), ("count", ct.c_int), ("steps", ct.POINTER(ct.c_int))]


class RolloutBar(ct.Structure):
    _fields_ = [(name, Cotangent) for name in ("qpos", "qvel", "act", "sensordata", "xpos", "site_xpos", "points", "point_velocity")]


class RolloutGradient(ct.Structure):
    _fields_ = [("x0", _F), ("ctrl", _F), ("qfrc", _F), ("xfrc", _F), ("theta", _F)]


class RolloutDirection(ct.Structure):
    _fields_ = [("x0", _F), ("ctrl", _F), ("qfrc", _F), ("xfrc", _F), ("theta", _F)]


class RolloutTangent(ct.Structure):
    _fields_ = [("x", _F), ("sensordata", _F), ("xpos", _F), ("site_xpos", _F), ("rows", ct.POINTER(ct.c_int)),
                ("row_count", ct.c_int)]


class Certificate(ct.Structure):
    _fields_ = [("worst_residual", ct.c_double), ("worst_residual_step", ct.c_int), ("unconverged", ct.c_int64),
                ("worst_condition", ct.c_double), ("worst_row", ct.c_char * 256), ("onsets", ct.c_int64), ("releases", ct.c_int64),
                ("simultaneous", ct.c_int64), ("approach", ct.c_double), ("events", ct.c_int64), ("grazing", ct.c_int64),
                ("event_step", ct.c_int), ("grazing_step", ct.c_int), ("simultaneous_step", ct.c_int),
                ("most_contacts", ct.c_int), ("most_rows", ct.c_int), ("penetration", ct.c_double),
                ("penetrating", ct.c_int * 2), ("penetration_step", ct.c_int), ("costate_initial", ct.c_double),
                ("costate_final", ct.c_double), ("growth", ct.c_double), ("growth_rate", ct.c_double),
                ("costate_worst", ct.c_double), ("costate_worst_step", ct.c_int), ("steps", ct.c_int64),
                ("recomputed", ct.c_int64), ("tape_bytes", ct.c_size_t), ("full_tape_bytes", ct.c_size_t),
                ("spot_checked", ct.c_bool), ("spot_gradient", ct.c_double), ("spot_difference", ct.c_double),
                ("spot_error", ct.c_double)]


class Error(RuntimeError):
    """A call that did not return pb_ok; .status is the code."""

    def __init__(self, status, text):
        super().__init__(f"{lib().pbStatus_Text(status).decode()}: {text}")
        self.status = status


def build_dir():
    return os.environ.get("PULLBACK_BUILD", os.path.join(ROOT, "build", "release"))


_LIB = None


def lib():
    """The shared library of the build folder, with argument types set."""
    global _LIB
    if _LIB is None:
        found = [os.path.join(d, f) for d, _, names in os.walk(build_dir()) for f in names if f == "libpullback.so"]
        if not found:
            raise FileNotFoundError(f"no libpullback.so under {build_dir()}")
        _LIB = declare(ct.CDLL(found[0]))
    return _LIB


def declare(l):
    p, i, d, s = ct.c_void_p, ct.c_int, ct.c_double, ct.c_char_p
    table = {
        "pbContext_Create": (p, [p]), "pbContext_Destroy": (None, [p]), "pbContext_Error": (s, [p]),
        "pbContext_Warnings": (s, [p]), "pbStatus_Text": (s, [i]),
        "pbModel_Load": (i, [p, s, ct.POINTER(LoadOptions), ct.POINTER(p)]), "pbModel_Destroy": (None, [p]),
        "pbModel_Size": (i, [p, s]), "pbModel_TangentSize": (i, [p]), "pbModel_Name": (s, [p, i, i]),
        "pbModel_ParamSize": (ct.c_size_t, [p]), "pbModel_ParamCount": (i, [p]), "pbModel_ParamAt": (Param, [p, i]),
        "pbModel_DefaultParams": (_F, [p]), "pbModel_SetConstants": (i, [p, _F]),
        "pbModel_SetConstantsVjp": (i, [p, _F, _F]), "pbModel_FieldAt": (ct.c_bool, [p, i, ct.POINTER(Field)]),
        "pbModel_SetOption": (i, [p, s, s]), "pbModel_SetContact": (i, [p, s, s]),
        "pbModel_StateSize": (i, [p]), "pbModel_StateFieldCount": (i, [p]), "pbModel_StateFieldAt": (StateField, [p, i]),
        "pbState_Init": (i, [p, _F, i, _F]), "pbState_Difference": (None, [p, _F, _F, _F]),
        "pbState_Move": (None, [p, _F, _F, d]),
        "pbState_TangentFromAmbient": (None, [p, _F, _F, _F]), "pbState_AmbientFromTangent": (None, [p, _F, _F, _F]),
        "pbScratch_Create": (i, [p, p, ct.POINTER(p)]), "pbScratch_Destroy": (None, [p]), "pbScratch_Error": (s, [p]), "pbScratch_WorstRow": (s, [p]),
        "pbScratch_Report": (Report, [p]), "pbScratch_Gather": (None, [p]),
        "pbScratch_Field": (ct.c_bool, [p, s, ct.POINTER(_F), ct.POINTER(i), ct.POINTER(i)]),
        "pbStep_Forward": (i, [p, _F, _F, ct.POINTER(Input), p, _F]),
        "pbStep_Observe": (i, [p, _F, _F, ct.POINTER(Input), p, _F]),
        "pbModel_SetContact": (i, [p, s, s]),
        "pbRollout_Plan": (i, [p, i, ct.c_size_t, ct.POINTER(Plan)]),
        "pbRollout_Create": (i, [p, p, ct.POINTER(Plan), p, ct.POINTER(p)]), "pbRollout_Destroy": (None, [p]),
        "pbRollout_SetGradient": (i, [p, i]),
        "pbRollout_Forward": (i, [p, _F, _F, ct.POINTER(RolloutInput), ct.POINTER(RolloutOutput)]),
        "pbRollout_Vjp": (i, [p, ct.POINTER(RolloutBar), p, ct.POINTER(RolloutGradient), ct.POINTER(Certificate)]),
        "pbRollout_Jvp": (i, [p, i, ct.POINTER(RolloutDirection), ct.POINTER(RolloutTangent)]),
        "pbTape_Size": (i, [p]), "pbTape_Record": (None, [p, _F, p, _F]),
        "pbStep_Vjp": (i, [p, _F, _F, ct.POINTER(Input), _F, ct.POINTER(ObservationBar), p, _F, ct.POINTER(Input), _F]),
        "pbStep_Jvp": (i, [p, _F, _F, ct.POINTER(Input), ct.POINTER(Direction), p, _F, _F, _F, _F]),
        "pbStep_Jacobian": (i, [p, _F, _F, ct.POINTER(Input), p, _F, _F, _F, _F]),
    }
    for name, (result, args) in table.items():
        if hasattr(l, name):
            f = getattr(l, name)
            f.restype, f.argtypes = result, args
    return l


def ptr(a):
    return None if a is None else a.ctypes.data_as(_F)


def real(a):
    return None if a is None else np.ascontiguousarray(a, dtype=np.float64).copy()


class Model:
    """A compiled model with its own scratch. theta is the default unless given."""

    def __init__(self, path, options=None, allow_root=None, contact=None):
        l = lib()
        self.ctx = ct.c_void_p(l.pbContext_Create(None))
        self.ptr, self.scratch, self.path = ct.c_void_p(), ct.c_void_p(), path
        opt = LoadOptions(allow_root.encode() if allow_root else None)
        self._check(l.pbModel_Load(self.ctx, os.fsencode(path), ct.byref(opt), ct.byref(self.ptr)))
        for k, v in (options or {}).items():
            self._check(l.pbModel_SetOption(self.ptr, k.encode(), str(v).encode()))
        for k, v in (contact or {}).items():
            self._check(l.pbModel_SetContact(self.ptr, k.encode(), str(v).encode()))
        self._sizes()

    def _sizes(self):
        l = lib()
        size = lambda n: l.pbModel_Size(self.ptr, n.encode())
        self.nq, self.nv, self.nu, self.na, self.nbody, self.nsite, self.nsensordata = (
            size(n) for n in ("nq", "nv", "nu", "na", "nbody", "nsite", "nsensordata"))
        self.nx, self.nt = l.pbModel_StateSize(self.ptr), l.pbModel_TangentSize(self.ptr)
        self.slots = {}
        for k in range(l.pbModel_StateFieldCount(self.ptr)):
            f = l.pbModel_StateFieldAt(self.ptr, k)
            self.slots[f.name.decode()] = slice(f.offset, f.offset + f.size)
        self.params = {}
        for k in range(l.pbModel_ParamCount(self.ptr)):
            q = l.pbModel_ParamAt(self.ptr, k)
            self.params[q.name.decode()] = q
        self.ntheta = l.pbModel_ParamSize(self.ptr)
        self.theta = np.ctypeslib.as_array(l.pbModel_DefaultParams(self.ptr), (self.ntheta,)).copy()

    def __del__(self):
        if getattr(self, "ctx", None):
            l = lib()
            if self.scratch:
                l.pbScratch_Destroy(self.scratch)
            if self.ptr:
                l.pbModel_Destroy(self.ptr)
            l.pbContext_Destroy(self.ctx)
            self.ctx = None

    def _check(self, status):
        if status:
            raise Error(status, (lib().pbContext_Error(self.ctx) or b"").decode())

    def _step_check(self, status):
        if status:
            raise Error(status, (lib().pbScratch_Error(self.scratch) or b"").decode())

    def _scratch(self):
        if not self.scratch:
            self._check(lib().pbScratch_Create(self.ptr, None, ct.byref(self.scratch)))
        return self.scratch

    def warnings(self):
        return (lib().pbContext_Warnings(self.ctx) or b"").decode()

    def fields(self):
        """Every compiled field: name -> array (rows, cols)."""
        out, f, k = {}, Field(), 0
        while lib().pbModel_FieldAt(self.ptr, k, ct.byref(f)):
            n = f.rows * f.cols
            data, kind = (f.integers, np.int64) if f.integers else (f.reals, np.float64)
            a = np.array(data[:n], dtype=kind) if n else np.zeros(0, kind)
            out[f.name.decode()] = a.reshape(f.rows, f.cols)
            k += 1
        return out

    def param(self, theta, name):
        """View of a parameter inside a flat vector like theta."""
        q = self.params[name]
        return theta[q.offset:q.offset + q.rows * q.cols].reshape(q.rows, q.cols)

    # ---- states -----------------------------------------------------------------------------------------------------
    def init(self, keyframe=-1):
        x = np.zeros(self.nx)
        self._check(lib().pbState_Init(self.ptr, ptr(self.theta), keyframe, ptr(x)))
        return x

    def state(self, qpos, qvel, act=(), time=0.0, warmstart=None):
        x = self.init()
        x[self.slots["qpos"]], x[self.slots["qvel"]], x[self.slots["act"]] = qpos, qvel, act
        x[self.slots["time"]] = time
        if warmstart is not None and "qacc_warmstart" in self.slots:
            x[self.slots["qacc_warmstart"]] = warmstart
        return x

    def parts(self, x):
        return x[self.slots["qpos"]], x[self.slots["qvel"]], x[self.slots["act"]]

    def move(self, x, tangent, eps):
        y, t = x.copy(), real(tangent)
        lib().pbState_Move(self.ptr, ptr(y), ptr(t), eps)
        return y

    def difference(self, a, b):
        out = np.zeros(self.nt)
        lib().pbState_Difference(self.ptr, ptr(real(a)), ptr(real(b)), ptr(out))
        return out

    # ---- step -------------------------------------------------------------------------------------------------------
    def _input(self, ctrl, qfrc, xfrc):
        self._keep = [real(ctrl), real(qfrc), real(xfrc)]
        return Input(*(ptr(a) for a in self._keep))

    def step(self, x, ctrl=None, qfrc=None, xfrc=None, theta=None):
        """(next state, sensordata of the state before)."""
        y, s, th = x.copy(), np.zeros(self.nsensordata), self.theta if theta is None else theta
        self._step_check(lib().pbStep_Forward(self.ptr, ptr(th), ptr(y), self._input(ctrl, qfrc, xfrc), self._scratch(), ptr(s)))
        return y, s

    def step_recorded(self, x, ctrl=None, qfrc=None, xfrc=None, theta=None):
        y, s = self.step(x, ctrl, qfrc, xfrc, theta)
        record = np.zeros(lib().pbTape_Size(self.ptr))
        lib().pbTape_Record(self.ptr, ptr(real(x)), self._scratch(), ptr(record))
        return y, s, record

    def observe(self, x, ctrl=None, qfrc=None, xfrc=None, theta=None):
        s, th = np.zeros(self.nsensordata), self.theta if theta is None else theta
        self._step_check(lib().pbStep_Observe(self.ptr, ptr(th), ptr(real(x)), self._input(ctrl, qfrc, xfrc), self._scratch(), ptr(s)))
        return s

    def gather(self):
        lib().pbScratch_Gather(self._scratch())

    def field(self, name):
        """Quantity of the last forward evaluation, as a copy of shape (rows, cols)."""
        data, r, c = _F(), ct.c_int(), ct.c_int()
        if not lib().pbScratch_Field(self._scratch(), name.encode(), ct.byref(data), ct.byref(r), ct.byref(c)):
            raise KeyError(name)
        n = r.value * c.value
        return (np.ctypeslib.as_array(data, (n,)).copy() if n else np.zeros(0)).reshape(r.value, c.value)

    def report(self):
        return lib().pbScratch_Report(self._scratch())

    # ---- derivatives ------------------------------------------------------------------------------------------------
    def vjp(self, record, next_bar=None, sensordata=None, xpos=None, site_xpos=None, ctrl=None, qfrc=None, xfrc=None,
            theta=None, into=None):
        """Pullback of one step: dict x, ctrl, qfrc, xfrc, theta. `into` is added to."""
        th = self.theta if theta is None else theta
        bar = into or dict(x=np.zeros(self.nt), ctrl=np.zeros(self.nu), qfrc=np.zeros(self.nv), xfrc=np.zeros((self.nbody, 6)),
                           theta=np.zeros(self.ntheta))
        seen = [real(a) for a in (sensordata, xpos, site_xpos)]
        obs, inp = ObservationBar(*(ptr(a) for a in seen)), self._input(ctrl, qfrc, xfrc)
        inbar = Input(ptr(bar["ctrl"]), ptr(bar["qfrc"]), ptr(bar["xfrc"]))
        nb = real(next_bar)
        self._step_check(lib().pbStep_Vjp(self.ptr, ptr(th), ptr(record), inp, ptr(nb), ct.byref(obs), self._scratch(), ptr(bar["x"]),
                                          ct.byref(inbar), ptr(bar["theta"])))
        return bar

    def jvp(self, record, x=None, d_ctrl=None, d_qfrc=None, d_xfrc=None, d_theta=None, ctrl=None, qfrc=None, xfrc=None, theta=None):
        """Push a direction through one step: (next, sensordata, xpos, site_xpos)."""
        th = self.theta if theta is None else theta
        kept = [real(a) for a in (x, d_ctrl, d_qfrc, d_xfrc, d_theta)]
        way, inp = Direction(*(ptr(a) for a in kept)), self._input(ctrl, qfrc, xfrc)
        out = [np.zeros(self.nt), np.zeros(self.nsensordata), np.zeros((self.nbody, 3)), np.zeros((self.nsite, 3))]
        self._step_check(lib().pbStep_Jvp(self.ptr, ptr(th), ptr(record), inp, ct.byref(way), self._scratch(), *(ptr(o) for o in out)))
        return out

    def jacobian(self, record, ctrl=None, qfrc=None, xfrc=None, theta=None):
        """A, B, C, D of one step."""
        th, n = self.theta if theta is None else theta, self.nt
        inp = self._input(ctrl, qfrc, xfrc)
        out = [np.zeros((n, n)), np.zeros((n, self.nu)), np.zeros((self.nsensordata, n)), np.zeros((self.nsensordata, self.nu))]
        self._step_check(lib().pbStep_Jacobian(self.ptr, ptr(th), ptr(record), inp, self._scratch(), *(ptr(o) for o in out)))
        return out


class Rollout:
    """Steps of a model in one call, and their derivatives by one of the gradients exact, event, smooth."""
    KINDS = ("exact", "event", "smooth")

    def __init__(self, model, steps, budget=0):
        l, self.m, self.steps, self.ptr, plan = lib(), model, steps, ct.c_void_p(), Plan()
        model._check(l.pbRollout_Plan(model.ptr, steps, budget, ct.byref(plan)))
        model._check(l.pbRollout_Create(model.ctx, model.ptr, ct.byref(plan), None, ct.byref(self.ptr)))

    def __del__(self):
        if self.ptr and self.m.ctx:  # at the end of a program the model may go first
            lib().pbRollout_Destroy(self.ptr)
            self.ptr = None

    def forward(self, x0, ctrl=None, theta=None, states=False):
        """The final state, or all."""
        m = self.m
        self.kept = [real(x0), real(m.theta if theta is None else theta), real(ctrl)]
        out = np.zeros((self.steps + 1, m.nx) if states else m.nx)
        output = RolloutOutput(**{"states" if states else "final_state": ptr(out)})
        inputs = RolloutInput(ptr(self.kept[2]), None, None, self.kept[2] is not None and self.kept[2].ndim == 1)
        m._check(lib().pbRollout_Forward(self.ptr, ptr(self.kept[1]), ptr(self.kept[0]), ct.byref(inputs), ct.byref(output)))
        return out

    def _kind(self, kind):
        self.m._check(lib().pbRollout_SetGradient(self.ptr, self.KINDS.index(kind)))

    def vjp(self, kind="exact", **cotangents):
        """Cotangents of the final state (or of every state) by name -> x0, theta, certificate."""
        self._kind(kind)
        kept = {k: real(v) for k, v in cotangents.items()}
        width = {"qpos": 1, "qvel": 1, "act": 1, "sensordata": 1, "xpos": 2, "site_xpos": 2}
        bar = RolloutBar(**{k: Cotangent(ptr(v), 1 if v.ndim == width[k] else len(v), None) for k, v in kept.items()})
        x0, theta, certificate = np.zeros(self.m.nt), np.zeros(self.m.ntheta), Certificate()
        gradient = RolloutGradient(x0=ptr(x0), theta=ptr(theta))
        self.m._check(lib().pbRollout_Vjp(self.ptr, ct.byref(bar), None, ct.byref(gradient), ct.byref(certificate)))
        return x0, theta, certificate

    def jvp(self, kind="exact", x0=None, theta=None):
        """Tangents of all states along one direction."""
        self._kind(kind)
        kept, out = [real(x0), real(theta)], np.zeros((self.steps + 1, self.m.nt))
        direction, tangent = RolloutDirection(x0=ptr(kept[0]), theta=ptr(kept[1])), RolloutTangent(x=ptr(out))
        self.m._check(lib().pbRollout_Jvp(self.ptr, 1, ct.byref(direction), ct.byref(tangent)))
        return out
