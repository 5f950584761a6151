"""Constitutive laws

Constitutive laws: stress is the derivative of the energy, curves of bars and blocks on irregular meshes against closed forms, moduli of
small strains."""
import numpy as np

from common import below, near
from elements import Energy, cube, equilateral, hinges

E, NU = 1e5, 0.3
MU, LAMBDA = E / (2 * (1 + NU)), E * NU / ((1 + NU) * (1 - 2 * NU))
C1, C2, BULK = 2e4, 1e4, 1e6
ISOTROPIC = dict(young=E, poisson=NU)
RUBBER = dict(c1=C1, c2=C2, bulk=BULK)
ACTIVE = dict(young=E, poisson=NU, fibre_stiffness=6e4, strength=5e4, activation=0.7, fibre=[1, 0, 0])
SHEET = dict(young=E, poisson=NU, thickness=1)

I1 = lambda s: np.sum(s**2, -1, keepdims=True)
J = lambda s: np.prod(s, -1, keepdims=True)
I2 = lambda s: (I1(s)**2 - I1(s**2)) / 2


def neo_hookean(s):
    mu, lam = 4 / 3 * MU, LAMBDA + 5 / 6 * MU
    return mu * s * (1 - 1 / (I1(s) + 1)) + (lam * (J(s) - 1) - .75 * mu) * J(s) / s


def fibre_stress(stretch):
    """Of active fibres: nothing below rest, a parabola up to a strain of 0.01, from there a line."""
    f = stretch - 1
    return 6e4 * np.where(f < .01, np.maximum(f, 0)**2 / .02, f - .005) + .7 * 5e4


# Nominal stress by principal stretches (n x 3): d(energy density)/d(stretch), by hand.
LAWS = {
    "linear": (ISOTROPIC, lambda s: 2 * MU * (s - 1) + LAMBDA * (s - 1).sum(-1, keepdims=True)),
    "stvk": (ISOTROPIC, lambda s: s * (MU * (s**2 - 1) + LAMBDA / 2 * (s**2 - 1).sum(-1, keepdims=True))),
    "corotated": (ISOTROPIC, lambda s: 2 * MU * (s - 1) + LAMBDA * (J(s) - 1) * J(s) / s),
    "neo_hookean": (ISOTROPIC, neo_hookean),
    "neo_hookean_log": (ISOTROPIC, lambda s: MU * (s - 1 / s) + LAMBDA * np.log(J(s)) / s),
    "mooney_rivlin": (RUBBER, lambda s: C1 * J(s)**(-2 / 3) * (2 * s - 2 / 3 * I1(s) / s) + C2 * J(s)**(-4 / 3) * (
        2 * s * (I1(s) - s**2) - 4 / 3 * I2(s) / s) + BULK * (J(s) - 1) * J(s) / s),
    "muscle": (ACTIVE, lambda s: neo_hookean(s) + np.array([1, 0, 0]) * fibre_stress(s)),
}


def stress(law, F):
    """First Piola-Kirchhoff stress (n x 3 x 3) by singular values, without a formula for the energy."""
    if law == "linear":
        e = (F + F.transpose(0, 2, 1)) / 2 - np.eye(3)
        return 2 * MU * e + LAMBDA * np.trace(e, axis1=1, axis2=2)[:, None, None] * np.eye(3)
    U, s, V = np.linalg.svd(F)
    turned = np.linalg.det(U) * np.linalg.det(V) < 0  # not here: det F > 0
    assert not turned.any()
    if law == "muscle":
        Ff = F[:, :, 0]
        f = np.linalg.norm(Ff, axis=1, keepdims=True)
        along = np.einsum("si,j->sij", Ff / f * fibre_stress(f), [1, 0, 0])
        return np.einsum("sij,sj,sjk->sik", U, neo_hookean(s), V) + along
    return np.einsum("sij,sj,sjk->sik", U, LAWS[law][1](s), V)


def worst_stress(law, count=1000):
    """Stress from the forces of one tetrahedron against the closed form, over the largest entry, and its derivative the same way."""
    rng = np.random.default_rng(7)
    F = np.eye(3) + rng.uniform(-.4, .4, (count, 3, 3))
    F = F[np.linalg.det(F) > .2]
    n = len(F)
    X = np.array([(0, 0, 0), (1.1, .1, 0), (.2, .9, 0), (.3, .2, 1)]) + rng.uniform(0, .1, (n, 4, 3))
    e = Energy(f"{law}_tetrahedron", np.arange(4 * n), **LAWS[law][0])
    D = (X[:, 1:] - X[:, :1]).transpose(0, 2, 1)
    volume = np.linalg.det(D)[:, None, None] / 6
    _, g, H = e(np.einsum("sij,spj->spi", F, X), X, hessian=True)
    P = g.reshape(n, 4, 3)[:, 1:].transpose(0, 2, 1) @ D.transpose(0, 2, 1) / volume
    by_hand = stress(law, F)
    error = np.abs(P - by_hand).max((1, 2)) / np.abs(by_hand).max((1, 2))
    H = H.reshape(n, 4, 3, 4, 3)[:, 1:, :, 1:]
    A = np.einsum("saibj,ska,slb->siklj", H, D, D) / volume[..., None, None]  # dP_ik / dF_jl at [i k l j]
    worst = 0
    for j in range(3):
        for l in range(3):
            dF, size = np.zeros((3, 3)), 1e-3
            dF[j, l] = size
            slope = (45 * (stress(law, F + dF) - stress(law, F - dF)) - 9 * (stress(law, F + 2 * dF) - stress(law, F - 2 * dF)) + (
                stress(law, F + 3 * dF) - stress(law, F - 3 * dF))) / (60 * size)
            off = np.abs(A[:, :, :, l, j] - slope).max((1, 2)) / np.abs(A).max((1, 2, 3, 4))
            if law == "muscle":  # states whose differences reach across the ends of the toe, at fibre strains 0 and 0.01
                off = off[np.abs(np.linalg.norm(F[:, :, 0], axis=1) - 1.005) > .005 + 4 * size]
            worst = max(worst, off.max())
    return error.max(), worst


def principal(law, fixed):
    """Stretches and nominal stresses with those not given (None) free of stress; free ones are equal where the law allows it."""
    s = np.array([1. if f is None else f for f in fixed])
    free = [k for k, f in enumerate(fixed) if f is None]
    for _ in range(200):
        r = LAWS[law][1](s)[free]
        K = np.array([(LAWS[law][1](s + 1e-6 * np.eye(3)[k])[free] - LAWS[law][1](s - 1e-6 * np.eye(3)[k])[free]) / 2e-6 for k in free]).T
        step = np.linalg.solve(K, r)
        s[free] -= step
        if np.abs(step).max() < 1e-15:
            break
    return s, LAWS[law][1](s)


class Block:
    """A unit cube of irregular tetrahedra, its low faces on rollers."""

    def __init__(self, name, parameters, quadratic=False):
        self.X, cells = cube(2, quadratic)
        self.e = Energy(name, cells, **parameters)
        self.high, self.low = np.abs(self.X - 1) < 1e-12, np.abs(self.X) < 1e-12

    def pull(self, axes, stretch, start):
        """High faces of `axes` moved to the stretch; the start is a guess of all stretches. Positions, nominal stresses of the axes."""
        free = ~self.low
        for k in axes:
            free[self.high[:, k], k] = False
        x = self.X * start
        for k in axes:
            x[self.high[:, k], k] = stretch
        x = self.e.equilibrium(x, self.X, free)
        f = self.e.force(x, self.X)
        return x, [f[self.high[:, k], k].sum() for k in axes]

    def shear(self, gamma):
        """All faces sheared in x by y, what is inside free: the mean stress over the volume."""
        x = self.X.copy()
        x[:, 0] += gamma * x[:, 1]
        x = self.e.equilibrium(x, self.X, np.repeat(~(self.high | self.low).any(1)[:, None], 3, 1))
        return self.e.force(x, self.X).T @ self.X


def curves(law, quadratic=False):
    parameters = LAWS[law][0]
    block = Block(f"{law}_tetrahedron{'10' if quadratic else ''}", parameters, quadratic)
    worst = [0, 0, 0]
    scale = E
    for stretch in ((.9, 1.2) if quadratic else (.75, .9, 1.1, 1.3, 1.6)):
        s, P = principal(law, (stretch, None, None))
        x, got = block.pull((0,), stretch, s * (1 + np.array([0, .02, .02])))
        side = np.abs(x - block.X * s).max()
        worst[0] = max(worst[0], abs(got[0] - P[0]) / scale, side)
        s, P = principal(law, (stretch, stretch, None))
        x, got = block.pull((0, 1), stretch, s * (1 + np.array([0, 0, .02])))
        worst[1] = max(worst[1], np.abs(np.subtract(got, P[:2])).max() / scale, np.abs(x - block.X * s).max())
        F = np.eye(3)
        F[0, 1] = stretch - 1
        worst[2] = max(worst[2], np.abs(block.shear(stretch - 1) - stress(law, F[None])[0]).max() / scale)
    return worst


def moduli(law, kind="tetrahedron"):
    """Young's modulus and Poisson's ratio from the stiffness at rest of a block pulled along x, E and nu of the law's own."""
    block = Block(f"{law}_{kind}", {k: v for k, v in LAWS[law][0].items() if k != "activation" and k != "fibre_stiffness"} | (
        {"activation": 0, "fibre_stiffness": 0} if law == "muscle" else {}), kind.endswith("10"))
    free = ~block.low
    free[block.high[:, 0], 0] = False
    free, moved = np.flatnonzero(free), np.zeros(block.X.size)
    moved.reshape(-1, 3)[block.high[:, 0], 0] = 1
    K = block.e.matrix(block.X, block.X)
    moved[free] = -np.linalg.solve(K[np.ix_(free, free)], K[free] @ moved)
    u = moved.reshape(-1, 3)
    young = (K @ moved).reshape(-1, 3)[block.high[:, 0], 0].sum()
    return young, -u[block.high[:, 1], 1].mean()


def membranes():
    """Sheets in space under two stretches and a shear of the plane, against the forms of plane stress."""
    X, cells = cube(3, flat=True)
    turn = np.linalg.qr(np.random.default_rng(3).normal(size=(3, 3)))[0]
    orthotropic = dict(young_warp=E, young_weft=E / 2, poisson=.2, shear=E / 5, warp=turn @ [1, 0, 0], thickness=1)
    worst, edge = {}, (np.abs(X) < 1e-12) | (np.abs(X - 1) < 1e-12)
    fixed = edge[:, :2].any(1)
    for name, parameters in (("membrane_stvk", SHEET), ("membrane_neo_hookean", dict(young=E, thickness=1)), ("membrane_orthotropic", orthotropic)):
        e = Energy(name + "_triangle", cells, **parameters)
        for a, b, c in ((1.1, 1.05, 0), (1.3, 1.2, 0), (1.2, 1.1, .3)):
            F = np.array([[a, c], [0, b]])
            C = F.T @ F
            G = (C - np.eye(2)) / 2
            if name == "membrane_stvk":
                S = E / (1 - NU**2) * ((1 - NU) * G + NU * np.trace(G) * np.eye(2))
            elif name == "membrane_neo_hookean":
                S = E / 3 * (np.eye(2) - np.linalg.inv(C) / np.linalg.det(C))
            else:
                d = 1 - .2**2 / 2
                S = np.array([[E * (G[0, 0] + .1 * G[1, 1]) / d, 2 * E / 5 * G[0, 1]], [2 * E / 5 * G[0, 1], E * (G[1, 1] / 2 + .1 * G[0, 0]) / d]])
            x, rest = np.zeros_like(X), X @ turn.T
            x[:, :2] = X[:, :2] @ F.T
            x = e.equilibrium(x, rest, np.repeat(~fixed[:, None], 3, 1))
            P = (e.force(x, rest).T @ X)[:2, :2]
            worst[name] = max(worst.get(name, 0), np.abs(P - F @ S).max() / E)
    return worst


def viscous():
    """Kelvin and Voigt's stress at random F and rates against 2 eta R + zeta tr R, pushed forward."""
    rng = np.random.default_rng(5)
    n, h, eta, zeta = 200, .01, 30., 20.
    X = np.array([(0, 0, 0), (1.1, .1, 0), (.2, .9, 0), (.3, .2, 1)]) + rng.uniform(0, .1, (n, 4, 3))
    F, G = (np.eye(3) + rng.uniform(-.3, .3, (n, 3, 3)) for _ in range(2))
    e = Energy("viscous_tetrahedron", np.arange(4 * n), shear_viscosity=eta, bulk_viscosity=zeta)
    place = lambda A: np.einsum("sij,spj->spi", A, X)
    g = e(place(F), X, place(G), h)[1]
    D = (X[:, 1:] - X[:, :1]).transpose(0, 2, 1)
    P = g.reshape(n, 4, 3)[:, 1:].transpose(0, 2, 1) @ D.transpose(0, 2, 1) / (np.linalg.det(D)[:, None, None] / 6)
    R = (F.transpose(0, 2, 1) @ F - G.transpose(0, 2, 1) @ G) / (2 * h)
    by_hand = F @ (2 * eta * R + zeta * np.trace(R, axis1=1, axis2=2)[:, None, None] * np.eye(3))
    return (np.abs(P - by_hand).max((1, 2)) / np.abs(by_hand).max((1, 2))).max()


def rolled(law, angle):
    """Energy of a sheet rolled up slightly, over that of a plate: rims, which have no hinges, taken out by two meshes."""
    ratio = []
    for n in (24, 48):
        X, cells = equilateral(n)
        area = np.cross(X[cells[:, 1]] - X[cells[:, 0]], X[cells[:, 2]] - X[cells[:, 0]])[:, 2].sum() / 2
        x, curvature = X.copy(), 1e-3
        x[:, 2] = curvature / 2 * (X[:, :2] @ [np.cos(angle), np.sin(angle)])**2
        ratio.append(Energy(law, hinges(cells), bending=2.)(x, X)[0].sum() / (curvature**2 * area))
    return 2 * ratio[1] - ratio[0]


def rows():
    out = []
    for law in LAWS:
        first, second = worst_stress(law)
        uniaxial, biaxial, shear = curves(law)
        out += [
            below(f"{law}: stress against its closed form, 1000 random F, relative", first, 1e-10),
            below(f"{law}: its derivative against differences of the closed form, relative", second, 1e-8),
            below(f"{law}: uniaxial tension, stretch .75 .. 1.6, irregular tetrahedra: stress over E, and sides", uniaxial, 1e-8),
            below(f"{law}: two axes", biaxial, 1e-8),
            below(f"{law}: simple shear, -.25 .. .6, all stresses", shear, 1e-8),
        ]
    for law in ("stvk", "neo_hookean", "corotated"):
        out.append(below(f"{law}: the same three, quadratic tetrahedra", max(curves(law, True)), 1e-8))
    for law in LAWS:
        if law != "mooney_rivlin":
            young, poisson = moduli(law)
            out += [near(f"{law}: Young's modulus at small strains [Pa]", young, E, 1e-6),
                    near(f"{law}: Poisson's ratio", poisson, NU, 1e-12)]
    shear, young = 2 * (C1 + C2), 9 * BULK * 2 * (C1 + C2) / (3 * BULK + 2 * (C1 + C2))
    found = moduli("mooney_rivlin")
    out += [near("mooney_rivlin: Young's modulus of its bulk and shear moduli [Pa]", found[0], young, 1e-6),
            near("mooney_rivlin: Poisson's ratio", found[1], young / (2 * shear) - 1, 1e-12)]
    for name, worst in membranes().items():
        out.append(below(f"{name}: stresses of a sheet in space, stretched and sheared, over E", worst, 1e-8))
    for law in ("bending_quadratic", "bending_angle"):
        out.append(below(f"{law}: energy of a sheet of equilateral triangles rolled in four directions, over a plate's: worst distance from 1",
                         max(abs(rolled(law, a) - 1) for a in (0, .4, .9, np.pi / 2)), 2e-3))
    out.append(below("viscous: stress of random rates against its closed form, relative", viscous(), 1e-10))
    return out
