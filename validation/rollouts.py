"""Rollouts of the library for cases that time them or run several at once (include/pullback/rollout.h)."""

import numpy as np

import common  # noqa: F401  (sets the path to it)
import inside


class Rollout:
    """All memory is had at the start; what is set (theta, x0, ctrl, qfrc) is read by forward and vjp, in any thread but one at a time."""

    def __init__(self, m, steps, budget=0):
        l = inside.native
        self.m, self.steps, self.plan, self.ptr = m, steps, inside.native.pbRolloutPlan(), inside.native.handle()
        self.theta, self.x0, self.ctrl, self.qfrc = m.theta.copy(), m.init(), np.zeros((steps, m.nu)), np.zeros((steps, m.nv))
        self.states, self.x0_bar, self.ctrl_bar, self.theta_bar = (np.zeros(n) for n in ((steps + 1, m.nx), m.nt, (steps, m.nu), m.ntheta))
        l.pbRollout_Plan(m.ctx, m.ptr, steps, budget, self.plan)
        l.pbRollout_Create(m.ctx, m.ptr, self.plan, None, self.ptr)

    def __del__(self):
        if getattr(self, "ptr", None):
            inside.native.pbRollout_Destroy(self.ptr)

    def forward(self):
        inputs, output = inside.native.pbRolloutInput(ctrl=self.ctrl, qfrc=self.qfrc), inside.native.pbRolloutOutput(states=self.states)
        inside.native.pbRollout_Forward(self.ptr, self.theta, self.x0, inputs, output)

    def vjp(self, qpos):
        """Cotangents of the final state (nv), or of every state (steps + 1, nv)."""
        for a in (self.x0_bar, self.ctrl_bar, self.theta_bar):
            a[:] = 0
        bar = inside.native.pbRolloutBar(qpos=inside.native.pbCotangent(data=qpos, count=1 if qpos.ndim == 1 else len(qpos)))
        gradient = inside.native.pbRolloutGradient(x0=self.x0_bar, ctrl=self.ctrl_bar, theta=self.theta_bar)
        inside.native.pbRollout_Vjp(self.ptr, bar, None, gradient, None)

    def pull(self, qvel, **options):
        """Gradient by the controls (steps, nu) from cotangents of every velocity (steps + 1, nv); options: those of pbVjpOptions."""
        self.ctrl_bar[:] = 0
        bar = inside.native.pbRolloutBar(qvel=inside.native.pbCotangent(data=qvel, count=len(qvel)))
        gradient, self.certificate = inside.native.pbRolloutGradient(ctrl=self.ctrl_bar), inside.native.pbCertificate()
        inside.native.pbRollout_Vjp(self.ptr, bar, inside.native.pbVjpOptions(**options), gradient, self.certificate)
        return self.ctrl_bar.copy()
