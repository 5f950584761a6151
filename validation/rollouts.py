"""Rollouts of the library for cases that time them or run several at once (include/pullback/rollout.h)."""
import ctypes as ct

import numpy as np

import common  # noqa: F401  (sets the path to pb)
import pb


class Rollout:
    """All memory is had at the start; what is set (theta, x0, ctrl, qfrc) is read by forward and vjp, in any thread but one at a time."""

    def __init__(self, m, steps, budget=0):
        l = pb.lib()
        self.m, self.steps, self.plan, self.ptr = m, steps, pb.Plan(), ct.c_void_p()
        self.theta, self.x0, self.ctrl, self.qfrc = m.theta.copy(), m.init(), np.zeros((steps, m.nu)), np.zeros((steps, m.nv))
        self.states, self.x0_bar, self.ctrl_bar, self.theta_bar = (np.zeros(n) for n in ((steps + 1, m.nx), m.nt, (steps, m.nu), m.ntheta))
        l.pbRollout_Plan(m.ctx, m.ptr, steps, budget, ct.byref(self.plan))
        l.pbRollout_Create(m.ctx, m.ptr, ct.byref(self.plan), None, ct.byref(self.ptr))

    def __del__(self):
        if getattr(self, "ptr", None):
            pb.lib().pbRollout_Destroy(self.ptr)

    def forward(self):
        inputs, output = pb.RolloutInput(ctrl=pb.ptr(self.ctrl), qfrc=pb.ptr(self.qfrc)), pb.RolloutOutput(states=pb.ptr(self.states))
        pb.lib().pbRollout_Forward(self.ptr, pb.ptr(self.theta), pb.ptr(self.x0), ct.byref(inputs), ct.byref(output))

    def vjp(self, qpos):
        """Cotangents of the final state (nv), or of every state (steps + 1, nv)."""
        for a in (self.x0_bar, self.ctrl_bar, self.theta_bar):
            a[:] = 0
        bar = pb.RolloutBar(qpos=pb.Cotangent(pb.ptr(qpos), 1 if qpos.ndim == 1 else len(qpos), None))
        gradient = pb.RolloutGradient(x0=pb.ptr(self.x0_bar), ctrl=pb.ptr(self.ctrl_bar), theta=pb.ptr(self.theta_bar))
        pb.lib().pbRollout_Vjp(self.ptr, ct.byref(bar), None, ct.byref(gradient), None)

    def pull(self, qvel, **options):
        """Gradient by the controls (steps, nu) from cotangents of every velocity (steps + 1, nv); options: those of pbVjpOptions."""
        self.ctrl_bar[:] = 0
        bar = pb.RolloutBar(qvel=pb.Cotangent(pb.ptr(qvel), len(qvel), None))
        gradient, self.certificate = pb.RolloutGradient(ctrl=pb.ptr(self.ctrl_bar)), pb.NATIVE.pbCertificate()
        pb.lib().pbRollout_Vjp(self.ptr, ct.byref(bar), ct.byref(pb.NATIVE.pbVjpOptions(**options)), ct.byref(gradient), ct.byref(self.certificate))
        return self.ctrl_bar.copy()
