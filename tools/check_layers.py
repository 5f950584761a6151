#!/usr/bin/env python3
"""A layer includes only itself and the layers above it in this list; anything else is named and fails."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LAYERS = ["base", "number", "math", "linalg", "sparse", "mesh", "model", "geometry", "energy", "barrier", "deform", "multibody",
          "contact", "solve", "lcp", "fluid", "mpm", "world", "rollout", "optimize", "control", "io", "cli"]
# The layer "model" has no folder: what a compiled model consists of is data that every kernel reads. These headers of
# world/ declare it and have no code of the world behind them.
MODEL_DATA = {"world/model_fields.h", "world/model.h", "world/par.h", "world/topology.h"}
# Public headers belong to the layer they are about; those of the model and the world declare types that kernels name.
PUBLIC = {"base": "base", "model": "model", "contact": "model", "world": "model", "spec": "model", "rollout": "rollout", "energy": "energy", "deform": "deform", "materials": "energy", "mesh": "mesh", "lcp": "lcp", "sweeps": "lcp",
          "optimize": "optimize", "control": "control", "io": "io", "array": "io", "task": "io", "pullback": "cli"}
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.M)


def layer_of(path):
    parts = path.relative_to(ROOT).parts
    if "/".join(parts[1:]) in MODEL_DATA:
        return "model"
    return parts[1] if parts[0] == "src" else parts[0]


def target_layer(quote, name, folder):
    """Layer an include leads to; None for a system header."""
    public = re.fullmatch(r"pullback/(\w+)\.h", name)
    if public:
        return PUBLIC.get(public[1], "unknown public header")
    if quote == "<":
        return None
    full = name if "/" in name else f"{folder}/{name}"  # without a folder: a neighbour, or made by the build
    return "model" if full in MODEL_DATA else full.split("/")[0]


def faults(path):
    layer = layer_of(path)
    if layer not in LAYERS:
        yield f"{path.relative_to(ROOT)}: the folder {layer} is no layer (tools/check_layers.py lists them)"
        return
    text = path.read_text()
    for found in INCLUDE.finditer(text):
        target = target_layer(found[1], found[2], path.parent.name)
        if target is None:
            continue
        line = text.count("\n", 0, found.start(2)) + 1
        if target not in LAYERS:
            yield f"{path.relative_to(ROOT)}:{line}: {found[2]}: {target} is no layer"
        elif LAYERS.index(target) > LAYERS.index(layer):
            yield f"{path.relative_to(ROOT)}:{line}: {layer} must not include {found[2]} ({target} comes after it)"


def main():
    files = [f for top in ("src", "io", "cli") for f in sorted((ROOT / top).rglob("*.[ch]"))]
    found = [fault for f in files for fault in faults(f)]
    print(*found, sep="\n", end="\n" if found else "")
    print(f"{len(files)} files, {len(found)} includes against the order of layers")
    return 1 if found or not files else 0


if __name__ == "__main__":
    sys.exit(main())
