"""Scenes in which features meet: the values of the axes below, each pair of values in some scene, the rest of a scene drawn at random.

    python tests/python/meetings.py             the rows of the table
    python tests/python/meetings.py 17          the model of row 17
"""
import itertools
import json
import random
import re
import sys

AXES = {
    "method": ["soft", "smooth", "erp", "cones", "lcp", "sweeps", "penalty", "impact"],
    "cone": ["pyramidal", "elliptic"],
    "integrator": ["Euler", "implicitfast", "RK4"],
    "noslip": [0, 3],
    "policy": ["none", "dense", "held", "wrench"],
    "actuator": ["motor", "position", "velocity", "intvelocity", "damper", "cylinder", "filter", "filterexact", "affine", "muscle", "smooth muscle"],
    "transmission": ["joint", "jointinparent", "tendon", "spatial", "site", "refsite", "crank", "ball", "free"],
    "limit": ["none", "ctrlrange", "forcerange", "joint", "tendon", "tendon and own", "actrange", "early"],
    "loss": ["zero", "some", "law"],
    "gravcomp": ["none", "passive", "actuated"],
    "mocap": ["none", "weld", "paddle"],
    "servo": [False, True],
    "equality": ["none", "connect", "weld", "joint", "tendon"],
    "adhesion": [False, True],
    "fluid": ["none", "box", "ellipsoid"],
    "shape": ["sphere", "capsule", "box", "cylinder", "ellipsoid", "mesh"],
    "ground": ["plane", "box", "hfield", "mesh"],
    "condim": [1, 3, 4, 6],
    "stop": ["none", "hinge", "ball", "tendon"],
    "force": ["none", "joint", "body"],
    "sensor": ["none", "position", "velocity", "acceleration", "contact"],
    "late": ["none", "zoh", "linear", "cubic"],
    "pairing": ["geoms", "pair", "override"],
    "flag": ["none", "eulerdamp", "damper", "clampctrl", "refsafe", "actuation"],
    "start": ["random", "rest", "bound"],
}
HARD = ("cones", "lcp", "sweeps", "impact", "penalty")
STEPS = 12


def excluded(a, b):
    """Pairs ((axis, value), (axis, value)) that cannot stand in one scene."""
    (x, v), (y, w) = a, b
    pair = {x: v, y: w}
    if "method" in pair:
        m = pair["method"]
        if pair.get("noslip") and m in HARD:
            return True  # sweeps against slip follow Newton's method
        if m == "impact" and pair.get("condim") in (4, 6):
            return True  # refused: no rolling friction
        if m == "impact" and (pair.get("equality", "none") != "none" or pair.get("adhesion") or pair.get("mocap") == "weld"):
            return True
        if m in ("cones", "lcp", "sweeps") and pair.get("integrator") == "RK4":
            return True
    if pair.get("servo") and (pair.get("actuator", "position") not in ("position", "velocity") or pair.get("transmission", "joint") not in ("joint", "tendon", "spatial")
                              or pair.get("limit", "forcerange") != "forcerange"):
        return True
    muscle = "muscle" in str(pair.get("actuator"))
    if muscle and pair.get("transmission") in ("site", "refsite", "ball", "free", "jointinparent", "crank"):
        return True  # lengths without an optimum
    if pair.get("limit") == "actrange" and pair.get("actuator") in ("motor", "position", "velocity", "damper", "affine", "cylinder", "muscle", "smooth muscle"):
        return True
    if pair.get("limit") == "early" and pair.get("actuator") in ("motor", "position", "velocity", "damper", "affine"):
        return True
    if pair.get("limit") in ("tendon", "tendon and own") and pair.get("transmission") not in (None, "tendon", "spatial"):
        return True
    return pair.get("limit") == "joint" and pair.get("transmission") not in (None, "joint", "jointinparent", "tendon", "crank", "spatial")


def rows(seed=1):
    """Scenes as dicts by axis: each pair of values that may stand together stands in one of them."""
    r, names = random.Random(seed), list(AXES)
    missing = {frozenset((p, q)) for x, y in itertools.combinations(names, 2) for p in [(x, v) for v in AXES[x]] for q in [(y, w) for w in AXES[y]]
               if not excluded(p, q)}
    table = []
    while missing:
        best = None
        for _ in range(12):
            row = _grown(r, names, missing)
            if row is None:
                continue
            gain = sum(frozenset(p) in missing for p in itertools.combinations(row.items(), 2))
            if best is None or gain > best[0]:
                best = gain, row
        if best is None or best[0] == 0:
            raise AssertionError(f"pairs that no scene can have: {sorted(map(sorted, map(str, missing)))[:3]}")
        missing -= {frozenset(p) for p in itertools.combinations(best[1].items(), 2)}
        table.append({n: best[1][n] for n in names})
    return table


def _grown(r, names, missing):
    """A row that begins with a missing pair and takes, axis by axis, the value that closes most of them."""
    row = dict(sorted(r.choice(sorted(missing, key=lambda p: sorted(map(str, p))))))
    rest = [n for n in names if n not in row]
    r.shuffle(rest)
    for name in rest:
        fits = [v for v in AXES[name] if not any(excluded((name, v), other) for other in row.items())]
        if not fits:
            return None
        gain = {v: sum(frozenset(((name, v), other)) in missing for other in row.items()) for v in fits}
        row[name] = r.choice([v for v in fits if gain[v] == max(gain.values())])
    return row


# ---- a row's scene ------------------------------------------------------------------------------------------------------------
CUBE = " ".join(f"{x} {y} {z}" for x in (-.06, .06) for y in (-.05, .05) for z in (-.045, .045)) + " .03 .02 .07"
SLAB = " ".join(f"{x} {y} {z}" for x in (-.9, .8) for y in (-.6, .9) for z in (-.1, 0))  # no diagonal goes through the middle


class Scene:
    """The model of a row: text, settings, policy; and what is drawn with it: start, controls, poses of mocap bodies."""

    def __init__(self, row, seed):
        self.row, self.r = row, random.Random(json.dumps([row, seed], sort_keys=True))
        self.settings = {"soft": {}, "smooth": {"kappa": 1, "onset": .05}, "erp": {"erp": .2, "cfm": 1e-3}, "cones": {"method": "cones", "restitution": .3},
                         "lcp": {"method": "lcp", "erp": .2, "cfm": 1e-3}, "sweeps": {"method": "sweeps", "sweeps": 2000, "erp": .2, "cfm": 1e-2},
                         "penalty": {"method": "penalty", "stiffness": 300, "damping": 2, "width": .01},
                         "impact": {"method": "impact", "restitution": .5, "mocap_motion": "followed"}}[row["method"]]
        self.options = {"servo": "all"} if row["servo"] else {}
        self.text = self._model()
        self.policy = self._policy()

    def u(self, low, high):
        return round(self.r.uniform(low, high), 4)

    def vec(self, low, high, n=3):
        return " ".join(str(self.u(low, high)) for _ in range(n))

    def _polynomial(self, size):
        return f"{self.u(.1 * size, size)}" if self.r.random() < .6 else f"{self.u(0, size)} {self.u(0, .3 * size)} {self.u(0, .2 * size)}"

    # ---- parts
    def _option(self):
        row = self.row
        out = f'<option timestep="{self.r.choice([.002, .004])}" integrator="{row["integrator"]}" cone="{row["cone"]}" noslip_iterations="{row["noslip"]}"'
        out += f' gravity="{self.vec(-1, 1, 2)} -9.81"' + (f' impratio="{self.u(.5, 4)}"' if self.r.random() < .3 else "")
        if row["fluid"] != "none":
            out += f' density="{self.u(5, 50)}" viscosity="{self.u(.01, .3)}" wind="{self.vec(-.5, .5)}"'
        flags = "" if row["flag"] == "none" else f' {row["flag"]}="disable"'
        if row["pairing"] == "override":
            out += f' o_margin="{self.u(.001, .01)}" o_friction="{self.vec(.3, 1, 2)} {self.vec(.002, .02)}" o_solref="{self.u(.01, .05)} 1" o_solimp=".8 .95 .002 .5 2"'
            flags += ' override="enable"'
        return out + f' tolerance="0" iterations="100" magnetic=".3 .1 -.4"><flag{flags}/></option>'

    def _contact(self):
        if self.row["pairing"] != "pair":
            return []
        return [f'<contact><pair geom1="ground" geom2="lump" condim="{self.row["condim"]}" friction="{self.vec(.2, 1, 2)} {self.vec(.001, .02, 3)}" margin="{self.u(0, .01)}"/></contact>']

    def _asset(self):
        heights = " ".join(str(self.u(0, 1)) for _ in range(36))
        return f'<asset><mesh name="cube" vertex="{CUBE}"/><mesh name="slab" vertex="{SLAB}"/>' \
               f'<hfield name="hills" nrow="6" ncol="6" size=".9 .8 .02 .1" elevation="{heights}"/></asset>'

    def _shape(self, kind, name, more=""):
        size = {"sphere": self.u(.05, .07), "capsule": f"{self.u(.04, .05)} {self.u(.04, .08)}", "box": self.vec(.04, .07), "cylinder": f"{self.u(.05, .07)} {self.u(.03, .06)}",
                "ellipsoid": self.vec(.04, .07)}
        place = 'type="mesh" mesh="cube"' if kind == "mesh" else f'type="{kind}" size="{size[kind]}"'
        row = self.row
        out = f'<geom name="{name}" {place} condim="{row["condim"]}" quat="1 {self.vec(-.3, .3)}" density="{self.u(300, 1200)}" {more}'
        if row["fluid"] == "ellipsoid" and kind != "mesh":
            out += ' fluidshape="ellipsoid"'
        if self.r.random() < .7:
            out += f' friction="{self.u(.3, 1.1)} {self.u(.002, .02)} {self.u(.0002, .002)}"'
        if self.r.random() < .3:
            out += f' solref="{self.u(.01, .05)} {self.u(.6, 1.2)}"'
        if self.r.random() < .3:
            out += f' solimp="{self.u(.5, .9)} {self.u(.91, .97)} {self.u(.001, .01)} .5 2"'
        if self.r.random() < .3:
            out += f' margin="{self.u(0, .01)}"'
        return out + "/>"

    def _ground(self):
        kind = self.row["ground"]
        what = {"plane": 'type="plane" size="2 2 .1"', "box": 'type="box" size=".9 .8 .1" pos="0 0 -.1"', "hfield": 'type="hfield" hfield="hills" pos="0 0 -.015"',
                "mesh": 'type="mesh" mesh="slab"'}[kind]
        return f'<geom name="ground" {what} condim="{self.row["condim"]}" friction="{self.u(.4, 1)} .01 .001"/>'

    def _loss(self):
        return f' frictionloss="{self.u(.02, .2)}"' if self.row["loss"] != "zero" else ""

    def _gravcomp(self):
        return f' gravcomp="{self.u(.3, 1.1)}"' if self.row["gravcomp"] != "none" else ""

    def _joint(self, kind, name, axis):
        row = self.row
        out = f'<joint name="{name}" type="{kind}"' + (f' axis="{axis}"' if kind != "ball" else "") + f' damping="{self._polynomial(.2)}"' + self._loss()
        if self.r.random() < .5:
            out += f' armature="{self.u(.001, .01)}"'
        if self.r.random() < .5:
            out += f' stiffness="{self._polynomial(4)}"'
        if row["gravcomp"] == "actuated":
            out += ' actuatorgravcomp="true"'
        if row["limit"] == "joint" and kind != "ball":
            out += ' actuatorfrcrange="-.2 .2"'
        if row["stop"] == "hinge" and kind == "hinge":
            out += ' range="-60 -2"' if row["start"] != "bound" else ' range="-60 0"'  # beyond it, or on it
        if row["stop"] == "ball" and kind == "ball":
            out += ' range="0 10"'
        return out + "/>"

    def _world(self):
        row = self.row
        out = ["<worldbody>", self._ground(), '<site name="ceiling" pos="0 0 .8"/>']
        out.append(f'<body name="lump" pos="0 0 {.055 + .01 * (row["method"] == "impact"):.3f}"{self._gravcomp()}><freejoint name="loose"/>{self._shape(row["shape"], "lump")}'
                   f'<site name="on" pos=".02 .01 .05" size=".1"/></body>')
        # Impacts alone hold no contact: the hand begins above the ground.
        out.append(f'<body name="upper" pos=".3 0 {.39 if row["method"] == "impact" else .3}"{self._gravcomp()}>' + self._joint("slide", "slider", "0 0 1") + self._joint("hinge", "shoulder", "0.2 1 0")
                   + f'<geom name="arm" type="capsule" fromto="0 0 0 .15 0 0" size=".02" contype="0" conaffinity="0" density="{self.u(500, 1500)}"/>'
                   f'<site name="elbow" pos=".1 .02 .03"/>'
                   f'<body name="lower" pos=".15 0 0"{self._gravcomp()}>' + self._joint("hinge", "bend", "0 1 -.2")
                   + f'<geom name="forearm" type="capsule" fromto="0 0 0 .05 0 -.12" size=".02" contype="0" conaffinity="0" density="{self.u(500, 1500)}"/>'
                   + f'<site name="wrist" pos=".05 0 -.1"/><geom name="wrap" type="sphere" size=".02" contype="0" conaffinity="0" mass=".01"/><body name="hand" pos=".05 0 -.2">' + self._joint("ball", "wrist", "")
                   + self._shape(self.r.choice(["sphere", "capsule", "box"]), "hand", 'pos="0 .01 -.04"') + '<site name="tip" pos="0 0 -.05" size=".2"/></body></body></body>')
        if row["mocap"] != "none":
            touching = row["mocap"] == "paddle"
            out.append(f'<body name="led" mocap="true" pos="{".02 .01 .15" if touching else ".1 .1 .35"}"><geom name="led" type="box" size=".1 .1 .03"'
                       + ("" if touching else ' contype="0" conaffinity="0"') + f' condim="{row["condim"]}"/><site name="led"/></body>')
        return out + ["</worldbody>"]

    def _tendons(self):
        row, limited = self.row, ' actuatorfrcrange="-.15 .15"' if self.row["limit"].startswith("tendon") else ""
        spring = f' stiffness="{self.u(.5, 3)}"' if self.r.random() < .5 else ""
        stop = ' range="-1 -.02"' if row["stop"] == "tendon" else ""
        armature, wrap = (f' armature="{self.u(.005, .02)}"', "") if self.r.random() < .5 else ("", '<geom geom="wrap"/>')
        return ["<tendon>", f'<fixed name="cord"{limited}{spring}{stop}{self._loss()} damping="{self.u(0, .1)}"><joint joint="shoulder" coef="{self.u(.5, 1)}"/>'
                f'<joint joint="bend" coef="{self.u(-1, -.3)}"/></fixed>',
                f'<spatial name="wire"{limited}{self._loss()}{armature}><site site="ceiling"/><site site="elbow"/>{wrap}<site site="wrist"/></spatial>',
                '<spatial name="loose" stiffness="1"><site site="on"/><site site="ceiling"/></spatial>', "</tendon>"]

    def _equality(self):
        row, soft = self.row, f'solref="{self.u(.05, .1)} 1" solimp="{self.u(.3, .6)} {self.u(.7, .9)} .05"'
        out = {"none": "", "connect": f'<connect body1="lower" anchor=".05 0 -.1" {soft}/>', "weld": f'<weld body1="hand" body2="lump" {soft}/>',
               "joint": f'<joint joint1="bend" joint2="shoulder" polycoef=".1 .5 .2" {soft}/>', "tendon": f'<tendon tendon1="cord" polycoef="{self.u(-.05, .05)}" {soft}/>'}[row["equality"]]
        if row["mocap"] == "weld":
            out += f'<weld body1="led" body2="lump" {soft}/>'
        return ["<equality>", out, "</equality>"] if out else []

    def _place(self):
        return {"joint": 'joint="bend" gear="1.5"', "jointinparent": 'jointinparent="shoulder" gear="-.8"', "tendon": 'tendon="cord" gear="1.2"', "spatial": 'tendon="wire" gear="-1"',
                "site": f'site="tip" gear="{self.vec(-.5, .5, 6)}"', "refsite": f'site="tip" refsite="on" gear="{self.vec(-.5, .5, 6)}"',
                "crank": 'cranksite="wrist" slidersite="elbow" cranklength=".3" gear="1"', "ball": f'joint="wrist" gear="{self.vec(-.5, .5)}"',
                "free": f'joint="loose" gear="{self.vec(-.5, .5, 6)}"'}[self.row["transmission"]]

    def _actuator(self, name, place, own):
        row, kind = self.row, self.row["actuator"]
        if kind in ("muscle", "smooth muscle"):
            return f'<muscle name="{name}" {place} lengthrange="-1 1.5" force="{self.u(5, 20)}" timeconst=".01 .04"' + (' tausmooth=".2"' if kind != "muscle" else "") + own + "/>"
        if kind in ("filter", "filterexact", "affine"):
            dyn = f' dyntype="{kind}" dynprm="{self.u(.01, .1)}"' if kind != "affine" else ""
            return f'<general name="{name}" {place}{dyn} gaintype="affine" gainprm="{self.u(.5, 1.5)} {self.u(-.4, .4)} {self.u(-.4, .4)}" biastype="affine"' \
                   f' biasprm="{self.u(-.2, .2)} {self.u(-.6, 0)} {self.u(-.3, 0)}"{own}/>'
        prm = {"motor": "", "position": f' kp="{self.u(1, 8)}" kv="{self.u(.1, .4)}"', "velocity": f' kv="{self.u(.1, .6)}"', "intvelocity": f' kp="{self.u(1, 5)}" kv=".1"',
               "damper": f' kv="{self.u(.1, .6)}"', "cylinder": f' timeconst="{self.u(.01, .1)}" area="{self.u(.5, 1.5)}" bias="{self.vec(-.3, 0)}"'}[kind]
        if kind == "intvelocity" and "actrange" not in own:
            own += ' actrange="-2 2"'
        if kind == "damper" and "ctrlrange" not in own:
            own += ' ctrlrange="0 1.5"'
        return f'<{kind} name="{name}" {place}{prm}{own}/>'

    def _actuators(self):
        row, limit = self.row, self.row["limit"]
        low = 0 if row["actuator"] in ("damper", "muscle", "smooth muscle") else -.6
        own = {"ctrlrange": f' ctrlrange="{low} .6"', "forcerange": ' forcerange="-.1 .1"', "tendon and own": ' forcerange="-.05 .05"', "actrange": ' actlimited="true" actrange="-.3 .3"'}.get(limit, "")
        muscle = "muscle" in row["actuator"]
        if limit == "early":
            general = {"muscle": 'dyntype="muscle" dynprm=".01 .04 0" gaintype="muscle" gainprm=".75 1.05 12 200 .5 1.6 1.5 1.3 1.2" biastype="muscle" biasprm=".75 1.05 12 200 .5 1.6 1.5 1.3 1.2" lengthrange="-1 1.5"', "cylinder": 'dyntype="filter" dynprm=".05"',
                       "smooth muscle": 'dyntype="muscle" dynprm=".01 .04 .2" gaintype="muscle" gainprm=".75 1.05 12 200 .5 1.6 1.5 1.3 1.2" biastype="muscle" biasprm=".75 1.05 12 200 .5 1.6 1.5 1.3 1.2" lengthrange="-1 1.5"',
                       "intvelocity": 'dyntype="integrator" gainprm="2" biastype="affine" biasprm="0 -2 -.1"'}
            kind = general.get(row["actuator"], f'dyntype="{row["actuator"]}" dynprm=".03"')
            first = f'<general name="first" {self._place()} {kind} actearly="true"/>'
        else:
            first = self._actuator("first", self._place(), own)
        out = ["<actuator>", first]
        # A second one of the same tendon or joint without limits of its own, and a plain motor.
        second = self._place()
        out.append(f'<motor name="second" {second}/>' if not muscle else self._actuator("second", second, ""))
        out.append('<motor name="third" joint="slider" gear="3"/>')
        if row["adhesion"]:
            out.append('<adhesion name="sticky" body="lump" ctrlrange="0 1" gain="4"/>')
        return self._late(out) + ["</actuator>"]

    def _late(self, elements):
        """Elements that begin with a name and end there, each with samples and a delay that is no multiple of the step."""
        if self.row["late"] == "none":
            return elements
        words = lambda: f' nsample="{self.r.randrange(1, 6)}" interp="{self.row["late"]}" delay="{self.u(.0005, .009)}"/>'
        return [re.sub("/>", lambda m: words(), text) for text in elements]

    def _sensors(self):
        groups = {"none": "", "position": '<framepos objtype="site" objname="tip"/><jointpos joint="bend"/><tendonpos tendon="wire"/><actuatorpos actuator="first"/><ballquat joint="wrist"/>'
                  '<subtreecom body="upper"/>' + ('' if self.row["method"] == "impact" else '<distance geom1="lump" geom2="hand" cutoff="2"/>'),
                  "velocity": '<framelinvel objtype="body" objname="lump"/><gyro site="tip"/><tendonvel tendon="cord"/><actuatorvel actuator="first"/><subtreeangmom body="upper"/><velocimeter site="on"/>',
                  "acceleration": '<accelerometer site="tip"/><framelinacc objtype="body" objname="lump"/><actuatorfrc actuator="first"/><jointactuatorfrc joint="bend"/><tendonactuatorfrc tendon="cord"/>'
                  '<force site="tip"/><torque site="elbow"/><frameangacc objtype="site" objname="tip"/>',
                  "contact": '<touch site="on"/><contact subtree1="lump" data="force dist" reduce="netforce"/><contact geom1="lump" data="force pos normal" reduce="mindist"/>'
                  '<jointlimitfrc joint="bend"/><jointlimitpos joint="bend"/>'}
        text = groups[self.row["sensor"]]
        if self.row["stop"] != "hinge":
            text = text.replace('<jointlimitfrc joint="bend"/><jointlimitpos joint="bend"/>', "")
        return ["<sensor>", *self._late([text]), "</sensor>"] if text else []

    def _model(self):
        return "\n".join(["<mujoco>", self._option(), self._asset(), *self._world(), *self._contact(), *self._tendons(), *self._equality(), *self._actuators(), *self._sensors(), "</mujoco>"]) + "\n"

    def _policy(self):
        seed = self.r.randrange(1000)
        seen = [{"qpos": ["bend", "shoulder"]}, {"qvel": ["bend", "shoulder"]}]
        return {"none": None,
                "dense": {"observe": seen, "layers": [{"dense": 2, "init": "uniform", "activation": "tanh"}, {"dense": 2, "init": "uniform"}],
                          "output": [{"control": ["first", "third"]}], "seed": seed},
                "held": {"observe": [*seen, {"last": True}], "every": 3, "layers": [{"dense": 1, "init": "uniform"}], "output": [{"control": ["first"]}], "seed": seed},
                "wrench": {"observe": seen, "layers": [{"dense": 6, "init": "uniform"}], "output": [{"wrench": ["lower"]}], "seed": seed}}[self.row["policy"]]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(Scene(rows()[int(sys.argv[1])], 1).text)
    else:
        for k, row in enumerate(rows()):
            print(k, *row.values())
