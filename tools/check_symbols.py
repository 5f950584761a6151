#!/usr/bin/env python3
"""Only pb* is exported by the shared libraries, and the static ones define nothing else that could clash with a user's names. No name
is in two of them: the library of complementarity problems exports its own functions alone, and the engine none of them.

  tools/check_symbols.py SHARED STATIC LCP_SHARED LCP_STATIC
"""
import re
import subprocess
import sys

SANITIZER = re.compile(r"^(__asan|__ubsan|__tsan|__odr_asan|__llvm|__gcov|_init$|_fini$|__sancov|__start_|__stop_)")
LCP = re.compile(r"^pb(Lcp|Cones|Pgs)")


def defined(path, *options):
    out = subprocess.run(["nm", *options, "--defined-only", "-g", path], check=True, capture_output=True, text=True).stdout
    return {parts[2].split("@")[0] for parts in map(str.split, out.splitlines()) if len(parts) == 3}


def names(path, *options):
    return {s for s in defined(path, *options) if not SANITIZER.match(s)}


def main(shared, static, lcp_shared, lcp_static):
    engine, lcp = names(shared, "-D"), names(lcp_shared, "-D")
    exported, inside = engine | lcp, names(static) | names(lcp_static)
    strange = sorted(s for s in exported if not s.startswith("pb")) + sorted(s for s in inside if not s.startswith("pb"))
    variants = sorted(s for s in exported if re.search(r"_(r|c|v3|v4|one|lanes)$", s) and not s.startswith("pb_asset_"))  # files' names
    astray = sorted(s for s in lcp if not LCP.match(s)) + sorted(s for s in engine if LCP.match(s)) + sorted(names(static) & names(lcp_static))
    for name in astray:
        print(f"{name}: in the wrong library, or in two")
    for name in strange:
        print(f"{name}: a global name without the prefix pb")
    for name in variants:
        print(f"{name}: a kernel that should not be exported")
    print(f"{len(exported)} exported names, {len(lcp)} of them by the library of complementarity problems, {len(inside)} global ones inside")
    return 1 if strange or variants or astray or "pbVersion" not in engine or "pbLcp_Solve" not in lcp else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
