"""What stands in for jansson and libpng where the Python package is built without them (python/without), beside these libraries: the same
values, the same text, the same errors. tools/check_sources.py does it with a whole package."""
import os
import pathlib
import random
import struct
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "python"))
from broken_files import SEEDS, TEXTS, broken, picture  # noqa: E402

BUILD = os.environ.get("PULLBACK_BUILD", ROOT / "build" / "release")
HERE = pathlib.Path(__file__).parent / "stand_ins"
WITHOUT = ROOT / "python" / "without"


def answers(program, records):
    done = subprocess.run([program], input=b"".join(struct.pack("<I", len(r)) + r for r in records), capture_output=True)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    return done.stdout.splitlines()


def both(folder, name, library, *sources, own=()):
    """The program of a library and that of what stands in for it, below the sanitizers."""
    flags = ["-O1", "-g", "-D_GNU_SOURCE", "-Wall", "-Werror", *(f"-I{ROOT}/{part}" for part in ("src", ".", "include")), HERE / f"{name}.c", *sources]
    stands_in = [f"-I{WITHOUT / library}", *sorted((WITHOUT / library).glob("*.c")), *own, "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    for program, more in ((name, []), (f"own_{name}", stands_in)):
        subprocess.run(["cc", *more, *flags, f"{BUILD}/libpullback.a", *(f"-l{x}" for x in ("png", "z", "expat", "jansson", "qhull_r", "m")), "-o", folder / program], check=True)
    return folder / name, folder / f"own_{name}"


def test_json(tmp_path):
    rng = random.Random(1)
    whole = [p.read_bytes() for p in [*SEEDS.glob("json/*.json"), *ROOT.glob("examples/**/*.json")]]
    numbers = [b"[1.5e-300,1e22,1e16,1e17,123456789012345678.0,0.1,1e-5,1e-4,5e-324,-0,-0.0,9223372036854775807,-9223372036854775808,1e308]",
               '["\\u0001\\u001f\\"\\\\\\/\\b\\f\\n\\r\\t\x7f\u20ac\U0001f600\\ud834\\udd1e"]'.encode(), b'{"b":1,"a":{"d":[],"c":{}},"b":[[1,2],[]]}']
    texts = [text for kind, _, text in TEXTS if kind == "task"]
    nested = [o * n + c * n for o, c in ((b"[", b"]"), (b'{"a":', b"}")) for n in (2047, 2048, 2049)] + [b"[" * 100000]
    cases = [*whole, *numbers, *texts, *nested]
    for text in [t for t in whole if len(t) < 10000] + 20 * (texts + numbers):
        cases += [broken(text, rng) for _ in range(4)]
    library, own = both(tmp_path, "json", "jansson", own=[ROOT / "io" / "json" / "read.c"])
    expected, found = answers(library, cases), answers(own, cases)
    assert len(expected) > len(cases) and found == expected


def test_pictures(tmp_path):
    rng = random.Random(2)
    cases = [p.read_bytes() for p in SEEDS.glob("png/*.png")] + [b"", b"\x89PNG\r\n\x1a\n"]
    for _ in range(700):
        made = picture(rng)
        cases += [made, broken(made, rng)]
    library, own = both(tmp_path, "png", "png", f"{ROOT}/io/image/png.c")
    expected, found = answers(library, cases), answers(own, cases)
    assert found == expected and sum(not line.startswith(b"x:") for line in expected) > 300
