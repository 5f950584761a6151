"""Contacts at a state, Jacobians of places on bodies and inverse dynamics, each with its derivative: Model.contacts, Model.jac, Model.inverse."""
from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .arrays import real, shaped, words
from .errors import ArgumentError, StepError
from .names import C, Thing, find
from .state import flat_of

if TYPE_CHECKING:
    from .arrays import Array, ArrayLike
    from .model import Model
    from .state import State

_CONTACT = {"pos": "contact_pos", "frame": "contact_frame", "dist": "contact_dist", "force": "contact_force"}
_PARTS = ("qpos", "qvel", "act")
_RIGID = ("cones", "lcp", "sweeps")
_SAME = 1e-8  # of rows of length 1: singular values below are rounding
_HEAVY = 1e8  # kg, kg m^2
_ROUNDS = 50  # of Newton's method for inverse dynamics; a handful are the rule


def _say(kind: type, **texts: str) -> None:
    """Docstrings of a tuple's fields."""
    for name, text in texts.items():
        getattr(kind, name).__doc__ = text


class Seen(NamedTuple):
    """Quantities by name, and their derivatives along directions, (K, ...) each."""
    values: dict[str, Array]
    tangents: dict[str, Array]


def observe(model: Model, state: State | ArrayLike, names: tuple[str, ...], ctrl: ArrayLike | None = None, ways: Mapping[str, Array] | None = None,
            count: int = 0, qfrc: Array | None = None) -> Seen:
    """Quantities of one evaluation by MuJoCo's names; ways: of "state", "ctrl", "qfrc_applied", "theta", (count, width) each."""
    flat = real(flat_of(model, state), "state").copy()
    if flat.shape != (model._size,):
        raise ArgumentError(f"state: expected that of one world, {words((model._size,))}, found {words(flat.shape)}")
    given = {name: None for name in ("state", "ctrl", "qfrc_applied", "theta")} | {n: np.ascontiguousarray(a) for n, a in (ways or {}).items()}
    found, pushed = model._observe(flat, None if ctrl is None else shaped(ctrl, (model.nu,), "ctrl"), qfrc, names, count, given)
    shapes = [(rows, cols) if cols != 1 else (rows,) for rows, cols, _ in found]
    values = {n: np.frombuffer(data).reshape(s) for n, s, (_, _, data) in zip(names, shapes, found, strict=True)}
    tangents = {n: np.stack([np.frombuffer(way[i]).reshape(s) for way in pushed]) if pushed else np.zeros((0, *s)) for i, (n, s) in
                enumerate(zip(names, shapes, strict=True))}
    return Seen(values, tangents)


# ---- contacts ---------------------------------------------------------------------------------------------------------------
class Contacts:
    """Contacts of geoms at a state, in the order of the engine. Made by Model.contacts.

    pos    (ncon, 3): places, m, in the world
    frame  (ncon, 3, 3): axes as rows; the first is the normal, from the first geom to the second
    dist   (ncon,): distance of the two surfaces, m; negative: how deep they overlap
    force  (ncon, 6): force N and torque N m on the second geom, in the contact's frame, the normal first
    geom   (ncon, 2): numbers of the two geoms, int; `names` has what they are called
    unique  whether no other forces move the bodies alike

    len() is their number.
    """

    def __init__(self, model: Model, state: State, ctrl: Array | None, values: Mapping[str, Array], geom: np.ndarray) -> None:
        self._model, self._state, self._ctrl, self._geom = model, state, ctrl, geom
        self._rows = (values["efc_J"], values["efc_force"]) if model.contact["method"] in _RIGID else None
        self._arrays: dict[str, Array] = _as_arrays(values)

    @property
    def pos(self) -> Array:
        """(ncon, 3): places, m, in the world."""
        return self._arrays["pos"]

    @property
    def frame(self) -> Array:
        """(ncon, 3, 3): axes as rows, of length 1; the first is the normal, from the first geom to the second."""
        return self._arrays["frame"]

    @property
    def dist(self) -> Array:
        """(ncon,): distance of the two surfaces, m; negative: how deep they overlap."""
        return self._arrays["dist"]

    @property
    def force(self) -> Array:
        """(ncon, 6): force N and torque N m on the second geom, in the contact's frame, the normal first."""
        return self._arrays["force"]

    @property
    def geom(self) -> np.ndarray:
        """(ncon, 2): numbers of the two geoms, int; `names` has what they are called."""
        return self._geom

    @property
    def unique(self) -> bool:
        """Whether no other forces move the bodies alike, so that these and their derivative say what each contact bears.

        Soft contacts' always are: their forces follow from how deep they are. With methods "cones", "lcp" and "sweeps" it is False where the rows
        that push, those of other constraints among them, depend on each other, as those of a box on its face or of a table with four legs: `force` is
        one choice then, `jvp` the derivative of that choice, and only what they add up to (the total force and torque on a body) is settled by the
        motion. The choice is known to some 1e-10 of the forces and may jump from one state to the next: differences of `force` over small steps tell
        nothing.
        """
        return self._rows is None or _independent(*self._rows)

    @property
    def names(self) -> list[tuple[str, str]]:
        """Names of the two geoms of each contact, "" where one has none."""
        known = self._model.names("geom")
        return [(known[a], known[b]) for a, b in self.geom]

    def __len__(self) -> int:
        return len(self.dist)

    def jvp(self, state: ArrayLike | None = None, *, qpos: ArrayLike | None = None, qvel: ArrayLike | None = None, act: ArrayLike | None = None,
            ctrl: ArrayLike | None = None, params: Mapping[str, ArrayLike] | None = None) -> dict[str, Array]:
        """How they move along a direction, of the state (n,) or its parts qpos, qvel (nv,), act (na,), of ctrl (nu,), and of parameters.

        Returns "pos", "frame", "dist", "force" in their shapes, exact to rounding; features of shapes that meet, and rows that act, stay as they
        are. What follows from parameters is taken along. Where forces are not `unique` it is the derivative of those that `force` has. Raises
        ArgumentError for shapes, KeyError for a parameter's name.
        """
        ways = _way(self._model, state, {"qpos": qpos, "qvel": qvel, "act": act}, ctrl, params)
        seen = observe(self._model, self._state, tuple(_CONTACT.values()), self._ctrl, ways, 1)
        return _as_arrays({n: a[0] for n, a in seen.tangents.items()})

    def __repr__(self) -> str:
        each = [f"{a or '?'} and {b or '?'} {d:.2g} m" for (a, b), d in zip(self.names, self.dist, strict=True)]
        return f"<{len(self)} contacts: {', '.join(each)}>"


def _independent(rows: Array, force: Array) -> bool:
    """Whether the rows that push, of contacts and all other constraints, are linearly independent."""
    pushes = force != 0
    if not pushes.any():
        return True
    acting = rows.reshape(len(force), -1)[pushes]
    length = np.linalg.norm(acting, axis=1, keepdims=True)
    acting = acting / np.where(length > 0, length, 1)  # what moves nothing depends on the others
    return bool(np.linalg.matrix_rank(acting, tol=_SAME) == len(acting))


def _as_arrays(values):
    """Arrays of contacts by our names."""
    found = {name: values[of] for name, of in _CONTACT.items()}
    return {**found, "frame": found["frame"].reshape(-1, 3, 3), "pos": found["pos"].reshape(-1, 3), "force": found["force"].reshape(-1, 6)}


def _way(model, state, parts, ctrl, params):
    """One direction as observe takes it."""
    n = len(model.tangent_names)
    x = np.zeros(n) if state is None else np.array(shaped(state, (n,), "direction of state"))
    places = {"qpos": slice(0, model.nv), "qvel": slice(model.nv, 2 * model.nv), "act": slice(2 * model.nv, 2 * model.nv + model.na)}
    for name in _PARTS:
        if parts[name] is not None:
            x[places[name]] += shaped(parts[name], (places[name].stop - places[name].start,), f"direction of {name}")
    ways = {"state": x[None]}
    if ctrl is not None:
        ways["ctrl"] = shaped(ctrl, (model.nu,), "direction of ctrl")[None]
    if params:
        theta = np.zeros(len(model._theta))
        for name, p, shape in model._each(params, "direction of params"):
            theta[p.place] = shaped(params[name], shape, f"direction of params['{name}']").ravel()
        model._compiled.constants(model._theta.copy(), theta, True)
        ways["theta"] = theta[None]
    return ways


def contacts(model: Model, state: State | ArrayLike, ctrl: ArrayLike | None) -> Contacts:
    """What Model.contacts gives."""
    from .state import State
    one = state.copy() if isinstance(state, State) else model.state(state)
    u = None if ctrl is None else np.array(shaped(ctrl, (model.nu,), "ctrl"))
    seen = observe(model, one, (*_CONTACT.values(), "contact_geom", "efc_J", "efc_force"), u).values
    return Contacts(model, one, u, seen, seen["contact_geom"].reshape(-1, 2).astype(int))


# ---- Jacobians of places ------------------------------------------------------------------------------------------------------
class Jac(NamedTuple):
    """Jacobian of a place on a body: its velocity is jacp qvel, and the body's angular velocity jacr qvel, in the world's axes.

    jacp  (3, nv): m/s by m/s or rad/s;  jacr (3, nv): rad/s by rad/s
    dp, dr  the same: how they move along `along`; None where nothing was asked for
    """
    jacp: Array
    jacr: Array
    dp: Array | None = None
    dr: Array | None = None


_say(Jac, jacp="(3, nv): velocity of the place, m/s by m/s or rad/s.", jacr="(3, nv): angular velocity of the body, rad/s by m/s or rad/s.",
     dp="(3, nv): how jacp moves along the direction, 1/s of its unit; None without one.",
     dr="(3, nv): how jacr moves along the direction, 1/s of its unit; None without one.")


def _body_and_point(model, thing, point, seen):
    """The body that a place is fixed to, the place, and how it moves (1, 3)."""
    values, tangents = seen
    fields = {"body": "xpos", "site": "site_xpos", "geom": "geom_xpos"}
    body = thing.id if thing.kind == "body" else int(model._field(f"{thing.kind}_bodyid")[thing.id])
    if point is None:
        of = fields[thing.kind]
        return body, values[of][thing.id], tangents[of][:, thing.id]
    p = shaped(point, (3,), "point")
    R, dR = values["xmat"][body].reshape(3, 3), tangents["xmat"][:, body].reshape(-1, 3, 3)
    return body, p, tangents["xpos"][:, body] + (dR @ R.T @ (p - values["xpos"][body]))


def jac(model: Model, state: State | ArrayLike, thing: Thing, point: ArrayLike | None, along: ArrayLike | None) -> Jac:
    """What Model.jac gives."""
    if not isinstance(thing, Thing) or thing.kind not in ("body", "site", "geom"):
        raise ArgumentError(f"thing: expected a body, a site or a geom (model.body(...)), found {thing!r}")
    ways = None if along is None else _way(model, None, {"qpos": along, "qvel": None, "act": None}, None, None)
    names = ("xpos", "xmat", "xanchor", "xaxis", *({"site": ("site_xpos",), "geom": ("geom_xpos",)}.get(thing.kind, ())))
    seen = observe(model, state, names, None, ways, 0 if along is None else 1)
    body, p, dp = _body_and_point(model, thing, point, seen)
    kinds, first = model._field("jnt_type"), model._field("jnt_dofadr")

    found = np.zeros((4, 3, model.nv))
    while body > 0:
        for j in np.flatnonzero(model._field("jnt_bodyid") == body):
            _columns(found, seen, int(kinds[j]), int(first[j]), j, body, p, dp)
        body = int(model._field("body_parentid")[body])
    return Jac(*found[:2]) if along is None else Jac(*found)


def _columns(found, seen, kind, dof, j, body, p, dp):
    """Columns of a joint: jacp, jacr and how they move."""
    moves = len(dp) > 0
    of = lambda field, row: (seen.values[field][row], seen.tangents[field][0, row] if moves else np.zeros_like(seen.values[field][row]))
    (axis, d_axis), (anchor, d_anchor), (turned, d_turned) = of("xaxis", j), of("xanchor", j), of("xmat", body)
    arm, d_arm = p - anchor, (dp[0] if moves else 0) - d_anchor
    if kind == C["pb_jntSlide"]:
        found[0, :, dof], found[2, :, dof] = axis, d_axis
        return
    if kind == C["pb_jntFree"]:
        found[0, :, dof:dof + 3] = np.eye(3)
        dof += 3
    axes = [(axis, d_axis)] if kind == C["pb_jntHinge"] else list(zip(turned.reshape(3, 3).T, d_turned.reshape(3, 3).T, strict=True))
    for k, (a, da) in enumerate(axes):
        found[0, :, dof + k], found[1, :, dof + k] = np.cross(a, arm), a
        found[2, :, dof + k], found[3, :, dof + k] = np.cross(da, arm) + np.cross(a, d_arm), da


# ---- inverse dynamics ---------------------------------------------------------------------------------------------------------
class Inverse(NamedTuple):
    """Forces on dofs that an acceleration takes.

    qfrc  (nv,): N and N m
    by    (nv, n + nv): derivative by the state, in the order of Model.tangent_names, and by qacc; None where it was not asked for
    """
    qfrc: Array
    by: Array | None = None


_say(Inverse, qfrc="(nv,): forces on dofs, N and N m.",
     by="(nv, n + nv): derivative of qfrc by the state, in the order of Model.tangent_names, and by qacc, N and N m by their units; None: not asked for.")


def _pushed(model, state, qfrc, both):
    """Accelerations under forces, and their derivatives by forces, of `both` also by the state."""
    nv, n = model.nv, len(model.tangent_names)
    count = nv + (n if both else 0)
    ways = {"qfrc_applied": np.eye(count, nv), "state": np.eye(count, n, -nv)}
    seen = observe(model, state, ("qacc", "qfrc_actuator"), None, ways, count, np.ascontiguousarray(qfrc))
    return seen.values, {name: a.T for name, a in seen.tangents.items()}


def _near(model, state, wanted):
    """Forces to begin with. Dofs so heavy that as much force gives nearly what is wanted lack what all else pushes by."""
    theta, p = model._theta.copy(), model._parameters["dof_armature"]
    theta[p.place] += _HEAVY
    found = observe(model._with_theta(theta), state, ("qacc",), qfrc=np.ascontiguousarray(_HEAVY * wanted))
    return _HEAVY * (wanted - found.values["qacc"])


def _solve(model, state, wanted):
    """Forces of the accelerations that are wanted, and of actuators: Newton's method, by shorter steps where a whole one leads away."""
    force = _near(model, state, wanted)
    values, slopes = _pushed(model, state, force, False)
    size = np.abs(wanted - values["qacc"]).max(initial=0)
    scale, share = 1 + np.abs(wanted).max(initial=0), 1.0
    for _ in range(_ROUNDS):
        way = np.linalg.solve(slopes["qacc"][:, :model.nv], wanted - values["qacc"])
        share = min(1.0, 4 * share)
        while True:
            tried = _pushed(model, state, force + share * way, False)
            left = np.abs(wanted - tried[0]["qacc"]).max(initial=0)
            if left < size or share < 1e-6:
                break
            share /= 2
        if left >= size:
            break
        force, size, (values, slopes) = force + share * way, left, tried
    if not size <= 1e-8 * scale:
        raise StepError(f"inverse dynamics: after {_ROUNDS} rounds accelerations are {size:.1e} off")
    return force, values["qfrc_actuator"]


def inverse(model: Model, state: State | ArrayLike, qacc: ArrayLike, derivative: bool) -> Inverse:
    """What Model.inverse gives."""
    nv = model.nv
    force, actuators = _solve(model, state, np.array(shaped(qacc, (nv,), "qacc")))
    if not derivative:
        return Inverse(force + actuators)
    _, slopes = _pushed(model, state, force, True)
    by_force, by_state = slopes["qacc"][:, :nv], slopes["qacc"][:, nv:]
    own = np.linalg.inv(by_force)
    return Inverse(force + actuators, np.concatenate([-own @ by_state + slopes["qfrc_actuator"][:, nv:], own], axis=1))


def thing_of(model: Model, of: Thing | str) -> Thing:
    """A body, site or geom, given itself or as the name of a body."""
    return of if isinstance(of, Thing) else find(model, "body", of)
