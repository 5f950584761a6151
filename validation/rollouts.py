"""Rollouts of the library through ctypes, for cases that time them or run several at once (include/pullback/rollout.h)."""
import ctypes as ct

import numpy as np

import common  # noqa: F401  (sets the path to pb)
import pb

F, I, P = ct.POINTER(ct.c_double), ct.c_int, ct.c_void_p


class Plan(ct.Structure):
    _fields_ = [(n, I) for n in ("steps", "snapshots", "leaf")] + [(n, ct.c_size_t) for n in ("record", "snapshot", "full", "planned", "kept", "fixed")] + \
               [("forward_steps", ct.c_int64), ("recomputed", ct.c_int64)]


class Inputs(ct.Structure):
    _fields_ = [("ctrl", F), ("qfrc", F), ("xfrc", F), ("constant", ct.c_bool)]


class Output(ct.Structure):
    _fields_ = [(n, F) for n in ("states", "final", "sensordata", "xpos", "site_xpos")] + [("rows", P), ("row_count", I), ("steps_done", I)]


class Cotangent(ct.Structure):
    _fields_ = [("data", F), ("count", I), ("steps", P)]


class Bar(ct.Structure):
    _fields_ = [(n, Cotangent) for n in ("qpos", "qvel", "act", "sensordata", "xpos", "site_xpos")]


class Gradient(ct.Structure):
    _fields_ = [(n, F) for n in ("x0", "ctrl", "qfrc", "xfrc", "theta")]


class Rollout:
    """All memory is had at the start; what is set (theta, x0, ctrl, qfrc) is read by forward and vjp, in any thread but one at a time."""

    def __init__(self, m, steps, budget=0):
        l = pb.lib()
        l.pbRollout_Plan.argtypes = [P, I, ct.c_size_t, P]
        l.pbRollout_Create.argtypes = [P, P, P, P, P]
        l.pbRollout_Forward.argtypes = [P, F, F, P, P]
        l.pbRollout_Vjp.argtypes = [P, P, P, P, P]
        l.pbRollout_Destroy.argtypes, l.pbRollout_Destroy.restype = [P], None
        self.m, self.steps, self.plan, self.ptr, self.status = m, steps, Plan(), P(), 0
        self.theta, self.x0, self.ctrl, self.qfrc = m.theta.copy(), m.init(), np.zeros((steps, m.nu)), np.zeros((steps, m.nv))
        self.states, self.x0_bar, self.ctrl_bar, self.theta_bar = (np.zeros(n) for n in ((steps + 1, m.nx), m.nt, (steps, m.nu), m.ntheta))
        m._check(l.pbRollout_Plan(m.ptr, steps, budget, ct.byref(self.plan)))
        m._check(l.pbRollout_Create(m.ctx, m.ptr, ct.byref(self.plan), None, ct.byref(self.ptr)))

    def __del__(self):
        if getattr(self, "ptr", None):
            pb.lib().pbRollout_Destroy(self.ptr)

    def forward(self):
        self.inputs, output = Inputs(pb.ptr(self.ctrl), pb.ptr(self.qfrc), None, False), Output(states=pb.ptr(self.states))
        self.status = pb.lib().pbRollout_Forward(self.ptr, pb.ptr(self.theta), pb.ptr(self.x0), ct.byref(self.inputs), ct.byref(output))

    def vjp(self, qpos):
        """Cotangents of the final state (nv), or of every state (steps + 1, nv)."""
        for a in (self.x0_bar, self.ctrl_bar, self.theta_bar):
            a[:] = 0
        bar = Bar(qpos=Cotangent(pb.ptr(qpos), 1 if qpos.ndim == 1 else len(qpos), None))
        gradient = Gradient(pb.ptr(self.x0_bar), pb.ptr(self.ctrl_bar), None, None, pb.ptr(self.theta_bar))
        self.status = self.status or pb.lib().pbRollout_Vjp(self.ptr, ct.byref(bar), None, ct.byref(gradient), None)
