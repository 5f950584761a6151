"""MuJoCo's XMLschema.rst as rows, and a small valid model for every row of it."""
import os
import re
import struct

import mujoco

DOC = os.path.join(os.path.dirname(mujoco.__file__), "doc", "XMLschema.rst")

# Elements that XMLreference describes outside of the schema.
META = {"worldbody": "", "frame": "name childclass pos quat axisangle xyaxes zaxis euler scale scaling massscale",
        "replicate": "count sep offset euler", "include": "file"}


def rows():
    """(element, attribute or None) of the schema; elements by path, as "option/flag" or "body/geom"."""
    out, stack = [], []
    for line in open(DOC, encoding="utf-8"):
        found = re.match(r"( *)\.\. dropdown:: :ref:`([^<`]+)<", line)
        if found:
            while stack and stack[-1][0] >= len(found[1]):
                stack.pop()
            stack.append((len(found[1]), found[2]))
            path = "/".join(name for _, name in stack)
            out.append((path.replace("(world)", "").removeprefix("mujoco/"), None))
        else:
            found = re.match(r" *:ref:`([^<`]+)<", line)
            if found:
                out.append((out[-1][0], found[1]))
    return out


TETRAHEDRON = 'vertex="0 0 0 1 0 0 0 1 0 0 0 1"'
SITE_PATH = '<site site="s1"/><site site="s2"/>'
# What an element needs to be valid; a dict is attributes, the text after it children.
NEEDS = {
    "body": ({}, '<freejoint/><geom size=".1"/>'), "include": ({"file": "part.xml"}, ""), "default": ({"class": "c9"}, ""),
    "default/dcmotor": ({"motorconst": "1 1", "resistance": "1"}, ""),
    "sensor/plugin/config": ({"key": "gamma", "value": "0"}, ""),
    "body/inertial": ({"pos": "0 0 0", "mass": "1", "diaginertia": "1 1 1"}, ""),
    "body/geom": ({"size": ".1 .2 .3"}, ""), "body/flexcomp": (
        {"name": "fl", "type": "grid", "count": "3 3 1", "spacing": ".1 .1 .1", "radius": ".01", "mass": "1"}, ""),
    "body/flexcomp/elasticity": ({"young": "10"}, ""), "body/flexcomp/pin": ({"id": "0"}, ""),
    "body/attach": ({"model": "child", "prefix": "p_"}, ""),
    "replicate": ({"count": "2"}, '<geom size=".1"/>'), "frame": ({}, '<geom size=".1"/>'),
    "asset/mesh": ({"name": "m9", "vertex": "0 0 0 1 0 0 0 1 0 0 0 1"}, ""),
    "asset/hfield": ({"name": "h9", "nrow": "2", "ncol": "2", "size": "1 1 1 1"}, ""),
    "asset/texture": ({"name": "t9", "builtin": "flat", "width": "8", "height": "8", "type": "2d"}, ""),
    "asset/material": ({"name": "m9"}, ""), "asset/material/layer": ({"texture": "tex", "role": "rgb"}, ""),
    "default/material": ({}, ""), "default/material/layer": ({"texture": "tex", "role": "rgb"}, ""),
    "asset/skin": ({"name": "sk", "vertex": "0 0 0 1 0 0 0 1 0", "face": "0 1 2"},
                   '<bone body="b1" bindpos="0 0 0" bindquat="1 0 0 0" vertid="0 1 2" vertweight="1 1 1"/>'),
    "asset/skin/bone": ({"body": "b1", "bindpos": "0 0 0", "bindquat": "1 0 0 0", "vertid": "0 1 2", "vertweight": "1 1 1"}, ""),
    "deformable/skin": ({"name": "sk", "vertex": "0 0 0 1 0 0 0 1 0", "face": "0 1 2"},
                        '<bone body="b1" bindpos="0 0 0" bindquat="1 0 0 0" vertid="0 1 2" vertweight="1 1 1"/>'),
    "deformable/skin/bone": ({"body": "b1", "bindpos": "0 0 0", "bindquat": "1 0 0 0", "vertid": "0 1 2", "vertweight": "1 1 1"}, ""),
    "asset/model": ({"name": "child2", "file": "child.xml"}, ""),
    "contact/pair": ({"geom1": "g1", "geom2": "g2"}, ""), "contact/exclude": ({"body1": "b1", "body2": "b2"}, ""),
    "equality/connect": ({"body1": "b1", "anchor": "0 0 0"}, ""), "equality/weld": ({"body1": "b1"}, ""),
    "equality/joint": ({"joint1": "hinge"}, ""), "equality/tendon": ({"tendon1": "fixed"}, ""),
    "equality/flex": ({"flex": "flex"}, ""), "equality/flexstrain": ({"flex": "soft", "cell": "0 0 0"}, ""),
    "tendon/spatial": ({}, SITE_PATH), "tendon/spatial/site": ({"site": "s3"}, ""), "tendon/spatial/geom": ({"geom": "g1"}, ""),
    "tendon/spatial/pulley": ({"divisor": "2"}, ""), "tendon/fixed": ({}, '<joint joint="hinge" coef="1"/>'),
    "tendon/fixed/joint": ({"joint": "slide", "coef": "1"}, ""),
    "actuator/orientation": ({"joint": "ball"}, ""), "actuator/adhesion": ({"body": "b1", "ctrlrange": "0 1"}, ""),
    "actuator/damper": ({"joint": "hinge", "ctrlrange": "0 1"}, ""),
    "actuator/muscle": ({"joint": "hinge", "lengthrange": "0 1"}, ""),
    "actuator/dcmotor": ({"joint": "hinge", "motorconst": "1 1", "resistance": "1"}, ""),
    "actuator/plugin": ({"joint": "hinge", "plugin": "mujoco.pid", "instance": "inst"}, ""),
    "actuator/plugin/config": ({"key": "kp", "value": "1"}, ""),
    "sensor/tactile": ({"geom": "g1", "mesh": "mesh"}, ""), "sensor/user": ({"dim": "1"}, ""),
    "sensor/plugin": ({"plugin": "mujoco.sensor.touch_grid", "objtype": "site", "objname": "s1"},
                      '<config key="size" value="2 2"/><config key="fov" value="10 10"/>'),
    "sensor/camprojection": ({"site": "s1", "camera": "cam"}, ""), "sensor/rangefinder": ({"site": "s1"}, ""),
    "sensor/insidesite": ({"site": "s1", "objtype": "body", "objname": "b1"}, ""),
    "sensor/contact": ({"geom1": "g1"}, ""), "custom/numeric": ({"name": "n", "data": "1 2"}, ""),
    "custom/text": ({"name": "t", "data": "text"}, ""),
    "custom/tuple": ({"name": "tu"}, '<element objtype="body" objname="b1"/>'),
    "custom/tuple/element": ({"objtype": "body", "objname": "b1"}, ""),
    "extension/plugin": ({"plugin": "mujoco.sdf.torus"}, ""), "extension/plugin/instance": ({"name": "pl"}, ""),
    "extension/plugin/instance/config": ({"key": "radius1", "value": ".3"}, ""),
    "deformable/flex": ({"name": "f9", "dim": "1", "body": "b1 b2", "vertex": "0 0 0 0 0 0", "element": "0 1"}, ""),
}
for _kind in ("general", "motor", "position", "velocity", "intvelocity", "cylinder", "pid"):
    NEEDS[f"actuator/{_kind}"] = ({"joint": "hinge"}, "")
for _kind in ("touch", "accelerometer", "velocimeter", "gyro", "force", "torque", "magnetometer"):
    NEEDS[f"sensor/{_kind}"] = ({"site": "s1"}, "")
for _kind in ("jointpos", "jointvel", "jointactuatorfrc", "jointlimitpos", "jointlimitvel", "jointlimitfrc"):
    NEEDS[f"sensor/{_kind}"] = ({"joint": "hinge"}, "")
for _kind in ("tendonpos", "tendonvel", "tendonactuatorfrc", "tendonlimitpos", "tendonlimitvel", "tendonlimitfrc"):
    NEEDS[f"sensor/{_kind}"] = ({"tendon": "fixed"}, "")
for _kind in ("actuatorpos", "actuatorvel", "actuatorfrc"):
    NEEDS[f"sensor/{_kind}"] = ({"actuator": "motor"}, "")
for _kind in ("ballquat", "ballangvel"):
    NEEDS[f"sensor/{_kind}"] = ({"joint": "ball"}, "")
for _kind in "framepos framequat framexaxis frameyaxis framezaxis framelinvel frameangvel framelinacc frameangacc".split():
    NEEDS[f"sensor/{_kind}"] = ({"objtype": "body", "objname": "b1"}, "")
for _kind in ("subtreecom", "subtreelinvel", "subtreeangmom"):
    NEEDS[f"sensor/{_kind}"] = ({"body": "b1"}, "")
for _kind in ("distance", "normal", "fromto"):
    NEEDS[f"sensor/{_kind}"] = ({"geom1": "g1", "geom2": "g2"}, "")

# A value that is valid and is not the default; by element and attribute, else by attribute.
VALUES = {
    "name": "name9", "class": "other", "childclass": "other", "pos": ".1 .2 .3", "quat": "1 2 3 4", "axisangle": "1 2 3 40",
    "xyaxes": "1 0 1 0 1 0",
    "zaxis": "1 2 3", "euler": "10 20 30", "user": "1 2 3", "group": "2", "rgba": "1 0 0 1", "solref": ".03 .8",
    "solimp": ".8 .9 .01 .4 3",
    "solreflimit": ".03", "solimplimit": ".8 .9", "solreffriction": ".03 .8", "solimpfriction": ".8 .9 .01", "margin": ".01",
    "gap": ".005",
    "friction": ".7", "size": ".2 .3 .4", "type": "box", "fromto": "0 0 0 .1 .2 .3", "mass": "3", "density": "500", "condim": "4",
    "contype": "2", "conaffinity": "3", "priority": "2", "solmix": "2", "material": "mat", "mesh": "mesh", "hfield": "hfield",
    "fitscale": "2",
    "fluidshape": "ellipsoid", "fluidcoef": "1 2 3 4 5", "shellinertia": "true", "castshadow": "false",
    "surfacevel": "1 0 0 0 0 0", "adhesion": "1",
    "gear": "2 3 4", "ctrlrange": "-2 3", "forcerange": "-2 3", "actrange": "-2 3", "ctrllimited": "false",
    "forcelimited": "false",
    "actlimited": "false", "lengthrange": "0 2", "damping": "1 2 3", "armature": ".3", "cranklength": ".5", "joint": "hinge",
    "jointinparent": "ball",
    "tendon": "fixed", "slidersite": "s1", "cranksite": "s2", "site": "s1", "refsite": "s2", "body": "b1", "nsample": "4",
    "interp": "linear",
    "delay": ".01", "interval": ".01", "cutoff": "2", "noise": ".1", "kp": "3", "kv": "2", "dampratio": ".5", "timeconst": ".2",
    "inheritrange": "1",
    "input": "pos", "velrange": "-1 1", "ffrange": "-1 1", "posrange": "-1 1", "dyntype": "filter", "gaintype": "affine",
    "biastype": "affine",
    "dynprm": ".3", "gainprm": "2 3", "biasprm": "1 2 3", "actearly": "true", "actdim": "1", "area": "2", "diameter": "2",
    "bias": "1 2 3",
    "ki": "1", "imax": "1", "slewmax": "1", "gain": "2", "range": "-.5 .5", "limited": "true", "actuatorfrclimited": "true",
    "actuatorfrcrange": "-1 1",
    "stiffness": "1 2 3", "springlength": ".1 .2", "springyield": ".1", "width": ".01", "frictionloss": ".1", "ref": ".1",
    "springref": ".2",
    "springdamper": ".1 1", "axis": "1 2 3", "actuatorgravcomp": "true", "align": "true", "active": "false",
    "anchor": ".1 .2 .3", "relpose": "1 2 3 1 0 0 0",
    "torquescale": "2", "polycoef": "1 2 3", "body1": "b1", "body2": "b2", "site1": "s1", "site2": "s2", "joint1": "hinge",
    "joint2": "slide",
    "tendon1": "fixed", "tendon2": "spatial", "geom1": "g1", "geom2": "g2", "coef": "2", "divisor": "3", "geom": "g1",
    "sidesite": "s1",
    "objtype": "site", "objname": "s1", "reftype": "body", "refname": "b2", "actuator": "motor", "camera": "cam", "time": "1",
    "qpos": ".1", "qvel": ".1",
    "act": ".1", "ctrl": ".1", "data": "1 2", "prm": "2", "gravcomp": "1", "mocap": "true", "sleep": "never", "simple": "false",
    "fuse": "false",
    "diaginertia": "1 2 2.5", "fullinertia": "2 2.5 3 .1 .2 .3", "scale": "2", "scaling": "geometry", "massscale": "2",
    "count": "3", "sep": "-",
    "offset": "1 0 0", "mode": "track", "target": "b1", "dir": "1 0 0", "attenuation": "1 1 1", "exponent": "2",
    "ambient": ".1 .1 .1",
    "diffuse": ".1 .1 .1", "specular": ".1 .1 .1", "bulbradius": ".1", "intensity": "1", "softness": ".1",
    "directional": "true", "texture": "tex",
    "projection": "orthographic", "fovy": "30", "ipd": ".1", "resolution": "10 20", "output": "rgb", "focal": ".1 .1",
    "focalpixel": "3 3",
    "principal": ".1 .1", "principalpixel": "1 1", "sensorsize": ".1 .1", "content_type": "image/png",
    "texcoord": "0 0 1 0 0 1 1 1",
    "normal": "0 0 1 0 0 1 0 0 1 0 0 1", "face": "0 1 2 0 1 3 0 2 3 1 2 3", "vertex": "0 0 0 1 0 0 0 1 0 0 0 1",
    "refpos": "1 2 3", "refquat": "1 1 0 0",
    "smoothnormal": "true", "maxhullvert": "8", "inertia": "exact", "params": "2", "nrow": "3", "ncol": "3",
    "elevation": "1 2 3 4",
    "inflate": ".1", "bindpos": "1 0 0", "bindquat": "1 1 0 0", "vertid": "0 1 2", "vertweight": "1 1 1", "gridsize": "1 2",
    "gridlayout": ".U",
    "rgb1": "1 0 0", "rgb2": "1 0 0", "mark": "edge", "markrgb": "1 0 0", "random": ".1", "height": "8", "hflip": "true",
    "vflip": "true",
    "nchannel": "3", "embed": "true", "colorspace": "linear", "builtin": "checker", "texrepeat": "2 2", "texuniform": "true",
    "emission": ".1",
    "shininess": ".1", "reflectance": ".1", "metallic": ".1", "roughness": ".1", "role": "rgb", "enclosed": "true", "num": "2",
    "reduce": "mindist",
    "subtree1": "b1", "subtree2": "b2", "datatype": "positive", "needstage": "pos", "dim": "2", "tausmooth": ".1", "force": "2",
    "lmin": ".4", "lmax": "1.5",
    "vmax": "2", "fpmax": "2", "fvmax": "1.3", "motorconst": "1 1", "resistance": "2", "nominal": "12 1 100",
    "saturation": "1 1", "inductance": ".1",
    "cogging": ".1 4 .2", "controller": "1 1 1", "thermal": "1 2 3 20 .1 20", "lugre": "10 1 1 2 .1", "plugin": "mujoco.pid",
    "instance": "inst",
    "key": "kp", "value": "1", "plastic": "", "mpos": "", "mquat": "", "model": "child", "prefix": "p_", "frame": "f9",
    "time_": "1",
    # settings
    "timestep": ".001", "impratio": "2", "tolerance": "1e-6", "gravity": "0 0 -1", "wind": "1 0 0", "magnetic": "1 0 0",
    "viscosity": ".1",
    "o_margin": ".1", "o_solref": ".03 .8", "o_solimp": ".8 .9", "o_friction": ".5", "integrator": "RK4", "cone": "elliptic",
    "jacobian": "dense",
    "solver": "CG", "iterations": "7", "angle": "radian", "eulerseq": "zyx", "coordinate": "local", "inertiagrouprange": "0 4",
    "inertiafromgeom": "true",
    "meshdir": "d", "texturedir": "d", "assetdir": "d", "conflict": "merge", "passthrough": "textures", "boundmass": ".1",
    "boundinertia": ".1",
    "settotalmass": "3", "autolimits": "true", "memory": "1M", "center": "1 2 3", "orthographic": "true", "realtime": ".5",
    "znear": ".02",
    "actuatorgroupdisable": "3", "useexisting": "false", "uselimit": "true",
    # deformables
    "dof": "full", "cellcount": "1 1 1", "spacing": ".2 .2 .2", "radius": ".02", "rigid": "true", "inertiabox": ".1",
    "origin": "0 0 1", "flatskin": "true",
    "point": "0 0 0 1 0 0 0 1 0", "element": "0 1 2", "young": "20", "poisson": ".2", "shear": ".1", "thickness": ".02",
    "yield": ".1", "elastic2d": "bend",
    "section": "circle", "sectionsize": ".01 .01", "selfcollide": "none", "activelayers": "2", "passive": "true", "id": "1",
    "grid": "0 1", "gridrange": "0 0 1 1",
    "equality": "true", "elemtexcoord": "0 1", "node": "b1", "nodecoord": "0 0 0", "flex": "flex", "cell": "0 0 0",
}
VALUES_AT = {
    ("body/geom", "mesh"): "mesh", ("default/mesh", "scale"): "1 2 3", ("asset/mesh", "scale"): "1 2 3",
    ("body/site", "type"): "box", ("default/site", "type"): "box",
    ("body/joint", "type"): "slide", ("default/joint", "type"): "slide", ("body/light", "type"): "point",
    ("default/light", "type"): "point",
    ("body/light", "range"): "3", ("default/light", "range"): "3", ("body/light", "cutoff"): "30",
    ("default/light", "cutoff"): "30",
    ("asset/texture", "type"): "2d", ("default/texture", "type"): "2d", ("asset/texture", "width"): "16",
    ("default/texture", "width"): "16",
    ("custom/text", "data"): "words", ("sensor/contact", "data"): "found force", ("sensor/rangefinder", "data"): "dist",
    ("custom/numeric", "size"): "3",
    ("custom/tuple/element", "objname"): "b2", ("custom/tuple/element", "objtype"): "body", ("sensor/user", "objname"): "b1",
    ("asset/mesh", "file"): "cube.obj", ("mujoco", "model"): "a model",
    ("sensor/tactile", "mesh"): "mesh", ("asset/hfield", "size"): "2 2 2 2", ("asset/hfield", "file"): "h.png",
    ("actuator/muscle", "range"): ".6 1.2", ("default/muscle", "range"): ".6 1.2",
    ("actuator/muscle", "timeconst"): ".1 .2", ("default/muscle", "timeconst"): ".1 .2", ("actuator/muscle", "scale"): "100",
    ("default/muscle", "scale"): "100",
    ("actuator/damper", "ctrlrange"): "0 2", ("default/damper", "ctrlrange"): "0 2", ("actuator/adhesion", "ctrlrange"): "0 2",
    ("default/adhesion", "ctrlrange"): "0 2",
    ("actuator/orientation", "input"): "quat", ("default/orientation", "input"): "quat",
    ("actuator/orientation", "joint"): "ball",
    ("default/material/layer", "texture"): "tex", ("tendon/spatial", "range"): "0 3", ("tendon/fixed", "range"): "0 1",
    ("default/tendon", "range"): "0 3",
    ("sensor/ballquat", "joint"): "ball", ("sensor/ballangvel", "joint"): "ball", ("size", "nuser_body"): "3",
    ("keyframe/key", "ctrl"): "1", ("keyframe/key", "act"): "1",
    ("visual/global", "cameraid"): "-1", ("body/geom", "type"): "box", ("asset/skin", "vertex"): "0 0 0 1 0 0 0 1 0",
    ("asset/skin", "face"): "0 1 2",
    ("asset/skin", "texcoord"): "0 0 1 0 0 1", ("extension/plugin/instance", "name"): "pl2",
    ("extension/plugin", "plugin"): "mujoco.sdf.torus", ("extension/plugin/instance/config", "key"): "radius1",
    ("body/flexcomp/elasticity", "elastic2d"): "none", ("deformable/flex/elasticity", "elastic2d"): "none",
    ("tendon/spatial/site", "site"): "s3",
    ("extension/plugin/instance/config", "value"): ".3", ("compiler/lengthrange", "mode"): "none",
    ("body/attach", "body"): "cb", ("body/attach", "frame"): "cf", ("asset/model", "file"): "child.xml",
    ("asset/model", "content_type"): "text/xml", ("frame", "name"): "frame9",
    ("sensor/plugin", "plugin"): "mujoco.sensor.touch_grid", ("sensor/plugin", "objtype"): "site",
    ("asset/material/layer", "texture"): "tex",
    ("visual/headlight", "active"): "0", ("include", "file"): "part.xml", ("body/inertial", "mass"): "2",
    ("asset/mesh", "material"): "mat",
    ("asset/mesh", "builtin"): "sphere", ("asset/mesh", "params"): "2", ("asset/texture", "builtin"): "checker",
    ("asset/mesh", "content_type"): "model/obj",
    ("visual/global", "ellipsoidinertia"): "true", ("body/flexcomp", "type"): "grid", ("body/flexcomp", "count"): "4 4 1",
    ("body/flexcomp", "scale"): "2 2 2",
    ("body/flexcomp", "group"): "2", ("body/flexcomp", "dim"): "2", ("body/flexcomp/edge", "stiffness"): "0",
    ("body/flexcomp/edge", "damping"): "1",
    ("body/flexcomp/elasticity", "damping"): ".1", ("body/flexcomp/pin", "range"): "0 1",
    ("deformable/flex", "dof"): "trilinear", ("deformable/flex", "dim"): "1",
    ("deformable/flex/edge", "stiffness"): "1", ("deformable/flex/edge", "damping"): "1",
    ("deformable/flex/elasticity", "damping"): ".1", ("deformable/flex", "body"): "b2 b1",
    ("deformable/flex", "vertex"): "0 0 0 .1 0 0", ("deformable/flex", "element"): "1 0",
    ("deformable/flex", "texcoord"): "0 0 1 1", ("default/motor", "ctrlrange"): "-1 1",
    ("sensor/jointpos", "cutoff"): "2", ("actuator/pid", "input"): "pos vel", ("default/pid", "input"): "pos vel",
    ("actuator/dcmotor", "input"): "voltage",
    ("default/dcmotor", "input"): "voltage", ("sensor/distance", "cutoff"): "2", ("frame", "scale"): "2",
    ("sensor/insidesite", "objtype"): "body", ("sensor/insidesite", "objname"): "b2",
    ("sensor/user", "objtype"): "body", ("actuator/plugin", "dyntype"): "none", ("actuator/plugin", "actdim"): "0",
    ("tendon/fixed/joint", "joint"): "slide", ("default", "class"): "c9",
    ("asset/material", "specular"): ".1", ("default/material", "specular"): ".1",
    ("body/flexcomp", "texcoord"): " ".join(["0 1"] * 9),
    ("body/flexcomp/contact", "passive"): "false", ("deformable/flex/contact", "passive"): "false",
    ("deformable/flex/elasticity", "yield"): "0",
    ("equality/flexstrain", "flex"): "soft", ("actuator/orientation", "forcerange"): "0 2",
    ("default/orientation", "forcerange"): "0 2",
    ("deformable/skin", "vertex"): "0 0 0 1 0 0 0 1 0", ("deformable/skin", "face"): "0 1 2",
    ("deformable/skin", "texcoord"): "0 0 1 0 0 1",
    ("sensor/plugin/config", "key"): "gamma", ("sensor/plugin/config", "value"): "0", ("asset/hfield", "file"): "field.bin",
    ("asset/skin", "file"): "skin.skn",
    ("deformable/skin", "file"): "skin.skn", ("keyframe/key", "mpos"): "1 2 3", ("keyframe/key", "mquat"): "1 1 0 0",
    ("keyframe/key", "plastic"): "1",
}
for _flag in "override energy fwdinv invdiscrete sleep diagexact ipc speculative".split():
    VALUES_AT["option/flag", _flag] = "enable"
for _sensor in "ballquat framequat framexaxis frameyaxis framezaxis".split():
    VALUES_AT[f"sensor/{_sensor}", "cutoff"] = "0"  # MuJoCo refuses others
for _switch in "orthographic ellipsoidinertia bvactive".split():
    VALUES_AT["visual/global", _switch] = "true"
VALUES_AT["visual/global", "realtime"] = ".5"
# Attributes that only stand with others (None: without one that NEEDS gives).
WITH = {
    "site1": {"body1": None, "anchor": None, "site2": "s2"}, "site2": {"body1": None, "anchor": None, "site1": "s1"},
    "jointinparent": {"joint": None}, "tendon": {"joint": None}, "site": {"joint": None},
    "slidersite": {"joint": None, "cranksite": "s2", "cranklength": ".5"},
    "cranksite": {"joint": None, "slidersite": "s1", "cranklength": ".5"},
    "cranklength": {"joint": None, "cranksite": "s2", "slidersite": "s1"},
    "refsite": {"joint": None, "site": "s1"}, "body": {"joint": None}, "fullinertia": {"diaginertia": None},
    "limited": {"range": "0 1"},
    "actuatorfrclimited": {"actuatorfrcrange": "-1 1"}, "ctrllimited": {"ctrlrange": "0 1"},
    "forcelimited": {"forcerange": "-1 1"},
    "actlimited": {"dyntype": "integrator", "actrange": "0 1"}, "actrange": {"dyntype": "integrator"},
    "reftype": {"refname": "b2"}, "refname": {"reftype": "body"},
    "mode": {"target": "b1"}, "target": {"mode": "targetbody"}, "delay": {"nsample": "4"}, "interval": {"nsample": "4"}, 
    "actearly": {"dyntype": "filter"}, "fromto": {"type": "capsule", "size": ".1"},
    "hfield": {"type": "hfield", "size": None, "mass": "0", "contype": "0", "conaffinity": "0"},
    "dynprm": {"dyntype": "filter"}, "shellinertia": {"type": "sphere"}, "biasprm": {"biastype": "affine"},
    "focal": {"resolution": "10 10", "sensorsize": ".1 .1"},
    "focalpixel": {"resolution": "10 10", "sensorsize": ".1 .1"},
    "principal": {"resolution": "10 10", "sensorsize": ".1 .1", "focal": ".1 .1"},
    "principalpixel": {"resolution": "10 10", "sensorsize": ".1 .1", "focal": ".1 .1"},
    "sensorsize": {"resolution": "10 10", "focal": ".1 .1"},
    "plugin": {}, "imax": {"ki": "1"}, "mark": {"builtin": "flat"}, "objtype": {"objname": "s1"}, "objname": {"objtype": "site"},
    "elastic2d": {"thickness": ".02"}, "elemtexcoord": {"texcoord": "0 0 1 1"},
    "mesh": {"type": "mesh", "size": None, "mass": "0", "contype": "0", "conaffinity": "0"},
}
WITH_AT = {
    ("actuator/orientation", "site"): {"joint": None, "refsite": "s2"},
    ("actuator/orientation", "refsite"): {"joint": None, "site": "s1"},
    ("actuator/intvelocity", "actrange"): {}, ("actuator/intvelocity", "actlimited"): {"actrange": "0 1"},
    ("default/intvelocity", "actrange"): {},
    ("default/intvelocity", "actlimited"): {"actrange": "0 1"}, ("actuator/general", "actdim"): {"dyntype": "filter"},
    ("default/general", "actdim"): {"dyntype": "filter"},
    ("actuator/general", "body"): {"joint": None},
    ("actuator/general", "inheritrange"): {"biastype": "affine", "biasprm": "0 -1"},
    ("actuator/damper", "ctrllimited"): {}, ("sensor/rangefinder", "camera"): {"site": None}, ("sensor/rangefinder", "site"): {},
    ("sensor/distance", "body1"): {"geom1": None}, ("sensor/distance", "body2"): {"geom2": None},
    ("sensor/normal", "body1"): {"geom1": None},
    ("sensor/normal", "body2"): {"geom2": None}, ("sensor/fromto", "body1"): {"geom1": None},
    ("sensor/fromto", "body2"): {"geom2": None},
    ("sensor/contact", "body1"): {"geom1": None}, ("sensor/contact", "subtree1"): {"geom1": None},
    ("sensor/contact", "site"): {"geom1": None},
    ("equality/connect", "body2"): {}, ("actuator/muscle", "tendon"): {"joint": None}, ("body/light", "type"): {},
    ("sensor/tactile", "mesh"): {}, ("body", "mocap"): {"no bones": None}, ("sensor/insidesite", "objtype"): {},
    ("sensor/insidesite", "objname"): {}, ("sensor/user", "objtype"): {"objname": "b1"},
    ("sensor/user", "objname"): {"objtype": "body"}, ("sensor/plugin", "objname"): {}, ("sensor/plugin", "objtype"): {},
    ("actuator/dcmotor", "controller"): {"input": "pos"},
    ("body/flexcomp", "mesh"): {"type": "mesh", "count": None, "spacing": None},
    ("default/texture", "gridlayout"): {"gridsize": "1 2"},
    ("default/texture", "gridsize"): {"gridlayout": "RL"},
    ("asset/skin", "file"): {"vertex": None, "face": None, "no bones": None},
    ("deformable/skin", "file"): {"vertex": None, "face": None, "no bones": None},
    ("body/light", "mode"): {}, ("default/light", "mode"): {}, ("default/camera", "mode"): {},
    ("asset/mesh", "file"): {"vertex": None},
    ("asset/mesh", "builtin"): {"vertex": None, "params": "2"}, ("asset/mesh", "params"): {"vertex": None, "builtin": "sphere"},
    ("asset/hfield", "file"): {"nrow": None, "ncol": None},
    ("asset/hfield", "nrow"): {}, ("asset/texture", "gridsize"): {"gridlayout": "RL"},
    ("asset/texture", "gridlayout"): {"gridsize": "1 2"},
    ("asset/mesh", "texcoord"): {"face": "0 1 2 0 1 3 0 2 3 1 2 3"},
    ("asset/mesh", "normal"): {"face": "0 1 2 0 1 3 0 2 3 1 2 3"},
    ("default/geom", "mesh"): {}, ("default/geom", "hfield"): {}, ("default/geom", "fromto"): {"type": "capsule", "size": ".1"},
    ("body/site", "mesh"): {"type": "mesh"}, ("default/site", "mesh"): {},
    ("body/site", "fromto"): {"type": "capsule", "size": ".1"}, ("frame", "scaling"): {}, ("keyframe/key", "act"): {},
    ("sensor/plugin", "refname"): {"reftype": "body"}, ("actuator/plugin", "actlimited"): {"actrange": "0 1"},
    ("actuator/plugin", "actrange"): {}, ("actuator/plugin", "actearly"): {}, ("actuator/plugin", "dynprm"): {},
    ("actuator/dcmotor", "ctrllimited"): {"ctrlrange": "0 1"},
    ("asset/skin/bone", "body"): {}, ("sensor/subtreecom", "body"): {}, ("sensor/subtreelinvel", "body"): {},
    ("sensor/subtreeangmom", "body"): {},
    ("body/joint", "limited"): {"range": "0 1"}, ("actuator/adhesion", "body"): {}, ("sensor/insidesite", "site"): {},
    ("actuator/pid", "slewmax"): {}, ("actuator/pid", "velrange"): {"input": "pos vel"},
    ("actuator/pid", "ffrange"): {"input": "pos ff"}, ("default/pid", "velrange"): {"input": "pos vel"},
    ("default/pid", "ffrange"): {"input": "pos ff"},
    ("actuator/general", "velrange"): {"gaintype": "pid", "biastype": "affine", "dyntype": "pid", "input": "pos vel"},
    ("actuator/general", "ffrange"): {"gaintype": "pid", "biastype": "affine", "dyntype": "pid", "input": "pos ff"},
    ("default/general", "velrange"): {"gaintype": "pid", "biastype": "affine", "dyntype": "pid", "input": "pos vel"},
    ("default/general", "ffrange"): {"gaintype": "pid", "biastype": "affine", "dyntype": "pid", "input": "pos ff"},
    ("deformable/flex", "body"): {}, ("actuator/orientation", "forcelimited"): {"forcerange": "0 1"},
    ("actuator/orientation", "forcerange"): {},
}
# No valid model of these can be made of what the wheel holds: nothing but our own answer is tried.
ALONE = {f"{owner}/plugin{config}" for owner in ("asset/mesh", "body", "body/geom", "body/flexcomp") for config in ("", "/config")}
ALONE_AT = {("actuator/plugin", "actrange"), ("deformable/flex", "node"), ("deformable/flex", "dof")}

BASE = """<mujoco{root}>
{top}
<default><default class="other"/>{default}</default>
<asset><texture name="tex" type="2d" builtin="flat" width="8" height="8"/><material name="mat"/>{asset}</asset>
<worldbody>
  <body name="b1"><joint name="hinge" range="-60 60"/><geom name="g1" size=".1"/><site name="s1"/><camera name="cam"/></body>
  <body name="b0" pos="1 0 0"><joint name="slide" type="slide" axis="1 0 0"/><geom size=".1" pos="0 .3 0"/><site name="s3"/></body>
  <body name="b2" pos="2 0 0"><joint name="ball" type="ball"/><geom name="g2" type="box" size=".1 .1 .1"/><site name="s2" pos=".1 0 0"/></body>
  {world}
</worldbody>
<tendon><fixed name="fixed" range="0 1"><joint joint="hinge" coef="1"/></fixed>
  <spatial name="spatial"><site site="s1"/><site site="s2"/></spatial></tendon>
<actuator><general name="motor" joint="hinge" dyntype="integrator"/></actuator>
{bottom}
</mujoco>"""
PRELUDE = {  # what must stand in the model beside the element, by the start of its path or by the value that refers to it
    "body/attach": ("asset", '<model name="child" file="child.xml"/>'),
    "actuator/plugin/config": ("top", '<extension><plugin plugin="mujoco.pid"/></extension>'),
    "option/flag ipc": ("bottom", '<option integrator="discrete"/>'),
    "actuator/plugin ": ("top", '<extension><plugin plugin="mujoco.pid"><instance name="inst"><config key="kp" value="1"/>'
                                                 '</instance></plugin></extension>'),
    "sensor/plugin": ("top", '<extension><plugin plugin="mujoco.sensor.touch_grid"><instance name="inst"><config key="size" value="2 2"/>'
                             '<config key="fov" value="10 10"/></instance></plugin></extension>'),
    "keyframe/key mpos": ("world", '<body mocap="true"/>'), "keyframe/key mquat": ("world", '<body mocap="true"/>'),
    "keyframe/key plastic": ("world", '<body><joint springyield=".1" stiffness="1"/><geom size=".1"/></body>'),
    "equality/flexstrain": ("world", '<flexcomp name="soft" type="grid" count="3 3 3" spacing=".1 .1 .1" radius=".01" dof="trilinear" dim="3" mass="1"/>'),
    "equality/flex": ("world", '<flexcomp name="flex" type="grid" count="3 3 1" spacing=".1 .1 .1" radius=".01" mass="1"/>'),
}
FILES = {"child.xml": '<mujoco><worldbody><body name="cb"><geom size=".1"/></body><frame name="cf"><geom size=".1"/></frame></worldbody></mujoco>',
         "part.xml": '<mujocoinclude><geom size=".1" pos="0 0 3"/></mujocoinclude>',
         "cube.obj": "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"}
MESH = '<mesh name="mesh" vertex="0 0 0 1 0 0 0 1 0 0 0 1"/>'
HFIELD = '<hfield name="hfield" nrow="2" ncol="2" size="1 1 1 1"/>'


def write_files(folder):
    for name, text in FILES.items():
        (folder / name).write_text(text)
    (folder / "field.bin").write_bytes(struct.pack("2i4f", 2, 2, 0, 1, 0, 1))
    bone = struct.pack("40s7fi3i3f", b"b1", 0, 0, 0, 1, 0, 0, 0, 3, 0, 1, 2, 1, 1, 1)
    (folder / "skin.skn").write_bytes(struct.pack("4i9f3i", 3, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1, 2) + bone)


def text_of(attributes):
    return "".join(f' {k}="{v}"' for k, v in attributes.items() if v is not None)


def model(element, attribute=None, value=None, bare=False):
    """A model that has the element, with the attribute at a value that is not its default. bare: with nothing beside it."""
    needed, children = NEEDS.get(element, ({}, ""))
    attributes = dict(needed)
    if attribute:
        attributes.update({} if bare else WITH_AT.get((element, attribute), {} if is_plain(element) else WITH.get(attribute, {})))
        if element.startswith("default/"):  # no targets there
            for target in ("joint", "cranksite", "slidersite", "site", "objname"):
                attributes.pop(target, None)
        children = "" if "no bones" in attributes else children
        attributes.pop("no bones", None)
        attributes[attribute] = value if value is not None else value_of(element, attribute)
    slots = dict(root="", top="", default="", asset="", world="", bottom="")
    for start, (slot, text) in PRELUDE.items():
        strain = start == "equality/flex" and element == "equality/flexstrain"
        if not bare and f"{element} {attribute}".startswith(start) and not strain:
            slots[slot] += text
    if element.endswith("/general") and value == "dcmotor":  # a motor is one in all its laws
        attributes.update(gaintype=value, biastype=value, dyntype=value, actearly="true", gainprm="1 1", dynprm="0", actdim="0")
    if element == "default/general" and attribute == "input" and value == "voltage":
        attributes.update(gaintype="dcmotor", biastype="dcmotor", dyntype="dcmotor")
    if element == "mujoco":
        return BASE.format(**{**slots, "root": text_of(attributes)})
    here = f"<{element.split('/')[-1]}{text_of(attributes)}>{children}</{element.split('/')[-1]}>"
    parts = element.split("/")
    for k in range(len(parts) - 1, 0, -1):  # parents, outwards; what they need but what is in `here` already
        parent = "/".join(parts[:k])
        more, inner = NEEDS.get(parent, ({}, ""))
        if parent in ("default", "body"):
            break
        if parent == "tendon/spatial":
            here += inner  # sites on both sides
        if parts[-1] == "config":
            more = {name: v for name, v in more.items() if name != "instance"}
        here = f"<{parts[k - 1]}{text_of(more)}>{inner if parent != 'extension/plugin' else ''}{here}</{parts[k - 1]}>"
    place(slots, element, here)
    whole = here + slots["world"]
    if '"mesh"' in whole:
        slots["asset"] += MESH
    if '"hfield"' in whole:
        slots["asset"] += HFIELD
    return BASE.format(**slots)


def place(slots, element, here):
    first = element.split("/")[0]
    if first == "body" and "/" in element:
        inertial = element == "body/inertial"
        ball = "" if inertial else '<geom size=".1"/>'
        slots["world"] += f'<body name="b9" pos="0 0 5">{ball}{here}</body>'
    elif first in ("body", "frame", "replicate", "include"):
        slots["world"] += here
    elif first == "default":
        slots["default"] += here if element == "default" else f'<default class="c9">{here}</default>'
    elif first == "worldbody":
        slots["bottom"] += here
    elif first in ("keyframe", "option", "compiler", "size", "statistic", "visual", "extension"):
        slots["top"] += here
    else:
        slots["bottom"] += here


def is_plain(element):
    return element.split("/")[0] in ("option", "compiler", "size", "statistic", "visual", "keyframe", "extension", "custom")


def value_of(element, attribute):
    if (element, attribute) in VALUES_AT:
        return VALUES_AT[element, attribute]
    own = element.startswith("visual") or element == "option/flag"
    return default_value(element) if own else VALUES.get(attribute, default_value(element))


def default_value(element):
    if element == "option/flag":
        return "disable"
    if element == "visual/rgba":
        return "1 0 0 1"
    if element == "visual/headlight":
        return ".3 .3 .3"
    return {"compiler": "true", "size": "2", "visual/map": ".5", "visual/scale": ".5"}.get(element, "2")
