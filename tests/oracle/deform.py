"""Deformables and energies of the C interface (include/pullback/deform.h, energy.h), for tests and cases."""
import os
import tempfile

import numpy as np

import inside
from inside import native, real

named = lambda prefix, *words: {w: getattr(native, prefix + w.title().replace("_", "")) for w in words}
SCHEMES = named("pb_scheme", "implicit_euler", "bdf2", "trapezoid", "avf4", "symplectic_euler", "static")
FRICTION = named("pb_friction", "none", "lagged", "implicit")
METHODS = named("pb_minimize", "newton", "newton_cg", "lbfgs", "gradient", "adam", "user")


def integers(a):
    return np.ascontiguousarray(a, dtype=np.intc)


def definition(name, formula, points, parameters):
    """`parameters`: name -> value, whose last axes give the shape: a number, a vector, a matrix."""
    size = lambda shape: dict(zip(("rows", "cols"), (*shape, 1, 1)))
    return native.pbEnergyDef(name=name, formula=formula, points=points, parameter_count=len(parameters),
                              parameters=[native.pbEnergyParameter(name=n, **size(shape)) for n, shape in parameters.items()])


def material(name):
    """A built-in energy: its formula and the start values of its parameters, by name."""
    found = native.pbMaterial_Find(name)
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
        self.ctx, self.ptr, self.names, self.points = native.pbContext_Create(None), native.handle(), [*shapes], points
        d = definition("energy", formula, points, shapes)
        native.pbEnergy_Create(self.ctx, d, self.ptr)

    def __del__(self):
        if self.ctx:
            native.pbEnergy_Destroy(self.ptr)
            native.pbContext_Destroy(self.ctx)
            self.ctx = None

    def _elements(self, n, vertex, arrays, h, time, parameters):
        values = [real(np.atleast_1d(parameters[k])) for k in self.names]
        self.work = np.zeros(native.pbEnergy_WorkSize(self.ptr), np.uint8)
        return native.pbElements(count=n, vertex=vertex, parameter=values, timestep=h, time=time, **dict(zip(("x", "rest", "previous"), arrays)),
                                 stride=[a.size // n if len(a) == n and n > 1 else 0 for a in values])

    def evaluate(self, x, vertex, rest=None, previous=None, h=0.0, time=0.0, hessian=False, **parameters):
        """(value (count), gradient (count, points, 3), Hessian or None). Parameters: shared, or count rows each."""
        v = integers(vertex)
        n, p, fault = v.size // self.points, 3 * self.points, native.pbEnergyFault()
        elements = self._elements(n, v, [real(a) for a in (x, rest, previous)], h, time, parameters)
        out = [np.zeros(n), np.zeros((n, self.points, 3)), np.zeros((n, p, p)) if hessian else None]
        if not native.pbEnergy_Evaluate(self.ptr, elements, native.pbElementsOut(**dict(zip(("value", "gradient", "hessian"), out))), self.work, fault):
            raise ValueError(f"element {fault.element}: {fault.what.decode()}")
        return out

    def stencil(self, size, offset, gradient, x, rest=None, previous=None, h=0.0, time=0.0, **parameters):
        """Sum of the values over all places of a stencil on a grid of points; adds to `gradient` (vertices x 3)."""
        o, value, fault = integers(offset), np.zeros(1), native.pbEnergyFault()
        s = native.pbGridStencil(size=size, offset=o)
        n = int(np.prod(np.array(size) - o.max(axis=0)))
        elements = self._elements(n, None, [None if a is None else np.ascontiguousarray(a, dtype=float) for a in (x, rest, previous)], h, time, parameters)
        if not native.pbEnergy_EvaluateStencil(self.ptr, s, elements, value, gradient, self.work, fault):
            raise ValueError(f"element {fault.element}: {fault.what.decode()}")
        return value[0]


class World(inside.Model):
    """An empty world (or the MJCF text `model`) with deformables: state them, then freeze()."""

    def __init__(self, h, gravity=(0, 0, 0), model=None):
        text = model or f'<mujoco><option timestep="{h!r}" gravity="{" ".join(map(repr, map(float, gravity)))}"/></mujoco>'
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "world.xml")
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
            super().__init__(path)
        self.h, self.stated, self.deformable, self.n = h, {}, native.handle(), 0
        native.pbDeformable_Create(self.ctx, self.deformable)

    def __del__(self):
        if getattr(self, "deformable", None):
            native.pbDeformable_Destroy(self.deformable)
            self.deformable = None
        super().__del__()

    # ---- what is stated ---------------------------------------------------------------------------------------------
    def points(self, rest, mass=None, start=None, velocity=None):
        """Points of a scene in the plane have two coordinates; it is made planar."""
        kept = [None if a is None else real(np.pad(a, ((0, 0), (0, 3 - np.shape(a)[1])))) for a in (rest, start, velocity)]
        if np.shape(rest)[1] == 2:
            native.pbDeformable_SetPlanar(self.deformable, True)
        m = None if mass is None else real(np.broadcast_to(mass, len(rest)))
        self.n += len(rest)
        native.pbDeformable_AddPoints(self.deformable, len(rest), kept[0], m, kept[1], kept[2], None)

    def _add(self, call, name, formula, elements, per_element, values, control):
        v = integers(elements)
        d = definition(name, formula, v.shape[1], {k: shape_of(a, k in per_element) for k, a in values.items()})
        group = native.int_()
        call(self.deformable, name, d, len(v), v, group)
        self.stated[name] = (Energy(formula, v.shape[1], **{k: shape_of(a, k in per_element) for k, a in values.items()}), v, values)
        for k, a in values.items():
            a = real(np.atleast_1d(a))
            native.pbDeformable_SetParameter(self.deformable, group, k, len(v) if k in per_element else 1, a)
        for k in control:
            native.pbDeformable_Control(self.deformable, group, k)

    def energy(self, name, formula, elements, per_element=(), control=(), **values):
        """Parameters named in `per_element` have a row an element; those in `control` follow controls."""
        self._add(native.pbDeformable_AddEnergy, name, formula, elements, per_element, values, control)

    def mass(self, name, formula, elements, per_element=(), **values):
        self._add(native.pbDeformable_AddMass, name, formula, elements, per_element, values, ())
        del self.stated[name]

    def material(self, name, law, elements, per_element=(), control=(), **values):
        """A built-in energy, or mass (`law`: its full name); what is not said has its start value."""
        formula, start = material(law)
        if law.startswith("mass_"):
            self.mass(name, formula, elements, per_element, **{**start, **values})
        else:
            self.energy(name, formula, elements, per_element, control, **{**start, **values})

    def fix(self, points, axes="xyz"):
        v = integers(points)
        native.pbDeformable_Fix(self.deformable, len(v), v, sum(1 << "xyz".index(a) for a in axes))

    # ---- contact ----------------------------------------------------------------------------------------------------
    def surface(self, triangles=(), edges=(), points=(), radius=0.0, own=False):
        """Its number. `own`: meets itself."""
        t, e, q, number = integers(triangles), integers(edges), integers(points), native.int_()
        s = native.pbSurface(triangles=t.size // 3, triangle=t, edges=e.size // 2, edge=e, points=q.size, point=q, radius=radius, self=own)
        native.pbDeformable_AddSurface(self.deformable, s, number)
        return number.value

    def plane(self, point=(0, 0, 0), normal=(0, 0, 1)):
        """Its number as a surface; three fixed points more."""
        number = native.int_()
        native.pbDeformable_AddPlane(self.deformable, None, real(point), real(normal), number)
        self.n += 3
        return number.value

    def attach(self, body, points):
        """Attaches these points to a body of the model, where they start."""
        v = integers(points)
        native.pbDeformable_AttachPoints(self.deformable, self.ptr, body, len(v), v)

    def geom(self, name):
        """A geom as a surface; its number. Its points come after those that are there."""
        number = native.int_()
        native.pbDeformable_AttachGeom(self.deformable, self.ptr, name, number)
        return number.value

    def pair(self, first, second, meet=True, stiffness=-1.0, friction=-1.0):
        native.pbDeformable_SetPair(self.deformable, first, second, meet, stiffness, friction)

    def contact(self, distance, stiffness, friction=0.0, velocity=1e-3, kind="none"):
        c = native.pbDeformContact(distance=distance, stiffness=stiffness, friction=friction, velocity=velocity, kind=FRICTION[kind])
        native.pbDeformable_SetContact(self.deformable, c)

    def freeze(self, scheme="implicit_euler", method="newton", minimise=None, **options):
        """Options, then into the model. `minimise(evaluate, x)` -> (x, iterations): a minimiser of the caller's."""
        self._options = native.pbDeformOptions(scheme=SCHEMES[scheme], method=METHODS[method], **options)
        if minimise:
            self._options.minimize = self._user(minimise)
        native.pbDeformable_SetOptions(self.deformable, self._options)
        native.pbModel_SetDeformable(self.ptr, self.deformable)
        self.n = native.pbModel_PointCount(self.ptr)
        self._sizes()
        return self

    @staticmethod
    def _user(minimise):
        def call(_, potential, x, iterations):
            p = potential.contents
            here = native.array(x, p.n,)

            def evaluate(y):
                y, value, gradient = real(y), np.zeros(1), np.zeros(p.n)
                if not native.call(p.evaluate, potential, y, value, gradient):
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


class Rollout(inside.Rollout):
    """Rollouts of a World: states as an array, gradients as arrays by name."""

    def run(self, state=None, ctrl=None, theta=None):
        return self.forward(self.m.start() if state is None else state, ctrl, theta, states=True)

    def pull(self, points=None, velocity=None):
        """Cotangents (n x 3 of the last state, or (steps + 1) x n x 3) -> dict of x, v, ctrl and slices of theta by name."""
        m, self.bars = self.m, [None if a is None else real(np.reshape(a, (-1, 3 * self.m.n))) for a in (points, velocity)]
        bar = native.pbRolloutBar()
        for name, a in zip(("points", "point_velocity"), self.bars):
            if a is not None:
                setattr(bar, name, native.pbCotangent(data=a, count=len(a)))
        g = {"x0": np.zeros(m.nt), "theta": np.zeros(m.ntheta)}
        if m.nu:
            g["ctrl"] = np.zeros(self.kept[2].shape if self.kept[2] is not None else (self.steps, m.nu))
        self.certificate = native.pbCertificate()
        out = native.pbRolloutGradient(**g)
        native.pbRollout_Vjp(self.ptr, bar, None, out, self.certificate)
        at = 2 * m.nv + m.na
        g["x"], g["v"] = g["x0"][at:at + 3 * m.n].reshape(m.n, 3), g["x0"][at + 3 * m.n:at + 6 * m.n].reshape(m.n, 3)
        return g
