#!/usr/bin/env python3
"""Recipes of docs/adding.md, followed word for word in a copy of the sources: what is added is found by the tests that enumerate, which
are red while its pullback is empty.

  tools/try_recipes.py [NAME ...]   all, or those named: sensor, force, actuator, ...

A recipe is a file of tests/recipes, the folder where it goes, and its lines in lists. Of each it prints how many files are touched (the
file and the lists; a page that is made out of them, docs/parameters.md, docs/sensors.md, counts as one more) and how many objects of
the library and its tests are compiled again.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
COPY, BUILD = ROOT / "build" / "recipes" / "src", ROOT / "build" / "recipes" / "build"
TESTS = ["conformance_test_lists", "conformance_test_step"]
LISTS = {
    "sensor": ("src/bodies/sensors/joint_power.c", [
        ("include/pullback/sensors.h", '    "time, s")\n', '    "time, s") \\\n  X(pb_sensJointpower, 200, "jointpower", 1, ScalarJoint, Acceleration, Real, Late, '
         'joint_power, \\\n    "power of the actuators of a joint, W")\n')], 1, 150),
    "force": ("src/bodies/forces/drag.c", [
        ("src/bodies/forces.h", "  X(damper, Dampers)               \\\n", "  X(damper, Dampers)               \\\n  X(drag, Dampers)                 \\\n"),
        ("src/model/term_fields.h", '  X(actuator_speed, nu, 1,', '  X(dof_drag, nv, 1, "N|N m", Nonnegative, Free, Smooth, Own, 0, Ours, \\\n'
         '    "drag that it nears at great velocities") \\\n  X(actuator_speed, nu, 1,')], 1, 250),
    "actuator": ("src/bodies/actuators/quadratic.c", [
        ("include/pullback/actuators.h", 'X(pb_biasMuscle, 2, "muscle", muscle)', 'X(pb_biasMuscle, 2, "muscle", muscle) \\\n'
         '  X(pb_biasQuadratic, 200, "quadratic", quadratic)')], 0, None),
    "equality": ("src/bodies/rows/yoke.c", [
        ("include/pullback/equalities.h", 'tendon\'s length is a polynomial of the second\'s, or a number; both less those at rest")\n',
         'tendon\'s length is a polynomial of the second\'s, or a number; both less those at rest") \\\n  X(pb_eqYoke, 100, "yoke", Joints, yoke, \\\n'
         '    "a pin on the second joint moves the first in a slot: x1 = c0 + c1 sin(x2), both less those at rest")\n')], 1, None),
}
# Statements of a pullback that add to cotangents.
ADDS = re.compile(r"^( +)(?:a->\w+\[.*\] [-+]?= .*|PB_(?:TERM_)?THETA\(.*\)|\*\w+ [-+]= .*);$", re.M)


def run(*command, cwd=ROOT):
    return subprocess.run([str(c) for c in command], cwd=cwd, capture_output=True, text=True)


def checked(*command, cwd=ROOT):
    done = run(*command, cwd=cwd)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}:\n{done.stdout[-4000:]}{done.stderr[-2000:]}")
    return done.stdout


def pristine():
    """The copy as the sources are; only what differs is written, so that little is built again."""
    files = checked("git", "ls-files", "-co", "--exclude-standard").split("\n")[:-1]
    wanted = {pathlib.Path(f) for f in files if (ROOT / f).is_file()}
    for old in [p for p in COPY.rglob("*") if p.is_file() and p.relative_to(COPY) not in wanted]:
        old.unlink()
    for f in wanted:
        to = COPY / f
        if not to.is_file() or to.read_bytes() != (ROOT / f).read_bytes():
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / f, to)


def build():
    checked("cmake", "-S", COPY, "-B", BUILD, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DPULLBACK_TESTS=ON", "-DPULLBACK_BENCH=OFF")
    checked("ninja", "-C", BUILD)


def outcome():
    """test -> whether it passed."""
    return {name: run(BUILD / "tests" / name, cwd=COPY / "tests").returncode == 0 for name in TESTS}


def follow(name):
    place, lines, pages, most = LISTS[name]
    pristine()
    build()
    for path, old, new in lines:
        text = (COPY / path).read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{path}: {old!r} does not stand there once"
        (COPY / path).write_text(text.replace(old, new), encoding="utf-8")
    file = COPY / place
    whole = (ROOT / "tests" / "recipes" / file.name).read_text(encoding="utf-8")
    file.write_text(whole, encoding="utf-8")

    checked("cmake", BUILD)
    before = time.time()
    checked("ninja", "-C", BUILD)
    objects = sum(p.stat().st_mtime > before for p in BUILD.rglob("*.o"))
    added = outcome()

    empty, count = ADDS.subn(r"\1(void)0;", whole)
    assert count, f"{place}: no statement of its pullback was found"
    file.write_text(empty, encoding="utf-8")
    checked("ninja", "-C", BUILD)
    emptied = outcome()

    files = 1 + len(lines) + pages
    right = all(added.values()) and not any(emptied.values()) and files <= 4 and (most is None or objects <= most)
    print(f"{name}: {files} files, {objects} objects{f' of at most {most}' if most else ''}; " +
          "; ".join(f"{test} {'holds' if added[test] else 'FAILS'}, with an empty pullback {'HOLDS' if emptied[test] else 'fails'}" for test in TESTS))
    return right


def main():
    names = sys.argv[1:] or list(LISTS)
    if any(n not in LISTS for n in names):
        sys.exit(__doc__)
    os.environ.setdefault("CCACHE_BASEDIR", str(COPY))
    bad = [name for name in names if not follow(name)]
    if bad:
        sys.exit(f"not as the recipe says: {', '.join(bad)}")


if __name__ == "__main__":
    main()
