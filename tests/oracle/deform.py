"""Deformables and energies of the C interface through ctypes (include/pullback/deform.h, energy.h), for tests and cases."""
import ctypes as ct
import os
import tempfile

import numpy as np

import pb
from pb import ptr, real

_I = ct.POINTER(ct.c_int)
SCHEMES = ("implicit_euler", "bdf2", "trapezoid", "avf4", "symplectic_euler", "static")
FRICTION = ("none", "lagged", "implicit")
METHODS = ("newton", "newton_cg", "lbfgs", "gradient", "adam", "user")


EnergyParameter, EnergyDef, Elements, ElementsOut = pb.NATIVE.pbEnergyParameter, pb.NATIVE.pbEnergyDef, pb.NATIVE.pbElements, pb.NATIVE.pbElementsOut
Stencil, Fault, Options = pb.NATIVE.pbGridStencil, pb.NATIVE.pbEnergyFault, pb.NATIVE.pbDeformOptions
Surface, Contact, MINIMISE = pb.NATIVE.pbSurface, pb.NATIVE.pbDeformContact, pb.NATIVE.pbDeformMinimize
lib = pb.lib


def integers(a):
    a = np.ascontiguousarray(a, dtype=np.intc)
    return a, a.ctypes.data_as(_I)


def definition(name, formula, points, parameters):
    """`parameters`: name -> value, whose last axes give the shape: a number, a vector, a matrix."""
    table = (EnergyParameter * max(1, len(parameters)))()
    for k, (n, shape) in enumerate(parameters.items()):
        rows, cols = (*shape, 1, 1)[:2]
        table[k] = EnergyParameter(n.encode(), None, rows, cols, 0, 0, False)
    return EnergyDef(name.encode(), formula.encode(), points, len(parameters), table)


def material(name):
    """A built-in energy: its formula and the start values of its parameters, by name."""
    found = lib().pbMaterial_Find(name.encode())
    if not found:
        raise KeyError(name)
    d, at, values = found.contents.def_, 0, {}
    for p in d.parameters[:d.parameter_count]:
        size = p.rows * p.cols
        values[p.name.decode()] = np.array(found.contents.start[at:at + size]).reshape([n for n in (p.rows, p.cols) if n > 1])
        at += size
    return d.formula.decode(), values


def shape_of(value, per_element):
    return np.shape(value)[1:] if per_element else np.shape(value)


class Energy:
    """A formula on its own: values, gradients and Hessians of elements."""

    def __init__(self, formula, points, **shapes):
        self.ctx, self.ptr, self.names, self.points = ct.c_void_p(pb.lib().pbContext_Create(None)), ct.c_void_p(), [*shapes], points
        d = definition("energy", formula, points, shapes)
        lib().pbEnergy_Create(self.ctx, ct.byref(d), ct.byref(self.ptr))

    def __del__(self):
        if self.ctx:
            lib().pbEnergy_Destroy(self.ptr)
            pb.lib().pbContext_Destroy(self.ctx)
            self.ctx = None

    def _elements(self, n, vertex, arrays, h, time, parameters):
        values = [real(np.atleast_1d(parameters[k])) for k in self.names]
        addresses = (pb._F * max(1, len(values)))(*map(ptr, values))
        stride, ps = integers([a.size // n if len(a) == n and n > 1 else 0 for a in values] or [0])
        self.work, self.kept = ct.create_string_buffer(lib().pbEnergy_WorkSize(self.ptr)), (arrays, values, addresses, stride)
        return Elements(n, vertex, *map(ptr, arrays), addresses, ps, h, time)

    def evaluate(self, x, vertex, rest=None, previous=None, h=0.0, time=0.0, hessian=False, **parameters):
        """(value (count), gradient (count, points, 3), Hessian or None). Parameters: shared, or count rows each."""
        v, pv = integers(vertex)
        n, p, fault = v.size // self.points, 3 * self.points, Fault()
        elements = self._elements(n, pv, [real(a) for a in (x, rest, previous)], h, time, parameters)
        out = [np.zeros(n), np.zeros((n, self.points, 3)), np.zeros((n, p, p)) if hessian else None]
        if not lib().pbEnergy_Evaluate(self.ptr, ct.byref(elements), ct.byref(ElementsOut(*map(ptr, out))), self.work, ct.byref(fault)):
            raise ValueError(f"element {fault.element}: {fault.what.decode()}")
        return out

    def stencil(self, size, offset, gradient, x, rest=None, previous=None, h=0.0, time=0.0, **parameters):
        """Sum of the values over all places of a stencil on a grid of points; adds to `gradient` (vertices x 3)."""
        (o, po), value, fault = integers(offset), np.zeros(1), Fault()
        s = Stencil((ct.c_int * 3)(*size), 0, ct.cast(po, ct.POINTER(ct.c_int * 3)))
        n = int(np.prod(np.array(size) - o.max(axis=0)))
        elements = self._elements(n, None, [None if a is None else np.ascontiguousarray(a, dtype=float) for a in (x, rest, previous)], h, time, parameters)
        if not lib().pbEnergy_EvaluateStencil(self.ptr, ct.byref(s), ct.byref(elements), ptr(value), ptr(gradient), self.work, ct.byref(fault)):
            raise ValueError(f"element {fault.element}: {fault.what.decode()}")
        return value[0]


class World(pb.Model):
    """An empty world (or the MJCF text `model`) with deformables: state them, then freeze()."""

    def __init__(self, h, gravity=(0, 0, 0), model=None):
        text = model or f'<mujoco><option timestep="{h!r}" gravity="{" ".join(map(repr, map(float, gravity)))}"/></mujoco>'
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "world.xml")
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
            super().__init__(path)
        self.h, self.stated, self.deformable, self.n = h, {}, ct.c_void_p(), 0
        lib().pbDeformable_Create(self.ctx, ct.byref(self.deformable))

    def __del__(self):
        if getattr(self, "deformable", None):
            lib().pbDeformable_Destroy(self.deformable)
            self.deformable = None
        super().__del__()

    # ---- what is stated ---------------------------------------------------------------------------------------------
    def points(self, rest, mass=None, start=None, velocity=None):
        """Points of a scene in the plane have two coordinates; it is made planar."""
        kept = [None if a is None else real(np.pad(a, ((0, 0), (0, 3 - np.shape(a)[1])))) for a in (rest, start, velocity)]
        if np.shape(rest)[1] == 2:
            lib().pbDeformable_SetPlanar(self.deformable, True)
        m = None if mass is None else real(np.broadcast_to(mass, len(rest)))
        self.n += len(rest)
        lib().pbDeformable_AddPoints(self.deformable, len(rest), ptr(kept[0]), ptr(m), ptr(kept[1]), ptr(kept[2]), None)

    def _add(self, call, name, formula, elements, per_element, values, control):
        v, pv = integers(elements)
        d = definition(name, formula, v.shape[1], {k: shape_of(a, k in per_element) for k, a in values.items()})
        group = ct.c_int()
        call(self.deformable, name.encode(), ct.byref(d), len(v), pv, ct.byref(group))
        self.stated[name] = (Energy(formula, v.shape[1], **{k: shape_of(a, k in per_element) for k, a in values.items()}), v, values)
        for k, a in values.items():
            a = real(np.atleast_1d(a))
            lib().pbDeformable_SetParameter(self.deformable, group, k.encode(), len(v) if k in per_element else 1, ptr(a))
        for k in control:
            lib().pbDeformable_Control(self.deformable, group, k.encode())

    def energy(self, name, formula, elements, per_element=(), control=(), **values):
        """Parameters named in `per_element` have a row an element; those in `control` follow controls."""
        self._add(lib().pbDeformable_AddEnergy, name, formula, elements, per_element, values, control)

    def mass(self, name, formula, elements, per_element=(), **values):
        self._add(lib().pbDeformable_AddMass, name, formula, elements, per_element, values, ())
        del self.stated[name]

    def material(self, name, law, elements, per_element=(), control=(), **values):
        """A built-in energy, or mass (`law`: its full name); what is not said has its start value."""
        formula, start = material(law)
        if law.startswith("mass_"):
            self.mass(name, formula, elements, per_element, **{**start, **values})
        else:
            self.energy(name, formula, elements, per_element, control, **{**start, **values})

    def fix(self, points, axes="xyz"):
        v, pv = integers(points)
        lib().pbDeformable_Fix(self.deformable, len(v), pv, sum(1 << "xyz".index(a) for a in axes))

    # ---- contact ----------------------------------------------------------------------------------------------------
    def surface(self, triangles=(), edges=(), points=(), radius=0.0, own=False):
        """Its number. `own`: meets itself."""
        (t, pt), (e, pe), (q, pq), number = integers(triangles), integers(edges), integers(points), ct.c_int()
        s = Surface(None, t.size // 3, pt, e.size // 2, pe, q.size, pq, radius, own)
        lib().pbDeformable_AddSurface(self.deformable, ct.byref(s), ct.byref(number))
        return number.value

    def plane(self, point=(0, 0, 0), normal=(0, 0, 1)):
        """Its number as a surface; three fixed points more."""
        number = ct.c_int()
        lib().pbDeformable_AddPlane(self.deformable, None, ptr(real(point)), ptr(real(normal)), ct.byref(number))
        self.n += 3
        return number.value

    def attach(self, body, points):
        """Attaches these points to a body of the model, where they start."""
        v, pv = integers(points)
        lib().pbDeformable_AttachPoints(self.deformable, self.ptr, body.encode(), len(v), pv)

    def geom(self, name):
        """A geom as a surface; its number. Its points come after those that are there."""
        number = ct.c_int()
        lib().pbDeformable_AttachGeom(self.deformable, self.ptr, name.encode(), ct.byref(number))
        return number.value

    def pair(self, first, second, meet=True, stiffness=-1.0, friction=-1.0):
        lib().pbDeformable_SetPair(self.deformable, first, second, meet, stiffness, friction)

    def contact(self, distance, stiffness, friction=0.0, velocity=1e-3, kind="none"):
        c = Contact(distance, stiffness, friction, velocity, FRICTION.index(kind))
        lib().pbDeformable_SetContact(self.deformable, ct.byref(c))

    def freeze(self, scheme="implicit_euler", method="newton", minimise=None, **options):
        """Options, then into the model. `minimise(evaluate, x)` -> (x, iterations): a minimiser of the caller's."""
        self._keep_minimise = MINIMISE(self._user(minimise)) if minimise else MINIMISE()
        o = Options(scheme=SCHEMES.index(scheme), method=METHODS.index(method), minimize=self._keep_minimise, **options)
        lib().pbDeformable_SetOptions(self.deformable, ct.byref(o))
        lib().pbModel_SetDeformable(self.ptr, self.deformable)
        self.n = lib().pbModel_PointCount(self.ptr)
        self._sizes()
        return self

    @staticmethod
    def _user(minimise):
        def call(_, potential, x, iterations):
            p = potential.contents
            here = np.ctypeslib.as_array(x, (p.n,))

            def evaluate(y):
                y, value, gradient = real(y), np.zeros(1), np.zeros(p.n)
                if not p.evaluate(potential, ptr(y), ptr(value), ptr(gradient)):
                    return np.inf, gradient
                return value[0], gradient

            here[:], iterations[0] = minimise(evaluate, here.copy())
            return 0
        return call

    def evaluate(self, x, rest, previous=None, **values):
        """(sum of the energies, its gradient n x 3) at positions n x 3; group__parameter replaces what was stated."""
        total, gradient = 0.0, np.zeros((self.n, 3))
        for name, (energy, elements, stated) in self.stated.items():
            now = {k: values.get(f"{name}__{k}", a) for k, a in stated.items()}
            value, each, _ = energy.evaluate(x, elements, rest, x if previous is None else previous, self.h, **now)
            total += value.sum()
            np.add.at(gradient, elements, each)
        return total, gradient

    # ---- states -----------------------------------------------------------------------------------------------------
    def x(self, state):
        return state[..., self.slots["points"]].reshape(*state.shape[:-1], self.n, 3)

    def v(self, state):
        return state[..., self.slots["point_velocity"]].reshape(*state.shape[:-1], self.n, 3)

    def start(self, x=None, v=None):
        """The initial state, with other positions or velocities (n x 2 or 3)."""
        s = self.init()
        for name, a in (("points", x), ("point_velocity", v)):
            if a is not None:
                s[self.slots[name]].reshape(self.n, 3)[:, :np.shape(a)[1]] = a
        return s

    def with_params(self, theta=None, **values):
        """theta with slices replaced; 'group.parameter' is written group__parameter."""
        th = (self.theta if theta is None else theta).copy()
        for k, a in values.items():
            view = self.param(th, k.replace("__", "."))
            view[...] = np.reshape(a, view.shape) if np.ndim(a) else a
        return th


class Rollout(pb.Rollout):
    """Rollouts of a World: states as an array, gradients as arrays by name."""

    def run(self, state=None, ctrl=None, theta=None):
        return self.forward(self.m.start() if state is None else state, ctrl, theta, states=True)

    def pull(self, points=None, velocity=None):
        """Cotangents (n x 3 of the last state, or (steps + 1) x n x 3) -> dict of x, v, ctrl and slices of theta by name."""
        m, self.bars = self.m, [None if a is None else real(np.reshape(a, (-1, 3 * self.m.n))) for a in (points, velocity)]
        bar = pb.RolloutBar()
        for name, a in zip(("points", "point_velocity"), self.bars):
            if a is not None:
                setattr(bar, name, pb.Cotangent(ptr(a), len(a), None))
        g = {"x0": np.zeros(m.nt), "theta": np.zeros(m.ntheta)}
        if m.nu:
            g["ctrl"] = np.zeros(self.kept[2].shape if self.kept[2] is not None else (self.steps, m.nu))
        self.certificate = pb.Certificate()
        out = pb.RolloutGradient(**{k: ptr(a) for k, a in g.items()})
        pb.lib().pbRollout_Vjp(self.ptr, ct.byref(bar), None, ct.byref(out), ct.byref(self.certificate))
        at = 2 * m.nv + m.na
        g["x"], g["v"] = g["x0"][at:at + 3 * m.n].reshape(m.n, 3), g["x0"][at + 3 * m.n:at + 6 * m.n].reshape(m.n, 3)
        return g
