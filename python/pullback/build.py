"""How this package was built."""
from __future__ import annotations

from typing import TypedDict

from . import _core


class BuildInfo(TypedDict):
    """What build_info gives."""
    version: str                       # of Pullback
    abi: int                           # number of the C library's interface
    compiler: str
    kernels: list[str]                 # that this processor can run, those in use first: "v4" (AVX-512), "v3" (AVX2), "r" (any)
    hulls: bool                        # False: meshes that touch others, which need their convex hulls, are refused
    viewer: str | None                 # what draws pages: "three.js r168, SHA-256 ..."; None: Debian's is looked for when one is written
    libraries: dict[str, str | None]   # versions of those built with, or what stands in for them; None: nothing does


def _of_python(name: str) -> str | None:
    """What stands in for a library that was not there."""
    if name == "expat":
        import pyexpat
        return "Python's own " + pyexpat.EXPAT_VERSION.removeprefix("expat_")
    if name == "zlib":
        import zlib
        return "Python's own " + zlib.ZLIB_RUNTIME_VERSION
    return None if name == "qhull" else "Pullback's own"


def build_info() -> BuildInfo:
    """Version, interface number, compiler, kernels, and the libraries that the package was built with.

    Where expat, jansson, zlib or libpng were not there at build time Python's own expat and zlib and small readers stand in for them, with
    the same limits and messages; without qhull `hulls` is False. Nothing here changes what is computed.
    """
    build = _core.build()
    given = dict(part.split("=") for part in str(build["libraries"]).split())
    return {"version": _core.version, "abi": build["abi"], "compiler": build["compiler"], "kernels": build["kernels"],
            "hulls": build["hulls"], "viewer": build["viewer"],
            "libraries": {name: version or _of_python(name) for name, version in given.items()}}
