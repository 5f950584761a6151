"""Jacobians of steps beside differences

A humanoid of 33 degrees of freedom stands, bends, falls and lies, with torques at its joints: A and B of all its steps, from the
evaluations that its rollout has kept and through Python, beside central differences of the same steps: in time (differences take
two steps for each column, of which nothing but the steps is counted) and entry by entry where it touches the ground. Beside them
`mjd_transitionFD` of MuJoCo, and the humanoid of 62 degrees of freedom of this project's tests; the simulator Simple (Inria) has
published 95 us for the derivatives of a step of a humanoid of 36 degrees of freedom on another machine, its code is not out.
On Gymnasium's hopper errors of one step's derivatives and of a gradient by the controls of 32 steps, beside those that a change
proposed to MuJoCo Warp (an adjoint, in single precision) has published for this robot: 2.8e-5 and 9e-6, and 8.7e-5."""
import importlib.util
import os
import time

import numpy as np

from common import ROOT, below, ratio, reported, spent, timing

import pullback as pb

STEPS = 300


def limb(name, at, joints, length, inner, radius=.04):
    axes = "".join(f'<joint name="{name} {axis}" axis="{" ".join("1" if a == axis else "0" for a in "xyz")}"/>' for axis in joints)
    return (f'<body name="{name}" pos="{at}">{axes}<geom type="capsule" size="{radius}" fromto="0 0 0 0 0 {-length}"/>{inner}</body>')


def humanoid():
    """Waist of three hinges, neck of two, arms of five, legs of six: 27 hinges and a free joint."""
    sides = {"left": 1, "right": -1}
    arms = "".join(limb(f"{s} upper arm", f"0 {.22 * y} .3", "xyz", .28, limb(f"{s} lower arm", "0 0 -.3", "yz", .25, "", .03))
                   for s, y in sides.items())
    feet = {s: f'<body name="{s} foot" pos="0 0 -.42"><joint name="{s} ankle x" axis="1 0 0"/>'
               f'<joint name="{s} ankle y" axis="0 1 0"/><geom type="box" size=".11 .045 .02" pos=".04 0 -.03"/></body>' for s in sides}
    legs = "".join(limb(f"{s} thigh", f"0 {.1 * y} -.08", "xyz", .4, limb(f"{s} shin", "0 0 -.42", "y", .38, feet[s]))
                   for s, y in sides.items())
    head = ('<body name="head" pos="0 0 .4"><joint name="neck y" axis="0 1 0"/><joint name="neck z" axis="0 0 1"/>'
            '<geom type="sphere" size=".1" pos="0 0 .1"/></body>')
    trunk = "".join(f'<joint name="waist {a}" axis="{b}"/>' for a, b in zip("xyz", ("1 0 0", "0 1 0", "0 0 1")))
    body = f'<body name="chest" pos="0 0 .1">{trunk}<geom type="capsule" size=".1" fromto="0 -.1 .2 0 .1 .2"/>{arms}{head}</body>'
    names = [part.split('"')[0] for part in (body + legs).split('joint name="')[1:]]
    motors = "".join(f'<motor name="{name}" joint="{name}" gear="40"/>' for name in names)
    return (f'<mujoco><option timestep=".004" integrator="Euler"/><default><joint damping="2" armature=".02" limited="true" range="-100 100"/>'
            f'<motor ctrllimited="true" ctrlrange="-1 1"/></default><worldbody><geom type="plane" size="5 5 .1"/>'
            f'<body name="pelvis" pos="0 0 .98"><freejoint/><geom type="capsule" size=".1" fromto="0 -.08 0 0 .08 0"/>{body}{legs}</body></worldbody>'
            f"<actuator>{motors}</actuator></mujoco>")


def controls(steps, nu):
    return .2 * np.sin(.05 * (1 + .13 * np.arange(nu)) * np.arange(steps)[:, None] + 2.4 * np.arange(nu))


def moved(model, x, column, eps):
    """All numbers of a state that goes on by eps along a column of A (the free joint's rotation in the body's own axes)."""
    y, nq, free = np.array(x), model.nq, model.nq != model.nv
    if column >= model.nv:
        y[1 + nq + column - model.nv] += eps
    elif free and 3 <= column < 6:
        turn, (w, a, b, c) = np.zeros(4), y[4:8].copy()
        turn[0], turn[1 + column - 3] = np.cos(eps / 2), np.sin(eps / 2)
        r, i, j, k = turn
        y[4:8] = w * r - a * i - b * j - c * k, w * i + a * r + b * k - c * j, w * j - a * k + b * r + c * i, w * k + a * j - b * i + c * r
    else:
        y[1 + column + (free and column >= 6)] += eps
    return y


def differences(model, x, u, eps):
    """A and B of one step by differences of the fourth order: at eps and twice it to both sides."""
    n, nu = 2 * model.nv, model.nu
    columns, rest = {}, np.tile(model.rollout(x, u[None], keep=False).final.flat, (n + nu, 1))
    for size in (eps, -eps, 2 * eps, -2 * eps):
        states = [moved(model, x, c, size) for c in range(n)] + [np.array(x)] * nu
        inputs = np.concatenate([np.tile(u, (n, 1)), u + size * np.eye(nu)])
        final = model.rollout(np.stack(states), inputs[:, None], keep=False).final.flat
        columns[size] = np.stack([model.difference(before, after)[:n] for before, after in zip(rest, final)])
    near, far = (columns[eps] - columns[-eps]) / (2 * eps), (columns[2 * eps] - columns[-2 * eps]) / (4 * eps)
    found = ((4 * near - far) / 3).T
    return found[:, :n], found[:, n:]


def scaled(found, expected):
    return float(np.max(np.abs(found - expected)) / np.max(np.abs(expected)))


def errors(model, r, A, B, u, steps):
    """Of A and B of some steps, by the largest entry."""
    out = []
    for k in steps:
        a, b = differences(model, r.state(k).flat, u[k], 1e-6)
        out.append((scaled(A[k], a), scaled(B[k], b)))
    return np.array(out)


def speed(model, whole, u, piece):
    """Time of A and B of a step by that of a step, in rollouts of so many steps; microseconds of A and B."""
    cut = [(whole.state(k), u[k:k + piece]) for k in range(0, len(u), piece)]
    kept = [model.rollout(x, v) for x, v in cut]

    def plain():
        for x, v in cut:
            model.rollout(x, v, keep=False)

    def linearize():
        for r in kept:
            r.linearize()    # and let go: what else it takes is the system's, for new pages of memory

    return ratio(plain, linearize, 15), 1e6 * min(spent(linearize) for _ in range(5)) / len(u)


def of_mujoco(xml, states, u):
    """Microseconds of mjd_transitionFD at some states, median; contacts there."""
    import mujoco
    m = mujoco.MjModel.from_xml_string(xml)
    d = mujoco.MjData(m)
    n = 2 * m.nv
    A, B, took, contacts = np.zeros((n, n)), np.zeros((n, m.nu)), [], []
    for x, ctrl in zip(states, u):
        d.qpos[:], d.qvel[:], d.ctrl[:] = x[1:1 + m.nq], x[1 + m.nq:1 + m.nq + m.nv], ctrl
        mujoco.mj_forward(m, d)
        begin = time.process_time()
        mujoco.mjd_transitionFD(m, d, 1e-6, True, A, B, None, None)
        took.append(1e6 * (time.process_time() - begin))
        contacts.append(d.ncon)
    return float(np.median(took)), float(np.mean(contacts))


def hopper():
    """Largest relative errors of A and B of single steps in contact; error and cosine of a gradient by the controls of 32 steps."""
    package = importlib.util.find_spec("gymnasium").submodule_search_locations[0]
    model = pb.load(os.path.join(package, "envs", "mujoco", "assets", "hopper.xml"))
    u = .3 * np.sin(.1 * np.arange(200)[:, None] * (1 + np.arange(3)) + np.arange(3))
    r = model.rollout(model.init(), u)
    A, B = r.linearize()
    single = errors(model, r, A, B, u, range(60, 200, 7))

    x, tail = r.state(120), u[120:152]
    weights = np.sin(1 + np.arange(2 * model.nv))
    last = lambda v: model.rollout(x, v, keep=False).final.flat[1:1 + model.nq + model.nv]  # noqa: E731
    loss = lambda v: float(weights @ last(v))  # noqa: E731
    gradient = model.rollout(x, tail).vjp(qpos=weights[:model.nq], qvel=weights[model.nq:]).ctrl
    expected = np.zeros_like(tail)
    for index in np.ndindex(*tail.shape):
        step = np.zeros_like(tail)
        step[index] = 1e-5
        near, far = (loss(tail + step) - loss(tail - step)) / 2e-5, (loss(tail + 2 * step) - loss(tail - 2 * step)) / 4e-5
        expected[index] = (4 * near - far) / 3
    g, e = gradient.ravel(), expected.ravel()
    return single.max(axis=0), float(np.linalg.norm(g - e) / np.linalg.norm(e)), float(g @ e / np.linalg.norm(g) / np.linalg.norm(e))


def of_file(path):
    """Microseconds of A and B of a step of a model, and its degrees of freedom."""
    model = pb.load(path)
    u = controls(150, model.nu)
    return speed(model, model.rollout(model.init(), u), u, 50)[1], model.nv


def rows():
    xml = humanoid()
    model = pb.loads(xml)
    u, some = controls(STEPS, model.nu), range(100, STEPS, 10)
    r = model.rollout(model.init(), u)
    A, B = r.linearize()
    off = errors(model, r, A, B, u, some).max(axis=0)
    (taken, ours), columns = speed(model, r, u, 50), 2 * model.nv + model.nu
    theirs, contacts = of_mujoco(xml, [r.state(k).flat for k in some], u[list(some)])
    large, dofs = of_file(os.path.join(ROOT, "tests", "oracle", "models", "humanoid62.xml"))
    single, error, cosine = hopper()
    return [below("entries of A, of the largest, beside differences of the fourth order", float(off[0]), 1e-6),
            below("entries of B", float(off[1]), 1e-6),
            timing(f"central differences of {columns} columns by A and B, in time", 2 * columns / taken, ">= 80", 2 * columns / taken >= 80),
            reported("steps that A and B take; in rollouts of 300", f"{taken:.2f}; {speed(model, r, u, STEPS)[0]:.2f}"),
            reported("contacts on average; mjd_transitionFD (central) by A and B", f"{contacts:.1f}; {theirs / ours:.0f}"),
            reported(f"us of A and B: {model.nv}, {dofs} dofs (Simple: 95 at 36)", f"{ours:.0f}, {large:.0f}"),
            below("hopper: A and B of one step, of the largest entry (Warp: 2.8e-5, 9e-6)", float(single.max()), 1e-7),
            below("hopper: gradient by the controls of 32 steps (Warp: 8.7e-5)", error, 1e-6),
            reported("hopper: one less its cosine (Warp: 1e-6)", f"{abs(1 - cosine):.0e}")]
