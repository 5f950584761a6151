"""Every pullback of the engine's lists emptied and halved, in one build (PULLBACK_MUTATE, src/base/mutate.h): the tests that stand
for them must see each. Prints how many entries of each list there are and what was not seen; exit 1 if anything was not.

    python3 tools/mutate_pullbacks.py [--table FILE.csv]     the table: list, entry, scene, red
"""
import argparse
import collections
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "mutate"
# The test, and the cases in it that go through a list.
TESTS = ["conformance_test_lists", "conformance_test_policy", "unit_test_builtin", "unit_test_barrier", "unit_test_network",
         "unit_test_task_terms", "unit_test_deform"]
ROW = re.compile(r"^[a-z]+,.*,(red|GREEN)$")


def build():
    for command in (["cmake", "--preset", "mutate"], ["cmake", "--build", str(BUILD), "--target", *TESTS]):
        made = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if made.returncode:
            sys.exit(made.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", metavar="FILE.csv")
    arguments = parser.parse_args()
    build()

    start, rows, failed = time.time(), [], []
    for test in TESTS:
        done = subprocess.run([BUILD / "tests" / test], cwd=ROOT / "tests", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        found = [line for line in done.stdout.splitlines() if ROW.match(line)]
        rows += found
        if done.returncode or not found:
            failed.append(test)
            print("\n".join(line for line in done.stdout.splitlines() if "ERROR" in line or "GREEN" in line) or f"{test}: no entries")

    counts = collections.Counter(row.split(",")[0] for row in rows)
    print(", ".join(f"{count} of list '{kind}'" for kind, count in counts.items()))
    print(f"{len(rows)} pullbacks emptied and halved, {sum(row.endswith('GREEN') for row in rows)} not seen, {time.time() - start:.0f} s")
    if arguments.table:
        pathlib.Path(arguments.table).write_text("list,entry,scene,seen\n" + "\n".join(rows) + "\n")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
