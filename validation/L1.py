"""Random contact problems with friction

Random contact problems with Coulomb friction as complementarity problems: how many are solved, and how well."""
import os
import re
import subprocess

from common import below, row
import inside

COUNT = int(os.environ.get("L1_COUNT", 10000))  # of the first row; the case wants 10 000


def run(*arguments):
    text = subprocess.run([os.path.join(inside.build_dir(), "bench", "lcp"), *map(str, arguments)], capture_output=True, text=True).stdout
    number = r"([-+.e\d]+)"
    found = re.match(r"solved (\d+) of (\d+) \((\d+) by the path\), factorizations " + number + r" \(at most \d+\), " + number + " ms", text)
    errors = re.search("complementarity " + number + ", stationarity " + number + ", joints " + number, text)
    return [int(x) for x in found.groups()[:3]] + [float(x) for x in found.groups()[3:]], [float(x.rstrip(".")) for x in errors.groups()]


def rows():
    subprocess.run(["cmake", "--build", inside.build_dir(), "--target", "bench_lcp"], check=True, capture_output=True)
    out = []
    for what, required, arguments in (
            ("friction up to .5, up to 60 contacts", 0.999, (0, -60, COUNT, 0, 0.5, 1)),
            ("friction .5 to 1, up to 60 contacts", None, (0, -60, COUNT // 10, 0.5, 1, 2)),
            ("friction 1 to 2, up to 60 contacts", None, (0, -60, COUNT // 10, 1, 2, 3)),
            ("friction up to .5, 50 contacts in the plane", 0.999, (2, 50, COUNT // 50, 0, 0.5, 4)),
            ("Coulomb's cone, friction up to .5, up to 40 contacts", 0.999, (3, -40, COUNT // 10, 0, 0.5, 5, "cones"))):
        (solved, count, path, factorizations, ms), (complementarity, _, joints) = run(*arguments)
        out.append(row(f"{what}: solved of {count}", f"{solved}", f">= {required:.1%}" if required else "reported",
                       solved >= (required or 0) * count))
        out.append(row(f"{what}: by the path, mean factorizations, ms", f"{path}, {factorizations:.1f}, {ms:.2f}", "reported", True))
        out.append(below(f"{what}: complementarity by its scale, worst", complementarity, 1e-9))
        out.append(below(f"{what}: joints' residual, worst", joints, 1e-10))
    return out
