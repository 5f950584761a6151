"""Pinocchio's side of the tests of URDF: one robot in both programs, its joints matched by name, Pinocchio's numbers in our
coordinates.

Where coordinates differ: `continuous` is a pair of numbers there; a floating joint has its velocity in the body there, and in the
frame it moves in here; so has a planar one. With v = T v_pin in a joint, accelerations are a = T a_pin + c.
"""
import numpy as np
import pinocchio as pin

import inside


def names(model, kind, count):
    return [(inside.native.pbModel_Name(model.ptr, kind, k) or b"").decode() for k in range(count)]


def cross(w):
    return np.array([[0, -w[2], w[1]], [w[2], 0, -w[0]], [-w[1], w[0], 0]])


PLANE = np.array([[0, -1], [1, 0]])  # turns by a right angle


class Robot:
    def __init__(self, text, model, floating):
        """model: ours (inside.Model). floating: whether the root link moves freely."""
        self.pin = pin.buildModelFromXML(text, pin.JointModelFreeFlyer(), "root") if floating else pin.buildModelFromXML(text)
        self.data, self.ours = self.pin.createData(), model
        f = model.fields()
        self.joints, self.bodies = names(model, inside.native.pb_objJoint, len(f["jnt_type"])), names(model, inside.native.pb_objBody, model.nbody)
        self.qposadr, self.dofadr = f["jnt_qposadr"].ravel(), f["jnt_dofadr"].ravel()
        self.parts = [self._part(j) for j in range(1, self.pin.njoints)]

    def _part(self, j):
        """(kind, Pinocchio's position and velocity addresses, ours)."""
        joint, name = self.pin.joints[j], self.pin.names[j]
        kind = joint.shortname().removeprefix("JointModel")
        if kind == "FreeFlyer":
            single = name if name != "root" else next(n for n in self.joints if n.endswith("_free_joint"))
            first = self.joints.index(single if single in self.joints else name + "_TX")
        elif kind == "Planar":
            first = self.joints.index(name + "_TX")
        else:
            first = self.joints.index(name)
        return kind, joint.idx_q, joint.idx_v, self.qposadr[first], self.dofadr[first]

    def state(self, rng):
        """Random (q, v, tau) here and there; forces on joints with one coordinate alone."""
        m, p = self.ours, self.pin
        qpos, qvel, tau = np.zeros(m.nq), rng.normal(size=m.nv), np.zeros(m.nv)
        q, v, tau_pin = np.zeros(p.nq), np.zeros(p.nv), np.zeros(p.nv)
        for kind, iq, iv, a, d in self.parts:
            if kind == "FreeFlyer":
                quat = rng.normal(size=4)
                quat /= np.linalg.norm(quat)  # w x y z
                qpos[a:a + 3], qpos[a + 3:a + 7] = rng.normal(size=3), quat
                q[iq:iq + 3], q[iq + 3:iq + 6], q[iq + 6] = qpos[a:a + 3], quat[1:], quat[0]
                R = pin.Quaternion(q[iq + 6], *q[iq + 3:iq + 6]).matrix()
                v[iv:iv + 3], v[iv + 3:iv + 6] = R.T @ qvel[d:d + 3], qvel[d + 3:d + 6]
            elif kind == "Planar":
                qpos[a:a + 3] = rng.normal(size=3)
                c, s = np.cos(qpos[a + 2]), np.sin(qpos[a + 2])
                q[iq:iq + 4] = *qpos[a:a + 2], c, s
                v[iv:iv + 2], v[iv + 2] = np.array([[c, s], [-s, c]]) @ qvel[d:d + 2], qvel[d + 2]
            else:
                qpos[a], tau[d] = rng.uniform(-2, 2), rng.normal()
                v[iv], tau_pin[iv] = qvel[d], tau[d]
                if p.joints[self.pin.getJointId(self._name(iv))].nq == 2:
                    q[iq:iq + 2] = np.cos(qpos[a]), np.sin(qpos[a])
                else:
                    q[iq] = qpos[a]
        return (qpos, qvel, tau), (q, v, tau_pin)

    def _name(self, iv):
        return next(self.pin.names[j] for j in range(1, self.pin.njoints) if self.pin.joints[j].idx_v == iv)

    def change(self, q, v):
        """T (ours from theirs: rows are our velocities) and c."""
        T, c = np.zeros((self.ours.nv, self.pin.nv)), np.zeros(self.ours.nv)
        for kind, iq, iv, _, d in self.parts:
            if kind == "FreeFlyer":
                R = pin.Quaternion(q[iq + 6], *q[iq + 3:iq + 6]).matrix()
                T[d:d + 3, iv:iv + 3], T[d + 3:d + 6, iv + 3:iv + 6] = R, np.eye(3)
                c[d:d + 3] = R @ np.cross(v[iv + 3:iv + 6], v[iv:iv + 3])
            elif kind == "Planar":
                R = np.array([[q[iq + 2], -q[iq + 3]], [q[iq + 3], q[iq + 2]]])
                T[d:d + 2, iv:iv + 2], T[d + 2, iv + 2] = R, 1
                c[d:d + 2] = R @ PLANE @ v[iv:iv + 2] * v[iv + 2]
            else:
                T[d, iv] = 1
        return T, c

    def dynamics(self, q, v):
        """Mass matrix and bias forces in our coordinates."""
        T, c = self.change(q, v)
        M = pin.crba(self.pin, self.data, q)
        M = np.triu(M) + np.triu(M, 1).T
        inverse = np.linalg.inv(T)
        M = inverse.T @ M @ inverse
        return M, inverse.T @ pin.nonLinearEffects(self.pin, self.data, q, v) - M @ c

    def derivatives(self, q, v, tau):
        """d a / d q and d a / d v in our coordinates, at fixed forces on the joints and none on floating ones."""
        T, _ = self.change(q, v)
        pin.computeABADerivatives(self.pin, self.data, q, v, tau)
        a, a_q, a_v = self.data.ddq.copy(), self.data.ddq_dq.copy(), self.data.ddq_dv.copy()
        inverse = np.linalg.inv(T)
        # What of theirs changes when our velocity is held, and what T and c add.
        held, by_q, by_v = np.zeros((self.pin.nv,) * 2), np.zeros((self.ours.nv, self.pin.nv)), np.zeros((self.ours.nv, self.pin.nv))
        for kind, iq, iv, _, d in self.parts:
            if kind == "FreeFlyer":
                R = pin.Quaternion(q[iq + 6], *q[iq + 3:iq + 6]).matrix()
                lin, w = v[iv:iv + 3], v[iv + 3:iv + 6]
                turn, rows = slice(iv + 3, iv + 6), slice(d, d + 3)
                held[iv:iv + 3, turn] = cross(lin)
                by_q[rows, turn] -= R @ cross(a[iv:iv + 3] + np.cross(w, lin))
                by_v[rows, iv:iv + 3] += R @ cross(w)
                by_v[rows, turn] -= R @ cross(lin)
            elif kind == "Planar":
                R = np.array([[q[iq + 2], -q[iq + 3]], [q[iq + 3], q[iq + 2]]])
                lin, w, turn, rows = v[iv:iv + 2], v[iv + 2], iv + 2, slice(d, d + 2)
                held[iv:iv + 2, turn] = -PLANE @ lin
                by_q[rows, turn] += R @ PLANE @ (a[iv:iv + 2] + PLANE @ lin * w)
                by_v[rows, iv:iv + 2] += R @ PLANE * w
                by_v[rows, turn] += R @ PLANE @ lin
        total_v = T @ a_v + by_v
        return (T @ a_q + by_q + total_v @ held) @ inverse, total_v @ inverse

    def placements(self, q):
        """(names of links, positions, rotations) in the world."""
        pin.framesForwardKinematics(self.pin, self.data, q)
        frames = [(f.name, k) for k, f in enumerate(self.pin.frames) if f.type == pin.FrameType.BODY]
        return [n for n, _ in frames], [self.data.oMf[k].translation for _, k in frames], [self.data.oMf[k].rotation for _, k in frames]

    def mass(self):
        return sum(i.mass for i in self.pin.inertias)
