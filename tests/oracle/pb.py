"""Pullback's C interface through ctypes, as the oracle tests use it (include/pullback/*.h)."""
import ctypes as ct
import os

import numpy as np

from interface import Error, Interface  # noqa: F401  (Error is for those who use this module)

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
_F = ct.POINTER(ct.c_double)


def build_dir():
    return os.environ.get("PULLBACK_BUILD", os.path.join(ROOT, "build", "release"))


NATIVE = Interface(build_dir())
Field, Param, StateField, LoadOptions = NATIVE.pbField, NATIVE.pbParam, NATIVE.pbStateField, NATIVE.pbLoadOptions
Input, InputBar, Report, ObservationBar, Direction = NATIVE.pbInput, NATIVE.pbInputBar, NATIVE.pbReport, NATIVE.pbObservationBar, NATIVE.pbDirection
Plan, RolloutInput, RolloutOutput, Cotangent = NATIVE.pbRolloutPlan, NATIVE.pbRolloutInput, NATIVE.pbRolloutOutput, NATIVE.pbCotangent
RolloutBar, RolloutGradient, RolloutDirection = NATIVE.pbRolloutBar, NATIVE.pbRolloutGradient, NATIVE.pbRolloutDirection
RolloutTangent, Certificate = NATIVE.pbRolloutTangent, NATIVE.pbCertificate


def lib():
    """The shared library of the build folder: functions are typed, and raise Error unless they return pb_ok."""
    return NATIVE


def ptr(a):
    return None if a is None else a.ctypes.data_as(_F)


def real(a):
    return None if a is None else np.ascontiguousarray(a, dtype=np.float64).copy()


class Model:
    """A compiled model with its own scratch. theta is the default unless given."""

    def __init__(self, path, options=None, allow_root=None, contact=None, urdf=None, expose=(), design=False):
        l = lib()
        self.ctx = ct.c_void_p(l.pbContext_Create(None))
        self.ptr, self.scratch, self.path = ct.c_void_p(), ct.c_void_p(), path
        opt = LoadOptions(allow_root.encode() if allow_root else None, design=design)
        for k, v in (urdf or {}).items():
            setattr(opt.urdf, k, v)
        l.pbModel_Load(self.ctx, os.fsencode(path), ct.byref(opt), ct.byref(self.ptr))
        for name in expose:
            l.pbModel_Expose(self.ptr, name.encode())
        for k, v in (options or {}).items():
            l.pbModel_SetOption(self.ptr, k.encode(), str(v).encode())
        for k, v in (contact or {}).items():
            l.pbModel_SetContact(self.ptr, k.encode(), str(v).encode())
        self._sizes()

    def _sizes(self):
        l = lib()
        size = lambda n: l.pbModel_Size(self.ptr, n.encode())
        self.nq, self.nv, self.nu, self.na, self.nbody, self.nsite, self.nsensordata, self.nmocap = (
            size(n) for n in ("nq", "nv", "nu", "na", "nbody", "nsite", "nsensordata", "nmocap"))
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

    def _scratch(self):
        if not self.scratch:
            lib().pbScratch_Create(self.ctx, self.ptr, None, ct.byref(self.scratch))
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
        lib().pbState_Init(self.ctx, self.ptr, ptr(self.theta), keyframe, ptr(x))
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
    def _input(self, ctrl, qfrc, xfrc, mocap=None):
        """mocap: positions and quaternions; None, both or one: the model's."""
        kept = [real(ctrl), real(qfrc), real(xfrc), None, *map(real, mocap or (None, None))]
        made = Input(*map(ptr, kept))
        made.kept = kept  # as long as what points to them
        return made

    def mocap_pose(self):
        """Positions and quaternions of the mocap bodies where none are given."""
        n = lib().pbModel_Size(self.ptr, b"nmocap")
        pos, quat = np.zeros((n, 3)), np.zeros((n, 4))
        lib().pbModel_MocapPose(self.ptr, ptr(self.theta), -1, ptr(pos), ptr(quat))
        return pos, quat

    def step(self, x, ctrl=None, qfrc=None, xfrc=None, theta=None, mocap=None):
        """(next state, sensordata of the state before)."""
        y, s, th = x.copy(), np.zeros(self.nsensordata), self.theta if theta is None else theta
        self._with_room(lambda: lib().pbStep_Forward(self.ptr, ptr(th), ptr(y), self._input(ctrl, qfrc, xfrc, mocap), self._scratch(), ptr(s)))
        return y, s

    def _with_room(self, call):
        """The call, and once more with more room where contacts of deformables had too little."""
        while True:
            try:
                return call()
            except Error as error:
                status = ct.c_int(error.status)
                if not lib().pbScratch_Grow(self._scratch(), ct.byref(status)):
                    raise

    def step_recorded(self, x, ctrl=None, qfrc=None, xfrc=None, theta=None, mocap=None):
        y, s = self.step(x, ctrl, qfrc, xfrc, theta, mocap)
        record = np.zeros(lib().pbTape_Size(self.ptr))
        lib().pbTape_Record(self.ptr, ptr(real(x)), self._scratch(), ptr(record))
        return y, s, record

    def observe(self, x, ctrl=None, qfrc=None, xfrc=None, theta=None, mocap=None):
        s, th = np.zeros(self.nsensordata), self.theta if theta is None else theta
        self._with_room(lambda: lib().pbStep_Observe(self.ptr, ptr(th), ptr(real(x)), self._input(ctrl, qfrc, xfrc, mocap), self._scratch(), ptr(s)))
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
            theta=None, into=None, mocap=None):
        """Pullback of one step: dict x, ctrl, qfrc, xfrc, theta, mocap_pos, mocap_rot. `into` is added to."""
        th = self.theta if theta is None else theta
        bar = into or dict(x=np.zeros(self.nt), ctrl=np.zeros(self.nu), qfrc=np.zeros(self.nv), xfrc=np.zeros((self.nbody, 6)),
                           theta=np.zeros(self.ntheta), mocap_pos=np.zeros((self.nmocap, 3)), mocap_rot=np.zeros((self.nmocap, 3)))
        seen = [real(a) for a in (sensordata, xpos, site_xpos)]
        obs, inp = ObservationBar(*(ptr(a) for a in seen)), self._input(ctrl, qfrc, xfrc, mocap)
        inbar = InputBar(*(ptr(bar.get(n)) for n in ("ctrl", "qfrc", "xfrc", "command", "mocap_pos", "mocap_rot")))
        nb = real(next_bar)
        lib().pbStep_Vjp(self.ptr, ptr(th), ptr(record), inp, ptr(nb), ct.byref(obs), self._scratch(), ptr(bar["x"]),
                                          ct.byref(inbar), ptr(bar["theta"]))
        return bar

    def jvp(self, record, x=None, d_ctrl=None, d_qfrc=None, d_xfrc=None, d_theta=None, ctrl=None, qfrc=None, xfrc=None, theta=None,
            mocap=None, d_mocap_pos=None, d_mocap_rot=None):
        """Push a direction through one step: (next, sensordata, xpos, site_xpos)."""
        th = self.theta if theta is None else theta
        kept = [real(a) for a in (x, d_ctrl, d_qfrc, d_xfrc, d_theta, d_mocap_pos, d_mocap_rot)]
        way = Direction(**dict(zip(("x", "ctrl", "qfrc", "xfrc", "theta", "mocap_pos", "mocap_rot"), map(ptr, kept))))
        inp = self._input(ctrl, qfrc, xfrc, mocap)
        out = [np.zeros(self.nt), np.zeros(self.nsensordata), np.zeros((self.nbody, 3)), np.zeros((self.nsite, 3))]
        lib().pbStep_Jvp(self.ptr, ptr(th), ptr(record), inp, ct.byref(way), self._scratch(), *(ptr(o) for o in out))
        return out

    def jacobian(self, record, ctrl=None, qfrc=None, xfrc=None, theta=None, mocap=None, by=1):
        """A, B, C, D of one step; by: which columns B and D have (pb_byControl, ...)."""
        th, n, ns, columns = self.theta if theta is None else theta, self.nt, self.nsensordata, lib().pbModel_Columns(self.ptr, by)
        inp = self._input(ctrl, qfrc, xfrc, mocap)
        out = [np.zeros((n, n)), np.zeros((n, columns)), np.zeros((ns, n)), np.zeros((ns, columns))]
        lib().pbStep_JacobianBy(self.ptr, ptr(th), ptr(record), inp, self._scratch(), ct.byref(NATIVE.pbJacobian(by, *(ptr(o) for o in out))))
        return out


class Rollout:
    """Steps of a model in one call, and their derivatives by one of the gradients exact, event, smooth."""
    KINDS = ("exact", "event", "smooth")

    def __init__(self, model, steps, budget=0):
        l, self.m, self.steps, self.ptr, plan = lib(), model, steps, ct.c_void_p(), Plan()
        l.pbRollout_Plan(model.ctx, model.ptr, steps, budget, ct.byref(plan))
        l.pbRollout_Create(model.ctx, model.ptr, ct.byref(plan), None, ct.byref(self.ptr))

    def __del__(self):
        if self.ptr and self.m.ctx:  # at the end of a program the model may go first
            lib().pbRollout_Destroy(self.ptr)
            self.ptr = None

    def forward(self, x0, ctrl=None, theta=None, states=False, mocap=(None, None)):
        """The final state, or all. mocap: positions and quaternions of all steps."""
        m = self.m
        self.kept = [real(x0), real(m.theta if theta is None else theta), real(ctrl), *map(real, mocap)]
        out = np.zeros((self.steps + 1, m.nx) if states else m.nx)
        output = RolloutOutput(**{"states" if states else "final_state": ptr(out)})
        inputs = RolloutInput(ctrl=ptr(self.kept[2]), mocap_pos=ptr(self.kept[3]), mocap_quat=ptr(self.kept[4]), constant=self.kept[2] is not None and self.kept[2].ndim == 1)
        lib().pbRollout_Forward(self.ptr, ptr(self.kept[1]), ptr(self.kept[0]), ct.byref(inputs), ct.byref(output))
        return out

    def _kind(self, kind):
        lib().pbRollout_SetGradient(self.ptr, self.KINDS.index(kind))

    def want(self, names):
        """Fields of theta that gradients are wanted by; None: all."""
        if names is None:
            lib().pbRollout_WantParameters(self.ptr, None, 0, False)
        else:
            lib().pbRollout_WantParameters(self.ptr, (ct.c_char_p * (len(names) + 1))(*(n.encode() for n in names)), len(names), False)

    def vjp(self, kind="exact", into=None, mocap=False, **cotangents):
        """Cotangents of the final state (or of every state) by name -> x0, theta (added to `into`), certificate; with mocap also the
        gradients by positions and rotations of mocap bodies."""
        self._kind(kind)
        kept = {k: real(v) for k, v in cotangents.items()}
        width = {"qpos": 1, "qvel": 1, "act": 1, "sensordata": 1, "xpos": 2, "site_xpos": 2, "points": 1, "point_velocity": 1, "x": 1}
        bar = RolloutBar(**{k: Cotangent(ptr(v), 1 if v.ndim == width[k] else len(v), None) for k, v in kept.items()})
        x0, theta, certificate = np.zeros(self.m.nt), np.zeros(self.m.ntheta) if into is None else real(into), Certificate()
        poses = [np.zeros((self.steps, self.m.nmocap, 3)) for _ in range(2)] if mocap else (None, None)
        gradient = RolloutGradient(x0=ptr(x0), theta=ptr(theta), mocap_pos=ptr(poses[0]), mocap_rot=ptr(poses[1]))
        lib().pbRollout_Vjp(self.ptr, ct.byref(bar), None, ct.byref(gradient), ct.byref(certificate))
        return (x0, theta, certificate, poses) if mocap else (x0, theta, certificate)

    def jvp(self, kind="exact", x0=None, theta=None, mocap=None):
        """Tangents of all states along one direction; with mocap (directions of positions and rotations) of the sensors, too."""
        self._kind(kind)
        kept, out = [real(x0), real(theta), *map(real, mocap or (None, None))], np.zeros((self.steps + 1, self.m.nt))
        sensors = np.zeros((self.steps + 1, self.m.nsensordata))
        direction = RolloutDirection(x0=ptr(kept[0]), theta=ptr(kept[1]), mocap_pos=ptr(kept[2]), mocap_rot=ptr(kept[3]))
        tangent = RolloutTangent(x=ptr(out), sensordata=ptr(sensors) if mocap else None)
        lib().pbRollout_Jvp(self.ptr, 1, ct.byref(direction), ct.byref(tangent))
        return (out, sensors) if mocap else out
