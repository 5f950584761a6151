#!/usr/bin/env python3
"""The compiler sees a kernel whose signature changed (src/number/kernel_table.h).

Every kernel that a table of variants lists gets one more parameter in a copy of its header. Then its definition must not compile, in
the baseline and in a wider variant, and neither must any call of it through the table.

  tools/check_kernels.py [COMPILER]
"""
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SRC = ROOT / "src"
ENTRY = re.compile(r"\bX\((\w+), (pb\w+), ##__VA_ARGS__\)|PB_KERNEL_DECLARE\((\w+), (pb\w+)\)")
WIDE, LANES = "-DPB_NUMBER_SUFFIX=_v3", "-DPB_LANES=2"


def listed():
    """(member of a table, name of its kernel without lanes and variant)"""
    found = [m.groups() for f in sorted(SRC.rglob("*.[ch]")) for m in ENTRY.finditer(f.read_text())]
    return {(a or c, re.sub(r"_(one|lanes)$", "", b or d)) for a, b, c, d in found}


def with_parameter(text, kernel):
    """The text of a header with one more parameter of a kernel it declares; None where it declares none of that name."""
    found = re.search(rf"\b(?:NUM|LANE)\({kernel}\)\(([^;]*)\);", text)
    if not found:
        return None
    old = found[1]
    return text[:found.start(1)] + ("int planted" if old == "void" else f"{old}, int planted") + text[found.end(1):]


def plant(kernels, folder):
    """Headers with all those parameters into a folder that stands before src; the kernels no header declares."""
    lost = set(kernels)
    for header in SRC.rglob("*.h"):
        text = before = header.read_text()
        for kernel in sorted(kernels):
            changed = with_parameter(text, kernel)
            if changed:
                text = changed
                lost.discard(kernel)
        if text != before:
            copy = folder / header.relative_to(SRC)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(text)
    return lost


def errors(compiler, source, *options):
    """(line in the source, message) of each error."""
    folders = [f"-I{p}" for p in (SRC, ROOT / "include", ROOT)]
    command = [compiler, "-std=gnu17", "-fsyntax-only", "-fms-extensions", "-D_GNU_SOURCE", *options, *folders, source]
    run = subprocess.run(command, capture_output=True, text=True)
    found = re.findall(rf"^{re.escape(str(source))}:(\d+):.*?\berror: (.*)$", run.stderr, re.M)
    if run.returncode and not found:
        found = [("0", run.stderr)]
    return [(int(line), message) for line, message in found]


def calls(text, members):
    """(line, member) of each call through a table."""
    for found in re.finditer(r"(?:variant|impact|kernels)->(\w+)\(", text):
        if found[1] in members:
            yield text.count("\n", 0, found.start()) + 1, found[1]


def main(compiler="cc"):
    kernels = listed()
    names, members = {k for _, k in kernels}, {m for m, _ in kernels}
    more = ["-ferror-limit=0"] if "clang" in compiler else []
    faults, definitions, called = [], 0, 0
    with tempfile.TemporaryDirectory() as folder:
        planted = [f"-I{folder}", *more]
        faults += [f"{k}: no header declares it" for k in sorted(plant(names, pathlib.Path(folder)))]
        undefined = set(names)
        for source in sorted(SRC.rglob("*.c")):
            text = source.read_text()
            here = {k for k in names if re.search(rf"\b(?:NUM|LANE)\({k}\)\([^;]*?\) \{{", text)}
            through = list(calls(text, members))
            if not here and not through:
                continue
            faults += [f"{source.relative_to(ROOT)}:{at}: as it is: {what}" for at, what in errors(compiler, source, *more)]
            lanes = [[], [LANES]] if source.name.endswith("_adjoint.c") else [[]]
            for variant in [[], [WIDE]] if here else [[]]:
                found = [e for kind in lanes for e in errors(compiler, source, *planted, *variant, *kind)]
                clashes = " ".join(what for _, what in found if "conflicting types" in what)
                faults += [f"{source.relative_to(ROOT)}: {k} compiles with another signature than its header's ({' '.join(variant)})"
                           for k in sorted(here) if not re.search(rf"\b{k}_", clashes)]
            faults += [f"{source.relative_to(ROOT)}:{line}: {member} is called with another signature than its header's"
                       for line, member in through if not any(line <= at <= line + 3 and "too few" in what for at, what in found)]
            undefined -= here
            definitions, called = definitions + len(here), called + len(through)
        faults += [f"{k}: no source defines it" for k in sorted(undefined)]
    print(*faults, sep="\n", end="\n" if faults else "")
    print(f"{len(names)} kernels with a parameter more: {definitions} definitions and {called} calls, {len(faults)} faults")
    return 1 if faults or not called else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
