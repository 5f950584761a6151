"""Gripper with soft pads lifts a box

Everything in one scene: a gripper of two soft pads on servo joints takes a rigid box from the floor and lifts it, told what to do by a
neural network that sees it. Derivatives by stiffness, friction, mass, the network and the rest shape pass through integration,
constraints, forces, contacts, material response and control: the network is a policy of the model, and the same network in Python,
called between steps and differentiated by hand, gives the same. And a cloth over an arm that moves."""
import numpy as np

from common import below, row, slope
import deform
import elements
import inside
import policy
import scenes

H, STEPS = 0.01, 70
GRIPPER = f"""<mujoco><option timestep="{H}"/><worldbody>
  <geom name="floor" type="plane" size="1 1 .1"/>
  <body name="wrist" pos="0 0 .021"><joint name="lift" type="slide" axis="0 0 1" damping="1"/>
    <geom type="box" size=".06 .01 .005" pos="0 0 .06" mass=".2" contype="0" conaffinity="0"/>
    <body name="left" pos="-.034 0 0"><joint name="left" type="slide" axis="1 0 0" damping="1"/>
      <geom type="box" size=".003 .012 .015" pos="-.003 0 0" mass=".05" contype="0" conaffinity="0"/></body>
    <body name="right" pos=".034 0 0"><joint name="right" type="slide" axis="-1 0 0" damping="1"/>
      <geom type="box" size=".003 .012 .015" pos=".003 0 0" mass=".05" contype="0" conaffinity="0"/></body></body>
  <body name="box" pos="0 0 .02"><freejoint/><geom name="box" type="box" size=".02 .02 .02" mass=".06"/></body>
</worldbody><actuator>
  <position joint="left" kp="300" kv="6"/><position joint="right" kp="300" kv="6"/><position joint="lift" kp="400" kv="20"/>
</actuator></mujoco>"""
ARM = """<mujoco><option timestep="0.01"/><worldbody><body name="arm" pos="0 0 .3"><joint name="swing" type="hinge" axis="0 1 0" damping=".05"/>
  <geom name="arm" type="capsule" size=".02" fromto="0 0 0 .3 0 0" mass=".3"/></body></worldbody>
  <actuator><position joint="swing" kp="20" kv="1"/></actuator></mujoco>"""


def gripper():
    w = deform.World(H, model=GRIPPER)
    X, cells = elements.cube(2, moved=0)
    pads = []
    for side in (-1, 1):  # a centimetre thick, glued to the fingers with their outer faces, 3 mm off the box
        pad = (X - .5) * [.01, .02, .024] + [side * .029, 0, .021]
        pads.append(len(X) * (side > 0))
        w.points(pad)
    both = np.concatenate([cells + a for a in pads])
    scenes.solid(w, "flesh", both, 6e4, density=1200)
    w.attach("left", np.flatnonzero(X[:, 0] < 1e-9) + pads[0])
    w.attach("right", np.flatnonzero(X[:, 0] > 1 - 1e-9) + pads[1])
    left, right = (w.surface(scenes.faces_of(cells) + a) for a in pads)
    w.pair(left, right, False)
    w.geom("box")
    w.contact(.002, 300, .8, .01, "lagged")
    return w.freeze(tolerance=1e-11)


class Network:
    """Two layers: height and speed of the box, fingers, lift and time to changes of three servo targets, around a plan."""
    inputs, hidden = 6, 8

    def __init__(self):
        r = np.random.default_rng(7)
        self.shapes = [(self.hidden, self.inputs), (self.hidden,), (3, self.hidden), (3,)]
        self.weights = np.concatenate([.5 * r.standard_normal(self.hidden * self.inputs), .3 * r.standard_normal(self.hidden),
                                       .003 * r.standard_normal(3 * self.hidden), np.zeros(3)])

    @staticmethod
    def plan(t):
        return np.array([.008, .008, .05 * max(0., min(1., (t - .2) / .3))])

    def __call__(self, weights, seen, t):
        parts, at = [], 0
        for s in self.shapes:
            parts.append(weights[at:at + np.prod(s)].reshape(s))
            at += np.prod(s)
        return self.plan(t) + parts[2] @ np.tanh(parts[0] @ (seen * [20, 4, 50, 50, 20, 1]) + parts[1]) + parts[3]


class Closed:
    """The closed loop as the library has it: the network is a part of the model, the plan is what the controls are given."""
    OBSERVE = [{"kind": "qpos", "component": [5], "scale": 20}, {"kind": "qvel", "component": [5], "scale": 4},
               {"kind": "qpos", "component": [1, 2], "scale": 50}, {"kind": "qpos", "component": [0], "scale": 20}, {"kind": "time"}]

    def __init__(self, net):
        self.w = gripper()
        layers = [{"kind": "dense", "size": net.hidden}, {"kind": "activation", "activation": "tanh"}, {"kind": "dense", "size": 3}]
        policy.attach(self.w, self.OBSERVE, policy.Network(net.inputs, layers))
        first, self.plan = self.w.params["policy.0.weight"].offset, np.stack([net.plan(k * H) for k in range(STEPS)])
        self.weights = slice(first, first + len(net.weights))
        self.w.theta[self.weights] = net.weights
        self.rollout = inside.Rollout(self.w, STEPS)

    def run(self, theta=None):
        return self.rollout.forward(self.w.start(), self.plan, theta)

    def gradient(self):
        bar = np.zeros(self.w.nv)
        bar[5] = 1
        return self.rollout.vjp(qpos=bar)[1]

    def slope_along(self, theta_way):
        return self.rollout.jvp(theta=theta_way)[-1][5]


class Lift:
    """The closed loop, step by step, and its derivatives: by hand through the network, by the library through the steps."""

    def __init__(self):
        self.w, self.net = gripper(), Network()
        # box: height and speed; fingers; lift; time, where states have them (joints come first: lift, left, right, box)
        self.tape = []
        q, v = self.w.slots["qpos"].start, self.w.slots["qvel"].start
        self.seen, self.tangent = [q + 5, v + 5, q + 1, q + 2, q], [5, self.w.nv + 5, 1, 2, 0]

    def control(self, weights, x, k):
        return self.net(weights, np.append(x[self.seen], k * H * (1 + 0 * weights[0].real)), k * H)

    def run(self, theta, weights, record=False):
        x, self.tape = self.w.start(), [] if record else self.tape
        for k in range(STEPS):
            u = self.control(weights, x, k)
            if record:
                y, _, tape = self.w.step_recorded(x, ctrl=u, theta=theta)
                self.tape.append((x, u, tape))
            else:
                y, _ = self.w.step(x, ctrl=u, theta=theta)
            x = y
        return x

    def control_slopes(self, weights, x, k):
        """Derivatives of the controls by what is seen and by the weights."""
        seen = np.append(x[self.seen], k * H)
        f = lambda w, s: self.net(w, s, k * H).imag / 1e-100
        return (np.stack([f(weights + 0j, seen + 1e-100j * e) for e in np.eye(6)[:5]], 1),
                np.stack([f(weights + 1e-100j * e, seen + 0j) for e in np.eye(len(weights))], 1))

    def pull(self, theta, weights, bar):
        """Gradients of bar . (tangent of the last state) by parameters and weights."""
        theta_bar, weights_bar = np.zeros(self.w.ntheta), np.zeros(len(weights))
        for k in range(STEPS - 1, -1, -1):
            x, u, tape = self.tape[k]
            into = dict(x=np.zeros(self.w.nt), ctrl=np.zeros(self.w.nu), qfrc=np.zeros(self.w.nv), xfrc=np.zeros((self.w.nbody, 6)), theta=theta_bar)
            self.w.vjp(tape, bar, ctrl=u, theta=theta, into=into)
            by_seen, by_weights = self.control_slopes(weights, x, k)
            bar = into["x"]
            bar[self.tangent] += by_seen.T @ into["ctrl"]
            weights_bar += by_weights.T @ into["ctrl"]
        return theta_bar, weights_bar


    def push(self, theta, weights, theta_way, weights_way):
        """Tangent of the last state."""
        way = np.zeros(self.w.nt)
        for k, (x, u, tape) in enumerate(self.tape):
            by_seen, by_weights = self.control_slopes(weights, x, k)
            way = self.w.jvp(tape, x=way, d_ctrl=by_seen @ way[self.tangent] + by_weights @ weights_way, d_theta=theta_way, ctrl=u, theta=theta)[0]
        return way


class Draped:
    """A cloth over an arm that swings up and drops it: how far its middle is carried."""

    def __init__(self):
        self.w = w = deform.World(.01, model=ARM)
        X, t = scenes.grid(10, 10, .2, .2)
        w.points(X + [.18, 0, .324])
        scenes.cloth(w, "cloth", t, young=3e4)
        w.surface(t, own=True)
        w.geom("arm")
        w.contact(.004, 5, .5, .02, "lagged")
        w.freeze(tolerance=1e-11)
        self.rollout = deform.Rollout(w, 40)
        self.bar = np.zeros((w.n, 3))
        self.bar[:121, 2] = 1 / 121

    def run(self, ctrl, theta=None):
        return np.sum(self.bar * self.w.x(self.rollout.run(ctrl=ctrl, theta=theta)[-1]))

    def rows(self):
        w, ctrl = self.w, .5 * np.sin(.08 * np.arange(40))[:, None]
        z = self.run(ctrl)
        states = w.x(self.rollout.run(ctrl=ctrl))
        t = scenes.grid(10, 10, .2, .2)[1]
        met = sum(scenes.crossings(s, t) for s in states)
        self.run(ctrl)
        g = self.rollout.pull(self.bar)
        out = [row("cloth over a moving arm: mean height after 0.4 s, from 0.324 m", z, "reported", True),
               row("cloth over a moving arm: edges through triangles, all steps", met, "0", met == 0)]
        for name in ("cloth.young", "contact.friction", "body_mass", "point_rest"):
            d = np.zeros(w.ntheta)
            value = w.param(w.theta, name)
            w.param(d, name)[...] = value if name != "point_rest" else 1e-4 * np.random.default_rng(5).standard_normal(value.shape)
            wanted = slope(lambda e: self.run(ctrl, w.theta + e * d), 1e-3)
            out.append(below(f"cloth over a moving arm: d(height)/d({name}) against differences, relative", abs(g["theta"] @ d / wanted - 1), 1e-6))
        e = np.cos(.1 * np.arange(40))[:, None]
        wanted = slope(lambda s: self.run(ctrl + s * e), 1e-4)
        out.append(below("cloth over a moving arm: d(height)/d(controls) against differences, relative", abs(np.sum(g["ctrl"] * e) / wanted - 1), 1e-6))
        return out


def height(lift, state):
    return state[lift.w.slots["qpos"]][5]


def rows():
    net = Network()
    closed, hand = Closed(net), Lift()
    w = closed.w
    last = closed.run()
    out = [row("height of the box's middle at the end, from 0.02 m", z := height(closed, last), ">= 0.05", z >= .05)]
    gradient = closed.gradient()
    slippery = w.theta.copy()
    w.param(slippery, "contact.friction")[...] = 0
    z = height(closed, closed.run(slippery))
    out.append(row("without friction", z, "<= 0.0205", z <= .0205))
    out += same_by_hand(closed, hand, net, last, gradient)
    r = np.random.default_rng(3)
    box = w.nbody - 1
    directions = {}
    for name, field, change in (("stiffness of the pads", "flesh.young", lambda a: a), ("friction of the pads", "contact.friction", lambda a: a),
                                ("mass of the box", "body_mass", lambda a: a * (np.arange(len(a)) == box)[:, None]),
                                ("rest shape of the pads", "point_rest", lambda a: 2e-4 * r.standard_normal(a.shape))):
        d = np.zeros(w.ntheta)
        w.param(d, field)[...] = change(w.param(w.theta, field))
        directions[name] = d
    directions["weights of the network"] = np.zeros(w.ntheta)
    directions["weights of the network"][closed.weights] = .01 * r.standard_normal(len(net.weights))
    directions["all of these"] = sum(directions.values())
    for name, d in directions.items():
        found = gradient @ d
        if name == "all of these":
            closed.run()
            out.append(below("pullback against forward derivative (dot product), relative", abs(found / closed.slope_along(d) - 1), 1e-11))
        wanted = slope(lambda t: height(closed, closed.run(w.theta + t * d)), 1e-3)
        out.append(below(f"d(height)/d({name}) against differences, relative", abs(found / wanted - 1), 1e-6))
    return out + Draped().rows()


def same_by_hand(closed, hand, net, last, gradient):
    """Heights and gradients of the network in Python, between the steps of a model without a policy."""
    w = hand.w
    found = hand.run(w.theta, net.weights, record=True)
    bar = np.zeros(w.nt)
    bar[5] = 1
    by_theta, by_weights = hand.pull(w.theta, net.weights, bar)
    others = np.delete(np.arange(closed.weights.start), w.params["timestep"].offset)  # the network sees the time: by hand it does not follow the step
    apart = lambda a, b: np.linalg.norm(a - b) / np.linalg.norm(b)
    return [below("height against the network in Python [m]", abs(height(closed, last) - height(hand, found)), 1e-12),
            below("gradient by the network's weights against the chain rule by hand, relative", apart(gradient[closed.weights], by_weights), 1e-9),
            below("gradient by the model's parameters against the chain rule by hand, relative", apart(gradient[others], by_theta[others]), 1e-9)]
