"""No intersections, decided exactly

Nothing passes through: after every step of difficult scenes no edge intersects a triangle, decided exactly by an independent program."""
import numpy as np

from common import below, row
import deform
from elements import cube
import kept
import scenes

GOES_ON = True  # scene by scene and step by step, in build/
H = 1 / 30  # s, of all scenes: long steps
GRAVITY = (0, 0, -9.81)


class Scene:
    """A world, and all triangles in it that must not be crossed."""

    def __init__(self, distance, stiffness, friction=0.3, gravity=GRAVITY):
        self.w, self.triangles, self.n = deform.World(H, gravity), [], 0
        self.w.contact(distance, stiffness, friction, 1e-2, "lagged")

    def points(self, X, **more):
        """The number of the first."""
        self.w.points(X, **more)
        self.n += len(X)
        return self.n - len(X)

    def surface(self, triangles, **more):
        self.triangles.append(triangles)
        self.w.surface(triangles, **more)

    def sheet(self, name, X, triangles, velocity=None, **more):
        at = self.points(X, velocity=velocity)
        scenes.cloth(self.w, name, triangles + at, **more)
        self.surface(triangles + at, own=True)
        return at

    def obstacle(self, X, triangles, velocity=(0, 0, 0)):
        at = self.points(X, mass=1.0, velocity=np.tile(velocity, (len(X), 1)))
        self.w.fix(at + np.arange(len(X)))
        self.surface(triangles + at)
        return at


def cloth_on_ball():
    s = Scene(0.004, 20)
    X, t = scenes.grid(14, 14, .4, .4)
    s.sheet("cloth", X + [0, 0, .105], t)
    s.obstacle(*scenes.ball(.1, 8, 16))
    return s, 12


def cloth_on_needles():
    """Five points of 3 mm across and the corners and edges of a box, hit at 3 m/s."""
    s = Scene(0.003, 20)
    X, t = scenes.grid(14, 14, .3, .3)
    s.sheet("cloth", X + [0, 0, .105], t, velocity=np.tile([0, 0, -3.], (len(X), 1)))
    foot = np.array([[0, 0, .1], [.0015, 0, 0], [-.0007, .0013, 0], [-.0007, -.0013, 0]])
    cone = np.array([[0, 1, 2], [0, 2, 3], [0, 3, 1], [1, 3, 2]])
    for a, b in ((.1, .1), (-.1, .1), (-.1, -.1), (.1, -.1)):
        s.obstacle(foot + [a + .001, b + .0007, 0], cone)
    X, c = cube(1)
    s.obstacle((X - [.5, .5, 0]) * [.08, .08, .09], scenes.faces_of(c))
    return s, 10


def thin_stack():
    """Six sheets 0.1 mm thick, 1 mm apart, dropped turned a little on a plane, one upon the other."""
    s = Scene(0.0008, 50)
    X, t = scenes.grid(14, 14, .2, .2)
    for k in range(6):
        c, d = np.cos(.13 * k), np.sin(.13 * k)
        at = s.points(X @ np.array([[c, d, 0], [-d, c, 0], [0, 0, 1]]) + [0, 0, .002 + .001 * k])
        scenes.cloth(s.w, f"sheet{k}", t + at, thickness=1e-4, density=1000)
        s.triangles.append(t + at)
        s.w.surface(t + at, radius=5e-5, own=True)
    s.w.plane()
    return s, 8


def through_a_gap():
    """A sheet 20 cm wide pulled at 1 m/s through a slot of 8 cm: it has to fold."""
    s = Scene(0.003, 30, gravity=(0, 0, 0))
    X, t = scenes.grid(18, 12, .3, .2)
    velocity = np.where((X[:, :1] > .149) & (np.abs(X[:, 1:2]) < .03), [1., 0, 0], [0., 0, 0])
    at = s.sheet("cloth", X + np.stack([0 * X[:, 0], 0 * X[:, 0], 1e-3 * np.sin(40 * X[:, 1])], 1), t, velocity=velocity, young=3e4)
    s.w.fix(at + np.flatnonzero(velocity[:, 0]))
    wall, c = cube(1)
    for side in (-1, 1):
        s.obstacle((wall - [0, .5, .5]) * [.02, .2, .3] + [.155, side * .14, 0], scenes.faces_of(c))
    return s, 15


def block_between_plates():
    """A soft block pressed by plates to 40 % of its height."""
    s = Scene(0.002, 500, gravity=(0, 0, 0))
    X, c = cube(4)
    at = s.points((X - .5) * .1)
    scenes.solid(s.w, "block", c + at, 2e4)
    s.surface(scenes.faces_of(c) + at, own=True)
    plate, c = cube(2)
    for side in (-1, 1):
        s.obstacle((plate - [.5, .5, 0 if side > 0 else 1]) * [.3, .3, .01] + [0, 0, side * .053], scenes.faces_of(c), velocity=(0, 0, -side * .06))
    return s, 17


def chain():
    """Five rings of shells, the first held, fall taut."""
    s = Scene(0.002, 200)
    X, t = scenes.torus(.05, .01, 18, 6)
    for k in range(5):
        at = s.points(_link(X, k))
        scenes.cloth(s.w, f"ring{k}", t + at, young=5e6, bending=.02, thickness=1e-3, density=1000)
        s.surface(t + at)
        if k == 0:
            s.w.fix(at + np.arange(len(X)))
    return s, 20


def _link(X, k):
    """Rings in upright planes, every other turned by a right angle about the vertical."""
    upright = X[:, [2, 1, 0]]  # axis of the ring along x
    return (upright if k % 2 == 0 else upright[:, [1, 0, 2]]) + [0, 0, -.07 * k]


def heap():
    """Four sheets of 18 x 18 squares, 4 mm apart, all landing on a plane: more than 1e4 contacts."""
    s = Scene(0.006, 5)
    X, t = scenes.grid(18, 18, .375, .375)
    for k in range(4):
        s.sheet(f"sheet{k}", X + [.003 * k, .002 * k, .006 + .004 * k], t)
    s.w.plane()
    return s, 1


SCENES = {"cloth on a ball": cloth_on_ball, "cloth at 3 m/s on needles and a box": cloth_on_needles, "thin sheets stacked": thin_stack,
          "sheet pulled through a gap": through_a_gap, "block pressed by plates to 40 %": block_between_plates, "chain of rings": chain,
          "heap of sheets": heap}


def play(name, build):
    """[crossings, most contacts, steps that did not converge] of a scene, which goes on at the step where it was."""
    s, steps = build()
    s.w.freeze(approximate=True, tolerance=1e-7, iterations=400)
    triangles, x, found, first = np.concatenate(s.triangles), s.w.start(), [0, 0, 0], 0
    edges, before = scenes.edges_of(triangles), kept.saved("NOX1", name)
    if before:
        x, found, first = before["x"], before["found"].tolist(), int(before["steps"])
    for k in range(first, steps):
        x, _ = s.w.step(x)
        report = s.w.report()
        found = [found[0] + scenes.crossings(s.w.x(x), triangles, edges), max(found[1], report.contacts), found[2] + (not report.converged)]
        kept.save("NOX1", name, x=x, found=np.array(found), steps=k + 1)
    return found


def rows():
    X, t = scenes.grid(4, 4, 1, 1)
    across = np.array([[.1, .1, -1], [.1, .12, 1], [.2, .1, 1.]])
    both, seen = np.concatenate([t, [[25, 26, 27]]]), np.concatenate([X, across])
    out = [row("the test itself: edges of a triangle through a sheet", n := scenes.crossings(seen, both), ">= 1", n >= 1),
           row("the test itself: the same triangle above it", n := scenes.crossings(seen + np.array(25 * [[0, 0, 0]] + 3 * [[0, 0, 1.001]]), both), "0", n == 0)]
    largest = 0
    for name, build in SCENES.items():
        met, most, bad = play(name, build)
        largest = max(largest, most)
        out.append(row(f"{name}, {most} contacts at most: edges through triangles, over all steps of 1/30 s", met, "0", met == 0))
        out.append(below(f"{name}: steps that did not converge", bad, 0))
    kept.forget("NOX1")
    out.append(row("contacts at once in one of these scenes", largest, ">= 10000", largest >= 10000))
    return out
