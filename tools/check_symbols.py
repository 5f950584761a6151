#!/usr/bin/env python3
"""Only pb* is exported by the shared library, and the static one defines nothing else that could clash with a user's names."""
import re
import subprocess
import sys

SANITIZER = re.compile(r"^(__asan|__ubsan|__tsan|__odr_asan|__llvm|__gcov|_init$|_fini$|__sancov|__start_|__stop_)")


def defined(path, *options):
    out = subprocess.run(["nm", *options, "--defined-only", "-g", path], check=True, capture_output=True, text=True).stdout
    return {parts[2].split("@")[0] for parts in map(str.split, out.splitlines()) if len(parts) == 3}


def main(shared, static):
    exported = {s for s in defined(shared, "-D") if not SANITIZER.match(s)}
    inside = {s for s in defined(static) if not SANITIZER.match(s)}
    strange = sorted(s for s in exported if not s.startswith("pb")) + sorted(s for s in inside if not s.startswith("pb"))
    variants = sorted(s for s in exported if re.search(r"_(r|c|v3|v4|one|lanes)$", s))
    for name in strange:
        print(f"{name}: a global name without the prefix pb")
    for name in variants:
        print(f"{name}: a kernel that should not be exported")
    print(f"{len(exported)} exported names, {len(inside)} global ones inside")
    return 1 if strange or variants or "pbVersion" not in exported else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
