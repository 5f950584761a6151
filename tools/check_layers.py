#!/usr/bin/env python3
"""Layers: a folder includes and calls only itself and the folders before it in LAYERS; the program and the examples use what is public.

  tools/check_layers.py                 the includes
  tools/check_layers.py BUILD           and the calls: undefined symbols of the object files in a build folder; and how many files call each other in
                                        circles, which happens within folders alone: at most MOST_IN_CIRCLES
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LAYERS = ["elementary", "base", "lcp", "probe", "number", "math", "linalg", "sparse", "mesh", "energy", "barrier", "deform", "policy", "model", "geometry", "eval", "multibody",
          "contact", "bodies", "solve", "compile", "step", "impact", "couple", "world", "rollout", "check", "batch", "control", "optimize", "learn", "io", "cli", "python", "examples"]
# The layer to which the types of a public header belong.
PUBLIC = {"base": "base", "random": "base", "build": "base", "pool": "base", "batch": "batch", "mesh": "mesh", "solid": "compile", "energy": "energy", "materials": "energy", "deform": "deform", "model": "base", "contact": "base",
          "world": "base", "ledger": "base", "policy": "base", "enums": "base", "equalities": "base", "sensors": "base", "actuators": "base", "spec": "base", "edit": "base", "lcp": "lcp", "pgs": "lcp", "rollout": "rollout", "check": "check",
          "optimize": "optimize", "control": "optimize", "learn": "learn", "audit": "optimize", "io": "io", "array": "io", "json": "io", "describe": "io", "trajectory": "io", "view": "io", "task": "io", "pullback": "cli"}
# Libraries beside the engine: nothing of it may use them, only examples.
BESIDE = {"lcp"}
# Clients: nothing but public headers and those of their own folder; of the library's symbols only exported ones.
CLIENTS = {"cli", "python", "examples"}
MOST_IN_CIRCLES = 100
MACHINES = {f + kind for kind in ("", "f", "l") for f in (
    "acos acosh asin asinh atan atan2 atanh cbrt cos cosh erf erfc exp exp10 exp2 expm1 gamma hypot j0 j1 jn lgamma log log10 "
    "log1p log2 pow pow10 sin sincos sinh tan tanh tgamma y0 y1 yn cabs cacos cacosh carg casin casinh catan catanh ccos ccosh "
    "cexp clog clog10 cpow csin csinh csqrt ctan ctanh").split()} - {"atan2f"}  # MuJoCo's field of view, of the same function
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.M)


def folder_of(path):
    """Layer of a source file, given relative to the root."""
    return path.parts[1] if path.parts[0] == "src" else path.parts[0]


def included(quote, name, folder):
    """Layer to which an include leads; None for a system header."""
    public = re.fullmatch(r"pullback/(\w+)\.h", name)
    if public:
        return PUBLIC.get(public[1], f"no layer is known of {name}")
    if quote == "<":
        return None
    return name.split("/")[0] if "/" in name else folder


def upward(layer, target):
    return LAYERS.index(target) > LAYERS.index(layer) or (target in BESIDE and layer not in (target, "examples"))


def where(target):
    return f"{target} is beside the engine" if target in BESIDE else f"{target} comes after it"


def wrong_includes(path):
    layer, text = folder_of(path.relative_to(ROOT)), path.read_text()
    if layer not in LAYERS:
        yield f"{path.relative_to(ROOT)}: {layer} is no layer (tools/check_layers.py lists them)"
        return
    for found in INCLUDE.finditer(text):
        target = included(found[1], found[2], layer)
        place = f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, found.start(2)) + 1}"
        if layer in CLIENTS and found[1] == '"' and not (path.parent / found[2]).is_file():
            yield f"{place}: {layer} must not include {found[2]}: only <pullback/...> and its own headers"
        elif target is not None and target not in LAYERS:
            yield f"{place}: {found[2]}: {target} is no layer"
        elif target is not None and upward(layer, target):
            yield f"{place}: {layer} must not include {found[2]} ({where(target)})"


def source_of(path):
    """Source file of an object, given without its suffix."""
    target, source = re.search(r"CMakeFiles/(\w+)\.dir/(.*)", path).groups()
    return f"examples/{source}.c" if target.startswith("example_") else f"{source}.c"


def exported(build):
    """What the shared libraries offer, that of the engine and those beside it that are built."""
    library, beside = build / "libpullback.so", [build / f"libpullback_{b}.so" for b in BESIDE]
    if not library.is_file():
        return None
    table = subprocess.run(["nm", "-D", "--defined-only", library, *(b for b in beside if b.is_file())], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1] for line in table.splitlines() if line.count(" ") >= 2}


def symbols(build):
    """(defined: symbol -> source, wanted: source -> symbols) of the objects of the library, the program and the examples."""
    defined, wanted = {}, {}
    own = (p for p in build.rglob("*.o") if p.relative_to(build).parts[0] != "engine")  # a build of its own
    objects = [str(p) for p in own if re.search(r"CMakeFiles/(pullback_\w+\.dir/(src|io|cli|lcp)|example_)", str(p))]
    if not objects:
        return defined, wanted
    for line in subprocess.run(["nm", "-A", *objects], capture_output=True, text=True, check=True).stdout.splitlines():
        path, rest = line.split(".c.o:", 1)
        source, (*_, kind, name) = source_of(path), rest.split()
        if not (ROOT / source).exists():  # left behind by a file that has moved
            continue
        if kind == "U":
            wanted.setdefault(source, set()).add(name)
        elif kind in "TDRBVW":
            defined[name] = source
    return defined, wanted


def other_functions(wanted):
    """What computes calls no function of the C library's whose last bits depend on the machine."""
    for source, names in sorted(wanted.items()):
        for name in sorted(names & MACHINES):
            if folder_of(pathlib.Path(source)) not in CLIENTS:
                yield f"{source}: calls {name} of the C library, of which src/elementary has our own"


def wrong_calls(build):
    defined, wanted = symbols(build)
    yield from other_functions(wanted)
    if not defined:
        yield f"{build}: no object files of the library"
    public = exported(build)
    if defined and public is None:
        yield f"{build}: no libpullback.so"
        public = set()
    for source, names in sorted(wanted.items()):
        layer = folder_of(pathlib.Path(source))
        for name in sorted(n for n in names if n in defined):
            target = folder_of(pathlib.Path(defined[name]))
            if layer in CLIENTS and target != layer and name not in public:
                yield f"{source}: {layer} must not call {name} ({defined[name]}): the library does not export it"
            elif upward(layer, target):
                yield f"{source}: {layer} must not call {name} ({defined[name]}: {where(target)})"


def circles(build):
    """Lists of sources that call each other, each from each: strongly connected components (Kosaraju's two walks)."""
    defined, wanted = symbols(build)
    calls = {a: {defined[n] for n in names if n in defined} - {a} for a, names in wanted.items()}
    callers = {}
    for a, targets in calls.items():
        for b in targets:
            callers.setdefault(b, set()).add(a)

    def walk(graph, start, seen):
        """All that is reached from a source and not seen yet, what is left last behind."""
        order, open_ends = [], [(start, iter(graph.get(start, ())))]
        seen.add(start)
        while open_ends:
            at, ends = open_ends[-1]
            following = next((b for b in ends if b not in seen), None)
            if following is None:
                order.append(open_ends.pop()[0])
            else:
                seen.add(following)
                open_ends.append((following, iter(graph.get(following, ()))))
        return order

    seen, order = set(), []
    for a in calls:
        order += walk(calls, a, seen) if a not in seen else []
    seen = set()
    found = [walk(callers, a, seen) for a in reversed(order) if a not in seen]
    return sorted((sorted(part) for part in found if len(part) > 1), key=len, reverse=True)


def main():
    files = [f for top in ("src", "lcp", "io", "cli", "python", "examples") for f in sorted((ROOT / top).rglob("*.[ch]"))]
    found = [fault for f in files for fault in wrong_includes(f)]
    for build in sys.argv[1:]:
        found += wrong_calls(pathlib.Path(build))
        rings = circles(pathlib.Path(build))
        inside = sum(map(len, rings))
        print(f"{build}: {inside} files call each other in {len(rings)} circles; at most {MOST_IN_CIRCLES}")
        if inside > MOST_IN_CIRCLES:
            found += [f"a circle of {len(ring)} files: {', '.join(ring)}" for ring in rings]
    print(*found, sep="\n", end="\n" if found else "")
    print(f"{len(files)} files, {len(found)} includes{' and calls' if sys.argv[1:] else ''} against the order of layers")
    return 1 if found or not files else 0


if __name__ == "__main__":
    sys.exit(main())
