"""Random scenes of deformables, each derivative against differences: laws, dampers, loads, schemes, contacts, couplings, ways to hold and lead.

  python tests/python/deform_campaign.py [--seed S] [--scenes N] [--first K]       with the package of a build on PYTHONPATH

Scene k of a seed is always the same. Each list below is gone through in a drawn order again and again, so that among as many scenes as the longest
list is long everything stands at least once. Of each parameter a direction over all its numbers, of the state, of controls and of the path of a hand one: the
pullback, the forward derivative, and differences of fourth order, the best of five lengths. Ends with 1 where one is wrong, a scene is refused, or
more than a twentieth of the scenes do not converge.
"""
import argparse
import os
import sys

import numpy as np

import pullback as pb

STEPS = 8
EXACT, CLOSE = 1e-7, 1e-4  # forward against reverse; either against differences, which friction and barriers make coarse


def moduli(rng):
    return {"young": float(np.exp(rng.uniform(np.log(5e3), np.log(1e5)))), "poisson": float(rng.uniform(.1, .4))}


def solid(energy, parameters=moduli, quadratic=False, split="six"):
    def make(rng):
        mesh = {"box": {"size": [.2, .1, .06], "cells": [int(rng.integers(1, 4)), 1, 1], "split": split}}
        return {"mesh": mesh, "quadratic": quadratic, "energies": [{"energy": energy, "name": "m", "parameters": {**parameters(rng), "density": 1000}}]}
    return make


def sheet(membrane, parameters, bending):
    def make(rng):
        mesh = {"grid": {"u": [.2, 0, .02], "v": [0, .15, 0], "cells": [int(rng.integers(2, 5)), 3], "pattern": str(rng.choice(["uniform", "alternating"]))}}
        return {"mesh": mesh, "energies": [{"energy": membrane, "name": "m", "parameters": {**parameters(rng), "thickness": 1e-3, "density": 300}},
                                           {"energy": bending, "name": "b", "parameters": {"bending": float(np.exp(rng.uniform(-12, -7)))}}]}
    return make


def net(spring):
    def make(rng):
        return {"mesh": {"grid": {"u": [.2, 0, 0], "v": [0, .15, 0], "cells": [int(rng.integers(2, 5)), 2]}}, "mass": float(rng.uniform(.05, .2)), "energies": [{"on": "edges", "name": "m", **spring(rng)}]}
    return make


def rod(bend):
    def make(rng):
        stretch = {"energy": "rod_stretch", "name": "m", "parameters": {"axial": float(rng.uniform(10, 300))}}
        return {"mesh": {"chain": {"from": [0, 0, 0], "to": [.2, 0, .03], "edges": int(rng.integers(3, 9))}}, "mass": .05,
                "energies": [stretch, {"energy": bend, "name": "b", "parameters": {"bending": float(rng.uniform(1e-5, 1e-3))}}]}
    return make


def stiffness(rng): return float(rng.uniform(20, 300))


LAWS = {
    "linear": solid("linear"), "corotated": solid("corotated", split="five"), "stvk": solid("stvk"), "neo_hookean": solid("neo_hookean"),
    "neo_hookean_log": solid("neo_hookean_log"), "quadratic neo_hookean": solid("neo_hookean", quadratic=True), "quadratic corotated": solid("corotated", quadratic=True),
    "mooney_rivlin": solid("mooney_rivlin", lambda rng: {"c1": 5e3, "c2": float(rng.uniform(1e3, 5e3)), "bulk": 5e4}),
    "muscle": solid("muscle", lambda rng: {**moduli(rng), "fibre_stiffness": 2e4, "strength": 5e3, "activation": float(rng.choice([0, .3])), "fibre": [1, .3, .1]}),
    "membrane_stvk": sheet("membrane_stvk", moduli, "bending_quadratic"), "membrane_neo_hookean": sheet("membrane_neo_hookean", lambda rng: {"young": 3e4}, "bending_angle"),
    "membrane_orthotropic": sheet("membrane_orthotropic", lambda rng: {"young_warp": 5e4, "young_weft": 2e4, "poisson": .2, "shear": 1e4, "warp": [1, .2, 0]}, "bending_angle"),
    "spring": net(lambda rng: {"energy": "spring", "parameters": {"stiffness": stiffness(rng)}}),
    "spring_length": net(lambda rng: {"energy": "spring_length", "parameters": {"stiffness": stiffness(rng), "length": .05, "softening": 1e-5}}),
    "spring_string": net(lambda rng: {"energy": "spring_string", "parameters": {"stiffness": stiffness(rng), "slack": .8}}),
    "spring_muscle": net(lambda rng: {"energy": "spring_muscle", "parameters": {"stiffness": .5, "length": .06, "activation": .9, "softening": 1e-6}}),
    "formula": net(lambda rng: {"formula": "0.5*k*(norm(x0 - x1) - s*norm(X0 - X1))^2*(1 + 0.1*sin(20*t))", "parameters": {"k": stiffness(rng), "s": .95}}),
    "rod_bend": rod("rod_bend"),
}
DAMPERS = {
    "none": None, "drag": {"energy": "drag", "name": "w", "parameters": {"damping": 2e-3}}, "spring_damper": {"energy": "spring_damper", "on": "edges", "name": "w", "parameters": {"damping": .05}},
    "formula": {"formula": "0.5*c*h*dot((x0 - y0)/h, (x0 - y0)/h)", "on": "points", "name": "w", "parameters": {"c": 2e-3}},
    "of the cells": "cells",
}
CELLS = {"box": {"energy": "rayleigh", "name": "w", "parameters": {"young": 1e4, "poisson": .3, "time": 5e-3}},
         "grid": {"energy": "membrane_rayleigh", "name": "w", "parameters": {"young": 1e4, "poisson": .3, "time": 5e-3, "thickness": 1e-3}}}
LOADS = {"none": None, "load": {"energy": "load", "name": "l", "on": "points", "parameters": {"force": [1e-3, 2e-3, 0]}}, "steered": {"energy": "load", "name": "l", "on": "points", "parameters": {"force": [0, 1e-3, 0]}, "controls": ["force"]},
         "pin": {"energy": "pin", "name": "l", "on": "points", "parameters": {"stiffness": .5, "target": [0, 0, .1]}}, "drawn by time": {"formula": "-f*sin(30*t)*x0.z", "on": "points", "name": "l", "parameters": {"f": 2e-3}}}
SCHEMES = ["implicit_euler", "bdf2", "trapezoid", "avf4", "symplectic_euler", "static"]
CONTACTS = ["none", "plane", "table", "tool", "arm", "all, own too"]
FRICTIONS = ["none", "lagged", "implicit"]
COUPLINGS = ["none", "hinge", "slide", "ball", "free", "world"]
HOLDS = ["free", "pin", "velocity", "path", "control", "hand"]
# Their axes do not go through the center of mass: a contact of a body that can only turn there is next to rigid.
JOINTS = {"hinge": "<joint name='j' pos='-.02 .01 .03' axis='.2 1 .1' damping='.02' armature='.001'/>", "slide": "<joint name='j' type='slide' axis='.3 .1 1' damping='.1'/>",
          "ball": "<joint name='j' type='ball' pos='-.02 .01 .03' damping='.01'/>", "free": "<freejoint name='j'/>", "world": ""}


def drawn(names, seed, k, salt):
    """Entry k of endless rounds through the list, each in an order of its own."""
    names = list(names)
    order = np.random.default_rng([seed, salt, k // len(names)]).permutation(len(names))
    return names[order[k % len(names)]]


def choose(seed, k):
    c = {name: drawn(names, seed, k, salt) for salt, (name, names) in enumerate(
        [("law", LAWS), ("damper", DAMPERS), ("load", LOADS), ("scheme", SCHEMES), ("contact", CONTACTS), ("friction", FRICTIONS), ("coupling", COUPLINGS), ("hold", HOLDS)])}
    # What does not go together gives way, by what docs/deformables.md says.
    coupled = c["coupling"] not in ("none", "world")
    if coupled: c["scheme"] = "implicit_euler"
    if c["scheme"] == "static" and c["hold"] == "free": c["hold"] = "pin"
    if c["scheme"] in ("trapezoid", "avf4", "symplectic_euler"): c["friction"] = "none"
    cloth = c["law"].startswith("membrane") or c["damper"] == "of the cells"
    if c["friction"] == "implicit" and (coupled or cloth): c["friction"] = "lagged"
    if c["contact"] == "arm" and c["coupling"] == "none": c["contact"] = "table"
    if c["contact"] == "none": c["friction"] = "none"
    return c, coupled


def build(seed, k):
    """The choice, the model, its start, and what acts: keywords of a rollout."""
    rng = np.random.default_rng([seed, k])
    c, coupled = choose(seed, k)
    explicit = c["scheme"] == "symplectic_euler"
    h = 1e-4 if explicit else float(rng.choice([.002, .005]))
    body = {"name": "a", "pos": [0, 0, .0255], "velocity": [0, 0, 0] if c["scheme"] == "static" else rng.uniform(-.3, .3, 3).tolist(), **LAWS[c["law"]](rng)}
    damper = CELLS.get(next(iter(body["mesh"]))) if DAMPERS[c["damper"]] == "cells" else DAMPERS[c["damper"]]
    body["energies"] += [e for e in (damper, LOADS[c["load"]]) if e]

    near = {"points": {"box": [[None, None, None], [.001, None, None]]}}
    rows = np.cumsum(rng.normal(size=(STEPS, 3)) * .02 * h, 0)
    pins = {"pin": near, "velocity": {**near, "velocity": [.1, -.05, .2]}, "path": {**near, "path": rows.tolist()}, "control": {**near, "path": "control", "axes": "xyz"}}
    if c["hold"] in pins: body["pins"] = [pins[c["hold"]] if c["scheme"] != "static" or c["hold"] != "velocity" else near]
    attach = [{**near, "body": "hand"}] if c["hold"] == "hand" else []
    if c["coupling"] != "none": attach.append({"points": {"box": [[.199, None, None], [None, None, None]]}, "body": "arm"})
    if attach: body["attach"] = attach

    top = {"scheme": c["scheme"], "tolerance": 1e-12, "bodies": [body]}
    if c["contact"] != "none":
        geoms = {"table": ["table"], "tool": ["tool"], "arm": ["table", "arm"]}.get(c["contact"], [])
        if c["contact"].startswith("all"): geoms = ["table", "tool"] + (["arm"] if coupled else [])
        top["contact"] = {"distance": .003, "stiffness": 200, "geoms": geoms}
        if c["friction"] != "none": top["contact"].update(friction=.4, velocity=.05, kind=c["friction"])
        if not geoms: top["contact"]["planes"] = [{"name": "floor", "normal": [.02, 0, 1], "point": [0, 0, .017]}]
        body["surface"] = {"radius": 5e-4, "self": c["contact"].endswith("too")}
    above = {"box": .0855, "grid": .0325, "chain": .036}[next(iter(body["mesh"]))] + .033  # of the tool: within the distance of contact, nearly
    arm = f"<body name='arm' pos='.235 .05 .05'>{JOINTS.get(c['coupling'], '')}<geom name='arm' type='capsule' size='.015 .02' mass='.1'/></body>"
    xml = f"""<mujoco><option timestep='{h}' gravity='.2 .1 -9.81'/><worldbody><geom name='table' type='box' size='.3 .3 .02' pos='.1 .05 -.004' euler='{rng.uniform(-2, 2)} {rng.uniform(-2, 2)} 0'/>
        <body name='hand' mocap='true' pos='-.05 .05 .1'><geom name='tool' type='sphere' size='.03' pos='{.12 + rng.uniform(-.01, .01)} {rng.uniform(-.01, .01)} {above - .1}'/></body>{arm}</worldbody></mujoco>"""
    with_contact = {"contact": {"method": str(rng.choice(["soft", "penalty"]))}} if coupled else {}
    model = pb.loads(xml, deformables=top, **with_contact)

    acts = {}
    if c["hold"] == "hand" or c["contact"] in ("tool", "all, own too"):
        t = np.arange(1, STEPS + 1)[:, None, None] * h
        acts["mocap_pos"] = np.array([-.05, .05, .1]) + np.concatenate([.2 * t, .1 * np.sin(30 * t), (.1 if c["hold"] == "hand" else -.1) * t], 2)
    controls = (3 if c["load"] == "steered" else 0, 3 if c["hold"] == "control" else 0)
    if any(controls): acts["ctrl"] = np.concatenate([np.tile([0, 1e-3, 0], (STEPS, 1))[:, :controls[0]], rows[:, :controls[1]]], 1)
    return c, model, acts, rng


class Checks:
    def __init__(self, model, start, acts, rng):
        self.model, self.start, self.acts, self.rng = model, start, acts, rng
        self.run = model.rollout(start, steps=STEPS, **acts)
        self.weights = rng.normal(size=(STEPS + 1, len(model.tangent_names)))
        self.names = [n for n in model.params if np.size(model.params[n]) and (n.startswith(("a_", "contact.", "point_")) or n in ("timestep", "gravity", "body_pos", "geom_pos", "dof_damping"))]
        self.gradient = self.run.vjp(state=self.weights, wrt=["state", *self.names, *acts])

    def loss(self, start=None, params=None, **acts):
        there = self.model.rollout(start or self.start, steps=STEPS, params=params or {}, **{**self.acts, **acts})
        return sum(self.weights[i] @ self.model.difference(self.run.state(i), there.state(i)) for i in range(STEPS + 1))

    def differences(self, f, scale):
        """Of fourth order, (length, value) rows at five lengths; those that cannot be computed are left out."""
        found = []
        for e in (1e-1, 1e-2, 1e-3, 1e-4, 1e-5):
            try: found.append((e, (8 * (f(e * scale) - f(-e * scale)) - (f(2 * e * scale) - f(-2 * e * scale))) / (12 * e * scale)))
            except pb.Error: continue
        return np.array(found).reshape(-1, 2)

    def all(self):
        """(what, reverse, forward, differences) of each."""
        for name in self.names:
            value = np.array(self.model.params[name], float)
            scale = np.abs(value).max() if np.abs(value).max() > 0 else 1e-2
            along = self.rng.normal(size=value.shape)
            if name.startswith(("contact.", "point_mass", "dof_")) or name.endswith("activation"): along *= value / scale  # what is 0 is at its bound
            if not np.any(along): continue
            yield self.one(name, np.sum(self.gradient.params[name] * along), lambda: self.run.jvp(params={name: along}).x,
                           self.differences(lambda e: self.loss(params={name: value + e * along}), .1 * (scale if not name.startswith("point_rest") else .01)))
        along = self.rng.normal(size=len(self.model.tangent_names))
        yield self.one("state", self.gradient.state @ along, lambda: self.run.jvp(state=along).x, self.differences(lambda e: self.loss(self.model.integrate(self.start, e * along)), 1e-3))
        for name, rows in self.acts.items():
            along = self.rng.normal(size=rows.shape)
            yield self.one(name, np.sum(getattr(self.gradient, name) * along), lambda: self.run.jvp(**{name: along}).x, self.differences(lambda e: self.loss(**{name: rows + e * along}), 1e-3))

    def one(self, what, reverse, forward, differences):
        return what, float(reverse), float(np.sum(self.weights * forward())), differences


def agree(derivative, differences, within):
    """Whether differences say so, as far as they say anything: where those at two lengths are no closer to each other than to the derivative they
    do not, nor beyond rounding, which the two shortest tell and which falls with the length."""
    if len(differences) < 2: return bool(len(differences)) and abs(differences[0, 1] - derivative) <= within
    length, value = differences.T
    noise, rounding = np.abs(np.diff(value)).min(), abs(value[-1] - value[-2]) * length[-1] / length
    return bool(np.any(np.abs(value - derivative) <= np.maximum(max(within, noise), 3 * rounding)))


def check_scene(seed, k, say):
    """How many derivatives were compared, how many of them are wrong, and whether the scene ran."""
    c, model, acts, rng = build(seed, k)
    label = f"scene {k}: " + ", ".join(f"{name} {value}" for name, value in c.items() if value != "none")
    try: checks = Checks(model, model.init(), acts, rng)
    except pb.StepError as error:
        say(f"{label}: {error}")
        return 0, 0, False

    results = list(checks.all())
    floor = 1e-7 * max(abs(r[1]) for r in results)  # of what is lost in the sum of the others
    wrong = 0
    for what, reverse, forward, differences in results:
        size = abs(reverse) + floor
        if abs(forward - reverse) <= EXACT * size and agree(reverse, differences, CLOSE * size): continue
        wrong += 1
        say(f"{label}: {what}: reverse {reverse:.9g}, forward {forward:.9g}, differences {differences[:, 1]}")
    return len(results), wrong, True


def main():
    parser = argparse.ArgumentParser(description="Derivatives of random scenes of deformables against differences.")
    parser.add_argument("--seed", type=int, default=int(os.environ.get("SEED", "0"), 36) % 2**32)
    parser.add_argument("--scenes", type=int, default=150)
    parser.add_argument("--first", type=int, default=0)
    asked = parser.parse_args()
    total = wrong = failed = 0
    for k in range(asked.first, asked.first + asked.scenes):
        compared, bad, ran = check_scene(asked.seed, k, lambda text: print(text, flush=True))
        total, wrong, failed = total + compared, wrong + bad, failed + (not ran)
    print(f"seed {asked.seed}: {asked.scenes} scenes, {total} derivatives, {wrong} wrong; {failed} scenes did not converge")
    return 1 if wrong or failed > asked.scenes / 20 or not total else 0


if __name__ == "__main__":
    sys.exit(main())
