"""Random models, each a function of its seed alone: joints, shapes, actuators, tendons, equality, sensors, options.

Shapes whose contacts MuJoCo itself decides differently from version to version never meet: bit 0 is the plane, spheres,
capsules and boxes; bit 1 the plane with all; bit 2 spheres with cylinders.
    python tests/oracle/random_models.py 17      prints model 17
"""
import random
import sys

SEEDS = 600  # of the property test
_BITS = {"sphere": (5, 5), "capsule": (1, 1), "box": (1, 1), "cylinder": (4, 2), "ellipsoid": (0, 2)}


class Maker:
    def __init__(self, seed):
        self.r = random.Random(seed * 7919 + 13)
        self.joints, self.balls, self.free, self.sites, self.bodies, self.geoms, self.tendons = [], [], [], [], ["world"], [], []
        self.ranged, self.actuators, self.count = set(), [], 0

    # ---- pieces
    def u(self, low, high):
        return round(self.r.uniform(low, high), 4)

    def vec(self, low, high, n=3):
        return " ".join(str(self.u(low, high)) for _ in range(n))

    def maybe(self, chance):
        return self.r.random() < chance

    def label(self, kind):
        self.count += 1
        return f"{kind}{self.count}"

    def turn(self, most=40):
        way = self.r.randrange(5)
        if way == 0:
            return ""
        if way == 1:
            return f' euler="{self.vec(-most, most)}"'
        if way == 2:
            return f' quat="1 {self.vec(-.3, .3)}"'
        if way == 3:
            return f' axisangle="{self.vec(.1, 1)} {self.u(-most, most)}"'
        return f' zaxis="{self.vec(-.4, .4, 2)} 1"'

    def solver(self, suffix=""):
        out = ""
        if self.maybe(.25):
            direct = self.maybe(.2)
            out += f' solref{suffix}="{-self.u(300, 3000)} {-self.u(5, 60)}"' if direct else f' solref{suffix}="{self.u(.006, .08)} {self.u(.5, 1.4)}"'
        if self.maybe(.25):
            out += f' solimp{suffix}="{self.u(.3, .9)} {self.u(.9, .98)} {self.u(.001, .02)} {self.u(.2, .8)} {self.r.choice([1, 2, 3])}"'
        return out

    def geom(self, small=False):
        r, kind = self.r, self.r.choice(["sphere", "sphere", "capsule", "capsule", "box", "box", "cylinder", "ellipsoid"])
        s = .6 if small else 1
        n = {"sphere": 1, "capsule": 2, "cylinder": 2}.get(kind, 3)
        size = " ".join(str(self.u(.04 * s, .11 * s)) for _ in range(n))
        contype, conaffinity = _BITS[kind]
        name = self.label("g")
        out = f'<geom name="{name}" type="{kind}" size="{size}" contype="{contype}" conaffinity="{conaffinity}"'
        if kind == "capsule" and self.maybe(.4):
            out = f'<geom name="{name}" type="capsule" fromto="0 0 0 {self.vec(-.15, .15)}" size="{self.u(.02, .05)}" contype="1" conaffinity="1"'
        else:
            out += f' pos="{self.vec(-.05, .05)}"' + self.turn(90)
        out += f' density="{self.u(200, 1500)}"' if self.maybe(.7) else f' mass="{self.u(.1, 2)}"'
        if self.maybe(.5):
            out += f' condim="{r.choice([1, 3, 4, 6])}"'
        if self.maybe(.5):
            out += f' friction="{self.u(.2, 1.3)} {self.u(.001, .03)} {self.u(.0001, .004)}"'
        if self.maybe(.2):
            out += f' priority="{r.choice([1, 2])}"'
        if self.maybe(.2):
            out += f' solmix="{self.u(0, 3)}"'
        if self.maybe(.25):
            out += f' margin="{self.u(0, .02)}"'
        if self.maybe(.15):
            out += f' gap="{self.u(0, .01)}"'
        if self.fluid and self.maybe(.4):
            out += ' fluidshape="ellipsoid"' + (f' fluidcoef="{self.vec(.2, 1.2, 5)}"' if self.maybe(.5) else "")
        self.geoms.append((name, kind))
        return out + self.solver() + "/>"

    def site(self):
        name = self.label("s")
        self.sites.append((name, self.bodies[-1]))
        kind = self.r.choice(["sphere", "box", "capsule", "cylinder", "ellipsoid"])
        return f'<site name="{name}" type="{kind}" pos="{self.vec(-.1, .1)}" size="{self.vec(.02, .08)}"{self.turn()}/>'

    def triple(self, scale):
        return f"{self.u(0, scale)}" if self.maybe(.7) else f"{self.u(0, scale)} {self.u(0, scale / 3)} {self.u(0, scale / 5)}"

    def joint(self, kind, place=0):
        """place: which of the body's joints this is; the second and third get axes of their own, so that none is idle."""
        name = self.label("j")
        out = f'<joint name="{name}" type="{kind}"'
        if kind != "ball":
            axes = ["1 0 0", "0 1 0", "0 0 1"]
            out += f' axis="{self.vec(-1, 1)}"' if self.maybe(.5) and not place else f' axis="{axes[place] if place else self.r.choice(axes[:1] + axes[2:])}"'
        if self.maybe(.5):
            out += f' pos="{self.vec(-.06, .06)}"'
        if self.maybe(.6):
            out += f' damping="{self.triple(.6)}"'
        if self.maybe(.4):
            out += f' stiffness="{self.triple(20 if kind == "slide" else 4)}"'
        if kind != "ball" and self.maybe(.3):
            out += f' springref="{self.u(-.02, .02) if kind == "slide" else self.u(-20, 20)}"'
        if kind != "ball" and self.maybe(.3):
            out += f' ref="{self.u(-.02, .02) if kind == "slide" else self.u(-20, 20)}"'
        if self.maybe(.5):
            out += f' armature="{self.u(.001, .05)}"'
        if self.maybe(.25):
            out += f' frictionloss="{self.u(.01, .4)}"' + self.solver("friction")
        if self.maybe(.5):
            low, high = {"hinge": (-40, 40), "slide": (-.05, .05), "ball": (0, 30)}[kind]
            a, b = (0, self.u(3, high)) if kind == "ball" else (self.u(low, low / 20), self.u(high / 20, high))
            out += f' range="{a} {b}"' + self.solver("limit") + (f' margin="{self.u(0, .01)}"' if self.maybe(.2) else "")
            if kind != "ball":
                self.ranged.add(name)
        if kind != "ball" and self.maybe(.15):
            out += f' actuatorfrcrange="{-self.u(.05, 1)} {self.u(.05, 1)}"'
        if kind != "ball" and self.maybe(.15):
            out += ' actuatorgravcomp="true"'
        (self.balls if kind == "ball" else self.joints).append(name)
        return out + "/>"

    def body(self, pos, depth, root):
        name = self.label("b")
        self.bodies.append(name)
        out = [f'<body name="{name}" pos="{pos}"' + self.turn(20 if root else 40) + (f' gravcomp="{self.u(0, 1.2)}"' if self.maybe(.15) else "") + ">"]
        if root and self.maybe(.55):
            free = self.label("j")
            self.free.append(free)
            out.append(f'<joint name="{free}" type="free"' + (f' damping="{self.u(0, .2)}"' if self.maybe(.2) else "") + "/>")
        elif root or self.maybe(.9):
            kinds = self.r.choice([["hinge"], ["hinge"], ["hinge", "hinge"], ["slide"], ["slide", "hinge"], ["ball"], ["slide", "slide", "hinge"], ["slide", "ball"]])
            out += [self.joint(kind, place) for place, kind in enumerate(kinds)]
        for _ in range(self.r.choice([1, 1, 1, 2])):
            out.append(self.geom(small=not root))
        if self.maybe(.15):
            out.append(f'<inertial pos="{self.vec(-.03, .03)}" mass="{self.u(.2, 2)}" diaginertia="{self.vec(.01, .018)}"{self.turn()}/>')
        for _ in range(self.r.choice([0, 1, 1, 2])):
            out.append(self.site())
        for _ in range(self.r.choice([0, 1, 1, 2]) if depth < 3 else 0):
            out += self.body(self.vec(-.15, .15), depth + 1, False)
        return out + ["</body>"]

    # ---- sections
    def option(self):
        r = self.r
        self.fluid = self.maybe(.25)
        out = f'<option timestep="{r.choice([.001, .002, .002, .004])}" integrator="{r.choice(["Euler", "Euler", "implicitfast", "RK4"])}" cone="{r.choice(["pyramidal", "elliptic"])}"'
        if self.maybe(.3):
            out += f' impratio="{self.u(.5, 8)}"'
        if self.maybe(.3):
            out += f' gravity="{self.vec(-1, 1, 2)} {-self.u(2, 10)}"'
        if self.fluid:
            out += f' density="{self.u(0, 60)}" viscosity="{self.u(0, .5)}" wind="{self.vec(-1, 1)}"'
        if self.maybe(.2):
            out += f' magnetic="{self.vec(-1, 1)}"'
        off = [f for f in ("frictionloss", "limit", "equality", "spring", "damper", "filterparent", "refsafe", "eulerdamp", "clampctrl", "actuation", "gravity") if self.maybe(.03)]
        flags = " ".join(f'{f}="disable"' for f in off)
        if self.maybe(.05):
            out += f' o_margin="{self.u(0, .01)}" o_friction="{self.vec(.2, 1, 2)} {self.vec(.001, .02)}" o_solref="{self.u(.01, .05)} 1"'
            flags += ' override="enable"'
        return out + (f"><flag {flags}/></option>" if flags else "/>")

    def world(self):
        out = ["<worldbody>", f'<geom name="floor" type="plane" size="5 5 .1" contype="3" conaffinity="3"{self.turn(4)}' + (f' condim="{self.r.choice([1, 3, 4, 6])}"' if self.maybe(.3) else "") + self.solver() + "/>"]
        if self.maybe(.4):
            out.append(self.site())
        if self.maybe(.3):
            out.append(f'<geom type="box" size=".2 .2 .05" pos="0 0 0"{self.turn(10)}/>')
        for k in range(self.r.choice([1, 2, 2, 3, 3, 4])):
            out += self.body(f"{self.u(-.05, .05) + .4 * (k % 2)} {self.u(-.05, .05) + .4 * (k // 2)} {self.u(.05, .16) + (.12 if self.maybe(.2) else 0)}", 0, True)
        return out + ["</worldbody>"]

    def tendon(self):
        out = []
        for _ in range(self.r.choice([0, 0, 1, 2, 3])):
            fixed = len(self.joints) > 0 and (self.maybe(.5) or len(self.sites) < 2)
            if not fixed and len(self.sites) < 2:
                break
            name = self.label("t")
            text = f'<{"fixed" if fixed else "spatial"} name="{name}"'
            if self.maybe(.6):
                text += f' stiffness="{self.triple(10)}"'
            if self.maybe(.6):
                text += f' damping="{self.triple(.5)}"'
            if self.maybe(.3):
                text += f' frictionloss="{self.u(.01, .2)}"' + self.solver("friction")
            if self.maybe(.3):
                text += f' armature="{self.u(.001, .03)}"'
            if self.maybe(.4):
                text += (f' range="{self.u(-.3, 0)} {self.u(0.01, .3)}"' if fixed else f' range="0 {self.u(.1, .7)}"') + self.solver("limit")
            if self.maybe(.3):
                a = self.u(0, .2)
                text += f' springlength="{a}"' if self.maybe(.5) else f' springlength="{a} {a + self.u(0, .2)}"'
            if self.maybe(.15):
                text += f' actuatorfrcrange="{-self.u(.05, 1)} {self.u(.05, 1)}"'
            if fixed:
                inside = "".join(f'<joint joint="{j}" coef="{self.u(-1.5, 1.5)}"/>' for j in self.r.sample(self.joints, min(len(self.joints), self.r.choice([1, 2, 3]))))
            else:
                way = [s for s, _ in self.r.sample(self.sites, min(len(self.sites), self.r.choice([2, 3, 4])))]
                inside = "".join(f'<site site="{s}"/>' for s in way)
                if self.maybe(.3):
                    a, b = (s for s, _ in self.r.sample(self.sites, 2))
                    inside += f'<pulley divisor="{self.r.choice([2, 3])}"/><site site="{a}"/><site site="{b}"/>'
            self.tendons.append(name)
            out.append(text + ">" + inside + ("</fixed>" if fixed else "</spatial>"))
        return ["<tendon>", *out, "</tendon>"] if out else []

    def equality(self):
        out = []
        moving = self.bodies[1:]
        soft = lambda: f'solref="{self.u(.05, .2)} 1" solimp="{self.u(.1, .6)} {self.u(.6, .9)} {self.u(.01, .1)}"'
        for _ in range(self.r.choice([0, 0, 0, 1, 2])):
            kind = self.r.choice(["connect", "weld", "joint", "tendon", "site"])
            if kind in ("connect", "weld"):
                a = self.r.choice(moving)
                b = self.r.choice([x for x in self.bodies if x != a])
                text = f'<{kind} body1="{a}"' + (f' body2="{b}"' if b != "world" else "") + (f' anchor="{self.vec(-.1, .1)}"' if kind == "connect" or self.maybe(.5) else "")
                if kind == "weld" and self.maybe(.4):
                    text += f' torquescale="{self.u(.2, 2)}"'
            elif kind == "site":
                pairs = [(s, t) for s, a in self.sites for t, b in self.sites if a != b]
                if not pairs:
                    continue
                a, b = self.r.choice(pairs)
                text = f'<{self.r.choice(["connect", "weld"])} site1="{a}" site2="{b}"'
            else:
                pool = self.joints if kind == "joint" else self.tendons
                if not pool:
                    continue
                chosen = self.r.sample(pool, min(len(pool), self.r.choice([1, 2])))
                text = f"<{kind} " + " ".join(f'{kind}{k + 1}="{n}"' for k, n in enumerate(chosen)) + f' polycoef="{self.u(-.1, .1)} {self.vec(-1, 1, 4)}"'
            out.append(text + " " + soft() + "/>")
        return ["<equality>", *out, "</equality>"] if out else []

    def contact(self):
        out = []
        exact = [g for g, k in self.geoms if k in ("sphere", "capsule", "box")]
        if exact and self.maybe(.2):
            g = self.r.choice(exact)
            out.append(f'<pair geom1="{g}" geom2="floor" condim="{self.r.choice([1, 3, 4, 6])}" friction="{self.vec(.2, 1, 2)} {self.vec(.001, .02)}" margin="{self.u(0, .01)}"{self.solver()}/>')
        if len(self.bodies) > 3 and self.maybe(.2):
            a, b = self.r.sample(self.bodies[1:], 2)
            out.append(f'<exclude body1="{a}" body2="{b}"/>')
        return ["<contact>", *out, "</contact>"] if out else []

    def actuator(self):
        out = []
        for _ in range(self.r.choice([0, 1, 2, 3, 5])):
            ways = ["joint"] * 3 * bool(self.joints) + ["ball"] * bool(self.balls) + ["free"] * bool(self.free) + ["tendon"] * bool(self.tendons) + ["site", "refsite"] * (len(self.sites) > 1)
            if not ways:
                break
            way, name = self.r.choice(ways), self.label("a")
            kind = self.r.choice(["motor", "motor", "position", "velocity", "intvelocity", "damper", "cylinder", "general", "general", "general"])
            text = f'<{kind} name="{name}"'
            target = None
            if way == "joint":
                target = self.r.choice(self.joints)
                text += f' {self.r.choice(["joint", "joint", "jointinparent"])}="{target}" gear="{self.u(-3, 3)}"'
            elif way in ("ball", "free"):
                text += f' {self.r.choice(["joint", "jointinparent"])}="{self.r.choice(self.balls if way == "ball" else self.free)}" gear="{self.vec(-.5, .5, 3 if way == "ball" else 6)}"'
            elif way == "tendon":
                text += f' tendon="{self.r.choice(self.tendons)}" gear="{self.u(-2, 2)}"'
            else:
                a, b = self.r.sample(self.sites, 2)
                text += f' site="{a[0]}" gear="{self.vec(-.5, .5, 6)}"' + (f' refsite="{b[0]}"' if way == "refsite" else "")
            ranged = False
            if kind == "position":
                text += f' kp="{self.u(.5, 10)}"' + (f' kv="{self.u(0, .4)}"' if self.maybe(.6) else "")
                if target in self.ranged and "jointinparent" not in text and self.maybe(.3):
                    text += f' inheritrange="{self.u(.5, 1.2)}"'
                    ranged = True
                if self.maybe(.2):
                    text += f' timeconst="{self.u(.02, .1)}"'
            elif kind == "velocity":
                text += f' kv="{self.u(.05, .6)}"'
            elif kind == "intvelocity":
                text += f' kp="{self.u(.5, 5)}" kv="{self.u(0, .3)}" actrange="{-self.u(.1, 1)} {self.u(.1, 1)}"'
            elif kind == "damper":
                text += f' kv="{self.u(.05, .6)}" ctrlrange="0 {self.u(.5, 2)}"'
                ranged = True
            elif kind == "cylinder":
                text += f' timeconst="{self.u(.02, .2)}" area="{self.u(.3, 1.5)}" bias="{self.vec(-.3, 0)}"'
            elif kind == "general":
                dyn = self.r.choice(["none", "none", "integrator", "filter", "filterexact"])
                text += f' dyntype="{dyn}" dynprm="{self.u(.02, .2)}"' + (' actearly="true"' if dyn != "none" and self.maybe(.3) else "")
                if dyn != "none" and self.maybe(.4):
                    text += f' actrange="{-self.u(.02, .5)} {self.u(.02, .5)}" actlimited="true"'
                text += f' gaintype="affine" gainprm="{self.vec(-.5, 1.5)}"' if self.maybe(.5) else f' gainprm="{self.u(.2, 2)}"'
                if self.maybe(.5):
                    text += f' biastype="affine" biasprm="{self.u(-.3, .3)} {self.vec(-1, 0, 2)}"'
            if not ranged and self.maybe(.3):
                text += f' ctrlrange="{-self.u(.1, 1)} {self.u(.1, 1)}"'
            if self.maybe(.2):
                text += f' forcerange="{-self.u(.1, 1)} {self.u(.1, 1)}"'
            self.actuators.append(name)
            out.append(text + "/>")
        return ["<actuator>", *out, "</actuator>"] if out else []

    def frame(self):
        kind = self.r.choice(["body", "xbody", "geom"] + ["site"] * bool(self.sites))
        pool = {"body": self.bodies[1:], "xbody": self.bodies[1:], "geom": [g for g, _ in self.geoms], "site": [s for s, _ in self.sites]}[kind]
        return kind, self.r.choice(pool)

    def sensor(self):
        out = []
        for _ in range(self.r.choice([0, 3, 6, 10])):
            groups = ["frame", "frame", "acc", "subtree", "clock"] + ["joint"] * bool(self.joints) + ["ball"] * bool(self.balls) + ["site", "site"] * bool(self.sites) + ["tendon"] * bool(self.tendons) + ["actuator"] * bool(self.actuators) + ["limit"] * bool(self.ranged)
            group = self.r.choice(groups)
            if group == "frame":
                kind, name = self.frame()
                text = f'<{self.r.choice(["framepos", "framequat", "framexaxis", "frameyaxis", "framezaxis", "framelinvel", "frameangvel"])} objtype="{kind}" objname="{name}"'
                if self.maybe(.4):
                    kind, name = self.frame()
                    text += f' reftype="{kind}" refname="{name}"'
            elif group == "acc":
                kind, name = self.frame()
                text = f'<{self.r.choice(["framelinacc", "frameangacc"])} objtype="{kind}" objname="{name}"'
            elif group == "subtree":
                text = f'<{self.r.choice(["subtreecom", "subtreelinvel", "subtreeangmom"])} body="{self.r.choice(self.bodies)}"'
            elif group == "clock":
                text = "<clock"
            elif group == "joint":
                text = f'<{self.r.choice(["jointpos", "jointvel", "jointactuatorfrc"])} joint="{self.r.choice(self.joints)}"'
            elif group == "ball":
                text = f'<{self.r.choice(["ballquat", "ballangvel"])} joint="{self.r.choice(self.balls)}"'
            elif group == "site":
                site, body = self.r.choice(self.sites)
                kinds = ["accelerometer", "velocimeter", "gyro", "magnetometer", "touch"] + ["force", "torque"] * (body != "world")
                text = f'<{self.r.choice(kinds)} site="{site}"'
            elif group == "tendon":
                text = f'<{self.r.choice(["tendonpos", "tendonvel", "tendonactuatorfrc"])} tendon="{self.r.choice(self.tendons)}"'
            elif group == "actuator":
                text = f'<{self.r.choice(["actuatorpos", "actuatorvel", "actuatorfrc"])} actuator="{self.r.choice(self.actuators)}"'
            else:
                text = f'<{self.r.choice(["jointlimitpos", "jointlimitvel", "jointlimitfrc"])} joint="{self.r.choice(sorted(self.ranged))}"'
            bounded = "quat" not in text and "axis" not in text
            out.append(text + (f' cutoff="{self.u(.05, 3)}"' if bounded and self.maybe(.15) else "") + "/>")
        return ["<sensor>", *out, "</sensor>"] if out else []

    def model(self, seed):
        head = [f'<mujoco model="random{seed}">', self.option()]
        world = self.world()
        rest = self.tendon()
        rest = rest + self.equality() + self.contact() + self.actuator() + self.sensor()
        return "\n".join(head + world + rest + ["</mujoco>"]) + "\n"


def xml(seed):
    return Maker(seed).model(seed)


if __name__ == "__main__":
    print(xml(int(sys.argv[1])))
