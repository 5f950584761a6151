"""Tasks of the library for cases that ask for losses and gradients at points of their own (include/pullback/optimize.h)."""
import json
import os

import numpy as np

import common  # noqa: F401  (sets the path to it)
import inside


class Task:
    """A task from a dictionary; files it names lie in `folder`."""

    def __init__(self, task, folder=None):
        text = json.dumps(task).encode()
        self.ctx, self.ptr = inside.native.pbContext_Create(None), inside.native.handle()
        inside.native.pbTask_Parse(self.ctx, text, len(text), os.fsencode(folder) if folder else None, b"task", self.ptr)
        self.n = inside.native.pbTask_Size(self.ptr)
        self.start = inside.native.array(inside.native.pbTask_Start(self.ptr), self.n,).copy()

    def __del__(self):
        if getattr(self, "ptr", None):
            inside.native.pbTask_Destroy(self.ptr)

    def loss(self, z, gradient=False):
        """The loss at z, or the loss and its gradient."""
        z, value, g = np.ascontiguousarray(z, float), inside.native.double(), np.zeros(self.n)
        inside.native.pbTask_Loss(self.ptr, z, value, g if gradient else None)
        return (value.value, g) if gradient else value.value

    def residuals(self, z, jacobian=False):
        """Residuals at z, or residuals and Jacobian."""
        m = inside.native.pbTask_ResidualCount(self.ptr)
        z, r, J = np.ascontiguousarray(z, float), np.zeros(m), np.zeros((m, self.n))
        inside.native.pbTask_Residuals(self.ptr, z, r, J if jacobian else None)
        return (r, J) if jacobian else r
