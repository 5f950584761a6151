#!/usr/bin/env python3
"""python/pullback/spec.pyi: what type checkers and completion know of specs, out of the library's table of kinds and fields.

  tools/spec_types.py BUILD [--check]   writes it; --check: says whether it is up to date
"""
import pathlib
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
STUB = ROOT / "python" / "pullback" / "spec.pyi"
HEAD = '''"""Specs as type checkers see them. Made by tools/spec_types.py out of the library's table; what each field is, its docstring says."""
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, Literal, NoReturn, Protocol, Self, TypeAlias, TypedDict, TypeVar, overload

import numpy as np
import numpy.typing as npt
from typing_extensions import Unpack

from .arrays import Array, ArrayLike
from .model import Described, Folders, Model

_Ints: TypeAlias = npt.NDArray[np.intc]
_E = TypeVar("_E", bound=Element, covariant=True)
_G = TypeVar("_G", covariant=True)
_S = TypeVar("_S", contravariant=True)

class _Field(Protocol[_G, _S]):
    def __get__(self, element: object, owner: type | None = None, /) -> _G: ...
    def __set__(self, element: Any, value: _S, /) -> None: ...

KINDS: list[str]

'''
RECORD = '''class Record:
    kind: str
    @property
    def spec(self) -> Spec: ...
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...

class Element(Record):
    name: str
    @property
    def place(self) -> str: ...
    @property
    def index(self) -> int: ...
    def update(self, **fields: Any) -> None: ...
    def remove(self) -> None: ...

class Settings(Record): ...

class Elements(Generic[_E]):
    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, which: int | str) -> _E: ...
    @overload
    def __getitem__(self, which: slice) -> list[_E]: ...
    def __iter__(self) -> Iterator[_E]: ...
    def __contains__(self, thing: object) -> bool: ...

'''
SPEC = '''class Spec(Record):
    def __init__(self) -> None: ...
    @classmethod
    def load(cls, path: str | os.PathLike[str], *, allow_root: Folders = (), package_path: Folders = (), floating_base: bool = False, fuse: bool = False,
             motors: bool = False, inertia: str = "refuse", missing_meshes: str = "refuse", design: bool = False,
             xacro: bool | Mapping[str, object] = False) -> Self: ...
    @classmethod
    def from_string(cls, text: str, assets: Mapping[str, bytes | str] | None = None, *, name: str = "model.xml", floating_base: bool = False,
                    fuse: bool = False, motors: bool = False, inertia: str = "refuse", missing_meshes: str = "refuse", design: bool = False) -> Self: ...
    def copy(self) -> Self: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: Any) -> Self: ...
    @property
    def warnings(self) -> tuple[str, ...]: ...
    @property
    def worldbody(self) -> Body: ...
    def remove(self, element: Element) -> None: ...
    def attach(self, other: Spec, prefix: str = "", *, to: Body | Frame | None = None, **fields: Unpack[FrameFields]) -> Frame: ...
    def compile(self, *, options: Mapping[str, object] | None = None, contact: Mapping[str, object] | None = None, deformables: Described = None,
                policy: Described = None, expose: str | Sequence[str] = ()) -> Model: ...
'''


# Names of types of words, by the words; of the kinds by number.
WORDS, KINDS_OF = {}, []


def literal(name, words):
    lines = textwrap.wrap(", ".join(f'"{w}"' for w in words), 140)
    return f"{name}: TypeAlias = Literal[" + "\n    ".join(["", *lines] if len(lines) > 1 else lines) + "]\n"


def types(field, spec):
    """(what reading gives, what writing takes) as texts of Python."""
    if field.words:
        if field._tristate:
            return ("bool | Literal['auto']",) * 2
        name = f"_{KINDS_OF[field.kind].title()}{field.name.title().replace('_', '')}"
        return (WORDS.setdefault(tuple(field.words), name),) * 2
    if field.refers >= 0:
        kind = spec.KINDS[field.refers].title()
        bare = "" if field.member in ("body", "parent") and spec.KINDS[field.refers] == "body" else " | None"
        return (kind + bare,) * 2
    plain = {spec._BOOL: "bool", spec._TEXT: "str", spec._LETTERS: "str"}
    if field.type in plain:
        return (plain[field.type],) * 2
    if field.type == spec._PAIRS:
        return "dict[str, str]", "Mapping[str, str]"
    if field.type in (spec._PATH, spec._ENTRIES):
        part = "WrapFields" if field.type == spec._PATH else "EntryFields"
        return f"list[{part}]", f"Iterable[{part}]"
    if field.count == 1:
        return ("int",) * 2 if field.type == spec._INT else ("float", "float | None" if field.optional else "float")
    return "_Ints" if field.type in (spec._INT, spec._INTS) else "Array", "ArrayLike | None" if field.optional else "ArrayLike"


def text(spec):
    KINDS_OF[:] = spec.KINDS
    out = []
    for kind in [*spec._LISTS, "wrap", "entry"]:
        fields = spec._fields_of(kind)
        turns = [n for n in spec._CLASSES[kind]._settable if n not in fields] if kind in spec._CLASSES else []
        out.append(f"class {kind.title()}Fields(TypedDict, total=False):\n")
        out += [f"    {f.name}: {types(f, spec)[1]}\n" for f in fields.values()]
        out += [f"    {name}: ArrayLike\n" for name in sorted(turns)] + ["\n"]
    out.append(RECORD)
    for kind, made in spec._CLASSES.items():
        out.append(f"class {kind.title()}({'Element' if kind in spec._LISTS else 'Settings'}):\n")
        out += members(made._fields.values(), spec, skip=("name",) if kind in spec._LISTS else ())
        out += [f"    {name}: _Field[Array | None, ArrayLike]\n" for name in sorted(n for n in made._settable if n not in made._fields)]
        if kind in ("body", "frame"):
            out += [f"    def add_{k}(self, **fields: Unpack[{k.title()}Fields]) -> {k.title()}: ...\n" for k in [*spec._IN_TREE, "body"]]
            out.append('    def attach(self, other: Spec, prefix: str = "", **fields: Unpack[FrameFields]) -> Frame: ...\n')
        out.append("\n")
    out.append(SPEC)
    out += members(spec._fields_of("spec").values(), spec)
    for kind in spec._SETTINGS:
        out.append(f"    @property\n    def {kind}(self) -> {kind.title()}: ...\n")
    for kind, name in spec._LISTS.items():
        title = kind.title()
        out.append(f"    @property\n    def {name}(self) -> Elements[{title}]: ...\n    def {kind}(self, name: int | str) -> {title}: ...\n"
                   f"    def add_{kind}(self, **fields: Unpack[{title}Fields]) -> {title}: ...\n")
    out.append("    def __reduce__(self) -> NoReturn: ...\n")
    return "".join([HEAD, *(literal(name, words) for words, name in WORDS.items()), "\n", *out])


def members(fields, spec, skip=()):
    for f in fields:
        if f.name not in skip:
            read, written = types(f, spec)
            yield f"    {f.name}: {read if read == written else f'_Field[{read}, {written}]'}\n"


def main():
    sys.path.insert(0, str(pathlib.Path(sys.argv[1]) / "python"))
    from pullback import spec
    if "--check" not in sys.argv:
        STUB.write_text(text(spec), encoding="utf-8")
    elif STUB.read_text(encoding="utf-8") != text(spec):
        sys.exit(f"{STUB.relative_to(ROOT)}: not up to date; tools/spec_types.py {sys.argv[1]} writes it")


if __name__ == "__main__":
    main()
