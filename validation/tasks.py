"""Tasks of the library for cases that ask for losses and gradients at points of their own (include/pullback/optimize.h)."""
import ctypes as ct
import json
import os

import numpy as np

import common  # noqa: F401  (sets the path to pb)
import pb


class Task:
    """A task from a dictionary; files it names lie in `folder`."""

    def __init__(self, task, folder=None):
        text = json.dumps(task).encode()
        self.ctx, self.ptr = ct.c_void_p(pb.lib().pbContext_Create(None)), ct.c_void_p()
        pb.lib().pbTask_Parse(self.ctx, text, len(text), os.fsencode(folder) if folder else None, b"task", ct.byref(self.ptr))
        self.n = pb.lib().pbTask_Size(self.ptr)
        self.start = np.ctypeslib.as_array(pb.lib().pbTask_Start(self.ptr), (self.n,)).copy()

    def __del__(self):
        if getattr(self, "ptr", None):
            pb.lib().pbTask_Destroy(self.ptr)

    def loss(self, z, gradient=False):
        """The loss at z, or the loss and its gradient."""
        z, value, g = np.ascontiguousarray(z, float), ct.c_double(), np.zeros(self.n)
        pb.lib().pbTask_Loss(self.ptr, pb.ptr(z), ct.byref(value), pb.ptr(g) if gradient else None)
        return (value.value, g) if gradient else value.value

    def residuals(self, z, jacobian=False):
        """Residuals at z, or residuals and Jacobian."""
        m = pb.lib().pbTask_ResidualCount(self.ptr)
        z, r, J = np.ascontiguousarray(z, float), np.zeros(m), np.zeros((m, self.n))
        pb.lib().pbTask_Residuals(self.ptr, pb.ptr(z), pb.ptr(r), pb.ptr(J) if jacobian else None)
        return (r, J) if jacobian else r
