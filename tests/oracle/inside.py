"""The inside of the library for tests, cases and benchmarks: models with theta as a vector, single steps and their derivatives.

native is the module that the build writes of all that the public headers declare (tools/abi_module.py says how it is used). What the
package `pullback` offers is better tested through it.
"""
import ctypes
import importlib.util
import os

import numpy as np

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))


def build_dir():
    return os.environ.get("PULLBACK_BUILD", os.path.join(ROOT, "build", "release"))


def declarations(folder, library="pullback"):
    """The module of declarations of a library in a build folder."""
    path = os.path.join(folder, f"{library}_abi.py")
    if not os.path.exists(path):
        raise FileNotFoundError(f"{path} is not there: make build")
    spec = importlib.util.spec_from_file_location(f"{library}_abi", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


native = declarations(build_dir())
Error = native.Error


def real(a):
    """A copy as contiguous float64, of None None."""
    return None if a is None else np.array(a, dtype=np.float64, order="C")


class Model:
    """A compiled model with its own scratch. theta is the default unless given."""

    def __init__(self, path, options=None, allow_root=None, contact=None, urdf=None, expose=(), design=False, source=False):
        self.ctx = native.pbContext_Create(None)
        self.ptr, self.scratch, self.path = native.handle(), native.handle(), path
        opt = native.pbLoadOptions(allow_root=allow_root, design=design)
        for k, v in (urdf or {}).items():
            setattr(opt.urdf, k, v)
        (native.pbModel_LoadWhole if source else native.pbModel_Load)(self.ctx, path, opt, self.ptr)
        for name in expose:
            native.pbModel_Expose(self.ptr, name)
        for k, v in (options or {}).items():
            native.pbModel_SetOption(self.ptr, k, str(v))
        for k, v in (contact or {}).items():
            native.pbModel_SetContact(self.ptr, k, str(v))
        self._sizes()

    def _sizes(self):
        size = lambda n: native.pbModel_Size(self.ptr, n)
        self.nq, self.nv, self.nu, self.na, self.nbody, self.nsite, self.nsensordata, self.nmocap = (
            size(n) for n in ("nq", "nv", "nu", "na", "nbody", "nsite", "nsensordata", "nmocap"))
        self.nx, self.nt = native.pbModel_StateSize(self.ptr), native.pbModel_TangentSize(self.ptr)
        self.slots = {}
        for k in range(native.pbModel_StateFieldCount(self.ptr)):
            f = native.pbModel_StateFieldAt(self.ptr, k)
            self.slots[f.name.decode()] = slice(f.offset, f.offset + f.size)
        self.params = {}
        for k in range(native.pbModel_ParamCount(self.ptr)):
            q = native.pbModel_ParamAt(self.ptr, k)
            self.params[q.name.decode()] = q
        self.ntheta = native.pbModel_ParamSize(self.ptr)
        self.theta = native.array(native.pbModel_DefaultParams(self.ptr), self.ntheta).copy()

    def __del__(self):
        if getattr(self, "ctx", None):
            if self.scratch:
                native.pbScratch_Destroy(self.scratch)
            if self.ptr:
                native.pbModel_Destroy(self.ptr)
            native.pbContext_Destroy(self.ctx)
            self.ctx = None

    def _scratch(self):
        if not self.scratch:
            native.pbScratch_Create(self.ctx, self.ptr, None, self.scratch)
        return self.scratch

    def warnings(self):
        return (native.pbContext_Warnings(self.ctx) or b"").decode()

    def fields(self):
        """Every compiled field: name -> array (rows, cols)."""
        out, f, k = {}, native.pbField(), 0
        while native.pbModel_FieldAt(self.ptr, k, f):
            n = f.rows * f.cols
            data, kind = (f.integers, np.int64) if f.integers else (f.reals, np.float64)
            a = np.array(data[:n], dtype=kind) if n else np.zeros(0, kind)
            out[f.name.decode()] = a.reshape(f.rows, f.cols)
            k += 1
        return out

    def save(self, path, theta=None):
        """The model with theta as an MJCF file; returns the lines of what that cannot say. Of a model loaded with source=True."""
        lines = ctypes.pointer(native.text())
        native.pbModel_SaveMjcf(self.ctx, self.ptr, theta, path, lines)
        text = lines.contents.value.decode()
        native.pbContext_Free(self.ctx, ctypes.cast(lines.contents, ctypes.c_void_p))
        return text.splitlines()

    def constants(self, theta):
        """theta with what follows from the others computed again."""
        out = theta.copy()
        native.pbModel_SetConstants(self.ctx, self.ptr, out)
        return out

    def param(self, theta, name):
        """View of a parameter inside a flat vector like theta."""
        q = self.params[name]
        return theta[q.offset:q.offset + q.rows * q.cols].reshape(q.rows, q.cols)

    # ---- states -----------------------------------------------------------------------------------------------------
    def init(self, keyframe=-1):
        x = np.zeros(self.nx)
        native.pbState_Init(self.ctx, self.ptr, self.theta, keyframe, x)
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
        native.pbState_Move(self.ptr, y, t, eps)
        return y

    def difference(self, a, b):
        out = np.zeros(self.nt)
        native.pbState_Difference(self.ptr, real(a), real(b), out)
        return out

    # ---- step -------------------------------------------------------------------------------------------------------
    def _input(self, ctrl, qfrc, xfrc, mocap=None):
        """mocap: positions and quaternions; None, both or one: the model's."""
        pos, quat = mocap or (None, None)
        return native.pbInput(ctrl=real(ctrl), qfrc=real(qfrc), xfrc=real(xfrc), mocap_pos=real(pos), mocap_quat=real(quat))

    def mocap_pose(self):
        """Positions and quaternions of the mocap bodies where none are given."""
        n = native.pbModel_Size(self.ptr, b"nmocap")
        pos, quat = np.zeros((n, 3)), np.zeros((n, 4))
        native.pbModel_MocapPose(self.ptr, self.theta, -1, pos, quat)
        return pos, quat

    def step(self, x, ctrl=None, qfrc=None, xfrc=None, theta=None, mocap=None):
        """(next state, sensordata of the state before)."""
        y, s, th = x.copy(), np.zeros(self.nsensordata), self.theta if theta is None else theta
        self._with_room(lambda: native.pbStep_Forward(self.ptr, th, y, self._input(ctrl, qfrc, xfrc, mocap), self._scratch(), s))
        return y, s

    def _with_room(self, call):
        """The call, and once more with more room where contacts of deformables had too little."""
        while True:
            try:
                return call()
            except Error as error:
                status = native.int_(error.status)
                if not native.pbScratch_Grow(self._scratch(), status):
                    raise

    def step_recorded(self, x, ctrl=None, qfrc=None, xfrc=None, theta=None, mocap=None):
        y, s = self.step(x, ctrl, qfrc, xfrc, theta, mocap)
        record = np.zeros(native.pbTape_Size(self.ptr))
        native.pbTape_Record(self.ptr, real(x), self._scratch(), record)
        return y, s, record

    def observe(self, x, ctrl=None, qfrc=None, xfrc=None, theta=None, mocap=None):
        s, th = np.zeros(self.nsensordata), self.theta if theta is None else theta
        self._with_room(lambda: native.pbStep_Observe(self.ptr, th, real(x), self._input(ctrl, qfrc, xfrc, mocap), self._scratch(), s))
        return s

    def gather(self):
        native.pbScratch_Gather(self._scratch())

    def field(self, name):
        """Quantity of the last forward evaluation, as a copy of shape (rows, cols)."""
        data, r, c = native.to(native.double)(), native.int_(), native.int_()
        if not native.pbScratch_Field(self._scratch(), name, data, r, c):
            raise KeyError(name)
        shape = r.value, c.value
        return native.array(data, *shape).copy() if np.prod(shape) else np.zeros(shape)

    def report(self):
        return native.pbScratch_Report(self._scratch())

    # ---- derivatives ------------------------------------------------------------------------------------------------
    def vjp(self, record, next_bar=None, sensordata=None, xpos=None, site_xpos=None, ctrl=None, qfrc=None, xfrc=None,
            theta=None, into=None, mocap=None):
        """Pullback of one step: dict x, ctrl, qfrc, xfrc, theta, mocap_pos, mocap_rot. `into` is added to."""
        th = self.theta if theta is None else theta
        bar = into or dict(x=np.zeros(self.nt), ctrl=np.zeros(self.nu), qfrc=np.zeros(self.nv), xfrc=np.zeros((self.nbody, 6)),
                           theta=np.zeros(self.ntheta), mocap_pos=np.zeros((self.nmocap, 3)), mocap_rot=np.zeros((self.nmocap, 3)))
        seen = native.pbObservationBar(sensordata=real(sensordata), xpos=real(xpos), site_xpos=real(site_xpos))
        inbar = native.pbInputBar(**{n: bar.get(n) for n in ("ctrl", "qfrc", "xfrc", "command", "mocap_pos", "mocap_rot")})
        native.pbStep_Vjp(self.ptr, th, record, self._input(ctrl, qfrc, xfrc, mocap), real(next_bar), seen, self._scratch(), bar["x"], inbar,
                          bar["theta"])
        return bar

    def jvp(self, record, x=None, d_ctrl=None, d_qfrc=None, d_xfrc=None, d_theta=None, ctrl=None, qfrc=None, xfrc=None, theta=None,
            mocap=None, d_mocap_pos=None, d_mocap_rot=None):
        """Push a direction through one step: (next, sensordata, xpos, site_xpos)."""
        th = self.theta if theta is None else theta
        way = native.pbDirection(x=real(x), ctrl=real(d_ctrl), qfrc=real(d_qfrc), xfrc=real(d_xfrc), theta=real(d_theta),
                                 mocap_pos=real(d_mocap_pos), mocap_rot=real(d_mocap_rot))
        out = [np.zeros(self.nt), np.zeros(self.nsensordata), np.zeros((self.nbody, 3)), np.zeros((self.nsite, 3))]
        native.pbStep_Jvp(self.ptr, th, record, self._input(ctrl, qfrc, xfrc, mocap), way, self._scratch(), *out)
        return out

    def jacobian(self, record, ctrl=None, qfrc=None, xfrc=None, theta=None, mocap=None, by=native.pb_byControl):
        """A, B, C, D of one step; by: which columns B and D have (native.pb_byControl, ...)."""
        th, n, ns, columns = self.theta if theta is None else theta, self.nt, self.nsensordata, native.pbModel_Columns(self.ptr, by)
        out = [np.zeros((n, n)), np.zeros((n, columns)), np.zeros((ns, n)), np.zeros((ns, columns))]
        wanted = native.pbJacobian(by=by, **dict(zip("ABCD", out)))
        native.pbStep_JacobianBy(self.ptr, th, record, self._input(ctrl, qfrc, xfrc, mocap), self._scratch(), wanted)
        return out


class Rollout:
    """Steps of a model in one call, and their derivatives by one of the gradients exact, event, smooth."""
    KINDS = {"exact": native.pb_gradientExact, "event": native.pb_gradientEvent, "smooth": native.pb_gradientSmooth}

    def __init__(self, model, steps, budget=0):
        self.m, self.steps, self.ptr, plan = model, steps, native.handle(), native.pbRolloutPlan()
        native.pbRollout_Plan(model.ctx, model.ptr, steps, budget, plan)
        native.pbRollout_Create(model.ctx, model.ptr, plan, None, self.ptr)

    def __del__(self):
        if self.ptr and self.m.ctx:  # at the end of a program the model may go first
            native.pbRollout_Destroy(self.ptr)
            self.ptr = None

    def forward(self, x0, ctrl=None, theta=None, states=False, mocap=(None, None)):
        """The final state, or all. mocap: positions and quaternions of all steps."""
        m = self.m
        self.kept = [real(x0), real(m.theta if theta is None else theta), real(ctrl), *map(real, mocap)]
        out = np.zeros((self.steps + 1, m.nx) if states else m.nx)
        output = native.pbRolloutOutput(**{"states" if states else "final_state": out})
        inputs = native.pbRolloutInput(ctrl=self.kept[2], mocap_pos=self.kept[3], mocap_quat=self.kept[4],
                                       constant=self.kept[2] is not None and self.kept[2].ndim == 1)
        native.pbRollout_Forward(self.ptr, self.kept[1], self.kept[0], inputs, output)
        return out

    def _kind(self, kind):
        native.pbRollout_SetGradient(self.ptr, self.KINDS[kind])

    def want(self, names):
        """Fields of theta that gradients are wanted by; None: all."""
        native.pbRollout_WantParameters(self.ptr, names, len(names or ()), False)

    def vjp(self, kind="exact", into=None, mocap=False, **cotangents):
        """Cotangents of the final state (or of every state) by name -> x0, theta (added to `into`), certificate; with mocap also the
        gradients by positions and rotations of mocap bodies."""
        self._kind(kind)
        width = {"qpos": 1, "qvel": 1, "act": 1, "sensordata": 1, "xpos": 2, "site_xpos": 2, "points": 1, "point_velocity": 1, "x": 1}
        bar = native.pbRolloutBar(**{k: native.pbCotangent(data=real(v), count=1 if np.ndim(v) == width[k] else len(v))
                                     for k, v in cotangents.items()})
        x0, theta, certificate = np.zeros(self.m.nt), np.zeros(self.m.ntheta) if into is None else real(into), native.pbCertificate()
        poses = [np.zeros((self.steps, self.m.nmocap, 3)) for _ in range(2)] if mocap else (None, None)
        gradient = native.pbRolloutGradient(x0=x0, theta=theta, mocap_pos=poses[0], mocap_rot=poses[1])
        native.pbRollout_Vjp(self.ptr, bar, None, gradient, certificate)
        return (x0, theta, certificate, poses) if mocap else (x0, theta, certificate)

    def jvp(self, kind="exact", x0=None, theta=None, mocap=None):
        """Tangents of all states along one direction; with mocap (directions of positions and rotations) of the sensors, too."""
        self._kind(kind)
        out, sensors = np.zeros((self.steps + 1, self.m.nt)), np.zeros((self.steps + 1, self.m.nsensordata))
        pos, rot = mocap or (None, None)
        direction = native.pbRolloutDirection(x0=real(x0), theta=real(theta), mocap_pos=real(pos), mocap_rot=real(rot))
        tangent = native.pbRolloutTangent(x=out, sensordata=sensors if mocap else None)
        native.pbRollout_Jvp(self.ptr, 1, direction, tangent)
        return (out, sensors) if mocap else out
