"""The pages of the robots of robots.py, opened in one browser process one after the other.

    build/venv/bin/python tests/oracle/robot_pages.py [NAME...]       a part of make check-robots

Of each: no error on the console, nothing asked of a network, as many triangles drawn as the shown geoms have, which for meshes is
what MuJoCo has of them. Sizes, and times to the first picture beside that of a page with one box. Exit status 1 if one falls short.
"""
import os
import statistics
import subprocess
import sys
import tempfile

import mujoco as mj
import numpy as np

import inside
import robots
from browser import Browser

MEDIAN, MOST, SLOWER = 4 << 20, 48 << 20, 5  # bytes of a page; times of the box's
BOX = '<mujoco><worldbody><body><freejoint/><geom type="box" size="0.1 0.2 0.3"/></body></worldbody></mujoco>'


def write_page(path, page, *options):
    """"" or what the program says."""
    done = subprocess.run([os.path.join(inside.build_dir(), "pullback"), "view", path, "-o", page, *options], capture_output=True, text=True, timeout=300)
    return done.stderr.strip().splitlines()[-1] if done.returncode else ""


def look(browser, page):
    """(milliseconds to the first picture, {geom: triangles}, what is wrong)"""
    browser.open(page)
    wrong = browser.errors() + browser.requests()
    if wrong:
        return 0, {}, wrong
    first, shown, drawn = browser.run("[pullback.firstFrame, pullback.shown(), pullback.drawn()]")
    shown = {g["id"]: g["triangles"] for g in shown}
    return first, shown, [] if drawn == sum(shown.values()) else [f"{drawn} triangles drawn, {sum(shown.values())} shown"]


def faces(robot):
    """How many triangles there are by geom: of meshes as MuJoCo has them, with and without those whose corners coincide, of which the ones of
    STL are not seen; of height fields by its grid, with walls and a bottom; {} where it does not load the file."""
    try:
        m = robots.quiet(lambda: mj.MjModel.from_xml_path(robot.path))
    except ValueError:
        return {}
    distinct = (np.diff(np.sort(m.mesh_face, axis=1), axis=1) > 0).all(axis=1)
    part = lambda k: slice(m.mesh_faceadr[k], m.mesh_faceadr[k] + m.mesh_facenum[k])
    out = {g: {int(m.mesh_facenum[k]), int(distinct[part(k)].sum())} for g, k in enumerate(m.geom_dataid) if m.geom_type[g] == mj.mjtGeom.mjGEOM_MESH}
    for g in np.flatnonzero(m.geom_type == mj.mjtGeom.mjGEOM_HFIELD):
        rows, columns = (int(n[m.geom_dataid[g]]) - 1 for n in (m.hfield_nrow, m.hfield_ncol))
        out[int(g)] = {2 * rows * columns + 4 * (rows + columns) + 2}
    return out


def check(browser, robot, folder):
    """(bytes, milliseconds, triangles, what is wrong), or the reason why it is refused."""
    page = os.path.join(folder, "robot.html")
    refused = write_page(robot.path, page, "--allow-root", robot.allow_root)
    if refused:
        return refused
    first, shown, wrong = look(browser, page)
    if robot.path.endswith(".xml"):
        wrong += [f"geom {g} has {shown[g]} triangles, in MuJoCo {sorted(n)}" for g, n in faces(robot).items() if g in shown and shown[g] not in n]
    return os.path.getsize(page), first, sum(shown.values()), wrong


def sweep(chosen, say=print):
    """What falls short, as sentences."""
    short, sizes, ratios, refused = [], [], [], 0
    with tempfile.TemporaryDirectory() as folder:
        box = os.path.join(folder, "box.html")
        with open(os.path.join(folder, "box.xml"), "w") as f:
            f.write(BOX)
        assert not write_page(f.name, box)
        browser = Browser()
        try:
            look(browser, box)  # what the browser does once
            for robot in chosen:
                found = check(browser, robot, folder)
                if isinstance(found, str):
                    refused += 1
                    continue
                size, first, triangles, wrong = found
                ratios.append(first / look(browser, box)[0])
                sizes.append(size)
                say(f"{robot.name:70s} {size / (1 << 20):6.1f} MiB  {triangles:8d} triangles  first picture {first:6.0f} ms, {ratios[-1]:.1f} of a box's  {'; '.join(wrong)[:200]}")
                short += [f"{robot.name}: {w}" for w in wrong]
        finally:
            browser.close()
    if not sizes:
        return short
    say(f"{len(sizes)} pages ({refused} models are refused): {statistics.median(sizes) / (1 << 20):.2f} MiB in the median, {max(sizes) / (1 << 20):.1f} at most; "
        f"first picture after {statistics.median(ratios):.2f} of a box's time in the median, {max(ratios):.1f} at most")
    if statistics.median(sizes) > MEDIAN or max(sizes) > MOST:
        short.append("pages are too large")
    if statistics.median(ratios) > SLOWER:
        short.append("pages are too slow")
    return short


def main():
    chosen = [r for r in robots.mjcf() + robots.urdf() if not sys.argv[1:] or any(n in r.name for n in sys.argv[1:])]
    short = sweep(chosen)
    print(*short, sep="\n")
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
